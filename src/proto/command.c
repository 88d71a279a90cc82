/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/command.h"

enum { READ = 0, WRITE = 1, WAITS = 2 };

const struct mst_command_row mst_command_rows[MST_COMMANDS] = {
    [MST_COMMAND_NONE] = {.name = "?"},
#define X(NAME, label, number, flags, help)                                                        \
    [number] = {.name = #label, .writes = ((flags)&WRITE) != 0, .waits = ((flags)&WAITS) != 0},
#include "proto/commands.def"
#undef X
};
