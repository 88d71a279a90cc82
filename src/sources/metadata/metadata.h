/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SOURCES_METADATA_METADATA_H
#define MST_SOURCES_METADATA_METADATA_H

/* What a cloud announces to a machine of its own, read from its metadata service: which request to
 * send next, and what its answer means. It knows no socket and no clock; a shell sends the requests
 * and hands in what came of them. Each source has a few lanes with one request each at a time:
 *
 *     ask(lane) -> request, after a wait -> take(lane, answer) -> notices -> ask(lane) ...
 *
 * Unknown is not all clear: an answer that does not make sense, or none, changes nothing. Only a
 * good one withdraws what it does not hold any more. */

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

enum {
    MST_METADATA_LANES = 3,
    MST_METADATA_PATH = 256,
    MST_METADATA_HEADER = 384,
    MST_METADATA_HEADERS = 2,
    MST_METADATA_BODY = 65536, /* a longer answer is none */
    MST_METADATA_ID = 64,
    MST_METADATA_TEXT = 224,
    MST_METADATA_TOLD = 64, /* announcements at a time; further ones are not taken */
    MST_METADATA_NEVER = -1
};

enum mst_metadata_source { MST_METADATA_GOOGLE, MST_METADATA_AMAZON, MST_METADATA_AZURE };
enum { MST_METADATA_SOURCES = 3 };

/* ---- what goes out and what comes back ---- */

enum mst_metadata_method { MST_METADATA_GET, MST_METADATA_PUT };

struct mst_metadata_request {
    enum mst_metadata_method method;
    char path[MST_METADATA_PATH];                            /* from the base on, with its "/" */
    char headers[MST_METADATA_HEADERS][MST_METADATA_HEADER]; /* "Name: value", or empty */
    int64_t wait_ms;    /* before it is sent; MST_METADATA_NEVER: this lane is done */
    int64_t timeout_ms; /* from its sending to the last byte of the answer */
};

enum mst_metadata_failure {
    MST_METADATA_ANSWERED,
    MST_METADATA_NO_CONNECTION,
    MST_METADATA_TIMED_OUT,
    MST_METADATA_BROKEN, /* closed in the middle, or no HTTP */
    MST_METADATA_TOO_LONG
};

struct mst_metadata_answer {
    enum mst_metadata_failure failure; /* else the rest counts: */
    uint32_t status;
    struct mst_slice body;
    struct mst_slice etag, flavor, token_ttl, date; /* values of headers; empty: not there */
    int64_t wall_ms;                                /* by this machine's clock, since 1970 */
    uint64_t clock_ms;                              /* never set */
};

/* ---- events ---- */

enum mst_metadata_event_kind {
    MST_METADATA_NOTICE,    /* new, or other than it was: the same id again */
    MST_METADATA_WITHDRAWN, /* of that id */
    MST_METADATA_UNKNOWN, /* no answer makes sense any more; why is in `text`. What holds, holds */
    MST_METADATA_KNOWN,   /* all of them make sense again */
    MST_METADATA_SAY      /* a line for the log is in `text` */
};

struct mst_metadata_event {
    enum mst_metadata_event_kind kind;
    bool certain; /* else advisory */
    bool assumed; /* the deadline was not given */
    char id[MST_METADATA_ID];
    int64_t left_ms; /* until the deadline; -1: nothing is known of it */
    char text[MST_METADATA_TEXT];
};

typedef void mst_metadata_tell(void *ctx, const struct mst_metadata_event *event);

/* ---- state ---- */

/* An announcement that was reported and still holds. */
struct mst_metadata_told {
    char id[MST_METADATA_ID]; /* empty: free */
    uint32_t group;           /* the answer that it was in; such an answer is always whole */
    bool certain, seen;
    int64_t deadline_ms; /* by the source's clock; 0: not given */
    struct mst_metadata_event event;
    uint64_t end_ms; /* of the event, by the clock that is never set; 0: not known */
};

struct mst_google {
    struct {
        char etag[MST_METADATA_ID];
        int64_t wait_ms;
    } keys[MST_METADATA_LANES];
    bool ends;         /* maintenance that ends this machine is announced */
    int64_t window_ms; /* when it begins, if that is known; 0 */
    char word[MST_METADATA_ID];
};

struct mst_amazon {
    char token[256]; /* empty: without */
    uint64_t renew_ms;
    uint32_t step, back; /* 0: the token; what is asked after it */
    bool renewed, hinted, all_good;
    int64_t wait_ms;
};

struct mst_azure {
    char name[MST_METADATA_ID * 2]; /* this machine's; empty: not known yet */
    bool name_failed, armed;
    int64_t wait_ms, name_wait_ms;
};

struct mst_metadata {
    enum mst_metadata_source source;
    mst_metadata_tell *tell;
    void *ctx;
    uint32_t lane, bad; /* the one whose answer is taken; a bit for each that knows nothing */
    struct mst_metadata_told told[MST_METADATA_TOLD];
    uint32_t group;    /* of the answer that is being read */
    int64_t now_ms;    /* of that answer, by the source's clock */
    uint64_t clock_ms; /* the same by the clock that is never set */
    union {
        struct mst_google google;
        struct mst_amazon amazon;
        struct mst_azure azure;
    };
};

void mst_metadata_init(struct mst_metadata *metadata, enum mst_metadata_source source,
                       mst_metadata_tell *tell, void *ctx);
uint32_t mst_metadata_lanes(const struct mst_metadata *metadata);
const char *mst_metadata_name(enum mst_metadata_source source); /* "google" */
void mst_metadata_ask(const struct mst_metadata *metadata, uint32_t lane,
                      struct mst_metadata_request *out);
void mst_metadata_take(struct mst_metadata *metadata, uint32_t lane,
                       const struct mst_metadata_answer *answer);

/* Of all that holds the worst: certain before advisory, then the first deadline. False: nothing. */
bool mst_metadata_worst(const struct mst_metadata *metadata, uint64_t clock_ms,
                        struct mst_metadata_event *out);

#endif
