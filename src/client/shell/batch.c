/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "client/shell/call.h"
#include "client/shell/key.h"

/* As many as the largest message of any service may have. */
#define BYTES_MAX ((size_t)512 << 20)

struct muster_batch {
    struct muster_key_options options;
    struct mst_write *ops;
    char **bytes; /* key and value of each, in one piece */
    size_t size;  /* of all these */
    size_t count, room;
};

muster_status muster_batch_new(muster_batch **out, const struct muster_key_options *options)
{
    muster_batch *batch;

    if (!out) {
        return MUSTER_EINVAL;
    }
    *out = NULL;
    batch = calloc(1, sizeof(*batch));
    if (!batch) {
        return MUSTER_ENOMEM;
    }
    if (mst_lib_key_options(&batch->options, options, NULL, "batch") != MUSTER_OK) {
        free(batch);
        return MUSTER_EINVAL;
    }
    *out = batch;
    return MUSTER_OK;
}

static bool make_room(muster_batch *batch)
{
    size_t room = batch->room > 0 ? batch->room * 2 : 8;
    struct mst_write *ops;
    char **bytes;

    if (batch->count < batch->room) {
        return true;
    }
    ops = realloc(batch->ops, room * sizeof(*ops));
    if (!ops) {
        return false;
    }
    batch->ops = ops;
    bytes = realloc(batch->bytes, room * sizeof(*bytes));
    if (!bytes) {
        return false;
    }
    batch->bytes = bytes;
    batch->room = room;
    return true;
}

static muster_status add(muster_batch *batch, const char *key, struct muster_slice value,
                         struct mst_write op)
{
    size_t size = key ? strlen(key) : 0;
    char *bytes;

    if (!batch || size == 0 || (value.size > 0 && !value.data)) {
        return MUSTER_EINVAL;
    }
    if (size > BYTES_MAX - batch->size || value.size > BYTES_MAX - batch->size - size) {
        return MUSTER_ELIMIT;
    }
    bytes = make_room(batch) ? malloc(size + value.size) : NULL;
    if (!bytes) {
        return MUSTER_ENOMEM;
    }
    memcpy(bytes, key, size);
    if (value.size > 0) {
        memcpy(bytes + size, value.data, value.size);
    }
    op.owned = batch->options.owned;
    op.key = mst_slice_of(bytes, size);
    op.value = mst_slice_of(bytes + size, value.size);
    batch->size += size + value.size;
    batch->bytes[batch->count] = bytes;
    batch->ops[batch->count++] = op;
    return MUSTER_OK;
}

static const struct muster_slice nothing;

muster_status muster_batch_insert(muster_batch *batch, const char *key, struct muster_slice value)
{
    return add(batch, key, value, (struct mst_write){.kind = MST_INSERT});
}

muster_status muster_batch_put(muster_batch *batch, const char *key, struct muster_slice value)
{
    return add(batch, key, value, (struct mst_write){.kind = MST_PUT});
}

muster_status muster_batch_cas(muster_batch *batch, const char *key, uint64_t expected,
                               struct muster_slice value)
{
    return add(batch, key, value, (struct mst_write){.kind = MST_CAS, .expected = expected});
}

muster_status muster_batch_add(muster_batch *batch, const char *key, int64_t delta)
{
    return add(batch, key, nothing, (struct mst_write){.kind = MST_ADD, .delta = delta});
}

muster_status muster_batch_append(muster_batch *batch, const char *key, struct muster_slice value)
{
    return add(batch, key, value, (struct mst_write){.kind = MST_APPEND});
}

muster_status muster_batch_delete(muster_batch *batch, const char *key)
{
    return add(batch, key, nothing, (struct mst_write){.kind = MST_DELETE});
}

static muster_status apply(muster_client *client, const muster_batch *batch, int64_t timeout_ms,
                           struct mst_lib_how how)
{
    char what[64];
    struct mst_call call = {.client = client,
                            .what = what,
                            .timeout_ms = timeout_ms,
                            .request = {.command = MST_WRITE}};

    if (!batch || batch->count > UINT32_MAX) {
        return mst_lib_refuse(how.err, "apply a batch", "the batch is NULL or too long");
    }
    if (batch->count == 0) {
        return mst_lib_refuse(how.err, "apply a batch", "there is no write in it");
    }
    mst_text_print(what, sizeof(what), "apply a batch of %zu%s", batch->count,
                   batch->count == 1 ? " write" : " writes");
    call.request.write.generation = batch->options.generation;
    call.request.write.ops = batch->ops;
    call.request.write.count = (uint32_t)batch->count;
    return mst_lib_make(&call, &how);
}

muster_status muster_batch_apply(muster_client *client, const muster_batch *batch,
                                 int64_t timeout_ms, struct muster_error *err)
{
    return apply(client, batch, timeout_ms, mst_lib_blocking(err));
}

muster_status muster_batch_apply_start(muster_client *client, const muster_batch *batch,
                                       int64_t timeout_ms, muster_call **call_out,
                                       struct muster_error *err)
{
    return apply(client, batch, timeout_ms, mst_lib_starting(call_out, err));
}

void muster_batch_free(muster_batch *batch)
{
    if (!batch) {
        return;
    }
    for (size_t i = 0; i < batch->count; i++) {
        free(batch->bytes[i]);
    }
    free(batch->bytes);
    free(batch->ops);
    free(batch);
}
