/* SPDX-License-Identifier: Apache-2.0 */
/* The process that keeps a worker's children, and a worker that is slow to hear of them. */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tasks/shell/worker/supervisor.h"
#include "tasks/shell/worker/worker.h"

enum { PROCESSES = 400, LIMIT_S = 10 };

static _Noreturn void be_supervisor(pid_t parent, int control)
{
    static struct muster_worker worker;
    struct mst_supervisor supervisor = {.worker = &worker,
                                        .processes =
                                            calloc(PROCESSES, sizeof(*supervisor.processes)),
                                        .count = PROCESSES,
                                        .control = control,
                                        .parent = parent};
    sigset_t all;

    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &supervisor.before);
    supervisor.signals = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
    mst_work_supervisor_main(&supervisor);
}

/* Each of them could not be started, for its descriptors are missing. There is no room for so many
 * reports until the worker reads one. */
static void each_end_is_told_however_late_the_worker_reads(void **state)
{
    const struct timeval limit = {.tv_sec = LIMIT_S};
    bool told[PROCESSES] = {false};
    int ends[2], least = 1, status;
    pid_t self = getpid();
    pid_t pid;

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &least, sizeof(least)), 0);
    assert_int_equal(setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)close(ends[0]);
        be_supervisor(self, ends[1]);
    }
    (void)close(ends[1]);
    for (uint32_t id = 0; id < PROCESSES; id++) {
        const struct mst_supervisor_word order = {.order = MST_SUPERVISOR_COMMAND, .id = id};

        assert_int_equal(send(ends[0], &order, sizeof(order), MSG_NOSIGNAL), sizeof(order));
    }
    for (uint32_t i = 0; i < PROCESSES; i++) {
        struct mst_supervisor_report report;

        assert_int_equal(recv(ends[0], &report, sizeof(report), 0), sizeof(report));
        assert_int_equal(report.error, EMFILE);
        assert_true(report.id < PROCESSES && !told[report.id]);
        told[report.id] = true;
    }
    (void)close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_end_is_told_however_late_the_worker_reads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
