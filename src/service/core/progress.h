/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_PROGRESS_H
#define MST_SERVICE_CORE_PROGRESS_H

/* How far the ranks are, as their agents report it with their renewals. For people: no decision
 * depends on it, so it is in no journal, no snapshot and no digest, and for a report for which
 * there is no memory there is none.
 *
 * The ranks of the generation are compared with each other, once in a renewal's time:
 *
 *   behind      how many steps a rank is behind the median, all at the same moment: a rank is taken
 *               to go on at its own rate since its report
 *   slower      its work in a step, in thousandths of the median of the ranks whose work is
 * measured in the same way. Of an even number of ranks the median is the smaller one in the middle:
 * of two ranks the slower one is compared with the other straggler   slower than the median by
 * straggler_percent, and at work for half of each step; until three quarters of that percentage are
 * left
 *
 * In a job whose ranks meet in each step all have the rate of the slowest. So a straggler is named
 * by its work in a step, never by its rate. */

#include "service/core/member.h"

#define MST_PROGRESS_SECTION_MAX 31u

/* Of one rank: there may be many. */
struct mst_progress_kept {
    uint64_t incarnation, generation, at_ns;
    int64_t step;
    uint32_t rate, quiet_ms, work_us, share, behind, slower;
    uint32_t rank; /* while ranks are compared */
    uint32_t repeated;
    uint8_t work; /* enum mst_work */
    bool stepped, straggler;
    bool remembered; /* as an incident of the job */
    uint8_t section_size;
    char section[MST_PROGRESS_SECTION_MAX];
};

/* Of a job. */
struct mst_job_pace {
    uint64_t compared_ns;
    /* While ranks are compared: those with a report that counts, and numbers to be ordered. */
    struct mst_progress_kept **fresh;
    uint64_t *sorted;
    uint32_t room, fresh_count;
    uint32_t rate;       /* the median */
    uint32_t stragglers; /* ranks that are named */
};

/* A renewal of an agent. */
void mst_progress_take(const struct mst_session *session, const struct mst_request *request);

/* What is known of the rank that holds the place: false: nothing. */
bool mst_progress_fill(const struct mst_member *member, struct mst_rank_progress *out);

/* The median rate of the ranks, in steps per 1000 s, and how many ranks are stragglers; 0 and 0
 * where nothing was reported lately. */
void mst_progress_job(const struct mst_job *job, uint64_t *rate_out, uint64_t *stragglers_out);

void mst_progress_forget(struct mst_core *core, struct mst_member *member);
void mst_progress_clear(struct mst_job *job);

#endif
