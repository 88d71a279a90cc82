/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_DISCOVER_LAUNCHERS_H
#define MST_DISCOVER_LAUNCHERS_H

/* The table: what each launcher leaves in the environment, and how one row of it is read. */

#include "discover/discover.h"

/* What is looked for. NULL: this launcher has no such variable. */
struct mst_launcher_row {
    const char *name, *word;
    const char *sign; /* alone shows this launcher; NULL: rank and size and `with` together do */
    const char *rank, *size;
    const char *size_else; /* has the size where `size` is not set */
    const char *with;      /* must be set as well */
    const char *local_rank, *local_size, *node_rank, *node_count;
    const char *job;
    const char *start; /* what to type */
    bool common;       /* others set such names too: half of them means little beside a launcher */
    bool size_optional;
    /* What no column says; after the numbers were read. */
    void (*more)(struct mst_row *row, const struct mst_discover_input *input);
};

extern const struct mst_launcher_row mst_launcher_rows[MST_LAUNCHER_NONE];

/* The value, or NULL: not set, or empty. */
const char *mst_discover_get(const struct mst_discover_input *input, const char *name);

bool mst_discover_same(const char *a, const char *b);
bool mst_discover_begins(const char *text, const char *with);

/* Reads one row. */
void mst_launcher_read(struct mst_row *row, enum mst_launcher launcher,
                       const struct mst_discover_input *input);

#endif
