/* SPDX-License-Identifier: Apache-2.0 */
/* Framing is the native dialect's; only the preamble and what a frame holds are other ones. */
#include "proto/cluster/cluster.h"

enum { FRAME_BYTES = MST_CLUSTER_BYTES_MAX + (4 << 20), FRAMES_OF_OUTPUT = 4 };

const struct mst_cluster_codec_limits mst_cluster_codec_limits_default = {
    .frame_bytes_max = FRAME_BYTES, .output_bytes_max = FRAMES_OF_OUTPUT * (size_t)FRAME_BYTES};

/* `MUSTER`, 'C', the version of the framing. */
static const unsigned char preamble[MST_NATIVE_PREAMBLE_SIZE] = {'M', 'U', 'S', 'T',
                                                                 'E', 'R', 'C', 1};

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
    mst_native_stream_fini(&codec->stream);
    mst_mem_release(mem, codec);
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

muster_status mst_cluster_codec_send(struct mst_cluster_codec *codec,
                                     const struct mst_cluster_message *message)
{
    size_t size;

    return counts_fit(message)
               ? mst_native_stream_put(&codec->stream, &mst_cluster_fields, message, &size)
               : MUSTER_ELIMIT;
}

/* ---- in ---- */

static muster_status take_preamble(struct mst_cluster_codec *codec)
{
    muster_status status = codec->stream.dead;

    if (status == MUSTER_OK) {
        status = mst_native_stream_preamble(&codec->stream, preamble, "cluster", "cluster");
        codec->greeted = status == MUSTER_OK;
    }
    return status;
}

/* What no table says. */
static void tidy(struct mst_cluster_message *message)
{
    bool share = message->fraction >= 0 && message->fraction <= 1; /* a NaN is neither */

    if (!share) {
        message->fraction = -1;
    }
    if (message->failure.origin == MST_ORIGIN_NONE) {
        message->failure.worker = MST_WORKER_NONE;
    }
}

muster_status mst_cluster_codec_next(struct mst_cluster_codec *codec,
                                     struct mst_cluster_message *out)
{
    struct mst_wrong wrong;
    muster_status status = codec->greeted ? MUSTER_OK : take_preamble(codec);

    if (status == MUSTER_OK) {
        status = mst_native_stream_next(&codec->stream, &mst_cluster_fields, out, &wrong);
    }
    if (status == MUSTER_OK) {
        tidy(out);
    } else if (status == MUSTER_EPROTO && !codec->stream.dead) {
        (void)mst_native_stream_wrong(&codec->stream, status, &wrong);
    }
    return status;
}
