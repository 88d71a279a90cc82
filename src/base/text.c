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

/* A va_list that functions take from in turn. */
struct arguments {
    va_list list;
};

/* Of the integer that a conversion prints: as %d, %ld, %lld or %zd has it. */
enum length { LENGTH_INT, LENGTH_LONG, LENGTH_LONG_LONG, LENGTH_SIZE };

static enum length read_length(const char **at)
{
    if (**at == 'z') {
        ++*at;
        return LENGTH_SIZE;
    }
    if (**at != 'l') {
        return LENGTH_INT;
    }
    ++*at;
    if (**at != 'l') {
        return LENGTH_LONG;
    }
    ++*at;
    return LENGTH_LONG_LONG;
}

static uint64_t take_unsigned(struct arguments *from, enum length length)
{
    switch (length) {
    case LENGTH_INT:
        return va_arg(from->list, unsigned);
    case LENGTH_LONG:
        return va_arg(from->list, unsigned long);
    case LENGTH_LONG_LONG:
        return va_arg(from->list, unsigned long long);
    case LENGTH_SIZE:
        break;
    }
    return va_arg(from->list, size_t);
}

static int64_t take_signed(struct arguments *from, enum length length)
{
    switch (length) {
    case LENGTH_INT:
        return va_arg(from->list, int);
    case LENGTH_LONG:
        return va_arg(from->list, long);
    case LENGTH_LONG_LONG:
        return va_arg(from->list, long long);
    case LENGTH_SIZE:
        break;
    }
    return va_arg(from->list, ptrdiff_t);
}

static void put_words(struct mst_text *text, const char *words)
{
    mst_text_add(text, words != NULL ? words : "(null)");
}

static void put_bytes(struct mst_text *text, struct arguments *from)
{
    int size = va_arg(from->list, int);

    MST_ASSERT(size >= 0);
    mst_text_slice(text, mst_slice_of(va_arg(from->list, const char *), (size_t)size));
}

/* `at` is behind the '%'; returns what is behind the conversion. */
static const char *convert(struct mst_text *text, const char *at, struct arguments *from)
{
    enum length length;

    if (at[0] == '.' && at[1] == '*' && at[2] == 's') {
        put_bytes(text, from);
        return at + 3;
    }
    if (*at == '%') {
        put(text, '%');
        return at + 1;
    }
    if (*at == 's') {
        put_words(text, va_arg(from->list, const char *));
        return at + 1;
    }
    if (*at == 'c') {
        put(text, (char)va_arg(from->list, int));
        return at + 1;
    }
    length = read_length(&at);
    if (*at == 'd' || *at == 'i') {
        mst_text_i64(text, take_signed(from, length));
    } else {
        MST_ASSERT(*at == 'u' || *at == 'x');
        in_base(text, take_unsigned(from, length), *at == 'u' ? 10 : 16);
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
