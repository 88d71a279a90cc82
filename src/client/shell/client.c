/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and looking at a client; close.c ends it. */
#define _GNU_SOURCE
#include "muster/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/shell/call.h"
#include "client/shell/options.h"
#include "client/shell/orphan.h"
#include "client/shell/uncancelled.h"
#include "os/descriptors.h"
#include "os/own_pid.h"
#include "os/system.h"
#include "process/page.h"

#define STANDARD_OPEN_NS (10000 * NS_PER_MS)

enum { HOST_ROOM = 256 };

/* ---- calls of the driver, lock held ---- */

static void on_done(void *ctx, const struct mst_client_effect *effect)
{
    uintptr_t tag = (uintptr_t)effect->tag;
    struct mst_lib_post *post;

    (void)ctx;
    memcpy(&post, &tag, sizeof(tag)); /* the post is its own tag */
    if (post->open) {
        post->open = false;
        post->local = effect->local;
        post->complete(post->ctx, effect->reply);
    }
}

static void tell_holder(struct muster_client *client)
{
    const struct mst_who *who = mst_client_holder(mst_lib_machine(client));

    if (!who || client->holder_logged) {
        return;
    }
    client->holder_logged = true;
    mst_lib_log(client, MUSTER_LEVEL_INFO,
                "waiting for place #%u, held by process %" PRIu64 " on %.*s, heard " MST_SECONDS
                " ago: taken over once that process is lost",
                who->index, who->pid, MST_SLICE_ARGS(who->host), MST_SECONDS_ARGS(who->heard_ms));
}

static void on_attention(void *ctx, uint64_t now_ns)
{
    struct muster_client *client = ctx;
    const struct mst_client *machine = mst_lib_machine(client);

    tell_holder(client);
    MST_LIB_HOOKS(hook, client, attention)
    {
        hook->attention(hook->ctx, now_ns, mst_client_view(machine), mst_client_stopped(machine));
    }
}

static void say_cut_off(const struct muster_client *client, struct mst_text *text)
{
    char log[MST_SOCKET_PATH_MAX];
    bool has_log = client->shares && mst_socket_log(client->addr, log);

    if (client->lost_fd > 0) {
        mst_text_format(
            text,
            "descriptor %d, which was muster's, was closed by this program: the session is over; a "
            "program that closes all it has inherited does so before muster_client_open",
            client->lost_fd);
        return;
    }
    mst_text_format(text,
                    "the service at %s, which %s had started, has ended, and its state is lost%s%s",
                    client->addr, client->alone ? "this process" : "the first rank of this machine",
                    has_log ? "; its log is " : "", has_log ? log : "");
}

bool mst_lib_cut_off(const struct muster_client *client)
{
    return client->service_gone || client->lost_fd > 0;
}

/* Every later call fails with this reason. */
static void on_ended(void *ctx, uint64_t now_ns, const struct mst_client_effect *effect)
{
    struct muster_client *client = ctx;
    struct mst_text text = mst_text_in(client->end_text, sizeof(client->end_text));

    client->ended = true;
    if (effect->status == MUSTER_OK) {
        client->end_status = MUSTER_ECANCELLED;
        mst_text_add(&text, "this member has left the job");
    } else if (mst_lib_cut_off(client)) {
        client->end_status = effect->status;
        say_cut_off(client, &text);
        mst_lib_log(client, MUSTER_LEVEL_ERROR, "%s", client->end_text);
    } else {
        struct muster_error said = {0};

        client->end_status = effect->status;
        (void)mst_lib_fail(&said, effect->status, "", effect->reply);
        mst_text_add(&text, said.text + 2); /* without ": " */
        mst_lib_log(client, MUSTER_LEVEL_ERROR, "%s", client->end_text);
    }
    MST_LIB_HOOKS(hook, client, ended)
    {
        hook->ended(hook->ctx, now_ns, client->end_status);
    }
}

static void on_trouble(void *ctx, int os_errno, const char *line)
{
    struct muster_client *client = ctx;

    mst_text_print(client->trouble, sizeof(client->trouble), "%s", line);
    client->trouble_errno = os_errno;
    if (client->was_online) { /* once per outage */
        client->was_online = false;
        client->outages++;
        client->trouble_logged = true;
        mst_lib_log(client, MUSTER_LEVEL_WARN, "%s", line);
    }
}

static void on_targets(void *ctx, const char *line)
{
    mst_lib_log(ctx, MUSTER_LEVEL_INFO, "%s", line);
}

/* Such a service is not started again, and its state was nowhere else: once its socket refuses, the
 * session is over. */
static bool is_gone(const struct muster_client *client)
{
    const struct mst_client *machine = mst_lib_machine(client);

    return (client->alone || client->shares) && mst_client_lease_ns(machine) > 0 &&
           client->trouble[0] != '\0' &&
           (client->trouble_errno == ECONNREFUSED || client->trouble_errno == ENOENT);
}

/* A connection that the machine closed for its silence is no error of the socket. */
void mst_lib_look(struct muster_client *client)
{
    bool online = mst_client_online(mst_lib_machine(client));

    if (!online && !client->ended && is_gone(client)) {
        uint64_t now_ns = mst_lib_now_ns();

        client->service_gone = true;
        mst_client_give_up(mst_lib_machine(client), now_ns, MUSTER_EUNREACHABLE);
        mst_driver_turn(client->driver, now_ns);
    }
    if (online == client->was_online || client->ended) {
        return;
    }
    if (!online) {
        on_trouble(client, 0, "the service does not answer");
        return;
    }
    client->was_online = true;
    client->trouble[0] = '\0';
    if (client->trouble_logged) {
        client->trouble_logged = false;
        mst_lib_log(client, MUSTER_LEVEL_INFO, "connected to the service again");
    }
}

void mst_lib_log(muster_client *client, enum muster_level level, const char *format, ...)
{
    char line[1400];
    struct mst_text text = mst_text_in(line, sizeof(line));
    va_list arguments;

    if (client->log) {
        va_start(arguments, format);
        mst_text_format_list(&text, format, arguments);
        va_end(arguments);
        client->log(client->log_ctx, level, line);
    }
}

/* ---- state, lock held ---- */

muster_status mst_lib_status(const muster_client *client)
{
    if (client->poisoned) {
        return MUSTER_EINTERNAL;
    }
    if (client->ended) {
        return client->end_status;
    }
    return client->closing ? MUSTER_ECANCELLED : MUSTER_OK;
}

const struct mst_view *mst_lib_view(const muster_client *client)
{
    return mst_client_view(mst_lib_machine(client));
}

bool mst_lib_stopped(const muster_client *client)
{
    return mst_client_stopped(mst_lib_machine(client));
}

struct mst_page *mst_lib_page(muster_client *client)
{
    return client->page_ours ? client->page : NULL;
}

void mst_lib_iteration(muster_client *client, uint64_t iteration)
{
    client->iteration = iteration;
}

/* ---- opening ---- */

static enum mst_targets_tcp tcp_of(const struct muster_client *client,
                                   const struct mst_lib_wanted *wanted)
{
    if (client->tls) {
        return MST_TARGETS_ANY_TCP;
    }
    if (mst_lib_secret_given(&wanted->secret)) {
        return MST_TARGETS_NO_TCP;
    }
    return wanted->secret.insecure ? MST_TARGETS_ANY_TCP : MST_TARGETS_LOCAL_TCP;
}

static muster_status make_driver(struct muster_client *client, struct mst_lib_wanted *wanted)
{
    struct mst_driver_config config = {.endpoints = wanted->endpoints,
                                       .done = on_done,
                                       .attention = on_attention,
                                       .ended = on_ended,
                                       .trouble = on_trouble,
                                       .targets = on_targets,
                                       .tcp = tcp_of(client, wanted),
                                       .tls = client->tls,
                                       .ctx = client};
    uint64_t random[3];

    mst_system_random(random, 3);
    wanted->open.token = (struct mst_token){.high = random[0] | 1, .low = random[1]};
    wanted->open.job = mst_slice_text(client->job);
    wanted->open.host = mst_slice_text(client->host);
    if (wanted->open.pid == 0) {
        wanted->open.pid = (uint64_t)getpid();
    }
    config.client.seed = random[2];
    config.client.open = wanted->open;
    config.client.limits = mst_limits_default;
    config.client.end_ns = mst_lib_end_ns();
    return mst_driver_new(&client->driver, &config, &mst_system_mem);
}

static muster_status fill_client(struct muster_client *client, struct mst_lib_wanted *wanted,
                                 struct muster_error *err)
{
    const char *host = wanted->options.host;
    char own_host[HOST_ROOM] = "?";
    muster_status status;

    client->role = wanted->open.role;
    client->fixed_size = wanted->open.size != 0 && wanted->open.min_size == wanted->open.size;
    client->log = wanted->options.log;
    client->log_ctx = wanted->options.log_ctx;
    client->caller_event = mst_system_event();
    client->background_event = client->caller_event < 0 ? -1 : mst_system_event();
    if (client->background_event < 0) {
        return mst_lib_fail_system(err, "open", errno);
    }
    (void)gethostname(own_host, sizeof(own_host) - 1);
    client->addr = strdup(wanted->options.addr);
    client->job = strdup(wanted->options.job);
    client->host = strdup(host && *host ? host : own_host);
    if (!client->addr || !client->job || !client->host) {
        return mst_lib_fail(err, MUSTER_ENOMEM, "open", NULL);
    }
    client->heard = mst_lib_heard(client->job);
    if (wanted->page_fd >= 0 &&
        (client->role == MST_ROLE_RANK || client->role == MST_ROLE_WORKER) &&
        mst_page_map(&client->page, (int)wanted->page_fd) != MUSTER_OK) {
        mst_lib_log(client, MUSTER_LEVEL_WARN,
                    "MUSTER_PAGE_FD is no progress page (was the descriptor closed?): the end of "
                    "this process is noticed later");
    }
    mst_lib_orphan_watch(client);
    status = make_driver(client, wanted);
    return status == MUSTER_OK ? status : mst_lib_fail(err, status, "open", NULL);
}

/* The service of a job of one, or of this machine's ranks. */
static muster_status start_service(struct muster_client *client, struct mst_lib_wanted *wanted,
                                   uint64_t deadline_ns, struct muster_error *err)
{
    muster_status status;

    if (wanted->share) {
        client->shares = true;
        status = mst_lib_share(wanted->options.job, wanted->where.whose, deadline_ns,
                               wanted->own_addr, err);
    } else {
        status = mst_lib_alone_start(&client->alone, wanted->own_job, wanted->own_addr, err);
        if (!wanted->options.job) {
            wanted->options.job = wanted->own_job;
        }
        if (wanted->open.size == 0) {
            wanted->open.size = 1;
        }
    }
    wanted->options.addr = wanted->own_addr;
    return status == MUSTER_OK ? mst_lib_wanted_endpoints(wanted, err) : status;
}

/* A retry with a wrong secret is useless. In a later outage the client retries: the service may
 * come back with the secret that it had. */
static bool is_shut_out(const struct muster_client *client)
{
    return client->trouble_errno == EKEYREJECTED;
}

static bool is_answered(void *ctx)
{
    struct muster_client *client = ctx;

    return mst_client_online(mst_lib_machine(client)) || client->ended ||
           (client->trouble[0] != '\0' && (client->alone || client->shares || is_shut_out(client)));
}

static muster_status unreachable(struct muster_client *client, struct muster_error *err)
{
    uint64_t ms = (mst_lib_now_ns() - client->opened_ns) / NS_PER_MS;
    char awaited[sizeof(client->trouble)];
    struct mst_text text = mst_text_in(awaited, sizeof(awaited));
    const char *trouble = client->trouble;

    if (is_shut_out(client)) {
        return mst_fail(err, MUSTER_EUNREACHABLE, client->trouble_errno,
                        "open: not let in: %s%s%s%s", trouble,
                        client->tls ? " (the secret here is that of " : "",
                        client->tls ? client->secret_name : "", client->tls ? ")" : "");
    }
    if (trouble[0] == '\0') {
        mst_driver_say_awaited(client->driver, &text);
        trouble = awaited;
    }
    return mst_fail(err, MUSTER_EUNREACHABLE, client->trouble_errno,
                    "open: no service at %s after " MST_SECONDS
                    "%s%s%s; is `muster serve` running there?",
                    client->addr, MST_SECONDS_ARGS(ms), trouble[0] != '\0' ? " (" : "", trouble,
                    trouble[0] != '\0' ? ")" : "");
}

/* Whether to try again: the service of this process or machine was not there yet, or that of the
 * machine ended with its last session and is started anew. Lock held. */
static bool service_comes(struct muster_client *client, const char *whose, uint64_t deadline_ns,
                          struct muster_error *err)
{
    char addr[MST_LIB_ADDR_ROOM];
    muster_status status;

    if (client->alone) {
        return mst_lib_alone_runs(client->alone, err);
    }
    mst_lib_unlock(client);
    status = mst_lib_share(client->job, whose, deadline_ns, addr, err);
    mst_lib_lock(client);
    return status == MUSTER_OK;
}

/* Until the service has opened the session. */
static muster_status reach(struct muster_client *client, const char *whose, uint64_t deadline_ns,
                           struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    bool again;

    mst_lib_lock(client);
    mst_client_start(mst_lib_machine(client), mst_lib_now_ns());
    do {
        bool answered;

        again = false;
        client->trouble[0] = '\0';
        answered = mst_lib_wait(client, is_answered, client, deadline_ns);
        if (answered && (client->poisoned || client->ended)) {
            status = mst_lib_fail_again(client, err, "open");
        } else if (answered && mst_client_online(mst_lib_machine(client))) {
            status = MUSTER_OK;
        } else if (!answered || is_shut_out(client)) {
            status = unreachable(client, err);
        } else {
            status = MUSTER_EUNREACHABLE;
            again = service_comes(client, whose, deadline_ns, err);
        }
    } while (again);
    mst_lib_unlock(client);
    return status;
}

struct joining {
    struct mst_call call;
    char worker[320]; /* in the way of the ranks; empty: none is */
};

/* A member with a rank takes over the job's count. One without continues from its own, but not from
 * beyond the job's: only members of a run learn of its end. */
static muster_status joined(struct mst_call *call, const struct mst_reply *reply)
{
    struct joining *joining = MST_CONTAINER(call, struct joining, call);
    struct muster_client *client = call->client;
    uint64_t number = reply->number > 0 ? (uint64_t)reply->number : 0;

    if (reply->status == MUSTER_EINVAL && reply->detail.who_count > 0) {
        const struct mst_who *who = &reply->detail.who[0];

        mst_text_print(joining->worker, sizeof(joining->worker), "#%u (pid %" PRIu64 ", node %.*s)",
                       who->index, who->pid, MST_SLICE_ARGS(who->host));
    }
    if (reply->status == MUSTER_OK &&
        (reply->view.rank != MST_RANK_NONE || number < client->heard)) {
        client->heard = number;
    }
    return reply->status;
}

/* The time that was waited explains a timeout, and nothing else. */
static void leave_out(struct muster_error *err, const char *what, size_t from, size_t to)
{
    if (err && err->status != MUSTER_ETIMEDOUT && strncmp(err->text, what, to) == 0) {
        memmove(err->text + from, err->text + to, strlen(err->text + to) + 1);
    }
}

/* A rank waits until it is in a generation, or is a spare; the others only until they hold their
 * place. */
static muster_status join(struct muster_client *client, int64_t timeout_ms, uint64_t deadline_ns,
                          struct muster_error *err)
{
    static const char no_size[] = "no member has set how many ranks it starts with, so it would "
                                  "wait forever: set MUSTER_SIZE "
                                  "or options.size_of_job on all of them (1 for a process alone)";
    struct mst_lib_how how = mst_lib_blocking(err);
    char what[320];
    struct mst_text text = mst_text_in(what, sizeof(what));
    muster_status status;
    size_t name_end;
    struct joining joining = {
        .call = {.client = client,
                 .what = what,
                 .request = {.command = MST_JOIN, .join.spare = true, .join.heard = client->heard},
                 .take = joined}};

    if (client->role == MST_ROLE_OBSERVER) {
        return MUSTER_OK;
    }
    mst_text_format(&text, "join job '%s'", client->job);
    name_end = strlen(what);
    if (timeout_ms > 0 && deadline_ns != NEVER) {
        timeout_ms = mst_lib_left_ms(timeout_ms, deadline_ns);
        mst_text_format(&text, ", after " MST_SECONDS,
                        MST_SECONDS_ARGS((deadline_ns - client->opened_ns) / NS_PER_MS));
    }
    joining.call.timeout_ms = timeout_ms;
    status = mst_lib_make(&joining.call, &how);
    if (status == MUSTER_EINVAL && !joining.call.local) {
        what[name_end] = '\0';
        return joining.worker[0] == '\0'
                   ? mst_lib_refuse(err, what, "%s", no_size)
                   : mst_lib_refuse(err, what,
                                    "this rank would wait forever for the others, as %s is a "
                                    "worker: open this one with options.role = MUSTER_ROLE_WORKER "
                                    "too (a coordinator needs no rank), or all of them as ranks",
                                    joining.worker);
    }
    if (status != MUSTER_OK) {
        leave_out(err, what, name_end, strlen(what));
    }
    return status;
}

static muster_status open_client(struct muster_client *client, struct mst_lib_wanted *wanted,
                                 int64_t timeout_ms, struct muster_error *err)
{
    enum mst_role role = wanted->open.role;
    muster_status status = MUSTER_OK;
    uint64_t deadline_ns;

    client->opened_ns = mst_lib_now_ns();
    deadline_ns = mst_lib_deadline_ns(timeout_ms, STANDARD_OPEN_NS);
    client->caller_event = -1;
    client->background_event = -1;
    client->call_event = -1;
    client->secret_fd = -1;
    client->agent_fd = -1;
    wanted->secret.keep =
        (role == MST_ROLE_RANK || role == MST_ROLE_WORKER) && wanted->page_fd < 0 && !wanted->other;
    if (wanted->alone || wanted->share) {
        status = start_service(client, wanted, deadline_ns, err);
    }
    if (status == MUSTER_OK) {
        status = mst_lib_secret_use(&wanted->secret, wanted->options.addr, client, err);
    }
    if (status == MUSTER_OK) {
        status = fill_client(client, wanted, err);
    }
    if (status == MUSTER_OK && !wanted->looped) {
        status = mst_lib_background_start(client, err);
    }
    if (status == MUSTER_OK && wanted->other) {
        mst_lib_lock(client);
        client->looped = wanted->looped;
        mst_client_start(mst_lib_machine(client), mst_lib_now_ns());
        client->dirty = true;
        if (!client->looped) {
            mst_lib_hurry(client);
        }
        mst_lib_unlock(client);
        return MUSTER_OK;
    }
    if (status == MUSTER_OK) {
        status = reach(client, wanted->where.whose, deadline_ns, err);
    }
    return status == MUSTER_OK ? join(client, timeout_ms, deadline_ns, err) : status;
}

static muster_status open_wanted(muster_client **out, struct mst_lib_wanted *wanted,
                                 int64_t timeout_ms, struct muster_error *err)
{
    struct muster_client *client;
    muster_status status;

    client = calloc(1, sizeof(*client));
    if (!client) {
        return mst_lib_fail(err, MUSTER_ENOMEM, "open", NULL);
    }
    client->pid = mst_own_pid();
    client->references = 1;
    (void)pthread_mutex_init(&client->lock, NULL);
    mst_list_init(&client->waiters);
    mst_list_init(&client->timers);
    mst_lib_counters_init(&client->counters);
    mst_list_init(&client->calls);
    mst_list_init(&client->over);
    mst_list_init(&client->dispatchers);
    status = open_client(client, wanted, timeout_ms, err);
    if (status != MUSTER_OK) {
        muster_client_close(client);
        return status;
    }
    *out = client;
    return MUSTER_OK;
}

static muster_status open_any(muster_client **out, const struct muster_client_options *options,
                              bool replaces, int64_t timeout_ms, struct muster_error *err)
{
    struct mst_lib_wanted wanted = {.page_fd = -1};
    muster_status status;

    if (!out) {
        return mst_lib_refuse(err, "open", "out is NULL");
    }
    *out = NULL;
    status = mst_lib_wanted_read(&wanted, options, err);
    wanted.open.replaces = replaces;
    return status == MUSTER_OK ? open_wanted(out, &wanted, timeout_ms, err) : status;
}

muster_status muster_client_open(muster_client **out, const struct muster_client_options *options,
                                 int64_t timeout_ms, struct muster_error *err)
{
    return mst_lib_open(out, options, false, timeout_ms, err);
}

muster_status mst_lib_open(muster_client **out, const struct muster_client_options *options,
                           bool replaces, int64_t timeout_ms, struct muster_error *err)
{
    muster_status status;

    mst_uncancelled_begin();
    status = open_any(out, options, replaces, timeout_ms, err);
    mst_uncancelled_end();
    return status;
}

/* The page, if the environment names one, is this process's own. */
muster_status mst_lib_open_other(muster_client **out, const struct muster_client_options *options,
                                 const struct mst_lib_other *other, struct muster_error *err)
{
    struct mst_lib_wanted wanted = {.page_fd = -1};
    muster_status status = mst_lib_wanted_read(&wanted, options, err);

    *out = NULL;
    wanted.other = true;
    wanted.looped = other->looped;
    wanted.page_fd = -1;
    wanted.open.pid = other->pid;
    wanted.open.node = other->node;
    return status == MUSTER_OK ? open_wanted(out, &wanted, 0, err) : status;
}

struct muster_view mst_lib_view_shown(const struct mst_view *view)
{
    return (struct muster_view){.generation = view->generation,
                                .incarnation = view->incarnation,
                                .rank = view->rank,
                                .size = view->size,
                                .index = view->index,
                                .spare = view->spare,
                                .size_of_job = view->size_of_job};
}

void muster_client_view(muster_client *client, struct muster_view *out)
{
    if (!out) {
        return;
    }
    *out = (struct muster_view){.rank = MUSTER_RANK_NONE};
    if (mst_lib_enter(client, NULL, "view") != MUSTER_OK) {
        return;
    }
    mst_lib_lock(client);
    *out = mst_lib_view_shown(mst_lib_view(client));
    out->iteration = client->iteration;
    out->spare =
        client->role == MST_ROLE_RANK && out->incarnation != 0 && out->rank == MST_RANK_NONE;
    mst_lib_unlock(client);
}
