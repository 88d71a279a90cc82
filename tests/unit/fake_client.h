/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FAKE_CLIENT_H
#define FAKE_CLIENT_H

/* A client without a service, for what posts requests and sets timers: the test answers what is
 * posted, and time passes as it says. Linked in place of the library. */

#include "client/shell/internal.h"

enum { FAKE_POSTS_MAX = 128 };

struct fake_client {
    uint64_t now_ns;
    muster_status refuses; /* each post */
    muster_status status;  /* of the session */
    /* What was posted, in that order; what a request borrows is gone. */
    struct mst_request requests[FAKE_POSTS_MAX];
    struct mst_lib_post *posts[FAKE_POSTS_MAX];
    unsigned count;
    unsigned drops; /* of posts that were open */
    struct mst_list timers;
};
extern struct fake_client fake;

muster_client *fake_client(void); /* begins anew */

void fake_reply(const struct mst_reply *reply); /* to what was posted last */
void fake_answer(muster_status status);
void fake_end(muster_status status); /* of the session: what is open is answered with it */
void fake_pass(uint64_t ns);

#endif
