/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/key.h"

#include <stdlib.h>
#include <string.h>

#include "lib/items.h"

muster_status mst_lib_key_options(struct muster_key_options *out,
                                  const struct muster_key_options *given, struct muster_error *err,
                                  const char *what)
{
    const struct muster_key_options standard = MUSTER_KEY_OPTIONS_INIT;

    *out = standard;
    return mst_lib_options(out, sizeof(*out), given, "MUSTER_KEY_OPTIONS_INIT", err, what);
}

muster_status mst_lib_key_name(const char *key, struct muster_error *err, const char *what)
{
    if (!key || !*key) {
        return mst_lib_refuse(err, what, "a key's name must not be empty");
    }
    return MUSTER_OK;
}

/* ---- writes ---- */

struct written {
    int64_t number;
    uint64_t revision;
};

static const struct muster_slice nothing;

static void on_written(void *ctx, const struct mst_reply *reply)
{
    struct written *written = ctx;

    written->number = reply->number;
    written->revision = reply->revision;
}

static muster_status write_one(muster_client *client, const char *verb, const char *key,
                               struct mst_write op, struct muster_slice value,
                               const struct muster_key_options *given, int64_t timeout_ms,
                               struct written *written, struct muster_error *err)
{
    struct mst_request request = {.command = MST_WRITE};
    struct muster_key_options options;
    char what[MST_LIB_WHAT_ROOM];
    muster_status status;

    mst_lib_describe(what, verb, key);
    status = mst_lib_key_name(key, err, what);
    if (status == MUSTER_OK) {
        status = mst_lib_bytes(value, err, what);
    }
    if (status == MUSTER_OK) {
        status = mst_lib_key_options(&options, given, err, what);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    op.key = mst_slice_text(key);
    op.value = mst_slice_of(value.data, value.size);
    op.owned = options.owned;
    request.write.generation = options.generation;
    request.write.ops = &op;
    request.write.count = 1;
    return mst_lib_call(client, &request, timeout_ms, on_written, written, err, what);
}

static muster_status write_value(muster_client *client, const char *verb, const char *key,
                                 struct mst_write op, struct muster_slice value,
                                 const struct muster_key_options *options, int64_t timeout_ms,
                                 uint64_t *revision_out, struct muster_error *err)
{
    struct written written = {0};
    muster_status status =
        write_one(client, verb, key, op, value, options, timeout_ms, &written, err);

    if (status == MUSTER_OK && revision_out) {
        *revision_out = written.revision;
    }
    return status;
}

muster_status muster_key_insert(muster_client *client, const char *key, struct muster_slice value,
                                const struct muster_key_options *options, int64_t timeout_ms,
                                uint64_t *revision_out, struct muster_error *err)
{
    return write_value(client, "insert", key, (struct mst_write){.kind = MST_INSERT}, value,
                       options, timeout_ms, revision_out, err);
}

muster_status muster_key_put(muster_client *client, const char *key, struct muster_slice value,
                             const struct muster_key_options *options, int64_t timeout_ms,
                             uint64_t *revision_out, struct muster_error *err)
{
    return write_value(client, "put", key, (struct mst_write){.kind = MST_PUT}, value, options,
                       timeout_ms, revision_out, err);
}

muster_status muster_key_cas(muster_client *client, const char *key, uint64_t expected,
                             struct muster_slice value, const struct muster_key_options *options,
                             int64_t timeout_ms, uint64_t *revision_out, struct muster_error *err)
{
    return write_value(client, "compare and set", key,
                       (struct mst_write){.kind = MST_CAS, .expected = expected}, value, options,
                       timeout_ms, revision_out, err);
}

muster_status muster_key_add(muster_client *client, const char *key, int64_t delta,
                             const struct muster_key_options *options, int64_t timeout_ms,
                             int64_t *sum_out, struct muster_error *err)
{
    struct written written = {0};
    muster_status status =
        write_one(client, "add to", key, (struct mst_write){.kind = MST_ADD, .delta = delta},
                  nothing, options, timeout_ms, &written, err);

    if (status == MUSTER_OK && sum_out) {
        *sum_out = written.number;
    }
    return status;
}

muster_status muster_key_append(muster_client *client, const char *key, struct muster_slice value,
                                const struct muster_key_options *options, int64_t timeout_ms,
                                uint64_t *size_out, struct muster_error *err)
{
    struct written written = {0};
    muster_status status =
        write_one(client, "append to", key, (struct mst_write){.kind = MST_APPEND}, value, options,
                  timeout_ms, &written, err);

    if (status == MUSTER_OK && size_out) {
        *size_out = (uint64_t)written.number;
    }
    return status;
}

muster_status muster_key_delete(muster_client *client, const char *key,
                                const struct muster_key_options *options, int64_t timeout_ms,
                                struct muster_error *err)
{
    struct written written = {0};

    return write_one(client, "delete", key, (struct mst_write){.kind = MST_DELETE}, nothing,
                     options, timeout_ms, &written, err);
}

/* ---- reads ---- */

struct muster_value {
    size_t size;
    uint64_t revision;
    unsigned char bytes[];
};

static void on_value(void *ctx, const struct mst_reply *reply)
{
    muster_value **out = ctx;
    muster_value *value;

    if (reply->status != MUSTER_OK) {
        return;
    }
    value = malloc(sizeof(*value) + reply->value.size + 1);
    if (value) {
        value->size = reply->value.size;
        value->revision = reply->revision;
        if (value->size > 0) {
            memcpy(value->bytes, reply->value.data, value->size);
        }
        value->bytes[value->size] = 0;
    }
    *out = value;
}

muster_status muster_key_get(muster_client *client, const char *key,
                             const struct muster_key_options *given, int64_t timeout_ms,
                             muster_value **out, struct muster_error *err)
{
    struct mst_request request = {.command = MST_GET};
    struct muster_key_options options;
    char what[MST_LIB_WHAT_ROOM];
    muster_value *value = NULL;
    muster_status status;

    mst_lib_describe(what, "get", key);
    if (!out) {
        return mst_lib_refuse(err, what, "out is NULL");
    }
    *out = NULL;
    status = mst_lib_key_name(key, err, what);
    if (status == MUSTER_OK) {
        status = mst_lib_key_options(&options, given, err, what);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    request.get.generation = options.generation;
    request.get.key = mst_slice_text(key);
    request.get.wait = timeout_ms != 0;
    status = mst_lib_call(client, &request, timeout_ms, on_value, &value, err, what);
    if (status == MUSTER_OK && !value) {
        return mst_lib_fail(err, MUSTER_ENOMEM, what, NULL);
    }
    *out = value;
    return status;
}

const void *muster_value_data(const muster_value *value)
{
    return value ? value->bytes : NULL;
}

size_t muster_value_size(const muster_value *value)
{
    return value ? value->size : 0;
}

uint64_t muster_value_revision(const muster_value *value)
{
    return value ? value->revision : 0;
}

void muster_value_free(muster_value *value)
{
    free(value);
}

struct muster_keys {
    struct mst_items items;
};

muster_status muster_key_list(muster_client *client, const char *prefix,
                              const struct muster_key_options *given, int64_t timeout_ms,
                              muster_keys **out, struct muster_error *err)
{
    struct mst_request request = {.command = MST_LIST};
    struct muster_key_options options;
    char what[MST_LIB_WHAT_ROOM];
    muster_keys *keys;
    muster_status status;

    prefix = prefix ? prefix : "";
    mst_lib_describe(what, "list", prefix);
    if (!out) {
        return mst_lib_refuse(err, what, "out is NULL");
    }
    *out = NULL;
    status = mst_lib_key_options(&options, given, err, what);
    if (status != MUSTER_OK) {
        return status;
    }
    keys = calloc(1, sizeof(*keys));
    if (!keys) {
        return mst_lib_fail(err, MUSTER_ENOMEM, what, NULL);
    }
    request.list.generation = options.generation;
    request.list.prefix = mst_slice_text(prefix);
    status = mst_lib_items_collect(client, &request, timeout_ms, &keys->items, err, what);
    if (status != MUSTER_OK) {
        muster_keys_free(keys);
        return status;
    }
    *out = keys;
    return MUSTER_OK;
}

size_t muster_keys_count(const muster_keys *keys)
{
    return keys ? keys->items.count : 0;
}

const char *muster_keys_name(const muster_keys *keys, size_t i)
{
    return i < muster_keys_count(keys) ? keys->items.items[i].name.data : NULL;
}

struct muster_slice muster_keys_value(const muster_keys *keys, size_t i)
{
    struct muster_slice value = {0};

    if (i < muster_keys_count(keys)) {
        value.data = keys->items.items[i].value.data;
        value.size = keys->items.items[i].value.size;
    }
    return value;
}

uint64_t muster_keys_revision(const muster_keys *keys, size_t i)
{
    return i < muster_keys_count(keys) ? keys->items.items[i].revision : 0;
}

void muster_keys_free(muster_keys *keys)
{
    if (keys) {
        mst_items_fini(&keys->items);
        free(keys);
    }
}

muster_status muster_key_wait(muster_client *client, const char *const *keys, size_t count,
                              const struct muster_key_options *given, int64_t timeout_ms,
                              struct muster_error *err)
{
    struct mst_request request = {.command = MST_WAIT};
    struct muster_key_options options;
    struct mst_slice *names;
    char what[MST_LIB_WHAT_ROOM];
    muster_status status;

    mst_lib_describe(what, count > 1 ? "wait for several keys from" : "wait for",
                     count > 0 && keys && keys[0] ? keys[0] : "");
    status = mst_lib_key_options(&options, given, err, what);
    if (status != MUSTER_OK) {
        return status;
    }
    if (!keys || count == 0 || count > UINT32_MAX) {
        return mst_lib_refuse(err, what, "no keys are given, or more than can be");
    }
    names = malloc(count * sizeof(*names));
    if (!names) {
        return mst_lib_fail(err, MUSTER_ENOMEM, what, NULL);
    }
    for (size_t i = 0; i < count && status == MUSTER_OK; i++) {
        status = mst_lib_key_name(keys[i], err, what);
        names[i] = mst_slice_text(keys[i]);
    }
    if (status == MUSTER_OK) {
        request.wait.generation = options.generation;
        request.wait.keys = names;
        request.wait.count = (uint32_t)count;
        status = mst_lib_call(client, &request, timeout_ms, NULL, NULL, err, what);
    }
    free(names);
    return status;
}
