/* Keys of session tickets (tls_tickets.h).
 *
 *   state[n] ──"next"──► state[n+1] ──"next"──► state[n+2]      HMAC-SHA256
 *      │                    │                      │
 *      ▼                    ▼                      ▼
 *    key n                key n+1               key n+2         n+2: the present interval
 *
 * Only state[n] is kept. After each interval the next state overwrites it. */
#include "net/tls_tickets.h"

#ifdef GYRE_HAVE_LIBSSL
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#define KEYS 3 /* the present key, and older keys that only decrypt */
#define STATE_BYTES 32
#define NAME_BYTES 16
#define KEY_BYTES 32
/* Maximum intervals to step through. After a longer jump of the clock, one step is enough. */
#define STEPS_LIMIT 10000
#define NUMBER_LIMIT (INT64_C(1) << 48) /* an interval's maximum number; more: a damaged file */

struct key {
  unsigned char name[NAME_BYTES];
  unsigned char secret[2 * KEY_BYTES]; /* for the cipher and the MAC */
};

struct gyre_tls_tickets {
  atomic_int references;
  pthread_mutex_t lock;
  int64_t interval_s;
  int64_t oldest; /* number of the interval of keys[0] and `state` */
  unsigned char state[STATE_BYTES];
  struct key keys[KEYS];
};

static bool derive(const unsigned char *state, const char *purpose, const EVP_MD *digest, unsigned char *bytes) {
  return HMAC(digest, state, STATE_BYTES, (const unsigned char *)purpose, strlen(purpose), bytes, NULL) != NULL;
}

static bool step(unsigned char *state) {
  unsigned char next[EVP_MAX_MD_SIZE];
  bool good = derive(state, "next", EVP_sha256(), next);
  if (good) memcpy(state, next, STATE_BYTES);
  OPENSSL_cleanse(next, sizeof(next));
  return good;
}

static bool make_key(struct key *key, const unsigned char *state) {
  unsigned char name[EVP_MAX_MD_SIZE];
  if (!derive(state, "name", EVP_sha256(), name) || !derive(state, "key", EVP_sha512(), key->secret)) return false;
  memcpy(key->name, name, NAME_BYTES);
  return true;
}

static bool make_keys(struct gyre_tls_tickets *tickets) {
  unsigned char state[STATE_BYTES];
  memcpy(state, tickets->state, STATE_BYTES);
  bool good = true;
  for (int i = 0; i < KEYS && good; i++) good = make_key(&tickets->keys[i], state) && step(state);
  OPENSSL_cleanse(state, sizeof(state));
  return good;
}

static int64_t oldest_now(const struct gyre_tls_tickets *tickets) {
  return (int64_t)time(NULL) / tickets->interval_s - (KEYS - 1);
}

/* Steps to the present interval, unless the clock went back. False if a key cannot be computed. */
static bool follow_time(struct gyre_tls_tickets *tickets) {
  int64_t now = oldest_now(tickets);
  if (tickets->oldest >= now) return true;
  if (now - tickets->oldest > STEPS_LIMIT) tickets->oldest = now - 1;
  for (; tickets->oldest < now; tickets->oldest++) {
    if (!step(tickets->state)) return false;
  }
  return make_keys(tickets);
}

static struct gyre_tls_tickets *make(int64_t interval_s) {
  struct gyre_tls_tickets *tickets = calloc(1, sizeof(*tickets));
  if (!tickets) return NULL;
  atomic_init(&tickets->references, 1);
  pthread_mutex_init(&tickets->lock, NULL);
  tickets->interval_s = interval_s;
  return tickets;
}

struct gyre_tls_tickets *gyre_tls_tickets_new(int64_t interval_s) {
  struct gyre_tls_tickets *tickets = make(interval_s);
  if (!tickets) return NULL;
  tickets->oldest = oldest_now(tickets);
  if (RAND_priv_bytes(tickets->state, STATE_BYTES) == 1 && make_keys(tickets)) return tickets;
  gyre_tls_tickets_release(tickets);
  return NULL;
}

struct gyre_tls_tickets *gyre_tls_tickets_load(const unsigned char bytes[GYRE_TLS_TICKETS_BYTES]) {
  int64_t numbers[2];
  memcpy(numbers, bytes, sizeof(numbers));
  struct gyre_tls_tickets *tickets = numbers[0] > 0 ? make(numbers[0]) : NULL;
  if (!tickets) return NULL;
  tickets->oldest = numbers[1];
  memcpy(tickets->state, bytes + sizeof(numbers), STATE_BYTES);
  bool possible = tickets->oldest > -NUMBER_LIMIT && tickets->oldest < NUMBER_LIMIT;
  if (possible && make_keys(tickets)) return tickets;
  gyre_tls_tickets_release(tickets);
  return NULL;
}

void gyre_tls_tickets_save(struct gyre_tls_tickets *tickets, unsigned char bytes[GYRE_TLS_TICKETS_BYTES]) {
  pthread_mutex_lock(&tickets->lock);
  (void)follow_time(tickets);
  int64_t numbers[] = {tickets->interval_s, tickets->oldest};
  memcpy(bytes, numbers, sizeof(numbers));
  memcpy(bytes + sizeof(numbers), tickets->state, STATE_BYTES);
  pthread_mutex_unlock(&tickets->lock);
}

struct gyre_tls_tickets *gyre_tls_tickets_retain(struct gyre_tls_tickets *tickets) {
  atomic_fetch_add(&tickets->references, 1);
  return tickets;
}

void gyre_tls_tickets_release(struct gyre_tls_tickets *tickets) {
  if (!tickets || atomic_fetch_sub(&tickets->references, 1) > 1) return;
  pthread_mutex_destroy(&tickets->lock);
  OPENSSL_cleanse(tickets, sizeof(*tickets));
  free(tickets);
}

/* Copies the key with this name (NULL: the present key) to *found. Returns its index, or -1. */
static int find(struct gyre_tls_tickets *tickets, const unsigned char *name, struct key *found) {
  int place = KEYS - 1;
  pthread_mutex_lock(&tickets->lock);
  if (!follow_time(tickets)) {
    place = -1;
  } else if (name) {
    while (place >= 0 && memcmp(tickets->keys[place].name, name, NAME_BYTES)) place--;
  }
  if (place >= 0) *found = tickets->keys[place];
  pthread_mutex_unlock(&tickets->lock);
  return place;
}

static bool prepare(struct key *key, unsigned char *vector, EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac, int encrypting) {
  char digest[] = "SHA256";
  OSSL_PARAM parameters[] = {OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, key->secret + KEY_BYTES, KEY_BYTES),
                             OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
                             OSSL_PARAM_construct_end()};
  return EVP_CipherInit_ex(cipher, EVP_aes_256_cbc(), NULL, key->secret, vector, encrypting) == 1 &&
         EVP_MAC_CTX_set_params(mac, parameters) == 1;
}

int gyre_tls_tickets_choose(struct gyre_tls_tickets *tickets, unsigned char name[16], unsigned char *vector,
                            EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac, int encrypting) {
  struct key key;
  int place = find(tickets, encrypting ? NULL : name, &key);
  if (place < 0) return encrypting ? -1 : 0; /* 0: a full handshake */
  int result = place == KEYS - 1 ? 1 : 2;
  if (encrypting) {
    memcpy(name, key.name, NAME_BYTES);
    if (RAND_bytes(vector, EVP_CIPHER_get_iv_length(EVP_aes_256_cbc())) != 1) result = -1;
  }
  if (result > 0 && !prepare(&key, vector, cipher, mac, encrypting)) result = -1;
  OPENSSL_cleanse(&key, sizeof(key));
  return result;
}

#endif
