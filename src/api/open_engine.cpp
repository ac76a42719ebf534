// Opening by what the path is.
#include "api/open_engine.h"

#include "base/log.h"
#include "convert/checkpoint.h"

namespace tamis {
namespace {

Result<std::shared_ptr<const Engine>> open_folder(const std::string& path, std::unique_ptr<Backend> backend,
                                                  EngineOptions options, ThreadPool& pool) {
  TAMIS_TRY(OpenCheckpoint checkpoint, open_checkpoint(path, pool));
  for (const std::string& warning : checkpoint.warnings) log_warning("{}", warning);
  options.affine = std::move(checkpoint.affine);
  options.on_unread = std::move(checkpoint.forget);
  return Engine::load(checkpoint.file, std::move(backend), options);
}

}  // namespace

Result<std::shared_ptr<const Engine>> open_engine(const std::string& path, std::unique_ptr<Backend> backend,
                                                  const EngineOptions& options, ThreadPool& pool) {
  auto engine = is_checkpoint(path) ? open_folder(path, std::move(backend), options, pool)
                                    : Engine::load(path, std::move(backend), options);
  if (engine) return engine;
  const Error& error = engine.error();
  const bool is_named = error.site && !error.site->file.empty();  // a shard, a file of the folder
  return tl::unexpected<Error>(as_file_error(is_named ? error : with_file(error, path)));
}

}  // namespace tamis
