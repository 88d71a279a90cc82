/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_MSG_STATUS_H
#define MST_MSG_STATUS_H

#include "muster/status.h"

const char *mst_status_name(muster_status status);
const char *mst_status_text(muster_status status);

#endif
