/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_DISCOVER_DISCOVER_H
#define MST_DISCOVER_DISCOVER_H

/* Where am I: the place of a process, from the variables that its launcher left in the environment.
 *
 * One row per launcher, looked at in this order; the first one that is complete wins, and what the
 * user says in MUSTER_INDEX always does. A wrong rank does more harm than none: where the variables
 * contradict each other, are half set, or describe another process than this one, nothing is
 * guessed and one line says what is set, what is missing and what to do.
 *
 * Pure: the environment is a function, so recorded environments can be asked. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The number is not known from the environment. */
#define MST_PLACE_UNKNOWN UINT32_MAX
/* Ranks and sizes are below or at this; more is taken for a mistake. */
#define MST_PLACES_MAX 1000000u

#define MST_DISCOVER_JOB_ROOM 64
#define MST_DISCOVER_HOST_ROOM 256
#define MST_DISCOVER_WHY_ROOM 400

enum mst_launcher {
    MST_LAUNCHER_MUSTER,
    MST_LAUNCHER_TORCHRUN,
    MST_LAUNCHER_OPENMPI,
    MST_LAUNCHER_MVAPICH,
    MST_LAUNCHER_HYDRA, /* MPICH, Intel MPI, and whatever else speaks PMI */
    MST_LAUNCHER_PALS,
    MST_LAUNCHER_JSRUN,
    MST_LAUNCHER_FLUX,
    MST_LAUNCHER_PMIX,
    MST_LAUNCHER_SLURM,
    MST_LAUNCHER_TPU,
    MST_LAUNCHER_KUBERNETES,
    MST_LAUNCHER_HOROVOD,
    MST_LAUNCHER_NONE, /* a process on its own */
    MST_LAUNCHER_COUNT
};

/* Why there is no answer. */
enum mst_trap {
    MST_TRAP_NONE,
    MST_TRAP_HALF_SET,      /* a launcher's variables are there, but not all that are needed */
    MST_TRAP_VALUE,         /* no number, out of range, or a rank beyond the size */
    MST_TRAP_CONTRADICTION, /* two launchers say different things */
    MST_TRAP_NO_SIZE,       /* this launcher does not tell the size: the user must */
    MST_TRAP_BATCH          /* inside an allocation of Slurm, but not started by srun */
};

/* The caller. An agent is one process per node or so, started by the launcher: its rank is its
 * node's number, and its size the number of nodes. The variables that speak of ranks (MUSTER_INDEX,
 * torchrun's) are not about it, it may lack a size, and in an allocation of one node it may be
 * started from the batch script itself. */
enum mst_asker { MST_ASKER_RANK, MST_ASKER_AGENT };

struct mst_discover_input {
    const char *(*get)(void *ctx, const char *name); /* NULL: not set; "" counts as not set */
    void *ctx;
    const char *host; /* of this machine or pod; NULL: not known */
    /* The beginning of a file as text, in `room` bytes; false: it cannot be read. NULL: no files.
     */
    bool (*read)(void *ctx, const char *path, char *text, size_t room);
    enum mst_asker asker;
};

/* MST_PLACE_UNKNOWN where a number is not known. */
struct mst_discovered {
    uint32_t rank, size;
    uint32_t local_rank, local_size;
    uint32_t node_rank, node_count;
    char job[MST_DISCOVER_JOB_ROOM];   /* fit for a file's name; "": the launcher names none */
    char host[MST_DISCOVER_HOST_ROOM]; /* where rank 0 probably is; "": not known */
};

enum mst_row_state {
    MST_ROW_ABSENT,
    MST_ROW_HALF,   /* something is missing */
    MST_ROW_BROKEN, /* a value makes no sense */
    MST_ROW_COMPLETE
};

struct mst_row {
    enum mst_row_state state;
    struct mst_discovered place;
    char why[MST_DISCOVER_WHY_ROOM]; /* what was found, or what was looked for */
};

struct mst_discovery {
    enum mst_launcher launcher; /* the winner; with a trap: the launcher of the wrong variables */
    enum mst_trap trap;
    struct mst_discovered place;     /* without a trap */
    char why[MST_DISCOVER_WHY_ROOM]; /* one line: why this row, or what is wrong and what to do */
    struct mst_row rows[MST_LAUNCHER_COUNT]; /* each with its own reason */
};

/* True: there is an answer, and `launcher` says from whom. NONE is an answer too: rank 0 of 1.
 * False: a trap; `why` is the line for the user. */
bool mst_discover(struct mst_discovery *out, const struct mst_discover_input *input);

/* "Open MPI", for people. */
const char *mst_launcher_name(enum mst_launcher launcher);
/* "openmpi", for programs, and the beginning of the job's name. */
const char *mst_launcher_word(enum mst_launcher launcher);
/* The variable that distinguishes ranks of this launcher; NULL: it has none. */
const char *mst_launcher_rank_variable(enum mst_launcher launcher);

#endif
