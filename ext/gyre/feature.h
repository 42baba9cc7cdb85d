/* What each file of the extension begins with, before any system header: every header of ours
 * includes it first. Makes Linux's functions visible, and has what most files need of the C
 * library. extconf.rb defines GYRE_HAVE_* on the compiler's command line. Does not include
 * ruby.h. */
#pragma once

#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1 /* for accept4, preadv2 and epoll_pwait2; must precede all system headers */
#endif

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

/* The only exported symbol. */
__attribute__((visibility("default"))) void Init_gyre_ext(void);
