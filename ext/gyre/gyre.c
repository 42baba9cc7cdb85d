/* Defines Gyre and Gyre::Scheduler, and calls each part's gyre_init function. */
#include "gyre.h"
#include "feature.h"
#include "fiber/scheduler.h"

VALUE gyre_mGyre;

#ifdef GYRE_HAVE_NGHTTP2
#define HTTP2(PART) PART(http2)
#else
#define HTTP2(PART)
#endif

/* The parts, in the order of initialization. Each part defines `gyre_init_<name>`. */
/* clang-format off */
#define PARTS(PART) \
  PART(loop_backend) PART(loop_close) PART(scheduler) PART(workers) PART(interrupts) PART(wait) PART(scheduler_block) \
  PART(scheduler_process) PART(scheduler_select) PART(scheduler_timeout) \
  PART(scheduler_inspection) PART(scheduler_io) \
  PART(keyed_loop) PART(keyed_watch) \
  PART(net_tls) PART(net_transport) PART(net_transport_available) PART(net_tls_facts) \
  PART(net_datagram) PART(http_error) PART(http_env) PART(http_file) PART(http) \
  PART(http1_connection) PART(http1) PART(http1_client) HTTP2(PART) PART(websocket) \
  PART(memcached_connection) PART(memcached_threads) PART(memcached_call) PART(memcached_request) \
  PART(memcached_multi) PART(memcached_server) PART(selector) \
  PART(dns_message) PART(dns_transaction) PART(dns_zone) PART(dns_packets) PART(log_ingest) PART(log_outbox) PART(held_signals)
/* clang-format on */
#define DECLARE(name) void gyre_init_##name(void);
#define CALL(name) gyre_init_##name();
PARTS(DECLARE)

#ifdef __SANITIZE_ADDRESS__
/* Replaces the sanitizer's function that runs before each longjmp and warns about fibers' stacks.
 * It is not needed, because the build does not instrument stacks (extconf.rb). */
void __asan_handle_no_return(void);
void __asan_handle_no_return(void) {}
#endif

void Init_gyre_ext(void) {
#ifdef HAVE_RB_EXT_RACTOR_SAFE
  rb_ext_ractor_safe(true);
#endif
  gyre_mGyre = rb_define_module("Gyre");
  gyre_cScheduler = rb_define_class_under(gyre_mGyre, "Scheduler", rb_cObject);
  PARTS(CALL)
}
