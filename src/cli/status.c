/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/nodes.h"
#include "cli/print.h"
#include "lib/internal.h"
#include "lib/items.h"

#define ANSWER_MS 10000
#define NAMES_SHOWN 8u

/* A job of the service, as it is listed. */
struct job_line {
    char *name;
    uint64_t generation;
    uint32_t present, size;
};

struct picture {
    const struct mst_cli *cli;
    struct mst_cli_place place;
    muster_client *client;
    muster_members *members;
    muster_rounds *rounds;
    struct mst_lib_items places, hosts; /* as they are listed */
    struct job_line *jobs;
    size_t job_count;
    bool out_of_memory;
    uint64_t next;
    struct job_line job; /* the one that is looked at; its name is borrowed */
};

/* ---- gathering ---- */

static void on_jobs(void *ctx, const struct mst_reply *reply)
{
    struct picture *picture = ctx;
    struct job_line *larger =
        realloc(picture->jobs, (picture->job_count + reply->item_count + 1) * sizeof *larger);

    picture->next = reply->status == MUSTER_OK ? reply->next : 0;
    if (!larger) {
        picture->out_of_memory = true;
        return;
    }
    picture->jobs = larger;
    for (uint32_t i = 0; i < reply->item_count; i++) {
        const struct mst_item *item = &reply->items[i];
        struct job_line *line = &picture->jobs[picture->job_count];

        *line = (struct job_line){.name = strndup(item->name.data, item->name.size),
                                  .generation = item->number,
                                  .present = item->arrived,
                                  .size = item->expected};
        if (!line->name) {
            picture->out_of_memory = true;
            return;
        }
        picture->job_count++;
    }
}

static muster_status gather_jobs(struct picture *picture, struct muster_error *err)
{
    muster_status status = MUSTER_OK;

    do {
        struct mst_request request = {.command = MST_JOBS, .page = {.after = picture->next}};

        status = mst_lib_call(picture->client, &request, ANSWER_MS, on_jobs, picture, err,
                              "list the jobs");
    } while (status == MUSTER_OK && !picture->out_of_memory && picture->next != 0);
    for (size_t i = 0; i < picture->job_count; i++) {
        if (strcmp(picture->jobs[i].name, picture->place.job) == 0) {
            picture->job = picture->jobs[i];
        }
    }
    return status;
}

static muster_status collect(struct picture *picture, enum mst_command command,
                             struct mst_lib_items *items, const char *what,
                             struct muster_error *err)
{
    struct mst_request request = {.command = command};

    return mst_lib_items_collect(picture->client, &request, ANSWER_MS, items, err, what);
}

static int gather(struct picture *picture)
{
    struct muster_error err;
    int code = mst_cli_observe(picture->cli, &picture->client, &picture->place);

    if (code != MST_CLI_OK) {
        return code;
    }
    picture->job.name = picture->place.job;
    if (gather_jobs(picture, &err) != MUSTER_OK ||
        muster_member_list(picture->client, ANSWER_MS, &picture->members, &err) != MUSTER_OK ||
        muster_round_list(picture->client, ANSWER_MS, &picture->rounds, &err) != MUSTER_OK ||
        collect(picture, MST_MEMBERS, &picture->places, "list the members", &err) != MUSTER_OK ||
        collect(picture, MST_HOSTS, &picture->hosts, "list the hosts", &err) != MUSTER_OK) {
        return mst_cli_fail_with(picture->cli, &err);
    }
    return picture->out_of_memory ? mst_cli_fail(picture->cli, "out of memory") : MST_CLI_OK;
}

static void release(struct picture *picture)
{
    mst_lib_items_fini(&picture->hosts);
    mst_lib_items_fini(&picture->places);
    muster_rounds_free(picture->rounds);
    muster_members_free(picture->members);
    for (size_t i = 0; i < picture->job_count; i++) {
        free(picture->jobs[i].name);
    }
    free(picture->jobs);
    muster_client_close(picture->client);
}

/* ---- who is missing ---- */

static bool is_here(const struct muster_member *member)
{
    switch (member->state) {
    case MUSTER_MEMBER_JOINING:
    case MUSTER_MEMBER_PRESENT:
    case MUSTER_MEMBER_SILENT:
        return true;
    case MUSTER_MEMBER_LOST:
    case MUSTER_MEMBER_LEFT:
    case MUSTER_MEMBER_ABSENT:
        break;
    }
    return false;
}

typedef void missing_fn(void *ctx, uint32_t index, const struct muster_member *member);

/* A place is missing when it belongs to the job's size, or was taken once, and nobody is there.
 * `member` is NULL for a place that was never taken. Ranks are listed by index. */
static void each_missing(const struct picture *picture, missing_fn *fn, void *ctx)
{
    size_t count = muster_members_count(picture->members);
    uint32_t next = 0;

    for (size_t i = 0; i < count; i++) {
        const struct muster_member *member = muster_members_get(picture->members, i);

        if (member->role != MUSTER_ROLE_RANK) {
            continue;
        }
        for (; next < member->index && next < picture->job.size; next++) {
            fn(ctx, next, NULL);
        }
        if (!is_here(member)) {
            fn(ctx, member->index, member);
        }
        next = member->index + 1;
    }
    for (; next < picture->job.size; next++) {
        fn(ctx, next, NULL);
    }
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
    const struct picture *picture;
    uint32_t count;
};

static void print_one_missing(void *ctx, uint32_t index, const struct muster_member *member)
{
    struct missing *missing = ctx;
    const struct mst_lib_items *places = &missing->picture->places;

    if (mst_cli_node_took(places->items, places->count, index)) {
        return;
    }
    if (missing->count < NAMES_SHOWN) {
        mst_cli_put("%s", missing->count == 0 ? "missing: " : ", ");
        put_absence(member, index);
    }
    missing->count++;
}

/* The line that answers "who is missing", and one for each node that is lost as a whole. */
static void print_missing(const struct picture *picture)
{
    struct missing missing = {.picture = picture};

    each_missing(picture, print_one_missing, &missing);
    if (missing.count > NAMES_SHOWN) {
        mst_cli_put(" and %u more", missing.count - NAMES_SHOWN);
    }
    if (missing.count > 0) {
        mst_cli_put("\n");
    }
    mst_cli_nodes_print(picture->places.items, picture->places.count);
    mst_cli_hosts_print(picture->hosts.items, picture->hosts.count);
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

static void print_round(const struct muster_round_info *round)
{
    mst_cli_put("round '%s' %llu: %u of %u arrived", round->name, (unsigned long long)round->number,
                round->arrived, round->expected);
    if (round->has_missing) {
        mst_cli_put(", first missing: rank %u (#%u, node %s)", round->missing.rank,
                    round->missing.index, round->missing.host);
    }
    mst_cli_put("\n");
}

static void print_text(const struct picture *picture)
{
    size_t members = muster_members_count(picture->members);
    size_t rounds = muster_rounds_count(picture->rounds);

    mst_cli_put("job %s: ", picture->job.name);
    if (picture->job.generation == 0) {
        mst_cli_put("no generation yet, ");
    } else {
        mst_cli_put("generation %llu, ", (unsigned long long)picture->job.generation);
    }
    mst_cli_put("%u of %u here\n", picture->job.present, picture->job.size);
    print_missing(picture);
    for (size_t i = 0; i < members; i++) {
        print_member(muster_members_get(picture->members, i));
    }
    for (size_t i = 0; i < rounds; i++) {
        print_round(muster_rounds_get(picture->rounds, i));
    }
    for (size_t i = 0; i < picture->job_count; i++) {
        const struct job_line *job = &picture->jobs[i];

        if (strcmp(job->name, picture->job.name) != 0) {
            mst_cli_put("also here: job %s, generation %llu, %u of %u (--addr %s -j %s)\n",
                        job->name, (unsigned long long)job->generation, job->present, job->size,
                        picture->place.addr, job->name);
        }
    }
}

/* ---- as JSON ---- */

static json_t *member_json(const struct muster_member *member)
{
    json_t *object = mst_cli_json_check(json_object());

    mst_cli_json_put(object, "role", json_string(mst_cli_role_name(member->role)));
    mst_cli_json_put(object, "index", json_integer(member->index));
    mst_cli_json_put(object, "rank",
                     member->rank == MUSTER_RANK_NONE ? json_null() : json_integer(member->rank));
    mst_cli_json_put(object, "incarnation", json_integer((json_int_t)member->incarnation));
    mst_cli_json_put(object, "state", json_string(mst_cli_state_name(member->state)));
    mst_cli_json_put(object, "cause", json_string(mst_cli_cause_name(member->cause)));
    mst_cli_json_put(object, "code", json_integer(member->code));
    mst_cli_json_put(object, "losses", json_integer(member->losses));
    mst_cli_json_put(object, "heard_ms", json_integer((json_int_t)member->heard_ms));
    mst_cli_json_put(object, "pid", json_integer((json_int_t)member->pid));
    mst_cli_json_put(object, "host", json_string(member->host));
    mst_cli_json_put(object, "node", member->node < 0 ? json_null() : json_integer(member->node));
    mst_cli_json_put(object, "text", json_string(member->text));
    mst_cli_json_put(object, "waits_at",
                     member->waits_at ? json_string(member->waits_at) : json_null());
    mst_cli_json_put(object, "waits_number", json_integer((json_int_t)member->waits_number));
    return object;
}

static json_t *round_json(const struct muster_round_info *round)
{
    json_t *object = mst_cli_json_check(json_object());

    mst_cli_json_put(object, "name", json_string(round->name));
    mst_cli_json_put(object, "number", json_integer((json_int_t)round->number));
    mst_cli_json_put(object, "arrived", json_integer(round->arrived));
    mst_cli_json_put(object, "expected", json_integer(round->expected));
    mst_cli_json_put(object, "first_missing",
                     round->has_missing ? json_integer(round->missing.index) : json_null());
    return object;
}

static json_t *job_json(const struct job_line *job)
{
    json_t *object = mst_cli_json_check(json_object());

    mst_cli_json_put(object, "job", json_string(job->name));
    mst_cli_json_put(object, "generation", json_integer((json_int_t)job->generation));
    mst_cli_json_put(object, "present", json_integer(job->present));
    mst_cli_json_put(object, "size", json_integer(job->size));
    return object;
}

static void add_missing(void *ctx, uint32_t index, const struct muster_member *member)
{
    (void)member;
    (void)json_array_append_new(ctx, mst_cli_json_check(json_integer(index)));
}

static json_t *missing_json(const struct picture *picture)
{
    json_t *list = mst_cli_json_check(json_array());

    each_missing(picture, add_missing, list);
    return list;
}

static void print_json(const struct picture *picture)
{
    json_t *object = job_json(&picture->job);
    json_t *members = mst_cli_json_check(json_array());
    json_t *rounds = mst_cli_json_check(json_array());
    json_t *jobs = mst_cli_json_check(json_array());

    for (size_t i = 0; i < muster_members_count(picture->members); i++) {
        (void)json_array_append_new(members, member_json(muster_members_get(picture->members, i)));
    }
    for (size_t i = 0; i < muster_rounds_count(picture->rounds); i++) {
        (void)json_array_append_new(rounds, round_json(muster_rounds_get(picture->rounds, i)));
    }
    for (size_t i = 0; i < picture->job_count; i++) {
        (void)json_array_append_new(jobs, job_json(&picture->jobs[i]));
    }
    mst_cli_json_put(object, "address", json_string(picture->place.addr));
    mst_cli_json_put(object, "missing", missing_json(picture));
    mst_cli_json_put(object, "members", members);
    mst_cli_json_put(object, "rounds", rounds);
    mst_cli_json_put(object, "hosts",
                     mst_cli_hosts_json(picture->hosts.items, picture->hosts.count));
    mst_cli_json_put(object, "jobs", jobs);
    mst_cli_json_print(object);
}

/* ---- the command ---- */

static int run(struct mst_cli *cli)
{
    struct picture picture = {.cli = cli};
    int code;

    if (cli->argument_count > 0) {
        return mst_cli_usage(cli, "what is '%s'? the command takes flags only", cli->arguments[0]);
    }
    code = gather(&picture);
    if (code == MST_CLI_OK && mst_cli_number(cli, "json")) {
        print_json(&picture);
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
