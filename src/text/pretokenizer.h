// Cuts text into the words that byte-pair merges may not cross, by the rules a vocabulary's `tokenizer.ggml.pre` names.
// First step of byte-level BPE, after added tokens are taken out.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/split_automaton.h"

namespace tamis {

// How digits are grouped by rules that are not a regular expression over single characters of look-ahead.
enum class DigitGrouping : uint8_t {
  none,
  threes_from_right,              // 1234567 → 1|234|567, runs of \p{N}
  threes_from_right_at_word_end,  // the same for \d{1,3}(?=(?:\d{3})*\b): runs of \p{Nd} that end a word
  cuts_between_threes,            // the same for (?=(\d{3})+(?!\d)): only cuts, the run itself is not set apart
};

// One row of the table: a name of tokenizer.ggml.pre.
struct PreTokenizerRow {
  std::string_view name;
  const struct SplitRule* rule;
  bool ignore_merges = false;  // a word that is a token is that token, whatever the merges say
  bool add_bos = false;        // default of add_bos_token when the file does not say
  bool no_default_bos = false;
  bool nfc = false;  // the family normalises text to NFC first
};

// Patterns applied one after the other, each inside the parts the one before it made.
struct SplitRule {
  std::string_view source;                     // whose tokenizer.json this is
  DigitGrouping digits = DigitGrouping::none;  // applied before the patterns
  std::vector<std::string_view> patterns;
  bool is_byte_level = true;    // false: tokens are UTF-8 text, with <0xNN> for bytes outside the vocabulary
  bool escapes_spaces = false;  // spaces become U+2581 before splitting
};

// The whole table, sorted as written; and one row of it, null for an unknown name.
const std::vector<PreTokenizerRow>& pre_tokenizer_table();
const PreTokenizerRow* find_pre_tokenizer(std::string_view name);

// A compiled rule. Immutable; one may serve many threads, each with its own scratch.
class PreTokenizer {
 public:
  struct Scratch {
    SplitScratch split;
    std::vector<size_t> ends, next_ends;
  };

  // Compiles the row's rule. Errors: internal only (a test compiles every row).
  static Result<PreTokenizer> make(const SplitRule& rule);
  // The same for a rule of the table, compiled once a process.
  static Result<std::shared_ptr<const PreTokenizer>> shared(const SplitRule& rule);

  // End offsets of the words of `text`, in order; the last is text.size(). Valid until the next call with this scratch.
  const std::vector<size_t>& split(std::string_view text, Scratch& scratch) const;

 private:
  DigitGrouping digits_ = DigitGrouping::none;
  std::vector<SplitAutomaton> stages_;
};

}  // namespace tamis
