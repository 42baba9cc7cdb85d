/*
 * HTTP/1 on the loop, the parts in C: what acceptor, connection, request and response share.
 * The contract with Ruby stands in lib/gyre/http/connection.rb and server.rb.
 *
 *   http1_acceptor.c    listening sockets, all connections, limits, NativeAcceptor
 *   http1_limits.c      the table of limits, read from Ruby
 *   http1_connection.c  one connection between its requests: bytes in, timers
 *   http1_handler.c     the handles that Ruby has of it, the handler's fiber
 *   http1_request.c     next_request, read_body, trailers, hijack: in the handler's fiber
 *   http1_response.c    write_response, write_head, write_body …: in the handler's fiber
 *   http1_env.c         a parsed head becomes a Rack env
 *   http1_answer.c      an app's headers become the head of an answer
 *   http1_head.c        the text of a response's head (no ruby.h)
 */
#ifndef GYRE_HTTP1_H
#define GYRE_HTTP1_H

#include "http/http1_chunked.h"
#include "http/http1_head.h"
#include "http/http1_parser.h"
#include "fiber/scheduler.h"

#include <netinet/in.h>

/* FIRST_BYTE and IDLE hold neither a fiber nor a buffer; see the drawing in connection.rb. */
enum gyre_http1_state {
  GYRE_HTTP1_FIRST_BYTE,
  GYRE_HTTP1_HEAD,
  GYRE_HTTP1_SERVING,
  GYRE_HTTP1_IDLE,
  GYRE_HTTP1_LINGERING,
  GYRE_HTTP1_HIJACKED,
  GYRE_HTTP1_CLOSED
};

enum gyre_http1_framing {
  GYRE_HTTP1_NO_BODY,
  GYRE_HTTP1_LENGTH,
  GYRE_HTTP1_CHUNKED_BODY,
  GYRE_HTTP1_UNTIL_CLOSE,
  GYRE_HTTP1_RAW
};

/* A head that has come in part; it moves into the connection's buffer and is parsed on from there. */
struct gyre_http1_partial {
  struct gyre_http1_head head;
  struct gyre_http1_field fields[]; /* limits.header_count */
};

/* On the stack of a fiber that waits for more of a request's body. */
struct gyre_http1_reader {
  VALUE self;
  struct gyre_wait wait;
  int64_t came_ns; /* the latest time at which the client is known to have been waited for; -1: nothing has come */
  bool kept;       /* no other fiber has been let in meanwhile */
};

struct gyre_http1_connection {
  struct gyre_list node;   /* in acceptor->connections */
  struct gyre_list active; /* in acceptor->active while a handler runs */
  struct gyre_http1_acceptor *acceptor;
  struct gyre_watch watch;
  struct gyre_timer timer;
  int64_t deadline_ns;

  int fd;
  uint8_t state;     /* enum gyre_http1_state */
  uint8_t family;    /* of the peer's address */
  uint8_t framing;   /* enum gyre_http1_framing, of the present answer */
  uint8_t method;    /* enum gyre_http1_method, of the present request */
  bool readable : 1; /* there may be something to read */
  bool hung_up : 1;  /* the peer will send no more */
  bool counted : 1;  /* in acceptor->open */
  bool handler : 1;  /* a fiber runs the handler */
  bool keep_alive : 1;
  bool http_1_0 : 1;
  bool expects_continue : 1;
  bool head_sent : 1;
  bool head_only : 1;
  bool chunked : 1; /* the request's body */
  bool body_over : 1;
  bool reading_off : 1;     /* the rest of the body, which the app left */
  bool is_idle : 1;         /* counted in acceptor->idle */
  bool writing : 1;         /* a fiber waits in the middle of a message */
  bool requests_served : 1; /* next_request has given the present request to the app */
  uint16_t status;          /* to refuse the request with; 0: nothing is wrong */
  uint32_t requests;
  uint8_t address[16];
  const char *reason; /* constant text, with status */

  char *buffer; /* what was received and not used yet; NULL while there is none */
  uint32_t buffer_offset, buffer_length, buffer_capacity;
  uint32_t head_bytes;  /* counted in acceptor->head_bytes */
  uint32_t head_length; /* of a complete head at the buffer's beginning; 0 when it lies elsewhere */
  struct gyre_http1_partial *partial;

  struct gyre_http1_chunked chunks;
  int64_t body_remaining, body_received; /* remaining: -1 for chunked */
  int64_t body_waited_ns;                /* for the body, or for the rest that is read off */
  int64_t unread_from;                   /* how much of the body was received when the app had answered */
  uint64_t body_bytes_sent;
  struct gyre_http1_reader *reader; /* the fiber that waits for the request's body */
  VALUE handle, fiber, env, trailers;
};

struct gyre_http1_limits_table {
  struct gyre_http1_limits head;
  struct gyre_http1_limits trailers;
  int64_t body_bytes, unread_body_bytes, head_bytes, body_rate;
  int64_t first_byte_ns, head_ns, read_ns, write_ns, keep_alive_ns, linger_ns; /* -1: none */
  int64_t body_ns, body_grace_ns, unread_body_ns;
  uint32_t requests, connections;
};

struct gyre_http1_listener {
  struct gyre_watch watch;
  struct gyre_http1_acceptor *acceptor;
  int fd;
};

/* What requests with this authority from this address say alike; see http1_env.c. */
struct gyre_http1_usual {
  VALUE server_name, server_port, remote; /* frozen; nil before there is one */
  uint32_t misses;
  uint16_t authority_length;
  uint8_t family;
  uint8_t address[16];
  char authority[256];
};

/* Where the entries that each env sets stand in the template; see http1_env.c. */
#define GYRE_HTTP1_ENV_PLACES 64
struct gyre_http1_env_places {
  int8_t values[GYRE_HTTP1_ENV_PLACES]; /* which value an entry gets, or -1 */
  uint16_t missing;                     /* a bit for each value that has no entry there */
};

struct gyre_http1_acceptor {
  struct gyre_client client;
  struct gyre_list keeper;
  struct gyre_scheduler *scheduler; /* NULL before start */
  VALUE self, sockets, handler, template;
  VALUE handovers;           /* Gyre::HTTP::Handovers: calls from other threads */
  struct gyre_post handover; /* linked while some are to be started */
  struct gyre_http1_limits_table limits;
  struct gyre_http1_listener *listeners;
  long listener_count;
  struct gyre_timer pause; /* after EMFILE */
  bool listening, draining, https;

  struct gyre_list connections, active;
  uint32_t open, idle, lingering_refused;
  int64_t head_bytes; /* held by heads that have come in part */
  uint64_t running, accepted, requests, malformed, refused;

  struct gyre_http1_head head; /* for heads that come whole, and their fields */
  struct gyre_http1_field *fields;
  struct gyre_http1_buffer output; /* for heads of answers, until the fiber parks */
  struct gyre_http1_date date;
  struct gyre_http1_usual usual;
  struct gyre_http1_env_places places;
  uint8_t last_family, last_address[16]; /* the peer that was put into words last */
  char last_text[INET6_ADDRSTRLEN];
};

extern VALUE gyre_cHttp1Connection;

/* http1_limits.c */
void gyre_http1_limits_read(struct gyre_http1_limits_table *table, VALUE limits);

/* http1_connection.c */
struct gyre_http1_connection *gyre_http1_connection_new(struct gyre_http1_acceptor *acceptor, int fd,
                                                        const struct sockaddr_storage *address);
void gyre_http1_connection_close(struct gyre_http1_connection *connection, bool reset);
void gyre_http1_connection_detach(struct gyre_http1_connection *connection); /* off the loop, still open */
void gyre_http1_connection_linger(struct gyre_http1_connection *connection);
void gyre_http1_connection_idle(struct gyre_http1_connection *connection);
void gyre_http1_connection_free(struct gyre_http1_connection *connection);
/* It holds so much memory for a head that has come in part. False when all of them hold too much. */
bool gyre_http1_connection_count_head(struct gyre_http1_connection *connection, size_t bytes);
void gyre_http1_connection_deadline(struct gyre_http1_connection *connection, int64_t timeout_ns);
VALUE gyre_http1_connection_address(struct gyre_http1_connection *connection);
/* Receives into the connection's own buffer; bytes, 0 at the end, or -errno. */
ssize_t gyre_http1_connection_fill(struct gyre_http1_connection *connection, size_t wanted);
/* Whether bytes of a request wait that the loop has not read. An error or the peer's end is no input. */
bool gyre_http1_connection_input_waits(const struct gyre_http1_connection *connection);
void gyre_http1_connection_release_buffer(struct gyre_http1_connection *connection);
/* Parses what the buffer holds: a head that is complete, or refused (connection->status); NULL: more is needed. */
const struct gyre_http1_head *gyre_http1_connection_parse(struct gyre_http1_connection *connection);
/* The head that was parsed in the buffer is no longer needed; what follows it stays. */
void gyre_http1_connection_head_taken(struct gyre_http1_connection *connection);

/* http1_handler.c: runs the handler for a head that is complete, or to refuse (connection->status). */
void gyre_http1_handler_start(struct gyre_http1_connection *connection, const struct gyre_http1_head *head,
                              const char *bytes);
/* NULL when its request is over. Not checked, as in gyre_scheduler_get. */
static inline struct gyre_http1_connection *gyre_http1_connection_get(VALUE self) { return RTYPEDDATA_DATA(self); }
/* What the app has of the present request is of no use from now on; a new handle stands for the next one. */
void gyre_http1_connection_renew(struct gyre_http1_connection *connection);
void gyre_init_http1_handler(void);

/* http1_env.c */
VALUE gyre_http1_env(struct gyre_http1_connection *connection, const struct gyre_http1_head *head, const char *bytes);
/* What is known of a request whose head is refused, for the access log; `head` may be NULL, or parsed in part. */
VALUE gyre_http1_refused_env(struct gyre_http1_connection *connection, const struct gyre_http1_head *head,
                             const char *bytes);
VALUE gyre_http1_field_hash(const struct gyre_http1_head *head, const char *bytes);
void gyre_init_http1_env(void);
void gyre_http1_env_prepare(struct gyre_http1_acceptor *acceptor); /* before the first env */

/* http1_acceptor.c: whether the present thread must not touch the connection; then the method is called in a fiber of the
 * loop's thread, and the present one waits for what it returns or raises. */
bool gyre_http1_is_outside(VALUE self);
VALUE gyre_http1_hand_over(VALUE self, const char *method, int count, const VALUE *arguments);

/* http1_request.c, http1_response.c, http1_acceptor.c */
NORETURN(void gyre_http1_request_is_over(void));
void gyre_http1_request_begin(struct gyre_http1_connection *connection, const struct gyre_http1_head *head,
                              const char *bytes);
/* In the place of begin, with what there is of the head: connection->status says what it is refused with. */
void gyre_http1_request_refused(struct gyre_http1_connection *connection, const struct gyre_http1_head *head,
                                const char *bytes);
void gyre_http1_connection_refuse(struct gyre_http1_connection *connection);
bool gyre_http1_write_interim(struct gyre_http1_connection *connection, int status, VALUE headers);
VALUE gyre_http1_error(const char *name, int status, const char *message);
void gyre_init_http1_request(void);
void gyre_init_http1_response(void);
void gyre_init_http1_acceptor(void);

#endif
