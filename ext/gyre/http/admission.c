/* Implements admission.h: places, their queue, and its time limit. */
#include "http/admission.h"

#define STARTS_A_TURN 64 /* maximum waiting requests started in a turn */
#define MAKES_ROOM 0     /* deadline of a request that must leave the queue for a newer request */

static struct gyre_admission_waiter *first(const struct gyre_list *list) {
  return gyre_list_empty(list) ? NULL : GYRE_CONTAINER(list->next, struct gyre_admission_waiter, node);
}

static struct gyre_admission_waiter *next(const struct gyre_admission *admission) {
  struct gyre_admission_waiter *waiter = first(&admission->waiting);
  return waiter ? waiter : first(&admission->ended);
}

static bool is_due(const struct gyre_admission *admission) {
  return admission->waiting_count > 0 && admission->running < admission->running_limit;
}

/* Sets the timer that starts waiters. If memory is short, the next request's end tries again. */
static void arm_places(struct gyre_admission *admission) {
  if (admission->loop && is_due(admission) && !gyre_timer_armed(&admission->places))
    (void)gyre_timers_arm(&admission->loop->timers, &admission->places, gyre_loop_now(admission->loop));
}

/* Sets the timer for the earliest deadline. `waiting` is ordered by deadline, `ended` is not. */
static void arm_late(struct gyre_admission *admission) {
  struct gyre_timers *timers = &admission->loop->timers;
  int64_t when_ns = INT64_MAX;
  if (!gyre_list_empty(&admission->waiting)) when_ns = first(&admission->waiting)->deadline_ns;
  GYRE_EACH(const struct gyre_admission_waiter, waiter, &admission->ended, node) {
    if (waiter->deadline_ns < when_ns) when_ns = waiter->deadline_ns;
  }
  if (when_ns == INT64_MAX) {
    gyre_timers_cancel(timers, &admission->late);
  } else {
    (void)gyre_timers_arm(timers, &admission->late, when_ns);
  }
}

static void take_off(struct gyre_admission *admission, struct gyre_admission_waiter *waiter) {
  gyre_list_remove(&waiter->node);
  admission->waiting_count--;
}

static void end_wait(struct gyre_admission *admission, struct gyre_admission_waiter *waiter) {
  take_off(admission, waiter);
  gyre_http_histogram_add(&admission->statistics->waits, gyre_loop_now(admission->loop) - waiter->since_ns);
}

/* Starts waiting requests. Sets the timer before each: a handler may end at once or raise. */
static void start_waiting(struct gyre_timer *timer, void *context) {
  struct gyre_admission *admission = GYRE_CONTAINER(timer, struct gyre_admission, places);
  struct gyre_loop *loop = context;
  for (int i = 0; i < STARTS_A_TURN && is_due(admission); i++) {
    struct gyre_admission_waiter *waiter = next(admission);
    end_wait(admission, waiter);
    admission->running++;
    arm_places(admission);
    waiter->decided(waiter, true);
    if (!admission->loop) return;
  }
  if (!is_due(admission)) gyre_timers_cancel(&loop->timers, &admission->places);
}

static struct gyre_admission_waiter *find_late(const struct gyre_admission *admission, int64_t now_ns) {
  struct gyre_admission_waiter *waiter = first(&admission->waiting);
  if (waiter && waiter->deadline_ns <= now_ns) return waiter;
  GYRE_EACH(struct gyre_admission_waiter, ended, &admission->ended, node) {
    if (ended->deadline_ns <= now_ns) return ended;
  }
  return NULL;
}

static void refuse_late(struct gyre_timer *timer, void *context) {
  struct gyre_admission *admission = GYRE_CONTAINER(timer, struct gyre_admission, late);
  struct gyre_loop *loop = context;
  int64_t now_ns = loop->now_ns;
  struct gyre_admission_waiter *waiter;
  while (admission->loop && (waiter = find_late(admission, now_ns))) {
    end_wait(admission, waiter);
    admission->statistics->shed++;
    arm_late(admission); /* first: `decided` may raise */
    waiter->decided(waiter, false);
  }
  if (admission->loop) arm_late(admission);
}

void gyre_admission_init(struct gyre_admission *admission, struct gyre_http_statistics *statistics) {
  admission->statistics = statistics;
  gyre_list_init(&admission->waiting);
  gyre_list_init(&admission->ended);
  admission->places.fire = start_waiting;
  admission->late.fire = refuse_late;
}

void gyre_admission_forget(struct gyre_admission *admission) {
  struct gyre_admission_waiter *waiter;
  while ((waiter = next(admission))) take_off(admission, waiter);
  admission->places.place = admission->late.place = 0;
  admission->loop = NULL;
}

void gyre_admission_stop(struct gyre_admission *admission) {
  if (admission->loop) {
    gyre_timers_cancel(&admission->loop->timers, &admission->places);
    gyre_timers_cancel(&admission->loop->timers, &admission->late);
  }
  gyre_admission_forget(admission);
}

/* Makes a half-closed client's request late, so that the timer refuses it. Until then the queue
 * exceeds its limit. Returns false if none has a half-closed client. */
static bool make_room(struct gyre_admission *admission) {
  GYRE_EACH(struct gyre_admission_waiter, waiter, &admission->ended, node) {
    if (waiter->deadline_ns == MAKES_ROOM) continue;
    waiter->deadline_ns = MAKES_ROOM;
    return true;
  }
  return false;
}

bool gyre_admission_enter(struct gyre_admission *admission, struct gyre_admission_waiter *waiter) {
  if (admission->waiting_count >= admission->queue_limit && !make_room(admission)) {
    admission->statistics->shed++;
    return false;
  }
  admission->statistics->waited++;
  admission->waiting_count++;
  waiter->since_ns = gyre_loop_now(admission->loop);
  waiter->deadline_ns = admission->queue_ns < 0 ? INT64_MAX : waiter->since_ns + admission->queue_ns;
  gyre_list_append(&admission->waiting, &waiter->node);
  if (!gyre_timer_armed(&admission->late) || !gyre_list_empty(&admission->ended)) arm_late(admission);
  return true;
}

void gyre_admission_put_last(struct gyre_admission *admission, struct gyre_admission_waiter *waiter) {
  gyre_list_remove(&waiter->node);
  gyre_list_append(&admission->ended, &waiter->node);
}

void gyre_admission_withdraw(struct gyre_admission *admission, struct gyre_admission_waiter *waiter) {
  if (gyre_list_empty(&waiter->node)) return;
  end_wait(admission, waiter);
}

void gyre_admission_leave(struct gyre_admission *admission) {
  admission->running--;
  arm_places(admission);
}

const char *gyre_http_capacity_enter(struct gyre_http_capacity *capacity, struct gyre_admission_waiter *waiter,
                                     uint32_t *counted, size_t bytes, bool last) {
  const char *reason = NULL;
  gyre_http_budget_hold(&capacity->heads, counted, bytes);
  if (gyre_http_budget_is_over(&capacity->heads)) {
    capacity->admission.statistics->shed++;
    reason = GYRE_HTTP_WAITING_HOLD_TOO_MUCH;
  } else if (!gyre_admission_enter(&capacity->admission, waiter)) {
    reason = "too many requests wait already";
  }
  if (reason) {
    gyre_http_budget_hold(&capacity->heads, counted, 0);
  } else if (last) {
    gyre_admission_put_last(&capacity->admission, waiter);
  }
  return reason;
}
