/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"
#include "fronts/tcpstore/machine.h"
#include "proto/limit_kinds.h"
#include "proto/status.h"

/* Requests of one connection are done one after the other: each begins when the one before it is
 * answered. Only a wait is held beside them. */

enum { LINE_ROOM = 320 };

/* ---- the end ---- */

static void closed(struct mst_tcpstore *front, struct mst_tcpstore_out *out)
{
    struct mst_tcpstore_connection *connection =
        MST_CONTAINER(out, struct mst_tcpstore_connection, close);

    if (front->spare) {
        mst_mem_release(&front->mem, connection);
    } else {
        *connection = (struct mst_tcpstore_connection){.id = 0};
        front->spare = connection;
    }
}

void mst_tcpstore_close(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection)
{
    mst_tcpstore_wait_end(front, connection);
    mst_tcpstore_work_clear(front, &connection->work);
    mst_tcpstore_found_drop(front, connection);
    if (connection->held) {
        mst_tcpstore_errand_leave(front, connection->held);
        connection->held = NULL;
    }
    if (connection->session) {
        mst_list_remove(&connection->in_session);
        connection->session->count--;
        connection->session = NULL;
    }
    mst_tree_remove(&front->connections, &connection->by_id);
    mst_list_remove(&connection->in_ready);
    mst_list_remove(&connection->in_opening);
    mst_list_remove(&connection->pause.link);
    mst_buffer_fini(&connection->work.names);
    mst_tcpstore_reader_fini(&connection->reader);
    connection->close.drained = closed;
    mst_tcpstore_emit(front, &connection->close, MST_FRONT_CLOSE);
}

void mst_tcpstore_fail(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection,
                       const char *what)
{
    char line[LINE_ROOM];
    struct mst_text text = mst_text_in(line, sizeof(line));

    mst_text_format(&text, "client %" PRIu64, connection->id);
    if (connection->nonce != 0) {
        mst_text_format(&text, " (process %u)", connection->nonce);
    }
    mst_text_format(&text, " is disconnected: %s", what);
    mst_tcpstore_log(front, mst_slice_of(line, text.size));
    mst_tcpstore_close(front, connection);
}

void mst_tcpstore_fail_memory(struct mst_tcpstore *front,
                              struct mst_tcpstore_connection *connection)
{
    mst_tcpstore_fail(front, connection, "out of memory");
}

void mst_tcpstore_fail_reply(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection,
                             const struct mst_reply *reply)
{
    enum mst_tcpstore_opcode opcode = MST_TCPSTORE_WAIT; /* is beside the requests */
    char what[LINE_ROOM / 2];
    struct mst_text text = mst_text_in(what, sizeof(what));

    if (connection->busy) {
        opcode = mst_tcpstore_request_of(connection).opcode;
    } else if (connection->wait.space == MST_TCPSTORE_BARRIERS) {
        opcode = MST_TCPSTORE_BARRIER;
    }
    mst_text_format(&text, "%s: %s", mst_tcpstore_opcode_word(opcode),
                    mst_status_text(reply->status));
    if (reply->status == MUSTER_ELIMIT && reply->has_detail) {
        const struct mst_setting *setting = mst_limit_kind_setting(reply->detail.limit_kind);

        mst_text_format(&text, " (%s: %" PRId64 ")", setting ? setting->name : "at most",
                        reply->detail.limit);
    }
    mst_tcpstore_fail(front, connection, what);
}

/* ---- requests ---- */

void mst_tcpstore_ready(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection)
{
    if (!mst_list_linked(&connection->in_ready)) {
        mst_list_append(&front->ready, &connection->in_ready);
    }
}

struct mst_tcpstore_request mst_tcpstore_request_of(struct mst_tcpstore_connection *connection)
{
    struct mst_tcpstore_request request = {.opcode = MST_TCPSTORE_VALIDATE};
    char why[MST_TCPSTORE_WHY_MAX];

    (void)mst_tcpstore_reader_next(&connection->reader, &request, why);
    return request;
}

void mst_tcpstore_finish(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection)
{
    MST_ASSERT(connection->busy);
    mst_tcpstore_work_clear(front, &connection->work);
    mst_tcpstore_found_drop(front, connection);
    mst_tcpstore_reader_done(&connection->reader);
    connection->busy = false;
    mst_tcpstore_ready(front, connection);
}

/* A connection without memory for its reply is closed. */
void mst_tcpstore_send_byte(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection,
                            unsigned char byte)
{
    if (!mst_tcpstore_send(front, connection, mst_slice_of(&byte, 1), mst_slice_of(NULL, 0))) {
        mst_tcpstore_fail_memory(front, connection);
    }
}

static void ping(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection,
                 const struct mst_tcpstore_request *request)
{
    unsigned char nonce[8];

    connection->nonce = (uint32_t)request->number;
    mst_tcpstore_put_number(nonce, connection->nonce);
    if (mst_tcpstore_send(front, connection, mst_slice_of(nonce, 4), mst_slice_of(NULL, 0))) {
        mst_tcpstore_finish(front, connection);
    } else {
        mst_tcpstore_fail_memory(front, connection);
    }
}

/* The wait is over before the answer: no other follows. */
static void cancel_wait(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection)
{
    const unsigned char cancelled = 1;

    mst_tcpstore_wait_end(front, connection);
    if (mst_tcpstore_send(front, connection, mst_slice_of(&cancelled, 1), mst_slice_of(NULL, 0))) {
        mst_tcpstore_finish(front, connection);
    } else {
        mst_tcpstore_fail_memory(front, connection);
    }
}

/* False: the request waits for its session. */
static bool start(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection,
                  const struct mst_tcpstore_request *request)
{
    struct mst_tcpstore_session *session;

    switch (request->opcode) {
    case MST_TCPSTORE_VALIDATE:
        connection->busy = true;
        mst_list_remove(&connection->in_opening);
        mst_tcpstore_finish(front, connection);
        return true;
    case MST_TCPSTORE_PING:
        connection->busy = true;
        ping(front, connection, request);
        return true;
    case MST_TCPSTORE_CANCEL_WAIT:
        connection->busy = true;
        cancel_wait(front, connection);
        return true;
    default:
        break;
    }
    session = mst_tcpstore_session_of(front, connection);
    if (!session) {
        mst_tcpstore_fail_memory(front, connection);
        return true;
    }
    if (!session->open) {
        return false;
    }
    connection->busy = true;
    mst_tcpstore_begin(front, connection, request);
    return true;
}

/* Bytes of further requests are read as long as there are few. */
static void steer(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection,
                  bool waiting)
{
    size_t size = mst_buffer_content(&connection->reader.in).size;
    bool pause = waiting && size - connection->reader.seen >= MST_TCPSTORE_PAUSE;

    if (pause != connection->paused) {
        connection->paused = pause;
        if (mst_list_linked(&connection->pause.link)) {
            mst_list_remove(&connection->pause.link); /* the other one, which nothing has seen */
        } else {
            mst_tcpstore_emit(front, &connection->pause,
                              pause ? MST_FRONT_PAUSE : MST_FRONT_RESUME);
        }
    }
}

void mst_tcpstore_go_on(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection)
{
    struct mst_tcpstore_request request;
    char why[MST_TCPSTORE_WHY_MAX];
    muster_status status;

    if (connection->busy || connection->backlog > MST_TCPSTORE_BACKLOG_MAX) {
        steer(front, connection, true);
        return;
    }
    status = mst_tcpstore_reader_next(&connection->reader, &request, why);
    if (status == MUSTER_EPROTO) {
        mst_tcpstore_fail(front, connection, why);
    } else if (status == MUSTER_OK) {
        if (!start(front, connection, &request)) {
            steer(front, connection, true);
        }
    } else if (connection->ended) {
        mst_tcpstore_close(front, connection);
    } else {
        steer(front, connection, false);
    }
}
