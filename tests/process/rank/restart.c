/* SPDX-License-Identifier: Apache-2.0 */
/* restart EVENTS
 *
 * A rank in muster_restart_run. What happens to it goes out as one datagram each to the socket
 * EVENTS; orders come in as datagrams (events.h). The function is a loop over these orders: so it
 * is blocked exactly where the test has put it.
 *
 * An order "@GENERATION WORDS" is for the function in that generation only, and forgotten in a
 * later one. Orders are those of rank.h and:
 *
 *   check | step N | nested | faults: tells the record again
 *   section NAME MS | section-end | atomic | atomic-end
 *   quiet: no pings any more until the next order
 *   listen: a thread of its own waits in muster, and tells when it hears of the interruption
 *   block HOW: in one of the ways of rank.h, or in a barrier that nobody else comes to
 *   swallow: goes on after EINTERRUPTED, and pings
 *   meet: all of the generation tell each other who they are ("met members=PID,...", by rank)
 *
 * After a run: run, for another one; anything else ends the program, which tells as the last thing
 * whether it has again what it had before it opened the client ("closed clean=").
 *
 * Environment: RR_CALLBACKS=initialize,abort,... lists the callbacks it has (also precondition,
 * health, assign: the order of the indices turned round, pairs: of the indices 0 and 1, 2 and 3...
 * both run or none); each tells "callback name= iteration=
 * rank=". RR_FAIL=finalize:2,health:3+ makes the second call of one fail, and every call of the
 * other from its third on. RR_HOLD=finalize:1 makes that call wait for an order "go".
 * RR_ONLY=INDEX: the two mean that rank only.
 * RR_SIGTERM=MS: a handler of SIGTERM that tells "terminating", takes that long and tells
 * "terminated". RR_OPEN_MS: how long it tries to find the service. RR_BEAT=MS: between two pings,
 * 5. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "belongings.h"
#include "events.h"
#include "muster/muster.h"
#include "rank.h"

enum { KINDS = 7 };

/* A callback, as the environment scripts it. */
struct callback {
    const struct rank *rank;
    const char *name;
    unsigned calls;
    struct muster_restart_hook step;
};

struct rank {
    muster_client *client;
    uint32_t index;
    bool quiet; /* no pings */
    int beat_ms;
    struct callback callbacks[KINDS];
    struct muster_assignment_step assign[3];
    struct callback filter;
    struct muster_assignment assignment;
};

static muster_status block(const struct rank *rank, muster_restart *restart, const char *how)
{
    struct muster_error err = {0};
    muster_status status;

    event("blocked how=%s", how);
    if (strcmp(how, "barrier") == 0) {
        status = muster_barrier_wait(rank->client, "never", -1, &err);
        event("freed how=%s status=%s", how, muster_status_name(status));
        return status;
    }
    event("freed how=%s errno=%d", how, block_in(how));
    status = muster_restart_check(restart);
    return status == MUSTER_OK ? MUSTER_EFAILED : status;
}

static muster_status nested(muster_restart *restart, void *arg)
{
    (void)restart;
    (void)arg;
    return MUSTER_OK;
}

static void try_nested(const struct rank *rank)
{
    struct muster_error err = {0};
    muster_status status = muster_restart_run(rank->client, NULL, nested, NULL, &err);

    event("nested status=%s text=%s", muster_status_name(status), err.text);
}

/* The words of an order for this generation, or NULL. */
static char *order_for(char *order, uint64_t generation)
{
    char *end;

    if (order[0] != '@') {
        return order;
    }
    if (strtoull(order + 1, &end, 10) != generation || *end != ' ') {
        return NULL;
    }
    return end + 1;
}

static void say_status(const char *what, muster_status status)
{
    event("%s status=%s", what, muster_status_name(status));
}

/* Sections and steps. False: no such order. */
static bool obey_progress(muster_restart *restart, const char *order, char *rest)
{
    if (strcmp(order, "step") == 0) {
        say_status("stepped", muster_restart_step(restart, strtoll(rest, NULL, 10)));
    } else if (strcmp(order, "atomic") == 0) {
        say_status("atomic", muster_restart_atomic_begin(restart));
    } else if (strcmp(order, "atomic-end") == 0) {
        say_status("atomic-end", muster_restart_atomic_end(restart));
    } else if (strcmp(order, "section") == 0) {
        char *limit = order_split(rest);

        say_status("section",
                   muster_restart_section_begin(restart, rest, strtoll(limit, NULL, 10)));
    } else if (strcmp(order, "section-end") == 0) {
        say_status("section-end", muster_restart_section_end(restart));
    } else if (strcmp(order, "check") == 0) {
        say_status("checked", muster_restart_check(restart));
    } else {
        return false;
    }
    return true;
}

static void *hear(void *ctx)
{
    const struct rank *rank = ctx;

    say_status("heard", muster_barrier_wait(rank->client, "for nothing", -1, NULL));
    return NULL;
}

static void listen_beside(struct rank *rank)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, hear, rank) != 0 || pthread_detach(thread) != 0) {
        die("pthread_create");
    }
    event("listens");
}

static void meet(const struct rank *rank)
{
    struct muster_round_options options = MUSTER_ROUND_OPTIONS_INIT;
    muster_round_result *result = NULL;
    const int mine = (int)getpid();
    char members[LINE_ROOM / 2] = "";
    size_t at = 0;
    muster_status status;

    options.reduce = MUSTER_REDUCE_GATHER;
    status = muster_round_join(rank->client, "meet", &options,
                               (struct muster_slice){&mine, sizeof(mine)}, -1, &result, NULL);
    for (size_t i = 0; i < muster_round_part_count(result) && at < sizeof(members) - 16; i++) {
        struct muster_slice part = muster_round_part(result, i, NULL);
        int pid = 0;

        memcpy(&pid, part.data, part.size == sizeof(pid) ? sizeof(pid) : 0);
        at += (size_t)snprintf(members + at, sizeof(members) - at, "%s%d", at > 0 ? "," : "", pid);
    }
    muster_round_free(result);
    event("met status=%s members=%s", muster_status_name(status), members);
}

/* Is told again and again, and goes on. */
static void swallow(muster_restart *restart)
{
    const struct timespec moment = {.tv_nsec = 2000000};

    event("swallows");
    for (;;) {
        (void)!muster_restart_ping(restart);
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL);
    }
}

static void tell_faults(muster_restart *restart, uint64_t generation)
{
    struct muster_fault fault;

    for (uint32_t i = 0; muster_restart_fault(restart, i, &fault); i++) {
        event("fault kind=%s index=%u rank=%d code=%d generation=%llu detector=%lld of=%llu "
              "entry=%llu text=%s",
              muster_fault_kind_name(fault.kind), fault.index, (int)fault.rank, fault.code,
              (unsigned long long)fault.generation, (long long)fault.detector,
              (unsigned long long)fault.pid, (unsigned long long)generation, fault.text);
    }
}

/* MORE: the function goes on. */
static muster_status obey(struct rank *rank, muster_restart *restart, char *order)
{
    char *rest = order_split(order);
    muster_status status;

    if (order_ends(restart, order, rest, &status)) {
        return status;
    }
    if (strcmp(order, "block") == 0) {
        return block(rank, restart, rest);
    }
    if (strcmp(order, "nested") == 0) {
        try_nested(rank);
    } else if (strcmp(order, "listen") == 0) {
        listen_beside(rank);
    } else if (strcmp(order, "faults") == 0) {
        struct muster_view view;

        muster_restart_view(restart, &view);
        tell_faults(restart, view.generation);
        event("told-faults");
    } else if (strcmp(order, "meet") == 0) {
        meet(rank);
    } else if (strcmp(order, "swallow") == 0) {
        swallow(restart);
    } else if (!obey_progress(restart, order, rest) && !order_obey(order, rest)) {
        die(order);
    }
    return MUSTER_MORE;
}

static muster_status function(muster_restart *restart, void *arg)
{
    struct rank *rank = arg;
    struct muster_view view;
    const char *exported = getenv("RANK");

    muster_restart_view(restart, &view);
    rank->quiet = false;
    tell_faults(restart, view.generation);
    event("entered generation=%llu iteration=%llu rank=%u size=%u spare=%d faults=%u RANK=%s",
          (unsigned long long)view.generation, (unsigned long long)view.iteration, view.rank,
          view.size, view.spare, muster_restart_fault_count(restart), exported ? exported : "-");
    for (;;) {
        char line[LINE_ROOM];
        struct pollfd in = {.fd = orders_fd, .events = POLLIN};
        muster_status status = rank->quiet ? MUSTER_OK : muster_restart_ping(restart);

        if (status) {
            event("told status=%s", muster_status_name(status));
            return status;
        }
        if (poll(&in, 1, rank->quiet ? -1 : rank->beat_ms) <= 0) {
            rank->quiet = false;
            continue;
        }
        if (order_take(line, sizeof(line), MSG_DONTWAIT) > 0) {
            char *order = order_for(line, view.generation);

            rank->quiet = order && strcmp(order, "quiet") == 0;
            if (rank->quiet) {
                event("quiet");
                continue;
            }
            status = order ? obey(rank, restart, order) : MUSTER_MORE;
            if (status != MUSTER_MORE) {
                event("returns status=%d", (int)status);
                return status;
            }
        }
    }
}

/* --- callbacks --- */

/* Whether `script`, "name:2,other:3+", means this call of that name. */
static bool meant(const char *script, const char *name, unsigned call)
{
    size_t size = strlen(name);

    while (script && *script) {
        if (strncmp(script, name, size) == 0 && script[size] == ':') {
            char *end;
            unsigned long wanted = strtoul(script + size + 1, &end, 10);

            if (wanted == call || (*end == '+' && wanted < call)) {
                return true;
            }
        }
        script = strchr(script, ',');
        script += script != NULL;
    }
    return false;
}

static void hold(const char *name)
{
    char order[LINE_ROOM];
    ssize_t size;

    event("held name=%s", name);
    do {
        size = order_take(order, sizeof(order), 0);
    } while (size < 2 || strncmp(order, "go", 2) != 0);
}

static muster_status callback(muster_restart *restart, void *arg)
{
    struct callback *called = arg;
    const char *only = getenv("RR_ONLY");
    struct muster_view view;
    unsigned call = ++called->calls;

    muster_restart_view(restart, &view);
    event("callback name=%s iteration=%llu rank=%d faults=%u call=%u", called->name,
          (unsigned long long)view.iteration, (int)view.rank, muster_restart_fault_count(restart),
          call);
    if (only && strtoul(only, NULL, 10) != called->rank->index) {
        return MUSTER_OK;
    }
    if (meant(getenv("RR_HOLD"), called->name, call)) {
        hold(called->name);
    }
    return meant(getenv("RR_FAIL"), called->name, call) ? MUSTER_EFAILED : MUSTER_OK;
}

/* The highest index becomes rank 0. */
static muster_status turn_round(void *arg, struct muster_place *places, size_t count)
{
    uint32_t number = 0;

    (void)arg;
    event("callback name=assign count=%zu", count);
    for (size_t i = count; i-- > 0;) {
        places[i].number = places[i].alive ? number++ : MUSTER_NUMBER_NONE;
    }
    return meant(getenv("RR_FAIL"), "assign", 1) ? MUSTER_EFAILED : MUSTER_OK;
}

static void pair_of(void *arg, const struct muster_place *place, char *key, size_t room)
{
    (void)arg;
    (void)snprintf(key, room, "%u", (unsigned)(place->index / 2));
}

/* Only looks on: once in each assignment. */
static uint32_t all_of(void *arg, uint32_t size)
{
    struct callback *called = arg;
    unsigned call = ++called->calls;

    event("callback name=%s count=%u call=%u", called->name, (unsigned)size, call);
    if (meant(getenv("RR_HOLD"), called->name, call)) {
        hold(called->name);
    }
    return size;
}

static void assignment_set(struct rank *rank, const char *wanted,
                           struct muster_restart_options *options)
{
    rank->assignment = (struct muster_assignment)MUSTER_ASSIGNMENT_INIT;
    rank->assignment.list = rank->assign;
    if (strstr(wanted, "assign")) {
        rank->assign[0] = (struct muster_assignment_step){
            .kind = MUSTER_ASSIGN_CUSTOM, .assign = turn_round, .arg = rank};
        rank->assignment.count = 1;
    } else if (strstr(wanted, "pairs")) {
        rank->filter = (struct callback){.rank = rank, .name = "pairs"};
        rank->assign[0] = (struct muster_assignment_step){
            .kind = MUSTER_ASSIGN_GROUP, .count = 2, .key = pair_of};
        rank->assign[1] = (struct muster_assignment_step){.kind = MUSTER_ASSIGN_SHIFT};
        rank->assign[2] = (struct muster_assignment_step){
            .kind = MUSTER_ASSIGN_FILTER, .filter = all_of, .arg = &rank->filter};
        rank->assignment.count = 3;
    } else {
        return;
    }
    options->assignment = &rank->assignment;
}

static void callbacks_set(struct rank *rank, struct muster_restart_options *options)
{
    struct muster_restart_hooks *const lists[KINDS] = {
        &options->precondition, &options->initialize, &options->health_check, &options->abort,
        &options->finalize,     &options->completion, &options->terminate};
    static const char *const names[KINDS] = {"precondition", "initialize", "health",   "abort",
                                             "finalize",     "completion", "terminate"};
    const char *wanted = getenv("RR_CALLBACKS");

    for (size_t i = 0; wanted && i < KINDS; i++) {
        struct callback *one = &rank->callbacks[i];

        *one = (struct callback){.rank = rank, .name = names[i]};
        one->step = (struct muster_restart_hook){.call = callback, .arg = one};
        if (strstr(wanted, names[i])) {
            *lists[i] = (struct muster_restart_hooks){.list = &one->step, .count = 1};
        }
    }
    if (wanted) {
        assignment_set(rank, wanted, options);
    }
}

/* --- SIGTERM --- */

static struct timespec termination;

static void on_terminate(int signal)
{
    struct timespec left = termination;

    (void)signal;
    event("terminating");
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR) {
    }
    event("terminated");
    _exit(143);
}

static void terminate_set(void)
{
    const char *ms = getenv("RR_SIGTERM");
    struct sigaction action = {.sa_handler = on_terminate};

    if (ms) {
        long number = strtol(ms, NULL, 10);

        termination =
            (struct timespec){.tv_sec = number / 1000, .tv_nsec = number % 1000 * 1000000};
        (void)sigaction(SIGTERM, &action, NULL);
    }
}

/* Between two runs an order says whether there is another. */
static bool once_more(void)
{
    char order[LINE_ROOM];
    ssize_t size = order_take(order, sizeof(order), 0);

    return size > 0 && strncmp(order, "run", 3) == 0;
}

static bool handler_is_default(void)
{
    struct sigaction action;

    sigaction(SIGRTMIN + 7, NULL, &action);
    return action.sa_handler == SIG_DFL;
}

static void say_closed(const struct belongings *before)
{
    char text[512];
    bool clean = belongings_are(before, text, sizeof(text));

    event("closed clean=%d text=%s", clean, text);
}

int rank_restart(int argc, char **argv)
{
    static struct belongings before;
    const char *open_ms = getenv("RR_OPEN_MS");
    const char *beat = getenv("RR_BEAT");
    const char *mib = getenv("RESTART_RANK_MIB");
    struct rank rank = {.index = UINT32_MAX};
    struct muster_restart_options options = MUSTER_RESTART_OPTIONS_INIT;
    struct muster_error err = {0};
    struct muster_view view;
    muster_status status;

    if (argc != 2) {
        (void)fprintf(stderr, "usage: restart EVENTS\n");
        return 2;
    }
    if (mib) {
        be_large(mib);
    }
    events_open(argv[1]);
    terminate_set();
    rank.beat_ms = beat ? (int)strtol(beat, NULL, 10) : 5;
    belongings_note(&before);
    event("started socket=%s", events_mine());
    status =
        muster_client_open(&rank.client, NULL, open_ms ? strtol(open_ms, NULL, 10) : 60000, &err);
    if (status) {
        event("refused status=%s text=%s", muster_status_name(status), err.text);
        return muster_exit_code(status);
    }
    muster_client_view(rank.client, &view);
    rank.index = view.index;
    events_index_set(view.index);
    event("joined generation=%llu spare=%d", (unsigned long long)view.generation, view.spare);
    callbacks_set(&rank, &options);
    do {
        err = (struct muster_error){0};
        status = muster_restart_run(rank.client, &options, function, &rank, &err);
        muster_client_view(rank.client, &view);
        event("done status=%s why=%d clean=%d spare=%d text=%s", muster_status_name(status),
              err.why, handler_is_default(), view.spare, err.text);
    } while (once_more());
    muster_client_close(rank.client);
    say_closed(&before);
    events_close();
    return muster_exit_code(status);
}
