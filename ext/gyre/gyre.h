/*
 * What the parts of the extension declare to each other at start.
 */
#ifndef GYRE_H
#define GYRE_H

#include <ruby.h>

extern VALUE gyre_mGyre;

struct gyre_loop;

/* Opens a loop on the backend of this name (String, Symbol); nil takes the first that opens. Raises when none does. */
void gyre_loop_open_on(struct gyre_loop *loop, VALUE name);

void gyre_init_loop_backend(void);
void gyre_init_loop_close(void);
void gyre_init_scheduler(void);
void gyre_init_keyed_loop(void);
void gyre_init_log_ingest(void);
void gyre_init_log_outbox(void);
void gyre_init_log_signals(void);

#endif
