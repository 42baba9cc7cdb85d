/* Counts forks, in each child process (forks.h). */
#include "loop/forks.h"

unsigned gyre_forks;

#ifdef GYRE_HAVE_FORK
#include <pthread.h>

static pthread_once_t counted = PTHREAD_ONCE_INIT;

static void count(void) { gyre_forks++; }

static void begin(void) { pthread_atfork(NULL, NULL, count); }

void gyre_forks_count(void) { pthread_once(&counted, begin); }
#else
void gyre_forks_count(void) {}
#endif
