/* SPDX-License-Identifier: Apache-2.0 */
/* Shell completion. Each shell has one short function, which runs this program for the words that
 * can stand at the cursor: `muster completion SHELL WORDS...`, the last word being the one that is
 * typed. So the offered words are those that this program accepts, and a job's names and indices
 * are current.
 *
 * An answer is one word per line, in the shell's own form, or one of ":files", ":folders" and
 * ":commands", which the shell completes itself. Words that a shell would not read literally are
 * not offered: another user may have chosen the name of a key. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/help.h"
#include "cli/print.h"
#include "net/socket_dir.h"
#include "proto/words.h"

#define LIMIT_S 1 /* a service that does not answer is not waited for longer */
#define ANSWER_MS 1000
#define JOBS_MAX 64
#define WORDS_MAX 1024
#define ABOUT_BYTES 256

enum shell { BASH, ZSH, FISH };

static const char *const shells[] = {"bash", "zsh", "fish"};

static const char *const scripts[] = {
    "# muster for bash; made by 'muster completion bash'.\n"
    "_muster()\n"
    "{\n"
    "    local current=${COMP_WORDS[COMP_CWORD]} glued i\n"
    "    local -a line=() answers=()\n"
    "    for ((i = 1; i <= COMP_CWORD; i++)); do # bash parts words at '=' and ':'\n"
    "        if ((${#line[@]})) && [[ ${COMP_WORDS[i]} == [=:]* || ${COMP_WORDS[i - 1]} == [=:] "
    "]]; then\n"
    "            line[${#line[@]}-1]+=${COMP_WORDS[i]}\n"
    "        else\n"
    "            line+=(\"${COMP_WORDS[i]}\")\n"
    "        fi\n"
    "    done\n"
    "    [[ $current != [=:] ]] || current=\n"
    "    glued=${line[${#line[@]}-1]%\"$current\"}\n"
    "    mapfile -t answers < <(\"${COMP_WORDS[0]}\" completion bash \"${line[@]}\" 2>/dev/null)\n"
    "    COMPREPLY=()\n"
    "    case ${answers[0]-} in\n"
    "    :files) compopt -o default ;;\n"
    "    :folders) compopt -o dirnames ;;\n"
    "    :commands)\n"
    "        compopt -o default\n"
    "        [[ -z $current || $current == */* ]] || mapfile -t COMPREPLY < <(compgen -c -- "
    "\"$current\")\n"
    "        ;;\n"
    "    ?*) COMPREPLY=(\"${answers[@]#\"$glued\"}\") ;;\n"
    "    esac\n"
    "}\n"
    "complete -F _muster muster\n",

    "#compdef muster\n"
    "# muster for zsh; made by 'muster completion zsh'.\n"
    "_muster()\n"
    "{\n"
    "    local -a answers\n"
    "    answers=(\"${(@f)$(\"${(Q)words[1]}\" completion zsh \"${(@Q)words[2,CURRENT]}\" "
    "2>/dev/null)}\")\n"
    "    case $answers[1] in\n"
    "    :files) compset -P '--*='; _files ;;\n"
    "    :folders) compset -P '--*='; _files -/ ;;\n"
    "    :commands) _command_names -e || _files ;;\n"
    "    ?*) _describe muster answers ;;\n"
    "    esac\n"
    "}\n"
    "if [[ $funcstack[1] == _muster ]]; then\n"
    "    _muster \"$@\"\n"
    "else\n"
    "    compdef _muster muster\n"
    "fi\n",

    "# muster for fish; made by 'muster completion fish'.\n"
    "function __muster_answers\n"
    "    set -l words (commandline -opc)\n"
    "    set -l current (commandline -ct)\n"
    "    set -l program $words[1]\n"
    "    set -e words[1]\n"
    "    set -l answers ($program completion fish $words \"$current\" 2>/dev/null)\n"
    "    set -l glued (string match -r -- '^--[^=]*=' \"$current\")\n"
    "    set -l rest (string replace -r -- '^--[^=]*=' '' \"$current\")\n"
    "    switch \"$answers[1]\"\n"
    "        case :files\n"
    "            string join -- \\n \"$glued\"(__fish_complete_path \"$rest\")\n"
    "        case :folders\n"
    "            string join -- \\n \"$glued\"(__fish_complete_directories \"$rest\")\n"
    "        case :commands\n"
    "            complete -C \"$current\"\n"
    "        case '*'\n"
    "            string join -- \\n $answers\n"
    "    end\n"
    "end\n"
    "complete -c muster -f -a '(__muster_answers)'\n",
};

/* Where the cursor is. */
struct line {
    enum shell shell;
    const struct mst_cli_command *command;
    struct mst_cli flags;
    char **words; /* those before the current one, behind the command's name */
    size_t count;
    const char *current;
    const char *part;                   /* of `current`: behind "--flag=", else all of it */
    const struct mst_cli_value *wanted; /* the flag whose value is typed */
    const char *first;                  /* the first argument, or NULL */
    size_t arguments;                   /* that stand before the current word */
    bool only_arguments;                /* "--" stands before it */
    size_t offered;
};

/* ---- saying it ---- */

static bool is_plain(const char *word)
{
    for (const char *c = word; *c; c++) {
        if (!isalnum((unsigned char)*c) && !strchr("_-./:,@%+=", *c)) {
            return false;
        }
    }
    return *word != '\0' && *word != ':';
}

/* The word, after the typed "--flag=" if there is one, when it begins like the typed part. */
static void offer(struct line *line, const char *word, const char *about)
{
    if (strncmp(word, line->part, strlen(line->part)) != 0 || !is_plain(word)) {
        return;
    }
    line->offered++;
    for (const char *c = line->current; c < line->part; c++) {
        mst_cli_put("%c", *c);
    }
    for (const char *c = word; *c; c++) {
        mst_cli_put("%s%c", line->shell == ZSH && *c == ':' ? "\\" : "", *c);
    }
    if (line->shell != BASH && about && *about) {
        mst_cli_say("%c%.*s", line->shell == ZSH ? ':' : '\t', (int)strcspn(about, "\n"), about);
    }
    mst_cli_put("\n");
}

/* Each word of a list that is parted by any of `by`. */
static void offer_each(struct line *line, const char *list, size_t size, const char *by)
{
    const char *end = list + size;

    while (list < end) {
        char word[64];
        size_t length = strcspn(list, by);

        length = length < (size_t)(end - list) ? length : (size_t)(end - list);
        (void)snprintf(word, sizeof word, "%.*s", (int)length, list);
        offer(line, word, NULL);
        list += length;
        list += list < end ? strspn(list, by) : 0;
    }
}

/* ---- what a job knows ---- */

static void offer_jobs(struct line *line)
{
    struct mst_socket_found found[JOBS_MAX];
    size_t count = 0;

    if (mst_socket_list(found, JOBS_MAX, &count, NULL) != MUSTER_OK) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        char about[ABOUT_BYTES];

        (void)snprintf(about, sizeof about, "process %d", (int)found[i].pid);
        offer(line, found[i].job, about);
    }
}

static void offer_indices(struct line *line, muster_client *client)
{
    muster_members *members = NULL;

    if (muster_member_list(client, ANSWER_MS, &members, NULL) != MUSTER_OK) {
        return;
    }
    for (size_t i = 0; i < muster_members_count(members); i++) {
        const struct muster_member *member = muster_members_get(members, i);
        char word[24], about[ABOUT_BYTES];

        if (member->role == MUSTER_ROLE_RANK && member->state != MUSTER_MEMBER_LOST &&
            member->state != MUSTER_MEMBER_LEFT) {
            (void)snprintf(word, sizeof word, "%u", (unsigned)member->index);
            (void)snprintf(about, sizeof about, "%s, node %s",
                           mst_state_word((enum mst_state)member->state), member->host);
            offer(line, word, about);
        }
    }
    muster_members_free(members);
}

static void offer_keys(struct line *line, muster_client *client)
{
    muster_keys *keys = NULL;

    if (muster_key_list(client, line->part, NULL, ANSWER_MS, &keys, NULL) != MUSTER_OK) {
        return;
    }
    for (size_t i = 0; i < muster_keys_count(keys); i++) {
        offer(line, muster_keys_name(keys, i), NULL);
    }
    muster_keys_free(keys);
}

/* Asks the job that the flags before the cursor mean, or the one that runs here. */
static void ask_job(struct line *line, void (*ask)(struct line *line, muster_client *client))
{
    char *typed[WORDS_MAX + 1];
    struct mst_cli_place place;
    muster_client *client = NULL;
    struct mst_cli cli;

    if (!line->command->finds_job) {
        return;
    }
    memcpy(typed, line->words, line->count * sizeof typed[0]);
    typed[line->count] = NULL;
    if (mst_cli_parse(&cli, line->command, typed) == MST_CLI_OK &&
        mst_cli_observe(&cli, &client, &place) == MST_CLI_OK) {
        ask(line, client);
        muster_client_close(client);
    }
    mst_cli_release(&cli);
}

/* ---- flags ---- */

static void offer_flag(struct line *line, const struct mst_cli_value *value)
{
    const struct mst_setting *row = value->row;
    char name[72], word[80];

    mst_cli_flag_name(row->name, name, sizeof name);
    (void)snprintf(word, sizeof word, "--%s", name);
    offer(line, word, row->help);
    if (row->unit == MST_UNIT_FLAG && row->standard != 0) {
        (void)snprintf(word, sizeof word, "--no-%s", name);
        offer(line, word, row->help);
    }
}

static void offer_flags(struct line *line)
{
    for (size_t i = 0; i < line->flags.value_count; i++) {
        offer_flag(line, &line->flags.values[i]);
    }
    offer(line, "--help", "what the command does, and its flags");
}

/* A word of a usage line, or of a flag's value, that the shell completes. */
static void leave_kind_to_shell(struct line *line, const char *word, size_t size)
{
    static const struct {
        const char *word, *shell;
    } kinds[] = {
        {"PROGRAM", ":commands"}, {"FILE", ":files"}, {"DIR", ":folders"}, {"FOLDER", ":folders"}};

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strlen(kinds[i].word) == size && strncmp(kinds[i].word, word, size) == 0) {
            line->offered++;
            mst_cli_put("%s\n", kinds[i].shell);
        }
    }
}

static void offer_value(struct line *line, const struct mst_setting *row)
{
    const char *word = mst_cli_flag_word(row);

    if (row->unit == MST_UNIT_CHOICE) {
        offer_each(line, row->choices, strlen(row->choices), ", ");
    } else if (strcmp(row->name, "job") == 0 && line->command->finds_job) {
        offer_jobs(line);
    } else {
        leave_kind_to_shell(line, word, strlen(word));
    }
}

/* ---- arguments: as the usage line of the command has them ---- */

/* The `at`-th word of "put NAME VALUE   and what it does"; the last one is meant again and again
 * where it ends with dots. What stands behind a flag is the flag's. Returns its size, 0: none. */
static size_t usage_word(const char *usage, size_t at, const char **out)
{
    bool of_flag = false;

    *out = usage;
    while (*usage && *usage != ' ' && *usage != ',') {
        size_t size = strcspn(usage, " ,");
        const char *word = usage + (*usage == '[');
        bool flag = *word == '-';

        if (!flag && !of_flag &&
            (at == 0 || (size > 3 && strncmp(usage + size - 3, "...", 3) == 0))) {
            *out = word;
            return strcspn(word, " ,].");
        }
        at -= !flag && !of_flag;
        of_flag = flag && size > 2;
        of_flag = of_flag || (flag && size == 2 && word[1] != '-');
        usage += size;
        usage += *usage == ' ' && usage[1] != ' ';
    }
    return 0;
}

/* The line of the details that describes an action: they begin with two blanks and its name. */
static const char *action_line(const char *details, const char *name)
{
    size_t size = strlen(name);

    for (; details && *details; details = strchr(details, '\n')) {
        details += *details == '\n';
        if (strncmp(details, "  ", 2) == 0 && strncmp(details + 2, name, size) == 0 &&
            details[2 + size] == ' ') {
            return details + 2;
        }
    }
    return "";
}

static void offer_actions(struct line *line)
{
    for (const char *at = line->command->details; at && *at; at = strchr(at, '\n')) {
        char word[32];

        at += *at == '\n';
        if (strncmp(at, "  ", 2) == 0 && islower((unsigned char)at[2])) {
            const char *about = strstr(at + 2, "  ");

            (void)snprintf(word, sizeof word, "%.*s", (int)strcspn(at + 2, " "), at + 2);
            offer(line, word, about ? about + strspn(about, " ") : NULL);
        }
    }
}

/* The meaning of a word of a usage line: itself, or a kind of argument. */
static void offer_kind(struct line *line, const char *word, size_t size, bool of_key)
{
    leave_kind_to_shell(line, word, size);
    if (islower((unsigned char)*word)) {
        offer_each(line, word, size, "|");
    } else if (size == 5 && strncmp(word, "INDEX", size) == 0) {
        ask_job(line, offer_indices);
    } else if (of_key && ((size == 4 && strncmp(word, "NAME", size) == 0) ||
                          (size == 6 && strncmp(word, "PREFIX", size) == 0))) {
        ask_job(line, offer_keys);
    }
}

static void offer_arguments(struct line *line)
{
    static const char or [] = ", or ";
    const char *usage = line->command->arguments;
    const char *word;
    bool actions = strncmp(usage, "ACTION", 6) == 0;

    if (actions && line->arguments == 0) {
        offer_actions(line);
        return;
    }
    if (actions) {
        usage = action_line(line->command->details, line->first);
    }
    while (usage) {
        size_t size = usage_word(usage, line->arguments, &word);

        if (size > 0) {
            offer_kind(line, word, size, actions);
        }
        usage = actions ? NULL : strstr(usage, or);
        usage = usage ? usage + sizeof or -1 : NULL;
    }
}

/* ---- the line ---- */

static void read_word(struct line *line, const char *word)
{
    const struct mst_cli_value *flag = NULL;

    if (line->wanted) {
        line->wanted = NULL;
    } else if (strcmp(word, "--") == 0 && !line->only_arguments) {
        line->only_arguments = true;
    } else if (*word == '-' && word[1] != '\0' && !line->only_arguments) {
        flag = mst_cli_flag_of(&line->flags, word, strlen(word));
        line->wanted = flag && !mst_cli_flag_alone(flag->row) ? flag : NULL;
    } else {
        line->first = line->first ? line->first : word;
        line->arguments++;
        line->only_arguments = line->only_arguments || line->command->runs_program;
    }
}

static void complete_line(struct line *line)
{
    const char *equals;

    mst_cli_take_rows(&line->flags, line->command);
    for (size_t i = 0; i < line->count; i++) {
        read_word(line, line->words[i]);
    }
    equals = strchr(line->current, '=');
    if (!line->wanted && !line->only_arguments && equals && *line->current == '-') {
        line->wanted =
            mst_cli_flag_of(&line->flags, line->current, (size_t)(equals - line->current));
        line->part = line->wanted ? equals + 1 : line->part;
    }
    if (line->wanted) {
        offer_value(line, line->wanted->row);
    } else if (line->command->runs_program && line->arguments > 0) {
        mst_cli_put(":files\n");
    } else if (*line->current == '-' && !line->only_arguments) {
        offer_flags(line);
    } else {
        offer_arguments(line);
        if (line->offered == 0 && *line->current == '\0' && !line->only_arguments) {
            offer_flags(line);
        }
    }
    mst_cli_release(&line->flags);
}

static void complete_command(struct line *line)
{
    for (size_t i = 0; i < mst_cli_command_count; i++) {
        offer(line, mst_cli_commands[i]->name, mst_cli_commands[i]->summary);
    }
    if (*line->current == '-') {
        offer(line, "--help", "the commands");
        offer(line, "--version", "the version");
    }
}

static int answer(const struct mst_cli *cli, enum shell shell)
{
    size_t count = (size_t)cli->argument_count - 1;
    char **words = cli->arguments + 1;
    struct line line = {.shell = shell, .current = words[count - 1], .part = words[count - 1]};

    /* Errors are not shown, and the shell must not wait. */
    if (count > WORDS_MAX || !freopen("/dev/null", "w", stderr)) {
        return MST_CLI_FAILED;
    }
    (void)alarm(LIMIT_S);
    if (count == 1) {
        complete_command(&line);
    } else if ((line.command = mst_cli_find(words[0])) != NULL) {
        line.words = words + 1;
        line.count = count - 2;
        complete_line(&line);
    }
    return mst_cli_finish_output(cli);
}

static int run(struct mst_cli *cli)
{
    size_t i = 0;

    while (i < sizeof shells / sizeof shells[0] &&
           (cli->argument_count == 0 || strcmp(cli->arguments[0], shells[i]) != 0)) {
        i++;
    }
    if (i == sizeof shells / sizeof shells[0]) {
        return mst_cli_usage(cli, "a shell is missing; usage: muster completion bash|zsh|fish");
    }
    if (cli->argument_count > 1) {
        return answer(cli, (enum shell)i);
    }
    mst_cli_put("%s", scripts[i]);
    return mst_cli_finish_output(cli);
}

const struct mst_cli_command mst_cli_completion = {
    .name = "completion",
    .arguments = "bash|zsh|fish",
    .summary = "print a shell script that completes the words of `muster`",
    .details =
        "It completes commands, flags and their values, files, the names of the jobs that run "
        "here, the ranks and keys of a job. Shells find the script by themselves if `make install` "
        "has put it under /usr or /usr/local; otherwise add one line to the shell's start file.\n",
    .example = "  source <(muster completion bash)       # in ~/.bashrc\n"
               "  source <(muster completion zsh)        # in ~/.zshrc, behind compinit\n"
               "  muster completion fish | source        # in ~/.config/fish/config.fish\n",
    .runs_program = true,
    .run = run,
};
