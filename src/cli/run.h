// Pieces of `tamis run` shared by its one-shot form (run.cpp) and its chat (run_chat.cpp); private to them.
#pragma once

#include "cli/verb.h"
#include "tamis/tamis.h"

namespace tamis::cli {

// The table of sampling and length options.
std::vector<OptionSpec> generate_option_specs();

// What the sampling options say. `temp`: the temperature when --temp is not given.
Result<api::GenerateOptions> generate_options(const Args& args, float temp);

// Text straight to stdout as it comes.
api::Status print_piece(std::string_view text);

// One line on stderr: tokens, rates, time to the first token.
void print_timings(const api::Answer& answer);

// The interactive chat on a terminal; returns the exit code.
Result<int> run_chat(const api::LanguageModel& model, api::GenerateOptions options, std::string_view system);

// Sets one sampling number by its option name without dashes ("temp", "top-k"). Errors: invalid_argument.
Status set_option(api::GenerateOptions& options, std::string_view name, std::string_view value);
std::string option_list(const api::GenerateOptions& options);  // "temp 0.8\ntop-k 40\n…"

}  // namespace tamis::cli
