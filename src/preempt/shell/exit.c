/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting until the ranks with a notice have ended: a watch on the members beside what the handle
 * knows of notices. */
#include <stdlib.h>
#include <string.h>

#include "base/panic.h"
#include "client/shell/follow.h"
#include "preempt/shell/preempt.h"

/* A rank of the job, as it was when the wait began. */
struct place {
    uint32_t index;
    uint64_t incarnation;
    bool gone;
};

struct mst_preempt_exit {
    struct mst_list link;
    struct muster_preempt *preempt;
    struct mst_lib_follow follow;
    struct place *places;
    size_t count, room;
    bool listed; /* all members were listed once */
    bool over;
};

/* A member that only waits to join is not the one with the notice: that one is replaced already. */
static bool is_gone(const struct mst_who *who)
{
    return who->state != MST_PRESENT && who->state != MST_SILENT && who->state != MST_SPARE;
}

/* A replacement in the place is not the member with the notice. */
static muster_status take_who(struct mst_preempt_exit *wait, const struct mst_who *who)
{
    for (size_t i = 0; i < wait->count; i++) {
        struct place *place = &wait->places[i];

        if (place->index == who->index) {
            place->gone = place->gone || is_gone(who) || who->incarnation != place->incarnation;
            return MUSTER_OK;
        }
    }
    if (wait->count == wait->room) {
        size_t room = wait->room ? wait->room * 2 : 64;
        struct place *places = realloc(wait->places, room * sizeof(*places));

        if (!places) {
            return MUSTER_ENOMEM;
        }
        wait->places = places;
        wait->room = room;
    }
    wait->places[wait->count++] =
        (struct place){.index = who->index, .incarnation = who->incarnation, .gone = is_gone(who)};
    return MUSTER_OK;
}

static bool is_noticed(const struct muster_preempt *preempt, uint32_t index)
{
    return mst_preempt_notice_of(preempt->host.machine, index) ||
           mst_preempt_notice_of(preempt->host.machine, MST_NOTICE_ALL);
}

static void look(struct mst_preempt_exit *wait)
{
    uint32_t own = mst_lib_view(wait->preempt->client)->index;

    if (!wait->listed || wait->over) {
        return;
    }
    for (size_t i = 0; i < wait->count; i++) {
        const struct place *place = &wait->places[i];

        if (!place->gone && place->index != own && is_noticed(wait->preempt, place->index)) {
            return;
        }
    }
    wait->over = true;
}

void mst_preempt_exit_look(struct muster_preempt *preempt)
{
    MST_LIST_EACH(link, following, &preempt->exits)
    {
        look(MST_CONTAINER(link, struct mst_preempt_exit, link));
    }
}

static muster_status take(void *ctx, const struct mst_reply *reply)
{
    struct mst_preempt_exit *wait = ctx;

    for (uint32_t i = 0; i < reply->item_count; i++) {
        const struct mst_item *item = &reply->items[i];

        if (item->kind == MST_ITEM_MEMBER && item->who.role == MST_ROLE_RANK &&
            take_who(wait, &item->who) != MUSTER_OK) {
            return MUSTER_ENOMEM;
        }
    }
    wait->listed = wait->listed || mst_follow_listed(reply);
    look(wait);
    return wait->over ? MUSTER_MORE : MUSTER_OK;
}

/* Without its service this process can learn nothing any more; a lease without a word is enough. */
static bool is_over(void *ctx)
{
    const struct mst_preempt_exit *wait = ctx;

    return wait->over || wait->preempt->ended || mst_lib_stopped(wait->preempt->client);
}

static bool service_is_gone(const muster_client *client, muster_status status)
{
    return status == MUSTER_EUNREACHABLE || mst_lib_stopped(client);
}

/* Lock held. */
static muster_status wait_exit(struct muster_preempt *preempt, uint64_t deadline_ns,
                               const char *what, struct muster_error *err)
{
    muster_client *client = preempt->client;
    struct mst_preempt_exit wait = {.preempt = preempt, .follow = {.take = take, .ctx = &wait}};
    muster_status status = mst_lib_status(client);
    bool in_time;

    if (status) {
        return service_is_gone(client, status) ? MUSTER_OK : mst_lib_fail_again(client, err, what);
    }
    mst_list_append(&preempt->exits, &wait.link);
    mst_lib_follow(&wait.follow, client, MST_WATCH_MEMBERS, mst_slice_text(""), MST_NODE_NONE);
    in_time = mst_lib_wait_interruptible(client, is_over, &wait, deadline_ns);
    mst_list_remove(&wait.link);
    if (client->poisoned) {
        return mst_lib_fail(err, MUSTER_EINTERNAL, what, NULL);
    }
    mst_lib_follow_end(&wait.follow);
    free(wait.places);
    status = mst_lib_status(client);
    if (service_is_gone(client, status)) {
        return MUSTER_OK;
    }
    if (status) {
        return mst_lib_fail_again(client, err, what);
    }
    if (wait.over) {
        return MUSTER_OK;
    }
    return mst_lib_fail(err, in_time ? MUSTER_EINTERRUPTED : MUSTER_ETIMEDOUT, what, NULL);
}

muster_status muster_preempt_wait_exit(muster_preempt *preempt, int64_t timeout_ms,
                                       struct muster_error *err)
{
    static const char what[] = "wait for the exit of the noticed ranks";
    muster_client *client;
    muster_status status;

    if (!preempt) {
        return mst_lib_refuse(err, what, "the handle is NULL");
    }
    client = preempt->client;
    status = mst_preempt_enter(client, err, what);
    if (status) {
        return status;
    }
    mst_lib_lock(client);
    if (mst_preempt_noticed(preempt->host.machine)) {
        mst_lib_keep(client);
        status = wait_exit(preempt, mst_lib_deadline_ns(timeout_ms, 0), what, err);
        mst_lib_let_go(client);
    }
    mst_lib_unlock(client);
    return status;
}
