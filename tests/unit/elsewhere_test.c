/* SPDX-License-Identifier: Apache-2.0 */
/* The file by which commands on a machine find a job whose service is on another one.
 *
 * behaviour: nodes / A run over several nodes */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/elsewhere.h"
#include "os/folder.h"

#define JOB "job"
#define READS 20000

static const char *const addresses[] = {"10.0.0.1:1",
                                        "10.0.0.1:1,10.0.0.2:22222,10.0.0.3:33333,10.0.0.4:44444"};

static char folder[64], path[MST_SOCKET_PATH_MAX];
static struct mst_elsewhere where; /* both are large */
static int kept = -1;

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof(folder), "/tmp/mst-elsewhere-XXXXXX");
    if (mkdtemp(folder) == NULL || setenv("MUSTER_RUNTIME_DIR", folder, 1) != 0) {
        return -1;
    }
    return mst_elsewhere_path(JOB, path, false, NULL) == MUSTER_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    mst_folder_remove(folder);
    return 0;
}

static bool keeps(const char *address)
{
    (void)snprintf(where.addr, sizeof where.addr, "%s", address);
    return mst_elsewhere_keep(JOB, &where, &kept, NULL) == MUSTER_OK;
}

/* In a process of its own: a file is not read by who keeps it. Goes on until `in` ends. */
static void keep_anew(int in, int out)
{
    bool well = keeps(addresses[0]) && write(out, "x", 1) == 1;
    char byte;

    for (unsigned i = 1; well && read(in, &byte, 1) != 0; i++) {
        well = keeps(addresses[i % 2]);
    }
    mst_elsewhere_forget(JOB, kept);
    _exit(well ? 0 : 1);
}

/* The keeper of a job's file writes it anew, again and again, as when a replica of the service
 * takes another's place. A command that looks meanwhile finds the old addresses or the new ones,
 * and never none. When the keeper has ended, the file has gone with it. */
static void test_a_file_that_is_written_anew_is_there_all_the_time(void **state)
{
    struct mst_elsewhere *found = calloc(1, sizeof *found);
    int go[2], up[2], status;
    pid_t keeper;
    char byte;

    (void)state;
    assert_non_null(found);
    assert_int_equal(pipe2(go, O_CLOEXEC | O_NONBLOCK), 0);
    assert_int_equal(pipe2(up, O_CLOEXEC), 0);
    keeper = fork();
    if (keeper == 0) {
        close(go[1]);
        keep_anew(go[0], up[1]);
    }
    close(go[0]);
    assert_int_equal(read(up[0], &byte, 1), 1);
    for (int i = 0; i < READS; i++) {
        assert_int_equal(mst_elsewhere_read(path, found), keeper);
        assert_true(strcmp(found->addr, addresses[0]) == 0 ||
                    strcmp(found->addr, addresses[1]) == 0);
    }
    close(go[1]);
    assert_int_equal(waitpid(keeper, &status, 0), keeper);
    assert_int_equal(status, 0);
    assert_int_equal(mst_elsewhere_read(path, found), 0);
    assert_int_not_equal(access(path, F_OK), 0);
    close(up[0]);
    close(up[1]);
    free(found);
}

/* A process was killed whose file said where the service is. The file does not count; the next
 * keeper writes it anew, and a third process that runs a part of the job leaves it to that one. */
static void test_the_file_of_a_dead_keeper_is_taken_over(void **state)
{
    pid_t keeper = fork();
    int status;

    (void)state;
    if (keeper == 0) {
        _exit(keeps(addresses[0]) && kept >= 0 ? 0 : 1); /* and does not forget it */
    }
    assert_int_equal(waitpid(keeper, &status, 0), keeper);
    assert_int_equal(status, 0);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(mst_elsewhere_read(path, NULL), 0);
    assert_true(keeps(addresses[1]));
    assert_true(kept >= 0);
    keeper = fork();
    if (keeper == 0) {
        struct mst_elsewhere *found = calloc(1, sizeof *found);

        kept = -1;
        _exit(keeps(addresses[0]) && kept == -1 && mst_elsewhere_read(path, found) == getppid() &&
                      strcmp(found->addr, addresses[1]) == 0
                  ? 0
                  : 1);
    }
    assert_int_equal(waitpid(keeper, &status, 0), keeper);
    assert_int_equal(status, 0);
    mst_elsewhere_forget(JOB, kept);
    assert_int_not_equal(access(path, F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_file_that_is_written_anew_is_there_all_the_time,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_file_of_a_dead_keeper_is_taken_over, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
