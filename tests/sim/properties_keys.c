/* SPDX-License-Identifier: Apache-2.0 */
/* Keys: each value that can be read is told apart from every other, so a read proves what was
 * applied, how often, and in which order. */
#include <string.h>

#include "seen.h"

uint64_t sim_keys_number(struct mst_slice value)
{
    uint64_t number = 0;

    for (unsigned i = 0; i < 8 && i < value.size; i++) {
        number |= (uint64_t)((const unsigned char *)value.data)[i] << (8 * i);
    }
    return number;
}

static enum model_fate fate_of(muster_status status)
{
    if (status == MUSTER_OK) {
        return MODEL_ACKED;
    }
    return status == MUSTER_ENOMEM || status == MUSTER_ELIMIT || status == MUSTER_ENOSPACE
               ? MODEL_REFUSED
               : MODEL_UNKNOWN;
}

/* ---- sums ---------------------------------------------------------------------------------------
 */

/* ADD_ONCE. `acked`: what was acknowledged when the sum was asked for. */
static void check_sum(struct sim *sim, const struct model_counter *counter,
                      const struct model_counter *acked, uint64_t sum)
{
    for (uint32_t slot = 0; slot < MODEL_ADDS; slot++) {
        unsigned times = (unsigned)(sum >> (2 * slot)) & 3u;

        if (times > 1) {
            sim_fail(sim, SIM_P_ADD_ONCE, "add %u is in the sum %u times", slot, times);
        }
        if (times == 1 &&
            (counter->fate[slot] == MODEL_UNISSUED || counter->fate[slot] == MODEL_REFUSED)) {
            sim_fail(sim, SIM_P_ADD_ONCE, "add %u is in the sum and was refused", slot);
        }
        if (times == 0 && acked->fate[slot] == MODEL_ACKED) {
            sim_fail(sim, SIM_P_ADD_ONCE, "add %u was acknowledged and is not in the sum", slot);
        }
    }
}

void sim_keys_added(struct sim *sim, struct model_job *job, uint32_t counter, uint32_t slot,
                    const struct mst_reply *reply)
{
    struct model_counter *model = &job->keys.counters[counter];

    model->fate[slot] = fate_of(reply->status);
    if (reply->status == MUSTER_OK && (((uint64_t)reply->number >> (2 * slot)) & 3u) != 1) {
        sim_fail(sim, SIM_P_ADD_ONCE, "the sum told for add %u is %" PRIx64, slot,
                 (uint64_t)reply->number);
    }
}

static uint64_t decimal(struct mst_slice text)
{
    uint64_t number = 0;

    for (size_t i = 0; i < text.size; i++) {
        number = number * 10 + (uint64_t)(((const unsigned char *)text.data)[i] - '0');
    }
    return number;
}

void sim_keys_sum_read(struct sim *sim, struct model_job *job, uint32_t counter,
                       struct mst_slice value, const struct model_counter *before)
{
    check_sum(sim, &job->keys.counters[counter], before, decimal(value));
}

/* ---- appended values ----------------------------------------------------------------------------
 */

void sim_keys_appended(struct model_job *job, uint32_t log, uint32_t slot,
                       const struct mst_reply *reply)
{
    job->keys.logs[log].fate[slot] = fate_of(reply->status);
}

/* APPEND_ONCE */
void sim_keys_log_read(struct sim *sim, struct model_job *job, uint32_t log, struct mst_slice value,
                       const struct model_log *before)
{
    const unsigned char *bytes = value.data;
    uint32_t times[MODEL_TOKENS] = {0};

    for (size_t i = 0; i < value.size; i++) {
        if (bytes[i] < 'A' || bytes[i] >= 'A' + MODEL_TOKENS) {
            sim_fail(sim, SIM_P_APPEND_ONCE, "byte %u was never appended", bytes[i]);
        }
        times[bytes[i] - 'A']++;
    }
    for (uint32_t slot = 0; slot < MODEL_TOKENS; slot++) {
        enum model_fate fate = job->keys.logs[log].fate[slot];
        bool may = fate == MODEL_ACKED || fate == MODEL_UNKNOWN;

        if (times[slot] > (may ? 1u : 0u) ||
            (times[slot] == 0 && before->fate[slot] == MODEL_ACKED)) {
            sim_fail(sim, SIM_P_APPEND_ONCE, "append %u is there %u times", slot, times[slot]);
        }
    }
}

/* ---- registers ----------------------------------------------------------------------------------
 */

/* READ_TRUE: one value per revision. */
void sim_keys_version(struct sim *sim, struct model_register *reg, uint64_t revision,
                      uint64_t value)
{
    for (uint32_t i = 0; i < reg->version_count; i++) {
        if (reg->versions[i].revision == revision) {
            if (reg->versions[i].value != value) {
                sim_fail(sim, SIM_P_READ_TRUE,
                         "revision %" PRIu64 " was %" PRIu64 " and is %" PRIu64, revision,
                         reg->versions[i].value, value);
            }
            return;
        }
        if (reg->versions[i].value == value) {
            sim_fail(sim, SIM_P_READ_TRUE,
                     "value %" PRIu64 " has revisions %" PRIu64 " and %" PRIu64, value,
                     reg->versions[i].revision, revision);
        }
    }
    if (reg->version_count < MODEL_VERSIONS) {
        reg->versions[reg->version_count++] = (struct model_version){revision, value};
    }
}

void sim_keys_put(struct sim *sim, struct model_register *reg, uint64_t value,
                  const struct mst_reply *reply)
{
    if (reply->status == MUSTER_OK) {
        sim_keys_version(sim, reg, reply->revision, value);
        if (reply->revision > reg->acked) {
            reg->acked = reply->revision;
        }
    }
}

/* READ_NEWEST */
void sim_keys_read(struct sim *sim, struct model_register *reg, uint64_t acked_before,
                   const struct mst_reply *reply)
{
    uint64_t revision = reply->status == MUSTER_OK ? reply->revision : 0;

    if (reply->status != MUSTER_OK && reply->status != MUSTER_ENOTFOUND) {
        return;
    }
    if (revision < acked_before) {
        sim_fail(sim, SIM_P_READ_NEWEST,
                 "revision %" PRIu64 " is read, %" PRIu64 " was acknowledged", revision,
                 acked_before);
    }
    if (reply->status == MUSTER_OK) {
        sim_keys_version(sim, reg, revision, sim_keys_number(reply->value));
    }
}

/* ---- ages ---------------------------------------------------------------------------------------
 */

static struct model_age *age_of(struct model_job *job, uint64_t revision)
{
    struct model_age *age = &job->keys.ages[revision % MODEL_AGES];

    if (age->revision != revision) {
        *age = (struct model_age){.revision = revision, .until_ns = UINT64_MAX};
        if (revision > job->told_revision && job->told_ns > 0) {
            age->after_ns = job->told_ns - 1; /* a watch was told that there was none so new */
        }
    }
    return age;
}

/* KEY_AGE: whatever is told of one revision at different times names the same moment, one at which
 * it can have been written; also after the service began again: its clock stands still while away.
 */
static void check_age(struct sim *sim, struct model_job *job, uint64_t revision, uint64_t age_ms)
{
    struct model_age *age = age_of(job, revision);
    uint64_t now = sim_service_clock(sim);
    uint64_t until = now - age_ms * SIM_MS;

    if (age_ms > now / SIM_MS || age_ms < age->told_ms) {
        sim_fail(sim, SIM_P_KEY_AGE, "%s: revision %" PRIu64 " is %" PRIu64 " ms old, was %" PRIu64,
                 job->name, revision, age_ms, age->told_ms);
    }
    age->told_ms = age_ms;
    age->until_ns = until < age->until_ns ? until : age->until_ns;
    age->after_ns = until - SIM_MS > age->after_ns ? until - SIM_MS : age->after_ns;
    if (age->after_ns >= age->until_ns) {
        sim_fail(sim, SIM_P_KEY_AGE,
                 "%s: revision %" PRIu64 " is %" PRIu64 " ms old at %.6f, but is not from before "
                 "%.6f, nor from after %.6f",
                 job->name, revision, age_ms, (double)now / 1e9, (double)age->after_ns / 1e9,
                 (double)age->until_ns / 1e9);
    }
}

void sim_keys_told(struct sim *sim, struct model_job *job, const struct mst_reply *reply)
{
    if (reply->status != MUSTER_OK) {
        return;
    }
    if (reply->command == MST_GET) {
        check_age(sim, job, reply->revision, (uint64_t)reply->number);
    } else if (reply->command == MST_WRITE &&
               reply->revision != 0) { /* now, or when it was first */
        struct model_age *age = age_of(job, reply->revision);
        uint64_t now = sim_service_clock(sim);

        age->until_ns = now < age->until_ns ? now : age->until_ns;
    }
    for (uint32_t i = 0; i < reply->item_count; i++) {
        const struct mst_item *item = &reply->items[i];

        if (item->kind == MST_ITEM_KEY || item->kind == MST_ITEM_DELETED) {
            check_age(sim, job, item->revision, item->number);
        }
    }
}

/* The time that was told is gone with the host, as it was not synced, or with a full disk; so is,
 * for what is written after it, the number of a revision. */
void sim_keys_time_lost(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->plan.jobs; i++) {
        memset(sim->jobs[i].keys.ages, 0, sizeof sim->jobs[i].keys.ages);
        sim->jobs[i].told_ns = 0;
    }
}

/* ---- races --------------------------------------------------------------------------------------
 */

/* CAS_ONE */
void sim_keys_swapped(struct sim *sim, struct model_cell *cell, uint64_t expected,
                      const struct mst_reply *reply)
{
    if (reply->status != MUSTER_OK) {
        return;
    }
    for (uint32_t i = 0; i < cell->won_count; i++) {
        if (cell->won[i] == expected) {
            sim_fail(sim, SIM_P_CAS_ONE, "two win against revision %" PRIu64, expected);
        }
    }
    if (reply->revision <= expected) {
        sim_fail(sim, SIM_P_CAS_ONE, "revision %" PRIu64 " after %" PRIu64, reply->revision,
                 expected);
    }
    if (cell->won_count < MODEL_VERSIONS) {
        cell->won[cell->won_count++] = expected;
    }
    if (reply->revision > cell->acked) {
        cell->acked = reply->revision;
    }
}

/* INSERT_ONE */
void sim_keys_inserted(struct sim *sim, struct model_flag *flag, uint64_t value,
                       const struct mst_reply *reply)
{
    if (reply->status != MUSTER_OK) {
        return;
    }
    if (flag->winners > 0 || (flag->value != 0 && flag->value != value)) {
        sim_fail(sim, SIM_P_INSERT_ONE, "%" PRIu64 " and %" PRIu64 " have won", flag->value, value);
    }
    flag->winners++;
    flag->value = value;
    flag->revision = reply->revision;
}

void sim_keys_flag_read(struct sim *sim, struct model_flag *flag, uint64_t acked_before,
                        const struct mst_reply *reply)
{
    if (reply->status == MUSTER_ENOTFOUND && acked_before > 0) {
        sim_fail(sim, SIM_P_READ_NEWEST, "an insert at revision %" PRIu64 " is not there",
                 acked_before);
    }
    if (reply->status != MUSTER_OK) {
        return;
    }
    if (flag->value != 0 && flag->value != sim_keys_number(reply->value)) {
        sim_fail(sim, SIM_P_INSERT_ONE, "%" PRIu64 " was there, %" PRIu64 " is", flag->value,
                 sim_keys_number(reply->value));
    }
    flag->value = sim_keys_number(reply->value);
}
