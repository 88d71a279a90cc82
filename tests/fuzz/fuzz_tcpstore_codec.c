/* SPDX-License-Identifier: Apache-2.0 */
/* A TCPStore client sends any bytes. In any pieces they are the same requests, and the same words
 * end the connection; a request that was read is the same bytes when it is written again; memory
 * is bounded by what came.
 *
 * The first byte: 1, the client has said its VALIDATE.
 *
 * behaviour: fuzzing / Fuzzing, races, leaks */
#include "fuzz.h"

#include "base/panic.h"
#include "bytes.h"
#include "counted_mem.h"
#include "fronts/tcpstore/codec.h"
#include "stream.h"

enum { VALUE_MAX = 256, STREAM_MAX = 8192 };

/* One side of a connection. */
struct end {
    struct mst_tcpstore_reader reader;
    struct mst_slice left; /* of what is sent: not read as requests yet */
    size_t requests;
    char why[MST_TCPSTORE_WHY_MAX];
};

/* `bytes` are what comes next. */
static void came(struct end *end, struct mst_slice bytes)
{
    MST_ASSERT(mst_slice_starts_with(end->left, bytes));
    end->left = mst_slice_from(end->left, bytes.size);
}

static void number_came(struct end *end, uint64_t number, size_t size)
{
    unsigned char bytes[8];

    mst_tcpstore_put_number(bytes, number);
    came(end, mst_slice_of(bytes, size));
}

static void item_came(struct end *end, struct mst_slice item)
{
    number_came(end, item.size, 8);
    came(end, item);
}

static void list_came(struct end *end, const struct mst_tcpstore_request *request, unsigned of)
{
    struct mst_slice list = request->list;

    number_came(end, request->count, 8);
    for (uint64_t i = 0; i < of * request->count; i++) {
        item_came(end, mst_tcpstore_item(&list));
    }
    MST_ASSERT(request->key.size == 0 && request->value.size == 0);
}

static void request_came(struct end *end, const struct mst_tcpstore_request *request)
{
    number_came(end, (uint64_t)request->opcode, 1);
    switch (request->opcode) {
    case MST_TCPSTORE_VALIDATE:
    case MST_TCPSTORE_PING:
        number_came(end, (uint64_t)request->number, 4);
        break;
    case MST_TCPSTORE_SET:
    case MST_TCPSTORE_APPEND:
    case MST_TCPSTORE_QUEUE_PUSH:
        item_came(end, request->key);
        item_came(end, request->value);
        break;
    case MST_TCPSTORE_COMPARE_SET:
        item_came(end, request->key);
        item_came(end, request->value);
        item_came(end, request->desired);
        break;
    case MST_TCPSTORE_GET:
    case MST_TCPSTORE_DELETE_KEY:
    case MST_TCPSTORE_QUEUE_POP:
    case MST_TCPSTORE_QUEUE_LEN:
        item_came(end, request->key);
        break;
    case MST_TCPSTORE_ADD:
    case MST_TCPSTORE_BARRIER:
        item_came(end, request->key);
        number_came(end, (uint64_t)request->number, 8);
        break;
    case MST_TCPSTORE_CHECK:
    case MST_TCPSTORE_WAIT:
    case MST_TCPSTORE_MULTI_GET:
        list_came(end, request, 1);
        break;
    case MST_TCPSTORE_MULTI_SET:
        list_came(end, request, 2);
        break;
    case MST_TCPSTORE_GETNUMKEYS:
    case MST_TCPSTORE_CANCEL_WAIT:
    case MST_TCPSTORE_LIST_KEYS:
        break;
    case MST_TCPSTORE_OPCODES:
        MST_ASSERT(!"an opcode that does not exist");
    }
}

static muster_status give(void *ctx, struct mst_slice piece, struct mst_prng *prng)
{
    struct end *end = ctx;
    struct mst_tcpstore_request request;
    muster_status status;

    (void)prng;
    MST_ASSERT(mst_tcpstore_reader_take(&end->reader, piece) == MUSTER_OK);
    while ((status = mst_tcpstore_reader_next(&end->reader, &request, end->why)) == MUSTER_OK) {
        request_came(end, &request);
        end->requests++;
        mst_tcpstore_reader_done(&end->reader);
    }
    MST_ASSERT((status == MUSTER_EPROTO) == (end->why[0] != '\0'));
    return status;
}

static void end_init(struct end *end, struct mst_slice stream, const struct mst_mem *mem)
{
    end->left = stream;
    end->requests = 0;
    end->why[0] = '\0';
    mst_tcpstore_reader_init(&end->reader, VALUE_MAX, mem);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const unsigned char validate[] = {MST_TCPSTORE_VALIDATE, 0xCE, 0xF7, 0x85, 0x3C};
    static struct fuzz_stream stream;
    struct fuzz_bytes input = {.at = data, .left = size};
    unsigned mode = fuzz_u8(&input) & 1;
    uint8_t seed = fuzz_u8(&input);
    struct counted_mem counted;
    struct end whole, pieces;
    struct mst_slice bytes;

    fuzz_stream_compose(&stream, STREAM_MAX, mode, mst_slice_of(validate, sizeof validate), &input);
    bytes = mst_slice_of(stream.bytes, stream.size);
    counted_mem_init(&counted, 0);
    end_init(&whole, bytes, &counted.mem);
    end_init(&pieces, bytes, &counted.mem);
    MST_ASSERT(give(&whole, bytes, NULL) ==
               fuzz_stream_give(bytes, seed, MUSTER_MORE, give, &pieces));
    MST_ASSERT(whole.requests == pieces.requests && whole.left.size == pieces.left.size &&
               strcmp(whole.why, pieces.why) == 0);
    MST_ASSERT(counted.peak <= 8 * size + 4096);
    mst_tcpstore_reader_fini(&whole.reader);
    mst_tcpstore_reader_fini(&pieces.reader);
    MST_ASSERT(counted.live == 0);
    return 0;
}
