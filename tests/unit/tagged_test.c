/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that are found by what they inherited, in sessions of their own.
 *
 * behaviour: run / Descriptors and signals */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/system.h"
#include "process/proc_stat.h"
#include "process/tagged.h"

enum { ROOM = 20000 };

static uint64_t run;

static int setup(void **state)
{
    (void)state;
    mst_system_random(&run, 1);
    return 0;
}

/* A process with `before` bytes of environment before that entry, once it has become its program.
 */
static pid_t start_process(char *entry, size_t before)
{
    static char filling[ROOM + 3];
    char byte, *environment[] = {filling, NULL, NULL};
    char *arguments[] = {"sh", "-c", "echo; exec sleep 600 >&-", NULL};
    int ends[2];
    pid_t pid;

    memset(filling, 'x', before);
    memcpy(filling, "F=", 2);
    filling[before < 2 ? 2 : before] = '\0';
    environment[1] = entry;
    assert_int_equal(pipe(ends), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)setsid();
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)close(ends[0]);
        (void)close(ends[1]);
        (void)execve("/bin/sh", arguments, environment);
        _exit(127);
    }
    (void)close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    (void)close(ends[0]);
    return pid;
}

static void entry_of(char *entry, uint64_t of, uint32_t index, uint32_t attempt)
{
    char text[MST_TAG_ROOM];

    mst_tag_text(of, index, attempt, text);
    (void)snprintf(entry, 128, "%s=%s", MST_TAG_VARIABLE, text);
}

static bool is_killed(pid_t pid)
{
    int status = 0;

    return waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

static bool lives(pid_t pid)
{
    return waitpid(pid, NULL, WNOHANG) == 0;
}

static void end(pid_t pid)
{
    assert_true(lives(pid));
    (void)kill(pid, SIGKILL);
    assert_true(is_killed(pid));
}

static bool all(void *ctx, uint32_t index, uint32_t attempt)
{
    (void)ctx;
    (void)index;
    (void)attempt;
    return true;
}

static bool first_of_three(void *ctx, uint32_t index, uint32_t attempt)
{
    (void)ctx;
    return index == 3 && attempt == 0;
}

/* Processes with the tag of a rank that ended are killed, and no others. */
static void those_that_are_doomed_are_killed_and_nobody_else(void **state)
{
    char of_run[128], again[128], elsewhere[128];
    char no_tag[] = "OTHER=1";
    pid_t doomed, stopped, later, other, none;

    (void)state;
    entry_of(of_run, run, 3, 0);
    entry_of(again, run, 3, 1);
    entry_of(elsewhere, run + 1, 3, 0);
    doomed = start_process(of_run, 10);
    stopped = start_process(of_run, 10);
    later = start_process(again, 10);
    other = start_process(elsewhere, 10);
    none = start_process(no_tag, 10);
    (void)kill(stopped, SIGSTOP);
    mst_tagged_kill(run, first_of_three, NULL);
    assert_true(is_killed(doomed));
    assert_true(is_killed(stopped));
    assert_true(lives(later));
    mst_tagged_kill(run, all, NULL);
    assert_true(is_killed(later));
    end(other);
    end(none);
}

/* The tag stands anywhere in an environment, which is read in blocks. It is found. */
static void the_variable_is_found_anywhere_in_an_environment(void **state)
{
    char entry[128];

    (void)state;
    entry_of(entry, run, 1, 7);
    for (size_t before = 4040; before <= 4100; before += 3) {
        pid_t pid = start_process(entry, before);

        mst_tagged_kill(run, all, NULL);
        assert_true(is_killed(pid));
    }
    for (size_t before = 0; before < ROOM; before += 6661) {
        pid_t pid = start_process(entry, before);

        mst_tagged_kill(run, all, NULL);
        assert_true(is_killed(pid));
    }
}

/* An entry of an environment begins like the tag, or has no value or no name. It does not hide
 * the variable. */
static void an_entry_that_begins_alike_does_not_hide_the_variable(void **state)
{
    char entry[128], tag[MST_TAG_ROOM];

    (void)state;
    entry_of(entry, run, 1, 7);
    mst_tag_text(run, 1, 7, tag);
    for (size_t size = 0; size <= strlen(MST_TAG_VARIABLE); size++) {
        char begin[] = MST_TAG_VARIABLE, byte;
        char *arguments[] = {"sleep", "600", NULL}, *environment[] = {begin, entry, NULL};
        int ends[2];
        pid_t pid;
        bool sent;

        begin[size] = '\0';
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            (void)execve("/bin/sleep", arguments, environment);
            _exit(127);
        }
        (void)close(ends[1]);
        assert_int_equal(read(ends[0], &byte, 1), 0); /* it is that program now */
        (void)close(ends[0]);
        sent = mst_tagged_signal(pid, 0, tag, SIGSTOP);
        end(pid);
        assert_true(sent);
    }
}

/* A process is within exec, with neither the old environment nor the new one. It is found. */
static void a_process_within_exec_is_found(void **state)
{
    static const char script[] = "#!/bin/sh\nexec \"$0\"\n";
    char path[] = "/tmp/mst-exec-XXXXXX", entry[128];
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, script, sizeof script - 1), sizeof script - 1);
    assert_int_equal(fchmod(fd, 0700), 0);
    assert_int_equal(close(fd), 0);
    entry_of(entry, run, 1, 7);
    for (unsigned i = 0; i < 100; i++) {
        char *arguments[] = {path, NULL}, *environment[] = {entry, NULL};
        pid_t pid;

        assert_int_equal(posix_spawn(&pid, path, NULL, NULL, arguments, environment), 0);
        mst_tagged_kill(run, all, NULL);
        assert_true(is_killed(pid));
    }
    assert_int_equal(unlink(path), 0);
}

/* A process has another tag than the run's. It is left alone. */
static void what_is_no_tag_of_the_run_is_left_alone(void **state)
{
    static const struct {
        const char *before, *after;
    } forms[] = {{MST_TAG_VARIABLE "=", ""},
                 {MST_TAG_VARIABLE "=", ":1"},
                 {MST_TAG_VARIABLE "=", ":1."},
                 {MST_TAG_VARIABLE "=", ":1.2x"},
                 {MST_TAG_VARIABLE "=", ":.2"},
                 {MST_TAG_VARIABLE "=x", ":1.2"},
                 {MST_TAG_VARIABLE "_OF=", ":1.2"},
                 {"X" MST_TAG_VARIABLE "=", ":1.2"},
                 {MST_TAG_VARIABLE "=", ":4294967296.2"}};

    (void)state;
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        char entry[128];
        pid_t pid;

        (void)snprintf(entry, sizeof entry, "%s%016llx%s", forms[i].before, (unsigned long long)run,
                       forms[i].after);
        pid = start_process(entry, 10);
        mst_tagged_kill(run, all, NULL);
        end(pid);
    }
}

/* The number in a progress page is another process's by now. That process gets no signal. */
static void a_process_gets_a_signal_only_if_it_is_still_the_one(void **state)
{
    char entry[128], tag[MST_TAG_ROOM], other[MST_TAG_ROOM];
    int status;
    pid_t pid;

    (void)state;
    entry_of(entry, run, 2, 5);
    mst_tag_text(run, 2, 5, tag);
    mst_tag_text(run, 2, 50, other);
    pid = start_process(entry, 10);
    assert_false(mst_tagged_signal(pid, 0, other, SIGTERM));
    assert_true(lives(pid));
    assert_true(mst_tagged_signal(pid, 0, tag, SIGTERM));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    assert_false(mst_tagged_signal(pid, 0, tag, SIGTERM));
}

/* A process has cleared its environment. It is found by its start time. */
static void one_that_has_cleared_its_environment_is_told_by_its_start(void **state)
{
    char no_tag[] = "OTHER=1", tag[MST_TAG_ROOM];
    uint64_t start;
    pid_t pid;

    (void)state;
    mst_tag_text(run, 2, 5, tag);
    pid = start_process(no_tag, 10);
    start = mst_proc_stat_start(pid);
    assert_false(mst_tagged_signal(pid, 0, tag, SIGKILL));
    assert_false(mst_tagged_signal(pid, start + 1, tag, SIGKILL));
    assert_true(lives(pid));
    assert_true(mst_tagged_signal(pid, start, tag, SIGKILL));
    assert_true(is_killed(pid));
    assert_false(mst_tagged_signal(pid, start, tag, SIGKILL));
}

/* The number that the next descriptor would get. */
static int next_descriptor(void)
{
    int fd = dup(STDIN_FILENO);

    assert_true(fd >= 0);
    (void)close(fd);
    return fd;
}

static void limit_descriptors(rlim_t count)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = count;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static bool none_is_left(void)
{
    return open("/", O_PATH | O_CLOEXEC) < 0 && errno == EMFILE;
}

/* Of most processes the environment cannot be opened, for another reason. */
static void kill_as_one_who_may_not_look(void)
{
    bool was_root = geteuid() == 0 && seteuid(65534) == 0;

    mst_tagged_kill(run, all, NULL);
    if (was_root) {
        assert_int_equal(seteuid(0), 0);
        assert_int_equal(prctl(PR_SET_DUMPABLE, 1), 0); /* a sanitizer looks at its own process */
    }
}

/* `muster run` has no descriptors left when a rank ends, and its process has left its group. It
 * is found and killed with descriptors that were kept back, and these are kept back again.
 * [attacks / No descriptors] */
static void without_descriptors_they_are_found_by_what_is_kept_back(void **state)
{
    char entry[128], tag[MST_TAG_ROOM], no_tag[] = "OTHER=1";
    struct rlimit before;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    mst_tagged_reserve();
    entry_of(entry, run, 2, 5);
    mst_tag_text(run, 2, 5, tag);
    for (unsigned i = 0; i < 3; i++) { /* what was given up is kept back again */
        pid_t tagged = start_process(entry, 10), cleared = start_process(no_tag, 10);
        uint64_t start = mst_proc_stat_start(cleared);

        limit_descriptors((rlim_t)next_descriptor());
        assert_true(none_is_left());
        assert_true(mst_tagged_signal(tagged, 0, tag, SIGCONT));
        assert_true(mst_tagged_signal(cleared, start, tag, SIGKILL));
        mst_tagged_kill(run, all, NULL);
        assert_true(none_is_left());
        kill_as_one_who_may_not_look();
        assert_true(none_is_left());
        limit_descriptors(before.rlim_cur);
        assert_true(is_killed(cleared));
        assert_true(is_killed(tagged));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(those_that_are_doomed_are_killed_and_nobody_else),
        cmocka_unit_test(the_variable_is_found_anywhere_in_an_environment),
        cmocka_unit_test(an_entry_that_begins_alike_does_not_hide_the_variable),
        cmocka_unit_test(a_process_within_exec_is_found),
        cmocka_unit_test(what_is_no_tag_of_the_run_is_left_alone),
        cmocka_unit_test(a_process_gets_a_signal_only_if_it_is_still_the_one),
        cmocka_unit_test(one_that_has_cleared_its_environment_is_told_by_its_start),
        cmocka_unit_test(without_descriptors_they_are_found_by_what_is_kept_back),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
