/* A descriptor that a thread or signal handler makes readable to end another thread's wait: an
 * eventfd, else a pipe. Used by backends only. */
#ifndef GYRE_WAKEUP_H
#define GYRE_WAKEUP_H

struct gyre_wakeup {
  int read_fd, write_fd;
};

/* 0 or -errno. */
int gyre_wakeup_open(struct gyre_wakeup *wakeup);
void gyre_wakeup_close(struct gyre_wakeup *wakeup);

/* From any thread and from a signal handler; keeps errno. */
void gyre_wakeup_signal(const struct gyre_wakeup *wakeup);

#endif
