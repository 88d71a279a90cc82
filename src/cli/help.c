/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/help.h"

#define COLUMNS_MOST 100 /* longer lines are hard to read */
#define COLUMNS_LEAST 40
#define COLUMNS_UNKNOWN 80
#define HELP_COLUMN 38 /* where a flag's text begins, if as much is left behind it */
#define NARROW_COLUMN 8
#define COMMAND_COLUMN 14

/* Flags in the order in which users look for them. */
struct group {
    const char *title;
    const char
        *names; /* rows, between blanks; NULL: those of `scope`, 0 what a command has itself */
    enum mst_scope scope;
    unsigned commands; /* those that take in one of these scopes; 0: that take in none */
};

#define ANY (~0u)

static const struct group groups[] = {
    {.title = "ranks",
     .names = "nproc nproc_per_node spares job size min_size max_size size_multiple join_wait grow "
              "max_restarts replace_wait grace max_time front jax_recoverable bind core label "
              "input log_dir tee report "
              "keep_runs",
     .commands = MST_CLI_SCOPE(MST_SCOPE_RUN)},
    {.title = "several nodes",
     .names = "nnodes replicas hostfile ssh pass_env join node_rank listen avoid service_wait "
              "secret_file "
              "secret_fd insecure",
     .commands = MST_CLI_SCOPE(MST_SCOPE_RUN)},
    {.title = "preemption",
     .names = "preempt_sources preempt_signals preempt_grace preempt_period preempt_margin requeue "
              "requeue_file",
     .commands = MST_CLI_SCOPE(MST_SCOPE_RUN)},
    {.title = "flags", .commands = ANY},
    {.title = "listen address and access",
     .names = MST_CLI_PLACE_FLAGS,
     .commands = MST_CLI_SCOPE(MST_SCOPE_LIMIT)},
    {.title = "service and job (default: the job that runs here)", .names = MST_CLI_PLACE_FLAGS},
    {.title = "the service",
     .scope = MST_SCOPE_SERVICE,
     .commands = MST_CLI_SCOPE(MST_SCOPE_SERVICE)},
    {.title = "limits; reaching one is an error that names it",
     .scope = MST_SCOPE_LIMIT,
     .commands = MST_CLI_SCOPE(MST_SCOPE_LIMIT)},
};

/* The word for the value of a flag, by its unit. */
static const char *const unit_words[] = {
    [MST_UNIT_MS] = "DURATION", [MST_UNIT_BYTES] = "SIZE", [MST_UNIT_COUNT] = "N",
    [MST_UNIT_INDEX] = "N",     [MST_UNIT_SIGNAL] = "N",   [MST_UNIT_TEXT] = "TEXT",
    [MST_UNIT_CHOICE] = "WORD", [MST_UNIT_FLAG] = "",
};

/* Other words for the values of some flags. */
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
    {"front", "NAME,..."},
    {"hostfile", "FILE"},
    {"join", "HOST:PORT,..."},
    {"journal", "FOLDER"},
    {"listen", "HOST:PORT"},
    {"nnodes", "N"},
    {"nproc_per_node", "N"},
    {"pass_env", "NAME,..."},
    {"role", "NAME"},
    {"secret_file", "FILE"},
    {"input", "INDEX"},
    {"log_dir", "FOLDER"},
    {"report", "FILE"},
    {"html", "FILE"},
    {"kept_run", "FILE"},
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
    return unit_words[row->unit];
}

/* The width of the terminal, also when the output goes to a pager. */
static size_t line_columns(void)
{
    static const int streams[] = {STDOUT_FILENO, STDERR_FILENO, STDIN_FILENO};
    const char *said = getenv("COLUMNS");
    size_t columns = said ? strtoul(said, NULL, 10) : 0;

    for (size_t i = 0; i < sizeof streams / sizeof streams[0] && columns == 0; i++) {
        struct winsize size;

        columns = ioctl(streams[i], TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
    }
    columns = columns > 0 ? columns : COLUMNS_UNKNOWN;
    columns = columns < COLUMNS_MOST ? columns : COLUMNS_MOST;
    return columns > COLUMNS_LEAST ? columns : COLUMNS_LEAST;
}

/* Prints one paragraph from `column` on, wrapped to that column. Returns its end. */
static const char *put_wrapped(const char *text, size_t column)
{
    size_t most = line_columns(), at = column;

    while (*text != '\0' && *text != '\n') {
        size_t size = strcspn(text, " \n");

        if (at > column && at + 1 + size > most) {
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

/* The column of the text in a row, "  name   text": after the last wide gap. */
static size_t text_column(const char *row, size_t size)
{
    size_t column = 0;

    for (size_t i = 1 + strspn(row, " "); i + 2 < size; i++) {
        if (row[i - 1] == ' ' && row[i] == ' ' && row[i + 1] != ' ') {
            column = i + 1;
        }
    }
    return column;
}

/* Its name, and the text behind it or, where that would be squeezed, below. */
static void put_row(const char *name, size_t size, size_t column, const char *text)
{
    bool narrow = line_columns() < 2 * column;

    mst_cli_put("%.*s", (int)size, name);
    if (narrow || size + 2 > column) {
        column = narrow ? NARROW_COLUMN : column;
        mst_cli_put("\n%*s", (int)column, "");
    } else {
        mst_cli_put("%*s", (int)(column - size), "");
    }
    (void)put_wrapped(text, column);
}

/* Lines that begin with a blank: rows, or as they are. Returns the end. */
static const char *put_details_row(const char *text)
{
    size_t size = strcspn(text, "\n"), column = text_column(text, size), name = column;

    while (name > 0 && text[name - 1] == ' ') {
        name--;
    }
    if (column > 0) {
        put_row(text, name, column, text + column);
    } else {
        mst_cli_put("%.*s\n", (int)size, text);
    }
    return text + size;
}

/* Paragraphs, and rows. */
static void put_details(const char *text)
{
    while (*text) {
        text = *text == ' ' ? put_details_row(text) : put_wrapped(text, 0);
        text += *text == '\n';
    }
}

void mst_cli_flag_name(const char *setting, char *out, size_t room)
{
    (void)snprintf(out, room, "%s", setting);
    for (; *out; out++) {
        *out = (char)(*out == '_' ? '-' : *out);
    }
}

/* The largest first; the last one divides all. */
static const struct step {
    int64_t of;
    const char *unit;
} sizes[] = {{1 << 30, "g"}, {1 << 20, "m"}, {1 << 10, "k"}, {1, ""}},
  durations[] = {{60000, "m"}, {1000, "s"}, {1, "ms"}};

/* "64k": in the largest unit that divides it. */
static void put_number(int64_t number, const struct step *step, char *out, size_t room)
{
    while (number % step->of != 0) {
        step++;
    }
    (void)snprintf(out, room, "%lld%s", (long long)(number / step->of), step->unit);
}

/* "default 10s"; empty: there is none, or the help text has it. */
static void default_of(const struct mst_setting *row, char *out, size_t room)
{
    char value[64] = "";

    *out = '\0';
    if (row->unit == MST_UNIT_CHOICE) {
        (void)snprintf(out, room, "%s; default %s", row->choices, row->standard_text);
        return;
    }
    if (row->unit == MST_UNIT_FLAG && row->standard != 0) {
        mst_cli_flag_name(row->name, value, sizeof value);
        (void)snprintf(out, room, "default on; --no-%s", value);
        return;
    }
    if (row->unit == MST_UNIT_BYTES) {
        put_number(row->standard, sizes, value, sizeof value);
    } else if (row->unit == MST_UNIT_MS && row->standard > 0) {
        put_number(row->standard, durations, value, sizeof value);
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

    default_of(row, standard, sizeof standard);
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
    bool alone = mst_cli_flag_alone(value->row) != NULL;

    mst_cli_flag_name(value->row->name, name, sizeof name);
    (void)snprintf(flag, sizeof flag, "  %c%c%c --%s%s%s%s", value->letter ? '-' : ' ',
                   value->letter ? value->letter : ' ', value->letter ? ',' : ' ', name,
                   *word == '\0' ? ""
                   : alone       ? "[="
                                 : " ",
                   word, *word && alone ? "]" : "");
    mst_cli_flag_help(value->row, help, sizeof help);
    put_row(flag, strlen(flag), HELP_COLUMN, help);
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

    mst_cli_put("usage: muster %s [flags]%s%s\n\n", command->name, *command->arguments ? " " : "",
                command->arguments);
    (void)put_wrapped(command->summary, 0);
    if (command->details) {
        mst_cli_put("\n");
        put_details(command->details);
    }
    mst_cli_write_flags(cli, &writer);
    if (command->scopes != 0 || command->finds_job) {
        mst_cli_put("\n");
        (void)put_wrapped("Flags outside 'flags' can also be set in the environment: --some-name "
                          "as MUSTER_SOME_NAME.",
                          0);
    }
    mst_cli_put("\nexample:\n%s", command->example);
}

const char mst_cli_purpose[] =
    "keeps a distributed job alive: membership, loss detection, restart in place";

const struct mst_cli_exit_code mst_cli_exit_codes[] = {
    {MST_CLI_OK, "done"},
    {MST_CLI_FAILED, "failed"},
    {MST_CLI_USAGE, "wrong usage"},
    {MST_CLI_REPLICA_ENDED, "a replica of the service ended, and is to be started again"},
    {MST_CLI_DEADLINE, "a deadline passed"},
    {0, NULL},
};

void mst_cli_help_all(void)
{
    char codes[320] = "Exit codes: ";
    size_t used = strlen(codes);

    mst_cli_put("usage: muster COMMAND [flags] [arguments]\n\n");
    (void)put_wrapped(mst_cli_purpose, 0);
    mst_cli_put("\ncommands:\n");
    for (size_t i = 0; i < mst_cli_command_count; i++) {
        char name[32];

        (void)snprintf(name, sizeof name, "  %s", mst_cli_commands[i]->name);
        put_row(name, strlen(name), COMMAND_COLUMN, mst_cli_commands[i]->summary);
    }
    mst_cli_put("\n");
    (void)put_wrapped(
        "'muster COMMAND --help' shows details. 'muster --version' prints the version.", 0);
    for (size_t i = 0; mst_cli_exit_codes[i].text; i++) {
        used += (size_t)snprintf(codes + used, sizeof codes - used, "%s%d %s", i > 0 ? ", " : "",
                                 mst_cli_exit_codes[i].code, mst_cli_exit_codes[i].text);
    }
    (void)snprintf(codes + used, sizeof codes - used, "; 'muster run' has more.");
    (void)put_wrapped(codes, 0);
}
