/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLIENT_SHELL_ITEMS_H
#define MST_CLIENT_SHELL_ITEMS_H

/* The lists of replies, kept, and as the public API shows them. */

#include "client/shell/handle.h"
#include "muster/member.h"
#include "view/items.h"

/* Requests page after page of one listing, blocking; `request` is MEMBERS, ROUNDS, JOBS, HOSTS,
 * FAULTS or HISTORY. The pages together are what was asked for. On failure nothing is left in
 * *items. */
muster_status mst_lib_items_collect(muster_client *client, struct mst_request *request,
                                    int64_t timeout_ms, struct mst_items *items,
                                    struct muster_error *err, const char *what);

/* The same as a call of the public API: into `items` of the call, and `make` at the end. LIST and
 * ROUND_MEMBERS keep prefix and name as `kept`. */
struct mst_call;
struct mst_lib_how;
muster_status mst_lib_items_make(struct mst_call *call, const struct mst_lib_how *how);

/* A `make`: the members of the pages, as muster_members. */
muster_status mst_lib_members_make(struct mst_call *call);

/* As the public API shows it; borrows from the item. */
struct muster_member mst_lib_member_of(const struct mst_item *item);

/* The members that a reply's detail names. NULL: no memory. */
muster_members *mst_lib_members_named(const struct mst_detail *detail);

#endif
