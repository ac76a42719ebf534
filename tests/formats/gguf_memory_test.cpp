// Memory while a file is opened: bounded by the metadata that is there, and running out of it is an error like any
// other. The allocator of this test program counts and fails on demand, below operator new.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cerrno>

#include "tests/formats/gguf_builder.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TAMIS_COUNTS_MEMORY 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TAMIS_COUNTS_MEMORY 0
#endif
#endif
#ifndef TAMIS_COUNTS_MEMORY
#define TAMIS_COUNTS_MEMORY 1
#endif

namespace {

struct Counters {
  bool is_on = false;
  int64_t live_bytes = 0;
  int64_t peak_bytes = 0;
  int64_t n_allocations = 0;
  int64_t fail_at = -1;  // the number of the allocation that fails
};
thread_local Counters counters;

}  // namespace

#if TAMIS_COUNTS_MEMORY
extern "C" {
void* __libc_malloc(size_t n);
void* __libc_realloc(void* block, size_t n);
void __libc_free(void* block);

static bool is_failing() { return counters.is_on && counters.n_allocations++ == counters.fail_at; }
static void count(int64_t change) {
  if (!counters.is_on) return;
  counters.live_bytes += change;
  counters.peak_bytes = counters.peak_bytes > counters.live_bytes ? counters.peak_bytes : counters.live_bytes;
}

void* malloc(size_t n) {
  if (is_failing()) {
    errno = ENOMEM;
    return nullptr;
  }
  void* block = __libc_malloc(n);
  if (block != nullptr) count(static_cast<int64_t>(malloc_usable_size(block)));
  return block;
}

void* realloc(void* old, size_t n) {
  if (is_failing()) {
    errno = ENOMEM;
    return nullptr;
  }
  const auto before = old == nullptr ? 0 : static_cast<int64_t>(malloc_usable_size(old));
  void* block = __libc_realloc(old, n);
  if (block == nullptr) return nullptr;
  const auto after = static_cast<int64_t>(malloc_usable_size(block));
  if (block != old) count(after);  // while it copies both exist
  count(block != old ? -before : after - before);
  return block;
}

void free(void* block) {
  if (block != nullptr) count(-static_cast<int64_t>(malloc_usable_size(block)));
  __libc_free(block);
}
}
#endif

namespace tamis {
namespace {

using namespace tamis::testing;

struct Measured {
  Result<GgufFile> file;
  Counters counters;
};

Measured measure(const std::shared_ptr<TestSource>& source, GgufMode mode, int64_t fail_at = -1) {
  counters = {};
  counters.fail_at = fail_at;
  counters.is_on = true;
  Result<GgufFile> file = GgufFile::open(source, {.mode = mode});
  const Counters result = counters;
  counters.is_on = false;
  return {std::move(file), result};
}

std::string small_kvs(int n) {  // the smallest keys there are: 14 bytes each, two letters once one does not suffice
  std::vector<RawKv> kvs;
  for (int i = 0; i < n; ++i) {
    std::string key(1, static_cast<char>(1 + i % 127));
    if (i >= 127) key += static_cast<char>(1 + i / 127 % 127);
    if (i >= 127 * 127) key += static_cast<char>(1 + i / (127 * 127));
    kvs.push_back({key, 0, std::string(1, 'v')});
  }
  return build_gguf(kvs, {}).bytes;
}

std::string small_tensors(int n) {
  std::vector<RawTensor> tensors;
  for (int i = 0; i < n; ++i) tensors.push_back({std::to_string(i), 24, {1}});
  return build_gguf({kv_u32("general.alignment", 8)}, tensors, {.alignment = 8}).bytes;
}

TEST(GgufMemory, HeapWhileOpeningIsAtMostFourTimesTheMetadata) {
  if (!TAMIS_COUNTS_MEMORY) GTEST_SKIP() << "a sanitizer owns the allocator";
  const std::pair<const char*, std::string> files[] = {
      {"base", build_gguf(base_kvs(), base_tensors()).bytes},
      {"65,536 smallest keys", small_kvs(65536)},
      {"33,000 keys", small_kvs(33000)},
      {"200,000 empty strings", build_gguf({kv_strs("a", std::vector<std::string>(200000))}, {}).bytes},
      {"50,000 smallest tensors", small_tensors(50000)},
      {"33,000 tensors", small_tensors(33000)},
      {"a 3 MB string", build_gguf({kv_str("s", std::string(3 << 20, 'x'))}, {}).bytes},
  };
  for (const auto& [name, bytes] : files) {
    for (const GgufMode mode : {GgufMode::load, GgufMode::strict}) {
      const Measured measured = measure(std::make_shared<TestSource>(bytes), mode);
      ASSERT_TRUE(measured.file) << name << measured.file.error().to_string();
      const auto bound = static_cast<int64_t>(4 * measured.file->metadata_bytes() + (256 << 10));
      EXPECT_LE(measured.counters.peak_bytes, bound) << name << ", metadata " << measured.file->metadata_bytes();
      EXPECT_GT(measured.counters.peak_bytes, 0);
    }
  }
}

TEST(GgufMemory, CountsThatNothingBacksAllocateNothing) {
  if (!TAMIS_COUNTS_MEMORY) GTEST_SKIP() << "a sanitizer owns the allocator";
  const RawGguf raw = build_gguf(base_kvs(), base_tensors());
  for (const char* field : {"n_tensors", "n_kv", "key:t.b", "val:t.as", "n:t.as", "n:t.ai", "tname:w0", "ne0:w0"}) {
    for (const uint64_t value :
         {uint64_t{1} << 24, uint64_t{1} << 30, uint64_t{1} << 40, ~uint64_t{0} / 8, ~uint64_t{0}}) {
      const Measured measured = measure(std::make_shared<TestSource>(raw.with(field, u64(value))), GgufMode::load);
      EXPECT_FALSE(measured.file) << field;
      EXPECT_LT(measured.counters.peak_bytes, 4 * 512 + (256 << 10)) << field << " " << value;
    }
  }
}

// A strict refusal looks for the count that would make the file whole; the bound holds for that search too.
TEST(GgufMemory, LookingForTheWrongCountStaysWithinTheBound) {
  if (!TAMIS_COUNTS_MEMORY) GTEST_SKIP() << "a sanitizer owns the allocator";
  for (const auto& [bytes, at, n] :
       {std::tuple(small_tensors(50000), 8, 49999), std::tuple(small_tensors(50000), 16, 2)}) {
    const std::string changed = std::string(bytes).replace(static_cast<size_t>(at), 8, u64(static_cast<uint64_t>(n)));
    const Measured measured = measure(std::make_shared<TestSource>(changed), GgufMode::strict);
    ASSERT_FALSE(measured.file);
    EXPECT_EQ(measured.file.error().site->byte_offset, static_cast<uint64_t>(at)) << measured.file.error().to_string();
    const uint64_t metadata_bytes = bytes.size() - 50000 * 8;
    EXPECT_LE(measured.counters.peak_bytes, static_cast<int64_t>(4 * metadata_bytes + (256 << 10)));
  }
}

// Every allocation of opening fails once: an error, everything given back, and the same source opens the next time.
TEST(GgufMemory, EveryAllocationMayFail) {
  if (!TAMIS_COUNTS_MEMORY) GTEST_SKIP() << "a sanitizer owns the allocator";
  const RawGguf raw = build_gguf(base_kvs(), base_tensors());
  const std::string seeds[] = {raw.bytes,
                               raw.with("val:t.b", std::string(1, 2)),
                               raw.with("val:t.as", "\xff", 8),
                               raw.with("n_tensors", u64(4)),
                               raw.with("off:w1", u64(0)),
                               raw.bytes + std::string(4096, 'x'),
                               raw.bytes.substr(0, 400),
                               build_gguf({kv_strs("a", std::vector<std::string>(30000, "abc"))}, {}).bytes,
                               small_kvs(3000),
                               small_tensors(3000)};
  for (const std::string& seed : seeds) {
    for (const GgufMode mode : {GgufMode::load, GgufMode::strict}) {
      const auto source = std::make_shared<TestSource>(seed);
      const Measured normal = measure(source, mode);
      for (int64_t k = 0; k < normal.counters.n_allocations; ++k) {
        const int64_t n_users = source.use_count();
        Measured measured = measure(source, mode, k);
        if (measured.file) {
          EXPECT_TRUE(normal.file);  // a block that could not be made smaller stays larger
        } else if (measured.file.error().code != ErrorCode::out_of_memory) {
          EXPECT_FALSE(normal.file);  // an earlier fault was already being reported
        }
        measured.file = fail(ErrorCode::internal, "");
        EXPECT_EQ(source.use_count(), n_users);
      }
      EXPECT_EQ(measure(source, mode).file.has_value(), normal.file.has_value());
    }
  }
}

TEST(GgufMemory, AFailedOpenGivesEverythingBack) {
  if (!TAMIS_COUNTS_MEMORY) GTEST_SKIP() << "a sanitizer owns the allocator";
  const auto source = std::make_shared<TestSource>(build_gguf(base_kvs(), base_tensors()).bytes);
  const int64_t n = measure(source, GgufMode::strict).counters.n_allocations;
  for (int64_t k = 0; k < n; ++k) {
    counters = {};
    counters.fail_at = k;
    counters.is_on = true;
    { const auto file = GgufFile::open(source, {.mode = GgufMode::strict}); }
    counters.is_on = false;
    EXPECT_EQ(counters.live_bytes, 0) << k;
  }
}

}  // namespace
}  // namespace tamis
