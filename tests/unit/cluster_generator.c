/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster_generator.h"

#include <string.h>

#include "proto/status.h"

const enum mst_cluster_message_type cluster_types[CLUSTER_TYPES] = {
    MST_CLUSTER_HELLO, MST_CLUSTER_RESULT,   MST_CLUSTER_BUILT,     MST_CLUSTER_PROGRESS,
    MST_CLUSTER_LOG,   MST_CLUSTER_DRAINING, MST_CLUSTER_WELCOME,   MST_CLUSTER_REFUSED,
    MST_CLUSTER_RUN,   MST_CLUSTER_CANCEL,   MST_CLUSTER_TAKE_BACK, MST_CLUSTER_BUILD,
    MST_CLUSTER_DROP,  MST_CLUSTER_DRAIN,
};

void cluster_generator_init(struct cluster_generator *generator, uint64_t seed)
{
    memset(generator, 0, sizeof(*generator));
    message_generator_init(&generator->base, seed);
}

static uint64_t below(struct cluster_generator *generator, uint64_t bound)
{
    return message_generator_below(&generator->base, bound);
}

static uint64_t number(struct cluster_generator *generator)
{
    return message_generator_number(&generator->base);
}

static uint32_t number32(struct cluster_generator *generator)
{
    return (uint32_t)number(generator);
}

static struct mst_slice bytes(struct cluster_generator *generator)
{
    return message_generator_bytes(&generator->base);
}

static uint32_t many(struct cluster_generator *generator)
{
    return (uint32_t)below(generator, GENERATOR_MANY + 1);
}

static struct mst_slice short_bytes(struct cluster_generator *generator)
{
    struct mst_slice slice = bytes(generator);

    if (slice.size > MST_FAILURE_TEXT_MAX) {
        slice.size = MST_FAILURE_TEXT_MAX;
    }
    return slice;
}

static void make_failure(struct cluster_generator *generator, struct mst_failure *failure)
{
    *failure = (struct mst_failure){
        .origin = (enum mst_origin)(1 + below(generator, MST_ORIGIN_RETRYABLE)),
        .code = (int32_t)number(generator),
        .worker = below(generator, 2) ? MST_WORKER_NONE : number32(generator),
        .attempt = number32(generator),
        .incarnation = number(generator),
        .text = short_bytes(generator),
        .state = short_bytes(generator),
    };
}

static void make_failures(struct cluster_generator *generator)
{
    struct mst_failure *at = &generator->message.failure;
    uint64_t depth = below(generator, 3) ? 0 : below(generator, MST_FAILURE_DEPTH_MAX + 1);

    at->worker = MST_WORKER_NONE;
    for (uint64_t i = 0; i < depth; i++) {
        make_failure(generator, at);
        if (i + 1 < depth) {
            at->cause = &generator->causes[i];
            at = &generator->causes[i];
        }
    }
}

static void make_parts(struct cluster_generator *generator)
{
    struct mst_parts *parts = &generator->message.parts;

    parts->items = generator->parts;
    parts->count = many(generator);
    for (uint32_t i = 0; i < parts->count; i++) {
        generator->parts[i] = (struct mst_part){
            .data = bytes(generator), .type = below(generator, 2) ? number32(generator) : 0};
    }
}

static uint32_t make_numbers(struct cluster_generator *generator, const uint64_t **out)
{
    uint32_t count = many(generator);

    for (uint32_t i = 0; i < count; i++) {
        generator->numbers[i] = number(generator);
    }
    *out = generator->numbers;
    return count;
}

static void make_attempt(struct cluster_generator *generator)
{
    generator->message.attempt =
        (struct mst_attempt){.closure = number(generator), .attempt = number32(generator)};
    generator->message.series = number(generator);
}

static void make_hello(struct cluster_generator *generator, struct mst_cluster_message *message)
{
    message->version = number32(generator);
    message->cluster = bytes(generator);
    message->index = number32(generator);
    message->incarnation = number(generator);
    message->pid = number(generator);
    message->host = bytes(generator);
    message->slots = number32(generator);
    message->term = number(generator);
    message->results = number(generator);
    message->turn = number(generator);
    message->value_count = make_numbers(generator, &message->values);
    message->functions = generator->functions;
    message->function_count = many(generator);
    for (uint32_t i = 0; i < message->function_count; i++) {
        generator->functions[i] = (struct mst_function){
            .name = bytes(generator), .version = number32(generator), .flags = number32(generator)};
    }
    message->held = generator->held;
    message->held_count = many(generator);
    for (uint32_t i = 0; i < message->held_count; i++) {
        generator->held[i] =
            (struct mst_attempt){.closure = number(generator), .attempt = number32(generator)};
    }
}

static void make_run(struct cluster_generator *generator, struct mst_cluster_message *message)
{
    make_attempt(generator);
    message->function = number32(generator);
    message->key = bytes(generator);
    message->run_limit_ms = number(generator);
    message->left_ms = number(generator);
    message->need_count = make_numbers(generator, &message->needs);
    make_parts(generator);
}

static double make_fraction(struct cluster_generator *generator)
{
    uint64_t parts = below(generator, 1026);

    return parts > 1024 ? -1 : (double)parts / 1024;
}

const struct mst_cluster_message *cluster_generator_of(struct cluster_generator *generator,
                                                       enum mst_cluster_message_type type)
{
    struct mst_cluster_message *message = &generator->message;

    generator->base.pool_used = 0;
    *message = (struct mst_cluster_message){.type = type, .failure = {.worker = MST_WORKER_NONE}};
    switch (type) {
    case MST_CLUSTER_HELLO:
        make_hello(generator, message);
        break;
    case MST_CLUSTER_RESULT:
        make_attempt(generator);
        message->run_ns = number(generator);
        make_failures(generator);
        make_parts(generator);
        break;
    case MST_CLUSTER_BUILT:
        message->value = number(generator);
        make_failures(generator);
        make_parts(generator);
        break;
    case MST_CLUSTER_PROGRESS:
        make_attempt(generator);
        message->fraction = make_fraction(generator);
        message->text = bytes(generator);
        message->overdue = below(generator, 2);
        break;
    case MST_CLUSTER_LOG:
        make_attempt(generator);
        message->text = bytes(generator);
        break;
    case MST_CLUSTER_DRAINING:
    case MST_CLUSTER_DRAIN:
        break;
    case MST_CLUSTER_WELCOME:
        message->term = number(generator);
        message->worker = number32(generator);
        message->left_ms = number(generator);
        break;
    case MST_CLUSTER_REFUSED:
        message->term = number(generator);
        message->status = (muster_status)(-1 - (int)below(generator, 1000));
        message->text = bytes(generator);
        break;
    case MST_CLUSTER_RUN:
        make_run(generator, message);
        break;
    case MST_CLUSTER_CANCEL:
        make_attempt(generator);
        message->left_ms = number(generator);
        break;
    case MST_CLUSTER_TAKE_BACK:
        make_attempt(generator);
        break;
    case MST_CLUSTER_BUILD:
        message->value = number(generator);
        message->function = number32(generator);
        make_parts(generator);
        break;
    case MST_CLUSTER_DROP:
        message->value = number(generator);
        break;
    }
    return message;
}

const struct mst_cluster_message *cluster_generator_any(struct cluster_generator *generator)
{
    return cluster_generator_of(generator, cluster_types[below(generator, CLUSTER_TYPES)]);
}

/* ---- Equality ---- */

static bool parts_equal(const struct mst_parts *a, const struct mst_parts *b)
{
    bool equal = a->count == b->count;

    for (uint32_t i = 0; equal && i < a->count; i++) {
        equal = a->items[i].type == b->items[i].type &&
                mst_slice_equal(a->items[i].data, b->items[i].data);
    }
    return equal;
}

static bool failure_equal(const struct mst_failure *a, const struct mst_failure *b)
{
    for (; a && b; a = a->cause, b = b->cause) {
        if (a->origin != b->origin || a->code != b->code || a->worker != b->worker ||
            a->attempt != b->attempt || a->incarnation != b->incarnation ||
            !mst_slice_equal(a->text, b->text) || !mst_slice_equal(a->state, b->state)) {
            return false;
        }
    }
    return !a && !b;
}

static bool numbers_equal(const uint64_t *a, uint32_t a_count, const uint64_t *b, uint32_t b_count)
{
    return a_count == b_count && (a_count == 0 || memcmp(a, b, a_count * sizeof(*a)) == 0);
}

static bool hello_equal(const struct mst_cluster_message *a, const struct mst_cluster_message *b)
{
    bool equal = a->version == b->version && a->index == b->index &&
                 a->incarnation == b->incarnation && a->pid == b->pid && a->slots == b->slots &&
                 a->function_count == b->function_count && a->held_count == b->held_count &&
                 mst_slice_equal(a->cluster, b->cluster) && mst_slice_equal(a->host, b->host) &&
                 numbers_equal(a->values, a->value_count, b->values, b->value_count);

    for (uint32_t i = 0; equal && i < a->function_count; i++) {
        equal = mst_slice_equal(a->functions[i].name, b->functions[i].name) &&
                a->functions[i].version == b->functions[i].version &&
                a->functions[i].flags == b->functions[i].flags;
    }
    for (uint32_t i = 0; equal && i < a->held_count; i++) {
        equal =
            a->held[i].closure == b->held[i].closure && a->held[i].attempt == b->held[i].attempt;
    }
    return equal;
}

/* What a type does not have is 0 in both. */
bool cluster_message_equal(const struct mst_cluster_message *a, const struct mst_cluster_message *b)
{
    return a->type == b->type && hello_equal(a, b) && a->term == b->term &&
           a->results == b->results && a->turn == b->turn && a->worker == b->worker &&
           a->status == b->status && a->attempt.closure == b->attempt.closure &&
           a->attempt.attempt == b->attempt.attempt && a->series == b->series &&
           a->function == b->function && mst_slice_equal(a->key, b->key) &&
           a->run_limit_ms == b->run_limit_ms && a->left_ms == b->left_ms &&
           numbers_equal(a->needs, a->need_count, b->needs, b->need_count) &&
           parts_equal(&a->parts, &b->parts) && failure_equal(&a->failure, &b->failure) &&
           a->run_ns == b->run_ns && a->value == b->value && a->fraction >= b->fraction &&
           a->fraction <= b->fraction && a->overdue == b->overdue &&
           mst_slice_equal(a->text, b->text);
}
