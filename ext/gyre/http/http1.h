/*
 * HTTP/1 on the loop, the parts in C: what connection, exchange, request and response share. The
 * contract with Ruby stands in lib/gyre/http/exchange.rb and server.rb. Each file calls only those
 * above it:
 *
 *   http_admission.c       how many requests run, and the queue before them (no ruby.h)
 *   http1_limits.c         the table of limits, read from Ruby
 *   http_capacity.c        places and budgets of a server, which its acceptors share
 *   http1_error.c          the errors of HTTP, raised in the exchange's fiber
 *   http_statistics.c      what is counted of responses (no ruby.h)
 *   http1_ahead.c          how much of a body has come (no ruby.h)
 *   http1_connection.c     one connection between its requests: bytes in, timers, the end
 *   http_exchange.c        one request and its response: life, the handle that Ruby has of it
 *   http_file.c            a file that a client named
 *   http_exchange_methods.c  its methods that are the same for each version of HTTP
 *   http1_env.c            a parsed head becomes a Rack env
 *   http1_head.c           the text of a response's head (no ruby.h)
 *   http1_response_head.c  an app's headers become the head of a response
 *   http1_response.c       write_response, write_head, write_body …: in the handler's fiber
 *   http1_request.c        next_request, read_body, trailers, hijack: in the handler's fiber
 *   http1_handler.c        the handler's fiber
 *   http1_acceptor.c       all connections, NativeAcceptor
 */
#ifndef GYRE_HTTP1_H
#define GYRE_HTTP1_H

#include "fiber/scheduler.h"
#include "http/http1_ahead.h"
#include "http/http1_chunked.h"
#include "http/http1_head.h"
#include "http/http1_parser.h"
#include "http/http2_session.h"
#include "http/http_capacity.h"
#include "http/http_statistics.h"
#include "net/acceptor.h"
#include "net/proxy_protocol.h"
#include "net/transport.h"

#include <netinet/in.h>

/* While a request holds a place, which others wait for, its client has to be faster by so much. */
#define GYRE_HTTP_PLACE_RATE 16

/* At a stop: what a connection gets whose next request may be on its way, and for how long after
 * the last one it may be. */
#define GYRE_HTTP1_NEW_NS INT64_C(250000000)
#define GYRE_HTTP1_RECENT_NS INT64_C(1000000000)

/* Receptions into lent memory; then the other connections have their turn. */
#define GYRE_HTTP_RECEIVES_AT_ONCE 8

/* PROXY (its header is awaited), HANDSHAKE (of TLS), FIRST_BYTE and IDLE hold neither a fiber nor a
 * buffer of HTTP; BODY and WAITING hold the bytes of a whole head, and behind it those of a body;
 * see the drawing in exchange.rb. */
enum gyre_http1_state {
  GYRE_HTTP1_PROXY,
  GYRE_HTTP1_HANDSHAKE,
  GYRE_HTTP1_FIRST_BYTE,
  GYRE_HTTP1_HEAD,
  GYRE_HTTP1_BODY,
  GYRE_HTTP1_WAITING,
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

/* A head that has come in part. Its bytes are the transport's input, and it is parsed on from
 * there. */
struct gyre_http1_partial {
  uint32_t counted; /* bytes, in capacity->heads */
  struct gyre_http1_head head;
  struct gyre_http1_field fields[]; /* limits.header_count */
};

/* A head that is complete, or to be refused. Valid until the next call on its connection. */
struct gyre_http1_request {
  const struct gyre_http1_head *head; /* NULL: nothing is known of it; else parsed in part, if it is refused */
  const char *bytes;
  uint32_t held; /* its length at the beginning of the transport's input; 0: it lies elsewhere, or is not complete */
  size_t length, came; /* of its head, and of what came behind that, in `bytes` */
  uint16_t status;     /* to refuse it with; 0: nothing is wrong */
  const char *reason;  /* constant text, with status */
  bool placed;         /* it has a place of the admission */
  bool lacks_body;     /* it waits for that, and for a place afterwards */
  int64_t since_ns;    /* it has waited for a place since then; 0: it has not */
};

/* A whole head in the transport's input, in the admission's queue. It is parsed again when its turn
 * comes, which costs a microsecond; to keep what was parsed would cost 2 KB for each. */
struct gyre_http1_waiting {
  struct gyre_admission_waiter waiter;
  struct gyre_http1_connection *connection;
  uint32_t counted; /* bytes, in capacity->heads */
  enum { GYRE_HTTP1_UNDECIDED, GYRE_HTTP1_START, GYRE_HTTP1_REFUSE } verdict;
};

/* A whole head in the transport's input, whose body is awaited behind it (BODY). */
struct gyre_http1_awaiting {
  struct gyre_http1_ahead ahead;
  size_t head_length;
  int64_t since_ns; /* when the head was there */
  uint32_t counted; /* bytes, in capacity->input */
};

/* On the stack of a fiber that waits for more of a request's body. */
struct gyre_http1_reader {
  VALUE self;
  struct gyre_wait wait;
  int64_t came_ns; /* the latest time at which the client is known to have been waited for; -1: nothing has come */
  bool kept;       /* no other fiber has been let in meanwhile */
};

struct gyre_peer {
  uint8_t family;
  uint8_t address[16]; /* of AF_INET and AF_INET6, else zero */
};

/* What is taken for the client's departure. After a reset nothing can reach it; one that has ended
 * its side, as most do that leave, may still wait for the response. */
enum gyre_http_departure { GYRE_HTTP_RESET_TELLS, GYRE_HTTP_RESET_CANCELS, GYRE_HTTP_END_CANCELS };

/* What an idle connection needs. */
struct gyre_http1_connection {
  struct gyre_list node; /* in acceptor->connections */
  struct gyre_http1_acceptor *acceptor;
  struct gyre_watch watch;
  struct gyre_timer timer;
  int64_t deadline_ns;
  struct gyre_transport transport;
  struct gyre_http_exchange *exchange; /* the present one, while a handler runs; else NULL */
  struct gyre_http1_partial *partial;
  struct gyre_http1_waiting *waiting;  /* while WAITING */
  struct gyre_http1_awaiting *body;    /* while BODY */
  struct gyre_http2_connection *http2; /* SERVING, and its frames; else NULL */
  uint32_t requests;
  uint32_t lingered; /* bytes read off */
  uint32_t untaken;  /* while LINGERING: bytes that its client had not taken when that was looked at last */
  struct gyre_peer peer;
  uint8_t unmoved;   /* how often `untaken` was the same in a row */
  uint8_t state;     /* enum gyre_http1_state */
  bool readable : 1; /* there may be something to read */
  bool hung_up : 1;  /* the peer will send no more */
  bool counted : 1;  /* in acceptor->net.open */
  bool is_idle : 1;  /* counted in acceptor->idle */
  bool keep_alive : 1;
  bool https : 1;     /* what env has of it */
  unsigned proxy : 2; /* versions of the PROXY header that it begins with */
};

/* HTTP/2 on a connection (http2_connection.c). */
struct gyre_http2_operations {
  /* The preface has begun, or was agreed on by ALPN; the bytes may be the transport's input. */
  void (*begin)(struct gyre_http1_connection *connection, const char *bytes, size_t length);
  void (*ready)(struct gyre_http1_connection *connection);    /* it is readable */
  void (*timed)(struct gyre_http1_connection *connection);    /* its deadline is over */
  void (*drain)(struct gyre_http1_connection *connection);    /* the server stops */
  void (*detached)(struct gyre_http1_connection *connection); /* off the loop; what waits is woken */
  void (*forked)(struct gyre_http1_connection *connection);   /* before that, where the loop is the parent's */
  /* False: it is needed still, and freed later. `exchanges`: and they are freed with it. */
  bool (*free)(struct gyre_http1_connection *connection, bool exchanges);
};

/* One request and its response: from a head that is complete, or refused, to the next one, or to
 * the handler's end. */
struct gyre_http_exchange {
  struct gyre_list node;    /* in acceptor->active, or spare */
  struct gyre_list leaving; /* in acceptor->leaving: its client has left, and what waits for that is not told */
  struct gyre_http1_connection *connection;
  VALUE handle, fiber, env, trailers;
  VALUE response_trailers;          /* a Hash, or nil */
  struct gyre_http2_stream *stream; /* of HTTP/2; else NULL */
  struct gyre_http1_reader *writer; /* of HTTP/2: the fiber that waits for room */
  VALUE gone;                       /* a Gyre::Promise that its client has left, once it was asked for; nil before */
  struct gyre_timer limit;          /* of the request's time */
  struct gyre_interrupt *timeout, *departure; /* on their way to the fiber */
  struct gyre_http1_reader *reader;           /* the fiber that waits for the request's body */
  const char *reason;                         /* constant text, with status */
  uint16_t status;                            /* to refuse the request with; 0: nothing is wrong */
  uint16_t sent_status;                       /* of the final head; 0: none was sent */
  uint8_t framing;                            /* enum gyre_http1_framing, of the response */
  uint8_t method;                             /* enum gyre_http1_method */
  bool http_1_0 : 1;
  bool expects_continue : 1;
  bool head_sent : 1;
  bool head_only : 1;
  bool chunked : 1; /* the request's body */
  bool body_over : 1;
  bool reading_off : 1; /* the rest of the body, which the app left */
  bool writing : 1;     /* a fiber waits in the middle of a message */
  bool taken : 1;       /* next_request has given it to the app */
  bool measured : 1;    /* it is in the statistics */
  bool placed : 1;      /* it has a place of the admission, to be given back */
  bool cut : 1;         /* of HTTP/2: the app has closed it */
  bool departed : 1;    /* its client has left */
  bool told : 1;        /* what waits for that is told already */
  bool whole : 1;       /* the app has given all of its response */

  struct gyre_http1_chunked chunks;
  int64_t body_remaining, body_received; /* remaining: -1 for chunked */
  int64_t body_ahead;                    /* of it had come when the request began */
  int64_t body_waited_ns;                /* for the body, or for the rest that is read off */
  int64_t unread_from;                   /* how much of the body was received when the app had responded */
  uint64_t body_bytes_sent;
  uint64_t given, taken_before; /* to the client's socket or stream; and when it was waited for first */
  int64_t write_waited_ns;      /* for the client to take more */
  uint32_t output_counted;      /* bytes of a whole response that waits for its client, in capacity->output */
  uint32_t files_counted;       /* in capacity->files */
  int64_t began_ns;             /* when the loop had its head */
};

struct gyre_http1_limits_table {
  struct gyre_http1_limits head;
  struct gyre_http1_limits trailers;
  struct gyre_http2_limits http2;
  int64_t body_bytes, unread_body_bytes, head_bytes, body_rate, response_rate;
  int64_t input_bytes, output_bytes; /* of all requests and responses together */
  int64_t handshake_ns, first_byte_ns, head_ns, read_ns, write_ns, keep_alive_ns, linger_ns; /* -1: none */
  int64_t body_ns, body_grace_ns, unread_body_ns;
  int64_t queue_ns, request_ns;
  uint32_t requests, connections, running, queue, files;
  uint32_t body_ahead; /* bytes that come before a place is taken */
};

/* What requests with this authority from this address have in common; see http1_env.c. */
struct gyre_http1_usual {
  VALUE server_name, server_port, remote; /* frozen; nil before there is one */
  uint32_t misses;
  uint16_t authority_length;
  bool https;
  struct gyre_peer peer;
  char authority[256];
};

/* Where the entries that each env sets stand in the template; see http1_env.c. */
#define GYRE_HTTP1_ENV_PLACES 64
struct gyre_http1_env_places {
  int8_t values[GYRE_HTTP1_ENV_PLACES]; /* which value an entry gets, or -1 */
  uint16_t missing;                     /* a bit for each value that has no entry there */
};

struct gyre_http1_acceptor {
  struct gyre_acceptor net;
  struct gyre_client client;
  struct gyre_list keeper;
  struct gyre_scheduler *scheduler; /* NULL before start */
  VALUE self, sockets, contexts, handler, template;
  VALUE handovers;             /* Gyre::HTTP::Handovers: calls from other threads */
  struct gyre_post handover;   /* linked while some are to be started */
  VALUE departed;              /* an Array of promises to be settled: the clients have left */
  struct gyre_post departures; /* linked while there may be such promises */
  struct gyre_timer telling;   /* tries again where there was no fiber for them */
  struct gyre_http1_limits_table limits;
  struct gyre_http_capacity *capacity; /* shared by the acceptors of a server */
  bool draining, https, started;       /* started: on the loop, with the others of its capacity */
  struct gyre_proxy_range *proxies;    /* whose PROXY headers are believed; none: any peer's */
  uint32_t proxy_count;
  VALUE exempt;                       /* an Array of paths whose requests wait for no place */
  VALUE files;                        /* responds to call(path): whether a file is there, which waits for none either */
  enum gyre_http_departure departure; /* what ends a request whose client has left */

  struct gyre_list connections;
  struct gyre_list active, leaving, spare; /* of exchanges; spare ones are kept for the next requests */
  int spare_count;
  uint32_t idle, lingering_refused;
  uint64_t handshake_turn; /* of the loop, in which so many steps of handshakes were made: */
  uint32_t handshakes;
  uint64_t running, requests, malformed, refused;
  struct gyre_http_statistics statistics;
  int64_t measured_ns; /* when the last response was measured */
  /* The same for a stream of HTTP/2 (http2_handler.c). 0, or the state for rb_jump_tag. */
  int (*serve_stream)(struct gyre_http1_connection *connection, struct gyre_http2_stream *stream);
  const struct gyre_http2_operations *http2; /* NULL: only HTTP/1 is spoken */
  /* Runs the handler for a request that has arrived, or that is refused (http1_handler.c). */
  void (*serve)(struct gyre_http1_connection *connection, const struct gyre_http1_request *request);

  struct gyre_http1_head head; /* for heads that come whole, and their fields */
  struct gyre_http1_field *fields;
  struct gyre_http1_buffer output; /* for heads of responses, until the fiber parks */
  struct gyre_http1_date date;
  struct gyre_http1_usual usual;
  struct gyre_http1_env_places places;
  struct gyre_peer last_peer; /* the peer that was put into words last */
  char last_text[INET6_ADDRSTRLEN];
};

/* http1_limits.c */
void gyre_http1_limits_read(struct gyre_http1_limits_table *table, VALUE limits);
/* How long the next bytes of a body may be waited for, after so much of both; -1: without end. The
 * rate is sixteen times as high while a place is held, which others wait for. */
int64_t gyre_http_body_limit_ns(const struct gyre_http1_limits_table *limits, int64_t received, int64_t waited_ns,
                                bool placed, const char **reason);
/* Waiting time that a client earns by `bytes`. */
static inline int64_t gyre_http_earned_ns(int64_t bytes, int64_t rate, bool placed) {
  if (placed) rate *= GYRE_HTTP_PLACE_RATE;
  return bytes > INT64_MAX / 1000000000 ? INT64_MAX : bytes * 1000000000 / rate;
}

/* http_capacity.c: for one more owner. */
struct gyre_http_capacity *gyre_http_capacity_take(VALUE self);

/* http1_error.c */
VALUE gyre_http1_error(const char *name, int status, const char *message);
/* For callbacks of the loop, where no code of the program may run: it could wait, and what the
 * callback has in hand would go meanwhile. */
VALUE gyre_http1_cancellation(const char *class, const char *message);
NORETURN(void gyre_http1_request_is_over(void));

/* http1_connection.c */
struct gyre_http1_connection *gyre_http1_connection_new(const struct gyre_acceptor_listener *listener, int fd,
                                                        const struct sockaddr_storage *address);
void gyre_http1_connection_close(struct gyre_http1_connection *connection, bool reset);
void gyre_http1_connection_detach(struct gyre_http1_connection *connection); /* off the loop, still open */
void gyre_http1_connection_linger(struct gyre_http1_connection *connection);
/* What a connection gets at a drain whose next request may be on its way. Where other workers go
 * on, nothing is lost by waiting longer for a slow client. */
static inline int64_t gyre_http1_acceptor_grace(const struct gyre_http1_acceptor *acceptor) {
  return acceptor->net.shared ? 2 * GYRE_HTTP1_NEW_NS : GYRE_HTTP1_NEW_NS;
}
void gyre_http1_connection_idle(struct gyre_http1_connection *connection);
/* Nothing happens while a handler runs: its end frees it. */
void gyre_http1_connection_free(struct gyre_http1_connection *connection);
/* Whether the request is to run now; its place is taken then. */
bool gyre_http1_is_exempt(const struct gyre_http1_acceptor *acceptor, const struct gyre_http1_request *request);
bool gyre_http1_connection_admit(struct gyre_http1_connection *connection, struct gyre_http1_request *request);
/* The present request waits for a place: its bytes are the transport's input, parsed and not
 * consumed. False: the request is to be refused with its status. */
bool gyre_http1_connection_wait(struct gyre_http1_connection *connection, struct gyre_http1_request *request);
/* Goes on with a request that has waited, unless a handler runs that is about to end. */
void gyre_http1_connection_decided(struct gyre_http1_connection *connection);
void gyre_http1_connection_release_partial(struct gyre_http1_connection *connection);
void gyre_http1_connection_deadline(struct gyre_http1_connection *connection, int64_t timeout_ns);
VALUE gyre_http1_connection_address(struct gyre_http1_connection *connection);
/* Receives behind the transport's input; bytes, 0 at the end, or -errno. */
ssize_t gyre_http1_connection_fill(struct gyre_http1_connection *connection);
/* The same into lent memory, where *bytes points to then: valid until the thread is given away. */
ssize_t gyre_http1_connection_receive(struct gyre_http1_connection *connection, const char **bytes);
/* Parses the transport's input: a head that is complete, or refused (request->status). False: more
 * is needed. */
bool gyre_http1_connection_parse(struct gyre_http1_connection *connection, struct gyre_http1_request *request);

/* http_exchange.c */
/* Ends the connection's exchange, if there is one, and begins the next in the same fiber. Raises
 * NoMemoryError; then all is as it was. */
struct gyre_http_exchange *gyre_http_exchange_begin(struct gyre_http1_connection *connection);
/* The same for a stream of HTTP/2, beside others of its connection. */
struct gyre_http_exchange *gyre_http_exchange_new(struct gyre_http1_connection *connection, VALUE class);
void gyre_http_exchange_free(struct gyre_http_exchange *exchange);
/* Its handle raises errors from now on, wherever the app has kept it. */
void gyre_http_exchange_end(struct gyre_http1_connection *connection);
/* The response has left, or never will: it enters the statistics, once. */
void gyre_http_exchange_measure(struct gyre_http_exchange *exchange);
void gyre_http_exchange_free_spare(struct gyre_http1_acceptor *acceptor);
/* Gives its place back, if it has one: the rest of it does not count as a running request. */
void gyre_http_exchange_leave_place(struct gyre_http_exchange *exchange);
/* Others wait for the place that it has. */
static inline bool gyre_http_exchange_holds_place(const struct gyre_http_exchange *exchange) {
  return exchange->placed && exchange->connection->acceptor->limits.running;
}
/* Its client is waited for, with so much in memory that it has not taken. A whole response leaves
 * its place, unless all such responses hold too much: then the app's next ones wait. Returns how
 * long the client may take; 0: it is too slow; -1: without end. */
int64_t gyre_http_exchange_begin_wait(struct gyre_http_exchange *exchange, uint64_t given, size_t held);
void gyre_http_exchange_end_wait(struct gyre_http_exchange *exchange, int64_t from_ns);
/* Begins the request's limit of time, if it has one. */
void gyre_http_exchange_limit(struct gyre_http_exchange *exchange);
void gyre_http_exchange_end_limit(struct gyre_http_exchange *exchange);
/* The client has ended its side or reset the connection, or the connection was closed. Called by
 * the loop's callbacks: what waits for the departure is told later, in fibers. */
void gyre_http_exchange_peer_ended(struct gyre_http_exchange *exchange);
/* The promise of the client's departure, and what to settle it with. */
struct gyre_http_promise {
  VALUE promise, gone; /* or nil; true or false */
};
/* Of a request that ends, unless it is told already: it is the caller's to settle. */
static inline struct gyre_http_promise gyre_http_exchange_take_promise(struct gyre_http_exchange *exchange) {
  bool gone = exchange->departed || exchange->connection->state == GYRE_HTTP1_CLOSED;
  struct gyre_http_promise taken = {exchange->told ? Qnil : exchange->gone, gone ? Qtrue : Qfalse};
  exchange->gone = Qnil;
  return taken;
}
/* Tells what waits for the client's departure, if the promise is not nil. It runs Ruby code, which
 * may let other fibers run: only to be called in a fiber, with nothing of the loop on the stack. */
void gyre_http_exchange_settle(struct gyre_http_promise promise);
void gyre_http_exchange_mark(const struct gyre_http_exchange *exchange);
/* NULL when the exchange has ended. Not checked, as in gyre_scheduler_get. */
static inline struct gyre_http_exchange *gyre_http_exchange_get(VALUE self) { return RTYPEDDATA_DATA(self); }
/* The same while its connection is open. */
static inline struct gyre_http_exchange *gyre_http_exchange_open(VALUE self) {
  struct gyre_http_exchange *exchange = gyre_http_exchange_get(self);
  return exchange && exchange->connection->state == GYRE_HTTP1_SERVING ? exchange : NULL;
}
/* Whether the present thread must not touch the exchange; then the method is called in a fiber of
 * the loop's thread, and the present one waits for what it returns or raises. */
bool gyre_http_exchange_is_outside(VALUE self);
VALUE gyre_http_exchange_hand_over(VALUE self, const char *method, int count, const VALUE *arguments);
extern VALUE gyre_cHttp1Exchange;

VALUE gyre_http_exchange_client_gone(VALUE self);

/* http_exchange_methods.c: the methods of an exchange, by their Ruby names. Those that read the
 * request are each version's own, and so are those that write the response. */
struct gyre_http_request_methods {
  VALUE (*read_body)(VALUE self, VALUE bytes);
  VALUE (*next_request)(VALUE self), (*hijack)(VALUE self), (*close)(VALUE self), (*reset)(VALUE self);
  VALUE (*keep_alive_p)(VALUE self), (*closed_p)(VALUE self), (*hijacked_p)(VALUE self);
};
struct gyre_http_response_methods {
  VALUE (*write_response)(VALUE self, VALUE status, VALUE headers, VALUE body);
  VALUE (*write_head)(VALUE self, VALUE status, VALUE headers, VALUE length);
  VALUE (*write_body)(VALUE self, VALUE data), (*finish_body)(VALUE self);
  VALUE (*write_file)(VALUE self, VALUE file, VALUE offset, VALUE length);
  VALUE (*write_interim)(VALUE self, VALUE status, VALUE headers);
};
/* Defines these, and those that are the same for each version. */
void gyre_http_exchange_define_request(VALUE class, const struct gyre_http_request_methods *own);
void gyre_http_exchange_define_response(VALUE class, const struct gyre_http_response_methods *own);
/* Refuses the request with its status, by `respond`, and tells the handler. */
void gyre_http_exchange_refuse(struct gyre_http_exchange *exchange, VALUE (*respond)(VALUE self));

/* http1_env.c */
VALUE gyre_http1_env(struct gyre_http_exchange *exchange, const struct gyre_http1_head *head, const char *bytes);
/* What is known of a request whose head is refused, for the access log. */
VALUE gyre_http1_refused_env(struct gyre_http_exchange *exchange, const struct gyre_http1_request *request);
VALUE gyre_http1_field_hash(const struct gyre_http1_head *head, const char *bytes);
void gyre_http1_env_prepare(struct gyre_http1_acceptor *acceptor); /* before the first env */

/* http1_response.c */
bool gyre_http1_write_interim(struct gyre_http_exchange *exchange, int status, VALUE headers);
/* Refuses the request with its status: one plain line, then the end. */
void gyre_http1_response_refuse(struct gyre_http_exchange *exchange);

/* http1_request.c: the exchange gets its env from a head, or what it is refused with. */
void gyre_http1_request_begin(struct gyre_http_exchange *exchange, const struct gyre_http1_request *request);

/* The same file, for each version of HTTP. Parks until exchange->reader is woken; false when the
 * time for it is over, with the reason. */
bool gyre_http_wait_for_input(VALUE self, const char **reason);
NORETURN(void gyre_http_refuse_second_reader(void));

/* http1_handler.c */
/* What was raised when a handler was to begin; `begun`: it was its own. 0, or what is fatal: the
 * state to go on with by rb_jump_tag. */
int gyre_http_handler_failed(struct gyre_http1_acceptor *acceptor, int state, bool begun);
void gyre_http1_handler_start(struct gyre_http1_connection *connection, const struct gyre_http1_request *request);

/* http_departures.c */
/* Settles from now on the promises of clients that have left, each in a fiber of its own. */
void gyre_http_departures_start(struct gyre_http1_acceptor *acceptor);
/* In a child of a fork: the loop's lists are not touched. */
void gyre_http_departures_forget(struct gyre_http1_acceptor *acceptor);
/* Settles them here, and nothing later: it starts no fiber. */
void gyre_http_departures_tell_last(struct gyre_http1_acceptor *acceptor);

void gyre_init_http_capacity(void);
void gyre_init_http_exchange(void);
void gyre_init_http_file(void);
void gyre_init_http1_error(void);
void gyre_init_http1_handler(void);
void gyre_init_http1_env(void);
void gyre_init_http1_request(void);
void gyre_init_http1_response(void);
void gyre_init_http1_acceptor(void);

#endif
