/* SPDX-License-Identifier: Apache-2.0 */
/* The panic hook of the program, in place of the library's. No training runs in this process, and a
 * service that continues with an inconsistent state, or hangs, is worse than one that is restarted.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/panic.h"
#include "service/server/log.h"

_Noreturn void mst_panic(const char *file, int line, const char *what)
{
    mst_uv_log_last_words();
    (void)fprintf(stderr, "muster: broken invariant at %s:%d: %s\n", file, line, what);
    abort();
}
