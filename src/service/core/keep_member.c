/* SPDX-License-Identifier: Apache-2.0 */
/* Members with their seats, and the sessions that hold or claim their places. */
#include "service/core/host.h"
#include "service/core/keep.h"
#include "service/core/node.h"

/* ---- members, by role and index ---- */

static void keep_fault(struct mst_archive *archive, struct mst_member *member)
{
    struct mst_seat *seat = &member->seat;

    mst_archive_u64(archive, &seat->fault_revision);
    if (seat->fault_revision == 0) {
        return;
    }
    mst_keep_cause(archive, &seat->fault_cause, &seat->fault_code);
    mst_archive_blob(archive, &seat->fault_text);
    mst_archive_u64(archive, &seat->fault_ns);
    mst_archive_u32(archive, &seat->fault_told_by);
    (void)mst_archive_expect(archive, seat->fault_ns <= member->job->core->now_ns);
    if (archive->loading) {
        (void)mst_archive_expect(archive, mst_index_try(&member->job->faults, &seat->fault_node,
                                                        seat->fault_revision, 0));
    }
}

/* In the order of loading; sort_ranks follows when all are loaded. */
static void take_rank(struct mst_archive *archive, struct mst_member *member)
{
    struct mst_job *job = member->job;

    if (!mst_archive_expect(archive, member->role == MST_ROLE_RANK)) {
        member->seat.incarnation = 0;
        return;
    }
    job->ranks[job->rank_count++] = member;
    job->alive += !member->seat.gone;
}

static void keep_seat(struct mst_archive *archive, struct mst_member *member)
{
    struct mst_seat *seat = &member->seat;

    mst_archive_u64(archive, &seat->incarnation);
    if (seat->incarnation == 0) {
        if (archive->loading) {
            seat->rank = MST_RANK_NONE;
        }
        return;
    }
    mst_archive_u32(archive, &seat->rank);
    mst_archive_bool(archive, &seat->gone);
    mst_keep_cause(archive, &seat->cause, &seat->code);
    mst_archive_u64(archive, &seat->pid);
    mst_archive_u32(archive, &seat->agent);
    mst_archive_u64(archive, &seat->heard_ns);
    mst_archive_blob(archive, &seat->host);
    mst_archive_u32(archive, &seat->losses);
    if (archive->loading) {
        take_rank(archive, member);
    }
    keep_fault(archive, member);
}

static void keep_member(struct mst_archive *archive, struct mst_member *member)
{
    struct mst_token fence = {.high = member->fence.high, .low = member->fence.low};
    bool fenced = mst_index_linked(&member->fence);

    mst_archive_u64(archive, &member->incarnation);
    MST_ARCHIVE_ENUM(archive, member->end, enum mst_state, 0, MST_LEFT);
    mst_keep_cause(archive, &member->cause, &member->code);
    mst_archive_u32(archive, &member->losses);
    mst_archive_blob(archive, &member->text);
    mst_archive_blob(archive, &member->host);
    mst_archive_u64(archive, &member->pid);
    mst_archive_u32(archive, &member->agent);
    mst_archive_u64(archive, &member->heard_ns);
    mst_archive_bool(archive, &member->spare);
    mst_archive_bools(archive, &member->owes_touch, &member->last);
    mst_archive_bool(archive, &fenced);
    if (fenced) {
        mst_archive_token(archive, &fence);
    }
    mst_archive_u64(archive, &member->revision);
    if (!archive->loading) {
        return;
    }
    if (fenced) {
        (void)mst_archive_expect(archive, mst_member_set_fence(member, fence));
    }
    (void)mst_archive_expect(archive, member->incarnation > 0 &&
                                          (member->end == 0 || member->end >= MST_STATE_LOST) &&
                                          mst_member_set_change(member));
}

/* Saving: `member`. Loading: the next one. NULL: broken. */
static struct mst_member *keep_place(struct mst_archive *archive, struct mst_job *job,
                                     struct mst_member *member)
{
    enum mst_role role = member ? member->role : MST_ROLE_RANK;
    uint32_t index = member ? member->index : 0;

    MST_ARCHIVE_ENUM(archive, role, enum mst_role, MST_ROLE_RANK, MST_ROLE_AGENT);
    mst_archive_u32(archive, &index);
    if (archive->loading && mst_archive_expect(archive, !mst_member_find(job, role, index))) {
        member = mst_archive_made(archive, mst_member_new(job, role, index));
    }
    return member;
}

static void keep_ready(struct mst_archive *archive, void *ctx, struct mst_list *node)
{
    struct mst_job *job = ctx;
    struct mst_member *member = MST_CONTAINER_OR_NULL(node, struct mst_member, in_ready);
    uint32_t index = member ? member->index : 0;

    mst_archive_u32(archive, &index);
    if (archive->loading) {
        member = mst_member_find(job, MST_ROLE_RANK, index);
        if (mst_archive_expect(archive, member && !mst_list_linked(&member->in_ready))) {
            mst_list_append(&job->ready, &member->in_ready);
            job->ready_count++;
        }
    }
}

/* They were loaded by index. Each swap brings one to its rank, where it stays. */
static void sort_ranks(struct mst_archive *archive, const struct mst_job *job)
{
    for (uint32_t i = 0; i < job->rank_count && mst_archive_good(archive); i++) {
        while (job->ranks[i]->seat.rank != i) {
            struct mst_member *member = job->ranks[i];
            uint32_t rank = member->seat.rank;

            if (!mst_archive_expect(archive, rank < job->rank_count &&
                                                 job->ranks[rank]->seat.rank != rank)) {
                return;
            }
            job->ranks[i] = job->ranks[rank];
            job->ranks[rank] = member;
        }
    }
}

void mst_keep_members(struct mst_archive *archive, struct mst_job *job)
{
    struct mst_member *member = archive->loading ? NULL : mst_member_first(job);
    uint32_t count = (uint32_t)job->members.count;

    mst_archive_count(archive, &count, 2 * sizeof(uint64_t));
    for (uint32_t i = 0; i < count && mst_archive_good(archive); i++) {
        struct mst_member *place = keep_place(archive, job, member);

        if (place) {
            keep_member(archive, place);
            keep_seat(archive, place);
        }
        member = member ? mst_member_next(member) : NULL;
    }
    if (archive->loading) {
        sort_ranks(archive, job);
    }
    mst_archive_list(archive, &job->ready, sizeof(uint32_t), keep_ready, job);
}

/* ---- sessions, in the order they came to the job ---- */

static uint32_t count_outcomes(const struct mst_session *session)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < session->outcome_room; i++) {
        count += session->outcomes[i].id >= session->oldest;
    }
    return count;
}

/* The next at or after this id; there is one. */
static struct mst_outcome next_outcome(const struct mst_session *session, uint64_t id)
{
    while (session->outcomes[id % session->outcome_room].id != id) {
        id++;
    }
    return session->outcomes[id % session->outcome_room];
}

/* Those that may still be repeated, by id. */
static void keep_outcomes(struct mst_archive *archive, struct mst_session *session)
{
    uint32_t count = archive->loading ? 0 : count_outcomes(session);
    struct mst_outcome outcome = {.id = session->oldest - 1};

    mst_archive_count(archive, &count, 3 * sizeof(uint64_t));
    for (uint32_t i = 0; i < count && mst_archive_good(archive); i++) {
        uint64_t before = outcome.id;

        if (!archive->loading) {
            outcome = next_outcome(session, outcome.id + 1);
        }
        mst_archive_u64(archive, &outcome.id);
        MST_ARCHIVE_ENUM(archive, outcome.status, muster_status, INT32_MIN, MUSTER_OK);
        mst_archive_i64(archive, &outcome.number);
        mst_archive_u64(archive, &outcome.revision);
        if (archive->loading &&
            mst_archive_expect(archive,
                               outcome.id > before && outcome.id - session->oldest < MST_WINDOW) &&
            !mst_session_restore_outcome(session, &outcome)) {
            mst_archive_break(archive, MUSTER_ENOMEM);
        }
    }
}

static void load_holder(struct mst_archive *archive, struct mst_session *session, uint32_t index,
                        bool claiming)
{
    struct mst_member *member = mst_member_find(session->job, session->role, index);

    if (!mst_archive_expect(archive, member != NULL)) {
        return;
    }
    if (!mst_archive_expect(archive,
                            claiming ? !member->claimant : !member->session && member->end == 0)) {
        return;
    }
    session->member = member;
    session->claiming = claiming;
    if (claiming) {
        member->claimant = session;
    } else {
        member->session = session;
        session->job->living += session->role == MST_ROLE_RANK;
        mst_host_hold(session->place, 1);
    }
    mst_node_enter(session);
}

static void keep_place_of(struct mst_archive *archive, struct mst_session *session)
{
    uint32_t index = session->member ? session->member->index : 0;
    bool claiming = session->claiming;

    if (session->role == MST_ROLE_OBSERVER) {
        return;
    }
    mst_archive_u32(archive, &index);
    mst_archive_bools(archive, &claiming, &session->replaces);
    (void)mst_archive_expect(archive, !session->replaces || session->role == MST_ROLE_AGENT);
    if (archive->loading && mst_archive_good(archive)) {
        load_holder(archive, session, index, claiming);
    }
}

/* What a session is born with. */
static struct mst_session *keep_birth(struct mst_archive *archive, struct mst_job *job,
                                      struct mst_session *session)
{
    struct mst_open open = {.role = MST_ROLE_OBSERVER};

    if (session) {
        open = (struct mst_open){.token = session->token,
                                 .role = session->role,
                                 .host = mst_blob_slice(session->host),
                                 .pid = session->pid};
    }
    mst_archive_token(archive, &open.token);
    MST_ARCHIVE_ENUM(archive, open.role, enum mst_role, MST_ROLE_OBSERVER, MST_ROLE_AGENT);
    mst_archive_slice(archive, &open.host);
    mst_archive_u64(archive, &open.pid);
    if (archive->loading && mst_archive_expect(archive, !mst_session_find(job->core, open.token))) {
        session = mst_archive_made(archive, mst_session_new(job->core, job, &open));
        if (session) {
            mst_alarm_clear(job->core, &session->alarm); /* the saved one follows */
        }
    }
    return session;
}

/* If the job had no room for the host of a new session, it does not count it later either. */
static void keep_node(struct mst_archive *archive, struct mst_session *session)
{
    bool counted = session->place != NULL;

    mst_archive_u32(archive, &session->agent);
    mst_archive_bool(archive, &counted);
    if (archive->loading && !counted) {
        mst_host_let_go(session->place);
        session->place = NULL;
    }
    (void)mst_archive_expect(archive, counted == (session->place != NULL));
    (void)mst_archive_expect(archive, session->agent == MST_NODE_NONE ||
                                          session->role == MST_ROLE_RANK ||
                                          session->role == MST_ROLE_WORKER);
}

static void keep_session(struct mst_archive *archive, void *ctx, struct mst_list *node)
{
    struct mst_session *session =
        keep_birth(archive, ctx, MST_CONTAINER_OR_NULL(node, struct mst_session, in_job));

    if (!session) {
        return;
    }
    keep_node(archive, session);
    keep_place_of(archive, session);
    MST_ARCHIVE_U64S(archive, &session->heard_ns, &session->lease_ns);
    mst_keep_alarm(archive, session->core, &session->alarm);
    MST_ARCHIVE_U64S(archive, &session->cut_ns, &session->oldest);
    (void)mst_archive_expect(archive, session->oldest > 0 && mst_alarm_is_set(&session->alarm));
    keep_outcomes(archive, session);
}

void mst_keep_sessions(struct mst_archive *archive, struct mst_job *job)
{
    mst_archive_list(archive, &job->sessions, 2 * sizeof(uint64_t), keep_session, job);
}
