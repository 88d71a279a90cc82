/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HISTORY_H
#define HISTORY_H

/* A long, seeded story of a few jobs, made to come by every part of the state: processes that
 * connect, vanish, return and are replaced, keys of all kinds, rounds and seals with every
 * reduction, faults, losses, leases that end, a service that sleeps. One input at a time, so that
 * several cores can be told the same. A fuzzer decides in place of the seed. */

#include <stdbool.h>
#include <stdint.h>

#include "../fuzz/bytes.h"
#include "base/prng.h"
#include "service/core/core.h"

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
    struct fuzz_bytes *bytes; /* NULL: the seed decides */
    bool wild;
    uint64_t now_ns;
    uint64_t conns, tokens;
    uint64_t generations[HISTORY_JOBS]; /* as told */
    struct history_process processes[HISTORY_PROCESSES];
    struct history_process *at;

    /* the input */
    enum history_kind kind;
    struct mst_conn conn;
    struct mst_request request;
    struct mst_write ops[HISTORY_OPS];
    struct mst_slice keys[HISTORY_OPS];
    uint32_t participants[3];
    struct mst_slice taken;
    uint32_t order[2];
    unsigned char data[16];
};

void history_init(struct history *history, uint64_t seed);

/* The same, and from then on everything is chosen by `bytes`. */
void history_init_from(struct history *history, struct fuzz_bytes *bytes, bool wild);

/* The next input: kind, conn, request, now_ns. */
void history_next(struct history *history);

/* What came of the input where it was live. */
struct history_record {
    bool opened, refused, wordless;
    muster_status status;
    enum mst_weight weight;
};

/* The input is fed to a core; `config` is what a RESUME goes on with. */
struct history_record history_play(const struct history *history, struct mst_core *core,
                                   const struct mst_core_config *config);

/* The same input for who is not live, as a journal would tell it. */
void history_replay(const struct history *history, struct mst_core *core,
                    const struct mst_core_config *config, const struct history_record *record);

/* What a core said: views are learnt from it. */
void history_hear(struct history *history, const struct mst_effect *effect);

/* The connection could not be opened, or was closed for want of memory. */
void history_cut(struct history *history, struct mst_conn conn);

/* A config with small limits, so that they are reached. */
struct mst_core_config history_config(bool wild);

#endif
