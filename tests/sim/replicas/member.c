/* SPDX-License-Identifier: Apache-2.0 */
/* A member of the job: the real client machine and codec, and a little work. All of them append to
 * one key and read it. What a read shows proves which appends were applied, once, in which order;
 * so an answer that a later one contradicts is seen at once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../properties.h"
#include "base/panic.h"
#include "oracle.h"
#include "proto/status.h"

enum { TOKEN = 8 };

static uint64_t clock_of(const struct replicas *replicas, const struct rep_member *member)
{
    return rep_clock(replicas, member->actor.host);
}

/* ---- the list ---------------------------------------------------------------------------------
 *
 * Every answer agrees with every other one: of two values one is the beginning of the other. */

static void shown(struct replicas *replicas, const struct rep_member *member,
                  struct mst_slice value)
{
    if (value.size < member->least) {
        sim_fail(&replicas->sim, SIM_P_TOLD_STAYS,
                 "member %u is shown %zu bytes, when it asked there were %zu already",
                 member->place, value.size, member->least);
    }
    rep_oracle_shown(replicas, member->place, value);
}

/* An append says how long the value is with it; the bytes before it may not have been shown yet. */
static void appended(struct replicas *replicas, struct rep_member *member, size_t size)
{
    if (size < member->least + TOKEN || size % TOKEN != 0) {
        sim_fail(&replicas->sim, SIM_P_TOLD_STAYS,
                 "member %u appends, and the value is %zu bytes; when it asked there were %zu",
                 member->place, size, member->least);
    }
    rep_oracle_append(replicas, size, member->token_text);
}

/* ---- work ------------------------------------------------------------------------------------ */

static void call(struct replicas *replicas, struct rep_member *member)
{
    struct sim *sim = &replicas->sim;
    struct mst_request request = {.command = MST_GET, .get.key = mst_slice_text("list")};
    struct mst_write write = {.kind = MST_APPEND, .key = mst_slice_text("list")};
    uint64_t what = sim_below(sim, 100);

    member->op = REP_GET;
    if (what < 55) {
        member->op = REP_APPEND;
        (void)snprintf(member->token_text, sizeof(member->token_text), "%c%06u;",
                       (char)('a' + (int)member->place), (unsigned)(++member->tokens % 1000000));
        write.value = mst_slice_text(member->token_text);
        request = (struct mst_request){.command = MST_WRITE, .write = {.ops = &write, .count = 1}};
    }
    member->least = rep_oracle_known(replicas);
    if (mst_client_call(member->client, clock_of(replicas, member), &request, UINT64_MAX,
                        ++member->tags) == MUSTER_OK) {
        member->busy = true;
    }
}

static void work(struct replicas *replicas, struct rep_member *member)
{
    struct sim *sim = &replicas->sim;

    if (!member->busy && !member->ended && sim->now_ns >= member->next_ns) {
        call(replicas, member);
    }
}

static void call_done(struct replicas *replicas, struct rep_member *member,
                      const struct mst_client_effect *effect)
{
    const struct mst_reply *reply = effect->local ? NULL : effect->reply;
    struct sim *sim = &replicas->sim;

    member->busy = false;
    member->calls++;
    member->next_ns = sim->now_ns + sim_below(sim, replicas->plan.pause_ns);
    sim_tell(sim, "member %u: %s ends with %s, %" PRId64, member->place,
             member->op == REP_APPEND ? "append" : "get", mst_status_name(effect->status),
             reply ? reply->number : 0);
    if (effect->status == MUSTER_OK && reply && member->op == REP_APPEND) {
        appended(replicas, member, (size_t)reply->number);
    } else if (effect->status == MUSTER_OK && reply) {
        shown(replicas, member, reply->value);
    } else if (effect->status == MUSTER_ENOTFOUND && member->op == REP_GET) {
        shown(replicas, member, mst_slice_of(NULL, 0));
    }
}

/* ---- the connection -------------------------------------------------------------------------- */

static void hang_up(struct replicas *replicas, struct rep_member *member)
{
    if (member->link) {
        rep_link_close(replicas, member->link, 0);
        mst_native_client_free(member->codec);
        member->codec = NULL;
        member->link = NULL;
    }
}

static void lost_link(struct replicas *replicas, struct rep_member *member)
{
    hang_up(replicas, member);
    mst_client_disconnected(member->client, clock_of(replicas, member));
}

static void flush(struct replicas *replicas, struct rep_member *member)
{
    while (member->link && member->codec) {
        struct mst_slice output = mst_native_stream_output(&member->codec->stream);
        size_t sent = output.size ? rep_link_write(replicas, member->link, 0, output) : 0;

        if (sent == 0) {
            return;
        }
        mst_native_stream_written(&member->codec->stream, sent);
    }
}

static void send_one(struct replicas *replicas, struct rep_member *member,
                     const struct mst_request *request)
{
    if (member->codec) {
        muster_status status = mst_native_client_send(member->codec, request);

        if (status != MUSTER_OK) {
            mst_client_refused(member->client, clock_of(replicas, member), request->id, status);
        }
    }
}

static void attention(struct replicas *replicas, struct rep_member *member)
{
    bool stopped = mst_client_stopped(member->client);

    if (stopped != member->stopped) {
        member->stopped = stopped;
        sim_tell(&replicas->sim, "member %u: %s", member->place, stopped ? "stops" : "goes on");
        if (stopped) {
            rep_oracle_stopped(replicas, member);
        }
    }
}

static void effect_of(struct replicas *replicas, struct rep_member *member,
                      const struct mst_client_effect *effect)
{
    switch (effect->type) {
    case MST_CLIENT_CONNECT:
        sim_tell(&replicas->sim, "member %u: connects to host %u", member->place, effect->endpoint);
        member->link =
            rep_link_open(replicas, &member->actor, rep_service_actor(replicas, effect->endpoint),
                          effect->endpoint, REP_CLIENT);
        break;
    case MST_CLIENT_SEND:
        send_one(replicas, member, effect->request);
        break;
    case MST_CLIENT_DONE:
        call_done(replicas, member, effect);
        break;
    case MST_CLIENT_ATTENTION:
        attention(replicas, member);
        break;
    case MST_CLIENT_DISCONNECT:
        flush(replicas, member);
        hang_up(replicas, member);
        break;
    case MST_CLIENT_ENDED:
        sim_tell(&replicas->sim, "member %u: the session ends with %s", member->place,
                 mst_status_name(effect->status));
        member->ended = true;
        rep_oracle_ended(replicas, member, effect->status);
        break;
    }
}

static void pump(struct replicas *replicas, struct rep_member *member)
{
    const struct mst_client_effect *effect;

    while ((effect = mst_client_next(member->client)) != NULL) {
        effect_of(replicas, member, effect);
        mst_client_done(member->client, effect);
    }
}

/* False: the connection is dead. */
static bool read_some(struct replicas *replicas, struct rep_member *member)
{
    struct rep_link *link = member->link;
    struct mst_slice in = rep_link_got(link, 0);
    struct mst_reply reply;
    muster_status status = mst_native_stream_feed(&member->codec->stream, in);

    mst_client_heard(member->client, clock_of(replicas, member));
    rep_link_take(replicas, link, 0, in.size);
    while (status == MUSTER_OK) {
        status = mst_native_client_next(member->codec, &reply);
        if (status == MUSTER_OK) {
            mst_client_reply(member->client, clock_of(replicas, member), &reply);
            pump(replicas, member);
            if (member->link != link) {
                return true;
            }
        }
    }
    return status == MUSTER_MORE;
}

static void look_at_link(struct replicas *replicas, struct rep_member *member)
{
    struct rep_link *link = member->link;

    if (link && !member->codec && link->attempt == REP_REFUSED) {
        lost_link(replicas, member);
    } else if (link && !member->codec && link->attempt == REP_ACCEPTED) {
        MST_ASSERT(mst_native_client_new(&member->codec, &mst_limits_default,
                                         &replicas->sim.memory.mem) == MUSTER_OK);
        mst_client_connected(member->client, clock_of(replicas, member));
        pump(replicas, member);
    }
    while (member->link && member->link == link && member->codec &&
           rep_link_got(link, 0).size > 0) {
        if (!read_some(replicas, member)) {
            lost_link(replicas, member);
        }
    }
    if (member->link && member->link == link && member->codec && link->ends[0].over) {
        lost_link(replicas, member);
    }
}

static void look(struct replicas *replicas, struct rep_actor *actor)
{
    struct rep_member *member = (struct rep_member *)(void *)actor;
    uint64_t due;

    look_at_link(replicas, member);
    pump(replicas, member);
    member->opened = member->opened || mst_client_online(member->client);
    mst_client_tick(member->client, clock_of(replicas, member));
    pump(replicas, member);
    work(replicas, member);
    pump(replicas, member);
    flush(replicas, member);
    mst_client_check(member->client);
    due =
        sim_clock_when(&replicas->hosts[actor->host].clock, mst_client_deadline_ns(member->client));
    if (!member->busy && !member->ended && member->next_ns < due) {
        due = member->next_ns;
    }
    if (due != SIM_NEVER) {
        rep_wake(replicas, actor, due > replicas->sim.now_ns ? due : replicas->sim.now_ns + 1);
    }
}

/* ---- birth and death ------------------------------------------------------------------------- */

void rep_member_begin(struct replicas *replicas, uint32_t place, uint32_t host)
{
    struct rep_member *member = &replicas->members[place];
    struct sim *sim = &replicas->sim;
    uint64_t life = member->actor.life + 1;
    uint64_t tokens = member->tokens;
    uint64_t calls = member->calls;
    char name[4] = {'h', (char)('0' + (int)(host % 10)), 0, 0};
    struct mst_client_config config = {
        .seed = mst_prng_next(&sim->prng),
        .endpoint_count = replicas->plan.hosts,
        .limits = mst_limits_default,
    };

    mst_client_free(member->client);
    *member = (struct rep_member){
        .actor = {.host = host, .alive = true, .life = life, .wake_ns = SIM_NEVER, .look = look},
        .place = place,
        .pid = ++replicas->pids,
        .token = {mst_prng_next(&sim->prng), mst_prng_next(&sim->prng)},
        .reach_ns = SIM_NEVER,
        .tokens = tokens,
        .calls = calls,
        .next_ns = sim->now_ns};
    config.open = (struct mst_open){.token = member->token,
                                    .job = mst_slice_text("j"),
                                    .role = MST_ROLE_RANK,
                                    .index = place,
                                    .size = replicas->plan.members,
                                    .host = mst_slice_text(name),
                                    .pid = member->pid,
                                    .node = MST_NODE_NONE};
    MST_ASSERT(mst_client_new(&member->client, &config, &sim->memory.mem) == MUSTER_OK);
    sim_tell(sim, "member %u: begins on host %u, pid=%" PRIu64, place, host, member->pid);
    mst_client_start(member->client, clock_of(replicas, member));
    rep_wake(replicas, &member->actor, sim->now_ns);
}

void rep_member_kill(struct replicas *replicas, struct rep_member *member, bool with_host)
{
    if (member->actor.alive) {
        sim_tell(&replicas->sim, "member %u: is killed", member->place);
        member->actor.alive = false;
        member->actor.frozen = false;
        rep_wire_death(replicas, &member->actor, with_host);
        if (member->codec) {
            mst_native_client_free(member->codec);
            member->codec = NULL;
        }
        member->link = NULL;
    }
}

void rep_member_fini(struct replicas *replicas, struct rep_member *member)
{
    (void)replicas;
    if (member->codec) {
        mst_native_client_free(member->codec);
    }
    mst_client_free(member->client);
}
