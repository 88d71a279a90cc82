/* SPDX-License-Identifier: Apache-2.0 */
/* What a closure has cost: which workers, and how each of them ended. For whoever has to find out
 * why. */
#include "base/text.h"
#include "tasks/machine.h"

enum { NAMED_MAX = 8 };

/* One process; those of a closure in the order in which they ended. */
struct mst_toll {
    struct mst_toll *next;
    uint32_t worker, index;
    struct mst_worker_end end;
    bool child;
    size_t host_size;
    char host[];
};

void mst_toll_add(struct mst_cluster *cluster, struct mst_closure *closure,
                  const struct mst_hand *hand, struct mst_worker_end end, bool child)
{
    struct mst_toll **at = &closure->tolls;
    size_t host_size = hand->host ? hand->host_size : 0;
    unsigned count = 0;

    if (closure->losses < UINT16_MAX) {
        closure->losses++;
    }
    while (*at) {
        at = &(*at)->next;
        count++;
    }
    if (count == NAMED_MAX) {
        return;
    }
    *at = cluster->mem.alloc(cluster->mem.ctx, sizeof(**at) + host_size);
    if (!*at) {
        return; /* it is counted */
    }
    **at = (struct mst_toll){.worker = hand->number,
                             .index = hand->index,
                             .end = end,
                             .child = child,
                             .host_size = host_size};
    if (host_size > 0) {
        memcpy((*at)->host, hand->host, host_size);
    }
}

void mst_tolls_free(const struct mst_mem *mem, struct mst_closure *closure)
{
    while (closure->tolls) {
        struct mst_toll *toll = closure->tolls;

        closure->tolls = toll->next;
        mst_mem_release(mem, toll);
    }
}

static void add_end(struct mst_text *text, struct mst_worker_end end)
{
    switch (end.cause) {
    case MST_CAUSE_EXIT:
        mst_text_add(text, " ended with status ");
        mst_text_i64(text, end.code);
        return;
    case MST_CAUSE_SIGNAL:
    case MST_CAUSE_HARD_TIMEOUT:
        mst_text_add(text, " was killed by signal ");
        mst_text_i64(text, end.code);
        return;
    case MST_CAUSE_GONE:
        mst_text_add(text, " ended, nobody saw how");
        return;
    case MST_CAUSE_NONE:
        mst_text_add(text, " was replaced");
        return;
    case MST_CAUSE_LEASE: /* blames nobody */
    case MST_CAUSE_FAULT:
    case MST_CAUSE_EVICTED:
    case MST_CAUSE_LEFT:
    case MST_CAUSE_SOFT_TIMEOUT:
    case MST_CAUSE_UNHEALTHY:
    case MST_CAUSE_AGAIN:
    case MST_CAUSE_ABORTED:
        break;
    }
    mst_text_add(text, " was given up");
}

static void add_toll(struct mst_text *text, const struct mst_toll *toll)
{
    mst_text_add(text, toll->child ? "a child of worker " : "worker ");
    mst_text_u64(text, toll->worker);
    mst_text_add(text, " (#");
    mst_text_u64(text, toll->index);
    if (toll->host_size > 0) {
        mst_text_add(text, ", node ");
        mst_text_slice(text, mst_slice_of(toll->host, toll->host_size));
    }
    mst_text_add(text, ")");
    add_end(text, toll->end);
}

static void add_count(struct mst_text *text, uint64_t count, const char *one, const char *many)
{
    mst_text_u64(text, count);
    mst_text_add(text, count == 1 ? one : many);
}

struct mst_told *mst_toll_told(const struct mst_cluster *cluster, const struct mst_closure *closure)
{
    char line[MST_FAILURE_TEXT_MAX];
    struct mst_text text = mst_text_in(line, sizeof(line));
    struct mst_failure failure = {
        .origin = MST_ORIGIN_POISON, .worker = closure->ran_on, .attempt = closure->attempt};
    const char *between = ": ";
    uint32_t named = 0;

    mst_text_add(&text, "'");
    mst_text_slice(&text, mst_slice_of(closure->kind->name, closure->kind->name_size));
    mst_text_add(&text, "' cost ");
    add_count(&text, closure->losses, " process in ", " processes in ");
    add_count(&text, closure->attempt, " attempt", " attempts");
    mst_text_add(&text, " and is not run again: mend it, or raise MUSTER_CLUSTER_POISON");
    for (const struct mst_toll *toll = closure->tolls; toll; toll = toll->next) {
        mst_text_add(&text, between);
        add_toll(&text, toll);
        between = ", ";
        named++;
    }
    if (named > 0 && named < closure->losses) {
        mst_text_add(&text, " and ");
        mst_text_u64(&text, closure->losses - named);
        mst_text_add(&text, " more");
    }
    if (closure->ran_on != MST_WORKER_NONE) {
        failure.incarnation = cluster->hands[closure->ran_on]->incarnation;
    }
    failure.text = mst_slice_text(line);
    return mst_told_new(&cluster->mem, &failure);
}
