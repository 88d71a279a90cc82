/* SPDX-License-Identifier: Apache-2.0 */
/* The last step of a command, in a process that was forked from one that may have had threads: so
 * execvpe, which is not async-signal-safe, is done here by execve. It looks for the program in the
 * PATH that the command gets. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tasks/shell/worker/child.h"

#define STANDARD_PATH "/bin:/usr/bin"

static char shell[] = "/bin/sh";

/* Three lists, each ended by NULL; `script` is `words` with one more before it. */
struct command {
    char **script, **words, **variables;
};

static char **list_of(char **at, const char *end, char **list, uint32_t count)
{
    for (uint32_t i = 0; i < count && *at < end; i++) {
        *list++ = *at;
        *at += strlen(*at) + 1;
    }
    *list++ = NULL;
    return list;
}

static bool read_command(int file, struct command *out)
{
    struct stat status;
    uint32_t counts[2];
    char *bytes, *at;

    if (fstat(file, &status) != 0) {
        return false;
    }
    bytes = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    if (bytes == MAP_FAILED) {
        return false;
    }
    memcpy(counts, bytes, sizeof(counts));
    out->script = mmap(NULL, ((size_t)counts[0] + counts[1] + 3) * sizeof(char *),
                       PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (out->script == MAP_FAILED) {
        return false;
    }
    at = bytes + sizeof(counts);
    out->script[0] = shell;
    out->words = out->script + 1;
    out->variables = list_of(&at, bytes + status.st_size, out->words, counts[0]);
    (void)list_of(&at, bytes + status.st_size, out->variables, counts[1]);
    return true;
}

/* What the kernel does not know as a program is a script of the shell, as for every execvp. */
static void exec_file(const struct command *command, char *path)
{
    (void)execve(path, command->words, command->variables);
    if (errno == ENOEXEC) {
        char *first = command->words[0];

        command->words[0] = path;
        (void)execve(shell, command->script, command->variables);
        command->words[0] = first;
    }
}

static const char *path_of(char *const *variables)
{
    static const char name[] = "PATH=";

    for (; *variables; variables++) {
        if (strncmp(*variables, name, sizeof(name) - 1) == 0) {
            return *variables + sizeof(name) - 1;
        }
    }
    return STANDARD_PATH;
}

/* Then another folder may have it. */
static bool is_not_there(int error)
{
    return error == EACCES || error == ENOENT || error == ENOTDIR || error == ESTALE ||
           error == ENODEV || error == ETIMEDOUT;
}

/* An empty folder is the current one. EACCES for a file that may not be run only if no other folder
 * has one that may. */
static void exec_in_path(const struct command *command)
{
    const char *folder = path_of(command->variables), *name = command->words[0];
    bool refused = false;
    char path[PATH_MAX];

    errno = ENOENT;
    while (folder && is_not_there(errno)) {
        const char *end = strchrnul(folder, ':');
        size_t size = (size_t)(end - folder);

        if (size + strlen(name) + 2 <= sizeof(path)) {
            memcpy(path, folder, size);
            path[size] = '/';
            memcpy(path + size + (size > 0), name, strlen(name) + 1);
            exec_file(command, path);
            refused = refused || errno == EACCES;
        }
        folder = *end != '\0' ? end + 1 : NULL;
    }
    if (refused && is_not_there(errno)) {
        errno = EACCES;
    }
}

void mst_work_exec(int file)
{
    struct command command;

    if (!read_command(file, &command)) {
        return;
    }
    errno = ENOENT;
    if (command.words[0] && strchr(command.words[0], '/')) {
        exec_file(&command, command.words[0]);
    } else if (command.words[0] && command.words[0][0] != '\0') {
        exec_in_path(&command);
    }
}
