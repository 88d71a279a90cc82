/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/round.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/shell/call.h"
#include "os/system.h"
#include "proto/vector.h"

/* ---- the numbers of calls ---- */

/* The calls of a name in the current generation: the n-th call of every rank is one round. */
struct mst_lib_counter {
    struct mst_table_node node;
    struct mst_lib_counter *next; /* of all */
    uint64_t number;
    struct mst_list taken; /* linked: the service is to learn that the last result is here */
    uint64_t place;        /* in that list */
    char name[];
};

static uint64_t hash_of(const char *name)
{
    static const struct mst_table_secret none;

    return mst_table_hash(&none, mst_slice_text(name));
}

void mst_lib_counters_init(struct mst_lib_counters *counters)
{
    mst_table_init(&counters->by_name, &mst_system_mem);
    mst_list_init(&counters->taken);
}

void mst_lib_counters_free(struct mst_lib_counters *counters)
{
    struct mst_lib_counter *next;

    for (struct mst_lib_counter *counter = counters->all; counter; counter = next) {
        next = counter->next;
        mst_table_remove(&counters->by_name, &counter->node);
        free(counter);
    }
    counters->all = NULL;
    mst_list_init(&counters->taken);
}

static struct mst_lib_counter *find_counter(const struct mst_lib_counters *counters,
                                            const char *name)
{
    struct mst_table_node *node = mst_table_find(&counters->by_name, hash_of(name));

    for (; node; node = mst_table_again(node)) {
        struct mst_lib_counter *counter = MST_CONTAINER(node, struct mst_lib_counter, node);

        if (strcmp(counter->name, name) == 0) {
            return counter;
        }
    }
    return NULL;
}

/* With the lock. NULL: no memory. */
static struct mst_lib_counter *counter_of(struct muster_client *client, const char *name)
{
    struct mst_lib_counters *counters = &client->counters;
    uint64_t generation = mst_lib_view(client)->generation;
    struct mst_lib_counter *counter;
    size_t size = strlen(name) + 1;

    if (counters->generation != generation) {
        mst_lib_counters_free(counters);
        counters->generation = generation;
    }
    counter = find_counter(counters, name);
    if (counter) {
        return counter;
    }
    counter = calloc(1, sizeof(*counter) + size);
    if (counter) {
        memcpy(counter->name, name, size);
        counter->next = counters->all;
        counters->all = counter;
        mst_table_insert(&counters->by_name, hash_of(name), &counter->node);
    }
    return counter;
}

/* ---- the result ---- */

struct muster_round_result {
    muster_status status;
    uint64_t number;
    struct muster_round_count count;
    struct mst_items parts;
    muster_members *missing; /* NULL: none */
    size_t value_size;
    unsigned char value[];
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
        result->count = (struct muster_round_count){.arrived = reply->detail.arrived,
                                                    .expected = reply->detail.expected,
                                                    .lost = reply->detail.lost,
                                                    .missing = reply->detail.missing};
        result->missing = mst_lib_members_named(&reply->detail);
    }
    if (!mst_items_add(&result->parts, reply->items, reply->item_count) ||
        (reply->has_detail && !result->missing)) {
        muster_round_free(result);
        return NULL;
    }
    return result;
}

/* A local reply is not the round's result: only the caller's wait ended. */
static muster_status take_result(struct mst_call *call, const struct mst_reply *reply)
{
    muster_round_result **out = call->out;

    if (out && !call->local) {
        bool has_value =
            reply->status == MUSTER_OK || reply->value.size > 0 || reply->item_count > 0;

        *out = result_of(reply);
        if (!*out && has_value) {
            return MUSTER_ENOMEM;
        }
    }
    return reply->status;
}

/* ---- joining ---- */

static const char *element_of(enum muster_reduce reduce)
{
    return reduce == MUSTER_REDUCE_XOR  ? "uint64_t"
           : reduce > MUSTER_REDUCE_XOR ? "double"
                                        : "int64_t";
}

/* Also refuses what the service would refuse without naming the reason. */
static muster_status read_options(struct muster_round_options *out,
                                  const struct muster_round_options *given,
                                  struct muster_slice mine, struct muster_error *err,
                                  const char *what)
{
    muster_status status =
        mst_lib_options(out, sizeof(*out), given, "MUSTER_ROUND_OPTIONS_INIT", err, what);

    if (status != MUSTER_OK) {
        return status;
    }
    if (out->deadline_ms < 0) {
        return mst_lib_refuse(err, what, "options.deadline_ms is negative");
    }
    if ((unsigned)out->on_loss > MUSTER_ON_LOSS_PROCEED) {
        return mst_lib_refuse(err, what, "options.on_loss is none of enum muster_on_loss");
    }
    if ((unsigned)out->reduce > MUSTER_REDUCE_BROADCAST) {
        return mst_lib_refuse(err, what, "options.reduce is none of enum muster_reduce");
    }
    if (out->participant_count > UINT32_MAX || (out->participants && out->participant_count == 0)) {
        return mst_lib_refuse(err, what, "the number of participants makes no sense");
    }
    if (mst_vector_reduced_by((enum mst_reduce)out->reduce) &&
        (mine.size == 0 || mine.size % MST_VECTOR_ELEMENT != 0)) {
        return mst_lib_refuse(err, what, "the data is no vector of %s", element_of(out->reduce));
    }
    if (out->reduce == MUSTER_REDUCE_BROADCAST && out->on_loss != MUSTER_ON_LOSS_FAIL) {
        return mst_lib_refuse(err, what,
                              "options.on_loss must be FAIL: a broadcast has no value without its "
                              "root");
    }
    if (out->reduce == MUSTER_REDUCE_NONE && mine.size > 0) {
        return mst_lib_refuse(err, what, "options.reduce does not say what becomes of the data");
    }
    return mst_lib_bytes(mst_lib_slice(mine), err, what);
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

/* The number of this call is used up only if the call may have contributed and is over. A call that
 * was refused did not contribute. One whose own wait ended joins the same round again next time, in
 * which its contribution stands. */
static bool uses_number(muster_status status, bool local)
{
    static const muster_status given_back[] = {
        MUSTER_EINVAL,  MUSTER_ELIMIT,    MUSTER_ENOMEM,   MUSTER_EINTERRUPTED, MUSTER_ECANCELLED,
        MUSTER_EDEADLK, MUSTER_EINTERNAL, MUSTER_ENOSPACE, MUSTER_EUNREACHABLE};

    for (size_t i = 0; i < sizeof(given_back) / sizeof(given_back[0]); i++) {
        if (status == given_back[i]) {
            return false;
        }
    }
    return status != MUSTER_ETIMEDOUT || !local;
}

/* ---- results that the service need not keep for this rank ---- */

static void tell_taken(struct mst_call *call)
{
    struct mst_lib_counters *counters = &call->client->counters;
    uint32_t count = 0;

    MST_EACH(counter, &counters->taken, const struct mst_lib_counter, taken) {
        if (count == MST_LIB_TAKEN) {
            break;
        }
        counters->names[count++] = mst_slice_text(counter->name);
        call->place = counter->place;
    }
    call->request.round.taken = counters->names;
    call->request.round.taken_count = count;
}

/* Of its request the service has heard. */
static void forget_told(struct mst_lib_counters *counters, uint64_t place)
{
    while (!mst_list_empty(&counters->taken)) {
        struct mst_lib_counter *first =
            MST_CONTAINER(counters->taken.next, struct mst_lib_counter, taken);

        if (first->place > place) {
            break;
        }
        mst_list_remove(&first->taken);
    }
}

static void take_from_now_on(struct mst_lib_counters *counters, struct mst_lib_counter *counter)
{
    mst_list_remove(&counter->taken);
    counter->place = ++counters->last_place;
    mst_list_append(&counters->taken, &counter->taken);
}

/* The generation and the number of this call. */
static muster_status number_call(struct mst_call *call)
{
    struct muster_client *client = call->client;
    struct mst_round_request *round = &call->request.round;
    struct mst_lib_counter *counter;

    round->generation = mst_lib_view(client)->generation;
    counter = counter_of(client, call->kept);
    if (round->generation == 0 || mst_lib_view(client)->rank == MST_RANK_NONE) {
        return mst_lib_refuse(call->err, call->what,
                              "this client is in no generation, so it has no rounds");
    }
    if (!counter) {
        return mst_lib_fail(call->err, MUSTER_ENOMEM, call->what, NULL);
    }
    if (round->reduce == MST_REDUCE_BROADCAST) {
        const struct mst_view *view = mst_lib_view(client);

        if (round->root >= view->size) {
            return mst_lib_refuse(call->err, call->what,
                                  "the root is rank %" PRIu32 ", but the ranks are 0 to %" PRIu32,
                                  round->root, view->size - 1);
        }
        if (round->root != view->rank) {
            round->data = mst_slice_of(NULL, 0);
        }
    }
    round->number = counter->number++;
    tell_taken(call);
    return MUSTER_MORE;
}

static void end_call(struct mst_call *call)
{
    struct mst_lib_counters *counters = &call->client->counters;
    const struct mst_round_request *round = &call->request.round;
    struct mst_lib_counter *counter;

    if (counters->generation != round->generation) {
        return;
    }
    if (!call->local && call->said != MUSTER_ENOSPACE && call->said != MUSTER_ENOMEM &&
        call->said != MUSTER_ELIMIT) {
        forget_told(counters, call->place);
    }
    counter = find_counter(counters, call->kept);
    if (!counter) {
        return;
    }
    if (uses_number(call->said, call->local)) {
        take_from_now_on(counters, counter);
    } else if (counter->number == round->number + 1) {
        counter->number = round->number;
    }
}

static muster_status join(muster_client *client, const char *kind, const char *name,
                          const struct muster_round_options *given, struct muster_slice mine,
                          int64_t timeout_ms, muster_round_result **out, struct mst_lib_how how)
{
    struct muster_round_options options = MUSTER_ROUND_OPTIONS_INIT;
    uint32_t *participants = NULL;
    char what[MST_LIB_WHAT_ROOM];
    struct mst_call call = {.client = client,
                            .what = what,
                            .kept = name,
                            .timeout_ms = timeout_ms,
                            .request = {.command = MST_ROUND},
                            .begin = number_call,
                            .take = take_result,
                            .ended = end_call,
                            .out = out};
    struct mst_round_request *round = &call.request.round;
    muster_status status;

    mst_lib_describe(what, kind, name ? name : "");
    if (!name || !*name) {
        return mst_lib_refuse(how.err, what, "a round's name must not be empty");
    }
    status = read_options(&options, given, mine, how.err, what);
    if (status != MUSTER_OK) {
        return status;
    }
    if (options.participants) {
        participants = sorted(&options, &round->participant_count);
        if (!participants) {
            return mst_lib_fail(how.err, MUSTER_ENOMEM, what, NULL);
        }
    }
    round->name = mst_slice_text(name);
    round->participants = participants;
    round->deadline_ms = (uint64_t)options.deadline_ms;
    round->on_loss = (enum mst_on_loss)options.on_loss;
    round->reduce = (enum mst_reduce)options.reduce;
    if (options.reduce == MUSTER_REDUCE_BROADCAST) { /* in older programs these bytes are padding */
        round->root = options.root;
    }
    round->present_only = options.present_only;
    round->data = mst_lib_slice(mine);
    status = mst_lib_make(&call, &how);
    free(participants);
    return status;
}

MST_LIB_TWINS(muster_round_join, client,
              (const char *name, const struct muster_round_options *options,
               struct muster_slice mine, int64_t timeout_ms, muster_round_result **out),
              (name, options, mine, timeout_ms, out))
{
    if (out) {
        *out = NULL;
    }
    return join(client, "round", name, options, mine, timeout_ms, out, how);
}

MST_LIB_TWINS(muster_round_broadcast, client,
              (const char *name, uint32_t root, struct muster_slice mine, int64_t timeout_ms,
               muster_round_result **out),
              (name, root, mine, timeout_ms, out))
{
    struct muster_round_options options = MUSTER_ROUND_OPTIONS_INIT;

    if (out) {
        *out = NULL;
    }
    options.reduce = MUSTER_REDUCE_BROADCAST;
    options.root = root;
    return join(client, "broadcast", name, &options, mine, timeout_ms, out, how);
}

MST_LIB_TWINS(muster_barrier_wait, client, (const char *name, int64_t timeout_ms),
              (name, timeout_ms))
{
    return join(client, "barrier", name, NULL, (struct muster_slice){0}, timeout_ms, NULL, how);
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
    return mst_lib_muster_slice(result ? mst_slice_of(result->value, result->value_size)
                                       : mst_slice_of(NULL, 0));
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

double muster_round_double(const muster_round_result *result, size_t i)
{
    int64_t bits = muster_round_int64(result, i);
    double number;

    memcpy(&number, &bits, sizeof(number));
    return number;
}

void muster_round_count(const muster_round_result *result, struct muster_round_count *out)
{
    if (out) {
        *out = result ? result->count : (struct muster_round_count){0};
    }
}

size_t muster_round_part_count(const muster_round_result *result)
{
    return result ? result->parts.count : 0;
}

struct muster_slice muster_round_part(const muster_round_result *result, size_t i,
                                      uint32_t *index_out)
{
    if (i >= muster_round_part_count(result)) {
        return (struct muster_slice){0};
    }
    if (index_out) {
        *index_out = result->parts.items[i].who.index;
    }
    return mst_lib_muster_slice(result->parts.items[i].value);
}

const struct muster_member *muster_round_missing(const muster_round_result *result, size_t i)
{
    return result ? muster_members_get(result->missing, i) : NULL;
}

void muster_round_free(muster_round_result *result)
{
    if (result) {
        mst_items_fini(&result->parts);
        muster_members_free(result->missing);
        free(result);
    }
}

/* ---- members and rounds ---- */

static muster_status name_generation(struct mst_call *call)
{
    call->request.round_members.generation = mst_lib_view(call->client)->generation;
    return MUSTER_MORE;
}

MST_LIB_TWINS(muster_round_members, client,
              (const char *name, uint64_t number, int64_t timeout_ms, muster_members **out),
              (name, number, timeout_ms, out))
{
    char what[MST_LIB_WHAT_ROOM];
    struct mst_call call = {.client = client,
                            .what = what,
                            .kept = name,
                            .timeout_ms = timeout_ms,
                            .request = {.command = MST_ROUND_MEMBERS},
                            .begin = name_generation,
                            .make = mst_lib_members_make,
                            .out = out};

    mst_lib_describe(what, "members of round", name ? name : "");
    if (!out) {
        return mst_lib_refuse(how.err, what, "out is NULL");
    }
    *out = NULL;
    if (!name || !*name) {
        return mst_lib_refuse(how.err, what, "a round's name must not be empty");
    }
    call.request.round_members.name = mst_slice_text(name);
    call.request.round_members.number = number;
    return mst_lib_items_make(&call, &how);
}

struct muster_rounds {
    struct mst_items items;
    size_t count;
    struct muster_round_info rounds[];
};

static void show_round(struct muster_round_info *info, const struct mst_item *item)
{
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

static muster_status make_rounds(struct mst_call *call)
{
    const struct mst_items *items = &call->items;
    muster_rounds **out = call->out;
    muster_rounds *rounds = calloc(1, sizeof(*rounds) + items->count * sizeof(rounds->rounds[0]));

    if (!rounds) {
        return MUSTER_ENOMEM;
    }
    rounds->items = *items;
    for (size_t i = 0; i < items->count; i++) {
        if (items->items[i].kind == MST_ITEM_ROUND) {
            show_round(&rounds->rounds[rounds->count++], &items->items[i]);
        }
    }
    *out = rounds;
    return MUSTER_OK;
}

MST_LIB_TWINS(muster_round_list, client, (int64_t timeout_ms, muster_rounds **out),
              (timeout_ms, out))
{
    static const char what[] = "list the rounds";
    struct mst_call call = {.client = client,
                            .what = what,
                            .timeout_ms = timeout_ms,
                            .request = {.command = MST_ROUNDS},
                            .make = make_rounds,
                            .out = out};

    if (!out) {
        return mst_lib_refuse(how.err, what, "out is NULL");
    }
    *out = NULL;
    return mst_lib_items_make(&call, &how);
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
