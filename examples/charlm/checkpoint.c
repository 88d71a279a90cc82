/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* fsync, fileno, fdopen */
#include "checkpoint.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FORMAT UINT64_C(0x316d6c72616863)

enum { NAME_ROOM = 4096 };

/* ---- the head of a file ---- */

static const char *const fields[] = {"format",
                                     "seed",
                                     "number of steps",
                                     "text's digest",
                                     "number of shards",
                                     "size of a shard",
                                     "number of symbols",
                                     "context",
                                     "width",
                                     "hidden layer"};

enum { FIELDS = sizeof fields / sizeof *fields };

struct head {
    uint64_t field[FIELDS];
    uint64_t digest;
};

static struct head head_of(const struct training *training, uint64_t digest)
{
    return (struct head){{FORMAT, training->seed, training->steps, training->text, training->shards,
                          SHARD, SYMBOLS, CONTEXT, WIDTH, HIDDEN},
                         digest};
}

/* The first field that marks a file as another training's, or FIELDS. A file with a truncated head
 * has none: it is damaged. */
static int find_difference(const struct checkpoint *self, FILE *file, struct head *head)
{
    const struct head mine = head_of(&self->training, 0);
    int count = (int)fread(head->field, sizeof *head->field, FIELDS, file);
    int at = 0;
    while (at < count && head->field[at] == mine.field[at]) {
        at++;
    }
    return at < count ? at : FIELDS;
}

/* ---- names ---- */

static void name_of(char name[NAME_ROOM], const struct checkpoint *self)
{
    (void)snprintf(name, NAME_ROOM, "%s.%" PRIu32, self->path, self->index);
}

static void name_of_written(char name[NAME_ROOM], const struct checkpoint *self, uint64_t writer)
{
    (void)snprintf(name, NAME_ROOM, "%s.%" PRIu32 ".%" PRIu64, self->path, self->index, writer);
}

/* Where the path's last part begins. */
static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static DIR *open_folder(const char *path)
{
    char folder[NAME_ROOM];
    int size = (int)(base_of(path) - path);
    (void)snprintf(folder, sizeof folder, "%.*s", size > 0 ? size : 1, size > 0 ? path : ".");
    return opendir(folder);
}

/* ---- writing ---- */

bool checkpoint_write(const struct checkpoint *self, uint64_t writer, const struct model *model)
{
    const struct head head = head_of(&self->training, digest_of(model, sizeof *model));
    char name[NAME_ROOM];
    name_of_written(name, self, writer);
    (void)unlink(name); /* of an earlier run; its writer may still have it open */
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    FILE *file = fd >= 0 ? fdopen(fd, "wb") : NULL;
    if (file == NULL) {
        return false;
    }
    bool written = fwrite(&head, sizeof head, 1, file) == 1 &&
                   fwrite(model, sizeof *model, 1, file) == 1 && fflush(file) == 0 &&
                   fsync(fileno(file)) == 0;
    return fclose(file) == 0 && written;
}

/* A rename is durable when its folder is synced as well. */
static bool sync_folder(const char *path)
{
    DIR *folder = open_folder(path);
    bool done = folder != NULL && fsync(dirfd(folder)) == 0;
    if (folder != NULL) {
        closedir(folder);
    }
    return done;
}

bool checkpoint_commit(const struct checkpoint *self, uint64_t writer)
{
    char written[NAME_ROOM];
    char name[NAME_ROOM];
    for (uint64_t before = 1; before < writer; before++) {
        name_of_written(name, self, before);
        (void)unlink(name);
    }
    name_of_written(written, self, writer);
    name_of(name, self);
    return rename(written, name) == 0 && sync_folder(self->path);
}

/* ---- reading ---- */

int64_t checkpoint_step(const struct checkpoint *self, char why[CHECKPOINT_WHY])
{
    char name[NAME_ROOM];
    struct head head;
    int64_t step = -1; /* the initial weights of a model */
    name_of(name, self);
    why[0] = '\0';
    FILE *file = fopen(name, "rb");
    if (file == NULL) {
        return -1;
    }
    int other = find_difference(self, file, &head);
    if (other < FIELDS) {
        (void)snprintf(why, CHECKPOINT_WHY,
                       "%.150s is of another training, whose %s is %" PRIu64 ", not %" PRIu64
                       ": give another --checkpoint, or remove it",
                       name, fields[other], head.field[other],
                       head_of(&self->training, 0).field[other]);
    } else if (fread(&head.digest, sizeof head.digest, 1, file) != 1 ||
               fread(&step, sizeof step, 1, file) != 1) {
        step = -1;
    }
    (void)fclose(file);
    return step;
}

bool checkpoint_load(const struct checkpoint *self, struct model *model)
{
    char name[NAME_ROOM];
    struct head head;
    name_of(name, self);
    FILE *file = fopen(name, "rb");
    if (file == NULL) {
        return false;
    }
    bool whole = find_difference(self, file, &head) == FIELDS &&
                 fread(&head.digest, sizeof head.digest, 1, file) == 1 &&
                 fread(model, sizeof *model, 1, file) == 1 &&
                 digest_of(model, sizeof *model) == head.digest;
    (void)fclose(file);
    return whole;
}

/* ---- removing ---- */

/* Whether a file's name is BASE.INDEX or BASE.INDEX.WRITER. */
static bool is_numbered(const char *name, const char *base)
{
    size_t size = strlen(base);
    return strncmp(name, base, size) == 0 && name[size] == '.' &&
           name[size + strspn(name + size, ".0123456789")] == '\0';
}

static bool is_ours(const struct checkpoint *self, DIR *folder, const char *name)
{
    struct head head;
    int fd = openat(dirfd(folder), name, O_RDONLY | O_CLOEXEC);
    FILE *file = fd >= 0 ? fdopen(fd, "rb") : NULL;
    bool ours = file != NULL && find_difference(self, file, &head) == FIELDS;
    if (file != NULL) {
        (void)fclose(file);
    }
    return ours;
}

void checkpoint_remove(const struct checkpoint *self)
{
    DIR *folder = open_folder(self->path);
    const struct dirent *entry;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (is_numbered(entry->d_name, base_of(self->path)) &&
            is_ours(self, folder, entry->d_name)) {
            (void)unlinkat(dirfd(folder), entry->d_name, 0);
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
}
