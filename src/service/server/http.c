/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "service/server/http.h"

#include <errno.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/panic.h"
#include "net/address.h"
#include "os/clock.h"
#include "os/monotonic.h"
#include "service/page/page.h"
#include "service/server/http_host.h"
#include "service/server/http_places.h"
#include "view/story_json.h"

#define PEER_CONNECTIONS_MAX 64u     /* of one address: it must not take the others' */
#define UNREAD_BYTES_MAX (64u << 20) /* of answers that their readers have not taken yet */
#define REQUEST_BYTES_MAX 8192u      /* its line and headers; also what one connection costs */
#define HEAD_MS 10000u               /* a request must be whole by then */
#define READ_MS 30000u               /* and its answer read, from there on */
#define ANSWER_MS 1000u              /* for the loop, unless something else is asked for */
#define SPACE_MS 100u                /* between two copies of the state */
#define WHY_ROOM 320u                /* why a check failed */

/* The last answer to one subject, so that readers of one do not wait for those of another. */
struct kept {
    struct mst_http_report *report;
    char *job;
    uint64_t made_ns;
};

struct mst_http {
    struct mst_http_config config;
    struct MHD_Daemon *daemon;
    atomic_uint_fast64_t turned_ns; /* the loop's last turn */
    atomic_int phase;
    atomic_bool waits; /* for an answer; every turn of the loop looks at it without the lock */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool closing;
    struct mst_http_question question;
    struct mst_http_report *fresh; /* the answer to it */
    char trouble[WHY_ROOM];        /* of the journal; empty: it keeps what it should */

    struct mst_list asking[MST_HTTP_SUBJECTS]; /* struct request, in the order they came */
    enum mst_http_subject last;                /* the subject that was answered last */
    unsigned asking_max;                       /* of one subject; half of them from one address */
    struct mst_http_places places;
    pthread_t asker;
    bool asker_runs;

    /* Only for the asking thread. */
    struct kept kept[MST_HTTP_SUBJECTS];

    /* Only for the HTTP thread. */
    size_t unread; /* bytes */
};

struct answer {
    unsigned code; /* 0: the asking thread makes it */
    const char *type;
    const char *allow; /* NULL: no such header */
    char *text;        /* owned */
};

/* From its head to its answer. While the asking thread has it, its connection is suspended. */
struct request {
    struct mst_list link;
    struct MHD_Connection *connection;
    struct mst_http_place *place; /* NULL: no memory */
    enum mst_http_subject subject;
    bool open_metrics;
    bool brief;
    uint64_t after; /* this incident */
    char *job;      /* owned; NULL: the service's own */
    uint64_t asked_ns;
    bool ready;
    struct answer answer;
};

static uint64_t monotonic_ns(void)
{
    return mst_clock_ns(CLOCK_MONOTONIC);
}

/* ---- a report ---- */

struct mst_http_report *mst_http_report_new(void)
{
    struct mst_http_report *report = calloc(1, sizeof *report);

    if (report) {
        mst_figures_init(&report->figures);
    }
    return report;
}

void mst_http_report_free(struct mst_http_report *report)
{
    if (report) {
        mst_figures_fini(&report->figures);
        mst_status_fini(&report->status);
        free(report);
    }
}

/* ---- the loop's side ---- */

void mst_http_turned(struct mst_http *http, enum mst_http_phase phase)
{
    atomic_store_explicit(&http->turned_ns, http->config.clock_ns(), memory_order_relaxed);
    atomic_store_explicit(&http->phase, (int)phase, memory_order_relaxed);
}

void mst_http_journal(struct mst_http *http, const char *trouble)
{
    pthread_mutex_lock(&http->lock);
    (void)snprintf(http->trouble, sizeof http->trouble, "%s", trouble ? trouble : "");
    pthread_mutex_unlock(&http->lock);
}

bool mst_http_asked(struct mst_http *http, struct mst_http_question *out)
{
    if (!atomic_load_explicit(&http->waits, memory_order_relaxed)) {
        return false;
    }
    pthread_mutex_lock(&http->lock);
    *out = http->question;
    pthread_mutex_unlock(&http->lock);
    return true;
}

void mst_http_answer(struct mst_http *http, struct mst_http_report *report)
{
    pthread_mutex_lock(&http->lock);
    mst_http_report_free(http->fresh); /* its request had timed out */
    http->fresh = report;
    atomic_store_explicit(&http->waits, false, memory_order_relaxed);
    pthread_cond_broadcast(&http->changed);
    pthread_mutex_unlock(&http->lock);
}

/* ---- asking it ---- */

/* With the lock held; false: the time is up, or the port is closing. */
static bool wait_until(struct mst_http *http, uint64_t until_ns)
{
    struct timespec until = mst_clock_timespec(until_ns);

    return pthread_cond_timedwait(&http->changed, &http->lock, &until) != ETIMEDOUT &&
           !http->closing;
}

static bool same_job(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* Takes `job` over. With the lock held; the loop reads the question with the lock, too. */
static void put_question(struct mst_http *http, enum mst_http_subject subject, char *job)
{
    free(http->question.job);
    http->question = (struct mst_http_question){.subject = subject, .job = job};
    atomic_store_explicit(&http->waits, true, memory_order_relaxed);
    http->config.wake(http->config.wake_ctx);
}

static void forget(struct kept *kept)
{
    mst_http_report_free(kept->report);
    free(kept->job);
    kept->report = NULL;
    kept->job = NULL;
}

/* With the lock held. NULL: there is none in time. */
static struct mst_http_report *wait_answer(struct mst_http *http)
{
    struct mst_http_report *report = NULL;
    uint64_t until_ns = monotonic_ns() + http->config.answer_ms * NS_PER_MS;

    while (atomic_load(&http->waits) && wait_until(http, until_ns)) {
    }
    if (!atomic_load(&http->waits)) {
        report = http->fresh;
        http->fresh = NULL;
    }
    return report;
}

/* A copy of the state, at most SPACE old; borrowed until the next call. NULL: the loop does not
 * answer, or has no memory. What it never answered is waited for no second time. */
static const struct mst_http_report *ask(struct mst_http *http, enum mst_http_subject subject,
                                         const char *job)
{
    struct kept *kept = &http->kept[subject];
    uint64_t age_ns = http->config.clock_ns() - kept->made_ns;
    uint64_t again_ns = monotonic_ns();
    char *asked;

    if (kept->report && same_job(kept->job, job) && age_ns < SPACE_MS * NS_PER_MS) {
        return kept->report;
    }
    if (age_ns < SPACE_MS * NS_PER_MS) {
        again_ns += SPACE_MS * NS_PER_MS - age_ns;
    }
    forget(kept);
    kept->job = job ? strdup(job) : NULL;
    asked = job ? strdup(job) : NULL;
    pthread_mutex_lock(&http->lock);
    while (monotonic_ns() < again_ns && wait_until(http, again_ns)) {
    }
    if (!atomic_load(&http->waits) && !http->closing && (!job || (kept->job && asked))) {
        put_question(http, subject, asked);
        asked = NULL;
        kept->report = wait_answer(http);
    }
    pthread_mutex_unlock(&http->lock);
    if (kept->report && job) {
        kept->report->status.job = kept->job; /* the question's goes with the next one */
    }
    kept->made_ns = http->config.clock_ns();
    free(asked);
    return kept->report;
}

/* ---- health ---- */

static enum mst_http_phase phase_of(const struct mst_http *http)
{
    return (enum mst_http_phase)atomic_load_explicit(&http->phase, memory_order_relaxed);
}

/* Before it serves the loop does not turn: recovery may take its time. */
static const char *loop_turns(struct mst_http *http, char room[WHY_ROOM])
{
    uint64_t turned_ns = atomic_load_explicit(&http->turned_ns, memory_order_relaxed);
    uint64_t now_ns = http->config.clock_ns();
    uint64_t ms = now_ns > turned_ns ? (now_ns - turned_ns) / NS_PER_MS : 0;

    (void)snprintf(room, WHY_ROOM, "the loop has not turned for %" PRIu64 ".%" PRIu64 " s",
                   ms / 1000, ms / 100 % 10);
    return phase_of(http) == MST_HTTP_STARTING || ms < MST_HTTP_STUCK_MS ? NULL : room;
}

static const char *is_recovered(struct mst_http *http, char room[WHY_ROOM])
{
    (void)room;
    return phase_of(http) == MST_HTTP_STARTING ? "not recovered yet" : NULL;
}

static const char *is_kept(struct mst_http *http, char room[WHY_ROOM])
{
    pthread_mutex_lock(&http->lock);
    (void)snprintf(room, WHY_ROOM, "%s", http->trouble);
    pthread_mutex_unlock(&http->lock);
    return *room != '\0' ? room : NULL;
}

static const char *takes_requests(struct mst_http *http, char room[WHY_ROOM])
{
    (void)room;
    return phase_of(http) == MST_HTTP_STOPPING ? "the service is stopping" : NULL;
}

/* One row per check; `live`: of /livez too. Nothing another process does may fail one of those, or
 * the service would be restarted in the middle of every incident. */
static const struct check {
    const char *name;
    bool live;
    const char *(*fails)(struct mst_http *http, char room[WHY_ROOM]); /* why; NULL: it holds */
} checks[] = {
    {"loop", true, loop_turns},
    {"recovery", false, is_recovered},
    {"journal", false, is_kept},
    {"serving", false, takes_requests},
};

#define CHECK_COUNT (sizeof checks / sizeof checks[0])

/* ---- answers ---- */

static struct answer plain(unsigned code, const char *text)
{
    return (struct answer){.code = code, .type = "text/plain; charset=utf-8", .text = strdup(text)};
}

static enum MHD_Result on_argument(void *ctx, enum MHD_ValueKind kind, const char *key,
                                   const char *value)
{
    bool *excluded = ctx;

    (void)kind;
    for (size_t i = 0; i < CHECK_COUNT && value && strcmp(key, "exclude") == 0; i++) {
        excluded[i] = excluded[i] || strcmp(value, checks[i].name) == 0;
    }
    return MHD_YES;
}

static struct answer health(struct mst_http *http, struct request *request, bool live)
{
    bool verbose =
        MHD_lookup_connection_value_n(request->connection, MHD_GET_ARGUMENT_KIND, "verbose",
                                      strlen("verbose"), NULL, NULL) == MHD_YES;
    bool excluded[CHECK_COUNT] = {false};
    char text[64 + CHECK_COUNT * (WHY_ROOM + 32)] = "";
    size_t size = 0;
    bool good = true;

    (void)MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND, on_argument,
                                    excluded);
    for (size_t i = 0; i < CHECK_COUNT; i++) {
        char room[WHY_ROOM];
        const char *why = NULL;

        if (live && !checks[i].live) {
            continue;
        }
        why = excluded[i] ? NULL : checks[i].fails(http, room);
        good = good && !why;
        if (verbose || why) {
            size += (size_t)snprintf(text + size, sizeof text - size, "%s: %s\n", checks[i].name,
                                     excluded[i] ? "excluded"
                                     : why       ? why
                                                 : "ok");
        }
    }
    if (good) {
        (void)snprintf(text + size, sizeof text - size, "ok");
    }
    return plain(good ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE, text);
}

static struct answer livez(struct mst_http *http, struct request *request)
{
    return health(http, request, true);
}

static struct answer readyz(struct mst_http *http, struct request *request)
{
    return health(http, request, false);
}

static struct answer no_answer(void)
{
    return plain(MHD_HTTP_SERVICE_UNAVAILABLE, "the service's loop does not answer\n");
}

static struct answer too_many(void)
{
    return plain(MHD_HTTP_SERVICE_UNAVAILABLE, "too many ask at once\n");
}

static struct answer make_metrics(struct mst_http *http, const struct request *request)
{
    const struct mst_http_report *report = ask(http, MST_HTTP_METRICS, NULL);

    if (!report) {
        return no_answer();
    }
    return (struct answer){
        .code = MHD_HTTP_OK,
        .type = request->open_metrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                      : "text/plain; version=0.0.4; charset=utf-8",
        .text = mst_metrics_text(&report->figures, request->open_metrics)};
}

static char *make_json(const struct mst_http_report *report, const struct request *request)
{
    if (request->subject == MST_HTTP_HISTORY) {
        return mst_story_json(report->status.job, &report->status.history, request->after);
    }
    return request->brief ? mst_status_brief_json(&report->status)
                          : mst_status_json(&report->status);
}

static struct answer make_status(struct mst_http *http, const struct request *request)
{
    const struct mst_http_report *report = ask(http, request->subject, request->job);

    if (!report) {
        return no_answer();
    }
    if (request->job && !report->known) {
        return plain(MHD_HTTP_NOT_FOUND, "the service has no job of this name\n");
    }
    return (struct answer){
        .code = MHD_HTTP_OK, .type = "application/json", .text = make_json(report, request)};
}

static struct answer metrics(struct mst_http *http, struct request *request)
{
    const char *accept =
        MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, "Accept");

    (void)http;
    request->subject = MST_HTTP_METRICS;
    request->open_metrics = accept && strcasestr(accept, "application/openmetrics-text");
    return (struct answer){.code = 0};
}

static const struct sockaddr *peer_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);

    return info ? info->client_addr : NULL;
}

__attribute__((format(printf, 1, 2))) static struct answer forbidden(const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return plain(MHD_HTTP_FORBIDDEN, text);
}

/* Only this machine always has a right to hosts, process ids and last words. Code 0: granted. */
static struct answer grant(const struct mst_http *http, const struct request *request,
                           const char *path)
{
    const char *host =
        MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
    const struct sockaddr *peer = peer_of(request->connection);
    bool unix_socket = peer && peer->sa_family == AF_UNIX; /* no browser */
    bool near = peer && (unix_socket || mst_address_is_loopback(peer));

    if (!http->config.status_open && !near) {
        return forbidden("%s names hosts and processes: it is told to this machine only, unless "
                         "--insecure is given\n",
                         path);
    }
    if (host && !unix_socket && !mst_http_host_is_own(host, http->config.name)) {
        return forbidden("%s is told where the Host of the request is an address, localhost, this "
                         "machine's name or that of --http: another name may be a web page's\n",
                         path);
    }
    return (struct answer){.code = 0};
}

static const char *argument(const struct request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, name);
}

static struct answer ask_about_job(struct request *request, enum mst_http_subject subject)
{
    const char *job = argument(request, "job");

    request->subject = subject;
    request->job = job ? strdup(job) : NULL;
    return job && !request->job ? no_answer() : (struct answer){.code = 0};
}

static struct answer status(struct mst_http *http, struct request *request)
{
    const char *brief = argument(request, "brief");

    (void)http;
    request->brief = brief && strcmp(brief, "1") == 0;
    return ask_about_job(request, MST_HTTP_STATUS);
}

static struct answer history(struct mst_http *http, struct request *request)
{
    const char *after = argument(request, "after");

    (void)http;
    request->after = after ? strtoull(after, NULL, 10) : 0;
    return ask_about_job(request, MST_HTTP_HISTORY);
}

static const struct page {
    const char *path;
    bool names; /* hosts and processes */
    struct answer (*make)(struct mst_http *http, struct request *request);
} pages[] = {
    {"/livez", false, livez},     {"/readyz", false, readyz},     {"/healthz", false, readyz},
    {"/metrics", false, metrics}, {"/status.json", true, status}, {"/history.json", true, history},
};

static struct answer part_of_page(const struct mst_http *http, const struct request *request,
                                  const struct mst_page_part *part)
{
    struct answer answer = grant(http, request, part->path);

    return answer.code != 0 ? answer
                            : (struct answer){.code = MHD_HTTP_OK,
                                              .type = part->type,
                                              .text = strndup(part->text, part->size)};
}

static bool reads(const char *method)
{
    return strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
}

static struct answer answer_to(struct mst_http *http, struct request *request, const char *path,
                               const char *method)
{
    const struct mst_page_part *part = mst_page_part(path);
    struct answer answer;

    if (!reads(method)) {
        answer = plain(MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD\n");
        answer.allow = "GET, HEAD";
        return answer;
    }
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        if (strcmp(path, pages[i].path) == 0) {
            answer = pages[i].names ? grant(http, request, path) : (struct answer){.code = 0};
            return answer.code != 0 ? answer : pages[i].make(http, request);
        }
    }
    return part ? part_of_page(http, request, part)
                : plain(MHD_HTTP_NOT_FOUND, "not here; what is: / /livez /readyz /metrics "
                                            "/status.json /history.json\n");
}

/* ---- libmicrohttpd ---- */

/* An answer until it is read, or its connection closed. */
struct unread {
    struct mst_http *http;
    size_t size;
    char *text;
};

static void on_read(void *ctx)
{
    struct unread *unread = ctx;

    unread->http->unread -= unread->size;
    free(unread->text);
    free(unread);
}

/* Takes the text over. NULL: no memory for it, or too much waits to be read already. */
static struct MHD_Response *respond(struct mst_http *http, char *text)
{
    size_t size = text ? strlen(text) : 0;
    struct unread *unread = text ? malloc(sizeof *unread) : NULL;
    struct MHD_Response *response = NULL;

    if (!unread || http->unread + size > UNREAD_BYTES_MAX) {
        free(unread);
        free(text);
        return NULL;
    }
    *unread = (struct unread){.http = http, .size = size, .text = text};
    http->unread += size;
    response = MHD_create_response_from_buffer_with_free_callback_cls(size, text, on_read, unread);
    if (!response) {
        on_read(unread);
    }
    return response;
}

/* Of every answer: a browser must keep nothing, guess no type, run nothing but the page's own
 * script and take that nowhere else. */
static const struct {
    const char *name, *value;
} headers[] = {
    {"Cache-Control", "no-store"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
     "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
};

static enum MHD_Result send_answer(struct mst_http *http, struct MHD_Connection *connection,
                                   struct answer *answer)
{
    struct MHD_Response *response = respond(http, answer->text);
    enum MHD_Result result;

    if (!response) {
        return MHD_NO; /* the connection is closed */
    }
    (void)MHD_add_response_header(response, "Content-Type", answer->type);
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        (void)MHD_add_response_header(response, headers[i].name, headers[i].value);
    }
    if (answer->allow) {
        (void)MHD_add_response_header(response, "Allow", answer->allow);
    }
    result = MHD_queue_response(connection, answer->code, response);
    MHD_destroy_response(response);
    return result;
}

/* ---- the asking thread ---- */

/* A request that has waited as long as the loop may take is refused: a crowd costs the rest no
 * more. */
static struct answer make(struct mst_http *http, const struct request *request)
{
    if (monotonic_ns() - request->asked_ns > http->config.answer_ms * NS_PER_MS) {
        return too_many();
    }
    return request->subject == MST_HTTP_METRICS ? make_metrics(http, request)
                                                : make_status(http, request);
}

/* With the lock held. */
static void wait_for_work(struct mst_http *http, uint64_t until_ns)
{
    if (until_ns == UINT64_MAX) {
        pthread_cond_wait(&http->changed, &http->lock);
    } else {
        (void)wait_until(http, until_ns);
    }
}

/* With the lock held. The subjects take turns: readers of the status of many jobs do not keep a
 * scraper of the metrics waiting. NULL: none. */
static struct request *next_request(struct mst_http *http)
{
    for (unsigned i = 1; i <= MST_HTTP_SUBJECTS; i++) {
        enum mst_http_subject subject =
            (enum mst_http_subject)(((unsigned)http->last + i) % MST_HTTP_SUBJECTS);
        struct mst_list *node = mst_list_take(&http->asking[subject]);

        if (node) {
            http->last = subject;
            return MST_CONTAINER(node, struct request, link);
        }
    }
    return NULL;
}

static void *ask_for_all(void *ctx)
{
    struct mst_http *http = ctx;
    struct request *request;

    pthread_mutex_lock(&http->lock);
    for (;;) {
        uint64_t until_ns = mst_http_places_expire(&http->places, monotonic_ns());

        request = next_request(http);
        if (request) {
            pthread_mutex_unlock(&http->lock);
            request->answer = make(http, request);
            request->ready = true;
            MHD_resume_connection(request->connection); /* its thread may free the request now */
            pthread_mutex_lock(&http->lock);
        } else if (http->closing) {
            break;
        } else {
            wait_for_work(http, until_ns);
        }
    }
    pthread_mutex_unlock(&http->lock);
    return NULL;
}

/* With the lock held. A suspended connection keeps its place, so only a few may be, and those that
 * one address has leave some to others. */
static bool may_ask(struct mst_http *http, const struct request *request)
{
    struct mst_list *asking = &http->asking[request->subject];
    unsigned all = 0, same = 0;

    for (struct mst_list *node = asking->next; node != asking; node = node->next) {
        const struct request *other = MST_CONTAINER(node, struct request, link);

        all++;
        same += mst_http_place_same_peer(other->place, request->place);
    }
    return all < http->asking_max && same < http->asking_max - http->asking_max / 2;
}

/* False: too many requests wait, or the port is closing. */
static bool hand_over(struct mst_http *http, struct request *request)
{
    bool taken;

    pthread_mutex_lock(&http->lock);
    taken = !http->closing && may_ask(http, request);
    if (taken) {
        request->asked_ns = monotonic_ns();
        mst_http_place_move(&http->places, request->place, MST_HTTP_PLACE_ASKING,
                            request->asked_ns);
        MHD_suspend_connection(request->connection);
        mst_list_append(&http->asking[request->subject], &request->link);
        pthread_cond_broadcast(&http->changed);
    }
    pthread_mutex_unlock(&http->lock);
    return taken;
}

/* ---- libmicrohttpd's callbacks ---- */

static struct mst_http_place *place_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info ? info->socket_context : NULL;
}

/* There is one more deadline for the asking thread, which closes overdue connections. */
static void tell_deadline(struct mst_http *http)
{
    pthread_mutex_lock(&http->lock);
    pthread_cond_broadcast(&http->changed);
    pthread_mutex_unlock(&http->lock);
}

static void move_place(struct mst_http *http, struct mst_http_place *place,
                       enum mst_http_stage stage)
{
    mst_http_place_move(&http->places, place, stage, monotonic_ns());
    tell_deadline(http);
}

static void on_connection(void *ctx, struct MHD_Connection *connection, void **place,
                          enum MHD_ConnectionNotificationCode what)
{
    struct mst_http *http = ctx;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

    if (what == MHD_CONNECTION_NOTIFY_STARTED && info) {
        *place = mst_http_place_open(&http->places, info->connect_fd, peer_of(connection),
                                     monotonic_ns());
        tell_deadline(http);
    } else if (what == MHD_CONNECTION_NOTIFY_CLOSED && *place) {
        mst_http_place_close(&http->places, *place);
        *place = NULL;
    }
}

static void on_completed(void *ctx, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode why)
{
    struct mst_http *http = ctx;
    struct request *request = *state;

    (void)why;
    if (request) {
        free(request->answer.text);
        free(request->job);
        free(request);
        *state = NULL;
    }
    move_place(http, place_of(connection), MST_HTTP_PLACE_IDLE);
}

/* Called once with the head, again when there is no body (more), and again with an answer of the
 * asking thread. No page takes a body: a request with one is answered by its head, and the
 * connection is closed. */
static enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection, const char *path,
                                  const char *method, const char *version, const char *data,
                                  size_t *size, void **state)
{
    struct mst_http *http = ctx;
    struct request *request = *state;
    struct answer answer;

    (void)version;
    (void)data;
    if (!request) {
        *state = request = calloc(1, sizeof *request);
        if (!request) {
            return MHD_NO;
        }
        request->connection = connection;
        request->place = place_of(connection);
        move_place(http, request->place, MST_HTTP_PLACE_ANSWERING);
        if (reads(method)) {
            return MHD_YES;
        }
    }
    if (*size > 0) {
        return MHD_NO;
    }
    if (request->ready) {
        move_place(http, request->place, MST_HTTP_PLACE_ANSWERING);
        answer = request->answer;
        request->answer.text = NULL;
    } else {
        answer = answer_to(http, request, path, method);
    }
    if (answer.code == 0) {
        if (hand_over(http, request)) {
            return MHD_YES;
        }
        answer = too_many();
    }
    return send_answer(http, connection, &answer);
}

__attribute__((format(printf, 2, 0))) static void on_complaint(void *ctx, const char *format,
                                                               va_list args)
{
    (void)ctx; /* about malformed requests: they close their connection and are not logged */
    (void)format;
    (void)args;
}

/* Signals are the loop's. */
static struct MHD_Daemon *start(struct mst_http *http)
{
    unsigned most = http->config.connections_max < MST_HTTP_CONNECTIONS_MAX
                        ? http->config.connections_max
                        : MST_HTTP_CONNECTIONS_MAX;
    struct MHD_Daemon *daemon;
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    http->places.most = most - most / 8; /* a connection that is shut down closes a little later */
    http->asking_max = most / 8 < 1 ? 1 : most / 8;
    http->places.each_most = PEER_CONNECTIONS_MAX;
    http->places.head_ms = http->config.head_ms;
    http->places.answer_ms = http->config.read_ms;
    http->asker_runs = pthread_create(&http->asker, NULL, ask_for_all, http) == 0;
    daemon = !http->asker_runs
                 ? NULL
                 : MHD_start_daemon(MHD_USE_AUTO_INTERNAL_THREAD | MHD_USE_ITC | MHD_USE_ERROR_LOG |
                                        MHD_ALLOW_SUSPEND_RESUME,
                                    0, NULL, NULL, on_request, http, MHD_OPTION_EXTERNAL_LOGGER,
                                    on_complaint, NULL, MHD_OPTION_LISTEN_SOCKET, http->config.fd,
                                    MHD_OPTION_CONNECTION_LIMIT, most, MHD_OPTION_NOTIFY_CONNECTION,
                                    on_connection, http, MHD_OPTION_NOTIFY_COMPLETED, on_completed,
                                    http, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                                    (size_t)REQUEST_BYTES_MAX, MHD_OPTION_END);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return daemon;
}

static struct mst_http_config with_defaults(const struct mst_http_config *config)
{
    struct mst_http_config full = *config;

    full.clock_ns = config->clock_ns ? config->clock_ns : monotonic_ns;
    full.head_ms = config->head_ms != 0 ? config->head_ms : HEAD_MS;
    full.read_ms = config->read_ms != 0 ? config->read_ms : READ_MS;
    full.answer_ms = config->answer_ms != 0 ? config->answer_ms : ANSWER_MS;
    return full;
}

muster_status mst_http_open(struct mst_http **out, const struct mst_http_config *config,
                            struct muster_error *err)
{
    struct mst_http *http = calloc(1, sizeof *http);

    *out = NULL;
    if (http) {
        http->config = with_defaults(config);
        for (unsigned subject = 0; subject < MST_HTTP_SUBJECTS; subject++) {
            mst_list_init(&http->asking[subject]);
        }
        mst_http_places_init(&http->places);
        pthread_mutex_init(&http->lock, NULL);
        mst_monotonic_cond_init(&http->changed);
        mst_http_turned(http, MST_HTTP_STARTING);
        http->daemon = start(http);
        if (http->daemon) {
            *out = http;
            return MUSTER_OK;
        }
        mst_http_close(http);
    }
    return mst_fail(err, MUSTER_ENOMEM, 0, "cannot serve HTTP: no thread or memory for it");
}

void mst_http_close(struct mst_http *http)
{
    if (!http) {
        return;
    }
    pthread_mutex_lock(&http->lock);
    http->closing = true;
    pthread_cond_broadcast(&http->changed);
    pthread_mutex_unlock(&http->lock);
    if (http->asker_runs) {
        (void)pthread_join(http->asker, NULL); /* no request is suspended any more */
    }
    if (http->daemon) {
        /* Its own copy of the descriptor would be closed with it; the socket is the caller's. */
        (void)MHD_quiesce_daemon(http->daemon);
        MHD_stop_daemon(http->daemon);
    }
    mst_http_places_fini(&http->places);
    for (unsigned subject = 0; subject < MST_HTTP_SUBJECTS; subject++) {
        forget(&http->kept[subject]);
    }
    mst_http_report_free(http->fresh);
    free(http->question.job);
    pthread_cond_destroy(&http->changed);
    pthread_mutex_destroy(&http->lock);
    free(http);
}
