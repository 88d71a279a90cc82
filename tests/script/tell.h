/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TELL_H
#define TELL_H

/* What the service answered, as a story shows it: one line, and one line more for each member or
 * item it names. Zeroes are left out, so a line says what is worth knowing. */

#include <stdbool.h>
#include <stdio.h>

#include "proto/reply.h"

/* `start` begins the first line. `vector`: the value is a vector of int64. */
void tell_reply(FILE *out, const char *start, const struct mst_reply *reply, bool vector);

#endif
