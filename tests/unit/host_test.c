/* SPDX-License-Identifier: Apache-2.0 */
/* The host of a machine, with a machine that does as the test says, and no service: what is posted
 * stays open until the test answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/panic.h"
#include "base/text.h"
#include "client/shell/handle.h"
#include "client/shell/host.h"

enum { EFFECTS_MAX = 64, POSTS_MAX = 64, STORY_ROOM = 1024 };

enum own { OWN_TELL = 1, OWN_ASK = 2, OWN_INPUT = 3, OWN_END = 4 };

struct effect {
    struct mst_machine_effect head;
    enum own own;
};

static struct {
    struct mst_machine_host host; /* first, as in every shell */
    struct muster_client client;
    struct effect effects[EFFECTS_MAX];
    size_t first, count;
    uint64_t due_ns;
    muster_status refuses; /* of each post */
    struct mst_lib_post *posts[POSTS_MAX];
    size_t post_count;
    char story[STORY_ROOM];
    struct mst_text text;
} stage;

static const struct mst_request a_round = {.command = MST_ROUND};
static const struct mst_request a_write = {.command = MST_WRITE};

static void tell(const char *word, int64_t number)
{
    mst_text_add(&stage.text, word);
    mst_text_format(&stage.text, "%d", (int)number);
    mst_text_add(&stage.text, " ");
}

static void told(const char *story)
{
    assert_string_equal(stage.story, story);
    memset(stage.story, 0, sizeof(stage.story));
    stage.text = mst_text_in(stage.story, sizeof(stage.story));
}

/* ---- the client ---- */

/* NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming) */
muster_status __wrap_mst_lib_post(muster_client *client, const struct mst_request *request,
                                  uint64_t deadline_ns, struct mst_lib_post *post);
void __wrap_mst_lib_post_cancel(muster_client *client, struct mst_lib_post *post);
void __wrap_mst_lib_post_drop(muster_client *client, struct mst_lib_post *post);

muster_status __wrap_mst_lib_post(muster_client *client, const struct mst_request *request,
                                  uint64_t deadline_ns, struct mst_lib_post *post)
{
    assert_ptr_equal(client, &stage.client);
    assert_true(deadline_ns == UINT64_MAX);
    tell("post", (int64_t)request->command);
    if (stage.refuses == MUSTER_OK) {
        assert_true(stage.post_count < POSTS_MAX);
        stage.posts[stage.post_count++] = post;
    }
    return stage.refuses;
}

static int64_t place_of(const struct mst_lib_post *post)
{
    for (size_t i = stage.post_count; i > 0; i--) {
        if (stage.posts[i - 1] == post) {
            return (int64_t)i - 1;
        }
    }
    return -1;
}

void __wrap_mst_lib_post_cancel(muster_client *client, struct mst_lib_post *post)
{
    (void)client;
    tell("cancel", place_of(post));
}

void __wrap_mst_lib_post_drop(muster_client *client, struct mst_lib_post *post)
{
    (void)client;
    tell("drop", place_of(post));
}
/* NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming) */

static void answer_with(size_t place, const struct mst_reply *reply)
{
    stage.posts[place]->complete(stage.posts[place]->ctx, reply);
}

static void answer(size_t place, muster_status status)
{
    answer_with(place, &(struct mst_reply){.status = status});
}

/* ---- the machine ---- */

static void machine_attention(void *machine, uint64_t now_ns, const struct mst_view *view,
                              bool stopped)
{
    (void)machine;
    (void)now_ns;
    tell(stopped ? "stopped" : "view", (int64_t)view->generation);
}

static void machine_ended(void *machine, uint64_t now_ns, muster_status status)
{
    (void)machine;
    (void)now_ns;
    tell("ended", status);
}

/* The effect that was given out last: an input, or the next one, ends its life. */
static void effect_dies(void)
{
    if (stage.first > 0) {
        memset(&stage.effects[stage.first - 1], 0xee, sizeof(stage.effects[0]));
    }
}

static void machine_reply(void *machine, uint64_t now_ns, uint64_t tag,
                          const struct mst_reply *reply)
{
    assert_ptr_equal(machine, &stage);
    assert_true(now_ns > 0);
    effect_dies();
    tell("reply", (int64_t)tag);
    tell("", reply->status);
    if (reply->status == MUSTER_ELIMIT) {
        assert_int_equal(reply->command, MST_ROUND);
    }
}

static void machine_tick(void *machine, uint64_t now_ns)
{
    (void)machine;
    tell("tick", (int64_t)now_ns);
}

static uint64_t machine_deadline_ns(const void *machine)
{
    (void)machine;
    return stage.due_ns;
}

static const void *machine_next(void *machine)
{
    (void)machine;
    effect_dies();
    if (stage.first == stage.count) {
        return NULL;
    }
    return &stage.effects[stage.first++];
}

static const struct mst_machine machine = {.attention = machine_attention,
                                           .ended = machine_ended,
                                           .reply = machine_reply,
                                           .tick = machine_tick,
                                           .deadline_ns = machine_deadline_ns,
                                           .next = machine_next};

static void wants(struct effect effect)
{
    assert_true(stage.count < EFFECTS_MAX);
    stage.effects[stage.count++] = effect;
}

static void wants_call(uint64_t tag, const struct mst_request *request)
{
    wants((struct effect){.head = {.kind = MST_MACHINE_CALL, .tag = tag, .request = request}});
}

static void wants_cancel(uint64_t tag)
{
    wants((struct effect){.head = {.kind = MST_MACHINE_CANCEL, .tag = tag}});
}

static void wants_own(enum own own)
{
    wants((struct effect){.own = own});
}

/* ---- its shell ---- */

static bool shell_own(struct mst_machine_host *host, const void *effect)
{
    enum own own = ((const struct effect *)effect)->own;

    assert_ptr_equal(host, &stage.host);
    tell("own", own);
    if (own == OWN_INPUT) {
        mst_host_drain(host); /* is left to the loop that runs */
    }
    return own == OWN_ASK || own == OWN_END;
}

static bool shell_answer(struct mst_machine_host *host)
{
    (void)host;
    tell("answer", stage.effects[stage.first - 1].own);
    return stage.effects[stage.first - 1].own != OWN_END;
}

static void shell_look(struct mst_machine_host *host, uint64_t now_ns)
{
    (void)host;
    assert_true(now_ns > 0);
    tell("look", 0);
}

static void shell_calls(struct mst_machine_host *host)
{
    (void)host;
    tell("calls", 0);
}

static void shell_named(struct mst_machine_host *host, const struct mst_reply *reply)
{
    assert_true(host->named);
    tell("named", reply->detail.missing);
}

static const struct mst_host_shell plain = {.kind = &machine, .own = shell_own};
static const struct mst_host_shell full = {.kind = &machine,
                                           .own = shell_own,
                                           .answer = shell_answer,
                                           .look = shell_look,
                                           .calls = shell_calls,
                                           .named = shell_named};

static int set_up(void **state)
{
    (void)state;
    memset(&stage, 0, sizeof(stage));
    stage.host = (struct mst_machine_host){
        .shell = &plain, .client = &stage.client, .machine = (void *)&stage};
    stage.due_ns = UINT64_MAX;
    stage.text = mst_text_in(stage.story, sizeof(stage.story));
    return 0;
}

/* ---- the tests ---- */

_Static_assert(MST_ROUND == 11 && MST_WRITE == 6, "as the stories have them");

static void calls_are_made_and_their_replies_given(void **state)
{
    (void)state;
    wants_call(7, &a_round);
    wants_call(9, &a_write);
    mst_host_drain(&stage.host);
    told("post11 post6 ");
    answer(1, MUSTER_EEXISTS);
    told("reply9 -6 ");
    answer(0, MUSTER_OK);
    told("reply7 0 ");
}

static void what_follows_a_reply_is_drained(void **state)
{
    (void)state;
    wants_call(7, &a_round);
    mst_host_drain(&stage.host);
    wants_own(OWN_TELL);
    wants_call(8, &a_write);
    answer(0, MUSTER_OK);
    told("post11 reply7 0 own1 post6 ");
    answer(1, MUSTER_OK);
    told("reply8 0 ");
}

static void a_call_that_cannot_be_made_is_answered(void **state)
{
    (void)state;
    stage.refuses = MUSTER_ELIMIT;
    wants_call(7, &a_round);
    wants_own(OWN_TELL);
    mst_host_drain(&stage.host);
    told("post11 reply7 -3 own1 ");
    assert_false(mst_host_cancel(&stage.host, MST_ROUND));
}

static void more_calls_than_there_is_room_for_are_refused(void **state)
{
    (void)state;
    for (uint64_t tag = 1; tag <= MST_HOST_CALLS_MAX; tag++) {
        wants_call(tag, &a_round);
    }
    mst_host_drain(&stage.host);
    memset(stage.story, 0, sizeof(stage.story));
    stage.text = mst_text_in(stage.story, sizeof(stage.story));
    wants_call(99, &a_round);
    mst_host_drain(&stage.host);
    told("reply99 -3 ");
    answer(4, MUSTER_OK);
    told("reply5 0 ");
    wants_call(100, &a_round);
    mst_host_drain(&stage.host);
    told("post11 ");
    answer(MST_HOST_CALLS_MAX, MUSTER_OK);
    told("reply100 0 ");
}

static void a_call_is_cancelled_by_its_tag(void **state)
{
    (void)state;
    wants_call(7, &a_round);
    wants_call(9, &a_round);
    wants_cancel(9);
    wants_cancel(5); /* over already */
    mst_host_drain(&stage.host);
    told("post11 post11 cancel1 ");
    answer(1, MUSTER_ECANCELLED);
    told("reply9 -11 ");
}

static void calls_are_cancelled_by_their_command(void **state)
{
    (void)state;
    wants_call(7, &a_round);
    wants_call(8, &a_write);
    wants_call(9, &a_round);
    mst_host_drain(&stage.host);
    told("post11 post6 post11 ");
    assert_true(mst_host_cancel(&stage.host, MST_ROUND));
    told("cancel0 cancel2 ");
    assert_false(mst_host_cancel(&stage.host, MST_JOIN));
    answer(0, MUSTER_OK);
    answer(2, MUSTER_OK);
    assert_false(mst_host_cancel(&stage.host, MST_ROUND));
}

/* The machine's round is stopped for its names; it gets the reply like any other. */
static void the_names_of_a_round_go_to_the_shell(void **state)
{
    struct mst_reply reply = {.status = MUSTER_ECANCELLED, .has_detail = true};

    (void)state;
    stage.host.shell = &full;
    mst_host_ask_names(&stage.host);
    assert_false(stage.host.asks);
    wants_call(7, &a_round);
    wants_call(8, &a_write);
    mst_host_drain(&stage.host);
    told("calls0 post11 calls0 post6 ");
    mst_host_ask_names(&stage.host);
    told("cancel0 ");
    answer(1, MUSTER_ECANCELLED);
    told("look0 reply8 -11 ");
    assert_true(stage.host.asks);
    reply.detail.missing = 3;
    answer_with(0, &reply);
    told("named3 look0 reply7 -11 ");
    assert_true(stage.host.named && !stage.host.asks);

    wants_call(9, &a_round);
    mst_host_drain(&stage.host);
    mst_host_ask_names(&stage.host);
    assert_false(stage.host.named);
    told("calls0 post11 cancel2 ");
    answer(2, MUSTER_OK); /* decided before it was stopped: no names */
    told("look0 reply9 0 ");
    assert_false(stage.host.named || stage.host.asks);
}

static void what_is_dropped_is_not_open_any_more(void **state)
{
    (void)state;
    wants_call(7, &a_round);
    wants_call(9, &a_write);
    mst_host_drain(&stage.host);
    answer(0, MUSTER_OK);
    told("post11 post6 reply7 0 ");
    mst_host_drop(&stage.host);
    told("drop1 ");
    mst_host_drop(&stage.host);
    assert_false(mst_host_cancel(&stage.host, MST_WRITE));
    told("");
}

static void a_poisoned_client_is_left_alone(void **state)
{
    (void)state;
    wants_call(7, &a_round);
    mst_host_drain(&stage.host);
    told("post11 ");
    atomic_store(&stage.client.poisoned, true);
    mst_host_drop(&stage.host);
    told("");
}

static void an_answer_comes_when_the_effect_is_done(void **state)
{
    (void)state;
    stage.host.shell = &full;
    wants_own(OWN_ASK);
    wants_own(OWN_TELL);
    mst_host_drain(&stage.host);
    told("own2 answer2 own1 ");
}

/* Its memory may be another's by then. */
static void a_machine_that_is_gone_is_not_touched(void **state)
{
    (void)state;
    stage.host.shell = &full;
    wants_own(OWN_END);
    wants_own(OWN_TELL);
    mst_host_drain(&stage.host);
    told("own4 answer4 ");
}

static void an_input_within_an_effect_waits_for_its_end(void **state)
{
    (void)state;
    wants_own(OWN_INPUT);
    wants_own(OWN_TELL);
    mst_host_drain(&stage.host);
    told("own3 own1 ");
    wants_own(OWN_TELL); /* and the next one does not */
    mst_host_drain(&stage.host);
    told("own1 ");
}

static void its_shell_looks_before_each_input(void **state)
{
    const struct mst_view view = {.generation = 3};
    struct mst_lib_hook hook;

    (void)state;
    stage.host.shell = &full;
    hook = mst_host_hook(&stage.host);
    assert_ptr_equal(hook.ctx, &stage.host);
    hook.attention(hook.ctx, 1, &view, false);
    told("look0 view3 ");
    hook.attention(hook.ctx, 1, &view, true);
    told("look0 stopped3 ");
    hook.tick(hook.ctx, 12);
    told("look0 tick12 ");
    wants_call(7, &a_round);
    hook.ended(hook.ctx, 13, MUSTER_EFENCED);
    told("look0 ended-40 calls0 post11 ");
    answer(0, MUSTER_EFENCED);
    told("look0 reply7 -40 ");
    stage.refuses = MUSTER_ELIMIT;
    wants_call(8, &a_round);
    mst_host_drain(&stage.host);
    told("calls0 post11 look0 reply8 -3 ");
}

static void the_hook_drains(void **state)
{
    const struct mst_view view = {.generation = 3};
    struct mst_lib_hook hook = mst_host_hook(&stage.host);

    (void)state;
    wants_own(OWN_TELL);
    hook.attention(hook.ctx, 1, &view, false);
    told("view3 own1 ");
    wants_own(OWN_TELL);
    hook.tick(hook.ctx, 2);
    told("tick2 own1 ");
    stage.due_ns = 77;
    assert_int_equal(hook.deadline_ns(hook.ctx), 77);
}

static void a_silent_host_asks_its_machine_nothing(void **state)
{
    const struct mst_view view = {.generation = 3};
    struct mst_lib_hook hook = mst_host_hook(&stage.host);

    (void)state;
    wants_call(7, &a_round);
    mst_host_drain(&stage.host);
    told("post11 ");
    stage.host.silent = true;
    stage.due_ns = 77;
    hook.attention(hook.ctx, 1, &view, false);
    hook.tick(hook.ctx, 2);
    hook.ended(hook.ctx, 3, MUSTER_EFENCED);
    answer(0, MUSTER_OK);
    assert_true(hook.deadline_ns(hook.ctx) == UINT64_MAX);
    told("");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(calls_are_made_and_their_replies_given, set_up),
        cmocka_unit_test_setup(what_follows_a_reply_is_drained, set_up),
        cmocka_unit_test_setup(a_call_that_cannot_be_made_is_answered, set_up),
        cmocka_unit_test_setup(more_calls_than_there_is_room_for_are_refused, set_up),
        cmocka_unit_test_setup(a_call_is_cancelled_by_its_tag, set_up),
        cmocka_unit_test_setup(calls_are_cancelled_by_their_command, set_up),
        cmocka_unit_test_setup(the_names_of_a_round_go_to_the_shell, set_up),
        cmocka_unit_test_setup(what_is_dropped_is_not_open_any_more, set_up),
        cmocka_unit_test_setup(a_poisoned_client_is_left_alone, set_up),
        cmocka_unit_test_setup(an_answer_comes_when_the_effect_is_done, set_up),
        cmocka_unit_test_setup(a_machine_that_is_gone_is_not_touched, set_up),
        cmocka_unit_test_setup(an_input_within_an_effect_waits_for_its_end, set_up),
        cmocka_unit_test_setup(its_shell_looks_before_each_input, set_up),
        cmocka_unit_test_setup(the_hook_drains, set_up),
        cmocka_unit_test_setup(a_silent_host_asks_its_machine_nothing, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
