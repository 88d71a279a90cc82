/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_ADDRESSES_H
#define SIM_ADDRESSES_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/reply.h"

struct sim;
struct sim_conn;
struct sim_proc;

/* What a client was told of addresses, and what it made of that. Address 0 is the service's. */
struct sim_addresses {
    bool swapped; /* its endpoint 0 is address 1 */
    bool began;   /* it has tried one */
    bool sent;    /* it was sent on to `to`, and has not connected since */
    uint32_t at, to;
    uint32_t tried; /* a bit for each address: since it last waited */
    uint64_t sent_ns;
};

/* The connection leads to the process that does not serve. False: it hangs up. */
bool sim_addresses_serve(struct sim *sim, struct sim_conn *conn);

/* The reply as the service's shell sends it. */
struct mst_reply sim_addresses_name(struct sim *sim, const struct mst_reply *reply);

/* The address of a client's endpoint, and the endpoint of an address. */
uint32_t sim_addresses_at(const struct sim_proc *proc, uint32_t endpoint);

void sim_addresses_connects(struct sim *sim, struct sim_proc *proc, uint32_t address);

/* True: the reply sent the client on, and was for that only. */
bool sim_addresses_told(struct sim *sim, struct sim_proc *proc, const struct mst_reply *reply);

#endif
