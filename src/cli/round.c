/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/round.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/meet.h"
#include "cli/print.h"

/* A barrier with data: each participant contributes a value, and all receive the same result. */

static const enum muster_reduce reductions[] = {MUSTER_REDUCE_GATHER, MUSTER_REDUCE_MIN,
                                                MUSTER_REDUCE_MAX, MUSTER_REDUCE_SUM,
                                                MUSTER_REDUCE_EQUAL};
static const char *const reduction_words[] = {"gather", "min", "max", "sum", "equal"};

static enum muster_reduce reduction(const struct mst_cli *cli)
{
    return reductions[mst_cli_number(cli, "reduce")];
}

static bool is_number(enum muster_reduce reduce)
{
    return reduce == MUSTER_REDUCE_MIN || reduce == MUSTER_REDUCE_MAX ||
           reduce == MUSTER_REDUCE_SUM;
}

/* ---- what goes in ---- */

/* A whole number of 64 bits, as bytes of a vector of one. */
static bool to_number(const char *text, unsigned char *bytes)
{
    const char *at = text + (*text == '-' || *text == '+');
    bool negative = *text == '-';
    uint64_t value = 0, most = negative ? (uint64_t)INT64_MAX + 1 : INT64_MAX;

    if (*at == '\0' || at[strspn(at, "0123456789")] != '\0') {
        return false;
    }
    for (; *at; at++) {
        uint64_t digit = (uint64_t)(*at - '0');

        if (value > (most - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    value = negative ? 0 - value : value;
    for (size_t i = 0; i < sizeof value; i++) {
        bytes[i] = (unsigned char)(value >> (8 * i));
    }
    return true;
}

/* ---- what comes out ---- */

static uint32_t part_rank(const muster_round_result *result, size_t i)
{
    uint32_t rank = 0;

    (void)muster_round_part(result, i, &rank); /* places 0 to n - 1: the ranks are the same */
    return rank;
}

static void print_text(const muster_round_result *result, enum muster_reduce reduce)
{
    if (is_number(reduce)) {
        mst_cli_put("%" PRId64 "\n", muster_round_int64(result, 0));
    } else if (reduce == MUSTER_REDUCE_EQUAL) {
        mst_cli_print_bytes(muster_round_value(result));
        mst_cli_put("\n");
    }
    for (size_t i = 0; i < muster_round_part_count(result); i++) {
        mst_cli_put("%" PRIu32 " ", part_rank(result, i));
        mst_cli_print_bytes(muster_round_part(result, i, NULL));
        mst_cli_put("\n");
    }
}

static json_t *parts_as_json(const muster_round_result *result)
{
    json_t *values = mst_cli_json_check(json_array());

    for (size_t i = 0; i < muster_round_part_count(result); i++) {
        struct muster_slice value = muster_round_part(result, i, NULL);

        mst_cli_json_append(values, mst_cli_json_object((struct mst_cli_field[]){
                                        {"rank", json_integer(part_rank(result, i))},
                                        {"value", mst_cli_json_bytes(value)},
                                        {NULL, NULL}}));
    }
    return values;
}

static void print_json(const struct mst_cli *cli, const struct mst_meeting *meeting,
                       const muster_round_result *result)
{
    enum muster_reduce reduce = reduction(cli);
    bool gathers = reduce == MUSTER_REDUCE_GATHER;
    struct muster_round_count count;
    json_t *value = gathers             ? parts_as_json(result)
                    : is_number(reduce) ? json_integer(muster_round_int64(result, 0))
                                        : mst_cli_json_bytes(muster_round_value(result));

    muster_round_count(result, &count);
    mst_cli_json_print(mst_cli_json_object((struct mst_cli_field[]){
        {"round", mst_cli_json_text(meeting->name)},
        {"rank", json_integer(meeting->view.rank)},
        {"size", json_integer(meeting->view.size)},
        {"lost", json_integer(count.lost)},
        {"reduce", json_string(reduction_words[mst_cli_number(cli, "reduce")])},
        {gathers ? "values" : "value", value},
        {NULL, NULL}}));
}

/* ---- the command ---- */

static int take_part(const struct mst_cli *cli, const struct mst_meeting *meeting,
                     struct muster_slice mine)
{
    struct muster_round_options options = MUSTER_ROUND_OPTIONS_INIT;
    muster_round_result *result = NULL;
    struct muster_error err;

    options.reduce = reduction(cli);
    options.on_loss = mst_cli_number(cli, "on_loss") ? MUSTER_ON_LOSS_PROCEED : MUSTER_ON_LOSS_FAIL;
    if (muster_round_join(meeting->client, meeting->name, &options, mine, mst_cli_left_ms(cli, -1),
                          &result, &err) != MUSTER_OK) {
        muster_round_free(result);
        return mst_cli_fail_with(cli, &err);
    }
    if (mst_cli_number(cli, "json")) {
        print_json(cli, meeting, result);
    } else {
        print_text(result, options.reduce);
    }
    muster_round_free(result);
    return MST_CLI_OK;
}

static int run(struct mst_cli *cli)
{
    struct mst_meeting meeting;
    unsigned char number[8];
    struct muster_slice mine = {0};
    int64_t index;
    int code;

    if (cli->argument_count != 1 || !mst_cli_given(cli, "number")) {
        return mst_cli_usage(cli, "usage: muster round NAME -n NUMBER [--reduce "
                                  "gather|min|max|sum|equal] [--value VALUE]");
    }
    mine.data = mst_cli_text(cli, "value");
    mine.size = strlen(mine.data);
    if (is_number(reduction(cli))) {
        if (!to_number(mine.data, number)) {
            return mst_cli_usage(cli, "--reduce %s takes a whole number of 64 bits, not '%s'",
                                 reduction_words[mst_cli_number(cli, "reduce")],
                                 (const char *)mine.data);
        }
        mine = (struct muster_slice){.data = number, .size = sizeof number};
    }
    index = mst_cli_number(cli, "index");
    if (index >= mst_cli_number(cli, "number")) {
        return mst_cli_usage(cli, "--index %" PRId64 " is none of the places 0 to %" PRId64, index,
                             mst_cli_number(cli, "number") - 1);
    }
    code = mst_cli_meet(cli, "round", index < 0 ? MUSTER_INDEX_ANY : index, &meeting);
    if (code != MST_CLI_OK) {
        return code;
    }
    code = take_part(cli, &meeting, mine);
    muster_client_close(meeting.client);
    return code == MST_CLI_OK ? mst_cli_finish_output(cli) : code;
}

const struct mst_cli_command mst_cli_round = {
    .name = "round",
    .arguments = "NAME -n NUMBER",
    .summary = "exchange values with a number of processes, from anywhere, under NAME",
    .details =
        "All participants receive the same result: the minimum, the maximum or the sum of the "
        "numbers, the text that all have in common, or with gather a line 'rank value' for each.",
    .example = "  muster round free-port -n 4 --value \"$(hostname):29500\"\n"
               "  muster round step -n 4 --reduce max --value 1200 --timeout 30s\n",
    .finds_job = true,
    .run = run,
};
