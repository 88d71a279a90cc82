/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_HEARTBEAT_H
#define MST_PROTO_HEARTBEAT_H

/* The collective heartbeat's rounds, one after the other in each generation. Number 0 agrees on the
 * token and waits for everybody; each later one is a period. A period has failed for its members
 * unless the round is OK and nobody of it was lost but those who left. */
#define MST_HEARTBEAT_ROUND "muster/heartbeat"

#endif
