/* SPDX-License-Identifier: Apache-2.0 */
#include "replica_generator.h"

#include <string.h>

#include "base/text.h"

static uint64_t below(const struct replica_chooser *chooser, uint64_t bound)
{
    return chooser->below(chooser->ctx, bound);
}

/* 1 or more; small ones, and those at the edge. */
static uint64_t number(const struct replica_chooser *chooser)
{
    static const uint64_t most[] = {UINT64_MAX / 2, UINT64_MAX / 2 - 1, 1, UINT32_MAX};
    uint64_t which = below(chooser, 8);

    return which < 4 ? most[which] : 1 + below(chooser, 100);
}

static uint64_t number_or_0(const struct replica_chooser *chooser)
{
    return below(chooser, 3) == 0 ? 0 : number(chooser);
}

static void place(const struct replica_chooser *chooser, uint64_t *index, uint64_t *term)
{
    *index = number_or_0(chooser);
    *term = *index == 0 ? 0 : number(chooser);
}

static void servers(struct replica_generated *out, const struct replica_chooser *chooser)
{
    out->servers.count = 1 + below(chooser, MST_REPLICA_SERVERS_MAX);
    for (size_t i = 0; i < out->servers.count; i++) {
        struct mst_replica_server *server = &out->servers.of[i];
        size_t size;

        server->id = 1000 * (i + 1) + below(chooser, 1000);
        server->role = below(chooser, 2) ? MST_REPLICA_VOTER : MST_REPLICA_STANDBY;
        size = mst_text_print(server->address, sizeof server->address, "h%zu:%u", i,
                              (unsigned)below(chooser, 65536));
        if (below(chooser, 8) == 0) { /* as long as one may be */
            memset(server->address + size, 'x', sizeof server->address - 1 - size);
            server->address[sizeof server->address - 1] = '\0';
        }
    }
}

static struct mst_slice configuration(struct replica_generated *out,
                                      const struct replica_chooser *chooser)
{
    servers(out, chooser);
    mst_replica_configuration_write(out->configuration, &out->servers);
    return mst_slice_of(out->configuration, mst_replica_configuration_bytes(&out->servers));
}

static struct mst_slice words(struct replica_generated *out, size_t least, size_t most,
                              const struct replica_chooser *chooser)
{
    return mst_slice_of(out->bytes, least + below(chooser, most - least + 1));
}

static void append(struct replica_generated *out, const struct replica_chooser *chooser)
{
    struct mst_replica_message *message = &out->message;
    uint64_t term;

    message->append.prev_index = below(chooser, 3) == 0 ? 0 : 1 + below(chooser, 1000);
    message->append.prev_term = message->append.prev_index == 0 ? 0 : 1 + below(chooser, 5);
    message->append.commit = number_or_0(chooser);
    message->append.count = (uint32_t)below(chooser, REPLICA_GENERATED_ENTRIES + 1);
    term = message->append.prev_term == 0 ? 1 : message->append.prev_term;
    for (uint32_t i = 0; i < message->append.count; i++) {
        struct mst_replica_entry *entry = &out->entries[i];

        term += below(chooser, 2);
        entry->term = term;
        entry->type = 1 + (enum mst_replica_entry_type)below(chooser, 3);
        entry->bytes = entry->type == MST_REPLICA_CHANGE
                           ? (i == 0 ? configuration(out, chooser) : out->entries[0].bytes)
                           : words(out, 0, sizeof out->bytes, chooser);
        if (i > 0 && entry->type == MST_REPLICA_CHANGE &&
            out->entries[0].type != MST_REPLICA_CHANGE) {
            entry->type = MST_REPLICA_COMMAND;
        }
    }
    message->append.term = term + below(chooser, 3);
    message->append.from = out->entries;
}

static void hello(struct replica_generated *out, const struct replica_chooser *chooser)
{
    struct mst_replica_message *message = &out->message;

    message->hello.protocol = (uint32_t)number(chooser);
    message->hello.rules = (uint32_t)number(chooser);
    message->hello.id = number(chooser);
    message->hello.member = number(chooser) & 1;
    message->hello.run = words(out, 1, 255, chooser);
    message->hello.address = words(out, 1, 255, chooser);
    message->hello.version = words(out, 0, 63, chooser);
}

static void snapshot(struct replica_generated *out, const struct replica_chooser *chooser)
{
    struct mst_replica_snapshot *about = &out->message.snapshot.about;

    about->index = number(chooser);
    about->configuration_index = 1 + below(chooser, about->index);
    about->term = number(chooser);
    out->message.snapshot.term = about->term;
    about->bytes = number(chooser);
    about->configuration = configuration(out, chooser);
}

static void piece(struct replica_generated *out, const struct replica_chooser *chooser)
{
    struct mst_replica_message *message = &out->message;

    message->piece.index = number(chooser);
    message->piece.term = number(chooser);
    message->piece.offset = number_or_0(chooser);
    message->piece.last = below(chooser, 2);
    message->piece.bytes = words(out, message->piece.last ? 0 : 1, sizeof out->bytes, chooser);
}

void replica_generate(struct replica_generated *out, unsigned kind,
                      const struct replica_chooser *chooser)
{
    static const enum mst_replica_message_type types[REPLICA_GENERATED_TYPES] = {
        MST_REPLICA_APPEND,   MST_REPLICA_APPEND_RESULT, MST_REPLICA_VOTE,  MST_REPLICA_VOTE_RESULT,
        MST_REPLICA_SNAPSHOT, MST_REPLICA_TIMEOUT_NOW,   MST_REPLICA_HELLO, MST_REPLICA_REFUSED,
        MST_REPLICA_WANT,     MST_REPLICA_PIECE};
    struct mst_replica_message *message = &out->message;

    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < sizeof out->bytes; i++) {
        out->bytes[i] = (unsigned char)(1 + below(chooser, 255));
    }
    message->type = types[kind % REPLICA_GENERATED_TYPES];
    switch (message->type) {
    case MST_REPLICA_APPEND:
        append(out, chooser);
        break;
    case MST_REPLICA_APPEND_RESULT:
        message->append_result.term = number_or_0(chooser);
        message->append_result.rejected = number_or_0(chooser);
        message->append_result.last_index = number_or_0(chooser);
        message->append_result.features = (uint16_t)below(chooser, 65536);
        message->append_result.capacity = (uint16_t)below(chooser, 65536);
        break;
    case MST_REPLICA_VOTE:
        message->vote.term = number(chooser);
        message->vote.candidate = number(chooser);
        place(chooser, &message->vote.last_index, &message->vote.last_term);
        message->vote.disrupt = below(chooser, 2);
        message->vote.pre = below(chooser, 2);
        break;
    case MST_REPLICA_VOTE_RESULT:
        message->vote_result.term = number_or_0(chooser);
        message->vote_result.granted = below(chooser, 2);
        message->vote_result.pre = below(chooser, 2);
        message->vote_result.features = (uint16_t)below(chooser, 65536);
        message->vote_result.capacity = (uint16_t)below(chooser, 65536);
        break;
    case MST_REPLICA_SNAPSHOT:
        snapshot(out, chooser);
        break;
    case MST_REPLICA_TIMEOUT_NOW:
        message->timeout_now.term = number(chooser);
        place(chooser, &message->timeout_now.last_index, &message->timeout_now.last_term);
        break;
    case MST_REPLICA_HELLO:
        hello(out, chooser);
        break;
    case MST_REPLICA_REFUSED:
        message->refused.protocol = (uint32_t)number(chooser);
        message->refused.rules = (uint32_t)number(chooser);
        message->refused.text = words(out, 0, 255, chooser);
        break;
    case MST_REPLICA_WANT:
        message->want.index = number(chooser);
        message->want.term = number(chooser);
        message->want.offset = number_or_0(chooser);
        break;
    case MST_REPLICA_PIECE:
        piece(out, chooser);
        break;
    }
}
