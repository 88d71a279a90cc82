/* SPDX-License-Identifier: Apache-2.0 */
/* The secret's file: how it is made, and which one is not taken.
 *
 * behaviour: security / The secret's file */
#define _GNU_SOURCE
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

#include "net/secret.h"

#define ROOM 300

static char folder[64];

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof(folder), "/tmp/mst-secret-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static const char *in_folder(const char *name)
{
    static char path[ROOM];

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static int tear_down(void **state)
{
    static const char *const made[] = {"file",        "other", "new/folders/job.secret",
                                       "new/folders", "new",   ""};

    (void)state;
    for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++) {
        (void)remove(in_folder(made[i]));
    }
    return 0;
}

static const char *file_of(const char *text, size_t size, mode_t mode)
{
    const char *path = in_folder("file");
    FILE *file;

    (void)unlink(path);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
    return path;
}

static void refuses(const char *path, const char *words)
{
    struct mst_secret secret;
    struct muster_error err = {0};

    assert_int_equal(mst_secret_read(path, &secret, &err), MUSTER_EINVAL);
    if (!strstr(err.text, words)) {
        fail_msg("'%s' does not say '%s'", err.text, words);
    }
    assert_null(strchr(err.text, '\n'));
}

/* A secret is made. It has 64 random hexadecimal digits, mode 0600, in folders of mode 0700; an
 * existing one is left alone. */
static void one_that_is_made_can_be_read(void **state)
{
    const char *path = in_folder("new/folders/job.secret");
    struct mst_secret one, two;
    struct muster_error err = {0};
    struct stat info;

    (void)state;
    assert_int_equal(mst_secret_make(path, &err), MUSTER_OK);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0600);
    assert_int_equal(info.st_size, 65);
    assert_int_equal(info.st_nlink, 1);
    assert_int_equal(stat(in_folder("new/folders"), &info), 0);
    assert_int_equal(info.st_mode & 07777, 0700);
    path = in_folder("new/folders/job.secret");
    assert_int_equal(mst_secret_read(path, &one, &err), MUSTER_OK);
    assert_int_equal(one.size, 64);
    assert_int_equal(strspn((const char *)one.bytes, "0123456789abcdef"), 64);

    assert_int_equal(mst_secret_make(path, &err), MUSTER_EEXISTS);
    assert_int_equal(mst_secret_read(path, &two, &err), MUSTER_OK);
    assert_memory_equal(one.bytes, two.bytes, one.size);
    assert_int_equal(mst_secret_make(in_folder("other"), &err), MUSTER_OK);
    assert_int_equal(mst_secret_read(in_folder("other"), &two, &err), MUSTER_OK);
    assert_memory_not_equal(one.bytes, two.bytes, one.size);
    mst_secret_wipe(&one);
    assert_int_equal(one.size, 0);
    assert_int_equal(one.bytes[5], 0);
}

/* A secret is shorter than 16 bytes or longer than 64. It is refused. */
static void only_16_to_64_bytes(void **state)
{
    struct mst_secret secret;
    struct muster_error err = {0};
    char text[80];

    (void)state;
    memset(text, 'k', sizeof(text));
    refuses(file_of(text, 15, 0600), "has too few bytes: 16 to 64 are taken");
    refuses(file_of("k\n", 2, 0600), "has too few bytes");
    refuses(file_of("", 0, 0600), "has too few bytes");
    refuses(file_of(text, 65, 0600), "has too many bytes");
    refuses(file_of(text, 80, 0600), "has too many bytes");
    assert_int_equal(mst_secret_read(file_of(text, 64, 0400), &secret, &err), MUSTER_OK);
    assert_int_equal(secret.size, 64);
    text[16] = '\n';
    assert_int_equal(mst_secret_read(file_of(text, 17, 0600), &secret, &err), MUSTER_OK);
    assert_int_equal(secret.size, 16);
    for (size_t i = 0; i < 17; i++) { /* any bytes, one newline cut */
        text[i] = "\0\n"[i % 2 || i == 16];
    }
    assert_int_equal(mst_secret_read(file_of(text, 17, 0600), &secret, &err), MUSTER_OK);
    assert_int_equal(secret.size, 16);
    assert_memory_equal(secret.bytes, text, 16);
}

/* Others can read the secret's file. It is no secret. */
static void what_others_can_read_is_no_secret(void **state)
{
    static const char text[] = "0123456789abcdef0123456789abcdef";
    static const mode_t modes[] = {0640, 0604, 0620, 0602, 0666, 0644};

    (void)state;
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        refuses(file_of(text, 32, modes[i]), "can be read or written by other users");
    }
    refuses(folder, "is no regular file");
    refuses("/nowhere/at/all", "No such file or directory");
    if (geteuid() == 0) {
        const char *path = file_of(text, 32, 0600);

        assert_int_equal(chown(path, 65534, 65534), 0);
        refuses(path, "belongs to another user, who knows it");
    }
}

/* A descriptor of a secret is shared by many. Each reads it from its beginning.
 * [With the secret] */
static void a_descriptor_may_be_shared(void **state)
{
    static const char text[] = "0123456789abcdef0123456789abcdef";
    FILE *file = fopen(file_of(text, 32, 0600), "r");
    struct mst_secret secret;
    struct muster_error err = {0};
    int ends[2];

    (void)state;
    assert_non_null(file);
    for (int i = 0; i < 2; i++) { /* from its beginning, each time */
        assert_int_equal(mst_secret_read_fd(fileno(file), &secret, &err), MUSTER_OK);
        assert_int_equal(secret.size, 32);
        assert_memory_equal(secret.bytes, text, 32);
    }
    (void)fclose(file);

    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], text, 20), 20);
    assert_int_equal(write(ends[1], text, 12), 12);
    (void)close(ends[1]);
    assert_int_equal(mst_secret_read_fd(ends[0], &secret, &err), MUSTER_OK);
    assert_int_equal(secret.size, 32);
    assert_int_equal(mst_secret_read_fd(ends[0], &secret, &err), MUSTER_EINVAL);
    assert_non_null(strstr(err.text, "has too few bytes"));
    (void)close(ends[0]);
    assert_int_equal(mst_secret_read_fd(ends[0], &secret, &err), MUSTER_EINVAL);
    assert_non_null(strstr(err.text, "cannot read the secret from descriptor"));
}

/* A run was killed while it made the file of its secret. The next one, with the same process id
 * even, as in a container, makes it. */
static void a_draft_of_a_killed_one_is_not_in_the_way(void **state)
{
    struct muster_error err = {0};
    char draft[ROOM + 16], path[ROOM];
    FILE *file;

    (void)state;
    (void)snprintf(path, sizeof(path), "%s", in_folder("drafted"));
    (void)snprintf(draft, sizeof(draft), "%s.%d", path, (int)getpid());
    file = fopen(draft, "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(mst_secret_make(path, &err), MUSTER_OK);
    (void)remove(draft);
    (void)remove(path);
}

/* A secret is shared in sealed memory. All read it and none changes it. */
static void a_shared_one_is_read_by_all_and_changed_by_none(void **state)
{
    struct mst_secret one = {.bytes = "0123456789abcdef", .size = 16}, two;
    struct muster_error err = {0};
    int fd = -1;

    (void)state;
    assert_int_equal(mst_secret_share(&one, &fd, &err), MUSTER_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mst_secret_read_fd(fd, &two, &err), MUSTER_OK);
        assert_int_equal(two.size, one.size);
        assert_memory_equal(two.bytes, one.bytes, one.size);
    }
    assert_int_equal(pwrite(fd, "x", 1, 0), -1);
    assert_int_equal(ftruncate(fd, 4), -1);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    (void)close(fd);
}

/* A job's secret lies in the user's state folder, which on a cluster all nodes share. */
static void where_it_lies(void **state)
{
    struct muster_error err = {0};
    char path[ROOM];

    (void)state;
    assert_int_equal(setenv("HOME", "/home/u", 1), 0);
    (void)unsetenv("XDG_STATE_HOME");
    (void)unsetenv("MUSTER_STATE_DIR");
    assert_int_equal(mst_secret_path("train", path, sizeof(path), &err), MUSTER_OK);
    assert_string_equal(path, "/home/u/.local/state/muster/train.secret");
    assert_int_equal(setenv("XDG_STATE_HOME", "/s", 1), 0);
    assert_int_equal(mst_secret_path("train", path, sizeof(path), &err), MUSTER_OK);
    assert_string_equal(path, "/s/muster/train.secret");
    assert_int_equal(setenv("MUSTER_STATE_DIR", "/m", 1), 0);
    assert_int_equal(mst_secret_path("train", path, sizeof(path), &err), MUSTER_OK);
    assert_string_equal(path, "/m/train.secret");
    assert_int_equal(mst_secret_path("train", path, 10, &err), MUSTER_EINVAL);
    assert_int_equal(mst_secret_path("a/b", path, sizeof(path), &err), MUSTER_EINVAL);
    assert_int_equal(mst_secret_path("..", path, sizeof(path), &err), MUSTER_EINVAL);
    (void)unsetenv("MUSTER_STATE_DIR");
    (void)unsetenv("XDG_STATE_HOME");
    (void)unsetenv("HOME");
    assert_int_equal(mst_secret_path("train", path, sizeof(path), &err), MUSTER_EINVAL);
    assert_non_null(strstr(err.text, "set HOME or MUSTER_STATE_DIR"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_is_made_can_be_read),
        cmocka_unit_test(only_16_to_64_bytes),
        cmocka_unit_test(what_others_can_read_is_no_secret),
        cmocka_unit_test(a_descriptor_may_be_shared),
        cmocka_unit_test(a_draft_of_a_killed_one_is_not_in_the_way),
        cmocka_unit_test(a_shared_one_is_read_by_all_and_changed_by_none),
        cmocka_unit_test(where_it_lies),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
