/* SPDX-License-Identifier: Apache-2.0 */
#ifndef JOURNAL_STAGE_H
#define JOURNAL_STAGE_H

/* A service without a world around it, and its journal on a disk in memory. */

#include "failing_mem.h"
#include "journal_disk_fake.h"
#include "service/journal/journal.h"

enum { STEP_NS = 1000000, CHUNK = 8192 };

#define stage_first_file "0000000001.journal"

struct stage {
    struct fake_disk disk;
    struct mst_journal_config config;
    struct mst_journal *journal;
    struct mst_core *core;
    struct failing_mem mem;
    uint64_t now_ns, conn, id;
    unsigned replies;
    muster_status last; /* of the last one */
    uint64_t revision;
    char value[512];
    char told[1024];
    struct muster_error err;
};

/* As the shell does; `err` says why not. */
muster_status stage_begin(struct stage *stage);
void stage_init(struct stage *stage, bool sync);
/* Another service on a copy of the disk, as it is. */
void stage_init_copy(struct stage *copy, const struct stage *stage);
void stage_die(struct stage *stage);
void stage_fini(struct stage *stage);
void stage_drain(struct stage *stage);
/* A turn of the loop: what was asked is committed, replies are looked at. */
muster_status stage_turn(struct stage *stage);
muster_status stage_ask(struct stage *stage, struct mst_request request);
void stage_connect(struct stage *stage, uint64_t token);
muster_status stage_append(struct stage *stage, const char *key, const char *value);
const char *stage_get(struct stage *stage, const char *key);
void stage_write_some(struct stage *stage);
const char *stage_recovered_value(struct stage *stage);

#endif
