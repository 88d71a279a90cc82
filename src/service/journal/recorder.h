/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_JOURNAL_RECORDER_H
#define MST_SERVICE_JOURNAL_RECORDER_H

/* Records every input of a core, in the format of a journal and with another promise: it is
 * complete up to its end, and no effect waits for it. One file is one service:
 *
 *   BEGUN, the state it began with if there was one, every input, STOPPED with the digest
 *
 * so each can be replayed alone, without earlier files, and without a journal. The record of a
 * service that began anew has only its limits and no state: a version with another form of
 * snapshots and the same decisions can replay it too.
 *
 * It listens to a journal (which need not keep anything). Bytes leave in whole frames, at the end
 * of a turn or when there are many, to a shell that takes them at once or never again. */

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"
#include "service/core/core.h"
#include "service/journal/input.h"

struct mst_recorder;

struct mst_recorder_config {
    const char *version;                 /* of the program */
    uint64_t sequence;                   /* of the file */
    uint64_t wall_ns;                    /* the time of day: ns since 1970 */
    uint64_t now_ns;                     /* the core's time at that moment */
    const struct mst_core_config *fresh; /* the core is new, and this is what it was born with;
                                            NULL: its state is recorded. Borrowed for the call */
    const char *held;                    /* why the core is held already; NULL: it is not */

    /* Takes the next bytes of the file; false: cannot, and none are offered any more. */
    bool (*put)(void *ctx, struct mst_slice bytes);
    void *put_ctx;
};

/* Begins the file with the state of the core, which must be between two inputs. ENOMEM. */
muster_status mst_recorder_new(struct mst_recorder **out, const struct mst_recorder_config *config,
                               const struct mst_core *core, const struct mst_mem *mem);
void mst_recorder_free(struct mst_recorder *recorder);

/* For mst_journal_listen. */
struct mst_input_listener mst_recorder_listener(struct mst_recorder *recorder);

/* The end of a turn: the gathered inputs are written. */
void mst_recorder_flush(struct mst_recorder *recorder);

/* The service stops in order. Nothing is recorded after it. */
void mst_recorder_stop(struct mst_recorder *recorder);

/* Why nothing is recorded any more, though it was not stopped; NULL: it is. */
const char *mst_recorder_trouble(const struct mst_recorder *recorder);

uint64_t mst_recorder_inputs(const struct mst_recorder *recorder);
uint64_t mst_recorder_digest(const struct mst_recorder *recorder); /* of a stopped one */

#endif
