// Source: madvise(2), MADV_HUGEPAGE; kernel docs admin-guide/mm/transhuge.
#include "base/huge_pages.h"

#include <sys/mman.h>

#include <atomic>

#include "base/kernel_text.h"
#include "base/log.h"

namespace tamis {
namespace {
std::atomic<HugePages> g_choice{HugePages::automatic};

bool are_given() {
  return kernel_text::read("/sys/kernel/mm/transparent_hugepage/enabled").find("[never]") == std::string::npos;
}
}  // namespace

void set_huge_pages(HugePages choice) { g_choice = choice; }

void advise_huge_pages(void* data, size_t n_bytes) {
  const HugePages choice = g_choice;
  const bool is_taken = ::madvise(data, n_bytes, choice == HugePages::off ? MADV_NOHUGEPAGE : MADV_HUGEPAGE) == 0;
  static std::atomic_flag has_warned;
  if (choice == HugePages::on && !(is_taken && are_given()) && !has_warned.test_and_set())
    log_warning("huge pages: the system gives none (tamis doctor says more)");
}

}  // namespace tamis
