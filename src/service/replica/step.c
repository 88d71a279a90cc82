/* SPDX-License-Identifier: Apache-2.0 */
/* Drives the consensus: an event in, what follows from it out, and between the two the invariants
 * that libraft's package does not check. */
#include <string.h>

#include "service/replica/part.h"

static unsigned long long shown(uint64_t number)
{
    return number;
}

static void broken(struct mst_replica *replica, const char *what, uint64_t was, uint64_t is)
{
    MST_REPLICA_END(replica, MST_REPLICA_BROKEN, MUSTER_EINTERNAL,
                    "replica %llu, term %llu: %s: %llu, and now %llu", shown(replica->id),
                    shown(replica->term), what, shown(was), shown(is));
}

static void disk_failed(struct mst_replica *replica, muster_status status)
{
    const char *trouble = mst_replica_log_trouble(replica->log);

    MST_REPLICA_END(replica, MST_REPLICA_FAILED, status, "replica %llu: %s", shown(replica->id),
                    trouble                   ? trouble
                    : status == MUSTER_ENOMEM ? "out of memory"
                                              : "the disk is full");
}

bool mst_replica_configuration_of(struct mst_replica *replica, struct mst_slice bytes,
                                  struct raft_configuration *out)
{
    raft_configuration_init(out);
    if (!mst_replica_configuration_read(bytes, &replica->scratch)) {
        broken(replica, "a configuration in the log is damaged", bytes.size, 0);
        return false;
    }
    for (size_t i = 0; i < replica->scratch.count; i++) {
        const struct mst_replica_server *server = &replica->scratch.of[i];

        if (raft_configuration_add(out, server->id, server->address, (int)server->role) != 0) {
            raft_configuration_close(out);
            raft_configuration_init(out);
            MST_REPLICA_END(replica, MST_REPLICA_FAILED, MUSTER_ENOMEM,
                            "replica %llu: out of memory", shown(replica->id));
            return false;
        }
    }
    return true;
}

/* The term never falls, and a vote is given once in it. Written before anything else. */
static void take_term(struct mst_replica *replica)
{
    uint64_t term = raft_current_term(&replica->raft);
    uint64_t vote = raft_voted_for(&replica->raft);
    muster_status status;

    if (term == replica->term && vote == replica->vote) {
        return;
    }
    if (term < replica->term) {
        broken(replica, "the term fell", replica->term, term);
        return;
    }
    if (term == replica->term && replica->vote != 0) {
        broken(replica, "a second vote in one term", replica->vote, vote);
        return;
    }
    replica->elections += vote == replica->id;
    replica->term = term;
    replica->vote = vote;
    status = mst_replica_log_vote(replica->log, term, vote);
    if (status == MUSTER_OK) {
        status = mst_replica_log_write(replica->log, NULL);
    }
    if (status != MUSTER_OK) {
        disk_failed(replica, status);
    }
}

/* Nothing committed is replaced, no entry is left out, a configuration stands first. */
static bool entries_are_right(struct mst_replica *replica, const struct raft_update *update)
{
    uint64_t last = mst_replica_log_last(replica->log);

    if (update->entries.index <= replica->committed) {
        broken(replica, "an entry that is committed is replaced", replica->committed,
               update->entries.index);
    } else if (update->entries.index <= replica->applied) {
        broken(replica, "an entry that was applied is replaced", replica->applied,
               update->entries.index);
    } else if (update->entries.index > last + 1) {
        broken(replica, "entries are left out behind the last", last, update->entries.index);
    }
    for (unsigned i = 1; i < update->entries.n; i++) {
        if (update->entries.batch[i].type == RAFT_CHANGE) {
            broken(replica, "a configuration stands in the midst of a batch", update->entries.index,
                   update->entries.index + i);
        }
    }
    return !replica->ended;
}

static void take_entries(struct mst_replica *replica, const struct raft_update *update)
{
    unsigned count = update->entries.n;
    muster_status status;

    if (entries_are_right(replica, update)) {
        for (unsigned i = 0; i < count; i++) {
            const struct raft_entry *entry = &update->entries.batch[i];

            replica->batch[i] =
                (struct mst_replica_entry){.term = entry->term,
                                           .type = (enum mst_replica_entry_type)entry->type,
                                           .bytes = mst_slice_of(entry->buf.base, entry->buf.len)};
        }
        status = mst_replica_log_append(replica->log, update->entries.index, replica->batch, count);
        if (status != MUSTER_OK) {
            disk_failed(replica, status);
        }
    }
    raft_free(update->entries.batch[0].batch);
}

static bool message_of(const struct raft_message *raft, struct mst_replica_message *out)
{
    *out = (struct mst_replica_message){.type = (enum mst_replica_message_type)raft->type};
    switch (raft->type) {
    case RAFT_APPEND_ENTRIES:
        out->append.term = raft->append_entries.term;
        out->append.prev_index = raft->append_entries.prev_log_index;
        out->append.prev_term = raft->append_entries.prev_log_term;
        out->append.commit = raft->append_entries.leader_commit;
        out->append.count = raft->append_entries.n_entries;
        return true;
    case RAFT_APPEND_ENTRIES_RESULT:
        out->append_result.term = raft->append_entries_result.term;
        out->append_result.rejected = raft->append_entries_result.rejected;
        out->append_result.last_index = raft->append_entries_result.last_log_index;
        out->append_result.features = raft->append_entries_result.features;
        out->append_result.capacity = raft->append_entries_result.capacity;
        return true;
    case RAFT_REQUEST_VOTE:
        out->vote.term = raft->request_vote.term;
        out->vote.candidate = raft->request_vote.candidate_id;
        out->vote.last_index = raft->request_vote.last_log_index;
        out->vote.last_term = raft->request_vote.last_log_term;
        out->vote.disrupt = raft->request_vote.disrupt_leader;
        out->vote.pre = raft->request_vote.pre_vote;
        return true;
    case RAFT_REQUEST_VOTE_RESULT:
        out->vote_result.term = raft->request_vote_result.term;
        out->vote_result.granted = raft->request_vote_result.vote_granted;
        out->vote_result.pre = raft->request_vote_result.pre_vote;
        out->vote_result.features = raft->request_vote_result.features;
        out->vote_result.capacity = raft->request_vote_result.capacity;
        return true;
    case RAFT_INSTALL_SNAPSHOT: /* what it is about is in the log when it is taken */
        out->snapshot.term = raft->install_snapshot.term;
        return true;
    case RAFT_TIMEOUT_NOW:
        out->timeout_now.term = raft->timeout_now.term;
        out->timeout_now.last_index = raft->timeout_now.last_log_index;
        out->timeout_now.last_term = raft->timeout_now.last_log_term;
        return true;
    }
    return false;
}

static void take_messages(struct mst_replica *replica, const struct raft_update *update)
{
    for (unsigned i = 0; i < update->messages.n && !replica->ended; i++) {
        const struct raft_message *raft = &update->messages.batch[i];
        struct mst_replica_message message;

        if (message_of(raft, &message)) {
            mst_replica_post(replica, raft->server_id, raft->server_address, &message);
        }
    }
}

/* The members are copied when the consensus has other ones. */
static void take_servers(struct mst_replica *replica)
{
    const struct raft_configuration *conf = &replica->raft.configuration;

    if (replica->servers_committed != replica->raft.configuration_committed_index) {
        replica->servers_committed = replica->raft.configuration_committed_index;
        replica->servers_due = true;
    }
    replica->servers.count = 0;
    for (unsigned i = 0; i < conf->n && i < MST_REPLICA_SERVERS_MAX; i++) {
        struct mst_replica_server *server = &replica->servers.of[replica->servers.count++];

        server->id = conf->servers[i].id;
        server->role = (enum mst_replica_role)conf->servers[i].role;
        (void)mst_slice_copy(server->address, sizeof server->address,
                             mst_slice_text(conf->servers[i].address));
    }
}

static void take_leader(struct mst_replica *replica)
{
    const char *address = NULL;
    raft_id leader = 0;

    raft_leader(&replica->raft, &leader, &address);
    if (leader != replica->leader) {
        replica->leader = leader;
        (void)mst_slice_copy(replica->leader_address, sizeof replica->leader_address,
                             mst_slice_text(address));
        replica->follows_due = leader != replica->id;
    }
}

static void deposed(struct mst_replica *replica, uint64_t term_before)
{
    if (replica->term > term_before) {
        MST_REPLICA_END(replica, MST_REPLICA_DEPOSED, MUSTER_OK,
                        "replica %llu led term %llu, and term %llu has begun", shown(replica->id),
                        shown(term_before), shown(replica->term));
        return;
    }
    MST_REPLICA_END(replica, MST_REPLICA_DEPOSED, MUSTER_OK,
                    "replica %llu led term %llu, and has heard of no majority for %u ms, or is no "
                    "voter any more",
                    shown(replica->id), shown(replica->term), replica->config.election_ms);
}

static void take_state(struct mst_replica *replica, uint64_t term_before)
{
    unsigned short before = replica->state;

    replica->state = replica->raft.state;
    if (replica->state == before) {
        return;
    }
    if (before == RAFT_LEADER) {
        deposed(replica, term_before);
    } else if (replica->state == RAFT_LEADER) {
        if (replica->vote != replica->id) {
            broken(replica, "it leads a term in which it has not voted for itself", replica->id,
                   replica->vote);
            return;
        }
        replica->barrier_due = true;
    }
}

/* What is committed stays committed, and is here. */
static void take_commit(struct mst_replica *replica)
{
    uint64_t commit = raft_commit_index(&replica->raft);
    uint64_t last = mst_replica_log_last(replica->log);

    if (commit < replica->committed && replica->restore_due) { /* libraft keeps that to itself */
        MST_REPLICA_END(replica, MST_REPLICA_FAILED, MUSTER_ENOMEM,
                        "replica %llu: out of memory for the snapshot at %llu", shown(replica->id),
                        shown(replica->committed));
        return;
    }
    if (commit < replica->committed) {
        broken(replica, "the commit index fell", replica->committed, commit);
        return;
    }
    if (commit > last) {
        broken(replica, "more is committed than the log has", last, commit);
        return;
    }
    mst_replica_log_commit(replica->log, commit);
}

/* The order is that of promises: what is sent stands on what was written. */
static void take(struct mst_replica *replica, const struct raft_update *update)
{
    uint64_t term_before = replica->term;

    take_term(replica);
    if (update->flags & RAFT_UPDATE_ENTRIES) {
        if (replica->ended) {
            raft_free(update->entries.batch[0].batch);
        } else {
            take_entries(replica, update);
        }
    }
    replica->install |= (update->flags & RAFT_UPDATE_SNAPSHOT) != 0;
    if (!replica->ended && (update->flags & RAFT_UPDATE_MESSAGES)) {
        take_messages(replica, update);
    }
    if (!replica->ended) {
        take_state(replica, term_before);
    }
    if (!replica->ended) {
        take_commit(replica);
    }
    if (!replica->ended) {
        take_servers(replica);
        take_leader(replica);
    }
}

/* This replica, if a vote is asked of it and it is a standby; NULL: it is not. A configuration
 * counts once a server has it, so a candidate's may be newer than the one in this log, and of that
 * this replica may be a voter. Raft lets it answer: who votes is the candidate's to count. libraft
 * would refuse, and if the candidate is the only other one that knows of it, neither ever leads. */
static struct raft_server *standby_to_ask(struct mst_replica *replica,
                                          const struct raft_event *event)
{
    const struct raft_configuration *conf = &replica->raft.configuration;

    if (event->type != RAFT_RECEIVE || event->receive.message->type != RAFT_REQUEST_VOTE) {
        return NULL;
    }
    for (unsigned i = 0; i < conf->n; i++) {
        if (conf->servers[i].id == replica->id && conf->servers[i].role == RAFT_STANDBY) {
            return &conf->servers[i];
        }
    }
    return NULL;
}

static int raft_step_of(struct mst_replica *replica, struct raft_event *event,
                        struct raft_update *update)
{
    struct raft_server *standby = standby_to_ask(replica, event);
    uint64_t patience_ns = (uint64_t)replica->config.election_ms * NS_PER_MS;
    int code;

    if (standby) {
        standby->role = RAFT_VOTER;
        if (replica->now_ns - replica->led_ns >= patience_ns) { /* only voters forget a leader */
            event->receive.message->request_vote.disrupt_leader = true;
        }
    }
    code = raft_step(&replica->raft, event, update);
    if (standby) { /* a question changes no configuration */
        standby->role = RAFT_STANDBY;
    }
    return code;
}

static bool may_refuse(enum raft_event_type type)
{
    return type == RAFT_SUBMIT || type == RAFT_TRANSFER;
}

static int step_once(struct mst_replica *replica, struct raft_event *event)
{
    struct raft_update update = {0};
    int code;

    event->time = replica->now_ms;
    event->capacity = UINT16_MAX;
    code = raft_step_of(replica, event, &update);
    if (code == 0) {
        take(replica, &update);
    } else if (may_refuse(event->type)) {
        return code;
    } else if (code == RAFT_NOMEM) { /* half of it may be done: only the disk is certain */
        MST_REPLICA_END(replica, MST_REPLICA_FAILED, MUSTER_ENOMEM, "replica %llu: out of memory",
                        shown(replica->id));
    } else {
        MST_REPLICA_END(replica, MST_REPLICA_BROKEN, MUSTER_EINTERNAL,
                        "replica %llu, term %llu: libraft: %s; commit index %llu, last %llu",
                        shown(replica->id), shown(replica->term), raft_strerror(code),
                        shown(replica->committed), shown(mst_replica_log_last(replica->log)));
    }
    return code;
}

static int submit_once(struct mst_replica *replica, int type, void *bytes, size_t size)
{
    struct raft_entry entry = {.term = raft_current_term(&replica->raft),
                               .type = (enum raft_entry_type)type,
                               .buf = {.base = bytes, .len = size},
                               .batch = bytes};
    struct raft_event event = {.type = RAFT_SUBMIT, .submit = {.entries = &entry, .n = 1}};
    int code = step_once(replica, &event);

    if (code != 0) {
        raft_free(bytes);
    }
    return code;
}

/* A leader knows what is committed once an entry of its own term is. The consensus adds one only if
 * there was an entry of which it did not know. */
static void begin_to_lead(struct mst_replica *replica)
{
    uint64_t last = mst_replica_log_last(replica->log);
    void *bytes;

    replica->barrier_due = false;
    replica->own_index = last;
    if (mst_replica_log_term_at(replica->log, last) == replica->term) {
        return;
    }
    replica->own_index = last + 1;
    bytes = raft_calloc(1, 8);
    if (!bytes || submit_once(replica, RAFT_BARRIER, bytes, 8) != 0) {
        MST_REPLICA_END(replica, MST_REPLICA_FAILED, MUSTER_ENOMEM, "replica %llu: out of memory",
                        shown(replica->id));
    }
}

/* A committed configuration is in force; the consensus wants to know which. */
static void confirm(struct mst_replica *replica, uint64_t index)
{
    const struct mst_replica_entry *entry = mst_replica_log_at(replica->log, index);
    struct raft_event event = {.type = RAFT_CONFIGURATION, .configuration = {.index = index}};

    replica->committed = index;
    if (!entry) {
        broken(replica, "a committed entry is not in the log", index,
               mst_replica_log_last(replica->log));
        return;
    }
    if (entry->type == MST_REPLICA_CHANGE &&
        mst_replica_configuration_of(replica, entry->bytes, &event.configuration.conf)) {
        (void)step_once(replica, &event);
    }
}

/* What an event made due, in its order. */
static void follow_up(struct mst_replica *replica)
{
    while (!replica->ended) {
        if (replica->barrier_due) {
            begin_to_lead(replica);
        } else if (replica->committed < raft_commit_index(&replica->raft)) {
            confirm(replica, replica->committed + 1);
        } else {
            return;
        }
    }
}

int mst_replica_step(struct mst_replica *replica, struct raft_event *event)
{
    int code = step_once(replica, event);

    follow_up(replica);
    return code;
}

int mst_replica_step_submit(struct mst_replica *replica, int type, void *bytes, size_t size)
{
    int code = submit_once(replica, type, bytes, size);

    follow_up(replica);
    return code;
}

void mst_replica_persisted(struct mst_replica *replica)
{
    struct raft_event event = {.type = RAFT_PERSISTED_ENTRIES};

    event.persisted_entries.index = mst_replica_log_written(replica->log);
    if (event.persisted_entries.index > replica->raft.last_stored) {
        (void)mst_replica_step(replica, &event);
    }
}
