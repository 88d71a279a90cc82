/* SPDX-License-Identifier: Apache-2.0 */
#include "preempt_stage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/panic.h"
#include "base/time.h"

const struct mst_preempt_config stage_config = {
    .window_ms = 900000, .agree_timeout_ms = 2000, .leave_all = true};

/* ---- keys ---- */

static struct stage_key *key_find(struct stage *stage, struct mst_slice name)
{
    for (uint32_t i = 0; i < stage->key_count; i++) {
        if (mst_slice_equal(mst_slice_text(stage->keys[i].name), name)) {
            return &stage->keys[i];
        }
    }
    return NULL;
}

static void key_put(struct stage *stage, struct mst_slice name, struct mst_slice value)
{
    struct stage_key *key = key_find(stage, name);

    if (!key) {
        MST_ASSERT(stage->key_count < STAGE_KEYS);
        key = &stage->keys[stage->key_count++];
        memcpy(key->name, name.data, name.size);
        key->name[name.size] = '\0';
    }
    MST_ASSERT(value.size < STAGE_VALUE);
    if (value.size > 0) {
        memcpy(key->value, value.data, value.size);
    }
    key->value[value.size] = '\0';
    key->size = value.size;
    key->there = true;
    key->revision = ++stage->revision;
    key->written_ns = stage->now_ns;
}

void stage_put(struct stage *stage, const char *name, const char *value)
{
    key_put(stage, mst_slice_text(name), mst_slice_text(value));
}

void stage_delete(struct stage *stage, const char *name)
{
    struct stage_key *key = key_find(stage, mst_slice_text(name));

    if (key && key->there) {
        key->there = false;
        key->revision = ++stage->revision;
    }
}

const char *stage_value(const struct stage *stage, const char *name)
{
    for (uint32_t i = 0; i < stage->key_count; i++) {
        if (stage->keys[i].there && strcmp(stage->keys[i].name, name) == 0) {
            return stage->keys[i].value;
        }
    }
    return NULL;
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

/* ---- rounds ---- */

static void post(struct stage *stage, uint32_t member, struct stage_mail mail)
{
    struct stage_member *to = &stage->members[member];

    MST_ASSERT(to->mails < STAGE_MAIL);
    to->mail[to->mails++] = mail;
}

static void close_round(struct stage *stage, struct stage_round *round, muster_status status)
{
    round->open = false;
    round->done = true;
    round->status = status;
    for (uint32_t i = 0; i < stage->count; i++) {
        if (round->parts[i].tag != 0) {
            post(stage, i, (struct stage_mail){round->parts[i].tag, status, round});
            round->parts[i].tag = 0;
        }
    }
}

static void evaluate(struct stage *stage, struct stage_round *round)
{
    bool all = true;
    bool lost = false;

    for (uint32_t i = 0; i < stage->count; i++) {
        bool gone = !stage->members[i].alive;

        if (stage->members[i].seated) {
            lost = lost || gone;
            all = all && (round->parts[i].arrived || gone);
        }
    }
    if (lost && round->on_loss == MST_FAIL) {
        close_round(stage, round, MUSTER_ELOST);
    } else if (all) {
        close_round(stage, round, MUSTER_OK);
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
    memcpy(stage->rounds[stage->round_count].name, name, sizeof(name));
    return &stage->rounds[stage->round_count++];
}

static void round_request(struct stage *stage, uint32_t member, uint64_t tag,
                          const struct mst_round_request *request)
{
    struct stage_round *round = round_find(stage, request);
    struct stage_part *part = &round->parts[member];

    assert_int_equal(request->number, 0);
    if (request->generation != stage->generation) {
        post(stage, member, (struct stage_mail){tag, MUSTER_EFENCED, NULL});
    } else if (round->done) {
        post(stage, member, (struct stage_mail){tag, round->status, round});
    } else {
        if (!round->open) {
            round->open = true;
            round->deadline_ms = request->deadline_ms;
            round->deadline_ns = stage->now_ns + request->deadline_ms * NS_PER_MS;
            round->on_loss = request->on_loss;
            round->reduce = request->reduce;
        }
        assert_true(request->any_deadline);
        MST_ASSERT(request->data.size <= sizeof(part->data));
        memcpy(part->data, request->data.data, request->data.size);
        part->size = request->data.size;
        part->arrived = true;
        part->tag = tag;
        evaluate(stage, round);
    }
}

/* ---- requests ---- */

static void request_take(struct stage *stage, uint32_t member, uint64_t tag,
                         const struct mst_request *request)
{
    struct stage_member *from = &stage->members[member];

    if (request->command == MST_WATCH) {
        assert_int_equal(from->watch_tag, 0);
        from->watch_tag = tag;
        from->watch_after = request->watch.after;
        return;
    }
    if (stage->refuse != MUSTER_OK) {
        post(stage, member, (struct stage_mail){tag, stage->refuse, NULL});
    } else if (request->command == MST_ROUND) {
        round_request(stage, member, tag, &request->round);
    } else {
        const struct mst_write *op = &request->write.ops[0];
        struct stage_key *key = key_find(stage, op->key);
        bool there = key && key->there;

        assert_int_equal(request->command, MST_WRITE);
        assert_int_equal(op->kind, MST_INSERT);
        if (!there) {
            key_put(stage, op->key, op->value);
        }
        post(stage, member, (struct stage_mail){tag, there ? MUSTER_EEXISTS : MUSTER_OK, NULL});
    }
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
        if (effect->outcome.has_detail) {
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
        mst_preempt_machine.done(self->machine, effect);
        if (gate) {
            int64_t writes = self->writing ? self->step : -1;

            mst_preempt_gated(self->machine, stage->now_ns,
                              writes > self->last ? writes : self->last);
        }
        mst_preempt_check(self->machine);
    }
}

/* ---- what is told ---- */

static void vector_reduce(const struct stage *stage, const struct stage_round *round,
                          unsigned char out[64])
{
    for (unsigned element = 0; element < 8; element++) {
        int64_t most = INT64_MIN;

        for (uint32_t i = 0; i < stage->count; i++) {
            int64_t number;

            memcpy(&number, round->parts[i].data + (size_t)element * 8, 8);
            if (round->parts[i].arrived && number > most) {
                most = number;
            }
        }
        memcpy(out + (size_t)element * 8, &most, 8);
    }
}

static void tell(struct stage *stage, uint32_t member, const struct stage_mail *mail)
{
    struct mst_item items[STAGE_MEMBERS];
    unsigned char vector[64];
    const struct stage_round *round = mail->round;
    struct mst_reply reply = {.status = mail->status};

    if (round) {
        reply.has_detail = true;
        reply.detail.expected = stage->count;
        for (uint32_t i = 0; i < stage->count; i++) {
            const struct stage_part *part = &round->parts[i];

            reply.detail.arrived += part->arrived;
            if (!part->arrived && stage->members[i].seated) {
                reply.detail.missing += stage->members[i].alive;
                reply.detail.lost += !stage->members[i].alive;
                reply.detail.who[reply.detail.who_count++] = (struct mst_who){
                    .index = stage->members[i].index, .host = mst_slice_text("somewhere")};
            } else if (part->arrived && round->reduce == MST_REDUCE_GATHER) {
                items[reply.item_count++] =
                    (struct mst_item){.kind = MST_ITEM_PART,
                                      .who = {.index = stage->members[i].index},
                                      .value = mst_slice_of(part->data, part->size)};
            }
        }
        if (round->reduce == MST_REDUCE_MAX &&
            (mail->status == MUSTER_OK || round->on_loss == MST_PROCEED)) {
            vector_reduce(stage, round, vector);
            reply.value = mst_slice_of(vector, sizeof(vector));
        }
        reply.items = items;
    }
    mst_preempt_machine.reply(stage->members[member].machine, stage->now_ns, mail->tag, &reply);
    stage_drain(stage, member);
}

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
    tell(stage, member, &mail);
    return true;
}

static struct mst_item item_of(const struct stage *stage, const struct stage_key *key)
{
    uint64_t age_ms = (stage->now_ns - key->written_ns) / NS_PER_MS;

    return (struct mst_item){.kind = key->there ? MST_ITEM_KEY : MST_ITEM_DELETED,
                             .name = mst_slice_text(key->name),
                             .value = mst_slice_of(key->value, key->there ? key->size : 0),
                             .revision = key->revision,
                             .number = age_ms > stage->away_ms ? age_ms - stage->away_ms : 0};
}

static uint32_t collect(struct stage *stage, uint64_t after, bool listing, struct mst_item *items,
                        uint32_t most)
{
    uint32_t count = 0;

    while (count < most) {
        const struct stage_key *next = NULL;

        for (uint32_t i = 0; i < stage->key_count; i++) {
            const struct stage_key *key = &stage->keys[i];

            if (key->revision > after && (key->there || !listing) &&
                (!next || key->revision < next->revision)) {
                next = key;
            }
        }
        if (!next) {
            break;
        }
        items[count++] = item_of(stage, next);
        after = next->revision;
    }
    return count;
}

bool stage_news(struct stage *stage, uint32_t member)
{
    struct stage_member *self = &stage->members[member];
    struct mst_item items[STAGE_KEYS + 1];
    struct mst_reply reply = {.status = MUSTER_OK};
    bool listing = stage->forget || self->watch_after == 0;
    uint32_t most = stage->page != 0 && !listing ? stage->page : STAGE_KEYS;
    uint32_t count = 0;
    uint32_t first;

    if (self->watch_tag == 0 || self->frozen || !self->alive) {
        return false;
    }
    if (stage->forget) {
        items[count++] = (struct mst_item){.kind = MST_ITEM_RESET};
    }
    first = count;
    count += collect(stage, stage->forget ? 0 : self->watch_after, listing, items + count, most);
    if (count == 0) {
        return false;
    }
    stage->forget = false;
    reply.items = items;
    reply.item_count = count;
    reply.revision = count - first == most ? items[count - 1].revision : stage->revision;
    {
        uint64_t tag = self->watch_tag;

        self->watch_tag = 0;
        mst_preempt_machine.reply(self->machine, stage->now_ns, tag, &reply);
    }
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
    uint64_t next = UINT64_MAX;

    for (uint32_t i = 0; i < stage->round_count; i++) {
        if (stage->rounds[i].open && stage->rounds[i].deadline_ns < next) {
            next = stage->rounds[i].deadline_ns;
        }
    }
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
            stage->now_ns = until_ns;
            return;
        }
        idle = next > stage->now_ns ? 0 : idle + 1;
        MST_ASSERT(idle < 1000); /* a deadline that does not move */
        if (next > stage->now_ns) {
            stage->now_ns = next;
        }
        for (uint32_t i = 0; i < stage->round_count; i++) {
            if (stage->rounds[i].open && stage->rounds[i].deadline_ns <= stage->now_ns) {
                close_round(stage, &stage->rounds[i], MUSTER_ETIMEDOUT);
            }
        }
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

static void view_tell(struct stage *stage, uint32_t member, uint32_t rank, uint32_t size)
{
    struct stage_member *self = &stage->members[member];
    struct mst_view view = {
        .generation = stage->generation, .size = size, .rank = rank, .index = self->index};

    mst_preempt_machine.attention(self->machine, stage->now_ns, &view, false);
    stage_drain(stage, member);
}

void stage_seal(struct stage *stage)
{
    uint32_t rank = 0;
    uint32_t size = 0;

    stage->generation++;
    for (uint32_t i = 0; i < stage->round_count; i++) {
        if (stage->rounds[i].open) {
            for (uint32_t m = 0; m < stage->count; m++) {
                if (stage->rounds[i].parts[m].tag != 0) {
                    post(stage, m,
                         (struct stage_mail){stage->rounds[i].parts[m].tag, MUSTER_EFENCED, NULL});
                }
            }
            stage->rounds[i].open = false;
            stage->rounds[i].done = true;
            stage->rounds[i].status = MUSTER_EFENCED;
        }
    }
    for (uint32_t i = 0; i < stage->count; i++) {
        size += stage->members[i].alive;
        stage->members[i].seated = stage->members[i].alive;
    }
    for (uint32_t i = 0; i < stage->count; i++) {
        if (stage->members[i].alive) {
            view_tell(stage, i, rank++, size);
        }
    }
}

void stage_lose(struct stage *stage, uint32_t member)
{
    stage->members[member].alive = false;
    for (uint32_t i = 0; i < stage->round_count; i++) {
        if (stage->rounds[i].open) {
            evaluate(stage, &stage->rounds[i]);
        }
    }
}

bool stage_init(struct stage *stage, uint32_t count, const struct mst_preempt_config *config,
                const struct mst_mem *mem)
{
    memset(stage, 0, sizeof(*stage));
    stage->mem = *mem;
    stage->now_ns = 1000 * NS_PER_MS;
    stage->count = count;
    stage->revision = 10;
    for (uint32_t i = 0; i < count; i++) {
        struct stage_member *self = &stage->members[i];

        self->index = i + 10;
        self->alive = true;
        self->last = -1;
        self->limit = INT64_MAX;
        if (mst_preempt_new(&self->machine, stage->now_ns, config, mem) != MUSTER_OK) {
            stage_fini(stage);
            return false;
        }
        stage_drain(stage, i);
    }
    return true;
}

void stage_fini(struct stage *stage)
{
    for (uint32_t i = 0; i < stage->count; i++) {
        mst_preempt_free(stage->members[i].machine);
        stage->members[i].machine = NULL;
    }
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
