/* SPDX-License-Identifier: Apache-2.0 */
#include "preempt_stage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/panic.h"
#include "base/time.h"

#define STAGE_FORGOTTEN (UINT64_C(1) << 40) /* a revision that the service never had */

const struct mst_preempt_config stage_config = {
    .window_ms = 900000, .agree_timeout_ms = 2000, .leave_all = true};

/* ---- keys ---- */

static void write_key(struct stage *stage, enum mst_write_kind kind, const char *name,
                      const char *value)
{
    const struct mst_write op = {
        .kind = kind, .key = mst_slice_text(name), .value = mst_slice_text(value)};
    const struct mst_request request = {.command = MST_WRITE, .write = {.ops = &op, .count = 1}};

    assert_int_equal(core_service_ask(&stage->service, stage->hand, &request)->status, MUSTER_OK);
}

void stage_put(struct stage *stage, const char *name, const char *value)
{
    write_key(stage, MST_PUT, name, value);
}

void stage_delete(struct stage *stage, const char *name)
{
    write_key(stage, MST_DELETE, name, "");
}

const char *stage_value(struct stage *stage, const char *name)
{
    static char value[MST_NOTICE_VALUE_ROOM];
    const struct mst_request request = {.command = MST_GET, .get = {.key = mst_slice_text(name)}};
    const struct mst_reply *reply = core_service_ask(&stage->service, stage->hand, &request);

    if (reply->status != MUSTER_OK) {
        return NULL;
    }
    (void)snprintf(value, sizeof(value), "%.*s", (int)reply->value.size,
                   (const char *)reply->value.data);
    return value;
}

const struct mst_reply *stage_keys(struct stage *stage)
{
    const struct mst_request request = {.command = MST_LIST,
                                        .list = {.prefix = mst_slice_text(MST_PREEMPT_PREFIX)}};

    return core_service_ask(&stage->service, stage->hand, &request);
}

void stage_notice(struct stage *stage, uint32_t index, uint64_t left_ms)
{
    struct mst_notice notice = {.left_ms = left_ms, .source = "signals", .reason = "a test"};
    char name[MST_PREEMPT_NAME_ROOM];
    char value[MST_NOTICE_VALUE_ROOM];

    mst_notice_key(name, sizeof(name), index);
    mst_notice_write(value, sizeof(value), &notice);
    stage_put(stage, name, value);
}

/* ---- what the service says ---- */

static void post(struct stage *stage, uint32_t member, uint64_t tag, const struct mst_reply *reply)
{
    struct stage_member *to = &stage->members[member];

    MST_ASSERT(to->mails < STAGE_MAIL);
    to->mail[to->mails++] = (struct stage_mail){tag, core_reply_copy(reply)};
}

static struct stage_call *call_find(struct stage_member *self, uint64_t id)
{
    for (size_t i = 0; i < STAGE_MAIL; i++) {
        if (self->calls[i].id == id) {
            return &self->calls[i];
        }
    }
    return NULL;
}

static void replied(void *ctx, uint32_t client, const struct mst_reply *reply)
{
    struct stage *stage = ctx;
    struct stage_call *call;

    if (client >= stage->count) {
        return;
    }
    if (reply->has_view) {
        stage->members[client].view = reply->view;
    }
    call = call_find(&stage->members[client], reply->id);
    if (call) {
        if (call->round && call->round->open) {
            call->round->open = false;
            call->round->status = reply->status;
        }
        post(stage, client, call->tag, reply);
        *call = (struct stage_call){0};
    }
}

static struct stage_round *round_find(struct stage *stage, const struct mst_round_request *request)
{
    char name[64];

    MST_ASSERT(request->name.size + 24 < sizeof(name));
    (void)snprintf(name, sizeof(name), "%.*s %lu", (int)request->name.size,
                   (const char *)request->name.data, (unsigned long)request->generation);
    for (uint32_t i = 0; i < stage->round_count; i++) {
        if (strcmp(stage->rounds[i].name, name) == 0) {
            return &stage->rounds[i];
        }
    }
    MST_ASSERT(stage->round_count < STAGE_ROUNDS);
    stage->rounds[stage->round_count] = (struct stage_round){.open = true};
    memcpy(stage->rounds[stage->round_count].name, name, sizeof(name));
    return &stage->rounds[stage->round_count++];
}

static struct stage_round *round_note(struct stage *stage, uint32_t member,
                                      const struct mst_round_request *request)
{
    struct stage_round *round;
    struct stage_part *part;

    assert_int_equal(request->number, 0);
    assert_true(request->any_deadline);
    if (request->generation != stage->generation) {
        return NULL;
    }
    round = round_find(stage, request);
    part = &round->parts[member];
    if (round->open) {
        MST_ASSERT(request->data.size <= sizeof(part->data));
        memcpy(part->data, request->data.data, request->data.size);
        part->arrived = true;
    }
    return round;
}

static void request_take(struct stage *stage, uint32_t member, uint64_t tag,
                         const struct mst_request *request)
{
    struct stage_member *self = &stage->members[member];
    struct stage_call *call = call_find(self, 0);

    if (request->command == MST_WATCH) { /* made when it is looked for news */
        assert_int_equal(self->watch_tag, 0);
        self->watch_tag = tag;
        self->watch = *request;
        return;
    }
    if (stage->refuse != MUSTER_OK) {
        post(stage, member, tag, &(struct mst_reply){.status = stage->refuse});
        return;
    }
    assert_true(request->command == MST_ROUND || request->command == MST_WRITE);
    MST_ASSERT(call);
    call->tag = tag;
    call->round = request->command == MST_ROUND ? round_note(stage, member, &request->round) : NULL;
    call->id = stage->service.clients[member].id + 1;
    (void)core_service_send(&stage->service, member, request);
}

static void effect_take(struct stage *stage, uint32_t member,
                        const struct mst_preempt_effect *effect)
{
    struct stage_member *self = &stage->members[member];

    if (effect->head.kind == MST_MACHINE_CALL) {
        request_take(stage, member, effect->head.tag, effect->head.request);
    }
    switch (effect->type) {
    case MST_PREEMPT_GATE:
        self->closed = true;
        self->closings++;
        break;
    case MST_PREEMPT_LIMIT:
        self->closed = false;
        self->limit = effect->limit;
        if (effect->forget) {
            self->last = -1;
        }
        break;
    case MST_PREEMPT_NOTICED:
        self->noticed++;
        break;
    case MST_PREEMPT_SAVED:
        assert_true(self->saving);
        self->outcome = effect->outcome;
        if (effect->outcome.detail) {
            self->detail = *effect->outcome.detail;
        }
        self->outcomes++;
        self->outcome_last = self->last;
        self->saving = false;
        /* Trained with what was saved, whatever the others did, unless it begins anew. */
        self->step += self->save_generation == stage->generation;
        break;
    case MST_PREEMPT_LOG:
        self->lines[effect->log.what]++;
        self->line = effect->log;
        break;
    }
}

void stage_drain(struct stage *stage, uint32_t member)
{
    struct stage_member *self = &stage->members[member];
    const struct mst_preempt_effect *effect;

    mst_preempt_check(self->machine);
    while ((effect = mst_preempt_machine.next(self->machine))) {
        bool gate = effect->type == MST_PREEMPT_GATE;

        effect_take(stage, member, effect);
        if (gate) {
            int64_t writes = self->writing ? self->step : -1;

            mst_preempt_gated(self->machine, stage->now_ns,
                              writes > self->last ? writes : self->last);
        }
        mst_preempt_check(self->machine);
    }
}

/* ---- what is told ---- */

bool stage_mail(struct stage *stage, uint32_t member)
{
    struct stage_member *self = &stage->members[member];
    struct stage_mail mail;

    if (self->mails == 0 || self->frozen || !self->alive) {
        return false;
    }
    mail = self->mail[0];
    self->mails--;
    memmove(self->mail, self->mail + 1, self->mails * sizeof(mail));
    mst_preempt_machine.reply(self->machine, stage->now_ns, mail.tag, mail.reply);
    stage_drain(stage, member);
    free(mail.reply);
    return true;
}

/* The service was away, or tells little at a time. */
static void news_change(const struct stage *stage, struct mst_reply *news, bool listing)
{
    struct mst_item *items = (struct mst_item *)(void *)(news + 1); /* as they were copied */

    for (uint32_t i = 0; i < news->item_count; i++) {
        items[i].number -= items[i].number < stage->away_ms ? items[i].number : stage->away_ms;
    }
    if (stage->page != 0 && !listing && news->item_count > stage->page) {
        news->item_count = stage->page;
        news->revision = items[stage->page - 1].revision;
    }
}

bool stage_news(struct stage *stage, uint32_t member)
{
    struct stage_member *self = &stage->members[member];
    struct mst_request request = self->watch;
    const struct mst_reply *reply;
    struct mst_reply *news;
    uint64_t tag = self->watch_tag;
    bool listing;

    if (tag == 0 || self->frozen || !self->alive) {
        return false;
    }
    if (stage->forget) {
        request.watch.after = STAGE_FORGOTTEN;
    }
    listing = stage->forget || request.watch.after == 0 ||
              (request.watch.after & MST_CURSOR_LISTING) != 0;
    reply = core_service_ask(&stage->service, member, &request);
    if (!reply || reply->item_count == 0) {
        return false;
    }
    stage->forget = false;
    self->watch_tag = 0;
    news = core_reply_copy(reply);
    news_change(stage, news, listing);
    mst_preempt_machine.reply(self->machine, stage->now_ns, tag, news);
    free(news);
    stage_drain(stage, member);
    return true;
}

bool stage_deliver(struct stage *stage, uint32_t member)
{
    return stage_mail(stage, member) || stage_news(stage, member);
}

void stage_settle(struct stage *stage)
{
    bool any = true;

    while (any) {
        any = false;
        for (uint32_t i = 0; i < stage->count; i++) {
            any = stage_deliver(stage, i) || any;
        }
    }
}

/* ---- time ---- */

static uint64_t next_ns(struct stage *stage)
{
    uint64_t next = core_service_deadline_ns(&stage->service);

    for (uint32_t i = 0; i < stage->count; i++) {
        if (stage->members[i].alive && !stage->members[i].frozen &&
            mst_preempt_machine.deadline_ns(stage->members[i].machine) < next) {
            next = mst_preempt_machine.deadline_ns(stage->members[i].machine);
        }
    }
    return next;
}

void stage_pass(struct stage *stage, uint64_t ms)
{
    uint64_t until_ns = stage->now_ns + ms * NS_PER_MS;
    unsigned idle = 0;

    for (;;) {
        uint64_t next = next_ns(stage);

        if (next > until_ns) {
            stage->now_ns = stage->service.now_ns = until_ns;
            return;
        }
        idle = next > stage->now_ns ? 0 : idle + 1;
        MST_ASSERT(idle < 1000); /* a deadline that does not move */
        if (next > stage->now_ns) {
            stage->now_ns = next;
        }
        core_service_tick(&stage->service, stage->now_ns);
        for (uint32_t i = 0; i < stage->count; i++) {
            if (stage->members[i].alive && !stage->members[i].frozen) {
                mst_preempt_machine.tick(stage->members[i].machine, stage->now_ns);
                stage_drain(stage, i);
            }
        }
        stage_settle(stage);
    }
}

/* ---- members ---- */

void stage_seal(struct stage *stage)
{
    const struct mst_request join = {.command = MST_JOIN};
    const struct mst_request seal = {.command = MST_ROUND,
                                     .round = {.generation = stage->generation,
                                               .name = mst_slice_text("muster/seal"),
                                               .on_loss = MST_PROCEED,
                                               .seal = true}};

    for (uint32_t i = 0; i < stage->count; i++) {
        if (stage->members[i].alive) {
            (void)core_service_send(&stage->service, i, stage->generation == 0 ? &join : &seal);
        }
    }
    stage->generation++;
    for (uint32_t i = 0; i < stage->count; i++) {
        struct stage_member *self = &stage->members[i];

        if (self->alive) {
            assert_int_equal(self->view.generation, stage->generation);
            mst_preempt_machine.attention(self->machine, stage->now_ns, &self->view, false);
            stage_drain(stage, i);
        }
    }
}

void stage_lose(struct stage *stage, uint32_t member)
{
    const struct mst_request leave = {.command = MST_LEAVE};

    stage->members[member].alive = false;
    (void)core_service_send(&stage->service, member, &leave);
}

bool stage_init(struct stage *stage, uint32_t count, const struct mst_preempt_config *config,
                const struct mst_mem *mem)
{
    memset(stage, 0, sizeof(*stage));
    stage->mem = *mem;
    stage->now_ns = 1000 * NS_PER_MS;
    stage->count = count;
    core_service_init(&stage->service, stage->now_ns);
    stage->service.replied = replied;
    stage->service.ctx = stage;
    for (uint32_t i = 0; i < count; i++) {
        struct stage_member *self = &stage->members[i];

        self->index = i + 10;
        (void)core_service_open(&stage->service,
                                &(struct mst_open){.role = MST_ROLE_RANK,
                                                   .index = self->index,
                                                   .size = count,
                                                   .min_size = 1,
                                                   .host = mst_slice_text("somewhere")});
        self->alive = true;
        self->last = -1;
        self->limit = INT64_MAX;
        if (mst_preempt_new(&self->machine, stage->now_ns, config, mem) != MUSTER_OK) {
            stage_fini(stage);
            return false;
        }
    }
    stage->hand = core_service_open(&stage->service, &(struct mst_open){.role = MST_ROLE_OBSERVER});
    for (uint32_t i = 0; i < count; i++) {
        stage_drain(stage, i);
    }
    return true;
}

void stage_fini(struct stage *stage)
{
    for (uint32_t i = 0; i < stage->count; i++) {
        mst_preempt_free(stage->members[i].machine);
        stage->members[i].machine = NULL;
        while (stage->members[i].mails > 0) {
            free(stage->members[i].mail[--stage->members[i].mails].reply);
        }
    }
    core_service_fini(&stage->service);
}

/* ---- programs ---- */

bool stage_is_due(const struct stage *stage, uint32_t member)
{
    const struct stage_member *self = &stage->members[member];

    return !self->closed && self->step >= self->limit;
}

bool stage_step(struct stage *stage, uint32_t member)
{
    struct stage_member *self = &stage->members[member];

    if (self->frozen || !self->alive || self->saving || self->writing || self->closed) {
        return false;
    }
    if (self->step >= self->limit) {
        return false;
    }
    self->last = self->step++;
    return true;
}

void stage_write(struct stage *stage, uint32_t member)
{
    assert_true(stage_is_due(stage, member));
    stage->members[member].writing = true;
}

void stage_save(struct stage *stage, uint32_t member)
{
    struct stage_member *self = &stage->members[member];

    self->saving = true;
    self->writing = false;
    self->save_generation = stage->generation;
    mst_preempt_saved(self->machine, stage->now_ns, self->step);
    stage_drain(stage, member);
}
