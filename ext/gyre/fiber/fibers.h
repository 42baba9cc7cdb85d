/*
 * What the files that move fibers share: fibers.c (parking, the queue), workers.c (the pool),
 * interrupts.c (exceptions for other fibers), drive.c (turns). No other file includes it.
 */
#ifndef GYRE_FIBERS_H
#define GYRE_FIBERS_H

#include "fiber/scheduler.h"

/* fibers.c */
void gyre_parked_leave(struct gyre_scheduler *scheduler, struct gyre_parked *parked, enum gyre_parked_state state);
void gyre_parked_mark(struct gyre_scheduler *scheduler, struct gyre_parked *parked, bool foreign);
/* Its fiber is about to be entered, or has been. */
void gyre_entered(struct gyre_scheduler *scheduler, const struct gyre_parked *parked);
void gyre_parked_make_ready(struct gyre_scheduler *scheduler, struct gyre_parked *parked, bool first);
/* Takes the next ready fiber off the queue, or returns nil. */
VALUE gyre_ready_take(struct gyre_scheduler *scheduler);
/* Where a fiber that stops running goes: the next ready one while the budget lasts, else the
 * driver; nil when no fiber drives the loop, and it has to be asked. */
VALUE gyre_ready_next(struct gyre_scheduler *scheduler);
/* Whether it is time to ask the kernel: after so many switches, or when the coarse clock has
 * ticked. */
bool gyre_budget_is_spent(struct gyre_scheduler *scheduler);
void gyre_budget_refill(struct gyre_scheduler *scheduler);
void gyre_fibers_wake_loop(struct gyre_scheduler *scheduler);
/* Gives control to a fiber; returns when the present one has it again, and has answered what it was
 * asked. */
void gyre_enter(struct gyre_scheduler *scheduler, VALUE fiber);
bool gyre_parked_is_running(struct gyre_scheduler *scheduler, struct gyre_driving *driving);

/* workers.c */
void gyre_init_workers(void);
void gyre_workers_init(struct gyre_scheduler *scheduler);
void gyre_workers_mark(struct gyre_scheduler *scheduler);
void gyre_workers_free(struct gyre_scheduler *scheduler);
void gyre_workers_forked(struct gyre_scheduler *scheduler);
/* The worker of a fiber, or NULL. */
struct gyre_worker *gyre_worker_of(struct gyre_scheduler *scheduler, VALUE fiber);

/* interrupts.c */
void gyre_init_interrupts(void);
void gyre_interrupts_init(struct gyre_scheduler *scheduler);
void gyre_interrupts_mark(struct gyre_scheduler *scheduler);
void gyre_interrupts_free(struct gyre_scheduler *scheduler);
void gyre_interrupts_forked(struct gyre_scheduler *scheduler);
/* Raises what is due in its fiber. */
void gyre_interrupts_deliver(struct gyre_scheduler *scheduler);
/* The fibers of the postponed ones have run. */
void gyre_interrupts_resume(struct gyre_scheduler *scheduler);
/* Raises the interrupt of a wait that has ended. Returns if the wait was given something just then,
 * and the interrupt given back. */
void gyre_interrupt_raise(struct gyre_parked *parked);
/* The wait was left by another exception: the interrupt is raised at the next one. */
void gyre_interrupt_return(struct gyre_scheduler *scheduler, struct gyre_parked *parked);
/* A fiber parks that the program had suspended: what was held back for it is due. */
void gyre_interrupts_release(struct gyre_scheduler *scheduler, const struct gyre_parked *parked);
/* What was meant for a job that has ended is dropped. */
void gyre_interrupts_drop(struct gyre_scheduler *scheduler, VALUE fiber);

#endif
