/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "io/uv/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/look.h"

#define SECOND_MS 1000u

/* ---- saying that it turns ---- */

static void on_second(uv_timer_t *timer)
{
    struct mst_uv_report *report = timer->data;

    mst_http_turned(report->http, report->phase);
}

/* Only wakes the loop: the question is answered at the end of the turn. */
static void on_asked(uv_async_t *async)
{
    (void)async;
}

/* On the HTTP thread. */
static void wake(void *ctx)
{
    struct mst_uv_report *report = ctx;

    uv_async_send(&report->asked);
}

/* ---- a copy of the state ---- */

struct copying {
    struct mst_figures *figures;
    size_t room;
    bool no_memory;
};

static void copy_job(void *ctx, const struct mst_job_look *look)
{
    struct copying *copying = ctx;
    struct mst_figures *figures = copying->figures;
    struct mst_job_figures *job;

    if (figures->job_count == copying->room) {
        size_t room = copying->room > 0 ? copying->room * 2 : 8;
        struct mst_job_figures *grown = realloc(figures->jobs, room * sizeof *grown);

        if (!grown) {
            copying->no_memory = true;
            return;
        }
        figures->jobs = grown;
        copying->room = room;
    }
    job = &figures->jobs[figures->job_count];
    *job = (struct mst_job_figures){.name = malloc(look->name.size + 1),
                                    .name_size = look->name.size,
                                    .generation = look->generation,
                                    .counts = *look->counts};
    if (!job->name) {
        copying->no_memory = true;
        return;
    }
    memcpy(job->name, look->name.data, look->name.size);
    memcpy(job->members, look->members, sizeof job->members);
    figures->job_count++;
}

static bool copy_figures(struct mst_uv_report *report, struct mst_figures *figures)
{
    struct mst_core *core = report->hub->core;
    struct copying copying = {.figures = figures};

    mst_look_jobs(core, copy_job, &copying);
    figures->counts = *mst_core_counts(core);
    memcpy(figures->key_times, report->key_times, sizeof figures->key_times);
    figures->sessions = mst_look_sessions(core);
    figures->connections = report->hub->count;
    return !copying.no_memory;
}

static bool copy_pages(struct mst_core *core, enum mst_command command, struct mst_slice job,
                       struct mst_items *items)
{
    uint64_t next = 0;

    do {
        const struct mst_reply *reply = mst_look_page(core, command, job, next);

        if (reply->status == MUSTER_OK && !mst_items_add(items, reply->items, reply->item_count)) {
            return false;
        }
        next = reply->status == MUSTER_OK ? reply->next : 0;
    } while (next != 0);
    return true;
}

static bool copy_status(struct mst_uv_report *report, const char *job, struct mst_status *status)
{
    struct mst_core *core = report->hub->core;
    struct mst_slice name = mst_slice_text(job);

    status->address = report->address;
    status->job = job;
    return copy_pages(core, MST_JOBS, name, &status->jobs) &&
           copy_pages(core, MST_MEMBERS, name, &status->members) &&
           copy_pages(core, MST_ROUNDS, name, &status->rounds) &&
           copy_pages(core, MST_HOSTS, name, &status->hosts);
}

static void answer(struct mst_uv_report *report, const struct mst_http_question *question)
{
    struct mst_http_report *made = mst_http_report_new();
    bool good = made != NULL;

    if (made && question->subject == MST_HTTP_METRICS) {
        good = copy_figures(report, &made->figures);
    } else if (made) {
        good = copy_status(report, question->job ? question->job : report->job, &made->status);
        made->known = mst_status_job(&made->status) != NULL;
    }
    if (!good) {
        mst_http_report_free(made);
        made = NULL;
    }
    mst_http_answer(report->http, question, made);
}

/* ---- turns ---- */

/* All that was answered in a turn was read at its begin and written at its end. */
static void count_keys(struct mst_uv_report *report, uint64_t began_ns)
{
    const uint64_t *at_once = mst_core_counts(report->hub->core)->keys_at_once;
    uint64_t took_ns = 0;

    for (unsigned op = 0; op < MST_KEY_OPS; op++) {
        uint64_t times = at_once[op] - report->seen[op];

        if (times == 0) {
            continue;
        }
        if (took_ns == 0) {
            took_ns = uv_hrtime() - began_ns;
        }
        report->seen[op] = at_once[op];
        mst_histogram_add(&report->key_times[op], took_ns, times);
    }
}

static void tell_trouble(struct mst_uv_report *report)
{
    const char *trouble = mst_uv_feed_trouble(&report->hub->feed);

    if (report->trouble != (trouble != NULL)) {
        report->trouble = trouble != NULL;
        mst_http_journal(report->http, trouble);
    }
}

void mst_uv_report_turn(struct mst_uv_report *report, uint64_t began_ns)
{
    struct mst_http_question question;

    if (!report->http) {
        return;
    }
    if (began_ns != 0) {
        count_keys(report, began_ns);
    }
    tell_trouble(report);
    if (mst_http_asked(report->http, &question)) {
        answer(report, &question);
    }
}

void mst_uv_report_phase(struct mst_uv_report *report, enum mst_http_phase phase)
{
    if (!report->http) {
        return;
    }
    report->phase = phase;
    mst_http_turned(report->http, phase);
    if (phase == MST_HTTP_SERVING) {
        uv_timer_start(&report->second, on_second, SECOND_MS, SECOND_MS);
    }
}

/* ---- opening ---- */

static muster_status listen_http(struct mst_uv_report *report,
                                 const struct mst_uv_report_config *config,
                                 struct muster_error *err)
{
    struct muster_error reason;
    muster_status status =
        mst_uv_listener_open(&report->listener, config->http, config->anywhere, &reason);

    if (status != MUSTER_OK && err) {
        *err = (struct muster_error){.status = status, .os_errno = reason.os_errno};
        (void)snprintf(err->text, sizeof err->text, "--http: %.470s", reason.text);
    }
    return status;
}

muster_status mst_uv_report_open(struct mst_uv_report *report, uv_loop_t *loop,
                                 struct mst_uv_hub *hub, const struct mst_uv_report_config *config,
                                 struct muster_error *err)
{
    struct mst_http_config http = {.wake = wake,
                                   .wake_ctx = report,
                                   .connections_max = config->connections_max,
                                   .status_open = config->status_open};
    muster_status status;

    *report = (struct mst_uv_report){.hub = hub, .address = config->address, .job = config->job};
    if (!config->http || !*config->http) {
        return MUSTER_OK;
    }
    status = listen_http(report, config, err);
    if (status != MUSTER_OK) {
        return status;
    }
    for (unsigned op = 0; op < MST_KEY_OPS; op++) {
        mst_histogram_init(&report->key_times[op], &mst_key_time_bounds);
    }
    uv_async_init(loop, &report->asked, on_asked);
    uv_timer_init(loop, &report->second);
    report->second.data = report;
    http.fd = report->listener.fd;
    status = mst_http_open(&report->http, &http, err);
    if (status != MUSTER_OK) {
        mst_uv_listener_close(&report->listener);
    }
    return status;
}

void mst_uv_report_close(struct mst_uv_report *report)
{
    if (report->http) {
        mst_http_close(report->http);
        report->http = NULL;
        mst_uv_listener_close(&report->listener);
    }
}
