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

/* A terminal or an editor obeys it instead of showing it. */
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

/* ---- a format ---- */

/* A va_list that functions take from in turn. */
struct arguments {
    va_list list;
};

/* What stands between a '%' and what ends it. */
struct conversion {
    bool is_signed;
    bool has_z;
    unsigned longs;    /* how often l stands there */
    size_t digits_min; /* zeros fill it up */
};

static void put_number(struct mst_text *text, uint64_t number, unsigned base, size_t digits_min)
{
    char digits[22];
    size_t count = 0;

    MST_ASSERT(digits_min <= sizeof(digits));
    do {
        digits[count++] = "0123456789abcdef"[number % base];
        number /= base;
    } while (number > 0 || count < digits_min);
    while (count > 0) {
        put(text, digits[--count]);
    }
}

/* With its sign in all 64 bits. */
static uint64_t take_number(struct arguments *from, const struct conversion *how)
{
    if (how->has_z) {
        return how->is_signed ? (uint64_t)va_arg(from->list, ptrdiff_t)
                              : va_arg(from->list, size_t);
    }
    if (how->longs == 0) {
        return how->is_signed ? (uint64_t)va_arg(from->list, int) : va_arg(from->list, unsigned);
    }
    if (how->longs == 1) {
        return how->is_signed ? (uint64_t)va_arg(from->list, long)
                              : va_arg(from->list, unsigned long);
    }
    return how->is_signed ? (uint64_t)va_arg(from->list, long long)
                          : va_arg(from->list, unsigned long long);
}

/* %016llx: `at` is behind the '%'; returns what is behind the conversion. */
static const char *convert_number(struct mst_text *text, const char *at, struct arguments *from)
{
    struct conversion how = {.digits_min = 0};
    uint64_t number;
    unsigned base;

    if (*at == '0') {
        for (at++; *at >= '0' && *at <= '9'; at++) {
            how.digits_min = how.digits_min * 10 + (size_t)(*at - '0');
        }
    }
    how.has_z = *at == 'z';
    at += how.has_z;
    for (; !how.has_z && how.longs < 2 && *at == 'l'; at++) {
        how.longs++;
    }
    how.is_signed = *at == 'd' || *at == 'i';
    base = *at == 'x' ? 16 : *at == 'o' ? 8 : 10;
    MST_ASSERT(how.is_signed ? how.digits_min == 0 : base != 10 || *at == 'u');
    number = take_number(from, &how);
    if (how.is_signed && (int64_t)number < 0) {
        put(text, '-');
        number = -number;
    }
    put_number(text, number, base, how.digits_min);
    return at + 1;
}

/* `at` is behind the '%'; returns what is behind the conversion. */
static const char *convert(struct mst_text *text, const char *at, struct arguments *from)
{
    const char *words;
    int size;

    if (at[0] == '.' && at[1] == '*' && at[2] == 's') {
        size = va_arg(from->list, int);
        MST_ASSERT(size >= 0);
        mst_text_slice(text, mst_slice_of(va_arg(from->list, const char *), (size_t)size));
        return at + 3;
    }
    if (*at == 's') {
        words = va_arg(from->list, const char *);
        mst_text_add(text, words != NULL ? words : "(null)");
    } else if (*at == 'c') {
        put(text, (char)va_arg(from->list, int));
    } else if (*at == '%') {
        put(text, '%');
    } else {
        return convert_number(text, at, from);
    }
    return at + 1;
}

void mst_text_format_list(struct mst_text *text, const char *format, va_list arguments)
{
    struct arguments from;

    va_copy(from.list, arguments);
    while (*format) {
        if (*format == '%') {
            format = convert(text, format + 1, &from);
        } else {
            put(text, *format++);
        }
    }
    va_end(from.list);
}

void mst_text_format(struct mst_text *text, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    mst_text_format_list(text, format, arguments);
    va_end(arguments);
}

size_t mst_text_print(char *array, size_t room, const char *format, ...)
{
    struct mst_text text = mst_text_in(array, room);
    va_list arguments;

    va_start(arguments, format);
    mst_text_format_list(&text, format, arguments);
    va_end(arguments);
    return text.size;
}
