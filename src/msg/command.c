/* SPDX-License-Identifier: Apache-2.0 */
#include "msg/command.h"

#include <stddef.h>

enum { READ = 0, WRITE = 1, WAITS = 2 };

struct row {
    const char *name;
    unsigned flags;
};

static const struct row *row_of(enum mst_command command)
{
    switch (command) {
#define X(NAME, label, number, bits, help)                                                         \
    case MST_##NAME: {                                                                             \
        static const struct row row = {.name = #label, .flags = (bits)};                           \
        return &row;                                                                               \
    }
#include "msg/commands.def"
#undef X
    }
    return NULL;
}

bool mst_command_known(uint32_t number)
{
    return row_of((enum mst_command)number) != NULL;
}

const char *mst_command_name(enum mst_command command)
{
    const struct row *row = row_of(command);

    return row ? row->name : "?";
}

bool mst_command_writes(enum mst_command command)
{
    const struct row *row = row_of(command);

    return row && (row->flags & WRITE) != 0;
}

bool mst_command_waits(enum mst_command command)
{
    const struct row *row = row_of(command);

    return row && (row->flags & WAITS) != 0;
}
