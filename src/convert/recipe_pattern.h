// Types asked for by hand: patterns over tensor names, `--tensor-type RE=TYPE`. Regular expressions of PCRE2, searched
// for anywhere in the name, letter case kept; the first pattern that matches wins.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"

namespace tamis {

class TensorTypes {
 public:
  // Each "RE=TYPE"; the last '=' divides. Errors: invalid_argument, quoting the word, for one without '=', an empty or
  // wrong pattern and an unknown type.
  static Result<TensorTypes> parse(std::span<const std::string> words);

  // The first pattern found in the name. Errors: invalid_argument when a pattern needs more steps than its limit.
  Result<std::optional<size_t>> find(std::string_view name) const;

  size_t size() const { return entries_.size(); }
  DType type(size_t i) const { return entries_[i].type; }
  const std::string& pattern(size_t i) const { return entries_[i].pattern; }

 private:
  struct Entry {
    std::string pattern;
    DType type;
    std::shared_ptr<const void> code;  // compiled
  };
  std::vector<Entry> entries_;
};

}  // namespace tamis
