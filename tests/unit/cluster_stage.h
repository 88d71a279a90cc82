/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLUSTER_STAGE_H
#define CLUSTER_STAGE_H

/* A coordinator's machine with workers that do what a test says: what they were sent lies with them
 * until the test answers it. After every input all effects are carried out and the machine is
 * checked. */

#include "base/mem.h"
#include "failing_mem.h"
#include "tasks/coordinator.h"

#define STAGE_MS UINT64_C(1000000)
#define STAGE_S (1000 * STAGE_MS)

enum { STAGE_WORKERS = 8, STAGE_RUNS = 2048, STAGE_LINES = 4096 };

struct stage_run {
    struct mst_attempt attempt;
    uint64_t series;
    uint32_t function, need_count;
    uint64_t run_limit_ms, left_ms;
    uint64_t needs[4];
    bool cancelled, recalled;
    uint64_t grace_ms; /* of its CANCEL */
    size_t bytes;      /* of its parts */
    char data[16];
};

struct stage_worker {
    bool connected, welcome, refused, draining;
    muster_status refusal;
    uint64_t connection, incarnation;
    uint32_t number, slots;
    uint32_t flags; /* of its functions */
    struct stage_run runs[STAGE_RUNS];
    uint32_t run_count;
    uint64_t builds[64], drops[64];
    uint32_t build_count, drop_count, ran;
    uint64_t cancels;  /* ever */
    uint64_t turn;     /* of its HELLOs; it counts them if it is not 0 */
    uint64_t results;  /* what its next HELLO says of them, and then its WELCOME */
    uint64_t grace_ms; /* of its WELCOME */
};

struct stage {
    struct failing_mem failing;
    struct mst_cluster *cluster;
    uint64_t now_ns;
    struct stage_worker workers[STAGE_WORKERS];
    uint64_t connections;
    uint32_t changed, records;
    uint32_t lines[16];  /* of each kind */
    uint64_t last_count; /* of the last line */
    char last_text[256];
};

extern struct stage stage;
extern struct mst_cluster_config stage_config; /* for the next begin; then the defaults again */

bool stage_begin(void); /* false: no memory */
void stage_end(void);   /* nothing is left */
void stage_settle(void);
void stage_pass(uint64_t ns); /* time, and everything that is due in it */

/* Worker i: at place i, with functions f, g and (of version 2) v. */
void stage_member(uint32_t i, enum mst_worker_state state);
void stage_hello(uint32_t i, const struct mst_attempt *held, uint32_t count, const uint64_t *values,
                 uint32_t value_count);
void stage_join(uint32_t i, uint32_t slots);            /* present and connected */
void stage_gone(uint32_t i);                            /* its connection broke; it runs on */
void stage_die(uint32_t i);                             /* lost; what it ran is gone */
void stage_lose(uint32_t i, struct mst_worker_end end); /* the same, for this reason */
/* What the membership says of the place: this end beside this state, and nothing of a connection.
 */
void stage_lose_as(uint32_t i, enum mst_worker_state state, struct mst_worker_end end);
void stage_revive(uint32_t i); /* a new incarnation */

/* What worker i says of its run `at`. */
void stage_value(uint32_t i, uint32_t at, const char *text);
void stage_fail(uint32_t i, uint32_t at, enum mst_origin origin, int32_t code);
void stage_fail_with(uint32_t i, uint32_t at, const struct mst_failure *failure);
void stage_say(uint32_t i, const struct mst_cluster_message *message);
void stage_built(uint32_t i, uint64_t value, enum mst_origin origin);
void stage_all(uint32_t rounds); /* all workers end what they have, with values; rounds of it */

muster_status stage_try(const char *function, const struct mst_closure_options *options,
                        uint64_t *number);
uint64_t stage_schedule(const char *function); /* it is admitted */
uint64_t stage_schedule_with(const char *function, const struct mst_closure_options *options);
enum mst_closure_state stage_state(uint64_t number);
enum mst_origin stage_origin(uint64_t number);       /* NONE unless it failed */
void stage_told(uint64_t number, const char *words); /* which its failure's text has */
struct mst_cluster_counts stage_counts(void);
muster_status stage_joined(void); /* everything */
muster_status stage_deliver(struct mst_cluster_failures *out);

#endif
