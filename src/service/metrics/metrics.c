/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "service/metrics/metrics.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "base/time.h"
#include "os/clock.h"
#include "os/folder.h"
#include "process/proc_stat.h"
#include "proto/words.h"

#define US UINT64_C(1000)

const struct mst_bounds mst_key_time_bounds = {
    .count = 16,
    .ns = {5 * US, 10 * US, 25 * US, 50 * US, 100 * US, 250 * US, 500 * US, 1000 * US, 2500 * US,
           5000 * US, 10000 * US, 25000 * US, 50000 * US, 100000 * US, 500000 * US, 1000000 * US}};

void mst_figures_init(struct mst_figures *figures)
{
    *figures = (struct mst_figures){.sessions = 0};
    mst_counts_init(&figures->counts);
    for (unsigned op = 0; op < MST_KEY_OPS; op++) {
        mst_histogram_init(&figures->key_times[op], &mst_key_time_bounds);
    }
}

void mst_figures_fini(struct mst_figures *figures)
{
    for (size_t i = 0; i < figures->job_count; i++) {
        free(figures->jobs[i].name);
    }
    free(figures->jobs);
    figures->jobs = NULL;
    figures->job_count = 0;
    free(figures->clusters);
    figures->clusters = NULL;
    figures->cluster_count = 0;
}

static struct mst_label label(const char *name, const char *value)
{
    return (struct mst_label){.name = name, .value = mst_slice_text(value)};
}

static struct mst_label job_label(const struct mst_job_figures *job)
{
    return (struct mst_label){.name = "job", .value = mst_slice_of(job->name, job->name_size)};
}

static const void *field(const void *from, size_t at)
{
    return (const unsigned char *)from + at;
}

static uint64_t number_in(const void *from, size_t at)
{
    return *(const uint64_t *)field(from, at);
}

/* ---- readers of many rows, which say where the figure is ---- */

static void read_number(struct mst_exposition *out, const struct mst_figures *figures)
{
    mst_exposition_number(out, NULL, 0, number_in(figures, out->metric->at));
}

static void read_times(struct mst_exposition *out, const struct mst_figures *figures)
{
    mst_exposition_histogram(out, NULL, 0, field(figures, out->metric->at));
}

/* A result that never happened is left out, except `ok`: a rate needs a series that begins at zero.
 */
static void read_results(struct mst_exposition *out, const struct mst_figures *figures)
{
    const struct mst_histogram *times = field(figures, out->metric->at);

    for (enum mst_result result = 0; result < MST_RESULTS; result++) {
        const struct mst_label labels[] = {label("result", mst_result_word(result))};

        if (result == MST_RESULT_OK || mst_histogram_count(&times[result]) > 0) {
            mst_exposition_histogram(out, labels, 1, &times[result]);
        }
    }
}

static void read_job(struct mst_exposition *out, const struct mst_figures *figures)
{
    for (size_t i = 0; i < figures->job_count; i++) {
        const struct mst_label labels[] = {job_label(&figures->jobs[i])};

        mst_exposition_number(out, labels, 1, number_in(&figures->jobs[i], out->metric->at));
    }
}

/* Sets the first two labels of a cluster; a third is its metric's own. */
static const struct mst_cluster_status *cluster_of(const struct mst_figures *figures, size_t i,
                                                   struct mst_label labels[MST_LABELS_MAX])
{
    const struct mst_cluster_figures *cluster = &figures->clusters[i];

    labels[0] = job_label(&figures->jobs[cluster->job]);
    labels[1] = (struct mst_label){.name = "cluster",
                                   .value = mst_slice_of(cluster->name, cluster->name_size)};
    return &cluster->status;
}

static void read_cluster(struct mst_exposition *out, const struct mst_figures *figures)
{
    for (size_t i = 0; i < figures->cluster_count; i++) {
        struct mst_label labels[MST_LABELS_MAX];
        const struct mst_cluster_status *status = cluster_of(figures, i, labels);

        mst_exposition_number(out, labels, 2, number_in(status, out->metric->at));
    }
}

static void read_cluster_times(struct mst_exposition *out, const struct mst_figures *figures)
{
    for (size_t i = 0; i < figures->cluster_count; i++) {
        struct mst_label labels[MST_LABELS_MAX];
        const struct mst_cluster_status *status = cluster_of(figures, i, labels);

        mst_exposition_histogram(out, labels, 2, field(status, out->metric->at));
    }
}

/* ---- the service ---- */

static void read_build(struct mst_exposition *out, const struct mst_figures *figures)
{
    const struct mst_label labels[] = {label("version", MST_BUILD_VERSION),
                                       label("commit", MST_BUILD_COMMIT)};

    (void)figures;
    mst_exposition_number(out, labels, 2, 1);
}

static void read_leader(struct mst_exposition *out, const struct mst_figures *figures)
{
    const struct mst_replica_figures *replica = &figures->replica;

    mst_exposition_number(out, NULL, 0, !replica->there || replica->leads);
}

/* ---- jobs ---- */

static void read_members(struct mst_exposition *out, const struct mst_figures *figures)
{
    for (size_t i = 0; i < figures->job_count; i++) {
        for (enum mst_state state = MST_JOINING; state <= MST_SPARE; state++) {
            const struct mst_label labels[] = {job_label(&figures->jobs[i]),
                                               label("state", mst_state_word(state))};

            if (state != MST_ABSENT) { /* no member is that */
                mst_exposition_number(out, labels, 2, figures->jobs[i].members[state]);
            }
        }
    }
}

static void read_losses(struct mst_exposition *out, const struct mst_figures *figures)
{
    for (size_t i = 0; i < figures->job_count; i++) {
        for (enum mst_cause cause = MST_CAUSE_EXIT; cause <= MST_CAUSE_UNHEALTHY; cause++) {
            const struct mst_label labels[] = {job_label(&figures->jobs[i]),
                                               label("reason", mst_cause_word(cause))};

            if (cause != MST_CAUSE_SOFT_TIMEOUT) { /* no member is lost by that */
                mst_exposition_number(out, labels, 2, figures->jobs[i].counts.losses[cause]);
            }
        }
    }
}

static void read_restarts(struct mst_exposition *out, const struct mst_figures *figures)
{
    for (size_t i = 0; i < figures->job_count; i++) {
        for (enum mst_cause cause = MST_CAUSE_NONE; (int)cause < MST_CAUSES; cause++) {
            const char *reason = cause == MST_CAUSE_NONE ? "newcomer" : mst_cause_word(cause);
            const struct mst_label labels[] = {job_label(&figures->jobs[i]),
                                               label("kind", mst_restart_kind(cause)),
                                               label("reason", reason)};

            mst_exposition_number(out, labels, 3, figures->jobs[i].counts.restarts[cause]);
        }
    }
}

static void read_away(struct mst_exposition *out, const struct mst_figures *figures)
{
    for (size_t i = 0; i < figures->job_count; i++) {
        for (enum mst_cause cause = MST_CAUSE_NONE; (int)cause < MST_CAUSES; cause++) {
            const char *reason = cause == MST_CAUSE_NONE ? "newcomer" : mst_cause_word(cause);
            uint64_t away_ns = figures->jobs[i].counts.away_ns[cause];
            const struct mst_label labels[] = {job_label(&figures->jobs[i]),
                                               label("kind", mst_restart_kind(cause)),
                                               label("reason", reason)};

            mst_exposition_seconds(out, labels, 3, away_ns / NS_PER_S, away_ns % NS_PER_S);
        }
    }
}

/* Left out of a job that has not begun: it has lost nothing yet. */
static void read_goodput(struct mst_exposition *out, const struct mst_figures *figures)
{
    for (size_t i = 0; i < figures->job_count; i++) {
        const struct mst_job_figures *job = &figures->jobs[i];
        const struct mst_label labels[] = {job_label(job)};
        uint64_t away_ns = 0, share;

        for (unsigned cause = 0; cause < MST_CAUSES; cause++) {
            away_ns += job->counts.away_ns[cause];
        }
        if (job->counted_ns > 0) {
            away_ns = mst_sooner(away_ns, job->counted_ns);
            share = NS_PER_S - (uint64_t)((double)away_ns * NS_PER_S / (double)job->counted_ns);
            mst_exposition_seconds(out, labels, 1, share / NS_PER_S, share % NS_PER_S);
        }
    }
}

static void read_rate(struct mst_exposition *out, const struct mst_figures *figures)
{
    for (size_t i = 0; i < figures->job_count; i++) {
        const struct mst_label labels[] = {job_label(&figures->jobs[i])};
        uint64_t rate = figures->jobs[i].rate;

        mst_exposition_seconds(out, labels, 1, rate / 1000, rate % 1000 * NS_PER_MS);
    }
}

static void read_restart_times(struct mst_exposition *out, const struct mst_figures *figures)
{
    for (enum mst_phase phase = MST_PHASE_INTERRUPT; phase < MST_PHASES; phase++) {
        const struct mst_label labels[] = {label("phase", mst_phase_word(phase))};

        mst_exposition_histogram(out, labels, 1, &figures->counts.restarts[phase]);
    }
}

/* ---- preemption ---- */

/* The certain ones begin at zero, for a rate; the rest is left out until there was one. */
static void read_notices(struct mst_exposition *out, const struct mst_figures *figures)
{
    static const char *const levels[] = {"certain", "advisory"};

    for (enum mst_source source = 0; source < MST_SOURCES; source++) {
        for (unsigned level = 0; level < 2; level++) {
            uint64_t times = figures->counts.notices[source][level];
            const struct mst_label labels[] = {label("source", mst_source_word(source)),
                                               label("level", levels[level])};

            if (level == 0 || times > 0) {
                mst_exposition_number(out, labels, 2, times);
            }
        }
    }
}

static void read_leads(struct mst_exposition *out, const struct mst_figures *figures)
{
    for (enum mst_source source = 0; source < MST_SOURCES; source++) {
        const struct mst_label labels[] = {label("source", mst_source_word(source))};

        if (mst_histogram_count(&figures->counts.leads[source]) > 0) {
            mst_exposition_histogram(out, labels, 1, &figures->counts.leads[source]);
        }
    }
}

/* ---- clusters ---- */

/* A number of a cluster's status, as the value of a third label. */
struct part {
    const char *value;
    size_t at;
};

#define PART(word, field)                                                                          \
    {                                                                                              \
        word, offsetof(struct mst_cluster_status, field)                                           \
    }

static void put_parts(struct mst_exposition *out, const struct mst_figures *figures,
                      const char *name, const struct part *parts, size_t count)
{
    for (size_t i = 0; i < figures->cluster_count; i++) {
        struct mst_label labels[MST_LABELS_MAX];
        const struct mst_cluster_status *status = cluster_of(figures, i, labels);

        for (size_t j = 0; j < count; j++) {
            labels[2] = label(name, parts[j].value);
            mst_exposition_number(out, labels, 3, number_in(status, parts[j].at));
        }
    }
}

static void read_outcomes(struct mst_exposition *out, const struct mst_figures *figures)
{
    static const struct part parts[] = {PART("value", values), PART("failure", failures),
                                        PART("cancelled", cancelled)};

    put_parts(out, figures, "outcome", parts, sizeof parts / sizeof parts[0]);
}

static void read_classes(struct mst_exposition *out, const struct mst_figures *figures)
{
    static const struct part parts[] = {
        PART("function", failed_function),   PART("crash", failed_crash),
        PART("lost", failed_lost),           PART("state", failed_state),
        PART("input", failed_input),         PART("deadline", failed_deadline),
        PART("exhausted", failed_exhausted), PART("poison", failed_poison),
        PART("unknown", failed_unknown),     PART("argument", failed_argument),
        PART("internal", failed_internal),   PART("retryable", failed_retryable)};

    put_parts(out, figures, "class", parts, sizeof parts / sizeof parts[0]);
}

static void read_repeats(struct mst_exposition *out, const struct mst_figures *figures)
{
    static const struct part parts[] = {PART("failure", retried), PART("loss", put_back)};

    put_parts(out, figures, "reason", parts, sizeof parts / sizeof parts[0]);
}

static void read_slots(struct mst_exposition *out, const struct mst_figures *figures)
{
    for (size_t i = 0; i < figures->cluster_count; i++) {
        struct mst_label labels[MST_LABELS_MAX];
        const struct mst_cluster_status *status = cluster_of(figures, i, labels);
        uint64_t busy = status->slots > status->slots_free ? status->slots - status->slots_free : 0;

        labels[2] = label("state", "busy");
        mst_exposition_number(out, labels, 3, busy);
        labels[2] = label("state", "free");
        mst_exposition_number(out, labels, 3, status->slots_free);
    }
}

static void read_run_times(struct mst_exposition *out, const struct mst_figures *figures)
{
    for (size_t i = 0; i < figures->cluster_count; i++) {
        struct mst_label labels[MST_LABELS_MAX];
        const struct mst_cluster_status *status = cluster_of(figures, i, labels);

        labels[2] = label("outcome", "value");
        mst_exposition_histogram(out, labels, 3, &status->times[MST_TIMER_RUN]);
        labels[2] = label("outcome", "failure");
        mst_exposition_histogram(out, labels, 3, &status->times[MST_TIMER_FAILED]);
    }
}

/* ---- keys ---- */

static void read_key_results(struct mst_exposition *out, const struct mst_figures *figures)
{
    for (enum mst_key_op op = 0; op < MST_KEY_OPS; op++) {
        for (enum mst_result result = 0; result < MST_RESULTS; result++) {
            uint64_t times = figures->counts.keys[op][result];
            const struct mst_label labels[] = {label("op", mst_key_op_word(op)),
                                               label("result", mst_result_word(result))};

            if (result == MST_RESULT_OK || times > 0) {
                mst_exposition_number(out, labels, 2, times);
            }
        }
    }
}

static void read_key_times(struct mst_exposition *out, const struct mst_figures *figures)
{
    for (enum mst_key_op op = 0; op < MST_KEY_OPS; op++) {
        const struct mst_label labels[] = {label("op", mst_key_op_word(op))};

        mst_exposition_histogram(out, labels, 1, &figures->key_times[op]);
    }
}

/* ---- one of several replicas; without replicas there are no lines ---- */

static void read_replica_leads(struct mst_exposition *out, const struct mst_figures *figures)
{
    if (figures->replica.there) {
        mst_exposition_number(out, NULL, 0, figures->replica.leads);
    }
}

static void read_replica(struct mst_exposition *out, const struct mst_figures *figures)
{
    const uint64_t *number = field(figures, out->metric->at);

    if (figures->replica.there) {
        mst_exposition_number(out, NULL, 0, *number);
    }
}

/* What only a leader knows. */
static void read_replicas(struct mst_exposition *out, const struct mst_figures *figures)
{
    if (figures->replica.leads) {
        read_replica(out, figures);
    }
}

static void read_replica_commits(struct mst_exposition *out, const struct mst_figures *figures)
{
    if (figures->replica.there) {
        mst_exposition_histogram(out, NULL, 0, &figures->replica.commits);
    }
}

/* ---- the process; what the system does not report is left out ---- */

static void read_cpu(struct mst_exposition *out, const struct mst_figures *figures)
{
    struct timespec used;

    (void)figures;
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) == 0) {
        mst_exposition_seconds(out, NULL, 0, (uint64_t)used.tv_sec, (uint64_t)used.tv_nsec);
    }
}

static void read_memory(struct mst_exposition *out, const struct mst_figures *figures)
{
    size_t bytes;

    (void)figures;
    if (uv_resident_set_memory(&bytes) == 0) {
        mst_exposition_number(out, NULL, 0, bytes);
    }
}

static void read_open_fds(struct mst_exposition *out, const struct mst_figures *figures)
{
    struct mst_folder folder;
    uint64_t count = 0;

    (void)figures;
    if (mst_folder_open(&folder, AT_FDCWD, "/proc/self/fd")) {
        while (mst_folder_next(&folder)) {
            count++;
        }
        mst_folder_close(&folder);
        mst_exposition_number(out, NULL, 0, count - 1); /* without the folder itself */
    }
}

static void read_max_fds(struct mst_exposition *out, const struct mst_figures *figures)
{
    struct rlimit limit;

    (void)figures;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        mst_exposition_number(out, NULL, 0, limit.rlim_cur);
    }
}

/* The kernel knows it in ticks since the boot, and the moment of the boot only to the second: taken
 * once, or the same start would be a little different each time. */
static void read_start_time(struct mst_exposition *out, const struct mst_figures *figures)
{
    static uint64_t start_ms;
    uint64_t ticks = start_ms == 0 ? mst_proc_stat_start(0) : 0;

    (void)figures;
    if (ticks != 0) {
        start_ms = (uint64_t)(mst_clock_ms(CLOCK_REALTIME) - mst_clock_ms(CLOCK_BOOTTIME)) +
                   ticks * 1000 / (uint64_t)sysconf(_SC_CLK_TCK);
    }
    if (start_ms != 0) {
        mst_exposition_seconds(out, NULL, 0, start_ms / 1000, start_ms % 1000 * 1000000);
    }
}

/* ---- the table ---- */

#define NUMBER(field) .read = read_number, .at = offsetof(struct mst_figures, field)
#define TIMES(field) .read = read_times, .at = offsetof(struct mst_figures, field)
#define RESULTS(field) .read = read_results, .at = offsetof(struct mst_figures, field)
#define JOB(field) .read = read_job, .at = offsetof(struct mst_job_figures, field)
#define CLUSTER(field) .read = read_cluster, .at = offsetof(struct mst_cluster_status, field)
#define CLUSTER_TIMES(field)                                                                       \
    .read = read_cluster_times, .at = offsetof(struct mst_cluster_status, field)
#define REPLICA(field) .read = read_replica, .at = offsetof(struct mst_figures, replica.field)
#define REPLICAS(field) .read = read_replicas, .at = offsetof(struct mst_figures, replica.field)
#define OWN(reader) .read = read_##reader

const struct mst_metric mst_metrics[] = {
#define X(kind, metric, base_unit, names, reader, words)                                           \
    {.type = MST_##kind,                                                                           \
     .name = #metric,                                                                              \
     .unit = (base_unit),                                                                          \
     .labels = (names),                                                                            \
     .help = (words),                                                                              \
     reader},
#include "service/metrics/metrics.def"
#undef X
};

const size_t mst_metric_count = sizeof mst_metrics / sizeof mst_metrics[0];

char *mst_metrics_text(const struct mst_figures *figures, bool open_metrics)
{
    struct mst_exposition out = {.open_metrics = open_metrics};

    for (size_t i = 0; i < mst_metric_count; i++) {
        mst_exposition_family(&out, &mst_metrics[i]);
        mst_metrics[i].read(&out, figures);
    }
    return mst_exposition_finish(&out);
}
