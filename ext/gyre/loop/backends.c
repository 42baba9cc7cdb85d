/* The table of backends, in the order in which they are tried (bench/results). */
#include "loop/backends.h"

const struct gyre_backend_choice gyre_backends[] = {
#ifdef GYRE_HAVE_EPOLL
    {"epoll", &gyre_backend_epoll, NULL},
#else
    {"epoll", NULL, "<sys/epoll.h> was not found"},
#endif
#ifdef GYRE_HAVE_IO_URING
    {"io_uring", &gyre_backend_io_uring, NULL},
#else
    {"io_uring", NULL, "liburing was not found (on Debian: liburing-dev)"},
#endif
#ifdef GYRE_HAVE_KQUEUE
    {"kqueue", &gyre_backend_kqueue, NULL},
#else
    {"kqueue", NULL, "<sys/event.h> was not found"},
#endif
#ifdef GYRE_HAVE_IOCP
    {"iocp", &gyre_backend_iocp, NULL},
#else
    {"iocp", NULL, "<winternl.h> was not found"},
#endif
    {NULL, NULL, NULL}};
