/* SPDX-License-Identifier: Apache-2.0 */
#include "journal_disk_fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/panic.h"

static muster_status fail(struct fake_disk *disk, const char *name, muster_status status,
                          const char *what)
{
    (void)snprintf(disk->reason, sizeof disk->reason, "/fake/%s: %s", name, what);
    return status;
}

struct fake_file *fake_disk_find(struct fake_disk *disk, const char *name)
{
    for (int i = 0; i < FAKE_FILES; i++) {
        if (disk->files[i].name[0] && strcmp(disk->files[i].name, name) == 0) {
            return &disk->files[i];
        }
    }
    return NULL;
}

static uint64_t used(const struct fake_disk *disk)
{
    uint64_t sum = 0;

    for (int i = 0; i < FAKE_FILES; i++) {
        sum += disk->files[i].size;
    }
    return sum;
}

void fake_file_resize(struct fake_file *file, uint64_t size)
{
    if (size > file->size) {
        file->bytes = realloc(file->bytes, size);
        MST_ASSERT(file->bytes);
        memset(file->bytes + file->size, 0, size - file->size);
    }
    file->size = size;
}

static muster_status resize(struct fake_disk *disk, struct fake_file *file, uint64_t size)
{
    if (size > file->size && used(disk) + (size - file->size) > disk->room) {
        return fail(disk, file->name, MUSTER_ENOSPACE, "no room");
    }
    fake_file_resize(file, size);
    return MUSTER_OK;
}

static void drop(struct fake_file *file)
{
    free(file->bytes);
    memset(file, 0, sizeof *file);
}

static muster_status list(void *ctx, void (*each)(void *each_ctx, const char *name), void *each_ctx)
{
    struct fake_disk *disk = ctx;

    for (int i = 0; i < FAKE_FILES; i++) {
        if (disk->files[i].name[0]) {
            each(each_ctx, disk->files[i].name);
        }
    }
    return MUSTER_OK;
}

static muster_status size_of(void *ctx, const char *name, uint64_t *out)
{
    const struct fake_file *file = fake_disk_find(ctx, name);

    if (!file) {
        return fail(ctx, name, MUSTER_ENOTFOUND, "no such file");
    }
    *out = file->size;
    return MUSTER_OK;
}

static muster_status read_at(void *ctx, const char *name, uint64_t offset, void *into, size_t size)
{
    const struct fake_file *file = fake_disk_find(ctx, name);

    if (!file || offset > file->size || size > file->size - offset) {
        return MUSTER_EFAILED;
    }
    if (size > 0) {
        memcpy(into, file->bytes + offset, size);
    }
    return MUSTER_OK;
}

static muster_status create(void *ctx, const char *name, int *out)
{
    struct fake_disk *disk = ctx;
    struct fake_file *file = fake_disk_find(disk, name);

    for (int i = 0; i < FAKE_FILES && !file; i++) {
        file = disk->files[i].name[0] ? NULL : &disk->files[i];
    }
    if (!file) {
        return fail(disk, name, MUSTER_ENOSPACE, "no room for another file");
    }
    drop(file);
    (void)snprintf(file->name, sizeof file->name, "%s", name);
    disk->hasty = disk->hasty || disk->unnamed;
    disk->unnamed = true;
    *out = (int)(file - disk->files);
    return MUSTER_OK;
}

static muster_status write_at(void *ctx, int number, uint64_t offset, struct mst_slice bytes)
{
    struct fake_disk *disk = ctx;
    struct fake_file *file = &disk->files[number];

    if (++disk->writes == disk->fail_at) {
        return fail(disk, file->name, MUSTER_EFAILED, "a bad sector");
    }
    if (offset + bytes.size > file->size && resize(disk, file, offset + bytes.size) != MUSTER_OK) {
        return MUSTER_ENOSPACE;
    }
    memcpy(file->bytes + offset, bytes.data, bytes.size);
    file->dirty = true;
    return MUSTER_OK;
}

static muster_status reserve(void *ctx, int number, uint64_t size)
{
    struct fake_disk *disk = ctx;

    return size > disk->files[number].size ? resize(disk, &disk->files[number], size) : MUSTER_OK;
}

static muster_status cut(void *ctx, const char *name, uint64_t size, bool sync)
{
    struct fake_file *file = fake_disk_find(ctx, name);

    file->dirty = !sync;
    return resize(ctx, file, size);
}

static muster_status sync_file(void *ctx, int number)
{
    struct fake_disk *disk = ctx;

    if (++disk->syncs == disk->sync_fail_at) {
        return fail(disk, disk->files[number].name, disk->sync_fails, "it was not written");
    }
    disk->files[number].dirty = false;
    return MUSTER_OK;
}

static void close_file(void *ctx, int number)
{
    (void)ctx;
    (void)number;
}

static muster_status rename_file(void *ctx, const char *from, const char *to)
{
    struct fake_disk *disk = ctx;
    struct fake_file *before = fake_disk_find(ctx, to);
    struct fake_file *file = fake_disk_find(ctx, from);

    if (before) {
        drop(before);
    }
    disk->renamed_early = disk->renamed_early || file->dirty;
    file->renamed = true;
    (void)snprintf(file->name, sizeof file->name, "%s", to);
    return MUSTER_OK;
}

static muster_status remove_file(void *ctx, const char *name)
{
    struct fake_disk *disk = ctx;
    struct fake_file *file = fake_disk_find(ctx, name);

    if (!file) {
        return MUSTER_ENOTFOUND;
    }
    for (int i = 0; i < FAKE_FILES; i++) {
        disk->removed_early =
            disk->removed_early || (disk->files[i].renamed && file != &disk->files[i]);
    }
    drop(file);
    return MUSTER_OK;
}

static muster_status sync_names(void *ctx)
{
    struct fake_disk *disk = ctx;

    disk->unnamed = false;
    for (int i = 0; i < FAKE_FILES; i++) {
        disk->files[i].renamed = false;
    }
    return MUSTER_OK;
}

static const char *reason(void *ctx)
{
    return ((struct fake_disk *)ctx)->reason;
}

void fake_disk_init(struct fake_disk *disk)
{
    memset(disk, 0, sizeof *disk);
    disk->room = UINT64_MAX / 2;
    disk->disk = (struct mst_disk){.ctx = disk,
                                   .where = "/fake",
                                   .list = list,
                                   .size = size_of,
                                   .read = read_at,
                                   .create = create,
                                   .write = write_at,
                                   .reserve = reserve,
                                   .cut = cut,
                                   .sync = sync_file,
                                   .close = close_file,
                                   .rename = rename_file,
                                   .remove = remove_file,
                                   .sync_names = sync_names,
                                   .reason = reason};
}

void fake_disk_fini(struct fake_disk *disk)
{
    for (int i = 0; i < FAKE_FILES; i++) {
        drop(&disk->files[i]);
    }
}

void fake_disk_copy(struct fake_disk *to, const struct fake_disk *from)
{
    fake_disk_init(to);
    to->room = from->room;
    for (int i = 0; i < FAKE_FILES; i++) {
        to->files[i] = from->files[i];
        to->files[i].bytes = NULL;
        if (from->files[i].size > 0) {
            to->files[i].bytes = malloc(from->files[i].size);
            memcpy(to->files[i].bytes, from->files[i].bytes, from->files[i].size);
        }
    }
}
