/* SPDX-License-Identifier: Apache-2.0 */
#include "service/core/progress.h"

#include <string.h>

#include "service/core/job.h"
#include "service/core/narrate.h"
#include "service/core/node.h"

#define THOUSAND UINT64_C(1000)
#define WORKS (MST_WORK_CPU + 1)
#define SHARE_LEAST 500u /* a rank that works for less of a step keeps no other waiting */

/* ---- reports ---- */

/* Whether the report is about the holder of this place, by the agent that started it. */
static bool is_of(const struct mst_session *agent, const struct mst_member *member,
                  const struct mst_rank_progress *report)
{
    const struct mst_session *holder = member ? member->session : NULL;

    return holder && holder->pid == report->pid &&
           mst_node_speaks(agent, holder->agent, mst_blob_slice(holder->host));
}

static void keep(struct mst_member *member, const struct mst_rank_progress *report)
{
    struct mst_core *core = member->job->core;
    struct mst_progress_kept *kept = member->progress;
    size_t size = report->section.size;

    if (!kept) {
        kept = mst_mem_array(&core->mem, 1, sizeof(*kept));
        if (!kept) {
            return;
        }
        *kept = (struct mst_progress_kept){0};
        member->progress = kept;
    }
    if (kept->incarnation != member->incarnation || kept->generation != report->generation) {
        *kept = (struct mst_progress_kept){.incarnation = member->incarnation,
                                           .generation = report->generation};
    }
    kept->at_ns = core->now_ns;
    kept->step = report->step;
    kept->stepped = report->stepped;
    kept->rate = report->rate;
    kept->quiet_ms = report->quiet_ms;
    kept->work = (uint8_t)report->work;
    kept->work_us = report->work_us;
    kept->share = report->share;
    size = size < sizeof(kept->section) ? size : sizeof(kept->section);
    if (size > 0) {
        memcpy(kept->section, report->section.data, size);
    }
    kept->section_size = (uint8_t)size;
    if (report->repeated > kept->repeated) {
        kept->repeated = report->repeated;
        mst_history_repeated(member->job, report->generation, report->repeated);
    }
}

/* ---- comparing ---- */

/* A report counts for two renewals and a half. */
static bool is_fresh(const struct mst_member *member)
{
    const struct mst_job *job = member->job;
    const struct mst_progress_kept *kept = member->progress;

    return kept && kept->incarnation == member->incarnation &&
           kept->generation == job->generation &&
           job->core->now_ns - kept->at_ns <= job->core->config.lease_ns / 2;
}

static bool has_work(const struct mst_progress_kept *kept, unsigned work)
{
    return kept->work == work && kept->work_us > 0;
}

/* The one that has as many below it as above it, or one less. By partitioning, each time around the
 * middle of the part that is left. */
static uint64_t median_of(uint64_t *numbers, uint32_t count)
{
    uint32_t from = 0, to = count - 1, middle = (count - 1) / 2;

    while (from < to) {
        uint64_t pivot = numbers[from + (to - from) / 2];
        int64_t low = from, high = to;

        while (low <= high) {
            while (numbers[low] < pivot) {
                low++;
            }
            while (numbers[high] > pivot) {
                high--;
            }
            if (low <= high) {
                uint64_t number = numbers[low];

                numbers[low++] = numbers[high];
                numbers[high--] = number;
            }
        }
        if ((int64_t)middle <= high) {
            to = (uint32_t)high;
        } else if ((int64_t)middle >= low) {
            from = (uint32_t)low;
        } else {
            return pivot;
        }
    }
    return numbers[middle];
}

/* The step it has reached now, if it has gone on as before; as a number that is ordered as steps
 * are. */
static uint64_t step_now(const struct mst_core *core, const struct mst_progress_kept *kept)
{
    uint64_t since_ms = mst_core_since_ms(core, kept->at_ns);

    return ((uint64_t)kept->step ^ (UINT64_C(1) << 63)) +
           kept->rate * since_ms / (THOUSAND * THOUSAND);
}

/* So that ten thousand members are looked at once, and from then on only the reports. */
static void gather(struct mst_job *job)
{
    struct mst_job_pace *pace = &job->pace;

    pace->fresh_count = 0;
    for (uint32_t rank = 0; rank < job->rank_count; rank++) {
        if (is_fresh(job->ranks[rank])) {
            pace->fresh[pace->fresh_count] = job->ranks[rank]->progress;
            pace->fresh[pace->fresh_count++]->rank = rank;
        }
    }
}

static void compare_steps(struct mst_job *job)
{
    struct mst_job_pace *pace = &job->pace;
    uint32_t count = 0;
    uint64_t median;

    for (uint32_t i = 0; i < pace->fresh_count; i++) {
        if (pace->fresh[i]->stepped) {
            pace->sorted[count++] = step_now(job->core, pace->fresh[i]);
        }
    }
    median = count > 0 ? median_of(pace->sorted, count) : 0;
    for (uint32_t i = 0; i < pace->fresh_count; i++) {
        struct mst_progress_kept *kept = pace->fresh[i];
        uint64_t step = step_now(job->core, kept);
        uint64_t behind = kept->stepped && step < median ? median - step : 0;

        kept->behind = behind < UINT32_MAX ? (uint32_t)behind : UINT32_MAX;
    }
}

static void compare_rates(struct mst_job *job)
{
    struct mst_job_pace *pace = &job->pace;
    uint32_t count = 0;

    for (uint32_t i = 0; i < pace->fresh_count; i++) {
        if (pace->fresh[i]->stepped || pace->fresh[i]->step > 0) {
            pace->sorted[count++] = pace->fresh[i]->rate;
        }
    }
    pace->rate = count > 0 ? (uint32_t)median_of(pace->sorted, count) : 0;
}

static bool is_straggler(const struct mst_job *job, const struct mst_progress_kept *kept)
{
    uint64_t percent = job->core->config.straggler_percent;
    uint64_t least = THOUSAND + (kept->straggler ? percent * 15 / 2 : percent * 10);

    return percent > 0 && kept->slower >= least && kept->share >= SHARE_LEAST;
}

static void judge(struct mst_job *job, struct mst_progress_kept *kept)
{
    const struct mst_member *member = job->ranks[kept->rank];
    bool straggler = is_straggler(job, kept);

    if (straggler != kept->straggler) {
        kept->straggler = straggler;
        mst_narrate(job, straggler ? MST_WARN : MST_INFO,
                    "%s " MST_NARRATE_MEMBER " rank=%u work-ms=%u.%03u slower=%u.%03u",
                    straggler ? "straggler" : "straggler-over", MST_NARRATE_MEMBER_ARGS(member),
                    kept->rank, kept->work_us / 1000, kept->work_us % 1000, kept->slower / 1000,
                    kept->slower % 1000);
    }
    if (straggler && !kept->remembered) {
        kept->remembered = true;
        mst_history_straggler(member, kept->slower, kept->step);
    }
}

/* How the work of most ranks is measured. */
static unsigned most_measured(const struct mst_job_pace *pace)
{
    uint32_t counts[WORKS] = {0};
    unsigned most = MST_WORK_SECTIONS;

    for (uint32_t i = 0; i < pace->fresh_count; i++) {
        counts[pace->fresh[i]->work] += pace->fresh[i]->work_us > 0;
    }
    for (unsigned work = MST_WORK_SECTIONS; work < WORKS; work++) {
        most = counts[work] > counts[most] ? work : most;
    }
    return most;
}

/* Those whose work is measured alike; only in the largest such group a rank is compared. */
static void compare_work(struct mst_job *job)
{
    struct mst_job_pace *pace = &job->pace;
    unsigned most = most_measured(pace);
    uint32_t count = 0;
    uint64_t median;

    for (uint32_t i = 0; i < pace->fresh_count; i++) {
        if (has_work(pace->fresh[i], most)) {
            pace->sorted[count++] = pace->fresh[i]->work_us;
        }
    }
    median = count > 1 ? median_of(pace->sorted, count) : 0;
    pace->stragglers = 0;
    for (uint32_t i = 0; i < pace->fresh_count; i++) {
        struct mst_progress_kept *kept = pace->fresh[i];
        uint64_t slower =
            median > 0 && has_work(kept, most) ? kept->work_us * THOUSAND / median : 0;

        kept->slower = slower < UINT32_MAX ? (uint32_t)slower : UINT32_MAX;
        judge(job, kept);
        pace->stragglers += kept->straggler;
    }
}

static bool make_room(struct mst_job *job)
{
    const struct mst_mem *mem = &job->core->mem;
    struct mst_job_pace *pace = &job->pace;

    if (pace->room < job->rank_count) {
        mst_mem_release(mem, pace->sorted);
        mst_mem_release(mem, pace->fresh);
        pace->sorted = mst_mem_array(mem, job->rank_count, sizeof(*pace->sorted));
        pace->fresh = mst_mem_array(mem, job->rank_count, sizeof(void *));
        pace->room = pace->sorted && pace->fresh ? job->rank_count : 0;
    }
    return job->rank_count > 0 && pace->room >= job->rank_count;
}

static void compare(struct mst_job *job)
{
    const struct mst_core *core = job->core;
    uint64_t soonest_ns =
        job->pace.compared_ns + core->config.lease_ns / 5 - core->config.lease_ns / 50;

    if ((job->pace.compared_ns == 0 || core->now_ns >= soonest_ns) && make_room(job)) {
        job->pace.compared_ns = core->now_ns;
        gather(job);
        compare_steps(job);
        compare_rates(job);
        compare_work(job);
    }
}

void mst_progress_take(const struct mst_session *session, const struct mst_request *request)
{
    if (session->role != MST_ROLE_AGENT || !mst_session_holds(session) ||
        request->renew.count == 0) {
        return;
    }
    for (uint32_t i = 0; i < request->renew.count; i++) {
        const struct mst_rank_progress *report = &request->renew.progress[i];
        struct mst_member *member = mst_member_find(session->job, MST_ROLE_RANK, report->index);

        if (is_of(session, member, report)) {
            keep(member, report);
        }
    }
    compare(session->job);
}

/* ---- for readers ---- */

bool mst_progress_fill(const struct mst_member *member, struct mst_rank_progress *out)
{
    const struct mst_progress_kept *kept = member->progress;
    uint64_t quiet_ms;

    if (!kept || !member->session || kept->incarnation != member->incarnation) {
        return false;
    }
    quiet_ms = kept->quiet_ms + mst_core_since_ms(member->job->core, kept->at_ns);
    *out = (struct mst_rank_progress){.work = (enum mst_work)kept->work,
                                      .generation = kept->generation,
                                      .step = kept->step,
                                      .rate = kept->rate,
                                      .quiet_ms =
                                          quiet_ms < UINT32_MAX ? (uint32_t)quiet_ms : UINT32_MAX,
                                      .work_us = kept->work_us,
                                      .share = kept->share,
                                      .section = mst_slice_of(kept->section, kept->section_size),
                                      .behind = kept->behind,
                                      .slower = kept->slower,
                                      .repeated = kept->repeated,
                                      .stepped = kept->stepped,
                                      .straggler = kept->straggler && is_fresh(member)};
    return true;
}

void mst_progress_job(const struct mst_job *job, uint64_t *rate_out, uint64_t *stragglers_out)
{
    bool any = false;

    for (uint32_t rank = 0; rank < job->rank_count && !any; rank++) {
        any = is_fresh(job->ranks[rank]);
    }
    *rate_out = any ? job->pace.rate : 0;
    *stragglers_out = any ? job->pace.stragglers : 0;
}

void mst_progress_forget(struct mst_core *core, struct mst_member *member)
{
    mst_mem_release(&core->mem, member->progress);
    member->progress = NULL;
}

void mst_progress_clear(struct mst_job *job)
{
    mst_mem_release(&job->core->mem, job->pace.sorted);
    mst_mem_release(&job->core->mem, job->pace.fresh);
    job->pace = (struct mst_job_pace){0};
}
