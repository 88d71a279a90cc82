/* SPDX-License-Identifier: Apache-2.0 */
/* What the service answers: how a run goes on with what all agreed on at a seal. */
#include "base/panic.h"
#include "base/text.h"
#include "proto/retry.h"
#include "proto/secondary.h"
#include "restart/machine.h"

/* Why the run ends for all by what all agreed on; MST_WHY_REPLY: it goes on. */
static enum mst_restart_why end_of(const struct mst_restart *restart,
                                   const struct mst_vote_result *result)
{
    const struct mst_restart_config *config = &restart->config;

    if (result->end == MST_END_ASSIGNMENT) {
        return MST_WHY_ASSIGNMENT;
    }
    if (result->end == MST_END_ABORTED ||
        mst_record_list_has(&restart->records, MST_CAUSE_ABORTED)) {
        return MST_WHY_ABORTED;
    }
    if (config->iterations_max > 0 && result->attempts >= config->iterations_max) {
        return MST_WHY_ITERATIONS;
    }
    return config->stalled_max > 0 && restart->vote.stalled >= (uint64_t)config->stalled_max
               ? MST_WHY_STALLED
               : MST_WHY_REPLY;
}

/* A rank that died in the attempt has no vote in it: it may have stood lower than all that have. */
static bool all_vote(const struct mst_record_list *records)
{
    for (uint32_t i = 0; i < records->count; i++) {
        if (mst_cause_is_death((enum mst_cause)records->first[i].kind)) {
            return false;
        }
    }
    return true;
}

/* False: the run does not go on, here. */
static bool decide(struct mst_restart *restart, const struct mst_vote_result *result)
{
    bool hung =
        restart->records.count > 0 && restart->records.first[0].kind == MUSTER_FAULT_SOFT_TIMEOUT;
    bool again = restart->suspect;
    enum mst_restart_why why = result->known ? end_of(restart, result) : MST_WHY_REPLY;

    if (why != MST_WHY_REPLY) {
        mst_restart_finish(restart,
                           why == MST_WHY_ASSIGNMENT && result->end_status ? result->end_status
                                                                           : MUSTER_EFAILED,
                           why, NULL);
        return false;
    }
    if (!result->known || !result->entered) {
        return true;
    }
    restart->suspect = hung && result->has_lowest && result->lowest == restart->view.index &&
                       all_vote(&restart->records);
    if (restart->suspect && again && restart->view.rank != MST_RANK_NONE) {
        mst_restart_fault(restart, MST_CAUSE_FAULT, MUSTER_EFAILED,
                          mst_slice_text("stood lowest in two attempts in a row that made no "
                                         "progress"));
        mst_restart_leave(restart, MUSTER_EFAILED, MST_WHY_SUSPECT);
        return false;
    }
    return true;
}

/* Whether it was a rank's wish that the attempt ended: to begin again, or to leave. */
static bool was_asked(const struct mst_reply *reply)
{
    enum mst_cause cause =
        reply->item_count > 0 ? reply->items[0].who.cause : MST_CAUSE_NONE; /* the first */

    return cause == MST_CAUSE_AGAIN || cause == MST_CAUSE_LEFT;
}

/* Whether the failure of this rank in the generation that ended, or ends, stands behind the death
 * of another one. */
static bool is_secondary(const struct mst_restart *restart, const struct mst_reply *reply)
{
    for (uint32_t i = 0; i < reply->item_count; i++) {
        const struct mst_item *item = &reply->items[i];
        bool own = item->who.index == restart->view.index;

        if (item->kind != MST_ITEM_FAULT || item->number != restart->fault_generation) {
            continue;
        }
        if (own || mst_cause_is_death(item->who.cause)) {
            return !own;
        }
    }
    return false;
}

static void uncount(struct mst_restart *restart, const struct mst_reply *reply)
{
    if (restart->counted && is_secondary(restart, reply)) {
        restart->own_faults--;
        restart->counted = false;
    }
}

/* What comes with a seat. A seal without a vote has no run before it: nothing of what was before it
 * belongs to this run. */
static bool told_take(struct mst_restart *restart, uint64_t now_ns, const struct mst_reply *reply)
{
    struct mst_vote_result result =
        mst_vote_take(&restart->vote, reply->value, reply->view.faults, was_asked(reply));

    uncount(restart, reply);
    restart->counted = false;
    if (!result.known) {
        restart->records.count = restart->records.total = 0;
        if (restart->state == MST_SEATING) {
            mst_vote_begin(&restart->vote, reply->view.faults);
        }
    } else if (result.entered || reply->item_count > 0) {
        mst_record_list_take(&restart->records, now_ns, reply);
    }
    return decide(restart, &result);
}

/* A view of a generation that this machine was not in before, or of the one it starts in. */
static void view_enter(struct mst_restart *restart, uint64_t now_ns, const struct mst_reply *reply)
{
    bool ordering = restart->ordering;

    if (!reply->has_view || reply->view.generation < restart->view.generation) {
        mst_restart_finish(restart, MUSTER_EPROTO, MST_WHY_REPLY, NULL);
        return;
    }
    if (reply->view.rank == MST_RANK_NONE && !reply->view.spare) {
        mst_restart_finish(restart, MUSTER_EFENCED, MST_WHY_REPLY, reply);
        return;
    }
    mst_restart_view_take(restart, &reply->view);
    mst_restart_attention_take(restart, &reply->view);
    if (ordering && reply->view.ordered) {
        mst_places_sealed(&restart->table);
    }
    if (!told_take(restart, now_ns, reply)) {
        return;
    }
    if (reply->view.rank == MST_RANK_NONE) {
        mst_restart_seat(restart, MST_JOIN_SEAT);
    } else {
        mst_restart_enter(restart, now_ns);
    }
}

/* The others did not come in time: a fault like any other, so that all begin again. */
static void fault_late(struct mst_restart *restart, const struct mst_reply *reply)
{
    char line[128];
    struct mst_text text = mst_text_in(line, sizeof(line));

    mst_text_format(&text, "%u of %u were done within " MST_SECONDS,
                    reply->has_detail ? reply->detail.arrived : 1,
                    reply->has_detail ? reply->detail.expected : restart->view.size,
                    MST_SECONDS_ARGS(restart->config.completion_timeout_ms));
    mst_restart_fault(restart, MST_CAUSE_FAULT, MUSTER_ETIMEDOUT,
                      mst_slice_of(text.start, text.size));
}

static void reply_completion(struct mst_restart *restart, uint64_t now_ns,
                             const struct mst_reply *reply)
{
    if (reply->status == MUSTER_OK) {
        restart->heard++;
        mst_restart_finish(restart, restart->result, MST_WHY_REPLY, NULL);
    } else if (reply->status == MUSTER_ETIMEDOUT) {
        fault_late(restart, reply);
        mst_restart_unwind(restart, now_ns);
    } else if (reply->status == MUSTER_ELOST || reply->status == MUSTER_ECANCELLED ||
               reply->status == MUSTER_EFENCED) {
        mst_restart_unwind(restart, now_ns);
    } else {
        mst_restart_finish(restart, reply->status, MST_WHY_REPLY, reply);
    }
}

/* The service has no room for this rank's part in the seal, while that of others may have found
 * some. It cannot go on; but a leave interrupts no rank, and the others may wait for this one in a
 * socket of their own or not know of a fault yet: it reports one first. */
static void seal_no_room(struct mst_restart *restart, muster_status status)
{
    mst_restart_fault(restart, MST_CAUSE_FAULT, status,
                      mst_slice_text("the service has no room for its part in the seal"));
    mst_restart_leave(restart, status, MST_WHY_REPLY);
}

static void reply_seal(struct mst_restart *restart, uint64_t now_ns, const struct mst_reply *reply)
{
    bool order_refused = reply->status == MUSTER_EINVAL || reply->status == MUSTER_ELIMIT ||
                         reply->status == MUSTER_EMISMATCH;

    if (reply->status == MUSTER_OK && reply->has_view &&
        reply->view.generation == restart->view.generation) {
        mst_restart_finish(restart, MUSTER_EPROTO, MST_WHY_REPLY, NULL);
    } else if (reply->status == MUSTER_OK) {
        view_enter(restart, now_ns, reply);
    } else if (reply->status == MUSTER_EFENCED) {
        mst_restart_seat(restart, MST_JOIN_LOST);
    } else if (restart->ordering && order_refused) {
        restart->seals--; /* it did not count */
        mst_restart_give_up(restart, reply->status,
                            mst_slice_text("the order of the assignment does not fit the size, "
                                           "max_size or size_multiple of the job"));
    } else if (mst_retry_helps(reply->status)) {
        seal_no_room(restart, reply->status);
    } else {
        mst_restart_finish(restart, reply->status, MST_WHY_REPLY, reply);
    }
}

static void reply_join(struct mst_restart *restart, uint64_t now_ns, const struct mst_reply *reply)
{
    bool seated = reply->has_view && reply->view.rank != MST_RANK_NONE;

    if (reply->status == MUSTER_OK) {
        restart->heard = reply->number > 0 ? (uint64_t)reply->number : 0;
    }
    if (reply->status != MUSTER_OK) {
        mst_restart_finish(restart, reply->status, MST_WHY_REPLY, reply);
    } else if (reply->has_view && !seated && restart->join != MST_JOIN_TOLD) {
        /* No seat was free for it, and all are done. */
        mst_restart_finish(restart, MUSTER_OK, MST_WHY_REPLY, NULL);
    } else if (restart->join == MST_JOIN_LOST && seated &&
               reply->view.generation == restart->view.generation) {
        /* The seal was refused and yet its generation goes on: the service lost the two of us. */
        mst_restart_finish(restart, MUSTER_EFENCED, MST_WHY_REPLY, reply);
    } else {
        view_enter(restart, now_ns, reply);
    }
}

/* The record of the generation so far. */
static void reply_judge(struct mst_restart *restart, const struct mst_reply *reply)
{
    uncount(restart, reply);
    if (restart->counted) {
        mst_restart_leave(restart, MUSTER_EUNHEALTHY, MST_WHY_FAULTS);
    } else {
        mst_restart_move(restart, MST_SEALING);
    }
}

/* A service with a smaller limit for texts than ours still learns the reason, cut. */
static void reply_fault(struct mst_restart *restart, const struct mst_reply *reply)
{
    restart->fault_tag = 0;
    if (reply->status == MUSTER_ELIMIT && reply->has_detail && reply->detail.limit >= 0 &&
        (uint64_t)reply->detail.limit < restart->text_size) {
        restart->text_size = (size_t)reply->detail.limit;
        restart->fault_tag = ++restart->tags;
        restart->owe_fault = true;
    } else if (restart->fault_peer != 0 && restart->state == MST_RUNNING &&
               restart->fault_generation == restart->view.generation) {
        mst_restart_tell(restart); /* taken or not, the function waits for no more */
    }
}

void mst_restart_reply(void *machine, uint64_t now_ns, uint64_t tag, const struct mst_reply *reply)
{
    struct mst_restart *restart = machine;

    if (tag == 0) {
        return;
    }
    if (tag == restart->fault_tag) {
        reply_fault(restart, reply);
    } else if (tag == restart->write_tag) {
        mst_restart_assign_written(restart, reply);
    } else if (tag != restart->round_tag) {
        return;
    } else if (restart->state == MST_COMPLETING) {
        reply_completion(restart, now_ns, reply);
    } else if (restart->state == MST_JUDGING) {
        reply_judge(restart, reply);
    } else if (restart->state == MST_SEALING) {
        reply_seal(restart, now_ns, reply);
    } else if (restart->state == MST_SEATING) {
        reply_join(restart, now_ns, reply);
    } else if (restart->step == MST_STEP_MEET) {
        mst_restart_met(restart, reply);
    } else if (restart->step == MST_STEP_LIST) {
        mst_restart_listed(restart, reply);
    } else { /* evicted, or it has left: out in any case */
        MST_ASSERT(restart->state == MST_LEAVING);
        mst_restart_finish(restart, restart->status, restart->why, NULL);
    }
}
