/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLIENT_SHELL_OPTIONS_H
#define MST_CLIENT_SHELL_OPTIONS_H

#include "client/shell/handle.h"
#include "client/shell/sidecar/serve.h"
#include "client/shell/where.h"
#include "net/endpoint.h"

/* What a process that opens a client asks for: its options, else the environment, else the
 * variables of its launcher. */
struct mst_lib_wanted {
    struct muster_client_options options; /* `job` NULL: alone, a name is made up */
    struct mst_open open;
    struct mst_endpoints endpoints; /* none: alone or share */
    struct mst_lib_secret secret;
    struct mst_lib_where where;
    int64_t page_fd;
    bool alone;  /* a service for this process */
    bool other;  /* for another process: does not wait */
    bool looped; /* without a thread of its own: mst_lib_other */
    bool share;  /* one for the ranks of this machine */
    bool index_set;
    char own_job[MST_LIB_ALONE_JOB_ROOM], own_addr[MST_LIB_ADDR_ROOM]; /* of such a service */
};

muster_status mst_lib_wanted_read(struct mst_lib_wanted *wanted,
                                  const struct muster_client_options *given,
                                  struct muster_error *err);

/* The addresses are those of options.addr. */
muster_status mst_lib_wanted_endpoints(struct mst_lib_wanted *wanted, struct muster_error *err);

#endif
