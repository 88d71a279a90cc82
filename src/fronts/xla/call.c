/* SPDX-License-Identifier: Apache-2.0 */
/* gRPC over one stream: the headers and the message of a request, and its answer. */
#include "fronts/xla/gzip.h"
#include "fronts/xla/machine.h"

enum {
    PREFIX = 5,          /* before a message: whether it is compressed, and its size */
    PARTS_MAX = 1 << 20, /* bytes that reading a message may take besides it */
    ROOM_LEAST = 256,
    MESSAGE_MAX = 3072,  /* bytes of an error's text, as they are sent */
    TRAILERS_MAX = 7600, /* of its text and details: a client takes 8 KiB of headers */
    DETAILS_MAX = 3      /* payloads */
};

static const char *const encodings[] = {"identity", "gzip", "deflate"};
static const char known_encodings[] = "identity, deflate, gzip";

static size_t body_max(const struct mst_xla *front)
{
    return (size_t)(front->config.limits.value_bytes_max + front->config.limits.key_bytes_max) +
           PARTS_MAX;
}

/* ---- errors ---- */

struct mst_xla_error mst_xla_error_of(enum mst_xla_code code, const char *format, ...)
{
    struct mst_xla_error error;
    struct mst_text text;
    va_list arguments;

    memset(&error, 0, sizeof error);
    error.code = code;
    text = mst_text_in(error.text, sizeof error.text);
    va_start(arguments, format);
    mst_text_format_list(&text, format, arguments);
    va_end(arguments);
    return error;
}

static size_t base64(struct mst_slice bytes, char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *at = bytes.data;
    size_t size = 0;

    for (size_t i = 0; i < bytes.size; i += 3) {
        size_t left = bytes.size - i;
        unsigned three = (unsigned)at[i] << 16 | (left > 1 ? (unsigned)at[i + 1] << 8 : 0) |
                         (left > 2 ? at[i + 2] : 0u);

        for (unsigned digit = 0; digit < 4 && digit <= left; digit++) {
            out[size++] = digits[three >> (18 - 6 * digit) & 63];
        }
    }
    return size;
}

/* Bytes other than printable ASCII, and '%', become %XX. Text beyond `most` is cut. */
static size_t percent(struct mst_slice text, char *out, size_t most)
{
    static const char digits[] = "0123456789ABCDEF";
    static const char cut[] = " ... [truncated]";
    const unsigned char *at = text.data;
    size_t size = 0, whole = 0;

    for (size_t i = 0; i < text.size; i++) {
        bool plain = at[i] >= 0x20 && at[i] <= 0x7e && at[i] != '%';

        if (size + (plain ? 1 : 3) > most) {
            memcpy(out + whole, cut, sizeof cut - 1);
            return whole + sizeof cut - 1;
        }
        if (plain) {
            out[size++] = (char)at[i];
        } else {
            out[size++] = '%';
            out[size++] = digits[at[i] >> 4];
            out[size++] = digits[at[i] & 15];
        }
        if (size + sizeof cut - 1 <= most && (i + 1 == text.size || (at[i + 1] & 0xc0) != 0x80)) {
            whole = size; /* characters are not cut */
        }
    }
    return size;
}

/* `from` encoded at the end of the room, before the `used` bytes that are there. */
static struct mst_slice encode_before(const struct mst_message *type, const void *from,
                                      unsigned char *room, size_t *left)
{
    size_t size = mst_encode(type, from, room, *left);

    MST_ASSERT(size <= *left);
    *left -= size;
    return mst_slice_of(room + *left, size);
}

/* The details of an error as they are sent; 0: it has none. */
static size_t details_of(const struct mst_xla_error *error, enum mst_xla_wire wire, char *out)
{
#define TYPE(name) mst_slice_text("type.googleapis.com/tensorflow." name)
    unsigned char parts[TRAILERS_MAX], container[TRAILERS_MAX];
    struct mst_xla_entry entries[DETAILS_MAX];
    struct mst_xla_payloads payloads = {.entries = entries};
    size_t left = sizeof parts, room = sizeof container;

    if (error->plain) {
        return 0;
    }
    if (error->has_barrier) {
        entries[payloads.count++] = (struct mst_xla_entry){
            TYPE("BarrierError"),
            encode_before(&mst_xla_barrier_error_fields, &error->barrier, parts, &left)};
    }
    if (error->has_mismatch) {
        entries[payloads.count++] = (struct mst_xla_entry){
            TYPE("ServiceMismatchError"),
            encode_before(&mst_xla_mismatch_fields, &error->mismatch, parts, &left)};
    }
    entries[payloads.count] = (struct mst_xla_entry){.key = TYPE("CoordinationServiceError")};
    if (error->has_source) {
        entries[payloads.count].value =
            encode_before(&mst_xla_origin_fields[wire], &error->origin, parts, &left);
    }
    payloads.count++;
    return base64(encode_before(&mst_xla_payloads_fields, &payloads, container, &room), out);
#undef TYPE
}

void mst_xla_refuse(struct mst_xla_call *call, const struct mst_xla_error *error)
{
    char details[TRAILERS_MAX * 4 / 3 + 4], text[MESSAGE_MAX + 1];
    size_t details_size = details_of(error, call->wire, details);
    size_t most =
        TRAILERS_MAX - details_size < MESSAGE_MAX ? TRAILERS_MAX - details_size : MESSAGE_MAX;

    MST_ASSERT(!call->answered);
    call->answered = true;
    mst_mem_release(&call->connection->front->mem, call->bytes);
    call->connection->bodies -= call->room;
    call->bytes = NULL;
    call->room = call->size = 0;
    mst_xla_submit_error(call, error->code,
                         mst_slice_of(text, percent(mst_slice_text(error->text), text, most)),
                         mst_slice_of(details, details_size), error->encodings);
}

void mst_xla_answer(struct mst_xla_call *call, const struct mst_xla_reply *reply)
{
    const struct mst_message *type = &mst_xla_messages[call->method].reply[call->wire];
    struct mst_xla *front = call->connection->front;
    size_t size = mst_encode(type, reply, NULL, 0);
    unsigned char *bytes = front->mem.alloc(front->mem.ctx, PREFIX + size);
    struct mst_xla_error error;

    MST_ASSERT(!call->answered);
    if (!bytes) {
        error =
            mst_xla_error_of(MST_XLA_RESOURCE_EXHAUSTED, "%s: no memory for a reply of %zu bytes",
                             mst_xla_method_name(call->method), size);
        mst_xla_refuse(call, &error);
        return;
    }
    bytes[0] = 0;
    for (unsigned i = 0; i < PREFIX - 1; i++) {
        bytes[1 + i] = (unsigned char)(size >> (8 * (3 - i)));
    }
    (void)mst_encode(type, reply, bytes + PREFIX, size);
    mst_mem_release(&front->mem, call->bytes);
    call->connection->bodies -= call->room;
    call->bytes = bytes;
    call->size = PREFIX + size;
    call->room = 0;
    call->sent = 0;
    call->answered = true;
    mst_xla_submit_reply(call);
}

struct mst_xla_call *mst_xla_next_waiting(struct mst_list *waiting)
{
    struct mst_list *node = mst_list_take(waiting);
    struct mst_xla_call *call = MST_CONTAINER_OR_NULL(node, struct mst_xla_call, waits);

    if (call) {
        call->op = NULL;
    }
    return call;
}

void mst_xla_answer_all(struct mst_list *waiting, const struct mst_xla_reply *reply)
{
    struct mst_xla_call *call;

    while ((call = mst_xla_next_waiting(waiting)) != NULL) {
        mst_xla_answer(call, reply);
    }
}

void mst_xla_refuse_all(struct mst_list *waiting, const struct mst_xla_error *error)
{
    struct mst_xla_call *call;

    while ((call = mst_xla_next_waiting(waiting)) != NULL) {
        mst_xla_refuse(call, error);
    }
}

/* ---- requests ---- */

/* As in 305S: at most 8 digits and a unit. 0: it is none. */
static uint64_t timeout_of(struct mst_slice value)
{
    static const struct {
        char unit;
        uint64_t ns;
    } units[] = {{'H', 3600 * NS_PER_S}, {'M', 60 * NS_PER_S}, {'S', NS_PER_S},
                 {'m', NS_PER_MS},       {'u', 1000},          {'n', 1}};
    uint64_t number;

    if (value.size < 2 || value.size > 9 ||
        !mst_slice_number(mst_slice_of(value.data, value.size - 1), UINT64_MAX, &number)) {
        return 0;
    }
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (((const char *)value.data)[value.size - 1] == units[i].unit) {
            return number * units[i].ns;
        }
    }
    return 0;
}

void mst_xla_call_header(struct mst_xla_call *call, struct mst_slice name, struct mst_slice value)
{
    if (mst_slice_is(name, ":path")) {
        call->method = mst_xla_method_of(value, &call->wire);
    } else if (mst_slice_is(name, ":method")) {
        call->bad_method = !mst_slice_is(value, "POST");
    } else if (mst_slice_is(name, "content-type")) {
        call->has_type = mst_slice_starts_with(value, mst_slice_text("application/grpc"));
    } else if (mst_slice_is(name, "grpc-encoding")) {
        call->encoding = (uint8_t)mst_slice_among(value, encodings, MST_XLA_ENCODINGS);
    } else if (mst_slice_is(name, "grpc-timeout")) {
        call->timeout_ns = timeout_of(value);
    }
}

static void refuse_size(struct mst_xla_call *call, uint64_t size)
{
    struct mst_xla_error error = mst_xla_error_of(
        MST_XLA_RESOURCE_EXHAUSTED,
        "%s: a message of %" PRIu64 " bytes, and the limit is %zu: raise --value-bytes-max of the "
        "service, or send less at once",
        call->method < MST_XLA_METHODS ? mst_xla_method_name(call->method) : "unknown method", size,
        body_max(call->connection->front));

    mst_xla_refuse(call, &error);
}

/* The size of the message, once its prefix is here; else the most. */
static uint64_t announced(const struct mst_xla_call *call)
{
    uint64_t size = 0;

    for (unsigned i = 1; i < PREFIX && call->size >= PREFIX; i++) {
        size = size << 8 | call->bytes[i];
    }
    return call->size >= PREFIX ? PREFIX + size : UINT64_MAX;
}

/* Room for so many bytes in all. */
static bool make_room(struct mst_xla_call *call, size_t size)
{
    struct mst_xla_connection *connection = call->connection;
    const struct mst_mem *mem = &connection->front->mem;
    size_t room = call->room == 0 ? ROOM_LEAST : call->room * 2;
    unsigned char *bytes;

    room = room < size ? size : room;
    if (connection->bodies + room > MST_XLA_BODIES_MAX) {
        return false;
    }
    bytes = mem->alloc(mem->ctx, room);
    if (!bytes) {
        return false;
    }
    if (call->size > 0) {
        memcpy(bytes, call->bytes, call->size);
    }
    mst_mem_release(mem, call->bytes);
    connection->bodies += room - call->room;
    call->bytes = bytes;
    call->room = room;
    return true;
}

void mst_xla_call_data(struct mst_xla_call *call, struct mst_slice bytes)
{
    size_t size = call->size + bytes.size;

    if (size > PREFIX + body_max(call->connection->front)) {
        refuse_size(call, size);
        return;
    }
    if (bytes.size == 0) {
        return;
    }
    if (size > call->room && !make_room(call, size)) {
        struct mst_xla_error error = mst_xla_error_of(MST_XLA_RESOURCE_EXHAUSTED,
                                                      "no memory for the requests of this process");

        mst_xla_refuse(call, &error);
        return;
    }
    memcpy(call->bytes + call->size, bytes.data, bytes.size);
    call->size = size;
    /* What is announced is not waited for if it may not come. */
    if (announced(call) != UINT64_MAX &&
        announced(call) > PREFIX + body_max(call->connection->front)) {
        refuse_size(call, announced(call) - PREFIX);
    }
}

/* Puts the content in place of what is compressed. */
static bool unpack(struct mst_xla_call *call)
{
    struct mst_xla *front = call->connection->front;
    struct mst_slice packed = mst_slice_of(call->bytes + PREFIX, call->size - PREFIX);
    struct mst_xla_error error;
    unsigned char *bytes = NULL;
    size_t size = 0;
    muster_status status = MUSTER_EPROTO;

    if (call->encoding == MST_XLA_ENCODINGS) {
        error = mst_xla_error_of(MST_XLA_UNIMPLEMENTED, "grpc-encoding: use one of %s",
                                 known_encodings);
        error.plain = true;
        error.encodings = known_encodings;
        mst_xla_refuse(call, &error);
        return false;
    }
    if (call->encoding != MST_XLA_IDENTITY) {
        status = mst_xla_inflate(&front->mem, (enum mst_xla_encoding)call->encoding, packed,
                                 body_max(front), &bytes, &size);
    }
    if (status == MUSTER_ELIMIT) {
        refuse_size(call, body_max(front) + 1);
    } else if (status != MUSTER_OK) {
        error = mst_xla_error_of(
            status == MUSTER_ENOMEM ? MST_XLA_RESOURCE_EXHAUSTED : MST_XLA_INTERNAL,
            "the message cannot be decompressed: %s",
            call->encoding == MST_XLA_IDENTITY ? "no grpc-encoding" : mst_status_text(status));
        error.plain = true;
        mst_xla_refuse(call, &error);
    }
    if (status != MUSTER_OK) {
        return false;
    }
    mst_mem_release(&front->mem, call->bytes);
    call->connection->bodies -= call->room;
    call->bytes = bytes;
    call->size = size;
    call->room = 0;
    return true;
}

static void read_message(struct mst_xla_call *call)
{
    struct mst_xla *front = call->connection->front;
    bool packed = call->bytes[0] != 0;
    size_t prefix = packed ? 0 : PREFIX;
    struct mst_xla_request request;
    struct mst_wrong wrong;
    muster_status status;

    if (packed && !unpack(call)) {
        return;
    }
    mst_native_arena_reset(&front->arena, PARTS_MAX);
    status =
        mst_decode(&mst_xla_messages[call->method].request[call->wire], &request,
                   mst_slice_of(call->bytes + prefix, call->size - prefix), &front->arena, &wrong);
    if (status != MUSTER_OK) {
        struct mst_xla_error error = mst_xla_error_of(MST_XLA_INTERNAL, "could not parse: ");
        struct mst_text text = {
            .start = error.text, .size = strlen(error.text), .room = sizeof error.text};

        if (status == MUSTER_EPROTO) {
            mst_wrong_say(&text, &wrong);
        } else {
            mst_text_add(&text, mst_status_text(status));
        }
        error.plain = true;
        mst_xla_refuse(call, &error);
        return;
    }
    mst_xla_serve_call(call, &request);
}

void mst_xla_call_whole(struct mst_xla_call *call)
{
    struct mst_xla_connection *connection = call->connection;
    struct mst_xla_error error;

    call->bad_type = !call->has_type;
    if (call->bad_method || call->bad_type || call->method == MST_XLA_METHODS) {
        error = mst_xla_error_of(MST_XLA_UNIMPLEMENTED,
                                 "no such method: this is muster's front for JAX");
        error.plain = true;
    } else if (announced(call) != call->size) {
        error =
            mst_xla_error_of(MST_XLA_INTERNAL, "%s: expected one message, and its size before it",
                             mst_xla_method_name(call->method));
        error.plain = true;
    } else {
        read_message(call);
        /* Of a call that waits the message is not needed. */
        if (!call->answered) {
            mst_mem_release(&connection->front->mem, call->bytes);
            connection->bodies -= call->room;
            call->bytes = NULL;
            call->size = call->room = 0;
        }
        return;
    }
    mst_xla_refuse(call, &error);
}

void mst_xla_call_free(struct mst_xla_call *call)
{
    struct mst_xla_connection *connection = call->connection;
    struct mst_xla_op *op = call->op;

    mst_list_remove(&call->waits);
    mst_list_remove(&call->in_connection);
    connection->call_count--;
    connection->bodies -= call->room;
    mst_mem_release(&connection->front->mem, call->bytes);
    mst_mem_release(&connection->front->mem, call);
    if (op && !op->stays && mst_list_empty(&op->calls)) {
        mst_xla_op_drop(op);
    }
}
