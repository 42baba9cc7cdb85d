/* Defines the modules and calls each part's init. */
#include "gyre.h"
#include "async/selector.h"
#include "dns/dns.h"
#include "feature.h"
#include "fiber/scheduler.h"
#include "http/http.h"
#include "keyed/keyed_loop.h"
#include "memcached/memcached_request.h"
#include "net/net.h"
#include "websocket/websocket.h"

VALUE gyre_mGyre;

#ifdef __SANITIZE_ADDRESS__
/* Replaces the sanitizer's function before each longjmp, which warns about fibers' stacks; the
 * build marks no stacks (extconf.rb). */
void __asan_handle_no_return(void);
void __asan_handle_no_return(void) {}
#endif

void Init_gyre_ext(void) {
#ifdef HAVE_RB_EXT_RACTOR_SAFE
  rb_ext_ractor_safe(true);
#endif
  gyre_mGyre = rb_define_module("Gyre");
  gyre_cScheduler = rb_define_class_under(gyre_mGyre, "Scheduler", rb_cObject);
  rb_gc_register_mark_object(gyre_mGyre);
  rb_gc_register_mark_object(gyre_cScheduler);
  gyre_init_loop_backend();
  gyre_init_loop_close();
  gyre_init_scheduler();
  gyre_init_fibers();
  gyre_init_wait();
  gyre_init_scheduler_block();
  gyre_init_scheduler_process();
  gyre_init_scheduler_select();
  gyre_init_scheduler_timeout();
  gyre_init_scheduler_testing();
  gyre_init_scheduler_inspection();
  gyre_init_scheduler_read();
  gyre_init_scheduler_io();
  VALUE keyed = gyre_init_keyed_loop();
  gyre_init_keyed_watch();
  gyre_init_keyed_requests(keyed);
  gyre_init_keyed_helper();
  gyre_init_net_tls();
  gyre_init_net_transport();
  gyre_init_net_transport_available();
  gyre_init_net_tls_facts();
  gyre_init_net_tls_judge();
  gyre_init_net_datagram();
  gyre_init_http();
  gyre_init_http1();
  gyre_init_http1_client();
#ifdef GYRE_HAVE_NGHTTP2
  gyre_init_http2();
#endif
  gyre_init_websocket();
  gyre_init_memcached_connection();
  gyre_init_memcached_threads();
  gyre_init_memcached_call();
  gyre_init_memcached_request();
  gyre_init_memcached_multi();
  gyre_init_memcached_server();
  gyre_init_selector_io(gyre_init_selector());
  gyre_init_dns_message();
  gyre_init_dns_transaction();
  gyre_init_dns_zone();
  gyre_init_dns_receiver();
  gyre_init_log_ingest();
  gyre_init_log_outbox();
  gyre_init_held_signals();
}
