/*
 * The fuzzer of DNS responses: any message's records become a zone; the message itself, and a
 * question for each of its names, are answered from that zone. libFuzzer calls it where clang has
 * it, else fuzz/mutate.c does. A wrong response aborts.
 */
#include "dns/respond.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define QUESTIONS 64

static uint64_t hash(const void *bytes, size_t length) { return length + *(const uint8_t *)bytes; }
static struct gyre_dns_responder responder = {.hash = hash};
static uint8_t response[GYRE_DNS_MESSAGE_BYTES], data[GYRE_DNS_MESSAGE_BYTES + GYRE_DNS_EXPANDED_BYTES];

static void check(bool holds) {
  if (!holds) abort();
}

static void ask(const uint8_t *bytes, size_t length, bool stream) {
  static const struct sockaddr_in from = {.sin_family = AF_INET};
  struct gyre_dns_request request = {bytes, length, (const struct sockaddr *)&from, stream, 1700000000};
  struct gyre_dns_manner manner;
  struct gyre_dns_query query;
  size_t written = 0;
  if (gyre_dns_respond(&responder, &request, &manner, response, &written) != GYRE_DNS_REPLY) return;
  check(written <= manner.limit && (stream || written <= GYRE_DNS_UDP_BYTES));
  check(gyre_dns_query_read(&query, response, written) == GYRE_DNS_WELL_FORMED);
  bool negative;
  (void)gyre_dns_lifetime(response, written, &negative);
  gyre_dns_age(response, written, 1);
  check(gyre_dns_query_read(&query, response, written) == GYRE_DNS_WELL_FORMED);
  check(query.id == gyre_dns_16(bytes) && query.flags & GYRE_DNS_QR && query.counts[0] <= 1);
}

/* Asks about a name with every kind of answer. */
static void ask_about(const uint8_t *name, uint16_t type) {
  const uint16_t types[] = {GYRE_DNS_A, type, GYRE_DNS_ANY, GYRE_DNS_DS, GYRE_DNS_CNAME};
  for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
    uint8_t bytes[512];
    struct gyre_dns_writer writer;
    struct gyre_dns_edns edns = {.present = true, .udp_bytes = (uint16_t)(i % 2 ? 512 : 4096), .flags = GYRE_DNS_DO};
    const uint16_t counts[4] = {1, 0, 0, 1};
    gyre_dns_writer_init(&writer, bytes, sizeof(bytes));
    check(gyre_dns_put_question(&writer, name, types[i], GYRE_DNS_IN) && gyre_dns_put_opt(&writer, &edns));
    gyre_dns_put_header(&writer, 7, 0, counts);
    ask(bytes, writer.length, i % 2);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
  static const uint8_t root[] = {0}, soa[22] = {0};
  static struct gyre_dns_record records[QUESTIONS];
  struct gyre_dns_query query;
  size_t count = 0, at = GYRE_DNS_HEADER_BYTES;
  if (size == 0) return 0;
  struct gyre_dns_zone *zone = gyre_dns_zone_new(root);
  const struct gyre_dns_zone *zones[2] = {NULL};
  check(zone && gyre_dns_zone_add(zone, root, GYRE_DNS_SOA, 60, soa, sizeof(soa)) == 0);
  if (gyre_dns_query_read(&query, input, size) == GYRE_DNS_WELL_FORMED) {
    for (unsigned i = 0; i < query.counts[0]; i++) {
      uint8_t name[GYRE_DNS_NAME_BYTES];
      check(gyre_dns_name_read(input, size, &at, name) > 0);
      at += 4;
    }
    while (count < QUESTIONS && at < size && gyre_dns_record_read(input, size, &at, &records[count])) {
      struct gyre_dns_record *record = &records[count++];
      record->class = GYRE_DNS_IN;
      ssize_t length = gyre_dns_data_expand(input, record, data);
      if (length >= 0 && gyre_dns_data_valid(record->type, GYRE_DNS_IN, data, (size_t)length))
        (void)gyre_dns_zone_add(zone, record->name, record->type, record->ttl, data, (size_t)length);
    }
  }
  check(gyre_dns_zone_finish(zone) == 0);
  responder.zones = zones;
  responder.zone_places = 2;
  responder.zone_count = 0;
  gyre_dns_responder_add(&responder, zone);
  ask(input, size, input[0] & 1);
  for (size_t i = 0; i < count; i++) ask_about(records[i].name, records[i].type);
  if (query.question.name_length && count) ask_about(query.question.name, query.question.type);
  gyre_dns_zone_free(zone);
  return 0;
}
