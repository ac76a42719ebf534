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
constexpr uint64_t kDefaultPools = 4;  // bytes of all files, in pools of pages
constexpr std::string_view kSlotPrefix = "/slots/";
constexpr std::pair<std::string_view, SessionCall::Action> kActions[] = {
    {"action=save", SessionCall::Action::save},
    {"action=restore", SessionCall::Action::restore},
    {"action=erase", SessionCall::Action::erase},
};

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

// The file of a session: each key has names of its own.
std::string file_name(const SessionCall& call) {
  if (call.tenant.empty()) return call.filename;
  std::string name = call.tenant + "." + call.filename;
  std::ranges::replace(name, ' ', '-');
  return name;
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

ApiResult<SessionCall> parse_session_request(std::string_view target, const Json& body, const CallLimits& limits) {
  TAMIS_API_TRY(SessionCall call, parse_session(body));
  const size_t question = std::min(target.find('?'), target.size());
  const std::string_view id = target.substr(0, question).substr(kSlotPrefix.size());
  const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), call.slot);
  if (error != std::errc() || end != id.data() + id.size() || call.slot >= limits.n_slots)
    return refuse("id_slot", fmt::format("expected 0 to {}", int64_t{limits.n_slots} - 1));
  const std::string_view query = target.substr(std::min(question + 1, target.size()));
  const auto* const row = std::ranges::find(kActions, query, &std::pair<std::string_view, SessionCall::Action>::first);
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

uint32_t Sessions::take_slot(const SlotOwner& owner, const GenerateRequest& request, int64_t wanted, uint32_t n_slots) {
  const std::lock_guard lock(mutex_);
  std::vector<Slot>& slots = slots_[owner];
  if (slots.size() < n_slots) slots.resize(n_slots);
  const auto goes_on = [&](const Slot& slot) {
    return slot.n_prompt > 0 && slot.salt == request.cache_salt && slot.n_prompt <= request.prompt.size() &&
           std::equal(slot.tokens.begin(), slot.tokens.begin() + static_cast<ptrdiff_t>(slot.n_prompt),
                      request.prompt.begin());
  };
  size_t chosen = 0;
  for (size_t i = 1; i < slots.size(); ++i)
    if (slots[i].last_use < slots[chosen].last_use) chosen = i;
  size_t n_most = 0;
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].n_prompt <= n_most || !goes_on(slots[i])) continue;
    chosen = i;
    n_most = slots[i].n_prompt;
  }
  if (wanted >= 0) chosen = static_cast<size_t>(wanted);
  slots[chosen].last_use = ++clock_;
  return static_cast<uint32_t>(chosen);
}

void Sessions::put(const SlotOwner& owner, uint32_t slot, const std::string& salt, std::vector<TokenId> tokens,
                   size_t n_prompt) {
  const std::lock_guard lock(mutex_);
  std::vector<Slot>& slots = slots_[owner];
  if (slots.size() <= slot) slots.resize(slot + 1);
  slots[slot] = {salt, std::move(tokens), n_prompt, ++clock_};
}

std::optional<Sessions::Slot> Sessions::content(const SlotOwner& owner, uint32_t slot) const {
  const std::lock_guard lock(mutex_);
  const auto own = slots_.find(owner);
  if (own == slots_.end() || own->second.size() <= slot || own->second[slot].tokens.empty()) return std::nullopt;
  return own->second[slot];
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
  const std::optional<Slot> slot = content({model->alias, call.tenant}, call.slot);
  if (!slot) return refused(404, "this slot holds no conversation");
  TAMIS_API_TRY(const KvFileKind kind, kind_of(model, slot->salt));
  return save(*model, call, *slot, kind);
}

ApiResult<Json> Sessions::save(const ServedModel& model, const SessionCall& call, const Slot& slot,
                               const KvFileKind& kind) {
  const auto begin = Clock::now();
  const std::string name = file_name(call);
  const size_t n_at_once = std::max<size_t>(kCopyBytes / kind.page_bytes, 1);
  const uint64_t most =
      max_bytes_ > 0 ? max_bytes_ : kDefaultPools * model.scheduler->stats().kv_pages * kind.page_bytes;
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
  put({model.alias, call.tenant}, call.slot, call.cache_salt, std::move(tokens), n_restored);
  Json out = answer_head(call);
  out.set("n_restored", uint64_t{n_restored}).set("n_read", (*source)->size_bytes());
  return out.set("timings", timings("restore_ms", begin));
}

ApiResult<Json> Sessions::erase(const ServedModel& model, const SessionCall& call) {
  size_t n_erased = 0;
  const SlotOwner owner{model.alias, call.tenant};
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
