/* Counts the forks that led to this process. State that holds a smaller number is a parent
 * process's: a child must not touch its kernel objects. Saves a system call (getpid). No ruby.h. */
#pragma once

extern unsigned gyre_forks;

/* Begins to count. Later calls do nothing. */
void gyre_forks_count(void);
