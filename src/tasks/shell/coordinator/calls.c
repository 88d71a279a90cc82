/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked of the cluster as a whole. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/shell/call.h"
#include "client/shell/environment.h"
#include "os/system.h"
#include "tasks/shell/coordinator/closures.h"
#include "tasks/shell/coordinator/cluster.h"

/* ---- entering ---- */

muster_status mst_coord_enter(muster_cluster *cluster, bool blocks, struct muster_error *err,
                              const char *what)
{
    const muster_client *client;

    if (!cluster) {
        return mst_lib_refuse(err, what, "the handle is NULL");
    }
    if (cluster->pid != getpid()) {
        return mst_lib_refuse(err, what, "%s", MST_LIB_OF_THE_PARENT);
    }
    client = cluster->client;
    if (client && mst_lib_holds(client)) {
        return mst_lib_fail(err, MUSTER_EDEADLK, what, NULL);
    }
    if (blocks && mst_lib_thread.no_waiting) {
        return mst_lib_forbidden(err, what);
    }
    if (cluster->poisoned) {
        return mst_lib_fail(err, MUSTER_EINTERNAL, what, NULL);
    }
    mst_lib_alive();
    mst_coord_lock(cluster);
    if (cluster->closing || !mst_coord_machine(cluster)) {
        mst_coord_unlock(cluster);
        return mst_coord_fail(cluster, MUSTER_ECANCELLED, what, err);
    }
    cluster->visitors++;
    return MUSTER_OK;
}

void mst_coord_leave(muster_cluster *cluster)
{
    if (--cluster->visitors == 0 && cluster->closing) {
        (void)pthread_cond_broadcast(&cluster->nobody);
    }
    mst_coord_unlock(cluster);
}

muster_status mst_coord_fail(muster_cluster *cluster, muster_status status, const char *what,
                             struct muster_error *err)
{
    const char *why = NULL;

    (void)cluster;
    if (status == MUSTER_ECANCELLED) {
        why = "the cluster was closed";
    } else if (status == MUSTER_EFENCED) {
        why = "superseded: another coordinator has the term, or this process was given up";
    } else if (status == MUSTER_ETOOFEW) {
        why = "fewer workers than min_workers for longer than recovery_max; start more, or ask for "
              "fewer";
    }
    return why ? mst_fail(err, status, 0, "%s: %s", what, why)
               : mst_lib_fail(err, status, what, NULL);
}

uint64_t mst_coord_until_ns(int64_t timeout_ms)
{
    return mst_lib_deadline_ns(timeout_ms, 0);
}

/* ---- waiting for a change ---- */

struct change {
    const muster_cluster *cluster;
    uint64_t seen;
};

static bool has_changed(void *ctx)
{
    const struct change *change = ctx;

    return change->cluster->changes != change->seen;
}

/* OK: something has. */
static muster_status wait_change(muster_cluster *cluster, uint64_t deadline_ns)
{
    struct change change = {.cluster = cluster, .seen = cluster->changes};

    if (!mst_coord_wait(cluster, has_changed, &change, deadline_ns)) {
        return MUSTER_ETIMEDOUT;
    }
    return mst_coord_ending(cluster);
}

/* ---- delivery ---- */

/* Lock held; a failure was pending. OK: somebody else has got it; ETIMEDOUT: its series has not
 * ended yet, and who asks again later gets it. What is delivered is kept for
 * muster_cluster_failures. */
static muster_status deliver(muster_cluster *cluster, uint64_t deadline_ns, const char *what,
                             struct muster_error *err)
{
    struct mst_cluster_failures failures;
    struct muster_failures *copy;
    muster_status status;

    for (;;) {
        status = mst_cluster_deliver(mst_coord_machine(cluster), mst_lib_now_ns(), &failures);
        if (status != MUSTER_MORE) {
            break;
        }
        mst_coord_turn(cluster);
        status = wait_change(cluster, deadline_ns);
        if (status != MUSTER_OK) {
            return mst_coord_fail(cluster, status, what, err);
        }
    }
    if (status != MUSTER_EFAILED) {
        mst_coord_turn(cluster);
        return status == MUSTER_OK ? status : mst_coord_fail(cluster, status, what, err);
    }
    copy = mst_coord_failures_copy(&failures);
    if (copy && copy->kept > 0) {
        status = mst_coord_say_failure(&copy->items[0], copy->count, what, err);
    } else {
        (void)mst_lib_fail(err, status, what, NULL);
    }
    muster_failures_free(cluster->failures);
    cluster->failures = copy;
    mst_coord_turn(cluster);
    return status;
}

struct muster_failures *muster_cluster_failures(muster_cluster *cluster)
{
    struct muster_failures *failures;

    if (mst_coord_enter(cluster, false, NULL, "failures") != MUSTER_OK) {
        return NULL;
    }
    failures = cluster->failures;
    cluster->failures = NULL;
    mst_coord_leave(cluster);
    return failures;
}

/* ---- schedule ---- */

struct mst_part *mst_coord_parts_in(const struct muster_part *parts, size_t count,
                                    struct mst_part few[MST_CLUSTER_FEW])
{
    struct mst_part *out = count <= MST_CLUSTER_FEW ? few : calloc(count, sizeof(*out));

    for (size_t i = 0; out && i < count; i++) {
        out[i].data = mst_slice_of(parts[i].data, parts[i].size);
        out[i].type = parts[i].type;
    }
    return out;
}

muster_status mst_coord_parts_check(const struct muster_part *parts, size_t count, const char *what,
                                    struct muster_error *err)
{
    const struct mst_cluster_excess excess = {MST_CLUSTER_LIMIT_PARTS, MST_CLUSTER_PARTS_MAX,
                                              count};

    if (excess.asked > excess.most) { /* known before anything is copied */
        return mst_coord_fail_limit(&excess, what, err);
    }
    if (count > 0 && !parts) {
        return mst_lib_refuse(err, what, "the parts are NULL, and their count is not 0");
    }
    for (size_t i = 0; i < count; i++) {
        if (parts[i].size > 0 && !parts[i].data) {
            return mst_lib_refuse(err, what, "the data of a part is NULL, and its size is not 0");
        }
    }
    return MUSTER_OK;
}

/* One call as the machine has it, and what it borrows. */
struct request {
    struct mst_closure_call call;
    struct mst_closure_options options;
    struct mst_part few[MST_CLUSTER_FEW];
    struct mst_part *parts;
    uint64_t few_needs[MST_CLUSTER_FEW];
    uint64_t *needs;
};

static void request_fini(struct request *request)
{
    if (request->parts != request->few) {
        free(request->parts);
    }
    if (request->needs != request->few_needs) {
        free(request->needs);
    }
}

static muster_status read_ms(int64_t ms, uint64_t *out, const char *what, const char *name,
                             struct muster_error *err)
{
    if (ms < 0 || (uint64_t)ms > UINT64_MAX / 4 / NS_PER_MS) {
        return mst_lib_refuse(err, what, "options.%s is no duration", name);
    }
    *out = (uint64_t)ms * NS_PER_MS;
    return MUSTER_OK;
}

static muster_status read_limits(struct request *request,
                                 const struct muster_closure_options *options, const char *what,
                                 struct muster_error *err)
{
    struct mst_closure_options *out = &request->options;
    const struct {
        int64_t given;
        uint64_t *out;
        const char *name;
    } spans[] = {{options->start_ms, &out->start_ns, "start_ms"},
                 {options->run_ms, &out->run_ns, "run_ms"},
                 {options->total_ms, &out->total_ns, "total_ms"}};
    const struct {
        int32_t given;
        uint32_t standard, *out;
    } retries[] = {{options->error_retries, 0, &out->error_retries},
                   {options->crash_retries, 1, &out->crash_retries},
                   {options->exhausted_retries, 1, &out->exhausted_retries}};
    muster_status status = MUSTER_OK;

    for (size_t i = 0; i < sizeof(spans) / sizeof(spans[0]) && status == MUSTER_OK; i++) {
        status = read_ms(spans[i].given, spans[i].out, what, spans[i].name, err);
    }
    for (size_t i = 0; i < sizeof(retries) / sizeof(retries[0]) && status == MUSTER_OK; i++) {
        int32_t given = retries[i].given;

        if (given < -1) {
            return mst_lib_refuse(err, what, "options has a number of retries below -1");
        }
        *retries[i].out = given == 0 ? retries[i].standard : given < 0 ? 0 : (uint32_t)given;
    }
    return status;
}

static muster_status read_needs(struct request *request, const muster_cluster *cluster,
                                const struct muster_closure_options *options, const char *what,
                                struct muster_error *err)
{
    size_t count = options->need_count;
    const struct mst_cluster_excess excess = {MST_CLUSTER_LIMIT_NEEDS, MST_CLUSTER_PARTS_MAX,
                                              count};

    if (count > 0 && !options->needs) {
        return mst_lib_refuse(err, what, "options.needs is NULL, and need_count is not 0");
    }
    if (excess.asked > excess.most) {
        return mst_coord_fail_limit(&excess, what, err);
    }
    request->needs =
        count <= MST_CLUSTER_FEW ? request->few_needs : calloc(count, sizeof(*request->needs));
    if (!request->needs) {
        return mst_lib_fail(err, MUSTER_ENOMEM, what, NULL);
    }
    for (size_t i = 0; i < count; i++) {
        request->needs[i] = mst_per_worker_number(options->needs[i], cluster);
        if (request->needs[i] == 0) {
            return mst_lib_refuse(err, what,
                                  "options.needs has a value that is NULL or of another cluster");
        }
    }
    request->call.needs = request->needs;
    request->call.need_count = (uint32_t)count;
    return MUSTER_OK;
}

static muster_status read_options(struct request *request, const muster_cluster *cluster,
                                  const struct muster_closure_options *given, const char *what,
                                  struct muster_error *err)
{
    const struct muster_closure_options standard = MUSTER_CLOSURE_OPTIONS_INIT;
    struct muster_closure_options options = standard;
    muster_status status =
        mst_lib_options(&options, sizeof(options), given, "MUSTER_CLOSURE_OPTIONS_INIT", err, what);

    if (status == MUSTER_OK && (options.reserved[0] | options.reserved[1] | options.reserved[2] |
                                options.reserved[3]) != 0) {
        status = mst_lib_refuse(err, what, "options.reserved is not zero");
    }
    if (status == MUSTER_OK) {
        status = read_limits(request, &options, what, err);
    }
    if (status == MUSTER_OK) {
        status = read_needs(request, cluster, &options, what, err);
    }
    request->options.version = options.version;
    request->options.group = options.group;
    request->options.idempotent = options.idempotent;
    request->options.once = options.once;
    request->options.pure = options.pure;
    request->options.key = mst_slice_text(options.key ? options.key : "");
    return status;
}

static muster_status request_init(struct request *request, const muster_cluster *cluster,
                                  const struct muster_closure_call *given, const char *what,
                                  struct muster_error *err)
{
    muster_status status;

    request->parts = request->few;
    request->needs = request->few_needs;
    request->call = (struct mst_closure_call){.options = &request->options};
    request->options = (struct mst_closure_options){0};
    if (!given->function || !*given->function) {
        return mst_lib_refuse(err, what, "the function has no name");
    }
    status = mst_coord_parts_check(given->parts, given->count, what, err);
    if (status == MUSTER_OK) {
        status = read_options(request, cluster, given->options, what, err);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    request->parts = mst_coord_parts_in(given->parts, given->count, request->few);
    if (!request->parts) {
        return mst_lib_fail(err, MUSTER_ENOMEM, what, NULL);
    }
    request->call.function = mst_slice_text(given->function);
    request->call.parts.items = request->parts;
    request->call.parts.count = (uint32_t)given->count;
    return MUSTER_OK;
}

/* Lock held. The queue is full, or a series is being ended. */
static muster_status wait_room(muster_cluster *cluster, const struct mst_closure_call *call,
                               int64_t timeout_ms, uint64_t deadline_ns, const char *what,
                               struct muster_error *err)
{
    muster_status status;

    mst_coord_turn(cluster);
    status = timeout_ms == 0 ? MUSTER_ELIMIT : wait_change(cluster, deadline_ns);
    if (status == MUSTER_ELIMIT || status == MUSTER_ETIMEDOUT) {
        return mst_coord_refuse(cluster, call, status, what, err);
    }
    return status == MUSTER_OK ? status : mst_coord_fail(cluster, status, what, err);
}

/* Lock held. */
static muster_status admit(muster_cluster *cluster, const struct mst_closure_call *call,
                           int64_t timeout_ms, uint64_t deadline_ns, const char *what,
                           struct muster_error *err)
{
    for (;;) {
        uint64_t number = 0;
        muster_status status =
            mst_cluster_schedule(mst_coord_machine(cluster), mst_lib_now_ns(), call, &number);

        if (status == MUSTER_OK) {
            cluster->last = number;
            return status;
        }
        if (status == MUSTER_EFAILED) {
            status = deliver(cluster, deadline_ns, what, err);
            if (status == MUSTER_ETIMEDOUT) {
                status = wait_room(cluster, call, timeout_ms, deadline_ns, what, err);
            }
        } else if (status == MUSTER_MORE) {
            status = wait_room(cluster, call, timeout_ms, deadline_ns, what, err);
        } else {
            status = mst_coord_refuse(cluster, call, status, what, err);
        }
        if (status != MUSTER_OK) {
            return status;
        }
    }
}

/* Lock held. `*closure` was made before, if one is wanted. */
static muster_status schedule_one(muster_cluster *cluster, const struct muster_closure_call *given,
                                  int64_t timeout_ms, uint64_t deadline_ns, muster_closure **out,
                                  struct muster_error *err)
{
    char what[MST_LIB_WHAT_ROOM];
    struct request request;
    muster_closure *closure = NULL;
    muster_status status;

    mst_lib_describe(what, "schedule", given->function ? given->function : "");
    status = request_init(&request, cluster, given, what, err);
    if (status == MUSTER_OK && out) {
        closure = mst_closure_new(cluster);
        status = closure ? MUSTER_OK : mst_lib_fail(err, MUSTER_ENOMEM, what, NULL);
    }
    if (status == MUSTER_OK) {
        status = admit(cluster, &request.call, timeout_ms, deadline_ns, what, err);
    }
    request_fini(&request);
    if (status != MUSTER_OK) {
        mst_closure_unmake(closure);
        return status;
    }
    if (closure) {
        closure->number = cluster->last;
        *out = closure;
    } else {
        mst_cluster_release(mst_coord_machine(cluster), mst_lib_now_ns(), cluster->last);
    }
    return MUSTER_OK;
}

muster_status muster_cluster_schedule_many(muster_cluster *cluster,
                                           const struct muster_closure_call *calls, size_t count,
                                           int64_t timeout_ms, muster_closure **out,
                                           size_t *admitted, struct muster_error *err)
{
    uint64_t deadline_ns = mst_coord_until_ns(timeout_ms);
    muster_status status;
    size_t done = 0;

    if (admitted) {
        *admitted = 0;
    }
    if (count > 0 && !calls) {
        return mst_lib_refuse(err, "schedule", "the calls are NULL");
    }
    status = mst_coord_enter(cluster, timeout_ms != 0, err, "schedule");
    if (status != MUSTER_OK) {
        return status;
    }
    while (done < count && status == MUSTER_OK) {
        status = schedule_one(cluster, &calls[done], timeout_ms, deadline_ns,
                              out ? &out[done] : NULL, err);
        done += status == MUSTER_OK;
    }
    if (mst_coord_machine(cluster) && !cluster->closing) {
        mst_coord_turn(cluster);
    }
    mst_coord_leave(cluster);
    if (admitted) {
        *admitted = done;
    }
    return status;
}

muster_status muster_cluster_schedule(muster_cluster *cluster, const char *function,
                                      const struct muster_part *parts, size_t count,
                                      const struct muster_closure_options *options,
                                      int64_t timeout_ms, muster_closure **out,
                                      struct muster_error *err)
{
    const struct muster_closure_call call = {
        .function = function, .parts = parts, .count = count, .options = options};

    if (out) {
        *out = NULL;
    }
    return muster_cluster_schedule_many(cluster, &call, 1, timeout_ms, out, NULL, err);
}

/* ---- join, done, drain ---- */

struct joining {
    const muster_cluster *cluster;
    uint64_t number;
};

static bool is_joined(void *ctx)
{
    const struct joining *joining = ctx;

    return mst_cluster_joined(mst_coord_machine(joining->cluster), joining->number) != MUSTER_MORE;
}

/* Lock held: until everything up to `number` has ended. */
static muster_status join(muster_cluster *cluster, uint64_t number, uint64_t deadline_ns,
                          const char *what, struct muster_error *err)
{
    struct joining joining = {.cluster = cluster, .number = number};

    for (;;) {
        muster_status status = mst_cluster_joined(mst_coord_machine(cluster), number);

        if (status == MUSTER_EFAILED) {
            status = deliver(cluster, deadline_ns, what, err);
            if (status == MUSTER_OK) {
                continue;
            }
            return status;
        }
        if (status != MUSTER_MORE) {
            return status == MUSTER_OK ? status : mst_coord_fail(cluster, status, what, err);
        }
        if (!mst_coord_wait(cluster, is_joined, &joining, deadline_ns)) {
            return mst_lib_fail(err, MUSTER_ETIMEDOUT, what, NULL);
        }
        status = mst_coord_ending(cluster);
        if (status != MUSTER_OK) {
            return mst_coord_fail(cluster, status, what, err);
        }
    }
}

muster_status muster_cluster_join(muster_cluster *cluster, int64_t timeout_ms,
                                  struct muster_error *err)
{
    uint64_t deadline_ns = mst_coord_until_ns(timeout_ms);
    muster_status status = mst_coord_enter(cluster, true, err, "join");

    if (status == MUSTER_OK) {
        status = join(cluster, cluster->last, deadline_ns, "join", err);
        mst_coord_leave(cluster);
    }
    return status;
}

muster_status muster_cluster_done(muster_cluster *cluster, bool *out, struct muster_error *err)
{
    muster_status status;

    if (!out) {
        return mst_lib_refuse(err, "done", "out is NULL");
    }
    status = mst_coord_enter(cluster, true, err, "done");
    if (status != MUSTER_OK) {
        return status;
    }
    if (cluster->ready >= 0) {
        mst_system_event_quiet(cluster->ready);
    }
    do {
        status = mst_cluster_joined(mst_coord_machine(cluster), cluster->last);
        *out = status == MUSTER_OK;
        if (status != MUSTER_EFAILED) {
            break;
        }
        status = deliver(cluster, NEVER, "done", err);
    } while (status == MUSTER_OK);
    if (status == MUSTER_MORE) {
        status = MUSTER_OK;
    } else if (status != MUSTER_OK && status != MUSTER_EFAILED && status != MUSTER_ESTATE) {
        (void)mst_coord_fail(cluster, status, "done", err);
    }
    mst_coord_leave(cluster);
    return status;
}

muster_status muster_cluster_drain(muster_cluster *cluster, int64_t timeout_ms,
                                   struct muster_error *err)
{
    uint64_t deadline_ns = mst_coord_until_ns(timeout_ms);
    muster_status status = mst_coord_enter(cluster, true, err, "drain");

    if (status != MUSTER_OK) {
        return status;
    }
    mst_cluster_close(mst_coord_machine(cluster), mst_lib_now_ns(), true);
    mst_coord_turn(cluster);
    status = join(cluster, UINT64_MAX, deadline_ns, "drain", err);
    if (status == MUSTER_ECANCELLED && !cluster->closing) {
        status = MUSTER_OK; /* the end that was asked for */
    }
    mst_coord_leave(cluster);
    return status;
}

/* ---- cancelling ---- */

void muster_cluster_cancel_group(muster_cluster *cluster, uint64_t group)
{
    if (group != 0 && mst_coord_enter(cluster, false, NULL, "cancel") == MUSTER_OK) {
        mst_cluster_cancel_group(mst_coord_machine(cluster), mst_lib_now_ns(), group);
        mst_coord_turn(cluster);
        mst_coord_leave(cluster);
    }
}

void muster_cluster_cancel_all(muster_cluster *cluster)
{
    if (mst_coord_enter(cluster, false, NULL, "cancel") == MUSTER_OK) {
        mst_cluster_cancel_group(mst_coord_machine(cluster), mst_lib_now_ns(), 0);
        mst_coord_turn(cluster);
        mst_coord_leave(cluster);
    }
}

/* ---- what else ---- */

int muster_cluster_fd(muster_cluster *cluster)
{
    int fd = -1;

    if (mst_coord_enter(cluster, false, NULL, "fd") == MUSTER_OK) {
        if (cluster->ready < 0) {
            cluster->ready = mst_system_event();
            if (cluster->ready >= 0) {
                mst_system_event_ring(cluster->ready); /* for what ended before */
            }
        }
        fd = cluster->ready;
        mst_coord_leave(cluster);
    }
    return fd;
}

muster_status muster_cluster_state_server(muster_cluster *cluster, const char *name,
                                          struct muster_error *err)
{
    char what[MST_LIB_WHAT_ROOM];
    muster_status status;

    if (!name || !*name) {
        return mst_lib_refuse(err, "state server", "it has no name");
    }
    mst_lib_describe(what, "state server", name);
    status = mst_coord_enter(cluster, false, err, what);
    if (status != MUSTER_OK) {
        return status;
    }
    status = mst_cluster_state_server(mst_coord_machine(cluster), mst_slice_text(name));
    if (status != MUSTER_OK) {
        (void)mst_coord_fail(cluster, status, what, err);
    }
    mst_coord_leave(cluster);
    return status;
}

int muster_cluster_exit_code(muster_status status)
{
    int64_t code = -1;

    if (status == MUSTER_ESTATE &&
        mst_lib_setting("restart_exit_code", &code, NULL, NULL) == MUSTER_OK && code >= 0) {
        return (int)code;
    }
    return muster_exit_code(status);
}

muster_status muster_cluster_drain_worker(muster_cluster *cluster, uint32_t number,
                                          struct muster_error *err)
{
    struct mst_cluster_worker worker;
    muster_status status = mst_coord_enter(cluster, false, err, "drain worker");

    if (status != MUSTER_OK) {
        return status;
    }
    if (mst_cluster_worker_at(mst_coord_machine(cluster), mst_lib_now_ns(), number, &worker)) {
        mst_cluster_drain_worker(mst_coord_machine(cluster), mst_lib_now_ns(), number);
        mst_coord_turn(cluster);
    } else {
        (void)mst_lib_refuse(err, "drain worker", "there is none of that number");
        if (err) {
            err->status = MUSTER_ENOTFOUND;
        }
        status = MUSTER_ENOTFOUND;
    }
    mst_coord_leave(cluster);
    return status;
}

/* ---- what goes on ---- */

static void copy_text(char *out, size_t room, struct mst_slice text)
{
    mst_text_print(out, room, "%.*s", MST_SLICE_ARGS(text));
}

/* As much of it as the caller's struct has. */
static void give(void *out, const void *made, size_t size)
{
    size_t given;

    if (!out) {
        return;
    }
    memcpy(&given, out, sizeof(given));
    if (given > sizeof(given) && given <= size) {
        memcpy((unsigned char *)out + sizeof(given), (const unsigned char *)made + sizeof(given),
               given - sizeof(given));
    }
}

void muster_cluster_look(muster_cluster *cluster, struct muster_cluster_counts *out)
{
    struct muster_cluster_counts made = MUSTER_CLUSTER_COUNTS_INIT;
    struct mst_cluster_counts counts;

    if (mst_coord_enter(cluster, false, NULL, "counts") != MUSTER_OK) {
        give(out, &made, sizeof(made));
        return;
    }
    mst_cluster_counts(mst_coord_machine(cluster), mst_lib_now_ns(), &counts);
    made.queued = counts.queued;
    made.running = counts.running;
    made.values = counts.values;
    made.failures = counts.failures;
    made.cancelled = counts.cancelled;
    made.retried = counts.retried;
    made.put_back = counts.put_back;
    made.late = counts.late;
    made.queued_bytes = counts.queued_bytes;
    made.series = counts.series;
    made.admitted = counts.admitted;
    made.term = cluster->term.number;
    made.workers = counts.workers;
    made.workers_present = counts.present;
    made.slots = counts.slots;
    made.slots_free = counts.slots_free;
    made.oldest_ms = counts.oldest != 0 ? (int64_t)(counts.oldest_ns / NS_PER_MS) : -1;
    if (counts.oldest != 0) {
        copy_text(made.oldest_function, sizeof(made.oldest_function), counts.oldest_function);
        copy_text(made.oldest_waits, sizeof(made.oldest_waits),
                  mst_slice_text(mst_cluster_wait_sentence(counts.oldest_waits)));
    }
    mst_coord_leave(cluster);
    give(out, &made, sizeof(made));
}

bool muster_cluster_look_worker(muster_cluster *cluster, uint32_t number,
                                struct muster_cluster_worker *out)
{
    struct muster_cluster_worker made = MUSTER_CLUSTER_WORKER_INIT;
    struct mst_cluster_worker worker;
    bool found;

    if (mst_coord_enter(cluster, false, NULL, "worker") != MUSTER_OK) {
        return false;
    }
    found = mst_cluster_worker_at(mst_coord_machine(cluster), mst_lib_now_ns(), number, &worker);
    if (found) {
        made.number = number;
        made.index = worker.index;
        made.incarnation = worker.incarnation;
        made.pid = worker.pid;
        made.state = (enum muster_worker_state)worker.state;
        made.slots = worker.slots;
        made.running = worker.running;
        made.prefetched = worker.prefetched;
        made.losses = worker.losses;
        made.done = worker.done;
        made.longest_ms = worker.oldest != 0 ? (int64_t)(worker.oldest_run_ns / NS_PER_MS) : -1;
        if (worker.oldest != 0) {
            copy_text(made.longest_function, sizeof(made.longest_function), worker.oldest_function);
        }
        copy_text(made.host, sizeof(made.host), worker.host);
    }
    mst_coord_leave(cluster);
    give(out, &made, sizeof(made));
    return found;
}
