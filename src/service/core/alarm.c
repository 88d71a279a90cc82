/* SPDX-License-Identifier: Apache-2.0 */
#include "service/core/alarm.h"

#include "service/core/state.h"

static struct mst_alarm *alarm_of(struct mst_index_node *node)
{
    return MST_CONTAINER_OR_NULL(node, struct mst_alarm, node);
}

uint64_t mst_alarm_moment(uint64_t now_ns, uint64_t ms)
{
    const uint64_t far_ns = NEVER / 2;

    return now_ns < far_ns && ms < (far_ns - now_ns) / NS_PER_MS ? now_ns + ms * NS_PER_MS : far_ns;
}

void mst_alarm_init(struct mst_alarms *alarms)
{
    mst_index_init(&alarms->tree);
    alarms->serial = 0;
}

void mst_alarm_set(struct mst_core *core, struct mst_alarm *alarm, uint64_t at_ns)
{
    mst_alarm_clear(core, alarm);
    alarm->set_ns = core->now_ns;
    alarm->at_ns = at_ns;
    alarm->serial = ++core->alarms.serial;
    mst_index_put(&core->alarms.tree, &alarm->node, at_ns, alarm->serial);
}

bool mst_alarm_restore(struct mst_core *core, struct mst_alarm *alarm, const struct mst_alarm *kept)
{
    alarm->at_ns = kept->at_ns;
    alarm->set_ns = kept->set_ns;
    alarm->serial = kept->serial;
    return mst_index_try(&core->alarms.tree, &alarm->node, alarm->at_ns, alarm->serial);
}

void mst_alarm_clear(struct mst_core *core, struct mst_alarm *alarm)
{
    mst_index_remove(&core->alarms.tree, &alarm->node);
}

bool mst_alarm_is_set(const struct mst_alarm *alarm)
{
    return mst_index_linked(&alarm->node);
}

uint64_t mst_alarm_first_ns(const struct mst_core *core)
{
    const struct mst_alarm *first = alarm_of(mst_index_first(&core->alarms.tree));

    return first ? first->at_ns : NEVER;
}

struct mst_alarm *mst_alarm_take(struct mst_core *core)
{
    struct mst_alarm *first = alarm_of(mst_index_first(&core->alarms.tree));

    if (!first || first->at_ns > core->now_ns) {
        return NULL;
    }
    mst_alarm_clear(core, first);
    return first;
}

void mst_alarm_shift(struct mst_core *core, uint64_t late_ns)
{
    uint64_t last = core->alarms.serial;
    struct mst_alarm *following = alarm_of(mst_index_first(&core->alarms.tree));
    struct mst_alarm *alarm;

    while ((alarm = following)) {
        uint64_t set_ns = alarm->set_ns;
        uint64_t ran_ns = core->now_ns - set_ns;
        uint64_t by_ns = ran_ns < late_ns ? ran_ns : late_ns;

        following = alarm_of(mst_index_next(&alarm->node));
        /* A shifted one comes again later in the walk; its serial tells. */
        if (alarm->kind != MST_ALARM_LEASE && alarm->serial <= last && by_ns > 0) {
            mst_alarm_set(core, alarm, alarm->at_ns + by_ns);
            alarm->set_ns = set_ns;
        }
    }
}
