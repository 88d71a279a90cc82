/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_BASE_FAIL_H
#define MST_BASE_FAIL_H

#include "muster/status.h"

/* What failed, in `err` if there is one; returns `status`. `os_errno`: 0 unless the system said no.
 * `format` as mst_text_format has it; no argument lies in `err`. */
muster_status mst_fail(struct muster_error *err, muster_status status, int os_errno,
                       const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
