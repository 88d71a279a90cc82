/* SPDX-License-Identifier: Apache-2.0 */
#include "service/core/render.h"

#include <string.h>

#include "proto/notice.h"
#include "service/core/generation.h"
#include "service/core/handlers.h"
#include "service/core/host.h"
#include "service/core/job.h"
#include "service/core/round.h"
#include "service/core/scan.h"
#include "service/core/seating.h"
#include "service/core/watch.h"

/* ---- filling a page ---- */

struct page {
    struct mst_core *core;
    size_t bytes;
    uint32_t most;
    bool full;
    uint64_t last; /* the cursor of its last item: where the next page continues */
};

static struct page new_page(struct mst_core *core, uint64_t after)
{
    core->reply.items = core->items;
    core->reply.item_count = 0;
    return (struct page){.core = core, .most = MST_PAGE_ITEMS, .last = after};
}

/* The next item, which will borrow about `bytes`; NULL: the page is full, and the reply says so.
 * `cursor`: the page may end after this item. */
static struct mst_item *add_item(struct page *page, enum mst_item_kind kind, size_t bytes,
                                 uint64_t cursor)
{
    struct mst_reply *reply = &page->core->reply;
    struct mst_item *item;

    /* The first item always fits, or one large value would end every listing. */
    if (page->full || reply->item_count >= page->most ||
        (reply->item_count > 0 && page->bytes + bytes > MST_PAGE_BYTES)) {
        page->full = true;
        reply->next = page->last;
        return NULL;
    }
    page->bytes += bytes;
    page->last = cursor;
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
        item->name = member->waits_at->name->named.name;
        item->number = member->waits_at->number;
    }
    item->has_progress = mst_progress_fill(member, &item->progress);
}

static size_t member_bytes(const struct mst_member *member)
{
    return mst_blob_slice(member->text).size + mst_blob_slice(member->host).size +
           (member->progress ? sizeof(*member->progress) : 0);
}

/* ---- pages ---- */

static void render_list(struct mst_core *core, const struct mst_waiter *waiter)
{
    const struct mst_keyspace *space = mst_keyspace_of(waiter->job, waiter->list.generation);
    struct mst_slice prefix = mst_blob_slice(waiter->list.prefix);
    struct mst_slice after = mst_blob_slice(waiter->list.after_name);
    struct page page = new_page(core, 1); /* the client continues after the last name */
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
        item = add_item(&page, MST_ITEM_KEY, key->name_size + key->value->size, 1);
        if (!item) {
            return;
        }
        fill_key(core, item, key);
    }
}

/* A cursor over members: 1 + role and index of the last one. */
static void render_members(struct mst_core *core, const struct mst_waiter *waiter)
{
    uint64_t after = waiter->after;
    struct page page = new_page(core, after);
    struct mst_member *member;

    if (after >> 32 > MST_ROLE_AGENT) {
        return;
    }
    member = mst_member_from(waiter->job, (enum mst_role)(after >> 32), (uint32_t)after);
    for (; member; member = mst_member_next(member)) {
        uint64_t cursor = ((uint64_t)member->role << 32 | member->index) + 1;
        struct mst_item *item = add_item(&page, MST_ITEM_MEMBER, member_bytes(member), cursor);

        core->walked++;
        if (!item) {
            return;
        }
        fill_member(item, member);
        item->since_ms = mst_member_since_ms(member);
    }
}

/* The lost ranks for which a seal stays open. */
static void fill_awaited(const struct mst_core *core, struct mst_item *item,
                         const struct mst_round *seal)
{
    for (uint32_t i = 0; i < seal->part_count; i++) {
        const struct mst_member *member = seal->parts[i].member;

        if (mst_seating_awaits(member) && item->awaited++ == 0) {
            item->who = mst_member_who(member);
            item->lost_ms = mst_core_since_ms(core, member->seat.fault_ns);
        }
    }
}

/* The first of them, in the room that belongs to this item. */
static void fill_missing(struct mst_core *core, struct mst_item *item,
                         const struct mst_round *round)
{
    uint32_t *room = core->missing + (item - core->items) * MST_NAMES_MAX;

    item->missing_count = mst_round_missing(round, room);
    item->missing = item->missing_count > 0 ? room : NULL;
}

static void render_rounds(struct mst_core *core, const struct mst_waiter *waiter)
{
    struct page page = new_page(core, waiter->after);

    MST_NAMED_EACH(const struct mst_round_name, name, &waiter->job->round_names)
    {
        struct mst_item *item;

        core->walked++;
        if (name->serial <= waiter->after || !name->open) {
            continue;
        }
        item = add_item(&page, MST_ITEM_ROUND,
                        name->named.name.size + sizeof(uint32_t) * MST_NAMES_MAX, name->serial);
        if (!item) {
            return;
        }
        item->name = name->named.name;
        item->number = name->number;
        item->arrived = name->open->arrived;
        item->expected = name->open->part_count;
        item->who = mst_round_first_missing(name->open);
        fill_missing(core, item, name->open);
        if (name->open->opened_ns != 0) {
            item->since_ms = 1 + mst_core_since_ms(core, name->open->opened_ns);
        }
        if (mst_alarm_is_set(&name->open->replace_alarm)) {
            fill_awaited(core, item, name->open);
        }
    }
}

/* Where every rank has a seat there are no spares to look for. */
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
    struct page page = new_page(core, waiter->after);

    MST_NAMED_EACH(const struct mst_job, job, &core->jobs)
    {
        struct mst_item *item;

        core->walked++;
        if (job->serial <= waiter->after) {
            continue;
        }
        item = add_item(&page, MST_ITEM_JOB, job->named.name.size, job->serial);
        if (!item) {
            return;
        }
        item->name = job->named.name;
        item->listening = 1U + mst_watch_count(&job->keys, mst_slice_text(MST_PREEMPT_PREFIX));
        item->number = job->generation;
        item->arrived = job->living - spares_of(job);
        item->expected = job->size;
        item->since_ms = job->records.generation != 0 ? 1 + mst_record_age_ms(job) : 0;
        item->total = (uint32_t)job->fault_count;
    }
}

static void render_hosts(struct mst_core *core, const struct mst_waiter *waiter)
{
    struct page page = new_page(core, waiter->after);

    MST_NAMED_EACH(const struct mst_host, host, &waiter->job->hosts)
    {
        struct mst_item *item;

        core->walked++;
        if (host->serial <= waiter->after) {
            continue;
        }
        item = add_item(&page, MST_ITEM_HOST, host->named.name.size, host->serial);
        if (!item) {
            return;
        }
        item->name = host->named.name;
        item->number = host->node_losses;
        item->expected = host->rank_losses;
        item->arrived = host->members;
    }
}

static void render_round_members(struct mst_core *core, const struct mst_waiter *waiter)
{
    const struct mst_round *round = waiter->round;
    struct page page = new_page(core, waiter->after);

    for (uint64_t i = waiter->after; i < round->part_count; i++) {
        struct mst_who who = mst_round_part_who(round, &round->parts[i]);
        struct mst_item *item = add_item(&page, MST_ITEM_MEMBER, who.host.size, i + 1);

        core->walked++;
        if (!item) {
            return;
        }
        item->who = who;
        item->number = round->number;
        item->arrived = round->parts[i].arrived;
        item->expected = 1;
    }
}

/* ---- the faults and losses of a generation ---- */

static void add_record(struct page *page, const struct mst_job *job,
                       const struct mst_records *records, const struct mst_record *record,
                       uint64_t cursor)
{
    size_t bytes = mst_blob_slice(record->text).size + mst_blob_slice(record->host).size;
    struct mst_item *item = add_item(page, MST_ITEM_FAULT, bytes, cursor);

    if (item) {
        mst_record_fill(job, records, record, item);
    }
}

/* With a seal, for a member of the new generation: why the one before ended. */
static void render_sealed(struct mst_core *core, const struct mst_waiter *waiter)
{
    const struct mst_job *job = waiter->job;
    const struct mst_records *last = &job->last_records;
    bool stood = waiter->command == MST_ROUND; /* with or without a seat */
    struct page page;

    if (!waiter->has_view || !mst_record_belongs(job, &waiter->view, stood)) {
        return;
    }
    page = new_page(core, last->total);
    core->reply.next = last->total;
    for (uint32_t i = 0; i < last->count; i++) {
        add_record(&page, job, last, &last->first[i], last->total);
    }
}

/* The cursor has the generation and the number in it, so a seal does not confuse it. */
static void add_records(struct page *page, const struct mst_waiter *waiter,
                        const struct mst_records *records)
{
    for (uint32_t i = 0; i < records->count; i++) {
        uint64_t cursor = records->generation * (MST_NAMES_MAX + 1) + i + 1;

        if (cursor > waiter->after) {
            add_record(page, waiter->job, records, &records->first[i], cursor);
        }
    }
}

static void render_faults(struct mst_core *core, const struct mst_waiter *waiter)
{
    const struct mst_job *job = waiter->job;
    struct page page = new_page(core, waiter->after);

    core->reply.number = (int64_t)mst_record_age_ms(job);
    core->reply.has_detail = true;
    core->reply.detail = (struct mst_detail){.arrived = mst_record_total(&job->records),
                                             .expected = mst_record_total(&job->last_records)};
    add_records(&page, waiter, &job->last_records);
    add_records(&page, waiter, &job->records);
}

/* A cursor over incidents: the number of the last one. */
static void render_history(struct mst_core *core, const struct mst_waiter *waiter)
{
    const struct mst_history *history = &waiter->job->history;
    struct page page = new_page(core, waiter->after);
    const struct mst_incident *incident;
    uint64_t number;

    core->reply.number = (int64_t)mst_record_age_ms(waiter->job);
    while ((incident = mst_history_after(history, page.last, &number))) {
        size_t bytes = mst_blob_slice(incident->text).size + mst_blob_slice(incident->host).size;
        struct mst_item *item = add_item(&page, MST_ITEM_INCIDENT, bytes, number);

        core->walked++;
        if (!item) {
            return;
        }
        mst_history_fill(core, incident, item);
        item->revision = number;
    }
}

muster_status mst_render_request(struct mst_session *session, struct mst_waiter *waiter,
                                 const struct mst_request *request)
{
    (void)session;
    waiter->after = request->page.after;
    return MUSTER_OK;
}

/* ---- a watch: four ordered sources, merged by revision ---- */

enum source { KEYS, MEMBERS, FAULTS, VIEW, SOURCES };

struct merge {
    const struct mst_waiter *waiter;
    struct mst_cursor cursor;
    struct mst_scan keys;
    struct mst_member *changed, *faulted;
    uint64_t next[SOURCES]; /* the revision of the next of each; NEVER: no more */
};

static void find_key(struct merge *merge)
{
    merge->next[KEYS] = merge->keys.key ? merge->keys.key->revision : NEVER;
}

static void find_member(struct merge *merge, uint64_t from)
{
    const struct mst_waiter *waiter = merge->waiter;

    merge->changed = mst_member_changed(waiter->job, waiter->watch.node, from);
    merge->next[MEMBERS] = merge->changed ? merge->changed->revision : NEVER;
}

static void find_fault(struct merge *merge, uint64_t from)
{
    merge->faulted = mst_member_faulted(merge->waiter->job, from);
    merge->next[FAULTS] = merge->faulted ? merge->faulted->seat.fault_revision : NEVER;
}

static struct merge merge_from(const struct mst_waiter *waiter)
{
    const struct mst_job *job = waiter->job;
    const struct mst_prefix *prefix = waiter->watch.prefix;
    struct merge merge = {.waiter = waiter,
                          .cursor = mst_watch_cursor(waiter),
                          .keys = {.end = NEVER},
                          .next = {NEVER, NEVER, NEVER, NEVER}};
    uint64_t from = merge.cursor.after + 1;

    if (prefix) { /* it watches keys */
        mst_scan_begin(&merge.keys, waiter->core, prefix->space,
                       mst_slice_of(prefix->bytes, prefix->size), merge.cursor.after);
        find_key(&merge);
    }
    if (waiter->watch.kinds & MST_WATCH_MEMBERS) {
        find_member(&merge, from);
    }
    if (waiter->watch.kinds & MST_WATCH_FAULTS) {
        find_fault(&merge, from);
    }
    if ((waiter->watch.kinds & MST_WATCH_VIEW) && job->view_revision >= from) {
        merge.next[VIEW] = job->view_revision;
    }
    return merge;
}

/* Where the lowest revision is next; SOURCES: nowhere. */
static enum source lowest(const struct merge *merge)
{
    enum source lowest = KEYS;

    for (enum source source = MEMBERS; source < SOURCES; source++) {
        if (merge->next[source] < merge->next[lowest]) {
            lowest = source;
        }
    }
    return merge->next[lowest] <= merge->keys.end && merge->next[lowest] != NEVER ? lowest
                                                                                  : SOURCES;
}

static bool tell_key(struct page *page, struct merge *merge)
{
    const struct mst_key *key = merge->keys.key;
    struct mst_item *item = add_item(page, key->value ? MST_ITEM_KEY : MST_ITEM_DELETED,
                                     key->name_size + mst_blob_slice(key->value).size, 0);

    if (!item) {
        return false;
    }
    fill_key(page->core, item, key);
    mst_scan_next(&merge->keys);
    find_key(merge);
    return true;
}

static bool tell_member(struct page *page, struct merge *merge)
{
    struct mst_item *item = add_item(page, MST_ITEM_MEMBER, member_bytes(merge->changed), 0);

    if (!item) {
        return false;
    }
    fill_member(item, merge->changed);
    find_member(merge, item->revision + 1);
    return true;
}

static bool tell_fault(struct page *page, struct merge *merge)
{
    const struct mst_seat *seat = &merge->faulted->seat;
    size_t bytes = mst_blob_slice(seat->fault_text).size + mst_blob_slice(seat->host).size;
    struct mst_item *item = add_item(page, MST_ITEM_FAULT, bytes, 0);

    if (!item) {
        return false;
    }
    item->who = mst_member_seat_who(merge->faulted);
    item->who.cause = seat->fault_cause;
    item->who.code = seat->fault_code;
    item->who.heard_ms = mst_core_since_ms(page->core, seat->fault_ns);
    item->value = mst_blob_slice(seat->fault_text);
    item->number = merge->waiter->job->generation;
    item->arrived = mst_record_after_ms(&merge->waiter->job->records, seat->fault_ns);
    item->expected = seat->fault_told_by;
    item->revision = seat->fault_revision;
    find_fault(merge, item->revision + 1);
    return true;
}

/* The watcher may have lost its place since it was woken, or got the place that it claimed. */
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
    struct mst_item *item = add_item(page, MST_ITEM_VIEW, 0, 0);
    struct mst_reply *reply = &page->core->reply;

    if (!item) {
        return false;
    }
    item->revision = merge->next[VIEW];
    reply->has_view = true;
    reply->view = watcher_view(merge->waiter);
    if (reply->view.attention == MST_INTERRUPT && job->records.count > 0) { /* why */
        reply->has_detail = true;
        reply->detail = (struct mst_detail){.who_count = 1,
                                            .who = {mst_record_who(job, &job->records.first[0])}};
    }
    merge->next[VIEW] = NEVER;
    return true;
}

static bool (*const tell[SOURCES])(struct page *page, struct merge *merge) = {
    [KEYS] = tell_key, [MEMBERS] = tell_member, [FAULTS] = tell_fault, [VIEW] = tell_view};

/* More follows after the revision `told`. */
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
    struct page page = new_page(core, 0); /* a watch continues after a revision */
    struct merge merge;
    enum source source;
    uint64_t told;

    if (waiter->watch.prefix && waiter->watch.generation != 0 &&
        waiter->watch.generation != job->generation) {
        core->reply.status = MUSTER_EFENCED; /* sealed since */
        return;
    }
    merge = merge_from(waiter);
    told = merge.cursor.after;
    if (merge.cursor.reset) {
        add_item(&page, MST_ITEM_RESET, 0, 0);
        page.most++;
    }
    while ((source = lowest(&merge)) != SOURCES) {
        uint64_t revision = merge.next[source];

        core->walked++;
        if (!tell[source](&page, &merge)) {
            core->reply.revision = cursor_after(&merge, told);
            return;
        }
        told = revision;
    }
    core->reply.revision =
        merge.keys.end == NEVER ? job->revision : cursor_after(&merge, merge.keys.end);
}

/* ---- details ---- */

/* As it was while `asker` waited: its request withdrew its readiness, and it does not miss itself.
 */
static void render_not_ready(struct mst_detail *detail, const struct mst_job *job,
                             const struct mst_member *asker)
{
    detail->arrived = job->ready_count + (asker && !mst_list_linked(&asker->in_ready));
    detail->expected = job->size;
    detail->missing = job->size > detail->arrived ? job->size - detail->arrived : 0;
    for (uint32_t index = 0; index < job->size && detail->who_count < MST_NAMES_MAX; index++) {
        const struct mst_member *member = mst_member_find(job, MST_ROLE_RANK, index);

        if (!member || (member != asker && !mst_list_linked(&member->in_ready))) {
            detail->who[detail->who_count++] =
                member ? mst_member_who(member) : mst_member_absent_who(index);
        }
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

/* A failure that has a result all the same; not if the waiter was cancelled before. */
static bool ends_with_value(const struct mst_waiter *waiter)
{
    return waiter->command == MST_ROUND && waiter->round &&
           waiter->status == waiter->round->status && mst_round_has_value(waiter->round);
}

enum cost { CHEAP, SEARCH };

/* What a reply carries beside its numbers and its value, by command. */
static const struct row {
    void (*render)(struct mst_core *core, const struct mst_waiter *waiter);
    enum cost cost; /* SEARCH: a page, for which records are looked at */
} rows[] = {
    [MST_JOIN] = {render_sealed, CHEAP},
    [MST_LIST] = {render_list, SEARCH},
    [MST_WATCH] = {render_watch, SEARCH},
    [MST_ROUND] = {render_round, CHEAP},
    [MST_ROUND_MEMBERS] = {render_round_members, SEARCH},
    [MST_MEMBERS] = {render_members, SEARCH},
    [MST_ROUNDS] = {render_rounds, SEARCH},
    [MST_JOBS] = {render_jobs, SEARCH},
    [MST_HOSTS] = {render_hosts, SEARCH},
    [MST_FAULTS] = {render_faults, SEARCH},
    [MST_HISTORY] = {render_history, SEARCH},
};

static const struct row *row_of(enum mst_command command)
{
    static const struct row none = {NULL, CHEAP};

    return command < sizeof(rows) / sizeof(rows[0]) ? &rows[command] : &none;
}

bool mst_render_searches(const struct mst_waiter *waiter)
{
    return waiter->status == MUSTER_OK && row_of(waiter->command)->cost == SEARCH;
}

void mst_render_reply(struct mst_core *core, struct mst_waiter *waiter)
{
    const struct row *row = row_of(waiter->command);
    struct mst_reply *reply = &core->reply;

    memset(reply, 0, offsetof(struct mst_reply, detail));
    reply->id = waiter->id;
    reply->command = waiter->command;
    reply->status = waiter->status;
    reply->number = waiter->number;
    reply->revision = waiter->revision;
    reply->value = mst_blob_slice(waiter->value);
    reply->has_view = waiter->has_view;
    reply->view = waiter->view;
    render_detail(reply, waiter);
    if (row->render && (waiter->status == MUSTER_OK || ends_with_value(waiter))) {
        row->render(core, waiter);
    }
    if (waiter->status == MUSTER_ENOSPACE && core->held) {
        reply->value = mst_slice_text(core->held);
    }
}
