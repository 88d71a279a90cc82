/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/shell/coordinator/cluster.h"

#include "client/shell/environment.h"

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

static muster_status read_numbers(struct mst_cluster_config *config,
                                  const struct muster_cluster_options *options,
                                  struct muster_error *err)
{
    /* More than the row allows is refused there, also beyond int64. */
    int64_t bytes = options->queue_bytes > INT64_MAX ? INT64_MAX : (int64_t)options->queue_bytes;
    int32_t transient = 0;
    struct mst_option numbers[] = {
        MST_OPTION("cluster_queue_limit", options->queue_limit, &config->queue_limit, 0),
        MST_OPTION("cluster_queue_bytes", bytes, &config->queue_bytes, 0),
        MST_OPTION("cluster_min_workers", options->min_workers, &config->min_workers, 0),
        MST_OPTION("cluster_poison", options->poison, &config->poison, 0),
        MST_OPTION("cluster_prefetch", options->prefetch, &config->prefetch, 0),
        MST_OPTION("cluster_transient_limit", options->transient_limit, &transient, 0),
#define X(option)                                                                                  \
    MST_OPTION("cluster_" #option, options->option##_ms, &config->option##_ns, MST_OPTION_NS)
        X(recovery_max),
        X(cancel_grace),
        X(series_grace),
        X(start_delay),
        X(start_delay_max),
        X(unknown_grace),
        X(watchdog),
#undef X
    };
    muster_status status = mst_lib_numbers(numbers, sizeof(numbers) / sizeof(numbers[0]), err);

    config->transient_limit = transient < 0 ? 0 : (uint32_t)transient;
    return status;
}

static muster_status read_policy(struct mst_cluster_config *config,
                                 enum muster_cluster_policy policy, struct muster_error *err)
{
    int64_t choice = (int64_t)policy;
    muster_status status = MUSTER_OK;

    if (policy == MUSTER_CLUSTER_FAIL_FAST) {
        status = mst_lib_setting("cluster_policy", &choice, NULL, err);
    } else if (choice < 0 || choice > MST_CLUSTER_ISOLATE) {
        return mst_lib_refuse(err, "cluster",
                              "options.policy is none of enum muster_cluster_policy");
    }
    config->policy = (enum mst_cluster_policy)choice;
    return status;
}

static muster_status read_all(struct mst_coord_settings *out,
                              const struct muster_cluster_options *options,
                              struct muster_error *err)
{
    muster_status status =
        read_text("cluster_name", options->name, "default", out->name, sizeof(out->name), err);

    if (status != MUSTER_OK) {
        return status;
    }
    if (!mst_cluster_name_valid(mst_slice_text(out->name))) {
        return mst_lib_refuse(err, "cluster",
                              "its name may have letters, digits, '.', '_' and '-', at most 64");
    }
    status =
        read_text("cluster_listen", options->listen, "", out->listen, sizeof(out->listen), err);
    if (status == MUSTER_OK) {
        status = read_policy(&out->config, options->policy, err);
    }
    return status == MUSTER_OK ? read_numbers(&out->config, options, err) : status;
}

muster_status mst_coord_settings_read(struct mst_coord_settings *out,
                                      const struct muster_cluster_options *given,
                                      struct muster_error *err)
{
    struct muster_cluster_options options = MUSTER_CLUSTER_OPTIONS_INIT;
    muster_status status = mst_lib_options(&options, sizeof(options), given,
                                           "MUSTER_CLUSTER_OPTIONS_INIT", err, "cluster");

    if (status != MUSTER_OK) {
        return status;
    }
    if ((options.reserved[0] | options.reserved[1] | options.reserved[2] | options.reserved[3]) !=
        0) {
        return mst_lib_refuse(err, "cluster",
                              "options.reserved is not zero; begin with "
                              "MUSTER_CLUSTER_OPTIONS_INIT");
    }
    *out = (struct mst_coord_settings){.config = {.silent_ns = 2 * NS_PER_S,
                                                  .transient_window_ns = 60 * NS_PER_S,
                                                  .backoff_ns = NS_PER_S,
                                                  .backoff_max_ns = 60 * NS_PER_S}};
    return read_all(out, &options, err);
}
