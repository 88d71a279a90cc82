/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/native/stream.h"

#include <string.h>

enum {
    IDLE_ROOM = 1024,        /* an empty buffer with more room than this gives it back */
    MEMORY_FLOOR = 16 << 20, /* many small things unpack to more than their size */
    SERVICE_FACTOR = 4,
    SMALL_MESSAGE = 256
};

const unsigned char mst_native_preamble[MST_NATIVE_PREAMBLE_SIZE] = {'M', 'U', 'S', 'T',
                                                                     'E', 'R', 0,   1};

void mst_native_stream_init(struct mst_native_stream *stream, const struct mst_mem *mem,
                            size_t frame_bytes_max, size_t output_bytes_max)
{
    stream->mem = mem;
    mst_buffer_init(&stream->in, mem, 0);
    mst_native_stream_limit(stream, frame_bytes_max);
    mst_buffer_init(&stream->out, mem, output_bytes_max);
    mst_native_arena_init(&stream->arena, mem);
    stream->lent = mst_slice_of(NULL, 0);
    stream->memory_factor = SERVICE_FACTOR;
    stream->taken = 0;
    stream->offset = 0;
    stream->dead = MUSTER_OK;
    stream->reason[0] = '\0';
}

void mst_native_stream_limit(struct mst_native_stream *stream, size_t frame_bytes_max)
{
    size_t size_max = 2 * (frame_bytes_max + MST_NATIVE_HEAD_SIZE);

    /* What is not whole is at most one frame; beside it there is room for one more piece of input,
     * which may be as long as a frame. Never less than what is there already. */
    stream->frame_bytes_max = frame_bytes_max;
    if (size_max > stream->in.size_max) {
        stream->in.size_max = size_max;
    }
}

void mst_native_stream_fini(struct mst_native_stream *stream)
{
    mst_native_arena_fini(&stream->arena);
    mst_buffer_fini(&stream->in);
    mst_buffer_fini(&stream->out);
}

muster_status mst_native_stream_fail(struct mst_native_stream *stream, muster_status status,
                                     const char *format, ...)
{
    struct mst_text text = mst_text_in(stream->reason, sizeof(stream->reason));
    va_list arguments;

    stream->dead = status;
    mst_text_format(&text, "at byte %" PRIu64 ": ", stream->offset);
    va_start(arguments, format);
    mst_text_format_list(&text, format, arguments);
    va_end(arguments);
    return status;
}

muster_status mst_native_stream_wrong(struct mst_native_stream *stream, muster_status status,
                                      const struct mst_wrong *wrong)
{
    char why[sizeof(stream->reason)];
    struct mst_text text = mst_text_in(why, sizeof(why));

    mst_wrong_say(&text, wrong);
    return mst_native_stream_fail(stream, status, "%s", why);
}

/* Thousands of connections are idle most of the time. */
static void rest(struct mst_buffer *buffer)
{
    if (buffer->start == buffer->end && buffer->room > IDLE_ROOM) {
        const struct mst_mem *mem = buffer->mem;
        size_t size_max = buffer->size_max;

        mst_buffer_fini(buffer);
        mst_buffer_init(buffer, mem, size_max);
    }
}

struct mst_slice mst_native_stream_content(const struct mst_native_stream *stream)
{
    return stream->lent.size > 0 ? stream->lent : mst_buffer_content(&stream->in);
}

muster_status mst_native_stream_preamble(struct mst_native_stream *stream,
                                         const unsigned char expected[MST_NATIVE_PREAMBLE_SIZE],
                                         const char *peer, const char *self)
{
    struct mst_slice content = mst_native_stream_content(stream);
    const unsigned char *bytes = content.data;

    for (size_t i = 0; i < content.size && i < MST_NATIVE_PREAMBLE_SIZE; i++) {
        if (bytes[i] == expected[i]) {
            continue;
        }
        stream->offset = i;
        if (i == MST_NATIVE_PREAMBLE_SIZE - 1) {
            return mst_native_stream_fail(stream, MUSTER_EPROTO,
                                          "framing version %d, this %s speaks %d", bytes[i], self,
                                          expected[i]);
        }
        return mst_native_stream_fail(stream, MUSTER_EPROTO,
                                      "no muster %s: byte 0x%x where the preamble has 0x%x", peer,
                                      bytes[i], expected[i]);
    }
    if (content.size < MST_NATIVE_PREAMBLE_SIZE) {
        return MUSTER_MORE;
    }
    stream->taken = MST_NATIVE_PREAMBLE_SIZE;
    return MUSTER_OK;
}

static void drop_taken(struct mst_native_stream *stream)
{
    const unsigned char *lent = stream->lent.data;

    if (stream->lent.size > 0) {
        stream->lent = mst_slice_of(lent + stream->taken, stream->lent.size - stream->taken);
    } else {
        mst_buffer_take(&stream->in, stream->taken);
    }
    stream->offset += stream->taken;
    stream->taken = 0;
}

static muster_status take_in(struct mst_native_stream *stream, struct mst_slice in)
{
    if (!mst_buffer_append(&stream->in, in)) {
        return mst_native_stream_fail(stream, MUSTER_ENOMEM, "no memory for %zu bytes of input",
                                      in.size);
    }
    return MUSTER_OK;
}

muster_status mst_native_stream_keep(struct mst_native_stream *stream)
{
    struct mst_slice left;

    if (stream->dead) {
        return stream->dead;
    }
    drop_taken(stream);
    left = stream->lent;
    stream->lent = mst_slice_of(NULL, 0);
    return take_in(stream, left);
}

muster_status mst_native_stream_feed(struct mst_native_stream *stream, struct mst_slice in)
{
    muster_status status = mst_native_stream_keep(stream);

    return status == MUSTER_OK ? take_in(stream, in) : status;
}

muster_status mst_native_stream_lend(struct mst_native_stream *stream, struct mst_slice in)
{
    muster_status status = mst_native_stream_keep(stream);

    if (status == MUSTER_OK && mst_buffer_content(&stream->in).size > 0) {
        return take_in(stream, in);
    }
    if (status == MUSTER_OK) {
        stream->lent = in;
    }
    return status;
}

struct mst_slice mst_native_stream_output(const struct mst_native_stream *stream)
{
    return mst_buffer_content(&stream->out);
}

void mst_native_stream_written(struct mst_native_stream *stream, size_t size)
{
    mst_buffer_take(&stream->out, size);
    rest(&stream->out);
}

muster_status mst_native_stream_end(struct mst_native_stream *stream)
{
    size_t left;

    if (stream->dead) {
        return stream->dead;
    }
    drop_taken(stream);
    left = mst_native_stream_content(stream).size;
    if (left == 0) {
        return MUSTER_OK;
    }
    return mst_native_stream_fail(stream, MUSTER_EPROTO,
                                  "closed in the middle of a frame, after %zu bytes of it", left);
}

static muster_status refuse_length(struct mst_native_stream *stream, size_t length)
{
    (void)mst_native_stream_fail(stream, MUSTER_EPROTO,
                                 "a frame of %zu bytes is over the limit of %zu%s", length,
                                 stream->frame_bytes_max,
                                 /* of a service: a client's first bytes are the preamble */
                                 stream->offset == 0 ? ": it speaks another protocol" : "");
    return MUSTER_EPROTO;
}

/* The payload of the frame at the front. */
static muster_status whole_frame(struct mst_native_stream *stream, struct mst_slice *out)
{
    struct mst_slice content;
    const unsigned char *bytes;
    size_t length;

    if (stream->dead) {
        return stream->dead;
    }
    drop_taken(stream);
    content = mst_native_stream_content(stream);
    bytes = content.data;
    if (content.size < MST_NATIVE_HEAD_SIZE) {
        return MUSTER_MORE;
    }
    length = (size_t)bytes[0] << 24 | (size_t)bytes[1] << 16 | (size_t)bytes[2] << 8 | bytes[3];
    if (length > stream->frame_bytes_max) {
        return refuse_length(stream, length);
    }
    if (content.size - MST_NATIVE_HEAD_SIZE < length) {
        return MUSTER_MORE;
    }
    stream->taken = MST_NATIVE_HEAD_SIZE + length;
    *out = mst_slice_of(bytes + MST_NATIVE_HEAD_SIZE, length);
    return MUSTER_OK;
}

static muster_status refuse_payload(struct mst_native_stream *stream, struct mst_slice payload,
                                    const struct mst_wrong *wrong)
{
    if (stream->arena.starved) {
        return mst_native_stream_fail(stream, MUSTER_ENOMEM,
                                      "no memory to unpack a message of %zu bytes", payload.size);
    }
    if (stream->arena.full) {
        return mst_native_stream_fail(stream, MUSTER_EPROTO,
                                      "a message of %zu bytes would take more than %zu of memory",
                                      payload.size, stream->arena.used_max);
    }
    return mst_native_stream_wrong(stream, MUSTER_EPROTO, wrong);
}

muster_status mst_native_stream_frame(struct mst_native_stream *stream, struct mst_slice *out)
{
    muster_status status = whole_frame(stream, out);

    if (status != MUSTER_OK) {
        mst_native_arena_reset(&stream->arena, 0);
        rest(&stream->in);
        return status;
    }
    mst_native_arena_reset(&stream->arena, MEMORY_FLOOR + stream->memory_factor * out->size);
    return MUSTER_OK;
}

muster_status mst_native_stream_decode(struct mst_native_stream *stream,
                                       const struct mst_message *type, struct mst_slice payload,
                                       void *out, struct mst_wrong *wrong)
{
    muster_status status = mst_decode(type, out, payload, &stream->arena, wrong);

    return status == MUSTER_OK || (status == MUSTER_EPROTO && !wrong->why)
               ? status
               : refuse_payload(stream, payload, wrong);
}

muster_status mst_native_stream_next(struct mst_native_stream *stream,
                                     const struct mst_message *type, void *out,
                                     struct mst_wrong *wrong)
{
    struct mst_slice payload;
    muster_status status = mst_native_stream_frame(stream, &payload);

    return status == MUSTER_OK ? mst_native_stream_decode(stream, type, payload, out, wrong)
                               : status;
}

/* Room for a frame with a payload of `size` bytes. */
static muster_status open_frame(struct mst_native_stream *stream, size_t size, unsigned char **out)
{
    size_t left = stream->out.size_max - mst_buffer_content(&stream->out).size;

    if (size > stream->frame_bytes_max || size > UINT32_MAX || MST_NATIVE_HEAD_SIZE + size > left) {
        return MUSTER_ELIMIT;
    }
    *out = mst_buffer_reserve(&stream->out, MST_NATIVE_HEAD_SIZE + size);
    return *out ? MUSTER_OK : MUSTER_ENOMEM;
}

/* Most messages are small: they are encoded once. Encoding another one says how large it is. */
muster_status mst_native_stream_put(struct mst_native_stream *stream,
                                    const struct mst_message *type, const void *from, size_t *size)
{
    unsigned char small[SMALL_MESSAGE], *frame;
    muster_status status;

    *size = mst_encode(type, from, small, sizeof small);
    if (*size == 0 && type->which) {
        return MUSTER_EINVAL;
    }
    status = open_frame(stream, *size, &frame);
    if (status != MUSTER_OK) {
        return status;
    }
    frame[0] = (unsigned char)(*size >> 24);
    frame[1] = (unsigned char)(*size >> 16);
    frame[2] = (unsigned char)(*size >> 8);
    frame[3] = (unsigned char)*size;
    if (*size <= sizeof small) {
        memcpy(frame + MST_NATIVE_HEAD_SIZE, small + sizeof small - *size, *size);
    } else {
        (void)mst_encode(type, from, frame + MST_NATIVE_HEAD_SIZE, *size);
    }
    mst_buffer_commit(&stream->out, MST_NATIVE_HEAD_SIZE + *size);
    return MUSTER_OK;
}
