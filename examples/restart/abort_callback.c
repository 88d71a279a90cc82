/* SPDX-License-Identifier: Apache-2.0 */
/* An abort callback frees a library that ignores EINTR.
 *
 * Many communication libraries repeat a call that a signal has interrupted. Here `receive` is such
 * a library: it waits for a peer that never sends. When rank 0 fails, the abort callback of the
 * others runs on a thread of its own and shuts the socket down, which ends the call.
 *
 *   muster run -n 3 -- restart_abort_callback */
#define _GNU_SOURCE
#include <errno.h>
#include <muster/muster.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

struct peer {
    muster_client *client;
    int ends[2];
};

/* Returns what recv does, never because of a signal. */
static ssize_t receive(int fd, char *byte)
{
    ssize_t got;

    do {
        got = recv(fd, byte, 1, 0);
    } while (got < 0 && errno == EINTR);
    return got;
}

static muster_status hang_up(muster_restart *restart, void *arg)
{
    struct peer *peer = arg;

    (void)restart;
    (void)shutdown(peer->ends[0], SHUT_RDWR);
    return MUSTER_OK;
}

static muster_status connect_peer(muster_restart *restart, void *arg)
{
    struct peer *peer = arg;

    (void)restart;
    return socketpair(AF_UNIX, SOCK_STREAM, 0, peer->ends) == 0 ? MUSTER_OK : MUSTER_EFAILED;
}

static muster_status disconnect_peer(muster_restart *restart, void *arg)
{
    struct peer *peer = arg;

    (void)restart;
    (void)close(peer->ends[0]);
    (void)close(peer->ends[1]);
    return MUSTER_OK;
}

static muster_status work(muster_restart *restart, void *arg)
{
    struct peer *peer = arg;
    struct muster_view me;
    muster_status status;
    char byte;

    muster_restart_view(restart, &me);
    if (me.iteration > 0) {
        printf("rank %u is out of it, in attempt %d\n", me.rank, (int)me.iteration);
        return MUSTER_OK;
    }
    if (me.rank != 0) {
        printf("rank %u waits for a peer that never sends\n", me.rank);
    }
    status = muster_barrier_wait(peer->client, "all-are-here", -1, NULL);
    if (status != MUSTER_OK) {
        return status;
    }
    if (me.rank == 0) {
        return muster_restart_fail(restart, 7, "rank 0 fails while the others wait");
    }
    (void)receive(peer->ends[0], &byte);
    status = muster_restart_check(restart);
    return status != MUSTER_OK ? status : MUSTER_EFAILED;
}

int main(void)
{
    struct peer peer = {0};
    struct muster_restart_hook initialize = {connect_peer, &peer};
    struct muster_restart_hook abort = {hang_up, &peer};
    struct muster_restart_hook finalize = {disconnect_peer, &peer};
    struct muster_restart_options options = MUSTER_RESTART_OPTIONS_INIT;
    struct muster_error err = {0};
    muster_status status = muster_client_open(&peer.client, NULL, -1, &err);

    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* print each line at once */
    options.initialize = (struct muster_restart_hooks){&initialize, 1};
    options.abort = (struct muster_restart_hooks){&abort, 1};
    options.finalize = (struct muster_restart_hooks){&finalize, 1};
    if (status == MUSTER_OK) {
        status = muster_restart_run(peer.client, &options, work, &peer, &err);
    }
    if (status != MUSTER_OK) {
        (void)fprintf(stderr, "abort_callback: %s\n", err.text);
    }
    muster_client_close(peer.client);
    return muster_exit_code(status);
}
