/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <string.h>

#include "base/panic.h"

struct mst_text mst_text_in(char *array, size_t room)
{
    MST_ASSERT(room >= 4);
    array[0] = '\0';
    return (struct mst_text){.start = array, .room = room};
}

static void put(struct mst_text *text, char c)
{
    if (text->size + 1 < text->room) {
        text->start[text->size++] = c;
        text->start[text->size] = '\0';
    } else {
        memcpy(text->start + text->room - 4, "...", 4);
    }
}

void mst_text_add(struct mst_text *text, const char *words)
{
    while (*words) {
        put(text, *words++);
    }
}

void mst_text_slice(struct mst_text *text, struct mst_slice bytes)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *data = bytes.data;

    for (size_t i = 0; i < bytes.size; i++) {
        if (data[i] >= 0x20 && data[i] != 0x7f) {
            put(text, (char)data[i]);
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
