// Plans of `tamis quantize`, and a sparse file for each.
#include "cli/fit_types.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "convert/quantize.h"

namespace tamis::cli {
namespace {

// Named in the order of their sizes; those that need an imatrix are left out.
constexpr std::string_view kAdvised[] = {"F16",    "Q8_0",   "Q6_K",   "Q5_K_M", "Q5_K_S", "Q4_K_M",
                                         "Q4_K_S", "IQ4_XS", "Q3_K_L", "Q3_K_M", "Q3_K_S", "Q2_K"};

// A file of a header and nothing after it, as long as the model would be; gone at the end.
class HollowFile {
 public:
  static Result<HollowFile> create(const QuantizedFile& planned) {
    std::error_code error;
    std::string path = (std::filesystem::temp_directory_path(error) / "tamis-fit-XXXXXX").string();
    if (error || ::mkdtemp(path.data()) == nullptr)
      return fail(ErrorCode::io, "{}: cannot make a directory there", path);
    HollowFile out(std::move(path));
    TAMIS_TRY_STATUS(write_text_file(out.file(), planned.writer.header(), true));
    std::filesystem::resize_file(out.file(), planned.size_bytes, error);
    if (error) return fail(ErrorCode::io, "{}: {}", out.file(), error.message());
    return out;
  }
  HollowFile(HollowFile&& other) noexcept : directory_(std::exchange(other.directory_, {})) {}
  ~HollowFile() {
    std::error_code ignored;
    if (!directory_.empty()) std::filesystem::remove_all(directory_, ignored);
  }
  std::string file() const { return directory_ + "/m.gguf"; }

 private:
  explicit HollowFile(std::string directory) : directory_(std::move(directory)) {}
  std::string directory_;
};

}  // namespace

Result<std::vector<TypeFit>> types_of(const GgufFile& file, const Backend& backend, const MemoryRequest& request) {
  std::vector<TypeFit> out;
  for (const std::string_view name : kAdvised) {
    QuantizeOptions options;
    options.recipe = *find_recipe(name);
    options.allows_requantize = true;
    TAMIS_TRY(const QuantizePlan plan, plan_quantize(file, options, "fit.gguf"));
    if (plan.size_bytes() >= file.size_bytes()) continue;
    TAMIS_TRY(const HollowFile hollow, HollowFile::create(plan.files.front()));
    TAMIS_TRY(const GgufFile planned, GgufFile::open(hollow.file()));
    TAMIS_TRY(const MemoryPlan memory, plan_memory(planned, backend, request));
    out.push_back({std::string(name), plan.size_bytes(), memory.total()});
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const TypeFit& a, const TypeFit& b) { return a.file_bytes > b.file_bytes; });
  return out;
}

}  // namespace tamis::cli
