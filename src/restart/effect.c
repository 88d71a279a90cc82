/* SPDX-License-Identifier: Apache-2.0 */
/* What the restart machine gives out, and what is always true of it. */
#include "base/digest.h"
#include "base/panic.h"
#include "restart/machine.h"

static void request_seal(struct mst_restart *restart)
{
    struct mst_request *request = &restart->request;

    mst_vote_write(&restart->vote, restart->view.index, restart->view.faults, restart->data);
    request->round.name = mst_slice_text("muster/seal");
    request->round.number = restart->seals++;
    request->round.deadline_ms = restart->config.barrier_timeout_ms;
    request->round.replace_ms = restart->config.replace_ms;
    request->round.on_loss = MST_PROCEED;
    request->round.seal = true;
    request->round.reduce = MST_REDUCE_MAX;
    request->round.data = mst_slice_of(restart->data, MST_VOTE_SIZE);
    if (restart->ordering) {
        request->round.order = restart->table.order;
        request->round.order_count = restart->table.order_count;
    }
}

static void request_round(struct mst_restart *restart)
{
    struct mst_request *request = &restart->request;

    if (restart->state == MST_SEATING) {
        request->command = MST_JOIN;
        request->join.heard = restart->heard;
    } else if (restart->state == MST_LEAVING) {
        request->command = MST_LEAVE;
    } else if (restart->state == MST_JUDGING) {
        request->command = MST_FAULTS;
    } else if (restart->state == MST_ASSIGNING) {
        mst_restart_assign_request(restart);
    } else {
        request->command = MST_ROUND;
        request->round.generation = restart->view.generation;
        if (restart->state == MST_SEALING) {
            request_seal(restart);
        } else {
            request->round.name = mst_slice_text("muster/complete");
            request->round.number = restart->completions++;
            request->round.deadline_ms = restart->config.completion_timeout_ms;
            request->round.on_loss = MST_FAIL;
            request->round.final = true;
        }
    }
}

static void effect_fault(struct mst_restart *restart)
{
    restart->owe_fault = false;
    mst_machine_call(&restart->effect.head, restart->fault_tag, &restart->request);
    restart->request.command = MST_FAULT;
    restart->request.fault.generation = restart->fault_generation;
    restart->request.fault.kind = restart->kind;
    restart->request.fault.code = restart->code;
    restart->request.fault.text = mst_slice_of(restart->text, restart->text_size);
    restart->request.fault.peer = restart->fault_peer;
}

/* What goes to the service, in the order in which it must reach it: the fault and the own place
 * before the round. */
static bool fill_request(struct mst_restart *restart)
{
    if (restart->owe_fault) {
        effect_fault(restart);
    } else if (restart->owe_write) {
        restart->owe_write = false;
        mst_machine_call(&restart->effect.head, restart->write_tag, &restart->request);
        mst_restart_assign_write(restart);
    } else if (restart->owe_round) {
        restart->owe_round = false;
        mst_machine_call(&restart->effect.head, restart->round_tag, &restart->request);
        request_round(restart);
    } else if (restart->owe_cancel) {
        restart->owe_cancel = false;
        restart->effect.head =
            (struct mst_machine_effect){.kind = MST_MACHINE_CANCEL, .tag = restart->round_tag};
    } else {
        return false;
    }
    return true;
}

/* What goes to the shell: the entry before the interruption of the function. */
static bool fill_shell(struct mst_restart *restart)
{
    struct mst_restart_effect *effect = &restart->effect;

    if (restart->owe_enter) {
        restart->owe_enter = false;
        effect->type = MST_RESTART_ENTER;
        effect->view = restart->view;
        effect->iteration = restart->vote.iteration - 1;
        effect->faults = &restart->records;
    } else if (restart->owe_tell) {
        restart->owe_tell = false;
        effect->type = MST_RESTART_TELL;
    } else if (restart->owe_cut) {
        restart->owe_cut = false;
        effect->type = MST_RESTART_INTERRUPT;
    } else if (restart->owe_unwind) {
        restart->owe_unwind = false;
        effect->type = MST_RESTART_UNWIND;
        effect->faults = &restart->records;
    } else if (restart->owe_assign) {
        restart->owe_assign = false;
        effect->type = MST_RESTART_ASSIGN;
        effect->places = restart->listed.list;
        effect->place_count = restart->listed.count;
    } else if (restart->owe_finish) {
        restart->owe_finish = false;
        effect->type = MST_RESTART_FINISH;
        effect->status = restart->status;
        effect->why = restart->why;
        effect->reply = restart->reply;
        effect->heard = restart->heard;
        effect->faults = &restart->records;
    } else {
        return false;
    }
    return true;
}

const void *mst_restart_next(void *machine)
{
    struct mst_restart *restart = machine;

    restart->effect = (struct mst_restart_effect){0};
    return fill_request(restart) || fill_shell(restart) ? &restart->effect : NULL;
}

/* ---- checks ---- */

static void check_calls(const struct mst_restart *restart)
{
    bool assigning = restart->state == MST_ASSIGNING;
    bool calling = restart->state == MST_COMPLETING || restart->state == MST_SEALING ||
                   restart->state == MST_SEATING || restart->state == MST_LEAVING ||
                   restart->state == MST_JUDGING || (assigning && restart->step != MST_STEP_ASSIGN);

    MST_ASSERT((restart->round_tag != 0) == calling);
    MST_ASSERT(!restart->owe_round || calling);
    MST_ASSERT(!restart->cancelled || restart->state == MST_COMPLETING ||
               (assigning && restart->step == MST_STEP_MEET));
    MST_ASSERT(!restart->owe_cancel || restart->cancelled);
    MST_ASSERT(!restart->owe_fault || restart->fault_tag != 0);
    MST_ASSERT(!restart->owe_write || (restart->write_tag != 0 && assigning));
    MST_ASSERT(restart->fault_tag <= restart->tags && restart->round_tag <= restart->tags &&
               restart->write_tag <= restart->tags);
    MST_ASSERT((restart->step != MST_STEP_NONE) == assigning);
    MST_ASSERT((restart->join != MST_JOIN_NOTHING) == (restart->state == MST_SEATING));
    MST_ASSERT(!restart->ordering ||
               (restart->state == MST_SEALING && restart->table.order_count > 0));
    MST_ASSERT(!restart->owe_unwind || restart->state == MST_UNWINDING);
    MST_ASSERT(!restart->owe_assign || restart->step == MST_STEP_ASSIGN);
    MST_ASSERT(!restart->owe_finish || restart->state == MST_FINISHED);
}

/* What is true was acted on. */
static void check_heeded(const struct mst_restart *restart)
{
    bool running = restart->state == MST_RUNNING;
    bool called = mst_restart_called(restart) == MST_INTERRUPT;

    MST_ASSERT(restart->state != MST_HELD || restart->stopped);
    MST_ASSERT(!running || mst_restart_called(restart) != MST_GROW || restart->told);
    MST_ASSERT(!running || !called || restart->cut || restart->settle_ns != NEVER);
    MST_ASSERT(!running || !(restart->stopped || restart->ended) || restart->cut);
    MST_ASSERT(restart->state != MST_COMPLETING || !called || restart->cancelled);
    MST_ASSERT(restart->step != MST_STEP_MEET || !called || restart->cancelled);
    MST_ASSERT(!restart->ended || running || restart->state == MST_UNWINDING ||
               restart->state == MST_IDLE || restart->state == MST_FINISHED);
}

void mst_restart_check(const struct mst_restart *restart)
{
    bool running = restart->state == MST_RUNNING;

    MST_ASSERT(restart->state < MST_STATE_COUNT);
    check_calls(restart);
    MST_ASSERT(running || !(restart->owe_enter || restart->owe_tell || restart->owe_cut));
    MST_ASSERT(running || !(restart->told || restart->cut));
    MST_ASSERT(running || restart->settle_ns == NEVER);
    MST_ASSERT(restart->lost_ns == NEVER || (running && !restart->told));
    MST_ASSERT(!restart->cut || restart->told);
    MST_ASSERT(restart->cut == (restart->cut_ns != NEVER));
    MST_ASSERT(!restart->cut ||
               (restart->backoff_ms >= 1 && restart->backoff_ms <= MST_BACKOFF_MAX_MS));
    MST_ASSERT(restart->judge_ns == NEVER ||
               (restart->state == MST_JUDGING && !restart->owe_round));
    MST_ASSERT(restart->seen >= restart->view.generation);
    MST_ASSERT(restart->state == MST_IDLE || restart->view.generation > 0);
    check_heeded(restart);
    MST_ASSERT(restart->text_size <= MST_FAULT_ROOM);
}

uint64_t mst_restart_digest(const struct mst_restart *restart)
{
    const uint64_t numbers[] = {restart->state,
                                restart->step,
                                restart->view.generation,
                                restart->view.rank,
                                restart->seen,
                                restart->attention,
                                restart->told,
                                restart->cut,
                                restart->tags,
                                restart->heard,
                                restart->cut_ns,
                                restart->settle_ns,
                                restart->lost_ns,
                                restart->judge_ns,
                                restart->entered_ns,
                                restart->own_faults,
                                restart->vote.iteration,
                                restart->vote.stalled,
                                restart->records.total,
                                (uint64_t)restart->status};
    uint64_t digest = MST_DIGEST_INIT;

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        digest = mst_digest_number(digest, numbers[i]);
    }
    return digest;
}
