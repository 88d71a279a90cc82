/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "launch/kept.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launch/job.h"
#include "net/state_dir.h"
#include "os/clock.h"
#include "os/own_file.h"
#include "view/kept.h"

#define RUNS "runs"
#define ENDING ".json"
#define TIME_SIZE 20 /* 20260301T120000.123Z, so the order of names is that of time */

/* ---- the folder ---- */

static int is_run(const struct dirent *entry)
{
    size_t size = strlen(entry->d_name);

    return size > TIME_SIZE + sizeof ENDING && entry->d_name[8] == 'T' &&
           entry->d_name[TIME_SIZE - 1] == 'Z' &&
           strcmp(entry->d_name + size - (sizeof ENDING - 1), ENDING) == 0;
}

/* Names, the oldest first; their number, or -1 with errno. */
static int list(const char *folder, struct dirent ***names)
{
    return scandir(folder, names, is_run, alphasort);
}

static void free_names(struct dirent **names, int count)
{
    for (int i = 0; i < count; i++) {
        free(names[i]);
    }
    free(count >= 0 ? names : NULL);
}

/* Of this user, and closed to others: texts of ranks may be in the files. */
static bool make_folder(const char *folder)
{
    struct stat about;

    return mst_state_make_folders(folder) && (mkdir(folder, 0700) == 0 || errno == EEXIST) &&
           lstat(folder, &about) == 0 && S_ISDIR(about.st_mode) && about.st_uid == geteuid() &&
           (about.st_mode & 077) == 0;
}

static void drop_oldest(const char *folder, uint32_t keep)
{
    struct dirent **names = NULL;
    int count = list(folder, &names);

    for (int i = 0; i + (int64_t)keep < count; i++) {
        char path[PATH_MAX];

        if (snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name) < (int)sizeof path) {
            (void)unlink(path);
        }
    }
    free_names(names, count);
}

/* ---- a run ---- */

static bool name_file(struct mst_run_job *job, const char *folder)
{
    char *path = job->kept.path;
    char name[NAME_MAX + 1];
    struct tm parts;
    int size;

    (void)gmtime_r(&job->report.began.tv_sec, &parts);
    size = (int)strftime(name, sizeof name, "%Y%m%dT%H%M%S", &parts);
    size += snprintf(name + size, sizeof name - (size_t)size, ".%03ldZ-%s-%d" ENDING,
                     job->report.began.tv_nsec / (long)NS_PER_MS, job->name, (int)getpid());
    return size < (int)sizeof name && snprintf(path, sizeof job->kept.path, "%s/%s", folder, name) <
                                          (int)sizeof job->kept.path;
}

static bool store(const struct mst_run_job *job, json_t *run)
{
    char *line = run != NULL ? mst_kept_line(run, MST_KEPT_BYTES_MAX) : NULL;
    bool good = line != NULL && mst_own_file_replace(job->kept.path, job->host, line, strlen(line));

    free(line);
    return good;
}

void mst_kept_begin(struct mst_run_job *job)
{
    uint32_t keep = job->options->keep_runs;
    char folder[PATH_MAX];
    json_t *run;

    if (keep == 0 || !mst_state_path(RUNS, folder, sizeof folder) || !make_folder(folder)) {
        return;
    }
    drop_oldest(folder, keep - 1);
    run = mst_kept_new(job->name, job->host, getpid(), mst_clock_ms_of(&job->report.began));
    if (!name_file(job, folder) || !store(job, run)) {
        job->kept.path[0] = '\0';
    }
    json_decref(run);
}

/* What ranks wrote last is the longest part of it. */
static void shorten(json_t *report)
{
    json_t *lines = json_object_get(json_object_get(report, "first_cause"), "stderr");

    while (json_array_size(lines) > 0 &&
           json_dumpb(report, NULL, 0, JSON_ENSURE_ASCII) > MST_KEPT_REPORT_ROOM - 1024) {
        (void)json_array_remove(lines, 0);
    }
}

/* The service was the last one that wrote, and knows no more. */
void mst_kept_end(const struct mst_run_job *job, const json_t *report)
{
    json_t *run = job->kept.path[0] != '\0' ? mst_kept_load(job->kept.path) : NULL;
    json_t *own = run != NULL ? json_deep_copy(report) : NULL;

    if (own != NULL) {
        (void)json_object_del(own, "incidents"); /* the file has them */
        shorten(own);
        (void)json_object_set_new(run, "ended_ms", json_integer(mst_clock_ms(CLOCK_REALTIME)));
        (void)json_object_set(run, "report", own);
        (void)store(job, run);
    }
    json_decref(own);
    json_decref(run);
}

/* ---- for a reader ---- */

json_t *mst_kept_load(const char *path)
{
    char *bytes = malloc(MST_KEPT_BYTES_MAX + 1);
    int fd = bytes != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t size = fd >= 0 ? read(fd, bytes, MST_KEPT_BYTES_MAX + 1) : -1;
    int error = errno;
    json_t *run = NULL;

    if (fd >= 0) {
        (void)close(fd);
    }
    if (size >= 0) {
        error = EPROTO;
        run = mst_kept_read(bytes, (size_t)size);
    }
    free(bytes);
    errno = error;
    return run;
}

static bool is_of(const char *path, const char *job)
{
    json_t *run = mst_kept_load(path);
    bool is = run != NULL &&
              (job == NULL || strcmp(json_string_value(json_object_get(run, "job")), job) == 0);

    json_decref(run);
    return is;
}

bool mst_kept_newest(const char *job, char path[PATH_MAX])
{
    char folder[PATH_MAX];
    struct dirent **names = NULL;
    bool found = false;
    int count;

    if (!mst_state_path(RUNS, folder, sizeof folder)) {
        return false;
    }
    count = list(folder, &names);
    for (int i = count - 1; i >= 0 && !found; i--) {
        found = snprintf(path, PATH_MAX, "%s/%s", folder, names[i]->d_name) < PATH_MAX &&
                is_of(path, job);
    }
    free_names(names, count);
    return found;
}

bool mst_kept_runs(const json_t *run)
{
    json_int_t pid = json_integer_value(json_object_get(run, "pid"));
    const char *host = json_string_value(json_object_get(run, "host"));
    char here[HOST_NAME_MAX + 1] = "";

    (void)gethostname(here, sizeof here - 1);
    return host != NULL && strcmp(host, here) == 0 && pid > 0 && pid <= INT32_MAX &&
           (kill((pid_t)pid, 0) == 0 || errno == EPERM);
}
