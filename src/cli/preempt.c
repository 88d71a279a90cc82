/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "launch/publishing.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/print.h"
#include "client/shell/items.h"

/* A notice by hand: the same key, by the same publisher, as that of any source. */

#define ANSWER_MS 10000
#define NAMES_SHOWN 16u
#define SOURCE "hand"

struct order {
    const struct mst_cli *cli;
    struct mst_cli_place place;
    muster_client *client;
    uint32_t index;
    bool unheard; /* no rank has opened preempt */
    struct mst_publish_config config;
};

/* ---- the command line ---- */

static int read_index(struct order *order)
{
    const char *text = order->cli->arguments[0];
    char *end = NULL;
    unsigned long value;

    order->index = MST_NOTICE_ALL;
    if (order->cli->argument_count == 0) {
        return MST_CLI_OK;
    }
    value = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || value > 1000000) {
        return mst_cli_usage(order->cli, "'%s' is no index; `muster status` shows them as #N",
                             text);
    }
    order->index = (uint32_t)value;
    return MST_CLI_OK;
}

static int read_order(struct order *order)
{
    const struct mst_cli *cli = order->cli;
    struct mst_notice *notice = &order->config.notice;
    const char *reason = mst_cli_text(cli, "reason");
    bool known = mst_cli_given(cli, "in");
    int64_t left_ms = mst_cli_number(cli, "in");
    struct muster_error err;

    order->config.withdraw = mst_cli_number(cli, "withdraw") != 0;
    if (cli->argument_count > 1) {
        return mst_cli_usage(cli, "unexpected argument '%s': one INDEX, or none for the whole job",
                             cli->arguments[1]);
    }
    if (order->config.withdraw &&
        (known || mst_cli_given(cli, "reason") || mst_cli_given(cli, "advisory"))) {
        return mst_cli_usage(
            cli, "--withdraw takes the notice back as it is: no --in, --reason, --advisory");
    }
    if (!known && mst_lib_setting("preempt_grace", &left_ms, NULL, &err) != MUSTER_OK) {
        return mst_cli_fail_with(cli, &err);
    }
    if (!order->config.withdraw) {
        notice->assumed = !known;
        notice->left_ms = (uint64_t)left_ms;
        notice->level =
            mst_cli_number(cli, "advisory") != 0 ? MST_NOTICE_ADVISORY : MST_NOTICE_CERTAIN;
        (void)snprintf(notice->source, sizeof notice->source, SOURCE);
        (void)snprintf(notice->reason, sizeof notice->reason, "%s",
                       reason != NULL && *reason != '\0' ? reason : "muster preempt");
    }
    return read_index(order);
}

/* ---- whether there is such a place ---- */

struct places {
    uint32_t wanted, count;
    bool found;
    char names[256];
    char *host; /* of the wanted rank */
};

static void look_at(struct places *places, const struct mst_item *item)
{
    const struct mst_who *who = &item->who;
    size_t used = strlen(places->names);

    if (item->kind != MST_ITEM_MEMBER || who->role != MST_ROLE_RANK ||
        who->state == MST_STATE_LOST || who->state == MST_LEFT) {
        return;
    }
    if (who->index == places->wanted) {
        places->found = true;
        (void)snprintf(places->host, MST_NOTICE_HOST_ROOM, "%.*s", (int)who->host.size,
                       who->host.size > 0 ? (const char *)who->host.data : "");
    }
    if (places->count++ < NAMES_SHOWN) {
        (void)snprintf(places->names + used, sizeof places->names - used, "%s%u",
                       used > 0 ? ", " : "", (unsigned)who->index);
    }
}

static muster_status collect(const struct order *order, enum mst_command command,
                             struct mst_items *items, const char *what, struct muster_error *err)
{
    struct mst_request request = {.command = command};

    return mst_lib_items_collect(order->client, &request, ANSWER_MS, items, err, what);
}

/* A notice is a key, and a key creates the job that it names. A job without members is a typing
 * error. */
static int refuse_job(const struct order *order, const struct mst_items *jobs)
{
    char names[512] = "";
    size_t used = 0;

    for (size_t i = 0; i < jobs->count && used < sizeof names; i++) {
        if (!mst_slice_equal(jobs->items[i].name, mst_slice_text(order->place.job))) {
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s",
                                     used > 0 ? ", " : "", (const char *)jobs->items[i].name.data);
        }
    }
    return mst_cli_fail(order->cli, "job '%s' has no members (-j selects another; jobs at %s: %s)",
                        order->place.job, order->place.addr, used > 0 ? names : "none");
}

/* The notice is about where it is. */
static int check_members(struct order *order, const struct mst_items *members,
                         const struct mst_items *jobs)
{
    struct places places = {.wanted = order->index, .host = order->config.notice.host};

    for (size_t i = 0; i < members->count; i++) {
        look_at(&places, &members->items[i]);
    }
    if (members->count == 0) {
        return refuse_job(order, jobs);
    }
    if (order->index == MST_NOTICE_ALL || places.found) {
        return MST_CLI_OK;
    }
    return mst_cli_fail(order->cli, "no rank of job '%s' has index %u; its indices: %s%s",
                        order->place.job, (unsigned)order->index,
                        places.count > 0 ? places.names : "none",
                        places.count > NAMES_SHOWN ? " and more" : "");
}

/* Before the notice is written: ranks that handle a change of the keys do not listen for a moment.
 */
static void look_who_listens(struct order *order, const struct mst_items *jobs)
{
    for (size_t i = 0; i < jobs->count; i++) {
        if (mst_slice_equal(jobs->items[i].name, mst_slice_text(order->place.job))) {
            order->unheard = jobs->items[i].listening == 1;
        }
    }
}

static int check_job(struct order *order)
{
    struct mst_items members = {.count = 0}, jobs = {.count = 0};
    struct muster_error err;
    int code;

    if (order->config.withdraw) {
        return MST_CLI_OK;
    }
    if (collect(order, MST_JOBS, &jobs, "list the jobs", &err) != MUSTER_OK ||
        collect(order, MST_MEMBERS, &members, "list the members", &err) != MUSTER_OK) {
        code = mst_cli_fail_with(order->cli, &err);
    } else {
        code = check_members(order, &members, &jobs);
        look_who_listens(order, &jobs);
    }
    mst_items_fini(&members);
    mst_items_fini(&jobs);
    return code;
}

/* ---- the command ---- */

static void print_json(const struct order *order, bool written)
{
    json_t *object = mst_cli_json_check(json_object());
    const struct mst_notice *notice = &order->config.notice;
    bool all = order->index == MST_NOTICE_ALL;

    mst_cli_json_put(object, "job", mst_cli_json_text(order->place.job));
    mst_cli_json_put(object, "index", all ? json_null() : json_integer(order->index));
    mst_cli_json_put(object, order->config.withdraw ? "withdrawn" : "given", json_boolean(written));
    if (!order->config.withdraw) {
        mst_cli_json_put(object, "in_ms", json_integer((json_int_t)notice->left_ms));
        mst_cli_json_put(object, "heard", json_boolean(!order->unheard));
        mst_cli_json_put(object, "assumed", json_boolean(notice->assumed));
        mst_cli_json_put(object, "reason", mst_cli_json_text(notice->reason));
    }
    mst_cli_json_print(object);
}

static void print_text(const struct order *order, bool written)
{
    const struct mst_notice *notice = &order->config.notice;
    char index[24] = "", name[MST_SOCKET_PATH_MAX + 32];

    if (order->index != MST_NOTICE_ALL) {
        (void)snprintf(index, sizeof index, "#%u of ", (unsigned)order->index);
    }
    (void)snprintf(name, sizeof name, "%sjob '%s'", index, order->place.job);
    if (order->config.withdraw) {
        mst_cli_say(written ? "the notice for %.*s is taken back\n"
                            : "there is no notice for %.*s\n",
                    MST_TEXT_ARGS(name));
        return;
    }
    if (!written) {
        mst_cli_say("%.*s has a notice already that is not later; nothing is changed\n",
                    MST_TEXT_ARGS(name));
    } else {
        mst_cli_say("%.*s is told: ", MST_TEXT_ARGS(name));
        mst_cli_put("it ends in %.1f s%s\n", (double)notice->left_ms / 1000,
                    notice->assumed ? ", as is assumed" : "");
    }
}

static int publish(struct order *order)
{
    struct mst_publishing publishing = {.ended = NULL};
    struct muster_error err;
    muster_status status;

    order->config.indices = &order->index;
    order->config.count = 1;
    status = mst_publishing_begin(&publishing, order->client, mst_lib_now_ns(), &order->config);
    if (status != MUSTER_OK) {
        return mst_cli_fail(order->cli, "out of memory");
    }
    status = mst_publishing_wait(&publishing, ANSWER_MS, &err);
    mst_publishing_drop(&publishing);
    if (status != MUSTER_OK) {
        return mst_cli_fail_with(order->cli, &err);
    }
    if (order->unheard) {
        mst_cli_tell("muster preempt: warning: " MST_LIB_UNHEARD,
                     mst_lib_publish_job(order->client));
    }
    if (mst_cli_number(order->cli, "json") != 0) {
        print_json(order, publishing.publish.written > 0);
    } else {
        print_text(order, publishing.publish.written > 0);
    }
    return mst_cli_finish_output(order->cli);
}

static int run(struct mst_cli *cli)
{
    struct order order = {.cli = cli};
    int code = read_order(&order);

    if (code == MST_CLI_OK) {
        code = mst_cli_observe(cli, &order.client, &order.place);
    }
    if (code == MST_CLI_OK) {
        code = check_job(&order);
    }
    if (code == MST_CLI_OK) {
        code = publish(&order);
    }
    muster_client_close(order.client);
    return code;
}

const struct mst_cli_command mst_cli_preempt = {
    .name = "preempt",
    .arguments = "[INDEX]",
    .summary = "give a preemption notice: a rank, or the whole job, is about to end",
    .details = "All ranks of the job agree on one step, save it, and exit with status 75; with "
               "MUSTER_PREEMPT_LEAVE=noticed only the noticed ranks end. INDEX is the number after "
               "# in `muster status`; without it the notice is for the whole job. An existing "
               "notice that is not later stays as it is. --withdraw withdraws it: if the agreed "
               "step is not saved yet, the job continues. A job without members is refused. If no "
               "rank has opened preempt, the notice is given with a warning.\n",
    .example = "  muster preempt -j train 3 --in 60s --reason 'maintenance of b3'\n"
               "  muster preempt -j train --in 10m\n"
               "  muster preempt -j train 3 --withdraw\n",
    .finds_job = true,
    .run = run,
};
