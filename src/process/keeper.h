/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROCESS_KEEPER_H
#define MST_PROCESS_KEEPER_H

/* A child of the run that does nothing but outlive it for a moment: however the run ends, the
 * process groups it still had are killed, and the ranks that have left them. The parent-death
 * signal alone reaches only the processes that the run started itself; a rank behind `sh -c` is a
 * child of the shell. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct mst_keeper {
    pid_t pid; /* 0: there is none, and the other functions do nothing */
    int line;  /* what is written here it reads; its end is the run's */
};

/* What it keeps: a process group, and the rank that its progress page names. */
struct mst_kept {
    pid_t group;
    pid_t rank;     /* 0: none is known */
    uint64_t start; /* of the rank: process/proc_stat.h */
};

/* For at most `most` groups at a time, and all else that has the run's tag. False with errno set.
 * Before there are threads. */
bool mst_keeper_start(struct mst_keeper *keeper, unsigned most, uint64_t run);

/* A new group, or its rank is another one. */
void mst_keeper_keep(const struct mst_keeper *keeper, struct mst_kept kept);

/* Before the group's leader is waited for: then its number may be another's. */
void mst_keeper_remove(const struct mst_keeper *keeper, pid_t group);

/* The end of the run, as the keeper sees it; waits until the keeper has ended. */
void mst_keeper_stop(struct mst_keeper *keeper);

#endif
