/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds and sealed views: what each must be is worked out from what was asked, and compared with
 * what the service decides and tells. */
#include <string.h>

#include "base/digest.h"
#include "base/panic.h"
#include "seen.h"

static const char *const names[MODEL_ROUNDS + 1] = {
    "barrier",     "least",           "sum",           "all",    "same",
    "some",        "added",           "flips",         "sent",   "vote",
    "muster/seal", "muster/complete", "muster/assign", "another"};

static uint32_t name_number(struct mst_slice name)
{
    for (uint32_t i = 0; i < MODEL_ROUNDS; i++) {
        if (mst_slice_equal(name, mst_slice_text(names[i]))) {
            return i;
        }
    }
    return MODEL_ROUNDS;
}

struct model_round *sim_round_find(struct model_job *job, uint64_t generation, uint32_t name,
                                   uint64_t number)
{
    for (uint32_t i = job->round_count; i-- > 0;) {
        struct model_round *round = &job->rounds[i];

        if (round->generation < generation) {
            return NULL;
        }
        if (round->generation == generation && round->name == name && round->number == number) {
            return round;
        }
    }
    return NULL;
}

/* ---- contributions ----------------------------------------------------------------------------
 */

static bool contribute(const struct sim *sim, struct model_round *round,
                       const struct sim_proc *proc, const struct mst_round_request *asked)
{
    struct model_part *part = &round->part[proc->member.index];

    if (part->arrived || !part->expected || asked->data.size > MODEL_DATA_MAX) {
        return false;
    }
    part->arrived = true;
    sim_replace_moved(sim, round);
    if (asked->order_count > 0 && asked->order_count <= MODEL_PLACES) {
        round->order_count = asked->order_count;
        memcpy(round->order, asked->order, asked->order_count * sizeof(*asked->order));
    }
    part->size = (uint32_t)asked->data.size;
    if (part->size > 0) {
        memcpy(part->data, asked->data.data, part->size);
    }
    return true;
}

/* It counts unless the answer says that it was refused. */
void sim_round_asked(struct sim *sim, struct sim_conn *conn, const struct mst_request *request,
                     struct sim_asked *asked)
{
    struct sim_proc *proc = conn->proc;
    struct model_round *round;

    asked->generation = request->round.generation;
    asked->number = request->round.number;
    asked->name = name_number(request->round.name);
    if (proc->kind != SIM_RANK || proc->member.lost || proc->member.left ||
        !sim_view_has(&proc->job->view, proc) ||
        (proc->member.back_conn != 0 && proc->member.back_conn != conn->id.id)) {
        return;
    }
    round = sim_round_find(proc->job, asked->generation, asked->name, asked->number);
    if (round && !round->closed && !sim->service.refuses) {
        asked->arrives = contribute(sim, round, proc, &request->round) || asked->arrives;
    }
}

void sim_round_opened(struct sim *sim, struct model_job *job, struct mst_slice name,
                      uint64_t number)
{
    const struct mst_request *request = sim->service.request;
    struct sim_conn *conn = sim->service.asking;
    struct model_view *view = &job->view;
    struct model_round *round;

    if (!request || request->command != MST_ROUND || name_number(name) == MODEL_ROUNDS) {
        return;
    }
    if (job->round_count == job->round_room) {
        job->round_room = job->round_room ? job->round_room * 2 : 64;
        job->rounds = sim_grown(job->rounds, job->round_room, sizeof(*job->rounds));
    }
    round = &job->rounds[job->round_count++];
    memset(round, 0, sizeof(*round));
    round->generation = request->round.generation;
    round->number = number;
    round->name = name_number(name);
    round->on_loss = request->round.on_loss;
    round->reduce = request->round.reduce;
    round->root = request->round.root;
    round->deadline_ms = request->round.deadline_ms;
    round->open_ns = sim_service_clock(sim);
    round->late_ns = sim_service_late_ns(sim);
    for (uint32_t rank = 0; rank < view->size; rank++) {
        uint32_t index = view->index[rank];

        round->seats[rank] = index;
        if (!request->round.participants ||
            sim_model_among(request->round.participants, request->round.participant_count, index)) {
            round->part[index].expected = true;
            round->part[index].gone = view->gone[rank];
        }
    }
    if (request->round.seal) {
        job->seal_open_ns = sim_service_clock(sim);
        sim_called(sim, job);
        if (job->by_table && !job->view.ordered) { /* they met, to work out who runs */
            sim_blame(job, MODEL_TABLE, false);
        }
    }
    for (uint32_t i = 0; i < conn->asked_count; i++) {
        if (conn->asked[i].id == request->id) {
            conn->asked[i].arrives = contribute(sim, round, conn->proc, &request->round);
        }
    }
}

void sim_round_gone(const struct sim *sim, struct model_job *job, uint32_t index)
{
    for (uint32_t i = job->round_count; i-- > 0;) {
        struct model_round *round = &job->rounds[i];

        if (round->generation < job->view.generation) {
            return;
        }
        if (!round->closed) {
            round->part[index].gone = true;
            sim_replace_moved(sim, round);
        }
    }
}

/* ---- what a result must be ---------------------------------------------------------------------
 */

static int64_t element(const struct model_part *part, uint32_t at)
{
    uint64_t number = 0;

    for (unsigned i = 0; i < 8; i++) {
        number |= (uint64_t)part->data[8 * at + i] << (8 * i);
    }
    return (int64_t)number;
}

/* Adds in the order of ranks. A generation has no index twice: behind its last rank there are
 * zeros. */
static int64_t add_doubles(const struct model_round *round, uint32_t at)
{
    bool seen[MODEL_PLACES] = {false};
    double sum = 0, number;
    bool first = true;
    int64_t bits;

    for (uint32_t rank = 0; rank < MODEL_PLACES; rank++) {
        uint32_t index = round->seats[rank];

        if (!round->part[index].arrived || seen[index]) {
            continue;
        }
        seen[index] = true;
        bits = element(&round->part[index], at);
        memcpy(&number, &bits, sizeof(number));
        sum = first ? number : sum + number;
        first = false;
    }
    memcpy(&bits, &sum, sizeof(bits));
    return bits;
}

static int64_t flip(const struct model_round *round, uint32_t at)
{
    int64_t bits = 0;

    for (uint32_t i = 0; i < MODEL_PLACES; i++) {
        bits ^= round->part[i].arrived ? element(&round->part[i], at) : 0;
    }
    return bits;
}

/* False: beyond int64. Fewer than 64 summands fit in 128 bits; two halves do without. */
static bool fold(const struct model_round *round, uint32_t at, int64_t *out)
{
    bool first = true;
    int64_t high = 0;
    uint64_t low = 0;
    int64_t best = 0;

    for (uint32_t i = 0; i < MODEL_PLACES; i++) {
        int64_t number;

        if (!round->part[i].arrived) {
            continue;
        }
        number = element(&round->part[i], at);
        if (round->reduce == MST_REDUCE_SUM) {
            low += (uint64_t)number;
            high += (number < 0 ? -1 : 0) + (low < (uint64_t)number ? 1 : 0);
        } else if (first || (round->reduce == MST_REDUCE_MIN ? number < best : number > best)) {
            best = number;
        }
        first = false;
    }
    if (round->reduce != MST_REDUCE_SUM) {
        *out = best;
        return true;
    }
    *out = (int64_t)low;
    return high == (*out < 0 ? -1 : 0);
}

static const struct model_part *first_arrived(const struct model_round *round)
{
    for (uint32_t i = 0; i < MODEL_PLACES; i++) {
        if (round->part[i].arrived) {
            return &round->part[i];
        }
    }
    return NULL;
}

static void bad_value(struct sim *sim, const struct model_round *round, const char *what)
{
    sim_fail(sim, SIM_P_ROUND_VALUE, "%s %" PRIu64 " of generation %" PRIu64 ": %s",
             names[round->name], round->number, round->generation, what);
}

static void check_vector(struct sim *sim, const struct model_round *round,
                         const struct mst_reply *reply)
{
    const struct model_part *first = first_arrived(round);

    if (!first || reply->value.size != first->size) {
        bad_value(sim, round, "wrong size");
        return;
    }
    for (uint32_t at = 0; at < first->size / 8; at++) {
        struct model_part told;
        int64_t expected;

        memcpy(told.data, (const unsigned char *)reply->value.data, reply->value.size);
        if (round->reduce == MST_REDUCE_SUM_DOUBLE || round->reduce == MST_REDUCE_XOR) {
            expected = round->reduce == MST_REDUCE_XOR ? flip(round, at) : add_doubles(round, at);
            if (element(&told, at) != expected) {
                bad_value(sim, round, "wrong bits");
            }
        } else if (!fold(round, at, &expected)) {
            bad_value(sim, round, "the sum is out of range, and is told");
        } else if (element(&told, at) != expected) {
            bad_value(sim, round, "wrong number");
        }
    }
}

static void check_gather(struct sim *sim, const struct model_round *round,
                         const struct mst_reply *reply)
{
    bool found_first = false; /* behind the last rank there are zeros */
    uint32_t at = 0;

    for (uint32_t rank = 0; rank < MODEL_PLACES; rank++) {
        uint32_t index = round->seats[rank];
        const struct model_part *part = &round->part[index];

        if (!part->arrived || (index == 0 && found_first)) {
            continue;
        }
        found_first = found_first || index == 0;
        if (at >= reply->item_count || reply->items[at].who.index != index ||
            !mst_slice_equal(reply->items[at].value, mst_slice_of(part->data, part->size))) {
            bad_value(sim, round, "a part is missing, doubled or changed");
        }
        at++;
    }
    if (at != reply->item_count) {
        bad_value(sim, round, "parts of nobody");
    }
}

/* The faults that come with a seal are those of the generation that it ended. */
static void check_record(struct sim *sim, const struct model_round *round,
                         const struct mst_reply *reply)
{
    uint64_t most = reply->next < MST_NAMES_MAX ? reply->next : MST_NAMES_MAX;

    if (reply->item_count != most) {
        bad_value(sim, round, "another number of faults");
    }
    for (uint32_t i = 0; i < reply->item_count; i++) {
        const struct mst_item *item = &reply->items[i];

        if (item->kind != MST_ITEM_FAULT || item->number != round->generation ||
            item->who.cause == MST_CAUSE_NONE || item->who.index >= MODEL_PLACES) {
            bad_value(sim, round, "a fault of another generation");
        }
    }
}

/* ROUND_VALUE */
static void check_value(struct sim *sim, const struct model_round *round,
                        const struct mst_reply *reply)
{
    const struct model_part *first = first_arrived(round);

    switch (round->reduce) {
    case MST_REDUCE_NONE:
        if (reply->value.size != 0 || (reply->item_count != 0 && round->name != MODEL_SEAL)) {
            bad_value(sim, round, "a value of nothing");
        }
        break;
    case MST_REDUCE_GATHER:
        check_gather(sim, round, reply);
        break;
    case MST_REDUCE_MIN:
    case MST_REDUCE_MAX:
    case MST_REDUCE_SUM:
    case MST_REDUCE_XOR:
    case MST_REDUCE_SUM_DOUBLE:
    case MST_REDUCE_MIN_DOUBLE:
    case MST_REDUCE_MAX_DOUBLE:
        check_vector(sim, round, reply);
        break;
    case MST_REDUCE_BROADCAST: {
        const struct model_part *root = &round->part[round->seats[round->root]];

        if (!mst_slice_equal(reply->value, mst_slice_of(root->data, root->size))) {
            bad_value(sim, round, "not the bytes of the root");
        }
        break;
    }
    case MST_REDUCE_EQUAL:
        for (uint32_t i = 0; i < MODEL_PLACES; i++) {
            if (round->part[i].arrived &&
                !mst_slice_equal(reply->value,
                                 mst_slice_of(round->part[i].data, round->part[i].size))) {
                bad_value(sim, round, "not equal, and told as equal");
            }
        }
        break;
    }
    if (!first) {
        bad_value(sim, round, "nobody arrived");
    }
    if (round->name == MODEL_SEAL) {
        check_record(sim, round, reply);
    }
}

/* ---- the end of a round ------------------------------------------------------------------------
 */

/* ROUND_EARLY */
static void check_complete(struct sim *sim, const struct model_round *round)
{
    for (uint32_t i = 0; i < MODEL_PLACES; i++) {
        const struct model_part *part = &round->part[i];
        bool excused = part->gone && round->on_loss == MST_PROCEED;
        bool broken = part->gone && round->on_loss == MST_FAIL;

        if (part->expected && ((!part->arrived && !excused) || broken)) {
            sim_fail(sim, SIM_P_ROUND_EARLY,
                     "%s %" PRIu64 " of generation %" PRIu64 " is closed without #%u",
                     names[round->name], round->number, round->generation, i);
        }
    }
}

static void check_lost(struct sim *sim, const struct model_round *round)
{
    bool any = false;

    for (uint32_t i = 0; i < MODEL_PLACES; i++) {
        any = any || (round->part[i].expected && round->part[i].gone);
    }
    if (!any || round->on_loss != MST_FAIL) {
        sim_fail(sim, SIM_P_ROUND_EARLY, "%s %" PRIu64 " fails for a loss that nobody saw",
                 names[round->name], round->number);
    }
}

/* A seal of which survivors are told that they are too few. */
static void too_few(struct sim *sim, struct model_job *job, const struct model_round *seal,
                    struct mst_slice status)
{
    uint32_t there = 0, ready = 0;

    for (uint32_t i = 0; i < MODEL_PLACES; i++) {
        there += seal->part[i].arrived && !seal->part[i].gone;
    }
    for (uint32_t i = 0; i < sim->proc_count; i++) {
        ready += sim->procs[i]->job == job && sim->procs[i]->member.ready;
    }
    if (there > 0 && mst_slice_equal(status, mst_slice_text("too-few"))) {
        sim_replace_closed(sim, job, seal, there + ready, sim_model_fit(job, there + ready));
    }
}

void sim_round_closed(struct sim *sim, struct model_job *job, struct mst_slice name,
                      uint64_t number, struct mst_slice status, uint64_t arrived)
{
    struct model_round *round =
        sim_round_find(job, job->view.generation, name_number(name), number);
    uint64_t count = 0;

    if (!round) { /* the seal itself, and what it ends, is told after it */
        round = sim_round_find(job, job->before.generation, name_number(name), number);
    }
    if (!round) {
        return;
    }
    round->closed = true;
    round->ok = mst_slice_equal(status, mst_slice_text("ok"));
    for (uint32_t i = 0; i < MODEL_PLACES; i++) {
        count += round->part[i].arrived;
    }
    if (round->name == MODEL_SEAL && !round->ok) {
        too_few(sim, job, round, status);
    }
    if (round->ok) {
        check_complete(sim, round);
    } else if (mst_slice_equal(status, mst_slice_text("lost"))) {
        check_lost(sim, round);
    } else if (mst_slice_equal(status, mst_slice_text("timed-out")) && round->deadline_ms == 0) {
        sim_fail(sim, SIM_P_ROUND_EARLY, "%s %" PRIu64 " has no deadline", names[round->name],
                 round->number);
    } else if (mst_slice_equal(status, mst_slice_text("timed-out")) &&
               sim_service_clock(sim) < round->open_ns + round->deadline_ms * SIM_MS) {
        sim_fail(sim, SIM_P_DEADLINE_EARLY, "%s %" PRIu64 " of generation %" PRIu64,
                 names[round->name], round->number, round->generation);
    }
    if (count != arrived) {
        sim_fail(sim, SIM_P_ROUND_VALUE, "%s %" PRIu64 ": %" PRIu64 " arrived, told are %" PRIu64,
                 names[round->name], round->number, count, arrived);
    }
}

/* A seal at which none is missing any more may stay open beyond its deadline. */
static bool waits_for_places(const struct sim *sim, const struct model_job *job,
                             const struct model_round *round)
{
    return round->name == MODEL_SEAL && sim_replace_all_there(round) &&
           sim_service_clock(sim) <= sim_replace_until(sim, job, round);
}

/* DEADLINE_KEPT, REPLACE_ENDS */
void sim_round_deadlines(struct sim *sim, struct model_job *job)
{
    for (uint32_t i = job->round_count; i-- > 0;) {
        const struct model_round *round = &job->rounds[i];
        uint64_t late = sim_service_late_ns(sim) - round->late_ns;

        if (round->generation < job->view.generation) {
            return;
        }
        if (!round->closed && round->name == MODEL_SEAL) {
            sim_replace_open(sim, job, round);
        }
        if (!round->closed && round->deadline_ms != 0 && !waits_for_places(sim, job, round) &&
            sim_service_clock(sim) > round->open_ns + round->deadline_ms * SIM_MS + late + SIM_MS) {
            sim_fail(sim, SIM_P_DEADLINE_KEPT, "%s %" PRIu64 " of generation %" PRIu64 " is open",
                     names[round->name], round->number, round->generation);
        }
    }
}

static uint64_t result_of(const struct mst_reply *reply)
{
    const struct mst_detail *detail = &reply->detail;
    uint64_t digest = mst_digest_number(MST_DIGEST_INIT, (uint64_t)(int64_t)reply->status);

    digest = mst_digest_number(digest, (uint64_t)reply->number);
    digest = mst_digest_slice(digest, reply->value);
    digest = mst_digest_number(digest, reply->item_count);
    for (uint32_t i = 0; i < reply->item_count; i++) {
        digest = mst_digest_number(digest, reply->items[i].who.index);
        digest = mst_digest_slice(digest, reply->items[i].value);
    }
    if (reply->has_detail) {
        digest = mst_digest_number(digest, detail->arrived);
        digest = mst_digest_number(digest, detail->expected);
        digest = mst_digest_number(digest, detail->lost);
        digest = mst_digest_number(digest, detail->missing);
        for (uint32_t i = 0; i < detail->who_count; i++) {
            digest = mst_digest_number(digest, detail->who[i].index);
        }
    }
    return digest;
}

static bool is_result(muster_status status)
{
    return status == MUSTER_OK || status == MUSTER_ETIMEDOUT || status == MUSTER_ELOST ||
           status == MUSTER_EMISMATCH || status == MUSTER_ERANGE || status == MUSTER_ETOOFEW;
}

/* What it was to bring has not arrived. */
void sim_round_refused(struct sim_conn *conn, const struct sim_asked *asked)
{
    struct model_round *round =
        sim_round_find(conn->proc->job, asked->generation, asked->name, asked->number);

    if (round && asked->arrives && !round->closed) {
        round->part[conn->proc->member.index].arrived = false;
    }
}

/* ROUND_SAME, ROUND_REFUSED */
void sim_round_answered(struct sim *sim, struct sim_conn *conn, const struct sim_asked *asked,
                        const struct mst_reply *reply)
{
    struct model_job *job = conn->proc->job;
    struct model_round *round = sim_round_find(job, asked->generation, asked->name, asked->number);

    if (reply->status == MUSTER_EINVAL || reply->status == MUSTER_EPROTO) {
        sim_fail(sim, SIM_P_ROUND_REFUSED, "pid=%" PRIu64 " %s %" PRIu64 ": %d", conn->proc->pid,
                 names[asked->name], asked->number, (int)reply->status);
    }
    if (!round) {
        return;
    }
    if (!is_result(reply->status)) {
        if (reply->status != MUSTER_ECANCELLED && reply->status != MUSTER_EFENCED) {
            sim_round_refused(conn, asked);
        }
        return;
    }
    if (!round->closed) {
        sim_fail(sim, SIM_P_ROUND_EARLY, "%s %" PRIu64 " is answered while it is open",
                 names[round->name], round->number);
    }
    if (round->told && round->result != result_of(reply)) {
        sim_fail(sim, SIM_P_ROUND_SAME, "%s %" PRIu64 " of generation %" PRIu64, names[round->name],
                 round->number, round->generation);
    }
    round->told = true;
    round->result = result_of(reply);
    if (reply->status == MUSTER_OK ||
        (reply->status == MUSTER_ETIMEDOUT && round->on_loss == MST_PROCEED)) {
        check_value(sim, round, reply);
    } else if (reply->value.size > 0 || reply->item_count > 0) {
        bad_value(sim, round, "a failure has a value");
    }
}

/* ---- views -------------------------------------------------------------------------------------
 */

/* Who stands at the open seal of the generation. */
static bool at_seal(struct model_job *job, uint32_t index)
{
    for (uint32_t i = job->round_count; i-- > 0;) {
        const struct model_round *round = &job->rounds[i];

        if (round->generation < job->view.generation) {
            return false;
        }
        if (round->name == MODEL_SEAL && (!round->closed || round->ok)) {
            return round->part[index].arrived && !round->part[index].gone;
        }
    }
    return false;
}

uint32_t sim_view_alive(const struct model_view *view)
{
    uint32_t count = 0;

    for (uint32_t rank = 0; rank < view->size; rank++) {
        count += !view->gone[rank];
    }
    return count;
}

static void take(struct model_view *next, struct sim_proc *proc)
{
    next->index[next->size] = proc->member.index;
    next->incarnation[next->size] = proc->member.incarnation;
    next->proc[next->size++] = proc;
}

/* The open seal of the generation, or the one that has just closed. */
static const struct model_round *seal_of(const struct model_job *job)
{
    for (uint32_t i = job->round_count; i-- > 0;) {
        const struct model_round *round = &job->rounds[i];

        if (round->generation < job->view.generation) {
            return NULL;
        }
        if (round->name == MODEL_SEAL && (!round->closed || round->ok)) {
            return round;
        }
    }
    return NULL;
}

/* The order that came with the seal, if all of them stand there. */
static bool collect_ordered(struct sim *sim, struct model_job *job, struct model_view *next)
{
    const struct model_round *seal = seal_of(job);

    if (!seal || seal->order_count == 0) {
        return false;
    }
    for (uint32_t i = 0; i < seal->order_count; i++) {
        if (!at_seal(job, seal->order[i])) {
            return false;
        }
    }
    for (uint32_t i = 0; i < seal->order_count; i++) {
        uint32_t index = seal->order[i];

        struct sim_proc *proc = sim_proc_of(sim, job, index, job->places[index].incarnation);

        MST_ASSERT(proc);
        take(next, proc);
    }
    next->ordered = true;
    return true;
}

static bool chosen_before(const struct model_job *job, const struct sim_proc *a,
                          const struct sim_proc *b)
{
    bool sits_a = sim_view_has(&job->view, a);
    bool sits_b = sim_view_has(&job->view, b);

    if (sits_a != sits_b) {
        return sits_a;
    }
    return sits_a ? a->member.index < b->member.index
                  : a->member.ready_number < b->member.ready_number;
}

/* Survivors first, then joiners in the order in which they became ready, and not too many; those
 * then by their indices. */
static void cut(struct model_job *job, struct model_view *next)
{
    struct sim_proc *chosen[MODEL_PLACES];
    uint32_t count = next->size;

    memcpy(chosen, next->proc, sizeof(chosen));
    for (uint32_t i = 1; i < count; i++) {
        struct sim_proc *proc = chosen[i];
        uint32_t at = i;

        for (; at > 0 && chosen_before(job, proc, chosen[at - 1]); at--) {
            chosen[at] = chosen[at - 1];
        }
        chosen[at] = proc;
    }
    count = sim_model_fit(job, count);
    for (uint32_t i = 1; i < count; i++) {
        struct sim_proc *proc = chosen[i];
        uint32_t at = i;

        for (; at > 0 && chosen[at - 1]->member.index > proc->member.index; at--) {
            chosen[at] = chosen[at - 1];
        }
        chosen[at] = proc;
    }
    next->size = 0;
    for (uint32_t i = 0; i < count; i++) {
        take(next, chosen[i]);
    }
}

static void collect(struct sim *sim, struct model_job *job, struct model_view *next, bool lets_in)
{
    for (uint32_t index = 0; index < MODEL_PLACES; index++) {
        struct sim_proc *proc = sim_proc_of(sim, job, index, job->places[index].incarnation);
        bool sits = proc && sim_view_has(&job->view, proc);
        bool goes;

        if (!proc || job->places[index].incarnation == 0 || proc->member.lost ||
            proc->member.left) {
            continue;
        }
        goes = sits ? at_seal(job, index) : proc->member.ready && lets_in;
        if (goes) {
            take(next, proc);
        }
    }
    next->there = next->size;
    if (sim_view_alive(&job->view) > 0) {
        struct model_view ordered = {
            .generation = next->generation, .sealed_ns = next->sealed_ns, .there = next->there};

        if (collect_ordered(sim, job, &ordered)) {
            *next = ordered;
            return;
        }
    }
    cut(job, next);
}

/* VIEW_FIRST */
static void check_first(struct sim *sim, const struct model_job *job, const struct model_view *next)
{
    if (next->there >= job->size) {
        return;
    }
    if (job->join_wait_ns == 0 || sim_service_clock(sim) + SIM_MS <
                                      job->ready_since_ns + job->join_wait_ns / SIM_MS * SIM_MS) {
        sim_fail(sim, SIM_P_VIEW_FIRST, "generation %" PRIu64 " of %u", next->generation,
                 next->size);
    }
}

/* RESTART_REASON, LOOPER_COST */
static void check_reason(struct sim *sim, struct model_job *job, uint64_t generation)
{
    if (job->view.reasons == 0) {
        sim_fail(sim, SIM_P_RESTART_REASON, "generation %" PRIu64 " follows without a reason",
                 generation);
    }
    job->looper_seals += job->view.others == 0;
    if (job->looper_seals > job->looper_costs) {
        sim_fail(sim, SIM_P_LOOPER_COST, "%" PRIu64 " seals for %" PRIu64, job->looper_seals,
                 job->looper_costs);
    }
}

/* VIEW_ONE, VIEW_EXACT, JOINER_IN, LOST_STAYS_OUT, VIEW_MIN_SIZE */
void sim_view_sealed(struct sim *sim, struct model_job *job, uint64_t generation, uint64_t size)
{
    struct model_view next = {.generation = generation, .sealed_ns = sim->now_ns};
    bool nobody = sim_view_alive(&job->view) == 0;

    if (generation <= job->view.generation) {
        sim_fail(sim, SIM_P_VIEW_ONE, "%" PRIu64 " after %" PRIu64, generation,
                 job->view.generation);
    }
    collect(sim, job, &next, nobody || job->grow != MST_GROW_OFF);
    if (next.size != size) {
        bool fewer = size < next.size;

        sim_fail(sim, fewer ? SIM_P_JOINER_IN : SIM_P_LOST_STAYS_OUT,
                 "generation %" PRIu64 " has size %" PRIu64 ", %u arrived or were ready",
                 generation, size, next.size);
    }
    if (next.size < job->min_size) {
        sim_fail(sim, SIM_P_VIEW_MIN_SIZE, "%u, %u are needed", next.size, job->min_size);
    }
    if (nobody) {
        check_first(sim, job, &next);
    } else {
        check_reason(sim, job, generation);
        if (!next.ordered) {
            sim_replace_closed(sim, job, seal_of(job), next.there, next.size);
        }
    }
    for (uint32_t rank = 0; rank < next.size; rank++) {
        next.proc[rank]->member.ready = false;
        next.proc[rank]->member.view = generation;
        next.proc[rank]->member.rank = rank;
    }
    job->before = job->view;
    job->view = next;
    job->seals++;
}

/* VIEW_AGREES, VIEW_EXACT */
void sim_view_told(struct sim *sim, const struct sim_proc *proc, const struct mst_view *view)
{
    const struct model_view *known = sim_view_of(proc->job, view->generation);

    if (view->generation > proc->job->view.generation) {
        sim_fail(sim, SIM_P_VIEW_ONE, "pid=%" PRIu64 " is told of generation %" PRIu64, proc->pid,
                 view->generation);
    }
    if (!known || view->rank == MST_RANK_NONE) {
        return;
    }
    if (view->rank >= known->size || known->index[view->rank] != view->index ||
        known->incarnation[view->rank] != view->incarnation) {
        sim_fail(sim, SIM_P_VIEW_EXACT,
                 "pid=%" PRIu64 " #%u incarnation %" PRIu64
                 " is told rank %u of generation %" PRIu64,
                 proc->pid, view->index, view->incarnation, view->rank, view->generation);
    }
    if (view->size != known->size) {
        sim_fail(sim, SIM_P_VIEW_AGREES, "size %u and %u", view->size, known->size);
    }
}
