/* SPDX-License-Identifier: Apache-2.0 */
#include "service/core/node.h"

#include "proto/words.h"
#include "service/core/claim.h"
#include "service/core/host.h"
#include "service/core/job.h"
#include "service/core/narrate.h"
#include "service/core/round.h"

/* ---- its sessions ---- */

/* Of this node, or NULL. */
static struct mst_session *in_node(struct mst_index_node *entry, uint32_t agent)
{
    return entry && entry->high == agent ? MST_CONTAINER_OR_NULL(entry, struct mst_session, in_node)
                                         : NULL;
}

static struct mst_session *first_of(const struct mst_job *job, uint32_t agent)
{
    return in_node(mst_index_from(&job->nodes, agent, 0), agent);
}

static struct mst_session *next_of(const struct mst_session *session)
{
    return in_node(mst_index_next(&session->in_node), session->agent);
}

void mst_node_leave(struct mst_session *session)
{
    mst_index_remove(&session->job->nodes, &session->in_node);
}

/* By role and index; a session that waits for a place comes before its holder. */
void mst_node_enter(struct mst_session *session)
{
    uint64_t place = (uint64_t)session->role << 32 | session->member->index;

    mst_node_leave(session);
    if (session->agent != MST_NODE_NONE) {
        mst_index_put(&session->job->nodes, &session->in_node, session->agent,
                      place << 1 | !session->claiming);
    }
}

static struct mst_session *agent_of(const struct mst_job *job, uint32_t agent)
{
    const struct mst_member *member =
        agent != MST_NODE_NONE ? mst_member_find(job, MST_ROLE_AGENT, agent) : NULL;

    return member ? member->session : NULL;
}

bool mst_node_replaces(const struct mst_job *job, uint32_t agent)
{
    const struct mst_session *session = agent_of(job, agent);

    return session && session->replaces;
}

bool mst_node_speaks(const struct mst_session *session, uint32_t agent, struct mst_slice host)
{
    if (agent == MST_NODE_NONE) {
        return mst_slice_equal(mst_blob_slice(session->host), host);
    }
    return session == agent_of(session->job, agent);
}

/* ---- its end ---- */

static bool quiet(const struct mst_session *session)
{
    const struct mst_core *core = session->core;

    return session->lease_ns < core->now_ns + core->config.lease_ns / 5 * 3;
}

/* The agent's alarm rang and was set beyond its lease: it waits for the others. */
static bool waits_for_others(const struct mst_session *agent)
{
    return agent->alarm.at_ns > agent->lease_ns;
}

bool mst_node_going(const struct mst_session *session)
{
    const struct mst_session *agent = agent_of(session->job, session->agent);

    return agent && waits_for_others(agent);
}

void mst_node_heard(const struct mst_session *agent)
{
    struct mst_session *session;

    if (agent->role != MST_ROLE_AGENT || agent->claiming || !waits_for_others(agent)) {
        return;
    }
    session = first_of(agent->job, agent->member->index);
    for (; session; session = next_of(session)) {
        mst_session_extend(session);
    }
}

uint32_t mst_node_named(const struct mst_job *job, const struct mst_open *open)
{
    const struct mst_session *agent;

    if (open->role != MST_ROLE_RANK && open->role != MST_ROLE_WORKER) {
        return MST_NODE_NONE;
    }
    agent = agent_of(job, open->node);
    return agent && waits_for_others(agent) ? MST_NODE_NONE : open->node;
}

static void tell_lost(const struct mst_session *agent)
{
    const struct mst_session *session = first_of(agent->job, agent->member->index);
    uint64_t ranks = 0;

    for (; session; session = next_of(session)) {
        ranks += session->role == MST_ROLE_RANK && !session->claiming;
    }
    mst_history_node(agent->member, ranks);
    mst_narrate(agent->job, MST_INFO, "node-lost node=%u host=%.*s ranks=%" PRIu64 " cause=%s",
                agent->member->index, MST_SLICE_ARGS(mst_blob_slice(agent->host)), ranks,
                mst_cause_word(MST_CAUSE_LEASE));
}

/* The rounds are settled last, so that each counts all losses at once. A session of another node
 * that waits for one of the places, or for the agent's, is admitted. */
static void lose_all(struct mst_session *agent)
{
    const struct mst_loss loss = {.cause = MST_CAUSE_LEASE};
    struct mst_job *job = agent->job;
    struct mst_session *session;

    tell_lost(agent);
    mst_host_count(agent->place, MST_ROLE_AGENT);
    while ((session = first_of(job, agent->member->index))) {
        if (session->claiming) {
            mst_claim_withdraw(session);
        } else {
            mst_member_lose_with_node(session->member, loss);
        }
    }
    mst_member_lose_with_node(agent->member, loss);
    mst_round_settle(job);
}

static bool expire_agent(struct mst_session *agent)
{
    const struct mst_session *session = first_of(agent->job, agent->member->index);
    bool alone = true;
    uint64_t last_ns = 0;

    for (; session; session = next_of(session)) {
        if (!session->claiming) {
            alone = false;
            last_ns = mst_later(last_ns, session->lease_ns);
        }
    }
    if (last_ns > agent->core->now_ns) {
        mst_alarm_set(agent->core, &agent->alarm, last_ns);
    } else if (!alone) {
        lose_all(agent);
    }
    return !alone;
}

/* Right after the agent's alarm, which decides; and in any case after the time of one more renewal:
 * the agent may renew. */
static bool expire_started(struct mst_session *session)
{
    const struct mst_core *core = session->core;
    const struct mst_session *agent = agent_of(session->job, session->agent);
    uint64_t at_ns = core->now_ns + core->config.lease_ns / 5;

    if (!agent || !quiet(agent)) {
        return false;
    }
    mst_alarm_set(session->core, &session->alarm,
                  agent->alarm.at_ns < at_ns ? agent->alarm.at_ns : at_ns);
    return true;
}

bool mst_node_expire(struct mst_session *session)
{
    return session->role == MST_ROLE_AGENT ? expire_agent(session) : expire_started(session);
}
