/* SPDX-License-Identifier: Apache-2.0 */
/* What a closure has cost: which workers, and how each of them ended. For whoever has to find out
 * why. */
#include "base/text.h"
#include "proto/words.h"
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
                  const struct mst_task_worker *worker, struct mst_worker_end end, bool child)
{
    struct mst_toll **at = &closure->tolls;
    size_t host_size = worker->host ? worker->host_size : 0;
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
    **at = (struct mst_toll){.worker = worker->number,
                             .index = worker->index,
                             .end = end,
                             .child = child,
                             .host_size = host_size};
    if (host_size > 0) {
        memcpy((*at)->host, worker->host, host_size);
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

static void add_toll(struct mst_text *text, const struct mst_toll *toll)
{
    mst_text_format(text, "%sworker %u (#%u%s%.*s) ", toll->child ? "a child of " : "",
                    toll->worker, toll->index, toll->host_size > 0 ? ", node " : "",
                    (int)toll->host_size, toll->host);
    if (toll->end.cause == MST_CAUSE_NONE) {
        mst_text_add(text, "was replaced");
        return;
    }
    mst_cause_sentence(text,
                       &(struct mst_caused){.cause = toll->end.cause, .code = toll->end.code});
}

struct mst_told *mst_toll_told(const struct mst_cluster *cluster, const struct mst_closure *closure)
{
    char line[MST_FAILURE_TEXT_MAX];
    struct mst_text text = mst_text_in(line, sizeof(line));
    struct mst_failure failure = {
        .origin = MST_ORIGIN_POISON, .worker = closure->ran_on, .attempt = closure->attempt};
    const char *between = ": ";
    uint32_t named = 0;

    mst_text_format(&text,
                    "'%.*s' cost %u %s in %u %s and is not run again: mend it, or raise "
                    "MUSTER_CLUSTER_POISON",
                    (int)closure->kind->name_size, closure->kind->name, closure->losses,
                    closure->losses == 1 ? "process" : "processes", closure->attempt,
                    closure->attempt == 1 ? "attempt" : "attempts");
    for (const struct mst_toll *toll = closure->tolls; toll; toll = toll->next) {
        mst_text_add(&text, between);
        add_toll(&text, toll);
        between = ", ";
        named++;
    }
    if (named > 0 && named < closure->losses) {
        mst_text_format(&text, " and %u more", closure->losses - named);
    }
    if (closure->ran_on != MST_WORKER_NONE) {
        failure.incarnation = cluster->workers[closure->ran_on]->incarnation;
    }
    failure.text = mst_slice_text(line);
    return mst_told_new(&cluster->mem, &failure);
}
