/* SPDX-License-Identifier: Apache-2.0 */
/* One run of one seed: faults, then calm, then the audit. */
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/panic.h"
#include "observer.h"
#include "properties.h"
#include "proto/command.h"
#include "sim.h"

#define EVENTS_MAX UINT64_C(3000000)

/* ---- the second phase ---------------------------------------------------------------------------
 */

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* DEAD_NOTICED, CUT_ENDS, FENCED_TOLD, JOINER_WAITS */
static void check_proc(struct sim *sim, const struct sim_proc *proc)
{
    const struct model_member *member = &proc->member;
    const struct model_job *job = proc->job;
    uint64_t lease = sim->plan.lease_ns;
    uint64_t now = sim->now_ns;
    /* A rank may have to wait for its silent agent, and that for the last of its ranks. */
    uint64_t noticed_ns = (sim->plan.tied ? 3 * lease : lease + lease / 2) + 500 * SIM_MS;
    uint64_t from_ns = later(sim->calm_ns, sim_service_free_ns(sim));

    if ((proc->kind != SIM_RANK && proc->kind != SIM_AGENT) || member->incarnation == 0) {
        return;
    }
    if (!proc->alive && !member->lost && !member->left &&
        now > later(proc->died_ns, from_ns) + noticed_ns) {
        sim_fail(sim, SIM_P_DEAD_NOTICED, "pid=%" PRIu64 " #%u is dead since %.6f", proc->pid,
                 member->index, (double)proc->died_ns / 1e9);
    }
    if (proc->alive && member->cut_ns != 0 && !proc->ended &&
        now > later(later(proc->cut_off_ns, from_ns), proc->troubled_ns) + noticed_ns) {
        sim_fail(sim, SIM_P_CUT_ENDS, "pid=%" PRIu64 " #%u was cut off until %.6f", proc->pid,
                 member->index, (double)proc->cut_off_ns / 1e9);
    }
    if (proc->alive && member->lost && !proc->ended &&
        now > later(member->gone_ns, sim->calm_ns) + lease + 3000 * SIM_MS) {
        sim_fail(sim, SIM_P_FENCED_TOLD, "pid=%" PRIu64 " #%u was given up at %.6f", proc->pid,
                 member->index, (double)member->gone_ns / 1e9);
    }
    if (proc->alive && member->ready && job->grow == MST_GROW_CHECK && job->view.size > 0 &&
        !job->finished && !job->by_table && sim_job_grows(sim, job) &&
        now > later(later(member->ready_ns, sim->calm_ns), job->view.sealed_ns) +
                  job->barrier_timeout_ns + 8 * lease + 3000 * SIM_MS &&
        sim_view_alive(&job->view)) {
        sim_fail(sim, SIM_P_JOINER_WAITS, "pid=%" PRIu64 " #%u is ready since %.6f", proc->pid,
                 member->index, (double)member->ready_ns / 1e9);
    }
}

void sim_check_calm(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->proc_count; i++) {
        check_proc(sim, sim->procs[i]);
        sim_check_preempt(sim, sim->procs[i]);
    }
}

static void explain(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->proc_count; i++) {
        const struct sim_proc *proc = sim->procs[i];

        if (proc->alive) {
            sim_tell(sim,
                     "still: pid=%" PRIu64 " kind=%d #%u incarnation=%" PRIu64 " fn=%d in=%" PRIu64
                     " step=%" PRIu64 " calls=%u first=%s stopped=%d",
                     proc->pid, (int)proc->kind, proc->member.index, proc->member.incarnation,
                     (int)proc->fn.state, proc->member.entered, proc->fn.steps, proc->call_count,
                     proc->call_count ? mst_command_name(proc->calls[0].command) : "none",
                     mst_client_stopped(proc->client));
        }
        if (proc->alive && proc->conn) {
            const struct sim_conn *conn = proc->conn;

            sim_tell(sim,
                     "  connection %" PRIu64 " attempt=%d up: flying=%zu received=%zu; down: "
                     "flying=%zu received=%zu unsent=%zu severed=%d open=%d/%d",
                     conn->id.id, (int)conn->attempt, conn->end[SIM_SERVICE].flying,
                     sim_net_received(conn, SIM_SERVICE).size, conn->end[SIM_CLIENT].flying,
                     sim_net_received(conn, SIM_CLIENT).size,
                     conn->codec ? mst_native_stream_output(&conn->codec->stream).size : 0,
                     conn->severed, conn->end[0].open, conn->end[1].open);
        }
    }
}

static bool jobs_over(const struct sim *sim)
{
    for (uint32_t i = 0; i < sim->plan.jobs; i++) {
        if (!sim_job_over(sim, &sim->jobs[i])) {
            return false;
        }
    }
    return true;
}

static bool observers_idle(struct sim *sim)
{
    bool idle = true;

    for (uint32_t i = 0; i < sim->proc_count; i++) {
        struct sim_proc *proc = sim->procs[i];

        if (proc->kind == SIM_OBSERVER && proc->alive && !sim_observer_idle(proc)) {
            idle = false;
            sim_proc_wake(sim, proc, sim->now_ns);
        }
    }
    return idle;
}

static void audit_start(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->plan.jobs; i++) {
        sim->auditors[i] = sim_proc_spawn(sim, SIM_AUDITOR, &sim->jobs[i], 0, 0);
        sim_proc_begin(sim, sim->auditors[i]);
    }
}

static bool audit_done(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->plan.jobs; i++) {
        if (!sim->auditors[i]->work->whole) {
            return false;
        }
    }
    for (uint32_t i = 0; i < sim->plan.jobs; i++) {
        sim_audit_compare(sim, sim->auditors[i]);
    }
    return true;
}

/* Everything that was to happen has; then a lease of silence, the audit, the end. */
static void calm_step(struct sim *sim)
{
    sim_check_calm(sim);
    if (sim->now_ns > sim->end_ns) {
        explain(sim);
        sim_fail(sim,
                 !jobs_over(sim) ? SIM_P_CONVERGES
                 : !sim_cluster_over(sim)
                     ? (sim_cluster_dismisses(sim) ? SIM_P_DISMISS_ENDS : SIM_P_QUEUE_DRAINS)
                     : SIM_P_CALLS_END,
                 "%.1f s after the faults", (double)(sim->now_ns - sim->calm_ns) / 1e9);
    }
    if (sim->auditors[0]) {
        sim->over = audit_done(sim);
    } else if (!jobs_over(sim) || !observers_idle(sim) || !sim_cluster_over(sim)) {
        sim->quiet_ns = sim->now_ns;
    } else if (sim->now_ns > sim->quiet_ns + sim->plan.lease_ns &&
               sim->now_ns > sim->calm_ns + 2 * sim->plan.lease_ns + 1000 * SIM_MS) {
        audit_start(sim);
    }
}

static void tend(struct sim *sim, void *ctx, uint64_t arg)
{
    (void)ctx;
    (void)arg;
    if (sim->calm) {
        calm_step(sim);
    } else if (sim->now_ns >= sim->plan.chaos_ns ||
               (jobs_over(sim) && (sim->plan.observers == 0 || sim_chance(sim, 10)))) {
        uint64_t longest = 0;

        for (uint32_t i = 0; i < sim->plan.jobs; i++) {
            longest = later(longest, sim->jobs[i].barrier_timeout_ns + sim->jobs[i].join_wait_ns +
                                         sim->jobs[i].replace_ms * SIM_MS);
        }
        sim->end_ns = sim->now_ns + 100 * sim->plan.lease_ns + 10 * longest;
        if (sim->plan.has[SIM_NOTICE]) { /* saves may be waited for until their deadline */
            sim->end_ns += 20 * sim->plan.lease_ns + 60000 * SIM_MS;
        }
        sim_chaos_end(sim);
        sim->quiet_ns = sim->now_ns;
    }
    sim_at(sim, sim->now_ns + sim->plan.lease_ns / 4, tend, NULL, 0);
}

/* ---- the run ------------------------------------------------------------------------------------
 */

static void start(struct sim *sim)
{
    sim_plan_draw(sim);
    sim_service_start(sim);
    for (uint32_t i = 0; i < sim->plan.jobs; i++) {
        const struct model_job *job = &sim->jobs[i];

        sim_tell(sim,
                 "job %s: size=%u min_size=%u join_wait=%.3fs grow=%d barrier_timeout=%.3fs "
                 "step=%.3fs replace=%" PRIu64 "ms",
                 job->name, job->size, job->min_size, (double)job->join_wait_ns / 1e9,
                 (int)job->grow, (double)job->barrier_timeout_ns / 1e9, (double)job->step_ns / 1e9,
                 job->replace_ms);
        sim_job_start(sim, &sim->jobs[i]);
    }
    sim_tell(sim, "lease=%.3fs nodes=%u observers=%u chaos=%.3fs notices=%d",
             (double)sim->plan.lease_ns / 1e9, sim->plan.nodes, sim->plan.observers,
             (double)sim->plan.chaos_ns / 1e9, sim->plan.notices);
    sim_chaos_start(sim);
    sim_cluster_open(sim);
    sim_at(sim, sim->plan.lease_ns, tend, NULL, 0);
}

static uint64_t finish(struct sim *sim)
{
    uint64_t digest = mst_digest_number(sim->digest, mst_core_digest(sim->service.core));

    digest = mst_digest_number(digest, sim->events);
    for (uint32_t i = 0; i < sim->proc_count; i++) {
        digest = mst_digest_number(digest, mst_client_digest(sim->procs[i]->client));
        if (sim->procs[i]->restart) {
            digest = mst_digest_number(digest, mst_restart_digest(sim->procs[i]->restart));
        }
        if (sim->procs[i]->tasks) {
            digest = mst_digest_number(digest, sim_cluster_digest(sim->procs[i]));
        }
    }
    for (uint32_t i = 0; i < sim->proc_count; i++) {
        sim_proc_fini(sim, sim->procs[i]);
    }
    sim_cluster_close(sim);
    sim_service_fini(sim);
    sim_net_fini(sim);
    sim_heap_fini(&sim->heap);
    for (uint32_t i = 0; i < sim->plan.jobs; i++) {
        free(sim->jobs[i].rounds);
        free(sim->jobs[i].agreements);
    }
    sim_check_memory(sim);
    return digest;
}

uint64_t sim_run(uint64_t seed, struct sim_story *story, unsigned char fill, bool verbose)
{
    struct sim *sim = sim_new(sizeof(*sim));
    struct sim_event event;
    uint64_t digest;

    story->count = 0;
    sim->seed = seed;
    sim->story = story;
    sim->verbose = verbose;
    /* Not the seed itself: the streams of neighbours would be one, a step apart. */
    sim->prng.state = mst_prng_next(&(struct mst_prng){.state = seed});
    sim->digest = MST_DIGEST_INIT;
    sim_memory_init(&sim->memory, fill, seed);
    sim_memory_init(&sim->service.memory, fill, seed + 1);
    start(sim);
    while (!sim->over && sim_heap_take(&sim->heap, &event)) {
        MST_ASSERT(event.at_ns >= sim->now_ns);
        sim->now_ns = event.at_ns;
        event.run(sim, event.ctx, event.arg);
        if (++sim->events > EVENTS_MAX) {
            explain(sim);
            sim_fail(sim, SIM_P_CONVERGES, "too much happens");
        }
    }
    sim_tell(sim,
             "the end after %" PRIu64 " events, %" PRIu64 " turns of the service, %u processes",
             sim->events, sim->service.turns, sim->proc_count);
    sim_cluster_tell(sim);
    digest = finish(sim);
    free(sim);
    return digest;
}
