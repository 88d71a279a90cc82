/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/text.h"
#include "fronts/tcpstore/machine.h"
#include "proto/status.h"

/* A queue is a key with the numbers of its first item and behind its last one, and a key for each
 * item. A queue without items has no key. Each change writes the first key on the condition that it
 * is the same as before, and the item in the same write: so an item is popped once, in order. */

enum { NUMBER = 8, DIGITS = 16, ENDS = 2 * DIGITS + 1 };

#define MIDDLE (UINT64_C(1) << 63) /* an item may come back in front of the first */

/* ---- the two numbers, as text for people ---- */

static void put_digits(char *out, uint64_t number)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < DIGITS; i++) {
        out[i] = digits[number >> (4 * (DIGITS - 1 - i)) & 15];
    }
}

static bool take_digits(const unsigned char *bytes, uint64_t *out)
{
    uint64_t number = 0;

    for (size_t i = 0; i < DIGITS; i++) {
        unsigned char c = bytes[i];

        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) {
            return false;
        }
        number = number << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    *out = number;
    return true;
}

static bool take_ends(struct mst_slice value, uint64_t *head, uint64_t *tail)
{
    const unsigned char *bytes = value.data;

    return value.size == ENDS && take_digits(bytes, head) &&
           take_digits(bytes + DIGITS + 1, tail) && *head < *tail;
}

/* ---- errands ---- */

static void errand_begin(struct mst_tcpstore *front, struct mst_tcpstore_errand *errand);

static struct mst_tcpstore_errand *errand_new(struct mst_tcpstore *front,
                                              enum mst_tcpstore_errand_kind kind,
                                              struct mst_tcpstore_connection *connection,
                                              struct mst_slice key)
{
    struct mst_tcpstore_errand *errand = mst_mem_zalloc(&front->mem, sizeof(*errand));

    if (errand) {
        errand->kind = kind;
        errand->connection = connection;
        errand->session = connection->session;
        errand->key = mst_blob_new(&front->mem, key);
        mst_list_init(&errand->calls);
        mst_list_append(&front->errands, &errand->link);
        if (!errand->key) {
            mst_tcpstore_errand_free(front, errand);
            errand = NULL;
        }
    }
    return errand;
}

void mst_tcpstore_errand_free(struct mst_tcpstore *front, struct mst_tcpstore_errand *errand)
{
    mst_tcpstore_drop_calls(front, &errand->calls);
    mst_list_remove(&errand->link);
    mst_blob_drop(&front->mem, errand->key);
    mst_blob_drop(&front->mem, errand->item);
    mst_mem_release(&front->mem, errand);
}

/* A pop that may be made has to be seen to its end: its item would be lost. */
void mst_tcpstore_errand_leave(struct mst_tcpstore *front, struct mst_tcpstore_errand *errand)
{
    errand->connection = NULL;
    if (errand->session->leaving || !(errand->held || errand->writing)) {
        mst_tcpstore_errand_free(front, errand);
    } else if (errand->held) {
        errand->held = false;
        errand->kind = MST_TCPSTORE_RETURN;
        errand->tries = 0;
        errand_begin(front, errand);
    }
}

/* `reply`: NULL: out of memory. */
static void errand_fail(struct mst_tcpstore *front, struct mst_tcpstore_errand *errand,
                        const struct mst_reply *reply)
{
    struct mst_tcpstore_connection *connection = errand->connection;
    char line[160];

    if (!connection && errand->item) {
        mst_tcpstore_log(
            front,
            mst_slice_of(
                line, mst_text_print(line, sizeof(line), "an item of the queue '%.*s' is lost: %s",
                                     MST_SLICE_ARGS(mst_blob_slice(errand->key)),
                                     mst_status_text(reply ? reply->status : MUSTER_ENOMEM))));
    }
    if (!connection) {
        mst_tcpstore_errand_free(front, errand);
        return;
    }
    errand->writing = false; /* the connection's end frees the errand */
    if (reply) {
        mst_tcpstore_fail_reply(front, connection, reply);
    } else {
        mst_tcpstore_fail_memory(front, connection);
    }
}

static void errand_post(struct mst_tcpstore *front, struct mst_tcpstore_errand *errand,
                        struct mst_tcpstore_call *call, mst_tcpstore_replied *replied)
{
    if (call) {
        mst_tcpstore_post(front, call, errand->session, &errand->calls, replied, errand);
    } else {
        errand_fail(front, errand, NULL);
    }
}

static struct mst_tcpstore_call *read_new(struct mst_tcpstore *front, struct mst_slice key,
                                          enum mst_tcpstore_space space, uint64_t item)
{
    struct mst_tcpstore_call *call = mst_tcpstore_call_new(front, mst_tcpstore_name_size(key));

    if (call) {
        call->request.command = MST_GET;
        call->request.get.key = mst_tcpstore_name(front, call, space, key, item);
    }
    return call;
}

/* ---- what is done at the end ---- */

static void answer_pop(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection,
                       uint64_t length, struct mst_slice item)
{
    unsigned char sizes[2 * NUMBER];

    mst_tcpstore_put_number(sizes, length);
    mst_tcpstore_put_number(sizes + NUMBER, item.size);
    if (mst_tcpstore_send(front, connection,
                          mst_slice_of(sizes, length > 0 ? sizeof(sizes) : NUMBER), item)) {
        mst_tcpstore_finish(front, connection);
    } else {
        mst_tcpstore_fail_memory(front, connection);
    }
}

static struct mst_tcpstore_queue *find(const struct mst_tcpstore *front, struct mst_slice key)
{
    return MST_CONTAINER_OR_NULL(mst_tree_find(&front->queues, &key), struct mst_tcpstore_queue,
                                 node);
}

static void forget(struct mst_tcpstore *front, struct mst_tcpstore_queue *queue)
{
    mst_tree_remove(&front->queues, &queue->node);
    mst_blob_drop(&front->mem, queue->key);
    mst_mem_release(&front->mem, queue);
}

/* What this change has made of the queue is known before the watch shows it. */
static void note_length(struct mst_tcpstore *front, struct mst_slice key, uint64_t length)
{
    struct mst_tcpstore_queue *queue = find(front, key);

    if (queue && length > 0) {
        queue->length = length;
    } else if (queue) {
        forget(front, queue);
    }
}

static void on_grabbed(struct mst_tcpstore *front, struct mst_tcpstore_errand *errand)
{
    struct mst_tcpstore_connection *connection = errand->connection;

    note_length(front, mst_blob_slice(errand->key), errand->tail - errand->head - 1);
    errand->writing = false;
    errand->held = true;
    if (!connection) {
        mst_tcpstore_errand_leave(front, errand);
        return;
    }
    errand->until_ns = mst_after_ms(front->now_ns, (uint64_t)MST_TCPSTORE_RESERVED_MS);
    connection->wait.grab = NULL;
    connection->held = errand;
    mst_tcpstore_wait_answer(front, connection);
}

static void on_empty(struct mst_tcpstore *front, struct mst_tcpstore_errand *errand)
{
    struct mst_tcpstore_connection *connection = errand->connection;

    note_length(front, mst_blob_slice(errand->key), 0);
    if (errand->kind == MST_TCPSTORE_POP) {
        answer_pop(front, connection, 0, mst_slice_of(NULL, 0));
        return;
    }
    if (connection) {
        connection->wait.grab = NULL;
    }
    mst_tcpstore_errand_free(front, errand);
}

static void on_written(struct mst_tcpstore *front, struct mst_tcpstore_call *call,
                       const struct mst_reply *reply)
{
    struct mst_tcpstore_errand *errand = call->owner;
    struct mst_blob *key;

    errand->writing = false;
    if (reply->status == MUSTER_ECONFLICT && errand->kind == MST_TCPSTORE_GRAB &&
        !errand->connection) {
        mst_tcpstore_errand_free(front, errand); /* nothing was popped */
        return;
    }
    if (reply->status == MUSTER_ECONFLICT && ++errand->tries < MST_TCPSTORE_TRIES) {
        errand_begin(front, errand);
        return;
    }
    if (reply->status != MUSTER_OK) {
        errand_fail(front, errand, reply);
        return;
    }
    switch (errand->kind) {
    case MST_TCPSTORE_PUSH:
        mst_tcpstore_finish(front, errand->connection);
        break;
    case MST_TCPSTORE_POP:
        answer_pop(front, errand->connection, errand->tail - errand->head,
                   mst_blob_slice(errand->item));
        break;
    case MST_TCPSTORE_GRAB:
        key = mst_blob_keep(errand->key);
        on_grabbed(front, errand);
        mst_tcpstore_queue_serve(front, mst_blob_slice(key));
        mst_blob_drop(&front->mem, key);
        break;
    case MST_TCPSTORE_RETURN:
        mst_tcpstore_errand_free(front, errand);
        break;
    }
}

/* ---- the change ---- */

/* The queue is from `head` to `tail` now, and `item` is put or deleted. */
static void write_queue(struct mst_tcpstore *front, struct mst_tcpstore_errand *errand,
                        uint64_t head, uint64_t tail, struct mst_write item, uint64_t number)
{
    struct mst_slice key = mst_blob_slice(errand->key);
    struct mst_tcpstore_call *call = mst_tcpstore_call_new(
        front, 3 * sizeof(struct mst_write) + 2 * mst_tcpstore_name_size(key) + ENDS);
    struct mst_write *ops;
    char *ends;

    if (call) {
        ops = mst_tcpstore_room(call, 3 * sizeof(*ops));
        ops[0] = (struct mst_write){.kind = MST_CAS, .expected = errand->revision};
        ops[0].key = mst_tcpstore_name(front, call, MST_TCPSTORE_QUEUES, key, 0);
        ops[1] = item;
        ops[1].key = mst_tcpstore_name(front, call, MST_TCPSTORE_ITEMS, key, number);
        ops[2] = (struct mst_write){.kind = MST_DELETE, .key = ops[0].key};
        ends = mst_tcpstore_room(call, ENDS);
        put_digits(ends, head);
        ends[DIGITS] = ' ';
        put_digits(ends + DIGITS + 1, tail);
        ops[0].value = mst_slice_of(ends, ENDS);
        call->request.command = MST_WRITE;
        call->request.write.ops = ops;
        call->request.write.count = head == tail ? 3 : 2;
        errand->writing = true;
    }
    errand_post(front, errand, call, on_written);
}

static void on_item(struct mst_tcpstore *front, struct mst_tcpstore_call *call,
                    const struct mst_reply *reply)
{
    struct mst_tcpstore_errand *errand = call->owner;

    if (reply->status == MUSTER_ENOTFOUND) {
        if (++errand->tries < MST_TCPSTORE_TRIES) {
            errand_begin(front, errand); /* popped meanwhile */
            return;
        }
    }
    if (reply->status != MUSTER_OK) {
        errand_fail(front, errand, reply);
        return;
    }
    mst_blob_drop(&front->mem, errand->item);
    errand->item = mst_blob_new(&front->mem, reply->value);
    if (!errand->item) {
        errand_fail(front, errand, NULL);
        return;
    }
    write_queue(front, errand, errand->head + 1, errand->tail,
                (struct mst_write){.kind = MST_DELETE}, errand->head);
}

static void on_ends(struct mst_tcpstore *front, struct mst_tcpstore_call *call,
                    const struct mst_reply *reply)
{
    static const struct mst_reply strange = {.status = MUSTER_EPROTO};
    struct mst_tcpstore_errand *errand = call->owner;
    struct mst_write put = {.kind = MST_PUT, .value = mst_blob_slice(errand->item)};

    errand->head = errand->tail = MIDDLE;
    errand->revision = reply->status == MUSTER_OK ? reply->revision : 0;
    if (reply->status != MUSTER_OK && reply->status != MUSTER_ENOTFOUND) {
        errand_fail(front, errand, reply);
    } else if (reply->status == MUSTER_OK &&
               !take_ends(reply->value, &errand->head, &errand->tail)) {
        errand_fail(front, errand, &strange);
    } else if (errand->kind == MST_TCPSTORE_PUSH) {
        write_queue(front, errand, errand->head, errand->tail + 1, put, errand->tail);
    } else if (errand->kind == MST_TCPSTORE_RETURN) {
        write_queue(front, errand, errand->head - 1, errand->tail, put, errand->head - 1);
    } else if (reply->status == MUSTER_ENOTFOUND) {
        on_empty(front, errand);
    } else {
        errand_post(front, errand,
                    read_new(front, mst_blob_slice(errand->key), MST_TCPSTORE_ITEMS, errand->head),
                    on_item);
    }
}

static void errand_begin(struct mst_tcpstore *front, struct mst_tcpstore_errand *errand)
{
    errand_post(front, errand, read_new(front, mst_blob_slice(errand->key), MST_TCPSTORE_QUEUES, 0),
                on_ends);
}

/* ---- requests ---- */

void mst_tcpstore_queue_push(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection,
                             const struct mst_tcpstore_request *request)
{
    struct mst_tcpstore_errand *errand =
        errand_new(front, MST_TCPSTORE_PUSH, connection, request->key);

    connection->work.errand = errand;
    if (errand) {
        errand->item = mst_blob_new(&front->mem, request->value);
    }
    if (errand && errand->item) {
        errand_begin(front, errand);
    } else {
        mst_tcpstore_fail_memory(front, connection);
    }
}

void mst_tcpstore_queue_pop(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection,
                            const struct mst_tcpstore_request *request)
{
    struct mst_tcpstore_errand *errand = connection->held;

    connection->held = NULL;
    if (errand) {
        connection->work.errand = errand; /* it ends with the request */
        answer_pop(front, connection, errand->tail - errand->head, mst_blob_slice(errand->item));
        return;
    }
    errand = errand_new(front, MST_TCPSTORE_POP, connection, request->key);
    connection->work.errand = errand;
    if (errand) {
        errand_begin(front, errand);
    } else {
        mst_tcpstore_fail_memory(front, connection);
    }
}

/* Items in hand, which count until they are popped. */
static uint64_t items_in_hand(const struct mst_tcpstore *front, struct mst_slice key)
{
    uint64_t count = 0;

    MST_EACH(errand, &front->errands, const struct mst_tcpstore_errand, link) {
        count += (errand->held || errand->kind == MST_TCPSTORE_RETURN) &&
                 mst_slice_equal(mst_blob_slice(errand->key), key);
    }
    return count;
}

static void on_length(struct mst_tcpstore *front, struct mst_tcpstore_call *call,
                      const struct mst_reply *reply)
{
    struct mst_tcpstore_connection *connection = call->owner;
    struct mst_slice key = mst_tcpstore_request_of(connection).key;
    unsigned char bytes[NUMBER];
    uint64_t head = 0, tail = 0;

    if (reply->status != MUSTER_OK && reply->status != MUSTER_ENOTFOUND) {
        mst_tcpstore_fail_reply(front, connection, reply);
        return;
    }
    if (reply->status == MUSTER_OK) {
        (void)take_ends(reply->value, &head, &tail);
    }
    mst_tcpstore_put_number(bytes, tail - head + items_in_hand(front, key));
    if (mst_tcpstore_send(front, connection, mst_slice_of(bytes, NUMBER), mst_slice_of(NULL, 0))) {
        mst_tcpstore_finish(front, connection);
    } else {
        mst_tcpstore_fail_memory(front, connection);
    }
}

void mst_tcpstore_queue_length(struct mst_tcpstore *front,
                               struct mst_tcpstore_connection *connection,
                               const struct mst_tcpstore_request *request)
{
    struct mst_tcpstore_call *call = read_new(front, request->key, MST_TCPSTORE_QUEUES, 0);

    if (call) {
        mst_tcpstore_post(front, call, connection->session, &connection->work.calls, on_length,
                          connection);
    } else {
        mst_tcpstore_fail_memory(front, connection);
    }
}

/* ---- queues that have items, for waits ---- */

int mst_tcpstore_queue_order(const void *key, const struct mst_tree_node *node)
{
    const struct mst_tcpstore_queue *queue =
        MST_CONTAINER_CONST(node, struct mst_tcpstore_queue, node);

    return mst_slice_compare(*(const struct mst_slice *)key, mst_blob_slice(queue->key));
}

const struct mst_tcpstore_queue *mst_tcpstore_queue_find(const struct mst_tcpstore *front,
                                                         struct mst_slice key)
{
    return find(front, key);
}

static struct mst_tcpstore_connection *waiting(struct mst_tcpstore_wait *wait)
{
    return MST_CONTAINER(wait, struct mst_tcpstore_connection, wait);
}

static void grab(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection,
                 struct mst_slice key)
{
    struct mst_tcpstore_errand *errand = errand_new(front, MST_TCPSTORE_GRAB, connection, key);

    connection->wait.grab = errand;
    if (errand) {
        errand_begin(front, errand);
    } else {
        mst_tcpstore_fail_memory(front, connection);
    }
}

static uint64_t grabs_of(const struct mst_tcpstore *front, struct mst_slice key)
{
    uint64_t count = 0;

    MST_EACH(errand, &front->errands, const struct mst_tcpstore_errand, link) {
        count += errand->kind == MST_TCPSTORE_GRAB && !errand->held &&
                 mst_slice_equal(mst_blob_slice(errand->key), key);
    }
    return count;
}

/* To the one that waits longest first. */
void mst_tcpstore_queue_serve(struct mst_tcpstore *front, struct mst_slice key)
{
    struct mst_tcpstore_queue *queue = find(front, key);
    uint64_t served = queue ? grabs_of(front, key) : 0;

    if (!queue) {
        return;
    }
    MST_EACH(wait, &front->waits, struct mst_tcpstore_wait, link) {
        if (served >= queue->length) {
            return;
        }
        if (!wait->grab && mst_tcpstore_wait_is_for(wait, key)) {
            grab(front, waiting(wait), key);
            served++;
        }
    }
}

/* ---- the watch ---- */

void mst_tcpstore_queues_clear(struct mst_tcpstore *front)
{
    mst_tcpstore_drop_calls(front, &front->following);
    while (front->queues.root) {
        forget(front,
               MST_CONTAINER(mst_tree_first(&front->queues), struct mst_tcpstore_queue, node));
    }
    mst_follow_begin(&front->follow, MST_WATCH_KEYS,
                     mst_slice_text(front->prefix[MST_TCPSTORE_QUEUES]), MST_NODE_NONE);
}

/* The blob is taken over. NULL: no memory. */
static struct mst_tcpstore_queue *obtain(struct mst_tcpstore *front, struct mst_blob *key)
{
    struct mst_slice name = mst_blob_slice(key);
    struct mst_tcpstore_queue *queue = find(front, name);

    if (queue) {
        mst_blob_drop(&front->mem, key);
        return queue;
    }
    queue = mst_mem_zalloc(&front->mem, sizeof(*queue));
    if (!queue) {
        mst_blob_drop(&front->mem, key);
        return NULL;
    }
    queue->key = key;
    MST_ASSERT(mst_tree_insert(&front->queues, &name, &queue->node));
    return queue;
}

/* False: no memory. */
static bool note(struct mst_tcpstore *front, const struct mst_item *item)
{
    struct mst_slice bare = mst_slice_from(item->name, strlen(front->prefix[MST_TCPSTORE_QUEUES]));
    struct mst_blob *key = mst_blob_new(&front->mem, bare);
    struct mst_tcpstore_queue *queue;
    uint64_t head, tail;

    if (!key) {
        return false;
    }
    key->size = mst_tcpstore_key_of(bare, key->bytes).size;
    if (item->kind != MST_ITEM_KEY || !take_ends(item->value, &head, &tail)) {
        note_length(front, mst_blob_slice(key), 0);
        mst_blob_drop(&front->mem, key);
        return true;
    }
    queue = obtain(front, key);
    if (!queue) {
        return false;
    }
    queue->length = tail - head;
    key = mst_blob_keep(queue->key);
    MST_EACH(wait, &front->waits, struct mst_tcpstore_wait, link) {
        mst_tcpstore_wait_cross(front, waiting(wait), mst_blob_slice(key));
    }
    mst_tcpstore_queue_serve(front, mst_blob_slice(key));
    mst_blob_drop(&front->mem, key);
    return true;
}

static void on_changes(struct mst_tcpstore *front, struct mst_tcpstore_call *call,
                       const struct mst_reply *reply)
{
    bool taken = reply->status == MUSTER_OK;

    (void)call;
    for (uint32_t i = 0; taken && i < reply->item_count; i++) {
        const struct mst_item *item = &reply->items[i];

        if (item->kind == MST_ITEM_RESET) {
            while (front->queues.root) {
                forget(front, MST_CONTAINER(mst_tree_first(&front->queues),
                                            struct mst_tcpstore_queue, node));
            }
        } else if (item->kind == MST_ITEM_KEY || item->kind == MST_ITEM_DELETED) {
            taken = note(front, item);
        }
    }
    if (taken) {
        mst_follow_took(&front->follow, reply);
        mst_tcpstore_queues_follow(front);
    } else {
        mst_follow_refused(&front->follow, front->now_ns);
    }
}

void mst_tcpstore_queues_follow(struct mst_tcpstore *front)
{
    struct mst_tcpstore_session *with = NULL;
    struct mst_tcpstore_call *call;

    front->follow.again_ns = NEVER;
    MST_EACH(session, &front->sessions, struct mst_tcpstore_session, link) {
        with = with || !session->open ? with : session;
    }
    if (!with) {
        return;
    }
    call = mst_tcpstore_call_new(front, 0);
    if (call) {
        call->request = front->follow.request;
        mst_tcpstore_post(front, call, with, &front->following, on_changes, NULL);
    } else {
        mst_follow_refused(&front->follow, front->now_ns);
    }
}
