// Encodes raw float32 rows by one type's encoder, for scripts/judge_encoders and for measuring encoders by themselves.
// usage: bench_encode TYPE plain|fast ROW_LEN VALUES IMPORTANCE|- OUT     files of raw float32; OUT: the blocks
// Prints the seconds of encoding, one thread.
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "quants/registry.h"

namespace {

using namespace tamis;

std::vector<float> read_floats(const char* path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return {};
  std::vector<float> values(static_cast<size_t>(file.tellg()) / sizeof(float));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(float)));
  return values;
}

int fail_with(const std::string& message) {
  std::fprintf(stderr, "bench_encode: %s\n", message.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) return fail_with("usage: bench_encode TYPE plain|fast ROW_LEN VALUES IMPORTANCE|- OUT");
  const auto dtype = dtype_from_name(argv[1]);
  if (!dtype) return fail_with(std::string("no such type: ") + argv[1]);
  const EncodeMethod method = std::string(argv[2]) == "plain" ? EncodeMethod::plain : EncodeMethod::fast;
  const uint64_t row_len = std::stoull(argv[3]);
  const std::vector<float> values = read_floats(argv[4]);
  const std::vector<float> importance = std::string(argv[5]) == "-" ? std::vector<float>() : read_floats(argv[5]);
  const DTypeInfo& info = dtype_info(*dtype);
  std::vector<std::byte> blocks(values.size() / info.block_len * info.block_bytes);
  const auto begin = std::chrono::steady_clock::now();
  const Status done = encode_rows(*dtype, method, values, row_len, importance, blocks);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  if (!done) return fail_with(done.error().message);
  std::ofstream out(argv[6], std::ios::binary);
  out.write(reinterpret_cast<const char*>(blocks.data()), static_cast<std::streamsize>(blocks.size()));
  if (!out.flush()) return fail_with(std::string(argv[6]) + ": cannot write");
  std::printf("%.6f\n", seconds.count());
  return 0;
}
