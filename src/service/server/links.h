/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_SERVER_LINKS_H
#define MST_SERVICE_SERVER_LINKS_H

/* The connections between replicas (docs/replica-protocol.md), on a loop of their own: a service
 * whose commit waits runs that loop alone, and clients wait meanwhile. Nothing here blocks.
 *
 *   out: mst_uv_links_send, mst_uv_links_reach --dial--> TLS --> hello --\
 *                                                                        greeted: messages both
 * ways in:  the hub accepts, and reads FIRST_BYTE --mst_uv_links_take--> hello --/
 *
 * A connection carries messages in both directions, and one to a peer is enough, from either side.
 * So a leader that waits for its commit needs to accept nothing: it dials, and the answers come
 * back on the same connection. An attempt that failed is repeated after 10 ms, doubling to 1 s.
 *
 * A connection that has said no hello that fits within GREETING_MS is closed, and there are at most
 * STRANGERS_MAX of those that came in; the oldest gives way. A peer's host that vanishes is noticed
 * within 3 s.
 *
 * One thread: that of the hub. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/mem.h"
#include "net/secret.h"
#include "net/tls.h"
#include "service/replica/message.h"
#include "service/replica/server.h"
#include "service/server/log.h"

enum {
    MST_UV_LINKS_FIRST_BYTE = 'R', /* of the dialing side, in front of its hello */
    MST_UV_LINKS_GREETING_MS = 3000,
    MST_UV_LINKS_STRANGERS_MAX = 16,
    MST_UV_LINKS_TARGETS_MAX = 2 * MST_REPLICA_SERVERS_MAX, /* addresses that are dialed */
    MST_UV_LINKS_PEERS_MAX = 2 * MST_REPLICA_SERVERS_MAX,   /* connected at a time */
    MST_UV_LINKS_OUTPUT_MAX = 2 * MST_REPLICA_MESSAGE_MAX   /* that one peer has not read */
};

struct mst_uv_links;

/* A replica whose hello was accepted. */
struct mst_uv_links_peer {
    uint64_t id;
    char address[MST_REPLICA_ADDRESS_ROOM]; /* where its service listens, as its hello says */
    char host[MST_REPLICA_ADDRESS_ROOM]; /* of that; empty: one that only its own host understands,
                                            so it tells nothing about two replicas on one host */
    char version[64];                    /* of its program */
    bool member; /* when it said hello, it had the log of a group, or a vote */
};

struct mst_uv_links_config {
    uv_loop_t *loop; /* runs nothing else; outlives the links */
    struct mst_uv_log *log;
    const struct mst_mem *mem;       /* outlives the links */
    const struct mst_secret *secret; /* peers over TCP are dialed with TLS; NULL: in plain. Only for
                                        the call */

    /* This replica's hello; copied. */
    const char *run;
    const char *address; /* where the others reach it; one that it dials itself is left out */
    uint64_t id;
    uint32_t rules;      /* MST_CORE_RULES */
    const char *version; /* of the program */
    const bool *member;  /* whether it has the log of a group, or a vote, when it says hello; NULL:
                            it has not */

    /* Called from within a run of the loop, never from a call of this header. They may send, reach
     * and list, but not take or close. */
    void *ctx;
    /* `message` is no hello, and is borrowed for the call. */
    void (*received)(void *ctx, const struct mst_uv_links_peer *peer,
                     const struct mst_replica_message *message);
    /* A hello was accepted; not only the first of a peer. NULL: not called. */
    void (*connected)(void *ctx, const struct mst_uv_links_peer *peer);
    /* The last connection of a peer is no more. NULL: not called. */
    void (*lost)(void *ctx, const struct mst_uv_links_peer *peer);
};

/* EINVAL: the address or the secret makes no sense, or OpenSSL is missing; ENOMEM. `err` is one
 * line. */
muster_status mst_uv_links_open(struct mst_uv_links **out, const struct mst_uv_links_config *config,
                                struct muster_error *err);

/* Closes every connection, without a callback. What is left of the handles is closed by the next
 * runs of the loop (uv_run until it returns 0); then the links free themselves. NULL: no-op. */
void mst_uv_links_close(struct mst_uv_links *links);

/* Keeps a connection to each of these addresses (commas between them), although there is nothing to
 * send: a replica that wants to become a member shows itself. The list takes the place of the one
 * before; NULL: none. What is no address, or one too many, is left out with a log line. */
void mst_uv_links_reach(struct mst_uv_links *links, const char *addresses);

/* `bytes` are one whole message for the replica `peer`, which listens at `address`. Without a
 * connection they are kept for as long as the first attempt lasts that this begins; between two
 * attempts they are dropped, as are those for which there is no room, and those for a peer in whose
 * place another one answers. The consensus repeats what it needs. */
void mst_uv_links_send(struct mst_uv_links *links, uint64_t peer, const char *address,
                       struct mst_slice bytes);

/* A connection that the hub accepted and that began with FIRST_BYTE: `bytes` are what was read
 * behind it. The links own `fd` and `tls` (NULL: plain) from now on, whatever becomes of them. No
 * handle may watch `fd` any more. */
void mst_uv_links_take(struct mst_uv_links *links, int fd, struct mst_tls *tls,
                       struct mst_slice bytes);

/* The peers that are connected, each once, in the order in which they came. */
size_t mst_uv_links_peers(const struct mst_uv_links *links,
                          struct mst_uv_links_peer out[MST_UV_LINKS_PEERS_MAX]);
bool mst_uv_links_connected(const struct mst_uv_links *links, uint64_t peer);

#endif
