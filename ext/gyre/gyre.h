/*
 * What the parts of the extension declare to each other at start.
 */
#ifndef GYRE_H
#define GYRE_H

#include <ruby.h>

extern VALUE gyre_mGyre;

void gyre_init_scheduler(void);

#endif
