/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of a client by tag, deadline and id: there may be tens of thousands that wait, and an
 * answer, a cancel or a time-out walks over none but its own. */
#include "client/machine.h"

/* A number of a call, and its place; of an id, which no two have, 0. */
struct key {
    uint64_t number, place;
};

static int compare(const struct key *key, uint64_t number, uint64_t place)
{
    int order = mst_tree_compare(key->number, number);

    return order != 0 ? order : mst_tree_compare(key->place, place);
}

static int order_tag(const void *key, const struct mst_tree_node *node)
{
    const struct mst_client_call *call = MST_CONTAINER_CONST(node, struct mst_client_call, in_tags);

    return compare(key, call->tag, call->place);
}

static int order_due(const void *key, const struct mst_tree_node *node)
{
    const struct mst_client_call *call = MST_CONTAINER_CONST(node, struct mst_client_call, in_dues);

    return compare(key, call->due_ns, call->place);
}

static int order_id(const void *key, const struct mst_tree_node *node)
{
    const struct mst_client_call *call = MST_CONTAINER_CONST(node, struct mst_client_call, in_ids);

    return compare(key, call->request.id, 0);
}

void mst_client_index_init(struct mst_client *client)
{
    mst_tree_init(&client->tags, order_tag);
    mst_tree_init(&client->dues, order_due);
    mst_tree_init(&client->ids, order_id);
}

static void put(struct mst_tree *tree, struct key key, struct mst_tree_node *node)
{
    bool fresh = mst_tree_insert(tree, &key, node);

    MST_ASSERT(fresh);
}

void mst_client_put_tag(struct mst_client *client, struct mst_client_call *call)
{
    put(&client->tags, (struct key){call->tag, call->place}, &call->in_tags);
}

void mst_client_put_due(struct mst_client *client, struct mst_client_call *call)
{
    put(&client->dues, (struct key){call->due_ns, call->place}, &call->in_dues);
}

void mst_client_put_id(struct mst_client *client, struct mst_client_call *call)
{
    put(&client->ids, (struct key){call->request.id, 0}, &call->in_ids);
}

struct mst_client_call *mst_client_by_tag(const struct mst_client *client, uint64_t tag)
{
    const struct key key = {tag, 0};
    struct mst_client_call *call = MST_CONTAINER_OR_NULL(mst_tree_at_or_after(&client->tags, &key),
                                                         struct mst_client_call, in_tags);

    return call && call->tag == tag ? call : NULL;
}

struct mst_client_call *mst_client_by_id(const struct mst_client *client, uint64_t id)
{
    const struct key key = {id, 0};

    return MST_CONTAINER_OR_NULL(mst_tree_find(&client->ids, &key), struct mst_client_call, in_ids);
}

struct mst_client_call *mst_client_first_due(const struct mst_client *client)
{
    return MST_CONTAINER_OR_NULL(mst_tree_first(&client->dues), struct mst_client_call, in_dues);
}

uint64_t mst_client_soonest_ns(const struct mst_client *client)
{
    const struct mst_client_call *call = mst_client_first_due(client);

    return call ? call->due_ns : NEVER;
}
