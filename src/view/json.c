/* SPDX-License-Identifier: Apache-2.0 */
#include "view/json.h"

#include <stdlib.h>

json_t *mst_json_text(struct mst_slice bytes)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *data = bytes.data;
    json_t *value = json_stringn(bytes.size > 0 ? bytes.data : "", bytes.size);
    size_t size = 0;
    char *text;

    if (value) {
        return value;
    }
    text = malloc(bytes.size * 4 + 1);
    if (!text) {
        return NULL;
    }
    for (size_t i = 0; i < bytes.size; i++) {
        if (data[i] < 0x80) {
            text[size++] = (char)data[i];
            continue;
        }
        text[size++] = '\\';
        text[size++] = 'x';
        text[size++] = digits[data[i] >> 4];
        text[size++] = digits[data[i] & 15];
    }
    value = json_stringn(text, size);
    free(text);
    return value;
}

json_t *mst_json_number(uint64_t number)
{
    return json_integer((json_int_t)number);
}

json_t *mst_json_number_but(uint64_t number, uint64_t none)
{
    return number == none ? json_null() : mst_json_number(number);
}

bool mst_json_put(json_t *object, const char *name, json_t *value)
{
    return json_object_set_new(object, name, value) == 0;
}

void mst_json_append(json_t **list, json_t *value)
{
    if (json_array_append_new(*list, value) != 0) {
        json_decref(*list);
        *list = NULL;
    }
}

char *mst_json_line(json_t *object)
{
    size_t size = object ? json_dumpb(object, NULL, 0, MST_JSON_DUMPED) : 0;
    char *text = size > 0 ? malloc(size + 2) : NULL;

    if (text) {
        (void)json_dumpb(object, text, size, MST_JSON_DUMPED);
        text[size] = '\n';
        text[size + 1] = '\0';
    }
    json_decref(object);
    return text;
}
