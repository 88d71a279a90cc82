/* SPDX-License-Identifier: Apache-2.0 */
/* Members as the service narrates them, and the bookkeeping of requests and answers. */
#include <string.h>

#include "proto/command.h"
#include "seen.h"

/* ---- looking things up ------------------------------------------------------------------------
 */

struct model_job *sim_job_named(struct sim *sim, struct mst_slice name)
{
    for (uint32_t i = 0; i < sim->plan.jobs; i++) {
        if (mst_slice_equal(mst_slice_text(sim->jobs[i].name), name)) {
            return &sim->jobs[i];
        }
    }
    if (sim->cluster && mst_slice_equal(mst_slice_text(sim_cluster_job(sim)->name), name)) {
        return sim_cluster_job(sim);
    }
    return NULL;
}

struct sim_proc *sim_proc_of(struct sim *sim, const struct model_job *job, uint32_t index,
                             uint64_t incarnation)
{
    for (uint32_t i = sim->proc_count; i-- > 0;) {
        struct sim_proc *proc = sim->procs[i];

        if (proc->kind == SIM_RANK && proc->job == job && proc->member.index == index &&
            proc->member.incarnation == incarnation) {
            return proc;
        }
    }
    return NULL;
}

struct sim_proc *sim_proc_by_pid(struct sim *sim, uint64_t pid)
{
    return pid > 100 && pid <= 100 + (uint64_t)sim->proc_count ? sim->procs[pid - 101] : NULL;
}

struct model_view *sim_view_of(struct model_job *job, uint64_t generation)
{
    if (generation == 0) {
        return NULL;
    }
    if (job->view.generation == generation) {
        return &job->view;
    }
    return job->before.generation == generation ? &job->before : NULL;
}

bool sim_view_has(const struct model_view *view, const struct sim_proc *proc)
{
    for (uint32_t rank = 0; rank < view->size; rank++) {
        if (view->proc[rank] == proc) {
            return true;
        }
    }
    return false;
}

void sim_blame(struct model_job *job, enum model_reason reason, bool looper)
{
    job->view.reasons |= reason;
    if (!looper) {
        job->view.others |= reason;
    }
}

void sim_called(const struct sim *sim, struct model_job *job)
{
    if (job->view.called_ns == 0) {
        job->view.called_ns = sim->now_ns;
    }
}

/* ---- reading the narration --------------------------------------------------------------------
 */

/* Where the value of `key` begins ("key=" at the start of a word), or NULL. */
static const char *value_of(const char *text, const char *key)
{
    size_t size = strlen(key);

    for (const char *at = text; (at = strchr(at, ' ')) != NULL; at++) {
        if (strncmp(at + 1, key, size) == 0 && at[1 + size] == '=') {
            return at + size + 2;
        }
    }
    return NULL;
}

static uint64_t digits(const char *at)
{
    uint64_t number = 0;

    for (; at && *at >= '0' && *at <= '9'; at++) {
        number = number * 10 + (uint64_t)(*at - '0');
    }
    return number;
}

static uint64_t number_of(const char *text, const char *key)
{
    return digits(value_of(text, key));
}

uint64_t sim_trace_number(const char *text, const char *key)
{
    return value_of(text, key) ? number_of(text, key) : UINT64_MAX;
}

static struct mst_slice word_of(const char *text, const char *key)
{
    const char *at = value_of(text, key);

    return at ? mst_slice_of(at, strcspn(at, " ")) : mst_slice_of("", 0);
}

static bool starts(const char *text, const char *event)
{
    return strncmp(text, event, strlen(event)) == 0;
}

/* ---- members ----------------------------------------------------------------------------------
 */

/* INCARNATION_GROWS, PLACE_ONE, TOKEN_FENCED */
static void joining(struct sim *sim, struct model_job *job, uint32_t index, const char *text)
{
    struct model_place *place = &job->places[index];
    uint64_t incarnation = number_of(text, "incarnation");
    uint64_t former = place->incarnation;
    struct sim_proc *proc = sim_proc_by_pid(sim, number_of(text, "pid"));

    if (incarnation <= place->incarnation) {
        sim_fail(sim, SIM_P_INCARNATION_GROWS,
                 "#%u is given incarnation %" PRIu64 " after %" PRIu64, index, incarnation,
                 place->incarnation);
    }
    if (place->incarnation != place->lost_incarnation) {
        sim_fail(sim, SIM_P_PLACE_ONE, "#%u is given again while incarnation %" PRIu64 " is there",
                 index, place->incarnation);
    }
    place->incarnation = incarnation;
    place->last = false;
    if (proc) {
        if ((proc->member.lost || proc->member.left) && proc->member.gone_ns > job->ended_ns &&
            proc->member.index == index && proc->member.incarnation == former) {
            sim_fail(sim, SIM_P_TOKEN_FENCED, "pid=%" PRIu64 " #%u", proc->pid, index);
        }
        /* It may have been lost before it was ever told that it was in, and have come again. */
        proc->member.index = index;
        proc->member.incarnation = incarnation;
        proc->member.claims = false;
        proc->member.back_conn = 0;
        proc->member.lost = false;
        proc->member.left = false;
    }
}

static struct sim_proc *claimant_of(struct sim *sim, const struct model_job *job, uint32_t index)
{
    for (uint32_t i = 0; i < sim->proc_count; i++) {
        struct sim_proc *proc = sim->procs[i];

        if (proc->kind == SIM_RANK && proc->job == job && proc->member.claims &&
            proc->member.index == index) {
            return proc;
        }
    }
    return NULL;
}

/* Its claim lapses with its own lease, which nobody narrates: an earlier one is over then. */
static void claims(struct sim *sim, const struct model_job *job, uint32_t index, const char *text)
{
    struct sim_proc *proc = sim_proc_by_pid(sim, number_of(text, "pid"));
    struct sim_proc *earlier = claimant_of(sim, job, index);

    if (earlier) {
        earlier->member.claims = false;
    }
    if (proc) {
        proc->member.index = index;
        proc->member.claims = true;
    }
}

/* CLAIM_DECIDED: only a word of the holder refuses. */
static void claim_refused(struct sim *sim, const struct model_job *job, uint32_t index)
{
    struct sim_proc *claimant = claimant_of(sim, job, index);
    const struct sim_proc *holder = sim_proc_of(sim, job, index, job->places[index].incarnation);

    if (!sim->service.asking || sim->service.asking->proc != holder) {
        sim_fail(sim, SIM_P_CLAIM_DECIDED,
                 "the claim of #%u is refused without a word of its holder", index);
    }
    if (claimant) {
        claimant->member.claims = false;
    }
}

static const struct sim_proc *claimant_from(struct sim *sim, const struct sim_proc *holder)
{
    return holder->kind == SIM_RANK && holder->member.incarnation != 0 && !holder->member.lost
               ? claimant_of(sim, holder->job, holder->member.index)
               : NULL;
}

/* CLAIM_DECIDED: a word of the holder refuses who claimed its place before it, unless the disk is
 * full. */
static void check_claim(struct sim *sim, const struct sim_proc *holder,
                        const struct sim_proc *before)
{
    const struct sim_proc *claimant = claimant_from(sim, holder);

    if (claimant && claimant == before && claimant != holder && claimant->alive &&
        sim_service_decides(sim) &&
        sim_service_clock(sim) < claimant->member.heard_ns + sim->plan.lease_ns) {
        sim_fail(sim, SIM_P_CLAIM_DECIDED, "#%u has renewed, and pid=%" PRIu64 " still claims it",
                 holder->member.index, claimant->pid);
    }
}

/* STOPPED_FIRST, LEASE_WHOLE, STALL_FORGIVEN, LIVE_NOT_LOST, CUT_RIDDEN */
static void lost_by_lease(struct sim *sim, const struct sim_proc *proc)
{
    const struct model_member *member = &proc->member;
    uint64_t lease = sim->plan.lease_ns;

    if (sim_service_clock(sim) < member->heard_ns + lease) {
        sim_fail(sim, SIM_P_LEASE_WHOLE, "#%u was heard %.3f ms ago", member->index,
                 (double)(sim_service_clock(sim) - member->heard_ns) / 1e6);
    }
    if (sim->service.back_ns != 0 && sim_service_clock(sim) < sim->service.back_ns + lease) {
        sim_fail(sim, SIM_P_STALL_FORGIVEN, "#%u is lost %.3f ms after the service came back",
                 member->index, (double)(sim_service_clock(sim) - sim->service.back_ns) / 1e6);
    }
    if (!proc->alive || proc->frozen) {
        return;
    }
    /* Who has not been told its first view yet runs nothing that could stop. */
    if (proc->started && !proc->ended && !proc->finished && !mst_client_stopped(proc->client)) {
        sim_fail(sim, SIM_P_STOPPED_FIRST, "#%u pid=%" PRIu64 " goes on", member->index, proc->pid);
    }
    /* Its last trouble was a cut that somebody asked for, and that was over long ago. */
    if (!proc->job->losing.now && !proc->ended && member->cut_ns != 0 &&
        proc->troubled_ns <= proc->cut_off_ns &&
        sim->now_ns > proc->cut_off_ns + lease / 2 + 2500 * SIM_MS) {
        sim_fail(sim, SIM_P_CUT_RIDDEN, "#%u pid=%" PRIu64 " was cut off until %.6f", member->index,
                 proc->pid, (double)proc->cut_off_ns / 1e9);
    }
    /* With its node: then it is its agent that had trouble. */
    if (!proc->job->losing.now && !proc->ended &&
        sim->now_ns > proc->troubled_ns + lease + 2500 * SIM_MS) {
        sim_fail(sim, SIM_P_LIVE_NOT_LOST, "#%u pid=%" PRIu64 " had no trouble since %.6f",
                 member->index, proc->pid, (double)proc->troubled_ns / 1e9);
    }
}

/* LOSS_REASON, EVICTED_LATE, LOST_ONCE */
static void gone(struct sim *sim, struct model_job *job, uint32_t index, const char *text)
{
    uint64_t incarnation = number_of(text, "incarnation");
    struct sim_proc *proc = sim_proc_of(sim, job, index, incarnation);
    struct mst_slice cause = word_of(text, "cause");
    bool lease = mst_slice_equal(cause, mst_slice_text("lease"));
    bool evicted = mst_slice_equal(cause, mst_slice_text("evicted"));
    bool left = starts(text, "member-left");
    struct model_place *place = &job->places[index];

    if (incarnation <= place->lost_incarnation) {
        sim_fail(sim, SIM_P_LOST_ONCE, "#%u incarnation %" PRIu64, index, incarnation);
    }
    place->lost_incarnation = incarnation;
    for (uint32_t rank = 0; rank < job->view.size; rank++) {
        if (job->view.index[rank] == index && job->view.incarnation[rank] == incarnation) {
            job->view.gone[rank] = true;
            sim_round_gone(sim, job, index);
            sim_blame(job, MODEL_LOSS, proc && proc->looper);
            job->looper_costs += proc && proc->looper;
            if (!left) {
                sim_called(sim, job);
            }
        }
    }
    if (!proc) {
        return;
    }
    if (lease) {
        lost_by_lease(sim, proc);
    } else if (evicted) {
        if (sim_service_clock(sim) < job->seal_open_ns + job->barrier_timeout_ns) {
            sim_fail(sim, SIM_P_EVICTED_LATE, "#%u", index);
        }
    } else if (!left && proc->alive) {
        sim_fail(sim, SIM_P_LOSS_REASON, "#%u pid=%" PRIu64 " lives", index, proc->pid);
    }
    if (proc->member.ready) {
        job->unready_ns = sim->now_ns;
    }
    proc->member.ready = false;
    proc->member.cut_ns = 0; /* its session is over */
    proc->member.lost = !left;
    proc->member.left = left;
    proc->member.gone_ns = sim->now_ns;
    proc->member.cause = lease ? MST_CAUSE_LEASE : evicted ? MST_CAUSE_EVICTED : MST_CAUSE_GONE;
}

static bool any_ready(const struct sim *sim, const struct model_job *job)
{
    for (uint32_t i = 0; i < sim->proc_count; i++) {
        if (sim->procs[i]->job == job && sim->procs[i]->member.ready) {
            return true;
        }
    }
    return false;
}

/* Whether a seal would seat more. */
bool sim_job_grows(const struct sim *sim, const struct model_job *job)
{
    uint32_t alive = sim_view_alive(&job->view);
    uint32_t more = 0;

    for (uint32_t i = 0; i < sim->proc_count; i++) {
        more += sim->procs[i]->job == job && sim->procs[i]->member.ready;
    }
    return alive > 0 && sim_model_fit(job, alive + more) > alive;
}

static void ready(struct sim *sim, struct model_job *job, uint32_t index, const char *text)
{
    struct sim_proc *proc = sim_proc_of(sim, job, index, number_of(text, "incarnation"));

    if (!proc) {
        return;
    }
    /* An heir takes its place at the wait as well: join_wait goes on. */
    if (!any_ready(sim, job) && job->unready_ns != sim->now_ns) {
        job->ready_since_ns = sim_service_clock(sim);
    }
    proc->member.ready = true;
    if (job->grow == MST_GROW_CHECK && !job->by_table && sim_job_grows(sim, job)) {
        sim_called(sim, job);
    }
    proc->member.ready_number = ++job->ready_count;
    if (proc->asks_spare && !proc->started && sim_view_alive(&job->view) > 0 &&
        !sim_job_grows(sim, job)) {
        proc->member.ready = false;
    }
    proc->member.ready_ns = sim->now_ns;
}

/* There is no seat for it; who asked to be told that is told, and does not wait before it asks
 * again. */
static void spare(struct sim *sim, const struct model_job *job, uint32_t index, const char *text)
{
    struct sim_proc *proc = sim_proc_of(sim, job, index, number_of(text, "incarnation"));

    if (proc && proc->asks_spare && !proc->started) {
        proc->member.ready = false;
    }
}

/* Its JOIN went with the connection. */
static void silent(struct sim *sim, const struct model_job *job, uint32_t index, const char *text)
{
    struct sim_proc *proc = sim_proc_of(sim, job, index, number_of(text, "incarnation"));

    if (proc) {
        proc->member.ready = false;
    }
}

/* The clocks of the service and of the world differ by a hundredth at most. */
static void cut_off(struct sim *sim, const struct model_job *job, uint32_t index, const char *text)
{
    struct sim_proc *proc = sim_proc_of(sim, job, index, number_of(text, "incarnation"));
    uint64_t for_ns = number_of(text, "for-ms") * SIM_MS;

    if (!proc) {
        return;
    }
    if (proc->member.cut_ns < sim_service_clock(sim) + for_ns) {
        proc->member.cut_ns = sim_service_clock(sim) + for_ns;
    }
    if (proc->cut_off_ns < sim->now_ns + for_ns + for_ns / 50) {
        proc->cut_off_ns = sim->now_ns + for_ns + for_ns / 50;
    }
    proc->rides_ns = 0;
    if (proc->troubled_ns < proc->cut_off_ns) {
        proc->troubled_ns = proc->cut_off_ns;
    }
}

/* CUT_HOLDS */
static void check_cut(struct sim *sim, const struct sim_proc *proc)
{
    if (proc->member.cut_ns > sim_service_clock(sim)) {
        sim_fail(sim, SIM_P_CUT_HOLDS, "pid=%" PRIu64 " #%u is cut off for another %.3f ms",
                 proc->pid, proc->member.index,
                 (double)(proc->member.cut_ns - sim_service_clock(sim)) / 1e6);
    }
}

static void back(struct sim *sim, const struct model_job *job, uint32_t index, const char *text)
{
    struct sim_proc *proc = sim_proc_of(sim, job, index, number_of(text, "incarnation"));

    if (proc) {
        check_cut(sim, proc);
        proc->member.cut_ns = 0;
    }
    if (proc && sim->service.asking) {
        proc->member.back_conn = sim->service.asking->id.id;
    }
}

static void grow(struct sim *sim, struct model_job *job, const char *text)
{
    const char *at = strchr(text, '#');
    uint32_t index = at ? (uint32_t)digits(at + 1) : 0;
    const struct sim_proc *proc = sim_proc_of(sim, job, index, job->places[index].incarnation);

    sim_blame(job, MODEL_JOINER, proc && proc->looper);
    job->looper_costs += proc && proc->looper;
}

static void place_event(struct sim *sim, struct model_job *job, const char *text)
{
    const char *at = strchr(text, ' ');
    uint32_t index;

    if (!at || at[1] != '#') {
        return; /* an agent or a worker */
    }
    index = (uint32_t)digits(at + 2);
    if (index >= MODEL_PLACES) {
        return;
    }
    if (starts(text, "member-joining")) {
        joining(sim, job, index, text);
    } else if (starts(text, "member-lost") || starts(text, "member-left")) {
        gone(sim, job, index, text);
    } else if (starts(text, "member-ready")) {
        ready(sim, job, index, text);
    } else if (starts(text, "member-spare")) {
        spare(sim, job, index, text);
    } else if (starts(text, "member-silent")) {
        silent(sim, job, index, text);
    } else if (starts(text, "member-cut")) {
        cut_off(sim, job, index, text);
    } else if (starts(text, "member-back")) {
        back(sim, job, index, text);
    } else if (starts(text, "claim-waiting")) {
        claims(sim, job, index, text);
    } else if (starts(text, "claim-refused")) {
        claim_refused(sim, job, index);
    }
}

void sim_saw_trace(struct sim *sim, const struct mst_trace *line)
{
    struct model_job *job = sim_job_named(sim, line->job);
    const char *text = line->text;

    if (!job) {
        return;
    }
    sim_node_traced(sim, job, text);
    if (starts(text, "member-") || starts(text, "claim-")) {
        place_event(sim, job, text);
    } else if (starts(text, "fault")) {
        sim_blame(job, MODEL_FAULT, false);
        sim_called(sim, job);
    } else if (starts(text, "grow")) {
        grow(sim, job, text);
    } else if (starts(text, "round-open")) {
        sim_round_opened(sim, job, word_of(text, "name"), number_of(text, "number"));
    } else if (starts(text, "round-closed")) {
        sim_round_closed(sim, job, word_of(text, "name"), number_of(text, "number"),
                         word_of(text, "status"), number_of(text, "arrived"));
    } else if (starts(text, "generation-sealed")) {
        sim_view_sealed(sim, job, digits(text + strlen("generation-sealed ")),
                        number_of(text, "size"));
    } else if (starts(text, "job-ended")) {
        job->ended_ns = sim->now_ns;
        job->told_revision = 0;
        memset(job->keys.ages, 0, sizeof(job->keys.ages)); /* revisions begin anew */
    }
}

/* ---- requests and answers ----------------------------------------------------------------------
 */

static struct sim_asked *asked_find(struct sim_conn *conn, uint64_t id)
{
    for (uint32_t i = 0; i < conn->asked_count; i++) {
        if (conn->asked[i].id == id) {
            return &conn->asked[i];
        }
    }
    return NULL;
}

static void unready(struct sim_proc *proc)
{
    proc->member.ready = false;
}

void sim_saw_request(struct sim *sim, struct sim_conn *conn, const struct mst_request *request)
{
    struct model_member *member = &conn->proc->member;
    struct sim_asked *asked = asked_find(conn, request->id);

    sim_node_over(sim);
    /* The service has just hung up on it, and drops what it had sent by then. */
    if (request->command != MST_OPEN && sim_service_clock(sim) < member->cut_ns) {
        return;
    }
    if (!asked) {
        if (conn->asked_count == SIM_ASKED_MAX) {
            sim_fail(sim, SIM_P_ANSWER_AT_ONCE, "%u requests without an answer", SIM_ASKED_MAX);
        }
        asked = &conn->asked[conn->asked_count++];
        memset(asked, 0, sizeof(*asked));
        asked->id = request->id;
    }
    asked->command = request->command;
    sim->service.request = request;
    switch (request->command) {
    case MST_OPEN:
        member->asked = true;
        member->asked_ns = sim_service_clock(sim);
        break;
    case MST_RENEW:
        member->asked_ns = sim_service_clock(sim);
        asked->fenced = member->lost;
        asked->claimant = claimant_from(sim, conn->proc);
        break;
    case MST_JOIN:
        member->join_id = request->id;
        member->join_conn = conn->id.id;
        break;
    case MST_CANCEL:
        if (request->cancel.id == member->join_id) {
            unready(conn->proc);
        }
        break;
    case MST_ROUND:
        sim_round_asked(sim, conn, request, asked);
        break;
    case MST_LEAVE:
    case MST_WRITE:
    case MST_DELETE_PREFIX:
    case MST_GET:
    case MST_LIST:
    case MST_WAIT:
    case MST_WATCH:
    case MST_ROUND_MEMBERS:
    case MST_MEMBERS:
    case MST_ROUNDS:
    case MST_JOBS:
    case MST_HOSTS:
    case MST_FAULTS:
    case MST_HISTORY:
    case MST_FAULT:
    case MST_CUT:
        break;
    case MST_LOST:
        sim_replace_last(conn->proc->job, request);
        break;
    }
}

/* It has had no effect, and is not answered: the connection goes. */
void sim_saw_nothing(struct sim_conn *conn, uint64_t id)
{
    struct sim_asked *asked = asked_find(conn, id);

    if (asked && asked->command == MST_ROUND) {
        sim_round_refused(conn, asked);
    }
}

/* REVISION_GROWS, also over a death of the service. */
static void check_revision(struct sim *sim, struct model_job *job, const struct mst_reply *reply)
{
    if (reply->command != MST_WATCH || reply->status != MUSTER_OK || (reply->revision >> 63) != 0 ||
        job->ended_ns == sim->now_ns) {
        return; /* amid a listing, or of a job that has just ended */
    }
    if (reply->revision < job->told_revision) {
        sim_fail(sim, SIM_P_REVISION_GROWS, "%s: %" PRIu64 " after %" PRIu64, job->name,
                 reply->revision, job->told_revision);
    }
    job->told_revision = reply->revision;
    job->told_ns = sim_service_clock(sim);
}

/* ANSWER_ONCE, REVISION_GROWS, FENCED_STAYS, CUT_HOLDS */
void sim_saw_reply(struct sim *sim, struct sim_conn *conn, const struct mst_reply *reply)
{
    struct sim_asked *asked = asked_find(conn, reply->id);
    struct sim_asked copy;

    if (!asked) {
        sim_fail(sim, SIM_P_ANSWER_ONCE, "request %" PRIu64 " of connection %" PRIu64, reply->id,
                 conn->id.id);
    }
    check_cut(sim, conn->proc);
    copy = *asked;
    *asked = conn->asked[--conn->asked_count];
    if (copy.command != reply->command) {
        sim_fail(sim, SIM_P_ANSWER_ONCE, "a %s is answered as %s", mst_command_name(copy.command),
                 mst_command_name(reply->command));
    }
    if (reply->status == MUSTER_OK && (reply->command == MST_RENEW || reply->command == MST_OPEN)) {
        conn->proc->member.heard_ns = conn->proc->member.asked_ns;
        if (reply->command == MST_RENEW) {
            check_claim(sim, conn->proc, copy.claimant);
        }
        if (copy.fenced) {
            sim_fail(sim, SIM_P_FENCED_STAYS, "pid=%" PRIu64 " #%u renews", conn->proc->pid,
                     conn->proc->member.index);
        }
    }
    check_revision(sim, conn->proc->job, reply);
    sim_keys_told(sim, conn->proc->job, reply);
    if (reply->command == MST_ROUND) {
        sim_round_answered(sim, conn, &copy, reply);
    }
    if (reply->has_view) {
        sim_view_told(sim, conn->proc, &reply->view);
    }
    if (reply->command == MST_JOIN && reply->has_view && reply->view.rank == MST_RANK_NONE) {
        unready(conn->proc); /* told that it is a spare, and waits no more before it asks again */
    }
}

void sim_saw_close(struct sim *sim, struct sim_conn *conn)
{
    (void)sim;
    conn->asked_count = 0;
    if (conn->proc->member.join_conn == conn->id.id) {
        unready(conn->proc);
    }
}

/* ANSWER_AT_ONCE */
void sim_saw_turn(struct sim *sim)
{
    sim_node_over(sim);
    for (uint32_t i = 0; i < sim->plan.jobs; i++) {
        sim_round_deadlines(sim, &sim->jobs[i]);
    }
    for (size_t i = sim->net.first_live; i < sim->net.count; i++) {
        struct sim_conn *conn = sim->net.conns[i];

        for (uint32_t k = 0; conn->codec && k < conn->asked_count; k++) {
            if (!mst_command_waits(conn->asked[k].command)) {
                sim_fail(sim, SIM_P_ANSWER_AT_ONCE, "a %s of connection %" PRIu64,
                         mst_command_name(conn->asked[k].command), conn->id.id);
            }
        }
    }
}
