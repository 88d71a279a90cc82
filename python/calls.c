/* SPDX-License-Identifier: Apache-2.0 */
/* See calls.h. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"

enum { MUSTER_PYTHON_SLEEP_MS = 250 }; /* a signal may have come right before the wait began */

struct muster_python_gate {
    pthread_mutex_t lock;
    muster_client *client; /* NULL: closed */
};

muster_python_gate *muster_python_gate_new(muster_client *client)
{
    muster_python_gate *gate = calloc(1, sizeof(*gate));

    if (gate) {
        (void)pthread_mutex_init(&gate->lock, NULL);
        gate->client = client;
    }
    return gate;
}

void muster_python_gate_free(muster_python_gate *gate)
{
    free(gate);
}

void muster_python_gate_shut(muster_python_gate *gate)
{
    (void)pthread_mutex_lock(&gate->lock);
    gate->client = NULL;
    (void)pthread_mutex_unlock(&gate->lock);
}

void muster_python_gate_forked(muster_python_gate *gate)
{
    (void)pthread_mutex_init(&gate->lock, NULL);
}

int muster_python_wait(struct muster_python_box *out)
{
    muster_status status = muster_call_wait_signal(out->call, MUSTER_PYTHON_SLEEP_MS, &out->err);

    if (status != MUSTER_MORE) {
        muster_call_free(out->call);
        out->call = NULL;
    }
    if (out->value) {
        out->data = muster_value_data(out->value);
        out->size = muster_value_size(out->value);
        out->revision = muster_value_revision(out->value);
    }
    return status;
}

/* Ends it if it is not over, and frees what it came to. */
static void muster_python_end(struct muster_python_box *out)
{
    muster_call_free(out->call);
    out->call = NULL;
    muster_value_free(out->value);
    out->value = NULL;
}

static muster_status muster_python_await(muster_client *client, struct muster_python_box *out,
                                         struct muster_slice names, size_t count,
                                         const struct muster_key_options *options,
                                         int64_t timeout_ms)
{
    const char *one, **keys = count <= 1 ? &one : calloc(count, sizeof(*keys));
    const char *name = names.data;
    muster_status status;

    if (!keys) {
        out->err.os_errno = 0;
        (void)snprintf(out->err.text, sizeof(out->err.text), "wait for %zu keys: no memory", count);
        return MUSTER_ENOMEM;
    }
    for (size_t i = 0; i < count; i++, name += strlen(name) + 1) {
        keys[i] = name;
    }
    status = muster_key_wait_start(client, keys, count, options, timeout_ms, &out->call, &out->err);
    if (keys != &one) {
        free(keys);
    }
    return status;
}

static muster_status muster_python_start(muster_client *client, struct muster_python_box *out,
                                         int kind, const char *name, struct muster_slice data,
                                         int64_t number, const struct muster_key_options *options,
                                         int64_t timeout_ms)
{
    switch ((enum muster_python_kind)kind) {
    case MUSTER_PYTHON_PUT:
        return muster_key_put_start(client, name, data, options, timeout_ms, &out->revision,
                                    &out->call, &out->err);
    case MUSTER_PYTHON_INSERT:
        return muster_key_insert_start(client, name, data, options, timeout_ms, &out->revision,
                                       &out->call, &out->err);
    case MUSTER_PYTHON_CAS:
        return muster_key_cas_start(client, name, (uint64_t)number, data, options, timeout_ms,
                                    &out->revision, &out->call, &out->err);
    case MUSTER_PYTHON_APPEND:
        return muster_key_append_start(client, name, data, options, timeout_ms, &out->revision,
                                       &out->call, &out->err);
    case MUSTER_PYTHON_ADD:
        return muster_key_add_start(client, name, number, options, timeout_ms, &out->sum,
                                    &out->call, &out->err);
    case MUSTER_PYTHON_DELETE:
        return muster_key_delete_start(client, name, options, timeout_ms, &out->call, &out->err);
    case MUSTER_PYTHON_DELETE_PREFIX:
        return muster_key_delete_prefix_start(client, name, options, timeout_ms, &out->revision,
                                              &out->call, &out->err);
    case MUSTER_PYTHON_READ:
        return muster_key_get_start(client, name, options, timeout_ms, &out->value, &out->call,
                                    &out->err);
    case MUSTER_PYTHON_AWAIT:
        return muster_python_await(client, out, data, (size_t)number, options, timeout_ms);
    case MUSTER_PYTHON_BARRIER:
        return muster_barrier_wait_start(client, name, timeout_ms, &out->call, &out->err);
    }
    return MUSTER_EINVAL;
}

/* Starts a call and waits for it. MORE: as muster_python_wait. */
static int muster_python_make(muster_python_gate *gate, struct muster_python_box *out, int kind,
                              const char *name, const char *data, size_t size, int64_t number,
                              uint64_t generation, bool owned, int64_t timeout_ms)
{
    struct muster_key_options options = MUSTER_KEY_OPTIONS_INIT;
    muster_status status = MUSTER_EINVAL;

    options.generation = generation;
    options.owned = owned;
    (void)pthread_mutex_lock(&gate->lock);
    if (gate->client) {
        status =
            muster_python_start(gate->client, out, kind, name, (struct muster_slice){data, size},
                                number, &options, timeout_ms);
    } else {
        out->err.status = MUSTER_EINVAL;
        out->err.os_errno = 0;
        (void)snprintf(out->err.text, sizeof(out->err.text), "the job is closed");
    }
    (void)pthread_mutex_unlock(&gate->lock);
    return status < 0 ? status : muster_python_wait(out);
}
