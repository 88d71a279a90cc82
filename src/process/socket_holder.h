/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROCESS_SOCKET_HOLDER_H
#define MST_PROCESS_SOCKET_HOLDER_H

/* Which process has a socket. The kernel names a socket's user, not its process: that is found as
 * ss(8) does, by the descriptors of all processes. */

#include <stdint.h>
#include <sys/types.h>

/* The process with a descriptor of the socket: of several the oldest, which is the one that the
 * others were forked from. 0: none that may be looked at, as in another PID namespace. */
pid_t mst_socket_holder(uint64_t inode);

#endif
