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

static void ask(struct mst_saving *saving);

static void end(struct mst_saving *saving)
{
    mst_shared_lock(saving->shared);
    saving->step = MST_SAVING_ANSWERED;
    mst_shared_unlock(saving->shared);
    mst_shared_wake(saving->shared);
}

static bool is_later(const struct mst_saving_last *last, const struct mst_preempt_name *name)
{
    return !last->there || name->generation > last->generation ||
           (name->generation == last->generation && name->k > last->k);
}

/* What its keys are listed under. */
static const char *prefix_of(enum mst_saving_step step)
{
    if (step == MST_SAVING_AGREED) {
        return MST_PREEMPT_PREFIX "agreed/";
    }
    return step == MST_SAVING_VERDICT ? MST_PREEMPT_PREFIX "verdict/"
                                      : MST_PREEMPT_PREFIX "complete/";
}

static void take_key(struct mst_saving *saving, const struct mst_item *item)
{
    struct mst_saving_last *last =
        saving->step == MST_SAVING_AGREED ? &saving->agreed : &saving->complete;
    struct mst_preempt_fact fact = {.step = -1};
    struct mst_preempt_name name;
    bool good;

    if (item->kind != MST_ITEM_KEY || !mst_preempt_name_read(item->name, &name)) {
        return;
    }
    if (saving->step == MST_SAVING_VERDICT) {
        last = &saving->withdrawn;
        good = mst_verdict_read(item->value) == MST_VERDICT_WITHDRAWN;
    } else {
        good = mst_preempt_fact_read(item->value, &fact);
    }
    if (good && is_later(last, &name)) {
        *last = (struct mst_saving_last){
            .there = true, .generation = name.generation, .k = name.k, .fact = fact};
    }
}

static void take_member(struct mst_saving *saving, const struct mst_item *item)
{
    struct mst_saving_missing *missing = &saving->missing[saving->missing_count];

    saving->expected++;
    if (item->arrived != 0) {
        saving->arrived++;
    } else if (saving->missing_count < MST_SAVING_MISSING_MAX) {
        size_t size = item->who.host.size < sizeof missing->host ? item->who.host.size
                                                                 : sizeof missing->host - 1;

        missing->index = item->who.index;
        missing->rank = item->who.rank;
        if (size > 0) {
            memcpy(missing->host, item->who.host.data, size);
        }
        missing->host[size] = '\0';
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

/* With the client's lock held. What is not answered is not known. */
static void on_answer(void *ctx, const struct mst_reply *reply)
{
    struct mst_saving *saving = ctx;
    bool more;

    mst_shared_lock(saving->shared);
    more = reply->status == MUSTER_OK && take_page(saving, reply);
    if (!more) {
        saving->step++;
        saving->after[0] = '\0';
        saving->page = 0;
    }
    if (reply->status != MUSTER_OK ||
        (saving->step == MST_SAVING_MEMBERS && (saving->again || !saving->agreed.there))) {
        saving->step = MST_SAVING_ANSWERED;
    }
    mst_shared_unlock(saving->shared);
    ask(saving);
}

/* With the client's lock held. */
static void ask(struct mst_saving *saving)
{
    struct mst_request request = {.command = MST_LIST};
    char name[MST_PREEMPT_NAME_ROOM];

    if (saving->step == MST_SAVING_ANSWERED) {
        end(saving);
        return;
    }
    if (saving->step == MST_SAVING_MEMBERS) {
        (void)snprintf(name, sizeof name, MST_PREEMPT_ROUND_SAVE "%" PRIu64, saving->agreed.k);
        request = (struct mst_request){.command = MST_ROUND_MEMBERS,
                                       .round_members = {.generation = saving->agreed.generation,
                                                         .name = mst_slice_text(name),
                                                         .after = saving->page}};
    } else {
        request.list.prefix = mst_slice_text(prefix_of(saving->step));
        request.list.after = mst_slice_text(saving->after);
    }
    saving->post = (struct mst_lib_post){.complete = on_answer, .ctx = saving};
    if (mst_lib_post(saving->session->client, &request, mst_lib_now_ns() + ANSWER_NS,
                     &saving->post) != MUSTER_OK) {
        end(saving);
    }
}

static bool is_being_asked(struct mst_saving *saving)
{
    enum mst_saving_step step;

    mst_shared_lock(saving->shared);
    step = saving->step;
    mst_shared_unlock(saving->shared);
    return step != MST_SAVING_NOT_ASKED && step != MST_SAVING_ANSWERED;
}

void mst_saving_ask(struct mst_saving *saving)
{
    struct mst_shared *shared = saving->shared;
    struct mst_run_session *session = saving->session;

    if (is_being_asked(saving)) {
        return; /* its answer is on its way */
    }
    *saving = (struct mst_saving){.step = MST_SAVING_AGREED, .shared = shared, .session = session};
    if (session->client == NULL) {
        saving->step = MST_SAVING_ANSWERED;
        return;
    }
    mst_lib_lock(session->client);
    ask(saving);
    mst_lib_unlock(session->client);
}

void mst_saving_ask_again(struct mst_saving *saving)
{
    muster_client *client = saving->session->client;

    if (client == NULL) {
        return;
    }
    mst_lib_lock(client);
    saving->again = true;
    saving->step = MST_SAVING_COMPLETE;
    ask(saving);
    mst_lib_unlock(client);
}

bool mst_saving_answered(struct mst_saving *saving)
{
    bool answered;

    mst_shared_lock(saving->shared);
    answered = saving->step == MST_SAVING_ANSWERED;
    mst_shared_unlock(saving->shared);
    return answered;
}

bool mst_saving_saved(const struct mst_saving *saving, uint64_t generation)
{
    return saving->complete.there && saving->complete.generation >= generation;
}

static bool is_of(const struct mst_saving_last *one, const struct mst_saving_last *other)
{
    return one->there && one->generation == other->generation && one->k == other->k;
}

/* It was to be, until the end. */
static bool is_unsaved(const struct mst_saving *saving, uint64_t generation)
{
    const struct mst_saving_last *agreed = &saving->agreed, *complete = &saving->complete;

    return agreed->there && agreed->generation >= generation &&
           !is_of(&saving->withdrawn, agreed) &&
           (!complete->there || agreed->generation > complete->generation ||
            (agreed->generation == complete->generation && agreed->k > complete->k));
}

const struct mst_saving_last *mst_saving_last(const struct mst_saving *saving, uint64_t generation)
{
    if (saving->step != MST_SAVING_ANSWERED) {
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

    if (saving->step != MST_SAVING_ANSWERED || mst_saving_saved(saving, generation)) {
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
