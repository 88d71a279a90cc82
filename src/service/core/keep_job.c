/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs in the order they came, jobs that ended in the order they ended, and connections. */
#include "service/core/generation.h"
#include "service/core/host.h"
#include "service/core/keep.h"

void mst_keep_cause(struct mst_archive *archive, enum mst_cause *cause, int32_t *code)
{
    MST_ARCHIVE_ENUM(archive, *cause, enum mst_cause, MST_CAUSE_NONE, MST_CAUSE_LAST);
    mst_archive_i32(archive, code);
}

void mst_keep_alarm(struct mst_archive *archive, struct mst_core *core, struct mst_alarm *alarm)
{
    struct mst_alarm kept = *alarm;
    bool set = mst_alarm_is_set(alarm);

    mst_archive_bool(archive, &set);
    if (!set) {
        return;
    }
    MST_ARCHIVE_U64S(archive, &kept.at_ns, &kept.set_ns, &kept.serial);
    if (archive->loading && mst_archive_expect(archive, kept.set_ns <= core->now_ns)) {
        (void)mst_archive_expect(archive, mst_alarm_restore(core, alarm, &kept));
    }
}

/* ---- the faults and losses of a generation ---- */

static void keep_record(struct mst_archive *archive, struct mst_record *record)
{
    struct mst_who *who = &record->who;

    mst_keep_cause(archive, &who->cause, &who->code);
    mst_archive_u64(archive, &record->at_ns);
    mst_archive_u32(archive, &record->told_by);
    mst_archive_bool(archive, &record->gone);
    MST_ARCHIVE_U32S(archive, &who->index, &who->rank);
    MST_ARCHIVE_U64S(archive, &who->incarnation, &who->pid);
    MST_ARCHIVE_U32S(archive, &who->node, &who->losses);
    mst_archive_blob(archive, &record->host);
    mst_archive_blob(archive, &record->text);
}

static void keep_records_of(struct mst_archive *archive, const struct mst_core *core,
                            struct mst_records *records)
{
    MST_ARCHIVE_U64S(archive, &records->generation, &records->begun_ns, &records->total);
    mst_archive_u32(archive, &records->count);
    if (archive->loading && !mst_archive_expect(archive, records->count <= MST_NAMES_MAX)) {
        records->count = 0; /* the records do not follow */
    }
    for (uint32_t i = 0; i < records->count; i++) {
        keep_record(archive, &records->first[i]);
    }
    (void)mst_archive_expect(archive, mst_records_sane(records, core->now_ns));
}

static void keep_records(struct mst_archive *archive, struct mst_job *job)
{
    mst_archive_u64(archive, &job->fault_count);
    keep_records_of(archive, job->core, &job->last_records);
    keep_records_of(archive, job->core, &job->records);
    (void)mst_archive_expect(archive, job->records.generation == 0 ||
                                          job->records.generation == job->generation);
    if (archive->loading) {
        /* Only replies depend on it. Kept in the snapshot it would be right also for a generation
         * number that has leapt: not worth a format that no older service can read. */
        job->last_is_cause = job->last_records.count > 0 &&
                             job->last_records.generation + 1 == job->records.generation;
    }
}

/* ---- the losses on hosts; which sessions are on them follows from the sessions ---- */

static uint64_t serial_before(const struct mst_job *job, const struct mst_host *host)
{
    struct mst_list *node = host->named.in_list.prev;

    return node != &job->hosts.list
               ? MST_CONTAINER_CONST(node, struct mst_host, named.in_list)->serial
               : 0;
}

static void keep_host(struct mst_archive *archive, void *ctx, struct mst_list *node)
{
    struct mst_job *job = ctx;
    struct mst_host *host = MST_CONTAINER_OR_NULL(node, struct mst_host, named.in_list);
    struct mst_slice name = mst_archive_name(archive, &job->hosts, node);

    if (archive->loading && mst_archive_good(archive)) {
        host = mst_archive_made(archive, mst_host_restore(job, name));
    }
    if (!host) {
        return;
    }
    mst_archive_u64(archive, &host->serial);
    MST_ARCHIVE_U32S(archive, &host->node_losses, &host->rank_losses);
    (void)mst_archive_expect(archive, host->serial > serial_before(job, host) &&
                                          host->serial <= job->host_serial);
}

static void keep_hosts(struct mst_archive *archive, struct mst_job *job)
{
    mst_archive_u64(archive, &job->host_serial);
    mst_archive_list(archive, &job->hosts.list, 3 * sizeof(uint64_t), keep_host, job);
}

/* After the sessions: there is a reason for each. */
static bool hosts_whole(const struct mst_job *job)
{
    MST_NAMED_EACH(const struct mst_host, host, &job->hosts)
    {
        if (host->sessions == 0 && host->node_losses == 0 && host->rank_losses == 0) {
            return false;
        }
    }
    return true;
}

/* ---- jobs ---- */

static void keep_numbers(struct mst_archive *archive, struct mst_job *job)
{
    MST_ARCHIVE_U64S(archive, &job->serial, &job->past->generation, &job->past->incarnation);
    MST_ARCHIVE_U32S(archive, &job->size, &job->min_size, &job->max_size, &job->size_multiple);
    mst_archive_u64(archive, &job->join_wait_ms);
    MST_ARCHIVE_ENUM(archive, job->grow, enum mst_grow, MST_GROW_CHECK, MST_GROW_OFF);
    MST_ARCHIVE_U64S(archive, &job->generation, &job->floor);
    MST_ARCHIVE_ENUM(archive, job->attention, enum mst_attention, MST_CALM, MST_INTERRUPT);
    mst_archive_u64(archive, &job->view_revision);
    mst_archive_bool(archive, &job->join_due);
    mst_archive_bool(archive, &job->ordered);
    mst_archive_blob(archive, &job->sealed_value);
    mst_archive_u64(archive, &job->finals);
    mst_archive_bool(archive, &job->at_rest);
    mst_archive_u64(archive, &job->revision);
    mst_keep_alarm(archive, job->core, &job->join_alarm);
}

/* The pointers that requests follow without a check. */
static void expect_whole(struct mst_archive *archive, const struct mst_job *job)
{
    const struct mst_member *member = mst_member_first(job);

    (void)mst_archive_expect(archive, !mst_list_empty(&job->sessions) || job->keys.live > 0);
    (void)mst_archive_expect(archive, job->generation > 0 || job->rank_count == 0);
    (void)mst_archive_expect(archive, hosts_whole(job));
    (void)mst_archive_expect(archive, !job->seal || !mst_alarm_is_set(&job->seal->replace_alarm) ||
                                          mst_generation_waits_for_places(job->seal));
    for (; member; member = mst_member_next(member)) {
        const struct mst_seat *seat = &member->seat;

        (void)mst_archive_expect(archive, (member->end == 0) == (member->session != NULL) &&
                                              (!member->claimant || member->session) &&
                                              (!member->spare || member->session));
        (void)mst_archive_expect(
            archive,
            seat->incarnation == 0 || seat->gone ||
                (!member->spare && seat->incarnation == member->incarnation && member->session));
    }
}

static void keep_job(struct mst_archive *archive, void *ctx, struct mst_list *node)
{
    struct mst_core *core = ctx;
    struct mst_job *job = MST_CONTAINER_OR_NULL(node, struct mst_job, named.in_list);
    struct mst_slice name = mst_archive_name(archive, &core->jobs, node);

    if (archive->loading && mst_archive_good(archive)) {
        job = mst_archive_made(archive, mst_job_make(core, name));
    }
    if (!job) {
        return;
    }
    if (archive->loading) {
        mst_job_publish(job);
    }
    keep_numbers(archive, job);
    keep_records(archive, job);
    keep_hosts(archive, job);
    mst_keep_members(archive, job);
    mst_keep_sessions(archive, job);
    mst_keep_keys(archive, job);
    mst_keep_rounds(archive, job);
    if (archive->loading) {
        expect_whole(archive, job);
    }
}

void mst_keep_jobs(struct mst_archive *archive, struct mst_core *core)
{
    uint64_t serial = core->job_serial;

    mst_archive_u64(archive, &serial);
    mst_archive_list(archive, &core->jobs.list, 2 * sizeof(uint64_t), keep_job, core);
    if (archive->loading) {
        core->job_serial = serial;
    }
}

/* ---- jobs that ended ---- */

static void keep_past(struct mst_archive *archive, void *ctx, struct mst_list *node)
{
    struct mst_core *core = ctx;
    struct mst_past *past = MST_CONTAINER_OR_NULL(node, struct mst_past, named.in_list);
    struct mst_slice name = mst_archive_name(archive, &core->pasts, node);

    if (archive->loading && mst_archive_expect(archive, !mst_job_find(core, name))) {
        past = mst_archive_made(archive, mst_past_make(core, name));
    }
    if (!past) {
        return;
    }
    MST_ARCHIVE_U64S(archive, &past->generation, &past->incarnation);
    if (archive->loading) {
        mst_past_end(core, past);
    }
}

void mst_keep_pasts(struct mst_archive *archive, struct mst_core *core)
{
    mst_archive_list(archive, &core->pasts.list, 2 * sizeof(uint64_t), keep_past, core);
}

/* ---- connections ---- */

/* The connection was being closed; why is not kept. */
static const char being_closed[] = "being closed";

static void keep_session_of(struct mst_archive *archive, struct mst_core *core,
                            struct mst_link *link)
{
    bool there = link->session != NULL;
    struct mst_token token = there ? link->session->token : (struct mst_token){0};

    mst_archive_bool(archive, &there);
    if (!there) {
        return;
    }
    mst_archive_token(archive, &token);
    if (archive->loading && mst_archive_good(archive)) {
        struct mst_session *session = mst_session_find(core, token);

        if (mst_archive_expect(archive, session && !session->link)) {
            mst_session_attach(session, link);
        }
    }
}

/* The answer to a request without a session. A dropped job is not kept for this. */
static void keep_end(struct mst_archive *archive, struct mst_core *core, struct mst_link *link)
{
    enum mst_link_end end = link->end;
    bool known = link->job && !link->job->dropped;
    struct mst_slice name = known ? link->job->named.name : mst_slice_of(NULL, 0);
    bool placed = known && link->member;
    enum mst_role role = placed ? link->member->role : MST_ROLE_RANK;
    uint32_t index = placed ? link->member->index : 0;
    struct mst_job *job;
    struct mst_member *member;

    MST_ARCHIVE_ENUM(archive, end, enum mst_link_end, MST_LINK_NEVER, MST_LINK_OVER);
    if (end == MST_LINK_NEVER) {
        return;
    }
    mst_archive_slice(archive, &name);
    mst_archive_bool(archive, &placed);
    MST_ARCHIVE_ENUM(archive, role, enum mst_role, MST_ROLE_RANK, MST_ROLE_AGENT);
    mst_archive_u32(archive, &index);
    if (!archive->loading || !mst_archive_good(archive)) {
        return;
    }
    job = name.size > 0 ? mst_job_find(core, name) : NULL;
    member = job && placed ? mst_member_find(job, role, index) : NULL;
    if (mst_archive_expect(archive, (name.size == 0 || job) && (!placed || member) &&
                                        (end != MST_LINK_REFUSED || !job || member) &&
                                        !link->session)) {
        mst_link_set_end(link, end, job, member);
    }
}

static struct mst_waiter *load_join(struct mst_archive *archive, struct mst_core *core,
                                    struct mst_link *link, uint64_t id)
{
    const struct mst_request request = {.command = MST_JOIN, .id = id};
    struct mst_session *session = link->session;
    struct mst_waiter *join;

    if (!mst_archive_expect(archive, session && session->member && !session->join)) {
        return NULL;
    }
    join = mst_archive_made(archive, mst_waiter_new(core, link, &request));
    if (join) {
        mst_waiter_set_job(join, session->job);
        mst_session_wait_to_join(session, join);
    }
    return join;
}

static void keep_join(struct mst_archive *archive, struct mst_core *core, struct mst_link *link)
{
    struct mst_waiter *join = link->session ? link->session->join : NULL;
    uint64_t id = join ? join->id : 0;
    bool joins = join != NULL;

    mst_archive_bool(archive, &joins);
    if (!joins) {
        return;
    }
    mst_archive_u64(archive, &id);
    if (archive->loading) {
        join = load_join(archive, core, link, id);
    }
    if (join) {
        mst_archive_bool(archive, &join->join.spare);
        mst_archive_u64(archive, &join->join.heard);
    }
}

static void keep_link(struct mst_archive *archive, struct mst_core *core, struct mst_link *link)
{
    struct mst_conn conn = link ? link->conn : (struct mst_conn){0};
    bool closing = link && link->reason;

    mst_archive_u64(archive, &conn.id);
    mst_archive_bool(archive, &closing);
    if (archive->loading && mst_archive_expect(archive, !mst_link_find(core, conn))) {
        link = mst_archive_made(archive, mst_link_new(core, conn));
    }
    if (!link) {
        return;
    }
    if (archive->loading && closing) {
        link->reason = being_closed;
    }
    keep_session_of(archive, core, link);
    keep_end(archive, core, link);
    keep_join(archive, core, link);
}

/* A member is ready while its JOIN waits. */
static void expect_joins(struct mst_archive *archive, struct mst_core *core)
{
    const struct mst_session *session = mst_session_first(core);

    MST_NAMED_EACH(struct mst_job, job, &core->jobs)
    {
        MST_EACH(member, &job->ready, const struct mst_member, in_ready) {
            (void)mst_archive_expect(archive, member->session && member->session->join &&
                                                  !mst_member_seated(member));
        }
    }
    for (; session; session = mst_session_next(session)) {
        (void)mst_archive_expect(archive, !session->join || session->claiming ||
                                              mst_list_linked(&session->member->in_ready));
    }
}

void mst_keep_links(struct mst_archive *archive, struct mst_core *core)
{
    struct mst_link *link = archive->loading ? NULL : mst_link_first(core);
    uint32_t count = (uint32_t)core->links.count;

    mst_archive_count(archive, &count, sizeof(uint64_t) + 4);
    for (uint32_t i = 0; i < count && mst_archive_good(archive); i++) {
        keep_link(archive, core, link);
        link = link ? mst_link_next(link) : NULL;
    }
    if (archive->loading) {
        expect_joins(archive, core);
    }
}
