/* SPDX-License-Identifier: Apache-2.0 */
/* The manual pages, from the same tables as the help: one page per command, one of the program, one
 * of the variables of the environment. They are written when the tree is built. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/help.h"
#include "cli/print.h"

#define LINE_COLUMNS 76
#define PATH_BYTES 1024
#define EXIT_CODES "Exit codes: " /* begins the paragraph of a command that has more of them */

struct manual {
    const char *folder, *date;
};

/* ---- roff ---- */

static size_t put_character(char c)
{
    static const struct {
        char c;
        const char *roff;
    } escapes[] = {{'\\', "\\e"},   {'-', "\\-"},   {'`', "\\(ga"},
                   {'\'', "\\(aq"}, {'~', "\\(ti"}, {'^', "\\(ha"}};

    for (size_t i = 0; i < sizeof escapes / sizeof escapes[0]; i++) {
        if (escapes[i].c == c) {
            mst_cli_put("%s", escapes[i].roff);
            return strlen(escapes[i].roff);
        }
    }
    mst_cli_put("%c", c);
    return 1;
}

static size_t put_word(const char *word, size_t size)
{
    size_t columns = 0;

    for (size_t i = 0; i < size; i++) {
        columns += put_character(word[i]);
    }
    return columns;
}

static void put_upper(const char *name)
{
    for (; *name; name++) {
        mst_cli_put("%c", toupper((unsigned char)*name));
    }
}

/* One paragraph, in lines of the source that a person can read; `at` columns are taken. Returns its
 * end. */
static const char *put_behind(size_t at, const char *text)
{
    while (*text != '\0' && *text != '\n') {
        size_t size = strcspn(text, " \n");

        if (at > 0 && at + 1 + size > LINE_COLUMNS) {
            mst_cli_put("\n");
            at = 0;
        }
        if (at > 0) {
            mst_cli_put(" ");
        } else if (*text == '.') { /* which would be a request */
            mst_cli_put("\\&");
        }
        at += (at > 0) + put_word(text, size);
        text += size;
        text += strspn(text, " ");
    }
    mst_cli_put("\n");
    return text;
}

static const char *put_filled(const char *text)
{
    return put_behind(0, text);
}

/* Lines that stay as they are, while they begin with a blank. Returns their end. */
static const char *put_lines(const char *text)
{
    mst_cli_put(".EX\n");
    while (*text == ' ') {
        size_t size = strcspn(text, "\n");

        (void)put_word(text, size);
        mst_cli_put("\n");
        text += size;
        text += *text == '\n';
    }
    mst_cli_put(".EE\n");
    return text;
}

/* Paragraphs, and lines that begin with a blank, up to the exit codes. An empty line parts them. */
static void put_details(const char *text)
{
    bool first = true;

    while (*text && strncmp(text, EXIT_CODES, sizeof EXIT_CODES - 1) != 0) {
        if (*text == '\n') {
            text++;
            continue;
        }
        mst_cli_put("%s", first ? "" : ".PP\n");
        first = false;
        text = *text == ' ' ? put_lines(text) : put_filled(text);
        text += *text == '\n';
    }
}

static void put_heading(const char *heading)
{
    mst_cli_put(".SH %s\n", heading);
}

/* Opens the file of a page, and puts its head. */
static bool begin(const struct manual *manual, const char *name, int section, const char *summary)
{
    char path[PATH_BYTES];
    size_t columns;

    if (snprintf(path, sizeof path, "%s/%s.%d", manual->folder, name, section) >=
            (int)sizeof path ||
        !freopen(path, "w", stdout)) {
        mst_cli_tell("muster: the manual page %s cannot be written: %s", path, strerror(errno));
        return false;
    }
    mst_cli_put(".\\\" Made from the tables of the program; see src/cli/manual.c.\n.TH ");
    put_upper(name);
    mst_cli_put(" %d %s \"muster %s\" \"muster\"\n", section, manual->date, muster_version());
    put_heading("NAME");
    columns = put_word(name, strlen(name));
    mst_cli_put(" \\-");
    (void)put_behind(columns + 3, summary);
    return true;
}

static void put_reference(const char *name, int section, bool last)
{
    mst_cli_put(".BR ");
    (void)put_word(name, strlen(name));
    mst_cli_put(" (%d)%s\n", section, last ? "" : ",");
}

/* ---- a command ---- */

static void put_group(const char *title)
{
    mst_cli_put(".SS ");
    (void)put_filled(title);
}

static void put_flag(const struct mst_cli_value *value)
{
    char name[72], help[384];
    const char *word = mst_cli_flag_word(value->row);
    bool alone = mst_cli_flag_alone(value->row) != NULL;

    mst_cli_flag_name(value->row->name, name, sizeof name);
    mst_cli_flag_help(value->row, help, sizeof help);
    mst_cli_put(".TP\n");
    if (value->letter) {
        mst_cli_put("\\fB\\-%c\\fR, ", value->letter);
    }
    mst_cli_put("\\fB\\-\\-");
    (void)put_word(name, strlen(name));
    mst_cli_put("\\fR");
    if (*word) {
        mst_cli_put(alone ? "[=\\fI" : " \\fI");
        (void)put_word(word, strlen(word));
        mst_cli_put(alone ? "\\fR]" : "\\fR");
    }
    mst_cli_put("\n");
    (void)put_filled(help);
}

static void put_exit_codes(const char *details)
{
    const char *own = details ? strstr(details, EXIT_CODES) : NULL;

    put_heading("EXIT STATUS");
    if (own) {
        (void)put_filled(own + sizeof EXIT_CODES - 1);
        return;
    }
    for (size_t i = 0; mst_cli_exit_codes[i].text; i++) {
        mst_cli_put(".TP\n.B %d\n", mst_cli_exit_codes[i].code);
        (void)put_filled(mst_cli_exit_codes[i].text);
    }
}

static bool put_command(const struct manual *manual, const struct mst_cli_command *command)
{
    static const struct mst_cli_writer writer = {.title = put_group, .flag = put_flag};
    struct mst_cli cli;
    char name[64];

    (void)snprintf(name, sizeof name, "muster-%s", command->name);
    if (!begin(manual, name, 1, command->summary)) {
        return false;
    }
    put_heading("SYNOPSIS");
    mst_cli_put(".B muster %s\n[\\fIflags\\fR]\n", command->name);
    if (*command->arguments) {
        (void)put_filled(command->arguments);
    }
    if (command->details) {
        put_heading("DESCRIPTION");
        put_details(command->details);
    }
    put_heading("OPTIONS");
    mst_cli_take_rows(&cli, command);
    mst_cli_write_flags(&cli, &writer);
    mst_cli_release(&cli);
    if (command->scopes != 0 || command->finds_job) {
        put_heading("ENVIRONMENT");
        (void)put_filled("Flags outside 'flags' can also be set in the environment: --some-name as "
                         "MUSTER_SOME_NAME.");
    }
    put_exit_codes(command->details);
    if (*command->example) {
        put_heading("EXAMPLES");
        (void)put_lines(command->example);
    }
    put_heading("SEE ALSO");
    put_reference("muster", 1, false);
    put_reference("muster-environment", 7, true);
    return true;
}

/* ---- the program ---- */

static bool put_program(const struct manual *manual)
{
    if (!begin(manual, "muster", 1, mst_cli_purpose)) {
        return false;
    }
    put_heading("SYNOPSIS");
    mst_cli_put(".B muster\n\\fIcommand\\fR [\\fIflags\\fR] [\\fIarguments\\fR]\n.br\n"
                ".B muster \\-\\-version\n");
    put_heading("COMMANDS");
    for (size_t i = 0; i < mst_cli_command_count; i++) {
        char name[64];

        (void)snprintf(name, sizeof name, "muster-%s", mst_cli_commands[i]->name);
        mst_cli_put(".TP\n");
        put_reference(name, 1, true);
        (void)put_filled(mst_cli_commands[i]->summary);
    }
    put_exit_codes(NULL);
    put_heading("SEE ALSO");
    put_reference("muster", 7, false);
    put_reference("muster-environment", 7, true);
    return true;
}

/* ---- the environment ---- */

static void put_variable(const char *name, const char *value, const char *help)
{
    mst_cli_put(".TP\n\\fBMUSTER_");
    put_upper(name);
    mst_cli_put("\\fR%s\\fI%s\\fR\n", *value ? "=" : "", value);
    (void)put_filled(help);
}

static void put_setting(const struct mst_setting *row)
{
    char help[384];

    if (row->unit == MST_UNIT_FLAG) {
        (void)snprintf(help, sizeof help, "%s (default %s)", row->help, row->standard_text);
        put_variable(row->name, "0|1", help);
        return;
    }
    mst_cli_flag_help(row, help, sizeof help);
    put_variable(row->name, mst_cli_flag_word(row), help);
}

static bool put_environment(const struct manual *manual)
{
    static const char *const titles[] = {
        [MST_SCOPE_SERVICE] = "The service",
        [MST_SCOPE_LIMIT] = "Limits of the service",
        [MST_SCOPE_CLIENT] = "Programs that open a client, and commands",
        [MST_SCOPE_RUN] = "muster run",
        [MST_SCOPE_RESTART] = "muster_restart_run",
    };

    if (!begin(manual, "muster-environment", 7, "the variables that muster reads")) {
        return false;
    }
    put_heading("DESCRIPTION");
    (void)put_filled(
        "An option that a program sets, or a flag on the command line, overrides the variable, "
        "which overrides the default. Durations take ms, s, m and h, sizes k, m and g.");
    for (size_t scope = MST_SCOPE_SERVICE; scope <= MST_SCOPE_RESTART; scope++) {
        put_group(titles[scope]);
        for (size_t i = 0; i < mst_setting_count; i++) {
            if (mst_settings[i].scope == (enum mst_scope)scope) {
                put_setting(&mst_settings[i]);
            }
        }
    }
    put_group("Other variables");
    for (size_t i = 0; mst_cli_variables[i].name; i++) {
        put_variable(mst_cli_variables[i].name, "", mst_cli_variables[i].help);
    }
    put_heading("SEE ALSO");
    put_reference("muster", 1, true);
    return true;
}

int mst_cli_manual(const char *folder, const char *date)
{
    const struct manual manual = {.folder = folder, .date = date};
    bool well = put_program(&manual) && put_environment(&manual);

    for (size_t i = 0; i < mst_cli_command_count && well; i++) {
        well = put_command(&manual, mst_cli_commands[i]);
    }
    if (well && (ferror(stdout) || fflush(stdout) != 0)) {
        mst_cli_tell("muster: the manual cannot be written: %s", strerror(errno));
        well = false;
    }
    return well ? MST_CLI_OK : MST_CLI_FAILED;
}
