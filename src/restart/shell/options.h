/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_RESTART_SHELL_OPTIONS_H
#define MST_RESTART_SHELL_OPTIONS_H

/* What one muster_restart_run was given: the options, else the environment, else the defaults, all
 * validated before anything is started. */

#include "muster/restart.h"
#include "restart/restart.h"

enum mst_step_kind {
    MST_STEP_PRECONDITION,
    MST_STEP_INITIALIZE,
    MST_STEP_HEALTH_CHECK,
    MST_STEP_ABORT,
    MST_STEP_FINALIZE,
    MST_STEP_COMPLETION,
    MST_STEP_TERMINATE,
    MST_STEP_WAIT_CHECK,
    MST_STEP_KINDS
};

/* "health_check": the name of the option. */
const char *mst_step_name(enum mst_step_kind kind);

struct mst_run_settings {
    struct mst_restart_config config; /* label: borrowed from `label` */
    int signal;                       /* 0: none */
    bool keep_handler;
    bool disabled, keep_environment;
    bool replace_if_fixed;              /* config.replace_ms: only where min_size is the size */
    bool from_start;                    /* the clock of no progress begins with the function */
    int64_t soft_ms, hard_ms, grace_ms; /* -1: never */
    struct {
        struct muster_restart_hook *list;
        size_t count;
    } steps[MST_STEP_KINDS];
    struct muster_assignment_step *assignment;
    size_t assignment_count;
    struct muster_assignment_layer *layers; /* the memory of all of them */
    char *label;
    char *health_command, *health_folder; /* NULL: none */
    int64_t health_timeout_ms;
};

/* On failure nothing is owned by `out`: EINVAL with the rule that was broken, ENOMEM. */
muster_status mst_run_settings_read(struct mst_run_settings *out,
                                    const struct muster_restart_options *options,
                                    struct muster_error *err);
void mst_run_settings_free(struct mst_run_settings *settings);

#endif
