/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/nodes.h"
#include "cli/print.h"
#include "io/status_json.h"
#include "lib/items.h"

#define ANSWER_MS 10000
#define NAMES_SHOWN 8u

struct picture {
    const struct mst_cli *cli;
    struct mst_cli_place place;
    muster_client *client;
    struct mst_status status; /* its texts are those of `place` */
};

/* ---- gathering ---- */

static muster_status collect(struct picture *picture, enum mst_command command,
                             struct mst_items *items, const char *what, struct muster_error *err)
{
    struct mst_request request = {.command = command};

    return mst_lib_items_collect(picture->client, &request, ANSWER_MS, items, err, what);
}

static int gather(struct picture *picture)
{
    struct mst_status *status = &picture->status;
    struct muster_error err;
    int code = mst_cli_observe(picture->cli, &picture->client, &picture->place);

    if (code != MST_CLI_OK) {
        return code;
    }
    status->address = picture->place.addr;
    status->job = picture->place.job;
    if (collect(picture, MST_JOBS, &status->jobs, "list the jobs", &err) != MUSTER_OK ||
        collect(picture, MST_MEMBERS, &status->members, "list the members", &err) != MUSTER_OK ||
        collect(picture, MST_ROUNDS, &status->rounds, "list the rounds", &err) != MUSTER_OK ||
        collect(picture, MST_HOSTS, &status->hosts, "list the hosts", &err) != MUSTER_OK) {
        return mst_cli_fail_with(picture->cli, &err);
    }
    return MST_CLI_OK;
}

static void release(struct picture *picture)
{
    mst_status_fini(&picture->status);
    muster_client_close(picture->client);
}

static void put_loss(const struct muster_member *member)
{
    switch (member->cause) {
    case MUSTER_CAUSE_NONE:
    case MUSTER_CAUSE_LEFT:
        break;
    case MUSTER_CAUSE_EXIT:
        mst_cli_put("exited with status %d", member->code);
        break;
    case MUSTER_CAUSE_SIGNAL:
        mst_cli_put("killed by signal %d (%s)", member->code, strsignal(member->code));
        break;
    case MUSTER_CAUSE_GONE:
        mst_cli_put("process gone, status unknown");
        break;
    case MUSTER_CAUSE_LEASE:
        mst_cli_put("silent for longer than the lease");
        break;
    case MUSTER_CAUSE_FAULT:
        mst_cli_put("reported fault %d", member->code);
        break;
    case MUSTER_CAUSE_EVICTED:
        mst_cli_put("did not come to the seal in time");
        break;
    }
}

static void put_absence(const struct muster_member *member, uint32_t index)
{
    mst_cli_put("#%u (", index);
    if (!member || member->state == MUSTER_MEMBER_ABSENT) {
        mst_cli_put("never came");
    } else if (member->state == MUSTER_MEMBER_LEFT) {
        mst_cli_put("left");
    } else {
        put_loss(member);
        mst_cli_put(", node %s", member->host);
    }
    mst_cli_put(")");
}

/* ---- as text ---- */

struct missing {
    const struct mst_items *members;
    uint32_t count;
};

static void print_one_missing(void *ctx, uint32_t index, const struct mst_item *item)
{
    struct muster_member member = {.index = index};
    struct missing *missing = ctx;

    if (mst_cli_node_took(missing->members->items, missing->members->count, index)) {
        return;
    }
    if (item) {
        member = mst_lib_member_of(item);
    }
    if (missing->count < NAMES_SHOWN) {
        mst_cli_put("%s", missing->count == 0 ? "missing: " : ", ");
        put_absence(item ? &member : NULL, index);
    }
    missing->count++;
}

/* The line that answers "who is missing", and one for each node that is lost as a whole. */
static void print_missing(const struct mst_status *status)
{
    struct missing missing = {.members = &status->members};

    mst_status_each_missing(status, print_one_missing, &missing);
    if (missing.count > NAMES_SHOWN) {
        mst_cli_put(" and %u more", missing.count - NAMES_SHOWN);
    }
    if (missing.count > 0) {
        mst_cli_put("\n");
    }
    mst_cli_nodes_print(status->members.items, status->members.count);
    mst_cli_hosts_print(status->hosts.items, status->hosts.count);
}

static void print_member(const struct muster_member *member)
{
    char place[48];
    int size = 0;

    if (member->role != MUSTER_ROLE_RANK) {
        size =
            snprintf(place, sizeof place, "%s #%u", mst_cli_role_name(member->role), member->index);
    } else if (member->rank != MUSTER_RANK_NONE) {
        size = snprintf(place, sizeof place, "rank %u (#%u)", member->rank, member->index);
    } else {
        size = snprintf(place, sizeof place, "#%u", member->index);
    }
    mst_cli_put("  %s%*s %-8s node %s, pid %llu", place, size < 14 ? 14 - size : 0, "",
                mst_cli_state_name(member->state), member->host, (unsigned long long)member->pid);
    if (member->state == MUSTER_MEMBER_SILENT) {
        mst_cli_put(", last heard %.1f s ago", (double)member->heard_ms / 1000);
    }
    if (member->state == MUSTER_MEMBER_LOST) {
        mst_cli_put(", ");
        put_loss(member);
        if (*member->text) {
            mst_cli_put(": ");
            mst_cli_print_bytes(
                (struct muster_slice){.data = member->text, .size = strlen(member->text)});
        }
    }
    if (member->losses > 0) {
        mst_cli_put(", lost %u time%s", member->losses, member->losses == 1 ? "" : "s");
        if (member->state != MUSTER_MEMBER_LOST) {
            mst_cli_put(", last ");
            put_loss(member);
        }
    }
    if (member->waits_at) {
        mst_cli_put(", waits at '%s' %llu", member->waits_at,
                    (unsigned long long)member->waits_number);
    }
    mst_cli_put("\n");
}

static void print_round(const struct mst_item *round)
{
    mst_cli_put("round '%s' %" PRIu64 ": %u of %u arrived", (const char *)round->name.data,
                round->number, round->arrived, round->expected);
    if (round->who.state != 0) {
        mst_cli_put(", first missing: rank %u (#%u, node %s)", round->who.rank, round->who.index,
                    (const char *)round->who.host.data);
    }
    mst_cli_put("\n");
}

static void print_other_jobs(const struct picture *picture)
{
    const struct mst_items *jobs = &picture->status.jobs;

    for (size_t i = 0; i < jobs->count; i++) {
        const struct mst_item *job = &jobs->items[i];
        const char *name = job->name.data;

        if (strcmp(name, picture->place.job) != 0) {
            mst_cli_put("also here: job %s, generation %" PRIu64 ", %u of %u (--addr %s -j %s)\n",
                        name, job->number, job->arrived, job->expected, picture->place.addr, name);
        }
    }
}

static void print_text(const struct picture *picture)
{
    const struct mst_items *members = &picture->status.members;
    const struct mst_items *rounds = &picture->status.rounds;
    const struct mst_item *found = mst_status_job(&picture->status);
    struct mst_item job = {.number = 0};

    if (found) {
        job = *found;
    }
    mst_cli_put("job %s: ", picture->place.job);
    if (job.number == 0) {
        mst_cli_put("no generation yet, ");
    } else {
        mst_cli_put("generation %" PRIu64 ", ", job.number);
    }
    mst_cli_put("%u of %u here\n", job.arrived, job.expected);
    print_missing(&picture->status);
    for (size_t i = 0; i < members->count; i++) {
        struct muster_member member = mst_lib_member_of(&members->items[i]);

        print_member(&member);
    }
    for (size_t i = 0; i < rounds->count; i++) {
        print_round(&rounds->items[i]);
    }
    print_other_jobs(picture);
}

/* ---- the command ---- */

static int print_json(const struct picture *picture)
{
    char *text = mst_status_json(&picture->status);

    if (!text) {
        return mst_cli_fail(picture->cli, "out of memory");
    }
    mst_cli_put("%s", text);
    free(text);
    return MST_CLI_OK;
}

static int run(struct mst_cli *cli)
{
    struct picture picture = {.cli = cli};
    int code;

    if (cli->argument_count > 0) {
        return mst_cli_usage(cli, "what is '%s'? the command takes flags only", cli->arguments[0]);
    }
    code = gather(&picture);
    if (code == MST_CLI_OK && mst_cli_number(cli, "json")) {
        code = print_json(&picture);
    } else if (code == MST_CLI_OK) {
        print_text(&picture);
    }
    release(&picture);
    return code == MST_CLI_OK ? mst_cli_finish_output(cli) : code;
}

const struct mst_cli_command mst_cli_status = {
    .name = "status",
    .arguments = "",
    .summary = "who is here, lost, waiting at which round, and who is missing",
    .example = "  muster status\n  muster status -j train --json\n",
    .finds_job = true,
    .prints_json = true,
    .run = run,
};
