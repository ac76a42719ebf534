// A self-signed certificate by libcrypto.
#include "tests/server/certificate.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <cstdio>
#include <memory>

namespace tamis::test {
namespace {

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

}  // namespace

Certificate::Certificate() {
  const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key(::EVP_EC_gen("P-256"), ::EVP_PKEY_free);
  const std::unique_ptr<X509, void (*)(X509*)> certificate(::X509_new(), ::X509_free);
  ::X509_set_version(certificate.get(), 2);
  ::ASN1_INTEGER_set(::X509_get_serialNumber(certificate.get()), 1);
  ::X509_gmtime_adj(::X509_getm_notBefore(certificate.get()), 0);
  ::X509_gmtime_adj(::X509_getm_notAfter(certificate.get()), 3600);
  ::X509_set_pubkey(certificate.get(), key.get());
  X509_NAME* const name = ::X509_get_subject_name(certificate.get());
  ::X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("127.0.0.1"), -1, -1,
                               0);
  ::X509_set_issuer_name(certificate.get(), name);
  TAMIS_CHECK(::X509_sign(certificate.get(), key.get(), ::EVP_sha256()) > 0);
  const File certificate_file(std::fopen(certificate_path().c_str(), "w"), std::fclose);
  const File key_file(std::fopen(key_path().c_str(), "w"), std::fclose);
  TAMIS_CHECK(::PEM_write_X509(certificate_file.get(), certificate.get()) == 1);
  TAMIS_CHECK(::PEM_write_PrivateKey(key_file.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1);
}

}  // namespace tamis::test
