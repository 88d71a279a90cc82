/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_JOURNAL_RECORDER_H
#define MST_SERVICE_JOURNAL_RECORDER_H

/* Writes down everything a core is fed, in the format of a journal and under another promise: it is
 * complete as far as it goes, and nobody waits for it. One file is one service:
 *
 *   BEGUN, the state it began with if there was one, every input, STOPPED with the digest
 *
 * so each can be replayed by itself, without the files before it, and without a journal. A service
 * that began anew has no state in its record, only its limits: so that another version can replay
 * it which keeps states otherwise, and decides the same.
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

/* The end of a turn: what was heard leaves. */
void mst_recorder_flush(struct mst_recorder *recorder);

/* The service stops in order. Nothing is recorded after it. */
void mst_recorder_stop(struct mst_recorder *recorder);

/* Why nothing is recorded any more, though it was not stopped; NULL: it is. */
const char *mst_recorder_trouble(const struct mst_recorder *recorder);

uint64_t mst_recorder_inputs(const struct mst_recorder *recorder);
uint64_t mst_recorder_digest(const struct mst_recorder *recorder); /* of a stopped one */

#endif
