/* SPDX-License-Identifier: Apache-2.0 */
#include "witness.h"

#include <stdlib.h>
#include <string.h>

#include "properties.h"
#include "proto/copy.h"
#include "sim.h"

static struct sim_note *note(struct sim *sim, enum sim_note_kind kind)
{
    struct sim_witness *witness = &sim->service.witness;
    struct sim_note *one;

    if (witness->count == witness->room) {
        witness->room = witness->room ? witness->room * 2 : 64;
        witness->notes = sim_grown(witness->notes, witness->room, sizeof(*witness->notes));
    }
    one = &witness->notes[witness->count++];
    memset(one, 0, sizeof(*one));
    one->kind = kind;
    return one;
}

void sim_witness_request(struct sim *sim, struct sim_conn *conn, const struct mst_request *request)
{
    struct sim_note *one = note(sim, SIM_NOTE_REQUEST);

    one->conn = conn;
    one->room = sim_new(mst_copy_size(&mst_request_fields, request) + 1);
    mst_copy(&mst_request_fields, &one->request, request, one->room);
}

void sim_witness_over(struct sim *sim)
{
    (void)note(sim, SIM_NOTE_OVER);
}

void sim_witness_nothing(struct sim *sim, struct sim_conn *conn, uint64_t id)
{
    struct sim_note *one = note(sim, SIM_NOTE_NOTHING);

    one->conn = conn;
    one->id = id;
}

void sim_witness_close(struct sim *sim, struct sim_conn *conn)
{
    note(sim, SIM_NOTE_CLOSE)->conn = conn;
}

void sim_witness_trace(struct sim *sim, const struct mst_trace *line)
{
    struct sim_note *one = note(sim, SIM_NOTE_TRACE);
    size_t size = strlen(line->text) + 1;

    one->room = sim_new(size + line->job.size + 1);
    memcpy(one->room, line->text, size);
    one->line = *line;
    one->line.text = (const char *)one->room;
    if (line->job.size > 0) {
        memcpy(one->room + size, line->job.data, line->job.size);
        one->line.job.data = one->room + size;
    }
}

/* Whoever is told of one of these may rely on it. */
static bool decides(const struct mst_trace *line)
{
    static const char *const decisions[] = {"member-joining", "member-lost", "member-left",
                                            "round-closed",   "generation-", "fault",
                                            "claim-refused",  "job-ended"};

    for (size_t i = 0; i < sizeof(decisions) / sizeof(*decisions); i++) {
        if (strncmp(line->text, decisions[i], strlen(decisions[i])) == 0) {
            return true;
        }
    }
    return false;
}

static void tell(struct sim *sim, const struct sim_note *one, bool kept)
{
    switch (one->kind) {
    case SIM_NOTE_REQUEST:
        sim->service.asking = one->conn;
        sim->service.refuses = !kept;
        sim_saw_request(sim, one->conn, &one->request);
        break;
    case SIM_NOTE_OVER:
        sim->service.asking = NULL;
        sim->service.request = NULL;
        break;
    case SIM_NOTE_NOTHING:
        sim_saw_nothing(one->conn, one->id);
        break;
    case SIM_NOTE_CLOSE:
        sim_saw_close(sim, one->conn);
        break;
    case SIM_NOTE_TRACE:
        if (decides(&one->line)) {
            sim_journal_promised(sim, kept);
        }
        sim_saw_trace(sim, &one->line);
        break;
    }
}

void sim_witness_unkept(struct sim *sim)
{
    struct sim_witness *witness = &sim->service.witness;

    witness->unkept = witness->count;
    if (witness->count > 0 && witness->notes[witness->count - 1].kind == SIM_NOTE_REQUEST) {
        witness->unkept--;
    }
}

static void clear(struct sim_witness *witness)
{
    for (uint32_t i = 0; i < witness->count; i++) {
        free(witness->notes[i].room);
    }
    witness->count = 0;
}

void sim_witness_settle(struct sim *sim)
{
    struct sim_witness *witness = &sim->service.witness;

    for (uint32_t i = 0; i < witness->count; i++) {
        tell(sim, &witness->notes[i], i < witness->unkept);
    }
    clear(witness);
}

/* But connections that were gone are. */
void sim_witness_forget(struct sim *sim)
{
    struct sim_witness *witness = &sim->service.witness;

    for (uint32_t i = 0; i < witness->count; i++) {
        if (witness->notes[i].kind == SIM_NOTE_CLOSE) {
            witness->notes[i].conn->orphaned = true;
        }
    }
    clear(witness);
}

void sim_witness_fini(struct sim *sim)
{
    clear(&sim->service.witness);
    free(sim->service.witness.notes);
}
