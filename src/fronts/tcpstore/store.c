/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"
#include "fronts/tcpstore/machine.h"

/* What each request does with the keys of the service. A change that the service has no operation
 * for reads the key and writes it on the condition that it is the same as before, again and again
 * if need be. */

enum { NUMBER = 8, NUMBER_ROOM = 24 };

static const struct mst_slice nothing = {.data = NULL, .size = 0};

void mst_tcpstore_work_clear(struct mst_tcpstore *front, struct mst_tcpstore_work *work)
{
    struct mst_buffer names = work->names;

    mst_tcpstore_drop_calls(front, &work->calls);
    for (size_t i = 0; i < MST_TCPSTORE_READS; i++) {
        mst_blob_drop(&front->mem, work->values[i]);
    }
    if (work->errand) {
        mst_tcpstore_errand_free(front, work->errand);
    }
    mst_buffer_fini(&names);
    *work = (struct mst_tcpstore_work){.offset = 0};
    mst_list_init(&work->calls);
    mst_buffer_init(&work->names, &front->mem, MST_TCPSTORE_REQUEST_MAX);
}

static struct mst_tcpstore_connection *connection_of(const struct mst_tcpstore_call *call)
{
    return call->owner;
}

static void post(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection,
                 struct mst_tcpstore_call *call, mst_tcpstore_replied *replied)
{
    mst_tcpstore_post(front, call, connection->session, &connection->work.calls, replied,
                      connection);
}

static void answer(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection,
                   struct mst_slice first, struct mst_slice second)
{
    if (mst_tcpstore_send(front, connection, first, second)) {
        mst_tcpstore_finish(front, connection);
    } else {
        mst_tcpstore_fail_memory(front, connection);
    }
}

static void answer_number(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection,
                          int64_t number)
{
    unsigned char bytes[NUMBER];

    mst_tcpstore_put_number(bytes, (uint64_t)number);
    answer(front, connection, mst_slice_of(bytes, sizeof(bytes)), nothing);
}

static void answer_bytes(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection,
                         struct mst_slice value)
{
    unsigned char size[NUMBER];

    mst_tcpstore_put_number(size, value.size);
    answer(front, connection, mst_slice_of(size, sizeof(size)), value);
}

static void answer_byte(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection,
                        unsigned char byte)
{
    answer(front, connection, mst_slice_of(&byte, 1), nothing);
}

/* ---- writes ---- */

/* Of `count` operations, with room for names of `names` bytes. */
static struct mst_tcpstore_call *write_new(struct mst_tcpstore *front, uint32_t count, size_t names,
                                           struct mst_write **ops_out)
{
    struct mst_tcpstore_call *call =
        mst_tcpstore_call_new(front, count * sizeof(**ops_out) + names);

    if (call) {
        *ops_out = mst_tcpstore_room(call, count * sizeof(**ops_out));
        call->request.command = MST_WRITE;
        call->request.write.ops = *ops_out;
        call->request.write.count = count;
    }
    return call;
}

/* `op` without its key, of the request's key; `more`: room behind the name. */
static struct mst_tcpstore_call *write_key(struct mst_tcpstore *front, struct mst_slice key,
                                           enum mst_tcpstore_space space, struct mst_write op,
                                           size_t more, struct mst_write **op_out)
{
    struct mst_tcpstore_call *call =
        write_new(front, 1, mst_tcpstore_name_size(key) + more, op_out);

    if (call) {
        **op_out = op;
        (*op_out)->key = mst_tcpstore_name(front, call, space, key, 0);
    }
    return call;
}

static void write_one(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection,
                      struct mst_slice key, struct mst_write op, mst_tcpstore_replied *replied)
{
    struct mst_write *made;
    struct mst_tcpstore_call *call = write_key(front, key, MST_TCPSTORE_KEYS, op, 0, &made);

    if (call) {
        post(front, connection, call, replied);
    } else {
        mst_tcpstore_fail_memory(front, connection);
    }
}

static void on_stored(struct mst_tcpstore *front, struct mst_tcpstore_call *call,
                      const struct mst_reply *reply)
{
    struct mst_tcpstore_connection *connection = connection_of(call);

    if (reply->status == MUSTER_OK) {
        mst_tcpstore_finish(front, connection);
    } else {
        mst_tcpstore_fail_reply(front, connection, reply);
    }
}

static void on_deleted(struct mst_tcpstore *front, struct mst_tcpstore_call *call,
                       const struct mst_reply *reply)
{
    struct mst_tcpstore_connection *connection = connection_of(call);

    if (reply->status == MUSTER_OK) {
        answer_number(front, connection, reply->number);
    } else {
        mst_tcpstore_fail_reply(front, connection, reply);
    }
}

/* A barrier of a key that is deleted begins anew. */
static void begin_delete(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection,
                         struct mst_slice key)
{
    struct mst_write *ops;
    struct mst_tcpstore_call *call = write_new(front, 2, 2 * mst_tcpstore_name_size(key), &ops);

    if (!call) {
        mst_tcpstore_fail_memory(front, connection);
        return;
    }
    ops[0] = (struct mst_write){
        .kind = MST_DELETE, .key = mst_tcpstore_name(front, call, MST_TCPSTORE_BARRIERS, key, 0)};
    ops[1] = (struct mst_write){.kind = MST_DELETE,
                                .key = mst_tcpstore_name(front, call, MST_TCPSTORE_KEYS, key, 0)};
    post(front, connection, call, on_deleted);
}

/* ---- MULTI_SET ---- */

/* Pairs of one write, from the work's place in the list; the size of their names. */
static uint32_t pairs_of_a_write(const struct mst_tcpstore *front, struct mst_slice list,
                                 size_t *names_out)
{
    size_t most = (size_t)front->config.limits.frame_bytes_max / 2;
    size_t used = 0;
    uint32_t count = 0;

    *names_out = 0;
    while (list.size > 0 && count < front->config.limits.batch_max) {
        size_t name = mst_tcpstore_name_size(mst_tcpstore_item(&list));

        used += name + mst_tcpstore_item(&list).size;
        if (count > 0 && used > most) {
            break;
        }
        *names_out += name;
        count++;
    }
    return count;
}

static void on_some_stored(struct mst_tcpstore *front, struct mst_tcpstore_call *call,
                           const struct mst_reply *reply);

static void write_pairs(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection)
{
    struct mst_slice whole = mst_tcpstore_request_of(connection).list;
    struct mst_slice list = mst_slice_from(whole, connection->work.offset);
    size_t names;
    uint32_t count = pairs_of_a_write(front, list, &names);
    struct mst_write *ops;
    struct mst_tcpstore_call *call;

    if (count == 0) {
        mst_tcpstore_finish(front, connection);
        return;
    }
    call = write_new(front, count, names, &ops);
    if (!call) {
        mst_tcpstore_fail_memory(front, connection);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct mst_slice key = mst_tcpstore_item(&list);

        ops[i] =
            (struct mst_write){.kind = MST_PUT,
                               .key = mst_tcpstore_name(front, call, MST_TCPSTORE_KEYS, key, 0),
                               .value = mst_tcpstore_item(&list)};
    }
    connection->work.offset = whole.size - list.size;
    post(front, connection, call, on_some_stored);
}

static void on_some_stored(struct mst_tcpstore *front, struct mst_tcpstore_call *call,
                           const struct mst_reply *reply)
{
    struct mst_tcpstore_connection *connection = connection_of(call);

    if (reply->status == MUSTER_OK) {
        write_pairs(front, connection);
    } else {
        mst_tcpstore_fail_reply(front, connection, reply);
    }
}

/* ---- GET, MULTI_GET, CHECK ---- */

static struct mst_tcpstore_call *get_new(struct mst_tcpstore *front, size_t room)
{
    struct mst_tcpstore_call *call = mst_tcpstore_call_new(front, room);

    if (call) {
        call->request.command = MST_GET;
    }
    return call;
}

static void on_read(struct mst_tcpstore *front, struct mst_tcpstore_call *call,
                    const struct mst_reply *reply);

/* False: no memory, and the connection is closed. */
static bool read_some(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection,
                      const struct mst_tcpstore_request *request)
{
    struct mst_tcpstore_work *work = &connection->work;

    while (work->asked < request->count && work->asked - work->sent < MST_TCPSTORE_READS) {
        struct mst_slice list = mst_slice_from(request->list, work->offset);
        struct mst_slice key = mst_tcpstore_item(&list);
        struct mst_tcpstore_call *call = get_new(front, mst_tcpstore_name_size(key));

        if (!call) {
            mst_tcpstore_fail_memory(front, connection);
            return false;
        }
        work->offset += NUMBER + key.size;
        call->slot = (uint32_t)(work->asked++ % MST_TCPSTORE_READS);
        call->request.get.key = mst_tcpstore_name(front, call, MST_TCPSTORE_KEYS, key, 0);
        post(front, connection, call, on_read);
    }
    return true;
}

/* In the order of the keys. */
static bool send_read(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection,
                      bool check)
{
    struct mst_tcpstore_work *work = &connection->work;

    for (; work->sent < work->asked && work->has[work->sent % MST_TCPSTORE_READS]; work->sent++) {
        size_t slot = work->sent % MST_TCPSTORE_READS;
        struct mst_slice value = mst_blob_slice(work->values[slot]);
        unsigned char size[NUMBER];

        mst_tcpstore_put_number(size, value.size);
        if (!check && !mst_tcpstore_send(front, connection, mst_slice_of(size, NUMBER), value)) {
            mst_tcpstore_fail_memory(front, connection);
            return false;
        }
        mst_blob_drop(&front->mem, work->values[slot]);
        work->values[slot] = NULL;
        work->has[slot] = false;
    }
    return true;
}

static void read_on(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection)
{
    struct mst_tcpstore_request request = mst_tcpstore_request_of(connection);
    bool check = request.opcode == MST_TCPSTORE_CHECK;

    if (!send_read(front, connection, check)) {
        return;
    }
    if (connection->work.sent < request.count) {
        (void)read_some(front, connection, &request);
    } else if (check) {
        answer_byte(front, connection, 0);
    } else {
        mst_tcpstore_finish(front, connection);
    }
}

/* A name that is no key may be a queue that is not empty. */
static void look_for_queue(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection,
                           const struct mst_tcpstore_call *before)
{
    struct mst_slice name = before->request.get.key;
    struct mst_tcpstore_call *call = get_new(front, name.size + MST_TCPSTORE_PREFIX_ROOM);

    if (!call) {
        mst_tcpstore_fail_memory(front, connection);
        return;
    }
    call->slot = before->slot;
    call->request.get.key =
        mst_tcpstore_name_in(front, call, MST_TCPSTORE_QUEUES, name, MST_TCPSTORE_KEYS);
    post(front, connection, call, on_read);
}

static bool is_in(const struct mst_tcpstore *front, struct mst_slice name,
                  enum mst_tcpstore_space space)
{
    return mst_slice_starts_with(name, mst_slice_text(front->prefix[space]));
}

static void on_read(struct mst_tcpstore *front, struct mst_tcpstore_call *call,
                    const struct mst_reply *reply)
{
    struct mst_tcpstore_connection *connection = connection_of(call);
    struct mst_tcpstore_work *work = &connection->work;
    bool check = mst_tcpstore_request_of(connection).opcode == MST_TCPSTORE_CHECK;

    if (reply->status != MUSTER_OK && reply->status != MUSTER_ENOTFOUND) {
        mst_tcpstore_fail_reply(front, connection, reply);
        return;
    }
    if (check && reply->status == MUSTER_ENOTFOUND) {
        if (is_in(front, call->request.get.key, MST_TCPSTORE_KEYS)) {
            look_for_queue(front, connection, call);
        } else {
            answer_byte(front, connection, 1);
        }
        return;
    }
    if (!check && reply->status == MUSTER_OK && reply->value.size > 0) {
        work->values[call->slot] = mst_blob_new(&front->mem, reply->value);
        if (!work->values[call->slot]) {
            mst_tcpstore_fail_memory(front, connection);
            return;
        }
    }
    work->has[call->slot] = true;
    read_on(front, connection);
}

/* ---- ADD, BARRIER, COMPARE_SET ---- */

/* As the C++ function stoll: what follows the digits does not count. False: there are none, or it
 * does not fit. */
static bool parse(struct mst_slice text, int64_t *out)
{
    const unsigned char *bytes = text.data;
    size_t i = 0;
    size_t digits = 0;
    bool negative;
    uint64_t most, number = 0;

    while (i < text.size && (bytes[i] == ' ' || (bytes[i] >= '\t' && bytes[i] <= '\r'))) {
        i++;
    }
    negative = i < text.size && bytes[i] == '-';
    i += i < text.size && (bytes[i] == '-' || bytes[i] == '+');
    most = (uint64_t)INT64_MAX + negative;
    for (; i < text.size && bytes[i] >= '0' && bytes[i] <= '9'; i++, digits++) {
        uint64_t digit = bytes[i] - (uint64_t)'0';

        if (number > (most - digit) / 10) {
            return false;
        }
        number = number * 10 + digit;
    }
    *out = (int64_t)(negative ? 0 - number : number);
    return digits > 0;
}

static void on_opened(struct mst_tcpstore *front, struct mst_tcpstore_call *call,
                      const struct mst_reply *reply)
{
    struct mst_tcpstore_connection *connection = connection_of(call);

    if (reply->status == MUSTER_OK) {
        answer_byte(front, connection, 0);
    } else {
        mst_tcpstore_fail_reply(front, connection, reply);
    }
}

/* The last one opens it for those who wait, on all nodes. */
static void arrived(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection,
                    const struct mst_tcpstore_request *request, int64_t count)
{
    struct mst_write *op;
    struct mst_tcpstore_call *call;

    if (count < request->number) {
        mst_tcpstore_wait_begin(front, connection, MST_TCPSTORE_BARRIERS, request->list, 1);
        return;
    }
    call = write_key(front, request->key, MST_TCPSTORE_BARRIERS,
                     (struct mst_write){.kind = MST_PUT}, 0, &op);
    if (call) {
        post(front, connection, call, on_opened);
    } else {
        mst_tcpstore_fail_memory(front, connection);
    }
}

static void counted(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection,
                    int64_t sum)
{
    struct mst_tcpstore_request request = mst_tcpstore_request_of(connection);

    if (request.opcode == MST_TCPSTORE_BARRIER) {
        arrived(front, connection, &request, sum);
    } else {
        answer_number(front, connection, sum);
    }
}

static void add(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection);
static void read_before_change(struct mst_tcpstore *front,
                               struct mst_tcpstore_connection *connection);

static int64_t delta_of(const struct mst_tcpstore_request *request)
{
    return request->opcode == MST_TCPSTORE_BARRIER ? 1 : request->number;
}

static void on_changed(struct mst_tcpstore *front, struct mst_tcpstore_call *call,
                       const struct mst_reply *reply)
{
    struct mst_tcpstore_connection *connection = connection_of(call);
    struct mst_tcpstore_request request = mst_tcpstore_request_of(connection);

    if (reply->status == MUSTER_ECONFLICT) {
        read_before_change(front, connection);
    } else if (reply->status != MUSTER_OK) {
        mst_tcpstore_fail_reply(front, connection, reply);
    } else if (request.opcode == MST_TCPSTORE_COMPARE_SET) {
        answer_bytes(front, connection, request.desired);
    } else {
        counted(front, connection, connection->work.number);
    }
}

/* If the key is still as it was read; `revision` 0: not there. */
static void change(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection,
                   const struct mst_tcpstore_request *request, uint64_t revision,
                   struct mst_slice value, bool copied)
{
    struct mst_write *op;
    struct mst_tcpstore_call *call =
        write_key(front, request->key, MST_TCPSTORE_KEYS,
                  (struct mst_write){.kind = MST_CAS, .expected = revision, .value = value},
                  copied ? value.size : 0, &op);

    if (!call) {
        mst_tcpstore_fail_memory(front, connection);
        return;
    }
    if (copied) {
        char *room = mst_tcpstore_room(call, value.size);

        memcpy(room, value.data, value.size);
        op->value.data = room;
    }
    post(front, connection, call, on_changed);
}

/* The number is none of the service's: it wraps, or has other bytes around it. */
static void change_number(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection,
                          const struct mst_tcpstore_request *request, const struct mst_reply *reply)
{
    char text[NUMBER_ROOM];
    int64_t number;

    if (reply->status == MUSTER_ENOTFOUND) {
        add(front, connection);
    } else if (!parse(reply->value, &number)) {
        mst_tcpstore_fail(front, connection,
                          request->opcode == MST_TCPSTORE_ADD
                              ? "ADD: the value of its key is no number of 64 bits"
                              : "BARRIER: the value of its key is no number of 64 bits");
    } else {
        number = (int64_t)((uint64_t)number + (uint64_t)delta_of(request));
        connection->work.number = number;
        change(front, connection, request, reply->revision,
               mst_slice_of(text, mst_text_print(text, sizeof(text), "%" PRId64, number)), true);
    }
}

static void compare(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection,
                    const struct mst_tcpstore_request *request, const struct mst_reply *reply)
{
    bool missing = reply->status == MUSTER_ENOTFOUND;

    if (missing ? request->value.size == 0 : mst_slice_equal(reply->value, request->value)) {
        change(front, connection, request, missing ? 0 : reply->revision, request->desired, false);
    } else {
        answer_bytes(front, connection, missing ? request->value : reply->value);
    }
}

static void on_read_before(struct mst_tcpstore *front, struct mst_tcpstore_call *call,
                           const struct mst_reply *reply)
{
    struct mst_tcpstore_connection *connection = connection_of(call);
    struct mst_tcpstore_request request = mst_tcpstore_request_of(connection);

    if (reply->status != MUSTER_OK && reply->status != MUSTER_ENOTFOUND) {
        mst_tcpstore_fail_reply(front, connection, reply);
    } else if (request.opcode == MST_TCPSTORE_COMPARE_SET) {
        compare(front, connection, &request, reply);
    } else {
        change_number(front, connection, &request, reply);
    }
}

static bool may_try(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection)
{
    if (connection->work.tries++ == MST_TCPSTORE_TRIES) {
        mst_tcpstore_fail(front, connection, "its key was changed by others at each of 64 tries");
        return false;
    }
    return true;
}

static void read_before_change(struct mst_tcpstore *front,
                               struct mst_tcpstore_connection *connection)
{
    struct mst_slice key = mst_tcpstore_request_of(connection).key;
    struct mst_tcpstore_call *call;

    if (!may_try(front, connection)) {
        return;
    }
    call = get_new(front, mst_tcpstore_name_size(key));
    if (call) {
        call->request.get.key = mst_tcpstore_name(front, call, MST_TCPSTORE_KEYS, key, 0);
        post(front, connection, call, on_read_before);
    } else {
        mst_tcpstore_fail_memory(front, connection);
    }
}

static void on_added(struct mst_tcpstore *front, struct mst_tcpstore_call *call,
                     const struct mst_reply *reply)
{
    struct mst_tcpstore_connection *connection = connection_of(call);

    if (reply->status == MUSTER_ERANGE) {
        read_before_change(front, connection);
    } else if (reply->status != MUSTER_OK) {
        mst_tcpstore_fail_reply(front, connection, reply);
    } else {
        counted(front, connection, reply->number);
    }
}

static void add(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection)
{
    struct mst_tcpstore_request request = mst_tcpstore_request_of(connection);

    if (may_try(front, connection)) {
        write_one(front, connection, request.key,
                  (struct mst_write){.kind = MST_ADD, .delta = delta_of(&request)}, on_added);
    }
}

/* ---- GETNUMKEYS, LIST_KEYS ---- */

static void on_listed(struct mst_tcpstore *front, struct mst_tcpstore_call *call,
                      const struct mst_reply *reply);

static void list(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection,
                 struct mst_slice after)
{
    struct mst_tcpstore_call *call = mst_tcpstore_call_new(front, after.size);

    if (!call) {
        mst_tcpstore_fail_memory(front, connection);
        return;
    }
    call->request.command = MST_LIST;
    call->request.list.prefix = mst_slice_text(front->prefix[MST_TCPSTORE_KEYS]);
    if (after.size > 0) {
        void *room = mst_tcpstore_room(call, after.size);

        memcpy(room, after.data, after.size);
        call->request.list.after = mst_slice_of(room, after.size);
    }
    post(front, connection, call, on_listed);
}

static bool keep_name(const struct mst_tcpstore *front, struct mst_buffer *names,
                      struct mst_slice name)
{
    struct mst_slice bare = mst_slice_from(name, strlen(front->prefix[MST_TCPSTORE_KEYS]));
    unsigned char *at = mst_buffer_reserve(names, NUMBER + bare.size);
    struct mst_slice key;

    if (!at) {
        return false;
    }
    key = mst_tcpstore_key_of(bare, at + NUMBER);
    mst_tcpstore_put_number(at, key.size);
    mst_buffer_commit(names, NUMBER + key.size);
    return true;
}

static void answer_list(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection)
{
    unsigned char count[NUMBER];

    mst_tcpstore_put_number(count, (uint64_t)connection->work.number);
    answer(front, connection, mst_slice_of(count, NUMBER),
           mst_buffer_content(&connection->work.names));
}

static void on_listed(struct mst_tcpstore *front, struct mst_tcpstore_call *call,
                      const struct mst_reply *reply)
{
    struct mst_tcpstore_connection *connection = connection_of(call);
    struct mst_tcpstore_work *work = &connection->work;
    bool names = mst_tcpstore_request_of(connection).opcode == MST_TCPSTORE_LIST_KEYS;

    if (reply->status != MUSTER_OK) {
        mst_tcpstore_fail_reply(front, connection, reply);
        return;
    }
    work->number += reply->item_count;
    for (uint32_t i = 0; names && i < reply->item_count; i++) {
        if (!keep_name(front, &work->names, reply->items[i].name)) {
            mst_tcpstore_fail_memory(front, connection);
            return;
        }
    }
    if (reply->next != 0 && reply->item_count > 0) {
        list(front, connection, reply->items[reply->item_count - 1].name);
    } else {
        answer_list(front, connection);
    }
}

/* ---- ---- */

/* An item that is reserved is for the request that follows the wait, or for others. */
static void end_reservation(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection,
                            const struct mst_tcpstore_request *request)
{
    struct mst_tcpstore_errand *held = connection->held;

    if (held && !(request->opcode == MST_TCPSTORE_QUEUE_POP &&
                  mst_slice_equal(request->key, mst_blob_slice(held->key)))) {
        connection->held = NULL;
        mst_tcpstore_errand_leave(front, held);
    }
}

void mst_tcpstore_begin(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection,
                        const struct mst_tcpstore_request *request)
{
    end_reservation(front, connection, request);
    switch (request->opcode) {
    case MST_TCPSTORE_SET:
        write_one(front, connection, request->key,
                  (struct mst_write){.kind = MST_PUT, .value = request->value}, on_stored);
        break;
    case MST_TCPSTORE_APPEND:
        write_one(front, connection, request->key,
                  (struct mst_write){.kind = MST_APPEND, .value = request->value}, on_stored);
        break;
    case MST_TCPSTORE_ADD:
    case MST_TCPSTORE_BARRIER:
        add(front, connection);
        break;
    case MST_TCPSTORE_COMPARE_SET:
        read_before_change(front, connection);
        break;
    case MST_TCPSTORE_GET:
        if (mst_tcpstore_found_is_for(connection, request)) {
            answer_bytes(front, connection, mst_blob_slice(connection->found.value));
        } else {
            read_on(front, connection);
        }
        break;
    case MST_TCPSTORE_CHECK:
    case MST_TCPSTORE_MULTI_GET:
        read_on(front, connection);
        break;
    case MST_TCPSTORE_MULTI_SET:
        write_pairs(front, connection);
        break;
    case MST_TCPSTORE_WAIT:
        mst_tcpstore_wait_begin(front, connection, MST_TCPSTORE_KEYS, request->list,
                                request->count);
        break;
    case MST_TCPSTORE_DELETE_KEY:
        begin_delete(front, connection, request->key);
        break;
    case MST_TCPSTORE_GETNUMKEYS:
    case MST_TCPSTORE_LIST_KEYS:
        list(front, connection, nothing);
        break;
    case MST_TCPSTORE_QUEUE_PUSH:
        mst_tcpstore_queue_push(front, connection, request);
        break;
    case MST_TCPSTORE_QUEUE_POP:
        mst_tcpstore_queue_pop(front, connection, request);
        break;
    case MST_TCPSTORE_QUEUE_LEN:
        mst_tcpstore_queue_length(front, connection, request);
        break;
    case MST_TCPSTORE_VALIDATE:
    case MST_TCPSTORE_PING:
    case MST_TCPSTORE_CANCEL_WAIT:
    case MST_TCPSTORE_OPCODES:
        MST_ASSERT(request->opcode != request->opcode);
    }
}
