/* Parses the PROXY header (proxy_protocol.h). */
#include "net/proxy_protocol.h"

#include <arpa/inet.h>
#include <sys/socket.h>

static const uint8_t signature[12] = {'\r', '\n', '\r', '\n', 0, '\r', '\n', 'Q', 'U', 'I', 'T', '\n'};
static const char prefix[] = "PROXY ";

#define FIXED_BYTES 16

static int parse_v2(const uint8_t *bytes, size_t length, struct gyre_proxy_source *source) {
  if (length < FIXED_BYTES) return 0;
  unsigned version = bytes[12] >> 4, command = bytes[12] & 15, family = bytes[13];
  size_t rest = (size_t)bytes[14] << 8 | bytes[15];
  if (version != 2 || command > 1 || FIXED_BYTES + rest > GYRE_PROXY_BYTES) return GYRE_PROXY_WRONG;
  size_t needed = 0;
  if (command == 1) {
    switch (family) {
    case 0x00: break; /* the proxy does not know the address */
    case 0x11: needed = 12; break;
    case 0x21: needed = 36; break;
    case 0x31: needed = 216; break; /* Unix sockets have no client address */
    default: return GYRE_PROXY_WRONG;
    }
  }
  if (rest < needed) return GYRE_PROXY_WRONG;
  if (length < FIXED_BYTES + rest) return 0;
  if (needed == 12 || needed == 36) {
    source->family = needed == 12 ? AF_INET : AF_INET6;
    memcpy(source->address, bytes + FIXED_BYTES, needed == 12 ? 4 : 16);
  }
  return (int)(FIXED_BYTES + rest);
}

/* Takes a word that ends at a space or, if `last`, at the line's end. */
static bool take_word(const uint8_t **at, const uint8_t *end, bool last, char *word, size_t room) {
  size_t length = 0;
  while (*at + length < end && (*at)[length] != ' ') length++;
  const uint8_t *stop = *at + length;
  if (length == 0 || length >= room || (stop == end) != last) return false;
  memcpy(word, *at, length);
  word[length] = 0;
  *at = last ? stop : stop + 1;
  return memchr(word, 0, length) == NULL;
}

static bool valid_port(const char *word) {
  unsigned port = 0;
  if (word[0] == '0' && word[1]) return false;
  for (; *word; word++) {
    if (*word < '0' || *word > '9') return false;
    port = port * 10 + (unsigned)(*word - '0');
  }
  return port <= 65535;
}

static int parse_line(const uint8_t *bytes, const uint8_t *end, struct gyre_proxy_source *source) {
  const uint8_t *at = bytes + sizeof(prefix) - 1;
  const int length = (int)(end - bytes) + 2;
  /* Ignores the rest after UNKNOWN. */
  if (end - at >= 7 && memcmp(at, "UNKNOWN", 7) == 0 && (end - at == 7 || at[7] == ' ')) return length;
  char protocol[5], words[2][INET6_ADDRSTRLEN], ports[2][6];
  uint8_t addresses[2][16] = {{0}};
  if (!take_word(&at, end, false, protocol, sizeof(protocol))) return GYRE_PROXY_WRONG;
  int family = strcmp(protocol, "TCP4") == 0 ? AF_INET : strcmp(protocol, "TCP6") == 0 ? AF_INET6 : 0;
  if (!family) return GYRE_PROXY_WRONG;
  for (int i = 0; i < 2; i++) {
    if (!take_word(&at, end, false, words[i], sizeof(words[i])) || inet_pton(family, words[i], addresses[i]) != 1)
      return GYRE_PROXY_WRONG;
  }
  for (int i = 0; i < 2; i++) {
    if (!take_word(&at, end, i == 1, ports[i], sizeof(ports[i])) || !valid_port(ports[i])) return GYRE_PROXY_WRONG;
  }
  source->family = (uint8_t)family;
  memcpy(source->address, addresses[0], sizeof(addresses[0]));
  return length;
}

/* Searches for the line feed only within the longest allowed line (CVE-2026-47736). */
static int parse_v1(const uint8_t *bytes, size_t length, struct gyre_proxy_source *source) {
  size_t most = length < GYRE_PROXY_V1_BYTES ? length : GYRE_PROXY_V1_BYTES;
  const uint8_t *feed = memchr(bytes, '\n', most);
  if (!feed) return length < GYRE_PROXY_V1_BYTES ? 0 : GYRE_PROXY_WRONG;
  if (feed[-1] != '\r') return GYRE_PROXY_WRONG; /* in bounds: the prefix precedes the feed */
  return parse_line(bytes, feed - 1, source);
}

static bool begins(const uint8_t *bytes, size_t length, const void *with, size_t size) {
  return memcmp(bytes, with, length < size ? length : size) == 0;
}

int gyre_proxy_parse(const uint8_t *bytes, size_t length, unsigned versions, struct gyre_proxy_source *source) {
  memset(source, 0, sizeof(*source));
  if (length == 0) return 0;
  if ((versions & GYRE_PROXY_V2) && begins(bytes, length, signature, sizeof(signature)))
    return parse_v2(bytes, length, source);
  if (!(versions & GYRE_PROXY_V1) || !begins(bytes, length, prefix, sizeof(prefix) - 1)) return GYRE_PROXY_WRONG;
  return length < sizeof(prefix) - 1 ? 0 : parse_v1(bytes, length, source);
}

bool gyre_proxy_in_range(const struct gyre_proxy_range *range, uint8_t family, const uint8_t *address) {
  if (family != range->family) return false;
  unsigned whole = range->bits / 8, rest = range->bits % 8;
  if (memcmp(address, range->address, whole)) return false;
  return rest == 0 || (address[whole] ^ range->address[whole]) >> (8 - rest) == 0;
}
