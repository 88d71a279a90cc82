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
    &mst_cli_run,   &mst_cli_serve,   &mst_cli_status, &mst_cli_key, &mst_cli_barrier,
    &mst_cli_round, &mst_cli_chaos,   &mst_cli_replay, &mst_cli_env, &mst_cli_completion,
    &mst_cli_agent, &mst_cli_preempt, &mst_cli_exec,   &mst_cli_why, &mst_cli_top,
};

const size_t mst_cli_command_count = sizeof mst_cli_commands / sizeof mst_cli_commands[0];

/* The unknown variables that a command above this one has warned of already. */
#define WARNED "MUSTER_UNKNOWN"
#define NAME_ROOM (sizeof PREFIX - 1 + 64) /* of a variable; a longer one is not looked at */

const struct mst_cli_variable mst_cli_variables[] = {
    {"bind", "CPUs of each process of muster run, as --bind"},
    {"program", "path of the program `muster`, for a library that starts it"},
    {"nproc_per_node", "the same as MUSTER_NPROC; the name that torchrun uses"},
    {"runtime_dir", "folder of the sockets by which commands find a job"},
    {"state_dir", "folder of the secrets of runs over several nodes"},
    {"unknown", "variables that a warning named already; set by muster"},
    {NULL, NULL},
};

/* `variable` is a name of the environment that begins with PREFIX. */
static bool is_known(const char *variable)
{
    char name[NAME_ROOM];
    size_t size = 0;

    for (const char *c = variable + sizeof PREFIX - 1; *c; c++) {
        name[size++] = (char)tolower((unsigned char)*c);
    }
    name[size] = '\0';
    for (size_t i = 0; mst_cli_variables[i].name; i++) {
        if (strcmp(mst_cli_variables[i].name, name) == 0) {
            return true;
        }
    }
    return mst_setting_find(name) != NULL;
}

void mst_cli_warn_environment(void)
{
    const char *warned = getenv(WARNED);
    char line[512] = "", all[1024];
    size_t used = 0;

    warned = warned ? warned : "";
    for (char **one = environ; *one; one++) {
        char name[NAME_ROOM];
        size_t size = (size_t)snprintf(name, sizeof name, "%.*s", (int)strcspn(*one, "="), *one);

        if (size < sizeof name && strncmp(name, PREFIX, sizeof PREFIX - 1) == 0 &&
            !is_known(name) && !mst_cli_listed(warned, name) && used + size + 2 < sizeof line) {
            used += (size_t)snprintf(line + used, sizeof line - used, " %s", name);
        }
    }
    if (used > 0) {
        mst_cli_tell("muster: warning: unknown variables, which have no effect:%s", line);
        (void)snprintf(all, sizeof all, "%.511s%s", warned, line);
        (void)setenv(WARNED, all, 1);
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

int main(int argc, char **argv)
{
    static char help_flag[] = "--help";
    const struct mst_cli_command *command;
    bool help;

    /* The program that ran it may have named it otherwise, as /proc/self/exe. */
    (void)prctl(PR_SET_NAME, "muster");
    if (!hold_standard_descriptors()) {
        return MST_CLI_FAILED;
    }
    if (argc < 2) {
        mst_cli_tell("muster: a command is missing ('muster --help' lists them)");
        return MST_CLI_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        mst_cli_put("muster %s\n", muster_version());
        return MST_CLI_OK;
    }
    help = strcmp(argv[1], "help") == 0;
    if (help && argc > 2) {
        command = mst_cli_find(argv[2]);
        return command ? run(command, (char *[]){help_flag, NULL}) : unknown_command(argv[2]);
    }
    if (help || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
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
