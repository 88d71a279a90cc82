/* SPDX-License-Identifier: Apache-2.0 */
/* The machines of the three clouds, fed with answers: what they ask next, and what they tell. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "sources/metadata/metadata.h"

enum { LINES = 4096 };

static const int64_t second = 1000, minute = 60000, day = 86400000;

#define NOW 1803873600000 /* 1 Mar 2027 04:00:00 GMT */

struct stage {
    struct mst_metadata machine;
    struct mst_metadata_request asked[MST_METADATA_LANES];
    int64_t wall_ms;
    uint64_t clock_ms;
    char told[LINES];
    size_t size;
};

static void tell(void *ctx, const struct mst_metadata_event *event)
{
    static const char *const kinds[] = {"notice", "withdrawn", "unknown", "known", "say"};
    struct stage *stage = ctx;

    assert_non_null(memchr(event->text, '\0', sizeof event->text));
    assert_null(strchr(event->text, '\n'));
    if (event->kind == MST_METADATA_NOTICE) {
        stage->size += (size_t)snprintf(
            stage->told + stage->size, LINES - stage->size, "%s %s %s%s %lld: %s\n",
            kinds[event->kind], event->id, event->certain ? "certain" : "advisory",
            event->assumed ? " assumed" : "", (long long)event->left_ms, event->text);
    } else {
        stage->size += (size_t)snprintf(
            stage->told + stage->size, LINES - stage->size, "%s %s\n", kinds[event->kind],
            event->kind == MST_METADATA_WITHDRAWN ? event->id : event->text);
    }
    assert_true(stage->size < LINES);
}

static void begin(struct stage *stage, enum mst_metadata_source source)
{
    memset(stage, 0, sizeof *stage);
    stage->wall_ms = NOW;
    stage->clock_ms = 5000;
    mst_metadata_init(&stage->machine, source, tell, stage);
}

static const struct mst_metadata_request *ask(struct stage *stage, uint32_t lane)
{
    struct mst_metadata_request *asked = &stage->asked[lane];

    mst_metadata_ask(&stage->machine, lane, asked);
    return asked;
}

static void take(struct stage *stage, uint32_t lane, struct mst_metadata_answer answer)
{
    answer.wall_ms = stage->wall_ms;
    answer.clock_ms = stage->clock_ms;
    mst_metadata_take(&stage->machine, lane, &answer);
}

static void fails(struct stage *stage, uint32_t lane, enum mst_metadata_failure failure)
{
    take(stage, lane, (struct mst_metadata_answer){.failure = failure});
}

static void answers(struct stage *stage, uint32_t lane, uint32_t status, const char *body)
{
    take(stage, lane,
         (struct mst_metadata_answer){.status = status,
                                      .body = mst_slice_text(body),
                                      .etag = mst_slice_text("e7"),
                                      .flavor = mst_slice_text(" Google\r\n")});
}

static void told(struct stage *stage, const char *expected)
{
    assert_string_equal(stage->told, expected);
    stage->told[0] = '\0';
    stage->size = 0;
}

/* ---- Google ---- */

enum { PREEMPTED, MAINTENANCE, UPCOMING };

static void google_asks_and_hangs(void **state)
{
    struct stage stage;
    const struct mst_metadata_request *asked;

    (void)state;
    begin(&stage, MST_METADATA_GOOGLE);
    assert_int_equal(mst_metadata_lanes(&stage.machine), 3);
    asked = ask(&stage, PREEMPTED);
    assert_string_equal(asked->path, "/computeMetadata/v1/instance/preempted?wait_for_change=true"
                                     "&timeout_sec=60&last_etag=0");
    assert_string_equal(asked->headers[0], "Metadata-Flavor: Google");
    assert_int_equal(asked->method, MST_METADATA_GET);
    assert_int_equal(asked->wait_ms, 0);
    assert_int_equal(asked->timeout_ms, 2000);
    assert_string_equal(ask(&stage, UPCOMING)->path,
                        "/computeMetadata/v1/instance/upcoming-maintenance?alt=json"
                        "&wait_for_change=true&timeout_sec=60&last_etag=0");
    answers(&stage, PREEMPTED, 200, "FALSE\n");
    asked = ask(&stage, PREEMPTED);
    assert_string_equal(asked->path, "/computeMetadata/v1/instance/preempted?wait_for_change=true"
                                     "&timeout_sec=60&last_etag=e7");
    assert_int_equal(asked->wait_ms, 1000); /* whoever does not hang is not asked all the time */
    assert_true(asked->timeout_ms > 60000);
    answers(&stage, PREEMPTED, 200, "TRUE");
    told(&stage, "notice preempted certain assumed 30000: this machine is preempted\n");
    answers(&stage, PREEMPTED, 200, "TRUE"); /* the same again */
    told(&stage, "");
    answers(&stage, PREEMPTED, 200, "FALSE");
    told(&stage, "withdrawn preempted\n");
}

static void google_fails(void **state)
{
    static const struct {
        uint32_t status;
        int64_t wait_ms;
    } rows[] = {{503, 1000}, {500, 5000}, {404, 5000}, {403, 5000}, {302, 5000}, {204, 5000}};
    struct stage stage;

    (void)state;
    begin(&stage, MST_METADATA_GOOGLE);
    answers(&stage, PREEMPTED, 200, "TRUE");
    told(&stage, "notice preempted certain assumed 30000: this machine is preempted\n");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char line[128];

        answers(&stage, PREEMPTED, rows[i].status, "FALSE");
        (void)snprintf(line, sizeof line, "unknown the metadata service: status %u\n",
                       rows[i].status);
        told(&stage, line);
        assert_int_equal(ask(&stage, PREEMPTED)->wait_ms, rows[i].wait_ms);
        assert_non_null(strstr(ask(&stage, PREEMPTED)->path, "last_etag=0")); /* the plain value */
        answers(&stage, PREEMPTED, rows[i].status, "FALSE");                  /* said once */
        told(&stage, "");
        answers(&stage, PREEMPTED, 200, "TRUE");
        told(&stage, "known the metadata service answers again\n");
    }
    fails(&stage, PREEMPTED, MST_METADATA_TIMED_OUT); /* hung as long as it may */
    told(&stage, "");
    assert_int_equal(ask(&stage, PREEMPTED)->wait_ms, 0);
    fails(&stage, PREEMPTED, MST_METADATA_TIMED_OUT); /* what should not hang */
    told(&stage, "unknown the metadata service: no answer in time\n");
    assert_int_equal(ask(&stage, PREEMPTED)->wait_ms, 5000);
}

static void google_is_not_whoever_answers(void **state)
{
    struct stage stage;

    (void)state;
    begin(&stage, MST_METADATA_GOOGLE);
    take(&stage, PREEMPTED,
         (struct mst_metadata_answer){.status = 200, .body = mst_slice_text("TRUE")});
    told(&stage, "unknown the metadata service: it is not Google's\n");
    answers(&stage, PREEMPTED, 200, "<html>");
    answers(&stage, PREEMPTED, 200, "true");
    answers(&stage, PREEMPTED, 200, "");
    told(&stage, "");
    answers(&stage, MAINTENANCE, 200, "NONE"); /* that one key knows again is not enough */
    told(&stage, "");
    answers(&stage, PREEMPTED, 200, "FALSE");
    told(&stage, "known the metadata service answers again\n");
}

static void google_etag_that_is_none(void **state)
{
    static const char *const bad[] = {"",      "a b",    "x&timeout_sec=1",
                                      "\"q\"", "a/../b", "0\r\nHost:"};
    struct stage stage;

    (void)state;
    begin(&stage, MST_METADATA_GOOGLE);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        take(&stage, PREEMPTED,
             (struct mst_metadata_answer){.status = 200,
                                          .body = mst_slice_text("FALSE"),
                                          .etag = mst_slice_text(bad[i]),
                                          .flavor = mst_slice_text("Google")});
        assert_non_null(strstr(ask(&stage, PREEMPTED)->path, "last_etag=0"));
        assert_int_equal(ask(&stage, PREEMPTED)->wait_ms, 5000);
    }
}

static void google_maintenance(void **state)
{
    struct stage stage;

    (void)state;
    begin(&stage, MST_METADATA_GOOGLE);
    answers(&stage, MAINTENANCE, 200, "NONE");
    answers(&stage, MAINTENANCE, 200, "MIGRATE_ON_HOST_MAINTENANCE");
    told(&stage, "notice maintenance advisory assumed 60000: "
                 "maintenance of the host: MIGRATE_ON_HOST_MAINTENANCE\n");
    answers(&stage, MAINTENANCE, 200, "TERMINATE_ON_HOST_MAINTENANCE");
    told(&stage, "notice maintenance certain assumed 60000: "
                 "maintenance of the host: TERMINATE_ON_HOST_MAINTENANCE\n");
    answers(&stage, MAINTENANCE, 200, "<html>");
    told(&stage, "unknown the metadata service: a value that is none\n");
    answers(&stage, MAINTENANCE, 200, "NONE");
    told(&stage, "withdrawn maintenance\nknown the metadata service answers again\n");
    answers(&stage, MAINTENANCE, 200, "SHUTDOWN_ON_HOST_MAINTENANCE");
    answers(&stage, MAINTENANCE, 200, "SOMETHING_NEW");
    told(&stage, "notice maintenance certain assumed 60000: "
                 "maintenance of the host: SHUTDOWN_ON_HOST_MAINTENANCE\n"
                 "notice maintenance advisory assumed 60000: "
                 "maintenance of the host: SOMETHING_NEW\n");
}

static void google_window(void **state)
{
    struct stage stage;

    (void)state;
    begin(&stage, MST_METADATA_GOOGLE);
    answers(
        &stage, UPCOMING, 200,
        "{\"can_reschedule\":\"true\",\"type\":\"SCHEDULED\",\"maintenance_status\":\"PENDING\","
        "\"window_start_time\":\"2027-03-01T04:50:00Z\"}");
    told(&stage, "notice upcoming advisory 3000000: maintenance of the host is planned: SCHEDULED, "
                 "from 2027-03-01T04:50:00Z\n");
    answers(&stage, MAINTENANCE, 200, "TERMINATE_ON_HOST_MAINTENANCE");
    told(&stage, "notice maintenance certain 3000000: "
                 "maintenance of the host: TERMINATE_ON_HOST_MAINTENANCE\n");
    answers(&stage, UPCOMING, 200, /* it begins earlier, in the other spelling and wrapped */
            "{\"upcomingMaintenance\":{\"type\":\"SCHEDULED\",\"maintenanceStatus\":\"ONGOING\","
            "\"windowStartTime\":\"2027-03-01T04:10:00Z\"}}");
    told(&stage, "notice upcoming advisory 600000: maintenance of the host is planned: SCHEDULED, "
                 "from 2027-03-01T04:10:00Z\n"
                 "notice maintenance certain 600000: "
                 "maintenance of the host: TERMINATE_ON_HOST_MAINTENANCE\n");
    answers(&stage, UPCOMING, 200,
            "{\"error\": \"no notifications have been received yet, try again later\"}");
    told(&stage, "withdrawn upcoming\n");
    answers(&stage, MAINTENANCE, 200, "NONE");
    told(&stage, "withdrawn maintenance\n");
}

static void google_nothing_is_planned(void **state)
{
    static const char *const none[] = {"NONE", "\"NONE\"", "{}", "{\"error\":\"no\"}"};
    static const char *const bad[] = {"",    "[", "[]", "17", "{\"a\":1}", "{\"a\":{\"b\":1}}",
                                      "none"};
    struct stage stage;

    (void)state;
    begin(&stage, MST_METADATA_GOOGLE);
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        answers(&stage, UPCOMING, 200, none[i]);
        told(&stage, "");
    }
    answers(&stage, UPCOMING, 404, "");
    told(&stage, "");
    assert_int_equal(ask(&stage, UPCOMING)->wait_ms, minute);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        answers(&stage, UPCOMING, 200, bad[i]);
        told(&stage, "unknown the metadata service: a value that is none\n");
        answers(&stage, UPCOMING, 200, "NONE");
        told(&stage, "known the metadata service answers again\n");
    }
}

/* ---- Amazon ---- */

static void token(struct stage *stage, const char *token, const char *ttl)
{
    assert_int_equal(ask(stage, 0)->method, MST_METADATA_PUT);
    take(stage, 0,
         (struct mst_metadata_answer){
             .status = 200, .body = mst_slice_text(token), .token_ttl = mst_slice_text(ttl)});
}

static void asks(struct stage *stage, const char *path, int64_t wait_ms)
{
    const struct mst_metadata_request *asked = ask(stage, 0);

    assert_string_equal(asked->path, path);
    assert_int_equal(asked->wait_ms, wait_ms);
}

#define ACTION "/latest/meta-data/spot/instance-action"
#define REBALANCE "/latest/meta-data/events/recommendations/rebalance"
#define SCHEDULED "/latest/meta-data/events/maintenance/scheduled"
#define LIFECYCLE "/latest/meta-data/autoscaling/target-lifecycle-state"
#define TOKEN "/latest/api/token"

/* One round through the items; each NULL is 404. */
static void cycle(struct stage *stage, const char *action, const char *rebalance,
                  const char *scheduled, const char *lifecycle)
{
    const char *const bodies[] = {action, rebalance, scheduled, lifecycle};
    static const char *const paths[] = {ACTION, REBALANCE, SCHEDULED, LIFECYCLE};

    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(ask(stage, 0)->path, paths[i]);
        answers(stage, 0, bodies[i] ? 200 : 404, bodies[i] ? bodies[i] : "");
    }
    stage->clock_ms += 5000;
    stage->wall_ms += 5 * second;
}

static void amazon_asks(void **state)
{
    struct stage stage;

    (void)state;
    begin(&stage, MST_METADATA_AMAZON);
    assert_int_equal(mst_metadata_lanes(&stage.machine), 1);
    asks(&stage, TOKEN, 0);
    assert_string_equal(stage.asked[0].headers[0], "X-aws-ec2-metadata-token-ttl-seconds: 21600");
    token(&stage, "AQAEAH-x_y==", " 21600\r\n");
    asks(&stage, ACTION, 0);
    assert_string_equal(stage.asked[0].headers[0], "X-aws-ec2-metadata-token: AQAEAH-x_y==");
    cycle(&stage, NULL, NULL, "[]", "InService");
    asks(&stage, ACTION, 5000);
    cycle(&stage, NULL, NULL, NULL, NULL);
    told(&stage, "");
}

static void amazon_renews_in_time(void **state)
{
    struct stage stage;

    (void)state;
    begin(&stage, MST_METADATA_AMAZON);
    token(&stage, "t", "300");
    for (uint32_t i = 0; i < 240 / 5; i++) {
        assert_string_equal(ask(&stage, 0)->path, ACTION);
        cycle(&stage, NULL, NULL, "[]", NULL);
    }
    asks(&stage, TOKEN, 5000);
    token(&stage, "u", "garbage"); /* then it is as long as was asked for */
    cycle(&stage, NULL, NULL, "[]", NULL);
    asks(&stage, ACTION, 5000);
}

static void amazon_refuses_a_token(void **state)
{
    struct stage stage;

    (void)state;
    begin(&stage, MST_METADATA_AMAZON);
    token(&stage, "t", "21600");
    answers(&stage, 0, 404, "");
    answers(&stage, 0, 401, "");
    asks(&stage, TOKEN, 0);
    token(&stage, "u", "21600");
    asks(&stage, REBALANCE, 0); /* where it was */
    assert_string_equal(stage.asked[0].headers[0], "X-aws-ec2-metadata-token: u");
    answers(&stage, 0, 401, "");
    told(&stage, "unknown the metadata service: status 401\n");
    asks(&stage, TOKEN, 5000);
    token(&stage, "v", "21600");
    cycle(&stage, NULL, NULL, "[]", NULL);
    told(&stage, "known the metadata service answers again\n");
}

static void amazon_gives_no_token(void **state)
{
    static const char *const bad[] = {"", "a b", "a\r\nb: c", "<html>"};
    struct stage stage;

    (void)state;
    begin(&stage, MST_METADATA_AMAZON);
    answers(&stage, 0, 400, "");
    told(&stage, "unknown the metadata service: status 400\n");
    asks(&stage, TOKEN, 5000);
    answers(&stage, 0, 403, "");
    asks(&stage, TOKEN, minute);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        answers(&stage, 0, 200, bad[i]);
        asks(&stage, TOKEN, 5000);
    }
    fails(&stage, 0, MST_METADATA_NO_CONNECTION);
    asks(&stage, TOKEN, 5000);
    told(&stage, "");
    fails(&stage, 0, MST_METADATA_TIMED_OUT);
    assert_non_null(strstr(stage.told, "hop limit must be 2 or more"));
    stage.size = 0;
    asks(&stage, ACTION, 0); /* perhaps none is needed */
    assert_string_equal(stage.asked[0].headers[0], "");
    answers(&stage, 0, 401, "");
    asks(&stage, TOKEN, 5000);
    stage.told[0] = '\0';
    fails(&stage, 0, MST_METADATA_TIMED_OUT);
    told(&stage, ""); /* said once */
    cycle(&stage, NULL, NULL, "[]", NULL);
    told(&stage, "known the metadata service answers again\n");
    asks(&stage, ACTION, 5000);
}

static void amazon_interrupts(void **state)
{
    struct stage stage;

    (void)state;
    begin(&stage, MST_METADATA_AMAZON);
    token(&stage, "t", "21600");
    cycle(&stage, "{\"action\":\"terminate\",\"time\":\"2027-03-01T04:02:00Z\"}", NULL, "[]", NULL);
    told(&stage, "notice spot certain 120000: spot interruption: terminate\n");
    cycle(&stage, "{\"action\":\"terminate\",\"time\":\"2027-03-01T04:02:00Z\"}", NULL, "[]", NULL);
    told(&stage, "");
    cycle(&stage, "{\"action\":\"stop\",\"time\":\"2027-03-01T04:01:00Z\"}", NULL, "[]", NULL);
    told(&stage, "notice spot certain 50000: spot interruption: stop\n"); /* earlier */
    cycle(&stage, "{\"action\":\"stop\"", NULL, "[]", NULL);
    told(&stage, "unknown the metadata service: a value that is none\n");
    cycle(&stage, NULL, NULL, "[]", NULL);
    told(&stage, "withdrawn spot\nknown the metadata service answers again\n");
    cycle(&stage, "{\"action\":\"hibernate\",\"time\":\"2027-03-01T04:00:00Z\"}", NULL, "[]", NULL);
    told(&stage, "notice spot certain assumed -1: spot interruption: hibernate\n");
}

static void amazon_schedules(void **state)
{
    struct stage stage;

    (void)state;
    begin(&stage, MST_METADATA_AMAZON);
    token(&stage, "t", "21600");
    cycle(&stage, NULL, "{\"noticeTime\":\"2027-03-01T03:50:00Z\"}",
          "[{\"Code\":\"system-reboot\",\"Description\":\"scheduled\\nreboot\",\"EventId\":\"e-1\","
          "\"NotBefore\":\"1 Mar 2027 05:00:01 GMT\",\"State\":\"active\"},"
          "{\"Code\":\"system-maintenance\",\"EventId\":\"e-2\","
          "\"NotBefore\":\"1 Mar 2027 04:10:00 GMT\",\"State\":\"active\"},"
          "{\"Code\":\"instance-stop\",\"EventId\":\"e-3\",\"State\":\"completed\"}]",
          "Terminated");
    told(&stage,
         "notice rebalance advisory assumed -1: rebalance recommendation: a spot interruption may "
         "come\n"
         "notice e-1 advisory 3601000: scheduled event: system-reboot: scheduled\\x0areboot\n"
         "notice e-2 advisory 600000: scheduled event: system-maintenance\n"
         "notice autoscaling certain assumed -1: Auto Scaling takes this machine away: "
         "Terminated\n");
    cycle(&stage, NULL, NULL, /* it is near now; the other one is over */
          "[{\"Code\":\"system-reboot\",\"EventId\":\"e-1\",\"State\":\"active\","
          "\"NotBefore\":\"1 Mar 2027 05:00:01 GMT\"},"
          "{\"Code\":\"system-maintenance\",\"EventId\":\"e-2\",\"State\":\"canceled\"}]",
          "InService");
    told(&stage, "withdrawn rebalance\n"
                 "notice e-1 certain 3596000: scheduled event: system-reboot\n"
                 "withdrawn e-2\n"
                 "withdrawn autoscaling\n");
    cycle(&stage, NULL, NULL, "[{\"EventId\":\"e-1\"}]", "Standby");
    told(&stage, "unknown the metadata service: a value that is none\n"); /* and nothing else */
}

/* ---- Azure ---- */

enum { EVENTS, NAME };

#define DOCUMENT(events) "{\"DocumentIncarnation\":7,\"Events\":[" events "]}"
#define EVENT(id, type, status, resources, before)                                                 \
    "{\"EventId\":\"" id "\",\"EventType\":\"" type "\",\"EventStatus\":\"" status                 \
    "\",\"ResourceType\":\"VirtualMachine\",\"Resources\":[" resources "],\"NotBefore\":\"" before \
    "\",\"Description\":\"\",\"EventSource\":\"Platform\",\"DurationInSeconds\":-1}"
#define AT_10 "Mon, 01 Mar 2027 04:10:00 GMT"

static void azure_asks(void **state)
{
    struct stage stage;

    (void)state;
    begin(&stage, MST_METADATA_AZURE);
    assert_int_equal(mst_metadata_lanes(&stage.machine), 2);
    assert_string_equal(ask(&stage, EVENTS)->path,
                        "/metadata/scheduledevents?api-version=2020-07-01");
    assert_string_equal(stage.asked[EVENTS].headers[0], "Metadata: true");
    assert_true(stage.asked[EVENTS].timeout_ms > 2 * minute); /* the first one arms the service */
    assert_string_equal(ask(&stage, NAME)->path,
                        "/metadata/instance/compute/name?api-version=2021-02-01&format=text");
    answers(&stage, NAME, 500, "");
    assert_int_equal(ask(&stage, NAME)->wait_ms, 5000);
    answers(&stage, NAME, 200, "trainer_12");
    assert_int_equal(ask(&stage, NAME)->wait_ms, MST_METADATA_NEVER);
    answers(&stage, EVENTS, 200, DOCUMENT(""));
    assert_int_equal(ask(&stage, EVENTS)->wait_ms, 1000);
    assert_true(stage.asked[EVENTS].timeout_ms <= 10 * second);
    fails(&stage, EVENTS, MST_METADATA_TIMED_OUT);
    assert_int_equal(ask(&stage, EVENTS)->wait_ms, 5000);
    assert_true(stage.asked[EVENTS].timeout_ms > 2 * minute);
    told(&stage, "unknown the metadata service: no answer in time\n");
}

static void azure_events(void **state)
{
    struct stage stage;

    (void)state;
    begin(&stage, MST_METADATA_AZURE);
    answers(&stage, EVENTS, 200,
            DOCUMENT(EVENT("e-1", "Preempt", "Scheduled", "\"trainer_12\"", AT_10)));
    told(&stage, ""); /* the name is on its way */
    answers(&stage, NAME, 200, "trainer_12");
    answers(&stage, EVENTS, 200,
            DOCUMENT(EVENT("e-1", "Preempt", "Scheduled", "\"trainer_12\"", AT_10) "," EVENT(
                "e-2", "Reboot", "Scheduled", "\"trainer_1\",\"trainer_123\"", AT_10)));
    told(&stage, "notice e-1 certain 600000: scheduled event: Preempt\n");
    answers(&stage, EVENTS, 200, /* begun, and tells no time; another one */
            DOCUMENT(EVENT("e-1", "Preempt", "Started", "\"trainer_12\"", "") "," EVENT(
                "e-3", "Freeze", "Scheduled", "\"x\",\"TRAINER_12\"", AT_10)));
    told(&stage, "notice e-3 advisory 600000: scheduled event: Freeze\n");
    answers(&stage, EVENTS, 200,
            DOCUMENT(EVENT("e-4", "Reboot", "Started", "\"trainer_12\"", "") "," EVENT(
                "e-5", "Rebalance", "Scheduled", "\"trainer_12\"", AT_10)));
    told(&stage, "notice e-4 certain assumed -1: scheduled event: Reboot, started\n"
                 "notice e-5 advisory 600000: scheduled event: Rebalance\n"
                 "withdrawn e-1\nwithdrawn e-3\n");
    answers(&stage, EVENTS, 200,
            DOCUMENT(EVENT("e-6", "Redeploy", "Scheduled", "\"trainer_12\"",
                           "Wed, 03 Mar 2027 04:00:00 GMT")));
    told(&stage, "notice e-6 advisory 172800000: scheduled event: Redeploy\n"
                 "withdrawn e-4\nwithdrawn e-5\n");
}

static void azure_documents_that_are_none(void **state)
{
    static const char *const bad[] = {"",
                                      "[]",
                                      "null",
                                      "{}",
                                      "{\"Events\":[]}",
                                      "{\"DocumentIncarnation\":7}",
                                      "{\"DocumentIncarnation\":\"7\",\"Events\":[]}",
                                      "{\"DocumentIncarnation\":7,\"Events\":{}}",
                                      "{\"DocumentIncarnation\":7,\"Events\":[1]}",
                                      "{\"DocumentIncarnation\":7,\"Events\":[{}]}",
                                      "{\"DocumentIncarnation\":7,\"Events\":[]",
                                      "{\"DocumentIncarnation\":7,\"Events\":[]} and more",
                                      "{\"DocumentIncarnation\":7,\"Events\":[],\"Events\":[]}"};
    struct stage stage;

    (void)state;
    begin(&stage, MST_METADATA_AZURE);
    answers(&stage, NAME, 200, "trainer_12");
    answers(&stage, EVENTS, 200,
            DOCUMENT(EVENT("e-1", "Preempt", "Scheduled", "\"trainer_12\"", AT_10)));
    told(&stage, "notice e-1 certain 600000: scheduled event: Preempt\n");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        answers(&stage, EVENTS, 200, bad[i]);
        told(&stage,
             i == 0 ? "unknown the metadata service: no document of scheduled events\n" : "");
    }
    answers(&stage, EVENTS, 400, DOCUMENT(""));
    told(&stage, "");
    answers(&stage, EVENTS, 200, DOCUMENT(""));
    told(&stage, "withdrawn e-1\nknown the metadata service answers again\n");
}

static void azure_without_its_name(void **state)
{
    struct stage stage;

    (void)state;
    begin(&stage, MST_METADATA_AZURE);
    answers(&stage, NAME, 404, "");
    answers(&stage, EVENTS, 200,
            DOCUMENT(EVENT("e-1", "Preempt", "Scheduled", "\"trainer_12\"", AT_10)));
    told(&stage,
         "notice e-1 advisory 600000: scheduled event: Preempt, perhaps of another machine: "
         "the name of this one is not known\n");
    answers(&stage, NAME, 200, "trainer_12");
    answers(&stage, EVENTS, 200,
            DOCUMENT(EVENT("e-1", "Preempt", "Scheduled", "\"trainer_12\"", AT_10)));
    told(&stage, "notice e-1 certain 600000: scheduled event: Preempt\n");
}

/* ---- all ---- */

static void the_sources_clock_counts(void **state)
{
    struct stage stage;

    (void)state;
    begin(&stage, MST_METADATA_AZURE);
    answers(&stage, NAME, 200, "trainer_12");
    stage.wall_ms = NOW + 5 * day; /* ours is wrong */
    take(&stage, EVENTS,
         (struct mst_metadata_answer){
             .status = 200,
             .date = mst_slice_text(" Mon, 01 Mar 2027 04:09:00 GMT\r\n"),
             .body = mst_slice_text(
                 DOCUMENT(EVENT("e-1", "Preempt", "Scheduled", "\"trainer_12\"", AT_10)))});
    told(&stage, "notice e-1 certain 60000: scheduled event: Preempt\n");
}

static void the_worst_is_told(void **state)
{
    struct stage stage;
    struct mst_metadata_event worst;

    (void)state;
    begin(&stage, MST_METADATA_AZURE);
    answers(&stage, NAME, 200, "trainer_12");
    assert_false(mst_metadata_worst(&stage.machine, stage.clock_ms, &worst));
    answers(
        &stage, EVENTS, 200,
        DOCUMENT(EVENT(
            "e-1", "Freeze", "Started", "\"trainer_12\"",
            "Mon, 01 Mar 2027 04:01:00 GMT") "," EVENT("e-2", "Reboot", "Started", "\"trainer_12\"",
                                                       "") "," EVENT("e-3", "Redeploy", "Scheduled",
                                                                     "\"trainer_12\"", AT_10)));
    assert_true(mst_metadata_worst(&stage.machine, stage.clock_ms + 60000, &worst));
    assert_string_equal(worst.id, "e-3");
    assert_int_equal(worst.left_ms, 9 * minute);
    assert_true(mst_metadata_worst(&stage.machine, stage.clock_ms + 1200000, &worst));
    assert_int_equal(worst.left_ms, 0);
}

/* More events than anybody has: bounded, and those that were there first stay. */
static void a_crowd_of_events(void **state)
{
    static char body[MST_METADATA_BODY];
    static struct stage stage;
    size_t size = (size_t)snprintf(body, sizeof body, "{\"DocumentIncarnation\":1,\"Events\":[");
    uint32_t count = 0;

    (void)state;
    for (uint32_t i = 0; i < 200; i++) {
        size += (size_t)snprintf(body + size, sizeof body - size, "%s%s", i > 0 ? "," : "",
                                 EVENT("same beginning of an identifier that is far too long for "
                                       "anybody to have thought of it ",
                                       "Preempt", "Scheduled", "\"a\"", AT_10));
    }
    (void)snprintf(body + size, sizeof body - size, "]}");
    begin(&stage, MST_METADATA_AZURE);
    answers(&stage, NAME, 200, "a");
    answers(&stage, EVENTS, 200, body);
    for (uint32_t i = 0; i < MST_METADATA_TOLD; i++) {
        count += stage.machine.told[i].id[0] != '\0';
    }
    assert_int_equal(count, 1);
    size = (size_t)snprintf(body, sizeof body, "{\"DocumentIncarnation\":1,\"Events\":[");
    for (uint32_t i = 0; i < 200; i++) {
        size += (size_t)snprintf(body + size, sizeof body - size,
                                 "%s{\"EventId\":\"%u\",\"EventType\":\"x\",\"Resources\":[\"a\"]}",
                                 i > 0 ? "," : "", i);
    }
    (void)snprintf(body + size, sizeof body - size, "]}");
    stage.size = 0;
    answers(&stage, EVENTS, 200, body);
    for (uint32_t i = count = 0; i < MST_METADATA_TOLD; i++) {
        count += stage.machine.told[i].id[0] != '\0';
    }
    assert_int_equal(count, MST_METADATA_TOLD - 1); /* the first one made room at the end */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(google_asks_and_hangs),
        cmocka_unit_test(google_fails),
        cmocka_unit_test(google_is_not_whoever_answers),
        cmocka_unit_test(google_etag_that_is_none),
        cmocka_unit_test(google_maintenance),
        cmocka_unit_test(google_window),
        cmocka_unit_test(google_nothing_is_planned),
        cmocka_unit_test(amazon_asks),
        cmocka_unit_test(amazon_renews_in_time),
        cmocka_unit_test(amazon_refuses_a_token),
        cmocka_unit_test(amazon_gives_no_token),
        cmocka_unit_test(amazon_interrupts),
        cmocka_unit_test(amazon_schedules),
        cmocka_unit_test(azure_asks),
        cmocka_unit_test(azure_events),
        cmocka_unit_test(azure_documents_that_are_none),
        cmocka_unit_test(azure_without_its_name),
        cmocka_unit_test(the_sources_clock_counts),
        cmocka_unit_test(the_worst_is_told),
        cmocka_unit_test(a_crowd_of_events),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
