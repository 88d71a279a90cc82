/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2, by nghttp2: bytes to calls, and answers to bytes. */
#include "fronts/xla/machine.h"

enum {
    CHUNK = 65536,       /* output is given in pieces of at most this many bytes... */
    FRAME_MOST = 20000,  /* ...and a frame begins where this many still fit */
    BURST_MAX = 4 << 20, /* of one connection, until the driver has said how much waits */
    RESETS = 1 << 30     /* streams that may be reset at once: they cost no more than others */
};

static struct mst_slice bytes_of(const uint8_t *bytes, size_t size)
{
    return mst_slice_of(bytes, size);
}

void mst_xla_connection_touch(struct mst_xla_connection *connection)
{
    if (!connection->closed && !mst_list_linked(&connection->dirty)) {
        mst_list_append(&connection->front->dirty, &connection->dirty);
    }
}

/* ---- input ---- */

static int on_begin(nghttp2_session *h2, const nghttp2_frame *frame, void *context)
{
    struct mst_xla_connection *connection = context;
    const struct mst_mem *mem = &connection->front->mem;
    struct mst_xla_call *call;

    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST) {
        return 0;
    }
    call = mst_mem_zalloc(mem, sizeof *call);
    if (!call) {
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    call->connection = connection;
    call->stream = frame->hd.stream_id;
    call->method = MST_XLA_METHODS;
    mst_list_append(&connection->calls, &call->in_connection);
    connection->call_count++;
    return nghttp2_session_set_stream_user_data(h2, call->stream, call);
}

static int on_header(nghttp2_session *h2, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_size, const uint8_t *value, size_t value_size, uint8_t flags,
                     void *context)
{
    struct mst_xla_call *call = nghttp2_session_get_stream_user_data(h2, frame->hd.stream_id);

    (void)flags;
    (void)context;
    if (!call) {
        return 0;
    }
    call->header_bytes += (uint32_t)(name_size + value_size);
    if (call->header_bytes > MST_XLA_HEADERS_MAX) {
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* the stream is reset */
    }
    mst_xla_call_header(call, bytes_of(name, name_size), bytes_of(value, value_size));
    return 0;
}

static int on_data(nghttp2_session *h2, uint8_t flags, int32_t stream, const uint8_t *data,
                   size_t size, void *context)
{
    struct mst_xla_call *call = nghttp2_session_get_stream_user_data(h2, stream);

    (void)flags;
    (void)context;
    if (call && !call->answered) {
        mst_xla_call_data(call, bytes_of(data, size));
    }
    return 0;
}

static int on_frame(nghttp2_session *h2, const nghttp2_frame *frame, void *context)
{
    struct mst_xla_call *call;

    (void)context;
    if ((frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
        call = nghttp2_session_get_stream_user_data(h2, frame->hd.stream_id);
        if (call) {
            call->whole = true;
        }
        if (call && !call->answered) {
            mst_xla_call_whole(call);
        }
    }
    return 0;
}

static int on_close(nghttp2_session *h2, int32_t stream, uint32_t code, void *context)
{
    struct mst_xla_call *call = nghttp2_session_get_stream_user_data(h2, stream);

    (void)code;
    (void)context;
    if (call) {
        mst_xla_call_free(call);
    }
    return 0;
}

/* ---- output ---- */

/* A request that was refused before it was whole: no more of it is wanted. */
static int on_sent(nghttp2_session *h2, const nghttp2_frame *frame, void *context)
{
    const struct mst_xla_call *call;

    (void)context;
    if (frame->hd.type == NGHTTP2_HEADERS && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
        call = nghttp2_session_get_stream_user_data(h2, frame->hd.stream_id);
        if (call && !call->whole) {
            return nghttp2_submit_rst_stream(h2, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                                             NGHTTP2_NO_ERROR);
        }
    }
    return 0;
}

static nghttp2_nv header(const char *name, struct mst_slice value, uint8_t flags)
{
    nghttp2_nv pair = {.namelen = strlen(name),
                       .valuelen = value.size,
                       .flags = (uint8_t)(NGHTTP2_NV_FLAG_NO_COPY_NAME | flags)};

    /* nghttp2's pointers are not const, and it does not write there. */
    memcpy(&pair.name, &name, sizeof name);
    memcpy(&pair.value, &value.data, sizeof value.data);
    return pair;
}

static nghttp2_nv constant(const char *name, const char *value)
{
    return header(name, mst_slice_text(value), NGHTTP2_NV_FLAG_NO_COPY_VALUE);
}

static ssize_t read_reply(nghttp2_session *h2, int32_t stream, uint8_t *room, size_t size,
                          uint32_t *flags, nghttp2_data_source *source, void *context)
{
    struct mst_xla_call *call = source->ptr;
    size_t left = call->size - call->sent;

    (void)context;
    size = size < left ? size : left;
    if (size > 0) {
        memcpy(room, call->bytes + call->sent, size);
    }
    call->sent += size;
    if (call->sent == call->size) {
        nghttp2_nv trailer = constant("grpc-status", "0");

        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        if (nghttp2_submit_trailer(h2, stream, &trailer, 1) != 0) {
            return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        }
    }
    return (ssize_t)size;
}

/* nghttp2 has no memory for an answer: without it the client would wait forever. */
static void submitted(struct mst_xla_call *call, int status)
{
    if (status != 0) {
        call->connection->ending = true;
    }
    mst_xla_connection_touch(call->connection);
}

void mst_xla_submit_reply(struct mst_xla_call *call)
{
    nghttp2_nv headers[] = {constant(":status", "200"),
                            constant("content-type", "application/grpc")};
    nghttp2_data_provider provider = {.source.ptr = call, .read_callback = read_reply};

    submitted(call, nghttp2_submit_response(call->connection->h2, call->stream, headers,
                                            sizeof headers / sizeof headers[0], &provider));
}

void mst_xla_submit_error(struct mst_xla_call *call, enum mst_xla_code code, struct mst_slice text,
                          struct mst_slice details, const char *encodings)
{
    static const char *const codes[] = {"0", "1",  "2",  "3",  "4",  "5",  "6",  "7", "8",
                                        "9", "10", "11", "12", "13", "14", "15", "16"};
    nghttp2_nv headers[6];
    size_t count = 0;

    headers[count++] = constant(":status", call->bad_method ? "405"
                                           : call->bad_type ? "415"
                                                            : "200");
    headers[count++] = constant("content-type", "application/grpc");
    headers[count++] = constant("grpc-status", codes[code]);
    headers[count++] = header("grpc-message", text, 0);
    if (details.size > 0) {
        headers[count++] = header("grpc-status-details-bin", details, 0);
    }
    if (encodings) {
        headers[count++] = constant("grpc-accept-encoding", encodings);
    }
    submitted(call,
              nghttp2_submit_response(call->connection->h2, call->stream, headers, count, NULL));
}

struct mst_slice mst_xla_connection_output(struct mst_xla_connection *connection)
{
    struct mst_xla *front = connection->front;
    size_t size = 0;

    if (connection->paused || connection->burst > BURST_MAX) {
        return mst_slice_of(NULL, 0);
    }
    while (size + FRAME_MOST <= CHUNK) {
        const uint8_t *bytes;
        ssize_t got = nghttp2_session_mem_send(connection->h2, &bytes);

        if (got <= 0) {
            connection->ending = connection->ending || got < 0 ||
                                 (!nghttp2_session_want_read(connection->h2) &&
                                  !nghttp2_session_want_write(connection->h2));
            break;
        }
        if ((size_t)got > CHUNK - size) { /* no frame of ours is so large */
            connection->ending = true;
            break;
        }
        memcpy(front->chunk + size, bytes, (size_t)got);
        size += (size_t)got;
    }
    connection->burst += size;
    return mst_slice_of(front->chunk, size);
}

bool mst_xla_connection_bursts(const struct mst_xla_connection *connection)
{
    return connection->burst > BURST_MAX;
}

/* ---- its life ---- */

muster_status mst_xla_callbacks_new(struct mst_xla *front)
{
    front->chunk = front->mem.alloc(front->mem.ctx, CHUNK);
    if (!front->chunk || nghttp2_session_callbacks_new(&front->callbacks) != 0 ||
        nghttp2_option_new(&front->option) != 0) {
        return MUSTER_ENOMEM;
    }
    nghttp2_session_callbacks_set_on_begin_headers_callback(front->callbacks, on_begin);
    nghttp2_session_callbacks_set_on_header_callback(front->callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(front->callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(front->callbacks, on_frame);
    nghttp2_session_callbacks_set_on_frame_send_callback(front->callbacks, on_sent);
    nghttp2_session_callbacks_set_on_stream_close_callback(front->callbacks, on_close);
    nghttp2_option_set_no_closed_streams(front->option, 1);
    /* It would read a clock to count them. */
    nghttp2_option_set_stream_reset_rate_limit(front->option, RESETS, RESETS);
    return MUSTER_OK;
}

static muster_status greet(struct mst_xla_connection *connection)
{
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, MST_XLA_STREAMS_MAX},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, MST_XLA_WINDOW},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, MST_XLA_HEADERS_MAX},
    };

    if (nghttp2_submit_settings(connection->h2, NGHTTP2_FLAG_NONE, settings,
                                sizeof settings / sizeof settings[0]) != 0 ||
        nghttp2_session_set_local_window_size(connection->h2, NGHTTP2_FLAG_NONE, 0,
                                              MST_XLA_WINDOW_ALL) != 0) {
        return MUSTER_ENOMEM;
    }
    return MUSTER_OK;
}

muster_status mst_xla_connection_new(struct mst_xla *front, uint64_t id)
{
    struct mst_xla_connection *connection = mst_mem_zalloc(&front->mem, sizeof *connection);

    if (!connection) {
        return MUSTER_ENOMEM;
    }
    connection->front = front;
    connection->id = id;
    mst_list_init(&connection->calls);
    if (!mst_tree_insert(&front->connections, &id, &connection->by_id)) {
        mst_mem_release(&front->mem, connection);
        return MUSTER_EINVAL;
    }
    if (nghttp2_session_server_new3(&connection->h2, front->callbacks, connection, front->option,
                                    &front->h2_mem) != 0 ||
        greet(connection) != MUSTER_OK) {
        mst_xla_connection_free(connection);
        return MUSTER_ENOMEM;
    }
    mst_xla_connection_touch(connection);
    return MUSTER_OK;
}

void mst_xla_connection_free(struct mst_xla_connection *connection)
{
    struct mst_xla *front = connection->front;

    connection->closed = true;
    mst_list_remove(&connection->dirty);
    MST_EACH(call, &connection->calls, struct mst_xla_call, in_connection) {
        mst_xla_call_free(call);
    }
    MST_TREE_EACH(task, &front->tasks, struct mst_xla_task, by_index) {
        mst_xla_task_unconnected(task, connection);
    }
    mst_tree_remove(&front->connections, &connection->by_id);
    nghttp2_session_del(connection->h2);
    mst_list_remove(&connection->pause.queue);
    mst_mem_release(&front->mem, connection);
}

/* Bytes that are no HTTP/2 end it, as does a lack of memory. */
void mst_xla_connection_received(struct mst_xla_connection *connection, struct mst_slice bytes)
{
    ssize_t taken;

    if (connection->ending || bytes.size == 0) {
        return;
    }
    taken = nghttp2_session_mem_recv(connection->h2, bytes.data, bytes.size);
    connection->ending = taken != (ssize_t)bytes.size;
    mst_xla_connection_touch(connection);
}

static void pause_reading(struct mst_xla_connection *connection, bool pauses)
{
    connection->paused = pauses;
    connection->pause.out.connection = connection->id;
    mst_xla_emit(connection->front, &connection->pause,
                 pauses ? MST_FRONT_PAUSE : MST_FRONT_RESUME);
}

void mst_xla_connection_written(struct mst_xla_connection *connection, size_t backlog)
{
    connection->backlog = backlog;
    connection->burst = 0;
    if (!connection->paused && backlog > MST_XLA_BACKLOG_MAX) {
        pause_reading(connection, true);
    } else if (connection->paused && backlog <= MST_XLA_BACKLOG_MAX / 2) {
        pause_reading(connection, false);
    }
    mst_xla_connection_touch(connection);
}
