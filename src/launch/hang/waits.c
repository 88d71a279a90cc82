/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/hang/waits.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "launch/hang/suspect.h"
#include "proto/run_keys.h"

#define PARTS 4u /* of a soft timeout */
#define IN_A_ROW 3u
#define PREFIX "muster/waits/"
#define VALUE_ROOM 4096u

static uint64_t half_ns(const struct mst_waits *waits)
{
    return (uint64_t)waits->soft_ms * NS_PER_MS / 2;
}

/* ---- reading ---- */

static struct mst_waits_group *group_of(struct mst_waits *waits, const char *what)
{
    for (unsigned i = 0; i < waits->found.group_count; i++) {
        if (strcmp(waits->found.groups[i].what, what) == 0) {
            return &waits->found.groups[i];
        }
    }
    if (waits->found.group_count == MST_WAITS_GROUPS) {
        waits->found.more = true;
        return NULL;
    }
    return &waits->found.groups[waits->found.group_count++];
}

static void take_group(struct mst_waits *waits, const struct mst_waits_group *told)
{
    struct mst_waits_group *group = group_of(waits, told->what);

    waits->found.sum += told->count;
    waits->found.calls = waits->found.calls || strcmp(told->what, MST_WAITS_RETURNED) != 0;
    if (group != NULL && group->count == 0) {
        *group = *told;
    } else if (group != NULL) {
        group->count += told->count;
        group->several = true;
    }
}

static void take_value(struct mst_waits *waits, struct mst_slice value)
{
    struct mst_run_waits line;

    while (mst_run_waits_take(&value, waits->ranks, &line)) {
        struct mst_waits_group told = {.count = line.count};

        mst_monitor_name(line.ranks, told.ranks, sizeof told.ranks);
        if (line.silent) {
            waits->found.silent_count++;
            memcpy(waits->found.silent, told.ranks, sizeof waits->found.silent);
            continue;
        }
        mst_monitor_name(line.what, told.what, sizeof told.what);
        take_group(waits, &told);
    }
}

static void ask(struct mst_waits *waits);

static void read_on(struct mst_waits *waits, const struct mst_reply *reply)
{
    const struct mst_item *last = &reply->items[reply->item_count - 1];

    if (last->name.size >= sizeof waits->after) {
        waits->in_a_row = 0;
        return;
    }
    memcpy(waits->after, last->name.data, last->name.size);
    waits->after[last->name.size] = '\0';
    ask(waits);
}

static void has_read(struct mst_waits *waits)
{
    uint64_t now_ns = mst_lib_now_ns();
    /* Several silent ones may compute, and so may one for which no rank waits in a call. */
    bool fit =
        waits->found.silent_count == 0 || (waits->found.silent_count == 1 && waits->found.calls);

    if (!fit || waits->found.sum + waits->found.silent_count != waits->ranks) {
        waits->in_a_row = 0;
        return;
    }
    waits->in_a_row = now_ns - waits->full_ns < half_ns(waits) ? waits->in_a_row + 1 : 1;
    waits->full_ns = now_ns;
}

static void on_list(void *ctx, const struct mst_reply *reply)
{
    struct mst_waits *waits = ctx;

    if (reply->status != MUSTER_OK) {
        waits->in_a_row = 0;
        return;
    }
    for (uint32_t i = 0; i < reply->item_count; i++) {
        if (reply->items[i].number < (uint64_t)waits->soft_ms / 2) {
            take_value(waits, reply->items[i].value);
        }
    }
    if (reply->next != 0 && reply->item_count > 0) {
        read_on(waits, reply);
    } else {
        has_read(waits);
    }
}

static void ask(struct mst_waits *waits)
{
    struct mst_request request = {.command = MST_LIST,
                                  .list = {.generation = waits->generation,
                                           .prefix = mst_slice_text(PREFIX),
                                           .after = mst_slice_text(waits->after)}};

    waits->list = (struct mst_lib_post){.complete = on_list, .ctx = waits};
    (void)mst_lib_post(waits->client, &request, mst_lib_now_ns() + half_ns(waits), &waits->list);
}

/* ---- writing ---- */

/* That it was refused shows in what is read. */
static void on_put(void *ctx, const struct mst_reply *reply)
{
    (void)ctx;
    (void)reply;
}

static void put(struct mst_waits *waits, const char *value)
{
    char key[64];
    struct mst_write op = {.kind = MST_PUT, .owned = true, .value = mst_slice_text(value)};
    struct mst_request request = {
        .command = MST_WRITE, .write = {.generation = waits->generation, .ops = &op, .count = 1}};

    (void)snprintf(key, sizeof key, PREFIX "%" PRIu32, mst_lib_view(waits->client)->index);
    op.key = mst_slice_text(key);
    waits->put = (struct mst_lib_post){.complete = on_put, .ctx = waits};
    (void)mst_lib_post(waits->client, &request, mst_lib_now_ns() + half_ns(waits), &waits->put);
}

/* ---- a look ---- */

static void begin(struct mst_waits *waits, muster_client *client, uint64_t generation)
{
    if (waits->client != NULL && waits->client == client) {
        mst_lib_post_drop(client, &waits->put);
        mst_lib_post_drop(client, &waits->list);
    }
    *waits = (struct mst_waits){.client = client, .generation = generation};
}

static void tell(const struct mst_waits *waits, char *text, size_t room)
{
    struct mst_text line = mst_text_in(text, room);

    if (waits->found.silent_count != 0) {
        mst_text_format(&line, "not one call of muster by %s in this attempt, all others wait: ",
                        waits->found.silent);
    } else {
        mst_text_add(&line, "any of them, as all wait: ");
    }
    for (unsigned i = 0; i < waits->found.group_count; i++) {
        const struct mst_waits_group *group = &waits->found.groups[i];

        mst_text_add(&line, i > 0 ? ", " : "");
        if (group->several) {
            mst_text_format(&line, "%u ranks", group->count);
        } else {
            mst_text_add(&line, group->ranks);
        }
        mst_text_format(&line, " wait%s %s", group->count == 1 ? "s" : "", group->what);
    }
    if (waits->found.more) {
        mst_text_add(&line, ", ...");
    }
}

static void write_and_read(struct mst_waits *waits, const struct mst_monitor *monitor)
{
    char value[VALUE_ROOM];
    bool reads;

    mst_suspect_tell_waits(monitor, waits->generation, &reads, value, sizeof value);
    if (!waits->put.open) {
        put(waits, value);
    }
    if (reads && !waits->list.open) {
        waits->found = (struct mst_waits_found){.sum = 0};
        waits->after[0] = '\0';
        ask(waits);
    }
}

static bool look(struct mst_waits *waits, muster_client *client, const struct mst_monitor *monitor,
                 const struct mst_watched *one, uint64_t now_ns)
{
    if (waits->client != client || waits->generation != one->generation) {
        begin(waits, client, one->generation);
    }
    if (waits->in_a_row >= IN_A_ROW && now_ns - waits->full_ns < half_ns(waits)) {
        return true;
    }
    if (now_ns >= waits->next_ns) {
        waits->soft_ms = one->hang.last.soft_ms;
        waits->ranks = atomic_load(&one->page->ranks);
        waits->next_ns = now_ns + (uint64_t)waits->soft_ms * NS_PER_MS / PARTS;
        write_and_read(waits, monitor);
    }
    return false;
}

bool mst_waits_look(struct mst_waits *waits, muster_client *client,
                    const struct mst_monitor *monitor, const struct mst_watched *one,
                    uint64_t now_ns, char *text, size_t room)
{
    bool all = false;

    if (client != NULL) {
        mst_lib_lock(client);
        all = look(waits, client, monitor, one, now_ns);
        if (all) {
            tell(waits, text, room);
        }
        mst_lib_unlock(client);
    }
    return all;
}
