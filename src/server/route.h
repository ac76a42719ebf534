// One row of the table of routes; private to the server's files.
#pragma once

#include "server/server.h"

namespace tamis::server {

struct Server::Route {
  std::string_view method, path;
  bool is_public = false;  // no key is asked for
  Quick quick = nullptr;   // one of these three
  Work work = nullptr;
  Parse parse = nullptr;
  Dialect dialect = Dialect::openai_chat;  // with parse
};

}  // namespace tamis::server
