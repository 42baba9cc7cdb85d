/* Shared by fibers.c (parking, the queue), workers.c (the pool), interrupts.c (exceptions for
 * fibers) and drive.c (turns). */
#pragma once

#include "fiber/scheduler.h"

/* fibers.c */
void gyre_parked_leave(struct gyre_scheduler *scheduler, struct gyre_parked *parked, enum gyre_parked_state state);
void gyre_parked_mark(struct gyre_scheduler *scheduler, struct gyre_parked *parked, bool foreign);
/* The wait's fiber is being entered. */
void gyre_entered(struct gyre_scheduler *scheduler, const struct gyre_parked *parked);
void gyre_parked_make_ready(struct gyre_scheduler *scheduler, struct gyre_parked *parked, bool first);
VALUE gyre_ready_take(struct gyre_scheduler *scheduler);
/* Returns the fiber to enter next: a ready one within the budget, else the driver; nil without a
 * driver when the kernel is due. */
VALUE gyre_ready_next(struct gyre_scheduler *scheduler);
/* True if the kernel is due. */
bool gyre_budget_is_spent(struct gyre_scheduler *scheduler);
void gyre_budget_refill(struct gyre_scheduler *scheduler);
void gyre_fibers_wake_loop(struct gyre_scheduler *scheduler);
/* Enters `fiber`. Returns when the calling fiber runs again and has answered all questions. */
void gyre_enter(struct gyre_scheduler *scheduler, VALUE fiber);
bool gyre_parked_is_running(struct gyre_scheduler *scheduler, struct gyre_driving *driving);

/* workers.c */
void gyre_workers_init(struct gyre_scheduler *scheduler);
void gyre_workers_mark(struct gyre_scheduler *scheduler);
void gyre_workers_free(struct gyre_scheduler *scheduler);
void gyre_workers_forked(struct gyre_scheduler *scheduler);
/* Returns the fiber's worker, or NULL. */
struct gyre_worker *gyre_worker_of(struct gyre_scheduler *scheduler, VALUE fiber);

/* interrupts.c */
void gyre_interrupts_init(struct gyre_scheduler *scheduler);
void gyre_interrupts_mark(struct gyre_scheduler *scheduler);
void gyre_interrupts_free(struct gyre_scheduler *scheduler);
void gyre_interrupts_forked(struct gyre_scheduler *scheduler);
void gyre_interrupts_deliver(struct gyre_scheduler *scheduler);
/* Makes postponed interrupts due, as their fibers have run. */
void gyre_interrupts_resume(struct gyre_scheduler *scheduler);
/* Raises the interrupt of an ended wait. If an unblock comes meanwhile, requeues it and returns. */
void gyre_interrupt_raise(struct gyre_parked *parked);
/* Requeues the interrupt of a wait that another exception ended, for the next wait. */
void gyre_interrupt_return(struct gyre_scheduler *scheduler, struct gyre_parked *parked);
/* Makes interrupts due that were held for this suspended fiber. */
void gyre_interrupts_release(struct gyre_scheduler *scheduler, const struct gyre_parked *parked);
/* Drops interrupts of an ended job. */
void gyre_interrupts_drop(struct gyre_scheduler *scheduler, VALUE fiber);
