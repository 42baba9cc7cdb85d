/* A call of the memcached client, from its command to its value. memcached_server.c (one key) and
 * memcached_multi.c (many) fill in a request; memcached_request.c carries it out. */
#ifndef GYRE_MEMCACHED_REQUEST_H
#define GYRE_MEMCACHED_REQUEST_H

#include "memcached/memcached.h"

struct gyre_memcached_server {
  VALUE connections; /* Array of calls, one for each used home */
  VALUE keys;        /* makes full keys (Gyre::Memcached::Keys); nil: keys are full */
  VALUE prefix;      /* prefix of keys, or nil; false: may change */
  VALUE values;      /* Gyre::Memcached::Values */
  unsigned failures; /* commands in a row without a reply between them */
  bool raw;          /* values are bytes, without flags */
  long direct_bytes; /* longest String stored unchanged; -1: none */
};

struct gyre_memcached_request {
  VALUE self; /* the Server */
  struct gyre_memcached_server *server;
  struct gyre_memcached_connection *connection;
  VALUE connection_object;
  struct gyre_memcached_call *call, own;
  bool starts;  /* only starts the call */
  bool holds;   /* queues it without sending */
  bool drops;   /* drops the reply */
  bool started; /* the call has started */
  /* Queues all commands. 0; -EPIPE: the connection has failed; -ENOMEM: queued nothing. */
  int (*put)(struct gyre_memcached_request *request);
  /* The command. */
  enum gyre_memcached_verb verb;
  enum gyre_memcached_key form;
  char key[GYRE_MEMCACHED_KEY_BYTES]; /* copied, as other code may run before the command is sent */
  size_t key_length;
  const char *flags; /* each with a space before it */
  size_t flags_length;
  VALUE data; /* the bytes to store */
  uint32_t data_flags;
  int64_t ttl_s;
  /* Of many. */
  VALUE list;
  long done; /* of the list */
  bool full; /* its keys are full ones */
  long step; /* for quiet groups, items of the list per command; else 0 */
};

VALUE gyre_memcached_server_allocate(VALUE class);
struct gyre_memcached_server *gyre_memcached_server_get(VALUE self);
/* Returns the current home's connection, or nil. */
VALUE gyre_memcached_connection_here(const struct gyre_memcached_server *server);

void gyre_memcached_request_begin(struct gyre_memcached_request *request, VALUE self, enum gyre_memcached_kind kind,
                                  const char *command);
static inline void gyre_memcached_set_flags(struct gyre_memcached_request *request, const char *flags, size_t length) {
  request->flags = flags;
  request->flags_length = length;
}
/* Returns the request's value, or a Gyre::Memcached::Call if it only starts. */
VALUE gyre_memcached_request_run(struct gyre_memcached_request *request);
/* Waits until the pipeline has room, or has failed. */
void gyre_memcached_wait_for_room(struct gyre_memcached_connection *connection);

/* Sets the wire's key from a caller's key; the last function takes a result of Keys#full. The first
 * function runs no Ruby code and returns false for an unusual key. */
bool gyre_memcached_plain_key(struct gyre_memcached_request *request, VALUE key);
void gyre_memcached_callers_key(struct gyre_memcached_request *request, VALUE key);
void gyre_memcached_full_key(struct gyre_memcached_request *request, VALUE key);

/* True if the value is stored unchanged; then sets its flags. Runs no Ruby code. */
bool gyre_memcached_direct_value(struct gyre_memcached_request *request, VALUE value);
/* Returns the bytes to store under the set key, and sets their flags. */
VALUE gyre_memcached_dump(struct gyre_memcached_request *request, VALUE value);

/* Returns the meta command of that name, such as mg. */
enum gyre_memcached_verb gyre_memcached_verb_of(VALUE name);
/* Queues a command with the set key, flags and, for ms, value, like `put`. */
int gyre_memcached_put(struct gyre_memcached_request *request);
/* Queues a line, like `put`. */
int gyre_memcached_put_line(struct gyre_memcached_request *request, const char *line, size_t length);

void gyre_init_memcached_request(void);
void gyre_init_memcached_multi(void);

#endif
