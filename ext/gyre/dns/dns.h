/* DNS's parts for Ruby. */
#pragma once

#include "dns/respond.h"
#include "gyre.h"
#include "net/datagram.h"

extern VALUE gyre_mDNS;

/* Raises ArgumentError for an invalid name. */
void gyre_dns_name_of(VALUE text, uint8_t name[GYRE_DNS_NAME_BYTES]);
VALUE gyre_dns_name_string(const uint8_t *name);

struct gyre_dns_responder_object {
  struct gyre_dns_responder responder;
  VALUE zones; /* keeps the zones that the responder reads */
  VALUE rules; /* nil: none */
};

struct gyre_dns_responder_object *gyre_dns_responder_get(VALUE self);
/* The wall clock, for cookies and limits. */
uint32_t gyre_dns_now_s(void);

/* `receiver`: that of the packet, whose `local` address it has; nil for other requests. */
VALUE gyre_dns_transaction_new(VALUE rules, const struct gyre_dns_request *request,
                               const struct gyre_dns_manner *manner, const struct gyre_datagram_address *from,
                               VALUE receiver, const struct gyre_datagram_local *local);
/* The sender; `from` also receives the address. */
const struct gyre_datagram_local *gyre_dns_transaction_sender(VALUE self, struct gyre_datagram_address *from);
/* Runs the rules, after a forwarder only the last one. Returns the response as a String; nil:
 * gyre_dns_transaction_write has it; false: a forwarder will answer. */
VALUE gyre_dns_transaction_call(VALUE self);
/* Writes up to 512 bytes. Returns their number. */
size_t gyre_dns_transaction_write(VALUE self, uint8_t *to);

/* For a forwarder: the question, and the rest of a query to an upstream. */
size_t gyre_dns_transaction_read_name(VALUE self, uint8_t name[GYRE_DNS_NAME_BYTES]);
uint16_t gyre_dns_transaction_type(VALUE self);
void gyre_dns_transaction_put_query(VALUE self, struct gyre_dns_writer *writer, uint16_t id);
/* Leaves the response to a forwarder, once. Returns the receiver. */
VALUE gyre_dns_transaction_defer(VALUE self);
VALUE gyre_dns_transaction_receiver(VALUE self);
/* Makes an upstream's reply the response, without parsing records. `to`: room for `length` and 64
 * bytes, or for the most bytes over UDP. Returns the response's length; 0 if that cannot be. */
size_t gyre_dns_transaction_adopt(VALUE self, const char *reply, size_t length, uint8_t *to);

/* A deferred transaction counts as a waiting rule until its answer. */
void gyre_dns_receiver_defer(VALUE transaction);
/* Sends the response. Without a reply, or if that cannot be adopted, the rules go on. */
void gyre_dns_receiver_answer(VALUE transaction, const char *reply, size_t length);
