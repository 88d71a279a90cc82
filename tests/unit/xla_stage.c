/* SPDX-License-Identifier: Apache-2.0 */
#include "xla_stage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/panic.h"
#include "base/time.h"
#include "proto/protobuf.h"

struct stage_post {
    struct stage_post *next;
    uint32_t client;
    uint64_t id;
    uint32_t front;
    uint64_t session, tag;
    bool dropped;
};

struct stage_reply {
    struct stage_reply *next;
    uint32_t client;
    struct mst_reply *reply;
};

/* ---- the service's side ---- */

static void replied(void *ctx, uint32_t client, const struct mst_reply *reply)
{
    struct stage *stage = ctx;
    struct stage_reply *kept = malloc(sizeof *kept);

    assert_non_null(kept);
    *kept = (struct stage_reply){.client = client, .reply = core_reply_copy(reply)};
    *stage->last_reply = kept;
    stage->last_reply = &kept->next;
}

struct stage_session *stage_session(struct stage *stage, uint32_t front, uint64_t number)
{
    for (uint32_t i = 0; i < stage->session_count; i++) {
        if (stage->sessions[i].front == front && stage->sessions[i].number == number) {
            return &stage->sessions[i];
        }
    }
    return NULL;
}

static struct stage_session *session_of_client(struct stage *stage, uint32_t client)
{
    for (uint32_t i = 0; i < stage->session_count; i++) {
        if (stage->sessions[i].client == client) {
            return &stage->sessions[i];
        }
    }
    return NULL;
}

static void open_session(struct stage *stage, uint32_t front, const struct mst_front_effect *effect)
{
    struct stage_session *session = &stage->sessions[stage->session_count++];
    const struct mst_open open = {
        .role = MST_ROLE_RANK, .index = effect->index, .size = effect->size};
    const struct mst_request join = {.command = MST_JOIN};

    assert_true(stage->session_count <= STAGE_SESSIONS_MAX);
    *session =
        (struct stage_session){.front = front, .number = effect->session, .index = effect->index};
    session->client = core_service_open(&stage->service, &open);
    session->join = core_service_send(&stage->service, session->client, &join);
}

static void post(struct stage *stage, uint32_t front, const struct mst_front_effect *effect)
{
    struct stage_session *session = stage_session(stage, front, effect->session);
    struct stage_post *made = malloc(sizeof *made);

    assert_non_null(session);
    assert_false(session->left);
    assert_int_not_equal(effect->tag, 0);
    assert_non_null(made);
    *made = (struct stage_post){.next = stage->posts,
                                .client = session->client,
                                .front = front,
                                .session = effect->session,
                                .tag = effect->tag};
    stage->posts = made;
    made->id = stage->service.clients[session->client].id + 1; /* it may be answered at once */
    assert_int_equal(core_service_send(&stage->service, session->client, effect->request),
                     made->id);
}

static void drop(struct stage *stage, uint32_t front, const struct mst_front_effect *effect)
{
    struct mst_request cancel = {.command = MST_CANCEL};

    for (struct stage_post *made = stage->posts; made; made = made->next) {
        if (made->front == front && made->tag == effect->tag) {
            made->dropped = true;
            cancel.cancel.id = made->id;
            (void)core_service_send(&stage->service, made->client, &cancel);
        }
    }
}

static void report(struct stage *stage, struct stage_session *session,
                   const struct mst_front_effect *effect)
{
    struct mst_request fault = {.command = MST_FAULT};

    session->failed = true;
    session->cause = effect->cause;
    session->code = effect->code;
    (void)snprintf(session->text, sizeof session->text, "%.*s", (int)effect->bytes.size,
                   (const char *)effect->bytes.data);
    fault.fault.generation = 1;
    fault.fault.kind = effect->cause;
    fault.fault.code = effect->code;
    fault.fault.text = effect->bytes;
    (void)core_service_send(&stage->service, session->client, &fault);
}

static void leave(struct stage *stage, struct stage_session *session)
{
    const struct mst_request request = {.command = MST_LEAVE};

    session->left = true;
    (void)core_service_send(&stage->service, session->client, &request);
}

/* ---- the front's effects ---- */

static void hear(struct stage *stage, uint32_t front, uint64_t connection, struct mst_slice bytes)
{
    for (uint32_t i = 0; i < stage->client_count; i++) {
        struct stage_client *client = &stage->clients[i];

        if (client->front != front || client->connection != connection || !client->h2) {
            continue;
        }
        if (client->deaf) {
            client->unread = realloc(client->unread, client->unread_size + bytes.size);
            assert_non_null(client->unread);
            memcpy(client->unread + client->unread_size, bytes.data, bytes.size);
            client->unread_size += bytes.size;
            client->told = false;
        } else {
            assert_int_equal(nghttp2_session_mem_recv(client->h2, bytes.data, bytes.size),
                             bytes.size);
        }
        return;
    }
    if (stage->send) {
        stage->send(stage, connection, bytes);
    }
}

/* The front learns how much its clients have not read. */
static bool tell_backlogs(struct stage *stage)
{
    bool any = false;

    for (uint32_t i = 0; i < stage->client_count; i++) {
        struct stage_client *client = &stage->clients[i];

        if (client->unread && !client->told && !client->closed) {
            client->told = any = true;
            mst_xla_front.written(stage->fronts[client->front], stage->now_ns, client->connection,
                                  client->unread_size);
            stage_drain(stage, client->front);
        }
    }
    return any;
}

static void set_paused(struct stage *stage, uint32_t front, uint64_t connection, bool paused)
{
    for (uint32_t i = 0; i < stage->client_count; i++) {
        if (stage->clients[i].front == front && stage->clients[i].connection == connection) {
            stage->clients[i].paused = paused;
        }
    }
}

static void hang_up(struct stage *stage, uint32_t front, uint64_t connection)
{
    for (uint32_t i = 0; i < stage->client_count; i++) {
        if (stage->clients[i].front == front && stage->clients[i].connection == connection) {
            stage->clients[i].closed = true;
        }
    }
    if (stage->close) {
        stage->close(stage, connection);
    }
}

static void act(struct stage *stage, uint32_t front, const struct mst_front_effect *effect)
{
    struct stage_session *session = stage_session(stage, front, effect->session);

    switch (effect->kind) {
    case MST_FRONT_SEND:
        hear(stage, front, effect->connection, effect->bytes);
        break;
    case MST_FRONT_CLOSE:
        hang_up(stage, front, effect->connection);
        break;
    case MST_FRONT_PAUSE:
    case MST_FRONT_RESUME:
        set_paused(stage, front, effect->connection, effect->kind == MST_FRONT_PAUSE);
        break;
    case MST_FRONT_OPEN:
        open_session(stage, front, effect);
        break;
    case MST_FRONT_POST:
        post(stage, front, effect);
        break;
    case MST_FRONT_DROP:
        drop(stage, front, effect);
        break;
    case MST_FRONT_FAIL:
        assert_non_null(session);
        report(stage, session, effect);
        break;
    case MST_FRONT_LEAVE:
        assert_non_null(session);
        leave(stage, session);
        break;
    case MST_FRONT_LOG:
        stage->logs++;
        break;
    case MST_FRONT_WAITS:
        assert_true(false);
    }
}

void stage_drain(struct stage *stage, uint32_t front)
{
    const struct mst_front_effect *effect;

    while ((effect = mst_xla_front.next(stage->fronts[front])) != NULL) {
        act(stage, front, effect);
    }
    mst_xla_front.check(stage->fronts[front]);
}

static void sealed(struct stage *stage, struct stage_session *session,
                   const struct mst_reply *reply)
{
    session->join = 0;
    assert_int_equal(reply->status, MUSTER_OK);
    mst_xla_front.opened(stage->fronts[session->front], stage->now_ns, session->number,
                         reply->view.generation);
    stage_drain(stage, session->front);
}

static void give_reply(struct stage *stage, uint32_t client, const struct mst_reply *reply)
{
    struct stage_session *session = session_of_client(stage, client);

    if (!session) {
        return;
    }
    if (session->join != 0 && reply->id == session->join) {
        sealed(stage, session, reply);
        return;
    }
    for (struct stage_post **at = &stage->posts; *at; at = &(*at)->next) {
        struct stage_post *made = *at;

        if (made->client == client && made->id == reply->id) {
            *at = made->next;
            if (!made->dropped) {
                mst_xla_front.reply(stage->fronts[made->front], stage->now_ns, made->session,
                                    made->tag, reply);
                stage_drain(stage, made->front);
            }
            free(made);
            return;
        }
    }
}

/* ---- clients ---- */

static ssize_t read_request(nghttp2_session *h2, int32_t stream, uint8_t *room, size_t size,
                            uint32_t *flags, nghttp2_data_source *source, void *ctx)
{
    struct stage_call *call = source->ptr;
    size_t left = call->request_size - call->sent;

    (void)h2;
    (void)stream;
    (void)ctx;
    size = size < left ? size : left;
    memcpy(room, call->request + call->sent, size);
    call->sent += size;
    if (call->sent == call->request_size) {
        if (call->client->holds) {
            return size > 0 ? (ssize_t)size : NGHTTP2_ERR_DEFERRED;
        }
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    }
    return (ssize_t)size;
}

static int number_of(const uint8_t *digits, size_t size)
{
    uint64_t number;

    assert_true(mst_slice_number(mst_slice_of(digits, size), 999, &number));
    return (int)number;
}

static int on_header(nghttp2_session *h2, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_size, const uint8_t *value, size_t value_size, uint8_t flags,
                     void *ctx)
{
    struct stage_call *call = nghttp2_session_get_stream_user_data(h2, frame->hd.stream_id);
    struct mst_slice key = mst_slice_of(name, name_size);
    char *text = NULL;

    (void)flags;
    (void)ctx;
    if (!call) {
        return 0;
    }
    if (mst_slice_is(key, "grpc-status")) {
        call->status = number_of(value, value_size);
    } else if (mst_slice_is(key, ":status")) {
        call->http = number_of(value, value_size);
    } else if (mst_slice_is(key, "grpc-message")) {
        text = call->text;
    } else if (mst_slice_is(key, "grpc-status-details-bin")) {
        text = call->details;
    }
    if (text) {
        assert_true(value_size < (text == call->text ? sizeof call->text : sizeof call->details));
        memcpy(text, value, value_size);
        text[value_size] = '\0';
    }
    return 0;
}

static int on_data(nghttp2_session *h2, uint8_t flags, int32_t stream, const uint8_t *data,
                   size_t size, void *ctx)
{
    struct stage_call *call = nghttp2_session_get_stream_user_data(h2, stream);

    (void)flags;
    (void)ctx;
    if (call) {
        call->reply = realloc(call->reply, call->reply_size + size + 1);
        assert_non_null(call->reply);
        memcpy(call->reply + call->reply_size, data, size);
        call->reply_size += size;
    }
    return 0;
}

static int on_close(nghttp2_session *h2, int32_t stream, uint32_t code, void *ctx)
{
    struct stage_call *call = nghttp2_session_get_stream_user_data(h2, stream);

    (void)ctx;
    if (call) {
        call->done = true;
        call->reset = code;
    }
    return 0;
}

struct stage_client *stage_connect(struct stage *stage, uint32_t front)
{
    struct stage_client *client = &stage->clients[stage->client_count++];
    nghttp2_session_callbacks *callbacks;

    assert_true(stage->client_count <= STAGE_CLIENTS_MAX);
    *client = (struct stage_client){.stage = stage, .front = front};
    client->connection = ++stage->connections;
    assert_int_equal(nghttp2_session_callbacks_new(&callbacks), 0);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    assert_int_equal(nghttp2_session_client_new(&client->h2, callbacks, client), 0);
    nghttp2_session_callbacks_del(callbacks);
    assert_int_equal(nghttp2_submit_settings(client->h2, NGHTTP2_FLAG_NONE, NULL, 0), 0);
    mst_xla_front.connected(stage->fronts[front], stage->now_ns, client->connection);
    stage_drain(stage, front);
    stage_flow(stage);
    return client;
}

void stage_close(struct stage_client *client)
{
    if (!client->closed) {
        client->closed = true;
        mst_xla_front.closed(client->stage->fronts[client->front], client->stage->now_ns,
                             client->connection);
        stage_drain(client->stage, client->front);
        stage_flow(client->stage);
    }
}

static nghttp2_nv header(const char *name, const char *value)
{
    nghttp2_nv pair = {.namelen = strlen(name), .valuelen = strlen(value)};

    memcpy(&pair.name, &name, sizeof name);
    memcpy(&pair.value, &value, sizeof value);
    return pair;
}

struct stage_call *stage_call_raw(struct stage_client *client, const char *path,
                                  const char *encoding, const char *timeout, struct mst_slice body)
{
    struct stage *stage = client->stage;
    struct stage_call *call = calloc(1, sizeof *call);
    nghttp2_data_provider provider = {.source.ptr = call, .read_callback = read_request};
    nghttp2_nv headers[8];
    size_t count = 0;

    assert_non_null(call);
    assert_true(stage->call_count < STAGE_CALLS_MAX);
    stage->calls[stage->call_count++] = call;
    call->client = client;
    call->status = -1;
    call->request_size = body.size;
    call->request = malloc(body.size + 1);
    assert_non_null(call->request);
    if (body.size > 0) {
        memcpy(call->request, body.data, body.size);
    }
    headers[count++] = header(":method", "POST");
    headers[count++] = header(":scheme", "http");
    headers[count++] = header(":path", path);
    headers[count++] = header(":authority", "localhost");
    headers[count++] = header("content-type", "application/grpc");
    headers[count++] = header("te", "trailers");
    if (encoding) {
        headers[count++] = header("grpc-encoding", encoding);
    }
    if (timeout) {
        headers[count++] = header("grpc-timeout", timeout);
    }
    call->stream = nghttp2_submit_request(client->h2, NULL, headers, count, &provider, call);
    assert_true(call->stream > 0);
    stage_flow(stage);
    return call;
}

struct stage_call *stage_call(struct stage_client *client, enum mst_xla_wire wire,
                              enum mst_xla_method method, const struct mst_xla_request *request,
                              const char *timeout)
{
    static const char *const services[] = {"/xla.coordination.CoordinationService/",
                                           "/tensorflow.CoordinationService/"};
    const struct mst_message *type = &mst_xla_messages[method].request[wire];
    size_t size = mst_encode(type, request, NULL, 0);
    unsigned char *body = malloc(5 + size);
    struct stage_call *call;
    char path[128];

    assert_non_null(body);
    (void)snprintf(path, sizeof path, "%s%s", services[wire], mst_xla_method_name(method));
    body[0] = 0;
    for (unsigned i = 0; i < 4; i++) {
        body[1 + i] = (unsigned char)(size >> (8 * (3 - i)));
    }
    assert_int_equal(mst_encode(type, request, body + 5, size), size);
    call = stage_call_raw(client, path, "gzip", timeout, mst_slice_of(body, 5 + size));
    free(body);
    return call;
}

void stage_cancel(struct stage_call *call)
{
    assert_int_equal(nghttp2_submit_rst_stream(call->client->h2, NGHTTP2_FLAG_NONE, call->stream,
                                               NGHTTP2_CANCEL),
                     0);
    stage_flow(call->client->stage);
}

bool stage_reply(const struct stage_call *call, enum mst_xla_wire wire, enum mst_xla_method method,
                 struct mst_xla_reply *reply)
{
    static struct failing_mem memory;
    static struct mst_native_arena arena;
    static bool begun;
    struct mst_wrong wrong;

    if (!begun) {
        failing_mem_init(&memory, 0);
        mst_native_arena_init(&arena, &memory.mem);
        begun = true;
    }
    mst_native_arena_reset(&arena, 1 << 20);
    return call->done && call->status == 0 && call->reply_size >= 5 && call->reply[0] == 0 &&
           mst_decode(&mst_xla_messages[method].reply[wire], reply,
                      mst_slice_of(call->reply + 5, call->reply_size - 5), &arena,
                      &wrong) == MUSTER_OK;
}

/* ---- time, and bytes ---- */

/* Whether it had anything to say. */
static bool speak(struct stage_client *client)
{
    struct stage *stage = client->stage;
    const uint8_t *bytes;
    ssize_t size;
    bool any = false;

    while (!client->closed && !client->paused &&
           (size = nghttp2_session_mem_send(client->h2, &bytes)) > 0) {
        size_t piece = client->piece > 0 ? client->piece : (size_t)size;

        for (size_t at = 0; at < (size_t)size && !client->closed; at += piece) {
            size_t left = (size_t)size - at;

            mst_xla_front.received(stage->fronts[client->front], stage->now_ns, client->connection,
                                   mst_slice_of(bytes + at, left < piece ? left : piece));
            stage_drain(stage, client->front);
        }
        any = true;
    }
    return any;
}

void stage_flow(struct stage *stage)
{
    bool any = true;

    while (any) {
        any = false;
        for (uint32_t i = 0; i < stage->client_count; i++) {
            any = speak(&stage->clients[i]) || any;
        }
        any = tell_backlogs(stage) || any;
        while (stage->replies) {
            struct stage_reply *kept = stage->replies;

            stage->replies = kept->next;
            if (!stage->replies) {
                stage->last_reply = &stage->replies;
            }
            give_reply(stage, kept->client, kept->reply);
            free(kept->reply);
            free(kept);
            any = true;
        }
    }
}

void stage_pass(struct stage *stage, uint64_t ms)
{
    uint64_t until = stage->now_ns + ms * NS_PER_MS;

    for (;;) {
        uint64_t sooner = core_service_deadline_ns(&stage->service);

        for (uint32_t i = 0; i < stage->front_count; i++) {
            sooner = mst_sooner(sooner, mst_xla_front.deadline_ns(stage->fronts[i]));
        }
        if (sooner > until) {
            break;
        }
        stage->now_ns = mst_later(stage->now_ns, sooner);
        core_service_tick(&stage->service, stage->now_ns);
        for (uint32_t i = 0; i < stage->front_count; i++) {
            if (mst_xla_front.deadline_ns(stage->fronts[i]) <= stage->now_ns) {
                mst_xla_front.tick(stage->fronts[i], stage->now_ns);
                stage_drain(stage, i);
            }
        }
        stage_flow(stage);
    }
    stage->now_ns = until;
    stage->service.now_ns = until;
}

void stage_dead(struct stage *stage, uint32_t front, uint32_t index, const char *text)
{
    mst_xla_front.dead(stage->fronts[front], stage->now_ns, index, mst_slice_text(text));
    stage_drain(stage, front);
    stage_flow(stage);
}

void stage_widen(struct stage_client *client)
{
    enum { WINDOW = 1 << 30 };
    const nghttp2_settings_entry entry = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW};

    assert_int_equal(nghttp2_submit_settings(client->h2, NGHTTP2_FLAG_NONE, &entry, 1), 0);
    assert_int_equal(
        nghttp2_session_set_local_window_size(client->h2, NGHTTP2_FLAG_NONE, 0, WINDOW), 0);
    stage_flow(client->stage);
}

void stage_listen(struct stage_client *client)
{
    client->deaf = false;
    assert_int_equal(nghttp2_session_mem_recv(client->h2, client->unread, client->unread_size),
                     client->unread_size);
    client->unread_size = 0;
    client->told = false;
    stage_flow(client->stage);
    stage_pass(client->stage, 1);
}

void stage_lose(struct stage *stage, uint32_t front, uint32_t index)
{
    const struct mst_request leaving = {.command = MST_LEAVE};

    for (uint32_t i = 0; i < stage->session_count; i++) {
        if (stage->sessions[i].front == front && stage->sessions[i].index == index) {
            stage->sessions[i].left = true;
            (void)core_service_send(&stage->service, stage->sessions[i].client, &leaving);
        }
    }
    stage_flow(stage);
}

unsigned stage_posts(const struct stage *stage)
{
    unsigned count = 0;

    for (const struct stage_post *made = stage->posts; made; made = made->next) {
        count += !made->dropped;
    }
    return count;
}

/* ---- the whole ---- */

void stage_init_with(struct stage *stage, uint32_t fronts, const struct mst_front_config *config)
{
    memset(stage, 0, sizeof *stage);
    stage->now_ns = NS_PER_S;
    stage->config = *config;
    failing_mem_init(&stage->memory, 0);
    stage->front_count = fronts;
    stage->last_reply = &stage->replies;
    core_service_init(&stage->service, stage->now_ns);
    stage->service.replied = replied;
    stage->service.ctx = stage;
    for (uint32_t i = 0; i < fronts; i++) {
        assert_int_equal(mst_xla_front.new(&stage->fronts[i], config, &stage->memory.mem),
                         MUSTER_OK);
    }
}

void stage_init(struct stage *stage, uint32_t fronts, uint32_t size)
{
    const struct mst_front_config config = {.size = size, .seed = 1, .limits = mst_limits_default};

    stage_init_with(stage, fronts, &config);
}

void stage_fini(struct stage *stage)
{
    for (uint32_t i = 0; i < stage->client_count; i++) {
        nghttp2_session_del(stage->clients[i].h2);
        free(stage->clients[i].unread);
    }
    for (uint32_t i = 0; i < stage->front_count; i++) {
        mst_xla_front.free(stage->fronts[i]);
    }
    assert_int_equal(stage->memory.live, 0);
    for (uint32_t i = 0; i < stage->call_count; i++) {
        free(stage->calls[i]->request);
        free(stage->calls[i]->reply);
        free(stage->calls[i]);
    }
    while (stage->posts) {
        struct stage_post *made = stage->posts;

        stage->posts = made->next;
        free(made);
    }
    while (stage->replies) {
        struct stage_reply *kept = stage->replies;

        stage->replies = kept->next;
        free(kept->reply);
        free(kept);
    }
    core_service_fini(&stage->service);
}
