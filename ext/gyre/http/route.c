/* Finds the rows of requests (fiber/sight.h): by the route that a framework has set in the env
 * (lib/gyre/http/route.rb), else by the path. */
#include "http/exchange.h"

#include <ruby/encoding.h>

#define SEGMENT_BYTES 20 /* maximum bytes of a segment that is kept */
#define PATTERN_BYTES 120

static const char *const names[] = {"gyre.route", "sinatra.route", "grape.routing_args", "action_dispatch.route",
                                    "action_dispatch.route_uri_pattern"};
enum { OWN, SINATRA, GRAPE, SOURCES = 5 };
static VALUE keys[SOURCES], key_info, key_path, finder;
static bool frameworks; /* one that sets routes is loaded */

/* Copies a path without its variable parts: segments with digits or of more than 20 bytes become *.
 * Returns the path itself if there are none. */
static VALUE pattern_of(VALUE path) {
  char pattern[PATTERN_BYTES + SEGMENT_BYTES + 2];
  const char *from = RSTRING_PTR(path), *end = from + RSTRING_LEN(path);
  size_t length = 0;
  bool same = true;
  while (from < end && length < PATTERN_BYTES) {
    bool varies = false;
    const char *at = from;
    if (*at == '/') at++;
    for (; at < end && *at != '/'; at++) varies |= *at >= '0' && *at <= '9';
    if (varies || at - from > SEGMENT_BYTES + 1) {
      same = false;
      if (*from == '/') pattern[length++] = '/';
      pattern[length++] = '*';
    } else {
      memcpy(pattern + length, from, (size_t)(at - from));
      length += (size_t)(at - from);
    }
    from = at;
  }
  return same && from == end ? path : rb_enc_str_new(pattern, (long)length, rb_enc_get(path));
}

static VALUE ask_finder(VALUE env) { return rb_funcall(finder, rb_intern("of"), 1, env); }

static VALUE failed(VALUE nothing, VALUE error) { return Qnil; }

/* Returns the route that was set, a String; else nil. `asks`: may call Ruby code. */
static VALUE named_route(VALUE env, bool asks) {
  VALUE route = rb_hash_lookup(env, keys[OWN]);
  if (NIL_P(route) && asks && frameworks)
    route = rb_rescue2(ask_finder, env, failed, Qnil, rb_eStandardError, (VALUE)0);
  return RB_TYPE_P(route, T_STRING) ? route : Qnil;
}

static VALUE path_route(VALUE env) {
  VALUE path = rb_hash_lookup(env, key_path);
  return RB_TYPE_P(path, T_STRING) ? pattern_of(path) : Qnil;
}

static VALUE find_route(VALUE env) {
  VALUE route = named_route(env, true);
  return NIL_P(route) ? path_route(env) : route;
}

static VALUE source_at(VALUE env, int which) {
  VALUE source = rb_hash_lookup(env, keys[which]);
  if (which == GRAPE) return RB_TYPE_P(source, T_HASH) ? rb_hash_lookup(source, key_info) : Qnil;
  if (which != SINATRA || !RB_TYPE_P(source, T_STRING)) return source;
  const char *from = RSTRING_PTR(source), *space = memchr(from, ' ', (size_t)RSTRING_LEN(source));
  return space ? rb_str_subseq(source, space + 1 - from, RSTRING_END(source) - space - 1) : source; /* "GET /" */
}

struct choice {
  VALUE sources[SOURCES], last;
};

static int choose(VALUE key, VALUE value, VALUE address) {
  struct choice *choice = (struct choice *)address;
  for (int i = 0; i < SOURCES; i++)
    if (!NIL_P(choice->sources[i]) && RB_TYPE_P(key, T_STRING) && RTEST(rb_str_equal(key, keys[i])))
      choice->last = choice->sources[i];
  return ST_CONTINUE;
}

/* Finds what names the route, as Route.source does. */
static VALUE find_source(VALUE env) {
  struct choice choice = {.last = source_at(env, OWN)};
  if (!NIL_P(choice.last)) return choice.last;
  int count = 0;
  for (int i = 0; i < SOURCES; i++)
    if (!NIL_P(choice.sources[i] = source_at(env, i)) && ++count) choice.last = choice.sources[i];
  if (count > 1) rb_hash_foreach(env, choose, (VALUE)&choice);
  return count ? choice.last : path_route(env);
}

static VALUE ask_name(VALUE source) { return rb_funcall(finder, rb_intern("name"), 1, source); }

static VALUE name_source(VALUE source) {
  VALUE route = finder ? rb_rescue2(ask_name, source, failed, Qnil, rb_eStandardError, (VALUE)0) : source;
  return RB_TYPE_P(route, T_STRING) ? route : Qnil;
}

void gyre_http_route_look(void) {
  static const char *const modules[] = {"ActionDispatch", "Sinatra", "Grape"};
  for (int i = 0; i < 3 && !frameworks; i++) frameworks = rb_const_defined(rb_cObject, rb_intern(modules[i]));
  if (frameworks && !finder) finder = gyre_kept(rb_path2class("Gyre::HTTP::Route"));
}

static struct gyre_sight_account *row_of(const struct gyre_http_exchange *exchange, VALUE env, bool asks) {
  struct gyre_sight *sight = &exchange->connection->acceptor->scheduler->sight;
  VALUE path = exchange->response.status == 404 ? Qnil : exchange->path; /* Ruby code may end the exchange */
  VALUE route = named_route(env, asks);
  if (!NIL_P(route)) return gyre_sight_row(sight, route, true);
  if (NIL_P(path)) return &sight->rows[GYRE_SIGHT_NONE];
  unsigned before = sight->count;
  struct gyre_sight_account *row = gyre_sight_row(sight, pattern_of(path), false);
  if (sight->count != before) gyre_http_route_look(); /* a framework may load as late as with a request */
  return row;
}

void gyre_http_route_begin(struct gyre_http_exchange *exchange) {
  gyre_sight_request(exchange->connection->acceptor->scheduler, exchange->fiber, exchange->env);
}

void gyre_http_route_end(VALUE self, bool asks) {
  struct gyre_http_exchange *exchange = gyre_http_exchange_get(self);
  if (!exchange) return;
  struct gyre_scheduler *scheduler = exchange->connection->acceptor->scheduler;
  VALUE fiber = exchange->fiber;
  struct gyre_sight_account *account = gyre_sight_running(scheduler, fiber);
  if (!account) return;
  struct gyre_sight_account *row = account->row;
  if (!row) {
    VALUE env = account->label;
    row = row_of(exchange, env, asks); /* may run Ruby code */
    account = gyre_sight_running(scheduler, fiber);
    if (!account || account->label != env) return;
    gyre_sight_set_row(account, row);
  }
  row->requests++;
  account->label = Qnil;
}

struct gyre_sight_account *gyre_http_route_upgrade(VALUE self, bool events) {
  const struct gyre_http_exchange *exchange = gyre_http_exchange_get(self);
  if (!exchange || !RB_TYPE_P(exchange->env, T_HASH)) return NULL;
  struct gyre_scheduler *scheduler = exchange->connection->acceptor->scheduler;
  VALUE env = exchange->env, fiber = exchange->fiber;
  VALUE route = find_route(env);
  if (NIL_P(route)) return NULL;
  if (!events) route = rb_sprintf("WS %" PRIsVALUE, route);
  struct gyre_sight_account *row = gyre_sight_row(&scheduler->sight, route, false);
  struct gyre_sight_account *account = gyre_sight_running(scheduler, fiber);
  if (account && account->label == env) gyre_sight_set_row(account, row);
  return row;
}

void gyre_init_http_route(void) {
  for (int i = 0; i < SOURCES; i++) keys[i] = gyre_kept(rb_interned_str_cstr(names[i]));
  key_info = ID2SYM(rb_intern("route_info"));
  key_path = gyre_kept(rb_interned_str_cstr("PATH_INFO"));
  gyre_sight_route = find_route;
  gyre_sight_route_source = find_source;
  gyre_sight_route_name = name_source;
}
