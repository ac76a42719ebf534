// Calendar arithmetic (proleptic Gregorian, ISO 8601 weeks) and the directives.
#include "text/jinja/strftime.h"

#include <sys/time.h>

#include <array>
#include <ctime>

namespace tamis::jinja {
namespace {

constexpr std::array<std::string_view, 7> kDays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                   "Thursday", "Friday", "Saturday"};
constexpr std::array<std::string_view, 12> kMonths = {"January",   "February", "March",    "April",
                                                      "May",       "June",     "July",     "August",
                                                      "September", "October",  "November", "December"};

bool is_leap(int64_t year) { return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0; }

int days_in_month(int64_t year, int month) {
  constexpr int kLengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return month == 2 && is_leap(year) ? 29 : kLengths[month - 1];
}

int day_of_year(const ClockTime& t) {  // from 1
  int n = t.day;
  for (int month = 1; month < t.month; ++month) n += days_in_month(t.year, month);
  return n;
}

// Days since 1970-01-01.
int64_t day_number(const ClockTime& t) {
  const int64_t y = t.year - 1;
  return y * 365 + y / 4 - y / 100 + y / 400 + day_of_year(t) - 719163;
}

int weekday(const ClockTime& t) { return static_cast<int>(((day_number(t) + 4) % 7 + 7) % 7); }  // 0 = Sunday

struct IsoWeek {
  int64_t year;
  int week;
};
IsoWeek iso_week(const ClockTime& t) {
  const int monday_based = (weekday(t) + 6) % 7;
  int week = (day_of_year(t) - 1 - monday_based + 10) / 7;
  if (week < 1) {
    const ClockTime eve{t.year - 1, 12, 31};
    return iso_week(eve);
  }
  if (week == 53) {
    const ClockTime new_year{t.year + 1, 1, 1};
    if ((weekday(new_year) + 6) % 7 <= 3) return {t.year + 1, 1};
  }
  return {t.year, week};
}

std::string number(int64_t value, int width, char fill, char flag) {
  if (flag == '-') return std::to_string(value);
  if (flag == '_') fill = ' ';
  if (flag == '0') fill = '0';
  std::string digits = std::to_string(value);
  while (static_cast<int>(digits.size()) < width) digits.insert(digits.begin(), fill);
  return digits;
}

int twelve_hour(int hour) { return hour % 12 == 0 ? 12 : hour % 12; }

// One directive; nothing for an unknown one.
bool append_directive(const ClockTime& t, char directive, char flag, std::string& out) {
  const auto sub = [&](std::string_view format) { out += format_time(t, format); };
  const int wday = weekday(t), yday = day_of_year(t);
  switch (directive) {
    case 'a': out += kDays[static_cast<size_t>(wday)].substr(0, 3); break;
    case 'A': out += kDays[static_cast<size_t>(wday)]; break;
    case 'b':
    case 'h': out += kMonths[static_cast<size_t>(t.month - 1)].substr(0, 3); break;
    case 'B': out += kMonths[static_cast<size_t>(t.month - 1)]; break;
    case 'c': sub("%a %b %e %H:%M:%S %Y"); break;
    case 'C': out += number(t.year / 100, 2, '0', flag); break;
    case 'd': out += number(t.day, 2, '0', flag); break;
    case 'D':
    case 'x': sub("%m/%d/%y"); break;
    case 'e': out += number(t.day, 2, ' ', flag); break;
    case 'f': out += number(t.microsecond, 6, '0', flag); break;
    case 'F': sub("%Y-%m-%d"); break;
    case 'g': out += number(iso_week(t).year % 100, 2, '0', flag); break;
    case 'G': out += number(iso_week(t).year, 4, '0', flag); break;
    case 'H': out += number(t.hour, 2, '0', flag); break;
    case 'I': out += number(twelve_hour(t.hour), 2, '0', flag); break;
    case 'j': out += number(yday, 3, '0', flag); break;
    case 'k': out += number(t.hour, 2, ' ', flag); break;
    case 'l': out += number(twelve_hour(t.hour), 2, ' ', flag); break;
    case 'm': out += number(t.month, 2, '0', flag); break;
    case 'M': out += number(t.minute, 2, '0', flag); break;
    case 'n': out += '\n'; break;
    case 'p': out += t.hour < 12 ? "AM" : "PM"; break;
    case 'P': out += t.hour < 12 ? "am" : "pm"; break;
    case 'r': sub("%I:%M:%S %p"); break;
    case 'R': sub("%H:%M"); break;
    case 's': out += std::to_string(t.unix_seconds); break;
    case 'S': out += number(t.second, 2, '0', flag); break;
    case 't': out += '\t'; break;
    case 'T':
    case 'X': sub("%H:%M:%S"); break;
    case 'u': out += std::to_string(wday == 0 ? 7 : wday); break;
    case 'U': out += number((yday + 6 - wday) / 7, 2, '0', flag); break;
    case 'V': out += number(iso_week(t).week, 2, '0', flag); break;
    case 'w': out += std::to_string(wday); break;
    case 'W': out += number((yday + 6 - (wday + 6) % 7) / 7, 2, '0', flag); break;
    case 'y': out += number(t.year % 100, 2, '0', flag); break;
    case 'Y': out += flag == '\0' ? std::to_string(t.year) : number(t.year, 4, '0', flag); break;
    case 'z':
    case 'Z': break;  // the time has no zone
    case '%': out += '%'; break;
    default: return false;
  }
  return true;
}

}  // namespace

Result<ClockTime> read_clock(std::string_view clock) {
  ClockTime t;
  if (clock.empty()) {
    timeval now{};
    gettimeofday(&now, nullptr);
    std::tm local{};
    localtime_r(&now.tv_sec, &local);
    return ClockTime{local.tm_year + 1900, local.tm_mon + 1, local.tm_mday, local.tm_hour,
                     local.tm_min,         local.tm_sec,     now.tv_usec,   now.tv_sec};
  }
  constexpr std::string_view kShape = "dddd-dd-ddTdd:dd:dd";
  int64_t fields[6] = {};
  size_t field = 0;
  bool is_good = clock.size() == kShape.size();
  for (size_t i = 0; is_good && i < kShape.size(); ++i) {
    const bool is_digit = clock[i] >= '0' && clock[i] <= '9';
    if (kShape[i] == 'd')
      fields[field] = fields[field] * 10 + (clock[i] - '0');
    else
      ++field;
    is_good = kShape[i] == 'd' ? is_digit : clock[i] == kShape[i] || (kShape[i] == 'T' && clock[i] == ' ');
  }
  is_good = is_good && fields[0] >= 1 && fields[1] >= 1 && fields[1] <= 12 && fields[2] >= 1 &&
            fields[2] <= days_in_month(fields[0], static_cast<int>(fields[1])) && fields[3] < 24 && fields[4] < 60 &&
            fields[5] < 60;
  if (!is_good)
    return fail(ErrorCode::invalid_argument, "clock: expected YYYY-MM-DDTHH:MM:SS, got '{}'",
                escape_for_display(clock));
  t = ClockTime{fields[0],
                static_cast<int>(fields[1]),
                static_cast<int>(fields[2]),
                static_cast<int>(fields[3]),
                static_cast<int>(fields[4]),
                static_cast<int>(fields[5])};
  t.unix_seconds = day_number(t) * 86400 + t.hour * 3600 + t.minute * 60 + t.second;
  return t;
}

std::string format_time(const ClockTime& time, std::string_view format) {
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 >= format.size()) {
      out += format[i];
      continue;
    }
    size_t at = i + 1;
    char flag = '\0';
    if (std::string_view("-_0^#").find(format[at]) != std::string_view::npos && at + 1 < format.size())
      flag = format[at++];
    size_t width = 0;
    while (at + 1 < format.size() && format[at] >= '0' && format[at] <= '9' && width < 100)
      width = width * 10 + static_cast<size_t>(format[at++] - '0');
    std::string piece;
    if (append_directive(time, format[at], flag, piece)) {
      if (flag == '^')
        for (char& c : piece)
          if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
      const bool is_number = !piece.empty() && piece.find_first_not_of("0123456789 ") == std::string::npos;
      if (piece.size() < width) piece.insert(0, width - piece.size(), is_number && flag != '_' ? '0' : ' ');
      out += piece;
      i = at;
    } else {
      out += '%';
    }
  }
  return out;
}

}  // namespace tamis::jinja
