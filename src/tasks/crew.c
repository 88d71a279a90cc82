/* SPDX-License-Identifier: Apache-2.0 */
/* The workers: the places of the job, who fills them, and what each could take. */
#include "base/panic.h"
#include "tasks/machine.h"

struct mst_hand *mst_hand_find(const struct mst_cluster *cluster, uint32_t index)
{
    struct mst_table_node *node = mst_table_find(&cluster->hands_by_index, index);

    return node ? MST_CONTAINER(node, struct mst_hand, node) : NULL;
}

void mst_hand_todo(struct mst_cluster *cluster, struct mst_hand *hand)
{
    if (hand->link && !mst_list_linked(&hand->todo)) {
        mst_list_append(&cluster->todo, &hand->todo);
    }
}

uint32_t mst_hand_place(const struct mst_hand *hand, const struct mst_kind *kind)
{
    uint32_t place = hand->number < kind->room ? kind->places[hand->number] : 0;

    return place == 0 ? MST_FUNCTION_NONE : place - 1;
}

static bool is_here(enum mst_worker_state state)
{
    return state == MST_WORKER_PRESENT || state == MST_WORKER_SILENT ||
           state == MST_WORKER_DRAINING;
}

bool mst_hand_here(const struct mst_hand *hand)
{
    return is_here(hand->state);
}

/* ---- what it could take ---- */

bool mst_hand_usable(const struct mst_hand *hand)
{
    return hand->link && hand->state == MST_WORKER_PRESENT && !hand->draining && !hand->alone &&
           !mst_tree_linked(&hand->start.node);
}

/* As many as it runs and the least of prefetching; or, if these are short, some work of time, and
 * not more of it than it takes to keep the connection busy. */
static bool has_credit(const struct mst_cluster *cluster, const struct mst_hand *hand)
{
    uint64_t count = (uint64_t)hand->running_count + hand->prefetched_count;
    uint64_t slots = hand->slots;

    return count < slots * (1 + (uint64_t)cluster->config.prefetch) ||
           (hand->load_ns < slots * MST_CLUSTER_PREFETCH_NS &&
            hand->load_bytes < MST_CLUSTER_PREFETCH_BYTES &&
            count < slots * (1 + MST_CLUSTER_PREFETCH_MAX));
}

void mst_hand_update(struct mst_cluster *cluster, struct mst_hand *hand)
{
    bool linked = mst_list_linked(&hand->place);
    enum mst_room room = MST_ROOM_NONE;

    if (hand->reserved && !mst_hand_usable(hand)) { /* another may have it */
        hand->reserved->hand = NULL;
        hand->reserved = NULL;
    }
    if (cluster->end == MUSTER_OK && !hand->reserved && mst_hand_usable(hand)) {
        if (hand->running_count < hand->slots) {
            room = MST_ROOM_SLOT;
        } else if (has_credit(cluster, hand)) {
            room = MST_ROOM_SPARE;
        }
    }
    if (room == hand->room) {
        return;
    }
    if (linked) {
        mst_list_remove(&hand->place);
    }
    if (room != MST_ROOM_NONE) {
        mst_list_append(room == MST_ROOM_SLOT ? &cluster->hungry : &cluster->spare, &hand->place);
    }
    if (room > hand->room) {
        mst_kinds_unstick(cluster, hand);
    }
    hand->room = room;
    if (room == MST_ROOM_SLOT) {
        mst_dispatch_watch(cluster);
    }
}

/* ---- too few ---- */

void mst_crew_few(struct mst_cluster *cluster)
{
    bool few = cluster->connected < cluster->config.min_workers && cluster->end == MUSTER_OK;

    if (!few) {
        mst_alarm_at(cluster, &cluster->too_few, NEVER);
    } else if (!mst_tree_linked(&cluster->too_few.node)) {
        mst_alarm_at(cluster, &cluster->too_few,
                     mst_after_ns(cluster->now_ns, cluster->config.recovery_max_ns));
    }
}

/* ---- members ---- */

static bool hands_grow(struct mst_cluster *cluster)
{
    uint32_t room = cluster->hand_room == 0 ? 16 : 2 * cluster->hand_room;
    struct mst_hand **hands;

    if (!mst_kinds_room(cluster, room) || !mst_values_room(cluster, room)) {
        return false;
    }
    hands = mst_mem_array(&cluster->mem, room, sizeof(struct mst_hand *));
    if (!hands) {
        return false;
    }
    if (cluster->hand_count > 0) {
        memcpy(hands, cluster->hands, cluster->hand_count * sizeof(struct mst_hand *));
    }
    mst_mem_release(&cluster->mem, cluster->hands);
    cluster->hands = hands;
    cluster->hand_room = room;
    return true;
}

static struct mst_hand *hand_new(struct mst_cluster *cluster, uint32_t index)
{
    struct mst_hand *hand = mst_mem_zalloc(&cluster->mem, sizeof(*hand));

    if (hand) {
        hand->index = index;
        hand->number = MST_WORKER_NONE;
        hand->silent.of = MST_ALARM_SILENT;
        hand->away.of = MST_ALARM_AWAY;
        hand->start.of = MST_ALARM_START;
        mst_list_init(&hand->owed);
        mst_list_init(&hand->running);
        mst_list_init(&hand->prefetched);
        mst_list_append(&cluster->members, &hand->member);
        mst_table_insert(&cluster->hands_by_index, index, &hand->node);
    }
    return hand;
}

/* Members that never say HELLO have none. */
bool mst_hand_number(struct mst_cluster *cluster, struct mst_hand *hand)
{
    if (hand->number != MST_WORKER_NONE) {
        return true;
    }
    if (cluster->hand_count == cluster->hand_room && !hands_grow(cluster)) {
        return false;
    }
    hand->number = cluster->hand_count++;
    cluster->hands[hand->number] = hand;
    return true;
}

static void hand_host(struct mst_cluster *cluster, struct mst_hand *hand, struct mst_slice host)
{
    char *copy;

    if (host.size == 0 ||
        mst_slice_equal(host, mst_slice_of(hand->host, hand->host ? hand->host_size : 0))) {
        return;
    }
    copy = cluster->mem.alloc(cluster->mem.ctx, host.size);
    if (copy) { /* else it goes by its number */
        memcpy(copy, host.data, host.size);
        mst_mem_release(&cluster->mem, hand->host);
        hand->host = copy;
        hand->host_size = host.size;
    }
}

static void hand_state(struct mst_cluster *cluster, struct mst_hand *hand,
                       enum mst_worker_state state, struct mst_worker_end end)
{
    if (!mst_hand_here(hand)) {
        return; /* only another incarnation comes back */
    }
    hand->state = state;
    if (!is_here(state)) {
        mst_loss_lost(cluster, hand, state != MST_WORKER_LEFT, end);
    } else if (state == MST_WORKER_DRAINING) {
        hand->draining = true;
    }
}

/* Its place was taken in the step in which it was lost, or before we were told: what is told of the
 * next one there has the end of the last. Of any other nobody knows how it ended. */
static void hand_replaced(struct mst_cluster *cluster, struct mst_hand *hand, uint64_t incarnation,
                          enum mst_worker_state state, struct mst_worker_end end)
{
    if (!is_here(state) || incarnation != hand->incarnation + 1) {
        end = (struct mst_worker_end){.cause = MST_CAUSE_NONE};
    }
    hand->state = MST_WORKER_LOST;
    mst_loss_lost(cluster, hand, end.cause != MST_CAUSE_LEFT, end);
}

muster_status mst_cluster_member(struct mst_cluster *cluster, uint64_t now_ns, uint32_t index,
                                 uint64_t incarnation, enum mst_worker_state state,
                                 struct mst_worker_end end, struct mst_slice host)
{
    struct mst_hand *hand = mst_hand_find(cluster, index);

    cluster->now_ns = now_ns;
    if (!hand && !is_here(state)) {
        return MUSTER_OK;
    }
    if (!hand) {
        hand = hand_new(cluster, index);
        if (!hand) {
            return MUSTER_ENOMEM;
        }
        hand->incarnation = incarnation;
        hand->state = state;
    } else if (incarnation > hand->incarnation) {
        if (is_here(hand->state)) {
            hand_replaced(cluster, hand, incarnation, state, end);
        }
        hand->incarnation = incarnation;
        hand->state = state;
        hand->returned = true;
        hand->results = hand->connection = 0;
        hand->draining = false;
        hand->pid = 0;
    } else if (incarnation == hand->incarnation) {
        hand_state(cluster, hand, state, end);
    } else {
        return MUSTER_OK; /* old news */
    }
    hand_host(cluster, hand, host);
    if (is_here(hand->state) && cluster->hellos > 0) {
        mst_link_member(cluster, hand);
    }
    mst_hand_update(cluster, hand);
    mst_crew_few(cluster);
    return MUSTER_OK;
}

void mst_hand_due(struct mst_cluster *cluster, struct mst_hand *hand, enum mst_alarm_of of)
{
    if (of == MST_ALARM_SILENT) {
        mst_loss_silent(cluster, hand, true);
    } else if (of == MST_ALARM_AWAY) {
        mst_loss_given_up(cluster, hand);
    }
    mst_hand_update(cluster, hand);
}

void mst_cluster_drain_worker(struct mst_cluster *cluster, uint64_t now_ns, uint32_t worker)
{
    cluster->now_ns = now_ns;
    if (worker < cluster->hand_count && !cluster->hands[worker]->draining) {
        struct mst_hand *hand = cluster->hands[worker];

        hand->draining = true;
        hand->owe_drain = true;
        mst_hand_todo(cluster, hand);
        mst_hand_update(cluster, hand);
    }
}

void mst_crew_free(struct mst_cluster *cluster)
{
    MST_LIST_EACH(at, following, &cluster->members)
    {
        struct mst_hand *hand = MST_CONTAINER(at, struct mst_hand, member);

        mst_table_remove(&cluster->hands_by_index, &hand->node);
        mst_mem_release(&cluster->mem, hand->host);
        mst_mem_release(&cluster->mem, hand->functions);
        mst_mem_release(&cluster->mem, hand->strays);
        mst_mem_release(&cluster->mem, hand->stray_values);
        mst_mem_release(&cluster->mem, hand->blamed);
        mst_mem_release(&cluster->mem, hand);
    }
    mst_mem_release(&cluster->mem, cluster->hands);
}
