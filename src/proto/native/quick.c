/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/native/quick.h"

#include <string.h>

#include "proto/command.h"
#include "proto/native/digits.h"
#include "proto/native/enums.h"

enum {
    COMMAND_FIELD = 16,
    ITEMS_MAX = 16, /* that are written here */
    WATCH_ALL = MST_WATCH_KEYS | MST_WATCH_MEMBERS | MST_WATCH_FAULTS | MST_WATCH_VIEW
};

/* ---- in ---- */

bool mst_take_many_digits(struct mst_reader *in, unsigned digits_max, uint64_t *out)
{
    uint64_t number = 0;

    for (unsigned i = 0; i < digits_max && in->at < in->end; i++) {
        unsigned char digit = *in->at++;

        number |= (uint64_t)(digit & MST_DIGIT) << (MST_DIGIT_BITS * i);
        if (digit < MST_MORE_DIGITS) {
            *out = number;
            return true;
        }
    }
    return false;
}

static bool take_flag(struct mst_reader *in, bool *out)
{
    uint64_t number;

    if (!mst_take_number(in, &number) || number > 1) {
        return false;
    }
    *out = number == 1;
    return true;
}

static bool take_kind(struct mst_reader *in, enum mst_write_kind *out)
{
    uint64_t number;

    if (!mst_take_number(in, &number) || number > MST_DIGIT ||
        !mst_native_write_kind_known((int)number)) {
        return false;
    }
    *out = (enum mst_write_kind)number;
    return true;
}

static bool take_delta(struct mst_reader *in, int64_t *out)
{
    uint64_t number;

    if (!mst_take_number(in, &number)) {
        return false;
    }
    *out = (int64_t)(number >> 1) ^ -(int64_t)(number & 1);
    return true;
}

static bool operation(struct mst_write *out, struct mst_slice bytes)
{
    struct mst_reader in = mst_reader_of(bytes);
    uint64_t tag = 0;
    bool good = true;

    *out = (struct mst_write){.kind = 0};
    while (good && in.at < in.end) {
        if (!mst_take_tag(&in, &tag)) {
            return false;
        }
        if (tag == MST_TAG(1, MST_WIRE_VARINT)) {
            good = take_kind(&in, &out->kind);
        } else if (tag == MST_TAG(2, MST_WIRE_VARINT)) {
            good = take_flag(&in, &out->owned);
        } else if (tag == MST_TAG(3, MST_WIRE_BYTES)) {
            good = mst_take_bytes(&in, &out->key);
        } else if (tag == MST_TAG(4, MST_WIRE_BYTES)) {
            good = mst_take_bytes(&in, &out->value);
        } else if (tag == MST_TAG(5, MST_WIRE_VARINT)) {
            good = mst_take_number(&in, &out->expected);
        } else if (tag == MST_TAG(6, MST_WIRE_VARINT)) {
            good = take_delta(&in, &out->delta);
        } else {
            good = false;
        }
    }
    return good && (int)out->kind != 0;
}

static bool write_of_one(struct mst_request *out, struct mst_reader in,
                         struct mst_native_arena *arena)
{
    struct mst_write *op;
    struct mst_slice bytes;
    uint64_t tag = 0;

    if (!mst_take_tag(&in, &tag)) {
        return false;
    }
    if (tag == MST_TAG(1, MST_WIRE_VARINT) &&
        (!mst_take_number(&in, &out->write.generation) || !mst_take_tag(&in, &tag))) {
        return false;
    }
    if (tag != MST_TAG(2, MST_WIRE_BYTES) || !mst_take_bytes(&in, &bytes) || in.at < in.end) {
        return false;
    }
    op = mst_native_arena_alloc(arena, sizeof *op);
    if (!op || !operation(op, bytes)) {
        return false;
    }
    out->write.ops = op;
    out->write.count = 1;
    return true;
}

static bool get(struct mst_request *out, struct mst_reader in)
{
    uint64_t tag = 0;
    bool good = true;

    while (good && in.at < in.end) {
        if (!mst_take_tag(&in, &tag)) {
            return false;
        }
        if (tag == MST_TAG(1, MST_WIRE_VARINT)) {
            good = mst_take_number(&in, &out->get.generation);
        } else if (tag == MST_TAG(2, MST_WIRE_BYTES)) {
            good = mst_take_bytes(&in, &out->get.key);
        } else if (tag == MST_TAG(3, MST_WIRE_VARINT)) {
            good = take_flag(&in, &out->get.wait);
        } else {
            good = false;
        }
    }
    return good;
}

static bool round_field(struct mst_round_request *out, struct mst_reader *in, uint64_t tag)
{
    uint64_t number = 0;
    bool good;

    switch (tag) {
    case MST_TAG(1, MST_WIRE_VARINT):
        return mst_take_number(in, &out->generation);
    case MST_TAG(2, MST_WIRE_BYTES):
        return mst_take_bytes(in, &out->name);
    case MST_TAG(3, MST_WIRE_VARINT):
        return mst_take_number(in, &out->number);
    case MST_TAG(5, MST_WIRE_VARINT):
        return mst_take_number(in, &out->deadline_ms);
    case MST_TAG(6, MST_WIRE_VARINT):
        good = mst_take_digits(in, 1, &number) && mst_native_on_loss_known((int)number);
        out->on_loss = (enum mst_on_loss)number;
        return good;
    case MST_TAG(7, MST_WIRE_VARINT):
        good = mst_take_digits(in, 1, &number) && mst_native_reduce_known((int)number);
        out->reduce = (enum mst_reduce)number;
        return good;
    case MST_TAG(10, MST_WIRE_BYTES):
        return mst_take_bytes(in, &out->data);
    case MST_TAG(13, MST_WIRE_VARINT):
        good = mst_take_digits(in, 1, &number) && number <= 1;
        out->any_deadline = number != 0;
        return good;
    default:
        return false;
    }
}

/* Of the members of the generation; no seal. */
static bool whole_round(struct mst_round_request *out, struct mst_reader in)
{
    uint64_t tag = 0;

    while (in.at < in.end) {
        if (!mst_take_tag(&in, &tag) || !round_field(out, &in, tag)) {
            return false;
        }
    }
    return true;
}

static bool watch(struct mst_request *out, struct mst_reader in)
{
    uint64_t tag = 0;
    uint64_t kinds = 0;
    uint64_t node = 0;
    bool good = true;

    while (good && in.at < in.end) {
        if (!mst_take_tag(&in, &tag)) {
            return false;
        }
        if (tag == MST_TAG(1, MST_WIRE_VARINT)) {
            good = mst_take_digits(&in, 1, &kinds) && kinds <= WATCH_ALL;
        } else if (tag == MST_TAG(2, MST_WIRE_VARINT)) {
            good = mst_take_number(&in, &out->watch.generation);
        } else if (tag == MST_TAG(3, MST_WIRE_BYTES)) {
            good = mst_take_bytes(&in, &out->watch.prefix);
        } else if (tag == MST_TAG(4, MST_WIRE_VARINT)) {
            good = mst_take_number(&in, &out->watch.after);
        } else if (tag == MST_TAG(5, MST_WIRE_VARINT)) {
            good = mst_take_number(&in, &node) && node <= UINT32_MAX;
        } else {
            good = false;
        }
    }
    out->watch.kinds = (uint32_t)kinds;
    out->watch.node = (uint32_t)node - 1; /* 0 is MST_NODE_NONE */
    return good;
}

bool mst_native_quick_request(struct mst_request *out, struct mst_slice payload,
                              struct mst_native_arena *arena)
{
    struct mst_reader in = mst_reader_of(payload);
    struct mst_slice command;
    uint64_t id;
    uint64_t oldest;
    uint64_t tag = 0;

    if (!mst_take_tag(&in, &tag) || tag != MST_TAG(1, MST_WIRE_VARINT) ||
        !mst_take_number(&in, &id) || !mst_take_tag(&in, &tag) ||
        tag != MST_TAG(2, MST_WIRE_VARINT) || !mst_take_number(&in, &oldest) ||
        !mst_take_tag(&in, &tag) || !mst_take_bytes(&in, &command) || in.at < in.end) {
        return false;
    }
    if (tag == MST_TAG(COMMAND_FIELD + MST_WRITE, MST_WIRE_BYTES)) {
        *out = (struct mst_request){.id = id, .oldest = oldest, .command = MST_WRITE};
        return write_of_one(out, mst_reader_of(command), arena);
    }
    if (tag == MST_TAG(COMMAND_FIELD + MST_GET, MST_WIRE_BYTES)) {
        *out = (struct mst_request){.id = id, .oldest = oldest, .command = MST_GET};
        return get(out, mst_reader_of(command));
    }
    if (tag == MST_TAG(COMMAND_FIELD + MST_ROUND, MST_WIRE_BYTES)) {
        *out = (struct mst_request){.id = id, .oldest = oldest, .command = MST_ROUND};
        return whole_round(&out->round, mst_reader_of(command));
    }
    if (tag == MST_TAG(COMMAND_FIELD + MST_WATCH, MST_WIRE_BYTES)) {
        *out = (struct mst_request){.id = id, .oldest = oldest, .command = MST_WATCH};
        return watch(out, mst_reader_of(command));
    }
    if (tag == MST_TAG(COMMAND_FIELD + MST_RENEW, MST_WIRE_BYTES) && command.size == 0) {
        *out = (struct mst_request){.id = id, .oldest = oldest, .command = MST_RENEW};
        return true;
    }
    return false;
}

/* ---- a reply in ---- */

static bool take_item(struct mst_item *out, struct mst_slice bytes)
{
    struct mst_reader in = mst_reader_of(bytes);
    uint64_t tag = 0;
    uint64_t kind = 0;
    bool good = true;

    *out = (struct mst_item){.kind = 0};
    while (good && in.at < in.end) {
        if (!mst_take_tag(&in, &tag)) {
            return false;
        }
        if (tag == MST_TAG(1, MST_WIRE_VARINT)) {
            good = mst_take_digits(&in, 1, &kind);
        } else if (tag == MST_TAG(2, MST_WIRE_VARINT)) {
            good = mst_take_number(&in, &out->revision);
        } else if (tag == MST_TAG(3, MST_WIRE_VARINT)) {
            good = mst_take_number(&in, &out->number);
        } else if (tag == MST_TAG(4, MST_WIRE_VARINT)) {
            good = mst_take_number32(&in, &out->arrived);
        } else if (tag == MST_TAG(5, MST_WIRE_VARINT)) {
            good = mst_take_number32(&in, &out->expected);
        } else if (tag == MST_TAG(6, MST_WIRE_BYTES)) {
            good = mst_take_bytes(&in, &out->name);
        } else if (tag == MST_TAG(7, MST_WIRE_BYTES)) {
            good = mst_take_bytes(&in, &out->value);
        } else if (tag == MST_TAG(9, MST_WIRE_VARINT)) {
            good = mst_take_number32(&in, &out->listening);
        } else {
            good = false;
        }
    }
    out->kind = (enum mst_item_kind)kind;
    return good && mst_native_item_kind_known((int)kind);
}

/* How many there are, if nothing follows them. */
static bool count_items(struct mst_reader in, uint32_t *count)
{
    struct mst_slice bytes;

    for (*count = 0; in.at < in.end; ++*count) {
        if (*in.at++ != MST_TAG(10, MST_WIRE_BYTES) || !mst_take_bytes(&in, &bytes)) {
            return false;
        }
    }
    return true;
}

/* From the first one's tag on. */
static bool take_items(struct mst_reply *out, struct mst_reader in, struct mst_native_arena *arena)
{
    struct mst_item *items;
    struct mst_slice bytes;
    uint32_t count;

    if (!count_items(in, &count)) {
        return false;
    }
    items = mst_native_arena_array(arena, count, sizeof *items);
    if (!items) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        in.at++;
        if (!mst_take_bytes(&in, &bytes) || !take_item(&items[i], bytes)) {
            return false;
        }
    }
    out->items = items;
    out->item_count = count;
    return true;
}

/* Numbers: nobody is named. */
static bool take_detail(struct mst_detail *out, struct mst_slice bytes)
{
    struct mst_reader in = mst_reader_of(bytes);
    uint64_t tag = 0;
    bool good = true;

    while (good && in.at < in.end) {
        if (!mst_take_tag(&in, &tag)) {
            return false;
        }
        if (tag == MST_TAG(1, MST_WIRE_VARINT)) {
            good = mst_take_number32(&in, &out->arrived);
        } else if (tag == MST_TAG(2, MST_WIRE_VARINT)) {
            good = mst_take_number32(&in, &out->expected);
        } else if (tag == MST_TAG(3, MST_WIRE_VARINT)) {
            good = mst_take_number32(&in, &out->lost);
        } else if (tag == MST_TAG(4, MST_WIRE_VARINT)) {
            good = mst_take_number32(&in, &out->missing);
        } else if (tag == MST_TAG(5, MST_WIRE_VARINT)) {
            good = take_delta(&in, &out->limit);
        } else if (tag == MST_TAG(7, MST_WIRE_VARINT)) {
            good = mst_take_number32(&in, &out->multiple);
        } else if (tag == MST_TAG(8, MST_WIRE_VARINT)) {
            good = mst_take_number32(&in, &out->limit_kind);
        } else if (tag == MST_TAG(9, MST_WIRE_VARINT)) {
            good = mst_take_number(&in, &out->asked);
        } else {
            good = false;
        }
    }
    return good;
}

static bool take_status(struct mst_reader *in, muster_status *out)
{
    int64_t status = 0;
    bool good = take_delta(in, &status) && status < 0 && status >= INT32_MIN;

    *out = (muster_status)status;
    return good;
}

static bool reply_field(struct mst_reply *out, struct mst_reader *in, uint64_t tag,
                        struct mst_native_arena *arena)
{
    struct mst_slice bytes;
    uint64_t number = 0;

    switch (tag) {
    case MST_TAG(1, MST_WIRE_VARINT):
        return mst_take_number(in, &out->id);
    case MST_TAG(2, MST_WIRE_VARINT):
        out->command = mst_take_digits(in, 1, &number) ? (enum mst_command)number : 0;
        return mst_command_known((uint32_t)number);
    case MST_TAG(3, MST_WIRE_VARINT):
        return take_status(in, &out->status);
    case MST_TAG(4, MST_WIRE_VARINT):
        return take_delta(in, &out->number);
    case MST_TAG(5, MST_WIRE_VARINT):
        return mst_take_number(in, &out->revision);
    case MST_TAG(6, MST_WIRE_VARINT):
        return mst_take_number(in, &out->next);
    case MST_TAG(7, MST_WIRE_BYTES):
        return mst_take_bytes(in, &out->value);
    case MST_TAG(9, MST_WIRE_BYTES):
        out->has_detail = true;
        return mst_take_bytes(in, &bytes) && take_detail(&out->detail, bytes);
    case MST_TAG(10, MST_WIRE_BYTES):
        in->at--;
        if (!take_items(out, *in, arena)) {
            return false;
        }
        in->at = in->end;
        return true;
    default:
        return false;
    }
}

bool mst_native_quick_answer(struct mst_reply *out, struct mst_slice payload,
                             struct mst_native_arena *arena)
{
    struct mst_reader in = mst_reader_of(payload);
    uint64_t tag = 0;

    memset(out, 0, offsetof(struct mst_reply, detail) + offsetof(struct mst_detail, who));
    while (in.at < in.end) {
        if (!mst_take_tag(&in, &tag) || !reply_field(out, &in, tag, arena)) {
            return false;
        }
    }
    return out->id != 0 && (int)out->command != 0;
}

/* ---- out ---- */

static uint64_t zigzag(int64_t number)
{
    return (uint64_t)number << 1 ^ (number < 0 ? UINT64_MAX : 0);
}

/* With its size before it, which has one digit: eight numbers, together 58 bytes at most. */
static unsigned char *put_detail(unsigned char *out, const struct mst_detail *detail)
{
    unsigned char *size = out + 1;
    unsigned char *at = size + 1;

    *out = (unsigned char)MST_TAG(9, MST_WIRE_BYTES);
    at = mst_put_number(at, 1, detail->arrived);
    at = mst_put_number(at, 2, detail->expected);
    at = mst_put_number(at, 3, detail->lost);
    at = mst_put_number(at, 4, detail->missing);
    at = mst_put_number(at, 5, zigzag(detail->limit));
    at = mst_put_number(at, 7, detail->multiple);
    at = mst_put_number(at, 8, detail->limit_kind);
    at = mst_put_number(at, 9, detail->asked);
    *size = (unsigned char)(at - size - 1);
    return at;
}

/* ---- a request out ---- */

/* Without a place to write to it only counts. */
struct writer {
    unsigned char *at;
    size_t size;
};

static void write_digits(struct writer *out, uint64_t number)
{
    if (out->at) {
        out->at = mst_put_digits(out->at, number);
    } else {
        out->size += mst_digits_of(number);
    }
}

static void write_number(struct writer *out, unsigned field, uint64_t number)
{
    if (number != 0) {
        write_digits(out, MST_TAG(field, MST_WIRE_VARINT));
        write_digits(out, number);
    }
}

static void write_bytes(struct writer *out, unsigned field, struct mst_slice bytes)
{
    if (bytes.size == 0) {
        return;
    }
    write_digits(out, MST_TAG(field, MST_WIRE_BYTES));
    write_digits(out, bytes.size);
    if (out->at) {
        memcpy(out->at, bytes.data, bytes.size);
        out->at += bytes.size;
    } else {
        out->size += bytes.size;
    }
}

static void write_operation(struct writer *out, const struct mst_write *op)
{
    write_number(out, 1, (unsigned)op->kind);
    write_number(out, 2, op->owned);
    write_bytes(out, 3, op->key);
    write_bytes(out, 4, op->value);
    write_number(out, 5, op->expected);
    write_number(out, 6, zigzag(op->delta));
}

static void write_write(struct writer *out, const struct mst_request *request)
{
    struct writer counter = {.at = NULL};

    write_operation(&counter, request->write.ops);
    write_number(out, 1, request->write.generation);
    write_digits(out, MST_TAG(2, MST_WIRE_BYTES));
    write_digits(out, counter.size);
    write_operation(out, request->write.ops);
}

static void write_get(struct writer *out, const struct mst_request *request)
{
    write_number(out, 1, request->get.generation);
    write_bytes(out, 2, request->get.key);
    write_number(out, 3, request->get.wait);
}

static void write_watch(struct writer *out, const struct mst_request *request)
{
    write_number(out, 1, request->watch.kinds);
    write_number(out, 2, request->watch.generation);
    write_bytes(out, 3, request->watch.prefix);
    write_number(out, 4, request->watch.after);
    write_number(out, 5, (uint32_t)(request->watch.node + 1)); /* MST_NODE_NONE becomes 0 */
}

static void write_round(struct writer *out, const struct mst_request *request)
{
    const struct mst_round_request *round = &request->round;

    write_number(out, 1, round->generation);
    write_bytes(out, 2, round->name);
    write_number(out, 3, round->number);
    write_number(out, 5, round->deadline_ms);
    write_number(out, 6, (unsigned)round->on_loss);
    write_number(out, 7, (unsigned)round->reduce);
    write_bytes(out, 10, round->data);
    write_number(out, 13, round->any_deadline);
}

static void write_nothing(struct writer *out, const struct mst_request *request)
{
    (void)out;
    (void)request;
}

typedef void write_fn(struct writer *out, const struct mst_request *request);

/* NULL: it is left to protobuf-c. */
static write_fn *writer_of(const struct mst_request *request)
{
    const struct mst_round_request *round = &request->round;

    if (request->command == MST_WRITE) {
        return request->write.count == 1 ? write_write : NULL;
    }
    if (request->command == MST_ROUND) {
        bool plain = round->participant_count == 0 && round->order_count == 0 &&
                     !round->present_only && !round->seal && !round->final;

        return plain ? write_round : NULL;
    }
    if (request->command == MST_GET) {
        return write_get;
    }
    if (request->command == MST_WATCH) {
        return write_watch;
    }
    return request->command == MST_RENEW ? write_nothing : NULL;
}

static void write_head(struct writer *out, const struct mst_request *request, size_t size)
{
    write_number(out, 1, request->id);
    write_number(out, 2, request->oldest);
    write_digits(out, MST_TAG(COMMAND_FIELD + (unsigned)request->command, MST_WIRE_BYTES));
    write_digits(out, size);
}

size_t mst_native_quick_ask_size(const struct mst_request *request, size_t *command_size)
{
    write_fn *write = writer_of(request);
    struct writer counter = {.at = NULL};

    if (!write) {
        return 0;
    }
    write(&counter, request);
    *command_size = counter.size;
    write_head(&counter, request, *command_size);
    return counter.size;
}

void mst_native_quick_ask(unsigned char *bytes, const struct mst_request *request,
                          size_t command_size)
{
    struct writer out = {.at = bytes};

    write_head(&out, request, command_size);
    writer_of(request)(&out, request);
}

/* ---- a reply out ---- */

static bool is_anonymous(const struct mst_item *item)
{
    const struct mst_who *who = &item->who;

    return !(who->index || who->rank || who->incarnation || (int)who->role || (int)who->state ||
             (int)who->cause || who->code || who->losses || who->heard_ms || who->pid ||
             who->host.size || who->node);
}

static void write_item(struct writer *out, const struct mst_item *item)
{
    write_number(out, 1, (unsigned)item->kind);
    write_number(out, 2, item->revision);
    write_number(out, 3, item->number);
    write_number(out, 4, item->arrived);
    write_number(out, 5, item->expected);
    write_bytes(out, 6, item->name);
    write_bytes(out, 7, item->value);
    write_number(out, 9, item->listening);
}

static void write_items(struct writer *out, const struct mst_reply *reply)
{
    for (uint32_t i = 0; i < reply->item_count; i++) {
        struct writer counter = {.at = NULL};

        write_item(&counter, &reply->items[i]);
        write_digits(out, MST_TAG(10, MST_WIRE_BYTES));
        write_digits(out, counter.size);
        write_item(out, &reply->items[i]);
    }
}

size_t mst_native_quick_items_size(const struct mst_reply *reply)
{
    struct writer counter = {.at = NULL};

    write_items(&counter, reply);
    return counter.size;
}

void mst_native_quick_items(unsigned char *bytes, const struct mst_reply *reply)
{
    struct writer out = {.at = bytes};

    write_items(&out, reply);
}

bool mst_native_quick_suits(const struct mst_reply *reply)
{
    bool numbers = reply->detail.who_count == 0 && reply->value.size == 0;

    if (reply->has_view || reply->item_count > ITEMS_MAX || (reply->has_detail && !numbers)) {
        return false;
    }
    for (uint32_t i = 0; i < reply->item_count; i++) {
        if (!is_anonymous(&reply->items[i])) {
            return false;
        }
    }
    return true;
}

size_t mst_native_quick_reply(unsigned char head[MST_NATIVE_QUICK_HEAD],
                              const struct mst_reply *reply)
{
    unsigned char *at = head;

    at = mst_put_number(at, 1, reply->id);
    at = mst_put_number(at, 2, (uint32_t)reply->command);
    at = mst_put_number(at, 3, (uint32_t)zigzag((int32_t)reply->status));
    at = mst_put_number(at, 4, zigzag(reply->number));
    at = mst_put_number(at, 5, reply->revision);
    at = mst_put_number(at, 6, reply->next);
    if (reply->value.size > 0) {
        *at++ = (unsigned char)MST_TAG(7, MST_WIRE_BYTES);
        at = mst_put_digits(at, reply->value.size);
    }
    if (reply->has_detail) {
        at = put_detail(at, &reply->detail);
    }
    return (size_t)(at - head);
}
