/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "service/server/service.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "base/fail.h"
#include "base/panic.h"
#include "base/time.h"
#include "net/endpoint.h"
#include "net/rendezvous.h"
#include "os/clock.h"
#include "os/descriptors.h"
#include "os/notify.h"
#include "os/short_slice.h"
#include "service/server/addresses.h"
#include "service/server/kept_file.h"
#include "service/server/listener.h"
#include "service/server/replica.h"
#include "service/server/report.h"

#define ACCEPT_BATCH 64u      /* connections accepted from one socket in one turn */
#define ACCEPT_PAUSE_MS 100u  /* when there are no descriptors left */
#define FEW_DESCRIPTORS 1024u /* if the limit is unknown */
#define ERROR_ROOM 320u
#define OWN_FILES 24u       /* standard ones, the loop's, the listeners, the journal's */
#define ORPHAN_MS 250u      /* the interval of the check whether the service is still needed */
#define STRANDED_LEASES 15u /* for so long an orphan waits for a replica that leads */

struct door {
    uv_poll_t poll;
    struct mst_uv_listener listener;
};

struct mst_uv_service {
    uv_loop_t loop;
    uv_prepare_t prepare;
    uv_check_t check;
    uv_idle_t at_once; /* while active, the loop does not wait for events */
    uv_timer_t timer, pause, nobody_came, orphan;
    uv_signal_t on_term, on_int;
    uv_poll_t parent;
    bool parent_watched;
    bool dismissed;       /* input on stdin, or its end */
    uint64_t client_room; /* connections of clients that there are descriptors for */
    unsigned http_room;
    bool short_of_room; /* no descriptors: logged once, until the backlog is empty */
    bool stopping;
    bool notify;
    bool until_idle;
    bool somebody_came;
    uint64_t lease_ns;
    uint64_t led_ns; /* an orphan: when it last knew of a leader */
    uint32_t door_count;
    struct door doors[MST_UV_ADDRESSES_MAX];
    struct mst_uv_hub hub;
    struct mst_tls_context *tls; /* NULL: no secret */
    struct mst_uv_log log;
    struct mst_uv_report report;
    char address[MST_UV_ADDRESSES_MAX * (MST_UV_ADDRESS_MAX + 1)];
};

/* ---- turns of the loop ---- */

static void on_at_once(uv_idle_t *idle)
{
    (void)idle;
}

/* Only wakes the loop. Some versions of libuv run due timers before they poll: expiring anything
 * here would blame clients whose renewals wait in a socket. So the loop is made to poll once more
 * without waiting, and the turn after that ticks. */
static void on_timer(uv_timer_t *timer)
{
    struct mst_uv_service *service = timer->loop->data;

    uv_idle_start(&service->at_once, on_at_once);
}

static void set_timer(struct mst_uv_service *service)
{
    uint64_t deadline_ns = mst_uv_hub_deadline_ns(&service->hub);
    uint64_t now_ns = uv_hrtime();

    if (deadline_ns <= now_ns) {
        uv_idle_start(&service->at_once, on_at_once);
    } else if (deadline_ns == UINT64_MAX) {
        uv_timer_stop(&service->timer);
    } else {
        uv_timer_start(&service->timer, on_timer, mst_ms_up(deadline_ns - now_ns), 0);
    }
}

static void on_prepare(uv_prepare_t *prepare)
{
    struct mst_uv_service *service = prepare->loop->data;

    mst_uv_hub_resume(&service->hub);
    set_timer(service);
}

static void stop(struct mst_uv_service *service, const char *why);

/* A session outlives its connection, so only members that left or were lost have ended. */
static void look_who_is_left(struct mst_uv_service *service)
{
    uint64_t sessions = mst_core_sessions(service->hub.core);

    service->somebody_came = service->somebody_came || sessions > 0;
    if (service->somebody_came && sessions == 0 && !service->stopping) {
        stop(service, "the last session is over");
    }
}

static void on_nobody_came(uv_timer_t *timer)
{
    struct mst_uv_service *service = timer->loop->data;

    if (!service->somebody_came && !service->stopping) {
        stop(service, "nobody came");
        uv_idle_start(&service->at_once, on_at_once); /* no event follows that would end the loop */
    }
}

static void on_check(uv_check_t *check)
{
    struct mst_uv_service *service = check->loop->data;
    uint64_t began_ns = service->hub.now_ns;

    uv_idle_stop(&service->at_once);
    mst_uv_hub_turn(&service->hub);
    if (service->until_idle) {
        look_who_is_left(service);
    }
    mst_uv_report_turn(&service->report, began_ns);
    mst_uv_kept_turn(service->hub.kept);
    mst_uv_log_flush(&service->log);
    if (service->hub.feed.broken || (service->stopping && service->hub.count == 0)) {
        uv_stop(&service->loop);
    }
}

/* ---- accepting ---- */

static void on_door(uv_poll_t *poll, int status, int events);

static void accept_again(struct mst_uv_service *service)
{
    for (uint32_t i = 0; i < service->door_count && !service->stopping; i++) {
        uv_poll_start(&service->doors[i].poll, UV_READABLE, on_door);
    }
}

static void on_pause_over(uv_timer_t *timer)
{
    accept_again(timer->loop->data);
}

/* Out of descriptors or memory: connections stay in the backlog, and the loop must not spin over a
 * socket that stays readable. */
static void pause_accepting(struct mst_uv_service *service, int os_errno)
{
    if (!service->short_of_room) {
        mst_uv_log_line(&service->log, MST_WARN, "service",
                        "accepting-paused connections=%" PRIu64 " reason=\"%s\"",
                        service->hub.count, strerror(os_errno));
    }
    service->short_of_room = true;
    service->hub.crowded = true;
    for (uint32_t i = 0; i < service->door_count; i++) {
        uv_poll_stop(&service->doors[i].poll);
    }
    uv_timer_start(&service->pause, on_pause_over, ACCEPT_PAUSE_MS, 0);
}

static void on_door(uv_poll_t *poll, int status, int events)
{
    struct mst_uv_service *service = poll->loop->data;
    struct door *door = poll->data;
    bool greets = service->tls && !door->listener.path;
    unsigned batch = greets ? MST_UV_GREETINGS : ACCEPT_BATCH;

    (void)events;
    for (unsigned i = 0; status == 0 && i < batch; i++) {
        bool room = service->hub.count < service->client_room;
        int fd = room ? accept4(door->listener.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC) : -1;

        if (!room) {
            pause_accepting(service, EMFILE);
            return;
        }
        if (fd >= 0) {
            mst_uv_hub_accept(&service->hub, fd);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            pause_accepting(service, errno);
            return;
        } else if (errno == EAGAIN) {
            service->short_of_room = false;
            return;
        } /* else that connection was closed already */
    }
}

/* ---- the service manager ---- */

__attribute__((format(printf, 2, 3))) static void notify(struct mst_uv_service *service,
                                                         const char *format, ...)
{
    char lines[1024];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(lines, sizeof lines, format, args);
    va_end(args);
    if (service->notify && !mst_notify(lines)) {
        mst_uv_log_line(&service->log, MST_WARN, "service", "notify-failed socket=%s reason=\"%s\"",
                        getenv("NOTIFY_SOCKET"), strerror(errno));
    }
}

/* ---- stopping ---- */

static void stop(struct mst_uv_service *service, const char *why)
{
    if (service->stopping) {
        uv_stop(&service->loop); /* asked twice: at once */
        return;
    }
    service->stopping = true;
    mst_uv_report_phase(&service->report, MST_HTTP_STOPPING);
    mst_uv_log_line(&service->log, MST_INFO, "service", "stopping reason=\"%s\"", why);
    notify(service, "STOPPING=1\nSTATUS=stopping: %s", why);
    for (uint32_t i = 0; i < service->door_count; i++) {
        uv_poll_stop(&service->doors[i].poll);
    }
    uv_timer_stop(&service->pause);
    uv_timer_stop(&service->nobody_came);
    mst_uv_hub_stop(&service->hub);
}

static void on_signal(uv_signal_t *handle, int number)
{
    stop(handle->loop->data, number == SIGTERM ? "SIGTERM" : "SIGINT");
}

static void end_orphan(struct mst_uv_service *service, const char *why)
{
    uv_timer_stop(&service->orphan);
    stop(service, why);
    uv_idle_start(&service->at_once, on_at_once); /* the loop must not wait for events now */
}

/* A replica that knows of no leader does not learn that the agents have left, and no process starts
 * it again or stops it. */
static void on_orphan(uv_timer_t *timer)
{
    struct mst_uv_service *service = timer->loop->data;
    const struct mst_uv_replica *replica = service->hub.feed.replica;

    if (!replica || !mst_uv_replica_trouble(replica)) {
        service->led_ns = uv_hrtime();
    }
    if (!mst_core_has_agent(service->hub.core)) {
        end_orphan(service, "the parent is gone");
    } else if (uv_hrtime() - service->led_ns > STRANDED_LEASES * service->lease_ns) {
        service->dismissed = false; /* the job may go on without this replica */
        end_orphan(service, "the parent is gone, and no replica leads");
    }
}

/* The run that started it was killed. If other nodes take part in the job, only the ranks of the
 * own node are lost: the agents of the others keep the service until the last of them has left. */
static void lose_parent(struct mst_uv_service *service)
{
    mst_uv_kept_orphaned(service->hub.kept, mst_clock_ms(CLOCK_REALTIME));
    if (mst_addresses_speak_tcp(service->address) && mst_core_has_agent(service->hub.core)) {
        mst_uv_log_line(&service->log, MST_WARN, "service",
                        "parent-gone going-on-for=\"the agents of other nodes\"");
        service->led_ns = uv_hrtime();
        uv_timer_start(&service->orphan, on_orphan, ORPHAN_MS, ORPHAN_MS);
        (void)uv_signal_start(&service->on_term, on_signal, SIGTERM);
    } else {
        stop(service, "the parent is gone");
    }
}

static void on_parent(uv_poll_t *poll, int status, int events)
{
    struct mst_uv_service *service = poll->loop->data;
    char ignored[256];
    ssize_t size = 0;

    (void)events;
    if (status == 0) {
        size = read(STDIN_FILENO, ignored, sizeof ignored);
    }
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    uv_poll_stop(&service->parent); /* after input, the end of stdin has no meaning */
    service->dismissed = true;
    if (size <= 0) {
        lose_parent(service);
    } else if (!service->stopping) {
        stop(service, "the parent says so");
    }
}

/* ---- opening ---- */

static muster_status fail(struct muster_error *err, muster_status status, const char *what,
                          int uv_code)
{
    return mst_fail(err, status, -uv_code, "%s: %s", what,
                    uv_code ? uv_strerror(uv_code) : "out of memory or invalid limits");
}

/* A connection costs one descriptor; what the system allows is taken. Some are kept from clients,
 * however many come: without them no probe were answered and no journal could go on. */
static void divide_descriptors(struct mst_uv_service *service, bool http)
{
    struct rlimit limit;
    uint64_t all = FEW_DESCRIPTORS;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        if (limit.rlim_cur < limit.rlim_max) {
            limit.rlim_cur = limit.rlim_max;
            (void)setrlimit(RLIMIT_NOFILE, &limit);
            (void)getrlimit(RLIMIT_NOFILE, &limit);
        }
        all = limit.rlim_cur;
    }
    service->http_room = http ? MST_HTTP_CONNECTIONS_MAX : 0;
    if (service->http_room > all / 4) {
        service->http_room = (unsigned)(all / 4);
    }
    service->client_room = all - service->http_room - (all / 4 < OWN_FILES ? all / 4 : OWN_FILES);
}

static void init_handles(struct mst_uv_service *service)
{
    uv_loop_t *loop = &service->loop;

    uv_prepare_init(loop, &service->prepare);
    uv_check_init(loop, &service->check);
    uv_idle_init(loop, &service->at_once);
    uv_timer_init(loop, &service->timer);
    uv_timer_init(loop, &service->pause);
    uv_timer_init(loop, &service->nobody_came);
    uv_timer_init(loop, &service->orphan);
    uv_signal_init(loop, &service->on_term);
    uv_signal_init(loop, &service->on_int);
}

/* Ctrl-C goes to the whole foreground group, and a signal of a scheduler to all processes of a job:
 * the parent decides when its service ends. */
static void leave_signals_to_parent(void)
{
    static const int numbers[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        (void)signal(numbers[i], SIG_IGN);
    }
}

static muster_status start_handles(struct mst_uv_service *service, bool parent,
                                   struct muster_error *err)
{
    int code = 0;

    (void)signal(SIGPIPE, SIG_IGN); /* the reader of the log may end; the service continues */
    init_handles(service);
    uv_prepare_start(&service->prepare, on_prepare);
    uv_check_start(&service->check, on_check);
    if (parent) {
        leave_signals_to_parent();
    } else {
        code = uv_signal_start(&service->on_term, on_signal, SIGTERM);
        if (code == 0) {
            code = uv_signal_start(&service->on_int, on_signal, SIGINT);
        }
    }
    if (code != 0) {
        return fail(err, MUSTER_EINVAL, "cannot watch for signals", code);
    }
    if (parent) {
        code = uv_poll_init(&service->loop, &service->parent, STDIN_FILENO);
        if (code != 0) {
            return fail(err, MUSTER_EINVAL, "--parent: stdin is no pipe", code);
        }
        service->parent_watched = true;
        uv_poll_start(&service->parent, UV_READABLE | UV_DISCONNECT, on_parent);
    }
    return MUSTER_OK;
}

static muster_status open_doors(struct mst_uv_service *service,
                                const struct mst_uv_service_config *config,
                                struct muster_error *err)
{
    MST_ASSERT(config->address_count <= MST_UV_ADDRESSES_MAX);
    for (uint32_t i = 0; i < config->address_count; i++) {
        struct door *door = &service->doors[i];
        muster_status status;
        size_t size = strlen(service->address);
        int code;

        status = mst_uv_listener_open(&door->listener, config->addresses[i],
                                      config->secret || config->insecure, err);
        if (status != MUSTER_OK) {
            return status;
        }
        code = uv_poll_init(&service->loop, &door->poll, door->listener.fd);
        if (code != 0) {
            mst_uv_listener_close(&door->listener);
            return fail(err, MUSTER_EINVAL, config->addresses[i], code);
        }
        door->poll.data = door;
        service->door_count++;
        (void)snprintf(service->address + size, sizeof service->address - size, "%s%s",
                       i > 0 ? "," : "", door->listener.address);
    }
    return MUSTER_OK;
}

/* As a client checks its own addresses. */
static muster_status name_addresses(struct mst_uv_service *service,
                                    const struct mst_uv_service_config *config,
                                    struct muster_error *err)
{
    const char *list = config->named;
    struct mst_endpoints named;
    char why[ERROR_ROOM];

    if (!list || !*list || config->journal.replica) { /* a replica names all of them */
        return MUSTER_OK;
    }
    if (mst_endpoints_parse(&named, list, config->secret || config->insecure, why, sizeof why) !=
        MUSTER_OK) {
        return mst_fail(err, MUSTER_EINVAL, 0, "--%s %s: %s",
                        config->elsewhere ? "moved-to" : "advertise", list, why);
    }
    for (uint32_t i = 0; i < named.count && config->elsewhere; i++) {
        if (mst_rendezvous_listed(service->address, named.at[i].text)) {
            return mst_fail(err, MUSTER_EINVAL, 0,
                            "--moved-to %s: this service listens on %s itself: name the address "
                            "of the one that serves",
                            list, named.at[i].text);
        }
    }
    return mst_uv_addresses_set(&service->hub, list, config->elsewhere) == MUSTER_OK
               ? MUSTER_OK
               : fail(err, MUSTER_ENOMEM, "muster serve", UV_ENOMEM);
}

static void close_handle(uv_handle_t *handle, void *ignored)
{
    (void)ignored;
    if (!uv_is_closing(handle)) {
        uv_close(handle, NULL);
    }
}

static void close_loop(uv_loop_t *loop)
{
    int code;

    uv_walk(loop, close_handle, NULL);
    uv_run(loop, UV_RUN_DEFAULT);
    code = uv_loop_close(loop);
    MST_ASSERT(code == 0);
}

muster_status mst_uv_service_open(struct mst_uv_service **out,
                                  const struct mst_uv_service_config *config,
                                  struct muster_error *err)
{
    struct mst_uv_service *service = calloc(1, sizeof *service);
    muster_status status;
    int code;

    *out = NULL;
    if (!service) {
        return fail(err, MUSTER_ENOMEM, "muster serve", UV_ENOMEM);
    }
    code = mst_descriptors_left(MST_DESCRIPTORS_OF_A_LOOP) ? uv_loop_init(&service->loop) : -errno;
    if (code != 0) {
        free(service);
        return fail(err, MUSTER_EINVAL, "cannot make an event loop", code);
    }
    service->loop.data = service;
    divide_descriptors(service, config->http && *config->http);
    mst_uv_log_init(&service->log, STDERR_FILENO, config->log_level, config->log_json);
    /* First: it reports a recovery. */
    status = mst_uv_report_open(&service->report, &service->loop, &service->hub, config,
                                service->address, service->http_room, err);
    if (status == MUSTER_OK) {
        status = mst_uv_hub_init(&service->hub, &service->loop, &service->log, config, err);
    }
    if (status != MUSTER_OK) {
        mst_uv_report_close(&service->report);
        close_loop(&service->loop);
        mst_uv_log_fini(&service->log);
        mst_uv_hub_fini(&service->hub);
        free(service);
        return status;
    }
    if (config->secret) {
        status = mst_tls_context_new(&service->tls, MST_TLS_SERVICE, config->secret, err);
        service->hub.tls = service->tls;
    }
    if (status == MUSTER_OK) {
        status = start_handles(service, config->parent, err);
    }
    if (status == MUSTER_OK) {
        status = open_doors(service, config, err);
    }
    if (status == MUSTER_OK) {
        status = name_addresses(service, config, err);
    }
    if (status != MUSTER_OK) {
        mst_uv_service_close(service);
        return status;
    }
    service->notify = config->notify;
    service->lease_ns = config->lease_ns;
    if (config->until_idle) {
        service->until_idle = true;
        uv_timer_start(&service->nobody_came, on_nobody_came, config->lease_ns / NS_PER_MS, 0);
    }
    mst_uv_report_phase(&service->report, MST_HTTP_SERVING);
    *out = service;
    return MUSTER_OK;
}

const char *mst_uv_service_address(const struct mst_uv_service *service)
{
    return service->address;
}

const char *mst_uv_service_http(const struct mst_uv_service *service)
{
    return service->report.http ? service->report.listener.address : NULL;
}

bool mst_uv_service_run(struct mst_uv_service *service)
{
    if (mst_uv_feed_serves(&service->hub.feed)) {
        mst_short_slice();
    }
    accept_again(service);
    notify(service, "READY=1\nSTATUS=serving on %s", service->address);
    mst_uv_log_flush(&service->log); /* what was recovered */
    uv_run(&service->loop, UV_RUN_DEFAULT);
    mst_uv_feed_stop(&service->hub.feed);
    mst_uv_kept_close(service->hub.kept); /* before the parent may end the file */
    service->hub.kept = NULL;
    mst_uv_log_flush(&service->log);
    return !service->hub.feed.broken;
}

bool mst_uv_service_dismissed(const struct mst_uv_service *service)
{
    return service->dismissed;
}

void mst_uv_service_close(struct mst_uv_service *service)
{
    if (!service) {
        return;
    }
    mst_uv_report_close(&service->report);
    for (uint32_t i = 0; i < service->door_count; i++) {
        uv_poll_stop(&service->doors[i].poll);
        mst_uv_listener_close(&service->doors[i].listener);
    }
    mst_uv_hub_drop_all(&service->hub);
    close_loop(&service->loop);
    mst_uv_hub_fini(&service->hub);
    mst_tls_context_free(service->tls);
    mst_uv_log_fini(&service->log);
    free(service);
}
