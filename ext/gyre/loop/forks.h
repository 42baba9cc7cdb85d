/* Counts the forks that led to this process. A structure with a smaller number is from a parent
 * process: its kernel objects must not be touched. Saves a system call (getpid). No ruby.h. */
#pragma once

#include "feature.h"

extern unsigned gyre_forks;

/* Begins to count. Later calls do nothing. */
void gyre_forks_count(void);
