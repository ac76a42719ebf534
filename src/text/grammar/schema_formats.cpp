// Formats of RFC 3339 (dates and times), RFC 4122, RFC 5321, RFC 1123, RFC 4291, RFC 3986, in the forms programs write.
#include "text/grammar/schema_formats.h"

namespace tamis {
namespace {

// Days as the month has them; 29 February in leap years only. Year 0000 is none of Python's or Java's.
#define TAMIS_YEAR "(?:000[1-9]|00[1-9]\\d|0[1-9]\\d{2}|[1-9]\\d{3})"
#define TAMIS_LEAP_YEAR "(?:\\d{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
#define TAMIS_DATE                                                                       \
  "(?:" TAMIS_YEAR                                                                       \
  "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|" \
  "02-(?:0[1-9]|1\\d|2[0-8]))|" TAMIS_LEAP_YEAR "-02-29)"
#define TAMIS_TIME "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,9})?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)"
#define TAMIS_BYTE "(?:25[0-5]|2[0-4]\\d|1\\d{2}|[1-9]?\\d)"
#define TAMIS_IPV4 TAMIS_BYTE "(?:\\." TAMIS_BYTE "){3}"
#define TAMIS_HEX "[0-9a-fA-F]{1,4}"
#define TAMIS_LABEL "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
#define TAMIS_ATOM "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+"

struct Row {
  std::string_view name, pattern;
};

constexpr Row kFormats[] = {
    {"date", TAMIS_DATE},
    {"time", TAMIS_TIME},
    {"date-time", TAMIS_DATE "T" TAMIS_TIME},
    {"duration",
     "P(?:\\d+W|\\d+Y(?:\\d+M(?:\\d+D)?)?|\\d+M(?:\\d+D)?|\\d+D|(?:\\d+Y(?:\\d+M(?:\\d+D)?)?|\\d+M(?:\\d+D)?|\\d+D)?T"
     "(?:\\d+H(?:\\d+M(?:\\d+S)?)?|\\d+M(?:\\d+S)?|\\d+S))"},
    {"uuid", "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"},
    {"email", TAMIS_ATOM "(?:\\." TAMIS_ATOM ")*@" TAMIS_LABEL "(?:\\." TAMIS_LABEL ")+"},
    {"hostname", TAMIS_LABEL "(?:\\." TAMIS_LABEL ")*"},
    {"ipv4", TAMIS_IPV4},
    {"ipv6", "(?:" TAMIS_HEX ":){7}" TAMIS_HEX "|::(?:" TAMIS_HEX "(?::" TAMIS_HEX "){0,6})?|" TAMIS_HEX
             "::(?:" TAMIS_HEX "(?::" TAMIS_HEX "){0,5})?|" TAMIS_HEX "(?::" TAMIS_HEX "){1}::(?:" TAMIS_HEX
             "(?::" TAMIS_HEX "){0,4})?|" TAMIS_HEX "(?::" TAMIS_HEX "){2}::(?:" TAMIS_HEX "(?::" TAMIS_HEX
             "){0,3})?|" TAMIS_HEX "(?::" TAMIS_HEX "){3}::(?:" TAMIS_HEX "(?::" TAMIS_HEX "){0,2})?|" TAMIS_HEX
             "(?::" TAMIS_HEX "){4}::(?:" TAMIS_HEX "(?::" TAMIS_HEX "){0,1})?|" TAMIS_HEX "(?::" TAMIS_HEX
             "){5}::(?:" TAMIS_HEX ")?|" TAMIS_HEX "(?::" TAMIS_HEX "){6}::"},
    {"uri",
     "[a-zA-Z][a-zA-Z0-9+.-]*://[a-zA-Z0-9.-]+(?::\\d{1,5})?(?:/(?:[a-zA-Z0-9._~!$&'()*+,;=:@/-]|%[0-9a-fA-F]{2})*)?"
     "(?:\\?(?:[a-zA-Z0-9._~!$&'()*+,;=:@/?-]|%[0-9a-fA-F]{2})*)?(?:#(?:[a-zA-Z0-9._~!$&'()*+,;=:@/"
     "?-]|%[0-9a-fA-F]{2})*)?"},
};

}  // namespace

std::optional<std::string_view> format_pattern(std::string_view name) {
  for (const Row& row : kFormats)
    if (row.name == name) return row.pattern;
  return std::nullopt;
}

std::string_view known_formats() { return "date, time, date-time, duration, uuid, email, hostname, ipv4, ipv6, uri"; }

}  // namespace tamis
