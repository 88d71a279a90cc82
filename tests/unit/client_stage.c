/* SPDX-License-Identifier: Apache-2.0 */
#include "client_stage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "proto/command.h"
#include "proto/status.h"

muster_status stage_init(struct stage *stage, size_t fail_at, uint64_t seed)
{
    struct mst_client_config config = {.seed = seed,
                                       .open = {.token = {.high = 7, .low = 8},
                                                .job = mst_slice_text("j"),
                                                .role = MST_ROLE_RANK,
                                                .index = 2,
                                                .host = mst_slice_text("here"),
                                                .pid = 99,
                                                .node = MST_NODE_NONE},
                                       .endpoint_count = 2,
                                       .limits = mst_limits_default};

    *stage = (struct stage){.now_ns = MS};
    failing_mem_init(&stage->failing, fail_at);
    stage->story = mst_text_in(stage->story_room, STORY_ROOM);
    return mst_client_new(&stage->client, &config, &stage->failing.mem);
}

void stage_fini(struct stage *stage)
{
    mst_client_free(stage->client);
    stage->client = NULL;
    assert_int_equal(stage->failing.live, 0);
}

static void tell(struct stage *stage, const char *words)
{
    if (stage->story.size > 0) {
        mst_text_add(&stage->story, "; ");
    }
    mst_text_add(&stage->story, words);
}

static void tell_send(struct stage *stage, const struct mst_request *request)
{
    struct sent sent = {.id = request->id, .oldest = request->oldest, .command = request->command};

    tell(stage, "send ");
    mst_text_format(&stage->story, "%s %" PRIu64 "/%" PRIu64, mst_command_name(request->command),
                    request->id, request->oldest);
    if (request->command == MST_CANCEL) {
        sent.cancels = request->cancel.id;
        mst_text_format(&stage->story, " of %" PRIu64, request->cancel.id);
    } else if (request->command == MST_OPEN) {
        sent.token = request->open.token;
        sent.incarnation = request->open.incarnation;
        mst_text_format(&stage->story, " incarnation %" PRIu64, request->open.incarnation);
        assert_true(mst_slice_equal(request->open.job, mst_slice_text("j")));
    } else if (request->command == MST_WATCH) {
        sent.after = request->watch.after;
    } else if (request->command == MST_WRITE && request->write.count > 0) {
        sent.delta = request->write.ops[0].delta;
        assert_true(mst_slice_equal(request->write.ops[0].key, mst_slice_text("key")));
    }
    assert_true(request->oldest <= request->id);
    assert_true(request->id - request->oldest < MST_WINDOW);
    assert_true(stage->sent_count < SENT_MAX);
    stage->sent[stage->sent_count++] = sent;
}

static void tell_done(struct stage *stage, const struct mst_client_effect *effect)
{
    assert_non_null(effect->reply);
    assert_int_equal(effect->reply->status, effect->status);
    tell(stage, "done ");
    mst_text_format(&stage->story, "%" PRIu64 " %s", effect->tag,
                    mst_status_name(effect->status) + strlen("MUSTER_"));
    if (effect->local) {
        mst_text_add(&stage->story, " here");
    }
    stage->detail = effect->reply->detail;
    if (stage->done) {
        stage->done(stage, effect);
    }
}

static void carry_out(struct stage *stage, const struct mst_client_effect *effect)
{
    switch (effect->type) {
    case MST_CLIENT_CONNECT:
        tell(stage, "connect ");
        mst_text_format(&stage->story, "%u", effect->endpoint);
        break;
    case MST_CLIENT_SEND:
        tell_send(stage, effect->request);
        break;
    case MST_CLIENT_DONE:
        tell_done(stage, effect);
        break;
    case MST_CLIENT_ATTENTION:
        tell(stage, mst_client_stopped(stage->client) ? "attention stopped" : "attention");
        break;
    case MST_CLIENT_DISCONNECT:
        tell(stage, "disconnect");
        break;
    case MST_CLIENT_ENDED:
        tell(stage, "ended ");
        mst_text_add(&stage->story, mst_status_name(effect->status) + strlen("MUSTER_"));
        break;
    }
}

void stage_drain(struct stage *stage)
{
    const struct mst_client_effect *effect;

    stage->sent_count = 0;
    while ((effect = mst_client_next(stage->client)) != NULL) {
        carry_out(stage, effect);
        mst_client_done(stage->client, effect);
        mst_client_check(stage->client);
    }
    (void)mst_client_digest(stage->client);
}

void stage_forget(struct stage *stage)
{
    stage->story = mst_text_in(stage->story_room, STORY_ROOM);
}

void stage_expect(struct stage *stage, const char *story)
{
    stage_drain(stage);
    assert_string_equal(stage->story_room, story);
    stage_forget(stage);
}

void stage_at(struct stage *stage, uint64_t now_ms)
{
    stage->now_ns = now_ms * MS;
    mst_client_tick(stage->client, stage->now_ns);
    stage_drain(stage);
}

void stage_reply(struct stage *stage, struct mst_reply reply)
{
    mst_client_reply(stage->client, stage->now_ns, &reply);
    stage_drain(stage);
}

void stage_answer(struct stage *stage, uint64_t id, enum mst_command command, muster_status status)
{
    stage_reply(stage, (struct mst_reply){.id = id, .command = command, .status = status});
}

struct mst_reply stage_opened(const struct stage *stage, uint64_t id)
{
    (void)stage;
    return (struct mst_reply){.id = id,
                              .command = MST_OPEN,
                              .number = 10000,
                              .has_view = true,
                              .view = {.rank = MST_RANK_NONE, .index = 2, .incarnation = 4}};
}

void stage_open(struct stage *stage)
{
    mst_client_start(stage->client, stage->now_ns);
    stage_drain(stage);
    mst_client_connected(stage->client, stage->now_ns);
    stage_drain(stage);
    stage_reply(stage, stage_opened(stage, 1));
    stage_forget(stage);
}

static struct mst_request write_of(const struct mst_write *op)
{
    return (struct mst_request){.command = MST_WRITE, .write = {.ops = op, .count = 1}};
}

struct mst_request stage_put(void)
{
    static struct mst_write op = {.kind = MST_PUT};

    op.key = mst_slice_text("key");
    op.value = mst_slice_text("value");
    return write_of(&op);
}

struct mst_request stage_add(int64_t delta)
{
    static struct mst_write op = {.kind = MST_ADD};

    op.key = mst_slice_text("key");
    op.delta = delta;
    return write_of(&op);
}

struct mst_request stage_get(void)
{
    return (struct mst_request){.command = MST_GET,
                                .get = {.key = mst_slice_text("key"), .wait = true}};
}

muster_status stage_call(struct stage *stage, struct mst_request request, uint64_t deadline_ms,
                         uint64_t tag)
{
    return mst_client_call(stage->client, stage->now_ns, &request,
                           deadline_ms > 0 ? deadline_ms * MS : NEVER, tag);
}
