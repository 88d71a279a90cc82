/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <stdbool.h>
#include <string.h>

#include "base/panic.h"

struct mst_text mst_text_in(char *array, size_t room)
{
    MST_ASSERT(room >= 4);
    array[0] = '\0';
    return (struct mst_text){.start = array, .room = room};
}

/* Before a character, not in it. */
static void cut(struct mst_text *text)
{
    size_t at = text->room - 4;

    while (at > 0 && ((unsigned char)text->start[at] & 0xc0) == 0x80) {
        at--;
    }
    memcpy(text->start + at, "...", 4);
    text->size = at + 3;
    text->room = at + 4;
}

static void put(struct mst_text *text, char c)
{
    if (text->size + 1 < text->room) {
        text->start[text->size++] = c;
        text->start[text->size] = '\0';
    } else {
        cut(text);
    }
}

void mst_text_add(struct mst_text *text, const char *words)
{
    while (*words) {
        put(text, *words++);
    }
}

/* The size of the character of UTF-8 that begins here; 0: none does. */
static size_t character_size(const unsigned char *bytes, size_t left)
{
    size_t size = bytes[0] < 0x80   ? 1
                  : bytes[0] < 0xc2 ? 0
                  : bytes[0] < 0xe0 ? 2
                  : bytes[0] < 0xf0 ? 3
                  : bytes[0] < 0xf5 ? 4
                                    : 0;

    if (size > left || (bytes[0] == 0xe0 && bytes[1] < 0xa0) ||
        (bytes[0] == 0xed && bytes[1] > 0x9f) || (bytes[0] == 0xf0 && bytes[1] < 0x90) ||
        (bytes[0] == 0xf4 && bytes[1] > 0x8f)) {
        return 0;
    }
    for (size_t i = 1; i < size; i++) {
        if ((bytes[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return size;
}

/* Whoever shows it does as it says. */
static bool is_obeyed(uint32_t character)
{
    static const struct {
        uint32_t from, to;
    } ranges[] = {
        {0, 0x1f},        {0x7f, 0x9f},     /* C0, DEL and C1 */
        {0x61c, 0x61c},   {0x200e, 0x200f}, /* direction */
        {0x2028, 0x202e},                   /* ends of lines, and direction */
        {0x2066, 0x2069},                   /* direction */
        {0xfeff, 0xfeff}, /* a mark of the order of bytes, which shows as nothing */
    };
    size_t i = 0;

    while (i < sizeof ranges / sizeof ranges[0] && character > ranges[i].to) {
        i++;
    }
    return i < sizeof ranges / sizeof ranges[0] && character >= ranges[i].from;
}

size_t mst_text_shown(struct mst_slice bytes)
{
    const unsigned char *data = bytes.data;
    size_t size = bytes.size > 0 ? character_size(data, bytes.size) : 0;
    uint32_t character = 0;

    if (size > 0) {
        character = size == 1 ? data[0] : data[0] & (0x7fU >> size);
    }
    for (size_t i = 1; i < size; i++) {
        character = character << 6 | (data[i] & 0x3f);
    }
    return size > 0 && is_obeyed(character) ? 0 : size;
}

void mst_text_slice(struct mst_text *text, struct mst_slice bytes)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *data = bytes.data;
    size_t shown = 0;

    for (size_t i = 0; i < bytes.size; i++) {
        if (shown == 0) {
            shown = mst_text_shown(mst_slice_of(data + i, bytes.size - i));
        }
        if (shown > 0) {
            put(text, (char)data[i]);
            shown--;
        } else {
            put(text, '\\');
            put(text, 'x');
            put(text, digits[data[i] >> 4]);
            put(text, digits[data[i] & 15]);
        }
    }
}

static void in_base(struct mst_text *text, uint64_t number, unsigned base)
{
    char digits[20];
    size_t count = 0;

    do {
        digits[count++] = "0123456789abcdef"[number % base];
        number /= base;
    } while (number > 0);
    while (count > 0) {
        put(text, digits[--count]);
    }
}

void mst_text_u64(struct mst_text *text, uint64_t number)
{
    in_base(text, number, 10);
}

void mst_text_i64(struct mst_text *text, int64_t number)
{
    if (number < 0) {
        put(text, '-');
    }
    in_base(text, number < 0 ? -(uint64_t)number : (uint64_t)number, 10);
}

void mst_text_hex(struct mst_text *text, uint64_t number)
{
    in_base(text, number, 16);
}

void mst_text_seconds(struct mst_text *text, uint64_t ms)
{
    uint64_t tenths = (ms + 50) / 100;

    mst_text_u64(text, tenths / 10);
    put(text, '.');
    put(text, (char)('0' + (char)(tenths % 10)));
    mst_text_add(text, " s");
}
