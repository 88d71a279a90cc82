/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "client/shell/serve.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/shell/environment.h"
#include "muster/client.h"

enum { FLAGS_MAX = 4 };

extern char **environ;

static bool is_program(const char *path)
{
    return access(path, X_OK) == 0;
}

void mst_lib_program(char path[MST_LIB_PROGRAM_ROOM])
{
    const char *given = mst_lib_setting_text("program");
    static const char *const places[] = {"/../bin/muster", "/../../bin/muster", "/bin/muster",
                                         "/muster"};
    Dl_info info = {0};
    const char *slash;

    if (given) {
        (void)snprintf(path, MST_LIB_PROGRAM_ROOM, "%s", given);
        return;
    }
    if (dladdr(__extension__(const void *) muster_version, &info) != 0 && info.dli_fname &&
        (slash = strrchr(info.dli_fname, '/')) != NULL) {
        int size = (int)(slash - info.dli_fname);

        for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
            (void)snprintf(path, MST_LIB_PROGRAM_ROOM, "%.*s%s", size, info.dli_fname, places[i]);
            if (is_program(path)) {
                return;
            }
        }
    }
    (void)snprintf(path, MST_LIB_PROGRAM_ROOM, "%s",
                   is_program(MST_LIB_INSTALLED_PROGRAM) ? MST_LIB_INSTALLED_PROGRAM : "muster");
}

/* A group of its own: Ctrl-C is for the program, and the service goes when the program does. */
static void prepare(posix_spawnattr_t *attributes)
{
    sigset_t none;
    sigset_t standard;

    (void)posix_spawnattr_init(attributes);
    (void)sigemptyset(&none);
    (void)sigfillset(&standard);
    (void)posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                                   POSIX_SPAWN_SETPGROUP);
    (void)posix_spawnattr_setsigmask(attributes, &none);
    (void)posix_spawnattr_setsigdefault(attributes, &standard);
}

int mst_lib_serve(pid_t *pid_out, const char *program, const char *addr, const char *const flags[],
                  int stdin_fd)
{
    const char *words[4 + FLAGS_MAX + 1] = {program, "serve", "--addr", addr};
    char *argv[4 + FLAGS_MAX + 1] = {NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    size_t count = 4;
    int failed = 0;

    for (; *flags && count < 4 + FLAGS_MAX; flags++) {
        words[count++] = *flags;
    }
    (void)posix_spawn_file_actions_init(&actions);
    prepare(&attributes);
    for (size_t i = 0; i < count; i++) {
        argv[i] = strdup(words[i]);
        if (!argv[i]) {
            failed = ENOMEM;
        }
    }
    if (posix_spawn_file_actions_adddup2(&actions, stdin_fd, 0) != 0 ||
        posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0) != 0) {
        failed = ENOMEM;
    }
    if (!failed) {
        mst_environment_lock();
        failed = posix_spawnp(pid_out, program, &actions, &attributes, argv, environ);
        mst_environment_unlock();
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)posix_spawnattr_destroy(&attributes);
    for (size_t i = 0; i < count; i++) {
        free(argv[i]);
    }
    return failed;
}
