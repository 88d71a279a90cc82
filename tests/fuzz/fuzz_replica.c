/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a connection between two replicas: whatever they are, in any pieces they are the
 * same messages and the same end; a message that was read is the same bytes when it is written
 * again; and memory is bounded by what came.
 *
 * behaviour: fuzzing / Fuzzing, races, leaks */
#include "fuzz.h"

#include "base/panic.h"
#include "bytes.h"
#include "counted_mem.h"
#include "service/replica/message.h"
#include "stream.h"

/* One side of a connection. */
struct end {
    struct mst_replica_reader reader;
    const struct mst_mem *mem;
    struct mst_slice left; /* of what is sent: not read as messages yet */
    size_t messages;
    const char *why; /* it was refused; NULL: it was not */
};

/* What was read is written again, and is what had come. */
static void check_again(struct end *end, const struct mst_replica_message *message)
{
    struct mst_buffer buffer;
    struct mst_slice again;

    mst_buffer_init(&buffer, end->mem, MST_REPLICA_MESSAGE_MAX);
    MST_ASSERT(mst_replica_message_write(&buffer, message) == MUSTER_OK);
    again = mst_buffer_content(&buffer);
    MST_ASSERT(mst_slice_starts_with(end->left, again));
    end->left = mst_slice_from(end->left, again.size);
    end->messages++;
    mst_buffer_fini(&buffer);
}

static muster_status give(void *ctx, struct mst_slice piece, struct mst_prng *prng)
{
    struct end *end = ctx;
    struct mst_replica_message message;
    muster_status status;

    (void)prng;
    MST_ASSERT(mst_replica_reader_take(&end->reader, piece) == MUSTER_OK);
    while ((status = mst_replica_reader_next(&end->reader, &message, &end->why)) == MUSTER_OK) {
        check_again(end, &message);
    }
    MST_ASSERT((status == MUSTER_EPROTO) == (end->why != NULL));
    return status;
}

static void end_init(struct end *end, struct mst_slice stream, bool admitted,
                     const struct mst_mem *mem)
{
    *end = (struct end){.mem = mem, .left = stream};
    mst_replica_reader_init(&end->reader, mem);
    if (admitted) {
        mst_replica_reader_admit(&end->reader);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_bytes bytes = {.at = data, .left = size};
    bool admitted = fuzz_u8(&bytes) % 2;
    uint8_t seed = fuzz_u8(&bytes);
    struct mst_slice stream = fuzz_slice(&bytes, MST_REPLICA_TAKE_MAX);
    struct counted_mem counted;
    struct end whole, pieces;

    counted_mem_init(&counted, 0);
    end_init(&whole, stream, admitted, &counted.mem);
    end_init(&pieces, stream, admitted, &counted.mem);
    MST_ASSERT(give(&whole, stream, NULL) ==
               fuzz_stream_give(stream, seed, MUSTER_MORE, give, &pieces));
    MST_ASSERT(whole.messages == pieces.messages && whole.left.size == pieces.left.size &&
               whole.why == pieces.why);
    MST_ASSERT(counted.peak <= 8 * size + 4096);
    mst_replica_reader_fini(&whole.reader);
    mst_replica_reader_fini(&pieces.reader);
    MST_ASSERT(counted.live == 0);
    return 0;
}
