/* SPDX-License-Identifier: Apache-2.0 */
#include "tcpstore_stage.h"

#include <stdio.h>

static const struct mst_front *const front = &mst_tcpstore_front;

static void drain(struct stage *stage, uint32_t number);

/* ---- effects ---- */

static struct peer *peer_of(struct stage *stage, uint32_t number, uint64_t id)
{
    for (size_t i = stage->peer_count; i-- > 0;) {
        if (stage->peers[i]->front == number && stage->peers[i]->id == id) {
            return stage->peers[i];
        }
    }
    assert_true(false);
    return NULL;
}

static void keep_bytes(struct peer *peer, struct mst_slice bytes)
{
    assert_false(peer->closed);
    if (peer->got_size + bytes.size > peer->got_room) {
        peer->got_room = 2 * (peer->got_size + bytes.size);
        peer->got = realloc(peer->got, peer->got_room);
        assert_non_null(peer->got);
    }
    memcpy(peer->got + peer->got_size, bytes.data, bytes.size);
    peer->got_size += bytes.size;
}

static uint32_t client_of(const struct stage *stage, uint32_t number, uint64_t session)
{
    for (uint32_t i = 0; i < STAGE_SESSIONS_MAX; i++) {
        if (stage->sessions[i].used && stage->sessions[i].front == number &&
            stage->sessions[i].session == session) {
            return i;
        }
    }
    return UINT32_MAX;
}

static void post(struct stage *stage, uint32_t number, const struct mst_front_effect *effect)
{
    uint32_t client = client_of(stage, number, effect->session);
    size_t at = stage->call_count++;

    assert_true(client < STAGE_SESSIONS_MAX && at < STAGE_CALLS_MAX);
    assert_true(effect->tag != 0 && effect->deadline_ns == UINT64_MAX);
    stage->posts++;
    /* The reply may come before the id is known here: it is the next one. */
    stage->calls[at].client = client;
    stage->calls[at].id = stage->service.clients[client].id + 1;
    stage->calls[at].tag = effect->tag;
    (void)core_service_send(&stage->service, client, effect->request);
}

static void drop(struct stage *stage, uint32_t number, const struct mst_front_effect *effect)
{
    uint32_t client = client_of(stage, number, effect->session);
    struct mst_request cancel = {.command = MST_CANCEL};

    for (size_t i = 0; i < stage->call_count; i++) {
        if (stage->calls[i].client == client && stage->calls[i].tag == effect->tag) {
            cancel.cancel.id = stage->calls[i].id;
            stage->calls[i] = stage->calls[--stage->call_count];
            (void)core_service_send(&stage->service, client, &cancel);
            return;
        }
    }
    assert_true(false); /* it drops only what it has posted, and what is not answered */
}

static void add_wait(void *ctx, const struct mst_front_wait *wait)
{
    struct stage *stage = ctx;
    size_t size = strlen(stage->waits);

    (void)snprintf(stage->waits + size, sizeof(stage->waits) - size, "%u %u %.*s;", wait->pid,
                   (unsigned)((stage->now_ns - wait->since_ns) / 1000000), (int)wait->what.size,
                   (const char *)wait->what.data);
}

static void apply(struct stage *stage, uint32_t number, const struct mst_front_effect *effect)
{
    struct peer *peer;

    switch (effect->kind) {
    case MST_FRONT_SEND:
        keep_bytes(peer_of(stage, number, effect->connection), effect->bytes);
        break;
    case MST_FRONT_CLOSE:
        peer_of(stage, number, effect->connection)->closed = true;
        break;
    case MST_FRONT_PAUSE:
    case MST_FRONT_RESUME:
        peer = peer_of(stage, number, effect->connection);
        assert_true(!peer->closed && peer->paused != (effect->kind == MST_FRONT_PAUSE));
        peer->paused = !peer->paused;
        break;
    case MST_FRONT_OPEN: {
        struct mst_open open = {.role = MST_ROLE_OBSERVER, .index = MST_INDEX_ANY};
        uint32_t client = core_service_open(&stage->service, &open);

        assert_int_equal(effect->index, MST_FRONT_INDEX_NONE);
        stage->sessions[client].front = number;
        stage->sessions[client].session = effect->session;
        stage->sessions[client].used = true;
        break;
    }
    case MST_FRONT_POST:
        post(stage, number, effect);
        break;
    case MST_FRONT_DROP:
        drop(stage, number, effect);
        break;
    case MST_FRONT_LEAVE:
        stage->sessions[client_of(stage, number, effect->session)].used = false;
        break;
    case MST_FRONT_LOG:
        assert_true(effect->bytes.size > 0 && effect->bytes.size < sizeof(stage->line));
        memcpy(stage->line, effect->bytes.data, effect->bytes.size);
        stage->line[effect->bytes.size] = '\0';
        break;
    case MST_FRONT_WAITS:
        stage->waits[0] = '\0';
        mst_tcpstore_front.waits(stage->fronts[number], add_wait, stage);
        break;
    case MST_FRONT_FAIL:
        assert_true(false);
    }
}

/* One reply to the front that asked. */
static void deliver(struct stage *stage)
{
    uint32_t client = stage->replies[0].client;
    struct mst_reply *reply = stage->replies[0].reply;
    uint64_t tag = 0;

    memmove(stage->replies, stage->replies + 1, --stage->reply_count * sizeof(stage->replies[0]));
    for (size_t i = 0; i < stage->call_count; i++) {
        if (stage->calls[i].client == client && stage->calls[i].id == reply->id) {
            tag = stage->calls[i].tag;
            stage->calls[i] = stage->calls[--stage->call_count];
            break;
        }
    }
    if (tag != 0 && stage->sessions[client].used) {
        uint32_t number = stage->sessions[client].front;

        front->reply(stage->fronts[number], stage->now_ns, stage->sessions[client].session, tag,
                     reply);
        drain(stage, number);
    }
    free(reply);
}

static void drain(struct stage *stage, uint32_t number)
{
    const struct mst_front_effect *effect;

    while ((effect = front->next(stage->fronts[number]))) {
        apply(stage, number, effect);
    }
    front->check(stage->fronts[number]);
}

static void replied(void *ctx, uint32_t client, const struct mst_reply *reply)
{
    struct stage *stage = ctx;

    assert_true(stage->reply_count < STAGE_CALLS_MAX);
    stage->replies[stage->reply_count].client = client;
    stage->replies[stage->reply_count++].reply = core_reply_copy(reply);
}

void stage_open_sessions(struct stage *stage)
{
    for (uint32_t i = 0; i < STAGE_SESSIONS_MAX; i++) {
        if (stage->sessions[i].used && !stage->sessions[i].opened) {
            stage->sessions[i].opened = true;
            front->opened(stage->fronts[stage->sessions[i].front], stage->now_ns,
                          stage->sessions[i].session, 0);
            drain(stage, stage->sessions[i].front);
        }
    }
}

static void settle(struct stage *stage)
{
    uint32_t count;

    do {
        count = stage->service.client_count;
        if (!stage->shut) {
            stage_open_sessions(stage);
        }
        while (stage->reply_count > 0) {
            deliver(stage);
        }
    } while (count != stage->service.client_count);
}

/* ---- running ---- */

static bool run_once(stage_scenario *scenario, void (*prepare)(struct stage *stage), size_t fail_at)
{
    struct stage *stage = calloc(1, sizeof(*stage));
    bool failed;

    assert_non_null(stage);
    failing_mem_init(&stage->mem, fail_at);
    stage->config.limits = mst_limits_default;
    stage->front_count = STAGE_FRONTS_MAX;
    stage->now_ns = UINT64_C(5000000000);
    core_service_init(&stage->service, stage->now_ns);
    stage->service.replied = replied;
    stage->service.ctx = stage;
    if (prepare) {
        prepare(stage);
    }
    for (uint32_t i = 0; i < stage->front_count; i++) {
        if (front->new (&stage->fronts[i], &stage->config, &stage->mem.mem) != MUSTER_OK) {
            assert_true(stage->mem.failed);
            stage->fronts[i] = NULL;
            stage->front_count = i;
        }
    }
    if (stage->front_count == STAGE_FRONTS_MAX) {
        scenario(stage);
    }
    for (uint32_t i = 0; i < stage->front_count; i++) {
        front->free(stage->fronts[i]);
    }
    front->free(NULL);
    failed = stage->mem.failed;
    assert_int_equal(stage->mem.live, 0);
    for (size_t i = 0; i < stage->peer_count; i++) {
        free(stage->peers[i]->got);
        free(stage->peers[i]);
    }
    while (stage->reply_count > 0) {
        free(stage->replies[--stage->reply_count].reply);
    }
    core_service_fini(&stage->service);
    free(stage);
    return failed;
}

void stage_run_with(stage_scenario *scenario, void (*prepare)(struct stage *stage))
{
    assert_false(run_once(scenario, prepare, 0));
}

void stage_run_once(stage_scenario *scenario)
{
    stage_run_with(scenario, NULL);
}

void stage_run(stage_scenario *scenario)
{
    size_t fail_at = 0;

    stage_run_once(scenario);
    do {
        fail_at++;
    } while (run_once(scenario, NULL, fail_at));
}

/* ---- clients ---- */

struct peer *stage_connect(struct stage *stage, uint32_t number)
{
    struct peer *peer = calloc(1, sizeof(*peer));

    assert_non_null(peer);
    assert_true(stage->peer_count < STAGE_CLIENTS_MAX);
    *peer = (struct peer){.stage = stage, .front = number, .id = ++stage->connections};
    stage->peers[stage->peer_count++] = peer;
    front->connected(stage->fronts[number], stage->now_ns, peer->id);
    drain(stage, number);
    return peer;
}

struct peer *stage_client(struct stage *stage, uint32_t number)
{
    struct peer *peer = stage_connect(stage, number);

    stage_give(peer, "\x00\xCE\xF7\x85\x3C", 5);
    return peer;
}

void stage_give(struct peer *peer, const void *bytes, size_t size)
{
    if (peer->closed) {
        return;
    }
    front->received(peer->stage->fronts[peer->front], peer->stage->now_ns, peer->id,
                    mst_slice_of(bytes, size));
    drain(peer->stage, peer->front);
    settle(peer->stage);
}

void stage_end(struct peer *peer)
{
    if (!peer->closed) {
        front->closed(peer->stage->fronts[peer->front], peer->stage->now_ns, peer->id);
        drain(peer->stage, peer->front);
        settle(peer->stage);
    }
}

void stage_written(struct peer *peer, size_t backlog)
{
    if (!peer->closed) {
        front->written(peer->stage->fronts[peer->front], peer->stage->now_ns, peer->id, backlog);
        drain(peer->stage, peer->front);
        settle(peer->stage);
    }
}

void stage_pass(struct stage *stage, uint64_t ms)
{
    uint64_t end = stage->now_ns + ms * 1000000;

    for (uint32_t i = 0; i < stage->front_count; i++) {
        uint64_t at;

        while ((at = front->deadline_ns(stage->fronts[i])) <= end) {
            stage->now_ns = at > stage->now_ns ? at : stage->now_ns;
            front->tick(stage->fronts[i], stage->now_ns);
            drain(stage, i);
            settle(stage);
        }
    }
    stage->now_ns = end;
}

void stage_end_session(struct stage *stage, uint32_t client, muster_status status)
{
    uint32_t number = stage->sessions[client].front;

    if (stage->sessions[client].used) {
        stage->sessions[client].used = false;
        front->ended(stage->fronts[number], stage->now_ns, stage->sessions[client].session, status,
                     mst_slice_text("the service is gone"));
        drain(stage, number);
        settle(stage);
    }
}

static void add_number(struct mst_buffer *buffer, uint64_t number)
{
    unsigned char bytes[8];

    mst_tcpstore_put_number(bytes, number);
    assert_true(mst_buffer_append(buffer, mst_slice_of(bytes, 8)));
}

static void add_bytes(struct mst_buffer *buffer, struct mst_slice bytes)
{
    add_number(buffer, bytes.size);
    assert_true(mst_buffer_append(buffer, bytes));
}

void stage_say(struct peer *peer, enum mst_tcpstore_opcode opcode, const char *fields, ...)
{
    struct failing_mem mem;
    struct mst_buffer buffer;
    struct mst_slice whole;
    unsigned char byte = (unsigned char)opcode;
    const char *data;
    va_list list;
    int count;

    failing_mem_init(&mem, 0);
    mst_buffer_init(&buffer, &mem.mem, 64 << 20);
    assert_true(mst_buffer_append(&buffer, mst_slice_of(&byte, 1)));
    va_start(list, fields);
    /* NOLINTBEGIN(clang-analyzer-valist.Uninitialized): it was started one line above */
    for (; *fields; fields++) {
        switch (*fields) {
        case 'i':
            add_number(&buffer, (uint64_t)va_arg(list, int64_t));
            break;
        case 'b':
            data = va_arg(list, const char *);
            add_bytes(&buffer, mst_slice_of(data, va_arg(list, size_t)));
            break;
        case 'K':
            count = va_arg(list, int);
            add_number(&buffer, (uint64_t)count);
            while (count-- > 0) {
                add_bytes(&buffer, mst_slice_text(va_arg(list, const char *)));
            }
            break;
        default:
            add_bytes(&buffer, mst_slice_text(va_arg(list, const char *)));
        }
    }
    /* NOLINTEND(clang-analyzer-valist.Uninitialized) */
    va_end(list);
    whole = mst_buffer_content(&buffer);
    stage_give(peer, whole.data, whole.size);
    mst_buffer_fini(&buffer);
}

size_t stage_got_size(const struct peer *peer)
{
    return peer->got_size - peer->taken;
}

static bool got(struct peer *peer, struct mst_slice bytes)
{
    bool same;

    assert_true(peer->got || peer->got_size == 0);
    same = mst_slice_equal(
        mst_slice_of(peer->got ? peer->got + peer->taken : NULL, stage_got_size(peer)), bytes);

    if (!same && peer->got && !peer->stage->mem.failed) {
        for (size_t i = peer->taken; i < peer->got_size; i++) {
            fprintf(stderr, "%02x ", peer->got[i]);
        }
        fprintf(stderr, "; %s\n", peer->stage->line);
    }
    peer->taken = peer->got_size;
    return same;
}

bool stage_got(struct peer *peer, const char *hex)
{
    unsigned char bytes[1024];
    size_t size = 0;
    char *end;

    for (const char *at = hex; *at; at = end) {
        unsigned long byte = strtoul(at, &end, 16);

        if (end == at) {
            break;
        }
        assert_true(size < sizeof(bytes) && byte < 256);
        bytes[size++] = (unsigned char)byte;
    }
    return got(peer, mst_slice_of(bytes, size));
}

bool stage_got_number(struct peer *peer, int64_t number)
{
    unsigned char bytes[8];

    mst_tcpstore_put_number(bytes, (uint64_t)number);
    return got(peer, mst_slice_of(bytes, 8));
}

bool stage_got_bytes(struct peer *peer, const char *text)
{
    struct mst_slice value = mst_slice_text(text);
    unsigned char bytes[1024];

    assert_true(value.size + 8 < sizeof(bytes));
    mst_tcpstore_put_number(bytes, value.size);
    if (value.size > 0) {
        memcpy(bytes + 8, value.data, value.size);
    }
    return got(peer, mst_slice_of(bytes, 8 + value.size));
}

bool stage_got_nothing(struct peer *peer)
{
    return stage_got(peer, "");
}

const struct mst_reply *stage_key(struct stage *stage, const char *name)
{
    struct mst_request get = {.command = MST_GET, .get.key = mst_slice_text(name)};
    const struct mst_reply *reply;

    if (stage->looker == 0) {
        struct mst_open open = {.role = MST_ROLE_OBSERVER, .index = MST_INDEX_ANY};

        stage->looker = 1 + core_service_open(&stage->service, &open);
    }
    reply = core_service_ask(&stage->service, stage->looker - 1, &get);
    return reply && reply->status == MUSTER_OK ? reply : NULL;
}
