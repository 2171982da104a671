/*
 * Copyright The Weir Authors.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The sandbox process of every pod: it holds the namespaces that the containers share,
 * reaps orphans of shared process namespaces, and exits on a signal. In C, since its memory
 * counts against the limit of the pod.
 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void leave(int signal) {
  (void)signal;
  _exit(0);
}

static void reap(int signal) {
  (void)signal;
  while (waitpid(-1, 0, WNOHANG) > 0) {
  }
}

int main(void) {
  signal(SIGINT, leave);
  signal(SIGTERM, leave);
  signal(SIGCHLD, reap);
  for (;;) pause();
}
