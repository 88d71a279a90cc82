/* SPDX-License-Identifier: Apache-2.0 */
/* The client's side of one native connection. It does not wait for the welcome: preamble, hello and
 * the first request leave together, which saves a round trip. */
#include "base/panic.h"
#include "proto/greeting.h"
#include "proto/native/native.h"

enum {
    REPLY_FACTOR = 64,      /* a gather of nothing from many unpacks to much more than its bytes */
    FRAME_BYTES_LEAST = 64, /* of a service that makes sense */
    FRAME_BYTES_MOST = 536870912
};

static const char program_name[] = "libmuster";

static muster_status greet(struct mst_native_client *client)
{
    const struct mst_hello hello = {.version_min = MST_NATIVE_VERSION,
                                    .version_max = MST_NATIVE_VERSION,
                                    .program = mst_slice_text(program_name)};
    size_t size;

    if (!mst_buffer_append(&client->stream.out,
                           mst_slice_of(mst_native_preamble, MST_NATIVE_PREAMBLE_SIZE))) {
        return MUSTER_ENOMEM;
    }
    return mst_native_stream_put(&client->stream, &mst_hello_fields, &hello, &size);
}

muster_status mst_native_client_new(struct mst_native_client **out, const struct mst_limits *limits,
                                    const struct mst_mem *mem)
{
    struct mst_native_client *client = mem->alloc(mem->ctx, sizeof(*client));

    if (!client) {
        return MUSTER_ENOMEM;
    }
    client->welcomed = false;
    client->refused = false;
    client->limits = *limits;
    mst_native_stream_init(&client->stream, mem, (size_t)limits->frame_bytes_max,
                           (size_t)limits->output_bytes_max);
    client->stream.memory_factor = REPLY_FACTOR;
    if (greet(client) != MUSTER_OK) {
        mst_native_client_free(client);
        return MUSTER_ENOMEM;
    }
    *out = client;
    return MUSTER_OK;
}

void mst_native_client_free(struct mst_native_client *client)
{
    const struct mst_mem *mem;

    if (!client) {
        return;
    }
    mem = client->stream.mem;
    mst_native_stream_fini(&client->stream);
    mst_mem_release(mem, client);
}

muster_status mst_native_client_send(struct mst_native_client *client,
                                     const struct mst_request *request)
{
    size_t size;

    return client->stream.dead
               ? client->stream.dead
               : mst_native_stream_put(&client->stream, &mst_request_fields, request, &size);
}

static muster_status refused(struct mst_native_client *client, struct mst_slice why)
{
    return mst_native_stream_fail(&client->stream, MUSTER_EPROTO, "the service refused: %.*s",
                                  MST_SLICE_ARGS(why));
}

static muster_status nonsense(struct mst_native_client *client, const char *what, int64_t number)
{
    return mst_native_stream_fail(&client->stream, MUSTER_EPROTO, "%s %" PRId64 " is not known",
                                  what, number);
}

static muster_status take_welcome(struct mst_native_client *client)
{
    struct mst_welcome welcome;
    struct mst_wrong wrong;
    muster_status status =
        mst_native_stream_next(&client->stream, &mst_welcome_fields, &welcome, &wrong);

    if (status != MUSTER_OK) {
        return status;
    }
    if (welcome.version == 0) {
        client->refused = true;
        return refused(client, welcome.refusal);
    }
    if (welcome.version != MST_NATIVE_VERSION) {
        return nonsense(client, "version", welcome.version);
    }
    if (welcome.frame_bytes_max < FRAME_BYTES_LEAST || welcome.frame_bytes_max > FRAME_BYTES_MOST) {
        return nonsense(client, "a limit for frames of", (int64_t)welcome.frame_bytes_max);
    }
    client->limits.frame_bytes_max = welcome.frame_bytes_max;
    client->limits.key_bytes_max = welcome.key_bytes_max;
    client->limits.value_bytes_max = welcome.value_bytes_max;
    client->limits.contribution_bytes_max = welcome.contribution_bytes_max;
    mst_native_stream_limit(&client->stream, (size_t)welcome.frame_bytes_max);
    client->welcomed = true;
    return MUSTER_OK;
}

muster_status mst_native_client_next(struct mst_native_client *client, struct mst_reply *out)
{
    struct mst_wrong wrong;
    muster_status status = client->welcomed ? MUSTER_OK : take_welcome(client);

    if (status == MUSTER_OK) {
        status = mst_native_stream_next(&client->stream, &mst_reply_fields, out, &wrong);
    }
    if (status == MUSTER_MORE || client->stream.dead) {
        return status;
    }
    if (out->id == 0 && (out->command != MST_OPEN || out->addresses.size == 0)) {
        return refused(client, out->value);
    }
    if (status != MUSTER_OK) {
        (void)mst_native_stream_wrong(&client->stream, status, &wrong);
    }
    return status;
}
