/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_BASE_FAIL_H
#define MST_BASE_FAIL_H

#include "muster/status.h"

/* Writes the failure into `err` if it is not NULL; returns `status`. `os_errno`: 0 unless a system
 * call failed. `format` as for mst_text_format; no argument may point into `err`. */
muster_status mst_fail(struct muster_error *err, muster_status status, int os_errno,
                       const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
