// Who got how much: the scheduler asks the tenant with the least service first. Source: Sheng et al. 2024, "Fairness in
// Serving Large Language Models" (virtual token counters), arXiv:2401.00588.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>

namespace tamis {

class FairShare {
 public:
  // The paper's weights: what a token of a prompt and of an answer counts.
  static constexpr double kPromptToken = 1, kAnswerToken = 2;

  // A request of the tenant begins to wait; one more ended. A tenant who comes back does not bring along what he did
  // not use meanwhile: his count rises to the least of those who are there. Requires: leave() after arrive().
  void arrive(const std::string& tenant);
  void leave(const std::string& tenant);
  // The tenant got `cost`. Requires: arrived.
  void charge(const std::string& tenant, double cost);
  // What the tenant got, in comparison with others. Requires: arrived.
  double served(const std::string& tenant) const { return tenants_.find(tenant)->second.served; }
  size_t n_tenants() const { return tenants_.size(); }  // remembered

 private:
  struct Tenant {
    double served = 0;
    size_t n_requests = 0;
  };
  double least() const;

  std::unordered_map<std::string, Tenant> tenants_;
  double floor_ = 0;  // of the tenants that were there last
};

}  // namespace tamis
