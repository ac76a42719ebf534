// `tamis edit FILE -o OUT`: other metadata, the same tensors.
#include <fmt/format.h>

#include "base/progress.h"
#include "cli/interrupt.h"
#include "cli/verb.h"
#include "convert/metadata_edit.h"
#include "formats/json.h"

namespace tamis::cli {
namespace {

constexpr std::string_view kTemplateKey = "tokenizer.chat_template";

Result<std::vector<KvEdit>> read_edits(const Args& args, const GgufFile& file) {
  std::vector<KvEdit> out;
  for (const std::string& key : args.texts("--delete")) {
    if (file.find(key) == nullptr)
      return file.error_at_key(key, "no such key", "a key of the file (tamis inspect --kv lists them)", "E_KV_MISSING");
    out.push_back({key, {}});
  }
  for (const std::string& text : args.texts("--set")) {
    TAMIS_TRY(KvEdit edit, parse_kv_edit(text));
    out.push_back(std::move(edit));
  }
  if (args.has("--template")) {
    TAMIS_TRY(const std::string text, read_text_file(args.text("--template"), Limits().template_bytes));
    out.push_back({std::string(kTemplateKey), GgufEncoded::text(text)});
  }
  if (out.empty())
    return fail(ErrorCode::invalid_argument,
                "nothing to change: --set, --delete or --template (see tamis edit --help)");
  return out;
}

// One word an edit: how the key of the result differs.
std::string_view change_of(const GgufFile& file, const KvEdit& edit) {
  const GgufValue* old = file.find(edit.key);
  if (!edit.value) return "deleted";
  if (old == nullptr) return "added";
  const auto raw = old->raw();
  const std::string_view bytes(reinterpret_cast<const char*>(raw.data()), raw.size());
  return old->type() == edit.value->type() && bytes == edit.value->bytes() ? "same" : "changed";
}

Result<int> run_edit(const Args& args) {
  if (!args.has("-o")) return fail(ErrorCode::invalid_argument, "-o OUT is missing");
  const std::string in = args.text("FILE"), out_path = args.text("-o");
  TAMIS_TRY(const GgufFile file, GgufFile::open(in));
  TAMIS_TRY(const std::vector<KvEdit> edits, read_edits(args, file));
  if (!args.flag("--dry-run")) {
    uint64_t total = 0;
    for (const GgufTensor& tensor : file.tensors()) total += tensor.size_bytes;
    Progress progress("edit", ProgressUnit::bytes, total);
    TAMIS_TRY_STATUS(write_edited(file, edits, out_path,
                                  {args.flag("--force"), &stop_flag(), [&](uint64_t n) { progress.advance(n); }}));
  }
  Json rows = Json::array();
  std::string text = fmt::format("{}{}\n", args.flag("--dry-run") ? "would write " : "", out_path);
  for (const KvEdit& edit : edits) {
    const std::string_view change = change_of(file, edit);
    text += fmt::format("  {}: {}\n", escape_for_display(edit.key), change);
    Json row = Json::object();
    rows.push_back(row.set("key", edit.key).set("change", change));
  }
  Json out = Json::object();
  out.set("schema", 1).set("dry_run", args.flag("--dry-run")).set("path", out_path).set("edits", std::move(rows));
  TAMIS_TRY_STATUS(print_out(args.flag("--json") ? out.dump() + "\n" : text));
  return 0;
}

}  // namespace

Verb edit_verb() {
  return {
      .name = "edit",
      .summary = "writes a model with other metadata",
      .details =
          "Tensors are copied byte for byte; keys that are set keep their place, new ones come last. A set of shards "
          "becomes one file. tamis inspect --diff shows what changed.",
      .positionals = {{.name = "FILE", .help = "a GGUF file, or any shard of a set"}},
      .options = {{.names = "-o,--output", .kind = OptionKind::text, .value_name = "OUT", .help = "the file to write"},
                  {.names = "--set",
                   .kind = OptionKind::text,
                   .value_name = "KEY=TYPE:VALUE",
                   .help = "a key's type and value: u8 u16 u32 u64 i8 i16 i32 i64 f32 f64 bool str",
                   .is_repeatable = true},
                  {.names = "--delete",
                   .kind = OptionKind::text,
                   .value_name = "KEY",
                   .help = "leave the key out",
                   .is_repeatable = true},
                  {.names = "--template",
                   .kind = OptionKind::text,
                   .value_name = "F",
                   .help = "a Jinja file to be the chat template"},
                  {.names = "--force", .help = "overwrite a file that exists"},
                  {.names = "--dry-run", .help = "say what would change"}},
      .run = run_edit,
  };
}

}  // namespace tamis::cli
