/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/shell/coordinator/options.h"

#include <stdlib.h>
#include <string.h>

#include "client/shell/environment.h"
#include "client/shell/handle.h"
#include "proto/cluster_status.h"

static muster_status read_number(const char *name, int64_t given, int64_t *out,
                                 struct muster_error *err)
{
    *out = given;
    return given != 0 ? mst_lib_setting_check(name, given, err)
                      : mst_lib_setting(name, out, NULL, err);
}

static muster_status read_text(const char *name, const char *given, const char *standard, char *out,
                               size_t room, struct muster_error *err)
{
    const char *text = given && *given ? given : mst_lib_setting_text(name);
    size_t size;

    text = text ? text : standard;
    size = strlen(text);
    if (size >= room) {
        return mst_lib_refuse(err, name, "is too long");
    }
    memcpy(out, text, size + 1);
    return MUSTER_OK;
}

static muster_status read_durations(struct mst_cluster_config *config,
                                    const struct muster_cluster_options *options,
                                    struct muster_error *err)
{
    const struct {
        const char *name;
        int64_t given;
        uint64_t *out;
    } rows[] = {
        {"cluster_recovery_max", options->recovery_max_ms, &config->recovery_max_ns},
        {"cluster_cancel_grace", options->cancel_grace_ms, &config->cancel_grace_ns},
        {"cluster_series_grace", options->series_grace_ms, &config->series_grace_ns},
        {"cluster_start_delay", options->start_delay_ms, &config->start_delay_ns},
        {"cluster_start_delay_max", options->start_delay_max_ms, &config->start_delay_max_ns},
        {"cluster_unknown_grace", options->unknown_grace_ms, &config->unknown_grace_ns},
        {"cluster_watchdog", options->watchdog_ms, &config->watchdog_ns},
    };
    muster_status status = MUSTER_OK;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && status == MUSTER_OK; i++) {
        int64_t ms = 0;

        status = read_number(rows[i].name, rows[i].given, &ms, err);
        *rows[i].out = (uint64_t)ms * NS_PER_MS;
    }
    return status;
}

static muster_status read_counts(struct mst_cluster_config *config,
                                 const struct muster_cluster_options *options,
                                 struct muster_error *err)
{
    int64_t limit = 0, bytes = 0, least = 0, poison = 0, prefetch = 0, transient = 0;
    muster_status status = read_number("cluster_queue_limit", options->queue_limit, &limit, err);

    if (status == MUSTER_OK) {
        /* More than the row allows is refused there, also beyond int64. */
        int64_t given =
            options->queue_bytes > INT64_MAX ? INT64_MAX : (int64_t)options->queue_bytes;

        status = read_number("cluster_queue_bytes", given, &bytes, err);
    }
    if (status == MUSTER_OK) {
        status = read_number("cluster_min_workers", options->min_workers, &least, err);
    }
    if (status == MUSTER_OK) {
        status = read_number("cluster_poison", options->poison, &poison, err);
    }
    if (status == MUSTER_OK) {
        status = read_number("cluster_prefetch", options->prefetch, &prefetch, err);
    }
    if (status == MUSTER_OK) {
        status = read_number("cluster_transient_limit", options->transient_limit, &transient, err);
    }
    config->queue_limit = (uint32_t)limit;
    config->queue_bytes = (uint64_t)bytes;
    config->min_workers = (uint32_t)least;
    config->poison = (uint32_t)poison;
    config->prefetch = (uint32_t)prefetch;
    config->transient_limit = transient < 0 ? 0 : (uint32_t)transient;
    return status;
}

static muster_status read_policy(struct mst_cluster_config *config,
                                 const struct muster_cluster_options *options,
                                 struct muster_error *err)
{
    int64_t choice = (int64_t)options->policy;
    muster_status status = MUSTER_OK;

    if (options->policy == MUSTER_CLUSTER_FAIL_FAST) {
        status = mst_lib_setting("cluster_policy", &choice, NULL, err);
    } else if (choice < 0 || choice > MST_CLUSTER_ISOLATE) {
        return mst_lib_refuse(err, "cluster",
                              "options.policy is none of enum muster_cluster_policy");
    }
    config->policy = (enum mst_cluster_policy)choice;
    return status;
}

static bool is_reserved(const uint64_t reserved[4])
{
    return (reserved[0] | reserved[1] | reserved[2] | reserved[3]) != 0;
}

muster_status mst_coord_settings_read(struct mst_coord_settings *out,
                                      const struct muster_cluster_options *given,
                                      struct muster_error *err)
{
    const struct muster_cluster_options standard = MUSTER_CLUSTER_OPTIONS_INIT;
    struct muster_cluster_options options = standard;
    muster_status status = mst_lib_options(&options, sizeof(options), given,
                                           "MUSTER_CLUSTER_OPTIONS_INIT", err, "cluster");

    *out = (struct mst_coord_settings){.config = {.silent_ns = 2 * NS_PER_S,
                                                  .transient_window_ns = 60 * NS_PER_S,
                                                  .backoff_ns = NS_PER_S,
                                                  .backoff_max_ns = 60 * NS_PER_S}};
    if (status == MUSTER_OK && is_reserved(options.reserved)) {
        status = mst_lib_refuse(err, "cluster",
                                "options.reserved is not zero; begin with "
                                "MUSTER_CLUSTER_OPTIONS_INIT");
    }
    if (status == MUSTER_OK) {
        status =
            read_text("cluster_name", options.name, "default", out->name, sizeof(out->name), err);
    }
    if (status == MUSTER_OK && !mst_cluster_name_valid(mst_slice_text(out->name))) {
        status = mst_lib_refuse(
            err, "cluster", "its name is to have letters, digits, '.', '_' and '-', at most 64");
    }
    if (status == MUSTER_OK) {
        status =
            read_text("cluster_listen", options.listen, "", out->listen, sizeof(out->listen), err);
    }
    if (status == MUSTER_OK) {
        status = read_policy(&out->config, &options, err);
    }
    if (status == MUSTER_OK) {
        status = read_counts(&out->config, &options, err);
    }
    if (status == MUSTER_OK) {
        status = read_durations(&out->config, &options, err);
    }
    return status;
}
