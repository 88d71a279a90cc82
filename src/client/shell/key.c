/* SPDX-License-Identifier: Apache-2.0 */
#include "client/shell/key.h"

#include <stdlib.h>
#include <string.h>

#include "client/shell/call.h"

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

static const struct muster_slice nothing;

/* What the service says of a write goes where the caller wants it. */
static muster_status take_revision(struct mst_call *call, const struct mst_reply *reply)
{
    uint64_t *out = call->out;

    if (out && reply->status == MUSTER_OK) {
        *out = reply->revision;
    }
    return reply->status;
}

static muster_status take_sum(struct mst_call *call, const struct mst_reply *reply)
{
    int64_t *out = call->out;

    if (out && reply->status == MUSTER_OK) {
        *out = reply->number;
    }
    return reply->status;
}

static muster_status take_size(struct mst_call *call, const struct mst_reply *reply)
{
    uint64_t *out = call->out;

    if (out && reply->status == MUSTER_OK) {
        *out = (uint64_t)reply->number;
    }
    return reply->status;
}

struct result {
    muster_status (*take)(struct mst_call *call, const struct mst_reply *reply);
    void *out;
};

static muster_status write_one(muster_client *client, const char *verb, const char *key,
                               struct mst_write op, struct muster_slice value,
                               const struct muster_key_options *given, int64_t timeout_ms,
                               struct result result, struct mst_lib_how how)
{
    struct muster_key_options options;
    char what[MST_LIB_WHAT_ROOM];
    struct mst_call call = {.client = client,
                            .what = what,
                            .timeout_ms = timeout_ms,
                            .request = {.command = MST_WRITE},
                            .take = result.take,
                            .out = result.out};
    muster_status status;

    mst_lib_describe(what, verb, key);
    status = mst_lib_key_name(key, how.err, what);
    if (status == MUSTER_OK) {
        status = mst_lib_bytes(value, how.err, what);
    }
    if (status == MUSTER_OK) {
        status = mst_lib_key_options(&options, given, how.err, what);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    op.key = mst_slice_text(key);
    op.value = mst_slice_of(value.data, value.size);
    op.owned = options.owned;
    call.request.write.generation = options.generation;
    call.request.write.ops = &op;
    call.request.write.count = 1;
    return mst_lib_make(&call, &how);
}

static muster_status insert(muster_client *client, const char *key, struct muster_slice value,
                            const struct muster_key_options *options, int64_t timeout_ms,
                            uint64_t *revision_out, struct mst_lib_how how)
{
    return write_one(client, "insert", key, (struct mst_write){.kind = MST_INSERT}, value, options,
                     timeout_ms, (struct result){take_revision, revision_out}, how);
}

muster_status muster_key_insert(muster_client *client, const char *key, struct muster_slice value,
                                const struct muster_key_options *options, int64_t timeout_ms,
                                uint64_t *revision_out, struct muster_error *err)
{
    return insert(client, key, value, options, timeout_ms, revision_out, mst_lib_blocking(err));
}

muster_status muster_key_insert_start(muster_client *client, const char *key,
                                      struct muster_slice value,
                                      const struct muster_key_options *options, int64_t timeout_ms,
                                      uint64_t *revision_out, muster_call **call_out,
                                      struct muster_error *err)
{
    return insert(client, key, value, options, timeout_ms, revision_out,
                  mst_lib_starting(call_out, err));
}

static muster_status put(muster_client *client, const char *key, struct muster_slice value,
                         const struct muster_key_options *options, int64_t timeout_ms,
                         uint64_t *revision_out, struct mst_lib_how how)
{
    return write_one(client, "put", key, (struct mst_write){.kind = MST_PUT}, value, options,
                     timeout_ms, (struct result){take_revision, revision_out}, how);
}

muster_status muster_key_put(muster_client *client, const char *key, struct muster_slice value,
                             const struct muster_key_options *options, int64_t timeout_ms,
                             uint64_t *revision_out, struct muster_error *err)
{
    return put(client, key, value, options, timeout_ms, revision_out, mst_lib_blocking(err));
}

muster_status muster_key_put_start(muster_client *client, const char *key,
                                   struct muster_slice value,
                                   const struct muster_key_options *options, int64_t timeout_ms,
                                   uint64_t *revision_out, muster_call **call_out,
                                   struct muster_error *err)
{
    return put(client, key, value, options, timeout_ms, revision_out,
               mst_lib_starting(call_out, err));
}

static muster_status cas(muster_client *client, const char *key, uint64_t expected,
                         struct muster_slice value, const struct muster_key_options *options,
                         int64_t timeout_ms, uint64_t *revision_out, struct mst_lib_how how)
{
    return write_one(client, "compare and set", key,
                     (struct mst_write){.kind = MST_CAS, .expected = expected}, value, options,
                     timeout_ms, (struct result){take_revision, revision_out}, how);
}

muster_status muster_key_cas(muster_client *client, const char *key, uint64_t expected,
                             struct muster_slice value, const struct muster_key_options *options,
                             int64_t timeout_ms, uint64_t *revision_out, struct muster_error *err)
{
    return cas(client, key, expected, value, options, timeout_ms, revision_out,
               mst_lib_blocking(err));
}

muster_status muster_key_cas_start(muster_client *client, const char *key, uint64_t expected,
                                   struct muster_slice value,
                                   const struct muster_key_options *options, int64_t timeout_ms,
                                   uint64_t *revision_out, muster_call **call_out,
                                   struct muster_error *err)
{
    return cas(client, key, expected, value, options, timeout_ms, revision_out,
               mst_lib_starting(call_out, err));
}

static muster_status add(muster_client *client, const char *key, int64_t delta,
                         const struct muster_key_options *options, int64_t timeout_ms,
                         int64_t *sum_out, struct mst_lib_how how)
{
    return write_one(client, "add to", key, (struct mst_write){.kind = MST_ADD, .delta = delta},
                     nothing, options, timeout_ms, (struct result){take_sum, sum_out}, how);
}

muster_status muster_key_add(muster_client *client, const char *key, int64_t delta,
                             const struct muster_key_options *options, int64_t timeout_ms,
                             int64_t *sum_out, struct muster_error *err)
{
    return add(client, key, delta, options, timeout_ms, sum_out, mst_lib_blocking(err));
}

muster_status muster_key_add_start(muster_client *client, const char *key, int64_t delta,
                                   const struct muster_key_options *options, int64_t timeout_ms,
                                   int64_t *sum_out, muster_call **call_out,
                                   struct muster_error *err)
{
    return add(client, key, delta, options, timeout_ms, sum_out, mst_lib_starting(call_out, err));
}

static muster_status append(muster_client *client, const char *key, struct muster_slice value,
                            const struct muster_key_options *options, int64_t timeout_ms,
                            uint64_t *size_out, struct mst_lib_how how)
{
    return write_one(client, "append to", key, (struct mst_write){.kind = MST_APPEND}, value,
                     options, timeout_ms, (struct result){take_size, size_out}, how);
}

muster_status muster_key_append(muster_client *client, const char *key, struct muster_slice value,
                                const struct muster_key_options *options, int64_t timeout_ms,
                                uint64_t *size_out, struct muster_error *err)
{
    return append(client, key, value, options, timeout_ms, size_out, mst_lib_blocking(err));
}

muster_status muster_key_append_start(muster_client *client, const char *key,
                                      struct muster_slice value,
                                      const struct muster_key_options *options, int64_t timeout_ms,
                                      uint64_t *size_out, muster_call **call_out,
                                      struct muster_error *err)
{
    return append(client, key, value, options, timeout_ms, size_out,
                  mst_lib_starting(call_out, err));
}

static muster_status remove_key(muster_client *client, const char *key,
                                const struct muster_key_options *options, int64_t timeout_ms,
                                struct mst_lib_how how)
{
    return write_one(client, "delete", key, (struct mst_write){.kind = MST_DELETE}, nothing,
                     options, timeout_ms, (struct result){NULL, NULL}, how);
}

muster_status muster_key_delete(muster_client *client, const char *key,
                                const struct muster_key_options *options, int64_t timeout_ms,
                                struct muster_error *err)
{
    return remove_key(client, key, options, timeout_ms, mst_lib_blocking(err));
}

muster_status muster_key_delete_start(muster_client *client, const char *key,
                                      const struct muster_key_options *options, int64_t timeout_ms,
                                      muster_call **call_out, struct muster_error *err)
{
    return remove_key(client, key, options, timeout_ms, mst_lib_starting(call_out, err));
}

/* ---- reads ---- */

struct muster_value {
    size_t size;
    uint64_t revision, age_ms;
    unsigned char bytes[];
};

static muster_status take_value(struct mst_call *call, const struct mst_reply *reply)
{
    muster_value **out = call->out;
    muster_value *value;

    if (reply->status != MUSTER_OK) {
        return reply->status;
    }
    value = malloc(sizeof(*value) + reply->value.size + 1);
    if (!value) {
        return MUSTER_ENOMEM;
    }
    value->size = reply->value.size;
    value->revision = reply->revision;
    value->age_ms = reply->number > 0 ? (uint64_t)reply->number : 0;
    if (value->size > 0) {
        memcpy(value->bytes, reply->value.data, value->size);
    }
    value->bytes[value->size] = 0;
    *out = value;
    return MUSTER_OK;
}

static muster_status get(muster_client *client, const char *key,
                         const struct muster_key_options *given, int64_t timeout_ms,
                         muster_value **out, struct mst_lib_how how)
{
    struct muster_key_options options;
    char what[MST_LIB_WHAT_ROOM];
    struct mst_call call = {.client = client,
                            .what = what,
                            .timeout_ms = timeout_ms,
                            .request = {.command = MST_GET},
                            .take = take_value,
                            .out = out};
    muster_status status;

    mst_lib_describe(what, "get", key);
    if (!out) {
        return mst_lib_refuse(how.err, what, "out is NULL");
    }
    *out = NULL;
    status = mst_lib_key_name(key, how.err, what);
    if (status == MUSTER_OK) {
        status = mst_lib_key_options(&options, given, how.err, what);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    call.request.get.generation = options.generation;
    call.request.get.key = mst_slice_text(key);
    call.request.get.wait = timeout_ms != 0;
    return mst_lib_make(&call, &how);
}

muster_status muster_key_get(muster_client *client, const char *key,
                             const struct muster_key_options *options, int64_t timeout_ms,
                             muster_value **out, struct muster_error *err)
{
    return get(client, key, options, timeout_ms, out, mst_lib_blocking(err));
}

muster_status muster_key_get_start(muster_client *client, const char *key,
                                   const struct muster_key_options *options, int64_t timeout_ms,
                                   muster_value **out, muster_call **call_out,
                                   struct muster_error *err)
{
    return get(client, key, options, timeout_ms, out, mst_lib_starting(call_out, err));
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

uint64_t muster_value_age_ms(const muster_value *value)
{
    return value ? value->age_ms : 0;
}

void muster_value_free(muster_value *value)
{
    free(value);
}

struct muster_keys {
    struct mst_items items;
};

static muster_status make_keys(struct mst_call *call)
{
    muster_keys **out = call->out;

    *out = calloc(1, sizeof(**out));
    if (!*out) {
        return MUSTER_ENOMEM;
    }
    (*out)->items = call->items;
    return MUSTER_OK;
}

static muster_status list(muster_client *client, const char *prefix,
                          const struct muster_key_options *given, int64_t timeout_ms,
                          muster_keys **out, struct mst_lib_how how)
{
    struct muster_key_options options;
    char what[MST_LIB_WHAT_ROOM];
    struct mst_call call = {.client = client,
                            .what = what,
                            .kept = prefix ? prefix : "",
                            .timeout_ms = timeout_ms,
                            .request = {.command = MST_LIST},
                            .make = make_keys,
                            .out = out};
    muster_status status;

    mst_lib_describe(what, "list", call.kept);
    if (!out) {
        return mst_lib_refuse(how.err, what, "out is NULL");
    }
    *out = NULL;
    status = mst_lib_key_options(&options, given, how.err, what);
    if (status != MUSTER_OK) {
        return status;
    }
    call.request.list.generation = options.generation;
    call.request.list.prefix = mst_slice_text(call.kept);
    return mst_lib_items_make(&call, &how);
}

muster_status muster_key_list(muster_client *client, const char *prefix,
                              const struct muster_key_options *options, int64_t timeout_ms,
                              muster_keys **out, struct muster_error *err)
{
    return list(client, prefix, options, timeout_ms, out, mst_lib_blocking(err));
}

muster_status muster_key_list_start(muster_client *client, const char *prefix,
                                    const struct muster_key_options *options, int64_t timeout_ms,
                                    muster_keys **out, muster_call **call_out,
                                    struct muster_error *err)
{
    return list(client, prefix, options, timeout_ms, out, mst_lib_starting(call_out, err));
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

uint64_t muster_keys_age_ms(const muster_keys *keys, size_t i)
{
    return i < muster_keys_count(keys) ? keys->items.items[i].number : 0;
}

void muster_keys_free(muster_keys *keys)
{
    if (keys) {
        mst_items_fini(&keys->items);
        free(keys);
    }
}

static muster_status wait_for(muster_client *client, const char *const *keys, size_t count,
                              const struct muster_key_options *given, int64_t timeout_ms,
                              struct mst_lib_how how)
{
    struct muster_key_options options;
    struct mst_slice *names;
    char what[MST_LIB_WHAT_ROOM];
    struct mst_call call = {
        .client = client, .what = what, .timeout_ms = timeout_ms, .request = {.command = MST_WAIT}};
    muster_status status;

    mst_lib_describe(what, count > 1 ? "wait for several keys from" : "wait for",
                     count > 0 && keys && keys[0] ? keys[0] : "");
    status = mst_lib_key_options(&options, given, how.err, what);
    if (status != MUSTER_OK) {
        return status;
    }
    if (!keys || count == 0 || count > UINT32_MAX) {
        return mst_lib_refuse(how.err, what, "no keys are given, or more than can be");
    }
    names = malloc(count * sizeof(*names));
    if (!names) {
        return mst_lib_fail(how.err, MUSTER_ENOMEM, what, NULL);
    }
    for (size_t i = 0; i < count && status == MUSTER_OK; i++) {
        status = mst_lib_key_name(keys[i], how.err, what);
        names[i] = mst_slice_text(keys[i]);
    }
    if (status == MUSTER_OK) {
        call.request.wait.generation = options.generation;
        call.request.wait.keys = names;
        call.request.wait.count = (uint32_t)count;
        status = mst_lib_make(&call, &how);
    }
    free(names);
    return status;
}

muster_status muster_key_wait(muster_client *client, const char *const *keys, size_t count,
                              const struct muster_key_options *options, int64_t timeout_ms,
                              struct muster_error *err)
{
    return wait_for(client, keys, count, options, timeout_ms, mst_lib_blocking(err));
}

muster_status muster_key_wait_start(muster_client *client, const char *const *keys, size_t count,
                                    const struct muster_key_options *options, int64_t timeout_ms,
                                    muster_call **call_out, struct muster_error *err)
{
    return wait_for(client, keys, count, options, timeout_ms, mst_lib_starting(call_out, err));
}
