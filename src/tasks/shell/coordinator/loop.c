/* SPDX-License-Identifier: Apache-2.0 */
/* The coordinator's thread: connections, the machine's effects, and the threads that wait for them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "client/shell/uncancelled.h"
#include "os/clock.h"
#include "os/monotonic.h"
#include "os/short_slice.h"
#include "os/system.h"
#include "tasks/shell/coordinator/cluster.h"

#define THREAD_STACK ((size_t)256 * 1024)
#define LINGER_NS (2 * NS_PER_S) /* for what a connection that is closed has still to write */
#define DEAF_NS NS_PER_S
#define FAREWELL_NS (300 * NS_PER_MS) /* for the workers to receive the end */
#define WRITE_AFTER_NS 50000u         /* since a caller last wrote in the thread's place */

enum { EVENTS_MAX = 64, READS_MAX = 16 };

/* Keys of epoll that are no peer's: the ids of peers are larger. */
enum { KEY_EVENT = 1, KEY_UNIX = 2, KEY_TCP = 3 };

/* ---- the lock ---- */

void mst_coord_poison(muster_cluster *cluster)
{
    atomic_store(&cluster->poisoned, true);
    mst_coord_wake(cluster);
    if (cluster->event >= 0) {
        mst_system_event_ring(cluster->event);
    }
}

/* After a broken invariant. The words go to the log by way of the client, unless this thread holds
 * its lock: then they come that way in any case. */
static void poison(void *ctx, const char *words)
{
    muster_cluster *cluster = ctx;
    muster_client *client = cluster->client;

    mst_coord_poison(cluster);
    mst_coord_unlock(cluster);
    if (client && !mst_lib_holding && !client->poisoned) {
        mst_lib_lock(client);
        mst_lib_log(client, MUSTER_LEVEL_ERROR, "%s", words);
        mst_lib_unlock(client);
    }
}

void mst_coord_lock(muster_cluster *cluster)
{
    mst_uncancelled_begin();
    (void)pthread_mutex_lock(&cluster->lock);
    mst_lib_guard = (struct mst_lib_guard){.poison = poison, .ctx = cluster};
}

void mst_coord_unlock(muster_cluster *cluster)
{
    mst_lib_guard = (struct mst_lib_guard){.poison = NULL};
    (void)pthread_mutex_unlock(&cluster->lock);
    mst_uncancelled_end();
}

/* ---- peers ---- */

static struct mst_coord_peer *peer_of(const muster_cluster *cluster, uint64_t id)
{
    struct mst_table_node *node = mst_table_find(&cluster->peers_by_id, id);

    return node ? MST_CONTAINER(node, struct mst_coord_peer, by_id) : NULL;
}

static void drop_peer(muster_cluster *cluster, struct mst_coord_peer *peer)
{
    mst_coord_stranger_gone(cluster, peer);
    mst_list_remove(&peer->dirty);
    mst_list_remove(&peer->link);
    mst_table_remove(&cluster->peers_by_id, &peer->by_id);
    mst_cluster_link_free(peer->connection);
    free(peer);
    if (cluster->closing && mst_list_empty(&cluster->peers)) {
        (void)pthread_cond_broadcast(&cluster->nobody);
    }
}

void mst_coord_say_of(muster_cluster *cluster, enum muster_level level,
                      const struct mst_coord_peer *peer, const char *what)
{
    char line[400];

    mst_text_print(line, sizeof(line), "cluster: connection from %s: %s",
                   mst_cluster_link_peer(peer->connection), what);
    if (level == MUSTER_LEVEL_WARN) {
        mst_coord_complain(cluster, line);
    } else {
        mst_coord_say(cluster, level, "%s", line);
    }
}

void mst_coord_break(muster_cluster *cluster, struct mst_coord_peer *peer)
{
    mst_coord_stranger_gone(cluster, peer);
    peer->broken = true;
    cluster->trouble = true;
}

static void accept_one(muster_cluster *cluster, int fd, struct mst_tls_context *tls)
{
    struct mst_coord_peer *peer = calloc(1, sizeof(*peer));

    if (!peer) {
        (void)close(fd);
        return;
    }
    if (mst_cluster_link_adopt(&peer->connection, fd, tls, &mst_system_mem) != MUSTER_OK) {
        free(peer);
        return;
    }
    peer->id = KEY_TCP + ++cluster->peers_ever;
    peer->since_ns = mst_lib_now_ns();
    mst_list_append(&cluster->peers, &peer->link);
    mst_table_insert(&cluster->peers_by_id, peer->id, &peer->by_id);
    mst_coord_stranger(cluster, peer);
    if (mst_cluster_link_enrol(peer->connection, cluster->epoll, peer->id) != 0) {
        drop_peer(cluster, peer);
        return;
    }
    mst_cluster_link_flush(peer->connection);
}

/* Adds the Unix socket and the TCP port to epoll, or takes them out. errno of the first that
 * failed; 0: none did. */
static int listen_to(muster_cluster *cluster, int op)
{
    const struct {
        int fd;
        uint64_t key;
    } sockets[] = {{cluster->listener.unix_fd, KEY_UNIX}, {cluster->listener.tcp_fd, KEY_TCP}};

    for (size_t i = 0; i < sizeof(sockets) / sizeof(sockets[0]); i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u64 = sockets[i].key};

        if (sockets[i].fd >= 0 && epoll_ctl(cluster->epoll, op, sockets[i].fd, &event) != 0) {
            return errno;
        }
    }
    return 0;
}

static void go_deaf(muster_cluster *cluster)
{
    if (!cluster->deaf) {
        cluster->deaf = true;
        cluster->hears_ns = mst_lib_now_ns() + DEAF_NS;
        (void)listen_to(cluster, EPOLL_CTL_DEL);
        mst_coord_say(cluster, MUSTER_LEVEL_WARN,
                      "cluster: no descriptor left for a worker that wants to connect; raise "
                      "`ulimit -n`");
    }
}

static void accept_all(muster_cluster *cluster, int listener, struct mst_tls_context *tls)
{
    int fd;

    while ((fd = mst_cluster_listener_accept(listener)) >= 0) {
        accept_one(cluster, fd, tls);
    }
    if (fd == -2) {
        go_deaf(cluster);
    }
}

/* ---- effects ---- */

static void send_one(muster_cluster *cluster, const struct mst_cluster_effect *effect)
{
    struct mst_coord_peer *peer = peer_of(cluster, effect->connection);

    if (!peer || peer->broken || peer->closing) {
        return;
    }
    if (mst_cluster_link_send(peer->connection, effect->message) != MUSTER_OK) {
        mst_coord_say_of(cluster, MUSTER_LEVEL_ERROR, peer,
                         "out of memory for what is to be sent: it is closed");
        mst_coord_break(cluster, peer);
        return;
    }
    if (effect->message->type == MST_CLUSTER_WELCOME) {
        mst_coord_stranger_known(cluster, peer);
    }
    if (!mst_list_linked(&peer->dirty)) {
        mst_list_append(&cluster->dirty, &peer->dirty);
    }
}

static void close_one(muster_cluster *cluster, const struct mst_cluster_effect *effect)
{
    struct mst_coord_peer *peer = peer_of(cluster, effect->connection);

    if (peer && !peer->closing) {
        peer->closing = true;
        peer->broken = false;
        peer->since_ns = mst_lib_now_ns();
        mst_coord_stranger_gone(cluster, peer);
        cluster->trouble = true;
    }
}

/* Why calls are to end; OK: they are not. */
static muster_status ending(const muster_cluster *cluster)
{
    if (cluster->poisoned) {
        return MUSTER_EINTERNAL;
    }
    if (cluster->closing || !mst_coord_machine(cluster)) {
        return MUSTER_ECANCELLED;
    }
    return cluster->interrupted ? MUSTER_EINTERRUPTED : MUSTER_OK;
}

void mst_coord_wake(muster_cluster *cluster)
{
    bool end = ending(cluster) != MUSTER_OK;

    MST_EACH(waiter, &cluster->waiters, struct mst_coord_waiter, link) {
        if (end || waiter->ready(waiter->ctx)) {
            (void)pthread_cond_signal(&waiter->wake);
        }
    }
}

static bool drain(muster_cluster *cluster)
{
    const struct mst_cluster_effect *effect;
    bool any = false;
    bool change = false;

    while (mst_coord_machine(cluster) &&
           (effect = mst_cluster_next(mst_coord_machine(cluster))) != NULL) {
        any = true;
        switch (effect->type) {
        case MST_CLUSTER_SEND:
            send_one(cluster, effect);
            break;
        case MST_CLUSTER_CLOSE:
            close_one(cluster, effect);
            break;
        case MST_CLUSTER_CHANGED:
            change = true;
            break;
        case MST_CLUSTER_SAY:
            mst_coord_say_line(cluster, effect);
            break;
        case MST_CLUSTER_RECORD:
            cluster->recording = true;
            break;
        }
        mst_cluster_done(mst_coord_machine(cluster), effect);
    }
    if (change) {
        cluster->changes++;
        if (cluster->ready >= 0) {
            mst_system_event_ring(cluster->ready);
        }
        mst_coord_wake(cluster);
    }
    return any;
}

static void write_dirty(muster_cluster *cluster)
{
    struct mst_list *link;

    while ((link = mst_list_take(&cluster->dirty)) != NULL) {
        mst_cluster_link_flush(MST_CONTAINER(link, struct mst_coord_peer, dirty)->connection);
    }
}

/* Reports a broken peer to the machine, and frees a closed one once all is written. */
static void reap(muster_cluster *cluster)
{
    uint64_t now_ns = mst_lib_now_ns();

    cluster->trouble = false;
    MST_EACH(peer, &cluster->peers, struct mst_coord_peer, link) {
        if (peer->broken && peer->greeted && mst_coord_machine(cluster)) {
            mst_cluster_gone(mst_coord_machine(cluster), now_ns, peer->id);
        }
        if (peer->broken || (peer->closing && (mst_cluster_link_pending(peer->connection) == 0 ||
                                               now_ns - peer->since_ns >= LINGER_NS))) {
            drop_peer(cluster, peer);
        } else if (peer->closing) {
            cluster->trouble = true;
        }
    }
}

static uint64_t deadline_of(const muster_cluster *cluster)
{
    uint64_t deadline_ns = mst_coord_strangers_deadline_ns(cluster);

    if (mst_coord_machine(cluster)) {
        deadline_ns = mst_sooner(deadline_ns, mst_cluster_deadline_ns(mst_coord_machine(cluster)));
    }
    if (!cluster->publishing && !cluster->superseded && !cluster->closing) {
        deadline_ns =
            mst_sooner(deadline_ns, mst_cluster_publisher_deadline_ns(&cluster->publisher));
    }
    if (cluster->deaf) {
        deadline_ns = mst_sooner(deadline_ns, cluster->hears_ns);
    }
    if (cluster->trouble) { /* for those that linger */
        deadline_ns = mst_sooner(deadline_ns, mst_lib_now_ns() + 100 * NS_PER_MS);
    }
    return deadline_ns;
}

static void ring(muster_cluster *cluster)
{
    if (cluster->asleep) {
        cluster->asleep = false;
        mst_system_event_ring(cluster->event);
    }
}

/* Something is due earlier than the thread knows. */
void mst_coord_hurry(muster_cluster *cluster)
{
    if (deadline_of(cluster) < cluster->until_ns) {
        ring(cluster);
    }
}

/* On the thread that changed the machine, in place of the cluster's as far as that pays. */
void mst_coord_turn(muster_cluster *cluster)
{
    bool later;

    if (cluster->poisoned) {
        return;
    }
    mst_cluster_publisher_stir(&cluster->publisher);
    (void)drain(cluster);
    if (!cluster->asleep) {
        return; /* the thread comes by in any case */
    }
    later = cluster->trouble || !mst_list_empty(&cluster->said) || cluster->recording ||
            deadline_of(cluster) < cluster->until_ns;
    if (!mst_list_empty(&cluster->dirty)) {
        uint64_t now_ns = mst_lib_now_ns();

        if (now_ns - cluster->written_ns >= WRITE_AFTER_NS) {
            cluster->written_ns = now_ns;
            write_dirty(cluster);
        } else {
            later = true;
        }
    }
    if (later) {
        ring(cluster);
    }
}

/* ---- input ---- */

/* MORE: all that came was taken. What comes of a peer that is closed is dropped, not gathered. */
static muster_status take_messages(muster_cluster *cluster, struct mst_coord_peer *peer)
{
    struct mst_cluster_message message;
    muster_status status = MUSTER_MORE;

    while (mst_cluster_link_up(peer->connection)) {
        status = mst_cluster_link_next(peer->connection, &message);
        if (status != MUSTER_OK) {
            break;
        }
        if (peer->closing) {
            continue;
        }
        peer->greeted = true;
        if (mst_coord_machine(cluster)) {
            mst_cluster_publisher_stir(&cluster->publisher);
            mst_cluster_message(mst_coord_machine(cluster), mst_lib_now_ns(), peer->id, &message);
            (void)drain(cluster);
        }
    }
    return peer->closing ? MUSTER_MORE : status;
}

static void take_peer(muster_cluster *cluster, uint64_t id, uint32_t events)
{
    struct mst_coord_peer *peer = peer_of(cluster, id);
    bool again = true;

    for (int i = 0; i < READS_MAX && again && peer && !peer->broken; i++) {
        bool up = mst_cluster_link_up(peer->connection);
        muster_status status =
            mst_cluster_link_ready(peer->connection, events, cluster->room, &again);

        if (status == MUSTER_OK) {
            status = take_messages(cluster, peer);
        }
        mst_coord_stranger_sent(cluster, peer);
        if (status < 0) {
            /* Another coordinator connects only to see whether a process listens here. */
            bool looked = up && mst_cluster_link_received(peer->connection) == 0;

            if (status != MUSTER_EUNREACHABLE || (!peer->greeted && !looked)) {
                mst_coord_say_of(cluster, MUSTER_LEVEL_WARN, peer,
                                 mst_cluster_link_reason(peer->connection));
            }
            mst_coord_break(cluster, peer);
        }
    }
}

static void take_event(muster_cluster *cluster, const struct epoll_event *event)
{
    switch (event->data.u64) {
    case KEY_EVENT:
        mst_system_event_quiet(cluster->event);
        break;
    case KEY_UNIX:
        accept_all(cluster, cluster->listener.unix_fd, NULL);
        break;
    case KEY_TCP:
        accept_all(cluster, cluster->listener.tcp_fd, cluster->tls);
        break;
    default:
        take_peer(cluster, event->data.u64, event->events);
        break;
    }
}

/* ---- log lines ---- */

void mst_coord_say(muster_cluster *cluster, enum muster_level level, const char *format, ...)
{
    char line[1400];
    struct mst_text text = mst_text_in(line, sizeof(line));
    struct mst_coord_said *said;
    va_list arguments;

    va_start(arguments, format);
    mst_text_format_list(&text, format, arguments);
    va_end(arguments);
    said = malloc(sizeof(*said) + text.size + 1);
    if (said) {
        *said = (struct mst_coord_said){.level = level};
        memcpy(said->text, line, text.size + 1);
        mst_list_append(&cluster->said, &said->link);
    }
}

static void forget(struct mst_list *lines)
{
    MST_EACH(said, lines, struct mst_coord_said, link) {
        mst_list_remove(&said->link);
        free(said);
    }
}

/* ---- the thread ---- */

/* The client's lock comes first: these two take one lock instead of the other. The client lives
 * until this thread has ended. */
static muster_client *to_client(muster_cluster *cluster)
{
    muster_client *client = cluster->client;

    mst_coord_unlock(cluster);
    mst_lib_lock(client);
    return client;
}

static void from_client(muster_cluster *cluster, muster_client *client)
{
    mst_lib_unlock(client);
    mst_coord_lock(cluster);
}

static void log_lines(muster_cluster *cluster)
{
    muster_client *client;
    struct mst_list lines;

    mst_list_init(&lines);
    mst_list_put_before(&lines, &cluster->said);
    client = to_client(cluster);
    MST_EACH(said, &lines, struct mst_coord_said, link) {
        if (!client->poisoned) {
            mst_lib_log(client, said->level, "%s", said->text);
        }
    }
    from_client(cluster, client);
    forget(&lines);
}

static bool publish(muster_cluster *cluster)
{
    uint64_t now_ns = mst_lib_now_ns();
    muster_client *client;
    size_t size;

    if (cluster->publishing || cluster->superseded || cluster->closing ||
        !mst_coord_machine(cluster) || !cluster->client ||
        mst_cluster_publisher_deadline_ns(&cluster->publisher) > now_ns) {
        return false;
    }
    size = mst_cluster_publisher_next(&cluster->publisher, now_ns, mst_coord_machine(cluster));
    if (size == 0) {
        return false;
    }
    cluster->publishing = true;
    client = to_client(cluster);
    if (!client->poisoned) {
        mst_coord_term_publish(cluster, size);
    }
    from_client(cluster, client);
    return true;
}

static bool record(muster_cluster *cluster)
{
    muster_client *client;

    if (!cluster->recording) {
        return false;
    }
    cluster->recording = false;
    client = to_client(cluster);
    if (!client->poisoned) {
        mst_coord_term_record(cluster);
    }
    from_client(cluster, client);
    return true;
}

static void tick(muster_cluster *cluster)
{
    uint64_t now_ns = mst_lib_now_ns();

    if (mst_coord_machine(cluster) &&
        mst_cluster_deadline_ns(mst_coord_machine(cluster)) <= now_ns) {
        mst_cluster_tick(mst_coord_machine(cluster), now_ns);
        mst_cluster_publisher_stir(&cluster->publisher);
    }
    if (cluster->deaf && cluster->hears_ns <= now_ns) {
        cluster->deaf = false;
        (void)listen_to(cluster, EPOLL_CTL_ADD);
    }
    mst_coord_strangers_tick(cluster, now_ns);
    do {
        (void)drain(cluster);
        write_dirty(cluster);
        if (cluster->trouble) {
            reap(cluster);
        }
    } while (drain(cluster));
    write_dirty(cluster);
}

static int wait_ms(uint64_t until_ns)
{
    uint64_t ms = mst_sooner(mst_ms_until(until_ns, mst_lib_now_ns()), INT_MAX);

    return until_ns == NEVER ? -1 : (int)ms;
}

/* The client first, which may look at its own. */
static void lose(muster_cluster *cluster)
{
    muster_client *client = to_client(cluster);

    if (!client->poisoned) {
        mst_lib_log(client, MUSTER_LEVEL_ERROR,
                    "the coordinator lost its epoll descriptor: this program closed a descriptor "
                    "of muster's");
        mst_lib_disown(client);
    }
    from_client(cluster, client);
    mst_coord_disown(cluster);
}

static void *run(void *ctx)
{
    muster_cluster *cluster = ctx;
    struct epoll_event events[EVENTS_MAX];

    mst_short_slice();
    mst_coord_lock(cluster);
    while (!cluster->stop && !cluster->poisoned) {
        int epoll, found, failed;

        tick(cluster);
        if (!mst_list_empty(&cluster->said)) {
            log_lines(cluster);
            continue;
        }
        if (publish(cluster) || record(cluster)) {
            continue;
        }
        cluster->until_ns = deadline_of(cluster);
        cluster->asleep = true;
        epoll = cluster->epoll;
        mst_coord_unlock(cluster);
        found = epoll_wait(epoll, events, EVENTS_MAX, wait_ms(cluster->until_ns));
        failed = found < 0 ? errno : 0;
        mst_coord_lock(cluster);
        cluster->asleep = false;
        if (failed != 0 && failed != EINTR && !cluster->poisoned) {
            lose(cluster);
        }
        for (int i = 0; i < found && !cluster->poisoned; i++) {
            take_event(cluster, &events[i]);
        }
    }
    mst_coord_unlock(cluster);
    return NULL;
}

static muster_status open_epoll(muster_cluster *cluster, struct muster_error *err)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = KEY_EVENT};

    cluster->epoll = epoll_create1(EPOLL_CLOEXEC);
    cluster->event = cluster->epoll < 0 ? -1 : mst_system_event();
    if (cluster->event < 0 ||
        epoll_ctl(cluster->epoll, EPOLL_CTL_ADD, cluster->event, &event) != 0 ||
        listen_to(cluster, EPOLL_CTL_ADD) != 0) {
        return mst_lib_fail_system(err, "cluster", errno);
    }
    return MUSTER_OK;
}

muster_status mst_coord_loop_start(muster_cluster *cluster, struct muster_error *err)
{
    muster_status status = open_epoll(cluster, err);
    pthread_attr_t attributes;
    sigset_t all, before;
    int failed;

    cluster->room = malloc(MST_CLUSTER_LINK_ROOM);
    if (status == MUSTER_OK && (!cluster->room || pthread_attr_init(&attributes) != 0)) {
        status = mst_lib_fail(err, MUSTER_ENOMEM, "cluster", NULL);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    (void)pthread_attr_setstacksize(&attributes, THREAD_STACK);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* the program's signals are its own */
    mst_coord_lock(cluster); /* what is written here stands beside what the thread reads */
    failed = pthread_create(&cluster->thread, &attributes, run, cluster);
    cluster->thread_runs = failed == 0;
    mst_coord_unlock(cluster);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
    return failed != 0 ? mst_lib_fail_thread(err, "cluster") : MUSTER_OK;
}

void mst_coord_loop_farewell(muster_cluster *cluster)
{
    uint64_t until_ns = mst_lib_now_ns() + FAREWELL_NS;
    const struct timespec limit = mst_clock_timespec(until_ns);
    int late = 0;

    mst_coord_lock(cluster);
    while (!mst_list_empty(&cluster->peers) && late == 0) {
        late = pthread_cond_timedwait(&cluster->nobody, &cluster->lock, &limit);
    }
    mst_coord_unlock(cluster);
}

static void close_if(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
        *fd = -1;
    }
}

void mst_coord_loop_stop(muster_cluster *cluster)
{
    if (cluster->thread_runs) {
        mst_coord_lock(cluster);
        cluster->stop = true;
        mst_system_event_ring(cluster->event);
        mst_coord_unlock(cluster);
        (void)pthread_join(cluster->thread, NULL);
        cluster->thread_runs = false;
    }
    MST_EACH(peer, &cluster->peers, struct mst_coord_peer, link) {
        drop_peer(cluster, peer);
    }
    forget(&cluster->said);
    free(cluster->room);
    cluster->room = NULL;
    close_if(&cluster->epoll);
    close_if(&cluster->event);
}

/* Its copies of the descriptors; the memory may be in the middle of anything. */
void mst_coord_loop_abandon(muster_cluster *cluster)
{
    close_if(&cluster->epoll);
    close_if(&cluster->event);
    close_if(&cluster->ready);
    MST_EACH(peer, &cluster->peers, struct mst_coord_peer, link) {
        uint32_t events;

        (void)close(mst_cluster_link_fd(peer->connection, &events));
    }
}

/* The thread may never wake from its wait for them: all is left to it, as after a panic. */
void mst_coord_disown(muster_cluster *cluster)
{
    cluster->epoll = cluster->event = cluster->ready = -1;
    cluster->listener.unix_fd = cluster->listener.tcp_fd = -1;
    MST_EACH(peer, &cluster->peers, struct mst_coord_peer, link) {
        mst_cluster_link_disown(peer->connection);
    }
    mst_coord_poison(cluster);
}

/* ---- waiting ---- */

muster_status mst_coord_wait(muster_cluster *cluster, bool (*ready)(void *ctx), void *ctx,
                             uint64_t deadline_ns)
{
    struct mst_coord_waiter waiter = {.ready = ready, .ctx = ctx};
    struct timespec limit = mst_clock_timespec(deadline_ns);
    muster_status status;

    mst_lib_wait_shown();
    mst_monotonic_cond_init(&waiter.wake);
    mst_list_append(&cluster->waiters, &waiter.link);
    while ((status = ending(cluster)) == MUSTER_OK && !ready(ctx)) {
        if (deadline_ns == NEVER) {
            (void)pthread_cond_wait(&waiter.wake, &cluster->lock);
        } else if (mst_lib_now_ns() < deadline_ns) {
            (void)pthread_cond_timedwait(&waiter.wake, &cluster->lock, &limit);
        } else {
            status = MUSTER_ETIMEDOUT;
            break;
        }
    }
    mst_list_remove(&waiter.link);
    (void)pthread_cond_destroy(&waiter.wake);
    mst_lib_wait_over();
    return status;
}
