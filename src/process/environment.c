/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "process/environment.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The entry of `name`, or `count`. */
static size_t find(const struct mst_environment *environment, const char *name)
{
    size_t length = strlen(name), i;

    for (i = 0; i < environment->count; i++) {
        const char *entry = environment->entries[i];

        if (strncmp(entry, name, length) == 0 && entry[length] == '=') {
            break;
        }
    }
    return i;
}

/* Takes `entry`, or frees it. */
static muster_status append(struct mst_environment *environment, char *entry)
{
    if (entry == NULL) {
        return MUSTER_ENOMEM;
    }
    if (environment->count + 1 >= environment->room) {
        size_t room = environment->room * 2 + 64;
        char **entries = realloc(environment->entries, room * sizeof *entries);

        if (entries == NULL) {
            free(entry);
            return MUSTER_ENOMEM;
        }
        environment->entries = entries;
        environment->room = room;
    }
    environment->entries[environment->count] = entry;
    environment->count++;
    environment->entries[environment->count] = NULL;
    return MUSTER_OK;
}

muster_status mst_environment_init(struct mst_environment *environment, char *const *from)
{
    *environment = (struct mst_environment){0};
    for (; *from != NULL; from++) {
        if (append(environment, strdup(*from)) != MUSTER_OK) {
            mst_environment_fini(environment);
            return MUSTER_ENOMEM;
        }
    }
    return MUSTER_OK;
}

void mst_environment_fini(struct mst_environment *environment)
{
    for (size_t i = 0; i < environment->count; i++) {
        free(environment->entries[i]);
    }
    free(environment->entries);
    *environment = (struct mst_environment){0};
}

const char *mst_environment_get(const struct mst_environment *environment, const char *name)
{
    size_t at = find(environment, name);

    return at < environment->count ? environment->entries[at] + strlen(name) + 1 : NULL;
}

static void take_out(struct mst_environment *environment, size_t at)
{
    free(environment->entries[at]);
    environment->count--;
    environment->entries[at] = environment->entries[environment->count];
    environment->entries[environment->count] = NULL;
}

void mst_environment_drop(struct mst_environment *environment, bool (*is)(const char *entry))
{
    for (size_t i = environment->count; i > 0; i--) {
        if (is(environment->entries[i - 1])) {
            take_out(environment, i - 1);
        }
    }
}

muster_status mst_environment_set(struct mst_environment *environment, const char *name,
                                  const char *value)
{
    size_t at = find(environment, name);
    char *entry;

    if (at < environment->count) {
        take_out(environment, at);
    }
    if (value == NULL) {
        return MUSTER_OK;
    }
    return append(environment, asprintf(&entry, "%s=%s", name, value) < 0 ? NULL : entry);
}

muster_status mst_environment_number(struct mst_environment *environment, const char *name,
                                     uint64_t value)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%" PRIu64, value);
    return mst_environment_set(environment, name, text);
}
