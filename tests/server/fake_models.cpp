// Loading tiny models, or not.
#include "tests/server/fake_models.h"

#include <new>

#include "cpu/backend.h"
#include "server/served_model.h"

namespace tamis::test {
namespace {

constexpr const char* kPlace = "/srv/models/secret.gguf";  // no client may see it

Result<std::shared_ptr<const server::ServedModel>> load(FakeModel& fake) {
  ++fake.n_begun;
  fake.n_begun.notify_all();
  fake.is_held.wait(true);
  if (fake.fault == FakeModel::Fault::no_memory) throw std::bad_alloc();
  if (fake.fault == FakeModel::Fault::broken_file)
    return fail(ErrorCode::format, "{}: blk.0.attn_q.weight: got nothing", kPlace);
  auto served = std::make_shared<server::ServedModel>(load_tiny(write_tiny_model(fake.tiny), *make_cpu_backend()));
  SchedulerOptions options = fake.scheduling;
  options.max_seqs = std::min(options.max_seqs, 8U);
  TAMIS_TRY(served->scheduler, Scheduler::create(served->engine, options));
  served->alias = fake.name;
  served->type_label = "F32";
  served->architecture = "llama";
  served->max_seqs = options.max_seqs;
  served->max_queue = options.max_queue;
  ++fake.n_loaded;
  return served;
}

}  // namespace

server::ModelSource source_of(FakeModel& fake) {
  server::ModelSource source;
  source.card.alias = fake.name;
  source.measure = [&fake]() -> Result<uint64_t> {
    ++fake.n_measured;
    if (fake.fault == FakeModel::Fault::broken_header) return fail(ErrorCode::format, "{}: byte 0: no GGUF", kPlace);
    return fake.n_bytes.load();
  };
  source.load = [&fake] { return load(fake); };
  return source;
}

}  // namespace tamis::test
