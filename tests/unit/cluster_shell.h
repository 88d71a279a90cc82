/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLUSTER_SHELL_H
#define CLUSTER_SHELL_H

/* A worker's machine with a shell of a few lines around it: what is sent and begun is noted. */

#include "failing_mem.h"
#include "tasks/worker_machine.h"

#define MS UINT64_C(1000000)

enum { SLOTS = 2, SENT = 512, TERM = 5, GRACE_MS = 500, F = 0, ALONE = 1, CHILD = 2 };

struct sent {
    enum mst_cluster_message_type type;
    struct mst_attempt attempt;
    uint64_t series, value;
    enum mst_origin origin, cause, cause_of_cause;
    int32_t code;
    size_t size; /* of the first part */
    uint32_t parts;
    uint32_t held, values;
    uint64_t results;
    uint64_t held_first, held_last;
    bool overdue;
};

struct shell {
    struct failing_mem failing;
    struct mst_worker *machine;
    uint64_t now_ns;
    bool connecting, connected;
    unsigned connects, hang_ups, starts, builds, drops, ends, lines;
    struct sent sent[SENT];
    unsigned count;
    uint64_t run[SLOTS], built[SLOTS]; /* what is in the slot; 0: nothing */
    uint64_t deadline_ns[SLOTS];
    bool asked[SLOTS], killed[SLOTS];
    uint64_t grace_ms; /* what the next WELCOME says */
    uint64_t dropped;
    muster_status end;
    uint64_t heard; /* what the next WELCOME says of its results */
    char line[MST_WORKER_LINE_ROOM];
};

extern struct shell shell; /* the one there is */
extern const struct mst_worker_config shell_config;

void shell_drain(void);
bool shell_open(const struct mst_worker_config *with, size_t fail_at);
void shell_close(void);
void shell_pass(uint64_t ms);
void shell_say(const struct mst_cluster_message *message);
void shell_coordinator(uint64_t term);
void shell_link_up(uint64_t term);
void shell_link_down(void);
void shell_begin(const struct mst_worker_config *with);
struct mst_cluster_message shell_run_of(uint64_t closure);
void shell_run(uint64_t closure);
void shell_run_with(uint64_t closure, uint32_t function, const uint64_t *need);
void shell_tell(enum mst_cluster_message_type type, uint64_t closure, uint64_t ms);
void shell_value(enum mst_cluster_message_type type, uint64_t number, uint32_t function);
void shell_finish_with(uint32_t slot, const struct mst_failure *failure, const char *text);
void shell_finish(uint32_t slot);
void shell_fail(uint32_t slot);
void shell_built(uint32_t slot, const struct mst_failure *failure);
const struct sent *shell_sent(unsigned place);
void shell_result(const struct sent *sent, uint64_t closure, enum mst_origin origin);

#endif
