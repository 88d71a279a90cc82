/* SPDX-License-Identifier: Apache-2.0 */
/*   magic, format, time of the last input
 *   state: config, clock, jobs, jobs that ended, connections
 *   histories of the jobs; since when their members and rounds are as they are
 *   which participants have the last results of rounds
 *   digest of all that
 *
 * Only the state is in the kept digest: an input that changed nothing need not be recorded, so the
 * time of the last one differs after a replay. What stands behind the state came later than the
 * digests of older records, which hold without it. */
#include "service/core/snapshot.h"

#include "service/core/keep.h"

#define MAGIC UINT64_C(0x31706e5372657473) /* "sterSnp1", read as little-endian */
/* What 5 adds takes no room where it is not used; 6 adds the histories, 7 what follows them. */
enum { FORMAT = 7, FORMAT_LEAST = 4, FORMAT_HISTORY = 6, FORMAT_MOMENTS = 7 };

/* ---- numbers of the core itself ---- */

static void keep_limits(struct mst_archive *archive, struct mst_limits *limits)
{
#define MST_KEEP_LIMIT(name, most)                                                                 \
    mst_archive_u64(archive, &limits->name);                                                       \
    (void)mst_archive_expect(archive, limits->name <= (most));
#define MST_KEEP_SERVICE(name, most)
#define MST_KEEP_CLIENT(name, most)
#define MST_KEEP_RUN(name, most)
#define MST_KEEP_RESTART(name, most)
#define X(scope, name, unit, default_value, least, most, help) MST_KEEP_##scope(name, most)
#include "proto/settings.def"
#undef X
#undef MST_KEEP_LIMIT
#undef MST_KEEP_SERVICE
#undef MST_KEEP_CLIENT
#undef MST_KEEP_RUN
#undef MST_KEEP_RESTART
}

static void keep_config(struct mst_archive *archive, struct mst_core_config *config)
{
    mst_archive_u64(archive, &config->lease_ns);
    keep_limits(archive, &config->limits);
    (void)mst_archive_expect(archive, mst_core_config_makes_sense(config));
}

/* The format. */
static uint64_t keep_header(struct mst_archive *archive, uint64_t *now_ns)
{
    uint64_t magic = MAGIC;
    uint64_t format = FORMAT;

    mst_archive_u64(archive, &magic);
    mst_archive_u64(archive, &format);
    (void)mst_archive_expect(archive, magic == MAGIC && format >= FORMAT_LEAST && format <= FORMAT);
    mst_archive_u64(archive, now_ns);
    return format;
}

/* After the config. A session is born with an alarm, before it gets its own: those come after all
 * that are restored, and do not count. */
static void keep_state(struct mst_archive *archive, struct mst_core *core)
{
    uint64_t serial = core->alarms.serial;

    mst_archive_u64(archive, &core->pulse_ns);
    mst_archive_u64(archive, &serial);
    if (archive->loading) {
        core->alarms.serial = serial;
    }
    mst_keep_jobs(archive, core);
    mst_keep_pasts(archive, core);
    mst_keep_links(archive, core);
    if (archive->loading) {
        (void)mst_archive_expect(archive, (core->sessions.count == 0) == (core->pulse_ns == NEVER));
        core->alarms.serial = serial;
    }
}

/* ---- saving ---- */

static muster_status save(const struct mst_core *core, const struct mst_snapshot_sink *sink,
                          bool header, uint64_t *digest_out)
{
    struct mst_archive archive;
    struct mst_core_config config = core->config;
    uint64_t now_ns = core->now_ns;
    /* A description also serves loading, so it takes what could be changed. Saving changes nothing:
     * archive.h. */
    union {
        const struct mst_core *looked_at;
        struct mst_core *described;
    } state = {.looked_at = core};

    MST_ASSERT(mst_list_empty(&core->dirty));
    mst_archive_save_to(&archive, sink);
    if (header) {
        (void)keep_header(&archive, &now_ns);
    }
    keep_config(&archive, &config);
    keep_state(&archive, state.described);
    if (header) {
        mst_keep_histories(&archive, state.described);
        mst_keep_moments(&archive, state.described);
        mst_keep_results_taken(&archive, state.described);
    }
    (void)mst_archive_end(&archive);
    *digest_out = archive.digest;
    return archive.status;
}

bool mst_core_save(const struct mst_core *core, const struct mst_snapshot_sink *sink)
{
    uint64_t digest;

    return save(core, sink, true, &digest) == MUSTER_OK;
}

uint64_t mst_core_kept_digest(const struct mst_core *core)
{
    uint64_t digest;

    (void)save(core, NULL, false, &digest);
    return digest;
}

bool mst_core_kept_digest_to(const struct mst_core *core, const struct mst_snapshot_sink *sink,
                             uint64_t *out)
{
    return save(core, sink, false, out) == MUSTER_OK;
}

/* ---- loading ---- */

muster_status mst_core_load(struct mst_core **out, uint64_t now_ns, struct mst_slice bytes,
                            const struct mst_core_config *config, const struct mst_mem *mem)
{
    struct mst_core_config kept = {.history = config->history,
                                   .straggler_percent = config->straggler_percent,
                                   .secret = config->secret};
    struct mst_archive archive;
    struct mst_core *core;
    muster_status status;
    uint64_t kept_ns = 0;
    uint64_t format;

    mst_archive_load_from(&archive, bytes, mem);
    format = keep_header(&archive, &kept_ns);
    keep_config(&archive, &kept);
    if (!mst_archive_good(&archive)) {
        return archive.status;
    }
    status = mst_core_new(&core, &kept, mem);
    if (status != MUSTER_OK) {
        return status;
    }
    core->now_ns = kept_ns;
    core->kept_ns = kept_ns;
    keep_state(&archive, core);
    if (format >= FORMAT_HISTORY) {
        mst_keep_histories(&archive, core);
    }
    if (format >= FORMAT_MOMENTS) {
        mst_keep_moments(&archive, core);
        mst_keep_results_taken(&archive, core);
    }
    status = mst_archive_end(&archive);
    if (status == MUSTER_OK && kept_ns > now_ns) {
        status = MUSTER_EINVAL; /* only now: that its time is not damage is sure */
    }
    if (status != MUSTER_OK) {
        mst_core_free(core);
        return status;
    }
    core->weight = MST_WEIGHT_NONE;
    core->config.trace = config->trace;
    core->config.incident = config->incident;
    core->config.trace_ctx = config->trace_ctx;
    *out = core;
    return MUSTER_OK;
}
