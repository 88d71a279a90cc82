/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes: an agent and its ranks are lost in one step, and who is not lost with them; whose deaths
 * an agent may tell; what is counted for a host.
 *
 * behaviour: members / Nodes */
#include "core_fixture.h"

enum { RANKS = 4, PER_NODE = 2, NODES = 2 };

#define LEASE_MS FIXTURE_LEASE_MS
#define PERIOD_MS (LEASE_MS / 5)

/* Two nodes of two ranks and somebody who looks on, sealed into generation 1. */
struct nodes {
    struct client agents[NODES];
    struct client ranks[RANKS];
    struct client observer;
};

static struct client on_host(struct client client, const char *host)
{
    client.open.host = mst_slice_text(host);
    return client;
}

static struct client rank_of(struct fixture *f, uint32_t index, uint32_t node, const char *host)
{
    struct client client = on_host(fixture_rank(f, index, RANKS), host);

    client.open.node = node;
    return client;
}

static void start(struct fixture *f, struct nodes *n)
{
    static const char *const hosts[NODES] = {"a0", "b1"};

    n->observer = fixture_client(f, MST_ROLE_OBSERVER, 0);
    fixture_connect(f, &n->observer);
    for (uint32_t node = 0; node < NODES; node++) {
        n->agents[node] = on_host(fixture_client(f, MST_ROLE_AGENT, node), hosts[node]);
        fixture_connect(f, &n->agents[node]);
    }
    for (uint32_t i = 0; i < RANKS; i++) {
        n->ranks[i] = rank_of(f, i, i / PER_NODE, hosts[i / PER_NODE]);
        fixture_connect(f, &n->ranks[i]);
        fixture_join(f, &n->ranks[i]);
    }
    EXPECT_INT(f, fixture_reply(f, &n->ranks[0], n->ranks[0].id)->view.generation, 1);
}

/* The cable of node 1: its last renewals came at 0, 0.5 and 1 s, the agent's at `agent_ms`. */
static void cut(struct fixture *f, struct nodes *n, uint64_t agent_ms)
{
    struct client *silent[] = {&n->ranks[2], &n->ranks[3], NULL};
    uint64_t at_ms[] = {0, 1000, agent_ms};

    silent[2] = &n->agents[1];
    for (uint64_t ms = 0; ms <= 1000; ms += 500) {
        for (size_t i = 0; i < 3; i++) {
            if (at_ms[i] == ms) {
                fixture_renew(f, silent[i]);
                fixture_disconnect(f, silent[i]);
            }
        }
        if (ms < 1000) {
            fixture_pass(f, 500);
        }
    }
}

static struct mst_who who_is(struct fixture *f, struct nodes *n, enum mst_role role, uint32_t index)
{
    const struct mst_reply *reply =
        fixture_call(f, &n->observer, (struct mst_request){.command = MST_MEMBERS});

    for (uint32_t i = 0; i < reply->item_count; i++) {
        if (reply->items[i].who.role == role && reply->items[i].who.index == index) {
            return reply->items[i].who;
        }
    }
    return (struct mst_who){0};
}

static enum mst_state state_of(struct fixture *f, struct nodes *n, uint32_t index)
{
    return who_is(f, n, MST_ROLE_RANK, index).state;
}

static const struct mst_reply *lose(struct fixture *f, struct client *teller,
                                    const struct client *victim)
{
    return fixture_call(f, teller,
                        (struct mst_request){.command = MST_LOST,
                                             .lost = {.index = victim->open.index,
                                                      .pid = victim->open.pid,
                                                      .cause = MST_CAUSE_SIGNAL,
                                                      .code = 9}});
}

static struct mst_item host_of(struct fixture *f, struct nodes *n, const char *name)
{
    const struct mst_reply *reply =
        fixture_call(f, &n->observer, (struct mst_request){.command = MST_HOSTS});

    for (uint32_t i = 0; i < reply->item_count; i++) {
        if (mst_slice_equal(reply->items[i].name, mst_slice_text(name))) {
            return reply->items[i];
        }
    }
    return (struct mst_item){0};
}

/* ---- one event --------------------------------------------------------------------------------
 */

/* The connections of a node fall silent together. The agent and its ranks are lost in one step,
 * when the last of their leases has ended: one line in the log, one page for each watcher, one
 * answer of each round that names all of them. */
static void a_cut_node_is_lost_in_one_step(struct fixture *f)
{
    struct nodes n;
    const struct mst_reply *reply;
    uint64_t round, watch, after, revision;

    start(f, &n);
    cut(f, &n, 500);
    round = fixture_send(f, &n.ranks[0], fixture_round(1, "step", 0));
    fixture_send(f, &n.ranks[1], fixture_round(1, "step", 0));
    fixture_pass_renewing(f, LEASE_MS - 1000);
    /* The lease of #2 has ended, the agent's will, that of #3 will: nobody is lost yet. */
    EXPECT_INT(f, state_of(f, &n, 2), MST_SILENT);
    fixture_pass_renewing(f, 999);
    EXPECT_INT(f, state_of(f, &n, 2), MST_SILENT);
    EXPECT_INT(f, state_of(f, &n, 3), MST_SILENT);
    EXPECT_INT(f, who_is(f, &n, MST_ROLE_AGENT, 1).state, MST_SILENT);
    reply = fixture_reply(f, &n.observer,
                          fixture_watch(f, &n.observer, MST_WATCH_MEMBERS | MST_WATCH_VIEW, "", 0));
    after = reply->revision;
    watch = fixture_watch(f, &n.observer, MST_WATCH_MEMBERS | MST_WATCH_FAULTS | MST_WATCH_VIEW, "",
                          after);
    fixture_pass(f, 1);
    /* One page with the three members, the two faults and the view, which changed once. */
    reply = fixture_reply(f, &n.observer, watch);
    EXPECT_INT(f, reply->item_count, 6);
    EXPECT_INT(f, reply->view.attention, MST_INTERRUPT);
    revision = reply->revision;
    EXPECT(f, fixture_told_story(f, "node-lost node=1 host=b1 ranks=2 cause=lease"));
    EXPECT(f, fixture_told_story(f, "member-lost #2 incarnation=1 cause=lease"));
    EXPECT(f, fixture_told_story(f, "member-lost #3 incarnation=1 cause=lease"));
    EXPECT(f, fixture_told_story(f, "member-lost agent#1 incarnation=1 cause=lease"));
    /* The round has one answer that names both. */
    reply = fixture_reply(f, &n.ranks[0], round);
    EXPECT_INT(f, reply->status, MUSTER_ELOST);
    EXPECT_INT(f, reply->detail.lost, 2);
    EXPECT_INT(f, reply->detail.who[0].index, 2);
    EXPECT_INT(f, reply->detail.who[1].index, 3);
    EXPECT_INT(f, reply->detail.who[1].node, 1);
    EXPECT_INT(f, host_of(f, &n, "b1").number, 1);
    EXPECT_INT(f, host_of(f, &n, "b1").expected, 0);
    EXPECT_INT(f, host_of(f, &n, "b1").arrived, 0);
    EXPECT_INT(f, host_of(f, &n, "a0").number, 0);
    EXPECT_INT(f, host_of(f, &n, "a0").arrived, 3);
    EXPECT_INT(f, state_of(f, &n, 0), MST_PRESENT);
    /* And nothing comes after it. */
    watch = fixture_watch(f, &n.observer, MST_WATCH_MEMBERS | MST_WATCH_FAULTS | MST_WATCH_VIEW, "",
                          revision);
    fixture_pass_renewing(f, LEASE_MS);
    EXPECT_INT(f, fixture_reply(f, &n.observer, watch)->status, MUSTER_MORE);
}

/* A node is lost while a seal is open. The seal sees one loss. */
static void a_seal_sees_one_loss(struct fixture *f)
{
    struct nodes n;
    struct mst_request seal = fixture_round(1, "seal", 0);
    const struct mst_reply *reply;
    uint64_t id;

    seal.round.on_loss = MST_PROCEED;
    seal.round.seal = true;
    start(f, &n);
    cut(f, &n, 1000);
    id = fixture_send(f, &n.ranks[0], seal);
    fixture_send(f, &n.ranks[1], seal);
    fixture_pass_renewing(f, LEASE_MS - 1);
    EXPECT_INT(f, fixture_reply(f, &n.ranks[0], id)->status, MUSTER_MORE);
    fixture_pass(f, 1);
    reply = fixture_reply(f, &n.ranks[0], id);
    EXPECT_INT(f, reply->status, MUSTER_OK);
    EXPECT_INT(f, reply->view.generation, 2);
    EXPECT_INT(f, reply->view.size, 2);
    EXPECT_INT(f, reply->detail.lost, 2);
}

/* An agent falls silent first. It waits for the last lease of its ranks. */
static void an_agent_waits_for_its_ranks(struct fixture *f)
{
    struct nodes n;

    start(f, &n);
    cut(f, &n, 0);
    fixture_pass_renewing(f, LEASE_MS - 1);
    EXPECT_INT(f, who_is(f, &n, MST_ROLE_AGENT, 1).state, MST_SILENT);
    EXPECT_INT(f, state_of(f, &n, 2), MST_SILENT);
    fixture_pass(f, 1);
    EXPECT_INT(f, who_is(f, &n, MST_ROLE_AGENT, 1).state, MST_STATE_LOST);
    EXPECT_INT(f, state_of(f, &n, 2), MST_STATE_LOST);
    EXPECT_INT(f, state_of(f, &n, 3), MST_STATE_LOST);
    EXPECT(f, fixture_told_story(f, "node-lost node=1 host=b1 ranks=2 cause=lease"));
}

/* ---- who is on its own ------------------------------------------------------------------------
 */

/* One rank of a node hangs. It is lost alone when its lease ends, because its agent renews. */
static void a_hung_rank_is_lost_alone(struct fixture *f)
{
    struct nodes n;

    start(f, &n);
    fixture_renew(f, &n.ranks[2]);
    fixture_disconnect(f, &n.ranks[2]);
    fixture_pass_renewing(f, LEASE_MS - 1);
    EXPECT_INT(f, state_of(f, &n, 2), MST_SILENT);
    fixture_pass(f, 1);
    EXPECT_INT(f, state_of(f, &n, 2), MST_STATE_LOST);
    EXPECT_INT(f, state_of(f, &n, 3), MST_PRESENT);
    EXPECT_INT(f, host_of(f, &n, "b1").number, 0);
    EXPECT_INT(f, host_of(f, &n, "b1").expected, 1);
    EXPECT_INT(f, host_of(f, &n, "b1").arrived, 2);
}

/* A rank names an agent that leaves, or was never there. The rank is on its own, with its own
 * lease. */
static void without_an_agent_a_rank_is_on_its_own(struct fixture *f)
{
    struct nodes n;

    start(f, &n);
    EXPECT_INT(f, fixture_call(f, &n.agents[1], (struct mst_request){.command = MST_LEAVE})->status,
               MUSTER_OK);
    fixture_pass_renewing(f, 2 * LEASE_MS);
    EXPECT_INT(f, state_of(f, &n, 2), MST_PRESENT);
    EXPECT_INT(f, who_is(f, &n, MST_ROLE_AGENT, 1).state, MST_LEFT);
    cut(f, &n, 0);
    fixture_pass_renewing(f, LEASE_MS - 1000);
    EXPECT_INT(f, state_of(f, &n, 2), MST_STATE_LOST);
    EXPECT_INT(f, state_of(f, &n, 3), MST_SILENT);
    fixture_pass_renewing(f, 1000);
    EXPECT_INT(f, state_of(f, &n, 3), MST_STATE_LOST);
    EXPECT_INT(f, host_of(f, &n, "b1").number, 0);
    EXPECT_INT(f, host_of(f, &n, "b1").expected, 2);
}

/* A rank's lease ends while its agent is silent too, and then the agent renews: it is not the
 * node. The rank is lost alone, at most a renewal later. */
static void an_agent_that_comes_back_lets_the_rank_go(struct fixture *f)
{
    struct nodes n;

    start(f, &n);
    fixture_renew(f, &n.ranks[2]);
    fixture_disconnect(f, &n.ranks[2]);
    fixture_pass_renewing(f, LEASE_MS / 2);
    fixture_renew(f, &n.agents[1]);
    fixture_disconnect(f, &n.agents[1]);
    fixture_pass_renewing(f, LEASE_MS / 2);
    EXPECT_INT(f, state_of(f, &n, 2), MST_SILENT);
    fixture_connect(f, &n.agents[1]);
    fixture_pass_renewing(f, PERIOD_MS);
    EXPECT_INT(f, state_of(f, &n, 2), MST_STATE_LOST);
    EXPECT_INT(f, state_of(f, &n, 3), MST_PRESENT);
    EXPECT_INT(f, who_is(f, &n, MST_ROLE_AGENT, 1).state, MST_PRESENT);
}

/* ---- an agent alone ---------------------------------------------------------------------------
 */

/* An agent is lost while its ranks renew. The node counts as lost. From the end of the agent's
 * lease its ranks cannot renew (EFENCED), and all are lost when the leases they had have ended:
 * none before a lease has passed since its last renewal. */
static void ranks_of_a_lost_agent_are_lost(struct fixture *f)
{
    struct nodes n;
    const struct mst_reply *reply;

    start(f, &n);
    fixture_renew(f, &n.agents[1]);
    fixture_disconnect(f, &n.agents[1]);
    fixture_pass_renewing(f, LEASE_MS - 1000);
    fixture_pass(f, 1000);
    EXPECT_INT(f, state_of(f, &n, 2), MST_PRESENT);
    reply = fixture_call(f, &n.ranks[2], (struct mst_request){.command = MST_RENEW});
    EXPECT_INT(f, reply->status, MUSTER_ETIMEDOUT);
    fixture_disconnect(f, &n.ranks[3]);
    EXPECT_INT(f, fixture_connect(f, &n.ranks[3])->status, MUSTER_ETIMEDOUT);
    EXPECT_INT(f, fixture_call(f, &n.ranks[0], (struct mst_request){.command = MST_RENEW})->status,
               MUSTER_OK);
    fixture_pass_renewing(f, LEASE_MS - 1001);
    EXPECT_INT(f, who_is(f, &n, MST_ROLE_AGENT, 1).state, MST_SILENT);
    EXPECT_INT(f, state_of(f, &n, 2), MST_PRESENT);
    fixture_pass(f, 1);
    EXPECT_INT(f, state_of(f, &n, 2), MST_STATE_LOST);
    EXPECT_INT(f, state_of(f, &n, 3), MST_STATE_LOST);
    EXPECT_INT(f, who_is(f, &n, MST_ROLE_AGENT, 1).state, MST_STATE_LOST);
    EXPECT(f, fixture_told_story(f, "node-lost node=1 host=b1 ranks=2 cause=lease"));
}

/* A lost node's agent comes back before the leases of its ranks have ended. No rank is lost. */
static void an_agent_that_comes_back_in_time_saves_its_ranks(struct fixture *f)
{
    struct nodes n;

    start(f, &n);
    fixture_renew(f, &n.agents[1]);
    fixture_disconnect(f, &n.agents[1]);
    fixture_pass_renewing(f, LEASE_MS - 1000);
    fixture_pass(f, 1000);
    EXPECT_INT(f, fixture_call(f, &n.ranks[2], (struct mst_request){.command = MST_RENEW})->status,
               MUSTER_ETIMEDOUT);
    fixture_pass_renewing(f, LEASE_MS - 1001); /* in the last moment */
    EXPECT_INT(f, fixture_connect(f, &n.agents[1])->status, MUSTER_OK);
    fixture_pass(f, PERIOD_MS); /* and they ask again in their own time */
    EXPECT_INT(f, fixture_call(f, &n.ranks[2], (struct mst_request){.command = MST_RENEW})->status,
               MUSTER_OK);
    fixture_pass_renewing(f, 2 * LEASE_MS);
    for (uint32_t i = 0; i < RANKS; i++) {
        EXPECT_INT(f, state_of(f, &n, i), MST_PRESENT);
    }
    EXPECT_INT(f, who_is(f, &n, MST_ROLE_AGENT, 1).losses, 0);
}

/* An agent without ranks is lost. It is a member that was lost, and no node. */
static void an_agent_without_ranks_is_no_node(struct fixture *f)
{
    struct nodes n;

    start(f, &n);
    fixture_call(f, &n.ranks[2], (struct mst_request){.command = MST_LEAVE});
    fixture_call(f, &n.ranks[3], (struct mst_request){.command = MST_LEAVE});
    fixture_disconnect(f, &n.agents[1]);
    fixture_pass_renewing(f, LEASE_MS);
    EXPECT_INT(f, who_is(f, &n, MST_ROLE_AGENT, 1).state, MST_STATE_LOST);
    EXPECT_INT(f, host_of(f, &n, "b1").number, 0);
}

/* ---- with other rules -------------------------------------------------------------------------
 */

/* The service was stopped while the leases of a node ran out. All run anew, for all members;
 * then the node is lost as one, or is back. */
static void a_stall_is_not_the_nodes_fault(struct fixture *f)
{
    struct nodes n;

    start(f, &n);
    cut(f, &n, 0);
    fixture_pass_renewing(f, LEASE_MS - 3000);
    fixture_stall(f, 2 * LEASE_MS);
    fixture_pass_renewing(f, LEASE_MS - 1);
    EXPECT_INT(f, state_of(f, &n, 2), MST_SILENT);
    fixture_pass(f, 1);
    EXPECT_INT(f, state_of(f, &n, 2), MST_STATE_LOST);
    EXPECT_INT(f, state_of(f, &n, 3), MST_STATE_LOST);
    EXPECT_INT(f, state_of(f, &n, 0), MST_PRESENT);
    EXPECT(f, fixture_told_story(f, "node-lost node=1 host=b1 ranks=2 cause=lease"));
}

/* The service is stopped between the end of the agent's lease and the last of its ranks'. The
 * node that was going is saved. */
static void a_stall_saves_a_node_that_is_going(struct fixture *f)
{
    struct nodes n;

    start(f, &n);
    cut(f, &n, 0);
    fixture_pass_renewing(f, LEASE_MS - 500);
    fixture_stall(f, LEASE_MS);
    EXPECT_INT(f, fixture_connect(f, &n.ranks[3])->status, MUSTER_OK);
    EXPECT_INT(f, fixture_connect(f, &n.agents[1])->status, MUSTER_OK);
    fixture_pass_renewing(f, LEASE_MS);
    EXPECT_INT(f, state_of(f, &n, 2), MST_STATE_LOST);
    EXPECT_INT(f, state_of(f, &n, 3), MST_PRESENT);
}

/* The seal's deadline comes while a rank waits for its agent's lease. It is evicted, as any
 * other. */
static void a_rank_that_waits_can_be_evicted(struct fixture *f)
{
    struct nodes n;
    struct mst_request seal = fixture_round(1, "seal", 0);

    seal.round.on_loss = MST_PROCEED;
    seal.round.seal = true;
    seal.round.deadline_ms = LEASE_MS - 700;
    start(f, &n);
    cut(f, &n, 1000);
    for (uint32_t i = 0; i < RANKS; i += i == 1 ? 2 : 1) {
        fixture_send(f, &n.ranks[i], seal);
    }
    fixture_pass_renewing(f, LEASE_MS - 700);
    EXPECT_INT(f, who_is(f, &n, MST_ROLE_RANK, 2).cause, MST_CAUSE_EVICTED);
    EXPECT_INT(f, who_is(f, &n, MST_ROLE_RANK, 3).cause, MST_CAUSE_EVICTED);
    fixture_pass_renewing(f, LEASE_MS);
    EXPECT_INT(f, who_is(f, &n, MST_ROLE_AGENT, 1).state, MST_STATE_LOST);
    EXPECT_INT(f, who_is(f, &n, MST_ROLE_RANK, 2).losses, 1);
}

/* Processes wait for places of a node that is lost. Those of another node take over; those of
 * the same one are lost with it; a new agent takes the node over. */
static void heirs_of_a_node(struct fixture *f)
{
    struct nodes n;
    struct client elsewhere, same, agent;

    start(f, &n);
    cut(f, &n, 0);
    elsewhere = rank_of(f, 2, 0, "a0");
    same = rank_of(f, 3, 1, "b1");
    agent = on_host(fixture_client(f, MST_ROLE_AGENT, 1), "c2");
    EXPECT_INT(f, fixture_connect(f, &elsewhere)->view.incarnation, 0);
    EXPECT_INT(f, fixture_connect(f, &same)->view.incarnation, 0);
    EXPECT_INT(f, fixture_connect(f, &agent)->view.incarnation, 0);
    fixture_pass_renewing(f, LEASE_MS - 1000);
    EXPECT(f, fixture_told_story(f, "claim-waiting #3 incarnation=1 host=b1 pid=109"));
    fixture_pass_renewing(f, 1000);
    EXPECT_INT(f, who_is(f, &n, MST_ROLE_RANK, 2).incarnation, 2);
    EXPECT_INT(f, who_is(f, &n, MST_ROLE_RANK, 2).state, MST_JOINING);
    EXPECT_INT(f, who_is(f, &n, MST_ROLE_RANK, 3).state, MST_STATE_LOST);
    EXPECT_INT(f, who_is(f, &n, MST_ROLE_AGENT, 1).incarnation, 2);
    EXPECT_INT(f, host_of(f, &n, "c2").arrived, 1);
    EXPECT_INT(f, fixture_call(f, &same, (struct mst_request){.command = MST_RENEW})->status,
               MUSTER_EFENCED);
}

/* A newcomer names a node that is going. It is on its own: a going node cannot be prolonged. */
static void a_newcomer_does_not_hold_a_going_node_up(struct fixture *f)
{
    struct nodes n;
    struct client late;

    start(f, &n);
    fixture_call(f, &n.ranks[3], (struct mst_request){.command = MST_LEAVE});
    fixture_disconnect(f, &n.agents[1]);
    fixture_pass_renewing(f, LEASE_MS - 1000);
    fixture_pass(f, 1000);
    late = rank_of(f, 3, 1, "b1");
    EXPECT_INT(f, fixture_connect(f, &late)->status, MUSTER_OK);
    fixture_pass_renewing(f, LEASE_MS);
    EXPECT_INT(f, state_of(f, &n, 2), MST_STATE_LOST);
    EXPECT_INT(f, state_of(f, &n, 3), MST_JOINING);
    EXPECT_INT(f, who_is(f, &n, MST_ROLE_RANK, 3).node, MST_NODE_NONE);
}

/* ---- an agent's word --------------------------------------------------------------------------
 */

/* An agent speaks of a process that it did not start. Nothing happens: a process id means
 * something on one host only. For a process that no agent started, any member on the same host
 * may speak. */
static void an_agent_speaks_for_its_own(struct fixture *f)
{
    struct nodes n;
    struct client other = on_host(fixture_client(f, MST_ROLE_RANK, 9), "b1");

    start(f, &n);
    EXPECT_INT(f, lose(f, &n.agents[0], &n.ranks[2])->number, 0); /* the same pid elsewhere */
    EXPECT_INT(f, lose(f, &n.ranks[3], &n.ranks[2])->number, 0);  /* no agent */
    EXPECT_INT(f, state_of(f, &n, 2), MST_PRESENT);
    EXPECT_INT(f, lose(f, &n.agents[1], &n.ranks[2])->number, 1);
    EXPECT_INT(f, state_of(f, &n, 2), MST_STATE_LOST);
    EXPECT_INT(f, host_of(f, &n, "b1").expected, 1);
    /* Who was started by nobody is spoken for by whoever is on its host. */
    fixture_connect(f, &other);
    EXPECT_INT(f, lose(f, &n.agents[0], &other)->number, 0);
    EXPECT_INT(f, lose(f, &n.agents[1], &other)->number, 1);
}

/* A status comes after the loss. It counts from the process's own agent only. */
static void a_later_status_comes_from_its_own_agent(struct fixture *f)
{
    struct nodes n;
    struct mst_request gone = {.command = MST_LOST, .lost = {.cause = MST_CAUSE_GONE}};

    start(f, &n);
    gone.lost.index = 2;
    gone.lost.pid = n.ranks[2].open.pid;
    EXPECT_INT(f, fixture_call(f, &n.agents[1], gone)->number, 1);
    lose(f, &n.agents[0], &n.ranks[2]);
    EXPECT_INT(f, who_is(f, &n, MST_ROLE_RANK, 2).cause, MST_CAUSE_GONE);
    lose(f, &n.agents[1], &n.ranks[2]);
    EXPECT_INT(f, who_is(f, &n, MST_ROLE_RANK, 2).cause, MST_CAUSE_SIGNAL);
}

/* An agent waits for a place that is held. It does not speak for the place. */
static void a_claimant_speaks_for_nobody(struct fixture *f)
{
    struct nodes n;
    struct client agent = on_host(fixture_client(f, MST_ROLE_AGENT, 1), "c2");

    start(f, &n);
    fixture_connect(f, &agent);
    EXPECT_INT(f, lose(f, &agent, &n.ranks[2])->number, 0);
    EXPECT_INT(f, state_of(f, &n, 2), MST_PRESENT);
}

/* A claimant reports its own death. Its claim ends with its answer, and it with its claim. */
static void a_claimant_may_tell_of_its_own_death(struct fixture *f)
{
    struct nodes n;
    struct client claimant = fixture_client(f, MST_ROLE_RANK, 2);

    start(f, &n);
    claimant = on_host(claimant, "c2");
    claimant.open.pid = 4711;
    fixture_connect(f, &claimant);
    EXPECT_INT(f, lose(f, &claimant, &claimant)->number, 1);
    EXPECT_INT(f, state_of(f, &n, 2), MST_PRESENT);
}

/* ---- hosts ------------------------------------------------------------------------------------
 */

/* A program asks how often a host lost something. Each host of the job comes with how often it
 * was lost as a node, how many ranks were lost there alone, and how many members are there; it
 * is known as long as the job if anything was lost there. */
static void a_host_is_known_while_it_matters(struct fixture *f)
{
    struct nodes n;
    struct client worker = on_host(fixture_client(f, MST_ROLE_WORKER, 0), "w9");
    struct client quiet = on_host(fixture_client(f, MST_ROLE_WORKER, 1), "");

    start(f, &n);
    fixture_connect(f, &worker);
    fixture_connect(f, &quiet);
    EXPECT_INT(f, host_of(f, &n, "w9").arrived, 1);
    fixture_call(f, &worker, (struct mst_request){.command = MST_LEAVE});
    EXPECT_INT(f,
               fixture_call(f, &n.observer, (struct mst_request){.command = MST_HOSTS})->item_count,
               NODES); /* nothing was lost there: it is forgotten */
    lose(f, &n.agents[1], &n.ranks[2]);
    fixture_call(f, &n.ranks[3], (struct mst_request){.command = MST_LEAVE});
    fixture_call(f, &n.agents[1], (struct mst_request){.command = MST_LEAVE});
    EXPECT_INT(f, host_of(f, &n, "b1").expected, 1);
    EXPECT_INT(f, host_of(f, &n, "b1").arrived, 0);
}

/* ---- many -------------------------------------------------------------------------------------
 */

enum { MANY = 600 };

/* A job has many hosts. Their list comes in pages. */
static void hosts_come_in_pages(struct fixture *f)
{
    struct client observer = fixture_client(f, MST_ROLE_OBSERVER, 0);
    static struct client workers[MANY];
    static char names[MANY][8];
    uint64_t after = 0;
    uint32_t count = 0;

    fixture_connect(f, &observer);
    for (uint32_t i = 0; i < MANY; i++) {
        workers[i] = fixture_client(f, MST_ROLE_WORKER, MST_INDEX_ANY);
        memcpy(names[i], "h000", 5);
        names[i][1] = (char)('0' + i / 100);
        names[i][2] = (char)('0' + i / 10 % 10);
        names[i][3] = (char)('0' + i % 10);
        workers[i].open.host = mst_slice_text(names[i]);
        fixture_connect(f, &workers[i]);
    }
    do {
        const struct mst_reply *reply = fixture_call(
            f, &observer, (struct mst_request){.command = MST_HOSTS, .page = {.after = after}});

        for (uint32_t i = 0; i < reply->item_count; i++) {
            EXPECT_TEXT(f, reply->items[i].name, names[count]);
            count++;
        }
        after = reply->next;
    } while (after != 0);
    EXPECT_INT(f, count, MANY);
}

static void few_members(struct mst_core_config *config)
{
    config->limits.members_max = 3;
}

/* A job has more than `members_max` hosts. Those beyond are not counted, and no member is
 * refused for it. */
static void too_many_hosts_are_not_counted(struct fixture *f)
{
    struct client observer = fixture_client(f, MST_ROLE_OBSERVER, 0);
    struct client agent = on_host(fixture_client(f, MST_ROLE_AGENT, 0), "a");
    struct client rank;
    static const char *const hosts[] = {"b", "c", "d", "e"};

    fixture_connect(f, &observer);
    fixture_connect(f, &agent);
    for (uint32_t i = 0; i < 4; i++) {
        rank = on_host(fixture_rank(f, 0, 1), hosts[i]);
        rank.open.node = 0;
        rank.next = NULL;
        EXPECT_INT(f, fixture_connect(f, &rank)->status, MUSTER_OK);
        EXPECT_INT(f, lose(f, &agent, &rank)->number, 1);
    }
    EXPECT_INT(
        f, fixture_call(f, &observer, (struct mst_request){.command = MST_HOSTS})->item_count, 3);
}

#define SCENARIO(name)                                                                             \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        fixture_run(name);                                                                         \
    }

#define SCENARIOS(X)                                                                               \
    X(a_cut_node_is_lost_in_one_step)                                                              \
    X(a_seal_sees_one_loss)                                                                        \
    X(an_agent_waits_for_its_ranks)                                                                \
    X(a_hung_rank_is_lost_alone)                                                                   \
    X(without_an_agent_a_rank_is_on_its_own)                                                       \
    X(an_agent_that_comes_back_lets_the_rank_go)                                                   \
    X(ranks_of_a_lost_agent_are_lost)                                                              \
    X(an_agent_that_comes_back_in_time_saves_its_ranks)                                            \
    X(an_agent_without_ranks_is_no_node)                                                           \
    X(a_stall_is_not_the_nodes_fault)                                                              \
    X(a_stall_saves_a_node_that_is_going)                                                          \
    X(a_rank_that_waits_can_be_evicted)                                                            \
    X(heirs_of_a_node)                                                                             \
    X(a_newcomer_does_not_hold_a_going_node_up)                                                    \
    X(an_agent_speaks_for_its_own)                                                                 \
    X(a_later_status_comes_from_its_own_agent)                                                     \
    X(a_claimant_speaks_for_nobody)                                                                \
    X(a_claimant_may_tell_of_its_own_death)                                                        \
    X(a_host_is_known_while_it_matters)

SCENARIOS(SCENARIO)

static void test_hosts_come_in_pages(void **state)
{
    (void)state;
    fixture_run_once(hosts_come_in_pages); /* each allocation failing would take long */
}

static void test_too_many_hosts_are_not_counted(void **state)
{
    (void)state;
    fixture_run_with(too_many_hosts_are_not_counted, few_members);
}

#define ROW(name) cmocka_unit_test(test_##name),

int main(void)
{
    const struct CMUnitTest tests[] = {SCENARIOS(ROW) cmocka_unit_test(test_hosts_come_in_pages),
                                       cmocka_unit_test(test_too_many_hosts_are_not_counted)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
