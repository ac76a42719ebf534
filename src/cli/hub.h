// Models by name: USER/REPO[:QUANT] in the Hugging Face cache layout, which other tools share, and plain files in
// tamis's own cache. Layout: models--USER--REPO/{blobs/DIGEST, refs/REVISION, snapshots/COMMIT/FILE ->
// ../../blobs/DIGEST}. Source: huggingface_hub, "Understand caching"; hub API /api/models/REPO/revision/REV?blobs=true.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tamis::cli {

struct HubName {
  std::string user, repo;
  std::string quant;  // "" when the name has no ":QUANT"
  std::string id() const { return user + "/" + repo; }
  std::string folder() const { return "models--" + user + "--" + repo; }
};

// Whether `text` has the form USER/REPO[:QUANT] at all.
bool looks_like_hub_name(std::string_view text);
// Errors: invalid_argument for anything whose parts do not match [A-Za-z0-9][A-Za-z0-9._-]{0,95}, or contain "..".
Result<HubName> parse_hub_name(std::string_view text);

// A file name from the hub that may become a path: at most 8 parts of [A-Za-z0-9][A-Za-z0-9 ._+=()-]{0,127}, none with
// "..".
bool is_safe_file_name(std::string_view name);
bool is_hex(std::string_view text, size_t n_digits);  // lower case

// "Q4_K_M" from "model-Q4_K_M.gguf" or "model.Q4_K_M-00001-of-00002.gguf"; "" when the name states none. Upper case.
std::string quant_of_file_name(std::string_view name);
// "model" from "dir/model.gguf" and from "model-00001-of-00002.gguf"; of how many files it is one.
struct ModelStem {
  std::string stem;
  uint32_t n_shards = 1;
};
ModelStem stem_of_file_name(std::string_view name);

// A model in a cache: one GGUF file, or all shards of one.
struct CachedModel {
  std::string name;  // what -m takes: "USER/REPO:QUANT", or the file's name without .gguf in tamis's own cache
  std::string repo;  // "USER/REPO"; "" in tamis's own cache
  std::string quant;
  std::string commit;              // of the snapshot
  std::vector<std::string> files;  // paths, first shard first
  uint64_t size_bytes = 0;
  uint32_t n_shards = 1;   // as the names say; files.size() may be less
  int64_t modified_s = 0;  // seconds since 1970
};

// Both caches, sorted by name. Directories that cannot be read count as empty.
std::vector<CachedModel> list_cached_models();
std::vector<CachedModel> list_hub_models(const std::string& hub_dir);
std::vector<CachedModel> list_plain_models(const std::string& models_dir);
std::string models_dir();  // tamis's own

// A file of a repository on the hub.
struct HubFile {
  std::string name;
  uint64_t size_bytes = 0;
  std::string sha256;    // of large files; else ""
  std::string git_sha1;  // git's object id of small ones; else ""
  const std::string& digest() const { return sha256.empty() ? git_sha1 : sha256; }
};
struct HubListing {
  std::string commit;
  std::vector<HubFile> files;  // those with safe names and well-formed digests
};

// Asks the hub what a revision holds. Errors: network, not_found, format.
Result<HubListing> fetch_listing(const HubName& name, const std::string& revision);

// The GGUF files to take: those of one model (all its shards, in order), by quant, or by file name when `file` is not
// "". Without either: the only one there is, else Q4_K_M, else Q4_0. Errors: not_found, naming what there is.
Result<std::vector<HubFile>> choose_files(const HubListing& listing, const HubName& name, const std::string& file);

// Downloads into the cache, resuming what is there, and links the snapshot; returns the file's path. Errors: network;
// format when size or digest differ (what came is deleted); out_of_memory when the disk has no room; cancelled (what
// came is kept).
Result<std::string> fetch_file(const HubName& name, const HubListing& listing, const HubFile& file);
// Notes that `revision` is `commit`.
Status write_ref(const HubName& name, const std::string& revision, const std::string& commit);

}  // namespace tamis::cli
