/* SPDX-License-Identifier: Apache-2.0 */
#include "sources/metadata/part.h"

static bool is_space(char letter)
{
    return letter == ' ' || letter == '\t' || letter == '\r' || letter == '\n';
}

struct mst_slice mst_metadata_trimmed(struct mst_slice text)
{
    const char *start = text.data;
    size_t size = text.size;

    while (size > 0 && is_space(start[0])) {
        start++;
        size--;
    }
    while (size > 0 && is_space(start[size - 1])) {
        size--;
    }
    return mst_slice_of(start, size);
}

static char small(char letter)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz";

    if (letter < 'A' || letter > 'Z') {
        return letter;
    }
    return letters[letter - 'A'];
}

static bool is_allowed(char letter, const char *others)
{
    char low = small(letter);

    if ((low >= 'a' && low <= 'z') || (letter >= '0' && letter <= '9')) {
        return true;
    }
    for (; *others; others++) {
        if (*others == letter) {
            return true;
        }
    }
    return false;
}

bool mst_metadata_word(struct mst_slice text, const char *others, char *out, size_t room)
{
    const char *letters = text.data;

    if (text.size == 0 || text.size >= room) {
        return false;
    }
    for (size_t i = 0; i < text.size; i++) {
        if (!is_allowed(letters[i], others)) {
            return false;
        }
    }
    memcpy(out, letters, text.size);
    out[text.size] = '\0';
    return true;
}

bool mst_metadata_same_name(const char *a, const char *b)
{
    while (*a && small(*a) == small(*b)) {
        a++;
        b++;
    }
    return *a == '\0' && *b == '\0';
}

json_t *mst_metadata_json(struct mst_slice body)
{
    return json_loadb(body.data ? body.data : "", body.size, JSON_REJECT_DUPLICATES, NULL);
}

struct mst_slice mst_metadata_field(const json_t *object, const char *name)
{
    const json_t *field = json_object_get(object, name);

    return mst_slice_of(json_string_value(field), json_string_length(field));
}
