/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_SNAPSHOT_H
#define MST_SERVICE_CORE_SNAPSHOT_H

/* The durable state of a core as bytes, and back. Kept: time and alarms; jobs with their numbers,
 * members, seats, faults and ready members; sessions with their window of outcomes; keys, owned or
 * not, and tombstones; rounds, open or the last of their name, with every contribution; histories;
 * tokens of lost incarnations; jobs that ended; connections and the JOINs that wait on them,
 * because readiness is state. Not kept: other waits, and undelivered effects. So no decision may
 * depend on these: save, load, continue is the same as continue. */

#include "service/core/core.h"

/* Takes the next bytes; false: failed, and no more is offered. */
struct mst_snapshot_sink {
    void *ctx;
    bool (*put)(void *ctx, struct mst_slice bytes);
};

/* Writes all of it. Allocates nothing and changes nothing, so a forked child may do it. False: the
 * sink failed. The core must be between two inputs. */
bool mst_core_save(const struct mst_core *core, const struct mst_snapshot_sink *sink);

/* A new core in the saved state, for inputs from `now_ns` on. Of `config` only the observer is
 * taken: the lease and the limits are in the bytes. `bytes` is borrowed for the call. EPROTO:
 * damaged, or of another version; EINVAL: whole, but its last input came after `now_ns`; ENOMEM. */
muster_status mst_core_load(struct mst_core **out, uint64_t now_ns, struct mst_slice bytes,
                            const struct mst_core_config *config, const struct mst_mem *mem);

/* One number for all that a snapshot keeps: equal before saving and after loading, and equal for
 * the same inputs whenever effects were drained. */
uint64_t mst_core_kept_digest(const struct mst_core *core);

/* The same of a state that may be large: `sink` gets its bytes, and ends it by refusing some.
 * False: it did. */
bool mst_core_kept_digest_to(const struct mst_core *core, const struct mst_snapshot_sink *sink,
                             uint64_t *out);

#endif
