/* SPDX-License-Identifier: Apache-2.0 */
/* One process of a cluster under attack:
 * `muster run -n 9 -- cluster_chaos SEED MILLISECONDS KILLS FREEZES`.
 *
 * Process 0 is the coordinator: for so long, and until there were so many kills and freezes, it
 * keeps thousands of closures of 0 to 5 ms under way and looks at each result, once when it comes
 * and once much later. A thread of it kills a worker that runs something every 200 ms, and stops
 * one every 2 s, for less than the lease or for longer. In the end it prints one line of
 * NAME=NUMBER, and ends the run. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <muster/muster.h>
#include <muster/worker.h>

enum {
    WORKERS = 8,
    KILL_MS = 200,
    FREEZE_MS = 2000,
    FROZEN_MS_MAX = 3200, /* the test's lease is two seconds */
    RUN_US_MAX = 5000,
    UNDER_WAY = 4096,
    COME_MS = 30000
};

/* What a closure gives: the same for the same number, and who made it. */
struct result {
    uint64_t number, value, pid, attempt;
};

static uint64_t seed;

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void pause_us(uint64_t us)
{
    const struct timespec wait = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
    (void)ppoll(NULL, 0, &wait, NULL);
}

/* What looks random and is the same everywhere (splitmix64). */
static uint64_t scramble(uint64_t number)
{
    uint64_t mixed = number + UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ (mixed >> 31);
}

_Noreturn static void give_up(const char *what)
{
    (void)fprintf(stderr, "chaos: %s\n", what);
    exit(3);
}

static void need(muster_status status, const struct muster_error *err)
{
    if (status != MUSTER_OK) {
        give_up(err->text);
    }
}

/* ---- a worker ---- */

static muster_status compute(muster_task *task, void *arg)
{
    const struct muster_part *part = NULL;
    struct result result = {.pid = (uint64_t)getpid(), .attempt = muster_task_attempt(task)};

    (void)arg;
    if (muster_task_parts(task, &part) != 1 || part->size != sizeof result.number) {
        return muster_task_fail(task, EINVAL, "the argument is a number");
    }
    memcpy(&result.number, part->data, sizeof result.number);
    result.value = scramble(result.number ^ seed);
    pause_us(result.value % (RUN_US_MAX + 1));
    return muster_task_add(task, &result, sizeof result, 0);
}

static void work(muster_client *client)
{
    muster_worker *worker = NULL;
    struct muster_error err = {0};
    need(muster_worker_open(&worker, client, NULL, &err), &err);
    need(muster_worker_register(worker, "compute", 1, MUSTER_FUNCTION_PURE, compute, NULL, &err),
         &err);
    muster_status status = muster_worker_serve(worker, &err);
    muster_worker_close(worker);
    if (status != MUSTER_EFENCED) { /* it was stopped for too long, and another one is here */
        need(status, &err);
    }
}

/* ---- the attack ---- */

struct attack {
    muster_cluster *cluster;
    _Atomic bool over;
    _Atomic uint64_t kills, freezes; /* of a worker that was running something */
    uint64_t kills_wanted, freezes_wanted;
    uint64_t dice;
    pid_t frozen; /* 0: nobody */
    uint64_t thaw_ms;
};

static uint64_t draw(struct attack *attack)
{
    return attack->dice = scramble(attack->dice);
}

/* A worker that runs something; 0: there is none just now. */
static pid_t victim(struct attack *attack)
{
    const uint32_t first = (uint32_t)(draw(attack) % WORKERS);
    for (uint32_t i = 0; i < WORKERS; i++) {
        struct muster_cluster_worker worker = MUSTER_CLUSTER_WORKER_INIT;
        if (muster_cluster_look_worker(attack->cluster, (first + i) % WORKERS, &worker) &&
            worker.state == MUSTER_WORKER_PRESENT && worker.running > 0 &&
            (pid_t)worker.pid != attack->frozen) {
            return (pid_t)worker.pid;
        }
    }
    return 0;
}

/* False: nobody is at work just now, so it is due still. */
static bool kill_one(struct attack *attack)
{
    const pid_t pid = victim(attack);
    if (pid == 0 || kill(pid, SIGKILL) != 0) {
        return false;
    }
    atomic_fetch_add(&attack->kills, 1);
    return true;
}

static bool freeze_one(struct attack *attack, uint64_t now)
{
    const pid_t pid = victim(attack);
    if (pid == 0 || kill(pid, SIGSTOP) != 0) {
        return false;
    }
    atomic_fetch_add(&attack->freezes, 1);
    attack->frozen = pid;
    attack->thaw_ms = now + draw(attack) % FROZEN_MS_MAX;
    return true;
}

static bool all_done(struct attack *attack)
{
    return atomic_load(&attack->kills) >= attack->kills_wanted &&
           atomic_load(&attack->freezes) >= attack->freezes_wanted;
}

static void thaw(struct attack *attack)
{
    if (attack->frozen != 0) {
        kill(attack->frozen, SIGCONT); /* whoever found it dead has ended it */
        attack->frozen = 0;
    }
}

static void *run_attack(void *arg)
{
    struct attack *attack = arg;
    uint64_t kill_ms = now_ms();
    uint64_t freeze_ms = now_ms() + FREEZE_MS / 2;
    while (!atomic_load(&attack->over)) {
        const uint64_t now = now_ms();
        if (now >= kill_ms && kill_one(attack)) {
            kill_ms += KILL_MS;
        }
        if (now >= freeze_ms && attack->frozen == 0 && freeze_one(attack, now)) {
            freeze_ms += FREEZE_MS;
        }
        if (attack->frozen != 0 && now >= attack->thaw_ms) {
            thaw(attack);
        }
        pause_us(2000);
    }
    thaw(attack);
    return NULL;
}

/* ---- the coordinator ---- */

/* Closures in the order of their admission; the result of the first look is kept for the second. */
struct window {
    muster_closure *closure[UNDER_WAY];
    struct result seen[UNDER_WAY];
    uint64_t begun, read, released;
    uint64_t wrong;
};

static void begin_one(muster_cluster *cluster, struct window *window)
{
    const uint64_t number = window->begun;
    const struct muster_part part = {.data = &number, .size = sizeof number};
    struct muster_error err = {0};
    need(muster_cluster_schedule(cluster, "compute", &part, 1, NULL, -1,
                                 &window->closure[number % UNDER_WAY], &err),
         &err);
    window->begun++;
}

static void fetch(struct window *window, uint64_t number, struct result *out)
{
    const struct muster_part *part = NULL;
    struct muster_error err = {0};
    size_t count = 0;
    need(muster_closure_fetch(window->closure[number % UNDER_WAY], -1, &part, &count, &err), &err);
    if (count != 1 || part->size != sizeof *out) {
        give_up("a result of another size");
    }
    memcpy(out, part->data, sizeof *out);
}

static void read_one(struct window *window)
{
    const uint64_t number = window->read++;
    struct result *result = &window->seen[number % UNDER_WAY];
    fetch(window, number, result);
    window->wrong += result->number != number || result->value != scramble(number ^ seed);
}

/* It is still what it was: a second attempt has changed nothing. */
static void release_one(struct window *window)
{
    const uint64_t number = window->released++;
    struct result result;
    fetch(window, number, &result);
    window->wrong += memcmp(&result, &window->seen[number % UNDER_WAY], sizeof result) != 0;
    muster_closure_release(window->closure[number % UNDER_WAY]);
}

/* Until then, and until all has happened that is to. */
static void run_closures(struct attack *attack, struct window *window, uint64_t end_ms)
{
    while (now_ms() < end_ms || !all_done(attack)) {
        while (window->begun - window->released < UNDER_WAY) {
            begin_one(attack->cluster, window);
        }
        read_one(window);
        if (window->read - window->released > UNDER_WAY / 4) {
            release_one(window);
        }
    }
    while (window->read < window->begun) {
        read_one(window);
    }
    while (window->released < window->begun) {
        release_one(window);
    }
}

static void await_workers(muster_cluster *cluster)
{
    struct muster_cluster_counts counts = MUSTER_CLUSTER_COUNTS_INIT;
    const uint64_t deadline = now_ms() + COME_MS;
    do {
        pause_us(5000);
        muster_cluster_look(cluster, &counts);
        if (now_ms() > deadline) {
            give_up("the workers did not come");
        }
    } while (counts.workers_present < WORKERS);
}

static void coordinate(muster_client *client, uint64_t milliseconds, uint64_t kills,
                       uint64_t freezes)
{
    static struct window window;
    struct muster_cluster_options options = MUSTER_CLUSTER_OPTIONS_INIT;
    struct muster_cluster_counts counts = MUSTER_CLUSTER_COUNTS_INIT;
    struct muster_error err = {0};
    struct attack attack = {.dice = seed, .kills_wanted = kills, .freezes_wanted = freezes};
    pthread_t thread;

    options.poison = 1000; /* it is not the closures that kill */
    need(muster_cluster_open(&attack.cluster, client, &options, -1, &err), &err);
    await_workers(attack.cluster);
    if (pthread_create(&thread, NULL, run_attack, &attack) != 0) {
        give_up("pthread_create");
    }
    run_closures(&attack, &window, now_ms() + milliseconds);
    atomic_store(&attack.over, true);
    pthread_join(thread, NULL);
    need(muster_cluster_join(attack.cluster, -1, &err), &err);
    muster_cluster_look(attack.cluster, &counts);
    printf("closures=%" PRIu64 " wrong=%" PRIu64 " kills=%" PRIu64 " freezes=%" PRIu64
           " admitted=%" PRIu64 " values=%" PRIu64 " failures=%" PRIu64 " cancelled=%" PRIu64
           " queued=%" PRIu64 " running=%" PRIu64 " put_back=%" PRIu64 " late=%" PRIu64 "\n",
           window.begun, window.wrong, atomic_load(&attack.kills), atomic_load(&attack.freezes),
           counts.admitted, counts.values, counts.failures, counts.cancelled, counts.queued,
           counts.running, counts.put_back, counts.late);
    (void)fflush(stdout);
    muster_cluster_close(attack.cluster);
}

int main(int argc, char **argv)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    struct muster_error err = {0};
    struct muster_view me;
    muster_client *client = NULL;

    if (argc != 5) {
        (void)fprintf(stderr, "usage: cluster_chaos SEED MILLISECONDS KILLS FREEZES\n");
        return 2;
    }
    seed = strtoull(argv[1], NULL, 10);
    options.role = MUSTER_ROLE_WORKER;
    need(muster_client_open(&client, &options, -1, &err), &err);
    muster_client_view(client, &me);
    if (me.index == 0) {
        coordinate(client, strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10),
                   strtoull(argv[4], NULL, 10));
        pause(); /* who started the run has the line and ends it */
    } else {
        work(client);
    }
    muster_client_close(client);
    return 0;
}
