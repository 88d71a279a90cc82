/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_OS_SYSTEM_H
#define MST_OS_SYSTEM_H

/* The few things a rank asks of the system. */

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/time.h"

uint64_t mst_system_now_ns(void); /* monotonic */

/* Random numbers, for a token and a seed: two processes never get the same. */
void mst_system_random(uint64_t *numbers, unsigned count);

/* malloc and free. */
extern const struct mst_mem mst_system_mem;

/* An event: a descriptor that poll finds readable after a ring, until it is quietened. -1: none. */
int mst_system_event(void);
void mst_system_event_ring(int fd);
void mst_system_event_quiet(int fd);

#endif
