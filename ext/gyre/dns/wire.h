/* DNS messages as bytes (RFC 1035, 6891): reads header, question, records and OPT in place; writes
 * compressed messages into the caller's memory. No socket, clock, ruby.h or allocation. */
#pragma once

#include "feature.h"

#define GYRE_DNS_NAME_BYTES 255  /* on the wire, uncompressed */
#define GYRE_DNS_TEXT_BYTES 1024 /* a name in a zone file's form */
#define GYRE_DNS_MESSAGE_BYTES 65535
#define GYRE_DNS_HEADER_BYTES 12

enum gyre_dns_flag {
  GYRE_DNS_QR = 0x8000,
  GYRE_DNS_OPCODE = 0x7800,
  GYRE_DNS_AA = 0x0400,
  GYRE_DNS_TC = 0x0200,
  GYRE_DNS_RD = 0x0100,
  GYRE_DNS_RA = 0x0080,
  GYRE_DNS_AD = 0x0020,
  GYRE_DNS_CD = 0x0010,
  GYRE_DNS_RCODE = 0x000f,
};

enum gyre_dns_type {
  GYRE_DNS_A = 1,
  GYRE_DNS_NS = 2,
  GYRE_DNS_CNAME = 5,
  GYRE_DNS_SOA = 6,
  GYRE_DNS_PTR = 12,
  GYRE_DNS_MX = 15,
  GYRE_DNS_AAAA = 28,
  GYRE_DNS_SRV = 33,
  GYRE_DNS_OPT = 41,
  GYRE_DNS_DS = 43,
  GYRE_DNS_RRSIG = 46,
  GYRE_DNS_NSEC = 47,
  GYRE_DNS_ANY = 255,
};

enum { GYRE_DNS_IN = 1, GYRE_DNS_CLASS_ANY = 255 };

/* --- names, uncompressed as on the wire: labels with their lengths, then a zero --- */

/* Reads the name at `*at` and moves `*at` past it. Compression pointers must lead further back.
 * Returns the name's length; 0: invalid. */
size_t gyre_dns_name_read(const uint8_t *message, size_t length, size_t *at, uint8_t name[GYRE_DNS_NAME_BYTES]);
/* Parses a name in a zone file's form. A final dot is optional. Returns the length; 0: invalid. */
size_t gyre_dns_name_parse(const char *text, size_t length, uint8_t name[GYRE_DNS_NAME_BYTES]);
/* Writes a name in a zone file's form, without a final dot (".": the root). Returns its length. */
size_t gyre_dns_name_text(const uint8_t *name, char text[GYRE_DNS_TEXT_BYTES]);
/* Ignores case (RFC 4343). */
bool gyre_dns_name_equal(const uint8_t *one, const uint8_t *other);
size_t gyre_dns_name_length(const uint8_t *name);

static inline uint8_t gyre_dns_lower(uint8_t byte) {
  return byte >= 'A' && byte <= 'Z' ? (uint8_t)(byte | 0x20) : byte;
}

struct gyre_dns_edns {
  bool present;
  uint8_t rcode, version; /* `rcode`: the upper bits of the extended rcode */
  uint16_t udp_bytes, flags;
  const uint8_t *options;
  size_t options_length;
};

#define GYRE_DNS_DO 0x8000 /* EDNS flag */

struct gyre_dns_record {
  uint16_t type, class;
  uint32_t ttl;
  size_t name_length;
  uint8_t name[GYRE_DNS_NAME_BYTES];
  size_t data_at, data_length; /* the data's place in the message; names there may be compressed */
};

struct gyre_dns_query {
  uint16_t id, flags, counts[4];   /* numbers of questions, answers, authority and additional records */
  struct gyre_dns_record question; /* the first question; name_length 0: there is none */
  size_t records_at, opt_at, end;  /* places of the first record, of OPT, and behind the last */
  struct gyre_dns_edns edns;
};

enum gyre_dns_verdict {
  GYRE_DNS_WELL_FORMED,
  GYRE_DNS_NO_HEADER, /* too short to be answered */
  GYRE_DNS_MALFORMED, /* id and flags are set, and the question if it could be read */
};

/* Reads a message. The query's options then point into `bytes`. A response may have bytes behind
 * its end, which some servers send. */
enum gyre_dns_verdict gyre_dns_query_read(struct gyre_dns_query *query, const uint8_t *bytes, size_t length);

/* Returns how many seconds a cache may keep the response: the least TTL of its answers, or for an
 * absence that of the SOA record, too (RFC 2308, section 5). -1: it may not. */
int64_t gyre_dns_lifetime(const uint8_t *bytes, size_t length, bool *negative);
/* Takes the seconds from all TTLs of a well-formed message. */
void gyre_dns_age(uint8_t *bytes, size_t length, uint32_t age_s);

/* Returns an EDNS option's bytes, or NULL. */
const uint8_t *gyre_dns_option(const struct gyre_dns_edns *edns, uint16_t code, size_t *length);

/* Reads name, type and class. */
bool gyre_dns_question_read(const uint8_t *message, size_t length, size_t *at, struct gyre_dns_record *question);
bool gyre_dns_record_read(const uint8_t *message, size_t length, size_t *at, struct gyre_dns_record *record);

#define GYRE_DNS_EXPANDED_BYTES (2 * GYRE_DNS_NAME_BYTES) /* maximum bytes that expanding adds */

/* Copies the record's data to `to`. Expands compressed names. `to` has room for `data_length` +
 * GYRE_DNS_EXPANDED_BYTES. Returns the length; -1: the data does not have the type's form. */
ssize_t gyre_dns_data_expand(const uint8_t *message, const struct gyre_dns_record *record, uint8_t *to);
/* True if the data has the type's form and no compressed names. */
bool gyre_dns_data_valid(uint16_t type, uint16_t class, const uint8_t *data, size_t length);

#define GYRE_DNS_SUFFIXES 128 /* maximum places of names to which later names may point */

struct gyre_dns_writer {
  uint8_t *bytes;
  size_t length, room;
  unsigned suffixes;
  uint16_t suffix[GYRE_DNS_SUFFIXES];
};

/* Leaves room for the header. `room`: the message's maximum, at least GYRE_DNS_HEADER_BYTES. */
void gyre_dns_writer_init(struct gyre_dns_writer *writer, uint8_t *bytes, size_t room);
void gyre_dns_put_header(struct gyre_dns_writer *writer, uint16_t id, uint16_t flags, const uint16_t counts[4]);
/* Return false and write nothing if the part does not fit. */
bool gyre_dns_put_question(struct gyre_dns_writer *writer, const uint8_t *name, uint16_t type, uint16_t class);
bool gyre_dns_put_record(struct gyre_dns_writer *writer, const uint8_t *name, uint16_t type, uint16_t class,
                         uint32_t ttl, const uint8_t *data, size_t length);
bool gyre_dns_put_opt(struct gyre_dns_writer *writer, const struct gyre_dns_edns *edns);

static inline uint16_t gyre_dns_16(const uint8_t *bytes) { return (uint16_t)(bytes[0] << 8 | bytes[1]); }
static inline uint32_t gyre_dns_32(const uint8_t *bytes) {
  return (uint32_t)gyre_dns_16(bytes) << 16 | gyre_dns_16(bytes + 2);
}
/* A TTL with the top bit set means zero (RFC 2181, section 8). */
static inline uint32_t gyre_dns_ttl(uint32_t ttl) { return ttl > INT32_MAX ? 0 : ttl; }
static inline void gyre_dns_put_16(uint8_t *to, uint16_t number) {
  to[0] = (uint8_t)(number >> 8);
  to[1] = (uint8_t)number;
}
static inline void gyre_dns_put_32(uint8_t *to, uint32_t number) {
  gyre_dns_put_16(to, (uint16_t)(number >> 16));
  gyre_dns_put_16(to + 2, (uint16_t)number);
}
