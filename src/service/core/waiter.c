/* SPDX-License-Identifier: Apache-2.0 */
#include "service/core/waiter.h"

#include <string.h>

#include "service/core/job.h"
#include "service/core/key.h"
#include "service/core/link.h"
#include "service/core/pin.h"
#include "service/core/round.h"
#include "service/core/watch.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define POISON ASAN_POISON_MEMORY_REGION
#define UNPOISON ASAN_UNPOISON_MEMORY_REGION
#else
#define POISON(pointer, size)
#define UNPOISON(pointer, size)
#endif

/* ---- what the commands that have a part of the union do with it ---- */

static void stop_join(struct mst_waiter *waiter)
{
    struct mst_session *session = waiter->join.session;

    if (!session) {
        return;
    }
    MST_ASSERT(session->join == waiter);
    session->join = NULL;
    waiter->join.session = NULL;
    if (mst_session_holds(session)) {
        mst_member_unready(session->member);
    }
}

static void release_prefix(struct mst_waiter *waiter)
{
    mst_watch_release_prefix(waiter->core, waiter->watch.prefix);
}

static void release_names(struct mst_waiter *waiter)
{
    mst_blob_drop(&waiter->core->mem, waiter->list.prefix);
    mst_blob_drop(&waiter->core->mem, waiter->list.after_name);
}

static const struct row {
    void (*stop)(struct mst_waiter *waiter);    /* leaves what it waits in */
    void (*release)(struct mst_waiter *waiter); /* what the part holds */
} rows[] = {
    [MST_JOIN] = {.stop = stop_join},
    [MST_GET] = {.stop = mst_key_stop},
    [MST_WAIT] = {.stop = mst_key_stop},
    [MST_WATCH] = {.stop = mst_watch_stop, .release = release_prefix},
    [MST_LIST] = {.release = release_names},
};

static struct row row_of(enum mst_command command)
{
    return command < sizeof(rows) / sizeof(rows[0]) ? rows[command] : (struct row){NULL, NULL};
}

static bool has_part(enum mst_command command)
{
    struct row row = row_of(command);

    return row.stop || row.release;
}

/* ---- their memory ----
 *
 * Without a part a waiter is smaller, and thousands of rounds may wait. Most requests are answered
 * at once, and the allocator would need longer for their waiters than the core for the requests: so
 * a few are kept. The address sanitizer reports a use of those as one after the free. */

#define SMALL offsetof(struct mst_waiter, waiting_bytes)

static struct mst_waiter *make(struct mst_core *core, enum mst_command command)
{
    struct mst_waiter *spare;

    if (has_part(command)) {
        return mst_mem_zalloc(&core->mem, sizeof(struct mst_waiter));
    }
    if (core->spare_count == 0) {
        return mst_mem_zalloc(&core->mem, SMALL);
    }
    spare = core->spares[--core->spare_count];
    UNPOISON(spare, SMALL);
    return memset(spare, 0, SMALL);
}

static void unmake(struct mst_core *core, struct mst_waiter *waiter)
{
    if (has_part(waiter->command) || core->spare_count == MST_WAITER_SPARES) {
        mst_mem_release(&core->mem, waiter);
        return;
    }
    POISON(waiter, SMALL);
    core->spares[core->spare_count++] = waiter;
}

void mst_waiter_free_spares(struct mst_core *core)
{
    while (core->spare_count > 0) {
        struct mst_waiter *spare = core->spares[--core->spare_count];

        UNPOISON(spare, SMALL);
        mst_mem_release(&core->mem, spare);
    }
}

struct mst_waiter *mst_waiter_new(struct mst_core *core, struct mst_link *link,
                                  const struct mst_request *request)
{
    struct mst_waiter *waiter = make(core, request->command);

    if (!waiter) {
        return NULL;
    }
    waiter->todo.type = MST_EFFECT_REPLY;
    waiter->core = core;
    waiter->link = link;
    waiter->id = request->id;
    waiter->command = request->command;
    waiter->stage = MST_ADMITTED;
    mst_list_append(&link->waiters, &waiter->in_link);
    link->waiter_count++;
    return waiter;
}

void mst_waiter_leave_link(struct mst_waiter *waiter)
{
    if (waiter->link) {
        mst_list_remove(&waiter->in_link);
        waiter->link->waiter_count--;
        waiter->link = NULL;
    }
}

void mst_waiter_return_to_link(struct mst_waiter *waiter, struct mst_link *link)
{
    MST_ASSERT(!waiter->link);
    waiter->link = link;
    mst_list_append(&link->waiters, &waiter->in_link);
    link->waiter_count++;
}

void mst_waiter_set_job(struct mst_waiter *waiter, struct mst_job *job)
{
    MST_ASSERT(!waiter->job);
    waiter->job = job;
    mst_job_keep(job);
}

void mst_waiter_set_view(struct mst_waiter *waiter, struct mst_view view)
{
    waiter->has_view = true;
    waiter->view = view;
}

/* ---- waiting ----
 *
 * In two rows: reads, of which there may be very many, and the few others. */

enum { READS = 0, FEW = 1 };

static uint64_t row_in_link(const struct mst_waiter *waiter)
{
    return waiter->command == MST_ROUND || waiter->command == MST_JOIN ? FEW : READS;
}

muster_status mst_waiter_check_wait(struct mst_waiter *waiter, uint64_t bytes)
{
    uint64_t most = waiter->core->config.waiting_bytes_max;
    uint64_t asked = waiter->link->waiting_bytes + bytes;

    return most != 0 && asked > most
               ? mst_waiter_exceed(waiter, MST_LIMIT_WAITING_BYTES, most, asked)
               : MUSTER_OK;
}

void mst_waiter_wait(struct mst_waiter *waiter, uint64_t bytes)
{
    struct mst_link *link = waiter->link;

    waiter->stage = MST_WAITING;
    mst_index_put(&link->waiting, &waiter->in_waiting, row_in_link(waiter), waiter->id);
    if (bytes > 0) {
        waiter->waiting_bytes = bytes;
        link->waiting_bytes += bytes;
        waiter->core->waiting_bytes += bytes;
    }
}

static struct mst_waiter *waiting_of(struct mst_index_node *node)
{
    return MST_CONTAINER_OR_NULL(node, struct mst_waiter, in_waiting);
}

struct mst_waiter *mst_waiter_first_few(const struct mst_link *link)
{
    return waiting_of(mst_index_from(&link->waiting, FEW, 0));
}

struct mst_waiter *mst_waiter_next_few(const struct mst_waiter *waiter)
{
    return waiting_of(mst_index_next(&waiter->in_waiting));
}

struct mst_waiter *mst_waiter_find(const struct mst_link *link, uint64_t id)
{
    struct mst_index_node *node = mst_index_find(&link->waiting, READS, id);

    return waiting_of(node ? node : mst_index_find(&link->waiting, FEW, id));
}

static void stop(struct mst_waiter *waiter)
{
    struct row row = row_of(waiter->command);

    mst_list_remove(&waiter->in_round);
    if (waiter->stage != MST_WAITING) {
        return;
    }
    mst_index_remove(&waiter->link->waiting, &waiter->in_waiting);
    if (has_part(waiter->command)) {
        waiter->link->waiting_bytes -= waiter->waiting_bytes;
        waiter->core->waiting_bytes -= waiter->waiting_bytes;
        waiter->waiting_bytes = 0;
    }
    if (row.stop) {
        row.stop(waiter);
    }
}

void mst_waiter_free(struct mst_waiter *waiter)
{
    struct row row = row_of(waiter->command);
    struct mst_core *core = waiter->core;
    struct mst_job *job = waiter->job;

    stop(waiter);
    if (row.release) {
        row.release(waiter);
    }
    mst_pin_drop_value(core, waiter->value);
    if (waiter->round) {
        mst_pin_drop_round(core, waiter->round);
    }
    mst_waiter_leave_link(waiter);
    mst_list_remove(&waiter->todo.link);
    unmake(core, waiter);
    if (job) {
        mst_job_let_go(job);
    }
}

void mst_waiter_answer(struct mst_waiter *waiter, muster_status status)
{
    MST_ASSERT(waiter->stage != MST_QUEUED);
    MST_ASSERT((status == MUSTER_ELIMIT) == (waiter->limit_kind != MST_LIMIT_UNSAID));
    mst_counts_read(&waiter->core->counts, waiter->command, status, waiter->stage == MST_WAITING);
    stop(waiter);
    waiter->status = status;
    waiter->stage = MST_QUEUED;
    mst_list_append(&waiter->core->effects, &waiter->todo.link);
}

muster_status mst_waiter_refuse(struct mst_waiter *waiter, muster_status status, uint64_t limit)
{
    waiter->detail = MST_DETAIL_LIMIT;
    waiter->limit = limit > INT64_MAX ? INT64_MAX : (int64_t)limit;
    return status;
}

muster_status mst_waiter_exceed(struct mst_waiter *waiter, enum mst_limit_kind kind, uint64_t most,
                                uint64_t asked)
{
    waiter->limit_kind = kind;
    waiter->asked = asked;
    return mst_waiter_refuse(waiter, MUSTER_ELIMIT, most);
}

muster_status mst_waiter_exceed_limit(struct mst_waiter *waiter, enum mst_limit_kind kind,
                                      uint64_t asked)
{
    struct mst_excess excess = mst_excess_of(&waiter->core->config.limits, kind, asked);

    return mst_waiter_exceed(waiter, kind, excess.most, asked);
}

void mst_waiter_name_holder(struct mst_waiter *waiter, struct mst_member *member)
{
    waiter->detail = MST_DETAIL_HOLDER;
    waiter->member = member;
}
