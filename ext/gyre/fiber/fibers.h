/* Functions shared by fibers.c (parking, ready queue), workers.c (pool), interrupts.c (exceptions
 * for fibers) and drive.c (turns). */
#pragma once

#include "fiber/scheduler.h"

/* fibers.c */
void gyre_parked_leave(struct gyre_scheduler *scheduler, struct gyre_parked *parked, enum gyre_parked_state state);
void gyre_parked_mark(struct gyre_scheduler *scheduler, struct gyre_parked *parked, bool foreign);
/* Notes that the wait's fiber has been entered. */
void gyre_entered(struct gyre_scheduler *scheduler, const struct gyre_parked *parked);
void gyre_parked_make_ready(struct gyre_scheduler *scheduler, struct gyre_parked *parked, bool first);
VALUE gyre_ready_take(struct gyre_scheduler *scheduler);
/* Returns the next fiber to enter: a ready one. Returns the driver (nil if there is none) if no
 * fiber is ready, the budget is spent or an interrupt is due. */
VALUE gyre_ready_next(struct gyre_scheduler *scheduler);
/* True if the kernel must be asked before another fiber runs. */
bool gyre_budget_is_spent(struct gyre_scheduler *scheduler);
void gyre_budget_refill(struct gyre_scheduler *scheduler);
void gyre_fibers_wake_loop(struct gyre_scheduler *scheduler);
/* Enters `fiber`. When the calling fiber runs again, answers questions to it, and then returns. */
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
/* Makes postponed interrupts due: their fibers have run meanwhile. */
void gyre_interrupts_resume(struct gyre_scheduler *scheduler);
/* Raises the interrupt of an ended wait. Returns only if an unblock has requeued the interrupt. */
void gyre_interrupt_raise(struct gyre_parked *parked);
/* Requeues the wait's interrupt for the next wait, because something else has ended this wait. */
void gyre_interrupt_return(struct gyre_scheduler *scheduler, struct gyre_parked *parked);
/* Called when the fiber begins a wait: makes due the interrupts that were held until then. */
void gyre_interrupts_release(struct gyre_scheduler *scheduler, const struct gyre_parked *parked);
/* Drops the fiber's interrupts: its job has ended. */
void gyre_interrupts_drop(struct gyre_scheduler *scheduler, VALUE fiber);
