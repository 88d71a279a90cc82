/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "events.h"
#include "rank.h"

enum { PAGE = 4096 };

void say(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vprintf(format, args);
    va_end(args);
    (void)putchar('\n');
    (void)fflush(stdout);
}

char *order_split(char *order)
{
    char *rest = strchrnul(order, ' ');

    if (*rest != '\0') {
        *rest++ = '\0';
    }
    return rest;
}

/* Also where a sanitizer would end the process first, and in another way. */
__attribute__((no_sanitize("undefined"))) static void crash(const char *how)
{
    volatile int number = getpid() >> 30; /* 0: no number is that large */

    if (strcmp(how, "segv") == 0) {
        (void)signal(SIGSEGV, SIG_DFL);
        *(volatile int *)mmap(NULL, 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) = 1;
    } else if (strcmp(how, "abort") == 0) {
        abort();
    } else if (strcmp(how, "fpe") == 0) {
        number = 1000 / number;
        (void)raise(SIGFPE); /* not every processor traps */
    }
    die(how);
}

static void *thread_main(void *arg)
{
    return arg;
}

static void end_a_thread(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, thread_main, NULL) != 0) {
        die("pthread_create");
    }
    (void)pthread_join(thread, NULL);
    say("thread ended");
}

static void end_a_child(void)
{
    pid_t child = fork();
    int status = 1;

    if (child == 0) {
        exit(0); /* with what the library does at exit */
    }
    (void)waitpid(child, &status, 0);
    say("child ended %d", WEXITSTATUS(status));
}

/* The text of "fail 7 no such file", and the code before it. */
static const char *failure(const char *rest, int *code)
{
    char *end;

    *code = (int)strtol(rest, &end, 10);
    return *end == ' ' ? end + 1 : end;
}

/* "2 60000": the index of the peer, and the time in ms. */
static muster_status lose(muster_restart *restart, const char *rest)
{
    char *end;
    uint32_t index = (uint32_t)strtoul(rest, &end, 10);

    event("loses index=%u", index);
    return muster_restart_lost(restart, index, strtoll(end, NULL, 10));
}

bool order_ends(muster_restart *restart, const char *order, const char *rest, muster_status *out)
{
    int code;

    if (strcmp(order, "ok") == 0) {
        *out = MUSTER_OK;
    } else if (strcmp(order, "status") == 0) {
        *out = (muster_status)strtol(rest, NULL, 10);
    } else if (strcmp(order, "fail") == 0) {
        rest = failure(rest, &code);
        *out = muster_restart_fail(restart, code, rest);
    } else if (strcmp(order, "abort") == 0) {
        rest = failure(rest, &code);
        *out = muster_restart_abort(restart, code, rest);
    } else if (strcmp(order, "again") == 0) {
        *out = muster_restart_again(restart);
    } else if (strcmp(order, "leave") == 0) {
        *out = muster_restart_leave(restart);
    } else if (strcmp(order, "lost") == 0) {
        *out = lose(restart, rest);
    } else if (strcmp(order, "fail-leave") == 0) {
        rest = failure(rest, &code);
        *out = muster_restart_fail(restart, code, rest); /* it is in force, and leaving counts */
        *out = muster_restart_leave(restart);
    } else {
        return false;
    }
    return true;
}

bool order_obey(const char *order, const char *rest)
{
    if (strcmp(order, "exit") == 0) {
        exit((int)strtol(rest, NULL, 10));
    } else if (strcmp(order, "_exit") == 0) {
        _exit((int)strtol(rest, NULL, 10));
    } else if (strcmp(order, "kill") == 0) {
        (void)raise((int)strtol(rest, NULL, 10));
    } else if (strcmp(order, "crash") == 0) {
        crash(rest);
    } else if (strcmp(order, "exec") == 0) {
        (void)execlp("tail", "tail", "-f", "/dev/null", (char *)NULL);
        die("exec");
    } else if (strcmp(order, "thread") == 0) {
        end_a_thread();
    } else if (strcmp(order, "child") == 0) {
        end_a_child();
    } else {
        return false;
    }
    return true;
}

void be_large(const char *mib)
{
    size_t size = (size_t)strtoul(mib, NULL, 10) << 20;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED) {
        die("mmap");
    }
    (void)madvise(memory, size, MADV_NOHUGEPAGE);
    for (size_t at = 0; at < size; at += PAGE) {
        memory[at] = 1;
    }
}

unsigned entries_of(const char *path)
{
    DIR *folder = opendir(path);
    unsigned count = 0;

    while (folder && readdir(folder)) {
        count++;
    }
    if (folder) {
        (void)closedir(folder);
    }
    return count;
}
