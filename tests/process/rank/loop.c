/* SPDX-License-Identifier: Apache-2.0 */
/* The loop that most programs are: step, compute, barrier. One rank of it hangs at the step HANG_AT
 * of the first iteration, in one WAY; later iterations run to their end.
 *
 *   loop WAY RANK EVENTS
 *
 * It cannot be interrupted in: mutex, spin, stop, malloc, condition, join. It can be in: sleep,
 * read, printf. It makes progress in: straggler (slow pings), checkpoint (quick pings), section.
 * The others go on in: frozen (stopped while it waits in the barrier). It never comes in: names
 * (another barrier), livelock (another one, and all try again and again), done (it returns), dumb
 * (hangs before its first step), deadlock (the same, in a mutex). Events go out as datagrams, in
 * the form of events.h. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "events.h"
#include "muster/muster.h"
#include "rank.h"

enum { STEPS = 9, HANG_AT = 6, COMPUTE_MS = 5, BEAT_MS = 5, TRY_MS = 50 };

static const char *way;
static uint32_t culprit;
static int soft_ms;
static muster_client *client;

static bool is(const char *name)
{
    return strcmp(way, name) == 0;
}

static void beats(muster_restart *restart, int each_ms)
{
    for (int ms = 0; ms < 2 * soft_ms; ms += each_ms) {
        (void)!muster_restart_ping(restart);
        pass(each_ms);
    }
}

static void *stops(void *arg)
{
    (void)arg;
    pass(soft_ms / 8);
    (void)kill(getpid(), SIGSTOP);
    return NULL;
}

static void hang(muster_restart *restart)
{
    if (is("stop")) {
        (void)raise(SIGSTOP);
        (void)block_in("sleep");
    } else if (is("straggler")) {
        beats(restart, soft_ms / 2);
    } else if (is("checkpoint")) {
        beats(restart, BEAT_MS);
    } else if (is("section")) {
        (void)!muster_restart_section_begin(restart, "checkpoint", -1);
        pass(2 * soft_ms);
        (void)!muster_restart_section_end(restart);
    } else if (is("frozen")) {
        pthread_t thread;

        if (pthread_create(&thread, NULL, stops, NULL) != 0 || pthread_detach(thread) != 0) {
            die("pthread_create");
        }
    } else if (!is("names") && !is("livelock") && !is("done")) {
        (void)block_in(is("dumb") ? "sleep" : is("deadlock") ? "mutex" : way);
    }
}

/* Why the attempt before ended. */
static void tell_record(muster_restart *restart)
{
    struct muster_fault fault;

    for (uint32_t i = 0; muster_restart_fault(restart, i, &fault); i++) {
        if (fault.rank == MUSTER_RANK_NONE && fault.index == MUSTER_RANK_NONE) {
            event("fault text=the ranks %s", fault.text);
        } else {
            event("fault text=rank %u %s", fault.rank, fault.text);
        }
    }
}

/* All come to it, but where one of them is to wait for others. */
static muster_status meet(bool apart)
{
    const char *name = apart && (is("names") || is("livelock")) ? "other" : "step";
    muster_status status;

    do {
        status = muster_barrier_wait(client, name, is("livelock") ? TRY_MS : -1, NULL);
    } while (status == MUSTER_ETIMEDOUT);
    return status;
}

static muster_status loop(muster_restart *restart, void *arg)
{
    struct muster_view view;
    muster_status status = MUSTER_OK;
    bool hangs;

    (void)arg;
    muster_restart_view(restart, &view);
    tell_record(restart);
    hangs = view.iteration == 0 && view.rank == culprit;
    event("entered generation=%llu iteration=%llu rank=%u size=%u",
          (unsigned long long)view.generation, (unsigned long long)view.iteration, view.rank,
          view.size);
    if (hangs && (is("dumb") || is("deadlock"))) {
        event("hangs");
        hang(restart);
    }
    for (int step = 0; step < STEPS && status == MUSTER_OK; step++) {
        bool now = view.iteration == 0 && step == HANG_AT;

        status = muster_restart_step(restart, step);
        pass(COMPUTE_MS);
        if (hangs && now && !is("names") && !is("livelock")) {
            event("hangs");
            hang(restart);
        }
        if (hangs && now && is("done")) {
            return MUSTER_OK;
        }
        if (now && is("frozen") && !hangs) {
            pass(soft_ms / 2); /* the culprit is to stand in the barrier first */
        }
        if (status == MUSTER_OK) {
            status = meet(hangs && now);
        }
    }
    return status;
}

int rank_loop(int argc, char **argv)
{
    const char *soft = getenv("MUSTER_SOFT_TIMEOUT");
    struct muster_error err = {0};
    struct muster_view view;
    muster_status status;

    if (argc != 4) {
        (void)fprintf(stderr, "usage: loop WAY RANK EVENTS\n");
        return 2;
    }
    way = argv[1];
    culprit = (uint32_t)strtoul(argv[2], NULL, 10);
    soft_ms = soft != NULL ? (int)strtol(soft, NULL, 10) : 1000;
    events_open(argv[3]);
    status = muster_client_open(&client, NULL, 60000, &err);
    if (status != MUSTER_OK) {
        event("refused status=%s text=%s", muster_status_name(status), err.text);
        return muster_exit_code(status);
    }
    muster_client_view(client, &view);
    events_index_set(view.index);
    status = muster_restart_run(client, NULL, loop, NULL, &err);
    event("done status=%s text=%s", muster_status_name(status), err.text);
    muster_client_close(client);
    events_close();
    return muster_exit_code(status);
}
