/* SPDX-License-Identifier: Apache-2.0 */
/* One number for all that can still reach an effect: what a snapshot keeps, the time, and the
 * requests that wait. */
#include "base/digest.h"

#include "service/core/session.h"
#include "service/core/snapshot.h"
#include "service/core/waiter.h"

static uint64_t add_numbers(uint64_t digest, const uint64_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        digest = mst_digest_number(digest, numbers[i]);
    }
    return digest;
}

#define ADD(digest, ...)                                                                           \
    add_numbers((digest), (const uint64_t[]){__VA_ARGS__},                                         \
                sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static uint64_t add_waiter(uint64_t digest, const struct mst_waiter *waiter)
{
    digest = ADD(digest, waiter->id, waiter->command, waiter->stage);
    if (waiter->stage == MST_QUEUED) {
        digest = ADD(digest, (uint64_t)(int64_t)waiter->status, (uint64_t)waiter->number,
                     waiter->revision, waiter->detail, (uint64_t)waiter->limit);
    }
    if (waiter->command == MST_WATCH) {
        digest = ADD(digest, waiter->watch.kinds, waiter->watch.generation, waiter->after,
                     waiter->watch.node);
    }
    if (waiter->command == MST_JOIN) {
        digest = mst_digest_slice(ADD(digest, waiter->join.spare, waiter->join.heard),
                                  mst_blob_slice(waiter->value));
    }
    return digest;
}

uint64_t mst_core_digest(const struct mst_core *core)
{
    uint64_t digest = mst_digest_number(mst_core_kept_digest(core), core->now_ns);

    for (const struct mst_link *link = mst_link_first(core); link; link = mst_link_next(link)) {
        MST_EACH(waiter, &link->waiters, const struct mst_waiter, in_link) {
            digest = add_waiter(digest, waiter);
        }
    }
    return digest;
}
