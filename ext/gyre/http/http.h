/*
 * HTTP on the loop, as gyre.c calls it. Each part has a header of its own: acceptor.h, connection.h
 * (and the table that a protocol is), exchange.h (and the table that a version of HTTP is for one),
 * admission.h and capacity.h, limits.h, head.h, buffer.h, response_head.h, statistics.h.
 */
#ifndef GYRE_HTTP_HTTP_H
#define GYRE_HTTP_HTTP_H

void gyre_init_http(void);
void gyre_init_http_capacity(void);
void gyre_init_http_error(void);
void gyre_init_http_exchange(void);
void gyre_init_http_env(void);
void gyre_init_http_file(void);
void gyre_init_http1(void); /* h1/request.c */
void gyre_init_http2(void); /* h2/request.c */

#endif
