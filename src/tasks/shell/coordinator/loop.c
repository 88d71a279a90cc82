/* SPDX-License-Identifier: Apache-2.0 */
/* The coordinator's thread: connections, the machine's effects, and who waits for them. */
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
#include "os/short_slice.h"
#include "os/system.h"
#include "tasks/shell/coordinator/cluster.h"

#define THREAD_STACK ((size_t)256 * 1024)
#define LINGER_NS (2 * NS_PER_S) /* for what a connection that is closed has still to write */
#define DEAF_NS NS_PER_S
#define FAREWELL_NS (300 * NS_PER_MS) /* for the workers to be told of the end */
#define WRITE_AFTER_NS 50000u         /* since a caller last wrote in the thread's place */

enum { EVENTS_MAX = 64, PEERS_MAX = 1 << 20, READS_MAX = 16 };

/* What epoll tells of that is no peer: their ids are larger. */
enum { KEY_EVENT = 1, KEY_UNIX = 2, KEY_TCP = 3 };

/* ---- the lock ---- */

/* The machine is broken: nobody touches it any more. The words go to the log by way of the client,
 * unless this thread holds its lock: then they come that way in any case. */
static void poison(void *ctx, const char *words)
{
    muster_cluster *cluster = ctx;
    muster_client *client = cluster->client;

    atomic_store(&cluster->poisoned, true);
    mst_coord_wake(cluster);
    if (cluster->event >= 0) {
        mst_system_event_ring(cluster->event);
    }
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
    uint32_t place = (uint32_t)id;
    struct mst_coord_peer *peer = place < cluster->peer_room ? cluster->peers[place] : NULL;

    return peer && peer->id == id ? peer : NULL;
}

static bool grow(muster_cluster *cluster)
{
    uint32_t room = cluster->peer_room > 0 ? cluster->peer_room * 2 : 64;
    struct mst_coord_peer **peers;

    if (room > PEERS_MAX) {
        return false;
    }
    peers = realloc(cluster->peers, room * sizeof(struct mst_coord_peer *));
    if (!peers) {
        return false;
    }
    memset(peers + cluster->peer_room, 0,
           (room - cluster->peer_room) * sizeof(struct mst_coord_peer *));
    cluster->peer_free = cluster->peer_room;
    cluster->peers = peers;
    cluster->peer_room = room;
    return true;
}

/* A free place; false: there is none. */
static bool find_place(muster_cluster *cluster, uint32_t *out)
{
    for (uint32_t i = 0; i < cluster->peer_room; i++) {
        uint32_t place = (cluster->peer_free + i) % cluster->peer_room;

        if (!cluster->peers[place]) {
            *out = place;
            return true;
        }
    }
    if (!grow(cluster)) {
        return false;
    }
    *out = cluster->peer_free;
    return true;
}

static void drop_peer(muster_cluster *cluster, struct mst_coord_peer *peer)
{
    uint32_t place = (uint32_t)peer->id;

    mst_coord_stranger_gone(cluster, peer);
    mst_list_remove(&peer->dirty);
    mst_cluster_link_free(peer->link);
    cluster->peers[place] = NULL;
    cluster->peer_free = place;
    cluster->peer_count--;
    free(peer);
    if (cluster->closing && cluster->peer_count == 0) {
        (void)pthread_cond_broadcast(&cluster->nobody);
    }
}

void mst_coord_say_of(muster_cluster *cluster, enum muster_level level,
                      const struct mst_coord_peer *peer, const char *what)
{
    char line[400];

    mst_text_print(line, sizeof(line), "cluster: connection from %s: %s",
                   mst_cluster_link_peer(peer->link), what);
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

static void accept_one(muster_cluster *cluster, int fd, bool tcp)
{
    struct mst_coord_peer *peer = calloc(1, sizeof(*peer));
    uint32_t place = 0;

    if (!peer || !find_place(cluster, &place)) {
        (void)close(fd);
        free(peer);
        return;
    }
    peer->id = ++cluster->peer_turn << 32 | place;
    peer->since_ns = mst_lib_now_ns();
    if (mst_cluster_link_adopt(&peer->link, fd, tcp ? cluster->tls : NULL, &mst_system_mem) !=
        MUSTER_OK) {
        free(peer);
        return;
    }
    cluster->peers[place] = peer;
    cluster->peer_count++;
    mst_coord_stranger(cluster, peer);
    if (mst_cluster_link_enrol(peer->link, cluster->epoll, peer->id) != 0) {
        drop_peer(cluster, peer);
        return;
    }
    mst_cluster_link_flush(peer->link);
}

static int listen_to(muster_cluster *cluster, int fd, uint64_t key)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = key};

    return fd < 0 || epoll_ctl(cluster->epoll, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : errno;
}

static void hear_again(muster_cluster *cluster)
{
    cluster->deaf = false;
    (void)listen_to(cluster, cluster->listener.unix_fd, KEY_UNIX);
    (void)listen_to(cluster, cluster->listener.tcp_fd, KEY_TCP);
}

static void go_deaf(muster_cluster *cluster)
{
    if (cluster->deaf) {
        return;
    }
    cluster->deaf = true;
    cluster->hears_ns = mst_lib_now_ns() + DEAF_NS;
    (void)epoll_ctl(cluster->epoll, EPOLL_CTL_DEL, cluster->listener.unix_fd, NULL);
    if (cluster->listener.tcp_fd >= 0) {
        (void)epoll_ctl(cluster->epoll, EPOLL_CTL_DEL, cluster->listener.tcp_fd, NULL);
    }
    mst_coord_say(cluster, MUSTER_LEVEL_WARN,
                  "cluster: no descriptor left for a worker that wants to connect; raise "
                  "`ulimit -n`");
}

static void accept_all(muster_cluster *cluster, int listener, bool tcp)
{
    int fd;

    while ((fd = mst_cluster_listener_accept(listener)) >= 0) {
        accept_one(cluster, fd, tcp);
    }
    if (fd == -2) {
        go_deaf(cluster);
    }
}

/* ---- effects ---- */

static void make_dirty(muster_cluster *cluster, struct mst_coord_peer *peer)
{
    if (!mst_list_linked(&peer->dirty)) {
        mst_list_append(&cluster->dirty, &peer->dirty);
    }
}

static void send_one(muster_cluster *cluster, const struct mst_cluster_effect *effect)
{
    struct mst_coord_peer *peer = peer_of(cluster, effect->connection);

    if (!peer || peer->broken || peer->closing) {
        return;
    }
    if (mst_cluster_link_send(peer->link, effect->message) != MUSTER_OK) {
        mst_coord_say_of(cluster, MUSTER_LEVEL_ERROR, peer,
                         "out of memory for what is to be sent: it is closed");
        mst_coord_break(cluster, peer);
        return;
    }
    if (effect->message->type == MST_CLUSTER_WELCOME) {
        mst_coord_stranger_known(cluster, peer);
    }
    make_dirty(cluster, peer);
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

void mst_coord_wake(muster_cluster *cluster)
{
    bool ending = mst_coord_ending(cluster) != MUSTER_OK;

    MST_LIST_EACH(link, following, &cluster->waiters)
    {
        struct mst_coord_waiter *waiter = MST_CONTAINER(link, struct mst_coord_waiter, link);

        if (ending || waiter->ready(waiter->ctx)) {
            (void)pthread_cond_signal(&waiter->wake);
        }
    }
}

static void changed(muster_cluster *cluster)
{
    cluster->changes++;
    if (cluster->ready >= 0) {
        mst_system_event_ring(cluster->ready);
    }
    mst_coord_wake(cluster);
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
        }
        mst_cluster_done(mst_coord_machine(cluster), effect);
    }
    if (change) {
        changed(cluster);
    }
    return any;
}

static void write_dirty(muster_cluster *cluster)
{
    struct mst_list *link;

    while ((link = mst_list_take(&cluster->dirty)) != NULL) {
        mst_cluster_link_flush(MST_CONTAINER(link, struct mst_coord_peer, dirty)->link);
    }
}

/* A peer that is broken is told to the machine, and one that is closed goes once all is written. */
static void reap(muster_cluster *cluster)
{
    uint64_t now_ns = mst_lib_now_ns();

    cluster->trouble = false;
    for (uint32_t i = 0; i < cluster->peer_room; i++) {
        struct mst_coord_peer *peer = cluster->peers[i];

        if (!peer || (!peer->broken && !peer->closing)) {
            continue;
        }
        if (peer->broken) {
            if (peer->greeted && mst_coord_machine(cluster)) {
                mst_cluster_gone(mst_coord_machine(cluster), now_ns, peer->id);
            }
            drop_peer(cluster, peer);
        } else if (mst_cluster_link_pending(peer->link) == 0 ||
                   now_ns - peer->since_ns >= LINGER_NS) {
            drop_peer(cluster, peer);
        } else {
            cluster->trouble = true;
        }
    }
}

static uint64_t deadline_of(const muster_cluster *cluster)
{
    uint64_t deadline_ns =
        mst_coord_machine(cluster) ? mst_cluster_deadline_ns(mst_coord_machine(cluster)) : NEVER;
    uint64_t strangers_ns = mst_coord_strangers_deadline_ns(cluster);

    if (strangers_ns < deadline_ns) {
        deadline_ns = strangers_ns;
    }
    if (!cluster->publishing && !cluster->superseded && !cluster->closing) {
        uint64_t publish_ns = mst_cluster_publisher_deadline_ns(&cluster->publisher);

        deadline_ns = publish_ns < deadline_ns ? publish_ns : deadline_ns;
    }
    if (cluster->deaf && cluster->hears_ns < deadline_ns) {
        deadline_ns = cluster->hears_ns;
    }
    if (cluster->trouble) {
        uint64_t soon_ns = mst_lib_now_ns() + 100 * NS_PER_MS; /* for those that linger */

        deadline_ns = soon_ns < deadline_ns ? soon_ns : deadline_ns;
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

/* By whoever changed the machine, in the thread's place as far as that is sensible. */
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
    later = cluster->trouble || !mst_list_empty(&cluster->said) ||
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

    while (mst_cluster_link_up(peer->link)) {
        status = mst_cluster_link_next(peer->link, &message);
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
        bool up = mst_cluster_link_up(peer->link);
        muster_status status = mst_cluster_link_ready(peer->link, events, cluster->room, &again);

        if (status == MUSTER_OK) {
            status = take_messages(cluster, peer);
        }
        mst_coord_stranger_sent(cluster, peer);
        if (status < 0) {
            /* Other coordinators look whether there is anybody behind this socket. */
            bool looked = up && mst_cluster_link_received(peer->link) == 0;

            if (status != MUSTER_EUNREACHABLE || (!peer->greeted && !looked)) {
                mst_coord_say_of(cluster, MUSTER_LEVEL_WARN, peer,
                                 mst_cluster_link_reason(peer->link));
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
        accept_all(cluster, cluster->listener.unix_fd, false);
        break;
    case KEY_TCP:
        accept_all(cluster, cluster->listener.tcp_fd, true);
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
    MST_LIST_EACH(link, following, lines)
    {
        mst_list_remove(link);
        free(MST_CONTAINER(link, struct mst_coord_said, link));
    }
}

/* Lock held, and given back meanwhile: the log is the client's, whose lock comes first. */
static void tell(muster_cluster *cluster)
{
    muster_client *client = cluster->client;
    struct mst_list lines;
    struct mst_list *link;

    mst_list_init(&lines);
    while ((link = mst_list_take(&cluster->said)) != NULL) {
        mst_list_append(&lines, link);
    }
    mst_coord_unlock(cluster);
    if (client && !client->poisoned) {
        mst_lib_lock(client);
        for (link = lines.next; link != &lines; link = link->next) {
            const struct mst_coord_said *said = MST_CONTAINER(link, struct mst_coord_said, link);

            mst_lib_log(client, said->level, "%s", said->text);
        }
        mst_lib_unlock(client);
    }
    forget(&lines);
    mst_coord_lock(cluster);
}

/* ---- the thread ---- */

/* Lock held, and given back meanwhile. */
static bool publish(muster_cluster *cluster)
{
    muster_client *client = cluster->client;
    uint64_t now_ns = mst_lib_now_ns();
    size_t size;

    if (cluster->publishing || cluster->superseded || cluster->closing ||
        !mst_coord_machine(cluster) || !client ||
        mst_cluster_publisher_deadline_ns(&cluster->publisher) > now_ns) {
        return false;
    }
    size = mst_cluster_publisher_next(&cluster->publisher, now_ns, mst_coord_machine(cluster));
    if (size == 0) {
        return false;
    }
    cluster->publishing = true;
    mst_coord_unlock(cluster);
    mst_lib_lock(client);
    if (!client->poisoned) {
        mst_coord_term_publish(cluster, size);
    }
    mst_lib_unlock(client);
    mst_coord_lock(cluster);
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
        hear_again(cluster);
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
    uint64_t now_ns = mst_lib_now_ns();
    uint64_t ms;

    if (until_ns == NEVER) {
        return -1;
    }
    ms = mst_ms_until(until_ns, now_ns);
    return ms < INT_MAX ? (int)ms : INT_MAX;
}

/* The client first, which may look at its own, and which lives until this thread has ended. */
static void lose(muster_cluster *cluster)
{
    muster_client *client = cluster->client;

    mst_coord_unlock(cluster);
    mst_lib_lock(client);
    if (!client->poisoned) {
        mst_lib_log(client, MUSTER_LEVEL_ERROR,
                    "the coordinator's epoll is gone: a descriptor of muster's was closed by this "
                    "program");
        mst_lib_disown(client);
    }
    mst_lib_unlock(client);
    mst_coord_lock(cluster);
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
            tell(cluster);
            continue;
        }
        if (publish(cluster)) {
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

/* errno is that of the first that failed. */
static muster_status open_epoll(muster_cluster *cluster, struct muster_error *err)
{
    cluster->epoll = epoll_create1(EPOLL_CLOEXEC);
    cluster->event = cluster->epoll < 0 ? -1 : mst_system_event();
    if (cluster->event < 0 || listen_to(cluster, cluster->event, KEY_EVENT) != 0 ||
        listen_to(cluster, cluster->listener.unix_fd, KEY_UNIX) != 0 ||
        listen_to(cluster, cluster->listener.tcp_fd, KEY_TCP) != 0) {
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
    while (cluster->peer_count > 0 && late == 0) {
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
    for (uint32_t i = 0; i < cluster->peer_room; i++) {
        if (cluster->peers[i]) {
            drop_peer(cluster, cluster->peers[i]);
        }
    }
    forget(&cluster->said);
    free(cluster->peers);
    free(cluster->room);
    cluster->peers = NULL;
    cluster->peer_room = 0;
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
    for (uint32_t i = 0; i < cluster->peer_room; i++) {
        uint32_t events;

        if (cluster->peers[i]) {
            (void)close(mst_cluster_link_fd(cluster->peers[i]->link, &events));
        }
    }
}

/* The thread may sleep for ever for what was closed: all is left to it, as when it is broken. */
void mst_coord_disown(muster_cluster *cluster)
{
    cluster->epoll = cluster->event = cluster->ready = -1;
    cluster->listener.unix_fd = cluster->listener.tcp_fd = -1;
    for (uint32_t i = 0; i < cluster->peer_room; i++) {
        if (cluster->peers[i]) {
            mst_cluster_link_disown(cluster->peers[i]->link);
        }
    }
    atomic_store(&cluster->poisoned, true);
    mst_coord_wake(cluster);
}

/* ---- waiting ---- */

muster_status mst_coord_ending(const muster_cluster *cluster)
{
    if (cluster->poisoned) {
        return MUSTER_EINTERNAL;
    }
    if (cluster->closing || !mst_coord_machine(cluster)) {
        return MUSTER_ECANCELLED;
    }
    return cluster->interrupted ? MUSTER_EINTERRUPTED : MUSTER_OK;
}

void mst_coord_wake_init(pthread_cond_t *wake)
{
    pthread_condattr_t attributes;

    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(wake, &attributes);
    (void)pthread_condattr_destroy(&attributes);
}

bool mst_coord_wait(muster_cluster *cluster, bool (*ready)(void *ctx), void *ctx,
                    uint64_t deadline_ns)
{
    struct mst_coord_waiter waiter = {.ready = ready, .ctx = ctx};
    struct timespec limit = mst_clock_timespec(deadline_ns);
    bool is_ready;

    mst_lib_wait_shown();
    mst_coord_wake_init(&waiter.wake);
    mst_list_append(&cluster->waiters, &waiter.link);
    while (!(is_ready = mst_coord_ending(cluster) != MUSTER_OK || ready(ctx))) {
        if (deadline_ns == NEVER) {
            (void)pthread_cond_wait(&waiter.wake, &cluster->lock);
        } else if (mst_lib_now_ns() >= deadline_ns) {
            break;
        } else {
            (void)pthread_cond_timedwait(&waiter.wake, &cluster->lock, &limit);
        }
    }
    mst_list_remove(&waiter.link);
    (void)pthread_cond_destroy(&waiter.wake);
    mst_lib_wait_over();
    return is_ready;
}
