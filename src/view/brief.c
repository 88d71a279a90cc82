/* SPDX-License-Identifier: Apache-2.0 */
#include "view/brief.h"

#include "proto/words.h"
#include "view/json.h"

bool mst_brief_lists(const struct mst_item *member)
{
    return member->who.state != MST_PRESENT || (member->has_progress && member->progress.straggler);
}

/* ---- by host ---- */

struct briefing {
    json_t *by_name; /* the hosts of `list`; borrowed from there */
    json_t *list;    /* in the order in which the members name them */
    json_t *states;  /* of all */
    bool with_places;
};

static bool count(json_t *states, enum mst_state state)
{
    const char *word = mst_state_word(state);
    json_t *number = json_object_get(states, word);

    return number ? json_integer_set(number, json_integer_value(number) + 1) == 0
                  : mst_json_put(states, word, json_integer(1));
}

static json_t *host_of(struct briefing *briefing, struct mst_slice name)
{
    json_t *text = mst_json_text(name);
    json_t *host = text ? json_object_get(briefing->by_name, json_string_value(text)) : NULL;
    bool good;

    if (host || !text) {
        json_decref(text);
        return host;
    }
    host = json_object();
    good = json_object_set(briefing->by_name, json_string_value(text), host) == 0 &&
           mst_json_put(host, "states", json_object()) &&
           (!briefing->with_places || mst_json_put(host, "places", json_array())) &&
           json_array_append(briefing->list, host) == 0;
    good = mst_json_put(host, "host", text) && good;
    json_decref(host);
    return good ? host : NULL; /* the two others have it */
}

static bool add_place(json_t *places, const struct mst_who *who)
{
    json_t *place = json_array();

    mst_json_append(&place, json_string(mst_role_word(who->role)));
    mst_json_append(&place, mst_json_number(who->index));
    mst_json_append(&place, mst_json_number_but(who->rank, MST_RANK_NONE));
    mst_json_append(&place, json_string(mst_state_word(who->state)));
    return json_array_append_new(places, place) == 0;
}

static bool add_member(struct briefing *briefing, const struct mst_who *who)
{
    json_t *host;

    if (who->role != MST_ROLE_RANK && who->role != MST_ROLE_WORKER) {
        return true;
    }
    host = host_of(briefing, who->host);
    return host && count(json_object_get(host, "states"), who->state) &&
           count(briefing->states, who->state) &&
           (!briefing->with_places || add_place(json_object_get(host, "places"), who));
}

static bool put_hosts(json_t *object, const struct mst_status *status)
{
    struct briefing briefing = {.by_name = json_object(),
                                .list = json_array(),
                                .states = json_object(),
                                .with_places = status->members.count <= MST_BRIEF_PLACES_MAX};
    bool good = briefing.by_name && briefing.list && briefing.states;

    for (size_t i = 0; good && i < status->members.count; i++) {
        good = add_member(&briefing, &status->members.items[i].who);
    }
    json_decref(briefing.by_name);
    good = mst_json_put(object, "states", briefing.states) && good;
    return mst_json_put(object, "by_host", briefing.list) && good;
}

/* ---- rounds ---- */

static bool waits_at(const struct mst_item *member, const struct mst_item *round)
{
    return member->name.size > 0 && mst_slice_equal(member->name, round->name) &&
           member->number == round->number;
}

/* Which ranks a round of some of them waits for is not known: such a round gets none. */
static bool put_absent(json_t *object, const struct mst_item *round,
                       const struct mst_items *members)
{
    json_t *absent = json_array();
    uint64_t ranks = 0;

    for (size_t i = 0; i < members->count; i++) {
        const struct mst_item *member = &members->items[i];

        if (member->who.rank == MST_RANK_NONE) {
            continue;
        }
        ranks++;
        if (!waits_at(member, round)) {
            mst_json_append(&absent, mst_json_number(member->who.index));
        }
    }
    if (ranks != round->expected) {
        json_decref(absent);
        return true;
    }
    return mst_json_put(object, "absent", absent);
}

/* ---- */

bool mst_brief_put(json_t *object, json_t *rounds, const struct mst_status *status)
{
    bool good = put_hosts(object, status);

    for (size_t i = 0; i < status->rounds.count; i++) {
        good = good &&
               put_absent(json_array_get(rounds, i), &status->rounds.items[i], &status->members);
    }
    return good;
}
