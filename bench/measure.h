/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

/* What the programs of the benchmark share. They end at the first thing that goes wrong: a figure
 * of a run that went half right is worth nothing. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Says what failed, with errno, and exits with 1. */
_Noreturn void die(const char *what);

uint64_t now_ns(void);      /* CLOCK_MONOTONIC: one clock for all processes of the machine */
void pause_us(unsigned us); /* at least that long */
bool parse_number(const char *text, long *out); /* a decimal number, all of it, not negative */

/* Where the two sides of a measurement run: SPLIT, the child on CPU 1 and the parent on CPU 0. */
enum pinning { PIN_NONE, PIN_SPLIT, PIN_SAME };
extern enum pinning pinning;
bool pinning_set(const char *name);
void pin(bool child);

/* As many open files as the system allows this process. */
void all_descriptors(void);

/* A shared mapping that processes forked later see too. */
void *shared_memory(size_t size);

/* The same by a file's name: O_CREAT in `flags` makes it. */
void *shared_file(const char *path, int flags, size_t size);

/* `mib` of memory that really is there, page by page. */
void *resident_memory(long mib);

/* One line of JSON: the distribution of `count` samples, which are put in order. */
void report(const char *name, uint64_t *sample_ns, size_t count);

/* Blocking streams; false: the other side is gone. */
bool read_full(int fd, void *data, size_t size);
bool write_full(int fd, const void *data, size_t size);

#endif
