/* SPDX-License-Identifier: Apache-2.0 */
/* Every invariant of the core between two inputs. It visits the whole state: for tests and
 * simulations, not for every request of a service. */
#include "proto/command.h"
#include "service/core/generation.h"
#include "service/core/host.h"
#include "service/core/job.h"
#include "service/core/pin.h"
#include "service/core/round.h"
#include "service/core/seating.h"
#include "service/core/watch.h"

static uint64_t list_size(const struct mst_list *head)
{
    uint64_t size = 0;

    for (const struct mst_list *node = head->next; node != head; node = node->next) {
        MST_ASSERT(node->next->prev == node && node->prev->next == node);
        size++;
    }
    return size;
}

static void check_names(const struct mst_names *names)
{
    MST_ASSERT(list_size(&names->list) == names->tree.count);
}

/* ---- connections and sessions ---- */

static void check_waiting(const struct mst_waiter *waiter)
{
    MST_ASSERT(waiter->job && !waiter->job->dropped);
    MST_ASSERT(mst_command_waits(waiter->command));
    MST_ASSERT(!mst_list_linked(&waiter->todo.link));
    if (waiter->command == MST_GET || waiter->command == MST_WAIT) {
        MST_ASSERT(waiter->keys.pending > 0 && waiter->keys.pending <= waiter->keys.room);
    } else if (waiter->command == MST_WATCH) {
        MST_ASSERT(mst_list_linked(&waiter->watch.in_prefix) ==
                   ((waiter->watch.kinds & MST_WATCH_KEYS) != 0));
        MST_ASSERT((mst_list_linked(&waiter->watch.in_topic[MST_TOPIC_MEMBERS]) ||
                    mst_index_linked(&waiter->watch.in_node)) ==
                   ((waiter->watch.kinds & MST_WATCH_MEMBERS) != 0));
    } else if (waiter->command == MST_ROUND) {
        MST_ASSERT(waiter->round && !waiter->round->done);
        MST_ASSERT(mst_list_linked(&waiter->in_round));
    } else {
        MST_ASSERT(waiter->command == MST_JOIN);
        MST_ASSERT(waiter->join.session && waiter->join.session->join == waiter);
    }
}

static bool has_list(const struct mst_waiter *waiter)
{
    return (waiter->command == MST_GET || waiter->command == MST_WAIT) && waiter->keys.waits;
}

static bool costs_memory(const struct mst_waiter *waiter)
{
    return waiter->command == MST_GET || waiter->command == MST_WAIT ||
           waiter->command == MST_WATCH;
}

static void check_link(const struct mst_core *core, const struct mst_link *link)
{
    uint32_t count = 0;
    uint64_t waiting = 0, waiting_bytes = 0, wide = 0;

    if (link->session) {
        MST_ASSERT(link->session->link == link && link->session->core == core);
        MST_ASSERT(link->end == MST_LINK_NEVER && !link->job);
    }
    MST_EACH(waiter, &link->waiters, const struct mst_waiter, in_link) {
        MST_ASSERT(waiter->link == link && waiter->stage != MST_ADMITTED);
        if (waiter->stage == MST_WAITING) {
            MST_ASSERT(link->session && waiter->job == link->session->job);
            check_waiting(waiter);
            MST_ASSERT(mst_waiter_find(link, waiter->id) == waiter);
            waiting_bytes += costs_memory(waiter) ? waiter->waiting_bytes : 0;
            waiting++;
        } else {
            MST_ASSERT(!mst_index_linked(&waiter->in_waiting));
            MST_ASSERT(mst_list_linked(&waiter->todo.link) && !has_list(waiter));
        }
        wide += waiter->command == MST_WAIT ? waiter->keys.room : 0;
        count++;
    }
    MST_ASSERT(count == link->waiter_count && wide == link->wide);
    MST_ASSERT(waiting == link->waiting.count && waiting_bytes == link->waiting_bytes);
}

/* Shares are rounded down, each by less than a byte. */
static void check_pinned(const struct mst_core *core)
{
    const struct mst_link *link = mst_link_first(core);
    uint64_t shares = core->current ? mst_pin_share(core->current) : 0;
    uint64_t holders = 1;
    uint64_t waiting_bytes = 0;

    for (; link; link = mst_link_next(link)) {
        waiting_bytes += link->waiting_bytes;
        holders += link->waiter_count;
        MST_EACH(waiter, &link->waiters, const struct mst_waiter, in_link) {
            shares += mst_pin_share(waiter);
        }
    }
    MST_ASSERT(waiting_bytes == core->waiting_bytes);
    MST_ASSERT(shares <= core->pinned_bytes && core->pinned_bytes < shares + holders);
}

static void check_session(const struct mst_core *core, const struct mst_session *session)
{
    const struct mst_member *member = session->member;

    MST_ASSERT(!session->job->dropped);
    MST_ASSERT(!session->link || session->link->session == session);
    MST_ASSERT(mst_alarm_is_set(&session->alarm));
    /* Later than its lease only if that has ended and its node decides. */
    MST_ASSERT(session->alarm.at_ns <= session->lease_ns || session->lease_ns <= core->now_ns);
    MST_ASSERT(mst_index_linked(&session->in_node) == (session->agent != MST_NODE_NONE));
    MST_ASSERT(session->heard_ns <= core->now_ns);
    MST_ASSERT((member == NULL) == (session->role == MST_ROLE_OBSERVER));
    if (member) {
        MST_ASSERT(member->job == session->job && member->role == session->role);
        MST_ASSERT((session->claiming ? member->claimant : member->session) == session);
    }
    if (session->join) {
        MST_ASSERT(session->join->stage == MST_WAITING && session->join->link == session->link);
    }
    for (uint32_t i = 0; i < session->outcome_room; i++) {
        MST_ASSERT(session->outcomes[i].id == 0 ||
                   session->outcomes[i].id % session->outcome_room == i);
    }
}

/* ---- hosts ---- */

static void check_hosts(const struct mst_job *job)
{
    uint64_t members = 0;
    uint64_t sessions = 0;

    check_names(&job->hosts);
    MST_NAMED_EACH(const struct mst_host, host, &job->hosts)
    {
        MST_ASSERT(host->job == job && host->serial <= job->host_serial);
        MST_ASSERT(host->sessions > 0 || host->node_losses > 0 || host->rank_losses > 0);
        members += host->members;
        sessions += host->sessions;
    }
    MST_EACH(session, &job->sessions, const struct mst_session, in_job) {
        sessions -= session->place != NULL;
        members -= session->place != NULL && !session->claiming;
    }
    MST_ASSERT(members == 0 && sessions == 0);
}

/* ---- members and the generation ---- */

static void check_member(const struct mst_job *job, const struct mst_member *member)
{
    const struct mst_seat *seat = &member->seat;
    bool ready = mst_list_linked(&member->in_ready);

    MST_ASSERT(member->job == job);
    MST_ASSERT((member->end != 0) == (member->session == NULL));
    MST_ASSERT(member->incarnation > 0 && member->revision <= job->revision);
    MST_ASSERT(member->owes_touch || mst_index_linked(&member->node_change_node) ==
                                         (mst_member_node(member) != MST_NODE_NONE));
    MST_ASSERT(!member->claimant || (member->session && member->claimant->claiming));
    MST_ASSERT(!member->session || !member->session->claiming);
    MST_ASSERT(seat->incarnation <= member->incarnation);
    MST_ASSERT((seat->fault_revision != 0) == mst_index_linked(&seat->fault_node));
    if (seat->incarnation != 0) {
        MST_ASSERT(member->role == MST_ROLE_RANK && seat->rank < job->rank_count);
        MST_ASSERT(job->ranks[seat->rank] == member);
        /* A rank that is not gone from its seat holds the place. */
        MST_ASSERT(seat->gone || (seat->incarnation == member->incarnation && member->session));
    }
    MST_ASSERT(!member->chosen);
    MST_ASSERT(!member->spare || (member->session && !mst_member_seated(member)));
    if (ready) {
        MST_ASSERT(member->session && member->session->join && !mst_member_seated(member));
    } else if (member->session && member->session->join) {
        MST_ASSERT(false && "a holder that joins is ready");
    }
    if (member->waits_at) {
        MST_ASSERT(!member->waits_at->done && member->waits_at->job == job);
    }
}

struct member_counts {
    uint32_t ranks, living, seated, alive, ready;
};

static struct member_counts check_members(const struct mst_job *job)
{
    struct member_counts counts = {0};
    const struct mst_member *member = mst_member_first(job);

    for (; member; member = mst_member_next(member)) {
        check_member(job, member);
        counts.ranks += member->role == MST_ROLE_RANK;
        counts.living += member->role == MST_ROLE_RANK && member->session;
        counts.seated += member->seat.incarnation != 0;
        counts.alive += member->seat.incarnation != 0 && !member->seat.gone;
        counts.ready += mst_list_linked(&member->in_ready);
    }
    return counts;
}

static void check_records_of(const struct mst_job *job, const struct mst_records *records)
{
    MST_ASSERT(mst_records_sane(records, job->core->now_ns));
    for (uint32_t i = 0; i < records->count; i++) {
        const struct mst_who *who = &records->first[i].who;

        MST_ASSERT(who->cause != MST_CAUSE_NONE);
        MST_ASSERT((who->incarnation != 0) == (who->index != MST_INDEX_ANY));
    }
}

static void check_records(const struct mst_job *job)
{
    const struct mst_records *last = &job->last_records;

    check_records_of(job, last);
    check_records_of(job, &job->records);
    MST_ASSERT(last->generation < job->records.generation || last->generation == 0);
    MST_ASSERT(last->total == 0 || job->fault_count > 0);
    MST_ASSERT(last->count > 0 || !job->last_is_cause);
    /* A seat with a fault or a loss has its record, maybe one for each. */
    MST_ASSERT(job->records.total >= job->faults.count);
}

static void check_generation(const struct mst_job *job)
{
    struct member_counts counts = check_members(job);
    bool too_few = mst_seating_fit(job, job->ready_count) < mst_generation_min_size(job);

    MST_ASSERT(counts.ranks == job->rank_places && counts.ranks <= job->rank_room);
    MST_ASSERT(counts.living == job->living);
    MST_ASSERT(counts.seated == job->rank_count);
    MST_ASSERT(counts.alive == job->alive);
    MST_ASSERT(job->rank_count == 0 || job->records.generation == job->generation);
    MST_ASSERT(counts.ready == job->ready_count && list_size(&job->ready) == counts.ready);
    MST_ASSERT(job->generation > 0 || job->rank_count == 0);
    MST_ASSERT(job->view_revision <= job->revision);
    for (uint32_t rank = 0; rank < job->rank_count; rank++) {
        MST_ASSERT(job->ranks[rank]->seat.rank == rank);
        MST_ASSERT(rank == 0 || job->ordered ||
                   job->ranks[rank]->index > job->ranks[rank - 1]->index);
    }
    check_records(job);
    /* Everything that was due is done. */
    if (job->alive == 0 && job->size != 0) {
        MST_ASSERT(job->ready_count < job->size || too_few);
    }
    if (job->join_due) {
        MST_ASSERT(too_few);
    }
    MST_ASSERT(!job->ordered || job->rank_count > 0);
    MST_ASSERT(!job->sealed_value || job->generation > 0);
    MST_ASSERT(job->finals == 0 || job->generation > 0);
    if (mst_alarm_is_set(&job->join_alarm)) {
        MST_ASSERT(job->alive == 0 && job->ready_count > 0 && !job->join_due);
    }
}

/* ---- keys ---- */

static void check_key(const struct mst_job *job, const struct mst_keyspace *space,
                      const struct mst_key *key)
{
    bool tombstone = !key->value && key->revision != 0;

    MST_ASSERT(key->space == space && key->staged == 0 && key->revision <= job->revision);
    MST_ASSERT(key->since_ns <= job->core->kept_ns && job->core->kept_ns <= job->core->now_ns);
    MST_ASSERT(mst_tree_linked(&key->change_node) + mst_list_linked(&key->in_latest) ==
               (key->revision != 0));
    MST_ASSERT(mst_list_linked(&key->in_tombstones) == tombstone);
    MST_ASSERT((key->owner != NULL) == mst_list_linked(&key->in_owner));
    MST_ASSERT(!key->owner || key->value);
    /* Every record has a reason, and no request waits for an existing key. */
    MST_ASSERT(key->revision != 0 || !mst_list_empty(&key->waits));
    MST_ASSERT(!key->value || mst_list_empty(&key->waits));
    MST_EACH(wait, &key->waits, const struct mst_key_wait, in_key) {
        MST_ASSERT(wait->key == key && wait->waiter->stage == MST_WAITING);
        MST_ASSERT(wait->waiter->job == job);
    }
}

static void check_prefixes(const struct mst_keyspace *space)
{
    const struct mst_prefix *prefix = mst_watch_first_prefix(space);

    for (; prefix; prefix = mst_watch_next_prefix(prefix)) {
        MST_ASSERT(prefix->space == space && prefix->references > 0);
        MST_ASSERT(prefix->watcher_count > 0);
        MST_ASSERT(prefix->watcher_count == list_size(&prefix->watchers));
    }
}

static void check_changes(const struct mst_keyspace *space)
{
    const struct mst_key *key = mst_key_changed(space, 0);
    const struct mst_key *last = NULL;
    size_t count = 0;

    for (; key; key = mst_key_changed_next(key)) {
        MST_ASSERT(!last || key->revision > last->revision);
        last = key;
        count++;
    }
    MST_ASSERT(count == mst_keyspace_change_count(space));
    MST_ASSERT(!last || mst_key_changed(space, last->revision) == last);
}

struct key_counts {
    uint64_t keys, bytes, awaited, awaited_bytes;
};

static void check_keyspace(const struct mst_job *job, const struct mst_keyspace *space,
                           struct key_counts *counts)
{
    const struct mst_key *key = mst_key_after(space, mst_slice_of(NULL, 0));
    uint64_t live = 0;
    uint64_t tombstones = 0;

    for (; key; key = mst_key_next(key)) {
        bool tombstone = !key->value && key->revision != 0;

        check_key(job, space, key);
        MST_ASSERT(mst_key_find(space, mst_key_name(key)) == key);
        live += key->value != NULL;
        tombstones += tombstone;
        if (key->value) {
            counts->keys++;
            counts->bytes += key->name_size + key->value->size;
        } else if (!tombstone) {
            counts->awaited++;
            counts->awaited_bytes += key->name_size;
        }
    }
    MST_ASSERT(space->names.count == space->table.count);
    MST_ASSERT(live == space->live && tombstones == space->tombstone_count);
    MST_ASSERT(mst_keyspace_change_count(space) == live + tombstones);
    check_changes(space);
    MST_ASSERT(tombstones <= job->core->config.limits.tombstones_max);
    MST_ASSERT(space->forgotten <= job->revision && !space->dropping);
    check_prefixes(space);
}

static void check_keys(const struct mst_job *job)
{
    struct key_counts counts = {0};

    check_keyspace(job, &job->keys, &counts);
    check_keyspace(job, &job->generation_keys, &counts);
    MST_ASSERT(counts.keys == job->key_count && counts.bytes == job->key_bytes);
    MST_ASSERT(counts.awaited == job->awaited_count && counts.awaited_bytes == job->awaited_bytes);
}

/* ---- rounds ---- */

struct part_counts {
    uint32_t arrived, lost, settled;
};

static struct part_counts count_parts(const struct mst_round *round)
{
    struct part_counts counts = {0};

    for (uint32_t i = 0; i < round->part_count; i++) {
        const struct mst_round_part *part = &round->parts[i];

        counts.arrived += part->arrived;
        counts.lost += part->lost;
        counts.settled += part->arrived || part->lost;
        MST_ASSERT(!part->outside || (!part->arrived && !part->lost));
        MST_ASSERT(i == 0 || !round->wanted || part->index > round->parts[i - 1].index);
        MST_ASSERT(round->wanted || part->member == round->job->ranks[i]);
        /* A participant whose seat is gone was counted as lost. */
        MST_ASSERT(part->outside || round->done || part->lost == part->member->seat.gone);
    }
    return counts;
}

static void check_kept_bytes(const struct mst_round *round)
{
    size_t bytes = 0;

    for (uint32_t i = 0; i < round->part_count; i++) {
        bytes += mst_blob_slice(round->parts[i].data).size;
    }
    MST_ASSERT(bytes == round->kept_bytes);
}

static void check_open_round(const struct mst_job *job, const struct mst_round *round)
{
    struct part_counts counts = count_parts(round);

    MST_ASSERT(round->job == job && !round->done && round->references > 0);
    MST_ASSERT(counts.arrived == round->arrived && counts.lost == round->lost);
    MST_ASSERT(counts.settled == round->settled);
    MST_ASSERT(round->arrived > 0);
    MST_ASSERT(mst_seating_order_whole(round));
    MST_ASSERT(!round->final || !round->seal);
    /* Nothing stays open that could be closed. */
    MST_ASSERT(round->settled < round->part_count ||
               (round->seal &&
                (mst_generation_waits_for_more(round) || mst_alarm_is_set(&round->replace_alarm))));
    MST_ASSERT(!mst_alarm_is_set(&round->replace_alarm) ||
               (round->settled == round->part_count && mst_generation_waits_for_places(round)));
    MST_ASSERT(round->on_loss == MST_PROCEED || round->lost == 0);
    MST_ASSERT(!round->seal || job->seal == round);
    MST_ASSERT(round->references >= 1 + list_size(&round->waiters)); /* and replies being sent */
}

static void check_owed(const struct mst_round *last)
{
    uint32_t owed = 0;

    for (uint32_t i = 0; i < last->part_count; i++) {
        owed += !last->parts[i].taken;
    }
    MST_ASSERT(owed == last->owed);
}

static void check_rounds(const struct mst_job *job)
{
    bool sealing = false;

    check_names(&job->round_names);
    MST_NAMED_EACH(const struct mst_round_name, name, &job->round_names)
    {
        MST_ASSERT(name->open || name->last);
        if (name->open) {
            MST_ASSERT(name->open->number == name->number && name->open->name == name);
            check_open_round(job, name->open);
            check_kept_bytes(name->open);
            sealing = sealing || name->open->seal;
        }
        if (name->last) {
            MST_ASSERT(name->last->done && name->last->number + 1 == name->number);
            MST_ASSERT(mst_list_empty(&name->last->waiters));
            check_owed(name->last);
            check_kept_bytes(name->last);
        }
    }
    MST_ASSERT(sealing == (job->seal != NULL));
}

/* ---- all of it ---- */

static void check_job(const struct mst_core *core, const struct mst_job *job)
{
    uint32_t count = 0;

    MST_ASSERT(job->core == core && !job->dropped);
    MST_EACH(session, &job->sessions, const struct mst_session, in_job) {
        MST_ASSERT(session->job == job);
        count++;
    }
    MST_ASSERT(job->references >= count);
    /* It has a reason to live. */
    MST_ASSERT(count > 0 || job->keys.live > 0);
    MST_ASSERT(job->past && !mst_named_added(&job->past->named));
    check_hosts(job);
    check_generation(job);
    check_keys(job);
    check_rounds(job);
}

void mst_core_check(const struct mst_core *core)
{
    const struct mst_session *session = mst_session_first(core);
    const struct mst_link *link = mst_link_first(core);
    uint64_t sessions = 0;

    MST_ASSERT(mst_list_empty(&core->dirty));
    for (; link; link = mst_link_next(link)) {
        check_link(core, link);
        MST_ASSERT(mst_link_find(core, link->conn) == link);
    }
    MST_ASSERT(core->links.count == core->link_table.count);
    check_pinned(core);
    for (; session; session = mst_session_next(session)) {
        check_session(core, session);
        sessions++;
    }
    MST_ASSERT(sessions == core->sessions.count);
    MST_ASSERT((sessions == 0) == (core->pulse_ns == NEVER));
    check_names(&core->jobs);
    check_names(&core->pasts);
    MST_ASSERT(core->pasts.tree.count <= core->config.limits.jobs_max);
    MST_NAMED_EACH(const struct mst_job, job, &core->jobs)
    {
        check_job(core, job);
    }
}
