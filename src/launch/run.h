/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_RUN_H
#define MST_LAUNCH_RUN_H

/* `muster run`: starts the ranks of one node, on the first one the service of all, and sees them
 * through. */

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "process/binding.h"
#define MST_RUN_SIZE_MAX 1000000u
/* processes of a run */

#define MST_RUN_NO_INPUT UINT32_MAX
/* for the index that gets the input */

/* What the program itself ends with when no rank's own status says it better. */
#define MST_EXIT_TIME 124
#define MST_EXIT_LAUNCHER 125
#define MST_EXIT_NOT_EXECUTABLE 126
#define MST_EXIT_NOT_FOUND 127

/* A rank that ends with it saved its state and asks to be run again later: it is not started again
 * now, and neither is it a failure. */
#define MST_EXIT_AGAIN 75

/* One of the programs of a run. Each node starts all of them, in order: this one at the next
 * `count` places. */
struct mst_run_program {
    uint32_t count;
    const char *name;       /* as typed, for the job's name */
    char *const *arguments; /* the program and what it is given; NULL at the end */
    char **made;            /* those, where they are not as typed; allocated */
    char path[PATH_MAX];    /* once it was found */
};

struct mst_run_options {
    const char *job;   /* NULL: a name is made from the program's and our pid */
    uint32_t nproc;    /* ranks to start on each node; 0: not given */
    uint32_t size;     /* of the job; 0: those of all nodes */
    uint32_t spares;   /* processes on each node beyond nproc, which wait until one is lost */
    uint32_t min_size; /* 0: not given. When it is, the run goes on without ranks that cannot be
                          started again, while this many are left; without it, where there are
                          spares, while there are enough for all ranks */
    uint32_t max_size; /* that run at a time, and what a multiple of runs; 0: not given */
    uint32_t size_multiple;
    int64_t join_wait_ms;
    int64_t replace_wait_ms; /* -1: not given */
    const char *grow;        /* "check", "fault", "off" */
    const char *lease;       /* as text for the service; NULL: its default */
    const char *http; /* where the service tells health and metrics; NULL or empty: nowhere */
    uint64_t history; /* of the service: incidents that it remembers of each job */
    uint64_t straggler_percent;  /* of the service: how much slower one is */
    uint64_t buffered_bytes_max; /* of the service: what its connections may hold together */
    const char *record;          /* folder in which the service records; NULL or empty: none */
    uint32_t max_restarts;
    uint32_t restarts_given; /* not 0: max_restarts holds for a program without muster as well */
    int64_t grace_ms;
    int64_t max_time_ms; /* of the run, on node 0; 0: no limit */

    uint32_t nodes_min, nodes_max; /* 0: not given */
    int64_t node_rank;             /* -1: whichever is free */
    const char *join;              /* where node 0's service is; NULL: this is node 0 */
    const char *listen;            /* node 0: HOST:PORT, port 0 for a free one */
    const char *avoid;             /* hosts that are kept out, with commas */
    const char *hostfile;          /* the hosts of all nodes, started by ssh; NULL: none */
    struct mst_hosts *hosts;       /* what that says; NULL likewise */
    const char *ssh;               /* how: a command that is given a host and a command */
    const char *pass_env;          /* variables that they get too, with commas; NULL: none */
    const char *exported;          /* likewise: those of -x */
    char *const *node_flags;       /* --NAME=VALUE: what was typed here and counts on each node */
    const char *secret_file;       /* NULL: node 0 makes one, */
    int secret_fd;                 /* unless it is read from here; -1: it is not */
    bool insecure;                 /* without a secret */
    bool log_json;                 /* lines of the run and of its service are objects */
    uint32_t replicas;             /* of the service, that vote: 1, 3 or 5; 0: not given */
    bool launched;                 /* by a launcher that starts the other nodes too */
    int64_t service_wait_ms;

    const char *preempt_sources; /* NULL: the usual ones */
    uint64_t preempt_signals;    /* bit s - 1: signal s is a notice */
    int64_t preempt_period_ms, preempt_margin_ms, preempt_grace_ms;
    bool requeue;             /* once all have saved the job is asked to be run again... */
    const char *requeue_file; /* ...by this file; NULL: by Slurm */

    const char *fronts;   /* "xla,tcpstore", or "none": for programs of JAX and torch */
    const char *role;     /* that torch shows for the ranks */
    bool jax_recoverable; /* the others go on without a lost process of JAX */
    enum mst_bind bind;   /* which CPUs of this node each process may use */
    bool dump, label;
    bool tee;                         /* with log_dir: to the terminal as well */
    uint32_t input;                   /* the index that gets our standard input */
    const char *log_dir;              /* NULL: the ranks' output goes to the terminal */
    const char *report;               /* NULL: none is written */
    struct mst_run_program *programs; /* at least one; `nproc` is the sum of their counts */
    uint32_t program_count;
    uint32_t keep_runs; /* whose files stay in the user's state folder; 0: none */
};

/* Whether it may run on more than one node. */
static inline bool mst_run_several(const struct mst_run_options *options)
{
    return options->nodes_max > 1;
}

/* Places there are in the job, on all nodes or elsewhere; and how many must be left that it goes on
 * without one that is not started again, 0: all. */
uint32_t mst_run_indices(const struct mst_run_options *options);
uint32_t mst_run_enough(const struct mst_run_options *options);

/* Runs to the end and returns the exit code. On the main thread: the ranks die with it. */
int mst_run(const struct mst_run_options *options);

#endif
