/*
 * One call of the memcached client, from its command to its value: what memcached_server.c (a call
 * for one key) and memcached_many.c (for many) fill in, and memcached_request.c carries out.
 */
#ifndef GYRE_MEMCACHED_REQUEST_H
#define GYRE_MEMCACHED_REQUEST_H

#include "memcached/memcached.h"

struct gyre_memcached_server {
  VALUE connections; /* Array, one for each home that has been used */
  VALUE keys;        /* makes full keys of the caller's (Gyre::Memcached::Keys); nil: they are full */
  VALUE prefix;      /* what it puts before each, or nil; where it is not always the same: false */
  VALUE values;      /* Gyre::Memcached::Values */
  unsigned failures; /* one after the other, without a reply between them */
  bool raw;          /* values are bytes, without flags */
  long direct_bytes; /* a String of at most so many is stored as it is; -1: none is */
};

enum gyre_memcached_result {
  GYRE_MEMCACHED_RESULT_VALUE,  /* what was stored; nil */
  GYRE_MEMCACHED_RESULT_CAS,    /* the CAS number; false */
  GYRE_MEMCACHED_RESULT_DONE,   /* true; false */
  GYRE_MEMCACHED_RESULT_COUNT,  /* how many were carried out */
  GYRE_MEMCACHED_RESULT_TABLE,  /* a Hash of what was stored */
  GYRE_MEMCACHED_RESULT_ITSELF, /* what the reply was made into */
};

struct gyre_memcached_request {
  VALUE self; /* the Server */
  struct gyre_memcached_server *server;
  struct gyre_memcached_connection *connection;
  VALUE connection_object, call_object;
  struct gyre_memcached_call *call, own;
  struct gyre_wait wait;
  int64_t until_ns; /* of gyre_timers_now: so long it waits in a thread; -1: without a limit */
  bool starts;      /* it only starts the call */
  bool holds;       /* and does not send it yet */
  bool drops;       /* and drops the reply */
  bool started;     /* and has done so */
  bool quiet;       /* what is put has no reply of its own */
  const char *command;
  enum gyre_memcached_result result;
  /* Queues all it has. 0; -EPIPE: the connection has failed; -ENOMEM: nothing was queued. */
  int (*put)(struct gyre_memcached_request *request);
  /* What is put. */
  enum gyre_memcached_verb verb;
  enum gyre_memcached_key form;
  char key[GYRE_MEMCACHED_KEY_BYTES]; /* a copy: it is sent after waits in which other code may run */
  size_t key_length;
  const char *flags; /* each with a space before it */
  size_t flags_length;
  VALUE data; /* the bytes to store */
  uint32_t data_flags;
  int64_t ttl_s;
  VALUE list;       /* of many */
  long done, count; /* of the list */
};

VALUE gyre_memcached_server_allocate(VALUE class);
struct gyre_memcached_server *gyre_memcached_server_get(VALUE self);
/* That of the present home, or nil. */
VALUE gyre_memcached_connection_here(const struct gyre_memcached_server *server);

void gyre_memcached_request_begin(struct gyre_memcached_request *request, VALUE self, enum gyre_memcached_kind kind,
                                  enum gyre_memcached_result result, const char *command);
/* Its value, or a Gyre::Memcached::Call where it only starts. */
VALUE gyre_memcached_request_run(struct gyre_memcached_request *request);
/* Until the pipeline has room, or has failed. */
void gyre_memcached_wait_for_room(struct gyre_memcached_connection *connection);

/* Sets the key as it goes on the wire. Of the first two what the caller has, of the last what
 * Keys#full has made. The first runs no Ruby code, and returns false for what is not usual. */
bool gyre_memcached_plain_key(struct gyre_memcached_request *request, VALUE key);
void gyre_memcached_callers_key(struct gyre_memcached_request *request, VALUE key);
void gyre_memcached_full_key(struct gyre_memcached_request *request, VALUE key);

/* Whether the value is stored as it is: then its flags are set. Runs no Ruby code. */
bool gyre_memcached_direct_value(struct gyre_memcached_request *request, VALUE value);
/* The bytes to store for the key that is set; sets their flags. */
VALUE gyre_memcached_dump(struct gyre_memcached_request *request, VALUE value);

/* Queue a command with the key and flags that are set. As `put`. */
int gyre_memcached_put(struct gyre_memcached_request *request, const char *verb, uint32_t index);
int gyre_memcached_put_value(struct gyre_memcached_request *request);

void gyre_init_memcached_request(void);
void gyre_init_memcached_many(void);

#endif
