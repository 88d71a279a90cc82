/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "service/server/kept_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/monotonic.h"
#include "os/own_file.h"
#include "os/thread.h"
#include "view/json.h"
#include "view/kept.h"

#define PATIENCE_MS 2000u /* of the end, for a folder that hangs */
#define MARK "service"    /* one at a time has the file */

struct mst_uv_kept {
    const char *path, *job;
    struct mst_uv_log *log;
    json_t *run;
    struct mst_items history;
    bool stale;    /* what the thread was given is not all */
    bool troubled; /* which the log has */
    pthread_t thread;

    pthread_mutex_t lock; /* for all that follows */
    pthread_cond_t changed;
    char *next; /* to be written */
    bool closing, done;
    bool abandoned; /* the thread frees this */
    int error;      /* of the last write */
};

/* ---- the thread ---- */

static void free_kept(struct mst_uv_kept *kept)
{
    (void)pthread_cond_destroy(&kept->changed);
    (void)pthread_mutex_destroy(&kept->lock);
    free(kept->next);
    free(kept);
}

/* Locked. NULL: no more will come. */
static char *take(struct mst_uv_kept *kept)
{
    char *next;

    while (!kept->next && !kept->closing) {
        (void)pthread_cond_wait(&kept->changed, &kept->lock);
    }
    next = kept->next;
    kept->next = NULL;
    return next;
}

static void *write_on(void *ctx)
{
    struct mst_uv_kept *kept = ctx;
    bool abandoned;
    char *text;

    (void)pthread_mutex_lock(&kept->lock);
    while ((text = take(kept))) {
        int error = 0;

        (void)pthread_mutex_unlock(&kept->lock);
        if (!mst_own_file_replace(kept->path, MARK, text, strlen(text))) {
            error = errno;
        }
        free(text);
        (void)pthread_mutex_lock(&kept->lock);
        kept->error = error;
    }
    kept->done = true;
    abandoned = kept->abandoned;
    (void)pthread_cond_broadcast(&kept->changed);
    (void)pthread_mutex_unlock(&kept->lock);
    if (abandoned) {
        free_kept(kept);
    }
    return NULL;
}

/* ---- opening ---- */

static json_t *read_file(const char *path)
{
    char *bytes = malloc(MST_KEPT_BYTES_MAX);
    int fd = bytes ? mst_own_file_open(AT_FDCWD, path, O_RDONLY) : -1;
    ssize_t size = fd >= 0 ? read(fd, bytes, MST_KEPT_BYTES_MAX) : -1;
    json_t *run = size > 0 ? mst_kept_read(bytes, (size_t)size) : NULL;

    if (fd >= 0) {
        (void)close(fd);
    }
    free(bytes);
    return run;
}

struct mst_uv_kept *mst_uv_kept_open(const char *path, const char *job, struct mst_uv_log *log)
{
    struct mst_uv_kept *kept = calloc(1, sizeof *kept);

    if (!kept) {
        return NULL;
    }
    kept->path = path;
    kept->job = job;
    kept->log = log;
    kept->run = read_file(path);
    (void)pthread_mutex_init(&kept->lock, NULL);
    mst_monotonic_cond_init(&kept->changed);
    if (!kept->run || mst_thread_start(&kept->thread, 0, write_on, kept) != 0) {
        mst_uv_log_line(log, MST_DEBUG, "service", "run-not-kept file=%s", path);
        json_decref(kept->run);
        free_kept(kept);
        return NULL;
    }
    return kept;
}

/* ---- incidents ---- */

static void take_item(void *ctx, const struct mst_item *item)
{
    struct mst_uv_kept *kept = ctx;

    (void)mst_items_add(&kept->history, item, 1); /* without memory one is left out */
}

void mst_uv_kept_incident(struct mst_uv_kept *kept, const struct mst_core *core,
                          struct mst_slice job, int64_t wall_ms)
{
    if (!kept || !mst_slice_equal(job, mst_slice_text(kept->job))) {
        return;
    }
    mst_items_fini(&kept->history);
    mst_core_history(core, job, take_item, kept);
    if (kept->history.count > 0 && mst_kept_put_history(kept->run, &kept->history, wall_ms)) {
        kept->stale = true;
    }
}

void mst_uv_kept_orphaned(struct mst_uv_kept *kept, int64_t wall_ms)
{
    if (kept && mst_json_put(kept->run, "orphaned_ms", json_integer(wall_ms))) {
        kept->stale = true;
    }
}

static void complain(struct mst_uv_kept *kept, int error)
{
    if (error != 0 && !kept->troubled) {
        mst_uv_log_line(kept->log, MST_WARN, "service", "run-not-kept file=%s reason=\"%s\"",
                        kept->path, strerror(error));
    }
    kept->troubled = error != 0;
}

void mst_uv_kept_turn(struct mst_uv_kept *kept)
{
    char *line;
    int error;

    if (!kept || !kept->stale) {
        return;
    }
    line = mst_kept_line(kept->run, MST_KEPT_BYTES_MAX - MST_KEPT_REPORT_ROOM);
    (void)pthread_mutex_lock(&kept->lock);
    error = kept->error;
    if (line) {
        free(kept->next);
        kept->next = line;
        (void)pthread_cond_broadcast(&kept->changed);
    }
    (void)pthread_mutex_unlock(&kept->lock);
    kept->stale = false;
    complain(kept, error);
}

void mst_uv_kept_close(struct mst_uv_kept *kept)
{
    struct timespec until = mst_monotonic_in(PATIENCE_MS);
    int waited = 0;
    bool done;

    if (!kept) {
        return;
    }
    mst_uv_kept_turn(kept);
    mst_items_fini(&kept->history);
    json_decref(kept->run);
    (void)pthread_mutex_lock(&kept->lock);
    kept->closing = true;
    (void)pthread_cond_broadcast(&kept->changed);
    while (!kept->done && waited != ETIMEDOUT) {
        waited = pthread_cond_timedwait(&kept->changed, &kept->lock, &until);
    }
    done = kept->done;
    kept->abandoned = !done;
    if (!done) {
        (void)pthread_detach(kept->thread);
    }
    (void)pthread_mutex_unlock(&kept->lock);
    if (done) {
        (void)pthread_join(kept->thread, NULL);
        free_kept(kept);
    }
}
