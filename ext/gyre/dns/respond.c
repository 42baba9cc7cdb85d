/* Responses without Ruby (respond.h). */
#include "dns/respond.h"

#include <netinet/in.h>

enum { NOERROR, FORMERR, SERVFAIL, NXDOMAIN, NOTIMP, REFUSED, BADVERS = 16 };
enum { TKEY = 249, TSIG = 250, IXFR = 251, AXFR = 252 };

/* Returns the number of address bytes: 4 for IPv4, even if mapped into IPv6. */
static size_t address_bytes(const struct sockaddr *from, uint8_t bytes[16]) {
  if (from->sa_family == AF_INET) {
    memcpy(bytes, &((const struct sockaddr_in *)from)->sin_addr, 4);
    return 4;
  }
  if (from->sa_family != AF_INET6) return 0;
  const struct in6_addr *address = &((const struct sockaddr_in6 *)from)->sin6_addr;
  bool mapped = IN6_IS_ADDR_V4MAPPED(address);
  memcpy(bytes, address->s6_addr + (mapped ? 12 : 0), mapped ? 4 : 16);
  return mapped ? 4 : 16;
}

/* Writes 24 bytes: the client cookie, and the server cookie made at `time_s`. */
static void make_cookie(const struct gyre_dns_responder *responder, const struct sockaddr *from, const uint8_t *client,
                        uint32_t time_s, uint8_t cookie[GYRE_DNS_COOKIE_BYTES]) {
  uint8_t input[32];
  memcpy(input, client, 8);
  memcpy(input + 8, "\1\0\0\0", 4);
  gyre_dns_put_32(input + 12, time_s);
  uint64_t hash = responder->hash(input, 16 + address_bytes(from, input + 16));
  memcpy(cookie, input, 16);
  for (int i = 0; i < 8; i++) cookie[16 + i] = (uint8_t)(hash >> (8 * i));
}

enum cookie { NO_COOKIE, BAD_COOKIE, NEW_COOKIE, GOOD_COOKIE };

/* Checks the request's cookie (valid for an hour), and writes the response's cookie. */
static enum cookie check_cookie(const struct gyre_dns_responder *responder, const struct gyre_dns_request *request,
                                const struct gyre_dns_query *query, struct gyre_dns_manner *manner) {
  size_t length = 0;
  const uint8_t *given = gyre_dns_option(&query->edns, GYRE_DNS_COOKIE, &length);
  uint8_t expected[GYRE_DNS_COOKIE_BYTES];
  if (!given) return NO_COOKIE;
  if (length != 8 && (length < 16 || length > 40)) return BAD_COOKIE;
  gyre_dns_put_16(manner->cookie, GYRE_DNS_COOKIE);
  gyre_dns_put_16(manner->cookie + 2, GYRE_DNS_COOKIE_BYTES);
  make_cookie(responder, request->from, given, request->now_s, manner->cookie + 4);
  manner->edns.options = manner->cookie;
  manner->edns.options_length = sizeof(manner->cookie);
  if (length != GYRE_DNS_COOKIE_BYTES) return NEW_COOKIE;
  uint32_t made_s = gyre_dns_32(given + 12);
  int32_t age_s = (int32_t)(request->now_s - made_s);
  make_cookie(responder, request->from, given, made_s, expected);
  uint8_t different = 0;
  for (int i = 0; i < GYRE_DNS_COOKIE_BYTES; i++) different |= expected[i] ^ given[i];
  return !different && age_s > -300 && age_s < 3600 ? GOOD_COOKIE : NEW_COOKIE;
}

enum limit { PASSES, TRUNCATES, DROPS };

/* Counts a response to the client's network (/24 or /56) in this second. Beyond the limit,
 * drops every other response and truncates the rest, which leads honest clients to TCP. */
static enum limit count_response(struct gyre_dns_responder *responder, const struct gyre_dns_request *request) {
  uint8_t address[16] = {0};
  size_t length = address_bytes(request->from, address);
  if (length == 4) address[3] = 0;
  uint64_t network = responder->hash(address, 7);
  struct gyre_dns_bucket *bucket = &responder->buckets[network % GYRE_DNS_NETWORKS];
  if (bucket->network != network || bucket->second != request->now_s)
    *bucket = (struct gyre_dns_bucket){.network = network, .second = request->now_s};
  if (bucket->sent++ < responder->rate_limit) return PASSES;
  responder->counts.limited++;
  return bucket->sent % 2 ? TRUNCATES : DROPS;
}

struct making {
  struct gyre_dns_responder *responder;
  const struct gyre_dns_query *query;
  struct gyre_dns_manner *manner;
  struct gyre_dns_writer writer;
  size_t behind_question;
  uint16_t counts[4];
};

static void begin(struct making *making, uint8_t *to) {
  const struct gyre_dns_query *query = making->query;
  size_t opt = making->manner->edns.present ? 11 + making->manner->edns.options_length : 0;
  gyre_dns_writer_init(&making->writer, to, making->manner->limit - opt);
  memset(making->counts, 0, sizeof(making->counts));
  if (query->question.name_length &&
      gyre_dns_put_question(&making->writer, query->question.name, query->question.type, query->question.class))
    making->counts[0] = 1;
  making->behind_question = making->writer.length;
}

static size_t finish(struct making *making, uint16_t flags, unsigned rcode) {
  if (flags & GYRE_DNS_TC) {
    making->writer.length = making->behind_question;
    making->counts[1] = making->counts[2] = making->counts[3] = 0;
    making->responder->counts.truncated++;
  }
  making->writer.room = making->manner->limit;
  making->manner->edns.rcode = (uint8_t)(rcode >> 4);
  if (making->manner->edns.present && gyre_dns_put_opt(&making->writer, &making->manner->edns)) making->counts[3]++;
  flags |= GYRE_DNS_QR | making->manner->flags |
           (making->query->flags & (GYRE_DNS_OPCODE | GYRE_DNS_RD | GYRE_DNS_CD)) | (rcode & 15);
  gyre_dns_put_header(&making->writer, making->query->id, flags, making->counts);
  return making->writer.length;
}

/* Returns the place of the zone with this lower-case origin, or a free place. */
static const struct gyre_dns_zone **place_of(const struct gyre_dns_responder *responder, const uint8_t *origin) {
  size_t mask = responder->zone_places - 1, place = gyre_dns_name_hash(origin) & mask;
  while (responder->zones[place] && !gyre_dns_name_equal(gyre_dns_zone_origin(responder->zones[place]), origin))
    place = (place + 1) & mask;
  return &responder->zones[place];
}

void gyre_dns_responder_add(struct gyre_dns_responder *responder, const struct gyre_dns_zone *zone) {
  const struct gyre_dns_zone **place = place_of(responder, gyre_dns_zone_origin(zone));
  unsigned labels = gyre_dns_label_count(gyre_dns_zone_origin(zone));
  if (*place) return;
  *place = zone;
  responder->zone_count++;
  if (labels > responder->zone_labels) responder->zone_labels = labels;
}

/* Finds the zone that is closest to the name; `above`: not the zone of this name itself. */
static const struct gyre_dns_zone *zone_of(const struct gyre_dns_responder *responder, const uint8_t *name,
                                           bool above) {
  uint8_t lower[GYRE_DNS_NAME_BYTES];
  size_t length = gyre_dns_name_length(name);
  if (!responder->zone_count) return NULL;
  for (size_t i = 0; i < length; i++) lower[i] = gyre_dns_lower(name[i]);
  const uint8_t *origin = lower;
  for (unsigned labels = gyre_dns_label_count(lower);; labels--, origin += *origin + 1) {
    if (labels <= responder->zone_labels && !(above && origin == lower)) {
      const struct gyre_dns_zone *zone = *place_of(responder, origin);
      if (zone) return zone;
    }
    if (labels == 0) return NULL;
  }
}

static bool has_recursion(const struct gyre_dns_responder *responder, const struct sockaddr *from) {
  uint8_t address[16];
  size_t length = address_bytes(from, address);
  for (size_t i = 0; i < responder->network_count; i++) {
    const uint8_t *network = responder->networks + i * GYRE_DNS_NETWORK_BYTES;
    size_t whole = network[1] / 8u, rest = network[1] % 8u;
    if (network[0] == length && memcmp(network + 2, address, whole) == 0 &&
        (rest == 0 || (network[2 + whole] ^ address[whole]) >> (8 - rest) == 0))
      return true;
  }
  return false;
}

/* Writes the zone's records, and those of other zones to which a CNAME leads. */
static size_t from_zone(struct making *making, const struct gyre_dns_zone *zone) {
  const struct gyre_dns_query *query = making->query;
  struct gyre_dns_lookup lookup = {
      .writer = &making->writer, .type = query->question.type, .dnssec = making->manner->edns.flags & GYRE_DNS_DO};
  memcpy(lookup.name, query->question.name, query->question.name_length);
  bool authoritative = true;
  for (int i = 0; zone && i < 4; i++) {
    bool leads_on = gyre_dns_zone_lookup(zone, &lookup);
    if (i == 0) authoritative = lookup.authoritative;
    zone = leads_on ? zone_of(making->responder, lookup.name, false) : NULL;
  }
  gyre_dns_zone_prove(&lookup);
  for (int i = 1; i < 4; i++) making->counts[i] = lookup.counts[i];
  uint16_t flags = (uint16_t)((authoritative ? GYRE_DNS_AA : 0) | (lookup.full ? GYRE_DNS_TC : 0));
  return finish(making, flags, lookup.rcode);
}

/* Returns the rcode of a refused query, or NOERROR. */
static unsigned check(const struct gyre_dns_query *query) {
  if (query->flags & GYRE_DNS_OPCODE) return NOTIMP;
  if (query->edns.present && query->edns.version > 0) return BADVERS;
  if (query->counts[0] != 1) return FORMERR; /* RFC 9619 */
  if (query->question.type == GYRE_DNS_OPT) return FORMERR;
  if (query->question.class != GYRE_DNS_IN && query->question.class != GYRE_DNS_CLASS_ANY) return REFUSED;
  return query->question.type >= TKEY && query->question.type <= AXFR ? REFUSED : NOERROR;
}

enum gyre_dns_action gyre_dns_respond(struct gyre_dns_responder *responder, const struct gyre_dns_request *request,
                                      struct gyre_dns_manner *manner, uint8_t *to, size_t *length) {
  struct gyre_dns_query query;
  struct making making = {.responder = responder, .query = &query, .manner = manner};
  responder->counts.queries++;
  manner->edns = (struct gyre_dns_edns){.present = false};
  manner->flags = responder->network_count && has_recursion(responder, request->from) ? GYRE_DNS_RA : 0;
  manner->limit = request->stream ? GYRE_DNS_MESSAGE_BYTES : 512;
  enum gyre_dns_verdict verdict = gyre_dns_query_read(&query, request->bytes, request->length);
  if (verdict == GYRE_DNS_NO_HEADER || (query.flags & GYRE_DNS_QR)) { /* no answers to answers */
    responder->counts.dropped++;
    return GYRE_DNS_DROP;
  }
  enum cookie cookie = NO_COOKIE;
  unsigned rcode = verdict == GYRE_DNS_MALFORMED ? FORMERR : check(&query);
  if (verdict == GYRE_DNS_WELL_FORMED && query.edns.present) {
    manner->edns.present = true;
    manner->edns.udp_bytes = GYRE_DNS_UDP_BYTES;
    manner->edns.flags = query.edns.flags & GYRE_DNS_DO;
    size_t offered = query.edns.udp_bytes < GYRE_DNS_UDP_BYTES ? query.edns.udp_bytes : GYRE_DNS_UDP_BYTES;
    if (!request->stream && offered > 512) manner->limit = offered;
    cookie = check_cookie(responder, request, &query, manner);
    if (cookie == BAD_COOKIE && rcode == NOERROR) rcode = FORMERR;
    /* A query with no question only asks for a cookie (RFC 7873, section 5.4). */
    if (rcode == FORMERR && cookie > BAD_COOKIE && query.counts[0] == 0) rcode = NOERROR;
  }
  if (responder->rate_limit && !request->stream && cookie != GOOD_COOKIE) {
    enum limit limit = count_response(responder, request);
    if (limit == DROPS) return GYRE_DNS_DROP;
    if (limit == TRUNCATES) {
      begin(&making, to);
      *length = finish(&making, GYRE_DNS_TC, NOERROR);
      return GYRE_DNS_REPLY;
    }
  }
  const struct gyre_dns_zone *zone = NULL;
  if (rcode == NOERROR && query.counts[0] == 1) {
    zone = zone_of(responder, query.question.name, query.question.type == GYRE_DNS_DS);
    if (!zone && query.question.type == GYRE_DNS_DS) zone = zone_of(responder, query.question.name, false);
    if (!zone && responder->has_rules && query.question.class == GYRE_DNS_IN) {
      responder->counts.asked++;
      manner->type = query.question.type;
      return GYRE_DNS_ASK;
    }
    if (!zone) rcode = REFUSED;
  }
  begin(&making, to);
  if (zone) {
    responder->counts.answers++;
    *length = from_zone(&making, zone);
  } else {
    if (rcode == FORMERR) responder->counts.malformed++;
    if (rcode == REFUSED) responder->counts.refused++;
    *length = finish(&making, 0, rcode);
  }
  return GYRE_DNS_REPLY;
}
