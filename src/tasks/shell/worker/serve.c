/* SPDX-License-Identifier: Apache-2.0 */
/* muster_worker_serve: the loop between the coordinator, the machine and the functions. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/panic.h"
#include "client/shell/sidecar/helper.h"
#include "os/system.h"
#include "tasks/shell/worker/child.h"
#include "tasks/shell/worker/worker.h"

#define BACKOFF_NS (100 * NS_PER_MS)
#define BACKOFF_MAX_NS (10 * NS_PER_S)
#define RESULTS_MAX (UINT64_C(64) << 20)
#define FAREWELL_NS UINT64_C(2000000000) /* for a coordinator that takes nothing any more */

/* How long a thread sleeps at most: the program may have closed all that would wake it. */
enum { EVENTS = 64, LOOK_MS = 1000, LEFT = -2 };

_Thread_local const struct muster_worker *mst_work_holding;

/* Lock held. */
static void disown(struct muster_worker *worker)
{
    atomic_store(&worker->wake, -1);
    worker->epoll = worker->timer = worker->leave = worker->supervisor = -1;
    for (uint32_t i = 0; i < worker->slots; i++) {
        struct mst_work_slot *slot = &worker->slot[i];

        slot->cancel_fd = slot->command.out = slot->command.error = -1;
        mst_cluster_link_disown(slot->child.link);
    }
    mst_cluster_link_disown(worker->link);
    mst_signals_disown(&worker->signalled);
}

/* Lock held. */
static void lose(struct muster_worker *worker)
{
    mst_lib_lock(worker->client);
    mst_lib_disown(worker->client);
    mst_lib_unlock(worker->client);
    atomic_store(&worker->lost, true);
    disown(worker);
}

void mst_work_lock(struct muster_worker *worker)
{
    (void)pthread_mutex_lock(&worker->lock);
    mst_work_holding = worker;
    if (atomic_load_explicit(&worker->lost, memory_order_relaxed)) {
        disown(worker);
    }
}

void mst_work_unlock(struct muster_worker *worker)
{
    mst_work_holding = NULL;
    (void)pthread_mutex_unlock(&worker->lock);
}

bool mst_work_watch_fd(struct muster_worker *worker, int fd, enum mst_work_event event,
                       uint32_t slot)
{
    struct epoll_event wanted = {.events = EPOLLIN, .data.u64 = mst_work_key(event, slot)};

    return epoll_ctl(worker->epoll, EPOLL_CTL_ADD, fd, &wanted) == 0;
}

static void __attribute__((format(printf, 3, 4)))
say(struct muster_worker *worker, enum muster_level level, const char *format, ...)
{
    char line[MST_FAILURE_TEXT_MAX];
    struct mst_text text = mst_text_in(line, sizeof(line));
    va_list arguments;

    va_start(arguments, format);
    mst_text_format_list(&text, format, arguments);
    va_end(arguments);
    mst_lib_lock(worker->client);
    mst_lib_log(worker->client, level, "%s", line);
    mst_lib_unlock(worker->client);
}

void mst_work_fail(struct muster_worker *worker, muster_status status, const char *line)
{
    if (worker->end_status == MUSTER_OK) {
        worker->end_status = status;
        say(worker, MUSTER_LEVEL_ERROR, "%s", line);
        mst_worker_ended(mst_work_machine(worker), mst_system_now_ns(), status);
    }
}

/* ---- answers ---- */

void mst_work_owe(struct muster_worker *worker, struct mst_work_job *job, enum mst_origin origin,
                  int32_t code, const char *word)
{
    job->origin = origin;
    job->code = code;
    mst_text_print(job->word, sizeof(job->word), "%s", word);
    mst_list_remove(&job->link);
    mst_list_append(&worker->owed, &job->link);
}

void mst_work_answer(struct muster_worker *worker, struct mst_work_job *job,
                     const struct mst_failure *failure, struct mst_parts parts, uint64_t run_ns)
{
    const struct mst_cluster_message *message = job->message;
    uint64_t now_ns = mst_system_now_ns();
    uint32_t slot = job->slot;

    mst_list_remove(&job->link);
    job->active = job->running = false;
    if (worker->home) {
        mst_work_home_answer(worker, job, failure, parts, run_ns);
        return;
    }
    worker->active--;
    if (message->type == MST_CLUSTER_RUN) {
        mst_worker_finished(mst_work_machine(worker), now_ns, slot, failure, parts, run_ns);
    } else {
        mst_worker_built(mst_work_machine(worker), now_ns, message->value, failure, parts);
    }
}

static void settle(struct muster_worker *worker)
{
    struct mst_list *link;

    while ((link = mst_list_take(&worker->owed)) != NULL) {
        struct mst_work_job *job = MST_CONTAINER(link, struct mst_work_job, link);
        struct mst_failure failure = {.origin = job->origin,
                                      .code = job->code,
                                      .worker = MST_WORKER_NONE,
                                      .text = mst_slice_text(job->word)};
        mst_work_answer(worker, job, &failure, (struct mst_parts){0}, 0);
    }
}

/* ---- the connection ---- */

static void close_link(struct muster_worker *worker)
{
    mst_cluster_link_free(worker->link);
    worker->link = NULL;
    worker->connected = false;
    worker->link_serial++;
}

/* False: it cannot even be tried. */
static bool open_link(struct muster_worker *worker, struct mst_slice address)
{
    struct muster_error err = {0};

    close_link(worker);
    if (mst_cluster_link_connect(&worker->link, address, worker->tls, &mst_system_mem, &err) ==
            MUSTER_OK &&
        mst_cluster_link_enrol(worker->link, worker->epoll, mst_work_key(MST_WORK_EVENT_LINK, 0)) ==
            0) {
        return true;
    }
    close_link(worker);
    say(worker, MUSTER_LEVEL_DEBUG, "cluster '%s': no connection to its coordinator: %s",
        worker->cluster, err.text);
    return false;
}

void mst_work_flush(struct muster_worker *worker)
{
    if (worker->link && worker->connected) {
        mst_cluster_link_flush(worker->link);
    }
}

/* Whether anything may still come; what does is of no interest. */
static bool hear_out(struct muster_worker *worker, uint64_t until_ns)
{
    uint64_t left_ms = mst_ms_until(until_ns, mst_system_now_ns());
    struct mst_cluster_message message;
    bool again = false;

    if (left_ms == 0 ||
        mst_cluster_link_await(worker->link, (int)left_ms, worker->room, &again) < MUSTER_OK) {
        return false;
    }
    while (mst_cluster_link_next(worker->link, &message) == MUSTER_OK) {
    }
    return true;
}

/* The last results are to come in. A socket takes only so much of them at a time, and throws away
 * what it has taken if it is closed with something unread: so the coordinator hangs up first. */
static void see_off(struct muster_worker *worker)
{
    size_t before = SIZE_MAX;
    uint64_t until_ns = 0;
    bool said = false;

    do {
        size_t left;
        uint32_t events;

        mst_work_flush(worker);
        left = mst_cluster_link_pending(worker->link);
        if (left < before) {
            before = left;
            until_ns = mst_system_now_ns() + FAREWELL_NS;
        }
        if (left == 0 && !said) {
            said = true;
            (void)shutdown(mst_cluster_link_fd(worker->link, &events), SHUT_WR);
        }
    } while (hear_out(worker, until_ns));
}

static void send_message(struct muster_worker *worker, const struct mst_cluster_message *message)
{
    if (worker->link && mst_cluster_link_send(worker->link, message) != MUSTER_OK) {
        /* The machine keeps what was not taken; a peer that takes nothing is as good as dead. */
        say(worker, MUSTER_LEVEL_WARN,
            "the coordinator does not read what this worker sends: connecting anew");
        close_link(worker);
        worker->link_lost = true;
    }
}

/* False: it is not the same connection any more. */
static bool take_messages(struct muster_worker *worker, uint64_t serial, uint64_t now_ns)
{
    struct mst_cluster_message message;

    if (!worker->connected && mst_cluster_link_up(worker->link)) {
        worker->connected = true;
        mst_worker_connected(mst_work_machine(worker), now_ns);
        mst_work_drain(worker, now_ns);
    }
    while (serial == worker->link_serial && worker->connected &&
           mst_cluster_link_next(worker->link, &message) == MUSTER_OK) {
        mst_worker_message(mst_work_machine(worker), now_ns, &message);
        mst_work_drain(worker, now_ns);
    }
    return serial == worker->link_serial;
}

static void link_ready(struct muster_worker *worker, uint32_t events, uint64_t now_ns)
{
    uint64_t serial = worker->link_serial;
    muster_status status;
    bool again = false;

    do {
        status = mst_cluster_link_ready(worker->link, events, worker->room, &again);
        if (!take_messages(worker, serial, now_ns)) {
            return;
        }
    } while (status >= MUSTER_OK && again);
    if (status < MUSTER_OK || mst_cluster_link_fd(worker->link, &events) < 0) {
        say(worker, MUSTER_LEVEL_DEBUG, "cluster '%s': %s its coordinator at %s: %s",
            worker->cluster, worker->connected ? "lost the connection to" : "no connection to",
            mst_cluster_link_peer(worker->link), mst_cluster_link_reason(worker->link));
        close_link(worker);
        mst_worker_gone(mst_work_machine(worker), now_ns);
    }
}

/* ---- the machine's effects ---- */

static const struct {
    void (*begin)(struct muster_worker *worker, struct mst_work_job *job);
    void (*stop)(struct muster_worker *worker, struct mst_work_job *job, bool kill);
} places[] = {
    [MST_WORK_HERE] = {mst_work_enqueue, mst_work_stop_here},
    [MST_WORK_CHILD] = {mst_work_child_begin, mst_work_child_stop},
    [MST_WORK_COMMAND] = {mst_work_command_begin, mst_work_command_stop},
};

static void begin(struct muster_worker *worker, const struct mst_worker_effect *effect)
{
    struct mst_work_job *job = &worker->slot[effect->slot].job;

    *job = (struct mst_work_job){.message = effect->message,
                                 .function = &worker->functions[effect->message->function],
                                 .slot = effect->slot,
                                 .active = true,
                                 .deadline_ns = effect->deadline_ns};
    worker->active++;
    /* A stop rings the event: it is quiet again for the next one. */
    if (atomic_load_explicit(&worker->flags[job->slot].stop, memory_order_relaxed)) {
        atomic_store(&worker->flags[job->slot].stop, false);
        mst_system_event_quiet(worker->slot[job->slot].cancel_fd);
    }
    places[job->function->place].begin(worker, job);
}

static void stop(struct muster_worker *worker, uint32_t slot, bool kill, uint64_t now_ns)
{
    struct mst_work_job *job = &worker->slot[slot].job;

    if (!job->active || job->origin != MST_ORIGIN_NONE) {
        return; /* its answer is under way */
    }
    if (!job->asked) {
        job->asked = true;
        job->asked_ns = now_ns;
        atomic_store(&worker->flags[slot].stop, true);
        mst_system_event_ring(worker->slot[slot].cancel_fd);
    }
    places[job->function->place].stop(worker, job, kill);
}

static void carry(struct muster_worker *worker, const struct mst_worker_effect *effect,
                  uint64_t now_ns)
{
    switch (effect->type) {
    case MST_WORKER_CONNECT:
        worker->link_lost = !open_link(worker, effect->address);
        break;
    case MST_WORKER_HANG_UP:
        mst_work_flush(worker);
        if (effect->drained && worker->link && worker->connected) {
            see_off(worker);
        }
        close_link(worker);
        worker->link_lost = false;
        break;
    case MST_WORKER_SEND:
        send_message(worker, effect->message);
        break;
    case MST_WORKER_START:
    case MST_WORKER_BUILD:
        begin(worker, effect);
        break;
    case MST_WORKER_STOP:
        stop(worker, effect->slot, effect->kill, now_ns);
        break;
    case MST_WORKER_DROP:
        mst_work_value_drop(&worker->values, effect->message->value);
        mst_work_child_drop(worker, effect->message);
        (void)pthread_cond_signal(&worker->work); /* a thread is to destroy it */
        break;
    case MST_WORKER_END:
        worker->ended = true;
        worker->end_status = effect->status;
        break;
    case MST_WORKER_SAY:
        say(worker, MUSTER_LEVEL_INFO, "%.*s", MST_SLICE_ARGS(effect->text));
        break;
    }
}

void mst_work_drain(struct muster_worker *worker, uint64_t now_ns)
{
    const struct mst_worker_effect *effect;

    settle(worker);
    if (worker->home) {
        return;
    }
    while ((effect = mst_worker_next(mst_work_machine(worker))) != NULL) {
        carry(worker, effect, now_ns);
        mst_worker_done(mst_work_machine(worker), effect);
        if (worker->link_lost) {
            worker->link_lost = false;
            mst_worker_gone(mst_work_machine(worker), now_ns);
        }
        settle(worker);
    }
    /* The thread that polls must wake for what is due earlier now, and for the end. */
    if (worker->until_ns != 0 &&
        (worker->ended || mst_worker_deadline_ns(mst_work_machine(worker)) < worker->until_ns)) {
        worker->until_ns = 0;
        mst_system_event_ring(atomic_load(&worker->wake));
    }
}

/* ---- the loop ---- */

static void look(struct muster_worker *worker, uint64_t now_ns)
{
    if (mst_work_watch_take(worker, now_ns) && !atomic_exchange(&worker->drain, true)) {
        say(worker, MUSTER_LEVEL_INFO,
            "cluster '%s' was dismissed: this worker ends once what runs is done", worker->cluster);
    }
    if (atomic_load(&worker->drain) && !worker->drained) {
        worker->drained = true;
        mst_worker_drain(mst_work_machine(worker), now_ns);
    }
}

static void take_signals(struct muster_worker *worker)
{
    char name[MST_SIGNAL_NAME_ROOM];
    pid_t from = 0;
    int number;

    mst_signals_quiet(&worker->signalled);
    while ((number = mst_signals_next(&worker->signalled, &from)) != 0) {
        if (!atomic_exchange(&worker->drain, true)) {
            mst_signals_name(name, number);
            say(worker, MUSTER_LEVEL_INFO,
                "%s: this worker takes nothing new, and ends once what runs is done", name);
        }
    }
}

static void on_event(struct muster_worker *worker, const struct epoll_event *event, uint64_t now_ns)
{
    uint32_t slot = (uint32_t)event->data.u64;

    switch ((enum mst_work_event)(event->data.u64 >> 32)) {
    case MST_WORK_EVENT_WAKE:
        mst_system_event_quiet(atomic_load(&worker->wake));
        break;
    case MST_WORK_EVENT_LINK:
        if (worker->link) {
            link_ready(worker, event->events, now_ns);
        }
        break;
    case MST_WORK_EVENT_SIGNAL:
        take_signals(worker);
        break;
    case MST_WORK_EVENT_SUPERVISOR:
        mst_work_supervisor_ready(worker);
        break;
    case MST_WORK_EVENT_CHILD:
        mst_work_child_ready(worker, slot, event->events);
        break;
    case MST_WORK_EVENT_COMMAND:
        mst_work_command_ready(worker, slot);
        break;
    }
}

static int wait_ms(struct muster_worker *worker, bool block, uint64_t now_ns)
{
    uint64_t until_ns = mst_worker_deadline_ns(mst_work_machine(worker));

    if (!block || worker->ended || until_ns <= now_ns) {
        return 0;
    }
    worker->until_ns = until_ns;
    until_ns = until_ns == NEVER ? LOOK_MS : mst_ms_up(until_ns - now_ns);
    return until_ns > LOOK_MS ? LOOK_MS : (int)until_ns;
}

/* True: to look at; false: to leave. */
static bool wait_or_leave(int epoll, int timeout, int leave)
{
    struct pollfd polled[2] = {{.fd = epoll, .events = POLLIN}, {.fd = leave, .events = POLLIN}};

    return poll(polled, 2, timeout) < 0 || (polled[1].revents & POLLIN) == 0;
}

/* How many there are; -1 and errno; LEFT: another thread polls now. The lock is released meanwhile.
 * With nothing to run, the serving thread waits for the coordinator. What runs has a limit of its
 * own, and a thread that serves while it runs is in the function as if it ran there. */
static int await_events(struct muster_worker *worker, struct epoll_event events[EVENTS],
                        int timeout, int leave)
{
    bool idle = worker->active == 0 && leave < 0, stay;
    int epoll = worker->epoll, count, failed;

    if (timeout == 0) {
        return epoll_wait(epoll, events, EVENTS, 0);
    }
    mst_work_unlock(worker);
    if (leave >= 0) {
        stay = wait_or_leave(epoll, timeout, leave);
        mst_work_lock(worker);
        /* What was taken here would not wake the thread that polls. */
        return stay && worker->inside ? epoll_wait(worker->epoll, events, EVENTS, 0) : LEFT;
    }
    if (idle) {
        mst_lib_thread.waits_for = "serve";
        mst_lib_wait_shown();
    }
    count = epoll_wait(epoll, events, EVENTS, timeout);
    failed = errno;
    if (idle) {
        mst_lib_wait_over();
        mst_lib_thread.waits_for = NULL;
    }
    mst_work_lock(worker);
    errno = failed;
    return count;
}

void mst_work_turn(struct muster_worker *worker, bool block, int leave)
{
    struct epoll_event events[EVENTS];
    uint64_t now_ns = mst_system_now_ns();
    int count;

    look(worker, now_ns);
    mst_work_drain(worker, now_ns);
    mst_work_flush(worker);
    count = await_events(worker, events, wait_ms(worker, block, now_ns), leave);
    if (count == LEFT) {
        return;
    }
    if (count < 0 && errno != EINTR) {
        lose(worker);
        mst_work_fail(worker, MUSTER_EUNREACHABLE,
                      "the worker lost its epoll descriptor: this program closed a descriptor of "
                      "muster's");
    }
    worker->until_ns = 0;
    now_ns = mst_system_now_ns();
    worker->flushed_ns = now_ns;
    for (int i = 0; i < count; i++) {
        on_event(worker, &events[i], now_ns);
    }
    look(worker, now_ns);
    if (now_ns >= mst_worker_deadline_ns(mst_work_machine(worker))) {
        mst_worker_tick(mst_work_machine(worker), now_ns);
    }
    mst_work_drain(worker, now_ns);
}

/* What waits for a thread that is this one. */
static void run_some(struct muster_worker *worker)
{
    struct mst_work_job *job;

    while (!worker->ended && (job = mst_work_take(worker)) != NULL) {
        uint64_t flushed_ns = worker->flushed_ns;

        mst_work_run(worker, job);
        if (worker->flushed_ns != flushed_ns) { /* a while has passed: has anything come? */
            mst_work_turn(worker, false, -1);
        }
    }
}

static void loop(struct muster_worker *worker)
{
    mst_work_lock(worker);
    while (!worker->ended) {
        if (worker->slots == 1) {
            run_some(worker);
        }
        if (worker->slots == 1 || worker->thread_count == 0) { /* else one of these does */
            (void)mst_work_collect(worker);
        }
        mst_work_turn(worker, worker->slots > 1 || mst_list_empty(&worker->waiting), -1);
    }
    mst_work_flush(worker);
    mst_work_unlock(worker);
}

/* ---- from the beginning to the end ---- */

static muster_status make_slots(struct muster_worker *worker, struct muster_error *err)
{
    void *shared = mmap(NULL, worker->slots * sizeof(*worker->flags), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    worker->flags = shared != MAP_FAILED ? shared : NULL;
    worker->slot = calloc(worker->slots, sizeof(*worker->slot));
    if (!worker->flags || !worker->slot) {
        return mst_lib_fail(err, MUSTER_ENOMEM, "serve", NULL);
    }
    for (uint32_t i = 0; i < worker->slots; i++) {
        worker->slot[i] =
            (struct mst_work_slot){.cancel_fd = -1, .command = {.out = -1, .error = -1}};
        mst_work_values_init(&worker->slot[i].child.known);
    }
    for (uint32_t i = 0; i < worker->slots; i++) {
        worker->slot[i].cancel_fd = mst_system_event();
        if (worker->slot[i].cancel_fd < 0) {
            return mst_lib_fail_system(err, "serve", errno);
        }
    }
    return MUSTER_OK;
}

static void free_slot(struct muster_worker *worker, struct mst_work_slot *slot)
{
    mst_work_child_forget(&slot->child);
    mst_work_command_forget(worker, &slot->command);
    if (slot->cancel_fd >= 0) {
        (void)close(slot->cancel_fd);
    }
}

static muster_status make_machine(struct muster_worker *worker, struct muster_error *err)
{
    struct mst_function *functions = calloc(worker->function_count + 1, sizeof(*functions));
    struct mst_worker_config config = {.cluster = mst_slice_text(worker->cluster),
                                       .pid = (uint64_t)getpid(),
                                       .host = mst_slice_text(worker->client->host),
                                       .slots = worker->slots,
                                       .functions = functions,
                                       .function_count = worker->function_count,
                                       .cancel_grace_ns = worker->cancel_grace_ns,
                                       .backoff_ns = BACKOFF_NS,
                                       .backoff_max_ns = BACKOFF_MAX_NS,
                                       .results_max = RESULTS_MAX};
    muster_status status;

    if (!functions) {
        return mst_lib_fail(err, MUSTER_ENOMEM, "serve", NULL);
    }
    for (uint32_t i = 0; i < worker->function_count; i++) {
        const struct mst_work_function *function = &worker->functions[i];

        functions[i] = (struct mst_function){.name = mst_slice_text(function->name),
                                             .version = function->version,
                                             .flags = function->flags};
    }
    mst_system_random(&config.seed, 1);
    mst_lib_lock(worker->client);
    config.index = worker->index = mst_lib_view(worker->client)->index;
    config.incarnation = mst_lib_view(worker->client)->incarnation;
    mst_lib_unlock(worker->client);
    status = mst_worker_new(&worker->machine, mst_system_now_ns(), &config, &mst_system_mem);
    free(functions);
    return status == MUSTER_OK ? status : mst_lib_fail(err, status, "serve", NULL);
}

static muster_status make_loop(struct muster_worker *worker, struct muster_error *err)
{
    worker->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (worker->epoll < 0) {
        return mst_lib_fail_system(err, "serve", errno);
    }
    worker->room = malloc(MST_CLUSTER_LINK_ROOM);
    if (!worker->room) {
        return mst_lib_fail(err, MUSTER_ENOMEM, "serve", NULL);
    }
    return mst_work_watch_fd(worker, atomic_load(&worker->wake), MST_WORK_EVENT_WAKE, 0) &&
                   (worker->supervisor < 0 ||
                    mst_work_watch_fd(worker, worker->supervisor, MST_WORK_EVENT_SUPERVISOR, 0))
               ? MUSTER_OK
               : mst_lib_fail_system(err, "serve", errno);
}

/* All that can fail for want of memory or descriptors, and nothing that is seen outside. */
static muster_status prepare(struct muster_worker *worker, struct muster_error *err)
{
    muster_status (*const steps[])(struct muster_worker *, struct muster_error *) = {
        make_slots, mst_work_supervisor_start, /* before there are more threads */
        make_loop, make_machine};
    muster_status status = MUSTER_OK;

    worker->epoll = worker->timer = worker->leave = worker->supervisor = -1;
    mst_list_init(&worker->waiting);
    mst_list_init(&worker->owed);
    mst_work_values_init(&worker->values);
    (void)pthread_mutex_init(&worker->lock, NULL);
    (void)pthread_cond_init(&worker->work, NULL);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && status == MUSTER_OK; i++) {
        status = steps[i](worker, err);
    }
    return status;
}

static void clean_up(struct muster_worker *worker)
{
    close_link(worker);
    mst_work_supervisor_end(worker);
    mst_worker_free(worker->machine);
    worker->machine = NULL;
    mst_work_values_fini(&worker->values);
    for (uint32_t i = 0; worker->slot && i < worker->slots; i++) {
        free_slot(worker, &worker->slot[i]);
    }
    if (worker->flags) {
        (void)munmap(worker->flags, worker->slots * sizeof(*worker->flags));
    }
    if (worker->epoll >= 0) {
        (void)close(worker->epoll);
    }
    free(worker->slot);
    free(worker->room);
    (void)pthread_cond_destroy(&worker->work);
    (void)pthread_mutex_destroy(&worker->lock);
}

static muster_status say_end(struct muster_worker *worker, struct muster_error *err)
{
    muster_status status = worker->end_status;

    if (status == MUSTER_OK) {
        return MUSTER_OK;
    }
    mst_lib_lock(worker->client);
    if (mst_lib_status(worker->client) != MUSTER_OK) {
        status = mst_lib_fail_again(worker->client, err, "serve");
    } else {
        status = mst_lib_fail(err, status, "serve", NULL);
    }
    mst_lib_unlock(worker->client);
    return status;
}

static muster_status run_threads(struct muster_worker *worker, struct muster_error *err)
{
    muster_status status = mst_work_threads_start(worker, err);

    if (status == MUSTER_OK) {
        loop(worker);
        status = say_end(worker, err);
    }
    mst_work_threads_stop(worker);
    return status;
}

static muster_status run(struct muster_worker *worker, struct muster_error *err)
{
    /* Its agent's signals, too, are taken as "finish what runs, and end". */
    muster_status status = mst_signals_open(&worker->signalled, worker->signals, NULL, err);

    if (status != MUSTER_OK) {
        return status;
    }
    if (worker->signalled.event >= 0 &&
        !mst_work_watch_fd(worker, worker->signalled.event, MST_WORK_EVENT_SIGNAL, 0)) {
        status = mst_lib_fail_system(err, "serve", errno);
    } else {
        status = mst_work_watch_start(worker, err);
    }
    if (status == MUSTER_OK) {
        status = run_threads(worker, err);
        mst_work_watch_stop(worker);
    }
    mst_signals_close(&worker->signalled);
    return status;
}

static muster_status enter(struct muster_worker *worker, struct muster_error *err)
{
    muster_status status;

    mst_lib_lock(worker->client);
    mst_lib_keep(worker->client);
    status = mst_lib_status(worker->client);
    if (status == MUSTER_OK) {
        mst_lib_helper_begin(worker->client); /* where no agent watches this process */
    } else {
        status = mst_lib_fail_again(worker->client, err, "serve");
    }
    mst_lib_unlock(worker->client);
    return status;
}

muster_status mst_work_serve(struct muster_worker *worker, struct muster_error *err)
{
    muster_status status = enter(worker, err);

    if (status == MUSTER_OK) {
        status = mst_lib_secret_tls(worker->client, MST_TLS_CLIENT, &worker->tls, err);
    }
    if (status == MUSTER_OK) {
        status = prepare(worker, err);
        status = status == MUSTER_OK ? run(worker, err) : status;
        clean_up(worker);
    }
    mst_tls_context_free(worker->tls);
    mst_lib_lock(worker->client);
    mst_lib_let_go(worker->client);
    mst_lib_unlock(worker->client);
    return status;
}
