/* SPDX-License-Identifier: Apache-2.0 */
/* What a command leaves in its folder goes, whatever it is, and nothing beside it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/folder.h"

static char base[64], tree[80], beside[80];

static int begin(void **state)
{
    (void)state;
    (void)snprintf(base, sizeof(base), "/tmp/muster-folder-XXXXXX");
    assert_non_null(mkdtemp(base));
    (void)snprintf(tree, sizeof(tree), "%s/tree", base);
    (void)snprintf(beside, sizeof(beside), "%s/beside", base);
    assert_int_equal(mkdir(tree, 0700), 0);
    assert_int_equal(mkdir(beside, 0700), 0);
    return 0;
}

static int end(void **state)
{
    (void)state;
    mst_folder_remove(base);
    return access(base, F_OK) == 0;
}

static void make_file(int folder, const char *name)
{
    int fd = openat(folder, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0400);

    assert_true(fd >= 0);
    (void)close(fd);
}

static bool is_there(const char *path)
{
    struct stat status;

    return lstat(path, &status) == 0;
}

/* No path could name it. */
static void test_a_tree_of_any_depth_goes(void **state)
{
    int fd = open(tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    (void)state;
    for (int depth = 0; depth < 700; depth++) {
        int below;

        assert_int_equal(mkdirat(fd, "folder", 0700), 0);
        make_file(fd, "file");
        below = openat(fd, "folder", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(below >= 0);
        (void)close(fd);
        fd = below;
    }
    (void)close(fd);
    mst_folder_remove(tree);
    assert_false(is_there(tree));
}

static void test_thousands_of_entries_go(void **state)
{
    int fd = open(tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char name[300];

    (void)state;
    for (int i = 0; i < 1000; i++) { /* of all lengths */
        (void)snprintf(name, sizeof(name), "%04d%0*d", i, 1 + i % 250, 0);
        if (i % 3 == 0) {
            assert_int_equal(mkdirat(fd, name, 0700), 0);
        } else {
            make_file(fd, name);
        }
    }
    make_file(fd, ".hidden");
    make_file(fd, "...");
    make_file(fd, ".muster-0"); /* as what is moved is called */
    assert_int_equal(mkdirat(fd, ".muster-1", 0700), 0);
    assert_int_equal(mkdirat(fd, ".muster-1/a", 0700), 0);
    assert_int_equal(mkdirat(fd, ".muster-1/a/b", 0700), 0);
    (void)close(fd);
    mst_folder_remove(tree);
    assert_false(is_there(tree));
}

static void test_links_go_and_what_they_lead_to_stays(void **state)
{
    int fd = open(tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char kept[96];

    (void)state;
    (void)snprintf(kept, sizeof(kept), "%s/kept", beside);
    make_file(AT_FDCWD, kept);
    assert_int_equal(symlinkat(beside, fd, "to-folder"), 0);
    assert_int_equal(symlinkat(kept, fd, "to-file"), 0);
    assert_int_equal(symlinkat("nowhere", fd, "to-nothing"), 0);
    assert_int_equal(mkdirat(fd, "below", 0700), 0);
    assert_int_equal(symlinkat(beside, fd, "below/to-folder"), 0);
    assert_int_equal(mkfifoat(fd, "fifo", 0600), 0);
    (void)close(fd);
    mst_folder_remove(tree);
    assert_false(is_there(tree));
    assert_true(is_there(kept));
    assert_int_equal(symlink(beside, tree), 0); /* it is a link itself */
    mst_folder_remove(tree);
    assert_true(is_there(kept));
    assert_int_equal(unlink(tree), 0);
}

/* A folder that may not be read, unless one is root: the rest goes, and there is an end. */
static void test_what_cannot_be_removed_stays(void **state)
{
    char closed[96], inner[110], open_one[110];

    (void)state;
    (void)snprintf(closed, sizeof(closed), "%s/closed", tree);
    (void)snprintf(inner, sizeof(inner), "%s/inner", closed);
    (void)snprintf(open_one, sizeof(open_one), "%s/open", tree);
    assert_int_equal(mkdir(closed, 0700), 0);
    assert_int_equal(mkdir(inner, 0700), 0);
    assert_int_equal(mkdir(open_one, 0700), 0);
    assert_int_equal(chmod(closed, 0), 0);
    mst_folder_remove(tree);
    assert_false(is_there(open_one));
    assert_int_equal(is_there(closed), geteuid() != 0);
    (void)chmod(closed, 0700);
    mst_folder_remove("/nonexistent/folder");
}

static void test_a_folder_is_read_to_its_end(void **state)
{
    struct mst_folder folder;
    const char *name;
    unsigned names = 0;
    int fd = open(tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char file[32];

    (void)state;
    for (int i = 0; i < 500; i++) {
        (void)snprintf(file, sizeof(file), "file-%d", i);
        make_file(fd, file);
    }
    (void)close(fd);
    assert_true(mst_folder_open(&folder, AT_FDCWD, tree));
    while ((name = mst_folder_next(&folder)) != NULL) {
        assert_int_equal(strncmp(name, "file-", 5), 0);
        names++;
    }
    assert_int_equal(names, 500);
    assert_null(mst_folder_next(&folder));
    mst_folder_close(&folder);
    mst_folder_close(&folder);
    assert_false(mst_folder_open(&folder, AT_FDCWD, "/nonexistent"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_tree_of_any_depth_goes, begin, end),
        cmocka_unit_test_setup_teardown(test_thousands_of_entries_go, begin, end),
        cmocka_unit_test_setup_teardown(test_links_go_and_what_they_lead_to_stays, begin, end),
        cmocka_unit_test_setup_teardown(test_what_cannot_be_removed_stays, begin, end),
        cmocka_unit_test_setup_teardown(test_a_folder_is_read_to_its_end, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
