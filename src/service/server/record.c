/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "service/server/record.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "os/clock.h"

#define GOES_ON "the service goes on without; what was recorded so far can be replayed"

static bool put(void *ctx, struct mst_slice bytes)
{
    return mst_record_file_put(ctx, bytes);
}

/* Once. The recorder stays as the listener, and ignores further inputs. */
static void end(struct mst_uv_record *record)
{
    const char *why = mst_record_file_trouble(record->file); /* it knows better */

    why = why ? why : mst_recorder_trouble(record->recorder);
    if (why && !record->told) {
        record->told = true;
        mst_uv_log_line(record->log, MST_ERROR, "record",
                        "record-ended file=%s inputs=%" PRIu64 " reason=\"%s; " GOES_ON "\"",
                        mst_record_file_path(record->file), mst_recorder_inputs(record->recorder),
                        why);
    }
}

bool mst_uv_record_init(struct mst_uv_record *record, struct mst_uv_log *log, const char *folder,
                        const char *version, struct mst_journal *journal,
                        const struct mst_core *core, const struct mst_core_config *config,
                        uint64_t now_ns, const struct mst_mem *mem, struct muster_error *err)
{
    struct mst_recorder_config how = {.version = version,
                                      .wall_ns = mst_clock_ns(CLOCK_REALTIME),
                                      .now_ns = now_ns,
                                      .fresh = mst_journal_fresh(journal) ? config : NULL,
                                      .held = mst_journal_held(journal),
                                      .put = put};
    struct mst_input_listener listener;

    *record = (struct mst_uv_record){.log = log};
    if (mst_record_file_open(&record->file, folder, err) != MUSTER_OK) {
        if (mst_record_file_misnamed(err)) {
            return false;
        }
        mst_uv_log_line(log, MST_ERROR, "record", "record-ended reason=\"%s; " GOES_ON "\"",
                        err->text);
        return true;
    }
    how.sequence = mst_record_file_sequence(record->file);
    how.put_ctx = record->file;
    if (mst_recorder_new(&record->recorder, &how, core, mem) != MUSTER_OK) {
        mst_uv_log_line(log, MST_ERROR, "record",
                        "record-ended file=%s reason=\"out of memory; " GOES_ON "\"",
                        mst_record_file_path(record->file));
        mst_record_file_free(record->file);
        record->file = NULL;
        return true;
    }
    mst_record_file_begun(record->file);
    listener = mst_recorder_listener(record->recorder);
    mst_journal_listen(journal, &listener);
    mst_uv_log_line(log, MST_INFO, "record", "record-begun file=%s",
                    mst_record_file_path(record->file));
    return true;
}

void mst_uv_record_turn(struct mst_uv_record *record)
{
    if (record->recorder && !record->told) {
        mst_recorder_flush(record->recorder);
        end(record);
    }
}

void mst_uv_record_fini(struct mst_uv_record *record)
{
    if (!record->recorder) {
        return;
    }
    if (!record->told) {
        mst_recorder_stop(record->recorder);
        (void)mst_record_file_finish(record->file);
        end(record);
    }
    if (!record->told) {
        mst_uv_log_line(record->log, MST_INFO, "record",
                        "record-stopped file=%s inputs=%" PRIu64 " digest=%016" PRIx64,
                        mst_record_file_path(record->file), mst_recorder_inputs(record->recorder),
                        mst_recorder_digest(record->recorder));
    }
    mst_recorder_free(record->recorder);
    mst_record_file_free(record->file);
    record->recorder = NULL;
    record->file = NULL;
}
