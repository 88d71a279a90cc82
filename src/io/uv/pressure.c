/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "io/uv/pressure.h"

#include <malloc.h>

#include "base/panic.h"
#include "io/uv/connection.h"

#define COUNTED_BYTES 4096u        /* smaller pieces are what any connection costs */
#define SMALL_BYTES 16384u         /* a reply of so many bytes waits for nobody */
#define TURN_BYTES 4194304u        /* of large replies in one turn */
#define STEP_BYTES 256u            /* what a record costs that a watch looks at */
#define PIECE_BYTES 4096u          /* read at a time while memory is short */
#define STILL_NS 1000000000u       /* nothing taken for so long: it may be closed for others */
#define FAVOUR_NS 1000000000u      /* one of the parked is read for so long */
#define LOOK_NS 50000000u          /* between two looks for who stands still */
#define GIVEN_BACK_BYTES 33554432u /* so much less than before: the system gets it back, */
#define GIVE_BACK_NS 1000000000u   /* so often at most */
#define MAPPED_BYTES 262144        /* larger pieces are the system's again when they are freed */
#define MAPPED_COUNT 16384         /* at most: the kernel has a limit for a process */

/* ---- counting ---- */

static void *take(void *ctx, size_t size)
{
    struct mst_uv_pressure *pressure = ctx;
    void *p = pressure->below.alloc(pressure->below.ctx, size);
    size_t got = p ? malloc_usable_size(p) : 0;

    if (got >= COUNTED_BYTES) {
        pressure->held += got;
        if (pressure->held > pressure->peak) {
            pressure->peak = pressure->held;
        }
    }
    return p;
}

static void put_back(void *ctx, void *p)
{
    struct mst_uv_pressure *pressure = ctx;
    size_t size = p ? malloc_usable_size(p) : 0;

    if (size >= COUNTED_BYTES) {
        pressure->held -= size;
    }
    pressure->below.release(pressure->below.ctx, p);
}

void mst_uv_pressure_init(struct mst_uv_pressure *pressure, const struct mst_mem *below,
                          uint64_t held_max)
{
    *pressure =
        (struct mst_uv_pressure){.mem = {.ctx = pressure, .alloc = take, .release = put_back},
                                 .below = *below,
                                 .held_max = held_max};
    mst_list_init(&pressure->behind);
    mst_list_init(&pressure->parked);
    (void)mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES);
    (void)mallopt(M_MMAP_MAX, MAPPED_COUNT);
}

static bool is_high(const struct mst_uv_pressure *pressure)
{
    return pressure->held > pressure->held_max / 2;
}

static uint64_t now(const struct mst_uv_hub *hub)
{
    return hub->now_ns != 0 ? hub->now_ns : mst_uv_feed_now_ns(&hub->feed);
}

static struct mst_codec_room room_of(const struct mst_uv_connection *connection)
{
    return connection->codec ? connection->codec->ops->room(connection->codec)
                             : (struct mst_codec_room){0};
}

/* ---- output ---- */

static size_t bytes_of(const struct mst_reply *reply)
{
    size_t bytes = reply->value.size;

    for (uint32_t i = 0; i < reply->item_count; i++) {
        bytes += reply->items[i].name.size + reply->items[i].value.size;
    }
    return bytes;
}

bool mst_uv_pressure_defers(const struct mst_uv_connection *connection,
                            const struct mst_reply *reply)
{
    const struct mst_uv_pressure *pressure = &connection->hub->pressure;

    if (mst_uv_connection_unread(connection) > MST_UV_OUTPUT_MARK) {
        return true;
    }
    return (mst_uv_pressure_spent(pressure) || is_high(pressure)) && bytes_of(reply) > SMALL_BYTES;
}

void mst_uv_pressure_deferred(struct mst_uv_connection *connection)
{
    connection->deferred = true;
    mst_uv_pressure_moved(connection);
    mst_uv_connection_watch(connection);
}

bool mst_uv_pressure_copied(struct mst_uv_pressure *pressure, const struct mst_reply *reply)
{
    size_t bytes = reply->item_count > 0 ? bytes_of(reply) : reply->value.size;

    if (bytes > SMALL_BYTES) {
        pressure->copied += bytes;
    }
    return bytes > SMALL_BYTES;
}

void mst_uv_pressure_looked(struct mst_uv_hub *hub)
{
    uint64_t walked = mst_core_walked(hub->core);

    hub->pressure.copied += (walked - hub->pressure.walked) * STEP_BYTES;
    hub->pressure.walked = walked;
}

bool mst_uv_pressure_spent(const struct mst_uv_pressure *pressure)
{
    return pressure->copied > TURN_BYTES;
}

void mst_uv_pressure_moved(struct mst_uv_connection *connection)
{
    if (connection->deferred && !connection->draining && !mst_list_linked(&connection->behind) &&
        mst_uv_connection_unread(connection) <= MST_UV_OUTPUT_MARK) {
        mst_list_append(&connection->hub->pressure.behind, &connection->behind);
    }
}

void mst_uv_pressure_resume(struct mst_uv_hub *hub)
{
    struct mst_uv_pressure *pressure = &hub->pressure;
    const struct mst_list *last = pressure->behind.prev;
    struct mst_list *node = NULL;

    /* What is deferred again is appended, and waits for the next turn. */
    while (node != last && !is_high(pressure) && !mst_uv_pressure_spent(pressure) &&
           (node = mst_list_take(&pressure->behind))) {
        struct mst_uv_connection *connection =
            MST_CONTAINER(node, struct mst_uv_connection, behind);

        connection->deferred = false;
        mst_core_resume_deferred(hub->core, connection->id);
        mst_uv_hub_carry_all(hub);
        mst_uv_connection_watch(connection);
    }
}

/* ---- input ---- */

bool mst_uv_pressure_may_read(const struct mst_uv_connection *connection)
{
    return !connection->deferred && !mst_list_linked(&connection->parked);
}

size_t mst_uv_pressure_piece(const struct mst_uv_connection *connection)
{
    const struct mst_uv_pressure *pressure = &connection->hub->pressure;

    /* Of a TLS record the rest would lie where no poll sees it. */
    return is_high(pressure) && connection != pressure->favoured && !connection->channel.tls
               ? PIECE_BYTES
               : MST_UV_READ_BYTES;
}

void mst_uv_pressure_read(struct mst_uv_connection *connection)
{
    struct mst_uv_pressure *pressure = &connection->hub->pressure;
    bool parks = is_high(pressure) && room_of(connection).input >= PIECE_BYTES;

    if (connection == pressure->favoured) {
        if (parks) {
            return;
        }
        pressure->favoured = NULL; /* its frame is whole */
    }
    if (parks && !connection->draining && !mst_list_linked(&connection->parked)) {
        mst_list_append(&pressure->parked, &connection->parked);
        mst_uv_connection_watch(connection);
    }
}

static void unpark(struct mst_uv_connection *connection)
{
    mst_list_remove(&connection->parked);
    mst_uv_connection_watch(connection);
}

/* Its time is over: it is now the last that is read. */
static void park_first(struct mst_uv_connection *connection)
{
    struct mst_list *parked = &connection->hub->pressure.parked;

    mst_list_append(parked->next, &connection->parked); /* behind nothing: at the begin */
    mst_uv_connection_watch(connection);
}

static void favour_one(struct mst_uv_hub *hub)
{
    struct mst_uv_pressure *pressure = &hub->pressure;

    while (!is_high(pressure) && !mst_list_empty(&pressure->parked)) {
        unpark(MST_CONTAINER(pressure->parked.prev, struct mst_uv_connection, parked));
    }
    if (mst_list_empty(&pressure->parked)) {
        return;
    }
    if (pressure->favoured && now(hub) >= pressure->favoured_until_ns) {
        struct mst_uv_connection *old = pressure->favoured;

        pressure->favoured = NULL;
        park_first(old);
    }
    if (!pressure->favoured) {
        pressure->favoured = MST_CONTAINER(pressure->parked.prev, struct mst_uv_connection, parked);
        pressure->favoured_until_ns = now(hub) + FAVOUR_NS;
        unpark(pressure->favoured);
    }
}

void mst_uv_pressure_forget(struct mst_uv_connection *connection)
{
    struct mst_uv_pressure *pressure = &connection->hub->pressure;

    mst_list_remove(&connection->behind);
    mst_list_remove(&connection->parked);
    if (pressure->favoured == connection) {
        pressure->favoured = NULL;
    }
}

/* ---- closing ---- */

static bool stands_still(const struct mst_uv_connection *connection)
{
    return mst_uv_connection_unread(connection) > 0 &&
           now(connection->hub) - connection->moved_ns >= STILL_NS;
}

static struct mst_uv_connection *largest(const struct mst_uv_hub *hub,
                                         bool (*suits)(const struct mst_uv_connection *connection))
{
    struct mst_uv_connection *found = NULL;
    size_t most = 0;

    for (size_t i = 0; i < MST_UV_BUCKETS; i++) {
        for (struct mst_uv_connection *one = hub->buckets[i]; one; one = one->chain) {
            struct mst_codec_room room = room_of(one);
            size_t held = room.input + room.output;

            if (held > most && (!suits || suits(one))) {
                most = held;
                found = one;
            }
        }
    }
    return found;
}

void mst_uv_pressure_shed(struct mst_uv_hub *hub)
{
    struct mst_uv_connection *most;

    while (hub->pressure.held > hub->pressure.held_max && (most = largest(hub, NULL))) {
        mst_uv_connection_refuse(most, "the connections hold too much together "
                                       "(--buffered-bytes-max), and this one holds most");
    }
}

static void shed_still(struct mst_uv_hub *hub)
{
    struct mst_uv_pressure *pressure = &hub->pressure;
    struct mst_uv_connection *most;

    if (!is_high(pressure) || mst_list_empty(&pressure->behind) ||
        now(hub) < pressure->looked_ns + LOOK_NS) {
        return;
    }
    pressure->looked_ns = now(hub);
    most = largest(hub, stands_still);
    if (most) {
        mst_uv_connection_refuse(most, "does not read what it is told, and others wait for the "
                                       "memory (--buffered-bytes-max)");
    }
}

/* ---- turns ---- */

static bool owes_memory(const struct mst_uv_pressure *pressure)
{
    return pressure->peak - pressure->held >= GIVEN_BACK_BYTES;
}

/* The C library keeps what was freed, and a crowd that has gone would be paid for ever. */
static void give_back(struct mst_uv_hub *hub)
{
    struct mst_uv_pressure *pressure = &hub->pressure;

    if (owes_memory(pressure) && now(hub) >= pressure->given_back_ns + GIVE_BACK_NS) {
        pressure->peak = pressure->held;
        pressure->given_back_ns = now(hub);
        (void)malloc_trim(0);
    }
}

void mst_uv_pressure_turn(struct mst_uv_hub *hub)
{
    mst_uv_pressure_shed(hub);
    shed_still(hub);
    favour_one(hub);
    give_back(hub);
    hub->pressure.copied = 0;
}

uint64_t mst_uv_pressure_deadline_ns(const struct mst_uv_hub *hub)
{
    const struct mst_uv_pressure *pressure = &hub->pressure;
    uint64_t deadline_ns = UINT64_MAX;

    if (!mst_list_empty(&pressure->behind)) {
        deadline_ns = is_high(pressure) ? pressure->looked_ns + LOOK_NS : 0;
    }
    if (!mst_list_empty(&pressure->parked) && pressure->favoured &&
        pressure->favoured_until_ns < deadline_ns) {
        deadline_ns = pressure->favoured_until_ns;
    }
    if (owes_memory(pressure) && pressure->given_back_ns + GIVE_BACK_NS < deadline_ns) {
        deadline_ns = pressure->given_back_ns + GIVE_BACK_NS;
    }
    return deadline_ns;
}
