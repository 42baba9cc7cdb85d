/*
 * Faults of libkqueue, without anything of Gyre: "reused", "urgent" and so on name one. Prints what
 * happened; the status is 1 where it is as on a BSD, 0 where the fault is there. Built and run by
 * test/loop/libkqueue_faults_test.rb.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/event.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct timespec now = {0, 0}, moment = {0, 50000000};

/* Returns the error of the receipt. */
static int change(int queue, int fd, short filter, unsigned short flags) {
  struct kevent event, receipt;
  EV_SET(&event, (uintptr_t)fd, filter, (unsigned short)(flags | EV_RECEIPT), 0, 0, 0);
  return kevent(queue, &event, 1, &receipt, 1, &now) == 1 ? (int)receipt.data : -1;
}

/* kqueue(2): close removes the kevents of a descriptor. Here the number keeps a freed one, and its
 * next file is never reported. */
static int a_number_that_was_closed(void) {
  int queue = kqueue(), old[2], new[2];
  struct kevent event;
  socketpair(AF_UNIX, SOCK_STREAM, 0, old);
  socketpair(AF_UNIX, SOCK_STREAM, 0, new);
  change(queue, old[0], EVFILT_READ, EV_ADD | EV_CLEAR);
  dup2(new[0], old[0]);
  int deleted = change(queue, old[0], EVFILT_READ, EV_DELETE);
  printf("deleted: %s\n", strerror(deleted));
  return deleted == ENOENT && kevent(queue, NULL, 0, &event, 1, &moment) == 0;
}

/* A descriptor that cannot be watched is EINVAL or ENODEV on the BSDs; here the error of any
 * registration is EFAULT. */
static int a_device(void) {
  int queue = kqueue(), error = change(queue, open("/dev/null", O_RDONLY), EVFILT_READ, EV_ADD);
  printf("/dev/null: %s\n", strerror(error));
  return error == EFAULT;
}

/* A child inherits no queue, and its other descriptors stay. Here the child closes the number of a
 * queue that its parent has just closed, which stands for a file by then. */
static int a_fork(void) {
  int lost = 0, status;
  for (int i = 0; i < 200 && !lost; i++) {
    int queue = kqueue();
    close(queue);
    int file = open("/dev/null", O_RDONLY);
    pid_t child = fork();
    if (child == 0) _exit(file == queue && fcntl(file, F_GETFD) < 0);
    waitpid(child, &status, 0);
    lost = WEXITSTATUS(status);
    close(file);
  }
  printf("%s\n", lost ? "the child has lost a file" : "no child has lost a file");
  return lost;
}

int main(int count, char **arguments) {
  const char *fault = count > 1 ? arguments[1] : "";
  if (!strcmp(fault, "number")) return !a_number_that_was_closed();
  if (!strcmp(fault, "device")) return !a_device();
  if (!strcmp(fault, "fork")) return !a_fork();
  return 2;
}
