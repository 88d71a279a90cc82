/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCPSTORE_STAGE_H
#define TCPSTORE_STAGE_H

/* Fronts for TCPStore clients, each as on a node of its own, before the real core: bytes go in, and
 * what comes out is kept. A scenario is run once as it is and then again with each allocation of
 * the fronts failing in turn: from the failure on nothing is expected any more, except that the
 * fronts stay whole and give everything back. So scenarios say EXPECT, never assert. */

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core_service.h"
#include "failing_mem.h"
#include "fronts/tcpstore/codec.h"
#include "fronts/tcpstore/tcpstore.h"

enum {
    STAGE_FRONTS_MAX = 2,
    STAGE_SESSIONS_MAX = CORE_CLIENTS_MAX,
    STAGE_CLIENTS_MAX = 2048,
    STAGE_CALLS_MAX = 8192
};

struct stage;

/* A connection. */
struct peer {
    struct stage *stage;
    uint32_t front;
    uint64_t id;
    unsigned char *got;
    size_t got_size, got_room, taken;
    bool closed, paused;
};

struct stage {
    struct failing_mem mem;
    struct core_service service;
    void *fronts[STAGE_FRONTS_MAX];
    uint32_t front_count;
    struct mst_front_config config;
    uint64_t now_ns, connections;
    bool shut;       /* sessions are not opened */
    uint32_t looker; /* 1 + the core's client that looks at keys */
    struct {
        uint32_t front;
        uint64_t session;
        bool used, opened;
    } sessions[STAGE_SESSIONS_MAX]; /* by the core's client */
    struct {
        uint32_t client;
        uint64_t id, tag;
    } calls[STAGE_CALLS_MAX];
    size_t call_count;
    struct {
        uint32_t client;
        struct mst_reply *reply;
    } replies[STAGE_CALLS_MAX];
    size_t reply_count;
    struct peer *peers[STAGE_CLIENTS_MAX];
    size_t peer_count;
    size_t posts;    /* requests, ever */
    char line[512];  /* the last one for the operator */
    char waits[512]; /* what the fronts say of their clients: "PID AGE_MS WHAT;" each */
};

typedef void stage_scenario(struct stage *stage);

/* Runs it whole, then under every single failing allocation. */
void stage_run(stage_scenario *scenario);
/* Only whole, for those with many steps. */
void stage_run_once(stage_scenario *scenario);
void stage_run_with(stage_scenario *scenario, void (*prepare)(struct stage *stage));

#define EXPECT(stage, condition)                                                                   \
    do {                                                                                           \
        bool holds_ = (condition);                                                                 \
        if (!(stage)->mem.failed) {                                                                \
            assert_true(holds_);                                                                   \
        }                                                                                          \
    } while (0)

/* A client of front `front` that has said nothing, or VALIDATE. */
struct peer *stage_connect(struct stage *stage, uint32_t front);
struct peer *stage_client(struct stage *stage, uint32_t front);
void stage_give(struct peer *peer, const void *bytes, size_t size);
/* It sends no more. */
void stage_end(struct peer *peer);
void stage_written(struct peer *peer, size_t backlog);
void stage_pass(struct stage *stage, uint64_t ms);
/* The sessions that are waited for are opened. */
void stage_open_sessions(struct stage *stage);
void stage_end_session(struct stage *stage, uint32_t client, muster_status status);

/* A request, by the letters of its fields: k and v a text, b bytes and their size, i a number, K a
 * number of texts and them; x a single byte. */
void stage_say(struct peer *peer, enum mst_tcpstore_opcode opcode, const char *fields, ...);
/* What came since the last time is exactly this, in hex with spaces for reading. */
bool stage_got(struct peer *peer, const char *hex);
bool stage_got_number(struct peer *peer, int64_t number);
bool stage_got_bytes(struct peer *peer, const char *text); /* one value */
bool stage_got_nothing(struct peer *peer);
size_t stage_got_size(const struct peer *peer);

/* A key of the service. NULL: there is none. */
const struct mst_reply *stage_key(struct stage *stage, const char *name);

#endif
