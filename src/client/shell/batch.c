/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "client/shell/call.h"
#include "muster/key.h"

/* The size of the largest message that any service accepts. */
#define BYTES_MAX ((size_t)512 << 20)

/* The key and the value of one write. */
struct block {
    struct block *next;
    char bytes[];
};

struct muster_batch {
    struct muster_key_options options;
    struct mst_write *ops;
    struct block *blocks;
    size_t size; /* of all keys and values */
    size_t count, room;
};

muster_status muster_batch_new(muster_batch **out, const struct muster_key_options *options)
{
    struct muster_key_options own = MUSTER_KEY_OPTIONS_INIT;

    if (!out) {
        return MUSTER_EINVAL;
    }
    *out = NULL;
    if (mst_lib_options(&own, sizeof(own), options, "MUSTER_KEY_OPTIONS_INIT", NULL, "batch") !=
        MUSTER_OK) {
        return MUSTER_EINVAL;
    }
    *out = calloc(1, sizeof(**out));
    if (!*out) {
        return MUSTER_ENOMEM;
    }
    (*out)->options = own;
    return MUSTER_OK;
}

static bool make_room(muster_batch *batch)
{
    size_t room = batch->room > 0 ? batch->room * 2 : 8;
    struct mst_write *ops;

    if (batch->count < batch->room) {
        return true;
    }
    ops = realloc(batch->ops, room * sizeof(*ops));
    if (ops) {
        batch->ops = ops;
        batch->room = room;
    }
    return ops != NULL;
}

static muster_status add(muster_batch *batch, const char *key, struct mst_write op)
{
    size_t size = key ? strlen(key) : 0;
    struct block *block;

    if (!batch || size == 0 || (op.value.size > 0 && !op.value.data)) {
        return MUSTER_EINVAL;
    }
    if (size > BYTES_MAX - batch->size || op.value.size > BYTES_MAX - batch->size - size) {
        return MUSTER_ELIMIT;
    }
    block = make_room(batch) ? malloc(sizeof(*block) + size + op.value.size) : NULL;
    if (!block) {
        return MUSTER_ENOMEM;
    }
    memcpy(block->bytes, key, size);
    if (op.value.size > 0) {
        memcpy(block->bytes + size, op.value.data, op.value.size);
    }
    block->next = batch->blocks;
    batch->blocks = block;
    op.owned = batch->options.owned;
    op.key = mst_slice_of(block->bytes, size);
    op.value.data = block->bytes + size;
    batch->size += size + op.value.size;
    batch->ops[batch->count++] = op;
    return MUSTER_OK;
}

muster_status muster_batch_insert(muster_batch *batch, const char *key, struct muster_slice value)
{
    return add(batch, key, (struct mst_write){.kind = MST_INSERT, .value = mst_lib_slice(value)});
}

muster_status muster_batch_put(muster_batch *batch, const char *key, struct muster_slice value)
{
    return add(batch, key, (struct mst_write){.kind = MST_PUT, .value = mst_lib_slice(value)});
}

muster_status muster_batch_cas(muster_batch *batch, const char *key, uint64_t expected,
                               struct muster_slice value)
{
    return add(
        batch, key,
        (struct mst_write){.kind = MST_CAS, .expected = expected, .value = mst_lib_slice(value)});
}

muster_status muster_batch_add(muster_batch *batch, const char *key, int64_t delta)
{
    return add(batch, key, (struct mst_write){.kind = MST_ADD, .delta = delta});
}

muster_status muster_batch_append(muster_batch *batch, const char *key, struct muster_slice value)
{
    return add(batch, key, (struct mst_write){.kind = MST_APPEND, .value = mst_lib_slice(value)});
}

muster_status muster_batch_delete(muster_batch *batch, const char *key)
{
    return add(batch, key, (struct mst_write){.kind = MST_DELETE});
}

/* ---- the keys, for the text of an error: "3:one,5:three," ---- */

/* A started call outlives the batch. NULL: no memory, and the text has no key. */
static char *keys_of(const muster_batch *batch)
{
    size_t room = 1;
    char *keys, *to;

    for (size_t i = 0; i < batch->count; i++) {
        room += batch->ops[i].key.size + 24;
    }
    keys = to = malloc(room);
    for (size_t i = 0; keys && i < batch->count; i++) {
        struct mst_slice key = batch->ops[i].key;

        to += mst_text_print(to, 24, "%zu:", key.size);
        memcpy(to, key.data, key.size);
        to += key.size;
    }
    if (keys) {
        *to = '\0';
    }
    return keys;
}

struct mst_slice mst_batch_key(const char *keys, uint64_t place)
{
    for (;; place--) {
        char *key;
        size_t size = strtoul(keys, &key, 10);

        if (*key != ':') {
            return mst_slice_of(NULL, 0);
        }
        if (place == 0) {
            return mst_slice_of(key + 1, size);
        }
        keys = key + 1 + size;
    }
}

MST_LIB_TWINS(muster_batch_apply, client, (const muster_batch *batch, int64_t timeout_ms),
              (batch, timeout_ms))
{
    char what[64];
    char *keys;
    muster_status status;
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
    call.kept = keys = keys_of(batch);
    status = mst_lib_make(&call, &how);
    free(keys);
    return status;
}

void muster_batch_free(muster_batch *batch)
{
    if (!batch) {
        return;
    }
    while (batch->blocks) {
        struct block *next = batch->blocks->next;

        free(batch->blocks);
        batch->blocks = next;
    }
    free(batch->ops);
    free(batch);
}
