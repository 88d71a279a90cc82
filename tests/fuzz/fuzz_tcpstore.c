/* SPDX-License-Identifier: Apache-2.0 */
/* Clients of TCPStore send requests or anything at all, and come and go, before the front and the
 * real core. Every invariant holds after each input, also where memory ends or the service is gone,
 * and all memory is given back.
 *
 * behaviour: fuzzing / Fuzzing, races, leaks */
#include "fuzz.h"

#include <stdlib.h>

#include "base/panic.h"
#include "bytes.h"
#include "core_service.h"
#include "counted_mem.h"
#include "fronts/tcpstore/codec.h"
#include "fronts/tcpstore/tcpstore.h"

enum { CLIENTS = 3, STREAM_MAX = 4096, CALLS = 1024, STEPS = 64 };

static const struct mst_front *const front = &mst_tcpstore_front;

struct world {
    struct core_service service;
    void *machine;
    uint64_t now_ns;
    struct {
        uint64_t id, tag;
        uint32_t client;
    } calls[CALLS];
    size_t call_count;
    struct {
        uint32_t client;
        struct mst_reply *reply;
    } replies[CALLS];
    size_t reply_count;
    uint64_t session[CORE_CLIENTS_MAX]; /* of the core's client; 0: it is over */
    bool opened[CORE_CLIENTS_MAX];
    uint64_t id[CLIENTS], ids; /* of the connection; 0: closed */
    bool paused[CLIENTS];
};

static void keep(void *ctx, uint32_t client, const struct mst_reply *reply)
{
    struct world *world = ctx;

    MST_ASSERT(world->reply_count < CALLS);
    world->replies[world->reply_count].client = client;
    world->replies[world->reply_count++].reply = core_reply_copy(reply);
}

static uint32_t client_of(const struct world *world, uint64_t session)
{
    for (uint32_t i = 0; i < CORE_CLIENTS_MAX; i++) {
        if (world->session[i] == session) {
            return i;
        }
    }
    MST_ASSERT(!"a session that is not open");
    return 0;
}

static void post(struct world *world, const struct mst_front_effect *effect)
{
    uint32_t client = client_of(world, effect->session);
    size_t at = world->call_count++;

    MST_ASSERT(at < CALLS);
    world->calls[at].client = client;
    world->calls[at].id = world->service.clients[client].id + 1;
    world->calls[at].tag = effect->tag;
    (void)core_service_send(&world->service, client, effect->request);
}

/* The tag of an unanswered call, which is taken out; 0: there is none. */
static uint64_t take_call(struct world *world, uint32_t client, uint64_t id, uint64_t tag,
                          uint64_t *id_out)
{
    for (size_t i = 0; i < world->call_count; i++) {
        if (world->calls[i].client == client &&
            (tag != 0 ? world->calls[i].tag == tag : world->calls[i].id == id)) {
            tag = world->calls[i].tag;
            *id_out = world->calls[i].id;
            world->calls[i] = world->calls[--world->call_count];
            return tag;
        }
    }
    return 0;
}

static size_t client_at(const struct world *world, uint64_t id)
{
    for (size_t i = 0; i < CLIENTS; i++) {
        if (world->id[i] == id) {
            return i;
        }
    }
    MST_ASSERT(!"an effect on a closed connection");
    return 0;
}

static void look_at_wait(void *ctx, const struct mst_front_wait *wait)
{
    const struct world *world = ctx;

    MST_ASSERT(wait->what.size > 0 && wait->since_ns <= world->now_ns);
}

static void apply(struct world *world, const struct mst_front_effect *effect)
{
    struct mst_open open = {.role = MST_ROLE_OBSERVER, .index = MST_INDEX_ANY};
    struct mst_request cancel = {.command = MST_CANCEL};
    uint32_t client;

    switch (effect->kind) {
    case MST_FRONT_SEND:
        (void)client_at(world, effect->connection);
        break;
    case MST_FRONT_CLOSE:
        world->paused[client_at(world, effect->connection)] = false;
        world->id[client_at(world, effect->connection)] = 0;
        break;
    case MST_FRONT_PAUSE:
    case MST_FRONT_RESUME: {
        size_t at = client_at(world, effect->connection);

        MST_ASSERT(world->paused[at] == (effect->kind == MST_FRONT_RESUME));
        world->paused[at] = !world->paused[at];
        break;
    }
    case MST_FRONT_OPEN:
        world->session[core_service_open(&world->service, &open)] = effect->session;
        break;
    case MST_FRONT_POST:
        post(world, effect);
        break;
    case MST_FRONT_DROP:
        client = client_of(world, effect->session);
        MST_ASSERT(take_call(world, client, 0, effect->tag, &cancel.cancel.id) != 0);
        (void)core_service_send(&world->service, client, &cancel);
        break;
    case MST_FRONT_LEAVE:
        world->session[client_of(world, effect->session)] = 0;
        break;
    case MST_FRONT_LOG:
        MST_ASSERT(effect->bytes.size > 0);
        break;
    case MST_FRONT_WAITS:
        mst_tcpstore_front.waits(world->machine, look_at_wait, world);
        break;
    case MST_FRONT_FAIL:
        MST_ASSERT(!"it fails no process");
    }
}

static void drain(struct world *world)
{
    const struct mst_front_effect *effect;

    while ((effect = front->next(world->machine))) {
        apply(world, effect);
    }
    front->check(world->machine);
}

/* Whatever was asked is answered. */
static void settle(struct world *world)
{
    drain(world);
    for (uint32_t i = 0; i < world->service.client_count; i++) {
        if (world->session[i] != 0 && !world->opened[i]) {
            world->opened[i] = true;
            front->opened(world->machine, world->now_ns, world->session[i], 0);
            drain(world);
        }
    }
    while (world->reply_count > 0) {
        uint32_t client = world->replies[0].client;
        struct mst_reply *reply = world->replies[0].reply;
        uint64_t id = 0;
        uint64_t tag = take_call(world, client, reply->id, 0, &id);

        memmove(world->replies, world->replies + 1,
                --world->reply_count * sizeof(world->replies[0]));
        if (tag != 0 && world->session[client] != 0) {
            front->reply(world->machine, world->now_ns, world->session[client], tag, reply);
            drain(world);
        }
        free(reply);
    }
}

/* ---- the story ---- */

static size_t put(unsigned char *out, size_t at, struct mst_slice bytes)
{
    mst_tcpstore_put_number(out + at, bytes.size);
    if (bytes.size > 0) {
        memcpy(out + at + 8, bytes.data, bytes.size);
    }
    return at + 8 + bytes.size;
}

/* A request of a few keys, or anything. */
static size_t compose(struct fuzz_bytes *bytes, unsigned char out[STREAM_MAX])
{
    static const char fields[MST_TCPSTORE_OPCODES][4] = {"",   "kv", "kvv", "k", "kn", "K", "K",
                                                         "",   "k",  "kv",  "K", "P",  "",  "c",
                                                         "kv", "k",  "k",   "",  "kn"};
    static const char *const words[] = {"a", "b", "q", "", "7", "abc"};
    uint8_t opcode = fuzz_u8(bytes);
    size_t size = 1;

    if (opcode >= 200) {
        struct mst_slice raw = fuzz_slice(bytes, opcode);

        memcpy(out, raw.data, raw.size);
        return raw.size;
    }
    opcode %= MST_TCPSTORE_OPCODES;
    out[0] = opcode;
    for (const char *field = fields[opcode]; *field; field++) {
        unsigned count = *field == 'K' ? fuzz_u8(bytes) % 6 : *field == 'P' ? 2 : 1;

        if (*field == 'K' || *field == 'P') {
            mst_tcpstore_put_number(out + size, *field == 'P' ? 1 : count);
            size += 8;
        }
        if (*field == 'n' || *field == 'c') {
            mst_tcpstore_put_number(out + size, (uint64_t)(int8_t)fuzz_u8(bytes));
            size += *field == 'n' ? 8 : 4;
            continue;
        }
        while (count-- > 0) {
            size = put(out, size, mst_slice_text(words[fuzz_u8(bytes) % 6]));
        }
    }
    return size;
}

static void connect(struct world *world, size_t at)
{
    world->id[at] = ++world->ids;
    front->connected(world->machine, world->now_ns, world->id[at]);
    drain(world);
    if (world->id[at] != 0) {
        front->received(world->machine, world->now_ns, world->id[at],
                        mst_slice_of("\x00\xCE\xF7\x85\x3C", 5));
    }
}

static void step(struct world *world, struct fuzz_bytes *bytes)
{
    unsigned char out[STREAM_MAX];
    unsigned what = fuzz_u8(bytes);
    size_t at = what % CLIENTS;
    uint64_t id = world->id[at];

    if (id == 0) {
        connect(world, at);
    } else if (what < 200) {
        size_t size = compose(bytes, out);

        front->received(world->machine, world->now_ns, id, mst_slice_of(out, size));
    } else if (what < 215) {
        front->closed(world->machine, world->now_ns, id);
    } else if (what < 230) {
        front->written(world->machine, world->now_ns, id, (size_t)fuzz_u8(bytes) << 14);
    } else if (what < 245) {
        world->now_ns += (uint64_t)fuzz_u8(bytes) * 50000000;
        front->tick(world->machine, world->now_ns);
    } else if (world->service.client_count > 0 && world->service.client_count < 8 &&
               world->session[0] != 0) {
        uint64_t session = world->session[0];

        world->session[0] = 0;
        front->ended(world->machine, world->now_ns, session, MUSTER_EFENCED, mst_slice_text("x"));
    }
    settle(world);
}

static void run(struct fuzz_bytes *bytes, struct counted_mem *counted)
{
    struct mst_front_config config = {.limits = mst_limits_default};
    struct world *world = calloc(1, sizeof(*world));

    MST_ASSERT(world);
    core_service_init(&world->service, 1);
    world->service.replied = keep;
    world->service.ctx = world;
    if (front->new (&world->machine, &config, &counted->mem) == MUSTER_OK) {
        for (unsigned i = 0; i < STEPS && bytes->left > 0; i++) {
            step(world, bytes);
        }
        front->free(world->machine);
    }
    while (world->reply_count > 0) {
        free(world->replies[--world->reply_count].reply);
    }
    core_service_fini(&world->service);
    free(world);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_bytes bytes = {.at = data, .left = size};
    struct counted_mem counted;

    counted_mem_init(&counted, 0xa5);
    counted.fail_at = fuzz_u8(&bytes);
    run(&bytes, &counted);
    MST_ASSERT(counted.live == 0);
    return 0;
}
