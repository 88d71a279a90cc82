/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLIENT_SHELL_DELIVER_H
#define MST_CLIENT_SHELL_DELIVER_H

/* A request that must arrive: while the service has no room for it, it is sent again. The client's
 * lock is held in all functions, if there is a client. */

#include "client/shell/internal.h"

struct mst_delivery {
    /* Set by the caller: calls mst_lib_post with the delivery's post, and returns its status. */
    muster_status (*send)(struct mst_delivery *delivery);
    /* It arrived, or never will: the service's answer, or the reason for none. May be NULL. */
    void (*arrived)(struct mst_delivery *delivery, const struct mst_reply *reply);
    /* When the session ends before it arrives, it stays owed, and `arrived` is not called. */
    bool outlives;

    muster_client *client;
    struct mst_lib_post post;
    struct mst_lib_timer timer;
    uint32_t refusals; /* in a row */
    bool owed;         /* it has not arrived yet */
    bool again;        /* it changed since it was sent */
};

/* Sends it: once more, if it is in flight. Client NULL: it is only owed from now on. */
void mst_deliver(struct mst_delivery *delivery, muster_client *client);

/* Stops sending, and discards the answer to what is in flight. It stays owed. */
void mst_deliver_stop(struct mst_delivery *delivery);

#endif
