/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds: the open one and the last one of each name, in the order the names came. */
#include "service/core/keep.h"

#include "proto/vector.h"
#include "service/core/reduce.h"
#include "service/core/seating.h"

/* ---- participants ---- */

static void keep_wanted(struct mst_archive *archive, struct mst_round *round)
{
    bool wanted = round->wanted != NULL;
    uint32_t count = round->wanted_count;

    mst_archive_bool(archive, &wanted);
    if (!wanted) {
        return;
    }
    mst_archive_count(archive, &count, sizeof(uint32_t));
    if (archive->loading) {
        round->wanted =
            mst_archive_made(archive, mst_mem_array(archive->mem, count, sizeof(*round->wanted)));
        round->wanted_count = count;
    }
    for (uint32_t i = 0; i < count && round->wanted; i++) {
        mst_archive_u32(archive, &round->wanted[i]);
    }
}

/* A round of the generation has its ranks as parts, in this order. */
static bool fits(const struct mst_round *round, const struct mst_round_part *part, uint32_t at)
{
    const struct mst_job *job = round->job;

    if (!round->wanted) {
        return at < job->rank_count && part->member == job->ranks[at] && !part->outside;
    }
    return (at == 0 || part->index > round->parts[at - 1].index) && (part->member || part->outside);
}

static void load_part(struct mst_archive *archive, struct mst_round *round, uint32_t at, bool known,
                      bool waits)
{
    struct mst_round_part *part = &round->parts[at];

    if (known) {
        part->member = mst_member_find(round->job, MST_ROLE_RANK, part->index);
    }
    /* A part of an open round follows its seat. */
    if (!mst_archive_expect(
            archive, (!known || part->member) && fits(round, part, at) &&
                         (round->done || part->outside || part->lost == part->member->seat.gone))) {
        return;
    }
    if (waits && mst_archive_expect(archive, part->member && !round->done)) {
        part->member->waits_at = round;
    }
    round->arrived += part->arrived;
    round->lost += part->lost;
    round->settled += part->arrived || part->lost;
}

static void keep_part(struct mst_archive *archive, struct mst_round *round, uint32_t at)
{
    struct mst_round_part *part = &round->parts[at];
    bool known = part->member != NULL;
    bool waits = known && part->member->waits_at == round;

    mst_archive_u32(archive, &part->index);
    mst_archive_bool(archive, &known);
    mst_archive_bool(archive, &waits);
    mst_archive_bool(archive, &part->outside);
    mst_archive_bool(archive, &part->arrived);
    mst_archive_bool(archive, &part->lost);
    mst_archive_bool(archive, &part->differs);
    mst_keep_cause(archive, &part->cause, &part->code);
    mst_archive_u32(archive, &part->place);
    mst_archive_blob(archive, &part->data);
    if (archive->loading) {
        load_part(archive, round, at, known, waits);
        round->kept_bytes += mst_blob_slice(part->data).size;
    }
}

static void keep_parts(struct mst_archive *archive, struct mst_round *round)
{
    uint32_t count = round->part_count;

    mst_archive_count(archive, &count, 2 * sizeof(uint64_t));
    if (archive->loading) {
        round->parts =
            mst_archive_made(archive, mst_mem_array(archive->mem, count, sizeof(*round->parts)));
        round->part_count = round->parts ? count : 0;
        (void)mst_archive_expect(archive,
                                 count > 0 && (round->wanted || count == round->job->rank_count));
    }
    for (uint32_t i = 0; i < round->part_count && mst_archive_good(archive); i++) {
        keep_part(archive, round, i);
    }
    if (archive->loading && mst_archive_good(archive)) {
        (void)mst_archive_expect(archive, mst_seating_order_whole(round));
    }
}

/* ---- what was contributed ---- */

static void keep_carries(struct mst_archive *archive, struct mst_round *round)
{
    size_t count = round->data_size / sizeof(int64_t);

    if (round->reduce != MST_REDUCE_SUM) {
        return;
    }
    if (archive->loading) {
        round->carries =
            mst_archive_made(archive, mst_mem_array(archive->mem, count, sizeof(*round->carries)));
    }
    for (size_t i = 0; i < count && mst_archive_good(archive); i++) {
        mst_archive_i32(archive, &round->carries[i]);
    }
}

/* A sum that is not added yet: the first contribution. */
static struct mst_slice first_kept(const struct mst_round *round)
{
    for (uint32_t i = 0; i < round->part_count; i++) {
        if (round->parts[i].data) {
            return mst_blob_slice(round->parts[i].data);
        }
    }
    return mst_slice_of(NULL, 0);
}

static bool sum_fits(const struct mst_round *round)
{
    bool added = round->value != NULL;

    for (uint32_t i = 0; i < round->part_count; i++) {
        const struct mst_round_part *part = &round->parts[i];

        if ((part->data != NULL) != (part->arrived && !added) ||
            (part->data && part->data->size != round->data_size)) {
            return false;
        }
    }
    return !added || round->done;
}

static bool broadcast_fits(const struct mst_round *round)
{
    const struct mst_round_part *root = round->root < round->job->rank_count
                                            ? mst_round_part(round, round->job->ranks[round->root])
                                            : NULL;

    return root && root->arrived == (round->value != NULL);
}

/* Whether there is a value exactly when there must be one. */
static bool value_fits(const struct mst_round *round)
{
    switch (round->reduce) {
    case MST_REDUCE_NONE:
    case MST_REDUCE_GATHER:
        return !round->value;
    case MST_REDUCE_BROADCAST:
        return broadcast_fits(round);
    case MST_REDUCE_SUM_DOUBLE:
        return sum_fits(round);
    case MST_REDUCE_MIN:
    case MST_REDUCE_MAX:
    case MST_REDUCE_SUM:
    case MST_REDUCE_EQUAL:
    case MST_REDUCE_XOR:
    case MST_REDUCE_MIN_DOUBLE:
    case MST_REDUCE_MAX_DOUBLE:
        break;
    }
    return round->value != NULL;
}

static void keep_value(struct mst_archive *archive, struct mst_round *round)
{
    mst_archive_blob(archive, &round->value);
    if (archive->loading && mst_archive_good(archive)) {
        struct mst_slice one = round->value ? mst_blob_slice(round->value) : first_kept(round);
        bool sized = mst_vector_reduced_by(round->reduce) || round->reduce == MST_REDUCE_EQUAL;

        round->data_size = sized ? one.size : 0;
        (void)mst_archive_expect(archive, value_fits(round) &&
                                              (!sized || mst_reduce_accepts(round->reduce, one)));
    }
    if (mst_archive_good(archive)) {
        keep_carries(archive, round);
    }
}

/* ---- the result ---- */

static void keep_who(struct mst_archive *archive, struct mst_who *who)
{
    MST_ARCHIVE_U32S(archive, &who->index, &who->rank);
    mst_archive_u64(archive, &who->incarnation);
    MST_ARCHIVE_ENUM(archive, who->role, enum mst_role, MST_ROLE_OBSERVER, MST_ROLE_AGENT);
    MST_ARCHIVE_ENUM(archive, who->state, enum mst_state, 0, MST_SPARE);
    mst_keep_cause(archive, &who->cause, &who->code);
    mst_archive_u32(archive, &who->losses);
    MST_ARCHIVE_U64S(archive, &who->heard_ms, &who->pid);
    mst_archive_u32(archive, &who->node);
}

static void keep_detail(struct mst_archive *archive, struct mst_round *round)
{
    struct mst_detail *detail = &round->detail;

    MST_ARCHIVE_U32S(archive, &detail->arrived, &detail->expected, &detail->lost, &detail->missing,
                     &detail->multiple);
    mst_archive_i64(archive, &detail->limit);
    mst_archive_u32(archive, &detail->who_count);
    if (!mst_archive_expect(archive, detail->who_count <= MST_NAMES_MAX)) {
        return;
    }
    for (uint32_t i = 0; i < detail->who_count; i++) {
        keep_who(archive, &detail->who[i]);
        mst_archive_blob(archive, &round->hosts[i]);
        if (archive->loading) {
            detail->who[i].host = mst_blob_slice(round->hosts[i]);
        }
    }
}

/* The ranks of then: the rest of an item is its part. */
static void keep_items(struct mst_archive *archive, struct mst_round *round)
{
    uint32_t part = 0;

    if (archive->loading) {
        round->item_count = mst_round_has_value(round) ? round->arrived : 0;
        round->items = mst_archive_made(
            archive, mst_mem_array(archive->mem, round->part_count + 1u, sizeof(*round->items)));
    }
    for (uint32_t i = 0; i < round->item_count && mst_archive_good(archive); i++) {
        mst_archive_u32(archive, &round->items[i].who.rank);
        if (archive->loading) {
            while (!round->parts[part].arrived) {
                part++;
            }
            round->items[i].kind = MST_ITEM_PART;
            round->items[i].who.index = round->parts[part].index;
            round->items[i].value = mst_blob_slice(round->parts[part].data);
            part++;
        }
    }
}

static void keep_result(struct mst_archive *archive, struct mst_round *round)
{
    if (round->done) {
        MST_ARCHIVE_ENUM(archive, round->status, muster_status, INT32_MIN, MUSTER_OK);
        keep_detail(archive, round);
    } else {
        mst_keep_alarm(archive, round->job->core, &round->alarm);
        (void)mst_archive_expect(archive, round->arrived > 0 &&
                                              (round->seal || round->settled < round->part_count));
    }
    (void)mst_archive_expect(archive, !mst_alarm_is_set(&round->replace_alarm) ||
                                          (!round->done && round->settled == round->part_count));
    if (round->reduce == MST_REDUCE_GATHER && mst_archive_good(archive)) {
        keep_items(archive, round);
    }
}

/* ---- a round ---- */

/* Whether it is a seal; and of one that waits for replacements how long. */
static void keep_seal(struct mst_archive *archive, struct mst_round *round)
{
    bool waits = round->replace_ms != 0;

    mst_archive_bools(archive, &round->seal, &waits);
    if (waits) {
        mst_archive_u64(archive, &round->replace_ms);
        mst_keep_alarm(archive, round->job->core, &round->replace_alarm);
        (void)mst_archive_expect(archive, round->seal && round->replace_ms != 0);
    }
}

static void keep_round(struct mst_archive *archive, struct mst_round *round)
{
    MST_ARCHIVE_U64S(archive, &round->number, &round->deadline_ms);
    MST_ARCHIVE_ENUM(archive, round->on_loss, enum mst_on_loss, MST_FAIL, MST_PROCEED);
    MST_ARCHIVE_ENUM(archive, round->reduce, enum mst_reduce, MST_REDUCE_NONE,
                     MST_REDUCE_BROADCAST);
    if (round->reduce == MST_REDUCE_BROADCAST) { /* no other has a root */
        mst_archive_u32(archive, &round->root);
    }
    mst_archive_bool(archive, &round->present_only);
    keep_seal(archive, round);
    mst_archive_bool(archive, &round->final);
    mst_archive_u32(archive, &round->order_count);
    keep_wanted(archive, round);
    if (mst_archive_expect(archive, !round->seal || !round->wanted)) {
        keep_parts(archive, round);
    }
    if (mst_archive_good(archive)) {
        keep_value(archive, round);
    }
    if (mst_archive_good(archive)) {
        keep_result(archive, round);
    }
}

static struct mst_round *load_round(struct mst_archive *archive, struct mst_job *job,
                                    struct mst_round_name *name, bool done)
{
    struct mst_round *round =
        mst_archive_made(archive, mst_mem_zalloc(archive->mem, sizeof(*round)));

    if (round) {
        round->references = 1;
        round->job = job;
        round->name = name;
        round->done = done;
        round->alarm.kind = MST_ALARM_ROUND;
        round->replace_alarm.kind = MST_ALARM_REPLACE;
        mst_list_init(&round->waiters);
    }
    return round;
}

/* `*place`: the name's open or last round, or NULL. */
static void keep_place(struct mst_archive *archive, struct mst_job *job,
                       struct mst_round_name *name, struct mst_round **place, bool done)
{
    bool there = *place != NULL;

    mst_archive_bool(archive, &there);
    if (there && archive->loading) {
        *place = load_round(archive, job, name, done);
    }
    if (there && *place) {
        keep_round(archive, *place);
    }
    if (done && there && archive->loading && mst_archive_good(archive)) {
        mst_round_owe(*place); /* until the end of the snapshot says more */
    }
}

/* ---- names ---- */

static void keep_name(struct mst_archive *archive, void *ctx, struct mst_list *node)
{
    struct mst_job *job = ctx;
    struct mst_round_name *name = MST_CONTAINER_OR_NULL(node, struct mst_round_name, named.in_list);
    struct mst_slice bytes = mst_archive_name(archive, &job->round_names, node);

    if (archive->loading && mst_archive_good(archive)) {
        name = mst_archive_made(archive, mst_named_new(archive->mem, sizeof(*name), bytes));
    }
    if (!name) {
        return;
    }
    if (archive->loading) {
        mst_round_name_publish(job, name);
    }
    MST_ARCHIVE_U64S(archive, &name->serial, &name->number);
    keep_place(archive, job, name, &name->open, false);
    keep_place(archive, job, name, &name->last, true);
    if (!archive->loading || !mst_archive_good(archive)) {
        return;
    }
    (void)mst_archive_expect(archive, (name->open || name->last) &&
                                          (!name->open || name->open->number == name->number) &&
                                          (!name->last || name->last->number + 1 == name->number));
    if (name->open && name->open->seal && mst_archive_expect(archive, !job->seal)) {
        job->seal = name->open;
    }
}

/* ---- who has the last results ---- */

static void keep_taken(struct mst_archive *archive, struct mst_round *last)
{
    uint32_t owed = 0;

    for (uint32_t i = 0; i < last->part_count && mst_archive_good(archive); i++) {
        mst_archive_bool(archive, &last->parts[i].taken);
        owed += !last->parts[i].taken;
    }
    if (archive->loading) {
        last->owed = owed;
    }
}

void mst_keep_results_taken(struct mst_archive *archive, struct mst_core *core)
{
    MST_NAMED_EACH(struct mst_job, job, &core->jobs)
    {
        mst_archive_u64(archive, &job->round_forgotten);
        MST_NAMED_EACH(struct mst_round_name, name, &job->round_names)
        {
            if (name->last) {
                keep_taken(archive, name->last);
            }
        }
    }
}

void mst_keep_rounds(struct mst_archive *archive, struct mst_job *job)
{
    uint64_t serial = job->round_serial;

    mst_archive_u64(archive, &serial);
    mst_archive_list(archive, &job->round_names.list, 2 * sizeof(uint64_t), keep_name, job);
    if (archive->loading) {
        job->round_serial = serial;
    }
}
