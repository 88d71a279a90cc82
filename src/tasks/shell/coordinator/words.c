/* SPDX-License-Identifier: Apache-2.0 */
/* Failures as users have them, and what is said of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tasks/shell/coordinator/cluster.h"

/* ---- copies ---- */

static size_t size_of(const struct mst_failure *failure)
{
    size_t size = 0;

    for (; failure; failure = failure->cause) {
        size += sizeof(struct muster_failure) + failure->text.size + failure->state.size + 2;
        size = (size + 7) & ~(size_t)7;
    }
    return size;
}

static char *copy_text(char *at, struct mst_slice text)
{
    if (text.size > 0) {
        memcpy(at, text.data, text.size);
    }
    at[text.size] = '\0';
    return at + text.size + 1;
}

/* Into memory of size_of; returns what lies behind. */
static unsigned char *copy_into(unsigned char *at, const struct mst_failure *failure,
                                uint64_t closure)
{
    while (failure) {
        struct muster_failure *out = (struct muster_failure *)(void *)at;
        char *text = (char *)(out + 1);
        char *state = copy_text(text, failure->text);

        *out = (struct muster_failure){.origin = (enum muster_origin)failure->origin,
                                       .code = failure->code,
                                       .worker = failure->worker,
                                       .attempt = failure->attempt,
                                       .incarnation = failure->incarnation,
                                       .closure = closure,
                                       .text = text,
                                       .state_server = state};
        (void)copy_text(state, failure->state);
        at += (sizeof(*out) + failure->text.size + failure->state.size + 2 + 7) & ~(size_t)7;
        failure = failure->cause;
        out->cause = failure ? (struct muster_failure *)(void *)at : NULL;
    }
    return at;
}

struct muster_failure *mst_coord_failure_copy(const struct mst_failure *failure, uint64_t closure)
{
    unsigned char *memory = malloc(size_of(failure));

    if (memory) {
        (void)copy_into(memory, failure, closure);
    }
    return (struct muster_failure *)(void *)memory;
}

struct muster_failures *mst_coord_failures_copy(const struct mst_cluster_failures *failures)
{
    size_t size = sizeof(struct muster_failures) + failures->kept * sizeof(struct muster_failure);
    struct muster_failures *out;
    struct muster_failure *items;
    unsigned char *at;

    for (uint32_t i = 0; i < failures->kept; i++) {
        size += size_of(&failures->first[i]);
    }
    out = malloc(size);
    if (!out) {
        return NULL;
    }
    items = (struct muster_failure *)(void *)(out + 1);
    at = (unsigned char *)(items + failures->kept);
    *out =
        (struct muster_failures){.items = items, .kept = failures->kept, .count = failures->count};
    for (uint32_t i = 0; i < failures->kept; i++) {
        unsigned char *copied = at;

        at = copy_into(at, &failures->first[i], failures->closures[i]);
        memcpy(&items[i], copied, sizeof(items[i]));
    }
    return out;
}

void muster_failures_free(struct muster_failures *failures)
{
    free(failures);
}

/* ---- words ---- */

muster_status mst_coord_status_of(enum mst_origin origin)
{
    switch (origin) {
    case MST_ORIGIN_NONE:
        return MUSTER_OK;
    case MST_ORIGIN_STATE:
        return MUSTER_ESTATE;
    case MST_ORIGIN_CANCELLED:
        return MUSTER_ECANCELLED;
    case MST_ORIGIN_FUNCTION:
    case MST_ORIGIN_CRASH:
    case MST_ORIGIN_LOST:
    case MST_ORIGIN_INPUT:
    case MST_ORIGIN_DEADLINE:
    case MST_ORIGIN_EXHAUSTED:
    case MST_ORIGIN_POISON:
    case MST_ORIGIN_UNKNOWN:
    case MST_ORIGIN_ARGUMENT:
    case MST_ORIGIN_INTERNAL:
    case MST_ORIGIN_RETURNED:
    case MST_ORIGIN_RETRYABLE:
        break;
    }
    return MUSTER_EFAILED;
}

/* What ends in a space goes on with the code. */
static const char *const origin_words[] = {
    [MUSTER_ORIGIN_NONE] = "it has a value",
    [MUSTER_ORIGIN_FUNCTION] = "the function failed with code ",
    [MUSTER_ORIGIN_RETRYABLE] = "the function failed again and again, with code ",
    [MUSTER_ORIGIN_CRASH] = "its process ended with status ",
    [MUSTER_ORIGIN_LOST] = "its worker was lost, and it must not run twice",
    [MUSTER_ORIGIN_INPUT] = "a per-worker value that it needs could not be built",
    [MUSTER_ORIGIN_CANCELLED] = "cancelled",
    [MUSTER_ORIGIN_DEADLINE] = "its time was up",
    [MUSTER_ORIGIN_EXHAUSTED] = "it reached a limit of memory or output",
    [MUSTER_ORIGIN_POISON] = "given up",
    [MUSTER_ORIGIN_UNKNOWN] = "no worker has its function in that version",
    [MUSTER_ORIGIN_ARGUMENT] = "the worker could not take its arguments",
    [MUSTER_ORIGIN_INTERNAL] = "a bug of muster",
};

static void add_origin(struct mst_text *text, const struct muster_failure *failure)
{
    enum muster_origin origin = failure->origin;

    if (origin == MUSTER_ORIGIN_STATE) {
        mst_text_format(text, "state server '%s' unavailable", failure->state_server);
    } else if (origin == MUSTER_ORIGIN_CRASH && failure->code < 0) {
        mst_text_format(text, "its process was killed by signal %" PRId64, -(int64_t)failure->code);
    } else if (origin == MUSTER_ORIGIN_CRASH || origin == MUSTER_ORIGIN_FUNCTION ||
               origin == MUSTER_ORIGIN_RETRYABLE) {
        mst_text_format(text, "%s%d", origin_words[origin], failure->code);
    } else {
        mst_text_add(text, origin_words[origin]);
    }
}

static void add_failure(struct mst_text *text, const struct muster_failure *failure)
{
    add_origin(text, failure);
    if (failure->worker != MUSTER_WORKER_NONE && failure->origin != MUSTER_ORIGIN_POISON) {
        mst_text_format(text, " on worker %u", failure->worker);
        if (failure->attempt > 1) {
            mst_text_format(text, ", attempt %u", failure->attempt);
        }
    }
    if (failure->text[0] != '\0') {
        mst_text_format(text, ": %.*s", MST_TEXT_ARGS(failure->text));
    }
}

muster_status mst_coord_say_failure(const struct muster_failure *failure, uint64_t count,
                                    const char *what, struct muster_error *err)
{
    muster_status status = mst_coord_status_of((enum mst_origin)failure->origin);
    struct mst_text text;

    if (!err) {
        return status;
    }
    err->status = status;
    err->os_errno = 0;
    text = mst_text_in(err->text, sizeof(err->text));
    mst_text_format(&text, "%s: closure %" PRIu64 ": ", what, failure->closure);
    add_failure(&text, failure);
    for (failure = failure->cause; failure; failure = failure->cause) {
        mst_text_add(&text, "; because ");
        add_failure(&text, failure);
    }
    if (count > 1) {
        mst_text_format(&text, " (and %" PRIu64 " more)", count - 1);
    }
    return status;
}

/* ---- log lines ---- */

static const char *worker_words(char *room, size_t size, const struct mst_cluster_effect *effect)
{
    if (effect->worker == MST_WORKER_NONE) {
        return "somebody who is no worker"; /* yet, or at all */
    }
    mst_text_print(room, size, "worker %u (#%u%s%.*s)", effect->worker, effect->index,
                   effect->host.size > 0 ? ", node " : "", MST_SLICE_ARGS(effect->host));
    return room;
}

/* The line, and how much it matters. */
static enum muster_level add_line(struct mst_text *text, const struct mst_cluster_effect *effect,
                                  const char *worker)
{
    switch (effect->line) {
    case MST_CLUSTER_LINE_JOINED:
        mst_text_format(text, "%s is there", worker);
        return MUSTER_LEVEL_INFO;
    case MST_CLUSTER_LINE_LOST:
        mst_text_format(text, "%s lost, and with it %" PRIu64 " %s elsewhere", worker,
                        effect->count,
                        effect->count == 1 ? "closure, which runs" : "closures, which run");
        return MUSTER_LEVEL_WARN;
    case MST_CLUSTER_LINE_BACK:
        mst_text_format(text, "%s is back", worker);
        return MUSTER_LEVEL_INFO;
    case MST_CLUSTER_LINE_SILENT:
        mst_text_format(text, "%s silent: its connection broke, and it is still a member", worker);
        return MUSTER_LEVEL_WARN;
    case MST_CLUSTER_LINE_DRAINED:
        mst_text_format(text, "%s has drained", worker);
        return MUSTER_LEVEL_INFO;
    case MST_CLUSTER_LINE_REFUSED:
        mst_text_format(text, "%s hung up on: %.*s", worker, MST_SLICE_ARGS(effect->text));
        return MUSTER_LEVEL_WARN;
    case MST_CLUSTER_LINE_GIVEN_UP:
        mst_text_format(text, "%s given up: it stayed away for recovery_max", worker);
        return MUSTER_LEVEL_WARN;
    case MST_CLUSTER_LINE_LATE:
        mst_text_format(text, "closure %" PRIu64 ": a result by %s came when it no longer counted",
                        effect->closure, worker);
        return MUSTER_LEVEL_DEBUG;
    case MST_CLUSTER_LINE_STUCK:
        mst_text_format(text,
                        "closure %" PRIu64 " has been running for " MST_SECONDS
                        " on %s, and none has ended meanwhile: %.*s",
                        effect->closure, MST_SECONDS_ARGS(effect->count), worker,
                        MST_SLICE_ARGS(effect->text));
        return MUSTER_LEVEL_WARN;
    case MST_CLUSTER_LINE_WAITS:
        mst_text_format(text, "closure %" PRIu64 " has been waiting for " MST_SECONDS ": %.*s",
                        effect->closure, MST_SECONDS_ARGS(effect->count),
                        MST_SLICE_ARGS(effect->text));
        return MUSTER_LEVEL_WARN;
    case MST_CLUSTER_LINE_UNBUILT:
        mst_text_format(text, "per-worker value %" PRIu64 " could not be built on %s: %.*s",
                        effect->count, worker, MST_SLICE_ARGS(effect->text));
        return MUSTER_LEVEL_WARN;
    case MST_CLUSTER_LINE_TEXT:
        mst_text_format(text, "closure %" PRIu64 " on %s: %.*s", effect->closure, worker,
                        MST_SLICE_ARGS(effect->text));
        return MUSTER_LEVEL_INFO;
    }
    return MUSTER_LEVEL_DEBUG;
}

void mst_coord_say_line(muster_cluster *cluster, const struct mst_cluster_effect *effect)
{
    char line[1400], worker[1100];
    struct mst_text text = mst_text_in(line, sizeof(line));
    enum muster_level level;

    mst_text_add(&text, "cluster: ");
    level = add_line(&text, effect, worker_words(worker, sizeof(worker), effect));
    if (effect->line == MST_CLUSTER_LINE_REFUSED) {
        mst_coord_complain(cluster, line);
    } else {
        mst_coord_say(cluster, level, "%s", line);
    }
}

/* ---- limits ---- */

static const struct {
    const char *name, *remedy;
} limits[] = {
    [MST_CLUSTER_LIMIT_NAME] = {"the longest name of a function (bytes)", "give it a shorter one"},
    [MST_CLUSTER_LIMIT_KEY] = {"the longest key of a closure (bytes)",
                               "give it a shorter one, such as a digest of this one"},
    [MST_CLUSTER_LIMIT_NEEDS] = {"the needs that one closure may have",
                                 "build one per-worker value of several"},
    [MST_CLUSTER_LIMIT_PARTS] = {"the parts that a message may have",
                                 "put several of them into one"},
    [MST_CLUSTER_LIMIT_BYTES] = {"the arguments that a message may have (bytes)",
                                 "write them to a file, and give where that is"},
    [MST_CLUSTER_LIMIT_QUEUE] = {"queue_limit (MUSTER_CLUSTER_QUEUE_LIMIT: queued closures)",
                                 "wait longer for room, raise it, or start more workers"},
    [MST_CLUSTER_LIMIT_QUEUE_BYTES] = {"queue_bytes (MUSTER_CLUSTER_QUEUE_BYTES: their arguments)",
                                       "wait longer for room, raise it, or start more workers"},
};

muster_status mst_coord_fail_limit(const struct mst_cluster_excess *excess, const char *what,
                                   struct muster_error *err)
{
    return mst_fail(
        err, MUSTER_ELIMIT, 0, "%s: over %s: %" PRIu64 " asked for, at most %" PRIu64 "; %s", what,
        limits[excess->limit].name, excess->asked, excess->most, limits[excess->limit].remedy);
}

muster_status mst_coord_refuse(muster_cluster *cluster, const struct mst_closure_call *call,
                               muster_status status, const char *what, struct muster_error *err)
{
    char late[MST_LIB_WHAT_ROOM + 16];
    struct mst_cluster_excess excess;

    if (status != MUSTER_ELIMIT && status != MUSTER_ETIMEDOUT) {
        return mst_coord_fail(cluster, status, what, err);
    }
    if (status == MUSTER_ETIMEDOUT) {
        (void)snprintf(late, sizeof(late), "%s: timed out", what);
        what = late;
    }
    excess = mst_cluster_excess(mst_coord_machine(cluster), call);
    if (excess.limit != MST_CLUSTER_LIMIT_NONE) {
        (void)mst_coord_fail_limit(&excess, what, err);
    } else {
        (void)mst_lib_refuse(err, what,
                             "a failure is being delivered, and what runs of its series has not "
                             "ended; wait longer, or call muster_cluster_join first");
    }
    if (err) {
        err->status = status;
    }
    return status;
}
