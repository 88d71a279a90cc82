/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_COMMAND_H
#define MST_PROTO_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/request.h"

/* The rows of commands.def, by number. Their numbers have no gap. */
enum {
    MST_COMMAND_NONE = 0,
#define X(NAME, name, number, flags, help) MST_COMMAND_COUNT_##NAME,
#include "proto/commands.def"
#undef X
    MST_COMMANDS
};
_Static_assert((int)MST_DELETE_PREFIX + 1 == MST_COMMANDS,
               "the numbers of the commands have no gap");

struct mst_command_row {
    const char *name;
    bool writes, waits;
};

extern const struct mst_command_row mst_command_rows[MST_COMMANDS];

static inline bool mst_command_known(uint32_t number)
{
    return number - 1 < MST_COMMANDS - 1;
}

static inline const struct mst_command_row *mst_command_row(enum mst_command command)
{
    return &mst_command_rows[mst_command_known(command) ? command : 0];
}

static inline const char *mst_command_name(enum mst_command command)
{
    return mst_command_row(command)->name;
}

/* Its outcome is kept for a repeat. */
static inline bool mst_command_writes(enum mst_command command)
{
    return mst_command_row(command)->writes;
}

static inline bool mst_command_waits(enum mst_command command)
{
    return mst_command_row(command)->waits;
}

#endif
