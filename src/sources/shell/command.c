/* SPDX-License-Identifier: Apache-2.0 */
/* A command of the user: exit 0 with a line is a notice, exit 1 is none, any other exit is unknown.
 * Its time and its output are limited; a command that exceeds them is killed with all its children.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/system.h"
#include "process/child.h"
#include "sources/words.h"

#define TIME_MS 10000u
#define OUTPUT_MAX 4096u

extern char **environ;

struct command {
    char *line;
    int stop_fd;
};

static bool open_command(void **out, const struct mst_source_setup *setup, char *why, size_t room)
{
    struct command *command = calloc(1, sizeof *command);

    if (command != NULL) {
        command->stop_fd = setup->stop_fd;
        command->line = strdup(setup->argument);
    }
    if (command == NULL || command->line == NULL) {
        free(command);
        (void)snprintf(why, room, "the source of notices 'command': out of memory");
        return false;
    }
    *out = command;
    return true;
}

static void close_command(void *own)
{
    struct command *command = own;

    free(command->line);
    free(command);
}

/* What it says until it closes its output, has said enough, or its time is over. */
struct said {
    char bytes[OUTPUT_MAX + 1]; /* full: it is more than a notice is */
    size_t size;
};

/* 0, or the error number. */
static int start(const struct command *command, int out, struct mst_child *child)
{
    char *const arguments[] = {"sh", "-c", command->line, NULL};
    const struct mst_spawn spawn = {.program = "/bin/sh",
                                    .arguments = arguments,
                                    .environment = environ,
                                    .input = MST_SPAWN_NOWHERE,
                                    .out = out,
                                    .error = MST_SPAWN_OURS};

    return mst_child_start(child, &spawn);
}

static enum mst_source_answer unknown(struct mst_source_notice *out, const char *how, int number)
{
    (void)snprintf(out->reason, sizeof out->reason, "the command %s", how);
    if (number >= 0) {
        size_t size = strlen(out->reason);

        (void)snprintf(out->reason + size, sizeof out->reason - size, " %d", number);
    }
    return MST_SOURCE_UNKNOWN;
}

static enum mst_source_answer judge(int status, const struct said *said,
                                    struct mst_source_notice *out)
{
    if (WIFSIGNALED(status)) {
        return unknown(out, "was ended by signal", WTERMSIG(status));
    }
    if (WEXITSTATUS(status) == 1) {
        return MST_SOURCE_NOTHING;
    }
    if (WEXITSTATUS(status) != 0) {
        return unknown(out, "ended with status", WEXITSTATUS(status));
    }
    if (!mst_source_line(mst_slice_of(said->bytes, said->size), mst_clock_ms(CLOCK_REALTIME),
                         out)) {
        return unknown(out, "ended with status 0 and said nothing", -1);
    }
    if (out->reason[0] == '\0') {
        (void)snprintf(out->reason, sizeof out->reason, "the command says so");
    }
    return MST_SOURCE_NOTICE;
}

static enum mst_source_answer look(void *own, struct mst_source_notice *out)
{
    const struct command *command = own;
    uint64_t until_ns = mst_system_now_ns() + TIME_MS * NS_PER_MS;
    struct said said = {.size = 0};
    int ends[2], status, error;
    struct mst_child child;
    bool whole;

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return unknown(out, "could not be started: errno", errno);
    }
    error = start(command, ends[1], &child);
    (void)close(ends[1]);
    if (error != 0) {
        (void)close(ends[0]);
        return unknown(out, "could not be started: errno", error);
    }
    whole = mst_child_read(ends[0], until_ns, command->stop_fd, said.bytes, sizeof said.bytes,
                           &said.size);
    (void)close(ends[0]);
    if (mst_child_finish(&child, whole ? until_ns : 0, command->stop_fd, &status) ==
            MST_CHILD_ENDED &&
        whole) {
        return judge(status, &said, out);
    }
    if (said.size > OUTPUT_MAX) {
        return unknown(out, "said more than 4 KiB", -1);
    }
    return unknown(out, "did not end in its 10 s", -1);
}

const struct mst_source_kind mst_source_command = {
    .name = "command",
    .argument = "CMD",
    .has_child = true,
    .help = "sh runs it: exit 0 and \"60s why\" is a notice, exit 1 none, any other exit unknown",
    .open = open_command,
    .look = look,
    .close = close_command,
};
