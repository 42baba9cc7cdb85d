/* Defines Gyre and Gyre::Scheduler, and calls each part's gyre_init function. */
#include "fiber/scheduler.h"

VALUE gyre_mGyre;

#ifdef GYRE_HAVE_NGHTTP2
#define HTTP2(PART) PART(http2_connection) PART(http2)
#define HTTP2_CLIENT(PART) PART(http2_client) PART(http2_client_call)
#else
#define HTTP2(PART)
#define HTTP2_CLIENT(PART)
#endif

/* The parts, in the order of initialization. Each file's function is `gyre_init_<name>`. CORE is
 * defined at once, another part when its Ruby files load (Gyre::Native.define), so that a program
 * which has not loaded them meets no class without its methods. */
/* clang-format off */
#define CORE(PART) \
  PART(loop_backend) PART(loop_close) PART(scheduler) PART(workers) PART(interrupts) PART(wait) PART(scheduler_block) \
  PART(scheduler_process) PART(scheduler_select) PART(scheduler_timeout) \
  PART(scheduler_inspection) PART(sight) PART(scheduler_io) PART(samples) \
  PART(keyed_loop) PART(keyed_watch) PART(held_signals)
#define NET(PART) PART(net_tls) PART(net_transport) PART(net_transport_available) PART(net_tls_facts) PART(net_datagram)
#define HTTP(PART) PART(http_error) PART(http_env) PART(http_file) PART(http_route) PART(http) PART(http1_connection) PART(http1) HTTP2(PART)
#define HTTP_CLIENT(PART) PART(http1_client) HTTP2_CLIENT(PART)
#define WEBSOCKET(PART) PART(websocket_frames) PART(websocket)
#define MEMCACHED(PART) \
  PART(memcached_connection) PART(memcached_threads) PART(memcached_call) PART(memcached_request) \
  PART(memcached_multi) PART(memcached_server)
#define DNS(PART) PART(dns_message) PART(dns_transaction) PART(dns_zone) PART(dns_packets)
#define LOG(PART) PART(log_ingest) PART(log_outbox)
#define ASYNC(PART) PART(selector)
/* clang-format on */
#define DECLARE(name) void gyre_init_##name(void);
#define CALL(name) gyre_init_##name,
CORE(DECLARE)
NET(DECLARE)
HTTP(DECLARE)
HTTP_CLIENT(DECLARE)
WEBSOCKET(DECLARE)
MEMCACHED(DECLARE)
DNS(DECLARE)
LOG(DECLARE)
ASYNC(DECLARE)

struct part {
  const char *name;
  void (*const *define)(void); /* ends with NULL */
  bool defined;
};

#define FUNCTIONS(...) ((void (*const[])(void)){__VA_ARGS__ NULL})
static struct part parts[] = {{"net", FUNCTIONS(NET(CALL)), false},
                              {"http", FUNCTIONS(HTTP(CALL)), false},
                              {"http_client", FUNCTIONS(HTTP_CLIENT(CALL)), false},
                              {"websocket", FUNCTIONS(WEBSOCKET(CALL)), false},
                              {"memcached", FUNCTIONS(MEMCACHED(CALL)), false},
                              {"dns", FUNCTIONS(DNS(CALL)), false},
                              {"log", FUNCTIONS(LOG(CALL)), false},
                              {"async", FUNCTIONS(ASYNC(CALL)), false}};

static void call_all(void (*const *define)(void)) {
  while (*define) (*define++)();
}

static void define(struct part *part) {
  if (part->defined) return;
  part->defined = true;
  call_all(part->define);
}

/* Gyre::Native.define(name): defines the classes of a part, once. All parts stand on the first. */
static VALUE native_define(VALUE self, VALUE name) {
  (void)self;
  define(&parts[0]);
  for (size_t i = 1; i < sizeof(parts) / sizeof(*parts); i++)
    if (rb_to_id(name) == rb_intern(parts[i].name)) define(&parts[i]);
  return Qnil;
}

#ifdef __SANITIZE_ADDRESS__
/* Replaces the sanitizer's function that runs before each longjmp and warns about fibers' stacks.
 * It is not needed, because the build does not instrument stacks (extconf.rb). */
void __asan_handle_no_return(void);
void __asan_handle_no_return(void) {}
#endif

void Init_gyre_ext(void) {
  rb_ext_ractor_safe(true);
  gyre_mGyre = rb_define_module("Gyre");
  gyre_cScheduler = rb_define_class_under(gyre_mGyre, "Scheduler", rb_cObject);
  call_all(FUNCTIONS(CORE(CALL)));
  rb_define_singleton_method(rb_define_module_under(gyre_mGyre, "Native"), "define", native_define, 1);
}
