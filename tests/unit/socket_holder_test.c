/* SPDX-License-Identifier: Apache-2.0 */
/* behaviour: fronts / The agent's side */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "process/socket_holder.h"

static int pair[2];

static uint64_t inode_of(int fd)
{
    struct stat of;

    assert_int_equal(fstat(fd, &of), 0);
    return of.st_ino;
}

static int setup(void **state)
{
    (void)state;
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair);
}

static int teardown(void **state)
{
    (void)state;
    (void)close(pair[0]);
    return 0;
}

/* A process has a socket, and so has its child. The holder is the parent. A socket that is closed
 * has no holder. */
static void the_holder_of_a_socket(void **state)
{
    uint64_t own = inode_of(pair[0]), closed = inode_of(pair[1]);
    pid_t child = fork();

    (void)state;
    if (child == 0) {
        (void)close(pair[1]);
        (void)pause();
        _exit(0);
    }
    (void)close(pair[1]);
    assert_int_equal(mst_socket_holder(own), getpid());
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
    assert_int_equal(mst_socket_holder(own), getpid());
    assert_int_equal(mst_socket_holder(closed), 0);
}

/* Only a child has the socket. It is the holder. */
static void the_holder_is_another_process(void **state)
{
    uint64_t inode = inode_of(pair[1]);
    pid_t child = fork();

    (void)state;
    if (child == 0) {
        (void)pause();
        _exit(0);
    }
    (void)close(pair[1]);
    assert_int_equal(mst_socket_holder(inode), child);
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
    assert_int_equal(mst_socket_holder(inode), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_holder_of_a_socket, setup, teardown),
        cmocka_unit_test_setup_teardown(the_holder_is_another_process, setup, teardown),
    };

    return cmocka_run_group_tests_name("socket holder", tests, NULL, NULL);
}
