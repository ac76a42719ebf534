// The switch reaches the kernel: a mapping's flags in /proc/self/smaps name what was asked for.
#include "base/huge_pages.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "base/kernel_text.h"

namespace tamis {
namespace {

// The VmFlags of the mapping that holds `data`, with a space at each end; "" when the kernel does not say.
std::string flags_of(const void* data) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  const std::string maps = kernel_text::read("/proc/self/smaps");
  bool is_inside = false;
  for (std::string_view rest = maps; !rest.empty();) {
    const std::string_view line = kernel_text::take_until(rest, '\n');
    unsigned long long begin = 0, end = 0;
    std::string_view range = line.substr(0, line.find(' '));
    if (const size_t hyphen = range.find('-'); hyphen != std::string_view::npos) {
      const std::string_view first = range.substr(0, hyphen), last = range.substr(hyphen + 1);
      std::from_chars(first.data(), first.data() + first.size(), begin, 16);
      std::from_chars(last.data(), last.data() + last.size(), end, 16);
      is_inside = begin <= address && address < end;
    }
    if (is_inside && line.starts_with("VmFlags:")) return std::string(line.substr(8)) + " ";
  }
  return "";
}

class HugePagesTest : public testing::Test {
 protected:
  void TearDown() override { set_huge_pages(HugePages::automatic); }
  // Flags of a new block after it was advised.
  static std::string flags_with(HugePages choice) {
    constexpr size_t kBytes = 2 * kHugePageBytes;
    const std::unique_ptr<void, decltype(&std::free)> block(std::aligned_alloc(kHugePageBytes, kBytes), &std::free);
    set_huge_pages(choice);
    advise_huge_pages(block.get(), kBytes);
    return flags_of(block.get());
  }
};

TEST_F(HugePagesTest, TheKernelHearsTheChoice) {
  if (kernel_text::read("/sys/kernel/mm/transparent_hugepage/enabled").empty() || flags_with(HugePages::off).empty())
    GTEST_SKIP() << "this kernel has no transparent huge pages or does not say";
  EXPECT_NE(flags_with(HugePages::automatic).find(" hg "), std::string::npos);
  EXPECT_NE(flags_with(HugePages::on).find(" hg "), std::string::npos);
  const std::string off = flags_with(HugePages::off);
  EXPECT_NE(off.find(" nh "), std::string::npos) << off;
  EXPECT_EQ(off.find(" hg "), std::string::npos) << off;
}

}  // namespace
}  // namespace tamis
