/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/watch.h"

#include <stdlib.h>
#include <string.h>

#include "client/shell/call.h"

struct muster_watch {
    muster_client *client;
    struct mst_request request; /* its prefix is `prefix` */
    struct mst_items items;     /* of the last page */
    size_t next;
    uint64_t came_ns; /* the time at which they arrived */
    struct muster_view view;
    bool busy; /* a call for the next one is open */
    char prefix[];
};

static muster_status read_options(struct muster_watch_options *out,
                                  const struct muster_watch_options *given,
                                  struct muster_error *err)
{
    muster_status status =
        mst_lib_options(out, sizeof(*out), given, "MUSTER_WATCH_OPTIONS_INIT", err, "watch");

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
    struct muster_watch_options options = MUSTER_WATCH_OPTIONS_INIT;
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

static bool event_of(muster_watch *watch, const struct mst_item *item, struct muster_event *out)
{
    *out = (struct muster_event){.revision = item->revision};
    switch (item->kind) {
    case MST_ITEM_KEY:
    case MST_ITEM_DELETED:
        out->type = item->kind == MST_ITEM_KEY ? MUSTER_EVENT_KEY : MUSTER_EVENT_DELETED;
        out->key = item->name.data;
        out->value = mst_lib_muster_slice(item->value);
        out->age_ms = item->number + (mst_lib_now_ns() - watch->came_ns) / NS_PER_MS;
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
    case MST_ITEM_INCIDENT:
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

/* MORE: asks for another page. */
static muster_status next_or_ask(struct mst_call *call)
{
    struct muster_watch *watch = call->subject;

    if (next_event(watch, call->out)) {
        return MUSTER_OK;
    }
    mst_items_fini(&watch->items);
    watch->next = 0;
    call->request = watch->request;
    return MUSTER_MORE;
}

static muster_status begin_next(struct mst_call *call)
{
    struct muster_watch *watch = call->subject;

    if (watch->busy) {
        return mst_lib_refuse(call->err, call->what, "another call waits for its next change");
    }
    watch->busy = true;
    return next_or_ask(call);
}

static muster_status take_page(struct mst_call *call, const struct mst_reply *reply)
{
    struct muster_watch *watch = call->subject;

    if (reply->status != MUSTER_OK) {
        return reply->status;
    }
    if (!mst_items_add(&watch->items, reply->items, reply->item_count)) {
        return MUSTER_ENOMEM; /* the next call requests the same page again */
    }
    watch->came_ns = mst_lib_now_ns();
    watch->request.watch.after = reply->revision;
    if (reply->has_view) {
        watch->view = mst_lib_view_shown(&reply->view);
    }
    return next_or_ask(call);
}

static void end_next(struct mst_call *call)
{
    ((struct muster_watch *)call->subject)->busy = false;
}

MST_LIB_TWINS(muster_watch_next, watch, (int64_t timeout_ms, struct muster_event *out),
              (timeout_ms, out))
{
    struct mst_call call = {.what = "watch",
                            .timeout_ms = timeout_ms,
                            .begin = begin_next,
                            .take = take_page,
                            .ended = end_next,
                            .subject = watch,
                            .out = out};

    if (!watch || !out) {
        return mst_lib_refuse(how.err, "watch", "the watch or out is NULL");
    }
    call.client = watch->client;
    return mst_lib_make(&call, &how);
}

void muster_watch_close(muster_watch *watch)
{
    if (watch) {
        mst_items_fini(&watch->items);
        free(watch);
    }
}
