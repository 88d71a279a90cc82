/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fail.h"

#include "base/text.h"

muster_status mst_fail(struct muster_error *err, muster_status status, int os_errno,
                       const char *format, ...)
{
    if (err) {
        struct mst_text text = mst_text_in(err->text, sizeof err->text);
        va_list arguments;

        err->status = status;
        err->os_errno = os_errno;
        err->why = MUSTER_WHY_STATUS;
        va_start(arguments, format);
        mst_text_format_list(&text, format, arguments);
        va_end(arguments);
    }
    return status;
}
