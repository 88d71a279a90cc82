/* SPDX-License-Identifier: Apache-2.0 */
/* Members: claims and their holders, losses and what follows from them, generations from nobody and
 * by seal, growth and attention.
 *
 * behaviour: members / Places */
#include "core_fixture.h"

static struct mst_request seal_request(uint64_t generation, uint64_t number)
{
    struct mst_request request = fixture_round(generation, "seal", number);

    request.round.on_loss = MST_PROCEED;
    request.round.seal = true;
    return request;
}

static const struct mst_reply *last(struct fixture *f, const struct client *client)
{
    return fixture_reply(f, client, client->id);
}

static uint64_t lose(struct fixture *f, struct client *teller, const struct client *victim,
                     enum mst_cause cause, int32_t code)
{
    return fixture_send(f, teller,
                        (struct mst_request){.command = MST_LOST,
                                             .lost = {.index = victim->open.index,
                                                      .pid = victim->open.pid,
                                                      .cause = cause,
                                                      .code = code,
                                                      .text = mst_slice_text("last words")}});
}

static struct mst_item item_of(const struct mst_reply *reply, uint32_t position)
{
    return position < reply->item_count ? reply->items[position] : (struct mst_item){0};
}

static struct mst_view view_of(struct fixture *f, struct client *client)
{
    /* Told at once whatever it is, once there is any. */
    uint64_t id = fixture_watch(f, client, MST_WATCH_VIEW, "", 0);

    return fixture_reply(f, client, id)->view;
}

/* ---- claims ---- */

/* Ranks come without an index. They get the lowest free ones, below the job's size; when all are
 * taken, the one too many is refused with the size. When one is lost, its place is given again
 * with a larger incarnation. Workers and agents have indices of their own. */
static void places_are_given_in_order(struct fixture *f)
{
    struct client ranks[3];
    struct client worker = fixture_client(f, MST_ROLE_WORKER, MST_INDEX_ANY);
    struct client extra = fixture_rank(f, MST_INDEX_ANY, 3);
    const struct mst_reply *reply;

    for (uint32_t i = 0; i < 3; i++) {
        ranks[i] = fixture_rank(f, MST_INDEX_ANY, 3);
        reply = fixture_connect(f, &ranks[i]);
        EXPECT_INT(f, reply->view.index, i);
    }
    reply = fixture_connect(f, &worker);
    EXPECT_INT(f, reply->view.index, 0); /* workers have indices of their own */
    EXPECT(f, fixture_told_story(f, "member-present worker#0 incarnation=1 host=b3 pid=101"));
    reply = fixture_connect(f, &extra);
    EXPECT_INT(f, reply->status, MUSTER_ELIMIT);
    EXPECT_INT(f, reply->detail.limit, 3);
    fixture_disconnect(f, &extra);
    lose(f, &worker, &ranks[1], MST_CAUSE_SIGNAL, 9);
    reply = fixture_connect(f, &extra);
    EXPECT_INT(f, reply->view.index, 1);
    EXPECT_INT(f, reply->view.incarnation, 2);
}

/* An agent reports the death of a process that is a worker, and a rank has the same index. The
 * worker is lost and not the rank: the process says which it was, as an agent does not know as
 * what it joined. [Loss] */
static void an_agents_word_finds_the_worker_by_its_process(struct fixture *f)
{
    struct client agent = fixture_client(f, MST_ROLE_AGENT, 0);
    struct client rank = fixture_rank(f, 0, 1);
    struct client worker = fixture_client(f, MST_ROLE_WORKER, 0);
    struct client again = fixture_client(f, MST_ROLE_WORKER, 0);
    struct client stranger = fixture_client(f, MST_ROLE_WORKER, 0);
    uint64_t id;

    fixture_connect(f, &agent);
    fixture_connect(f, &rank);
    fixture_connect(f, &worker);
    id = lose(f, &agent, &stranger, MST_CAUSE_SIGNAL, 9);
    EXPECT_INT(f, fixture_reply(f, &agent, id)->number, 0);
    id = lose(f, &agent, &worker, MST_CAUSE_GONE, 0);
    EXPECT_INT(f, fixture_reply(f, &agent, id)->number, 1);
    EXPECT(f, fixture_told_story(f, "member-lost worker#0 incarnation=1 cause=gone"));
    lose(f, &agent, &worker, MST_CAUSE_SIGNAL, 11);
    EXPECT(f, fixture_told_story(f, "member-cause worker#0 incarnation=1 cause=signal code=11"));
    EXPECT_INT(f, fixture_connect(f, &again)->view.incarnation, 2);
    id = lose(f, &agent, &rank, MST_CAUSE_SIGNAL, 9);
    EXPECT_INT(f, fixture_reply(f, &agent, id)->number, 1);
    EXPECT(f, fixture_told_story(f, "member-lost #0 incarnation=1 cause=signal code=9"));
}

/* The helper of a single rank comes. It gets an index from 1048576 on, which is no node of a
 * run. */
static void a_helper_takes_no_nodes_number(struct fixture *f)
{
    struct client helpers[2];
    struct client node = fixture_client(f, MST_ROLE_AGENT, MST_INDEX_ANY);
    struct client again = fixture_client(f, MST_ROLE_AGENT, MST_INDEX_HELPER);

    for (uint32_t i = 0; i < 2; i++) {
        helpers[i] = fixture_client(f, MST_ROLE_AGENT, MST_INDEX_HELPER);
        EXPECT_INT(f, fixture_connect(f, &helpers[i])->view.index, MST_HELPERS_FROM + i);
    }
    EXPECT_INT(f, fixture_connect(f, &node)->view.index, 0);
    fixture_call(f, &helpers[0], (struct mst_request){.command = MST_LEAVE});
    EXPECT_INT(f, fixture_connect(f, &again)->view.index, MST_HELPERS_FROM);
}

/* A process claims a place whose holder is there. It waits as *joining*, and its error has the
 * holder: host, process, when last heard. */
static void a_claim_waits_and_takes_over(struct fixture *f)
{
    struct client holder = fixture_rank(f, 0, 1);
    struct client heir = fixture_rank(f, 0, 1);
    struct client third = fixture_rank(f, 0, 1);
    const struct mst_reply *reply;
    uint64_t join;

    fixture_connect(f, &holder);
    fixture_join(f, &holder);
    fixture_disconnect(f, &holder);
    fixture_pass(f, 4000);
    heir.open.host = mst_slice_text("b4");
    reply = fixture_connect(f, &heir);
    EXPECT_INT(f, reply->status, MUSTER_OK);
    EXPECT_INT(f, reply->view.incarnation, 0);
    EXPECT_INT(f, reply->detail.who_count, 1);
    EXPECT_INT(f, reply->detail.who[0].pid, holder.open.pid);
    EXPECT_INT(f, reply->detail.who[0].heard_ms, 4000);
    EXPECT_TEXT(f, reply->detail.who[0].host, "b3");
    EXPECT_INT(f, reply->detail.who[0].state, MST_SILENT);
    join = fixture_join(f, &heir);
    EXPECT_INT(f, fixture_reply(f, &heir, join)->status, MUSTER_MORE);
    reply = fixture_connect(f, &third);
    EXPECT_INT(f, reply->status, MUSTER_EEXISTS);
    EXPECT_INT(f, reply->detail.who[0].pid, holder.open.pid);
    fixture_pass(f, 6000);
    EXPECT(f, fixture_told_story(f, "member-lost #0 incarnation=1 cause=lease"));
    EXPECT(f, fixture_told_story(f, "member-joining #0 incarnation=2 host=b4 pid=102"));
    reply = fixture_reply(f, &heir, join);
    EXPECT_INT(f, reply->status, MUSTER_OK);
    EXPECT_INT(f, reply->view.incarnation, 2);
    EXPECT_INT(f, reply->view.generation, 2);
    reply = fixture_connect(f, &holder);
    EXPECT_INT(f, reply->status, MUSTER_EFENCED);
    EXPECT_INT(f, reply->view.incarnation, 0); /* what its heir has is not its own */
    EXPECT_INT(f, reply->view.rank, MST_RANK_NONE);
    EXPECT_INT(f, reply->view.generation, 2);
}

/* The holder gives a sign of life after the claim. The claim is refused (EEXISTS) with the
 * holder's host and process. */
static void a_claim_is_refused_when_the_holder_speaks(struct fixture *f)
{
    struct client holder = fixture_rank(f, 0, 1);
    struct client joining = fixture_rank(f, 0, 1);
    struct client idle = fixture_rank(f, 0, 1);
    const struct mst_reply *reply;

    fixture_connect(f, &holder);
    fixture_connect(f, &joining);
    fixture_join(f, &joining);
    fixture_renew(f, &holder);
    reply = fixture_reply(f, &joining, 1);
    EXPECT_INT(f, reply->status, MUSTER_EEXISTS);
    EXPECT_INT(f, reply->detail.who[0].pid, holder.open.pid);
    EXPECT(f, fixture_told_story(f, "claim-refused #0 incarnation=1"));
    fixture_connect(f, &idle);
    fixture_disconnect(f, &holder);
    fixture_connect(f, &holder); /* coming back is a sign of life too */
    reply = fixture_get(f, &idle, "k");
    EXPECT_INT(f, reply->status, MUSTER_EEXISTS);
    EXPECT_INT(f, reply->detail.who[0].pid, holder.open.pid);
    EXPECT_TEXT(f, reply->detail.who[0].host, "b3");
}

/* A claimant that waits leaves, dies or falls silent. Its claim is gone and the holder is not
 * touched. */
static void a_claim_can_be_given_up(struct fixture *f)
{
    struct client holder = fixture_rank(f, 0, 1);
    struct client leaves = fixture_rank(f, 0, 1);
    struct client dies = fixture_rank(f, 0, 1);
    struct client expires = fixture_rank(f, 0, 1);
    const struct mst_reply *reply;

    fixture_connect(f, &holder);
    fixture_connect(f, &leaves);
    reply = fixture_call(f, &leaves, (struct mst_request){.command = MST_LEAVE});
    EXPECT_INT(f, reply->status, MUSTER_OK);
    reply = fixture_connect(f, &dies);
    EXPECT_INT(f, reply->status, MUSTER_OK);
    lose(f, &holder, &dies, MST_CAUSE_GONE, 0);
    EXPECT_INT(f, last(f, &holder)->number, 1);
    reply = fixture_connect(f, &expires);
    EXPECT_INT(f, reply->view.incarnation, 0);
    fixture_disconnect(f, &expires);
    fixture_pass(f, 2 * FIXTURE_LEASE_MS);
    EXPECT(f, fixture_told_story(f, "member-lost #0 incarnation=1 cause=lease"));
    EXPECT(f, !fixture_told_story(f, "member-joining #0 incarnation=2 host=b3 pid=102"));
}

/* Members name different sizes, or a `min_size` that cannot be. The first word counts; a member
 * that says something else is refused alone. */
static void parameters_are_fixed_by_who_names_them(struct fixture *f)
{
    struct client vague = fixture_rank(f, 0, 0);
    struct client first = fixture_rank(f, 1, 4);
    struct client other = fixture_rank(f, 2, 5);
    struct client greedy = fixture_rank(f, 3, 4);
    const struct mst_reply *reply;

    EXPECT_INT(f, fixture_connect(f, &vague)->status, MUSTER_OK);
    EXPECT_INT(f, fixture_connect(f, &first)->status, MUSTER_OK);
    reply = fixture_connect(f, &other);
    EXPECT_INT(f, reply->status, MUSTER_EINVAL);
    EXPECT_INT(f, reply->detail.limit, 4);
    greedy.open.min_size = 9;
    EXPECT_INT(f, fixture_connect(f, &greedy)->status, MUSTER_EINVAL);
}

/* ---- losses ---- */

/* An agent says that a process is dead. It is lost, with the exit status or the signal. If the
 * agent means another process of that place, or says it twice, nothing happens. [Loss] */
static void an_agents_word_is_taken_for_the_right_process_only(struct fixture *f)
{
    struct client ranks[2];
    struct client agent = fixture_client(f, MST_ROLE_AGENT, MST_INDEX_ANY);
    struct client impostor;

    fixture_seal(f, ranks, 2);
    fixture_connect(f, &agent);
    impostor = ranks[1];
    impostor.open.pid++;
    lose(f, &agent, &impostor, MST_CAUSE_EXIT, 1);
    EXPECT_INT(f, last(f, &agent)->number, 0);
    lose(f, &agent, &ranks[1], MST_CAUSE_SIGNAL, 9);
    EXPECT_INT(f, last(f, &agent)->number, 1);
    EXPECT(f, fixture_told_story(f, "member-lost #1 incarnation=1 cause=signal code=9"));
    lose(f, &agent, &ranks[1], MST_CAUSE_SIGNAL, 9);
    EXPECT_INT(f, last(f, &agent)->number, 0);
    lose(f, &agent, &ranks[0], MST_CAUSE_LEASE, 0);
    EXPECT_INT(f, last(f, &agent)->status, MUSTER_EINVAL);
}

/* A loss fences the lost member, interrupts the others and is reported. A reader that claims to
 * have seen a revision that does not exist yet begins anew. [watches / Watches] */
static void a_loss_fences_interrupts_and_is_told(struct fixture *f)
{
    struct client ranks[3];
    const struct mst_reply *reply;
    uint64_t watch;
    uint64_t waits;

    fixture_seal(f, ranks, 3);
    watch = fixture_watch(f, &ranks[0], MST_WATCH_VIEW | MST_WATCH_FAULTS, "",
                          last(f, &ranks[0])->revision + 1000);
    /* From a future it does not have: everything again. */
    EXPECT_INT(f, item_of(fixture_reply(f, &ranks[0], watch), 0).kind, MST_ITEM_RESET);
    watch = fixture_watch(f, &ranks[0], MST_WATCH_VIEW | MST_WATCH_FAULTS, "",
                          fixture_reply(f, &ranks[0], watch)->revision);
    EXPECT_INT(f, fixture_reply(f, &ranks[0], watch)->status, MUSTER_MORE);
    waits = fixture_wait_get(f, &ranks[2], "never");
    lose(f, &ranks[1], &ranks[2], MST_CAUSE_EXIT, 3);
    EXPECT_INT(f, fixture_reply(f, &ranks[2], waits)->status, MUSTER_EFENCED);
    EXPECT_INT(f, fixture_get(f, &ranks[2], "k")->status, MUSTER_EFENCED);
    reply = fixture_reply(f, &ranks[0], watch);
    EXPECT_INT(f, reply->status, MUSTER_OK);
    EXPECT_INT(f, item_of(reply, 0).kind, MST_ITEM_FAULT);
    EXPECT_INT(f, item_of(reply, 0).who.index, 2);
    EXPECT_INT(f, item_of(reply, 0).who.cause, MST_CAUSE_EXIT);
    EXPECT_INT(f, item_of(reply, 0).who.code, 3);
    EXPECT_TEXT(f, item_of(reply, 0).value, "last words");
    EXPECT_INT(f, item_of(reply, 1).kind, MST_ITEM_VIEW);
    EXPECT_INT(f, reply->view.attention, MST_INTERRUPT);
}

/* A member leaves. It is gone for good, and that is no fault: no rank is interrupted by it.
 * [Loss] */
static void leaving_is_no_fault(struct fixture *f)
{
    struct client ranks[2];

    fixture_seal(f, ranks, 2);
    fixture_send(f, &ranks[1], (struct mst_request){.command = MST_LEAVE});
    EXPECT_INT(f, last(f, &ranks[1])->status, MUSTER_OK);
    EXPECT(f, fixture_told_story(f, "member-left #1 incarnation=1"));
    EXPECT_INT(f, view_of(f, &ranks[0]).attention, MST_CALM);
    EXPECT_INT(f, fixture_get(f, &ranks[1], "k")->status, MUSTER_EFENCED);
}

/* The first fault of a rank counts. A fault that is reported for a generation that is over is
 * refused (EFENCED). [Loss] */
static void the_first_fault_of_a_rank_counts(struct fixture *f)
{
    struct client ranks[2];
    struct mst_request fault = {
        .command = MST_FAULT,
        .fault = {.generation = 1, .code = 42, .text = mst_slice_text("loss is nan")}};
    const struct mst_reply *reply;
    uint64_t watch;

    fixture_seal(f, ranks, 2);
    EXPECT_INT(f, fixture_call(f, &ranks[0], fault)->status, MUSTER_OK);
    EXPECT(f, fixture_told_story(f, "fault #0 incarnation=1 code=42"));
    lose(f, &ranks[1], &ranks[0], MST_CAUSE_SIGNAL, 6);
    watch = fixture_watch(f, &ranks[1], MST_WATCH_FAULTS, "", 0);
    reply = fixture_reply(f, &ranks[1], watch);
    EXPECT_INT(f, reply->item_count, 1);
    EXPECT_INT(f, item_of(reply, 0).who.cause, MST_CAUSE_FAULT);
    EXPECT_INT(f, item_of(reply, 0).who.code, 42);
    EXPECT_TEXT(f, item_of(reply, 0).value, "loss is nan");
    fault.fault.generation = 2;
    EXPECT_INT(f, fixture_call(f, &ranks[1], fault)->status, MUSTER_EFENCED);
}

/* The members are listed. Each comes with its state: joining, present, silent, lost with its
 * cause and last words, or left. [Listing members] */
static void members_are_listed_with_their_states(struct fixture *f)
{
    struct client ranks[3];
    struct client joiner = fixture_rank(f, 7, 3);
    struct client agent = fixture_client(f, MST_ROLE_AGENT, 0);
    const struct mst_reply *reply;

    fixture_seal(f, ranks, 3);
    fixture_connect(f, &agent);
    fixture_connect(f, &joiner);
    lose(f, &agent, &ranks[1], MST_CAUSE_EXIT, 1);
    fixture_disconnect(f, &ranks[2]);
    fixture_send(f, &ranks[0], fixture_round(1, "after-load", 0));
    reply = fixture_call(f, &agent, (struct mst_request){.command = MST_MEMBERS});
    EXPECT_INT(f, reply->item_count, 5);
    EXPECT_INT(f, reply->next, 0);
    EXPECT_INT(f, item_of(reply, 0).who.state, MST_PRESENT);
    EXPECT_INT(f, item_of(reply, 1).who.state, MST_STATE_LOST);
    EXPECT_INT(f, item_of(reply, 1).who.losses, 1);
    EXPECT_TEXT(f, item_of(reply, 1).value, "last words");
    EXPECT_INT(f, item_of(reply, 2).who.state, MST_SILENT);
    EXPECT_INT(f, item_of(reply, 3).who.state, MST_JOINING);
    EXPECT_INT(f, item_of(reply, 3).who.index, 7);
    EXPECT_INT(f, item_of(reply, 3).who.rank, MST_RANK_NONE);
    EXPECT_INT(f, item_of(reply, 4).who.role, MST_ROLE_AGENT);
}

/* A rank stands at a round. The list says which. [Listing members] */
static void a_member_shows_the_round_it_stands_at(struct fixture *f)
{
    struct client ranks[2];
    const struct mst_reply *reply;

    fixture_seal(f, ranks, 2);
    fixture_send(f, &ranks[0], fixture_round(1, "after-load", 0));
    reply = fixture_call(f, &ranks[1], (struct mst_request){.command = MST_MEMBERS});
    EXPECT_TEXT(f, item_of(reply, 0).name, "after-load");
    EXPECT_INT(f, item_of(reply, 1).name.size, 0);
    fixture_send(f, &ranks[1], fixture_round(1, "after-load", 0));
    reply = fixture_call(f, &ranks[1], (struct mst_request){.command = MST_MEMBERS});
    EXPECT_INT(f, item_of(reply, 0).name.size, 0);
}

/* A job has many members. Their list comes in pages. [Listing members] */
static void many_members_come_in_pages(struct fixture *f)
{
    enum { MANY = 300 };
    struct client workers[MANY];
    struct mst_request request = {.command = MST_MEMBERS};
    const struct mst_reply *reply;

    for (uint32_t i = 0; i < MANY; i++) {
        workers[i] = fixture_client(f, MST_ROLE_WORKER, MST_INDEX_ANY);
        fixture_connect(f, &workers[i]);
    }
    reply = fixture_call(f, &workers[0], request);
    EXPECT_INT(f, reply->item_count, MST_PAGE_ITEMS);
    EXPECT(f, reply->next != 0);
    request.page.after = reply->next;
    reply = fixture_call(f, &workers[0], request);
    EXPECT_INT(f, reply->item_count, MANY - MST_PAGE_ITEMS);
    EXPECT_INT(f, item_of(reply, 0).who.index, MST_PAGE_ITEMS);
    EXPECT_INT(f, reply->next, 0);
}

/* ---- generations ---- */

/* A job of three starts. Generation 1 is sealed when three ranks are ready, however long that
 * takes. A rank that asks again gets it at once. [generations / The first one] */
static void the_first_generation_waits_for_all(struct fixture *f)
{
    struct client ranks[3];

    for (uint32_t i = 0; i < 3; i++) {
        ranks[i] = fixture_rank(f, i, 3);
        fixture_connect(f, &ranks[i]);
    }
    fixture_join(f, &ranks[2]);
    fixture_join(f, &ranks[0]);
    fixture_pass_renewing(f, 10 * FIXTURE_LEASE_MS);
    EXPECT_INT(f, fixture_reply(f, &ranks[0], 1)->status, MUSTER_MORE);
    fixture_join(f, &ranks[1]);
    EXPECT_INT(f, last(f, &ranks[1])->status, MUSTER_OK);
    EXPECT_INT(f, last(f, &ranks[1])->view.rank, 1);
    EXPECT(f, fixture_told_story(f, "generation-sealed 1 size=3"));
    fixture_join(f, &ranks[1]); /* in one already: told at once */
    EXPECT_INT(f, last(f, &ranks[1])->view.generation, 1);
}

/* `join_wait` has passed and at least `min_size` are ready. The generation is sealed with those,
 * ranks numbered in the order of their indices. Below `min_size` it waits on.
 * [generations / The first one] */
static void the_first_generation_can_start_with_fewer(struct fixture *f)
{
    struct client ranks[4];

    for (uint32_t i = 0; i < 4; i++) {
        ranks[i] = fixture_rank(f, i, 4);
        ranks[i].open.min_size = 2;
        ranks[i].open.join_wait_ms = 3000;
        fixture_connect(f, &ranks[i]);
    }
    fixture_join(f, &ranks[3]);
    fixture_pass(f, 4000);
    EXPECT_INT(f, last(f, &ranks[3])->status, MUSTER_MORE); /* below min_size */
    fixture_join(f, &ranks[1]);
    EXPECT_INT(f, last(f, &ranks[1])->status, MUSTER_OK);
    EXPECT_INT(f, last(f, &ranks[1])->view.rank, 0);
    EXPECT_INT(f, last(f, &ranks[3])->view.rank, 1);
    EXPECT_INT(f, last(f, &ranks[3])->view.index, 3);
}

/* The first rank that was ready gives up. `join_wait` runs from the next one that is.
 * [generations / The first one] */
static void join_wait_runs_from_the_first_who_is_ready(struct fixture *f)
{
    struct client ranks[2];
    uint64_t id;

    for (uint32_t i = 0; i < 2; i++) {
        ranks[i] = fixture_rank(f, i, 4);
        ranks[i].open.join_wait_ms = 3000;
        fixture_connect(f, &ranks[i]);
    }
    id = fixture_join(f, &ranks[0]);
    fixture_pass(f, 2000);
    fixture_send(f, &ranks[0], (struct mst_request){.command = MST_CANCEL, .cancel = {.id = id}});
    EXPECT_INT(f, fixture_reply(f, &ranks[0], id)->status, MUSTER_ECANCELLED);
    fixture_pass(f, 2000); /* nobody is ready: the wait is off */
    id = fixture_join(f, &ranks[1]);
    fixture_pass(f, 2999);
    EXPECT_INT(f, fixture_reply(f, &ranks[1], id)->status, MUSTER_MORE);
    fixture_pass(f, 1);
    EXPECT_INT(f, fixture_reply(f, &ranks[1], id)->status, MUSTER_OK);
    EXPECT_INT(f, fixture_reply(f, &ranks[1], id)->view.size, 1);
    EXPECT_INT(f, fixture_reply(f, &ranks[1], id)->view.size_of_job, 4);
}

/* A rank's time to join is over. Its error has how many are ready and which places are missing:
 * never started, not ready, or lost. [generations / The first one] */
static void a_cancelled_join_names_who_is_missing(struct fixture *f)
{
    struct client ranks[4];
    const struct mst_reply *reply;
    uint64_t id;

    for (uint32_t i = 0; i < 3; i++) {
        ranks[i] = fixture_rank(f, i, 4);
        fixture_connect(f, &ranks[i]);
    }
    id = fixture_join(f, &ranks[0]);
    lose(f, &ranks[0], &ranks[2], MST_CAUSE_EXIT, 1);
    fixture_send(f, &ranks[0], (struct mst_request){.command = MST_CANCEL, .cancel = {.id = id}});
    reply = fixture_reply(f, &ranks[0], id);
    EXPECT_INT(f, reply->status, MUSTER_ECANCELLED);
    EXPECT(f, reply->has_detail);
    EXPECT_INT(f, reply->detail.expected, 4);
    EXPECT_INT(f, reply->detail.arrived, 1); /* itself, which is not whom it misses */
    EXPECT_INT(f, reply->detail.missing, 3);
    EXPECT_INT(f, reply->detail.who_count, 3);
    EXPECT_INT(f, reply->detail.who[0].state, MST_JOINING);
    EXPECT_INT(f, reply->detail.who[1].state, MST_STATE_LOST);
    EXPECT_INT(f, reply->detail.who[2].state, MST_ABSENT);
}

/* A claimant that waits gives up its join. Its error names the holder of the place. */
static void a_cancelled_claim_names_the_holder(struct fixture *f)
{
    struct client ranks[2];
    struct client other = fixture_rank(f, 1, 2);
    const struct mst_reply *reply;
    uint64_t id;

    fixture_seal(f, ranks, 2);
    fixture_connect(f, &other);
    id = fixture_join(f, &other);
    fixture_send(f, &other, (struct mst_request){.command = MST_CANCEL, .cancel = {.id = id}});
    reply = fixture_reply(f, &other, id);
    EXPECT_INT(f, reply->status, MUSTER_ECANCELLED);
    EXPECT_INT(f, reply->detail.who_count, 1);
    EXPECT_INT(f, reply->detail.who[0].pid, ranks[1].open.pid);
}

/* A process is known to be dead before it is known how. It is lost at once; the status that
 * comes later refines the cause, once. [Loss] */
static void a_status_that_comes_later_refines_the_cause(struct fixture *f)
{
    struct client ranks[3];
    const struct mst_reply *reply;
    uint64_t id;

    fixture_seal(f, ranks, 3);
    lose(f, &ranks[0], &ranks[1], MST_CAUSE_GONE, 0);
    EXPECT_INT(f, last(f, &ranks[0])->number, 1);
    lose(f, &ranks[0], &ranks[1], MST_CAUSE_SIGNAL, 9);
    EXPECT_INT(f, last(f, &ranks[0])->number, 0); /* it was lost already */
    id = fixture_watch(f, &ranks[0], MST_WATCH_FAULTS, "", 0);
    reply = fixture_reply(f, &ranks[0], id);
    EXPECT_INT(f, item_of(reply, 0).who.cause, MST_CAUSE_SIGNAL);
    EXPECT_INT(f, item_of(reply, 0).who.code, 9);
    lose(f, &ranks[0], &ranks[1], MST_CAUSE_EXIT, 1); /* a status is final */
    id = fixture_watch(f, &ranks[0], MST_WATCH_FAULTS, "", 0);
    EXPECT_INT(f, item_of(fixture_reply(f, &ranks[0], id), 0).who.code, 9);
}

/* All ranks that are left come to the seal. It closes when each has arrived or is lost. In the
 * next generation are those that arrived and the joiners that were ready.
 * [generations / The next one] */
static void a_seal_goes_on_with_who_arrived_and_who_is_ready(struct fixture *f)
{
    struct client ranks[4];
    struct client fresh = fixture_rank(f, 1, 4);
    const struct mst_reply *reply;
    uint64_t waits;

    fixture_seal(f, ranks, 4);
    lose(f, &ranks[0], &ranks[1], MST_CAUSE_SIGNAL, 11);
    fixture_connect(f, &fresh);
    EXPECT_INT(f, fresh.open.incarnation, 2);
    waits = fixture_send(f, &ranks[2], fixture_round(1, "other", 0));
    EXPECT_INT(f, fixture_reply(f, &ranks[2], waits)->status, MUSTER_ELOST);
    fixture_send(f, &ranks[0], seal_request(1, 0));
    fixture_send(f, &ranks[3], seal_request(1, 0));
    fixture_join(f, &fresh);
    EXPECT_INT(f, last(f, &fresh)->status, MUSTER_MORE);
    fixture_send(f, &ranks[2], seal_request(1, 0));
    EXPECT(f, fixture_told_story(f, "generation-sealed 2 size=4"));
    reply = last(f, &ranks[3]);
    EXPECT_INT(f, reply->status, MUSTER_OK);
    EXPECT_INT(f, reply->view.generation, 2);
    EXPECT_INT(f, reply->view.rank, 3);
    EXPECT_INT(f, reply->detail.arrived, 3);
    EXPECT_INT(f, reply->detail.lost, 1);
    EXPECT_INT(f, reply->detail.who[0].index, 1);
    EXPECT_INT(f, reply->detail.who[0].incarnation, 1);
    EXPECT_INT(f, reply->detail.who[0].code, 11);
    reply = last(f, &fresh);
    EXPECT_INT(f, reply->status, MUSTER_OK);
    EXPECT_INT(f, reply->view.rank, 1);
    EXPECT_INT(f, reply->view.attention, MST_CALM);
}

/* No process replaces a lost rank. The survivors are renumbered and keep their order. Keys and
 * waits that belong to no generation are not touched. [generations / The next one] */
static void survivors_are_renumbered_in_order(struct fixture *f)
{
    struct client ranks[4];
    uint64_t waits;

    fixture_seal(f, ranks, 4);
    waits = fixture_wait_get(f, &ranks[3], "plain");
    lose(f, &ranks[0], &ranks[1], MST_CAUSE_GONE, 0);
    fixture_send(f, &ranks[0], seal_request(1, 0));
    fixture_send(f, &ranks[2], seal_request(1, 0));
    fixture_send(f, &ranks[3], seal_request(1, 0));
    EXPECT_INT(f, last(f, &ranks[0])->view.rank, 0);
    EXPECT_INT(f, last(f, &ranks[2])->view.rank, 1);
    EXPECT_INT(f, last(f, &ranks[3])->view.rank, 2);
    EXPECT_INT(f, last(f, &ranks[3])->view.size, 3);
    /* A seal refuses no unrelated traffic. */
    fixture_write(f, &ranks[0], MST_PUT, "plain", "x");
    EXPECT_INT(f, fixture_reply(f, &ranks[3], waits)->status, MUSTER_OK);
}

/* Fewer than `min_size` would go on. Nothing is sealed; all get the numbers (ETOOFEW), the
 * generation stays, and it can be tried again. [generations / The next one] */
static void too_few_do_not_seal(struct fixture *f)
{
    struct client ranks[3];
    const struct mst_reply *reply;

    for (uint32_t i = 0; i < 3; i++) {
        ranks[i] = fixture_rank(f, i, 3);
        ranks[i].open.min_size = 3;
        fixture_connect(f, &ranks[i]);
        fixture_join(f, &ranks[i]);
    }
    lose(f, &ranks[0], &ranks[2], MST_CAUSE_EXIT, 1);
    fixture_send(f, &ranks[0], seal_request(1, 0));
    fixture_send(f, &ranks[1], seal_request(1, 0));
    reply = last(f, &ranks[0]);
    EXPECT_INT(f, reply->status, MUSTER_ETOOFEW);
    EXPECT_INT(f, reply->detail.arrived, 2);
    EXPECT_INT(f, reply->detail.limit, 3);
    EXPECT_INT(f, last(f, &ranks[1])->status, MUSTER_ETOOFEW);
    EXPECT_INT(f, view_of(f, &ranks[0]).generation, 1);
    /* The generation stays; its next seal counts on. */
    fixture_send(f, &ranks[0], seal_request(1, 1));
    EXPECT_INT(f, last(f, &ranks[0])->status, MUSTER_MORE);
}

static void lose_one_of_three(struct fixture *f, struct client ranks[3], uint64_t seals)
{
    struct mst_request seal;

    for (uint32_t i = 0; i < 3; i++) {
        ranks[i] = fixture_rank(f, i, 3);
        ranks[i].open.min_size = 3;
        fixture_connect(f, &ranks[i]);
        fixture_join(f, &ranks[i]);
    }
    lose(f, &ranks[0], &ranks[2], MST_CAUSE_EXIT, 1);
    for (uint64_t number = 0; number < seals; number++) {
        seal = seal_request(1, number);
        seal.round.deadline_ms = 3000;
        fixture_send(f, &ranks[0], seal);
        fixture_send(f, &ranks[1], seal);
        if (number + 1 < seals) {
            EXPECT_INT(f, last(f, &ranks[0])->status, MUSTER_ETOOFEW);
            EXPECT_INT(f, last(f, &ranks[1])->status, MUSTER_ETOOFEW);
        }
    }
}

/* The ranks come to another seal after one that was too few. It waits for newcomers.
 * [generations / The next one] */
static void a_seal_after_too_few_waits_for_a_newcomer(struct fixture *f)
{
    struct client ranks[3], again;

    lose_one_of_three(f, ranks, 2);
    fixture_pass(f, 2000);
    EXPECT_INT(f, last(f, &ranks[0])->status, MUSTER_MORE);
    EXPECT_INT(f, last(f, &ranks[1])->status, MUSTER_MORE);
    again = fixture_rank(f, 2, 3);
    again.open.min_size = 3;
    fixture_connect(f, &again);
    fixture_join(f, &again);
    EXPECT_INT(f, last(f, &ranks[0])->status, MUSTER_OK);
    EXPECT_INT(f, last(f, &ranks[1])->view.generation, 2);
    EXPECT_INT(f, last(f, &again)->view.size, 3);
}

/* The ranks come to another seal after one that was too few, and no newcomer comes. It waits
 * until its deadline, and is then too few as well. [generations / The next one] */
static void a_seal_after_too_few_waits_until_its_deadline(struct fixture *f)
{
    struct client ranks[3];

    lose_one_of_three(f, ranks, 2);
    fixture_pass(f, 2999);
    EXPECT_INT(f, last(f, &ranks[0])->status, MUSTER_MORE);
    fixture_pass(f, 1);
    EXPECT_INT(f, last(f, &ranks[0])->status, MUSTER_ETOOFEW);
    EXPECT_INT(f, last(f, &ranks[1])->status, MUSTER_ETOOFEW);
    EXPECT_INT(f, view_of(f, &ranks[0]).generation, 1);
}

/* A rank does not come to the seal in time. It is evicted: lost, then refused, and the others go
 * on. [generations / The next one] */
static void who_misses_the_seal_is_evicted(struct fixture *f)
{
    struct client ranks[3];
    struct mst_request seal = seal_request(1, 0);

    fixture_seal(f, ranks, 3);
    seal.round.deadline_ms = 3000;
    fixture_send(f, &ranks[0], seal);
    fixture_send(f, &ranks[2], seal);
    fixture_pass(f, 2999);
    EXPECT_INT(f, last(f, &ranks[0])->status, MUSTER_MORE);
    fixture_pass(f, 1);
    EXPECT(f, fixture_told_story(f, "member-lost #1 incarnation=1 cause=evicted"));
    EXPECT_INT(f, last(f, &ranks[0])->status, MUSTER_OK);
    EXPECT_INT(f, last(f, &ranks[2])->view.rank, 1);
    EXPECT_INT(f, fixture_get(f, &ranks[1], "k")->status, MUSTER_EFENCED);
}

/* Rounds, keys and waits of the old generation are still open. They end with EFENCED.
 * [generations / The next one] */
static void what_is_open_ends_with_its_generation(struct fixture *f)
{
    struct client ranks[2];
    struct mst_request put = {.command = MST_WRITE};
    struct mst_write op = {
        .kind = MST_PUT, .key = mst_slice_text("commit"), .value = mst_slice_text("1")};
    struct mst_request get = {.command = MST_GET,
                              .get = {.generation = 1, .key = mst_slice_text("x"), .wait = true}};
    uint64_t round;
    uint64_t waits;
    uint64_t watch;

    fixture_seal(f, ranks, 2);
    put.write.ops = &op;
    put.write.count = 1;
    put.write.generation = 1;
    EXPECT_INT(f, fixture_call(f, &ranks[0], put)->status, MUSTER_OK);
    waits = fixture_send(f, &ranks[0], get);
    watch = fixture_send(f, &ranks[0],
                         (struct mst_request){.command = MST_WATCH,
                                              .watch = {.kinds = MST_WATCH_KEYS,
                                                        .generation = 1,
                                                        .prefix = mst_slice_text("other")}});
    round = fixture_send(f, &ranks[0], fixture_round(1, "open", 0));
    fixture_send(f, &ranks[0], seal_request(1, 0));
    fixture_send(f, &ranks[1], seal_request(1, 0));
    EXPECT_INT(f, fixture_reply(f, &ranks[0], round)->status, MUSTER_EFENCED);
    EXPECT_INT(f, fixture_reply(f, &ranks[0], waits)->status, MUSTER_EFENCED);
    EXPECT_INT(f, fixture_reply(f, &ranks[0], watch)->status, MUSTER_EFENCED);
    EXPECT_INT(f, fixture_call(f, &ranks[0], put)->status, MUSTER_EFENCED);
    EXPECT_INT(f, last(f, &ranks[0])->view.generation, 2);
    get.get.generation = 2;
    get.get.key = mst_slice_text("commit");
    get.get.wait = false;
    EXPECT_INT(f, fixture_call(f, &ranks[0], get)->status, MUSTER_ENOTFOUND);
    EXPECT_INT(f, fixture_call(f, &ranks[0], fixture_round(1, "open", 0))->status, MUSTER_EFENCED);
}

/* All members of a generation are gone. The ready joiners are sealed from nobody, with the next
 * number. [generations / The next one] */
static void a_generation_whose_members_are_all_gone_is_made_anew(struct fixture *f)
{
    struct client ranks[2];
    struct client fresh[2];

    fixture_seal(f, ranks, 2);
    for (uint32_t i = 0; i < 2; i++) {
        fresh[i] = fixture_rank(f, i, 2);
        fixture_connect(f, &fresh[i]);
        fixture_join(f, &fresh[i]);
    }
    fixture_send(f, &ranks[0], seal_request(1, 0));
    lose(f, &fresh[0], &ranks[0], MST_CAUSE_SIGNAL, 9);
    EXPECT_INT(f, fixture_reply(f, &fresh[0], 1)->status, MUSTER_MORE);
    lose(f, &fresh[0], &ranks[1], MST_CAUSE_SIGNAL, 9);
    EXPECT(f, fixture_told_story(f, "generation-sealed 2 size=2"));
    EXPECT_INT(f, fixture_reply(f, &fresh[0], 1)->status, MUSTER_OK);
    EXPECT_INT(f, fixture_reply(f, &fresh[1], 1)->view.rank, 1);
}

/* All ranks that stood at a seal die there. The seal lets no joiner in: the next generation is
 * sealed from nobody, and waits for its size. [generations / The next one] */
static void a_seal_that_nobody_survives_lets_nobody_in(struct fixture *f)
{
    struct client ranks[2];
    struct client fresh = fixture_rank(f, 0, 2);

    fixture_seal(f, ranks, 2);
    fixture_send(f, &ranks[0], seal_request(1, 0));
    fixture_connect(f, &fresh);
    fixture_join(f, &fresh);
    lose(f, &fresh, &ranks[0], MST_CAUSE_SIGNAL, 9);
    lose(f, &fresh, &ranks[1], MST_CAUSE_SIGNAL, 9);
    /* One is not the size that a generation from nobody asks for. */
    EXPECT_INT(f, fixture_reply(f, &fresh, 1)->status, MUSTER_MORE);
    EXPECT(f, fixture_told_story(
                  f, "round-closed name=seal number=0 status=too-few arrived=1 lost=2"));
}

/* A job's last member is gone, and its keys are still there. The next member may name another
 * size; incarnations and generations go on counting. */
static void an_empty_jobs_parameters_are_free_again(struct fixture *f)
{
    struct client first = fixture_rank(f, 0, 1);
    struct client later = fixture_rank(f, 0, 2);

    fixture_connect(f, &first);
    fixture_join(f, &first);
    fixture_write(f, &first, MST_PUT, "kept", "1");
    EXPECT_INT(f, fixture_connect(f, &later)->status, MUSTER_EINVAL);
    fixture_send(f, &first, (struct mst_request){.command = MST_LEAVE});
    later.open.min_size = 1;
    later.open.join_wait_ms = 1000;
    EXPECT_INT(f, fixture_connect(f, &later)->status, MUSTER_OK);
    EXPECT_INT(f, later.open.incarnation, 2); /* numbers only grow */
    fixture_join(f, &later);
    fixture_pass(f, 1000);
    EXPECT_INT(f, last(f, &later)->view.generation, 2);
}

/* The first member of a job does not say its size. It is refused: it would wait for ever, as no
 * size and no time is known. [discover / Not guessing] */
static void the_first_of_a_job_without_a_size_is_refused(struct fixture *f)
{
    struct client first = fixture_rank(f, 0, 0);
    struct client sized = fixture_rank(f, 1, 1);
    struct client late = fixture_rank(f, 2, 0);

    fixture_connect(f, &first);
    fixture_join(f, &first);
    EXPECT_INT(f, fixture_reply(f, &first, 1)->status, MUSTER_EINVAL);
    fixture_connect(f, &sized);
    fixture_join(f, &sized);
    EXPECT_INT(f, fixture_reply(f, &sized, 1)->status, MUSTER_OK);
    fixture_connect(f, &late);
    fixture_join(f, &late);
    EXPECT_INT(f, fixture_reply(f, &late, 1)->status, MUSTER_MORE);
    fixture_join(f, &first);
    EXPECT_INT(f, fixture_reply(f, &first, 2)->status, MUSTER_MORE);
}

/* ---- growth and attention ---- */

/* A joiner is ready (`grow` is `check`). The ranks are asked to come at their next check. When
 * the first one stands at the seal, the others are interrupted. Then the joiner is in, and all
 * is calm again. [generations / Growth] */
static void a_newcomer_asks_to_be_let_in(struct fixture *f)
{
    struct client ranks[2];
    struct client late = fixture_rank(f, 2, 2);

    fixture_seal(f, ranks, 2);
    EXPECT_INT(f, view_of(f, &ranks[0]).attention, MST_CALM);
    fixture_connect(f, &late);
    EXPECT_INT(f, view_of(f, &ranks[0]).attention, MST_CALM); /* not ready yet */
    fixture_join(f, &late);
    EXPECT(f, fixture_told_story(f, "grow requested-by=#2"));
    EXPECT_INT(f, view_of(f, &ranks[0]).attention, MST_GROW);
    fixture_send(f, &ranks[0], seal_request(1, 0));
    EXPECT_INT(f, view_of(f, &ranks[1]).attention, MST_INTERRUPT);
    fixture_send(f, &ranks[1], seal_request(1, 0));
    EXPECT_INT(f, last(f, &late)->status, MUSTER_OK);
    EXPECT_INT(f, last(f, &late)->view.size, 3);
    EXPECT_INT(f, view_of(f, &ranks[1]).attention, MST_CALM);
}

/* A joiner is ready just after the seal has closed. It waits for the next one; a joiner that
 * asked before the last arrival is in. [generations / Growth] */
static void who_is_ready_too_late_waits_for_the_next_seal(struct fixture *f)
{
    struct client ranks[2];
    struct client early = fixture_rank(f, 2, 2);
    struct client late = fixture_rank(f, 3, 2);

    fixture_seal(f, ranks, 2);
    fixture_connect(f, &early);
    fixture_connect(f, &late);
    fixture_send(f, &ranks[0], seal_request(1, 0));
    fixture_join(f, &early); /* the last request before the one that closes it */
    fixture_send(f, &ranks[1], seal_request(1, 0));
    fixture_join(f, &late); /* the first one after it */
    EXPECT_INT(f, last(f, &early)->view.size, 3);
    EXPECT_INT(f, last(f, &late)->status, MUSTER_MORE);
    EXPECT_INT(f, view_of(f, &ranks[0]).size, 3);
    EXPECT_INT(f, view_of(f, &ranks[0]).attention, MST_GROW);
}

/* A joiner is ready and `grow` is `fault`. It waits for the next seal, and no rank is asked.
 * [generations / Growth] */
static void with_grow_fault_a_newcomer_waits_for_one(struct fixture *f)
{
    struct client ranks[2];
    struct client late = fixture_rank(f, 2, 2);

    for (uint32_t i = 0; i < 2; i++) {
        ranks[i] = fixture_rank(f, i, 2);
        ranks[i].open.grow = MST_GROW_FAULT;
        fixture_connect(f, &ranks[i]);
        fixture_join(f, &ranks[i]);
    }
    fixture_connect(f, &late);
    fixture_join(f, &late);
    EXPECT_INT(f, view_of(f, &ranks[0]).attention, MST_CALM);
    fixture_send(f, &ranks[0], seal_request(1, 0));
    fixture_send(f, &ranks[1], seal_request(1, 0));
    EXPECT_INT(f, last(f, &late)->view.size, 3);
}

/* A joiner is ready and `grow` is `off`. It is not let in, except into a generation sealed from
 * nobody: the job would be over otherwise. [generations / Growth] */
static void with_grow_off_nobody_is_let_in(struct fixture *f)
{
    struct client ranks[2];
    struct client late = fixture_rank(f, 2, 2);
    struct client heir = fixture_rank(f, 0, 2);

    for (uint32_t i = 0; i < 2; i++) {
        ranks[i] = fixture_rank(f, i, 2);
        ranks[i].open.grow = MST_GROW_OFF;
        fixture_connect(f, &ranks[i]);
        fixture_join(f, &ranks[i]);
    }
    fixture_connect(f, &late);
    fixture_join(f, &late);
    fixture_send(f, &ranks[0], seal_request(1, 0));
    fixture_send(f, &ranks[1], seal_request(1, 0));
    EXPECT_INT(f, last(f, &ranks[0])->view.size, 2);
    EXPECT_INT(f, last(f, &late)->status, MUSTER_MORE);
    /* From nobody they may: the job would be over otherwise. */
    lose(f, &late, &ranks[0], MST_CAUSE_GONE, 0);
    lose(f, &late, &ranks[1], MST_CAUSE_GONE, 0);
    fixture_connect(f, &heir);
    fixture_join(f, &heir);
    EXPECT_INT(f, last(f, &heir)->view.generation, 3);
    EXPECT_INT(f, last(f, &heir)->view.size, 2);
}

/* A joiner loses its connection before the seal. It is not in the next generation. If it dies,
 * that is no fault of the others. [generations / Growth] */
static void a_joiner_that_dies_is_not_let_in(struct fixture *f)
{
    struct client ranks[2];
    struct client late = fixture_rank(f, 2, 2);

    fixture_seal(f, ranks, 2);
    fixture_connect(f, &late);
    fixture_join(f, &late);
    fixture_disconnect(f, &late); /* not ready while nobody waits for the answer */
    fixture_send(f, &ranks[0], seal_request(1, 0));
    fixture_send(f, &ranks[1], seal_request(1, 0));
    EXPECT_INT(f, last(f, &ranks[0])->view.size, 2);
    fixture_connect(f, &late);
    fixture_join(f, &late);
    EXPECT_INT(f, view_of(f, &ranks[0]).attention, MST_GROW);
    lose(f, &ranks[0], &late, MST_CAUSE_SIGNAL, 11);
    EXPECT_INT(f, view_of(f, &ranks[0]).attention, MST_GROW); /* its loss is no fault of ours */
}

/* A worker joins. It is in at once: workers belong to no generation. An observer cannot join. */
static void workers_join_at_once(struct fixture *f)
{
    struct client worker = fixture_client(f, MST_ROLE_WORKER, 4);
    struct client heir = fixture_client(f, MST_ROLE_WORKER, 4);
    struct client observer = fixture_client(f, MST_ROLE_OBSERVER, 0);
    uint64_t join;

    fixture_connect(f, &worker);
    fixture_join(f, &worker);
    EXPECT_INT(f, last(f, &worker)->status, MUSTER_OK);
    EXPECT_INT(f, last(f, &worker)->view.index, 4);
    fixture_connect(f, &heir);
    join = fixture_join(f, &heir);
    EXPECT_INT(f, last(f, &heir)->status, MUSTER_MORE);
    fixture_send(f, &worker, (struct mst_request){.command = MST_LEAVE});
    EXPECT_INT(f, fixture_reply(f, &heir, join)->view.incarnation, 2);
    fixture_connect(f, &observer);
    fixture_join(f, &observer);
    EXPECT_INT(f, last(f, &observer)->status, MUSTER_EINVAL);
}

#define SCENARIO(name)                                                                             \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        fixture_run(name);                                                                         \
    }

#define SCENARIOS(X)                                                                               \
    X(places_are_given_in_order)                                                                   \
    X(an_agents_word_finds_the_worker_by_its_process)                                              \
    X(a_helper_takes_no_nodes_number)                                                              \
    X(a_claim_waits_and_takes_over)                                                                \
    X(a_claim_is_refused_when_the_holder_speaks)                                                   \
    X(a_claim_can_be_given_up)                                                                     \
    X(parameters_are_fixed_by_who_names_them)                                                      \
    X(an_agents_word_is_taken_for_the_right_process_only)                                          \
    X(a_loss_fences_interrupts_and_is_told)                                                        \
    X(leaving_is_no_fault)                                                                         \
    X(the_first_fault_of_a_rank_counts)                                                            \
    X(members_are_listed_with_their_states)                                                        \
    X(a_member_shows_the_round_it_stands_at)                                                       \
    X(the_first_generation_waits_for_all)                                                          \
    X(the_first_generation_can_start_with_fewer)                                                   \
    X(the_first_of_a_job_without_a_size_is_refused)                                                \
    X(join_wait_runs_from_the_first_who_is_ready)                                                  \
    X(a_cancelled_join_names_who_is_missing)                                                       \
    X(a_cancelled_claim_names_the_holder)                                                          \
    X(a_status_that_comes_later_refines_the_cause)                                                 \
    X(a_seal_goes_on_with_who_arrived_and_who_is_ready)                                            \
    X(survivors_are_renumbered_in_order)                                                           \
    X(too_few_do_not_seal)                                                                         \
    X(a_seal_after_too_few_waits_for_a_newcomer)                                                   \
    X(a_seal_after_too_few_waits_until_its_deadline)                                               \
    X(who_misses_the_seal_is_evicted)                                                              \
    X(what_is_open_ends_with_its_generation)                                                       \
    X(a_generation_whose_members_are_all_gone_is_made_anew)                                        \
    X(a_seal_that_nobody_survives_lets_nobody_in)                                                  \
    X(an_empty_jobs_parameters_are_free_again)                                                     \
    X(a_newcomer_asks_to_be_let_in)                                                                \
    X(who_is_ready_too_late_waits_for_the_next_seal)                                               \
    X(with_grow_fault_a_newcomer_waits_for_one)                                                    \
    X(with_grow_off_nobody_is_let_in)                                                              \
    X(a_joiner_that_dies_is_not_let_in)                                                            \
    X(workers_join_at_once)

SCENARIOS(SCENARIO)

static void test_many_members_come_in_pages(void **state)
{
    (void)state;
    fixture_run_once(many_members_come_in_pages); /* each allocation failing would take long */
}

#define ROW(name) cmocka_unit_test(test_##name),

int main(void)
{
    const struct CMUnitTest tests[] = {SCENARIOS(ROW)
                                           cmocka_unit_test(test_many_members_come_in_pages)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
