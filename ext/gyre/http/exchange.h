/* One request and its response, from a head to the next request or the handler's end (exchange.c).
 * handler.c runs the handler's fiber; methods.c defines Ruby's methods (lib/gyre/http/exchange.rb).
 * Each version has a table of functions. */
#pragma once

#include "http/acceptor.h"

struct gyre_http_exchange;
struct gyre_http_response_head;

/* A complete or refused head; valid until the next call on the connection. */
struct gyre_http_request {
  const struct gyre_http_head *head; /* NULL if unknown; may be incomplete if refused */
  const char *bytes;
  void *stream;        /* HTTP/2's */
  size_t length, came; /* length of the head; number of bytes after the head */
  uint16_t status;     /* of a refusal; 0: the head is valid */
  const char *reason;  /* of a refusal: constant text */
  bool placed;         /* the request has a place */
  bool lacks_body;     /* the body must come before the request gets a place */
  int64_t since_ns;    /* start of the wait for a place; 0: no wait */
};

/* A version's functions. Functions that take `self` run in a fiber of the app and may raise. */
struct gyre_http_exchange_operations {
  size_t bytes; /* size of the version's struct, which begins with the exchange */
  VALUE *class;
  bool alone; /* one exchange at a time: a refusal ends the connection */

  /* Sets the exchange's env, and its status and reason if the head is refused. */
  void (*begin)(struct gyre_http_exchange *exchange, const struct gyre_http_request *request);
  /* Frees the exchange after its handler has returned. */
  void (*done)(struct gyre_http_connection *connection, struct gyre_http_exchange *exchange);
  /* Refuses the request, because memory does not suffice for an exchange. */
  void (*drop)(struct gyre_http_connection *connection, const struct gyre_http_request *request);
  bool (*is_reset)(const struct gyre_http_exchange *exchange); /* by the client */
  bool (*is_over)(const struct gyre_http_exchange *exchange);  /* NULL: ends with its connection */

  VALUE (*next_request)(VALUE self); /* after the first */
  VALUE (*read_body)(VALUE self, size_t most);
  /* Returns the connection for another protocol, or NULL if memory is short. If `upgrade` is
   * NULL, the protocol gets the exchange's own connection. */
  struct gyre_http_connection *(*upgrade)(struct gyre_http_exchange *exchange);
  VALUE (*hijack)(struct gyre_http_exchange *exchange);
  void (*close)(struct gyre_http_exchange *exchange, bool reset);

  /* Write the beginning and the end of a head to the output buffer. */
  void (*begin_head)(struct gyre_http_buffer *output, int status);
  void (*end_head)(struct gyre_http_response_head *head);
  void (*send_head)(VALUE self, const struct gyre_http_response_head *head); /* interim or final */
  /* Sends head, body (an Array of Strings) and end at once. */
  void (*send_response)(VALUE self, const struct gyre_http_response_head *head, VALUE body);
  void (*send_body)(VALUE self, VALUE string);
  uint64_t (*send_file)(VALUE self, VALUE io, int64_t offset, uint64_t length);
  void (*finish_body)(VALUE self);
};

/* What both versions have, by these names in their files. */
#define GYRE_HTTP_EXCHANGE(type)                                                                                       \
  .bytes = sizeof(type), .class = &exchange_class, .begin = begin, .done = done, .drop = drop, .is_reset = is_reset,   \
  .read_body = read_body, .hijack = hijack, .close = close_exchange, .end_head = end_head, .send_head = send_head,     \
  .send_response = send_response, .send_body = send_body, .send_file = send_file, .finish_body = finish_body

enum gyre_http_framing {
  GYRE_HTTP_NO_BODY,
  GYRE_HTTP_LENGTH,
  GYRE_HTTP_CHUNKED_BODY,
  GYRE_HTTP_UNTIL_CLOSE,
  GYRE_HTTP_RAW
};

/* A fiber that waits for the client; on the fiber's stack. */
struct gyre_http_reader {
  VALUE self;
  struct gyre_wait wait;
  int64_t came_ns; /* when the client's bytes came; -1: not yet */
  bool kept;       /* was still exchange->reader after the wait */
};

struct gyre_http_exchange {
  struct gyre_list node; /* in acceptor->exchanges: active or spare */
  const struct gyre_http_exchange_operations *operations;
  struct gyre_http_connection *connection;
  VALUE handle, fiber, env;
  VALUE path;                        /* as it came; nil if refused */
  VALUE trailers, response_trailers; /* each a Hash, or nil */
  struct gyre_http_reader *reader;   /* fiber waiting for the request's body */
  const char *reason;                /* of a refusal: constant text */
  uint16_t status;                   /* status of a refusal; 0: valid */
  uint8_t method;                    /* enum gyre_http_method */
  bool http_1_0 : 1;                 /* the client knows no chunks and no interim responses */
  bool expects_continue : 1;
  bool head_only : 1;
  bool taken : 1;      /* next_request has passed the request to the app */
  bool measured : 1;   /* counted in the statistics */
  bool placed : 1;     /* holds a place */
  bool hijacked : 1;   /* the app has the stream, or the other end of a socket pair */
  bool open_ended : 1; /* the response has no end of its own */
  int64_t began_ns;    /* when its head was complete */
  struct {
    struct gyre_timer timer;
    struct gyre_interrupt *interrupt; /* on its way to the fiber */
  } limit;                            /* the request's time limit; later that of an open-ended response */
  struct {
    struct gyre_list node; /* in acceptor->leaving until `told` */
    VALUE promise;         /* Gyre::Promise that the app has asked for, or nil */
    struct gyre_interrupt *interrupt;
    uint64_t body_bytes; /* sent at the last check of an open-ended response */
    bool seen, told;
  } departure; /* of the client */
  struct {
    int64_t received, ahead; /* bytes read or discarded; bytes that came before `begin` */
    int64_t waited_ns;       /* time spent waiting for the body; a discard begins again at 0 */
    bool over, reading_off;  /* `reading_off`: discards the rest that the app has not read */
  } body;                    /* the request's */
  struct {
    uint16_t status;                        /* the final head's; 0: not sent */
    uint8_t framing;                        /* enum gyre_http_framing */
    bool whole;                             /* the app has written everything */
    bool writing;                           /* a fiber is parked halfway through a message */
    uint64_t body_bytes, taken_before;      /* `taken_before`: bytes sent before the first wait */
    int64_t waited_ns;                      /* time spent waiting for a slow client */
    uint32_t output_counted, files_counted; /* shares of budgets: unsent bytes, open files */
  } response;
};

/* exchange.c */
/* Makes an exchange. Raises NoMemoryError if memory is short. */
struct gyre_http_exchange *gyre_http_exchange_new(struct gyre_http_connection *connection,
                                                  const struct gyre_http_exchange_operations *operations);
/* Frees the exchange and empties its handle. */
void gyre_http_exchange_free(struct gyre_http_exchange *exchange);
/* Counts the response once, sent or not. */
void gyre_http_exchange_measure(struct gyre_http_exchange *exchange);
/* Called for each HTTP version: makes later exchanges large enough for the version's struct. */
void gyre_http_exchange_reserve(const struct gyre_http_exchange_operations *operations);
/* Gives back the request's place and ends the request's time limit. */
void gyre_http_exchange_leave_place(struct gyre_http_exchange *exchange);
/* Begins a wait for the client. `given`: bytes sent so far; `held`: bytes still in memory. Gives
 * back the place of a complete response, unless such responses hold too much memory. Returns the
 * time limit of the wait; 0: the client is too slow; -1: no limit. */
int64_t gyre_http_exchange_begin_wait(struct gyre_http_exchange *exchange, uint64_t given, size_t held);
void gyre_http_exchange_end_wait(struct gyre_http_exchange *exchange, int64_t from_ns);
void gyre_http_exchange_limit(struct gyre_http_exchange *exchange);
void gyre_http_exchange_end_limit(struct gyre_http_exchange *exchange);
/* Lets the response stay open while its client does. */
void gyre_http_exchange_open_ended(struct gyre_http_exchange *exchange);
/* Records the client's departure if the connection or stream is closed or reset. Switches no
 * fibers: the promise is settled later. */
void gyre_http_exchange_peer_ended(struct gyre_http_exchange *exchange);
/* Wakes the fiber waiting for the request's body. */
void gyre_http_exchange_wake_reader(struct gyre_http_exchange *exchange);
void gyre_http_exchange_mark(const struct gyre_http_exchange *exchange);

/* A promise about the client's departure, and its value. */
struct gyre_http_promise {
  VALUE promise, gone; /* `promise` may be nil; `gone` is true or false */
};
/* Takes the promise of a request that ends; the caller must settle the promise. */
static inline struct gyre_http_promise gyre_http_exchange_take_promise(struct gyre_http_exchange *exchange) {
  bool gone = exchange->departure.seen || exchange->connection->state == GYRE_HTTP_CLOSED;
  struct gyre_http_promise taken = {exchange->departure.told ? Qnil : exchange->departure.promise,
                                    gone ? Qtrue : Qfalse};
  exchange->departure.promise = Qnil;
  return taken;
}
/* Settles the promise unless it is nil. May switch fibers, so it must be called in a fiber, never
 * in a callback of the loop. */
void gyre_http_exchange_settle(struct gyre_http_promise promise);

/* Returns NULL after the request's end. Does not check the class of `self`. */
static inline struct gyre_http_exchange *gyre_http_exchange_get(VALUE self) { return RTYPEDDATA_DATA(self); }
/* Also returns NULL if the connection is closed, lingering or hijacked. */
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
/* True if the request has a place and the number of places is limited. */
static inline bool gyre_http_exchange_holds_place(const struct gyre_http_exchange *exchange) {
  return exchange->placed && exchange->connection->acceptor->capacity.admission.running_limit;
}

/* route.c: rows of requests (fiber/sight.h) */
/* Looks whether a framework that sets routes is loaded. */
void gyre_http_route_look(void);
void gyre_http_route_begin(struct gyre_http_exchange *exchange);
/* Counts the request, once; does nothing outside of its own fiber. `asks`: may run Ruby code. */
void gyre_http_route_end(VALUE self, bool asks);
/* Returns the row of a WebSocket or event stream that the request becomes; NULL: none. */
struct gyre_sight_account *gyre_http_route_upgrade(VALUE self, bool events);

/* handler.c: `is_exempt` is true if the request needs no place, `admit` if it may run now. */
bool gyre_http_is_exempt(struct gyre_http_acceptor *acceptor, const struct gyre_http_request *request);
bool gyre_http_admit(struct gyre_http_acceptor *acceptor, struct gyre_http_request *request);

/* env.c */
VALUE gyre_http_env(struct gyre_http_exchange *exchange, const struct gyre_http_head *head, const char *bytes);
/* Makes an env of a refused head's known parts, for the access log. */
VALUE gyre_http_refused_env(struct gyre_http_connection *connection, const struct gyre_http_request *request);
VALUE gyre_http_field_hash(const struct gyre_http_head *head, const char *bytes);
/* For the client: raises ArgumentError if a request line cannot have this method or target. */
void gyre_http_check_request(VALUE method, VALUE target);
/* For the client, with rb_hash_foreach: raises ArgumentError for an invalid field. `value` is a
 * String or an Array of Strings. */
int gyre_http_check_field(VALUE name, VALUE value, VALUE unused);
/* `pack` puts a response's fields and text into a String, from which `unpack` makes a Hash. */
VALUE gyre_http_pack_fields(const struct gyre_http_head *head, const char *bytes, size_t length);
VALUE gyre_http_unpack_fields(VALUE packed);

/* methods.c */
/* Parks the fiber as exchange->reader until the fiber is woken. Returns false after the time limit,
 * which *reason explains. */
bool gyre_http_wait_for_input(VALUE self, const char **reason);
/* Raises if another fiber reads, the request is refused, or the connection is closed. */
struct gyre_http_exchange *gyre_http_request_reading(VALUE self);
/* Returns the env, or nil after a refusal. */
VALUE gyre_http_request_take(struct gyre_http_exchange *exchange);
/* Raises RequestError. The request may still get a response, but its body is not read any more. */
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
/* Reports an exception at a handler's start. `begun`: the handler itself raised it. Returns 0, or a
 * state for rb_jump_tag if the exception must be passed on. */
int gyre_http_handler_failed(struct gyre_http_acceptor *acceptor, int state, bool begun);

/* error.c */
VALUE gyre_http_error(const char *name, int status, const char *message);
/* Interrupts a fiber. Callbacks of the loop, which must not wait, may call it: it runs no code of
 * the program. Returns NULL if memory is short. */
struct gyre_interrupt *gyre_http_cancel(struct gyre_scheduler *scheduler, VALUE fiber, const char *class,
                                        const char *message);
