/* One request and its response, from a head to the next request or the handler's end (exchange.c).
 * handler.c runs its fiber; methods.c defines Ruby's methods
 * (lib/gyre/http/exchange.rb); each version adds a table. */
#pragma once

#include "fiber/scheduler.h"
#include "http/acceptor.h"
#include "http/buffer.h"
#include "http/connection.h"
#include "http/head.h"

struct gyre_http_exchange;
struct gyre_http_response_head;

/* A complete or refused head; valid until the connection's next call. */
struct gyre_http_request {
  const struct gyre_http_head *head; /* NULL: unknown; may be incomplete in a refused head */
  const char *bytes;
  void *stream;        /* HTTP/2's */
  uint32_t held;       /* bytes in the transport's input; 0: elsewhere or incomplete */
  size_t length, came; /* the head's length; bytes after it in `bytes` */
  uint16_t status;     /* refuses it; 0: valid */
  const char *reason;  /* constant text, with status */
  bool placed;         /* it has a place */
  bool lacks_body;     /* waits for its body before a place */
  int64_t since_ns;    /* start of the wait for a place; 0: no wait */
};

/* Functions of a version. Those with a handle run in a fiber of the app and may raise. */
struct gyre_http_exchange_operations {
  size_t bytes; /* size of the version's struct, which begins with the exchange */
  VALUE *class;
  bool alone; /* a refusal ends the connection, as no other exchange uses it */

  /* Sets the exchange's env from a head, or the status of its refusal. */
  void (*begin)(struct gyre_http_exchange *exchange, const struct gyre_http_request *request);
  /* Frees the exchange after its handler has returned. */
  void (*done)(struct gyre_http_connection *connection, struct gyre_http_exchange *exchange);
  /* Refuses the request for lack of memory. */
  void (*drop)(struct gyre_http_connection *connection, const struct gyre_http_request *request);
  bool (*is_reset)(const struct gyre_http_exchange *exchange); /* by the client */
  bool (*is_over)(const struct gyre_http_exchange *exchange);  /* NULL: ends with its connection */

  VALUE (*next_request)(VALUE self); /* after the first */
  VALUE (*read_body)(VALUE self, size_t most);
  /* Returns the connection for another protocol, or NULL if memory ran out. Absent: the exchange's
   * own connection. */
  struct gyre_http_connection *(*upgrade)(struct gyre_http_exchange *exchange);
  VALUE (*hijack)(struct gyre_http_exchange *exchange);
  void (*close)(struct gyre_http_exchange *exchange, bool reset);

  /* Write the begin and end of a head to head->output. */
  void (*begin_head)(struct gyre_http_buffer *output, int status);
  void (*end_head)(struct gyre_http_response_head *head);
  void (*send_head)(VALUE self, const struct gyre_http_response_head *head); /* interim or final */
  /* Sends head, body (an Array of Strings) and end at once. */
  void (*send_response)(VALUE self, const struct gyre_http_response_head *head, VALUE body);
  void (*send_body)(VALUE self, VALUE string);
  uint64_t (*send_file)(VALUE self, VALUE io, int64_t offset, uint64_t length);
  void (*finish_body)(VALUE self);
};

enum gyre_http_framing {
  GYRE_HTTP_NO_BODY,
  GYRE_HTTP_LENGTH,
  GYRE_HTTP_CHUNKED_BODY,
  GYRE_HTTP_UNTIL_CLOSE,
  GYRE_HTTP_RAW
};

/* A fiber that waits for its client; on its stack. */
struct gyre_http_reader {
  VALUE self;
  struct gyre_wait wait;
  int64_t came_ns; /* when the client's bytes came; -1: not yet */
  bool kept;       /* no other fiber ran meanwhile */
};

struct gyre_http_exchange {
  struct gyre_list node; /* in acceptor->exchanges: active or spare */
  const struct gyre_http_exchange_operations *operations;
  struct gyre_http_connection *connection;
  VALUE handle, fiber, env;
  VALUE trailers, response_trailers; /* each a Hash, or nil */
  struct gyre_http_reader *reader;   /* fiber waiting for the request's body */
  const char *reason;                /* constant text, with status */
  uint16_t status;                   /* status of a refusal; 0: valid */
  uint8_t method;                    /* enum gyre_http_method */
  bool http_1_0 : 1;                 /* without chunks and interim responses */
  bool expects_continue : 1;
  bool head_only : 1;
  bool taken : 1;    /* next_request has passed it to the app */
  bool measured : 1; /* counted in the statistics */
  bool placed : 1;   /* holds a place */
  bool hijacked : 1; /* the app has its stream; with HTTP/1 the connection's state */
  int64_t began_ns;  /* when its head was complete */
  struct {
    struct gyre_timer timer;
    struct gyre_interrupt *interrupt; /* being delivered to the fiber */
  } limit;                            /* the request's time limit */
  struct {
    struct gyre_list node; /* in acceptor->leaving until settled */
    VALUE promise;         /* requested by the app, or nil */
    struct gyre_interrupt *interrupt;
    bool seen, told;
  } departure; /* the client's */
  struct {
    int64_t received, ahead; /* the body's bytes; `ahead`: received before the request began */
    int64_t waited_ns;       /* waiting for the body; for its discarded rest */
    bool over, reading_off;  /* `reading_off`: discards the rest that the app has not read */
  } body;                    /* the request's */
  struct {
    uint16_t status;                        /* the final head's; 0: not sent */
    uint8_t framing;                        /* enum gyre_http_framing */
    bool head_sent, whole;                  /* `whole`: the app has written everything */
    bool writing;                           /* a fiber is parked halfway through a message */
    uint64_t body_bytes, taken_before;      /* `taken_before`: bytes sent before the first wait */
    int64_t waited_ns;                      /* time spent waiting for a slow client */
    uint32_t output_counted, files_counted; /* shares of budgets: unsent bytes, open files */
  } response;
};

/* exchange.c */
/* Raises NoMemoryError. */
struct gyre_http_exchange *gyre_http_exchange_new(struct gyre_http_connection *connection,
                                                  const struct gyre_http_exchange_operations *operations);
/* Empties its handle, which then raises. */
void gyre_http_exchange_free(struct gyre_http_exchange *exchange);
/* Counts the response once, sent or not. */
void gyre_http_exchange_measure(struct gyre_http_exchange *exchange);
/* Sets the size of exchanges for this version. */
void gyre_http_exchange_reserve(const struct gyre_http_exchange_operations *operations);
/* Frees its place; the rest does not count as a running request. */
void gyre_http_exchange_leave_place(struct gyre_http_exchange *exchange);
/* Begins a wait for the client, with this much unsent memory. Gives up a complete response's place,
 * unless such responses hold too much memory. Returns the remaining time; 0: too slow; -1: no
 * limit. */
int64_t gyre_http_exchange_begin_wait(struct gyre_http_exchange *exchange, uint64_t given, size_t held);
void gyre_http_exchange_end_wait(struct gyre_http_exchange *exchange, int64_t from_ns);
void gyre_http_exchange_limit(struct gyre_http_exchange *exchange);
void gyre_http_exchange_end_limit(struct gyre_http_exchange *exchange);
/* Records a half-closed client, a reset, or a closed connection, in the loop's callbacks; fibers
 * settle the promise later. */
void gyre_http_exchange_peer_ended(struct gyre_http_exchange *exchange);
/* Wakes the fiber waiting for the request's body. */
void gyre_http_exchange_wake_reader(struct gyre_http_exchange *exchange);
void gyre_http_exchange_mark(const struct gyre_http_exchange *exchange);

/* Promises a client's departure: true or false. */
struct gyre_http_promise {
  VALUE promise, gone; /* nil, true or false */
};
/* Takes an ending request's promise, for the caller to settle. */
static inline struct gyre_http_promise gyre_http_exchange_take_promise(struct gyre_http_exchange *exchange) {
  bool gone = exchange->departure.seen || exchange->connection->state == GYRE_HTTP_CLOSED;
  struct gyre_http_promise taken = {exchange->departure.told ? Qnil : exchange->departure.promise,
                                    gone ? Qtrue : Qfalse};
  exchange->departure.promise = Qnil;
  return taken;
}
/* Settles the promise unless nil. May switch fibers: call it in a fiber, with nothing of the loop
 * on the stack. */
void gyre_http_exchange_settle(struct gyre_http_promise promise);

/* Returns NULL after the end. Skips the class check, as gyre_scheduler_get does. */
static inline struct gyre_http_exchange *gyre_http_exchange_get(VALUE self) { return RTYPEDDATA_DATA(self); }
/* Also returns NULL if its connection is closed. */
static inline struct gyre_http_exchange *gyre_http_exchange_open(VALUE self) {
  struct gyre_http_exchange *exchange = gyre_http_exchange_get(self);
  return exchange && exchange->connection->state == GYRE_HTTP_SERVING ? exchange : NULL;
}
static inline bool gyre_http_exchange_is_over(const struct gyre_http_exchange *exchange) {
  return exchange->operations->is_over && exchange->operations->is_over(exchange);
}
static inline bool gyre_http_exchange_is_hijacked(const struct gyre_http_exchange *exchange) {
  return exchange->hijacked || exchange->connection->state == GYRE_HTTP_HIJACKED;
}
/* True if other requests wait for its place. */
static inline bool gyre_http_exchange_holds_place(const struct gyre_http_exchange *exchange) {
  return exchange->placed && exchange->connection->acceptor->capacity.admission.running_limit;
}

/* handler.c: true if the request runs now and has its place. */
bool gyre_http_is_exempt(struct gyre_http_acceptor *acceptor, const struct gyre_http_request *request);
bool gyre_http_admit(struct gyre_http_acceptor *acceptor, struct gyre_http_request *request);

/* env.c */
VALUE gyre_http_env(struct gyre_http_exchange *exchange, const struct gyre_http_head *head, const char *bytes);
/* Makes an env of a refused head's known parts, for the access log. */
VALUE gyre_http_refused_env(struct gyre_http_connection *connection, const struct gyre_http_request *request);
VALUE gyre_http_field_hash(const struct gyre_http_head *head, const char *bytes);
/* Raises ArgumentError if method and target make no request line, for the client. */
void gyre_http_check_request(VALUE method, VALUE target);
/* The same for a field, whose value is a String or an Array of them; for rb_hash_foreach. */
int gyre_http_check_field(VALUE name, VALUE value, VALUE unused);
/* A response's, made into a Hash once asked for. `bytes` has `length`. */
VALUE gyre_http_pack_fields(const struct gyre_http_head *head, const char *bytes, size_t length);
VALUE gyre_http_unpack_fields(VALUE packed);
VALUE gyre_http_remote_address(struct gyre_http_connection *connection);

/* methods.c */
/* Parks until exchange->reader is woken; false, with the reason, after the limit. */
bool gyre_http_wait_for_input(VALUE self, const char **reason);
/* Raises if another fiber reads, the request is refused, or the connection is closed. */
struct gyre_http_exchange *gyre_http_request_reading(VALUE self);
/* Returns the env, or nil after a refusal. */
VALUE gyre_http_request_take(struct gyre_http_exchange *exchange);
/* Fails the request: it may get a response, but reads no more. */
NORETURN(void gyre_http_request_fail(struct gyre_http_exchange *exchange, int status, const char *reason));
NORETURN(void gyre_http_request_cut(VALUE self));
/* Defines Gyre::HTTP::<version>::Exchange and its methods. */
VALUE gyre_http_define_exchange(const char *version, const struct gyre_http_exchange_operations *operations);

struct gyre_http_exchange *gyre_http_response_writable(VALUE self);
bool gyre_http_response_interim(struct gyre_http_exchange *exchange, int status, VALUE headers);

/* handler.c */
/* Runs the handler for a complete or refused request. Returns 0, or a state for rb_jump_tag. */
int gyre_http_handler_start(struct gyre_http_connection *connection, const struct gyre_http_request *request,
                            const struct gyre_http_exchange_operations *operations);
/* Handles an exception at a handler's start; `begun`: the handler raised it. Returns 0, or a fatal
 * exception's state for rb_jump_tag. */
int gyre_http_handler_failed(struct gyre_http_acceptor *acceptor, int state, bool begun);

/* error.c */
VALUE gyre_http_error(const char *name, int status, const char *message);
/* Interrupts a fiber from a callback of the loop, without the program's code, which could wait.
 * Returns NULL without memory. */
struct gyre_interrupt *gyre_http_cancel(struct gyre_scheduler *scheduler, VALUE fiber, const char *class,
                                        const char *message);
