/* SPDX-License-Identifier: Apache-2.0 */
/* The restart machine of one rank.
 *
 *   IDLE --start--> RUNNING --returned OK, not TELL--> COMPLETING --round OK--> FINISHED
 *          (1)       ^   |                                   |lost, late, cancelled, fenced
 *                    |   +--returned otherwise--> UNWINDING <+
 *                    |                             |     `--left, not well, JUDGING--> LEAVING
 *                    |ordered, or no table         |unwound                        |
 *                    +--next view--+               v                               v
 *                    |             +----------- SEALING --too few, error, given up--> FINISHED
 *                ASSIGNING                      ^    |fenced, or passed over
 *                    |  ^--------- unordered ---+    v
 *                    +------------------------>(1)  SEATING --view--> as after SEALING
 *
 *   (1) A view is entered through `enter`: HELD while the client has stopped itself, SEALING at
 * once when the generation is over already (attention INTERRUPT), ASSIGNING (assign.c) when a table
 * says which members run and the generation was not seated by one, else RUNNING. A newcomer goes
 * through SEATING first, and a spare waits there.
 *
 * A failure. The FAULT request goes out when the function says it failed, or at its return; the
 * seal follows behind it, when the attempt is unwound, without waiting for an answer: the service
 * takes them in order. One way for all: ranks that failed and ranks that were interrupted meet at
 * the same seal, and its reply carries the one view that all get. With it comes what all agreed on
 * (vote.h) and why the generation ended (record.h), so all decide alike whether the run ends.
 *
 * faults_max. A failure may be no more than a broken connection to a peer that has died. It does
 * not count if the rank was interrupted when it was reported, or if the record of the generation
 * has the death before it (proto/secondary.h), which the reply of the seal shows. A rank that would
 * have one failure too many is to leave before the seal, so that the others restart only once. It
 * asks the service for the record first (JUDGING), when the time in which the death may still be
 * reported is over; the others wait for it at the seal meanwhile.
 *
 * The interruption. GROW is seen by checks only. INTERRUPT, the client's self-stop and the end of
 * the session also cut blocking calls short, again and again until the function has returned,
 * because a signal that arrives just before the call it was meant for has no effect. With `settle`
 * the function is interrupted that much later, and what it does until then is its own.
 *
 * Completion against the seal. The completion round needs all ranks of the generation, and its
 * result is one for all. A rank that went to the seal while the others got "all are done" would
 * wait there for ranks that never come. So no rank leaves COMPLETING on its own judgement:
 * when INTERRUPT is seen there, the request is cancelled and the *service's* reply decides. OK: the
 * round had closed, all are done. Anything else: go to the seal. Can others complete the round
 * later with the contribution that stays behind? No: INTERRUPT means that some rank of this
 * generation failed, was lost, or stands at the seal. A lost one fails the round at once, also if
 * it had arrived. The others contribute nothing to it any more, since a rank whose function failed
 * or was interrupted has only the seal before it, and a run started anew in this generation sees
 * INTERRUPT, which stays until the next seal, and goes to the seal again. The same holds for a
 * growth: the first rank at the seal left its function without completing.
 *
 * The meeting of ASSIGNING is such a round too: a rank with its result goes to the seal or works
 * the table out, and any other rank must learn the result from the service.
 *
 * Numbers. A round is numbered by its callers, from 0 in each generation. A rank contributes to the
 * completion once per run and to the seal once per run at most, since a seal that closes ends the
 * generation and one that does not ends the run. So the counts outlive a run and start again with
 * the generation.
 *
 * Runs. Each run of the job ends with a completion, which the service counts and reports to a rank
 * that waits for a seat. A spare may still be on its way to its JOIN then, and a reply may be lost:
 * so a JOIN carries the number of completed runs that this rank knows of (`heard`: its own and
 * those that were reported), and is answered at once if there were more. The k-th run of this
 * process is thus the k-th of the job, also if the process was started in the midst of the second.
 *
 * A seal answered FENCED. Either this rank was evicted, then its session is over and JOIN is
 * answered FENCED as well; or the reply with the view was lost with a connection and the repeat
 * names a generation that is over: JOIN then brings the view. */
#include "restart/restart.h"

#include <string.h>

#include "base/panic.h"
#include "base/text.h"
#include "proto/secondary.h"
#include "proto/status.h"
#include "restart/machine.h"

#define TO(state) (1u << (state))

/* A generation is entered in one of these. */
#define TO_ENTER (TO(MST_HELD) | TO(MST_RUNNING) | TO(MST_SEALING) | TO(MST_ASSIGNING))

/* Which state may follow, and whether a state begins with a call. RUNNING is left only by the
 * return of the function, and UNWINDING by the answer of the shell. */
static const struct {
    uint32_t next;
    bool calls;
} states[MST_STATE_COUNT] = {
    [MST_IDLE] = {TO_ENTER | TO(MST_SEATING) | TO(MST_FINISHED)},
    [MST_HELD] = {TO_ENTER | TO(MST_FINISHED)},
    [MST_RUNNING] = {TO(MST_COMPLETING) | TO(MST_UNWINDING)},
    [MST_COMPLETING] = {TO(MST_UNWINDING) | TO(MST_FINISHED), .calls = true},
    [MST_UNWINDING] = {TO(MST_SEALING) | TO(MST_LEAVING) | TO(MST_JUDGING) | TO(MST_FINISHED)},
    [MST_JUDGING] = {TO(MST_SEALING) | TO(MST_LEAVING) | TO(MST_FINISHED), .calls = true},
    [MST_SEALING] = {TO_ENTER | TO(MST_SEATING) | TO(MST_LEAVING) | TO(MST_FINISHED),
                     .calls = true},
    [MST_SEATING] = {TO_ENTER | TO(MST_SEATING) | TO(MST_LEAVING) | TO(MST_FINISHED),
                     .calls = true},
    [MST_ASSIGNING] = {TO(MST_SEALING) | TO(MST_FINISHED), .calls = true},
    [MST_LEAVING] = {TO(MST_FINISHED), .calls = true},
    [MST_FINISHED] = {TO_ENTER | TO(MST_SEATING) | TO(MST_FINISHED)},
};

/* ---- birth ---- */

static bool config_take(struct mst_restart *restart, const struct mst_restart_config *config)
{
    if (config->barrier_timeout_ms == 0 || config->stalled_max < -1) {
        return false;
    }
    restart->config = *config;
    restart->config.host =
        mst_slice_copy(restart->place.host, sizeof(restart->place.host), config->host);
    restart->config.label =
        mst_slice_copy(restart->place.label, sizeof(restart->place.label), config->label);
    return true;
}

muster_status mst_restart_new(struct mst_restart **out, const struct mst_restart_config *config,
                              const struct mst_mem *mem)
{
    struct mst_restart *restart = mst_mem_zalloc(mem, sizeof(*restart));

    *out = NULL;
    if (!restart) {
        return MUSTER_ENOMEM;
    }
    if (!config_take(restart, config)) {
        mst_mem_release(mem, restart);
        return MUSTER_EINVAL;
    }
    restart->mem = *mem;
    restart->cut_ns = NEVER;
    restart->settle_ns = NEVER;
    restart->lost_ns = NEVER;
    restart->judge_ns = NEVER;
    restart->previous = MST_RANK_NONE;
    restart->heard = config->heard;
    mst_vote_begin(&restart->vote, 0);
    *out = restart;
    return MUSTER_OK;
}

muster_status mst_restart_configure(struct mst_restart *restart,
                                    const struct mst_restart_config *config)
{
    MST_ASSERT(restart->state == MST_IDLE || restart->state == MST_FINISHED);
    return config_take(restart, config) ? MUSTER_OK : MUSTER_EINVAL;
}

void mst_restart_free(struct mst_restart *restart)
{
    if (restart) {
        struct mst_mem mem = restart->mem;

        mst_places_free(&restart->table, &mem);
        mst_places_free(&restart->listed, &mem);
        mst_mem_release(&mem, restart);
    }
}

/* ---- from state to state ---- */

void mst_restart_move(struct mst_restart *restart, enum mst_restart_state to)
{
    MST_ASSERT((states[restart->state].next & TO(to)) != 0);
    restart->state = to;
    restart->step = MST_STEP_NONE;
    restart->join = MST_JOIN_NOTHING;
    restart->ordering = false;
    restart->owe_assign = false;
    restart->owe_write = false;
    restart->judge_ns = NEVER;
    mst_restart_call(restart, states[to].calls);
}

/* A new call takes the place of the one before; a reply to that one is then unknown. */
void mst_restart_call(struct mst_restart *restart, bool calls)
{
    restart->round_tag = calls ? ++restart->tags : 0;
    restart->owe_round = calls;
    restart->owe_cancel = false;
    restart->cancelled = false;
}

void mst_restart_seat(struct mst_restart *restart, enum mst_restart_join join)
{
    mst_restart_move(restart, MST_SEATING);
    restart->join = join;
}

/* What is known by now of why the attempt ended is at most the own fault. */
void mst_restart_unwind(struct mst_restart *restart, uint64_t now_ns)
{
    const struct mst_who self = {.cause = restart->kind,
                                 .code = restart->code,
                                 .index = restart->view.index,
                                 .rank = restart->view.rank,
                                 .incarnation = restart->view.incarnation};

    mst_restart_move(restart, MST_UNWINDING);
    restart->owe_unwind = true;
    restart->records.count = restart->records.total = restart->failed;
    if (restart->failed) {
        mst_fault_fill(&restart->records.first[0], now_ns, restart->view.generation, &self,
                       mst_slice_of(restart->text, restart->text_size));
    }
}

void mst_restart_leave(struct mst_restart *restart, muster_status status, enum mst_restart_why why)
{
    mst_restart_move(restart, MST_LEAVING);
    restart->status = status;
    restart->why = why;
}

void mst_restart_finish(struct mst_restart *restart, muster_status status, enum mst_restart_why why,
                        const struct mst_reply *reply)
{
    mst_restart_move(restart, MST_FINISHED);
    mst_places_free(&restart->listed, &restart->mem);
    restart->owe_fault = false;
    restart->fault_tag = 0;
    restart->write_tag = 0;
    restart->owe_enter = false;
    restart->status = status;
    restart->why = why;
    restart->owe_finish = true;
    restart->reply = reply;
}

/* ---- being called out of the generation ---- */

/* A newer generation without this rank means that it was evicted; the seal will say so. */
enum mst_attention mst_restart_called(const struct mst_restart *restart)
{
    if (restart->seen > restart->view.generation) {
        return MST_INTERRUPT;
    }
    return restart->seen == restart->view.generation ? restart->attention : MST_CALM;
}

void mst_restart_tell(struct mst_restart *restart)
{
    restart->lost_ns = NEVER;
    if (!restart->told) {
        restart->told = true;
        restart->owe_tell = true;
    }
}

static void tell(struct mst_restart *restart, uint64_t now_ns, bool now)
{
    mst_restart_tell(restart);
    if (now && !restart->cut) {
        restart->cut = true;
        restart->owe_cut = true;
        restart->backoff_ms = 1;
        restart->cut_ns = now_ns + NS_PER_MS;
        restart->settle_ns = NEVER;
    }
}

/* Whether the function is not yet interrupted for the fault that is known. */
static bool settles(struct mst_restart *restart, uint64_t now_ns)
{
    uint64_t settle_ns = restart->config.settle_ms * NS_PER_MS;

    if (restart->cut || settle_ns == 0) {
        return false;
    }
    if (restart->settle_ns == NEVER) {
        restart->settle_ns = now_ns + settle_ns;
    }
    return now_ns < restart->settle_ns;
}

/* Acts on what is true now, whenever it became true. */
static void heed_running(struct mst_restart *restart, uint64_t now_ns)
{
    enum mst_attention level = mst_restart_called(restart);

    bool leaves = restart->stopped || restart->ended;

    if (leaves || (level == MST_INTERRUPT && !settles(restart, now_ns))) {
        tell(restart, now_ns, true);
    } else if (level == MST_GROW) {
        tell(restart, now_ns, false);
    }
}

void mst_restart_enter(struct mst_restart *restart, uint64_t now_ns)
{
    if (restart->stopped) {
        if (restart->state != MST_HELD) {
            mst_restart_move(restart, MST_HELD);
        }
        return;
    }
    if (mst_restart_called(restart) == MST_INTERRUPT) {
        mst_restart_move(restart, MST_SEALING);
        return;
    }
    if (restart->config.by_table && !restart->view.ordered) {
        mst_restart_meet(restart);
        return;
    }
    mst_restart_move(restart, MST_RUNNING);
    restart->owe_enter = true;
    restart->entered_ns = now_ns;
    restart->vote.iteration++;
    restart->vote.entered = true;
    restart->told = false;
    restart->cut = false;
    restart->settle_ns = NEVER;
    restart->leaving = false;
    heed_running(restart, now_ns);
}

static void heed(struct mst_restart *restart, uint64_t now_ns)
{
    bool meets = restart->state == MST_ASSIGNING && restart->step == MST_STEP_MEET;

    if (restart->state == MST_HELD && !restart->stopped) {
        mst_restart_enter(restart, now_ns);
    } else if (restart->state == MST_RUNNING) {
        heed_running(restart, now_ns);
    } else if ((restart->state == MST_COMPLETING || meets) &&
               mst_restart_called(restart) == MST_INTERRUPT && !restart->cancelled) {
        restart->cancelled = true;
        restart->owe_cancel = true;
    }
}

void mst_restart_view_take(struct mst_restart *restart, const struct mst_view *view)
{
    if (view->generation != restart->view.generation) {
        restart->completions = 0;
        restart->seals = 0;
        restart->meetings = 0;
        restart->failed = false;
        /* A rank that was passed over has none, also if the reply that said so was lost. */
        if (view->ordered || view->rank == MST_RANK_NONE) {
            restart->previous = view->rank;
        } else if (view->generation > restart->view.generation + 1) {
            restart->previous = MST_RANK_NONE;
        }
    }
    restart->view = *view;
}

/* Levels of one generation only rise, and an older generation says nothing any more. */
void mst_restart_attention_take(struct mst_restart *restart, const struct mst_view *view)
{
    if (view->generation > restart->seen) {
        restart->seen = view->generation;
        restart->attention = view->attention;
    } else if (view->generation == restart->seen && view->attention > restart->attention) {
        restart->attention = view->attention;
    }
}

/* ---- inputs of the shell ---- */

void mst_restart_start(struct mst_restart *restart, uint64_t now_ns, const struct mst_view *view)
{
    /* The reply that came with a seat which this machine did not take itself is asked for again;
     * but there was no vote for the first generation. */
    bool newcomer = restart->view.generation == 0 && view->generation > 1;

    MST_ASSERT(restart->state == MST_IDLE || restart->state == MST_FINISHED);
    MST_ASSERT(!restart->owe_finish);
    MST_ASSERT(view->generation > 0);
    mst_vote_begin(&restart->vote, view->faults);
    restart->records.count = restart->records.total = 0;
    restart->own_faults = 0;
    restart->counted = false;
    restart->suspect = false;
    restart->leaving = false;
    mst_restart_view_take(restart, view);
    mst_restart_attention_take(restart, view);
    if (restart->ended) {
        mst_restart_finish(restart, restart->end, MST_WHY_REPLY, NULL);
    } else if (view->rank == MST_RANK_NONE) {
        mst_restart_seat(restart, MST_JOIN_SEAT);
    } else if (newcomer) {
        mst_restart_seat(restart, MST_JOIN_TOLD);
    } else {
        mst_restart_enter(restart, now_ns);
    }
}

static void attention(void *machine, uint64_t now_ns, const struct mst_view *view, bool stopped)
{
    struct mst_restart *restart = machine;

    mst_restart_attention_take(restart, view);
    restart->stopped = stopped;
    heed(restart, now_ns);
}

static void report(struct mst_restart *restart, enum mst_cause kind, int32_t code,
                   struct mst_slice text)
{
    restart->kind = kind;
    restart->fault_generation = restart->view.generation;
    restart->fault_peer = 0;
    restart->code = code;
    restart->text_size = text.size < MST_FAULT_ROOM ? text.size : MST_FAULT_ROOM;
    if (restart->text_size > 0) {
        memcpy(restart->text, text.data, restart->text_size);
    }
    restart->fault_tag = ++restart->tags;
    restart->owe_fault = true;
}

void mst_restart_fault(struct mst_restart *restart, enum mst_cause kind, int32_t code,
                       struct mst_slice text)
{
    restart->failed = true;
    report(restart, kind, code, text);
}

/* One of a rank that is interrupted may be an effect of what interrupts it. */
static void count_own(struct mst_restart *restart, uint64_t now_ns)
{
    restart->fault_ns = now_ns;
    restart->counted = mst_restart_called(restart) != MST_INTERRUPT;
    restart->own_faults += restart->counted;
}

void mst_restart_failed(struct mst_restart *restart, uint64_t now_ns, enum mst_cause kind,
                        int32_t code, struct mst_slice text)
{
    MST_ASSERT(restart->state == MST_RUNNING);
    if (kind == MST_CAUSE_ABORTED) {
        restart->vote.end = MST_END_ABORTED;
    }
    if (!restart->failed && !restart->ended) {
        mst_restart_fault(restart, kind, code, text);
        if (kind == MST_CAUSE_FAULT || kind == MST_CAUSE_UNHEALTHY) {
            count_own(restart, now_ns);
        }
    }
}

void mst_restart_lost(struct mst_restart *restart, uint64_t now_ns, uint32_t index,
                      uint64_t wait_ms)
{
    MST_ASSERT(restart->state == MST_RUNNING);
    if (!restart->told && !restart->failed) {
        restart->lost = index;
        restart->lost_wait_ms = wait_ms;
        restart->lost_ns = mst_after_ms(now_ns, wait_ms);
    }
}

/* Nothing has interrupted this rank. With `settle` the fault that will is known already. */
static void report_lost(struct mst_restart *restart)
{
    char line[160];
    struct mst_text text = mst_text_in(line, sizeof(line));

    restart->lost_ns = NEVER;
    if (mst_restart_called(restart) == MST_INTERRUPT) {
        return;
    }
    mst_text_format(&text,
                    "the connection of rank %u (#%u) to #%u broke, and no other fault was "
                    "reported within " MST_SECONDS,
                    restart->view.rank, restart->view.index, restart->lost,
                    MST_SECONDS_ARGS(restart->lost_wait_ms));
    report(restart, MST_CAUSE_NONE, MUSTER_ELOST, mst_slice_of(text.start, text.size));
    restart->fault_peer = restart->lost + 1;
}

void mst_restart_left(struct mst_restart *restart, uint64_t now_ns)
{
    (void)now_ns;
    MST_ASSERT(restart->state == MST_RUNNING);
    restart->leaving = true;
}

void mst_restart_progress(struct mst_restart *restart, const struct mst_restart_progress *progress)
{
    MST_ASSERT(restart->state == MST_RUNNING);
    restart->vote.pings = progress->pings;
    restart->vote.checks = progress->checks;
    restart->vote.waited = progress->waited;
    restart->vote.moved = progress->pings > 0;
    restart->vote.first = progress->first;
    restart->vote.step = progress->step;
}

/* The status that the function returned. A status of muster's calls for the failure of a peer is no
 * fault of this rank; but this rank cannot know of that failure before it hears of it, and without
 * a reason all would begin again for nothing. The service takes such a report only if the
 * generation has no other fault. */
static void report_return(struct mst_restart *restart, uint64_t now_ns, muster_status status)
{
    char line[128];
    struct mst_slice text =
        mst_slice_of(line, mst_text_print(line, sizeof(line), "the function returned %s (%d)",
                                          mst_status_name(status), status));

    if (status == MUSTER_EINTERRUPTED) {
        mst_restart_fault(restart, MST_CAUSE_AGAIN, 0, mst_slice_text("asked for a restart"));
    } else if (mst_status_is_passed_on(status)) {
        report(restart, MST_CAUSE_NONE, status, text);
    } else {
        mst_restart_fault(restart, MST_CAUSE_FAULT, status, text);
        count_own(restart, now_ns);
    }
}

void mst_restart_returned(struct mst_restart *restart, uint64_t now_ns, muster_status status,
                          bool delivered)
{
    bool done = status == MUSTER_OK || status == MUSTER_EPREEMPTED;
    bool broken = mst_restart_called(restart) == MST_INTERRUPT;
    bool told = restart->told;
    bool interrupted = restart->failed || delivered || (told && broken) ||
                       (told && status == MUSTER_EINTERRUPTED) || (restart->cut && !done);
    uint64_t lasted_ns = now_ns - restart->entered_ns;

    MST_ASSERT(restart->state == MST_RUNNING && !restart->owe_enter);
    restart->told = false;
    restart->cut = false;
    restart->cut_ns = NEVER;
    restart->settle_ns = NEVER;
    restart->lost_ns = NEVER;
    restart->owe_tell = false;
    restart->owe_cut = false;
    if (restart->config.soft_timeout_ms > 0 &&
        lasted_ns / NS_PER_MS >= restart->config.soft_timeout_ms) {
        restart->vote.moved = true;
    }
    if (restart->leaving) {
        /* LEFT alone interrupts no rank, and the others may be waiting for this rank in a socket of
         * their own: the fault calls them to the seal, the leave takes this rank out of it. */
        if (!restart->failed && !restart->ended && !broken) {
            mst_restart_fault(restart, MST_CAUSE_LEFT, 0, mst_slice_text("left the job"));
        }
        mst_restart_unwind(restart, now_ns);
    } else if (interrupted || restart->ended || (done && broken)) { /* broken: within `settle` */
        mst_restart_unwind(restart, now_ns);
    } else if (done) {
        restart->result = status;
        mst_restart_move(restart, MST_COMPLETING);
        heed(restart, now_ns);
    } else {
        if (!(broken && mst_status_is_passed_on(status))) {
            report_return(restart, now_ns, status);
        }
        mst_restart_unwind(restart, now_ns);
    }
}

/* One failure too many, as far as this rank knows. */
static void judge(struct mst_restart *restart, uint64_t now_ns)
{
    uint64_t known_ns = mst_after_ms(restart->fault_ns, MST_SECONDARY_MS);

    mst_restart_move(restart, MST_JUDGING);
    if (now_ns < known_ns) {
        restart->judge_ns = known_ns;
        restart->owe_round = false;
    }
}

void mst_restart_unwound(struct mst_restart *restart, uint64_t now_ns, muster_status status,
                         enum mst_restart_why why, int32_t code, struct mst_slice text)
{
    uint64_t faults_max = restart->config.faults_max;
    bool healthy = why != MST_WHY_UNHEALTHY;

    MST_ASSERT(restart->state == MST_UNWINDING && !restart->owe_unwind);
    if (restart->ended) {
        mst_restart_finish(restart, restart->leaving ? MUSTER_OK : restart->end, MST_WHY_REPLY,
                           NULL);
    } else if (status != MUSTER_OK) {
        if (!restart->failed) {
            mst_restart_fault(restart, healthy ? MST_CAUSE_FAULT : MST_CAUSE_UNHEALTHY, code, text);
        }
        mst_restart_leave(restart, status, why);
    } else if (restart->leaving) {
        mst_restart_leave(restart, MUSTER_OK, MST_WHY_REPLY);
    } else if (restart->counted && faults_max > 0 && restart->own_faults > faults_max &&
               restart->vote.end == MST_END_NONE) {
        judge(restart, now_ns);
    } else {
        mst_restart_move(restart, MST_SEALING);
    }
}

static void ended(void *machine, uint64_t now_ns, muster_status status)
{
    struct mst_restart *restart = machine;

    if (restart->ended) {
        return;
    }
    restart->ended = true;
    restart->end = status;
    if (restart->state == MST_RUNNING) {
        heed(restart, now_ns);
    } else if (restart->state == MST_COMPLETING) {
        mst_restart_unwind(restart, now_ns);
    } else if (restart->state == MST_LEAVING) {
        mst_restart_finish(restart, restart->status, restart->why, NULL);
    } else if (restart->state != MST_IDLE && restart->state != MST_UNWINDING &&
               restart->state != MST_FINISHED) {
        mst_restart_finish(restart, status, MST_WHY_REPLY, NULL);
    }
}

static void tick(void *machine, uint64_t now_ns)
{
    struct mst_restart *restart = machine;

    if (restart->lost_ns != NEVER && now_ns >= restart->lost_ns) {
        report_lost(restart);
    }
    if (now_ns >= restart->judge_ns) {
        restart->judge_ns = NEVER;
        restart->owe_round = true;
    }
    if (restart->settle_ns != NEVER && now_ns >= restart->settle_ns) {
        heed(restart, now_ns);
        return;
    }
    if (!restart->cut || now_ns < restart->cut_ns) {
        return;
    }
    restart->owe_cut = true;
    restart->backoff_ms =
        restart->backoff_ms * 2 < MST_BACKOFF_MAX_MS ? restart->backoff_ms * 2 : MST_BACKOFF_MAX_MS;
    restart->cut_ns = now_ns + restart->backoff_ms * NS_PER_MS;
}

static uint64_t deadline_ns(const void *machine)
{
    const struct mst_restart *restart = machine;
    uint64_t due_ns = restart->cut ? restart->cut_ns : restart->settle_ns;

    return mst_sooner(mst_sooner(due_ns, restart->lost_ns), restart->judge_ns);
}

const struct mst_machine mst_restart_machine = {.attention = attention,
                                                .ended = ended,
                                                .reply = mst_restart_reply,
                                                .tick = tick,
                                                .deadline_ns = deadline_ns,
                                                .next = mst_restart_next};
