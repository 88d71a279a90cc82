/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_NET_LOOKUP_H
#define MST_NET_LOOKUP_H

/* Looks a host's name up on a thread of its own: a name server may take half a minute, and the
 * thread that drives the connection must not wait. Nothing is remembered: each attempt to connect
 * asks anew, for the name of a pod appears late and may move. */

#include "net/address.h"

struct mst_lookup;

/* NULL: errno. */
struct mst_lookup *mst_lookup_start(const struct mst_address *address);

/* Readable when there is an answer. */
int mst_lookup_fd(const struct mst_lookup *lookup);
bool mst_lookup_is_over(const struct mst_lookup *lookup);

/* The answer: NULL, and `address` has the `turn`-th of the addresses found, counted round; or why
 * there is none. Borrowed, and only when it is over. */
const char *mst_lookup_take(const struct mst_lookup *lookup, uint32_t turn,
                            struct mst_address *address);

/* Its descriptor may be another file's by now: it is used no more, nor closed. */
void mst_lookup_disown(struct mst_lookup *lookup);

/* A thread that is still at it ends by itself. NULL: no-op. */
void mst_lookup_drop(struct mst_lookup *lookup);

#endif
