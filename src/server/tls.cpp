// OpenSSL's context, set up once for all connections.
#include "server/tls.h"

#include <boost/asio/buffer.hpp>

#include "base/file.h"

namespace tamis::server {
namespace {

namespace ssl = boost::asio::ssl;

constexpr uint64_t kMaxFileBytes = uint64_t{1} << 20;
constexpr unsigned char kHttp11[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

// A client that names protocols gets HTTP/1.1 if it is one of them; else none, and it may go on with what it likes.
int choose_protocol(SSL*, const unsigned char** out, unsigned char* n_out, const unsigned char* in, unsigned n_in,
                    void*) {
  const unsigned char* chosen = nullptr;
  if (::SSL_select_next_proto(const_cast<unsigned char**>(&chosen), n_out, kHttp11, sizeof kHttp11, in, n_in) !=
      OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_NOACK;
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

void set_rules(SSL_CTX* context) {
  ::SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  ::SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  ::SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);  // idle connections keep none
  ::SSL_CTX_set_alpn_select_cb(context, choose_protocol, nullptr);
}

}  // namespace

Result<std::shared_ptr<ssl::context>> read_tls_context(const std::string& certificate_path,
                                                       const std::string& key_path) {
  TAMIS_TRY(const std::string chain, read_text_file(certificate_path, kMaxFileBytes));
  TAMIS_TRY(const std::string key, read_text_file(key_path, kMaxFileBytes));
  std::shared_ptr<ssl::context> context;
  try {
    context = std::make_shared<ssl::context>(ssl::context::tls_server);
  } catch (const boost::system::system_error& error) {
    return fail(ErrorCode::internal, "TLS cannot begin: {}", error.what());
  }
  set_rules(context->native_handle());
  boost::system::error_code error;
  // Without it, a key with a password would be asked for on the terminal.
  context->set_password_callback([](size_t, ssl::context::password_purpose) { return std::string(); }, error);
  if (!error) context->use_certificate_chain(boost::asio::buffer(chain), error);
  if (error)
    return fail(ErrorCode::format, "{}: expected a certificate in PEM form: {}", certificate_path, error.message());
  context->use_private_key(boost::asio::buffer(key), ssl::context::pem, error);
  if (error)
    return fail(ErrorCode::format, "{}: expected the private key of {} in PEM form, without a password: {}", key_path,
                certificate_path, error.message());
  if (::SSL_CTX_check_private_key(context->native_handle()) != 1)
    return fail(ErrorCode::format, "{}: the key belongs to another certificate than {}", key_path, certificate_path);
  return context;
}

}  // namespace tamis::server
