/* SPDX-License-Identifier: Apache-2.0 */
/* A command that the user has: "exit 0 with a line" is a notice, "exit 1" is none, all else means
 * that it does not know. It has little time and little to say; what does not heed that is killed
 * with all that it started. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sources/words.h"

#define TIME_MS 10000
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

static int64_t clock_ms(clockid_t clock)
{
    struct timespec now;

    (void)clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* In a process group of its own, with the signals as a program expects them. */
static int spawn(const struct command *command, int out, pid_t *pid)
{
    char *const arguments[] = {"sh", "-c", command->line, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t set;
    int error;

    error = posix_spawn_file_actions_init(&actions);
    if (error != 0) {
        return error;
    }
    error = posix_spawnattr_init(&attributes);
    if (error != 0) {
        (void)posix_spawn_file_actions_destroy(&actions);
        return error;
    }
    (void)posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    (void)posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                                    POSIX_SPAWN_SETSIGDEF);
    (void)posix_spawnattr_setpgroup(&attributes, 0);
    (void)sigemptyset(&set);
    (void)posix_spawnattr_setsigmask(&attributes, &set);
    (void)sigfillset(&set);
    (void)posix_spawnattr_setsigdefault(&attributes, &set);
    error = posix_spawn(pid, "/bin/sh", &actions, &attributes, arguments, environ);
    (void)posix_spawnattr_destroy(&attributes);
    (void)posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* What it says until it closes its output, has said enough, or its time is over. */
struct said {
    char bytes[OUTPUT_MAX + 1]; /* full: it is more than a notice is */
    size_t size;
    bool whole; /* it came to the end by itself */
};

static void listen_to(const struct command *command, int fd, struct said *said)
{
    int64_t until_ms = clock_ms(CLOCK_MONOTONIC) + TIME_MS;

    while (said->size < sizeof said->bytes) {
        struct pollfd fds[2] = {{.fd = fd, .events = POLLIN},
                                {.fd = command->stop_fd, .events = POLLIN}};
        int64_t left_ms = until_ms - clock_ms(CLOCK_MONOTONIC);
        ssize_t size;

        if (left_ms <= 0 || poll(fds, 2, (int)left_ms) == 0 || fds[1].revents != 0) {
            return;
        }
        size = read(fd, said->bytes + said->size, sizeof said->bytes - said->size);
        if (size < 0 && (errno == EINTR || errno == EAGAIN)) {
            continue;
        }
        if (size <= 0) {
            said->whole = size == 0;
            return;
        }
        said->size += (size_t)size;
    }
}

/* Whether it ends in its time; it is a zombie then, so that its group's number stays its own. */
static bool await_end(const struct command *command, pid_t pid)
{
    struct pollfd stop = {.fd = command->stop_fd, .events = POLLIN};
    int64_t until_ms = clock_ms(CLOCK_MONOTONIC) + TIME_MS;
    siginfo_t info;
    int pause_ms = 1;

    for (;;) {
        info.si_pid = 0;
        if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            info.si_pid == pid) {
            return true;
        }
        if (clock_ms(CLOCK_MONOTONIC) >= until_ms || poll(&stop, 1, pause_ms) > 0) {
            return false;
        }
        pause_ms = pause_ms < 100 ? pause_ms * 2 : pause_ms;
    }
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
    if (!mst_source_line(mst_slice_of(said->bytes, said->size), clock_ms(CLOCK_REALTIME), out)) {
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
    struct said said = {.size = 0};
    int ends[2], status, error;
    pid_t pid;
    bool ended;

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return unknown(out, "could not be started: errno", errno);
    }
    error = spawn(command, ends[1], &pid);
    (void)close(ends[1]);
    if (error != 0) {
        (void)close(ends[0]);
        return unknown(out, "could not be started: errno", error);
    }
    listen_to(command, ends[0], &said);
    (void)close(ends[0]);
    ended = said.whole && await_end(command, pid);
    (void)kill(-pid, SIGKILL);
    (void)waitpid(pid, &status, 0);
    if (said.size > OUTPUT_MAX) {
        return unknown(out, "said more than 4 KiB", -1);
    }
    return ended ? judge(status, &said, out) : unknown(out, "did not end in its 10 s", -1);
}

const struct mst_source_kind mst_source_command = {
    .name = "command",
    .argument = "CMD",
    .has_child = true,
    .help = "sh runs it: exit 0 and \"60s why\" is a notice, exit 1 none, all else is not known",
    .open = open_command,
    .look = look,
    .close = close_command,
};
