/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SOURCES_SHELL_FETCH_H
#define MST_SOURCES_SHELL_FETCH_H

/* One request to a metadata service at a time, by libcurl: never through a proxy, never to where a
 * redirect points, and never more than so many bytes or so long. */

#include "sources/metadata/metadata.h"
#include "sources/shell/curl.h"

enum { MST_FETCH_HEADER = 256, MST_FETCH_HEADS_MAX = 65536 };

struct mst_fetch {
    CURL *easy; /* NULL: not initialised */
    struct curl_slist *headers;
    bool flying, too_long;
    size_t heads_size, size;
    char etag[MST_FETCH_HEADER], flavor[MST_FETCH_HEADER], token_ttl[MST_FETCH_HEADER],
        date[MST_FETCH_HEADER];
    char body[MST_METADATA_BODY];
};

bool mst_fetch_init(struct mst_fetch *fetch);
void mst_fetch_fini(struct mst_fetch *fetch, CURLM *multi);

bool mst_fetch_start(struct mst_fetch *fetch, CURLM *multi, const char *base,
                     const struct mst_metadata_request *request);
/* It is over. What `out` points to lives until the next start; its times are the caller's. */
void mst_fetch_end(struct mst_fetch *fetch, CURLM *multi, CURLcode code,
                   struct mst_metadata_answer *out);

#endif
