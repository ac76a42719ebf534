// Slots, and their files.
#include "server/sessions.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>

#include "server/fields.h"

namespace tamis::server {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kBlockTokens = KvCache::kPageTokens;
constexpr size_t kCopyBytes = size_t{8} << 20;  // between two steps at most, or one page: some milliseconds
constexpr uint32_t kMostWaiting = 64;
constexpr uint64_t kDefaultPools = 4;  // bytes of all files, in pools of pages of the model that has most
constexpr std::string_view kSlotPrefix = "/slots/";
constexpr std::pair<std::string_view, SessionCall::Action> kActions[] = {
    {"save", SessionCall::Action::save},
    {"restore", SessionCall::Action::restore},
    {"erase", SessionCall::Action::erase},
};

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

size_t blocks_of(const std::vector<TokenId>& tokens) { return std::max<size_t>(KvCache::pages_of(tokens.size()), 1); }

// The file of a session: each key has names of its own.
std::string file_name(const SessionCall& call) {
  if (call.tenant.empty()) return call.filename;
  return call.tenant + "." + call.filename;
}

tl::unexpected<ApiError> file_refusal(const Error& error) {
  switch (error.code) {
    case ErrorCode::out_of_memory: return refused(507, "there is no room for this session");
    case ErrorCode::not_found: return refused(404, "there is no such session");
    case ErrorCode::format:
    case ErrorCode::invalid_argument: return refuse("filename", error.message);
    default: return tl::unexpected<ApiError>(from_error(error));
  }
}

tl::unexpected<ApiError> refusal_of(const Error& error) { return tl::unexpected<ApiError>(from_error(error)); }

Json answer_head(const SessionCall& call) {
  Json out = Json::object();
  out.set("id_slot", call.slot);
  return call.filename.empty() ? out : out.set("filename", call.filename);
}

Json timings(std::string_view name, Clock::time_point begin) {
  Json out = Json::object();
  return out.set(std::string(name), milliseconds_since(begin));
}

// The file's tokens; all of it has been read and is right then.
ApiResult<std::vector<TokenId>> read_through(KvFileReader& file, std::span<std::byte> page) {
  std::vector<TokenId> tokens(file.n_blocks() * kBlockTokens);
  for (size_t i = 0; i < file.n_blocks(); ++i) {
    const Status read = file.next(std::span(tokens).subspan(i * kBlockTokens, kBlockTokens), page);
    if (!read) return file_refusal(read.error());
  }
  file.rewind();
  return tokens;
}

}  // namespace

ApiResult<SessionCall> parse_session(const Json& body) {
  Fields fields(body);
  SessionCall call;
  if (fields.text("filename", call.filename) &&
      (call.filename.size() > SessionCall::kMaxNameBytes || !FileDir::is_name(call.filename)))
    fields.fail("filename", "expected 1 to 128 letters, digits, '-', '_' and '.', the first no '.'");
  if (fields.text("cache_salt", call.cache_salt) && (call.cache_salt.empty() || call.cache_salt.size() > 256))
    fields.fail("cache_salt", "expected 1 to 256 bytes");
  fields.text("model", call.model);
  TAMIS_API_TRY_STATUS(fields.finish());
  return call;
}

ApiResult<SessionCall> parse_session_request(const RequestHead& head, const Json& body, const CallLimits& limits) {
  TAMIS_API_TRY(SessionCall call, parse_session(body));
  const std::string_view id = head.path().substr(kSlotPrefix.size());
  const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), call.slot);
  if (error != std::errc() || end != id.data() + id.size() || call.slot >= limits.n_slots)
    return refuse("id_slot", fmt::format("expected 0 to {}", int64_t{limits.n_slots} - 1));
  const std::string action = head.query("action").value_or("");
  const auto* const row = std::ranges::find(kActions, action, &std::pair<std::string_view, SessionCall::Action>::first);
  if (row == std::end(kActions)) return refuse("action", "expected save, restore or erase");
  call.action = row->second;
  if (call.filename.empty() && call.action != SessionCall::Action::erase) return refuse("filename", "is missing");
  if (!call.cache_salt.empty() && call.action != SessionCall::Action::restore)
    return refuse("cache_salt", "is known of a slot, and asked for to restore only");
  return call;
}

Result<std::shared_ptr<Sessions>> Sessions::open(const std::string& dir, uint64_t max_bytes) {
  TAMIS_TRY(FileDir files, FileDir::open(dir));
  return std::shared_ptr<Sessions>(new Sessions(std::move(files), max_bytes));
}

SlotOwner slot_owner(const ServedModel& model, std::string tenant) {
  const SchedulerStats stats = model.scheduler->stats();
  return {.alias = model.alias,
          .tenant = std::move(tenant),
          .n_slots = model.max_seqs,
          .n_pages = stats.kv_pages,
          .page_bytes = stats.kv_page_bytes};
}

uint32_t Sessions::take_slot(const SlotOwner& owner, const GenerateRequest& request, int64_t wanted) {
  const std::lock_guard lock(mutex_);
  ModelSlots& all = slots_[owner.alias];
  const auto goes_on = [&](const Slot& slot) {
    return slot.n_prompt > 0 && slot.salt == request.cache_salt && slot.n_prompt <= request.prompt.size() &&
           std::equal(slot.tokens.begin(), slot.tokens.begin() + static_cast<ptrdiff_t>(slot.n_prompt),
                      request.prompt.begin());
  };
  uint32_t oldest = 0, longest = 0;
  uint64_t oldest_use = UINT64_MAX;
  size_t n_most = 0;
  for (uint32_t i = 0; i < owner.n_slots; ++i) {
    const auto found = all.slots.find({owner.tenant, i});
    const uint64_t last_use = found != all.slots.end() ? found->second.last_use : 0;
    if (last_use < oldest_use) {
      oldest = i;
      oldest_use = last_use;
    }
    if (found == all.slots.end() || found->second.n_prompt <= n_most || !goes_on(found->second)) continue;
    longest = i;
    n_most = found->second.n_prompt;
  }
  const uint32_t chosen = wanted >= 0 ? static_cast<uint32_t>(wanted) : n_most > 0 ? longest : oldest;
  set_locked(owner, chosen, drop(all, {owner.tenant, chosen}));
  return chosen;
}

void Sessions::put(const SlotOwner& owner, uint32_t slot, const std::string& salt, std::vector<TokenId> tokens,
                   size_t n_prompt) {
  const std::lock_guard lock(mutex_);
  set_locked(owner, slot, {.salt = salt, .tokens = std::move(tokens), .n_prompt = n_prompt, .last_use = 0});
}

// The slot holds `content` and is the one used last; others make room.
void Sessions::set_locked(const SlotOwner& owner, uint32_t slot, Slot content) {
  largest_pool_bytes_ = std::max(largest_pool_bytes_, owner.n_pages * owner.page_bytes);
  ModelSlots& all = slots_[owner.alias];
  const SlotName name{owner.tenant, slot};
  drop(all, name);
  content.last_use = ++clock_;
  const size_t n_blocks = blocks_of(content.tokens);
  all.names.emplace(content.last_use, name);
  all.slots.emplace(name, std::move(content));  // without memory for it, the name of no slot stays
  all.n_blocks += n_blocks;
  while (all.n_blocks > kPoolsOfSlots * owner.n_pages && all.slots.size() > 1) {
    const SlotName oldest = all.names.begin()->second;
    all.names.erase(all.names.begin());
    drop(all, oldest);
  }
}

// What the slot held is no longer there.
Sessions::Slot Sessions::drop(ModelSlots& all, const SlotName& name) {
  const auto found = all.slots.find(name);
  if (found == all.slots.end()) return {};
  all.n_blocks -= blocks_of(found->second.tokens);
  all.names.erase(found->second.last_use);
  Slot held = std::move(found->second);
  all.slots.erase(found);
  return held;
}

std::optional<Sessions::Slot> Sessions::content(const SlotOwner& owner, uint32_t slot) const {
  const std::lock_guard lock(mutex_);
  const auto model = slots_.find(owner.alias);
  if (model == slots_.end()) return std::nullopt;
  const auto found = model->second.slots.find({owner.tenant, slot});
  if (found == model->second.slots.end() || found->second.tokens.empty()) return std::nullopt;
  return found->second;
}

uint64_t Sessions::most_bytes() const {
  if (max_bytes_ > 0) return max_bytes_;
  const std::lock_guard lock(mutex_);
  return kDefaultPools * largest_pool_bytes_;
}

bool Sessions::run(std::function<void()> work) {
  if (n_waiting_ >= kMostWaiting) return false;
  ++n_waiting_;
  thread_.run([this, work = std::move(work)] {
    work();
    --n_waiting_;
  });
  return true;
}

void Sessions::stop() { thread_.stop(); }

ApiResult<KvFileKind> Sessions::kind_of(const std::shared_ptr<const ServedModel>& model, std::string_view salt) {
  if (known_.lock() != model) {
    const auto fingerprint = kv_fingerprint(*model->engine);
    if (!fingerprint) return refusal_of(fingerprint.error());
    fingerprint_ = *fingerprint;
    known_ = model;
  }
  return KvFileKind{.fingerprint = fingerprint_,
                    .salt = kv_salt(salt),
                    .page_bytes = model->scheduler->stats().kv_page_bytes,
                    .n_vocab = model->engine->model().n_vocab()};
}

ApiResult<Json> Sessions::act(const std::shared_ptr<const ServedModel>& model, const SessionCall& call) {
  if (call.action == SessionCall::Action::erase) return erase(*model, call);
  if (call.action == SessionCall::Action::restore) {
    TAMIS_API_TRY(const KvFileKind kind, kind_of(model, call.cache_salt));
    return restore(*model, call, kind);
  }
  const std::optional<Slot> slot = content(slot_owner(*model, call.tenant), call.slot);
  if (!slot) return refused(404, "this slot holds no conversation");
  TAMIS_API_TRY(const KvFileKind kind, kind_of(model, slot->salt));
  return save(*model, call, *slot, kind);
}

ApiResult<Json> Sessions::save(const ServedModel& model, const SessionCall& call, const Slot& slot,
                               const KvFileKind& kind) {
  const auto begin = Clock::now();
  const std::string name = file_name(call);
  const size_t n_at_once = std::max<size_t>(kCopyBytes / kind.page_bytes, 1);
  const uint64_t most = most_bytes();  // its model, which has answered, is among those it counts
  const auto others = dir_.bytes_but(name);
  if (!others) return file_refusal(others.error());
  auto file = dir_.create(name);
  if (!file) return file_refusal(file.error());
  KvFileWriter writer(kind, [&](uint64_t offset, std::span<const std::byte> bytes) {
    if (*others + offset + bytes.size() > most) return Status(fail(ErrorCode::out_of_memory, "too many sessions"));
    return file->write_at(offset, bytes);
  });
  for (;;) {
    const size_t first = writer.n_blocks();
    const auto pages = model.scheduler->copy_stored(slot.tokens, slot.salt, first, n_at_once);
    if (!pages) return refusal_of(pages.error());
    for (size_t i = 0; i * kind.page_bytes < pages->size(); ++i) {
      const auto tokens = std::span(slot.tokens).subspan((first + i) * kBlockTokens, kBlockTokens);
      const Status added = writer.add(tokens, std::span(*pages).subspan(i * kind.page_bytes, kind.page_bytes));
      if (!added) return file_refusal(added.error());
    }
    if (pages->size() < n_at_once * kind.page_bytes) break;
  }
  if (writer.n_blocks() == 0)
    return refused(404, "nothing of this slot's conversation is stored: it is shorter than 32 tokens, or gave way");
  if (const Status finished = writer.finish(); !finished) return file_refusal(finished.error());
  if (const Status committed = file->commit(); !committed) return file_refusal(committed.error());
  Json out = answer_head(call);
  out.set("n_saved", uint64_t{writer.n_blocks() * kBlockTokens}).set("n_written", writer.size_bytes());
  return out.set("timings", timings("save_ms", begin));
}

ApiResult<Json> Sessions::restore(const ServedModel& model, const SessionCall& call, const KvFileKind& kind) {
  const auto begin = Clock::now();
  auto source = dir_.read(file_name(call));
  if (!source) return file_refusal(source.error());
  auto file = KvFileReader::open(*source, kind);
  if (!file) return file_refusal(file.error());
  const size_t n_at_once = std::clamp<size_t>(kCopyBytes / kind.page_bytes, 1, std::max<size_t>(file->n_blocks(), 1));
  std::vector<std::byte> pages(n_at_once * kind.page_bytes);
  TAMIS_API_TRY(std::vector<TokenId> tokens, read_through(*file, std::span(pages).first(kind.page_bytes)));
  tokens.resize(std::min<size_t>(tokens.size(), model.scheduler->n_ctx() / kBlockTokens * kBlockTokens));
  const size_t n_blocks = tokens.size() / kBlockTokens;
  size_t n_restored = 0;
  for (size_t first = 0; first < n_blocks && n_restored == first * kBlockTokens; first += n_at_once) {
    const size_t n = std::min(n_at_once, n_blocks - first);
    for (size_t i = 0; i < n; ++i) {
      const auto block = std::span(tokens).subspan((first + i) * kBlockTokens, kBlockTokens);
      const Status read = file->next(block, std::span(pages).subspan(i * kind.page_bytes, kind.page_bytes));
      if (!read) return file_refusal(read.error());
    }
    const auto stored =
        model.scheduler->store(tokens, call.cache_salt, first, std::span(pages).first(n * kind.page_bytes));
    if (!stored) return refusal_of(stored.error());
    n_restored = *stored;
  }
  if (n_restored == 0) return refused(503, "running answers use all pages of keys and values");
  tokens.resize(n_restored);
  put(slot_owner(model, call.tenant), call.slot, call.cache_salt, std::move(tokens), n_restored);
  Json out = answer_head(call);
  out.set("n_restored", uint64_t{n_restored}).set("n_read", (*source)->size_bytes());
  return out.set("timings", timings("restore_ms", begin));
}

ApiResult<Json> Sessions::erase(const ServedModel& model, const SessionCall& call) {
  size_t n_erased = 0;
  const SlotOwner owner = slot_owner(model, call.tenant);
  if (const std::optional<Slot> slot = content(owner, call.slot)) {
    const auto forgotten = model.scheduler->forget_stored(slot->tokens, slot->salt);
    if (!forgotten) return refusal_of(forgotten.error());
    n_erased = *forgotten;
    put(owner, call.slot, "", {}, 0);
  }
  if (!call.filename.empty())
    if (const Status removed = dir_.remove(file_name(call)); !removed) return file_refusal(removed.error());
  return answer_head(call).set("n_erased", uint64_t{n_erased});
}

}  // namespace tamis::server
