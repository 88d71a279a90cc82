/* SPDX-License-Identifier: Apache-2.0 */
#include "replica_stage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/digest.h"
#include "base/time.h"

enum { STEP_MS = 5, ELECTIONS = 10 };

static void drain(struct stage *stage, size_t node);

/* ---- the state ---- */

static void agree(struct stage *stage, struct stage_node *node)
{
    assert_true(node->state.index < STAGE_ENTRIES);
    node->seen[node->state.index] = node->state.digest;
    for (size_t i = 0; i < stage->count; i++) {
        uint64_t other = stage->nodes[i].seen[node->state.index];

        assert_true(other == 0 || other == node->state.digest);
    }
}

static void apply(struct stage *stage, struct stage_node *node,
                  const struct mst_replica_effect *effect)
{
    assert_true(effect->index > node->state.index);
    assert_int_equal(effect->kind, MST_REPLICA_RECORDS);
    node->state.index = effect->index;
    node->state.digest = mst_digest_number(node->state.digest, effect->index);
    node->state.digest = mst_digest_slice(node->state.digest, effect->payload);
    if (effect->own) {
        struct mst_replica_status status;

        mst_replica_status_of(node->replica, &status);
        assert_int_equal(effect->term, status.term);
        assert_true(status.serves);
        node->own = effect->index;
    }
    agree(stage, node);
}

static void restore(struct stage *stage, struct stage_node *node,
                    const struct mst_replica_effect *effect)
{
    const struct mst_replica_snapshot *about = mst_replica_log_snapshot(node->log);
    struct stage_state state;
    unsigned char rest;

    assert_int_equal(about->index, effect->index);
    assert_int_equal(about->bytes, STAGE_STATE);
    assert_int_equal(
        mst_replica_log_read(node->log, about->index, 0, &state, sizeof state, &stage->err),
        MUSTER_OK);
    assert_int_equal(
        mst_replica_log_read(node->log, about->index, STAGE_STATE - 1, &rest, 1, &stage->err),
        MUSTER_OK);
    assert_int_equal(rest, (unsigned char)(STAGE_STATE - 1));
    assert_true(state.index >= node->state.index && state.index <= effect->index);
    node->state = state;
    node->restored++;
    if (state.index > 0) {
        agree(stage, node);
    }
}

/* ---- letters ---- */

static void post(struct stage *stage, size_t from, const struct mst_replica_effect *effect)
{
    struct stage_letter *letter;

    for (size_t to = 0; to < stage->count; to++) {
        if (stage->nodes[to].id != effect->peer) {
            continue;
        }
        assert_string_equal(effect->address, stage->nodes[to].address);
        if (stage->cut[from][to] || !stage->nodes[to].replica) {
            stage->lost++;
            return;
        }
        assert_true(stage->flying < STAGE_FLIGHT);
        letter = &stage->flight[(stage->first + stage->flying++) % STAGE_FLIGHT];
        *letter = (struct stage_letter){.from = from, .to = to, .size = effect->bytes.size};
        letter->bytes = malloc(effect->bytes.size);
        assert_non_null(letter->bytes);
        memcpy(letter->bytes, effect->bytes.data, effect->bytes.size);
        stage->longest = stage->longest > letter->size ? stage->longest : letter->size;
        return;
    }
    stage->lost++;
}

static void read_letter(struct stage *stage, const struct stage_letter *letter)
{
    struct stage_node *to = &stage->nodes[letter->to];
    const struct stage_node *from = &stage->nodes[letter->from];
    struct mst_slice rest = mst_slice_of(letter->bytes, letter->size);
    struct mst_replica_reader reader;
    struct mst_replica_message message = {0};
    struct failing_mem mem;
    const char *why;
    muster_status status = MUSTER_MORE;

    failing_mem_init(&mem, 0);
    mst_replica_reader_init(&reader, &mem.mem);
    mst_replica_reader_admit(&reader);
    while (rest.size > 0) {
        size_t size = rest.size < MST_REPLICA_TAKE_MAX ? rest.size : MST_REPLICA_TAKE_MAX;

        assert_int_equal(mst_replica_reader_take(&reader, mst_slice_of(rest.data, size)),
                         MUSTER_OK);
        rest = mst_slice_from(rest, size);
        status = mst_replica_reader_next(&reader, &message, &why);
        assert_int_equal(status, rest.size == 0 ? MUSTER_OK : MUSTER_MORE);
    }
    stage->wants_again += message.type == MST_REPLICA_WANT && message.want.offset > 0;
    if (message.type != MST_REPLICA_PIECE || ++stage->pieces <= stage->pieces_max) {
        mst_replica_receive(to->replica, stage->now_ns, from->id, from->address, &message);
    }
    mst_replica_reader_fini(&reader);
}

static void deliver(struct stage *stage)
{
    struct stage_letter letter = stage->flight[stage->first];

    stage->first = (stage->first + 1) % STAGE_FLIGHT;
    stage->flying--;
    if (stage->nodes[letter.to].replica && !stage->cut[letter.from][letter.to]) {
        read_letter(stage, &letter);
        drain(stage, letter.to);
    }
    free(letter.bytes);
}

/* ---- effects ---- */

/* It knows what is committed: an entry of its own term is. */
static void leads(struct stage_node *node, const struct mst_replica_effect *effect)
{
    struct mst_replica_status status;

    mst_replica_status_of(node->replica, &status);
    assert_true(effect->index > 0 && status.committed >= effect->index);
    assert_int_equal(mst_replica_log_term_at(node->log, effect->index), status.term);
    assert_int_equal(status.applied, status.committed);
    node->leads++;
}

static void act(struct stage *stage, size_t at, const struct mst_replica_effect *effect)
{
    struct stage_node *node = &stage->nodes[at];

    switch (effect->type) {
    case MST_REPLICA_SEND:
        post(stage, at, effect);
        break;
    case MST_REPLICA_RESTORE:
        restore(stage, node, effect);
        break;
    case MST_REPLICA_COMMITTED:
        apply(stage, node, effect);
        break;
    case MST_REPLICA_SERVERS:
        node->servers++;
        break;
    case MST_REPLICA_LEADS:
        leads(node, effect);
        break;
    case MST_REPLICA_FOLLOWS:
        node->follows++;
        break;
    case MST_REPLICA_YIELD_SNAPSHOT:
        node->yields++;
        break;
    case MST_REPLICA_DEPOSED:
    case MST_REPLICA_BROKEN:
    case MST_REPLICA_FAILED:
        node->ended = effect->type;
        (void)snprintf(node->reason, sizeof node->reason, "%s", effect->reason);
        break;
    }
}

static void effects(struct stage *stage, size_t at)
{
    struct mst_replica *replica = stage->nodes[at].replica;
    const struct mst_replica_effect *effect;

    while ((effect = mst_replica_next(replica)) != NULL) {
        act(stage, at, effect);
        mst_replica_done(replica, effect);
    }
}

/* One turn: the effects, the write, the effects of that. One that has ended is down. */
static void drain(struct stage *stage, size_t at)
{
    struct stage_node *node = &stage->nodes[at];

    effects(stage, at);
    mst_replica_write(node->replica, stage->now_ns);
    effects(stage, at);
    mst_replica_check(node->replica);
    if (node->ended != 0) {
        stage_down(stage, at);
    }
}

void stage_carry(struct stage *stage)
{
    for (size_t i = 0; i < stage->count; i++) {
        if (stage->nodes[i].replica) {
            drain(stage, i);
        }
    }
    while (stage->flying > 0) {
        deliver(stage);
    }
}

void stage_run(struct stage *stage, unsigned ms)
{
    for (unsigned left = ms; left > 0; left -= left < STEP_MS ? left : STEP_MS) {
        stage->now_ns += STEP_MS * NS_PER_MS;
        for (size_t i = 0; i < stage->count; i++) {
            struct stage_node *node = &stage->nodes[i];
            const struct mst_voters_wanted wanted = {
                .voters = stage->wanted, .present = stage->present, .count = stage->present_count};

            if (node->replica && mst_replica_deadline_ns(node->replica) <= stage->now_ns) {
                mst_replica_tick(node->replica, stage->now_ns);
                drain(stage, i);
            }
            if (node->replica && stage->wanted > 0) {
                mst_replica_lead_voters(node->replica, stage->now_ns, &wanted);
                drain(stage, i);
            }
        }
        stage_carry(stage);
    }
}

void stage_post(struct stage *stage, size_t from, const struct mst_replica_effect *effect)
{
    if (effect->type == MST_REPLICA_SEND) {
        post(stage, from, effect);
    }
}

/* ---- life ---- */

static void on_tell(void *ctx, enum mst_level level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)line;
}

muster_status stage_up(struct stage *stage, size_t at, const struct mst_replica_servers *found)
{
    struct stage_node *node = &stage->nodes[at];
    const struct mst_replica_log_config log = {.id = node->id,
                                               .boot = "this boot",
                                               .sync = true,
                                               .version = "test",
                                               .rules = 3,
                                               .chunk_bytes = 65536,
                                               .tell = on_tell};
    const struct mst_replica_config config = {.seed = node->id * 7919,
                                              .election_ms = STAGE_ELECTION_MS,
                                              .address = node->address,
                                              .found = found,
                                              .trailing = stage->trailing,
                                              .trailing_bytes = stage->trailing_bytes,
                                              .entry_bytes = stage->entry_bytes};
    muster_status status;

    assert_null(node->replica);
    node->ended = 0;
    node->state = (struct stage_state){.digest = MST_DIGEST_INIT};
    status = mst_replica_log_open(&node->log, &node->disk.disk, &log, &stage->mem.mem, &stage->err);
    if (status != MUSTER_OK) {
        node->log = NULL;
        return status;
    }
    status = mst_replica_new(&node->replica, node->log, &config, &stage->mem.mem, &stage->err);
    if (status != MUSTER_OK) {
        node->replica = NULL;
        mst_replica_log_free(node->log);
        node->log = NULL;
        return status;
    }
    mst_replica_start(node->replica, stage->now_ns);
    drain(stage, at);
    return MUSTER_OK;
}

void stage_down(struct stage *stage, size_t at)
{
    struct stage_node *node = &stage->nodes[at];

    (void)stage;
    mst_replica_free(node->replica);
    mst_replica_log_free(node->log);
    node->replica = NULL;
    node->log = NULL;
}

void stage_init(struct stage *stage, size_t count, size_t founders)
{
    struct mst_replica_servers found = {.count = founders};

    memset(stage, 0, sizeof *stage);
    failing_mem_init(&stage->mem, 0);
    stage->now_ns = NS_PER_S;
    stage->count = count;
    stage->pieces_max = UINT64_MAX;
    for (size_t i = 0; i < count; i++) {
        struct stage_node *node = &stage->nodes[i];

        node->id = 101 + i;
        (void)snprintf(node->address, sizeof node->address, "n%zu:4000", i);
        fake_disk_init(&node->disk);
        if (i < founders) {
            found.of[i].id = node->id;
            found.of[i].role = MST_REPLICA_VOTER;
            (void)snprintf(found.of[i].address, sizeof found.of[i].address, "%s", node->address);
        }
    }
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(stage_up(stage, i, i < founders ? &found : NULL), MUSTER_OK);
    }
}

void stage_fini(struct stage *stage)
{
    for (size_t i = 0; i < stage->count; i++) {
        stage_down(stage, i);
        fake_disk_fini(&stage->nodes[i].disk);
    }
    while (stage->flying > 0) {
        free(stage->flight[stage->first].bytes);
        stage->first = (stage->first + 1) % STAGE_FLIGHT;
        stage->flying--;
    }
    assert_int_equal(stage->mem.live, 0);
}

void stage_cut(struct stage *stage, size_t at, bool cut)
{
    for (size_t i = 0; i < stage->count; i++) {
        stage->cut[at][i] = stage->cut[i][at] = cut && i != at;
    }
}

void stage_status(struct stage *stage, size_t at, struct mst_replica_status *out)
{
    assert_non_null(stage->nodes[at].replica);
    mst_replica_status_of(stage->nodes[at].replica, out);
}

static size_t serving(struct stage *stage)
{
    struct mst_replica_status status;

    for (size_t i = 0; i < stage->count; i++) {
        if (stage->nodes[i].replica) {
            stage_status(stage, i, &status);
            if (status.serves) {
                return i;
            }
        }
    }
    return stage->count;
}

size_t stage_leader(struct stage *stage)
{
    for (unsigned ms = 0; ms < ELECTIONS * STAGE_ELECTION_MS; ms += STEP_MS) {
        if (serving(stage) < stage->count) {
            return serving(stage);
        }
        stage_run(stage, STEP_MS);
    }
    fail_msg("no replica leads after %d election timeouts", ELECTIONS);
    return 0;
}

bool stage_put(struct stage *stage, size_t leader, const char *payload)
{
    struct stage_node *node = &stage->nodes[leader];
    uint64_t index = 0;

    if (!node->replica || mst_replica_submit(node->replica, stage->now_ns, MST_REPLICA_RECORDS,
                                             mst_slice_text(payload), &index) != MUSTER_OK) {
        return false;
    }
    drain(stage, leader);
    stage_carry(stage);
    return node->own == index;
}

void stage_follow(struct stage *stage, size_t at, size_t other)
{
    for (unsigned ms = 0; ms < 2 * ELECTIONS * STAGE_ELECTION_MS; ms += STEP_MS) {
        if (stage->nodes[at].state.index == stage->nodes[other].state.index) {
            return;
        }
        stage_run(stage, STEP_MS);
    }
    fail_msg("replica %zu is at %u, %zu at %u", at, (unsigned)stage->nodes[at].state.index, other,
             (unsigned)stage->nodes[other].state.index);
}

void stage_snapshot(struct stage *stage, size_t at)
{
    struct stage_node *node = &stage->nodes[at];
    struct mst_replica_snapshot about;
    struct mst_replica_saving *saving;
    static unsigned char bytes[STAGE_STATE];

    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (unsigned char)i;
    }
    memcpy(bytes, &node->state, sizeof node->state);
    assert_int_equal(mst_replica_snapshot_begin(node->replica, &about), MUSTER_OK);
    assert_int_equal(mst_replica_log_save(node->log, &about, &saving), MUSTER_OK);
    assert_int_equal(mst_replica_saving_put(saving, mst_slice_of(bytes, sizeof bytes)), MUSTER_OK);
    assert_int_equal(mst_replica_saving_close(saving), MUSTER_OK);
    mst_replica_snapshot_end(node->replica, stage->now_ns, true);
    drain(stage, at);
}

void stage_receive_entry(struct stage *stage, size_t to, size_t from, uint64_t prev,
                         uint64_t commit)
{
    const struct mst_replica_entry entry = {
        .term = 1000, .type = MST_REPLICA_COMMAND, .bytes = mst_slice_text("\1x")};
    struct mst_replica_message message = {.type = MST_REPLICA_APPEND};
    struct mst_replica_reader reader;
    struct mst_buffer buffer;
    const char *why;

    message.append.term = 1000;
    message.append.prev_index = prev;
    message.append.prev_term = mst_replica_log_term_at(stage->nodes[to].log, prev);
    message.append.commit = commit;
    message.append.count = 1;
    message.append.from = &entry;
    mst_buffer_init(&buffer, &stage->mem.mem, 4096);
    mst_replica_reader_init(&reader, &stage->mem.mem);
    assert_int_equal(mst_replica_message_write(&buffer, &message), MUSTER_OK);
    assert_int_equal(mst_replica_reader_take(&reader, mst_buffer_content(&buffer)), MUSTER_OK);
    assert_int_equal(mst_replica_reader_next(&reader, &message, &why), MUSTER_OK);
    mst_replica_receive(stage->nodes[to].replica, stage->now_ns, stage->nodes[from].id,
                        stage->nodes[from].address, &message);
    mst_replica_reader_fini(&reader);
    mst_buffer_fini(&buffer);
}

int stage_begin_three(void **state)
{
    struct stage *stage = calloc(1, sizeof *stage);

    assert_non_null(stage);
    stage_init(stage, 3, 3);
    *state = stage;
    return 0;
}

int stage_begin_one(void **state)
{
    struct stage *stage = calloc(1, sizeof *stage);

    assert_non_null(stage);
    stage_init(stage, STAGE_NODES, 1);
    for (size_t i = 0; i < STAGE_NODES; i++) {
        stage->present[i] = (struct mst_voters_present){.id = stage->nodes[i].id,
                                                        .address = stage->nodes[i].address};
    }
    *state = stage;
    return 0;
}

int stage_end(void **state)
{
    stage_fini(*state);
    free(*state);
    return 0;
}
