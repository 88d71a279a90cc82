/* SPDX-License-Identifier: Apache-2.0 */
/* Saving and loading, and that no decision depends on what is not kept.
 *
 * behaviour: service / What it keeps */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "failing_mem.h"
#include "history.h"
#include "message_generator.h"
#include "service/core/archive.h"
#include "service/core/host.h"
#include "service/core/keep.h"
#include "service/core/snapshot.h"
#include "service/core/state.h"

enum { SEEDS = 60, STEPS = 2000 };

/* ---- a snapshot in memory ---- */

struct bytes {
    unsigned char *data;
    size_t size, room;
    size_t puts_left; /* 0: no end */
};

static bool put(void *ctx, struct mst_slice piece)
{
    struct bytes *bytes = ctx;

    if (bytes->puts_left > 0 && --bytes->puts_left == 0) {
        return false;
    }
    if (bytes->size + piece.size > bytes->room) {
        bytes->room = 2 * (bytes->size + piece.size);
        bytes->data = realloc(bytes->data, bytes->room);
        assert_non_null(bytes->data);
    }
    memcpy(bytes->data + bytes->size, piece.data, piece.size);
    bytes->size += piece.size;
    return true;
}

static void save(const struct mst_core *core, struct bytes *bytes)
{
    struct mst_snapshot_sink sink = {.ctx = bytes, .put = put};

    bytes->size = 0;
    assert_true(mst_core_save(core, &sink));
}

static struct mst_slice slice_of(const struct bytes *bytes)
{
    return mst_slice_of(bytes->data, bytes->size);
}

static struct mst_core *load(const struct bytes *bytes, struct failing_mem *mem)
{
    struct mst_core_config config = {.trace = NULL};
    struct mst_core *core = NULL;

    assert_int_equal(mst_core_load(&core, UINT64_MAX, slice_of(bytes), &config, &mem->mem),
                     MUSTER_OK);
    return core;
}

/* ---- several cores that are told the same ---- */

struct player {
    struct failing_mem mem;
    struct mst_core *core;
};

static void player_init(struct player *player, bool wild)
{
    struct mst_core_config config = history_config(wild);

    failing_mem_init(&player->mem, 0);
    assert_int_equal(mst_core_new(&player->core, &config, &player->mem.mem), MUSTER_OK);
}

static void player_fini(struct player *player)
{
    mst_core_free(player->core);
    assert_int_equal(player->mem.live, 0);
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

/* ---- and that answer the same ---- */

static bool is_answer(const struct mst_effect *effect, const struct history *history)
{
    return effect->type == MST_EFFECT_REPLY && effect->conn.id == history->conn.id &&
           effect->reply->id == history->request.id &&
           effect->reply->command == history->request.command;
}

/* The loaded core says the same to the request at hand. */
static void answer_alike(const struct mst_reply *reply, struct mst_core *loaded,
                         const struct history *history)
{
    const struct mst_effect *effect;
    bool found = false;

    while ((effect = mst_core_next(loaded))) {
        if (is_answer(effect, history)) {
            found = true;
            assert_true(message_reply_equal(reply, effect->reply));
        }
        mst_core_done(loaded, effect);
    }
    assert_true(found);
}

/* On a connection without a session the job that is meant may be gone, which is not kept; a CANCEL
 * says whether there was something to cancel. */
static bool speaks(struct mst_core *core, const struct history *history)
{
    const struct mst_link *link = mst_link_find(core, history->conn);

    return history->kind == HISTORY_REQUEST && history->request.command != MST_CANCEL && link &&
           link->session;
}

static size_t compare_answers(struct mst_core *live, struct mst_core *loaded,
                              struct history *history, bool comparable)
{
    const struct mst_effect *effect;
    size_t compared = 0;

    while ((effect = mst_core_next(live))) {
        if (comparable && is_answer(effect, history)) {
            answer_alike(effect->reply, loaded, history);
            compared++;
        }
        history_hear(history, effect);
        mst_core_done(live, effect);
    }
    return compared;
}

/* One more input, because there was not even memory for a refusal. */
static void cut(struct history *history, struct player *players, size_t count)
{
    history_cut(history, history->conn);
    for (size_t i = 0; i < count; i++) {
        mst_core_close(players[i].core, history->now_ns, history->conn);
    }
    (void)mst_core_weigh(players[0].core);
}

/* Every input weighs what it changed. */
static void weigh_up(const struct history_record *record, uint64_t before, uint64_t after)
{
    if (record->weight == MST_WEIGHT_NONE) {
        assert_true(before == after);
    }
    if (record->refused) {
        assert_int_equal(record->weight, MST_WEIGHT_ALONG);
    }
}

static void reload(struct player *player, struct bytes *bytes)
{
    struct mst_core *loaded;
    uint64_t digest = mst_core_kept_digest(player->core);

    save(player->core, bytes);
    loaded = load(bytes, &player->mem);
    mst_core_free(player->core);
    player->core = loaded;
    mst_core_check(loaded);
    assert_true(mst_core_kept_digest(loaded) == digest);
}

/* What a story must have come by, or it shows nothing. */
struct tally {
    size_t refused, without_memory, joins, owned, tombstones, open_rounds, last_rounds, forgotten,
        gathered, seals, claims, fences, pasts, ended_links, faults, awaited, lost_jobs, answers;
};

static void count_rounds(struct tally *tally, const struct mst_job *job)
{
    MST_NAMED_EACH(const struct mst_round_name, name, &job->round_names)
    {
        tally->open_rounds += name->open != NULL;
        tally->last_rounds += name->last != NULL;
        tally->gathered += name->last && name->last->item_count > 1;
    }
    tally->seals += job->seal != NULL;
}

static void count(struct tally *tally, const struct mst_core *core)
{
    MST_NAMED_EACH(const struct mst_job, job, &core->jobs)
    {
        tally->joins += job->ready_count;
        tally->tombstones += job->keys.tombstone_count;
        tally->faults += job->faults.count;
        tally->awaited += job->awaited_count;
        tally->forgotten += job->round_forgotten > 0;
        count_rounds(tally, job);
    }
    for (const struct mst_session *session = mst_session_first(core); session;
         session = mst_session_next(session)) {
        tally->owned += !mst_list_empty(&session->owned);
        tally->claims += session->claiming;
    }
    for (const struct mst_link *link = mst_link_first(core); link; link = mst_link_next(link)) {
        tally->ended_links += link->end != MST_LINK_NEVER;
        tally->lost_jobs += link->job && link->job->dropped;
    }
    tally->fences += core->fences.count;
    tally->pasts += core->pasts.tree.count;
}

enum { LIVE, UNDRAINED, RELOADED, PLAYERS };

static void one_step(struct history *history, struct player *players, struct bytes *bytes,
                     struct tally *tally)
{
    struct mst_core *live = players[LIVE].core;
    uint64_t before = mst_core_kept_digest(live);
    struct history_record record;
    uint64_t digest;

    history_next(history);
    if (mst_prng_below(&history->prng, 12) == 0) {
        players[LIVE].mem.fail_at =
            players[LIVE].mem.count + 1 + (size_t)mst_prng_below(&history->prng, 5);
    }
    record = history_play(history, live, &live->config);
    players[LIVE].mem.fail_at = 0;
    weigh_up(&record, before, mst_core_kept_digest(live));
    for (size_t i = UNDRAINED; i < PLAYERS; i++) {
        history_replay(history, players[i].core, &players[i].core->config, &record);
    }
    tally->refused += record.refused;
    tally->without_memory += record.status == MUSTER_ENOMEM;
    if ((history->kind == HISTORY_OPEN && !record.opened)) {
        history_cut(history, history->conn);
    } else if (record.status == MUSTER_ENOMEM) {
        cut(history, players, PLAYERS);
    }
    tally->answers += compare_answers(live, players[RELOADED].core, history,
                                      speaks(live, history) && !record.refused);
    if (mst_prng_below(&history->prng, 200) == 0) {
        drain(players[UNDRAINED].core, NULL);
    }
    reload(&players[RELOADED], bytes);
    digest = mst_core_kept_digest(live);
    assert_true(mst_core_kept_digest(players[UNDRAINED].core) == digest);
    assert_true(mst_core_kept_digest(players[RELOADED].core) == digest);
    count(tally, live);
}

/* The state is saved, loaded in another process, and goes on, drained at other moments.
 * Everything is decided as if it had never stopped. What waits and was not answered yet is not
 * kept, so nothing may depend on it; that is tested with long random histories, saved and loaded
 * after each input. */
static void only_what_is_kept_decides(void **state)
{
    struct tally tally = {0};
    struct bytes bytes = {0};

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct player players[PLAYERS];
        struct history history;

        history_init(&history, seed);
        for (size_t i = 0; i < PLAYERS; i++) {
            player_init(&players[i], HISTORY_WILD(seed));
        }
        for (size_t step = 0; step < STEPS; step++) {
            one_step(&history, players, &bytes, &tally);
        }
        for (size_t i = 0; i < PLAYERS; i++) {
            player_fini(&players[i]);
        }
    }
    free(bytes.data);
    assert_true(tally.refused > 0 && tally.without_memory > 0 && tally.joins > 0 &&
                tally.owned > 0 && tally.tombstones > 0 && tally.open_rounds > 0 &&
                tally.last_rounds > 0 && tally.forgotten > 0 && tally.gathered > 0 &&
                tally.seals > 0 && tally.claims > 0 && tally.fences > 0 && tally.pasts > 0 &&
                tally.ended_links > 0 && tally.faults > 0 && tally.awaited > 0 &&
                tally.lost_jobs > 0 && tally.answers > 0);
}

/* ---- bytes that are not as they were ---- */

/* A state with much in it. */
static void grow_up(struct player *player, uint64_t seed, size_t steps)
{
    struct history history;

    player_init(player, HISTORY_WILD(seed));
    history_init(&history, seed);
    for (size_t step = 0; step < steps; step++) {
        struct history_record record;

        history_next(&history);
        record = history_play(&history, player->core, &player->core->config);
        if (history.kind == HISTORY_OPEN && !record.opened) {
            history_cut(&history, history.conn);
        }
        drain(player->core, &history);
    }
}

static void try_to_load(struct mst_slice bytes, muster_status wanted)
{
    struct mst_core_config config = {.trace = NULL};
    struct failing_mem mem;
    struct mst_core *core = NULL;
    muster_status status;

    failing_mem_init(&mem, 0);
    status = mst_core_load(&core, UINT64_MAX, bytes, &config, &mem.mem);
    assert_int_equal(status, wanted);
    if (status == MUSTER_OK) {
        mst_core_free(core);
    }
    assert_int_equal(mem.live, 0);
}

/* Saved bytes are cut or damaged. They are refused as a whole. */
static void damage_is_found(void **state)
{
    struct bytes bytes = {0};
    struct player player;

    (void)state;
    grow_up(&player, 3, 900);
    save(player.core, &bytes);
    for (size_t i = 0; i < bytes.size; i++) {
        bytes.data[i] ^= (unsigned char)(1u << (i % 8));
        try_to_load(slice_of(&bytes), MUSTER_EPROTO);
        bytes.data[i] ^= (unsigned char)(1u << (i % 8));
    }
    for (size_t size = 0; size < bytes.size; size++) {
        try_to_load(mst_slice_of(bytes.data, size), MUSTER_EPROTO);
    }
    try_to_load(slice_of(&bytes), MUSTER_OK);
    player_fini(&player);
    free(bytes.data);
}

/* A state is of a time to come. It is refused: what comes next would be before it. */
static void a_state_of_a_time_to_come_is_refused(void **state)
{
    struct mst_core_config config = {.trace = NULL};
    struct bytes bytes = {0};
    struct mst_core *core = NULL;
    struct player player;

    (void)state;
    grow_up(&player, 3, 300);
    save(player.core, &bytes);
    assert_true(player.core->now_ns > 0);
    assert_int_equal(
        mst_core_load(&core, player.core->now_ns - 1, slice_of(&bytes), &config, &player.mem.mem),
        MUSTER_EINVAL);
    assert_null(core);
    assert_int_equal(
        mst_core_load(&core, player.core->now_ns, slice_of(&bytes), &config, &player.mem.mem),
        MUSTER_OK);
    mst_core_free(core);
    player_fini(&player);
    free(bytes.data);
}

static void seal_up(struct bytes *bytes)
{
    uint64_t digest = mst_archive_digest(mst_slice_of(bytes->data, bytes->size - 8));

    for (size_t i = 0; i < 8; i++) {
        bytes->data[bytes->size - 8 + i] = (unsigned char)(digest >> (8 * i));
    }
}

/* The moments of members and open rounds, and who has the last results of rounds. */
static size_t newest_bytes_of(const struct mst_job *job)
{
    size_t size = job->members.count * sizeof(uint64_t) + sizeof(job->round_forgotten);

    MST_NAMED_EACH(const struct mst_round_name, name, &job->round_names)
    {
        size += name->open ? sizeof(uint64_t) : 0;
        size += name->last ? name->last->part_count : 0;
    }
    return size;
}

/* The bytes are loaded as those of these forms alone. */
static void try_forms(struct bytes *bytes, unsigned char least, unsigned char most)
{
    enum { FORM_AT = 8 };

    for (unsigned char form = 3; form <= 8; form++) {
        bytes->data[FORM_AT] = form;
        seal_up(bytes);
        try_to_load(slice_of(bytes), form >= least && form <= most ? MUSTER_OK : MUSTER_EPROTO);
    }
}

/* A snapshot is of the form before the moments and results, of the one before the
 * histories, or of the one before the wait for replacements, which has the same bytes where nothing
 * waits for one. It is loaded; one of an older or later form is refused. */
static void the_forms_before_are_loaded(void **state)
{
    enum { EMPTY_HISTORY = 16 };
    struct bytes bytes = {0};
    struct player player;
    size_t jobs = 0, newest = 0;

    (void)state;
    grow_up(&player, 3, 300);
    save(player.core, &bytes);
    MST_NAMED_EACH(struct mst_job, job, &player.core->jobs)
    {
        assert_int_equal(job->history.count, 0);
        jobs++;
        newest += newest_bytes_of(job);
    }
    assert_true(jobs > 0 && newest > 0);
    try_to_load(slice_of(&bytes), MUSTER_OK);
    bytes.size -= newest;
    try_forms(&bytes, 6, 6);
    bytes.size -= jobs * EMPTY_HISTORY;
    try_forms(&bytes, 4, 5);
    player_fini(&player);
    free(bytes.data);
}

/* An allocator that nobody may ask for much. */
static size_t largest;

static void *measured_alloc(void *ctx, size_t size)
{
    (void)ctx;
    largest = size > largest ? size : largest;
    return malloc(size > 0 ? size : 1);
}

static void measured_release(void *ctx, void *p)
{
    (void)ctx;
    free(p);
}

/* A saved state makes no sense, and its digest was made to agree. It does no harm. */
static void nonsense_is_no_danger(void **state)
{
    static const struct mst_mem mem = {.alloc = measured_alloc, .release = measured_release};
    static const unsigned char bad[] = {0, 1, 2, 7, 0x7f, 0x80, 0xff};
    struct mst_core_config config = {.trace = NULL};
    struct bytes bytes = {0};
    size_t loaded = 0;

    (void)state;
    for (uint64_t seed = 5; seed < 9; seed++) {
        struct player player;

        grow_up(&player, seed, 700);
        save(player.core, &bytes);
        for (size_t i = 0; i + 8 < bytes.size; i++) {
            unsigned char was = bytes.data[i];
            struct mst_core *core = NULL;
            muster_status status;

            bytes.data[i] = bad[(i + seed) % sizeof(bad)];
            seal_up(&bytes);
            status = mst_core_load(&core, UINT64_MAX, slice_of(&bytes), &config, &mem);
            assert_true(status == MUSTER_OK || status == MUSTER_EPROTO);
            loaded += status == MUSTER_OK;
            mst_core_free(core);
            bytes.data[i] = was;
        }
        player_fini(&player);
    }
    assert_true(loaded > 0);
    assert_true(largest < (size_t)1024 * 1024);
    free(bytes.data);
}

/* Memory ends while a state is loaded. It fails as a whole, and nothing else happens; where the
 * memory was only to find things faster it is done without. */
static void loading_fails_whole(void **state)
{
    struct mst_core_config config = {.trace = NULL};
    struct bytes bytes = {0};
    struct player player;
    size_t fail_at = 0;
    size_t faster = 0;
    bool failed;

    (void)state;
    grow_up(&player, 4, 1500);
    save(player.core, &bytes);
    do {
        struct failing_mem mem;
        struct mst_core *core = NULL;
        muster_status status;

        failing_mem_init(&mem, ++fail_at);
        status = mst_core_load(&core, UINT64_MAX, slice_of(&bytes), &config, &mem.mem);
        failed = mem.failed;
        if (status == MUSTER_OK) {
            mst_core_check(core);
            assert_true(mst_core_kept_digest(core) == mst_core_kept_digest(player.core));
            faster += failed;
        } else {
            assert_int_equal(status, MUSTER_ENOMEM);
            assert_true(failed);
        }
        mst_core_free(core);
        assert_int_equal(mem.live, 0);
    } while (failed);
    assert_true(fail_at > 50 && faster < 10);
    player_fini(&player);
    free(bytes.data);
}

/* A disk fails while a state is saved. It fails as a whole. So does a digest that is ended. */
static void a_sink_may_give_up(void **state)
{
    struct bytes bytes = {.puts_left = 1};
    struct mst_snapshot_sink sink = {.ctx = &bytes, .put = put};
    struct player player;
    uint64_t digest, same;

    (void)state;
    grow_up(&player, 6, 900);
    digest = mst_core_kept_digest(player.core);
    assert_false(mst_core_save(player.core, &sink));
    bytes.puts_left = 1;
    assert_false(mst_core_kept_digest_to(player.core, &sink, &same));
    bytes.puts_left = 1000;
    assert_true(mst_core_kept_digest_to(player.core, &sink, &same));
    assert_true(same == digest);
    bytes.puts_left = 2; /* all but the digest */
    assert_false(mst_core_save(player.core, &sink));
    mst_core_check(player.core);
    assert_true(mst_core_kept_digest(player.core) == digest);
    player_fini(&player);
    free(bytes.data);
}

/* Gives a job more bytes, in front of its records, than are put at once. False: it has no records.
 */
static bool make_long(struct player *player, struct mst_job *job)
{
    static const unsigned char bytes[20000];

    if (job->records.count + job->last_records.count == 0) {
        return false;
    }
    mst_blob_drop(&player->mem.mem, job->sealed_value);
    job->sealed_value = mst_blob_new(&player->mem.mem, mst_slice_of(bytes, sizeof(bytes)));
    return true;
}

/* A disk fails in the middle of a job while a state is saved. The state is as it was. */
static void a_save_that_fails_changes_nothing(void **state)
{
    size_t tried = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct bytes bytes = {.puts_left = 1};
        struct mst_snapshot_sink sink = {.ctx = &bytes, .put = put};
        struct player player;
        uint64_t digest;

        grow_up(&player, seed, 900);
        MST_NAMED_EACH(struct mst_job, job, &player.core->jobs)
        {
            tried += make_long(&player, job);
        }
        digest = mst_core_kept_digest(player.core);
        assert_false(mst_core_save(player.core, &sink));
        mst_core_check(player.core);
        assert_true(mst_core_kept_digest(player.core) == digest);
        player_fini(&player);
        free(bytes.data);
    }
    assert_true(tried > 0);
}

static void nothing_at_all(void **state)
{
    struct bytes bytes = {0};
    struct player player;

    (void)state;
    player_init(&player, false);
    reload(&player, &bytes);
    player_fini(&player);
    free(bytes.data);
}

/* ---- every field of the state ---- */

enum kept_struct {
    KEPT_mst_core,
    KEPT_mst_job,
    KEPT_mst_host,
    KEPT_mst_member,
    KEPT_mst_seat,
    KEPT_mst_record,
    KEPT_mst_records,
    KEPT_mst_session,
    KEPT_mst_outcome,
    KEPT_mst_keyspace,
    KEPT_mst_key,
    KEPT_mst_round_name,
    KEPT_mst_round,
    KEPT_mst_round_part,
    KEPT_mst_past,
    KEPT_mst_link,
    KEPT_mst_alarm,
    KEPT_mst_who,
    KEPT_mst_detail
};

enum kept_how { NUMBER, FLAG, BLOB, OTHERWISE, FOLLOWS, UNKEPT };

struct field {
    const char *name;
    enum kept_struct of;
    size_t offset;
    enum kept_how how;
    bool shown; /* the digest has changed with it once */
};

static struct field fields[] = {
#define X(type, field, how)                                                                        \
    {#type "." #field, KEPT_##type, offsetof(struct type, field), how, false},
#include "kept_fields.def"
#undef X
};
enum { FIELD_COUNT = sizeof(fields) / sizeof(fields[0]) };

struct prodder {
    struct mst_core *core;
    struct mst_blob *blob;
    uint64_t digest;
};

static bool shows(struct prodder *prodder)
{
    return mst_core_kept_digest(prodder->core) != prodder->digest;
}

/* Changes one field for a moment. */
static bool prod(struct prodder *prodder, enum kept_how how, unsigned char *at)
{
    struct mst_blob *blob;
    bool shown;

    switch (how) {
    case NUMBER: /* its first byte will do */
        at[0]++;
        shown = shows(prodder);
        at[0]--;
        return shown;
    case FLAG:
        at[0] ^= 1u;
        shown = shows(prodder);
        at[0] ^= 1u;
        return shown;
    case BLOB:
        memcpy(&blob, at, sizeof(struct mst_blob *));
        memcpy(at, &prodder->blob, sizeof(struct mst_blob *));
        shown = shows(prodder);
        memcpy(at, &blob, sizeof(struct mst_blob *));
        return shown;
    case OTHERWISE:
    case FOLLOWS:
    case UNKEPT:
        break;
    }
    return true;
}

static void prod_all(struct prodder *prodder, enum kept_struct of, void *instance)
{
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        struct field *field = &fields[i];

        if (field->of == of && !field->shown) {
            field->shown = prod(prodder, field->how, (unsigned char *)instance + field->offset);
        }
    }
}

static void prod_round(struct prodder *prodder, struct mst_round *round)
{
    if (!round) {
        return;
    }
    prod_all(prodder, KEPT_mst_round, round);
    for (uint32_t i = 0; i < round->part_count; i++) {
        prod_all(prodder, KEPT_mst_round_part, &round->parts[i]);
    }
    prod_all(prodder, KEPT_mst_detail, &round->detail);
    for (uint32_t i = 0; i < round->detail.who_count; i++) {
        prod_all(prodder, KEPT_mst_who, &round->detail.who[i]);
    }
}

static void prod_keys(struct prodder *prodder, struct mst_keyspace *space)
{
    prod_all(prodder, KEPT_mst_keyspace, space);
    for (struct mst_key *key = mst_key_changed(space, 0); key; key = mst_key_changed_next(key)) {
        prod_all(prodder, KEPT_mst_key, key);
    }
}

static void prod_sessions(struct prodder *prodder, struct mst_job *job)
{
    MST_LIST_EACH(node, following, &job->sessions)
    {
        struct mst_session *session = MST_CONTAINER(node, struct mst_session, in_job);

        prod_all(prodder, KEPT_mst_session, session);
        prod_all(prodder, KEPT_mst_alarm, &session->alarm);
        for (uint32_t i = 0; i < session->outcome_room; i++) {
            prod_all(prodder, KEPT_mst_outcome, &session->outcomes[i]);
        }
    }
}

static void prod_records(struct prodder *prodder, struct mst_records *records)
{
    prod_all(prodder, KEPT_mst_records, records);
    for (uint32_t i = 0; i < records->count; i++) {
        prod_all(prodder, KEPT_mst_record, &records->first[i]);
    }
}

static void prod_job(struct prodder *prodder, struct mst_job *job)
{
    prod_all(prodder, KEPT_mst_job, job);
    prod_all(prodder, KEPT_mst_past, job->past);
    prod_records(prodder, &job->records);
    prod_records(prodder, &job->last_records);
    prod_sessions(prodder, job);
    prod_keys(prodder, &job->keys);
    prod_keys(prodder, &job->generation_keys);
    for (struct mst_member *member = mst_member_first(job); member;
         member = mst_member_next(member)) {
        prod_all(prodder, KEPT_mst_member, member);
        prod_all(prodder, KEPT_mst_seat, &member->seat);
    }
    MST_NAMED_EACH(struct mst_host, host, &job->hosts)
    {
        prod_all(prodder, KEPT_mst_host, host);
    }
    MST_NAMED_EACH(struct mst_round_name, name, &job->round_names)
    {
        prod_all(prodder, KEPT_mst_round_name, name);
        prod_round(prodder, name->open);
        prod_round(prodder, name->last);
    }
}

static void prod_core(struct mst_core *core, const struct mst_mem *mem)
{
    struct prodder prodder = {.core = core,
                              .blob = mst_blob_new(mem, mst_slice_text("something else")),
                              .digest = mst_core_kept_digest(core)};

    prod_all(&prodder, KEPT_mst_core, core);
    MST_NAMED_EACH(struct mst_job, job, &core->jobs)
    {
        prod_job(&prodder, job);
    }
    for (struct mst_link *link = mst_link_first(core); link; link = mst_link_next(link)) {
        prod_all(&prodder, KEPT_mst_link, link);
    }
    assert_false(shows(&prodder));
    mst_blob_drop(mem, prodder.blob);
}

/* Every field of the state is kept by a snapshot.
 *
 * A new field says in kept_fields.def how it is kept, and src/service/core/keep_*.c keeps it;
 * then FORMAT in src/service/core/snapshot.c goes up. */
static void nobody_was_forgotten(void **state)
{
    size_t forgotten = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct player player;

        grow_up(&player, seed, 900);
        prod_core(player.core, &player.mem.mem);
        player_fini(&player);
    }
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        if (!fields[i].shown) {
            print_message("%s is not kept\n", fields[i].name);
            forgotten++;
        }
    }
    assert_int_equal(forgotten, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_at_all),
        cmocka_unit_test(only_what_is_kept_decides),
        cmocka_unit_test(damage_is_found),
        cmocka_unit_test(a_state_of_a_time_to_come_is_refused),
        cmocka_unit_test(the_forms_before_are_loaded),
        cmocka_unit_test(nonsense_is_no_danger),
        cmocka_unit_test(loading_fails_whole),
        cmocka_unit_test(a_sink_may_give_up),
        cmocka_unit_test(a_save_that_fails_changes_nothing),
        cmocka_unit_test(nobody_was_forgotten),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
