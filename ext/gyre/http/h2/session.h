/* Frames and streams of one HTTP/2 connection (RFC 9113), by libnghttp2. A stream has head, body
 * and response; in a client, head and `in` belong to the response. connection.c moves bytes;
 * exchange.c uses streams. No socket, clock or ruby.h. Only session.c calls libnghttp2, whose
 * callbacks list changed streams for the caller.
 *
 *   bytes ─ receive ─► streams ─► changed ─► (head: run a handler; body, reset: wake it)
 *   bytes ◄─ send ──── output of each stream ◄─ respond, write, finish */
#pragma once

#include "http/admission.h"
#include "http/limits.h"

#define GYRE_HTTP2_PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define GYRE_HTTP2_PREFACE_BYTES (sizeof(GYRE_HTTP2_PREFACE) - 1)

/* Codes of errors that are sent or compared here (RFC 9113, section 7). */
enum gyre_http2_error {
  GYRE_HTTP2_INTERNAL_ERROR = 2,
  GYRE_HTTP2_REFUSED_STREAM = 7,
  GYRE_HTTP2_CANCEL = 8,
  GYRE_HTTP2_ENHANCE_YOUR_CALM = 11
};
const char *gyre_http2_error_name(uint32_t error);

/* Fields of a head or trailers, as offsets into `text`. */
struct gyre_http2_block {
  struct gyre_bytes *text;
  struct gyre_http_field *fields;
  uint32_t bytes; /* size of the fields as lines of HTTP/1 */
  uint16_t count, capacity;
};

struct gyre_http2_session;
struct gyre_http2_lines;

struct gyre_http2_stream {
  struct gyre_list node;    /* in session->streams */
  struct gyre_list changed; /* in session->changed */
  struct gyre_http2_session *session;
  struct gyre_admission_waiter waiter; /* in the queue while the request waits for a place */
  uint32_t counted;                    /* share in the budget of heads */
  int32_t id;
  void *owner; /* an exchange, a tunnel's connection, a client's call, or NULL */

  /* `head` points into `block`, until gyre_http2_stream_drop_head. */
  struct gyre_http_head head;
  struct gyre_http_slice scheme, protocol;
  struct gyre_http2_block block, trailers;
  uint16_t heads_whole, heads_taken; /* client: number of fields in whole heads; of fields taken */
  uint32_t error;                    /* error code that closed the stream */

  struct {
    struct gyre_bytes *bytes; /* body bytes that the app has not taken */
    uint32_t counted;         /* share in the budget of input */
    uint32_t granted;         /* held bytes already returned to the connection's window */
    int64_t headed_ns;        /* start of the wait for the body */
    int64_t came_ns;          /* when the last bytes came */
    bool ended : 1;
    bool discards : 1; /* later bytes are dropped */
  } in;                /* the received body */

  struct {
    struct gyre_bytes *bytes, *trailers;
    const char *lent; /* client: the whole body, used instead of `bytes` */
    size_t lent_length;
    uint32_t counted;    /* share in the budget of output */
    uint64_t sent_bytes; /* the body's */
    int64_t progress_ns; /* when bytes were last sent, or the handler ended */
    int64_t left_ns;     /* handler's end; 0: running */
    uint64_t left_bytes; /* sent_bytes at left_ns */
    bool headed : 1;     /* the head is queued */
    bool over : 1;       /* the whole body is queued */
    bool sent : 1;
    bool dropped : 1;  /* client: the rest of the body is not sent; a reset follows */
    bool deferred : 1; /* libnghttp2 has found no bytes and waits until `resume` */
  } out;               /* the sent message */

  bool headed : 1;  /* the head is complete, or refused (head.status) */
  bool counts : 1;  /* counted as a request of the connection */
  bool awaited : 1; /* the request waits for its body before it gets a place */
  bool started : 1; /* a handler has begun, or no handler will begin */
  bool placed : 1;  /* the request holds a place of the admission */
  bool trailers_wrong : 1;
  bool cut : 1;       /* a reset follows the queued bytes */
  bool tunnel : 1;    /* another protocol has taken it over (tunnel.c) */
  bool own_reset : 1; /* reset by this side, not for a client's error */
  bool peer_reset : 1;
  bool departed : 1; /* reset by the client, or closed with an error */
  bool closed : 1;   /* the stream is over: libnghttp2 or the connection has closed it */
};

/* A stock of tokens: each counted frame takes a token, and passing time adds tokens. */
struct gyre_http2_allowance {
  int64_t tokens, refilled_ns;
};

struct gyre_http2_session {
  struct nghttp2_session *nghttp2;
  const struct gyre_http2_limits *limits;
  struct gyre_http_capacity *capacity; /* places and budgets of streams */
  struct gyre_list streams, changed;
  uint32_t awaited_count; /* number of streams with awaited bodies */
  uint32_t stream_count;  /* number of `streams`, including closed ones with an owner */
  uint32_t open_count;    /* number of `streams` that are not closed */
  uint32_t cut_count;     /* number of streams whose reset must follow queued bytes */
  uint64_t malformed;     /* number of streams ended by client errors */
  int64_t now_ns;         /* time of the current call of receive or send */
  int64_t widest;         /* before SETTINGS, the most by which a window exceeds the initial one */
  int64_t head_since_ns;  /* start of the current header block; 0: none */
  size_t block_bytes;     /* bytes of the block's names and values */
  struct gyre_http2_allowance resets, control_frames;
  struct {
    int32_t last, reset; /* newest stream; newest stream that this side reset or skipped */
    int32_t unopened;    /* newest stream, if libnghttp2 skipped it */
    int32_t served;      /* last stream that GOAWAY promises to serve */
    uint32_t begun_count;
  } ids; /* of streams */
  struct {
    uint32_t left;   /* bytes left before the next frame header */
    uint8_t head[9]; /* received part of that header */
    uint8_t head_length;
    bool ends_block; /* the frame ends a header block */
  } frame;           /* the frame that is being received */
  struct {
    char *bytes;
    size_t length, room;
    bool full;
    const uint8_t *piece; /* rest for the next `send`, in libnghttp2's memory */
    size_t piece_length;
  } out;               /* while `send` runs */
  uint32_t left_error; /* code of the peer's GOAWAY */
  bool left : 1;       /* the peer has sent GOAWAY */
  bool client : 1;     /* this side sends the requests */
  bool settled : 1;    /* the peer's preface is complete */
  bool failed : 1;     /* receives no more; queued bytes may still be sent */
  bool going : 1;      /* GOAWAY is sent or queued */
  bool broken : 1;     /* can send no more, not even GOAWAY */
  bool input_over : 1; /* the client has ended its side */
};

/* h2/head.c: adds a field to head or trailers; completes the head. */
void gyre_http2_head_field(struct gyre_http2_stream *stream, const uint8_t *name, size_t length, const uint8_t *value,
                           size_t value_length);
void gyre_http2_head_conclude(struct gyre_http2_stream *stream, bool ends);
/* Completes a head of a response. After an interim head (1xx), another head follows. */
void gyre_http2_head_conclude_response(struct gyre_http2_stream *stream, bool ends);
void gyre_http2_block_free(struct gyre_http2_block *block);

/* Queues the preface. `limits` and `capacity` must outlive the session. Returns 0 or -ENOMEM. */
int gyre_http2_session_init(struct gyre_http2_session *session, const struct gyre_http2_limits *limits,
                            struct gyre_http_capacity *capacity, bool client, int64_t now_ns);
/* Frees all streams, even those with owners. */
void gyre_http2_session_free(struct gyre_http2_session *session);

/* Returns false if the peer has broken the protocol. The caller must then stop receiving. */
bool gyre_http2_session_receive(struct gyre_http2_session *session, const char *bytes, size_t length, int64_t now_ns);
/* Writes output to `bytes`. Returns its size, or 0. `room`: at least GYRE_HTTP2_SEND_ROOM. */
size_t gyre_http2_session_send(struct gyre_http2_session *session, char *bytes, size_t room, int64_t now_ns);
#define GYRE_HTTP2_SEND_ROOM (16384 + 9)
bool gyre_http2_session_has_output(const struct gyre_http2_session *session);
bool gyre_http2_session_is_over(const struct gyre_http2_session *session);
/* Returns the next changed stream, or NULL. If `heads` is false, skips new requests. */
struct gyre_http2_stream *gyre_http2_session_changed(struct gyre_http2_session *session, bool heads);

/* Queues a client's request, which is sent when the server's limit of streams allows. If `ends` is
 * false, a body follows. Returns NULL if memory or stream numbers run out. */
struct gyre_http2_stream *gyre_http2_session_request(struct gyre_http2_session *session,
                                                     const struct gyre_http2_lines *lines, bool ends);
/* Lends the stream a whole body, which must stay until the stream is closed or released. A DATA
 * frame that libnghttp2 has begun by then is dropped (on_send_data). */
void gyre_http2_stream_lend(struct gyre_http2_stream *stream, const char *bytes, size_t length);
/* Returns the number of requests that may run at once. */
uint32_t gyre_http2_session_streams_limit(const struct gyre_http2_session *session);
/* True if unread bodies have used up nearly all of the connection's window: another response could
 * stand still. */
bool gyre_http2_session_is_narrow(const struct gyre_http2_session *session);
void gyre_http2_session_ping(struct gyre_http2_session *session);

/* Drops partial requests, and ends after the others, because the client has closed its side. */
void gyre_http2_session_end_input(struct gyre_http2_session *session);

/* Three steps of a drain: warn, refuse new streams, end (RFC 9113, section 6.8). */
void gyre_http2_session_warn(struct gyre_http2_session *session);
void gyre_http2_session_go(struct gyre_http2_session *session);
void gyre_http2_session_terminate(struct gyre_http2_session *session, uint32_t error);

/* Return, count and uncount the memory of a partial or waiting head. `count_head` returns false if
 * all heads together exceed the budget. */
size_t gyre_http2_stream_head_bytes(const struct gyre_http2_stream *stream);
bool gyre_http2_stream_count_head(struct gyre_http2_stream *stream);
void gyre_http2_stream_uncount_head(struct gyre_http2_stream *stream);
/* Returns the newest stream if its head is incomplete, or NULL. */
struct gyre_http2_stream *gyre_http2_session_partial(const struct gyre_http2_session *session);
/* Frees the head's memory after env is made. */
void gyre_http2_stream_drop_head(struct gyre_http2_stream *stream);
/* Lists the stream for gyre_http2_session_changed. */
void gyre_http2_stream_note(struct gyre_http2_stream *stream);
/* Sets whether the body must come before the handler begins. */
void gyre_http2_stream_await(struct gyre_http2_stream *stream, bool awaited);
/* Drops the received body and all later bytes. */
void gyre_http2_stream_discard(struct gyre_http2_stream *stream);
/* Called when the app has read `length` bytes. */
void gyre_http2_stream_taken(struct gyre_http2_stream *stream, size_t length);
/* True if no bytes will come after those that are held. */
static inline bool gyre_http2_stream_is_read(const struct gyre_http2_stream *stream) {
  return stream->in.ended || stream->closed || stream->session->input_over;
}
static inline size_t gyre_http2_stream_queued(const struct gyre_http2_stream *stream) {
  return gyre_bytes_held(stream->out.bytes);
}

/* Most bytes of a head or of trailers that are sent. */
#define GYRE_HTTP2_SENT_HEAD_BYTES ((size_t)1 << 20)

/* `lines`: "name: value\r\n" with names in lower case. Skips fields that HTTP/2 forbids
 * (gyre_http2_is_of_connection). `ends`: no body follows. Returns 0 or -errno (-EPIPE: closed,
 * -EMSGSIZE: too long). */
int gyre_http2_stream_respond(struct gyre_http2_stream *stream, int status, const char *lines, size_t length,
                              bool ends);
int gyre_http2_stream_write(struct gyre_http2_stream *stream, const void *bytes, size_t length);
/* Called after bytes were appended to the output. */
void gyre_http2_stream_wrote(struct gyre_http2_stream *stream);
/* `lines`: trailers, or NULL. */
int gyre_http2_stream_finish(struct gyre_http2_stream *stream, const char *lines, size_t length);
/* Sends queued bytes as far as the client's windows allow, then a reset. */
void gyre_http2_stream_cut(struct gyre_http2_stream *stream);
/* Refuses a request before its handler begins. The client may repeat the request. */
void gyre_http2_stream_refuse(struct gyre_http2_stream *stream);
void gyre_http2_stream_reset(struct gyre_http2_stream *stream, uint32_t error);
/* Called when the owner leaves the stream. Sends the rest of the response and drops the rest of the
 * request; in a client, resets the stream. May free the stream. */
void gyre_http2_stream_release(struct gyre_http2_stream *stream);
