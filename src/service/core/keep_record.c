/* SPDX-License-Identifier: Apache-2.0 */
/* The faults and losses of a generation. */
#include "service/core/keep.h"

static void keep_record(struct mst_archive *archive, struct mst_record *record)
{
    mst_keep_cause(archive, &record->cause, &record->code);
    mst_archive_u64(archive, &record->at_ns);
    mst_archive_u32(archive, &record->told_by);
    mst_archive_bool(archive, &record->gone);
    MST_ARCHIVE_U32S(archive, &record->index, &record->rank);
    MST_ARCHIVE_U64S(archive, &record->incarnation, &record->pid);
    MST_ARCHIVE_U32S(archive, &record->agent, &record->losses);
    mst_archive_blob(archive, &record->host);
    mst_archive_blob(archive, &record->text);
}

static void keep_records(struct mst_archive *archive, const struct mst_core *core,
                         struct mst_records *records)
{
    uint64_t last_ns;

    MST_ARCHIVE_U64S(archive, &records->generation, &records->begun_ns, &records->total);
    mst_archive_u32(archive, &records->count);
    last_ns = records->begun_ns;
    (void)mst_archive_expect(archive,
                             mst_records_sane(records) && records->begun_ns <= core->now_ns);
    if (!mst_archive_good(archive)) {
        records->count = 0; /* what it would have is not there */
        return;
    }
    for (uint32_t i = 0; i < records->count && mst_archive_good(archive); i++) {
        struct mst_record *record = &records->first[i];

        keep_record(archive, record);
        (void)mst_archive_expect(archive,
                                 record->at_ns >= last_ns && record->at_ns <= core->now_ns);
        last_ns = record->at_ns;
    }
}

void mst_keep_records(struct mst_archive *archive, struct mst_job *job)
{
    mst_archive_u64(archive, &job->fault_count);
    keep_records(archive, job->core, &job->last_records);
    keep_records(archive, job->core, &job->records);
    (void)mst_archive_expect(archive, job->records.generation == 0 ||
                                          job->records.generation == job->generation);
    if (archive->loading) {
        /* Only replies depend on it. Kept in the snapshot it would be right also for a generation
         * number that has leapt: not worth a format that no older service can read. */
        job->last_is_cause = job->last_records.count > 0 &&
                             job->last_records.generation + 1 == job->records.generation;
    }
}
