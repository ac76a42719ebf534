// Every cap on untrusted input, in one place (security.md §2.3). Each has its own error; each can be changed through
// the API.
#pragma once

#include <cstdint>

namespace tamis {

struct Limits {
  uint64_t metadata_bytes = uint64_t{1} << 30;
  uint64_t n_kv = 65536;
  uint64_t n_tensors = 1000000;
  uint64_t key_bytes = 65535;
  uint64_t string_bytes = uint64_t{64} << 20;
  uint64_t array_items = uint64_t{16} << 20;
  uint32_t array_depth = 4;
  uint32_t n_dims = 4;
  uint64_t tensor_name_bytes = 64;
  uint64_t alignment = uint64_t{1} << 20;
  uint64_t n_layers = 4096;
  uint64_t n_vocab = 4000000;
  uint32_t n_shards = 9999;
  uint64_t template_bytes = uint64_t{1} << 20;
  uint32_t template_parse_depth = 128;
  uint32_t template_call_depth = 64;
  uint64_t template_steps = 1000000;                    // and 16 for each byte of input
  uint64_t template_output_bytes = uint64_t{1} << 20;   // and 4 times the input
  uint64_t template_memory_bytes = uint64_t{64} << 20;  // and 16 times the input
  uint32_t json_depth = 128;
  uint64_t grammar_bytes = uint64_t{1} << 20;  // of a grammar, a regex or a schema
  uint32_t grammar_depth = 200;
  uint64_t grammar_symbols = 100000;  // rules and the parts of their right sides
  uint64_t grammar_states = 65535;    // of its automata together
  uint64_t grammar_steps = 20000000;  // of the work of making automata
};

}  // namespace tamis
