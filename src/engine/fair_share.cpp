// The counters of all tenants.
#include "engine/fair_share.h"

#include <algorithm>
#include <limits>

namespace tamis {
namespace {

constexpr size_t kTenantsKept = 1024;  // beyond, those without requests are forgotten

}  // namespace

// The least count of the tenants that have requests; the last such number when none has.
double FairShare::least() const {
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [name, tenant] : tenants_)
    if (tenant.n_requests > 0) least = std::min(least, tenant.served);
  return least == std::numeric_limits<double>::infinity() ? floor_ : least;
}

void FairShare::arrive(const std::string& tenant) {
  floor_ = std::max(floor_, least());
  if (tenants_.size() >= kTenantsKept && !tenants_.contains(tenant))
    std::erase_if(tenants_, [](const auto& entry) { return entry.second.n_requests == 0; });
  Tenant& entry = tenants_[tenant];
  if (entry.n_requests++ == 0) entry.served = std::max(entry.served, floor_);
}

void FairShare::leave(const std::string& tenant) {
  floor_ = std::max(floor_, least());
  --tenants_.find(tenant)->second.n_requests;
}

void FairShare::charge(const std::string& tenant, double cost) { tenants_.find(tenant)->second.served += cost; }

}  // namespace tamis
