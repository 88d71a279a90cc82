/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_COMMAND_H
#define MST_PROTO_COMMAND_H

#include <stdbool.h>

#include "proto/request.h"

bool mst_command_known(uint32_t number);
const char *mst_command_name(enum mst_command command);
bool mst_command_writes(enum mst_command command); /* its outcome is kept for a repeat */
bool mst_command_waits(enum mst_command command);

#endif
