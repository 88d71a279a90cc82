/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"
#include "fronts/tcpstore/machine.h"

/* A wait is held beside the connection's requests, and answered once. Its keys are waited for at
 * the service in groups, so that the bound on what one session waits for is not reached by few
 * clients. A name that is a queue with items counts as there, as the watch of the queues shows it.
 */

enum { WHAT_ROOM = 256 };

static void wait_on(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection);

/* Whether `waits` has it. */
static bool is_shown(const struct mst_tcpstore_wait *wait)
{
    return mst_list_linked(&wait->link) && !mst_list_linked(&wait->in_hidden);
}

static void waits_changed(struct mst_tcpstore *front)
{
    if (!mst_list_linked(&front->waits_changed.link)) {
        mst_tcpstore_emit(front, &front->waits_changed, MST_FRONT_WAITS);
    }
}

void mst_tcpstore_wait_end(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection)
{
    struct mst_tcpstore_wait *wait = &connection->wait;

    mst_tcpstore_drop_calls(front, &wait->calls);
    if (is_shown(wait)) {
        waits_changed(front);
    }
    mst_list_remove(&wait->link);
    mst_list_remove(&wait->in_recent);
    mst_list_remove(&wait->in_hidden);
    mst_blob_drop(&front->mem, wait->keys);
    if (wait->grab) {
        mst_tcpstore_errand_leave(front, wait->grab);
    }
    *wait = (struct mst_tcpstore_wait){.count = 0};
    mst_list_init(&wait->calls);
}

void mst_tcpstore_wait_answer(struct mst_tcpstore *front,
                              struct mst_tcpstore_connection *connection)
{
    mst_tcpstore_wait_end(front, connection);
    mst_tcpstore_send_byte(front, connection, 0);
}

bool mst_tcpstore_wait_is_for(const struct mst_tcpstore_wait *wait, struct mst_slice key)
{
    struct mst_slice list = mst_blob_slice(wait->keys);

    return wait->space == MST_TCPSTORE_KEYS && wait->count == 1 &&
           mst_slice_equal(mst_tcpstore_item(&list), key);
}

/* ---- the value of a key that was waited for ---- */

void mst_tcpstore_found_drop(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection)
{
    struct mst_tcpstore_found *found = &connection->found;

    mst_list_remove(&found->link);
    mst_blob_drop(&front->mem, found->key);
    mst_blob_drop(&front->mem, found->value);
    *found = (struct mst_tcpstore_found){.until_ns = 0};
}

/* Without memory the GET reads it once more. */
static void keep_found(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection,
                       struct mst_slice value)
{
    struct mst_tcpstore_found *found = &connection->found;

    mst_tcpstore_found_drop(front, connection);
    found->value = mst_blob_new(&front->mem, value);
    if (found->value) {
        found->key = mst_blob_keep(connection->wait.keys);
        found->until_ns = mst_after_ms(front->now_ns, (uint64_t)MST_TCPSTORE_RESERVED_MS);
        mst_list_append(&front->found, &found->link);
    }
}

bool mst_tcpstore_found_is_for(const struct mst_tcpstore_connection *connection,
                               const struct mst_tcpstore_request *request)
{
    return connection->found.key && request->opcode == MST_TCPSTORE_GET &&
           mst_slice_equal(request->list, mst_blob_slice(connection->found.key));
}

static struct mst_tcpstore_connection *first_found(const struct mst_tcpstore *front)
{
    return mst_list_empty(&front->found)
               ? NULL
               : MST_CONTAINER(front->found.next, struct mst_tcpstore_connection, found.link);
}

uint64_t mst_tcpstore_found_deadline_ns(const struct mst_tcpstore *front)
{
    const struct mst_tcpstore_connection *first = first_found(front);

    return first ? first->found.until_ns : NEVER;
}

void mst_tcpstore_found_expire(struct mst_tcpstore *front)
{
    while (mst_tcpstore_found_deadline_ns(front) <= front->now_ns) {
        mst_tcpstore_found_drop(front, first_found(front));
    }
}

/* ---- at the service ---- */

static void on_came(struct mst_tcpstore *front, struct mst_tcpstore_call *call,
                    const struct mst_reply *reply)
{
    struct mst_tcpstore_connection *connection = call->owner;
    struct mst_tcpstore_wait *wait = &connection->wait;

    if (reply->status != MUSTER_OK) {
        mst_tcpstore_fail_reply(front, connection, reply);
        return;
    }
    if (reply->command == MST_GET) {
        keep_found(front, connection, reply->value);
    }
    for (uint32_t i = 0; i < wait->chunk_count; i++) {
        (void)mst_tcpstore_item(&wait->chunk);
    }
    wait->left -= wait->chunk_count;
    wait->chunk_count = 0;
    wait->crossed = 0;
    wait_on(front, connection);
}

/* The keys of the group that are not crossed off; their number. */
static uint32_t keys_left(const struct mst_tcpstore_wait *wait, size_t *names_out)
{
    struct mst_slice list = wait->chunk;
    uint32_t count = 0;

    *names_out = 0;
    for (uint32_t i = 0; i < wait->chunk_count; i++) {
        struct mst_slice key = mst_tcpstore_item(&list);

        if ((wait->crossed >> i & 1) == 0) {
            *names_out += mst_tcpstore_name_size(key);
            count++;
        }
    }
    return count;
}

/* False: no memory. */
static bool ask(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection,
                uint32_t count, size_t names)
{
    struct mst_tcpstore_wait *wait = &connection->wait;
    struct mst_slice list = wait->chunk;
    struct mst_tcpstore_call *call =
        mst_tcpstore_call_new(front, count * sizeof(struct mst_slice) + names);
    struct mst_request *request;
    struct mst_slice *keys;

    if (!call) {
        return false;
    }
    request = &call->request;
    keys = mst_tcpstore_room(call, count * sizeof(*keys));
    for (uint32_t i = 0, made = 0; i < wait->chunk_count; i++) {
        struct mst_slice key = mst_tcpstore_item(&list);

        if ((wait->crossed >> i & 1) == 0) {
            keys[made++] = mst_tcpstore_name(front, call, wait->space, key, 0);
        }
    }
    if (wait->count == 1 && wait->space == MST_TCPSTORE_KEYS) {
        request->command = MST_GET;
        request->get.key = keys[0];
        request->get.wait = true;
    } else {
        request->command = MST_WAIT;
        request->wait.keys = keys;
        request->wait.count = count;
    }
    mst_tcpstore_post(front, call, connection->session, &wait->calls, on_came, connection);
    return true;
}

/* Of several keys those that are queues. */
static void cross_queues(const struct mst_tcpstore *front, struct mst_tcpstore_wait *wait)
{
    struct mst_slice list = wait->chunk;

    for (uint32_t i = 0; front->queues.count > 0 && i < wait->chunk_count; i++) {
        if (mst_tcpstore_queue_find(front, mst_tcpstore_item(&list))) {
            wait->crossed |= UINT64_C(1) << i;
        }
    }
}

static void wait_on(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection)
{
    struct mst_tcpstore_wait *wait = &connection->wait;
    uint32_t count = 0;
    size_t names;

    while (count == 0) {
        for (uint32_t i = 0; i < wait->chunk_count; i++) {
            (void)mst_tcpstore_item(&wait->chunk);
        }
        wait->left -= wait->chunk_count;
        if (wait->left == 0) {
            mst_tcpstore_wait_answer(front, connection);
            return;
        }
        wait->chunk_count =
            wait->left < MST_TCPSTORE_CHUNK ? (uint32_t)wait->left : MST_TCPSTORE_CHUNK;
        wait->crossed = 0;
        if (wait->count > 1 && wait->space == MST_TCPSTORE_KEYS) {
            cross_queues(front, wait);
        }
        count = keys_left(wait, &names);
    }
    if (!ask(front, connection, count, names)) {
        mst_tcpstore_fail_memory(front, connection);
    }
}

void mst_tcpstore_wait_cross(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection,
                             struct mst_slice key)
{
    struct mst_tcpstore_wait *wait = &connection->wait;
    uint64_t before = wait->crossed;
    struct mst_slice list = wait->chunk;
    uint32_t count;
    size_t names;

    if (wait->count < 2 || wait->space != MST_TCPSTORE_KEYS) {
        return;
    }
    for (uint32_t i = 0; i < wait->chunk_count; i++) {
        if (mst_slice_equal(mst_tcpstore_item(&list), key)) {
            wait->crossed |= UINT64_C(1) << i;
        }
    }
    if (wait->crossed == before) {
        return;
    }
    mst_tcpstore_drop_calls(front, &wait->calls);
    count = keys_left(wait, &names);
    if (count == 0) {
        wait_on(front, connection);
    } else if (!ask(front, connection, count, names)) {
        mst_tcpstore_fail_memory(front, connection);
    }
}

void mst_tcpstore_wait_begin(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection,
                             enum mst_tcpstore_space space, struct mst_slice keys, uint64_t count)
{
    struct mst_tcpstore_wait *wait = &connection->wait;
    struct mst_blob *copy = mst_blob_new(&front->mem, keys);

    mst_tcpstore_wait_end(front, connection);
    if (!copy) {
        mst_tcpstore_fail_memory(front, connection);
        return;
    }
    wait->space = space;
    wait->keys = copy;
    wait->count = count;
    wait->left = count;
    wait->chunk = mst_blob_slice(copy);
    wait->since_ns = front->now_ns;
    mst_list_append(&front->waits, &wait->link);
    mst_list_append(&front->recent, &wait->in_recent);
    mst_list_append(&front->hidden, &wait->in_hidden);
    mst_tcpstore_finish(front, connection);
    wait_on(front, connection);
    if (mst_list_linked(&wait->link) && count == 1 && space == MST_TCPSTORE_KEYS) {
        struct mst_slice list = mst_blob_slice(copy);

        mst_tcpstore_queue_serve(front, mst_tcpstore_item(&list));
    }
}

/* ---- long waits ---- */

static const struct mst_tcpstore_connection *waiter(const struct mst_tcpstore_wait *wait)
{
    return MST_CONTAINER_CONST(wait, struct mst_tcpstore_connection, wait);
}

static struct mst_tcpstore_wait *first_recent(const struct mst_tcpstore *front)
{
    return mst_list_empty(&front->recent)
               ? NULL
               : MST_CONTAINER(front->recent.next, struct mst_tcpstore_wait, in_recent);
}

static struct mst_tcpstore_wait *first_hidden(const struct mst_tcpstore *front)
{
    return mst_list_empty(&front->hidden)
               ? NULL
               : MST_CONTAINER(front->hidden.next, struct mst_tcpstore_wait, in_hidden);
}

static uint64_t due_ns(const struct mst_tcpstore_wait *wait, uint64_t after_ms)
{
    return wait ? mst_after_ms(wait->since_ns, after_ms) : NEVER;
}

uint64_t mst_tcpstore_waits_deadline_ns(const struct mst_tcpstore *front)
{
    return mst_sooner(due_ns(first_hidden(front), MST_TCPSTORE_SHOWN_MS),
                      due_ns(first_recent(front), MST_TCPSTORE_LONG_MS));
}

static struct mst_slice what_of(const struct mst_tcpstore_wait *wait, char room[WHAT_ROOM])
{
    struct mst_slice list = wait->chunk;
    struct mst_slice key = mst_tcpstore_item(&list);
    struct mst_text text = mst_text_in(room, WHAT_ROOM);

    mst_text_format(&text, "%s '%.*s'",
                    wait->space == MST_TCPSTORE_BARRIERS ? "at the barrier" : "for the key",
                    MST_SLICE_ARGS(key));
    if (wait->left > 1) {
        mst_text_format(&text, " and %" PRIu64 " more", wait->left - 1);
    }
    return mst_slice_of(room, text.size);
}

void mst_tcpstore_waits(const void *ctx, void (*each)(void *ctx, const struct mst_front_wait *wait),
                        void *each_ctx)
{
    const struct mst_tcpstore *front = ctx;

    MST_EACH(wait, &front->waits, const struct mst_tcpstore_wait, link) {
        if (is_shown(wait)) {
            char room[WHAT_ROOM];
            const struct mst_front_wait shown = {.pid = waiter(wait)->nonce,
                                                 .since_ns = wait->since_ns,
                                                 .what = what_of(wait, room)};

            each(each_ctx, &shown);
        }
    }
}

static void tell(struct mst_tcpstore *front, const struct mst_tcpstore_wait *wait, unsigned others)
{
    char line[WHAT_ROOM + 100], room[WHAT_ROOM];
    struct mst_slice what = what_of(wait, room);
    struct mst_text text = mst_text_in(line, sizeof(line));

    mst_text_format(&text, "process %u has waited 30 s %.*s", waiter(wait)->nonce,
                    MST_SLICE_ARGS(what));
    if (others > 0) {
        mst_text_format(&text, "; %u other client%s as long", others,
                        others == 1 ? " has waited" : "s have waited");
    }
    mst_tcpstore_log(front, mst_slice_of(line, text.size));
}

void mst_tcpstore_waits_tell(struct mst_tcpstore *front)
{
    struct mst_tcpstore_wait *first = first_recent(front);
    unsigned count = 0;

    while (due_ns(first_hidden(front), MST_TCPSTORE_SHOWN_MS) <= front->now_ns) {
        mst_list_remove(&first_hidden(front)->in_hidden);
        waits_changed(front);
    }
    while (due_ns(first_recent(front), MST_TCPSTORE_LONG_MS) <= front->now_ns) {
        mst_list_remove(&first_recent(front)->in_recent);
        count++;
    }
    if (count > 0) {
        tell(front, first, count - 1);
    }
}
