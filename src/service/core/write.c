/* SPDX-License-Identifier: Apache-2.0 */
#include "service/core/write.h"

#include "base/text.h"
#include "service/core/generation.h"
#include "service/core/handlers.h"
#include "service/core/job.h"

/* A batch being prepared. */
struct batch {
    struct mst_job *job;
    struct mst_keyspace *space;
    const struct mst_write *ops;
    struct mst_staged *staged;
    uint32_t count;                /* prepared so far */
    int64_t more_keys, more_bytes; /* what the job's counts will be raised by */
    struct mst_waiter *waiter;     /* gets the detail of a refusal */
};

/* ---- numbers as text ---- */

static bool parse_number(const struct mst_blob *value, int64_t *out)
{
    struct mst_slice text = mst_blob_slice(value);
    const char *digits = text.data;
    bool negative = text.size > 0 && digits[0] == '-';
    uint64_t most = (uint64_t)INT64_MAX + negative;
    uint64_t number = 0;

    if (text.size == (size_t)negative || text.size > 20) {
        return false;
    }
    for (size_t i = negative; i < text.size; i++) {
        uint64_t digit = (uint64_t)(digits[i] - '0');

        if (digits[i] < '0' || digits[i] > '9' || number > (most - digit) / 10) {
            return false;
        }
        number = number * 10 + digit;
    }
    *out = negative ? (int64_t)(0 - number) : (int64_t)number;
    return true;
}

static struct mst_blob *number_blob(const struct mst_mem *mem, int64_t number)
{
    char array[24];

    return mst_blob_new(
        mem, mst_slice_of(array, mst_text_print(array, sizeof(array), "%" PRId64, number)));
}

/* ---- what an operation would make of the value ---- */

static muster_status make_sum(struct batch *batch, struct mst_staged *staged,
                              const struct mst_blob *old, int64_t delta)
{
    int64_t number = 0;

    if ((old && !parse_number(old, &number)) || __builtin_add_overflow(number, delta, &number)) {
        return MUSTER_ERANGE;
    }
    staged->value = number_blob(&batch->job->core->mem, number);
    staged->number = number;
    return staged->value ? MUSTER_OK : MUSTER_ENOMEM;
}

static muster_status make_longer(struct batch *batch, struct mst_staged *staged,
                                 const struct mst_blob *old, struct mst_slice more)
{
    const struct mst_core *core = batch->job->core;
    struct mst_slice first = mst_blob_slice(old);
    struct mst_blob *value;

    /* The value may be older than the limit. */
    if (first.size > core->config.limits.value_bytes_max ||
        more.size > core->config.limits.value_bytes_max - first.size) {
        return mst_waiter_exceed_limit(batch->waiter, MST_LIMIT_VALUE_BYTES,
                                       first.size + more.size);
    }
    value = mst_blob_join(&core->mem, first, more);
    if (!value) {
        return MUSTER_ENOMEM;
    }
    staged->value = value;
    staged->number = (int64_t)value->size;
    return MUSTER_OK;
}

static muster_status make_value(struct batch *batch, struct mst_staged *staged,
                                const struct mst_write *op, const struct mst_blob *old,
                                uint64_t revision)
{
    const struct mst_mem *mem = &batch->job->core->mem;

    switch (op->kind) {
    case MST_INSERT:
        if (old) {
            batch->waiter->revision = revision;
            return MUSTER_EEXISTS;
        }
        break;
    case MST_CAS:
        if (op->expected != (old ? revision : 0)) {
            batch->waiter->revision = old ? revision : 0;
            return MUSTER_ECONFLICT;
        }
        break;
    case MST_PUT:
        break;
    case MST_ADD:
        return make_sum(batch, staged, old, op->delta);
    case MST_APPEND:
        return make_longer(batch, staged, old, op->value);
    case MST_DELETE:
        staged->number = old != NULL;
        return MUSTER_OK;
    }
    staged->value = mst_blob_new(mem, op->value);
    return staged->value ? MUSTER_OK : MUSTER_ENOMEM;
}

static void count_change(struct batch *batch, const struct mst_key *key, const struct mst_blob *old,
                         const struct mst_blob *value)
{
    int64_t keys = (value != NULL) - (old != NULL);

    batch->more_keys += keys;
    batch->more_bytes += keys * (int64_t)key->name_size + (int64_t)mst_blob_slice(value).size -
                         (int64_t)mst_blob_slice(old).size;
}

/* The sum of the batch counts. A batch that frees room is never refused for lack of it. */
static muster_status check_room(const struct batch *batch)
{
    const struct mst_job *job = batch->job;
    uint64_t keys = batch->more_keys > 0 ? job->key_count + (uint64_t)batch->more_keys : 0;
    uint64_t bytes = batch->more_bytes > 0 ? job->key_bytes + (uint64_t)batch->more_bytes : 0;

    return mst_key_check_room(batch->waiter, keys, bytes);
}

static muster_status check_op(const struct batch *batch, const struct mst_write *op)
{
    muster_status status = mst_key_check_name(batch->waiter, op->key);

    if (status != MUSTER_OK) {
        return status;
    }
    if (op->kind < MST_INSERT || op->kind > MST_DELETE) {
        return MUSTER_EINVAL;
    }
    if (op->value.size > batch->job->core->config.limits.value_bytes_max) {
        return mst_waiter_exceed_limit(batch->waiter, MST_LIMIT_VALUE_BYTES, op->value.size);
    }
    return MUSTER_OK;
}

/* Counts the operation as prepared as soon as it holds something to undo. */
static muster_status prepare(struct batch *batch)
{
    const struct mst_write *op = &batch->ops[batch->count];
    struct mst_staged *staged = &batch->staged[batch->count];
    const struct mst_blob *old;
    uint64_t revision;
    muster_status status = check_op(batch, op);
    struct mst_key *key;

    if (status != MUSTER_OK) {
        return status;
    }
    key = op->kind == MST_DELETE ? mst_key_find(batch->space, op->key)
                                 : mst_key_obtain(batch->job, batch->space, op->key);
    if (!key && op->kind != MST_DELETE) {
        return MUSTER_ENOMEM;
    }
    *staged = (struct mst_staged){.key = key, .owned = op->owned};
    if (!key) {
        batch->count++;
        return MUSTER_OK;
    }
    old = key->staged ? batch->staged[key->staged - 1].value : key->value;
    /* No request can expect a revision of this batch. */
    revision = key->staged ? UINT64_MAX : key->revision;
    batch->count++;
    key->staged = batch->count;
    status = make_value(batch, staged, op, old, revision);
    if (status == MUSTER_OK) {
        count_change(batch, key, old, staged->value);
    }
    return status;
}

/* ---- the end of it ---- */

static void undo(struct batch *batch)
{
    for (uint32_t i = 0; i < batch->count; i++) {
        struct mst_staged *staged = &batch->staged[i];

        mst_blob_drop(&batch->job->core->mem, staged->value);
        if (staged->key && staged->key->staged == i + 1) {
            staged->key->staged = 0;
            mst_key_release(batch->job, staged->key);
        }
    }
}

static void apply(struct batch *batch, const struct mst_staged *staged, struct mst_session *session)
{
    struct mst_key *key = staged->key;

    key->staged = 0;
    if (staged->value) {
        mst_key_store(batch->job, key, staged->value, staged->owned ? session : NULL);
    } else if (key->value) {
        mst_key_erase(batch->job, key);
    } else {
        mst_key_release(batch->job, key);
    }
}

/* Only the last state of each key becomes visible. */
static void commit(struct batch *batch, struct mst_session *session)
{
    for (uint32_t i = 0; i < batch->count; i++) {
        struct mst_staged *staged = &batch->staged[i];

        if (!staged->key) { /* no record: the key did not exist */
            staged->revision = batch->job->revision;
        } else if (staged->key->staged == i + 1) {
            struct mst_key *key = staged->key;

            apply(batch, staged, session);
            staged->revision = staged->value ? key->revision : batch->job->revision;
        } else {
            mst_blob_drop(&batch->job->core->mem, staged->value);
        }
    }
}

static muster_status write_batch(struct batch *batch, struct mst_session *session, uint32_t count)
{
    struct mst_waiter *waiter = batch->waiter;
    muster_status status = MUSTER_OK;

    if (!batch->space) {
        return mst_generation_fence(session, waiter);
    }
    if (count > session->core->config.limits.batch_max) {
        return mst_waiter_exceed_limit(waiter, MST_LIMIT_BATCH, count);
    }
    if (count == 0) {
        return MUSTER_EINVAL;
    }
    while (batch->count < count && status == MUSTER_OK) {
        waiter->number = batch->count;
        status = prepare(batch);
    }
    if (status == MUSTER_OK) {
        status = check_room(batch);
    }
    if (status != MUSTER_OK) {
        undo(batch);
        return status;
    }
    commit(batch, session);
    waiter->number = batch->staged[count - 1].number;
    waiter->revision = batch->staged[count - 1].revision;
    return MUSTER_OK;
}

/* ---- all keys under a prefix ---- */

/* A deletion of each, in this one input. Deleted and awaited names are passed over; they have
 * limits of their own. */
static void delete_step(struct mst_job *job, const struct mst_keyspace *space,
                        struct mst_waiter *waiter, struct mst_slice prefix)
{
    struct mst_key *key = mst_key_after(space, prefix);
    uint64_t walked = 0;
    bool left = false;

    for (; key && !left && mst_slice_starts_with(mst_key_name(key), prefix);
         key = mst_key_next(key)) {
        walked++;
        if (key->value && waiter->number == MST_DELETE_STEP) {
            left = true;
        } else if (key->value) {
            mst_key_erase(job, key); /* the record stays: its tombstone is the newest */
            waiter->number++;
        }
    }
    waiter->core->walked += walked;
    waiter->revision = left ? 0 : job->revision;
}

static muster_status delete_prefix(struct mst_session *session, struct mst_waiter *waiter,
                                   const struct mst_request *request)
{
    struct mst_keyspace *space = mst_keyspace_of(session->job, request->delete_prefix.generation);
    muster_status status;

    if (!space) {
        return mst_generation_fence(session, waiter);
    }
    status = mst_key_check_name(waiter, request->delete_prefix.prefix);
    if (status == MUSTER_OK) {
        delete_step(session->job, space, waiter, request->delete_prefix.prefix);
    }
    return status;
}

muster_status mst_write_delete_prefix(struct mst_session *session, struct mst_waiter *waiter,
                                      const struct mst_request *request)
{
    muster_status status = delete_prefix(session, waiter, request);

    mst_counts_write(&session->core->counts, request, status);
    return status;
}

/* ---- the requests ---- */

muster_status mst_write_request(struct mst_session *session, struct mst_waiter *waiter,
                                const struct mst_request *request)
{
    struct batch batch = {.job = session->job,
                          .space = mst_keyspace_of(session->job, request->write.generation),
                          .ops = request->write.ops,
                          .staged = session->core->staged,
                          .waiter = waiter};
    muster_status status = write_batch(&batch, session, request->write.count);

    mst_counts_write(&session->core->counts, request, status);
    return status;
}
