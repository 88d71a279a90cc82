/* SPDX-License-Identifier: Apache-2.0 */
/* The error texts of failures and limits, and the log lines of the machine. */
#include <stdio.h>
#include <string.h>

#include "tasks/shell/coordinator/cluster.h"

/* ---- failures ---- */

/* Words that end in a space are followed by the code. */
static const struct {
    muster_status status;
    const char *words;
} origins[MST_ORIGINS] = {
    [MST_ORIGIN_NONE] = {MUSTER_OK, "it has a value"},
    [MST_ORIGIN_FUNCTION] = {MUSTER_EFAILED, "the function failed with code "},
    [MST_ORIGIN_CRASH] = {MUSTER_EFAILED, "its process ended with status "},
    [MST_ORIGIN_LOST] = {MUSTER_EFAILED, "its worker was lost, and it must not run twice"},
    [MST_ORIGIN_STATE] = {MUSTER_ESTATE, "a state server is unavailable"},
    [MST_ORIGIN_INPUT] = {MUSTER_EFAILED, "a per-worker value that it needs could not be built"},
    [MST_ORIGIN_CANCELLED] = {MUSTER_ECANCELLED, "cancelled"},
    [MST_ORIGIN_DEADLINE] = {MUSTER_EFAILED, "its time was up"},
    [MST_ORIGIN_EXHAUSTED] = {MUSTER_EFAILED, "it reached a limit of memory or output"},
    [MST_ORIGIN_POISON] = {MUSTER_EFAILED, "given up"},
    [MST_ORIGIN_UNKNOWN] = {MUSTER_EFAILED, "no worker has its function"},
    [MST_ORIGIN_ARGUMENT] = {MUSTER_EFAILED, "the worker could not take its arguments"},
    [MST_ORIGIN_INTERNAL] = {MUSTER_EFAILED, "a bug of muster"},
    [MST_ORIGIN_RETURNED] = {MUSTER_EFAILED, "its worker returned it"}, /* never the last word */
    [MST_ORIGIN_RETRYABLE] = {MUSTER_EFAILED, "the function failed again and again, with code "},
};

muster_status mst_coord_status_of(enum mst_origin origin)
{
    return origins[origin].status;
}

static void add_origin(struct mst_text *text, const struct muster_failure *failure)
{
    const char *words = origins[failure->origin].words;

    if (failure->origin == MUSTER_ORIGIN_STATE) {
        mst_text_format(text, "state server '%s' unavailable", failure->state_server);
    } else if (failure->origin == MUSTER_ORIGIN_CRASH && failure->code < 0) {
        mst_text_format(text, "its process was killed by signal %" PRId64, -(int64_t)failure->code);
    } else {
        mst_text_add(text, words);
        if (words[strlen(words) - 1] == ' ') {
            mst_text_format(text, "%d", failure->code);
        }
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
    err->why = MUSTER_WHY_STATUS;
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

/* A line with nothing but the worker in it has its words here. */
static const struct {
    enum muster_level level;
    const char *words;
} lines[] = {
    [MST_CLUSTER_LINE_JOINED] = {MUSTER_LEVEL_INFO, "joined"},
    [MST_CLUSTER_LINE_LOST] = {MUSTER_LEVEL_WARN, NULL},
    [MST_CLUSTER_LINE_BACK] = {MUSTER_LEVEL_INFO, "reconnected"},
    [MST_CLUSTER_LINE_SILENT] = {MUSTER_LEVEL_WARN,
                                 "silent: its connection broke, and it is still a member"},
    [MST_CLUSTER_LINE_DRAINED] = {MUSTER_LEVEL_INFO, "drained"},
    [MST_CLUSTER_LINE_REFUSED] = {MUSTER_LEVEL_WARN, NULL},
    [MST_CLUSTER_LINE_GIVEN_UP] = {MUSTER_LEVEL_WARN, "given up: it stayed away for recovery_max"},
    [MST_CLUSTER_LINE_LATE] = {MUSTER_LEVEL_DEBUG, NULL},
    [MST_CLUSTER_LINE_STUCK] = {MUSTER_LEVEL_WARN, NULL},
    [MST_CLUSTER_LINE_TEXT] = {MUSTER_LEVEL_INFO, NULL},
    [MST_CLUSTER_LINE_WAITS] = {MUSTER_LEVEL_WARN, NULL},
    [MST_CLUSTER_LINE_UNBUILT] = {MUSTER_LEVEL_WARN, NULL},
};

static void add_worker(struct mst_text *text, const struct mst_cluster_effect *effect)
{
    if (effect->worker == MST_WORKER_NONE) {
        mst_text_add(text, "a connection that is no worker's");
        return;
    }
    mst_text_format(text, "worker %u (#%u%s%.*s)", effect->worker, effect->index,
                    effect->host.size > 0 ? ", node " : "", MST_SLICE_ARGS(effect->host));
}

static void add_line(struct mst_text *text, const struct mst_cluster_effect *effect,
                     const char *worker)
{
    switch (effect->line) {
    case MST_CLUSTER_LINE_JOINED:
    case MST_CLUSTER_LINE_BACK:
    case MST_CLUSTER_LINE_SILENT:
    case MST_CLUSTER_LINE_DRAINED:
    case MST_CLUSTER_LINE_GIVEN_UP:
        mst_text_format(text, "%s %s", worker, lines[effect->line].words);
        return;
    case MST_CLUSTER_LINE_LOST:
        mst_text_format(text, "%s lost, and with it %" PRIu64 " %s elsewhere", worker,
                        effect->count,
                        effect->count == 1 ? "closure, which runs" : "closures, which run");
        return;
    case MST_CLUSTER_LINE_LATE:
        mst_text_format(text, "closure %" PRIu64 ": a result by %s came when it no longer counted",
                        effect->closure, worker);
        return;
    case MST_CLUSTER_LINE_REFUSED:
        mst_text_format(text, "%s was disconnected", worker);
        break;
    case MST_CLUSTER_LINE_STUCK:
        mst_text_format(text,
                        "closure %" PRIu64 " has been running for " MST_SECONDS
                        " on %s, and none has ended meanwhile",
                        effect->closure, MST_SECONDS_ARGS(effect->count), worker);
        break;
    case MST_CLUSTER_LINE_WAITS:
        mst_text_format(text, "closure %" PRIu64 " has been waiting for " MST_SECONDS,
                        effect->closure, MST_SECONDS_ARGS(effect->count));
        break;
    case MST_CLUSTER_LINE_UNBUILT:
        mst_text_format(text, "per-worker value %" PRIu64 " could not be built on %s",
                        effect->count, worker);
        break;
    case MST_CLUSTER_LINE_TEXT:
        mst_text_format(text, "closure %" PRIu64 " on %s", effect->closure, worker);
        break;
    }
    mst_text_format(text, ": %.*s", MST_SLICE_ARGS(effect->text));
}

void mst_coord_say_line(muster_cluster *cluster, const struct mst_cluster_effect *effect)
{
    char line[1400], worker[1100];
    struct mst_text text = mst_text_in(line, sizeof(line));
    struct mst_text who = mst_text_in(worker, sizeof(worker));

    add_worker(&who, effect);
    mst_text_add(&text, "cluster: ");
    add_line(&text, effect, worker);
    if (effect->line == MST_CLUSTER_LINE_REFUSED) {
        mst_coord_complain(cluster, line);
    } else {
        mst_coord_say(cluster, lines[effect->line].level, "%s", line);
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

    if (status == MUSTER_ECANCELLED && cluster->dismissed) {
        return mst_fail(err, status, 0,
                        "%s: cluster '%s' was dismissed, and its workers have ended: end too "
                        "(muster_cluster_dismissed), or use another cluster or job",
                        what, cluster->settings.name);
    }
    if (status != MUSTER_ELIMIT && status != MUSTER_ETIMEDOUT) {
        return mst_coord_fail(status, what, err);
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
