/* SPDX-License-Identifier: Apache-2.0 */
/* The workers that a closure cost, and how each of them ended: the text of a POISON failure, for
 * the one who has to find the reason. */
#include "base/text.h"
#include "proto/words.h"
#include "tasks/machine.h"

enum { NAMED_MAX = 8 };

struct mst_task_losses {
    uint32_t named;
    char text[];
};

void mst_poison_add(struct mst_cluster *cluster, struct mst_closure *closure,
                    const struct mst_task_worker *worker, struct mst_worker_end end, bool child)
{
    char line[MST_FAILURE_TEXT_MAX];
    struct mst_text text = mst_text_in(line, sizeof(line));
    struct mst_task_losses *lost = closure->lost, *more;

    if (closure->losses < UINT16_MAX) {
        closure->losses++;
    }
    if (lost && lost->named == NAMED_MAX) {
        return;
    }
    mst_text_format(&text, "%s%s%sworker %u (#%u%s%.*s) ", lost ? lost->text : "",
                    lost ? ", " : ": ", child ? "a child of " : "", worker->number, worker->index,
                    worker->host ? ", node " : "", (int)worker->host_size, worker->host);
    if (end.cause == MST_CAUSE_NONE) {
        mst_text_add(&text, "was replaced");
    } else {
        mst_cause_sentence(&text, &(struct mst_caused){.cause = end.cause, .code = end.code});
    }
    more = cluster->mem.alloc(cluster->mem.ctx, sizeof(*more) + text.size + 1);
    if (more) { /* else it is only counted */
        more->named = lost ? lost->named + 1 : 1;
        memcpy(more->text, line, text.size + 1);
        mst_mem_release(&cluster->mem, lost);
        closure->lost = more;
    }
}

struct mst_task_failure *mst_poison_failure(const struct mst_cluster *cluster,
                                            const struct mst_closure *closure)
{
    char line[MST_FAILURE_TEXT_MAX];
    struct mst_text text = mst_text_in(line, sizeof(line));
    struct mst_failure failure = {
        .origin = MST_ORIGIN_POISON, .worker = closure->ran_on, .attempt = closure->attempt};
    uint32_t named = closure->lost ? closure->lost->named : 0;

    mst_text_format(&text,
                    "'%.*s' cost %u %s in %u %s and is not run again: mend it, or raise "
                    "MUSTER_CLUSTER_POISON%s",
                    MST_SLICE_ARGS(closure->kind->name), closure->losses,
                    closure->losses == 1 ? "process" : "processes", closure->attempt,
                    closure->attempt == 1 ? "attempt" : "attempts",
                    closure->lost ? closure->lost->text : "");
    if (named > 0 && named < closure->losses) {
        mst_text_format(&text, " and %u more", closure->losses - named);
    }
    if (closure->ran_on != MST_WORKER_NONE) {
        failure.incarnation = cluster->workers[closure->ran_on]->incarnation;
    }
    failure.text = mst_slice_text(line);
    return mst_failure_copy(&cluster->mem, &failure);
}
