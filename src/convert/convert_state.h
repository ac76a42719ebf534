// What a conversion holds between planning and writing.
#pragma once

#include <string>
#include <vector>

#include "convert/convert.h"
#include "convert/hf_config.h"
#include "convert/hf_rows.h"
#include "convert/hf_tokenizer.h"
#include "formats/safetensors.h"

namespace tamis {

struct ConvertPlan::State {
  State(HfConfig config_in, SafetensorsSet set_in) : config(std::move(config_in)), set(std::move(set_in)) {}

  HfConfig config;
  SafetensorsSet set;
  HfQuantization quantization;
  std::optional<HfVocab> vocab;
  Json generation;  // generation_config.json; null when there is none
  std::string name;
  uint64_t n_vocab = 0;
  ConvertOptions options;
  std::optional<uint32_t> file_type;
  std::vector<std::string> warnings;
  std::vector<ConvertedTensor> tensors;
  std::vector<Rows> rows;                       // of each tensor
  std::vector<const ImatrixEntry*> importance;  // of each tensor; null: it is encoded without
};

// Every metadata key, in llama.cpp's order; general.file_type only once it is chosen.
Status add_all_keys(const ConvertPlan::State& state, GgufWriter& writer);

// Rows of the embedding: config.json's vocab_size, or what the checkpoint holds. Errors: not_found.
Result<uint64_t> count_vocab(const ConvertPlan::State& state);

// Finds the tensors of the architecture's table in the checkpoint: fills tensors and rows, warns of what is left over.
Status find_tensors(const Hyper& hyper, ConvertPlan::State& state);

// Chooses each tensor's type and general.file_type. Errors: invalid_argument for a type nobody knows, and for recipes
// that need an imatrix without one.
Status choose_output_types(const RecipeFacts& facts, ConvertPlan::State& state);

}  // namespace tamis
