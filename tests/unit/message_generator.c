/* SPDX-License-Identifier: Apache-2.0 */
#include "message_generator.h"

#include <string.h>

static const enum mst_command commands[] = {
#define X(NAME, name, number, flags, help) MST_##NAME,
#include "proto/commands.def"
#undef X
};

static const muster_status statuses[] = {
#define X(name, value, group, text) MUSTER_##name,
#include "proto/status.def"
#undef X
};

enum {
    COMMANDS = sizeof(commands) / sizeof(commands[0]),
    STATUSES = sizeof(statuses) / sizeof(statuses[0])
};

void message_generator_init(struct message_generator *generator, uint64_t seed)
{
    memset(generator, 0, sizeof(*generator));
    generator->prng.state = seed;
}

/* ---- Parts ---- */

static uint64_t below(struct message_generator *generator, uint64_t bound)
{
    if (generator->bytes) {
        return fuzz_below(generator->bytes, bound);
    }
    return mst_prng_below(&generator->prng, bound);
}

static uint64_t any(struct message_generator *generator)
{
    return generator->bytes ? fuzz_number(generator->bytes, 8) : mst_prng_next(&generator->prng);
}

static uint64_t number(struct message_generator *generator)
{
    static const uint64_t edges[] = {0,         0,          1,         127,        128,
                                     16383,     16384,      INT32_MAX, UINT32_MAX, 1ull << 32,
                                     INT64_MAX, 1ull << 63, UINT64_MAX};

    switch (below(generator, 3)) {
    case 0:
        return edges[below(generator, sizeof(edges) / sizeof(edges[0]))];
    case 1:
        return below(generator, 1000);
    default:
        return any(generator) >> below(generator, 64);
    }
}

static uint32_t number32(struct message_generator *generator)
{
    return (uint32_t)number(generator);
}

static int64_t signed_number(struct message_generator *generator)
{
    uint64_t bits = number(generator);

    return bits <= INT64_MAX ? (int64_t)bits : -(int64_t)(UINT64_MAX - bits) - 1;
}

static int32_t signed_number32(struct message_generator *generator)
{
    return (int32_t)(signed_number(generator) % INT32_MAX);
}

static bool coin(struct message_generator *generator)
{
    return below(generator, 2) == 1;
}

static struct mst_slice bytes_of(struct message_generator *generator)
{
    static const size_t sizes[] = {1, 2, 8, 40, 127, 128, 300, 1200};
    size_t most = sizes[below(generator, sizeof(sizes) / sizeof(sizes[0]))];
    size_t size = coin(generator) ? most : (size_t)below(generator, most);
    unsigned char *start = generator->pool + generator->pool_used;

    if (below(generator, 5) == 0 || size > GENERATOR_POOL - generator->pool_used) {
        size = 0;
    }
    for (size_t i = 0; i < size; i++) {
        start[i] = (unsigned char)(generator->bytes ? fuzz_u8(generator->bytes)
                                                    : mst_prng_next(&generator->prng));
    }
    generator->pool_used += size;
    return mst_slice_of(size > 0 ? start : NULL, size);
}

static uint32_t many(struct message_generator *generator)
{
    return (uint32_t)(coin(generator) ? 1 : below(generator, GENERATOR_MANY + 1));
}

uint64_t message_generator_below(struct message_generator *generator, uint64_t bound)
{
    return below(generator, bound);
}

uint64_t message_generator_number(struct message_generator *generator)
{
    return number(generator);
}

struct mst_slice message_generator_bytes(struct message_generator *generator)
{
    return bytes_of(generator);
}

/* ---- Requests ---- */

static void make_open(struct message_generator *generator, struct mst_open *open)
{
    *open = (struct mst_open){
        .token = {.high = number(generator), .low = number(generator)},
        .job = bytes_of(generator),
        .role = (enum mst_role)below(generator, MST_ROLE_AGENT + 1),
        .index = number32(generator),
        .incarnation = number(generator),
        .generation = number(generator),
        .size = number32(generator),
        .min_size = number32(generator),
        .join_wait_ms = number(generator),
        .grow = (enum mst_grow)below(generator, MST_GROW_OFF + 1),
        .host = bytes_of(generator),
        .pid = number(generator),
        .node = coin(generator) ? MST_NODE_NONE : number32(generator),
        .max_size = number32(generator),
        .size_multiple = number32(generator),
        .replaces = coin(generator),
    };
}

static void make_write(struct message_generator *generator, struct mst_request *request)
{
    uint32_t count = many(generator);

    for (uint32_t i = 0; i < count; i++) {
        generator->ops[i] = (struct mst_write){
            .kind = (enum mst_write_kind)(1 + below(generator, MST_DELETE)),
            .owned = coin(generator),
            .key = bytes_of(generator),
            .value = bytes_of(generator),
            .expected = number(generator),
            .delta = signed_number(generator),
        };
    }
    request->write.generation = number(generator);
    request->write.ops = generator->ops;
    request->write.count = count;
}

static void make_wait(struct message_generator *generator, struct mst_request *request)
{
    uint32_t count = many(generator);

    for (uint32_t i = 0; i < count; i++) {
        generator->keys[i] = bytes_of(generator);
    }
    request->wait.generation = number(generator);
    request->wait.keys = generator->keys;
    request->wait.count = count;
}

static void make_round(struct message_generator *generator, struct mst_round_request *round)
{
    uint32_t count = many(generator);
    bool orders = coin(generator); /* one that does has no participants */
    uint32_t taken = many(generator);

    for (uint32_t i = 0; i < count; i++) {
        generator->participants[i] = number32(generator);
    }
    for (uint32_t i = 0; i < taken; i++) {
        generator->keys[i] = bytes_of(generator);
    }
    *round = (struct mst_round_request){
        .generation = number(generator),
        .name = bytes_of(generator),
        .number = number(generator),
        .participants = count > 0 && !orders ? generator->participants : NULL,
        .participant_count = orders ? 0 : count,
        .order = count > 0 && orders ? generator->participants : NULL,
        .order_count = orders ? count : 0,
        .final = coin(generator),
        .deadline_ms = number(generator),
        .any_deadline = coin(generator),
        .on_loss = (enum mst_on_loss)below(generator, MST_PROCEED + 1),
        .reduce = (enum mst_reduce)below(generator, MST_REDUCE_BROADCAST + 1),
        .root = number32(generator),
        .present_only = coin(generator),
        .seal = coin(generator),
        .data = bytes_of(generator),
        .replace_ms = number(generator),
        .taken = taken > 0 ? generator->keys : NULL,
        .taken_count = taken,
    };
}

static void make_get(struct message_generator *generator, struct mst_request *request)
{
    request->get.generation = number(generator);
    request->get.key = bytes_of(generator);
    request->get.wait = coin(generator);
}

static void make_list(struct message_generator *generator, struct mst_request *request)
{
    request->list.generation = number(generator);
    request->list.prefix = bytes_of(generator);
    request->list.after = bytes_of(generator);
}

static void make_watch(struct message_generator *generator, struct mst_request *request)
{
    request->watch.kinds = (uint32_t)below(generator, (uint64_t)MST_WATCH_VIEW * 2);
    request->watch.generation = number(generator);
    request->watch.prefix = bytes_of(generator);
    request->watch.after = number(generator);
    request->watch.node = (uint32_t)number(generator);
}

static void make_progress(struct message_generator *generator, struct mst_rank_progress *progress)
{
    *progress = (struct mst_rank_progress){
        .index = number32(generator),
        .work = (enum mst_work)below(generator, MST_WORK_CPU + 1),
        .pid = number(generator),
        .generation = number(generator),
        .step = signed_number(generator),
        .rate = number32(generator),
        .quiet_ms = number32(generator),
        .work_us = number32(generator),
        .share = number32(generator),
        .section = bytes_of(generator),
        .behind = number32(generator),
        .slower = number32(generator),
        .repeated = number32(generator),
        .stepped = coin(generator),
        .straggler = coin(generator),
    };
}

static void make_renew(struct message_generator *generator, struct mst_request *request)
{
    request->renew.count = (uint32_t)below(generator, GENERATOR_MANY + 1);
    request->renew.progress = request->renew.count > 0 ? generator->ranks : NULL;
    for (uint32_t i = 0; i < request->renew.count; i++) {
        make_progress(generator, &generator->ranks[i]);
    }
}

static void make_round_members(struct message_generator *generator, struct mst_request *request)
{
    request->round_members.generation = number(generator);
    request->round_members.name = bytes_of(generator);
    request->round_members.number = number(generator);
    request->round_members.after = number(generator);
}

static void make_fault(struct message_generator *generator, struct mst_request *request)
{
    request->fault.generation = number(generator);
    request->fault.code = signed_number32(generator);
    request->fault.text = bytes_of(generator);
    request->fault.kind = (enum mst_cause)below(generator, MST_CAUSES);
    request->fault.pid = number(generator);
    request->fault.index = number32(generator);
    request->fault.peer = number32(generator);
}

static void make_lost(struct message_generator *generator, struct mst_request *request)
{
    request->lost.index = number32(generator);
    request->lost.pid = number(generator);
    request->lost.cause = (enum mst_cause)below(generator, MST_CAUSES);
    request->lost.code = signed_number32(generator);
    request->lost.text = bytes_of(generator);
    request->lost.last = coin(generator);
}

const struct mst_request *message_generator_request_of(struct message_generator *generator,
                                                       enum mst_command command)
{
    struct mst_request *request = &generator->request;

    generator->pool_used = 0;
    *request = (struct mst_request){
        .id = number(generator), .oldest = number(generator), .command = command};
    switch (command) {
    case MST_OPEN:
        make_open(generator, &request->open);
        break;
    case MST_JOIN:
        request->join.spare = coin(generator);
        request->join.heard = number(generator);
        break;
    case MST_RENEW:
        make_renew(generator, request);
        break;
    case MST_LEAVE:
        break;
    case MST_CANCEL:
        request->cancel.id = number(generator);
        break;
    case MST_WRITE:
        make_write(generator, request);
        break;
    case MST_GET:
        make_get(generator, request);
        break;
    case MST_LIST:
        make_list(generator, request);
        break;
    case MST_WAIT:
        make_wait(generator, request);
        break;
    case MST_WATCH:
        make_watch(generator, request);
        break;
    case MST_ROUND:
        make_round(generator, &request->round);
        break;
    case MST_ROUND_MEMBERS:
        make_round_members(generator, request);
        break;
    case MST_DELETE_PREFIX:
        request->delete_prefix.generation = number(generator);
        request->delete_prefix.prefix = bytes_of(generator);
        break;
    case MST_MEMBERS:
    case MST_ROUNDS:
    case MST_JOBS:
    case MST_HOSTS:
    case MST_FAULTS:
    case MST_HISTORY:
        request->page.after = number(generator);
        break;
    case MST_FAULT:
        make_fault(generator, request);
        break;
    case MST_LOST:
        make_lost(generator, request);
        break;
    case MST_CUT:
        request->cut.index = number32(generator);
        request->cut.incarnation = number(generator);
        request->cut.for_ms = number(generator);
        request->cut.worker = below(generator, 2);
        break;
    }
    return request;
}

const struct mst_request *message_generator_request(struct message_generator *generator)
{
    return message_generator_request_of(generator, commands[below(generator, COMMANDS)]);
}

/* ---- Replies ---- */

static void make_who(struct message_generator *generator, struct mst_who *who)
{
    *who = (struct mst_who){
        .index = number32(generator),
        .rank = coin(generator) ? MST_RANK_NONE : number32(generator),
        .incarnation = number(generator),
        .role = (enum mst_role)below(generator, MST_ROLE_AGENT + 1),
        .state = (enum mst_state)(1 + below(generator, MST_SPARE)),
        .cause = (enum mst_cause)below(generator, MST_CAUSES),
        .code = signed_number32(generator),
        .losses = number32(generator),
        .heard_ms = number(generator),
        .pid = number(generator),
        .host = bytes_of(generator),
        .node = coin(generator) ? MST_NODE_NONE : number32(generator),
    };
}

static void make_detail(struct message_generator *generator, struct mst_detail *detail)
{
    *detail = (struct mst_detail){
        .arrived = number32(generator),
        .expected = number32(generator),
        .lost = number32(generator),
        .missing = number32(generator),
        .multiple = number32(generator),
        .limit = signed_number(generator),
        .limit_kind = number32(generator),
        .asked = number(generator),
        .who_count = (uint32_t)below(generator, MST_NAMES_MAX + 1),
    };
    for (uint32_t i = 0; i < detail->who_count; i++) {
        make_who(generator, &detail->who[i]);
    }
}

static void make_item(struct message_generator *generator, struct mst_item *item)
{
    *item = (struct mst_item){
        .kind = (enum mst_item_kind)(1 + below(generator, MST_ITEM_INCIDENT)),
        .revision = number(generator),
        .number = number(generator),
        .arrived = number32(generator),
        .expected = number32(generator),
        .name = bytes_of(generator),
        .value = bytes_of(generator),
    };
    item->listening = coin(generator) ? number32(generator) : 0;
    item->awaited = coin(generator) ? number32(generator) : 0;
    item->lost_ms = coin(generator) ? number(generator) : 0;
    if (coin(generator)) {
        item->incident = (enum mst_incident_kind)below(generator, MST_INCIDENT_LAST + 1);
        item->told_by = number32(generator);
        item->total = number32(generator);
        item->interrupt_ms = number(generator);
        item->gather_ms = number(generator);
        item->step = signed_number(generator);
    }
    item->since_ms = coin(generator) ? number(generator) : 0;
    if (below(generator, 4) == 0) {
        item->missing_count = 1 + (uint32_t)below(generator, MST_NAMES_MAX);
        for (uint32_t i = 0; i < item->missing_count; i++) {
            generator->missing[i] = number32(generator);
        }
        item->missing = generator->missing;
    }
    item->has_progress = below(generator, 4) == 0;
    if (item->has_progress) {
        make_progress(generator, &item->progress);
    }
    if (coin(generator)) {
        make_who(generator, &item->who);
    } else if (coin(generator)) {
        item->who.index = number32(generator);
    }
}

const struct mst_reply *message_generator_reply(struct message_generator *generator)
{
    struct mst_reply *reply = &generator->reply;
    muster_status status = statuses[below(generator, STATUSES)];

    generator->pool_used = 0;
    *reply = (struct mst_reply){
        .id = number(generator) | 1, /* 0 is no request's */
        .command = commands[below(generator, COMMANDS)],
        .status = status == MUSTER_MORE ? MUSTER_OK : status,
        .number = signed_number(generator),
        .revision = number(generator),
        .next = number(generator),
        .value = bytes_of(generator),
        .has_view = coin(generator),
        .has_detail = coin(generator),
        .items = generator->items,
        .item_count = coin(generator) ? 0 : many(generator),
    };
    if (reply->has_view) {
        reply->view = (struct mst_view){
            .generation = number(generator),
            .size = number32(generator),
            .rank = number32(generator),
            .index = number32(generator),
            .incarnation = number(generator),
            .attention = (enum mst_attention)below(generator, MST_INTERRUPT + 1),
            .faults = number(generator),
            .spare = coin(generator),
            .ordered = coin(generator),
            .size_of_job = number32(generator),
        };
    }
    if (reply->has_detail) {
        make_detail(generator, &reply->detail);
    }
    for (uint32_t i = 0; i < reply->item_count; i++) {
        make_item(generator, &generator->items[i]);
    }
    reply->addresses = bytes_of(generator);
    return reply;
}

/* ---- Equality ---- */

static bool open_equal(const struct mst_open *a, const struct mst_open *b)
{
    return a->token.high == b->token.high && a->token.low == b->token.low &&
           mst_slice_equal(a->job, b->job) && a->role == b->role && a->index == b->index &&
           a->incarnation == b->incarnation && a->generation == b->generation &&
           a->size == b->size && a->min_size == b->min_size && a->join_wait_ms == b->join_wait_ms &&
           a->grow == b->grow && mst_slice_equal(a->host, b->host) && a->pid == b->pid &&
           a->node == b->node && a->max_size == b->max_size &&
           a->size_multiple == b->size_multiple && a->replaces == b->replaces;
}

static bool write_equal(const struct mst_request *a, const struct mst_request *b)
{
    bool equal = a->write.generation == b->write.generation && a->write.count == b->write.count;

    for (uint32_t i = 0; equal && i < a->write.count; i++) {
        const struct mst_write *x = &a->write.ops[i];
        const struct mst_write *y = &b->write.ops[i];

        equal = x->kind == y->kind && x->owned == y->owned && mst_slice_equal(x->key, y->key) &&
                mst_slice_equal(x->value, y->value) && x->expected == y->expected &&
                x->delta == y->delta;
    }
    return equal;
}

static bool wait_equal(const struct mst_request *a, const struct mst_request *b)
{
    bool equal = a->wait.generation == b->wait.generation && a->wait.count == b->wait.count;

    for (uint32_t i = 0; equal && i < a->wait.count; i++) {
        equal = mst_slice_equal(a->wait.keys[i], b->wait.keys[i]);
    }
    return equal;
}

static bool round_equal(const struct mst_round_request *a, const struct mst_round_request *b)
{
    bool equal = a->participant_count == b->participant_count && a->order_count == b->order_count;

    for (uint32_t i = 0; equal && i < a->order_count; i++) {
        equal = a->order[i] == b->order[i];
    }
    for (uint32_t i = 0; equal && i < a->participant_count; i++) {
        equal = a->participants[i] == b->participants[i];
    }
    equal = equal && a->taken_count == b->taken_count;
    for (uint32_t i = 0; equal && i < a->taken_count; i++) {
        equal = mst_slice_equal(a->taken[i], b->taken[i]);
    }
    return equal && a->generation == b->generation && mst_slice_equal(a->name, b->name) &&
           a->number == b->number && a->deadline_ms == b->deadline_ms && a->on_loss == b->on_loss &&
           a->reduce == b->reduce && a->root == b->root && a->present_only == b->present_only &&
           a->seal == b->seal && a->final == b->final && a->any_deadline == b->any_deadline &&
           a->replace_ms == b->replace_ms && mst_slice_equal(a->data, b->data);
}

static bool key_requests_equal(const struct mst_request *a, const struct mst_request *b)
{
    if (a->command == MST_GET) {
        return a->get.generation == b->get.generation && a->get.wait == b->get.wait &&
               mst_slice_equal(a->get.key, b->get.key);
    }
    if (a->command == MST_LIST) {
        return a->list.generation == b->list.generation &&
               mst_slice_equal(a->list.prefix, b->list.prefix) &&
               mst_slice_equal(a->list.after, b->list.after);
    }
    return a->watch.kinds == b->watch.kinds && a->watch.generation == b->watch.generation &&
           a->watch.after == b->watch.after && a->watch.node == b->watch.node &&
           mst_slice_equal(a->watch.prefix, b->watch.prefix);
}

static bool progress_equal(const struct mst_rank_progress *a, const struct mst_rank_progress *b)
{
    return a->index == b->index && a->work == b->work && a->pid == b->pid &&
           a->generation == b->generation && a->step == b->step && a->rate == b->rate &&
           a->quiet_ms == b->quiet_ms && a->work_us == b->work_us && a->share == b->share &&
           mst_slice_equal(a->section, b->section) && a->behind == b->behind &&
           a->slower == b->slower && a->repeated == b->repeated && a->stepped == b->stepped &&
           a->straggler == b->straggler;
}

static bool renewals_equal(const struct mst_request *a, const struct mst_request *b)
{
    bool equal = a->renew.count == b->renew.count;

    for (uint32_t i = 0; equal && i < a->renew.count; i++) {
        equal = progress_equal(&a->renew.progress[i], &b->renew.progress[i]);
    }
    return equal;
}

static bool reports_equal(const struct mst_request *a, const struct mst_request *b)
{
    if (a->command == MST_FAULT) {
        return a->fault.generation == b->fault.generation && a->fault.code == b->fault.code &&
               mst_slice_equal(a->fault.text, b->fault.text) && a->fault.kind == b->fault.kind &&
               a->fault.pid == b->fault.pid && a->fault.index == b->fault.index &&
               a->fault.peer == b->fault.peer;
    }
    return a->lost.index == b->lost.index && a->lost.pid == b->lost.pid &&
           a->lost.cause == b->lost.cause && a->lost.code == b->lost.code &&
           a->lost.last == b->lost.last && mst_slice_equal(a->lost.text, b->lost.text);
}

static bool parameters_equal(const struct mst_request *a, const struct mst_request *b)
{
    switch (a->command) {
    case MST_OPEN:
        return open_equal(&a->open, &b->open);
    case MST_JOIN:
        return a->join.spare == b->join.spare && a->join.heard == b->join.heard;
    case MST_RENEW:
        return renewals_equal(a, b);
    case MST_LEAVE:
        return true;
    case MST_CANCEL:
        return a->cancel.id == b->cancel.id;
    case MST_WRITE:
        return write_equal(a, b);
    case MST_GET:
    case MST_LIST:
    case MST_WATCH:
        return key_requests_equal(a, b);
    case MST_WAIT:
        return wait_equal(a, b);
    case MST_ROUND:
        return round_equal(&a->round, &b->round);
    case MST_ROUND_MEMBERS:
        return a->round_members.generation == b->round_members.generation &&
               mst_slice_equal(a->round_members.name, b->round_members.name) &&
               a->round_members.number == b->round_members.number &&
               a->round_members.after == b->round_members.after;
    case MST_DELETE_PREFIX:
        return a->delete_prefix.generation == b->delete_prefix.generation &&
               mst_slice_equal(a->delete_prefix.prefix, b->delete_prefix.prefix);
    case MST_MEMBERS:
    case MST_ROUNDS:
    case MST_JOBS:
    case MST_HOSTS:
    case MST_FAULTS:
    case MST_HISTORY:
        return a->page.after == b->page.after;
    case MST_FAULT:
    case MST_LOST:
        return reports_equal(a, b);
    case MST_CUT:
        return a->cut.index == b->cut.index && a->cut.incarnation == b->cut.incarnation &&
               a->cut.for_ms == b->cut.for_ms && a->cut.worker == b->cut.worker;
    }
    return false;
}

bool message_request_equal(const struct mst_request *a, const struct mst_request *b)
{
    return a->id == b->id && a->oldest == b->oldest && a->command == b->command &&
           parameters_equal(a, b);
}

static bool who_equal(const struct mst_who *a, const struct mst_who *b)
{
    return a->index == b->index && a->rank == b->rank && a->incarnation == b->incarnation &&
           a->role == b->role && a->state == b->state && a->cause == b->cause &&
           a->code == b->code && a->losses == b->losses && a->heard_ms == b->heard_ms &&
           a->pid == b->pid && mst_slice_equal(a->host, b->host) && a->node == b->node;
}

static bool view_equal(const struct mst_view *a, const struct mst_view *b)
{
    return a->generation == b->generation && a->size == b->size && a->rank == b->rank &&
           a->index == b->index && a->incarnation == b->incarnation &&
           a->attention == b->attention && a->faults == b->faults && a->spare == b->spare &&
           a->ordered == b->ordered && a->size_of_job == b->size_of_job;
}

static bool detail_equal(const struct mst_detail *a, const struct mst_detail *b)
{
    bool equal = a->arrived == b->arrived && a->expected == b->expected && a->lost == b->lost &&
                 a->missing == b->missing && a->multiple == b->multiple && a->limit == b->limit &&
                 a->limit_kind == b->limit_kind && a->asked == b->asked &&
                 a->who_count == b->who_count;

    for (uint32_t i = 0; equal && i < a->who_count; i++) {
        equal = who_equal(&a->who[i], &b->who[i]);
    }
    return equal;
}

static bool missing_equal(const struct mst_item *x, const struct mst_item *y)
{
    bool equal = x->missing_count == y->missing_count;

    for (uint32_t i = 0; equal && i < x->missing_count; i++) {
        equal = x->missing[i] == y->missing[i];
    }
    return equal;
}

static bool items_equal(const struct mst_reply *a, const struct mst_reply *b)
{
    bool equal = a->item_count == b->item_count;

    for (uint32_t i = 0; equal && i < a->item_count; i++) {
        const struct mst_item *x = &a->items[i];
        const struct mst_item *y = &b->items[i];

        equal = x->kind == y->kind && x->revision == y->revision && x->number == y->number &&
                x->arrived == y->arrived && x->expected == y->expected &&
                x->listening == y->listening && x->awaited == y->awaited &&
                x->lost_ms == y->lost_ms && x->incident == y->incident &&
                x->told_by == y->told_by && x->total == y->total &&
                x->interrupt_ms == y->interrupt_ms && x->gather_ms == y->gather_ms &&
                x->step == y->step && x->since_ms == y->since_ms && missing_equal(x, y) &&
                x->has_progress == y->has_progress &&
                (!x->has_progress || progress_equal(&x->progress, &y->progress)) &&
                mst_slice_equal(x->name, y->name) && mst_slice_equal(x->value, y->value) &&
                who_equal(&x->who, &y->who);
    }
    return equal;
}

bool message_reply_equal(const struct mst_reply *a, const struct mst_reply *b)
{
    return a->id == b->id && a->command == b->command && a->status == b->status &&
           a->number == b->number && a->revision == b->revision && a->next == b->next &&
           mst_slice_equal(a->value, b->value) && mst_slice_equal(a->addresses, b->addresses) &&
           a->has_view == b->has_view && (!a->has_view || view_equal(&a->view, &b->view)) &&
           a->has_detail == b->has_detail &&
           (!a->has_detail || detail_equal(&a->detail, &b->detail)) && items_equal(a, b);
}
