/* SPDX-License-Identifier: Apache-2.0 */
#include "service/core/render.h"

#include <string.h>

#include "proto/notice.h"
#include "service/core/generation.h"
#include "service/core/host.h"
#include "service/core/job.h"
#include "service/core/round.h"
#include "service/core/scan.h"
#include "service/core/watch.h"

/* ---- filling a page ---- */

struct page {
    struct mst_core *core;
    size_t bytes;
    uint32_t most;
};

static struct page new_page(struct mst_core *core)
{
    core->reply.items = core->items;
    core->reply.item_count = 0;
    return (struct page){.core = core, .most = MST_PAGE_ITEMS};
}

/* The next item, that will borrow about `bytes`; NULL: the page is full. */
static struct mst_item *add_item(struct page *page, enum mst_item_kind kind, size_t bytes)
{
    struct mst_reply *reply = &page->core->reply;
    struct mst_item *item;

    /* The first item always fits, or one large value would end every listing. */
    if (reply->item_count >= page->most ||
        (reply->item_count > 0 && page->bytes + bytes > MST_PAGE_BYTES)) {
        return NULL;
    }
    page->bytes += bytes;
    item = &page->core->items[reply->item_count++];
    *item = (struct mst_item){.kind = kind};
    return item;
}

static void fill_key(const struct mst_core *core, struct mst_item *item, const struct mst_key *key)
{
    item->name = mst_key_name(key);
    item->value = mst_blob_slice(key->value);
    item->revision = key->revision;
    item->number = mst_key_age_ms(core, key);
}

static void fill_member(struct mst_item *item, const struct mst_member *member)
{
    item->who = mst_member_who(member);
    item->revision = member->revision;
    item->value = mst_blob_slice(member->text);
    if (member->waits_at) {
        item->name = mst_round_name_slice(member->waits_at->name);
        item->number = member->waits_at->number;
    }
}

static size_t member_bytes(const struct mst_member *member)
{
    return mst_blob_slice(member->text).size + mst_blob_slice(member->host).size;
}

/* ---- pages ---- */

static void render_list(struct mst_core *core, const struct mst_waiter *waiter)
{
    const struct mst_keyspace *space = mst_keyspace_of(waiter->job, waiter->page.generation);
    struct mst_slice prefix = mst_blob_slice(waiter->page.prefix);
    struct mst_slice after = mst_blob_slice(waiter->page.after_name);
    struct page page = new_page(core);
    const struct mst_key *key;

    if (!space) { /* sealed since: the key space is gone */
        core->reply.status = MUSTER_EFENCED;
        return;
    }
    key = mst_key_after(space, mst_slice_compare(after, prefix) > 0 ? after : prefix);
    if (key && after.size > 0 && mst_slice_equal(mst_key_name(key), after)) {
        key = mst_key_next(key);
    }
    for (; key && mst_slice_starts_with(mst_key_name(key), prefix); key = mst_key_next(key)) {
        struct mst_item *item;

        core->walked++;
        if (!key->value) {
            continue;
        }
        item = add_item(&page, MST_ITEM_KEY, key->name_size + key->value->size);
        if (!item) {
            core->reply.next = 1;
            return;
        }
        fill_key(core, item, key);
    }
}

/* A cursor over members: 1 + role and index of the last one told. */
static uint64_t member_cursor(const struct mst_member *member)
{
    return ((uint64_t)member->role << 32 | member->index) + 1;
}

static void render_members(struct mst_core *core, const struct mst_waiter *waiter)
{
    uint64_t after = waiter->page.after;
    uint64_t last = after;
    struct page page = new_page(core);
    struct mst_member *member;

    if (after >> 32 > MST_ROLE_AGENT) {
        return;
    }
    member = mst_member_from(waiter->job, (enum mst_role)(after >> 32), (uint32_t)after);
    for (; member; member = mst_member_next(member)) {
        struct mst_item *item = add_item(&page, MST_ITEM_MEMBER, member_bytes(member));

        core->walked++;
        if (!item) {
            core->reply.next = last;
            return;
        }
        fill_member(item, member);
        last = member_cursor(member);
    }
}

static void render_rounds(struct mst_core *core, const struct mst_waiter *waiter)
{
    uint64_t last = waiter->page.after;
    struct page page = new_page(core);

    MST_LIST_EACH(node, following, &waiter->job->round_list)
    {
        const struct mst_round_name *name = mst_round_name_of_list(node);
        struct mst_item *item;

        core->walked++;
        if (name->serial <= waiter->page.after || !name->open) {
            continue;
        }
        item = add_item(&page, MST_ITEM_ROUND, name->name_size);
        if (!item) {
            core->reply.next = last;
            return;
        }
        item->name = mst_round_name_slice(name);
        item->number = name->number;
        item->arrived = name->open->arrived;
        item->expected = name->open->part_count;
        item->who = mst_round_first_missing(name->open);
        last = name->serial;
    }
}

/* Where every rank has a seat there are none, and nobody is to be looked for. */
static uint32_t spares_of(const struct mst_job *job)
{
    const struct mst_member *member = mst_member_from(job, MST_ROLE_RANK, 0);
    uint32_t spares = 0;

    for (; member && member->role == MST_ROLE_RANK && job->living > job->alive;
         member = mst_member_next(member)) {
        spares += member->spare;
        job->core->walked++;
    }
    return spares;
}

static void render_jobs(struct mst_core *core, const struct mst_waiter *waiter)
{
    uint64_t last = waiter->page.after;
    struct page page = new_page(core);

    MST_LIST_EACH(node, following, &core->job_list)
    {
        const struct mst_job *job = mst_job_of_list(node);
        struct mst_item *item;

        core->walked++;
        if (job->serial <= waiter->page.after) {
            continue;
        }
        item = add_item(&page, MST_ITEM_JOB, job->name_size);
        if (!item) {
            core->reply.next = last;
            return;
        }
        item->name = mst_job_name(job);
        item->listening = 1U + mst_watch_count(&job->keys, mst_slice_text(MST_PREEMPT_PREFIX));
        item->number = job->generation;
        item->arrived = job->living - spares_of(job);
        item->expected = job->size;
        last = job->serial;
    }
}

static void render_hosts(struct mst_core *core, const struct mst_waiter *waiter)
{
    uint64_t last = waiter->page.after;
    struct page page = new_page(core);

    MST_LIST_EACH(node, following, &waiter->job->host_list)
    {
        const struct mst_host *host = mst_host_of_list(node);
        struct mst_item *item;

        core->walked++;
        if (host->serial <= waiter->page.after) {
            continue;
        }
        item = add_item(&page, MST_ITEM_HOST, host->name_size);
        if (!item) {
            core->reply.next = last;
            return;
        }
        item->name = mst_host_name(host);
        item->number = host->node_losses;
        item->expected = host->rank_losses;
        item->arrived = host->members;
        last = host->serial;
    }
}

static void render_round_members(struct mst_core *core, const struct mst_waiter *waiter)
{
    const struct mst_round *round = waiter->round;
    struct page page = new_page(core);

    if (waiter->page.after > round->part_count) {
        return;
    }
    for (uint32_t i = (uint32_t)waiter->page.after; i < round->part_count; i++) {
        struct mst_who who = mst_round_part_who(round, &round->parts[i]);
        struct mst_item *item = add_item(&page, MST_ITEM_MEMBER, who.host.size);

        core->walked++;
        if (!item) {
            core->reply.next = i;
            return;
        }
        item->who = who;
        item->number = round->number;
        item->arrived = round->parts[i].arrived;
        item->expected = 1;
    }
}

/* ---- what befell a generation ---- */

static bool add_record(struct page *page, const struct mst_job *job,
                       const struct mst_records *records, const struct mst_record *record)
{
    struct mst_item *item =
        add_item(page, MST_ITEM_FAULT,
                 mst_blob_slice(record->text).size + mst_blob_slice(record->host).size);

    if (item) {
        mst_record_fill(job, records, record, item);
    }
    return item != NULL;
}

/* With a seal, to who is in the new generation: why the one before ended. */
static void render_sealed(struct mst_core *core, const struct mst_waiter *waiter)
{
    const struct mst_job *job = waiter->job;
    const struct mst_records *last = &job->last_records;
    struct page page;

    bool stood = waiter->command == MST_ROUND; /* also who has no seat then */

    if (!waiter->has_view || !mst_record_belongs(job, &waiter->view, stood)) {
        return;
    }
    page = new_page(core);
    core->reply.next = last->total;
    for (uint32_t i = 0; i < last->count; i++) {
        if (!add_record(&page, job, last, &last->first[i])) {
            return;
        }
    }
}

/* A cursor over records, which a seal does not confuse: generation and number in it. */
static uint64_t record_cursor(const struct mst_records *records, uint32_t i)
{
    return records->generation * (MST_NAMES_MAX + 1) + i + 1;
}

static bool add_records(struct page *page, const struct mst_waiter *waiter,
                        const struct mst_records *records, uint64_t *last)
{
    for (uint32_t i = 0; i < records->count; i++) {
        if (record_cursor(records, i) <= waiter->page.after) {
            continue;
        }
        if (!add_record(page, waiter->job, records, &records->first[i])) {
            page->core->reply.next = *last;
            return false;
        }
        *last = record_cursor(records, i);
    }
    return true;
}

static void render_faults(struct mst_core *core, const struct mst_waiter *waiter)
{
    const struct mst_job *job = waiter->job;
    struct page page = new_page(core);
    uint64_t last = waiter->page.after;

    core->reply.number = (int64_t)mst_record_age_ms(job);
    core->reply.has_detail = true;
    core->reply.detail = (struct mst_detail){.arrived = mst_record_total(&job->records),
                                             .expected = mst_record_total(&job->last_records)};
    if (add_records(&page, waiter, &job->last_records, &last)) {
        (void)add_records(&page, waiter, &job->records, &last);
    }
}

muster_status mst_render_request(struct mst_session *session, struct mst_waiter *waiter,
                                 const struct mst_request *request)
{
    (void)session;
    waiter->page.after = request->page.after;
    return MUSTER_OK;
}

/* ---- a watch: four ordered sources, merged by revision ---- */

struct merge {
    const struct mst_waiter *waiter;
    struct mst_cursor cursor;
    struct mst_scan keys;
    struct mst_member *changed, *faulted;
    uint64_t view; /* revision; 0: nothing of it to tell */
};

static struct merge merge_from(const struct mst_waiter *waiter)
{
    const struct mst_job *job = waiter->job;
    const struct mst_prefix *prefix = waiter->watch.prefix;
    struct merge merge = {
        .waiter = waiter, .cursor = mst_watch_cursor(waiter), .keys = {.end = NEVER}};
    uint64_t from = merge.cursor.after + 1;

    if (prefix) { /* it watches keys */
        mst_scan_begin(&merge.keys, waiter->core, prefix->space,
                       mst_slice_of(prefix->bytes, prefix->size), merge.cursor.after);
    }
    if (waiter->watch.kinds & MST_WATCH_MEMBERS) {
        merge.changed = mst_member_changed(job, waiter->watch.node, from);
    }
    if (waiter->watch.kinds & MST_WATCH_FAULTS) {
        merge.faulted = mst_member_faulted(job, from);
    }
    if ((waiter->watch.kinds & MST_WATCH_VIEW) && job->view_revision >= from) {
        merge.view = job->view_revision;
    }
    return merge;
}

static uint64_t lowest(const struct merge *merge)
{
    uint64_t revision = NEVER;

    if (merge->keys.key) {
        revision = merge->keys.key->revision;
    }
    if (merge->changed && merge->changed->revision < revision) {
        revision = merge->changed->revision;
    }
    if (merge->faulted && merge->faulted->seat.fault_revision < revision) {
        revision = merge->faulted->seat.fault_revision;
    }
    if (merge->view != 0 && merge->view < revision) {
        revision = merge->view;
    }
    return revision <= merge->keys.end ? revision : NEVER;
}

static bool tell_key(struct page *page, struct merge *merge)
{
    const struct mst_key *key = merge->keys.key;
    struct mst_item *item = add_item(page, key->value ? MST_ITEM_KEY : MST_ITEM_DELETED,
                                     key->name_size + mst_blob_slice(key->value).size);

    if (!item) {
        return false;
    }
    fill_key(page->core, item, key);
    mst_scan_next(&merge->keys);
    return true;
}

static bool tell_member(struct page *page, struct merge *merge)
{
    struct mst_item *item = add_item(page, MST_ITEM_MEMBER, member_bytes(merge->changed));

    if (!item) {
        return false;
    }
    fill_member(item, merge->changed);
    merge->changed =
        mst_member_changed(merge->waiter->job, merge->waiter->watch.node, item->revision + 1);
    return true;
}

static bool tell_fault(struct page *page, struct merge *merge)
{
    const struct mst_seat *seat = &merge->faulted->seat;
    struct mst_item *item =
        add_item(page, MST_ITEM_FAULT,
                 mst_blob_slice(seat->fault_text).size + mst_blob_slice(seat->host).size);

    if (!item) {
        return false;
    }
    item->who = mst_member_seat_who(merge->faulted);
    item->who.cause = seat->fault_cause;
    item->who.code = seat->fault_code;
    item->who.heard_ms = (page->core->now_ns - seat->fault_ns) / NS_PER_MS;
    item->value = mst_blob_slice(seat->fault_text);
    item->number = merge->waiter->job->generation;
    item->arrived = mst_record_after_ms(&merge->waiter->job->records, seat->fault_ns);
    item->expected = seat->fault_told_by;
    item->revision = seat->fault_revision;
    merge->faulted = mst_member_faulted(merge->waiter->job, item->revision + 1);
    return true;
}

/* It may have lost its place since it was woken, or got the one it claimed when it asked. */
static struct mst_view watcher_view(const struct mst_waiter *waiter)
{
    const struct mst_session *session = waiter->link->session;

    if (!waiter->member && session && session->member) {
        return mst_generation_session_view(session);
    }
    return !waiter->member || (session && session->member == waiter->member)
               ? mst_generation_view(waiter->job, waiter->member)
               : mst_generation_outside_view(waiter->job, waiter->member);
}

static bool tell_view(struct page *page, struct merge *merge)
{
    const struct mst_job *job = merge->waiter->job;
    const struct mst_record *first = mst_record_first(job);
    struct mst_item *item = add_item(page, MST_ITEM_VIEW, 0);
    struct mst_reply *reply = &page->core->reply;

    if (!item) {
        return false;
    }
    item->revision = merge->view;
    reply->has_view = true;
    reply->view = watcher_view(merge->waiter);
    if (reply->view.attention == MST_INTERRUPT && first) { /* why */
        reply->has_detail = true;
        reply->detail = (struct mst_detail){.who_count = 1, .who = {mst_record_who(job, first)}};
    }
    merge->view = 0;
    return true;
}

static bool tell_lowest(struct page *page, struct merge *merge, uint64_t revision)
{
    page->core->walked++;
    if (merge->keys.key && merge->keys.key->revision == revision) {
        return tell_key(page, merge);
    }
    if (merge->changed && merge->changed->revision == revision) {
        return tell_member(page, merge);
    }
    if (merge->faulted && merge->faulted->seat.fault_revision == revision) {
        return tell_fault(page, merge);
    }
    return tell_view(page, merge);
}

/* There is more after `told`. */
static uint64_t cursor_after(const struct merge *merge, uint64_t told)
{
    const struct mst_prefix *prefix = merge->waiter->watch.prefix;

    if (!merge->cursor.listing) {
        return told;
    }
    return told | MST_CURSOR_LISTING |
           (prefix ? (prefix->space->epoch & MST_CURSOR_EPOCH_MASK) << MST_CURSOR_EPOCH_SHIFT : 0);
}

static void render_watch(struct mst_core *core, const struct mst_waiter *waiter)
{
    const struct mst_job *job = waiter->job;
    const struct mst_prefix *prefix = waiter->watch.prefix;
    struct page page = new_page(core);
    struct merge merge;
    uint64_t told;
    uint64_t revision;

    if (prefix && waiter->watch.generation != 0 && waiter->watch.generation != job->generation) {
        core->reply.status = MUSTER_EFENCED; /* sealed since */
        return;
    }
    merge = merge_from(waiter);
    told = merge.cursor.after;
    if (merge.cursor.reset) {
        add_item(&page, MST_ITEM_RESET, 0);
        page.most++;
    }
    while ((revision = lowest(&merge)) != NEVER) {
        if (!tell_lowest(&page, &merge, revision)) {
            core->reply.revision = cursor_after(&merge, told);
            return;
        }
        told = revision;
    }
    core->reply.revision =
        merge.keys.end == NEVER ? job->revision : cursor_after(&merge, merge.keys.end);
}

/* ---- details ---- */

/* As it was when `asker` still waited: asking withdrew its readiness, and it is not the one whom it
 * looks for. */
static void render_not_ready(struct mst_detail *detail, const struct mst_job *job,
                             const struct mst_member *asker)
{
    uint32_t index = 0;

    detail->arrived = job->ready_count + (asker && !mst_list_linked(&asker->in_ready));
    detail->expected = job->size;
    detail->missing = job->size > detail->arrived ? job->size - detail->arrived : 0;
    while (index < job->size && detail->who_count < MST_NAMES_MAX) {
        const struct mst_member *member = mst_member_find(job, MST_ROLE_RANK, index);

        if (!member) {
            detail->who[detail->who_count++] = (struct mst_who){.index = index,
                                                                .rank = MST_RANK_NONE,
                                                                .role = MST_ROLE_RANK,
                                                                .state = MST_ABSENT,
                                                                .node = MST_NODE_NONE};
        } else if (member != asker && !mst_list_linked(&member->in_ready)) {
            detail->who[detail->who_count++] = mst_member_who(member);
        }
        index++;
    }
}

static void render_detail(struct mst_reply *reply, const struct mst_waiter *waiter)
{
    struct mst_detail *detail = &reply->detail;

    reply->has_detail = true;
    switch (waiter->detail) {
    case MST_DETAIL_NONE:
        reply->has_detail = false;
        break;
    case MST_DETAIL_LIMIT:
        *detail = (struct mst_detail){.limit = waiter->limit,
                                      .limit_kind = (uint32_t)waiter->limit_kind,
                                      .asked = waiter->asked};
        break;
    case MST_DETAIL_HOLDER:
        *detail = (struct mst_detail){.who_count = 1, .who = {mst_member_who(waiter->member)}};
        break;
    case MST_DETAIL_JOIN:
        *detail = (struct mst_detail){0};
        render_not_ready(detail, waiter->job, waiter->member);
        break;
    case MST_DETAIL_ROUND:
        *detail = mst_round_detail(waiter->round);
        if (waiter->limit != 0) {
            detail->limit = waiter->limit;
        }
        break;
    }
}

/* ---- a reply ---- */

static void render_round(struct mst_core *core, const struct mst_waiter *waiter)
{
    const struct mst_round *round = waiter->round;
    struct mst_reply *reply = &core->reply;

    reply->value = mst_blob_slice(round->value);
    if (round->seal) {
        render_sealed(core, waiter);
        return;
    }
    reply->items = round->items;
    reply->item_count = round->item_count;
}

/* A failure that has a result all the same; not of one who gave the wait up before it. */
static bool ends_with_value(const struct mst_waiter *waiter)
{
    return waiter->command == MST_ROUND && waiter->round &&
           waiter->status == waiter->round->status && mst_round_has_value(waiter->round);
}

static void render_payload(struct mst_core *core, const struct mst_waiter *waiter)
{
    switch (waiter->command) {
    case MST_GET:
        core->reply.value = mst_blob_slice(waiter->keys.value);
        break;
    case MST_LIST:
        render_list(core, waiter);
        break;
    case MST_WATCH:
        render_watch(core, waiter);
        break;
    case MST_ROUND:
        render_round(core, waiter);
        break;
    case MST_ROUND_MEMBERS:
        render_round_members(core, waiter);
        break;
    case MST_MEMBERS:
        render_members(core, waiter);
        break;
    case MST_ROUNDS:
        render_rounds(core, waiter);
        break;
    case MST_JOBS:
        render_jobs(core, waiter);
        break;
    case MST_HOSTS:
        render_hosts(core, waiter);
        break;
    case MST_FAULTS:
        render_faults(core, waiter);
        break;
    case MST_JOIN:
        core->reply.value = mst_blob_slice(waiter->join.value);
        render_sealed(core, waiter);
        break;
    case MST_OPEN:
    case MST_RENEW:
    case MST_LEAVE:
    case MST_CANCEL:
    case MST_WRITE:
    case MST_WAIT:
    case MST_FAULT:
    case MST_LOST:
    case MST_CUT:
        break;
    }
}

bool mst_render_searches(const struct mst_waiter *waiter)
{
    switch (waiter->command) {
    case MST_LIST:
    case MST_WATCH:
    case MST_ROUND_MEMBERS:
    case MST_MEMBERS:
    case MST_ROUNDS:
    case MST_JOBS:
    case MST_HOSTS:
    case MST_FAULTS:
        return waiter->status == MUSTER_OK;
    case MST_OPEN:
    case MST_JOIN:
    case MST_RENEW:
    case MST_LEAVE:
    case MST_CANCEL:
    case MST_WRITE:
    case MST_GET:
    case MST_WAIT:
    case MST_ROUND:
    case MST_FAULT:
    case MST_LOST:
    case MST_CUT:
        break;
    }
    return false;
}

void mst_render_reply(struct mst_core *core, struct mst_waiter *waiter)
{
    struct mst_reply *reply = &core->reply;

    memset(reply, 0, offsetof(struct mst_reply, detail));
    reply->id = waiter->id;
    reply->command = waiter->command;
    reply->status = waiter->status;
    reply->number = waiter->number;
    reply->revision = waiter->revision;
    reply->has_view = waiter->has_view;
    reply->view = waiter->view;
    render_detail(reply, waiter);
    if (waiter->status == MUSTER_OK || ends_with_value(waiter)) {
        render_payload(core, waiter);
    }
    if (waiter->status == MUSTER_ENOSPACE && core->held) {
        reply->value = mst_slice_text(core->held);
    }
}
