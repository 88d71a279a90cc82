/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLIENT_SHELL_DRIVER_H
#define MST_CLIENT_SHELL_DRIVER_H

/* Carries out what the client machine wants on one socket. It blocks nowhere and has no lock: the
 * library calls it under its own, and polls what mst_driver_interest says without it. */

#include <poll.h>

#include "client/client.h"
#include "net/endpoint.h"
#include "net/tls.h"

struct mst_driver;

struct mst_driver_config {
    const struct mst_endpoints *endpoints;
    struct mst_client_config client; /* endpoint_count is set by the driver */
    struct mst_tls_context *tls;     /* what is spoken on TCP; NULL: plain. Outlives the driver */

    /* Called in the middle of a turn: they may make and drop calls of the machine, and no more. */
    void (*done)(void *ctx, const struct mst_client_effect *effect); /* a call ended */
    void (*attention)(void *ctx, uint64_t now_ns);
    void (*ended)(void *ctx, uint64_t now_ns, const struct mst_client_effect *effect);
    /* An attempt failed, or the connection was lost. The line names the endpoint and the reason.
     * EKEYREJECTED: the service is there and does not let this client in, or another user listens
     * there. */
    void (*trouble)(void *ctx, int os_errno, const char *line);
    void *ctx;
};

/* ENOMEM, EINVAL. */
muster_status mst_driver_new(struct mst_driver **out, const struct mst_driver_config *config,
                             const struct mst_mem *mem);
void mst_driver_free(struct mst_driver *driver); /* closes the connection */

struct mst_client *mst_driver_client(struct mst_driver *driver);

/* Somebody has accepted the connection; whether it is a service, it has not shown yet. */
bool mst_driver_connected(const struct mst_driver *driver);

/* The socket of such a connection; -1: there is none. */
int mst_driver_socket(const struct mst_driver *driver);

/* One of the endpoints at least is no Unix socket. */
bool mst_driver_speaks_tcp(const struct mst_driver *driver);

/* No request with more bytes than this can be sent: what the service said last. */
uint64_t mst_driver_frame_max(const struct mst_driver *driver);

/* Does all there is to do without waiting: ticks the machine if it is time, carries out its
 * effects, writes. After any input, and before each poll. */
void mst_driver_turn(struct mst_driver *driver, uint64_t now_ns);

/* What to poll; fd -1: nothing. `epoch` changes whenever this does. */
struct pollfd mst_driver_interest(const struct mst_driver *driver, uint64_t *epoch_out);

/* Poll found `revents`, and the epoch is still the same. */
void mst_driver_ready(struct mst_driver *driver, uint64_t now_ns, short revents);

/* In a forked child: closes the child's copy of the socket without a word on it. */
void mst_driver_abandon(struct mst_driver *driver);

/* The numbers of the socket and of what looks names up may be other files' by now: they are used no
 * more, nor closed. */
void mst_driver_disown(struct mst_driver *driver);

#endif
