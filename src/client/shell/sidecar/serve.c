/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "client/shell/sidecar/serve.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/shell/environment.h"
#include "muster/client.h"

static bool is_program(const char *path)
{
    return access(path, X_OK) == 0;
}

void mst_lib_program(char path[MST_LIB_PROGRAM_ROOM])
{
    const char *given = mst_lib_setting_text("program");
    static const char *const places[] = {"/../bin/muster", "/../../bin/muster", "/bin/muster",
                                         "/muster"};
    Dl_info info = {0};
    const char *slash;

    if (given) {
        (void)snprintf(path, MST_LIB_PROGRAM_ROOM, "%s", given);
        return;
    }
    if (dladdr(__extension__(const void *) muster_version, &info) != 0 && info.dli_fname &&
        (slash = strrchr(info.dli_fname, '/')) != NULL) {
        int size = (int)(slash - info.dli_fname);

        for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
            (void)snprintf(path, MST_LIB_PROGRAM_ROOM, "%.*s%s", size, info.dli_fname, places[i]);
            if (is_program(path)) {
                return;
            }
        }
    }
    (void)snprintf(path, MST_LIB_PROGRAM_ROOM, "%s",
                   is_program(MST_LIB_INSTALLED_PROGRAM) ? MST_LIB_INSTALLED_PROGRAM : "muster");
}

int mst_lib_serve(struct mst_served *served, const char *program, const char *addr,
                  const char *const *flags, bool detaches)
{
    struct mst_serve how = {.program = program, .addr = addr, .flags = flags, .detaches = detaches};
    struct mst_environment environment;
    int error = ENOMEM;

    if (mst_environment_copy(&environment) == MUSTER_OK) {
        how.environment = environment.entries;
        error = mst_serve(served, &how);
        mst_environment_fini(&environment);
    }
    return error;
}
