/* SPDX-License-Identifier: Apache-2.0 */
#include "disk.h"

#include <stdlib.h>
#include <string.h>

#include "base/panic.h"
#include "world.h"

/* ---- bytes ----------------------------------------------------------------------------------- */

static void set_size(unsigned char **bytes, size_t *size, size_t *room, size_t wanted)
{
    if (wanted > *room) {
        *room = wanted * 2;
        *bytes = sim_grown(*bytes, *room, 1);
    }
    if (wanted > *size) {
        memset(*bytes + *size, 0, wanted - *size);
    }
    *size = wanted;
}

static void agrees(struct sim_inode *inode)
{
    inode->differs_from = inode->size;
    inode->differs_to = 0;
}

static void differs(struct sim_inode *inode, size_t from, size_t to)
{
    inode->differs_from = from < inode->differs_from ? from : inode->differs_from;
    inode->differs_to = to > inode->differs_to ? to : inode->differs_to;
}

static void keep(struct sim_inode *inode)
{
    set_size(&inode->kept, &inode->kept_size, &inode->kept_room, inode->size);
    if (inode->differs_to > inode->size) {
        inode->differs_to = inode->size;
    }
    if (inode->differs_to > inode->differs_from) {
        memcpy(inode->kept + inode->differs_from, inode->bytes + inode->differs_from,
               inode->differs_to - inode->differs_from);
    }
    agrees(inode);
    inode->write_count = 0;
}

static struct sim_inode *new_inode(struct sim_disk *disk)
{
    if (disk->inode_count == disk->inode_room) {
        disk->inode_room = disk->inode_room ? disk->inode_room * 2 : 16;
        disk->inodes = sim_grown(disk->inodes, disk->inode_room, sizeof(struct sim_inode *));
    }
    disk->inodes[disk->inode_count] = sim_new(sizeof(struct sim_inode));
    return disk->inodes[disk->inode_count++];
}

static void free_inode(struct sim_inode *inode)
{
    free(inode->bytes);
    free(inode->kept);
    free(inode->writes);
    free(inode);
}

/* ---- names ----------------------------------------------------------------------------------- */

static struct sim_name *find(struct sim_name *names, const char *text)
{
    for (uint32_t i = 0; i < SIM_FILES_MAX; i++) {
        if (names[i].inode && strcmp(names[i].text, text) == 0) {
            return &names[i];
        }
    }
    return NULL;
}

static void set_text(char *out, const char *text)
{
    size_t size = strlen(text);

    MST_ASSERT(size < SIM_NAME_ROOM);
    memcpy(out, text, size + 1);
}

static void link_name(struct sim_name *names, const char *text, struct sim_inode *inode)
{
    struct sim_name *name = find(names, text);

    for (uint32_t i = 0; !name && i < SIM_FILES_MAX; i++) {
        if (!names[i].inode) {
            name = &names[i];
        }
    }
    MST_ASSERT(name);
    set_text(name->text, text);
    name->inode = inode;
}

static void apply(struct sim_name *names, const struct sim_change *change)
{
    struct sim_name *from = find(names, change->from);

    switch (change->kind) {
    case SIM_CREATED:
        link_name(names, change->from, change->inode);
        break;
    case SIM_RENAMED:
        if (from && from->inode == change->inode) {
            from->inode = NULL;
        }
        link_name(names, change->to, change->inode);
        break;
    case SIM_REMOVED:
        if (from && from->inode == change->inode) {
            from->inode = NULL;
        }
        break;
    }
}

static void change(struct sim_disk *disk, enum sim_change_kind kind, const char *from,
                   const char *to, struct sim_inode *inode)
{
    struct sim_change *one;

    if (disk->change_count == SIM_CHANGES_MAX) { /* a file system syncs unasked too, in order */
        apply(disk->kept, &disk->changes[0]);
        memmove(disk->changes, disk->changes + 1, --disk->change_count * sizeof(*disk->changes));
    }
    one = &disk->changes[disk->change_count++];
    one->kind = kind;
    one->inode = inode;
    set_text(one->from, from);
    set_text(one->to, to);
    apply(disk->names, one);
}

/* Files that no name leads to any more. Only when nobody has one open. */
static void sweep(struct sim_disk *disk)
{
    size_t count = 0;

    for (size_t i = 0; i < disk->inode_count; i++) {
        bool used = false;

        for (uint32_t k = 0; k < SIM_FILES_MAX; k++) {
            used = used || disk->names[k].inode == disk->inodes[i] ||
                   disk->kept[k].inode == disk->inodes[i];
        }
        for (uint32_t k = 0; k < disk->change_count; k++) {
            used = used || disk->changes[k].inode == disk->inodes[i];
        }
        if (used) {
            disk->inodes[count++] = disk->inodes[i];
        } else {
            free_inode(disk->inodes[i]);
        }
    }
    disk->inode_count = count;
}

/* ---- the disk -------------------------------------------------------------------------------- */

void sim_disk_init(struct sim_disk *disk, uint64_t seed)
{
    memset(disk, 0, sizeof(*disk));
    disk->prng.state = seed;
}

void sim_disk_fini(struct sim_disk *disk)
{
    for (size_t i = 0; i < disk->inode_count; i++) {
        free_inode(disk->inodes[i]);
    }
    free(disk->inodes);
    disk->change_count = 0;
    disk->inodes = NULL;
    disk->inode_count = 0;
    disk->inode_room = 0;
}

/* As a process sees it now: what is certain about it is not copied. */
void sim_disk_copy(struct sim_disk *out, const struct sim_disk *disk)
{
    sim_disk_init(out, disk->prng.state);
    out->full = disk->full;
    for (uint32_t i = 0; i < SIM_FILES_MAX; i++) {
        const struct sim_inode *inode = disk->names[i].inode;
        struct sim_inode *copy;

        if (!inode) {
            continue;
        }
        copy = new_inode(out);
        set_size(&copy->bytes, &copy->size, &copy->room, inode->size);
        if (inode->size > 0) {
            memcpy(copy->bytes, inode->bytes, inode->size);
        }
        differs(copy, 0, copy->size);
        keep(copy);
        link_name(out->names, disk->names[i].text, copy);
        link_name(out->kept, disk->names[i].text, copy);
    }
}

bool sim_disk_step(struct sim_disk *disk)
{
    if (disk->dies_in > 0 && --disk->dies_in == 0) {
        disk->dead = true;
    }
    return !disk->dead;
}

/* A step that may have been done although the process died at it. */
static bool step(struct sim_disk *disk, bool *done)
{
    bool was_dead = disk->dead;
    bool lives = sim_disk_step(disk);

    *done = lives || (!was_dead && mst_prng_below(&disk->prng, 2) == 0);
    return lives;
}

/* ---- the end of a process, or of the host ---------------------------------------------------- */

static void lose_bytes(struct sim_disk *disk, struct sim_inode *inode)
{
    const unsigned char *seen = inode->bytes;

    for (uint32_t i = 0; i < inode->write_count; i++) {
        const struct sim_write *write = &inode->writes[i];
        size_t size = write->size;
        size_t end;

        switch (mst_prng_below(&disk->prng, 3)) {
        case 0:
            continue;
        case 1:
            size = (size_t)mst_prng_below(&disk->prng, size + 1);
            break;
        default:
            break;
        }
        /* Of what was written twice the last is there: nothing here writes twice. */
        end = write->at + size < inode->size ? write->at + size : inode->size;
        if (end > inode->kept_size) {
            set_size(&inode->kept, &inode->kept_size, &inode->kept_room, end);
        }
        if (end > write->at && !write->grows) {
            memcpy(inode->kept + write->at, seen + write->at, end - write->at);
        }
    }
    set_size(&inode->bytes, &inode->size, &inode->room, inode->kept_size);
    if (inode->size > 0) {
        memcpy(inode->bytes, inode->kept, inode->size);
    }
    agrees(inode);
    inode->write_count = 0;
}

void sim_disk_crash(struct sim_disk *disk, bool with_host)
{
    disk->dead = false;
    disk->dies_in = 0;
    if (!with_host) {
        sweep(disk);
        return;
    }
    for (uint32_t i = 0; i < disk->change_count; i++) {
        if (mst_prng_below(&disk->prng, 2) == 0) {
            apply(disk->kept, &disk->changes[i]);
        }
    }
    disk->change_count = 0;
    memcpy(disk->names, disk->kept, sizeof(disk->names));
    for (size_t i = 0; i < disk->inode_count; i++) {
        lose_bytes(disk, disk->inodes[i]);
    }
    sweep(disk);
}

/* ---- what a process does --------------------------------------------------------------------- */

static struct sim_inode *inode_of(struct sim_disk *disk, int file)
{
    MST_ASSERT(file >= 0 && (size_t)file < disk->inode_count);
    return disk->inodes[file];
}

static muster_status failed(const struct sim_disk *disk, bool full)
{
    return full && !disk->dead ? MUSTER_ENOSPACE : MUSTER_EINTERNAL;
}

static muster_status disk_list(void *ctx, void (*each)(void *each_ctx, const char *name),
                               void *each_ctx)
{
    struct sim_disk *disk = ctx;

    for (uint32_t i = 0; i < SIM_FILES_MAX; i++) {
        if (disk->names[i].inode) {
            each(each_ctx, disk->names[i].text);
        }
    }
    return MUSTER_OK;
}

static muster_status disk_size(void *ctx, const char *name, uint64_t *out)
{
    struct sim_disk *disk = ctx;
    const struct sim_name *found = find(disk->names, name);

    *out = found ? found->inode->size : 0;
    return found ? MUSTER_OK : MUSTER_ENOTFOUND;
}

static muster_status disk_read(void *ctx, const char *name, uint64_t offset, void *into,
                               size_t size)
{
    struct sim_disk *disk = ctx;
    const struct sim_name *found = find(disk->names, name);

    if (!found || offset > found->inode->size || size > found->inode->size - offset) {
        return MUSTER_EINTERNAL;
    }
    if (size > 0) {
        memcpy(into, found->inode->bytes + offset, size);
    }
    return MUSTER_OK;
}

static muster_status do_create(struct sim_disk *disk, const char *name, int *out)
{
    struct sim_inode *inode;
    bool done;
    bool lives = step(disk, &done);

    if (!done || disk->full) {
        return failed(disk, disk->full);
    }
    inode = new_inode(disk);
    change(disk, SIM_CREATED, name, name, inode);
    *out = (int)disk->inode_count - 1;
    return lives ? MUSTER_OK : MUSTER_EINTERNAL;
}

static muster_status disk_create(void *ctx, const char *name, int *out)
{
    struct sim_disk *disk = ctx;
    const struct mst_disk *recorder = &disk->recorder;

    return recorder->create ? recorder->create(recorder->ctx, name, out)
                            : do_create(disk, name, out);
}

static void note_write(struct sim_inode *inode, size_t at, size_t size, bool grows)
{
    if (inode->write_count == inode->write_room) {
        inode->write_room = inode->write_room ? inode->write_room * 2 : 16;
        inode->writes = sim_grown(inode->writes, inode->write_room, sizeof(*inode->writes));
    }
    inode->writes[inode->write_count++] = (struct sim_write){at, size, grows};
}

static muster_status do_write(struct sim_disk *disk, int file, uint64_t offset,
                              struct mst_slice bytes)
{
    struct sim_inode *inode = inode_of(disk, file);
    size_t at = (size_t)offset;
    size_t size = bytes.size;
    bool was_dead = disk->dead;
    bool lives = sim_disk_step(disk);

    if (was_dead || (disk->full && at + size > inode->size)) {
        return failed(disk, true);
    }
    if (!lives) {
        size = (size_t)mst_prng_below(&disk->prng, size + 1);
    }
    if (at + size > inode->size) {
        set_size(&inode->bytes, &inode->size, &inode->room, at + size);
    }
    if (size > 0) {
        memcpy(inode->bytes + at, bytes.data, size);
        differs(inode, at, at + size);
        note_write(inode, at, size, false);
        disk->writes++;
    }
    return lives ? MUSTER_OK : MUSTER_EINTERNAL;
}

static muster_status disk_write(void *ctx, int file, uint64_t offset, struct mst_slice bytes)
{
    struct sim_disk *disk = ctx;
    const struct mst_disk *recorder = &disk->recorder;

    return recorder->create ? recorder->write(recorder->ctx, file, offset, bytes)
                            : do_write(disk, file, offset, bytes);
}

static muster_status disk_reserve(void *ctx, int file, uint64_t size)
{
    struct sim_disk *disk = ctx;
    struct sim_inode *inode = inode_of(disk, file);
    bool done;
    bool lives = step(disk, &done);

    if (!done || (disk->full && size > inode->size)) {
        return failed(disk, true);
    }
    if (size > inode->size) {
        note_write(inode, inode->size, (size_t)size - inode->size, true);
        set_size(&inode->bytes, &inode->size, &inode->room, (size_t)size);
    }
    return lives ? MUSTER_OK : MUSTER_EINTERNAL;
}

static muster_status disk_cut(void *ctx, const char *name, uint64_t size, bool sync)
{
    struct sim_disk *disk = ctx;
    const struct sim_name *found = find(disk->names, name);
    bool done;
    bool lives = step(disk, &done);

    if (done && found) {
        differs(found->inode, (size_t)size, SIZE_MAX);
        set_size(&found->inode->bytes, &found->inode->size, &found->inode->room, (size_t)size);
        if (sync) {
            keep(found->inode);
        }
    }
    return lives && found ? MUSTER_OK : MUSTER_EINTERNAL;
}

static muster_status do_sync(struct sim_disk *disk, int file)
{
    bool done;
    bool lives = step(disk, &done);

    if (done) {
        keep(inode_of(disk, file));
    }
    return lives ? MUSTER_OK : MUSTER_EINTERNAL;
}

static muster_status disk_sync(void *ctx, int file)
{
    struct sim_disk *disk = ctx;
    const struct mst_disk *recorder = &disk->recorder;

    return recorder->create ? recorder->sync(recorder->ctx, file) : do_sync(disk, file);
}

static void disk_close(void *ctx, int file)
{
    (void)ctx;
    (void)file;
}

static muster_status do_rename(struct sim_disk *disk, const char *from, const char *to)
{
    const struct sim_name *found = find(disk->names, from);
    bool done;
    bool lives = step(disk, &done);

    if (done && found) {
        change(disk, SIM_RENAMED, from, to, found->inode);
    }
    return lives && found ? MUSTER_OK : MUSTER_EINTERNAL;
}

static muster_status disk_rename(void *ctx, const char *from, const char *to)
{
    struct sim_disk *disk = ctx;
    const struct mst_disk *recorder = &disk->recorder;

    return recorder->create ? recorder->rename(recorder->ctx, from, to) : do_rename(disk, from, to);
}

static muster_status disk_remove(void *ctx, const char *name)
{
    struct sim_disk *disk = ctx;
    const struct sim_name *found = find(disk->names, name);
    bool done;
    bool lives = step(disk, &done);

    if (done && found) {
        change(disk, SIM_REMOVED, name, name, found->inode);
    }
    return !lives ? MUSTER_EINTERNAL : found ? MUSTER_OK : MUSTER_ENOTFOUND;
}

static muster_status do_sync_names(struct sim_disk *disk)
{
    bool done;
    bool lives = step(disk, &done);

    if (done) {
        disk->change_count = 0;
        memcpy(disk->kept, disk->names, sizeof(disk->kept));
    }
    return lives ? MUSTER_OK : MUSTER_EINTERNAL;
}

static muster_status disk_sync_names(void *ctx)
{
    struct sim_disk *disk = ctx;
    const struct mst_disk *recorder = &disk->recorder;

    return recorder->create ? recorder->sync_names(recorder->ctx) : do_sync_names(disk);
}

static const char *disk_reason(void *ctx)
{
    const struct sim_disk *disk = ctx;

    return disk->dead ? "the process is dead" : "the disk is full";
}

void sim_disk_record(struct sim_disk *disk, const struct mst_disk *recorder)
{
    disk->recorder = recorder ? *recorder : (struct mst_disk){.create = NULL};
}

struct mst_disk sim_disk_seen(struct sim_disk *disk)
{
    return (struct mst_disk){.ctx = disk,
                             .where = "disk",
                             .list = disk_list,
                             .size = disk_size,
                             .read = disk_read,
                             .create = disk_create,
                             .write = disk_write,
                             .reserve = disk_reserve,
                             .cut = disk_cut,
                             .sync = disk_sync,
                             .close = disk_close,
                             .rename = disk_rename,
                             .remove = disk_remove,
                             .sync_names = disk_sync_names,
                             .reason = disk_reason};
}

void sim_disk_damage(struct sim_disk *disk, struct sim_inode *inode, size_t at)
{
    unsigned char bits = (unsigned char)(1 + mst_prng_below(&disk->prng, 255));

    inode->bytes[at] ^= bits;
    differs(inode, at, at + 1);
}
