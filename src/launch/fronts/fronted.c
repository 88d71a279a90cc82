/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "launch/fronts/fronted.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch/job.h"
#include "launch/say.h"
#include "proto/run_keys.h"

#define SLURM_JOB "SLURM_JOB_ID"

/* ---- of the fronts ---- */

static const struct mst_place *place_of(const struct mst_run_job *job, uint32_t index)
{
    uint32_t slot = index - job->nodes.number * job->places.count; /* of the others: too large */

    return slot < job->places.count ? &job->places.list[slot] : NULL;
}

static bool process_of(void *ctx, uint32_t index, int connection, uint64_t *pid_out, char *why,
                       size_t room)
{
    const struct mst_run_job *job = ctx;
    const struct mst_place *place = place_of(job, index);
    uint32_t first = job->nodes.number * job->places.count;

    (void)connection;
    if (place == NULL || place->state != MST_PLACE_RUNS) {
        (void)snprintf(why, room,
                       "process %" PRIu32 " does not run on %s, whose processes are %" PRIu32
                       " to %" PRIu32 ": process_id is to be the RANK of the process",
                       index, job->host, first, first + job->places.count - 1);
        return false;
    }
    *pid_out = mst_process_pid(place->process);
    return true;
}

static bool on_unhealthy(void *ctx, uint32_t index, int32_t code, struct mst_slice text)
{
    const struct mst_place *place = place_of(ctx, index);

    return place != NULL && mst_place_unhealthy(place, code, text);
}

/* With the client's lock held. */
static muster_status on_notices(void *ctx, const struct mst_reply *reply)
{
    struct mst_run_job *job = ctx;

    mst_shared_lock(&job->shared);
    for (uint32_t i = 0; i < reply->item_count; i++) {
        mst_front_notices_hear(&job->fronted.notices, &reply->items[i]);
    }
    mst_shared_unlock(&job->shared);
    mst_shared_wake(&job->shared);
    return MUSTER_OK;
}

static void on_line(void *ctx, const char *line)
{
    (void)ctx;
    mst_say("%s", line);
}

/* Once a process of JAX is there: before, `muster preempt` says that a notice reaches none. */
static void follow_notices(struct mst_run_job *job)
{
    job->fronted.listens = true;
    job->session.notices.take = on_notices;
    job->session.notices.ctx = job;
    mst_session_notices(&job->session);
}

static void on_changed(void *ctx)
{
    struct mst_run_job *job = ctx;

    for (uint32_t i = 0; i < job->places.count; i++) {
        struct mst_place *place = &job->places.list[i];

        if (place->state == MST_PLACE_RUNS && mst_fronted_has(job, place)) {
            place->process->fronted = true;
        }
    }
    mst_plain_look(job);
    if (!job->fronted.listens && mst_fronted_any(job)) {
        follow_notices(job);
    }
}

/* Each rank leads a process group. */
static uint32_t rank_of(void *ctx, uint32_t pid)
{
    const struct mst_run_job *job = ctx;
    pid_t group = pid > 0 && pid <= INT32_MAX ? getpgid((pid_t)pid) : -1;

    for (uint32_t i = 0; i < job->places.count && group > 0; i++) {
        const struct mst_place *place = &job->places.list[i];

        if (place->state == MST_PLACE_RUNS && place->process->pid == group) {
            return place->index;
        }
    }
    return MST_FRONT_INDEX_NONE;
}

/* To the service a wait is a request of a client that is no rank. */
static void on_waits(void *ctx)
{
    struct mst_run_job *job = ctx;
    struct mst_note *note = &job->fronted.waits;
    char value[MST_NOTE_MAX];

    if (job->nodes.joining || job->nodes.rejoins || job->end.closing) {
        return;
    }
    mst_fronts_waits(job->fronted.fronts, value, sizeof value);
    if (strcmp(value, note->value) != 0) {
        mst_session_write(&job->session, note, value);
    }
}

int mst_fronted_open(struct mst_run_job *job)
{
    const struct mst_run_options *options = job->options;
    struct mst_fronted *fronted = &job->fronted;
    struct mst_fronts_options fronts = {.loop = &job->loop,
                                        .kinds = fronted->kinds,
                                        .config = {.size = options->size,
                                                   .recoverable = options->jax_recoverable,
                                                   .limits = mst_limits_default},
                                        .client = &fronted->client,
                                        .process = process_of,
                                        .unhealthy = on_unhealthy,
                                        .say = on_line,
                                        .changed = on_changed,
                                        .waits = on_waits,
                                        .rank = rank_of,
                                        .ctx = job};
    struct muster_error err;
    struct mst_slice wrong;

    (void)uv_timer_init(&job->loop, &fronted->due);
    fronted->due.data = job;
    fronted->jax_given = getenv("JAX_COORDINATOR_ADDRESS") != NULL;
    fronted->slurm_given = getenv(SLURM_JOB) != NULL;
    if (!mst_fronts_kinds(options->fronts, fronted->kinds, &fronted->count, &wrong) ||
        fronted->count == 0) {
        return 0;
    }
    fronted->client = (struct muster_client_options)MUSTER_CLIENT_OPTIONS_INIT;
    mst_session_access(&fronted->client, job);
    mst_session_shape(&fronted->client, options);
    fronted->client.min_size = options->min_size != 0 ? options->min_size : 1; /* as ranks do */
    fronts.count = fronted->count;
    fronts.node = job->nodes.number;
    switch (mst_fronts_open(&fronted->fronts, &fronts, &fronted->port, &err)) {
    case MUSTER_OK:
        return 0;
    case MUSTER_EFAILED: /* the run does not need them */
        fronted->count = 0;
        mst_say("%s", err.text);
        return 0;
    default:
        return mst_refuse("%s", err.text);
    }
}

void mst_fronted_close(struct mst_run_job *job)
{
    if (job->fronted.fronts != NULL) {
        (void)uv_timer_stop(&job->fronted.due);
    }
    mst_fronts_close(job->fronted.fronts);
    job->fronted.fronts = NULL;
}

/* ---- notices ---- */

static void on_due(uv_timer_t *timer)
{
    mst_fronted_look(timer->data);
}

void mst_fronted_look(struct mst_run_job *job)
{
    struct mst_fronted *fronted = &job->fronted;
    uint64_t now_ns = mst_lib_now_ns();
    struct mst_front_notice notice;
    bool some;

    if (fronted->fronts == NULL || fronted->noticed) {
        return;
    }
    mst_shared_lock(&job->shared);
    some = mst_front_notices_next(&fronted->notices, fronted->began_ns, &notice);
    mst_shared_unlock(&job->shared);
    if (some && notice.due_ns > now_ns) {
        (void)uv_timer_start(&fronted->due, on_due, mst_ms_until(notice.due_ns, now_ns), 0);
    } else if (some) {
        fronted->noticed = true;
        mst_fronts_notice(fronted->fronts, notice.text);
    }
}

/* ---- attempts ---- */

void mst_fronted_joined(struct mst_run_job *job)
{
    struct mst_note *note = &job->fronted.waits;

    *note = (struct mst_note){.owned = true};
    (void)snprintf(note->key, sizeof note->key, MST_RUN_FRONT_WAITS_PREFIX "%" PRIu32,
                   job->nodes.number);
}

void mst_fronted_begin(struct mst_run_job *job)
{
    struct mst_fronted *fronted = &job->fronted;
    struct muster_error err;

    if (fronted->fronts == NULL) {
        return;
    }
    (void)uv_timer_stop(&fronted->due);
    mst_fronts_node(fronted->fronts, job->nodes.number);
    if (mst_fronts_begin(fronted->fronts, job->group.life, &err) != MUSTER_OK) {
        fronted->fronts = NULL;
        mst_say("%s", err.text);
        return;
    }
    fronted->noticed = fronted->listens = false;
    fronted->began_ns = mst_lib_now_ns();
    on_waits(job); /* of the attempt before none waits */
}

bool mst_fronted_has(const struct mst_run_job *job, const struct mst_place *place)
{
    return job->fronted.fronts != NULL && mst_fronts_has(job->fronted.fronts, place->index);
}

bool mst_fronted_any(const struct mst_run_job *job)
{
    return job->fronted.fronts != NULL && mst_fronts_any(job->fronted.fronts);
}

bool mst_fronted_had(const struct mst_run_job *job)
{
    return job->fronted.listens;
}

void mst_fronted_gone(struct mst_run_job *job, const struct mst_process *process)
{
    char name[64], how[128], text[sizeof name + sizeof how + HOST_NAME_MAX + 8];

    if (job->fronted.fronts != NULL) {
        mst_process_name(process, name, sizeof name);
        mst_process_how(process, how, sizeof how);
        (void)snprintf(text, sizeof text, "%s on %s %s", name, job->host, how);
        mst_fronts_dead(job->fronted.fronts, process->index, text);
    }
}

bool mst_fronted_recovers(struct mst_run_job *job, const struct mst_process *process)
{
    return job->options->jax_recoverable && process->fronted &&
           (mst_place_any(&job->places, MST_PLACE_RUNS) || mst_nodes_ranks_elsewhere(job) > 0);
}

/* ---- variables ---- */

static bool set(struct mst_environment *environment, const char *name, const char *value)
{
    return mst_environment_set(environment, name, value) == MUSTER_OK;
}

static bool set_number(struct mst_environment *environment, const char *name, uint64_t value)
{
    return mst_environment_number(environment, name, value) == MUSTER_OK;
}

/* JAX has no variables for a process's place but those of launchers. Those of Slurm, where the run
 * itself has them, are of its own task, and wrong for each of the ranks. The job of no Slurm is no
 * number, so that it is not taken for one. */
static bool set_place(struct mst_environment *environment, const struct mst_place *place)
{
    const struct mst_run_job *job = place->job;

    return (job->fronted.slurm_given || (set(environment, SLURM_JOB, "muster") &&
                                         set(environment, "SLURM_STEP_NODELIST", job->host))) &&
           set_number(environment, "SLURM_NTASKS", job->options->size) &&
           set_number(environment, "SLURM_PROCID", place->index) &&
           set_number(environment, "SLURM_LOCALID", place->slot);
}

bool mst_fronted_variables(struct mst_environment *environment, const struct mst_place *place)
{
    const struct mst_fronted *fronted = &place->job->fronted;
    bool ok = true;

    for (unsigned i = 0; i < fronted->count && fronted->fronts != NULL && ok; i++) {
        const struct mst_front *front = fronted->kinds[i].front;
        bool jax = strcmp(front->name, "xla") == 0;

        if (!jax || (!fronted->jax_given && place->job->options->spares == 0)) {
            ok = mst_front_variables(environment, front, fronted->port) &&
                 (!jax || set_place(environment, place));
        }
    }
    return ok;
}
