/* SPDX-License-Identifier: Apache-2.0 */
/* What a watch tells, kept as a copy of the keys; and the audit, which lists all keys when nobody
 * writes any more and compares: with what was acknowledged, and with every copy. */
#include <string.h>

#include "base/digest.h"
#include "observer.h"
#include "properties.h"

static struct sim_copy *copy_of(struct sim_work *work, uint64_t name)
{
    for (uint32_t i = 0; i < work->copy_count; i++) {
        if (work->copies[i].name == name) {
            return &work->copies[i];
        }
    }
    if (work->copy_count == SIM_REPLICA_MAX) {
        return NULL;
    }
    work->copies[work->copy_count] = (struct sim_copy){.name = name};
    return &work->copies[work->copy_count++];
}

static uint64_t digest_of(struct mst_slice bytes)
{
    return mst_digest_slice(MST_DIGEST_INIT, bytes);
}

/* ---- the copy -----------------------------------------------------------------------------------
 */

void sim_replica_ask(struct sim *sim, struct sim_proc *proc)
{
    struct sim_work *work = proc->work;
    struct mst_request request = {.command = MST_WATCH,
                                  .watch = {.kinds = MST_WATCH_KEYS,
                                            .node = MST_NODE_NONE,
                                            .prefix = mst_slice_text(work->prefix),
                                            .after = work->after}};

    work->watch_ns = SIM_NEVER;
    (void)sim_proc_call(sim, proc, SIM_OWNER_WORK, &request, SIM_NEVER, &work->watch_tag);
}

/* WATCH_FORWARD */
static void take(struct sim *sim, struct sim_proc *proc, const struct mst_item *item)
{
    struct sim_work *work = proc->work;
    struct sim_copy *copy;

    if (item->kind == MST_ITEM_RESET) {
        for (uint32_t i = 0; i < work->copy_count; i++) {
            work->copies[i].there = false;
        }
        return;
    }
    if (item->kind != MST_ITEM_KEY && item->kind != MST_ITEM_DELETED) {
        return;
    }
    copy = copy_of(work, digest_of(item->name));
    if (!copy) {
        return;
    }
    if (item->revision < copy->revision) {
        sim_fail(sim, SIM_P_WATCH_FORWARD,
                 "pid=%" PRIu64 " is told of %.*s at %" PRIu64 " after %" PRIu64, proc->pid,
                 (int)item->name.size, (const char *)item->name.data, item->revision,
                 copy->revision);
    }
    if (!mst_slice_starts_with(item->name, mst_slice_text(work->prefix))) {
        sim_fail(sim, SIM_P_WATCH_FORWARD, "%.*s is not under %s", (int)item->name.size,
                 (const char *)item->name.data, work->prefix);
    }
    copy->revision = item->revision;
    copy->there = item->kind == MST_ITEM_KEY;
    copy->value = digest_of(item->value);
}

void sim_replica_page(struct sim *sim, struct sim_proc *proc, const struct mst_reply *reply)
{
    struct sim_work *work = proc->work;

    work->watch_tag = 0;
    work->watch_ns = sim->now_ns;
    if (reply->status != MUSTER_OK) {
        work->watch_ns += sim->plan.lease_ns / 10;
        return;
    }
    for (uint32_t i = 0; i < reply->item_count; i++) {
        take(sim, proc, &reply->items[i]);
    }
    work->after = reply->revision;
}

void sim_saw_watch(struct sim *sim, struct sim_proc *proc, uint64_t after,
                   const struct mst_reply *reply)
{
    if (after != 0 && (after >> 63) == 0 && reply->item_count > 0 && (reply->revision >> 63) == 0 &&
        reply->revision <= after) {
        sim_fail(sim, SIM_P_WATCH_FORWARD,
                 "pid=%" PRIu64 " continues at %" PRIu64 " after %" PRIu64, proc->pid,
                 reply->revision, after);
    }
}

/* ---- the audit ----------------------------------------------------------------------------------
 */

void sim_audit_step(struct sim *sim, struct sim_proc *proc)
{
    struct sim_work *work = proc->work;
    struct mst_request request = {.command = MST_LIST,
                                  .list = {.after = mst_slice_of(work->last, work->last_size)}};

    work->think_ns = SIM_NEVER;
    if (work->watch_tag || work->whole || work->watch_ns > sim->now_ns) {
        return;
    }
    work->watch_ns = SIM_NEVER;
    (void)sim_proc_call(sim, proc, SIM_OWNER_WORK, &request, SIM_NEVER, &work->watch_tag);
}

static uint64_t suffix(struct mst_slice name, const char *kind, bool *is)
{
    struct mst_slice prefix = mst_slice_text(kind);
    uint64_t number = 0;

    *is = mst_slice_starts_with(name, prefix);
    for (size_t i = prefix.size; *is && i < name.size; i++) {
        number = number * 10 + (uint64_t)(((const unsigned char *)name.data)[i] - '0');
    }
    return number; /* of another kind of name: some large number */
}

/* OWNED_GONE */
static void audit_owned(struct sim *sim, uint64_t pid)
{
    for (uint32_t i = 0; i < sim->proc_count; i++) {
        if (sim->procs[i]->pid == pid && (!sim->procs[i]->alive || sim->procs[i]->ended)) {
            sim_fail(sim, SIM_P_OWNED_GONE, "pid=%" PRIu64, pid);
        }
    }
}

static void audit_item(struct sim *sim, struct sim_proc *proc, const struct mst_item *item)
{
    struct model_job *job = proc->job;
    struct model_keys *keys = &job->keys;
    struct mst_reply as_read = {
        .status = MUSTER_OK, .revision = item->revision, .value = item->value};
    struct sim_copy *copy = copy_of(proc->work, digest_of(item->name));
    bool is;
    uint64_t number = suffix(item->name, "sum/", &is);

    if (copy) {
        copy->revision = item->revision;
        copy->value = digest_of(item->value);
        copy->there = true;
    }
    if (is) {
        sim_keys_sum_read(sim, job, (uint32_t)number, item->value, &keys->counters[number]);
        keys->counters[number].read = true;
    }
    number = suffix(item->name, "log/", &is);
    if (is) {
        sim_keys_log_read(sim, job, (uint32_t)number, item->value, &keys->logs[number]);
        keys->logs[number].read = true;
    }
    number = suffix(item->name, "reg/", &is);
    if (is && number < MODEL_REGISTERS) {
        sim_keys_read(sim, &keys->registers[number], keys->registers[number].acked, &as_read);
        keys->registers[number].read = true;
    }
    number = suffix(item->name, "flag/", &is);
    if (is) {
        sim_keys_flag_read(sim, &keys->flags[number], keys->flags[number].revision, &as_read);
        keys->flags[number].read = true;
    }
    number = suffix(item->name, "owned/", &is);
    if (is) {
        audit_owned(sim, number);
    }
}

/* What was acknowledged must be there at all. */
static void audit_absent(struct sim *sim, struct model_job *job)
{
    static const struct mst_reply absent = {.status = MUSTER_ENOTFOUND};
    struct model_keys *keys = &job->keys;

    for (uint32_t i = 0; i < MODEL_COUNTERS; i++) {
        if (!keys->counters[i].read) {
            sim_keys_sum_read(sim, job, i, mst_slice_of(NULL, 0), &keys->counters[i]);
        }
    }
    for (uint32_t i = 0; i < MODEL_LOGS; i++) {
        if (!keys->logs[i].read) {
            sim_keys_log_read(sim, job, i, mst_slice_of(NULL, 0), &keys->logs[i]);
        }
    }
    for (uint32_t i = 0; i < MODEL_REGISTERS; i++) {
        if (!keys->registers[i].read) {
            sim_keys_read(sim, &keys->registers[i], keys->registers[i].acked, &absent);
        }
    }
    for (uint32_t i = 0; i < MODEL_FLAGS; i++) {
        if (!keys->flags[i].read) {
            sim_keys_flag_read(sim, &keys->flags[i], keys->flags[i].revision, &absent);
        }
    }
}

void sim_audit_page(struct sim *sim, struct sim_proc *proc, const struct mst_reply *reply)
{
    struct sim_work *work = proc->work;

    work->watch_tag = 0;
    work->watch_ns = sim->now_ns;
    if (reply->status != MUSTER_OK) {
        return;
    }
    for (uint32_t i = 0; i < reply->item_count; i++) {
        audit_item(sim, proc, &reply->items[i]);
    }
    if (reply->next != 0 && reply->item_count > 0) {
        struct mst_slice last = reply->items[reply->item_count - 1].name;

        work->last_size = (uint32_t)(last.size < sizeof(work->last) ? last.size : 0);
        memcpy(work->last, last.data, work->last_size);
        return;
    }
    audit_absent(sim, proc->job);
    work->whole = true;
    work->watch_ns = SIM_NEVER;
}

/* WATCH_CONVERGES */
static void compare(struct sim *sim, const struct sim_proc *auditor, struct sim_proc *proc)
{
    struct sim_work *work = proc->work;
    struct sim_work *truth = auditor->work;

    for (uint32_t i = 0; i < work->copy_count; i++) {
        const struct sim_copy *copy = &work->copies[i];
        const struct sim_copy *real = copy_of(truth, copy->name);

        if (real && copy->there != real->there) {
            sim_fail(sim, SIM_P_WATCH_CONVERGES, "pid=%" PRIu64 ": a key is %s, and is told as %s",
                     proc->pid, real->there ? "there" : "gone", copy->there ? "there" : "gone");
        }
        if (real && copy->there &&
            (copy->revision != real->revision || copy->value != real->value)) {
            sim_fail(sim, SIM_P_WATCH_CONVERGES,
                     "pid=%" PRIu64 ": a key is at %" PRIu64 ", and is told at %" PRIu64, proc->pid,
                     real->revision, copy->revision);
        }
    }
    for (uint32_t i = 0; work->prefix[0] == '\0' && i < truth->copy_count; i++) {
        const struct sim_copy *copy = copy_of(work, truth->copies[i].name);

        if (copy && truth->copies[i].there && !copy->there) {
            sim_fail(sim, SIM_P_WATCH_CONVERGES, "pid=%" PRIu64 " never heard of a key", proc->pid);
        }
    }
}

void sim_audit_compare(struct sim *sim, const struct sim_proc *auditor)
{
    for (uint32_t i = 0; i < sim->proc_count; i++) {
        struct sim_proc *proc = sim->procs[i];

        if (proc->kind == SIM_OBSERVER && proc->job == auditor->job && proc->alive &&
            !proc->ended) {
            compare(sim, auditor, proc);
        }
    }
}
