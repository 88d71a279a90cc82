/* SPDX-License-Identifier: Apache-2.0 */

/* A rank of `muster run` under a test's orders. It says on stdout where it is; in each generation
 * it waits for the key order-INDEX-GENERATION and does what its value says:
 *
 *   ok | segv | kill | stop | exit N | exec | thread | child | wait | fail CODE TEXT | abort CODE
 * TEXT
 *
 *   run_rank [MIB]    MIB: how much memory it has resident */

#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "muster/muster.h"

static muster_client *client;

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vprintf(format, args);
    va_end(args);
    (void)putchar('\n');
    (void)fflush(stdout);
}

static void fill_memory(const char *mib)
{
    size_t size = (size_t)strtoul(mib, NULL, 10) << 20;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED) {
        exit(3);
    }
    (void)madvise(memory, size, MADV_NOHUGEPAGE);
    for (size_t at = 0; at < size; at += 4096) {
        memory[at] = 1;
    }
}

static void *thread_main(void *arg)
{
    return arg;
}

static void end_a_thread(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, thread_main, NULL) == 0) {
        (void)pthread_join(thread, NULL);
    }
}

static void end_a_child(void)
{
    pid_t child = fork();

    if (child == 0) {
        _exit(0);
    }
    (void)waitpid(child, NULL, 0);
}

/* Does not come back from most of them. */
static void obey(const char *order)
{
    (void)fprintf(stderr, "order: %s\n", order);
    if (strcmp(order, "segv") == 0) {
        (void)signal(SIGSEGV, SIG_DFL);
        (void)raise(SIGSEGV);
    } else if (strcmp(order, "kill") == 0) {
        (void)raise(SIGKILL);
    } else if (strcmp(order, "stop") == 0) {
        (void)raise(SIGSTOP); /* not within a call of muster, where it would have no clock */
    } else if (strncmp(order, "exit ", 5) == 0) {
        _exit((int)strtol(order + 5, NULL, 10));
    } else if (strcmp(order, "exec") == 0) {
        (void)execlp("tail", "tail", "-f", "/dev/null", (char *)NULL);
    } else if (strcmp(order, "thread") == 0) {
        end_a_thread();
        say("thread ended");
    } else if (strcmp(order, "child") == 0) {
        end_a_child();
        say("child ended");
    }
}

/* "fail 7 no such file": what the function is to return. */
static muster_status end_with(muster_restart *restart, const char *order)
{
    char *text;
    int code = (int)strtol(order + strcspn(order, " "), &text, 10);

    return *order == 'f' ? muster_restart_fail(restart, code, text + 1)
                         : muster_restart_abort(restart, code, text + 1);
}

/* Asks again and again, because a newcomer is let in at checks only. */
static muster_status next_order(muster_restart *restart, const char *key)
{
    struct muster_error err;
    muster_value *value = NULL;
    muster_status status;

    do {
        status = muster_restart_ping(restart);
        if (status == MUSTER_OK) {
            status = muster_key_get(client, key, NULL, 20, &value, &err);
        }
    } while (status == MUSTER_ETIMEDOUT);
    if (status == MUSTER_OK) {
        const char *order = muster_value_data(value);

        if (strncmp(order, "fail ", 5) == 0 || strncmp(order, "abort ", 6) == 0) {
            status = end_with(restart, order);
        } else {
            obey(order);
            status = strcmp(order, "ok") != 0 ? MUSTER_MORE : MUSTER_OK;
        }
    } else if (status != MUSTER_EINTERRUPTED) {
        (void)fprintf(stderr, "%s\n", err.text);
    }
    muster_value_free(value);
    return status;
}

static muster_status work(muster_restart *restart, void *arg)
{
    struct muster_view view;
    char key[64];
    muster_status status;

    (void)arg;
    muster_restart_view(restart, &view);
    say("entered generation=%" PRIu64 " rank=%" PRIu32 " size=%" PRIu32 " iteration=%" PRIu64
        " index=%" PRIu32 " pid=%d",
        view.generation, view.rank, view.size, view.iteration, view.index, (int)getpid());
    (void)snprintf(key, sizeof key, "order-%" PRIu32 "-%" PRIu64, view.index, view.generation);
    status = next_order(restart, key);
    if (status == MUSTER_MORE) { /* it is still here, and needs another order */
        (void)snprintf(key, sizeof key, "order-%" PRIu32 "-%" PRIu64 "-then", view.index,
                       view.generation);
        status = next_order(restart, key);
    }
    return status;
}

int main(int count, char **arguments)
{
    struct muster_error err;
    muster_status status;

    if (count > 1) {
        fill_memory(arguments[1]);
    }
    status = muster_client_open(&client, NULL, -1, &err);
    if (status == MUSTER_OK) {
        status = muster_restart_run(client, NULL, work, NULL, &err);
        muster_client_close(client);
    }
    if (status != MUSTER_OK) {
        (void)fprintf(stderr, "run_rank: %s\n", err.text);
    }
    say("finished pid=%d", (int)getpid());
    return muster_exit_code(status);
}
