/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_HEARTBEAT_HEARTBEAT_H
#define MST_HEARTBEAT_HEARTBEAT_H

/* The collective heartbeat of one member, as a pure machine: all ranks of a generation agree on a
 * token and then show it to each other once per period. It speaks to the service in rounds, through
 * the client machine, and to the shell in effects. heartbeat.c draws its states.
 *
 * It takes part from its birth to its end; `judge` says whether it also counts failures and asks
 * for the end of the process, so that the others do not miss a member that has merely stopped.
 * Everything is allocated at birth, so no input can fail. */

#include "base/mem.h"
#include "proto/machine.h"

struct mst_heartbeat;

struct mst_heartbeat_config {
    uint64_t period_ms, timeout_ms; /* the largest that any member names are those of all */
    uint32_t failures_max;          /* so many in a row end the process; at least 1 */
    uint64_t seed;                  /* of the tokens: random bits */
};

/* What the client knows; an input before every other one. */
struct mst_heartbeat_sight {
    struct mst_view view;
    bool stopped;        /* the self-stop of the lease rule */
    muster_status ended; /* OK: the session lives. ECANCELLED: it was ended here */
    bool restarting;     /* a run of a function is in progress: it recovers from losses */
    bool away;           /* the service is out of reach */
    uint64_t outages;    /* how often the service was out of reach: only grows */
};

enum mst_heartbeat_effect_type {
    MST_HEARTBEAT_AGREED = 1, /* on a token, or (status ELOST, EPROTO) never in this generation */
    MST_HEARTBEAT_LATE = 2,   /* its call waits for a token longer than the timeout: name the
                                 missing ranks */
    MST_HEARTBEAT_FAILED = 3, /* a period failed: it is the `failures`-th in a row; 0: it does not
                                 count */
    MST_HEARTBEAT_CRASH = 4   /* end the process; the last effect there is */
};

enum mst_heartbeat_why {
    MST_BEAT_REPLY = 0,    /* the reply says it; or `status` alone */
    MST_BEAT_MISMATCH = 1, /* another token than this one: unexpected */
    MST_BEAT_UNEQUAL = 2,  /* the agreement is on no token */
    MST_BEAT_LOST = 3,     /* the reply names the lost */
    MST_BEAT_ALONE = 4,    /* the lease is over, or the session */
    MST_BEAT_NO_TOKEN = 5  /* rank 0 was lost before there was one */
};

struct mst_heartbeat_effect {
    struct mst_machine_effect head;
    enum mst_heartbeat_effect_type type; /* MST_MACHINE_OWN */
    enum mst_heartbeat_why why;
    muster_status status;
    uint32_t failures;
    uint64_t generation, number;
    uint64_t period_ms, timeout_ms; /* AGREED: those of all */
    const struct mst_reply *reply;  /* of the input this follows; NULL: none */
};

/* ENOMEM; EINVAL for a configuration that makes no sense. */
muster_status mst_heartbeat_new(struct mst_heartbeat **out,
                                const struct mst_heartbeat_config *config,
                                const struct mst_mem *mem);
void mst_heartbeat_free(struct mst_heartbeat *heartbeat);

/* From the next agreement on; how many failures: from now on. EINVAL as for `new`. */
muster_status mst_heartbeat_configure(struct mst_heartbeat *heartbeat,
                                      const struct mst_heartbeat_config *config);

/* Level-triggered; repeats are harmless. */
void mst_heartbeat_look(struct mst_heartbeat *heartbeat, uint64_t now_ns,
                        const struct mst_heartbeat_sight *sight);

/* Whether failures count from now on, and a mismatch. The count begins at 0. */
void mst_heartbeat_judge(struct mst_heartbeat *heartbeat, bool on);

/* Its effects are struct mst_heartbeat_effect. No attention and no end: `look` has both. What
 * follows a reply borrows from it: drain that while it lives. One call at a time: the one before is
 * of no interest any more. */
extern const struct mst_machine mst_heartbeat_machine;

/* Whether this generation has a token; 0: no. */
uint32_t mst_heartbeat_token(const struct mst_heartbeat *heartbeat);

void mst_heartbeat_check(const struct mst_heartbeat *heartbeat);

#endif
