/* SPDX-License-Identifier: Apache-2.0 */
/* A client of JAX's front sends any bytes, beside tasks that are registered, and the service
 * replies anything. Every invariant holds after each input; memory is bounded by what came, and all
 * of it is given back.
 *
 * behaviour: fuzzing / Fuzzing, races, leaks */
#include "fuzz.h"

#include "base/panic.h"
#include "bytes.h"
#include "counted_mem.h"
#include "fronts/xla/xla.h"
#include "http2.h"

enum {
    TASKS = 3,
    POSTS_MAX = 256,
    GENERATION = 1,
    CLIENT = 2,
    INCARNATION = 0x1000,  /* of task 0, as of the unit tests' clients */
    MEMORY_BASE = 8 << 20, /* of the front, of nghttp2, and of one message that unfolds */
    MEMORY_BYTE =
        1024 /* a byte of a header may be a header of the dynamic table; nine are a stream */
};

struct post {
    uint64_t session, tag;
};

struct run {
    void *front;
    struct counted_mem counted;
    uint64_t now_ns;
    struct post posts[POSTS_MAX];
    size_t post_count;
    bool closed;
};

/* A RegisterTask, with its headers as literals. */
static size_t put_register(unsigned char *at, unsigned task)
{
    static const char path[] = "/xla.coordination.CoordinationService/RegisterTask";
    const unsigned char body[] = {0, 0, 0, 0, 11, 0x19, (unsigned char)task, INCARNATION >> 8, 0,
                                  0, 0, 0, 0, 0,  0x28, (unsigned char)task};
    unsigned char headers[256];
    size_t size = http2_header(headers, ":method", "POST"), whole;

    size += http2_header(headers + size, ":scheme", "http");
    size += http2_header(headers + size, ":path", path);
    size += http2_header(headers + size, ":authority", "x");
    size += http2_header(headers + size, "content-type", "application/grpc");
    whole = http2_frame(at, HTTP2_HEADERS, HTTP2_END_HEADERS, 2 * task + 1,
                        mst_slice_of(headers, size));
    return whole + http2_frame(at + whole, HTTP2_DATA, HTTP2_END_STREAM, 2 * task + 1,
                               mst_slice_of(body, sizeof body));
}

static void take(struct run *run, const struct mst_front_effect *effect)
{
    run->closed = run->closed || (effect->kind == MST_FRONT_CLOSE && effect->connection == CLIENT);
    if (effect->kind == MST_FRONT_POST) {
        MST_ASSERT(effect->tag != 0 && effect->session != 0);
        if (run->post_count < POSTS_MAX) {
            run->posts[run->post_count++] = (struct post){effect->session, effect->tag};
        }
    }
}

static void drain(struct run *run)
{
    const struct mst_front_effect *effect;

    while ((effect = mst_xla_front.next(run->front)) != NULL) {
        take(run, effect);
    }
    mst_xla_front.check(run->front);
}

static void begin(struct run *run, bool recoverable)
{
    const struct mst_front_config config = {
        .size = TASKS, .recoverable = recoverable, .limits = mst_limits_default};
    unsigned char first[2048];
    size_t size = http2_preface(first);

    memset(run, 0, sizeof *run);
    counted_mem_init(&run->counted, 0);
    run->now_ns = 1;
    MST_ASSERT(mst_xla_front.new(&run->front, &config, &run->counted.mem) == MUSTER_OK);
    for (unsigned task = 0; task < TASKS; task++) {
        size += put_register(first + size, task);
    }
    mst_xla_front.connected(run->front, run->now_ns, 1);
    mst_xla_front.received(run->front, run->now_ns, 1, mst_slice_of(first, size));
    drain(run);
    for (uint64_t session = 1; session <= TASKS; session++) {
        mst_xla_front.opened(run->front, run->now_ns, session, GENERATION);
        drain(run);
    }
    mst_xla_front.connected(run->front, run->now_ns, CLIENT);
    drain(run);
}

/* Of any status; nothing in it that depends on the request. */
static void answer(struct run *run, struct fuzz_bytes *bytes)
{
    static const muster_status statuses[] = {MUSTER_OK,        MUSTER_OK,        MUSTER_EEXISTS,
                                             MUSTER_ENOTFOUND, MUSTER_ELIMIT,    MUSTER_ERANGE,
                                             MUSTER_ELOST,     MUSTER_ETIMEDOUT, MUSTER_EFENCED};
    struct mst_item items[3] = {
        {.kind = MST_ITEM_KEY, .name = mst_slice_text("xla-task/1"), .value = mst_slice_text("77")},
        {.kind = MST_ITEM_MEMBER,
         .who = {.role = MST_ROLE_RANK, .index = 1, .state = MST_STATE_LOST}},
        {.kind = MST_ITEM_PART, .value = mst_slice_text("12345678")}};

    for (size_t i = 0; i < run->post_count && i < POSTS_MAX; i++) {
        uint8_t choice = fuzz_u8(bytes);
        struct mst_reply reply = {.status = statuses[choice % 9],
                                  .items = items,
                                  .item_count = choice / 9 % 4,
                                  .value = mst_slice_text(choice % 2 ? "12" : "x"),
                                  .next = choice / 36 % 2,
                                  .number = choice};

        mst_xla_front.reply(run->front, run->now_ns, run->posts[i].session, run->posts[i].tag,
                            &reply);
        drain(run);
    }
}

static void finish(struct run *run, struct fuzz_bytes bytes, size_t size)
{
    answer(run, &bytes);
    run->now_ns += UINT64_C(1000000000) * fuzz_u8(&bytes);
    mst_xla_front.tick(run->front, run->now_ns);
    drain(run);
    if (!run->closed) {
        mst_xla_front.closed(run->front, run->now_ns, CLIENT);
        drain(run);
    }
    mst_xla_front.dead(run->front, run->now_ns, fuzz_u8(&bytes) % TASKS, mst_slice_text("died"));
    drain(run);
    mst_xla_front.free(run->front);
    MST_ASSERT(run->counted.live == 0);
    MST_ASSERT(run->counted.peak <= MEMORY_BASE + MEMORY_BYTE * size);
}

static void give(struct run *run, struct mst_slice stream, size_t most)
{
    while (stream.size > 0) {
        size_t size = stream.size < most ? stream.size : most;

        mst_xla_front.received(run->front, run->now_ns, CLIENT, mst_slice_of(stream.data, size));
        stream = mst_slice_from(stream, size);
    }
    drain(run);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct run run;
    struct fuzz_bytes bytes = {.at = data, .left = size};
    bool recoverable = fuzz_u8(&bytes) % 2;
    size_t most = 1 + fuzz_u8(&bytes);
    struct mst_slice choices = fuzz_slice(&bytes, 32), stream = fuzz_slice(&bytes, size);
    struct fuzz_bytes replies = {.at = choices.data, .left = choices.size};

    begin(&run, recoverable);
    give(&run, stream, most);
    finish(&run, replies, size);
    return 0;
}
