/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/command.h"

#include <stddef.h>

enum { READ = 0, WRITE = 1, WAITS = 2 };

struct row {
    const char *name;
    unsigned flags;
};

static const struct row rows[] = {
#define X(NAME, label, number, bits, help) [number] = {.name = #label, .flags = (bits)},
#include "proto/commands.def"
#undef X
};

static const struct row *row_of(enum mst_command command)
{
    size_t number = (size_t)command;

    return number < sizeof(rows) / sizeof(rows[0]) && rows[number].name ? &rows[number] : NULL;
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
