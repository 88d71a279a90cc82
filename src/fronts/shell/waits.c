/* SPDX-License-Identifier: Apache-2.0 */
/* What clients of the fronts wait for, as the agent writes it for `muster status`. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"
#include "fronts/shell/internal.h"

#define MORE_ROOM 16u /* of "+COUNT" */
enum { PIDS_MAX = 256, WHAT_SHOWN = 200 };

struct listing {
    const struct mst_fronts_options *options;
    uint64_t now_ns;
    uint32_t pids[PIDS_MAX], pid_count; /* that are in the value */
    uint32_t more;
    char *value;
    size_t size, room;
};

/* A process is listed once, for the one of its threads that waits for longest. */
static bool is_listed(const struct listing *listing, uint32_t pid)
{
    for (uint32_t i = 0; i < listing->pid_count; i++) {
        if (listing->pids[i] == pid) {
            return true;
        }
    }
    return false;
}

static void clean(char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < ' ' || *text == '\x7f') {
            *text = '?';
        }
    }
}

static void add(void *ctx, const struct mst_front_wait *wait)
{
    struct listing *listing = ctx;
    uint32_t rank = listing->options->rank(listing->options->ctx, wait->pid);
    char index[16] = "", what[WHAT_SHOWN + 1];
    size_t room = listing->room - MORE_ROOM - listing->size;
    int size;

    if (is_listed(listing, wait->pid)) {
        return;
    }
    if (rank != MST_FRONT_INDEX_NONE) {
        (void)snprintf(index, sizeof index, "%" PRIu32, rank);
    }
    (void)snprintf(what, sizeof what, "%.*s", MST_SLICE_ARGS(wait->what));
    clean(what);
    size =
        snprintf(listing->value + listing->size, room, "%s%s\t%" PRIu32 "\t%" PRIu64 "\t%s",
                 listing->size > 0 ? "\n" : "", index, wait->pid,
                 (listing->now_ns - mst_sooner(wait->since_ns, listing->now_ns)) / NS_PER_MS, what);
    if ((size_t)size < room && listing->pid_count < PIDS_MAX) {
        listing->pids[listing->pid_count++] = wait->pid;
        listing->size += (size_t)size;
    } else {
        listing->more++;
    }
    listing->value[listing->size] = '\0';
}

void mst_fronts_waits(const struct mst_fronts *fronts, char *value, size_t room)
{
    struct listing listing = {
        .options = &fronts->options, .now_ns = mst_lib_now_ns(), .value = value, .room = room};

    value[0] = '\0';
    for (unsigned i = 0; i < fronts->count; i++) {
        const struct mst_fronts_one *one = &fronts->list[i];

        if (one->machine != NULL && one->front->waits != NULL) {
            one->front->waits(one->machine, add, &listing);
        }
    }
    if (listing.more > 0) {
        (void)snprintf(value + listing.size, MORE_ROOM, "\n+%" PRIu32, listing.more);
    }
}
