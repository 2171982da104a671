// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0
//
// A wall clock that a test sets: preloaded into a program, it answers gettimeofday and
// clock_gettime(CLOCK_REALTIME) by two int64 of a file that both processes map: the time at
// which the clock stands still, in microseconds since 1970, or 0 for one that runs, and how
// far one that runs is ahead, in nanoseconds.
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

static const int64_t *shared;

__attribute__((constructor)) static void map_clock(void) {
	const char *path = getenv("WEIR_TEST_CLOCK");
	int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		return;
	}
	void *page = mmap(NULL, 2 * sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (page != MAP_FAILED) {
		shared = page;
	}
}

int clock_gettime(clockid_t clock, struct timespec *ts) {
	int is_moved = shared != NULL && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE);
	int64_t still = is_moved ? __atomic_load_n(&shared[0], __ATOMIC_SEQ_CST) : 0;
	if (still != 0) {
		ts->tv_sec = still / 1000000;
		ts->tv_nsec = still % 1000000 * 1000;
		return 0;
	}
	int result = (int)syscall(SYS_clock_gettime, clock, ts);
	if (result == 0 && is_moved) {
		int64_t now = ts->tv_sec * 1000000000LL + ts->tv_nsec + __atomic_load_n(&shared[1], __ATOMIC_SEQ_CST);
		ts->tv_sec = now / 1000000000;
		ts->tv_nsec = now % 1000000000;
	}
	return result;
}

int gettimeofday(struct timeval *restrict tv, void *restrict tz) {
	struct timespec ts;
	(void)tz;
	int result = clock_gettime(CLOCK_REALTIME, &ts);
	if (result == 0 && tv != NULL) {
		tv->tv_sec = ts.tv_sec;
		tv->tv_usec = ts.tv_nsec / 1000;
	}
	return result;
}
