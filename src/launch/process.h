/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_PROCESS_H
#define MST_LAUNCH_PROCESS_H

/* One process that was started for a place of the job. It is kept, because it may turn out to be
 * the first cause, and because requests about it may still be under way; of those that others of
 * their place have got over only the newest, or a long run would grow with each death. */

#include <sys/types.h>
#include <time.h>

#include "client/shell/deliver.h"
#include "client/shell/internal.h"
#include "launch/hang/monitor.h"
#include "launch/logs.h"
#include "process/output.h"
#include "process/page.h"
#include "process/tagged.h"

enum mst_process_end {
    MST_PROCESS_RUNS = 0,
    MST_PROCESS_DEAD, /* told, or given up by the service, and killed; not gone yet */
    MST_PROCESS_GONE  /* the kernel has freed everything it had */
};

/* What the service is told of a death. */
struct mst_word {
    struct mst_delivery delivery;
    const struct mst_process *process;
    enum mst_cause cause;
    int code;
    bool last; /* no other process is started in its place */
};

struct mst_process {
    struct mst_process *older;
    uint32_t index;
    uint32_t attempt; /* 0: the first of its place */
    uint32_t life;    /* of the whole group */
    bool again;       /* its place had another one in that life */
    pid_t pid;
    char tag[MST_TAG_ROOM]; /* of all that it starts */
    struct mst_page *page;  /* NULL: it is gone, and what its page said last is here: */
    struct mst_page last;
    uint64_t client_kept;                  /* the pid that the keeper knows; main thread */
    struct mst_output_stream *out, *error; /* NULL: there is none */
    bool on_terminal;                      /* `error` is all that it writes on its terminal */
    struct mst_log log;
    int error_fd;       /* where a worker of torch leaves its error; -1: in a file, or nowhere */
    char recorded[256]; /* the message that it left there, in one line; empty: none */
    uint64_t started_ns;

    /* Written by the waiter's and the client's threads too: under the run's lock. */
    enum mst_process_end end;
    bool told;              /* by the kernel, before it was gone */
    bool noticed;           /* by the main thread */
    bool fronted;           /* it was a rank by a front; main thread */
    bool lingers;           /* it is gone, and its rank uses its grace time; main thread */
    enum mst_cause verdict; /* LEASE, EVICTED: the service gave it up before it ended;
                               HARD_TIMEOUT: it was ended because it hung;
                               UNHEALTHY: a front gave it up */
    int ended_by;           /* HARD_TIMEOUT: the last signal it got */
    char why[128];          /* of these two: "made no progress for 90.0 s" */
    bool joined;            /* it was in a generation, or a worker of the job */
    bool excused;           /* it was ended because its node was given up, or all begin anew */
    uint32_t rank;          /* in the last one that was heard of: see below */
    struct timespec died;   /* when it, or the verdict, was first known, on the wall clock... */
    uint64_t died_ns;       /* ...and on ours */

    struct mst_watched watched; /* by the monitor, while it runs */

    int status; /* as waitpid gives it, once gone: of the rank, if it said so */
    /* That it is unhealthy, the death, its status when that came later, and that it was the last of
     * its place. */
    struct mst_word lost[4];
    unsigned lost_count;
};

/* Its page, or what that said last. */
const struct mst_page *mst_process_page(const struct mst_process *process);

/* The pid that opened a client; 0: none has. */
uint64_t mst_process_client(const struct mst_process *process);

/* Its pid as the service knows it: the one that opened the client, which is not the one that was
 * started where a shell stands between. */
uint64_t mst_process_pid(const struct mst_process *process);

/* The last generation it was in; 0: none. */
uint64_t mst_process_generation(const struct mst_process *process);

/* Its rank in that one; MST_RANK_NONE: unknown. What the service reports comes later than the page,
 * and is all that is known of a client without restart, which writes no rank there. */
uint32_t mst_process_rank(const struct mst_process *process);

/* Its last muster_restart_run ended with an error that is the same on all ranks, and it is in none
 * any more: a process in its place would get the same error. */
bool mst_process_gave_up(const struct mst_process *process);

/* It gave up because muster_restart_abort was called. */
bool mst_process_aborted(const struct mst_process *process);

/* Why it gave up, in one line; empty: it did not, or left no reason. */
void mst_process_failure(const struct mst_process *process, char *text, size_t room);

/* It was in muster_restart_run and is not any more. */
bool mst_process_returned(const struct mst_process *process);

/* It has left the job, so its status is its own affair. */
bool mst_process_left(const struct mst_process *process);

/* It called exit() in its function with a status that is a failure: with that one. */
bool mst_process_exited(const struct mst_process *process, int *code_out);

/* It has ended, as waitpid says of the process that was started. */
void mst_process_gone(struct mst_process *process, int status);

/* Keeps what the page said last, and unmaps it. */
void mst_process_page_end(struct mst_process *process);

/* Whether it ended in a way that is a failure. The status of one that has left is none. */
bool mst_process_failed(const struct mst_process *process);

/* What the shell would say of it: the status, or 128 and the signal. */
int mst_process_code(const struct mst_process *process);

/* "ended with status 1", "was killed by signal 9 (Killed)": `status` as waitpid gives it. */
void mst_status_how(int status, char *text, size_t room);

/* The same of a process, or what it was given up for. */
void mst_process_how(const struct mst_process *process, char *text, size_t room);

/* "rank 2 (#2, pid 4242)"; the rank where it is known. */
void mst_process_name(const struct mst_process *process, char *text, size_t room);

/* Ends the process, all of its group and the one of its page by this signal; a stopped one is made
 * to run. Only while it is not gone. */
void mst_process_signal(const struct mst_process *process, int number);

#endif
