/* SPDX-License-Identifier: Apache-2.0 */
/* What befell a generation: kept in order, told with the seal, counted.
 *
 * behaviour: generations / Faults of a generation */
#include "core_fixture.h"
#include "service/core/counts.h"
#include "service/core/look.h"

enum { MANY = 100 };

static muster_status fault(struct fixture *f, struct client *rank, uint64_t generation,
                           enum mst_cause kind, const char *words)
{
    return fixture_call(f, rank,
                        (struct mst_request){.command = MST_FAULT,
                                             .fault = {.generation = generation,
                                                       .kind = kind,
                                                       .text = mst_slice_text(words)}})
        ->status;
}

static const struct mst_reply *lost(struct fixture *f, struct client *agent,
                                    const struct client *rank, enum mst_cause cause, int32_t code,
                                    const char *words)
{
    return fixture_call(f, agent,
                        (struct mst_request){.command = MST_LOST,
                                             .lost = {.index = rank->open.index,
                                                      .pid = rank->open.pid,
                                                      .cause = cause,
                                                      .code = code,
                                                      .text = mst_slice_text(words)}});
}

static uint64_t seal(struct fixture *f, struct client *rank, uint64_t generation)
{
    struct mst_request request = fixture_round(generation, "seal", 0);

    request.round.seal = true;
    request.round.on_loss = MST_PROCEED;
    return fixture_send(f, rank, request);
}

static const struct mst_reply *faults(struct fixture *f, struct client *client, uint64_t after)
{
    return fixture_call(f, client,
                        (struct mst_request){.command = MST_FAULTS, .page = {.after = after}});
}

/* After a failed allocation there may be fewer. */
static struct mst_item item(const struct mst_reply *reply, uint32_t at)
{
    return at < reply->item_count ? reply->items[at] : (struct mst_item){.number = 0};
}

/* Ranks with pids of their own, sealed into generation 1, and their agent. */
static void begin(struct fixture *f, struct client *ranks, uint32_t count, struct client *agent)
{
    *agent = fixture_client(f, MST_ROLE_AGENT, 0);
    fixture_connect(f, agent);
    for (uint32_t i = 0; i < count; i++) {
        ranks[i] = fixture_rank(f, i, count);
        ranks[i].open.pid = 1000 + i;
        ranks[i].open.node = 0;
        fixture_connect(f, &ranks[i]);
        fixture_join(f, &ranks[i]);
    }
}

/* ---- keeping ---- */

/* A hundred ranks are lost. The first eight are kept, and the number. */
static void many_are_kept_as_the_first_eight(struct fixture *f)
{
    static struct client ranks[MANY];
    const struct mst_reply *reply;
    struct client agent;
    uint64_t last;

    begin(f, ranks, MANY, &agent);
    EXPECT_INT(f, fault(f, &ranks[MANY - 1], 1, MST_CAUSE_UNHEALTHY, "no space left"), MUSTER_OK);
    for (uint32_t i = 1; i < MANY; i++) {
        fixture_pass(f, 3);
        lost(f, &agent, &ranks[i], MST_CAUSE_SIGNAL, 9, "");
    }
    last = seal(f, &ranks[0], 1);
    reply = fixture_reply(f, &ranks[0], last);
    EXPECT_INT(f, reply->status, MUSTER_OK);
    EXPECT_INT(f, reply->view.faults, 1);
    EXPECT_INT(f, reply->next, MANY); /* a fault and 99 losses */
    EXPECT_INT(f, reply->item_count, MST_NAMES_MAX);
    EXPECT_INT(f, item(reply, 0).who.index, MANY - 1);
    EXPECT_INT(f, item(reply, 0).who.cause, MST_CAUSE_UNHEALTHY);
    EXPECT_INT(f, item(reply, 0).expected, 0);
    EXPECT_TEXT(f, item(reply, 0).value, "no space left");
    EXPECT_INT(f, item(reply, 7).who.index, 7);
    EXPECT_INT(f, item(reply, 7).who.state, MST_STATE_LOST);
    EXPECT_INT(f, item(reply, 7).expected, 1); /* agent 0 told it */
    EXPECT_INT(f, item(reply, 7).arrived, 21);
    EXPECT_INT(f, item(reply, 7).number, 1);
    EXPECT_INT(f, item(reply, 7).who.heard_ms, 3 * (MANY - 1) - 21);
    reply = faults(f, &agent, 0);
    EXPECT_INT(f, reply->item_count, MST_NAMES_MAX);
    EXPECT_INT(f, reply->detail.expected, MANY);
    EXPECT_INT(f, reply->next, 0);
}

/* A rank reports two faults and is then ended: the first fault counts and the end is kept
 * besides. Another says that it leaves, and leaves: that is kept once. */
static void the_first_fault_and_the_end_of_a_rank(struct fixture *f)
{
    struct client ranks[3], agent;
    const struct mst_reply *reply;

    begin(f, ranks, 3, &agent);
    EXPECT_INT(f, fault(f, &ranks[1], 1, MST_CAUSE_NONE, "first"), MUSTER_OK);
    EXPECT_INT(f, fault(f, &ranks[1], 1, MST_CAUSE_ABORTED, "second"), MUSTER_OK);
    lost(f, &agent, &ranks[1], MST_CAUSE_HARD_TIMEOUT, 15, "third");
    EXPECT_INT(f, fault(f, &ranks[2], 1, MST_CAUSE_LEFT, "bye"), MUSTER_OK);
    fixture_call(f, &ranks[2], (struct mst_request){.command = MST_LEAVE});
    reply = faults(f, &ranks[0], 0);
    EXPECT_INT(f, reply->item_count, 3);
    EXPECT_INT(f, reply->detail.arrived, 3);
    EXPECT_INT(f, item(reply, 0).who.cause, MST_CAUSE_FAULT);
    EXPECT_TEXT(f, item(reply, 0).value, "first");
    EXPECT_INT(f, item(reply, 1).who.cause, MST_CAUSE_HARD_TIMEOUT);
    EXPECT_INT(f, item(reply, 1).who.code, 15);
    EXPECT_TEXT(f, item(reply, 1).value, "third");
    EXPECT_INT(f, item(reply, 2).who.cause, MST_CAUSE_LEFT);
    EXPECT_TEXT(f, item(reply, 2).value, "bye");
}

/* A rank only leaves. It is kept and shown with the next seal, and calls no rank out. */
static void a_leave_alone_is_kept_and_calls_nobody(struct fixture *f)
{
    struct client ranks[2], agent;
    const struct mst_reply *reply;

    begin(f, ranks, 2, &agent);
    fixture_call(f, &ranks[1], (struct mst_request){.command = MST_LEAVE});
    reply = fixture_reply(f, &ranks[0], fixture_watch(f, &ranks[0], MST_WATCH_VIEW, "", 0));
    EXPECT_INT(f, reply->view.attention, MST_CALM);
    EXPECT(f, !reply->has_detail);
    reply = fixture_reply(f, &ranks[0], seal(f, &ranks[0], 1));
    EXPECT_INT(f, reply->item_count, 1);
    EXPECT_INT(f, item(reply, 0).who.cause, MST_CAUSE_LEFT);
    EXPECT_INT(f, item(reply, 0).who.state, MST_LEFT);
}

/* `FAULTS` is read in pages, and the generation is sealed in between. No fault is shown twice,
 * none of those kept is left out. */
static void pages_go_on_over_a_seal(struct fixture *f)
{
    struct client ranks[2], agent;
    const struct mst_reply *reply;
    uint64_t first;

    begin(f, ranks, 2, &agent);
    fault(f, &ranks[0], 1, MST_CAUSE_NONE, "a");
    fault(f, &ranks[1], 1, MST_CAUSE_NONE, "b");
    seal(f, &ranks[0], 1);
    seal(f, &ranks[1], 1);
    fault(f, &ranks[1], 2, MST_CAUSE_NONE, "c");
    reply = faults(f, &ranks[0], 0);
    EXPECT_INT(f, reply->item_count, 3);
    /* As a client that was told the first of generation 1, however it came by this number. */
    first = 1 * (MST_NAMES_MAX + 1) + 1;
    reply = faults(f, &ranks[0], first);
    EXPECT_INT(f, reply->item_count, 2);
    EXPECT_TEXT(f, item(reply, 0).value, "b");
    EXPECT_INT(f, item(reply, 1).number, 2);
    EXPECT_INT(f, faults(f, &ranks[0], UINT64_MAX)->item_count, 0);
}

/* A replacement is taken in by a growth a moment after the loss. The generation that grew shows
 * its ranks no fault. What ended the last generation that did not end by growth stays listed
 * until another one does, and its cause can still be put right. */
static void growth_keeps_what_ended_the_generation_before(struct fixture *f)
{
    struct client ranks[2], again, agent;
    const struct mst_reply *reply;
    uint64_t last;

    begin(f, ranks, 2, &agent);
    lost(f, &agent, &ranks[1], MST_CAUSE_GONE, 0, "");
    reply = fixture_reply(f, &ranks[0], seal(f, &ranks[0], 1));
    EXPECT_INT(f, reply->view.generation, 2);
    EXPECT_INT(f, reply->item_count, 1);
    again = fixture_rank(f, 1, 2);
    again.open.pid = 2000;
    again.open.node = 0;
    fixture_connect(f, &again);
    fixture_join(f, &again);
    last = seal(f, &ranks[0], 2);
    reply = fixture_reply(f, &ranks[0], last);
    EXPECT_INT(f, reply->view.generation, 3); /* it only grew, and says so to its ranks */
    EXPECT_INT(f, reply->item_count, 0);
    EXPECT_INT(f, reply->next, 0);
    lost(f, &agent, &ranks[1], MST_CAUSE_SIGNAL, 9, ""); /* the cause comes late */
    reply = faults(f, &ranks[0], 0);
    EXPECT_INT(f, reply->item_count, 1);
    EXPECT_INT(f, reply->detail.expected, 1);
    EXPECT_INT(f, reply->detail.arrived, 0);
    EXPECT_INT(f, item(reply, 0).number, 1);
    EXPECT_INT(f, item(reply, 0).who.cause, MST_CAUSE_SIGNAL);
    fault(f, &ranks[0], 3, MST_CAUSE_NONE, "next");
    seal(f, &again, 3);
    seal(f, &ranks[0], 3);
    reply = faults(f, &ranks[0], 0);
    EXPECT_INT(f, reply->item_count, 1);
    EXPECT_INT(f, item(reply, 0).number, 3);
}

static muster_status passes_on(struct fixture *f, struct client *rank, muster_status status)
{
    return fixture_call(f, rank,
                        (struct mst_request){.command = MST_FAULT,
                                             .fault = {.generation = 1,
                                                       .code = status,
                                                       .text = mst_slice_text("returned it")}})
        ->status;
}

/* A rank returns ELOST or EFENCED where another was lost. That adds no fault to the record of
 * the loss. [restart / Fewer, and the end] */
static void what_is_passed_on_is_a_fault_where_there_is_no_other(struct fixture *f)
{
    struct client ranks[3], agent;
    const struct mst_reply *reply;

    begin(f, ranks, 3, &agent);
    lost(f, &agent, &ranks[2], MST_CAUSE_SIGNAL, 9, "");
    EXPECT_INT(f, passes_on(f, &ranks[0], MUSTER_ELOST), MUSTER_OK);
    EXPECT_INT(f, passes_on(f, &ranks[1], MUSTER_EFENCED), MUSTER_OK);
    reply = faults(f, &ranks[0], 0);
    EXPECT_INT(f, reply->item_count, 1);
    EXPECT_INT(f, item(reply, 0).who.cause, MST_CAUSE_SIGNAL);
}

/* A rank returns ELOST and there was no loss. It is a fault, of the first rank that returns it.
 * [restart / Fewer, and the end] */
static void what_is_passed_on_of_nothing_is_a_fault(struct fixture *f)
{
    struct client ranks[3], agent;
    const struct mst_reply *reply;

    begin(f, ranks, 3, &agent);
    EXPECT_INT(f, passes_on(f, &ranks[1], MUSTER_ELOST), MUSTER_OK);
    EXPECT_INT(f, passes_on(f, &ranks[0], MUSTER_ELOST), MUSTER_OK); /* of the first one */
    reply = faults(f, &ranks[0], 0);
    EXPECT_INT(f, reply->item_count, 1);
    EXPECT_INT(f, item(reply, 0).who.cause, MST_CAUSE_FAULT);
    EXPECT_INT(f, item(reply, 0).who.code, MUSTER_ELOST);
    EXPECT_INT(f, item(reply, 0).who.index, 1);
    EXPECT_TEXT(f, item(reply, 0).value, "returned it");
}

static void nobody_hangs_where_no_generation_is(struct fixture *f)
{
    struct client agent = fixture_client(f, MST_ROLE_AGENT, 0);
    const struct mst_reply *reply;

    fixture_connect(f, &agent);
    reply = fixture_call(
        f, &agent,
        (struct mst_request){
            .command = MST_FAULT,
            .fault = {.pid = 1, .index = MST_INDEX_ANY, .kind = MST_CAUSE_SOFT_TIMEOUT}});
    EXPECT_INT(f, reply->status, MUSTER_EFENCED);
    EXPECT_INT(f, faults(f, &agent, 0)->item_count, 0);
}

/* Faults have long words. Their list comes in pages. */
static void long_words_make_pages(struct fixture *f)
{
    static char words[60000];
    static struct client ranks[6];
    const struct mst_reply *reply;
    struct client agent;
    uint32_t told = 0;
    uint64_t after = 0;

    memset(words, 'w', sizeof(words) - 1);
    begin(f, ranks, 6, &agent);
    for (uint32_t i = 0; i < 6; i++) {
        EXPECT_INT(f, fault(f, &ranks[i], 1, MST_CAUSE_NONE, words), MUSTER_OK);
    }
    for (uint32_t pages = 0; pages < 3; pages++) {
        reply = faults(f, &ranks[0], after);
        told += reply->item_count;
        after = reply->next;
        if (after == 0) {
            break;
        }
    }
    EXPECT_INT(f, told, 6);
    EXPECT_INT(f, after, 0);
}

static void long_texts(struct mst_core_config *config)
{
    config->limits.text_bytes_max = 65536;
}

/* ---- telling ---- */

/* A rank is called out of its function. It learns at once what befell which rank first, if
 * anything did. */
static void who_is_called_out_is_told_why(struct fixture *f)
{
    struct client ranks[3], agent;
    const struct mst_reply *reply;
    uint64_t id, revision;

    begin(f, ranks, 3, &agent);
    reply = fixture_reply(f, &ranks[0], fixture_watch(f, &ranks[0], MST_WATCH_VIEW, "", 0));
    EXPECT(f, !reply->has_detail);
    revision = reply->revision;
    id = fixture_watch(f, &ranks[0], MST_WATCH_VIEW, "", revision);
    fault(f, &ranks[2], 1, MST_CAUSE_AGAIN, "");
    fault(f, &ranks[1], 1, MST_CAUSE_NONE, "");
    reply = fixture_reply(f, &ranks[0], id);
    EXPECT_INT(f, reply->view.attention, MST_INTERRUPT);
    EXPECT(f, reply->has_detail);
    EXPECT_INT(f, reply->detail.who_count, 1);
    EXPECT_INT(f, reply->detail.who[0].index, 2);
    EXPECT_INT(f, reply->detail.who[0].rank, 2);
    EXPECT_INT(f, reply->detail.who[0].cause, MST_CAUSE_AGAIN);
}

/* A rank stands at the seal and nothing befell one. The others are called out without a cause. */
static void who_stands_at_the_seal_calls_without_a_cause(struct fixture *f)
{
    struct client ranks[2], agent;
    const struct mst_reply *reply;

    begin(f, ranks, 2, &agent);
    seal(f, &ranks[1], 1);
    reply = fixture_reply(f, &ranks[0], fixture_watch(f, &ranks[0], MST_WATCH_VIEW, "", 0));
    EXPECT_INT(f, reply->view.attention, MST_INTERRUPT);
    EXPECT(f, !reply->has_detail);
    reply = fixture_reply(f, &ranks[0], seal(f, &ranks[0], 1));
    EXPECT_INT(f, reply->view.generation, 2);
    EXPECT_INT(f, reply->view.faults, 0);
    EXPECT_INT(f, reply->item_count, 0);
    EXPECT_INT(f, reply->next, 0);
}

/* All sessions of a job have ended. What befell it is forgotten with its generation. */
static void when_all_have_gone_it_is_forgotten(struct fixture *f)
{
    struct client ranks[2], agent, other;
    const struct mst_reply *reply;

    begin(f, ranks, 2, &agent);
    other = fixture_client(f, MST_ROLE_RANK, 0);
    other.open.size = 1;
    fixture_write(f, &ranks[0], MST_PUT, "keeps", "the job");
    fault(f, &ranks[0], 1, MST_CAUSE_NONE, "old");
    seal(f, &ranks[0], 1);
    reply = fixture_reply(f, &ranks[1], seal(f, &ranks[1], 1));
    EXPECT_INT(f, reply->view.faults, 1);
    fault(f, &ranks[1], 2, MST_CAUSE_NONE, "newer");
    fixture_call(f, &ranks[0], (struct mst_request){.command = MST_LEAVE});
    fixture_call(f, &ranks[1], (struct mst_request){.command = MST_LEAVE});
    fixture_call(f, &agent, (struct mst_request){.command = MST_LEAVE});
    fixture_connect(f, &other);
    reply = fixture_reply(f, &other, fixture_join(f, &other));
    EXPECT_INT(f, reply->view.generation, 3);
    EXPECT_INT(f, reply->view.faults, 0);
    EXPECT_INT(f, reply->item_count, 0);
    EXPECT_INT(f, faults(f, &other, 0)->item_count, 0);
}

/* ---- counting ---- */

static void copy_look(void *ctx, const struct mst_job_look *look)
{
    *(struct mst_job_look *)ctx = *look;
}

static uint64_t restarts(const struct fixture *f, enum mst_cause first)
{
    struct mst_job_look look = {.generation = 0};

    mst_look_jobs(f->core, copy_look, &look);
    return look.counts ? look.counts->restarts[first] : 0;
}

/* A generation is sealed after another. It is counted by what came first in that one; newcomers
 * alone are growth, sitting down otherwise is no restart. A death whose status comes after the
 * seal counts by its status unless the count has been read. */
static void restarts_count_by_what_came_first(struct fixture *f)
{
    struct client ranks[2], agent, next;

    begin(f, ranks, 2, &agent);
    EXPECT_INT(f, restarts(f, MST_CAUSE_NONE), 0); /* the first generation is none */
    fault(f, &ranks[1], 1, MST_CAUSE_AGAIN, "");
    fault(f, &ranks[0], 1, MST_CAUSE_NONE, "");
    seal(f, &ranks[0], 1);
    seal(f, &ranks[1], 1);
    EXPECT_INT(f, restarts(f, MST_CAUSE_AGAIN), 1);
    EXPECT_INT(f, restarts(f, MST_CAUSE_FAULT), 0);

    /* Its death was told before its status, which comes after the seal. */
    lost(f, &agent, &ranks[1], MST_CAUSE_GONE, 0, "");
    seal(f, &ranks[0], 2);
    lost(f, &agent, &ranks[1], MST_CAUSE_SIGNAL, 9, "");
    EXPECT_INT(f, restarts(f, MST_CAUSE_SIGNAL), 1);
    EXPECT_INT(f, restarts(f, MST_CAUSE_GONE), 0);

    next = fixture_rank(f, 1, 2);
    next.open.pid = 2000;
    fixture_connect(f, &next);
    fixture_join(f, &next);
    seal(f, &ranks[0], 3);
    EXPECT_INT(f, restarts(f, MST_CAUSE_NONE), 1); /* a newcomer alone */

    /* Who looks before the status comes has seen it as it was. */
    lost(f, &agent, &next, MST_CAUSE_GONE, 0, "");
    seal(f, &ranks[0], 4);
    EXPECT_INT(f, restarts(f, MST_CAUSE_GONE), 1);
    lost(f, &agent, &next, MST_CAUSE_SIGNAL, 9, "");
    EXPECT_INT(f, restarts(f, MST_CAUSE_GONE), 1);
    EXPECT_INT(f, restarts(f, MST_CAUSE_SIGNAL), 1);
}

/* A member has come that was in a later generation than the service knows, so the next number
 * leaps. Its ranks learn what ended the last one all the same, and the restart is counted by
 * that. */
static void a_generation_that_leaps_tells_what_ended_the_last(struct fixture *f)
{
    struct client ranks[2], observer, agent;
    const struct mst_reply *reply;

    begin(f, ranks, 2, &agent);
    observer = fixture_client(f, MST_ROLE_OBSERVER, 0);
    observer.open.generation = 50;
    fixture_connect(f, &observer);
    fault(f, &ranks[1], 1, MST_CAUSE_AGAIN, "once more");
    seal(f, &ranks[1], 1);
    reply = fixture_reply(f, &ranks[0], seal(f, &ranks[0], 1));
    EXPECT_INT(f, reply->view.generation, 51);
    EXPECT_INT(f, reply->item_count, 1);
    EXPECT_INT(f, item(reply, 0).number, 1);
    EXPECT_TEXT(f, item(reply, 0).value, "once more");
    EXPECT_INT(f, restarts(f, MST_CAUSE_AGAIN), 1);
    EXPECT_INT(f, restarts(f, MST_CAUSE_NONE), 0);

    /* And where nothing ended it there is nothing to tell. */
    observer = fixture_client(f, MST_ROLE_OBSERVER, 1);
    observer.open.generation = 60;
    fixture_connect(f, &observer);
    seal(f, &ranks[1], 51);
    reply = fixture_reply(f, &ranks[0], seal(f, &ranks[0], 51));
    EXPECT_INT(f, reply->view.generation, 61);
    EXPECT_INT(f, reply->item_count, 0);
    EXPECT_INT(f, restarts(f, MST_CAUSE_AGAIN), 1);
}

/* The phases of a restart are timed. */
static void phases_of_a_restart(struct fixture *f)
{
    const struct mst_histogram *phases = mst_core_counts(f->core)->restarts;
    struct client ranks[2], agent;

    begin(f, ranks, 2, &agent);
    fault(f, &ranks[1], 1, MST_CAUSE_NONE, "");
    fixture_pass(f, 20);
    seal(f, &ranks[0], 1);
    fixture_pass(f, 300);
    seal(f, &ranks[1], 1);
    EXPECT_INT(f, phases[MST_PHASE_INTERRUPT].sum_ns, 20000000);
    EXPECT_INT(f, phases[MST_PHASE_GATHER].sum_ns, 300000000);
    EXPECT_INT(f, phases[MST_PHASE_TOTAL].sum_ns, 320000000);
    /* One that nothing befell, and where nobody new came, is none. */
    seal(f, &ranks[0], 2);
    seal(f, &ranks[1], 2);
    EXPECT_INT(f, mst_histogram_count(&phases[MST_PHASE_TOTAL]), 1);
    EXPECT_INT(f, restarts(f, MST_CAUSE_NONE), 0);
}

/* A restart is sealed from nobody. It is counted and not timed. */
static void a_restart_from_nobody_is_counted_and_not_timed(struct fixture *f)
{
    const struct mst_histogram *phases = mst_core_counts(f->core)->restarts;
    struct client rank, agent, next;
    const struct mst_reply *reply;

    begin(f, &rank, 1, &agent);
    lost(f, &agent, &rank, MST_CAUSE_EXIT, 3, "segment 7 is missing");
    next = fixture_rank(f, 0, 1);
    next.open.pid = 2000;
    fixture_connect(f, &next);
    reply = fixture_reply(f, &next, fixture_join(f, &next));
    EXPECT_INT(f, reply->view.generation, 2);
    EXPECT_INT(f, reply->view.faults, 1);
    EXPECT_INT(f, reply->next, 1);
    EXPECT_TEXT(f, item(reply, 0).value, "segment 7 is missing");
    EXPECT_INT(f, restarts(f, MST_CAUSE_EXIT), 1);
    EXPECT_INT(f, mst_histogram_count(&phases[MST_PHASE_TOTAL]), 0);
}

/* ---- no memory for the words ---- */

/* A rank reports a fault and there is no memory for its text. The others are interrupted all the
 * same; the text is missing. [attacks / No memory] */
static void a_fault_without_memory_for_its_text_still_interrupts(struct fixture *f)
{
    struct client ranks[2], agent;
    const struct mst_reply *reply;
    uint64_t watch;

    begin(f, ranks, 2, &agent);
    watch = fixture_watch(f, &ranks[0], MST_WATCH_VIEW, "", 0);
    watch = fixture_watch(f, &ranks[0], MST_WATCH_VIEW, "",
                          fixture_reply(f, &ranks[0], watch)->revision);
    f->mem.fail_at = f->mem.count + 1; /* its waiter is one that was kept */
    EXPECT_INT(f, fixture_reply(f, &ranks[0], watch)->status, MUSTER_MORE);
    assert_int_equal(fault(f, &ranks[1], 1, MST_CAUSE_NONE, "disk 3 is broken"), MUSTER_OK);
    assert_true(f->mem.failed);
    f->mem.failed = false;
    reply = fixture_reply(f, &ranks[0], watch);
    EXPECT_INT(f, reply->status, MUSTER_OK);
    EXPECT_INT(f, reply->view.attention, MST_INTERRUPT);
    reply = faults(f, &agent, 0);
    EXPECT_INT(f, reply->item_count, 1);
    EXPECT_INT(f, item(reply, 0).who.index, 1);
    EXPECT_INT(f, item(reply, 0).who.cause, MST_CAUSE_FAULT);
    EXPECT_TEXT(f, item(reply, 0).value, "");
}

/* An agent reports a death and there is no memory for the last words. The loss is decided all
 * the same. [attacks / No memory] */
static void a_death_without_memory_for_its_words_is_still_decided(struct fixture *f)
{
    struct client ranks[2], agent;
    const struct mst_reply *reply;

    begin(f, ranks, 2, &agent);
    f->mem.fail_at = f->mem.count + 1;
    reply = lost(f, &agent, &ranks[1], MST_CAUSE_SIGNAL, 9, "Killed");
    assert_int_equal(reply->status, MUSTER_OK);
    assert_int_equal(reply->number, 1);
    assert_true(f->mem.failed);
    f->mem.failed = false;
    reply = faults(f, &agent, 0);
    EXPECT_INT(f, reply->item_count, 1);
    EXPECT_INT(f, item(reply, 0).who.state, MST_STATE_LOST);
    EXPECT_INT(f, item(reply, 0).who.cause, MST_CAUSE_SIGNAL);
    EXPECT_TEXT(f, item(reply, 0).value, "");
}

#define SCENARIO(name)                                                                             \
    static void run_##name(void **state)                                                           \
    {                                                                                              \
        (void)state;                                                                               \
        fixture_run(name);                                                                         \
    }

SCENARIO(the_first_fault_and_the_end_of_a_rank)
SCENARIO(a_leave_alone_is_kept_and_calls_nobody)
SCENARIO(pages_go_on_over_a_seal)
SCENARIO(who_is_called_out_is_told_why)
SCENARIO(who_stands_at_the_seal_calls_without_a_cause)
SCENARIO(when_all_have_gone_it_is_forgotten)
SCENARIO(restarts_count_by_what_came_first)
SCENARIO(a_generation_that_leaps_tells_what_ended_the_last)
SCENARIO(phases_of_a_restart)
SCENARIO(a_restart_from_nobody_is_counted_and_not_timed)
SCENARIO(growth_keeps_what_ended_the_generation_before)
SCENARIO(nobody_hangs_where_no_generation_is)
SCENARIO(what_is_passed_on_is_a_fault_where_there_is_no_other)
SCENARIO(what_is_passed_on_of_nothing_is_a_fault)

static void run_many_are_kept_as_the_first_eight(void **state)
{
    (void)state;
    fixture_run_once(many_are_kept_as_the_first_eight);
}

static void run_a_fault_without_memory_for_its_text_still_interrupts(void **state)
{
    (void)state;
    fixture_run_once(a_fault_without_memory_for_its_text_still_interrupts);
}

static void run_a_death_without_memory_for_its_words_is_still_decided(void **state)
{
    (void)state;
    fixture_run_once(a_death_without_memory_for_its_words_is_still_decided);
}

static void run_long_words_make_pages(void **state)
{
    (void)state;
    fixture_run_once_with(long_words_make_pages, long_texts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(run_many_are_kept_as_the_first_eight),
        cmocka_unit_test(run_the_first_fault_and_the_end_of_a_rank),
        cmocka_unit_test(run_a_leave_alone_is_kept_and_calls_nobody),
        cmocka_unit_test(run_pages_go_on_over_a_seal),
        cmocka_unit_test(run_long_words_make_pages),
        cmocka_unit_test(run_who_is_called_out_is_told_why),
        cmocka_unit_test(run_who_stands_at_the_seal_calls_without_a_cause),
        cmocka_unit_test(run_when_all_have_gone_it_is_forgotten),
        cmocka_unit_test(run_restarts_count_by_what_came_first),
        cmocka_unit_test(run_a_generation_that_leaps_tells_what_ended_the_last),
        cmocka_unit_test(run_phases_of_a_restart),
        cmocka_unit_test(run_a_restart_from_nobody_is_counted_and_not_timed),
        cmocka_unit_test(run_growth_keeps_what_ended_the_generation_before),
        cmocka_unit_test(run_nobody_hangs_where_no_generation_is),
        cmocka_unit_test(run_what_is_passed_on_is_a_fault_where_there_is_no_other),
        cmocka_unit_test(run_what_is_passed_on_of_nothing_is_a_fault),
        cmocka_unit_test(run_a_fault_without_memory_for_its_text_still_interrupts),
        cmocka_unit_test(run_a_death_without_memory_for_its_words_is_still_decided),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
