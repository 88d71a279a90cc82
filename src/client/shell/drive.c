/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that blocks drives. A waiting thread that finds the connection undriven polls it itself:
 * the answer then costs one wake-up, of the thread that wants it. The background thread polls only
 * while no thread waits, and stays off for a moment after a caller has left: the seat of a program
 * that makes one call after the other would otherwise go back and forth each time. It looks by
 * itself whether callers still come and go, so a caller makes no system call for it, except after a
 * wait in which the background thread has stopped looking. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <time.h>

#include "base/panic.h"
#include "client/shell/handle.h"
#include "client/shell/sidecar/serve.h"
#include "client/shell/uncancelled.h"
#include "os/clock.h"
#include "os/monotonic.h"
#include "os/short_slice.h"
#include "os/system.h"
#include "os/thread.h"
#include "process/page.h"

#define REST_MS 1                 /* of the background thread, after a caller took its seat */
#define REST_LONG_MS 8            /* and then, while call follows call */
#define DEAF_MS 100               /* the longest poll of a thread without an event */
#define LOOK_MS 1000              /* of one with an event, which the program may have closed */
#define SLEEP_NS (50 * NS_PER_MS) /* of a thread that no signal wakes, and that looks for one */
#define THREAD_STACK ((size_t)256 * 1024)

enum { POLLED = 2 + MST_USERS }; /* the thread's event, the connection, the hooks */

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
    uint64_t deadline_ns = mst_driver_deadline_ns(client->driver);
    const struct mst_lib_timer *timer = timer_first(client);

    MST_LIB_HOOKS(hook, client, deadline_ns)
    {
        deadline_ns = mst_sooner(deadline_ns, hook->deadline_ns(hook->ctx));
    }
    return timer ? mst_sooner(deadline_ns, timer->at_ns) : deadline_ns;
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

/* What is polled, the event apart: the connection, then the hooks. */
static uint64_t interests(const struct muster_client *client, struct pollfd *fds)
{
    uint64_t epoch;

    fds[0] = mst_driver_interest(client->driver, &epoch);
    for (size_t i = 0; i < MST_USERS; i++) {
        const struct mst_lib_hook *hook = &client->hooks[i];
        bool polled = hook->event && client->lost_fd == 0;

        fds[i + 1] = (struct pollfd){.fd = polled ? hook->event(hook->ctx) : -1, .events = POLLIN};
    }
    return epoch;
}

/* A hook that was replaced meanwhile has another descriptor. */
static void hooks_ready(struct muster_client *client, const struct pollfd *fds)
{
    for (size_t i = 0; i < MST_USERS; i++) {
        const struct mst_lib_hook *hook = &client->hooks[i];

        if (fds[i].revents != 0 && hook->event && hook->event(hook->ctx) == fds[i].fd) {
            hook->rung(hook->ctx, mst_system_now_ns());
        }
    }
}

/* The number of entries up to the last one that is in use: poll accepts no more entries than the
 * process may have open descriptors. */
static nfds_t in_use(const struct pollfd *fds, nfds_t count)
{
    while (count > 0 && fds[count - 1].fd < 0) {
        count--;
    }
    return count;
}

/* For poll, not ppoll: that would wait for the rest of its time again when the process is stopped
 * and continued in it. */
static int wait_until(uint64_t next_ns, int event)
{
    if (next_ns == NEVER) {
        return event < 0 ? DEAF_MS : LOOK_MS;
    }
    return (int)mst_sooner(mst_ms_until(next_ns, mst_system_now_ns()),
                           event < 0 ? DEAF_MS : INT_MAX);
}

/* ---- a program that closes what is not its own ---- */

static bool any_invalid(const struct pollfd *fds, nfds_t count)
{
    for (nfds_t i = 0; i < count; i++) {
        if ((fds[i].revents & POLLNVAL) != 0) {
            return true;
        }
    }
    return false;
}

/* Poll found a descriptor that is not open. The library itself may have closed it since, without
 * the lock; so the descriptors of now are checked. -1: all are open. */
static int closed_one(const struct muster_client *client)
{
    struct pollfd fds[POLLED + 1] = {{.fd = client->caller_event},
                                     {.fd = client->background_event}};

    (void)interests(client, fds + 2);
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        if (fds[i].fd >= 0 && fcntl(fds[i].fd, F_GETFD) < 0) {
            return fds[i].fd;
        }
    }
    return -1;
}

/* The program may have closed the others too, and their numbers may be files of its own by now:
 * nothing is written to any of them, and none is closed. The session ends. The threads get new
 * events, by which they learn of that. */
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
    mst_lib_alone_disown(client->alone);
    MST_LIB_HOOKS(hook, client, disowned)
    {
        hook->disowned(hook->ctx);
    }
    mst_client_give_up(mst_lib_machine(client), now_ns, MUSTER_EUNREACHABLE);
    mst_driver_turn(client->driver, now_ns);
    mst_lib_wake_ready(client);
}

void mst_lib_background_ring(struct muster_client *client)
{
    mst_system_event_ring(client->background_event);
}

/* Polls without the lock, then processes what arrived. `*polls` is true meanwhile; a caller that
 * takes the seat from the background thread sets it to false, and this returns false. `*own`: this
 * thread's event; disowning replaces it. */
static bool poll_once(struct muster_client *client, const int *own, uint64_t deadline_ns,
                      bool *polls, bool *signalled)
{
    int event = *own;
    struct pollfd fds[POLLED] = {{.fd = event, .events = POLLIN}};
    uint64_t epoch;
    int wait_ms;
    int found;

    client->until_ns = mst_sooner(deadline_ns, deadline_of(client));
    client->epoch = interests(client, fds + 1);
    *polls = true;
    wait_ms = wait_until(client->until_ns, event);
    drop_lock(client);
    found = poll(fds, in_use(fds, POLLED), wait_ms);
    *signalled = found < 0 && errno == EINTR;
    take_lock(client);
    if (found > 0 && any_invalid(fds, POLLED)) {
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
    if (found > 0 && client->lost_fd == 0) {
        hooks_ready(client, fds + 2);
    }
    return true;
}

/* ---- the lock ---- */

void mst_lib_lock(muster_client *client)
{
    mst_uncancelled_begin();
    take_lock(client);
}

void mst_lib_wake_poller(struct muster_client *client)
{
    if (client->caller_polls) {
        mst_system_event_ring(client->caller_event);
    } else if (client->background_polls) {
        mst_lib_background_ring(client);
    }
}

/* A thread that is in poll meanwhile must learn of what changes. */
static void turn_for_poller(struct muster_client *client)
{
    uint64_t epoch;

    turn(client);
    mst_lib_wake_ready(client);
    (void)mst_driver_interest(client->driver, &epoch);
    if (epoch != client->epoch || deadline_of(client) < client->until_ns) {
        mst_lib_wake_poller(client);
    }
}

void mst_lib_unlock(muster_client *client)
{
    if (client->dirty && !client->poisoned && !client->closed) {
        turn_for_poller(client);
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
        client->background = MST_LIB_PARKED;
        mst_lib_background_ring(client);
    }
}

static bool is_asleep(const struct muster_client *client)
{
    return client->rest_ms > REST_LONG_MS;
}

/* To another thread that waits, or to the background thread. That comes by itself after its rest,
 * unless it sleeps, or is wanted at once because a call was started. */
static void hand_on(struct muster_client *client)
{
    client->driven = false;
    client->left++;
    if (!mst_list_empty(&client->waiters)) {
        struct mst_lib_waiter *next =
            MST_CONTAINER(client->waiters.next, struct mst_lib_waiter, link);

        (void)pthread_cond_signal(&next->wake);
    } else if (client->background == MST_LIB_PARKED && (is_asleep(client) || client->hurry)) {
        mst_lib_background_ring(client);
    }
}

static void wait_rung(struct muster_client *client, struct mst_lib_waiter *waiter,
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

/* No signal ends a wait for a condition. */
static void wait_turn(struct muster_client *client, struct mst_lib_waiter *waiter,
                      uint64_t deadline_ns)
{
    if (waiter->until_signal) {
        deadline_ns = mst_sooner(deadline_ns, mst_after_ns(mst_system_now_ns(), SLEEP_NS));
    }
    wait_rung(client, waiter, deadline_ns);
    waiter->signalled = mst_system_now_ns() >= deadline_ns;
}

static void drive(struct muster_client *client, struct mst_lib_waiter *waiter, uint64_t deadline_ns)
{
    turn(client);
    if (!is_over(client, waiter)) {
        (void)poll_once(client, &client->caller_event, deadline_ns, &client->caller_polls,
                        &waiter->signalled);
    }
    mst_lib_wake_ready(client);
}

/* The thread that closes waits for the last of the others. */
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
    mst_monotonic_cond_init(&waiter->wake);
    mst_list_append(&client->waiters, &waiter->link);
    while (!(over = is_over(client, waiter))) {
        if (deadline_ns != NEVER && mst_system_now_ns() >= deadline_ns) {
            break;
        }
        if (waiter->until_signal && waiter->signalled) {
            break;
        }
        if (waiter->driving || !client->driven) {
            if (!waiter->driving) {
                take_seat(client, waiter);
            }
            drive(client, waiter, deadline_ns);
        } else {
            if (client->dirty) { /* the driver is in poll */
                turn_for_poller(client);
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

bool mst_lib_wait_until_signal(struct muster_client *client, bool (*ready)(void *ctx), void *ctx,
                               uint64_t deadline_ns)
{
    struct mst_lib_waiter waiter = {.ready = ready, .ctx = ctx, .until_signal = true};

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

/* A thread that polls meanwhile must poll the new hook's descriptor. */
void mst_lib_hook(muster_client *client, enum mst_lib_user user, const struct mst_lib_hook *hook)
{
    client->hooks[user] = hook ? *hook : (struct mst_lib_hook){0};
    client->dirty = true;
    mst_lib_wake_poller(client);
}

void *mst_lib_hook_ctx(const muster_client *client, enum mst_lib_user user)
{
    return client->hooks[user].ctx;
}

/* ---- a loop of the program ---- */

void mst_lib_drive(muster_client *client, short found, struct mst_lib_interest *interest)
{
    struct pollfd polled;
    uint64_t epoch;

    mst_lib_lock(client);
    (void)mst_driver_interest(client->driver, &epoch);
    if (client->poisoned) {
        *interest = (struct mst_lib_interest){.fd = -1, .epoch = epoch, .until_ns = NEVER};
        mst_lib_unlock(client);
        return;
    }
    if (epoch == interest->epoch) {
        mst_driver_ready(client->driver, mst_system_now_ns(), found);
    }
    do {
        turn(client); /* in which a callback may make or drop a call */
    } while (client->dirty && !client->poisoned);
    polled = mst_driver_interest(client->driver, &interest->epoch);
    interest->fd = polled.fd;
    interest->events = polled.events;
    interest->until_ns = deadline_of(client);
    mst_lib_unlock(client);
}

/* ---- the background thread ---- */

void mst_lib_hurry(struct muster_client *client)
{
    client->hurry = true;
    if (client->background == MST_LIB_PARKED && !client->driven) {
        mst_lib_background_ring(client);
    }
}

/* Without the lock, until its end or until it is rung. */
static void rest(struct muster_client *client)
{
    struct pollfd kick = {.fd = client->background_event, .events = POLLIN};
    int found;

    client->background = MST_LIB_PARKED;
    drop_lock(client);
    found = poll(&kick, 1, client->rest_ms);
    take_lock(client);
    if (found > 0 && (kick.revents & POLLIN) == 0) {
        mst_lib_disown(client);
    } else if (found > 0 && client->background_event == kick.fd) {
        mst_system_event_quiet(kick.fd);
    }
}

/* Its next rest, in milliseconds; 0: it drives. Callers come again soon if two have left since its
 * last rest began. One that has waited all that time may wait for long: the thread sleeps until
 * that one has left. */
static int next_rest(struct muster_client *client)
{
    bool driven = client->driven || !mst_list_empty(&client->waiters);
    bool rested = client->rest_ms > 0 && !is_asleep(client);
    uint32_t left = client->left - client->left_before;

    client->left_before = client->left;
    if (!driven &&
        (client->background == MST_LIB_DRIVES || client->hurry || (rested && left < 2))) {
        return 0;
    }
    if (driven && left == 0 && client->rest_ms >= REST_LONG_MS) {
        return client->background_event < 0 ? DEAF_MS : LOOK_MS;
    }
    return rested ? REST_LONG_MS : REST_MS;
}

/* The page of this process, from its agent or created later for a helper. */
static void take_page(struct muster_client *client)
{
    client->page_held = true;
    client->page_ours = mst_page_hold(client->page);
    MST_LIB_HOOKS(hook, client, paged)
    {
        hook->paged(hook->ctx);
    }
    mst_lib_wake_ready(client);
}

/* Until it is stopped. */
static void background_turns(struct muster_client *client)
{
    bool ignored;

    while (!client->stop_thread && !client->poisoned) {
        if (client->page && !client->page_held) {
            take_page(client);
        }
        client->rest_ms = next_rest(client);
        if (client->rest_ms > 0) {
            rest(client);
        } else {
            client->background = MST_LIB_DRIVES;
            client->hurry = false;
            turn(client);
            mst_lib_wake_ready(client);
            (void)poll_once(client, &client->background_event, NEVER, &client->background_polls,
                            &ignored);
            mst_lib_wake_ready(client);
        }
    }
}

static void *background(void *ctx)
{
    struct muster_client *client = ctx;

    mst_short_slice();
    take_lock(client);
    if (client->page) {
        take_page(client);
    }
    client->thread_ready = true;
    mst_system_event_ring(client->caller_event);
    mst_lib_wake_ready(client);
    background_turns(client);
    if (client->page_ours) {
        mst_page_release(client->page);
    }
    drop_lock(client);
    return NULL;
}

static bool is_ready(void *ctx)
{
    return ((struct muster_client *)ctx)->thread_ready;
}

muster_status mst_lib_background_start(struct muster_client *client, struct muster_error *err)
{
    if (mst_thread_start(&client->thread, THREAD_STACK, background, client) != 0) {
        return mst_lib_fail_thread(err, "open");
    }
    client->thread_runs = true;
    mst_lib_lock(client);
    (void)mst_lib_wait(client, is_ready, client, NEVER);
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
    mst_lib_background_ring(client);
    drop_lock(client);
    (void)pthread_join(client->thread, NULL);
    mst_uncancelled_end();
    client->thread_runs = false;
}
