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
struct SlotOwner {
  std::string alias, tenant;  // the model's public name, the key's id
  uint32_t n_slots = 1;
  uint64_t n_pages = 1, page_bytes = 0;  // of the model's keys and values
};
SlotOwner slot_owner(const ServedModel& model, std::string tenant);

// POST /slots/ID?action=ACTION
struct SessionCall {
  static constexpr size_t kMaxNameBytes = 128;

  enum class Action : uint8_t { save, restore, erase };
  Action action = Action::save;
  uint32_t slot = 0;
  std::string filename;    // "": none was given, which erase allows
  std::string cache_salt;  // to restore under; as asked for by parse_session, as it is used for act()
  std::string model;       // "" = any
  std::string tenant;      // the id of the key; "" where none is needed
};

// The fields of the body. Errors: 400 naming one.
ApiResult<SessionCall> parse_session(const Json& body);
// All of it but the tenant. Errors: 400.
ApiResult<SessionCall> parse_session_request(const RequestHead& head, const Json& body, const CallLimits& limits);

class Sessions {
 public:
  // `max_bytes`: of all files; 0 = four times what the pages of keys and values take, those of the model with the most
  // of all that answered. Errors: those of FileDir::open.
  static Result<std::shared_ptr<Sessions>> open(const std::string& dir, uint64_t max_bytes);

  // --- any thread
  // The slot of an answer: the one `wanted`, where that is ≥ 0; else the one whose last prompt this one goes on from;
  // else the one not used for the longest time. Requires: wanted < n_slots.
  uint32_t take_slot(const SlotOwner& owner, const GenerateRequest& request, int64_t wanted);
  // What the slot's answer ended with: its prompt of n_prompt tokens, and what was generated. Where a model's slots
  // hold more tokens than kPoolsOfSlots times its pages, those not used for the longest time become empty.
  void put(const SlotOwner& owner, uint32_t slot, const std::string& salt, std::vector<TokenId> tokens,
           size_t n_prompt);

  struct Slot {
    std::string salt;
    std::vector<TokenId> tokens;
    size_t n_prompt = 0;
    uint64_t last_use = 0;
  };
  // Nothing for a slot without a conversation.
  std::optional<Slot> content(const SlotOwner& owner, uint32_t slot) const;

  // Runs `work`, which lets no exception out, on the thread of files. False: too much waits for it.
  bool run(std::function<void()> work);
  void stop();  // waits for what runs, drops what waits

  // --- the thread of files
  // The answer to a call. Errors: 400 for a file that is none, is damaged or of another model or salt; 404; 507 when
  // there is no room for it; 503, 500.
  ApiResult<Json> act(const std::shared_ptr<const ServedModel>& model, const SessionCall& call);

 private:
  // Tokens of all slots of a model, in pools of its pages: prompts share pages, so slots may name more tokens than
  // there are. That is 16 bytes a token of the pages, each of which takes kilobytes.
  static constexpr uint64_t kPoolsOfSlots = 4;
  using SlotName = std::pair<std::string, uint32_t>;  // the tenant, its slot
  struct ModelSlots {
    std::map<SlotName, Slot> slots;      // those that were ever used and hold something, or will
    std::map<uint64_t, SlotName> names;  // by last_use
    uint64_t n_blocks = 0;               // of tokens; a slot takes at least one
  };
  Sessions(FileDir dir, uint64_t max_bytes) : dir_(std::move(dir)), max_bytes_(max_bytes) {}
  void set_locked(const SlotOwner& owner, uint32_t slot, Slot content);
  static Slot drop(ModelSlots& all, const SlotName& name);
  uint64_t most_bytes() const;  // of all files
  ApiResult<KvFileKind> kind_of(const std::shared_ptr<const ServedModel>& model, std::string_view salt);
  ApiResult<Json> save(const ServedModel& model, const SessionCall& call, const Slot& slot, const KvFileKind& kind);
  ApiResult<Json> restore(const ServedModel& model, const SessionCall& call, const KvFileKind& kind);
  ApiResult<Json> erase(const ServedModel& model, const SessionCall& call);

  const FileDir dir_;
  const uint64_t max_bytes_;
  std::weak_ptr<const ServedModel> known_;  // whose fingerprint it is; of the thread of files
  uint64_t fingerprint_ = 0;

  mutable std::mutex mutex_;
  std::map<std::string, ModelSlots> slots_;  // guarded; by the model's alias
  uint64_t clock_ = 0;                       // guarded
  uint64_t largest_pool_bytes_ = 0;          // guarded

  std::atomic<uint32_t> n_waiting_{0};
  Workers thread_{1};  // last: everything else is there when it starts
};

}  // namespace tamis::server
