/* The platform's answers: extconf.rb defines GYRE_HAVE_*. Included before all other headers by each
 * C file that depends on one; includes neither ruby.h nor system headers. */
#pragma once

#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1 /* accept4, preadv2, epoll_pwait2; precedes all headers */
#endif

/* The single visible name. */
__attribute__((visibility("default"))) void Init_gyre_ext(void);
