/* Compresses and decompresses messages (deflate.h). Without zlib, WebSockets do not compress. */
#include "websocket/deflate.h"

#ifdef GYRE_HAVE_ZLIB
#include <pthread.h>
#include <zlib.h>

#define LEVEL 1 /* level 6 takes two to four times as long and saves a tenth */

static const uint8_t tail[] = {0, 0, 0xff, 0xff}; /* a message's unsent end (section 7.2.1) */

static void end_stream(struct z_stream_s **stream, int (*end)(struct z_stream_s *)) {
  if (!*stream) return;
  end(*stream);
  free(*stream);
  *stream = NULL;
}

void gyre_websocket_deflate_forget(struct gyre_websocket_compression *compression) {
  end_stream(&compression->deflater, deflateEnd);
}

void gyre_websocket_deflate_free(struct gyre_websocket_compression *compression) {
  gyre_websocket_deflate_forget(compression);
  end_stream(&compression->inflater, inflateEnd);
}

static pthread_key_t lent_key;
static pthread_once_t lent_once = PTHREAD_ONCE_INIT;

static void free_lent(void *lent) {
  gyre_websocket_deflate_free(lent);
  free(lent);
}

static void make_lent_key(void) { pthread_key_create(&lent_key, free_lent); }

/* Returns the thread's deflater and inflater; NULL if memory runs out. */
static struct gyre_websocket_compression *lent(void) {
  pthread_once(&lent_once, make_lent_key);
  struct gyre_websocket_compression *lent = pthread_getspecific(lent_key);
  if (lent) return lent;
  lent = calloc(1, sizeof(*lent));
  if (!lent || pthread_setspecific(lent_key, lent) == 0) return lent;
  free(lent);
  return NULL;
}

/* Returns the socket's deflater if it keeps a context, else the thread's; NULL if memory
 * runs out. A deflater takes 268 KB for 15 window bits, 38 KB for 12. */
static z_stream *deflater_of(struct gyre_websocket_compression *compression) {
  struct gyre_websocket_compression *owner = compression->sent_keeps ? compression : lent();
  if (!owner) return NULL;
  if (owner->sent_bits != compression->sent_bits) gyre_websocket_deflate_forget(owner);
  owner->sent_bits = compression->sent_bits;
  if (owner->deflater && owner != compression) deflateReset(owner->deflater);
  if (owner->deflater || !(owner->deflater = calloc(1, sizeof(z_stream)))) return owner->deflater;
  if (deflateInit2(owner->deflater, LEVEL, Z_DEFLATED, -owner->sent_bits, owner->sent_bits - 7, Z_DEFAULT_STRATEGY))
    gyre_websocket_deflate_forget(owner);
  return owner->deflater;
}

/* The thread's inflater has the largest window, which fits every sender. */
static z_stream *inflater_of(struct gyre_websocket_compression *compression) {
  struct gyre_websocket_compression *owner = compression->received_keeps ? compression : lent();
  if (!owner) return NULL;
  if (owner->inflater && owner != compression) inflateReset(owner->inflater);
  if (owner->inflater || !(owner->inflater = calloc(1, sizeof(z_stream)))) return owner->inflater;
  if (inflateInit2(owner->inflater, owner == compression ? -compression->received_bits : -MAX_WBITS) != Z_OK)
    end_stream(&owner->inflater, inflateEnd);
  return owner->inflater;
}

size_t gyre_websocket_deflate(struct gyre_websocket_compression *compression, const char *bytes, size_t length,
                              char *compressed) {
  z_stream *stream = deflater_of(compression);
  if (!stream) return 0;
  stream->next_in = (Bytef *)bytes;
  stream->avail_in = (uInt)length;
  stream->next_out = (Bytef *)compressed;
  stream->avail_out = (uInt)length;
  if (deflate(stream, Z_SYNC_FLUSH) == Z_OK && stream->avail_out > 0) return length - stream->avail_out - sizeof(tail);
  gyre_websocket_deflate_forget(compression);
  return 0;
}

bool gyre_websocket_inflate_begin(struct gyre_websocket_inflation *inflation,
                                  struct gyre_websocket_compression *compression, const char *bytes, uint32_t length) {
  inflation->stream = inflater_of(compression);
  if (!inflation->stream) return false;
  inflation->stream->next_in = (Bytef *)bytes;
  inflation->stream->avail_in = length;
  return true;
}

/* Inflates until the room is full or the message ends. In a message, a sender may end a stream and
 * begin another with the same context (section 7.2.3.4). */
static int fill(struct gyre_websocket_inflation *inflation) {
  z_stream *stream = inflation->stream;
  for (;;) {
    int error = inflate(stream, Z_SYNC_FLUSH);
    if (error != Z_BUF_ERROR) inflation->ends = error == Z_STREAM_END || stream->data_type & 128;
    if (error == Z_STREAM_END) error = inflateResetKeep(stream);
    if (error != Z_OK && error != Z_BUF_ERROR) return error;
    if (stream->avail_out == 0) return Z_OK;
    if (stream->avail_in > 0) continue;
    if (inflation->tail) return Z_OK;
    inflation->tail = true;
    stream->next_in = (Bytef *)tail;
    stream->avail_in = sizeof(tail);
  }
}

int gyre_websocket_inflate(struct gyre_websocket_inflation *inflation, char *bytes, uint32_t room) {
  inflation->stream->next_out = (Bytef *)bytes;
  inflation->stream->avail_out = room;
  int error = fill(inflation);
  uint32_t size = room - inflation->stream->avail_out;
  if (error) return error == Z_MEM_ERROR ? -GYRE_WEBSOCKET_SERVER_ERROR : -GYRE_WEBSOCKET_NO_TEXT;
  if (size > inflation->left) return -GYRE_WEBSOCKET_TOO_BIG;
  inflation->left -= size;
  bool valid = !inflation->text || gyre_utf8_check(&inflation->utf8, (const uint8_t *)bytes, size);
  if (size == 0) valid = gyre_utf8_is_whole(&inflation->utf8) && inflation->ends;
  return valid ? (int)size : -GYRE_WEBSOCKET_NO_TEXT;
}

#else
#define COMPRESSION struct gyre_websocket_compression *c
size_t gyre_websocket_deflate(COMPRESSION, const char *bytes, size_t length, char *compressed) { return 0; }
bool gyre_websocket_inflate_begin(struct gyre_websocket_inflation *i, COMPRESSION, const char *bytes, uint32_t length) {
  return false;
}
int gyre_websocket_inflate(struct gyre_websocket_inflation *i, char *bytes, uint32_t room) { return 0; }
void gyre_websocket_deflate_forget(COMPRESSION) {}
void gyre_websocket_deflate_free(COMPRESSION) {}
#endif
