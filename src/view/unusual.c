/* SPDX-License-Identifier: Apache-2.0 */
#include "view/unusual.h"

static bool keeps_waiting(const struct mst_item *round, const struct mst_item *member)
{
    for (uint32_t i = 0; round && i < round->missing_count; i++) {
        if (round->missing[i] == member->who.index) {
            return true;
        }
    }
    return false;
}

enum mst_unusual mst_member_unusual(const struct mst_status *status,
                                    const struct mst_job_verdict *verdict,
                                    const struct mst_item *member)
{
    const struct mst_who *who = &member->who;
    bool rank = who->role == MST_ROLE_RANK;
    bool straggler = member->has_progress && member->progress.straggler;

    if (rank && verdict->index == who->index && verdict->level != MST_JOB_GOOD &&
        verdict->kind != MST_JOB_STRAGGLES) {
        return MST_UNUSUAL_BLAMED;
    }
    switch (who->state) {
    case MST_STATE_LOST:
        return MST_UNUSUAL_LOST;
    case MST_SILENT:
        return MST_UNUSUAL_SILENT;
    case MST_LEFT:
        return MST_UNUSUAL_LEFT;
    case MST_JOINING:
    case MST_PRESENT:
    case MST_ABSENT:
    case MST_SPARE:
        break;
    }
    if (rank && verdict->kind == MST_JOB_WAITS &&
        keeps_waiting(mst_job_fullest_round(status), member)) {
        return MST_UNUSUAL_ABSENT;
    }
    return straggler ? MST_UNUSUAL_STRAGGLER : who->losses > 0 ? MST_UNUSUAL_LOSSES : MST_ORDINARY;
}
