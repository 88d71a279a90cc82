/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/line.h"

bool mst_line_signed(struct mst_slice text, int64_t *out)
{
    bool negative = text.size > 0 && *(const char *)text.data == '-';
    uint64_t number;

    if (!mst_slice_number(negative ? mst_slice_from(text, 1) : text, INT64_MAX, &number)) {
        return false;
    }
    *out = negative ? -(int64_t)number : (int64_t)number;
    return true;
}

bool mst_line_printable(struct mst_slice text)
{
    const unsigned char *bytes = text.data;

    for (size_t i = 0; i < text.size; i++) {
        if (bytes[i] < 0x20 || bytes[i] == 0x7f) {
            return false;
        }
    }
    return true;
}

bool mst_line_take(struct mst_slice *line, struct mst_line_word *out, const char *rest)
{
    const char *text = line->data;
    size_t equals = 0;
    size_t end;
    bool all;

    while (equals < line->size && text[equals] != '=' && text[equals] != ' ') {
        equals++;
    }
    if (equals == 0 || equals == line->size || text[equals] != '=') {
        return false;
    }
    out->name = mst_slice_of(text, equals);
    all = rest && mst_slice_is(out->name, rest);
    end = equals + 1;
    while (end < line->size && (text[end] != ' ' || all)) {
        end++;
    }
    out->value = mst_slice_of(text + equals + 1, end - equals - 1);
    while (end < line->size && text[end] == ' ') {
        end++;
    }
    *line = mst_slice_from(*line, end);
    return true;
}

void mst_line_put(struct mst_text *line, const char *head, struct mst_slice value)
{
    const char *bytes = value.data;

    mst_text_add(line, value.size > 0 ? head : "");
    for (size_t i = 0; i < value.size; i++) {
        unsigned char byte = (unsigned char)bytes[i];

        mst_text_format(line, "%c", byte <= 0x20 || byte == 0x7f ? '-' : bytes[i]);
    }
}
