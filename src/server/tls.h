// TLS of the listener: a certificate and its key, and what is agreed on with clients. Behind the HTTP layer (http.h).
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

#include "base/result.h"

namespace tamis::server {

// A context for server connections: TLS 1.2 or later, HTTP/1.1 only, no renegotiation. `certificate_path`: a PEM file
// with the certificate first and then the chain; `key_path`: its private key without a password, PEM.
// Errors: io, not_found; format for what is no certificate or key, and for a key of another certificate.
Result<std::shared_ptr<boost::asio::ssl::context>> read_tls_context(const std::string& certificate_path,
                                                                    const std::string& key_path);

}  // namespace tamis::server
