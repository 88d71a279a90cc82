/* SPDX-License-Identifier: Apache-2.0 */
/*   WATCHED --its pidfd is readable--> closed, and its loss is owed --answered--> freed
 *      |
 *      +--- another process is in its place ---> closed ---> freed */
#define _GNU_SOURCE
#include "launch/agent/deaths.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/text.h"
#include "net/loopback_peer.h"
#include "process/socket_holder.h"

struct watched {
    struct mst_list link;
    struct mst_deaths *deaths;
    uv_poll_t poll;
    int pidfd;
    uint32_t index;
    uint64_t pid;
    bool closed; /* the handle */
    struct mst_delivery lost;
    enum mst_cause cause;
    int32_t code;
    char text[128];
};

/* ---- the report ---- */

static void on_arrived(struct mst_delivery *delivery, const struct mst_reply *reply)
{
    const struct watched *one = MST_CONTAINER(delivery, struct watched, lost);

    (void)reply;
    one->deaths->changed(one->deaths->ctx);
}

static muster_status send_lost(struct mst_delivery *delivery)
{
    const struct watched *one = MST_CONTAINER(delivery, struct watched, lost);
    const struct mst_request request = {.command = MST_LOST,
                                        .lost = {.index = one->index,
                                                 .pid = one->pid,
                                                 .cause = one->cause,
                                                 .code = one->code,
                                                 .text = mst_slice_text(one->text)}};

    return mst_lib_post(delivery->client, &request, UINT64_MAX, &delivery->post);
}

static void lock(const struct mst_deaths *deaths)
{
    if (deaths->client != NULL) {
        mst_lib_lock(deaths->client);
    }
}

static void unlock(const struct mst_deaths *deaths)
{
    if (deaths->client != NULL) {
        mst_lib_unlock(deaths->client);
    }
}

static void report(struct watched *one)
{
    lock(one->deaths);
    mst_deliver(&one->lost, one->deaths->client);
    unlock(one->deaths);
}

/* ---- the process ---- */

static void on_closed(uv_handle_t *handle)
{
    struct watched *one = handle->data;

    (void)close(one->pidfd);
    one->closed = true;
    if (one->deaths->closing) {
        free(one);
    } else {
        one->deaths->changed(one->deaths->ctx);
    }
}

static void stop_watching(struct watched *one)
{
    if (!uv_is_closing((uv_handle_t *)&one->poll)) {
        uv_close((uv_handle_t *)&one->poll, on_closed);
    }
}

static void on_end(uv_poll_t *poll, int status, int events)
{
    struct watched *one = poll->data;
    struct mst_deaths *deaths = one->deaths;
    char text[64 + HOST_NAME_MAX], line[sizeof text + 32];

    (void)status;
    (void)events;
    stop_watching(one);
    if (!mst_fronts_has(deaths->fronts, one->index)) {
        return; /* it has left */
    }
    report(one);
    (void)snprintf(text, sizeof text, "its process (pid %" PRIu64 " on %s) has died", one->pid,
                   deaths->host);
    (void)snprintf(line, sizeof line, "process %" PRIu32 ": %s", one->index, text);
    deaths->say(deaths->ctx, line);
    mst_fronts_dead(deaths->fronts, one->index, text);
}

static struct watched *watched_at(const struct mst_deaths *deaths, uint32_t index)
{
    MST_LIST_EACH(link, following, &deaths->list)
    {
        struct watched *one = MST_CONTAINER(link, struct watched, link);

        if (one->index == index && !uv_is_closing((const uv_handle_t *)&one->poll)) {
            return one;
        }
    }
    return NULL;
}

/* Takes `pidfd`. False: no memory. */
static bool watch(struct mst_deaths *deaths, uint32_t index, pid_t pid, int pidfd)
{
    struct watched *before = watched_at(deaths, index), *one = calloc(1, sizeof *one);

    if (one == NULL) {
        (void)close(pidfd);
        return false;
    }
    if (before != NULL) {
        stop_watching(before);
    }
    one->deaths = deaths;
    one->index = index;
    one->pid = (uint64_t)pid;
    one->pidfd = pidfd;
    one->cause = MST_CAUSE_GONE; /* how it ended is known to its parent alone */
    one->poll.data = one;
    one->lost = (struct mst_delivery){.send = send_lost, .arrived = on_arrived, .outlives = true};
    if (uv_poll_init(deaths->loop, &one->poll, pidfd) != 0) {
        (void)close(pidfd);
        free(one);
        return false;
    }
    mst_list_append(&deaths->list, &one->link);
    (void)uv_poll_start(&one->poll, UV_READABLE, on_end);
    return true;
}

static void say_unknown(struct mst_deaths *deaths, uint32_t index)
{
    char line[256];

    if (!deaths->unknown_said) {
        deaths->unknown_said = true;
        (void)snprintf(line, sizeof line,
                       "process %" PRIu32
                       " is in another PID namespace: its death is known 2 s after its connection "
                       "ends; in a pod, shareProcessNamespace: true makes that milliseconds",
                       index);
        deaths->say(deaths->ctx, line);
    }
}

bool mst_deaths_process(struct mst_deaths *deaths, uint32_t index, int connection,
                        uint64_t *pid_out, char *why, size_t room)
{
    struct mst_loopback_peer peer;
    pid_t pid;
    int pidfd;

    if (connection < 0 || !mst_loopback_peer(deaths->asks, connection, &peer)) {
        (void)snprintf(why, room, "process %" PRIu32 " has closed its connection", index);
        return false;
    }
    pid = mst_socket_holder(peer.inode);
    pidfd = pid != 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    if (pid == 0) {
        say_unknown(deaths, index);
    } else if (pidfd < 0 && errno == ESRCH) {
        (void)snprintf(why, room, "process %" PRIu32 " (pid %d) has just ended", index, (int)pid);
        return false;
    } else if (pidfd >= 0 && !watch(deaths, index, pid, pidfd)) {
        (void)snprintf(why, room, "no memory to watch process %" PRIu32, index);
        return false;
    }
    *pid_out = (uint64_t)pid;
    return true;
}

bool mst_deaths_unhealthy(struct mst_deaths *deaths, uint32_t index, int32_t code,
                          struct mst_slice text)
{
    struct watched *one = watched_at(deaths, index);

    if (one != NULL) {
        one->cause = MST_CAUSE_UNHEALTHY;
        one->code = code;
        (void)snprintf(one->text, sizeof one->text, "%.*s", MST_SLICE_ARGS(text));
        report(one);
    }
    return one != NULL;
}

/* ---- the session ---- */

void mst_deaths_session(struct mst_deaths *deaths, muster_client *client)
{
    deaths->client = client;
    lock(deaths);
    MST_LIST_EACH(link, following, &deaths->list)
    {
        struct watched *one = MST_CONTAINER(link, struct watched, link);

        if (client == NULL) {
            one->lost.post.open = false; /* of the closed client */
        } else if (one->lost.owed) {
            mst_deliver(&one->lost, client);
        }
    }
    unlock(deaths);
}

bool mst_deaths_owed(struct mst_deaths *deaths)
{
    bool any = false;

    lock(deaths);
    MST_LIST_EACH(link, following, &deaths->list)
    {
        struct watched *one = MST_CONTAINER(link, struct watched, link);

        any = any || one->lost.owed;
        if (one->closed && !one->lost.owed && !one->lost.post.open) {
            mst_list_remove(&one->link);
            free(one);
        }
    }
    unlock(deaths);
    return any;
}

/* ---- begin and end ---- */

void mst_deaths_open(struct mst_deaths *deaths)
{
    deaths->asks = mst_loopback_peer_open();
    mst_list_init(&deaths->list);
}

void mst_deaths_close(struct mst_deaths *deaths)
{
    deaths->closing = true;
    MST_LIST_EACH(link, following, &deaths->list)
    {
        struct watched *one = MST_CONTAINER(link, struct watched, link);

        mst_list_remove(&one->link);
        stop_watching(one);
        if (one->closed) {
            free(one);
        }
    }
    if (deaths->asks >= 0) {
        (void)close(deaths->asks);
    }
}
