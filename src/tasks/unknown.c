/* SPDX-License-Identifier: Apache-2.0 */
/* The failure of closures whose function no worker has. Its text names the functions that the
 * workers have, where a mistyped name or a forgotten module is seen. */
#include "base/text.h"
#include "tasks/machine.h"

#define LISTS_MAX 4 /* different lists of functions in the text; most clusters have one */

/* Workers that have the same functions. */
struct alike {
    const struct mst_task_worker *worker;
    uint32_t more;
};

static bool is_same(const struct mst_cluster_message *a, const struct mst_cluster_message *b)
{
    if (a->function_count != b->function_count) {
        return false;
    }
    for (uint32_t i = 0; i < a->function_count; i++) {
        if (a->functions[i].version != b->functions[i].version ||
            !mst_slice_equal(a->functions[i].name, b->functions[i].name)) {
            return false;
        }
    }
    return true;
}

/* Returns how many lists were found, at most LISTS_MAX. */
static uint32_t find_lists(const struct mst_cluster *cluster, struct alike lists[LISTS_MAX])
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < cluster->worker_count; i++) {
        const struct mst_task_worker *worker = cluster->workers[i];
        uint32_t at = 0;

        if (!worker->link) {
            continue;
        }
        while (at < count && !is_same(lists[at].worker->hello, worker->hello)) {
            at++;
        }
        if (at < count) {
            lists[at].more++;
        } else if (count < LISTS_MAX) {
            lists[count++] = (struct alike){.worker = worker};
        }
    }
    return count;
}

static void add_list(struct mst_text *text, const struct alike *list, struct mst_slice wanted)
{
    const struct mst_cluster_message *hello = list->worker->hello;

    mst_text_format(text, "; worker %u", list->worker->number);
    if (list->more > 0) {
        mst_text_format(text, " (and %u more)", list->more);
    }
    mst_text_add(text, hello->function_count > 0 ? " has" : " has none");
    for (uint32_t i = 0; i < hello->function_count; i++) {
        const struct mst_function *function = &hello->functions[i];

        mst_text_format(text, "%s %.*s", i > 0 ? "," : "", MST_SLICE_ARGS(function->name));
        if (mst_slice_equal(function->name, wanted)) {
            mst_text_format(text, " in version %u", function->version);
        }
    }
}

struct mst_task_failure *mst_kind_unknown(const struct mst_cluster *cluster,
                                          const struct mst_kind *kind)
{
    char line[MST_FAILURE_TEXT_MAX];
    struct mst_text text = mst_text_in(line, sizeof(line));
    struct mst_failure failure = {.origin = MST_ORIGIN_UNKNOWN, .worker = MST_WORKER_NONE};
    struct alike lists[LISTS_MAX];
    uint32_t count = find_lists(cluster, lists);

    mst_text_format(&text, "'%.*s'", MST_SLICE_ARGS(kind->name));
    if (kind->version > 0) {
        mst_text_format(&text, " in version %u", kind->version);
    }
    mst_text_add(&text, ": correct its name, or register it on a worker");
    for (uint32_t i = 0; i < count; i++) {
        add_list(&text, &lists[i], kind->name);
    }
    failure.text = mst_slice_of(line, text.size);
    return mst_failure_copy(&cluster->mem, &failure);
}
