/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: resuming, the window of repeatable requests, leases, and when it was the service itself
 * that slept.
 *
 * behaviour: sessions / Silence and coming back */
#include "core_fixture.h"

#include "service/core/session.h"

/* A connection asks for something before it has opened a session. It is refused and hung up on.
 * [service / Bad input] */
static void a_stranger_is_hung_up_on(struct fixture *f)
{
    struct client client = fixture_client(f, MST_ROLE_OBSERVER, 0);
    const struct mst_reply *reply;

    client.conn.id = 77;
    if (mst_core_open(f->core, f->now_ns, client.conn) != MUSTER_OK) {
        return;
    }
    reply = fixture_get(f, &client, "k");
    EXPECT_INT(f, reply->status, MUSTER_EPROTO);
    EXPECT(f, fixture_hung_up(f, &client));
    reply = fixture_get(f, &client, "k");
    EXPECT_INT(f, reply->status, MUSTER_MORE);
    fixture_disconnect(f, &client);
}

/* A second session is opened on a connection. The connection is closed. The same one again is
 * fine. */
static void one_connection_carries_one_session(struct fixture *f)
{
    struct client client = fixture_client(f, MST_ROLE_OBSERVER, 0);
    struct mst_request again = {.command = MST_OPEN, .open = client.open};

    fixture_connect(f, &client);
    fixture_send(f, &client, again); /* the same one: resumed where it is */
    EXPECT_INT(f, fixture_get(f, &client, "k")->status, MUSTER_ENOTFOUND);
    EXPECT(f, !fixture_hung_up(f, &client));
    again.open.token.low = 999;
    fixture_send(f, &client, again);
    EXPECT(f, fixture_hung_up(f, &client));
}

/* A session is opened. The client gets the lease, its index and its incarnation. */
static void open_tells_the_lease_and_the_place(struct fixture *f)
{
    struct client rank = fixture_rank(f, 3, 8);
    const struct mst_reply *reply = fixture_connect(f, &rank);

    EXPECT_INT(f, reply->status, MUSTER_OK);
    EXPECT_INT(f, reply->number, FIXTURE_LEASE_MS);
    EXPECT(f, reply->has_view);
    EXPECT_INT(f, reply->view.generation, 0);
    EXPECT_INT(f, reply->view.index, 3);
    EXPECT_INT(f, reply->view.incarnation, 1);
    EXPECT_INT(f, reply->view.rank, MST_RANK_NONE);
    EXPECT(f, fixture_told_story(f, "member-joining #3 incarnation=1 host=b3 pid=101"));
}

/* A client comes back while its old connection still seems open. The old one is closed; what
 * waited on it is asked again on the new one. */
static void a_resumed_session_takes_its_connection_along(struct fixture *f)
{
    struct client rank = fixture_rank(f, 0, 2);
    struct client before;
    const struct mst_reply *reply;
    uint64_t waits;

    fixture_connect(f, &rank);
    waits = fixture_wait_get(f, &rank, "later");
    before = rank;
    reply = fixture_connect(f, &rank);
    EXPECT_INT(f, reply->status, MUSTER_OK);
    EXPECT_INT(f, reply->view.incarnation, 1);
    EXPECT(f, fixture_hung_up(f, &before));
    /* What waited on the old one is gone; on the new one it is repeated. */
    fixture_write(f, &rank, MST_PUT, "later", "x");
    EXPECT_INT(f, fixture_reply(f, &before, waits)->status, MUSTER_MORE);
    EXPECT_INT(f, fixture_times_told(f, &before, waits), 0);
    reply = fixture_get(f, &rank, "later");
    EXPECT_TEXT(f, reply->value, "x");
}

/* A connection is lost. The member is *silent* and nothing is decided. It comes back with its
 * identity, and the lease begins anew. */
static void a_silent_member_returns_with_its_identity(struct fixture *f)
{
    struct client rank = fixture_rank(f, 0, 2);
    const struct mst_reply *reply;

    fixture_connect(f, &rank);
    fixture_disconnect(f, &rank);
    EXPECT(f, fixture_told_story(f, "member-silent #0 incarnation=1"));
    fixture_pass(f, FIXTURE_LEASE_MS - 1);
    reply = fixture_connect(f, &rank);
    EXPECT_INT(f, reply->status, MUSTER_OK);
    EXPECT_INT(f, reply->view.incarnation, 1);
    EXPECT(f, fixture_told_story(f, "member-back #0 incarnation=1"));
    fixture_pass(f, FIXTURE_LEASE_MS - 1);
    EXPECT(f, !fixture_told_story(f, "member-lost #0 incarnation=1 cause=lease"));
}

/* A member comes back after its loss was decided. It is refused (EFENCED) with the generation
 * the job is in. [members / Places] */
static void the_lease_ends_what_nobody_renews(struct fixture *f)
{
    struct client rank = fixture_rank(f, 0, 2);
    struct client observer = fixture_client(f, MST_ROLE_OBSERVER, 0);
    const struct mst_reply *reply;

    fixture_connect(f, &rank);
    fixture_connect(f, &observer);
    fixture_pass_renewing(f, 5 * FIXTURE_LEASE_MS);
    EXPECT(f, !fixture_told_story(f, "member-lost #0 incarnation=1 cause=lease"));
    fixture_pass(f, FIXTURE_LEASE_MS);
    EXPECT(f, fixture_told_story(f, "member-lost #0 incarnation=1 cause=lease"));
    /* Still connected, and told so at the next request; so is one that comes back. */
    reply = fixture_get(f, &rank, "k");
    EXPECT_INT(f, reply->status, MUSTER_EFENCED);
    EXPECT(f, reply->has_view);
    reply = fixture_connect(f, &rank);
    EXPECT_INT(f, reply->status, MUSTER_EFENCED);
    reply = fixture_get(f, &observer, "k");
    EXPECT_INT(f, reply->status, MUSTER_EFENCED);
}

/* A client whose loss was decided comes back and pretends to be new. It is refused: its token is
 * remembered. */
static void a_given_up_token_stays_given_up(struct fixture *f)
{
    struct client rank = fixture_rank(f, 0, 2);
    struct client observer = fixture_client(f, MST_ROLE_OBSERVER, 0);
    const struct mst_reply *reply;

    fixture_connect(f, &observer);
    fixture_connect(f, &rank);
    fixture_disconnect(f, &rank);
    fixture_pass(f, FIXTURE_LEASE_MS / 2);
    fixture_renew(f, &observer);
    fixture_pass(f, FIXTURE_LEASE_MS / 2);
    rank.open.incarnation = 0; /* even if it never learned that it was admitted */
    reply = fixture_connect(f, &rank);
    EXPECT_INT(f, reply->status, MUSTER_EFENCED);
    EXPECT_INT(f, reply->view.index, 0);
}

/* The service slept, or was stopped. Each lease is raised to a whole one, and the deadlines of
 * rounds are moved by the time it slept. */
static void nobody_is_blamed_when_the_service_slept(struct fixture *f)
{
    struct client ranks[2];
    struct mst_request round = fixture_round(1, "b", 0);
    uint64_t id;

    fixture_seal(f, ranks, 2);
    round.round.deadline_ms = 3000;
    id = fixture_send(f, &ranks[0], round);
    fixture_stall(f, 3 * FIXTURE_LEASE_MS);
    EXPECT(f, !fixture_told_story(f, "member-lost #0 incarnation=1 cause=lease"));
    EXPECT_INT(f, fixture_reply(f, &ranks[0], id)->status, MUSTER_MORE);
    /* The lease is raised to a whole one, not added to. */
    fixture_pass(f, FIXTURE_LEASE_MS - 1);
    EXPECT(f, !fixture_told_story(f, "member-lost #1 incarnation=1 cause=lease"));
    EXPECT_INT(f, fixture_reply(f, &ranks[0], id)->status, MUSTER_ETIMEDOUT);
    fixture_pass(f, 1);
    EXPECT(f, fixture_told_story(f, "member-lost #1 incarnation=1 cause=lease"));
}

/* A round was opened after the service woke. Its deadline is not moved. */
static void a_round_opened_late_is_not_shifted(struct fixture *f)
{
    struct client ranks[2];
    struct mst_request round = fixture_round(1, "b", 0);
    uint64_t id;

    fixture_seal(f, ranks, 2);
    round.round.deadline_ms = 3000;
    /* The stall ends, the sockets are read, and only then comes the tick. */
    f->now_ns += 5 * (uint64_t)FIXTURE_LEASE_MS * 1000000;
    id = fixture_send(f, &ranks[0], round);
    fixture_stall(f, 0);
    fixture_pass(f, 2999);
    EXPECT_INT(f, fixture_reply(f, &ranks[0], id)->status, MUSTER_MORE);
    fixture_pass(f, 1);
    EXPECT_INT(f, fixture_reply(f, &ranks[0], id)->status, MUSTER_ETIMEDOUT);
}

/* A write arrives for the second time. Its outcome is answered again, and it has no second
 * effect. [Requests that are repeated] */
static void a_repeated_write_has_no_second_effect(struct fixture *f)
{
    struct client client = fixture_client(f, MST_ROLE_OBSERVER, 0);
    struct mst_write op = {.kind = MST_ADD, .key = mst_slice_text("n"), .delta = 5};
    struct mst_request add = {.command = MST_WRITE, .write = {.ops = &op, .count = 1}};
    const struct mst_reply *reply;
    uint64_t revision;
    uint64_t first;

    fixture_connect(f, &client);
    first = fixture_send(f, &client, add);
    revision = fixture_reply(f, &client, first)->revision;
    client.oldest = first;
    for (int i = 0; i < 20; i++) { /* others, so that the outcomes kept have to move */
        fixture_add(f, &client, "n", 1);
    }
    fixture_connect(f, &client);
    add.id = first;
    reply = fixture_call(f, &client, add);
    EXPECT_INT(f, reply->status, MUSTER_OK);
    EXPECT_INT(f, reply->number, 5);
    EXPECT_INT(f, reply->revision, revision);
    reply = fixture_get(f, &client, "n");
    EXPECT_TEXT(f, reply->value, "25");
}

/* A refused write arrives for the second time. Its refusal is answered again.
 * [Requests that are repeated] */
static void a_refusal_is_repeated_too(struct fixture *f)
{
    struct client client = fixture_client(f, MST_ROLE_OBSERVER, 0);
    struct mst_write op = {.kind = MST_INSERT, .key = mst_slice_text("k")};
    struct mst_request insert = {.command = MST_WRITE, .write = {.ops = &op, .count = 1}};
    const struct mst_reply *reply;

    fixture_connect(f, &client);
    fixture_write(f, &client, MST_PUT, "k", "1");
    client.oldest = client.id + 1;
    insert.id = fixture_send(f, &client, insert);
    EXPECT_INT(f, fixture_reply(f, &client, insert.id)->status, MUSTER_EEXISTS);
    fixture_write(f, &client, MST_DELETE, "k", "");
    reply = fixture_call(f, &client, insert);
    EXPECT_INT(f, reply->status, MUSTER_EEXISTS);
}

/* A write was refused for want of room. The refusal is not repeated: older versions did not keep
 * what room it was. */
static void a_refusal_for_want_of_room_is_not_repeated(struct fixture *f)
{
    struct client client = fixture_client(f, MST_ROLE_OBSERVER, 0);
    struct mst_write op = {.kind = MST_PUT, .key = mst_slice_text("k")};
    struct mst_request put = {.command = MST_WRITE, .write = {.ops = &op, .count = 1}};
    struct mst_outcome kept = {.id = 3, .status = MUSTER_ELIMIT};
    struct mst_session *session;

    fixture_connect(f, &client);
    session = mst_session_find(f->core, client.open.token);
    if (session) {
        (void)mst_session_restore_outcome(session, &kept);
    }
    put.id = kept.id;
    client.oldest = 1;
    EXPECT_INT(f, fixture_call(f, &client, put)->status, MUSTER_OK);
    EXPECT_INT(f, fixture_get(f, &client, "k")->status, MUSTER_OK);
}

/* A request lies before the window of unanswered ones. It is refused (EFENCED). One beyond the
 * window is refused (ELIMIT). [Requests that are repeated] */
static void the_window_has_two_ends(struct fixture *f)
{
    struct client client = fixture_client(f, MST_ROLE_OBSERVER, 0);
    struct mst_request renew = {.command = MST_RENEW};
    const struct mst_reply *reply;

    fixture_connect(f, &client);
    client.oldest = 10;
    renew.id = 73;
    EXPECT_INT(f, fixture_call(f, &client, renew)->status, MUSTER_OK);
    renew.id = 74;
    reply = fixture_call(f, &client, renew);
    EXPECT_INT(f, reply->status, MUSTER_ELIMIT);
    EXPECT_INT(f, reply->detail.limit, MST_WINDOW);
    client.oldest = 5;
    renew.id = 9;
    EXPECT_INT(f, fixture_call(f, &client, renew)->status, MUSTER_EFENCED);
    client.oldest = 80;
    renew.id = 79;
    EXPECT_INT(f, fixture_call(f, &client, renew)->status, MUSTER_EINVAL);
}

enum { WAITING_BYTES = 65536 };

static void little(struct mst_core_config *config)
{
    config->waiting_bytes_max = WAITING_BYTES;
}

/* A connection keeps as many requests waiting as fit its memory. The one too many is refused with
 * the limit; when one of them is cancelled there is room for another. [Requests that are repeated]
 */
static void a_connection_keeps_only_so_much_waiting(struct fixture *f)
{
    struct client client = fixture_client(f, MST_ROLE_OBSERVER, 0);
    struct mst_request cancel = {.command = MST_CANCEL};
    const struct mst_reply *reply;
    uint64_t first, id;
    unsigned waiting = 0;

    fixture_connect(f, &client);
    first = id = fixture_wait_get(f, &client, "never");
    while (fixture_reply(f, &client, id)->status == MUSTER_MORE && waiting < WAITING_BYTES) {
        id = fixture_wait_get(f, &client, "never");
        waiting++;
    }
    reply = fixture_reply(f, &client, id);
    EXPECT_INT(f, reply->status, MUSTER_ELIMIT);
    EXPECT_INT(f, reply->detail.limit, WAITING_BYTES);
    EXPECT(f, waiting > WAITING_BYTES / 700 && waiting < WAITING_BYTES / 400);
    cancel.cancel.id = first;
    EXPECT_INT(f, fixture_call(f, &client, cancel)->number, 1);
    id = fixture_wait_get(f, &client, "never");
    EXPECT_INT(f, fixture_reply(f, &client, id)->status, MUSTER_MORE);
}

/* A waiting request is cancelled. It ends as cancelled, and the caller learns whether it was
 * still waiting. [Deadlines and cancelling] */
static void a_cancelled_wait_says_so(struct fixture *f)
{
    struct client client = fixture_client(f, MST_ROLE_OBSERVER, 0);
    struct mst_request cancel = {.command = MST_CANCEL};
    const struct mst_reply *reply;

    fixture_connect(f, &client);
    cancel.cancel.id = fixture_wait_get(f, &client, "k");
    reply = fixture_call(f, &client, cancel);
    EXPECT_INT(f, reply->number, 1);
    EXPECT_INT(f, fixture_reply(f, &client, cancel.cancel.id)->status, MUSTER_ECANCELLED);
    reply = fixture_call(f, &client, cancel);
    EXPECT_INT(f, reply->status, MUSTER_OK);
    EXPECT_INT(f, reply->number, 0);
}

/* Two jobs share a service. Neither sees the other's keys, members or generations. Both are in
 * its list of jobs. [Several jobs] */
static void jobs_are_islands(struct fixture *f)
{
    struct client one = fixture_rank(f, 0, 1);
    struct client two = fixture_rank(f, 0, 2);
    const struct mst_reply *reply;

    two.open.job = mst_slice_text("other");
    fixture_connect(f, &one);
    fixture_connect(f, &two);
    fixture_write(f, &one, MST_PUT, "k", "1");
    EXPECT_INT(f, fixture_get(f, &two, "k")->status, MUSTER_ENOTFOUND);
    fixture_join(f, &one);
    reply = fixture_call(f, &two, (struct mst_request){.command = MST_JOBS});
    EXPECT_INT(f, reply->item_count, 2);
    if (reply->item_count == 2) {
        EXPECT_TEXT(f, reply->items[0].name, "train");
        EXPECT_INT(f, reply->items[0].number, 1);
        EXPECT_INT(f, reply->items[0].arrived, 1);
        EXPECT_INT(f, reply->items[0].expected, 1);
        EXPECT_TEXT(f, reply->items[1].name, "other");
        EXPECT_INT(f, reply->items[1].number, 0);
        EXPECT_INT(f, reply->items[1].expected, 2);
    }
}

static uint32_t jobs_seen(struct fixture *f)
{
    struct client observer = fixture_client(f, MST_ROLE_OBSERVER, 0);
    uint32_t count;

    observer.open.job = mst_slice_text("observed");
    fixture_connect(f, &observer);
    count = fixture_call(f, &observer, (struct mst_request){.command = MST_JOBS})->item_count;
    fixture_send(f, &observer, (struct mst_request){.command = MST_LEAVE});
    fixture_disconnect(f, &observer);
    f->clients = observer.next;
    return count;
}

/* The last session of a job ends. The job is forgotten, unless it has keys. [Several jobs] */
static void a_job_lives_while_it_has_a_session_or_a_key(struct fixture *f)
{
    struct client client = fixture_client(f, MST_ROLE_OBSERVER, 0);
    struct client later = fixture_client(f, MST_ROLE_OBSERVER, 0);

    fixture_connect(f, &client);
    EXPECT_INT(f, jobs_seen(f), 2);
    fixture_send(f, &client, (struct mst_request){.command = MST_LEAVE});
    EXPECT_INT(f, jobs_seen(f), 1);
    fixture_connect(f, &later);
    fixture_write(f, &later, MST_PUT, "kept", "1");
    fixture_send(f, &later, (struct mst_request){.command = MST_LEAVE});
    EXPECT_INT(f, jobs_seen(f), 2);
    later.open.token.low = 500;
    fixture_connect(f, &later);
    EXPECT_TEXT(f, fixture_get(f, &later, "kept")->value, "1");
    fixture_write(f, &later, MST_DELETE, "kept", "");
    fixture_send(f, &later, (struct mst_request){.command = MST_LEAVE});
    EXPECT_INT(f, jobs_seen(f), 1);
}

/* A service that lost its state meets a member of before. The member is refused, and the next
 * generation gets a number above the largest that any member names; incarnations too. */
static void generations_grow_over_a_lost_state(struct fixture *f)
{
    struct client old = fixture_rank(f, 0, 1);
    struct client fresh = fixture_rank(f, 0, 1);
    const struct mst_reply *reply;

    old.open.incarnation = 4;
    old.open.generation = 17;
    reply = fixture_connect(f, &old);
    EXPECT_INT(f, reply->status, MUSTER_EFENCED);
    EXPECT_INT(f, jobs_seen(f), 1); /* nobody is in it: only its numbers are kept */
    fixture_connect(f, &fresh);
    reply = fixture_reply(f, &fresh, fixture_join(f, &fresh));
    EXPECT_INT(f, reply->status, MUSTER_OK);
    EXPECT_INT(f, reply->view.generation, 18);
    EXPECT_INT(f, reply->view.incarnation, 5);
}

/* The last session of a job ends, and a later run takes its name. Generation and incarnations go
 * on from where they were: a process of the old run may live on behind a broken network, and
 * storage fence by its numbers. [The client's side] */
static void numbers_outlive_a_job_that_ended(struct fixture *f)
{
    struct client before = fixture_rank(f, 0, 1);
    struct client after = fixture_rank(f, 0, 1);
    const struct mst_reply *reply;

    fixture_connect(f, &before);
    fixture_join(f, &before);
    fixture_pass(f, FIXTURE_LEASE_MS + 1); /* lost, and with it the job */
    EXPECT_INT(f, jobs_seen(f), 1);
    fixture_connect(f, &after);
    reply = fixture_reply(f, &after, fixture_join(f, &after));
    EXPECT_INT(f, reply->status, MUSTER_OK);
    EXPECT_INT(f, reply->view.generation, 2);
    EXPECT_INT(f, reply->view.incarnation, 2);
}

/* A job's name or a token makes no sense. The opening is refused. [Several jobs] */
static void what_makes_no_sense_is_refused(struct fixture *f)
{
    struct client client = fixture_client(f, MST_ROLE_OBSERVER, 0);
    const struct mst_reply *reply;
    char long_name[300];

    memset(long_name, 'n', sizeof(long_name));
    client.open.job = mst_slice_of("a\0b", 3);
    EXPECT_INT(f, fixture_connect(f, &client)->status, MUSTER_EINVAL);
    client.open.job = mst_slice_of(NULL, 0);
    EXPECT_INT(f, fixture_connect(f, &client)->status, MUSTER_EINVAL);
    client.open.job = mst_slice_of(long_name, sizeof(long_name));
    reply = fixture_connect(f, &client);
    EXPECT_INT(f, reply->status, MUSTER_ELIMIT);
    EXPECT_INT(f, reply->detail.limit, 256);
    client.open.job = mst_slice_text("train");
    client.open.token = (struct mst_token){0};
    EXPECT_INT(f, fixture_connect(f, &client)->status, MUSTER_EINVAL);
}

static void few(struct mst_core_config *config)
{
    config->limits.sessions_max = 2;
    config->limits.jobs_max = 2;
    config->limits.members_max = 1;
    config->limits.connections_max = 3;
}

/* Sessions, members, jobs or connections reach their limit in the service's tables. The one too
 * many is refused with the limit; when another has left, there is room again.
 * [service / Load and limits] */
static void tables_have_limits(struct fixture *f)
{
    struct client one = fixture_rank(f, 0, 4);
    struct client two = fixture_rank(f, 1, 4);
    struct client three = fixture_client(f, MST_ROLE_OBSERVER, 0);
    struct client four = fixture_client(f, MST_ROLE_OBSERVER, 0);
    struct client five = fixture_client(f, MST_ROLE_OBSERVER, 0);
    const struct mst_reply *reply;

    fixture_connect(f, &one);
    reply = fixture_connect(f, &two);
    EXPECT_INT(f, reply->status, MUSTER_ELIMIT);
    EXPECT_INT(f, reply->detail.limit, 1);
    three.open.job = mst_slice_text("second");
    EXPECT_INT(f, fixture_connect(f, &three)->status, MUSTER_OK);
    fixture_disconnect(f, &two);
    reply = fixture_connect(f, &four);
    EXPECT_INT(f, reply->status, MUSTER_ELIMIT);
    EXPECT_INT(f, reply->detail.limit, 2);
    EXPECT_INT(f, fixture_connect(f, &five)->status, MUSTER_MORE); /* no connection left */
    EXPECT_INT(f, five.conn.id, 0);
    fixture_send(f, &one, (struct mst_request){.command = MST_LEAVE});
    four.open.job = mst_slice_text("third");
    fixture_disconnect(f, &four);
    EXPECT_INT(f, fixture_connect(f, &four)->status, MUSTER_OK); /* "train" is gone */
}

#define SCENARIO(name)                                                                             \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        fixture_run(name);                                                                         \
    }

#define SCENARIOS(X)                                                                               \
    X(a_stranger_is_hung_up_on)                                                                    \
    X(one_connection_carries_one_session)                                                          \
    X(open_tells_the_lease_and_the_place)                                                          \
    X(a_resumed_session_takes_its_connection_along)                                                \
    X(a_silent_member_returns_with_its_identity)                                                   \
    X(the_lease_ends_what_nobody_renews)                                                           \
    X(a_given_up_token_stays_given_up)                                                             \
    X(nobody_is_blamed_when_the_service_slept)                                                     \
    X(a_round_opened_late_is_not_shifted)                                                          \
    X(a_repeated_write_has_no_second_effect)                                                       \
    X(a_refusal_is_repeated_too)                                                                   \
    X(a_refusal_for_want_of_room_is_not_repeated)                                                  \
    X(the_window_has_two_ends)                                                                     \
    X(a_cancelled_wait_says_so)                                                                    \
    X(jobs_are_islands)                                                                            \
    X(a_job_lives_while_it_has_a_session_or_a_key)                                                 \
    X(generations_grow_over_a_lost_state)                                                          \
    X(numbers_outlive_a_job_that_ended)                                                            \
    X(what_makes_no_sense_is_refused)

SCENARIOS(SCENARIO)

static void test_tables_have_limits(void **state)
{
    (void)state;
    fixture_run_with(tables_have_limits, few);
}

static void test_a_connection_keeps_only_so_much_waiting(void **state)
{
    (void)state;
    fixture_run_with(a_connection_keeps_only_so_much_waiting, little);
}

#define ROW(name) cmocka_unit_test(test_##name),

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIOS(ROW) cmocka_unit_test(test_tables_have_limits),
        cmocka_unit_test(test_a_connection_keeps_only_so_much_waiting)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
