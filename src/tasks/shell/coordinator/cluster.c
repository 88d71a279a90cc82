/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing a coordinator. cluster.h lists the other files. */
#define _GNU_SOURCE
#include "tasks/shell/coordinator/cluster.h"
#include "client/shell/uncancelled.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/monotonic.h"
#include "os/system.h"

/* ---- the memory ---- */

void mst_coord_hold(muster_cluster *cluster)
{
    (void)atomic_fetch_add(&cluster->holders, 1);
}

void mst_coord_let_go(muster_cluster *cluster)
{
    if (atomic_fetch_sub(&cluster->holders, 1) != 1) {
        return;
    }
    (void)pthread_cond_destroy(&cluster->nobody);
    (void)pthread_mutex_destroy(&cluster->lock);
    free(cluster);
}

static muster_cluster *make(muster_client *client, const struct mst_coord_settings *settings)
{
    muster_cluster *cluster = calloc(1, sizeof(*cluster));

    if (!cluster) {
        return NULL;
    }
    atomic_init(&cluster->holders, 1);
    cluster->pid = getpid();
    atomic_init(&cluster->client, client);
    cluster->settings = *settings;
    cluster->listener = (struct mst_cluster_listener){.unix_fd = -1, .tcp_fd = -1};
    cluster->epoll = -1;
    cluster->event = -1;
    cluster->ready = -1;
    mst_list_init(&cluster->waiters);
    mst_list_init(&cluster->peers);
    mst_table_init(&cluster->peers_by_id, &mst_system_mem);
    mst_list_init(&cluster->dirty);
    mst_list_init(&cluster->strangers);
    mst_list_init(&cluster->said);
    if (pthread_mutex_init(&cluster->lock, NULL) != 0) {
        free(cluster);
        return NULL;
    }
    mst_monotonic_cond_init(&cluster->nobody);
    return cluster;
}

/* ---- opening ---- */

/* TCP where other machines may have workers: the service is reached by TCP, there is a secret, or
 * the user declared that none is needed. */
static muster_status listen_up(muster_cluster *cluster, struct muster_error *err)
{
    muster_client *client = cluster->client;
    struct mst_cluster_listen how = {.reached_by = -1};
    muster_status status = mst_lib_secret_tls(client, MST_TLS_SERVICE, &cluster->tls, err);

    if (status != MUSTER_OK) {
        return status;
    }
    how.anywhere = cluster->tls || client->insecure;
    how.address = cluster->settings.listen[0] ? cluster->settings.listen : NULL;
    mst_lib_lock(client);
    how.reached_by = mst_driver_socket(client->driver);
    how.tcp = how.anywhere || how.address || mst_driver_speaks_tcp(client->driver);
    mst_lib_wait_shown(); /* for other processes that make or sweep sockets at this moment */
    status = mst_cluster_listener_open(&cluster->listener, &how, err);
    mst_lib_wait_over();
    mst_lib_unlock(client);
    return status;
}

static void name_term(muster_cluster *cluster)
{
    struct mst_coord_term *term = &cluster->term;
    struct mst_slice name = mst_slice_text(cluster->settings.name);

    (void)mst_cluster_key(term->key, sizeof(term->key), name);
    (void)mst_cluster_status_key(term->status_key, sizeof(term->status_key), name);
    (void)mst_cluster_dismissed_key(term->record_key, sizeof(term->record_key), name);
    mst_text_print(term->value, sizeof(term->value), "%s %s", cluster->listener.addresses,
                   cluster->client->host);
}

/* The client has one coordinator at most. */
static muster_status hang_in(muster_cluster *cluster, struct muster_error *err)
{
    muster_client *client = cluster->client;
    muster_status status;

    mst_lib_lock(client);
    status = mst_lib_status(client);
    if (status != MUSTER_OK) {
        status = mst_lib_fail_again(client, err, "cluster");
    } else if (mst_lib_hook_ctx(client, MST_USER_CLUSTER)) {
        status = mst_fail(err, MUSTER_EEXISTS, 0, "cluster: this client has a coordinator already");
    } else {
        mst_coord_hook_in(cluster);
    }
    mst_lib_unlock(client);
    return status;
}

static muster_status say_unclaimed(muster_cluster *cluster, muster_status status,
                                   struct muster_error *err)
{
    muster_client *client = cluster->client;

    if (mst_lib_status(client)) {
        return mst_lib_fail_again(client, err, "cluster");
    }
    if (status == MUSTER_ETIMEDOUT) {
        return mst_fail(err, status, 0, "cluster '%s': timed out; %s", cluster->settings.name,
                        cluster->term.claim.open || cluster->term.record.open
                            ? "the service does not answer"
                            : "another coordinator has the term: it ends with that process");
    }
    return mst_lib_fail(err, status, "cluster", NULL);
}

/* Client's lock held. */
static muster_status claim(muster_cluster *cluster, int64_t timeout_ms, struct muster_error *err)
{
    muster_client *client = cluster->client;
    uint64_t zero_ns = mst_client_lease_ns(mst_lib_machine(client));
    uint64_t deadline_ns = mst_lib_deadline_ns(timeout_ms, zero_ns);
    muster_status status = MUSTER_OK;

    mst_lib_keep(client);
    mst_coord_term_claim(cluster);
    if (!mst_lib_wait_interruptible(client, mst_coord_term_decided, cluster, deadline_ns)) {
        status = MUSTER_ETIMEDOUT;
    } else if (!cluster->term.decided) {
        status = client->interrupted ? MUSTER_EINTERRUPTED : MUSTER_ECANCELLED;
    } else {
        status = cluster->term.granted;
    }
    if (status != MUSTER_OK && !client->poisoned) {
        (void)say_unclaimed(cluster, status, err);
        mst_coord_term_leave(cluster);
        mst_coord_term_drop(cluster);
    }
    mst_lib_let_go(client);
    return client->poisoned ? MUSTER_EINTERNAL : status;
}

static muster_status begin(muster_cluster *cluster, struct muster_error *err)
{
    struct mst_cluster_config *config = &cluster->settings.config;
    muster_client *client = cluster->client;
    struct muster_view view = {0};
    struct mst_cluster *machine = NULL;
    muster_status status;

    muster_client_view(client, &view);
    /* All but this one; and it may be none of those that were started together. */
    config->workers_expected = view.size_of_job - (view.index < view.size_of_job);
    config->name = mst_slice_text(cluster->settings.name);
    config->term = cluster->term.number;
    config->dismissed = cluster->dismissed = cluster->term.dismissed;
    mst_system_random(&config->seed, 1);
    status = mst_cluster_new(&machine, mst_lib_now_ns(), config, &mst_system_mem);
    if (status != MUSTER_OK) {
        return mst_lib_fail(err, status, "cluster", NULL);
    }
    mst_coord_lock(cluster); /* the thread that drives the client may look */
    mst_cluster_publisher_init(&cluster->publisher, mst_lib_now_ns());
    cluster->machine = machine;
    mst_coord_unlock(cluster);
    status = mst_coord_loop_start(cluster, err);
    if (status != MUSTER_OK) {
        return status;
    }
    mst_lib_lock(client);
    status = mst_lib_status(client); /* the hook told it to no machine before there was one */
    if (status == MUSTER_OK) {
        mst_coord_term_watch(cluster);
        mst_lib_hurry(client);
    } else {
        status = mst_lib_fail_again(client, err, "cluster");
    }
    mst_lib_unlock(client);
    return status;
}

static muster_status start(muster_cluster *cluster, int64_t timeout_ms, struct muster_error *err)
{
    muster_client *client = cluster->client;
    muster_status status = listen_up(cluster, err);

    if (status != MUSTER_OK) {
        return status;
    }
    name_term(cluster);
    mst_lib_lock(client);
    status = claim(cluster, timeout_ms, err);
    mst_lib_unlock(client);
    return status == MUSTER_OK ? begin(cluster, err) : status;
}

static muster_status open_cluster(muster_cluster **out, muster_client *client,
                                  const struct muster_cluster_options *options, int64_t timeout_ms,
                                  struct muster_error *err)
{
    struct mst_coord_settings settings;
    muster_cluster *cluster;
    muster_status status = mst_coord_settings_read(&settings, options, err);

    if (status == MUSTER_OK) {
        status = mst_lib_enter(client, err, "cluster");
    }
    if (status == MUSTER_OK && mst_lib_thread.no_waiting) {
        status = mst_lib_forbidden(err, "cluster");
    }
    if (status != MUSTER_OK) {
        return status;
    }
    cluster = make(client, &settings);
    if (!cluster) {
        return mst_lib_fail(err, MUSTER_ENOMEM, "cluster", NULL);
    }
    status = hang_in(cluster, err);
    if (status != MUSTER_OK) {
        mst_coord_let_go(cluster);
        return status;
    }
    status = start(cluster, timeout_ms, err);
    if (status != MUSTER_OK) {
        muster_cluster_close(cluster);
        return status;
    }
    *out = cluster;
    return MUSTER_OK;
}

muster_status muster_cluster_open(muster_cluster **out, muster_client *client,
                                  const struct muster_cluster_options *options, int64_t timeout_ms,
                                  struct muster_error *err)
{
    muster_status status;

    if (!out) {
        return mst_lib_refuse(err, "cluster", "out is NULL");
    }
    *out = NULL;
    mst_uncancelled_begin();
    status = open_cluster(out, client, options, timeout_ms, err);
    mst_uncancelled_end();
    return status;
}

/* ---- closing ---- */

/* Ends what other threads do with it, and lets the workers know. */
static void turn_out(muster_cluster *cluster)
{
    mst_coord_lock(cluster);
    cluster->closing = true;
    if (mst_coord_machine(cluster)) {
        mst_cluster_close(mst_coord_machine(cluster), mst_lib_now_ns(), false);
        mst_coord_turn(cluster);
    }
    mst_coord_wake(cluster);
    while (cluster->visitors > 0) {
        (void)pthread_cond_wait(&cluster->nobody, &cluster->lock);
    }
    mst_coord_unlock(cluster);
}

static void leave_job(muster_cluster *cluster)
{
    muster_client *client = cluster->client;

    if (!client) {
        return;
    }
    mst_lib_lock(client);
    if (!client->poisoned) {
        mst_coord_term_leave(cluster);
    }
    if (!client->poisoned) {
        mst_coord_term_drop(cluster);
        mst_lib_hook(client, MST_USER_CLUSTER, NULL);
    }
    mst_lib_unlock(client);
}

static void close_cluster(muster_cluster *cluster)
{
    const muster_client *client;

    if (!cluster) {
        return;
    }
    if (cluster->pid != getpid()) {
        mst_cluster_listener_abandon(&cluster->listener);
        mst_coord_loop_abandon(cluster);
        return;
    }
    client = cluster->client;
    if (cluster->poisoned || (client && mst_lib_holds(client))) {
        return; /* a thread of ours may be stopped in the middle of it for good */
    }
    turn_out(cluster);
    if (cluster->thread_runs) {
        mst_coord_loop_farewell(cluster);
    }
    leave_job(cluster);
    if (cluster->poisoned) {
        return;
    }
    mst_coord_loop_stop(cluster);
    mst_cluster_listener_close(&cluster->listener);
    mst_tls_context_free(cluster->tls);
    mst_coord_lock(cluster);
    mst_cluster_free(mst_coord_machine(cluster));
    cluster->machine = NULL;
    cluster->client = NULL;
    if (cluster->ready >= 0) {
        (void)close(cluster->ready);
    }
    muster_failures_free(cluster->failures);
    cluster->failures = NULL;
    mst_coord_unlock(cluster);
    mst_coord_let_go(cluster);
}

void muster_cluster_close(muster_cluster *cluster)
{
    mst_uncancelled_begin();
    close_cluster(cluster);
    mst_uncancelled_end();
}
