/* An eventfd or pipe for backends: lets a thread or signal handler end another thread's wait. */
#pragma once

#include "feature.h"

struct gyre_wakeup {
  int read_fd, write_fd;
};

/* Returns 0 or -errno. */
int gyre_wakeup_open(struct gyre_wakeup *wakeup);
void gyre_wakeup_close(struct gyre_wakeup *wakeup);

/* Any thread and signal handler may call it. Preserves errno. */
void gyre_wakeup_signal(const struct gyre_wakeup *wakeup);
