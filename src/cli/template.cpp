// `tamis template render`: a chat template rendered over a JSON file, as the model would see it.
#include "base/file.h"
#include "cli/model_path.h"
#include "cli/program.h"
#include "cli/verb.h"
#include "formats/gguf.h"
#include "formats/json.h"
#include "text/chat_template.h"

namespace tamis::cli {
namespace {

constexpr uint64_t kMaxInputBytes = uint64_t{256} << 20;

Result<std::string> template_source(const Args& args) {
  if (args.has("--template") == args.has("-m"))
    return fail(ErrorCode::invalid_argument, "give either --template FILE or -m MODEL");
  if (args.has("--template")) return read_text_file(args.text("--template"), Limits{}.template_bytes);
  TAMIS_TRY(const std::string path, resolve_model(args.text("-m")));
  TAMIS_TRY(const GgufFile file, GgufFile::open(path));
  TAMIS_TRY(const std::string_view source, file.get_string("tokenizer.chat_template"));
  return std::string(source);
}

// The variables that the template sees; null members stay, absent ones are undefined.
Result<Json> read_variables(const Args& args) {
  if (!args.has("--input")) return Json::object();
  TAMIS_TRY(const std::string text, read_text_file(args.text("--input"), kMaxInputBytes));
  auto json = Json::parse(text);
  if (!json) {
    Error error = with_file(json.error(), args.text("--input"));
    error.code = ErrorCode::invalid_argument;
    return tl::unexpected<Error>(std::move(error));
  }
  if (!json->is_object()) return fail(ErrorCode::invalid_argument, "--input: expected a JSON object");
  return std::move(*json);
}

Result<int> run_template(const Args& args) {
  if (args.text("ACTION") != "render")
    return fail(ErrorCode::invalid_argument, "template {}: the one action is render",
                escape_for_display(args.text("ACTION")));
  ChatTemplateInput input;
  TAMIS_TRY(const std::string source, template_source(args));
  TAMIS_TRY(input.variables, read_variables(args));
  input.bos_token = args.text("--bos");
  input.eos_token = args.text("--eos");
  input.clock = args.text("--clock");
  auto parsed = ChatTemplate::parse(source);
  if (!parsed) return tl::unexpected<Error>(with_file(parsed.error(), args.text(args.has("-m") ? "-m" : "--template")));
  const auto text = parsed->render(input);
  if (!text) {  // a run-time error of the template (exit 1), though the arguments of the call were fine
    print_error(text.error(), args.flag("--json"));
    return 1;
  }
  if (!args.flag("--json")) {
    TAMIS_TRY_STATUS(print_out(*text));
    return 0;
  }
  Json out = Json::object();
  TAMIS_TRY_STATUS(print_out(out.set("schema", 1).set("text", *text).dump() + "\n"));
  return 0;
}

}  // namespace

Verb template_verb() {
  return {.name = "template",
          .summary = "renders a chat template over messages in a JSON file",
          .details =
              "tamis template render --template chat.jinja --input chat.json prints the prompt exactly, without a "
              "newline at the "
              "end. The input is an object: messages, tools, add_generation_prompt and whatever else the template "
              "reads; what "
              "is absent is undefined there.\n\n"
              "Exit 1 with nothing on stdout when the template fails while rendering (raise_exception, a type error, a "
              "budget), "
              "3 when it does not parse.",
          .positionals = {{.name = "ACTION", .help = "render"}},
          .options =
              {{.names = "--template", .kind = OptionKind::text, .value_name = "FILE", .help = "the template's source"},
               {.names = "-m,--model",
                .kind = OptionKind::text,
                .value_name = "MODEL",
                .help = "take the template of this model"},
               {.names = "--input", .kind = OptionKind::text, .value_name = "FILE", .help = "JSON object of variables"},
               {.names = "--bos",
                .kind = OptionKind::text,
                .value_name = "TEXT",
                .help = "bos_token; empty when not given"},
               {.names = "--eos",
                .kind = OptionKind::text,
                .value_name = "TEXT",
                .help = "eos_token; empty when not given"},
               {.names = "--clock",
                .kind = OptionKind::text,
                .value_name = "TIME",
                .help = "fix strftime_now: 2031-02-03T04:05:06, local time"}},
          .run = run_template};
}

}  // namespace tamis::cli
