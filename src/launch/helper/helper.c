/* SPDX-License-Identifier: Apache-2.0 */
/* Three threads: the waiter of process/death.h tells of the death, the client's own drives the
 * connection, and the main one waits for everything else:
 *
 *   the link      "c": the rank has closed its client, all is well
 *   the pidfd     its process has ended; without a "c" that is a death
 *   the bell      the waiter, or the client's callbacks, have set a flag
 *   the time      of the monitor's next look at the progress page
 *
 *   WATCHES --death--> TELLS --told, and its process is gone--> end
 *      ^  |given up by the service, or no progress for too long: killed, and so a death
 *      +--+ the session ended (this process stood still for too long): a new one
 *
 * The waiter reports the death where there is a session, else the next session does. Once the
 * process has ended no new helper is started, so that is tried for a while only: after that the
 * lease has expired. */
#define _GNU_SOURCE
#include "launch/helper/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/panic.h"
#include "base/text.h"
#include "client/shell/follow.h"
#include "launch/hang/diagnose.h"
#include "launch/hang/monitor.h"
#include "launch/hang/progress.h"
#include "launch/hang/stall.h"
#include "launch/hang/waits.h"
#include "launch/helper/notices.h"
#include "net/socket_dir.h"
#include "os/short_slice.h"
#include "os/system.h"
#include "process/death.h"

#define OPEN_MS                                                                                    \
    1000             /* for one attempt: a closed client is waited for no longer than twice that   \
                      */
#define AGAIN_MS 200 /* between two attempts */
#define LINGER_MS 10000 /* after the process is gone, for the service to be back */
#define OVERDUE_MS 5000 /* dead but not gone */
#define LOOK_MS 50      /* how often it is looked whether the service of this machine is there */

struct helper {
    const struct mst_helper_options *options;
    struct mst_page *page;
    struct mst_death *death;
    int link, pid_fd, bell;
    uint64_t pid;
    struct mst_monitor monitor;
    struct mst_watched watched;
    struct mst_progress_report report;
    struct mst_waits waits;
    char why[400];    /* it is ended; written before `ended_by` is set */
    uint64_t look_ns; /* the monitor's next one */
    struct mst_helper_notices notices;
    uint64_t notices_ns; /* when to look at them again although nothing is told */

    pthread_mutex_t lock; /* before the client's */
    muster_client *client;
    struct mst_delivery lost; /* the word about the death */
    struct mst_stall stall;   /* the word about a hang */

    /* Set with the client's lock held. */
    struct mst_lib_follow follow;
    atomic_bool dead, told, ended;
    _Atomic int given_up; /* enum mst_cause; NONE: no */
    _Atomic int ended_by; /* the last signal that the monitor sent; 0: none */

    bool closed; /* the client of the rank */
    bool gone;   /* its process */
    bool killed, overdue_said;
    uint64_t dead_ns, gone_ns, again_ns;
};

__attribute__((format(printf, 2, 3))) static void say(const struct helper *helper,
                                                      const char *format, ...)
{
    char words[512], line[512 + 1];
    struct mst_text text = mst_text_in(line, sizeof line - 1);
    va_list args;

    mst_text_format(&text, "muster agent (#%u): ", helper->options->index);
    va_start(args, format);
    (void)vsnprintf(words, sizeof words, format, args);
    va_end(args);
    mst_text_slice(&text, mst_slice_text(words));
    line[text.size] = '\n';
    (void)!write(STDERR_FILENO, line, text.size + 1);
}

/* Without a pidfd its number may belong to somebody else once the link has ended. */
static void signal_rank(const struct helper *helper, int number)
{
    if (helper->pid_fd >= 0) {
        (void)syscall(SYS_pidfd_send_signal, helper->pid_fd, number, NULL, 0);
    } else if (helper->link >= 0) {
        (void)kill((pid_t)helper->pid, number);
    }
}

/* ---- the word about the death ---- */

static void on_lost(struct mst_delivery *delivery, const struct mst_reply *reply)
{
    struct helper *helper = MST_CONTAINER(delivery, struct helper, lost);

    (void)reply;
    atomic_store(&helper->told, true);
    mst_system_event_ring(helper->bell);
}

static muster_status send_lost(struct mst_delivery *delivery)
{
    const struct helper *helper = MST_CONTAINER(delivery, struct helper, lost);
    int ended_by = atomic_load(&helper->ended_by);
    uint32_t exited = atomic_load(&helper->page->exited);
    enum mst_cause cause = exited != 0 ? MST_CAUSE_EXIT : MST_CAUSE_GONE;
    const struct mst_request request = {
        .command = MST_LOST,
        .lost = {.index = helper->options->index,
                 .pid = helper->pid,
                 .cause = ended_by != 0 ? MST_CAUSE_HARD_TIMEOUT : cause,
                 .code = ended_by != 0 || exited == 0 ? ended_by : (int)exited - 1,
                 .text = mst_slice_text(ended_by != 0 ? helper->why : "")}};

    return mst_lib_post(delivery->client, &request, UINT64_MAX, &delivery->post);
}

/* Without a session the next one tells it. */
static void die(struct helper *helper)
{
    (void)pthread_mutex_lock(&helper->lock);
    if (!atomic_exchange(&helper->dead, true)) {
        if (helper->client != NULL) {
            mst_lib_lock(helper->client);
        }
        mst_deliver(&helper->lost, helper->client);
        if (helper->client != NULL) {
            mst_lib_unlock(helper->client);
        }
    }
    (void)pthread_mutex_unlock(&helper->lock);
}

/* On the waiter's thread. */
static void on_death(void *ctx, uint64_t tag)
{
    struct helper *helper = ctx;

    (void)tag;
    die(helper);
    signal_rank(helper, SIGKILL); /* so that it is true of all its threads */
    mst_system_event_ring(helper->bell);
}

/* ---- what the monitor finds ---- */

/* Without a session it is said by the next one. */
static void on_soft(void *ctx, struct mst_watched *suspect, struct mst_watched *one,
                    const char *text)
{
    struct helper *helper = ctx;

    say(helper, "process %" PRIu64 " %s; all ranks are interrupted", helper->pid, text);
    mst_stall_set(&helper->stall, helper->client,
                  &(struct mst_stalled){.generation = one->generation,
                                        .pid = helper->pid,
                                        .index = helper->options->index,
                                        .named = suspect != NULL,
                                        .text = text});
}

static bool on_waits(void *ctx, const struct mst_watched *one, uint64_t now_ns, char *text,
                     size_t room)
{
    struct helper *helper = ctx;

    return mst_waits_look(&helper->waits, helper->client, &helper->monitor, one, now_ns, text,
                          room);
}

static bool on_hard(void *ctx, struct mst_watched *one, const char *text)
{
    struct helper *helper = ctx;

    (void)one;
    if (helper->gone || atomic_load(&helper->dead) || helper->killed) {
        return false;
    }
    (void)snprintf(helper->why, sizeof helper->why, "%s", text);
    say(helper, "process %" PRIu64 " %s: it is ended", helper->pid, text);
    return true;
}

/* A stopped one does not act on the polite one. */
static void on_send(void *ctx, struct mst_watched *one, int number)
{
    struct helper *helper = ctx;

    (void)one;
    atomic_store(&helper->ended_by, number);
    signal_rank(helper, number);
    signal_rank(helper, SIGCONT);
}

static void monitor_begin(struct helper *helper)
{
    const struct mst_monitor_events events = {
        .soft = on_soft, .waits = on_waits, .hard = on_hard, .send = on_send, .ctx = helper};

    mst_monitor_init(&helper->monitor, &events);
    helper->watched = (struct mst_watched){.tag = helper->options->index,
                                           .index = helper->options->index,
                                           .page = helper->page,
                                           .pid = (pid_t)helper->pid,
                                           .pidfd = helper->pid_fd};
    mst_monitor_add(&helper->monitor, &helper->watched);
    helper->stall.delivery.outlives = true;
    helper->lost = (struct mst_delivery){.send = send_lost, .arrived = on_lost, .outlives = true};
}

/* ---- what the service says of the rank ---- */

/* A later incarnation in its place means the same as its loss, which was missed then. */
static void on_member(struct helper *helper, const struct mst_who *who)
{
    const struct mst_helper_options *options = helper->options;

    mst_helper_notices_member(&helper->notices, who);
    if (who->role != (options->worker ? MST_ROLE_WORKER : MST_ROLE_RANK) ||
        who->index != options->index) {
        return;
    }
    if (who->incarnation > options->incarnation) {
        atomic_store(&helper->given_up, MST_CAUSE_LEASE);
    } else if (who->incarnation == options->incarnation && who->state == MST_STATE_LOST &&
               (who->cause == MST_CAUSE_LEASE || who->cause == MST_CAUSE_EVICTED)) {
        atomic_store(&helper->given_up, (int)who->cause);
    }
}

static muster_status take(void *ctx, const struct mst_reply *reply)
{
    struct helper *helper = ctx;

    for (uint32_t i = 0; i < reply->item_count; i++) {
        if (reply->items[i].kind == MST_ITEM_MEMBER) {
            on_member(helper, &reply->items[i].who);
        }
    }
    if (mst_follow_listed(reply)) {
        mst_helper_notices_listed(&helper->notices);
    }
    if (atomic_load(&helper->given_up) == MST_CAUSE_NONE) {
        return MUSTER_OK;
    }
    mst_system_event_ring(helper->bell);
    return MUSTER_MORE; /* that is enough */
}

static void on_ended(void *ctx, uint64_t now_ns, muster_status status)
{
    struct helper *helper = ctx;

    (void)now_ns;
    (void)status;
    atomic_store(&helper->ended, true);
    mst_system_event_ring(helper->bell);
}

/* ---- its session ---- */

static void session_close(struct helper *helper)
{
    muster_client *client;

    mst_helper_notices_reset(&helper->notices);
    (void)pthread_mutex_lock(&helper->lock);
    client = helper->client;
    helper->client = NULL;
    (void)pthread_mutex_unlock(&helper->lock);
    muster_client_close(client);
    helper->lost.post.open = helper->follow.post.open = helper->stall.delivery.post.open = false;
}

/* As an agent in any place: it starts no rank, so it makes no node. */
static void session_open(struct helper *helper)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    const struct mst_lib_hook hook = {.ended = on_ended, .ctx = helper};
    muster_client *client;

    options.role = MUSTER_ROLE_AGENT;
    options.index = MST_INDEX_HELPER;
    options.addr = helper->options->addr;
    options.job = helper->options->job;
    options.host = helper->options->host;
    options.secret_file = helper->options->secret;
    options.insecure = helper->options->insecure;
    helper->again_ns = mst_lib_now_ns() + AGAIN_MS * NS_PER_MS;
    if (muster_client_open(&client, &options, OPEN_MS, NULL) != MUSTER_OK) {
        return;
    }
    (void)pthread_mutex_lock(&helper->lock);
    atomic_store(&helper->ended, false);
    helper->client = client;
    mst_lib_lock(client);
    mst_lib_hook(client, MST_USER_AGENT, &hook);
    helper->follow.take = take;
    helper->follow.ctx = helper;
    mst_lib_follow(&helper->follow, client, MST_WATCH_MEMBERS, mst_slice_text(""), MST_NODE_NONE);
    if (helper->lost.owed) {
        mst_deliver(&helper->lost, client);
    }
    if (helper->stall.delivery.owed) {
        mst_deliver(&helper->stall.delivery, client);
    }
    if (mst_lib_status(client) != MUSTER_OK) {
        atomic_store(&helper->ended, true);
    }
    mst_lib_unlock(client);
    (void)pthread_mutex_unlock(&helper->lock);
}

/* A new one when it ended: this process stood still for longer than the lease. Its reports are
 * still owed. */
static void session_look(struct helper *helper, uint64_t now_ns)
{
    if (helper->client != NULL && atomic_load(&helper->ended)) {
        session_close(helper);
    }
    if (helper->client == NULL && now_ns >= helper->again_ns) {
        session_open(helper);
    }
}

/* ---- the rank ---- */

/* Its end without a word is no news where there is a pidfd: a child of the rank may hold a copy. */
static void link_look(struct helper *helper)
{
    char word;
    ssize_t got = helper->link >= 0 ? recv(helper->link, &word, 1, MSG_DONTWAIT) : -1;

    if (helper->link < 0 || (got < 0 && (errno == EAGAIN || errno == EINTR))) {
        return;
    }
    helper->closed = helper->closed || got == 1;
    (void)close(helper->link);
    helper->link = -1;
    helper->gone = helper->gone || (helper->pid_fd < 0 && !helper->closed);
}

static void process_look(struct helper *helper, uint64_t now_ns)
{
    struct pollfd end = {.fd = helper->pid_fd, .events = POLLIN};

    if (!helper->gone && helper->pid_fd >= 0 && poll(&end, 1, 0) > 0) {
        helper->gone = true;
        link_look(helper); /* what it said before */
    }
    if (helper->closed) {
        return;
    }
    if (helper->gone && !atomic_load(&helper->dead)) {
        die(helper);
    }
    if (helper->gone && helper->gone_ns == 0) {
        helper->gone_ns = now_ns;
    }
    if (atomic_load(&helper->dead) && helper->dead_ns == 0) {
        helper->dead_ns = now_ns;
        mst_monitor_remove(&helper->monitor, &helper->watched);
    }
}

static void given_up_look(struct helper *helper)
{
    int cause = atomic_load(&helper->given_up);

    if (cause == MST_CAUSE_NONE || helper->killed) {
        return;
    }
    helper->killed = true;
    if (!helper->gone && !atomic_load(&helper->dead)) {
        say(helper, "process %" PRIu64 " %s", helper->pid,
            cause == MST_CAUSE_EVICTED
                ? "did not come to the restart in time and is killed"
                : "was given up, as it was silent for longer than the lease, and is killed");
    }
    signal_rank(helper, SIGKILL);
}

static void overdue_look(struct helper *helper, uint64_t now_ns)
{
    char blocked[64];

    if (helper->dead_ns == 0 || helper->gone || helper->overdue_said ||
        now_ns - helper->dead_ns < OVERDUE_MS * NS_PER_MS) {
        return;
    }
    helper->overdue_said = true;
    mst_diagnose_blocked((pid_t)helper->pid, blocked, sizeof blocked);
    say(helper, "process %" PRIu64 " is dead but not gone: blocked in %s", helper->pid, blocked);
}

/* ---- notices ---- */

/* On any thread. */
static void on_notices_say(void *ctx, const char *line)
{
    say(ctx, "%s", line);
}

static void on_notices_ring(void *ctx)
{
    const struct helper *helper = ctx;

    mst_system_event_ring(helper->bell);
}

/* ---- the loop ---- */

/* A service on this machine that has ended has no ranks left to inform. */
static bool nobody_listens(const struct helper *helper)
{
    static const char scheme[] = "unix:";
    const char *addr = helper->options->addr;

    return strncmp(addr, scheme, sizeof scheme - 1) == 0 && strchr(addr, ',') == NULL &&
           mst_socket_alive(addr + sizeof scheme - 1) == 0;
}

static bool is_over(const struct helper *helper, uint64_t now_ns)
{
    if (helper->closed) {
        return true;
    }
    if (!helper->gone) {
        return false;
    }
    return atomic_load(&helper->told) || nobody_listens(helper) ||
           now_ns - helper->gone_ns >= LINGER_MS * NS_PER_MS;
}

/* Until something is to be looked at although nothing came; -1: for ever. */
static int wait_ms(const struct helper *helper)
{
    uint64_t now_ns = mst_lib_now_ns(), at_ns = mst_sooner(helper->look_ns, helper->notices_ns);

    if (helper->gone) {
        at_ns = mst_sooner(at_ns, now_ns + LOOK_MS * NS_PER_MS);
    } else if (helper->dead_ns != 0 && !helper->overdue_said) {
        at_ns = mst_sooner(at_ns, helper->dead_ns + OVERDUE_MS * NS_PER_MS);
    }
    if (helper->client == NULL) {
        at_ns = mst_sooner(at_ns, helper->again_ns);
    }
    return at_ns != NEVER ? (int)mst_ms_until(at_ns, now_ns) : -1;
}

static void wait_for_news(struct helper *helper)
{
    struct pollfd fds[3] = {
        {.fd = helper->bell, .events = POLLIN},
        {.fd = helper->link, .events = POLLIN},
        {.fd = helper->gone ? -1 : helper->pid_fd, .events = POLLIN},
    };

    if (poll(fds, 3, wait_ms(helper)) > 0 && fds[0].revents != 0) {
        mst_system_event_quiet(helper->bell);
    }
}

static void loop(struct helper *helper)
{
    for (;;) {
        uint64_t now_ns = mst_lib_now_ns();

        link_look(helper);
        process_look(helper, now_ns);
        given_up_look(helper);
        overdue_look(helper, now_ns);
        helper->monitor.held = mst_stall_owed(&helper->stall, helper->client);
        helper->look_ns = mst_monitor_look(&helper->monitor, now_ns);
        mst_progress_report_set(&helper->report, helper->client, &helper->monitor);
        if (is_over(helper, now_ns)) {
            return;
        }
        session_look(helper, now_ns);
        helper->notices_ns = UINT64_MAX;
        if (!helper->gone) { /* the helper of a dead rank asks no sources for the others */
            helper->notices_ns = mst_helper_notices_look(&helper->notices, helper->client);
        }
        wait_for_news(helper);
    }
}

/* ---- the beginning ---- */

/* What else the program had open is its own: a pipe that ends, a port that becomes free. */
static void close_above(int last)
{
    if (syscall(SYS_close_range, (unsigned)last + 1, ~0u, 0) == 0) {
        return;
    }
    for (int fd = (int)sysconf(_SC_OPEN_MAX) - 1; fd > last; fd--) {
        (void)close(fd);
    }
}

/* The library waits for the end of the process that it started, then it knows that this one runs.
 * Signals that a scheduler sends to all processes of a step are not for us: we end with the rank.
 */
static bool detach(void)
{
    static const int numbers[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGPIPE};
    char none;
    int ends[2];
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return false;
    }
    pid = fork();
    if (pid != 0) {
        _exit(pid < 0);
    }
    (void)close(ends[1]);
    while (read(ends[0], &none, 1) < 0 && errno == EINTR) {
    }
    (void)close(ends[0]);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        (void)signal(numbers[i], SIG_IGN);
    }
    return true;
}

static bool begin(struct helper *helper)
{
    const struct mst_helper_options *options = helper->options;
    int32_t own = (int32_t)getpid();

    if (mst_page_map(&helper->page, options->page_fd) != MUSTER_OK) {
        return false;
    }
    helper->pid = atomic_load(&helper->page->pid);
    helper->bell = mst_system_event();
    (void)pthread_mutex_init(&helper->lock, NULL);
    (void)fcntl(options->link_fd, F_SETFD, FD_CLOEXEC);
    mst_short_slice();
    mst_helper_notices_init(&helper->notices, options->host, options->index, (pid_t)helper->pid,
                            on_notices_say, on_notices_ring, helper);
    monitor_begin(helper);
    if (helper->bell < 0 ||
        mst_death_new(&helper->death, on_death, helper, MST_DEATH_BEST) != MUSTER_OK ||
        mst_death_add(helper->death, 0, helper->page) != MUSTER_OK) {
        return false;
    }
    (void)send(helper->link, &own, sizeof own, MSG_NOSIGNAL); /* the rank may be dead already */
    return true;
}

int mst_helper(const struct mst_helper_options *options)
{
    struct helper helper = {
        .options = options, .link = options->link_fd, .pid_fd = options->pid_fd, .bell = -1};
    bool begun;

    close_above(options->last_fd);
    begun = detach() && begin(&helper);
    if (begun) {
        loop(&helper);
        mst_helper_notices_fini(&helper.notices);
    }
    mst_death_free(helper.death);
    session_close(&helper);
    mst_progress_report_fini(&helper.report);
    mst_page_unmap(helper.page);
    if (helper.bell >= 0) {
        (void)close(helper.bell);
    }
    return begun ? 0 : 1;
}
