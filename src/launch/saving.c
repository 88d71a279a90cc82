/* SPDX-License-Identifier: Apache-2.0 */

/* What became of the save: which step was agreed last, whether all have saved it, and if not, who
 * had. Asked of the service when it matters: when the ranks have ended, or must. */

#define _GNU_SOURCE
#include "launch/saving.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "launch/session.h"

#define ANSWER_NS UINT64_C(3000000000) /* a service that does not answer is not waited for */

static void end(struct mst_saving *saving)
{
    atomic_store(&saving->step, MST_SAVING_ANSWERED);
    mst_shared_wake(saving->session->shared);
}

static bool is_later(const struct mst_saving_last *one, const struct mst_saving_last *other)
{
    return one->generation > other->generation ||
           (one->generation == other->generation && one->k > other->k);
}

static void take_key(struct mst_saving *saving, const struct mst_item *item)
{
    struct mst_saving_last last = {.there = true, .fact = {.step = -1}}, *known = NULL;
    struct mst_preempt_name name;

    if (item->kind != MST_ITEM_KEY || !mst_preempt_name_read(item->name, &name)) {
        return;
    }
    if (name.kind == MST_PREEMPT_KEY_COMPLETE && mst_preempt_fact_read(item->value, &last.fact)) {
        known = &saving->complete;
    } else if (name.kind == MST_PREEMPT_KEY_AGREED && !saving->again &&
               mst_preempt_fact_read(item->value, &last.fact)) {
        known = &saving->agreed;
    } else if (name.kind == MST_PREEMPT_KEY_VERDICT && !saving->again &&
               mst_verdict_read(item->value) == MST_VERDICT_WITHDRAWN) {
        known = &saving->withdrawn;
    }
    last.generation = name.generation;
    last.k = name.k;
    if (known != NULL && (!known->there || is_later(&last, known))) {
        *known = last;
    }
}

static void take_member(struct mst_saving *saving, const struct mst_item *item)
{
    struct mst_saving_missing *missing = &saving->missing[saving->missing_count];

    saving->expected++;
    if (item->arrived != 0) {
        saving->arrived++;
    } else if (saving->missing_count < MST_SAVING_MISSING_MAX) {
        missing->index = item->who.index;
        missing->rank = item->who.rank;
        mst_text_print(missing->host, sizeof missing->host, "%.*s", MST_SLICE_ARGS(item->who.host));
        saving->missing_count++;
    }
}

/* Where the listing goes on. False: behind a name that is none of ours, so nowhere. */
static bool take_last(struct mst_saving *saving, struct mst_slice name)
{
    if (name.size >= sizeof saving->after) {
        return false;
    }
    memcpy(saving->after, name.data, name.size);
    saving->after[name.size] = '\0';
    return true;
}

/* Whether there is another page. */
static bool take_page(struct mst_saving *saving, const struct mst_reply *reply)
{
    for (uint32_t i = 0; i < reply->item_count; i++) {
        if (saving->step == MST_SAVING_MEMBERS) {
            take_member(saving, &reply->items[i]);
        } else {
            take_key(saving, &reply->items[i]);
        }
    }
    saving->page = reply->next;
    if (reply->next == 0 || reply->item_count == 0) {
        return false;
    }
    return saving->step == MST_SAVING_MEMBERS ||
           take_last(saving, reply->items[reply->item_count - 1].name);
}

static void ask(struct mst_saving *saving);

/* With the client's lock held. What is not answered is not known. */
static void on_answer(void *ctx, const struct mst_reply *reply)
{
    struct mst_saving *saving = ctx;

    if (reply->status == MUSTER_OK && take_page(saving, reply)) {
        ask(saving);
    } else if (reply->status == MUSTER_OK && saving->step == MST_SAVING_KEYS && !saving->again &&
               saving->agreed.there) {
        saving->step = MST_SAVING_MEMBERS;
        saving->page = 0;
        ask(saving);
    } else {
        end(saving);
    }
}

/* With the client's lock held. */
static void ask(struct mst_saving *saving)
{
    struct mst_request request = {.command = MST_LIST,
                                  .list = {.prefix = mst_slice_text(MST_PREEMPT_PREFIX),
                                           .after = mst_slice_text(saving->after)}};
    char name[MST_PREEMPT_NAME_ROOM];

    if (saving->step == MST_SAVING_MEMBERS) {
        (void)snprintf(name, sizeof name, MST_PREEMPT_ROUND_SAVE "%" PRIu64, saving->agreed.k);
        request = (struct mst_request){.command = MST_ROUND_MEMBERS,
                                       .round_members = {.generation = saving->agreed.generation,
                                                         .name = mst_slice_text(name),
                                                         .after = saving->page}};
    }
    saving->post = (struct mst_lib_post){.complete = on_answer, .ctx = saving};
    if (mst_lib_post(saving->session->client, &request, mst_lib_now_ns() + ANSWER_NS,
                     &saving->post) != MUSTER_OK) {
        end(saving);
    }
}

static void begin(struct mst_saving *saving)
{
    muster_client *client = saving->session->client;

    saving->after[0] = '\0';
    saving->step = client != NULL ? MST_SAVING_KEYS : MST_SAVING_ANSWERED;
    if (client != NULL) {
        mst_lib_lock(client);
        ask(saving);
        mst_lib_unlock(client);
    }
}

void mst_saving_ask(struct mst_saving *saving)
{
    if (saving->step == MST_SAVING_NOT_ASKED || mst_saving_answered(saving)) {
        *saving = (struct mst_saving){.session = saving->session};
        begin(saving);
    } /* else the answer is on its way */
}

void mst_saving_ask_again(struct mst_saving *saving)
{
    saving->again = true;
    begin(saving);
}

bool mst_saving_answered(const struct mst_saving *saving)
{
    return atomic_load(&saving->step) == MST_SAVING_ANSWERED;
}

bool mst_saving_saved(const struct mst_saving *saving, uint64_t generation)
{
    return saving->complete.there && saving->complete.generation >= generation;
}

/* It was to be, until the end. */
static bool is_unsaved(const struct mst_saving *saving, uint64_t generation)
{
    const struct mst_saving_last *agreed = &saving->agreed, *withdrawn = &saving->withdrawn;

    return agreed->there && agreed->generation >= generation &&
           !(withdrawn->there && withdrawn->generation == agreed->generation &&
             withdrawn->k == agreed->k) &&
           (!saving->complete.there || is_later(agreed, &saving->complete));
}

const struct mst_saving_last *mst_saving_last(const struct mst_saving *saving, uint64_t generation)
{
    if (!mst_saving_answered(saving)) {
        return NULL;
    }
    if (!mst_saving_saved(saving, generation) && is_unsaved(saving, generation)) {
        return &saving->agreed;
    }
    return saving->complete.there ? &saving->complete : NULL;
}

static void list_missing(const struct mst_saving *saving, struct mst_text *text)
{
    uint32_t more = saving->expected - saving->arrived - saving->missing_count;

    for (uint32_t i = 0; i < saving->missing_count; i++) {
        const struct mst_saving_missing *one = &saving->missing[i];
        const char *before = i == 0 ? "; not by " : ", ";

        if (one->rank == MST_RANK_NONE) {
            mst_text_format(text, "%s#%u on %s", before, one->index, one->host);
        } else {
            mst_text_format(text, "%srank %u (#%u) on %s", before, one->rank, one->index,
                            one->host);
        }
    }
    if (more > 0) {
        mst_text_format(text, " and %u more", more);
    }
}

void mst_saving_text(const struct mst_saving *saving, uint64_t generation, bool late, char *text,
                     size_t room)
{
    struct mst_text line = mst_text_in(text, room);

    if (!mst_saving_answered(saving) || mst_saving_saved(saving, generation)) {
        return;
    }
    if (!is_unsaved(saving, generation)) {
        if (late) {
            mst_text_add(&line, "not saved: no step was agreed before the deadline");
        }
        return;
    }
    mst_text_format(&line, "not saved: step %" PRId64 " was agreed, and ",
                    saving->agreed.fact.step);
    if (saving->expected == 0) {
        mst_text_add(&line, "not saved by all");
    } else if (saving->arrived == saving->expected) {
        mst_text_format(&line, "not all of the %u have saved that one", saving->expected);
    } else {
        mst_text_format(&line, "saved by %u of %u", saving->arrived, saving->expected);
        list_missing(saving, &line);
    }
}
