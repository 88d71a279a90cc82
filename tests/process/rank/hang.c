/* SPDX-License-Identifier: Apache-2.0 */
/* hang EVENTS
 *
 * A rank that hangs in the way it is ordered to. It speaks as restart.c does. Without an order the
 * function pings every 5 ms. Orders are those of rank.h and:
 *
 *   block HOW               in one of the ways of rank.h, or: checks; naps (a thousand of 10 ms,
 * and a check when one is cut); rush (two seconds of pings without a pause, then checks); quiet
 * (waits for orders without a call) ping                    ends "block quiet" section NAME
 * LIMIT_MS | end | atomic dumb HOW                the next attempt blocks before its first call:
 * HOW is read; or computes, until an order comes: compute after HOW               the function
 * fails, and what follows never ends: deaf; or it pings for ever: finalize, health slow MS the
 * function takes so long to return when it is interrupted, and finalize as long again child-deaf a
 * child that ignores SIGTERM linger                  the process does not end after the run term
 * HOW                what SIGTERM does: heed, which cleans up for half the grace; mock, which goes
 * on; or fork, which leaves a child behind
 *
 * HANG_OPEN_MS: how long it waits for the others when it opens. HANG_PREEMPT: it takes notices,
 * asks at each ping whether to save, and saves nothing. HANG_PREEMPT=SIGNALS: those are notices. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "events.h"
#include "muster/muster.h"
#include "rank.h"

enum { BEAT_MS = 5, LEFT_MS = 1000 };

static char dumb[16], after[16]; /* how */
static int grace_ms, slow_ms;
static muster_preempt *preempt;
static int64_t asked;
static bool lingers;

/* ---- hanging ---- */

static void on_term_heed(int number)
{
    (void)number;
    event("cleans");
    (void)poll(NULL, 0, grace_ms / 2);
    event("cleaned");
    _exit(0);
}

/* Ends once the child has told of itself. */
static void on_term_fork(int number)
{
    int ends[2];
    char byte = 0;

    (void)number;
    if (pipe(ends) != 0 || fork() != 0) {
        while (read(ends[0], &byte, 1) < 0 && errno == EINTR) { /* it is interrupted still */
        }
        _exit(0);
    }
    (void)signal(SIGTERM, SIG_IGN);
    event("child of=%d", (int)getppid());
    (void)!write(ends[1], &byte, 1);
    for (;;) {
        (void)pause();
    }
}

static void on_term_mock(int number)
{
    (void)number;
    event("mocks");
}

static void nap(muster_restart *restart)
{
    const struct timespec nap = {.tv_nsec = 10000000};
    bool told = false;

    for (unsigned i = 0; i < 1000 && !told; i++) {
        told = clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL) == EINTR &&
               muster_restart_check(restart) != MUSTER_OK;
    }
}

static void rush(muster_restart *restart)
{
    struct timespec now, end;

    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += 2;
    do {
        (void)!muster_restart_ping(restart);
        (void)clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec < end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec));
}

/* Not one call of muster, for as long as the test likes. */
static void compute(void)
{
    struct pollfd order = {.fd = orders_fd, .events = POLLIN};

    event("computes");
    while (poll(&order, 1, -1) < 0) {
    }
}

static void block(muster_restart *restart, const char *how)
{
    if (strcmp(how, "rush") == 0) {
        rush(restart);
    }
    event("blocked how=%s", how);
    if (strcmp(how, "naps") == 0) {
        nap(restart);
    } else if (strcmp(how, "checks") == 0 || strcmp(how, "rush") == 0) {
        while (muster_restart_check(restart) == MUSTER_OK) {
        }
    } else {
        (void)block_in(how);
    }
}

/* ---- the function ---- */

static void handle_term(const char *how)
{
    struct sigaction action = {.sa_handler = on_term_mock, .sa_flags = SA_RESTART};

    if (strcmp(how, "heed") == 0) {
        action.sa_handler = on_term_heed;
    } else if (strcmp(how, "fork") == 0) {
        action.sa_handler = on_term_fork;
    }
    (void)sigaction(SIGTERM, &action, NULL);
    event("ready");
}

static void leave_child(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        (void)signal(SIGTERM, SIG_IGN);
        event("child of=%d", (int)getppid());
        for (;;) {
            (void)pause();
        }
    }
}

static muster_status begun(muster_status status)
{
    return status == MUSTER_OK ? MUSTER_MORE : status;
}

/* MORE: the function goes on. */
static muster_status obey(muster_restart *restart, char *order, bool *quiet)
{
    char *rest = order_split(order);
    muster_status status;

    if (order_ends(restart, order, rest, &status)) {
        return status;
    }
    if (strcmp(order, "dumb") == 0) {
        (void)snprintf(dumb, sizeof dumb, "%.15s", rest);
        return muster_restart_fail(restart, 1, "as told");
    }
    if (strcmp(order, "after") == 0) {
        (void)snprintf(after, sizeof after, "%.15s", rest);
        return muster_restart_fail(restart, 1, "as told");
    }
    if (strcmp(order, "block") == 0 && strcmp(rest, "quiet") == 0) {
        *quiet = true;
        event("blocked how=quiet");
    } else if (strcmp(order, "block") == 0) {
        block(restart, rest);
        status = muster_restart_check(restart);
        return status == MUSTER_OK ? MUSTER_EFAILED : status;
    } else if (strcmp(order, "section") == 0) {
        char *limit = order_split(rest);

        return begun(muster_restart_section_begin(restart, rest, strtoll(limit, NULL, 10)));
    } else if (strcmp(order, "end") == 0) {
        *quiet = false;
        event("ends");
        return begun(muster_restart_section_end(restart));
    } else if (strcmp(order, "ping") == 0) {
        *quiet = false;
    } else if (strcmp(order, "atomic") == 0) {
        return begun(muster_restart_atomic_begin(restart));
    } else if (strcmp(order, "term") == 0) {
        handle_term(rest);
    } else if (strcmp(order, "slow") == 0) {
        slow_ms = (int)strtol(rest, NULL, 10);
        event("ready");
    } else if (strcmp(order, "linger") == 0) {
        lingers = true;
        event("ready");
    } else if (strcmp(order, "child-deaf") == 0) {
        leave_child();
    } else if (!order_obey(order, rest)) {
        die(order);
    }
    return MUSTER_MORE;
}

/* OK: it goes on. */
static muster_status save_if_told(void)
{
    struct muster_error err;
    muster_status status = MUSTER_OK;

    if (preempt && muster_preempt_reached(preempt, ++asked) == MUSTER_SAVE_NOW) {
        event("saves step=%lld", (long long)asked);
        status = muster_preempt_saved(preempt, asked, -1, &err);
        event("saved status=%s", muster_status_name(status));
    }
    return status;
}

static muster_status work(muster_restart *restart)
{
    bool quiet = false;

    for (;;) {
        char line[LINE_ROOM];
        struct pollfd ready = {.fd = orders_fd, .events = POLLIN};
        muster_status status = quiet ? MUSTER_OK : muster_restart_ping(restart);

        if (status == MUSTER_OK) {
            status = save_if_told();
        }
        if (status != MUSTER_OK) {
            return status;
        }
        if (poll(&ready, 1, quiet ? -1 : BEAT_MS) < 0) {
            quiet = false;
        }
        if (order_take(line, sizeof line, MSG_DONTWAIT) > 0) {
            status = obey(restart, line, &quiet);
            if (status != MUSTER_MORE) {
                return status;
            }
        }
    }
}

/* Why the attempt before ended. */
static void tell_record(muster_restart *restart, uint64_t generation)
{
    struct muster_fault fault;

    for (uint32_t i = 0; muster_restart_fault(restart, i, &fault); i++) {
        event("fault generation=%llu index=%u kind=%s code=%d text=%s",
              (unsigned long long)generation, fault.index, muster_fault_kind_name(fault.kind),
              fault.code, fault.text);
    }
}

static muster_status function(muster_restart *restart, void *arg)
{
    struct muster_view view;
    muster_status status;

    (void)arg;
    muster_restart_view(restart, &view);
    tell_record(restart, view.generation);
    event("entered generation=%llu iteration=%llu rank=%u size=%u",
          (unsigned long long)view.generation, (unsigned long long)view.iteration, view.rank,
          view.size);
    if (strcmp(dumb, "compute") == 0) {
        dumb[0] = '\0';
        compute();
    } else if (dumb[0] != '\0') {
        dumb[0] = '\0';
        block(restart, "read");
    }
    status = work(restart);
    if (slow_ms != 0) {
        pass(slow_ms);
    }
    event("returns status=%d", (int)status);
    return status;
}

static void ping_for_ever(muster_restart *restart)
{
    event("blocked how=%s", after);
    for (;;) {
        (void)!muster_restart_ping(restart);
    }
}

static muster_status finalize(muster_restart *restart, void *arg)
{
    (void)arg;
    if (strcmp(after, "deaf") == 0) {
        event("blocked how=deaf");
        (void)block_in("deaf");
    } else if (strcmp(after, "finalize") == 0) {
        ping_for_ever(restart);
    }
    pass(slow_ms);
    slow_ms = 0;
    return MUSTER_OK;
}

static muster_status health_check(muster_restart *restart, void *arg)
{
    (void)arg;
    if (strcmp(after, "health") == 0) {
        ping_for_ever(restart);
    }
    return MUSTER_OK;
}

static void take_notices(muster_client *client)
{
    struct muster_preempt_options options = MUSTER_PREEMPT_OPTIONS_INIT;
    const char *signals = getenv("HANG_PREEMPT");

    options.signals = signals != NULL && *signals != '\0' ? signals : NULL;
    if (signals != NULL && muster_preempt_open(&preempt, client, &options, NULL) != MUSTER_OK) {
        die("preempt");
    }
}

/* A thread that was joined is in /proc for a moment longer. */
static bool is_clean(unsigned threads, unsigned descriptors)
{
    for (int ms = 0; ms < LEFT_MS && entries_of("/proc/self/task") > threads; ms++) {
        (void)poll(NULL, 0, 1);
    }
    return entries_of("/proc/self/task") == threads && entries_of("/proc/self/fd") == descriptors;
}

int rank_hang(int argc, char **argv)
{
    unsigned threads, descriptors;
    struct muster_error err = {0};
    struct muster_restart_options options = MUSTER_RESTART_OPTIONS_INIT;
    const struct muster_restart_hook step = {.call = finalize}, health = {.call = health_check};
    const char *open_ms = getenv("HANG_OPEN_MS");
    const char *grace = getenv("MUSTER_GRACE");
    struct muster_view view;
    muster_client *client;
    muster_status status;

    if (argc != 2) {
        (void)fprintf(stderr, "usage: hang EVENTS\n");
        return 2;
    }
    grace_ms = grace != NULL ? (int)strtol(grace, NULL, 10) : 0;
    events_open(argv[1]);
    threads = entries_of("/proc/self/task");
    descriptors = entries_of("/proc/self/fd");
    status = muster_client_open(&client, NULL, open_ms ? strtoll(open_ms, NULL, 10) : 60000, &err);
    if (status != MUSTER_OK) {
        event("refused status=%s text=%s", muster_status_name(status), err.text);
        return muster_exit_code(status);
    }
    muster_client_view(client, &view);
    events_index_set(view.index);
    take_notices(client);
    options.finalize = (struct muster_restart_hooks){.list = &step, .count = 1};
    options.health_check = (struct muster_restart_hooks){.list = &health, .count = 1};
    status = muster_restart_run(client, &options, function, NULL, &err);
    event("done status=%s why=%d text=%s", muster_status_name(status), err.why, err.text);
    while (lingers) {
        (void)poll(NULL, 0, -1);
    }
    muster_preempt_close(preempt);
    muster_client_close(client);
    event("closed clean=%d text=%u threads of %u, %u descriptors of %u",
          is_clean(threads, descriptors), entries_of("/proc/self/task") - 2, threads - 2,
          entries_of("/proc/self/fd") - 3, descriptors - 3);
    events_close();
    return muster_exit_code(status);
}
