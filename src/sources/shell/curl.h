/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SOURCES_SHELL_CURL_H
#define MST_SOURCES_SHELL_CURL_H

/* libcurl, loaded when a cloud is asked for the first time: without one `muster` begins without it
 * and all that it needs in turn. */

#define CURL_DISABLE_TYPECHECK   /* its macros want the function's own name */
#define CURL_DISABLE_DEPRECATION /* the library that is found may be older than this header */
#include <curl/curl.h>
#include <stddef.h>

#define MST_CURL_FUNCTIONS(X)                                                                      \
    X(curl_easy_cleanup)                                                                           \
    X(curl_easy_getinfo)                                                                           \
    X(curl_easy_init)                                                                              \
    X(curl_easy_setopt)                                                                            \
    X(curl_global_init)                                                                            \
    X(curl_multi_add_handle)                                                                       \
    X(curl_multi_cleanup)                                                                          \
    X(curl_multi_info_read)                                                                        \
    X(curl_multi_init)                                                                             \
    X(curl_multi_perform)                                                                          \
    X(curl_multi_poll)                                                                             \
    X(curl_multi_remove_handle)                                                                    \
    X(curl_slist_append)                                                                           \
    X(curl_slist_free_all)

struct mst_curl {
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a name that is declared cannot stand in them. */
#define X(function) __typeof__(&(function)) function;
    MST_CURL_FUNCTIONS(X)
#undef X
};

/* Once it was loaded. */
extern struct mst_curl mst_curl;

/* NULL: it is there, from now to the end. Else why not, in words; static memory. Thread: any. */
const char *mst_curl_load(void);

#endif
