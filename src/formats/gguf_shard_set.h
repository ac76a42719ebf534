// From one shard to the whole set: what each shard says about itself must agree with its name and with the others.
#pragma once

#include <memory>

#include "formats/gguf_parser.h"

namespace tamis {

// Parses the file and, when it is one of several and options.follow_shards, all the others of its directory.
// Errors: those of parsing; format, naming the shard, for one that is missing, misnumbered, or of another set.
Result<std::shared_ptr<GgufFile::State>> open_shards(const std::string& path, const GgufOptions& options);

// Refuses a lone source that says it is one shard of several.
Status check_not_a_shard(const GgufFile::State& state);

}  // namespace tamis
