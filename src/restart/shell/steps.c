/* SPDX-License-Identifier: Apache-2.0 */
/* Callbacks, in the order in which they were listed; the first that fails ends the series. */
#define _GNU_SOURCE
#include "proto/status.h"
#include "restart/shell/restart.h"

/* "finalize failed: callback 2 of 3 returned MUSTER_EFAILED (-17)", or what it has said itself. */
static void describe(struct mst_run_trouble *trouble, enum mst_step_kind kind, size_t at,
                     size_t count, const struct mst_run_trouble *said)
{
    struct mst_text text = mst_text_in(trouble->text, sizeof(trouble->text));

    mst_text_format(&text, "%s failed: ", mst_step_name(kind));
    if (count > 1) {
        mst_text_format(&text, "callback %zu of %zu%s ", at + 1, count,
                        said->status != MUSTER_OK ? ":" : "");
    } else if (said->status == MUSTER_OK) {
        mst_text_add(&text, "callback ");
    }
    if (said->status != MUSTER_OK) {
        mst_text_add(&text, said->text);
    } else {
        mst_text_format(&text, "returned %s (%d)", mst_status_name(trouble->code), trouble->code);
    }
}

/* One callback. False: it failed, and `trouble` says so. */
static bool step(struct muster_restart *restart, enum mst_step_kind kind, size_t at,
                 struct mst_run_trouble *trouble)
{
    const struct muster_restart_hook *hook = &restart->settings.steps[kind].list[at];
    bool says = kind != MST_STEP_ABORT && !restart->attempt;
    struct mst_run_trouble said = {0};
    muster_status status;

    if (says) {
        restart->saying = &said;
    }
    status = hook->call(restart, hook->arg);
    if (says) {
        restart->saying = NULL;
    }
    if (status == MUSTER_OK) {
        return true;
    }
    trouble->status = status < 0 ? status : MUSTER_EFAILED; /* a run ends with an error */
    trouble->code = status;
    describe(trouble, kind, at, restart->settings.steps[kind].count, &said);
    if (said.status != MUSTER_OK) {
        trouble->code = said.code;
    }
    return false;
}

bool mst_run_leaves(const struct muster_restart *restart)
{
    return restart->attempt && restart->left;
}

bool mst_run_steps(struct muster_restart *restart, enum mst_step_kind kind,
                   struct mst_run_trouble *trouble)
{
    bool good = true;

    for (size_t i = 0; good && i < restart->settings.steps[kind].count; i++) {
        good = mst_run_leaves(restart) || step(restart, kind, i, trouble);
    }
    return good;
}

bool mst_run_healthy(struct muster_restart *restart, struct mst_run_trouble *trouble)
{
    const struct mst_run_settings *settings = &restart->settings;

    if (mst_run_leaves(restart)) {
        return true;
    }
    trouble->status = MUSTER_EUNHEALTHY;
    if (settings->health_command &&
        !mst_health_command(settings->health_command, settings->health_timeout_ms, trouble)) {
        return false;
    }
    if (settings->health_folder && !mst_health_folder(settings->health_folder, trouble)) {
        return false;
    }
    return mst_run_steps(restart, MST_STEP_HEALTH_CHECK, trouble);
}

void mst_run_steps_logged(struct muster_restart *restart, enum mst_step_kind kind)
{
    for (size_t i = 0; i < restart->settings.steps[kind].count; i++) {
        struct mst_run_trouble trouble;

        if (!step(restart, kind, i, &trouble)) {
            mst_lib_lock(restart->client);
            mst_lib_log(restart->client, MUSTER_LEVEL_WARN, "%s", trouble.text);
            mst_lib_unlock(restart->client);
        }
    }
}
