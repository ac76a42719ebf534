// The published list of 99 malformed files: its generator is run and every verdict of its manifest must be ours.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/formats/gguf_builder.h"

namespace tamis {
namespace {

using namespace tamis::testing;

// Where we name another byte than the manifest, which gives the byte that was changed.
const std::map<std::string, std::string> kOtherOffsets = {
    {"C036_nested", "the changed element type (array) is legal; refused is the first element, whose own type is none"},
    {"C039_type_str_as_u32", "the changed value type (string) is legal; refused is the length read there"},
};

struct Row {
  std::string id, verdict, offset, subject;
};

std::vector<Row> read_manifest(const std::string& path) {
  std::vector<Row> rows;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    Row row;
    std::string size;
    std::getline(fields, row.id, '\t');
    std::getline(fields, size, '\t');
    std::getline(fields, row.verdict, '\t');
    std::getline(fields, row.offset, '\t');
    std::getline(fields, row.subject, '\t');
    rows.push_back(row);
  }
  return rows;
}

bool is_load_warning(const std::string& id) {
  for (const char* prefix : {"C014", "C025", "C043", "C064", "C105", "C111"})
    if (id.starts_with(prefix)) return true;
  return false;
}

TEST(GgufManifest, EveryVerdictAndOffsetIsOurs) {
  const TemporaryDir dir;
  const std::string command = std::string("python3 \"" TAMIS_SOURCE_DIR "/../shared/tools/gguf_mutants.py\" \"") +
                              dir.path() + "\" > /dev/null";
  ASSERT_EQ(std::system(command.c_str()), 0);
  const auto rows = read_manifest(dir.file("manifest.tsv"));
  ASSERT_EQ(rows.size(), 99u);
  int n_offsets = 0;
  for (const Row& row : rows) {
    SCOPED_TRACE(row.id);
    const auto strict = GgufFile::open(dir.file(row.id + ".gguf"), {.mode = GgufMode::strict});
    ASSERT_EQ(strict.has_value(), row.verdict == "accept") << (strict ? "" : strict.error().to_string());
    const auto loaded = GgufFile::open(dir.file(row.id + ".gguf"));
    EXPECT_EQ(loaded.has_value(), strict.has_value() || is_load_warning(row.id));
    if (loaded && !strict) {
      EXPECT_FALSE(loaded->warnings().empty());
    }
    if (strict) continue;
    ASSERT_TRUE(strict.error().site && strict.error().site->has_offset) << strict.error().to_string();
    EXPECT_EQ(strict.error().site->file, dir.file(row.id + ".gguf"));
    if (row.offset == "-" || kOtherOffsets.contains(row.id)) continue;
    EXPECT_EQ(std::to_string(strict.error().site->byte_offset), row.offset) << strict.error().to_string();
    ++n_offsets;
  }
  EXPECT_EQ(n_offsets, 71);
}

}  // namespace
}  // namespace tamis
