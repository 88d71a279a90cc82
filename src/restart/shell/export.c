/* SPDX-License-Identifier: Apache-2.0 */
/* RANK and WORLD_SIZE as the programs of many frameworks read them. They are only a copy of
 * muster_restart_view, written on the function's thread while it does not run: a program whose
 * other threads use the environment meanwhile asks for keep_environment.
 *
 * The environment belongs to the process, so two runs in two threads share it: the last one writes,
 * and what was before the first is put back at the end of the last. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/shell/environment.h"
#include "restart/shell/restart.h"

/* How many runs have changed it, and what it was; NULL: not set. Under the environment's lock. */
static struct {
    unsigned users;
    char *rank, *size;
} before;

const char *mst_environment_before(const char *name)
{
    if (before.users > 0 && strcmp(name, "RANK") == 0) {
        return before.rank;
    }
    if (before.users > 0 && strcmp(name, "WORLD_SIZE") == 0) {
        return before.size;
    }
    return getenv(name);
}

static char *copy_of(const char *name)
{
    const char *value = getenv(name);

    return value ? strdup(value) : NULL;
}

static void put(const char *name, const char *value)
{
    if (value) {
        (void)setenv(name, value, 1);
    } else {
        (void)unsetenv(name);
    }
}

static void put_back(const char *name, char **value)
{
    put(name, *value);
    free(*value);
    *value = NULL;
}

void mst_export_set(struct muster_restart *restart, uint32_t rank, uint32_t size)
{
    struct mst_export *exported = &restart->exported;
    char rank_text[16];
    char size_text[16];

    exported->spare = rank == MUSTER_RANK_NONE;
    if (restart->settings.keep_environment) {
        return;
    }
    (void)snprintf(rank_text, sizeof(rank_text), "%u", rank);
    (void)snprintf(size_text, sizeof(size_text), "%u", size);
    mst_environment_lock();
    if (!exported->changed && before.users++ == 0) {
        before.rank = copy_of("RANK");
        before.size = copy_of("WORLD_SIZE");
    }
    exported->changed = true;
    put("WORLD_SIZE", size_text);
    put("RANK", exported->spare ? NULL : rank_text);
    mst_environment_unlock();
}

void mst_export_undo(struct muster_restart *restart)
{
    mst_environment_lock();
    if (restart->exported.changed && --before.users == 0) {
        put_back("RANK", &before.rank);
        put_back("WORLD_SIZE", &before.size);
    }
    mst_environment_unlock();
    restart->exported = (struct mst_export){0};
}
