/* SPDX-License-Identifier: Apache-2.0 */
/* The state ASSIGNING: the members of an unordered generation meet, and one of them works out who
 * runs the function, and as what rank.
 *
 *   MEET --elected--> LIST --all pages--> ASSIGN --assigned--> SEALING with the order
 *    |--not elected, or broken--> SEALING       `--not OK--> SEALING, and the run ends for all
 *
 * Each member writes its place and then joins a round that elects the one with the newest table.
 * The service takes the requests of a session in order, and the client repeats writes before the
 * rest, so all places are written when the round is over. The other members go to the seal at once
 * and wait there for the elected one: a member at the seal is therefore no reason for it to give
 * up. When a member is lost meanwhile, the order names one that is not at the seal, the service
 * seals by index, and all begin again. */
#include <string.h>

#include "base/panic.h"
#include "base/text.h"
#include "proto/vector.h"
#include "restart/machine.h"

#define INDEX_BITS 20u
#define INDEX_MAX ((UINT32_C(1) << INDEX_BITS) - 1)

/* What is elected: the newest table, and of the ranks without one the lowest index. */
static int64_t bid(const struct mst_restart *restart)
{
    uint32_t index = restart->view.index < INDEX_MAX ? restart->view.index : INDEX_MAX;
    uint64_t generation = restart->table.generation;

    if (generation > (UINT64_MAX >> (INDEX_BITS + 1))) {
        generation = 0;
    }
    return (int64_t)(generation << INDEX_BITS | (INDEX_MAX - index));
}

void mst_restart_meet(struct mst_restart *restart)
{
    mst_restart_move(restart, MST_ASSIGNING);
    restart->step = MST_STEP_MEET;
    restart->write_tag = ++restart->tags;
    restart->owe_write = true;
}

/* The round goes out behind the write without waiting for its answer. */
void mst_restart_assign_write(struct mst_restart *restart)
{
    struct mst_request *request = &restart->request;

    restart->write = (struct mst_write){
        .kind = MST_PUT,
        .key = mst_slice_of(restart->name, mst_place_name(restart->view.index, restart->name)),
        .value =
            mst_slice_of(restart->value, mst_place_value(restart->previous, restart->config.node,
                                                         restart->config.host,
                                                         restart->config.label, restart->value))};
    request->command = MST_WRITE;
    request->write.generation = restart->view.generation;
    request->write.ops = &restart->write;
    request->write.count = 1;
}

static void request_meeting(struct mst_restart *restart)
{
    struct mst_request *request = &restart->request;

    mst_vector_put(restart->data, 0, bid(restart));
    request->command = MST_ROUND;
    request->round.generation = restart->view.generation;
    request->round.name = mst_slice_text("muster/assign");
    request->round.number = restart->meetings++;
    request->round.on_loss = MST_FAIL;
    request->round.reduce = MST_REDUCE_MAX;
    request->round.data = mst_slice_of(restart->data, MST_VECTOR_ELEMENT);
}

void mst_restart_assign_request(struct mst_restart *restart)
{
    struct mst_request *request = &restart->request;
    const struct mst_places *listed = &restart->listed;

    if (restart->step == MST_STEP_MEET) {
        request_meeting(restart);
        return;
    }
    request->command = MST_LIST;
    request->list.generation = restart->view.generation;
    request->list.prefix = mst_slice_text(MST_PLACE_PREFIX);
    if (listed->count > 0) {
        uint32_t last = listed->list[listed->count - 1].index;

        request->list.after = mst_slice_of(restart->name, mst_place_name(last, restart->name));
    }
}

void mst_restart_assign_written(struct mst_restart *restart, const struct mst_reply *reply)
{
    restart->write_tag = 0;
    if (reply->status != MUSTER_OK && reply->status != MUSTER_EFENCED &&
        restart->state == MST_ASSIGNING && restart->step == MST_STEP_MEET && !restart->failed) {
        mst_restart_fault(restart, MST_CAUSE_FAULT, reply->status,
                          mst_slice_text("its place could not be written"));
    }
}

void mst_restart_give_up(struct mst_restart *restart, muster_status status, struct mst_slice text)
{
    mst_places_free(&restart->listed, &restart->mem);
    if (!restart->failed) {
        mst_restart_fault(restart, MST_CAUSE_ABORTED, status, text);
    }
    restart->vote.end = MST_END_ASSIGNMENT;
    restart->vote.end_status = status;
    mst_restart_move(restart, MST_SEALING);
}

static void list(struct mst_restart *restart)
{
    uint64_t room = (uint64_t)restart->view.size + restart->table.count;

    mst_places_free(&restart->listed, &restart->mem);
    if (room > UINT32_MAX ||
        mst_places_new(&restart->listed, (uint32_t)room, &restart->mem) != MUSTER_OK) {
        mst_restart_give_up(restart, MUSTER_ENOMEM,
                            mst_slice_text("no memory for the table of the assignment"));
        return;
    }
    restart->listed.generation = restart->view.generation;
    restart->step = MST_STEP_LIST;
    mst_restart_call(restart, true);
}

void mst_restart_met(struct mst_restart *restart, const struct mst_reply *reply)
{
    bool elected =
        reply->value.size >= MST_VECTOR_ELEMENT && mst_vector_at(reply->value, 0) == bid(restart);

    if (reply->status == MUSTER_OK && elected && !restart->failed) {
        list(restart);
    } else if (reply->status == MUSTER_OK || reply->status == MUSTER_ELOST ||
               reply->status == MUSTER_ECANCELLED || reply->status == MUSTER_EFENCED) {
        mst_restart_move(restart, MST_SEALING);
    } else {
        mst_restart_finish(restart, reply->status, MST_WHY_REPLY, reply);
    }
}

void mst_restart_listed(struct mst_restart *restart, const struct mst_reply *reply)
{
    muster_status status = reply->status;

    if (status == MUSTER_OK) {
        status = mst_places_add(&restart->listed, reply);
    }
    if (status == MUSTER_EFENCED) { /* this rank was evicted; the seal will say so */
        mst_restart_move(restart, MST_SEALING);
    } else if (status != MUSTER_OK) {
        mst_restart_give_up(restart, status, mst_slice_text("the places could not be read"));
    } else if (reply->next != 0 && restart->listed.count > 0) {
        mst_restart_call(restart, true);
    } else {
        mst_places_close(&restart->listed, &restart->table);
        mst_restart_call(restart, false);
        restart->step = MST_STEP_ASSIGN;
        restart->owe_assign = true;
    }
}

void mst_restart_assigned(struct mst_restart *restart, uint64_t now_ns, muster_status status,
                          struct mst_slice text)
{
    (void)now_ns;
    if (restart->state == MST_FINISHED) { /* the session ended meanwhile */
        return;
    }
    MST_ASSERT(restart->state == MST_ASSIGNING && restart->step == MST_STEP_ASSIGN);
    MST_ASSERT(!restart->owe_assign);
    if (status == MUSTER_OK) {
        status = mst_places_seat(&restart->listed);
        text = status == MUSTER_ETOOFEW
                   ? mst_slice_text("the assignment left nobody to run the function")
                   : mst_slice_text("the numbers of the assignment are not 0 to n - 1 over "
                                    "places that are alive");
    }
    if (status != MUSTER_OK) {
        mst_restart_give_up(restart, status, text);
        return;
    }
    mst_places_free(&restart->table, &restart->mem);
    restart->table = restart->listed;
    restart->listed = (struct mst_places){0};
    mst_restart_move(restart, MST_SEALING);
    restart->ordering = true;
}
