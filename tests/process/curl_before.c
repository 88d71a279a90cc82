/* SPDX-License-Identifier: Apache-2.0 */

/* Loaded before a program that loads libcurl: makes of it one of before 7.85, which knows of two
 * options nothing. The others are handed on as they are: each has one word. */

#define _GNU_SOURCE
#include <curl/curl.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <string.h>

#undef curl_easy_setopt
#define HERE __attribute__((visibility("default")))

static CURLcode (*own)(CURL *easy, CURLoption option, ...);

static CURLcode before(CURL *easy, CURLoption option, ...)
{
    va_list more;
    void *word;

    if (option == CURLOPT_PROTOCOLS_STR || option == CURLOPT_QUICK_EXIT) {
        return CURLE_UNKNOWN_OPTION;
    }
    va_start(more, option);
    word = va_arg(more, void *);
    va_end(more);
    return own(easy, option, word);
}

HERE void *dlsym(void *restrict library, const char *restrict name);

void *dlsym(void *restrict library, const char *restrict name)
{
    static void *(*next)(void *library, const char *name);
    void *found;
    void *instead;

    if (!next) {
        void *symbol = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");

        memcpy(&next, &symbol, sizeof(symbol));
    }
    found = next(library, name);
    if (found && strcmp(name, "curl_easy_setopt") == 0) {
        CURLcode (*function)(CURL * easy, CURLoption option, ...) = before;

        memcpy(&own, &found, sizeof(found));
        memcpy(&instead, &function, sizeof(function));
        return instead;
    }
    return found;
}
