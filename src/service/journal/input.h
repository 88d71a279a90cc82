/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_JOURNAL_INPUT_H
#define MST_SERVICE_JOURNAL_INPUT_H

/* An input of a core: as a listener receives it, and fed again from its record. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "service/core/core.h"
#include "service/journal/format.h"

struct mst_native_arena;

/* The last input of the core; all of it is borrowed for the call. */
struct mst_input {
    enum mst_record_type type; /* OPEN, REQUEST, CLOSE, TICK, HOLD */
    unsigned flags;            /* OPEN, REQUEST: as in the record */
    uint64_t now_ns;
    struct mst_conn conn;
    const struct mst_request *request; /* REQUEST */
    const char *why;                   /* HOLD; NULL: it is released */
};

struct mst_input_listener {
    void *ctx;
    void (*heard)(void *ctx, const struct mst_input *input);
};

/* Feeds it again and throws the effects away. `config` is the base of what a RESUME names; `arena`
 * is scratch. EPROTO: it makes no sense; ENOMEM, ELIMIT: there is less room than there was. */
muster_status mst_input_again(struct mst_core *core, struct mst_native_arena *arena,
                              const struct mst_journal_record *record,

                              const struct mst_core_config *config);

/* What a journal keeps of a request: a renewal without the progress of ranks, which is no state. It
 * may be made in `room`. A record of what the service was fed has all of it. */
const struct mst_request *mst_input_kept(const struct mst_request *request,
                                         struct mst_request *room);

/* The bytes of a request's record: those received, or our own encoding of the same. Fields of a
 * later version of the schema are not kept: they had no effect. 0: no such command. */
size_t mst_input_request_bytes(const struct mst_request *request);
void mst_input_request_write(unsigned char *at, const struct mst_request *request, size_t size);

/* The flags of the last request. */
unsigned mst_input_flags(const struct mst_core *core);

/* Lease and limits as bytes: a RESUME, and the end of a BEGUN. Reading leaves unnamed limits
 * unchanged. False: damaged, or a limit that this version does not know. */
size_t mst_input_config_bytes(void);
bool mst_input_config_read(struct mst_slice bytes, struct mst_core_config *config);
void mst_input_config_write(unsigned char *at, const struct mst_core_config *config);

#endif
