/*
 * Runs bytes through the parser of memcached's replies in every way in which they may arrive:
 * whole, split in two at each byte, byte by byte, each time at another address and with the end at
 * a page that must not be touched; and keys through the encoder. Used by memcached_wire_test.c and
 * by the fuzzer. It judges nothing but that all ways give the same.
 */
#pragma once

#include <stddef.h>

/*
 * Returns one line of text, to be freed: a word for each reply,
 * "code:won,stale,lost:hit:flags:cas:ttl:idle:text:data" with text and data in hex, then
 * whole, more or wrong. When two ways differ, or a result is out of bounds, the line begins with
 * "inconsistent".
 */
char *exercise_replies(const char *bytes, size_t length);

/* The same for the commands "md" and "ms" of a key: "refused", or both lines in hex. */
char *exercise_key(const char *key, size_t length);
