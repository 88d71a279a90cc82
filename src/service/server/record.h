/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_SERVER_RECORD_H
#define MST_SERVICE_SERVER_RECORD_H

/* --record: what the service is fed, written to a file by a thread. Whatever befalls that file, the
 * service goes on, and says so once. */

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
    bool told; /* that it ended before its time */
};

/* Begins with the state that the core has (`config` is what one is born with), and listens to the
 * journal from then on. False, with one line: the folder is no place for it; whoever named it is
 * told, and there is no service. Any other failure is told in the log, and the service goes on. */
bool mst_uv_record_init(struct mst_uv_record *record, struct mst_uv_log *log, const char *folder,
                        const char *version, struct mst_journal *journal,
                        const struct mst_core *core, const struct mst_core_config *config,
                        uint64_t now_ns, const struct mst_mem *mem, struct muster_error *err);

/* The end of a turn: what was heard is on its way. */
void mst_uv_record_turn(struct mst_uv_record *record);

/* Nothing is fed any more: the digest and the rest of the bytes, for which it waits a while. After
 * the core's last input, and before the core is gone. */
void mst_uv_record_fini(struct mst_uv_record *record);

#endif
