/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_JOURNAL_REPLAY_H
#define MST_SERVICE_JOURNAL_REPLAY_H

/* Feeds a record, file by file, to a core of its own, which makes the same decisions. */

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"
#include "muster/status.h"
#include "service/core/core.h"
#include "service/journal/format.h"

/* The facts about a file, filled in the order of the fields. */
struct mst_replayed {
    uint64_t sequence;
    char version[MST_FILE_VERSION_ROOM]; /* that made it; empty: the file ends before its head */
    uint32_t rules;
    bool begun;         /* what follows is known */
    uint64_t wall_ns;   /* the time of day when it began: ns since 1970 */
    uint64_t begin_ns;  /* the core's time then */
    uint64_t now_ns;    /* of the last input */
    uint64_t inputs;    /* that were fed */
    uint64_t cut_bytes; /* of a torn tail */
    uint64_t digest;    /* of the state at the end; 0: there is none */
    bool stopped;       /* the service stopped in order: */
    uint64_t recorded;  /* and this was its digest */
};

struct mst_replay_config {
    struct mst_replayed *about; /* filled as it becomes known; for `begun` and `trace` to look at */
    void (*begun)(void *ctx);   /* before the first line */
    void (*trace)(void *ctx, const struct mst_trace *line);
    uint64_t history; /* incidents that are remembered of each job */
    void (*incident)(void *ctx, const struct mst_core *core, struct mst_slice job); /* or NULL */
    void *ctx;
};

/* OK: replayed to its end, or to where it is torn. EMISMATCH: replayed to its end, and the digest
 * differs. EFAILED: it is damaged, or was made by other rules. ENOMEM. `err` is one line that
 * begins with `name`. The bytes are borrowed for the call. */
muster_status mst_replay(const struct mst_replay_config *config, const char *name,
                         struct mst_slice file, const struct mst_mem *mem,
                         struct muster_error *err);

#endif
