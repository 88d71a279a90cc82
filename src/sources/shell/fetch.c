/* SPDX-License-Identifier: Apache-2.0 */
#include "sources/shell/fetch.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define CONNECT_MS 1000L
#define KEEPALIVE_S 15L
#define URL_MAX 1024u

/* ---- what comes in ---- */

static size_t take_body(char *bytes, size_t one, size_t count, void *ctx)
{
    struct mst_fetch *fetch = ctx;
    size_t size = one * count;

    if (size > sizeof fetch->body - fetch->size) {
        fetch->too_long = true;
        return 0;
    }
    memcpy(fetch->body + fetch->size, bytes, size);
    fetch->size += size;
    return size;
}

/* The value of the header of that name, as far as it fits: a longer one is none of ours. */
static void take_header(const char *line, size_t size, const char *name, char *out)
{
    size_t length = strlen(name);

    if (size <= length || line[length] != ':' || strncasecmp(line, name, length) != 0) {
        return;
    }
    size -= length + 1;
    if (size < MST_FETCH_HEADER) {
        memcpy(out, line + length + 1, size);
        out[size] = '\0';
    }
}

static size_t take_head(char *line, size_t one, size_t count, void *ctx)
{
    struct mst_fetch *fetch = ctx;
    size_t size = one * count;

    fetch->heads_size += size;
    if (fetch->heads_size > MST_FETCH_HEADS_MAX) {
        fetch->too_long = true;
        return 0;
    }
    take_header(line, size, "ETag", fetch->etag);
    take_header(line, size, "Metadata-Flavor", fetch->flavor);
    take_header(line, size, "X-aws-ec2-metadata-token-ttl-seconds", fetch->token_ttl);
    take_header(line, size, "Date", fetch->date);
    return size;
}

/* ---- what goes out ---- */

#define SET(option, value) (ok = ok && mst_curl.curl_easy_setopt(easy, option, value) == CURLE_OK)

/* Since 7.85 by their names, before by a number. */
static bool only_http(CURL *easy)
{
    return mst_curl.curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK ||
           mst_curl.curl_easy_setopt(easy, CURLOPT_PROTOCOLS,
                                     (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS)) == CURLE_OK;
}

bool mst_fetch_init(struct mst_fetch *fetch)
{
    CURL *easy = mst_curl.curl_easy_init();
    bool ok = easy != NULL;

    memset(fetch, 0, sizeof *fetch);
    fetch->easy = easy;
    SET(CURLOPT_PRIVATE, fetch);
    SET(CURLOPT_WRITEFUNCTION, take_body);
    SET(CURLOPT_WRITEDATA, fetch);
    SET(CURLOPT_HEADERFUNCTION, take_head);
    SET(CURLOPT_HEADERDATA, fetch);
    SET(CURLOPT_PROXY, ""); /* whatever the environment says: this is no one else's business */
    SET(CURLOPT_NOPROXY, "*");
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    ok = ok && only_http(easy);
    SET(CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
    SET(CURLOPT_TCP_KEEPALIVE, 1L); /* a request may hang on purpose */
    SET(CURLOPT_TCP_KEEPIDLE, KEEPALIVE_S);
    SET(CURLOPT_TCP_KEEPINTVL, KEEPALIVE_S);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_USERAGENT, "muster");
    if (ok) { /* the end waits for no name server, where that can be had: since 7.87 */
        (void)mst_curl.curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
    }
    return ok;
}

void mst_fetch_fini(struct mst_fetch *fetch, CURLM *multi)
{
    if (fetch->flying) {
        (void)mst_curl.curl_multi_remove_handle(multi, fetch->easy);
    }
    mst_curl.curl_easy_cleanup(fetch->easy);
    mst_curl.curl_slist_free_all(fetch->headers);
    fetch->easy = NULL;
    fetch->headers = NULL;
    fetch->flying = false;
}

static bool add_header(struct mst_fetch *fetch, const char *line)
{
    struct curl_slist *longer = mst_curl.curl_slist_append(fetch->headers, line);

    if (longer == NULL) {
        return false;
    }
    fetch->headers = longer;
    return true;
}

static bool set_headers(struct mst_fetch *fetch, const struct mst_metadata_request *request)
{
    bool ok = true;

    mst_curl.curl_slist_free_all(fetch->headers);
    fetch->headers = NULL;
    for (size_t i = 0; i < MST_METADATA_HEADERS; i++) {
        ok = ok && (request->headers[i][0] == '\0' || add_header(fetch, request->headers[i]));
    }
    if (request->method == MST_METADATA_PUT) { /* its body is empty, so it is of no type */
        ok = ok && add_header(fetch, "Content-Type:");
    }
    return ok;
}

bool mst_fetch_start(struct mst_fetch *fetch, CURLM *multi, const char *base,
                     const struct mst_metadata_request *request)
{
    CURL *easy = fetch->easy;
    bool ok = set_headers(fetch, request);
    char url[URL_MAX];

    fetch->size = fetch->heads_size = 0;
    fetch->too_long = false;
    fetch->etag[0] = fetch->flavor[0] = fetch->token_ttl[0] = fetch->date[0] = '\0';
    (void)snprintf(url, sizeof url, "%s%s", base, request->path);
    SET(CURLOPT_URL, url);
    SET(CURLOPT_HTTPHEADER, fetch->headers);
    SET(CURLOPT_TIMEOUT_MS, (long)request->timeout_ms);
    if (request->method == MST_METADATA_PUT) {
        SET(CURLOPT_POSTFIELDS, "");
        SET(CURLOPT_CUSTOMREQUEST, "PUT");
    } else {
        SET(CURLOPT_CUSTOMREQUEST, (char *)NULL);
        SET(CURLOPT_HTTPGET, 1L);
    }
    fetch->flying = ok && mst_curl.curl_multi_add_handle(multi, easy) == CURLM_OK;
    return fetch->flying;
}

static enum mst_metadata_failure failure_of(const struct mst_fetch *fetch, CURLcode code)
{
    double connected_s = 0;

    if (code == CURLE_OK) {
        return MST_METADATA_ANSWERED;
    }
    if (fetch->too_long) {
        return MST_METADATA_TOO_LONG;
    }
    /* In vain is one thing, and an answer that does not come is another. */
    (void)mst_curl.curl_easy_getinfo(fetch->easy, CURLINFO_CONNECT_TIME, &connected_s);
    if (code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST ||
        (code == CURLE_OPERATION_TIMEDOUT && connected_s <= 0)) {
        return MST_METADATA_NO_CONNECTION;
    }
    return code == CURLE_OPERATION_TIMEDOUT ? MST_METADATA_TIMED_OUT : MST_METADATA_BROKEN;
}

static struct mst_slice text_of(const char *text)
{
    return (struct mst_slice){.data = text, .size = strlen(text)};
}

void mst_fetch_end(struct mst_fetch *fetch, CURLM *multi, CURLcode code,
                   struct mst_metadata_answer *out)
{
    long status = 0;

    (void)mst_curl.curl_easy_getinfo(fetch->easy, CURLINFO_RESPONSE_CODE, &status);
    (void)mst_curl.curl_multi_remove_handle(multi, fetch->easy);
    fetch->flying = false;
    *out = (struct mst_metadata_answer){.failure = failure_of(fetch, code),
                                        .status = (uint32_t)status,
                                        .body = {.data = fetch->body, .size = fetch->size},
                                        .etag = text_of(fetch->etag),
                                        .flavor = text_of(fetch->flavor),
                                        .token_ttl = text_of(fetch->token_ttl),
                                        .date = text_of(fetch->date)};
}
