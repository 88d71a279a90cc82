/* SPDX-License-Identifier: Apache-2.0 */
/* Several restart machines around the real service, with everything in a seeded order: no rank is
 * told that all are done while another stands at the seal, and nobody hangs.
 *
 * behaviour: restart / Deaths */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "core_service.h"
#include "failing_mem.h"
#include "restart/restart.h"
#include "restart/vote.h"

#define MS UINT64_C(1000000)

static struct failing_mem memory;

static struct mst_restart *restart_new(void)
{
    const struct mst_restart_config config = {.barrier_timeout_ms = 1000000, .stalled_max = -1};
    struct mst_restart *restart;

    assert_int_equal(mst_restart_new(&restart, &config, &memory.mem), MUSTER_OK);
    return restart;
}

enum { RANKS = 4, QUEUE = 256, CALLS = 16, SEEDS = 3000 };

/* To the service. */
struct model_request {
    uint64_t tag;
    bool cancels;
    struct mst_request request;
    unsigned char data[MST_VOTE_SIZE]; /* of a round */
};

struct model_reply {
    uint64_t tag; /* 0: a view */
    struct mst_reply *reply;
};

struct model_rank {
    struct mst_restart *restart;
    bool alive, inside, told, delivered, unwinds, finished;
    muster_status result;
    uint64_t finished_in; /* generation */
    uint64_t generation;
    struct mst_view view; /* as the service told it last */
    uint64_t watch_id;    /* 0: to be asked again, for what is... */
    uint64_t after;       /* ...after this */
    uint64_t call_ids[CALLS], call_tags[CALLS];
    struct model_request up[QUEUE]; /* streams */
    struct model_reply down[QUEUE];
    uint32_t up_start, up_end, down_start, down_end;
};

struct model {
    struct mst_prng prng;
    uint64_t now_ns;
    struct core_service service;
    uint32_t agent;
    uint64_t done_in;  /* the generation whose ranks were told that all are done */
    uint32_t troubles; /* failures, losses and growths still to come */
    struct model_rank ranks[RANKS];
};

/* ---- the service ---- */

static void model_answer(struct model_rank *rank, uint64_t tag, const struct mst_reply *reply)
{
    if (rank->alive) {
        assert_true(rank->down_end - rank->down_start < QUEUE);
        rank->down[rank->down_end++ % QUEUE] =
            (struct model_reply){.tag = tag, .reply = core_reply_copy(reply)};
    }
}

/* Nobody may stand at a seal when others were told that all are done. */
static void model_round_over(struct model *model, const struct model_rank *rank,
                             const struct mst_reply *reply)
{
    if (reply->has_view) {
        assert_true(model->done_in == 0 || reply->view.generation <= model->done_in);
    } else if (reply->status == MUSTER_OK) {
        model->done_in = rank->view.generation;
    }
}

static void model_replied(void *ctx, uint32_t client, const struct mst_reply *reply)
{
    struct model *model = ctx;
    struct model_rank *rank = &model->ranks[client];

    if (client >= RANKS) {
        return;
    }
    if (reply->command == MST_ROUND) {
        model_round_over(model, rank, reply);
    }
    if (reply->has_view) {
        rank->view = reply->view;
    }
    if (reply->id == rank->watch_id) {
        rank->watch_id = 0;
        rank->after = reply->revision;
        model_answer(rank, 0, reply);
    }
    for (unsigned i = 0; i < CALLS; i++) {
        if (rank->call_ids[i] == reply->id) {
            model_answer(rank, rank->call_tags[i], reply);
            rank->call_ids[i] = 0;
        }
    }
}

/* Each follows the view, as the client's side does. */
static void model_watch(struct model *model)
{
    for (uint32_t i = 0; i < RANKS; i++) {
        struct model_rank *rank = &model->ranks[i];
        struct mst_request watch = {
            .command = MST_WATCH,
            .watch = {.kinds = MST_WATCH_VIEW, .after = rank->after, .node = MST_NODE_NONE}};

        if (rank->alive && rank->watch_id == 0) {
            rank->watch_id = model->service.clients[i].id + 1;
            (void)core_service_send(&model->service, i, &watch);
        }
    }
}

static uint64_t *model_call(struct model_rank *rank, uint64_t tag)
{
    for (unsigned i = 0; i < CALLS; i++) {
        if (tag != 0 ? rank->call_ids[i] != 0 && rank->call_tags[i] == tag
                     : rank->call_ids[i] == 0) {
            return &rank->call_ids[i];
        }
    }
    return NULL;
}

static void model_request(struct model *model, uint32_t i)
{
    struct model_rank *rank = &model->ranks[i];
    struct model_request *up = &rank->up[rank->up_start++ % QUEUE];
    uint64_t *call = model_call(rank, up->cancels ? up->tag : 0);
    struct mst_request cancel = {.command = MST_CANCEL};

    if (up->cancels && call) {
        cancel.cancel.id = *call;
        (void)core_service_send(&model->service, i, &cancel);
    } else if (!up->cancels) {
        assert_non_null(call);
        rank->call_tags[call - rank->call_ids] = up->tag;
        *call = model->service.clients[i].id + 1;
        if (up->request.command == MST_ROUND) {
            up->request.round.data.data = up->data;
        }
        (void)core_service_send(&model->service, i, &up->request);
    }
}

/* ---- the ranks ---- */

static void model_up(struct model_rank *rank, const struct mst_machine_effect *effect)
{
    struct model_request *up = &rank->up[rank->up_end++ % QUEUE];

    assert_true(rank->up_end - rank->up_start <= QUEUE);
    *up = (struct model_request){.tag = effect->tag, .cancels = effect->kind == MST_MACHINE_CANCEL};
    if (effect->request) {
        up->request = *effect->request;
    }
    if (up->request.command == MST_ROUND && up->request.round.data.size > 0) {
        assert_true(up->request.round.data.size <= sizeof(up->data));
        memcpy(up->data, up->request.round.data.data, up->request.round.data.size);
    } else if (up->request.command == MST_FAULT) {
        up->request.fault.text = mst_slice_text(""); /* the machine's, until the next one */
    }
}

static void model_drain(struct model_rank *rank)
{
    const struct mst_restart_effect *effect;

    mst_restart_check(rank->restart);
    while ((effect = mst_restart_machine.next(rank->restart)) != NULL) {
        if (effect->head.kind != MST_MACHINE_OWN) {
            model_up(rank, &effect->head);
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
        mst_restart_check(rank->restart);
    }
}

static void model_down(struct model *model, struct model_rank *rank)
{
    struct model_reply *reply = &rank->down[rank->down_start++ % QUEUE];

    if (reply->tag == 0) {
        mst_restart_machine.attention(rank->restart, model->now_ns, &reply->reply->view, false);
    } else {
        mst_restart_machine.reply(rank->restart, model->now_ns, reply->tag, reply->reply);
    }
    model_drain(rank);
    free(reply->reply);
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

/* A newcomer would be seated: the ranks are called to the next seal. */
static void model_grow(struct model *model)
{
    for (uint32_t i = 0; i < RANKS; i++) {
        struct mst_reply reply = {.has_view = true, .view = model->ranks[i].view};

        if (reply.view.attention < MST_GROW) {
            reply.view.attention = MST_GROW;
            model_answer(&model->ranks[i], 0, &reply);
        }
    }
}

static void model_trouble(struct model *model, uint32_t i)
{
    const struct mst_request lost = {
        .command = MST_LOST, .lost = {.index = i, .pid = 100 + i, .cause = MST_CAUSE_SIGNAL}};
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
        (void)core_service_send(&model->service, model->agent, &lost);
    } else {
        model_grow(model);
    }
}

/* One thing happens to one rank. False when there was nothing to happen. */
static void model_step(struct model *model)
{
    uint32_t i = (uint32_t)mst_prng_below(&model->prng, RANKS);
    struct model_rank *rank = &model->ranks[i];
    uint64_t dice = mst_prng_below(&model->prng, 4);

    model->now_ns += mst_prng_below(&model->prng, MS);
    core_service_tick(&model->service, model->now_ns);
    model_watch(model);
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
        mst_restart_unwound(rank->restart, model->now_ns, MUSTER_OK, MST_WHY_REPLY, 0,
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

static void model_begin(struct model *model)
{
    const struct mst_request join = {.command = MST_JOIN};

    core_service_init(&model->service, model->now_ns);
    model->service.replied = model_replied;
    model->service.ctx = model;
    for (uint32_t i = 0; i < RANKS; i++) {
        const struct mst_open open = {
            .role = MST_ROLE_RANK, .index = i, .size = RANKS, .min_size = 1};

        (void)core_service_open(&model->service, &open);
    }
    model->agent = core_service_open(&model->service, &(struct mst_open){.role = MST_ROLE_AGENT});
    for (uint32_t i = 0; i < RANKS; i++) {
        (void)core_service_send(&model->service, i, &join);
    }
    for (uint32_t i = 0; i < RANKS; i++) {
        struct model_rank *rank = &model->ranks[i];

        assert_int_equal(rank->view.generation, 1);
        rank->alive = true;
        rank->restart = restart_new();
        mst_restart_start(rank->restart, 0, &rank->view);
        model_drain(rank);
    }
}

static uint64_t model_run(uint64_t seed)
{
    static struct model model;
    uint64_t generation = 0;
    uint64_t digest = 0;

    model = (struct model){.prng = {seed}, .now_ns = MS};
    model.troubles = (uint32_t)mst_prng_below(&model.prng, 6);
    model_begin(&model);
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
        while (rank->down_start != rank->down_end) {
            free(rank->down[rank->down_start++ % QUEUE].reply);
        }
    }
    core_service_fini(&model.service);
    return digest;
}

/* Restart machines around a small service meet failures and kills by seed. All living ranks are
 * done in one generation, none hangs, the same seed gives the same run. */
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
