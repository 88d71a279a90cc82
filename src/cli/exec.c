/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "launch/run.h"
#include "process/spawn.h"

#define CONNECT_MS 5000

/* What a rank has from `muster run` for scripts written for torchrun. The program is not that rank;
 * the library would take these for a place in the job. */
static void forget_launcher(void)
{
    static const char *const names[] = {
        "RANK",        "ROLE_RANK",           "LOCAL_RANK",
        "GROUP_RANK",  "WORLD_SIZE",          "ROLE_WORLD_SIZE",
        "MASTER_ADDR", "MASTER_PORT",         "LOCAL_WORLD_SIZE",
        "MUSTER_NODE", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"};

    if (getenv("MUSTER_INDEX")) {
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            (void)unsetenv(names[i]);
        }
    }
}

static bool set(const char *name, const char *value)
{
    return (value ? setenv(name, value, 1) : unsetenv(name)) == 0;
}

/* A descriptor may be a pipe, which can be read once: the program inherits a copy. */
static int share(const struct mst_cli *cli, const struct mst_secret *secret)
{
    struct muster_error err;
    char number[16];
    int fd;

    if (mst_secret_share(secret, &fd, &err) != MUSTER_OK) {
        return mst_cli_fail_with(cli, &err);
    }
    (void)snprintf(number, sizeof number, "%d", fd);
    return fcntl(fd, F_SETFD, 0) == 0 && set("MUSTER_SECRET_FILE", NULL) &&
                   set("MUSTER_SECRET_FD", number)
               ? MST_CLI_OK
               : mst_cli_fail(cli, "the secret's descriptor: %s", strerror(errno));
}

/* By its whole path: the program may change its folder. */
static int name_file(const struct mst_cli *cli, const char *file)
{
    char path[PATH_MAX];

    if (file && !realpath(file, path)) {
        return mst_cli_fail(cli, "the secret's file %s: %s", file, strerror(errno));
    }
    return set("MUSTER_SECRET_FD", NULL) && set("MUSTER_SECRET_FILE", file ? path : NULL)
               ? MST_CLI_OK
               : mst_cli_fail(cli, "out of memory");
}

static int set_secret(const struct mst_cli *cli, const struct mst_cli_place *place)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    struct mst_secret secret;
    int code = mst_cli_secret(cli, &secret);

    mst_cli_reach(cli, place, &options);
    if (code == MST_CLI_OK) {
        code = secret.size > 0 && !options.secret_file ? share(cli, &secret)
                                                       : name_file(cli, options.secret_file);
    }
    mst_secret_wipe(&secret);
    return code != MST_CLI_OK || set("MUSTER_INSECURE", options.insecure ? "1" : NULL)
               ? code
               : mst_cli_fail(cli, "out of memory");
}

/* With what the program will find in its environment, so what it could not reach is said here. */
static int try_it(const struct mst_cli *cli)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    muster_client *client;
    struct muster_error err;

    options.role = MUSTER_ROLE_OBSERVER;
    if (muster_client_open(&client, &options, CONNECT_MS, &err) != MUSTER_OK) {
        return mst_cli_fail_with(cli, &err);
    }
    muster_client_close(client);
    return MST_CLI_OK;
}

static int prepare(const struct mst_cli *cli)
{
    struct mst_cli_place place;
    int code = mst_cli_locate(cli, &place);

    if (code != MST_CLI_OK) {
        return code;
    }
    forget_launcher();
    mst_cli_forget_place();
    code = set_secret(cli, &place);
    if (code == MST_CLI_OK && !(set("MUSTER_ADDR", place.addr) && set("MUSTER_JOB", place.job))) {
        code = mst_cli_fail(cli, "out of memory");
    }
    return code == MST_CLI_OK ? try_it(cli) : code;
}

static int cannot_start(const struct mst_cli *cli, const char *program, int error)
{
    (void)mst_cli_fail(cli, "'%s' cannot be started: %s", program, strerror(error));
    return error == ENOENT ? MST_EXIT_NOT_FOUND : MST_EXIT_NOT_EXECUTABLE;
}

static int run(struct mst_cli *cli)
{
    char path[PATH_MAX];
    int error;
    int code;

    if (cli->argument_count == 0) {
        return mst_cli_usage(
            cli, "the program is missing; usage: muster exec -j JOB -- PROGRAM ARGUMENTS");
    }
    error = mst_spawn_find(cli->arguments[0], path);
    if (error != 0) {
        return cannot_start(cli, cli->arguments[0], error);
    }
    code = prepare(cli);
    if (code != MST_CLI_OK) {
        return code == MST_CLI_USAGE ? code : MST_EXIT_LAUNCHER;
    }
    (void)execv(path, cli->arguments);
    return cannot_start(cli, cli->arguments[0], errno);
}

const struct mst_cli_command mst_cli_exec = {
    .name = "exec",
    .arguments = "-- PROGRAM [ARGUMENTS]",
    .summary = "run a program in the environment of a running job",
    .details =
        "The program replaces this process. It finds MUSTER_ADDR, MUSTER_JOB and, if the job "
        "has a secret, MUSTER_SECRET_FILE or MUSTER_SECRET_FD, as a rank of `muster run` "
        "does, but no place: opened as an observer it reads and writes the job's keys, opened "
        "as a rank it joins the job. The service is reached once before.\n"
        "\n"
        "Exit codes: the program's; 125 no such job, or its service cannot be reached, 126 the "
        "program cannot be executed, 127 it is not found.\n",
    .example = "  muster exec -j train -- python3 watch_loss.py\n",
    .finds_job = true,
    .runs_program = true,
    .run = run,
};
