// One row of the table of routes; private to the server's files.
#pragma once

#include "server/server.h"

namespace tamis::server {

struct Server::Route {
  std::string_view method, path;
  bool is_public = false;  // no key is asked for
  Quick quick = nullptr;   // one of these four
  Work work = nullptr;
  Begin begin = nullptr;
  Parse parse = nullptr;
  Read read = nullptr;  // with work or begin: the part of it that reads the body
  std::string_view about;
  std::string_view parameters;             // of path and query, as ApiOperation has them
  Dialect dialect = Dialect::openai_chat;  // with parse
};

}  // namespace tamis::server
