/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "service/server/pressure.h"

#include <malloc.h>
#include <sys/ioctl.h>

#include "base/panic.h"
#include "base/time.h"
#include "service/server/connection.h"

#define COUNTED_BYTES 4096u        /* smaller pieces are what any connection costs */
#define SMALL_BYTES 16384u         /* a reply of at most this size never waits for others */
#define TURN_BYTES 4194304u        /* of large replies in one turn */
#define STEP_BYTES 256u            /* what a record costs that a watch looks at */
#define PIECE_BYTES 4096u          /* read at a time while memory is short */
#define PARKED_BYTES 16384u        /* less of a frame is what any connection costs */
#define STILL_NS NS_PER_S          /* no progress for so long: it may be closed for others */
#define PROGRESS_BYTES 16384u      /* less than this is none */
#define FAVOUR_NS NS_PER_S         /* one of the parked is read for so long, */
#define PATIENCE_NS 50000000u      /* or until nothing comes for so long */
#define LITTLE_PART 1024u          /* of the bound: such a connection holds little */
#define SHED_MAX 32u               /* closed at a time, which takes a while, */
#define SHED_NS 25000000u          /* so often */
#define LOOK_NS 50000000u          /* between two searches for connections without progress */
#define GIVEN_BACK_BYTES 16777216u /* so much less than before: the system gets it back, */
#define GIVEN_BACK_COUNT 32u       /* or so many connections: small pieces are not counted, */
#define GIVE_BACK_NS NS_PER_S      /* so much later, when the rest of a crowd has left too */
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
        pressure->peak = mst_later(pressure->peak, pressure->held);
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
                                 .held_max = held_max,
                                 .owes_since_ns = UINT64_MAX};
    mst_list_init(&pressure->behind);
    mst_list_init(&pressure->parked);
    (void)mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES);
    (void)mallopt(M_MMAP_MAX, MAPPED_COUNT);
}

static uint64_t held(const struct mst_uv_hub *hub)
{
    return hub->pressure.held + mst_core_pinned(hub->core);
}

/* Without what the core holds, which shrinks as replies are delivered. */
static bool is_high(const struct mst_uv_hub *hub)
{
    return hub->pressure.held > hub->pressure.held_max / 2;
}

static uint64_t now(const struct mst_uv_hub *hub)
{
    return hub->now_ns != 0 ? hub->now_ns : mst_uv_feed_now_ns(&hub->feed);
}

/* Memory for incomplete input. */
static size_t input_room(const struct mst_uv_connection *connection)
{
    return connection->codec ? connection->codec->stream.in.room : 0;
}

static size_t room_of(const struct mst_uv_connection *connection)
{
    return connection->codec ? input_room(connection) + connection->codec->stream.out.room : 0;
}

static bool has_copied(const struct mst_uv_pressure *pressure)
{
    return pressure->copied > TURN_BYTES;
}

/* Also with `more` bytes. A full buffer would be twice as large next. */
static bool holds_little(const struct mst_uv_connection *connection, size_t more)
{
    uint64_t little = mst_later(connection->hub->pressure.held_max / LITTLE_PART, SMALL_BYTES);

    return room_of(connection) + more < little;
}

/* And the share for such connections is not used up. */
static bool has_share(const struct mst_uv_connection *connection, size_t more)
{
    const struct mst_uv_pressure *pressure = &connection->hub->pressure;

    return holds_little(connection, more) && pressure->held + more <= pressure->held_max / 8 * 7;
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

bool mst_uv_pressure_defers(struct mst_uv_connection *connection, const struct mst_reply *reply)
{
    const struct mst_uv_pressure *pressure = &connection->hub->pressure;
    bool first = mst_list_empty(&pressure->behind) || connection == pressure->resumed;

    connection->wants = bytes_of(reply);
    if (mst_uv_connection_unread(connection) > MST_UV_OUTPUT_MARK) {
        return true;
    }
    if (connection->wants <= SMALL_BYTES) {
        return false;
    }
    return has_copied(pressure) ||
           (!has_share(connection, connection->wants) && (!first || is_high(connection->hub)));
}

/* Queues a connection that waits for room or time, not for its own reader. */
static void put_behind(struct mst_uv_connection *connection)
{
    struct mst_uv_pressure *pressure = &connection->hub->pressure;

    if (connection->deferred && !connection->draining && !mst_list_linked(&connection->behind) &&
        mst_uv_connection_unread(connection) <= MST_UV_OUTPUT_MARK) {
        mst_list_append(&pressure->behind, &connection->behind);
        pressure->hungry = true;
    }
}

void mst_uv_pressure_deferred(struct mst_uv_connection *connection)
{
    connection->deferred = true;
    put_behind(connection);
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

    hub->pressure.searched += (walked - hub->pressure.walked) * STEP_BYTES;
    hub->pressure.walked = walked;
}

bool mst_uv_pressure_spent(const struct mst_uv_pressure *pressure)
{
    return pressure->copied + pressure->searched > TURN_BYTES;
}

void mst_uv_pressure_offer(struct mst_uv_connection *connection)
{
    if (connection->drained) {
        connection->drained = false;
        connection->moved = 0;
        connection->moved_ns = now(connection->hub);
    }
}

void mst_uv_pressure_taken(struct mst_uv_connection *connection, size_t bytes)
{
    connection->moved += bytes;
    if (connection->moved >= PROGRESS_BYTES) {
        connection->moved = 0;
        connection->moved_ns = now(connection->hub);
    }
    connection->drained = mst_uv_connection_unread(connection) == 0;
    put_behind(connection);
}

static void resume(struct mst_uv_connection *connection)
{
    struct mst_uv_hub *hub = connection->hub;

    connection->deferred = false;
    hub->pressure.resumed = connection;
    mst_core_resume_deferred(hub->core, connection->id);
    mst_uv_hub_carry_all(hub);
    hub->pressure.resumed = NULL;
    mst_uv_connection_watch(connection);
}

/* A deferred reply may wait again: for time to search, when its size is unknown, or for room. */
static bool must_wait(const struct mst_uv_connection *connection)
{
    struct mst_uv_hub *hub = connection->hub;

    if (connection->wants == 0 && mst_uv_pressure_spent(&hub->pressure)) {
        hub->pressure.hungry = true;
        return true;
    }
    return connection->wants > SMALL_BYTES && is_high(hub) &&
           !has_share(connection, connection->wants);
}

void mst_uv_pressure_resume(struct mst_uv_hub *hub)
{
    struct mst_uv_pressure *pressure = &hub->pressure;
    const struct mst_list *last = pressure->behind.prev;
    struct mst_list *node = NULL;
    struct mst_list still;

    mst_list_init(&still);
    pressure->hungry = false;
    /* A connection that is deferred again is appended, and waits for the next turn. */
    while (node != last && !has_copied(pressure) && (node = mst_list_take(&pressure->behind))) {
        struct mst_uv_connection *connection =
            MST_CONTAINER(node, struct mst_uv_connection, behind);

        if (must_wait(connection)) {
            mst_list_append(&still, node);
        } else {
            resume(connection);
        }
    }
    pressure->hungry = pressure->hungry || (node != last && !mst_list_empty(&pressure->behind));
    mst_list_put_before(&pressure->behind, &still);
}

/* ---- input ---- */

bool mst_uv_pressure_may_read(const struct mst_uv_connection *connection)
{
    return !connection->deferred && !mst_list_linked(&connection->parked);
}

size_t mst_uv_pressure_piece(const struct mst_uv_connection *connection)
{
    const struct mst_uv_hub *hub = connection->hub;

    /* The rest of a TLS record would lie where no poll sees it. */
    return is_high(hub) && connection != hub->pressure.favoured && !connection->channel.tls &&
                   !has_share(connection, MST_UV_READ_BYTES)
               ? PIECE_BYTES
               : MST_UV_READ_BYTES;
}

static void count_progress(struct mst_uv_connection *connection, size_t bytes, size_t input)
{
    uint64_t now_ns = now(connection->hub);

    connection->read_ns = now_ns;
    connection->came += bytes;
    if (connection->came >= PROGRESS_BYTES || !connection->framed) {
        connection->came = 0;
        connection->came_ns = now_ns;
        connection->idle = false;
    }
    connection->framed = input >= PARKED_BYTES;
}

/* Connections that hold little come first: they are read again as soon as there is a share. */
static void park(struct mst_uv_connection *connection)
{
    struct mst_list *parked = &connection->hub->pressure.parked;

    mst_list_append(holds_little(connection, 0) ? parked->next : parked, &connection->parked);
    mst_uv_connection_watch(connection);
}

/* The favoured connection holds nothing any more: the next one need not wait. */
static void end_favour(struct mst_uv_pressure *pressure)
{
    pressure->favoured = NULL;
    pressure->pause_until_ns = 0;
}

void mst_uv_pressure_read(struct mst_uv_connection *connection, size_t bytes)
{
    struct mst_uv_pressure *pressure = &connection->hub->pressure;
    size_t input = input_room(connection);
    bool parks = input >= PARKED_BYTES && is_high(connection->hub) && !has_share(connection, 0);

    count_progress(connection, bytes, input);
    if (connection == pressure->favoured) {
        if (parks) {
            return;
        }
        end_favour(pressure); /* its frame is whole */
    }
    if (parks && !connection->draining && !mst_list_linked(&connection->parked)) {
        park(connection);
    }
}

static void unpark(struct mst_uv_connection *connection)
{
    mst_list_remove(&connection->parked);
    mst_uv_connection_watch(connection);
}

static uint64_t favour_ends_ns(const struct mst_uv_pressure *pressure)
{
    return mst_sooner(pressure->favoured->read_ns + PATIENCE_NS, pressure->favoured_until_ns);
}

/* Ends the time of the favoured connection, which may not have used it. */
static void favour_no_more(struct mst_uv_hub *hub)
{
    struct mst_uv_connection *old = hub->pressure.favoured;

    hub->pressure.favoured = NULL;
    hub->pressure.pause_until_ns = now(hub) + STILL_NS; /* then it may be closed */
    old->idle = now(hub) - old->came_ns >= STILL_NS;
    park(old);
}

static struct mst_uv_connection *first_parked(const struct mst_uv_pressure *pressure)
{
    return MST_CONTAINER(pressure->parked.next, struct mst_uv_connection, parked);
}

/* A frame of the largest size needs three times its size for a moment, and a share must be left. If
 * the earlier frames do not end, one more connection is tried from time to time. */
static bool may_favour(const struct mst_uv_hub *hub)
{
    const struct mst_uv_pressure *pressure = &hub->pressure;

    return !pressure->favoured &&
           (pressure->held <= pressure->held_max / 16 * 9 || now(hub) >= pressure->pause_until_ns);
}

static void favour_one(struct mst_uv_hub *hub)
{
    struct mst_uv_pressure *pressure = &hub->pressure;

    while (!mst_list_empty(&pressure->parked) &&
           (!is_high(hub) || has_share(first_parked(pressure), 0))) {
        unpark(first_parked(pressure));
    }
    if (mst_list_empty(&pressure->parked)) {
        return;
    }
    if (pressure->favoured && now(hub) >= favour_ends_ns(pressure)) {
        favour_no_more(hub);
    }
    if (may_favour(hub)) {
        pressure->favoured = first_parked(pressure);
        pressure->favoured_until_ns = now(hub) + FAVOUR_NS;
        pressure->favoured->read_ns = now(hub);
        unpark(pressure->favoured);
    }
}

void mst_uv_pressure_forget(struct mst_uv_connection *connection)
{
    struct mst_uv_pressure *pressure = &connection->hub->pressure;

    mst_list_remove(&connection->behind);
    mst_list_remove(&connection->parked);
    if (pressure->favoured == connection) {
        end_favour(pressure);
    }
}

/* ---- closing ---- */

static bool has_stood(const struct mst_uv_connection *connection, uint64_t since_ns)
{
    return now(connection->hub) - since_ns >= STILL_NS;
}

/* Bytes that wait in its socket are not its fault, unless it was read for itself. */
static bool sends_nothing(const struct mst_uv_connection *connection)
{
    int waiting = 0;

    if (connection->more || connection->deferred || !has_stood(connection, connection->came_ns) ||
        connection == connection->hub->pressure.favoured || input_room(connection) < PARKED_BYTES) {
        return false;
    }
    return connection->idle ||
           (ioctl(connection->channel.fd, FIONREAD, &waiting) == 0 && waiting == 0);
}

static bool stands_still(const struct mst_uv_connection *connection)
{
    return (mst_uv_connection_unread(connection) > 0 &&
            has_stood(connection, connection->moved_ns)) ||
           sends_nothing(connection);
}

/* The largest first. */
struct largest {
    size_t count;
    struct {
        struct mst_uv_connection *connection;
        uint64_t held;
    } rows[SHED_MAX];
};

static void place(struct largest *largest, struct mst_uv_connection *connection)
{
    uint64_t held = room_of(connection) + mst_core_pinned_by(connection->hub->core, connection->id);
    size_t at = largest->count;

    if (held == 0 || (at == SHED_MAX && held <= largest->rows[at - 1].held)) {
        return;
    }
    if (at < SHED_MAX) {
        largest->count++;
    } else {
        at--; /* the least of them goes */
    }
    for (; at > 0 && largest->rows[at - 1].held < held; at--) {
        largest->rows[at] = largest->rows[at - 1];
    }
    largest->rows[at].connection = connection;
    largest->rows[at].held = held;
}

static struct largest find_largest(const struct mst_uv_hub *hub,
                                   bool (*suits)(const struct mst_uv_connection *connection))
{
    struct largest found = {.count = 0};

    for (size_t i = 0; i < MST_UV_BUCKETS; i++) {
        for (struct mst_uv_connection *one = hub->buckets[i]; one; one = one->chain) {
            if (!suits || suits(one)) {
                place(&found, one);
            }
        }
    }
    return found;
}

/* False: there is none. */
static bool shed_largest(struct mst_uv_hub *hub)
{
    struct largest largest = find_largest(hub, NULL);

    hub->pressure.shed_ns = now(hub);
    for (size_t i = 0; i < largest.count && held(hub) > hub->pressure.held_max; i++) {
        mst_uv_connection_refuse(largest.rows[i].connection,
                                 "the connections hold too much together "
                                 "(--buffered-bytes-max), and this one holds most");
    }
    return largest.count > 0;
}

void mst_uv_pressure_shed(struct mst_uv_hub *hub)
{
    uint64_t held_max = hub->pressure.held_max;
    uint64_t far = held_max + held_max / 4;
    bool found = true;

    /* Near the bound the loop has time for others between two looks at all connections. */
    if (held(hub) > held_max && now(hub) >= hub->pressure.shed_ns + SHED_NS) {
        found = shed_largest(hub);
    }
    while (found && held(hub) > far) {
        found = shed_largest(hub);
    }
}

/* Other connections wait for room: with a reply, or with a frame beside the favoured one. */
static bool others_wait(const struct mst_uv_pressure *pressure)
{
    const struct mst_list *parked = &pressure->parked;

    return !mst_list_empty(&pressure->behind) ||
           (!mst_list_empty(parked) && (pressure->favoured || parked->next != parked->prev));
}

static void shed_still(struct mst_uv_hub *hub)
{
    struct mst_uv_pressure *pressure = &hub->pressure;
    struct largest largest;

    if (!is_high(hub) || !others_wait(pressure) || now(hub) < pressure->looked_ns + LOOK_NS) {
        return;
    }
    pressure->looked_ns = now(hub);
    largest = find_largest(hub, stands_still);
    for (size_t i = 0; i < largest.count && is_high(hub); i++) {
        struct mst_uv_connection *one = largest.rows[i].connection;

        mst_uv_connection_refuse(one, mst_uv_connection_unread(one) > 0
                                          ? "does not read what it is told, and others wait for "
                                            "the memory (--buffered-bytes-max)"
                                          : "does not finish its frame, and others wait for the "
                                            "memory (--buffered-bytes-max)");
    }
}

/* ---- turns ---- */

static bool owes_memory(const struct mst_uv_hub *hub)
{
    const struct mst_uv_pressure *pressure = &hub->pressure;

    return pressure->peak - pressure->held >= GIVEN_BACK_BYTES ||
           hub->count + GIVEN_BACK_COUNT <= pressure->peak_count;
}

/* The C library keeps freed memory; after a crowd has left it is returned to the system. */
static void give_back(struct mst_uv_hub *hub)
{
    struct mst_uv_pressure *pressure = &hub->pressure;

    pressure->peak_count = mst_later(pressure->peak_count, hub->count);
    if (!owes_memory(hub)) {
        pressure->owes_since_ns = UINT64_MAX;
        return;
    }
    pressure->owes_since_ns = mst_sooner(pressure->owes_since_ns, now(hub));
    if (now(hub) - pressure->owes_since_ns >= GIVE_BACK_NS) {
        pressure->peak = pressure->held;
        pressure->peak_count = hub->count;
        pressure->owes_since_ns = UINT64_MAX;
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
    hub->pressure.searched = 0;
}

uint64_t mst_uv_pressure_deadline_ns(const struct mst_uv_hub *hub)
{
    const struct mst_uv_pressure *pressure = &hub->pressure;
    uint64_t deadline_ns = UINT64_MAX;

    if (!mst_list_empty(&pressure->behind) || !mst_list_empty(&pressure->parked)) {
        deadline_ns = is_high(hub) && !pressure->hungry ? pressure->looked_ns + LOOK_NS : 0;
    }
    if (!mst_list_empty(&pressure->parked) && pressure->favoured) {
        deadline_ns = mst_sooner(deadline_ns, favour_ends_ns(pressure));
    }
    if (held(hub) > pressure->held_max) {
        deadline_ns = mst_sooner(deadline_ns, pressure->shed_ns + SHED_NS);
    }
    if (owes_memory(hub)) {
        deadline_ns =
            mst_sooner(deadline_ns, mst_sooner(pressure->owes_since_ns, now(hub)) + GIVE_BACK_NS);
    }
    return deadline_ns;
}
