/* SPDX-License-Identifier: Apache-2.0 */
/* One number for all that can still reach an effect, taken in the order of the ordered structures,
 * so it depends on no address. */
#include "base/digest.h"

#include "service/core/host.h"
#include "service/core/job.h"
#include "service/core/round.h"

static uint64_t add_blob(uint64_t digest, const struct mst_blob *blob)
{
    return mst_digest_slice(digest, mst_blob_slice(blob));
}

static uint64_t add_numbers(uint64_t digest, const uint64_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        digest = mst_digest_number(digest, numbers[i]);
    }
    return digest;
}

#define ADD(digest, ...)                                                                           \
    add_numbers((digest), (const uint64_t[]){__VA_ARGS__},                                         \
                sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static uint64_t add_waiter(uint64_t digest, const struct mst_waiter *waiter)
{
    digest = ADD(digest, waiter->id, waiter->command, waiter->stage);
    if (waiter->stage == MST_QUEUED) {
        digest = ADD(digest, (uint64_t)(int64_t)waiter->status, (uint64_t)waiter->number,
                     waiter->revision, waiter->detail, (uint64_t)waiter->limit);
    }
    if (waiter->command == MST_WATCH) {
        digest = ADD(digest, waiter->watch.kinds, waiter->watch.generation, waiter->watch.after,
                     waiter->watch.node);
    }
    if (waiter->command == MST_JOIN) {
        digest = add_blob(ADD(digest, waiter->join.spare, waiter->join.heard), waiter->join.value);
    }
    return digest;
}

static uint64_t add_link(uint64_t digest, const struct mst_link *link)
{
    digest = ADD(digest, link->conn.id, link->end, link->reason != NULL);
    if (link->session) {
        digest = ADD(digest, link->session->token.high, link->session->token.low);
    }
    for (const struct mst_list *node = link->waiters.next; node != &link->waiters;
         node = node->next) {
        digest = add_waiter(digest, MST_OF(node, struct mst_waiter, in_link));
    }
    return digest;
}

static uint64_t add_session(uint64_t digest, const struct mst_session *session)
{
    digest = ADD(digest, session->token.high, session->token.low, session->role, session->claiming,
                 session->pid, session->agent, session->heard_ns, session->lease_ns,
                 session->alarm.at_ns, session->cut_ns, session->oldest);
    digest = add_blob(digest, session->host);
    if (session->member) {
        digest = ADD(digest, session->member->index);
    }
    for (uint32_t i = 0; i < session->outcome_room; i++) {
        const struct mst_outcome *outcome = &session->outcomes[i];

        if (outcome->id >= session->oldest) {
            digest = ADD(digest, outcome->id, (uint64_t)(int64_t)outcome->status,
                         (uint64_t)outcome->number, outcome->revision);
        }
    }
    return digest;
}

static uint64_t add_member(uint64_t digest, const struct mst_member *member)
{
    const struct mst_seat *seat = &member->seat;

    digest =
        ADD(digest, member->role, member->index, member->incarnation, member->end, member->cause,
            (uint64_t)(int64_t)member->code, member->losses, member->pid, member->agent,
            member->heard_ns, member->revision, mst_list_linked(&member->in_ready), member->spare);
    digest = add_blob(add_blob(digest, member->text), member->host);
    if (member->fenced) {
        digest = ADD(digest, member->fence_token.high, member->fence_token.low);
    }
    if (seat->incarnation != 0) {
        digest = ADD(digest, seat->incarnation, seat->rank, seat->gone, seat->cause,
                     (uint64_t)(int64_t)seat->code, seat->fault_revision, seat->fault_cause,
                     (uint64_t)(int64_t)seat->fault_code, seat->fault_ns, seat->fault_told_by);
        digest = add_blob(digest, seat->fault_text);
    }
    return digest;
}

static uint64_t add_keyspace(uint64_t digest, const struct mst_keyspace *space)
{
    const struct mst_key *key = mst_key_after(space, mst_slice_of(NULL, 0));

    digest = ADD(digest, space->live, space->tombstone_count, space->forgotten, space->epoch);
    for (; key; key = mst_key_next(key)) {
        digest = mst_digest_slice(digest, mst_key_name(key));
        digest = ADD(digest, key->revision, key->since_ns, key->value != NULL, key->owner != NULL);
        digest = add_blob(digest, key->value);
    }
    return digest;
}

static uint64_t add_round(uint64_t digest, const struct mst_round *round)
{
    digest = ADD(digest, round->number, round->deadline_ms, round->on_loss, round->reduce,
                 round->present_only, round->seal, round->final, round->order_count, round->arrived,
                 round->lost, round->settled, round->done, (uint64_t)(int64_t)round->status,
                 round->alarm.at_ns);
    digest = add_blob(digest, round->value);
    for (size_t i = 0; round->carries && i < round->data_size / sizeof(int64_t); i++) {
        digest = ADD(digest, (uint64_t)(int64_t)round->carries[i]);
    }
    for (uint32_t i = 0; i < round->part_count; i++) {
        const struct mst_part *part = &round->parts[i];

        digest = ADD(digest, part->index, part->outside, part->arrived, part->lost, part->place);
        digest = add_blob(digest, part->data);
    }
    return digest;
}

static uint64_t add_rounds(uint64_t digest, const struct mst_job *job)
{
    for (const struct mst_list *node = job->round_list.next; node != &job->round_list;
         node = node->next) {
        const struct mst_round_name *name = MST_OF(node, struct mst_round_name, in_list);

        digest = mst_digest_slice(digest, mst_round_name_slice(name));
        digest = ADD(digest, name->serial, name->number);
        if (name->open) {
            digest = add_round(digest, name->open);
        }
        if (name->last) {
            digest = add_round(digest, name->last);
        }
    }
    return digest;
}

static uint64_t add_hosts(uint64_t digest, const struct mst_job *job)
{
    for (const struct mst_list *node = job->host_list.next; node != &job->host_list;
         node = node->next) {
        const struct mst_host *host = MST_OF(node, struct mst_host, in_list);

        digest = mst_digest_slice(digest, mst_host_name(host));
        digest = ADD(digest, host->serial, host->sessions, host->members, host->node_losses,
                     host->rank_losses);
    }
    return digest;
}

static uint64_t add_records(uint64_t digest, const struct mst_records *records)
{
    digest = ADD(digest, records->generation, records->begun_ns, records->total);
    for (uint32_t i = 0; i < records->count; i++) {
        const struct mst_record *record = &records->first[i];

        digest = ADD(digest, record->cause, (uint64_t)(int64_t)record->code, record->at_ns,
                     record->told_by, record->gone, record->index, record->rank,
                     record->incarnation, record->pid, record->agent, record->losses);
        digest = add_blob(add_blob(digest, record->host), record->text);
    }
    return digest;
}

static uint64_t add_job(uint64_t digest, const struct mst_job *job)
{
    const struct mst_member *member = mst_member_first(job);

    digest = mst_digest_slice(digest, mst_job_name(job));
    digest = ADD(digest, job->serial, job->size, job->min_size, job->max_size, job->size_multiple,
                 job->ordered, job->join_wait_ms, job->grow, job->generation, job->floor,
                 job->attention, job->view_revision, job->rank_count, job->alive, job->join_due,
                 job->join_alarm.at_ns, job->session_count, job->revision, job->key_count,
                 job->key_bytes, job->fault_count, job->finals, job->at_rest);
    digest = add_blob(digest, job->sealed_value);
    digest = add_records(add_records(digest, &job->last_records), &job->records);
    for (; member; member = mst_member_next(member)) {
        digest = add_member(digest, member);
    }
    digest = add_keyspace(add_keyspace(digest, &job->keys), &job->generation_keys);
    return add_rounds(add_hosts(digest, job), job);
}

static uint64_t add_past(uint64_t digest, const struct mst_past *past)
{
    digest = mst_digest_slice(digest, mst_slice_of(past->name, past->name_size));
    return ADD(digest, past->generation, past->incarnation);
}

uint64_t mst_core_digest(const struct mst_core *core)
{
    uint64_t digest = ADD(MST_DIGEST_INIT, core->now_ns, core->pulse_ns);
    const struct mst_session *session = mst_session_first(core);
    const struct mst_tree_node *node = mst_tree_first(&core->links);

    for (; node; node = mst_tree_next(node)) {
        digest = add_link(digest, MST_OF(node, struct mst_link, node));
    }
    for (; session; session = mst_session_next(session)) {
        digest = add_session(digest, session);
    }
    for (struct mst_list *job = core->job_list.next; job != &core->job_list; job = job->next) {
        digest = add_job(digest, mst_job_of_list(job));
    }
    for (struct mst_list *past = core->past_list.next; past != &core->past_list;
         past = past->next) {
        digest = add_past(digest, MST_CONTAINER(past, struct mst_past, in_list));
    }
    return digest;
}
