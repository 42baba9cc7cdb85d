/*
 * Reads a section of field lines: header lines or a chunked body's trailer lines. Called by
 * h1/parser.c (requests) and h1/reply.c (responses), which pass a function that interprets fields.
 * Uses struct gyre_http_head alone.
 */
#ifndef GYRE_HTTP1_FIELDS_H
#define GYRE_HTTP1_FIELDS_H

#include "http/h1/parser.h"

#include <stdbool.h>

/* Phases of reading a head. A section of fields starts with FIELD; DONE and REFUSED stay. */
enum gyre_http1_phase {
  PHASE_START,
  PHASE_START_LF,
  PHASE_METHOD,
  PHASE_TARGET,
  PHASE_QUERY,
  PHASE_VERSION,
  PHASE_FIELD,
  PHASE_NAME,
  PHASE_VALUE_START,
  PHASE_VALUE,
  PHASE_VALUE_LF,
  PHASE_END_LF,
  PHASE_DONE,
  PHASE_REFUSED
};

/* Reduces higher limits to this value, so that every offset fits. */
#define GYRE_HTTP1_SECTION_BYTES_MAX (UINT32_C(1) << 29)

/* Applies a complete field. Returns 0, 1 to drop the field, or the result of gyre_http1_refuse. */
typedef int gyre_http1_field_meaning(struct gyre_http_head *head, const char *bytes,
                                     const struct gyre_http_field *field);

/*
 * Continues at head->position in a section that starts at head->section. Calls `meaning` for each
 * field with a known name, or for every field. Returns 1 after the blank line (with position behind
 * it), else 0 or -1.
 */
int gyre_http1_fields_parse(struct gyre_http_head *head, const char *bytes, size_t length,
                            const struct gyre_http_head_limits *limits, gyre_http1_field_meaning *meaning,
                            bool every_field);

/* Notes status and reason; returns -1. */
int gyre_http1_refuse(struct gyre_http_head *head, uint16_t status, const char *reason);

/* head->seen */
#define SEEN_HOST 1
#define SEEN_TRANSFER_ENCODING 2
#define SEEN_CLOSE 4
#define SEEN_KEEP_ALIVE 8
#define SEEN_CONNECTION_UPGRADE 16
#define SEEN_UPGRADE 32
#define SEEN_EXPECT 64

/* parser.c: fields that requests and responses share. Return 0, or -1 for a refusal. */
int gyre_http1_read_content_length(struct gyre_http_head *head, const char *value, size_t length);
int gyre_http1_read_transfer_encoding(struct gyre_http_head *head, const char *value, size_t length);
void gyre_http1_read_connection(struct gyre_http_head *head, const char *value, size_t length);

/* target.c: detects the form of head->target and sets path, query and authority. Returns 0, or -1
 * for a refusal. */
int gyre_http1_target_parse(struct gyre_http_head *head, const char *bytes);

#endif
