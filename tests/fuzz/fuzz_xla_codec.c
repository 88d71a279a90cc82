/* SPDX-License-Identifier: Apache-2.0 */
/* A client of JAX's front sends any bytes, or calls with their headers, frames and messages chosen
 * freely. In any pieces they are the same requests, and the same replies and the same end follow; a
 * request that was read, and a reply that is sent, means the same when it is written again; memory
 * is bounded by what came.
 *
 * The front is the real one, except that what a call asks is not done: the harness takes the place
 * of mst_xla_serve_call, which the linker wraps.
 *
 * behaviour: fuzzing / Fuzzing, races, leaks */
#include "fuzz.h"

#include <stdio.h>

#include "base/panic.h"
#include "bytes.h"
#include "counted_mem.h"
#include "fronts/xla/machine.h"
#include "fronts/xla/xla.h"
#include "http2.h"
#include "stream.h"

enum {
    STREAM_MAX = 16384,
    CALL_MOST = 1024, /* bytes of a composed call or frame */
    PREFIX = 5,       /* before a message of gRPC */
    VALUE_MAX = 1024,
    MESSAGE_MAX = 2 << 20,
    SAID_MAX = 4 << 20,
    MEMORY_BASE = 4 << 20, /* of the front, of nghttp2, and of one message that unfolds */
    MEMORY_BYTE = 1024     /* a byte of a header may be a header of the dynamic table */
};

/* One side of a connection. */
struct end {
    unsigned char said[SAID_MAX]; /* the requests, and what they are answered */
    size_t size, calls;
    bool closed;
};

static struct end whole, pieces;

enum { WHOLE = 1, PIECES };

static struct end *end_of(uint64_t connection)
{
    return connection == WHOLE ? &whole : &pieces;
}

static void say(struct end *end, struct mst_slice bytes)
{
    if (bytes.size > 0 && bytes.size <= SAID_MAX - end->size) {
        memcpy(end->said + end->size, bytes.data, bytes.size);
        end->size += bytes.size;
    }
}

/* ---- in the place of the methods ---- */

/* The message as it is written; it is written the same once it was read again. */
static struct mst_slice written(const struct mst_message *type, const void *message, void *again,
                                const struct mst_mem *mem)
{
    static unsigned char rooms[2][MESSAGE_MAX];
    struct mst_native_arena arena;
    struct mst_wrong wrong;
    size_t size = mst_encode(type, message, rooms[0], MESSAGE_MAX);
    const unsigned char *start = rooms[0] + MESSAGE_MAX - size;

    MST_ASSERT(size <= MESSAGE_MAX);
    mst_native_arena_init(&arena, mem);
    MST_ASSERT(mst_decode(type, again, mst_slice_of(start, size), &arena, &wrong) == MUSTER_OK);
    MST_ASSERT(mst_encode(type, again, rooms[1], MESSAGE_MAX) == size);
    MST_ASSERT(memcmp(start, rooms[1] + MESSAGE_MAX - size, size) == 0);
    mst_native_arena_fini(&arena);
    return mst_slice_of(start, size);
}

/* A reply with everything in it that was asked. */
static void answer(struct mst_xla_call *call, const struct mst_xla_request *request)
{
    const struct mst_xla_state state = {.place = request->source,
                                        .state = request->code,
                                        .code = request->id_count,
                                        .text = request->text,
                                        .has_origin = request->overwrite,
                                        .origin = {request->directory, request->source},
                                        .incarnation = request->incarnation};
    const struct mst_xla_reply reply = {.incarnation = request->incarnation,
                                        .has_kv = true,
                                        .kv = request->kv,
                                        .entries = &request->kv,
                                        .entry_count = request->id_count % 2,
                                        .counter = request->counter,
                                        .version = (uint64_t)request->number,
                                        .ids = request->ids,
                                        .places = request->places,
                                        .id_count = request->id_count,
                                        .place_count = request->place_count,
                                        .incarnations = request->key,
                                        .states = &state,
                                        .state_count = request->code % 2};
    struct mst_xla_reply again;

    (void)written(&mst_xla_messages[call->method].reply[call->wire], &reply, &again,
                  &call->connection->front->mem);
    mst_xla_answer(call, &reply);
}

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming):
 * the name that the linker looks for */
void __wrap_mst_xla_serve_call(struct mst_xla_call *call, const struct mst_xla_request *request);

void __wrap_mst_xla_serve_call(struct mst_xla_call *call, const struct mst_xla_request *request)
{
    const uint64_t head[] = {call->method, call->wire, call->timeout_ns};
    struct end *end = end_of(call->connection->id);
    struct mst_xla_request again;
    struct mst_xla_error error;

    say(end, mst_slice_of(head, sizeof head));
    say(end, written(&mst_xla_messages[call->method].request[call->wire], request, &again,
                     &call->connection->front->mem));
    switch (end->calls++ % 4) {
    case 0: /* it waits for ever */
        break;
    case 1:
        error = mst_xla_error_of((enum mst_xla_code)(request->code % (MST_XLA_CODE_LAST + 1)),
                                 "%.*s", MST_SLICE_ARGS(request->key));
        error.plain = request->directory;
        mst_xla_refuse(call, &error);
        break;
    default:
        answer(call, request);
    }
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming)
 */

/* ---- the client ---- */

/* A call, and bits of what may be wrong with it. Its content is repeated, which are the same fields
 * again. */
static size_t put_call(unsigned char *at, struct fuzz_bytes *bytes, unsigned choice,
                       unsigned stream)
{
    static const char *const encodings[] = {"identity", "gzip", "deflate", "br"};
    unsigned odd = choice & 64 ? fuzz_u8(bytes) : 0;
    unsigned shape = fuzz_u8(bytes);
    struct mst_slice content = fuzz_slice(bytes, shape % 64);
    unsigned char block[512], message[PREFIX + 63 * 8] = {odd & 1};
    unsigned flags = odd & 128 ? 0 : HTTP2_END_STREAM;
    size_t size = http2_header(block, ":method", odd & 64 ? "GET" : "POST"), first;
    size_t length = 0, announced;
    char path[96];

    (void)snprintf(path, sizeof path, "/%s.CoordinationService/%s",
                   choice & 16 ? "tensorflow" : "xla.coordination",
                   choice % 16 < MST_XLA_METHODS
                       ? mst_xla_method_name((enum mst_xla_method)(choice % 16))
                       : "WatchJobState");
    size += http2_header(block + size, ":scheme", "http");
    size += http2_header(block + size, ":path", path);
    size += http2_header(block + size, ":authority", "x");
    if (!(odd & 32)) {
        size += http2_header(block + size, "content-type", "application/grpc");
    }
    if (odd & 6) {
        size += http2_header(block + size, "grpc-encoding", encodings[odd / 2 % 4]);
    }
    if (odd & 8) {
        size += http2_header(block + size, "grpc-timeout", "305S");
    }
    size = http2_frame(at, HTTP2_HEADERS, HTTP2_END_HEADERS, stream, mst_slice_of(block, size));
    for (unsigned i = 0; i < 1U << shape / 64 && content.size > 0; i++) {
        memcpy(message + PREFIX + length, content.data, content.size);
        length += content.size;
    }
    announced = length + (odd & 16 ? 1 : 0);
    message[PREFIX - 2] = (unsigned char)(announced >> 8);
    message[PREFIX - 1] = (unsigned char)announced;
    length += PREFIX;
    first = choice & 32 ? fuzz_u8(bytes) % length : 0;
    if (first > 0) {
        size += http2_frame(at + size, HTTP2_DATA, 0, stream, mst_slice_of(message, first));
    }
    return size + http2_frame(at + size, HTTP2_DATA, flags, stream,
                              mst_slice_of(message + first, length - first));
}

/* Calls, any frames, or bytes as they are. */
static struct mst_slice compose(struct fuzz_bytes *bytes)
{
    static unsigned char out[STREAM_MAX];
    size_t size = http2_preface(out);

    for (unsigned stream = 1; bytes->left > 0 && size + CALL_MOST <= sizeof out;) {
        unsigned choice = fuzz_u8(bytes), type, flags;
        struct mst_slice payload;

        if (choice < 128) {
            size += put_call(out + size, bytes, choice, stream);
            stream += 2;
        } else {
            type = fuzz_u8(bytes);
            flags = fuzz_u8(bytes);
            payload = fuzz_slice(bytes, fuzz_u8(bytes));
            stream += choice & 32 ? 2 : 0;
            size += http2_frame(out + size, type, flags, choice & 64 ? stream : 0, payload);
        }
    }
    return mst_slice_of(out, size);
}

/* As much as nghttp2 reads the same in any pieces. It counts in how many the heads of CONTINUATION
 * frames come, and ends the connection at the ninth. Where no stream is open it ignores what comes
 * after the piece that a GOAWAY ends in. */
static struct mst_slice comparable(struct mst_slice stream)
{
    const unsigned char *bytes = stream.data;

    for (size_t at = HTTP2_MAGIC; at + HTTP2_HEAD <= stream.size;) {
        const unsigned char *head = bytes + at;
        size_t end = at + HTTP2_HEAD + ((size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2]);

        if ((head[3] == HTTP2_HEADERS || head[3] == HTTP2_PUSH_PROMISE) &&
            !(head[4] & HTTP2_END_HEADERS)) {
            return mst_slice_of(bytes, at);
        }
        if (head[3] == HTTP2_GOAWAY && end < stream.size) {
            return mst_slice_of(bytes, end);
        }
        at = end;
    }
    return stream;
}

static muster_status give(void *ctx, struct mst_slice piece, struct mst_prng *prng)
{
    (void)prng;
    mst_xla_front.received(ctx, 0, PIECES, piece);
    return MUSTER_MORE;
}

static void drain(void *front)
{
    const struct mst_front_effect *effect;

    mst_xla_front.check(front);
    while ((effect = mst_xla_front.next(front)) != NULL) {
        struct end *end = end_of(effect->connection);

        MST_ASSERT(effect->kind == MST_FRONT_SEND || effect->kind == MST_FRONT_CLOSE);
        say(end, effect->bytes);
        end->closed = effect->kind == MST_FRONT_CLOSE;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct mst_front_config config = {
        .size = 1, .limits = {.value_bytes_max = VALUE_MAX, .key_bytes_max = VALUE_MAX}};
    struct fuzz_bytes bytes = {.at = data, .left = size};
    bool raw = fuzz_u8(&bytes) % 2;
    uint8_t seed = fuzz_u8(&bytes);
    struct mst_slice stream = raw ? fuzz_slice(&bytes, STREAM_MAX) : compose(&bytes);
    struct counted_mem counted;
    void *front;

    stream = comparable(stream);
    counted_mem_init(&counted, 0);
    whole.size = whole.calls = pieces.size = pieces.calls = 0;
    whole.closed = pieces.closed = false;
    MST_ASSERT(mst_xla_front.new(&front, &config, &counted.mem) == MUSTER_OK);
    mst_xla_front.connected(front, 0, WHOLE);
    mst_xla_front.connected(front, 0, PIECES);
    mst_xla_front.received(front, 0, WHOLE, stream);
    (void)fuzz_stream_give(stream, seed, MUSTER_MORE, give, front);
    drain(front);
    MST_ASSERT(whole.calls == pieces.calls && whole.closed == pieces.closed &&
               whole.size == pieces.size && memcmp(whole.said, pieces.said, whole.size) == 0);
    MST_ASSERT(counted.peak <= MEMORY_BASE + MEMORY_BYTE * stream.size);
    mst_xla_front.free(front);
    MST_ASSERT(counted.live == 0);
    return 0;
}
