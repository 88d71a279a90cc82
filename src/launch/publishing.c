/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/publishing.h"

#include <stddef.h>

static const char what[] = "give notice";

static bool has_ended(void *ctx)
{
    const struct mst_publishing *publishing = ctx;

    return publishing->publish.host.machine == NULL;
}

/* With the client's lock held. */
static void on_finished(void *ctx)
{
    struct mst_publishing *publishing = ctx;

    mst_lib_publish_end(&publishing->publish);
    if (publishing->ended != NULL) {
        publishing->ended(publishing->ctx);
    }
}

muster_status mst_publishing_begin(struct mst_publishing *publishing, muster_client *client,
                                   uint64_t given_ns, const struct mst_publish_config *config)
{
    muster_status status;

    publishing->publish = (struct mst_lib_publish){.client = client,
                                                   .what = what,
                                                   .asks = publishing->asks,
                                                   .finished = on_finished,
                                                   .ctx = publishing};
    mst_lib_lock(client);
    status = mst_lib_publish_begin(&publishing->publish, given_ns, config);
    mst_lib_unlock(client);
    return status;
}

bool mst_publishing_busy(const struct mst_publishing *publishing)
{
    muster_client *client = publishing->publish.client;
    bool busy;

    if (client == NULL) {
        return false;
    }
    mst_lib_lock(client);
    busy = publishing->publish.host.machine != NULL;
    mst_lib_unlock(client);
    return busy;
}

muster_status mst_publishing_wait(struct mst_publishing *publishing, int64_t timeout_ms,
                                  struct muster_error *err)
{
    const struct mst_lib_publish *publish = &publishing->publish;
    uint64_t deadline_ns = mst_lib_now_ns() + (uint64_t)timeout_ms * NS_PER_MS;
    muster_status status = MUSTER_OK;

    mst_lib_lock(publish->client);
    if (!mst_lib_wait(publish->client, has_ended, publishing, deadline_ns)) {
        status = mst_lib_fail(err, MUSTER_ETIMEDOUT, what, NULL);
    } else if (publish->host.machine != NULL) { /* it never will */
        status = mst_lib_fail(err, mst_lib_status(publish->client), what, NULL);
    } else if (publish->error.status != MUSTER_OK) {
        status = publish->error.status;
        *err = publish->error;
    }
    mst_lib_unlock(publish->client);
    return status;
}

void mst_publishing_drop(struct mst_publishing *publishing)
{
    muster_client *client = publishing->publish.client;

    if (client == NULL) {
        return;
    }
    mst_lib_lock(client);
    mst_lib_publish_end(&publishing->publish);
    mst_lib_unlock(client);
    publishing->publish.client = NULL;
}
