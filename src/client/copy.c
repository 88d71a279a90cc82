/* SPDX-License-Identifier: Apache-2.0 */
#include "client/copy.h"

#include <string.h>

#include "base/panic.h"

/* Walks a request twice in the same way: first with `room` NULL to add up, then to copy. An array
 * always comes before any bytes, so it lies at the aligned start. */
struct walk {
    unsigned char *room;
    size_t used;
    bool overflow;
};

static void *take(struct walk *walk, const void *data, size_t size)
{
    unsigned char *at = walk->room ? walk->room + walk->used : NULL;

    if (size > SIZE_MAX / 2 - walk->used) {
        walk->overflow = true;
        return NULL;
    }
    walk->used += size;
    if (at && size > 0) {
        memcpy(at, data, size);
    }
    return at;
}

static void *take_array(struct walk *walk, const void *data, size_t count, size_t size)
{
    MST_ASSERT(walk->used == 0);
    if (count > SIZE_MAX / 2 / size) {
        walk->overflow = true;
        return NULL;
    }
    return take(walk, data, count * size);
}

static void take_slice(struct walk *walk, struct mst_slice *slice)
{
    const void *at = take(walk, slice->data, slice->size);

    if (walk->room) {
        slice->data = slice->size > 0 ? at : NULL;
    }
}

static void walk_write(struct walk *walk, struct mst_request *request)
{
    uint32_t count = request->write.count;
    const struct mst_write *from = request->write.ops;
    struct mst_write *ops = take_array(walk, from, count, sizeof(*ops));

    for (uint32_t i = 0; i < count; i++) {
        struct mst_write op = from[i];

        take_slice(walk, &op.key);
        take_slice(walk, &op.value);
        if (ops) {
            ops[i] = op;
        }
    }
    if (ops) {
        request->write.ops = ops;
    }
}

static void walk_wait(struct walk *walk, struct mst_request *request)
{
    uint32_t count = request->wait.count;
    const struct mst_slice *from = request->wait.keys;
    struct mst_slice *keys = take_array(walk, from, count, sizeof(*keys));

    for (uint32_t i = 0; i < count; i++) {
        struct mst_slice key = from[i];

        take_slice(walk, &key);
        if (keys) {
            keys[i] = key;
        }
    }
    if (keys) {
        request->wait.keys = keys;
    }
}

static void walk_round(struct walk *walk, struct mst_request *request)
{
    const uint32_t *participants = request->round.participants;
    const uint32_t *order = request->round.order;

    if (participants) { /* a round that orders has none */
        participants =
            take_array(walk, participants, request->round.participant_count, sizeof(*participants));
    } else if (order) {
        order = take_array(walk, order, request->round.order_count, sizeof(*order));
    }
    if (walk->room) {
        request->round.participants = participants;
        request->round.order = order;
    }
    take_slice(walk, &request->round.name);
    take_slice(walk, &request->round.data);
}

static void walk_request(struct walk *walk, struct mst_request *request)
{
    switch (request->command) {
    case MST_OPEN:
        take_slice(walk, &request->open.job);
        take_slice(walk, &request->open.host);
        break;
    case MST_WRITE:
        walk_write(walk, request);
        break;
    case MST_GET:
        take_slice(walk, &request->get.key);
        break;
    case MST_LIST:
        take_slice(walk, &request->list.prefix);
        take_slice(walk, &request->list.after);
        break;
    case MST_WAIT:
        walk_wait(walk, request);
        break;
    case MST_WATCH:
        take_slice(walk, &request->watch.prefix);
        break;
    case MST_ROUND:
        walk_round(walk, request);
        break;
    case MST_ROUND_MEMBERS:
        take_slice(walk, &request->round_members.name);
        break;
    case MST_FAULT:
        take_slice(walk, &request->fault.text);
        break;
    case MST_LOST:
        take_slice(walk, &request->lost.text);
        break;
    case MST_JOIN:
    case MST_RENEW:
    case MST_LEAVE:
    case MST_CANCEL:
    case MST_CUT:
    case MST_MEMBERS:
    case MST_ROUNDS:
    case MST_JOBS:
    case MST_HOSTS:
    case MST_FAULTS:
        break;
    }
}

size_t mst_copy_size(const struct mst_request *request)
{
    struct walk walk = {0};
    struct mst_request scratch = *request;

    walk_request(&walk, &scratch);
    return walk.overflow ? SIZE_MAX : walk.used;
}

void mst_copy_into(struct mst_request *out, const struct mst_request *request, unsigned char *room)
{
    struct walk walk = {.room = room};

    *out = *request;
    walk_request(&walk, out);
    MST_ASSERT(!walk.overflow);
}
