/* Formats times (log_time.h). Reads the zone again each second: a change applies at once. */
#include "log/log_time.h"

#include <time.h>

/* From this second on, the year in some zones has five digits. */
#define SECONDS_LIMIT INT64_C(253402214400)

static void put(char *at, unsigned value, int digits) {
  while (digits-- > 0) {
    at[digits] = (char)('0' + value % 10);
    value /= 10;
  }
}

static void new_second(struct gyre_log_time *time, int64_t second) {
  const time_t when = (time_t)second;
  struct tm parts;
  memset(&parts, 0, sizeof(parts));
  tzset(); /* localtime_r alone may miss a change of TZ */
  if (!localtime_r(&when, &parts)) return;
  const long offset = parts.tm_gmtoff, minutes = (offset < 0 ? -offset : offset) / 60;
  const unsigned date[] = {(unsigned)(parts.tm_year + 1900), (unsigned)(parts.tm_mon + 1), (unsigned)parts.tm_mday,
                           (unsigned)parts.tm_hour,          (unsigned)parts.tm_min,       (unsigned)parts.tm_sec};
  static const unsigned char places[] = {0, 5, 8, 11, 14, 17};
  memcpy(time->text, "0000/00/00 00:00:00", GYRE_LOG_TIME_TEXT);
  memcpy(time->rfc3339, "0000-00-00T00:00:00.000000+00:00", GYRE_LOG_TIME_RFC3339);
  for (int i = 0; i < 6; i++) {
    put(time->text + places[i], date[i], i == 0 ? 4 : 2);
    put(time->rfc3339 + places[i], date[i], i == 0 ? 4 : 2);
  }
  time->rfc3339[26] = offset < 0 ? '-' : '+';
  put(time->rfc3339 + 27, (unsigned)(minutes / 60), 2);
  put(time->rfc3339 + 30, (unsigned)(minutes % 60), 2);
}

static void set(struct gyre_log_time *time, int64_t second, uint32_t microsecond) {
  if (!time->known || time->second != second) {
    new_second(time, second);
    time->known = true;
    time->second = second;
    time->microsecond = 0;
  }
  if (time->microsecond != microsecond) {
    put(time->rfc3339 + 20, microsecond, 6);
    time->microsecond = microsecond;
  }
}

void gyre_log_time_at(struct gyre_log_time *time, int64_t time_ns) {
  int64_t second = time_ns / 1000000000, rest = time_ns % 1000000000;
  if (rest < 0) {
    second--;
    rest += 1000000000;
  }
  set(time, second, (uint32_t)(rest / 1000));
}

bool gyre_log_time_at_us(struct gyre_log_time *time, uint64_t time_us) {
  if (time_us >= (uint64_t)SECONDS_LIMIT * 1000000) return false;
  set(time, (int64_t)(time_us / 1000000), (uint32_t)(time_us % 1000000));
  return true;
}
