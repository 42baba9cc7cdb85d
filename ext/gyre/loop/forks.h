/* The number of forks that led to this process. State that holds a smaller number belongs to a
 * parent process, and a child must not touch its kernel objects. Replaces getpid(2), which is a
 * system call. No ruby.h. */
#pragma once

extern unsigned gyre_forks;

/* Begins to count. Later calls do nothing. */
void gyre_forks_count(void);
