/* The number of forks up to this process. State with an older number is a parent's, whose kernel
 * objects a child must not touch. Replaces getpid(2), a system call. No ruby.h. */
#pragma once

extern unsigned gyre_forks;

/* May be called again. */
void gyre_forks_count(void);
