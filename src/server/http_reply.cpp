// Hands a request's answer from any thread to the input/output thread.
// clang-format off
#include "server/http_connection.h"  // first: Boost 1.74's headers do not stand alone
// clang-format on
#include <boost/asio/post.hpp>

namespace tamis::server {
namespace {

class PostedReply : public Reply {
 public:
  PostedReply(std::shared_ptr<InputOutput> io, std::weak_ptr<Connection> connection, uint64_t serial)
      : io_(std::move(io)), connection_(std::move(connection)), serial_(serial) {}
  ~PostedReply() override {
    to_connection([serial = serial_](Connection& connection) { connection.abandon(serial); });
  }
  PostedReply(const PostedReply&) = delete;
  PostedReply& operator=(const PostedReply&) = delete;

  void send(Response response) override {
    to_connection([serial = serial_, response = std::move(response)](Connection& connection) mutable {
      connection.send(serial, std::move(response));
    });
  }
  void start_stream(Response response, std::string ping) override {
    to_connection(
        [serial = serial_, response = std::move(response), ping = std::move(ping)](Connection& connection) mutable {
          connection.start_stream(serial, std::move(response), std::move(ping));
        });
  }
  void write(std::string piece) override {
    to_connection(
        [serial = serial_, piece = std::move(piece)](Connection& connection) { connection.write(serial, piece); });
  }
  void finish() override {
    to_connection([serial = serial_](Connection& connection) { connection.finish(serial); });
  }
  void fail(Response response, std::string last_piece) override {
    to_connection([serial = serial_, response = std::move(response), last_piece = std::move(last_piece)](
                      Connection& connection) mutable { connection.fail(serial, std::move(response), last_piece); });
  }
  void cut_off() override {
    to_connection([serial = serial_](Connection& connection) { connection.cut_off(serial); });
  }
  void on_gone(std::function<void()> gone) override {
    // A client that has left already is told of at once: there is no connection, or another request's.
    asio::post(io_->context, [connection = connection_, serial = serial_, gone = std::move(gone)]() mutable {
      if (const auto there = connection.lock())
        there->on_gone(serial, std::move(gone));
      else
        gone();
    });
  }
  void post(std::function<void()> work) override { asio::post(io_->context, std::move(work)); }

 private:
  template <class Work>
  void to_connection(Work work) {
    asio::post(io_->context, [connection = connection_, work = std::move(work)]() mutable {
      if (const auto there = connection.lock()) work(*there);
    });
  }

  std::shared_ptr<InputOutput> io_;
  std::weak_ptr<Connection> connection_;
  uint64_t serial_;
};

}  // namespace

std::shared_ptr<Reply> make_reply(std::shared_ptr<InputOutput> io, std::weak_ptr<Connection> connection,
                                  uint64_t serial) {
  return std::make_shared<PostedReply>(std::move(io), std::move(connection), serial);
}

}  // namespace tamis::server
