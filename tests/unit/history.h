/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HISTORY_H
#define HISTORY_H

/* A long, seeded story of a few jobs, made to come by every part of the state: processes that
 * connect, vanish, return and are replaced, keys of all kinds, rounds and seals with every
 * reduction, faults, losses, leases that end, a service that sleeps. One input at a time, so that
 * several cores can be told the same. */

#include <stdbool.h>
#include <stdint.h>

#include "base/prng.h"
#include "core/core.h"

enum { HISTORY_PROCESSES = 16, HISTORY_OPS = 4, HISTORY_JOBS = 3 };

/* Every third one: leases are short, few generations live long, many jobs end. */
#define HISTORY_WILD(seed) ((seed) % 3 == 0)

enum history_kind {
    HISTORY_OPEN = 1,
    HISTORY_REQUEST,
    HISTORY_CLOSE,
    HISTORY_TICK,
    HISTORY_RESUME
};

struct history_process {
    struct mst_conn conn; /* 0: not connected */
    struct mst_open open;
    uint32_t job;
    bool opened;
    uint64_t id, oldest;
};

struct history {
    struct mst_prng prng;
    bool wild;
    uint64_t now_ns;
    uint64_t conns, tokens;
    uint64_t generations[HISTORY_JOBS]; /* as told */
    struct history_process processes[HISTORY_PROCESSES];
    struct history_process *at;

    /* the input */
    /* Every third one: leases are short, few generations live long, many jobs end. */
#define HISTORY_WILD(seed) ((seed) % 3 == 0)

    enum history_kind kind;
    struct mst_conn conn;
    struct mst_request request;
    struct mst_write ops[HISTORY_OPS];
    struct mst_slice keys[HISTORY_OPS];
    uint32_t participants[3];
    unsigned char data[16];
};

void history_init(struct history *history, uint64_t seed);

/* The next input: kind, conn, request, now_ns. */
void history_next(struct history *history);

/* What a core said: views are learnt from it. */
void history_hear(struct history *history, const struct mst_effect *effect);

/* The connection could not be opened, or was closed for want of memory. */
void history_cut(struct history *history, struct mst_conn conn);

/* A config with small limits, so that they are reached. */
struct mst_core_config history_config(bool wild);

#endif
