/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PREEMPT_SHELL_OPTIONS_H
#define MST_PREEMPT_SHELL_OPTIONS_H

/* What a handle of preemption was given: the options, else the environment, else the defaults. */

#include "base/slice.h"
#include "muster/preempt.h"
#include "preempt/preempt.h"

struct mst_preempt_settings {
    struct muster_preempt_options options; /* as given */
    struct mst_preempt_config config;
    int64_t grace_ms;
    uint64_t signals; /* bit s - 1: signal s */
    /* What others do for this process: MUSTER_PREEMPT_SOURCES; NULL: not set. Borrowed. */
    const char *elsewhere;
};

muster_status mst_preempt_settings_read(struct mst_preempt_settings *out,
                                        const struct muster_preempt_options *given,
                                        struct muster_error *err);

/* The names alone of a list such as "signals,file=/x,slurm", one after the other. False: no more.
 */
bool mst_preempt_source_next(const char **list, struct mst_slice *name);

#endif
