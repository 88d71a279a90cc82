/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "cli/look/text.h"
#include "cli/print.h"
#include "view/clusters.h"

static void put_closure(const char *head, uint64_t closure, const char *function, uint64_t ms)
{
    mst_cli_put("  %s: closure %" PRIu64, head, closure);
    if (*function) {
        mst_cli_say(" (%.*s)", MST_TEXT_ARGS(function));
    }
    mst_cli_put(", for ");
    mst_cli_put_span(ms);
}

static void print_one(void *ctx, const struct mst_cluster_look *look)
{
    const struct mst_cluster_status *status = &look->status;

    (void)ctx;
    mst_cli_say("cluster %.*s: %" PRIu64 " queued, %" PRIu64 " in flight; %" PRIu64 " of %" PRIu64
                " slot%s free, %" PRIu64 " of %" PRIu64 " worker%s here; %" PRIu64 ".%" PRIu64
                " per second\n",
                MST_SLICE_ARGS(look->name), status->queued, status->in_flight, status->slots_free,
                status->slots, status->slots == 1 ? "" : "s", status->present, status->workers,
                status->workers == 1 ? "" : "s", status->rate / 1000, status->rate % 1000 / 100);
    mst_cli_put("  ended: %" PRIu64 " with a value, %" PRIu64 " failed, %" PRIu64
                " cancelled; %" PRIu64 " retried, %" PRIu64 " put back by a loss\n",
                status->values, status->failures, status->cancelled, status->retried,
                status->put_back);
    if (status->oldest != 0) {
        put_closure("waits longest", status->oldest, status->oldest_function, status->oldest_ms);
        mst_cli_put(": %s\n", mst_cluster_wait_sentence(status->waits));
    }
    if (status->longest != 0) {
        put_closure("runs longest", status->longest, status->longest_function, status->longest_ms);
        mst_cli_put(", on worker #%" PRIu64 "\n", status->longest_worker);
    }
}

void mst_cli_clusters_print(const struct mst_status *status)
{
    mst_clusters_each(&status->clusters, print_one, NULL);
}
