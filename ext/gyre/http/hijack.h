/* A hijacked connection that the app cannot have itself: one with TLS, a stream of HTTP/2, or one
 * with bytes that have already come. The app gets one end of a socket pair, which behaves as a
 * socket for IO.select, nio4r and non-blocking calls. The connection stays the server's; it moves
 * bytes between both without a fiber (hijack.c). */
#pragma once

#include "http/exchange.h"

/* Sends the head that the app has written. Returns the head's length, 0 if it is incomplete, or
 * -errno. */
typedef ssize_t gyre_http_hijack_responder(struct gyre_http_connection *connection, char *bytes, size_t length);

/* Hijacks an open exchange. Returns the app's socket, or raises. `respond`: NULL if the app's bytes
 * are sent unchanged. */
VALUE gyre_http_hijack(VALUE self, gyre_http_hijack_responder *respond);
