/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLIENT_SHELL_DRIVER_TARGETS_H
#define MST_CLIENT_SHELL_DRIVER_TARGETS_H

/* The addresses at which a client looks for its service: those that it was given, and those that
 * the service names. Of each its lookup and its failures, which last when the list changes. */

#include "base/text.h"
#include "net/endpoint.h"
#include "net/lookup.h"

struct mst_targets_one {
    struct mst_address address;
    struct mst_lookup *lookup; /* in progress; of a name only */
    uint32_t failures;         /* of attempts: selects the next address of a name */
    bool given;                /* by the user: it stays in the list for ever */
};

/* The given addresses, the one in use, and of the named ones as many as fit. */
#define MST_TARGETS_MAX (2 * MST_ENDPOINTS_MAX)

struct mst_targets {
    struct mst_targets_one at[MST_TARGETS_MAX];
    uint32_t count;
};

/* The TCP addresses that the service may name: those that the user could have given. */
enum mst_targets_tcp {
    MST_TARGETS_NO_TCP = 0, /* there is a secret, but no TLS */
    MST_TARGETS_LOCAL_TCP,  /* neither secret nor --insecure */
    MST_TARGETS_ANY_TCP
};

void mst_targets_init(struct mst_targets *targets, const struct mst_endpoints *given);
void mst_targets_fini(struct mst_targets *targets);

/* The service, at target `used`, names its addresses: these come first, in this order, then `used`
 * and the given ones. Left out are addresses that `tcp` excludes, and a path that was named over
 * TCP: it is one of another host. False: nothing usable is named, or the list was the same. Else
 * was[i] is where target i was before, or MST_CLIENT_ENDPOINT_NEW. */
bool mst_targets_take(struct mst_targets *targets, struct mst_slice named, enum mst_targets_tcp tcp,
                      uint32_t used, uint32_t was[MST_TARGETS_MAX]);

/* The target with the first address of `named` that is in the list; `count`: none. */
uint32_t mst_targets_find(const struct mst_targets *targets, struct mst_slice named);

/* The addresses, with commas. */
void mst_targets_say(const struct mst_targets *targets, struct mst_text *text);

#endif
