/* Calls the watches (loop.h) of reported descriptors, and watches that asked to be called again.
 *
 *   again --the next turn--> to_call --called--> in neither */
#include "loop/loop.h"

#ifdef GYRE_HAVE_POLL
#include <poll.h>
#else
#include <io.h>
#endif

void gyre_loop_report_again(struct gyre_loop *loop, struct gyre_watch *watch, unsigned ready) {
  if (watch->fd < 0) return;
  watch->call_with |= (uint16_t)ready;
  if (gyre_list_empty(&watch->to_call)) gyre_list_append(&loop->again, &watch->to_call);
}

/* A called function may end watches or raise. The next call of call_rest continues the list. */
static void call_rest(struct gyre_loop *loop) {
  while (loop->backend_state && !gyre_list_empty(&loop->to_call)) {
    struct gyre_watch *watch = GYRE_CONTAINER(loop->to_call.next, struct gyre_watch, to_call);
    unsigned ready = watch->call_with;
    gyre_list_remove(&watch->to_call);
    watch->call_with = 0;
    watch->ready(loop, watch, ready);
  }
}

bool gyre_loop_report(struct gyre_loop *loop, int fd, unsigned ready) {
  struct gyre_watch *first = loop->descriptors[fd].first;
  if (!first->next && gyre_list_empty(&loop->to_call)) {
    if (!(first->interest & ready)) return false;
    first->ready(loop, first, ready);
    return true;
  }
  bool any = false;
  for (struct gyre_watch *watch = first; watch; watch = watch->next) {
    if (!(watch->interest & ready)) continue;
    any = true;
    watch->call_with |= (uint16_t)ready;
    gyre_list_remove(&watch->to_call);
    gyre_list_append(&loop->to_call, &watch->to_call);
  }
  call_rest(loop);
  return any;
}

void gyre_loop_report_left(struct gyre_loop *loop) {
  gyre_list_splice(&loop->to_call, &loop->again);
  call_rest(loop);
}

#ifdef GYRE_HAVE_POLL
void gyre_loop_report_closed(struct gyre_loop *loop, struct gyre_watch *const *watches, int count) {
  struct pollfd descriptors[GYRE_CLOSED_BATCH];
  for (int i = 0; i < count; i++) descriptors[i] = (struct pollfd){.fd = watches[i]->fd};
  if (count <= 0 || poll(descriptors, (nfds_t)count, 0) <= 0) return;
  for (int i = 0; i < count; i++) {
    if (descriptors[i].revents & POLLNVAL) watches[i]->ready(loop, watches[i], watches[i]->interest);
  }
}
#else
void gyre_loop_report_closed(struct gyre_loop *loop, struct gyre_watch *const *watches, int count) {
  bool closed[GYRE_CLOSED_BATCH];
  for (int i = 0; i < count; i++) closed[i] = _get_osfhandle(watches[i]->fd) == -1;
  for (int i = 0; i < count; i++) {
    if (closed[i]) watches[i]->ready(loop, watches[i], watches[i]->interest);
  }
}
#endif
