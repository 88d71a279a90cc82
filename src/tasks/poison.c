/* SPDX-License-Identifier: Apache-2.0 */
/* The workers that a closure cost, and how each of them ended: the text of a POISON failure, for
 * the one who has to find the reason. */
#include "base/text.h"
#include "proto/words.h"
#include "tasks/machine.h"

enum { NAMED_MAX = 8 };

/* One process; those of a closure in the order in which they ended. */
struct mst_task_loss {
    struct mst_task_loss *next;
    uint32_t worker, index;
    struct mst_worker_end end;
    bool child;
    size_t host_size;
    char host[];
};

void mst_poison_add(struct mst_cluster *cluster, struct mst_closure *closure,
                    const struct mst_task_worker *worker, struct mst_worker_end end, bool child)
{
    struct mst_task_loss **at = &closure->lost;
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
    **at = (struct mst_task_loss){.worker = worker->number,
                                  .index = worker->index,
                                  .end = end,
                                  .child = child,
                                  .host_size = host_size};
    if (host_size > 0) {
        memcpy((*at)->host, worker->host, host_size);
    }
}

void mst_poison_free(const struct mst_mem *mem, struct mst_closure *closure)
{
    while (closure->lost) {
        struct mst_task_loss *loss = closure->lost;

        closure->lost = loss->next;
        mst_mem_release(mem, loss);
    }
}

static void add_loss(struct mst_text *text, const struct mst_task_loss *loss)
{
    mst_text_format(text, "%sworker %u (#%u%s%.*s) ", loss->child ? "a child of " : "",
                    loss->worker, loss->index, loss->host_size > 0 ? ", node " : "",
                    (int)loss->host_size, loss->host);
    if (loss->end.cause == MST_CAUSE_NONE) {
        mst_text_add(text, "was replaced");
        return;
    }
    mst_cause_sentence(text,
                       &(struct mst_caused){.cause = loss->end.cause, .code = loss->end.code});
}

struct mst_task_failure *mst_poison_failure(const struct mst_cluster *cluster,
                                            const struct mst_closure *closure)
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
    for (const struct mst_task_loss *loss = closure->lost; loss; loss = loss->next) {
        mst_text_add(&text, between);
        add_loss(&text, loss);
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
    return mst_failure_copy(&cluster->mem, &failure);
}
