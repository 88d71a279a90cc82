/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "launch/job.h"
#include "launch/nodes/launched.h"
#include "launch/programs.h"
#include "launch/say.h"
#include "muster/key.h"
#include "net/elsewhere.h"
#include "net/rendezvous.h"
#include "proto/line.h"

#define ANY_ADDRESS "0.0.0.0:0"
#define NODE_0_LIMIT_MS 10000 /* its service is its child */

/* ---- what the run is: written by node 0, read by the others ---- */

struct parameter {
    const char *name; /* of the key, and of the flag where there is one */
    const char *what; /* NULL: what this node was given does not count */
    size_t at;        /* of a uint32_t in the options */
};

#define AT(field) offsetof(struct mst_run_options, field)

static const struct parameter parameters[] = {
    {"nproc", "ranks per node (-n)", AT(nproc)},
    {"spares", "spares per node (--spares)", AT(spares)},
    {"nodes_min", "nodes at least (--nnodes)", AT(nodes_min)},
    {"nodes_max", "nodes (--nnodes)", AT(nodes_max)},
    {"size", "ranks (--size)", AT(size)},
    {"min_size", "ranks at least (--min-size)", AT(min_size)},
    {"max_size", "ranks at most (--max-size)", AT(max_size)},
    {"size_multiple", "as what a multiple of runs (--size-multiple)", AT(size_multiple)},
    {"max_restarts", NULL, AT(max_restarts)},
    {"restarts_given", NULL, AT(restarts_given)},
    {"replicas", NULL, AT(replicas)},
};

enum { PARAMETER_COUNT = sizeof parameters / sizeof parameters[0] };

static uint32_t *field_of(struct mst_run_options *options, const struct parameter *parameter)
{
    return (uint32_t *)(void *)((char *)options + parameter->at);
}

static const char *const grow_words[] = {"check", "fault", "off"};

static bool put_text(struct muster_batch *batch, const char *name, const char *text)
{
    char key[320];
    struct muster_slice value = {text, strlen(text)};

    (void)snprintf(key, sizeof key, MST_SESSION_KEYS "%s", name);
    return muster_batch_put(batch, key, value) == MUSTER_OK;
}

static bool put_number(struct muster_batch *batch, const char *name, int64_t number)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%" PRId64, number);
    return put_text(batch, name, text);
}

static bool put_avoided(struct muster_batch *batch, const char *list)
{
    bool ok = true;

    while (ok && list != NULL && *list != '\0') {
        size_t size = strcspn(list, ",");
        char name[300];

        if (size > 0 && size < sizeof name - 8) {
            (void)snprintf(name, sizeof name, "avoid/%.*s", (int)size, list);
            ok = put_text(batch, name, "1");
        }
        list += size + (list[size] == ',');
    }
    return ok;
}

static bool put_all(struct mst_run_job *job, struct muster_batch *batch)
{
    bool ok = put_text(batch, "master_addr", job->nodes.master_addr) &&
              put_number(batch, "master_port", job->nodes.master_port) &&
              put_text(batch, "grow", job->options->grow) &&
              put_number(batch, "join_wait", job->options->join_wait_ms) &&
              put_number(batch, "replace_wait", job->options->replace_wait_ms) &&
              put_number(batch, "history", (int64_t)job->options->history) &&
              (job->options->lease == NULL || put_text(batch, "lease", job->options->lease)) &&
              put_avoided(batch, job->options->avoid);

    for (size_t i = 0; i < PARAMETER_COUNT && ok; i++) {
        ok = put_number(batch, parameters[i].name, *field_of(&job->own, &parameters[i]));
    }
    return ok;
}

/* ---- the line to type ---- */

static void make_line(const struct mst_run_job *job, const char *addresses, struct mst_words *line)
{
    const struct mst_run_options *options = job->options;
    char number[16];

    line->size = 0;
    mst_words_add(line, "--join");
    mst_words_add(line, addresses);
    if (options->secret_fd >= 0) {
        (void)snprintf(number, sizeof number, "%d", options->secret_fd);
        mst_words_add(line, "--secret-fd");
        mst_words_add(line, number);
    } else if (job->nodes.secret[0] != '\0') {
        mst_words_add(line, "--secret-file");
        mst_words_add(line, job->nodes.secret);
    } else {
        mst_words_add(line, "--insecure");
    }
    mst_words_add(line, "-j");
    mst_words_add(line, job->name);
    if (strcmp(options->fronts, MST_FRONTS_DEFAULT) != 0) {
        mst_words_add(line, "--front");
        mst_words_add(line, options->fronts);
    }
    mst_programs_words(options, line);
}

static void say_what_to_type(const struct mst_run_job *job)
{
    const struct mst_run_options *options = job->options;
    struct mst_words line;

    make_line(job, job->service.listen, &line);
    if (options->nodes_min == options->nodes_max) {
        mst_say("%" PRIu32 " nodes: on %s %" PRIu32 ": muster run%s", options->nodes_max,
                options->nodes_max == 2 ? "the other" : "each of the other", options->nodes_max - 1,
                line.text);
    } else {
        mst_say("%" PRIu32 " to %" PRIu32 " nodes: on each of the others: muster run%s",
                options->nodes_min, options->nodes_max, line.text);
    }
}

void mst_nodes_say_further(struct mst_run_job *job, const char *addresses)
{
    struct mst_words line;

    if (job->options->hosts == NULL && !job->options->launched) {
        make_line(job, addresses, &line);
        mst_say("the service of job '%s' has %" PRIu32
                " replicas now; on a further node: muster run%s",
                job->name, job->options->replicas, line.text);
    }
}

int mst_nodes_publish(struct mst_run_job *job)
{
    struct muster_batch *batch;
    struct muster_error err;
    muster_status status;

    if (job->options->nodes_max == 1) {
        return 0;
    }
    if (muster_batch_new(&batch, NULL) != MUSTER_OK) {
        return mst_no_memory();
    }
    if (!put_all(job, batch)) {
        muster_batch_free(batch);
        return mst_no_memory();
    }
    status = muster_batch_apply(job->session.client, batch, NODE_0_LIMIT_MS, &err);
    muster_batch_free(batch);
    if (status != MUSTER_OK) {
        return mst_refuse("%s", err.text);
    }
    if (job->options->hosts != NULL) {
        return mst_hosts_start(job);
    }
    if (!job->options->launched) {
        say_what_to_type(job);
    }
    return 0;
}

/* ---- reading it ---- */

/* Somebody else wrote it, or a muster that says it otherwise. */
static muster_status refuse_value(const struct mst_run_job *job, const char *name,
                                  const char *value, struct muster_error *err)
{
    return mst_fail(err, MUSTER_EINVAL, 0,
                    "the run at %s has the key " MST_SESSION_KEYS
                    "%.*s = '%.*s', which no node writes: start the run again, and all its nodes "
                    "with one version of muster",
                    job->options->join, MST_TEXT_ARGS(name), MST_TEXT_ARGS(value));
}

static bool read_number(const char *value, uint32_t most, uint32_t *out)
{
    return mst_run_number_read(mst_slice_text(value), most, out);
}

static muster_status take_number(struct mst_run_job *job, const struct parameter *parameter,
                                 const char *value, struct muster_error *err)
{
    uint32_t *mine = field_of(&job->own, parameter);
    uint32_t theirs;

    if (!read_number(value, parameter->what != NULL ? MST_RUN_SIZE_MAX : UINT32_MAX, &theirs)) {
        return refuse_value(job, parameter->name, value, err);
    }
    if (parameter->what != NULL && *mine != 0 && *mine != theirs) {
        return mst_fail(err, MUSTER_EINVAL, 0,
                        "this node was told %u %s, but the run at %s has %u: leave it out, or say "
                        "the same",
                        *mine, parameter->what, job->options->join, theirs);
    }
    *mine = theirs;
    return MUSTER_OK;
}

/* Not what the run is, but how far it has come. */
static muster_status take_word(struct mst_run_job *job, const char *name, const char *value,
                               struct muster_error *err)
{
    struct mst_run_word word;

    if (!mst_run_key_read(mst_slice_text(name), mst_slice_text(value), &word)) {
        return MUSTER_OK; /* as those do that are in the run */
    }
    if (word.key == MST_RUN_KEY_LIFE) {
        mst_shared_lock(&job->shared);
        mst_group_heard(&job->group, word.number, word.text);
        mst_shared_unlock(&job->shared);
    } else if (word.key == MST_RUN_KEY_RESTARTS) {
        mst_shared_lock(&job->shared);
        job->nodes.restarts_told = word.number;
        mst_shared_unlock(&job->shared);
    } else if (word.key == MST_RUN_KEY_CAUSE) {
        return mst_fail(err, MUSTER_EINVAL, 0, "job '%s' has ended: %.*s", job->name,
                        MST_SLICE_ARGS(word.text));
    }
    return MUSTER_OK;
}

/* A node that the first one was told to avoid. */
static muster_status take_avoided(const struct mst_run_job *job, const char *host,
                                  struct muster_error *err)
{
    return mst_rendezvous_names(host, job->host)
               ? mst_fail(err, MUSTER_EINVAL, 0,
                          "this node is kept out of job '%s': node 0 was told to avoid %s",
                          job->name, host)
               : MUSTER_OK;
}

static void take_grow(struct mst_run_job *job, const char *value)
{
    for (size_t i = 0; i < sizeof grow_words / sizeof grow_words[0]; i++) {
        job->own.grow = strcmp(value, grow_words[i]) == 0 ? grow_words[i] : job->own.grow;
    }
}

static muster_status take(struct mst_run_job *job, const char *name, const char *value,
                          struct muster_error *err)
{
    uint32_t number;

    for (size_t i = 0; i < PARAMETER_COUNT; i++) {
        if (strcmp(name, parameters[i].name) == 0) {
            return take_number(job, &parameters[i], value, err);
        }
    }
    if (strcmp(name, "master_addr") == 0) {
        mst_text_print(job->nodes.master_addr, sizeof job->nodes.master_addr, "%s", value);
    } else if (strcmp(name, "master_port") == 0) {
        if (!read_number(value, UINT16_MAX, &number)) {
            return refuse_value(job, name, value, err);
        }
        job->nodes.master_port = (uint16_t)number;
        job->nodes.master_given = true;
    } else if (strcmp(name, "grow") == 0) {
        take_grow(job, value);
    } else if (strcmp(name, "join_wait") == 0) {
        if (!mst_line_signed(mst_slice_text(value), &job->own.join_wait_ms)) {
            return refuse_value(job, name, value, err);
        }
    } else if (strcmp(name, "replace_wait") == 0) {
        if (!mst_line_signed(mst_slice_text(value), &job->own.replace_wait_ms)) {
            return refuse_value(job, name, value, err);
        }
    } else if (strcmp(name, "lease") == 0) {
        mst_text_print(job->nodes.lease, sizeof job->nodes.lease, "%s", value);
        job->own.lease = job->nodes.lease;
    } else if (strcmp(name, "history") == 0) {
        if (!mst_slice_number(mst_slice_text(value), INT64_MAX, &job->own.history)) {
            return refuse_value(job, name, value, err);
        }
    } else if (strncmp(name, "avoid/", 6) == 0) {
        return take_avoided(job, name + 6, err);
    } else {
        return take_word(job, name, value, err);
    }
    return MUSTER_OK;
}

/* As `muster run` checks what was typed: tables are made for so many. */
static muster_status check_all(const struct mst_run_job *job, struct muster_error *err)
{
    const struct mst_run_options *own = &job->own;
    uint64_t places = (uint64_t)own->nodes_max * (own->nproc + own->spares);

    if (own->nproc > 0 && own->size > 0 && places > 0 && places <= MST_RUN_SIZE_MAX) {
        return MUSTER_OK;
    }
    return mst_fail(err, MUSTER_EINVAL, 0,
                    "the run at %s says that it has %u ranks, on %u nodes with %u processes each, "
                    "which no node writes: start the run again",
                    job->options->join, own->size, own->nodes_max, own->nproc + own->spares);
}

static muster_status take_all(struct mst_run_job *job, muster_client *client, int64_t timeout_ms,
                              struct muster_error *err)
{
    static const char *const awaited[] = {MST_SESSION_KEYS "nproc"};
    muster_keys *keys = NULL;
    muster_status status = muster_key_wait(client, awaited, 1, NULL, timeout_ms, err);

    if (status == MUSTER_OK) {
        status = muster_key_list(client, MST_SESSION_KEYS, NULL, timeout_ms, &keys, err);
    }
    for (size_t i = 0; i < muster_keys_count(keys) && status == MUSTER_OK; i++) {
        struct muster_slice value = muster_keys_value(keys, i);
        char text[1024];

        (void)snprintf(text, sizeof text, "%.*s", (int)value.size, (const char *)value.data);
        status = take(job, muster_keys_name(keys, i) + sizeof MST_SESSION_KEYS - 1, text, err);
    }
    muster_keys_free(keys);
    return status == MUSTER_OK ? check_all(job, err) : status;
}

muster_status mst_nodes_ask(struct mst_run_job *job, int64_t timeout_ms, struct muster_error *err)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    muster_client *client;
    muster_status status;

    options.role = MUSTER_ROLE_OBSERVER;
    status = mst_session_client(&client, job, timeout_ms, &options, err);
    if (status == MUSTER_OK) {
        status = take_all(job, client, timeout_ms, err);
        muster_client_close(client);
    }
    return status;
}

/* ---- entering ---- */

static int enter_first(struct mst_run_job *job)
{
    struct mst_nodes *nodes = &job->nodes;
    const char *listen = job->options->listen;
    char host[256];
    uint16_t port;

    nodes->first = true;
    (void)snprintf(nodes->master_host, sizeof nodes->master_host, "127.0.0.1");
    (void)snprintf(nodes->master_addr, sizeof nodes->master_addr, "127.0.0.1");
    if (job->options->nodes_max == 1) {
        return 0;
    }
    listen = listen != NULL ? listen : ANY_ADDRESS;
    if (!mst_rendezvous_split(listen, host, sizeof host, &port)) {
        return mst_refuse("--listen %s: HOST:PORT or [::1]:PORT is expected", listen);
    }
    /* Chosen here, so that a service that is started again is where the others look for it. */
    port = port != 0 ? port : mst_rendezvous_free_port(host);
    if (port == 0) {
        return mst_refuse("--listen %s: '%s' is no address of this machine", listen, host);
    }
    mst_rendezvous_join(host, port, job->service.bound, sizeof job->service.bound);
    (void)mst_rendezvous_reach(host, nodes->master_addr, sizeof nodes->master_addr);
    mst_rendezvous_join(nodes->master_addr, port, job->service.listen, sizeof job->service.listen);
    (void)snprintf(nodes->master_host, sizeof nodes->master_host, "%s", host);
    nodes->master_port = mst_rendezvous_free_port(host);
    nodes->master_given = true;
    return mst_nodes_credentials(&job->nodes, job->options, job->name);
}

/* The service may be at each of the addresses. */
static int check_avoided(const struct mst_run_options *options)
{
    struct mst_slice rest = mst_slice_text(options->join);

    while (rest.size > 0) {
        struct mst_slice one = mst_slice_cut(&rest, ',');
        char address[MST_ADDRESS_TEXT], host[256];
        uint16_t port;

        (void)snprintf(address, sizeof address, "%.*s", MST_SLICE_ARGS(one));
        if (mst_rendezvous_split(address, host, sizeof host, &port) &&
            mst_rendezvous_listed(options->avoid, host)) {
            return mst_refuse(
                "--avoid %s: the service of the run would be on %s, which is node 0; let it begin "
                "on another",
                options->avoid, host);
        }
    }
    return 0;
}

/* Errors that retrying cannot fix. */
static int enter_other(struct mst_run_job *job)
{
    struct mst_nodes *nodes = &job->nodes;
    struct muster_error err;
    int code = check_avoided(job->options);

    if (code != 0) {
        return code;
    }
    (void)snprintf(nodes->addr, sizeof nodes->addr, "%s", job->options->join);
    if (!mst_launched_await_secret(job->options)) {
        return MST_EXIT_LAUNCHER;
    }
    code = mst_nodes_credentials(&job->nodes, job->options, job->name);
    if (code != 0) {
        return code;
    }
    if (mst_nodes_ask(job, job->options->service_wait_ms, &err) != MUSTER_OK) {
        return mst_refuse("%s", err.text);
    }
    return 0;
}

int mst_nodes_enter(struct mst_run_job *job)
{
    if (mst_rendezvous_names(job->options->avoid, job->host)) {
        return mst_refuse("this node (%s) is kept out of the run by --avoid", job->host);
    }
    return job->options->join != NULL ? enter_other(job) : enter_first(job);
}

/* ---- joining ---- */

/* Aside, and not in the run's own: the loop looks at that one meanwhile. */
static muster_status open_session(struct mst_run_job *job, int64_t index, int64_t timeout_ms,
                                  struct muster_error *err)
{
    uint32_t number = 0;
    muster_status status =
        mst_session_open(&job->nodes.work_session, job, index, timeout_ms, &number, err);

    if (status != MUSTER_OK) {
        return status;
    }
    if (number >= job->options->nodes_max) {
        mst_session_close(&job->nodes.work_session);
        return mst_fail(err, MUSTER_EINVAL, 0,
                        "job '%s' has its %u nodes already: this one is not needed", job->name,
                        job->options->nodes_max);
    }
    job->nodes.number = number;
    return MUSTER_OK;
}

/* It is one more process, and all nodes together may start so many only. */
static muster_status count_return(struct mst_run_job *job, int64_t timeout_ms,
                                  struct muster_error *err)
{
    int64_t sum = 0;
    muster_status status =
        muster_key_add(job->nodes.work_session.client, MST_SESSION_KEYS "restarts", 1, NULL,
                       timeout_ms, &sum, err);

    if (status == MUSTER_OK && sum > job->options->max_restarts) {
        status = mst_fail(err, MUSTER_EINVAL, 0,
                          "this node is not started again: %u of %u restarts are used",
                          job->options->max_restarts, job->options->max_restarts);
    }
    if (status != MUSTER_OK) {
        mst_session_close(&job->nodes.work_session);
    }
    return status;
}

static void on_work(uv_work_t *work)
{
    struct mst_run_job *job = work->data;
    struct mst_nodes *nodes = &job->nodes;

    nodes->work_status = MUSTER_OK;
    if (nodes->rejoins) {
        nodes->work_status = mst_nodes_ask(job, nodes->work_timeout_ms, &nodes->work_error);
    }
    if (nodes->work_status == MUSTER_OK) {
        nodes->work_status =
            open_session(job, nodes->work_index, nodes->work_timeout_ms, &nodes->work_error);
    }
    if (nodes->work_status == MUSTER_OK && nodes->rejoins) {
        nodes->work_status = count_return(job, nodes->work_timeout_ms, &nodes->work_error);
    }
}

void mst_nodes_be_found(struct mst_run_job *job)
{
    struct mst_nodes *nodes = &job->nodes;
    struct mst_elsewhere where = {.insecure = job->options->insecure};
    struct muster_error err;

    if (nodes->first && !mst_replicas_wanted(job)) {
        return;
    }
    mst_text_print(where.addr, sizeof where.addr, "%s", nodes->addr);
    if (nodes->secret[0] != '\0' && realpath(nodes->secret, where.secret) == NULL) {
        where.secret[0] = '\0';
    }
    if (mst_elsewhere_keep(job->name, &where, &nodes->elsewhere, &err) != MUSTER_OK) {
        mst_say("%s; commands on this machine need --addr %s", err.text, nodes->addr);
    }
}

static void on_worked(uv_work_t *work, int ignored)
{
    struct mst_run_job *job = work->data;
    struct mst_nodes *nodes = &job->nodes;

    (void)ignored;
    nodes->joining = false;
    if (nodes->work_status != MUSTER_OK) {
        mst_say("%s", nodes->work_error.text);
        job->end.launch_code = MST_EXIT_LAUNCHER;
        if (nodes->rejoins) {
            nodes->alone = "it was given up, and could not come back";
            job->end.launch_code = 1;
        }
        mst_ending_begin(job, MST_ENDS_ALONE, SIGTERM);
    } else {
        job->session = nodes->work_session;
        mst_nodes_begin(job);
        nodes->rejoins = false;
        mst_nodes_be_found(job);
        mst_say("this is node %" PRIu32 " of job '%s', with #%" PRIu32 " to #%" PRIu32,
                nodes->number, job->name, job->places.list[0].index,
                job->places.list[job->places.count - 1].index);
        mst_group_enter(job);
    }
    mst_ending_look(job);
}

void mst_nodes_join(struct mst_run_job *job, int64_t index, int64_t timeout_ms)
{
    struct mst_nodes *nodes = &job->nodes;

    nodes->joining = true;
    nodes->work_index = index;
    nodes->work_timeout_ms = timeout_ms;
    if (uv_queue_work(&job->loop, &nodes->work, on_work, on_worked) != 0) {
        nodes->joining = false;
        job->end.launch_code = mst_no_memory();
        mst_ending_begin(job, MST_ENDS_ALONE, SIGTERM);
    }
}
