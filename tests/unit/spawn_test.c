/* SPDX-License-Identifier: Apache-2.0 */
/* behaviour: run / What ranks get */

/* How processes are started, and with which environment. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "process/environment.h"
#include "process/spawn.h"

/* A program is given by name. It is found as the shell does. [Exit codes] */
static void programs_are_found_as_the_shell_does(void **state)
{
    char path[PATH_MAX];
    const char *before = getenv("PATH");

    (void)state;
    assert_non_null(before);
    assert_int_equal(mst_spawn_find("sh", path), 0);
    assert_int_equal(access(path, X_OK), 0);
    assert_int_equal(mst_spawn_find("/bin/sh", path), 0);
    assert_string_equal(path, "/bin/sh");
    assert_int_equal(mst_spawn_find("no-such-program", path), ENOENT);
    assert_int_equal(mst_spawn_find("/no/such/program", path), ENOENT);
    assert_int_equal(mst_spawn_find("/bin/sh/x", path), ENOENT);
    assert_int_equal(mst_spawn_find("", path), ENOENT);
    assert_int_equal(mst_spawn_find("/etc/passwd", path), EACCES);
    assert_int_equal(mst_spawn_find("/tmp", path), EACCES);
}

/* Runs `script` with sh; what it prints, and how it ended. */
static int shell(const char *script, const struct mst_environment *environment, bool dump,
                 char *all, size_t room)
{
    char *arguments[] = {(char[]){"sh"}, (char[]){"-c"}, strdup(script), NULL};
    struct mst_spawn spawn = {.program = "/bin/sh",
                              .arguments = arguments,
                              .environment = environment->entries,
                              .error = -1,
                              .input = MST_SPAWN_NOWHERE};
    size_t size = 0;
    ssize_t got;
    int ends[2], status;
    pid_t pid;

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    spawn.out = ends[1];
    assert_int_equal(mst_spawn_tied(&spawn, SIGKILL, dump, &pid), 0);
    close(ends[1]);
    while ((got = read(ends[0], all + size, room - 1 - size)) > 0) {
        size += (size_t)got;
    }
    all[size] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    free(arguments[2]);
    return status;
}

/* A process is started with the environment that was asked for; it reads nothing from stdin and
 * leaves no core dump. */
static void a_process_is_started_as_asked(void **state)
{
    char *from[] = {(char[]){"PATH=/bin:/usr/bin"}, (char[]){"A=1"}, NULL};
    struct mst_environment environment;
    char all[512];
    int status;

    (void)state;
    assert_int_equal(mst_environment_init(&environment, from), MUSTER_OK);
    assert_int_equal(mst_environment_set(&environment, "A", "2"), MUSTER_OK);
    assert_int_equal(mst_environment_number(&environment, "B", 3), MUSTER_OK);
    status = shell("echo $A$B; cat; ulimit -Sc; exit 4", &environment, false, all, sizeof all);
    assert_int_equal(WEXITSTATUS(status), 4);
    /* dash counts blocks of 512 bytes, and one byte is none of them */
    assert_string_equal(all, "23\n0\n");
    mst_environment_fini(&environment);
}

/* A started process leads a group of its own. */
static void it_leads_a_group_of_its_own(void **state)
{
    char *from[] = {(char[]){"PATH=/bin:/usr/bin"}, NULL};
    struct mst_environment environment;
    char all[512];
    long group;
    char *rest;

    (void)state;
    assert_int_equal(mst_environment_init(&environment, from), MUSTER_OK);
    (void)shell("cut -d' ' -f1,5 /proc/$$/stat", &environment, true, all, sizeof all);
    group = strtol(all, &rest, 10);
    assert_int_equal(strtol(rest, NULL, 10), group);
    assert_int_not_equal(group, getpgrp());
    mst_environment_fini(&environment);
}

/* A program that ends a job's business is started deaf, and a scheduler signals all processes of
 * the job. It goes on. */
static void a_deaf_process_outlives_a_scheduler_s_signal(void **state)
{
    char *environment[] = {(char[]){"PATH=/bin:/usr/bin"}, NULL};
    char *arguments[] = {(char[]){"sh"}, (char[]){"-c"}, (char[]){"kill -TERM $$; exit 5"}, NULL};
    struct mst_spawn spawn = {.program = arguments[0],
                              .arguments = arguments,
                              .environment = environment,
                              .input = MST_SPAWN_NOWHERE,
                              .out = MST_SPAWN_OURS,
                              .error = MST_SPAWN_OURS,
                              .deaf = true};
    pid_t pid = 0;
    int status = 0;

    (void)state;
    assert_int_equal(mst_spawn(&spawn, &pid), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 5);
    spawn.deaf = false;
    assert_int_equal(mst_spawn(&spawn, &pid), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
}

/* A program cannot be executed. The error says why. [Exit codes] */
static void what_cannot_be_executed_says_why(void **state)
{
    char *arguments[] = {(char[]){"x"}, NULL};
    struct mst_spawn spawn = {.program = "/etc/passwd",
                              .arguments = arguments,
                              .environment = arguments + 1,
                              .out = -1,
                              .error = -1,
                              .input = MST_SPAWN_NOWHERE};
    pid_t pid = 0;

    (void)state;
    assert_int_equal(mst_spawn_tied(&spawn, SIGKILL, false, &pid), EACCES);
    spawn.program = "/no/such/program";
    assert_int_equal(mst_spawn_tied(&spawn, SIGKILL, false, &pid), ENOENT);
    assert_int_equal(pid, 0);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* nothing is left of them */
}

/* Variables of a started process are set, replaced and taken out. */
static void variables_are_set_replaced_and_taken_out(void **state)
{
    char *from[] = {(char[]){"A=1"}, (char[]){"AB=2"}, (char[]){"C="}, NULL};
    struct mst_environment environment;

    (void)state;
    assert_int_equal(mst_environment_init(&environment, from), MUSTER_OK);
    assert_string_equal(mst_environment_get(&environment, "A"), "1");
    assert_string_equal(mst_environment_get(&environment, "C"), "");
    assert_null(mst_environment_get(&environment, "B"));
    assert_int_equal(mst_environment_set(&environment, "A", NULL), MUSTER_OK);
    assert_null(mst_environment_get(&environment, "A"));
    assert_string_equal(mst_environment_get(&environment, "AB"), "2");
    for (uint64_t i = 0; i < 200; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "N%d", (int)i);
        assert_int_equal(mst_environment_number(&environment, name, i), MUSTER_OK);
    }
    assert_string_equal(mst_environment_get(&environment, "N199"), "199");
    assert_int_equal(environment.count, 202);
    assert_null(environment.entries[202]);
    mst_environment_fini(&environment);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_are_found_as_the_shell_does),
        cmocka_unit_test(a_process_is_started_as_asked),
        cmocka_unit_test(it_leads_a_group_of_its_own),
        cmocka_unit_test(a_deaf_process_outlives_a_scheduler_s_signal),
        cmocka_unit_test(what_cannot_be_executed_says_why),
        cmocka_unit_test(variables_are_set_replaced_and_taken_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
