/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a connection between two replicas: whatever they are, in any pieces they are the
 * same messages and the same end; a message that was read is the same bytes when it is written
 * again; and memory is bounded by what came. */
#include "fuzz.h"

#include "base/digest.h"
#include "base/panic.h"
#include "bytes.h"
#include "counted_mem.h"
#include "service/replica/message.h"

struct outcome {
    uint64_t digest;
    size_t messages;
    bool refused;
};

/* What was read is written again, and is what had come at `offset`. */
static void check_again(const struct mst_replica_message *message, struct mst_slice whole,
                        size_t *offset, const struct mst_mem *mem)
{
    struct mst_buffer buffer;
    struct mst_slice again;

    mst_buffer_init(&buffer, mem, MST_REPLICA_MESSAGE_MAX);
    MST_ASSERT(mst_replica_message_write(&buffer, message) == MUSTER_OK);
    again = mst_buffer_content(&buffer);
    MST_ASSERT(mst_slice_starts_with(mst_slice_from(whole, *offset), again));
    *offset += again.size;
    mst_buffer_fini(&buffer);
}

static struct outcome read_all(struct mst_slice bytes, size_t most, bool admitted,
                               const struct mst_mem *mem)
{
    struct outcome outcome = {.digest = MST_DIGEST_INIT};
    struct mst_replica_reader reader;
    struct mst_replica_message message;
    struct mst_slice left = bytes;
    size_t offset = 0;
    const char *why = NULL;

    mst_replica_reader_init(&reader, mem);
    if (admitted) {
        mst_replica_reader_admit(&reader);
    }
    while (left.size > 0 && !outcome.refused) {
        size_t size = left.size < most ? left.size : most;
        muster_status status;

        MST_ASSERT(mst_replica_reader_take(&reader, mst_slice_of(left.data, size)) == MUSTER_OK);
        left = mst_slice_from(left, size);
        while ((status = mst_replica_reader_next(&reader, &message, &why)) == MUSTER_OK) {
            check_again(&message, bytes, &offset, mem);
            outcome.messages++;
        }
        if (status == MUSTER_EPROTO) {
            outcome.refused = true;
            outcome.digest = mst_digest_slice(outcome.digest, mst_slice_text(why));
        }
    }
    outcome.digest = mst_digest_number(outcome.digest, offset);
    mst_replica_reader_fini(&reader);
    return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_bytes bytes = {.at = data, .left = size};
    bool admitted = fuzz_u8(&bytes) % 2;
    size_t most = 1 + fuzz_u8(&bytes);
    struct mst_slice stream = fuzz_slice(&bytes, size);
    struct counted_mem counted;
    struct outcome whole, pieces;

    counted_mem_init(&counted, 0);
    whole = read_all(stream, MST_REPLICA_TAKE_MAX, admitted, &counted.mem);
    pieces = read_all(stream, most, admitted, &counted.mem);
    MST_ASSERT(whole.digest == pieces.digest && whole.messages == pieces.messages &&
               whole.refused == pieces.refused);
    MST_ASSERT(counted.live == 0 && counted.peak <= 8 * size + 4096);
    return 0;
}
