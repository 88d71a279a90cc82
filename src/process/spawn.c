/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "process/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process/forked.h"

#define STANDARD_PATH "/usr/local/bin:/usr/bin:/bin"

/* ---- which program ---- */

static int executable(const char *path)
{
    struct stat status;

    if (stat(path, &status) != 0) {
        return errno == ENOTDIR ? ENOENT : errno;
    }
    if (!S_ISREG(status.st_mode) || access(path, X_OK) != 0) {
        return EACCES;
    }
    return 0;
}

static int in_folders(const char *folders, const char *program, char path[PATH_MAX])
{
    int worst = ENOENT;

    while (*program != '\0') {
        size_t size = strcspn(folders, ":"); /* an empty folder is the current one */
        int length = snprintf(path, PATH_MAX, "%.*s/%s", size > 0 ? (int)size : 1,
                              size > 0 ? folders : ".", program);
        int error = length < 0 || length >= PATH_MAX ? ENOENT : executable(path);

        if (error == 0) {
            return 0;
        }
        worst = error == EACCES ? EACCES : worst;
        if (folders[size] == '\0') {
            break;
        }
        folders += size + 1;
    }
    return worst;
}

int mst_spawn_find(const char *program, char path[PATH_MAX])
{
    const char *folders = getenv("PATH");

    if (strchr(program, '/') == NULL) {
        return in_folders(folders != NULL ? folders : STANDARD_PATH, program, path);
    }
    return (size_t)snprintf(path, PATH_MAX, "%s", program) < PATH_MAX ? executable(path) : ENOENT;
}

/* 0, or the error number. */
static int path_of(const struct mst_spawn *spawn, char room[PATH_MAX], const char **path_out)
{
    const char *folders = STANDARD_PATH;

    *path_out = spawn->program;
    if (strchr(spawn->program, '/') != NULL) {
        return 0;
    }
    for (char *const *one = spawn->environment; *one != NULL; one++) {
        folders = strncmp(*one, "PATH=", 5) == 0 ? *one + 5 : folders;
    }
    *path_out = room;
    return in_folders(folders, spawn->program, room);
}

/* ---- by posix_spawn ---- */

static int add_stream(posix_spawn_file_actions_t *actions, int fd, int number)
{
    if (fd == MST_SPAWN_NOWHERE) {
        return posix_spawn_file_actions_addopen(actions, number, "/dev/null",
                                                number == STDIN_FILENO ? O_RDONLY : O_WRONLY, 0);
    }
    return fd < 0 ? 0 : posix_spawn_file_actions_adddup2(actions, fd, number);
}

static int add_files(posix_spawn_file_actions_t *actions, const struct mst_spawn *spawn)
{
    const int streams[] = {spawn->input, spawn->out, spawn->error};
    int first = STDERR_FILENO + 1, error = 0;

    for (int number = STDIN_FILENO; number <= STDERR_FILENO && error == 0; number++) {
        error = add_stream(actions, streams[number], number);
    }
    for (unsigned i = 0; i < MST_SPAWN_GIVEN_MAX && spawn->given[i].number != 0; i++) {
        const struct mst_spawn_given *given = &spawn->given[i];

        if (given->fd >= 0 && error == 0) {
            error = posix_spawn_file_actions_adddup2(actions, given->fd, given->number);
            first = given->number >= first ? given->number + 1 : first;
        }
    }
#if defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 34)
    if (spawn->bare && error == 0) {
        error = posix_spawn_file_actions_addclosefrom_np(actions, first);
    }
#endif
#endif
    return error;
}

static void set_attributes(posix_spawnattr_t *attributes, const struct mst_spawn *spawn)
{
    int apart = spawn->session ? POSIX_SPAWN_SETSID : POSIX_SPAWN_SETPGROUP;
    sigset_t blocked, all;

    (void)sigemptyset(&blocked);
    if (spawn->deaf) {
        (void)sigaddset(&blocked, SIGTERM);
    }
    (void)sigfillset(&all);
    (void)posix_spawnattr_setflags(attributes,
                                   (short)(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | apart));
    (void)posix_spawnattr_setpgroup(attributes, 0);
    (void)posix_spawnattr_setsigmask(attributes, &blocked);
    (void)posix_spawnattr_setsigdefault(attributes, &all);
}

int mst_spawn(const struct mst_spawn *spawn, pid_t *pid_out)
{
    char room[PATH_MAX];
    const char *path;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int error = path_of(spawn, room, &path);

    if (error != 0) {
        return error;
    }
    if (posix_spawnattr_init(&attributes) != 0) {
        return ENOMEM;
    }
    if (posix_spawn_file_actions_init(&actions) != 0) {
        (void)posix_spawnattr_destroy(&attributes);
        return ENOMEM;
    }
    set_attributes(&attributes, spawn);
    error = add_files(&actions, spawn);
    if (error == 0) {
        error =
            posix_spawn(pid_out, path, &actions, &attributes, spawn->arguments, spawn->environment);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)posix_spawnattr_destroy(&attributes);
    return error;
}

/* ---- by fork ---- */

/* The pipe closes without a word when exec succeeds. */
static int exec_error(int report)
{
    int error = 0;
    ssize_t got;

    do {
        got = read(report, &error, sizeof error);
    } while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof error ? error : 0;
}

int mst_spawn_tied(const struct mst_spawn *spawn, int death_signal, bool dump, pid_t *pid_out)
{
    char room[PATH_MAX];
    const char *path;
    pid_t parent = getpid(), pid;
    int ends[2], error = path_of(spawn, room, &path);

    if (error != 0) {
        return error;
    }
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return errno;
    }
    pid = mst_forked(NULL); /* no handler of ours may write into our pipes from the child */
    if (pid == 0) {
        mst_forked_exec(
            spawn, path,
            &(struct mst_forked_tie){
                .parent = parent, .signal = death_signal, .dump = dump, .report = ends[1]});
    }
    error = pid < 0 ? errno : 0;
    (void)close(ends[1]);
    if (error == 0) {
        error = exec_error(ends[0]);
        if (error != 0) {
            (void)waitpid(pid, NULL, 0);
        }
    }
    (void)close(ends[0]);
    if (error == 0) {
        *pid_out = pid;
    }
    return error;
}
