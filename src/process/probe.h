/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROCESS_PROBE_H
#define MST_PROCESS_PROBE_H

/* What of the kernel's help works here: each is tried, because a version number says little inside
 * containers. A process without other threads may ask, as it forks. */

#include <stdbool.h>
#include <stdint.h>

struct mst_probe {
    bool waitv;         /* futex_waitv: one thread watches many ranks */
    bool pidfd;         /* pidfd_open and its end as an event */
    bool notice;        /* the robust mutex: a killed process is known before its memory is gone */
    uint64_t notice_ns; /* how long that took, from the kill */
    bool short_slice;   /* a thread may ask for a short time slice */
};

void mst_probe(struct mst_probe *out);

#endif
