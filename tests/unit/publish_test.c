/* SPDX-License-Identifier: Apache-2.0 */
/* Giving notice and taking it back: what is written where something is already.
 *
 * behaviour: preemption / Giving notice */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/time.h"
#include "core_service.h"
#include "failing_mem.h"
#include "preempt/publish.h"

static struct core_service service;
static uint32_t publisher, hand; /* clients of it: ours, and another one */

static struct {
    uint32_t page;         /* items of a page; 0: all */
    unsigned requests;     /* that were made */
    void (*between)(void); /* another hand, before each write */
    muster_status refusal; /* of the next request */
} stage;

static struct failing_mem failing;

static void reset(void)
{
    const struct mst_open open = {.role = MST_ROLE_OBSERVER};

    if (service.core) {
        core_service_fini(&service);
    }
    core_service_init(&service, 1000 * NS_PER_MS);
    publisher = core_service_open(&service, &open);
    hand = core_service_open(&service, &open);
    memset(&stage, 0, sizeof(stage));
    failing_mem_init(&failing, 0);
}

static int tear_down(void **state)
{
    (void)state;
    if (service.core) {
        core_service_fini(&service);
    }
    return 0;
}

static void put_text(const char *name, const char *value)
{
    const struct mst_write op = {
        .kind = MST_PUT, .key = mst_slice_text(name), .value = mst_slice_text(value)};
    const struct mst_request request = {.command = MST_WRITE, .write = {.ops = &op, .count = 1}};

    assert_int_equal(core_service_ask(&service, hand, &request)->status, MUSTER_OK);
}

static const struct mst_reply *get(const char *name)
{
    const struct mst_request request = {.command = MST_GET, .get = {.key = mst_slice_text(name)}};

    return core_service_ask(&service, hand, &request);
}

static const char *value_of(const char *name)
{
    static char value[MST_NOTICE_VALUE_ROOM];
    const struct mst_reply *reply = get(name);

    (void)snprintf(value, sizeof(value), "%.*s", (int)reply->value.size,
                   (const char *)reply->value.data);
    return reply->status == MUSTER_OK ? value : NULL;
}

static uint32_t count_keys(void)
{
    const struct mst_request request = {.command = MST_LIST};

    return core_service_ask(&service, hand, &request)->item_count;
}

static void serve(struct mst_publish *publish, uint64_t tag, const struct mst_request *request)
{
    const struct mst_reply refused = {.status = stage.refusal};
    struct mst_reply *reply;

    stage.requests++;
    if (request->command == MST_WRITE && stage.between) {
        stage.between();
    }
    reply = core_reply_copy(
        stage.refusal != MUSTER_OK ? &refused : core_service_ask(&service, publisher, request));
    if (stage.page != 0 && reply->item_count > stage.page) {
        reply->item_count = stage.page;
        reply->next = 1;
    }
    mst_publish_machine.reply(publish, service.now_ns, tag + 1000, reply); /* not its own */
    mst_publish_machine.reply(publish, service.now_ns, tag, reply);
    free(reply);
}

/* What it came to; the number that was written in *written. */
static muster_status run(const struct mst_publish_config *config, uint32_t *written)
{
    const struct mst_publish_effect *effect;
    struct mst_publish *publish;
    muster_status status = mst_publish_new(&publish, service.now_ns, config, &failing.mem);
    bool over = false;

    if (status != MUSTER_OK) {
        return status;
    }
    while (!over) {
        struct mst_request request;
        struct mst_write writes[64];
        uint64_t tag;

        mst_publish_check(publish);
        effect = mst_publish_machine.next(publish);
        assert_non_null(effect);
        over = effect->head.kind == MST_MACHINE_OWN;
        status = effect->status;
        *written = effect->written;
        if (over) {
            assert_true((effect->reply != NULL) ==
                        (status != MUSTER_OK && status != MUSTER_ECONFLICT));
            continue;
        }
        tag = effect->head.tag;
        request = *effect->head.request;
        if (request.command == MST_WRITE) {
            memcpy(writes, request.write.ops, request.write.count * sizeof(writes[0]));
            request.write.ops = writes;
        }
        serve(publish, tag, &request);
    }
    assert_null(mst_publish_machine.next(publish));
    mst_publish_free(publish);
    assert_int_equal(failing.live, 0);
    return status;
}

static muster_status give(uint32_t index, uint64_t left_ms, uint32_t *written)
{
    struct mst_publish_config config = {
        .notice = {.left_ms = left_ms, .source = "file", .host = "b3", .reason = "soon"},
        .indices = &index,
        .count = 1};

    return run(&config, written);
}

/* There is no notice yet. A notice is one insert. */
static void the_first_notice_is_one_insert(void **state)
{
    uint32_t written = 0;

    (void)state;
    reset();
    assert_int_equal(give(3, 30000, &written), MUSTER_OK);
    assert_int_equal(written, 1);
    assert_int_equal(stage.requests, 1);
    assert_string_equal(value_of("muster/preempt/notice/3"),
                        "left_ms=30000 assumed=0 level=certain source=file host=b3 reason=soon");
}

/* There is an earlier or a later notice. The earlier deadline remains. */
static void the_earlier_deadline_remains(void **state)
{
    uint32_t written = 0;

    (void)state;
    reset();
    assert_int_equal(give(MST_NOTICE_ALL, 30000, &written), MUSTER_OK);
    service.now_ns += 10000 * NS_PER_MS;
    assert_int_equal(give(MST_NOTICE_ALL, 20050, &written), MUSTER_OK); /* the same moment */
    assert_int_equal(written, 0);
    assert_int_equal(give(MST_NOTICE_ALL, 60000, &written), MUSTER_OK);
    assert_int_equal(written, 0);
    assert_int_equal(give(MST_NOTICE_ALL, 5000, &written), MUSTER_OK);
    assert_int_equal(written, 1);
    assert_non_null(strstr(value_of("muster/preempt/notice/all"), "left_ms=5000 "));
}

/* A notice that is past, garbage or answered is there. It is replaced. */
static void what_is_past_or_garbage_or_answered_is_replaced(void **state)
{
    uint32_t written = 0;

    (void)state;
    reset();
    assert_int_equal(give(3, 1000, &written), MUSTER_OK);
    service.now_ns += 7000 * NS_PER_MS;
    assert_int_equal(give(3, 60000, &written), MUSTER_OK);
    assert_int_equal(written, 1);
    put_text("muster/preempt/notice/4", "garbage");
    assert_int_equal(give(4, 60000, &written), MUSTER_OK);
    assert_int_equal(written, 1);
    put_text("muster/preempt/notice/5", "left_ms=9223372036854775807 level=none");
    assert_int_equal(give(5, 60000, &written), MUSTER_OK);
    assert_int_equal(written, 1);
    put_text("muster/preempt/complete/1.0", "step=1 of=2 covered=1");
    assert_int_equal(give(4, 60000, &written), MUSTER_OK);
    assert_int_equal(written, 0); /* newer than what was answered */
    put_text("muster/preempt/complete/1.1", "step=1 of=2 covered=99");
    assert_int_equal(give(4, 90000, &written), MUSTER_OK);
    assert_int_equal(written, 1);
}

/* A later notice than the one that is there, which a save of all covered up to `covered`. */
static uint32_t given_after_a_save(int64_t ahead)
{
    char fact[64];
    uint32_t written = 0;

    reset();
    assert_int_equal(give(3, 30000, &written), MUSTER_OK);
    (void)snprintf(
        fact, sizeof(fact), "step=17 of=4 covered=%llu",
        (unsigned long long)(get("muster/preempt/notice/3")->revision + (uint64_t)ahead));
    put_text("muster/preempt/complete/1.0", fact);
    assert_int_equal(give(3, 60000, &written), MUSTER_OK);
    return written;
}

/* A later notice comes once the one before is saved for. It counts: the save covers what was
 * known up to a revision, which is that of the last notice itself. */
static void a_later_notice_counts_once_the_one_before_is_saved_for(void **state)
{
    (void)state;
    assert_int_equal(given_after_a_save(-1), 0);
    assert_int_equal(given_after_a_save(0), 1);
    assert_int_equal(given_after_a_save(1), 1);
}

/* One is there with 30 s left; `passed_ms` later another one is given. */
static uint32_t given_later(uint64_t passed_ms, uint64_t left_ms)
{
    uint32_t written = 0;

    reset();
    assert_int_equal(give(3, 30000, &written), MUSTER_OK);
    service.now_ns += passed_ms * NS_PER_MS;
    assert_int_equal(give(3, left_ms, &written), MUSTER_OK);
    return written;
}

static void the_bounds_of_earlier_and_of_past_are_exact(void **state)
{
    (void)state;
    assert_int_equal(given_later(0, 30000 - MST_PUBLISH_SAME_MS), 0);
    assert_int_equal(given_later(0, 30000 - MST_PUBLISH_SAME_MS - 1), 1);
    assert_int_equal(given_later(30000 + MST_PUBLISH_PAST_MS, 90000), 0);
    assert_int_equal(given_later(30000 + MST_PUBLISH_PAST_MS + 1, 90000), 1);
}

/* An advisory notice is there and a certain one comes. The certain one goes before. */
static void a_certain_notice_goes_before_an_advisory_one(void **state)
{
    uint32_t index = 3;
    uint32_t written = 0;
    struct mst_publish_config advisory = {
        .notice = {.left_ms = 1000, .level = MST_NOTICE_ADVISORY}, .indices = &index, .count = 1};

    (void)state;
    reset();
    assert_int_equal(run(&advisory, &written), MUSTER_OK);
    assert_int_equal(give(3, 60000, &written), MUSTER_OK);
    assert_int_equal(written, 1);
    assert_int_equal(run(&advisory, &written), MUSTER_OK);
    assert_int_equal(written, 0);
}

/* A whole node is given notice. It is written in groups, each whole. */
static void a_node_is_given_notice_in_groups(void **state)
{
    uint32_t indices[70];
    uint32_t written = 0;
    struct mst_publish_config config = {
        .notice = {.left_ms = 1000}, .indices = indices, .count = 70};

    (void)state;
    reset();
    stage.page = 7;
    for (uint32_t i = 0; i < 70; i++) {
        indices[i] = i;
    }
    assert_int_equal(give(33, 10, &written), MUSTER_OK);
    assert_int_equal(run(&config, &written), MUSTER_OK);
    assert_int_equal(written, 69);
    assert_non_null(value_of("muster/preempt/notice/69"));
    assert_non_null(strstr(value_of("muster/preempt/notice/33"), "left_ms=10 "));
    config.withdraw = true;
    assert_int_equal(run(&config, &written), MUSTER_OK);
    assert_int_equal(written, 70);
    assert_int_equal(count_keys(), 0);
}

/* The notice of a node is taken back. Only what was read is deleted, and of a source only its
 * own. */
static void what_is_taken_back_is_what_was_read(void **state)
{
    uint32_t index = 3;
    uint32_t written = 0;
    struct mst_publish_config config = {.withdraw = true, .indices = &index, .count = 1};

    (void)state;
    reset();
    assert_int_equal(run(&config, &written), MUSTER_OK);
    assert_int_equal(written, 0);
    assert_int_equal(give(3, 1000, &written), MUSTER_OK);
    (void)snprintf(config.notice.source, sizeof(config.notice.source), "google");
    assert_int_equal(run(&config, &written), MUSTER_OK);
    assert_int_equal(written, 0); /* another source's */
    (void)snprintf(config.notice.source, sizeof(config.notice.source), "file");
    assert_int_equal(run(&config, &written), MUSTER_OK);
    assert_int_equal(written, 1);
    assert_null(value_of("muster/preempt/notice/3"));
}

static unsigned hands;

static void another_hand(void)
{
    if (hands > 0) {
        hands--;
        put_text("muster/preempt/notice/3", "left_ms=50000");
    }
}

/* Two clients give notice at once. The earlier deadline remains; against a client that writes
 * all the time it is given up. */
static void of_two_at_once_the_earlier_deadline_remains(void **state)
{
    uint32_t written = 0;

    (void)state;
    reset();
    stage.between = another_hand;
    hands = 3;
    assert_int_equal(give(3, 1000, &written), MUSTER_OK);
    assert_int_equal(written, 1);
    assert_non_null(strstr(value_of("muster/preempt/notice/3"), "left_ms=1000 "));
    reset();
    stage.between = another_hand;
    hands = 3;
    assert_int_equal(give(3, 90000, &written), MUSTER_OK);
    assert_int_equal(written, 0);
    hands = 1000; /* somebody who writes all the time */
    assert_int_equal(give(3, 1000, &written), MUSTER_ECONFLICT);
}

/* The service refuses. Its status is passed on. */
static void what_the_service_refuses_is_passed_on(void **state)
{
    uint32_t written = 0;

    (void)state;
    reset();
    stage.refusal = MUSTER_ENOSPACE;
    assert_int_equal(give(3, 1000, &written), MUSTER_ENOSPACE);
}

static void without_memory_or_sense_it_is_not_begun(void **state)
{
    uint32_t indices[2] = {3, 3};
    struct mst_publish_config config = {.indices = indices, .count = 2};
    struct mst_publish *publish;

    (void)state;
    reset();
    assert_int_equal(mst_publish_new(&publish, 0, &config, &failing.mem), MUSTER_EINVAL);
    config.count = 0;
    assert_int_equal(mst_publish_new(&publish, 0, &config, &failing.mem), MUSTER_EINVAL);
    config.count = 1;
    for (size_t at = 1; at <= 2; at++) {
        failing_mem_init(&failing, at);
        assert_int_equal(mst_publish_new(&publish, 0, &config, &failing.mem), MUSTER_ENOMEM);
        assert_null(publish);
        assert_int_equal(failing.live, 0);
    }
    mst_publish_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_notice_is_one_insert),
        cmocka_unit_test(the_earlier_deadline_remains),
        cmocka_unit_test(what_is_past_or_garbage_or_answered_is_replaced),
        cmocka_unit_test(a_later_notice_counts_once_the_one_before_is_saved_for),
        cmocka_unit_test(the_bounds_of_earlier_and_of_past_are_exact),
        cmocka_unit_test(a_certain_notice_goes_before_an_advisory_one),
        cmocka_unit_test(a_node_is_given_notice_in_groups),
        cmocka_unit_test(what_is_taken_back_is_what_was_read),
        cmocka_unit_test(of_two_at_once_the_earlier_deadline_remains),
        cmocka_unit_test(what_the_service_refuses_is_passed_on),
        cmocka_unit_test(without_memory_or_sense_it_is_not_begun),
    };

    return cmocka_run_group_tests(tests, NULL, tear_down);
}
