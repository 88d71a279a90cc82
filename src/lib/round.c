/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/round.h"

#include <stdlib.h>
#include <string.h>

#include "lib/items.h"

/* ---- the numbers of calls ---- */

/* How often a name was called in the current generation: the n-th call of everyone is one round. */
struct mst_lib_counter {
    struct mst_lib_counter *next;
    uint64_t number;
    char name[];
};

void mst_lib_counters_free(struct muster_client *client)
{
    while (client->counters) {
        struct mst_lib_counter *next = client->counters->next;

        free(client->counters);
        client->counters = next;
    }
}

/* With the lock. NULL: no memory. */
static struct mst_lib_counter *counter_of(struct muster_client *client, const char *name)
{
    uint64_t generation = mst_lib_view(client)->generation;
    struct mst_lib_counter *counter;
    size_t size = strlen(name) + 1;

    if (client->counters_generation != generation) {
        mst_lib_counters_free(client);
        client->counters_generation = generation;
    }
    for (counter = client->counters; counter; counter = counter->next) {
        if (strcmp(counter->name, name) == 0) {
            return counter;
        }
    }
    counter = malloc(sizeof(*counter) + size);
    if (counter) {
        counter->number = 0;
        memcpy(counter->name, name, size);
        counter->next = client->counters;
        client->counters = counter;
    }
    return counter;
}

/* ---- the result ---- */

struct muster_round_result {
    muster_status status;
    uint64_t number;
    struct muster_round_count count;
    struct mst_items parts, names;
    size_t missing_count;
    struct muster_member missing[MST_NAMES_MAX];
    size_t value_size;
    unsigned char value[];
};

struct taking {
    bool wanted;
    bool answered;
    bool no_memory;
    muster_round_result *result;
};

static muster_round_result *result_of(const struct mst_reply *reply)
{
    muster_round_result *result = calloc(1, sizeof(*result) + reply->value.size + 1);

    if (!result) {
        return NULL;
    }
    result->status = reply->status;
    result->number = (uint64_t)reply->number;
    result->value_size = reply->value.size;
    if (reply->value.size > 0) {
        memcpy(result->value, reply->value.data, reply->value.size);
    }
    if (reply->has_detail) {
        result->count.arrived = reply->detail.arrived;
        result->count.expected = reply->detail.expected;
        result->count.lost = reply->detail.lost;
        result->count.missing = reply->detail.missing;
    }
    if (!mst_lib_items_add(&result->parts, reply) ||
        (reply->has_detail && !mst_lib_items_add_detail(&result->names, &reply->detail))) {
        muster_round_free(result);
        return NULL;
    }
    for (size_t i = 0; i < result->names.count; i++) {
        result->missing[i] = mst_lib_member_of(&result->names.items[i]);
    }
    result->missing_count = result->names.count;
    return result;
}

static void on_result(void *ctx, const struct mst_reply *reply)
{
    struct taking *taking = ctx;

    if (taking->wanted) {
        taking->result = result_of(reply);
        taking->no_memory = !taking->result;
    }
}

/* ---- joining ---- */

static muster_status read_options(struct muster_round_options *out,
                                  const struct muster_round_options *given,
                                  struct muster_error *err, const char *what)
{
    const struct muster_round_options standard = MUSTER_ROUND_OPTIONS_INIT;
    muster_status status;

    *out = standard;
    status = mst_lib_options(out, sizeof(*out), given, "MUSTER_ROUND_OPTIONS_INIT", err, what);
    if (status != MUSTER_OK) {
        return status;
    }
    if (out->deadline_ms < 0) {
        return mst_lib_refuse(err, what, "options.deadline_ms is negative");
    }
    if ((unsigned)out->on_loss > MUSTER_ON_LOSS_PROCEED) {
        return mst_lib_refuse(err, what, "options.on_loss is none of enum muster_on_loss");
    }
    if ((unsigned)out->reduce > MUSTER_REDUCE_EQUAL) {
        return mst_lib_refuse(err, what, "options.reduce is none of enum muster_reduce");
    }
    if (out->participant_count > UINT32_MAX || (out->participants && out->participant_count == 0)) {
        return mst_lib_refuse(err, what, "the number of participants makes no sense");
    }
    return MUSTER_OK;
}

/* What the service would refuse without saying which of many things it was. */
static muster_status check_data(const struct muster_round_options *options,
                                struct muster_slice mine, struct muster_error *err,
                                const char *what)
{
    bool vector = options->reduce == MUSTER_REDUCE_MIN || options->reduce == MUSTER_REDUCE_MAX ||
                  options->reduce == MUSTER_REDUCE_SUM;

    if (vector && (mine.size == 0 || mine.size % sizeof(int64_t) != 0)) {
        return mst_lib_refuse(err, what, "the data is no vector of int64_t");
    }
    if (options->reduce == MUSTER_REDUCE_NONE && mine.size > 0) {
        return mst_lib_refuse(err, what, "options.reduce does not say what becomes of the data");
    }
    return mst_lib_bytes(mine, err, what);
}

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* A copy in ascending order, each once: that is how the service compares them. */
static uint32_t *sorted(const struct muster_round_options *options, uint32_t *count_out)
{
    size_t count = options->participant_count;
    uint32_t *copy = malloc(count * sizeof(*copy));
    size_t kept = 0;

    if (!copy) {
        return NULL;
    }
    memcpy(copy, options->participants, count * sizeof(*copy));
    qsort(copy, count, sizeof(*copy), ascending);
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || copy[i] != copy[kept - 1]) {
            copy[kept++] = copy[i];
        }
    }
    *count_out = (uint32_t)kept;
    return copy;
}

/* The number of this call is used up only if the call may have contributed and is done with it: one
 * that was refused did not, and one whose own wait ended takes up the same round again next time,
 * where its contribution stands. */
static bool uses_number(muster_status status, bool local)
{
    switch (status) {
    case MUSTER_ETIMEDOUT:
        return !local;
    case MUSTER_EINVAL:
    case MUSTER_ELIMIT:
    case MUSTER_ENOMEM:
    case MUSTER_EINTERRUPTED:
    case MUSTER_ECANCELLED:
    case MUSTER_EDEADLK:
    case MUSTER_EINTERNAL:
    case MUSTER_ENOSPACE:
    case MUSTER_EUNREACHABLE:
        return false;
    case MUSTER_OK:
    case MUSTER_MORE:
    case MUSTER_EEXISTS:
    case MUSTER_ENOTFOUND:
    case MUSTER_ECONFLICT:
    case MUSTER_ERANGE:
    case MUSTER_ESTALE:
    case MUSTER_EPREEMPTED:
    case MUSTER_EMISMATCH:
    case MUSTER_ELOST:
    case MUSTER_ETOOFEW:
    case MUSTER_EFAILED:
    case MUSTER_EPROTO:
    case MUSTER_EFENCED:
        break;
    }
    return true;
}

/* The place of this call: which generation, which number. */
static muster_status number_call(muster_client *client, const char *name,
                                 struct mst_round_request *round, struct muster_error *err,
                                 const char *what)
{
    struct mst_lib_counter *counter;
    muster_status status = MUSTER_OK;

    mst_lib_lock(client);
    round->generation = mst_lib_view(client)->generation;
    counter = counter_of(client, name);
    if (round->generation == 0 || mst_lib_view(client)->rank == MST_RANK_NONE) {
        status = mst_lib_refuse(err, what, "this client is in no generation, so it has no rounds");
    } else if (!counter) {
        status = mst_lib_fail(err, MUSTER_ENOMEM, what, NULL);
    } else {
        round->number = counter->number++;
        mst_lib_keep(client);
    }
    mst_lib_unlock(client);
    return status;
}

/* With the lock. */
static void give_number_back(muster_client *client, const char *name,
                             const struct mst_round_request *round)
{
    if (client->counters_generation == round->generation) {
        struct mst_lib_counter *counter = counter_of(client, name);

        if (counter && counter->number == round->number + 1) {
            counter->number = round->number;
        }
    }
}

static muster_status join(muster_client *client, const char *name, struct mst_request *request,
                          int64_t timeout_ms, struct taking *taking, struct muster_error *err,
                          const char *what)
{
    struct mst_lib_outcome outcome = {.on_reply = on_result, .ctx = taking};
    muster_status status = mst_lib_enter(client, err, what);

    if (status == MUSTER_OK) {
        status = number_call(client, name, &request->round, err, what);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    status = mst_lib_call_full(client, request, timeout_ms, &outcome, err, what);
    mst_lib_lock(client);
    if (!uses_number(status, outcome.local)) {
        give_number_back(client, name, &request->round);
    }
    mst_lib_let_go(client);
    mst_lib_unlock(client);
    if (outcome.local && taking->result) { /* not the round's result: the caller's wait ended */
        muster_round_free(taking->result);
        taking->result = NULL;
    }
    if (status == MUSTER_OK && taking->no_memory) {
        status = mst_lib_fail(err, MUSTER_ENOMEM, what, NULL);
    }
    return status;
}

static muster_status join_with(muster_client *client, const char *kind, const char *name,
                               const struct muster_round_options *given, struct muster_slice mine,
                               int64_t timeout_ms, struct taking *taking, struct muster_error *err)
{
    struct mst_request request = {.command = MST_ROUND};
    struct muster_round_options options;
    uint32_t *participants = NULL;
    char what[MST_LIB_WHAT_ROOM];
    muster_status status;

    mst_lib_describe(what, kind, name ? name : "");
    if (!name || !*name) {
        return mst_lib_refuse(err, what, "a round's name must not be empty");
    }
    status = read_options(&options, given, err, what);
    if (status == MUSTER_OK) {
        status = check_data(&options, mine, err, what);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    if (options.participants) {
        participants = sorted(&options, &request.round.participant_count);
        if (!participants) {
            return mst_lib_fail(err, MUSTER_ENOMEM, what, NULL);
        }
    }
    request.round.name = mst_slice_text(name);
    request.round.participants = participants;
    request.round.deadline_ms = (uint64_t)options.deadline_ms;
    request.round.on_loss = (enum mst_on_loss)options.on_loss;
    request.round.reduce = (enum mst_reduce)options.reduce;
    request.round.present_only = options.present_only;
    request.round.data = mst_slice_of(mine.data, mine.size);
    status = join(client, name, &request, timeout_ms, taking, err, what);
    free(participants);
    return status;
}

muster_status muster_round_join(muster_client *client, const char *name,
                                const struct muster_round_options *options,
                                struct muster_slice mine, int64_t timeout_ms,
                                muster_round_result **out, struct muster_error *err)
{
    struct taking taking = {.wanted = out != NULL};
    muster_status status;

    if (out) {
        *out = NULL;
    }
    status = join_with(client, "round", name, options, mine, timeout_ms, &taking, err);
    if (out) {
        *out = taking.result;
    }
    return status;
}

muster_status muster_barrier_wait(muster_client *client, const char *name, int64_t timeout_ms,
                                  struct muster_error *err)
{
    struct taking taking = {0};
    struct muster_slice nothing = {0};

    return join_with(client, "barrier", name, NULL, nothing, timeout_ms, &taking, err);
}

/* ---- reading the result ---- */

muster_status muster_round_status(const muster_round_result *result)
{
    return result ? result->status : MUSTER_EINVAL;
}

uint64_t muster_round_number(const muster_round_result *result)
{
    return result ? result->number : 0;
}

struct muster_slice muster_round_value(const muster_round_result *result)
{
    struct muster_slice value = {0};

    if (result) {
        value.data = result->value;
        value.size = result->value_size;
    }
    return value;
}

int64_t muster_round_int64(const muster_round_result *result, size_t i)
{
    uint64_t number = 0;

    if (!result || i >= result->value_size / sizeof(number)) {
        return 0;
    }
    for (size_t byte = sizeof(number); byte > 0; byte--) {
        number = number << 8 | result->value[i * sizeof(number) + byte - 1];
    }
    return (int64_t)number;
}

void muster_round_count(const muster_round_result *result, struct muster_round_count *out)
{
    *out = result ? result->count : (struct muster_round_count){0};
}

size_t muster_round_part_count(const muster_round_result *result)
{
    return result ? result->parts.count : 0;
}

struct muster_slice muster_round_part(const muster_round_result *result, size_t i,
                                      uint32_t *index_out)
{
    struct muster_slice part = {0};

    if (i < muster_round_part_count(result)) {
        const struct mst_item *item = &result->parts.items[i];

        part.data = item->value.data;
        part.size = item->value.size;
        if (index_out) {
            *index_out = item->who.index;
        }
    }
    return part;
}

const struct muster_member *muster_round_missing(const muster_round_result *result, size_t i)
{
    return result && i < result->missing_count ? &result->missing[i] : NULL;
}

void muster_round_free(muster_round_result *result)
{
    if (result) {
        mst_items_fini(&result->parts);
        mst_items_fini(&result->names);
        free(result);
    }
}

/* ---- who is where ---- */

muster_status muster_round_members(muster_client *client, const char *name, uint64_t number,
                                   int64_t timeout_ms, muster_members **out,
                                   struct muster_error *err)
{
    struct mst_request request = {.command = MST_ROUND_MEMBERS};
    struct mst_items items = {0};
    char what[MST_LIB_WHAT_ROOM];
    muster_status status;

    mst_lib_describe(what, "members of round", name ? name : "");
    if (!out) {
        return mst_lib_refuse(err, what, "out is NULL");
    }
    *out = NULL;
    if (!name || !*name) {
        return mst_lib_refuse(err, what, "a round's name must not be empty");
    }
    status = mst_lib_enter(client, err, what);
    if (status != MUSTER_OK) {
        return status;
    }
    mst_lib_lock(client);
    request.round_members.generation = mst_lib_view(client)->generation;
    mst_lib_unlock(client);
    request.round_members.name = mst_slice_text(name);
    request.round_members.number = number;
    status = mst_lib_items_collect(client, &request, timeout_ms, &items, err, what);
    if (status != MUSTER_OK) {
        return status;
    }
    *out = mst_lib_members_new(&items);
    return *out ? MUSTER_OK : mst_lib_fail(err, MUSTER_ENOMEM, what, NULL);
}

struct muster_rounds {
    struct mst_items items;
    size_t count;
    struct muster_round_info rounds[];
};

static muster_rounds *rounds_of(struct mst_items *items)
{
    muster_rounds *rounds = calloc(1, sizeof(*rounds) + items->count * sizeof(rounds->rounds[0]));

    if (!rounds) {
        mst_items_fini(items);
        return NULL;
    }
    rounds->items = *items;
    for (size_t i = 0; i < items->count; i++) {
        const struct mst_item *item = &items->items[i];
        struct muster_round_info *info = &rounds->rounds[rounds->count];

        if (item->kind != MST_ITEM_ROUND) {
            continue;
        }
        rounds->count++;
        info->name = item->name.data;
        info->number = item->number;
        info->arrived = item->arrived;
        info->expected = item->expected;
        info->has_missing = item->who.state != 0;
        if (info->has_missing) {
            struct mst_item who = {.who = item->who};

            info->missing = mst_lib_member_of(&who);
        }
    }
    return rounds;
}

muster_status muster_round_list(muster_client *client, int64_t timeout_ms, muster_rounds **out,
                                struct muster_error *err)
{
    static const char what[] = "list the rounds";
    struct mst_request request = {.command = MST_ROUNDS};
    struct mst_items items = {0};
    muster_status status;

    if (!out) {
        return mst_lib_refuse(err, what, "out is NULL");
    }
    *out = NULL;
    status = mst_lib_items_collect(client, &request, timeout_ms, &items, err, what);
    if (status != MUSTER_OK) {
        return status;
    }
    *out = rounds_of(&items);
    return *out ? MUSTER_OK : mst_lib_fail(err, MUSTER_ENOMEM, what, NULL);
}

size_t muster_rounds_count(const muster_rounds *rounds)
{
    return rounds ? rounds->count : 0;
}

const struct muster_round_info *muster_rounds_get(const muster_rounds *rounds, size_t i)
{
    return rounds && i < rounds->count ? &rounds->rounds[i] : NULL;
}

void muster_rounds_free(muster_rounds *rounds)
{
    if (rounds) {
        mst_items_fini(&rounds->items);
        free(rounds);
    }
}
