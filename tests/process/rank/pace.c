/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of a synchronous training, `step; compute; meet`, in which one rank computes longer.
 *
 *   pace WAY SLOW PERCENT COMPUTE_MS STEPS [FOLDER]
 *
 * Rank SLOW computes PERCENT longer than the others. WAY: barrier (they meet in one of muster),
 * section (a declared section around the work, and they meet elsewhere: in FOLDER), alone (they do
 * not meet), busy (they meet elsewhere, where they block, and say nothing of it). Compute is a
 * sleep: the machine may have fewer processors than there are ranks; but of busy it is so much time
 * of a processor. Each step is a line of rank 0, `step N`. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "muster/muster.h"
#include "rank.h"

static struct pace {
    const char *way, *folder;
    uint32_t slow;
    int percent, compute_ms, steps;
    muster_client *client;
} pace;

static bool is(const char *name)
{
    return strcmp(pace.way, name) == 0;
}

/* Files, so that muster sees nothing of it: a rank leaves one, and looks for those of the others.
 */
static void meet_elsewhere(uint32_t rank, uint32_t size, int step)
{
    char path[512];

    (void)snprintf(path, sizeof path, "%s/%d-%" PRIu32, pace.folder, step, rank);
    (void)close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    for (uint32_t other = 0; other < size; other++) {
        (void)snprintf(path, sizeof path, "%s/%d-%" PRIu32, pace.folder, step, other);
        while (access(path, F_OK) != 0) {
            pass(1);
        }
    }
}

/* A barrier in FOLDER, made by rank 0. It blocks without a look in between: a rank that looks again
 * and again waits for a processor each time. */
static pthread_barrier_t *shared_barrier(uint32_t rank, uint32_t size)
{
    char path[512], made[512];
    pthread_barrierattr_t attributes;
    pthread_barrier_t *barrier;
    int fd;

    (void)snprintf(path, sizeof path, "%s/barrier", pace.folder);
    (void)snprintf(made, sizeof made, "%s/barrier.new", pace.folder);
    while (rank != 0 && access(path, F_OK) != 0) {
        pass(1);
    }
    fd = open(rank == 0 ? made : path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    (void)!ftruncate(fd, sizeof *barrier);
    barrier = mmap(NULL, sizeof *barrier, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (barrier == MAP_FAILED) {
        abort();
    }
    if (rank == 0) {
        (void)pthread_barrierattr_init(&attributes);
        (void)pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
        (void)pthread_barrier_init(barrier, &attributes, size);
        (void)pthread_barrierattr_destroy(&attributes);
        (void)rename(made, path);
    }
    return barrier;
}

static void use_processor(int ms)
{
    struct timespec now;
    int64_t until_ns;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    until_ns = now.tv_sec * INT64_C(1000000000) + now.tv_nsec + ms * INT64_C(1000000);
    while (now.tv_sec * INT64_C(1000000000) + now.tv_nsec < until_ns) {
        (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    }
}

static void compute(muster_restart *restart, uint32_t rank)
{
    if (is("busy")) {
        use_processor(pace.compute_ms);
        return;
    }
    if (is("section")) {
        (void)!muster_restart_section_begin(restart, "forward", 60000);
    }
    pass(pace.compute_ms + (rank == pace.slow ? pace.compute_ms * pace.percent / 100 : 0));
    if (is("section")) {
        (void)!muster_restart_section_end(restart);
    }
}

static muster_status train(muster_restart *restart, void *arg)
{
    struct muster_view view;
    muster_status status = MUSTER_OK;

    pthread_barrier_t *barrier;

    (void)arg;
    muster_restart_view(restart, &view);
    barrier = is("busy") ? shared_barrier(view.rank, view.size) : NULL;
    for (int step = 0; step < pace.steps && status == MUSTER_OK; step++) {
        status = muster_restart_step(restart, step);
        if (view.rank == 0) {
            (void)printf("step %d\n", step);
            (void)fflush(stdout);
        }
        compute(restart, view.rank);
        if (status == MUSTER_OK && is("barrier")) {
            status = muster_barrier_wait(pace.client, "gradients", -1, NULL);
        } else if (barrier) {
            (void)pthread_barrier_wait(barrier);
        } else if (status == MUSTER_OK && is("section")) {
            meet_elsewhere(view.rank, view.size, step);
        }
    }
    return status;
}

int rank_pace(int argc, char **argv)
{
    struct muster_error err = {0};
    muster_status status;

    if (argc < 6) {
        (void)fprintf(stderr, "usage: pace WAY SLOW PERCENT COMPUTE_MS STEPS [FOLDER]\n");
        return 2;
    }
    pace.way = argv[1];
    pace.slow = (uint32_t)strtoul(argv[2], NULL, 10);
    pace.percent = (int)strtol(argv[3], NULL, 10);
    pace.compute_ms = (int)strtol(argv[4], NULL, 10);
    pace.steps = (int)strtol(argv[5], NULL, 10);
    pace.folder = argc > 6 ? argv[6] : ".";
    status = muster_client_open(&pace.client, NULL, 60000, &err);
    if (status == MUSTER_OK) {
        status = muster_restart_run(pace.client, NULL, train, NULL, &err);
    }
    if (status != MUSTER_OK) {
        (void)fprintf(stderr, "%s\n", err.text);
    }
    muster_client_close(pace.client);
    return muster_exit_code(status);
}
