// Which tokens are BOS, EOS and the like, whether they are added, and the chat templates.
#pragma once

#include <string_view>

#include "convert/hf_tokenizer.h"

namespace tamis {

// Fills ids, add_bos, add_eos and chat_templates. Requires: tokens and types are complete. Errors: format.
Status read_special_tokens(const HfTokenizerFiles& files, HfVocab& vocab);

// "<|…|>", "<unused7>" and others that mean control whatever the folder's files say.
bool looks_special(std::string_view text);

}  // namespace tamis
