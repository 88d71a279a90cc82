/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

/* The world of one run: its clock, its one source of chance, the queue of what happens next, the
 * memory of its machines and the story told so far. Nothing here knows what muster is. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/prng.h"

#define SIM_MS UINT64_C(1000000)
#define SIM_NEVER UINT64_MAX

struct sim;

/* The story is kept in memory that the parent process shares, so that it survives a crash. */
#define SIM_LINES 400u
#define SIM_LINE_ROOM 232u

struct sim_story {
    uint64_t seed;
    uint64_t done; /* seeds that ended well */
    uint64_t count;
    char lines[SIM_LINES][SIM_LINE_ROOM];
};

struct sim_event {
    uint64_t at_ns;
    uint64_t order; /* ties are broken by who was first, so the run is deterministic */
    void (*run)(struct sim *sim, void *ctx, uint64_t arg);
    void *ctx;
    uint64_t arg;
};

struct sim_heap {
    struct sim_event *events;
    size_t count, room;
    uint64_t order;
};

/* An allocator that counts, fails when it is told to, and fills what it hands out with a pattern
 * that differs between the two runs of a seed: what depends on it, differs too. */
struct sim_memory {
    struct mst_mem mem;
    uint64_t live;  /* allocations not released yet */
    uint64_t bytes; /* in them */
    unsigned char fill;
    uint32_t fail_1_in; /* 0: never */
    uint64_t failed;
    struct mst_prng prng;
};

/* A monotonic clock that is not the world's: another zero, another rate, and jumps forward. */
struct sim_clock {
    uint64_t offset_ns;
    int64_t ppm;
};

uint64_t sim_clock_read(const struct sim_clock *clock, uint64_t now_ns);
uint64_t sim_clock_when(const struct sim_clock *clock,
                        uint64_t local_ns); /* the world's time of it */

void sim_heap_fini(struct sim_heap *heap);
void sim_at(struct sim *sim, uint64_t at_ns, void (*run)(struct sim *sim, void *ctx, uint64_t arg),
            void *ctx, uint64_t arg);
bool sim_heap_take(struct sim_heap *heap, struct sim_event *out);

void sim_memory_init(struct sim_memory *memory, unsigned char fill, uint64_t seed);

/* For the simulator's own things: never NULL. */
void *sim_new(size_t size);
void *sim_grown(void *array, size_t count, size_t size); /* room for `count` elements */

uint64_t sim_below(struct sim *sim, uint64_t bound);
uint64_t sim_between(struct sim *sim, uint64_t least, uint64_t most); /* both possible */
bool sim_chance(struct sim *sim, uint64_t percent);

/* Adds a line to the story and to the digest of the run. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void sim_tell(struct sim *sim, const char *format, ...);

/* The last lines of the story, at most so many. */
void sim_story_print(const struct sim_story *story, uint64_t most);

/* One run of a seed: a number for everything that happened. Each simulator has its own. */
uint64_t sim_run(uint64_t seed, struct sim_story *story, unsigned char fill, bool verbose);

#endif
