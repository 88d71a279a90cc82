/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLUSTER_FAKE_H
#define CLUSTER_FAKE_H

/* A coordinator with a service behind it, and a worker that is the test itself: it speaks the codec
 * on a real connection, so that it can lie. */

#include "library_stage.h"
#include "tasks/shell/coordinator/cluster.h"
#include "tasks/shell/link.h"

struct fake_worker {
    muster_client *client; /* a member of role WORKER */
    struct mst_cluster_link *link;
    struct mst_cluster_message message; /* the last one; borrowed from the link */
    uint64_t series;                    /* of the last RUN */
    unsigned char room[MST_CLUSTER_LINK_ROOM];
};

/* The worker's TLS, if it has any, is made from the same secret as the coordinator's. */
void fake_connect_tcp(struct fake_worker *worker, const muster_cluster *cluster,
                      struct mst_tls_context *tls);

/* A member of the coordinator's job. */
struct fake_worker *fake_join(const muster_cluster *cluster);

/* Connects; then says HELLO with one function, "echo" version 1, and takes WELCOME. */
void fake_connect(struct fake_worker *worker, const muster_cluster *cluster);
void fake_hello(struct fake_worker *worker, const muster_cluster *cluster, uint32_t slots);
struct fake_worker *fake_worker(const muster_cluster *cluster, uint32_t slots);

void fake_send(struct fake_worker *worker, const struct mst_cluster_message *message);

/* The next message; NULL: the coordinator has hung up. */
const struct mst_cluster_message *fake_next(struct fake_worker *worker);

/* The next one, which must be of this type. */
const struct mst_cluster_message *fake_expect(struct fake_worker *worker,
                                              enum mst_cluster_message_type type);

/* It must hang up; what comes before that is passed over. */
void fake_expect_end(struct fake_worker *worker);

/* The result of `attempt`: its own arguments, or a failure. */
void fake_answer(struct fake_worker *worker, struct mst_attempt attempt, const char *text);
void fake_fail(struct fake_worker *worker, struct mst_attempt attempt,
               const struct mst_failure *failure);
void fake_leave(struct fake_worker *worker);

#endif
