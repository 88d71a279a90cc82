/* SPDX-License-Identifier: Apache-2.0 */
#include "view/story_json.h"

#include "proto/words.h"
#include "view/json.h"

#define GAPS_MAX 512u

/* Of a process that an incident names. */
static bool put_who(json_t *object, const struct mst_who *who)
{
    bool named = who->index != MST_INDEX_ANY;

    return mst_json_put(object, "role",
                        named ? json_string(mst_role_word(who->role)) : json_null()) &&
           mst_json_put(object, "index", mst_json_number_but(who->index, MST_INDEX_ANY)) &&
           mst_json_put(object, "rank", mst_json_number_but(who->rank, MST_RANK_NONE)) &&
           mst_json_put(object, "incarnation",
                        named ? mst_json_number(who->incarnation) : json_null()) &&
           mst_json_put(object, "host",
                        who->host.size > 0 ? mst_json_text(who->host) : json_null()) &&
           mst_json_put(object, "node", mst_json_number_but(who->node, MST_NODE_NONE)) &&
           mst_json_put(object, "pid", mst_json_number_but(who->pid, 0)) &&
           mst_json_put(object, "cause", json_string(mst_cause_word(who->cause))) &&
           mst_json_put(object, "code", json_integer(who->code));
}

static json_t *sentence_json(const struct mst_item *incident)
{
    char line[1024];
    struct mst_text text = mst_text_in(line, sizeof line);

    mst_story_sentence(&text, incident);
    return mst_json_text(mst_slice_text(line));
}

json_t *mst_story_incident_json(const struct mst_item *incident)
{
    json_t *object = json_object();
    uint64_t repeated = mst_story_repeated(incident);
    bool good = mst_json_put(object, "number", mst_json_number(incident->revision)) &&
                mst_json_put(object, "what", json_string(mst_story_word(incident))) &&
                mst_json_put(object, "ago_ms", mst_json_number(incident->who.heard_ms)) &&
                mst_json_put(object, "generation", mst_json_number(incident->number)) &&
                put_who(object, &incident->who) &&
                mst_json_put(object, "text", mst_json_text(incident->value)) &&
                mst_json_put(object, "told_by",
                             incident->told_by > 0 ? mst_json_number(incident->told_by - 1)
                                                   : json_null()) &&
                mst_json_put(object, "before", mst_json_number(incident->arrived)) &&
                mst_json_put(object, "after", mst_json_number(incident->expected)) &&
                mst_json_put(object, "faults", mst_json_number(incident->total)) &&
                mst_json_put(object, "interrupt_ms", mst_json_number(incident->interrupt_ms)) &&
                mst_json_put(object, "gather_ms", mst_json_number(incident->gather_ms)) &&
                mst_json_put(object, "step", json_integer(repeated > 0 ? 0 : incident->step)) &&
                mst_json_put(object, "repeated", mst_json_number(repeated)) &&
                mst_json_put(object, "sentence", sentence_json(incident));

    if (!good) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static json_t *incidents_json(const struct mst_items *history, uint64_t after)
{
    json_t *list = json_array();

    for (size_t i = 0; i < history->count; i++) {
        if (history->items[i].revision > after) {
            mst_json_append(&list, mst_story_incident_json(&history->items[i]));
        }
    }
    return list;
}

/* The last of them: a history may be long, and a page asks each second. */
static json_t *gaps_json(const struct mst_items *history, const struct mst_story *story)
{
    struct mst_story_walk walk = {0};
    struct mst_story_gap gap;
    json_t *list = json_array();

    while (mst_story_gap(story, history, &walk, &gap)) {
        json_t *object = json_object();
        bool good = mst_json_put(object, "from_ms", mst_json_number(gap.from_ms)) &&
                    mst_json_put(object, "to_ms", mst_json_number(gap.to_ms)) &&
                    mst_json_put(object, "idle", json_boolean(gap.idle)) &&
                    mst_json_put(object, "number", mst_json_number(gap.of->revision));

        if (json_array_size(list) == GAPS_MAX) {
            (void)json_array_remove(list, 0);
        }
        if (!good) {
            json_decref(object);
            object = NULL;
        }
        mst_json_append(&list, object);
    }
    return list;
}

char *mst_story_json(const char *job, const struct mst_items *history, uint64_t after)
{
    json_t *object = json_object();
    struct mst_story story;
    bool good;

    mst_story_of(history, &story);
    good = mst_json_put(object, "job", mst_json_text(mst_slice_text(job))) &&
           mst_json_put(object, "age_ms", mst_json_number(story.age_ms)) &&
           mst_json_put(object, "from_the_start", json_boolean(story.from_the_start)) &&
           mst_json_put(object, "restarts", mst_json_number(story.restarts)) &&
           mst_json_put(object, "grown", mst_json_number(story.grown)) &&
           mst_json_put(object, "lost", mst_json_number(story.lost)) &&
           mst_json_put(object, "unlisted", mst_json_number(story.unlisted)) &&
           mst_json_put(object, "restart_ms", mst_json_number(story.away_ms)) &&
           mst_json_put(object, "without_ms", mst_json_number(story.without_ms)) &&
           mst_json_put(object, "group_restarts", mst_json_number(story.groups)) &&
           mst_json_put(object, "service_restarts", mst_json_number(story.services)) &&
           mst_json_put(object, "steps_repeated", mst_json_number(story.repeated)) &&
           mst_json_put(object, "without", gaps_json(history, &story)) &&
           mst_json_put(object, "incidents", incidents_json(history, after));
    if (!good) {
        json_decref(object);
        return NULL;
    }
    return mst_json_line(object);
}
