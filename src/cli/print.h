/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLI_PRINT_H
#define MST_CLI_PRINT_H

#include <jansson.h>

#include "base/text.h"
#include "cli/cli.h"
#include "muster/member.h"

/* On stdout, for people: as mst_text_format, which escapes bytes from outside. */
void mst_cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A value, with its backslashes doubled, so that no two values look the same. */
void mst_cli_print_bytes(struct muster_slice bytes);

/* " and 3 more" where so many were not `shown`. */
void mst_cli_put_more(size_t count, size_t shown);

/* One word of a command to paste into a shell, quoted if needed. */
void mst_cli_print_word(const char *word);

/* How JSON is written on stdout: a terminal also interprets characters outside ASCII. */
#define MST_CLI_JSON (JSON_COMPACT | JSON_ENSURE_ASCII)

/* Bytes as JSON: a string, or {"base64": "..."} where they are no UTF-8. */
json_t *mst_cli_json_bytes(struct muster_slice bytes);
json_t *mst_cli_json_text(const char *text);

/* A NULL, also as a value, is "out of memory" and ends the program. All take over their values. */
json_t *mst_cli_json_check(json_t *value);
void mst_cli_json_put(json_t *object, const char *name, json_t *value);
void mst_cli_json_append(json_t *array, json_t *value);

/* A new object of these fields; the last one has no name. */
struct mst_cli_field {
    const char *name;
    json_t *value;
};
json_t *mst_cli_json_object(const struct mst_cli_field *fields);

/* One line on stdout, flushed; takes the value over. */
void mst_cli_json_print(json_t *value);

/* Whether everything on stdout arrived; an exit code after one line. */
int mst_cli_finish_output(const struct mst_cli *cli);

#endif
