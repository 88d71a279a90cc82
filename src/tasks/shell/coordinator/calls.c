/* SPDX-License-Identifier: Apache-2.0 */
/* The calls about a cluster as a whole. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/shell/call.h"
#include "client/shell/environment.h"
#include "os/system.h"
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
        return mst_coord_fail(MUSTER_ECANCELLED, what, err);
    }
    cluster->visitors++;
    return MUSTER_OK;
}

muster_status mst_coord_leave(muster_cluster *cluster, muster_status status)
{
    if (--cluster->visitors == 0 && cluster->closing) {
        (void)pthread_cond_broadcast(&cluster->nobody);
    }
    mst_coord_unlock(cluster);
    return status;
}

muster_status mst_coord_fail(muster_status status, const char *what, struct muster_error *err)
{
    const char *why = NULL;

    if (status == MUSTER_OK) {
        return status;
    }
    if (status == MUSTER_ECANCELLED) {
        why = "the cluster was closed";
    } else if (status == MUSTER_EFENCED) {
        why = "superseded: another coordinator has the term, or this process was replaced";
    } else if (status == MUSTER_ETOOFEW) {
        why = "fewer workers than min_workers for longer than recovery_max; start more, or ask for "
              "fewer";
    }
    return why ? mst_fail(err, status, 0, "%s: %s", what, why)
               : mst_lib_fail(err, status, what, NULL);
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

static muster_status wait_change(muster_cluster *cluster, uint64_t deadline_ns)
{
    struct change change = {.cluster = cluster, .seen = cluster->changes};

    return mst_coord_wait(cluster, has_changed, &change, deadline_ns);
}

/* ---- delivery ---- */

/* Lock held; a failure was pending. OK: another thread has taken it; ETIMEDOUT: its series has not
 * ended yet, and a later call gets it. What is delivered is kept for muster_cluster_failures. */
static muster_status deliver(muster_cluster *cluster, uint64_t deadline_ns, const char *what,
                             struct muster_error *err)
{
    struct mst_cluster_failures failures = {0};
    muster_status status;

    while ((status = mst_cluster_deliver(mst_coord_machine(cluster), mst_lib_now_ns(),
                                         &failures)) == MUSTER_MORE) {
        mst_coord_turn(cluster);
        status = mst_coord_fail(wait_change(cluster, deadline_ns), what, err);
        if (status != MUSTER_OK) {
            return status;
        }
    }
    if (status == MUSTER_EFAILED) {
        muster_failures_free(cluster->failures);
        cluster->failures = mst_coord_failures_copy(&failures);
    }
    if (status == MUSTER_EFAILED && cluster->failures && failures.kept > 0) {
        status = mst_coord_say_failure(&cluster->failures->items[0], failures.count, what, err);
    } else {
        (void)mst_coord_fail(status, what, err);
    }
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
    (void)mst_coord_leave(cluster, MUSTER_OK);
    return failures;
}

/* ---- schedule ---- */

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

enum { FEW_NEEDS = 16 };

/* A call of schedule, and one closure of it as the machine has it, with what that borrows. */
struct request {
    muster_cluster *cluster;
    struct muster_error *err;
    int64_t timeout_ms;
    uint64_t deadline_ns;
    char what[MST_LIB_WHAT_ROOM];
    struct mst_closure_call call;
    struct mst_closure_options options;
    uint64_t few_needs[FEW_NEEDS];
    uint64_t *needs;
};

static muster_status refuse(const struct request *request, const char *why)
{
    return mst_lib_refuse(request->err, request->what, "%s", why);
}

static muster_status read_limits(struct request *request,
                                 const struct muster_closure_options *options)
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

    for (size_t i = 0; i < sizeof(spans) / sizeof(spans[0]); i++) {
        int64_t given = spans[i].given;

        if (given < 0 || (uint64_t)given > UINT64_MAX / 4 / NS_PER_MS) {
            return mst_lib_refuse(request->err, request->what, "options.%s is no duration",
                                  spans[i].name);
        }
        *spans[i].out = (uint64_t)given * NS_PER_MS;
    }
    for (size_t i = 0; i < sizeof(retries) / sizeof(retries[0]); i++) {
        int32_t given = retries[i].given;

        if (given < -1) {
            return refuse(request, "options has a number of retries below -1");
        }
        *retries[i].out = given == 0 ? retries[i].standard : given < 0 ? 0 : (uint32_t)given;
    }
    return MUSTER_OK;
}

static muster_status read_needs(struct request *request,
                                const struct muster_closure_options *options)
{
    size_t count = options->need_count;
    const struct mst_cluster_excess excess = {MST_CLUSTER_LIMIT_NEEDS, MST_CLUSTER_PARTS_MAX,
                                              count};

    if (count > 0 && !options->needs) {
        return refuse(request, "options.needs is NULL, and need_count is not 0");
    }
    if (excess.asked > excess.most) {
        return mst_coord_fail_limit(&excess, request->what, request->err);
    }
    if (count > FEW_NEEDS) {
        request->needs = calloc(count, sizeof(*request->needs));
    }
    if (!request->needs) {
        return mst_coord_fail(MUSTER_ENOMEM, request->what, request->err);
    }
    for (size_t i = 0; i < count; i++) {
        request->needs[i] = mst_per_worker_number(options->needs[i], request->cluster);
        if (request->needs[i] == 0) {
            return refuse(request, "options.needs has a value that is NULL or of another cluster");
        }
    }
    request->call.needs = request->needs;
    request->call.need_count = (uint32_t)count;
    return MUSTER_OK;
}

static muster_status read_options(struct request *request,
                                  const struct muster_closure_options *given)
{
    struct muster_closure_options options = MUSTER_CLOSURE_OPTIONS_INIT;
    muster_status status =
        mst_lib_options(&options, sizeof(options), given, "MUSTER_CLOSURE_OPTIONS_INIT",
                        request->err, request->what);

    if (status != MUSTER_OK) {
        return status;
    }
    if ((options.reserved[0] | options.reserved[1] | options.reserved[2] | options.reserved[3]) !=
        0) {
        return refuse(request, "options.reserved is not zero");
    }
    request->options = (struct mst_closure_options){.version = options.version,
                                                    .group = options.group,
                                                    .idempotent = options.idempotent,
                                                    .once = options.once,
                                                    .pure = options.pure,
                                                    .key = mst_slice_text(options.key)};
    status = read_limits(request, &options);
    return status == MUSTER_OK ? read_needs(request, &options) : status;
}

static muster_status read_call(struct request *request, const struct muster_closure_call *given)
{
    muster_status status;

    mst_lib_describe(request->what, "schedule", given->function);
    request->needs = request->few_needs;
    if (!given->function || !*given->function) {
        return refuse(request, "the function has no name");
    }
    status = mst_coord_parts_check(given->parts, given->count, request->what, request->err);
    if (status != MUSTER_OK) {
        return status;
    }
    request->call = (struct mst_closure_call){.function = mst_slice_text(given->function),
                                              .parts = mst_parts_lend(given->parts, given->count),
                                              .options = &request->options};
    return read_options(request, given->options);
}

/* Lock held. The queue is full, or a series is being ended. */
static muster_status wait_room(const struct request *request)
{
    muster_status status = MUSTER_ELIMIT;

    mst_coord_turn(request->cluster);
    if (request->timeout_ms != 0) {
        status = wait_change(request->cluster, request->deadline_ns);
    }
    return mst_coord_refuse(request->cluster, &request->call, status, request->what, request->err);
}

/* Lock held. */
static muster_status admit(const struct request *request)
{
    muster_cluster *cluster = request->cluster;

    for (;;) {
        muster_status status = mst_cluster_schedule(mst_coord_machine(cluster), mst_lib_now_ns(),
                                                    &request->call, &cluster->last);

        if (status == MUSTER_OK) {
            return status;
        }
        if (status != MUSTER_EFAILED && status != MUSTER_MORE) {
            return mst_coord_refuse(cluster, &request->call, status, request->what, request->err);
        }
        if (status == MUSTER_EFAILED) {
            status = deliver(cluster, request->deadline_ns, request->what, request->err);
        }
        if (status == MUSTER_MORE || status == MUSTER_ETIMEDOUT) {
            status = wait_room(request);
        }
        if (status != MUSTER_OK) {
            return status;
        }
    }
}

/* Lock held. */
static muster_status schedule_one(struct request *request, const struct muster_closure_call *given,
                                  muster_closure **out)
{
    muster_cluster *cluster = request->cluster;
    muster_closure *closure = NULL;
    muster_status status = read_call(request, given);

    if (status == MUSTER_OK && out) { /* the handle first: what was admitted must not fail */
        closure = mst_closure_new(cluster);
        status = mst_coord_fail(closure ? MUSTER_OK : MUSTER_ENOMEM, request->what, request->err);
    }
    if (status == MUSTER_OK) {
        status = admit(request);
    }
    if (request->needs != request->few_needs) {
        free(request->needs);
    }
    if (status != MUSTER_OK) {
        mst_closure_unmake(closure);
    } else if (closure) {
        closure->number = cluster->last;
        *out = closure;
    } else {
        mst_cluster_release(mst_coord_machine(cluster), mst_lib_now_ns(), cluster->last);
    }
    return status;
}

muster_status muster_cluster_schedule_many(muster_cluster *cluster,
                                           const struct muster_closure_call *calls, size_t count,
                                           int64_t timeout_ms, muster_closure **out,
                                           size_t *admitted, struct muster_error *err)
{
    struct request request = {.cluster = cluster,
                              .err = err,
                              .timeout_ms = timeout_ms,
                              .deadline_ns = mst_lib_deadline_ns(timeout_ms, 0)};
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
        status = schedule_one(&request, &calls[done], out ? &out[done] : NULL);
        done += status == MUSTER_OK;
    }
    if (mst_coord_machine(cluster) && !cluster->closing) {
        mst_coord_turn(cluster);
    }
    if (admitted) {
        *admitted = done;
    }
    return mst_coord_leave(cluster, status);
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

/* Lock held. OK: everything up to `number` has ended; MORE: not yet. */
static muster_status look_joined(muster_cluster *cluster, uint64_t number, uint64_t deadline_ns,
                                 const char *what, struct muster_error *err)
{
    muster_status status;

    while ((status = mst_cluster_joined(mst_coord_machine(cluster), number)) == MUSTER_EFAILED) {
        status = deliver(cluster, deadline_ns, what, err);
        if (status != MUSTER_OK) {
            return status;
        }
    }
    return status == MUSTER_MORE ? status : mst_coord_fail(status, what, err);
}

/* Lock held: until everything up to `number` has ended. */
static muster_status join(muster_cluster *cluster, uint64_t number, uint64_t deadline_ns,
                          const char *what, struct muster_error *err)
{
    struct joining joining = {.cluster = cluster, .number = number};
    muster_status status;

    while ((status = look_joined(cluster, number, deadline_ns, what, err)) == MUSTER_MORE) {
        status =
            mst_coord_fail(mst_coord_wait(cluster, is_joined, &joining, deadline_ns), what, err);
        if (status != MUSTER_OK) {
            break;
        }
    }
    return status;
}

muster_status muster_cluster_join(muster_cluster *cluster, int64_t timeout_ms,
                                  struct muster_error *err)
{
    uint64_t deadline_ns = mst_lib_deadline_ns(timeout_ms, 0);
    muster_status status = mst_coord_enter(cluster, true, err, "join");

    if (status != MUSTER_OK) {
        return status;
    }
    return mst_coord_leave(cluster, join(cluster, cluster->last, deadline_ns, "join", err));
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
    status = look_joined(cluster, cluster->last, NEVER, "done", err);
    *out = status == MUSTER_OK;
    return mst_coord_leave(cluster, status == MUSTER_MORE ? MUSTER_OK : status);
}

muster_status muster_cluster_drain(muster_cluster *cluster, int64_t timeout_ms,
                                   struct muster_error *err)
{
    uint64_t deadline_ns = mst_lib_deadline_ns(timeout_ms, 0);
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
    return mst_coord_leave(cluster, status);
}

/* ---- dismissing ---- */

/* What a dismissal waits for. */
static muster_status say_undismissed(muster_cluster *cluster, struct muster_error *err)
{
    struct mst_cluster_counts counts;
    struct mst_cluster_worker worker = {0};
    uint32_t number = 0;

    mst_cluster_counts(mst_coord_machine(cluster), mst_lib_now_ns(), &counts);
    if (counts.queued + counts.running > 0) {
        return mst_fail(err, MUSTER_ETIMEDOUT, 0,
                        "dismiss: timed out, closures queued: %" PRIu64 ", running: %" PRIu64
                        "; wait longer, or cancel them first",
                        counts.queued, counts.running);
    }
    if (!cluster->dismissed) {
        return mst_fail(err, MUSTER_ETIMEDOUT, 0,
                        "dismiss: timed out; the service does not answer");
    }
    while (mst_cluster_worker_at(mst_coord_machine(cluster), mst_lib_now_ns(), number, &worker) &&
           worker.state != MST_WORKER_DRAINING) {
        number++;
    }
    return mst_fail(err, MUSTER_ETIMEDOUT, 0,
                    "dismiss: timed out, workers that have not ended: %u, among them worker %u "
                    "(#%u%s%.*s); they end once what they run returns, or they are lost",
                    counts.present, number, worker.index, worker.host.size > 0 ? ", node " : "",
                    MST_SLICE_ARGS(worker.host));
}

/* Lock held. */
static muster_status dismiss(muster_cluster *cluster, uint64_t deadline_ns,
                             struct muster_error *err)
{
    muster_status status;

    cluster->unrecorded = MUSTER_OK;
    mst_cluster_dismiss(mst_coord_machine(cluster), mst_lib_now_ns());
    mst_coord_turn(cluster);
    for (;;) {
        status = mst_cluster_dismissed(mst_coord_machine(cluster));
        if (status == MUSTER_EFAILED) {
            status = deliver(cluster, deadline_ns, "dismiss", err);
            if (status == MUSTER_OK) {
                continue; /* another call has it */
            }
            return status;
        }
        if (status != MUSTER_MORE) {
            return mst_coord_fail(status, "dismiss", err);
        }
        if (cluster->unrecorded != MUSTER_OK) {
            return mst_fail(err, cluster->unrecorded, 0,
                            "dismiss: the record of it, key '%s', cannot be written: %s; no worker "
                            "was dismissed",
                            cluster->term.record_key, muster_status_text(cluster->unrecorded));
        }
        status = wait_change(cluster, deadline_ns);
        if (status == MUSTER_ETIMEDOUT) {
            return say_undismissed(cluster, err);
        }
        if (status != MUSTER_OK) {
            return mst_coord_fail(status, "dismiss", err);
        }
    }
}

muster_status muster_cluster_dismiss(muster_cluster *cluster, int64_t timeout_ms,
                                     struct muster_error *err)
{
    uint64_t deadline_ns = mst_lib_deadline_ns(timeout_ms, 0);
    muster_status status = mst_coord_enter(cluster, true, err, "dismiss");

    if (status != MUSTER_OK) {
        return status;
    }
    return mst_coord_leave(cluster, dismiss(cluster, deadline_ns, err));
}

bool muster_cluster_dismissed(muster_cluster *cluster)
{
    bool dismissed;

    if (mst_coord_enter(cluster, false, NULL, "dismissed") != MUSTER_OK) {
        return false;
    }
    dismissed = cluster->dismissed;
    (void)mst_coord_leave(cluster, MUSTER_OK);
    return dismissed;
}

/* ---- cancelling ---- */

static void cancel(muster_cluster *cluster, uint64_t group)
{
    if (mst_coord_enter(cluster, false, NULL, "cancel") == MUSTER_OK) {
        mst_cluster_cancel_group(mst_coord_machine(cluster), mst_lib_now_ns(), group);
        mst_coord_turn(cluster);
        (void)mst_coord_leave(cluster, MUSTER_OK);
    }
}

void muster_cluster_cancel_group(muster_cluster *cluster, uint64_t group)
{
    if (group != 0) {
        cancel(cluster, group);
    }
}

void muster_cluster_cancel_all(muster_cluster *cluster)
{
    cancel(cluster, 0);
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
        (void)mst_coord_leave(cluster, MUSTER_OK);
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
    return mst_coord_leave(cluster, mst_coord_fail(status, what, err));
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
        status = mst_fail(err, MUSTER_ENOTFOUND, 0, "drain worker: no worker has that number");
    }
    return mst_coord_leave(cluster, status);
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

    if (mst_coord_enter(cluster, false, NULL, "counts") == MUSTER_OK) {
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
        made.oldest_ms = -1;
        if (counts.oldest != 0) {
            made.oldest_ms = (int64_t)(counts.oldest_ns / NS_PER_MS);
            copy_text(made.oldest_function, sizeof(made.oldest_function), counts.oldest_function);
            copy_text(made.oldest_waits, sizeof(made.oldest_waits),
                      mst_slice_text(mst_cluster_wait_sentence(counts.oldest_waits)));
        }
        (void)mst_coord_leave(cluster, MUSTER_OK);
    }
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
        made.longest_ms = -1;
        if (worker.oldest != 0) {
            made.longest_ms = (int64_t)(worker.oldest_run_ns / NS_PER_MS);
            copy_text(made.longest_function, sizeof(made.longest_function), worker.oldest_function);
        }
        copy_text(made.host, sizeof(made.host), worker.host);
    }
    (void)mst_coord_leave(cluster, MUSTER_OK);
    give(out, &made, sizeof(made));
    return found;
}
