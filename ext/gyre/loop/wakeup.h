/*
 * A descriptor that one thread (or a signal handler) makes readable to end another thread's wait:
 * an eventfd, or a pipe where there is none. Only backends use it.
 */
#ifndef GYRE_WAKEUP_H
#define GYRE_WAKEUP_H

struct gyre_wakeup {
  int read_fd, write_fd;
};

/* 0 or -errno. */
int gyre_wakeup_open(struct gyre_wakeup *wakeup);
void gyre_wakeup_close(struct gyre_wakeup *wakeup);

/* Takes the signals off, for a backend that sees the present state and not each change. */
void gyre_wakeup_clear(const struct gyre_wakeup *wakeup);

/* Safe from any thread and from a signal handler; leaves errno as it was. */
void gyre_wakeup_signal(const struct gyre_wakeup *wakeup);

#endif
