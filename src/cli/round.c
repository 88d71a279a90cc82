/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/round.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/meet.h"
#include "cli/print.h"

/* A barrier with data: each participant contributes a value, and all receive the same result. */

enum kind { BYTES, INTEGER, DOUBLE };

/* In the order of the flag's words. */
static const struct reduction {
    enum muster_reduce reduce;
    enum kind kind;
    const char *word;
} reductions[] = {
    {MUSTER_REDUCE_GATHER, BYTES, "gather"},
    {MUSTER_REDUCE_MIN, INTEGER, "min"},
    {MUSTER_REDUCE_MAX, INTEGER, "max"},
    {MUSTER_REDUCE_SUM, INTEGER, "sum"},
    {MUSTER_REDUCE_EQUAL, BYTES, "equal"},
    {MUSTER_REDUCE_XOR, INTEGER, "xor"},
    {MUSTER_REDUCE_SUM_DOUBLE, DOUBLE, "sum-double"},
    {MUSTER_REDUCE_MIN_DOUBLE, DOUBLE, "min-double"},
    {MUSTER_REDUCE_MAX_DOUBLE, DOUBLE, "max-double"},
    {MUSTER_REDUCE_BROADCAST, BYTES, "broadcast"},
};

static const struct reduction *reduction(const struct mst_cli *cli)
{
    return &reductions[mst_cli_number(cli, "reduce")];
}

/* ---- what goes in ---- */

static void to_bytes(uint64_t value, unsigned char *bytes)
{
    for (size_t i = 0; i < sizeof value; i++) {
        bytes[i] = (unsigned char)(value >> (8 * i));
    }
}

/* An integer of 64 bits, as bytes of a vector of one. */
static bool integer_to_bytes(const char *text, unsigned char *bytes)
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
    to_bytes(negative ? 0 - value : value, bytes);
    return true;
}

static bool double_to_bytes(const char *text, unsigned char *bytes)
{
    char *end;
    double number = strtod(text, &end);
    uint64_t bits;

    memcpy(&bits, &number, sizeof bits);
    to_bytes(bits, bytes);
    return end != text && *end == '\0';
}

/* ---- what comes out ---- */

static uint32_t part_rank(const muster_round_result *result, size_t i)
{
    uint32_t rank = 0;

    (void)muster_round_part(result, i, &rank); /* places 0 to n - 1: the ranks are the same */
    return rank;
}

/* Every double is read back as itself. */
static void double_to_text(double number, char *text, size_t room)
{
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(text, room, "%.*g", digits, number);
        if (strtod(text, NULL) == number) {
            break;
        }
    }
}

static void print_text(const muster_round_result *result, const struct reduction *reduction)
{
    char text[40];

    if (reduction->kind == INTEGER) {
        mst_cli_put("%" PRId64 "\n", muster_round_int64(result, 0));
    } else if (reduction->kind == DOUBLE) {
        double_to_text(muster_round_double(result, 0), text, sizeof text);
        mst_cli_put("%s\n", text);
    } else if (reduction->reduce != MUSTER_REDUCE_GATHER) {
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

/* JSON has no infinity and no NaN: they are text. */
static json_t *double_as_json(double number)
{
    char text[40];

    if (isfinite(number)) {
        return json_real(number);
    }
    double_to_text(number, text, sizeof text);
    return json_string(text);
}

static json_t *value_as_json(const muster_round_result *result, const struct reduction *reduction)
{
    if (reduction->reduce == MUSTER_REDUCE_GATHER) {
        return parts_as_json(result);
    }
    return reduction->kind == INTEGER  ? json_integer(muster_round_int64(result, 0))
           : reduction->kind == DOUBLE ? double_as_json(muster_round_double(result, 0))
                                       : mst_cli_json_bytes(muster_round_value(result));
}

static void print_json(const struct mst_cli *cli, const struct mst_meeting *meeting,
                       const muster_round_result *result)
{
    bool gathers = reduction(cli)->reduce == MUSTER_REDUCE_GATHER;
    struct muster_round_count count;

    muster_round_count(result, &count);
    mst_cli_json_print(mst_cli_json_object((struct mst_cli_field[]){
        {"round", mst_cli_json_text(meeting->name)},
        {"rank", json_integer(meeting->view.rank)},
        {"size", json_integer(meeting->view.size)},
        {"lost", json_integer(count.lost)},
        {"reduce", json_string(reduction(cli)->word)},
        {gathers ? "values" : "value", value_as_json(result, reduction(cli))},
        {NULL, NULL}}));
}

/* ---- the command ---- */

static int take_part(const struct mst_cli *cli, const struct mst_meeting *meeting,
                     struct muster_slice mine)
{
    struct muster_round_options options = MUSTER_ROUND_OPTIONS_INIT;
    muster_round_result *result = NULL;
    struct muster_error err;

    options.reduce = reduction(cli)->reduce;
    options.root = (uint32_t)mst_cli_number(cli, "root");
    options.on_loss = mst_cli_number(cli, "on_loss") ? MUSTER_ON_LOSS_PROCEED : MUSTER_ON_LOSS_FAIL;
    if (muster_round_join(meeting->client, meeting->name, &options, mine, mst_cli_left_ms(cli, -1),
                          &result, &err) != MUSTER_OK) {
        muster_round_free(result);
        return mst_cli_fail_with(cli, &err);
    }
    if (mst_cli_number(cli, "json")) {
        print_json(cli, meeting, result);
    } else {
        print_text(result, reduction(cli));
    }
    muster_round_free(result);
    return MST_CLI_OK;
}

static int run(struct mst_cli *cli)
{
    const struct reduction *wanted = reduction(cli);
    struct mst_meeting meeting;
    unsigned char number[8];
    struct muster_slice mine = {0};
    int64_t index;
    int code;

    if (cli->argument_count != 1 || !mst_cli_given(cli, "number")) {
        return mst_cli_usage(cli, "usage: muster round NAME -n NUMBER [--reduce "
                                  "gather|min|max|sum|equal|...] [--value VALUE]");
    }
    mine.data = mst_cli_text(cli, "value");
    mine.size = strlen(mine.data);
    if (wanted->kind != BYTES) {
        if (!(wanted->kind == INTEGER ? integer_to_bytes : double_to_bytes)(mine.data, number)) {
            return mst_cli_usage(cli, "--reduce %s takes %s, not '%s'", wanted->word,
                                 wanted->kind == INTEGER ? "a whole number of 64 bits" : "a number",
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
        "All participants receive the same result: the minimum, the maximum, the sum or the "
        "exclusive or of the numbers, the text that all have in common, the value of one rank "
        "(broadcast), or with gather a line 'rank value' for each. sum-double adds in the order of "
        "the ranks: the result does not depend on the order of arrival.",
    .example = "  muster round free-port -n 4 --value \"$(hostname):29500\"\n"
               "  muster round step -n 4 --reduce max --value 1200 --timeout 30s\n",
    .finds_job = true,
    .run = run,
};
