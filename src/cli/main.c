/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/commands.h"

#define PREFIX "MUSTER_"

extern char **environ;

const struct mst_cli_command *const mst_cli_commands[] = {
#ifdef MUSTER_HAS_RUN
    &mst_cli_run,
#endif
    &mst_cli_serve, &mst_cli_status, &mst_cli_key, &mst_cli_barrier,
#ifdef MUSTER_HAS_CHAOS
    &mst_cli_chaos,
#endif
};

const size_t mst_cli_command_count = sizeof mst_cli_commands / sizeof mst_cli_commands[0];

/* Variables that are read and are no settings. */
static const char *const known_variables[] = {"program", "runtime_dir", NULL};

static bool known(const char *name)
{
    for (size_t i = 0; known_variables[i]; i++) {
        if (strcmp(known_variables[i], name) == 0) {
            return true;
        }
    }
    return mst_setting_find(name) != NULL;
}

void mst_cli_warn_environment(void)
{
    char line[512] = "";
    size_t size = 0;

    for (char **one = environ; *one; one++) {
        char name[64];
        size_t length = strcspn(*one, "=");
        size_t i = sizeof PREFIX - 1;

        if (strncmp(*one, PREFIX, i) != 0 || length - i >= sizeof name) {
            continue;
        }
        for (; i < length; i++) {
            name[i - (sizeof PREFIX - 1)] = (char)tolower((unsigned char)(*one)[i]);
        }
        name[length - (sizeof PREFIX - 1)] = '\0';
        if (!known(name) && size + length + 2 < sizeof line) {
            size += (size_t)snprintf(line + size, sizeof line - size, " %.*s", (int)length, *one);
        }
    }
    if (size > 0) {
        mst_cli_tell("muster: warning: nobody reads these variables:%s\n", line);
    }
}

static const struct mst_cli_command *find(const char *name)
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
    mst_cli_tell("muster: unknown %s '%s'%s%s ('muster --help' lists all)\n",
                 *name == '-' ? "flag" : "command", name, near ? "; the nearest is " : "",
                 near ? near : "");
    return MST_CLI_USAGE;
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
    const struct mst_cli_command *command;

    if (argc < 2) {
        mst_cli_tell("muster: which command? ('muster --help' lists them)\n");
        return MST_CLI_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        mst_cli_put("muster %s\n", muster_version());
        return MST_CLI_OK;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        mst_cli_help_all();
        return MST_CLI_OK;
    }
    command = find(argv[1]);
    if (!command) {
        return unknown_command(argv[1]);
    }
    mst_cli_warn_environment();
    return run(command, argv + 2);
}
