/* SPDX-License-Identifier: Apache-2.0 */
/* Giving and taking back notices.
 *
 *   INSERTING --all there--> next places ... --> FINISHED
 *       | one exists                                ^
 *       v                                           | nothing to do, or written
 *   LISTING --page by page--> WRITING --------------+
 *       ^                        | another was faster
 *       +------------------------+
 *
 * A withdrawal begins with LISTING. Places are taken in groups, each written whole or not at all.
 */
#include "preempt/publish.h"

#include "base/panic.h"
#include "base/time.h"

enum { GROUP = 32, TRIES_MAX = 16 };

enum state { INSERTING, LISTING, WRITING, FINISHED };

/* What there is at one place. */
struct place {
    uint32_t index;
    uint64_t revision; /* 0: none */
    bool is_notice;
    int64_t deadline_ns;
    bool advisory;
    bool ours; /* of the source that takes back */
};

struct mst_publish {
    struct mst_mem mem;
    bool withdraw;
    struct mst_notice notice;
    int64_t deadline_ns;
    uint32_t *indices;
    uint32_t count, at; /* the group at hand begins there... */
    uint32_t size;      /* ...and has so many */

    enum state state;
    uint32_t tries, written, pending;
    uint64_t covered, now_ns;
    uint64_t tags, tag;
    bool owe_call, owe_finish;
    muster_status status;
    bool has_reply;
    struct mst_reply reply;

    struct place places[GROUP];
    struct mst_publish_effect effect;
    struct mst_request request;
    struct mst_write writes[2 * GROUP];
    char names[GROUP][MST_PREEMPT_NAME_ROOM];
    char value[MST_NOTICE_VALUE_ROOM];
    char after[MST_PREEMPT_NAME_ROOM];
    size_t after_size;
};

static bool ascending(const struct mst_publish_config *config)
{
    for (uint32_t i = 1; i < config->count; i++) {
        if (config->indices[i] <= config->indices[i - 1]) {
            return false;
        }
    }
    return config->count > 0;
}

static void call(struct mst_publish *publish, enum state state)
{
    publish->state = state;
    publish->tag = ++publish->tags;
    publish->owe_call = true;
}

static void finish(struct mst_publish *publish, muster_status status)
{
    publish->state = FINISHED;
    publish->tag = 0;
    publish->owe_call = false;
    publish->owe_finish = true;
    publish->status = status;
}

static void list(struct mst_publish *publish)
{
    for (uint32_t i = 0; i < publish->size; i++) {
        publish->places[i] = (struct place){.index = publish->indices[publish->at + i]};
    }
    publish->after_size = 0;
    call(publish, LISTING);
}

/* The next places, or the end. */
static void group(struct mst_publish *publish)
{
    uint32_t left = publish->count - publish->at;

    publish->size = left < GROUP ? left : GROUP;
    publish->tries = 0;
    if (left == 0) {
        finish(publish, MUSTER_OK);
    } else if (publish->withdraw) {
        list(publish);
    } else {
        publish->pending = publish->size;
        call(publish, INSERTING);
    }
}

muster_status mst_publish_new(struct mst_publish **out, uint64_t now_ns,
                              const struct mst_publish_config *config, const struct mst_mem *mem)
{
    struct mst_publish *publish;

    *out = NULL;
    if (!ascending(config)) {
        return MUSTER_EINVAL;
    }
    publish = mst_mem_zalloc(mem, sizeof(*publish));
    if (!publish) {
        return MUSTER_ENOMEM;
    }
    publish->mem = *mem;
    publish->indices = mst_mem_array(mem, config->count, sizeof(*publish->indices));
    if (!publish->indices) {
        mst_publish_free(publish);
        return MUSTER_ENOMEM;
    }
    memcpy(publish->indices, config->indices, config->count * sizeof(*publish->indices));
    publish->count = config->count;
    publish->withdraw = config->withdraw;
    publish->notice = config->notice;
    if (publish->notice.left_ms > MST_NOTICE_LEFT_MS_MAX) {
        publish->notice.left_ms = MST_NOTICE_LEFT_MS_MAX;
    }
    publish->now_ns = now_ns;
    publish->deadline_ns = (int64_t)now_ns + (int64_t)(publish->notice.left_ms * NS_PER_MS);
    group(publish);
    *out = publish;
    return MUSTER_OK;
}

void mst_publish_free(struct mst_publish *publish)
{
    if (publish) {
        struct mst_mem mem = publish->mem;

        mst_mem_release(&mem, publish->indices);
        mst_mem_release(&mem, publish);
    }
}

/* ---- what there is ---- */

static struct place *place_of(struct mst_publish *publish, uint32_t index)
{
    for (uint32_t i = 0; i < publish->size; i++) {
        if (publish->places[i].index == index) {
            return &publish->places[i];
        }
    }
    return NULL;
}

static void place_take(struct mst_publish *publish, struct place *place,
                       const struct mst_item *item)
{
    uint64_t age_ms = item->number < MST_NOTICE_LEFT_MS_MAX ? item->number : MST_NOTICE_LEFT_MS_MAX;
    struct mst_notice notice;

    place->revision = item->revision;
    place->is_notice = mst_notice_read(item->value, &notice);
    place->advisory = notice.level == MST_NOTICE_ADVISORY;
    place->ours = publish->notice.source[0] == '\0' ||
                  (place->is_notice && mst_slice_equal(mst_slice_text(notice.source),
                                                       mst_slice_text(publish->notice.source)));
    if (place->is_notice) {
        place->deadline_ns = (int64_t)publish->now_ns +
                             ((int64_t)notice.left_ms - (int64_t)age_ms) * (int64_t)NS_PER_MS;
    }
}

static void item_take(struct mst_publish *publish, const struct mst_item *item)
{
    struct mst_preempt_name name;
    struct mst_preempt_fact fact;
    struct place *place;

    if (item->kind != MST_ITEM_KEY || !mst_preempt_name_read(item->name, &name)) {
        return;
    }
    if (name.kind == MST_PREEMPT_KEY_NOTICE) {
        place = place_of(publish, name.index);
        if (place) {
            place_take(publish, place, item);
        }
    } else if (name.kind == MST_PREEMPT_KEY_COMPLETE && mst_preempt_fact_read(item->value, &fact) &&
               fact.covered > publish->covered) {
        publish->covered = fact.covered;
    }
}

/* Whether there is something to do at a place. */
static bool wanted(const struct mst_publish *publish, const struct place *place)
{
    bool advisory = publish->notice.level == MST_NOTICE_ADVISORY;
    int64_t same_ns = (int64_t)MST_PUBLISH_SAME_MS * (int64_t)NS_PER_MS;
    int64_t past_ns = (int64_t)MST_PUBLISH_PAST_MS * (int64_t)NS_PER_MS;

    if (publish->withdraw) {
        return place->revision != 0 && place->ours;
    }
    if (place->revision == 0 || !place->is_notice || place->revision <= publish->covered) {
        return true;
    }
    if (place->deadline_ns + past_ns < (int64_t)publish->now_ns) {
        return true;
    }
    if (place->advisory != advisory) {
        return place->advisory;
    }
    return publish->deadline_ns + same_ns < place->deadline_ns;
}

static void next_group(struct mst_publish *publish)
{
    publish->at += publish->size;
    group(publish);
}

static void listed(struct mst_publish *publish, const struct mst_reply *reply)
{
    for (uint32_t i = 0; i < reply->item_count; i++) {
        item_take(publish, &reply->items[i]);
    }
    if (reply->next != 0 && reply->item_count > 0) {
        const struct mst_slice *last = &reply->items[reply->item_count - 1].name;

        if (last->size <= sizeof(publish->after)) {
            memcpy(publish->after, last->data, last->size);
            publish->after_size = last->size;
            call(publish, LISTING);
            return;
        }
    }
    publish->pending = 0;
    for (uint32_t i = 0; i < publish->size; i++) {
        publish->pending += wanted(publish, &publish->places[i]);
    }
    if (publish->pending > 0) {
        call(publish, WRITING);
    } else {
        next_group(publish);
    }
}

static void written(struct mst_publish *publish, const struct mst_reply *reply)
{
    if (reply->status == MUSTER_OK) {
        publish->written += publish->pending;
        next_group(publish);
    } else if (++publish->tries < TRIES_MAX) {
        list(publish);
    } else {
        finish(publish, reply->status);
    }
}

static void take_reply(void *machine, uint64_t now_ns, uint64_t tag, const struct mst_reply *reply)
{
    struct mst_publish *publish = machine;
    bool faster = reply->status == MUSTER_EEXISTS || reply->status == MUSTER_ECONFLICT;
    bool writes = publish->state != LISTING;

    if (tag == 0 || tag != publish->tag) {
        return;
    }
    publish->now_ns = now_ns;
    publish->tag = 0;
    if (reply->status != MUSTER_OK && !(faster && writes)) {
        publish->reply = *reply;
        publish->has_reply = true;
        finish(publish, reply->status);
    } else if (writes) {
        written(publish, reply);
    } else {
        listed(publish, reply);
    }
}

/* ---- effects ---- */

static struct mst_slice key_of(struct mst_publish *publish, uint32_t i)
{
    uint32_t index = publish->indices[publish->at + i];

    return mst_slice_of(publish->names[i],
                        mst_notice_key(publish->names[i], sizeof(publish->names[i]), index));
}

/* What is left of it now. */
static struct mst_slice value_now(struct mst_publish *publish)
{
    int64_t left_ns = publish->deadline_ns - (int64_t)publish->now_ns;
    struct mst_notice notice = publish->notice;

    notice.left_ms = left_ns > 0 ? (uint64_t)left_ns / NS_PER_MS : 0;
    return mst_slice_of(publish->value,
                        mst_notice_write(publish->value, sizeof(publish->value), &notice));
}

static void request_writes(struct mst_publish *publish)
{
    struct mst_slice value = value_now(publish);
    uint32_t count = 0;

    for (uint32_t i = 0; i < publish->size; i++) {
        bool all = publish->state == INSERTING;
        uint64_t revision = all ? 0 : publish->places[i].revision;

        if (!all && !wanted(publish, &publish->places[i])) {
            continue;
        }
        publish->writes[count++] =
            (struct mst_write){.kind = all ? MST_INSERT : MST_CAS,
                               .key = key_of(publish, i),
                               .value = publish->withdraw ? mst_slice_text("taken back") : value,
                               .expected = revision};
        if (publish->withdraw) {
            publish->writes[count] =
                (struct mst_write){.kind = MST_DELETE, .key = publish->writes[count - 1].key};
            count++;
        }
    }
    publish->request.command = MST_WRITE;
    publish->request.write.ops = publish->writes;
    publish->request.write.count = count;
}

static void fill_call(struct mst_publish *publish)
{
    publish->owe_call = false;
    mst_machine_call(&publish->effect.head, publish->tag, &publish->request);
    if (publish->state == LISTING) {
        publish->request.command = MST_LIST;
        publish->request.list.prefix = mst_slice_text(MST_PREEMPT_PREFIX);
        publish->request.list.after = mst_slice_of(publish->after, publish->after_size);
    } else {
        request_writes(publish);
    }
}

static const void *next(void *machine)
{
    struct mst_publish *publish = machine;

    publish->effect = (struct mst_publish_effect){0};
    if (publish->owe_call) {
        fill_call(publish);
    } else if (publish->owe_finish) {
        publish->owe_finish = false;
        publish->effect.status = publish->status;
        publish->effect.written = publish->written;
        publish->effect.reply = publish->has_reply ? &publish->reply : NULL;
    } else {
        return NULL;
    }
    return &publish->effect;
}

const struct mst_machine mst_publish_machine = {.reply = take_reply, .next = next};

void mst_publish_check(const struct mst_publish *publish)
{
    MST_ASSERT(publish->state <= FINISHED);
    MST_ASSERT((publish->state == FINISHED) == (publish->tag == 0));
    MST_ASSERT(publish->at <= publish->count && publish->size <= GROUP);
    MST_ASSERT(!publish->owe_finish || publish->state == FINISHED);
}
