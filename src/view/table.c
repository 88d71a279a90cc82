/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "view/table.h"

#include <stdlib.h>
#include <string.h>

#include "proto/words.h"

const char *mst_top_row_state(const struct mst_top_row *row)
{
    return row->member ? mst_state_word(row->member->who.state) : "never came";
}

void mst_top_row_name(struct mst_text *text, const struct mst_top_row *row)
{
    const struct mst_who *who = row->member ? &row->member->who : NULL;

    if (who && who->role != MST_ROLE_RANK) {
        mst_text_format(text, "%s #%" PRIu32, mst_role_word(who->role), row->index);
    } else if (who && who->rank != MST_RANK_NONE) {
        mst_text_format(text, "rank %" PRIu32 " (#%" PRIu32 ")", who->rank, row->index);
    } else {
        mst_text_format(text, "#%" PRIu32, row->index);
    }
}

static bool has(struct mst_slice where, const char *what)
{
    return where.size > 0 && memmem(where.data, where.size, what, strlen(what)) != NULL;
}

static bool passes(const struct mst_top_row *row, const char *filter)
{
    char name[48];
    struct mst_text text = mst_text_in(name, sizeof name);

    mst_top_row_name(&text, row);
    return !*filter || strstr(name, filter) || strstr(mst_top_row_state(row), filter) ||
           (row->member && (has(row->member->who.host, filter) || has(row->member->name, filter)));
}

static void add(struct mst_top_table *table, const struct mst_top_row *row, const char *filter)
{
    struct mst_top_row *grown;

    table->all++;
    if (!passes(row, filter) || table->failed) {
        return;
    }
    if (table->count == table->room) {
        table->room = table->room > 0 ? 2 * table->room : 64;
        grown = realloc(table->rows, table->room * sizeof *grown);
        if (!grown) {
            table->failed = true;
            return;
        }
        table->rows = grown;
    }
    table->rows[table->count++] = *row;
}

struct adding {
    struct mst_top_table *table;
    const char *filter;
};

static void add_absent(void *ctx, uint32_t index, const struct mst_item *member)
{
    struct adding *adding = ctx;
    const struct mst_top_row row = {.index = index, .unusual = MST_UNUSUAL_LOST};

    if (!member) { /* the others are among the members */
        add(adding->table, &row, adding->filter);
    }
}

/* ---- the order ---- */

static int by_number(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int by_index(const struct mst_top_row *a, const struct mst_top_row *b)
{
    enum mst_role left = a->member ? a->member->who.role : MST_ROLE_RANK;
    enum mst_role right = b->member ? b->member->who.role : MST_ROLE_RANK;

    return left != right ? (int)left - (int)right : by_number(a->index, b->index);
}

static int by_host(const struct mst_top_row *a, const struct mst_top_row *b)
{
    struct mst_slice none = mst_slice_of(NULL, 0);

    return mst_slice_compare(a->member ? a->member->who.host : none,
                             b->member ? b->member->who.host : none);
}

static uint64_t age(const struct mst_top_row *row)
{
    return row->member && row->member->since_ms > 0 ? row->member->since_ms : UINT64_MAX;
}

static int compare(const void *left, const void *right, void *ctx)
{
    const struct mst_top_row *a = left, *b = right;
    const enum mst_top_screen_sort *sort = ctx;
    int order = 0;

    if (*sort == MST_SORT_WORST) {
        order = (int)b->unusual - (int)a->unusual;
    } else if (*sort == MST_SORT_HOST) {
        order = by_host(a, b);
    } else if (*sort == MST_SORT_STATE) {
        order = strcmp(mst_top_row_state(a), mst_top_row_state(b));
    } else if (*sort == MST_SORT_SINCE) {
        order = by_number(age(a), age(b));
    }
    return order != 0 ? order : by_index(a, b);
}

void mst_top_table_make(struct mst_top_table *table, const struct mst_status *status,
                        const struct mst_job_verdict *verdict, enum mst_top_screen_sort sort,
                        const char *filter)
{
    struct adding adding = {.table = table, .filter = filter};

    *table = (struct mst_top_table){.rows = NULL};
    for (size_t i = 0; i < status->members.count; i++) {
        const struct mst_item *member = &status->members.items[i];
        const struct mst_top_row row = {.member = member,
                                        .index = member->who.index,
                                        .unusual = mst_member_unusual(status, verdict, member)};

        if (member->who.role != MST_ROLE_AGENT || member->who.index < MST_HELPERS_FROM) {
            add(table, &row, filter);
        }
    }
    mst_status_each_missing(status, add_absent, &adding);
    if (table->count > 0) {
        qsort_r(table->rows, table->count, sizeof *table->rows, compare, &sort);
    }
}

void mst_top_table_free(struct mst_top_table *table)
{
    free(table->rows);
}
