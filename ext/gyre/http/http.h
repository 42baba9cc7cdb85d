/* HTTP on the loop, for gyre.c. Other headers: acceptor.h, connection.h (protocols), exchange.h
 * (versions), admission.h, capacity.h, limits.h, head.h, buffer.h, response_head.h,
 * statistics.h. */
#ifndef GYRE_HTTP_HTTP_H
#define GYRE_HTTP_HTTP_H

void gyre_init_http(void);
void gyre_init_http_capacity(void);
void gyre_init_http_error(void);
void gyre_init_http_exchange(void);
void gyre_init_http_env(void);
void gyre_init_http_file(void);
void gyre_init_http1(void); /* h1/request.c */
void gyre_init_http1_client(void);
void gyre_init_http2(void); /* h2/request.c */

#endif
