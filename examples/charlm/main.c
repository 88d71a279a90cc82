/* SPDX-License-Identifier: Apache-2.0 */
/* charlm: a language model of characters, trained by several processes, that survives the loss of
 * any of them. Run it as
 *
 *   muster run -n 4 -- charlm [--steps N] [--seed N] [--checkpoint PATH] [FOLDER OF TEXT]
 *
 * on one node, or on several with --nnodes. With a path it can be preempted: at a notice all ranks
 * save the same step there and end, and the same command continues from it. A save counts when all
 * ranks have written it and their generation has committed it (`commit`). The file names its
 * training; another training, with another seed for example, is refused.
 *
 * Each step has a batch of 12 shards. A rank computes the gradients of its share of them, the ring
 * adds all twelve in their order, and every rank makes the same update. So all hold the same
 * weights after each step, and the weights do not depend on the number of ranks.
 *
 * The code for survival is in `train`: muster calls it again, in the same process, whenever the
 * membership has changed. Its first act is to agree on the step to continue from (`rejoin`). That
 * is the newest step that a rank holds in memory; a rank that lacks it gets it from one that has
 * it. Files are for a job without any weights in memory: a replacement in a running job must not
 * restore an old step from its disk. */
#define _GNU_SOURCE /* clock_gettime, clock_nanosleep */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <muster/muster.h>

#include "checkpoint.h"
#include "collect.h"
#include "model.h"
#include "text.h"

enum {
    SHARDS = 12, /* of a batch, for any number of ranks */
    BATCH = SHARDS * SHARD,
    REPORT_EVERY = 20, /* steps */
    SAID = 72,         /* characters to generate in the end */
    EVALUATION_MS = 60000,
    HOLDS = 2, /* CHARLM_HOLD=8,40: steps of the first generations */
    HOLD_MS = 10,

    /* The result of a shard: its gradient, followed by its loss, so that the ring adds both. */
    LOSS_AT = WEIGHTS,
    NUMBERS
};

struct trainer {
    const char *folder;
    struct checkpoint checkpoint;
    uint64_t seed;
    int64_t steps;
    int64_t hold[HOLDS]; /* at this step of that generation rank 0 waits for a restart; -1: never */

    muster_client *client;
    muster_restart *restart;
    muster_preempt *preempt; /* NULL: without a checkpoint there is nothing to save */
    struct muster_view view;
    struct text text;
    struct ring ring;

    struct model model[2]; /* the last step, and room for the next */
    int newest;            /* which of them; -1: this process has no weights yet */
    struct workspace work;
    float part[SHARDS][NUMBERS], total[NUMBERS];
};

/* ---- one line per event, for people and for the script that makes a table of them ---- */

static void note(const struct trainer *self, const char *event, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void note(const struct trainer *self, const char *event, const char *format, ...)
{
    char text[400];
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    va_list list;
    va_start(list, format);
    (void)vsnprintf(text, sizeof text, format, list);
    va_end(list);
    printf("@%lld.%06ld #%" PRIu32 " %s %s\n", (long long)now.tv_sec, now.tv_nsec / 1000,
           self->view.index, event, text);
}

static int64_t newest_step(const struct trainer *self)
{
    return self->newest < 0 ? -1 : self->model[self->newest].step;
}

/* Logs the reason for the stop, and returns the status for fn. */
static muster_status stop(struct trainer *self, muster_status status,
                          const struct muster_error *err)
{
    const struct ring_failure *failure = &self->ring.failure;
    char how[200] = "by=check";
    if (failure->call != NULL) {
        (void)snprintf(how, sizeof how, "by=%s call=%s peer=%" PRIu32 " (%s)",
                       failure->os_errno == EINTR ? "interrupt" : "socket", failure->call,
                       self->ring.index[failure->end],
                       failure->os_errno == 0 ? "closed" : strerror(failure->os_errno));
    }
    note(self, "told", "generation=%" PRIu64 " step=%" PRId64 " %s", self->view.generation,
         newest_step(self), how);
    if (status == MUSTER_EINTERRUPTED || muster_restart_check(self->restart) != MUSTER_OK) {
        return MUSTER_EINTERRUPTED;
    }
    return muster_restart_fail(self->restart, err->os_errno, err->text);
}

/* ---- training ---- */

static void compute_shard(struct trainer *self, int shard, float out[NUMBERS])
{
    const struct model *model = &self->model[self->newest];
    struct example example[SHARD];
    for (int i = 0; i < SHARD; i++) {
        uint64_t number = (uint64_t)model->step * BATCH + (uint64_t)(shard * SHARD + i);
        uint64_t place = model_scramble(self->seed ^ model_scramble(number));
        example[i].symbol = self->text.training + place % (self->text.training_size - CONTEXT);
    }
    out[LOSS_AT] = (float)model_loss(model, &self->work, example, SHARD, out);
}

/* One update: this rank's shards, the sum of all, the new weights. */
static muster_status step(struct trainer *self)
{
    const uint32_t rank = self->view.rank;
    const uint32_t size = self->view.size;
    const float *mine[SHARDS];
    size_t count = 0;
    muster_status status = muster_restart_step(self->restart, newest_step(self));
    if (status != MUSTER_OK) {
        return status;
    }
    model_prepare(&self->model[self->newest], &self->work);
    for (uint32_t shard = SHARDS * rank / size; shard < SHARDS * (rank + 1) / size; shard++) {
        compute_shard(self, (int)shard, self->part[count]);
        mine[count] = self->part[count];
        count++;
    }
    status = collect_sum(&self->ring, self->total, NUMBERS, mine, count);
    if (status != MUSTER_OK) {
        return status;
    }
    const struct model *from = &self->model[self->newest];
    model_step(from, self->total, BATCH, self->steps, &self->model[1 - self->newest]);
    self->newest = 1 - self->newest;
    int64_t reached = newest_step(self);
    if (rank == 0 && reached % REPORT_EVERY == 0) {
        note(self, "step", "%" PRId64 " bits=%.3f", reached,
             (double)self->total[LOSS_AT] / BATCH / log(2.0));
    }
    return MUSTER_OK;
}

/* ---- saving ---- */

/* All ranks have written this step. A key of the generation's key space commits it: the next run
 * continues from it. One rank inserts the key for all (ECONFLICT: another one has). A rank that
 * slept through the end of its generation is refused there: EFENCED, and its file does not count.
 */
static muster_status commit(struct trainer *self, int64_t step, struct muster_error *err)
{
    struct muster_key_options options = MUSTER_KEY_OPTIONS_INIT;
    char key[48];
    options.generation = self->view.generation;
    (void)snprintf(key, sizeof key, "checkpoint/%" PRId64, step);
    muster_status status =
        muster_key_cas(self->client, key, 0, (struct muster_slice){"", 0}, &options, -1, NULL, err);
    if (status != MUSTER_OK && status != MUSTER_ECONFLICT) {
        return status;
    }
    if (!checkpoint_commit(&self->checkpoint, self->view.generation)) {
        return muster_restart_fail(self->restart, errno, "the checkpoint could not be committed");
    }
    note(self, "saved", "step=%" PRId64, step);
    return MUSTER_OK;
}

/* Before each step: whether all ranks save this one. EPREEMPTED: all have saved, and the run ends.
 */
static muster_status preempted(struct trainer *self, struct muster_error *err)
{
    int64_t step = newest_step(self);
    uint64_t generation = self->view.generation;
    enum muster_reach reach =
        self->preempt == NULL ? MUSTER_GO_ON : muster_preempt_reached(self->preempt, step);
    if (reach == MUSTER_GO_ON) {
        return MUSTER_OK;
    }
    muster_status status = muster_restart_check(self->restart);
    if (status != MUSTER_OK || reach == MUSTER_STOP) {
        return status != MUSTER_OK ? status : MUSTER_EFENCED;
    }
    if (!checkpoint_write(&self->checkpoint, generation, &self->model[self->newest])) {
        return muster_restart_fail(self->restart, errno, "the checkpoint could not be written");
    }
    note(self, "written", "step=%" PRId64, step);
    muster_status saved = muster_preempt_saved(self->preempt, step, -1, err);
    if (saved == MUSTER_EPREEMPTED) {
        status = commit(self, step, err);
        return status == MUSTER_OK ? saved : status;
    }
    return saved == MUSTER_ESTALE ? MUSTER_OK : saved; /* ESTALE: not this step after all */
}

/* ---- the first act in each generation ---- */

enum { ASKED = 3 };

/* Replaces each of the numbers by the largest of any rank. */
static muster_status largest(struct trainer *self, const char *name, int64_t number[ASKED],
                             struct muster_error *err)
{
    struct muster_round_options options = MUSTER_ROUND_OPTIONS_INIT;
    options.reduce = MUSTER_REDUCE_MAX;
    muster_round_result *result = NULL;
    muster_status status =
        muster_round_join(self->client, name, &options,
                          (struct muster_slice){number, ASKED * sizeof *number}, -1, &result, err);
    for (size_t i = 0; status == MUSTER_OK && i < ASKED; i++) {
        number[i] = muster_round_int64(result, i);
    }
    muster_round_free(result);
    return status;
}

/* No rank has weights in memory: this one gets them from its file if that has this step. */
static void load(struct trainer *self, int64_t saved, int64_t step)
{
    if (step < 0) {
        model_init(&self->model[0], self->seed);
        self->newest = 0;
    } else if (saved == step && checkpoint_load(&self->checkpoint, &self->model[0])) {
        self->newest = 0;
        note(self, "loaded", "step=%" PRId64, step);
    }
}

/* Files of another training exist: the rank that found one ends the run for all. */
static muster_status refuse(struct trainer *self, const char *why, struct muster_error *err)
{
    return why[0] != '\0' ? muster_restart_abort(self->restart, 0, why)
                          : muster_barrier_wait(self->client, "refused", -1, err);
}

/* The step from which all continue: the newest that a rank holds in memory, else the newest
 * committed one in a file of any rank, else the beginning. No rank loads a file that another one
 * refuses. */
static muster_status agree(struct trainer *self, int64_t *step, struct muster_error *err)
{
    char why[CHECKPOINT_WHY] = "";
    int64_t saved = self->newest < 0 && self->checkpoint.path != NULL
                        ? checkpoint_step(&self->checkpoint, why)
                        : -1;
    int64_t number[ASKED] = {newest_step(self), saved, why[0] != '\0'};
    muster_status status = largest(self, "step", number, err);
    if (status == MUSTER_OK && number[0] < 0) {
        if (number[2] > 0) {
            return refuse(self, why, err);
        }
        load(self, saved, number[1]);
    }
    *step = number[0] >= 0 ? number[0] : number[1] >= 0 ? number[1] : 0;
    return status;
}

/* A rank that lacks this step gets it from one that has it, into the spare model: its own weights
 * stay until the new ones are complete. */
static muster_status share(struct trainer *self, int64_t step, struct muster_error *err)
{
    bool has = newest_step(self) == step;
    int64_t number[ASKED] = {has ? (int64_t)self->view.rank : -1, has ? 0 : 1};
    muster_status status = largest(self, "source", number, err);
    if (status != MUSTER_OK || number[1] == 0) {
        return status;
    }
    if (number[0] < 0) {
        return muster_restart_abort(self->restart, 0,
                                    "no rank can read the checkpoint that is committed");
    }
    bool sends = has && number[0] == self->view.rank;
    int room = self->newest < 0 ? 0 : 1 - self->newest;
    int at = sends ? self->newest : room;
    status =
        collect_share(&self->ring, (uint32_t)number[0], &self->model[at], sizeof self->model[at]);
    if (status == MUSTER_OK) {
        self->newest = at;
    }
    return status;
}

/* All ranks are at one step again, with a ring. */
static muster_status rejoin(struct trainer *self, struct muster_error *err)
{
    int64_t step = 0;
    muster_status status = agree(self, &step, err);
    ring_close(&self->ring); /* the old one: all have left it, or were not in the round */
    if (status == MUSTER_OK) {
        status = ring_open(&self->ring, self->client, self->restart, err);
    }
    if (status == MUSTER_OK) {
        status = share(self, step, err);
    }
    if (status == MUSTER_OK) {
        note(self, "running",
             "generation=%" PRIu64 " rank=%" PRIu32 " size=%" PRIu32 " step=%" PRId64,
             self->view.generation, self->view.rank, self->view.size, newest_step(self));
    }
    return status;
}

/* ---- the end ---- */

static double held_out_bits(struct trainer *self)
{
    const struct model *model = &self->model[self->newest];
    size_t count = self->text.held_out_size - CONTEXT;
    double nats = 0.0;
    for (size_t at = 0; at < count;) {
        struct example example[SHARD];
        int filled = 0;
        while (filled < SHARD && at < count) {
            example[filled++].symbol = self->text.held_out + at++;
        }
        nats += model_loss(model, &self->work, example, filled, NULL);
    }
    return nats / log(2.0) / (double)count;
}

/* The model's continuation of the beginning of a sentence. */
static void say(struct trainer *self, char line[SAID + 1])
{
    const char *begin = "You may not ";
    uint8_t symbol[CONTEXT + SAID + 1] = {0};
    for (int i = 0; i < CONTEXT; i++) {
        symbol[i] = text_symbol(begin[i]);
        line[i] = begin[i];
    }
    for (int i = 0; i + CONTEXT < SAID; i++) {
        struct example example = {symbol + i};
        model_loss(&self->model[self->newest], &self->work, &example, 1, NULL);
        float dice = (float)(model_scramble(self->seed + (uint64_t)i) >> 40) / 16777216.0F;
        symbol[i + CONTEXT] = (uint8_t)model_pick(self->work.chance[0], dice);
        char character = text_character(symbol[i + CONTEXT]);
        line[i + CONTEXT] = (char)(character == '\n' ? ' ' : character);
    }
    line[SAID] = '\0';
}

/* All ranks hold the same weights, or the job fails; rank 0 prints their quality. */
static muster_status finish(struct trainer *self, struct muster_error *err)
{
    uint64_t digest = model_digest(&self->model[self->newest]);
    struct muster_round_options options = MUSTER_ROUND_OPTIONS_INIT;
    options.reduce = MUSTER_REDUCE_EQUAL;
    muster_status status =
        muster_round_join(self->client, "digest", &options,
                          (struct muster_slice){&digest, sizeof digest}, -1, NULL, err);
    if (status == MUSTER_OK && self->view.rank == 0) {
        char line[SAID + 1];
        /* No steps in this section, which is no hang. */
        status = muster_restart_section_begin(self->restart, "evaluation", EVALUATION_MS);
        say(self, line);
        note(self, "said", "%s", line);
        note(self, "result", "steps=%" PRId64 " held-out-bits=%.4f digest=%016" PRIx64,
             newest_step(self), held_out_bits(self), digest);
        (void)muster_restart_section_end(self->restart);
    }
    return status;
}

/* ---- what muster calls, in every generation ---- */

static bool noticed(const struct trainer *self)
{
    struct muster_notice notice;
    return self->preempt != NULL && muster_preempt_notice(self->preempt, &notice);
}

/* To kill a rank, add one, or give notice by hand: rank 0 stops here until the job restarts or has
 * a notice, and the others wait for it in recv. */
static void hold(struct trainer *self)
{
    const struct timespec moment = {.tv_nsec = HOLD_MS * 1000000L};
    uint64_t generation = self->view.generation;
    if (self->view.rank != 0 || generation == 0 || generation > HOLDS ||
        newest_step(self) != self->hold[generation - 1]) {
        return;
    }
    note(self, "holding", "step=%" PRId64, newest_step(self));
    while (muster_restart_check(self->restart) == MUSTER_OK && !noticed(self)) {
        /* A fault would interrupt it; a newcomer does not. */
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL);
    }
}

static muster_status train(muster_restart *restart, void *arg)
{
    struct trainer *self = arg;
    struct muster_error err = {0};
    self->restart = restart;
    self->ring.failure.call = NULL;
    muster_restart_view(restart, &self->view);
    note(self, "entered", "generation=%" PRIu64 " rank=%" PRIu32 " size=%" PRIu32,
         self->view.generation, self->view.rank, self->view.size);
    muster_status status = rejoin(self, &err);
    while (status == MUSTER_OK && newest_step(self) < self->steps) {
        hold(self);
        status = preempted(self, &err);
        if (status == MUSTER_OK) {
            status = step(self);
        }
    }
    if (status == MUSTER_OK) {
        status = finish(self, &err);
    }
    bool done = status == MUSTER_OK || status == MUSTER_EPREEMPTED;
    return done ? status : stop(self, status, &err);
}

/* ---- the program ---- */

static bool number_of(const char *text, int64_t *out)
{
    char *end = NULL;
    errno = 0;
    long long value = text == NULL ? -1 : strtoll(text, &end, 10);
    *out = value;
    return text != NULL && errno == 0 && end != text && *end == '\0' && value >= 0;
}

static void read_holds(struct trainer *self, const char *text)
{
    for (int i = 0; i < HOLDS; i++) {
        char *end = NULL;
        self->hold[i] = text != NULL && *text != '\0' ? strtoll(text, &end, 10) : -1;
        text = end != NULL && *end == ',' ? end + 1 : NULL;
    }
}

static bool read_arguments(struct trainer *self, char **argv)
{
    int64_t seed = 1;
    self->folder = "/usr/share/common-licenses";
    self->steps = 1200;
    read_holds(self, getenv("CHARLM_HOLD"));
    for (argv++; *argv != NULL; argv++) {
        if (strcmp(*argv, "--checkpoint") == 0 && argv[1] != NULL) {
            self->checkpoint.path = *++argv;
            continue;
        }
        int64_t *number = strcmp(*argv, "--steps") == 0  ? &self->steps
                          : strcmp(*argv, "--seed") == 0 ? &seed
                                                         : NULL;
        if (number == NULL && (*argv)[0] == '-') {
            return false;
        }
        if (number == NULL) {
            self->folder = *argv;
        } else if (!number_of(*++argv, number)) {
            return false;
        }
    }
    self->seed = (uint64_t)seed;
    return true;
}

/* Takes notices: at one the whole job saves and stops. */
static muster_status open_preempt(struct trainer *self, struct muster_error *err)
{
    struct muster_preempt_options options = MUSTER_PREEMPT_OPTIONS_INIT;
    options.leave = MUSTER_PREEMPT_LEAVE_ALL;
    return self->checkpoint.path == NULL
               ? MUSTER_OK
               : muster_preempt_open(&self->preempt, self->client, &options, err);
}

/* The names of its files, and the training they must be of. */
static void describe_checkpoint(struct trainer *self)
{
    self->checkpoint.index = self->view.index;
    self->checkpoint.training = (struct training){
        .seed = self->seed,
        .steps = (uint64_t)self->steps,
        .text = digest_of(self->text.training, self->text.training_size),
        .shards = SHARDS,
    };
}

static int run(struct trainer *self)
{
    char why[512];
    struct muster_error err = {0};
    if (!text_load(&self->text, self->folder, "GPL-3", why)) {
        (void)fprintf(stderr, "charlm: %s\n", why);
        return 1;
    }
    muster_status status = muster_client_open(&self->client, NULL, -1, &err);
    if (status == MUSTER_OK) {
        muster_client_view(self->client, &self->view);
        describe_checkpoint(self);
        note(self, "started", "pid=%d training=%zu held-out=%s:%zu shared=%.1f%%:%s longest=%zu:%s",
             (int)getpid(), self->text.training_size, self->text.held_out_name,
             self->text.held_out_size - CONTEXT, self->text.most.percent, self->text.most.name,
             self->text.longest.longest, self->text.longest.name);
        status = open_preempt(self, &err);
    }
    if (status == MUSTER_OK) {
        status = muster_restart_run(self->client, NULL, train, self, &err);
    }
    if (status == MUSTER_OK && self->checkpoint.path != NULL) {
        checkpoint_remove(&self->checkpoint);
    }
    if (status != MUSTER_OK && status != MUSTER_EPREEMPTED) {
        (void)fprintf(stderr, "charlm: %s\n", err.text);
    }
    ring_close(&self->ring);
    muster_preempt_close(self->preempt);
    muster_client_close(self->client);
    return muster_exit_code(status);
}

int main(int argc, char **argv)
{
    struct trainer *self = calloc(1, sizeof *self); /* 12 MB: pages are allocated on use */
    if (argc < 1 || self == NULL) {
        return 1;
    }
    self->newest = -1;
    self->ring = RING_CLOSED;
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    if (!read_arguments(self, argv)) {
        (void)fprintf(stderr,
                      "usage: charlm [--steps N] [--seed N] [--checkpoint PATH] [FOLDER]\n");
        free(self);
        return 2;
    }
    int code = run(self);
    text_free(&self->text);
    free(self);
    return code;
}
