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
    int line;  /* what is written here it hears; its end is the run's */
};

/* For at most `most` groups at a time, and all else that has the run's tag. False with errno set.
 * Before there are threads. */
bool mst_keeper_start(struct mst_keeper *keeper, unsigned most, uint64_t run);

void mst_keeper_add(const struct mst_keeper *keeper, pid_t group);

/* The rank that the group's progress page names, and when it was started (process/proc_stat.h). */
void mst_keeper_rank(const struct mst_keeper *keeper, pid_t group, pid_t rank, uint64_t start);

/* Before the group's leader is waited for: then its number may be another's. */
void mst_keeper_remove(const struct mst_keeper *keeper, pid_t group);

/* The end of the run, as the keeper sees it; waits until the keeper is gone. */
void mst_keeper_stop(struct mst_keeper *keeper);

#endif
