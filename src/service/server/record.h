/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_SERVER_RECORD_H
#define MST_SERVICE_SERVER_RECORD_H

/* --record: the inputs of the service, written to a file by a thread. When the file fails, the
 * service continues, and logs it once. */

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"
#include "service/journal/journal.h"
#include "service/journal/recorder.h"
#include "service/server/log.h"
#include "service/server/record_file.h"

struct mst_uv_record {
    struct mst_recorder *recorder; /* NULL: nothing is recorded */
    struct mst_record_file *file;
    struct mst_uv_log *log;
    bool told; /* an early end was logged */
};

/* Begins with the state of the core (`config` is that of a new one), and then listens to the
 * journal. False, with one line: the folder is unsuitable, and the service does not start. Any
 * other failure is logged, and the service continues. */
bool mst_uv_record_init(struct mst_uv_record *record, struct mst_uv_log *log, const char *folder,
                        const char *version, struct mst_journal *journal,
                        const struct mst_core *core, const struct mst_core_config *config,
                        uint64_t now_ns, const struct mst_mem *mem, struct muster_error *err);

/* The end of a turn: its inputs are passed to the thread. */
void mst_uv_record_turn(struct mst_uv_record *record);

/* The digest and the rest of the bytes, for which it waits a while. Call it after the last input of
 * the core, and before the core is freed. */
void mst_uv_record_fini(struct mst_uv_record *record);

#endif
