/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHARLM_ADDRESS_H
#define CHARLM_ADDRESS_H

/* Where the neighbours of a rank are. */

#include <netinet/in.h>

#include <muster/muster.h>

struct address {
    struct sockaddr_in socket;
    uint32_t index; /* of the member that listens there */
};

/* Listens, and learns of all ranks where they listen: a round of this generation, so no address of
 * an older one can come out. EFAILED: reported; or the status of the round. The caller closes the
 * listener, which is -1 after a failure. */
muster_status address_exchange(muster_client *client, muster_restart *restart, int *listener,
                               struct address *next, struct address *previous,
                               struct muster_error *err);

#endif
