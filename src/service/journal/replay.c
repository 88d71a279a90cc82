/* SPDX-License-Identifier: Apache-2.0 */
#include "service/journal/replay.h"

#include <string.h>

#include "base/buffer.h"
#include "base/fail.h"
#include "base/text.h"
#include "proto/native/arena.h"
#include "proto/settings.h"
#include "service/core/snapshot.h"
#include "service/journal/input.h"

/* The record that may come next; each once, except parts of the state and inputs. */
enum stage { WANTS_BEGUN, WANTS_STATE, WANTS_INPUTS, WANTS_NOTHING };

struct replay {
    const struct mst_replay_config *config;
    struct mst_replayed *about;
    struct mst_mem mem;
    struct mst_crc crc;
    struct mst_native_arena arena; /* of a request */
    struct mst_buffer state;       /* the parts of it */
    struct mst_core *core;
    enum stage stage;
    const char *name;
    uint64_t offset; /* of the current frame */
    struct muster_error *err;
};

/* ---- errors ---- */

static muster_status damaged(struct replay *replay, const char *what)
{
    return mst_fail(replay->err, MUSTER_EFAILED, 0, "%s is damaged at offset %" PRIu64 ": %s",
                    replay->name, replay->offset, what);
}

static muster_status nonsense(struct replay *replay)
{
    return damaged(replay, "it makes no sense");
}

static muster_status no_memory(struct replay *replay)
{
    return mst_fail(replay->err, MUSTER_ENOMEM, 0, "%s: out of memory", replay->name);
}

static muster_status other_rules(struct replay *replay)
{
    return mst_fail(replay->err, MUSTER_EFAILED, 0,
                    "%s was made by muster %.*s, which decides otherwise than this one (rules %u, "
                    "here %u): replay it with that version",
                    replay->name, MST_TEXT_ARGS(replay->about->version), replay->about->rules,
                    MST_CORE_RULES);
}

/* Its checksum is right, so it is not damaged. */
static muster_status other_state(struct replay *replay)
{
    return mst_fail(replay->err, MUSTER_EFAILED, 0,
                    "%s begins with a state that muster %.*s kept, and this one cannot read: "
                    "replay it with that version",
                    replay->name, MST_TEXT_ARGS(replay->about->version));
}

/* With all their digits, as the service's log has them. */
static muster_status other_digest(struct replay *replay)
{
    return mst_fail(replay->err, MUSTER_EMISMATCH, 0,
                    "%s: the digest is %016" PRIx64 ", and %016" PRIx64
                    " was recorded by muster %.*s: this one does not decide as that one did",
                    replay->name, replay->about->digest, replay->about->recorded,
                    MST_TEXT_ARGS(replay->about->version));
}

/* ---- records ---- */

/* The core is there. */
static void begin(struct replay *replay)
{
    replay->stage = WANTS_INPUTS;
    replay->about->begun = true;
    if (replay->config->begun) {
        replay->config->begun(replay->config->ctx);
    }
}

/* A record does not say which one the service had. Only lines of the log follow from it. */
static uint64_t straggler_percent(void)
{
    return (uint64_t)mst_setting_find("straggler_percent")->standard;
}

/* A core that was new then. */
static muster_status begin_anew(struct replay *replay, struct mst_slice born_with)
{
    struct mst_core_config config = {.limits = mst_limits_default,
                                     .straggler_percent = straggler_percent(),
                                     .trace = replay->config->trace,
                                     .history = replay->config->history,
                                     .incident = replay->config->incident,
                                     .trace_ctx = replay->config->ctx};
    muster_status status = MUSTER_EPROTO;

    if (mst_input_config_read(born_with, &config)) {
        status = mst_core_new(&replay->core, &config, &replay->mem);
    }
    if (status != MUSTER_OK) {
        return status == MUSTER_ENOMEM ? no_memory(replay)
                                       : damaged(replay, "its limits make no sense here");
    }
    begin(replay);
    return MUSTER_OK;
}

static muster_status begun(struct replay *replay, const struct mst_journal_record *record)
{
    const unsigned char *body = record->body.data;

    if (record->body.size < 8) {
        return nonsense(replay);
    }
    replay->about->wall_ns = mst_get_u64(body);
    replay->about->begin_ns = replay->about->now_ns = record->now_ns;
    if (record->body.size > 8) {
        return begin_anew(replay, mst_slice_of(body + 8, record->body.size - 8));
    }
    replay->stage = WANTS_STATE;
    return MUSTER_OK;
}

static muster_status part(struct replay *replay, const struct mst_journal_record *record)
{
    return mst_buffer_append(&replay->state, record->body) ? MUSTER_OK : no_memory(replay);
}

static muster_status whole(struct replay *replay, const struct mst_journal_record *record)
{
    const struct mst_core_config config = {.straggler_percent = straggler_percent(),
                                           .trace = replay->config->trace,
                                           .history = replay->config->history,
                                           .incident = replay->config->incident,

                                           .trace_ctx = replay->config->ctx};
    struct mst_slice state = mst_buffer_content(&replay->state);
    muster_status status;

    if (record->body.size != 8 || mst_get_u64(record->body.data) != state.size) {
        return nonsense(replay);
    }
    status = mst_core_load(&replay->core, replay->about->now_ns, state, &config, &replay->mem);
    if (status == MUSTER_EINVAL) {
        return damaged(replay, "its state is of a time that is still to come");
    }
    if (status != MUSTER_OK) {
        return status == MUSTER_ENOMEM ? no_memory(replay) : other_state(replay);
    }
    mst_buffer_take(&replay->state, state.size);
    begin(replay);
    return MUSTER_OK;
}

static muster_status input(struct replay *replay, const struct mst_journal_record *record)
{
    static const struct mst_core_config none; /* no RESUME is recorded */
    muster_status status;

    if (record->now_ns < replay->about->now_ns) {
        return damaged(replay, "its time goes backwards");
    }
    replay->about->now_ns = record->now_ns;
    status = mst_input_again(replay->core, &replay->arena, record, &none);
    if (status == MUSTER_ENOMEM || status == MUSTER_ELIMIT) {
        return no_memory(replay);
    }
    if (status != MUSTER_OK) {
        return nonsense(replay);
    }
    replay->about->inputs++;
    return MUSTER_OK;
}

static muster_status stopped(struct replay *replay, const struct mst_journal_record *record)
{
    if (record->body.size != 16) {
        return nonsense(replay);
    }
    if (mst_get_u64((const unsigned char *)record->body.data + 8) != replay->about->inputs) {
        return damaged(replay, "inputs before it are missing");
    }
    replay->about->recorded = mst_get_u64(record->body.data);
    replay->about->stopped = true;
    replay->stage = WANTS_NOTHING;
    return MUSTER_OK;
}

/* When a record may come, and what takes it; a type without a row may not come. */
static const struct {
    enum stage stage;
    muster_status (*take)(struct replay *replay, const struct mst_journal_record *record);
} types[] = {
    [MST_RECORD_BEGUN] = {WANTS_BEGUN, begun},     [MST_RECORD_PART] = {WANTS_STATE, part},
    [MST_RECORD_WHOLE] = {WANTS_STATE, whole},     [MST_RECORD_OPEN] = {WANTS_INPUTS, input},
    [MST_RECORD_REQUEST] = {WANTS_INPUTS, input},  [MST_RECORD_CLOSE] = {WANTS_INPUTS, input},
    [MST_RECORD_TICK] = {WANTS_INPUTS, input},     [MST_RECORD_HOLD] = {WANTS_INPUTS, input},
    [MST_RECORD_STOPPED] = {WANTS_INPUTS, stopped}};

static muster_status take(struct replay *replay, const struct mst_journal_record *record)
{
    size_t type = (size_t)record->type;

    return type < sizeof types / sizeof types[0] && types[type].take &&
                   types[type].stage == replay->stage
               ? types[type].take(replay, record)
               : nonsense(replay);
}

static muster_status take_frame(struct replay *replay, struct mst_slice payload)
{
    struct mst_journal_record record;
    muster_status status = MUSTER_OK;

    while (status == MUSTER_OK && payload.size > 0) {
        status = mst_record_read(&record, &payload) ? take(replay, &record) : nonsense(replay);
    }
    return status;
}

/* ---- a file ---- */

static muster_status take_file(struct replay *replay, struct mst_slice file)
{
    struct mst_frame_reader reader = {.crc = &replay->crc,
                                      .file = file,
                                      .sequence = replay->about->sequence,
                                      .offset = MST_FILE_HEAD};

    for (;;) {
        struct mst_slice payload;
        enum mst_frame_found found;
        muster_status status = MUSTER_OK;

        replay->offset = reader.offset;
        found = mst_frame_next(&reader, &payload);
        if (found != MST_FRAME_END && replay->stage == WANTS_NOTHING) {
            return damaged(replay, "it goes on behind its end");
        }
        switch (found) {
        case MST_FRAME_WHOLE:
            status = take_frame(replay, payload);
            break;
        case MST_FRAME_CORRUPT:
            return damaged(replay, "what follows is whole again");
        case MST_FRAME_TORN:
            replay->about->cut_bytes = file.size - replay->offset;
            return MUSTER_OK;
        case MST_FRAME_END:
            return MUSTER_OK;
        }
        if (status != MUSTER_OK) {
            return status;
        }
    }
}

static muster_status run(struct replay *replay, struct mst_slice file)
{
    struct mst_file_head head;
    muster_status status;

    if (file.size < MST_FILE_HEAD) { /* the service was killed before it wrote the head */
        replay->about->cut_bytes = file.size;
        return MUSTER_OK;
    }
    if (!mst_file_head_read(&head, &replay->crc, file) || head.kind != MST_FILE_RECORD) {
        return damaged(replay, "it does not begin as a record does");
    }
    replay->about->sequence = head.sequence;
    replay->about->rules = head.rules;
    memcpy(replay->about->version, head.version, sizeof head.version);
    if (head.rules != MST_CORE_RULES) {
        return other_rules(replay);
    }
    status = take_file(replay, file);
    if (replay->core) {
        replay->about->digest = mst_core_kept_digest(replay->core);
    }
    if (status == MUSTER_OK && replay->about->stopped &&
        replay->about->digest != replay->about->recorded) {
        return other_digest(replay);
    }
    return status;
}

muster_status mst_replay(const struct mst_replay_config *config, const char *name,
                         struct mst_slice file, const struct mst_mem *mem, struct muster_error *err)
{
    struct replay replay = {
        .config = config, .about = config->about, .mem = *mem, .name = name, .err = err};
    muster_status status;

    *replay.about = (struct mst_replayed){.begun = false};
    mst_crc_init(&replay.crc);
    mst_native_arena_init(&replay.arena, &replay.mem);
    mst_buffer_init(&replay.state, &replay.mem, file.size);
    status = run(&replay, file);
    mst_core_free(replay.core);
    mst_buffer_fini(&replay.state);
    mst_native_arena_fini(&replay.arena);
    return status;
}
