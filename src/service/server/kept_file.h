/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_SERVER_KEPT_FILE_H
#define MST_SERVICE_SERVER_KEPT_FILE_H

/* The file of a run (view/kept.h), into which its service puts each incident when it happens. A
 * thread writes: a home folder that hangs holds up no member. What changed while it wrote is
 * written next, so there is never more than one version that waits. */

#include <stdbool.h>

#include "service/core/core.h"
#include "service/server/log.h"

struct mst_uv_kept;

/* Goes on with what the file has, which the run or an earlier service has made. Without such a
 * file, or without memory or a thread for it, nothing is kept, and the log says so: NULL. Both
 * names are borrowed. */
struct mst_uv_kept *mst_uv_kept_open(const char *path, const char *job, struct mst_uv_log *log);

/* A job has one incident more. `wall_ms` is now, since 1970. NULL for `kept`, here and below: there
 * is nothing to do. */
void mst_uv_kept_incident(struct mst_uv_kept *kept, const struct mst_core *core,
                          struct mst_slice job, int64_t wall_ms);

/* `muster run` was killed. */
void mst_uv_kept_orphaned(struct mst_uv_kept *kept, int64_t wall_ms);

/* After a turn: what has changed goes to the thread. */
void mst_uv_kept_turn(struct mst_uv_kept *kept);

/* Waits until all is written, but not long, and frees it. */
void mst_uv_kept_close(struct mst_uv_kept *kept);

#endif
