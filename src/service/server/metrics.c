/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "service/server/metrics.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

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

/* What never happened is left out, but for `ok`: a rate needs a series to begin at zero. */
static void read_results(struct mst_exposition *out, const struct mst_histogram *times)
{
    for (enum mst_result result = 0; result < MST_RESULTS; result++) {
        const struct mst_label labels[] = {label("result", mst_result_word(result))};

        if (result == MST_RESULT_OK || mst_histogram_count(&times[result]) > 0) {
            mst_exposition_histogram(out, labels, 1, &times[result]);
        }
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
    (void)figures;
    mst_exposition_number(out, NULL, 0, 1);
}

static void read_sessions(struct mst_exposition *out, const struct mst_figures *figures)
{
    mst_exposition_number(out, NULL, 0, figures->sessions);
}

static void read_connections(struct mst_exposition *out, const struct mst_figures *figures)
{
    mst_exposition_number(out, NULL, 0, figures->connections);
}

/* ---- jobs ---- */

static void read_generation(struct mst_exposition *out, const struct mst_figures *figures)
{
    for (size_t i = 0; i < figures->job_count; i++) {
        const struct mst_label labels[] = {job_label(&figures->jobs[i])};

        mst_exposition_number(out, labels, 1, figures->jobs[i].generation);
    }
}

static void read_members(struct mst_exposition *out, const struct mst_figures *figures)
{
    for (size_t i = 0; i < figures->job_count; i++) {
        for (enum mst_state state = MST_JOINING; state <= MST_SPARE; state++) {
            const struct mst_label labels[] = {job_label(&figures->jobs[i]),
                                               label("state", mst_state_word(state))};

            if (state != MST_ABSENT) { /* nobody is that */
                mst_exposition_number(out, labels, 2, figures->jobs[i].members[state]);
            }
        }
    }
}

static void read_losses(struct mst_exposition *out, const struct mst_figures *figures)
{
    for (size_t i = 0; i < figures->job_count; i++) {
        for (enum mst_cause cause = MST_CAUSE_EXIT; cause <= MST_CAUSE_HARD_TIMEOUT; cause++) {
            const struct mst_label labels[] = {job_label(&figures->jobs[i]),
                                               label("reason", mst_cause_word(cause))};

            if (cause != MST_CAUSE_SOFT_TIMEOUT) { /* nobody is lost by that */
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

static void read_restart_times(struct mst_exposition *out, const struct mst_figures *figures)
{
    for (enum mst_phase phase = MST_PHASE_INTERRUPT; phase < MST_PHASES; phase++) {
        const struct mst_label labels[] = {label("phase", mst_phase_word(phase))};

        mst_exposition_histogram(out, labels, 1, &figures->counts.restarts[phase]);
    }
}

/* ---- preemption ---- */

static void read_watchers(struct mst_exposition *out, const struct mst_figures *figures)
{
    mst_exposition_number(out, NULL, 0, figures->counts.watchers);
}

/* The certain ones begin at zero, for a rate; the rest is told when there was one. */
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

static void read_agreements(struct mst_exposition *out, const struct mst_figures *figures)
{
    read_results(out, figures->counts.agreements);
}

static void read_handled(struct mst_exposition *out, const struct mst_figures *figures)
{
    mst_exposition_number(out, NULL, 0, figures->counts.handled);
}

static void read_saved_ranks(struct mst_exposition *out, const struct mst_figures *figures)
{
    for (size_t i = 0; i < figures->job_count; i++) {
        const struct mst_label labels[] = {job_label(&figures->jobs[i])};

        mst_exposition_number(out, labels, 1, figures->jobs[i].saved_ranks);
    }
}

static void read_heartbeat_failures(struct mst_exposition *out, const struct mst_figures *figures)
{
    for (size_t i = 0; i < figures->job_count; i++) {
        const struct mst_label labels[] = {job_label(&figures->jobs[i])};

        mst_exposition_number(out, labels, 1, figures->jobs[i].counts.heartbeat_failures);
    }
}

/* ---- clusters ---- */

/* One sample of each cluster: `fn` tells it. The first two labels are set; a third is its own. */
typedef void cluster_fn(struct mst_exposition *out, struct mst_label labels[MST_LABELS_MAX],
                        const struct mst_cluster_status *status);

static void each_cluster(struct mst_exposition *out, const struct mst_figures *figures,
                         cluster_fn *fn)
{
    for (size_t i = 0; i < figures->cluster_count; i++) {
        const struct mst_cluster_figures *cluster = &figures->clusters[i];
        struct mst_label labels[MST_LABELS_MAX] = {
            job_label(&figures->jobs[cluster->job]),
            {.name = "cluster", .value = mst_slice_of(cluster->name, cluster->name_size)}};

        fn(out, labels, &cluster->status);
    }
}

static void tell_third(struct mst_exposition *out, struct mst_label labels[MST_LABELS_MAX],
                       const char *name, const char *value, uint64_t number)
{
    labels[2] = label(name, value);
    mst_exposition_number(out, labels, 3, number);
}

static void tell_queued(struct mst_exposition *out, struct mst_label labels[MST_LABELS_MAX],
                        const struct mst_cluster_status *status)
{
    mst_exposition_number(out, labels, 2, status->queued);
}

static void read_closures_queued(struct mst_exposition *out, const struct mst_figures *figures)
{
    each_cluster(out, figures, tell_queued);
}

static void tell_in_flight(struct mst_exposition *out, struct mst_label labels[MST_LABELS_MAX],
                           const struct mst_cluster_status *status)
{
    mst_exposition_number(out, labels, 2, status->in_flight);
}

static void read_closures_in_flight(struct mst_exposition *out, const struct mst_figures *figures)
{
    each_cluster(out, figures, tell_in_flight);
}

static void tell_workers(struct mst_exposition *out, struct mst_label labels[MST_LABELS_MAX],
                         const struct mst_cluster_status *status)
{
    mst_exposition_number(out, labels, 2, status->present);
}

static void read_cluster_workers(struct mst_exposition *out, const struct mst_figures *figures)
{
    each_cluster(out, figures, tell_workers);
}

static void tell_slots(struct mst_exposition *out, struct mst_label labels[MST_LABELS_MAX],
                       const struct mst_cluster_status *status)
{
    uint64_t busy = status->slots > status->slots_free ? status->slots - status->slots_free : 0;

    tell_third(out, labels, "state", "busy", busy);
    tell_third(out, labels, "state", "free", status->slots_free);
}

static void read_cluster_slots(struct mst_exposition *out, const struct mst_figures *figures)
{
    each_cluster(out, figures, tell_slots);
}

static void tell_outcomes(struct mst_exposition *out, struct mst_label labels[MST_LABELS_MAX],
                          const struct mst_cluster_status *status)
{
    tell_third(out, labels, "outcome", "value", status->values);
    tell_third(out, labels, "outcome", "failure", status->failures);
    tell_third(out, labels, "outcome", "cancelled", status->cancelled);
}

static void read_closures(struct mst_exposition *out, const struct mst_figures *figures)
{
    each_cluster(out, figures, tell_outcomes);
}

static void tell_classes(struct mst_exposition *out, struct mst_label labels[MST_LABELS_MAX],
                         const struct mst_cluster_status *status)
{
    tell_third(out, labels, "class", "function", status->failed_function);
    tell_third(out, labels, "class", "crash", status->failed_crash);
    tell_third(out, labels, "class", "lost", status->failed_lost);
    tell_third(out, labels, "class", "state", status->failed_state);
    tell_third(out, labels, "class", "input", status->failed_input);
    tell_third(out, labels, "class", "deadline", status->failed_deadline);
    tell_third(out, labels, "class", "exhausted", status->failed_exhausted);
    tell_third(out, labels, "class", "poison", status->failed_poison);
    tell_third(out, labels, "class", "unknown", status->failed_unknown);
    tell_third(out, labels, "class", "argument", status->failed_argument);
    tell_third(out, labels, "class", "internal", status->failed_internal);
    tell_third(out, labels, "class", "retryable", status->failed_retryable);
}

static void read_closure_failures(struct mst_exposition *out, const struct mst_figures *figures)
{
    each_cluster(out, figures, tell_classes);
}

static void tell_repeats(struct mst_exposition *out, struct mst_label labels[MST_LABELS_MAX],
                         const struct mst_cluster_status *status)
{
    tell_third(out, labels, "reason", "failure", status->retried);
    tell_third(out, labels, "reason", "loss", status->put_back);
}

static void read_closure_repeats(struct mst_exposition *out, const struct mst_figures *figures)
{
    each_cluster(out, figures, tell_repeats);
}

static void tell_resolve(struct mst_exposition *out, struct mst_label labels[MST_LABELS_MAX],
                         const struct mst_cluster_status *status)
{
    mst_exposition_histogram(out, labels, 2, &status->times[MST_TIMER_RESOLVE]);
}

static void read_resolve_times(struct mst_exposition *out, const struct mst_figures *figures)
{
    each_cluster(out, figures, tell_resolve);
}

static void tell_run(struct mst_exposition *out, struct mst_label labels[MST_LABELS_MAX],
                     const struct mst_cluster_status *status)
{
    labels[2] = label("outcome", "value");
    mst_exposition_histogram(out, labels, 3, &status->times[MST_TIMER_RUN]);
    labels[2] = label("outcome", "failure");
    mst_exposition_histogram(out, labels, 3, &status->times[MST_TIMER_FAILED]);
}

static void read_run_times(struct mst_exposition *out, const struct mst_figures *figures)
{
    each_cluster(out, figures, tell_run);
}

static void tell_fetch(struct mst_exposition *out, struct mst_label labels[MST_LABELS_MAX],
                       const struct mst_cluster_status *status)
{
    mst_exposition_histogram(out, labels, 2, &status->times[MST_TIMER_FETCH]);
}

static void read_fetch_times(struct mst_exposition *out, const struct mst_figures *figures)
{
    each_cluster(out, figures, tell_fetch);
}

/* ---- traffic ---- */

static void read_renewals(struct mst_exposition *out, const struct mst_figures *figures)
{
    mst_exposition_histogram(out, NULL, 0, &figures->counts.renewals);
}

static void read_rounds(struct mst_exposition *out, const struct mst_figures *figures)
{
    read_results(out, figures->counts.rounds);
}

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

/* ---- the process; what the system does not tell is left out ---- */

static void read_cpu(struct mst_exposition *out, const struct mst_figures *figures)
{
    struct timespec used;

    (void)figures;
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) == 0) {
        mst_exposition_seconds(out, NULL, 0, (uint64_t)used.tv_sec, (uint64_t)used.tv_nsec);
    }
}

/* A small file of /proc as text. */
static bool read_proc(const char *path, char *text, size_t room)
{
    FILE *file = fopen(path, "re");
    size_t size = file ? fread(text, 1, room - 1, file) : 0;

    text[size] = '\0';
    if (file) {
        (void)fclose(file);
    }
    return size > 0;
}

/* The number after `skip` words. */
static bool number_at(const char *text, unsigned skip, uint64_t *out)
{
    char *end;

    for (; skip > 0; skip--) {
        text = strchr(text, ' ');
        if (!text) {
            return false;
        }
        text++;
    }
    *out = strtoull(text, &end, 10);
    return end != text;
}

static void read_memory(struct mst_exposition *out, const struct mst_figures *figures)
{
    char text[256];
    uint64_t pages;

    (void)figures;
    if (read_proc("/proc/self/statm", text, sizeof text) && number_at(text, 1, &pages)) {
        mst_exposition_number(out, NULL, 0, pages * (uint64_t)sysconf(_SC_PAGESIZE));
    }
}

static void read_open_fds(struct mst_exposition *out, const struct mst_figures *figures)
{
    DIR *folder = opendir("/proc/self/fd");
    const struct dirent *entry;
    uint64_t count = 0;

    (void)figures;
    if (!folder) {
        return;
    }
    while ((entry = readdir(folder))) {
        count += entry->d_name[0] != '.';
    }
    (void)closedir(folder);
    mst_exposition_number(out, NULL, 0, count - 1); /* without the one that was read */
}

static void read_max_fds(struct mst_exposition *out, const struct mst_figures *figures)
{
    struct rlimit limit;

    (void)figures;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        mst_exposition_number(out, NULL, 0, limit.rlim_cur);
    }
}

/* The kernel knows it in ticks since the boot, whose moment is only known to the second: taken
 * once, or the same start would be told a little differently each time. */
static void read_start_time(struct mst_exposition *out, const struct mst_figures *figures)
{
    static uint64_t start_ms;
    char text[1024];
    const char *name_end = NULL;
    struct timespec now, up;
    uint64_t ticks;

    (void)figures;
    if (start_ms == 0 && read_proc("/proc/self/stat", text, sizeof text)) {
        name_end = strrchr(text, ')'); /* the program's name may hold anything */
    }
    if (name_end && number_at(name_end, 20, &ticks) && clock_gettime(CLOCK_REALTIME, &now) == 0 &&
        clock_gettime(CLOCK_BOOTTIME, &up) == 0) {
        start_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000 -
                   (uint64_t)up.tv_sec * 1000 - (uint64_t)up.tv_nsec / 1000000 +
                   ticks * 1000 / (uint64_t)sysconf(_SC_CLK_TCK);
    }
    if (start_ms != 0) {
        mst_exposition_seconds(out, NULL, 0, start_ms / 1000, start_ms % 1000 * 1000000);
    }
}

/* ---- the table ---- */

const struct mst_metric mst_metrics[] = {
#define X(kind, metric, base_unit, names, reader, words)                                           \
    {.type = MST_##kind,                                                                           \
     .name = #metric,                                                                              \
     .unit = (base_unit),                                                                          \
     .labels = (names),                                                                            \
     .help = (words),                                                                              \
     .read = read_##reader},
#include "service/server/metrics.def"
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
