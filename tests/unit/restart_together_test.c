/* SPDX-License-Identifier: Apache-2.0 */
/* Several restart machines around a model of the service that is small enough to be seen through,
 * with everything in a seeded order: no rank is told that all are done while another stands at the
 * seal, and nobody hangs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/prng.h"
#include "failing_mem.h"
#include "restart/restart.h"

#define MS UINT64_C(1000000)

static struct failing_mem memory;

static struct mst_restart *restart_new(void)
{
    const struct mst_restart_config config = {.barrier_timeout_ms = 1000, .stalled_max = -1};
    struct mst_restart *restart;

    assert_int_equal(mst_restart_new(&restart, &config, &memory.mem), MUSTER_OK);
    return restart;
}

enum { RANKS = 4, QUEUE = 256, SEEDS = 3000 };

struct model_reply {
    uint64_t tag; /* 0: a view */
    struct mst_reply reply;
};

struct model_rank {
    struct mst_restart *restart;
    bool alive, inside, told, delivered, unwinds, finished;
    muster_status result;
    uint64_t finished_in; /* generation */
    uint64_t generation;
    uint64_t seal_tag, complete_tag;
    bool seal_waits, complete_waits;
    struct mst_request up[QUEUE]; /* to the service: a stream */
    uint64_t up_tag[QUEUE];
    bool up_cancel[QUEUE];
    struct model_reply down[QUEUE];
    uint32_t up_start, up_end, down_start, down_end;
};

struct model {
    struct mst_prng prng;
    uint64_t now_ns;
    uint64_t generation;
    enum mst_attention attention;
    bool member[RANKS];
    bool sealed[RANKS], completed[RANKS];
    bool complete_over, complete_broken;
    uint32_t troubles; /* failures, losses and growths still to come */
    struct model_rank ranks[RANKS];
};

static struct mst_view model_view(const struct model *model, uint32_t i)
{
    uint32_t rank = 0;
    uint32_t size = 0;

    for (uint32_t k = 0; k < RANKS; k++) {
        size += model->member[k];
        rank += k < i && model->member[k];
    }
    return (struct mst_view){.generation = model->generation,
                             .size = size,
                             .rank = rank,
                             .index = i,
                             .incarnation = 1,
                             .attention = model->attention};
}

static void model_answer(struct model *model, uint32_t i, uint64_t tag, muster_status status)
{
    struct model_rank *rank = &model->ranks[i];

    if (rank->alive) {
        assert_true(rank->down_end - rank->down_start < QUEUE);
        rank->down[rank->down_end++ % QUEUE] = (struct model_reply){
            .tag = tag,
            .reply = {.status = status, .has_view = true, .view = model_view(model, i)}};
    }
}

static void model_raise(struct model *model, enum mst_attention level)
{
    if (level <= model->attention) {
        return;
    }
    model->attention = level;
    for (uint32_t i = 0; i < RANKS; i++) {
        model_answer(model, i, 0, MUSTER_OK);
    }
}

static void model_complete_close(struct model *model, muster_status status)
{
    model->complete_over = true;
    model->complete_broken = status != MUSTER_OK;
    for (uint32_t i = 0; i < RANKS; i++) {
        if (model->ranks[i].complete_waits) {
            model->ranks[i].complete_waits = false;
            model_answer(model, i, model->ranks[i].complete_tag, status);
        }
    }
}

static void model_settle(struct model *model)
{
    bool all_completed = true;
    bool all_sealed = true;
    bool any_sealed = false;
    bool any_completed = false;
    bool lost = false;

    for (uint32_t i = 0; i < RANKS; i++) {
        if (model->member[i]) {
            any_completed = any_completed || model->completed[i];
            any_sealed = any_sealed || model->sealed[i];
            all_completed = all_completed && model->completed[i];
            all_sealed = all_sealed && (model->sealed[i] || !model->ranks[i].alive);
            lost = lost || !model->ranks[i].alive;
        }
    }
    if (any_completed && !model->complete_over && (lost || all_completed)) {
        model_complete_close(model, lost ? MUSTER_ELOST : MUSTER_OK);
    }
    if (!any_sealed || !all_sealed) {
        return;
    }
    /* Nobody may stand at a seal when others were told that all are done. */
    assert_true(!model->complete_over || model->complete_broken);
    model->generation++;
    model->attention = MST_CALM;
    model->complete_over = false;
    for (uint32_t i = 0; i < RANKS; i++) {
        model->member[i] = model->member[i] && model->ranks[i].alive;
        model->sealed[i] = false;
        model->completed[i] = false;
    }
    for (uint32_t i = 0; i < RANKS; i++) {
        struct model_rank *rank = &model->ranks[i];

        if (model->member[i] && rank->seal_waits) {
            rank->seal_waits = false;
            model_answer(model, i, rank->seal_tag, MUSTER_OK);
        }
    }
}

static void model_round(struct model *model, uint32_t i, const struct mst_request *request,
                        uint64_t tag)
{
    struct model_rank *rank = &model->ranks[i];

    assert_true(request->round.generation == model->generation);
    if (request->round.seal) {
        model->sealed[i] = true;
        rank->seal_waits = true;
        rank->seal_tag = tag;
        model_raise(model, MST_INTERRUPT);
    } else if (model->complete_over) {
        model_answer(model, i, tag, model->complete_broken ? MUSTER_ELOST : MUSTER_OK);
    } else {
        model->completed[i] = true;
        rank->complete_waits = true;
        rank->complete_tag = tag;
    }
    model_settle(model);
}

static void model_request(struct model *model, uint32_t i)
{
    struct model_rank *rank = &model->ranks[i];
    uint32_t at = rank->up_start++ % QUEUE;
    const struct mst_request *request = &rank->up[at];

    if (rank->up_cancel[at]) {
        if (rank->complete_waits && rank->complete_tag == rank->up_tag[at]) {
            rank->complete_waits = false;
            model_answer(model, i, rank->up_tag[at], MUSTER_ECANCELLED);
        }
    } else if (request->command == MST_FAULT) {
        model_answer(model, i, rank->up_tag[at], MUSTER_OK);
        if (request->fault.generation == model->generation) {
            model_raise(model, MST_INTERRUPT);
        }
    } else {
        assert_int_equal(request->command, MST_ROUND);
        model_round(model, i, request, rank->up_tag[at]);
    }
}

static void model_up(struct model_rank *rank, const struct mst_restart_effect *effect)
{
    uint32_t at = rank->up_end++ % QUEUE;

    assert_true(rank->up_end - rank->up_start <= QUEUE);
    rank->up_cancel[at] = effect->head.kind == MST_MACHINE_CANCEL;
    rank->up_tag[at] = effect->head.tag;
    if (effect->head.request) {
        rank->up[at] = *effect->head.request;
    }
}

static void model_drain(struct model_rank *rank)
{
    const struct mst_restart_effect *effect;

    mst_restart_check(rank->restart);
    while ((effect = mst_restart_machine.next(rank->restart)) != NULL) {
        if (effect->head.kind != MST_MACHINE_OWN) {
            model_up(rank, effect);
        }
        switch (effect->type) {
        case MST_RESTART_ENTER:
            assert_false(rank->inside);
            assert_true(effect->view.generation > rank->generation);
            rank->generation = effect->view.generation;
            rank->inside = true;
            rank->told = false;
            rank->delivered = false;
            break;
        case MST_RESTART_TELL:
        case MST_RESTART_INTERRUPT:
            assert_true(rank->inside);
            rank->told = true;
            break;
        case MST_RESTART_UNWIND:
            rank->unwinds = true;
            break;
        case MST_RESTART_ASSIGN:
            assert_true(false);
            break;
        case MST_RESTART_FINISH:
            rank->finished = true;
            rank->result = effect->status;
            rank->finished_in = rank->generation;
            break;
        }
        mst_restart_machine.done(rank->restart, effect);
        mst_restart_check(rank->restart);
    }
}

static void model_down(struct model *model, struct model_rank *rank)
{
    struct model_reply *reply = &rank->down[rank->down_start++ % QUEUE];

    if (reply->tag == 0) {
        mst_restart_machine.attention(rank->restart, model->now_ns, &reply->reply.view, false);
    } else {
        mst_restart_machine.reply(rank->restart, model->now_ns, reply->tag, &reply->reply);
    }
    model_drain(rank);
}

static void model_function(struct model *model, struct model_rank *rank)
{
    uint64_t dice = mst_prng_below(&model->prng, 8);
    muster_status status = MUSTER_MORE;

    if (rank->told && dice < 4) {
        rank->delivered = true;
        status = MUSTER_EINTERRUPTED;
    } else if (dice == 4) {
        status = MUSTER_OK;
    } else if (dice == 5 && model->troubles > 0) {
        model->troubles--;
        status = MUSTER_EFAILED;
    }
    if (status != MUSTER_MORE) {
        rank->inside = false;
        mst_restart_returned(rank->restart, model->now_ns, status, rank->delivered);
        model_drain(rank);
    }
}

static void model_trouble(struct model *model, uint32_t i)
{
    uint32_t alive = 0;

    for (uint32_t k = 0; k < RANKS; k++) {
        alive += model->ranks[k].alive;
    }
    if (model->troubles == 0 || mst_prng_below(&model->prng, 20) != 0) {
        return;
    }
    model->troubles--;
    if (alive > 1 && !model->ranks[i].finished && mst_prng_below(&model->prng, 2) == 0) {
        model->ranks[i].alive = false;
        model_raise(model, MST_INTERRUPT);
        model_settle(model);
    } else {
        model_raise(model, MST_GROW);
    }
}

/* One thing happens to one rank. False when there was nothing to happen. */
static void model_step(struct model *model)
{
    uint32_t i = (uint32_t)mst_prng_below(&model->prng, RANKS);
    struct model_rank *rank = &model->ranks[i];
    uint64_t dice = mst_prng_below(&model->prng, 4);

    model->now_ns += mst_prng_below(&model->prng, MS);
    if (!rank->alive) {
        return;
    }
    if (dice == 0 && rank->up_start != rank->up_end) {
        model_request(model, i);
    } else if (dice == 1 && rank->down_start != rank->down_end) {
        model_down(model, rank);
    } else if (dice == 2 && rank->inside) {
        model_function(model, rank);
    } else if (dice == 2 && rank->unwinds) {
        rank->unwinds = false;
        mst_restart_unwound(rank->restart, model->now_ns, MUSTER_OK, MST_WHY_REPLY,
                            mst_slice_of(NULL, 0));
    } else if (dice == 3) {
        model_trouble(model, i);
    }
    mst_restart_machine.tick(rank->restart, model->now_ns);
    model_drain(rank);
}

static bool model_over(const struct model *model)
{
    for (uint32_t i = 0; i < RANKS; i++) {
        if (model->ranks[i].alive && !model->ranks[i].finished) {
            return false;
        }
    }
    return true;
}

static uint64_t model_run(uint64_t seed)
{
    static struct model model;
    uint64_t generation = 0;
    uint64_t digest = 0;

    model = (struct model){.prng = {seed}, .generation = 1};
    model.troubles = (uint32_t)mst_prng_below(&model.prng, 6);
    for (uint32_t i = 0; i < RANKS; i++) {
        model.member[i] = true;
        model.ranks[i].alive = true;
    }
    for (uint32_t i = 0; i < RANKS; i++) {
        struct mst_view view = model_view(&model, i);

        model.ranks[i].restart = restart_new();
        mst_restart_start(model.ranks[i].restart, 0, &view);
        model_drain(&model.ranks[i]);
    }
    for (uint32_t steps = 0; !model_over(&model); steps++) {
        assert_true(steps < 200000);
        model_step(&model);
    }
    for (uint32_t i = 0; i < RANKS; i++) {
        struct model_rank *rank = &model.ranks[i];

        if (rank->alive) {
            assert_int_equal(rank->result, MUSTER_OK);
            assert_true(generation == 0 || generation == rank->finished_in);
            generation = rank->finished_in;
        }
        digest = digest * 31 + mst_restart_digest(rank->restart);
        mst_restart_free(rank->restart);
    }
    return digest;
}

/* All who live are done in one generation, nobody hangs, the same seed gives the same run. */
static void test_together(void **state)
{
    (void)state;
    failing_mem_init(&memory, 0);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        assert_true(model_run(seed) == model_run(seed));
    }
    assert_int_equal(memory.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_together),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
