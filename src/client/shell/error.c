/* SPDX-License-Identifier: Apache-2.0 */
/* The one line a user reads when a call failed: what was attempted, what happened, who is involved,
 * and what to do. The service sends numbers; here they become words. */
#include <errno.h>
#include <string.h>

#include "client/shell/handle.h"
#include "os/descriptors.h"
#include "proto/limit_kinds.h"
#include "proto/status.h"

/* "1 rank", "3 ranks". */
static void add_count(struct mst_text *text, uint64_t count, const char *noun)
{
    mst_text_u64(text, count);
    mst_text_add(text, " ");
    mst_text_add(text, noun);
    if (count != 1) {
        mst_text_add(text, "s");
    }
}

static void add_cause(struct mst_text *text, const struct mst_who *who)
{
    switch (who->cause) {
    case MST_CAUSE_NONE:
        mst_text_add(text, "lost");
        break;
    case MST_CAUSE_EXIT:
        mst_text_add(text, "ended with status ");
        mst_text_i64(text, who->code);
        break;
    case MST_CAUSE_SIGNAL:
        mst_text_add(text, "killed by signal ");
        mst_text_i64(text, who->code);
        break;
    case MST_CAUSE_GONE:
        mst_text_add(text, "its process is gone");
        break;
    case MST_CAUSE_LEASE:
        mst_text_add(text, "silent for longer than the lease");
        break;
    case MST_CAUSE_FAULT:
        mst_text_add(text, "it reported fault ");
        mst_text_i64(text, who->code);
        break;
    case MST_CAUSE_EVICTED:
        mst_text_add(text, "evicted");
        break;
    case MST_CAUSE_LEFT:
        mst_text_add(text, "left");
        break;
    case MST_CAUSE_SOFT_TIMEOUT:
        mst_text_add(text, "made no progress");
        break;
    case MST_CAUSE_HARD_TIMEOUT:
        mst_text_add(text, "made no progress and was ended");
        break;
    case MST_CAUSE_UNHEALTHY:
        mst_text_add(text, "unhealthy");
        break;
    case MST_CAUSE_AGAIN:
        mst_text_add(text, "asked for a restart");
        break;
    case MST_CAUSE_ABORTED:
        mst_text_add(text, "asked that all end");
        break;
    }
}

static void add_state(struct mst_text *text, const struct mst_who *who)
{
    switch (who->state) {
    case MST_JOINING:
        mst_text_add(text, "joining");
        break;
    case MST_PRESENT:
        mst_text_add(text, "present");
        break;
    case MST_SILENT:
        mst_text_add(text, "silent ");
        mst_text_seconds(text, who->heard_ms);
        break;
    case MST_STATE_LOST:
        add_cause(text, who);
        break;
    case MST_LEFT:
        mst_text_add(text, "left");
        break;
    case MST_SPARE:
        mst_text_add(text, "spare");
        break;
    case MST_ABSENT:
        mst_text_add(text, "never started");
        break;
    }
}

/* "rank 1 (#2, silent 12.4 s, node b3)"; without a rank "#2 (never started)". */
static void add_who(struct mst_text *text, const struct mst_who *who)
{
    if (who->rank != MST_RANK_NONE) {
        mst_text_add(text, "rank ");
        mst_text_u64(text, who->rank);
        mst_text_add(text, " (#");
        mst_text_u64(text, who->index);
        mst_text_add(text, ", ");
    } else {
        mst_text_add(text, "#");
        mst_text_u64(text, who->index);
        mst_text_add(text, " (");
    }
    add_state(text, who);
    if (who->host.size > 0) {
        mst_text_add(text, ", node ");
        mst_text_slice(text, who->host);
    }
    mst_text_add(text, ")");
}

void mst_lib_add_names(struct mst_text *text, const struct mst_detail *detail, uint32_t all)
{
    for (uint32_t i = 0; i < detail->who_count && i < MST_NAMES_MAX; i++) {
        mst_text_add(text, i > 0 ? ", " : " ");
        add_who(text, &detail->who[i]);
    }
    if (all > detail->who_count && detail->who_count > 0) {
        mst_text_add(text, " and ");
        mst_text_u64(text, all - detail->who_count);
        mst_text_add(text, " more");
    }
}

static void add_holder(struct mst_text *text, const struct mst_who *who)
{
    mst_text_add(text, "#");
    mst_text_u64(text, who->index);
    mst_text_add(text, " is held by process ");
    mst_text_u64(text, who->pid);
    if (who->host.size > 0) {
        mst_text_add(text, " on ");
        mst_text_slice(text, who->host);
    }
    mst_text_add(text, ", heard ");
    mst_text_seconds(text, who->heard_ms);
    mst_text_add(text, " ago");
}

static void say_timeout(struct mst_text *text, const struct mst_reply *reply)
{
    const struct mst_detail *detail = &reply->detail;

    if (!reply->has_detail || detail->expected == 0) {
        mst_text_add(text, mst_status_text(reply->status));
        if (reply->command == MST_GET || reply->command == MST_WAIT) {
            mst_text_add(text, "; nobody has written it");
        }
        return;
    }
    mst_text_u64(text, detail->arrived);
    mst_text_add(text, " of ");
    mst_text_u64(text, detail->expected);
    if (reply->command != MST_JOIN) {
        mst_text_add(text, " arrived");
    } else {
        mst_text_add(text, detail->expected == 1 ? " rank is ready" : " ranks are ready");
    }
    if (detail->who_count > 0) {
        mst_text_add(text, "; missing");
        mst_lib_add_names(text, detail, detail->lost + detail->missing);
    }
}

/* "--value-bytes-max". */
static void add_flag(struct mst_text *text, const char *name)
{
    mst_text_add(text, "--");
    for (; *name; name++) {
        mst_text_slice(text, mst_slice_of(*name == '_' ? "-" : name, 1));
    }
}

static void add_asked(struct mst_text *text, const struct mst_detail *detail, bool bytes)
{
    mst_text_u64(text, detail->asked);
    mst_text_add(text, bytes ? " bytes asked for, at most " : " asked for, at most ");
    mst_text_i64(text, detail->limit);
}

static void say_setting(struct mst_text *text, const struct mst_detail *detail,
                        const struct mst_setting *setting)
{
    mst_text_add(text, "over ");
    add_flag(text, setting->name);
    mst_text_add(text, " of the service (");
    mst_text_add(text, setting->help);
    mst_text_add(text, "): ");
    add_asked(text, detail, setting->unit == MST_UNIT_BYTES);
    mst_text_add(text, "; raise it at `muster serve`, or ask for less");
}

/* A limit that no flag of the service raises. False: this library does not know it. */
static bool say_fixed_limit(struct mst_text *text, const struct mst_detail *detail)
{
    const char *what;
    const char *remedy;

    if (detail->limit_kind == MST_LIMIT_SIZE) {
        what = "over the job's size (ranks): ";
        remedy = "; let one of its ranks end, or give the job a max_size above it for spares";
    } else if (detail->limit_kind == MST_LIMIT_MAX_SIZE) {
        what = "over the job's max_size (ranks in an order): ";
        remedy = "; give a shorter order, or a larger max_size";
    } else if (detail->limit_kind == MST_LIMIT_UNANSWERED) {
        what = "over the service's limit of requests ahead of the oldest unanswered one: ";
        remedy = "; await answers first";
    } else if (detail->limit_kind == MST_LIMIT_WAITING) {
        what = "over the service's limit of gets, waits and watches of one client that wait: ";
        remedy = "; let some end first";
    } else if (detail->limit_kind == MST_LIMIT_AWAITED_KEYS) {
        what = "over the service's limit of keys that one client's gets and waits wait for: ";
        remedy = "; let some come first, or wait for fewer";
    } else if (detail->limit_kind == MST_LIMIT_CUT_MS) {
        what = "over the longest cut of a network (ms): ";
        remedy = "; ask for less";
    } else {
        return false;
    }
    mst_text_add(text, what);
    add_asked(text, detail, false);
    mst_text_add(text, remedy);
    return true;
}

static void say_limit(struct mst_text *text, const struct mst_reply *reply)
{
    const struct mst_setting *setting =
        reply->has_detail ? mst_limit_kind_setting(reply->detail.limit_kind) : NULL;

    if (setting) {
        say_setting(text, &reply->detail, setting);
        return;
    }
    if (!reply->has_detail) { /* the service is asked nothing that no message takes */
        mst_text_add(text, "larger than a message to this service may be (--frame-bytes-max of "
                           "`muster serve`); raise it there, or send less at once");
        return;
    }
    if (say_fixed_limit(text, &reply->detail)) {
        return;
    }
    mst_text_add(text, "over a limit");
    if (reply->detail.limit != 0) {
        mst_text_add(text, " of the service: ");
        mst_text_i64(text, reply->detail.limit);
    }
}

static void say_exists(struct mst_text *text, const struct mst_reply *reply)
{
    if (reply->command == MST_WRITE) {
        mst_text_add(text, "the key exists already");
        return;
    }
    if (reply->has_detail && reply->detail.who_count > 0) {
        add_holder(text, &reply->detail.who[0]);
        mst_text_add(text, "; stop that process, or take another index");
        return;
    }
    mst_text_add(text, "the place is held by a living process");
}

static void say_fenced(struct mst_text *text, const struct mst_reply *reply)
{
    if (reply->command == MST_ROUND || reply->command == MST_FAULT) {
        mst_text_add(text, "the generation is over");
    } else {
        mst_text_add(text, "given up: a newer incarnation or generation goes on without this "
                           "process");
    }
    if (reply->has_view && reply->view.generation != 0) {
        mst_text_add(text, "; the job is in generation ");
        mst_text_u64(text, reply->view.generation);
    }
}

static void say_number(struct mst_text *text, const struct mst_reply *reply)
{
    if (reply->status == MUSTER_ESTALE) {
        mst_text_add(text, "this round is over and its result no longer kept");
    } else {
        mst_text_add(text, "refused: other parameters than the first caller's, or a number that is "
                           "not the next");
    }
    if (reply->has_detail) {
        mst_text_add(text, "; the service is at number ");
        mst_text_i64(text, reply->detail.limit);
        if (reply->detail.who_count > 0) {
            mst_text_add(text, " with");
            mst_lib_add_names(text, &reply->detail, reply->detail.who_count);
        }
    }
}

static void say_open_refused(struct mst_text *text, const struct mst_reply *reply)
{
    mst_text_add(text, "refused by the service: the job was given other values of size, min_size, "
                       "max_size, size_multiple or join_wait, or together they allow no number of "
                       "ranks, or a name or index makes no sense");
    if (reply->has_detail && reply->detail.limit != 0) {
        mst_text_add(text, " (the job has ");
        mst_text_i64(text, reply->detail.limit);
        mst_text_add(text, ")");
    }
}

static void say_too_few(struct mst_text *text, const struct mst_reply *reply)
{
    if (!reply->has_detail) {
        mst_text_add(text, mst_status_text(reply->status));
        return;
    }
    if (reply->detail.multiple != 0) {
        mst_text_add(text, "a multiple of ");
        mst_text_u64(text, reply->detail.multiple);
        mst_text_add(text, " is to go on (size_multiple), at least min_size ");
        mst_text_i64(text, reply->detail.limit);
        mst_text_add(text, ", but only ");
        add_count(text, reply->detail.arrived, "rank");
        mst_text_add(text, reply->detail.arrived == 1 ? " is left" : " are left");
        return;
    }
    add_count(text, reply->detail.arrived, "rank");
    mst_text_add(text,
                 reply->detail.arrived == 1 ? " is left, min_size is " : " are left, min_size is ");
    mst_text_i64(text, reply->detail.limit);
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
    mst_text_add(text, "the service cannot keep it: ");
    if (reply->value.size > 0) {
        mst_text_slice(text, reply->value);
    } else {
        mst_text_add(text, mst_status_text(reply->status));
    }
}

static void say_reply(struct mst_text *text, const struct mst_reply *reply)
{
    switch (reply->status) {
    case MUSTER_ETIMEDOUT:
        say_timeout(text, reply);
        return;
    case MUSTER_ELIMIT:
        say_limit(text, reply);
        return;
    case MUSTER_EEXISTS:
        say_exists(text, reply);
        return;
    case MUSTER_EFENCED:
        say_fenced(text, reply);
        return;
    case MUSTER_ETOOFEW:
        say_too_few(text, reply);
        return;
    case MUSTER_ELOST:
    case MUSTER_EMISMATCH:
        say_lost(text, reply);
        return;
    case MUSTER_ESTALE:
        say_number(text, reply);
        return;
    case MUSTER_EINVAL:
        if (reply->command == MST_ROUND) {
            say_number(text, reply);
            return;
        }
        if (reply->command == MST_OPEN) {
            say_open_refused(text, reply);
            return;
        }
        break;
    case MUSTER_ENOSPACE:
        say_no_space(text, reply);
        return;
    case MUSTER_ECONFLICT:
        mst_text_add(text, "the key was changed by somebody else");
        return;
    case MUSTER_ENOTFOUND:
        mst_text_add(text, reply->command == MST_GET ? "no such key" : "not found");
        return;
    case MUSTER_OK:
    case MUSTER_MORE:
    case MUSTER_ENOMEM:
    case MUSTER_EDEADLK:
    case MUSTER_ERANGE:
    case MUSTER_ECANCELLED:
    case MUSTER_EINTERRUPTED:
    case MUSTER_EPREEMPTED:
    case MUSTER_EFAILED:
    case MUSTER_EINTERNAL:
    case MUSTER_EUNREACHABLE:
    case MUSTER_EUNHEALTHY:
    case MUSTER_ESTATE:
    case MUSTER_EPROTO:
        break;
    }
    mst_text_add(text, mst_status_text(reply->status));
}

static void say_local(struct mst_text *text, muster_status status)
{
    if (status == MUSTER_EDEADLK) {
        mst_text_add(text, "called from a callback of the same client, it would wait for itself");
    } else if (status == MUSTER_EINTERNAL) {
        mst_text_add(text, "a broken invariant inside muster poisoned this client; the process may "
                           "go on without it");
    } else if (status == MUSTER_EINTERRUPTED) {
        mst_text_add(text, "interrupted, the job restarts: clean up and return from the function");
    } else if (status == MUSTER_ECANCELLED) {
        mst_text_add(text, "the client is being closed");
    } else {
        mst_text_add(text, mst_status_text(status));
    }
}

muster_status mst_lib_fail(struct muster_error *err, muster_status status, const char *what,
                           const struct mst_reply *reply)
{
    struct mst_text text;

    if (!err) {
        return status;
    }
    err->status = status;
    err->os_errno = 0;
    text = mst_text_in(err->text, sizeof(err->text));
    mst_text_add(&text, what);
    mst_text_add(&text, ": ");
    if (reply) {
        struct mst_reply said = *reply;

        said.status = status;
        say_reply(&text, &said);
    } else {
        say_local(&text, status);
    }
    return status;
}

muster_status mst_lib_fail_limit(struct muster_error *err, const char *what,
                                 const struct mst_lib_limit *limit)
{
    if (err) {
        struct mst_text text = mst_text_in(err->text, sizeof(err->text));

        err->status = MUSTER_ELIMIT;
        err->os_errno = 0;
        mst_text_add(&text, what);
        mst_text_add(&text, ": over ");
        mst_text_add(&text, limit->name);
        mst_text_add(&text, ": ");
        mst_text_u64(&text, limit->asked);
        mst_text_add(&text, " asked for, at most ");
        mst_text_u64(&text, limit->most);
        mst_text_add(&text, "; ");
        mst_text_add(&text, limit->remedy);
    }
    return MUSTER_ELIMIT;
}

static muster_status fail_words(struct muster_error *err, muster_status status, const char *what,
                                const char *why)
{
    if (err) {
        struct mst_text text = mst_text_in(err->text, sizeof(err->text));

        err->status = status;
        mst_text_add(&text, what);
        mst_text_add(&text, ": ");
        mst_text_add(&text, why);
    }
    return status;
}

muster_status mst_lib_fail_system(struct muster_error *err, const char *what, int error)
{
    char why[256];

    if (error == ENOMEM) {
        return mst_lib_fail(err, MUSTER_ENOMEM, what, NULL);
    }
    mst_shortage_text(error, why, sizeof(why));
    if (err) {
        err->os_errno = error;
    }
    return fail_words(err, MUSTER_ELIMIT, what, why);
}

muster_status mst_lib_fail_thread(struct muster_error *err, const char *what)
{
    char why[256];

    mst_thread_text(why, sizeof(why));
    if (err) {
        err->os_errno = EAGAIN;
    }
    return fail_words(err, MUSTER_ENOMEM, what, why);
}

muster_status mst_lib_fail_again(struct muster_client *client, struct muster_error *err,
                                 const char *what)
{
    muster_status status = mst_lib_status(client);
    struct mst_text text;

    if (!err) {
        return status;
    }
    if (client->poisoned || client->end_text[0] == '\0') {
        return mst_lib_fail(err, status, what, NULL);
    }
    err->status = status;
    err->os_errno = 0;
    text = mst_text_in(err->text, sizeof(err->text));
    mst_text_add(&text, what);
    mst_text_add(&text, ": ");
    mst_text_add(&text, client->end_text);
    return status;
}
