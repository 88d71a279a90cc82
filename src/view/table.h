/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_VIEW_TABLE_H
#define MST_VIEW_TABLE_H

/* The rows of `muster top`: members and places that no process ever took, filtered and sorted. */

#include "base/text.h"
#include "view/screen.h"
#include "view/unusual.h"

struct mst_top_row {
    const struct mst_item *member; /* NULL: the place was never taken */
    uint32_t index;
    enum mst_unusual unusual;
};

struct mst_top_table {
    struct mst_top_row *rows;
    size_t count, room, all; /* `all`: without the filter */
    bool failed;             /* no memory */
};

void mst_top_table_make(struct mst_top_table *table, const struct mst_status *status,
                        const struct mst_job_verdict *verdict, enum mst_top_screen_sort sort,
                        const char *filter);
void mst_top_table_free(struct mst_top_table *table);

/* "rank 7", "worker #2", "#3" */
void mst_top_row_name(struct mst_text *text, const struct mst_top_row *row);
const char *mst_top_row_state(const struct mst_top_row *row);

#endif
