// A JSON object of a request read field by field: each has a type and a range, and what nobody asked for is refused by
// name, so that no parameter is silently ignored.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/json.h"
#include "server/api_error.h"

namespace tamis::server {

// "a string", "null", …: what a value is, for messages.
std::string_view kind_of(const Json& value);

// Characters of a text in UTF-8.
size_t n_characters(std::string_view text);

// The text of a member; "" where there is none, or something else.
std::string text_member(const Json& object, std::string_view name);

// What a parser asks for under one name. The bounds are integers or reals as `kind` says.
struct FieldNote {
  enum class Kind : uint8_t { any, integer, real, boolean, text, texts, object, array, only, choice };
  std::string path;  // "options.temperature"
  Kind kind = Kind::any;
  Json minimum, maximum;  // text: `maximum` characters, null: any number; texts: `maximum` of them
  Json allowed;           // only; choice: an array
  bool is_required = false;
  bool is_inert = false;  // changes nothing
};

// While one lives, it notes what every Fields of its thread is asked for: the material of the API's own description.
class FieldRecorder {
 public:
  FieldRecorder();
  ~FieldRecorder();
  FieldRecorder(const FieldRecorder&) = delete;
  FieldRecorder& operator=(const FieldRecorder&) = delete;

  // In the order of asking; once a name, with the narrowest kind.
  const std::vector<FieldNote>& notes() const { return notes_; }

 private:
  friend class Fields;
  FieldNote& note(std::string path);
  std::vector<FieldNote> notes_;
  FieldRecorder* const outer_;
};

class Fields {
 public:
  // `place`: what stands before a field's name in messages: "options."; "" at the top. `object` outlives this.
  explicit Fields(const Json& object, std::string place = "");

  // Each takes note of `name`; absent and null leave `out` as it is. A value of another type or outside the range is
  // the fault that finish() tells. They return whether `out` was set.
  bool integer(std::string_view name, int64_t minimum, int64_t maximum, int64_t& out);
  bool integer(std::string_view name, int64_t minimum, int64_t maximum, int32_t& out);
  bool integer(std::string_view name, int64_t minimum, int64_t maximum, uint32_t& out);
  bool real(std::string_view name, double minimum, double maximum, float& out);
  bool boolean(std::string_view name, bool& out);
  bool text(std::string_view name, std::string& out);
  // A text, or an array of at most n_max texts.
  bool texts(std::string_view name, size_t n_max, std::vector<std::string>& out);

  const Json* object(std::string_view name);  // null when absent (or no object: a fault)
  const Json* array(std::string_view name);   // null when absent (or no array: a fault)
  const Json* any(std::string_view name);     // null when absent or null

  // Fields that a client may send and that change nothing here: of their documented type all the same. A text has
  // n_most characters at most.
  void inert_boolean(std::string_view name);
  void inert_text(std::string_view name, size_t n_most = std::numeric_limits<size_t>::max());
  void inert_choice(std::string_view name, std::initializer_list<std::string_view> allowed);
  void mark_inert(std::string_view name);  // one that was asked for otherwise
  // A field whose only value is what happens anyway: `allowed` (null and absent, too), else a fault with `why`.
  void only(std::string_view name, const Json& allowed, std::string_view why);
  // A field that this build cannot serve: null, false, "" and empty arrays and objects pass.
  void unsupported(std::string_view name);

  void fail(std::string_view name, std::string_view why);  // the first one counts
  void finish_inner(const Fields& inner);                  // an object in this one: its fault is this one's, too
  bool has_failed() const { return fault_.has_value(); }
  const std::string& place() const { return place_; }  // as it was given

  // The first fault; then the first field that nobody asked for.
  ApiResult<void> finish() const;

 private:
  const Json* look(std::string_view name);
  void record(std::string_view name, FieldNote::Kind kind, Json minimum = {}, Json maximum = {}, Json allowed = {});
  std::optional<int64_t> integer_value(std::string_view name, int64_t minimum, int64_t maximum);

  const Json& object_;
  std::string place_;
  std::vector<std::string_view> known_;
  std::optional<ApiError> fault_;
};

}  // namespace tamis::server
