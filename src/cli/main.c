/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/help.h"

#define PREFIX "MUSTER_"

extern char **environ;

const struct mst_cli_command *const mst_cli_commands[] = {
    &mst_cli_run,     &mst_cli_serve,      &mst_cli_status, &mst_cli_key,
    &mst_cli_barrier, &mst_cli_round,      &mst_cli_chaos,  &mst_cli_replay,
    &mst_cli_env,     &mst_cli_completion, &mst_cli_agent,  &mst_cli_preempt,
};

const size_t mst_cli_command_count = sizeof mst_cli_commands / sizeof mst_cli_commands[0];

/* The unknown variables that a command above this one has warned of already. */
#define TOLD "MUSTER_UNKNOWN"

const struct mst_cli_variable mst_cli_variables[] = {
    {"program", "path of the program `muster`, for a library that starts it"},
    {"nproc_per_node", "the same as MUSTER_NPROC; the name that torchrun uses"},
    {"runtime_dir", "folder of the sockets by which commands find a job"},
    {"state_dir", "folder of the secrets of runs over several nodes"},
    {"unknown", "variables that a warning named already; set by muster"},
    {NULL, NULL},
};

static bool known(const char *name)
{
    for (size_t i = 0; mst_cli_variables[i].name; i++) {
        if (strcmp(mst_cli_variables[i].name, name) == 0) {
            return true;
        }
    }
    return mst_setting_find(name) != NULL;
}

/* `variable` is an entry of the environment. */
static bool unknown(const char *variable, size_t length)
{
    char name[64];
    size_t size = length - (sizeof PREFIX - 1);

    if (strncmp(variable, PREFIX, sizeof PREFIX - 1) != 0 || size >= sizeof name) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        name[i] = (char)tolower((unsigned char)variable[sizeof PREFIX - 1 + i]);
    }
    name[size] = '\0';
    return !known(name);
}

static bool told(const char *list, const char *name, size_t length)
{
    for (; list && *list; list += strcspn(list, " ")) {
        list += strspn(list, " ");
        if (strcspn(list, " ") == length && strncmp(list, name, length) == 0) {
            return true;
        }
    }
    return false;
}

void mst_cli_warn_environment(void)
{
    const char *before = getenv(TOLD);
    char line[512] = "", all[1024];
    size_t size = 0;

    for (char **one = environ; *one; one++) {
        size_t length = strcspn(*one, "=");

        if (unknown(*one, length) && !told(before, *one, length) &&
            size + length + 2 < sizeof line) {
            size += (size_t)snprintf(line + size, sizeof line - size, " %.*s", (int)length, *one);
        }
    }
    if (size > 0) {
        mst_cli_tell("muster: warning: nobody reads these variables:%s", line);
        (void)snprintf(all, sizeof all, "%.511s%s", before ? before : "", line);
        (void)setenv(TOLD, all, 1);
    }
}

const struct mst_cli_command *mst_cli_find(const char *name)
{
    for (size_t i = 0; i < mst_cli_command_count; i++) {
        if (strcmp(mst_cli_commands[i]->name, name) == 0) {
            return mst_cli_commands[i];
        }
    }
    return NULL;
}

static int unknown_command(const char *name)
{
    const char *words[32] = {NULL};
    const char *near;

    for (size_t i = 0; i < mst_cli_command_count; i++) {
        words[i] = mst_cli_commands[i]->name;
    }
    near = mst_cli_nearest(name, words);
    mst_cli_tell("muster: unknown %s '%s'%s%s ('muster --help' lists all)",
                 *name == '-' ? "flag" : "command", name, near ? "; the nearest is " : "",
                 near ? near : "");
    return MST_CLI_USAGE;
}

/* A standard descriptor that is closed would be the first that a socket gets, and be taken for the
 * terminal. What stands in for it fails as a closed one does. */
static bool hold_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 &&
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd) {
            return false;
        }
    }
    return true;
}

static int run(const struct mst_cli_command *command, char **argv)
{
    struct mst_cli cli;
    int code = mst_cli_parse(&cli, command, argv);

    if (code == -1) {
        mst_cli_help(&cli);
        code = MST_CLI_OK;
    } else if (code == MST_CLI_OK) {
        code = command->run(&cli);
    }
    mst_cli_release(&cli);
    return code;
}

static int help_of(const char *name)
{
    const struct mst_cli_command *command = mst_cli_find(name);
    struct mst_cli cli;

    if (!command) {
        return unknown_command(name);
    }
    mst_cli_take_rows(&cli, command);
    mst_cli_help(&cli);
    mst_cli_release(&cli);
    return MST_CLI_OK;
}

int main(int argc, char **argv)
{
    const struct mst_cli_command *command;

    (void)prctl(PR_SET_NAME,
                "muster"); /* what ran it may have named it otherwise, as /proc/self/exe */
    if (!hold_standard_descriptors()) {
        return MST_CLI_FAILED;
    }
    if (argc < 2) {
        mst_cli_tell("muster: which command? ('muster --help' lists them)");
        return MST_CLI_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        mst_cli_put("muster %s\n", muster_version());
        return MST_CLI_OK;
    }
    if (strcmp(argv[1], "help") == 0 && argc > 2) {
        return help_of(argv[2]);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        mst_cli_help_all();
        return MST_CLI_OK;
    }
    if (strcmp(argv[1], "--manual") == 0 && argc == 4) {
        return mst_cli_manual(argv[2], argv[3]); /* the build calls it */
    }
    command = mst_cli_find(argv[1]);
    if (!command) {
        return unknown_command(argv[1]);
    }
    mst_cli_warn_environment();
    return run(command, argv + 2);
}
