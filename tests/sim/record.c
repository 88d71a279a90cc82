/* SPDX-License-Identifier: Apache-2.0 */
#include "record.h"

#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "journal.h"
#include "properties.h"
#include "service/core/snapshot.h"
#include "service/journal/recorder.h"
#include "service/journal/replay.h"
#include "sim.h"

struct sim_record {
    struct mst_recorder *recorder;
    unsigned char *bytes;
    size_t size, room;
    uint64_t story, lines; /* told since it began */
};

struct told {
    uint64_t story, lines;
};

static void *heap_alloc(void *ctx, size_t size)
{
    (void)ctx;
    return malloc(size);
}

static void heap_release(void *ctx, void *p)
{
    (void)ctx;
    free(p);
}

static const struct mst_mem heap = {.alloc = heap_alloc, .release = heap_release};

static uint64_t with_line(uint64_t story, const struct mst_trace *line)
{
    story = mst_digest_number(story, line->now_ns);
    story = mst_digest_number(story, (uint64_t)line->level);
    story = mst_digest_slice(story, line->job);
    return mst_digest_slice(story, mst_slice_text(line->text));
}

/* ---- recorded ---- */

static bool put(void *ctx, struct mst_slice bytes)
{
    struct sim_record *record = ctx;

    while (record->room - record->size < bytes.size) {
        record->room = record->room ? record->room * 2 : 65536;
        record->bytes = sim_grown(record->bytes, record->room, 1);
    }
    memcpy(record->bytes + record->size, bytes.data, bytes.size);
    record->size += bytes.size;
    return true;
}

void sim_record_begin(struct sim *sim, uint64_t now_ns)
{
    const struct mst_core_config born_with = sim_service_config(sim);
    struct sim_journal *journal = sim->service.journal;
    bool fresh = !journal || mst_journal_fresh(journal->journal);
    struct mst_recorder_config config = {.fresh = fresh ? &born_with : NULL,
                                         .version = "sim",
                                         .sequence = 1,
                                         .now_ns = now_ns,
                                         .held =
                                             journal ? mst_journal_held(journal->journal) : NULL,
                                         .put = put};
    struct mst_input_listener listener;
    struct sim_record *record;

    if (sim->seed % SIM_RECORD_1_IN != 0) {
        return;
    }
    record = sim_new(sizeof *record);
    record->story = MST_DIGEST_INIT;
    config.put_ctx = record;
    if (mst_recorder_new(&record->recorder, &config, sim->service.core, &heap) != MUSTER_OK) {
        abort();
    }
    sim->service.record = record;
    if (journal) {
        listener = mst_recorder_listener(record->recorder);
        mst_journal_listen(journal->journal, &listener);
    }
}

void sim_record_traced(struct sim *sim, const struct mst_trace *line)
{
    struct sim_record *record = sim->service.record;

    if (record) {
        record->story = with_line(record->story, line);
        record->lines++;
    }
}

void sim_record_heard(struct sim *sim, const struct mst_input *input)
{
    if (sim->service.record) {
        struct mst_input_listener listener = mst_recorder_listener(sim->service.record->recorder);

        listener.heard(listener.ctx, input);
    }
}

/* ---- and replayed ---- */

static void on_told(void *ctx, const struct mst_trace *line)
{
    struct told *told = ctx;

    told->story = with_line(told->story, line);
    told->lines++;
}

/* RECORD_SAME */
static void check_replay(struct sim *sim, const struct sim_record *record)
{
    struct told told = {.story = MST_DIGEST_INIT};
    struct mst_replayed about;
    const struct mst_replay_config config = {.about = &about, .trace = on_told, .ctx = &told};
    struct muster_error err;
    muster_status status =
        mst_replay(&config, "the record", mst_slice_of(record->bytes, record->size), &heap, &err);

    if (status != MUSTER_OK) {
        sim_fail(sim, SIM_P_RECORD_SAME, "%.180s", err.text);
    }
    if (!about.stopped || about.digest != mst_core_kept_digest(sim->service.core)) {
        sim_fail(sim, SIM_P_RECORD_SAME, "another state");
    }
    if (told.story != record->story || told.lines != record->lines) {
        sim_fail(sim, SIM_P_RECORD_SAME, "another story, of %" PRIu64 " lines instead of %" PRIu64,
                 told.lines, record->lines);
    }
}

void sim_record_end(struct sim *sim)
{
    struct sim_record *record = sim->service.record;

    if (!record) {
        return;
    }
    sim->service.record = NULL;
    mst_recorder_stop(record->recorder);
    check_replay(sim, record);
    mst_recorder_free(record->recorder);
    free(record->bytes);
    free(record);
}
