/* SPDX-License-Identifier: Apache-2.0 */
/* Receives the leader's snapshot, piece by piece, into the log. The consensus sees it when it is
 * whole. */
#include <string.h>

#include "service/replica/part.h"

static unsigned long long shown(uint64_t number)
{
    return number;
}

static void forget(struct mst_replica *replica)
{
    if (replica->receiving.saving) {
        mst_replica_log_drop(replica->log, replica->receiving.saving);
        replica->receiving.saving = NULL;
    }
}

void mst_replica_ask(struct mst_replica *replica)
{
    const struct mst_replica_snapshot *about = mst_replica_saving_about(replica->receiving.saving);
    const struct mst_replica_message want = {
        .type = MST_REPLICA_WANT,
        .want = {.index = about->index,
                 .term = about->term,
                 .offset = mst_replica_saving_put_bytes(replica->receiving.saving)}};

    replica->receiving.asked_ns = replica->now_ns;
    mst_replica_post(replica, replica->receiving.peer, replica->receiving.address, &want);
}

/* The consensus decides whether it is of use. It is the leader's, in the present term: to a leader
 * of an older one libraft answers with what a field had in memory, as if it had a log up to there.
 */
static bool give_to_consensus(struct mst_replica *replica, uint64_t peer, const char *address,
                              const struct mst_replica_snapshot *about)
{
    struct raft_message message = {.type = RAFT_INSTALL_SNAPSHOT,
                                   .server_id = peer,
                                   .server_address = address,
                                   .install_snapshot = {.term = replica->term,
                                                        .last_index = about->index,
                                                        .last_term = about->term,
                                                        .conf_index = about->configuration_index}};
    struct raft_event event = {.type = RAFT_RECEIVE, .receive = {.message = &message}};

    if (!mst_replica_configuration_of(replica, about->configuration,
                                      &message.install_snapshot.conf)) {
        return false;
    }
    replica->install = false;
    (void)mst_replica_step(replica, &event);
    if (!replica->install) {
        return false;
    }
    raft_configuration_close(&message.install_snapshot.conf); /* it is in the log too */
    return !replica->ended;
}

/* It is the log's snapshot now: nothing that was applied may be missing from it. */
static void restore(struct mst_replica *replica)
{
    const struct mst_replica_snapshot *about = mst_replica_log_snapshot(replica->log);
    struct raft_event event = {.type = RAFT_PERSISTED_SNAPSHOT};

    if (about->index <= replica->applied || about->index < replica->committed) {
        MST_REPLICA_END(
            replica, MST_REPLICA_BROKEN, MUSTER_EINTERNAL,
            "replica %llu, term %llu: the snapshot at %llu is to be installed, and %llu "
            "was applied",
            shown(replica->id), shown(replica->term), shown(about->index), shown(replica->applied));
        return;
    }
    event.persisted_snapshot.metadata.index = about->index;
    event.persisted_snapshot.metadata.term = about->term;
    event.persisted_snapshot.metadata.configuration_index = about->configuration_index;
    event.persisted_snapshot.last = true;
    if (!mst_replica_configuration_of(replica, about->configuration,
                                      &event.persisted_snapshot.metadata.configuration)) {
        return;
    }
    replica->committed = about->index; /* what is in it is confirmed by it */
    replica->applied = about->index;
    replica->restore_due = true;
    (void)mst_replica_step(replica, &event);
}

static void install(struct mst_replica *replica)
{
    struct mst_replica_saving *saving = replica->receiving.saving;
    const struct mst_replica_snapshot *about = mst_replica_saving_about(saving);
    muster_status status;
    struct muster_error err;

    if (replica->receiving.peer != replica->leader || /* who leads now offers its own */
        mst_replica_saving_put_bytes(saving) != replica->receiving.bytes ||
        mst_replica_saving_close(saving) != MUSTER_OK ||
        !give_to_consensus(replica, replica->receiving.peer, replica->receiving.address, about)) {
        forget(replica);
        return;
    }
    status = mst_replica_log_take(replica->log, saving, &err);
    if (status != MUSTER_OK) {
        MST_REPLICA_END(replica, MST_REPLICA_FAILED, status, "replica %llu: %s", shown(replica->id),
                        err.text);
        forget(replica);
        return;
    }
    replica->receiving.saving = NULL;
    restore(replica);
}

void mst_replica_got_piece(struct mst_replica *replica, uint64_t peer,
                           const struct mst_replica_message *message)
{
    struct mst_replica_saving *saving = replica->receiving.saving;
    const struct mst_replica_snapshot *about = saving ? mst_replica_saving_about(saving) : NULL;

    if (!about || peer != replica->receiving.peer || about->index != message->piece.index ||
        about->term != message->piece.term ||
        mst_replica_saving_put_bytes(saving) != message->piece.offset) {
        return; /* an older one, or twice the same */
    }
    if (message->piece.bytes.size > replica->receiving.bytes - message->piece.offset ||
        mst_replica_saving_put(saving, message->piece.bytes) != MUSTER_OK) {
        forget(replica); /* more than was offered, or no room: it is offered again */
        return;
    }
    if (message->piece.last) {
        install(replica);
    } else {
        mst_replica_ask(replica);
    }
}

static bool is_known(const struct mst_replica *replica, const struct mst_replica_snapshot *about)
{
    return about->index <= replica->committed ||
           mst_replica_log_term_at(replica->log, about->index) == about->term;
}

/* It has come so far, from the same replica: two replicas' bytes of one state may differ. */
static bool is_under_way(const struct mst_replica *replica, uint64_t peer,
                         const struct mst_replica_snapshot *about)
{
    const struct mst_replica_snapshot *own =
        replica->receiving.saving ? mst_replica_saving_about(replica->receiving.saving) : NULL;

    return own && peer == replica->receiving.peer && own->index == about->index &&
           own->term == about->term && replica->receiving.bytes == about->bytes;
}

void mst_replica_offered(struct mst_replica *replica, uint64_t peer, const char *address,
                         const struct mst_replica_message *message)
{
    const struct mst_replica_snapshot *about = &message->snapshot.about;
    uint64_t patience_ns = (uint64_t)replica->config.election_ms * NS_PER_MS;

    /* A later term comes with the leader's heartbeat, and with the answer to that the next offer:
     * nothing is kept of a term that the log does not have. */
    if (message->snapshot.term != replica->term) {
        return;
    }
    if (is_known(replica, about)) {
        (void)give_to_consensus(replica, peer, address, about);
        return;
    }
    if (is_under_way(replica, peer, about)) {
        if (replica->now_ns - replica->receiving.asked_ns >= patience_ns) {
            mst_replica_ask(replica); /* the question or the answer was lost */
        }
        return;
    }
    forget(replica);
    if (mst_replica_log_saving(replica->log)) {
        replica->yield_due = true;
        return;
    }
    if (mst_replica_log_save(replica->log, about, &replica->receiving.saving) != MUSTER_OK) {
        replica->receiving.saving = NULL;
        return;
    }
    replica->receiving.peer = peer;
    replica->receiving.bytes = about->bytes;
    (void)mst_slice_copy(replica->receiving.address, sizeof replica->receiving.address,
                         mst_slice_text(address));
    mst_replica_ask(replica);
}
