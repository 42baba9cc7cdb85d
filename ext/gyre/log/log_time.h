/* Formats times in the local zone; keeps the text of the last second. Reads no clock. No ruby.h. */
#pragma once

#include "feature.h"

#define GYRE_LOG_TIME_TEXT 19    /* 2026/11/21 19:20:00 */
#define GYRE_LOG_TIME_RFC3339 32 /* 2026-11-21T19:20:00.123456+01:00 */

struct gyre_log_time {
  bool known;
  int64_t second;
  uint32_t microsecond;
  char text[GYRE_LOG_TIME_TEXT];
  char rfc3339[GYRE_LOG_TIME_RFC3339];
};

void gyre_log_time_at(struct gyre_log_time *time, int64_t time_ns);
/* Returns false if the time's year may have more than four digits. */
bool gyre_log_time_at_us(struct gyre_log_time *time, uint64_t time_us);
