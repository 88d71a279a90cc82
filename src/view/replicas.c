/* SPDX-License-Identifier: Apache-2.0 */
#include "view/replicas.h"

#include "proto/run_keys.h"

static const char *const words[] = {[MST_REPLICA_THERE_LEADS] = "leads",
                                    [MST_REPLICA_THERE_FOLLOWS] = "follows",
                                    [MST_REPLICA_THERE_AWAY] = "away"};

void mst_service_process_write(struct mst_text *lines, const struct mst_service_process *process)
{
    mst_text_format(lines, "process %" PRIu64 " %.*s\n", process->pid,
                    MST_SLICE_ARGS(process->host));
}

bool mst_service_process_read(struct mst_slice lines, struct mst_service_process *out)
{
    while (lines.size > 0) {
        struct mst_slice line = mst_slice_cut(&lines, '\n');
        const bool is_it = mst_slice_is(mst_slice_cut(&line, ' '), "process");
        const struct mst_slice pid = mst_slice_cut(&line, ' ');

        if (is_it && mst_slice_number(pid, INT32_MAX, &out->pid) && line.size > 0) {
            out->host = line;
            return true;
        }
    }
    return false;
}

void mst_replica_standby_write(struct mst_text *lines, struct mst_slice address)
{
    mst_text_format(lines, "standby %.*s\n", MST_SLICE_ARGS(address));
}

bool mst_replica_votes(struct mst_slice lines, struct mst_slice address)
{
    while (lines.size > 0) {
        struct mst_slice line = mst_slice_cut(&lines, '\n');

        if (mst_slice_is(mst_slice_cut(&line, ' '), "standby") && mst_slice_equal(line, address)) {
            return false;
        }
    }
    return true;
}

void mst_replica_look_write(struct mst_text *lines, const struct mst_replica_look *look)
{
    mst_text_format(lines, "%.*s %" PRIu64 " %.*s", MST_TEXT_ARGS(words[look->there]), look->behind,
                    MST_SLICE_ARGS(look->address));
    mst_text_add(lines, "\n");
}

static bool read_line(struct mst_slice line, struct mst_replica_look *out)
{
    struct mst_slice there = mst_slice_cut(&line, ' '), behind = mst_slice_cut(&line, ' ');

    for (unsigned i = 0; i <= MST_REPLICA_THERE_LAST; i++) {
        if (mst_slice_is(there, words[i])) {
            out->there = (enum mst_replica_there)i;
            out->address = line;
            return line.size > 0 && mst_slice_number(behind, UINT64_MAX, &out->behind);
        }
    }
    return false;
}

bool mst_replica_look_next(struct mst_slice *lines, struct mst_replica_look *out)
{
    while (lines->size > 0) {
        if (read_line(mst_slice_cut(lines, '\n'), out)) {
            return true;
        }
    }
    return false;
}

void mst_replicas_count(struct mst_slice lines, uint32_t *listed_out, uint32_t *here_out)
{
    struct mst_replica_look look;

    *listed_out = *here_out = 0;
    while (mst_replica_look_next(&lines, &look)) {
        *listed_out += 1;
        *here_out += look.there != MST_REPLICA_THERE_AWAY;
    }
}

bool mst_replica_leader(struct mst_slice lines, struct mst_replica_look *out)
{
    while (mst_replica_look_next(&lines, out)) {
        if (out->there == MST_REPLICA_THERE_LEADS) {
            return true;
        }
    }
    return false;
}

bool mst_replica_node(const struct mst_items *keys, struct mst_slice address, uint32_t *node_out)
{
    const struct mst_slice prefix = mst_slice_text(MST_RUN_REPLICA_PREFIX);

    for (size_t i = 0; i < keys->count; i++) {
        const struct mst_item *key = &keys->items[i];

        if (key->kind == MST_ITEM_KEY && mst_slice_equal(key->value, address) &&
            mst_slice_starts_with(key->name, prefix) &&
            mst_run_number_read(mst_slice_from(key->name, prefix.size), UINT32_MAX, node_out)) {
            return true;
        }
    }
    return false;
}

static void add_name(struct mst_text *text, const struct mst_items *keys, struct mst_slice address)
{
    uint32_t node;

    if (mst_replica_node(keys, address, &node)) {
        mst_text_format(text, "node %" PRIu32 " (%.*s)", node, MST_SLICE_ARGS(address));
    } else {
        mst_text_slice(text, address);
    }
}

void mst_replicas_sentence(struct mst_text *text, struct mst_slice lines,
                           const struct mst_items *keys)
{
    struct mst_replica_look look;
    uint32_t listed, here;

    mst_replicas_count(lines, &listed, &here);
    if (listed == 0) {
        return;
    }
    if (mst_replica_leader(lines, &look)) {
        add_name(text, keys, look.address);
        mst_text_add(text, " leads, ");
    }
    mst_text_format(text, "%" PRIu32 " of %" PRIu32 " replica%s", here, listed,
                    listed == 1 ? "" : "s");
    while (mst_replica_look_next(&lines, &look)) {
        if (look.there != MST_REPLICA_THERE_LEADS) {
            mst_text_add(text, ", ");
            add_name(text, keys, look.address);
        }
        if (look.there == MST_REPLICA_THERE_FOLLOWS) {
            mst_text_format(text, " is %" PRIu64 " entr%s behind", look.behind,
                            look.behind == 1 ? "y" : "ies");
        } else if (look.there == MST_REPLICA_THERE_AWAY) {
            mst_text_add(text, " is away");
        }
    }
}
