/*
 * See http1_exercise.h. Each way of arriving is a run: `first` bytes at once, then `step` more each
 * time. What a run gives is written down as text and compared with the run of the whole.
 */
#define _GNU_SOURCE
#include "http1_exercise.h"
#include "arriving.h"
#include "http/h1/chunked.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIELDS_MAX 256
#define EVERY_SPLIT_MAX 1500    /* of longer input only some splits are tried */
#define MOVE_EACH_BYTE_MAX 4096 /* longer input stays in place while it grows */

/* --- one run --- */

struct run {
  const struct exercise_input *input;
  struct places *places;
  size_t first, step;
  size_t decided; /* bytes after which there was a verdict; 0: none */
  struct text text;
  struct gyre_http_head head;
  struct gyre_http_field fields[FIELDS_MAX];
};

/* The first `length` bytes of the input, at an address of their own. */
static const char *arrive(struct run *run, size_t from, size_t length) {
  const struct exercise_input *input = run->input;
  if (run->step == 1 && input->length > MOVE_EACH_BYTE_MAX) return input->bytes + from;
  return place(run->places, input->bytes + from, length - from);
}

static size_t next_length(const struct run *run, size_t length) {
  const size_t whole = run->input->length;
  return whole - length > run->step ? length + run->step : whole;
}

static void append_slice(struct run *run, const char *name, const char *bytes, struct gyre_http_slice slice,
                         size_t end) {
  appendf(&run->text, " %s=", name);
  if (slice.length > end || slice.offset > end - slice.length)
    appendf(&run->text, "out-of-bounds");
  else
    append_hex(&run->text, bytes + slice.offset, slice.length);
}

static void append_fields(struct run *run, const char *bytes, size_t end) {
  appendf(&run->text, " fields=");
  for (unsigned i = 0; i < run->head.field_count; i++) {
    const struct gyre_http_field *field = &run->fields[i];
    if (field->name + (size_t)field->name_length > end || field->value + (size_t)field->value_length > end) {
      appendf(&run->text, "out-of-bounds");
      return;
    }
    append_hex(&run->text, bytes + field->name, field->name_length);
    appendf(&run->text, ":");
    append_hex(&run->text, bytes + field->value, field->value_length);
    appendf(&run->text, ":%x,", field->flags);
  }
}

static void append_head(struct run *run, const char *bytes, int length) {
  const struct gyre_http_head *head = &run->head;
  const size_t end = (size_t)length;
  appendf(&run->text, "verdict=complete length=%d minor=%u form=%u flags=%x content_length=%lld method_number=%u",
          length, head->minor_version, head->target_form, head->flags, (long long)head->content_length,
          head->method_number);
  append_slice(run, "method", bytes, head->method, end);
  append_slice(run, "target", bytes, head->target, end);
  append_slice(run, "path", bytes, head->path, end);
  if (head->has_query) append_slice(run, "query", bytes, head->query, end);
  append_slice(run, "authority", bytes, head->authority, end);
  append_slice(run, "host", bytes, head->host, end);
  append_slice(run, "port", bytes, head->port, end);
  append_fields(run, bytes, end);
}

static void append_refusal(struct run *run, unsigned status, const char *reason) {
  appendf(&run->text, "verdict=refused status=%u reason=", status);
  append_hex(&run->text, reason, strlen(reason));
}

/* After a verdict the parser must stay with it. */
static bool same_again(int first, int second) { return first == second; }

static void run_head(struct run *run) {
  size_t length = run->first;
  gyre_http1_head_reset(&run->head, run->fields, FIELDS_MAX);
  for (;;) {
    const char *bytes = arrive(run, 0, length);
    const int result = gyre_http1_head_parse(&run->head, bytes, length, &run->input->limits);
    if (result != 0) {
      run->decided = length;
      if (result > 0)
        append_head(run, bytes, result);
      else
        append_refusal(run, run->head.status, run->head.reason);
      if (result > (int)length) appendf(&run->text, " longer-than-input");
      if (!same_again(result, gyre_http1_head_parse(&run->head, bytes, length, &run->input->limits)))
        appendf(&run->text, " changed");
      return;
    }
    if (length == run->input->length) break;
    length = next_length(run, length);
  }
  appendf(&run->text, "verdict=incomplete");
}

/*
 * The trailer section, which starts at `start` of the input; `length` bytes of it and what is
 * before it have come.
 */
static void run_trailers(struct run *run, size_t start, size_t length) {
  gyre_http1_trailers_reset(&run->head, run->fields, FIELDS_MAX);
  for (;;) {
    const char *bytes = arrive(run, start, length);
    const int result = gyre_http1_trailers_parse(&run->head, bytes, length - start, &run->input->limits);
    if (result != 0) {
      run->decided = length;
      if (result > 0) {
        appendf(&run->text, " verdict=complete length=%zu", start + (size_t)result);
        append_fields(run, bytes, (size_t)result);
      } else {
        appendf(&run->text, " ");
        append_refusal(run, run->head.status, run->head.reason);
      }
      return;
    }
    if (length == run->input->length) break;
    length = next_length(run, length);
  }
  appendf(&run->text, " verdict=incomplete");
}

static void run_body(struct run *run) {
  struct gyre_http1_chunked chunked;
  size_t position = 0, length = run->first, consumed, data_length;
  const char *data;

  gyre_http1_chunked_reset(&chunked);
  appendf(&run->text, "data=");
  for (;;) {
    const size_t piece = length - position;
    const char *bytes = arrive(run, position, length);
    size_t inside = 0;
    for (;;) {
      const int result =
          gyre_http1_chunked_step(&chunked, bytes + inside, piece - inside, &consumed, &data, &data_length);
      if (consumed > piece - inside || (result == GYRE_HTTP1_CHUNKED_DATA && data_length == 0)) {
        appendf(&run->text, " bad-step");
        return;
      }
      if (result == GYRE_HTTP1_CHUNKED_DATA) append_hex(&run->text, data, data_length);
      if (result == GYRE_HTTP1_CHUNKED_REFUSED) {
        run->decided = length;
        appendf(&run->text, " ");
        append_refusal(run, chunked.status, chunked.reason);
        return;
      }
      inside += consumed;
      if (result == GYRE_HTTP1_CHUNKED_TRAILERS) {
        run_trailers(run, position + inside, length);
        return;
      }
      if (result == GYRE_HTTP1_CHUNKED_MORE) break;
    }
    position += inside;
    if (position != length) {
      appendf(&run->text, " input-left");
      return;
    }
    if (length == run->input->length) break;
    length = next_length(run, length);
  }
  appendf(&run->text, " verdict=incomplete");
}

/* --- all runs --- */

/* What the parsers give for one way of arriving. run->text.bytes is to be freed. */
static void start_run(struct run *run, const struct exercise_input *input, struct places *places, size_t first,
                      size_t step) {
  run->input = input;
  run->places = places;
  run->first = first;
  run->step = step;
  run->decided = 0;
  run->text = (struct text){NULL, 0, 0};
  if (input->kind == EXERCISE_HEAD)
    run_head(run);
  else
    run_body(run);
}

/* The two runs say the same, or the difference is appended to the whole's text. */
static bool agrees(struct run *whole, const struct run *other, const char *way, size_t at) {
  if (strcmp(whole->text.bytes, other->text.bytes) == 0) return true;
  appendf(&whole->text, " verdict=inconsistent way=%s at=%zu other=[", way, at);
  append(&whole->text, other->text.bytes, other->text.length);
  appendf(&whole->text, "]");
  return false;
}

static bool try_splits(struct run *whole, size_t decided) {
  const size_t length = whole->input->length;
  const size_t stride = length <= EVERY_SPLIT_MAX ? 1 : length / 64;
  static struct run split;
  for (size_t at = 0; at <= length; at += stride) {
    bool same;
    size_t expected = decided == 0 ? 0 : at >= decided ? at : length;
    start_run(&split, whole->input, whole->places, at, length + 1);
    same = agrees(whole, &split, "split", at);
    if (same && split.decided != expected) {
      appendf(&whole->text, " verdict=inconsistent way=split at=%zu decided=%zu expected=%zu", at, split.decided,
              expected);
      same = false;
    }
    free(split.text.bytes);
    if (!same) return false;
  }
  return true;
}

char *exercise(const struct exercise_input *input) {
  static struct run whole, growing;
  struct places places = {{guarded_open(input->length), guarded_open(input->length)}, 0, 0};

  start_run(&whole, input, &places, input->length, input->length + 1);
  start_run(&growing, input, &places, 0, 1);
  if (agrees(&whole, &growing, "bytes", 0) && try_splits(&whole, growing.decided)) {
    appendf(&whole.text, " at=%zu", growing.decided);
  }
  free(growing.text.bytes);
  guarded_close(&places.memory[0]);
  guarded_close(&places.memory[1]);
  return whole.text.bytes;
}
