/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* fsync, fileno */
#include "checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

enum { NAME_ROOM = 4096 };

static void name_of(char name[NAME_ROOM], const char *path, uint32_t index, const char *ending)
{
    (void)snprintf(name, NAME_ROOM, "%s.%" PRIu32 "%s", path, index, ending);
}

/* A digest, then the model, as this machine holds them: it is read where it was written. */
bool checkpoint_save(const char *path, uint32_t index, const struct model *model)
{
    uint64_t digest = model_digest(model);
    char fresh[NAME_ROOM];
    char name[NAME_ROOM];
    name_of(fresh, path, index, ".new");
    name_of(name, path, index, "");
    FILE *file = fopen(fresh, "wb");
    if (file == NULL) {
        return false;
    }
    bool written = fwrite(&digest, sizeof digest, 1, file) == 1 &&
                   fwrite(model, sizeof *model, 1, file) == 1 && fflush(file) == 0 &&
                   fsync(fileno(file)) == 0;
    return fclose(file) == 0 && written && rename(fresh, name) == 0;
}

bool checkpoint_load(const char *path, uint32_t index, struct model *model)
{
    uint64_t digest = 0;
    char name[NAME_ROOM];
    name_of(name, path, index, "");
    FILE *file = fopen(name, "rb");
    if (file == NULL) {
        return false;
    }
    bool whole = fread(&digest, sizeof digest, 1, file) == 1 &&
                 fread(model, sizeof *model, 1, file) == 1 && model_digest(model) == digest;
    (void)fclose(file);
    return whole;
}

void checkpoint_remove(const char *path, uint32_t index)
{
    char name[NAME_ROOM];
    name_of(name, path, index, "");
    (void)unlink(name);
}
