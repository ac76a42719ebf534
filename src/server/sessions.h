// Conversations that outlive the process: which tokens each slot's last answer ended with, and files of their keys and
// values in one directory (--slot-save-path). Beside the answers; over the scheduler's stored blocks and
// engine/kv_file.
//
// A slot is a name for a conversation and no place in the model: prompts share what is stored whatever their slot. Each
// API key has slots and files of its own. Files are written and read by a thread of their own, a few blocks between two
// steps of the model.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file_dir.h"
#include "engine/kv_file.h"
#include "server/generation_call.h"
#include "server/server.h"
#include "server/workers.h"

namespace tamis::server {

// Whose slots they are: each model has some for each API key.
using SlotOwner = std::pair<std::string, std::string>;  // the model's alias, the tenant

// POST /slots/ID?action=ACTION
struct SessionCall {
  static constexpr size_t kMaxNameBytes = 128;

  enum class Action : uint8_t { save, restore, erase };
  Action action = Action::save;
  uint32_t slot = 0;
  std::string filename;  // "": none was given, which erase allows
  std::string cache_salt;
  std::string model;   // "" = any
  std::string tenant;  // whose key it is
};

// The fields of the body. Errors: 400 naming one.
ApiResult<SessionCall> parse_session(const Json& body);
// All of it but the tenant. Errors: 400.
ApiResult<SessionCall> parse_session_request(std::string_view target, const Json& body, const CallLimits& limits);

class Sessions {
 public:
  // `max_bytes`: of all files; 0 = four times what the model's pages of keys and values take. Errors: those of
  // FileDir::open.
  static Result<std::shared_ptr<Sessions>> open(const std::string& dir, uint64_t max_bytes);

  // --- any thread
  // The slot of an answer: the one `wanted`, where that is ≥ 0; else the one whose last prompt this one goes on from;
  // else the one not used for the longest time. Requires: wanted < n_slots.
  uint32_t take_slot(const SlotOwner& owner, const GenerateRequest& request, int64_t wanted, uint32_t n_slots);
  // What the slot's answer ended with: its prompt of n_prompt tokens, and what was generated.
  void put(const SlotOwner& owner, uint32_t slot, const std::string& salt, std::vector<TokenId> tokens,
           size_t n_prompt);

  // Runs `work`, which lets no exception out, on the thread of files. False: too much waits for it.
  bool run(std::function<void()> work);
  void stop();  // waits for what runs, drops what waits

  // --- the thread of files
  // The answer to a call. Errors: 400 for a file that is none, is damaged or of another model or salt; 404; 507 when
  // there is no room for it; 503, 500.
  ApiResult<Json> act(const std::shared_ptr<const ServedModel>& model, const SessionCall& call);

 private:
  struct Slot {
    std::string salt;
    std::vector<TokenId> tokens;
    size_t n_prompt = 0;
    uint64_t last_use = 0;
  };
  Sessions(FileDir dir, uint64_t max_bytes) : dir_(std::move(dir)), max_bytes_(max_bytes) {}
  std::optional<Slot> content(const SlotOwner& owner, uint32_t slot) const;
  ApiResult<KvFileKind> kind_of(const std::shared_ptr<const ServedModel>& model, std::string_view salt);
  ApiResult<Json> save(const ServedModel& model, const SessionCall& call, const Slot& slot, const KvFileKind& kind);
  ApiResult<Json> restore(const ServedModel& model, const SessionCall& call, const KvFileKind& kind);
  ApiResult<Json> erase(const ServedModel& model, const SessionCall& call);

  const FileDir dir_;
  const uint64_t max_bytes_;
  std::weak_ptr<const ServedModel> known_;  // whose fingerprint it is; of the thread of files
  uint64_t fingerprint_ = 0;

  mutable std::mutex mutex_;
  std::map<SlotOwner, std::vector<Slot>> slots_;  // guarded
  uint64_t clock_ = 0;                            // guarded

  std::atomic<uint32_t> n_waiting_{0};
  Workers thread_{1};  // last: everything else is there when it starts
};

}  // namespace tamis::server
