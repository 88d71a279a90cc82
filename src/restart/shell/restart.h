/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_RESTART_SHELL_RESTART_H
#define MST_RESTART_SHELL_RESTART_H

/* The insides of a muster_restart, for the files of this folder.
 *
 * One handle per client, made at the first run and kept with the client: the machine counts the
 * rounds of a generation through all runs in it and hears of what happens between two runs.
 *
 *   restart.c  the run: the machine's effects, one attempt, unwinding
 *   options.c  what a run was given
 *   steps.c    callbacks, one kind after the other
 *   health.c   the health checks that need no code
 *   abort.c    the thread of the abort callbacks
 *   atomic.c   interrupted, or in an atomic section
 *   calls.c    what the function calls
 *   records.c  the sealed record, and why a run ended, in words
 *   export.c   RANK and WORLD_SIZE
 *   exit.c     exit() inside of the function
 *   at_exit.c  what the library does in exit(), the heartbeat too */

#include <pthread.h>

#include "client/shell/handle.h"
#include "client/shell/host.h"
#include "client/shell/interrupt.h"
#include "process/page.h"
#include "restart/shell/at_exit.h"
#include "restart/shell/atomic.h"
#include "restart/shell/options.h"

enum { MST_RUN_SECTIONS_MAX = 8 };

#define MST_RUN_NO_STEP INT64_MIN

/* A step of the run that failed: what its rank reports, or its caller gets. */
struct mst_run_trouble {
    muster_status status;
    int code;
    char text[256];
};

/* The abort callbacks of an attempt. */
enum mst_abort_state { MST_ABORT_NONE = 0, MST_ABORT_WANTED, MST_ABORT_RUNS, MST_ABORT_DONE };

struct mst_abort {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool thread_runs, stop;
    enum mst_abort_state state;
    uint64_t wanted_ns;
};

struct mst_export {
    bool changed, spare;
};

struct mst_run_section {
    char name[32];
    int64_t limit_ms;
};

struct muster_restart {
    struct mst_machine_host host; /* of struct mst_restart; first: the hook's */

    /* Read and written by the function's threads, without the lock. */
    struct mst_atomic atomic;
    _Atomic uint32_t delivered;            /* a check has said EINTERRUPTED */
    struct mst_page *page;                 /* the agent's, or `own` */
    _Atomic int64_t first_step, best_step; /* of this attempt; NO_STEP: none was reported */
    struct muster_view view;               /* of the attempt; constant while it runs */

    /* Of the run's thread alone. */
    struct mst_run_section sections[MST_RUN_SECTIONS_MAX];
    unsigned depth;                       /* of the sections */
    uint64_t pings_before, checks_before; /* this attempt */
    struct mst_export exported;
    struct mst_run_settings settings;
    struct mst_run_trouble trouble; /* why it ends on its own */
    /* Of a callback outside of an attempt: what muster_restart_fail has said; NULL: in none. */
    struct mst_run_trouble *saying;

    /* Under the client's lock. */
    muster_client *client;
    bool busy;    /* a run is in progress, on interrupt.thread */
    bool attempt; /* and an attempt: the machine waits for its end */
    bool inside;  /* and the function runs */
    bool cut;     /* its blocking calls were cut short */
    bool failed;  /* it has reported a failure */
    bool left;    /* it asked to leave */
    bool closed;  /* the client was closed in the function: it leaves when that returns */
    bool quit;    /* a wait check failed, as `trouble` says: it leaves */
    bool owe_enter, owe_unwind, owe_assign;
    struct muster_place *places; /* to be numbered; the machine's */
    size_t place_count;
    uint64_t cut_ns;                    /* since when */
    struct mst_restart_progress at_cut; /* how far it had come as it was cut short */
    bool finished;
    muster_status status;
    enum mst_restart_why why;
    struct muster_error error;
    struct mst_interrupt interrupt;

    struct mst_abort abort;

    pthread_mutex_t records_lock;
    struct mst_record_list records;
    /* The records as the attempt began: its own thread reads these, however soon the next fault
     * comes. */
    struct mst_record_list sealed;

    struct mst_at_exit at_exit; /* added while a run is in progress */
    struct mst_page own;        /* where no agent has made one */
};

/* Whether this is the thread of the run, and an attempt or a callback of it. No lock. */
bool mst_run_is_mine(const struct muster_restart *restart);

/* steps.c: calls them in their order; false: `trouble` says which one failed. */
bool mst_run_steps(struct muster_restart *restart, enum mst_step_kind kind,
                   struct mst_run_trouble *trouble);
/* Whether this attempt asked to leave: nothing more is called in it. On the run's thread. */
bool mst_run_leaves(const struct muster_restart *restart);
/* The health command, the folder, then the callbacks. */
bool mst_run_healthy(struct muster_restart *restart, struct mst_run_trouble *trouble);
/* For kinds whose failures are only logged. Lock not held. */
void mst_run_steps_logged(struct muster_restart *restart, enum mst_step_kind kind);

/* health.c */
bool mst_health_command(const char *command, int64_t timeout_ms, struct mst_run_trouble *trouble);
bool mst_health_folder(const char *folder, struct mst_run_trouble *trouble);

/* abort.c. A thread is only there if there are callbacks. */
muster_status mst_abort_start(struct muster_restart *restart, struct muster_error *err);
void mst_abort_stop(struct muster_restart *restart);  /* lock not held */
void mst_abort_reset(struct muster_restart *restart); /* a new attempt */
void mst_abort_want(struct muster_restart *restart);  /* once per attempt; any thread */
void mst_abort_wait(struct muster_restart *restart);  /* until they returned; lock not held */
/* Whether calls may be cut short: they have returned, or had their head start. */
bool mst_abort_let(struct muster_restart *restart, uint64_t now_ns);

/* calls.c: what the function left open is ended. */
void mst_run_close_sections(struct muster_restart *restart);

/* restart.c. Lock held. */
void mst_run_cut(struct muster_restart *restart); /* unless the function is in an atomic section */
void mst_run_report(struct muster_restart *restart, enum mst_cause kind, int code,
                    const char *text);

/* records.c */
void mst_run_records_set(struct muster_restart *restart, const struct mst_record_list *records);
/* They are of the attempt that begins. */
void mst_run_records_seal(struct muster_restart *restart);
/* What the service reported with the interruption: the first fault, if any. Lock held. */
void mst_run_records_so_far(struct muster_restart *restart);
/* Why it was given up, in restart->error. Lock held. */
void mst_run_say_why(struct muster_restart *restart, const struct mst_restart_effect *effect);
/* Whether all ranks end with the same. */
bool mst_run_ends_all(muster_status status, enum mst_restart_why why);

/* export.c: on the run's thread. */
void mst_export_set(struct muster_restart *restart, uint32_t rank, uint32_t size);
void mst_export_undo(struct muster_restart *restart);

/* exit.c: this run is to be left if the process ends well in it. */
void mst_run_exit_add(struct muster_restart *restart);
/* The client's hook. Whether this thread is inside of the function: then it is left when that has
 * returned, or the process ends. Lock not held. */
bool mst_run_exit_within(void *ctx);
/* It has returned. With the lock, which is given back meanwhile. */
void mst_run_exit_closed(struct muster_restart *restart);
/* The rank leaves past the machine, within a moment. With the lock. */
void mst_run_farewell(struct muster_restart *restart, const char *why);

#endif
