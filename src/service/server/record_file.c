/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "service/server/record_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fail.h"
#include "os/folder.h"
#include "os/monotonic.h"
#include "os/thread.h"
#include "service/journal/format.h"
#include "service/server/journal_disk.h"

#define STRING_OF(number) #number
#define STRING(number) STRING_OF(number)
#define ROOM_FIRST 65536u
#define WAITING_MAX ((size_t)MST_RECORD_WAITING_MIB << 20)
#define ROOM_KEPT 1048576u /* a buffer that was larger is given back */

static const char too_slow[] =
    "the disk is too slow: " STRING(MST_RECORD_WAITING_MIB) " MiB wait for it";

struct waiting {
    unsigned char *bytes;
    size_t used, room;
};

struct mst_record_file {
    int fd;
    uint64_t sequence;
    char path[PATH_MAX];
    pthread_t thread;

    pthread_mutex_t lock; /* for all that follows */
    pthread_cond_t changed;
    struct waiting front;  /* what comes; the thread has the other one */
    bool idle;             /* the thread waits for bytes */
    bool begun;            /* no call waits for room any more, */
    struct timespec until; /* and before not longer than this */
    bool closing;          /* no more will come */
    bool done;             /* the thread has ended */
    bool abandoned;        /* the thread frees the file */
    const char *trouble;   /* no more is written */
    char reason[160];
};

/* ---- the thread ---- */

static void free_file(struct mst_record_file *file)
{
    (void)close(file->fd);
    (void)pthread_cond_destroy(&file->changed);
    (void)pthread_mutex_destroy(&file->lock);
    free(file->front.bytes);
    free(file);
}

/* Locked. Takes what waits and gives an empty buffer in its place. False: nothing does, nor will.
 */
static bool take(struct mst_record_file *file, struct waiting *back)
{
    struct waiting empty = *back;

    while (file->front.used == 0 && !file->closing) {
        file->idle = true;
        (void)pthread_cond_wait(&file->changed, &file->lock);
        file->idle = false;
    }
    *back = file->front;
    file->front = empty;
    (void)pthread_cond_broadcast(&file->changed);
    return back->used > 0;
}

static void *write_on(void *ctx)
{
    struct mst_record_file *file = ctx;
    struct waiting back = {.bytes = NULL};
    uint64_t at = 0;
    bool abandoned;

    (void)pthread_mutex_lock(&file->lock);
    while (!file->trouble && take(file, &back)) {
        int error;

        (void)pthread_mutex_unlock(&file->lock);
        error = mst_disk_write(file->fd, mst_slice_of(back.bytes, back.used), at);
        at += back.used;
        back.used = 0;
        if (back.room > ROOM_KEPT) {
            free(back.bytes);
            back = (struct waiting){.bytes = NULL};
        }
        (void)pthread_mutex_lock(&file->lock);
        if (error != 0 && !file->trouble) {
            (void)snprintf(file->reason, sizeof file->reason, "%s", strerror(error));
            file->trouble = file->reason;
        }
    }
    file->done = true;
    abandoned = file->abandoned;
    (void)pthread_cond_broadcast(&file->changed);
    (void)pthread_mutex_unlock(&file->lock);
    free(back.bytes);
    if (abandoned) {
        free_file(file);
    }
    return NULL;
}

static struct timespec patience_over(void)
{
    return mst_monotonic_in((uint32_t)(MST_RECORD_PATIENCE_NS / NS_PER_MS));
}

/* ---- opening ---- */

static muster_status refuse(struct muster_error *err, const char *path, int os_errno)
{
    return mst_fail(err, MUSTER_EFAILED, os_errno, "cannot record in %.*s: %s",
                    (int)strnlen(path, 300), path, strerror(os_errno));
}

bool mst_record_file_misnamed(const struct muster_error *err)
{
    switch (err->os_errno) {
    case ENOENT:
    case ENOTDIR:
    case EACCES:
    case EPERM:
    case ENAMETOOLONG:
    case ELOOP:
        return true;
    default: /* errno */
        return false;
    }
}

/* The largest number of a record there. */
static uint64_t newest(int folder)
{
    struct mst_folder names;
    const char *name;
    uint64_t largest = 0, sequence;

    if (!mst_folder_open(&names, folder, ".")) {
        return 0;
    }
    while ((name = mst_folder_next(&names))) {
        if (mst_record_name_read(name, &sequence)) {
            largest = mst_later(largest, sequence);
        }
    }
    mst_folder_close(&names);
    return largest;
}

/* Another service may record there too: O_EXCL decides which one gets a name. */
static int make_next(struct mst_record_file *file, const char *path)
{
    int folder, error = 0;

    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        return errno;
    }
    folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) {
        return errno;
    }
    file->sequence = newest(folder);
    do {
        char name[MST_FILE_NAME_ROOM];

        mst_file_name(name, MST_FILE_RECORD, ++file->sequence);
        (void)snprintf(file->path, sizeof file->path, "%s/%s", path, name);
        file->fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        error = file->fd < 0 ? errno : 0;
    } while (error == EEXIST);
    (void)close(folder);
    return error;
}

static int start_thread(struct mst_record_file *file)
{
    (void)pthread_mutex_init(&file->lock, NULL);
    mst_monotonic_cond_init(&file->changed);
    return mst_thread_start(&file->thread, 0, write_on, file);
}

muster_status mst_record_file_open(struct mst_record_file **out, const char *folder,
                                   struct muster_error *err)
{
    struct mst_record_file *file = calloc(1, sizeof *file);
    int error;

    if (!file) {
        return refuse(err, folder, ENOMEM);
    }
    error = make_next(file, folder);
    if (error != 0) {
        free(file);
        return refuse(err, folder, error);
    }
    file->until = patience_over();
    error = start_thread(file);
    if (error != 0) {
        free_file(file);
        return refuse(err, folder, error);
    }
    *out = file;
    return MUSTER_OK;
}

const char *mst_record_file_path(const struct mst_record_file *file)
{
    return file->path;
}

uint64_t mst_record_file_sequence(const struct mst_record_file *file)
{
    return file->sequence;
}

/* ---- bytes ---- */

/* Locked. */
static const char *append(struct waiting *front, struct mst_slice bytes)
{
    size_t room = front->room > 0 ? front->room : ROOM_FIRST;
    unsigned char *more;

    if (bytes.size > WAITING_MAX - front->used) {
        return too_slow;
    }
    while (room < front->used + bytes.size) {
        room *= 2;
    }
    if (room > front->room) {
        more = realloc(front->bytes, room);
        if (!more) {
            return "out of memory";
        }
        front->bytes = more;
        front->room = room;
    }
    memcpy(front->bytes + front->used, bytes.data, bytes.size);
    front->used += bytes.size;
    return NULL;
}

/* Locked. */
static void wait_for_room(struct mst_record_file *file, size_t size)
{
    int waited = 0;

    while (!file->begun && !file->trouble && size > WAITING_MAX - file->front.used &&
           waited != ETIMEDOUT) {
        waited = pthread_cond_timedwait(&file->changed, &file->lock, &file->until);
    }
}

bool mst_record_file_put(struct mst_record_file *file, struct mst_slice bytes)
{
    bool good;

    (void)pthread_mutex_lock(&file->lock);
    wait_for_room(file, bytes.size);
    if (!file->trouble && bytes.size > 0) {
        file->trouble = append(&file->front, bytes);
        if (file->idle) {
            (void)pthread_cond_signal(&file->changed);
        }
    }
    good = !file->trouble;
    (void)pthread_mutex_unlock(&file->lock);
    return good;
}

void mst_record_file_begun(struct mst_record_file *file)
{
    (void)pthread_mutex_lock(&file->lock);
    file->begun = true;
    (void)pthread_mutex_unlock(&file->lock);
}

const char *mst_record_file_trouble(struct mst_record_file *file)
{
    const char *trouble;

    (void)pthread_mutex_lock(&file->lock);
    trouble = file->trouble;
    (void)pthread_mutex_unlock(&file->lock);
    return trouble;
}

bool mst_record_file_finish(struct mst_record_file *file)
{
    struct timespec until = patience_over();
    bool good;
    int waited = 0;

    (void)pthread_mutex_lock(&file->lock);
    file->closing = true;
    (void)pthread_cond_broadcast(&file->changed);
    while (!file->done && !file->trouble && waited != ETIMEDOUT) {
        waited = pthread_cond_timedwait(&file->changed, &file->lock, &until);
    }
    if (!file->done && !file->trouble) {
        file->trouble = "the disk did not take the rest within 5 s";
    }
    good = !file->trouble;
    (void)pthread_mutex_unlock(&file->lock);
    return good;
}

void mst_record_file_free(struct mst_record_file *file)
{
    bool done;

    if (!file) {
        return;
    }
    (void)pthread_mutex_lock(&file->lock);
    file->closing = true;
    file->trouble = file->trouble ? file->trouble : "nobody waits for it"; /* it begins no write */
    done = file->done || file->idle;
    file->abandoned = !done;
    if (!done) {
        (void)pthread_detach(file->thread);
    }
    (void)pthread_cond_broadcast(&file->changed);
    (void)pthread_mutex_unlock(&file->lock);
    if (done) {
        (void)pthread_join(file->thread, NULL);
        free_file(file);
    }
}
