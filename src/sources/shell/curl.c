/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "sources/shell/curl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY "libcurl.so.4"

struct mst_curl mst_curl;
static char load_error[256]; /* "": it is there */
static pthread_once_t loaded = PTHREAD_ONCE_INIT;

static const struct {
    const char *name;
    size_t offset;
} functions[] = {
#define X(function) {#function, offsetof(struct mst_curl, function)},
    MST_CURL_FUNCTIONS(X)
#undef X
};

static void load(void)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

    if (!library) {
        (void)snprintf(load_error, sizeof load_error,
                       "libcurl cannot be loaded (%s): install the package libcurl4 or libcurl",
                       dlerror());
        return;
    }
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        void *address = dlsym(library, functions[i].name);

        if (!address) {
            (void)snprintf(load_error, sizeof load_error, LIBRARY " has no %s", functions[i].name);
            return;
        }
        memcpy((unsigned char *)&mst_curl + functions[i].offset, &address, sizeof address);
    }
    if (mst_curl.curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        (void)snprintf(load_error, sizeof load_error, "libcurl cannot be initialised");
    }
}

const char *mst_curl_load(void)
{
    (void)pthread_once(&loaded, load);
    return load_error[0] != '\0' ? load_error : NULL;
}
