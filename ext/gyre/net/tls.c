/* TLS by libssl (tls.h). Each transport has its own BIO, which buffers in both directions, so one
 * recv and one send serve many records. This takes 20 % less CPU than SSL_set_fd and saves two
 * system calls a request. */
#include "loop/backend.h"
#include "loop/direct_calls.h"
#include "loop/timers.h"
#include "net/tls_context.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#define RECORD_BYTES (16 * 1024)
#define FIRST_RECORD_BYTES 4096
#define IDLE_NS INT64_C(1000000000)    /* idle time after which a burst ends */
#define QUEUED_BYTES_LIMIT (64 * 1024) /* bytes encrypted ahead of sending */
#define RECORDS_A_CALL 64              /* records after which a receive returns */
/* Maximum consecutive records without data, such as keys, tickets and alerts (BoringSSL: 32, Go:
 * 16). The handshake's limit is higher, because a client may split its hello into single bytes. */
#define IDLE_RECORDS_LIMIT 32
#define HANDSHAKE_RECORDS_LIMIT 4096

struct tls {
  SSL *ssl;
  struct gyre_tls_context *context;
  struct gyre_transport *transport;
  struct gyre_bytes *received; /* received ciphertext that libssl has not read */
  struct gyre_bytes *queued;   /* ciphertext to be sent */
  const char *lent;            /* ciphertext in lent memory, during a call */
  size_t lent_length;
  int64_t sent_ns;        /* when bytes were last encrypted */
  uint32_t burst_bytes;   /* bytes encrypted since an idle time, counted up to FIRST_RECORD_BYTES */
  uint32_t replied_bytes; /* bytes that receives have queued since the queue was last empty */
  unsigned records;       /* records read in this call */
  unsigned idle_records;  /* records since the last data, or the handshake's start or end */
  int error;              /* -errno of the socket */
  int failure;            /* error after data: the next receive returns it instead of an end */
  bool drained, ended;    /* the socket is empty; the peer has ended it */
  bool emptied;           /* the call's last recv got less than requested */
  bool writes;            /* libssl sends: it may read only the rest of a partial record */
  bool begun, wordy;      /* bytes have come; the first is a letter */
  gyre_tls_judge *judge;  /* NULL: authorities decide */
  void *judge_argument;
  int judged_depth;   /* depth of the last judged certificate; -1: none */
  bool trusted;       /* the judge's verdict on the last judged certificate */
  const char *failed; /* failed step and reason: constant texts */
  const char *reason;
  char server[]; /* a client's server, "NAME ADDRESS"; else "" */
};

static BIO_METHOD *bio_method;

/* --- the BIO --- */

static size_t take(struct gyre_bytes **from, char *to, size_t length) {
  size_t held = gyre_bytes_held(*from);
  if (length > held) length = held;
  memcpy(to, (*from)->bytes + (*from)->offset, length);
  gyre_bytes_consume(from, length);
  return length;
}

/* No TLS record begins with a letter. */
static void look_at_first(struct tls *tls, const char *bytes) {
  tls->begun = true;
  tls->wordy = bytes[0] >= 'A' && bytes[0] <= 'Z';
}

/* Returns the number of received bytes. If it is 0, sets `drained`, `ended` or `error`. */
static size_t receive(struct tls *tls, char *bytes, size_t length) {
  ssize_t count = GYRE_RETRY(gyre_recv(tls->transport->fd, bytes, length, MSG_DONTWAIT));
  if (count > 0) {
    if (!tls->begun) look_at_first(tls, bytes);
    return (size_t)count;
  }
  if (count == 0) {
    tls->ended = true;
  } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
    tls->drained = true;
  } else {
    tls->error = -errno;
  }
  return 0;
}

static bool receive_ciphertext(struct tls *tls) {
  if (tls->drained || tls->ended || tls->error) return false;
  char *bytes = gyre_lent_received();
  if (!bytes) {
    tls->error = -ENOMEM;
    return false;
  }
  tls->lent = bytes;
  tls->lent_length = receive(tls, bytes, GYRE_LENT_BYTES);
  if (!tls->lent_length) return false;
  tls->emptied = tls->lent_length < GYRE_LENT_BYTES;
  return true;
}

static bool refuse(struct tls *tls, const char *reason) {
  tls->failed = "";
  tls->reason = reason;
  tls->error = -EPROTO;
  return false;
}

/* Returns false after too many records without data. This ends libssl's call. */
static bool is_worthwhile(struct tls *tls) {
  if (tls->idle_records <= (tls->transport->handshaken ? IDLE_RECORDS_LIMIT : HANDSHAKE_RECORDS_LIMIT)) return true;
  return refuse(tls, "the peer sends record after record without data");
}

static int bio_read(BIO *bio, char *bytes, size_t length, size_t *count) {
  struct tls *tls = BIO_get_data(bio);
  BIO_clear_retry_flags(bio);
  *count = 0;
  if (!is_worthwhile(tls)) return 0;
  if (tls->received) {
    *count = take(&tls->received, bytes, length);
  } else if (tls->writes) {
    *count = receive(tls, bytes, length); /* later records stay in the kernel, for the reader */
  } else if (tls->lent_length || receive_ciphertext(tls)) {
    *count = length < tls->lent_length ? length : tls->lent_length;
    memcpy(bytes, tls->lent, *count);
    tls->lent += *count;
    tls->lent_length -= *count;
  }
  if (*count) return 1;
  if (tls->drained) BIO_set_retry_read(bio);
  return 0;
}

static int bio_write(BIO *bio, const char *bytes, size_t length, size_t *count) {
  struct tls *tls = BIO_get_data(bio);
  BIO_clear_retry_flags(bio);
  *count = 0;
  if (gyre_bytes_append(&tls->queued, bytes, length) < 0) {
    tls->error = -ENOMEM;
    return 0;
  }
  *count = length;
  return 1;
}

static long bio_control(BIO *bio, int command, long number, void *pointer) {
  struct tls *tls = BIO_get_data(bio);
  switch (command) {
  case BIO_CTRL_FLUSH: return 1; /* later calls send the queue */
  case BIO_CTRL_EOF: return tls && tls->ended && !tls->lent_length && !tls->received;
  default: return 0;
  }
}

static bool make_bio_method(void) {
  if (bio_method) return true;
  BIO_METHOD *method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "gyre");
  if (!method) return false;
  BIO_meth_set_read_ex(method, bio_read);
  BIO_meth_set_write_ex(method, bio_write);
  BIO_meth_set_ctrl(method, bio_control);
  BIO_METHOD *before = NULL;
  if (!__atomic_compare_exchange_n(&bio_method, &before, method, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
    BIO_meth_free(method);
  return true;
}

static void count_record(int sent, int version, int type, const void *bytes, size_t length, SSL *ssl, void *argument) {
  struct tls *tls = argument;
  if (sent || type != SSL3_RT_HEADER) return;
  tls->records++;
  tls->idle_records++;
}

/* Copies unread ciphertext, because other transports use the lent memory next. */
static void keep_lent(struct tls *tls) {
  if (gyre_bytes_append(&tls->received, tls->lent, tls->lent_length) < 0) tls->error = -ENOMEM;
  tls->lent = NULL;
  tls->lent_length = 0;
}

static int send_queued(struct tls *tls) {
  while (tls->queued) {
    ssize_t count = GYRE_RETRY(gyre_send(tls->transport->fd, tls->queued->bytes + tls->queued->offset,
                                         gyre_bytes_held(tls->queued), MSG_DONTWAIT | MSG_NOSIGNAL));
    if (count < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? -EAGAIN : -errno;
    gyre_bytes_consume(&tls->queued, (size_t)count);
  }
  return 0;
}

/* --- errors --- */

/* Clears libssl's error queue, which Ruby's openssl reads, too. Clearing an empty one is slow. */
static void forget_errors(void) {
  if (ERR_peek_error()) ERR_clear_error();
}

static void note(struct tls *tls) {
  unsigned long code = ERR_peek_last_error();
  if (code && ERR_GET_REASON(code) == SSL_R_CERTIFICATE_VERIFY_FAILED) {
    tls->failed = "certificate verify failed: ";
    tls->reason = X509_verify_cert_error_string(SSL_get_verify_result(tls->ssl));
  } else {
    tls->failed = "";
    tls->reason = code ? ERR_reason_error_string(code) : NULL;
    if (!tls->reason) tls->reason = "unknown error";
  }
  forget_errors();
}

/* Returns -errno for a libssl call that moved no bytes; 0: the peer has sent close_notify. */
static int outcome(struct tls *tls, int result, struct gyre_side *side) {
  switch (SSL_get_error(tls->ssl, result)) {
  case SSL_ERROR_WANT_READ: side->wants = GYRE_READABLE; return -EAGAIN;
  case SSL_ERROR_WANT_WRITE: side->wants = GYRE_WRITABLE; return -EAGAIN;
  case SSL_ERROR_ZERO_RETURN: return 0;
  default: break;
  }
  if (tls->error) return tls->error;
  bool cut = tls->ended && (ERR_peek_last_error() == 0 ||
                            ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING);
  if (cut) {
    tls->failed = "";
    tls->reason = "the peer ended the connection without a close_notify alert";
    forget_errors();
    return GYRE_TRUNCATED;
  }
  note(tls);
  return -EPROTO;
}

/* --- the operations --- */

static int tls_handshake(struct gyre_transport *transport) {
  struct tls *tls = transport->state;
  int error = send_queued(tls);
  if (error < 0) {
    transport->read.wants = GYRE_WRITABLE;
    return error;
  }
  forget_errors();
  tls->drained = false;
  int result = SSL_do_handshake(tls->ssl);
  keep_lent(tls);
  error = result == 1 ? 0 : outcome(tls, result, &transport->read);
  if (result != 1 && error == 0) {
    tls->failed = "";
    tls->reason = "the peer ended the connection in the handshake (close_notify)";
    error = GYRE_TRUNCATED;
  }
  if (error == 0) tls->idle_records = 0;
  if (error != 0 && error != -EAGAIN)
    gyre_tls_session_forget(tls->context, tls->server); /* the peer may have refused this session */
  int sent = send_queued(tls);                          /* also sends an alert */
  if (sent == -EAGAIN && (error == 0 || error == -EAGAIN)) {
    transport->read.wants = GYRE_WRITABLE; /* send first: the peer waits for the queued bytes */
    return -EAGAIN;
  }
  return error == 0 ? sent : error;
}

/* Frees the 16 KB that libssl keeps after a ticket, in case it must answer. Keeps buffers with part
 * of a record, because libssl before 3.0.14 frees them while it uses them (CVE-2024-4741). */
static void release_buffers(struct tls *tls) {
  if (!SSL_has_pending(tls->ssl) && strcmp(SSL_rstate_string(tls->ssl), "RH") == 0) SSL_free_buffers(tls->ssl);
}

static ssize_t tls_receive(struct gyre_transport *transport, void *bytes, size_t length) {
  struct tls *tls = transport->state;
  if (tls->queued) send_queued(tls);
  if (!tls->queued) tls->replied_bytes = 0;
  int failure = tls->failure;
  tls->failure = 0;
  if (failure) return failure;
  size_t moved = 0, held = gyre_bytes_held(tls->queued);
  forget_errors();
  tls->drained = tls->emptied = false;
  tls->records = 0;
  int result = 1;
  bool without_data = false;
  while (moved < length && tls->records < RECORDS_A_CALL) {
    size_t count = 0;
    result = SSL_read_ex(tls->ssl, (char *)bytes + moved, length - moved, &count);
    without_data |= tls->idle_records > (result == 1);
    if (result != 1) break;
    moved += count;
    tls->idle_records = 0;
    /* Stops when the received ciphertext is used up. The next call receives more. */
    if (!tls->lent_length && !tls->received && !SSL_pending(tls->ssl)) break;
  }
  int error = result == 1 ? 0 : outcome(tls, result, &transport->read);
  forget_errors();
  if (without_data && transport->handshaken && !tls->error) release_buffers(tls);
  keep_lent(tls);
  tls->replied_bytes += (uint32_t)(gyre_bytes_held(tls->queued) - held);
  if (tls->replied_bytes > QUEUED_BYTES_LIMIT && (error == 0 || error == -EAGAIN)) {
    refuse(tls, "the peer asks for new keys and takes no answers");
    error = tls->error;
  }
  int sent = send_queued(tls);
  if (moved && error != -EAGAIN) tls->failure = error;
  if (moved) return (ssize_t)moved;
  if (error == -EAGAIN && transport->read.wants == GYRE_READABLE && sent < 0 && sent != -EAGAIN) return sent;
  return error;
}

static bool tls_pending(const struct gyre_transport *transport, bool whole) {
  const struct tls *tls = transport->state;
  if (tls->received || tls->failure) return true;
  return SSL_has_pending(tls->ssl) && (!tls->drained || !whole);
}

/* False after the peer's close_notify, so that the caller receives again and learns of it. */
static bool tls_emptied(const struct gyre_transport *transport) {
  const struct tls *tls = transport->state;
  return tls->emptied && !tls_pending(transport, false) && !(SSL_get_shutdown(tls->ssl) & SSL_RECEIVED_SHUTDOWN);
}

static size_t tls_held(const struct gyre_transport *transport) {
  return gyre_bytes_held(((const struct tls *)transport->state)->queued);
}

static int tls_flush(struct gyre_transport *transport) {
  int error = send_queued(transport->state);
  if (error == -EAGAIN) transport->write.wants = GYRE_WRITABLE;
  return error;
}

/* Begins a burst with a small record, because a large record may exceed the peer's first window and
 * cost a round trip. A burst ends after IDLE_NS without sending. */
static size_t record_bytes(struct tls *tls) {
  int64_t now_ns = gyre_timers_coarse_now();
  if (now_ns - tls->sent_ns > IDLE_NS) tls->burst_bytes = 0;
  tls->sent_ns = now_ns;
  return tls->burst_bytes < FIRST_RECORD_BYTES ? FIRST_RECORD_BYTES - tls->burst_bytes : RECORD_BYTES;
}

/* Encrypts a record. Returns the number of its plain bytes, or -errno. */
static ssize_t encrypt(struct tls *tls, const void *bytes, size_t length) {
  size_t count = 0;
  tls->writes = true;
  int result = SSL_write_ex(tls->ssl, bytes, length, &count); /* may receive a record's rest */
  tls->writes = false;
  if (result != 1) {
    int error = outcome(tls, result, &tls->transport->write);
    return error ? error : -EPIPE;
  }
  if (tls->burst_bytes < FIRST_RECORD_BYTES) tls->burst_bytes += (uint32_t)count;
  return (ssize_t)count;
}

/* Returns up to `length` bytes from `offset` on. Copies them to lent memory if they span pieces. */
static const char *gather(const struct iovec *pieces, int count, size_t offset, size_t *length) {
  while (count && offset >= pieces->iov_len) {
    offset -= pieces->iov_len;
    pieces++;
    count--;
  }
  if (!count) {
    *length = 0;
    return NULL;
  }
  const char *first = (const char *)pieces->iov_base + offset;
  if (pieces->iov_len - offset >= *length || count == 1) {
    if (pieces->iov_len - offset < *length) *length = pieces->iov_len - offset;
    return first;
  }
  char *bytes = gyre_lent_plain();
  size_t filled = 0;
  for (; bytes && count && filled < *length; pieces++, count--, offset = 0) {
    size_t part = pieces->iov_len - offset;
    if (part > *length - filled) part = *length - filled;
    if (part) memcpy(bytes + filled, (const char *)pieces->iov_base + offset, part);
    filled += part;
  }
  *length = filled;
  return bytes;
}

/* Sends until all bytes are sent or the socket is full. */
static ssize_t tls_sendv(struct gyre_transport *transport, const struct iovec *pieces, int count) {
  struct tls *tls = transport->state;
  size_t moved = 0;
  forget_errors();
  for (;;) {
    if (moved == 0 || gyre_bytes_held(tls->queued) >= QUEUED_BYTES_LIMIT) {
      int error = tls_flush(transport); /* encrypts nothing while earlier ciphertext is unsent */
      if (error < 0) return error == -EAGAIN && moved ? (ssize_t)moved : error;
    }
    size_t length = record_bytes(tls);
    const char *bytes = gather(pieces, count, moved, &length);
    if (length == 0) break;
    ssize_t taken = bytes ? encrypt(tls, bytes, length) : -ENOMEM;
    if (taken < 0) return moved ? (ssize_t)moved : taken;
    moved += (size_t)taken;
  }
  int error = tls_flush(transport);
  return error < 0 && error != -EAGAIN ? error : (ssize_t)moved;
}

static ssize_t tls_sendfile(struct gyre_transport *transport, int file, int64_t offset, size_t length) {
  struct tls *tls = transport->state;
  int error = tls_flush(transport);
  char *bytes = gyre_lent_plain();
  if (error < 0 || !bytes) return error < 0 ? error : -ENOMEM;
  size_t moved = 0;
  forget_errors();
  while (moved < length && gyre_bytes_held(tls->queued) < QUEUED_BYTES_LIMIT) {
    size_t most = record_bytes(tls);
    ssize_t count = pread(file, bytes, length - moved < most ? length - moved : most, (off_t)(offset + (int64_t)moved));
    if (count < 0) error = -errno;
    if (count <= 0) break;
    count = encrypt(tls, bytes, (size_t)count);
    if (count < 0) error = (int)count;
    if (count <= 0) break;
    moved += (size_t)count;
  }
  int sent = send_queued(tls);
  if (sent < 0 && sent != -EAGAIN) return sent;
  return moved ? (ssize_t)moved : error;
}

static int tls_end(struct gyre_transport *transport) {
  struct tls *tls = transport->state;
  forget_errors();
  if (!(SSL_get_shutdown(tls->ssl) & SSL_SENT_SHUTDOWN)) (void)SSL_shutdown(tls->ssl);
  forget_errors();
  return tls_flush(transport);
}

static void tls_release(struct gyre_transport *transport) {
  struct tls *tls = transport->state;
  if (!tls) return;
  /* Keeps the session valid: libssl drops it if close_notify was neither sent nor received. */
  if (!tls->reason) SSL_set_shutdown(tls->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
  SSL_free(tls->ssl);
  gyre_bytes_free(&tls->received);
  gyre_bytes_free(&tls->queued);
  gyre_tls_context_release(tls->context);
  free(tls);
}

const struct gyre_transport_operations gyre_transport_tls = {
    .handshake = tls_handshake,
    .receive = tls_receive,
    .sendv = tls_sendv,
    .sendfile = tls_sendfile,
    .flush = tls_flush,
    .end = tls_end,
    .held = tls_held,
    .pending = tls_pending,
    .emptied = tls_emptied,
    .release = tls_release,
};

/* --- a transport --- */

static bool is_address(const char *name) {
  unsigned char bytes[16];
  return inet_pton(AF_INET, name, bytes) == 1 || inet_pton(AF_INET6, name, bytes) == 1;
}

/* Never sends an IP address as a host name (RFC 6066, section 3). */
static bool expect_name(SSL *ssl, const char *name, bool verify) {
  if (is_address(name)) return !verify || X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;
  if (SSL_set_tlsext_host_name(ssl, name) != 1) return false;
  SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  return !verify || SSL_set1_host(ssl, name) == 1;
}

/* Strips a final dot, which certificates and SNI lack (RFC 6066, section 3). False: too long. */
static bool normalize(const char *name, char text[TLSEXT_MAXLEN_host_name + 1]) {
  size_t length = name ? strlen(name) : 0;
  if (length && name[length - 1] == '.') length--;
  if (length > TLSEXT_MAXLEN_host_name) return false;
  if (length) memcpy(text, name, length);
  text[length] = '\0';
  return true;
}

/* Takes over the transport's buffers: the input may be the beginning of the peer's handshake, and
 * queued bytes leave in plain text (STARTTLS, PROXY). */
static void take_over(struct tls *tls, struct gyre_transport *transport) {
  tls->transport = transport;
  tls->received = transport->input;
  tls->queued = transport->output;
  transport->input = transport->output = NULL;
  transport->sent_bytes += gyre_bytes_held(tls->queued);
  if (tls->received) look_at_first(tls, tls->received->bytes + tls->received->offset);
  transport->state = tls;
  transport->operations = &gyre_transport_tls;
  transport->handshaken = false;
  transport->read.wants = !tls->context->server || tls->queued ? GYRE_WRITABLE : GYRE_READABLE;
}

int gyre_tls_start(struct gyre_transport *transport, struct gyre_tls_context *context, const char *given,
                   const char *address) {
  char name[TLSEXT_MAXLEN_host_name + 1];
  bool verify = context->verify == GYRE_TLS_VERIFY_REQUIRED;
  if (!normalize(context->server ? NULL : given, name)) return -EINVAL;
  if (!context->server && verify && !context->any_name && !name[0]) return -EDESTADDRREQ;
  size_t server_length = name[0] ? strlen(name) + 1 + strlen(address) : 0;
  struct tls *tls = calloc(1, sizeof(*tls) + server_length + 1);
  BIO *bio = NULL;
  if (!tls) return -ENOMEM;
  if (name[0]) snprintf(tls->server, server_length + 1, "%s %s", name, address);
  forget_errors();
  if (!make_bio_method() || !(tls->ssl = SSL_new(context->ssl)) || !(bio = BIO_new(bio_method))) goto fail;
  BIO_set_data(bio, tls);
  BIO_set_init(bio, 1);
  SSL_set_bio(tls->ssl, bio, bio); /* the SSL owns the BIO from now on */
  if (name[0] && !expect_name(tls->ssl, name, verify && !context->any_name)) goto fail;
  SSL_set_msg_callback(tls->ssl, count_record);
  SSL_set_msg_callback_arg(tls->ssl, tls);
  if (context->server) {
    SSL_set_accept_state(tls->ssl);
  } else {
    SSL_set_connect_state(tls->ssl);
  }
  atomic_fetch_add(&context->references, 1);
  tls->context = context;
  if (name[0]) gyre_tls_session_offer(context, tls->ssl, tls->server);
  take_over(tls, transport);
  return 0;

fail:
  SSL_free(tls->ssl);
  free(tls);
  forget_errors();
  return -ENOMEM;
}

/* Called by libssl for each certificate, from the top of the chain down, and for each fault. */
static int judge_certificate(int good, X509_STORE_CTX *store) {
  SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
  struct tls *tls = BIO_get_data(SSL_get_rbio(ssl));
  int depth = X509_STORE_CTX_get_error_depth(store);
  if (tls->judged_depth != depth) {
    unsigned char *der = NULL;
    int length = i2d_X509(X509_STORE_CTX_get_current_cert(store), &der);
    tls->judged_depth = depth;
    tls->trusted = length > 0 && tls->judge(tls->judge_argument, der, length);
    OPENSSL_free(der);
  }
  X509_STORE_CTX_set_error(store, tls->trusted ? X509_V_OK : X509_V_ERR_CERT_REJECTED);
  return tls->trusted;
}

void gyre_tls_set_judge(struct gyre_transport *transport, bool required, gyre_tls_judge *judge, void *argument) {
  struct tls *tls = transport->state;
  tls->judge = judge;
  tls->judge_argument = argument;
  tls->judged_depth = -1;
  SSL_set_session(tls->ssl, NULL);
  SSL_set_options(tls->ssl, SSL_OP_NO_TICKET);
  SSL_set_verify(tls->ssl, SSL_VERIFY_PEER | (required ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0), judge_certificate);
}

bool gyre_tls_begun(const struct gyre_transport *transport) { return ((const struct tls *)transport->state)->begun; }

bool gyre_tls_leave(struct gyre_transport *transport) {
  struct tls *tls = transport->state;
  if (!tls->wordy || !tls->context->server) return false;
  tls_release(transport);
  gyre_transport_init(transport, transport->fd, &gyre_transport_plain);
  return true;
}

const char *gyre_tls_error(const struct gyre_transport *transport, const char **failed) {
  const struct tls *tls = transport->state;
  *failed = tls->failed;
  return tls->reason;
}

SSL *gyre_tls_ssl(const struct gyre_transport *transport) { return ((struct tls *)transport->state)->ssl; }

bool gyre_tls_agreed(const struct gyre_transport *transport, const char *protocol) {
  const unsigned char *agreed = NULL;
  unsigned length = 0;
  SSL_get0_alpn_selected(gyre_tls_ssl(transport), &agreed, &length);
  return length == strlen(protocol) && memcmp(agreed, protocol, length) == 0;
}

bool gyre_tls_resumed(const struct gyre_transport *transport) { return SSL_session_reused(gyre_tls_ssl(transport)); }
