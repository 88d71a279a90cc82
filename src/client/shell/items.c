/* SPDX-License-Identifier: Apache-2.0 */
#include "client/shell/items.h"

#include <stdlib.h>

#include "client/shell/call.h"

/* ---- pages ---- */

/* The call's own name for the next page is in `kept`. */
static void turn_page(struct mst_call *call, uint64_t next)
{
    struct mst_request *request = &call->request;

    if (request->command == MST_ROUND_MEMBERS) {
        request->round_members.name = mst_slice_text(call->kept);
        request->round_members.after = next;
    } else if (request->command != MST_LIST) {
        request->page.after = next;
    } else {
        request->list.prefix = mst_slice_text(call->kept);
        if (call->items.count > 0) {
            request->list.after = call->items.items[call->items.count - 1].name;
        }
    }
}

static muster_status take_page(struct mst_call *call, const struct mst_reply *reply)
{
    call->items.number = reply->number;
    if (reply->status != MUSTER_OK) {
        return reply->status;
    }
    if (!mst_items_add(&call->items, reply->items, reply->item_count) ||
        !mst_items_value(&call->items, reply->value)) {
        return MUSTER_ENOMEM;
    }
    if (reply->next != 0) {
        turn_page(call, reply->next);
        return MUSTER_MORE;
    }
    return call->make ? call->make(call) : MUSTER_OK;
}

static void drop_pages(struct mst_call *call)
{
    if (call->status != MUSTER_OK) {
        mst_items_fini(&call->items);
    }
}

muster_status mst_lib_items_make(struct mst_call *call, const struct mst_lib_how *how)
{
    call->take = take_page;
    call->ended = drop_pages;
    return mst_lib_make(call, how);
}

muster_status mst_lib_items_collect(muster_client *client, struct mst_request *request,
                                    int64_t timeout_ms, struct mst_items *items,
                                    struct muster_error *err, const char *what)
{
    struct mst_lib_how how = mst_lib_blocking(err);
    struct mst_call call = {
        .client = client, .what = what, .timeout_ms = timeout_ms, .request = *request};
    muster_status status = mst_lib_items_make(&call, &how);

    *items = call.items;
    return status;
}

/* ---- members ---- */

static const enum muster_role roles[] = {[MST_ROLE_OBSERVER] = MUSTER_ROLE_OBSERVER,
                                         [MST_ROLE_RANK] = MUSTER_ROLE_RANK,
                                         [MST_ROLE_WORKER] = MUSTER_ROLE_WORKER,
                                         [MST_ROLE_AGENT] = MUSTER_ROLE_AGENT};

struct muster_member mst_lib_member_of(const struct mst_item *item)
{
    const struct mst_who *who = &item->who;
    struct muster_member member = {.incarnation = who->incarnation,
                                   .heard_ms = who->heard_ms,
                                   .pid = who->pid,
                                   .host = who->host.data ? who->host.data : "",
                                   .text = item->value.data ? item->value.data : "",
                                   .index = who->index,
                                   .rank = who->rank,
                                   .role = roles[who->role],
                                   .state = (enum muster_member_state)who->state,
                                   .cause = (enum muster_cause)who->cause,
                                   .code = who->code,
                                   .losses = who->losses,
                                   .arrived = item->arrived != 0,
                                   .node = who->node == MST_NODE_NONE ? -1 : (int64_t)who->node};

    if (item->name.size > 0) {
        member.waits_at = item->name.data;
        member.waits_number = item->number;
    }
    return member;
}

struct muster_members {
    struct mst_items items;
    size_t count;
    struct muster_member members[];
};

/* Takes the items over. NULL: no memory, and the items stay. */
static muster_members *members_new(struct mst_items *items)
{
    muster_members *members =
        calloc(1, sizeof(*members) + items->count * sizeof(members->members[0]));

    if (!members) {
        return NULL;
    }
    members->items = *items;
    *items = (struct mst_items){0};
    for (size_t i = 0; i < members->items.count; i++) {
        if (members->items.items[i].kind == MST_ITEM_MEMBER) {
            members->members[members->count++] = mst_lib_member_of(&members->items.items[i]);
        }
    }
    return members;
}

muster_members *mst_lib_members_named(const struct mst_detail *detail)
{
    struct mst_item named[MST_NAMES_MAX] = {0};
    struct mst_items items = {0};
    muster_members *members = NULL;
    uint32_t count = 0;

    for (; count < detail->who_count && count < MST_NAMES_MAX; count++) {
        named[count].kind = MST_ITEM_MEMBER;
        named[count].who = detail->who[count];
    }
    if (mst_items_add(&items, named, count)) {
        members = members_new(&items);
    }
    mst_items_fini(&items);
    return members;
}

muster_status mst_lib_members_make(struct mst_call *call)
{
    muster_members **out = call->out;

    *out = members_new(&call->items);
    return *out ? MUSTER_OK : MUSTER_ENOMEM;
}

size_t muster_members_count(const muster_members *members)
{
    return members ? members->count : 0;
}

const struct muster_member *muster_members_get(const muster_members *members, size_t i)
{
    return members && i < members->count ? &members->members[i] : NULL;
}

void muster_members_free(muster_members *members)
{
    if (members) {
        mst_items_fini(&members->items);
        free(members);
    }
}
