/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "launch/hang/progress.h"

#include <stdlib.h>

#include "client/client.h"
#include "client/shell/handle.h"

static uint32_t count_of(const struct mst_monitor *monitor)
{
    uint32_t count = 0;

    for (const struct mst_watched *one = monitor->first; one != NULL; one = one->next) {
        count++;
    }
    return count < MST_PROGRESS_MAX ? count : MST_PROGRESS_MAX;
}

/* With the client's lock held: it may read the list that is replaced. */
static void make_room(struct mst_progress_report *report, uint32_t count)
{
    struct mst_rank_progress *list = calloc(count, sizeof *list);
    char(*sections)[MST_PACE_SECTION] = calloc(count, sizeof *sections);

    if (list == NULL || sections == NULL) {
        free(list);
        free(sections);
        return;
    }
    free(report->list);
    free(report->sections);
    report->list = list;
    report->sections = sections;
    report->room = count;
}

void mst_progress_report_set(struct mst_progress_report *report, muster_client *client,
                             const struct mst_monitor *monitor)
{
    uint32_t count = count_of(monitor), used = 0;

    if (client == NULL) {
        return;
    }
    mst_lib_lock(client);
    if (report->room < count) {
        make_room(report, count);
    }
    for (const struct mst_watched *one = monitor->first; one != NULL && used < report->room;
         one = one->next) {
        struct mst_rank_progress *progress = &report->list[used];

        if (mst_pace_report(&one->pace, one->page, report->sections[used], progress)) {
            progress->index = one->index;
            progress->pid = (uint64_t)mst_watched_pid(one);
            used++;
        }
    }
    mst_client_report(mst_lib_machine(client), report->list, used);
    mst_lib_unlock(client);
}

void mst_progress_report_fini(struct mst_progress_report *report)
{
    free(report->list);
    free(report->sections);
    *report = (struct mst_progress_report){0};
}
