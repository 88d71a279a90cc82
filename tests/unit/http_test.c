/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP thread beside a loop that starts, does not answer, or has no memory. */
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
#include <sys/socket.h>
#include <unistd.h>

#include "io/http.h"

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

static void open_stage_for(struct stage *stage, unsigned answer_ms)
{
    struct mst_http_config config = {.wake = wake,
                                     .wake_ctx = stage,
                                     .connections_max = 100,
                                     .clock_ns = read_clock,
                                     .answer_ms = answer_ms};
    socklen_t size = sizeof stage->name;
    struct muster_error err;

    memset(stage, 0, sizeof *stage);
    stage->name.sin_family = AF_INET;
    stage->name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    stage->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(stage->fd, (struct sockaddr *)&stage->name, size), 0);
    assert_int_equal(listen(stage->fd, 8), 0);
    assert_int_equal(getsockname(stage->fd, (struct sockaddr *)&stage->name, &size), 0);
    config.fd = stage->fd;
    assert_int_equal(mst_http_open(&stage->http, &config, &err), MUSTER_OK);
}

/* Whose loop answers, however late this process is. */
static void open_stage(struct stage *stage)
{
    open_stage_for(stage, 60000);
}

static void close_stage(struct stage *stage)
{
    mst_http_close(stage->http);
    close(stage->fd);
}

static int ask(const struct stage *stage, const char *path)
{
    char text[512];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int size = snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path);

    assert_int_equal(connect(fd, (const struct sockaddr *)&stage->name, sizeof stage->name), 0);
    assert_int_equal(send(fd, text, (size_t)size, 0), size);
    return fd;
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
    mst_http_answer(stage->http, &question, report);
}

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

/* The copy for /metrics stays good for a moment, also while another asks for the status of a job.
 */
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

/* Metrics of 27 MB: the name of a job in 27 lines. */
static struct mst_http_report *large_report(void)
{
    enum { NAME = 1 << 20 };
    struct mst_http_report *report = mst_http_report_new();

    report->figures.jobs = calloc(1, sizeof *report->figures.jobs);
    report->figures.job_count = 1;
    report->figures.jobs[0].name = malloc(NAME);
    report->figures.jobs[0].name_size = NAME;
    memset(report->figures.jobs[0].name, 'j', NAME);
    return report;
}

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

/* The rest of the places is for others. */
static void one_peer_has_so_many_connections_and_no_more(void **state)
{
    enum { MOST = 64 };
    struct stage stage;
    int held[MOST];
    char byte;
    int fd;

    (void)state;
    open_stage(&stage);
    for (int i = 0; i < MOST; i++) {
        held[i] = ask(&stage, "/livez");
        answered_on(held[i], "HTTP/1.1 200", "ok");
    }
    fd = ask(&stage, "/livez");
    assert_true(recv(fd, &byte, 1, 0) <= 0);
    close(fd);
    for (int i = 0; i < MOST; i++) {
        close(held[i]);
    }
    close_stage(&stage);
}

static void a_question_is_asked_once_and_waits_its_time(void **state)
{
    struct mst_http_question question;
    struct stage stage;
    int fd;

    (void)state;
    open_stage_for(&stage, 3000);
    mst_http_turned(stage.http, MST_HTTP_SERVING);
    assert_false(mst_http_asked(stage.http, &question));
    answered(ask(&stage, "/status.json?job=a"), "HTTP/1.1 503", "does not answer\n");
    answered(ask(&stage, "/metrics"), "HTTP/1.1 503", "does not answer\n");
    assert_int_equal(atomic_load(&stage.woken), 1);
    assert_true(mst_http_asked(stage.http, &question));
    assert_int_equal(question.subject, MST_HTTP_STATUS);
    assert_string_equal(question.job, "a");
    mst_http_answer(stage.http, &question, mst_http_report_new()); /* too late for anybody */
    assert_false(mst_http_asked(stage.http, &question));
    fd = ask(&stage, "/metrics");
    answer_next(&stage, MST_HTTP_METRICS, NULL); /* no memory */
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
        cmocka_unit_test(a_loop_is_stuck_from_its_bound_on_and_not_before),
        cmocka_unit_test(one_subject_does_not_wait_for_the_other),
        cmocka_unit_test(answers_that_nobody_reads_are_bounded),
        cmocka_unit_test(one_peer_has_so_many_connections_and_no_more),
        cmocka_unit_test(closing_ends_a_wait),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
