/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/cluster/quick.h"

#include "base/panic.h"
#include "proto/cluster/cluster.h"
#include "proto/native/digits.h"

enum { RUN_PARTS = 9, RUN_NEEDS = 8, RUN_KEY = 5, RESULT_PARTS = 6, PART_DATA = 2 };

/* ---- in ---- */

static bool part(struct mst_part *out, struct mst_slice bytes)
{
    struct mst_reader in = mst_reader_of(bytes);
    uint64_t tag = 0;
    bool good = true;

    *out = (struct mst_part){.type = 0};
    while (good && in.at < in.end) {
        if (!mst_take_tag(&in, &tag)) {
            return false;
        }
        if (tag == MST_TAG(1, MST_WIRE_VARINT)) {
            good = mst_take_number32(&in, &out->type);
        } else if (tag == MST_TAG(PART_DATA, MST_WIRE_BYTES)) {
            good = mst_take_bytes(&in, &out->data);
        } else {
            good = false;
        }
    }
    return good;
}

/* The next one of a field that is there several times; its first tag was taken. */
static bool take_next(struct mst_reader *in, uint64_t tag, bool first, struct mst_slice *out)
{
    uint64_t found = tag;

    return (first || (mst_take_digits(in, 1, &found) && found == tag)) && mst_take_bytes(in, out);
}

/* All that is left, behind the tag of the first. */
static bool rest_is_parts(struct mst_parts *out, struct mst_reader in, uint64_t tag,
                          struct mst_native_arena *arena)
{
    struct mst_reader ahead = in;
    struct mst_slice bytes;
    struct mst_part *items;
    uint32_t count = 0;

    for (; count == 0 || ahead.at < ahead.end; count++) {
        if (count == MST_CLUSTER_PARTS_MAX || !take_next(&ahead, tag, count == 0, &bytes)) {
            return false;
        }
    }
    items = mst_native_arena_array(arena, count, sizeof(*items));
    for (uint32_t i = 0; i < count; i++) {
        if (!items || !take_next(&in, tag, i == 0, &bytes) || !part(&items[i], bytes)) {
            return false;
        }
    }
    *out = (struct mst_parts){.items = items, .count = count};
    return true;
}

static bool take_needs(struct mst_reader *in, struct mst_cluster_message *out,
                       struct mst_native_arena *arena)
{
    struct mst_slice bytes;
    struct mst_reader needs;
    uint64_t *numbers;
    uint32_t count = 0;

    if (!mst_take_bytes(in, &bytes)) {
        return false;
    }
    needs = mst_reader_of(bytes);
    for (const unsigned char *at = needs.at; at < needs.end; at++) {
        count += *at < MST_MORE_DIGITS; /* the last digit of one */
    }
    if (count == 0 || count > MST_CLUSTER_PARTS_MAX) {
        return false;
    }
    numbers = mst_native_arena_array(arena, count, sizeof(*numbers));
    for (uint32_t i = 0; i < count; i++) {
        if (!numbers || !mst_take_number(&needs, &numbers[i])) {
            return false;
        }
    }
    out->needs = numbers;
    out->need_count = count;
    return needs.at == needs.end;
}

static bool run_field(struct mst_cluster_message *out, struct mst_reader *in, uint64_t tag,
                      struct mst_native_arena *arena)
{
    switch (tag) {
    case MST_TAG(1, MST_WIRE_VARINT):
        return mst_take_number(in, &out->attempt.closure);
    case MST_TAG(2, MST_WIRE_VARINT):
        return mst_take_number32(in, &out->attempt.attempt);
    case MST_TAG(3, MST_WIRE_VARINT):
        return mst_take_number(in, &out->series);
    case MST_TAG(4, MST_WIRE_VARINT):
        return mst_take_number32(in, &out->function);
    case MST_TAG(RUN_KEY, MST_WIRE_BYTES):
        return mst_take_bytes(in, &out->key);
    case MST_TAG(6, MST_WIRE_VARINT):
        return mst_take_number(in, &out->run_limit_ms);
    case MST_TAG(7, MST_WIRE_VARINT):
        return mst_take_number(in, &out->left_ms);
    case MST_TAG(RUN_NEEDS, MST_WIRE_BYTES):
        return take_needs(in, out, arena);
    default:
        return false;
    }
}

static bool run(struct mst_cluster_message *out, struct mst_reader in,
                struct mst_native_arena *arena)
{
    const uint64_t parts = MST_TAG(RUN_PARTS, MST_WIRE_BYTES);
    uint64_t tag = 0;

    while (in.at < in.end) {
        if (!mst_take_tag(&in, &tag)) {
            return false;
        }
        if (tag == parts) {
            return rest_is_parts(&out->parts, in, parts, arena);
        }
        if (!run_field(out, &in, tag, arena)) {
            return false;
        }
    }
    return true;
}

static bool result_field(struct mst_cluster_message *out, struct mst_reader *in, uint64_t tag)
{
    switch (tag) {
    case MST_TAG(1, MST_WIRE_VARINT):
        return mst_take_number(in, &out->attempt.closure);
    case MST_TAG(2, MST_WIRE_VARINT):
        return mst_take_number32(in, &out->attempt.attempt);
    case MST_TAG(3, MST_WIRE_VARINT):
        return mst_take_number(in, &out->series);
    case MST_TAG(4, MST_WIRE_VARINT):
        return mst_take_number(in, &out->run_ns);
    default:
        return false;
    }
}

static bool result(struct mst_cluster_message *out, struct mst_reader in,
                   struct mst_native_arena *arena)
{
    const uint64_t parts = MST_TAG(RESULT_PARTS, MST_WIRE_BYTES);
    uint64_t tag = 0;

    while (in.at < in.end) {
        if (!mst_take_tag(&in, &tag)) {
            return false;
        }
        if (tag == parts) {
            return rest_is_parts(&out->parts, in, parts, arena);
        }
        if (!result_field(out, &in, tag)) {
            return false;
        }
    }
    return true;
}

bool mst_cluster_quick_read(struct mst_cluster_message *out, struct mst_slice payload,
                            struct mst_native_arena *arena)
{
    struct mst_reader in = mst_reader_of(payload);
    struct mst_slice body;
    uint64_t tag = 0;

    if (!mst_take_tag(&in, &tag) || !mst_take_bytes(&in, &body) || in.at < in.end) {
        return false;
    }
    *out = (struct mst_cluster_message){.failure = {.worker = MST_WORKER_NONE}};
    if (tag == MST_TAG(MST_CLUSTER_RUN, MST_WIRE_BYTES)) {
        out->type = MST_CLUSTER_RUN;
        return run(out, mst_reader_of(body), arena);
    }
    if (tag == MST_TAG(MST_CLUSTER_RESULT, MST_WIRE_BYTES)) {
        out->type = MST_CLUSTER_RESULT;
        return result(out, mst_reader_of(body), arena);
    }
    return false;
}

/* ---- out ---- */

bool mst_cluster_quick_suits(const struct mst_cluster_message *message)
{
    return message->type == MST_CLUSTER_RUN ||
           (message->type == MST_CLUSTER_RESULT && message->failure.origin == MST_ORIGIN_NONE);
}

/* Of a field up to 15; one at its default is not there. */
static uint64_t number_size(uint64_t number)
{
    return number == 0 ? 0 : 1 + mst_digits_of(number);
}

static uint64_t bytes_size(uint64_t size)
{
    return size == 0 ? 0 : 1 + mst_digits_of(size) + size;
}

static uint64_t part_size(const struct mst_part *part)
{
    return number_size(part->type) + bytes_size(part->data.size);
}

static uint64_t parts_size(const struct mst_parts *parts)
{
    uint64_t size = 0;

    for (uint32_t i = 0; i < parts->count; i++) {
        uint64_t one = part_size(&parts->items[i]);

        size += 1 + mst_digits_of(one) + one;
    }
    return size;
}

static uint64_t needs_size(const struct mst_cluster_message *message)
{
    uint64_t size = 0;

    for (uint32_t i = 0; i < message->need_count; i++) {
        size += mst_digits_of(message->needs[i]);
    }
    return size;
}

struct mst_cluster_quick_size mst_cluster_quick_size(const struct mst_cluster_message *message)
{
    bool is_run = message->type == MST_CLUSTER_RUN;
    uint64_t body = number_size(message->attempt.closure) + number_size(message->attempt.attempt) +
                    number_size(message->series) + parts_size(&message->parts);

    if (is_run) {
        body += number_size(message->function) + bytes_size(message->key.size) +
                number_size(message->run_limit_ms) + number_size(message->left_ms) +
                bytes_size(needs_size(message));
    } else {
        body += number_size(message->run_ns);
    }
    return (struct mst_cluster_quick_size){
        .body = body,
        .payload = (is_run ? 2 : 1) + mst_digits_of(body) + body, /* the tag of a run has two */
    };
}

static unsigned char *put_slice(unsigned char *out, unsigned field, struct mst_slice slice)
{
    if (slice.size > 0) {
        *out++ = (unsigned char)MST_TAG(field, MST_WIRE_BYTES);
        out = mst_put_digits(out, slice.size);
        memcpy(out, slice.data, slice.size);
        out += slice.size;
    }
    return out;
}

static unsigned char *put_needs(unsigned char *out, const struct mst_cluster_message *message)
{
    if (message->need_count > 0) {
        *out++ = (unsigned char)MST_TAG(RUN_NEEDS, MST_WIRE_BYTES);
        out = mst_put_digits(out, needs_size(message));
        for (uint32_t i = 0; i < message->need_count; i++) {
            out = mst_put_digits(out, message->needs[i]);
        }
    }
    return out;
}

static unsigned char *put_parts(unsigned char *out, unsigned field, const struct mst_parts *parts)
{
    for (uint32_t i = 0; i < parts->count; i++) {
        const struct mst_part *part = &parts->items[i];

        *out++ = (unsigned char)MST_TAG(field, MST_WIRE_BYTES);
        out = mst_put_digits(out, part_size(part));
        out = mst_put_number(out, 1, part->type);
        out = put_slice(out, PART_DATA, part->data);
    }
    return out;
}

void mst_cluster_quick_write(unsigned char *at, const struct mst_cluster_message *message,
                             struct mst_cluster_quick_size size)
{
    const unsigned char *end = at + size.payload;

    at = mst_put_digits(at, MST_TAG(message->type, MST_WIRE_BYTES));
    at = mst_put_digits(at, size.body);
    at = mst_put_number(at, 1, message->attempt.closure);
    at = mst_put_number(at, 2, message->attempt.attempt);
    at = mst_put_number(at, 3, message->series);
    if (message->type == MST_CLUSTER_RUN) {
        at = mst_put_number(at, 4, message->function);
        at = put_slice(at, RUN_KEY, message->key);
        at = mst_put_number(at, 6, message->run_limit_ms);
        at = mst_put_number(at, 7, message->left_ms);
        at = put_needs(at, message);
        at = put_parts(at, RUN_PARTS, &message->parts);
    } else {
        at = mst_put_number(at, 4, message->run_ns);
        at = put_parts(at, RESULT_PARTS, &message->parts);
    }
    MST_ASSERT(at == end);
}
