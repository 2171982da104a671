/*
 * Copyright The Weir Authors.
 * SPDX-License-Identifier: Apache-2.0
 *
 * What runs in every pod beside its containers: it holds the namespaces they share,
 * reaps orphans where processes are shared, and leaves when it is told to. In C,
 * since what it needs counts against the memory limit of the pod.
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
