/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_TASKS_SHELL_LINK_H
#define MST_TASKS_SHELL_LINK_H

/* One connection of a cluster: a socket, TLS where it crosses the network, and the codec. Both ends
 * use it, and a worker for its children as well. It never blocks and has no lock.
 *
 *   connecting --each address in turn--> shaking hands --> up --> dead
 *        |                                   |                     ^
 *        +-----------------------------------+---------------------+
 *
 *   mst_cluster_link_enrol(link, epoll, key);
 *   ... epoll says `events` for `key`:
 *   do {
 *       status = mst_cluster_link_ready(link, events, room, &again);
 *       while (status == OK && mst_cluster_link_up(link) &&
 *              (status = mst_cluster_link_next(link, &message)) == OK) { ... }
 *   } while (status == MORE && again), or dead if status < 0
 *   mst_cluster_link_send(link, ...) as often as there is something to send, then once
 *   mst_cluster_link_flush(link)
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"
#include "net/channel.h"
#include "net/tls.h"
#include "proto/cluster.h"

struct mst_cluster_link;

#define MST_CLUSTER_LINK_ROOM MST_CHANNEL_ROOM /* of the room that ready needs */

/* Begins to connect to the first of `addresses` that answers: "unix:PATH,HOST:PORT,..." with
 * numbers for hosts; what follows a blank is for people. `tls` (a context of MST_TLS_CLIENT) is
 * spoken on TCP; NULL: plain. It outlives the link. EINVAL: these are no addresses; EUNREACHABLE:
 * none of them could be tried; ENOMEM. `err` says why. */
muster_status mst_cluster_link_connect(struct mst_cluster_link **out, struct mst_slice addresses,
                                       struct mst_tls_context *tls, const struct mst_mem *mem,
                                       struct muster_error *err);

/* A socket that is connected already, non-blocking from now on: one that was accepted, or an end of
 * a pair. It is the link's, also when this fails. `tls`: of MST_TLS_SERVICE, or NULL. ENOMEM. */
muster_status mst_cluster_link_adopt(struct mst_cluster_link **out, int fd,
                                     struct mst_tls_context *tls, const struct mst_mem *mem);

void mst_cluster_link_free(struct mst_cluster_link *link); /* hangs up; NULL: a no-op */
/* Its descriptors may be other files' by now: it is dead, and neither uses nor closes them. NULL: a
 * no-op. */
void mst_cluster_link_disown(struct mst_cluster_link *link);

/* From now on epoll reports it, with `key` as data.u64. The link itself keeps the socket and the
 * events up to date. errno; 0: well. */
int mst_cluster_link_enrol(struct mst_cluster_link *link, int epoll, uint64_t key);

/* The socket; -1: it is dead. For poll, `events` are those to wait for, as epoll counts them. */
int mst_cluster_link_fd(const struct mst_cluster_link *link, uint32_t *events_out);

/* Goes on with what epoll found: connects, shakes hands, takes bytes in and writes. `room`:
 * MST_CLUSTER_LINK_ROOM bytes, shared, not needed afterwards. `*again`: there may be more, call
 * again once the messages are taken out. EUNREACHABLE, EPROTO, ENOMEM: it is dead, see reason; the
 * messages before the end can still be taken out. */
muster_status mst_cluster_link_ready(struct mst_cluster_link *link, uint32_t events, void *room,
                                     bool *again_out);

/* For a thread with this link alone: polls it, at most so long (-1: any time), and then is ready
 * with what poll found. */
muster_status mst_cluster_link_await(struct mst_cluster_link *link, int timeout_ms, void *room,
                                     bool *again_out);

/* From now on a message, in both directions, may be so large; 0: as large as any may be, which is
 * so from the beginning. */
void mst_cluster_link_limit(struct mst_cluster_link *link, size_t message_bytes_max);

/* All that came, in bytes of messages. */
uint64_t mst_cluster_link_received(const struct mst_cluster_link *link);

/* Connected, and the peer has shown that it knows the secret. */
bool mst_cluster_link_up(const struct mst_cluster_link *link);

/* As the codec: OK (borrowed until the next call), MORE; EPROTO, ENOMEM: it is dead. */
muster_status mst_cluster_link_next(struct mst_cluster_link *link, struct mst_cluster_message *out);

/* Encodes; nothing is written yet. ELIMIT: the message is larger than one may be, whatever the
 * output holds; ENOMEM. Unless OK nothing was encoded. A dead link takes everything and returns OK:
 * ready alone reports that it is dead, once. */
muster_status mst_cluster_link_send(struct mst_cluster_link *link,
                                    const struct mst_cluster_message *message);

/* Writes what can be written now; the rest goes as epoll allows. ready reports a write
 * that fails, and epoll then calls for it. */
void mst_cluster_link_flush(struct mst_cluster_link *link);

/* Not yet given to the socket. */
size_t mst_cluster_link_pending(const struct mst_cluster_link *link);

/* Its name, for people: "10.0.0.7:4242", "process 4711", or the address that is tried. */
const char *mst_cluster_link_peer(const struct mst_cluster_link *link);

/* Why it is dead: one line without its peer. Never NULL. */
const char *mst_cluster_link_reason(const struct mst_cluster_link *link);

#endif
