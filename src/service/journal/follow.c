/* SPDX-License-Identifier: Apache-2.0 */

/* The state of one of several replicas: what another one decided is fed again, until this one
 * leads. */

#include "base/fail.h"
#include "base/panic.h"
#include "service/journal/part.h"

enum { STATE_HEAD = 16 }; /* the core's time, and the largest connection */

/* ---- what another one decided ---- */

static muster_status again(struct mst_journal *journal, const struct mst_journal_record *record)
{
    muster_status status;

    if (record->now_ns < journal->now_ns) {
        return MUSTER_EPROTO;
    }
    status = mst_input_again(journal->core, &journal->arena, record, &journal->config.core);
    journal->now_ns = record->now_ns;
    journal->last_conn = mst_later(journal->last_conn, record->conn);
    journal->records++;
    journal->inputs++;
    return status;
}

muster_status mst_journal_apply(struct mst_journal *journal, struct mst_slice payload,
                                struct muster_error *err)
{
    muster_status status = MUSTER_OK;

    MST_ASSERT(journal->state == MST_JOURNAL_FOLLOWS);
    journal->bytes += payload.size;
    while (payload.size > 0 && status == MUSTER_OK) {
        struct mst_journal_record record;

        status = mst_record_read(&record, &payload) ? again(journal, &record) : MUSTER_EPROTO;
    }
    (void)mst_core_weigh(journal->core);
    if (status == MUSTER_OK) {
        return MUSTER_OK;
    }
    return mst_fail(err, MUSTER_EFAILED, 0,
                    status == MUSTER_EPROTO ? "a record of the common log makes no sense"
                                            : "out of memory for a record of the common log");
}

/* ---- from here on ---- */

muster_status mst_journal_lead(struct mst_journal *journal)
{
    size_t body = mst_input_config_bytes();
    struct mst_journal_record record = {.type = MST_RECORD_RESUME};
    unsigned char *at;
    muster_status status;

    MST_ASSERT(journal->state == MST_JOURNAL_FOLLOWS);
    if (journal->now_ns == 0) {
        journal->now_ns = NS_PER_S;
    }
    at = mst_journal_record_room(journal, MST_RECORD_HEAD + body);
    if (!at) {
        return MUSTER_ENOMEM;
    }
    record.now_ns = journal->now_ns;
    status = mst_core_resume(journal->core, journal->now_ns, &journal->config.core);
    if (status != MUSTER_OK) {
        return status;
    }
    mst_core_drop_effects(journal->core);
    mst_input_config_write(at + MST_RECORD_HEAD, &journal->config.core);
    mst_gather_keep(&journal->frame, &record, body);
    (void)mst_core_weigh(journal->core);
    journal->state = MST_JOURNAL_KEEPS;
    return MUSTER_OK;
}

bool mst_journal_leads(const struct mst_journal *journal)
{
    return journal->state == MST_JOURNAL_KEEPS && journal->config.sink.take;
}

/* ---- the state as bytes ---- */

bool mst_journal_save(const struct mst_journal *journal, const struct mst_snapshot_sink *sink)
{
    unsigned char head[STATE_HEAD];

    mst_put_u64(head, journal->now_ns);
    mst_put_u64(head + 8, journal->last_conn);
    return sink->put(sink->ctx, mst_slice_of(head, sizeof head)) &&
           mst_core_save(journal->core, sink);
}

muster_status mst_journal_load(struct mst_journal *journal, struct mst_slice state,
                               struct mst_core **core, struct muster_error *err)
{
    const unsigned char *bytes = state.data;
    struct mst_core *loaded;
    muster_status status = MUSTER_EPROTO;

    MST_ASSERT(journal->state == MST_JOURNAL_FOLLOWS);
    if (state.size > STATE_HEAD) {
        status = mst_core_load(&loaded, mst_get_u64(bytes),
                               mst_slice_of(bytes + STATE_HEAD, state.size - STATE_HEAD),
                               &journal->config.core, &journal->mem);
    }
    if (status != MUSTER_OK) {
        return status == MUSTER_ENOMEM
                   ? mst_fail(err, status, 0, "out of memory for the state of a snapshot")
                   : mst_fail(err, MUSTER_EFAILED, 0,
                              "the state of a snapshot cannot be read: it is damaged, or of "
                              "another version");
    }
    mst_core_free(journal->core);
    journal->core = loaded;
    journal->now_ns = mst_get_u64(bytes);
    journal->last_conn = mst_get_u64(bytes + 8);
    mst_journal_state_kept(journal);
    *core = loaded;
    return MUSTER_OK;
}

bool mst_journal_state_due(const struct mst_journal *journal)
{
    return journal->records >= journal->config.records_max ||
           journal->bytes >= journal->config.bytes_max;
}

void mst_journal_state_kept(struct mst_journal *journal)
{
    journal->records = journal->bytes = 0;
}

uint64_t mst_journal_inputs(const struct mst_journal *journal)
{
    return journal->inputs;
}
