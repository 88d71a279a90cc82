/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "cli/commands.h"
#include "cli/print.h"
#include "client/shell/environment.h"
#include "client/shell/internal.h"
#include "discover/shell/surroundings.h"
#include "process/probe.h"

static const char *const state_words[] = {[MST_ROW_ABSENT] = "absent",
                                          [MST_ROW_HALF] = "half set",
                                          [MST_ROW_BROKEN] = "wrong",
                                          [MST_ROW_COMPLETE] = "complete"};

static const char *const trap_words[] = {
    [MST_TRAP_NONE] = NULL,         [MST_TRAP_HALF_SET] = "half-set",
    [MST_TRAP_VALUE] = "value",     [MST_TRAP_CONTRADICTION] = "contradiction",
    [MST_TRAP_NO_SIZE] = "no-size", [MST_TRAP_BATCH] = "batch"};

/* A process without a launcher is a job of its own. With an address it takes its place from the job
 * there, and only the starting program knows the size. */
static void place_by_job(struct mst_discovery *found)
{
    int64_t size = 0;

    if (found->launcher != MST_LAUNCHER_NONE || found->trap != MST_TRAP_NONE ||
        !mst_lib_setting_text("addr")) {
        return;
    }
    found->place.rank = found->place.size = MST_PLACE_UNKNOWN;
    found->place.local_rank = found->place.local_size = MST_PLACE_UNKNOWN;
    found->place.node_rank = found->place.node_count = MST_PLACE_UNKNOWN;
    if (mst_lib_setting("size", &size, NULL, NULL) == MUSTER_OK && size > 0) {
        found->place.size = (uint32_t)size;
    }
    (void)snprintf(found->why, sizeof(found->why),
                   "no variable of any launcher is set: the job at MUSTER_ADDR gives it a place%s",
                   size > 0 ? "" : "; set MUSTER_SIZE, or no rank can be the first there");
}

/* ---- for people ---- */

static void put_number(const char *before, uint32_t number, uint32_t total)
{
    if (number != MST_PLACE_UNKNOWN) {
        mst_cli_put("%s %u", before, (unsigned)number);
    } else {
        mst_cli_put("%s unknown", before);
    }
    if (total != MST_PLACE_UNKNOWN) {
        mst_cli_put(" of %u", (unsigned)total);
    }
}

static void put_place(const struct mst_discovery *found)
{
    const struct mst_discovered *place = &found->place;

    mst_cli_say("launcher   %s\nwhy        %.*s\n", mst_launcher_name(found->launcher),
                MST_TEXT_ARGS(found->why));
    if (found->trap != MST_TRAP_NONE) {
        return;
    }
    put_number("place      rank", place->rank, place->size);
    put_number(", local rank", place->local_rank, place->local_size);
    put_number(", node", place->node_rank, place->node_count);
    mst_cli_say("\njob        %.*s\n",
                MST_TEXT_ARGS(place->job[0] != '\0' ? place->job : "not named"));
    if (place->host[0] != '\0') {
        mst_cli_say("rank 0 on  %.*s\n", MST_TEXT_ARGS(place->host));
    }
}

static void put_kernel(const struct mst_probe *probe)
{
    mst_cli_put("kernel     futex_waitv %s, pidfd %s, robust notice %s",
                probe->waitv ? "yes" : "no", probe->pidfd ? "yes" : "no",
                probe->notice ? "yes" : "no");
    if (probe->notice) {
        mst_cli_put(" (%.2f ms)", (double)probe->notice_ns / 1e6);
    }
    mst_cli_put(", short slice %s\n", probe->short_slice ? "yes" : "no");
}

static void put_rows(const struct mst_discovery *found)
{
    mst_cli_put("looked for, in this order:\n");
    for (int i = 0; i < MST_LAUNCHER_NONE; i++) {
        enum mst_launcher launcher = (enum mst_launcher)i;
        bool won = found->trap == MST_TRAP_NONE && launcher == found->launcher;

        mst_cli_put("  %-24s %-9s ", mst_launcher_name(launcher),
                    won ? "taken" : state_words[found->rows[i].state]);
        mst_cli_say("%.*s\n", MST_TEXT_ARGS(found->rows[i].why));
    }
}

/* ---- for programs ---- */

static json_t *number_json(uint32_t number)
{
    return number == MST_PLACE_UNKNOWN ? json_null() : json_integer(number);
}

static json_t *text_json(const char *text)
{
    return text && *text ? mst_cli_json_text(text) : json_null();
}

static json_t *place_json(const struct mst_discovered *place)
{
    return mst_cli_json_object(
        (struct mst_cli_field[]){{"rank", number_json(place->rank)},
                                 {"size", number_json(place->size)},
                                 {"local_rank", number_json(place->local_rank)},
                                 {"local_size", number_json(place->local_size)},
                                 {"node_rank", number_json(place->node_rank)},
                                 {"node_count", number_json(place->node_count)},
                                 {"job", text_json(place->job)},
                                 {"host", text_json(place->host)},
                                 {NULL, NULL}});
}

static json_t *rows_json(const struct mst_discovery *found)
{
    json_t *array = mst_cli_json_check(json_array());

    for (int i = 0; i < MST_LAUNCHER_NONE; i++) {
        mst_cli_json_append(array,
                            mst_cli_json_object((struct mst_cli_field[]){
                                {"launcher", json_string(mst_launcher_word((enum mst_launcher)i))},
                                {"state", json_string(state_words[found->rows[i].state])},
                                {"why", json_string(found->rows[i].why)},
                                {NULL, NULL}}));
    }
    return array;
}

static json_t *kernel_json(const struct mst_probe *probe)
{
    json_t *notice_us =
        probe->notice ? json_integer((json_int_t)(probe->notice_ns / 1000)) : json_null();

    return mst_cli_json_object(
        (struct mst_cli_field[]){{"futex_waitv", json_boolean(probe->waitv)},
                                 {"pidfd", json_boolean(probe->pidfd)},
                                 {"robust_notice", json_boolean(probe->notice)},
                                 {"robust_notice_us", notice_us},
                                 {"short_slice", json_boolean(probe->short_slice)},
                                 {NULL, NULL}});
}

static void print_json(const struct mst_discovery *found, const struct mst_probe *probe,
                       const char *dir)
{
    bool placed = found->trap == MST_TRAP_NONE;

    mst_cli_json_print(mst_cli_json_object(
        (struct mst_cli_field[]){{"launcher", json_string(mst_launcher_word(found->launcher))},
                                 {"trap", text_json(trap_words[found->trap])},
                                 {"why", json_string(found->why)},
                                 {"place", placed ? place_json(&found->place) : json_null()},
                                 {"addr", text_json(getenv("MUSTER_ADDR"))},
                                 {"runtime_dir", text_json(dir)},
                                 {"kernel", kernel_json(probe)},
                                 {"rows", rows_json(found)},
                                 {NULL, NULL}}));
}

static void print_text(const struct mst_cli *cli, const struct mst_discovery *found,
                       const struct mst_probe *probe, const char *dir)
{
    const char *addr = getenv("MUSTER_ADDR");

    put_place(found);
    mst_cli_put("service    %s\n", addr && *addr ? addr : "MUSTER_ADDR is not set");
    mst_cli_put("sockets    %s\n", *dir ? dir : "nowhere: see the error");
    put_kernel(probe);
    if (mst_cli_number(cli, "verbose") != 0) {
        put_rows(found);
    }
}

static int run(struct mst_cli *cli)
{
    char dir[MST_SOCKET_PATH_MAX] = "";
    struct mst_discovery found;
    struct muster_error err;
    struct mst_probe probe;
    muster_status status;
    int code;

    (void)mst_surroundings_discover(&found, mst_cli_number(cli, "agent") != 0 ? MST_ASKER_AGENT
                                                                              : MST_ASKER_RANK);
    if (mst_cli_number(cli, "agent") == 0) {
        place_by_job(&found);
    }
    mst_probe(&probe);
    status = mst_socket_dir(dir, true, &err);
    if (status != MUSTER_OK) {
        dir[0] = '\0';
    }
    if (mst_cli_number(cli, "json") != 0) {
        print_json(&found, &probe, dir);
    } else {
        print_text(cli, &found, &probe, dir);
    }
    code = mst_cli_finish_output(cli);
    if (code == MST_CLI_OK && status != MUSTER_OK) {
        code = mst_cli_fail_with(cli, &err);
    }
    if (code == MST_CLI_OK && found.trap != MST_TRAP_NONE) {
        code = mst_cli_fail(cli, "%s", found.why);
    }
    return code;
}

const struct mst_cli_command mst_cli_env = {
    .name = "env",
    .arguments = "",
    .summary = "print the rank of a program started here, and the launcher it comes from",
    .details = "Reads the variables of srun, mpirun, torchrun and others, as the library does when "
               "no place is set, and tests the features of the kernel. Exit 1 when the variables "
               "contradict each other.\n",
    .example = "  srun -N2 muster env -v\n",
    .run = run,
};
