/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's options and functions. worker.h lists the other files. */
#define _GNU_SOURCE
#include "tasks/shell/worker/worker.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/shell/environment.h"
#include "client/shell/uncancelled.h"
#include "os/system.h"
#include "proto/cluster_status.h"

#define ALL_FLAGS                                                                                  \
    ((uint32_t)(MUSTER_FUNCTION_PURE | MUSTER_FUNCTION_IDEMPOTENT | MUSTER_FUNCTION_ONCE |         \
                MUSTER_FUNCTION_THREADS | MUSTER_FUNCTION_CHILD))

/* ---- options ---- */

static muster_status read_texts(struct muster_worker *worker,
                                const struct muster_worker_options *options,
                                struct muster_error *err)
{
    const char *cluster = options->cluster;
    const char *scratch = options->scratch;
    const char *signals = options->signals;

    cluster = cluster ? cluster : mst_lib_setting_text("cluster_name");
    cluster = cluster ? cluster : "default";
    signals = signals ? signals : mst_lib_setting_text("worker_signals");
    if (!scratch || *scratch == '\0') {
        mst_environment_lock();
        scratch = getenv("TMPDIR"); // NOLINT(concurrency-mt-unsafe)
        scratch = scratch && *scratch == '/' ? scratch : "/tmp";
        worker->scratch = strdup(scratch);
        mst_environment_unlock();
    } else {
        worker->scratch = realpath(scratch, NULL);
        if (!worker->scratch) {
            return mst_lib_refuse(err, "worker", "options.scratch is no folder");
        }
    }
    if (!mst_cluster_name_valid(mst_slice_text(cluster))) {
        return mst_lib_refuse(
            err, "worker",
            "its cluster's name may have letters, digits, '.', '_' and '-', at most 64");
    }
    worker->cluster = strdup(cluster);
    if (!worker->cluster || !worker->scratch) {
        return mst_lib_fail(err, MUSTER_ENOMEM, "worker", NULL);
    }
    return mst_signals_read(&worker->signals, signals ? signals : "TERM", err);
}

static muster_status read_options(struct muster_worker *worker,
                                  const struct muster_worker_options *given,
                                  struct muster_error *err)
{
    struct muster_worker_options options = MUSTER_WORKER_OPTIONS_INIT;
    muster_status status = mst_lib_options(&options, sizeof(options), given,
                                           "MUSTER_WORKER_OPTIONS_INIT", err, "worker");

    if (status == MUSTER_OK) {
        struct mst_option numbers[] = {
            MST_OPTION("worker_slots", options.slots, &worker->slots, 0),
            MST_OPTION("worker_cancel_grace", options.cancel_grace_ms, &worker->cancel_grace_ns,
                       MST_OPTION_NS),
        };

        status = mst_lib_numbers(numbers, sizeof(numbers) / sizeof(numbers[0]), err);
    }
    return status == MUSTER_OK ? read_texts(worker, &options, err) : status;
}

/* ---- open, close ---- */

/* Client's lock held. It has one worker at most. */
static muster_status refuse_client(muster_client *client, struct muster_error *err)
{
    if (mst_lib_status(client) != MUSTER_OK) {
        return mst_lib_fail_again(client, err, "worker");
    }
    if (client->role != MST_ROLE_WORKER) {
        return mst_lib_refuse(err, "worker",
                              "this client is no worker; open it with MUSTER_ROLE_WORKER");
    }
    if (mst_lib_hook_ctx(client, MST_USER_WORKER)) {
        return mst_fail(err, MUSTER_EEXISTS, 0, "worker: this client has a worker already");
    }
    return MUSTER_OK;
}

static muster_status claim(struct muster_worker *worker, muster_client *client,
                           struct muster_error *err)
{
    muster_status status;

    mst_lib_lock(client);
    status = refuse_client(client, err);
    if (status == MUSTER_OK) {
        worker->client = client;
        mst_work_watch_claim(worker);
    }
    mst_lib_unlock(client);
    return status;
}

static void free_function(struct mst_work_function *function)
{
    for (char **word = function->argv; word && *word; word++) {
        free(*word);
    }
    free(function->argv);
    free(function->name);
}

static void free_worker(struct muster_worker *worker)
{
    int wake = atomic_load(&worker->wake);

    for (uint32_t i = 0; i < worker->function_count; i++) {
        free_function(&worker->functions[i]);
    }
    if (wake >= 0) {
        (void)close(wake);
    }
    free(worker->functions);
    free(worker->cluster);
    free(worker->scratch);
    free(worker);
}

static muster_status open_worker(muster_worker **out, muster_client *client,
                                 const struct muster_worker_options *options,
                                 struct muster_error *err)
{
    struct muster_worker *worker;
    muster_status status;

    if (!out) {
        return mst_lib_refuse(err, "worker", "out is NULL");
    }
    *out = NULL;
    status = mst_lib_enter(client, err, "worker");
    if (status != MUSTER_OK) {
        return status;
    }
    worker = calloc(1, sizeof(*worker));
    if (!worker) {
        return mst_lib_fail(err, MUSTER_ENOMEM, "worker", NULL);
    }
    worker->pid = getpid();
    atomic_init(&worker->wake, mst_system_event());
    status = worker->wake < 0 ? mst_lib_fail_system(err, "worker", errno)
                              : read_options(worker, options, err);
    if (status == MUSTER_OK) {
        status = claim(worker, client, err);
    }
    if (status != MUSTER_OK) {
        free_worker(worker);
        return status;
    }
    *out = worker;
    return MUSTER_OK;
}

muster_status muster_worker_open(muster_worker **out, muster_client *client,
                                 const struct muster_worker_options *options,
                                 struct muster_error *err)
{
    muster_status status;

    mst_uncancelled_begin();
    status = open_worker(out, client, options, err);
    mst_uncancelled_end();
    return status;
}

void muster_worker_close(muster_worker *worker)
{
    if (!worker || worker->pid != getpid()) {
        return;
    }
    mst_uncancelled_begin();
    if (worker->client) {
        mst_lib_lock(worker->client);
        if (!worker->client->poisoned) {
            mst_lib_hook(worker->client, MST_USER_WORKER, NULL);
        }
        mst_lib_unlock(worker->client);
    }
    free_worker(worker);
    mst_uncancelled_end();
}

/* ---- functions ---- */

static muster_status enter(const struct muster_worker *worker, struct muster_error *err,
                           const char *what)
{
    if (!worker || worker->pid != getpid()) {
        return mst_lib_refuse(
            err, what, worker ? "this worker belongs to the parent process" : "the worker is NULL");
    }
    if (!worker->client) {
        return mst_lib_refuse(err, what, "the client of this worker was closed");
    }
    return mst_lib_enter(worker->client, err, what);
}

static muster_status check(const struct muster_worker *worker, const char *name, uint32_t version,
                           uint32_t flags, struct muster_error *err)
{
    muster_status status = enter(worker, err, "register");

    if (status != MUSTER_OK) {
        return status;
    }
    if (worker->served) {
        return mst_lib_refuse(err, "register", "muster_worker_serve was called already");
    }
    if (!name || !*name || strnlen(name, MST_WORK_NAME_MAX + 1) > MST_WORK_NAME_MAX) {
        return mst_lib_refuse(err, "register", "a function's name has 1 to 255 bytes");
    }
    if (version == 0) {
        return mst_lib_refuse(err, "register", "versions begin with 1");
    }
    if ((flags & ~ALL_FLAGS) != 0) {
        return mst_lib_refuse(err, "register", "flags has bits of no enum muster_function_flag");
    }
    for (uint32_t i = 0; i < worker->function_count; i++) {
        if (worker->functions[i].version == version &&
            strcmp(worker->functions[i].name, name) == 0) {
            return mst_fail(err, MUSTER_EEXISTS, 0,
                            "register: this version of the function is there already");
        }
    }
    return worker->function_count < MST_WORK_FUNCTIONS_MAX
               ? MUSTER_OK
               : mst_fail(err, MUSTER_ELIMIT, 0,
                          "register: over the functions of one worker: %u asked for, at most %u; "
                          "open another worker for the others",
                          worker->function_count + 1U, MST_WORK_FUNCTIONS_MAX);
}

/* Takes the function over, or frees it. One without a name has found no memory. */
static muster_status add(struct muster_worker *worker, struct mst_work_function *function,
                         struct muster_error *err)
{
    struct mst_work_function *functions = NULL;

    if (function->name) {
        functions =
            realloc(worker->functions, (worker->function_count + (size_t)1) * sizeof(*functions));
    }
    if (!functions) {
        free_function(function);
        return mst_lib_fail(err, MUSTER_ENOMEM, "register", NULL);
    }
    worker->functions = functions;
    functions[worker->function_count++] = *function;
    worker->places |= 1U << function->place;
    return MUSTER_OK;
}

muster_status muster_worker_register(muster_worker *worker, const char *name, uint32_t version,
                                     uint32_t flags, muster_task_fn *fn, void *arg,
                                     struct muster_error *err)
{
    struct mst_work_function function = {.version = version,
                                         .flags = flags,
                                         .place = flags & MUSTER_FUNCTION_CHILD ? MST_WORK_CHILD
                                                                                : MST_WORK_HERE,
                                         .fn = fn,
                                         .arg = arg};
    muster_status status = check(worker, name, version, flags, err);

    if (status != MUSTER_OK) {
        return status;
    }
    if (!fn) {
        return mst_lib_refuse(err, "register", "the function is NULL");
    }
    function.name = strdup(name);
    return add(worker, &function, err);
}

/* The program is looked for from the folder that is this process's now: the command has its own. */
static char *program_of(const char *program)
{
    char folder[PATH_MAX];
    char *path = NULL;

    if (program[0] == '/' || !strchr(program, '/') || !getcwd(folder, sizeof(folder))) {
        return strdup(program);
    }
    return asprintf(&path, "%s/%s", folder, program) < 0 ? NULL : path;
}

static char **copy_argv(const char *const *argv)
{
    size_t count = 0;
    char **copy;

    while (argv[count]) {
        count++;
    }
    copy = calloc(count + 1, sizeof(*copy));
    for (size_t i = 0; copy && i < count; i++) {
        copy[i] = i == 0 ? program_of(argv[i]) : strdup(argv[i]);
        if (!copy[i]) {
            while (i > 0) {
                free(copy[--i]);
            }
            free(copy);
            return NULL;
        }
    }
    return copy;
}

muster_status muster_worker_register_command(muster_worker *worker, const char *name,
                                             uint32_t version, uint32_t flags,
                                             const char *const *argv,
                                             const struct muster_command_options *given,
                                             struct muster_error *err)
{
    struct muster_command_options options = MUSTER_COMMAND_OPTIONS_INIT;
    struct mst_work_function function = {.version = version,
                                         .flags = (flags & ~(uint32_t)MUSTER_FUNCTION_CHILD) |
                                                  MST_FUNCTION_COMMAND,
                                         .place = MST_WORK_COMMAND};
    muster_status status = check(worker, name, version, flags, err);

    if (status == MUSTER_OK) {
        status = mst_lib_options(&options, sizeof(options), given, "MUSTER_COMMAND_OPTIONS_INIT",
                                 err, "register");
    }
    if (status != MUSTER_OK) {
        return status;
    }
    if (argv && !argv[0]) {
        return mst_lib_refuse(err, "register", "argv is empty");
    }
    if (options.stdout_bytes_max > MST_WORK_RESULT_MAX) {
        return mst_lib_refuse(err, "register",
                              "options.stdout_bytes_max is more than a message can carry, "
                              "16 MiB less 64 KiB");
    }
    function.stdout_max =
        options.stdout_bytes_max != 0 ? options.stdout_bytes_max : MST_WORK_RESULT_MAX;
    function.argv = argv ? copy_argv(argv) : NULL;
    function.name = !argv || function.argv ? strdup(name) : NULL;
    return add(worker, &function, err);
}

/* ---- serve, drain ---- */

static muster_status serve(muster_worker *worker, struct muster_error *err)
{
    muster_status status = enter(worker, err, "serve");

    if (status != MUSTER_OK) {
        return status;
    }
    if (mst_lib_thread.no_waiting) {
        return mst_lib_forbidden(err, "serve");
    }
    if (worker->served) {
        return mst_lib_refuse(err, "serve", "this worker has served already; open another one");
    }
    if (worker->function_count == 0) {
        return mst_lib_refuse(err, "serve", "no function is registered");
    }
    worker->served = true;
    return mst_work_serve(worker, err);
}

muster_status muster_worker_serve(muster_worker *worker, struct muster_error *err)
{
    muster_status status;

    mst_uncancelled_begin();
    status = serve(worker, err);
    mst_uncancelled_end();
    return status;
}

void muster_worker_drain(muster_worker *worker)
{
    if (worker) {
        mst_uncancelled_begin();
        atomic_store(&worker->drain, true);
        mst_system_event_ring(atomic_load(&worker->wake));
        mst_uncancelled_end();
    }
}
