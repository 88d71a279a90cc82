/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP thread beside a loop that starts, does not answer, or has no memory.
 *
 * behaviour: http / Requests */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "service/server/http.h"

struct stage {
    struct mst_http *http;
    struct sockaddr_in name;
    int fd;
    atomic_int woken;
};

static void wake(void *ctx)
{
    struct stage *stage = ctx;

    atomic_fetch_add(&stage->woken, 1);
}

static atomic_uint_fast64_t clock_ns;

static uint64_t read_clock(void)
{
    return atomic_load(&clock_ns);
}

static void open_stage_with(struct stage *stage, struct mst_http_config config)
{
    socklen_t size = sizeof stage->name;
    struct muster_error err;

    memset(stage, 0, sizeof *stage);
    stage->name.sin_family = AF_INET;
    stage->name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    stage->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(stage->fd, (struct sockaddr *)&stage->name, size), 0);
    assert_int_equal(listen(stage->fd, SOMAXCONN), 0);
    assert_int_equal(getsockname(stage->fd, (struct sockaddr *)&stage->name, &size), 0);
    config.wake = wake;
    config.wake_ctx = stage;
    config.connections_max = 100;
    config.clock_ns = read_clock;
    config.fd = stage->fd;
    assert_int_equal(mst_http_open(&stage->http, &config, &err), MUSTER_OK);
}

/* However late this process is. */
enum { PATIENT_MS = 60000 };

static void open_stage(struct stage *stage)
{
    open_stage_with(stage, (struct mst_http_config){.answer_ms = PATIENT_MS,
                                                    .head_ms = PATIENT_MS,
                                                    .read_ms = PATIENT_MS});
}

static void close_stage(struct stage *stage)
{
    mst_http_close(stage->http);
    close(stage->fd);
}

static void ask_with(int fd, const char *path, const char *host)
{
    char text[512];
    int size = snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, host);

    assert_int_equal(send(fd, text, (size_t)size, 0), size);
}

static void ask_on(int fd, const char *path)
{
    ask_with(fd, path, "127.0.0.1");
}

static int ask_for(const struct stage *stage, const char *path, const char *host)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(connect(fd, (const struct sockaddr *)&stage->name, sizeof stage->name), 0);
    ask_with(fd, path, host);
    return fd;
}

static int ask(const struct stage *stage, const char *path)
{
    return ask_for(stage, path, "127.0.0.1");
}

static void answered_on(int fd, const char *head, const char *body)
{
    char text[2048] = "";
    size_t size = 0;

    do {
        ssize_t more = recv(fd, text + size, sizeof text - 1 - size, 0);

        assert_true(more > 0);
        size += (size_t)more;
        text[size] = '\0';
    } while (!strstr(text, body));
    assert_memory_equal(text, head, strlen(head));
}

static void answered(int fd, const char *head, const char *body)
{
    answered_on(fd, head, body);
    close(fd);
}

/* The loop's side: waits for a question about `subject`, and answers it. */
static void answer_next(const struct stage *stage, enum mst_http_subject subject,
                        struct mst_http_report *report)
{
    struct mst_http_question question;

    while (!mst_http_asked(stage->http, &question)) {
    }
    assert_int_equal(question.subject, subject);
    mst_http_answer(stage->http, report);
}

/* The service is still bringing its state back. It is alive and not ready. [Health] */
static void a_service_that_recovers_is_alive_and_not_ready(void **state)
{
    struct stage stage;

    (void)state;
    open_stage(&stage);
    answered(ask(&stage, "/livez"), "HTTP/1.1 200", "ok");
    answered(ask(&stage, "/readyz"), "HTTP/1.1 503", "recovery: not recovered yet\n");
    mst_http_turned(stage.http, MST_HTTP_SERVING);
    answered(ask(&stage, "/readyz"), "HTTP/1.1 200", "ok");
    close_stage(&stage);
}

static void a_loop_is_stuck_from_its_bound_on_and_not_before(void **state)
{
    struct stage stage;

    (void)state;
    open_stage(&stage);
    mst_http_turned(stage.http, MST_HTTP_SERVING);
    atomic_fetch_add(&clock_ns, MST_HTTP_STUCK_MS * UINT64_C(1000000) - 1);
    answered(ask(&stage, "/livez"), "HTTP/1.1 200", "ok");
    atomic_fetch_add(&clock_ns, 1);
    answered(ask(&stage, "/livez"), "HTTP/1.1 503", "loop: the loop has not turned for 5.0 s\n");
    answered(ask(&stage, "/readyz"), "HTTP/1.1 503", "loop: ");
    answered(ask(&stage, "/livez?exclude=loop"), "HTTP/1.1 200", "ok");
    mst_http_turned(stage.http, MST_HTTP_SERVING);
    answered(ask(&stage, "/livez"), "HTTP/1.1 200", "ok");
    close_stage(&stage);
}

/* One reader asks for metrics, another for the status of some job. Neither waits for the other's
 * copy of the state: that for `/metrics` stays good for a moment. */
static void one_subject_does_not_wait_for_the_other(void **state)
{
    struct stage stage;
    int fd;

    (void)state;
    open_stage(&stage);
    mst_http_turned(stage.http, MST_HTTP_SERVING);
    fd = ask(&stage, "/metrics");
    answer_next(&stage, MST_HTTP_METRICS, mst_http_report_new());
    answered(fd, "HTTP/1.1 200", "muster_leader 1\n");
    fd = ask(&stage, "/status.json?job=a");
    answer_next(&stage, MST_HTTP_STATUS, mst_http_report_new());
    answered(fd, "HTTP/1.1 404", "no job of this name\n");
    answered(ask(&stage, "/metrics"), "HTTP/1.1 200", "muster_leader 1\n");
    assert_int_equal(atomic_load(&stage.woken), 2);
    atomic_fetch_add(&clock_ns, 100 * UINT64_C(1000000));
    fd = ask(&stage, "/metrics");
    answer_next(&stage, MST_HTTP_METRICS, mst_http_report_new());
    answered(fd, "HTTP/1.1 200", "muster_leader 1\n");
    close_stage(&stage);
}

/* Metrics of 27 MB: the name of a job in 42 lines. */
static struct mst_http_report *large_report(void)
{
    enum { NAME = 640 << 10 };
    struct mst_http_report *report = mst_http_report_new();

    report->figures.jobs = calloc(1, sizeof *report->figures.jobs);
    report->figures.job_count = 1;
    report->figures.jobs[0].name = malloc(NAME);
    report->figures.jobs[0].name_size = NAME;
    memset(report->figures.jobs[0].name, 'j', NAME);
    return report;
}

/* Large answers are asked for and not read. Beyond 64 MiB of them the next reader's connection
 * is closed; health is answered. */
static void answers_that_nobody_reads_are_bounded(void **state)
{
    struct stage stage;
    int readers[2], third;
    char bytes[16];

    (void)state;
    open_stage(&stage);
    mst_http_turned(stage.http, MST_HTTP_SERVING);
    readers[0] = ask(&stage, "/metrics");
    answer_next(&stage, MST_HTTP_METRICS, large_report());
    assert_int_equal(recv(readers[0], bytes, sizeof bytes, MSG_WAITALL), sizeof bytes);
    readers[1] = ask(&stage, "/metrics");
    assert_int_equal(recv(readers[1], bytes, sizeof bytes, MSG_WAITALL), sizeof bytes);
    third = ask(&stage, "/metrics");
    assert_true(recv(third, bytes, 1, 0) <= 0);
    close(third);
    answered(ask(&stage, "/livez"), "HTTP/1.1 200", "ok");
    close(readers[0]);
    close(readers[1]);
    /* Their room comes back when the thread has seen them go. */
    for (ssize_t got = 0; got <= 0;) {
        third = ask(&stage, "/metrics");
        got = recv(third, bytes, sizeof bytes, MSG_WAITALL);
        close(third);
    }
    close_stage(&stage);
}

static bool is_closed(int fd)
{
    char byte;

    return recv(fd, &byte, 1, 0) <= 0;
}

/* One address opens as many connections as it can. It gets 64, and for one more its oldest idle
 * one is closed; the rest is for others. */
static void one_peer_has_so_many_connections_and_no_more(void **state)
{
    enum { MOST = 64 };
    struct stage stage;
    int held[MOST];
    int fd;

    (void)state;
    open_stage(&stage);
    for (int i = 0; i < MOST; i++) {
        held[i] = ask(&stage, "/livez");
        answered_on(held[i], "HTTP/1.1 200", "ok");
    }
    fd = ask(&stage, "/livez");
    answered_on(fd, "HTTP/1.1 200", "ok");
    assert_true(is_closed(held[0]));
    ask_on(held[1], "/livez");
    answered_on(held[1], "HTTP/1.1 200", "ok");
    close(fd);
    for (int i = 0; i < MOST; i++) {
        close(held[i]);
    }
    close_stage(&stage);
}

/* An address of its own on this machine: all of 127.0.0.0/8 is. */
static int ask_as(const struct stage *stage, unsigned address, const char *text)
{
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(address)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&own, sizeof own), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&stage->name, sizeof stage->name), 0);
    assert_int_equal(send(fd, text, strlen(text), 0), (ssize_t)strlen(text));
    return fd;
}

/* Heads that never end hold all places, from four addresses. The oldest of them goes, and the
 * newcomer is answered. */
static void unfinished_requests_of_many_peers_give_way(void **state)
{
    enum { HELD = 120, PEERS = 4 };
    struct stage stage;
    int held[HELD];
    int closed = 0;

    (void)state;
    open_stage(&stage);
    for (int i = 0; i < HELD; i++) {
        held[i] = ask_as(&stage, INADDR_LOOPBACK + 1 + (unsigned)(i % PEERS),
                         "GET /livez HTTP/1.1\r\nX: ");
    }
    answered(ask(&stage, "/livez"), "HTTP/1.1 200", "ok");
    assert_true(is_closed(held[0]));
    for (int i = 0; i < HELD; i++) {
        char byte;

        closed += recv(held[i], &byte, 1, MSG_DONTWAIT) == 0;
        close(held[i]);
    }
    assert_true(closed >= HELD - 100 && closed < HELD / 2);
    close_stage(&stage);
}

static void dawdle(int fd)
{
    struct pollfd polled = {.fd = fd};

    (void)poll(&polled, 1, 20); /* until it is hung up on, at most so long */
}

/* A head goes on byte by byte. It has one deadline for the whole of it: a byte now and then is
 * no silence. */
static void a_request_has_one_deadline(void **state)
{
    struct stage stage;
    int slow, idle;

    (void)state;
    open_stage_with(&stage, (struct mst_http_config){
                                .answer_ms = PATIENT_MS, .head_ms = 3000, .read_ms = PATIENT_MS});
    idle = ask(&stage, "/livez");
    answered_on(idle, "HTTP/1.1 200", "ok");
    slow = ask_as(&stage, INADDR_LOOPBACK, "GET /livez HTTP/1.1\r\nX: ");
    while (send(slow, "x", 1, MSG_NOSIGNAL) == 1) {
        dawdle(slow);
    }
    close(slow);
    assert_true(is_closed(idle));
    close(idle);
    close_stage(&stage);
}

/* An answer is read byte by byte, or not at all. It has one deadline, whatever is read
 * meanwhile. */
static void an_answer_has_a_deadline(void **state)
{
    struct stage stage;
    char bytes[65536];
    ssize_t got;
    size_t all = 0;
    int fd;

    (void)state;
    open_stage_with(&stage, (struct mst_http_config){
                                .answer_ms = PATIENT_MS, .head_ms = PATIENT_MS, .read_ms = 500});
    mst_http_turned(stage.http, MST_HTTP_SERVING);
    fd = ask(&stage, "/metrics");
    answer_next(&stage, MST_HTTP_METRICS, large_report());
    do { /* some of it every now and then */
        got = recv(fd, bytes, 4096, 0);
        all += got > 0 ? (size_t)got : 0;
        dawdle(fd);
    } while (got > 0 && all < 1 << 20);
    while ((got = recv(fd, bytes, sizeof bytes, 0)) > 0) {
        all += (size_t)got;
    }
    assert_true(all < 27u << 20);
    close(fd);
    close_stage(&stage);
}

/* Fifty wait for a copy of the state, and the loop does not answer. Health is answered at once. */
static void health_waits_for_nobody(void **state)
{
    enum { READERS = 50 };
    struct stage stage;
    int readers[READERS];
    char path[32];

    (void)state;
    open_stage(&stage);
    mst_http_turned(stage.http, MST_HTTP_SERVING);
    for (int i = 0; i < READERS; i++) {
        (void)snprintf(path, sizeof path, "/status.json?job=%d", i);
        readers[i] = ask(&stage, path);
    }
    answered(ask(&stage, "/livez"), "HTTP/1.1 200", "ok"); /* the loop has said nothing yet */
    answer_next(&stage, MST_HTTP_STATUS, mst_http_report_new());
    answered_on(readers[0], "HTTP/1.1 404", "no job of this name\n");
    answered(ask(&stage, "/livez"), "HTTP/1.1 200", "ok");
    for (int i = 0; i < READERS; i++) {
        close(readers[i]);
    }
    close_stage(&stage);
}

static void the_state_is_told_to_names_that_are_ours(void **state)
{
    static const struct {
        const char *host;
        bool told;
    } rows[] = {
        {"127.0.0.1", true},
        {"127.0.0.1:80", true},
        {"10.1.2.3:9400", true},
        {"[::1]:9400", true},
        {"[fe80::1]", true},
        {"localhost:9400", true},
        {"LOCALHOST", true},
        {"node7:9400", true},
        {"Node7", true},
        {"evil.example", false},
        {"evil.example:9400", false},
        {"127.0.0.1.evil.example", false},
        {"localhost.evil.example", false},
        {"[::1].evil.example", false},
        {"[]", false},
        {"", false},
        {":", false},
        {"127.0.0.1:80:80", false},
        {"::1", false},
        {"node70", false},
        {"1.2.3", false},
    };
    struct stage stage;

    (void)state;
    open_stage_with(&stage, (struct mst_http_config){.answer_ms = PATIENT_MS,
                                                     .head_ms = PATIENT_MS,
                                                     .read_ms = PATIENT_MS,
                                                     .name = "node7"});
    mst_http_turned(stage.http, MST_HTTP_SERVING);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int fd = ask_for(&stage, "/status.json?job=a", rows[i].host);

        if (rows[i].told) {
            answer_next(&stage, MST_HTTP_STATUS, mst_http_report_new());
        }
        answered(fd, rows[i].told ? "HTTP/1.1 404" : "HTTP/1.1 403",
                 rows[i].told ? "no job" : "another name");
        atomic_fetch_add(&clock_ns, 100 * UINT64_C(1000000));
        answered(ask_for(&stage, "/livez", rows[i].host), "HTTP/1.1 200", "ok");
    }
    close_stage(&stage);
}

static void a_question_is_asked_once_and_waits_its_time(void **state)
{
    struct mst_http_question question;
    struct stage stage;
    int fd;

    (void)state;
    open_stage_with(&stage, (struct mst_http_config){
                                .answer_ms = 1000, .head_ms = PATIENT_MS, .read_ms = PATIENT_MS});
    mst_http_turned(stage.http, MST_HTTP_SERVING);
    assert_false(mst_http_asked(stage.http, &question));
    answered(ask(&stage, "/status.json?job=a"), "HTTP/1.1 503", "does not answer\n");
    answered(ask(&stage, "/metrics"), "HTTP/1.1 503", "does not answer\n");
    assert_int_equal(atomic_load(&stage.woken), 1);
    assert_true(mst_http_asked(stage.http, &question));
    assert_int_equal(question.subject, MST_HTTP_STATUS);
    assert_string_equal(question.job, "a");
    mst_http_answer(stage.http, mst_http_report_new()); /* too late for anybody */
    assert_false(mst_http_asked(stage.http, &question));
    fd = ask(&stage, "/metrics");
    answer_next(&stage, MST_HTTP_METRICS, NULL);
    answered(fd, "HTTP/1.1 503", "does not answer\n");
    close_stage(&stage);
}

static void a_loop_without_memory_is_asked_again(void **state)
{
    struct stage stage;
    int fd;

    (void)state;
    open_stage(&stage);
    mst_http_turned(stage.http, MST_HTTP_SERVING);
    fd = ask(&stage, "/metrics");
    answer_next(&stage, MST_HTTP_METRICS, NULL);
    answered(fd, "HTTP/1.1 503", "does not answer\n");
    fd = ask(&stage, "/metrics");
    answer_next(&stage, MST_HTTP_METRICS, mst_http_report_new());
    answered(fd, "HTTP/1.1 200", "muster_leader 1\n");
    close_stage(&stage);
}

static void closing_ends_a_wait(void **state)
{
    struct mst_http_question question;
    struct stage stage;
    int fd;

    (void)state;
    open_stage(&stage);
    fd = ask(&stage, "/metrics");
    while (!mst_http_asked(stage.http, &question)) {
    }
    close_stage(&stage);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_service_that_recovers_is_alive_and_not_ready),
        cmocka_unit_test(a_question_is_asked_once_and_waits_its_time),
        cmocka_unit_test(a_loop_without_memory_is_asked_again),
        cmocka_unit_test(a_loop_is_stuck_from_its_bound_on_and_not_before),
        cmocka_unit_test(one_subject_does_not_wait_for_the_other),
        cmocka_unit_test(answers_that_nobody_reads_are_bounded),
        cmocka_unit_test(one_peer_has_so_many_connections_and_no_more),
        cmocka_unit_test(the_state_is_told_to_names_that_are_ours),
        cmocka_unit_test(health_waits_for_nobody),
        cmocka_unit_test(an_answer_has_a_deadline),
        cmocka_unit_test(a_request_has_one_deadline),
        cmocka_unit_test(unfinished_requests_of_many_peers_give_way),
        cmocka_unit_test(closing_ends_a_wait),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
