/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/panic.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/help.h"
#include "cli/synonyms.h"
#include "client/shell/internal.h"
#include "os/clock.h"

#define NAME_MAX_BYTES 64
#define AFTERWARDS_MS 500 /* after --timeout: for the names of the missing, and to leave */

/* Letters of rows that several commands share. */
static const struct {
    const char *name;
    char letter;
} letters[] = {{"job", 'j'}, {"nproc", 'n'}};

/* Flags whose value may be left out, and what that means. It can only be given behind '='. */
static const struct {
    const char *name, *text;
} bare[] = {{"replace_wait", "60s"}};

#define STANDARD_MS(value) .standard = (value), .standard_text = #value
#define STANDARD_COUNT(value) .standard = (value), .standard_text = #value
#define STANDARD_INDEX(value) .standard = (value), .standard_text = #value
#define STANDARD_FLAG(value) .standard = (value), .standard_text = #value
#define STANDARD_SIGNAL(value) .standard = (value), .standard_text = #value
#define STANDARD_CHOICE(value) .standard_text = (value)
#define STANDARD_TEXT(value) .standard_text = (value)

static const struct flag {
    const char *commands;
    char letter; /* or 0 */
    struct mst_setting row;
} flags[] = {
#define X(names, row_scope, short_name, row_name, row_unit, value, low, high, words, text)         \
    {.commands = (names),                                                                          \
     .letter = (short_name),                                                                       \
     .row = {.scope = (row_scope),                                                                 \
             .unit = MST_UNIT_##row_unit,                                                          \
             .name = #row_name,                                                                    \
             .help = (text),                                                                       \
             .least = (low),                                                                       \
             .most = (high),                                                                       \
             .choices = (words),                                                                   \
             STANDARD_##row_unit(value)}},
#include "cli/flags.def"
#undef X
};

bool mst_cli_listed(const char *list, const char *word)
{
    size_t size = strlen(word);

    for (; *list; list += strcspn(list, " ")) {
        list += strspn(list, " ");
        if (strcspn(list, " ") == size && strncmp(list, word, size) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- messages ---- */

static void say(const struct mst_cli *cli, const char *format, va_list args)
{
    char line[1024];

    (void)vsnprintf(line, sizeof line, format, args);
    mst_cli_tell("muster %s: %s", cli->command->name, line);
}

int mst_cli_usage(const struct mst_cli *cli, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say(cli, format, args);
    va_end(args);
    return MST_CLI_USAGE;
}

int mst_cli_fail(const struct mst_cli *cli, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say(cli, format, args);
    va_end(args);
    return MST_CLI_FAILED;
}

/* value_count: the command has no such flag. */
static size_t position_of(const struct mst_cli *cli, const char *name)
{
    size_t i = 0;

    while (i < cli->value_count && strcmp(cli->values[i].row->name, name) != 0) {
        i++;
    }
    return i;
}

static const struct mst_cli_value *timeout_of(const struct mst_cli *cli)
{
    size_t i = position_of(cli, "timeout");

    return i < cli->value_count && cli->values[i].given ? &cli->values[i] : NULL;
}

int64_t mst_cli_left_ms(const struct mst_cli *cli, int64_t standard_ms)
{
    const struct mst_cli_value *timeout = timeout_of(cli);
    int64_t gone_ms = (int64_t)((uint64_t)mst_clock_ms(CLOCK_MONOTONIC) - cli->began_ms);

    if (!timeout) {
        return standard_ms;
    }
    return timeout->number > gone_ms ? timeout->number - gone_ms : 0;
}

int mst_cli_fail_with(const struct mst_cli *cli, const struct muster_error *err)
{
    (void)mst_cli_fail(cli, "%s", err->text);
    /* A service that did not answer until then is no other failure than a peer that did not come.
     */
    return err->status == MUSTER_ETIMEDOUT ||
                   (err->status == MUSTER_EUNREACHABLE && mst_cli_left_ms(cli, 1) == 0)
               ? MST_CLI_DEADLINE
               : MST_CLI_FAILED;
}

/* ---- the nearest word ---- */

static size_t distance(const char *a, const char *b)
{
    size_t row[NAME_MAX_BYTES + 1];
    size_t width = strlen(b);

    if (width > NAME_MAX_BYTES) {
        return SIZE_MAX;
    }
    for (size_t j = 0; j <= width; j++) {
        row[j] = j;
    }
    for (size_t i = 0; a[i]; i++) {
        size_t corner = row[0];

        row[0] = i + 1;
        for (size_t j = 0; j < width; j++) {
            size_t best = corner + (a[i] != b[j]);

            corner = row[j + 1];
            best = corner + 1 < best ? corner + 1 : best;
            row[j + 1] = row[j] + 1 < best ? row[j] + 1 : best;
        }
    }
    return row[width];
}

const char *mst_cli_nearest(const char *word, const char *const *words)
{
    const char *best = NULL;
    size_t least = strlen(word) / 2 + 2;

    for (; *words; words++) {
        size_t far = distance(word, *words);

        if (strncmp(word, *words, strlen(word)) == 0 && *word) {
            far = 1; /* an abbreviation is near */
        }
        if (far < least) {
            least = far;
            best = *words;
        }
    }
    return best;
}

/* ---- the values ---- */

static char *copy_text(const char *text)
{
    char *copy = strdup(text);

    if (!copy) {
        mst_cli_tell("muster: out of memory");
        exit(MST_CLI_FAILED);
    }
    return copy;
}

static void add_row(struct mst_cli *cli, const struct mst_setting *row, char letter)
{
    struct mst_cli_value *value = &cli->values[cli->value_count++];
    char error[256];

    MST_ASSERT(cli->value_count <= MST_CLI_VALUES_MAX);
    *value = (struct mst_cli_value){.row = row, .letter = letter, .number = row->standard};
    for (size_t i = 0; i < sizeof letters / sizeof letters[0] && letter == 0; i++) {
        if (strcmp(letters[i].name, row->name) == 0) {
            value->letter = letters[i].letter;
        }
    }
    if (row->unit == MST_UNIT_TEXT) {
        value->text = copy_text(row->standard_text);
    } else if (row->unit == MST_UNIT_CHOICE) {
        (void)mst_setting_parse(row, row->standard_text, &value->number, error, sizeof error);
    }
}

void mst_cli_take_rows(struct mst_cli *cli, const struct mst_cli_command *command)
{
    *cli = (struct mst_cli){.command = command};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        if (mst_cli_listed(flags[i].commands, command->name)) {
            add_row(cli, &flags[i].row, flags[i].letter);
        }
    }
    for (size_t i = 0; i < mst_setting_count; i++) {
        const struct mst_setting *row = &mst_settings[i];

        if ((command->scopes & MST_CLI_SCOPE(row->scope)) ||
            (command->finds_job && mst_cli_listed(MST_CLI_PLACE_FLAGS, row->name))) {
            add_row(cli, row, 0);
        }
    }
}

static struct mst_cli_value *value_of(struct mst_cli *cli, const char *name)
{
    size_t i = position_of(cli, name);

    return i < cli->value_count ? &cli->values[i] : NULL;
}

const struct mst_cli_value *mst_cli_value(const struct mst_cli *cli, const char *name)
{
    size_t i = position_of(cli, name);

    MST_ASSERT(i < cli->value_count);
    return &cli->values[i];
}

int64_t mst_cli_number(const struct mst_cli *cli, const char *name)
{
    return mst_cli_value(cli, name)->number;
}

const char *mst_cli_text(const struct mst_cli *cli, const char *name)
{
    return mst_cli_value(cli, name)->text;
}

bool mst_cli_given(const struct mst_cli *cli, const char *name)
{
    return mst_cli_value(cli, name)->given;
}

bool mst_cli_typed(const struct mst_cli *cli, const char *name)
{
    return mst_cli_value(cli, name)->typed != NULL;
}

/* A list that is given in parts is one list. */
static void set_text(struct mst_cli_value *value, const char *text)
{
    char *joined = NULL;

    if (value->typed && strcmp(value->row->name, "addr") == 0) {
        if (asprintf(&joined, "%s,%s", value->text, text) < 0) {
            joined = NULL;
        }
    }
    if (!joined) {
        joined = copy_text(text);
    }
    free(value->text);
    value->text = joined;
}

void mst_cli_give(struct mst_cli *cli, const char *name, const char *text)
{
    struct mst_cli_value *value = &cli->values[position_of(cli, name)];

    set_text(value, text);
    value->given = true;
}

static bool set(struct mst_cli_value *value, const char *text, char *error, size_t room)
{
    if (value->row->unit == MST_UNIT_TEXT) {
        set_text(value, text);
    } else if (mst_setting_parse(value->row, text, &value->number, error, room) != MUSTER_OK) {
        return false;
    }
    value->given = true;
    return true;
}

static const char *variable(const char *prefix, const char *flag)
{
    char name[NAME_MAX_BYTES + 8];
    const char *text;
    size_t size = (size_t)snprintf(name, sizeof name, "%s%s", prefix, flag);

    for (size_t i = 0; i < size && i < sizeof name; i++) {
        name[i] = (char)toupper((unsigned char)name[i]);
    }
    text = getenv(name);
    return text && *text ? text : NULL;
}

/* Kubernetes trainers set PET_ variables for torchrun. In a worker of torchrun they describe that
 * run; those not listed here name its rendezvous, which is not ours. */
static const char *environment_of(const struct mst_cli *cli, const struct mst_setting *row)
{
    const char *text = row->scope ? variable("MUSTER_", row->name) : NULL;

    if (!text && cli->command->runs_program && !getenv("TORCHELASTIC_RUN_ID") &&
        mst_cli_listed("nnodes nproc_per_node max_restarts", row->name)) {
        text = variable("PET_", row->name);
    }
    return text;
}

/* A flag that was given, or its other name. */
static bool is_typed(const struct mst_cli *cli, const struct mst_cli_value *value)
{
    return value->typed != NULL ||
           (strcmp(value->row->name, "nproc_per_node") == 0 && mst_cli_typed(cli, "nproc"));
}

/* Flags override the environment. */
static int take_environment(struct mst_cli *cli)
{
    char error[256];

    for (size_t i = 0; i < cli->value_count; i++) {
        struct mst_cli_value *value = &cli->values[i];
        const char *text = is_typed(cli, value) ? NULL : environment_of(cli, value->row);

        if (text && !set(value, text, error, sizeof error)) {
            return mst_cli_usage(cli, "in the environment: %s", error);
        }
    }
    return MST_CLI_OK;
}

/* ---- the arguments ---- */

/* Dashes and underscores are the same. */
static void normal_name(const char *from, size_t size, char to[NAME_MAX_BYTES])
{
    size_t i = 0;

    for (; i < size && i < NAME_MAX_BYTES - 1; i++) {
        to[i] = from[i];
        if (from[i] == '-') {
            to[i] = '_';
        }
    }
    to[i] = '\0';
}

static int unknown_flag(struct mst_cli *cli, const char *given)
{
    const char *words[MST_CLI_VALUES_MAX + 2] = {NULL};
    char name[NAME_MAX_BYTES];
    char shown[NAME_MAX_BYTES];
    const char *near;
    size_t i = 0;

    for (; i < cli->value_count; i++) {
        words[i] = cli->values[i].row->name;
    }
    words[i] = "help";
    normal_name(given + strspn(given, "-"), strcspn(given + strspn(given, "-"), "="), name);
    near = mst_cli_nearest(name, words);
    if (!near) {
        return mst_cli_usage(cli, "unknown flag %s ('muster %s --help' lists them)", given,
                             cli->command->name);
    }
    mst_cli_flag_name(near, shown, sizeof shown);
    return mst_cli_usage(cli, "unknown flag %s; the nearest is --%s ('muster %s --help' lists all)",
                         given, shown, cli->command->name);
}

/* The position of the parser. */
struct cursor {
    struct mst_cli *cli;
    char **next;
};

const char *mst_cli_flag_alone(const struct mst_setting *row)
{
    for (size_t i = 0; i < sizeof bare / sizeof bare[0]; i++) {
        if (strcmp(bare[i].name, row->name) == 0) {
            return bare[i].text;
        }
    }
    return row->unit == MST_UNIT_FLAG ? "1" : NULL;
}

static int give(struct cursor *cursor, struct mst_cli_value *value, const char *flag,
                const char *text)
{
    char error[256];

    if (!text) {
        text = mst_cli_flag_alone(value->row);
    }
    if (!text) {
        text = *cursor->next;
        if (!text) {
            return mst_cli_usage(cursor->cli, "%s needs a value", flag);
        }
        cursor->next++;
    }
    if (!set(value, text, error, sizeof error)) {
        return mst_cli_usage(cursor->cli, "%s", error);
    }
    value->typed = text;
    return MST_CLI_OK;
}

struct mst_cli_value *mst_cli_flag_of(struct mst_cli *cli, const char *word, size_t size)
{
    char name[NAME_MAX_BYTES];

    if (word[1] == '-') {
        normal_name(word + 2, size - 2, name);
        return value_of(cli, name);
    }
    for (size_t i = 0; i < cli->value_count && size == 2; i++) {
        if (cli->values[i].letter == word[1]) {
            return &cli->values[i];
        }
    }
    return NULL;
}

/* The value of a flag of another launcher; NULL: there is none, after one line. */
static const char *take_value(struct cursor *cursor, const char *flag, const char *equals)
{
    if (equals == NULL && *cursor->next == NULL) {
        (void)mst_cli_usage(cursor->cli, "%s needs a value", flag);
        return NULL;
    }
    return equals != NULL ? equals + 1 : *cursor->next++;
}

/* For "%.*s": a flag without its value. */
#define WORD(flag) (int)strcspn(flag, "="), (flag)

static void add_exported(struct mst_cli *cli, const char *value)
{
    const char *before = cli->exported != NULL ? cli->exported : "";
    char *list;

    if (asprintf(&list, "%s%s%.*s", before, *before != '\0' ? "," : "", WORD(value)) < 0) {
        mst_cli_tell("muster: out of memory");
        exit(MST_CLI_FAILED);
    }
    free(cli->exported);
    cli->exported = list;
}

static int take_export(const struct cursor *cursor, const char *flag, const char *value)
{
    if (!mst_synonym_export(value)) {
        return mst_cli_usage(cursor->cli, "%.*s %s: NAME or NAME=VALUE is expected", WORD(flag),
                             value);
    }
    if (strchr(value, '=') == NULL && getenv(value) == NULL) {
        mst_cli_tell("muster %s: %.*s %s: no such variable is set", cursor->cli->command->name,
                     WORD(flag), value);
    }
    add_exported(cursor->cli, value);
    return MST_CLI_OK;
}

/* "nnodes=1" */
static int take_setting(struct cursor *cursor, const char *flag, const char *text)
{
    char name[NAME_MAX_BYTES];
    size_t size = strcspn(text, "=");

    normal_name(text, size, name);
    return give(cursor, value_of(cursor->cli, name), flag, text + size + 1);
}

/* torchrun's --tee 3 and --redirects 3. Without a folder all output goes to the terminal as it is.
 */
static int take_streams(struct cursor *cursor, const char *flag, const char *value,
                        const struct mst_synonym *synonym)
{
    struct mst_cli_value *own = *synonym->text ? value_of(cursor->cli, synonym->text) : NULL;
    bool all, none;

    if (!mst_synonym_streams(value, &all, &none)) {
        return mst_cli_usage(cursor->cli, "%.*s %s: 3 is expected, for both streams, or 0",
                             WORD(flag), value);
    }
    if (!all && !none) {
        return mst_cli_usage(cursor->cli,
                             "%.*s %s: both streams of all ranks go the same way: --log-dir FOLDER "
                             "writes them to files, and --tee to the terminal as well",
                             WORD(flag), value);
    }
    if (own != NULL) {
        own->by_number = true;
        return give(cursor, own, flag, all ? "1" : "0");
    }
    cursor->cli->redirects = all;
    return MST_CLI_OK;
}

/* The flag of ours with that name goes before, except where a number follows that it does not
 * take. */
static const struct mst_synonym *synonym_of(const struct cursor *cursor, const char *flag,
                                            const char *equals)
{
    const char *after = equals != NULL ? equals + 1 : *cursor->next;
    const struct mst_synonym *synonym;
    size_t dashes = strspn(flag, "-");
    char name[NAME_MAX_BYTES];
    bool all, none;

    normal_name(flag + dashes, strcspn(flag + dashes, "="), name);
    synonym =
        cursor->cli->command->scopes & MST_CLI_SCOPE(MST_SCOPE_RUN) ? mst_synonym_find(name) : NULL;
    if (synonym != NULL && value_of(cursor->cli, name) != NULL &&
        (synonym->meaning != MST_MEANS_STREAMS || after == NULL ||
         !mst_synonym_streams(after, &all, &none))) {
        return NULL;
    }
    return synonym;
}

static int take_synonym(struct cursor *cursor, const char *flag, const char *equals,
                        const struct mst_synonym *synonym)
{
    const char *value = "";

    if (synonym->meaning == MST_MEANS_ANSWER) {
        return mst_cli_usage(cursor->cli, "%.*s: %s", WORD(flag), synonym->text);
    }
    if (synonym->takes) {
        value = take_value(cursor, flag, equals);
        if (value == NULL) {
            return MST_CLI_USAGE;
        }
    }
    switch (synonym->meaning) {
    case MST_MEANS_SAME:
        return give(cursor, value_of(cursor->cli, synonym->text), flag, value);
    case MST_MEANS_SETS:
        return take_setting(cursor, flag, synonym->text);
    case MST_MEANS_ALONE:
        cursor->cli->alone = flag;
        cursor->cli->alone_answer = synonym->text;
        return MST_CLI_OK;
    case MST_MEANS_EXPORT:
        return take_export(cursor, flag, value);
    case MST_MEANS_STREAMS:
        return take_streams(cursor, flag, value, synonym);
    case MST_MEANS_ANSWER:
    case MST_MEANS_UNNEEDED:
        return MST_CLI_OK;
    }
    return MST_CLI_OK;
}

static int take_long(struct cursor *cursor, const char *flag)
{
    const char *equals = strchr(flag, '=');
    size_t size = equals ? (size_t)(equals - flag) : strlen(flag);
    struct mst_cli_value *value = mst_cli_flag_of(cursor->cli, flag, size);
    char name[NAME_MAX_BYTES];

    if (value) {
        return give(cursor, value, flag, equals ? equals + 1 : NULL);
    }
    normal_name(flag + 2, size - 2, name);
    value = strncmp(name, "no_", 3) == 0 ? value_of(cursor->cli, name + 3) : NULL;
    if (value && value->row->unit == MST_UNIT_FLAG && !equals) {
        return give(cursor, value, flag, "0");
    }
    return unknown_flag(cursor->cli, flag);
}

static int take_short(struct cursor *cursor, const char *flag)
{
    struct mst_cli_value *value = mst_cli_flag_of(cursor->cli, flag, 2);

    return value ? give(cursor, value, flag, flag[2] ? flag + 2 : NULL)
                 : unknown_flag(cursor->cli, flag);
}

static int take_flag(struct cursor *cursor, const char *flag)
{
    const char *equals = strchr(flag, '=');
    const struct mst_synonym *synonym = synonym_of(cursor, flag, equals);

    if (synonym != NULL) {
        return take_synonym(cursor, flag, equals, synonym);
    }
    return flag[1] == '-' ? take_long(cursor, flag) : take_short(cursor, flag);
}

static bool is_flag(const char *argument)
{
    return argument[0] == '-' && argument[1] != '\0' && !isdigit((unsigned char)argument[1]);
}

static int take_arguments(struct mst_cli *cli, char **argv)
{
    struct cursor cursor = {.cli = cli, .next = argv};
    int code = MST_CLI_OK;

    while (*cursor.next && code == MST_CLI_OK) {
        char *argument = *cursor.next++;

        if (strcmp(argument, "--") == 0) {
            break;
        }
        if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0) {
            return -1;
        }
        if (is_flag(argument)) {
            code = take_flag(&cursor, argument);
            continue;
        }
        cli->arguments[cli->argument_count++] = argument;
        if (cli->command->runs_program) {
            break;
        }
    }
    while (*cursor.next) {
        cli->arguments[cli->argument_count++] = *cursor.next++;
    }
    return code;
}

int mst_cli_parse(struct mst_cli *cli, const struct mst_cli_command *command, char **argv)
{
    const struct mst_cli_value *timeout;
    size_t count = 0;
    int code;

    while (argv[count]) {
        count++;
    }
    mst_cli_take_rows(cli, command);
    cli->began_ms = (uint64_t)mst_clock_ms(CLOCK_MONOTONIC);
    cli->arguments = calloc(count + 1, sizeof *cli->arguments);
    if (!cli->arguments) {
        return mst_cli_fail(cli, "out of memory");
    }
    code = take_arguments(cli, argv);
    code = code == MST_CLI_OK ? take_environment(cli) : code;
    timeout = timeout_of(cli);
    if (timeout) {
        mst_lib_end_by((cli->began_ms + (uint64_t)timeout->number + AFTERWARDS_MS) * NS_PER_MS);
    }
    if (code == MST_CLI_OK && *command->arguments == '\0' && cli->argument_count > 0) {
        return mst_cli_usage(cli, "unexpected argument '%s': the command takes only flags",
                             cli->arguments[0]);
    }
    return code;
}

int mst_cli_argument(const struct mst_cli *cli, const struct mst_setting *row, const char *word,
                     int64_t *out)
{
    char error[256];

    return mst_setting_parse(row, word, out, error, sizeof error) == MUSTER_OK
               ? MST_CLI_OK
               : mst_cli_usage(cli, "%s", error);
}

void mst_cli_put(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vfprintf(stdout, format, args);
    va_end(args);
}

void mst_cli_tell(const char *format, ...)
{
    char line[2048], shown[4096];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    mst_text_print(shown, sizeof shown, "%.*s", MST_TEXT_ARGS(line));
    (void)fprintf(stderr, "%s\n", shown);
}

void mst_cli_release(struct mst_cli *cli)
{
    for (size_t i = 0; i < cli->value_count; i++) {
        free(cli->values[i].text);
    }
    free(cli->exported);
    free(cli->arguments);
}
