/* SPDX-License-Identifier: Apache-2.0 */
/* The leader's clients. Stop and wait: what came is fed, its records are one entry, and while that
 * entry is under way nothing is fed and nothing leaves. */
#include "service.h"

#include <string.h>

#include "../properties.h"
#include "base/panic.h"
#include "plant.h"
#include "service/core/snapshot.h"
#include "service/journal/input.h"

static uint64_t core_now(const struct rep_service *service)
{
    uint64_t now = (uint64_t)((int64_t)rep_service_clock(service) + service->shift_ns);

    return now > service->core_ns ? now : service->core_ns;
}

/* ---- inputs and their records ---------------------------------------------------------------- */

static bool lasts(struct rep_service *service)
{
    enum mst_weight weight = mst_core_weigh(service->core);

    service->fed = true;
    service->touched = true;
    service->weight = weight > service->weight ? weight : service->weight;
    return weight != MST_WEIGHT_NONE;
}

static bool room(struct rep_service *service, size_t size)
{
    if (mst_gather_room(&service->gather, &service->memory.mem, MST_RECORD_HEAD + size)) {
        return true;
    }
    service->exit = REP_EXIT_ENDED; /* no memory for an input that cannot be refused */
    return false;
}

static muster_status feed_plain(struct rep_service *service, enum mst_record_type type,
                                struct mst_conn conn)
{
    struct mst_journal_record record = {.type = type, .now_ns = core_now(service), .conn = conn.id};
    muster_status status = MUSTER_OK;

    if (!room(service, 0)) {
        return MUSTER_ENOMEM;
    }
    service->core_ns = record.now_ns;
    if (type == MST_RECORD_OPEN) {
        status = mst_core_open(service->core, record.now_ns, conn);
    } else if (type == MST_RECORD_CLOSE) {
        mst_core_close(service->core, record.now_ns, conn);
    } else {
        mst_core_tick(service->core, record.now_ns);
    }
    if (lasts(service) && status == MUSTER_OK) {
        mst_gather_keep(&service->gather, &record, 0);
    }
    return status;
}

static muster_status feed_request(struct rep_service *service, struct mst_conn conn,
                                  const struct mst_request *request)
{
    struct mst_journal_record record = {
        .type = MST_RECORD_REQUEST, .now_ns = core_now(service), .conn = conn.id};
    size_t size = mst_input_request_bytes(request);
    unsigned char *at;
    muster_status status;

    if (!room(service, size)) {
        return MUSTER_ENOMEM;
    }
    at = service->gather.bytes + MST_FRAME_HEAD + service->gather.used;
    service->core_ns = record.now_ns;
    status = mst_core_request(service->core, record.now_ns, conn, request);
    if (lasts(service)) {
        record.flags = mst_input_flags(service->core);
        mst_input_request_write(at + MST_RECORD_HEAD, request, size);
        mst_gather_keep(&service->gather, &record, size);
    }
    return status;
}

/* ---- connections ----------------------------------------------------------------------------- */

static void drop(struct rep_service *service, struct rep_client *client)
{
    if (client->admitted) {
        client->admitted = false;
        (void)feed_plain(service, MST_RECORD_CLOSE, client->conn);
    }
    mst_native_service_free(client->codec);
    rep_link_close(service->replicas, client->link, 1);
    *client = (struct rep_client){.link = NULL};
}

void rep_serve_accept(struct rep_service *service, struct rep_link *link)
{
    bool here = service->serves || PLANT(FOLLOWER_SERVES);

    for (uint32_t i = 0; here && i < REP_CLIENTS_MAX; i++) {
        struct rep_client *client = &service->clients[i];

        if (!client->link) {
            client->link = link;
            return;
        }
    }
    rep_link_close(service->replicas, link, 1); /* not here */
}

static bool admit(struct rep_service *service, struct rep_client *client)
{
    if (mst_native_service_new(&client->codec, &mst_limits_default, &service->memory.mem) !=
        MUSTER_OK) {
        return false;
    }
    /* Never used before: no other leader has this term. */
    client->conn.id = (service->awaits_term << 32) + ++service->conns;
    client->admitted = feed_plain(service, MST_RECORD_OPEN, client->conn) == MUSTER_OK;
    return client->admitted;
}

/* False: the connection is dead. */
static bool read_client(struct rep_service *service, struct rep_client *client)
{
    struct mst_slice in = rep_link_got(client->link, 1);
    struct mst_request request;
    muster_status status;

    if (in.size == 0) {
        return true;
    }
    status = mst_native_stream_feed(&client->codec->stream, in);
    rep_link_take(service->replicas, client->link, 1, in.size);
    while (status == MUSTER_OK) {
        status = mst_native_service_next(client->codec, &request);
        if (status == MUSTER_OK) {
            status = feed_request(service, client->conn, &request);
        }
    }
    return status == MUSTER_MORE;
}

static void take_in(struct rep_service *service)
{
    for (uint32_t i = 0; i < REP_CLIENTS_MAX && service->exit == REP_EXIT_NO; i++) {
        struct rep_client *client = &service->clients[i];
        bool ok = true;

        if (!client->link) {
            continue;
        }
        if (!client->admitted) {
            ok = admit(service, client);
        }
        ok = ok && read_client(service, client);
        if (!ok || client->link->ends[1].over) {
            drop(service, client);
        }
    }
}

/* ---- answers --------------------------------------------------------------------------------- */

static struct rep_client *client_of(struct rep_service *service, struct mst_conn conn)
{
    for (uint32_t i = 0; i < REP_CLIENTS_MAX; i++) {
        if (service->clients[i].admitted && service->clients[i].conn.id == conn.id) {
            return &service->clients[i];
        }
    }
    return NULL;
}

void rep_serve_flush(struct rep_service *service)
{
    for (uint32_t i = 0; i < REP_CLIENTS_MAX; i++) {
        struct rep_client *client = &service->clients[i];
        size_t sent = 1;

        while (client->codec && sent > 0) {
            struct mst_slice output = mst_native_stream_output(&client->codec->stream);

            sent = output.size > 0 ? rep_link_write(service->replicas, client->link, 1, output) : 0;
            if (sent > 0) {
                mst_native_stream_written(&client->codec->stream, sent);
            }
        }
    }
}

/* The turn is committed: what it made may leave. */
static void answer(struct rep_service *service, uint64_t index, uint64_t term)
{
    const struct mst_effect *effect;

    service->touched = true;
    while ((effect = mst_core_next(service->core)) != NULL) {
        struct rep_client *client = client_of(service, effect->conn);
        bool hang_up = effect->type == MST_EFFECT_HANGUP;

        if (client && effect->type == MST_EFFECT_REPLY) {
            if (term != 0) { /* 0: a bug that is planted, which the answers themselves show */
                rep_oracle_tells(service->replicas, service->actor.host, index, term);
            }
            hang_up = mst_native_service_answer(client->codec, effect->reply) != MUSTER_OK;
        }
        mst_core_done(service->core, effect);
        if (hang_up && client) {
            rep_serve_flush(service);
            client->link->ends[1].over = true; /* dropped in the next turn */
        }
    }
    rep_serve_flush(service);
}

/* ---- turns ----------------------------------------------------------------------------------- */

static struct mst_slice payload_of(const struct rep_service *service)
{
    return mst_slice_of(service->gather.bytes + MST_FRAME_HEAD, service->gather.used);
}

/* The records become an entry. Without room on the disk the lead is handed over; until then nothing
 * is fed and nothing leaves. */
static void submit(struct rep_service *service, enum mst_replica_kind kind,
                   struct mst_slice payload)
{
    struct replicas *replicas = service->replicas;
    uint64_t now = rep_service_clock(service);
    uint64_t index = 0;
    muster_status status = mst_replica_submit(service->replica, now, kind, payload, &index);

    MST_ASSERT(status != MUSTER_ELIMIT);
    if (status != MUSTER_OK) {
        if (!service->pending && (status == MUSTER_ENOSPACE || status == MUSTER_ENOMEM)) {
            sim_tell(&replicas->sim, "service %u: an entry is refused: %s", service->actor.host,
                     status == MUSTER_ENOSPACE ? "no room" : "no memory");
            (void)mst_replica_transfer(service->replica, now, 0);
        }
        service->pending = true;
        (void)rep_service_drive(service);
        return;
    }
    service->pending = false;
    service->fed = false;
    service->gather.used = kind == MST_REPLICA_RECORDS ? 0 : service->gather.used;
    service->awaits = index;
    service->awaits_ns = replicas->sim.now_ns;
    if (PLANT(REPLY_FIRST) ||
        (PLANT(READ_FREE) && service->serves && service->weight < MST_WEIGHT_PROMISE)) {
        answer(service, index, service->awaits_term);
    }
    service->weight = MST_WEIGHT_NONE;
    (void)rep_service_drive(service);
}

static void submit_digest(struct rep_service *service)
{
    unsigned char bytes[8];

    mst_put_u64(bytes, mst_core_kept_digest(service->core));
    service->digesting = true;
    submit(service, MST_REPLICA_DIGEST, mst_slice_of(bytes, sizeof(bytes)));
}

void rep_serve_resume(struct rep_service *service)
{
    struct replicas *replicas = service->replicas;
    struct mst_core_config config = rep_core_config(replicas);
    struct mst_replica_status status;
    struct mst_journal_record record = {.type = MST_RECORD_RESUME, .now_ns = service->core_ns};
    size_t body = mst_input_config_bytes();

    service->leads_due = false;
    rep_serve_drop_all(service);
    mst_replica_status_of(service->replica, &status);
    rep_oracle_leads(replicas, status.id, status.term);
    sim_tell(&replicas->sim, "service %u: leads in term %" PRIu64, service->actor.host,
             status.term);
    service->awaits_term = status.term;
    service->shift_ns = (int64_t)service->core_ns - (int64_t)rep_service_clock(service);
    mst_core_drop_effects(service->core);
    service->resuming = true;
    if (PLANT(NO_RESUME)) {
        submit(service, MST_REPLICA_RECORDS, payload_of(service));
        return;
    }
    if (!room(service, body)) {
        return;
    }
    mst_input_config_write(service->gather.bytes + MST_FRAME_HEAD + MST_RECORD_HEAD, &config);
    service->touched = true;
    if (mst_core_resume(service->core, record.now_ns, &config) != MUSTER_OK) {
        service->exit = REP_EXIT_ENDED;
        return;
    }
    mst_core_drop_effects(service->core);
    (void)mst_core_weigh(service->core);
    mst_gather_keep(&service->gather, &record, body);
    submit(service, MST_REPLICA_RECORDS, payload_of(service));
}

/* The entry of the turn is committed in the present term. */
void rep_serve_committed(struct rep_service *service)
{
    uint64_t index = service->awaits;

    service->awaits = 0;
    service->applied = index;
    if (service->resuming) {
        service->resuming = false;
        service->serves = true;
        sim_tell(&service->replicas->sim, "service %u: serves", service->actor.host);
    }
    if (service->digesting) {
        service->digesting = false;
        service->digest_at = index + service->replicas->plan.digest_every;
        return;
    }
    answer(service, index, service->awaits_term);
}

/* A bug that is planted: a follower answers from its own state, as it was when the first client
 * came. Nothing of that reaches the log. */
static void serve_astray(struct rep_service *service)
{
    struct mst_core *own = service->core;
    uint64_t core_ns = service->core_ns;

    if (!service->astray) {
        service->astray = rep_service_copy(service);
        service->shift_ns = (int64_t)core_ns - (int64_t)rep_service_clock(service);
    }
    if (!service->astray) {
        return;
    }
    service->core = service->astray;
    service->core_ns = service->astray_ns > core_ns ? service->astray_ns : core_ns;
    take_in(service);
    answer(service, 0, 0);
    service->astray_ns = service->core_ns;
    service->core = own;
    service->core_ns = core_ns;
    service->gather.used = 0;
    service->weight = MST_WEIGHT_NONE;
    service->fed = false;
}

void rep_serve_turn(struct rep_service *service)
{
    if (PLANT(FOLLOWER_SERVES) && !service->serves && !service->resuming && service->awaits == 0 &&
        !service->pending) {
        serve_astray(service);
        return;
    }
    if (service->awaits != 0) {
        return;
    }
    if (service->pending) {
        if (service->digesting) {
            submit_digest(service);
        } else {
            submit(service, MST_REPLICA_RECORDS, payload_of(service));
        }
        return;
    }
    if (!service->serves) {
        return;
    }
    if (service->applied >= service->digest_at) {
        submit_digest(service);
        return;
    }
    take_in(service);
    if (service->exit == REP_EXIT_NO &&
        (service->fed || core_now(service) >= mst_core_deadline_ns(service->core))) {
        (void)feed_plain(service, MST_RECORD_TICK, (struct mst_conn){.id = 0});
    }
    if (service->exit == REP_EXIT_NO && service->fed) {
        submit(service, MST_REPLICA_RECORDS, payload_of(service));
    }
}

uint64_t rep_serve_deadline_ns(const struct rep_service *service)
{
    uint64_t deadline;

    if (service->pending) {
        return rep_service_clock(service) + service->replicas->plan.election_ns / 4;
    }
    if (!service->serves || service->awaits != 0) {
        return UINT64_MAX;
    }
    deadline = mst_core_deadline_ns(service->core);
    return deadline == UINT64_MAX ? UINT64_MAX : (uint64_t)((int64_t)deadline - service->shift_ns);
}

/* All of them are gone, without a record: what follows is a RESUME. */
void rep_serve_drop_all(struct rep_service *service)
{
    for (uint32_t i = 0; i < REP_CLIENTS_MAX; i++) {
        struct rep_client *client = &service->clients[i];

        if (client->link) {
            mst_native_service_free(client->codec);
            rep_link_close(service->replicas, client->link, 1);
            *client = (struct rep_client){.link = NULL};
        }
    }
    mst_core_free(service->astray);
    service->astray = NULL;
}

void rep_serve_fini(struct rep_service *service)
{
    rep_serve_drop_all(service);
    mst_gather_fini(&service->gather, &service->memory.mem);
}
