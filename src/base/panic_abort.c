/* SPDX-License-Identifier: Apache-2.0 */
/* The panic of programs that have nothing to protect but the truth: tests and the service. */
#include <stdio.h>
#include <stdlib.h>

#include "base/panic.h"

_Noreturn void mst_panic(const char *file, int line, const char *what)
{
    fprintf(stderr, "muster: broken invariant at %s:%d: %s\n", file, line, what);
    abort();
}
