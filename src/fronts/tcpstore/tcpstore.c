/* SPDX-License-Identifier: Apache-2.0 */
#include "fronts/tcpstore/tcpstore.h"

#include <string.h>

#include "base/text.h"
#include "fronts/tcpstore/machine.h"
#include "proto/status.h"

enum { LINE_ROOM = 400 };

/* ---- effects ---- */

void mst_tcpstore_emit(struct mst_tcpstore *front, struct mst_tcpstore_out *out,
                       enum mst_front_effect_kind kind)
{
    out->effect.kind = kind;
    mst_list_append(&front->effects, &out->link);
}

struct bytes_out {
    struct mst_tcpstore_out out;
    unsigned char bytes[];
};

static void bytes_drained(struct mst_tcpstore *front, struct mst_tcpstore_out *out)
{
    mst_mem_release(&front->mem, MST_CONTAINER(out, struct bytes_out, out));
}

static struct bytes_out *bytes_new(struct mst_tcpstore *front, struct mst_slice first,
                                   struct mst_slice second)
{
    struct bytes_out *made = mst_mem_zalloc(&front->mem, sizeof(*made) + first.size + second.size);

    if (made) {
        if (first.size > 0) {
            memcpy(made->bytes, first.data, first.size);
        }
        if (second.size > 0) {
            memcpy(made->bytes + first.size, second.data, second.size);
        }
        made->out.drained = bytes_drained;
        made->out.effect.bytes = mst_slice_of(made->bytes, first.size + second.size);
    }
    return made;
}

bool mst_tcpstore_send(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection,
                       struct mst_slice first, struct mst_slice second)
{
    struct bytes_out *made = bytes_new(front, first, second);

    if (made) {
        made->out.effect.connection = connection->id;
        mst_tcpstore_emit(front, &made->out, MST_FRONT_SEND);
    }
    return made;
}

/* A line for which there is no memory is not said. */
void mst_tcpstore_log(struct mst_tcpstore *front, struct mst_slice line)
{
    struct bytes_out *made = bytes_new(front, line, mst_slice_of(NULL, 0));

    if (made) {
        mst_tcpstore_emit(front, &made->out, MST_FRONT_LOG);
    }
}

static void release_given(struct mst_tcpstore *front)
{
    struct mst_tcpstore_out *given = front->given;

    front->given = NULL;
    if (given && given->drained) {
        given->drained(front, given);
    }
}

static const struct mst_front_effect *next_effect(void *ctx)
{
    struct mst_tcpstore *front = ctx;
    struct mst_list *node;

    release_given(front);
    node = mst_list_take(&front->effects);
    front->given = MST_CONTAINER_OR_NULL(node, struct mst_tcpstore_out, link);
    return front->given ? &front->given->effect : NULL;
}

/* ---- sessions ---- */

static void session_left(struct mst_tcpstore *front, struct mst_tcpstore_out *out)
{
    mst_mem_release(&front->mem, MST_CONTAINER(out, struct mst_tcpstore_session, out));
}

static struct mst_tcpstore_session *session_with_room(const struct mst_tcpstore *front)
{
    MST_EACH(session, &front->sessions, struct mst_tcpstore_session, link) {
        if (session->count < MST_TCPSTORE_SESSION_CLIENTS) {
            return session;
        }
    }
    return NULL;
}

static struct mst_tcpstore_session *session_new(struct mst_tcpstore *front)
{
    struct mst_tcpstore_session *session = mst_mem_zalloc(&front->mem, sizeof(*session));

    if (session) {
        session->id = ++front->sessions_made;
        session->out.effect.session = session->id;
        session->out.effect.index = MST_FRONT_INDEX_NONE;
        mst_list_init(&session->connections);
        mst_list_append(&front->sessions, &session->link);
        mst_tcpstore_emit(front, &session->out, MST_FRONT_OPEN);
    }
    return session;
}

struct mst_tcpstore_session *mst_tcpstore_session_of(struct mst_tcpstore *front,
                                                     struct mst_tcpstore_connection *connection)
{
    if (!connection->session) {
        struct mst_tcpstore_session *session = session_with_room(front);

        session = session ? session : session_new(front);
        if (!session) {
            return NULL;
        }
        session->count++;
        mst_list_append(&session->connections, &connection->in_session);
        connection->session = session;
    }
    return connection->session;
}

static struct mst_tcpstore_session *session_find(const struct mst_tcpstore *front, uint64_t id)
{
    MST_EACH(session, &front->sessions, struct mst_tcpstore_session, link) {
        if (session->id == id) {
            return session;
        }
    }
    return NULL;
}

static void disconnect_all(struct mst_tcpstore *front, struct mst_tcpstore_session *session)
{
    session->leaving = true;
    while (!mst_list_empty(&session->connections)) {
        mst_tcpstore_close(front, MST_CONTAINER(session->connections.next,
                                                struct mst_tcpstore_connection, in_session));
    }
}

/* `gone`: the driver has ended it. */
static void session_close(struct mst_tcpstore *front, struct mst_tcpstore_session *session,
                          bool gone)
{
    mst_list_remove(&session->link);
    mst_list_remove(&session->out.link);
    if (gone) {
        mst_mem_release(&front->mem, session);
    } else {
        session->out.drained = session_left;
        mst_tcpstore_emit(front, &session->out, MST_FRONT_LEAVE);
    }
}

/* Its clients are disconnected: a client of TCPStore waits for ever for a reply that does not come.
 * The other sessions are those of the same store: it ends with the first of them. */
static void end_all(struct mst_tcpstore *front, const struct mst_tcpstore_session *gone)
{
    MST_EACH(session, &front->sessions, struct mst_tcpstore_session, link) {
        disconnect_all(front, session);
    }
    MST_EACH(errand, &front->errands, struct mst_tcpstore_errand, link) {
        mst_tcpstore_errand_free(front, errand);
    }
    mst_tcpstore_queues_clear(front);
    MST_EACH(session, &front->sessions, struct mst_tcpstore_session, link) {
        session_close(front, session, session == gone);
    }
}

/* ---- inputs ---- */

static struct mst_tcpstore *begin(void *ctx, uint64_t now_ns)
{
    struct mst_tcpstore *front = ctx;

    MST_ASSERT(mst_list_empty(&front->effects));
    release_given(front);
    front->now_ns = mst_later(front->now_ns, now_ns);
    return front;
}

/* A request that ends lets the next one begin. */
static void settle(struct mst_tcpstore *front)
{
    struct mst_list *node;

    while ((node = mst_list_take(&front->ready))) {
        mst_tcpstore_go_on(front, MST_CONTAINER(node, struct mst_tcpstore_connection, in_ready));
    }
}

static struct mst_tcpstore_connection *find(const struct mst_tcpstore *front, uint64_t id)
{
    return MST_CONTAINER_OR_NULL(mst_tree_find(&front->connections, &id),
                                 struct mst_tcpstore_connection, by_id);
}

/* There is always memory for the connection that is refused for lack of it. */
static void on_connected(void *ctx, uint64_t now_ns, uint64_t id)
{
    struct mst_tcpstore *front = begin(ctx, now_ns);
    struct mst_tcpstore_connection *connection = front->spare;

    MST_ASSERT(connection && !find(front, id));
    front->spare = mst_mem_zalloc(&front->mem, sizeof(*front->spare));
    connection->id = id;
    connection->close.effect.connection = id;
    connection->pause.effect.connection = id;
    mst_tcpstore_reader_init(&connection->reader, front->config.limits.value_bytes_max,
                             &front->mem);
    mst_list_init(&connection->work.calls);
    mst_list_init(&connection->wait.calls);
    mst_buffer_init(&connection->work.names, &front->mem, MST_TCPSTORE_REQUEST_MAX);
    MST_ASSERT(mst_tree_insert(&front->connections, &id, &connection->by_id));
    connection->until_ns = mst_after_ms(front->now_ns, (uint64_t)MST_TCPSTORE_OPENING_MS);
    mst_list_append(&front->opening, &connection->in_opening);
    if (!front->spare) {
        mst_tcpstore_fail_memory(front, connection);
    }
}

static void on_received(void *ctx, uint64_t now_ns, uint64_t id, struct mst_slice bytes)
{
    struct mst_tcpstore *front = begin(ctx, now_ns);
    struct mst_tcpstore_connection *connection = find(front, id);

    if (!connection || connection->ended) {
        return;
    }
    switch (mst_tcpstore_reader_take(&connection->reader, bytes)) {
    case MUSTER_OK:
        mst_tcpstore_ready(front, connection);
        break;
    case MUSTER_ELIMIT:
        mst_tcpstore_fail(front, connection, "its request has more than 64 MiB");
        break;
    default:
        mst_tcpstore_fail_memory(front, connection);
    }
    settle(front);
}

/* What it sent before is still done. */
static void on_closed(void *ctx, uint64_t now_ns, uint64_t id)
{
    struct mst_tcpstore *front = begin(ctx, now_ns);
    struct mst_tcpstore_connection *connection = find(front, id);

    if (connection) {
        connection->ended = true;
        mst_tcpstore_ready(front, connection);
        settle(front);
    }
}

static void on_written(void *ctx, uint64_t now_ns, uint64_t id, size_t backlog)
{
    struct mst_tcpstore *front = begin(ctx, now_ns);
    struct mst_tcpstore_connection *connection = find(front, id);

    if (connection) {
        connection->backlog = backlog;
        mst_tcpstore_ready(front, connection);
        settle(front);
    }
}

static void on_opened(void *ctx, uint64_t now_ns, uint64_t id, uint64_t generation)
{
    struct mst_tcpstore *front = begin(ctx, now_ns);
    struct mst_tcpstore_session *session = session_find(front, id);

    if (!session) {
        return;
    }
    session->open = true;
    session->generation = generation;
    if (mst_list_empty(&front->following) && front->follow.again_ns == NEVER) {
        mst_tcpstore_queues_follow(front);
    }
    MST_EACH(connection, &session->connections, struct mst_tcpstore_connection, in_session) {
        mst_tcpstore_ready(front, connection);
    }
    settle(front);
}

static void on_reply(void *ctx, uint64_t now_ns, uint64_t session, uint64_t tag,
                     const struct mst_reply *reply)
{
    struct mst_tcpstore *front = begin(ctx, now_ns);

    (void)session;
    mst_tcpstore_reply(front, tag, reply);
    settle(front);
}

static void on_ended(void *ctx, uint64_t now_ns, uint64_t id, muster_status status,
                     struct mst_slice text)
{
    struct mst_tcpstore *front = begin(ctx, now_ns);
    struct mst_tcpstore_session *session = session_find(front, id);
    char line[LINE_ROOM];

    if (!session) {
        return;
    }
    mst_tcpstore_log(
        front, mst_slice_of(line, mst_text_print(line, sizeof(line),
                                                 "the store is over: %s%s%.*s; its clients "
                                                 "are disconnected, and may connect again",
                                                 mst_status_text(status), text.size > 0 ? ": " : "",
                                                 MST_SLICE_ARGS(text))));
    end_all(front, session);
}

static void on_dead(void *ctx, uint64_t now_ns, uint32_t index, struct mst_slice text)
{
    (void)begin(ctx, now_ns); /* its connections end, and what it wrote stays */
    (void)index;
    (void)text;
}

static void on_notice(void *ctx, uint64_t now_ns, struct mst_slice text)
{
    (void)begin(ctx, now_ns); /* the protocol has no notices */
    (void)text;
}

/* ---- time ---- */

static void end_openings(struct mst_tcpstore *front)
{
    MST_EACH(connection, &front->opening, struct mst_tcpstore_connection, in_opening) {
        if (connection->until_ns > front->now_ns) {
            return;
        }
        mst_tcpstore_fail(front, connection,
                          "it has not said within 10 s that it is a TCPStore client");
    }
}

static void end_reservations(struct mst_tcpstore *front)
{
    MST_EACH(errand, &front->errands, struct mst_tcpstore_errand, link) {
        if (errand->held && errand->connection && errand->until_ns <= front->now_ns) {
            errand->connection->held = NULL;
            mst_tcpstore_errand_leave(front, errand);
        }
    }
}

static void on_tick(void *ctx, uint64_t now_ns)
{
    struct mst_tcpstore *front = begin(ctx, now_ns);

    end_openings(front);
    end_reservations(front);
    mst_tcpstore_found_expire(front);
    mst_tcpstore_waits_tell(front);
    if (front->follow.again_ns <= front->now_ns) {
        mst_tcpstore_queues_follow(front);
    }
    settle(front);
}

static uint64_t deadline(const void *ctx)
{
    const struct mst_tcpstore *front = ctx;
    uint64_t soonest = mst_sooner(front->follow.again_ns, mst_tcpstore_waits_deadline_ns(front));

    soonest = mst_sooner(soonest, mst_tcpstore_found_deadline_ns(front));

    if (!mst_list_empty(&front->opening)) {
        soonest = mst_sooner(
            soonest, MST_CONTAINER(front->opening.next, struct mst_tcpstore_connection, in_opening)
                         ->until_ns);
    }
    MST_EACH(errand, &front->errands, const struct mst_tcpstore_errand, link) {
        soonest =
            errand->held && errand->connection ? mst_sooner(soonest, errand->until_ns) : soonest;
    }
    return soonest;
}

/* ---- ---- */

static int connection_order(const void *key, const struct mst_tree_node *node)
{
    return mst_tree_compare(*(const uint64_t *)key,
                            MST_CONTAINER_CONST(node, struct mst_tcpstore_connection, by_id)->id);
}

static int call_order(const void *key, const struct mst_tree_node *node)
{
    const struct mst_tcpstore_call *call =
        MST_CONTAINER_CONST(node, struct mst_tcpstore_call, by_tag);

    return mst_tree_compare(*(const uint64_t *)key, call->out.effect.tag);
}

static void set_prefixes(struct mst_tcpstore *front)
{
    static const char *const words[MST_TCPSTORE_SPACES] = {[MST_TCPSTORE_KEYS] = "keys",
                                                           [MST_TCPSTORE_QUEUES] = "queues",
                                                           [MST_TCPSTORE_ITEMS] = "items",
                                                           [MST_TCPSTORE_BARRIERS] = "barriers"};

    for (size_t i = 0; i < MST_TCPSTORE_SPACES; i++) {
        (void)mst_text_print(front->prefix[i], sizeof(front->prefix[i]), "tcpstore/%u/%s/",
                             front->config.attempt, words[i]);
    }
}

static void front_free(void *ctx)
{
    struct mst_tcpstore *front = ctx;
    struct mst_mem mem;

    if (!front) {
        return;
    }
    end_all(front, NULL);
    while (front->connections.root) {
        mst_tcpstore_close(front, MST_CONTAINER(mst_tree_first(&front->connections),
                                                struct mst_tcpstore_connection, by_id));
    }
    while (next_effect(front)) {
    }
    mem = front->mem;
    mst_mem_release(&mem, front->spare);
    mst_mem_release(&mem, front);
}

static muster_status front_new(void **out, const struct mst_front_config *config,
                               const struct mst_mem *mem)
{
    struct mst_tcpstore *front = mst_mem_zalloc(mem, sizeof(*front));

    if (!front) {
        return MUSTER_ENOMEM;
    }
    front->mem = *mem;
    front->config = *config;
    mst_list_init(&front->sessions);
    mst_list_init(&front->effects);
    mst_list_init(&front->ready);
    mst_list_init(&front->opening);
    mst_list_init(&front->waits);
    mst_list_init(&front->recent);
    mst_list_init(&front->hidden);
    mst_list_init(&front->errands);
    mst_list_init(&front->found);
    mst_list_init(&front->following);
    mst_tree_init(&front->connections, connection_order);
    mst_tree_init(&front->calls, call_order);
    mst_tree_init(&front->queues, mst_tcpstore_queue_order);
    set_prefixes(front);
    mst_tcpstore_queues_clear(front);
    front->spare = mst_mem_zalloc(mem, sizeof(*front->spare));
    if (!front->spare) {
        mst_mem_release(mem, front);
        return MUSTER_ENOMEM;
    }
    *out = front;
    return MUSTER_OK;
}

static void check(const void *ctx)
{
    const struct mst_tcpstore *front = ctx;
    size_t in_sessions = 0;

    MST_EACH(session, &front->sessions, const struct mst_tcpstore_session, link) {
        uint32_t count = 0;

        MST_EACH(connection, &session->connections, const struct mst_tcpstore_connection,
                 in_session) {
            MST_ASSERT(connection->session == session);
            count++;
        }
        MST_ASSERT(count == session->count && count <= MST_TCPSTORE_SESSION_CLIENTS);
        in_sessions += count;
    }
    MST_TREE_EACH(connection, &front->connections, const struct mst_tcpstore_connection, by_id) {
        in_sessions -= connection->session != NULL;
        MST_ASSERT(mst_list_linked(&connection->in_opening) == !connection->reader.greeted);
        MST_ASSERT(connection->busy || mst_list_empty(&connection->work.calls));
        MST_ASSERT(mst_list_linked(&connection->wait.link) == (connection->wait.keys != NULL));
        MST_ASSERT(!connection->held || connection->held->connection == connection);
        MST_ASSERT(mst_list_linked(&connection->found.link) == (connection->found.key != NULL));
    }
    MST_ASSERT(in_sessions == 0);
    MST_EACH(errand, &front->errands, const struct mst_tcpstore_errand, link) {
        MST_ASSERT(errand->held == mst_list_empty(&errand->calls));
    }
}

const struct mst_front mst_tcpstore_front = {
    .name = "tcpstore",
    .new = front_new,
    .free = front_free,
    .connected = on_connected,
    .received = on_received,
    .closed = on_closed,
    .written = on_written,
    .opened = on_opened,
    .reply = on_reply,
    .ended = on_ended,
    .dead = on_dead,
    .notice = on_notice,
    .waits = mst_tcpstore_waits,
    .tick = on_tick,
    .deadline_ns = deadline,
    .next = next_effect,
    .check = check,
};
