/* SPDX-License-Identifier: Apache-2.0 */
/* The one line that a user reads when a call failed: what was attempted, what happened, which
 * members are involved, and the remedy. The service sends numbers; this file turns them into words.
 */
#include <errno.h>
#include <string.h>

#include "client/shell/handle.h"
#include "os/descriptors.h"
#include "proto/limit_kinds.h"
#include "proto/status.h"
#include "proto/words.h"

static void add_state(struct mst_text *text, const struct mst_who *who)
{
    if (who->state == MST_SILENT) {
        mst_text_format(text, "silent " MST_SECONDS, MST_SECONDS_ARGS(who->heard_ms));
    } else if (who->state == MST_STATE_LOST) {
        mst_cause_phrase(text, &(struct mst_caused){.cause = who->cause, .code = who->code});
    } else {
        mst_text_add(text, who->state == MST_ABSENT ? "never started" : mst_state_word(who->state));
    }
}

/* "rank 1 (#2, silent 12.4 s, node b3)"; without a rank "#2 (never started)". */
static void add_who(struct mst_text *text, const struct mst_who *who)
{
    if (who->rank != MST_RANK_NONE) {
        mst_text_format(text, "rank %u (#%u, ", who->rank, who->index);
    } else {
        mst_text_format(text, "#%u (", who->index);
    }
    add_state(text, who);
    mst_text_format(text, "%s%.*s)", who->host.size > 0 ? ", node " : "",
                    MST_SLICE_ARGS(who->host));
}

void mst_lib_add_names(struct mst_text *text, const struct mst_detail *detail, uint32_t all)
{
    for (uint32_t i = 0; i < detail->who_count && i < MST_NAMES_MAX; i++) {
        mst_text_add(text, i > 0 ? ", " : " ");
        add_who(text, &detail->who[i]);
    }
    if (all > detail->who_count && detail->who_count > 0) {
        mst_text_format(text, " and %u more", all - detail->who_count);
    }
}

static void say_timeout(struct mst_text *text, const struct mst_reply *reply)
{
    const struct mst_detail *detail = &reply->detail;
    bool is_read = reply->command == MST_GET || reply->command == MST_WAIT;

    if (!reply->has_detail || detail->expected == 0) {
        mst_text_format(text, "%s%s", mst_status_text(reply->status),
                        is_read ? "; no value was written" : "");
        return;
    }
    mst_text_format(text, "%u of %u%s", detail->arrived, detail->expected,
                    reply->command != MST_JOIN ? " arrived"
                    : detail->expected == 1    ? " rank is ready"
                                               : " ranks are ready");
    if (detail->who_count > 0) {
        mst_text_add(text, "; missing");
        mst_lib_add_names(text, detail, detail->lost + detail->missing);
    }
}

static void say_setting(struct mst_text *text, const struct mst_detail *detail,
                        const struct mst_setting *setting)
{
    mst_text_add(text, "over --");
    for (const char *name = setting->name; *name; name++) { /* "--value-bytes-max" */
        mst_text_format(text, "%c", *name == '_' ? '-' : *name);
    }
    mst_text_format(text,
                    " of the service (%s): %" PRIu64 "%s asked for, at most %" PRId64
                    "; raise it at `muster serve`, or ask for less",
                    setting->help, detail->asked, setting->unit == MST_UNIT_BYTES ? " bytes" : "",
                    detail->limit);
}

/* Limits that no flag of the service raises. */
static const struct fixed_limit {
    const char *what, *remedy;
} fixed_limits[] = {
    [MST_LIMIT_SIZE] = {"job's size (ranks)", "let one of its ranks end, or give the job a "
                                              "max_size above it for spares"},
    [MST_LIMIT_MAX_SIZE] = {"job's max_size (ranks in an order)",
                            "give a shorter order, or a larger max_size"},
    [MST_LIMIT_UNANSWERED] = {"service's limit of requests ahead of the oldest unanswered one",
                              "await answers first"},
    [MST_LIMIT_WAITING] = {"service's limit of gets, waits and watches of one client that wait",
                           "let some end first"},
    [MST_LIMIT_AWAITED_KEYS] = {"service's limit of keys that one client's gets and waits wait for",
                                "let some come first, or wait for fewer"},
    [MST_LIMIT_CUT_MS] = {"longest cut of a network (ms)", "ask for less"},
};

static void say_limit(struct mst_text *text, const struct mst_reply *reply)
{
    const struct mst_detail *detail = &reply->detail;
    const struct mst_setting *setting;

    if (!reply->has_detail) { /* refused here, before it was sent */
        mst_text_add(text, "larger than a message to this service may be (--frame-bytes-max of "
                           "`muster serve`); raise it there, or send less at once");
        return;
    }
    setting = mst_limit_kind_setting(detail->limit_kind);
    if (setting) {
        say_setting(text, detail, setting);
    } else if (detail->limit_kind < sizeof(fixed_limits) / sizeof(fixed_limits[0]) &&
               fixed_limits[detail->limit_kind].what) {
        const struct fixed_limit *fixed = &fixed_limits[detail->limit_kind];

        mst_text_format(text, "over the %s: %" PRIu64 " asked for, at most %" PRId64 "; %s",
                        fixed->what, detail->asked, detail->limit, fixed->remedy);
    } else if (detail->limit != 0) {
        mst_text_format(text, "over a limit of the service: %" PRId64, detail->limit);
    } else {
        mst_text_add(text, "over a limit");
    }
}

static void say_exists(struct mst_text *text, const struct mst_reply *reply)
{
    if (reply->command == MST_WRITE) {
        mst_text_add(text, "the key exists already");
    } else if (reply->has_detail && reply->detail.who_count > 0) {
        const struct mst_who *who = &reply->detail.who[0];

        mst_text_format(text,
                        "#%u is held by process %" PRIu64 "%s%.*s, heard " MST_SECONDS
                        " ago; stop that process, or take another index",
                        who->index, who->pid, who->host.size > 0 ? " on " : "",
                        MST_SLICE_ARGS(who->host), MST_SECONDS_ARGS(who->heard_ms));
    } else {
        mst_text_add(text, "the place is held by a living process");
    }
}

static void say_fenced(struct mst_text *text, const struct mst_reply *reply)
{
    mst_text_add(text, reply->command == MST_ROUND || reply->command == MST_FAULT
                           ? "the generation is over"
                           : "this process was replaced; the job continues without it");
    if (reply->has_view && reply->view.generation != 0) {
        mst_text_format(text, "; the job is in generation %" PRIu64, reply->view.generation);
    }
}

static void say_number(struct mst_text *text, const struct mst_reply *reply)
{
    mst_text_add(text, reply->status == MUSTER_ESTALE
                           ? "this round is over and its result no longer kept"
                           : "refused: other parameters than the first caller's, or a number that "
                             "is not the next");
    if (reply->has_detail) {
        mst_text_format(text, "; the service is at number %" PRId64 "%s", reply->detail.limit,
                        reply->detail.who_count > 0 ? " with" : "");
        mst_lib_add_names(text, &reply->detail, reply->detail.who_count);
    }
}

static void say_open_refused(struct mst_text *text, const struct mst_reply *reply)
{
    mst_text_add(text, "refused by the service: the job was given other values of size, min_size, "
                       "max_size, size_multiple or join_wait, or together they allow no number of "
                       "ranks, or a name or index makes no sense");
    if (reply->has_detail && reply->detail.limit != 0) {
        mst_text_format(text, " (the job has %" PRId64 ")", reply->detail.limit);
    }
}

static void say_too_few(struct mst_text *text, const struct mst_reply *reply)
{
    const struct mst_detail *detail = &reply->detail;
    const char *left = detail->arrived == 1 ? "rank is left" : "ranks are left";

    if (!reply->has_detail) {
        mst_text_add(text, mst_status_text(reply->status));
    } else if (detail->multiple != 0) {
        mst_text_format(text,
                        "the job continues with a multiple of %u ranks (size_multiple), at least "
                        "min_size %" PRId64 ", but only %u %s",
                        detail->multiple, detail->limit, detail->arrived, left);
    } else {
        mst_text_format(text, "%u %s, min_size is %" PRId64, detail->arrived, left, detail->limit);
    }
}

static void say_lost(struct mst_text *text, const struct mst_reply *reply)
{
    if (reply->command == MST_ROUND && reply->status == MUSTER_EMISMATCH && !reply->has_detail) {
        mst_text_add(text, "refused: another rank has given the order of this seal");
        return;
    }
    mst_text_add(text, mst_status_text(reply->status));
    if (reply->has_detail && reply->detail.who_count > 0) {
        mst_text_add(text, ":");
        mst_lib_add_names(text, &reply->detail, reply->detail.who_count);
    }
}

static void say_no_space(struct mst_text *text, const struct mst_reply *reply)
{
    struct mst_slice why =
        reply->value.size > 0 ? reply->value : mst_slice_text(mst_status_text(reply->status));

    mst_text_format(text, "the service cannot keep it: %.*s", MST_SLICE_ARGS(why));
}

static void say_status(struct mst_text *text, const struct mst_reply *reply)
{
    mst_text_add(text, mst_status_text(reply->status));
}

static void say_invalid(struct mst_text *text, const struct mst_reply *reply)
{
    if (reply->command == MST_ROUND) {
        say_number(text, reply);
    } else if (reply->command == MST_OPEN) {
        say_open_refused(text, reply);
    } else {
        say_status(text, reply);
    }
}

static void say_conflict(struct mst_text *text, const struct mst_reply *reply)
{
    (void)reply;
    mst_text_add(text, "another client changed the key");
}

static void say_absent(struct mst_text *text, const struct mst_reply *reply)
{
    mst_text_add(text, reply->command == MST_GET ? "no such key" : "not found");
}

/* By status. NULL: the text of the status says it all. */
static void (*const say[])(struct mst_text *text, const struct mst_reply *reply) = {
    [-MUSTER_EINVAL] = say_invalid,    [-MUSTER_ELIMIT] = say_limit,
    [-MUSTER_ETIMEDOUT] = say_timeout, [-MUSTER_EEXISTS] = say_exists,
    [-MUSTER_ENOTFOUND] = say_absent,  [-MUSTER_ECONFLICT] = say_conflict,
    [-MUSTER_ESTALE] = say_number,     [-MUSTER_EMISMATCH] = say_lost,
    [-MUSTER_ELOST] = say_lost,        [-MUSTER_ETOOFEW] = say_too_few,
    [-MUSTER_ENOSPACE] = say_no_space, [-MUSTER_EFENCED] = say_fenced,
};

static void say_reply(struct mst_text *text, const struct mst_reply *reply)
{
    int row = -(int)reply->status;
    bool has_own = row > 0 && row < (int)(sizeof(say) / sizeof(say[0])) && say[row];

    (has_own ? say[row] : say_status)(text, reply);
}

/* Statuses that this side decides on. */
static const char *local_text(muster_status status)
{
    return status == MUSTER_EDEADLK
               ? "called from a callback of the same client, it would wait for itself"
           : status == MUSTER_EINTERNAL
               ? "a broken invariant inside muster poisoned this client; the process may go on "
                 "without it"
           : status == MUSTER_EINTERRUPTED
               ? "interrupted, the job restarts: clean up and return from the function"
           : status == MUSTER_ECANCELLED ? "the client is being closed"
                                         : mst_status_text(status);
}

muster_status mst_lib_fail(struct muster_error *err, muster_status status, const char *what,
                           const struct mst_reply *reply)
{
    if (reply && err) {
        struct mst_text text = mst_text_in(err->text, sizeof(err->text));
        struct mst_reply said = *reply;

        said.status = status;
        err->status = status;
        err->os_errno = 0;
        err->why = MUSTER_WHY_STATUS;
        mst_text_format(&text, "%s: ", what);
        say_reply(&text, &said);
        return status;
    }
    return mst_fail(err, status, 0, "%s: %s", what, local_text(status));
}

muster_status mst_lib_fail_system(struct muster_error *err, const char *what, int error)
{
    char why[256];

    if (error == ENOMEM) {
        return mst_lib_fail(err, MUSTER_ENOMEM, what, NULL);
    }
    mst_shortage_text(error, why, sizeof(why));
    return mst_fail(err, MUSTER_ELIMIT, error, "%s: %s", what, why);
}

muster_status mst_lib_fail_thread(struct muster_error *err, const char *what)
{
    char why[256];

    mst_thread_text(why, sizeof(why));
    return mst_fail(err, MUSTER_ENOMEM, EAGAIN, "%s: %s", what, why);
}

muster_status mst_lib_fail_again(struct muster_client *client, struct muster_error *err,
                                 const char *what)
{
    muster_status status = mst_lib_status(client);

    if (client->poisoned || client->end_text[0] == '\0') {
        return mst_lib_fail(err, status, what, NULL);
    }
    return mst_fail(err, status, 0, "%s: %s", what, client->end_text);
}
