/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_RUN_KEYS_H
#define MST_PROTO_RUN_KEYS_H

/* Messages between the nodes of a run, as texts of keys; launch/nodes.h describes each key. Any
 * client of the job may write them, so a text is accepted whole or refused. Bounds that only a run
 * knows (its number of nodes) are checked there. */

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

enum mst_peer_state { MST_PEER_RUNS = 0, MST_PEER_WAITS = 1, MST_PEER_DONE = 2 };

/* The state of all present nodes, for the others. */
struct mst_all {
    bool done;       /* as many as the run needs have joined, and the present ones are done */
    bool runs;       /* some node has work */
    bool ender_gone; /* the node that decided the end was lost */
    uint32_t life;   /* that all are in */
};

enum mst_run_key {
    MST_RUN_KEY_ALL = 1,
    MST_RUN_KEY_FINISHED = 2,
    MST_RUN_KEY_LIFE = 3,
    MST_RUN_KEY_RESTARTS = 4,
    MST_RUN_KEY_END = 5,
    MST_RUN_KEY_CAUSE = 6,
    MST_RUN_KEY_MASTER_PORT = 7
};

enum { MST_RUN_SIGNAL_MAX = 64, MST_RUN_CODE_MAX = 255, MST_RUN_VALUE_ROOM = 40 };

struct mst_run_word {
    enum mst_run_key key;
    struct mst_all all;      /* ALL */
    uint32_t number;         /* FINISHED, LIFE: which life. RESTARTS: how many. END: which node.
                                MASTER_PORT: that */
    int code;                /* END: the signal for the ranks; 0: none. CAUSE: the exit code */
    struct mst_slice text;   /* LIFE, CAUSE: the reason; borrowed */
    struct mst_slice report; /* CAUSE; borrowed */
};

/* Of these keys. */
#define MST_RUN_KEY_PREFIX "muster/run/"

/* A key's name without MST_RUN_KEY_PREFIX, and its value. False: it is none of these, or not a
 * valid value of a node. */
bool mst_run_key_read(struct mst_slice name, struct mst_slice value, struct mst_run_word *out);

/* The same under MST_SESSION_NODE_KEYS. */
struct mst_run_peer {
    uint32_t number; /* of the node */
    enum mst_peer_state state;
    uint32_t life;
};
bool mst_run_peer_read(struct mst_slice name, struct mst_slice value, struct mst_run_peer *out);

/* A line of what an agent writes while all its ranks wait (launch/hang/waits.h):
 * "COUNT\tRANKS\tWHAT", or "silent\tRANK". */
#define MST_WAITS_SILENT "silent"

struct mst_run_waits {
    bool silent;    /* a rank that never called muster: not counted, and `what` is empty */
    uint32_t count; /* of ranks */
    struct mst_slice ranks,
        what; /* for people; borrowed, and of any bytes but tabs and ends of lines */
};

/* Takes lines off the value until one is of 0 to `most` ranks, or silent. False: there is no more.
 */
bool mst_run_waits_take(struct mst_slice *value, uint32_t most, struct mst_run_waits *out);

/* What each agent writes, under its node's number, of its ranks that run and have opened no client:
 * "INDEX:PID INDEX:PID", and at the end "+COUNT" where more have no room. */
#define MST_RUN_PLAIN_PREFIX "muster/run-plain/"

struct mst_run_plain {
    uint32_t index, pid;
    uint32_t more; /* not 0: so many others, and no index */
};

/* Takes the next off the value. False: there is no more, or it is nothing that an agent writes. */
bool mst_run_plain_take(struct mst_slice *value, struct mst_run_plain *out);

/* What each agent writes, under its node's number, of its ranks that a signal has stopped:
 * "INDEX:PID:MS INDEX:PID:MS", each with how long it was stopped when this was written. */
#define MST_RUN_STOPPED_PREFIX "muster/run-stopped/"

struct mst_run_stopped {
    uint32_t index, pid;
    uint64_t for_ms;
};

/* Takes the next off the value. False: there is no more, or it is nothing that an agent writes. */
bool mst_run_stopped_take(struct mst_slice *value, struct mst_run_stopped *out);

/* What each agent writes, under its node's number, of the processes that wait in a front for
 * others: lines "INDEX\tPID\tMS\tWHAT", each with how long it had waited when this was written. A
 * process that is none of the run's ranks has no INDEX. At the end "+COUNT" where more have no
 * room. */
#define MST_RUN_FRONT_WAITS_PREFIX "muster/run-front-waits/"
#define MST_RUN_NO_INDEX UINT32_MAX

struct mst_run_front_wait {
    uint32_t index, pid;
    uint32_t more; /* not 0: so many others, and nothing else */
    uint64_t for_ms;
    struct mst_slice what; /* for people; borrowed, and of any bytes but ends of lines */
};

/* Takes the next off the value. False: there is no more, or it is nothing that an agent writes. */
bool mst_run_front_wait_take(struct mst_slice *value, struct mst_run_front_wait *out);

/* What each agent writes under its node's number: the address of its replica of the service. It
 * stays when the node is lost, as its replica does, which is away then. */
#define MST_RUN_REPLICA_PREFIX "muster/run-replica/"

/* What the first node writes: how many restarts of processes, nodes and groups are used, and how
 * many the run may use: "USED MAX". */
#define MST_RUN_RESTARTS_KEY "muster/run-restarts"

bool mst_run_restarts_read(struct mst_slice value, uint32_t *used_out, uint32_t *most_out);

/* A number that is all of the text. */
bool mst_run_number_read(struct mst_slice text, uint32_t most, uint32_t *out);

/* What is read above; `room` holds MST_RUN_VALUE_ROOM bytes. */
void mst_run_all_write(char *room, const struct mst_all *all);
void mst_run_end_write(char *room, uint32_t node, int number);
void mst_run_peer_write(char *room, enum mst_peer_state state, uint32_t life);

#endif
