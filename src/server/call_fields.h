// Pieces of requests that several dialects share; private to the parsers of generation_call.h.
#pragma once

#include "server/fields.h"
#include "server/generation_call.h"

namespace tamis::server {

// Sampling parameters by llama.cpp's names, and OpenAI's and vLLM's where those differ.
void read_sampling(Fields& fields, const CallLimits& limits, GenerateRequest& request);

// `temperature … repeat_penalty`: the ones every dialect has, under the same names.
void read_common_sampling(Fields& fields, SamplingParams& sampling);

// -1: drawn; else 0 … 2^63-1.
void read_seed(Fields& fields, SamplingParams& sampling);

// The ids of a list into `out`, or a fault of `field`: all of the vocabulary; as a prompt, no more than the context.
void read_token_ids(Fields& fields, std::string_view field, const Json& list, const CallLimits& limits,
                    std::vector<TokenId>& out);
void read_prompt_ids(Fields& fields, std::string_view field, const Json& list, const CallLimits& limits,
                     std::vector<TokenId>& out);

void read_stops(Fields& fields, std::string_view name, GenerateRequest& request);

// {"ID": bias, …} or [[ID, bias], …]; bias −100 … 100, or false: never.
void read_logit_bias(Fields& fields, const CallLimits& limits, SamplingParams& sampling);

// What the answer must be: "response_format" (OpenAI; with "schema" beside json_object as llama-server has it),
// "grammar" and "json_schema" (llama-server), "structured_outputs" (vLLM). One of them at most.
void read_form(Fields& fields, GenerationCall& call);
// The same as OpenAI's responses say it, the object at "text.format".
void read_text_format(Fields& fields, const Json& format, GenerationCall& call);
// What the answer must be, compiled later; a fault when something has said so already.
void set_form(Fields& fields, std::string_view field, GrammarSpec spec, GenerationCall& call);

// "messages" into call.messages (message_fields.cpp).
void read_messages(Fields& fields, GenerationCall& call);

// Content of a message: a text, or parts of one of these types. Nothing after a fault, which is in `fields`.
std::optional<std::string> content_text(Fields& fields, const std::string& place, const Json& content,
                                        std::initializer_list<std::string_view> types = {"text"});

// OpenAI's "metadata": at most 16 texts under names, within the lengths that OpenAI documents.
void read_openai_metadata(Fields& fields);
// OpenAI's fields that mean nothing to one model on one machine, the same in chats and responses.
void read_openai_inert(Fields& fields);
// The verbosity wanted, which models here know nothing of.
void read_verbosity(Fields& fields);
// "include_obfuscation" of "stream_options": pieces are never padded here.
void read_obfuscation(Fields& options);

// Anthropic's "cache_control" of a part, block or tool that stands at `place` of `fields`: of its documented type,
// without effect.
void read_cache_control(Fields& fields, const std::string& place, const Json& holder);

// "chat_template_kwargs": variables of their own, never those that tamis sets.
void read_template_kwargs(Fields& fields, GenerationCall& call);

}  // namespace tamis::server
