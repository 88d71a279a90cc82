/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MUSTER_KEY_H
#define MUSTER_KEY_H

/* Keys: named values with a revision. A name is not empty, has no NUL byte and at most
 * key_bytes_max bytes (4 KiB). A value has at most value_bytes_max (1 MiB). What client.h says of
 * threads, time and errors holds here. `options` may be NULL everywhere. */

#include "muster/call.h"
#include "muster/client.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Options of reads and writes of keys. 0 is the default. */
struct muster_key_options {
    size_t size; /* sizeof */
    /* 0: the job's keys. Else the key space of that generation: only the current generation is
     * accepted (EFENCED), and its keys are deleted when the next one is sealed. A stale rank cannot
     * write there, so commits belong there: the generation is a fencing token. */
    uint64_t generation;
    bool owned; /* writes: the key is deleted when this process is lost, leaves or closes */
};

#define MUSTER_KEY_OPTIONS_INIT                                                                    \
    {                                                                                              \
        sizeof(struct muster_key_options), 0, false                                                \
    }

/* Writes the key if it does not exist; otherwise EEXISTS. `revision_out` (may be NULL here and
 * below) receives the key's new revision, for muster_key_cas. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_key_insert(muster_client *client, const char *key,
                                                           struct muster_slice value,
                                                           const struct muster_key_options *options,
                                                           int64_t timeout_ms,
                                                           uint64_t *revision_out,
                                                           struct muster_error *err);

/* Writes the key, whether it exists or not. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_key_put(muster_client *client, const char *key,
                                                        struct muster_slice value,
                                                        const struct muster_key_options *options,
                                                        int64_t timeout_ms, uint64_t *revision_out,
                                                        struct muster_error *err);

/* Writes the key if its revision is `expected` (0: if it does not exist); otherwise ECONFLICT.
 * Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_key_cas(muster_client *client, const char *key,
                                                        uint64_t expected,
                                                        struct muster_slice value,
                                                        const struct muster_key_options *options,
                                                        int64_t timeout_ms, uint64_t *revision_out,
                                                        struct muster_error *err);

/* Adds to a key that holds a decimal number; an absent key counts as 0. `sum_out` may be NULL.
 * ERANGE: beyond int64, or not a number. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_key_add(muster_client *client, const char *key,
                                                        int64_t delta,
                                                        const struct muster_key_options *options,
                                                        int64_t timeout_ms, int64_t *sum_out,
                                                        struct muster_error *err);

/* Appends to the value; an absent key counts as empty. `size_out` (may be NULL) receives the new
 * size. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_key_append(muster_client *client, const char *key,
                                                           struct muster_slice value,
                                                           const struct muster_key_options *options,
                                                           int64_t timeout_ms, uint64_t *size_out,
                                                           struct muster_error *err);

/* Deletes the key; an absent key is no error. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_key_delete(muster_client *client, const char *key,
                                                           const struct muster_key_options *options,
                                                           int64_t timeout_ms,
                                                           struct muster_error *err);

/* Deletes all keys that begin with `prefix`; none is no error. `count_out` (may be NULL) receives
 * how many were deleted. Up to 16,384 keys are deleted atomically, in one step of the service; of
 * more keys each step is atomic, and a failure leaves the rest of them. EINVAL: the prefix is
 * empty. A service before 0.2 does not know this and closes the connection: ETIMEDOUT. Since 0.2.
 */
MUSTER_API MUSTER_MUST_USE muster_status muster_key_delete_prefix(
    muster_client *client, const char *prefix, const struct muster_key_options *options,
    int64_t timeout_ms, uint64_t *count_out, struct muster_error *err);

/* A value that was read. Immutable; the data is valid until it is freed. */
typedef struct muster_value muster_value;

/* Reads the key. With a timeout it waits until the key exists; with 0 it does not wait: ENOTFOUND.
 * On success the caller owns *out. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_key_get(muster_client *client, const char *key,
                                                        const struct muster_key_options *options,
                                                        int64_t timeout_ms, muster_value **out,
                                                        struct muster_error *err);

/* The bytes of a value, followed by a NUL that the size does not count. Borrowed from the value.
 * Since 0.1. */
MUSTER_API const void *muster_value_data(const muster_value *value);

/* The size of a value in bytes. Since 0.1. */
MUSTER_API size_t muster_value_size(const muster_value *value);

/* The revision of the key when it was read. Since 0.1. */
MUSTER_API uint64_t muster_value_revision(const muster_value *value);

/* The age of a value: how long ago the key was written when the service answered, by the service's
 * clock alone: no clocks of two machines are compared. For one revision it never decreases, and it
 * never exceeds the true age. It excludes the time in which the service was away until it recovered
 * from its journal. Since 0.1. */
MUSTER_API uint64_t muster_value_age_ms(const muster_value *value);

/* Frees a value. NULL: a no-op. Since 0.1. */
MUSTER_API void muster_value_free(muster_value *value);

/* Keys and values under a prefix, in byte order. */
typedef struct muster_keys muster_keys;

/* Reads all keys that begin with `prefix` ("": all). Each page is consistent, the whole list is
 * not. On success the caller owns *out. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_key_list(muster_client *client, const char *prefix,
                                                         const struct muster_key_options *options,
                                                         int64_t timeout_ms, muster_keys **out,
                                                         struct muster_error *err);

/* The number of keys in the list. Since 0.1. */
MUSTER_API size_t muster_keys_count(const muster_keys *keys);

/* The name of the i-th key, from 0. NULL beyond the count. Borrowed from the list. Since 0.1. */
MUSTER_API const char *muster_keys_name(const muster_keys *keys, size_t i);

/* The value of the i-th key. An empty slice beyond the count. Borrowed from the list. Since 0.1. */
MUSTER_API struct muster_slice muster_keys_value(const muster_keys *keys, size_t i);

/* The revision of the i-th key. 0 beyond the count. Since 0.1. */
MUSTER_API uint64_t muster_keys_revision(const muster_keys *keys, size_t i);

/* The age of the i-th key, as muster_value_age_ms. 0 beyond the count. Since 0.1. */
MUSTER_API uint64_t muster_keys_age_ms(const muster_keys *keys, size_t i);

/* Frees a list of keys. NULL: a no-op. Since 0.1. */
MUSTER_API void muster_keys_free(muster_keys *keys);

/* Waits until each of the keys has existed at some time since the call began. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_key_wait(muster_client *client,
                                                         const char *const *keys, size_t count,
                                                         const struct muster_key_options *options,
                                                         int64_t timeout_ms,
                                                         struct muster_error *err);

/* Several writes that are applied atomically. Not bound to a client. Thread: one at a time. */
typedef struct muster_batch muster_batch;

/* Makes an empty batch. The options hold for all writes of the batch. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_batch_new(muster_batch **out,
                                                          const struct muster_key_options *options);

/* Appends a write of a key that does not exist yet; key and value are copied. ENOMEM, EINVAL,
 * ELIMIT (the batch exceeds the size of a message): the batch is unchanged. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_batch_insert(muster_batch *batch, const char *key,
                                                             struct muster_slice value);

/* Appends a write of a key, whether it exists or not; see muster_batch_insert. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_batch_put(muster_batch *batch, const char *key,
                                                          struct muster_slice value);

/* Appends a compare-and-set, as muster_key_cas; see muster_batch_insert. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_batch_cas(muster_batch *batch, const char *key,
                                                          uint64_t expected,
                                                          struct muster_slice value);

/* Appends an addition to a number, as muster_key_add; see muster_batch_insert. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_batch_add(muster_batch *batch, const char *key,
                                                          int64_t delta);

/* Appends an append to a value, as muster_key_append; see muster_batch_insert. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_batch_append(muster_batch *batch, const char *key,
                                                             struct muster_slice value);

/* Appends a deletion of a key; see muster_batch_insert. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_batch_delete(muster_batch *batch, const char *key);

/* Applies the batch. On failure nothing was written, and the status is that of the first write that
 * failed, whose key the text has. An empty batch is EINVAL. The batch may be applied again. Since
 * 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_batch_apply(muster_client *client,
                                                            const muster_batch *batch,
                                                            int64_t timeout_ms,
                                                            struct muster_error *err);

/* Frees a batch. NULL: a no-op. Since 0.1. */
MUSTER_API void muster_batch_free(muster_batch *batch);

/* The same without blocking: call.h. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status
muster_key_insert_start(muster_client *client, const char *key, struct muster_slice value,
                        const struct muster_key_options *options, int64_t timeout_ms,
                        uint64_t *revision_out, muster_call **call_out, struct muster_error *err);
MUSTER_API MUSTER_MUST_USE muster_status
muster_key_put_start(muster_client *client, const char *key, struct muster_slice value,
                     const struct muster_key_options *options, int64_t timeout_ms,
                     uint64_t *revision_out, muster_call **call_out, struct muster_error *err);
MUSTER_API MUSTER_MUST_USE muster_status muster_key_cas_start(
    muster_client *client, const char *key, uint64_t expected, struct muster_slice value,
    const struct muster_key_options *options, int64_t timeout_ms, uint64_t *revision_out,
    muster_call **call_out, struct muster_error *err);
MUSTER_API MUSTER_MUST_USE muster_status muster_key_add_start(
    muster_client *client, const char *key, int64_t delta, const struct muster_key_options *options,
    int64_t timeout_ms, int64_t *sum_out, muster_call **call_out, struct muster_error *err);
MUSTER_API MUSTER_MUST_USE muster_status
muster_key_append_start(muster_client *client, const char *key, struct muster_slice value,
                        const struct muster_key_options *options, int64_t timeout_ms,
                        uint64_t *size_out, muster_call **call_out, struct muster_error *err);
MUSTER_API MUSTER_MUST_USE muster_status muster_key_delete_start(
    muster_client *client, const char *key, const struct muster_key_options *options,
    int64_t timeout_ms, muster_call **call_out, struct muster_error *err);
MUSTER_API MUSTER_MUST_USE muster_status muster_key_delete_prefix_start(
    muster_client *client, const char *prefix, const struct muster_key_options *options,
    int64_t timeout_ms, uint64_t *count_out, muster_call **call_out, struct muster_error *err);
MUSTER_API MUSTER_MUST_USE muster_status muster_key_get_start(
    muster_client *client, const char *key, const struct muster_key_options *options,
    int64_t timeout_ms, muster_value **out, muster_call **call_out, struct muster_error *err);
MUSTER_API MUSTER_MUST_USE muster_status muster_key_list_start(
    muster_client *client, const char *prefix, const struct muster_key_options *options,
    int64_t timeout_ms, muster_keys **out, muster_call **call_out, struct muster_error *err);
MUSTER_API MUSTER_MUST_USE muster_status
muster_key_wait_start(muster_client *client, const char *const *keys, size_t count,
                      const struct muster_key_options *options, int64_t timeout_ms,
                      muster_call **call_out, struct muster_error *err);
MUSTER_API MUSTER_MUST_USE muster_status muster_batch_apply_start(muster_client *client,
                                                                  const muster_batch *batch,
                                                                  int64_t timeout_ms,
                                                                  muster_call **call_out,
                                                                  struct muster_error *err);

#ifdef __cplusplus
}
#endif

#endif
