/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "cli/help.h"

#define LINE_COLUMNS 100
#define HELP_COLUMN 38 /* where a flag's text begins */

/* Flags in the order in which somebody asks for them. */
struct group {
    const char *title;
    const char
        *names; /* rows, between blanks; NULL: those of `scope`, 0 what a command has itself */
    enum mst_scope scope;
    unsigned commands; /* those that take in one of these scopes; 0: that take in none */
};

#define ANY (~0u)

#define PLACE_NAMES "addr job secret_file secret_fd insecure"

static const struct group groups[] = {
    {.title = "ranks",
     .names = "nproc nproc_per_node spares job size min_size max_size size_multiple join_wait grow "
              "max_restarts grace core label log_dir tee report",
     .commands = MST_CLI_SCOPE(MST_SCOPE_RUN)},
    {.title = "several nodes",
     .names = "nnodes join node_rank listen avoid service_wait secret_file secret_fd insecure",
     .commands = MST_CLI_SCOPE(MST_SCOPE_RUN)},
    {.title = "preemption",
     .names = "preempt_sources preempt_signals preempt_grace preempt_period preempt_margin requeue "
              "requeue_file",
     .commands = MST_CLI_SCOPE(MST_SCOPE_RUN)},
    {.title = "flags", .commands = ANY},
    {.title = "where it listens, and who may connect",
     .names = PLACE_NAMES,
     .commands = MST_CLI_SCOPE(MST_SCOPE_LIMIT)},
    {.title = "which service and job (without: the job that runs here)", .names = PLACE_NAMES},
    {.title = "the service",
     .scope = MST_SCOPE_SERVICE,
     .commands = MST_CLI_SCOPE(MST_SCOPE_SERVICE)},
    {.title = "limits; reaching one is an error that names it",
     .scope = MST_SCOPE_LIMIT,
     .commands = MST_CLI_SCOPE(MST_SCOPE_LIMIT)},
};

/* What a flag's value is, where its unit does not say it. */
static const struct {
    const char *name, *word;
} words[] = {
    {"preempt_sources", "NAME,..."},
    {"preempt_signals", "NAME,..."},
    {"addr", "ADDRESS"},
    {"avoid", "HOST,..."},
    {"http", "HOST:PORT"},
    {"record", "DIR"},
    {"job", "NAME"},
    {"join", "HOST:PORT"},
    {"journal", "FOLDER"},
    {"listen", "HOST:PORT"},
    {"nnodes", "N"},
    {"secret_file", "FILE"},
    {"log_dir", "FOLDER"},
    {"report", "FILE"},
    {"only", "JOB"},
    {"requeue_file", "FILE"},
};

const char *mst_cli_flag_word(const struct mst_setting *row)
{
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(words[i].name, row->name) == 0) {
            return words[i].word;
        }
    }
    switch (row->unit) {
    case MST_UNIT_MS:
        return "DURATION";
    case MST_UNIT_BYTES:
        return "SIZE";
    case MST_UNIT_COUNT:
    case MST_UNIT_INDEX:
    case MST_UNIT_SIGNAL:
        return "N";
    case MST_UNIT_TEXT:
        return "TEXT";
    case MST_UNIT_CHOICE:
        return "WORD";
    case MST_UNIT_FLAG:
        break;
    }
    return "";
}

/* One paragraph; what is too long for a line goes on below its beginning. Returns its end. */
static const char *put_wrapped(const char *text, size_t column)
{
    size_t at = column;

    while (*text != '\0' && *text != '\n') {
        size_t size = strcspn(text, " \n");

        if (at > column && at + 1 + size > LINE_COLUMNS) {
            mst_cli_put("\n%*s", (int)column, "");
            at = column;
        } else if (at > column) {
            mst_cli_put(" ");
            at++;
        }
        mst_cli_put("%.*s", (int)size, text);
        at += size;
        text += size;
        text += strspn(text, " ");
    }
    mst_cli_put("\n");
    return text;
}

/* Paragraphs, and lines that begin with a blank, which stay as they are. */
static void put_details(const char *text)
{
    while (*text) {
        if (*text == ' ') {
            mst_cli_put("%.*s\n", (int)strcspn(text, "\n"), text);
            text += strcspn(text, "\n");
        } else {
            text = put_wrapped(text, 0);
        }
        text += *text == '\n';
    }
}

void mst_cli_flag_name(const struct mst_setting *row, char *out, size_t room)
{
    (void)snprintf(out, room, "%s", row->name);
    for (; *out; out++) {
        *out = (char)(*out == '_' ? '-' : *out);
    }
}

static void size_text(int64_t bytes, char *out, size_t room)
{
    static const char units[] = "kmg";
    size_t unit = 0;

    while (bytes % 1024 == 0 && bytes >= 1024 && unit < sizeof units - 1) {
        bytes /= 1024;
        unit++;
    }
    (void)snprintf(out, room, "%lld%.*s", (long long)bytes, unit > 0 ? 1 : 0,
                   units + (unit > 0 ? unit - 1 : 0));
}

static void duration_text(int64_t ms, char *out, size_t room)
{
    static const struct {
        int64_t ms;
        const char *unit;
    } units[] = {{60000, "m"}, {1000, "s"}, {1, "ms"}};
    size_t i = 0;

    while (ms % units[i].ms != 0) {
        i++;
    }
    (void)snprintf(out, room, "%lld%s", (long long)(ms / units[i].ms), units[i].unit);
}

void mst_cli_flag_default(const struct mst_setting *row, char *out, size_t room)
{
    char value[64] = "";

    *out = '\0';
    if (row->unit == MST_UNIT_CHOICE) {
        (void)snprintf(out, room, "%s; default %s", row->choices, row->standard_text);
        return;
    }
    if (row->unit == MST_UNIT_FLAG && row->standard != 0) {
        mst_cli_flag_name(row, value, sizeof value);
        (void)snprintf(out, room, "default on; --no-%s", value);
        return;
    }
    if (row->unit == MST_UNIT_BYTES) {
        size_text(row->standard, value, sizeof value);
    } else if (row->unit == MST_UNIT_MS && row->standard > 0) {
        duration_text(row->standard, value, sizeof value);
    } else if ((row->unit == MST_UNIT_COUNT || row->unit == MST_UNIT_SIGNAL) && row->standard > 0) {
        (void)snprintf(value, sizeof value, "%s", row->standard_text);
    }
    if (*value) {
        (void)snprintf(out, room, "default %s", value);
    }
}

void mst_cli_flag_help(const struct mst_setting *row, char *out, size_t room)
{
    char standard[96];

    mst_cli_flag_default(row, standard, sizeof standard);
    (void)snprintf(out, room, "%s%s%s%s", row->help, *standard ? " (" : "", standard,
                   *standard ? ")" : "");
}

static void put_title(const char *title)
{
    mst_cli_put("\n%s:\n", title);
}

static void put_flag(const struct mst_cli_value *value)
{
    char name[64], flag[96], help[384];
    const char *word = mst_cli_flag_word(value->row);

    mst_cli_flag_name(value->row, name, sizeof name);
    (void)snprintf(flag, sizeof flag, "  %c%c%c --%s%s%s", value->letter ? '-' : ' ',
                   value->letter ? value->letter : ' ', value->letter ? ',' : ' ', name,
                   *word ? " " : "", word);
    mst_cli_flag_help(value->row, help, sizeof help);
    mst_cli_put("%-*s  ", HELP_COLUMN - 2, flag);
    (void)put_wrapped(help, HELP_COLUMN);
}

/* The title comes before the first. */
static void write_one(const struct mst_cli_writer *writer, const struct group *group,
                      const struct mst_cli_value *value, bool *titled)
{
    if (!*titled) {
        writer->title(group->title);
    }
    *titled = true;
    writer->flag(value);
}

static void write_named(const struct mst_cli *cli, const struct mst_cli_writer *writer,
                        const struct group *group)
{
    bool titled = false;

    for (const char *name = group->names; *name; name += strspn(name, " ")) {
        size_t size = strcspn(name, " ");

        for (size_t i = 0; i < cli->value_count; i++) {
            const char *row = cli->values[i].row->name;

            if (strlen(row) == size && strncmp(row, name, size) == 0) {
                write_one(writer, group, &cli->values[i], &titled);
            }
        }
        name += size;
    }
}

static void write_scope(const struct mst_cli *cli, const struct mst_cli_writer *writer,
                        const struct group *group)
{
    static const struct mst_setting help_row = {
        .unit = MST_UNIT_FLAG, .name = "help", .help = "this text"};
    static const struct mst_cli_value help = {.row = &help_row, .letter = 'h'};
    bool titled = false;

    for (size_t i = 0; i < cli->value_count; i++) {
        if (cli->values[i].row->scope == group->scope) {
            write_one(writer, group, &cli->values[i], &titled);
        }
    }
    if (group->scope == 0) {
        write_one(writer, group, &help, &titled);
    }
}

void mst_cli_write_flags(const struct mst_cli *cli, const struct mst_cli_writer *writer)
{
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        unsigned of = groups[i].commands;

        if (of == ANY || of == cli->command->scopes || (of & cli->command->scopes) != 0) {
            (groups[i].names ? write_named : write_scope)(cli, writer, &groups[i]);
        }
    }
}

void mst_cli_help(const struct mst_cli *cli)
{
    static const struct mst_cli_writer writer = {.title = put_title, .flag = put_flag};
    const struct mst_cli_command *command = cli->command;

    mst_cli_put("usage: muster %s [flags]%s%s\n\n%s\n", command->name,
                *command->arguments ? " " : "", command->arguments, command->summary);
    if (command->details) {
        mst_cli_put("\n");
        put_details(command->details);
    }
    mst_cli_write_flags(cli, &writer);
    if (command->scopes != 0 || command->finds_job) {
        mst_cli_put("\nWhat is not under 'flags' can be set in the environment too: --some-name as "
                    "MUSTER_SOME_NAME.\n");
    }
    mst_cli_put("\nexample:\n%s", command->example);
}

const char mst_cli_purpose[] =
    "keeps a distributed job alive: who is here, who is lost, and on with the rest";

const struct mst_cli_exit_code mst_cli_exit_codes[] = {
    {MST_CLI_OK, "done"},
    {MST_CLI_FAILED, "failed"},
    {MST_CLI_USAGE, "wrong usage"},
    {MST_CLI_DEADLINE, "a deadline passed"},
    {0, NULL},
};

void mst_cli_help_all(void)
{
    mst_cli_put("usage: muster COMMAND [flags] [arguments]\n\n%s\n\ncommands:\n", mst_cli_purpose);
    for (size_t i = 0; i < mst_cli_command_count; i++) {
        mst_cli_put("  %-10s  %s\n", mst_cli_commands[i]->name, mst_cli_commands[i]->summary);
    }
    mst_cli_put("\n'muster COMMAND --help' says more. 'muster --version' prints the version.\n"
                "Exit codes: ");
    for (size_t i = 0; mst_cli_exit_codes[i].text; i++) {
        mst_cli_put("%s%d %s", i > 0 ? ", " : "", mst_cli_exit_codes[i].code,
                    mst_cli_exit_codes[i].text);
    }
    mst_cli_put("; 'muster run' has more.\n");
}
