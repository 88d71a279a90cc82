/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "library_stage.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
