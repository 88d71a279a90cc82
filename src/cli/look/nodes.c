/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/look/nodes.h"

#include <stdlib.h>

#define NAMES_SHOWN 8u

static int compare(const void *wanted, const void *member)
{
    const struct mst_who *a = wanted, *b = &((const struct mst_item *)member)->who;

    return a->role != b->role ? (int)a->role - (int)b->role
                              : (a->index > b->index) - (a->index < b->index);
}

static const struct mst_who *find(const struct mst_item *members, size_t count, enum mst_role role,
                                  uint32_t index)
{
    const struct mst_who wanted = {.role = role, .index = index};
    const struct mst_item *found = /* NULL is no array, not even an empty one */
        count > 0 ? bsearch(&wanted, members, count, sizeof *members, compare) : NULL;

    return found ? &found->who : NULL;
}

static bool is_silently_lost(const struct mst_who *who)
{
    return who && who->state == MST_STATE_LOST && who->cause == MST_CAUSE_LEASE;
}

bool mst_cli_node_took(const struct mst_item *members, size_t count, uint32_t index)
{
    const struct mst_who *rank = find(members, count, MST_ROLE_RANK, index);

    return is_silently_lost(rank) && rank->node != MST_NODE_NONE &&
           is_silently_lost(find(members, count, MST_ROLE_AGENT, rank->node));
}

static bool went_with(const struct mst_who *who, const struct mst_who *agent)
{
    return who->role == MST_ROLE_RANK && who->node == agent->index && is_silently_lost(who);
}

static void print_node(const struct mst_item *members, size_t count, const struct mst_who *agent)
{
    uint64_t heard_ms = agent->heard_ms;
    uint32_t ranks = 0;

    for (size_t i = 0; i < count; i++) {
        const struct mst_who *who = &members[i].who;

        if (went_with(who, agent)) {
            heard_ms = who->heard_ms < heard_ms ? who->heard_ms : heard_ms;
            ranks++;
        }
    }
    if (ranks == 0) {
        return;
    }
    mst_cli_say("node %u (%.*s", agent->index, MST_SLICE_ARGS(agent->host));
    mst_cli_put(") lost, last heard %.1f s ago: rank%s ", (double)heard_ms / 1000,
                ranks == 1 ? "" : "s");
    ranks = 0;
    for (size_t i = 0; i < count; i++) {
        const struct mst_who *who = &members[i].who;

        if (went_with(who, agent) && ranks++ < NAMES_SHOWN) {
            mst_cli_put("%s#%u", ranks == 1 ? "" : ", ", who->index);
        }
    }
    mst_cli_put_more(ranks, NAMES_SHOWN);
    mst_cli_put("\n");
}

void mst_cli_nodes_print(const struct mst_item *members, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (members[i].who.role == MST_ROLE_AGENT && is_silently_lost(&members[i].who)) {
            print_node(members, count, &members[i].who);
        }
    }
}

void mst_cli_hosts_print(const struct mst_item *hosts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct mst_item *host = &hosts[i];

        if (host->number == 0 && host->expected == 0) {
            continue;
        }
        mst_cli_say("host %.*s: ", MST_SLICE_ARGS(host->name));
        if (host->number > 0) {
            mst_cli_put("lost %llu time%s%s", (unsigned long long)host->number,
                        host->number == 1 ? "" : "s", host->expected > 0 ? ", " : "");
        }
        if (host->expected > 0) {
            mst_cli_put("%u rank%s lost there alone", host->expected,
                        host->expected == 1 ? "" : "s");
        }
        mst_cli_put("\n");
    }
}
