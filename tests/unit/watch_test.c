/* SPDX-License-Identifier: Apache-2.0 */
/* Watches: what wakes them, what they are told, and how a reader that was away too long begins
 * again without missing anything.
 *
 * behaviour: watches / Watches */
#include "core_fixture.h"

#include <stdio.h>

static struct mst_item item_of(const struct mst_reply *reply, uint32_t position)
{
    return reply && position < reply->item_count ? reply->items[position] : (struct mst_item){0};
}

static struct client observer(struct fixture *f)
{
    return fixture_client(f, MST_ROLE_OBSERVER, 0);
}

static const struct mst_reply *watch_now(struct fixture *f, struct client *client, uint32_t kinds,
                                         const char *prefix, uint64_t after)
{
    return fixture_reply(f, client, fixture_watch(f, client, kinds, prefix, after));
}

/* A key under the prefix changes. The watches of it show that, and no others. */
static void a_change_wakes_who_watches_its_prefix(struct fixture *f)
{
    struct client client = observer(f);
    const char *const prefixes[] = {"", "a", "a/", "a/key", "a/key2", "b"};
    const bool woken[] = {true, true, true, true, false, false};
    uint64_t ids[6];

    fixture_connect(f, &client);
    for (int i = 0; i < 6; i++) {
        ids[i] = fixture_watch(f, &client, MST_WATCH_KEYS, prefixes[i], 0);
        EXPECT_INT(f, fixture_reply(f, &client, ids[i])->status, MUSTER_MORE);
    }
    fixture_write(f, &client, MST_PUT, "a/key", "v");
    for (int i = 0; i < 6; i++) {
        const struct mst_reply *reply = fixture_reply(f, &client, ids[i]);

        EXPECT_INT(f, reply->status, woken[i] ? MUSTER_OK : MUSTER_MORE);
        if (woken[i]) {
            EXPECT_INT(f, reply->item_count, 1);
            EXPECT_TEXT(f, item_of(reply, 0).name, "a/key");
            EXPECT_TEXT(f, item_of(reply, 0).value, "v");
        }
    }
}

/* A key changed many times since the last look. It is shown once, with its newest value; one
 * made and deleted meanwhile is shown as deleted. */
static void only_the_newest_state_is_told(struct fixture *f)
{
    struct client client = observer(f);
    const struct mst_reply *reply;
    uint64_t after;

    fixture_connect(f, &client);
    fixture_write(f, &client, MST_PUT, "k", "0");
    after = watch_now(f, &client, MST_WATCH_KEYS, "", 0)->revision;
    for (int i = 0; i < 5; i++) {
        fixture_add(f, &client, "k", 1);
    }
    fixture_write(f, &client, MST_PUT, "gone", "x");
    fixture_write(f, &client, MST_DELETE, "gone", "");
    reply = watch_now(f, &client, MST_WATCH_KEYS, "", after);
    EXPECT_INT(f, reply->item_count, 2);
    EXPECT_TEXT(f, item_of(reply, 0).value, "5");
    EXPECT_INT(f, item_of(reply, 1).kind, MST_ITEM_DELETED);
    EXPECT_TEXT(f, item_of(reply, 1).name, "gone");
    after = reply->revision;
    EXPECT_INT(f, watch_now(f, &client, MST_WATCH_KEYS, "", after)->status, MUSTER_MORE);
    /* From the beginning: what is there, no tombstones. */
    EXPECT_INT(f, watch_now(f, &client, MST_WATCH_KEYS, "", 0)->item_count, 1);
}

/* Keys, members, faults and the view change. One watch can show all of them, in the order of
 * their changes. */
static void kinds_are_told_in_the_order_of_their_changes(struct fixture *f)
{
    struct client ranks[2];
    struct client watcher = observer(f);
    const uint32_t all = MST_WATCH_KEYS | MST_WATCH_MEMBERS | MST_WATCH_FAULTS | MST_WATCH_VIEW;
    struct mst_request fault = {.command = MST_FAULT, .fault = {.generation = 1, .code = 2}};
    const struct mst_reply *reply;
    uint64_t after;

    fixture_seal(f, ranks, 2);
    fixture_connect(f, &watcher);
    after = watch_now(f, &watcher, all, "", 0)->revision;
    EXPECT_INT(f, watch_now(f, &watcher, all, "", after)->status, MUSTER_MORE);
    fixture_write(f, &ranks[0], MST_PUT, "k", "v");
    fixture_disconnect(f, &ranks[1]);
    fixture_call(f, &ranks[0], fault);
    reply = watch_now(f, &watcher, all, "", after);
    EXPECT_INT(f, reply->item_count, 4);
    EXPECT_INT(f, item_of(reply, 0).kind, MST_ITEM_KEY);
    EXPECT_INT(f, item_of(reply, 1).kind, MST_ITEM_MEMBER);
    EXPECT_INT(f, item_of(reply, 1).who.state, MST_SILENT);
    EXPECT_INT(f, item_of(reply, 2).kind, MST_ITEM_FAULT);
    EXPECT_INT(f, item_of(reply, 2).who.code, 2);
    EXPECT_INT(f, item_of(reply, 3).kind, MST_ITEM_VIEW);
    EXPECT(f, reply->has_view);
    EXPECT_INT(f, reply->view.generation, 1);
    EXPECT_INT(f, reply->view.rank, MST_RANK_NONE);
    EXPECT_INT(f, reply->view.attention, MST_INTERRUPT);
}

/* A rank watches the view. It gets its own rank, index and incarnation in it. */
static void a_rank_is_told_its_own_view(struct fixture *f)
{
    struct client ranks[2];
    const struct mst_reply *reply;

    fixture_seal(f, ranks, 2);
    reply = watch_now(f, &ranks[1], MST_WATCH_VIEW, "", 0);
    EXPECT_INT(f, reply->view.rank, 1);
    EXPECT_INT(f, reply->view.index, 1);
    EXPECT_INT(f, reply->view.incarnation, 1);
    EXPECT_INT(f, reply->view.size, 2);
}

/* ---- of one node ---- */

enum { PLACES = 3 };

/* Two agents, and ranks of which the first and the last belong to node 1. */
struct two_nodes {
    struct client agents[2];
    struct client ranks[PLACES];
};

static void begin_two_nodes(struct fixture *f, struct two_nodes *n)
{
    for (uint32_t i = 0; i < 2; i++) {
        n->agents[i] = fixture_client(f, MST_ROLE_AGENT, i);
        fixture_connect(f, &n->agents[i]);
    }
    for (uint32_t i = 0; i < PLACES; i++) {
        n->ranks[i] = fixture_rank(f, i, PLACES);
        n->ranks[i].open.node = i == 1 ? 0 : 1;
        fixture_connect(f, &n->ranks[i]);
        fixture_join(f, &n->ranks[i]);
    }
}

static uint64_t watch_node(struct fixture *f, struct client *client, uint32_t kinds, uint32_t node,
                           uint64_t after)
{
    return fixture_send(
        f, client,
        (struct mst_request){.command = MST_WATCH,
                             .watch = {.kinds = kinds, .after = after, .node = node}});
}

static bool tells(const struct mst_reply *reply, enum mst_role role, uint32_t index)
{
    for (uint32_t i = 0; i < reply->item_count; i++) {
        if (reply->items[i].kind == MST_ITEM_MEMBER && reply->items[i].who.role == role &&
            reply->items[i].who.index == index) {
            return true;
        }
    }
    return false;
}

static void a_node_is_told_of_its_own_only(struct fixture *f)
{
    struct two_nodes n;
    const struct mst_reply *reply;
    uint64_t own, other, all, after;

    begin_two_nodes(f, &n);
    reply = fixture_reply(f, &n.agents[1], watch_node(f, &n.agents[1], MST_WATCH_MEMBERS, 1, 0));
    EXPECT_INT(f, reply->item_count, 3);
    EXPECT(f, tells(reply, MST_ROLE_AGENT, 1) && tells(reply, MST_ROLE_RANK, 0) &&
                  tells(reply, MST_ROLE_RANK, 2));
    after = reply->revision;
    own = watch_node(f, &n.agents[1], MST_WATCH_MEMBERS, 1, after);
    other = watch_node(f, &n.agents[0], MST_WATCH_MEMBERS, 0, after);
    all = fixture_watch(f, &n.agents[0], MST_WATCH_MEMBERS, "", after);
    EXPECT_INT(f, fixture_reply(f, &n.agents[1], own)->status, MUSTER_MORE);
    fixture_disconnect(f, &n.ranks[1]);
    EXPECT_INT(f, fixture_reply(f, &n.agents[1], own)->status, MUSTER_MORE);
    reply = fixture_reply(f, &n.agents[0], other);
    EXPECT_INT(f, reply->item_count, 1);
    EXPECT(f, tells(reply, MST_ROLE_RANK, 1));
    EXPECT(f, tells(fixture_reply(f, &n.agents[0], all), MST_ROLE_RANK, 1));
    other = watch_node(f, &n.agents[0], MST_WATCH_MEMBERS, 0, reply->revision);
    fixture_disconnect(f, &n.ranks[2]);
    reply = fixture_reply(f, &n.agents[1], own);
    EXPECT_INT(f, reply->item_count, 1);
    EXPECT(f, tells(reply, MST_ROLE_RANK, 2));
    EXPECT_INT(f, fixture_reply(f, &n.agents[0], other)->status, MUSTER_MORE);
}

static void a_node_is_told_of_the_losses_of_its_own(struct fixture *f)
{
    struct two_nodes n;
    const struct mst_reply *reply;
    struct mst_request lost = {.command = MST_LOST, .lost = {.cause = MST_CAUSE_SIGNAL, .code = 9}};
    uint64_t own, other;

    begin_two_nodes(f, &n);
    own = watch_node(f, &n.agents[1], MST_WATCH_MEMBERS, 1, 0);
    own = watch_node(f, &n.agents[1], MST_WATCH_MEMBERS, 1,
                     fixture_reply(f, &n.agents[1], own)->revision);
    other = watch_node(f, &n.agents[0], MST_WATCH_MEMBERS, 0, 0);
    other = watch_node(f, &n.agents[0], MST_WATCH_MEMBERS, 0,
                       fixture_reply(f, &n.agents[0], other)->revision);
    lost.lost.index = 2;
    lost.lost.pid = n.ranks[2].open.pid;
    fixture_call(f, &n.agents[1], lost);
    reply = fixture_reply(f, &n.agents[1], own);
    EXPECT_INT(f, reply->item_count, 1);
    EXPECT_INT(f, item_of(reply, 0).who.state, MST_STATE_LOST);
    EXPECT_INT(f, item_of(reply, 0).who.index, 2);
    EXPECT_INT(f, fixture_reply(f, &n.agents[0], other)->status, MUSTER_MORE);
}

/* The next incarnation of a place is another node's. Watches of either node show that. */
static void a_place_may_go_to_another_node(struct fixture *f)
{
    struct two_nodes n;
    struct client moved;
    const struct mst_reply *reply;
    struct mst_request lost = {.command = MST_LOST,
                               .lost = {.index = 2, .cause = MST_CAUSE_SIGNAL, .code = 9}};
    uint64_t old, now, after;

    begin_two_nodes(f, &n);
    lost.lost.pid = n.ranks[2].open.pid;
    (void)fixture_call(f, &n.agents[1], lost);
    after = fixture_reply(f, &n.agents[1], watch_node(f, &n.agents[1], MST_WATCH_MEMBERS, 1, 0))
                ->revision;
    old = watch_node(f, &n.agents[1], MST_WATCH_MEMBERS, 1, after);
    now = watch_node(f, &n.agents[0], MST_WATCH_MEMBERS, 0, after);
    moved = fixture_rank(f, 2, PLACES);
    moved.open.node = 0;
    fixture_connect(f, &moved);
    EXPECT_INT(f, fixture_reply(f, &n.agents[1], old)->status, MUSTER_MORE);
    reply = fixture_reply(f, &n.agents[0], now);
    EXPECT_INT(f, reply->item_count, 1);
    EXPECT(f, tells(reply, MST_ROLE_RANK, 2));
    reply = fixture_reply(f, &n.agents[1], watch_node(f, &n.agents[1], MST_WATCH_MEMBERS, 1, 0));
    EXPECT_INT(f, reply->item_count, 2);
    EXPECT(f, !tells(reply, MST_ROLE_RANK, 2));
    fixture_disconnect(f, &n.agents[1]); /* with a watch of its own that waits */
    fixture_disconnect(f, &moved);
}

static void a_node_from_the_future_begins_again(struct fixture *f)
{
    struct two_nodes n;
    const struct mst_reply *reply;

    begin_two_nodes(f, &n);
    reply =
        fixture_reply(f, &n.agents[0], watch_node(f, &n.agents[0], MST_WATCH_MEMBERS, 0, 1000000));
    EXPECT_INT(f, reply->item_count, 3);
    EXPECT_INT(f, item_of(reply, 0).kind, MST_ITEM_RESET);
    EXPECT(f, tells(reply, MST_ROLE_AGENT, 0) && tells(reply, MST_ROLE_RANK, 1));
}

/* A node has more than a page of ranks. Their list is continued. */
static void a_long_listing_of_a_node_is_continued(struct fixture *f)
{
    enum { MANY = 2 * MST_PAGE_ITEMS + 80 };
    static struct client ranks[MANY];
    struct client agent = fixture_client(f, MST_ROLE_AGENT, 7);
    const struct mst_reply *reply;
    uint32_t seen = 0;

    fixture_connect(f, &agent);
    for (uint32_t i = 0; i < MANY; i++) {
        ranks[i] = fixture_rank(f, i, MANY);
        ranks[i].open.node = i % 2 ? 7 : 6;
        fixture_connect(f, &ranks[i]);
    }
    reply = fixture_reply(f, &agent, watch_node(f, &agent, MST_WATCH_MEMBERS, 7, 0));
    EXPECT_INT(f, reply->item_count, MST_PAGE_ITEMS);
    EXPECT(f, (reply->revision & MST_CURSOR_LISTING) != 0);
    seen += reply->item_count;
    reply = fixture_reply(f, &agent, watch_node(f, &agent, MST_WATCH_MEMBERS, 7, reply->revision));
    seen += reply->item_count;
    EXPECT_INT(f, seen, MANY / 2 + 1);
    EXPECT(f, (reply->revision & MST_CURSOR_LISTING) == 0);
    for (uint32_t i = 0; i < reply->item_count; i++) {
        EXPECT_INT(f, item_of(reply, i).who.node, 7);
    }
}

/* A claim is waited for, and its place, the loss and a new generation come in one step, between
 * two looks of the watch. The watch that it began before shows its place in the generation, not
 * an empty one. */
static void a_claim_that_is_sealed_at_once_is_told_its_place(struct fixture *f)
{
    struct client holder = fixture_rank(f, 0, 2);
    struct client claimant = fixture_rank(f, 0, 2);
    struct client other = fixture_rank(f, 1, 2);
    const struct mst_reply *reply;
    uint64_t after, watch;

    fixture_connect(f, &holder);
    fixture_join(f, &holder);
    fixture_disconnect(f, &holder);
    fixture_connect(f, &claimant);
    fixture_join(f, &claimant);
    after = watch_now(f, &claimant, MST_WATCH_VIEW, "", 0)->revision;
    watch = fixture_watch(f, &claimant, MST_WATCH_VIEW, "", after);
    fixture_connect(f, &other);
    fixture_join(f, &other);
    fixture_pass_renewing(f, FIXTURE_LEASE_MS + 1000);
    reply = fixture_reply(f, &claimant, watch);
    EXPECT_INT(f, reply->status, MUSTER_OK);
    EXPECT_INT(f, reply->view.generation, 1);
    EXPECT_INT(f, reply->view.rank, 0);
    EXPECT_INT(f, reply->view.index, 0);
    EXPECT_INT(f, reply->view.incarnation, 2);
}

/* A generation is over. Its faults are no longer shown. */
static void faults_go_with_their_generation(struct fixture *f)
{
    struct client rank;
    struct mst_request fault = {.command = MST_FAULT, .fault = {.generation = 1, .code = 2}};
    struct mst_request seal = fixture_round(1, "seal", 0);

    fixture_seal(f, &rank, 1);
    fixture_call(f, &rank, fault);
    EXPECT_INT(f, watch_now(f, &rank, MST_WATCH_FAULTS, "", 0)->item_count, 1);
    seal.round.seal = true;
    seal.round.on_loss = MST_PROCEED;
    EXPECT_INT(f, fixture_call(f, &rank, seal)->status, MUSTER_OK);
    EXPECT_INT(f, watch_now(f, &rank, MST_WATCH_FAULTS, "", 0)->status, MUSTER_MORE);
}

/* A watch has more than fits one answer. It comes in pages, and what changes between two pages
 * is not missed. */
static void a_long_listing_is_continued(struct fixture *f)
{
    struct client client = observer(f);
    char name[4] = "k00";
    const struct mst_reply *reply;
    uint32_t seen = 0;
    uint64_t after = 0;

    fixture_connect(f, &client);
    for (int i = 0; i < 40; i++) { /* deletions that are forgotten before the listing begins */
        fixture_write(f, &client, MST_PUT, "gone", "");
        name[2] = (char)('a' + i % 26);
        name[1] = (char)('A' + i / 26);
        fixture_write(f, &client, MST_PUT, name, "");
        fixture_write(f, &client, MST_DELETE, name, "");
    }
    for (int i = 0; i < 600; i++) {
        name[1] = (char)('0' + i / 26);
        name[2] = (char)('a' + i % 26);
        fixture_write(f, &client, MST_PUT, name, "v");
    }
    reply = watch_now(f, &client, MST_WATCH_KEYS, "k", after);
    EXPECT_INT(f, reply->item_count, MST_PAGE_ITEMS);
    seen += reply->item_count;
    /* One of those told already is deleted: the next pages say so. */
    fixture_write(f, &client, MST_DELETE, "k0a", "");
    reply = watch_now(f, &client, MST_WATCH_KEYS, "k", reply->revision);
    EXPECT_INT(f, item_of(reply, 0).kind, MST_ITEM_KEY);
    seen += reply->item_count;
    reply = watch_now(f, &client, MST_WATCH_KEYS, "k", reply->revision);
    seen += reply->item_count;
    EXPECT_INT(f, seen, 601);
    EXPECT_INT(f, item_of(reply, reply->item_count - 1).kind, MST_ITEM_DELETED);
    after = reply->revision;
    EXPECT_INT(f, watch_now(f, &client, MST_WATCH_KEYS, "k", after)->status, MUSTER_MORE);
}

enum { MANY = 6000, AT_ONCE = 100 }; /* more than are kept as the latest */

/* Puts so many of them, every `step`-th from `first` on. */
static void put_many(struct fixture *f, struct client *client, uint32_t first, uint32_t step,
                     uint32_t count)
{
    static char names[AT_ONCE][8];
    static struct mst_write ops[AT_ONCE];
    struct mst_request request = {.command = MST_WRITE, .write = {.ops = ops, .count = AT_ONCE}};

    for (uint32_t done = 0; done < count; done += AT_ONCE) {
        for (uint32_t i = 0; i < AT_ONCE; i++) {
            uint32_t number = (first + (done + i) * step) % MANY;

            (void)snprintf(names[i], sizeof(names[i]), "k%05u", (unsigned)number);
            ops[i] = (struct mst_write){
                .kind = MST_PUT, .key = mst_slice_text(names[i]), .value = mst_slice_text("v")};
        }
        EXPECT_INT(f, fixture_call(f, client, request)->status, MUSTER_OK);
    }
}

/* Follows the changes to their end: so many, the first of this name. */
static uint64_t follow(struct fixture *f, struct client *client, uint64_t after, uint32_t expected,
                       const char *first)
{
    uint64_t last = 0;
    uint32_t seen = 0;

    while (seen < expected) {
        const struct mst_reply *reply = watch_now(f, client, MST_WATCH_KEYS, "k", after);

        EXPECT_INT(f, reply->status, MUSTER_OK);
        EXPECT(f, reply->item_count > 0);
        if (seen == 0) {
            EXPECT_TEXT(f, item_of(reply, 0).name, first);
        }
        for (uint32_t i = 0; i < reply->item_count; i++, seen++) {
            EXPECT(f, item_of(reply, i).revision > last);
            last = item_of(reply, i).revision;
        }
        after = reply->revision;
    }
    EXPECT_INT(f, seen, expected);
    EXPECT_INT(f, watch_now(f, client, MST_WATCH_KEYS, "k", after)->status, MUSTER_MORE);
    return after;
}

/* Many changes are shown in their order, whether they are among the latest or not. */
static void many_changes_are_told_in_their_order(struct fixture *f)
{
    struct client client = observer(f);
    uint64_t after;

    fixture_connect(f, &client);
    put_many(f, &client, 0, 1, MANY);
    after = follow(f, &client, 0, MANY, "k00000");
    put_many(f, &client, 3000, 1, 300); /* some of the latest, */
    after = follow(f, &client, after, 300, "k03000");
    put_many(f, &client, 0, 1, 200); /* and some of the others */
    (void)follow(f, &client, after, 200, "k00000");
    (void)follow(f, &client, 0, MANY, "k00200");
    fixture_write(f, &client, MST_DELETE, "k05000", "");
    put_many(f, &client, 200, 7, MANY); /* each of them: 7 divides nothing here */
    (void)follow(f, &client, 0, MANY, "k00200");
}

/* ---- what a watch costs ---- */

static void put_under(struct fixture *f, struct client *client, const char *prefix, uint32_t count)
{
    static char names[AT_ONCE][16];
    static struct mst_write ops[AT_ONCE];
    struct mst_request request = {.command = MST_WRITE, .write = {.ops = ops, .count = AT_ONCE}};

    for (uint32_t done = 0; done < count; done += AT_ONCE) {
        for (uint32_t i = 0; i < AT_ONCE; i++) {
            (void)snprintf(names[i], sizeof(names[i]), "%s%05u", prefix, (unsigned)(done + i));
            ops[i] = (struct mst_write){
                .kind = MST_PUT, .key = mst_slice_text(names[i]), .value = mst_slice_text("v")};
        }
        EXPECT_INT(f, fixture_call(f, client, request)->status, MUSTER_OK);
    }
}

enum { OTHERS = 20000, SEARCH_MAX = 2 * (128 + 2049 + 8192) }; /* asked, and told */

static uint64_t walked_by(struct fixture *f, struct client *client, const char *prefix,
                          uint64_t after, const struct mst_reply **reply_out)
{
    uint64_t before = mst_core_walked(f->core);

    *reply_out = watch_now(f, client, MST_WATCH_KEYS, prefix, after);
    return mst_core_walked(f->core) - before;
}

/* A watch costs what changed: few keys among many are found by their names; nearly up to date,
 * by the changes. */
static void a_watch_costs_what_changed(struct fixture *f)
{
    struct client client = observer(f);
    const struct mst_reply *reply;
    uint64_t after;

    fixture_connect(f, &client);
    fixture_write(f, &client, MST_PUT, "few/a", "1");
    put_under(f, &client, "k", OTHERS);
    fixture_write(f, &client, MST_PUT, "few/b", "2");
    fixture_write(f, &client, MST_PUT, "few/c", "3");
    fixture_write(f, &client, MST_DELETE, "few/c", "");
    EXPECT(f, walked_by(f, &client, "few/", 0, &reply) < 1000);
    EXPECT_INT(f, reply->item_count, 2);
    EXPECT_TEXT(f, item_of(reply, 0).name, "few/a");
    EXPECT_TEXT(f, item_of(reply, 1).name, "few/b");
    EXPECT(f, walked_by(f, &client, "few/", item_of(reply, 0).revision, &reply) < 1000);
    EXPECT_INT(f, reply->item_count, 2);
    EXPECT_INT(f, item_of(reply, 1).kind, MST_ITEM_DELETED);
    after = reply->revision;
    EXPECT(f, walked_by(f, &client, "none/", 1, &reply) < 1000);
    EXPECT_INT(f, reply->status, MUSTER_MORE);
    EXPECT(f, walked_by(f, &client, "", after, &reply) < 1000);
    EXPECT_INT(f, reply->status, MUSTER_MORE);
    EXPECT(f, walked_by(f, &client, "k", 0, &reply) < 1000);
    EXPECT_INT(f, reply->item_count, MST_PAGE_ITEMS);
}

/* A search meets too many names behind too many changes. It is cut short with how far it has
 * come, and continued when asked again. */
static void a_search_that_is_cut_short_is_continued(struct fixture *f)
{
    enum { SPARSE = 3000 };
    struct client client = observer(f);
    const struct mst_reply *reply;
    uint64_t after = 0;
    uint64_t last = 0;
    uint32_t seen = 0;
    uint32_t empty = 0;

    fixture_connect(f, &client);
    put_under(f, &client, "k", OTHERS);
    put_under(f, &client, "s", SPARSE);
    for (unsigned i = 0; i < 40 && seen < SPARSE; i++) {
        EXPECT(f, walked_by(f, &client, "s", after, &reply) <= SEARCH_MAX);
        EXPECT_INT(f, reply->status, MUSTER_OK);
        for (uint32_t k = 0; k < reply->item_count; k++, seen++) {
            EXPECT_INT(f, item_of(reply, k).kind, MST_ITEM_KEY);
            EXPECT(f, item_of(reply, k).revision > last);
            last = item_of(reply, k).revision;
        }
        empty += reply->item_count == 0;
        after = reply->revision;
    }
    EXPECT_INT(f, seen, SPARSE);
    EXPECT_INT(f, empty, 2);
    EXPECT_INT(f, watch_now(f, &client, MST_WATCH_KEYS, "s", after)->status, MUSTER_MORE);
    /* In the middle of it a key that was passed over changes: it comes later. */
    after = watch_now(f, &client, MST_WATCH_KEYS, "s", 0)->revision;
    fixture_write(f, &client, MST_DELETE, "s00007", "");
    for (seen = 0; seen < SPARSE;) {
        reply = watch_now(f, &client, MST_WATCH_KEYS, "s", after);
        EXPECT_INT(f, reply->status, MUSTER_OK);
        seen += reply->item_count;
        after = reply->revision;
    }
    EXPECT_INT(f, item_of(reply, reply->item_count - 1).kind, MST_ITEM_DELETED);
}

/* ---- replies that wait ---- */

static void ask(struct fixture *f, const struct client *client, struct mst_request request)
{
    request.oldest = request.id;
    (void)mst_core_request(f->core, f->now_ns, client->conn, &request);
}

/* A shell without room gives a reply back. It gets it again from the state of a later moment. */
static void a_deferred_reply_is_made_anew(struct fixture *f)
{
    struct client reader = observer(f);
    struct client other = observer(f);
    struct mst_request watch = {
        .id = 1, .command = MST_WATCH, .watch = {.kinds = MST_WATCH_KEYS, .node = MST_NODE_NONE}};
    const struct mst_effect *effect;
    size_t told;

    fixture_connect(f, &reader);
    fixture_connect(f, &other);
    fixture_write(f, &other, MST_PUT, "k", "old");
    if (f->mem.failed) {
        return;
    }
    ask(f, &reader, watch);
    effect = mst_core_next(f->core);
    EXPECT_TEXT(f, item_of(effect ? effect->reply : NULL, 0).value, "old");
    if (effect && effect->type == MST_EFFECT_REPLY) {
        mst_core_defer(f->core, effect);
    }
    mst_core_check(f->core);
    EXPECT(f, mst_core_next(f->core) == NULL);
    told = f->told_count;
    fixture_write(f, &other, MST_PUT, "k", "new"); /* it is not told meanwhile */
    EXPECT_INT(f, f->told_count, told + 1);
    mst_core_resume_deferred(f->core, reader.conn);
    effect = mst_core_next(f->core);
    EXPECT(f, effect && effect->reply->item_count == 1);
    if (effect) {
        EXPECT_TEXT(f, item_of(effect->reply, 0).value, "new");
        mst_core_defer(f->core, effect);
    }
    fixture_disconnect(f, &reader); /* and with the connection it goes */
    mst_core_resume_deferred(f->core, reader.conn);
    EXPECT(f, mst_core_next(f->core) == NULL);
}

/* A shell has no time for a watch. Its pages wait before anything was looked at. */
static void a_page_can_wait_unsearched(struct fixture *f)
{
    struct client reader = observer(f);
    struct client other = observer(f);
    struct mst_request watch = {
        .id = 1, .command = MST_WATCH, .watch = {.kinds = MST_WATCH_KEYS, .node = MST_NODE_NONE}};
    const struct mst_effect *effect;
    uint64_t walked;

    fixture_connect(f, &reader);
    fixture_connect(f, &other);
    fixture_write(f, &other, MST_PUT, "k", "old");
    if (f->mem.failed) {
        return;
    }
    EXPECT(f, !mst_core_next_searches(f->core));
    ask(f, &reader, watch);
    if (f->mem.failed) {
        return;
    }
    EXPECT(f, mst_core_next_searches(f->core));
    walked = mst_core_walked(f->core);
    EXPECT_INT(f, mst_core_defer_next(f->core).id, reader.conn.id);
    mst_core_check(f->core);
    EXPECT(f, mst_core_next(f->core) == NULL);
    EXPECT_INT(f, mst_core_walked(f->core), walked);
    mst_core_resume_deferred(f->core, reader.conn);
    effect = mst_core_next(f->core);
    EXPECT_TEXT(f, item_of(effect ? effect->reply : NULL, 0).value, "old");
    EXPECT(f, mst_core_walked(f->core) > walked);
    if (effect) {
        mst_core_done(f->core, effect);
    }
}

static void few(struct mst_core_config *config)
{
    config->limits.tombstones_max = 16;
}

static void make_and_delete(struct fixture *f, struct client *client, int count)
{
    char name[3] = "t0";

    for (int i = 0; i < count; i++) {
        name[1] = (char)('0' + i);
        fixture_write(f, client, MST_PUT, name, "");
        fixture_write(f, client, MST_DELETE, name, "");
    }
}

/* A reader was away so long that deletions are forgotten. It has to begin anew, and then gets
 * everything that exists. */
static void who_missed_deletions_begins_again(struct fixture *f)
{
    struct client client = observer(f);
    const struct mst_reply *reply;
    uint64_t after;

    fixture_connect(f, &client);
    fixture_write(f, &client, MST_PUT, "stays", "1");
    after = watch_now(f, &client, MST_WATCH_KEYS, "", 0)->revision;
    make_and_delete(f, &client, 16);
    reply = watch_now(f, &client, MST_WATCH_KEYS, "", after);
    EXPECT_INT(f, item_of(reply, 0).kind, MST_ITEM_DELETED);
    EXPECT_INT(f, reply->item_count, 16);
    make_and_delete(f, &client, 20);
    reply = watch_now(f, &client, MST_WATCH_KEYS, "", after);
    EXPECT_INT(f, reply->item_count, 2);
    EXPECT_INT(f, item_of(reply, 0).kind, MST_ITEM_RESET);
    EXPECT_INT(f, item_of(reply, 1).kind, MST_ITEM_KEY);
    EXPECT_TEXT(f, item_of(reply, 1).name, "stays");
    EXPECT_INT(f, watch_now(f, &client, MST_WATCH_KEYS, "", reply->revision)->status, MUSTER_MORE);
}

/* A reader stands anywhere. It gets each deletion that came after, or begins again. */
static void no_deletion_is_missed_unknowingly(struct fixture *f)
{
    enum { DELETED = 20 };
    struct client client = observer(f);
    unsigned resets = 0;
    uint64_t from;

    fixture_connect(f, &client);
    fixture_write(f, &client, MST_PUT, "stays", "1");
    from = watch_now(f, &client, MST_WATCH_KEYS, "", 0)->revision;
    make_and_delete(f, &client, DELETED);
    for (unsigned past = 0; past < 2 * DELETED; past++) { /* changes: each name made, and deleted */
        const struct mst_reply *reply = watch_now(f, &client, MST_WATCH_KEYS, "", from + past);

        if (item_of(reply, 0).kind == MST_ITEM_RESET) {
            resets++;
        } else {
            EXPECT_INT(f, reply->item_count, DELETED - past / 2);
        }
    }
    EXPECT(f, resets > 0 && resets < 2 * DELETED);
}

/* A listing missed deletions between its pages. It begins again. */
static void a_listing_that_missed_deletions_begins_again(struct fixture *f)
{
    struct client client = observer(f);
    char name[4] = "k00";
    const struct mst_reply *reply;
    uint64_t cursor;

    fixture_connect(f, &client);
    make_and_delete(f, &client, 20);
    for (int i = 0; i < 300; i++) {
        name[1] = (char)('0' + i / 26);
        name[2] = (char)('a' + i % 26);
        fixture_write(f, &client, MST_PUT, name, "v");
    }
    cursor = watch_now(f, &client, MST_WATCH_KEYS, "", 0)->revision;
    reply = watch_now(f, &client, MST_WATCH_KEYS, "", cursor);
    EXPECT_INT(f, reply->item_count, 300 - MST_PAGE_ITEMS); /* no reset for deletions of before */
    EXPECT_INT(f, item_of(reply, 0).kind, MST_ITEM_KEY);
    make_and_delete(f, &client, 40);
    reply = watch_now(f, &client, MST_WATCH_KEYS, "", cursor);
    EXPECT_INT(f, item_of(reply, 0).kind, MST_ITEM_RESET);
}

/* A key that is waited for was deleted long ago. The wait is answered when it is written again.
 * [keys / Waiting] */
static void a_forgotten_name_can_still_be_waited_for(struct fixture *f)
{
    struct client client = observer(f);
    uint64_t waits;

    fixture_connect(f, &client);
    fixture_write(f, &client, MST_PUT, "k", "1");
    fixture_write(f, &client, MST_DELETE, "k", "");
    waits = fixture_wait_get(f, &client, "k");
    make_and_delete(f, &client, 30);
    fixture_write(f, &client, MST_PUT, "k", "2");
    EXPECT_TEXT(f, fixture_reply(f, &client, waits)->value, "2");
}

/* The connection of a watch is lost. The watch goes with it; the client asks again from where it
 * was. */
static void a_watch_is_dropped_with_its_connection(struct fixture *f)
{
    struct client client = observer(f);
    struct client other = observer(f);
    uint64_t id;

    fixture_connect(f, &client);
    fixture_connect(f, &other);
    id = fixture_watch(f, &client, MST_WATCH_KEYS | MST_WATCH_MEMBERS, "k", 0);
    fixture_disconnect(f, &client);
    fixture_write(f, &other, MST_PUT, "k", "v");
    fixture_connect(f, &client);
    EXPECT_INT(f, fixture_reply(f, &client, id)->status, MUSTER_MORE);
    EXPECT_INT(f, watch_now(f, &client, MST_WATCH_KEYS, "k", 0)->item_count, 1);
}

/* A watch names no kind, an unknown one, a prefix too long, or another generation. It is
 * refused. */
static void what_makes_no_sense_is_refused(struct fixture *f)
{
    static char name[5000];
    struct client client = observer(f);
    struct mst_request request = {
        .command = MST_WATCH,
        .watch = {.kinds = MST_WATCH_KEYS, .prefix = mst_slice_of(name, sizeof(name))}};
    const struct mst_reply *reply;

    fixture_connect(f, &client);
    EXPECT_INT(f, watch_now(f, &client, 0, "", 0)->status, MUSTER_EINVAL);
    EXPECT_INT(f, watch_now(f, &client, 16, "", 0)->status, MUSTER_EINVAL);
    reply = fixture_call(f, &client, request);
    EXPECT_INT(f, reply->status, MUSTER_ELIMIT);
    EXPECT_INT(f, reply->detail.limit, 4096);
    request.watch.prefix = mst_slice_of(NULL, 0);
    request.watch.generation = 3;
    EXPECT_INT(f, fixture_call(f, &client, request)->status, MUSTER_EFENCED);
}

#define SCENARIO(name)                                                                             \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        fixture_run(name);                                                                         \
    }

#define SCENARIOS(X)                                                                               \
    X(a_change_wakes_who_watches_its_prefix)                                                       \
    X(only_the_newest_state_is_told)                                                               \
    X(kinds_are_told_in_the_order_of_their_changes)                                                \
    X(a_rank_is_told_its_own_view)                                                                 \
    X(a_claim_that_is_sealed_at_once_is_told_its_place)                                            \
    X(faults_go_with_their_generation)                                                             \
    X(a_node_is_told_of_its_own_only)                                                              \
    X(a_node_is_told_of_the_losses_of_its_own)                                                     \
    X(a_place_may_go_to_another_node)                                                              \
    X(a_node_from_the_future_begins_again)                                                         \
    X(a_watch_is_dropped_with_its_connection)                                                      \
    X(a_page_can_wait_unsearched)                                                                  \
    X(a_deferred_reply_is_made_anew)                                                               \
    X(what_makes_no_sense_is_refused)

SCENARIOS(SCENARIO)

static void test_a_long_listing_is_continued(void **state)
{
    (void)state;
    fixture_run_once(a_long_listing_is_continued);
}

static void test_many_changes_are_told_in_their_order(void **state)
{
    (void)state;
    fixture_run_once(many_changes_are_told_in_their_order);
}

static void test_a_watch_costs_what_changed(void **state)
{
    (void)state;
    fixture_run_once(a_watch_costs_what_changed);
}

static void test_a_search_that_is_cut_short_is_continued(void **state)
{
    (void)state;
    fixture_run_once(a_search_that_is_cut_short_is_continued);
}

static void test_a_long_listing_of_a_node_is_continued(void **state)
{
    (void)state;
    fixture_run_once(a_long_listing_of_a_node_is_continued);
}

static void test_who_missed_deletions_begins_again(void **state)
{
    (void)state;
    fixture_run_with(who_missed_deletions_begins_again, few);
}

static void test_no_deletion_is_missed_unknowingly(void **state)
{
    (void)state;
    fixture_run_once_with(no_deletion_is_missed_unknowingly, few);
}

static void test_a_listing_that_missed_deletions_begins_again(void **state)
{
    (void)state;
    fixture_run_once_with(a_listing_that_missed_deletions_begins_again, few);
}

static void test_a_forgotten_name_can_still_be_waited_for(void **state)
{
    (void)state;
    fixture_run_with(a_forgotten_name_can_still_be_waited_for, few);
}

#define ROW(name) cmocka_unit_test(test_##name),

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIOS(ROW) cmocka_unit_test(test_a_long_listing_is_continued),
        cmocka_unit_test(test_many_changes_are_told_in_their_order),
        cmocka_unit_test(test_a_watch_costs_what_changed),
        cmocka_unit_test(test_a_search_that_is_cut_short_is_continued),
        cmocka_unit_test(test_a_long_listing_of_a_node_is_continued),
        cmocka_unit_test(test_who_missed_deletions_begins_again),
        cmocka_unit_test(test_no_deletion_is_missed_unknowingly),
        cmocka_unit_test(test_a_listing_that_missed_deletions_begins_again),
        cmocka_unit_test(test_a_forgotten_name_can_still_be_waited_for)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
