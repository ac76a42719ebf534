// Blocks of matrices lie apart, at whole lines, side by side, and give their memory back with the last of them.
#include "cpu/panel_bytes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "base/huge_pages.h"

namespace tamis::cpu {
namespace {

TEST(PanelMemory, BlocksLieApartAndKeepWhatIsWritten) {
  PanelMemory memory;
  std::vector<AlignedBytes> blocks;
  for (const size_t n :
       {size_t{1}, size_t{64}, size_t{1000}, 5 * kHugePageBytes, size_t{65}, 4 * kHugePageBytes, size_t{3}}) {
    auto block = AlignedBytes::allocate(n, memory);
    ASSERT_TRUE(block.has_value());
    EXPECT_EQ(block->size(), n);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block->data()) % 64, 0u);
    std::memset(block->data(), static_cast<int>(blocks.size() + 1), n);
    blocks.push_back(*std::move(block));
  }
  for (size_t i = 0; i < blocks.size(); ++i)
    for (size_t k = 0; k < blocks[i].size(); ++k) ASSERT_EQ(blocks[i].data()[k], i + 1) << i << ' ' << k;
}

TEST(PanelMemory, SmallBlocksShareAHugePage) {
  PanelMemory memory;
  const auto first = AlignedBytes::allocate(1000, memory), second = AlignedBytes::allocate(1000, memory);
  ASSERT_TRUE(first.has_value() && second.has_value());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first->data()) % kHugePageBytes, 0u);
  EXPECT_EQ(second->data(), first->data() + 1024);
}

TEST(PanelMemory, ASlabGoesWithItsLastBlock) {
  std::weak_ptr<Slab> slab;
  AlignedBytes kept;
  {
    PanelMemory memory;
    uint8_t* data = nullptr;
    slab = memory.take(10, data);
    ASSERT_NE(data, nullptr);
    auto block = AlignedBytes::allocate(10, memory);
    ASSERT_TRUE(block.has_value());
    kept = *std::move(block);
  }
  EXPECT_FALSE(slab.expired()) << "a block is left";
  kept = {};
  EXPECT_TRUE(slab.expired());
}

TEST(PanelMemory, WhatCannotBeThereIsAnError) {
  PanelMemory memory;
  EXPECT_FALSE(AlignedBytes::allocate(SIZE_MAX - 10, memory).has_value());
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // their allocators end the program
  EXPECT_FALSE(AlignedBytes::allocate(SIZE_MAX / 4, memory).has_value());
#endif
  EXPECT_TRUE(AlignedBytes::allocate(100, memory).has_value());
}

}  // namespace
}  // namespace tamis::cpu
