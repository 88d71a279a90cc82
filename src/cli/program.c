/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cli/program.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launch/run.h"
#include "process/spawn.h"

static char python3[] = "python3", python[] = "python", unbuffered[] = "-u", module[] = "-m";

static bool is_script(const char *name)
{
    size_t size = strlen(name);
    struct stat is;

    return size > 3 && strcmp(name + size - 3, ".py") == 0 && stat(name, &is) == 0 &&
           S_ISREG(is.st_mode);
}

/* It names its interpreter itself. */
static bool runs_itself(const char *name)
{
    char path[PATH_MAX], head[2];
    int fd = mst_spawn_find(name, path) == 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    bool named = fd >= 0 && read(fd, head, 2) == 2 && head[0] == '#' && head[1] == '!';

    if (fd >= 0) {
        (void)close(fd);
    }
    return named;
}

/* As torchrun takes it; NULL: there is none. */
static char *interpreter(void)
{
    char path[PATH_MAX], *given = getenv("PYTHON_EXEC");

    if (given != NULL && *given != '\0') {
        return given;
    }
    if (mst_spawn_find(python3, path) == 0) {
        return python3;
    }
    return mst_spawn_find(python, path) == 0 ? python : NULL;
}

int mst_cli_program_take(const struct mst_cli *cli, bool is_module, struct mst_run_program *program)
{
    char *interpreted = interpreter();
    size_t given = 0, count = 0;

    program->name = program->arguments[0];
    if (program->name == NULL ||
        (!is_module && (!is_script(program->name) || runs_itself(program->name)))) {
        return MST_CLI_OK;
    }
    if (interpreted == NULL) {
        (void)mst_cli_fail(cli, "'%s' is Python, and python3 is not found in PATH", program->name);
        return MST_EXIT_NOT_FOUND;
    }
    while (program->arguments[given] != NULL) {
        given++;
    }
    program->made = calloc(given + 4, sizeof *program->made);
    if (program->made == NULL) {
        return mst_cli_fail(cli, "out of memory");
    }
    program->made[count++] = interpreted;
    program->made[count++] = unbuffered;
    if (is_module) {
        program->made[count++] = module;
    }
    memcpy(program->made + count, program->arguments, given * sizeof *program->made);
    program->arguments = program->made;
    return MST_CLI_OK;
}
