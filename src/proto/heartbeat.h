/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_HEARTBEAT_H
#define MST_PROTO_HEARTBEAT_H

/* The collective heartbeat's rounds, one after the other in each generation. Number 0 agrees on the
 * token and waits for all ranks; each later one is a period. A period has failed unless its round
 * is OK and lost only members that left. */
#define MST_HEARTBEAT_ROUND "muster/heartbeat"

#endif
