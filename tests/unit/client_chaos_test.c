/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that are lost at any moment, requests and replies with them: each add reaches the sum
 * exactly once, and each call ends exactly once. The service here is a sum and a window.
 *
 * behaviour: sessions / Requests that are repeated */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/prng.h"
#include "client_stage.h"

enum { SEEDS = 300, CALLS = 200, PIPE_MAX = 1024 };

struct service {
    int64_t sum;
    uint64_t oldest;
    uint64_t seen[MST_WINDOW];  /* id of a write whose outcome is kept, by id modulo the window */
    struct sent pipe[PIPE_MAX]; /* requests on their way, in order */
    size_t piped;
    struct sent back[PIPE_MAX]; /* replies on their way */
    size_t backed;
    bool connected;
    int ended[CALLS + 1];
};

static void on_done(struct stage *stage, const struct mst_client_effect *effect)
{
    struct service *service = stage->ctx;

    assert_int_equal(effect->status, MUSTER_OK);
    service->ended[effect->tag]++;
}

/* What a request does: an old one nothing, a repeated one nothing more. */
static void serve(struct service *service, struct sent *request)
{
    uint64_t *kept = &service->seen[request->id % MST_WINDOW];

    assert_true(request->id < request->oldest + MST_WINDOW);
    if (request->command != MST_OPEN) {
        assert_true(request->id >= service->oldest || request->command != MST_WRITE);
    }
    if (request->oldest > service->oldest) {
        service->oldest = request->oldest;
    }
    if (request->command == MST_WRITE && *kept != request->id) {
        assert_true(*kept < request->id);
        *kept = request->id;
        service->sum += request->delta;
    }
    if (request->command != MST_WATCH) {
        assert_true(service->backed < PIPE_MAX);
        service->back[service->backed++] = *request;
    }
}

static void take_front(struct sent *queue, size_t *count)
{
    (*count)--;
    for (size_t i = 0; i < *count; i++) {
        queue[i] = queue[i + 1];
    }
}

/* Everything in the pipes is lost with the connection, but what the service had taken was done. */
static void cut(struct service *service, struct stage *stage)
{
    service->connected = false;
    service->piped = 0;
    service->backed = 0;
    mst_client_disconnected(stage->client, stage->now_ns);
    stage_drain(stage);
}

/* What is sent goes into the pipe. */
static void pump(struct service *service, struct stage *stage)
{
    stage_forget(stage);
    stage_drain(stage);
    for (size_t i = 0; i < stage->sent_count && service->connected; i++) {
        assert_true(service->piped < PIPE_MAX);
        service->pipe[service->piped++] = stage->sent[i];
    }
}

static void reply_to(struct service *service, struct stage *stage, const struct sent *request)
{
    struct mst_reply reply = {.id = request->id, .command = request->command};

    if (request->command == MST_OPEN) {
        reply = stage_opened(stage, request->id);
    }
    mst_client_reply(stage->client, stage->now_ns, &reply);
    pump(service, stage);
}

static void move(struct service *service, struct stage *stage, struct mst_prng *prng)
{
    struct sent request;

    if (!service->connected) {
        uint64_t next_ns = mst_client_deadline_ns(stage->client);

        if (next_ns > stage->now_ns && next_ns != NEVER) {
            stage->now_ns = next_ns;
        }
        mst_client_tick(stage->client, stage->now_ns);
        pump(service, stage);
        service->connected = true;
        mst_client_connected(stage->client, stage->now_ns);
        pump(service, stage);
        return;
    }
    switch (mst_prng_below(prng, 8)) {
    case 0:
        if (mst_prng_below(prng, 3) == 0) {
            cut(service, stage);
        }
        break;
    case 1:
    case 2:
    case 3:
        if (service->piped > 0) {
            request = service->pipe[0];
            take_front(service->pipe, &service->piped);
            serve(service, &request);
        }
        break;
    case 4:
        stage->now_ns += MS;
        mst_client_tick(stage->client, stage->now_ns);
        pump(service, stage);
        break;
    default:
        if (service->backed > 0) {
            request = service->back[0];
            take_front(service->back, &service->backed);
            reply_to(service, stage, &request);
        }
        break;
    }
}

static bool all_ended(const struct service *service)
{
    for (int tag = 1; tag <= CALLS; tag++) {
        if (service->ended[tag] == 0) {
            return false;
        }
    }
    return true;
}

static void run(uint64_t seed)
{
    static struct service service;
    static struct stage stage;
    struct mst_prng prng = {.state = seed};
    int64_t wanted = 0;
    uint64_t tag = 1;

    service = (struct service){0};
    assert_int_equal(stage_init(&stage, 0, seed), MUSTER_OK);
    stage.done = on_done;
    stage.ctx = &service;
    mst_client_start(stage.client, stage.now_ns);
    for (int step = 0; step < 200000 && !all_ended(&service); step++) {
        if (tag <= CALLS && mst_prng_below(&prng, 4) == 0) {
            int64_t delta = (int64_t)mst_prng_below(&prng, 1000);
            bool reads = mst_prng_below(&prng, 4) == 0;

            wanted += reads ? 0 : delta;
            assert_int_equal(stage_call(&stage, reads ? stage_get() : stage_add(delta), 0, tag),
                             MUSTER_OK);
            tag++;
            pump(&service, &stage);
        }
        move(&service, &stage, &prng);
    }
    for (int i = 1; i <= CALLS; i++) {
        assert_int_equal(service.ended[i], 1);
    }
    assert_int_equal(service.sum, wanted);
    stage_fini(&stage);
}

/* Connections break at random. Each call of a client ends once. */
static void each_call_ends_once(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        run(seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_call_ends_once)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
