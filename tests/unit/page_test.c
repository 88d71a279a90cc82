/* SPDX-License-Identifier: Apache-2.0 */
/* behaviour: run / How a death is known */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/short_slice.h"
#include "process/page.h"
#include "process/proc_stat.h"

/* Rank and agent share a progress page. Both see the same. */
static void a_rank_sees_the_page_of_its_agent(void **state)
{
    struct mst_page *agent, *rank;
    int fd;

    (void)state;
    assert_int_equal(mst_page_create(&agent, &fd), MUSTER_OK);
    assert_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    assert_int_equal(mst_page_map(&rank, fd), MUSTER_OK);
    assert_false(mst_page_held(agent));
    assert_true(mst_page_hold(rank));
    assert_true(mst_page_held(agent));
    assert_int_equal(agent->pid, getpid());
    assert_true(agent->start != 0);
    assert_int_equal(agent->start, mst_proc_stat_start(getpid()));
    rank->pings = 7;
    assert_int_equal(agent->pings, 7);
    mst_page_release(rank);
    assert_false(mst_page_held(agent));
    assert_false(mst_page_died(agent));
    assert_true(mst_page_hold(rank)); /* a second client after the first was closed */
    mst_page_release(rank);
    mst_page_unmap(rank);
    mst_page_unmap(agent);
    close(fd);
}

/* A file is no page. It is refused. */
static void what_is_no_page_is_refused(void **state)
{
    struct mst_page *page = NULL;
    int small = memfd_create("small", MFD_CLOEXEC), zero = memfd_create("zero", MFD_CLOEXEC);
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(ftruncate(zero, 4096), 0);
    assert_int_equal(mst_page_map(&page, small), MUSTER_EINVAL);
    assert_int_equal(mst_page_map(&page, zero), MUSTER_EINVAL);
    assert_int_equal(mst_page_map(&page, ends[0]), MUSTER_EINVAL);
    assert_int_equal(mst_page_map(&page, -1), MUSTER_EINVAL);
    assert_null(page);
    close(small);
    close(zero);
    close(ends[0]);
    close(ends[1]);
}

/* A rank tries to cut off its page under its agent. It cannot. */
static void a_rank_cannot_truncate_it_under_its_agent(void **state)
{
    struct mst_page *page;
    int fd;

    (void)state;
    assert_int_equal(mst_page_create(&page, &fd), MUSTER_OK);
    assert_int_equal(ftruncate(fd, 0), -1);
    assert_int_equal(errno, EPERM);
    mst_page_unmap(page);
    close(fd);
}

/* A child tries to take the page that its parent holds. It cannot. */
static void a_child_cannot_take_what_its_parent_holds(void **state)
{
    struct mst_page *page;
    int fd, status;
    pid_t child;

    (void)state;
    assert_int_equal(mst_page_create(&page, &fd), MUSTER_OK);
    assert_true(mst_page_hold(page));
    child = fork();
    if (child == 0) {
        _exit(mst_page_hold(page) ? 1 : 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(page->pid, getpid());
    mst_page_release(page);
    mst_page_unmap(page);
    close(fd);
}

/* A process has died. Its page is held by no process. */
static void nobody_holds_the_page_of_a_dead_one(void **state)
{
    struct mst_page *page;
    int fd, status;
    pid_t child;

    (void)state;
    assert_int_equal(mst_page_create(&page, &fd), MUSTER_OK);
    child = fork();
    if (child == 0) {
        _exit(mst_page_hold(page) ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(mst_page_died(page));
    assert_false(mst_page_hold(page));
    assert_true(mst_page_died(page)); /* still, for the agent that has not looked yet */
    mst_page_unmap(page);
    close(fd);
}

/* The agent is of an older version than the library, and made a smaller page. The library takes
 * it, and writes what was added since all the same. [library / Opening and closing] */
static void a_page_of_an_older_agent_is_taken(void **state)
{
    const size_t sizes[] = {MST_PAGE_SIZE_MIN - 1, MST_PAGE_SIZE_MIN, MST_PAGE_SIZE_MIN + 4};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int fd = memfd_create("older", MFD_CLOEXEC);
        struct mst_page head = {.version = MST_PAGE_VERSION, .size = (uint32_t)sizes[i]};
        struct mst_page *page = NULL;

        assert_int_equal(write(fd, &head, sizes[i]), (ssize_t)sizes[i]);
        assert_int_equal(mst_page_map(&page, fd), i == 0 ? MUSTER_EINVAL : MUSTER_OK);
        if (i != 0) {
            mst_page_wait_begin(page, "barrier 'step'");
            mst_page_wait_end(page);
            assert_int_equal(page->waits, 2);
            mst_page_unmap(page);
        }
        close(fd);
    }
}

/* A wait has a long name. The page names it as far as there is room.
 * [library / Opening and closing] */
static void a_wait_is_named_as_far_as_there_is_room(void **state)
{
    struct mst_page *page;
    char name[200];
    int fd;

    (void)state;
    assert_int_equal(mst_page_create(&page, &fd), MUSTER_OK);
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    mst_page_wait_begin(page, name);
    assert_int_equal(page->waits, 1);
    assert_int_equal(strlen(page->waits_for), sizeof page->waits_for - 1);
    mst_page_wait_end(page);
    mst_page_wait_begin(page, "key 'a'");
    assert_string_equal(page->waits_for, "key 'a'");
    mst_page_wait_end(page);
    mst_page_wait_begin(page, NULL);
    assert_string_equal(page->waits_for, "");
    assert_int_equal(page->waits, 5);
    mst_page_unmap(page);
    close(fd);
}

/* A kernel that answers for the scheduler: what it makes of being asked, and what it was asked. */
static struct {
    bool stands_in, knows_attributes, refuses, forgets;
    unsigned policy, sets;
    uint64_t slice_ns;
    int32_t nice;
} kernel;

/* The first version of the kernel's structure, as in short_slice.c. */
struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

static long schedule(long number, struct attributes *attributes)
{
    if (!kernel.knows_attributes) {
        errno = ENOSYS;
        return -1;
    }
    if (number == SYS_sched_getattr) {
        attributes->policy = kernel.policy;
        attributes->nice = kernel.nice;
        attributes->runtime = kernel.slice_ns;
        return 0;
    }
    kernel.sets++;
    if (kernel.refuses) {
        errno = EPERM;
        return -1;
    }
    assert_int_equal(attributes->size, sizeof *attributes);
    kernel.policy = attributes->policy;
    kernel.nice = attributes->nice;
    kernel.slice_ns = kernel.forgets ? kernel.slice_ns : attributes->runtime;
    return 0;
}

/* NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming) */
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
/* NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming) */

/* Of the arguments five: the sixth of a futex is no matter where it wakes or waits. */
long __wrap_syscall(long number, ...)
{
    long words[5], answer;
    va_list arguments;

    va_start(arguments, number);
    if (kernel.stands_in && (number == SYS_sched_getattr || number == SYS_sched_setattr)) {
        assert_int_equal(va_arg(arguments, int), 0); /* the calling thread */
        answer = schedule(number, va_arg(arguments, struct attributes *));
    } else {
        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
            words[i] = va_arg(arguments, long);
        }
        answer = __real_syscall(number, words[0], words[1], words[2], words[3], words[4]);
    }
    va_end(arguments);
    return answer;
}

static void assert_done_without(unsigned sets)
{
    const unsigned policy = kernel.policy;

    mst_short_slice();
    assert_int_equal(kernel.sets, sets);
    assert_false(mst_short_slice_works());
    assert_int_equal(kernel.slice_ns, 3000000);
    assert_int_equal(kernel.policy, policy);
    assert_int_equal(kernel.nice, 5);
}

/* The kernel does not know short slices. The rank does without. */
static void a_short_slice_is_asked_for_or_done_without(void **state)
{
    (void)state;
    kernel.stands_in = kernel.knows_attributes = true;
    kernel.policy = SCHED_OTHER;
    kernel.nice = 5;
    kernel.slice_ns = 3000000;
    kernel.refuses = true;
    assert_done_without(1);
    kernel.refuses = false;
    kernel.forgets = true; /* before Linux 6.12 */
    assert_done_without(2);
    kernel.knows_attributes = false; /* before Linux 3.14, and in some sandboxes */
    assert_done_without(2);
    kernel.knows_attributes = true;
    kernel.forgets = false;
    kernel.policy = SCHED_FIFO; /* somebody chose it */
    assert_done_without(2);
    kernel.policy = SCHED_OTHER;
    mst_short_slice();
    assert_true(mst_short_slice_works());
    assert_int_equal(kernel.slice_ns, 100000);
    assert_int_equal(kernel.nice, 5);
    kernel.stands_in = false;
}

/* An attempt begins with a step that one before it had reached. The page says how many steps are
 * done again; of a first attempt, and of one that goes on behind the last step, none. A process
 * that is started in the place of another one knows from its agent how far that one was.
 * [generations / What happened to a job] */
static void an_attempt_says_how_many_steps_it_does_again(void **state)
{
    struct mst_page *page, *next;
    int fds[2];

    (void)state;
    assert_int_equal(mst_page_create(&page, &fds[0]), MUSTER_OK);
    assert_int_equal(mst_page_create(&next, &fds[1]), MUSTER_OK);
    assert_true(mst_page_reached(page) == MST_PAGE_NO_STEP); /* it was in no attempt */
    mst_page_attempt(page);
    page->generation = 1;
    mst_page_first_step(page, 5);
    assert_int_equal(page->repeated, 0);
    page->step = 9;
    mst_page_attempt(page);
    page->generation = 2;
    mst_page_first_step(page, 7);
    assert_int_equal(page->repeated, 3); /* 7, 8 and 9 */
    mst_page_attempt(page);              /* it came to no step */
    assert_int_equal(page->repeated, 0);
    mst_page_first_step(page, 10);
    assert_int_equal(page->repeated, 0);
    next->reached = mst_page_reached(page);
    mst_page_attempt(next);
    mst_page_first_step(next, 0);
    assert_int_equal(next->repeated, 10);
    mst_page_unmap(page);
    mst_page_unmap(next);
    close(fds[0]);
    close(fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_sees_the_page_of_its_agent),
        cmocka_unit_test(what_is_no_page_is_refused),
        cmocka_unit_test(a_rank_cannot_truncate_it_under_its_agent),
        cmocka_unit_test(a_child_cannot_take_what_its_parent_holds),
        cmocka_unit_test(nobody_holds_the_page_of_a_dead_one),
        cmocka_unit_test(a_page_of_an_older_agent_is_taken),
        cmocka_unit_test(a_wait_is_named_as_far_as_there_is_room),
        cmocka_unit_test(a_short_slice_is_asked_for_or_done_without),
        cmocka_unit_test(an_attempt_says_how_many_steps_it_does_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
