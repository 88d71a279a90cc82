/* SPDX-License-Identifier: Apache-2.0 */
/* All times of the machine, in one tree. */
#include "base/panic.h"
#include "tasks/machine.h"

int mst_alarm_order(const void *key, const struct mst_tree_node *node)
{
    const struct mst_task_alarm *a = key;
    const struct mst_task_alarm *b = MST_CONTAINER_CONST(node, struct mst_task_alarm, node);
    int order = mst_tree_compare(a->due_ns, b->due_ns);

    return order != 0 ? order : mst_tree_compare(a->order, b->order);
}

void mst_alarm_at(struct mst_cluster *cluster, struct mst_task_alarm *alarm, uint64_t due_ns)
{
    if (mst_tree_linked(&alarm->node)) {
        if (alarm->due_ns == due_ns) {
            return;
        }
        mst_tree_remove(&cluster->alarms, &alarm->node);
    }
    if (due_ns != NEVER) {
        alarm->due_ns = due_ns;
        alarm->order = ++cluster->alarm_order;
        (void)mst_tree_insert(&cluster->alarms, alarm, &alarm->node);
    }
}

struct mst_task_alarm *mst_alarm_due(struct mst_cluster *cluster, uint64_t now_ns)
{
    struct mst_task_alarm *alarm =
        MST_CONTAINER_OR_NULL(mst_tree_first(&cluster->alarms), struct mst_task_alarm, node);

    if (!alarm || alarm->due_ns > now_ns) {
        return NULL;
    }
    mst_tree_remove(&cluster->alarms, &alarm->node);
    return alarm;
}
