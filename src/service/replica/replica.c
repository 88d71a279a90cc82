/* SPDX-License-Identifier: Apache-2.0 */
#include "service/replica/replica.h"

#include <string.h>

#include "base/digest.h"
#include "base/fail.h"
#include "service/replica/part.h"

enum {
    ELECTION_MS_MIN = 200,
    ELECTION_MS_MAX = 2000,
    ELECTIONS_IN_LEASE = 20,
    HEARTBEATS_IN_ELECTION = 5,
    TRAILING = 4096,
    TRAILING_BYTES = 64 << 20,
    ENTRY_BYTES = 1 << 20,
    FIRST_TERM = 1,
    BARRIER_BYTES = 8
};

uint32_t mst_replica_election_ms(uint64_t lease_ns)
{
    uint64_t ms = lease_ns / NS_PER_MS / ELECTIONS_IN_LEASE;

    ms = ms < ELECTION_MS_MIN ? ELECTION_MS_MIN : ms;
    return (uint32_t)(ms > ELECTION_MS_MAX ? ELECTION_MS_MAX : ms);
}

/* ---- life ---- */

static muster_status config_is_right(const struct mst_replica_config *config,
                                     struct muster_error *err)
{
    size_t size = config->address ? strlen(config->address) : 0;

    if (size == 0 || size >= MST_REPLICA_ADDRESS_ROOM) {
        return mst_fail(err, MUSTER_EINVAL, 0, "the address of a replica has 1 to %u bytes",
                        MST_REPLICA_ADDRESS_ROOM - 1);
    }
    if (config->election_ms < 2 * HEARTBEATS_IN_ELECTION) {
        return mst_fail(err, MUSTER_EINVAL, 0, "an election timeout of %u ms is too short",
                        config->election_ms);
    }
    if (config->found &&
        (config->found->count == 0 || config->found->count > MST_REPLICA_SERVERS_MAX)) {
        return mst_fail(err, MUSTER_EINVAL, 0, "a group of %zu replicas cannot be founded",
                        config->found->count);
    }
    return MUSTER_OK;
}

static bool consensus_init(struct mst_replica *replica)
{
    bool done;

    raft_heap_set(&replica->heap);
    done = raft_init(&replica->raft, NULL, NULL, replica->id, replica->address) == 0;
    if (done) {
        replica->raft.tracer = NULL; /* or it writes to stderr */
        raft_seed(&replica->raft, (unsigned)(replica->config.seed ^ replica->config.seed >> 32));
        raft_set_election_timeout(&replica->raft, replica->config.election_ms);
        raft_set_heartbeat_timeout(&replica->raft,
                                   replica->config.election_ms / HEARTBEATS_IN_ELECTION);
        raft_set_pre_vote(&replica->raft, true);
        raft_set_max_inflight_entries(&replica->raft, MST_REPLICA_INFLIGHT);
    }
    raft_heap_set_default();
    return done;
}

muster_status mst_replica_new(struct mst_replica **out, struct mst_replica_log *log,
                              const struct mst_replica_config *config, const struct mst_mem *mem,
                              struct muster_error *err)
{
    muster_status status = config_is_right(config, err);
    struct mst_replica *replica;

    if (status != MUSTER_OK) {
        return status;
    }
    replica = mst_mem_zalloc(mem, sizeof *replica);
    if (!replica) {
        return mst_fail(err, MUSTER_ENOMEM, 0, "a replica: out of memory");
    }
    replica->mem = *mem;
    replica->log = log;
    replica->config = *config;
    replica->config.trailing = config->trailing == 0 ? TRAILING : config->trailing;
    replica->config.trailing_bytes =
        config->trailing_bytes == 0 ? TRAILING_BYTES : config->trailing_bytes;
    replica->config.entry_bytes = config->entry_bytes == 0 ? ENTRY_BYTES : config->entry_bytes;
    replica->id = mst_replica_log_id(log);
    (void)mst_slice_copy(replica->address, sizeof replica->address,
                         mst_slice_text(config->address));
    replica->state = RAFT_FOLLOWER;
    mst_replica_heap_init(replica);
    mst_buffer_init(&replica->buffer, &replica->mem, MST_REPLICA_MESSAGE_MAX);
    replica->piece = mem->alloc(mem->ctx, MST_REPLICA_PIECE_MAX);
    if (config->found) {
        replica->scratch = *config->found;
    }
    if (!replica->piece || !consensus_init(replica)) {
        mst_replica_free(replica);
        return mst_fail(err, MUSTER_ENOMEM, 0, "a replica: out of memory");
    }
    *out = replica;
    return MUSTER_OK;
}

void mst_replica_free(struct mst_replica *replica)
{
    struct mst_mem mem;

    if (!replica) {
        return;
    }
    if (replica->receiving.saving) {
        mst_replica_log_drop(replica->log, replica->receiving.saving);
    }
    mem = replica->mem;
    mst_replica_heap_fini(replica);
    mst_buffer_fini(&replica->buffer);
    mst_mem_release(&mem, replica->piece);
    mst_mem_release(&mem, replica);
}

bool mst_replica_enter(struct mst_replica *replica, uint64_t now_ns)
{
    MST_ASSERT(now_ns >= replica->now_ns && !replica->draining);
    replica->now_ns = now_ns;
    replica->now_ms = now_ns / NS_PER_MS;
    if (replica->ended || !replica->started) {
        return false;
    }
    raft_heap_set(&replica->heap);
    return true;
}

void mst_replica_leave(struct mst_replica *replica)
{
    (void)replica;
    raft_heap_set_default();
}

/* ---- the start ---- */

static void fail(struct mst_replica *replica, muster_status status, const char *what)
{
    const char *trouble = mst_replica_log_trouble(replica->log);

    MST_REPLICA_END(replica, MST_REPLICA_FAILED, status, "replica %llu: %s: %s",
                    (unsigned long long)replica->id, what,
                    trouble                     ? trouble
                    : status == MUSTER_ENOMEM   ? "out of memory"
                    : status == MUSTER_ENOSPACE ? "the disk is full"
                                                : "the disk failed");
}

/* A founder that was killed while it founded has no entry, but a file. A term is of a group that
 * exists, of which this replica has no entry yet. */
static bool has_promised_nothing(const struct mst_replica_log *log)
{
    return mst_replica_log_last(log) == 0 && mst_replica_log_term(log) == 0;
}

/* The same first entry on each of its members. */
static void found(struct mst_replica *replica)
{
    struct mst_replica_entry entry = {.term = FIRST_TERM, .type = MST_REPLICA_CHANGE};
    muster_status status;

    mst_replica_configuration_write(replica->configuration, &replica->scratch);
    entry.bytes =
        mst_slice_of(replica->configuration, mst_replica_configuration_bytes(&replica->scratch));
    status = mst_replica_log_vote(replica->log, FIRST_TERM, 0);
    if (status == MUSTER_OK) {
        status = mst_replica_log_append(replica->log, 1, &entry, 1);
    }
    if (status == MUSTER_OK) {
        status = mst_replica_log_write(replica->log, NULL);
    }
    if (status != MUSTER_OK) {
        fail(replica, status, "the group cannot be founded");
    }
}

/* The newest configuration in the log; false: there is none. */
static bool last_configuration(struct mst_replica *replica)
{
    const struct mst_replica_snapshot *about = mst_replica_log_snapshot(replica->log);
    uint64_t first = mst_replica_log_first(replica->log);

    for (uint64_t i = mst_replica_log_last(replica->log); i >= first && i > 0; i--) {
        const struct mst_replica_entry *entry = mst_replica_log_at(replica->log, i);

        if (entry && entry->type == MST_REPLICA_CHANGE) {
            return mst_replica_configuration_read(entry->bytes, &replica->scratch);
        }
    }
    return about->index != 0 &&
           mst_replica_configuration_read(about->configuration, &replica->scratch);
}

/* The only voter leads without an election, and libraft lets it lead the term in which it was
 * before. What it sent then and did not write is not in its log, but may be in a standby's: another
 * entry of the same index and term would be taken for that one. So it begins a term. */
static void begin_term_alone(struct mst_replica *replica)
{
    const struct mst_replica_server *self;
    muster_status status;

    if (!last_configuration(replica)) {
        return;
    }
    self = mst_replica_servers_find(&replica->scratch, replica->id);
    if (!self || self->role != MST_REPLICA_VOTER ||
        mst_replica_servers_voters(&replica->scratch) != 1) {
        return;
    }
    status =
        mst_replica_log_vote(replica->log, mst_replica_log_term(replica->log) + 1, replica->id);
    if (status == MUSTER_OK) {
        status = mst_replica_log_write(replica->log, NULL);
    }
    if (status != MUSTER_OK) {
        fail(replica, status, "no term can be begun");
    }
}

/* The consensus reads the bytes of a configuration only, keeps none, and frees nothing but `batch`,
 * with the first entry that has it. So the bytes stay where they are. */
static struct raft_entry entry_of(const struct mst_replica_entry *entry, void *batch)
{
    struct raft_entry out = {.term = entry->term,
                             .type = (enum raft_entry_type)entry->type,
                             .buf.len = entry->bytes.size,
                             .batch = batch};

    memcpy(&out.buf.base, &entry->bytes.data, sizeof out.buf.base); /* it is not const there */
    return out;
}

/* If the consensus fails, it gives the array back itself. */
static struct raft_entry *entries_of(struct mst_replica *replica, uint64_t first, size_t count)
{
    struct raft_entry *entries = raft_calloc(count + 1, sizeof *entries);
    void *batch = raft_malloc(1);

    if (!entries || !batch) {
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        const struct mst_replica_entry *entry = mst_replica_log_at(replica->log, first + i);

        MST_ASSERT(entry);
        entries[i] = entry_of(entry, batch);
    }
    return entries;
}

static bool damaged(struct mst_replica *replica, uint64_t first, uint64_t last)
{
    for (uint64_t i = first; i <= last; i++) {
        const struct mst_replica_entry *entry = mst_replica_log_at(replica->log, i);

        if (!entry || (entry->type == MST_REPLICA_CHANGE &&
                       !mst_replica_configuration_read(entry->bytes, &replica->scratch))) {
            return true;
        }
    }
    return false;
}

static void start(struct mst_replica *replica)
{
    const struct mst_replica_snapshot *about = mst_replica_log_snapshot(replica->log);
    struct raft_event event = {.type = RAFT_START};
    struct raft_snapshot_metadata metadata = {.index = about->index, .term = about->term};
    uint64_t first = mst_replica_log_first(replica->log);
    uint64_t last = mst_replica_log_last(replica->log);

    if (damaged(replica, first, last)) {
        MST_REPLICA_END(replica, MST_REPLICA_BROKEN, MUSTER_EINTERNAL,
                        "replica %llu: a configuration in its log is damaged",
                        (unsigned long long)replica->id);
        return;
    }
    replica->term = mst_replica_log_term(replica->log);
    replica->vote = mst_replica_log_vote_of(replica->log);
    event.start.term = replica->term;
    event.start.voted_for = replica->vote;
    event.start.start_index = first;
    event.start.n_entries = (unsigned)(last + 1 - first);
    event.start.entries = entries_of(replica, first, event.start.n_entries);
    if (!event.start.entries) {
        fail(replica, MUSTER_ENOMEM, "its log cannot be read");
        return;
    }
    if (about->index != 0) {
        metadata.configuration_index = about->configuration_index;
        if (!mst_replica_configuration_of(replica, about->configuration, &metadata.configuration)) {
            return;
        }
        event.start.metadata = &metadata;
        replica->committed = replica->applied = about->index;
        replica->restore_due = true;
    }
    if (mst_replica_step(replica, &event) == 0) {
        raft_free(event.start.entries[0].batch);
        raft_free(event.start.entries);
    }
}

void mst_replica_start(struct mst_replica *replica, uint64_t now_ns)
{
    MST_ASSERT(!replica->started);
    replica->started = true;
    if (!mst_replica_enter(replica, now_ns)) {
        return;
    }
    if (replica->config.found && has_promised_nothing(replica->log)) {
        found(replica);
    }
    replica->config.found = NULL; /* it was the caller's */
    if (!replica->ended) {
        begin_term_alone(replica);
    }
    if (!replica->ended) {
        start(replica);
    }
    mst_replica_leave(replica);
}

/* ---- messages ---- */

static struct mst_replica_peer *peer_of(struct mst_replica *replica, uint64_t id)
{
    struct mst_replica_peer *oldest = &replica->peers[0];

    for (size_t i = 0; i < MST_REPLICA_SERVERS_MAX; i++) {
        if (replica->peers[i].id == id) {
            return &replica->peers[i];
        }
        if (replica->peers[i].heard_ns < oldest->heard_ns) {
            oldest = &replica->peers[i];
        }
    }
    *oldest = (struct mst_replica_peer){.id = id};
    return oldest;
}

/* One AppendEntries, of entries of which only the first may be a configuration. False: what is
 * behind it must not be received. */
static bool receive_batch(struct mst_replica *replica, struct raft_message *raft,
                          const struct mst_replica_entry *entries, unsigned count)
{
    struct raft_event event = {.type = RAFT_RECEIVE, .receive = {.message = raft}};
    void *batch = count > 0 ? raft_malloc(1) : NULL;

    if (count > 0 && !batch) {
        return false; /* as if it were lost */
    }
    for (unsigned i = 0; i < count; i++) {
        replica->entries[i] = entry_of(&entries[i], batch);
    }
    raft->append_entries.entries = count > 0 ? replica->entries : NULL;
    raft->append_entries.n_entries = count;
    (void)mst_replica_step(replica, &event);
    raft->append_entries.prev_log_index += count;
    if (count > 0) {
        raft->append_entries.prev_log_term = entries[count - 1].term;
    }
    return !replica->ended;
}

/* The answer to a leader of an older term. libraft leaves a field of its own one as it was in
 * memory, and the receiver may lead the new term by then. It may think no more of this log than it
 * did: an answer that rejects entry 0 is a success up to its last one. */
static void refuse_stale(struct mst_replica *replica, const struct raft_message *raft,
                         const struct mst_replica_message *message)
{
    uint64_t prev = message->append.prev_index, last = mst_replica_log_last(replica->log);
    uint64_t before = prev > 0 ? prev - 1 : 0;
    const struct mst_replica_message result = {
        .type = MST_REPLICA_APPEND_RESULT,
        .append_result = {.term = replica->term,
                          .rejected = prev,
                          .last_index = last < before ? last : before,
                          .features = 1,
                          .capacity = UINT16_MAX}};

    mst_replica_post(replica, raft->server_id, raft->server_address, &result);
}

static bool differs(const struct mst_replica *replica, uint64_t index, uint64_t term)
{
    uint64_t own = mst_replica_log_term_at(replica->log, index);

    return own != 0 && own != term;
}

/* What is committed here is in the log of every later leader, so the message is taken from there
 * on. Of an older one libraft would let its commit index fall to the last entry, and would take for
 * new what this log has dropped behind a snapshot. One that differs is left to it: it refuses to go
 * on. */
static unsigned skip_committed(const struct mst_replica *replica,
                               struct raft_append_entries *append, struct mst_slice *entries)
{
    struct mst_replica_entry entry;
    unsigned skipped = 0;

    while (append->prev_log_index < replica->committed &&
           !differs(replica, append->prev_log_index, append->prev_log_term)) {
        if (mst_replica_entry_next(entries, &entry)) {
            append->prev_log_index++;
            append->prev_log_term = entry.term;
            skipped++;
        } else {
            append->prev_log_index = replica->committed;
            append->prev_log_term = mst_replica_log_term_at(replica->log, replica->committed);
        }
    }
    return skipped;
}

/* libraft takes a configuration in the midst of a batch for the first entry of that: cut in front
 * of each. */
static void receive_append(struct mst_replica *replica, struct raft_message *raft,
                           const struct mst_replica_message *message)
{
    struct mst_slice rest = message->append.entries;
    unsigned begin = 0, count = 0, left;

    if (message->append.term < replica->term) {
        refuse_stale(replica, raft, message);
        return;
    }
    raft->append_entries.term = message->append.term;
    raft->append_entries.prev_log_index = message->append.prev_index;
    raft->append_entries.prev_log_term = message->append.prev_term;
    raft->append_entries.leader_commit = message->append.commit;
    left = message->append.count - skip_committed(replica, &raft->append_entries, &rest);
    if (left > 0 && mst_replica_log_reserve(replica->log, left, rest.size) != MUSTER_OK) {
        (void)receive_batch(replica, raft, NULL, 0); /* no room for it, but the leader is there */
        return;
    }
    while (count < MST_REPLICA_ENTRIES_MAX &&
           mst_replica_entry_next(&rest, &replica->batch_in[count])) {
        if (count > begin && replica->batch_in[count].type == MST_REPLICA_CHANGE) {
            if (!receive_batch(replica, raft, replica->batch_in + begin, count - begin)) {
                return;
            }
            begin = count;
        }
        count++;
    }
    (void)receive_batch(replica, raft, replica->batch_in + begin, count - begin);
}

static void receive_other(struct mst_replica *replica, struct raft_message *raft,
                          const struct mst_replica_message *message)
{
    struct raft_event event = {.type = RAFT_RECEIVE, .receive = {.message = raft}};

    switch (message->type) {
    case MST_REPLICA_APPEND_RESULT:
        raft->append_entries_result =
            (struct raft_append_entries_result){.version = 1,
                                                .term = message->append_result.term,
                                                .rejected = message->append_result.rejected,
                                                .last_log_index = message->append_result.last_index,
                                                .features = message->append_result.features,
                                                .capacity = message->append_result.capacity};
        break;
    case MST_REPLICA_VOTE:
        raft->request_vote = (struct raft_request_vote){.version = 2,
                                                        .term = message->vote.term,
                                                        .candidate_id = message->vote.candidate,
                                                        .last_log_index = message->vote.last_index,
                                                        .last_log_term = message->vote.last_term,
                                                        .disrupt_leader = message->vote.disrupt,
                                                        .pre_vote = message->vote.pre};
        break;
    case MST_REPLICA_VOTE_RESULT:
        raft->request_vote_result =
            (struct raft_request_vote_result){.version = 2,
                                              .term = message->vote_result.term,
                                              .vote_granted = message->vote_result.granted,
                                              .pre_vote = message->vote_result.pre,
                                              .features = message->vote_result.features,
                                              .capacity = message->vote_result.capacity};
        break;
    case MST_REPLICA_TIMEOUT_NOW:
        raft->timeout_now =
            (struct raft_timeout_now){.version = 1,
                                      .term = message->timeout_now.term,
                                      .last_log_index = message->timeout_now.last_index,
                                      .last_log_term = message->timeout_now.last_term};
        break;
    case MST_REPLICA_APPEND:
    case MST_REPLICA_SNAPSHOT:
    case MST_REPLICA_HELLO:
    case MST_REPLICA_REFUSED:
    case MST_REPLICA_WANT:
    case MST_REPLICA_PIECE:
        return;
    }
    (void)mst_replica_step(replica, &event);
}

/* The term of a message that only a leader sends; 0: any replica may send it. */
static uint64_t leading_term(const struct mst_replica_message *message)
{
    return message->type == MST_REPLICA_APPEND     ? message->append.term
           : message->type == MST_REPLICA_SNAPSHOT ? message->snapshot.term
                                                   : 0;
}

/* One whose disk has no room for its first entry wins no election: it would have to end. */
static bool may_win(struct mst_replica *replica)
{
    return mst_replica_log_reserve(replica->log, 1, BARRIER_BYTES) == MUSTER_OK;
}

/* A vote is asked for by the candidate itself. The answer is a candidate's: before it looks whether
 * it is one, libraft reads a candidate's field, which is a part of an address or of an id in the
 * other states, and would begin the term of a late answer to a pre-vote. */
static bool concerns(struct mst_replica *replica, uint64_t peer,
                     const struct mst_replica_message *message)
{
    if (message->type == MST_REPLICA_VOTE) {
        return message->vote.candidate == peer;
    }
    if (message->type == MST_REPLICA_VOTE_RESULT) {
        return replica->state == RAFT_CANDIDATE &&
               (!message->vote_result.granted || may_win(replica));
    }
    return true;
}

void mst_replica_receive(struct mst_replica *replica, uint64_t now_ns, uint64_t peer,
                         const char *address, const struct mst_replica_message *message)
{
    struct raft_message raft = {.type = (enum raft_message_type)message->type,
                                .server_id = peer,
                                .server_address = address};

    if (!mst_replica_enter(replica, now_ns)) {
        return;
    }
    if (replica->state == RAFT_LEADER && leading_term(message) == replica->term) {
        MST_REPLICA_END(replica, MST_REPLICA_BROKEN, MUSTER_EINTERNAL,
                        "replica %llu leads term %llu, and replica %llu leads it too",
                        (unsigned long long)replica->id, (unsigned long long)replica->term,
                        (unsigned long long)peer);
    } else if (peer != 0 && peer != replica->id && peer <= UINT64_MAX / 2) {
        peer_of(replica, peer)->heard_ns = now_ns;
        if (leading_term(message) >= replica->term) {
            replica->led_ns = now_ns;
        }
        if (message->type == MST_REPLICA_APPEND) {
            receive_append(replica, &raft, message);
        } else if (message->type == MST_REPLICA_SNAPSHOT) {
            mst_replica_offered(replica, peer, address, message);
        } else if (message->type == MST_REPLICA_PIECE) {
            mst_replica_got_piece(replica, peer, message);
        } else if (message->type == MST_REPLICA_WANT) {
            struct mst_replica_message piece = {.type = MST_REPLICA_PIECE,
                                                .piece = {.index = message->want.index,
                                                          .term = message->want.term,
                                                          .offset = message->want.offset}};

            replica->asked_ns = now_ns;
            mst_replica_post(replica, peer, address, &piece);
        } else if (concerns(replica, peer, message)) {
            receive_other(replica, &raft, message);
        }
    }
    mst_replica_leave(replica);
}

void mst_replica_connected(struct mst_replica *replica, uint64_t now_ns, uint64_t peer)
{
    if (mst_replica_enter(replica, now_ns)) {
        if (replica->receiving.saving && replica->receiving.peer == peer) {
            mst_replica_ask(replica);
        }
        mst_replica_leave(replica);
    }
}

/* ---- what a leader is asked ---- */

static muster_status status_of(int code)
{
    switch (code) {
    case 0:
        return MUSTER_OK;
    case RAFT_NOMEM:
        return MUSTER_ENOMEM;
    case RAFT_NOSPACE:
        return MUSTER_ENOSPACE;
    case RAFT_NOTFOUND:
    case RAFT_BADID:
        return MUSTER_ENOTFOUND;
    default:
        return MUSTER_ECONFLICT;
    }
}

static muster_status submit(struct mst_replica *replica, enum mst_replica_kind kind,
                            struct mst_slice payload, uint64_t *index)
{
    muster_status status = mst_replica_log_reserve(replica->log, 1, 1 + payload.size);
    unsigned char *bytes;

    if (status != MUSTER_OK) {
        return status;
    }
    bytes = raft_malloc(1 + payload.size);
    if (!bytes) {
        return MUSTER_ENOMEM;
    }
    bytes[0] = (unsigned char)kind;
    if (payload.size > 0) {
        memcpy(bytes + 1, payload.data, payload.size);
    }
    *index = mst_replica_log_last(replica->log) + 1;
    status = status_of(mst_replica_step_submit(replica, RAFT_COMMAND, bytes, 1 + payload.size));
    return replica->ended ? MUSTER_ECONFLICT : status;
}

muster_status mst_replica_submit(struct mst_replica *replica, uint64_t now_ns,
                                 enum mst_replica_kind kind, struct mst_slice payload,
                                 uint64_t *index)
{
    muster_status status = MUSTER_ECONFLICT;

    if (payload.size > MST_REPLICA_PAYLOAD_MAX) {
        return MUSTER_ELIMIT;
    }
    if (mst_replica_enter(replica, now_ns)) {
        if (replica->leads) {
            status = submit(replica, kind, payload, index);
        }
        mst_replica_leave(replica);
    }
    return status;
}

void mst_replica_write(struct mst_replica *replica, uint64_t now_ns)
{
    if (mst_replica_enter(replica, now_ns)) {
        muster_status status = mst_replica_log_write(replica->log, NULL);

        if (status != MUSTER_OK) {
            fail(replica, status, "its log cannot be written");
        } else {
            mst_replica_persisted(replica);
            mst_replica_log_release(replica->log, replica->applied, replica->config.entry_bytes);
        }
        mst_replica_leave(replica);
    }
}

muster_status mst_replica_transfer(struct mst_replica *replica, uint64_t now_ns, uint64_t peer)
{
    muster_status status = MUSTER_ECONFLICT;

    if (mst_replica_enter(replica, now_ns)) {
        struct raft_event event = {.type = RAFT_TRANSFER, .transfer = {.server_id = peer}};

        if (replica->leads) {
            status = status_of(mst_replica_step(replica, &event));
        }
        mst_replica_leave(replica);
    }
    return status;
}

/* ---- members ---- */

static void change(struct mst_replica *replica, struct mst_voters_decision decision)
{
    size_t size;
    void *bytes;

    replica->scratch = replica->servers;
    mst_voters_apply(&replica->scratch, decision);
    size = mst_replica_configuration_bytes(&replica->scratch);
    if (mst_replica_log_reserve(replica->log, 1, size) != MUSTER_OK) {
        return;
    }
    bytes = raft_malloc(size);
    if (bytes) {
        mst_replica_configuration_write(bytes, &replica->scratch);
        (void)mst_replica_step_submit(replica, RAFT_CHANGE, bytes, size);
    }
}

static void progress_of(const struct mst_replica *replica,
                        struct mst_voters_progress progress[MST_REPLICA_SERVERS_MAX])
{
    uint64_t last = mst_replica_log_last(replica->log);
    struct mst_replica_status now;

    mst_replica_status_of(replica, &now);
    for (size_t i = 0; i < replica->servers.count; i++) {
        int catch_up = RAFT_CATCH_UP_NONE;

        (void)raft_catch_up(&replica->raft, replica->servers.of[i].id, &catch_up);
        progress[i].current = now.of[i].match == last || catch_up == RAFT_CATCH_UP_FINISHED;
        progress[i].catching = catch_up == RAFT_CATCH_UP_RUNNING;
        progress[i].heard = now.of[i].heard;
    }
}

void mst_replica_lead_voters(struct mst_replica *replica, uint64_t now_ns,
                             const struct mst_voters_wanted *wanted)
{
    struct mst_voters_progress progress[MST_REPLICA_SERVERS_MAX];
    struct mst_voters_decision decision;

    if (!mst_replica_enter(replica, now_ns)) {
        return;
    }
    if (replica->leads && replica->raft.configuration_uncommitted_index == 0 &&
        replica->raft.leader_state.promotee_id == 0) {
        progress_of(replica, progress);
        decision = mst_voters_next(wanted, &replica->servers, progress, replica->id);
        if (decision.step == MST_VOTERS_CATCH_UP) {
            struct raft_event event = {.type = RAFT_CATCH_UP,
                                       .catch_up = {.server_id = decision.id}};

            (void)mst_replica_step(replica, &event);
        } else if (decision.step != MST_VOTERS_NONE) {
            change(replica, decision);
        }
    }
    mst_replica_leave(replica);
}

/* ---- time ---- */

void mst_replica_tick(struct mst_replica *replica, uint64_t now_ns)
{
    struct raft_event event = {.type = RAFT_TIMEOUT};

    if (!mst_replica_enter(replica, now_ns)) {
        return;
    }
    if (replica->now_ms >= raft_timeout(&replica->raft)) {
        replica->ticked_ms = replica->now_ms;
        (void)mst_replica_step(replica, &event);
    }
    mst_replica_leave(replica);
}

uint64_t mst_replica_deadline_ns(const struct mst_replica *replica)
{
    uint64_t due_ms;

    if (replica->ended || !replica->started) {
        return NEVER;
    }
    due_ms = raft_timeout(&replica->raft);
    return (due_ms > replica->ticked_ms ? due_ms : replica->ticked_ms + 1) * NS_PER_MS;
}

/* ---- own snapshots ---- */

/* The last one is on its way to another replica. With each new one that would begin from the start,
 * and under load one that lags would never have a whole one. */
static bool sends(const struct mst_replica *replica)
{
    uint64_t patience_ns = (uint64_t)replica->config.election_ms * NS_PER_MS;

    return replica->asked_ns != 0 && replica->now_ns - replica->asked_ns < patience_ns;
}

muster_status mst_replica_snapshot_begin(struct mst_replica *replica,
                                         struct mst_replica_snapshot *out)
{
    const struct raft_configuration *conf = &replica->raft.configuration_committed;
    uint64_t index = replica->applied;

    if (replica->ended || index != replica->committed || replica->restore_due || sends(replica) ||
        mst_replica_log_saving(replica->log) || conf->n == 0 || conf->n > MST_REPLICA_SERVERS_MAX ||
        index <= mst_replica_log_snapshot(replica->log)->index ||
        replica->raft.configuration_committed_index > index) { /* of its log, after a start */
        return MUSTER_EFAILED;
    }
    replica->scratch.count = 0;
    for (unsigned i = 0; i < conf->n; i++) {
        struct mst_replica_server *server = &replica->scratch.of[replica->scratch.count++];

        server->id = conf->servers[i].id;
        server->role = (enum mst_replica_role)conf->servers[i].role;
        (void)mst_slice_copy(server->address, sizeof server->address,
                             mst_slice_text(conf->servers[i].address));
    }
    mst_replica_configuration_write(replica->configuration, &replica->scratch);
    *out = (struct mst_replica_snapshot){
        .index = index,
        .term = mst_replica_log_term_at(replica->log, index),
        .configuration_index = replica->raft.configuration_committed_index,
        .configuration = mst_slice_of(replica->configuration,
                                      mst_replica_configuration_bytes(&replica->scratch))};
    return MUSTER_OK;
}

/* What it says was applied here, and its configuration is with it. */
static bool snapshot_is_right(struct mst_replica *replica, const struct mst_replica_snapshot *about)
{
    const char *wrong = NULL;

    if (about->index > replica->applied) {
        wrong = "was not applied";
    } else if (mst_replica_log_term_at(replica->log, about->index) != about->term) {
        wrong = "is of another term in the log";
    } else if (about->configuration_index == 0 || about->configuration_index > about->index ||
               !mst_replica_configuration_read(about->configuration, &replica->scratch)) {
        wrong = "has no configuration";
    }
    if (wrong) {
        MST_REPLICA_END(replica, MST_REPLICA_BROKEN, MUSTER_EINTERNAL,
                        "replica %llu, term %llu: the snapshot at %llu of term %llu %s: applied is "
                        "%llu",
                        (unsigned long long)replica->id, (unsigned long long)replica->term,
                        (unsigned long long)about->index, (unsigned long long)about->term, wrong,
                        (unsigned long long)replica->applied);
    }
    return wrong == NULL;
}

/* How many entries are kept behind it. */
static uint64_t trailing_of(const struct mst_replica *replica, uint64_t index)
{
    const struct mst_replica_entry *entry;
    uint64_t count = 0, bytes = 0;

    while (count < replica->config.trailing && bytes < replica->config.trailing_bytes &&
           (entry = mst_replica_log_at(replica->log, index - count))) {
        bytes += entry->bytes.size;
        count++;
    }
    return count;
}

static void take_snapshot(struct mst_replica *replica, struct mst_replica_saving *saving)
{
    const struct mst_replica_snapshot *about = mst_replica_saving_about(saving);
    struct raft_event event = {.type = RAFT_SNAPSHOT};
    struct muster_error err;
    muster_status status;
    uint64_t trailing;

    if (!snapshot_is_right(replica, about)) {
        mst_replica_log_drop(replica->log, saving);
        return;
    }
    status = mst_replica_log_take(replica->log, saving, &err);
    if (status != MUSTER_OK) {
        MST_REPLICA_END(replica, MST_REPLICA_FAILED, status,
                        "replica %llu: its snapshot cannot be taken: %s",
                        (unsigned long long)replica->id, err.text);
        return;
    }
    about = mst_replica_log_snapshot(replica->log);
    trailing = trailing_of(replica, about->index);
    event.snapshot.trailing = (unsigned)trailing;
    event.snapshot.metadata.index = about->index;
    event.snapshot.metadata.term = about->term;
    event.snapshot.metadata.configuration_index = about->configuration_index;
    if (mst_replica_configuration_of(replica, about->configuration,
                                     &event.snapshot.metadata.configuration)) {
        (void)mst_replica_step(replica, &event);
        mst_replica_log_compact(replica->log, trailing);
    }
}

void mst_replica_snapshot_end(struct mst_replica *replica, uint64_t now_ns, bool whole)
{
    struct mst_replica_saving *saving = mst_replica_log_saving(replica->log);

    MST_ASSERT(saving && saving != replica->receiving.saving);
    if (!mst_replica_enter(replica, now_ns) || !whole) {
        mst_replica_log_drop(replica->log, saving);
    } else {
        take_snapshot(replica, saving);
    }
    mst_replica_leave(replica);
}

/* ---- for people ---- */

static enum mst_replica_state state_of(const struct mst_replica *replica)
{
    if (replica->ended) {
        return MST_REPLICA_ENDED;
    }
    return replica->state == RAFT_LEADER      ? MST_REPLICA_LEADER
           : replica->state == RAFT_CANDIDATE ? MST_REPLICA_CANDIDATE
                                              : MST_REPLICA_FOLLOWER;
}

static bool is_heard(const struct mst_replica *replica, uint64_t id)
{
    uint64_t patience_ns = (uint64_t)replica->config.election_ms * NS_PER_MS;

    for (size_t i = 0; i < MST_REPLICA_SERVERS_MAX; i++) {
        if (replica->peers[i].id == id) {
            return replica->now_ns - replica->peers[i].heard_ns < patience_ns;
        }
    }
    return id == replica->id;
}

uint64_t mst_replica_committed(const struct mst_replica *replica)
{
    return replica->committed;
}

void mst_replica_status_of(const struct mst_replica *replica, struct mst_replica_status *out)
{
    *out =
        (struct mst_replica_status){.id = replica->id,
                                    .term = replica->term,
                                    .state = state_of(replica),
                                    .serves = replica->leads && !replica->ended,
                                    .leader = replica->leader,
                                    .leader_address = replica->leader_address,
                                    .first = mst_replica_log_first(replica->log),
                                    .last = mst_replica_log_last(replica->log),
                                    .written = mst_replica_log_written(replica->log),
                                    .committed = replica->committed,
                                    .applied = replica->applied,
                                    .snapshot = mst_replica_log_snapshot(replica->log)->index,
                                    .servers = &replica->servers,
                                    .changing = replica->raft.configuration_uncommitted_index != 0,
                                    .elections = replica->elections,
                                    .reason = replica->ended ? replica->reason : NULL};
    if (replica->receiving.saving) {
        out->receiving = mst_replica_saving_about(replica->receiving.saving)->index;
        out->received_bytes = mst_replica_saving_put_bytes(replica->receiving.saving);
    }
    for (size_t i = 0; out->state == MST_REPLICA_LEADER && i < replica->servers.count; i++) {
        raft_index match = 0;

        (void)raft_match_index(&replica->raft, replica->servers.of[i].id, &match);
        out->of[i].match = match;
        out->of[i].heard = is_heard(replica, replica->servers.of[i].id);
    }
}

void mst_replica_check(const struct mst_replica *replica)
{
    uint64_t last = mst_replica_log_last(replica->log);

    MST_ASSERT(replica->applied <= replica->committed);
    MST_ASSERT(replica->queue_count <= MST_REPLICA_QUEUE);
    if (replica->ended || !replica->started) {
        return;
    }
    MST_ASSERT(replica->committed <= last);
    MST_ASSERT(replica->committed == raft_commit_index(&replica->raft));
    MST_ASSERT(replica->term == raft_current_term(&replica->raft));
    MST_ASSERT(replica->term == mst_replica_log_term(replica->log));
    MST_ASSERT(replica->vote == mst_replica_log_vote_of(replica->log));
    MST_ASSERT(replica->raft.last_stored <= mst_replica_log_written(replica->log));
    MST_ASSERT(!replica->leads || replica->state == RAFT_LEADER);
}

uint64_t mst_replica_digest(const struct mst_replica *replica)
{
    const uint64_t numbers[] = {replica->id,
                                replica->term,
                                replica->vote,
                                replica->committed,
                                replica->applied,
                                replica->state,
                                replica->leader,
                                replica->ended,
                                replica->leads,
                                replica->elections,
                                replica->own_index,
                                mst_replica_log_last(replica->log),
                                replica->servers_committed};
    uint64_t digest = MST_DIGEST_INIT;

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        digest = mst_digest_number(digest, numbers[i]);
    }
    return digest;
}
