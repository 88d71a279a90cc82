/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_DISCOVER_NODELIST_H
#define MST_DISCOVER_NODELIST_H

/* Slurm's compressed lists. Nothing is expanded in memory: a list is counted, and its n-th name is
 * made on demand.
 *
 * Hosts: "a[001-003,007],b[1-2]-ib,c[0-1]n[0-1]". Several brackets in one name multiply, the last
 * one running fastest; leading zeros stay. Counts: "4(x3),2" is 4, 4, 4, 2. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* More names than this are taken for a mistake. */
#define MST_NODELIST_MAX 1000000u

/* False: no list of hosts (unbalanced, empty, a range that runs backwards), or one too long. */
bool mst_nodelist_count(const char *list, uint32_t *count_out);

/* The name at `at`, from 0. False: no such name, or it does not fit into `room`, or
 * is longer than 254 bytes. */
bool mst_nodelist_at(const char *list, uint32_t at, char *out, size_t room);

struct mst_task_counts {
    uint32_t nodes; /* entries */
    uint32_t tasks; /* their sum */
    uint32_t here;  /* the entry at `node`; 0: there is none */
};

/* False: no list of counts. */
bool mst_task_counts_read(const char *text, uint32_t node, struct mst_task_counts *out);

#endif
