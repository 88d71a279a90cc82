/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "service/replica/part.h"

void mst_replica_end(struct mst_replica *replica, enum mst_replica_effect_type type,
                     muster_status status)
{
    replica->ended = replica->end_due = true;
    replica->end = (struct mst_replica_effect){
        .type = type, .term = replica->term, .status = status, .reason = replica->reason};
    if (type != MST_REPLICA_DEPOSED) { /* what it would say may be wrong */
        replica->queue_count = 0;
    }
}

void mst_replica_post(struct mst_replica *replica, uint64_t peer, const char *address,
                      const struct mst_replica_message *message)
{
    struct mst_replica_outgoing *out;

    if (replica->queue_count == MST_REPLICA_QUEUE) {
        return;
    }
    out = &replica->queue[(replica->queue_first + replica->queue_count++) % MST_REPLICA_QUEUE];
    out->peer = peer;
    out->message = *message;
    (void)mst_slice_copy(out->address, sizeof out->address, mst_slice_text(address));
}

static void drop_first(struct mst_replica *replica)
{
    replica->queue_first = (replica->queue_first + 1) % MST_REPLICA_QUEUE;
    replica->queue_count--;
}

/* The bytes of the first entry of a message may be in a file only. What cannot be read ends the
 * replica: the next leader has it too. */
static bool fill_entry(struct mst_replica *replica, uint64_t index, struct mst_replica_entry *out)
{
    struct muster_error err;
    muster_status status = mst_replica_log_bytes(replica->log, index, &out->bytes, &err);

    if (status == MUSTER_EFAILED) {
        MST_REPLICA_END(replica, MST_REPLICA_FAILED, status, "replica %llu: %s",
                        (unsigned long long)replica->id, err.text);
    }
    return status == MUSTER_OK;
}

static bool is_in_memory(const struct mst_replica_entry *entry)
{
    return entry->bytes.data || entry->bytes.size == 0;
}

/* Fills in as many entries as one message has; the rest is the next message. False: the log has
 * them no more, or there is no memory for them. */
static bool fill_entries(struct mst_replica *replica, struct mst_replica_outgoing *out,
                         struct mst_replica_message *message)
{
    uint64_t index = out->message.append.prev_index + 1;
    size_t bytes = 0;
    uint32_t count = 0;

    while (count < out->message.append.count) {
        const struct mst_replica_entry *entry = mst_replica_log_at(replica->log, index + count);

        if (!entry) {
            return false;
        }
        bytes += MST_REPLICA_ENTRY_HEAD + entry->bytes.size;
        if (count > 0 && (bytes > MST_REPLICA_BATCH_MAX - 64 || count == MST_REPLICA_ENTRIES_MAX ||
                          !is_in_memory(entry))) {
            break;
        }
        replica->batch[count] = *entry;
        if (!fill_entry(replica, index + count, &replica->batch[count])) {
            return false;
        }
        count++;
    }
    message->append.count = count;
    message->append.from = replica->batch;
    out->message.append.count -= count;
    if (count > 0) {
        out->message.append.prev_index += count;
        out->message.append.prev_term = replica->batch[count - 1].term;
    }
    return true;
}

/* A state that cannot be read ends the replica: the next leader has another one. */
static bool fill_piece(struct mst_replica *replica, struct mst_replica_message *message)
{
    const struct mst_replica_snapshot *about = mst_replica_log_snapshot(replica->log);
    uint64_t offset = message->piece.offset;
    struct muster_error err;
    muster_status status;
    uint64_t size;

    if (about->index != message->piece.index || about->term != message->piece.term ||
        offset > about->bytes) {
        return false; /* there is a newer one, which is offered */
    }
    size = about->bytes - offset;
    size = size < MST_REPLICA_PIECE_MAX ? size : MST_REPLICA_PIECE_MAX;
    message->piece.last = offset + size == about->bytes;
    message->piece.bytes = mst_slice_of(replica->piece, size);
    status = mst_replica_log_read(replica->log, about->index, offset, replica->piece, size, &err);
    if (status != MUSTER_OK) {
        MST_REPLICA_END(replica, MST_REPLICA_FAILED, status, "replica %llu: %s",
                        (unsigned long long)replica->id, err.text);
    }
    return status == MUSTER_OK;
}

/* The whole message; false: it is not to be sent after all. */
static bool fill(struct mst_replica *replica, struct mst_replica_outgoing *out,
                 struct mst_replica_message *message)
{
    *message = out->message;
    switch (message->type) {
    case MST_REPLICA_APPEND:
        return fill_entries(replica, out, message);
    case MST_REPLICA_SNAPSHOT:
        message->snapshot.about = *mst_replica_log_snapshot(replica->log);
        return message->snapshot.about.index != 0;
    case MST_REPLICA_PIECE:
        return fill_piece(replica, message);
    case MST_REPLICA_APPEND_RESULT:
    case MST_REPLICA_VOTE:
    case MST_REPLICA_VOTE_RESULT:
    case MST_REPLICA_TIMEOUT_NOW:
    case MST_REPLICA_HELLO:
    case MST_REPLICA_REFUSED:
    case MST_REPLICA_WANT:
        break;
    }
    return true;
}

static bool next_send(struct mst_replica *replica)
{
    while (replica->queue_count > 0) {
        struct mst_replica_outgoing *out = &replica->queue[replica->queue_first];
        struct mst_replica_message message;
        bool whole = fill(replica, out, &message);
        struct mst_slice before = mst_buffer_content(&replica->buffer);

        if (replica->queue_count == 0) { /* ended by that */
            return false;
        }
        mst_buffer_take(&replica->buffer, before.size);
        whole = whole && mst_replica_message_write(&replica->buffer, &message) == MUSTER_OK;
        replica->effect =
            (struct mst_replica_effect){.type = MST_REPLICA_SEND,
                                        .peer = out->peer,
                                        .address = out->address,
                                        .bytes = mst_buffer_content(&replica->buffer)};
        if (!whole || message.type != MST_REPLICA_APPEND || out->message.append.count == 0) {
            drop_first(replica);
        }
        if (whole) {
            return true;
        }
    }
    return false;
}

/* The leader waits for what a follower promises, and nobody for what it applies. */
static bool owes_write(const struct mst_replica *replica)
{
    return replica->state == RAFT_FOLLOWER &&
           mst_replica_log_written(replica->log) < mst_replica_log_last(replica->log);
}

static bool next_committed(struct mst_replica *replica)
{
    while (!owes_write(replica) && replica->applied < replica->committed) {
        const struct mst_replica_entry *entry =
            mst_replica_log_at(replica->log, ++replica->applied);

        MST_ASSERT(entry);
        if (entry->type == MST_REPLICA_COMMAND && entry->bytes.size > 0) {
            replica->effect = (struct mst_replica_effect){
                .type = MST_REPLICA_COMMITTED,
                .index = replica->applied,
                .term = entry->term,
                .kind = (enum mst_replica_kind)((const unsigned char *)entry->bytes.data)[0],
                .payload = mst_slice_from(entry->bytes, 1),
                .own = replica->state == RAFT_LEADER && entry->term == replica->term};
            return true;
        }
    }
    return false;
}

static bool take_due(bool *due)
{
    bool was = *due;

    *due = false;
    return was;
}

static bool next_change(struct mst_replica *replica)
{
    struct mst_replica_effect *effect = &replica->effect;

    *effect = (struct mst_replica_effect){.term = replica->term};
    if (take_due(&replica->servers_due)) {
        effect->type = MST_REPLICA_SERVERS;
        effect->index = replica->servers_committed;
        return true;
    }
    if (replica->state == RAFT_LEADER && !replica->leads && !replica->barrier_due &&
        replica->applied >= replica->own_index) {
        replica->leads = true;
        effect->type = MST_REPLICA_LEADS;
        effect->index = replica->own_index;
        return true;
    }
    if (take_due(&replica->follows_due) && replica->state != RAFT_LEADER) {
        effect->type = MST_REPLICA_FOLLOWS;
        effect->peer = replica->leader;
        effect->address = replica->leader_address;
        return true;
    }
    if (take_due(&replica->yield_due)) {
        effect->type = MST_REPLICA_YIELD_SNAPSHOT;
        return true;
    }
    return false;
}

static bool next_restore(struct mst_replica *replica)
{
    if (!take_due(&replica->restore_due)) {
        return false;
    }
    replica->effect =
        (struct mst_replica_effect){.type = MST_REPLICA_RESTORE,
                                    .index = mst_replica_log_snapshot(replica->log)->index,
                                    .term = mst_replica_log_snapshot(replica->log)->term};
    return true;
}

const struct mst_replica_effect *mst_replica_next(struct mst_replica *replica)
{
    MST_ASSERT(!replica->draining);
    replica->draining = true;
    if (next_send(replica)) {
        return &replica->effect;
    }
    if (replica->ended) {
        if (take_due(&replica->end_due)) {
            return &replica->end;
        }
    } else if (next_restore(replica) || next_committed(replica) || next_change(replica)) {
        return &replica->effect;
    }
    replica->draining = false;
    return NULL;
}

void mst_replica_done(struct mst_replica *replica, const struct mst_replica_effect *effect)
{
    MST_ASSERT(replica->draining && (effect == &replica->effect || effect == &replica->end));
    replica->draining = false;
}
