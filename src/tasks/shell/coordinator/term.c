/* SPDX-License-Identifier: Apache-2.0 */
/* A coordinator owns a key of the job. Its revision is the term, a fencing token: only the owner
 * acts, and no other process can insert the key until the owner is lost or deletes it. A watch
 * tells the coordinator which workers there are. All of it hangs in the client and goes on with
 * that.
 *
 *   claim: insert --EEXISTS--> watch the key --a change--> insert ...
 *               --OK--> was the cluster dismissed? --> watch the key and the members */
#define _GNU_SOURCE
#include <string.h>

#include "os/system.h"
#include "tasks/shell/coordinator/cluster.h"

#define FAREWELL_NS NS_PER_S

static void decide(muster_cluster *cluster, muster_status status, uint64_t number)
{
    cluster->term.decided = true;
    cluster->term.granted = status;
    cluster->term.number = number;
}

/* ---- the claim ---- */

/* An earlier coordinator may have dismissed the cluster, also a moment before its key went. */
static void record_found(void *ctx, const struct mst_reply *reply)
{
    muster_cluster *cluster = ctx;
    bool found = reply->status == MUSTER_OK;

    cluster->term.dismissed = found;
    decide(cluster, found || reply->status == MUSTER_ENOTFOUND ? MUSTER_OK : reply->status,
           cluster->term.number);
}

static void look_for_record(muster_cluster *cluster)
{
    struct mst_coord_term *term = &cluster->term;
    const struct mst_request request = {.command = MST_GET,
                                        .get.key = mst_slice_text(term->record_key)};
    muster_status status;

    term->record = (struct mst_lib_post){.complete = record_found, .ctx = cluster};
    status = mst_lib_post(cluster->client, &request, NEVER, &term->record);
    if (status != MUSTER_OK) {
        decide(cluster, status, term->number);
    }
}

static void insert_answered(void *ctx, const struct mst_reply *reply);

void mst_coord_term_claim(muster_cluster *cluster)
{
    struct mst_coord_term *term = &cluster->term;
    const struct mst_write op = {.kind = MST_INSERT,
                                 .owned = true,
                                 .key = mst_slice_text(term->key),
                                 .value = mst_slice_text(term->value)};
    const struct mst_request request = {.command = MST_WRITE, .write = {.ops = &op, .count = 1}};
    muster_status status;

    term->claim = (struct mst_lib_post){.complete = insert_answered, .ctx = cluster};
    status = mst_lib_post(cluster->client, &request, NEVER, &term->claim);
    if (status != MUSTER_OK) {
        decide(cluster, status, 0);
    }
}

/* The owner of the key may have lost it. */
static muster_status take_change(void *ctx, const struct mst_reply *reply)
{
    (void)reply;
    mst_coord_term_claim(ctx);
    return MUSTER_MORE;
}

static void claim_over(void *ctx, muster_status status)
{
    decide(ctx, status, 0);
}

static void insert_answered(void *ctx, const struct mst_reply *reply)
{
    muster_cluster *cluster = ctx;
    struct mst_coord_term *term = &cluster->term;

    if (reply->status == MUSTER_OK) {
        term->number = reply->revision;
        look_for_record(cluster);
    } else if (reply->status != MUSTER_EEXISTS) {
        decide(cluster, reply->status, 0);
    } else if (term->rival.client) {
        mst_lib_follow_on(&term->rival);
    } else {
        term->rival.take = take_change;
        term->rival.over = claim_over;
        term->rival.ctx = cluster;
        /* From the key in the way: its end may be over already, and is no change from 0. */
        mst_lib_follow_after(&term->rival, cluster->client, MST_WATCH_KEYS,
                             mst_slice_text(term->key), MST_NODE_NONE, reply->revision);
    }
}

bool mst_coord_term_decided(void *ctx)
{
    return ((muster_cluster *)ctx)->term.decided;
}

/* ---- what goes on in the job ---- */

/* Both locks held, and there is a machine. */
static void supersede(muster_cluster *cluster, muster_status status)
{
    cluster->superseded = true;
    mst_cluster_superseded(mst_coord_machine(cluster), mst_lib_now_ns(), status);
}

/* Of any other state there is no worker to speak of: ABSENT. */
static const enum mst_worker_state states[MST_SPARE + 1] = {[MST_PRESENT] = MST_WORKER_PRESENT,
                                                            [MST_SILENT] = MST_WORKER_SILENT,
                                                            [MST_STATE_LOST] = MST_WORKER_LOST,
                                                            [MST_LEFT] = MST_WORKER_LEFT};

static bool is_our_key(const muster_cluster *cluster, const struct mst_item *item)
{
    return (item->kind == MST_ITEM_KEY || item->kind == MST_ITEM_DELETED) &&
           mst_slice_equal(item->name, mst_slice_text(cluster->term.key));
}

/* OK; ENOMEM. */
static muster_status take_member(muster_cluster *cluster, const struct mst_who *who)
{
    if (who->role != MST_ROLE_WORKER || states[who->state] == MST_WORKER_ABSENT) {
        return MUSTER_OK;
    }
    return mst_cluster_member(mst_coord_machine(cluster), mst_lib_now_ns(), who->index,
                              who->incarnation, states[who->state],
                              (struct mst_worker_end){who->cause, who->code}, who->host);
}

/* Both locks held. OK; EFENCED: the term is another's; ENOMEM: the same reply is needed again. */
static muster_status take_items(muster_cluster *cluster, const struct mst_reply *reply)
{
    for (uint32_t i = 0; i < reply->item_count; i++) {
        const struct mst_item *item = &reply->items[i];

        if (item->kind == MST_ITEM_RESET) {
            cluster->term.seen = false; /* all is listed again */
        }
        if (is_our_key(cluster, item)) {
            if (item->kind == MST_ITEM_DELETED || item->revision != cluster->term.number) {
                return MUSTER_EFENCED;
            }
            cluster->term.seen = true;
        }
        if (item->kind == MST_ITEM_MEMBER && take_member(cluster, &item->who) != MUSTER_OK) {
            return MUSTER_ENOMEM;
        }
    }
    if (!cluster->term.seen && (reply->revision & MST_CURSOR_LISTING) == 0) {
        return MUSTER_EFENCED; /* all was listed, and the key was not */
    }
    return MUSTER_OK;
}

/* Client's lock held: the machine's is inside of it. */
static muster_status take(void *ctx, const struct mst_reply *reply)
{
    muster_cluster *cluster = ctx;
    muster_status status = MUSTER_OK;

    mst_coord_lock(cluster);
    if (mst_coord_machine(cluster)) {
        status = take_items(cluster, reply);
        if (status == MUSTER_EFENCED) {
            supersede(cluster, status);
        }
        mst_coord_turn(cluster);
    }
    mst_coord_unlock(cluster);
    return status;
}

void mst_coord_term_watch(muster_cluster *cluster)
{
    struct mst_coord_term *term = &cluster->term;

    term->watch.take = take;
    term->watch.ctx = cluster;
    mst_lib_follow(&term->watch, cluster->client, MST_WATCH_KEYS | MST_WATCH_MEMBERS,
                   mst_slice_text(term->key), MST_NODE_NONE);
}

/* ---- the published status ---- */

static void on_status(void *ctx, const struct mst_reply *reply)
{
    muster_cluster *cluster = ctx;

    mst_coord_lock(cluster);
    cluster->publishing = false;
    if (reply->status != MUSTER_OK) {
        mst_cluster_publisher_failed(&cluster->publisher);
    }
    if (!cluster->poisoned) {
        mst_coord_hurry(cluster); /* the next one was not waited for until now */
    }
    mst_coord_unlock(cluster);
}

void mst_coord_term_publish(muster_cluster *cluster, size_t size)
{
    const struct mst_write op = {.kind = MST_PUT,
                                 .owned = true,
                                 .key = mst_slice_text(cluster->term.status_key),
                                 .value = mst_slice_of(cluster->publisher.text, size)};
    const struct mst_request request = {.command = MST_WRITE, .write = {.ops = &op, .count = 1}};
    const struct mst_reply refused = {.command = MST_WRITE, .status = MUSTER_ELIMIT};

    if (cluster->term.over) {
        return; /* it was closed while the thread was on its way here */
    }
    cluster->term.status = (struct mst_lib_post){.complete = on_status, .ctx = cluster};
    if (mst_lib_post(cluster->client, &request, NEVER, &cluster->term.status) != MUSTER_OK) {
        on_status(cluster, &refused);
    }
}

/* ---- the record of the dismissal ---- */

static void record_written(void *ctx, const struct mst_reply *reply)
{
    muster_cluster *cluster = ctx;

    mst_coord_lock(cluster);
    if (mst_coord_machine(cluster) && !cluster->poisoned) {
        cluster->unrecorded = reply->status;
        cluster->dismissed = cluster->dismissed || reply->status == MUSTER_OK;
        mst_cluster_recorded(mst_coord_machine(cluster), mst_lib_now_ns(), reply->status);
        mst_coord_turn(cluster);
    }
    mst_coord_unlock(cluster);
}

void mst_coord_term_record(muster_cluster *cluster)
{
    const struct mst_write op = {.kind = MST_PUT,
                                 .key = mst_slice_text(cluster->term.record_key),
                                 .value = mst_slice_text(cluster->client->host)};
    const struct mst_request request = {.command = MST_WRITE, .write = {.ops = &op, .count = 1}};
    struct mst_reply refused = {.command = MST_WRITE};

    if (cluster->term.over) {
        return;
    }
    cluster->term.record = (struct mst_lib_post){.complete = record_written, .ctx = cluster};
    refused.status = mst_lib_post(cluster->client, &request, NEVER, &cluster->term.record);
    if (refused.status != MUSTER_OK) {
        record_written(cluster, &refused);
    }
}

/* ---- giving it back ---- */

void mst_coord_term_drop(muster_cluster *cluster)
{
    cluster->term.over = true;
    mst_lib_post_drop(cluster->client, &cluster->term.claim);
    mst_lib_follow_end(&cluster->term.rival);
    mst_lib_follow_end(&cluster->term.watch);
    mst_lib_post_drop(cluster->client, &cluster->term.status);
    mst_lib_post_drop(cluster->client, &cluster->term.record);
}

/* An insert that is under way may be applied: the answer is awaited, so that no key stays behind
 * without an owner. */
void mst_coord_term_leave(muster_cluster *cluster)
{
    struct mst_coord_term *term = &cluster->term;
    const struct mst_write ops[] = {{.kind = MST_DELETE, .key = mst_slice_text(term->key)},
                                    {.kind = MST_DELETE, .key = mst_slice_text(term->status_key)}};
    const struct mst_request request = {.command = MST_WRITE, .write = {.ops = ops, .count = 2}};
    uint64_t until_ns = mst_lib_now_ns() + FAREWELL_NS;

    if (!term->decided && (term->claim.open || term->record.open)) {
        (void)mst_lib_wait(cluster->client, mst_coord_term_decided, cluster, until_ns);
    }
    if (term->decided && term->granted == MUSTER_OK && !cluster->superseded &&
        mst_lib_status(cluster->client) == MUSTER_OK) {
        mst_lib_farewell(cluster->client, &request, 1, until_ns);
    }
}

/* ---- the hook, client's lock held ---- */

static void hook_ended(void *ctx, uint64_t now_ns, muster_status status)
{
    muster_cluster *cluster = ctx;

    (void)now_ns;
    mst_coord_lock(cluster);
    if (mst_coord_machine(cluster) && !cluster->poisoned) {
        supersede(cluster, status);
        mst_coord_turn(cluster);
    }
    mst_coord_unlock(cluster);
}

static void hook_interrupted(void *ctx, uint64_t now_ns, bool on)
{
    muster_cluster *cluster = ctx;

    (void)now_ns;
    mst_coord_lock(cluster);
    cluster->interrupted = on;
    mst_coord_wake(cluster);
    mst_coord_unlock(cluster);
}

static void hook_disowned(void *ctx)
{
    muster_cluster *cluster = ctx;

    mst_coord_lock(cluster);
    mst_coord_disown(cluster);
    mst_coord_unlock(cluster);
}

/* This thread has given back the cluster's lock, if it had it. */
static void hook_poisoned(void *ctx)
{
    muster_cluster *cluster = ctx;

    mst_coord_lock(cluster);
    mst_coord_poison(cluster);
    mst_coord_unlock(cluster);
}

/* The client is freed, and the coordinator was not closed: it stays as something that is over. */
static void hook_release(void *ctx)
{
    muster_cluster *cluster = ctx;

    if (!cluster->poisoned) { /* else its thread may be stopped in the middle of it for good */
        mst_coord_loop_stop(cluster);
        mst_cluster_listener_close(&cluster->listener);
    }
    mst_coord_lock(cluster);
    cluster->client = NULL;
    mst_coord_unlock(cluster);
}

void mst_coord_hook_in(muster_cluster *cluster)
{
    const struct mst_lib_hook hook = {.ended = hook_ended,
                                      .interrupted = hook_interrupted,
                                      .disowned = hook_disowned,
                                      .poisoned = hook_poisoned,
                                      .release = hook_release,
                                      .ctx = cluster};

    mst_lib_hook(cluster->client, MST_USER_CLUSTER, &hook);
}
