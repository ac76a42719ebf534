// What a request's answer is going to look like: how its text is told apart, what it is held to. Between the prompt and
// the scheduler.
#pragma once

#include <memory>
#include <string>

#include "server/server.h"
#include "text/answer_parser.h"

namespace tamis::server {

struct AnswerPlan {
  std::shared_ptr<const AnswerParserSetup> parsing;  // null: the text is the answer
  std::string own_stop;                              // a stop string that the client did not ask for; "" = none
};

// What an answer must be that calls tools: one call as bare JSON, which is read in every family; or, where several are
// allowed and the family writes them as JSON between marks that are text, one or more in its own way.
GrammarSpec required_calls(const Tokenizer& tokenizer, const CallSyntax& syntax, const ToolUse& tools);

// Completes `call.request` and `call.form`: marks that are control tokens become visible, reasoning is bounded, calls
// that are required are enforced. `prompt_end`: what the template wrote behind the last message. Errors: 400 where two
// parts of the request contradict each other.
ApiResult<AnswerPlan> plan_answer(const ServedModel& model, std::string_view prompt_end, GenerationCall& call);

}  // namespace tamis::server
