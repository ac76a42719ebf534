// Digests through libcrypto's EVP interface.
#include "cli/digest.h"

#include <openssl/evp.h>

#include <vector>

#include "base/file.h"
#include "base/progress.h"
#include "cli/interrupt.h"

namespace tamis::cli {

struct Digest::State {
  ~State() { ::EVP_MD_CTX_free(context); }
  EVP_MD_CTX* context = nullptr;
  bool is_broken = false;
};

Digest::Digest(Kind kind) : state_(std::make_unique<State>()) {
  state_->context = ::EVP_MD_CTX_new();
  // Fails only without memory, or where a policy forbids the hash: then hex() is "", which equals no expected digest.
  if (state_->context == nullptr ||
      ::EVP_DigestInit_ex(state_->context, kind == Kind::sha256 ? ::EVP_sha256() : ::EVP_sha1(), nullptr) != 1)
    state_->is_broken = true;
}

Digest::~Digest() = default;
Digest::Digest(Digest&&) noexcept = default;
Digest& Digest::operator=(Digest&&) noexcept = default;

void Digest::update(std::string_view bytes) {
  if (!state_->is_broken) ::EVP_DigestUpdate(state_->context, bytes.data(), bytes.size());
}

std::string Digest::hex() {
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned n_bytes = 0;
  if (state_->is_broken || ::EVP_DigestFinal_ex(state_->context, bytes, &n_bytes) != 1) return "";
  std::string out;
  for (unsigned i = 0; i < n_bytes; ++i) out += fmt::format("{:02x}", bytes[i]);
  return out;
}

Result<std::string> sha256_of_file(const std::string& path) {
  TAMIS_TRY(const auto file, MappedFile::open(path));
  constexpr size_t kChunkBytes = size_t{4} << 20;
  std::vector<std::byte> chunk(kChunkBytes);
  Digest digest(Digest::Kind::sha256);
  Progress progress("hash", ProgressUnit::bytes, file->size_bytes());
  for (uint64_t offset = 0; offset < file->size_bytes();) {
    if (stop_flag()) return fail(ErrorCode::cancelled, "stopped");
    TAMIS_TRY(const size_t n, file->read_at(offset, chunk));
    if (n == 0) break;
    digest.update({reinterpret_cast<const char*>(chunk.data()), n});
    offset += n;
    progress.set(offset);
  }
  return digest.hex();
}

}  // namespace tamis::cli
