/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "cli/look/text.h"
#include "cli/print.h"
#include "view/preemption.h"

#define NAMES_SHOWN 8u

/* The notices of a node are one line. */
struct notices {
    struct mst_preemption_notice last;
    uint32_t lines, count; /* of the last line: for how many ranks */
};

static bool is_like(const struct notices *notices, const struct mst_preemption_notice *given)
{
    const struct mst_notice *a = &notices->last.notice, *b = &given->notice;
    int64_t apart = notices->last.left_ms - given->left_ms;

    return notices->count > 0 && b->index != MST_NOTICE_ALL && a->index != MST_NOTICE_ALL &&
           a->level == b->level && apart < 1000 && apart > -1000 &&
           strcmp(a->source, b->source) == 0 && strcmp(a->host, b->host) == 0 &&
           strcmp(a->reason, b->reason) == 0;
}

/* The end of a line of notices, after the names. */
static void end_notice(const struct notices *notices)
{
    const struct mst_preemption_notice *given = &notices->last;
    const struct mst_notice *notice = &given->notice;

    if (notices->count == 0 || notices->lines > NAMES_SHOWN) {
        return;
    }
    mst_cli_put_more(notices->count, NAMES_SHOWN);
    mst_cli_say(": %.*s (%.*s%s%.*s), ",
                MST_TEXT_ARGS(notice->reason[0] != '\0' ? notice->reason : "no reason is given"),
                MST_TEXT_ARGS(notice->source[0] != '\0' ? notice->source : "by hand"),
                notice->host[0] != '\0' ? ", " : "", MST_TEXT_ARGS(notice->host));
    if (given->left_ms >= 0) {
        mst_cli_put("%.1f s are left%s\n", (double)given->left_ms / 1000,
                    notice->assumed ? ", as is assumed" : "");
    } else {
        mst_cli_put("its deadline passed %.1f s ago\n", (double)-given->left_ms / 1000);
    }
}

static void print_notice(void *ctx, const struct mst_preemption_notice *given)
{
    const struct mst_notice *notice = &given->notice;
    struct notices *notices = ctx;
    bool like = is_like(notices, given);

    if (!like) {
        end_notice(notices);
        notices->lines++;
        notices->count = 0;
        notices->last = *given;
    }
    notices->count++;
    if (notices->lines > NAMES_SHOWN || notices->count > NAMES_SHOWN) {
        return;
    }
    if (!like) {
        mst_cli_put("%s for ", notice->level == MST_NOTICE_CERTAIN ? "notice" : "advisory notice");
    }
    if (notice->index == MST_NOTICE_ALL) {
        mst_cli_put("the whole job");
    } else {
        mst_cli_put("%s#%u", like ? ", " : "", notice->index);
    }
}

static void print_not_saved(void *ctx, uint32_t index, const struct mst_item *item)
{
    uint32_t *missing = ctx;

    (void)index;
    if (*missing < NAMES_SHOWN) {
        mst_cli_put(*missing == 0 ? "; not yet by " : ", ");
        mst_cli_put_rank(&item->who);
    }
    (*missing)++;
}

void mst_cli_preemption_print(const struct mst_status *status)
{
    struct notices notices = {.count = 0};
    uint32_t missing = 0;
    struct mst_preemption now;

    mst_preemption_each_notice(status, print_notice, &notices);
    end_notice(&notices);
    if (notices.lines > NAMES_SHOWN) {
        uint32_t more = notices.lines - NAMES_SHOWN;

        mst_cli_put("and %u more notice%s\n", more, more == 1 ? "" : "s");
    }
    mst_preemption_of(status, &now);
    switch (now.state) {
    case MST_PREEMPTION_NONE:
        return;
    case MST_PREEMPTION_AGREED:
        mst_cli_put("agreed: all save step %" PRId64 "; saved by %u of %u", now.step, now.saved,
                    now.of);
        mst_preemption_each_missing(status, &now, print_not_saved, &missing);
        mst_cli_put_more(missing, NAMES_SHOWN);
        mst_cli_put("\n");
        return;
    case MST_PREEMPTION_AGAIN:
        mst_cli_put("agreed: step %" PRId64 ", and now it is agreed anew\n", now.step);
        return;
    case MST_PREEMPTION_WITHDRAWN:
        mst_cli_put("the notice was withdrawn: step %" PRId64 " was not saved for it\n", now.step);
        return;
    case MST_PREEMPTION_SAVED:
        mst_cli_put("saved by all: step %" PRId64 " by %u of %u, in generation %" PRIu64 "\n",
                    now.step, now.saved, now.of, now.generation);
        return;
    case MST_PREEMPTION_FAILED:
        mst_cli_put("not saved by all: step %" PRId64 ", in generation %" PRIu64 "\n", now.step,
                    now.generation);
        return;
    }
}
