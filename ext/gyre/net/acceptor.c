/* The accept loop (acceptor.h). */
#include "net/acceptor.h"
#include "net/tls.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#define ACCEPT_BUDGET 256
#define QUEUE_LENGTH 4096 /* backlog: Gyre::Endpoint::BACKLOG */
#define PAUSE_NS INT64_C(1000000000)
#define TURN_NS INT64_C(2000000) /* limit of a turn's pause, which grows with open connections */
#define TURN_CONNECTIONS 64      /* open connections at which the pause is TURN_NS / 2 */
#define TURNS_OF_ONE 8
#define PATIENCE_NS INT64_C(20000000) /* pause if another process has far fewer connections */

static int accept_one(int fd, struct sockaddr_storage *peer) {
  socklen_t length = sizeof(*peer);
  memset(peer, 0, sizeof(peer->ss_family) + 32);
#ifdef GYRE_HAVE_ACCEPT4
  int accepted = accept4(fd, (struct sockaddr *)peer, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
#else
  int accepted = accept(fd, (struct sockaddr *)peer, &length);
  if (accepted >= 0) {
    fcntl(accepted, F_SETFL, fcntl(accepted, F_GETFL) | O_NONBLOCK);
    fcntl(accepted, F_SETFD, FD_CLOEXEC);
  }
#endif
  return accepted;
}

static int watch(struct gyre_acceptor_listener *listener) {
  return gyre_loop_watch(listener->acceptor->loop, &listener->watch, listener->fd, GYRE_READABLE | GYRE_STANDING);
}

static void resume_accepting(struct gyre_timer *timer, void *context) {
  struct gyre_acceptor *acceptor = GYRE_CONTAINER(timer, struct gyre_acceptor, pause);
  struct gyre_loop *loop = context;
  for (uint32_t i = 0; i < acceptor->listener_count && acceptor->listening; i++) {
    struct gyre_acceptor_listener *listener = &acceptor->listeners[i];
    if (listener->watch.fd >= 0 || watch(listener) == 0) continue;
    (void)gyre_timers_arm(&loop->timers, timer, gyre_loop_now(loop) + PAUSE_NS);
  }
}

/* True if the connection was lost before accept (accept(2), "Error handling"). Gyre::Listener::GONE
 * lists the same errors. */
static bool has_gone(int error) {
  static const int errors[] = {EINTR,     ECONNABORTED, ECONNRESET,  ENETDOWN,   EPROTO, ENOPROTOOPT,
                               EHOSTDOWN, EHOSTUNREACH, ENETUNREACH, EOPNOTSUPP, EPERM,  ETIMEDOUT};
  for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
    if (errors[i] == error) return true;
  }
  return false;
}

/* Stops accepting for a second, because descriptors or memory are short. */
static void pause_accepting(struct gyre_acceptor *acceptor, int error) {
  struct gyre_loop *loop = acceptor->loop;
  for (uint32_t i = 0; i < acceptor->listener_count; i++) gyre_loop_unwatch(loop, &acceptor->listeners[i].watch);
  (void)gyre_timers_arm(&loop->timers, &acceptor->pause, loop->now_ns + PAUSE_NS);
  acceptor->operations->paused(acceptor, error);
}

/* Sets O_NONBLOCK again, because another process with the same socket may have cleared it. */
static void do_not_block(int fd) {
  int flags = fcntl(fd, F_GETFL);
  if (flags >= 0 && !(flags & O_NONBLOCK)) fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

/* Accepts or refuses a connection. Returns false if none can be accepted now. */
static bool accept_next(struct gyre_acceptor_listener *listener) {
  struct gyre_acceptor *acceptor = listener->acceptor;
  struct sockaddr_storage peer;
  int fd = accept_one(listener->fd, &peer);
  if (fd < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINVAL) { /* EINVAL: not listening */
      gyre_loop_drained(acceptor->loop, listener->fd, GYRE_READABLE);
      return false;
    }
    if (has_gone(errno)) return true;
    pause_accepting(acceptor, errno);
    return false;
  }
  acceptor->accepted++;
  if (acceptor->open >= acceptor->open_limit) {
    acceptor->operations->refuse(listener, fd, &peer);
    return true;
  }
  int error = acceptor->operations->accept(listener, fd, &peer);
  if (error == 0) return true;
  close(fd);
  pause_accepting(acceptor, -error);
  return false;
}

/* Starts the pause before the next turn. Without a pause, the first process to wake up would take
 * every connection. The pause is longer with more open connections, and PATIENCE_NS if a process
 * has far fewer, unless that process did not react to the last such pause. */
static void arm_turn(struct gyre_acceptor *acceptor) {
  uint32_t open = acceptor->open + acceptor->away;
  int64_t delay_ns = TURN_NS * open / (open + TURN_CONNECTIONS);
  acceptor->patient = gyre_shares_others_first(&acceptor->shares, open);
  if (acceptor->patient) delay_ns = PATIENCE_NS;
  (void)gyre_timers_arm(&acceptor->loop->timers, &acceptor->turn, gyre_loop_now(acceptor->loop) + delay_ns);
}

/* Takes one connection per socket. After TURNS_OF_ONE full turns, each turn doubles this number. */
static void take_turn(struct gyre_timer *timer, void *context) {
  struct gyre_acceptor *acceptor = GYRE_CONTAINER(timer, struct gyre_acceptor, turn);
  bool more = false;
  int budget = acceptor->rounds < TURNS_OF_ONE ? 1 : 1 << (acceptor->rounds - TURNS_OF_ONE + 1);
  if (acceptor->patient) gyre_shares_waited(&acceptor->shares);

  for (uint32_t i = 0; i < acceptor->listener_count; i++) {
    int left = budget;
    while (left > 0 && acceptor->listening && acceptor->listeners[i].watch.fd >= 0 &&
           accept_next(&acceptor->listeners[i]))
      left--;
    more = more || left == 0;
  }
  if (!more || !acceptor->listening) {
    acceptor->rounds = 0;
    return;
  }
  if (budget < ACCEPT_BUDGET) acceptor->rounds++;
  arm_turn(acceptor);
}

static void on_acceptable(struct gyre_loop *loop, struct gyre_watch *reported, unsigned ready) {
  struct gyre_acceptor_listener *listener = GYRE_CONTAINER(reported, struct gyre_acceptor_listener, watch);
  struct gyre_acceptor *acceptor = listener->acceptor;

  do_not_block(listener->fd);
  if (acceptor->shared) {
    gyre_shares_sign(&acceptor->shares);
    if (!gyre_timer_armed(&acceptor->turn)) arm_turn(acceptor);
    return;
  }
  for (int budget = ACCEPT_BUDGET; budget > 0 && acceptor->listening; budget--) {
    if (!accept_next(listener)) return;
  }
  gyre_loop_report_again(loop, reported, GYRE_READABLE); /* more connections may be waiting */
}

int gyre_acceptor_init(struct gyre_acceptor *acceptor, const struct gyre_acceptor_operations *operations,
                       size_t listeners) {
  acceptor->operations = operations;
  acceptor->pause.fire = resume_accepting;
  acceptor->turn.fire = take_turn;
  acceptor->listeners = calloc(listeners + 1, sizeof(*acceptor->listeners));
  return acceptor->listeners ? 0 : -ENOMEM;
}

void gyre_acceptor_add(struct gyre_acceptor *acceptor, int fd, struct gyre_tls_context *tls) {
  struct gyre_acceptor_listener *listener = &acceptor->listeners[acceptor->listener_count++];
  listener->acceptor = acceptor;
  listener->watch.fd = -1;
  listener->watch.ready = on_acceptable;
  listener->fd = fd;
  listener->tls = tls;
}

void gyre_acceptor_free(struct gyre_acceptor *acceptor) { free(acceptor->listeners); }

int gyre_acceptor_start(struct gyre_acceptor *acceptor, struct gyre_loop *loop) {
  acceptor->loop = loop;
  acceptor->listening = true;
  if (acceptor->shared) gyre_shares_join(&acceptor->shares);
  for (uint32_t i = 0; i < acceptor->listener_count; i++) {
    struct gyre_acceptor_listener *listener = &acceptor->listeners[i];
    int one = 1;
    /* Accepted sockets inherit the option (Linux, BSD). Fails harmlessly on Unix sockets. */
    setsockopt(listener->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    do_not_block(listener->fd);
    int error = watch(listener);
    if (error == 0) continue;
    gyre_acceptor_stop(acceptor);
    return error;
  }
  return 0;
}

/* Accepts at most QUEUE_LENGTH connections per socket, because new ones may keep arriving. */
void gyre_acceptor_finish(struct gyre_acceptor *acceptor) {
  for (uint32_t i = 0; i < acceptor->listener_count && acceptor->listening; i++) {
    struct gyre_acceptor_listener *listener = &acceptor->listeners[i];
    do_not_block(listener->fd);
    for (int budget = QUEUE_LENGTH; budget > 0 && acceptor->listening && accept_next(listener); budget--) continue;
  }
  gyre_acceptor_stop(acceptor);
}

void gyre_acceptor_stop(struct gyre_acceptor *acceptor) {
  if (!acceptor->listening) return;
  acceptor->listening = false;
  gyre_shares_leave(&acceptor->shares);
  gyre_timers_cancel(&acceptor->loop->timers, &acceptor->pause);
  gyre_timers_cancel(&acceptor->loop->timers, &acceptor->turn);
  for (uint32_t i = 0; i < acceptor->listener_count; i++) {
    gyre_loop_unwatch(acceptor->loop, &acceptor->listeners[i].watch);
    gyre_loop_forget_unwatched(acceptor->loop, acceptor->listeners[i].fd);
  }
}

void gyre_acceptor_forget(struct gyre_acceptor *acceptor) {
  acceptor->listening = false;
  acceptor->shares.own = NULL;
  acceptor->pause.place = acceptor->turn.place = 0;
  for (uint32_t i = 0; i < acceptor->listener_count; i++) acceptor->listeners[i].watch.fd = -1;
}

void gyre_acceptor_count(struct gyre_acceptor *acceptor, int difference) {
  acceptor->open += (uint32_t)difference;
  gyre_shares_tell(&acceptor->shares, acceptor->open + acceptor->away);
}

int gyre_acceptor_open(const struct gyre_acceptor_listener *listener, struct gyre_transport *transport, int fd) {
  gyre_transport_init(transport, fd, &gyre_transport_plain);
  return listener->tls ? gyre_tls_start(transport, listener->tls, NULL, NULL) : 0;
}
