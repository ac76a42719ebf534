// `tamis completion SHELL`: a completion script, from the option tables.
#include "cli/help.h"

namespace tamis::cli {
namespace {

Result<int> run_completion(const Args& args) {
  const std::string shell = args.text("SHELL");
  const auto& verbs = all_verbs();
  TAMIS_TRY_STATUS(print_out(shell == "bash"  ? bash_completion(verbs)
                             : shell == "zsh" ? zsh_completion(verbs)
                                              : fish_completion(verbs)));
  return 0;
}

}  // namespace

Verb completion_verb() {
  return {.name = "completion",
          .summary = "prints a completion script for a shell",
          .details = "For bash:\n\n  tamis completion bash > ~/.local/share/bash-completion/completions/tamis",
          .positionals = {{.name = "SHELL", .help = "bash, zsh or fish", .choices = {"bash", "zsh", "fish"}}},
          .options = {},
          .run = run_completion};
}

}  // namespace tamis::cli
