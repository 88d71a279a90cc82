/* SPDX-License-Identifier: Apache-2.0 */
/* A process becomes the program that a file names, as execvpe would do it.
 *
 * behaviour: cluster / Workers */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tasks/shell/worker/child.h"

enum { WORDS = 8 };

static char base[64];

static void put(const char *folder, const char *name, const char *text, mode_t mode)
{
    char path[256];
    int fd;

    (void)snprintf(path, sizeof(path), "%s/%s", base, folder);
    (void)mkdir(path, 0700);
    (void)snprintf(path, sizeof(path), "%s/%s/%s", base, folder, name);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    assert_int_equal(close(fd), 0);
}

static int begin(void **state)
{
    (void)state;
    (void)snprintf(base, sizeof(base), "/tmp/muster-exec-XXXXXX");
    assert_non_null(mkdtemp(base));
    put("plain", "tool", "no program\n", 0600);
    put("plain", "only-plain", "no program\n", 0600);
    put("script", "tool", "#!/bin/sh\necho \"tool $*\"\n", 0700);
    put("bare", "tool", "echo \"bare $0 $*\"\n", 0700);
    return chdir(base);
}

static int end(void **state)
{
    (void)state;
    mst_folder_remove(base);
    return access(base, F_OK) == 0;
}

static void put_list(int file, const char *const *list, uint32_t *count)
{
    for (*count = 0; list[*count]; ++*count) {
        size_t size = strlen(list[*count]) + 1;

        assert_int_equal(write(file, list[*count], size), (ssize_t)size);
    }
}

static int file_of(const char *const *words, const char *const *variables)
{
    int file = memfd_create("command", MFD_CLOEXEC);
    uint32_t counts[2] = {0, 0};

    assert_true(file >= 0);
    assert_int_equal(write(file, counts, sizeof(counts)), sizeof(counts));
    put_list(file, words, &counts[0]);
    put_list(file, variables, &counts[1]);
    assert_int_equal(pwrite(file, counts, sizeof(counts), 0), sizeof(counts));
    return file;
}

/* What the program prints; or, where none is run, "error N". */
static void run(const char *const *words, const char *const *variables, char *said, size_t room)
{
    int file = file_of(words, variables), ends[2];
    size_t size = 0;
    ssize_t got;
    pid_t pid;

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        mst_work_exec(file);
        (void)dprintf(STDOUT_FILENO, "error %d", errno);
        _exit(127);
    }
    (void)close(ends[1]);
    (void)close(file);
    while ((got = read(ends[0], said + size, room - 1 - size)) > 0) {
        size += (size_t)got;
    }
    said[size] = '\0';
    (void)close(ends[0]);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* %s is the folder of this test. */
static void fill(const char *format, char *text, size_t room)
{
    size_t size = 0;

    for (; *format && size + sizeof(base) < room; format++) {
        if (format[0] == '%' && format[1] == 's') {
            size += (size_t)snprintf(text + size, room - size, "%s", base);
            format++;
        } else {
            text[size++] = *format;
        }
    }
    text[size] = '\0';
}

/* A command names its program without a folder; another folder of the `PATH` has a file of that
 * name that may not be run, or is a script without a first line `#!`. It is found in the `PATH`
 * that the command gets, as a shell finds it. */
static void the_program_is_found_where_the_commands_path_says(void **state)
{
    const struct {
        const char *words[WORDS], *path; /* NULL: there is no PATH; %s in both: the folder */
        const char *said;
    } rows[] = {
        {{"tool", "a", "b c"}, "PATH=%s/none:%s/script", "tool a b c\n"},
        {{"tool", "a"}, "PATH=%s/plain:%s/script:%s/bare", "tool a\n"},
        {{"tool", "a", "b c"}, "PATH=%s/bare:%s/script", "bare %s/bare/tool a b c\n"},
        {{"tool"}, "PATH=%s/plain/tool:%s/script", "tool \n"}, /* of a folder that is a file */
        {{"script/tool", "a"}, "PATH=/", "tool a\n"},
        {{"%s/script/tool", "a"}, "PATH=/", "tool a\n"},
        {{"%s/bare/tool"}, "PATH=/", "bare %s/bare/tool \n"},
        {{"echo", "a"}, NULL, "a\n"},
        {{"only-plain"}, "PATH=%s/plain:%s/none", "error 13"},
        {{"plain/tool"}, "PATH=/", "error 13"},
        {{"none"}, "PATH=%s/plain:%s/script", "error 2"},
        {{"none"}, "PATH=", "error 2"},
        {{"none"}, NULL, "error 2"},
        {{""}, "PATH=%s/script", "error 2"},
        {{NULL}, "PATH=%s/script", "error 2"},
    };

    (void)state;
    assert_int_equal(EACCES, 13);
    assert_int_equal(ENOENT, 2);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char path[512] = "", said[512], expected[512], word[256];
        const char *words[WORDS] = {NULL};
        const char *variables[] = {"OTHER=1", rows[i].path ? path : NULL, NULL};

        for (unsigned j = 0; rows[i].words[j]; j++) {
            words[j] = rows[i].words[j];
        }
        if (words[0]) {
            fill(words[0], word, sizeof(word));
            words[0] = word;
        }
        fill(rows[i].path ? rows[i].path : "", path, sizeof(path));
        fill(rows[i].said, expected, sizeof(expected));
        run(words, variables, said, sizeof(said));
        assert_string_equal(said, expected);
    }
}

/* The `PATH` of a command has an empty folder. It is the current one. */
static void an_empty_folder_is_the_current_one(void **state)
{
    static const char *const paths[] = {"PATH=", "PATH=:/none", "PATH=/none:", "PATH=/none::/none"};
    const char *const words[] = {"tool", "a", NULL};
    char said[64];

    (void)state;
    assert_int_equal(chdir("script"), 0);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        const char *const variables[] = {paths[i], NULL};

        run(words, variables, said, sizeof(said));
        assert_string_equal(said, "tool a\n");
    }
    assert_int_equal(chdir(base), 0);
}

/* A command gets its own variables and no others, whatever the caller's own are. */
static void it_gets_its_own_variables_and_no_others(void **state)
{
    const char *const words[] = {"env", NULL};
    const char *const variables[] = {"A=1", "PATH=/usr/bin:/bin", "B=two words", NULL};
    char said[256];

    (void)state;
    assert_int_equal(setenv("PATH", "/none", 1), 0);
    run(words, variables, said, sizeof(said));
    assert_string_equal(said, "A=1\nPATH=/usr/bin:/bin\nB=two words\n");
}

static void a_path_longer_than_any_is_passed_over(void **state)
{
    static char path[3 * PATH_MAX] = "PATH=/";
    const char *const words[] = {"tool", "a", NULL};
    const char *const variables[] = {path, NULL};
    size_t size = strlen(path);
    char said[64];

    (void)state;
    memset(path + size, 'x', PATH_MAX);
    (void)snprintf(path + size + PATH_MAX, sizeof(path) - size - PATH_MAX, ":%s/script", base);
    run(words, variables, said, sizeof(said));
    assert_string_equal(said, "tool a\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_program_is_found_where_the_commands_path_says),
        cmocka_unit_test(an_empty_folder_is_the_current_one),
        cmocka_unit_test(it_gets_its_own_variables_and_no_others),
        cmocka_unit_test(a_path_longer_than_any_is_passed_over),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
