/* SPDX-License-Identifier: Apache-2.0 */
/* Whoever blocks drives. A thread that waits and finds the connection undriven polls it itself: the
 * answer then costs one wake-up, of the thread that wants it. The background thread polls only
 * while nobody waits, and keeps off for a moment after a caller went: a program that makes one call
 * after the other would otherwise hand the seat back and forth each time. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <time.h>

#include "base/panic.h"
#include "client/shell/handle.h"
#include "client/shell/sidecar/helper.h"
#include "client/shell/uncancelled.h"
#include "os/clock.h"
#include "os/short_slice.h"
#include "os/system.h"
#include "process/page.h"

#define REST_NS NS_PER_MS
#define DEAF_MS 100  /* how long a thread that cannot be told of anything polls at most */
#define LOOK_MS 1000 /* likewise one that can: unless the program has closed what it is told by */
#define THREAD_STACK ((size_t)256 * 1024)

_Thread_local struct muster_client *mst_lib_holding;

uint64_t mst_lib_now_ns(void)
{
    return mst_system_now_ns();
}

static void take_lock(struct muster_client *client)
{
    (void)pthread_mutex_lock(&client->lock);
    client->outer = mst_lib_holding;
    mst_lib_holding = client;
}

static void drop_lock(struct muster_client *client)
{
    mst_lib_holding = client->outer;
    (void)pthread_mutex_unlock(&client->lock);
}

bool mst_lib_holds(const struct muster_client *client)
{
    const struct muster_client *held = mst_lib_holding;

    while (held && held != client) {
        held = held->outer;
    }
    return held != NULL;
}

/* ---- timers ---- */

void mst_lib_timer_set(muster_client *client, struct mst_lib_timer *timer, uint64_t at_ns)
{
    mst_list_remove(&timer->link);
    timer->at_ns = at_ns;
    mst_list_append(&client->timers, &timer->link);
    client->dirty = true;
}

void mst_lib_timer_stop(struct mst_lib_timer *timer)
{
    mst_list_remove(&timer->link);
}

/* The one that is due first; NULL: none is set. */
static struct mst_lib_timer *timer_first(const struct muster_client *client)
{
    struct mst_lib_timer *first = NULL;

    MST_LIST_EACH(link, following, &client->timers)
    {
        struct mst_lib_timer *timer = MST_CONTAINER(link, struct mst_lib_timer, link);

        if (!first || timer->at_ns < first->at_ns) {
            first = timer;
        }
    }
    return first;
}

/* One that fires may set and stop others. */
static void timers_fire(const struct muster_client *client, uint64_t now_ns)
{
    struct mst_lib_timer *timer;

    while ((timer = timer_first(client)) != NULL && timer->at_ns <= now_ns) {
        mst_lib_timer_stop(timer);
        timer->fire(timer->ctx);
    }
}

/* ---- a turn ---- */

static uint64_t deadline_of(struct muster_client *client)
{
    uint64_t deadline_ns = mst_client_deadline_ns(mst_lib_machine(client));
    const struct mst_lib_timer *timer = timer_first(client);

    MST_LIB_HOOKS(hook, client, deadline_ns)
    {
        uint64_t hook_ns = hook->deadline_ns(hook->ctx);

        deadline_ns = hook_ns < deadline_ns ? hook_ns : deadline_ns;
    }
    if (timer && timer->at_ns < deadline_ns) {
        deadline_ns = timer->at_ns;
    }
    if (client->helper) {
        uint64_t helper_ns = mst_lib_helper_deadline_ns(client->helper);

        deadline_ns = helper_ns < deadline_ns ? helper_ns : deadline_ns;
    }
    return deadline_ns;
}

static void turn(struct muster_client *client)
{
    uint64_t now_ns = mst_system_now_ns();

    client->dirty = false;
    MST_LIB_HOOKS(hook, client, tick)
    {
        if (hook->deadline_ns(hook->ctx) <= now_ns) {
            hook->tick(hook->ctx, now_ns);
        }
    }
    timers_fire(client, now_ns);
    mst_lib_helper_turn(client, now_ns, false);
    mst_driver_turn(client->driver, now_ns);
    mst_lib_look(client);
}

static bool is_over(const struct muster_client *client, const struct mst_lib_waiter *waiter)
{
    return client->poisoned || waiter->ready(waiter->ctx) ||
           (waiter->interruptible ? client->interrupted || client->closing : client->stop_thread);
}

void mst_lib_wake_ready(struct muster_client *client)
{
    MST_LIST_EACH(link, following, &client->waiters)
    {
        struct mst_lib_waiter *waiter = MST_CONTAINER(link, struct mst_lib_waiter, link);

        if (!is_over(client, waiter)) {
            continue;
        }
        if (!waiter->driving) {
            (void)pthread_cond_signal(&waiter->wake);
        } else if (client->caller_polls) {
            mst_system_event_ring(client->caller_event);
        }
    }
}

static void hooks_interest(const struct muster_client *client, struct pollfd *fds)
{
    for (size_t i = 0; i < MST_USERS; i++) {
        const struct mst_lib_hook *hook = &client->hooks[i];

        fds[i] = (struct pollfd){.fd = hook->event ? hook->event(hook->ctx) : -1, .events = POLLIN};
        if (client->lost_fd > 0) {
            fds[i].fd = -1;
        }
    }
}

/* Unless its hook is another one by now. */
static void hooks_ready(struct muster_client *client, const struct pollfd *fds)
{
    for (size_t i = 0; i < MST_USERS; i++) {
        const struct mst_lib_hook *hook = &client->hooks[i];

        if (fds[i].revents != 0 && hook->event && hook->event(hook->ctx) == fds[i].fd) {
            hook->rung(hook->ctx, mst_system_now_ns());
        }
    }
}

/* Without those at the end that are none: poll takes no more than the process may have open. */
static nfds_t in_use(const struct pollfd *fds, nfds_t count)
{
    while (count > 0 && fds[count - 1].fd < 0) {
        count--;
    }
    return count;
}

/* For poll, and not for ppoll: that would begin its wait again, for what was left of it, when the
 * process was stopped in it and goes on. */
static int wait_until(uint64_t next_ns, int event)
{
    uint64_t now_ns = mst_system_now_ns();
    uint64_t most = event < 0 ? DEAF_MS : INT_MAX;
    uint64_t ms;

    if (next_ns == NEVER) {
        return event < 0 ? DEAF_MS : LOOK_MS;
    }
    ms = mst_ms_until(next_ns, now_ns);
    return (int)(ms < most ? ms : most);
}

/* What is polled, the event apart: the connection, the helper, the hooks. */
static uint64_t interests(const struct muster_client *client, struct pollfd *fds)
{
    uint64_t epoch;

    fds[0] = mst_driver_interest(client->driver, &epoch);
    fds[1] = mst_lib_helper_interest(client->helper);
    hooks_interest(client, fds + 2);
    return epoch;
}

/* ---- a program that closes what is not its own ---- */

static bool is_told_of_none(const struct pollfd *fds, nfds_t count)
{
    for (nfds_t i = 0; i < count; i++) {
        if ((fds[i].revents & POLLNVAL) != 0) {
            return true;
        }
    }
    return false;
}

/* Poll found a number without a file. It may have been closed by us since it was asked for, without
 * the lock; so those of now are looked at. -1: all have files. */
static int closed_one(const struct muster_client *client)
{
    struct pollfd fds[4 + MST_USERS] = {{.fd = client->caller_event},
                                        {.fd = client->background_event}};

    (void)interests(client, fds + 2);
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        if (fds[i].fd >= 0 && fcntl(fds[i].fd, F_GETFD) < 0) {
            return fds[i].fd;
        }
    }
    return -1;
}

/* The numbers of the others may have gone with it, and be files of the program's by now: nothing is
 * written to any of them, and none is closed. The session cannot go on without; the threads get
 * events of their own again, to be told of the client's end by. */
void mst_lib_disown(struct muster_client *client)
{
    uint64_t now_ns = mst_system_now_ns();
    int fd = client->lost_fd == 0 && !client->poisoned ? closed_one(client) : -1;

    if (fd < 0) {
        return;
    }
    client->lost_fd = fd;
    client->caller_event = mst_system_event();
    client->background_event = mst_system_event();
    client->call_event = client->secret_fd = -1;
    mst_driver_disown(client->driver);
    mst_lib_helper_disown(client->helper);
    mst_lib_alone_disown(client->alone);
    MST_LIB_HOOKS(hook, client, disowned)
    {
        hook->disowned(hook->ctx);
    }
    mst_client_give_up(mst_lib_machine(client), now_ns, MUSTER_EUNREACHABLE);
    mst_driver_turn(client->driver, now_ns);
    mst_lib_wake_ready(client);
}

/* Polls without the lock, then feeds what came. `*polls` says so meanwhile; false: somebody else
 * put it back, because the seat was taken from the background thread. `*own`: this thread's event;
 * another one afterwards if the number of the one that was polled is not ours any more. */
static bool poll_once(struct muster_client *client, const int *own, uint64_t deadline_ns,
                      bool *polls)
{
    int event = *own;
    struct pollfd fds[3 + MST_USERS] = {{.fd = event, .events = POLLIN}};
    uint64_t next_ns = deadline_of(client);
    uint64_t epoch;
    int wait_ms;
    int found;

    epoch = interests(client, fds + 1);
    next_ns = deadline_ns < next_ns ? deadline_ns : next_ns;
    client->until_ns = next_ns;
    client->epoch = epoch;
    *polls = true;
    wait_ms = wait_until(next_ns, event);
    drop_lock(client);
    found = poll(fds, in_use(fds, 3 + MST_USERS), wait_ms);
    take_lock(client);
    if (found > 0 && is_told_of_none(fds, 3 + MST_USERS)) {
        mst_lib_disown(client);
    }
    if (found > 0 && (fds[0].revents & POLLIN) != 0 && *own == event) {
        mst_system_event_quiet(event);
    }
    if (!*polls || client->poisoned) {
        return false;
    }
    *polls = false;
    (void)mst_driver_interest(client->driver, &epoch);
    if (found > 0 && epoch == client->epoch) {
        mst_driver_ready(client->driver, mst_system_now_ns(), fds[1].revents);
    }
    if (found > 0 && fds[2].revents != 0) {
        mst_lib_helper_turn(client, mst_system_now_ns(), true);
    }
    if (found > 0 && client->lost_fd == 0) {
        hooks_ready(client, fds + 3);
    }
    return true;
}

/* ---- the lock ---- */

void mst_lib_lock(muster_client *client)
{
    mst_uncancelled_begin();
    take_lock(client);
}

/* A thread that is in poll has to know of what changed under it. */
static void tell_poller(struct muster_client *client)
{
    uint64_t epoch;

    if (!client->caller_polls && !client->background_polls) {
        return;
    }
    (void)mst_driver_interest(client->driver, &epoch);
    if (epoch != client->epoch || deadline_of(client) < client->until_ns) {
        mst_system_event_ring(client->caller_polls ? client->caller_event
                                                   : client->background_event);
    }
}

void mst_lib_unlock(muster_client *client)
{
    if (client->dirty && !client->poisoned) {
        turn(client);
        mst_lib_wake_ready(client);
        tell_poller(client);
    }
    drop_lock(client);
    mst_uncancelled_end();
}

/* ---- waiting ---- */

static void take_seat(struct muster_client *client, struct mst_lib_waiter *waiter)
{
    MST_ASSERT(!client->driven);
    client->driven = true;
    waiter->driving = true;
    if (client->background_polls) {
        client->background_polls = false;
        client->background = MST_LIB_RESTS;
        mst_system_event_ring(client->background_event);
    }
}

/* To another thread that waits; the background thread comes by itself, unless it was told to stay
 * away until it is called. */
static void hand_on(struct muster_client *client)
{
    client->driven = false;
    if (!mst_list_empty(&client->waiters)) {
        struct mst_lib_waiter *next =
            MST_CONTAINER(client->waiters.next, struct mst_lib_waiter, link);

        (void)pthread_cond_signal(&next->wake);
    } else if (client->background == MST_LIB_PARKED) {
        mst_system_event_ring(client->background_event);
    }
}

static void wait_turn(struct muster_client *client, struct mst_lib_waiter *waiter,
                      uint64_t deadline_ns)
{
    struct timespec limit = mst_clock_timespec(deadline_ns);
    struct muster_client *outer = client->outer;

    mst_lib_holding = outer;
    if (deadline_ns == NEVER) {
        (void)pthread_cond_wait(&waiter->wake, &client->lock);
    } else {
        (void)pthread_cond_timedwait(&waiter->wake, &client->lock, &limit);
    }
    client->outer = outer;
    mst_lib_holding = client;
}

static void drive(struct muster_client *client, struct mst_lib_waiter *waiter, uint64_t deadline_ns)
{
    turn(client);
    if (is_over(client, waiter)) {
        mst_lib_wake_ready(client);
        return;
    }
    (void)poll_once(client, &client->caller_event, deadline_ns, &client->caller_polls);
    mst_lib_wake_ready(client);
}

static void init_wake(pthread_cond_t *wake)
{
    pthread_condattr_t attributes;

    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(wake, &attributes);
    (void)pthread_condattr_destroy(&attributes);
}

/* Who closes waits for the last of us. */
static void tell_closer(struct muster_client *client)
{
    if (client->closing) {
        mst_lib_wake_ready(client);
    }
}

static bool wait_for(struct muster_client *client, struct mst_lib_waiter *waiter,
                     uint64_t deadline_ns)
{
    bool over;

    mst_lib_wait_shown();
    init_wake(&waiter->wake);
    mst_list_append(&client->waiters, &waiter->link);
    while (!(over = is_over(client, waiter))) {
        if (deadline_ns != NEVER && mst_system_now_ns() >= deadline_ns) {
            break;
        }
        if (waiter->driving || !client->driven) {
            if (!waiter->driving) {
                take_seat(client, waiter);
            }
            drive(client, waiter, deadline_ns);
        } else {
            if (client->dirty) { /* the driver is in poll: say it here */
                turn(client);
                mst_lib_wake_ready(client);
                tell_poller(client);
                continue;
            }
            wait_turn(client, waiter, deadline_ns);
        }
    }
    mst_list_remove(&waiter->link);
    if (waiter->driving || !client->driven) {
        hand_on(client);
    }
    tell_closer(client);
    (void)pthread_cond_destroy(&waiter->wake);
    mst_lib_wait_over();
    return over;
}

void mst_lib_keep(struct muster_client *client)
{
    client->keepers++;
}

void mst_lib_let_go(struct muster_client *client)
{
    client->keepers--;
    tell_closer(client);
}

bool mst_lib_wait(muster_client *client, bool (*ready)(void *ctx), void *ctx, uint64_t deadline_ns)
{
    struct mst_lib_waiter waiter = {.ready = ready, .ctx = ctx};

    return wait_for(client, &waiter, deadline_ns);
}

bool mst_lib_wait_interruptible(struct muster_client *client, bool (*ready)(void *ctx), void *ctx,
                                uint64_t deadline_ns)
{
    struct mst_lib_waiter waiter = {.ready = ready, .ctx = ctx, .interruptible = true};

    return wait_for(client, &waiter, deadline_ns);
}

void mst_lib_interrupt(muster_client *client, bool on)
{
    client->interrupted = on;
    MST_LIB_HOOKS(hook, client, interrupted)
    {
        hook->interrupted(hook->ctx, mst_lib_now_ns(), on);
    }
    if (on) {
        mst_lib_calls_end(client, MUSTER_EINTERRUPTED);
        mst_lib_wake_ready(client);
    }
}

bool mst_lib_interrupted(const muster_client *client)
{
    return client->interrupted;
}

/* Whoever polls meanwhile is to poll the new one's descriptor. */
void mst_lib_hook(muster_client *client, enum mst_lib_user user, const struct mst_lib_hook *hook)
{
    client->hooks[user] = hook ? *hook : (struct mst_lib_hook){0};
    client->dirty = true;
    if (client->caller_polls || client->background_polls) {
        mst_system_event_ring(client->caller_polls ? client->caller_event
                                                   : client->background_event);
    }
}

void *mst_lib_hook_ctx(const muster_client *client, enum mst_lib_user user)
{
    return client->hooks[user].ctx;
}

/* ---- the background thread ---- */

void mst_lib_hurry(struct muster_client *client)
{
    client->hurry = true;
    if (client->background == MST_LIB_RESTS && !client->driven) {
        mst_system_event_ring(client->background_event);
    }
}

/* Waits for a kick, or for a moment, without the lock. */
static void stay_off(struct muster_client *client, enum mst_lib_background how)
{
    struct pollfd kick = {.fd = client->background_event, .events = POLLIN};
    uint64_t rest_ns = how == MST_LIB_PARKED ? (uint64_t)LOOK_MS * NS_PER_MS : REST_NS;
    struct timespec moment =
        mst_clock_timespec(kick.fd < 0 ? (uint64_t)DEAF_MS * NS_PER_MS : rest_ns);
    int found;

    client->background = how;
    drop_lock(client);
    found = ppoll(&kick, 1, &moment, NULL);
    take_lock(client);
    if (found > 0 && (kick.revents & POLLIN) == 0) {
        mst_lib_disown(client);
    } else if (found > 0 && client->background_event == kick.fd) {
        mst_system_event_quiet(kick.fd);
    }
}

/* The page of this process, from the agent or made later for a helper. */
static bool take_page(struct muster_client *client)
{
    bool holds = mst_page_hold(client->page);

    client->page_held = true;
    client->page_ours = holds;
    MST_LIB_HOOKS(hook, client, paged)
    {
        hook->paged(hook->ctx);
    }
    mst_lib_wake_ready(client);
    return holds;
}

/* `*holds`: the page. */
static void background_turns(struct muster_client *client, bool *holds)
{
    bool rest = false;

    while (!client->stop_thread && !client->poisoned) {
        if (client->page && !client->page_held) {
            *holds = take_page(client);
        }
        if (rest && !client->hurry) {
            stay_off(client, MST_LIB_RESTS);
            rest = false;
        } else if (client->driven || !mst_list_empty(&client->waiters)) {
            stay_off(client, MST_LIB_PARKED);
            rest = true; /* the next call may follow at once */
        } else {
            client->background = MST_LIB_DRIVES;
            client->hurry = false;
            turn(client);
            mst_lib_wake_ready(client);
            rest = !poll_once(client, &client->background_event, NEVER, &client->background_polls);
            mst_lib_wake_ready(client);
        }
    }
}

static void *background(void *ctx)
{
    struct muster_client *client = ctx;
    bool holds = false;

    mst_short_slice();
    take_lock(client);
    if (client->page) {
        holds = take_page(client);
    }
    client->thread_ready = true;
    mst_system_event_ring(client->caller_event);
    mst_lib_wake_ready(client);
    background_turns(client, &holds);
    if (holds) {
        mst_page_release(client->page);
    }
    drop_lock(client);
    return NULL;
}

static bool thread_is_ready(void *ctx)
{
    return ((struct muster_client *)ctx)->thread_ready;
}

muster_status mst_lib_background_start(struct muster_client *client, struct muster_error *err)
{
    pthread_attr_t attributes;
    sigset_t all;
    sigset_t before;
    int failed;

    if (pthread_attr_init(&attributes) != 0) {
        return mst_lib_fail(err, MUSTER_ENOMEM, "open", NULL);
    }
    (void)pthread_attr_setstacksize(&attributes, THREAD_STACK);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* the program's signals are its own */
    failed = pthread_create(&client->thread, &attributes, background, client);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
    if (failed != 0) {
        return mst_lib_fail_thread(err, "open");
    }
    client->thread_runs = true;
    mst_lib_lock(client);
    (void)mst_lib_wait(client, thread_is_ready, client, NEVER);
    mst_lib_unlock(client);
    return MUSTER_OK;
}

void mst_lib_background_stop(struct muster_client *client)
{
    if (!client->thread_runs) {
        return;
    }
    mst_uncancelled_begin();
    take_lock(client);
    client->stop_thread = true;
    mst_system_event_ring(client->background_event);
    drop_lock(client);
    (void)pthread_join(client->thread, NULL);
    mst_uncancelled_end();
    client->thread_runs = false;
}
