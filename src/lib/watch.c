/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/watch.h"

#include <stdlib.h>
#include <string.h>

#include "lib/items.h"

struct muster_watch {
    muster_client *client;
    struct mst_request request; /* its prefix lies behind */
    struct mst_items items;     /* of the last page */
    size_t next;
    struct muster_view view;
    bool no_memory;
    char prefix[];
};

static muster_status read_options(struct muster_watch_options *out,
                                  const struct muster_watch_options *given,
                                  struct muster_error *err)
{
    const struct muster_watch_options standard = MUSTER_WATCH_OPTIONS_INIT;
    muster_status status;

    *out = standard;
    status = mst_lib_options(out, sizeof(*out), given, "MUSTER_WATCH_OPTIONS_INIT", err, "watch");
    if (status != MUSTER_OK) {
        return status;
    }
    if (out->kinds == 0) {
        out->kinds = MUSTER_WATCH_KEYS;
    }
    if (out->kinds > 15u) {
        return mst_lib_refuse(err, "watch", "options.kinds has bits of no enum muster_watch_kind");
    }
    return MUSTER_OK;
}

muster_status muster_watch_open(muster_watch **out, muster_client *client,
                                const struct muster_watch_options *given, struct muster_error *err)
{
    struct muster_watch_options options;
    muster_watch *watch;
    size_t size;
    muster_status status;

    if (!out) {
        return mst_lib_refuse(err, "watch", "out is NULL");
    }
    *out = NULL;
    status = mst_lib_enter(client, err, "watch");
    if (status == MUSTER_OK) {
        status = read_options(&options, given, err);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    size = options.prefix ? strlen(options.prefix) : 0;
    watch = calloc(1, sizeof(*watch) + size + 1);
    if (!watch) {
        return mst_lib_fail(err, MUSTER_ENOMEM, "watch", NULL);
    }
    if (size > 0) {
        memcpy(watch->prefix, options.prefix, size);
    }
    watch->client = client;
    watch->request.command = MST_WATCH;
    watch->request.watch.kinds = options.kinds;
    watch->request.watch.generation = options.generation;
    watch->request.watch.prefix = mst_slice_of(watch->prefix, size);
    watch->request.watch.after = options.after;
    watch->request.watch.node = MST_NODE_NONE;
    *out = watch;
    return MUSTER_OK;
}

static void keep_view(muster_watch *watch, const struct mst_view *view)
{
    watch->view = (struct muster_view){.generation = view->generation,
                                       .incarnation = view->incarnation,
                                       .rank = view->rank,
                                       .size = view->size,
                                       .index = view->index};
}

static void on_page(void *ctx, const struct mst_reply *reply)
{
    muster_watch *watch = ctx;

    if (reply->status != MUSTER_OK) {
        return;
    }
    watch->no_memory = !mst_lib_items_add(&watch->items, reply);
    if (watch->no_memory) {
        return; /* the same page can be asked for again */
    }
    watch->request.watch.after = reply->revision;
    if (reply->has_view) {
        keep_view(watch, &reply->view);
    }
}

static bool event_of(muster_watch *watch, const struct mst_item *item, struct muster_event *out)
{
    *out = (struct muster_event){.revision = item->revision};
    switch (item->kind) {
    case MST_ITEM_KEY:
    case MST_ITEM_DELETED:
        out->type = item->kind == MST_ITEM_KEY ? MUSTER_EVENT_KEY : MUSTER_EVENT_DELETED;
        out->key = item->name.data;
        out->value.data = item->value.data;
        out->value.size = item->value.size;
        return true;
    case MST_ITEM_MEMBER:
    case MST_ITEM_FAULT:
        out->type = item->kind == MST_ITEM_MEMBER ? MUSTER_EVENT_MEMBER : MUSTER_EVENT_FAULT;
        out->member = mst_lib_member_of(item);
        return true;
    case MST_ITEM_VIEW:
        out->type = MUSTER_EVENT_VIEW;
        out->view = watch->view;
        return true;
    case MST_ITEM_RESET:
        out->type = MUSTER_EVENT_RESET;
        return true;
    case MST_ITEM_ROUND:
    case MST_ITEM_PART:
    case MST_ITEM_JOB:
    case MST_ITEM_HOST:
        break;
    }
    return false;
}

static bool next_event(muster_watch *watch, struct muster_event *out)
{
    while (watch->next < watch->items.count) {
        if (event_of(watch, &watch->items.items[watch->next++], out)) {
            return true;
        }
    }
    return false;
}

muster_status muster_watch_next(muster_watch *watch, int64_t timeout_ms, struct muster_event *out,
                                struct muster_error *err)
{
    uint64_t deadline_ns = mst_lib_deadline_ns(timeout_ms, 0);
    muster_status status;

    if (!watch || !out) {
        return mst_lib_refuse(err, "watch", "the watch or out is NULL");
    }
    while (!next_event(watch, out)) {
        mst_items_fini(&watch->items);
        watch->next = 0;
        status =
            mst_lib_call(watch->client, &watch->request, mst_lib_left_ms(timeout_ms, deadline_ns),
                         on_page, watch, err, "watch");
        if (status == MUSTER_OK && watch->no_memory) {
            status = mst_lib_fail(err, MUSTER_ENOMEM, "watch", NULL);
        }
        if (status != MUSTER_OK) {
            return status;
        }
    }
    return MUSTER_OK;
}

void muster_watch_close(muster_watch *watch)
{
    if (watch) {
        mst_items_fini(&watch->items);
        free(watch);
    }
}
