/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_VIEW_JSON_H
#define MST_VIEW_JSON_H

/* What all JSON of this folder is built with. NULL anywhere is "no memory", and makes the whole
 * NULL.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

/* Bytes of clients need not be UTF-8: then each that is not ASCII becomes \xNN. */
json_t *mst_json_text(struct mst_slice bytes);
json_t *mst_json_number(uint64_t number);
json_t *mst_json_number_but(uint64_t number, uint64_t none); /* of what has no such number: null */

/* Takes the value over, as below. */
bool mst_json_put(json_t *object, const char *name, json_t *value);
/* `*list` is NULL from the first value that is. */
void mst_json_append(json_t **list, json_t *value);

/* In ASCII: a terminal obeys more than ASCII's controls. */
#define MST_JSON_DUMPED (JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(12))

/* Takes the object over. One line with a newline; the caller frees it. */
char *mst_json_line(json_t *object);

#endif
