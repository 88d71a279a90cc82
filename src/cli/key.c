/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/print.h"

#define ANSWER_MS 10000    /* for requests that are answered at once */
#define STDIN_MAX 16777216 /* the largest value_bytes_max */

/* The context of an action. */
struct job {
    const struct mst_cli *cli;
    const struct action *action;
    muster_client *client;
    char **words; /* behind the action's name */
    int count;
    bool json;
    struct muster_error err;
};

struct action {
    const char *name;
    int least, most; /* words behind it */
    const char *usage;
    int (*run)(struct job *job);
    muster_status (*write)(muster_client *client, const char *key, struct muster_slice value,
                           const struct muster_key_options *options, int64_t timeout_ms,
                           uint64_t *number_out, struct muster_error *err);
    const char *result; /* what its number is in JSON; NULL: it has none */
    bool shown;         /* the number, as text too */
};

static int failed(const struct job *job)
{
    return mst_cli_fail_with(job->cli, &job->err);
}

/* ---- input ---- */

/* Waits for bytes or the end of stdin. False: --timeout has passed. */
static bool wait_for_stdin(const struct job *job)
{
    struct pollfd polled = {.fd = STDIN_FILENO, .events = POLLIN};
    int found;

    do {
        int64_t left_ms = mst_cli_left_ms(job->cli, -1);

        found = poll(&polled, 1, left_ms < INT_MAX ? (int)left_ms : INT_MAX);
    } while (found < 0 && errno == EINTR);
    return found != 0;
}

/* NULL after one line on stderr, and the exit code. The caller frees. */
static char *read_stdin(const struct job *job, size_t *size_out, int *code_out)
{
    size_t room = 65536, size = 0;
    char *bytes = malloc(room);

    while (bytes) {
        ssize_t part;

        if (!wait_for_stdin(job)) {
            (void)mst_cli_fail(job->cli, "no end of the value on stdin within --timeout; nothing "
                                         "is written");
            free(bytes);
            *code_out = MST_CLI_DEADLINE;
            return NULL;
        }
        part = read(STDIN_FILENO, bytes + size, room - size);
        if (part == 0) {
            *size_out = size;
            return bytes;
        }
        if (part < 0 && errno != EINTR) {
            break;
        }
        size += part > 0 ? (size_t)part : 0;
        if (size == room) {
            char *larger = room < (size_t)STDIN_MAX * 2 ? realloc(bytes, room * 2) : NULL;

            if (!larger) {
                errno = EFBIG;
                break;
            }
            bytes = larger;
            room *= 2;
        }
    }
    *code_out = mst_cli_fail(job->cli, "cannot read the value from stdin: %s", strerror(errno));
    free(bytes);
    return NULL;
}

/* The word, or stdin for "-"; `owned` is to be freed. OK, or an exit code after one line. */
static int value_of(const struct job *job, const char *word, char **owned, struct muster_slice *out)
{
    int code = MST_CLI_OK;

    *owned = NULL;
    if (strcmp(word, "-") != 0) {
        *out = (struct muster_slice){.data = word, .size = strlen(word)};
        return MST_CLI_OK;
    }
    *owned = read_stdin(job, &out->size, &code);
    out->data = *owned;
    return code;
}

/* ---- output ---- */

static json_t *whole(const char *key, struct muster_slice value, uint64_t revision, uint64_t age_ms)
{
    return mst_cli_json_object(
        (struct mst_cli_field[]){{"key", mst_cli_json_text(key)},
                                 {"value", mst_cli_json_bytes(value)},
                                 {"revision", json_integer((json_int_t)revision)},
                                 {"age_ms", json_integer((json_int_t)age_ms)},
                                 {NULL, NULL}});
}

/* The number that a write gave. OK. */
static int print_result(const struct job *job, uint64_t number)
{
    if (job->json) {
        mst_cli_json_print(mst_cli_json_object(
            (struct mst_cli_field[]){{"key", mst_cli_json_text(job->words[0])},
                                     {job->action->result, json_integer((json_int_t)number)},
                                     {NULL, NULL}}));
    } else if (job->action->shown) {
        mst_cli_put("%lld\n", (long long)number);
    }
    return MST_CLI_OK;
}

/* ---- the actions ---- */

static int get(struct job *job)
{
    muster_value *value;
    struct muster_slice bytes;
    int64_t wait_ms = mst_cli_number(job->cli, "wait");
    int64_t left_ms = mst_cli_left_ms(job->cli, wait_ms);

    wait_ms = wait_ms < left_ms ? wait_ms : left_ms;
    if (muster_key_get(job->client, job->words[0], NULL, wait_ms, &value, &job->err) != MUSTER_OK) {
        return failed(job);
    }
    bytes.data = muster_value_data(value);
    bytes.size = muster_value_size(value);
    if (job->json) {
        mst_cli_json_print(
            whole(job->words[0], bytes, muster_value_revision(value), muster_value_age_ms(value)));
    } else {
        (void)fwrite(bytes.data, 1, bytes.size, stdout);
        if (!mst_cli_number(job->cli, "raw")) {
            mst_cli_put("\n");
        }
    }
    muster_value_free(value);
    return MST_CLI_OK;
}

/* put, insert, append: the value is the last word. cas: `write` is NULL, and a revision is before
 * it. */
static int write_value(struct job *job)
{
    static const struct mst_setting revision_row = {
        .unit = MST_UNIT_COUNT, .name = "REVISION", .most = INT64_MAX};
    const struct action *action = job->action;
    struct muster_slice value = {0};
    int64_t expected = 0, limit_ms;
    char *owned;
    uint64_t number = 0;
    muster_status status;
    int code;

    if (!action->write &&
        mst_cli_argument(job->cli, &revision_row, job->words[1], &expected) != MST_CLI_OK) {
        return MST_CLI_USAGE;
    }
    code = value_of(job, job->words[job->count - 1], &owned, &value);
    if (code != MST_CLI_OK) {
        return code;
    }
    limit_ms = mst_cli_left_ms(job->cli, ANSWER_MS);
    status = action->write ? action->write(job->client, job->words[0], value, NULL, limit_ms,
                                           &number, &job->err)
                           : muster_key_cas(job->client, job->words[0], (uint64_t)expected, value,
                                            NULL, limit_ms, &number, &job->err);
    free(owned);
    return status == MUSTER_OK ? print_result(job, number) : failed(job);
}

static int add(struct job *job)
{
    static const struct mst_setting delta_row = {
        .unit = MST_UNIT_COUNT, .name = "DELTA", .least = -INT64_MAX, .most = INT64_MAX};
    int64_t delta = 1, sum = 0;

    if (job->count > 1 &&
        mst_cli_argument(job->cli, &delta_row, job->words[1], &delta) != MST_CLI_OK) {
        return MST_CLI_USAGE;
    }
    if (muster_key_add(job->client, job->words[0], delta, NULL,
                       mst_cli_left_ms(job->cli, ANSWER_MS), &sum, &job->err) != MUSTER_OK) {
        return failed(job);
    }
    return print_result(job, (uint64_t)sum);
}

/* The number of keys, also where there was none. */
static int del_prefix(struct job *job)
{
    uint64_t count = 0;

    if (job->count != 1) {
        return mst_cli_usage(job->cli, "--prefix takes one NAME, the prefix of the keys to delete");
    }
    if (muster_key_delete_prefix(job->client, job->words[0], NULL,
                                 mst_cli_left_ms(job->cli, ANSWER_MS), &count,
                                 &job->err) != MUSTER_OK) {
        return failed(job);
    }
    return print_result(job, count);
}

static int del(struct job *job)
{
    if (mst_cli_number(job->cli, "prefix")) {
        return del_prefix(job);
    }
    for (int i = 0; i < job->count; i++) {
        if (muster_key_delete(job->client, job->words[i], NULL,
                              mst_cli_left_ms(job->cli, ANSWER_MS), &job->err) != MUSTER_OK) {
            return failed(job);
        }
    }
    return MST_CLI_OK;
}

static void print_row(const struct job *job, const muster_keys *keys, size_t i)
{
    const char *name = muster_keys_name(keys, i);

    mst_cli_print_bytes((struct muster_slice){.data = name, .size = strlen(name)});
    if (mst_cli_number(job->cli, "values")) {
        mst_cli_put("\t");
        mst_cli_print_bytes(muster_keys_value(keys, i));
    }
    mst_cli_put("\n");
}

static int ls(struct job *job)
{
    muster_keys *keys;
    json_t *list = job->json ? mst_cli_json_check(json_array()) : NULL;

    if (muster_key_list(job->client, job->count > 0 ? job->words[0] : "", NULL,
                        mst_cli_left_ms(job->cli, ANSWER_MS), &keys, &job->err) != MUSTER_OK) {
        json_decref(list);
        return failed(job);
    }
    for (size_t i = 0; i < muster_keys_count(keys); i++) {
        if (list) {
            mst_cli_json_append(list,
                                whole(muster_keys_name(keys, i), muster_keys_value(keys, i),
                                      muster_keys_revision(keys, i), muster_keys_age_ms(keys, i)));
        } else {
            print_row(job, keys, i);
        }
    }
    if (list) {
        mst_cli_json_print(list);
    }
    muster_keys_free(keys);
    return MST_CLI_OK;
}

static int wait_for(struct job *job)
{
    const char *const *names = (const char *const *)job->words;

    if (muster_key_wait(job->client, names, (size_t)job->count, NULL, mst_cli_left_ms(job->cli, -1),
                        &job->err) != MUSTER_OK) {
        return failed(job);
    }
    return MST_CLI_OK;
}

/* ---- watch ---- */

static const char *const event_words[] = {
    [MUSTER_EVENT_KEY] = "put", [MUSTER_EVENT_DELETED] = "delete", [MUSTER_EVENT_RESET] = "reset"};

static void print_event(const struct job *job, const struct muster_event *event)
{
    const char *key = event->key ? event->key : "", *word = event_words[event->type];

    if (job->json) {
        json_t *object = whole(key, event->value, event->revision, event->age_ms);

        mst_cli_json_put(object, "event", json_string(word));
        mst_cli_json_print(object);
        return;
    }
    mst_cli_put("%llu %s ", (unsigned long long)event->revision, word);
    mst_cli_print_bytes((struct muster_slice){.data = key, .size = strlen(key)});
    if (event->type == MUSTER_EVENT_KEY) {
        mst_cli_put(" ");
        mst_cli_print_bytes(event->value);
    }
    mst_cli_put("\n");
    (void)fflush(stdout);
}

static muster_status follow(struct job *job, muster_watch *watch)
{
    int64_t wanted = mst_cli_number(job->cli, "count");
    struct muster_event event;

    for (int64_t seen = 0; wanted == 0 || seen < wanted; seen++) {
        muster_status status =
            muster_watch_next(watch, mst_cli_left_ms(job->cli, -1), &event, &job->err);

        if (status != MUSTER_OK) {
            return status;
        }
        print_event(job, &event);
        if (ferror(stdout)) {
            break; /* reported at the end */
        }
    }
    return MUSTER_OK;
}

static int watch_keys(struct job *job)
{
    struct muster_watch_options options = MUSTER_WATCH_OPTIONS_INIT;
    muster_watch *watch;
    muster_status status;

    options.prefix = job->count > 0 ? job->words[0] : NULL;
    options.after = (uint64_t)mst_cli_number(job->cli, "after");
    status = muster_watch_open(&watch, job->client, &options, &job->err);
    if (status == MUSTER_OK) {
        status = follow(job, watch);
        muster_watch_close(watch);
    }
    return status == MUSTER_OK ? MST_CLI_OK : failed(job);
}

/* ---- the command ---- */

static const struct action actions[] = {
    {"get", 1, 1, "get NAME [--wait 5s]", get, NULL, NULL, true},
    {"put", 2, 2, "put NAME VALUE", write_value, muster_key_put, "revision", false},
    {"insert", 2, 2, "insert NAME VALUE", write_value, muster_key_insert, "revision", false},
    {"cas", 3, 3, "cas NAME REVISION VALUE", write_value, NULL, "revision", true},
    {"add", 1, 2, "add NAME [DELTA]", add, NULL, "sum", true},
    {"append", 2, 2, "append NAME VALUE", write_value, muster_key_append, "size", true},
    {"del", 1, INT32_MAX, "del NAME... | del --prefix PREFIX", del, NULL, "deleted", true},
    {"ls", 0, 1, "ls [PREFIX]", ls, NULL, NULL, true},
    {"wait", 1, INT32_MAX, "wait NAME... [--timeout 30s]", wait_for, NULL, NULL, true},
    {"watch", 0, 1, "watch [PREFIX]", watch_keys, NULL, NULL, true},
};

#define ACTION_COUNT (sizeof actions / sizeof actions[0])

static const struct action *find(const char *name)
{
    for (size_t i = 0; i < ACTION_COUNT; i++) {
        if (strcmp(actions[i].name, name) == 0) {
            return &actions[i];
        }
    }
    return NULL;
}

static int no_such_action(const struct mst_cli *cli, const char *name)
{
    const char *words[ACTION_COUNT + 1] = {NULL};
    const char *near;

    for (size_t i = 0; i < ACTION_COUNT; i++) {
        words[i] = actions[i].name;
    }
    near = mst_cli_nearest(name, words);
    return mst_cli_usage(cli, "unknown action '%s'%s%s ('muster key --help' lists them)", name,
                         near ? "; the nearest is " : "", near ? near : "");
}

static int run(struct mst_cli *cli)
{
    struct job job = {.cli = cli, .json = mst_cli_number(cli, "json") != 0};
    const struct action *action;
    struct mst_cli_place place;
    int code;

    if (cli->argument_count == 0) {
        return mst_cli_usage(cli, "an action is missing ('muster key --help' lists them)");
    }
    action = find(cli->arguments[0]);
    if (!action) {
        return no_such_action(cli, cli->arguments[0]);
    }
    job.action = action;
    job.words = cli->arguments + 1;
    job.count = cli->argument_count - 1;
    if (job.count < action->least || job.count > action->most) {
        return mst_cli_usage(cli, "usage: muster key %s", action->usage);
    }
    code = mst_cli_observe(cli, &job.client, &place);
    if (code != MST_CLI_OK) {
        return code;
    }
    code = action->run(&job);
    muster_client_close(job.client);
    return code == MST_CLI_OK ? mst_cli_finish_output(cli) : code;
}

const struct mst_cli_command mst_cli_key = {
    .name = "key",
    .arguments = "ACTION ...",
    .summary = "read and write the keys of a job",
    .details =
        "  get NAME                  print the value; exit 1 if it does not exist\n"
        "  put NAME VALUE            write; a VALUE of - is read from stdin\n"
        "  insert NAME VALUE         write if it does not exist; else exit 1\n"
        "  cas NAME REVISION VALUE   write if its revision is this one (0: if it does not exist)\n"
        "  add NAME [DELTA]          add to a number, print the sum\n"
        "  append NAME VALUE         append, print the size\n"
        "  del NAME...               delete\n"
        "  del --prefix PREFIX       delete all keys under a prefix, print how many\n"
        "  ls [PREFIX]               print the names under a prefix\n"
        "  wait NAME...              wait until each of them has existed\n"
        "  watch [PREFIX]            print all keys, then every change\n",
    .example = "  muster key put phase warmup\n  muster key get phase --wait 5s\n",
    .finds_job = true,
    .run = run,
};
