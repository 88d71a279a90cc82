/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of several jobs do anything in any order: connections, requests of every command,
 * effects that are taken or left, while time jumps, memory ends, the disk is full and the
 * service begins again. Every invariant holds after each input; two services with the same
 * inputs are in the same state; one that is saved and loaded, or does not send its answers,
 * decides nothing otherwise.
 *
 * Every choice is the fuzzer's, from small alphabets of names and places, so that they meet.
 * There are four cores. Two get the very same, in memory that was not the same before. One is
 * drained only now and then, and one saved and loaded now and then: what lasts is the same in
 * them. Each gives all its memory back.
 *
 * behaviour: fuzzing / Fuzzing, races, leaks */
#include <stdlib.h>

#include "base/panic.h"
#include "bytes.h"
#include "counted_mem.h"
#include "fuzz.h"
#include "history.h"
#include "service/core/snapshot.h"

enum { LIVE, TWIN, UNDRAINED, RELOADED, PLAYERS };
/* Of all four of them: the limits of the story are small. */
enum { STEPS_MAX = 400, MEMORY_MAX = 2 << 20 };

struct player {
    struct counted_mem mem;
    struct mst_core *core;
};

struct sink {
    unsigned char *bytes;
    size_t size, room;
};

struct stage {
    struct fuzz_bytes input;
    struct history history;
    struct player players[PLAYERS];
    bool held;
};

static bool put(void *ctx, struct mst_slice piece)
{
    struct sink *sink = ctx;

    if (sink->room - sink->size < piece.size) {
        sink->room = 2 * (sink->size + piece.size);
        sink->bytes = realloc(sink->bytes, sink->room);
        MST_ASSERT(sink->bytes);
    }
    memcpy(sink->bytes + sink->size, piece.data, piece.size);
    sink->size += piece.size;
    return true;
}

/* The player goes on from what was saved of a core, perhaps its own. */
static void reload(struct player *player, const struct mst_core *from)
{
    struct sink sink = {0};
    const struct mst_snapshot_sink to = {.ctx = &sink, .put = put};
    const struct mst_core_config config = {0};
    uint64_t digest = mst_core_kept_digest(from);
    struct mst_core *loaded = NULL;

    MST_ASSERT(mst_core_save(from, &to));
    MST_ASSERT(mst_core_load(&loaded, UINT64_MAX, mst_slice_of(sink.bytes, sink.size), &config,
                             &player->mem.mem) == MUSTER_OK);
    free(sink.bytes);
    mst_core_free(player->core);
    player->core = loaded;
    mst_core_check(loaded);
    MST_ASSERT(mst_core_kept_digest(loaded) == digest);
}

static void drain(struct mst_core *core, struct history *history)
{
    const struct mst_effect *effect;

    while ((effect = mst_core_next(core))) {
        if (history) {
            history_hear(history, effect);
        }
        mst_core_done(core, effect);
    }
}

/* There was not even memory for a refusal: the shell closes the connection. */
static void cut(struct stage *stage)
{
    struct history *history = &stage->history;

    history_cut(history, history->conn);
    for (int i = 0; i < (stage->held ? UNDRAINED : PLAYERS); i++) {
        mst_core_close(stage->players[i].core, history->now_ns, history->conn);
        (void)mst_core_weigh(stage->players[i].core);
    }
}

/* No memory for one of the next allocations, in both of the two that are told the same. */
static void fail_soon(struct stage *stage)
{
    size_t in = 1 + (size_t)fuzz_below(&stage->input, 6);

    for (int i = LIVE; i <= TWIN; i++) {
        stage->players[i].mem.fail_at = stage->players[i].mem.count + in;
    }
}

static void one_input(struct stage *stage)
{
    struct history *history = &stage->history;
    struct player *players = stage->players;
    const struct mst_core_config config = history_config(stage->history.wild);
    struct history_record record, twin;

    history_next(history);
    record = history_play(&stage->history, players[LIVE].core, &config);
    twin = history_play(&stage->history, players[TWIN].core, &config);
    MST_ASSERT(record.opened == twin.opened && record.refused == twin.refused &&
               record.status == twin.status && record.weight == twin.weight);
    for (int i = 0; i < PLAYERS; i++) {
        players[i].mem.fail_at = 0;
    }
    for (int i = UNDRAINED; i < PLAYERS && !stage->held; i++) {
        history_replay(&stage->history, players[i].core, &config, &record);
    }
    if (history->kind == HISTORY_OPEN && !record.opened) {
        history_cut(history, history->conn);
    } else if (record.status == MUSTER_ENOMEM) {
        cut(stage);
    }
}

/* While the disk is full nothing is recorded: the others hear nothing, and when it is over go on
 * from a snapshot of the live one. */
static void hold_or_release(struct stage *stage)
{
    struct player *players = stage->players;

    stage->held = !stage->held;
    for (int i = LIVE; i <= TWIN; i++) {
        mst_core_hold(players[i].core, stage->held ? "no room on the disk" : NULL);
        mst_core_check(players[i].core);
    }
    for (int i = UNDRAINED; i < PLAYERS && !stage->held; i++) {
        reload(&players[i], players[LIVE].core);
    }
}

static void before_it(struct stage *stage)
{
    struct player *players = stage->players;

    switch (fuzz_below(&stage->input, 16)) {
    case 0:
        fail_soon(stage);
        break;
    case 1:
        drain(players[UNDRAINED].core, NULL);
        break;
    case 2:
        reload(&players[RELOADED], players[RELOADED].core);
        break;
    case 3:
        if (fuzz_below(&stage->input, 8) == 0) {
            hold_or_release(stage);
        }
        break;
    default:
        break;
    }
}

static void one_step(struct stage *stage)
{
    struct player *players = stage->players;
    uint64_t digest;

    before_it(stage);
    one_input(stage);
    if (fuzz_below(&stage->input, 4) != 0) {
        drain(players[LIVE].core, &stage->history);
        drain(players[TWIN].core, NULL);
    }
    drain(players[RELOADED].core, NULL);
    MST_ASSERT(mst_core_digest(players[LIVE].core) == mst_core_digest(players[TWIN].core));
    digest = mst_core_kept_digest(players[LIVE].core);
    for (int i = TWIN; i < PLAYERS; i++) {
        MST_ASSERT((stage->held && i > TWIN) || mst_core_kept_digest(players[i].core) == digest);
        MST_ASSERT(players[i].mem.peak <= MEMORY_MAX);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct stage stage;
    struct mst_core_config config;
    bool wild;

    stage.input = (struct fuzz_bytes){.at = data, .left = size};
    wild = fuzz_below(&stage.input, 2) == 1;
    stage.held = false;
    history_init_from(&stage.history, &stage.input, wild);
    config = history_config(wild);
    for (int i = 0; i < PLAYERS; i++) {
        counted_mem_init(&stage.players[i].mem, (unsigned char)(0xa5 + 0x11 * i));
        MST_ASSERT(mst_core_new(&stage.players[i].core, &config, &stage.players[i].mem.mem) ==
                   MUSTER_OK);
    }
    for (int step = 0; step < STEPS_MAX && stage.input.left > 0; step++) {
        one_step(&stage);
    }
    for (int i = 0; i < PLAYERS; i++) {
        mst_core_free(stage.players[i].core);
        MST_ASSERT(stage.players[i].mem.live == 0);
    }
    return 0;
}
