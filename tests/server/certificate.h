// A certificate for 127.0.0.1 and its key, made for one test.
#pragma once

#include <string>

#include "tests/base/temporary_dir.h"

namespace tamis::test {

class Certificate {
 public:
  Certificate();
  std::string certificate_path() const { return dir_.file("certificate.pem"); }
  std::string key_path() const { return dir_.file("key.pem"); }

 private:
  TemporaryDir dir_;
};

}  // namespace tamis::test
