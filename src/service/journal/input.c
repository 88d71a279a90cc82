/* SPDX-License-Identifier: Apache-2.0 */
#include "service/journal/input.h"

#include <string.h>

#include "proto/protobuf.h"
#include "proto/settings.h"

unsigned mst_input_flags(const struct mst_core *core)
{
    return (mst_core_refused(core) ? MST_RECORD_REFUSED : 0) |
           (mst_core_wordless(core) ? MST_RECORD_WORDLESS : 0);
}

/* ---- a REQUEST ---- */

const struct mst_request *mst_input_kept(const struct mst_request *request,
                                         struct mst_request *room)
{
    if (request->command != MST_RENEW || request->renew.count == 0) {
        return request;
    }
    *room =
        (struct mst_request){.id = request->id, .oldest = request->oldest, .command = MST_RENEW};
    return room;
}

size_t mst_input_request_bytes(const struct mst_request *request)
{
    return request->bytes.size > 0 ? request->bytes.size
                                   : mst_encode(&mst_request_fields, request, NULL, 0);
}

void mst_input_request_write(unsigned char *at, const struct mst_request *request, size_t size)
{
    if (request->bytes.size > 0) {
        memcpy(at, request->bytes.data, size);
    } else {
        (void)mst_encode(&mst_request_fields, request, at, size);
    }
}

/* ---- again ---- */

static muster_status request_again(struct mst_core *core, struct mst_native_arena *arena,
                                   const struct mst_journal_record *record)

{
    const struct mst_conn conn = {.id = record->conn};
    struct mst_request request;
    struct mst_wrong wrong;
    muster_status status;

    mst_native_arena_reset(arena, SIZE_MAX);
    status = mst_decode(&mst_request_fields, &request, record->body, arena, &wrong);
    if (status != MUSTER_OK) {
        return status;
    }
    if (record->flags & MST_RECORD_REFUSED) {
        mst_core_request_refused(core, record->now_ns, conn, &request);
        return MUSTER_OK;
    }
    status = record->flags & MST_RECORD_WORDLESS
                 ? mst_core_request_wordless(core, record->now_ns, conn, &request)
                 : mst_core_request(core, record->now_ns, conn, &request);
    return status == MUSTER_OK && mst_input_flags(core) != 0 ? MUSTER_ENOMEM : status;
}

/* ---- a RESUME ----
 *
 * Lease, count of the limits, and each limit as its value, the size of its name, its
 * name. By name, so that a row of settings.def may be added, removed or moved. */
enum { LIMIT_HEAD = 9, RESUME_HEAD = 16, LIMIT_COUNT = sizeof(struct mst_limits) / 8 };

/* The rows of limits, from `row` on; the values of the struct stand in the order of the rows. NULL:
 * that was the last. */
static const struct mst_setting *limit_from(const struct mst_setting *row)
{
    const struct mst_setting *end = mst_settings + mst_setting_count;

    while (row < end && row->scope != MST_SCOPE_LIMIT) {
        row++;
    }
    return row < end ? row : NULL;
}

static uint64_t *values_of(struct mst_core_config *config)
{
    return (uint64_t *)(void *)&config->limits;
}

size_t mst_input_config_bytes(void)
{
    size_t size = RESUME_HEAD;

    for (const struct mst_setting *row = mst_settings; (row = limit_from(row)); row++) {
        size += LIMIT_HEAD + strlen(row->name);
    }
    return size;
}

void mst_input_config_write(unsigned char *at, const struct mst_core_config *config)
{
    struct mst_core_config copy = *config;
    const uint64_t *value = values_of(&copy);

    mst_put_u64(at, copy.lease_ns);
    mst_put_u64(at + 8, LIMIT_COUNT);
    at += RESUME_HEAD;
    for (const struct mst_setting *row = mst_settings; (row = limit_from(row)); row++) {
        size_t size = strlen(row->name);

        mst_put_u64(at, *value++);
        at[8] = (unsigned char)size;
        memcpy(at + LIMIT_HEAD, row->name, size);
        at += LIMIT_HEAD + size;
    }
}

/* The value of a limit; NULL: this version does not know it. */
static uint64_t *find_limit(struct mst_core_config *config, const unsigned char *name, size_t size)
{
    uint64_t *value = values_of(config);

    for (const struct mst_setting *row = mst_settings; (row = limit_from(row)); row++, value++) {
        if (mst_slice_equal(mst_slice_text(row->name), mst_slice_of(name, size))) {
            return value;
        }
    }
    return NULL;
}

/* Limits that the older version did not know keep the current values. False: damaged, or a limit
 * that this version does not know. */
bool mst_input_config_read(struct mst_slice body, struct mst_core_config *config)
{
    const unsigned char *at = body.data;
    size_t left = body.size;
    uint64_t count;

    if (left < RESUME_HEAD) {
        return false;
    }
    config->lease_ns = mst_get_u64(at);
    count = mst_get_u64(at + 8);
    at += RESUME_HEAD;
    left -= RESUME_HEAD;
    for (; count > 0; count--) {
        uint64_t *value;

        if (left < LIMIT_HEAD || left - LIMIT_HEAD < at[8]) {
            return false;
        }
        value = find_limit(config, at + LIMIT_HEAD, at[8]);
        if (!value) {
            return false;
        }
        *value = mst_get_u64(at);
        left -= LIMIT_HEAD + at[8];
        at += LIMIT_HEAD + at[8];
    }
    return left == 0;
}

static muster_status resume_again(struct mst_core *core, const struct mst_journal_record *record,
                                  const struct mst_core_config *base)
{
    struct mst_core_config config = *base;

    config.waiting_bytes_max = 0; /* what waited then had room then */
    return mst_input_config_read(record->body, &config)
               ? mst_core_resume(core, record->now_ns, &config)
               : MUSTER_EPROTO;
}

/* ---- any ---- */

muster_status mst_input_again(struct mst_core *core, struct mst_native_arena *arena,
                              const struct mst_journal_record *record,
                              const struct mst_core_config *config)

{
    const struct mst_conn conn = {.id = record->conn};
    bool refused = (record->flags & MST_RECORD_REFUSED) != 0;
    muster_status status = MUSTER_OK;

    switch (record->type) {
    case MST_RECORD_RESUME:
        status = resume_again(core, record, config);
        break;
    case MST_RECORD_OPEN:
        status = refused ? MUSTER_OK : mst_core_open(core, record->now_ns, conn);
        break;
    case MST_RECORD_REQUEST:
        status = request_again(core, arena, record);
        break;
    case MST_RECORD_CLOSE:
        mst_core_close(core, record->now_ns, conn);
        break;
    case MST_RECORD_TICK:
        mst_core_tick(core, record->now_ns);
        break;
    case MST_RECORD_HOLD: /* the text was only for the answers of that time */
        mst_core_hold(core, record->body.size > 0 ? "it was held" : NULL);
        break;
    case MST_RECORD_NONE:
    case MST_RECORD_CONTINUE:
    case MST_RECORD_BASE:
    case MST_RECORD_ENDED:
    case MST_RECORD_BEGUN:
    case MST_RECORD_STOPPED:
    case MST_RECORD_PART:
    case MST_RECORD_WHOLE:
    case MST_RECORD_SEGMENT:
    case MST_RECORD_ENTRY:
    case MST_RECORD_VOTE:
    case MST_RECORD_ABOUT:
        return MUSTER_EPROTO;
    }
    mst_core_drop_effects(core);
    return status;
}
