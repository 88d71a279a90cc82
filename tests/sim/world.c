/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/panic.h"
#include "sim.h"

/* ---- clocks ---------------------------------------------------------------------------------- */

#define MILLION INT64_C(1000000)

uint64_t sim_clock_read(const struct sim_clock *clock, uint64_t now_ns)
{
    int64_t now = (int64_t)now_ns;
    int64_t drift = now / MILLION * clock->ppm + now % MILLION * clock->ppm / MILLION;

    return clock->offset_ns + (uint64_t)(now + drift);
}

/* The first moment at which the clock reads at least `local_ns`: guess, then correct. */
uint64_t sim_clock_when(const struct sim_clock *clock, uint64_t local_ns)
{
    uint64_t guess;

    if (local_ns == SIM_NEVER) {
        return SIM_NEVER;
    }
    if (local_ns <= clock->offset_ns) {
        return 0;
    }
    guess = (uint64_t)((int64_t)((local_ns - clock->offset_ns) / (uint64_t)(MILLION + clock->ppm)) *
                       MILLION);
    while (sim_clock_read(clock, guess) < local_ns) {
        guess += local_ns - sim_clock_read(clock, guess);
    }
    return guess;
}

/* ---- what happens next ----------------------------------------------------------------------- */

static bool sooner(const struct sim_event *a, const struct sim_event *b)
{
    return a->at_ns < b->at_ns || (a->at_ns == b->at_ns && a->order < b->order);
}

void sim_heap_fini(struct sim_heap *heap)
{
    free(heap->events);
}

void sim_at(struct sim *sim, uint64_t at_ns, void (*run)(struct sim *sim, void *ctx, uint64_t arg),
            void *ctx, uint64_t arg)
{
    struct sim_heap *heap = &sim->heap;
    struct sim_event event = {at_ns < sim->now_ns ? sim->now_ns : at_ns, heap->order++, run, ctx,
                              arg};
    size_t at = heap->count++;

    if (heap->count > heap->room) {
        heap->room = heap->room ? heap->room * 2 : 256;
        heap->events = sim_grown(heap->events, heap->room, sizeof(*heap->events));
    }
    while (at > 0 && sooner(&event, &heap->events[(at - 1) / 2])) {
        heap->events[at] = heap->events[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap->events[at] = event;
}

bool sim_heap_take(struct sim_heap *heap, struct sim_event *out)
{
    struct sim_event last;
    size_t at = 0;

    if (heap->count == 0) {
        return false;
    }
    *out = heap->events[0];
    last = heap->events[--heap->count];
    for (;;) {
        size_t child = at * 2 + 1;

        if (child >= heap->count) {
            break;
        }
        if (child + 1 < heap->count && sooner(&heap->events[child + 1], &heap->events[child])) {
            child++;
        }
        if (!sooner(&heap->events[child], &last)) {
            break;
        }
        heap->events[at] = heap->events[child];
        at = child;
    }
    if (heap->count > 0) {
        heap->events[at] = last;
    }
    return true;
}

/* ---- memory ---------------------------------------------------------------------------------- */

struct header {
    size_t size;
    size_t mark;
};

#define HEADER_MARK ((size_t)0x6d757374)

static void *memory_alloc(void *ctx, size_t size)
{
    struct sim_memory *memory = ctx;
    struct header *header;

    if (memory->fail_1_in && mst_prng_below(&memory->prng, memory->fail_1_in) == 0) {
        memory->failed++;
        return NULL;
    }
    header = malloc(sizeof(*header) + size);
    if (!header) {
        abort();
    }
    header->size = size;
    header->mark = HEADER_MARK;
    memset(header + 1, memory->fill, size);
    memory->live++;
    memory->bytes += size;
    return header + 1;
}

static void memory_release(void *ctx, void *p)
{
    struct sim_memory *memory = ctx;
    struct header *header = p;

    if (!header) {
        return;
    }
    header--;
    MST_ASSERT(header->mark == HEADER_MARK);
    header->mark = 0;
    memory->live--;
    memory->bytes -= header->size;
    memset(header + 1, ~memory->fill, header->size);
    free(header);
}

void sim_memory_init(struct sim_memory *memory, unsigned char fill, uint64_t seed)
{
    memset(memory, 0, sizeof(*memory));
    memory->mem.ctx = memory;
    memory->mem.alloc = memory_alloc;
    memory->mem.release = memory_release;
    memory->fill = fill;
    memory->prng.state = seed;
}

void *sim_new(size_t size)
{
    void *p = calloc(1, size);

    if (!p) {
        abort();
    }
    return p;
}

void *sim_grown(void *array, size_t count, size_t size)
{
    void *p = realloc(array, count * size);

    if (!p) {
        abort();
    }
    return p;
}

/* ---- chance ---------------------------------------------------------------------------------- */

uint64_t sim_below(struct sim *sim, uint64_t bound)
{
    return mst_prng_below(&sim->prng, bound);
}

uint64_t sim_between(struct sim *sim, uint64_t least, uint64_t most)
{
    return least + mst_prng_below(&sim->prng, most - least + 1);
}

bool sim_chance(struct sim *sim, uint64_t percent)
{
    return mst_prng_below(&sim->prng, 100) < percent;
}

/* ---- the story ------------------------------------------------------------------------------- */

void sim_tell(struct sim *sim, const char *format, ...)
{
    struct sim_story *story = sim->story;
    char *line = story->lines[story->count++ % SIM_LINES];
    va_list arguments;
    int size = snprintf(line, SIM_LINE_ROOM, "%10.6f ", (double)sim->now_ns / 1e9);

    va_start(arguments, format);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): it was started one line above */
    (void)vsnprintf(line + size, SIM_LINE_ROOM - (size_t)size, format, arguments);
    va_end(arguments);
    sim->digest = mst_digest_slice(sim->digest, mst_slice_text(line));
    if (sim->verbose) {
        fprintf(stderr, "%s\n", line);
    }
}

void sim_story_print(const struct sim_story *story, uint64_t most)
{
    uint64_t from = story->count > SIM_LINES ? story->count - SIM_LINES : 0;

    if (story->count - from > most) {
        from = story->count - most;
    }
    for (uint64_t i = from; i < story->count; i++) {
        fprintf(stderr, "  %s\n", story->lines[i % SIM_LINES]);
    }
}
