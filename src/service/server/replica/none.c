/* SPDX-License-Identifier: Apache-2.0 */

/* Without a consensus there are no replicas: none is ever open. */

#define _GNU_SOURCE
#include "service/server/replica.h"

#include "base/fail.h"
#include "base/panic.h"

muster_status mst_uv_replica_open(struct mst_uv_replica **out, uv_loop_t *loop,
                                  struct mst_uv_log *log,
                                  const struct mst_uv_replica_config *config,
                                  const struct mst_mem *mem, struct muster_error *err)
{
    (void)loop;
    (void)log;
    (void)mem;
    *out = NULL;
    return mst_fail(err, MUSTER_EFAILED, 0,
                    "--replica %s: this muster was built without replicas: build it with libraft "
                    "0.22.1 (libraft-dev; tools/deps --replicas), or leave out --replica",
                    config->addresses);
}

void mst_uv_replica_free(struct mst_uv_replica *replica)
{
    MST_ASSERT(!replica);
}

#define NEVER mst_panic(__FILE__, __LINE__, "there is a replica")

struct mst_journal_sink mst_uv_replica_sink(struct mst_uv_replica *replica)
{
    (void)replica;
    NEVER;
}

muster_status mst_uv_replica_start(struct mst_uv_replica *replica, struct mst_journal *journal,
                                   struct mst_core *core, struct muster_error *err)
{
    (void)replica;
    (void)journal;
    (void)core;
    (void)err;
    NEVER;
}

void mst_uv_replica_stop(struct mst_uv_replica *replica)
{
    (void)replica;
    NEVER;
}

void mst_uv_replica_turn(struct mst_uv_replica *replica)
{
    (void)replica;
    NEVER;
}

void mst_uv_replica_pulse(struct mst_uv_replica *replica)
{
    (void)replica;
    NEVER;
}

uint64_t mst_uv_replica_deadline_ns(struct mst_uv_replica *replica)
{
    (void)replica;
    NEVER;
}

enum mst_uv_replica_role mst_uv_replica_role(const struct mst_uv_replica *replica)
{
    (void)replica;
    NEVER;
}

struct mst_core *mst_uv_replica_core(const struct mst_uv_replica *replica)
{
    (void)replica;
    NEVER;
}

bool mst_uv_replica_lead(struct mst_uv_replica *replica)
{
    (void)replica;
    NEVER;
}

bool mst_uv_replica_commit(struct mst_uv_replica *replica, bool always)
{
    (void)replica;
    (void)always;
    NEVER;
}

void mst_uv_replica_rest(struct mst_uv_replica *replica)
{
    (void)replica;
    NEVER;
}

bool mst_uv_replica_moved(struct mst_uv_replica *replica)
{
    (void)replica;
    NEVER;
}

const char *mst_uv_replica_addresses(struct mst_uv_replica *replica)
{
    (void)replica;
    NEVER;
}

struct mst_uv_links *mst_uv_replica_links(struct mst_uv_replica *replica)
{
    (void)replica;
    NEVER;
}

bool mst_uv_replica_snapshot_due(const struct mst_uv_replica *replica)
{
    (void)replica;
    NEVER;
}

bool mst_uv_replica_snapshot_begin(struct mst_uv_replica *replica)
{
    (void)replica;
    NEVER;
}

muster_status mst_uv_replica_snapshot_write(void *replica)
{
    (void)replica;
    NEVER;
}

void mst_uv_replica_snapshot_end(struct mst_uv_replica *replica, bool written)
{
    (void)replica;
    (void)written;
    NEVER;
}

bool mst_uv_replica_snapshot_yields(const struct mst_uv_replica *replica)
{
    (void)replica;
    NEVER;
}

struct mst_journal_disk *mst_uv_replica_disk(struct mst_uv_replica *replica)
{
    (void)replica;
    NEVER;
}

const char *mst_uv_replica_trouble(const struct mst_uv_replica *replica)
{
    (void)replica;
    NEVER;
}

void mst_uv_replica_figures(const struct mst_uv_replica *replica, struct mst_replica_figures *out)
{
    (void)replica;
    (void)out;
    NEVER;
}

void mst_uv_replica_look(const struct mst_uv_replica *replica, struct mst_text *lines)
{
    (void)replica;
    (void)lines;
    NEVER;
}
