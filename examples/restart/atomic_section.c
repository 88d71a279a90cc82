/* SPDX-License-Identifier: Apache-2.0 */
/* An interruption does not cut a short write in two.
 *
 * Rank 1 fails while rank 0 writes a file in an atomic section: no signal interrupts the write, and
 * the interruption follows right after its end. If it comes first, the section is not entered.
 *
 *   muster run -n 2 -- restart_atomic_section FILE */
#define _GNU_SOURCE
#include <muster/muster.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

enum { LINES = 50 };

struct work {
    muster_client *client;
    const char *path;
};

static int count_lines(const char *path)
{
    FILE *file = fopen(path, "r");
    int lines = 0;

    for (int c = file ? fgetc(file) : EOF; c != EOF; c = fgetc(file)) {
        lines += c == '\n';
    }
    if (file) {
        (void)fclose(file);
    }
    return lines;
}

static muster_status save(muster_restart *restart, const struct work *work)
{
    muster_status status = muster_restart_atomic_begin(restart);
    FILE *file;

    if (status != MUSTER_OK) {
        return status;
    }
    file = fopen(work->path, "w");
    for (int i = 0; file && i < LINES; i++) {
        (void)fprintf(file, "line %d\n", i);
        (void)fflush(file);
        (void)poll(NULL, 0, 5); /* the others have time to fail */
    }
    if (file) {
        (void)fclose(file);
    }
    return muster_restart_atomic_end(restart);
}

static muster_status run(muster_restart *restart, void *arg)
{
    const struct work *work = arg;
    struct muster_view me;
    muster_status status;

    muster_restart_view(restart, &me);
    if (me.iteration == 0 && me.rank == 0) {
        (void)unlink(work->path);
    }
    status = muster_barrier_wait(work->client, "begin", -1, NULL);
    if (status != MUSTER_OK) {
        return status;
    }
    if (me.iteration > 0) {
        if (me.rank == 0) {
            printf("the file has %d of %d lines\n", count_lines(work->path), LINES);
        }
        return MUSTER_OK;
    }
    if (me.rank == 1) {
        while (count_lines(work->path) < LINES / 5) { /* rank 0 is in the middle of its file */
            (void)poll(NULL, 0, 1);
        }
        return muster_restart_fail(restart, 1, "rank 1 fails while rank 0 writes");
    }
    status = save(restart, work);
    printf("after the section: %s\n", muster_status_text(status));
    return status;
}

int main(int argc, char **argv)
{
    struct work work = {.path = argc > 1 ? argv[1] : "/tmp/restart_atomic_section.txt"};
    struct muster_error err = {0};
    muster_status status = muster_client_open(&work.client, NULL, -1, &err);

    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* print each line at once */
    if (status == MUSTER_OK) {
        status = muster_restart_run(work.client, NULL, run, &work, &err);
    }
    if (status != MUSTER_OK) {
        (void)fprintf(stderr, "atomic_section: %s\n", err.text);
    }
    muster_client_close(work.client);
    return muster_exit_code(status);
}
