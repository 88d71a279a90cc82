/* SPDX-License-Identifier: Apache-2.0 */
/* save
 *
 * A training loop under `muster run` that saves when it is preempted. All ranks take each step
 * together. What a rank saved is LOOP_DIR/INDEX: the step, by which it begins the next time.
 *
 *   "begins at=0 generation=1"     before the loop
 *   "step 17"                      each step that is the first for this process, or a multiple of
 *                                  LOOP_SAY
 *   "saves 17"                     once it is told to
 *   "saved 17 MUSTER_EPREEMPTED"   what came of it
 *
 * LOOP_STEPS: how many there are; the process ends with 0 after them. LOOP_STUCK=INDEX: that rank
 * takes steps and never asks whether to save. LOOP_SLOW=INDEX: its save takes until LOOP_DIR/go is
 * there. LOOP_END=CODE: what a rank ends with after a save by all, instead of 75. LOOP_DEAF: no
 * handle is opened. LOOP_LINGER: a rank that has closed everything ends when LOOP_DIR/end is there.
 * LOOP_RUN: inside of muster_restart_run, as where others go on. LOOP_LATE=INDEX: that rank returns
 * from its function when LOOP_DIR/go is there. LOOP_OTHER=INDEX: that rank says it has saved the
 * step after the one it has. LOOP_MORE=N: a generation after the first takes N steps, and is done
 * when LOOP_DIR/done is there. */
#define _GNU_SOURCE
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "muster/muster.h"
#include "rank.h"

#define PACE_MS 2
#define PATH_ROOM 512

struct loop {
    muster_client *client;
    muster_preempt *preempt;
    uint32_t index;
    long step;
    bool alone; /* who is noticed leaves, and the others go on */
    bool saved; /* by all, and this process is to end */
};

static long number(const char *name, long otherwise)
{
    const char *text = getenv(name);

    return text != NULL ? strtol(text, NULL, 10) : otherwise;
}

static void path_of(char *path, const char *name)
{
    const char *folder = getenv("LOOP_DIR");

    (void)snprintf(path, PATH_ROOM, "%s/%s", folder != NULL ? folder : ".", name);
}

static void wait_for(const char *name)
{
    char path[PATH_ROOM];

    path_of(path, name);
    while (access(path, F_OK) != 0) {
        (void)poll(NULL, 0, PACE_MS);
    }
}

static long load(uint32_t index)
{
    char path[PATH_ROOM], name[24];
    FILE *file;
    long step = 0;

    (void)snprintf(name, sizeof name, "%u", index);
    path_of(path, name);
    file = fopen(path, "r");
    if (file != NULL) {
        char line[32] = "";

        if (fgets(line, sizeof line, file) != NULL) {
            step = strtol(line, NULL, 10);
        }
        (void)fclose(file);
    }
    return step;
}

static void save(uint32_t index, long step)
{
    char path[PATH_ROOM], name[24];
    FILE *file;

    if (number("LOOP_SLOW", -1) == (long)index) {
        wait_for("go");
    }
    (void)snprintf(name, sizeof name, "%u", index);
    path_of(path, name);
    file = fopen(path, "w");
    if (file != NULL) {
        (void)fprintf(file, "%ld\n", step);
        (void)fclose(file);
    }
}

/* OK: it goes on. */
static muster_status save_if_told(struct loop *loop)
{
    struct muster_error err = {.text = ""};
    muster_status status = MUSTER_OK;

    if (loop->preempt == NULL || number("LOOP_STUCK", -1) == (long)loop->index) {
        return MUSTER_OK;
    }
    switch (muster_preempt_reached(loop->preempt, loop->step)) {
    case MUSTER_GO_ON:
        return MUSTER_OK;
    case MUSTER_STOP:
        return MUSTER_EINTERRUPTED;
    case MUSTER_SAVE_NOW:
        printf("saves %ld\n", loop->step);
        save(loop->index, loop->step);
        status = muster_preempt_saved(
            loop->preempt, loop->step + (number("LOOP_OTHER", -1) == (long)loop->index), -1, &err);
        printf("saved %ld %s %s\n", loop->step, muster_status_name(status), err.text);
        break;
    }
    loop->saved = status == MUSTER_EPREEMPTED;
    return status == MUSTER_ESTALE ? MUSTER_OK : status;
}

static muster_status train(struct loop *loop, uint64_t generation)
{
    long steps = number("LOOP_STEPS", 1000000), say = number("LOOP_SAY", 1000000);
    long more = generation > 1 ? number("LOOP_MORE", 0) : 0;
    bool first = true;

    loop->step = load(loop->index);
    steps = more > 0 ? loop->step + more : steps;
    printf("begins at=%ld generation=%llu\n", loop->step, (unsigned long long)generation);
    for (; loop->step < steps; loop->step++) {
        struct muster_error err;
        muster_status status = save_if_told(loop);

        if (status == MUSTER_OK) {
            status = muster_barrier_wait(loop->client, "step", -1, &err);
        }
        if (status != MUSTER_OK) {
            printf("stops %s\n", muster_status_name(status));
            return status;
        }
        if (first || loop->step % say == 0) {
            printf("step %ld\n", loop->step);
            first = false;
        }
        (void)poll(NULL, 0, PACE_MS);
    }
    if (more > 0) {
        wait_for("done");
    }
    printf("done\n");
    return MUSTER_OK;
}

static muster_status function(muster_restart *restart, void *ctx)
{
    struct loop *loop = ctx;
    struct muster_view view;
    muster_status status;

    muster_restart_view(restart, &view);
    status = train(loop, view.generation);
    if (number("LOOP_LATE", -1) == (long)loop->index) {
        printf("is late\n");
        wait_for("go");
    }
    if (status == MUSTER_EPREEMPTED && loop->alone) {
        return muster_restart_leave(restart);
    }
    return status == MUSTER_EINTERRUPTED || status == MUSTER_EFENCED ? muster_restart_check(restart)
                                                                     : status;
}

static muster_status begin(struct loop *loop, struct muster_error *err)
{
    const char *leave = getenv("MUSTER_PREEMPT_LEAVE");
    struct muster_view view;
    muster_status status = muster_client_open(&loop->client, NULL, -1, err);

    if (status != MUSTER_OK) {
        return status;
    }
    loop->alone = strcmp(leave != NULL ? leave : "", "noticed") == 0;
    muster_client_view(loop->client, &view);
    loop->index = view.index;
    if (getenv("LOOP_DEAF") == NULL) {
        status = muster_preempt_open(&loop->preempt, loop->client, NULL, err);
    }
    if (status == MUSTER_OK && getenv("LOOP_RUN") != NULL) {
        return muster_restart_run(loop->client, NULL, function, loop, err);
    }
    return status == MUSTER_OK ? train(loop, view.generation) : status;
}

int rank_save(int argc, char **argv)
{
    struct loop loop = {.step = 0};
    struct muster_error err = {.text = ""};
    muster_status status;

    (void)argc;
    (void)argv;
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    status = begin(&loop, &err);
    if (err.text[0] != '\0' && status != MUSTER_OK) {
        (void)fprintf(stderr, "%s\n", err.text);
    }
    muster_preempt_close(loop.preempt);
    muster_client_close(loop.client);
    if (getenv("LOOP_LINGER") != NULL) {
        printf("lingers\n");
        wait_for("end");
    }
    if (loop.saved) {
        return (int)number("LOOP_END", muster_exit_code(MUSTER_EPREEMPTED));
    }
    return muster_exit_code(status);
}
