/* SPDX-License-Identifier: Apache-2.0 */
/* The collective heartbeat around its machine: makes its calls, reports its failures, and ends the
 * process. */
#define _GNU_SOURCE
#include "heartbeat/shell/heartbeat.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/shell/uncancelled.h"
#include "os/system.h"
#include "restart/shell/restart.h"

#define FAREWELL_NS NS_PER_S

enum { TIMEOUT_LESS_MS = 10000, TIMEOUT_LEAST_MS = 2000 };

static const char what[] = "start the heartbeat";

static bool is_running(const muster_client *client)
{
    const struct muster_restart *restart = mst_lib_hook_ctx(client, MST_USER_RESTART);

    return restart && restart->busy;
}

/* No failure ends the process any more. Lock held. */
static void stop(struct muster_heartbeat *heartbeat)
{
    heartbeat->running = false;
    mst_heartbeat_judge(heartbeat->host.machine, false);
}

/* ---- reports ---- */

/* What happened to this period, in words. */
static void describe(const struct muster_heartbeat *heartbeat,
                     const struct mst_heartbeat_effect *effect, struct mst_text *text)
{
    struct muster_error said = {0};

    if (effect->why == MST_BEAT_UNEQUAL) {
        mst_text_add(text, "the ranks have not contributed one token of 1 to 65535");
    } else if (effect->why == MST_BEAT_NO_TOKEN) {
        mst_text_add(text, "rank 0 was lost before all had agreed on a token");
    } else if (effect->why == MST_BEAT_ALONE && effect->status == MUSTER_EUNREACHABLE) {
        mst_text_add(text, "the service cannot be reached, and the lease is over");
    } else {
        if (effect->why == MST_BEAT_ALONE) {
            (void)mst_lib_fail_again(heartbeat->client, &said, "");
        } else {
            (void)mst_lib_fail(&said, effect->status, "", effect->reply);
        }
        mst_text_format(text, "%s%s", /* without ": " */
                        effect->why == MST_BEAT_MISMATCH ? "unexpected heartbeat signal, " : "",
                        said.text + 2);
    }
}

static void tell_failed(const struct muster_heartbeat *heartbeat,
                        const struct mst_heartbeat_effect *effect)
{
    char line[600];
    struct mst_text text = mst_text_in(line, sizeof(line));

    mst_text_add(&text, "heartbeat: ");
    describe(heartbeat, effect, &text);
    if (effect->failures > 0) {
        mst_text_format(&text, "; failure %u in a row, %u end this process", effect->failures,
                        heartbeat->config.failures_max);
    } else {
        mst_text_format(&text, "; not counted: %s",
                        is_running(heartbeat->client)
                            ? "muster_restart_run is in progress"
                            : "the service was out of reach, or has no room");
    }
    mst_lib_log(heartbeat->client, MUSTER_LEVEL_WARN, "%s", line);
}

/* This line may be all that is left of the reason. */
static void tell_last(const struct muster_client *client, const char *line)
{
    static const char name[] = "muster: ";

    if (client->log) {
        client->log(client->log_ctx, MUSTER_LEVEL_ERROR, line);
        return;
    }
    (void)!write(STDERR_FILENO, name, sizeof(name) - 1);
    (void)!write(STDERR_FILENO, line, strlen(line));
    (void)!write(STDERR_FILENO, "\n", 1);
}

static _Noreturn void crash(struct muster_heartbeat *heartbeat,
                            const struct mst_heartbeat_effect *effect)
{
    char line[600];
    struct mst_text text = mst_text_in(line, sizeof(line));

    mst_text_add(&text, "heartbeat: this process ends: ");
    if (effect->why != MST_BEAT_MISMATCH && effect->why != MST_BEAT_UNEQUAL) {
        mst_text_format(&text, "%u%s", effect->failures,
                        effect->failures == 1 ? " failure: " : " failures in a row, the last: ");
    }
    describe(heartbeat, effect, &text);
    tell_last(heartbeat->client, line);
    if (heartbeat->on_crash) {
        heartbeat->on_crash(heartbeat->ctx, line);
    }
    abort();
}

static void take_agreed(struct muster_heartbeat *heartbeat,
                        const struct mst_heartbeat_effect *effect)
{
    struct mst_text text;

    if (effect->status == MUSTER_OK) {
        return;
    }
    heartbeat->over = true;
    heartbeat->over_in = effect->generation;
    heartbeat->error = (struct muster_error){.status = effect->status};
    text = mst_text_in(heartbeat->error.text, sizeof(heartbeat->error.text));
    mst_text_format(&text, "%s: ", what);
    describe(heartbeat, effect, &text);
    if (heartbeat->starters == 0 && heartbeat->running) {
        mst_lib_log(heartbeat->client, MUSTER_LEVEL_WARN, "%s", heartbeat->error.text);
    }
}

/* ---- the machine's effects, with the lock held on any thread ---- */

static void look(struct mst_machine_host *host, uint64_t now_ns)
{
    const struct muster_heartbeat *heartbeat = (const struct muster_heartbeat *)host;
    const muster_client *client = heartbeat->client;
    const struct mst_heartbeat_sight sight = {.view = *mst_lib_view(client),
                                              .stopped = mst_lib_stopped(client),
                                              .ended = mst_lib_status(client),
                                              .restarting = is_running(client),
                                              .away = !client->was_online,
                                              .outages = client->outages};

    mst_heartbeat_look(host->machine, now_ns, &sight);
}

static void named(struct mst_machine_host *host, const struct mst_reply *reply)
{
    struct muster_heartbeat *heartbeat = MST_CONTAINER(host, struct muster_heartbeat, host);

    (void)mst_lib_fail(&heartbeat->error, MUSTER_ETIMEDOUT, what, reply);
    if (heartbeat->starters == 0) {
        mst_lib_log(heartbeat->client, MUSTER_LEVEL_WARN,
                    "the heartbeat waits for all ranks of generation %" PRIu64 " to start it: %s",
                    mst_lib_view(heartbeat->client)->generation,
                    heartbeat->error.text + strlen(what) + 2);
    }
}

/* The one of the generation before is not wanted any more. */
static void calls(struct mst_machine_host *host)
{
    mst_host_drop(host);
}

static bool own(struct mst_machine_host *host, const void *of_machine)
{
    struct muster_heartbeat *heartbeat = MST_CONTAINER(host, struct muster_heartbeat, host);
    const struct mst_heartbeat_effect *effect = of_machine;

    switch (effect->type) {
    case MST_HEARTBEAT_AGREED:
        take_agreed(heartbeat, effect);
        break;
    case MST_HEARTBEAT_LATE:
        if (heartbeat->starters == 0) {
            mst_host_ask_names(host);
        }
        break;
    case MST_HEARTBEAT_FAILED:
        tell_failed(heartbeat, effect);
        break;
    case MST_HEARTBEAT_CRASH:
        crash(heartbeat, effect);
    }
    return false;
}

static const struct mst_host_shell shell = {
    .kind = &mst_heartbeat_machine, .own = own, .look = look, .calls = calls, .named = named};

static void hook_release(void *ctx)
{
    struct muster_heartbeat *heartbeat = ctx;

    mst_at_exit_remove(&heartbeat->at_exit);
    mst_heartbeat_free(heartbeat->host.machine);
    free(heartbeat);
}

/* ---- exit() ---- */

/* A process that ends well leaves the job, so that its peers go on without it; a run in progress
 * does so itself. */
static void end_one(struct mst_at_exit *entry, int status)
{
    struct muster_heartbeat *heartbeat = MST_CONTAINER(entry, struct muster_heartbeat, at_exit);
    muster_client *client = heartbeat->client;

    mst_lib_lock(client);
    stop(heartbeat);
    if (mst_at_exit_well(status) && mst_lib_status(client) == MUSTER_OK && !is_running(client)) {
        const struct mst_request leave = {.command = MST_LEAVE};

        mst_lib_farewell(client, &leave, 1, mst_lib_now_ns() + FAREWELL_NS);
    }
    mst_lib_unlock(client);
}

/* ---- starting ---- */

static muster_status read_options(struct muster_heartbeat_options *options,
                                  const struct muster_heartbeat_options *given,
                                  struct mst_heartbeat_config *config, struct muster_error *err)
{
    const struct muster_heartbeat_options standard = MUSTER_HEARTBEAT_OPTIONS_INIT;
    muster_status status;

    *options = standard;
    status = mst_lib_options(options, sizeof(*options), given, "MUSTER_HEARTBEAT_OPTIONS_INIT", err,
                             what);
    if (status == MUSTER_OK) {
        struct mst_option numbers[] = {
            MST_OPTION("heartbeat_period", options->period_ms, &config->period_ms, 0),
            MST_OPTION("heartbeat_timeout", options->timeout_ms, &config->timeout_ms, 0),
            MST_OPTION("heartbeat_failures_max", options->failures_max, &config->failures_max, 0),
        };

        status = mst_lib_numbers(numbers, sizeof(numbers) / sizeof(numbers[0]), err);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    if (config->timeout_ms == 0) {
        config->timeout_ms = config->period_ms < TIMEOUT_LESS_MS + TIMEOUT_LEAST_MS
                                 ? TIMEOUT_LEAST_MS
                                 : config->period_ms - TIMEOUT_LESS_MS;
    }
    mst_system_random(&config->seed, 1);
    return MUSTER_OK;
}

/* With the lock, as all that follows. NULL: no memory. */
static struct muster_heartbeat *handle_new(muster_client *client,
                                           const struct mst_heartbeat_config *config)
{
    struct muster_heartbeat *heartbeat = calloc(1, sizeof(*heartbeat));
    struct mst_heartbeat *machine;
    struct mst_lib_hook hook;

    if (!heartbeat) {
        return NULL;
    }
    if (mst_heartbeat_new(&machine, config, &mst_system_mem) != MUSTER_OK) {
        free(heartbeat);
        return NULL;
    }
    heartbeat->client = client;
    heartbeat->at_exit = (struct mst_at_exit){.client = client, .call = end_one};
    heartbeat->host =
        (struct mst_machine_host){.shell = &shell, .client = client, .machine = machine};
    hook = mst_host_hook(&heartbeat->host);
    hook.release = hook_release;
    mst_lib_hook(client, MST_USER_HEARTBEAT, &hook);
    return heartbeat;
}

static bool is_seated(const muster_client *client)
{
    return mst_lib_view(client)->generation > 0 && mst_lib_view(client)->rank != MST_RANK_NONE;
}

static bool is_over(const struct muster_heartbeat *heartbeat)
{
    return heartbeat->over && heartbeat->over_in == mst_lib_view(heartbeat->client)->generation;
}

static bool is_settled(void *ctx)
{
    const struct muster_heartbeat *heartbeat = ctx;

    return mst_heartbeat_token(heartbeat->host.machine) != 0 || is_over(heartbeat) ||
           heartbeat->client->ended || !is_seated(heartbeat->client);
}

/* Not all have started it in time. */
static muster_status late(struct muster_heartbeat *heartbeat, struct muster_error *err)
{
    (void)mst_lib_fail(err, MUSTER_ETIMEDOUT, what, NULL);
    if (mst_host_wait_names(&heartbeat->host, is_settled, heartbeat) && err) {
        *err = heartbeat->error;
    }
    return MUSTER_ETIMEDOUT;
}

static muster_status await(struct muster_heartbeat *heartbeat, struct muster_error *err)
{
    muster_client *client = heartbeat->client;
    uint64_t deadline_ns = mst_lib_now_ns() + heartbeat->config.timeout_ms * NS_PER_MS;
    muster_status status = MUSTER_OK;

    heartbeat->starters++;
    mst_lib_keep(client);
    if (!mst_lib_wait_interruptible(client, is_settled, heartbeat, deadline_ns)) {
        status = late(heartbeat, err);
    }
    if (client->poisoned || client->ended) {
        status = mst_lib_fail_again(client, err, what);
    } else if (client->closing) {
        status = mst_lib_fail(err, MUSTER_ECANCELLED, what, NULL);
    } else if (is_over(heartbeat)) {
        status = heartbeat->error.status;
        if (err) {
            *err = heartbeat->error;
        }
    } else if (is_settled(heartbeat)) {
        status = MUSTER_OK;
    } else if (client->interrupted) {
        status = mst_lib_fail(err, MUSTER_EINTERRUPTED, what, NULL);
    }
    heartbeat->starters--;
    if (status != MUSTER_OK && heartbeat->starters == 0) {
        stop(heartbeat);
    }
    mst_lib_let_go(client);
    return status;
}

static muster_status start(muster_client *client, struct muster_heartbeat **out,
                           const struct muster_heartbeat_options *options,
                           const struct mst_heartbeat_config *config, struct muster_error *err)
{
    struct muster_heartbeat *heartbeat = mst_lib_hook_ctx(client, MST_USER_HEARTBEAT);

    if (mst_lib_status(client) != MUSTER_OK) {
        return mst_lib_fail_again(client, err, what);
    }
    if (client->role != MST_ROLE_RANK) {
        return mst_lib_refuse(err, what, "this client is not a rank of the job");
    }
    if (!heartbeat) {
        heartbeat = handle_new(client, config);
        if (!heartbeat) {
            return mst_lib_fail(err, MUSTER_ENOMEM, what, NULL);
        }
    }
    *out = heartbeat;
    if (heartbeat->running) {
        mst_lib_log(client, MUSTER_LEVEL_WARN,
                    "the heartbeat runs already: another start changes nothing");
        return await(heartbeat, err);
    }
    heartbeat->running = true;
    heartbeat->config = *config;
    heartbeat->on_crash = options->on_crash;
    heartbeat->ctx = options->ctx;
    (void)mst_heartbeat_configure(heartbeat->host.machine, config);
    mst_heartbeat_judge(heartbeat->host.machine, true);
    look(&heartbeat->host, mst_lib_now_ns());
    mst_host_drain(&heartbeat->host);
    client->dirty = true;
    return await(heartbeat, err);
}

static muster_status start_any(muster_heartbeat **out, muster_client *client,
                               const struct muster_heartbeat_options *options,
                               struct muster_error *err)
{
    struct muster_heartbeat_options wanted;
    struct mst_heartbeat_config config = {0};
    struct muster_heartbeat *heartbeat = NULL;
    muster_status status;

    if (!out) {
        return mst_lib_refuse(err, what, "out is NULL");
    }
    *out = NULL;
    status = mst_lib_enter(client, err, what);
    if (status == MUSTER_OK) {
        status = read_options(&wanted, options, &config, err);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    if (mst_lib_thread.no_waiting) {
        return mst_lib_forbidden(err, what);
    }
    mst_lib_lock(client);
    mst_lib_keep(client); /* until it is where exit() looks: closing frees it */
    status = start(client, &heartbeat, &wanted, &config, err);
    mst_lib_unlock(client);
    if (status == MUSTER_OK) {
        mst_at_exit_add(&heartbeat->at_exit);
        *out = heartbeat;
    }
    mst_lib_lock(client);
    mst_lib_let_go(client);
    mst_lib_unlock(client);
    return status;
}

muster_status muster_heartbeat_start(muster_heartbeat **out, muster_client *client,
                                     const struct muster_heartbeat_options *options,
                                     struct muster_error *err)
{
    muster_status status;

    mst_uncancelled_begin();
    status = start_any(out, client, options, err);
    mst_uncancelled_end();
    return status;
}

void muster_heartbeat_stop(muster_heartbeat *heartbeat)
{
    if (!heartbeat || mst_lib_enter(heartbeat->client, NULL, "stop the heartbeat") != MUSTER_OK) {
        return;
    }
    mst_at_exit_remove(&heartbeat->at_exit);
    mst_lib_lock(heartbeat->client);
    stop(heartbeat);
    mst_lib_unlock(heartbeat->client);
}
