// Applies the stages of a split rule; groups digits from the right.
#include "text/pretokenizer.h"

#include <map>
#include <mutex>

#include "text/unicode.h"

namespace tamis {
namespace {

bool is_grouped(DigitGrouping grouping, char32_t code_point) {
  static const uint32_t number = unicode::property_mask("N"), decimal = unicode::property_mask("Nd");
  const uint32_t mask = grouping == DigitGrouping::threes_from_right ? number : decimal;
  return (mask >> unicode::char_class(code_point)) & 1u;
}

// Parts of text: everything that is not a number, and numbers in groups of three counted from their right end.
void group_digits(DigitGrouping grouping, std::string_view text, std::vector<size_t>& part_ends) {
  size_t i = 0, gap_begin = 0;
  std::vector<size_t> digit_ends;
  while (i < text.size()) {
    digit_ends.clear();
    const size_t run_begin = i;
    unicode::Char next{0, 0, false};
    while (i < text.size()) {
      next = unicode::char_at(text, i);
      if (!is_grouped(grouping, next.code_point)) break;
      i += next.length;
      digit_ends.push_back(i);
    }
    const bool ends_text = i == text.size();
    const bool is_split =
        grouping != DigitGrouping::threes_from_right_at_word_end || ends_text || !unicode::is_word(next.code_point);
    if (!digit_ends.empty() && is_split) {
      const bool only_cuts = grouping == DigitGrouping::cuts_between_threes;
      const size_t n = digit_ends.size();
      if (gap_begin < run_begin && (!only_cuts || n % 3 == 0)) part_ends.push_back(gap_begin = run_begin);
      for (size_t k = 0; k < (only_cuts ? n - 1 : n); ++k)
        if ((n - k - 1) % 3 == 0) part_ends.push_back(gap_begin = digit_ends[k]);
    }
    if (!ends_text) i += next.length;
  }
  if (gap_begin < text.size()) part_ends.push_back(text.size());
}

}  // namespace

const PreTokenizerRow* find_pre_tokenizer(std::string_view name) {
  for (const PreTokenizerRow& row : pre_tokenizer_table())
    if (row.name == name) return &row;
  return nullptr;
}

Result<PreTokenizer> PreTokenizer::make(const SplitRule& rule) {
  PreTokenizer out;
  out.digits_ = rule.digits;
  for (const std::string_view pattern : rule.patterns) {
    TAMIS_TRY(SplitAutomaton stage, SplitAutomaton::compile(pattern));
    out.stages_.push_back(std::move(stage));
  }
  return out;
}

Result<std::shared_ptr<const PreTokenizer>> PreTokenizer::shared(const SplitRule& rule) {
  static std::mutex mutex;
  static std::map<const SplitRule*, std::shared_ptr<const PreTokenizer>> compiled;
  const std::lock_guard lock(mutex);
  auto& entry = compiled[&rule];
  if (entry == nullptr) {
    TAMIS_TRY(PreTokenizer made, make(rule));
    entry = std::make_shared<const PreTokenizer>(std::move(made));
  }
  return entry;
}

const std::vector<size_t>& PreTokenizer::split(std::string_view text, Scratch& scratch) const {
  std::vector<size_t>& ends = scratch.ends;
  ends.clear();
  if (text.empty()) return ends;
  if (digits_ == DigitGrouping::none)
    ends.push_back(text.size());
  else
    group_digits(digits_, text, ends);
  for (const SplitAutomaton& stage : stages_) {
    scratch.next_ends.clear();
    size_t begin = 0;
    for (const size_t end : ends) {
      stage.split(text, begin, end, scratch.next_ends, scratch.split);
      begin = end;
    }
    ends.swap(scratch.next_ends);
  }
  return ends;
}

}  // namespace tamis
