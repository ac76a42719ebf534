// Values of tokenizer.ggml.model, for code that writes vocabularies.
#pragma once

#include <string_view>

namespace tamis {

inline constexpr std::string_view kByteLevelBpe = "gpt2";        // merges over bytes
inline constexpr std::string_view kSentencePieceBpe = "llama";   // merges by score over characters
inline constexpr std::string_view kSentencePieceUnigram = "t5";  // best path by score

}  // namespace tamis
