// The web page: the files of web/, which are part of the program (cmake/embed_page.cmake), and how they are answered.
#pragma once

#include <span>
#include <string_view>

#include "server/http.h"

namespace tamis::server {

struct PageFile {
  std::string_view path;  // "/" or "/page/NAME"
  std::string_view content_type;
  std::string_view tag;  // an ETag, of the content
  std::span<const unsigned char> bytes;
};

std::span<const PageFile> page_files();
const PageFile* find_page_file(std::string_view path);  // null: no such file

// The file, or 304 where the client has it already. The page may load and ask nothing but this server, and run no
// script but its own files.
Response page_response(const PageFile& file, const RequestHead& head);

}  // namespace tamis::server
