/*
 * One request and its response, from a head, complete or refused, to the next request or the
 * handler's end (exchange.c), and its handler's fiber (handler.c). request.c and response.c define
 * Ruby's methods (lib/gyre/http/exchange.rb); each version has its part in a table.
 */
#ifndef GYRE_HTTP_EXCHANGE_H
#define GYRE_HTTP_EXCHANGE_H

#include "fiber/scheduler.h"
#include "http/acceptor.h"
#include "http/buffer.h"
#include "http/connection.h"
#include "http/head.h"

struct gyre_http_exchange;
struct gyre_http_response_head;

/* A complete or refused head. Valid until the next call on its connection. */
struct gyre_http_request {
  const struct gyre_http_head *head; /* NULL: unknown; incomplete if refused */
  const char *bytes;
  void *stream;        /* of HTTP/2 */
  uint32_t held;       /* bytes of the transport's input; 0: elsewhere or incomplete */
  size_t length, came; /* bytes of its head, and bytes after it in `bytes` */
  uint16_t status;     /* refuses it; 0: valid */
  const char *reason;  /* constant text, with status */
  bool placed;         /* it has a place */
  bool lacks_body;     /* waits for its body, and then for a place */
  int64_t since_ns;    /* start of the wait for a place; 0: no wait */
};

/* The functions of an exchange that each version implements. Functions with a handle run in a fiber
 * of the app and may raise. */
struct gyre_http_exchange_operations {
  size_t bytes; /* of the version's struct, which begins with the exchange */
  VALUE *class;
  bool alone; /* it is alone on the connection; a refusal ends both */

  /* Sets the exchange's env from a head, or the status of its refusal. */
  void (*begin)(struct gyre_http_exchange *exchange, const struct gyre_http_request *request);
  /* Frees the exchange after its handler has returned. */
  void (*done)(struct gyre_http_connection *connection, struct gyre_http_exchange *exchange);
  /* Refuses the request, as memory for the exchange is short. */
  void (*drop)(struct gyre_http_connection *connection, const struct gyre_http_request *request);
  bool (*is_reset)(const struct gyre_http_exchange *exchange); /* by the client */
  bool (*is_over)(const struct gyre_http_exchange *exchange);  /* NULL: ends with its connection */
  bool (*keeps_alive)(const struct gyre_http_exchange *exchange);

  VALUE (*next_request)(VALUE self); /* after the first */
  VALUE (*read_body)(VALUE self, size_t most);
  /* Returns what another protocol takes over after the head; NULL without memory. */
  struct gyre_http_connection *(*upgrade)(struct gyre_http_exchange *exchange);
  VALUE (*hijack)(struct gyre_http_exchange *exchange);
  void (*close)(struct gyre_http_exchange *exchange, bool reset);

  /* Write the begin and the end of a head to head->output. */
  void (*begin_head)(struct gyre_http_buffer *output, int status);
  void (*end_head)(struct gyre_http_response_head *head);
  void (*send_head)(VALUE self, const struct gyre_http_response_head *head); /* interim or final */
  /* Sends head, body (an Array of Strings) and end. */
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

/* A fiber waiting for its client, on its stack. */
struct gyre_http_reader {
  VALUE self;
  struct gyre_wait wait;
  int64_t came_ns; /* end of the client's delay; -1: no bytes have come */
  bool kept;       /* no other fiber ran meanwhile */
};

struct gyre_http_exchange {
  struct gyre_list node; /* in acceptor->exchanges, active or spare */
  const struct gyre_http_exchange_operations *operations;
  struct gyre_http_connection *connection;
  VALUE handle, fiber, env;
  VALUE trailers, response_trailers; /* a Hash each, or nil */
  struct gyre_http_reader *reader;   /* fiber waiting for the request's body */
  const char *reason;                /* constant text, with status */
  uint16_t status;                   /* refuses the request; 0: valid */
  uint8_t method;                    /* enum gyre_http_method */
  bool http_1_0 : 1;                 /* without chunks and interim responses */
  bool expects_continue : 1;
  bool head_only : 1;
  bool taken : 1;    /* next_request has returned it to the app */
  bool measured : 1; /* counted in the statistics */
  bool placed : 1;   /* holds a place */
  bool hijacked : 1; /* its stream is the app's; of HTTP/1 the connection's state */
  int64_t began_ns;  /* time at which its head was complete */
  struct {
    struct gyre_timer timer;
    struct gyre_interrupt *interrupt; /* on its way to the fiber */
  } limit;                            /* of the request's time */
  struct {
    struct gyre_list node; /* in acceptor->departures.leaving until its promise is settled */
    VALUE promise;         /* a Gyre::Promise if the app requested it, else nil */
    struct gyre_interrupt *interrupt;
    bool seen, told;
  } departure; /* of its client */
  struct {
    int64_t received, ahead; /* bytes; `ahead`: received before the start of the request */
    int64_t waited_ns;       /* for the body, or for discarding its rest */
    bool over, reading_off;  /* `reading_off`: discarding the rest that the app left */
  } body;                    /* of the request */
  struct {
    uint16_t status;                        /* of the final head; 0: not sent */
    uint8_t framing;                        /* enum gyre_http_framing */
    bool head_sent, whole;                  /* `whole`: the app has written all of it */
    bool writing;                           /* a fiber waits in the middle of a message */
    uint64_t body_bytes, taken_before;      /* `taken_before`: bytes sent before the first wait */
    int64_t waited_ns;                      /* spent waiting for a slow client */
    uint32_t output_counted, files_counted; /* counted in the budgets: unsent bytes; open files */
  } response;
};

/* exchange.c */
/* Raises NoMemoryError. */
struct gyre_http_exchange *gyre_http_exchange_new(struct gyre_http_connection *connection,
                                                  const struct gyre_http_exchange_operations *operations);
/* Empties its handle, which raises afterwards. */
void gyre_http_exchange_free(struct gyre_http_exchange *exchange);
/* Counts the response in the statistics once, sent or not. */
void gyre_http_exchange_measure(struct gyre_http_exchange *exchange);
/* Sets the size of exchanges for this version. */
void gyre_http_exchange_reserve(const struct gyre_http_exchange_operations *operations);
void gyre_http_exchange_free_spare(struct gyre_http_acceptor *acceptor);
/* Frees its place, if any: the rest does not count as a running request. */
void gyre_http_exchange_leave_place(struct gyre_http_exchange *exchange);
/*
 * Begins a wait for the client with this much unsent memory. A whole response gives up its place,
 * unless all such responses hold too much memory. Returns the client's time; 0: it is too slow; -1:
 * no limit.
 */
int64_t gyre_http_exchange_begin_wait(struct gyre_http_exchange *exchange, uint64_t given, size_t held);
void gyre_http_exchange_end_wait(struct gyre_http_exchange *exchange, int64_t from_ns);
/* Begins the request's time limit, if any. */
void gyre_http_exchange_limit(struct gyre_http_exchange *exchange);
void gyre_http_exchange_end_limit(struct gyre_http_exchange *exchange);
/* Records a half-closed client, a reset, or a closed connection. Called by the loop's callbacks;
 * fibers settle the promise later. */
void gyre_http_exchange_peer_ended(struct gyre_http_exchange *exchange);
/* Wakes the fiber waiting for the request's body. */
void gyre_http_exchange_wake_reader(struct gyre_http_exchange *exchange);
void gyre_http_exchange_mark(const struct gyre_http_exchange *exchange);
VALUE gyre_http_exchange_client_gone(VALUE self);

/* The promise of the client's departure, and its value. */
struct gyre_http_promise {
  VALUE promise, gone; /* or nil; true or false */
};
/* Removes an unsettled promise from an ending request, for the caller to settle. */
static inline struct gyre_http_promise gyre_http_exchange_take_promise(struct gyre_http_exchange *exchange) {
  bool gone = exchange->departure.seen || exchange->connection->state == GYRE_HTTP_CLOSED;
  struct gyre_http_promise taken = {exchange->departure.told ? Qnil : exchange->departure.promise,
                                    gone ? Qtrue : Qfalse};
  exchange->departure.promise = Qnil;
  return taken;
}
/* Settles the promise unless nil. Runs Ruby code, which may switch fibers: call it in a fiber, with
 * no part of the loop on the stack. */
void gyre_http_exchange_settle(struct gyre_http_promise promise);

/* Returns NULL after the exchange's end. Does not check the class, as in gyre_scheduler_get. */
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
  return exchange->placed && exchange->connection->acceptor->capacity->admission.running_limit;
}
/* True if the current thread must not touch the exchange. Then a fiber of the loop's thread runs
 * the method while this thread waits for the result. */
bool gyre_http_exchange_is_outside(VALUE self);
VALUE gyre_http_exchange_hand_over(VALUE self, const char *method, int count, const VALUE *arguments);

/* exempt.c: true if the request runs now; its place is taken then. */
bool gyre_http_is_exempt(const struct gyre_http_acceptor *acceptor, const struct gyre_http_request *request);
bool gyre_http_admit(struct gyre_http_acceptor *acceptor, struct gyre_http_request *request);

/* env.c */
VALUE gyre_http_env(struct gyre_http_exchange *exchange, const struct gyre_http_head *head, const char *bytes);
/* Makes an env from the known parts of a refused head, for the access log. */
VALUE gyre_http_refused_env(struct gyre_http_connection *connection, const struct gyre_http_request *request);
VALUE gyre_http_field_hash(const struct gyre_http_head *head, const char *bytes);
VALUE gyre_http_remote_address(struct gyre_http_connection *connection);

/* request.c */
/* Parks until exchange->reader is woken; returns false after its time limit, with the reason. */
bool gyre_http_wait_for_input(VALUE self, const char **reason);
/* Raises if another fiber reads, the request is refused, or the connection is closed. */
struct gyre_http_exchange *gyre_http_request_reading(VALUE self);
/* Returns the env, or nil after a refusal. */
VALUE gyre_http_request_take(struct gyre_http_exchange *exchange);
/* Fails the request: its response may still be sent, but no input is read. */
NORETURN(void gyre_http_request_fail(struct gyre_http_exchange *exchange, int status, const char *reason));
NORETURN(void gyre_http_request_cut(VALUE self));
NORETURN(void gyre_http_refuse_second_reader(void));
/* Defines Gyre::HTTP::<version>::Exchange and its methods. */
VALUE gyre_http_define_exchange(const char *version, const struct gyre_http_exchange_operations *operations);

/* response.c */
struct gyre_http_exchange *gyre_http_response_writable(VALUE self);
bool gyre_http_response_interim(struct gyre_http_exchange *exchange, int status, VALUE headers);
/* Refuses the request with its status and one line of plain text. */
void gyre_http_response_refuse(struct gyre_http_exchange *exchange);
void gyre_http_define_response(VALUE class);

/* handler.c */
/* Runs the handler for a complete or refused request. Returns 0, or a state for rb_jump_tag. */
int gyre_http_handler_start(struct gyre_http_connection *connection, const struct gyre_http_request *request,
                            const struct gyre_http_exchange_operations *operations);
/* Handles an exception of a starting handler; `begun`: the handler itself raised it. Returns 0, or
 * the state of a fatal exception for rb_jump_tag. */
int gyre_http_handler_failed(struct gyre_http_acceptor *acceptor, int state, bool begun);

/* error.c */
VALUE gyre_http_error(const char *name, int status, const char *message);
/* Makes an exception without the program's code, for callbacks of the loop: that code could wait
 * and let others change data in use. */
VALUE gyre_http_cancellation(const char *class, const char *message);
NORETURN(void gyre_http_request_is_over(void));

#endif
