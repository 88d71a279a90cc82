/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "launch/nodes/nodes.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch/cause.h"
#include "launch/job.h"
#include "launch/say.h"
#include "net/elsewhere.h"
#include "net/rendezvous.h"

#define TICK_MS 500u
#define FAREWELL_MS                                                                                \
    10000u /* what a node tells or waits to be told when the run ends, at the most */
#define EXIT_ALONE 1

/* ---- what the service tells, with the client's lock held ---- */

static void on_agent(struct mst_run_job *job, const struct mst_who *who)
{
    struct mst_peer *peer;

    if (who->index >= job->options->nodes_max) {
        return;
    }
    peer = &job->nodes.peers[who->index];
    peer->seen = true;
    peer->here = mst_state_is_here(who->state);
    if (!peer->here) {
        peer->state = MST_PEER_RUNS;
    }
}

static void on_member(struct mst_run_job *job, const struct mst_who *who)
{
    if (who->role == MST_ROLE_AGENT) {
        on_agent(job, who);
    } else if (who->role == MST_ROLE_RANK && who->index < mst_run_indices(job->options)) {
        job->nodes.ranks_here[who->index] = mst_state_is_here(who->state);
    }
    if (who->role == MST_ROLE_RANK || who->role == MST_ROLE_WORKER) {
        mst_place_member(job, who);
    }
}

static void take_cause(struct mst_nodes *nodes, const struct mst_run_word *word)
{
    nodes->cause_code = word->code;
    (void)snprintf(nodes->cause_text, sizeof nodes->cause_text, "%.*s", MST_SLICE_ARGS(word->text));
    (void)snprintf(nodes->cause_report, sizeof nodes->cause_report, "%.*s",
                   MST_SLICE_ARGS(word->report));
    nodes->cause_told = true;
}

static void take_key(struct mst_run_job *job, const struct mst_run_word *word)
{
    struct mst_nodes *nodes = &job->nodes;

    switch (word->key) {
    case MST_RUN_KEY_ALL:
        nodes->all_heard = word->all;
        nodes->all_told = true;
        return;
    case MST_RUN_KEY_FINISHED:
        if (word->number >= nodes->lives_finished && word->number < UINT32_MAX) {
            nodes->lives_finished = word->number + 1;
        }
        return;
    case MST_RUN_KEY_LIFE:
        mst_group_heard(&job->group, word->number, word->text);
        return;
    case MST_RUN_KEY_RESTARTS:
        nodes->restarts_told = word->number;
        return;
    case MST_RUN_KEY_MASTER_PORT:
        nodes->port_told = (uint16_t)word->number;
        return;
    case MST_RUN_KEY_END:
        nodes->end_number = word->number;
        nodes->end_signal = word->code;
        nodes->end_told = true;
        return;
    case MST_RUN_KEY_CAUSE:
        take_cause(nodes, word);
        return;
    }
}

/* What follows in `name` after its beginning. */
static bool cut(struct mst_slice name, const char *beginning, struct mst_slice *rest_out)
{
    struct mst_slice head = mst_slice_text(beginning);

    if (name.size <= head.size || !mst_slice_starts_with(name, head)) {
        return false;
    }
    *rest_out = mst_slice_of((const char *)name.data + head.size, name.size - head.size);
    return true;
}

static void on_key(struct mst_run_job *job, const struct mst_item *item)
{
    struct mst_slice name;
    struct mst_run_word word;
    struct mst_run_peer peer;

    if (cut(item->name, MST_SESSION_KEYS, &name)) {
        mst_replicas_heard(job, name, &item->value);
        mst_reach_heard(job, name, item->value);
        if (item->value.size < MST_NOTE_MAX && mst_run_key_read(name, item->value, &word)) {
            take_key(job, &word);
        }
    } else if (cut(item->name, MST_RUN_REPLICA_PREFIX, &name)) {
        mst_leaders_heard(job, name, item->value);
    } else if (cut(item->name, MST_SESSION_NODE_KEYS, &name) &&
               mst_run_peer_read(name, item->value, &peer) &&
               peer.number < job->options->nodes_max) {
        job->nodes.peers[peer.number].state = peer.state;
        job->nodes.peers[peer.number].life = peer.life;
    }
}

static void on_item(struct mst_run_job *job, const struct mst_item *item)
{
    struct mst_slice name;

    if (item->kind == MST_ITEM_MEMBER) {
        on_member(job, &item->who);
    } else if (item->kind == MST_ITEM_RESET) {
        job->nodes.listed = job->nodes.all_told = false;
        mst_replicas_reset(job);
    } else if (item->kind == MST_ITEM_KEY) {
        on_key(job, item);
    } else if (item->kind == MST_ITEM_DELETED && cut(item->name, MST_SESSION_KEYS, &name)) {
        job->nodes.all_told = job->nodes.all_told && !mst_slice_is(name, "all");
        mst_replicas_heard(job, name, NULL);
    }
}

static muster_status on_reply(void *ctx, const struct mst_reply *reply)
{
    struct mst_run_job *job = ctx;

    mst_shared_lock(&job->shared);
    for (uint32_t i = 0; i < reply->item_count; i++) {
        on_item(job, &reply->items[i]);
    }
    mst_faults_heard(&job->faults, reply);
    job->nodes.listed = job->nodes.listed || mst_follow_listed(reply);
    mst_shared_unlock(&job->shared);
    mst_shared_wake(&job->shared);
    return MUSTER_OK;
}

static void on_over(void *ctx, muster_status status)
{
    struct mst_run_job *job = ctx;

    if (status == MUSTER_EFENCED) {
        atomic_store(&job->nodes.given_up, true);
        mst_shared_wake(&job->shared);
    }
}

/* ---- this node, to the others ---- */

/* On a node that follows all nodes: with the run's lock held. */
static struct mst_all look_at_all(const struct mst_run_job *job)
{
    const struct mst_nodes *nodes = &job->nodes;
    struct mst_all all = {.life = UINT32_MAX};
    uint32_t seen = 0, here = 0;
    bool waits = false;

    for (uint32_t i = 0; i < job->options->nodes_max; i++) {
        const struct mst_peer *peer = &nodes->peers[i];

        seen += peer->seen;
        here += peer->here;
        all.runs = all.runs || (peer->here && peer->state == MST_PEER_RUNS);
        waits = waits || (peer->here && peer->state == MST_PEER_WAITS);
        if (peer->here && peer->life < all.life) {
            all.life = peer->life;
        }
    }
    all.done = nodes->listed && seen >= job->options->nodes_min && !all.runs && !waits;
    all.runs = all.runs || !nodes->listed;
    all.life = nodes->listed && all.life != UINT32_MAX ? all.life : 0;
    if (!job->places.uses_muster && here < job->options->nodes_min) {
        all.life = 0; /* ranks without muster would wait for those of the others in vain */
    }
    all.ender_gone = nodes->listed && nodes->end_told &&
                     nodes->end_number < job->options->nodes_max &&
                     !nodes->peers[nodes->end_number].here;
    return all;
}

/* As node 0 reports it, or as seen on a node that follows all. What is unknown is not over. */
static struct mst_all all_of(struct mst_run_job *job)
{
    const struct mst_nodes *nodes = &job->nodes;
    struct mst_all all = {.runs = true};

    mst_shared_lock(&job->shared);
    if (!nodes->narrow) {
        all = look_at_all(job);
    } else if (nodes->all_told) {
        all = nodes->all_heard;
    }
    mst_shared_unlock(&job->shared);
    return all;
}

static void say_all(struct mst_run_job *job)
{
    struct mst_nodes *nodes = &job->nodes;
    const struct mst_all all = all_of(job);
    char value[MST_RUN_VALUE_ROOM];

    if (!nodes->first || !mst_run_several(job->options) || nodes->joining) {
        return;
    }
    mst_run_all_write(value, &all);
    if (strcmp(value, nodes->all.value) != 0) {
        mst_session_write(&job->session, &nodes->all, value);
    }
}

/* As the newest of node 0; what it wrote before it knew this life was of the one before. */
static void take_port(struct mst_run_job *job)
{
    struct mst_nodes *nodes = &job->nodes;

    mst_shared_lock(&job->shared);
    if (!nodes->first && nodes->port_told != 0) {
        nodes->master_port = nodes->port_told;
    }
    mst_shared_unlock(&job->shared);
}

void mst_nodes_begin_life(struct mst_run_job *job)
{
    struct mst_note *finished = &job->nodes.finished;

    take_port(job);
    job->nodes.over_ns = 0;
    finished->value[0] = '\0';
    finished->insert = true; /* once is enough, or each would be told of each */
    (void)snprintf(finished->key, sizeof finished->key, MST_SESSION_KEYS "finished/%" PRIu32,
                   job->group.life);
    mst_fronted_begin(job);
}

static void hear_restarts(struct mst_run_job *job, int64_t restarts)
{
    uint32_t most = job->options->max_restarts;

    if (restarts > job->places.restarts) {
        job->places.restarts = restarts < most ? (uint32_t)restarts : most;
    }
}

void mst_nodes_begin(struct mst_run_job *job)
{
    struct mst_nodes *nodes = &job->nodes;
    uint32_t restarts;

    nodes->state = (struct mst_note){.owned = true};
    (void)snprintf(nodes->state.key, sizeof nodes->state.key, MST_SESSION_NODE_KEYS "%" PRIu32,
                   nodes->number);
    nodes->all = (struct mst_note){.owned = true, .key = MST_SESSION_KEYS "all"};
    nodes->restarts = (struct mst_counter){.note.key = MST_SESSION_KEYS "restarts"};
    nodes->end = (struct mst_note){.insert = true, .key = MST_SESSION_KEYS "end"};
    nodes->cause = (struct mst_note){.key = MST_SESSION_KEYS "cause"};
    atomic_store(&nodes->given_up, false);
    mst_shared_lock(&job->shared);
    nodes->narrow = !nodes->first;
    nodes->listed = nodes->all_told = false;
    nodes->port_told = 0;
    memset(nodes->peers, 0, job->options->nodes_max * sizeof *nodes->peers);
    memset(nodes->ranks_here, 0, mst_run_indices(job->options) * sizeof *nodes->ranks_here);
    for (uint32_t i = 0; i < job->places.count; i++) {
        job->places.list[i].index = nodes->number * job->places.count + i;
        job->places.list[i].asks = job->places.list[i].refused = false;
    }
    job->group.claim = (struct mst_note){0};
    job->group.life = job->group.told; /* the one the others are in */
    job->group.ends = job->group.told > 0;
    job->group.asks = false;
    restarts = nodes->restarts_told;
    mst_shared_unlock(&job->shared);
    hear_restarts(job, restarts);
    nodes->finished = (struct mst_note){0};
    mst_preempted_begin(job);
    mst_plain_begin(job);
    mst_replicas_begin(job);
    mst_reach_begin(job);
    mst_leaders_begin(job);
    mst_stopped_begin(job);
    mst_fronted_joined(job);
    mst_restarts_left_begin(job);
    mst_nodes_begin_life(job);
    if (!nodes->narrow) {
        mst_faults_follow(&job->faults, &job->session);
    }
    job->session.follow = (struct mst_lib_follow){.take = on_reply, .over = on_over, .ctx = job};
    mst_session_watch(&job->session, nodes->narrow ? nodes->number : MST_NODE_NONE);
    mst_nodes_state(job, MST_PEER_RUNS);
    say_all(job); /* before another node can join: a missing key then means that node 0 is lost */
}

void mst_nodes_state(struct mst_run_job *job, enum mst_peer_state state)
{
    char value[MST_RUN_VALUE_ROOM];

    mst_run_peer_write(value, state, job->group.life);
    if (mst_run_several(job->options) && strcmp(job->nodes.state.value, value) != 0) {
        mst_session_write(&job->session, &job->nodes.state, value);
    }
}

void mst_nodes_choose_port(struct mst_run_job *job)
{
    struct mst_nodes *nodes = &job->nodes;
    char value[MST_RUN_VALUE_ROOM];

    if (nodes->first) {
        nodes->master_port = mst_rendezvous_free_port(nodes->master_host);
        (void)snprintf(value, sizeof value, "%u", nodes->master_port);
        mst_session_put_with(&job->session, &nodes->state, MST_SESSION_KEYS "master_port", value);
    }
}

/* What node 0 says does not do: this node looks itself. */
static void widen(struct mst_run_job *job)
{
    struct mst_nodes *nodes = &job->nodes;

    if (nodes->narrow && !nodes->joining && !nodes->rejoins && job->session.client != NULL) {
        nodes->narrow = false;
        mst_faults_follow(&job->faults, &job->session);
        mst_session_widen(&job->session);
    }
}

void mst_nodes_ask_restart(struct mst_run_job *job, struct mst_place *place)
{
    bool may = job->places.restarts < job->options->max_restarts;

    if (mst_run_several(job->options)) {
        place->asks = true;
        mst_session_ask(&job->session, &job->nodes.restarts);
        if (!may && mst_run_enough(job->options) != 0 &&
            mst_run_enough(job->options) < mst_run_indices(job->options)) {
            widen(job); /* how many are left will be asked right after the answer */
        }
    } else {
        job->places.restarts += may;
        mst_place_go_on(place, may);
    }
}

void mst_nodes_finished(struct mst_run_job *job)
{
    if (mst_run_several(job->options) && job->nodes.finished.value[0] == '\0') {
        mst_session_write(&job->session, &job->nodes.finished, "1");
    }
}

void mst_nodes_end(struct mst_run_job *job, int number)
{
    char value[MST_RUN_VALUE_ROOM];

    if (mst_run_several(job->options) && !job->nodes.joining && mst_ending_decided(job)) {
        mst_run_end_write(value, job->nodes.number, number);
        mst_session_write(&job->session, &job->nodes.end, value);
    }
}

/* ---- the others, as this node knows them ---- */

static bool others_are_here(struct mst_run_job *job)
{
    bool any = false;

    mst_shared_lock(&job->shared);
    for (uint32_t i = 0; i < job->options->nodes_max; i++) {
        any = any || (i != job->nodes.number && job->nodes.peers[i].here);
    }
    mst_shared_unlock(&job->shared);
    return any;
}

bool mst_nodes_others_run(struct mst_run_job *job)
{
    return mst_run_several(job->options) && all_of(job).runs;
}

bool mst_nodes_all_in_life(struct mst_run_job *job, uint32_t life)
{
    return !mst_run_several(job->options) || all_of(job).life >= life;
}

uint32_t mst_nodes_missing(struct mst_run_job *job)
{
    uint32_t here = 0;
    bool listed;

    mst_shared_lock(&job->shared);
    listed = job->nodes.listed && !job->nodes.narrow;
    for (uint32_t i = 0; i < job->options->nodes_max; i++) {
        here += job->nodes.peers[i].here;
    }
    mst_shared_unlock(&job->shared);
    return listed && here < job->options->nodes_min ? job->options->nodes_min - here : 0;
}

bool mst_nodes_finished_elsewhere(struct mst_run_job *job)
{
    bool finished;

    mst_shared_lock(&job->shared);
    finished = job->nodes.lives_finished > job->group.life && mst_run_several(job->options);
    mst_shared_unlock(&job->shared);
    return finished;
}

uint32_t mst_nodes_ranks_elsewhere(struct mst_run_job *job)
{
    uint32_t first = job->nodes.number * job->places.count, here = 0;

    mst_shared_lock(&job->shared);
    for (uint32_t i = 0; i < mst_run_indices(job->options); i++) {
        here += job->nodes.ranks_here[i] && (i < first || i - first >= job->places.count);
    }
    mst_shared_unlock(&job->shared);
    return here;
}

/* ---- leaving ---- */

static bool late(const struct mst_run_job *job)
{
    return mst_lib_now_ns() - job->nodes.over_ns > (uint64_t)FAREWELL_MS * NS_PER_MS;
}

/* This node decided the end, unless another was earlier: then it is the other's. */
static bool cause_is_told(struct mst_run_job *job)
{
    struct mst_nodes *nodes = &job->nodes;
    char report[MST_NOTE_MAX - 1000], value[MST_NOTE_MAX];
    struct mst_first_cause cause;
    muster_status status;

    if (!mst_session_told(&job->session, &nodes->end, &status)) {
        return late(job);
    }
    if (status == MUSTER_EEXISTS) {
        job->end.how = MST_ENDS_ELSEWHERE;
        return false;
    }
    if (nodes->cause.value[0] == '\0') {
        mst_output_drain(job->output); /* the last words of the one that failed are in it */
        mst_cause_find(job, &cause);
        mst_report_cause(job, report, sizeof report);
        (void)snprintf(value, sizeof value, "%d %.899s\n%s", mst_cause_code(job), cause.text,
                       report);
        mst_session_write(&job->session, &nodes->cause, value);
    }
    return mst_session_told(&job->session, &nodes->cause, &status) || late(job);
}

static bool cause_is_known(struct mst_run_job *job)
{
    bool known;

    mst_shared_lock(&job->shared);
    known = job->nodes.cause_told;
    mst_shared_unlock(&job->shared);
    return known || all_of(job).ender_gone || late(job);
}

static bool nothing_left_to_say(struct mst_run_job *job)
{
    muster_status status;

    if (mst_ending_decided(job)) {
        return cause_is_told(job);
    }
    if (job->end.how == MST_ENDS_ELSEWHERE) {
        return cause_is_known(job);
    }
    /* Ended well, as far as this node knows: so did the others, or they will say otherwise. */
    mst_nodes_state(job, MST_PEER_DONE);
    return mst_session_told(&job->session, &job->nodes.state, &status) && all_of(job).done;
}

bool mst_nodes_may_leave(struct mst_run_job *job)
{
    struct mst_nodes *nodes = &job->nodes;

    if (!mst_run_several(job->options) || nodes->joining || job->session.client == NULL ||
        job->end.how == MST_ENDS_ALONE) {
        return true;
    }
    if (nodes->over_ns == 0) {
        nodes->over_ns = mst_lib_now_ns();
    }
    if (!nothing_left_to_say(job)) {
        return false;
    }
    /* The service goes last: the others have still to read in it, and to take their leave. But of
     * one that does not answer nobody can. */
    return !nodes->first || (late(job) && mst_session_silent(&job->session)) ||
           !others_are_here(job);
}

/* ---- on the loop ---- */

/* The service has decided that this node is lost, and its ranks with it. They know it too, and do
 * nothing any more. */
static void on_given_up(struct mst_run_job *job)
{
    struct mst_nodes *nodes = &job->nodes;
    bool again = job->places.restarts < job->options->max_restarts;
    char then[64];

    if (job->end.how != MST_GOES_ON || job->end.closing) {
        return;
    }
    (void)snprintf(then, sizeof then,
                   "is not started again: %" PRIu32 " of %" PRIu32 " restart%s used",
                   job->places.restarts, job->options->max_restarts,
                   job->options->max_restarts == 1 ? " is" : "s are");
    if (again) {
        job->places.restarts++; /* the others are told when it is back */
        (void)snprintf(then, sizeof then, "comes back as a newcomer (%" PRIu32 " of %" PRIu32 ")",
                       job->places.restarts, job->options->max_restarts);
    }
    mst_say("node %" PRIu32
            " (%s) was given up: it was cut off, or stood still, for longer than the "
            "lease; its %" PRIu32 " rank%s killed, and it %s",
            nodes->number, job->host, job->places.count, job->places.count == 1 ? " is" : "s are",
            then);
    if (!again) {
        nodes->alone = "it was given up, and no restart is left";
        mst_ending_begin(job, MST_ENDS_ALONE, SIGKILL);
        return;
    }
    nodes->rejoins = true;
    for (uint32_t i = 0; i < job->places.count; i++) {
        (void)uv_timer_stop(&job->places.list[i].again);
    }
    mst_ending_signal(job, SIGKILL);
}

static void take_answers(struct mst_run_job *job)
{
    int64_t sum;

    for (uint32_t i = 0; i < job->places.count; i++) {
        struct mst_place *place = &job->places.list[i];

        if (!place->asks || !mst_session_answer(&job->session, &job->nodes.restarts, &sum)) {
            continue;
        }
        place->asks = false;
        hear_restarts(job, sum);
        if (sum <= job->options->max_restarts) {
            mst_place_go_on(place, true);
        } else {
            place->refused = true;
        }
    }
}

/* Without those that are not started again, if all others were there. */
static bool enough_may_be_left(const struct mst_run_job *job)
{
    uint32_t left = mst_run_indices(job->options) - job->places.count;

    for (uint32_t i = 0; i < job->places.count; i++) {
        left += job->places.list[i].state != MST_PLACE_GIVEN_UP && !job->places.list[i].refused;
    }
    return left >= mst_run_enough(job->options);
}

/* Those that are not started again. Only a node that follows all knows whether enough are left;
 * where there cannot be, the end is not kept waiting. */
static void give_up_refused(struct mst_run_job *job)
{
    const struct mst_nodes *nodes = &job->nodes;
    bool known;

    mst_shared_lock(&job->shared);
    known = mst_run_enough(job->options) == 0 || (nodes->listed && !nodes->narrow) ||
            !enough_may_be_left(job);
    mst_shared_unlock(&job->shared);
    for (uint32_t i = 0; i < job->places.count; i++) {
        struct mst_place *place = &job->places.list[i];

        if (place->refused && known) {
            place->refused = false;
            mst_place_go_on(place, false);
        } else if (place->refused) {
            widen(job);
        }
    }
}

void mst_nodes_look(struct mst_run_job *job)
{
    struct mst_nodes *nodes = &job->nodes;
    bool end, nobody_says;
    uint32_t restarts;
    int number;

    mst_shared_lock(&job->shared);
    end = nodes->end_told;
    nobody_says = nodes->listed && !nodes->all_told;
    number = nodes->end_signal;
    restarts = nodes->restarts_told;
    mst_shared_unlock(&job->shared);
    if (!nodes->joining) {
        take_answers(job);
    }
    if (nobody_says) {
        widen(job);
    }
    say_all(job);
    mst_replicas_look(job);
    give_up_refused(job);
    hear_restarts(job, restarts);
    if (atomic_exchange(&nodes->given_up, false) && job->service.lost == 0) {
        on_given_up(job);
    }
    if (end && mst_run_several(job->options) &&
        (job->end.how == MST_GOES_ON || job->end.how == MST_ENDS_WELL)) {
        job->end.how = MST_GOES_ON;
        mst_ending_begin(job, MST_ENDS_ELSEWHERE, number);
    }
    if (nodes->rejoins && !nodes->joining && job->end.how == MST_GOES_ON &&
        !mst_place_any(&job->places, MST_PLACE_RUNS)) {
        mst_announcer_reset(&job->preempted.announcer);
        mst_session_close(&job->session);
        mst_nodes_join(job, MUSTER_INDEX_ANY, FAREWELL_MS);
    }
}

static void on_silence(struct mst_run_job *job)
{
    struct mst_nodes *nodes = &job->nodes;
    uint64_t now_ns = mst_lib_now_ns();

    if (!mst_session_silent(&job->session)) {
        if (nodes->silent_since_ns != 0) {
            mst_say("the service at %s answers again", nodes->addr);
        }
        nodes->silent_since_ns = 0;
        return;
    }
    if (nodes->silent_since_ns == 0) {
        nodes->silent_since_ns = now_ns;
        mst_say("the service at %s does not answer; the ranks have stopped and wait for it",
                nodes->addr);
    } else if (job->end.how == MST_GOES_ON &&
               now_ns - nodes->silent_since_ns >
                   (uint64_t)job->options->service_wait_ms * NS_PER_MS) {
        mst_say("the service at %s did not answer for " MST_SECONDS
                " (--service-wait); this node ends",
                nodes->addr, MST_SECONDS_ARGS(job->options->service_wait_ms));
        nodes->alone = "the service did not answer";
        job->end.launch_code = MST_EXIT_LAUNCHER;
        mst_ending_begin(job, MST_ENDS_ALONE, SIGTERM);
    }
}

static void on_tick(uv_timer_t *timer)
{
    struct mst_run_job *job = timer->data;

    if (!job->end.closing && !job->nodes.joining) {
        on_silence(job);
        mst_replicas_look(job);
        mst_ending_look(job);
    }
}

bool mst_nodes_prepare(struct mst_run_job *job)
{
    struct mst_nodes *nodes = &job->nodes;

    nodes->peers = calloc(job->options->nodes_max, sizeof *nodes->peers);
    nodes->ranks_here = calloc(mst_run_indices(job->options), sizeof *nodes->ranks_here);
    if (nodes->peers == NULL || nodes->ranks_here == NULL) {
        return false;
    }
    (void)uv_timer_init(&job->loop, &nodes->tick);
    nodes->tick.data = job;
    nodes->work.data = job;
    if (mst_run_several(job->options)) {
        (void)uv_timer_start(&nodes->tick, on_tick, TICK_MS, TICK_MS);
    }
    return true;
}

void mst_nodes_forget(struct mst_run_job *job)
{
    mst_elsewhere_forget(job->name, job->nodes.elsewhere);
    job->nodes.elsewhere = -1;
}

void mst_nodes_release(struct mst_run_job *job)
{
    mst_nodes_forget(job);
    if (job->nodes.secret_fd >= 0) {
        (void)close(job->nodes.secret_fd);
    }
    free(job->nodes.peers);
    free(job->nodes.ranks_here);
}
