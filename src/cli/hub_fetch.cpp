// The hub's side: what a repository holds, and its files. Every answer is hostile until checked.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/env.h"
#include "base/file.h"
#include "base/log.h"
#include "base/progress.h"
#include "cli/digest.h"
#include "cli/http.h"
#include "cli/hub.h"
#include "cli/interrupt.h"
#include "formats/json.h"

namespace tamis::cli {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxListingBytes = uint64_t{16} << 20;
constexpr uint64_t kMaxFileBytes = uint64_t{1} << 44;
constexpr uint32_t kMaxListingDepth = 32;

std::string url_escaped(std::string_view path) {
  std::string out;
  for (char c : path) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                          std::string_view("/._-").find(c) != std::string_view::npos;
    out += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

std::string endpoint() {
  std::string text = env::hugging_face_endpoint();
  while (text.ends_with('/')) text.pop_back();
  return text;
}

std::string text_of(const Json* value) {
  return value != nullptr && value->is_string() ? value->as_string() : std::string();
}

uint64_t size_of(const Json* value) {
  return value != nullptr && value->is_int() ? static_cast<uint64_t>(std::max<int64_t>(0, value->as_int())) : 0;
}

tl::unexpected<Error> os_error(std::string_view what, const std::string& path) {
  const int saved = errno;
  const ErrorCode code = saved == ENOSPC || saved == EDQUOT ? ErrorCode::out_of_memory : ErrorCode::io;
  return fail(code, "{}: cannot {}: {}", path, what, std::strerror(saved));
}

// A sibling of the listing; nothing when its name could not be a path or it has no digest to check.
bool read_file_entry(const Json& entry, HubFile& file) {
  file.name = text_of(entry.find("rfilename"));
  if (!is_safe_file_name(file.name)) {
    log_warning("the hub lists a file whose name is refused: {}", escape_for_display(file.name));
    return false;
  }
  file.size_bytes = size_of(entry.find("size"));
  if (const Json* lfs = entry.find("lfs")) {
    file.sha256 = text_of(lfs->find("sha256"));
    if (const Json* size = lfs->find("size")) file.size_bytes = size_of(size);
    return is_hex(file.sha256, 64) && file.size_bytes <= kMaxFileBytes;
  }
  file.git_sha1 = text_of(entry.find("blobId"));
  return is_hex(file.git_sha1, 40) && file.size_bytes <= kMaxFileBytes;
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) {
           auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
           return lower(x) == lower(y);
         });
}

// Owns the file being downloaded, locked against a second download of the same.
class PartialFile {
 public:
  static Result<PartialFile> open(const std::string& path) {
    PartialFile file;
    file.path_ = path;
    file.fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (file.fd_ < 0) return os_error("open", path);
    if (::flock(file.fd_, LOCK_EX | LOCK_NB) != 0)
      return fail(ErrorCode::io, "{}: another download of this file is running", path);
    return file;
  }
  PartialFile(PartialFile&& other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}
  ~PartialFile() {
    if (fd_ >= 0) ::close(fd_);
  }

  Result<uint64_t> size_bytes() const {
    struct stat info {};
    if (::fstat(fd_, &info) != 0) return os_error("stat", path_);
    return static_cast<uint64_t>(info.st_size);
  }

  Status truncate() {
    if (::ftruncate(fd_, 0) != 0 || ::lseek(fd_, 0, SEEK_SET) != 0) return os_error("truncate", path_);
    return {};
  }

  // Feeds what is there to the digest and leaves the position at the end.
  Status hash_into(Digest& digest) {
    std::string chunk(size_t{1} << 20, '\0');
    if (::lseek(fd_, 0, SEEK_SET) != 0) return os_error("seek in", path_);
    for (;;) {
      if (stop_flag()) return fail(ErrorCode::cancelled, "stopped");
      const ssize_t n = ::read(fd_, chunk.data(), chunk.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return os_error("read", path_);
      if (n == 0) return {};
      digest.update(std::string_view(chunk).substr(0, static_cast<size_t>(n)));
    }
  }

  Status append(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return os_error("write", path_);
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return {};
  }

  Status rename_to(const std::string& target) {
    if (::fsync(fd_) != 0) return os_error("sync", path_);
    if (::rename(path_.c_str(), target.c_str()) != 0) return os_error("rename", path_);
    return {};
  }

  void remove() { ::unlink(path_.c_str()); }

 private:
  PartialFile() = default;
  std::string path_;
  int fd_ = -1;
};

Digest new_digest(const HubFile& file) {
  if (!file.sha256.empty()) return Digest(Digest::Kind::sha256);
  Digest digest(Digest::Kind::sha1);
  digest.update(fmt::format("blob {}", file.size_bytes));  // git hashes a header "blob SIZE\0" first
  digest.update(std::string_view("\0", 1));
  return digest;
}

Status check_room(const std::string& folder, uint64_t n_bytes) {
  struct statvfs info {};
  if (::statvfs(folder.c_str(), &info) != 0) return {};
  const uint64_t free_bytes = static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
  if (free_bytes >= n_bytes) return {};
  return fail(ErrorCode::out_of_memory, "{}: {} free, expected {} for the download", folder, human_bytes(free_bytes),
              human_bytes(n_bytes));
}

// Everything that is missing, appended to `partial`; what arrived stays there on any error but a wrong digest.
Status download(const std::string& url, const HubFile& file, PartialFile& partial) {
  Digest digest = new_digest(file);
  TAMIS_TRY(uint64_t n_have, partial.size_bytes());
  if (n_have > file.size_bytes) {
    TAMIS_TRY_STATUS(partial.truncate());
    n_have = 0;
  }
  TAMIS_TRY_STATUS(partial.hash_into(digest));
  Progress progress(file.name, ProgressUnit::bytes, file.size_bytes);
  if (n_have < file.size_bytes) {
    HttpClient client;
    HttpRequest request{url, env::hugging_face_token(), n_have, file.size_bytes};
    bool is_first = true;
    uint64_t n_done = n_have;
    const auto reply = client.get(request, [&](const HttpReply& answer, std::string_view piece) -> Status {
      if (is_first && answer.first_byte != n_have) {  // the server starts elsewhere: begin again, or give up
        if (answer.first_byte != 0)
          return fail(ErrorCode::network, "{}: asked from byte {}, got byte {}", url, n_have, answer.first_byte);
        TAMIS_TRY_STATUS(partial.truncate());
        digest = new_digest(file);
        n_done = 0;
      }
      is_first = false;
      if (n_done + piece.size() > file.size_bytes)
        return fail(ErrorCode::network, "{}: got more than the {} bytes the hub announced", url, file.size_bytes);
      digest.update(piece);
      n_done += piece.size();
      progress.set(n_done);
      return partial.append(piece);
    });
    if (!reply) return tl::unexpected<Error>(reply.error());
    if (n_done != file.size_bytes)
      return fail(ErrorCode::network, "{}: got {} bytes, expected {}; run again to go on", url, n_done,
                  file.size_bytes);
  }
  const std::string got = digest.hex();
  if (got == file.digest()) return {};
  partial.remove();
  ErrorSite site;
  site.file = file.name;
  site.got = "digest " + got;
  site.expected = file.digest() + " (what came was deleted)";
  site.tag = "E_DIGEST";
  return fail_at(ErrorCode::format, std::move(site));
}

// snapshots/COMMIT/FILE as a relative link to blobs/DIGEST, made beside its place and renamed into it.
Result<std::string> link_snapshot(const fs::path& repo_dir, const std::string& commit, const HubFile& file) {
  const fs::path link = repo_dir / "snapshots" / commit / file.name;
  std::error_code error;
  fs::create_directories(link.parent_path(), error);
  if (error) return fail(ErrorCode::io, "{}: cannot create: {}", link.parent_path().string(), error.message());
  std::string target = "../../blobs/" + file.digest();
  for (char c : file.name)
    if (c == '/') target.insert(0, "../");
  const std::string temporary = link.string() + fmt::format(".{}.tmp", ::getpid());
  ::unlink(temporary.c_str());
  if (::symlink(target.c_str(), temporary.c_str()) != 0) return os_error("link", temporary);
  if (::rename(temporary.c_str(), link.c_str()) != 0) {
    auto failure = os_error("rename to", link.string());
    ::unlink(temporary.c_str());
    return failure;
  }
  return link.string();
}

}  // namespace

Result<HubListing> fetch_listing(const HubName& name, const std::string& revision) {
  const std::string url =
      fmt::format("{}/api/models/{}/revision/{}?blobs=true", endpoint(), name.id(), url_escaped(revision));
  HttpClient client;
  TAMIS_TRY(const std::string body, client.get_text({url, env::hugging_face_token(), 0, kMaxListingBytes}));
  auto parsed = Json::parse(body, kMaxListingDepth);
  if (!parsed) return fail(ErrorCode::format, "{}: the answer is not JSON: {}", url, parsed.error().message);
  HubListing listing;
  listing.commit = text_of(parsed->find("sha"));
  const Json* siblings = parsed->find("siblings");
  if (!is_hex(listing.commit, 40) || siblings == nullptr || !siblings->is_array())
    return fail(ErrorCode::format, "{}: the answer has no commit and list of files", url);
  for (const Json& entry : siblings->as_array()) {
    HubFile file;
    if (read_file_entry(entry, file)) listing.files.push_back(std::move(file));
  }
  return listing;
}

Result<std::vector<HubFile>> choose_files(const HubListing& listing, const HubName& name, const std::string& file) {
  std::vector<HubFile> models;
  for (const HubFile& candidate : listing.files)
    if (candidate.name.ends_with(".gguf") && candidate.name.find("mmproj") == std::string::npos)
      models.push_back(candidate);
  std::sort(models.begin(), models.end(), [](const HubFile& a, const HubFile& b) { return a.name < b.name; });
  std::string there;
  for (const HubFile& model : models) there += (there.empty() ? "" : ", ") + model.name;
  if (models.empty()) return fail(ErrorCode::not_found, "{}: the repository has no usable .gguf file", name.id());
  auto chosen = [&](auto&& matches) {
    std::vector<HubFile> out;
    for (const HubFile& model : models) {
      const bool is_same_model =
          out.empty() || (stem_of_file_name(out[0].name).stem == stem_of_file_name(model.name).stem &&
                          stem_of_file_name(model.name).n_shards > 1);
      if (is_same_model && matches(model)) out.push_back(model);
    }
    return out;
  };
  std::vector<HubFile> out;
  if (!file.empty()) {
    out = chosen([&](const HubFile& model) {
      return model.name == file || stem_of_file_name(model.name).stem == stem_of_file_name(file).stem;
    });
  } else if (!name.quant.empty()) {
    out = chosen([&](const HubFile& model) { return equal_ignoring_case(quant_of_file_name(model.name), name.quant); });
  } else {
    out = chosen([](const HubFile&) { return true; });
    if (out.size() != models.size()) out.clear();
    for (const char* quant : {"Q4_K_M", "Q4_0"})
      if (out.empty()) out = chosen([&](const HubFile& model) { return quant_of_file_name(model.name) == quant; });
  }
  if (out.empty() || out.size() != stem_of_file_name(out[0].name).n_shards)
    return fail(ErrorCode::not_found, "{}: {}; the repository has {}", name.id(),
                out.empty() ? "no file fits" : "shards are missing", escape_for_display(there, 2000));
  return out;
}

Result<std::string> fetch_file(const HubName& name, const HubListing& listing, const HubFile& file) {
  const fs::path repo_dir = fs::path(env::hugging_face_hub()) / name.folder();
  const fs::path blob = repo_dir / "blobs" / file.digest();
  std::error_code error;
  fs::create_directories(blob.parent_path(), error);
  if (error) return fail(ErrorCode::io, "{}: cannot create: {}", blob.parent_path().string(), error.message());
  if (fs::file_size(blob, error) != file.size_bytes || error) {
    TAMIS_TRY(PartialFile partial, PartialFile::open(blob.string() + ".incomplete"));
    TAMIS_TRY(const uint64_t n_have, partial.size_bytes());
    TAMIS_TRY_STATUS(check_room(blob.parent_path().string(), file.size_bytes - std::min(n_have, file.size_bytes)));
    const std::string url =
        fmt::format("{}/{}/resolve/{}/{}", endpoint(), name.id(), listing.commit, url_escaped(file.name));
    TAMIS_TRY_STATUS(download(url, file, partial));
    TAMIS_TRY_STATUS(partial.rename_to(blob.string()));
  }
  return link_snapshot(repo_dir, listing.commit, file);
}

Status write_ref(const HubName& name, const std::string& revision, const std::string& commit) {
  if (!is_safe_file_name(revision)) return {};
  const fs::path path = fs::path(env::hugging_face_hub()) / name.folder() / "refs" / revision;
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) return fail(ErrorCode::io, "{}: cannot create: {}", path.parent_path().string(), error.message());
  return write_text_file(path.string(), commit, true);
}

}  // namespace tamis::cli
