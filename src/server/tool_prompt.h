// Conversations with tools for templates of every kind. Between a call's messages and the chat template.
#pragma once

#include "formats/json.h"
#include "server/generation_call.h"
#include "text/answer_syntax.h"

namespace tamis::server {

// Whether any of the messages calls a tool or is a tool's result.
bool has_tool_messages(const Json& messages);

// For a template that knows nothing of tools: calls and results as text in the generic syntax, the tools offered as
// text in the system message, or before the first message where there is none.
Json spell_out_tools(const Json& messages, const Json& offered);

// Arguments as JSON in strings, which some templates expect where others expect objects.
Json with_text_arguments(Json messages);

}  // namespace tamis::server
