/*
 * Runs bytes through the reader and the writer of DNS messages: at the edge of a guarded page, as a
 * whole and cut at each byte; a well-formed message is written again, into every smaller room, and
 * must read the same. Used by dns_wire_test.c and by the fuzzer.
 */
#pragma once

#include <stddef.h>

/* Returns a line of text, to be freed: no-header, malformed, or well-formed with the message's
 * parts. It begins with "inconsistent" if something differs. */
char *exercise_message(const char *bytes, size_t length);
