/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_VIEW_KEPT_H
#define MST_VIEW_KEPT_H

/* What stays of a run in a file: which run it was, its incidents, and how it ended, as one JSON
 * object. `muster run` begins it, the run's service puts each incident in when it happens, and
 * `muster run` ends it. So it tells what was known if either of them is killed. Its fields are the
 * table in docs/operations.md. */

#include <jansson.h>

#include "view/items.h"

#define MST_KEPT_VERSION 1
#define MST_KEPT_BYTES_MAX 65536u
#define MST_KEPT_REPORT_ROOM 16384u /* of these, for the end */

/* Times of the wall clock, in ms since 1970; 0: not known. */
struct mst_kept_times {
    int64_t began_ms, written_ms;
    int64_t orphaned_ms; /* the service saw that `muster run` was killed */
    int64_t ended_ms;
};

/* NULL: no memory. */
json_t *mst_kept_new(const char *job, const char *host, int64_t pid, int64_t began_ms);

/* What a file has. NULL: it is no file of a run. */
json_t *mst_kept_read(const char *bytes, size_t size);

/* In the place of those that it has. False: no memory, and it has those that it had. */
bool mst_kept_put_history(json_t *run, const struct mst_items *history, int64_t now_ms);

/* Appends the incidents that it has, with their ages at `until_ms`. False: no memory. */
bool mst_kept_history(const json_t *run, int64_t until_ms, struct mst_items *out);

void mst_kept_times(const json_t *run, struct mst_kept_times *out);

/* When it ended, or until when it is known. */
int64_t mst_kept_until_ms(const json_t *run);

/* One line of at most `room` bytes, for which the oldest incidents are dropped. The caller frees
 * it. NULL: no memory, or it has too much besides. */
char *mst_kept_line(json_t *run, size_t room);

#endif
