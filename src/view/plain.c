/* SPDX-License-Identifier: Apache-2.0 */
#include "view/plain.h"

#include <stdlib.h>

#include "proto/run_keys.h"

static struct mst_slice host_of(const struct mst_status *status, uint32_t node)
{
    for (size_t i = 0; i < status->members.count; i++) {
        const struct mst_who *who = &status->members.items[i].who;

        if (who->role == MST_ROLE_AGENT && who->index == node) {
            return who->host;
        }
    }
    return mst_slice_text("");
}

/* False: no memory. */
static bool add(struct mst_plain *plain, size_t *room, const struct mst_plain_rank *rank)
{
    struct mst_plain_rank *grown;

    if (plain->count == *room) {
        *room = *room > 0 ? 2 * *room : 16;
        grown = realloc(plain->ranks, *room * sizeof *grown);
        if (!grown) {
            return false;
        }
        plain->ranks = grown;
    }
    plain->ranks[plain->count++] = *rank;
    return true;
}

static bool add_key(const struct mst_status *status, const struct mst_item *key,
                    struct mst_plain *plain, size_t *room)
{
    struct mst_slice value = key->value, prefix = mst_slice_text(MST_RUN_PLAIN_PREFIX);
    struct mst_plain_rank rank = {0};
    struct mst_run_plain one;

    if (key->kind != MST_ITEM_KEY || !mst_slice_starts_with(key->name, prefix) ||
        !mst_run_number_read(mst_slice_from(key->name, prefix.size), UINT32_MAX, &rank.node)) {
        return true;
    }
    rank.host = host_of(status, rank.node);
    while (mst_run_plain_take(&value, &one)) {
        rank.index = one.index;
        rank.pid = one.pid;
        plain->more += one.more;
        if (one.more == 0 && !add(plain, room, &rank)) {
            return false;
        }
    }
    return true;
}

static int compare(const void *a, const void *b)
{
    const struct mst_plain_rank *left = a, *right = b;

    return (left->index > right->index) - (left->index < right->index);
}

bool mst_plain_of(const struct mst_status *status, struct mst_plain *out)
{
    size_t room = 0, kept = 0;

    *out = (struct mst_plain){.count = 0};
    for (size_t i = 0; i < status->plain.count; i++) {
        if (!add_key(status, &status->plain.items[i], out, &room)) {
            free(out->ranks);
            *out = (struct mst_plain){.count = 0};
            return false;
        }
    }
    if (out->count > 0) {
        qsort(out->ranks, out->count, sizeof *out->ranks, compare);
    }
    for (size_t i = 0; i < out->count; i++) { /* any client of the job may write the keys */
        if (kept == 0 || out->ranks[kept - 1].index != out->ranks[i].index) {
            out->ranks[kept++] = out->ranks[i];
        }
    }
    out->count = kept;
    return true;
}
