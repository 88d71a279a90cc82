/* SPDX-License-Identifier: Apache-2.0 */
/* Each signal that an agent sends, at each handler that the library installs, in a process of its
 * own: is it a notice, and what becomes of the process.
 *
 * behaviour: preemption / The sources of a process */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/shell/interrupt.h"
#include "client/shell/signals.h"
#include "process/page.h"

/* The launcher's ends, what it passes on, and what makes a stopped one run. */
static const int sent[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT};
enum { SENT = sizeof(sent) / sizeof(sent[0]), STAYS = 40, WRONG = 41 };

/* What stands at the signal besides ours. */
enum standing {
    ALONE,     /* nothing */
    IGNORED,   /* it was ignored before, as nohup does */
    ABOVE,     /* ours over the program's */
    BELOW,     /* the program's over ours, which it calls */
    TOPPED,    /* the same, and ours once more over that */
    INTERRUPT, /* the library's own, which interrupts a function */
    STANDINGS  /* how many */
};

enum moment {
    OUTSIDE, /* somebody else sends it */
    ENDS,    /* the agent does */
    SAVES,   /* the agent does, to a process that knows of a notice */
    CLOSED,  /* the agent does, and the handle is closed */
    MOMENTS
};

/* Whoever starts the tests in the background ignores some of them, and the children would too. */
static int setup(void **state)
{
    (void)state;
    for (size_t i = 0; i < SENT; i++) {
        (void)signal(sent[i], SIG_DFL);
    }
    (void)signal(SIGCHLD, SIG_DFL); /* where it is ignored nothing can be waited for */
    return 0;
}

static volatile sig_atomic_t called;
static struct sigaction under;

static void own(int number)
{
    (void)number;
    called++;
}

static void chains(int number, siginfo_t *info, void *context)
{
    called++;
    if (under.sa_flags & SA_SIGINFO) {
        under.sa_sigaction(number, info, context);
    }
}

/* One that ends processes is none that interrupts. */
static bool interrupts(int number)
{
    return number == SIGUSR1 || number == SIGUSR2 || number == SIGCONT;
}

/* Whether it is a notice then. */
static bool stand(struct mst_signals *signals, int number, enum standing standing,
                  const struct mst_page *page)
{
    const uint64_t wanted = UINT64_C(1) << (number - 1);
    struct sigaction mine = {.sa_handler = standing == IGNORED ? SIG_IGN : own};
    struct sigaction over = {.sa_sigaction = chains, .sa_flags = SA_SIGINFO};
    struct mst_interrupt interrupt;
    bool opened;

    if (standing == IGNORED || standing == ABOVE) {
        (void)sigaction(number, &mine, NULL);
    }
    if (standing == INTERRUPT) {
        (void)mst_interrupt_arm(&interrupt, number, false, NULL);
    }
    opened = mst_signals_open(signals, wanted, page, NULL) == MUSTER_OK;
    if (standing == BELOW || standing == TOPPED) {
        (void)sigaction(number, &over, &under);
    }
    if (standing == TOPPED) {
        mst_signals_close(signals);
        (void)mst_signals_open(signals, wanted, page, NULL);
    }
    return opened;
}

/* In the child: STAYS, or WRONG, if it gets so far. */
static _Noreturn void receive(int number, enum standing standing, enum moment moment,
                              struct mst_page *page)
{
    const struct rlimit none = {0};
    bool functions = standing == ABOVE || standing == BELOW || standing == TOPPED;
    bool refused = standing == INTERRUPT && interrupts(number);
    bool expected = moment == OUTSIDE && !refused;
    bool notice = expected; /* once closed it cannot be asked */
    struct mst_signals signals;
    pid_t from;

    (void)setrlimit(RLIMIT_CORE, &none);
    if (stand(&signals, number, standing, page) == refused) {
        _exit(WRONG);
    }
    mst_signals_noticed(&signals, moment == SAVES);
    atomic_store(&page->ends, moment != OUTSIDE);
    if (moment == CLOSED) {
        mst_signals_close(&signals);
    }
    (void)kill(getpid(), number);
    if (moment != CLOSED) {
        notice = mst_signals_next(&signals, &from) == number;
    }
    _exit(notice == expected && called == functions ? STAYS : WRONG);
}

/* Its default action, unless a notice is known or the program has made another of it. */
static bool dies(int number, enum standing standing, enum moment moment)
{
    bool chained = standing == BELOW || standing == TOPPED; /* what is below is the default */

    return number != SIGCONT && (moment == ENDS || moment == CLOSED) &&
           (standing == ALONE || chained || (standing == INTERRUPT && !interrupts(number)));
}

static void assert_received(int number, enum standing standing, enum moment moment)
{
    struct mst_page *page;
    int fd, status;
    pid_t pid;

    assert_int_equal(mst_page_create(&page, &fd), MUSTER_OK);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        receive(number, standing, moment, page);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (dies(number, standing, moment) ? !WIFSIGNALED(status) || WTERMSIG(status) != number
                                       : !WIFEXITED(status) || WEXITSTATUS(status) != STAYS) {
        fail_msg("signal %d, standing %d, moment %d: status %#x", number, (int)standing,
                 (int)moment, (unsigned)status);
    }
    mst_page_unmap(page);
    (void)close(fd);
}

/* A rank's agent ends its process: it hangs, all are started anew, another one has failed, or
 * `muster run` was stopped. That is no notice, whichever signals the rank takes for one. The
 * signal does what it did before, so it ends the rank; one that knows of a notice may save for
 * its grace time. */
static void what_the_agent_ends_by_is_no_notice_whatever_handler_is_there(void **state)
{
    (void)state;
    for (size_t i = 0; i < SENT; i++) {
        for (int standing = ALONE; standing < STANDINGS; standing++) {
            for (int moment = OUTSIDE; moment < MOMENTS; moment++) {
                assert_received(sent[i], standing, moment);
            }
        }
    }
}

/* A scheduler's signal comes in the moment in which the agent ends the process. It is no notice
 * by that process: the kernel makes one of the two. */
static void one_that_waits_for_the_process_with_the_agents_is_no_notice(void **state)
{
    struct mst_page *page;
    int fd, status;
    pid_t pid;

    (void)state;
    assert_int_equal(mst_page_create(&page, &fd), MUSTER_OK);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct mst_signals signals;
        sigset_t set;

        (void)stand(&signals, SIGTERM, ALONE, page);
        (void)sigemptyset(&set);
        (void)sigaddset(&set, SIGTERM);
        (void)sigprocmask(SIG_BLOCK, &set, NULL);
        (void)kill(getpid(), SIGTERM);
        atomic_store(&page->ends, 1);
        (void)kill(getpid(), SIGTERM);
        (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
        _exit(WRONG);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    mst_page_unmap(page);
    (void)close(fd);
}

/* A process has clients of two jobs. Each agent's word counts for the process, by the page of
 * any handle. */
static void the_page_of_any_handle_counts(void **state)
{
    struct mst_page *page;
    int fd, status;
    pid_t pid;

    (void)state;
    assert_int_equal(mst_page_create(&page, &fd), MUSTER_OK);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct mst_signals first, second;

        (void)stand(&first, SIGTERM, ALONE, NULL);
        (void)stand(&second, SIGTERM, ALONE, page);
        atomic_store(&page->ends, 1);
        (void)kill(getpid(), SIGTERM);
        _exit(WRONG);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    mst_page_unmap(page);
    (void)close(fd);
}

/* In the child: it closes all descriptors, and has a file of its own where the event was. Another
 * handle neither closes that nor writes to it. */
static _Noreturn void reopen(int event)
{
    struct mst_signals signals;
    struct stat before, after;
    int fd;

    closefrom(STDERR_FILENO + 1);
    do {
        fd = memfd_create("own", MFD_CLOEXEC);
    } while (fd >= 0 && fd < event);
    if (fd != event || fstat(fd, &before) != 0) {
        _exit(WRONG);
    }
    (void)stand(&signals, SIGTERM, ALONE, NULL);
    (void)raise(SIGTERM);
    _exit(fstat(fd, &after) == 0 && after.st_ino == before.st_ino && after.st_size == 0 ? STAYS
                                                                                        : WRONG);
}

static void assert_stays(pid_t pid)
{
    int status;

    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), STAYS);
}

/* A child closes all descriptors and opens files of its own; then it opens a handle. Those files
 * are neither closed nor written to. */
static void a_child_closes_no_file_of_its_own_for_an_event_of_its_parents(void **state)
{
    struct mst_signals signals;
    pid_t pid;

    (void)state;
    (void)stand(&signals, SIGTERM, ALONE, NULL);
    pid = fork();
    if (pid == 0) {
        reopen(signals.event);
    }
    assert_stays(pid);
    mst_signals_close(&signals);
}

/* A process has closed its handle, closes all descriptors and opens files of its own; then it
 * opens a handle. Those files are neither closed nor written to. */
static void the_event_of_a_closed_handle_is_not_kept(void **state)
{
    pid_t pid = fork();

    (void)state;
    if (pid == 0) {
        struct mst_signals signals;
        int event;

        (void)stand(&signals, SIGTERM, ALONE, NULL);
        event = signals.event;
        mst_signals_close(&signals);
        reopen(event);
    }
    assert_stays(pid);
}

/* A handle knew of a notice and was closed. The notice went with it: the next handle saves for
 * none. */
static void a_notice_of_a_closed_handle_saves_nobody(void **state)
{
    struct mst_page *page;
    int fd, status;
    pid_t pid;

    (void)state;
    assert_int_equal(mst_page_create(&page, &fd), MUSTER_OK);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct mst_signals first, second;

        (void)stand(&first, SIGTERM, ALONE, page);
        mst_signals_noticed(&first, true);
        mst_signals_close(&first);
        (void)stand(&second, SIGTERM, ALONE, page);
        atomic_store(&page->ends, 1);
        (void)kill(getpid(), SIGTERM);
        _exit(WRONG);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    mst_page_unmap(page);
    (void)close(fd);
}

/* A program's handler says by its flags whether the calls that it meets go on. They do as it
 * says. */
static void a_handler_of_the_program_decides_whether_calls_go_on(void **state)
{
    static const int flags[] = {0, SA_RESTART};

    (void)state;
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        const struct sigaction mine = {.sa_handler = own, .sa_flags = flags[i]};
        struct sigaction before, ours;
        struct mst_signals signals;

        assert_int_equal(sigaction(SIGUSR1, &mine, &before), 0);
        (void)stand(&signals, SIGUSR1, ALONE, NULL);
        assert_int_equal(sigaction(SIGUSR1, NULL, &ours), 0);
        assert_true(ours.sa_handler != own);
        assert_int_equal(ours.sa_flags & SA_RESTART, flags[i]);
        mst_signals_close(&signals);
        assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
    }
}

static atomic_bool stop;

static void *receive_all_the_time(void *ctx)
{
    while (!atomic_load(&stop)) {
        (void)raise(SIGUSR1); /* to this thread */
    }
    return ctx;
}

/* A handle is closed and its page unmapped while the signal comes on another thread. The handler
 * reads no page that is gone. */
static void a_page_goes_when_no_handler_reads_it(void **state)
{
    enum { TURNS = 2000 };
    pthread_t receiver;
    struct mst_signals stays;

    (void)state;
    assert_int_equal(mst_signals_open(&stays, UINT64_C(1) << (SIGUSR1 - 1), NULL, NULL), MUSTER_OK);
    atomic_store(&stop, false);
    assert_int_equal(pthread_create(&receiver, NULL, receive_all_the_time, NULL), 0);
    for (int i = 0; i < TURNS; i++) {
        struct mst_signals signals;
        struct mst_page *page;
        int fd;

        assert_int_equal(mst_page_create(&page, &fd), MUSTER_OK);
        assert_int_equal(mst_signals_open(&signals, UINT64_C(1) << (SIGUSR1 - 1), page, NULL),
                         MUSTER_OK);
        mst_signals_close(&signals);
        mst_page_unmap(page);
        (void)close(fd);
    }
    atomic_store(&stop, true);
    assert_int_equal(pthread_join(receiver, NULL), 0);
    mst_signals_close(&stays);
}

/* A signal is to be a notice by which the library interrupts a function, or the other way round.
 * The second of the two is refused, with both settings: each interruption would be a notice. */
static void what_interrupts_is_no_notice_and_the_other_way_round(void **state)
{
    const uint64_t wanted = UINT64_C(1) << (SIGUSR1 - 1);
    struct mst_interrupt interrupt;
    struct mst_signals signals;
    struct muster_error err;

    (void)state;
    assert_int_equal(mst_interrupt_arm(&interrupt, SIGUSR1, false, NULL), MUSTER_OK);
    assert_int_equal(mst_signals_open(&signals, wanted, NULL, &err), MUSTER_EINVAL);
    assert_string_equal(err.text,
                        "take signals as notices: SIGUSR1 interrupts the function that runs here "
                        "(MUSTER_INTERRUPT_SIGNAL), so it is no notice; name others in "
                        "MUSTER_PREEMPT_SIGNALS (of a worker: MUSTER_WORKER_SIGNALS), or set "
                        "MUSTER_INTERRUPT_SIGNAL to an unused signal");
    mst_interrupt_disarm(&interrupt);
    assert_int_equal(mst_signals_open(&signals, wanted, NULL, &err), MUSTER_OK);
    assert_int_equal(mst_interrupt_arm(&interrupt, SIGUSR1, false, &err), MUSTER_EINVAL);
    assert_string_equal(err.text,
                        "run with interrupt signal 10: a handle of preempt, or a worker, takes it "
                        "for a notice (MUSTER_PREEMPT_SIGNALS, MUSTER_WORKER_SIGNALS); set "
                        "MUSTER_INTERRUPT_SIGNAL to an unused signal, or to 0 for none");
    mst_signals_close(&signals);
    assert_int_equal(mst_interrupt_arm(&interrupt, SIGUSR1, false, NULL), MUSTER_OK);
    mst_interrupt_disarm(&interrupt);
}

/* The signal that interrupts is to be one that ends a process. It is refused: muster's handler
 * does nothing, so it must not have that. [restart / Being called out] */
static void the_signal_that_interrupts_is_none_that_ends(void **state)
{
    (void)state;
    for (size_t i = 0; i < SENT; i++) {
        bool ends = !interrupts(sent[i]);
        struct mst_interrupt interrupt;
        struct muster_error err;
        muster_status status = mst_interrupt_arm(&interrupt, sent[i], false, &err);

        assert_int_equal(status, ends ? MUSTER_EINVAL : MUSTER_OK);
        if (ends) {
            assert_non_null(strstr(err.text, "this signal cannot be used for it"));
        } else {
            assert_int_equal(raise(sent[i]), 0); /* nothing happens */
            mst_interrupt_disarm(&interrupt);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_agent_ends_by_is_no_notice_whatever_handler_is_there),
        cmocka_unit_test(one_that_waits_for_the_process_with_the_agents_is_no_notice),
        cmocka_unit_test(the_page_of_any_handle_counts),
        cmocka_unit_test(a_notice_of_a_closed_handle_saves_nobody),
        cmocka_unit_test(a_handler_of_the_program_decides_whether_calls_go_on),
        cmocka_unit_test(a_page_goes_when_no_handler_reads_it),
        cmocka_unit_test(a_child_closes_no_file_of_its_own_for_an_event_of_its_parents),
        cmocka_unit_test(the_event_of_a_closed_handle_is_not_kept),
        cmocka_unit_test(what_interrupts_is_no_notice_and_the_other_way_round),
        cmocka_unit_test(the_signal_that_interrupts_is_none_that_ends),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
