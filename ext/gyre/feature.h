/* Makes Linux's functions visible; extconf.rb defines GYRE_HAVE_* on the compiler's command line.
 * Includes neither ruby.h nor system headers. */
#pragma once

#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1 /* for accept4, preadv2 and epoll_pwait2; must precede all system headers */
#endif

/* The only exported symbol. */
__attribute__((visibility("default"))) void Init_gyre_ext(void);
