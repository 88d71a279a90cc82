/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_SERVER_HTTP_H
#define MST_SERVICE_SERVER_HTTP_H

/* Health, metrics, status, history and a page to look at over HTTP, on a port and a thread of its
 * own:
 *
 *   HTTP thread                              the service's loop
 *   /, /page.css, /page.js: constant
 *   /livez, /readyz: reads two stamps  <---  turned, with its phase: each second
 *   /metrics, /status.json,
 *   /history.json: suspended
 *   asking thread
 *     asks, wakes the loop             --->  asked: what is wanted
 *     waits, a second at most          <---  answer: a copy of its state, handed over
 *     makes the text, resumes
 *
 * Neither thread touches the core, and the HTTP thread never waits. A slow or hostile client costs
 * the service only a copy a few times per second. A stuck loop is reported, not waited for. Few
 * requests are suspended at once; a further one is answered 503 at once. http_places.h decides
 * which connections are closed when there are too many. */

#include <stdbool.h>

#include "muster/status.h"
#include "service/metrics/metrics.h"
#include "view/status_json.h"

struct mst_http;

/* A copy of the service's state, as far as it was asked for. */
struct mst_http_report {
    bool known;                 /* there is such a job */
    struct mst_figures figures; /* of METRICS */
    struct mst_status status;   /* of STATUS; of HISTORY its jobs and history alone. `job` and
                                   `address` are borrowed */
};

struct mst_http_report *mst_http_report_new(void);
void mst_http_report_free(struct mst_http_report *report);

enum mst_http_subject { MST_HTTP_METRICS, MST_HTTP_STATUS, MST_HTTP_HISTORY, MST_HTTP_SUBJECTS };

struct mst_http_question {
    enum mst_http_subject subject;
    char *job; /* NULL: the service's own. Lives until it is answered */
};

#define MST_HTTP_CONNECTIONS_MAX 256u

struct mst_http_config {
    int fd;                  /* it listens; remains the caller's */
    bool status_open;        /* what names hosts, for others than this machine, too */
    const char *name;        /* that of the address as it was given; NULL: none. Borrowed */
    void (*wake)(void *ctx); /* on the asking thread: make the loop look whether it is asked */
    void *wake_ctx;
    unsigned connections_max; /* above 0; more than MST_HTTP_CONNECTIONS_MAX are never held */
    uint64_t (*clock_ns)(
        void); /* for the loop's and the copies' age; NULL: the system's monotonic one */
    unsigned head_ms, read_ms; /* for a whole request, and from there to the end of its answer; 0:
                                  10 s and 30 s */
    unsigned answer_ms;        /* after this the loop is reported as stuck; 0: 1 s */
};

enum mst_http_phase { MST_HTTP_STARTING = 0, MST_HTTP_SERVING = 1, MST_HTTP_STOPPING = 2 };

/* A loop that has not turned for so long is stuck. */
#define MST_HTTP_STUCK_MS 5000u

muster_status mst_http_open(struct mst_http **out, const struct mst_http_config *config,
                            struct muster_error *err);
void mst_http_close(struct mst_http *http);

/* ---- for the loop ---- */

void mst_http_turned(struct mst_http *http, enum mst_http_phase phase);

/* Why nothing can be kept at present, in one line; NULL: it can. */
void mst_http_journal(struct mst_http *http, const char *trouble);

/* The question that waits, if there is one. */
bool mst_http_asked(struct mst_http *http, struct mst_http_question *out);

/* The answer to it. Takes the report over; NULL: no memory for one. */
void mst_http_answer(struct mst_http *http, struct mst_http_report *report);

#endif
