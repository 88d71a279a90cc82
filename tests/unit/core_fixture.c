/* SPDX-License-Identifier: Apache-2.0 */
#include "core_fixture.h"

#include <stdlib.h>

enum { STEP_MS = FIXTURE_LEASE_MS / 5 };

static const struct mst_reply nothing = {.status = MUSTER_MORE};
static const uint64_t ms_ns = 1000000;

/* ---- what was told ---- */

static void *copy(struct fixture *f, const void *data, size_t size)
{
    void *bytes = malloc(size > 0 ? size : 1);

    if (f->copy_count == f->copy_room) {
        f->copy_room = f->copy_room > 0 ? f->copy_room * 2 : 64;
        f->copies = realloc(f->copies, f->copy_room * sizeof(*f->copies));
    }
    assert_non_null(bytes);
    assert_non_null(f->copies);
    if (size > 0) {
        memcpy(bytes, data, size);
    }
    f->copies[f->copy_count++] = bytes;
    return bytes;
}

static void own(struct fixture *f, struct mst_slice *slice)
{
    slice->data = copy(f, slice->data, slice->size);
}

static void keep(struct fixture *f, const struct mst_effect *effect)
{
    struct told *told = &f->told[f->told_count++];
    struct mst_item *items;

    assert_true(f->told_count < FIXTURE_REPLIES_MAX);
    told->conn = effect->conn;
    told->hangup = effect->type == MST_EFFECT_HANGUP;
    if (told->hangup) {
        assert_non_null(effect->reason);
        return;
    }
    told->reply = *effect->reply;
    own(f, &told->reply.value);
    for (uint32_t i = 0; told->reply.has_detail && i < told->reply.detail.who_count; i++) {
        own(f, &told->reply.detail.who[i].host);
    }
    items = copy(f, told->reply.items, told->reply.item_count * sizeof(*items));
    for (uint32_t i = 0; i < told->reply.item_count; i++) {
        own(f, &items[i].name);
        own(f, &items[i].value);
        own(f, &items[i].who.host);
        items[i].missing = copy(f, items[i].missing, items[i].missing_count * sizeof(uint32_t));
    }
    told->reply.items = items;
}

static void drain(struct fixture *f)
{
    const struct mst_effect *effect;

    mst_core_check(f->core);
    while ((effect = mst_core_next(f->core))) {
        keep(f, effect);
        mst_core_done(f->core, effect);
    }
    mst_core_check(f->core);
}

static void trace(void *ctx, const struct mst_trace *line)
{
    struct fixture *f = ctx;
    size_t size = strlen(line->text);

    assert_true(f->story_size + size + 2 < sizeof(f->story));
    memcpy(f->story + f->story_size, line->text, size);
    f->story_size += size;
    f->story[f->story_size++] = '\n';
    f->story[f->story_size] = '\0';
}

bool fixture_told_story(const struct fixture *f, const char *line)
{
    size_t size = strlen(line);
    const char *found = f->story;

    while ((found = strstr(found, line))) {
        if ((found == f->story || found[-1] == '\n') && found[size] == '\n') {
            return true;
        }
        found += size;
    }
    return false;
}

void fixture_forget(struct fixture *f)
{
    f->told_count = 0;
    f->story_size = 0;
    f->story[0] = '\0';
}

/* ---- running ---- */

static bool run_once(fixture_scenario *scenario, void (*prepare)(struct mst_core_config *config),
                     size_t fail_at)
{
    struct fixture *f = calloc(1, sizeof(*f));
    bool failed;

    assert_non_null(f);
    failing_mem_init(&f->mem, fail_at);
    f->config = (struct mst_core_config){.lease_ns = FIXTURE_LEASE_MS * ms_ns,
                                         .limits = mst_limits_default,
                                         .history = 20,
                                         .straggler_percent = 20,
                                         .trace = trace,
                                         .trace_ctx = f};
    f->now_ns = 5000 * ms_ns;
    if (prepare) {
        prepare(&f->config);
    }
    if (mst_core_new(&f->core, &f->config, &f->mem.mem) == MUSTER_OK) {
        scenario(f);
        drain(f);
        (void)mst_core_digest(f->core);
        mst_core_free(f->core);
    } else {
        assert_true(f->mem.failed);
    }
    assert_int_equal(f->mem.live, 0);
    failed = f->mem.failed;
    for (size_t i = 0; i < f->copy_count; i++) {
        free(f->copies[i]);
    }
    free(f->copies);
    free(f);
    return failed;
}

void fixture_run_with(fixture_scenario *scenario, void (*prepare)(struct mst_core_config *config))
{
    size_t fail_at = 0;

    assert_false(run_once(scenario, prepare, 0));
    do {
        fail_at++;
    } while (run_once(scenario, prepare, fail_at));
}

void fixture_run_once_with(fixture_scenario *scenario,
                           void (*prepare)(struct mst_core_config *config))
{
    assert_false(run_once(scenario, prepare, 0));
}

void fixture_run_once(fixture_scenario *scenario)
{
    fixture_run_once_with(scenario, NULL);
}

void fixture_run(fixture_scenario *scenario)
{
    fixture_run_with(scenario, NULL);
}

/* ---- clients ---- */

struct client fixture_client(struct fixture *f, enum mst_role role, uint32_t index)
{
    struct client client = {0};

    client.open.token = (struct mst_token){.high = 7, .low = ++f->tokens};
    client.open.job = mst_slice_text("train");
    client.open.role = role;
    client.open.index = index;
    client.open.host = mst_slice_text("b3");
    client.open.pid = 100 + f->tokens;
    client.open.node = MST_NODE_NONE;
    return client;
}

/* As the shell does when it is told that there is no memory even for a refusal. */
static void give_up_connection(struct fixture *f, struct client *client)
{
    mst_core_close(f->core, f->now_ns, client->conn);
    client->conn.id = 0;
}

static bool is_reply(const struct told *told, const struct client *client, bool open)
{
    return !told->hangup && told->conn.id == client->conn.id &&
           (told->reply.command == MST_OPEN) == open;
}

static const struct mst_reply *open_reply(const struct fixture *f, const struct client *client)
{
    for (size_t i = f->told_count; i-- > 0;) {
        if (is_reply(&f->told[i], client, true)) {
            return &f->told[i].reply;
        }
    }
    return &nothing;
}

const struct mst_reply *fixture_connect(struct fixture *f, struct client *client)
{
    struct mst_request request = {.id = client->id + 1, .command = MST_OPEN, .open = client->open};
    const struct mst_reply *reply;
    bool known = false;

    client->conn.id = ++f->conns;
    if (mst_core_open(f->core, f->now_ns, client->conn) != MUSTER_OK) {
        client->conn.id = 0;
        return &nothing;
    }
    request.oldest = request.id;
    if (mst_core_request(f->core, f->now_ns, client->conn, &request) != MUSTER_OK) {
        give_up_connection(f, client);
        return &nothing;
    }
    drain(f);
    reply = open_reply(f, client);
    if (reply->has_view && reply->status == MUSTER_OK && reply->view.incarnation != 0) {
        client->open.incarnation = reply->view.incarnation;
        client->open.index = reply->view.index;
    }
    for (const struct client *other = f->clients; other; other = other->next) {
        known = known || other == client;
    }
    if (!known) {
        client->next = f->clients;
        f->clients = client;
    }
    return reply;
}

void fixture_disconnect(struct fixture *f, struct client *client)
{
    if (client->conn.id != 0) {
        mst_core_close(f->core, f->now_ns, client->conn);
        client->conn.id = 0;
        drain(f);
    }
}

struct client fixture_rank(struct fixture *f, uint32_t index, uint32_t size)
{
    struct client client = fixture_client(f, MST_ROLE_RANK, index);

    client.open.size = size;
    return client;
}

uint64_t fixture_join(struct fixture *f, struct client *client)
{
    return fixture_send(f, client, (struct mst_request){.command = MST_JOIN});
}

void fixture_seal(struct fixture *f, struct client *ranks, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        ranks[i] = fixture_rank(f, i, count);
        fixture_connect(f, &ranks[i]);
        fixture_join(f, &ranks[i]);
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct mst_reply *reply = fixture_reply(f, &ranks[i], ranks[i].id);

        EXPECT_INT(f, reply->status, MUSTER_OK);
        EXPECT_INT(f, reply->view.generation, 1);
        EXPECT_INT(f, reply->view.rank, i);
        EXPECT_INT(f, reply->view.size, count);
    }
}

/* ---- requests ---- */

uint64_t fixture_send(struct fixture *f, struct client *client, struct mst_request request)
{
    if (request.id == 0) {
        request.id = ++client->id;
    }
    if (client->conn.id == 0) {
        return request.id;
    }
    request.oldest = client->oldest != 0 ? client->oldest : request.id;
    if (mst_core_request(f->core, f->now_ns, client->conn, &request) != MUSTER_OK) {
        give_up_connection(f, client);
    }
    drain(f);
    return request.id;
}

const struct mst_reply *fixture_reply(struct fixture *f, const struct client *client, uint64_t id)
{
    for (size_t i = f->told_count; i-- > 0;) {
        const struct told *told = &f->told[i];

        if (is_reply(told, client, false) && told->reply.id == id) {
            return &told->reply;
        }
    }
    return &nothing;
}

size_t fixture_times_told(const struct fixture *f, const struct client *client, uint64_t id)
{
    size_t times = 0;

    for (size_t i = 0; i < f->told_count; i++) {
        times += is_reply(&f->told[i], client, false) && f->told[i].reply.id == id;
    }
    return times;
}

bool fixture_hung_up(const struct fixture *f, const struct client *client)
{
    for (size_t i = 0; i < f->told_count; i++) {
        if (f->told[i].hangup && f->told[i].conn.id == client->conn.id) {
            return true;
        }
    }
    return false;
}

const struct mst_reply *fixture_call(struct fixture *f, struct client *client,
                                     struct mst_request request)
{
    uint64_t id = fixture_send(f, client, request);

    return fixture_reply(f, client, id);
}

const struct mst_reply *fixture_write(struct fixture *f, struct client *client,
                                      enum mst_write_kind kind, const char *key, const char *value)
{
    struct mst_write op = {
        .kind = kind, .key = mst_slice_text(key), .value = mst_slice_text(value)};

    return fixture_call(
        f, client, (struct mst_request){.command = MST_WRITE, .write = {.ops = &op, .count = 1}});
}

const struct mst_reply *fixture_add(struct fixture *f, struct client *client, const char *key,
                                    int64_t delta)
{
    struct mst_write op = {.kind = MST_ADD, .key = mst_slice_text(key), .delta = delta};

    return fixture_call(
        f, client, (struct mst_request){.command = MST_WRITE, .write = {.ops = &op, .count = 1}});
}

const struct mst_reply *fixture_get(struct fixture *f, struct client *client, const char *key)
{
    return fixture_call(
        f, client, (struct mst_request){.command = MST_GET, .get = {.key = mst_slice_text(key)}});
}

uint64_t fixture_wait_get(struct fixture *f, struct client *client, const char *key)
{
    return fixture_send(f, client,
                        (struct mst_request){.command = MST_GET,
                                             .get = {.key = mst_slice_text(key), .wait = true}});
}

uint64_t fixture_watch(struct fixture *f, struct client *client, uint32_t kinds, const char *prefix,
                       uint64_t after)
{
    return fixture_send(f, client,
                        (struct mst_request){.command = MST_WATCH,
                                             .watch = {.kinds = kinds,
                                                       .prefix = mst_slice_text(prefix),
                                                       .after = after,
                                                       .node = MST_NODE_NONE}});
}

struct mst_request fixture_round(uint64_t generation, const char *name, uint64_t number)
{
    return (struct mst_request){
        .command = MST_ROUND,
        .round = {.generation = generation, .name = mst_slice_text(name), .number = number}};
}

/* ---- time ---- */

void fixture_pass(struct fixture *f, uint64_t ms)
{
    uint64_t target_ns = f->now_ns + ms * ms_ns;
    uint64_t deadline_ns;

    while ((deadline_ns = mst_core_deadline_ns(f->core)) < target_ns) {
        if (deadline_ns > f->now_ns) {
            f->now_ns = deadline_ns;
        }
        mst_core_tick(f->core, f->now_ns);
        drain(f);
    }
    f->now_ns = target_ns;
    mst_core_tick(f->core, f->now_ns);
    drain(f);
}

void fixture_renew(struct fixture *f, struct client *client)
{
    fixture_send(f, client, (struct mst_request){.command = MST_RENEW});
}

void fixture_pass_renewing(struct fixture *f, uint64_t ms)
{
    while (ms > 0) {
        uint64_t step_ms = ms < STEP_MS ? ms : STEP_MS;

        fixture_pass(f, step_ms);
        ms -= step_ms;
        for (struct client *client = f->clients; client; client = client->next) {
            fixture_renew(f, client);
        }
    }
}

void fixture_stall(struct fixture *f, uint64_t ms)
{
    f->now_ns += ms * ms_ns;
    mst_core_tick(f->core, f->now_ns);
    drain(f);
}
