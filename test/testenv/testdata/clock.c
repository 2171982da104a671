// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0
//
// A wall clock that a test sets: preloaded into redis-server, it answers
// gettimeofday and clock_gettime(CLOCK_REALTIME) from a file that both processes
// map. The file holds one int64, microseconds since 1970; 0 stands for real time.
//
// Every other clock, and real time itself, is asked with a raw system call. To
// look up the next clock_gettime instead (dlsym) would allocate, and an allocator
// that reads the clock would then call back into this function before it is ready.

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const int64_t *shared;

__attribute__((constructor)) static void map_clock(void) {
	const char *path = getenv("WEIR_TEST_CLOCK");
	if (path == NULL) {
		return;
	}
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		return;
	}
	void *page = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (page != MAP_FAILED) {
		shared = page;
	}
}

static int64_t micros(void) {
	return shared == NULL ? 0 : __atomic_load_n(shared, __ATOMIC_SEQ_CST);
}

int clock_gettime(clockid_t clock, struct timespec *ts) {
	int64_t now;
	if ((clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) && (now = micros()) != 0) {
		ts->tv_sec = now / 1000000;
		ts->tv_nsec = now % 1000000 * 1000;
		return 0;
	}
	return (int)syscall(SYS_clock_gettime, clock, ts);
}

int gettimeofday(struct timeval *restrict tv, void *restrict tz) {
	int64_t now = micros();
	if (now == 0) {
		return (int)syscall(SYS_gettimeofday, tv, tz);
	}
	if (tv != NULL) {
		tv->tv_sec = now / 1000000;
		tv->tv_usec = now % 1000000;
	}
	return 0;
}
