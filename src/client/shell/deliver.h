/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLIENT_SHELL_DELIVER_H
#define MST_CLIENT_SHELL_DELIVER_H

/* One call that must arrive: while the service has no room for it, it is made again. The client's
 * lock is held in all of it, if there is a client. */

#include "client/shell/internal.h"

struct mst_delivery {
    /* Set by the caller. Posts it: mst_lib_post with the delivery's post, and returns its status.
     */
    muster_status (*send)(struct mst_delivery *delivery);
    /* It arrived, or never will: the service's answer, or why there will be none. May be NULL. */
    void (*arrived)(struct mst_delivery *delivery, const struct mst_reply *reply);
    /* One that a session ends without: it stays owed, and is not `arrived`. */
    bool outlives;

    muster_client *client;
    struct mst_lib_post post;
    struct mst_lib_timer timer;
    uint32_t refusals; /* in a row */
    bool owed;         /* it has not arrived yet */
    bool again;        /* it has changed since it was sent */
};

/* Sends it: again, if it is on its way. Client NULL: it is only owed from now on. */
void mst_deliver(struct mst_delivery *delivery, muster_client *client);

/* Not sent any more, and what is on its way is of no interest. It stays owed. */
void mst_deliver_stop(struct mst_delivery *delivery);

#endif
