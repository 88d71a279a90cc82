/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLIENT_SHELL_DRIVER_DRIVER_H
#define MST_CLIENT_SHELL_DRIVER_DRIVER_H

/* Carries out the effects of the client machine on one socket. It never blocks and has no lock: the
 * library calls it under its own, and polls what mst_driver_interest returns without it. */

#include <poll.h>

#include "base/text.h"
#include "client/client.h"
#include "client/shell/driver/targets.h"
#include "net/endpoint.h"
#include "net/tls.h"

struct mst_driver;

struct mst_driver_config {
    struct mst_endpoints endpoints;
    struct mst_client_config client; /* endpoint_count is set by the driver */
    struct mst_tls_context *tls;     /* for TCP; NULL: plain. Outlives the driver */
    enum mst_targets_tcp tcp;        /* what the service may name */

    /* Called in the middle of a turn: they may make and drop calls of the machine, and no more. */
    void (*done)(void *ctx, const struct mst_client_effect *effect); /* a call ended */
    void (*attention)(void *ctx, uint64_t now_ns);
    void (*ended)(void *ctx, uint64_t now_ns, const struct mst_client_effect *effect);
    /* An attempt failed, or the connection was lost. The line names the endpoint and the reason.
     * EKEYREJECTED: the service is there and does not let this client in, or another user listens
     * there. */
    void (*trouble)(void *ctx, int os_errno, const char *line);
    /* The service has named other addresses than before; the line has all. May be NULL. */
    void (*targets)(void *ctx, const char *line);
    void *ctx;
};

/* ENOMEM, EINVAL. */
muster_status mst_driver_new(struct mst_driver **out, const struct mst_driver_config *config,
                             const struct mst_mem *mem);
void mst_driver_free(struct mst_driver *driver); /* closes the connection */

struct mst_client *mst_driver_client(struct mst_driver *driver);

/* The socket, once the connection was accepted, by a service or not; -1: none. */
int mst_driver_socket(const struct mst_driver *driver);

/* What the current attempt to connect waits for; nothing between two attempts. */
void mst_driver_say_awaited(const struct mst_driver *driver, struct mst_text *text);

/* At least one of the endpoints is no Unix socket. */
bool mst_driver_speaks_tcp(const struct mst_driver *driver);

/* The largest message that the service accepts, as it said last. */
uint64_t mst_driver_frame_max(const struct mst_driver *driver);

/* Does all that needs no waiting: ticks the machine if it is due, carries out its effects, writes.
 * After any input, and before each poll. */
void mst_driver_turn(struct mst_driver *driver, uint64_t now_ns);

/* When the next turn is due without an input; UINT64_MAX: never. */
uint64_t mst_driver_deadline_ns(const struct mst_driver *driver);

/* What to poll; fd -1: nothing. `epoch` changes whenever this does. */
struct pollfd mst_driver_interest(const struct mst_driver *driver, uint64_t *epoch_out);

/* Poll found `revents`, and the epoch is still the same. */
void mst_driver_ready(struct mst_driver *driver, uint64_t now_ns, short revents);

/* In a forked child: closes the child's copy of the socket and sends nothing. */
void mst_driver_abandon(struct mst_driver *driver);

/* The descriptors of the socket and the lookups may be other files by now: they are not used any
 * more, nor closed. */
void mst_driver_disown(struct mst_driver *driver);

#endif
