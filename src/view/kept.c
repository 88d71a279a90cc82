/* SPDX-License-Identifier: Apache-2.0 */
#include "view/kept.h"

#include <string.h>

#include "proto/words.h"
#include "view/json.h"
#include "view/story_json.h"

#define INCIDENT_BYTES 64u /* one takes no less, so a file has no room for more than so many: */
#define INCIDENTS_MAX (MST_KEPT_BYTES_MAX / INCIDENT_BYTES)

/* ---- writing ---- */

json_t *mst_kept_new(const char *job, const char *host, int64_t pid, int64_t began_ms)
{
    json_t *run = json_object();
    bool good = mst_json_put(run, "version", json_integer(MST_KEPT_VERSION)) &&
                mst_json_put(run, "job", mst_json_text(mst_slice_text(job))) &&
                mst_json_put(run, "host", mst_json_text(mst_slice_text(host))) &&
                mst_json_put(run, "pid", json_integer(pid)) &&
                mst_json_put(run, "began_ms", json_integer(began_ms)) &&
                mst_json_put(run, "written_ms", json_integer(began_ms)) &&
                mst_json_put(run, "incidents", json_array());

    if (!good) {
        json_decref(run);
        return NULL;
    }
    return run;
}

static bool says_nothing(const json_t *value)
{
    return json_is_null(value) || (json_is_integer(value) && json_integer_value(value) == 0) ||
           (json_is_string(value) && json_string_length(value) == 0);
}

/* Without what a reader takes for granted, or makes again: a file is small. */
static json_t *brief(json_t *incident)
{
    const char *name;
    json_t *value;
    void *next;

    json_object_foreach_safe(incident, next, name, value)
    {
        /* Of an index, a rank, a node and a teller 0 is one as well. */
        bool place = strcmp(name, "index") == 0 || strcmp(name, "rank") == 0 ||
                     strcmp(name, "node") == 0 || strcmp(name, "told_by") == 0;

        if (place ? json_is_null(value) : says_nothing(value)) {
            (void)json_object_del(incident, name);
        }
    }
    (void)json_object_del(incident, "sentence");
    return incident;
}

bool mst_kept_put_history(json_t *run, const struct mst_items *history, int64_t now_ms)
{
    size_t from = history->count > INCIDENTS_MAX ? history->count - INCIDENTS_MAX : 0;
    json_t *list = json_array();

    for (size_t i = from; i < history->count && list; i++) {
        json_t *incident = mst_story_incident_json(&history->items[i]);

        mst_json_append(&list, incident ? brief(incident) : NULL);
    }
    return list && mst_json_put(run, "incidents", list) &&
           mst_json_put(run, "written_ms", json_integer(now_ms));
}

char *mst_kept_line(json_t *run, size_t room)
{
    json_t *list = json_object_get(run, "incidents");
    size_t size = json_dumpb(run, NULL, 0, MST_JSON_DUMPED);

    while (size > room - 2 && json_array_size(list) > 0) {
        bool comma = json_array_size(list) > 1;

        size -= json_dumpb(json_array_get(list, 0), NULL, 0, MST_JSON_DUMPED) + comma;
        (void)json_array_remove(list, 0);
    }
    return size > 0 && size <= room - 2 ? mst_json_line(json_incref(run)) : NULL;
}

/* ---- reading ---- */

json_t *mst_kept_read(const char *bytes, size_t size)
{
    json_t *run = json_loadb(bytes, size, JSON_ALLOW_NUL, NULL);

    if (json_is_string(json_object_get(run, "job")) &&
        json_is_integer(json_object_get(run, "began_ms")) &&
        json_is_array(json_object_get(run, "incidents"))) {
        return run;
    }
    json_decref(run);
    return NULL;
}

static int64_t time_of(const json_t *run, const char *name)
{
    int64_t ms = json_integer_value(json_object_get(run, name));

    return ms > 0 ? ms : 0;
}

void mst_kept_times(const json_t *run, struct mst_kept_times *out)
{
    *out = (struct mst_kept_times){.began_ms = time_of(run, "began_ms"),
                                   .written_ms = time_of(run, "written_ms"),
                                   .orphaned_ms = time_of(run, "orphaned_ms"),
                                   .ended_ms = time_of(run, "ended_ms")};
}

int64_t mst_kept_until_ms(const json_t *run)
{
    struct mst_kept_times times;

    mst_kept_times(run, &times);
    if (times.ended_ms > 0) {
        return times.ended_ms;
    }
    return times.orphaned_ms > times.written_ms ? times.orphaned_ms : times.written_ms;
}

static uint64_t number_in(const json_t *object, const char *name, uint64_t most, uint64_t otherwise)
{
    const json_t *value = json_object_get(object, name);
    json_int_t number = json_integer_value(value);

    return json_is_integer(value) && number >= 0 && (uint64_t)number <= most ? (uint64_t)number
                                                                             : otherwise;
}

static uint32_t small_in(const json_t *object, const char *name, uint32_t otherwise)
{
    return (uint32_t)number_in(object, name, UINT32_MAX, otherwise);
}

static struct mst_slice text_in(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    const char *text = json_string_value(value);

    return mst_slice_of(text ? text : "", json_string_length(value));
}

static bool is_word(const json_t *object, const char *name, const char *word)
{
    return mst_slice_equal(text_in(object, name), mst_slice_text(word));
}

static enum mst_role role_in(const json_t *object)
{
    for (enum mst_role role = MST_ROLE_OBSERVER; role <= MST_ROLE_AGENT; role++) {
        if (is_word(object, "role", mst_role_word(role))) {
            return role;
        }
    }
    return MST_ROLE_OBSERVER;
}

static struct mst_item incident_of(const json_t *object, uint64_t since_ms)
{
    return (struct mst_item){
        .kind = MST_ITEM_INCIDENT,
        .incident = mst_story_kind(json_string_value(json_object_get(object, "what"))),
        .revision = number_in(object, "number", INT64_MAX, 0),
        .number = number_in(object, "generation", INT64_MAX, 0),
        .value = text_in(object, "text"),
        .told_by = small_in(object, "told_by", UINT32_MAX) + 1, /* none: 0 */
        .arrived = small_in(object, "before", 0),
        .expected = small_in(object, "after", 0),
        .total = small_in(object, "faults", 0),
        .interrupt_ms = number_in(object, "interrupt_ms", INT64_MAX, 0),
        .gather_ms = number_in(object, "gather_ms", INT64_MAX, 0),
        .step = json_integer_value(json_object_get(object, "step")) +
                (int64_t)number_in(object, "repeated", UINT32_MAX, 0),
        .who = {.role = role_in(object),
                .index = small_in(object, "index", MST_INDEX_ANY),
                .rank = small_in(object, "rank", MST_RANK_NONE),
                .incarnation = number_in(object, "incarnation", INT64_MAX, 0),
                .host = text_in(object, "host"),
                .node = small_in(object, "node", MST_NODE_NONE),
                .pid = number_in(object, "pid", INT64_MAX, 0),
                .cause = mst_cause_named(json_string_value(json_object_get(object, "cause"))),
                .code = (int32_t)json_integer_value(json_object_get(object, "code")),
                .heard_ms = number_in(object, "ago_ms", INT32_MAX * UINT64_C(1000), 0) + since_ms}};
}

bool mst_kept_history(const json_t *run, int64_t until_ms, struct mst_items *out)
{
    const json_t *list = json_object_get(run, "incidents");
    int64_t since_ms = until_ms - time_of(run, "written_ms");
    bool good = true;

    for (size_t i = 0; i < json_array_size(list) && good; i++) {
        const struct mst_item item =
            incident_of(json_array_get(list, i), since_ms > 0 ? (uint64_t)since_ms : 0);

        good = mst_items_add(out, &item, 1);
    }
    return good;
}
