/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "launch/group.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "launch/job.h"
#include "launch/say.h"

void mst_group_heard(struct mst_group *group, uint32_t life, struct mst_slice why)
{
    if (life > group->told) {
        group->told = life;
        (void)snprintf(group->why, sizeof group->why, "%.*s", MST_SLICE_ARGS(why));
    }
}

/* Of the next life: with its reason. */
static void write_claim(struct mst_run_job *job, const char *why)
{
    struct mst_group *group = &job->group;

    group->claim.insert = true;
    (void)snprintf(group->claim.key, sizeof group->claim.key, MST_SESSION_KEYS "life/%" PRIu32,
                   group->life + 1);
    mst_session_write(&job->session, &group->claim, why);
}

/* A run on one node has no other node to agree with: the key is for the history of the job. */
static void begin_alone(struct mst_run_job *job, const char *why)
{
    mst_shared_lock(&job->shared);
    job->nodes.restarts_told = job->places.restarts + 1;
    mst_group_heard(&job->group, job->group.life + 1, mst_slice_text(why));
    mst_shared_unlock(&job->shared);
    if (job->places.restarts < job->options->max_restarts) {
        write_claim(job, why);
        job->places.restarts++;
    }
}

static void tell_giving_up(const struct mst_process *process, char *text, size_t room)
{
    char failure[256];

    mst_process_failure(process, failure, sizeof failure);
    (void)snprintf(text, room, "in-process restart gave up: %s",
                   failure[0] != '\0' ? failure : "it did not say why");
}

/* Of a program that does not use muster. */
static void tell_failure(const struct mst_run_job *job, const struct mst_process *process,
                         char *text, size_t room)
{
    bool several = mst_run_several(job->options);
    char name[64], how[128];

    mst_process_name(process, name, sizeof name);
    mst_process_how(process, how, sizeof how);
    (void)snprintf(text, room, "%s%s%s %s%s%s", name, several ? " on " : "",
                   several ? job->host : "", how, process->recorded[0] != '\0' ? ": " : "",
                   process->recorded);
}

void mst_group_ask(struct mst_run_job *job, const struct mst_process *process)
{
    struct mst_group *group = &job->group;
    char why[sizeof group->why];

    if (group->asks || group->ends) {
        return;
    }
    if (mst_process_gave_up(process)) {
        tell_giving_up(process, why, sizeof why);
    } else {
        tell_failure(job, process, why, sizeof why);
    }
    group->asks = true;
    if (!mst_run_several(job->options)) {
        begin_alone(job, why);
        return;
    }
    group->claim.counts_too = MST_SESSION_KEYS "restarts";
    write_claim(job, why);
}

/* What all nodes say alike; the count is the one that came with the reason. */
static void tell(const struct mst_run_job *job, uint32_t restarts, const char *why)
{
    const struct mst_run_options *options = job->options;
    char all[32] = "all ranks";

    if (options->nodes_min == options->nodes_max && options->size == 1) {
        (void)snprintf(all, sizeof all, "the rank");
    } else if (options->nodes_min == options->nodes_max) {
        (void)snprintf(all, sizeof all, "all %" PRIu32 " ranks", options->size);
    }
    mst_say("%s; restarting %s (%" PRIu32 " of %" PRIu32 ")", why, all, restarts,
            options->max_restarts);
}

static void end_processes(struct mst_run_job *job)
{
    job->group.ends = true;
    for (uint32_t i = 0; i < job->places.count; i++) {
        struct mst_place *place = &job->places.list[i];

        (void)uv_timer_stop(&place->again);
        place->asks = place->refused = false;
    }
    mst_ending_processes(job, SIGTERM);
}

static void begin_to_end(struct mst_run_job *job, uint32_t restarts, const char *why)
{
    if (restarts <= job->options->max_restarts) {
        tell(job, restarts, why);
        end_processes(job);
    } else if (job->group.asks) {
        mst_say("%s; the ranks are not restarted: %" PRIu32 " of %" PRIu32 " restart%s used", why,
                job->places.restarts, job->options->max_restarts,
                job->options->max_restarts == 1 ? " is" : "s are");
        mst_ending_begin(job, MST_ENDS_FAILED, SIGTERM);
    } /* else one that asks ends the run */
}

static void start(struct mst_run_job *job)
{
    struct mst_group *group = &job->group;

    group->ends = group->asks = group->said = false;
    (void)uv_timer_stop(&job->end.grace);
    mst_nodes_begin_life(job);
    for (uint32_t i = 0; i < job->places.count; i++) {
        job->places.list[i].state = MST_PLACE_WAITS;
        job->places.list[i].early = 0;
        job->places.list[i].lost_ns = 0;
    }
    mst_place_start_all(job);
}

void mst_group_enter(struct mst_run_job *job)
{
    if (job->group.ends) {
        mst_group_look(job);
    } else {
        mst_place_start_all(job);
    }
}

static void say_who_is_missing(struct mst_run_job *job)
{
    uint32_t missing = job->places.uses_muster || job->group.said ? 0 : mst_nodes_missing(job);

    if (missing > 0) {
        job->group.said = true;
        mst_say("the ranks start when %" PRIu32 " more node%s here: %" PRIu32 " are needed",
                missing, missing == 1 ? " is" : "s are", job->options->nodes_min);
    }
}

bool mst_group_begins(const struct mst_group *group)
{
    return group->ends || group->asks;
}

void mst_group_look(struct mst_run_job *job)
{
    struct mst_group *group = &job->group;
    char why[sizeof group->why];
    uint32_t told, restarts;

    mst_shared_lock(&job->shared);
    told = group->told;
    restarts = job->nodes.restarts_told;
    (void)snprintf(why, sizeof why, "%s", group->why);
    mst_shared_unlock(&job->shared);
    if (job->end.how != MST_GOES_ON || job->nodes.joining || job->nodes.rejoins) {
        return;
    }
    if (told > group->life && !group->ends) {
        begin_to_end(job, restarts, why);
    }
    if (group->ends && !mst_place_any(&job->places, MST_PLACE_RUNS)) {
        if (group->life < told) {
            group->life = told;
            mst_nodes_choose_port(job);
        }
        mst_nodes_state(job, MST_PEER_RUNS);
        if (mst_nodes_all_in_life(job, told)) {
            start(job);
        } else {
            say_who_is_missing(job);
        }
    }
}
