/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "service/server/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "proto/notice.h"
#include "proto/run_keys.h"
#include "service/core/look.h"
#include "service/server/addresses.h"
#include "view/clusters.h"

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

/* Room for one element more; it doubles at each power of two. NULL: no memory, and `array` stays.
 */
static void *grown(void *array, size_t count, size_t size)
{
    bool full = (count & (count - 1)) == 0;

    return full ? realloc(array, (count > 0 ? 2 * count : 1) * size) : array;
}

struct copying {
    struct mst_figures *figures;
    bool no_memory;
};

static void copy_job(void *ctx, const struct mst_job_look *look)
{
    struct copying *copying = ctx;
    struct mst_figures *figures = copying->figures;
    struct mst_job_figures *job = grown(figures->jobs, figures->job_count, sizeof *job);

    if (!job) {
        copying->no_memory = true;
        return;
    }
    figures->jobs = job;
    job = &figures->jobs[figures->job_count];
    *job = (struct mst_job_figures){.name = malloc(look->name.size + 1),
                                    .name_size = look->name.size,
                                    .generation = look->generation,
                                    .saved_ranks = look->saved_ranks,
                                    .counted_ns = look->counted_ns,
                                    .rate = look->rate,
                                    .stragglers = look->stragglers,
                                    .counts = *look->counts};
    if (!job->name) {
        copying->no_memory = true;
        return;
    }
    memcpy(job->name, look->name.data, look->name.size);
    memcpy(job->members, look->members, sizeof job->members);
    job->counts.away_ns[look->away_cause] += look->away_ns;
    figures->job_count++;
}

/* Any client may write keys like those of clusters: this many are read for one copy, of all jobs.
 */
enum { CLUSTER_KEYS_MAX = 4096, CLUSTERS_COPIED_MAX = 256 };

struct clusters {
    uint32_t keys, of_job;
    struct mst_figures *figures;
};

static bool copy_cluster(struct clusters *clusters, size_t job, const struct mst_item *item)
{
    struct mst_figures *figures = clusters->figures;
    struct mst_cluster_look look;
    struct mst_cluster_figures *copy;

    clusters->keys++;
    if (figures->cluster_count == CLUSTERS_COPIED_MAX || clusters->of_job == MST_CLUSTERS_MAX ||
        !mst_cluster_look_read(item, &look)) {
        return true;
    }
    copy = grown(figures->clusters, figures->cluster_count, sizeof *copy);
    if (!copy) {
        return false;
    }
    figures->clusters = copy;
    copy = &figures->clusters[figures->cluster_count++];
    copy->job = job;
    copy->name_size = look.name.size;
    memcpy(copy->name, look.name.data, look.name.size);
    copy->status = look.status;
    clusters->of_job++;
    return true;
}

/* The keys of a job under a prefix, page by page. */
struct pages {
    struct mst_core *core;
    struct mst_slice job, prefix;
    const struct mst_reply *last; /* the current page; NULL: none yet */
};

/* NULL: that was all, or, then *failed is set, no memory. */
static const struct mst_reply *next_page(struct pages *pages, bool *failed)
{
    const struct mst_reply *last = pages->last;
    struct mst_slice after = mst_slice_of(NULL, 0);

    if (last && last->next == 0) {
        return NULL;
    }
    if (last) {
        after = last->items[last->item_count - 1].name; /* which the look copies first */
    }
    pages->last = mst_look_keys(pages->core, pages->job, pages->prefix, after);
    *failed = *failed || pages->last->status == MUSTER_ENOMEM;
    return pages->last->status == MUSTER_OK && pages->last->item_count > 0 ? pages->last : NULL;
}

static bool copy_clusters_of(struct clusters *clusters, struct mst_core *core, size_t job)
{
    const struct mst_job_figures *of = &clusters->figures->jobs[job];
    struct pages pages = {.core = core,
                          .job = mst_slice_of(of->name, of->name_size),
                          .prefix = mst_slice_text(MST_CLUSTER_STATUS_PREFIX)};
    const struct mst_reply *page;
    bool failed = false;

    clusters->of_job = 0;
    while (clusters->keys < CLUSTER_KEYS_MAX && (page = next_page(&pages, &failed))) {
        for (uint32_t i = 0; i < page->item_count; i++) {
            if (!copy_cluster(clusters, job, &page->items[i])) {
                return false;
            }
        }
    }
    return !failed;
}

static bool copy_clusters(struct mst_core *core, struct mst_figures *figures)
{
    struct clusters clusters = {.figures = figures};
    bool good = true;

    for (size_t job = 0; good && job < figures->job_count; job++) {
        good = copy_clusters_of(&clusters, core, job);
    }
    return good;
}

static bool copy_figures(struct mst_uv_report *report, struct mst_figures *figures)
{
    struct mst_core *core = report->hub->core;
    struct copying copying = {.figures = figures};

    mst_look_jobs(core, copy_job, &copying);
    figures->counts = *mst_core_counts(core);
    memcpy(figures->key_times, report->key_times, sizeof figures->key_times);
    figures->sessions = mst_core_sessions(core);
    figures->connections = report->hub->count;
    if (report->hub->feed.replica) {
        mst_uv_replica_figures(report->hub->feed.replica, &figures->replica);
    }
    return !copying.no_memory && copy_clusters(core, figures);
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
        items->number = reply->number;
        next = reply->status == MUSTER_OK ? reply->next : 0;
    } while (next != 0);
    return true;
}

/* No notice and no status of a cluster is larger than VALUE; any client of the job may put other
 * values beside them, and copying those would hold up the loop. ALL is of one prefix. */
enum { STATUS_VALUE_BYTES_MAX = 4096, STATUS_ALL_BYTES_MAX = 16 << 20 };

/* Copies a page, without values that are too large. */
static bool copy_page_of_keys(const struct mst_reply *reply, struct mst_items *items, size_t *bytes)
{
    uint32_t from = 0;

    for (uint32_t i = 0; i < reply->item_count; i++) {
        const size_t size = reply->items[i].value.size;

        if (size > STATUS_VALUE_BYTES_MAX) {
            if (!mst_items_add(items, reply->items + from, i - from)) {
                return false;
            }
            from = i + 1;
        } else {
            *bytes += reply->items[i].name.size + size;
        }
    }
    return mst_items_add(items, reply->items + from, reply->item_count - from);
}

static bool copy_keys(struct mst_core *core, struct mst_slice job, struct mst_slice prefix,
                      struct mst_items *items)
{
    struct pages pages = {.core = core, .job = job, .prefix = prefix};
    const struct mst_reply *page;
    size_t bytes = 0;
    bool failed = false;

    while (bytes < STATUS_ALL_BYTES_MAX && (page = next_page(&pages, &failed))) {
        if (!copy_page_of_keys(page, items, &bytes)) {
            return false;
        }
    }
    return !failed;
}

static bool copy_look(struct mst_uv_report *report, struct mst_status *status)
{
    char lines[MST_UV_LOOK_ROOM] = "";
    struct mst_text text = mst_text_in(lines, sizeof lines);

    mst_uv_addresses_look(report->hub, &text);
    return mst_items_value(&status->jobs, mst_slice_text(lines));
}

static bool copy_status(struct mst_uv_report *report, const char *job, struct mst_status *status)
{
    struct mst_core *core = report->hub->core;
    struct mst_slice name = mst_slice_text(job);

    status->address = report->address;
    status->job = job;
    return copy_pages(core, MST_JOBS, name, &status->jobs) && copy_look(report, status) &&
           copy_pages(core, MST_MEMBERS, name, &status->members) &&
           copy_pages(core, MST_ROUNDS, name, &status->rounds) &&
           copy_pages(core, MST_HOSTS, name, &status->hosts) &&
           copy_pages(core, MST_FAULTS, name, &status->faults) &&
           copy_pages(core, MST_HISTORY, name, &status->history) &&
           copy_keys(core, name, mst_slice_text(MST_PREEMPT_PREFIX), &status->preemption) &&
           copy_keys(core, name, mst_slice_text(MST_CLUSTER_STATUS_PREFIX), &status->clusters) &&
           copy_keys(core, name, mst_slice_text(MST_RUN_PLAIN_PREFIX), &status->plain) &&
           copy_keys(core, name, mst_slice_text(MST_RUN_STOPPED_PREFIX), &status->stopped) &&
           copy_keys(core, name, mst_slice_text(MST_RUN_FRONT_WAITS_PREFIX),
                     &status->front_waits) &&
           copy_keys(core, name, mst_slice_text(MST_RUN_REPLICA_PREFIX), &status->replicas) &&
           copy_keys(core, name, mst_slice_text(MST_RUN_RESTARTS_KEY), &status->restarts);
}

static bool copy_history(struct mst_uv_report *report, const char *job, struct mst_status *status)
{
    struct mst_core *core = report->hub->core;
    struct mst_slice name = mst_slice_text(job);

    status->job = job;
    return copy_pages(core, MST_JOBS, name, &status->jobs) &&
           copy_pages(core, MST_HISTORY, name, &status->history);
}

static void answer(struct mst_uv_report *report, const struct mst_http_question *question)
{
    struct mst_http_report *made = mst_http_report_new();
    const char *job = question->job ? question->job : report->job;
    bool good = made != NULL;

    if (made && question->subject == MST_HTTP_METRICS) {
        good = copy_figures(report, &made->figures);
    } else if (made) {
        good = question->subject == MST_HTTP_STATUS ? copy_status(report, job, &made->status)
                                                    : copy_history(report, job, &made->status);
        made->known = mst_status_job(&made->status) != NULL;
    }
    if (!good) {
        mst_http_report_free(made);
        made = NULL;
    }
    mst_http_answer(report->http, made);
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
            took_ns = mst_uv_feed_now_ns(&report->hub->feed) - began_ns;
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
                                 const struct mst_uv_service_config *config,
                                 struct muster_error *err)
{
    struct muster_error reason;
    muster_status status = mst_uv_listener_open(&report->listener, config->http,
                                                config->secret || config->insecure, &reason);

    return status == MUSTER_OK ? status
                               : mst_fail(err, status, reason.os_errno, "--http: %s", reason.text);
}

/* As it was given: the address that it got may have another one, or none. */
static void name_host(struct mst_uv_report *report, const char *http)
{
    const char *port = strrchr(http, ':');

    (void)snprintf(report->host, sizeof report->host, "%.*s",
                   port ? (int)(port - http) : (int)strlen(http), http);
}

muster_status mst_uv_report_open(struct mst_uv_report *report, uv_loop_t *loop,
                                 struct mst_uv_hub *hub, const struct mst_uv_service_config *config,
                                 const char *address, unsigned connections_max,
                                 struct muster_error *err)
{
    struct mst_http_config http = {.wake = wake,
                                   .wake_ctx = report,
                                   .connections_max = connections_max,
                                   .status_open = config->insecure};
    muster_status status;

    *report = (struct mst_uv_report){.hub = hub, .address = address, .job = config->job};
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
    name_host(report, config->http);
    http.name = report->host;
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
