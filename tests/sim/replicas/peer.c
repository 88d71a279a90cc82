/* SPDX-License-Identifier: Apache-2.0 */
/* The connections of a replica to the others: to each one that it made, from each one that they
 * made. */
#include "service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../properties.h"

enum { PEER_BYTES = 16 << 20 };

void rep_address_of(char out[8], uint32_t host)
{
    (void)snprintf(out, 8, "h%u", host % 100);
}

uint32_t rep_host_at(const char *address)
{
    return (uint32_t)strtoul(address + 1, NULL, 10);
}

/* ---- peers: to each a connection of ours, from each one of theirs -----------------------------
 */

static void close_out(struct rep_service *service, struct rep_out *out)
{
    if (out->link) {
        rep_link_close(service->replicas, out->link, 0);
        mst_buffer_fini(&out->bytes);
        mst_replica_reader_fini(&out->reader);
        *out = (struct rep_out){.retry_ns = service->replicas->sim.now_ns + 50 * SIM_MS};
    }
}

static struct mst_replica_message hello(struct rep_service *service, char address[8])
{
    rep_address_of(address, service->actor.host);
    return (struct mst_replica_message){.type = MST_REPLICA_HELLO,
                                        .hello = {.protocol = MST_REPLICA_PROTOCOL,
                                                  .rules = MST_CORE_RULES,
                                                  .id = service->id,
                                                  .run = mst_slice_text("run"),
                                                  .address = mst_slice_text(address),
                                                  .version = mst_slice_text("sim")}};
}

static void open_out(struct rep_service *service, uint32_t host)
{
    struct replicas *replicas = service->replicas;
    struct rep_out *out = &service->outs[host];
    struct mst_replica_message message;
    char address[8];

    if (out->link || replicas->sim.now_ns < out->retry_ns) {
        return;
    }
    out->link =
        rep_link_open(replicas, &service->actor, rep_service_actor(replicas, host), host, REP_PEER);
    mst_buffer_init(&out->bytes, &service->memory.mem, PEER_BYTES);
    mst_replica_reader_init(&out->reader, &service->memory.mem);
    message = hello(service, address);
    if (mst_replica_message_write(&out->bytes, &message) != MUSTER_OK) {
        close_out(service, out);
    }
}

static void flush_out(struct rep_service *service, struct rep_out *out)
{
    while (out->link && out->link->attempt == REP_ACCEPTED) {
        struct mst_slice bytes = mst_buffer_content(&out->bytes);
        size_t sent = bytes.size > 0 ? rep_link_write(service->replicas, out->link, 0, bytes) : 0;

        if (sent == 0) {
            return;
        }
        mst_buffer_take(&out->bytes, sent);
    }
}

/* What an observer of the wire learns: votes. */
static void observe_sent(struct rep_service *service, const struct mst_replica_effect *effect)
{
    const unsigned char type = ((const unsigned char *)effect->bytes.data)[4];
    struct mst_replica_reader reader;
    struct mst_replica_message message;
    const char *why = NULL;

    if (type != MST_REPLICA_VOTE && type != MST_REPLICA_VOTE_RESULT) {
        return;
    }
    mst_replica_reader_init(&reader, &service->replicas->oracle.memory.mem);
    mst_replica_reader_admit(&reader);
    if (mst_replica_reader_take(&reader, effect->bytes) != MUSTER_OK ||
        mst_replica_reader_next(&reader, &message, &why) != MUSTER_OK) {
        sim_fail(&service->replicas->sim, SIM_P_WELL_FORMED, "a vote that makes no sense: %s",
                 why ? why : "");
    }
    if (type == MST_REPLICA_VOTE && !message.vote.pre) {
        rep_oracle_vote(service->replicas, service->id, message.vote.term, message.vote.candidate);
        rep_service_has_voted(service, message.vote.term, message.vote.candidate);
    } else if (type == MST_REPLICA_VOTE_RESULT && message.vote_result.granted &&
               !message.vote_result.pre) {
        rep_oracle_vote(service->replicas, service->id, message.vote_result.term, effect->peer);
        rep_service_has_voted(service, message.vote_result.term, effect->peer);
    }
    mst_replica_reader_fini(&reader);
}

void rep_peers_send(struct rep_service *service, const struct mst_replica_effect *effect)
{
    uint32_t host = rep_host_at(effect->address);
    struct rep_out *out = &service->outs[host];

    observe_sent(service, effect);
    if (out->link && out->peer != 0 && out->peer != effect->peer) {
        close_out(service, out); /* another process listens there than the one that is meant */
    }
    open_out(service, host);
    if (out->link && (out->peer == 0 || out->peer == effect->peer)) {
        if (!mst_buffer_append(&out->bytes, effect->bytes)) {
            close_out(service, out);
        }
        flush_out(service, out);
    }
}

/* A reader takes so much at once; the rest is looked at in the next turn. */
static struct mst_slice part_of(struct mst_slice bytes)
{
    bytes.size = bytes.size > MST_REPLICA_TAKE_MAX ? MST_REPLICA_TAKE_MAX : bytes.size;
    return bytes;
}

/* The answer to our hello. */
static void read_out(struct rep_service *service, uint32_t host)
{
    struct rep_out *out = &service->outs[host];
    struct mst_replica_message message;
    const char *why;
    struct mst_slice in;

    if (!out->link) {
        return;
    }
    in = part_of(rep_link_got(out->link, 0));
    if (in.size > 0) {
        muster_status status = mst_replica_reader_take(&out->reader, in);

        rep_link_take(service->replicas, out->link, 0, in.size);
        status =
            status == MUSTER_OK ? mst_replica_reader_next(&out->reader, &message, &why) : status;
        if (status == MUSTER_OK && message.type == MST_REPLICA_HELLO) {
            out->peer = message.hello.id;
        } else if (status != MUSTER_MORE) {
            close_out(service, out);
            return;
        }
    }
    if (out->link->attempt == REP_REFUSED || out->link->ends[0].over) {
        close_out(service, out);
        return;
    }
    flush_out(service, out);
}

static void free_in(struct rep_service *service, struct rep_in *in)
{
    rep_link_close(service->replicas, in->link, 1);
    mst_buffer_fini(&in->bytes);
    mst_replica_reader_fini(&in->reader);
    free(in);
}

static void accept_peer(struct rep_service *service, struct rep_link *link)
{
    struct rep_in *in = sim_new(sizeof(*in));
    struct mst_replica_message message;
    char address[8];

    in->link = link;
    mst_buffer_init(&in->bytes, &service->memory.mem, PEER_BYTES);
    mst_replica_reader_init(&in->reader, &service->memory.mem);
    in->next = service->ins;
    service->ins = in;
    message = hello(service, address);
    if (mst_replica_message_write(&in->bytes, &message) != MUSTER_OK) {
        link->ends[1].over = true;
    }
}

/* False: the connection is dead. */
static bool hear(struct rep_service *service, struct rep_in *in,
                 const struct mst_replica_message *message)
{
    uint64_t now = rep_service_clock(service);

    if (in->peer == 0) {
        struct mst_replica_message own;
        char address[8], line[256];

        if (message->type != MST_REPLICA_HELLO || message->hello.address.size >= 8) {
            return false;
        }
        own = hello(service, address);
        if (!mst_replica_hello_fits(&own, message, line, sizeof(line))) {
            sim_fail(&service->replicas->sim, SIM_P_WELL_FORMED, "a hello is refused: %.120s",
                     line);
        }
        in->peer = message->hello.id;
        memcpy(in->address, message->hello.address.data, message->hello.address.size);
        mst_replica_reader_admit(&in->reader);
        mst_replica_connected(service->replica, now, in->peer);
    } else {
        mst_replica_receive(service->replica, now, in->peer, in->address, message);
    }
    return rep_service_drive(service);
}

/* False: the connection is dead. */
static bool read_in(struct rep_service *service, struct rep_in *in)
{
    struct mst_slice bytes = part_of(rep_link_got(in->link, 1));
    struct mst_slice out = mst_buffer_content(&in->bytes);
    struct mst_replica_message message;
    muster_status status;
    const char *why = NULL;

    if (out.size > 0) {
        mst_buffer_take(&in->bytes, rep_link_write(service->replicas, in->link, 1, out));
    }
    if (bytes.size == 0) {
        return !in->link->ends[1].over;
    }
    status = mst_replica_reader_take(&in->reader, bytes);
    rep_link_take(service->replicas, in->link, 1, bytes.size);
    while (status == MUSTER_OK && service->exit == REP_EXIT_NO) {
        status = mst_replica_reader_next(&in->reader, &message, &why);
        if (status == MUSTER_OK && !hear(service, in, &message)) {
            return false;
        }
    }
    if (status == MUSTER_EPROTO) {
        sim_fail(&service->replicas->sim, SIM_P_WELL_FORMED, "from a replica: %s",
                 why ? why : "too much");
    }
    return status == MUSTER_MORE && !in->link->ends[1].over;
}

void rep_peers_turn(struct rep_service *service)
{
    struct rep_in **at = &service->ins;

    for (uint32_t host = 0; host < service->replicas->plan.hosts; host++) {
        read_out(service, host);
    }
    while (*at && service->exit == REP_EXIT_NO) {
        struct rep_in *in = *at;

        if (read_in(service, in)) {
            at = &in->next;
        } else {
            *at = in->next;
            free_in(service, in);
        }
    }
}

void rep_peers_accept_all(struct rep_service *service)
{
    struct rep_wire *wire = &service->replicas->wire;

    for (uint32_t i = wire->first_live; i < wire->count; i++) {
        struct rep_link *link = wire->links[i];

        if (link->ends[1].owner != &service->actor || link->seen) {
            continue;
        }
        link->seen = true;
        if (link->kind == REP_PEER) {
            accept_peer(service, link);
        } else {
            rep_serve_accept(service, link);
        }
    }
}

void rep_peers_fini(struct rep_service *service)
{
    for (uint32_t host = 0; host < REP_HOSTS_MAX; host++) {
        close_out(service, &service->outs[host]);
    }
    while (service->ins) {
        struct rep_in *in = service->ins;

        service->ins = in->next;
        free_in(service, in);
    }
}
