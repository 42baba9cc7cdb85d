/*
 * How many forks lie between this process and the one that first asked: what has kept an older
 * number belongs to a parent, whose kernel objects a child shares and must not touch. Instead of
 * getpid(2), a system call each time. No ruby.h.
 */
#ifndef GYRE_FORKS_H
#define GYRE_FORKS_H

extern unsigned gyre_forks;

/* Counts from now on; also a second time. */
void gyre_forks_count(void);

#endif
