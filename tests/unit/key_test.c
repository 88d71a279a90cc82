/* SPDX-License-Identifier: Apache-2.0 */
/* Keys: the single operations, batches that happen at once or not at all, waits, listings, owners,
 * the key space of a generation, and limits.
 *
 * behaviour: keys / Several keys */
#include <stdio.h>

#include "core_fixture.h"

static struct mst_request batch(const struct mst_write *ops, uint32_t count)
{
    return (struct mst_request){.command = MST_WRITE, .write = {.ops = ops, .count = count}};
}

static struct mst_write op(enum mst_write_kind kind, const char *key, const char *value)
{
    return (struct mst_write){
        .kind = kind, .key = mst_slice_text(key), .value = mst_slice_text(value)};
}

static struct client observer(struct fixture *f)
{
    return fixture_client(f, MST_ROLE_OBSERVER, 0);
}

/* A key is put, inserted, appended to, deleted and read. Each does what its name says; a read
 * gives the value and its revision, and each change a larger one. To delete an absent key is no
 * error. [One key] */
static void the_single_operations(struct fixture *f)
{
    struct client client = observer(f);
    const struct mst_reply *reply;
    uint64_t revision;

    fixture_connect(f, &client);
    reply = fixture_write(f, &client, MST_INSERT, "k", "1");
    EXPECT_INT(f, reply->status, MUSTER_OK);
    revision = reply->revision;
    reply = fixture_write(f, &client, MST_INSERT, "k", "2");
    EXPECT_INT(f, reply->status, MUSTER_EEXISTS);
    EXPECT_INT(f, reply->revision, revision);
    reply = fixture_write(f, &client, MST_PUT, "k", "2");
    EXPECT(f, reply->revision > revision);
    revision = reply->revision;
    reply = fixture_get(f, &client, "k");
    EXPECT_TEXT(f, reply->value, "2");
    EXPECT_INT(f, reply->revision, revision);
    reply = fixture_write(f, &client, MST_APPEND, "k", "34");
    EXPECT_INT(f, reply->number, 3);
    EXPECT_TEXT(f, fixture_get(f, &client, "k")->value, "234");
    reply = fixture_write(f, &client, MST_APPEND, "new", "ab");
    EXPECT_INT(f, reply->number, 2);
    reply = fixture_write(f, &client, MST_DELETE, "k", "");
    EXPECT_INT(f, reply->number, 1);
    EXPECT_INT(f, fixture_get(f, &client, "k")->status, MUSTER_ENOTFOUND);
    reply = fixture_write(f, &client, MST_DELETE, "k", "");
    EXPECT_INT(f, reply->status, MUSTER_OK);
    EXPECT_INT(f, reply->number, 0);
    EXPECT_INT(f, fixture_write(f, &client, MST_INSERT, "k", "5")->status, MUSTER_OK);
}

/* The only item of an answer. */
static const struct mst_item *item_of(struct fixture *f, const struct mst_reply *reply)
{
    static const struct mst_item none;

    EXPECT_INT(f, reply->status, MUSTER_OK);
    EXPECT_INT(f, reply->item_count, 1);
    return reply->item_count == 1 ? &reply->items[0] : &none;
}

/* A key is read, listed or watched. It comes with its age: how long ago it was written, or
 * deleted, by the service's time. Every write begins it anew, also one that writes the same.
 * [How old a key is] */
static void an_age_counts_from_the_last_write(struct fixture *f)
{
    struct client client = observer(f);
    struct mst_request list = {.command = MST_LIST, .list = {.prefix = mst_slice_text("k")}};
    const struct mst_item *item;
    uint64_t revision;
    uint64_t waits;

    fixture_connect(f, &client);
    fixture_write(f, &client, MST_PUT, "k", "1");
    EXPECT_INT(f, fixture_get(f, &client, "k")->number, 0);
    fixture_pass(f, 250);
    EXPECT_INT(f, fixture_get(f, &client, "k")->number, 250);
    EXPECT_INT(f, item_of(f, fixture_call(f, &client, list))->number, 250);
    waits = fixture_watch(f, &client, MST_WATCH_KEYS, "k", 0);
    EXPECT_INT(f, item_of(f, fixture_reply(f, &client, waits))->number, 250);
    revision =
        fixture_write(f, &client, MST_PUT, "k", "1")->revision; /* also with the same value */
    EXPECT_INT(f, fixture_get(f, &client, "k")->number, 0);
    fixture_write(f, &client, MST_DELETE, "k", "");
    fixture_pass(f, 40);
    waits = fixture_watch(f, &client, MST_WATCH_KEYS, "k", revision);
    item = item_of(f, fixture_reply(f, &client, waits));
    EXPECT_INT(f, item->kind, MST_ITEM_DELETED);
    EXPECT_INT(f, item->number, 40);
    waits = fixture_wait_get(f, &client, "k");
    fixture_pass(f, 30);
    fixture_write(f, &client, MST_PUT, "k", "2");
    EXPECT_INT(f, fixture_reply(f, &client, waits)->number, 0);
}

/* Compare-and-set names an old revision. It is refused (ECONFLICT) with the revision that is
 * there. Revision 0 means: only if it does not exist, and a deleted key does not. [One key] */
static void compare_and_set(struct fixture *f)
{
    struct client client = observer(f);
    struct mst_write cas = op(MST_CAS, "k", "first");
    const struct mst_reply *reply;
    uint64_t revision;

    fixture_connect(f, &client);
    cas.expected = 3;
    reply = fixture_call(f, &client, batch(&cas, 1));
    EXPECT_INT(f, reply->status, MUSTER_ECONFLICT);
    EXPECT_INT(f, reply->revision, 0);
    cas.expected = 0;
    reply = fixture_call(f, &client, batch(&cas, 1));
    EXPECT_INT(f, reply->status, MUSTER_OK);
    revision = reply->revision;
    reply = fixture_call(f, &client, batch(&cas, 1));
    EXPECT_INT(f, reply->status, MUSTER_ECONFLICT);
    EXPECT_INT(f, reply->revision, revision);
    cas.expected = revision;
    cas.value = mst_slice_text("second");
    EXPECT_INT(f, fixture_call(f, &client, batch(&cas, 1))->status, MUSTER_OK);
    EXPECT_TEXT(f, fixture_get(f, &client, "k")->value, "second");
    fixture_write(f, &client, MST_DELETE, "k", "");
    cas.expected = 0; /* deleted is not there */
    EXPECT_INT(f, fixture_call(f, &client, batch(&cas, 1))->status, MUSTER_OK);
}

/* A number is added to a key. An absent key counts as 0, and the caller gets the sum. Text that
 * is no number, and a sum beyond 64 bits, are refused (ERANGE) and change nothing. [One key] */
static void adding(struct fixture *f)
{
    struct client client = observer(f);
    const char *const no_numbers[] = {"", "-", "x", "1x", "9223372036854775808", "+1", " 1"};

    fixture_connect(f, &client);
    EXPECT_INT(f, fixture_add(f, &client, "n", -7)->number, -7);
    EXPECT_INT(f, fixture_add(f, &client, "n", 10)->number, 3);
    EXPECT_TEXT(f, fixture_get(f, &client, "n")->value, "3");
    fixture_write(f, &client, MST_PUT, "n", "9223372036854775807");
    EXPECT_INT(f, fixture_add(f, &client, "n", 1)->status, MUSTER_ERANGE);
    EXPECT_INT(f, fixture_add(f, &client, "n", -1)->number, INT64_MAX - 1);
    fixture_write(f, &client, MST_PUT, "n", "-9223372036854775808");
    EXPECT_INT(f, fixture_add(f, &client, "n", -1)->status, MUSTER_ERANGE);
    EXPECT_INT(f, fixture_add(f, &client, "n", 0)->number, INT64_MIN);
    for (size_t i = 0; i < sizeof(no_numbers) / sizeof(no_numbers[0]); i++) {
        fixture_write(f, &client, MST_PUT, "n", no_numbers[i]);
        EXPECT_INT(f, fixture_add(f, &client, "n", 1)->status, MUSTER_ERANGE);
    }
}

/* Several writes are sent as one batch and one of them cannot be done. None is done, and the
 * caller learns which one it was. */
static void a_batch_is_all_or_nothing(struct fixture *f)
{
    struct client client = observer(f);
    struct mst_write ops[4] = {op(MST_PUT, "a", "1"), op(MST_ADD, "n", ""), op(MST_DELETE, "b", ""),
                               op(MST_INSERT, "c", "3")};
    const struct mst_reply *reply;

    ops[1].delta = 4;
    fixture_connect(f, &client);
    fixture_write(f, &client, MST_PUT, "b", "2");
    fixture_write(f, &client, MST_PUT, "c", "there");
    reply = fixture_call(f, &client, batch(ops, 4));
    EXPECT_INT(f, reply->status, MUSTER_EEXISTS);
    EXPECT_INT(f, reply->number, 3); /* which one it was */
    EXPECT_INT(f, fixture_get(f, &client, "a")->status, MUSTER_ENOTFOUND);
    EXPECT_INT(f, fixture_get(f, &client, "n")->status, MUSTER_ENOTFOUND);
    EXPECT_TEXT(f, fixture_get(f, &client, "b")->value, "2");
    fixture_write(f, &client, MST_DELETE, "c", "");
    reply = fixture_call(f, &client, batch(ops, 4));
    EXPECT_INT(f, reply->status, MUSTER_OK);
    EXPECT_TEXT(f, fixture_get(f, &client, "a")->value, "1");
    EXPECT_TEXT(f, fixture_get(f, &client, "n")->value, "4");
    EXPECT_INT(f, fixture_get(f, &client, "b")->status, MUSTER_ENOTFOUND);
    EXPECT_TEXT(f, fixture_get(f, &client, "c")->value, "3");
}

/* Writes of a batch touch one key twice. Each sees what those before it did; all others see only
 * the end. */
static void a_batch_sees_itself_and_others_see_its_end(struct fixture *f)
{
    struct client client = observer(f);
    struct client waiting = observer(f);
    struct mst_write ops[5] = {op(MST_PUT, "k", "7"), op(MST_ADD, "k", ""),
                               op(MST_APPEND, "k", "0"), op(MST_PUT, "gone", "x"),
                               op(MST_DELETE, "gone", "")};
    const struct mst_reply *reply;
    uint64_t waits;
    uint64_t gone;

    ops[1].delta = 1;
    fixture_connect(f, &client);
    fixture_connect(f, &waiting);
    waits = fixture_wait_get(f, &waiting, "k");
    gone = fixture_wait_get(f, &waiting, "gone");
    reply = fixture_call(f, &client, batch(ops, 5));
    EXPECT_INT(f, reply->status, MUSTER_OK);
    EXPECT_TEXT(f, fixture_reply(f, &waiting, waits)->value, "80");
    EXPECT_INT(f, fixture_reply(f, &waiting, gone)->status, MUSTER_MORE);
    EXPECT_INT(f, fixture_times_told(f, &waiting, waits), 1);
    ops[0].kind = MST_CAS; /* against a key of this very batch: nobody can know its revision */
    ops[0].expected = 0;
    ops[1] = op(MST_CAS, "k", "z");
    ops[1].expected = 1;
    EXPECT_INT(f, fixture_call(f, &client, batch(ops, 2))->status, MUSTER_ECONFLICT);
}

/* A reader waits for a key. It is answered once, when the key is written; other keys do not wake
 * it, and a reader that went away does not keep the others from being answered. [Waiting] */
static void a_get_can_wait(struct fixture *f)
{
    struct client client = observer(f);
    struct client many[3];
    uint64_t ids[3];

    fixture_connect(f, &client);
    for (int i = 0; i < 3; i++) {
        many[i] = observer(f);
        fixture_connect(f, &many[i]);
        ids[i] = fixture_wait_get(f, &many[i], "k");
        EXPECT_INT(f, fixture_reply(f, &many[i], ids[i])->status, MUSTER_MORE);
    }
    fixture_disconnect(f, &many[1]);
    fixture_write(f, &client, MST_PUT, "other", "x");
    fixture_write(f, &client, MST_PUT, "k", "v");
    EXPECT_TEXT(f, fixture_reply(f, &many[0], ids[0])->value, "v");
    EXPECT_TEXT(f, fixture_reply(f, &many[2], ids[2])->value, "v");
    EXPECT_INT(f, fixture_times_told(f, &many[0], ids[0]), 1);
}

/* A value is read and changed before the answer has left. The reader gets the value of the
 * moment of its request. [One key] */
static void a_value_is_the_one_of_the_moment(struct fixture *f)
{
    struct client client = observer(f);
    struct mst_request get = {
        .id = 1, .oldest = 1, .command = MST_GET, .get = {.key = mst_slice_text("k")}};
    struct mst_write put = op(MST_PUT, "k", "after");
    struct mst_request write = batch(&put, 1);

    fixture_connect(f, &client);
    fixture_write(f, &client, MST_PUT, "k", "before");
    if (client.conn.id == 0) {
        return;
    }
    /* Both are read before anything is written out. */
    get.id = ++client.id;
    get.oldest = get.id;
    write.id = ++client.id;
    write.oldest = get.id;
    if (mst_core_request(f->core, f->now_ns, client.conn, &get) == MUSTER_OK) {
        fixture_send(f, &client, write);
        EXPECT_TEXT(f, fixture_reply(f, &client, get.id)->value, "before");
    }
}

static uint64_t wait_all(struct fixture *f, struct client *client, const char *const *names,
                         uint32_t count)
{
    struct mst_slice keys[8];

    for (uint32_t i = 0; i < count; i++) {
        keys[i] = mst_slice_text(names[i]);
    }
    return fixture_send(
        f, client,
        (struct mst_request){.command = MST_WAIT, .wait = {.keys = keys, .count = count}});
}

/* A reader waits for several keys. It is answered when each has existed once, even if not all at
 * the same time. [Waiting] */
static void a_wait_for_several_is_latched(struct fixture *f)
{
    const char *const names[] = {"a", "b", "c", "b"};
    struct client client = observer(f);
    struct client waiting = observer(f);
    uint64_t id;

    fixture_connect(f, &client);
    fixture_connect(f, &waiting);
    fixture_write(f, &client, MST_PUT, "a", "1");
    id = wait_all(f, &waiting, names, 4);
    EXPECT_INT(f, fixture_reply(f, &waiting, id)->status, MUSTER_MORE);
    fixture_write(f, &client, MST_DELETE, "a", "");
    fixture_write(f, &client, MST_PUT, "b", "1");
    fixture_write(f, &client, MST_DELETE, "b", ""); /* it was there once: that counts */
    EXPECT_INT(f, fixture_reply(f, &waiting, id)->status, MUSTER_MORE);
    fixture_write(f, &client, MST_PUT, "c", "1");
    EXPECT_INT(f, fixture_reply(f, &waiting, id)->status, MUSTER_OK);
    fixture_write(f, &client, MST_PUT, "a", "1");
    fixture_write(f, &client, MST_PUT, "b", "1");
    id = wait_all(f, &waiting, names, 4);
    EXPECT_INT(f, fixture_reply(f, &waiting, id)->status, MUSTER_OK);
    EXPECT_INT(f, fixture_reply(f, &waiting, wait_all(f, &waiting, names, 0))->status,
               MUSTER_EINVAL);
}

static const struct mst_reply *list(struct fixture *f, struct client *client, const char *prefix,
                                    struct mst_slice after)
{
    return fixture_call(
        f, client,
        (struct mst_request){.command = MST_LIST,
                             .list = {.prefix = mst_slice_text(prefix), .after = after}});
}

/* The keys under a prefix are listed. They come in the order of their bytes, without those
 * deleted. */
static void a_prefix_is_listed_in_order(struct fixture *f)
{
    struct client client = observer(f);
    const struct mst_reply *reply;

    fixture_connect(f, &client);
    fixture_write(f, &client, MST_PUT, "b/2", "two");
    fixture_write(f, &client, MST_PUT, "a", "x");
    fixture_write(f, &client, MST_PUT, "b/1", "one");
    fixture_write(f, &client, MST_PUT, "b/0", "gone");
    fixture_write(f, &client, MST_DELETE, "b/0", "");
    fixture_write(f, &client, MST_PUT, "c", "x");
    reply = list(f, &client, "b/", mst_slice_of(NULL, 0));
    EXPECT_INT(f, reply->item_count, 2);
    if (reply->item_count == 2) {
        EXPECT_TEXT(f, reply->items[0].name, "b/1");
        EXPECT_TEXT(f, reply->items[0].value, "one");
        EXPECT_TEXT(f, reply->items[1].name, "b/2");
    }
    EXPECT_INT(f, reply->next, 0);
    EXPECT_INT(f, list(f, &client, "b/", mst_slice_text("b/1"))->item_count, 1);
    EXPECT_INT(f, list(f, &client, "", mst_slice_of(NULL, 0))->item_count, 4);
    EXPECT_INT(f, list(f, &client, "z", mst_slice_of(NULL, 0))->item_count, 0);
}

/* A prefix has more keys than fit one answer. They come in pages; the library puts them
 * together. */
static void a_long_listing_comes_in_pages(struct fixture *f)
{
    struct client client = observer(f);
    char name[4] = "k00";
    const struct mst_reply *reply;
    uint32_t seen = 0;
    uint32_t pages = 0;
    struct mst_slice after = {0};

    fixture_connect(f, &client);
    for (int i = 0; i < 600; i++) {
        name[1] = (char)('0' + i / 26);
        name[2] = (char)('a' + i % 26);
        fixture_write(f, &client, MST_PUT, name, "v");
    }
    do {
        reply = list(f, &client, "k", after);
        EXPECT(f, reply->item_count > 0);
        seen += reply->item_count;
        pages++;
        after = reply->items[reply->item_count - 1].name;
    } while (reply->next != 0);
    EXPECT_INT(f, seen, 600);
    EXPECT_INT(f, pages, 3);
}

/* The values under a prefix are large. The listing comes in shorter pages. */
static void large_values_make_short_pages(struct fixture *f)
{
    static char large[MST_PAGE_BYTES];
    struct client client = observer(f);
    struct mst_write put = op(MST_PUT, "a", "");
    const struct mst_reply *reply;

    put.value = mst_slice_of(large, sizeof(large));
    fixture_connect(f, &client);
    fixture_call(f, &client, batch(&put, 1));
    put.key = mst_slice_text("b");
    fixture_call(f, &client, batch(&put, 1));
    reply = list(f, &client, "", mst_slice_of(NULL, 0));
    EXPECT_INT(f, reply->item_count, 1);
    EXPECT(f, reply->next != 0);
}

/* A key is owned by a member or a session that ends. It is deleted with it, and watches show
 * that. Silence alone deletes nothing; a key that another client has put since stays.
 * [Keys that go] */
static void an_owned_key_vanishes_with_its_owner(struct fixture *f)
{
    struct client owner = fixture_client(f, MST_ROLE_WORKER, 0);
    struct client other = observer(f);
    struct mst_write put = op(MST_PUT, "address", "b3:4000");
    uint64_t watch;
    const struct mst_reply *reply;

    fixture_connect(f, &owner);
    fixture_connect(f, &other);
    put.owned = true;
    fixture_call(f, &owner, batch(&put, 1));
    put.key = mst_slice_text("taken");
    fixture_call(f, &owner, batch(&put, 1));
    fixture_write(f, &other, MST_PUT, "taken", "mine now");
    watch = fixture_watch(f, &other, MST_WATCH_KEYS, "addr", 0);
    watch =
        fixture_watch(f, &other, MST_WATCH_KEYS, "addr", fixture_reply(f, &other, watch)->revision);
    fixture_disconnect(f, &owner); /* silent: it may come back */
    EXPECT_INT(f, fixture_get(f, &other, "address")->status, MUSTER_OK);
    fixture_pass(f, FIXTURE_LEASE_MS / 2);
    fixture_renew(f, &other);
    fixture_pass(f, FIXTURE_LEASE_MS / 2);
    EXPECT_INT(f, fixture_get(f, &other, "address")->status, MUSTER_ENOTFOUND);
    EXPECT_TEXT(f, fixture_get(f, &other, "taken")->value, "mine now");
    reply = fixture_reply(f, &other, watch);
    EXPECT_INT(f, reply->item_count, 1);
    EXPECT_INT(f, reply->item_count > 0 ? reply->items[0].kind : 0, MST_ITEM_DELETED);
}

/* A key is written in the key space of a generation. It is apart from the job's key of that
 * name. Only the current generation is accepted; any other is refused (EFENCED), and the session
 * goes on. [Keys that go] */
static void a_generation_has_keys_of_its_own(struct fixture *f)
{
    struct client rank;
    struct mst_write put = op(MST_PUT, "k", "of generation 1");
    struct mst_request write = batch(&put, 1);
    struct mst_request get = {.command = MST_GET, .get = {.key = mst_slice_text("k")}};

    fixture_seal(f, &rank, 1);
    write.write.generation = 1;
    EXPECT_INT(f, fixture_call(f, &rank, write)->status, MUSTER_OK);
    EXPECT_INT(f, fixture_call(f, &rank, get)->status, MUSTER_ENOTFOUND);
    get.get.generation = 1;
    EXPECT_TEXT(f, fixture_call(f, &rank, get)->value, "of generation 1");
    get.get.generation = 2;
    EXPECT_INT(f, fixture_call(f, &rank, get)->status, MUSTER_EFENCED);
    write.write.generation = 7;
    EXPECT_INT(f, fixture_call(f, &rank, write)->status, MUSTER_EFENCED);
}

static void few(struct mst_core_config *config)
{
    config->limits.keys_max = 3;
    config->limits.key_bytes_max = 8;
    config->limits.value_bytes_max = 16;
    config->limits.job_bytes_max = 40;
    config->limits.batch_max = 4;
    config->limits.wait_keys_max = 2;
}

static void expect_limit(struct fixture *f, const struct mst_reply *reply, int64_t limit)
{
    EXPECT_INT(f, reply->status, MUSTER_ELIMIT);
    EXPECT(f, reply->has_detail);
    EXPECT_INT(f, reply->detail.limit, limit);
}

/* A name, a value, a batch, a wait, or the keys of a job together are over their limit. The
 * request is refused (ELIMIT) with the limit by its flag, its value and what was asked for, and
 * nothing has changed. [Limits] */
static void every_limit_is_named(struct fixture *f)
{
    const char *const names[] = {"a", "b", "c"};
    struct mst_write ops[5] = {op(MST_PUT, "a", ""), op(MST_PUT, "b", ""), op(MST_PUT, "c", ""),
                               op(MST_PUT, "d", ""), op(MST_PUT, "e", "")};
    struct client client = observer(f);

    fixture_connect(f, &client);
    expect_limit(f, fixture_write(f, &client, MST_PUT, "123456789", ""), 8);
    expect_limit(f, fixture_get(f, &client, "123456789"), 8);
    expect_limit(f, fixture_write(f, &client, MST_PUT, "k", "12345678901234567"), 16);
    fixture_write(f, &client, MST_PUT, "k", "1234567890");
    expect_limit(f, fixture_write(f, &client, MST_APPEND, "k", "1234567"), 16);
    EXPECT_TEXT(f, fixture_get(f, &client, "k")->value, "1234567890");
    expect_limit(f, fixture_call(f, &client, batch(ops, 5)), 4);
    expect_limit(f, fixture_call(f, &client, batch(ops, 4)), 3); /* keys: one is there already */
    EXPECT_INT(f, fixture_get(f, &client, "a")->status, MUSTER_ENOTFOUND);
    EXPECT_INT(f, fixture_call(f, &client, batch(ops, 2))->status, MUSTER_OK);
    expect_limit(f, fixture_write(f, &client, MST_PUT, "c", ""), 3);
    fixture_write(f, &client, MST_PUT, "a", "1234567890123456");
    expect_limit(f, fixture_write(f, &client, MST_PUT, "b", "1234567890123456"), 40);
    expect_limit(f, fixture_reply(f, &client, wait_all(f, &client, names, 3)), 2);
    expect_limit(f, fixture_reply(f, &client, fixture_wait_get(f, &client, "c")), 3);
    fixture_write(f, &client, MST_DELETE, "a", "");
    EXPECT_INT(f, fixture_write(f, &client, MST_PUT, "c", "1")->status, MUSTER_OK);
}

/* A batch deletes a key and makes another when the job is full. It fits. */
static void a_batch_makes_room_for_itself(struct fixture *f)
{
    struct mst_write ops[2] = {op(MST_DELETE, "a", ""), op(MST_PUT, "d", "")};
    struct client client = observer(f);

    fixture_connect(f, &client);
    fixture_write(f, &client, MST_PUT, "a", "");
    fixture_write(f, &client, MST_PUT, "b", "");
    fixture_write(f, &client, MST_PUT, "c", "");
    fixture_write(f, &client, MST_DELETE, "c", "");
    fixture_write(f, &client, MST_PUT, "c", ""); /* a tombstone revived counts again */
    expect_limit(f, fixture_write(f, &client, MST_PUT, "d", ""), 3);
    EXPECT_INT(f, fixture_call(f, &client, batch(ops, 2))->status, MUSTER_OK);
    EXPECT_INT(f, fixture_get(f, &client, "d")->status, MUSTER_OK);
}

/* A name is empty or has a NUL byte in it. It is refused (EINVAL). [One key] */
static void names_that_are_none(struct fixture *f)
{
    struct client client = observer(f);
    struct mst_write put = op(MST_PUT, "", "x");

    fixture_connect(f, &client);
    EXPECT_INT(f, fixture_call(f, &client, batch(&put, 1))->status, MUSTER_EINVAL);
    put.key = mst_slice_of("a\0b", 3);
    EXPECT_INT(f, fixture_call(f, &client, batch(&put, 1))->status, MUSTER_EINVAL);
    EXPECT_INT(f, fixture_get(f, &client, "")->status, MUSTER_EINVAL);
    EXPECT_INT(f, fixture_call(f, &client, batch(&put, 0))->status, MUSTER_EINVAL);
}

/* ---- what is there only for those who wait ---- */

static void waits_alone(struct fixture *f, struct client *client, uint64_t id, const char *key)
{
    const struct mst_request get = {.id = id,
                                    .oldest = id,
                                    .command = MST_GET,
                                    .get = {.key = mst_slice_text(key), .wait = true}};

    (void)mst_core_request(f->core, f->now_ns, client->conn, &get);
}

/* Without what it causes for others. */
static void writes_alone(struct fixture *f, struct client *client, uint64_t id, struct mst_write op)
{
    const struct mst_request write = {
        .id = id, .oldest = id, .command = MST_WRITE, .write = {.ops = &op, .count = 1}};

    (void)mst_core_request(f->core, f->now_ns, client->conn, &write);
}

/* As a shell without room does. */
static void defer_gets(struct fixture *f)
{
    const struct mst_effect *effect;

    while ((effect = mst_core_next(f->core))) {
        if (effect->type == MST_EFFECT_REPLY && effect->reply->command == MST_GET) {
            mst_core_defer(f->core, effect);
        } else {
            mst_core_done(f->core, effect);
        }
        mst_core_check(f->core);
    }
}

static void a_value_is_charged_once_no_key_has_it(struct fixture *f)
{
    struct client readers[2] = {observer(f), observer(f)};
    struct client writer = observer(f);
    const struct mst_effect *effect;

    fixture_connect(f, &writer);
    fixture_connect(f, &readers[0]);
    fixture_connect(f, &readers[1]);
    if (f->mem.failed) {
        return;
    }
    waits_alone(f, &readers[0], 1, "k");
    waits_alone(f, &readers[1], 1, "k");
    if (f->mem.failed) {
        return;
    }
    EXPECT(f, mst_core_pinned_by(f->core, readers[1].conn) > 0); /* what waits */
    EXPECT(f, mst_core_pinned_by(f->core, readers[0].conn) >
                  mst_core_pinned_by(f->core, readers[1].conn)); /* and the name, of the first */
    EXPECT_INT(f, mst_core_pinned(f->core),
               mst_core_pinned_by(f->core, readers[0].conn) +
                   mst_core_pinned_by(f->core, readers[1].conn));
    writes_alone(f, &writer, 1, op(MST_PUT, "k", "1234567890"));
    defer_gets(f);
    if (f->mem.failed) {
        return;
    }
    EXPECT_INT(f, mst_core_pinned(f->core), 0); /* the key has it still */
    writes_alone(f, &writer, 2, op(MST_PUT, "k", "2"));
    defer_gets(f);
    if (f->mem.failed) {
        return;
    }
    EXPECT_INT(f, mst_core_pinned(f->core), 10);
    EXPECT_INT(f, mst_core_pinned_by(f->core, readers[0].conn), 5);
    EXPECT_INT(f, mst_core_pinned_by(f->core, readers[1].conn), 5);
    EXPECT_INT(f, mst_core_pinned_by(f->core, writer.conn), 0);
    fixture_disconnect(f, &readers[0]);
    EXPECT_INT(f, mst_core_pinned_by(f->core, readers[1].conn), 10);
    mst_core_resume_deferred(f->core, readers[1].conn);
    effect = mst_core_next(f->core);
    EXPECT(f, effect && effect->type == MST_EFFECT_REPLY);
    if (effect) {
        EXPECT_TEXT(f, effect->reply->value, "1234567890"); /* what it waited for came */
        mst_core_done(f->core, effect);
    }
    EXPECT_INT(f, mst_core_pinned(f->core), 0);
}

/* ---- all keys under a prefix ---- */

static const struct mst_reply *delete_prefix(struct fixture *f, struct client *client,
                                             struct mst_slice prefix, uint64_t generation)
{
    return fixture_call(
        f, client,
        (struct mst_request){.command = MST_DELETE_PREFIX,
                             .delete_prefix = {.prefix = prefix, .generation = generation}});
}

/* All keys under a prefix are deleted. The reply says how many; others stay, a watch reports each,
 * an owner of one owns it no more, and a name that is waited for is still waited for. A second time
 * there is none. */
static void a_prefix_is_deleted_at_once(struct fixture *f)
{
    struct client client = observer(f), owner = observer(f);
    struct mst_write owned = op(MST_PUT, "b/owned", "x");
    const struct mst_reply *reply;
    uint64_t revision, waits, watch;

    owned.owned = true;
    fixture_connect(f, &client);
    fixture_connect(f, &owner);
    fixture_write(f, &client, MST_PUT, "b", "beside");
    fixture_write(f, &client, MST_PUT, "b/1", "one");
    fixture_write(f, &client, MST_PUT, "b/2/3", "two");
    fixture_write(f, &client, MST_PUT, "b/gone", "x");
    fixture_write(f, &client, MST_DELETE, "b/gone", "");
    fixture_write(f, &client, MST_PUT, "b0", "beside");
    revision = fixture_call(f, &owner, batch(&owned, 1))->revision;
    waits = fixture_wait_get(f, &owner, "b/late");
    watch = fixture_watch(f, &client, MST_WATCH_KEYS, "b/", revision);
    reply = delete_prefix(f, &client, mst_slice_text("b/"), 0);
    EXPECT_INT(f, reply->status, MUSTER_OK);
    EXPECT_INT(f, reply->number, 3);
    EXPECT_INT(f, reply->revision, revision + 3);
    reply = fixture_reply(f, &client, watch);
    EXPECT_INT(f, reply->item_count, 3);
    for (uint32_t i = 0; i < reply->item_count; i++) {
        EXPECT_INT(f, reply->items[i].kind, MST_ITEM_DELETED);
    }
    EXPECT_INT(f, list(f, &client, "", mst_slice_of(NULL, 0))->item_count, 2);
    EXPECT_INT(f, fixture_reply(f, &owner, waits)->status, MUSTER_MORE);
    fixture_write(f, &client, MST_PUT, "b/late", "here");
    EXPECT_TEXT(f, fixture_reply(f, &owner, waits)->value, "here");
    EXPECT_INT(f, delete_prefix(f, &client, mst_slice_text("b/"), 0)->number, 1);
    reply = delete_prefix(f, &client, mst_slice_text("b/"), 0);
    EXPECT_INT(f, reply->status, MUSTER_OK);
    EXPECT_INT(f, reply->number, 0);
    EXPECT_INT(f, delete_prefix(f, &client, mst_slice_text(""), 0)->status, MUSTER_EINVAL);
    EXPECT_INT(f, delete_prefix(f, &client, mst_slice_of("b\0", 2), 0)->status, MUSTER_EINVAL);
}

/* All keys under a prefix are deleted in the key space of a generation. The job's own keys of that
 * prefix stay; another generation than the current one is refused (EFENCED). [Keys that go] */
static void a_prefix_is_deleted_in_one_key_space(struct fixture *f)
{
    struct client rank;
    struct mst_write put = op(MST_PUT, "a/1", "of generation 1");
    struct mst_request write = batch(&put, 1);

    fixture_seal(f, &rank, 1);
    fixture_write(f, &rank, MST_PUT, "a/1", "of the job");
    write.write.generation = 1;
    (void)fixture_call(f, &rank, write);
    EXPECT_INT(f, delete_prefix(f, &rank, mst_slice_text("a/"), 7)->status, MUSTER_EFENCED);
    EXPECT_INT(f, delete_prefix(f, &rank, mst_slice_text("a/"), 1)->number, 1);
    EXPECT_TEXT(f, fixture_get(f, &rank, "a/1")->value, "of the job");
}

/* More keys than one step deletes are under a prefix. Each step takes the first ones by the order
 * of their bytes, and its reply says (revision 0) that more are left. The deletions before the last
 * few are forgotten, and a watcher from before them is reset. */
static void many_keys_are_deleted_in_steps(struct fixture *f)
{
    enum { AT_ONCE = 128, BEYOND = 2 * AT_ONCE };
    struct client client = observer(f);
    struct mst_write ops[AT_ONCE];
    char names[AT_ONCE][16];
    const struct mst_reply *reply;
    uint64_t watch;

    fixture_connect(f, &client);
    for (unsigned i = 0; i < MST_DELETE_STEP + BEYOND; i += AT_ONCE) {
        for (unsigned j = 0; j < AT_ONCE; j++) {
            (void)snprintf(names[j], sizeof(names[j]), "k/%06u", i + j);
            ops[j] = op(MST_PUT, names[j], "");
        }
        EXPECT_INT(f, fixture_call(f, &client, batch(ops, AT_ONCE))->status, MUSTER_OK);
        if (i % (AT_ONCE * 16) == 0) {
            fixture_forget(f);
        }
    }
    reply = delete_prefix(f, &client, mst_slice_text("k/"), 0);
    EXPECT_INT(f, reply->number, MST_DELETE_STEP);
    EXPECT_INT(f, reply->revision, 0);
    (void)snprintf(names[0], sizeof(names[0]), "k/%06u", MST_DELETE_STEP - 1);
    EXPECT_INT(f, fixture_get(f, &client, names[0])->status, MUSTER_ENOTFOUND);
    (void)snprintf(names[0], sizeof(names[0]), "k/%06u", MST_DELETE_STEP);
    EXPECT_INT(f, fixture_get(f, &client, names[0])->status, MUSTER_OK);
    reply = delete_prefix(f, &client, mst_slice_text("k/"), 0);
    EXPECT_INT(f, reply->number, BEYOND);
    EXPECT(f, reply->revision > 0);
    watch = fixture_watch(f, &client, MST_WATCH_KEYS, "k/", 1);
    reply = fixture_reply(f, &client, watch);
    EXPECT(f, reply->item_count > 0 && reply->items[0].kind == MST_ITEM_RESET);
}

#define SCENARIO(name)                                                                             \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        fixture_run(name);                                                                         \
    }

#define SCENARIOS(X)                                                                               \
    X(the_single_operations)                                                                       \
    X(compare_and_set)                                                                             \
    X(adding)                                                                                      \
    X(a_batch_is_all_or_nothing)                                                                   \
    X(a_batch_sees_itself_and_others_see_its_end)                                                  \
    X(a_get_can_wait)                                                                              \
    X(a_value_is_the_one_of_the_moment)                                                            \
    X(a_value_is_charged_once_no_key_has_it)                                                       \
    X(a_wait_for_several_is_latched)                                                               \
    X(an_age_counts_from_the_last_write)                                                           \
    X(a_prefix_is_listed_in_order)                                                                 \
    X(large_values_make_short_pages)                                                               \
    X(an_owned_key_vanishes_with_its_owner)                                                        \
    X(a_prefix_is_deleted_at_once)                                                                 \
    X(a_prefix_is_deleted_in_one_key_space)                                                        \
    X(a_generation_has_keys_of_its_own)                                                            \
    X(names_that_are_none)

SCENARIOS(SCENARIO)

static void test_a_long_listing_comes_in_pages(void **state)
{
    (void)state;
    fixture_run_once(a_long_listing_comes_in_pages);
}

static void test_many_keys_are_deleted_in_steps(void **state)
{
    (void)state;
    fixture_run_once(many_keys_are_deleted_in_steps);
}

static void test_every_limit_is_named(void **state)
{
    (void)state;
    fixture_run_with(every_limit_is_named, few);
}

static void test_a_batch_makes_room_for_itself(void **state)
{
    (void)state;
    fixture_run_with(a_batch_makes_room_for_itself, few);
}

#define ROW(name) cmocka_unit_test(test_##name),

int main(void)
{
    const struct CMUnitTest tests[] = {SCENARIOS(ROW)
                                           cmocka_unit_test(test_a_long_listing_comes_in_pages),
                                       cmocka_unit_test(test_many_keys_are_deleted_in_steps),
                                       cmocka_unit_test(test_every_limit_is_named),
                                       cmocka_unit_test(test_a_batch_makes_room_for_itself)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
