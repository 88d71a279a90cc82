/* SPDX-License-Identifier: Apache-2.0 */
/* The language model of examples/charlm, trained as with a parameter server. The coordinator holds
 * the weights. In each step twelve closures compute a gradient each, from the examples of their
 * worker; the coordinator sums them and makes the update. Run it as
 *
 *   muster run -n 5 --max-restarts 100 --no-label -- cluster_train
 *
 * with [--steps N] [--checkpoint PATH] [FOLDER OF TEXT] after it. Each worker reads its own shard
 * of the text: a per-worker value, made by a function that runs there. Kill a worker: another one
 * computes its gradients, and its replacement makes the shard again. Kill the coordinator, process
 * 0: with a checkpoint its successor continues from there, and the workers drop their work for the
 * dead one.
 *
 * The speed of the workers decides which one computes what, so two runs do not end with the same
 * bits: that is the price of this design. examples/charlm pays another one. */
#define _GNU_SOURCE /* getpid */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <muster/muster.h>
#include <muster/worker.h>

#include "checkpoint.h"
#include "model.h"
#include "text.h"

enum {
    GRADIENTS = 12, /* of a step, for any number of workers */
    SAVE_EVERY = 10,
    TELL_EVERY = 20,
    SHARDS = 4, /* of the text: worker n reads shard n modulo this */
    SEED = 1,

    /* The result of a closure: a gradient, followed by its loss. */
    LOSS_AT = WEIGHTS,
    NUMBERS
};

static const char *folder = "/usr/share/common-licenses";
static struct checkpoint checkpoint;
static int64_t steps = 120;

/* ---- a worker ---- */

/* The per-worker value: the worker's part of the text, and how far it has read. */
struct shard {
    struct text text;
    uint64_t begin, size; /* of the training text */
    uint64_t drawn;
};

static void shard_free(void *object)
{
    struct shard *shard = object;
    text_free(&shard->text);
    free(shard);
}

/* Part 0: the folder. */
static muster_status open_shard(muster_task *task, void *arg)
{
    const struct muster_part *part = NULL;
    const uint32_t number = muster_task_worker(task);
    char path[4096] = "";
    char why[512];
    struct shard *shard = calloc(1, sizeof *shard);

    (void)arg;
    if (shard == NULL || muster_task_parts(task, &part) != 1 || part->size >= sizeof path) {
        free(shard);
        return muster_task_fail(task, EINVAL, "a shard is made of the name of a folder");
    }
    memcpy(path, part->data, part->size);
    if (!text_load(&shard->text, path, "GPL-3", why)) {
        free(shard);
        return muster_task_fail(task, ENOENT, why);
    }
    shard->size = shard->text.training_size / SHARDS;
    shard->begin = shard->size * (number % SHARDS);
    printf("worker %" PRIu32 " reads its shard in process %d\n", number, (int)getpid());
    return muster_task_keep(task, shard, shard_free);
}

/* Part 0: the weights. The examples are this worker's next ones. */
static muster_status compute_gradient(muster_task *task, void *arg)
{
    static struct model model; /* one slot: one run at a time */
    static struct workspace work;
    static float gradient[NUMBERS];
    const struct muster_part *part = NULL;
    struct shard *shard = muster_task_object(task, 0);
    struct example example[SHARD];

    (void)arg;
    if (shard == NULL || muster_task_parts(task, &part) != 1 || part->size != sizeof model.weight) {
        return muster_task_fail(task, EINVAL, "a gradient is made of weights and a shard");
    }
    memcpy(model.weight, part->data, sizeof model.weight);
    for (int i = 0; i < SHARD; i++) {
        uint64_t place = model_scramble(shard->begin + shard->drawn++);
        example[i].symbol = shard->text.training + shard->begin + place % (shard->size - CONTEXT);
    }
    model_prepare(&model, &work);
    gradient[LOSS_AT] = (float)model_loss(&model, &work, example, SHARD, gradient);
    return muster_task_add(task, gradient, sizeof gradient, 0);
}

static muster_status work(muster_client *client, struct muster_error *err)
{
    muster_worker *worker = NULL;
    muster_status status = muster_worker_open(&worker, client, NULL, err);

    if (status == MUSTER_OK) {
        status = muster_worker_register(worker, "shard", 1, 0, open_shard, NULL, err);
    }
    if (status == MUSTER_OK) {
        status = muster_worker_register(worker, "gradient", 1, 0, compute_gradient, NULL, err);
    }
    if (status == MUSTER_OK) {
        status = muster_worker_serve(worker, err);
    }
    muster_worker_close(worker);
    return status;
}

/* ---- the coordinator ---- */

struct trainer {
    muster_client *client;
    muster_cluster *cluster;
    muster_dataset *text;
    muster_per_worker *shards;
    struct model model, next;
    struct workspace work;
    float total[NUMBERS];
};

static muster_status add(struct trainer *self, muster_closure *closure, struct muster_error *err)
{
    const struct muster_part *part = NULL;
    size_t count = 0;
    muster_status status = muster_closure_fetch(closure, -1, &part, &count, err);

    if (status == MUSTER_OK) {
        const float *gradient = part->data;
        for (int i = 0; i < NUMBERS; i++) {
            self->total[i] += gradient[i];
        }
    }
    return status;
}

/* One update: twelve gradients at the same weights, by the present workers. */
static muster_status step(struct trainer *self, struct muster_error *err)
{
    const struct muster_part weights = {.data = self->model.weight,
                                        .size = sizeof self->model.weight};
    muster_per_worker *const needs[] = {self->shards};
    struct muster_closure_options options = MUSTER_CLOSURE_OPTIONS_INIT;
    muster_closure *closure[GRADIENTS] = {NULL};
    muster_status status = MUSTER_OK;

    options.needs = needs;
    options.need_count = 1;
    memset(self->total, 0, sizeof self->total);
    for (int i = 0; status == MUSTER_OK && i < GRADIENTS; i++) {
        status = muster_cluster_schedule(self->cluster, "gradient", &weights, 1, &options, -1,
                                         &closure[i], err);
    }
    for (int i = 0; status == MUSTER_OK && i < GRADIENTS; i++) {
        status = add(self, closure[i], err);
    }
    for (int i = 0; i < GRADIENTS; i++) {
        muster_closure_release(closure[i]);
    }
    if (status == MUSTER_OK) {
        model_step(&self->model, self->total, GRADIENTS * SHARD, steps, &self->next);
        self->model = self->next;
    }
    return status;
}

/* Written under the number of this incarnation, then committed. A write to the service stands
 * between the two: a frozen coordinator that was replaced is refused there (EFENCED), and its older
 * weights replace nothing. */
static muster_status save(struct trainer *self, struct muster_error *err)
{
    struct muster_view me;
    char step[24];
    const int size = snprintf(step, sizeof step, "%" PRId64, self->model.step);

    muster_client_view(self->client, &me);
    if (!checkpoint_write(&checkpoint, me.incarnation, &self->model)) {
        (void)snprintf(err->text, sizeof err->text, "write %s: %s", checkpoint.path,
                       strerror(errno));
        return MUSTER_EFAILED;
    }
    muster_status status = muster_key_put(
        self->client, "checkpoint", (struct muster_slice){step, (size_t)size}, NULL, -1, NULL, err);
    if (status == MUSTER_OK && !checkpoint_commit(&checkpoint, me.incarnation)) {
        (void)snprintf(err->text, sizeof err->text, "commit %s: %s", checkpoint.path,
                       strerror(errno));
        return MUSTER_EFAILED;
    }
    return status;
}

static muster_status train(struct trainer *self, struct muster_error *err)
{
    muster_status status = MUSTER_OK;

    while (status == MUSTER_OK && self->model.step < steps) {
        status = step(self, err);
        const int64_t reached = self->model.step;
        if (status == MUSTER_OK && checkpoint.path != NULL && reached % SAVE_EVERY == 0) {
            status = save(self, err);
        }
        if (status == MUSTER_OK && reached % TELL_EVERY == 0) { /* report only saved steps */
            printf("step %" PRId64 " bits %.3f\n", reached,
                   (double)self->total[LOSS_AT] / (GRADIENTS * SHARD) / log(2.0));
        }
    }
    return status;
}

/* The initial weights: those of the checkpoint of this training, or new ones. */
static muster_status begin(struct trainer *self, struct muster_error *err)
{
    char why[CHECKPOINT_WHY] = "";

    if (checkpoint.path != NULL && checkpoint_step(&checkpoint, why) >= 0 &&
        checkpoint_load(&checkpoint, &self->model)) {
        printf("goes on from step %" PRId64 "\n", self->model.step);
        return MUSTER_OK;
    }
    if (why[0] != '\0') {
        (void)snprintf(err->text, sizeof err->text, "%s", why);
        return MUSTER_EFAILED;
    }
    model_init(&self->model, SEED);
    return MUSTER_OK;
}

static muster_status train_all(struct trainer *self, struct muster_error *err)
{
    const struct muster_part name = {.data = folder, .size = strlen(folder)};
    muster_status status = begin(self, err);

    if (status == MUSTER_OK) {
        status = muster_cluster_dataset(self->cluster, "shard", &name, 1, NULL, &self->text, err);
    }
    if (status == MUSTER_OK) {
        status = muster_dataset_iterate(self->text, &self->shards, err);
    }
    if (status == MUSTER_OK) {
        status = train(self, err);
    }
    if (status == MUSTER_OK) {
        printf("trained %" PRId64 " steps\n", steps);
    }
    return status;
}

static muster_status coordinate(muster_client *client, struct muster_error *err)
{
    struct trainer *self = calloc(1, sizeof *self);
    muster_status status = MUSTER_ENOMEM;

    checkpoint.training = (struct training){
        .seed = SEED,
        .steps = (uint64_t)steps,
        .text = digest_of(folder, strlen(folder)), /* by its name: only workers read it */
        .shards = GRADIENTS,
    };
    if (self != NULL) {
        self->client = client;
        status = muster_cluster_open(&self->cluster, client, NULL, -1, err);
    }
    /* Dismissed already: the process before this one was killed when its work was done. */
    if (status == MUSTER_OK && !muster_cluster_dismissed(self->cluster)) {
        status = train_all(self, err);
    }
    if (status == MUSTER_OK) {
        status = muster_cluster_dismiss(self->cluster, -1, err); /* all workers end */
    }
    if (status == MUSTER_OK && checkpoint.path != NULL) {
        checkpoint_remove(&checkpoint);
    }
    if (self != NULL) {
        muster_per_worker_drop(self->shards);
        muster_dataset_drop(self->text);
        muster_cluster_close(self->cluster);
    }
    free(self);
    return status;
}

/* ---- the program ---- */

static bool read_arguments(char **argv)
{
    for (argv++; *argv != NULL; argv++) {
        if (strcmp(*argv, "--steps") == 0 && argv[1] != NULL) {
            char *end = NULL;
            steps = strtoll(*++argv, &end, 10);
            if (*end != '\0' || steps < 1) {
                return false;
            }
        } else if (strcmp(*argv, "--checkpoint") == 0 && argv[1] != NULL) {
            checkpoint.path = *++argv;
        } else if (**argv == '-') {
            return false;
        } else {
            folder = *argv;
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    struct muster_error err = {0};
    struct muster_view me;
    muster_client *client = NULL;

    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* print each line at once */
    if (argc < 1 || !read_arguments(argv)) {
        (void)fprintf(stderr, "usage: cluster_train [--steps N] [--checkpoint PATH] [FOLDER]\n");
        return 2;
    }
    options.role = MUSTER_ROLE_WORKER; /* a member, and no rank of a generation */
    muster_status status = muster_client_open(&client, &options, -1, &err);
    if (status == MUSTER_OK) {
        muster_client_view(client, &me);
        status = me.index == 0 ? coordinate(client, &err) : work(client, &err);
    }
    if (status != MUSTER_OK) {
        (void)fprintf(stderr, "train: %s\n", err.text);
    }
    muster_client_close(client);
    return muster_exit_code(status);
}
