/* SPDX-License-Identifier: Apache-2.0 */
/* The service dies and begins again from what was kept; and it stands still while nothing can be
 * kept.
 *
 * behaviour: rounds / Meeting */
#include "core_fixture.h"

#include <stdlib.h>

#include "service/core/snapshot.h"

static const uint64_t ms_ns = 1000000;

/* ---- the service dies ---- */

struct bytes {
    unsigned char *data;
    size_t size;
};

static bool put(void *ctx, struct mst_slice piece)
{
    struct bytes *bytes = ctx;

    bytes->data = realloc(bytes->data, bytes->size + piece.size);
    assert_non_null(bytes->data);
    memcpy(bytes->data + bytes->size, piece.data, piece.size);
    bytes->size += piece.size;
    return true;
}

/* Another process goes on with what was kept. Without memory for that, this one does. */
static void reload(struct fixture *f)
{
    struct bytes bytes = {0};
    struct mst_snapshot_sink sink = {.ctx = &bytes, .put = put};
    struct mst_core *core = NULL;
    uint64_t digest = mst_core_kept_digest(f->core);
    muster_status status;

    assert_true(mst_core_save(f->core, &sink));
    status = mst_core_load(&core, f->now_ns, mst_slice_of(bytes.data, bytes.size), &f->config,
                           &f->mem.mem);
    free(bytes.data);
    if (status != MUSTER_OK) {
        assert_int_equal(status, MUSTER_ENOMEM);
        assert_true(f->mem.failed);
        return;
    }
    mst_core_free(f->core);
    f->core = core;
    mst_core_check(core);
    assert_true(mst_core_kept_digest(core) == digest);
}

static void restart(struct fixture *f)
{
    reload(f);
    if (mst_core_resume(f->core, f->now_ns, &f->config) != MUSTER_OK) {
        assert_true(f->mem.failed);
        return;
    }
    mst_core_check(f->core);
    EXPECT_INT(f, mst_core_weigh(f->core), MST_WEIGHT_PROMISE);
    for (struct client *client = f->clients; client; client = client->next) {
        client->conn.id = 0;
    }
}

/* A request once more, as the client repeats what was not answered. */
static struct mst_request put_of(const struct mst_write *op, uint64_t id)
{
    return (struct mst_request){
        .id = id, .oldest = id, .command = MST_WRITE, .write = {.ops = op, .count = 1}};
}

/* A write was answered, the service killed, and the client asks again. It gets the recorded
 * outcome; nothing is written twice. [sessions / Silence and coming back] */
static void an_answered_write_is_not_applied_again(struct fixture *f)
{
    struct client client = fixture_client(f, MST_ROLE_OBSERVER, 0);
    struct mst_write op = {.kind = MST_ADD, .key = mst_slice_text("sum"), .delta = 5};
    const struct mst_reply *reply;
    uint64_t revision;
    uint64_t id;

    fixture_connect(f, &client);
    client.oldest = 1;
    reply = fixture_add(f, &client, "sum", 5);
    EXPECT_INT(f, reply->number, 5);
    revision = reply->revision;
    id = client.id;
    restart(f);
    EXPECT_INT(f, fixture_connect(f, &client)->status, MUSTER_OK);
    reply = fixture_call(f, &client, put_of(&op, id));
    EXPECT_INT(f, reply->status, MUSTER_OK);
    EXPECT_INT(f, reply->number, 5);
    EXPECT_INT(f, reply->revision, revision);
    EXPECT_TEXT(f, fixture_get(f, &client, "sum")->value, "5");
}

/* The service is killed and begins again. The age of a key goes on where it was, without the
 * time in which the service was away; it is never shown smaller than before: a tick that decides
 * nothing is not recorded, so an age must not have counted it. [keys / How old a key is] */
static void an_age_is_not_taken_back(struct fixture *f)
{
    struct client client = fixture_client(f, MST_ROLE_OBSERVER, 0);
    struct mst_request list = {.command = MST_LIST, .list = {.prefix = mst_slice_text("k")}};
    const struct mst_reply *reply;

    fixture_connect(f, &client);
    fixture_write(f, &client, MST_PUT, "k", "1");
    fixture_pass(f, 300);
    restart(f);
    fixture_connect(f, &client);
    EXPECT_INT(f, fixture_get(f, &client, "k")->number, 300);
    list.id = list.oldest = ++client.id;
    (void)mst_core_request(f->core, f->now_ns, client.conn, &list);
    EXPECT(f, mst_core_weigh(f->core) != MST_WEIGHT_NONE);
    fixture_pass(f, 5); /* it is told after that tick */
    EXPECT_INT(f, mst_core_weigh(f->core), MST_WEIGHT_NONE);
    reply = fixture_reply(f, &client, list.id);
    EXPECT_INT(f, reply->item_count, 1);
    EXPECT(f, reply->item_count != 1 || reply->items[0].number == 300);
    EXPECT_INT(f, fixture_get(f, &client, "k")->number, 305);
}

/* The service is killed and begins again from what it kept. No session is lost: each has a whole
 * lease to return, and gets its identity back. [sessions / Silence and coming back] */
static void everybody_has_a_whole_lease(struct fixture *f)
{
    struct client ranks[2];

    fixture_seal(f, ranks, 2);
    fixture_pass(f, FIXTURE_LEASE_MS - 1);
    restart(f);
    fixture_pass(f, FIXTURE_LEASE_MS - 1);
    EXPECT_INT(f, fixture_connect(f, &ranks[0])->view.incarnation, 1);
    EXPECT(f, !fixture_told_story(f, "member-lost #1 incarnation=1 cause=lease"));
    fixture_pass(f, 2);
    EXPECT(f, fixture_told_story(f, "member-lost #1 incarnation=1 cause=lease"));
    EXPECT(f, !fixture_told_story(f, "member-lost #0 incarnation=1 cause=lease"));
}

/* The service is killed while a round is open. It goes on with the contributions it has; its
 * deadline does not run meanwhile. */
static void a_round_goes_on(struct fixture *f)
{
    struct client ranks[2];
    struct mst_request request = fixture_round(1, "sum", 0);
    unsigned char data[8] = {3};
    const struct mst_reply *reply;
    uint64_t id;

    fixture_seal(f, ranks, 2);
    request.round.reduce = MST_REDUCE_SUM;
    request.round.data = mst_slice_of(data, sizeof(data));
    fixture_send(f, &ranks[0], request);
    restart(f);
    fixture_connect(f, &ranks[0]);
    fixture_connect(f, &ranks[1]);
    fixture_send(f, &ranks[1], request);
    id = fixture_send(f, &ranks[0], request); /* repeated: counts once */
    reply = fixture_reply(f, &ranks[0], id);
    EXPECT_INT(f, reply->status, MUSTER_OK);
    EXPECT(f, reply->value.size == 8 && ((const unsigned char *)reply->value.data)[0] == 6);
    restart(f);
    fixture_connect(f, &ranks[1]);
    reply = fixture_call(f, &ranks[1], request); /* it is the last one, its result is kept */
    EXPECT_INT(f, reply->status, MUSTER_OK);
    EXPECT(f, reply->value.size == 8 && ((const unsigned char *)reply->value.data)[0] == 6);
}

/* A gather's result is there when the service is killed. It is kept. */
static void a_gathered_result_is_kept(struct fixture *f)
{
    struct client ranks[2];
    struct mst_request request = fixture_round(1, "all", 0);
    const struct mst_reply *reply;

    fixture_seal(f, ranks, 2);
    request.round.reduce = MST_REDUCE_GATHER;
    request.round.data = mst_slice_text("zero");
    fixture_send(f, &ranks[0], request);
    request.round.data = mst_slice_text("one");
    fixture_send(f, &ranks[1], request);
    restart(f);
    fixture_connect(f, &ranks[0]);
    reply = fixture_call(f, &ranks[0], request);
    EXPECT_INT(f, reply->status, MUSTER_OK);
    EXPECT_INT(f, reply->item_count, 2);
    if (reply->item_count == 2) {
        EXPECT_TEXT(f, reply->items[0].value, "zero");
        EXPECT_TEXT(f, reply->items[1].value, "one");
        EXPECT_INT(f, reply->items[1].who.rank, 1);
        EXPECT_INT(f, reply->items[1].kind, MST_ITEM_PART);
    }
}

/* Contributions to a sum of doubles, or the root's to a broadcast, are there when the service is
 * killed. The round goes on with them, and its result is kept as well. */
static void doubles_and_broadcasts_are_kept(struct fixture *f)
{
    const double mine[3] = {0.1, 0.2, 0.3}, in_order = 0.1 + 0.2 + 0.3;
    struct client ranks[3];
    struct mst_request sum = fixture_round(1, "sum", 0);
    struct mst_request sent = fixture_round(1, "sent", 0);
    const struct mst_reply *reply;

    fixture_seal(f, ranks, 3);
    sum.round.reduce = MST_REDUCE_SUM_DOUBLE;
    sent.round.reduce = MST_REDUCE_BROADCAST;
    sent.round.root = 1;
    for (uint32_t i = 3; i-- > 0;) {
        sum.round.data = mst_slice_of(&mine[i], sizeof(mine[i]));
        sent.round.data = mst_slice_text(i == 1 ? "of the root" : "");
        fixture_send(f, &ranks[i], sum);
        fixture_send(f, &ranks[i], sent);
        restart(f);
        for (uint32_t k = 0; k < 3; k++) {
            fixture_connect(f, &ranks[k]);
        }
    }
    reply = fixture_call(f, &ranks[2], sent);
    EXPECT_INT(f, reply->status, MUSTER_OK);
    EXPECT_TEXT(f, reply->value, "of the root");
    reply = fixture_call(f, &ranks[2], sum);
    EXPECT_INT(f, reply->status, MUSTER_OK);
    EXPECT(f, mst_slice_equal(reply->value, mst_slice_of(&in_order, sizeof(in_order))));
}

/* A round's result at a deadline is there when the service is killed. It is kept.
 * [Losses and deadlines] */
static void a_result_at_a_deadline_is_kept(struct fixture *f)
{
    struct client ranks[3];
    struct mst_request gather = fixture_round(1, "all", 0);
    struct mst_request most = fixture_round(1, "most", 0);
    unsigned char data[8] = {3};
    const struct mst_reply *reply;

    fixture_seal(f, ranks, 3);
    gather.round.reduce = MST_REDUCE_GATHER;
    gather.round.data = mst_slice_text("one");
    most.round.reduce = MST_REDUCE_MAX;
    most.round.data = mst_slice_of(data, sizeof(data));
    gather.round.on_loss = most.round.on_loss = MST_PROCEED;
    gather.round.deadline_ms = most.round.deadline_ms = 100;
    fixture_send(f, &ranks[1], gather);
    fixture_send(f, &ranks[1], most);
    fixture_pass(f, 101);
    restart(f);
    fixture_connect(f, &ranks[0]);
    reply = fixture_call(f, &ranks[0], most);
    EXPECT_INT(f, reply->status, MUSTER_ETIMEDOUT);
    EXPECT(f, mst_slice_equal(reply->value, most.round.data));
    EXPECT_INT(f, reply->detail.who_count, 2);
    reply = fixture_call(f, &ranks[0], gather);
    EXPECT_INT(f, reply->status, MUSTER_ETIMEDOUT);
    EXPECT_INT(f, reply->item_count, 1);
    if (reply->item_count == 1) {
        EXPECT_TEXT(f, reply->items[0].value, "one");
        EXPECT_INT(f, reply->items[0].who.index, 1);
        EXPECT_INT(f, reply->items[0].who.rank, 1);
    }
}

/* A failed round's result is there when the service is killed. It names the same ranks
 * afterwards. */
static void a_failed_result_names_the_same(struct fixture *f)
{
    struct client ranks[2];
    struct mst_request request = fixture_round(1, "b", 0);
    const struct mst_reply *reply;

    fixture_seal(f, ranks, 2);
    request.round.deadline_ms = 100;
    fixture_send(f, &ranks[0], request);
    fixture_pass(f, 101);
    restart(f);
    fixture_connect(f, &ranks[0]);
    reply = fixture_call(f, &ranks[0], request);
    EXPECT_INT(f, reply->status, MUSTER_ETIMEDOUT);
    EXPECT_INT(f, reply->detail.who_count, 1);
    EXPECT_INT(f, reply->detail.who[0].index, 1);
    EXPECT_TEXT(f, reply->detail.who[0].host, "b3");
}

/* A round has a deadline when the service is killed. It keeps what was left: the core's time
 * stands still while there is none. */
static void a_deadline_keeps_what_was_left(struct fixture *f)
{
    struct client ranks[2];
    struct mst_request request = fixture_round(1, "b", 0);

    fixture_seal(f, ranks, 2);
    request.round.deadline_ms = 5000;
    fixture_send(f, &ranks[0], request);
    fixture_pass(f, 2000);
    restart(f);
    fixture_pass(f, 2999);
    EXPECT(f, !fixture_told_story(f, "round-closed name=b number=0 status=timed-out arrived=1 "
                                     "missing=1"));
    fixture_pass(f, 2);
    EXPECT(f, fixture_told_story(f, "round-closed name=b number=0 status=timed-out arrived=1 "
                                    "missing=1"));
}

/* A round was opened while the service was late already. Its deadline is not moved: nothing of
 * it ran before. */
static void a_late_deadline_is_not_moved(struct fixture *f)
{
    struct client ranks[2];
    struct mst_request request = fixture_round(1, "b", 0);

    fixture_seal(f, ranks, 2);
    request.round.deadline_ms = 1000;
    f->now_ns += 8000 * ms_ns;
    fixture_send(f, &ranks[0], request);
    reload(f);
    mst_core_tick(f->core, f->now_ns);
    fixture_pass(f, 1001);
    EXPECT(f, fixture_told_story(f, "round-closed name=b number=0 status=timed-out arrived=1 "
                                    "missing=1"));
}

/* A sum leaves 64 bits on the way, across a snapshot, and comes back. It is right. */
static void a_sum_leaves_int64_and_comes_back(struct fixture *f)
{
    static const int64_t numbers[3] = {INT64_MAX, 1, -2};
    struct client ranks[3];
    struct mst_request request = fixture_round(1, "sum", 0);
    const struct mst_reply *reply;
    uint64_t id = 0;

    fixture_seal(f, ranks, 3);
    request.round.reduce = MST_REDUCE_SUM;
    for (int i = 0; i < 3; i++) {
        request.round.data = mst_slice_of(&numbers[i], sizeof(numbers[i]));
        id = fixture_send(f, &ranks[i], request);
        reload(f);
    }
    reply = fixture_reply(f, &ranks[2], id);
    EXPECT_INT(f, reply->status, MUSTER_OK);
}

static void who_was_ready_says_so_again(struct fixture *f)
{
    struct client ranks[2] = {fixture_rank(f, 0, 2), fixture_rank(f, 1, 2)};
    uint64_t id;

    fixture_connect(f, &ranks[0]);
    fixture_join(f, &ranks[0]);
    restart(f);
    fixture_connect(f, &ranks[1]);
    id = fixture_join(f, &ranks[1]);
    EXPECT_INT(f, fixture_reply(f, &ranks[1], id)->status, MUSTER_MORE);
    fixture_connect(f, &ranks[0]);
    fixture_join(f, &ranks[0]);
    EXPECT_INT(f, fixture_reply(f, &ranks[1], id)->status, MUSTER_OK);
}

/* A join waits in a journal that goes on after a snapshot. It is kept. */
static void a_join_that_waits_is_kept(struct fixture *f)
{
    struct client ranks[2] = {fixture_rank(f, 0, 2), fixture_rank(f, 1, 2)};
    uint64_t first;

    fixture_connect(f, &ranks[0]);
    first = fixture_join(f, &ranks[0]);
    reload(f);
    fixture_connect(f, &ranks[1]);
    fixture_join(f, &ranks[1]);
    EXPECT_INT(f, fixture_reply(f, &ranks[0], first)->status, MUSTER_OK);
    EXPECT_INT(f, fixture_reply(f, &ranks[0], first)->view.generation, 1);
}

static void a_seal_goes_on(struct fixture *f)
{
    struct client ranks[3];
    struct mst_request request = fixture_round(1, "seal", 0);
    uint64_t id;

    fixture_seal(f, ranks, 3);
    request.round.seal = true;
    request.round.on_loss = MST_PROCEED;
    request.round.deadline_ms = 60000;
    fixture_send(f, &ranks[0], request);
    restart(f);
    fixture_connect(f, &ranks[1]);
    fixture_connect(f, &ranks[0]);
    id = fixture_send(f, &ranks[0], request);
    fixture_send(f, &ranks[1], request);
    fixture_pass(f, FIXTURE_LEASE_MS / 2);
    fixture_renew(f, &ranks[0]);
    fixture_renew(f, &ranks[1]);
    EXPECT_INT(f, fixture_reply(f, &ranks[0], id)->status, MUSTER_MORE);
    fixture_pass(f, FIXTURE_LEASE_MS / 2 + 1); /* nobody heard of #2 again */
    EXPECT_INT(f, fixture_reply(f, &ranks[0], id)->status, MUSTER_OK);
    EXPECT_INT(f, fixture_reply(f, &ranks[0], id)->view.generation, 2);
    EXPECT_INT(f, fixture_reply(f, &ranks[0], id)->view.size, 2);
}

/* A session was lost before the service was killed. It stays so.
 * [sessions / Silence and coming back] */
static void who_was_given_up_stays_so(struct fixture *f)
{
    struct client ranks[2];

    fixture_seal(f, ranks, 2);
    fixture_pass(f, FIXTURE_LEASE_MS / 2);
    fixture_renew(f, &ranks[0]);
    fixture_pass(f, FIXTURE_LEASE_MS / 2 + 1);
    restart(f);
    EXPECT_INT(f, fixture_connect(f, &ranks[1])->status, MUSTER_EFENCED);
    ranks[1] = fixture_rank(f, 1, 2);
    EXPECT_INT(f, fixture_connect(f, &ranks[1])->view.incarnation, 2);
}

/* A job is over, and a connection keeps it in memory. It decides nothing. */
static void a_job_that_is_over_decides_nothing(struct fixture *f)
{
    struct client client = fixture_client(f, MST_ROLE_WORKER, 0);

    fixture_connect(f, &client);
    fixture_send(f, &client, (struct mst_request){.command = MST_LEAVE});
    client.open.incarnation = 0;
    EXPECT_INT(f, fixture_connect(f, &client)->status, MUSTER_OK); /* over another connection */
    EXPECT_INT(f, client.open.incarnation, 2);
}

static void owned_keys_still_vanish_with_their_owner(struct fixture *f)
{
    struct client owner = fixture_client(f, MST_ROLE_WORKER, 0);
    struct client other = fixture_client(f, MST_ROLE_OBSERVER, 0);
    struct mst_write op = {.kind = MST_PUT,
                           .owned = true,
                           .key = mst_slice_text("mine"),
                           .value = mst_slice_text("x")};
    uint64_t revision;

    fixture_connect(f, &owner);
    revision = fixture_call(f, &owner, put_of(&op, 1))->revision;
    restart(f);
    fixture_connect(f, &other);
    EXPECT_TEXT(f, fixture_get(f, &other, "mine")->value, "x");
    fixture_pass(f, FIXTURE_LEASE_MS - 1);
    fixture_renew(f, &other);
    fixture_pass(f, 2);
    EXPECT_INT(f, fixture_get(f, &other, "mine")->status, MUSTER_ENOTFOUND);
    restart(f);
    fixture_connect(f, &other);
    /* The deletion can still be told to a watch. */
    EXPECT_INT(f,
               fixture_reply(f, &other, fixture_watch(f, &other, MST_WATCH_KEYS, "", revision))
                   ->item_count,
               1);
}

static void small_then_large(struct mst_core_config *config)
{
    config->limits.batch_max = 1;
    config->limits.tombstones_max = 20;
}

static void one_tombstone(struct mst_core_config *config)
{
    config->limits.tombstones_max = 1;
}

/* The epoch whose cursors continue a listing instead of beginning it again. */
static uint64_t listing_epoch(struct fixture *f, struct client *client)
{
    uint64_t epoch = 0;

    while (epoch < 8) {
        uint64_t cursor = UINT64_C(1) << 63 | epoch << 44 | 1;
        const struct mst_reply *reply =
            fixture_reply(f, client, fixture_watch(f, client, MST_WATCH_KEYS, "", cursor));

        if (reply->item_count > 0 && reply->items[0].kind != MST_ITEM_RESET) {
            break;
        }
        epoch++;
    }
    return epoch;
}

static void a_listing_goes_on(struct fixture *f)
{
    struct client client = fixture_client(f, MST_ROLE_OBSERVER, 0);
    uint64_t epoch;

    fixture_connect(f, &client);
    fixture_write(f, &client, MST_PUT, "stays", "1");
    for (int i = 0; i < 4; i++) {
        fixture_write(f, &client, MST_PUT, i % 2 ? "a" : "b", "1");
        fixture_write(f, &client, MST_DELETE, i % 2 ? "a" : "b", "");
    }
    epoch = listing_epoch(f, &client);
    EXPECT(f, epoch > 0 && epoch < 8);
    restart(f);
    fixture_connect(f, &client);
    EXPECT_INT(f, listing_epoch(f, &client), epoch);
}

/* A service that begins again has another lease or other limits. They hold from then on; what is
 * over a new limit stays, except deletions that a watch could still have learnt of.
 * [service / What it keeps] */
static void it_may_begin_again_with_other_settings(struct fixture *f)
{
    struct client client = fixture_client(f, MST_ROLE_OBSERVER, 0);
    struct mst_core_config none = f->config;
    struct mst_write ops[3] = {{.kind = MST_PUT, .key = mst_slice_text("1")},
                               {.kind = MST_PUT, .key = mst_slice_text("2")},
                               {.kind = MST_PUT, .key = mst_slice_text("3")}};
    struct mst_request batch = {.command = MST_WRITE, .write = {.ops = ops, .count = 3}};

    fixture_connect(f, &client);
    fixture_write(f, &client, MST_PUT, "a", "1");
    fixture_write(f, &client, MST_PUT, "b", "1");
    fixture_write(f, &client, MST_DELETE, "a", "");
    fixture_write(f, &client, MST_DELETE, "b", "");
    EXPECT_INT(f, fixture_call(f, &client, batch)->status, MUSTER_ELIMIT);
    none.lease_ns = 0;
    EXPECT_INT(f, mst_core_resume(f->core, f->now_ns, &none), MUSTER_EINVAL);
    f->config.limits.batch_max = 3;
    f->config.limits.tombstones_max = 1;
    f->config.lease_ns = FIXTURE_LEASE_MS * 2 * ms_ns;
    restart(f);
    EXPECT_INT(f, fixture_connect(f, &client)->number, 2 * FIXTURE_LEASE_MS);
    EXPECT_INT(f, fixture_call(f, &client, batch)->status, MUSTER_OK);
}

/* ---- nothing can be kept ---- */

static const char why[] = "journal /var/muster: No space left on device";

static void is_refused(struct fixture *f, struct client *client, struct mst_request request)
{
    const struct mst_reply *reply = fixture_call(f, client, request);

    EXPECT_INT(f, reply->status, MUSTER_ENOSPACE);
    EXPECT_TEXT(f, reply->value, why);
    EXPECT_INT(f, mst_core_refused(f->core), false);
}

/* Nothing new can be kept, because the disk is full. Writes, contributions, faults and newcomers
 * are refused with ENOSPACE and the reason; renewals, reads, watches and coming back go on, and
 * so do repeats of what is kept already. [service / What it keeps] */
static void what_would_have_to_be_kept_is_refused(struct fixture *f)
{
    struct client ranks[2];
    struct client late = fixture_rank(f, 2, 0);
    struct client newcomer = fixture_client(f, MST_ROLE_OBSERVER, 0);
    struct mst_write op = {
        .kind = MST_PUT, .key = mst_slice_text("k"), .value = mst_slice_text("v")};
    const struct mst_reply *reply;

    fixture_seal(f, ranks, 2);
    fixture_connect(f, &late);
    mst_core_hold(f->core, why);
    is_refused(f, &ranks[0], put_of(&op, 2));
    is_refused(f, &ranks[0], fixture_round(1, "b", 0));
    is_refused(f, &late, (struct mst_request){.command = MST_JOIN});
    is_refused(f, &ranks[0],
               (struct mst_request){.command = MST_FAULT, .fault = {.generation = 1}});
    is_refused(f, &ranks[0],
               (struct mst_request){
                   .command = MST_LOST,
                   .lost = {.index = 1, .pid = ranks[1].open.pid, .cause = MST_CAUSE_GONE}});
    is_refused(f, &ranks[0], (struct mst_request){.command = MST_LEAVE});
    reply = fixture_connect(f, &newcomer);
    EXPECT_INT(f, reply->status, MUSTER_ENOSPACE);
    EXPECT_TEXT(f, reply->value, why);
    mst_core_hold(f->core, NULL);
    /* Nothing of it stuck: the same ids are carried out now. */
    reply = fixture_call(f, &ranks[0], put_of(&op, 2));
    EXPECT_INT(f, reply->status, MUSTER_EFENCED); /* below the window by now */
    EXPECT_INT(f, fixture_write(f, &ranks[0], MST_PUT, "k", "v")->status, MUSTER_OK);
    EXPECT_INT(f, fixture_connect(f, &newcomer)->status, MUSTER_OK);
    fixture_send(f, &ranks[0], fixture_round(1, "b", 0));
    EXPECT_INT(f, fixture_call(f, &ranks[1], fixture_round(1, "b", 0))->status, MUSTER_OK);
}

/* The disk is full. Renewals, reads, watches and coming back go on, and so do repeats of what is
 * kept already. [service / What it keeps] */
static void the_rest_goes_on(struct fixture *f)
{
    struct client ranks[2];
    struct mst_write op = {.kind = MST_ADD, .key = mst_slice_text("sum"), .delta = 5};
    const struct mst_reply *reply;
    uint64_t id;
    uint64_t waits;
    uint64_t number;

    fixture_seal(f, ranks, 2);
    ranks[0].oldest = 1;
    number = (uint64_t)fixture_add(f, &ranks[0], "sum", 5)->number;
    EXPECT_INT(f, number, 5);
    id = ranks[0].id;
    fixture_send(f, &ranks[0], fixture_round(1, "b", 0));
    mst_core_hold(f->core, why);
    EXPECT_INT(f, fixture_call(f, &ranks[0], (struct mst_request){.command = MST_RENEW})->status,
               MUSTER_OK);
    EXPECT_TEXT(f, fixture_get(f, &ranks[0], "sum")->value, "5");
    EXPECT_INT(f, fixture_call(f, &ranks[0], (struct mst_request){.command = MST_MEMBERS})->status,
               MUSTER_OK);
    waits = fixture_watch(f, &ranks[0], MST_WATCH_KEYS, "", 0);
    EXPECT_INT(f, fixture_reply(f, &ranks[0], waits)->status, MUSTER_OK);
    fixture_disconnect(f, &ranks[0]);
    EXPECT_INT(f, fixture_connect(f, &ranks[0])->status, MUSTER_OK);
    /* What is kept already is told again: a write that was answered, a contribution. */
    reply = fixture_call(f, &ranks[0], put_of(&op, id));
    EXPECT_INT(f, reply->status, MUSTER_OK);
    EXPECT_INT(f, reply->number, 5);
    id = fixture_send(f, &ranks[0], fixture_round(1, "b", 0));
    EXPECT_INT(f, fixture_reply(f, &ranks[0], id)->status, MUSTER_MORE);
}

/* The disk is full, and a lease or a deadline would end. It does not: that would have to be kept
 * too. When there is room again, leases are whole and deadlines have what was left.
 * [service / What it keeps] */
static void time_decides_nothing_meanwhile(struct fixture *f)
{
    struct client ranks[2];
    struct mst_request request = fixture_round(1, "b", 0);
    const char *lost = "member-lost #1 incarnation=1 cause=lease";
    const char *late = "round-closed name=b number=0 status=timed-out arrived=1 missing=1";

    fixture_seal(f, ranks, 2);
    request.round.deadline_ms = 3000;
    fixture_send(f, &ranks[0], request);
    fixture_pass(f, 1000);
    mst_core_hold(f->core, why);
    fixture_pass(f, 3 * FIXTURE_LEASE_MS);
    EXPECT(f, !fixture_told_story(f, lost) && !fixture_told_story(f, late));
    mst_core_hold(f->core, NULL);
    fixture_pass(f, 1990);
    EXPECT(f, !fixture_told_story(f, late));
    fixture_pass(f, 20);
    EXPECT(f, fixture_told_story(f, late));
    fixture_pass(f, FIXTURE_LEASE_MS - 2020);
    EXPECT(f, !fixture_told_story(f, lost));
    fixture_pass(f, 30);
    EXPECT(f, fixture_told_story(f, lost));
}

/* The disk is full, and a member goes silent, or comes back. Watchers of members see it when
 * there is room again: a revision that is in no journal would be given a second time after a
 * death. [service / What it keeps] */
static void who_comes_and_goes_meanwhile_is_told_later(struct fixture *f)
{
    struct client ranks[2];
    const struct mst_reply *reply;
    uint64_t revision;
    uint64_t id;

    fixture_seal(f, ranks, 2);
    id = fixture_watch(f, &ranks[0], MST_WATCH_MEMBERS, "", 0);
    revision = fixture_reply(f, &ranks[0], id)->revision;
    id = fixture_watch(f, &ranks[0], MST_WATCH_MEMBERS, "", revision);
    mst_core_hold(f->core, why);
    fixture_disconnect(f, &ranks[1]);
    EXPECT(f, fixture_told_story(f, "member-silent #1 incarnation=1"));
    EXPECT_INT(f, fixture_reply(f, &ranks[0], id)->status, MUSTER_MORE);
    mst_core_hold(f->core, NULL);
    fixture_pass(f, 1);
    reply = fixture_reply(f, &ranks[0], id);
    EXPECT_INT(f, reply->status, MUSTER_OK);
    EXPECT_INT(f, reply->revision, revision + 1);
    EXPECT_INT(f, reply->item_count, 1);
}

/* The disk is full, and a claim would be refused. It is later: the end of its session, and that
 * of its keys, would have to be kept. */
static void a_claim_is_refused_later(struct fixture *f)
{
    struct client ranks[2];
    struct client claimant;
    struct mst_write op = {.kind = MST_PUT,
                           .owned = true,
                           .key = mst_slice_text("mine"),
                           .value = mst_slice_text("v")};
    const char *refused = "claim-refused #1 incarnation=1";

    fixture_seal(f, ranks, 2);
    claimant = fixture_rank(f, 1, 2);
    fixture_connect(f, &claimant);
    EXPECT_INT(f, fixture_call(f, &claimant, put_of(&op, 1))->status, MUSTER_OK);
    mst_core_hold(f->core, why);
    fixture_renew(f, &ranks[1]);
    EXPECT(f, !fixture_told_story(f, refused));
    EXPECT_TEXT(f, fixture_get(f, &ranks[0], "mine")->value, "v");
    mst_core_hold(f->core, NULL);
    fixture_renew(f, &ranks[1]);
    EXPECT(f, fixture_told_story(f, refused));
    EXPECT_INT(f, fixture_get(f, &ranks[0], "mine")->status, MUSTER_ENOTFOUND);
}

/* The service stands still while the disk is full. The stall is forgiven once: no deadline moves
 * twice. */
static void a_stall_meanwhile_moves_no_deadline_twice(struct fixture *f)
{
    struct client ranks[2];
    struct mst_request request = fixture_round(1, "b", 0);
    const char *late = "round-closed name=b number=0 status=timed-out arrived=1 missing=1";

    fixture_seal(f, ranks, 2);
    request.round.deadline_ms = 3000;
    fixture_send(f, &ranks[0], request);
    mst_core_hold(f->core, why);
    fixture_stall(f, FIXTURE_LEASE_MS);
    mst_core_hold(f->core, NULL);
    fixture_pass(f, 2990);
    EXPECT(f, !fixture_told_story(f, late));
    fixture_pass(f, 20);
    EXPECT(f, fixture_told_story(f, late));
}

/* ---- what an input weighs ---- */

/* A rank asks again while its earlier request for the same round waits. It counts once, and the
 * earlier request ends with ECANCELLED. */
static void inputs_weigh_what_they_change(struct fixture *f)
{
    struct client ranks[2];
    uint64_t id;

    fixture_seal(f, ranks, 2);
    fixture_pass(f, 1);
    (void)mst_core_weigh(f->core);
    mst_core_tick(f->core, f->now_ns);
    EXPECT_INT(f, mst_core_weigh(f->core), MST_WEIGHT_NONE);
    fixture_renew(f, &ranks[0]);
    EXPECT_INT(f, mst_core_weigh(f->core), MST_WEIGHT_ALONG);
    fixture_wait_get(f, &ranks[0], "k");
    EXPECT_INT(f, mst_core_weigh(f->core), MST_WEIGHT_ALONG);
    fixture_write(f, &ranks[1], MST_INSERT, "k", "v");
    EXPECT_INT(f, mst_core_weigh(f->core), MST_WEIGHT_PROMISE);
    EXPECT_INT(f, mst_core_weigh(f->core), MST_WEIGHT_NONE);
    fixture_write(f, &ranks[1], MST_INSERT, "k", "v"); /* EEXISTS: a recorded outcome */
    EXPECT_INT(f, mst_core_weigh(f->core), MST_WEIGHT_PROMISE);
    id = fixture_send(f, &ranks[0], fixture_round(1, "b", 0));
    EXPECT_INT(f, mst_core_weigh(f->core), MST_WEIGHT_PROMISE);
    EXPECT_INT(f, fixture_reply(f, &ranks[0], id)->status, MUSTER_MORE);
    fixture_send(f, &ranks[0], fixture_round(1, "b", 0)); /* a repeat */
    EXPECT_INT(f, mst_core_weigh(f->core), MST_WEIGHT_ALONG);
    EXPECT_INT(f, fixture_reply(f, &ranks[0], id)->status, MUSTER_ECANCELLED);
    fixture_disconnect(f, &ranks[1]); /* a revision, which watches are told */
    EXPECT_INT(f, mst_core_weigh(f->core), MST_WEIGHT_PROMISE);
    fixture_connect(f, &ranks[1]); /* accepted, and back */
    EXPECT_INT(f, mst_core_weigh(f->core), MST_WEIGHT_PROMISE);
    fixture_pass(f, FIXTURE_LEASE_MS / 4);
    EXPECT_INT(f, mst_core_weigh(f->core), MST_WEIGHT_ALONG); /* a pulse */
    fixture_pass(f, FIXTURE_LEASE_MS);
    EXPECT_INT(f, mst_core_weigh(f->core), MST_WEIGHT_PROMISE); /* a loss */
}

#define SCENARIO(name)                                                                             \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        fixture_run(name);                                                                         \
    }

#define SCENARIOS(X)                                                                               \
    X(an_answered_write_is_not_applied_again)                                                      \
    X(an_age_is_not_taken_back)                                                                    \
    X(everybody_has_a_whole_lease)                                                                 \
    X(a_round_goes_on)                                                                             \
    X(a_gathered_result_is_kept)                                                                   \
    X(doubles_and_broadcasts_are_kept)                                                             \
    X(a_result_at_a_deadline_is_kept)                                                              \
    X(a_failed_result_names_the_same)                                                              \
    X(a_deadline_keeps_what_was_left)                                                              \
    X(a_late_deadline_is_not_moved)                                                                \
    X(a_sum_leaves_int64_and_comes_back)                                                           \
    X(who_was_ready_says_so_again)                                                                 \
    X(a_join_that_waits_is_kept)                                                                   \
    X(a_seal_goes_on)                                                                              \
    X(who_was_given_up_stays_so)                                                                   \
    X(a_job_that_is_over_decides_nothing)                                                          \
    X(owned_keys_still_vanish_with_their_owner)                                                    \
    X(what_would_have_to_be_kept_is_refused)                                                       \
    X(the_rest_goes_on)                                                                            \
    X(time_decides_nothing_meanwhile)                                                              \
    X(who_comes_and_goes_meanwhile_is_told_later)                                                  \
    X(a_claim_is_refused_later)                                                                    \
    X(a_stall_meanwhile_moves_no_deadline_twice)                                                   \
    X(inputs_weigh_what_they_change)

SCENARIOS(SCENARIO)

static void test_it_may_begin_again_with_other_settings(void **state)
{
    (void)state;
    fixture_run_with(it_may_begin_again_with_other_settings, small_then_large);
}

static void test_a_listing_goes_on(void **state)
{
    (void)state;
    fixture_run_with(a_listing_goes_on, one_tombstone);
}

#define ROW(name) cmocka_unit_test(test_##name),

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIOS(ROW) cmocka_unit_test(test_a_listing_goes_on),
        cmocka_unit_test(test_it_may_begin_again_with_other_settings)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
