/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_WITNESS_H
#define SIM_WITNESS_H

/* What the service does with its inputs, before it is certain. A decision that nobody was told of
 * is none if the service dies and its journal does not have it: so what is seen is noted, and told
 * to the properties when it was kept. */

#include <stdbool.h>
#include <stdint.h>

#include "service/core/core.h"

struct sim;
struct sim_conn;

enum sim_note_kind {
    SIM_NOTE_REQUEST, /* this and all until OVER come of it */
    SIM_NOTE_OVER,
    SIM_NOTE_NOTHING, /* no memory even to refuse it */
    SIM_NOTE_CLOSE,
    SIM_NOTE_TRACE
};

struct sim_note {
    enum sim_note_kind kind;
    struct sim_conn *conn;
    uint64_t id;
    struct mst_request request;
    struct mst_trace line;
    unsigned char *room; /* what it borrows from */
};

struct sim_witness {
    struct sim_note *notes;
    uint32_t count, room;
    uint32_t unkept; /* from this one on nothing is kept, because the disk is full */
};

void sim_witness_request(struct sim *sim, struct sim_conn *conn, const struct mst_request *request);
void sim_witness_over(struct sim *sim);
void sim_witness_nothing(struct sim *sim, struct sim_conn *conn, uint64_t id);
void sim_witness_close(struct sim *sim, struct sim_conn *conn);
void sim_witness_trace(struct sim *sim, const struct mst_trace *line);

/* Room was wanted for the newest input, and there was none. */
void sim_witness_unkept(struct sim *sim);

void sim_witness_settle(struct sim *sim); /* it is certain */
void sim_witness_forget(struct sim *sim); /* it never happened */
void sim_witness_fini(struct sim *sim);

#endif
