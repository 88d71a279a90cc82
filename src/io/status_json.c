/* SPDX-License-Identifier: Apache-2.0 */
#include "io/status_json.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "msg/words.h"

void mst_status_fini(struct mst_status *status)
{
    mst_items_fini(&status->jobs);
    mst_items_fini(&status->members);
    mst_items_fini(&status->rounds);
    mst_items_fini(&status->hosts);
}

const struct mst_item *mst_status_job(const struct mst_status *status)
{
    struct mst_slice wanted = mst_slice_text(status->job);

    for (size_t i = 0; i < status->jobs.count; i++) {
        if (mst_slice_equal(status->jobs.items[i].name, wanted)) {
            return &status->jobs.items[i];
        }
    }
    return NULL;
}

/* ---- who is missing ---- */

static bool is_here(enum mst_state state)
{
    switch (state) {
    case MST_JOINING:
    case MST_PRESENT:
    case MST_SILENT:
        return true;
    case MST_STATE_LOST:
    case MST_LEFT:
    case MST_ABSENT:
        break;
    }
    return false;
}

/* Members are listed by role and index, so ranks come by index. */
void mst_status_each_missing(const struct mst_status *status, mst_status_missing_fn *fn, void *ctx)
{
    const struct mst_item *job = mst_status_job(status);
    uint32_t size = job ? job->expected : 0;
    uint32_t next = 0;

    for (size_t i = 0; i < status->members.count; i++) {
        const struct mst_item *member = &status->members.items[i];

        if (member->who.role != MST_ROLE_RANK) {
            continue;
        }
        for (; next < member->who.index && next < size; next++) {
            fn(ctx, next, NULL);
        }
        if (!is_here(member->who.state)) {
            fn(ctx, member->who.index, member);
        }
        next = member->who.index + 1;
    }
    for (; next < size; next++) {
        fn(ctx, next, NULL);
    }
}

/* ---- JSON. NULL anywhere is "no memory", and makes the whole NULL ---- */

/* Bytes of clients need not be UTF-8: then each that is not ASCII becomes \xNN. */
static json_t *text_json(struct mst_slice bytes)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *data = bytes.data;
    json_t *value = json_stringn(bytes.size > 0 ? bytes.data : "", bytes.size);
    size_t size = 0;
    char *text;

    if (value) {
        return value;
    }
    text = malloc(bytes.size * 4 + 1);
    if (!text) {
        return NULL;
    }
    for (size_t i = 0; i < bytes.size; i++) {
        if (data[i] < 0x80) {
            text[size++] = (char)data[i];
            continue;
        }
        text[size++] = '\\';
        text[size++] = 'x';
        text[size++] = digits[data[i] >> 4];
        text[size++] = digits[data[i] & 15];
    }
    value = json_stringn(text, size);
    free(text);
    return value;
}

static json_t *number_json(uint64_t number)
{
    return json_integer((json_int_t)number);
}

/* Takes the object over. */
static json_t *drop(json_t *object)
{
    json_decref(object);
    return NULL;
}

/* Both take the value over. */
static bool put(json_t *object, const char *name, json_t *value)
{
    return json_object_set_new(object, name, value) == 0;
}

static bool append(json_t *list, json_t *value)
{
    return json_array_append_new(list, value) == 0;
}

static json_t *member_json(const struct mst_item *member)
{
    const struct mst_who *who = &member->who;
    json_t *object = json_object();
    bool good =
        put(object, "role", json_string(mst_role_word(who->role))) &&
        put(object, "index", number_json(who->index)) &&
        put(object, "rank", who->rank == MST_RANK_NONE ? json_null() : number_json(who->rank)) &&
        put(object, "incarnation", number_json(who->incarnation)) &&
        put(object, "state", json_string(mst_state_word(who->state))) &&
        put(object, "cause", json_string(mst_cause_word(who->cause))) &&
        put(object, "code", json_integer(who->code)) &&
        put(object, "losses", number_json(who->losses)) &&
        put(object, "heard_ms", number_json(who->heard_ms)) &&
        put(object, "pid", number_json(who->pid)) && put(object, "host", text_json(who->host)) &&
        put(object, "node", who->node == MST_NODE_NONE ? json_null() : number_json(who->node)) &&
        put(object, "text", text_json(member->value)) &&
        put(object, "waits_at", member->name.size > 0 ? text_json(member->name) : json_null()) &&
        put(object, "waits_number", number_json(member->name.size > 0 ? member->number : 0));

    return good ? object : drop(object);
}

static json_t *round_json(const struct mst_item *round)
{
    json_t *object = json_object();
    bool good = put(object, "name", text_json(round->name)) &&
                put(object, "number", number_json(round->number)) &&
                put(object, "arrived", number_json(round->arrived)) &&
                put(object, "expected", number_json(round->expected)) &&
                put(object, "first_missing",
                    round->who.state != 0 ? number_json(round->who.index) : json_null());

    return good ? object : drop(object);
}

static json_t *host_json(const struct mst_item *host)
{
    json_t *object = json_object();
    bool good = put(object, "host", text_json(host->name)) &&
                put(object, "losses", number_json(host->number)) &&
                put(object, "rank_losses", number_json(host->expected)) &&
                put(object, "members", number_json(host->arrived));

    return good ? object : drop(object);
}

static json_t *job_json(const struct mst_item *job)
{
    json_t *object = json_object();
    bool good = put(object, "job", text_json(job->name)) &&
                put(object, "generation", number_json(job->number)) &&
                put(object, "present", number_json(job->arrived)) &&
                put(object, "size", number_json(job->expected));

    return good ? object : drop(object);
}

static json_t *list_json(const struct mst_items *items, json_t *(*one)(const struct mst_item *))
{
    json_t *list = json_array();

    for (size_t i = 0; i < items->count; i++) {
        if (!append(list, one(&items->items[i]))) {
            return drop(list);
        }
    }
    return list;
}

struct missing {
    json_t *list;
    bool no_memory;
};

static void add_missing(void *ctx, uint32_t index, const struct mst_item *member)
{
    struct missing *missing = ctx;

    (void)member;
    missing->no_memory = !append(missing->list, number_json(index)) || missing->no_memory;
}

static json_t *missing_json(const struct mst_status *status)
{
    struct missing missing = {.list = json_array()};

    mst_status_each_missing(status, add_missing, &missing);
    return missing.no_memory ? drop(missing.list) : missing.list;
}

static json_t *status_json(const struct mst_status *status)
{
    const struct mst_item nobody = {.name = mst_slice_text(status->job)};
    const struct mst_item *job = mst_status_job(status);
    json_t *object = job_json(job ? job : &nobody);
    bool good = put(object, "address", text_json(mst_slice_text(status->address))) &&
                put(object, "missing", missing_json(status)) &&
                put(object, "members", list_json(&status->members, member_json)) &&
                put(object, "rounds", list_json(&status->rounds, round_json)) &&
                put(object, "hosts", list_json(&status->hosts, host_json)) &&
                put(object, "jobs", list_json(&status->jobs, job_json));

    return good ? object : drop(object);
}

char *mst_status_json(const struct mst_status *status)
{
    json_t *object = status_json(status);
    size_t size = object ? json_dumpb(object, NULL, 0, JSON_COMPACT) : 0;
    char *text = size > 0 ? malloc(size + 2) : NULL;

    if (text) {
        (void)json_dumpb(object, text, size, JSON_COMPACT);
        text[size] = '\n';
        text[size + 1] = '\0';
    }
    json_decref(object);
    return text;
}
