/* SPDX-License-Identifier: Apache-2.0 */
#include "preempt/shell/preempt.h"

#include <string.h>

#include "client/shell/environment.h"

static muster_status read_leave(struct mst_preempt_settings *out, struct muster_error *err)
{
    int64_t choice = (int64_t)out->options.leave - 1;
    muster_status status = MUSTER_OK;

    if (out->options.leave == MUSTER_PREEMPT_LEAVE_DEFAULT) {
        status = mst_lib_setting("preempt_leave", &choice, NULL, err);
    } else if (choice < 0 || choice > 1) {
        return mst_lib_refuse(err, "preempt", "options.leave is none of enum muster_preempt_leave");
    }
    out->config.leave_all = choice == 0;
    return status;
}

bool mst_preempt_source_next(const char **list, struct mst_slice *name)
{
    const char *at = *list;
    size_t size;

    if (!at || *at == '\0') {
        return false;
    }
    size = strcspn(at, ",");
    *name = mst_slice_of(at, strcspn(at, ",="));
    *list = at[size] == ',' ? at + size + 1 : at + size;
    return true;
}

static bool takes_signals(const char *list)
{
    struct mst_slice name;

    while (mst_preempt_source_next(&list, &name)) {
        if (mst_slice_equal(name, mst_slice_text("signals"))) {
            return true;
        }
    }
    return false;
}

static muster_status read_signals(struct mst_preempt_settings *out, struct muster_error *err)
{
    const char *signals = out->options.signals;

    if (!signals && out->elsewhere && !takes_signals(out->elsewhere)) {
        signals = "";
    }
    if (!signals) {
        signals = mst_lib_setting_text("preempt_signals");
    }
    return mst_signals_read(&out->signals, signals ? signals : "TERM", err);
}

muster_status mst_preempt_settings_read(struct mst_preempt_settings *out,
                                        const struct muster_preempt_options *given,
                                        struct muster_error *err)
{
    const struct muster_preempt_options standard = MUSTER_PREEMPT_OPTIONS_INIT;
    muster_status status;

    *out = (struct mst_preempt_settings){.options = standard};
    status = mst_lib_options(&out->options, sizeof(out->options), given,
                             "MUSTER_PREEMPT_OPTIONS_INIT", err, "preempt");
    if (status == MUSTER_OK) {
        status = mst_preempt_sources_check(out->options.sources, out->options.source_count, err);
    }
    if (status == MUSTER_OK) {
        struct mst_option numbers[] = {
            MST_OPTION("preempt_window", out->options.window_ms, &out->config.window_ms, 0),
            MST_OPTION("preempt_agree_timeout", out->options.agree_timeout_ms,
                       &out->config.agree_timeout_ms, 0),
            MST_OPTION("preempt_grace", out->options.grace_ms, &out->grace_ms, 0),
        };

        status = mst_lib_numbers(numbers, sizeof(numbers) / sizeof(numbers[0]), err);
    }
    if (status == MUSTER_OK) {
        status = read_leave(out, err);
    }
    out->elsewhere = mst_lib_setting_text("preempt_sources");
    return status == MUSTER_OK ? read_signals(out, err) : status;
}
