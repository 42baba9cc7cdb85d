/* The number of forks between this process and the first caller. State with an older number belongs
 * to a parent: a child shares its kernel objects and must not touch them. Replaces getpid(2), which
 * costs a system call. No ruby.h. */
#ifndef GYRE_FORKS_H
#define GYRE_FORKS_H

extern unsigned gyre_forks;

/* Starts to count; harmless a second time. */
void gyre_forks_count(void);

#endif
