/*
 * The reader of a section of field lines: the header lines of a request and the trailer lines of a
 * chunked body are the same to it. Called by http1_parser.c only, which chooses through a function
 * what a field means. Works on struct gyre_http1_head, no more.
 */
#ifndef GYRE_HTTP1_FIELDS_H
#define GYRE_HTTP1_FIELDS_H

#include "http/http1_parser.h"

#include <stdbool.h>

/* Where the reader of a head stands. A section of fields starts with FIELD; DONE and REFUSED
 * stay. */
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

/* Limits beyond this are taken as this, so that every offset fits. */
#define GYRE_HTTP1_SECTION_BYTES_MAX (UINT32_C(1) << 29)

/* What a complete field means. 0; 1 when it is to be left out; or what gyre_http1_refuse
 * returned. */
typedef int gyre_http1_field_meaning(struct gyre_http1_head *head, const char *bytes,
                                     const struct gyre_http1_field *field);

/*
 * Reads on from head->position in a section that starts at head->section. `meaning` is called for
 * each field with a known name, or for every field. Returns 1 when the blank line
 * was read (position is behind it), 0 or -1.
 */
int gyre_http1_fields_parse(struct gyre_http1_head *head, const char *bytes, size_t length,
                            const struct gyre_http1_limits *limits, gyre_http1_field_meaning *meaning,
                            bool every_field);

/* Notes why; returns -1. */
int gyre_http1_refuse(struct gyre_http1_head *head, uint16_t status, const char *reason);

/* Whether a field is left out where it comes as a trailer. */
bool gyre_http1_fields_left_out_of_trailers(const char *name, size_t length);

#endif
