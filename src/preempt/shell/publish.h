/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PREEMPT_SHELL_PUBLISH_H
#define MST_PREEMPT_SHELL_PUBLISH_H

/* The machine that gives a notice or takes it back, in a client: the driving thread carries it on.
 * For the library, the agent and the command. */

#include "base/text.h"
#include "client/shell/host.h"
#include "client/shell/internal.h"
#include "preempt/publish.h"

struct mst_lib_publish {
    struct mst_machine_host host; /* of struct mst_publish; machine NULL: none is going on */
    muster_client *client;
    struct mst_lib_post asking;
    const char *what; /* is attempted: for the text */
    bool asks;        /* first whether a rank listens: */
    bool unheard;     /* none does, as far as the service knows; only of a notice */
    bool over;
    uint32_t written;          /* once it is over: notices written or taken back */
    struct muster_error error; /* its status is what it came to */
    /* Once, when it is over; the memory is the caller's again, after mst_lib_publish_end. May be
     * NULL. */
    void (*finished)(void *ctx);
    void *ctx;
};

/* Lock held. `publish` has client, what, asks, finished and ctx. `given_ns`: when the notice was
 * given, on mst_lib_now_ns. ENOMEM, EINVAL: it was not begun. */
muster_status mst_lib_publish_begin(struct mst_lib_publish *publish, uint64_t given_ns,
                                    const struct mst_publish_config *config);
/* Lock held. What is left of it is of no interest any more. Nothing begun: a no-op. */
void mst_lib_publish_end(struct mst_lib_publish *publish);

/* The warning for a notice that is unheard: it will cause no save. With the job's name. */
#define MST_LIB_UNHEARD                                                                            \
    "no rank of job '%s' listens for notices yet (muster_preempt_open): until one does, nothing "  \
    "is saved"
const char *mst_lib_publish_job(const muster_client *client);

/* Like mst_lib_enter, for a call that blocks: EDEADLK where this thread may not wait. */
muster_status mst_preempt_enter(muster_client *client, struct muster_error *err, const char *what);

#endif
