/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* fsync, fileno, fdopen */
#include "checkpoint.h"

#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <unistd.h>

enum { NAME_ROOM = 4096 };

static void name_of(char name[NAME_ROOM], const char *path, uint32_t index)
{
    (void)snprintf(name, NAME_ROOM, "%s.%" PRIu32, path, index);
}

static void name_of_written(char name[NAME_ROOM], const char *path, uint32_t index, uint64_t writer)
{
    (void)snprintf(name, NAME_ROOM, "%s.%" PRIu32 ".%" PRIu64, path, index, writer);
}

/* A rename lasts when its folder is on the disk as well. */
static bool sync_folder(const char *path)
{
    char copy[NAME_ROOM];
    (void)snprintf(copy, sizeof copy, "%s", path);
    int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool done = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return done;
}

/* A digest, then the model, as this machine holds them: it is read where it was written. */
bool checkpoint_write(const char *path, uint32_t index, uint64_t writer, const struct model *model)
{
    uint64_t digest = model_digest(model);
    char name[NAME_ROOM];
    name_of_written(name, path, index, writer);
    (void)unlink(name); /* of an earlier run, whose writer may still have it open */
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    FILE *file = fd >= 0 ? fdopen(fd, "wb") : NULL;
    if (file == NULL) {
        return false;
    }
    bool written = fwrite(&digest, sizeof digest, 1, file) == 1 &&
                   fwrite(model, sizeof *model, 1, file) == 1 && fflush(file) == 0 &&
                   fsync(fileno(file)) == 0;
    return fclose(file) == 0 && written;
}

static void remove_written(const char *path, uint32_t index, uint64_t first, uint64_t end)
{
    char name[NAME_ROOM];
    for (uint64_t writer = first; writer < end; writer++) {
        name_of_written(name, path, index, writer);
        (void)unlink(name);
    }
}

bool checkpoint_commit(const char *path, uint32_t index, uint64_t writer)
{
    char written[NAME_ROOM];
    char name[NAME_ROOM];
    name_of_written(written, path, index, writer);
    name_of(name, path, index);
    remove_written(path, index, 1, writer);
    return rename(written, name) == 0 && sync_folder(path);
}

static FILE *open_committed(const char *path, uint32_t index, uint64_t *digest)
{
    char name[NAME_ROOM];
    name_of(name, path, index);
    FILE *file = fopen(name, "rb");
    if (file != NULL && fread(digest, sizeof *digest, 1, file) != 1) {
        (void)fclose(file);
        file = NULL;
    }
    return file;
}

int64_t checkpoint_step(const char *path, uint32_t index)
{
    uint64_t digest = 0;
    int64_t step = -1; /* what a model begins with */
    FILE *file = open_committed(path, index, &digest);
    if (file == NULL) {
        return -1;
    }
    bool read = fread(&step, sizeof step, 1, file) == 1;
    (void)fclose(file);
    return read ? step : -1;
}

bool checkpoint_load(const char *path, uint32_t index, struct model *model)
{
    uint64_t digest = 0;
    FILE *file = open_committed(path, index, &digest);
    if (file == NULL) {
        return false;
    }
    bool whole = fread(model, sizeof *model, 1, file) == 1 && model_digest(model) == digest;
    (void)fclose(file);
    return whole;
}

void checkpoint_remove(const char *path, uint32_t index, uint64_t writer)
{
    char name[NAME_ROOM];
    remove_written(path, index, 1, writer + 1);
    name_of(name, path, index);
    (void)unlink(name);
}
