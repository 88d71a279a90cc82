/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that a process starts, waits for and ends. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/system.h"
#include "process/child.h"
#include "process/environment.h"
#include "process/forked.h"
#include "process/serve.h"

#define MS UINT64_C(1000000)
#define LONG (mst_system_now_ns() + 20000 * MS)

static char *path[] = {(char[]){"PATH=/bin:/usr/bin"}, NULL};

/* `script` with sh, its standard output in `out`. */
static struct mst_spawn shell(char **arguments, const char *script, int out)
{
    static char sh[] = "sh", option[] = "-c";

    arguments[0] = sh;
    arguments[1] = option;
    arguments[2] = strdup(script);
    arguments[3] = NULL;
    return (struct mst_spawn){.program = "sh",
                              .arguments = arguments,
                              .environment = path,
                              .input = MST_SPAWN_NOWHERE,
                              .out = out,
                              .error = MST_SPAWN_OURS};
}

static void started(struct mst_child *child, const char *script)
{
    char *arguments[4];
    struct mst_spawn spawn = shell(arguments, script, MST_SPAWN_OURS);

    assert_int_equal(mst_child_start(child, &spawn), 0);
    assert_true(child->pid > 0);
    free(arguments[2]);
}

/* What it printed; how it ended is in `status_out`. */
static void said(struct mst_spawn spawn, char **arguments, char *all, size_t room, int *status_out)
{
    struct mst_child child;
    size_t size;
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    spawn.out = ends[1];
    assert_int_equal(mst_child_start(&child, &spawn), 0);
    close(ends[1]);
    assert_true(mst_child_read(ends[0], LONG, -1, all, room - 1, &size));
    all[size] = '\0';
    close(ends[0]);
    assert_int_equal(mst_child_finish(&child, LONG, -1, status_out), MST_CHILD_ENDED);
    assert_int_equal(child.pid, 0);
    assert_int_equal(child.pidfd, -1);
    free(arguments[2]);
}

static void one_that_ends(void **state)
{
    struct mst_child child;
    int status = -1;

    (void)state;
    started(&child, "exit 3");
    assert_int_equal(mst_child_finish(&child, UINT64_MAX, -1, &status), MST_CHILD_ENDED);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    /* Of one that is gone nothing is asked, least of all of our own group. */
    assert_true(mst_child_await(&child, 0, -1));
    mst_child_signal(&child, SIGKILL);
    assert_false(mst_child_reap(&child, &status));
    assert_int_equal(mst_child_finish(&child, 0, -1, &status), MST_CHILD_UNKNOWN);
}

/* With a pidfd, and on a kernel that has none. */
static void one_that_is_late(void **state)
{
    (void)state;
    for (int with = 0; with < 2; with++) {
        uint64_t began_ns = mst_system_now_ns();
        struct mst_child child;
        int status = 0;

        started(&child, "exec sleep 1000");
        if (with == 0 && child.pidfd >= 0) {
            close(child.pidfd);
            child.pidfd = -1;
        }
        assert_false(mst_child_await(&child, 0, -1));
        assert_int_equal(mst_child_finish(&child, began_ns + 50 * MS, -1, &status), MST_CHILD_LATE);
        assert_true(mst_system_now_ns() >= began_ns + 50 * MS);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
}

/* Without a pidfd it is looked for repeatedly, however long the time is: more milliseconds than an
 * int has. */
static void one_without_a_pidfd_that_ends(void **state)
{
    uint64_t began_ns = mst_system_now_ns();
    struct mst_child child;
    int status = 0;

    (void)state;
    started(&child, "sleep 0.1");
    if (child.pidfd >= 0) {
        close(child.pidfd);
        child.pidfd = -1;
    }
    assert_int_equal(mst_child_finish(&child, began_ns + 3000000000 * MS, -1, &status),
                     MST_CHILD_ENDED);
    assert_true(mst_system_now_ns() < began_ns + 10000 * MS);
}

static void a_wait_that_is_stopped(void **state)
{
    struct mst_child child;
    int stop[2], silent[2], status;
    char bytes[8];
    size_t size = 1;

    (void)state;
    assert_int_equal(pipe2(stop, O_CLOEXEC), 0);
    assert_int_equal(pipe2(silent, O_CLOEXEC), 0);
    started(&child, "exec sleep 1000");
    assert_int_equal(write(stop[1], "x", 1), 1);
    assert_false(mst_child_await(&child, LONG, stop[0]));
    assert_false(mst_child_read(silent[0], LONG, stop[0], bytes, sizeof bytes, &size));
    assert_int_equal(size, 0);
    assert_int_equal(mst_child_finish(&child, LONG, stop[0], &status), MST_CHILD_LATE);
    for (int i = 0; i < 2; i++) {
        close(stop[i]);
        close(silent[i]);
    }
}

static void reading_has_a_limit_and_a_time(void **state)
{
    int ends[2];
    char bytes[4];
    size_t size;

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(write(ends[1], "abcde", 5), 5);
    assert_false(mst_child_read(ends[0], LONG, -1, bytes, sizeof bytes, &size));
    assert_int_equal(size, 4);
    assert_memory_equal(bytes, "abcd", 4);
    assert_false(
        mst_child_read(ends[0], mst_system_now_ns() + 20 * MS, -1, bytes, sizeof bytes, &size));
    assert_int_equal(size, 1);
    close(ends[1]);
    assert_true(mst_child_read(ends[0], LONG, -1, bytes, sizeof bytes, &size));
    assert_int_equal(size, 0);
    close(ends[0]);
}

/* What is left of its group goes with it. */
static void what_it_leaves_behind(void **state)
{
    char *arguments[4], all[32], *end;
    int ends[2], status;
    struct mst_child child;
    struct mst_spawn spawn;
    size_t size = 0;
    pid_t left;

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    spawn = shell(arguments, "sleep 1000 & echo $!", ends[1]);
    assert_int_equal(mst_child_start(&child, &spawn), 0);
    close(ends[1]);
    while (size == 0 || all[size - 1] != '\n') {
        (void)mst_child_read(ends[0], LONG, -1, all + size, 1, &(size_t){0});
        size++;
    }
    left = (pid_t)strtol(all, &end, 10);
    assert_int_equal(kill(left, 0), 0);
    assert_int_equal(mst_child_finish(&child, LONG, -1, &status), MST_CHILD_ENDED);
    /* It had the pipe: its end says that the process is gone. */
    assert_true(mst_child_read(ends[0], LONG, -1, all, sizeof all, &size));
    close(ends[0]);
    free(arguments[2]);
}

static void a_status_that_nobody_knows(void **state)
{
    struct mst_child child;
    int status = 0;

    (void)state;
    (void)signal(SIGCHLD, SIG_IGN);
    started(&child, "exit 0");
    assert_int_equal(mst_child_finish(&child, LONG, -1, &status), MST_CHILD_UNKNOWN);
    (void)signal(SIGCHLD, SIG_DFL);
}

/* Out of the way of the numbers that are given. */
static void piped(int ends[2])
{
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    for (int i = 0; i < 2; i++) {
        int low = ends[i];

        ends[i] = fcntl(low, F_DUPFD_CLOEXEC, 20);
        close(low);
    }
}

static void its_files_are_those_that_are_given(void **state)
{
    char *arguments[4], all[256];
    struct mst_spawn spawn =
        shell(arguments, "read x <&5; echo $x; cat <&9; ls /proc/self/fd; cat", MST_SPAWN_OURS);
    int first[2], second[2], status;
    int leaks = fcntl(STDERR_FILENO, F_DUPFD, 50); /* not close-on-exec */

    (void)state;
    assert_int_equal(leaks, 50);
    piped(first);
    piped(second);
    assert_int_equal(write(first[1], "one\n", 4), 4);
    assert_int_equal(write(second[1], "two\n", 4), 4);
    close(second[1]);
    spawn.given[0] = (struct mst_spawn_given){first[0], 5};
    spawn.given[1] = (struct mst_spawn_given){-1, -1};
    spawn.given[2] = (struct mst_spawn_given){second[0], 9};
    spawn.bare = true;
    said(spawn, arguments, all, sizeof all, &status);
    assert_memory_equal(all, "one\ntwo\n", 8);
    assert_non_null(strstr(all, "\n9\n"));
    assert_null(strstr(all, "\n50\n"));
    close(leaks);
    close(first[0]);
    close(first[1]);
    close(second[0]);
}

/* All at their default, whatever this process does with them. */
static void its_signals(void **state)
{
    char *arguments[4], all[256];
    sigset_t blocked;
    int status;

    (void)state;
    (void)sigemptyset(&blocked);
    (void)sigaddset(&blocked, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &blocked, NULL);
    (void)signal(SIGHUP, SIG_IGN);
    said(shell(arguments, "grep -E '^Sig(Blk|Ign)' /proc/self/status", -1), arguments, all,
         sizeof all, &status);
    (void)signal(SIGHUP, SIG_DFL);
    (void)sigprocmask(SIG_UNBLOCK, &blocked, NULL);
    assert_non_null(strstr(all, "SigBlk:\t0000000000000000\n"));
    assert_null(strstr(all, "1\n"));
}

/* A group, or a session, of its own. */
static void it_stands_apart(void **state)
{
    (void)state;
    for (int session = 0; session < 2; session++) {
        char *arguments[4], all[64], *at;
        struct mst_spawn spawn = shell(arguments, "cut -d' ' -f1,5,6 /proc/$$/stat", -1);
        long pid;
        int status;

        spawn.session = session == 1;
        said(spawn, arguments, all, sizeof all, &status);
        pid = strtol(all, &at, 10);
        assert_int_equal(strtol(at, &at, 10), pid);
        assert_int_equal(strtol(at, &at, 10) == pid, session);
    }
}

static void what_cannot_be_started(void **state)
{
    char *arguments[4];
    struct mst_spawn spawn = shell(arguments, "", MST_SPAWN_OURS);
    struct mst_child child;

    (void)state;
    free(arguments[2]);
    arguments[2] = NULL;
    spawn.program = "no-such-program";
    assert_int_equal(mst_child_start(&child, &spawn), ENOENT);
    assert_int_equal(child.pid, 0);
    spawn.program = "/no/such/program";
    assert_int_equal(mst_child_start(&child, &spawn), ENOENT);
    spawn.program = "/etc/passwd";
    assert_int_equal(mst_child_start(&child, &spawn), EACCES);
    assert_int_equal(child.pid, 0);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    /* In the PATH that it would get, not in ours. */
    spawn.program = "sh";
    spawn.environment = (char *[]){(char[]){"PATH=/etc"}, NULL};
    assert_int_equal(mst_child_start(&child, &spawn), ENOENT);
}

/* As a launcher starts what must not outlive it. */
static void one_that_is_tied(void **state)
{
    char *arguments[4], all[256];
    struct mst_spawn spawn = shell(arguments, "ls /proc/self/fd; cat <&5", MST_SPAWN_OURS);
    int ends[2], given[2], leaks = fcntl(STDERR_FILENO, F_DUPFD, 50), status;
    struct mst_child child;
    size_t size;
    pid_t pid;

    (void)state;
    assert_int_equal(leaks, 50);
    piped(ends);
    piped(given);
    assert_int_equal(write(given[1], "one\n", 4), 4);
    close(given[1]);
    spawn.out = ends[1];
    spawn.given[0] = (struct mst_spawn_given){given[0], 5};
    spawn.bare = true;
    assert_int_equal(mst_spawn_tied(&spawn, SIGKILL, true, &pid), 0);
    mst_child_adopt(&child, pid);
    close(ends[1]);
    assert_true(mst_child_read(ends[0], LONG, -1, all, sizeof all - 1, &size));
    all[size] = '\0';
    assert_int_equal(mst_child_finish(&child, LONG, -1, &status), MST_CHILD_ENDED);
    assert_non_null(strstr(all, "\none\n"));
    assert_non_null(strstr(all, "\n5\n"));
    assert_null(strstr(all, "\n50\n"));
    close(leaks);
    close(ends[0]);
    close(given[0]);
    free(arguments[2]);
}

/* One whose parent has gone already gets no signal any more. */
static void one_whose_parent_is_another(void **state)
{
    (void)state;
    assert_true(mst_forked_dies_with(getppid(), 0));
    assert_false(mst_forked_dies_with(getpid(), 0));
}

/* Whatever is called `muster` there: it says how it was started, and reads to the end. */
static void a_service(void **state)
{
    static const char script[] = "#!/bin/sh\necho \"$@\" >>$0.words\ncat >>$0.words\n";
    static const char *const flags[] = {"--one", "--two=2", NULL};
    char program[] = "/tmp/muster-serve-XXXXXX", words[64], all[256];
    struct mst_serve how = {
        .program = program, .addr = "ADDR", .flags = flags, .environment = path};
    struct mst_served served;
    int fd = mkstemp(program), status;
    ssize_t size;

    (void)state;
    assert_int_equal(write(fd, script, sizeof script - 1), sizeof script - 1);
    assert_int_equal(fchmod(fd, 0700), 0);
    close(fd);
    for (int tied = 0; tied < 2; tied++) {
        how.tied = tied == 1;
        assert_int_equal(mst_serve(&served, &how), 0);
        assert_false(mst_child_await(&served.child, 0, -1));
        assert_int_equal(write(served.line, "stop\n", 5), 5);
        close(served.line);
        assert_int_equal(mst_child_finish(&served.child, LONG, -1, &status), MST_CHILD_ENDED);
    }
    how.detaches = true; /* it reads nothing */
    assert_int_equal(mst_serve(&served, &how), 0);
    assert_int_equal(served.line, -1);
    assert_int_equal(mst_child_finish(&served.child, LONG, -1, &status), MST_CHILD_ENDED);
    (void)snprintf(words, sizeof words, "%s.words", program);
    fd = open(words, O_RDONLY | O_CLOEXEC);
    size = read(fd, all, sizeof all - 1);
    assert_true(size > 0);
    all[size] = '\0';
    assert_string_equal(all, "serve --addr ADDR --parent --one --two=2\nstop\n"
                             "serve --addr ADDR --parent --one --two=2\nstop\n"
                             "serve --addr ADDR --one --two=2\n");
    close(fd);
    (void)unlink(words);
    (void)unlink(program);
    how.program = "/no/such/program";
    assert_int_equal(mst_serve(&served, &how), ENOENT);
    assert_int_equal(served.line, -1);
}

static bool is_a(const char *entry)
{
    return entry[0] == 'A';
}

static void entries_are_dropped(void **state)
{
    char *from[] = {(char[]){"A=1"}, (char[]){"B=2"},  (char[]){"AB=3"},
                    (char[]){"C=4"}, (char[]){"A2=5"}, NULL};
    struct mst_environment environment;

    (void)state;
    assert_int_equal(mst_environment_init(&environment, from), MUSTER_OK);
    mst_environment_drop(&environment, is_a);
    assert_int_equal(environment.count, 2);
    assert_null(environment.entries[2]);
    assert_string_equal(mst_environment_get(&environment, "B"), "2");
    assert_string_equal(mst_environment_get(&environment, "C"), "4");
    mst_environment_fini(&environment);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_ends),
        cmocka_unit_test(one_that_is_late),
        cmocka_unit_test(one_without_a_pidfd_that_ends),
        cmocka_unit_test(a_wait_that_is_stopped),
        cmocka_unit_test(reading_has_a_limit_and_a_time),
        cmocka_unit_test(what_it_leaves_behind),
        cmocka_unit_test(a_status_that_nobody_knows),
        cmocka_unit_test(its_files_are_those_that_are_given),
        cmocka_unit_test(its_signals),
        cmocka_unit_test(it_stands_apart),
        cmocka_unit_test(what_cannot_be_started),
        cmocka_unit_test(one_that_is_tied),
        cmocka_unit_test(one_whose_parent_is_another),
        cmocka_unit_test(a_service),
        cmocka_unit_test(entries_are_dropped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
