/* SPDX-License-Identifier: Apache-2.0 */
/* The listener, the connections, and the turns of the fronts.
 *
 *   FIRST --its first byte--> FRONT --CLOSE, end, too much unread--> closed */
#define _GNU_SOURCE
#include "fronts/shell/fronts.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/text.h"
#include "fronts/shell/internal.h"
#include "net/loopback_peer.h"
#include "os/system.h"

#define BACKLOG 1024            /* of the listener */
#define CONNECTIONS_MAX 4096u   /* of this node's processes */
#define UNREAD_STOP (1u << 20)  /* bytes that a client has not read: nothing is read of it */
#define UNREAD_MAX (256u << 20) /* it is closed: no front owes a client as much */

struct connection {
    struct mst_list link, dirty;
    struct mst_fronts *fronts;
    struct mst_fronts_one *one; /* NULL: no byte has come */
    uint64_t id;
    uv_tcp_t tcp;
    char *out; /* of this turn */
    size_t size, room;
    bool stopped; /* nothing is read of it: it does not read */
    bool paused;  /* nor because its front says so */
    bool ends;    /* it is closed when all is written */
    bool broken;  /* it is closed in this turn */
};

/* Bytes that the socket has not taken. */
struct writing {
    uv_write_t request;
    struct connection *connection;
    char *bytes;
};

/* ---- the inbox ---- */

void mst_fronts_post(struct mst_fronts *fronts, struct mst_fronts_news *news)
{
    if (!mst_list_linked(&news->link)) {
        mst_list_append(&fronts->inbox, &news->link);
    }
    if (!fronts->taking) {
        (void)uv_async_send(&fronts->woken);
    }
}

static void set_timer(struct mst_fronts *fronts);

void mst_fronts_take(struct mst_fronts *fronts)
{
    struct mst_list *link;

    fronts->taking = true;
    while (!fronts->closing && (link = mst_list_take(&fronts->inbox)) != NULL) {
        struct mst_fronts_news *news = MST_CONTAINER(link, struct mst_fronts_news, link);

        news->take(news);
    }
    fronts->taking = false;
    if (!fronts->closing) {
        set_timer(fronts);
    }
}

static void on_woken(uv_async_t *handle)
{
    mst_fronts_take(handle->data);
}

/* ---- connections ---- */

void mst_fronts_handle_closed(struct mst_fronts *fronts)
{
    if (--fronts->handles == 0) {
        if (fronts->asks >= 0) {
            (void)close(fronts->asks);
        }
        free(fronts->list);
        free(fronts);
    }
}

static void on_connection_closed(uv_handle_t *handle)
{
    struct connection *connection = handle->data;
    struct mst_fronts *fronts = connection->fronts;

    free(connection->out);
    free(connection);
    if (fronts->connection_count == 0) {
        mst_fronts_changed(fronts);
    }
    mst_fronts_handle_closed(fronts);
}

static void close_connection(struct connection *connection)
{
    if (!uv_is_closing((uv_handle_t *)&connection->tcp)) {
        mst_list_remove(&connection->link);
        mst_list_remove(&connection->dirty);
        connection->fronts->connection_count--;
        uv_close((uv_handle_t *)&connection->tcp, on_connection_closed);
    }
}

/* Its client has closed it, or it is broken. An input to the front: never within its effects. */
static void lose(struct connection *connection)
{
    struct mst_fronts_one *one = connection->ends ? NULL : connection->one;
    uint64_t id = connection->id;

    close_connection(connection);
    if (one != NULL) {
        one->front->closed(one->machine, mst_lib_now_ns(), id);
    }
}

static size_t backlog(const struct connection *connection)
{
    return connection->size + uv_stream_get_write_queue_size((const uv_stream_t *)&connection->tcp);
}

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    const struct connection *connection = handle->data;

    (void)suggested;
    *out = uv_buf_init(connection->fronts->in, sizeof connection->fronts->in);
}

static void on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *room);

static void set_reading(struct connection *connection)
{
    if (connection->stopped || connection->paused || connection->ends) {
        (void)uv_read_stop((uv_stream_t *)&connection->tcp);
    } else { /* again: no more than what is so already */
        (void)uv_read_start((uv_stream_t *)&connection->tcp, on_room, on_read);
    }
}

/* A front that is told of what is unread reads no more requests; what has come already waits in the
 * socket. */
static void tell_backlog(struct connection *connection)
{
    struct mst_fronts_one *one = connection->one;
    size_t unread = backlog(connection);

    if (unread > UNREAD_MAX || (connection->ends && unread == 0)) {
        lose(connection);
    } else if (!connection->ends) {
        connection->stopped = unread > UNREAD_STOP;
        set_reading(connection);
        one->front->written(one->machine, mst_lib_now_ns(), connection->id, unread);
    }
}

static void on_written(uv_write_t *request, int status)
{
    struct writing *writing = MST_CONTAINER(request, struct writing, request);
    struct connection *connection = writing->connection;
    struct mst_fronts_one *one = connection->one;

    free(writing->bytes);
    free(writing);
    if (uv_is_closing((uv_handle_t *)&connection->tcp)) {
        return;
    }
    if (status != 0) {
        lose(connection);
    } else {
        tell_backlog(connection);
    }
    mst_fronts_drain(connection->fronts, one);
}

/* What the socket does not take now is written when it does. An input to the front may follow. */
static void flush(struct connection *connection)
{
    uv_buf_t bytes = uv_buf_init(connection->out, (unsigned)connection->size);
    int taken = connection->size > 0 ? uv_try_write((uv_stream_t *)&connection->tcp, &bytes, 1) : 0;
    size_t first = taken > 0 ? (size_t)taken : 0;
    struct writing *writing = NULL;
    bool broken = taken < 0 && taken != UV_EAGAIN;

    if (!broken && first < connection->size) {
        writing = calloc(1, sizeof *writing);
        broken = writing == NULL;
    }
    if (writing != NULL) {
        bytes = uv_buf_init(connection->out + first, (unsigned)(connection->size - first));
        *writing = (struct writing){.connection = connection, .bytes = connection->out};
        broken = uv_write(&writing->request, (uv_stream_t *)&connection->tcp, &bytes, 1,
                          on_written) != 0;
        if (broken) {
            free(writing);
        } else {
            connection->out = NULL;
            connection->room = 0;
        }
    }
    connection->size = 0;
    if (broken) {
        lose(connection);
    } else if (connection->ends || backlog(connection) > 0) {
        tell_backlog(connection);
    }
}

/* ---- effects ---- */

static struct connection *find(const struct mst_fronts *fronts, uint64_t id)
{
    MST_LIST_EACH(link, following, &fronts->connections)
    {
        struct connection *connection = MST_CONTAINER(link, struct connection, link);

        if (connection->id == id) {
            return connection;
        }
    }
    return NULL;
}

int mst_fronts_descriptor(const struct mst_fronts *fronts, uint64_t id)
{
    const struct connection *connection = find(fronts, id);
    uv_os_fd_t fd;

    return connection != NULL && uv_fileno((const uv_handle_t *)&connection->tcp, &fd) == 0 ? fd
                                                                                            : -1;
}

static void mark(struct connection *connection)
{
    if (!mst_list_linked(&connection->dirty)) {
        mst_list_append(&connection->fronts->dirty, &connection->dirty);
    }
}

/* Without memory, or beyond what a write takes, the connection is closed. */
static void append(struct connection *connection, struct mst_slice bytes)
{
    size_t size = connection->size + bytes.size;

    if (size > connection->room && size <= UNREAD_MAX) {
        size_t room = size < 4096 ? 4096 : 2 * size;
        char *grown = realloc(connection->out, room);

        connection->out = grown != NULL ? grown : connection->out;
        connection->room = grown != NULL ? room : connection->room;
    }
    if (size > connection->room) {
        connection->fronts->options.say(connection->fronts->options.ctx,
                                        "a client's connection is closed: no memory for a reply");
        connection->size = 0;
        connection->broken = true;
    } else if (bytes.size > 0) {
        memcpy(connection->out + connection->size, bytes.data, bytes.size);
        connection->size = size;
    }
    mark(connection);
}

static void carry_out_there(const struct mst_fronts *fronts, const struct mst_front_effect *effect)
{
    struct connection *connection = find(fronts, effect->connection);

    if (connection == NULL || connection->ends) {
        return;
    }
    if (effect->kind == MST_FRONT_SEND) {
        append(connection, effect->bytes);
        return;
    }
    connection->ends = effect->kind == MST_FRONT_CLOSE;
    connection->paused = effect->kind == MST_FRONT_PAUSE;
    set_reading(connection);
    if (connection->ends) {
        mark(connection);
    }
}

static void carry_out(struct mst_fronts *fronts, struct mst_fronts_one *one,
                      const struct mst_front_effect *effect)
{
    char line[600];

    switch (effect->kind) {
    case MST_FRONT_SEND:
    case MST_FRONT_CLOSE:
    case MST_FRONT_PAUSE:
    case MST_FRONT_RESUME:
        carry_out_there(fronts, effect);
        return;
    case MST_FRONT_LOG:
        (void)snprintf(line, sizeof line, "%s: %.*s", one->front->name,
                       MST_SLICE_ARGS(effect->bytes));
        fronts->options.say(fronts->options.ctx, line);
        return;
    case MST_FRONT_WAITS:
        if (fronts->options.waits != NULL) {
            fronts->options.waits(fronts->options.ctx);
        }
        return;
    case MST_FRONT_OPEN:
    case MST_FRONT_POST:
    case MST_FRONT_DROP:
    case MST_FRONT_FAIL:
    case MST_FRONT_LEAVE:
        mst_fronts_session_effect(fronts, one, effect);
        return;
    }
}

static void on_time(uv_timer_t *timer);

static void set_timer(struct mst_fronts *fronts)
{
    uint64_t at_ns = mst_fronts_sessions_deadline_ns(fronts), now_ns = mst_lib_now_ns();

    for (unsigned i = 0; i < fronts->count; i++) {
        at_ns = mst_sooner(at_ns, fronts->list[i].front->deadline_ns(fronts->list[i].machine));
    }
    if (at_ns == UINT64_MAX) {
        (void)uv_timer_stop(&fronts->timer);
    } else {
        (void)uv_timer_start(&fronts->timer, on_time,
                             at_ns > now_ns ? (at_ns - now_ns) / NS_PER_MS + 1 : 1, 0);
    }
}

void mst_fronts_drain(struct mst_fronts *fronts, struct mst_fronts_one *one)
{
    struct mst_list *link;

    do {
        const struct mst_front_effect *effect;

        while ((effect = one->front->next(one->machine)) != NULL) {
            carry_out(fronts, one, effect);
        }
        link = mst_list_take(&fronts->dirty);
        if (link != NULL) {
            struct connection *connection = MST_CONTAINER(link, struct connection, dirty);

            if (connection->broken) {
                lose(connection);
            } else {
                flush(connection);
            }
        }
    } while (link != NULL);
    set_timer(fronts);
}

/* ---- inputs ---- */

static void on_time(uv_timer_t *timer)
{
    struct mst_fronts *fronts = timer->data;
    uint64_t now_ns = mst_lib_now_ns();

    fronts->taking = true;
    mst_fronts_sessions_tick(fronts);
    mst_fronts_take(fronts);
    for (unsigned i = 0; i < fronts->count; i++) {
        struct mst_fronts_one *one = &fronts->list[i];

        if (one->front->deadline_ns(one->machine) <= now_ns) {
            one->front->tick(one->machine, now_ns);
            mst_fronts_drain(fronts, one);
        }
    }
    set_timer(fronts);
}

static struct mst_fronts_one *of_first(const struct mst_fronts *fronts, unsigned char first)
{
    for (unsigned i = 0; i < fronts->count; i++) {
        if (fronts->list[i].first == first) {
            return &fronts->list[i];
        }
    }
    return NULL;
}

static void on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *room)
{
    struct connection *connection = stream->data;
    struct mst_fronts *fronts = connection->fronts;
    struct mst_fronts_one *one = connection->one;

    if (got == 0) {
        return;
    }
    if (got > 0 && one == NULL) {
        one = connection->one = of_first(fronts, (unsigned char)room->base[0]);
        if (one == NULL) {
            close_connection(connection);
            return;
        }
        one->front->connected(one->machine, mst_lib_now_ns(), connection->id);
        mst_fronts_drain(fronts, one);
    }
    if (got < 0) {
        lose(connection);
    } else if (!connection->ends && !uv_is_closing((uv_handle_t *)&connection->tcp)) {
        one->front->received(one->machine, mst_lib_now_ns(), connection->id,
                             mst_slice_of(room->base, (size_t)got));
    }
    if (one != NULL) {
        mst_fronts_drain(fronts, one);
    }
}

/* All users of the node reach the port; the processes of the job are this one's. */
static bool of_this_user(struct mst_fronts *fronts, const struct connection *connection)
{
    char line[160];
    struct mst_loopback_peer peer;
    uv_os_fd_t fd;

    if (uv_fileno((const uv_handle_t *)&connection->tcp, &fd) != 0 ||
        !mst_loopback_peer(fronts->asks, fd, &peer)) {
        return false;
    }
    if (peer.user == geteuid() || peer.user == 0) {
        return true;
    }
    if (!fronts->stranger_said) {
        fronts->stranger_said = true;
        (void)snprintf(line, sizeof line,
                       "a process of user %lu connected to the port of JAX and torch, and was cut "
                       "off: this run is of user %lu",
                       (unsigned long)peer.user, (unsigned long)geteuid());
        fronts->options.say(fronts->options.ctx, line);
    }
    return false;
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct mst_fronts *fronts = listener->data;
    struct connection *connection = status == 0 ? calloc(1, sizeof *connection) : NULL;

    if (connection == NULL) {
        return;
    }
    connection->fronts = fronts;
    connection->id = ++fronts->last_connection;
    connection->tcp.data = connection;
    (void)uv_tcp_init(fronts->options.loop, &connection->tcp);
    fronts->handles++;
    if (fronts->connection_count++ == 0) {
        mst_fronts_changed(fronts);
    }
    mst_list_append(&fronts->connections, &connection->link);
    if (uv_accept(listener, (uv_stream_t *)&connection->tcp) != 0 ||
        fronts->connection_count > CONNECTIONS_MAX || !of_this_user(fronts, connection) ||
        uv_tcp_nodelay(&connection->tcp, 1) != 0 ||
        uv_read_start((uv_stream_t *)&connection->tcp, on_room, on_read) != 0) {
        close_connection(connection);
    }
}

void mst_fronts_dead(struct mst_fronts *fronts, uint32_t index, const char *text)
{
    mst_fronts_session_dead(fronts, index);
    for (unsigned i = 0; i < fronts->count; i++) {
        struct mst_fronts_one *one = &fronts->list[i];

        one->front->dead(one->machine, mst_lib_now_ns(), index, mst_slice_text(text));
        mst_fronts_drain(fronts, one);
    }
}

void mst_fronts_notice(struct mst_fronts *fronts, const char *text)
{
    for (unsigned i = 0; i < fronts->count; i++) {
        struct mst_fronts_one *one = &fronts->list[i];

        one->front->notice(one->machine, mst_lib_now_ns(), mst_slice_text(text));
        mst_fronts_drain(fronts, one);
    }
}

/* ---- begin and end ---- */

static void end_machines(struct mst_fronts *fronts, bool leave)
{
    MST_LIST_EACH(link, following, &fronts->connections)
    {
        close_connection(MST_CONTAINER(link, struct connection, link));
    }
    mst_fronts_sessions_end(fronts, leave);
    for (unsigned i = 0; i < fronts->count; i++) {
        struct mst_fronts_one *one = &fronts->list[i];

        if (one->machine != NULL) {
            one->front->free(one->machine);
            one->machine = NULL;
        }
    }
}

muster_status mst_fronts_begin(struct mst_fronts *fronts, uint32_t attempt,
                               struct muster_error *err)
{
    struct mst_front_config config = fronts->options.config;
    muster_status status = MUSTER_OK;

    end_machines(fronts, false);
    config.attempt = attempt;
    mst_system_random(&config.seed, 1);
    for (unsigned i = 0; i < fronts->count && status == MUSTER_OK; i++) {
        struct mst_fronts_one *one = &fronts->list[i];

        status = one->front->new (&one->machine, &config, &mst_system_mem);
    }
    if (status != MUSTER_OK) {
        mst_fronts_close(fronts);
        return mst_fail(err, status, 0, "no memory for the fronts of JAX and torch");
    }
    return MUSTER_OK;
}

void mst_fronts_node(struct mst_fronts *fronts, uint32_t node)
{
    fronts->options.node = node;
}

static void on_handle_closed(uv_handle_t *handle)
{
    mst_fronts_handle_closed(handle->data);
}

void mst_fronts_close(struct mst_fronts *fronts)
{
    if (fronts == NULL) {
        return;
    }
    fronts->closing = true;
    end_machines(fronts, true);
    uv_close((uv_handle_t *)&fronts->listener, on_handle_closed);
    uv_close((uv_handle_t *)&fronts->woken, on_handle_closed);
    uv_close((uv_handle_t *)&fronts->timer, on_handle_closed);
}

static int listen_here(struct mst_fronts *fronts, uint16_t *port_out)
{
    struct sockaddr_in here;
    int size = sizeof here;
    int error = uv_ip4_addr("127.0.0.1", fronts->options.port, &here);

    error = error == 0 ? uv_tcp_bind(&fronts->listener, (const struct sockaddr *)&here, 0) : error;
    error =
        error == 0 ? uv_listen((uv_stream_t *)&fronts->listener, BACKLOG, on_connection) : error;
    error = error == 0
                ? uv_tcp_getsockname(&fronts->listener, (struct sockaddr *)(void *)&here, &size)
                : error;
    *port_out = ntohs(here.sin_port);
    return error;
}

muster_status mst_fronts_open(struct mst_fronts **out, const struct mst_fronts_options *options,
                              uint16_t *port_out, struct muster_error *err)
{
    struct mst_fronts *fronts = calloc(1, sizeof *fronts);
    struct mst_fronts_one *list = calloc(options->count, sizeof *list);
    int error = fronts == NULL || list == NULL ? UV_ENOMEM : 0;

    error = error == 0 ? uv_async_init(options->loop, &fronts->woken, on_woken) : error;
    if (error != 0) {
        free(fronts);
        free(list);
        return mst_fail(err, MUSTER_ENOMEM, -error, "the fronts: %s", uv_strerror(error));
    }
    fronts->options = *options;
    fronts->client = *options->client;
    fronts->list = list;
    fronts->count = options->count;
    fronts->handles = 3;
    fronts->asks = mst_loopback_peer_open();
    mst_list_init(&fronts->connections);
    mst_list_init(&fronts->sessions);
    mst_list_init(&fronts->inbox);
    mst_list_init(&fronts->dirty);
    (void)uv_tcp_init(options->loop, &fronts->listener);
    (void)uv_timer_init(options->loop, &fronts->timer);
    fronts->listener.data = fronts->woken.data = fronts->timer.data = fronts;
    for (unsigned i = 0; i < fronts->count; i++) {
        list[i].front = options->kinds[i].front;
        list[i].first = options->kinds[i].first;
    }
    if (fronts->asks < 0) {
        mst_fronts_close(fronts);
        return mst_fail(err, MUSTER_EFAILED, errno,
                        "no front for JAX and torch: the kernel does not say whose a connection to "
                        "127.0.0.1 is, and all users reach it");
    }
    error = listen_here(fronts, port_out);
    if (error != 0) {
        mst_fronts_close(fronts);
        return mst_fail(err, MUSTER_ELIMIT, -error, "the fronts: listen on 127.0.0.1:%u: %s",
                        options->port, uv_strerror(error));
    }
    *out = fronts;
    return MUSTER_OK;
}
