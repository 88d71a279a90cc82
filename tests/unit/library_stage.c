/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "library_stage.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[64];

int library_stage_setup(void **state)
{
    static const char *const variables[] = {"MUSTER_ADDR",      "MUSTER_JOB",      "MUSTER_INDEX",
                                            "MUSTER_SIZE",      "MUSTER_MIN_SIZE", "MUSTER_PAGE_FD",
                                            "MUSTER_JOIN_WAIT", "MUSTER_GROW"};
    const char *parent = getenv("MST_TEST_FOLDER"); /* of tools/test, which removes it */

    (void)state;
    (void)snprintf(directory, sizeof(directory), "%s/muster-test-XXXXXX", parent ? parent : "/tmp");
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        (void)unsetenv(variables[i]);
    }
    return mkdtemp(directory) && setenv("MUSTER_RUNTIME_DIR", directory, 1) == 0 ? 0 : -1;
}

int library_stage_teardown(void **state)
{
    (void)state;
    return rmdir(directory); /* fails if a socket was left behind */
}

void library_ok(muster_status status, const struct muster_error *err)
{
    if (status != MUSTER_OK) {
        fail_msg("%s: %s", muster_status_name(status), err ? err->text : "");
    }
}

muster_client *library_open(const struct muster_client_options *options)
{
    struct muster_error err;
    muster_client *client = NULL;

    library_ok(muster_client_open(&client, options, LIMIT_MS, &err), &err);
    return client;
}

muster_client *library_alone(void)
{
    return library_open(NULL);
}

muster_client *library_observer(const muster_client *client)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;

    options.role = MUSTER_ROLE_OBSERVER;
    options.addr = client->addr;
    options.job = client->job;
    return library_open(&options);
}

struct muster_slice bytes_of(const char *text)
{
    struct muster_slice slice = {.data = text, .size = strlen(text)};

    return slice;
}

void library_in_a_child(int (*what)(const char *addr))
{
    static muster_client *service; /* the child has it too: else memcheck calls it lost there */
    int how = 0;
    pid_t child;

    service = library_alone();
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)alarm(LIMIT_MS / 1000);
        _exit(what(service->addr));
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(how, 0);
    muster_client_close(service);
}

enum { OWN_MAX = 64 };

static ino_t own[OWN_MAX]; /* of the file at that number; 0: it is not ours */

void library_occupy(void)
{
    struct stat status;
    int fd;

    while ((fd = memfd_create("own", MFD_CLOEXEC)) >= 0 && fd < OWN_MAX) {
        own[fd] = fstat(fd, &status) == 0 ? status.st_ino : 0;
    }
    (void)close(fd);
}

bool library_is_untouched(void)
{
    bool all = own[OWN_MAX - 1] != 0;

    for (int fd = 0; fd < OWN_MAX; fd++) {
        struct stat status;

        all = all && (own[fd] == 0 ||
                      (fstat(fd, &status) == 0 && status.st_ino == own[fd] && status.st_size == 0));
    }
    return all;
}

void library_wait_for_waiters(muster_client *client, size_t count)
{
    for (;;) {
        size_t found = 0;

        mst_lib_lock(client);
        MST_LIST_EACH(link, following, &client->waiters)
        {
            found++;
        }
        mst_lib_unlock(client);
        if (found == count) {
            return;
        }
        (void)sched_yield();
    }
}

void library_wait_for_background(muster_client *client, enum mst_lib_background what)
{
    bool does = false;

    while (!does) {
        mst_lib_lock(client);
        does = client->background == what;
        mst_lib_unlock(client);
        (void)sched_yield();
    }
}
