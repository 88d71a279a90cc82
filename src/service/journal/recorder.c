/* SPDX-License-Identifier: Apache-2.0 */
#include "service/journal/recorder.h"

#include <string.h>

#include "proto/protobuf.h"
#include "service/core/snapshot.h"
#include "service/journal/gather.h"

enum {
    FRAME_ROOM = 65536, /* with more than this it leaves before the turn ends */
    PART_BYTES = 65536,
    BODY_MAX = 1 << 30 /* of a request: no codec lets a larger one in */
};

struct mst_recorder {
    struct mst_mem mem;
    struct mst_recorder_config config;
    const struct mst_core *core;
    struct mst_crc crc;
    struct mst_gather frame; /* that is gathered */
    uint64_t offset;         /* of it in the file */
    uint64_t inputs;
    uint64_t digest;
    bool over; /* stopped, or in trouble */
    const char *trouble;
};

static void give_up(struct mst_recorder *recorder, const char *why)
{
    recorder->over = true;
    recorder->trouble = why;
}

/* ---- frames ---- */

static void put(struct mst_recorder *recorder, struct mst_slice bytes)
{
    if (!recorder->config.put(recorder->config.put_ctx, bytes)) {
        give_up(recorder, "it could not be written");
    }
    recorder->offset += bytes.size;
}

/* Earlier frames count as durable: a damaged frame before a whole one is damage, not a torn tail.
 */
void mst_recorder_flush(struct mst_recorder *recorder)
{
    struct mst_gather *frame = &recorder->frame;

    if (frame->used == 0 || recorder->over) {
        return;
    }
    mst_frame_write(frame->bytes, &recorder->crc, recorder->config.sequence, recorder->offset,
                    frame->used, recorder->offset);
    put(recorder, mst_slice_of(frame->bytes, (size_t)mst_frame_bytes(frame->used)));
    frame->used = 0;
}

/* Where a record with a body of this size goes; NULL: no memory, and the record ends. */
static unsigned char *record_room(struct mst_recorder *recorder, size_t body)
{
    unsigned char *at;

    if (recorder->frame.used >= FRAME_ROOM) {
        mst_recorder_flush(recorder);
    }
    at = recorder->over ? NULL
                        : mst_gather_room(&recorder->frame, &recorder->mem, MST_RECORD_HEAD + body);
    if (!at && !recorder->over) {
        give_up(recorder, "out of memory");
    }
    return at;
}

static void put_record(struct mst_recorder *recorder, const struct mst_journal_record *record)
{
    unsigned char *at = record_room(recorder, record->body.size);

    if (at) {
        if (record->body.size > 0) {
            memcpy(at + MST_RECORD_HEAD, record->body.data, record->body.size);
        }
        mst_gather_keep(&recorder->frame, record, record->body.size);
    }
}

/* ---- the beginning ---- */

struct saving {
    struct mst_recorder *recorder;
    uint64_t total;
};

static bool put_part(void *ctx, struct mst_slice bytes)
{
    struct saving *saving = ctx;
    const unsigned char *data = bytes.data;

    saving->total += bytes.size;
    for (size_t left = bytes.size; left > 0 && !saving->recorder->over;) {
        size_t size = left < PART_BYTES ? left : PART_BYTES;

        put_record(saving->recorder,
                   &(struct mst_journal_record){.type = MST_RECORD_PART,
                                                .now_ns = saving->recorder->config.now_ns,
                                                .body = mst_slice_of(data, size)});
        data += size;
        left -= size;
    }
    return !saving->recorder->over;
}

static void put_begun(struct mst_recorder *recorder)
{
    const struct mst_journal_record record = {.type = MST_RECORD_BEGUN,
                                              .now_ns = recorder->config.now_ns};
    size_t size = 8 + (recorder->config.fresh ? mst_input_config_bytes() : 0);
    unsigned char *at = record_room(recorder, size);

    if (at) {
        mst_put_u64(at + MST_RECORD_HEAD, recorder->config.wall_ns);
        if (recorder->config.fresh) {
            mst_input_config_write(at + MST_RECORD_HEAD + 8, recorder->config.fresh);
        }
        mst_gather_keep(&recorder->frame, &record, size);
    }
}

static void put_state(struct mst_recorder *recorder)
{
    struct saving saving = {.recorder = recorder};
    const struct mst_snapshot_sink sink = {.ctx = &saving, .put = put_part};
    unsigned char total[8];

    (void)mst_core_save(recorder->core, &sink);
    mst_put_u64(total, saving.total);
    put_record(recorder, &(struct mst_journal_record){.type = MST_RECORD_WHOLE,
                                                      .now_ns = recorder->config.now_ns,
                                                      .body = mst_slice_of(total, sizeof total)});
}

static void begin(struct mst_recorder *recorder)
{
    const struct mst_file_head head = mst_file_head_of(MST_FILE_RECORD, recorder->config.sequence,
                                                       MST_CORE_RULES, recorder->config.version);
    unsigned char bytes[MST_FILE_HEAD];

    mst_file_head_write(bytes, &recorder->crc, &head);
    put(recorder, mst_slice_of(bytes, sizeof bytes));
    put_begun(recorder);
    if (!recorder->config.fresh) {
        put_state(recorder);
    }
    if (recorder->config.held) {
        put_record(recorder,
                   &(struct mst_journal_record){.type = MST_RECORD_HOLD,
                                                .now_ns = recorder->config.now_ns,
                                                .body = mst_slice_text(recorder->config.held)});
        recorder->inputs++;
    }
    mst_recorder_flush(recorder);
}

muster_status mst_recorder_new(struct mst_recorder **out, const struct mst_recorder_config *config,
                               const struct mst_core *core, const struct mst_mem *mem)
{
    struct mst_recorder *recorder = mst_mem_zalloc(mem, sizeof *recorder);

    if (!recorder) {
        return MUSTER_ENOMEM;
    }
    recorder->mem = *mem;
    recorder->config = *config;
    recorder->core = core;
    mst_crc_init(&recorder->crc);
    if (!mst_gather_init(&recorder->frame, mem, FRAME_ROOM)) {
        mst_recorder_free(recorder);
        return MUSTER_ENOMEM;
    }
    begin(recorder);
    recorder->config.fresh = NULL;
    *out = recorder;
    return MUSTER_OK;
}

void mst_recorder_free(struct mst_recorder *recorder)
{
    struct mst_mem mem;

    if (recorder) {
        mem = recorder->mem;
        mst_gather_fini(&recorder->frame, &mem);
        mst_mem_release(&mem, recorder);
    }
}

/* ---- inputs ---- */

static void put_request(struct mst_recorder *recorder, struct mst_journal_record *record,
                        const struct mst_request *request)
{
    size_t size = mst_input_request_bytes(request);
    unsigned char *at;

    if (size == 0 || size > BODY_MAX) {
        return; /* no command: the core refused it without a trace */
    }
    at = record_room(recorder, size);
    if (at) {
        mst_input_request_write(at + MST_RECORD_HEAD, request, size);
        mst_gather_keep(&recorder->frame, record, size);
        recorder->inputs++;
    }
}

static void on_heard(void *ctx, const struct mst_input *input)
{
    struct mst_recorder *recorder = ctx;
    struct mst_journal_record record = {.type = input->type,
                                        .flags = input->flags,
                                        .now_ns = input->now_ns,
                                        .conn = input->conn.id};

    recorder->config.now_ns = input->now_ns;
    if (recorder->over) {
        return;
    }
    if (input->request) {
        put_request(recorder, &record, input->request);
    } else {
        record.body = input->why ? mst_slice_text(input->why) : record.body;
        put_record(recorder, &record);
        recorder->inputs += !recorder->over;
    }
}

struct mst_input_listener mst_recorder_listener(struct mst_recorder *recorder)
{
    return (struct mst_input_listener){.ctx = recorder, .heard = on_heard};
}

/* ---- the end ---- */

void mst_recorder_stop(struct mst_recorder *recorder)
{
    unsigned char body[16];

    if (recorder->over) {
        return;
    }
    recorder->digest = mst_core_kept_digest(recorder->core);
    mst_put_u64(body, recorder->digest);
    mst_put_u64(body + 8, recorder->inputs);
    put_record(recorder, &(struct mst_journal_record){.type = MST_RECORD_STOPPED,
                                                      .now_ns = recorder->config.now_ns,
                                                      .body = mst_slice_of(body, sizeof body)});
    mst_recorder_flush(recorder);
    recorder->over = true;
}

const char *mst_recorder_trouble(const struct mst_recorder *recorder)
{
    return recorder->trouble;
}

uint64_t mst_recorder_inputs(const struct mst_recorder *recorder)
{
    return recorder->inputs;
}

uint64_t mst_recorder_digest(const struct mst_recorder *recorder)
{
    return recorder->digest;
}
