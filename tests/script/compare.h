/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COMPARE_H
#define COMPARE_H

#include <stdio.h>

/* Two texts, line by line: "-" is what was expected, "+" what came, with a few lines around. */
void compare_print(FILE *out, const char *expected, const char *actual);

#endif
