/*
 * Request targets (RFC 9112, section 3.2) and authorities (RFC 3986, section 3.2): the request
 * line's second word and the value of Host. Called by http1_parser.c only, with text that is
 * complete.
 */
#ifndef GYRE_HTTP1_TARGET_H
#define GYRE_HTTP1_TARGET_H

#include "http/http1_parser.h"

#include <stdbool.h>

struct gyre_http1_authority {
  struct gyre_http1_slice whole;
  struct gyre_http1_slice host;
  struct gyre_http1_slice port;
};

/* Decides the form of head->target and sets path, query and authority. 0, or -1 when it is
 * refused. */
int gyre_http1_target_parse(struct gyre_http1_head *head, const char *bytes);

/* host [":" port], without user information and with a host that is not empty. */
bool gyre_http1_authority_parse(struct gyre_http1_authority *authority, const char *bytes, uint32_t offset,
                                uint32_t length);

void gyre_http1_authority_assign(struct gyre_http1_head *head, const struct gyre_http1_authority *authority);

#endif
