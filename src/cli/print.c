/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cli/print.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "proto/words.h"

void mst_cli_print_bytes(struct muster_slice bytes)
{
    const char *data = bytes.data;
    size_t size = 1;

    for (size_t i = 0; i < bytes.size; i += size) {
        size = mst_text_shown(mst_slice_of(data + i, bytes.size - i));
        size = size > 0 ? size : 1;
        mst_cli_say("%s%.*s", data[i] == '\\' ? "\\" : "", (int)size, data + i);
    }
}

void mst_cli_say(const char *format, ...)
{
    char part[4096];
    struct mst_text text = mst_text_in(part, sizeof part);
    va_list arguments;

    va_start(arguments, format);
    mst_text_format_list(&text, format, arguments);
    va_end(arguments);
    mst_cli_put("%s", part);
}

void mst_cli_put_more(size_t count, size_t shown)
{
    if (count > shown) {
        mst_cli_put(" and %zu more", count - shown);
    }
}

void mst_cli_print_word(const char *word)
{
    bool plain = *word != '\0';

    for (const char *c = word; *c; c++) {
        plain = plain && (isalnum((unsigned char)*c) || strchr("_-./:,@%+=", *c));
    }
    if (plain) {
        mst_cli_put("%s", word);
        return;
    }
    mst_cli_put("$'");
    for (const char *c = word; *c; c++) {
        if (*c == '\'' || *c == '\\') {
            mst_cli_put("\\%c", *c);
        } else if ((unsigned char)*c < ' ' || (unsigned char)*c > '~') {
            mst_cli_put("\\x%02x", (unsigned char)*c);
        } else {
            mst_cli_put("%c", *c);
        }
    }
    mst_cli_put("'");
}

json_t *mst_cli_json_check(json_t *value)
{
    if (!value) {
        mst_cli_tell("muster: out of memory");
        exit(MST_CLI_FAILED);
    }
    return value;
}

void mst_cli_json_put(json_t *object, const char *name, json_t *value)
{
    if (json_object_set_new(object, name, mst_cli_json_check(value)) != 0) {
        (void)mst_cli_json_check(NULL);
    }
}

void mst_cli_json_append(json_t *array, json_t *value)
{
    if (json_array_append_new(array, mst_cli_json_check(value)) != 0) {
        (void)mst_cli_json_check(NULL);
    }
}

json_t *mst_cli_json_object(const struct mst_cli_field *fields)
{
    json_t *object = mst_cli_json_check(json_object());

    for (; fields->name; fields++) {
        mst_cli_json_put(object, fields->name, fields->value);
    }
    return object;
}

static json_t *base64(struct muster_slice bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *data = bytes.data;
    char *text = malloc((bytes.size + 2) / 3 * 4 + 1);
    size_t size = 0;
    json_t *value;

    for (size_t i = 0; text && i < bytes.size; i += 3) {
        size_t left = bytes.size - i;
        uint32_t three = (uint32_t)data[i] << 16;

        three |= left > 1 ? (uint32_t)data[i + 1] << 8 : 0;
        three |= left > 2 ? data[i + 2] : 0;
        text[size++] = digits[three >> 18];
        text[size++] = digits[three >> 12 & 63];
        text[size++] = (char)(left > 1 ? digits[three >> 6 & 63] : '=');
        text[size++] = (char)(left > 2 ? digits[three & 63] : '=');
    }
    value = text ? json_stringn(text, size) : NULL;
    free(text);
    return value;
}

json_t *mst_cli_json_bytes(struct muster_slice bytes)
{
    json_t *value = json_stringn(bytes.size ? bytes.data : "", bytes.size);

    return value ? value
                 : mst_cli_json_object(
                       (struct mst_cli_field[]){{"base64", base64(bytes)}, {NULL, NULL}});
}

json_t *mst_cli_json_text(const char *text)
{
    return mst_cli_json_bytes((struct muster_slice){.data = text, .size = strlen(text)});
}

void mst_cli_json_print(json_t *value)
{
    (void)json_dumpf(value, stdout, MST_CLI_JSON);
    mst_cli_put("\n");
    (void)fflush(stdout);
    json_decref(value);
}

int mst_cli_finish_output(const struct mst_cli *cli)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        return mst_cli_fail(cli, "cannot write to stdout: %s", strerror(errno));
    }
    return MST_CLI_OK;
}
