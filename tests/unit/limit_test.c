/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever limit a request is over, the answer says which one, where it is and what was asked.
 *
 * behaviour: keys / Limits */
#include "core_fixture.h"
#include "proto/limit_kinds.h"

enum { KINDS_ROOM = 64, WAITING = 131072 };

static char bytes[128];

static void few(struct mst_core_config *config)
{
    config->limits.jobs_max = 1;
    config->limits.sessions_max = 3;
    config->limits.members_max = 2;
    config->limits.keys_max = 3;
    config->limits.job_bytes_max = 40;
    config->limits.rounds_max = 1;
    config->limits.name_bytes_max = 20;
    config->limits.key_bytes_max = 8;
    config->limits.value_bytes_max = 16;
    config->limits.text_bytes_max = 10;
    config->limits.batch_max = 4;
    config->limits.wait_keys_max = 2;
    config->limits.contribution_bytes_max = 12;
    config->limits.result_bytes_max = 11;
    config->waiting_bytes_max = WAITING;
}

static struct mst_slice long_one(size_t size)
{
    memset(bytes, 'x', sizeof(bytes));
    return mst_slice_of(bytes, size);
}

static void observe(struct fixture *f, struct client *client)
{
    *client = fixture_client(f, MST_ROLE_OBSERVER, 0);
    fixture_connect(f, client);
}

static const struct mst_reply *writes(struct fixture *f, struct client *client,
                                      enum mst_write_kind kind, struct mst_slice key,
                                      struct mst_slice value)
{
    const struct mst_write op = {.kind = kind, .key = key, .value = value};

    return fixture_call(
        f, client, (struct mst_request){.command = MST_WRITE, .write = {.ops = &op, .count = 1}});
}

/* ---- each way to go over one ---- */

static const struct mst_reply *job_too_many(struct fixture *f)
{
    static struct client one, other;

    observe(f, &one);
    other = fixture_client(f, MST_ROLE_OBSERVER, 0);
    other.open.job = mst_slice_text("other");
    return fixture_connect(f, &other);
}

static const struct mst_reply *job_of_who_returns(struct fixture *f)
{
    static struct client one, other;

    observe(f, &one);
    other = fixture_client(f, MST_ROLE_RANK, 0);
    other.open.job = mst_slice_text("other");
    other.open.incarnation = 3;
    return fixture_connect(f, &other);
}

static const struct mst_reply *session_too_many(struct fixture *f)
{
    static struct client clients[4];

    for (size_t i = 0; i < 3; i++) {
        observe(f, &clients[i]);
    }
    clients[3] = fixture_client(f, MST_ROLE_OBSERVER, 0);
    return fixture_connect(f, &clients[3]);
}

static const struct mst_reply *member_too_many(struct fixture *f)
{
    static struct client ranks[3];

    for (uint32_t i = 0; i < 3; i++) {
        ranks[i] = fixture_rank(f, i, 4);
        (void)fixture_connect(f, &ranks[i]);
    }
    fixture_disconnect(f, &ranks[2]);
    return fixture_connect(f, &ranks[2]);
}

static const struct mst_reply *index_above_the_size(struct fixture *f)
{
    static struct client ranks[2];

    ranks[0] = fixture_rank(f, MST_INDEX_ANY, 1);
    ranks[1] = fixture_rank(f, MST_INDEX_ANY, 1);
    fixture_connect(f, &ranks[0]);
    return fixture_connect(f, &ranks[1]);
}

static const struct mst_reply *long_name_of_job(struct fixture *f)
{
    static struct client client;

    client = fixture_client(f, MST_ROLE_OBSERVER, 0);
    client.open.job = long_one(21);
    return fixture_connect(f, &client);
}

static const struct mst_reply *long_name_of_host(struct fixture *f)
{
    static struct client client;

    client = fixture_client(f, MST_ROLE_OBSERVER, 0);
    client.open.host = long_one(22);
    return fixture_connect(f, &client);
}

static const struct mst_reply *key_too_many(struct fixture *f)
{
    static struct client client;

    observe(f, &client);
    fixture_write(f, &client, MST_PUT, "a", "");
    fixture_write(f, &client, MST_PUT, "b", "");
    fixture_write(f, &client, MST_PUT, "c", "");
    return fixture_write(f, &client, MST_PUT, "d", "");
}

static const struct mst_reply *awaited_key_too_many(struct fixture *f)
{
    static struct client client;

    observe(f, &client);
    fixture_wait_get(f, &client, "a");
    fixture_wait_get(f, &client, "b");
    fixture_wait_get(f, &client, "c");
    return fixture_reply(f, &client, fixture_wait_get(f, &client, "d"));
}

static const struct mst_reply *job_bytes_too_many(struct fixture *f)
{
    static struct client client;

    observe(f, &client);
    writes(f, &client, MST_PUT, mst_slice_text("a"), long_one(16));
    writes(f, &client, MST_PUT, mst_slice_text("b"), long_one(16));
    return writes(f, &client, MST_PUT, mst_slice_text("c"), long_one(10));
}

static const struct mst_reply *awaited_bytes_too_many(struct fixture *f)
{
    static struct client client;

    observe(f, &client);
    writes(f, &client, MST_PUT, mst_slice_text("a"), long_one(16));
    writes(f, &client, MST_PUT, mst_slice_text("b"), long_one(16));
    return fixture_reply(f, &client, fixture_wait_get(f, &client, "1234567"));
}

static const struct mst_reply *long_key(struct fixture *f)
{
    static struct client client;

    observe(f, &client);
    return writes(f, &client, MST_PUT, long_one(9), mst_slice_text(""));
}

static const struct mst_reply *long_key_read(struct fixture *f)
{
    static struct client client;

    observe(f, &client);
    return fixture_get(f, &client, "123456789");
}

static const struct mst_reply *long_key_of_several(struct fixture *f)
{
    static struct client client;
    const struct mst_slice keys[] = {mst_slice_text("a"), mst_slice_text("123456789")};

    observe(f, &client);
    return fixture_call(
        f, &client, (struct mst_request){.command = MST_WAIT, .wait = {.keys = keys, .count = 2}});
}

static const struct mst_reply *long_prefix_listed(struct fixture *f)
{
    static struct client client;

    observe(f, &client);
    return fixture_call(f, &client,
                        (struct mst_request){.command = MST_LIST, .list = {.prefix = long_one(9)}});
}

static const struct mst_reply *long_name_to_list_from(struct fixture *f)
{
    static struct client client;

    observe(f, &client);
    return fixture_call(f, &client,
                        (struct mst_request){.command = MST_LIST, .list = {.after = long_one(10)}});
}

static const struct mst_reply *long_prefix_watched(struct fixture *f)
{
    static struct client client;

    observe(f, &client);
    return fixture_call(
        f, &client,
        (struct mst_request){.command = MST_WATCH,
                             .watch = {.kinds = MST_WATCH_KEYS, .prefix = long_one(9)}});
}

static const struct mst_reply *large_value(struct fixture *f)
{
    static struct client client;

    observe(f, &client);
    return writes(f, &client, MST_PUT, mst_slice_text("k"), long_one(17));
}

static const struct mst_reply *value_grown_large(struct fixture *f)
{
    static struct client client;

    observe(f, &client);
    writes(f, &client, MST_PUT, mst_slice_text("k"), long_one(10));
    return writes(f, &client, MST_APPEND, mst_slice_text("k"), long_one(9));
}

static const struct mst_reply *long_fault(struct fixture *f)
{
    static struct client ranks[2];

    fixture_seal(f, ranks, 2);
    return fixture_call(f, &ranks[0],
                        (struct mst_request){.command = MST_FAULT,
                                             .fault = {.generation = 1, .text = long_one(11)}});
}

static const struct mst_reply *long_batch(struct fixture *f)
{
    static struct client client;
    const struct mst_write ops[5] = {{.kind = MST_DELETE, .key = mst_slice_text("a")}};

    observe(f, &client);
    return fixture_call(
        f, &client, (struct mst_request){.command = MST_WRITE, .write = {.ops = ops, .count = 5}});
}

static const struct mst_reply *long_wait(struct fixture *f)
{
    static struct client client;
    const struct mst_slice keys[3] = {mst_slice_text("a"), mst_slice_text("b"),
                                      mst_slice_text("c")};

    observe(f, &client);
    return fixture_call(
        f, &client, (struct mst_request){.command = MST_WAIT, .wait = {.keys = keys, .count = 3}});
}

static const struct mst_reply *round_too_many(struct fixture *f)
{
    static struct client ranks[2];

    fixture_seal(f, ranks, 2);
    fixture_send(f, &ranks[0], fixture_round(1, "a", 0));
    return fixture_call(f, &ranks[0], fixture_round(1, "b", 0));
}

static const struct mst_reply *long_name_of_round(struct fixture *f)
{
    static struct client ranks[2];
    struct mst_request request = fixture_round(1, "a", 0);

    fixture_seal(f, ranks, 2);
    request.round.name = long_one(21);
    return fixture_call(f, &ranks[0], request);
}

static const struct mst_reply *contributes(struct fixture *f, size_t size)
{
    static struct client ranks[2];
    struct mst_request request = fixture_round(1, "a", 0);

    fixture_seal(f, ranks, 2);
    request.round.reduce = MST_REDUCE_GATHER;
    request.round.data = long_one(size);
    return fixture_call(f, &ranks[0], request);
}

static const struct mst_reply *large_contribution(struct fixture *f)
{
    return contributes(f, 13);
}

static const struct mst_reply *large_result(struct fixture *f)
{
    return contributes(f, 12);
}

static const struct mst_reply *participants_too_many(struct fixture *f)
{
    static struct client ranks[2];
    const uint32_t wanted[] = {0, 1, 2};
    struct mst_request request = fixture_round(1, "a", 0);

    fixture_seal(f, ranks, 2);
    request.round.participants = wanted;
    request.round.participant_count = 3;
    return fixture_call(f, &ranks[0], request);
}

static const struct mst_reply *orders(struct fixture *f, uint32_t max_size, uint32_t count)
{
    static struct client ranks[2];
    const uint32_t order[] = {0, 1, 2};
    struct mst_request request = fixture_round(1, "seal", 0);

    for (uint32_t i = 0; i < 2; i++) {
        ranks[i] = fixture_rank(f, i, 1);
        ranks[i].open.max_size = max_size;
        fixture_connect(f, &ranks[i]);
        fixture_join(f, &ranks[i]);
    }
    request.round.seal = true;
    request.round.on_loss = MST_PROCEED;
    request.round.order = order;
    request.round.order_count = count;
    return fixture_call(f, &ranks[0], request);
}

static const struct mst_reply *order_of_too_many(struct fixture *f)
{
    return orders(f, 1, 3);
}

static const struct mst_reply *order_above_max_size(struct fixture *f)
{
    return orders(f, 1, 2);
}

static const struct mst_reply *far_ahead(struct fixture *f)
{
    static struct client client;

    observe(f, &client);
    client.oldest = 10;
    return fixture_call(f, &client,
                        (struct mst_request){.command = MST_RENEW, .id = 10 + MST_WINDOW});
}

/* The first that is refused, of requests that wait: some were not. */
static const struct mst_reply *piled_up(struct fixture *f, struct mst_request request)
{
    static struct client client;
    const struct mst_reply *reply = NULL;
    unsigned waiting = 0;

    observe(f, &client);
    for (; waiting < WAITING / 64; waiting++) {
        reply = fixture_call(f, &client, request);
        if (reply->status != MUSTER_MORE) {
            break;
        }
    }
    EXPECT(f, waiting > 8);
    return reply;
}

static const struct mst_reply *gets_piled_up(struct fixture *f)
{
    return piled_up(f, (struct mst_request){.command = MST_GET,
                                            .get = {.key = mst_slice_text("never"), .wait = true}});
}

static const struct mst_reply *waits_piled_up(struct fixture *f)
{
    const struct mst_slice keys[] = {mst_slice_text("never"), mst_slice_text("nor")};

    return piled_up(f,
                    (struct mst_request){.command = MST_WAIT, .wait = {.keys = keys, .count = 2}});
}

static const struct mst_reply *watches_piled_up(struct fixture *f)
{
    return piled_up(
        f, (struct mst_request){.command = MST_WATCH,
                                .watch = {.kinds = MST_WATCH_MEMBERS, .node = MST_NODE_NONE}});
}

static const struct mst_reply *long_cut(struct fixture *f)
{
    static struct client client;

    observe(f, &client);
    return fixture_call(f, &client,
                        (struct mst_request){.command = MST_CUT, .cut = {.for_ms = 3600001}});
}

static const struct way {
    const char *name;
    const struct mst_reply *(*go)(struct fixture *f);
    enum mst_limit_kind kind;
    int64_t most;
    uint64_t asked; /* 0: a little more */
} ways[] = {
#define WAY(go, kind, most, asked)                                                                 \
    {                                                                                              \
#go, go, MST_LIMIT_##kind, most, asked                                                     \
    }
    WAY(job_too_many, JOBS, 1, 2),
    WAY(job_of_who_returns, JOBS, 1, 2),
    WAY(session_too_many, SESSIONS, 3, 4),
    WAY(member_too_many, MEMBERS, 2, 3),
    WAY(participants_too_many, MEMBERS, 2, 3),
    WAY(order_of_too_many, MEMBERS, 2, 3),
    WAY(key_too_many, KEYS, 3, 4),
    WAY(awaited_key_too_many, KEYS, 3, 4),
    WAY(job_bytes_too_many, JOB_BYTES, 40, 45),
    WAY(awaited_bytes_too_many, JOB_BYTES, 40, 41),
    WAY(round_too_many, ROUNDS, 1, 2),
    WAY(long_name_of_job, NAME_BYTES, 20, 21),
    WAY(long_name_of_host, NAME_BYTES, 20, 22),
    WAY(long_name_of_round, NAME_BYTES, 20, 21),
    WAY(long_key, KEY_BYTES, 8, 9),
    WAY(long_key_read, KEY_BYTES, 8, 9),
    WAY(long_key_of_several, KEY_BYTES, 8, 9),
    WAY(long_prefix_listed, KEY_BYTES, 8, 9),
    WAY(long_name_to_list_from, KEY_BYTES, 8, 10),
    WAY(long_prefix_watched, KEY_BYTES, 8, 9),
    WAY(large_value, VALUE_BYTES, 16, 17),
    WAY(value_grown_large, VALUE_BYTES, 16, 19),
    WAY(long_fault, TEXT_BYTES, 10, 11),
    WAY(long_batch, BATCH, 4, 5),
    WAY(long_wait, WAIT_KEYS, 2, 3),
    WAY(large_contribution, CONTRIBUTION_BYTES, 12, 13),
    WAY(large_result, RESULT_BYTES, 11, 12),
    WAY(index_above_the_size, SIZE, 1, 2),
    WAY(order_above_max_size, MAX_SIZE, 1, 2),
    WAY(far_ahead, UNANSWERED, MST_WINDOW, MST_WINDOW + 1),
    WAY(gets_piled_up, WAITING_BYTES, WAITING, 0),
    WAY(waits_piled_up, AWAITED_KEYS, 256, 258),
    WAY(watches_piled_up, WAITING_BYTES, WAITING, 0),
    WAY(long_cut, CUT_MS, 3600000, 3600001),
#undef WAY
};

enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

static const struct way *way;

static void goes_over(struct fixture *f)
{
    const struct mst_reply *reply = way->go(f);

    if (!f->mem.failed &&
        (reply->status != MUSTER_ELIMIT || reply->detail.limit_kind != (uint32_t)way->kind)) {
        print_error("%s: status %d, limit_kind %u\n", way->name, (int)reply->status,
                    reply->detail.limit_kind);
    }
    EXPECT_INT(f, reply->status, MUSTER_ELIMIT);
    EXPECT(f, reply->has_detail);
    EXPECT_INT(f, reply->detail.limit_kind, way->kind);
    EXPECT_INT(f, reply->detail.limit, way->most);
    if (way->asked != 0) {
        EXPECT_INT(f, reply->detail.asked, way->asked);
    } else {
        EXPECT(f, reply->detail.asked > (uint64_t)way->most &&
                      reply->detail.asked < (uint64_t)way->most + 1024);
    }
}

/* Each limit is exceeded in each way there is. The refusal names it. */
static void each_way_over_a_limit_names_it(void **state)
{
    (void)state;
    for (way = ways; way < ways + WAYS; way++) {
        fixture_run_with(goes_over, few);
    }
}

static void each_limit_of_the_core_has_a_way_over_it(void **state)
{
    bool covered[KINDS_ROOM] = {[MST_LIMIT_FRAME_BYTES] = true, /* the wire's: native_damage_test */
                                [MST_LIMIT_WAITING] = true};    /* of an older service */

    (void)state;
    for (size_t i = 0; i < WAYS; i++) {
        covered[ways[i].kind] = true;
    }
#define X(name, number, origin, setting) assert_true(covered[MST_LIMIT_##name]);
#include "proto/limit_kinds.def"
#undef X
}

/* These close a connection or forget what is old: no request is refused for them. */
static bool refuses_nothing(const char *name)
{
    static const char *const names[] = {"connections_max", "handshakes_max", "tombstones_max",
                                        "output_bytes_max"};
    bool found = false;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        found = found || strcmp(names[i], name) == 0;
    }
    return found;
}

static bool has_kind(const struct mst_setting *setting)
{
    bool found = false;

    for (uint32_t kind = 0; kind < KINDS_ROOM; kind++) {
        found = found || mst_limit_kind_setting(kind) == setting;
    }
    return found;
}

static void each_limit_that_refuses_has_a_number(void **state)
{
    (void)state;
    for (size_t i = 0; i < mst_setting_count; i++) {
        const struct mst_setting *setting = &mst_settings[i];

        if (setting->scope == MST_SCOPE_LIMIT &&
            has_kind(setting) == refuses_nothing(setting->name)) {
            fail_msg("%s needs a row in limit_kinds.def, or refuses nothing", setting->name);
        }
    }
    assert_null(mst_limit_kind_setting(MST_LIMIT_UNSAID));
    assert_null(mst_limit_kind_setting(UINT32_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_way_over_a_limit_names_it),
        cmocka_unit_test(each_limit_of_the_core_has_a_way_over_it),
        cmocka_unit_test(each_limit_that_refuses_has_a_number),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
