/* SPDX-License-Identifier: Apache-2.0 */
/* The members: those that are ordinary as sums, the others line by line. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/look/text.h"
#include "cli/print.h"
#include "proto/words.h"
#include "view/plain.h"
#include "view/span.h"
#include "view/unusual.h"

enum { LINES_SHOWN = 32, PLAIN_SHOWN = 8, GROUPS = 16 };

/* Ordinary members that do the same. */
struct group {
    const struct mst_item *like;
    uint32_t count;
};

struct sums {
    struct group groups[GROUPS];
    uint32_t used, others;
};

static bool alike(const struct mst_item *a, const struct mst_item *b)
{
    return a->who.role == b->who.role && a->who.state == b->who.state && a->number == b->number &&
           mst_slice_equal(a->name, b->name);
}

static void add(struct sums *sums, const struct mst_item *member)
{
    for (uint32_t i = 0; i < sums->used; i++) {
        if (alike(sums->groups[i].like, member)) {
            sums->groups[i].count++;
            return;
        }
    }
    if (sums->used < GROUPS) {
        sums->groups[sums->used++] = (struct group){member, 1};
    } else {
        sums->others++;
    }
}

static void print_group(const struct group *group)
{
    const struct mst_item *like = group->like;
    const char *plural = group->count == 1 ? "" : "s";

    mst_cli_put("  %" PRIu32 " ", group->count);
    if (like->who.role == MST_ROLE_AGENT) {
        mst_cli_put("node%s\n", plural);
        return;
    }
    if (like->who.role == MST_ROLE_WORKER) {
        mst_cli_put("worker%s\n", plural);
        return;
    }
    if (like->name.size > 0) {
        mst_cli_say("wait%s at '%.*s' %" PRIu64 "\n", group->count == 1 ? "s" : "",
                    MST_SLICE_ARGS(like->name), like->number);
    } else {
        mst_cli_put("%s\n", like->who.state == MST_PRESENT ? (group->count == 1 ? "runs" : "run")
                                                           : mst_state_word(like->who.state));
    }
}

static void print_sums(const struct sums *sums)
{
    for (uint32_t i = 0; i < sums->used; i++) {
        print_group(&sums->groups[i]);
    }
    if (sums->others > 0) {
        mst_cli_put("  %" PRIu32 " in other rounds\n", sums->others);
    }
}

static const char *colour_of(enum mst_state state)
{
    if (!mst_cli_coloured() || state == MST_PRESENT) {
        return "";
    }
    return state == MST_STATE_LOST ? "\033[31m" : state == MST_SILENT ? "\033[33m" : "";
}

static void put_state(const struct mst_item *member)
{
    const char *colour = colour_of(member->who.state);
    char span[32] = "";
    struct mst_text text = mst_text_in(span, sizeof span);

    if (member->since_ms > 0) {
        mst_span(&text, member->since_ms - 1);
    }
    mst_cli_put("%s%-8s%s %-7s ", colour, mst_state_word(member->who.state),
                *colour ? "\033[0m" : "", span);
}

static void put_losses(const struct mst_item *member)
{
    const struct mst_who *who = &member->who;

    if (who->state == MST_STATE_LOST) {
        mst_cli_put(", ");
        mst_cli_put_loss(who);
        if (member->value.size > 0) {
            mst_cli_say(": %.*s", MST_SLICE_ARGS(member->value));
        }
    }
    if (who->losses > 0) {
        mst_cli_put(", lost %u time%s", who->losses, who->losses == 1 ? "" : "s");
        if (who->state != MST_STATE_LOST && who->cause != MST_CAUSE_NONE &&
            who->cause != MST_CAUSE_LEFT) {
            mst_cli_put(", last ");
            mst_cli_put_loss(who);
        }
    }
}

static void put_straggler(const struct mst_item *member)
{
    char words[64];
    struct mst_text text = mst_text_in(words, sizeof words);

    if (member->has_progress && member->progress.straggler) {
        mst_straggler_phrase(&text, &member->progress);
        mst_cli_put(", straggler: %s", words);
    }
}

static void print_member(const struct mst_item *member)
{
    const struct mst_who *who = &member->who;
    char place[48];

    if (who->role != MST_ROLE_RANK) {
        (void)snprintf(place, sizeof place, "%s #%u", mst_role_word(who->role), who->index);
    } else if (who->rank != MST_RANK_NONE) {
        (void)snprintf(place, sizeof place, "rank %u (#%u)", who->rank, who->index);
    } else {
        (void)snprintf(place, sizeof place, "#%u", who->index);
    }
    mst_cli_put("  %-14s ", place);
    put_state(member);
    mst_cli_say("node %.*s, pid %" PRIu64, MST_SLICE_ARGS(who->host), who->pid);
    if (who->state == MST_SILENT) {
        mst_cli_put(", last heard %.1f s ago", (double)who->heard_ms / 1000);
    }
    put_straggler(member);
    put_losses(member);
    if (member->name.size > 0) {
        mst_cli_say(", waits at '%.*s' %" PRIu64, MST_SLICE_ARGS(member->name), member->number);
    }
    mst_cli_put("\n");
}

static bool is_helper(const struct mst_who *who)
{
    return who->role == MST_ROLE_AGENT && who->index >= MST_HELPERS_FROM;
}

/* There is nothing more to say of them, so a few are enough. */
static void print_plain(const struct mst_status *status, bool all)
{
    struct mst_plain plain;
    size_t shown;
    uint64_t more;

    (void)mst_plain_of(status, &plain); /* without memory it is empty */
    shown = all || plain.count < PLAIN_SHOWN ? plain.count : PLAIN_SHOWN;
    for (size_t i = 0; i < shown; i++) {
        const struct mst_plain_rank *rank = &plain.ranks[i];
        char place[16];

        (void)snprintf(place, sizeof place, "#%" PRIu32, rank->index);
        mst_cli_put("  %-14s running, does not use muster; node ", place);
        mst_cli_say("%.*s, pid %" PRIu32 "\n", MST_SLICE_ARGS(rank->host), rank->pid);
    }
    more = plain.more + plain.count - shown;
    if (more > 0) {
        mst_cli_put("  and %" PRIu64 " more that do not use muster\n", more);
    }
    free(plain.ranks);
}

void mst_cli_members_print(const struct mst_status *status, const struct mst_job_verdict *verdict,
                           bool all)
{
    struct sums sums = {.used = 0};
    uint32_t helpers = 0, lines = 0;

    for (size_t i = 0; i < status->members.count; i++) {
        const struct mst_item *member = &status->members.items[i];

        if (is_helper(&member->who)) {
            helpers += mst_state_is_here(member->who.state);
        } else if (!all && !mst_member_unusual(status, verdict, member)) {
            add(&sums, member);
        } else if (all || lines++ < LINES_SHOWN) {
            print_member(member);
        }
    }
    if (lines > LINES_SHOWN) {
        mst_cli_put("  and %" PRIu32 " more (-a lists all)\n", lines - LINES_SHOWN);
    }
    print_sums(&sums);
    print_plain(status, all);
    if (helpers > 0) {
        mst_cli_put("  %u helper%s of single ranks\n", helpers, helpers == 1 ? "" : "s");
    }
}
