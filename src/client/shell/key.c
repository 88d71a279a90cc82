/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/key.h"

#include <stdlib.h>
#include <string.h>

#include "client/shell/call.h"

static muster_status check_key(const char *key, struct muster_error *err, const char *what)
{
    return key && *key ? MUSTER_OK : mst_lib_refuse(err, what, "a key's name must not be empty");
}

static muster_status read_options(struct muster_key_options *out,
                                  const struct muster_key_options *given, struct muster_error *err,
                                  const char *what)
{
    return mst_lib_options(out, sizeof(*out), given, "MUSTER_KEY_OPTIONS_INIT", err, what);
}

/* ---- writes ---- */

static muster_status take_revision(struct mst_call *call, const struct mst_reply *reply)
{
    uint64_t *out = call->out;

    if (out && reply->status == MUSTER_OK) {
        *out = reply->revision;
    }
    return reply->status;
}

/* The sum, or the size. */
static muster_status take_number(struct mst_call *call, const struct mst_reply *reply)
{
    int64_t *out = call->out;

    if (out && reply->status == MUSTER_OK) {
        *out = reply->number;
    }
    return reply->status;
}

static const struct {
    const char *verb;
    muster_status (*take)(struct mst_call *call, const struct mst_reply *reply);
} kinds[] = {
    [MST_INSERT] = {"insert", take_revision},       [MST_PUT] = {"put", take_revision},
    [MST_CAS] = {"compare and set", take_revision}, [MST_ADD] = {"add to", take_number},
    [MST_APPEND] = {"append to", take_number},      [MST_DELETE] = {"delete", take_revision}};

static muster_status write_key(muster_client *client, const char *key, struct mst_write op,
                               const struct muster_key_options *given, int64_t timeout_ms,
                               void *out, struct mst_lib_how how)
{
    struct muster_key_options options = MUSTER_KEY_OPTIONS_INIT;
    char what[MST_LIB_WHAT_ROOM];
    struct mst_call call = {.client = client,
                            .what = what,
                            .timeout_ms = timeout_ms,
                            .request = {.command = MST_WRITE, .write = {.ops = &op, .count = 1}},
                            .take = kinds[op.kind].take,
                            .out = out};
    muster_status status;

    mst_lib_describe(what, kinds[op.kind].verb, key);
    status = check_key(key, how.err, what);
    if (status == MUSTER_OK) {
        status = mst_lib_bytes(op.value, how.err, what);
    }
    if (status == MUSTER_OK) {
        status = read_options(&options, given, how.err, what);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    op.key = mst_slice_text(key);
    op.owned = options.owned;
    call.request.write.generation = options.generation;
    return mst_lib_make(&call, &how);
}

MST_LIB_TWINS(muster_key_insert, client,
              (const char *key, struct muster_slice value, const struct muster_key_options *options,
               int64_t timeout_ms, uint64_t *revision_out),
              (key, value, options, timeout_ms, revision_out))
{
    struct mst_write op = {.kind = MST_INSERT, .value = mst_lib_slice(value)};

    return write_key(client, key, op, options, timeout_ms, revision_out, how);
}

MST_LIB_TWINS(muster_key_put, client,
              (const char *key, struct muster_slice value, const struct muster_key_options *options,
               int64_t timeout_ms, uint64_t *revision_out),
              (key, value, options, timeout_ms, revision_out))
{
    struct mst_write op = {.kind = MST_PUT, .value = mst_lib_slice(value)};

    return write_key(client, key, op, options, timeout_ms, revision_out, how);
}

MST_LIB_TWINS(muster_key_cas, client,
              (const char *key, uint64_t expected, struct muster_slice value,
               const struct muster_key_options *options, int64_t timeout_ms,
               uint64_t *revision_out),
              (key, expected, value, options, timeout_ms, revision_out))
{
    struct mst_write op = {.kind = MST_CAS, .expected = expected, .value = mst_lib_slice(value)};

    return write_key(client, key, op, options, timeout_ms, revision_out, how);
}

MST_LIB_TWINS(muster_key_add, client,
              (const char *key, int64_t delta, const struct muster_key_options *options,
               int64_t timeout_ms, int64_t *sum_out),
              (key, delta, options, timeout_ms, sum_out))
{
    struct mst_write op = {.kind = MST_ADD, .delta = delta};

    return write_key(client, key, op, options, timeout_ms, sum_out, how);
}

MST_LIB_TWINS(muster_key_append, client,
              (const char *key, struct muster_slice value, const struct muster_key_options *options,
               int64_t timeout_ms, uint64_t *size_out),
              (key, value, options, timeout_ms, size_out))
{
    struct mst_write op = {.kind = MST_APPEND, .value = mst_lib_slice(value)};

    return write_key(client, key, op, options, timeout_ms, size_out, how);
}

MST_LIB_TWINS(muster_key_delete, client,
              (const char *key, const struct muster_key_options *options, int64_t timeout_ms),
              (key, options, timeout_ms))
{
    struct mst_write op = {.kind = MST_DELETE};

    return write_key(client, key, op, options, timeout_ms, NULL, how);
}

/* A service deletes a bounded number of keys at once. */
static muster_status take_deleted(struct mst_call *call, const struct mst_reply *reply)
{
    uint64_t *out = call->out;

    if (reply->status != MUSTER_OK) {
        return reply->status;
    }
    call->total += (uint64_t)reply->number;
    if (reply->number > 0 && reply->revision == 0) { /* more are left */
        call->request.delete_prefix.prefix = mst_slice_text(call->kept);
        return MUSTER_MORE;
    }
    if (out) {
        *out = call->total;
    }
    return MUSTER_OK;
}

MST_LIB_TWINS(muster_key_delete_prefix, client,
              (const char *prefix, const struct muster_key_options *given, int64_t timeout_ms,
               uint64_t *count_out),
              (prefix, given, timeout_ms, count_out))
{
    struct muster_key_options options = MUSTER_KEY_OPTIONS_INIT;
    char what[MST_LIB_WHAT_ROOM];
    struct mst_call call = {.client = client,
                            .what = what,
                            .kept = prefix,
                            .timeout_ms = timeout_ms,
                            .request = {.command = MST_DELETE_PREFIX},
                            .take = take_deleted,
                            .out = count_out};
    muster_status status;

    mst_lib_describe(what, "delete all keys under", prefix ? prefix : "");
    if (!prefix || !*prefix) {
        return mst_lib_refuse(how.err, what,
                              "the prefix must not be empty: muster's own keys would be deleted "
                              "too; name a prefix of yours");
    }
    status = read_options(&options, given, how.err, what);
    if (status != MUSTER_OK) {
        return status;
    }
    call.request.delete_prefix.generation = options.generation;
    call.request.delete_prefix.prefix = mst_slice_text(prefix);
    return mst_lib_make(&call, &how);
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

MST_LIB_TWINS(muster_key_get, client,
              (const char *key, const struct muster_key_options *given, int64_t timeout_ms,
               muster_value **out),
              (key, given, timeout_ms, out))
{
    struct muster_key_options options = MUSTER_KEY_OPTIONS_INIT;
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
    status = check_key(key, how.err, what);
    if (status == MUSTER_OK) {
        status = read_options(&options, given, how.err, what);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    call.request.get.generation = options.generation;
    call.request.get.key = mst_slice_text(key);
    call.request.get.wait = timeout_ms != 0;
    return mst_lib_make(&call, &how);
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

MST_LIB_TWINS(muster_key_list, client,
              (const char *prefix, const struct muster_key_options *given, int64_t timeout_ms,
               muster_keys **out),
              (prefix, given, timeout_ms, out))
{
    struct muster_key_options options = MUSTER_KEY_OPTIONS_INIT;
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
    status = read_options(&options, given, how.err, what);
    if (status != MUSTER_OK) {
        return status;
    }
    call.request.list.generation = options.generation;
    call.request.list.prefix = mst_slice_text(call.kept);
    return mst_lib_items_make(&call, &how);
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
    struct mst_slice none = {0};

    return mst_lib_muster_slice(i < muster_keys_count(keys) ? keys->items.items[i].value : none);
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

MST_LIB_TWINS(muster_key_wait, client,
              (const char *const *keys, size_t count, const struct muster_key_options *given,
               int64_t timeout_ms),
              (keys, count, given, timeout_ms))
{
    struct muster_key_options options = MUSTER_KEY_OPTIONS_INIT;
    struct mst_slice *names;
    char what[MST_LIB_WHAT_ROOM];
    struct mst_call call = {
        .client = client, .what = what, .timeout_ms = timeout_ms, .request = {.command = MST_WAIT}};
    muster_status status;

    mst_lib_describe(what, count > 1 ? "wait for several keys from" : "wait for",
                     count > 0 && keys && keys[0] ? keys[0] : "");
    status = read_options(&options, given, how.err, what);
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
        status = check_key(keys[i], how.err, what);
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
