/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/status.h"

#include "proto/status.h"

const char *muster_status_name(muster_status status)
{
    return mst_status_name(status);
}

const char *muster_status_text(muster_status status)
{
    return mst_status_text(status);
}

int muster_exit_code(muster_status status)
{
    if (status >= 0) {
        return 0;
    }
    return status == MUSTER_EPREEMPTED ? 75 : 1;
}
