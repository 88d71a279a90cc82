/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VERBS_H
#define VERBS_H

#include "stage.h"
#include "words.h"

/* Does what one line of a story says. README.md beside this file lists the verbs. */
void verbs_perform(struct stage *stage, const char *file, size_t line, const char *text);

#endif
