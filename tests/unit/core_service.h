/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_SERVICE_H
#define CORE_SERVICE_H

/* The real service for tests of the machines that are its clients: a core whose leases do not end,
 * and its clients, without connections that break. */

#include "base/mem.h"
#include "service/core/core.h"

enum { CORE_CLIENTS_MAX = 16 };

struct core_client {
    struct mst_conn conn;
    struct mst_open open;
    uint64_t id; /* of its last request */
};

struct core_service {
    struct mst_core *core;
    uint64_t now_ns;
    struct core_client clients[CORE_CLIENTS_MAX];
    uint32_t client_count;
    /* A reply to this client, borrowed. Not to a request of core_service_ask. */
    void (*replied)(void *ctx, uint32_t client, const struct mst_reply *reply);
    void *ctx;
    uint64_t asked; /* core_service_ask waits for this one... */
    uint32_t asked_by;
    struct mst_reply *answer; /* ...and this came */
};

void core_service_init(struct core_service *service, uint64_t now_ns);
void core_service_fini(struct core_service *service);

/* A session; `open` needs its role, and what that needs. Its number. */
uint32_t core_service_open(struct core_service *service, const struct mst_open *open);

/* Its id. What follows is told to `replied`, also before it returns. */
uint64_t core_service_send(struct core_service *service, uint32_t client,
                           const struct mst_request *request);

/* The answer, which comes at once; stays until the next is asked. NULL: none yet, and it is
 * cancelled. */
const struct mst_reply *core_service_ask(struct core_service *service, uint32_t client,
                                         const struct mst_request *request);

uint64_t core_service_deadline_ns(const struct core_service *service);
void core_service_tick(struct core_service *service, uint64_t now_ns);

/* One piece of memory. */
struct mst_reply *core_reply_copy(const struct mst_reply *reply);

#endif
