/*
 * Runs bytes through the log's ingest (ext/gyre/log/log_hub.h) in every way in which they may
 * arrive: whole, split in two at each byte, byte by byte, each time at another address and with the
 * end at a page that must not be touched. Used by log_ingest_test.c and by the fuzzer. It judges
 * nothing but that all ways give the same: its result is what came out.
 */
#pragma once

#include "log/log_hub.h"

struct log_exercise_input {
  enum gyre_log_kind kind;
  enum gyre_log_framing framing;
  size_t limit;
  const char *bytes;
  size_t length;
};

/*
 * Returns one line of text, to be freed: words "name=value" with a space between, bytes in hex.
 * When two ways differ, it holds "inconsistent" and how. test/log/verdicts.rb has the routes and
 * sinks, too.
 */
char *log_exercise(const struct log_exercise_input *input);
