/* SPDX-License-Identifier: Apache-2.0 */
/* The handle of a closure. The first look after the closure has ended moves its outcome into the
 * handle, and the machine forgets the closure. */
#include "tasks/shell/coordinator/cluster.h"

#include <stdlib.h>
#include <unistd.h>

/* ---- handles ---- */

muster_closure *mst_closure_new(muster_cluster *cluster)
{
    muster_closure *closure = calloc(1, sizeof(*closure));

    if (closure) {
        closure->cluster = cluster;
        mst_coord_hold(cluster);
    }
    return closure;
}

void mst_closure_unmake(muster_closure *closure)
{
    if (closure) {
        mst_coord_let_go(closure->cluster);
        free(closure);
    }
}

/* Lock held. OK: its outcome is here; MORE: it has not ended; ENOMEM. */
static muster_status settle(muster_closure *closure)
{
    muster_cluster *cluster = closure->cluster;
    struct mst_closure_look look;

    if (closure->outcome) {
        return MUSTER_OK;
    }
    if (!mst_coord_machine(cluster) || cluster->poisoned) {
        return MUSTER_ECANCELLED;
    }
    mst_cluster_look(mst_coord_machine(cluster), closure->number, &look);
    if (look.state == MST_CLOSURE_QUEUED || look.state == MST_CLOSURE_RUNNING) {
        return MUSTER_MORE;
    }
    closure->outcome = mst_coord_outcome_of(&look, closure->number);
    if (!closure->outcome) {
        return MUSTER_ENOMEM;
    }
    mst_cluster_release(mst_coord_machine(cluster), mst_lib_now_ns(), closure->number);
    return MUSTER_OK;
}

/* Lock not held. `look`: it is settled if it can be. */
static bool has_outcome(muster_closure *closure, bool look)
{
    bool has = false;

    if (closure->cluster->pid == getpid()) {
        mst_coord_lock(closure->cluster);
        has = look ? settle(closure) == MUSTER_OK : closure->outcome != NULL;
        mst_coord_unlock(closure->cluster);
    }
    return has;
}

/* ---- entering ---- */

/* A handle outlives its cluster: what was settled can still be looked at. OK: with the lock and
 * a visitor; MORE: with neither, and the outcome is here. */
static muster_status enter(muster_closure *closure, bool blocks, struct muster_error *err,
                           const char *what)
{
    if (!closure) {
        return mst_lib_refuse(err, what, "the handle is NULL");
    }
    if (has_outcome(closure, false)) {
        return MUSTER_MORE;
    }
    return mst_coord_enter(closure->cluster, blocks, err, what);
}

static void describe(char what[MST_LIB_WHAT_ROOM], const char *verb, const muster_closure *closure)
{
    if (closure) {
        mst_text_print(what, MST_LIB_WHAT_ROOM, "%s closure %" PRIu64, verb, closure->number);
    } else {
        mst_text_print(what, MST_LIB_WHAT_ROOM, "%s", verb);
    }
}

/* ---- waiting ---- */

struct several {
    muster_closure *const *closures;
    size_t count;
    bool any;    /* one of them is enough */
    size_t from; /* of all: those before have ended; of any: this one has */
};

static bool has_ended(const muster_closure *closure)
{
    struct mst_closure_look look;

    if (closure->outcome) {
        return true;
    }
    mst_cluster_look(mst_coord_machine(closure->cluster), closure->number, &look);
    return look.state != MST_CLOSURE_QUEUED && look.state != MST_CLOSURE_RUNNING;
}

/* Walks over those that have ended until one has not, or, of any, the other way round. */
static bool have_ended(void *ctx)
{
    struct several *several = ctx;
    size_t i = several->any ? 0 : several->from;

    while (i < several->count && has_ended(several->closures[i]) != several->any) {
        i++;
    }
    several->from = i;
    return several->any ? i < several->count : i == several->count;
}

/* Until it has ended; its outcome is then here. */
static muster_status await(muster_closure *closure, int64_t timeout_ms, const char *verb,
                           struct muster_error *err)
{
    uint64_t deadline_ns = mst_lib_deadline_ns(timeout_ms, 0);
    struct several several = {.closures = &closure, .count = 1};
    char what[MST_LIB_WHAT_ROOM];
    muster_status status;

    describe(what, verb, closure);
    status = enter(closure, timeout_ms != 0, err, what);
    if (status != MUSTER_OK) {
        return status == MUSTER_MORE ? MUSTER_OK : status;
    }
    status = mst_coord_wait(closure->cluster, have_ended, &several, deadline_ns);
    if (status == MUSTER_OK) {
        status = settle(closure);
    }
    return mst_coord_leave(closure->cluster, mst_coord_fail(status, what, err));
}

muster_status muster_closure_wait(muster_closure *closure, int64_t timeout_ms,
                                  struct muster_error *err)
{
    return await(closure, timeout_ms, "wait for", err);
}

static muster_status report(const muster_closure *closure, struct muster_error *err)
{
    if (closure->outcome->failure) {
        (void)mst_coord_say_failure(closure->outcome->failure, 1, "fetch", err);
    }
    return closure->outcome->status;
}

muster_status muster_closure_fetch(muster_closure *closure, int64_t timeout_ms,
                                   const struct muster_part **parts, size_t *count,
                                   struct muster_error *err)
{
    muster_status status = await(closure, timeout_ms, "fetch", err);
    const struct mst_coord_outcome *outcome = status == MUSTER_OK ? closure->outcome : NULL;

    if (outcome) {
        status = report(closure, err);
    }
    if (parts) {
        *parts = outcome && (status == MUSTER_OK || outcome->parts.count > 0)
                     ? mst_parts_public(outcome->parts)
                     : NULL;
    }
    if (count) {
        *count = outcome ? outcome->parts.count : 0;
    }
    return status;
}

static muster_status check_several(muster_closure *const *closures, size_t count,
                                   struct muster_error *err)
{
    if (count == 0 || !closures) {
        return mst_lib_refuse(err, "fetch", "there is no closure");
    }
    for (size_t i = 0; i < count; i++) {
        if (!closures[i] || closures[i]->cluster != closures[0]->cluster) {
            return mst_lib_refuse(err, "fetch", "a handle is NULL, or of another cluster");
        }
    }
    return MUSTER_OK;
}

/* Until they, or any of them, have ended. OK: with the lock and a visitor. */
static muster_status await_several(struct several *several, int64_t timeout_ms,
                                   struct muster_error *err)
{
    uint64_t deadline_ns = mst_lib_deadline_ns(timeout_ms, 0);
    muster_status status = check_several(several->closures, several->count, err);
    muster_cluster *cluster;

    if (status != MUSTER_OK) {
        return status;
    }
    cluster = several->closures[0]->cluster;
    status = mst_coord_enter(cluster, timeout_ms != 0, err, "fetch");
    if (status != MUSTER_OK) {
        return status;
    }
    status = mst_coord_wait(cluster, have_ended, several, deadline_ns);
    return status == MUSTER_OK ? status
                               : mst_coord_leave(cluster, mst_coord_fail(status, "fetch", err));
}

/* Lock held. */
static muster_status settle_all(muster_closure *const *closures, size_t count, muster_status *each,
                                struct muster_error *err)
{
    muster_status first = MUSTER_OK;

    for (size_t i = 0; i < count; i++) {
        muster_status status = settle(closures[i]);

        if (status != MUSTER_OK) {
            return mst_coord_fail(status, "fetch", err);
        }
        if (first == MUSTER_OK && closures[i]->outcome->status != MUSTER_OK) {
            first = report(closures[i], err);
        }
        if (each) {
            each[i] = closures[i]->outcome->status;
        }
    }
    return first;
}

muster_status muster_closure_fetch_many(muster_closure *const *closures, size_t count,
                                        int64_t timeout_ms, muster_status *each,
                                        struct muster_error *err)
{
    struct several several = {.closures = closures, .count = count};
    muster_status status;

    if (count == 0) {
        return MUSTER_OK;
    }
    status = await_several(&several, timeout_ms, err);
    if (status != MUSTER_OK) {
        return status;
    }
    return mst_coord_leave(closures[0]->cluster, settle_all(closures, count, each, err));
}

muster_status muster_closure_fetch_any(muster_closure *const *closures, size_t count,
                                       int64_t timeout_ms, size_t *index, struct muster_error *err)
{
    struct several several = {.closures = closures, .count = count, .any = true};
    muster_status status;

    if (!index) {
        return mst_lib_refuse(err, "fetch", "index is NULL");
    }
    status = await_several(&several, timeout_ms, err);
    if (status != MUSTER_OK) {
        return status;
    }
    *index = several.from;
    return mst_coord_leave(closures[0]->cluster, status);
}

/* ---- looking ---- */

bool muster_closure_failure(muster_closure *closure, struct muster_failure *out)
{
    if (!out || !closure || !has_outcome(closure, true) || !closure->outcome->failure) {
        return false;
    }
    *out = *closure->outcome->failure;
    return true;
}

static void look_at(muster_closure *closure, struct muster_closure_progress *out)
{
    struct mst_closure_look look;

    if (!mst_coord_machine(closure->cluster) || closure->cluster->poisoned) {
        out->state = MUSTER_CLOSURE_FAILED;
        return;
    }
    mst_cluster_look(mst_coord_machine(closure->cluster), closure->number, &look);
    out->state = look.state == MST_CLOSURE_QUEUED ? MUSTER_CLOSURE_QUEUED : MUSTER_CLOSURE_RUNNING;
    out->attempts = look.attempts;
    out->worker = look.worker;
    out->fraction = look.fraction;
    mst_text_print(out->text, sizeof(out->text), "%.*s", MST_SLICE_ARGS(look.text));
}

void muster_closure_look(muster_closure *closure, struct muster_closure_progress *out)
{
    if (!out) {
        return;
    }
    *out = (struct muster_closure_progress){.worker = MUSTER_WORKER_NONE, .fraction = -1};
    if (!closure || closure->cluster->pid != getpid()) {
        return;
    }
    out->number = closure->number;
    mst_coord_lock(closure->cluster);
    if (settle(closure) == MUSTER_OK) {
        out->state = closure->outcome->state == MST_CLOSURE_VALUE ? MUSTER_CLOSURE_VALUE
                                                                  : MUSTER_CLOSURE_FAILED;
        out->attempts = closure->outcome->attempts;
        out->worker = closure->outcome->worker;
    } else {
        look_at(closure, out);
    }
    mst_coord_unlock(closure->cluster);
}

uint64_t muster_closure_number(const muster_closure *closure)
{
    return closure ? closure->number : 0;
}

/* ---- the end of it ---- */

void muster_closure_cancel(muster_closure *closure)
{
    if (enter(closure, false, NULL, "cancel") == MUSTER_OK) {
        mst_cluster_cancel(mst_coord_machine(closure->cluster), mst_lib_now_ns(), closure->number);
        mst_coord_turn(closure->cluster);
        (void)mst_coord_leave(closure->cluster, MUSTER_OK);
    }
}

void muster_closure_release(muster_closure *closure)
{
    muster_cluster *cluster = closure ? closure->cluster : NULL;

    if (!closure || cluster->pid != getpid()) {
        return;
    }
    if (!cluster->poisoned) {
        mst_coord_lock(cluster);
        if (mst_coord_machine(cluster) && !closure->outcome) {
            mst_cluster_release(mst_coord_machine(cluster), mst_lib_now_ns(), closure->number);
            mst_coord_turn(cluster);
        }
        mst_coord_unlock(cluster);
    }
    free(closure->outcome);
    mst_coord_let_go(cluster);
    free(closure);
}
