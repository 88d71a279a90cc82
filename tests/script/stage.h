/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STAGE_H
#define STAGE_H

/* A core, a clock that moves only when told, and the actors of a story: processes with a session
 * each. What the core narrates and answers is written down as it comes. Between the inputs that the
 * story names, actors do one thing by themselves: while time passes, each that is connected, not
 * frozen and not given up renews its lease every fifth of it, as every real process does. */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "service/core/core.h"
#include "words.h"

enum { ACTORS_MAX = 24, ASKED_MAX = 64, NAME_BYTES_MAX = 40 };

/* A request as it was sent, to be sent again. */
struct asked {
    uint64_t id, oldest;
    bool vector; /* the answer is a vector of numbers */
    char line[LINE_BYTES_MAX];
};

struct actor {
    char name[NAME_BYTES_MAX];
    char host[NAME_BYTES_MAX];
    struct mst_open open;
    struct mst_conn conn; /* 0: not connected */
    uint64_t conns;       /* it ever had */
    uint64_t id;          /* of its last request */
    uint64_t generation;  /* the last one it was in */
    uint64_t revision;    /* where its last watch continues */
    bool frozen, over;
    struct asked asked[ASKED_MAX];
};

struct stage {
    struct mst_core *core;
    struct mst_core_config config;
    uint64_t now_ns;
    struct actor actors[ACTORS_MAX];
    uint32_t actor_count;
    FILE *out;
    bool passing; /* each line says when */
    struct mst_conn asking;
    uint64_t asking_id; /* the request being made; 0: it was answered */
    size_t allocated;
    char held[LINE_BYTES_MAX]; /* why nothing can be kept */
};

void stage_init(struct stage *stage, FILE *out);
uint64_t stage_fini(struct stage *stage); /* the core's digest */

struct actor *stage_find(struct stage *stage, const char *name); /* NULL: there is none */
struct actor *stage_enter(struct stage *stage, const char *name);

/* Connects and opens. */
void stage_open(struct stage *stage, struct actor *actor);
void stage_close(struct stage *stage, struct actor *actor);
void stage_request(struct stage *stage, struct actor *actor, const struct mst_request *request);

/* The service dies and begins again from its snapshot: all connections are gone. */
void stage_restart(struct stage *stage);
/* Nothing new can be kept, because of `why`, which is copied; NULL: it can again. */
void stage_hold(struct stage *stage, const char *why);

void stage_pass(struct stage *stage, uint64_t ms);
/* Time passes and nobody wakes the core, or feeds it what the actors send. */
void stage_stall(struct stage *stage, uint64_t ms);

#endif
