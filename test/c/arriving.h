/*
 * Bytes that arrive at ever new addresses, each time with their end at a page that must not be
 * touched, and text that grows. Included by what runs parsers in every way in which bytes may
 * arrive (http1_exercise.c, log_exercise.c), after _GNU_SOURCE.
 */
#pragma once

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* --- text that grows --- */

struct text {
  char *bytes;
  size_t length, capacity;
};

static inline void append(struct text *text, const char *bytes, size_t length) {
  if (text->length + length + 1 > text->capacity) {
    text->capacity = (text->length + length + 1) * 2;
    text->bytes = realloc(text->bytes, text->capacity);
    if (text->bytes == NULL) abort();
  }
  if (length > 0) memcpy(text->bytes + text->length, bytes, length);
  text->length += length;
  text->bytes[text->length] = '\0';
}

__attribute__((format(printf, 2, 3))) static inline void appendf(struct text *text, const char *format, ...) {
  char line[512];
  va_list arguments;
  int length;
  va_start(arguments, format);
  length = vsnprintf(line, sizeof(line), format, arguments);
  va_end(arguments);
  if (length < 0 || (size_t)length >= sizeof(line)) abort();
  append(text, line, (size_t)length);
}

static inline void append_hex(struct text *text, const char *bytes, size_t length) {
  static const char digits[] = "0123456789abcdef";
  for (size_t i = 0; i < length; i++) {
    const char pair[2] = {digits[(uint8_t)bytes[i] >> 4], digits[(uint8_t)bytes[i] & 15]};
    append(text, pair, 2);
  }
}

/* --- memory that ends where the input ends --- */

struct guarded {
  char *start, *end;
};

static inline struct guarded guarded_open(size_t length) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (length / page + 1) * page;
  struct guarded memory;
  memory.start = mmap(NULL, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory.start == MAP_FAILED) abort();
  memory.end = memory.start + size;
  if (mprotect(memory.end, page, PROT_NONE) != 0) abort();
  return memory;
}

static inline void guarded_close(struct guarded *memory) {
  munmap(memory->start, (size_t)(memory->end - memory->start) + (size_t)sysconf(_SC_PAGESIZE));
}

/* Two places, used in turn; the one that was left is overwritten, so that a pointer kept into it
 * shows. */
struct places {
  struct guarded memory[2];
  unsigned turn;
  size_t used;
};

static inline const char *place(struct places *places, const char *bytes, size_t length) {
  struct guarded *left = &places->memory[places->turn];
  memset(left->end - places->used, 'X', places->used);
  places->turn ^= 1;
  places->used = length;
  if (length > 0) memcpy(places->memory[places->turn].end - length, bytes, length);
  return places->memory[places->turn].end - length;
}
