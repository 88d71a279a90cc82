/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_TASKS_WORKER_MACHINE_H
#define MST_TASKS_WORKER_MACHINE_H

/* What the files of the worker's machine share. worker.c: the inputs of its shell, and the way from
 * term to term. worker_run.c: slots and runs. worker_value.c: per-worker values. worker_message.c:
 * messages of the coordinator. worker_effect.c: the outputs, and the invariants. */

#include "base/list.h"
#include "base/prng.h"
#include "base/time.h"
#include "base/tree.h"
#include "tasks/worker.h"

enum {
    MST_WORKER_ADDRESS_ROOM = 512,
    MST_WORKER_LINE_ROOM = 240,
    MST_WORKER_LINES = 8,
    MST_WORKER_QUEUED_MAX = 1024,    /* runs per slot; more is a coordinator that lies */
    MST_WORKER_VALUES_MAX = 65536,   /* likewise */
    MST_WORKER_SENT_MAX = 512,       /* results that may not have come in, and... */
    MST_WORKER_SENT_BYTES = 4 << 20, /* ...unless there is but one, of so many bytes */
    MST_WORKER_LINGER_MS = 2000, /* a drained one waits for its coordinator: then it has put back */
    MST_WORKER_UNHEARD_MS = 2000 /* beyond the grace, for a coordinator to hear why it is killed */
};

/*  NONE -> CONNECTING -> HELLO -> WELCOMED
 *    ^         |           |         |        lost; or closed from here: CLOSING until that is done
 *    +---------+-----------+---------+ */
enum mst_worker_link {
    MST_LINK_NONE = 0,
    MST_LINK_CONNECTING = 1,
    MST_LINK_HELLO = 2,
    MST_LINK_WELCOMED = 3,
    MST_LINK_CLOSING = 4
};

/* Something that waits to be sent. */
struct mst_worker_out {
    struct mst_list link;
    const struct mst_cluster_message *message;
};

enum mst_run_state { MST_RUN_QUEUED = 0, MST_RUN_BEGUN = 1, MST_RUN_ANSWERED = 2 };

/* One attempt, from its RUN to its RESULT. */
struct mst_worker_run {
    struct mst_tree_node node; /* of runs, by attempt */
    struct mst_list link;      /* of queue, until it is answered */
    struct mst_worker_out out; /* of outbox, from then on */
    enum mst_run_state state;
    bool sent;                          /* and in the list of that name, not in the outbox */
    uint64_t until_ns;                  /* its deadline; 0: none */
    size_t size;                        /* of this and its content, in bytes */
    void *content;                      /* of its RESULT */
    struct mst_cluster_message message; /* RUN, then RESULT; what it borrows lies behind this */
};

enum mst_value_state {
    MST_VALUE_WAITING = 0, /* for a slot to be built in */
    MST_VALUE_BUILDING = 1,
    MST_VALUE_READY = 2,
    MST_VALUE_FAILED = 3
};

struct mst_worker_value {
    struct mst_tree_node node; /* of values, until its DROP is done */
    struct mst_list link;      /* of builds, or of drops */
    struct mst_worker_out out; /* of outbox: its BUILT */
    enum mst_value_state state;
    bool dropped; /* the coordinator needs it no more: freed once no run uses it */
    bool shown;   /* to the shell, by BUILD: which is then owed a DROP */
    uint32_t users;
    void *content; /* of its BUILT */
    struct mst_cluster_message build, built, drop;
};

struct mst_worker_slot {
    struct mst_worker_run *run;     /* or */
    struct mst_worker_value *value; /* being built; both NULL: it is free */
    struct mst_list start, stop;    /* effects that are due */
    enum mst_origin why;            /* it was asked to stop; NONE: it was not */
    bool killed;
    bool old; /* of a term that is over: its result is discarded */
    uint64_t deadline_ns, kill_ns;
};

/* PROGRESS or LOG, on its way. */
struct mst_worker_note {
    struct mst_worker_out out;
    struct mst_cluster_message message;
};

enum mst_worker_ending { MST_WORKER_LIVES = 0, MST_WORKER_DRAINS = 1, MST_WORKER_ENDS = 2 };

struct mst_worker {
    struct mst_mem mem;
    struct mst_worker_config config;
    void *words; /* of the configuration */
    uint64_t now_ns;
    struct mst_prng prng;

    /* The coordinator to follow. */
    uint64_t term; /* the largest one seen */
    bool there;    /* its key is */
    size_t address_size;
    char address[MST_WORKER_ADDRESS_ROOM];

    enum mst_worker_link link;
    uint64_t retry_ns, linger_ns; /* until then a drained one waits for its coordinator */
    uint64_t turn;                /* connections on which it sent HELLO */
    uint32_t failures;            /* to connect, in a row */
    uint32_t number;
    uint64_t grace_ms; /* of this coordinator, for what is overdue; 0: it names none */
    void *hello_lists;

    struct mst_tree runs;   /* all, by attempt */
    struct mst_list queue;  /* those that are not answered, in the order in which they came */
    struct mst_tree values; /* by number */
    struct mst_list builds, drops;
    struct mst_worker_slot *slots;
    uint32_t busy, old; /* slots */
    struct mst_list starts, stops;
    struct mst_list outbox;
    uint64_t kept; /* bytes of runs that are answered */

    /* The next WELCOME acknowledges results that were sent; the last ones are kept until then. */
    struct mst_list sent;
    uint64_t sent_bytes;
    uint64_t results; /* sent in this term, `sent` being the last of them */
    uint32_t sent_count;
    bool forgot; /* results, since the last WELCOME */

    enum mst_worker_ending end;
    muster_status status;
    bool ended; /* END was given out */

    struct mst_worker_out leaving; /* DRAINING */
    struct mst_cluster_message hello, draining;
    uint32_t line_count;
    char lines[MST_WORKER_LINES][MST_WORKER_LINE_ROOM];
    struct mst_worker_effect effect;
    struct mst_worker_out *sending;
    bool clearing;    /* what ran for a term that is over: nothing begins before it has ended */
    bool sending_old; /* what is being sent is of such a term */
    bool owe_hello, out;
};

/* worker.c */
void mst_worker_say(struct mst_worker *worker, const char *words, uint64_t number,
                    struct mst_slice more);
void mst_worker_hang_up(struct mst_worker *worker);
bool mst_worker_may_connect(const struct mst_worker *worker);
bool mst_worker_is_over(const struct mst_worker *worker); /* END is due */
/* The coordinator broke the protocol: hangs up. */
void mst_worker_lie(struct mst_worker *worker, const char *what);
void mst_worker_advance(struct mst_worker *worker);

/* worker_run.c */
mst_tree_order mst_worker_run_order;
struct mst_worker_run *mst_worker_run_find(const struct mst_worker *worker,
                                           struct mst_attempt attempt);
struct mst_worker_slot *mst_worker_slot_of(const struct mst_worker *worker,
                                           const struct mst_worker_run *run);
bool mst_worker_run_take(struct mst_worker *worker, const struct mst_cluster_message *message);
/* It ends here without a value. Unless it has begun. */
void mst_worker_run_end(struct mst_worker *worker, struct mst_worker_run *run,
                        enum mst_origin origin, const char *text);
/* Fills `to`, a RESULT or BUILT, from `answer`. What it borrows is copied into *content, which is
 * replaced; its size. */
size_t mst_worker_answer(struct mst_worker *worker, struct mst_cluster_message *to,
                         struct mst_cluster_message *answer, const struct mst_failure *failure,
                         void **content);
/* The failure that is reported, in `room`; NULL: a value, which is not too large. `why`: it was
 * asked to stop. */
const struct mst_failure *mst_worker_judge(const struct mst_worker *worker,
                                           const struct mst_failure *failure, enum mst_origin why,
                                           struct mst_parts *parts, struct mst_failure *room);
void mst_worker_run_free(struct mst_worker *worker, struct mst_worker_run *run);
/* True: it has not begun, or not by now: its START was not given out yet. */
bool mst_worker_run_recall(struct mst_worker *worker, struct mst_worker_run *run);
void mst_worker_ask(struct mst_worker *worker, struct mst_worker_slot *slot, enum mst_origin why,
                    uint64_t grace_ns);
void mst_worker_slot_clear(struct mst_worker *worker, struct mst_worker_slot *slot);
void mst_worker_fill(struct mst_worker *worker);
void mst_worker_look_at_clock(struct mst_worker *worker);
void mst_worker_overdue_again(struct mst_worker *worker); /* on a new connection */
void mst_worker_trim(struct mst_worker *worker);
void mst_worker_sent(struct mst_worker *worker, struct mst_worker_run *run); /* its RESULT */
void mst_worker_send_again(struct mst_worker *worker, uint64_t heard);       /* so many came in */
void mst_worker_post(struct mst_worker *worker, struct mst_worker_out *out,
                     const struct mst_cluster_message *message);
void mst_worker_out_done(struct mst_worker *worker, struct mst_worker_out *out); /* no RESULT */

/* worker_value.c */
mst_tree_order mst_worker_value_order;
struct mst_worker_value *mst_worker_value_find(const struct mst_worker *worker, uint64_t number);
bool mst_worker_value_take(struct mst_worker *worker, const struct mst_cluster_message *message);
void mst_worker_value_drop(struct mst_worker *worker, struct mst_worker_value *value);
void mst_worker_value_again(struct mst_worker *worker, struct mst_worker_value *value);
void mst_worker_value_tell(struct mst_worker *worker, struct mst_worker_value *value);
/* Frees a dropped value that no run uses. */
void mst_worker_value_settle(struct mst_worker *worker, struct mst_worker_value *value);
void mst_worker_value_free(struct mst_worker *worker, struct mst_worker_value *value);

static inline bool mst_worker_slot_busy(const struct mst_worker_slot *slot)
{
    return slot->run || slot->value;
}

#endif
