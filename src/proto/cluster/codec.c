/* SPDX-License-Identifier: Apache-2.0 */
/* Framing is the native dialect's; only the preamble and what a frame holds are other ones. */
#include "proto/cluster/cluster.h"
#include "proto/cluster/message.h"
#include "proto/cluster/quick.h"
#include "proto/native/stream.h"

enum { FRAME_BYTES = MST_CLUSTER_BYTES_MAX + (4 << 20), FRAMES_OF_OUTPUT = 4 };

const struct mst_cluster_codec_limits mst_cluster_codec_limits_default = {
    .frame_bytes_max = FRAME_BYTES, .output_bytes_max = FRAMES_OF_OUTPUT * (size_t)FRAME_BYTES};

/* `MUSTER`, 'C', the version of the framing. */
static const unsigned char preamble[MST_NATIVE_PREAMBLE_SIZE] = {'M', 'U', 'S', 'T',
                                                                 'E', 'R', 'C', 1};

struct mst_cluster_codec {
    bool greeted; /* the other side's preamble was taken in */
    struct mst_native_stream stream;
    struct mst_native_arena scratch; /* of the message that is being packed */
};

muster_status mst_cluster_codec_new(struct mst_cluster_codec **out,
                                    const struct mst_cluster_codec_limits *limits,
                                    const struct mst_mem *mem)
{
    struct mst_cluster_codec *codec = mem->alloc(mem->ctx, sizeof(*codec));

    if (!codec) {
        return MUSTER_ENOMEM;
    }
    if (!limits) {
        limits = &mst_cluster_codec_limits_default;
    }
    codec->greeted = false;
    mst_native_stream_init(&codec->stream, mem, limits->frame_bytes_max,
                           limits->output_bytes_max > 0 ? limits->output_bytes_max : SIZE_MAX / 2);
    mst_native_arena_init(&codec->scratch, mem);
    if (!mst_buffer_append(&codec->stream.out, mst_slice_of(preamble, MST_NATIVE_PREAMBLE_SIZE))) {
        mst_cluster_codec_free(codec);
        return MUSTER_ENOMEM;
    }
    *out = codec;
    return MUSTER_OK;
}

void mst_cluster_codec_free(struct mst_cluster_codec *codec)
{
    const struct mst_mem *mem;

    if (!codec) {
        return;
    }
    mem = codec->stream.mem;
    mst_native_arena_fini(&codec->scratch);
    mst_native_stream_fini(&codec->stream);
    mst_mem_release(mem, codec);
}

void mst_cluster_codec_limit(struct mst_cluster_codec *codec, size_t frame_bytes_max)
{
    mst_native_stream_limit(&codec->stream, frame_bytes_max);
}

/* ---- out ---- */

static bool counts_fit(const struct mst_cluster_message *message)
{
    return message->parts.count <= MST_CLUSTER_PARTS_MAX &&
           message->need_count <= MST_CLUSTER_PARTS_MAX &&
           message->value_count <= MST_CLUSTER_VALUES_MAX &&
           message->function_count <= MST_CLUSTER_FUNCTIONS_MAX &&
           message->held_count <= MST_CLUSTER_HELD_MAX;
}

uint64_t mst_cluster_codec_size_max(const struct mst_cluster_message *message)
{
    enum {
        NUMBER = 10,  /* digits */
        ITEM = 24,    /* all of an item but its bytes */
        FAILURE = 64, /* likewise */
        REST = 256    /* likewise */
    };
    const struct mst_failure *failure = &message->failure;
    uint64_t size = REST + (uint64_t)message->cluster.size + message->host.size +
                    message->key.size + message->text.size;

    if (!counts_fit(message)) {
        return UINT64_MAX;
    }
    size += (uint64_t)NUMBER * message->need_count + (uint64_t)NUMBER * message->value_count +
            (uint64_t)ITEM * message->held_count;
    for (uint32_t i = 0; i < message->function_count; i++) {
        size += ITEM + (uint64_t)message->functions[i].name.size;
    }
    for (uint32_t i = 0; i < message->parts.count; i++) {
        size += ITEM + (uint64_t)message->parts.items[i].data.size;
    }
    for (uint32_t left = mst_cluster_failure_depth(failure); left > 0; left--) {
        size += FAILURE + (uint64_t)mst_cluster_failure_text(failure->text).size +
                mst_cluster_failure_text(failure->state).size;
        failure = failure->cause;
    }
    return size;
}

static muster_status send_slowly(struct mst_cluster_codec *codec,
                                 const struct mst_cluster_message *message)
{
    struct mst_cluster_schema_message schema;
    muster_status status;

    mst_native_arena_reset(&codec->scratch, SIZE_MAX);
    status = mst_cluster_message_encode(&schema, message, &codec->scratch);
    if (status == MUSTER_OK &&
        protobuf_c_message_get_packed_size(&schema.base.base) > codec->stream.frame_bytes_max) {
        status = MUSTER_ELIMIT;
    }
    if (status == MUSTER_OK) {
        status = mst_native_stream_put(&codec->stream, &schema.base.base);
    }
    mst_native_arena_reset(&codec->scratch, SIZE_MAX);
    return status;
}

static muster_status send_quickly(struct mst_cluster_codec *codec,
                                  const struct mst_cluster_message *message)
{
    struct mst_cluster_quick_size size = mst_cluster_quick_size(message);
    muster_status why = MUSTER_OK;
    unsigned char *bytes;

    if (size.payload > codec->stream.frame_bytes_max) {
        return MUSTER_ELIMIT;
    }
    bytes = mst_native_stream_open(&codec->stream, (size_t)size.payload, &why);
    if (bytes) {
        mst_cluster_quick_write(bytes, message, size);
        mst_native_stream_close(&codec->stream, (size_t)size.payload);
    }
    return why;
}

muster_status mst_cluster_codec_send(struct mst_cluster_codec *codec,
                                     const struct mst_cluster_message *message)
{
    if (!counts_fit(message)) {
        return MUSTER_ELIMIT;
    }
    return mst_cluster_quick_suits(message) ? send_quickly(codec, message)
                                            : send_slowly(codec, message);
}

struct mst_slice mst_cluster_codec_output(const struct mst_cluster_codec *codec)
{
    return mst_native_stream_output(&codec->stream);
}

void mst_cluster_codec_written(struct mst_cluster_codec *codec, size_t size)
{
    mst_native_stream_written(&codec->stream, size);
}

/* ---- in ---- */

muster_status mst_cluster_codec_feed(struct mst_cluster_codec *codec, struct mst_slice in)
{
    return mst_native_stream_feed(&codec->stream, in);
}

muster_status mst_cluster_codec_lend(struct mst_cluster_codec *codec, struct mst_slice in)
{
    return mst_native_stream_lend(&codec->stream, in);
}

muster_status mst_cluster_codec_keep(struct mst_cluster_codec *codec)
{
    return mst_native_stream_keep(&codec->stream);
}

muster_status mst_cluster_codec_end(struct mst_cluster_codec *codec)
{
    return mst_native_stream_end(&codec->stream);
}

const char *mst_cluster_codec_reason(const struct mst_cluster_codec *codec)
{
    return codec->stream.reason;
}

static muster_status refuse(struct mst_cluster_codec *codec, muster_status status,
                            const struct mst_native_fault *fault)
{
    bool starved = status == MUSTER_ENOMEM && codec->stream.arena.starved;
    muster_status dead = starved ? MUSTER_ENOMEM : MUSTER_EPROTO;

    return fault->what ? mst_native_stream_fail(&codec->stream, dead, "%s %" PRId64, fault->what,
                                                fault->number)
                       : mst_native_stream_fail(&codec->stream, dead, "%s",
                                                starved ? "no memory for a message"
                                                        : "a message of too much memory");
}

static muster_status take_preamble(struct mst_cluster_codec *codec)
{
    muster_status status = codec->stream.dead;

    if (status == MUSTER_OK) {
        status = mst_native_stream_preamble(&codec->stream, preamble, "cluster", "cluster");
        codec->greeted = status == MUSTER_OK;
    }
    return status;
}

static muster_status read_slowly(struct mst_cluster_codec *codec, struct mst_slice payload,
                                 struct mst_cluster_message *out)
{
    struct mst_native_fault fault = {0};
    ProtobufCMessage *message = NULL;
    muster_status status = mst_native_stream_unpack(
        &codec->stream, &muster__cluster__message__descriptor, payload, &message);

    if (status != MUSTER_OK) {
        return status;
    }
    status = mst_cluster_message_decode(
        out, (const Muster__Cluster__Message *)(const void *)message, &codec->stream.arena, &fault);
    return status == MUSTER_OK ? MUSTER_OK : refuse(codec, status, &fault);
}

muster_status mst_cluster_codec_next(struct mst_cluster_codec *codec,
                                     struct mst_cluster_message *out)
{
    struct mst_slice payload;
    muster_status status = codec->greeted ? MUSTER_OK : take_preamble(codec);

    if (status == MUSTER_OK) {
        status = mst_native_stream_frame(&codec->stream, &payload);
    }
    if (status != MUSTER_OK || mst_cluster_quick_read(out, payload, &codec->stream.arena)) {
        return status;
    }
    return read_slowly(codec, payload, out);
}
