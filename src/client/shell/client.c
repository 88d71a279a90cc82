/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and looking at a client; close.c ends it. */
#define _GNU_SOURCE
#include "muster/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/shell/call.h"
#include "client/shell/environment.h"
#include "client/shell/orphan.h"
#include "client/shell/parameters.h"
#include "client/shell/sidecar/helper.h"
#include "client/shell/sidecar/serve.h"
#include "client/shell/uncancelled.h"
#include "client/shell/where.h"
#include "net/socket_dir.h"
#include "os/descriptors.h"
#include "os/system.h"
#include "process/page.h"

#define STANDARD_OPEN_NS (10000 * NS_PER_MS)

enum { HOST_ROOM = 256 };

#define TEXT_OF(number) TEXT_OF_1(number)
#define TEXT_OF_1(number) #number

const char *muster_version(void)
{
    return TEXT_OF(MUSTER_VERSION_MAJOR) "." TEXT_OF(MUSTER_VERSION_MINOR) "." TEXT_OF(
        MUSTER_VERSION_PATCH);
}

/* ---- what the driver tells, lock held ---- */

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

    if (!who || client->holder_told) {
        return;
    }
    client->holder_told = true;
    mst_lib_log(client, MUSTER_LEVEL_INFO,
                "waiting for place #%u, held by process %" PRIu64 " on %.*s, heard " MST_SECONDS
                " ago: taken over when that process is given up",
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
                    "the service at %s, which %s had started, is gone, and its state with it%s%s",
                    client->addr, client->alone ? "this process" : "the first rank of this machine",
                    has_log ? "; its log is " : "", has_log ? log : "");
}

bool mst_lib_cut_off(const struct muster_client *client)
{
    return client->service_gone || client->lost_fd > 0;
}

/* The reason is kept: every later call is refused with it. */
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
        client->trouble_told = true;
        mst_lib_log(client, MUSTER_LEVEL_WARN, "%s", line);
    }
}

/* Nobody starts such a service again, and its state was nowhere else: once its socket is refused
 * the session is over. */
static bool is_gone(const struct muster_client *client)
{
    const struct mst_client *machine = mst_lib_machine(client);

    return (client->alone || client->shares) && mst_client_lease_ns(machine) > 0 &&
           client->trouble[0] != '\0' &&
           (client->trouble_errno == ECONNREFUSED || client->trouble_errno == ENOENT);
}

/* A connection that the machine gave up is no trouble of the socket's. */
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
    if (client->trouble_told) {
        client->trouble_told = false;
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

/* ---- what others ask, lock held ---- */

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

/* ---- options ---- */

struct wanted {
    struct muster_client_options options;
    struct mst_open open;
    struct mst_endpoints endpoints;
    struct mst_lib_secret secret;
    struct mst_lib_where where;
    int64_t page_fd;
    bool alone;
    bool share; /* the service of this machine's ranks */
    bool index_set;
};

static muster_status read_options(struct muster_client_options *out,
                                  const struct muster_client_options *given,
                                  struct muster_error *err)
{
    const struct muster_client_options standard = MUSTER_CLIENT_OPTIONS_INIT;

    *out = standard;
    if (!given) {
        return MUSTER_OK;
    }
    if (given->size < offsetof(struct muster_client_options, role)) {
        return mst_lib_refuse(err, "open",
                              "options.size is not set; begin with MUSTER_CLIENT_OPTIONS_INIT");
    }
    if (given->size > sizeof(*out) || given->version > MUSTER_VERSION) {
        return mst_lib_refuse(err, "open",
                              "the program was built for a newer libmuster than this one, which is "
                              "version " TEXT_OF(MUSTER_VERSION_MAJOR) "." TEXT_OF(
                                  MUSTER_VERSION_MINOR) "; install the newer one");
    }
    memcpy(out, given, given->size);
    return MUSTER_OK;
}

static muster_status read_role(struct wanted *wanted, struct muster_error *err)
{
    switch (wanted->options.role) {
    case MUSTER_ROLE_RANK:
        wanted->open.role = MST_ROLE_RANK;
        return MUSTER_OK;
    case MUSTER_ROLE_WORKER:
        wanted->open.role = MST_ROLE_WORKER;
        return MUSTER_OK;
    case MUSTER_ROLE_AGENT:
        wanted->open.role = MST_ROLE_AGENT;
        return MUSTER_OK;
    case MUSTER_ROLE_OBSERVER:
        wanted->open.role = MST_ROLE_OBSERVER;
        return MUSTER_OK;
    }
    return mst_lib_refuse(err, "open", "options.role is none of enum muster_role");
}

static muster_status read_grow(struct wanted *wanted, struct muster_error *err)
{
    int64_t number = (int64_t)wanted->options.grow - 1;
    muster_status status = MUSTER_OK;

    if (wanted->options.grow == MUSTER_GROW_DEFAULT) {
        status = mst_lib_setting("grow", &number, NULL, err);
    } else if (number < 0 || number > MST_GROW_OFF) {
        return mst_lib_refuse(err, "open", "options.grow is none of enum muster_grow");
    }
    wanted->open.grow = (enum mst_grow)number;
    return status;
}

static muster_status read_index(struct wanted *wanted, struct muster_error *err)
{
    int64_t index = wanted->options.index;
    muster_status status = MUSTER_OK;

    wanted->index_set = index != MUSTER_INDEX_ENV;
    if (index == MUSTER_INDEX_ENV) {
        status = mst_lib_setting("index", &index, &wanted->index_set, err);
    }
    if (index < MUSTER_INDEX_ANY || index >= (int64_t)MST_INDEX_ANY) {
        return mst_lib_refuse(err, "open", "options.index is no place in a job");
    }
    wanted->open.index = index < 0 ? MST_INDEX_ANY : (uint32_t)index;
    return status;
}

static muster_status read_parameters(struct wanted *wanted, struct muster_error *err)
{
    int64_t node = -1;
    muster_status status = mst_lib_parameters(&wanted->open, &wanted->options, err);

    if (status == MUSTER_OK) {
        status = mst_lib_setting("page_fd", &wanted->page_fd, NULL, err);
    }
    if (status == MUSTER_OK) {
        status = mst_lib_setting("node", &node, NULL, err);
    }
    wanted->open.node = node < 0 ? MST_NODE_NONE : (uint32_t)node;
    return status;
}

/* What nobody said, the launcher may have. */
static muster_status read_launcher(struct wanted *wanted, struct muster_error *err)
{
    muster_status status = MUSTER_OK;

    if (wanted->open.role != MST_ROLE_RANK || wanted->index_set) {
        return MUSTER_OK;
    }
    status = mst_lib_where(&wanted->where, err);
    if (status == MUSTER_OK && wanted->where.launched) {
        wanted->open.index = wanted->where.index;
        if (wanted->open.size == 0) {
            wanted->open.size = wanted->where.size;
        }
    }
    return status;
}

/* Nobody named a service: a rank is a job of its own, or shares one with the others of its launcher
 * on this machine. */
static muster_status read_nowhere(struct wanted *wanted, struct muster_error *err)
{
    const struct mst_lib_where *where = &wanted->where;

    if (wanted->open.role != MST_ROLE_RANK || wanted->index_set) {
        return mst_lib_refuse(
            err, "open",
            "no address of a service: set MUSTER_ADDR or options.addr (unix:/path "
            "or HOST:PORT)");
    }
    if (!where->launched && wanted->open.size > 1) {
        return mst_lib_refuse(err, "open",
                              "the job is to have several ranks, but nothing tells which one this "
                              "is and where their service is: set MUSTER_INDEX and MUSTER_ADDR");
    }
    if (where->launched && !where->single && !where->together) {
        return mst_lib_where_apart(where, err);
    }
    wanted->share = where->launched && !where->single;
    wanted->alone = !wanted->share;
    if (wanted->share) {
        mst_lib_where_name(&wanted->where);
    }
    return MUSTER_OK;
}

/* Where to go: an address, or nowhere. */
static muster_status read_place(struct wanted *wanted, struct muster_error *err)
{
    const char *addr = wanted->options.addr;
    bool anywhere = wanted->secret.insecure || mst_lib_secret_given(&wanted->secret);
    char error[320];

    if (!addr || !*addr) {
        addr = mst_lib_setting_text("addr");
    }
    wanted->options.addr = addr;
    if (!addr) {
        return read_nowhere(wanted, err);
    }
    if (mst_endpoints_parse(&wanted->endpoints, addr, anywhere, error, sizeof(error)) !=
        MUSTER_OK) {
        /* A name that was mistyped wants no secret. */
        (void)mst_endpoints_unknown(addr, error, sizeof(error));
        return mst_lib_refuse(err, "open", "%s", error);
    }
    return MUSTER_OK;
}

static muster_status check_parameters(struct wanted *wanted, struct muster_error *err)
{
    return mst_lib_parameters_check(&wanted->open, err);
}

static muster_status find_secret(struct wanted *wanted, struct muster_error *err)
{
    return mst_lib_secret_find(&wanted->secret, &wanted->options, err);
}

static muster_status read_wanted(struct wanted *wanted, const struct muster_client_options *given,
                                 struct muster_error *err)
{
    muster_status (*const readers[])(struct wanted *, struct muster_error *) = {
        read_role,     read_grow,        read_parameters, read_index,
        read_launcher, check_parameters, find_secret,     read_place};
    muster_status status = read_options(&wanted->options, given, err);

    for (size_t i = 0; i < sizeof(readers) / sizeof(readers[0]) && status == MUSTER_OK; i++) {
        status = readers[i](wanted, err);
    }
    if (!wanted->options.job || !*wanted->options.job) {
        wanted->options.job = mst_lib_setting_text("job");
    }
    if (!wanted->options.job && !wanted->alone && wanted->where.job[0] != '\0') {
        wanted->options.job = wanted->where.job;
    }
    if (!wanted->options.job) {
        wanted->options.job = wanted->alone ? NULL : "default";
    }
    return status;
}

/* ---- birth and death ---- */

static muster_status make_driver(struct muster_client *client, struct wanted *wanted)
{
    struct mst_driver_config config = {.endpoints = &wanted->endpoints,
                                       .done = on_done,
                                       .attention = on_attention,
                                       .ended = on_ended,
                                       .trouble = on_trouble,
                                       .tls = client->tls,
                                       .ctx = client};
    uint64_t random[3];

    mst_system_random(random, 3);
    wanted->open.token = (struct mst_token){.high = random[0] | 1, .low = random[1]};
    wanted->open.job = mst_slice_text(client->job);
    wanted->open.host = mst_slice_text(client->host);
    wanted->open.pid = (uint64_t)getpid();
    config.client.seed = random[2];
    config.client.open = wanted->open;
    config.client.limits = mst_limits_default;
    config.client.end_ns = mst_lib_end_ns();
    return mst_driver_new(&client->driver, &config, &mst_system_mem);
}

static muster_status fill_client(struct muster_client *client, struct wanted *wanted,
                                 struct muster_error *err)
{
    char host[HOST_ROOM] = "?";
    muster_status status;

    client->pid = getpid();
    client->role = wanted->open.role;
    client->log = wanted->options.log;
    client->log_ctx = wanted->options.log_ctx;
    client->opened_ns = mst_lib_now_ns();
    mst_list_init(&client->waiters);
    mst_lib_calls_init(client);
    (void)pthread_mutex_init(&client->lock, NULL);
    client->caller_event = mst_system_event();
    client->background_event = client->caller_event < 0 ? -1 : mst_system_event();
    if (client->background_event < 0) {
        return mst_lib_fail_system(err, "open", errno);
    }
    (void)gethostname(host, sizeof(host) - 1);
    client->addr = client->addr ? client->addr : strdup(wanted->options.addr);
    if (!client->job || client->job != wanted->options.job) {
        free(client->job);
        client->job = strdup(wanted->options.job);
    }
    client->heard = client->job ? mst_lib_heard(client->job) : 0;
    client->host =
        strdup(wanted->options.host && *wanted->options.host ? wanted->options.host : host);
    if (!client->addr || !client->job || !client->host) {
        return mst_lib_fail(err, MUSTER_ENOMEM, "open", NULL);
    }
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

/* The service of a job of one: its address becomes the one address. */
static muster_status start_alone(struct muster_client *client, struct wanted *wanted,
                                 struct muster_error *err)
{
    char error[256];
    muster_status status =
        mst_lib_alone_start(&client->alone, &client->addr, &client->job, err, "open");

    if (status != MUSTER_OK) {
        return status;
    }
    if (!wanted->options.job) {
        wanted->options.job = client->job;
    }
    if (wanted->open.size == 0) {
        wanted->open.size = 1;
    }
    wanted->options.addr = client->addr;
    if (mst_endpoints_parse(&wanted->endpoints, client->addr, false, error, sizeof(error)) !=
        MUSTER_OK) {
        return mst_lib_refuse(err, "open", "%s", error);
    }
    return MUSTER_OK;
}

/* The one of this machine's ranks. */
static muster_status find_shared(struct muster_client *client, struct wanted *wanted,
                                 uint64_t deadline_ns, struct muster_error *err)
{
    char error[256];
    muster_status status =
        mst_lib_share(wanted->options.job, wanted->where.whose, deadline_ns, &client->addr, err);

    if (status != MUSTER_OK) {
        return status;
    }
    wanted->options.addr = client->addr;
    if (mst_endpoints_parse(&wanted->endpoints, client->addr, false, error, sizeof(error)) !=
        MUSTER_OK) {
        return mst_lib_refuse(err, "open", "%s", error);
    }
    client->shares = true;
    return MUSTER_OK;
}

/* ---- opening ---- */

/* Trying again helps nobody whose secret is another one. Later, in an outage, it is tried: the
 * service may come back with the one it had. */
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
    const char *trouble = client->trouble;

    if (is_shut_out(client)) {
        return mst_fail(err, MUSTER_EUNREACHABLE, client->trouble_errno,
                        "open: not let in: %s%s%s%s", trouble,
                        client->tls ? " (the secret here is that of " : "",
                        client->tls ? client->secret_name : "", client->tls ? ")" : "");
    }
    if (trouble[0] == '\0' && mst_driver_connected(client->driver)) {
        trouble = "what listens there accepts, but does not answer";
    }
    return mst_fail(err, MUSTER_EUNREACHABLE, client->trouble_errno,
                    "open: no service at %s after " MST_SECONDS
                    "%s%s%s; is `muster serve` running there?",
                    client->addr, MST_SECONDS_ARGS(ms), trouble[0] != '\0' ? " (" : "", trouble,
                    trouble[0] != '\0' ? ")" : "");
}

/* The service may end, with its last session, just when the next one comes. Lock held. */
static bool share_again(struct muster_client *client, const char *whose, uint64_t deadline_ns,
                        struct muster_error *err)
{
    char *addr = NULL;
    muster_status status;

    mst_lib_unlock(client);
    status = mst_lib_share(client->job, whose, deadline_ns, &addr, err);
    free(addr); /* the same */
    mst_lib_lock(client);
    return status == MUSTER_OK;
}

/* Until the service has opened the session. */
static muster_status reach(struct muster_client *client, const char *whose, uint64_t deadline_ns,
                           struct muster_error *err)
{
    muster_status status = MUSTER_OK;

    mst_lib_lock(client);
    mst_client_start(mst_lib_machine(client), mst_lib_now_ns());
    for (;;) {
        client->trouble[0] = '\0';
        if (!mst_lib_wait(client, is_answered, client, deadline_ns)) {
            status = unreachable(client, err);
        } else if (client->poisoned) {
            status = mst_lib_fail(err, MUSTER_EINTERNAL, "open", NULL);
        } else if (client->ended) {
            status = mst_lib_fail_again(client, err, "open");
        } else if (!mst_client_online(mst_lib_machine(client))) {
            /* a service of our own: not there yet, or failed */
            if (is_shut_out(client)) {
                status = unreachable(client, err);
                break;
            }
            if (client->alone ? mst_lib_alone_runs(client->alone, err, "open")
                              : share_again(client, whose, deadline_ns, err)) {
                continue;
            }
            status = MUSTER_EUNREACHABLE;
        }
        break;
    }
    mst_lib_unlock(client);
    return status;
}

/* With a seat it is where the job is. Without one it goes on from where it was, but not from beyond
 * the job's: the end of a run is told to who is in one. */
static muster_status joined(struct mst_call *call, const struct mst_reply *reply)
{
    struct muster_client *client = call->client;
    uint64_t number = reply->number > 0 ? (uint64_t)reply->number : 0;

    if (reply->status == MUSTER_OK &&
        (reply->view.rank != MST_RANK_NONE || number < client->heard)) {
        client->heard = number;
    }
    return reply->status;
}

/* How long it waited says something of a time limit, and would be wrong of anything else. */
static void leave_out(struct muster_error *err, const char *what, size_t from, size_t to)
{
    if (err && err->status != MUSTER_ETIMEDOUT && strncmp(err->text, what, to) == 0) {
        memmove(err->text + from, err->text + to, strlen(err->text + to) + 1);
    }
}

/* A rank waits until it is in a generation, or knows that there is no place for it yet; the others
 * only until their place is theirs. */
static muster_status join(struct muster_client *client, int64_t timeout_ms, uint64_t deadline_ns,
                          struct muster_error *err)
{
    static const char no_size[] =
        "nobody has said how many ranks it starts with, so it would wait for ever: set MUSTER_SIZE "
        "or options.size_of_job on all of them (1 for a process alone)";
    struct mst_lib_how how = mst_lib_blocking(err);
    char what[320];
    struct mst_text text = mst_text_in(what, sizeof(what));
    muster_status status;
    size_t name_end;
    struct mst_call call = {
        .client = client,
        .what = what,
        .request = {.command = MST_JOIN, .join.spare = true, .join.heard = client->heard},
        .take = joined};

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
    call.timeout_ms = timeout_ms;
    status = mst_lib_make(&call, &how);
    if (status == MUSTER_EINVAL && !call.local) {
        what[name_end] = '\0';
        return mst_lib_refuse(err, what, "%s", no_size);
    }
    if (status != MUSTER_OK) {
        leave_out(err, what, name_end, strlen(what));
    }
    return status;
}

static muster_status open_client(struct muster_client *client, struct wanted *wanted,
                                 int64_t timeout_ms, struct muster_error *err)
{
    uint64_t deadline_ns = mst_lib_deadline_ns(timeout_ms, STANDARD_OPEN_NS);
    muster_status status = MUSTER_OK;

    client->caller_event = -1;
    client->background_event = -1;
    client->call_event = -1;
    client->secret_fd = -1;
    wanted->secret.keep =
        (wanted->open.role == MST_ROLE_RANK || wanted->open.role == MST_ROLE_WORKER) &&
        wanted->page_fd < 0;
    if (wanted->alone) {
        status = start_alone(client, wanted, err);
        if (status != MUSTER_OK) {
            return status;
        }
    }
    if (wanted->share) {
        status = find_shared(client, wanted, deadline_ns, err);
        if (status != MUSTER_OK) {
            return status;
        }
    }
    status = mst_lib_secret_use(&wanted->secret, wanted->options.addr, client, err);
    if (status != MUSTER_OK) {
        return status;
    }
    status = fill_client(client, wanted, err);
    if (status == MUSTER_OK) {
        status = mst_lib_background_start(client, err);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    status = reach(client, wanted->where.whose, deadline_ns, err);
    if (status == MUSTER_OK) {
        status = join(client, timeout_ms, deadline_ns, err);
    }
    return status;
}

static muster_status open_any(muster_client **out, const struct muster_client_options *options,
                              int64_t timeout_ms, struct muster_error *err)
{
    struct wanted wanted = {.page_fd = -1};
    struct muster_client *client;
    muster_status status;

    if (!out) {
        return mst_lib_refuse(err, "open", "out is NULL");
    }
    *out = NULL;
    status = read_wanted(&wanted, options, err);
    if (status != MUSTER_OK) {
        return status;
    }
    client = calloc(1, sizeof(*client));
    if (!client) {
        return mst_lib_fail(err, MUSTER_ENOMEM, "open", NULL);
    }
    mst_list_init(&client->timers); /* it is closed also where it was not filled */
    status = open_client(client, &wanted, timeout_ms, err);
    if (status != MUSTER_OK) {
        muster_client_close(client);
        return status;
    }
    *out = client;
    return MUSTER_OK;
}

muster_status muster_client_open(muster_client **out, const struct muster_client_options *options,
                                 int64_t timeout_ms, struct muster_error *err)
{
    muster_status status;

    mst_uncancelled_begin();
    status = open_any(out, options, timeout_ms, err);
    mst_uncancelled_end();
    return status;
}

struct muster_view mst_lib_view_shown(const struct mst_view *view)
{
    return (struct muster_view){.generation = view->generation,
                                .incarnation = view->incarnation,
                                .rank = view->rank,
                                .size = view->size,
                                .index = view->index,
                                .spare = view->spare};
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
