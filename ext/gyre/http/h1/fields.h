/* Reads field lines of a header or trailer section, for h1/parser.c (requests) and h1/reply.c
 * (responses). Both pass a function that interprets fields. */
#pragma once

#include "http/h1/parser.h"

/* Phases of a head. A section of fields starts with FIELD; DONE and REFUSED are final. */
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

/* Maximum bytes of a section, even if its limit is higher, so that all offsets fit into 32 bits. */
#define GYRE_HTTP1_SECTION_BYTES_MAX (UINT32_C(1) << 29)

/* Interprets a field. Returns 0 to keep the field, 1 to drop it, -1 after gyre_http1_refuse. */
typedef int gyre_http1_field_meaning(struct gyre_http_head *head, const char *bytes,
                                     const struct gyre_http_field *field);

enum gyre_http1_section { GYRE_HTTP1_REQUEST, GYRE_HTTP1_RESPONSE, GYRE_HTTP1_TRAILERS };

/* Continues at head->position in the section that begins at head->section. Calls `meaning` for
 * known names, in trailers for every field. Unfolds folded lines of a response, for which `bytes`
 * must be writable. Returns 1 after the blank line, 0 if incomplete, -1 if refused. */
int gyre_http1_fields_parse(struct gyre_http_head *head, const char *bytes, size_t length,
                            const struct gyre_http_head_limits *limits, gyre_http1_field_meaning *meaning,
                            enum gyre_http1_section section);

/* Stops at `p`: saves the position and returns 0, or, if `limited`, refuses and returns -1. */
int gyre_http1_stop_at(struct gyre_http_head *head, const char *bytes, const char *p, bool limited,
                       enum gyre_http1_phase phase);

/* Refuses the head and returns -1. */
int gyre_http1_refuse(struct gyre_http_head *head, uint16_t status, const char *reason);

/* head->seen */
#define SEEN_HOST 1
#define SEEN_TRANSFER_ENCODING 2
#define SEEN_CLOSE 4
#define SEEN_KEEP_ALIVE 8
#define SEEN_CONNECTION_UPGRADE 16
#define SEEN_UPGRADE 32
#define SEEN_EXPECT 64

/* parser.c: read fields of requests and responses. Return 0, or -1 for a refusal. */
int gyre_http1_read_content_length(struct gyre_http_head *head, const char *value, size_t length);
int gyre_http1_read_transfer_encoding(struct gyre_http_head *head, const char *value, size_t length);
void gyre_http1_read_connection(struct gyre_http_head *head, const char *value, size_t length);
