/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_FIELD_ROWS_H
#define MST_PROTO_FIELD_ROWS_H

/* How the tables of fields are written. OF is the struct that the rows below it describe; that a
 * member's size fits its type is checked when they are compiled. */

#include "base/slice.h"
#include "proto/field.h"

#define MST_SIZE_UINT32 4
#define MST_SIZE_PLUS_ONE 4
#define MST_SIZE_UINT64 8
#define MST_SIZE_SINT32 4
#define MST_SIZE_SINT64 8
#define MST_SIZE_BOOL sizeof(bool)
#define MST_SIZE_ENUM 4
#define MST_SIZE_FIXED64 8
#define MST_SIZE_DOUBLE sizeof(double)
#define MST_SIZE_BYTES sizeof(struct mst_slice)
#define MST_SIZE_STRING sizeof(struct mst_slice)

#define MST_WIRE_OF_UINT32 MST_WIRE_VARINT
#define MST_WIRE_OF_PLUS_ONE MST_WIRE_VARINT
#define MST_WIRE_OF_UINT64 MST_WIRE_VARINT
#define MST_WIRE_OF_SINT32 MST_WIRE_VARINT
#define MST_WIRE_OF_SINT64 MST_WIRE_VARINT
#define MST_WIRE_OF_BOOL MST_WIRE_VARINT
#define MST_WIRE_OF_ENUM MST_WIRE_VARINT
#define MST_WIRE_OF_FIXED64 MST_WIRE_FIXED64
#define MST_WIRE_OF_DOUBLE MST_WIRE_FIXED64
#define MST_WIRE_OF_BYTES MST_WIRE_BYTES
#define MST_WIRE_OF_STRING MST_WIRE_BYTES

/* The offset of a member that must be so large. */
#define MST_PLACE(member, bytes)                                                                   \
    (uint16_t)(offsetof(OF, member) +                                                              \
               0 * sizeof(char[sizeof(((const OF *)0)->member) == (bytes) ? 1 : -1]))

/* The probe that says whether any of the `bytes` at an offset is not 0. It reads eight, all of them
 * of the struct. */
#define MST_PROBE_AT(offset)                                                                       \
    ((offset) + sizeof(uint64_t) > sizeof(OF) ? sizeof(OF) - sizeof(uint64_t) : (offset))
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define MST_PROBE_SHIFT(offset, bytes) (8 * ((offset)-MST_PROBE_AT(offset)))
#else
#define MST_PROBE_SHIFT(offset, bytes) (8 * (8 - (bytes) - ((offset)-MST_PROBE_AT(offset))))
#endif
#define MST_PROBE(offset, bytes)                                                                   \
    .probe_at = (uint16_t)MST_PROBE_AT(offset),                                                    \
    .probe = UINT64_MAX >> (64 - 8 * (bytes)) << MST_PROBE_SHIFT(offset, bytes)

#define MST_PROBE_OF_UINT32(offset) MST_PROBE(offset, 4)
#define MST_PROBE_OF_PLUS_ONE(offset)                                                              \
    MST_PROBE(offset, 4), .absent = (uint64_t)UINT32_MAX << MST_PROBE_SHIFT(offset, 4)
#define MST_PROBE_NONE .absent = 1
#define MST_PROBE_OF_UINT64(offset) MST_PROBE(offset, 8)
#define MST_PROBE_OF_SINT32(offset) MST_PROBE(offset, 4)
#define MST_PROBE_OF_SINT64(offset) MST_PROBE(offset, 8)
#define MST_PROBE_OF_BOOL(offset) MST_PROBE(offset, sizeof(bool))
#define MST_PROBE_OF_ENUM(offset) MST_PROBE(offset, 4)
#define MST_PROBE_OF_FIXED64(offset) MST_PROBE(offset, 8)
#define MST_PROBE_OF_DOUBLE(offset) .probe_at = (offset), .probe = UINT64_MAX >> 1 /* no sign */
#define MST_PROBE_OF_BYTES(offset)                                                                 \
    MST_PROBE((offset) + offsetof(struct mst_slice, size), sizeof(size_t))
#define MST_PROBE_OF_STRING(offset) MST_PROBE_OF_BYTES(offset)

#define FIELD(number, TYPE, title, member)                                                         \
    .name = #title, .type = MST_FIELD_##TYPE, .tag = (number) << 3 | MST_WIRE_OF_##TYPE,           \
    .offset = MST_PLACE(member, MST_SIZE_##TYPE), MST_PROBE_OF_##TYPE(offsetof(OF, member))
#define ROW(number, TYPE, title, member) [number] = {FIELD(number, TYPE, title, member)}

/* From `low` to `high`; `words` complain of another one. */
#define BOUNDED(number, TYPE, title, member, low, high, words)                                     \
    [number] = {FIELD(number, TYPE, title, member), .bounded = true, .least = (low),               \
                .most = (high), .complaint = (words)}

#define MST_PART(number, kind, title)                                                              \
    .name = #title, .type = MST_FIELD_MESSAGE, .tag = (number) << 3 | MST_WIRE_BYTES,              \
    .message = &kind##_message

/* A message that is there if anything in it is, or if a bool says so. */
#define PART(number, kind, title, member)                                                          \
    [number] = {MST_PART(number, kind, title), .offset = offsetof(OF, member), MST_PROBE_NONE}
#define PART_IF(number, kind, title, member, has)                                                  \
    [number] = {MST_PART(number, kind, title), .offset = offsetof(OF, member),                     \
                .count = MST_PLACE(has, sizeof(bool)), MST_PROBE(offsetof(OF, has), sizeof(bool))}

/* A message whose own rows are about the same struct. */
#define CASE(number, kind, title)                                                                  \
    [number] = {MST_PART(number, kind, title), .label = MST_FIELD_CASE, MST_PROBE_NONE}

/* Arrays; of more than `high` the `words` complain; 0: there may be any number. */
#define MST_ARRAY(member, length, high, words)                                                     \
    .label = MST_FIELD_MANY, .offset = offsetof(OF, member),                                       \
    .size = sizeof(((const OF *)0)->member[0]), .count = MST_PLACE(length, 4),                     \
    MST_PROBE(offsetof(OF, length), 4), .bounded = (high) > 0, .most = (high),                     \
    .complaint = (words)
#define ARRAY(number, TYPE, title, member, length, high, words)                                    \
    [number] = {.name = #title,                                                                    \
                .type = MST_FIELD_ARRAY,                                                           \
                .item = MST_FIELD_##TYPE,                                                          \
                .tag = (number) << 3 | MST_WIRE_BYTES,                                             \
                MST_ARRAY(member, length, high, words)}
#define PARTS(number, kind, title, member, length, high, words)                                    \
    [number] = {MST_PART(number, kind, title), MST_ARRAY(member, length, high, words)}
#define FEW(number, kind, title, member, length, words)                                            \
    [number] = {MST_PART(number, kind, title),                                                     \
                .label = MST_FIELD_FEW,                                                            \
                .offset = offsetof(OF, member),                                                    \
                .count = MST_PLACE(length, 4),                                                     \
                MST_PROBE(offsetof(OF, length), 4),                                                \
                .size = sizeof(((const OF *)0)->member[0]),                                        \
                .bounded = true,                                                                   \
                .complaint = (words),                                                              \
                .most = sizeof(((const OF *)0)->member) / sizeof(((const OF *)0)->member[0])}
/* `told`: a number that is 0 without an element. `next`: the member of an element that points at
 * the following one. */
/* NOLINTBEGIN(bugprone-macro-parentheses): a member takes none */
#define CHAIN(number, kind, title, member, told, next, high, words)                                \
    [number] = {MST_PART(number, kind, title),                                                     \
                .label = MST_FIELD_CHAIN,                                                          \
                .offset = offsetof(OF, member),                                                    \
                .size = sizeof(((const OF *)0)->member),                                           \
                .count = (uint16_t)(offsetof(OF, member.next) - offsetof(OF, member)),             \
                MST_PROBE(offsetof(OF, told), 4),                                                  \
                .bounded = true,                                                                   \
                .most = (high),                                                                    \
                .complaint = (words)}
/* NOLINTEND(bugprone-macro-parentheses) */

#define BIT(number) (UINT64_C(1) << (number))

#define ROWS(rows) .fields = (rows), .last = sizeof(rows) / sizeof((rows)[0]) - 1

#endif
