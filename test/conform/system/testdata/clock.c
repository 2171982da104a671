// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0
//
// A wall clock ahead of the machine's: preloaded into a program, it adds to CLOCK_REALTIME what the file named in
// CONFORM_CLOCK_FILE contains, nanoseconds in one int64. The file is mapped, so a change takes effect at once.

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const int64_t *offset;

__attribute__((constructor)) static void map_offset(void) {
	const char *path = getenv("CONFORM_CLOCK_FILE");
	int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		return;
	}
	void *page = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (page != MAP_FAILED) {
		offset = page;
	}
}

int clock_gettime(clockid_t clock, struct timespec *ts) {
	int result = (int)syscall(SYS_clock_gettime, clock, ts);
	if (result == 0 && offset != NULL && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
		int64_t now = ts->tv_sec * 1000000000LL + ts->tv_nsec + *offset;
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
