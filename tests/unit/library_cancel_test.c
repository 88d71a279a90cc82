/* SPDX-License-Identifier: Apache-2.0 */
/* No function of the library is a cancellation point. Each is called by a thread that has been
 * cancelled before, so that the first cancellation point in it would end the thread there; the list
 * of the exported functions says whether one is missing here.
 *
 * behaviour: library / Threads and time */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "library_stage.h"

enum { SHORT_MS = 20, NAME_ROOM = 64 };

struct scene {
    muster_status failed;    /* of what the rest of a row needs; OK: nothing */
    muster_client *client;   /* a rank, alone in its job */
    muster_client *other;    /* a member that may leave */
    muster_client *worker_s; /* a worker's */
};

struct row {
    const char *names; /* the exported functions that it calls, with blanks between them */
    void (*run)(struct scene *scene);
};

static void ignore(muster_status status)
{
    (void)status;
}

/* What a row can do nothing without. */
static void needs(struct scene *scene, muster_status status)
{
    if (scene->failed == MUSTER_OK) {
        scene->failed = status;
    }
}

static void end(muster_call *call)
{
    if (call) {
        ignore(muster_call_wait(call, SHORT_MS, NULL));
    }
    muster_call_free(call);
}

/* ---- the rows ---- */

static struct muster_client_options beside(const muster_client *client, enum muster_role role)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;

    options.addr = client->addr;
    options.job = client->job;
    options.role = role;
    options.index = MUSTER_INDEX_ANY;
    return options;
}

static void run_client(struct scene *scene)
{
    struct muster_client_options options = beside(scene->client, MUSTER_ROLE_OBSERVER);
    struct muster_view view;
    muster_client *client;
    int fd;

    muster_client_view(scene->client, &view);
    ignore(muster_client_fd(scene->client, &fd, NULL));
    muster_client_dispatch(scene->client);
    needs(scene, muster_client_open(&client, &options, LIMIT_MS, NULL));
    muster_client_close(client);
}

static void run_writes(struct scene *scene)
{
    muster_client *client = scene->client;
    struct muster_slice value = bytes_of("x");

    ignore(muster_key_insert(client, "a", value, NULL, LIMIT_MS, NULL, NULL));
    needs(scene, muster_key_put(client, "a", value, NULL, LIMIT_MS, NULL, NULL));
    ignore(muster_key_cas(client, "a", 1, value, NULL, LIMIT_MS, NULL, NULL));
    ignore(muster_key_add(client, "b", 1, NULL, LIMIT_MS, NULL, NULL));
    ignore(muster_key_append(client, "a", value, NULL, LIMIT_MS, NULL, NULL));
    ignore(muster_key_delete(client, "a", NULL, LIMIT_MS, NULL));
    ignore(muster_key_delete_prefix(client, "b", NULL, LIMIT_MS, NULL, NULL));
}

static void run_writes_started(struct scene *scene)
{
    muster_client *client = scene->client;
    struct muster_slice value = bytes_of("x");
    muster_call *calls[7] = {NULL};

    ignore(muster_key_insert_start(client, "a", value, NULL, LIMIT_MS, NULL, &calls[0], NULL));
    ignore(muster_key_put_start(client, "a", value, NULL, LIMIT_MS, NULL, &calls[1], NULL));
    ignore(muster_key_cas_start(client, "a", 1, value, NULL, LIMIT_MS, NULL, &calls[2], NULL));
    ignore(muster_key_add_start(client, "b", 1, NULL, LIMIT_MS, NULL, &calls[3], NULL));
    ignore(muster_key_append_start(client, "a", value, NULL, LIMIT_MS, NULL, &calls[4], NULL));
    ignore(muster_key_delete_start(client, "a", NULL, LIMIT_MS, &calls[5], NULL));
    ignore(muster_key_delete_prefix_start(client, "b", NULL, LIMIT_MS, NULL, &calls[6], NULL));
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        end(calls[i]);
    }
}

static void run_reads(struct scene *scene)
{
    static const char *const names[] = {"never", "ever"};
    muster_client *client = scene->client;
    muster_value *value = NULL;
    muster_keys *keys = NULL;

    ignore(muster_key_get(client, "never", NULL, SHORT_MS, &value, NULL));
    muster_value_free(value);
    ignore(muster_key_list(client, "", NULL, LIMIT_MS, &keys, NULL));
    muster_keys_free(keys);
    ignore(muster_key_wait(client, names, 2, NULL, SHORT_MS, NULL));
}

static void run_reads_started(struct scene *scene)
{
    static const char *const names[] = {"never", "ever"};
    muster_client *client = scene->client;
    muster_value *value = NULL;
    muster_keys *keys = NULL;
    muster_call *calls[3] = {NULL};

    ignore(muster_key_get_start(client, "never", NULL, SHORT_MS, &value, &calls[0], NULL));
    ignore(muster_key_list_start(client, "", NULL, LIMIT_MS, &keys, &calls[1], NULL));
    ignore(muster_key_wait_start(client, names, 2, NULL, SHORT_MS, &calls[2], NULL));
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        end(calls[i]);
    }
    muster_value_free(value);
    muster_keys_free(keys);
}

static void run_batch(struct scene *scene)
{
    muster_batch *batch = NULL;
    muster_call *call = NULL;

    needs(scene, muster_batch_new(&batch, NULL));
    needs(scene, muster_batch_put(batch, "a", bytes_of("x")));
    needs(scene, muster_batch_apply(scene->client, batch, LIMIT_MS, NULL));
    needs(scene, muster_batch_apply_start(scene->client, batch, LIMIT_MS, &call, NULL));
    end(call);
    muster_batch_free(batch);
}

static void run_rounds(struct scene *scene)
{
    muster_client *client = scene->client;
    struct muster_round_options options = MUSTER_ROUND_OPTIONS_INIT;
    struct muster_slice mine = bytes_of("x");
    muster_round_result *result = NULL;
    muster_members *members = NULL;
    muster_rounds *rounds = NULL;
    muster_call *call = NULL;

    options.reduce = MUSTER_REDUCE_GATHER;
    needs(scene, muster_barrier_wait(client, "b", LIMIT_MS, NULL));
    ignore(muster_barrier_wait_start(client, "b", LIMIT_MS, &call, NULL));
    end(call);
    needs(scene, muster_round_join(client, "r", &options, mine, LIMIT_MS, &result, NULL));
    muster_round_free(result);
    result = NULL;
    needs(scene,
          muster_round_join_start(client, "r", &options, mine, LIMIT_MS, &result, &call, NULL));
    end(call);
    muster_round_free(result);
    result = NULL;
    needs(scene, muster_round_broadcast(client, "s", 0, mine, LIMIT_MS, &result, NULL));
    muster_round_free(result);
    result = NULL;
    needs(scene,
          muster_round_broadcast_start(client, "s", 0, mine, LIMIT_MS, &result, &call, NULL));
    end(call);
    muster_round_free(result);
    ignore(muster_round_members(client, "r", 0, LIMIT_MS, &members, NULL));
    muster_members_free(members);
    members = NULL;
    ignore(muster_round_members_start(client, "r", 0, LIMIT_MS, &members, &call, NULL));
    end(call);
    muster_members_free(members);
    ignore(muster_round_list(client, LIMIT_MS, &rounds, NULL));
    muster_rounds_free(rounds);
    rounds = NULL;
    ignore(muster_round_list_start(client, LIMIT_MS, &rounds, &call, NULL));
    end(call);
    muster_rounds_free(rounds);
}

static void run_members(struct scene *scene)
{
    muster_members *members = NULL;
    muster_call *call = NULL;

    ignore(muster_member_list(scene->other, LIMIT_MS, &members, NULL));
    muster_members_free(members);
    members = NULL;
    ignore(muster_member_list_start(scene->other, LIMIT_MS, &members, &call, NULL));
    end(call);
    muster_members_free(members);
    ignore(muster_member_fault(scene->other, 1, "x", LIMIT_MS, NULL));
    ignore(muster_member_fault_start(scene->other, 1, "x", LIMIT_MS, &call, NULL));
    end(call);
    ignore(muster_member_leave(scene->other, LIMIT_MS, NULL));
    ignore(muster_member_leave_start(scene->other, LIMIT_MS, &call, NULL));
    end(call);
}

static void run_watch(struct scene *scene)
{
    struct muster_watch_options options = MUSTER_WATCH_OPTIONS_INIT;
    struct muster_event event;
    muster_watch *watch = NULL;
    muster_call *call = NULL;

    options.prefix = "never";
    needs(scene, muster_watch_open(&watch, scene->client, &options, NULL));
    ignore(muster_watch_next(watch, SHORT_MS, &event, NULL));
    ignore(muster_watch_next_start(watch, SHORT_MS, &event, &call, NULL));
    end(call);
    muster_watch_close(watch);
}

static void on_done(void *ctx, muster_call *call)
{
    (void)ctx;
    muster_call_free(call);
}

static void run_calls(struct scene *scene)
{
    muster_value *value = NULL;
    muster_call *call = NULL;

    ignore(muster_key_get_start(scene->client, "never", NULL, -1, &value, &call, NULL));
    ignore(muster_call_wait(call, SHORT_MS, NULL));
    ignore(muster_call_wait_signal(call, SHORT_MS, NULL));
    muster_call_on_done(call, on_done, NULL);
    muster_call_cancel(call);
    muster_client_dispatch(scene->client);
    ignore(muster_key_get_start(scene->client, "never", NULL, -1, &value, &call, NULL));
    muster_call_free(call);
}

static void run_heartbeat(struct scene *scene)
{
    muster_heartbeat *heartbeat = NULL;

    needs(scene, muster_heartbeat_start(&heartbeat, scene->client, NULL, NULL));
    muster_heartbeat_stop(heartbeat);
}

static void run_preempt(struct scene *scene)
{
    struct muster_notice notice;
    muster_preempt *preempt = NULL;

    needs(scene, muster_preempt_open(&preempt, scene->client, NULL, NULL));
    (void)muster_preempt_sources(preempt);
    ignore(muster_preempt_hold_begin(preempt, LIMIT_MS));
    ignore(muster_preempt_hold_end(preempt));
    needs(scene, muster_preempt_announce(scene->client, MUSTER_INDEX_ALL, 60000, "x", NULL));
    (void)muster_preempt_notice(preempt, &notice);
    (void)muster_preempt_reached(preempt, 1);
    ignore(muster_preempt_saved(preempt, 1, SHORT_MS, NULL));
    ignore(muster_preempt_wait_exit(preempt, SHORT_MS, NULL));
    ignore(muster_preempt_withdraw(scene->client, MUSTER_INDEX_ALL, NULL));
    muster_preempt_close(preempt);
}

static muster_status function(muster_restart *restart, void *arg)
{
    struct muster_fault fault;
    struct muster_view view;
    int *attempt = arg;

    muster_restart_view(restart, &view);
    ignore(muster_restart_check(restart));
    (void)muster_restart_interrupted(restart);
    muster_restart_alive(restart);
    assert_int_equal(muster_restart_hard_timeout_ms(restart), 90000);
    ignore(muster_restart_ping(restart));
    ignore(muster_restart_step(restart, 1));
    ignore(muster_restart_atomic_begin(restart));
    ignore(muster_restart_atomic_end(restart));
    ignore(muster_restart_section_begin(restart, "s", LIMIT_MS));
    ignore(muster_restart_section_end(restart));
    (void)muster_restart_fault_count(restart);
    (void)muster_restart_fault(restart, 0, &fault);
    switch ((*attempt)++) {
    case 0:
        return muster_restart_fail(restart, 1, "x");
    case 1:
        return muster_restart_again(restart);
    case 2:
        return MUSTER_OK;
    case 3:
        return muster_restart_lost(restart, 5, 0);
    case 4:
        return muster_restart_abort(restart, 1, "x");
    default:
        return muster_restart_leave(restart);
    }
}

static void run_restart(struct scene *scene)
{
    int attempt = 0;

    needs(scene, muster_restart_run(scene->client, NULL, function, &attempt, NULL));
    ignore(muster_restart_run(scene->client, NULL, function, &attempt, NULL));
    ignore(muster_restart_run(scene->client, NULL, function, &attempt, NULL));
}

static void run_cluster(struct scene *scene)
{
    const struct muster_part part = {.data = "x", .size = 1};
    const struct muster_closure_call calls[] = {{.function = "f"}};
    struct muster_cluster_counts counts = MUSTER_CLUSTER_COUNTS_INIT;
    struct muster_cluster_worker worker = MUSTER_CLUSTER_WORKER_INIT;
    struct muster_closure_progress progress;
    struct muster_failure failure;
    const struct muster_part *parts;
    muster_closure *closures[2] = {NULL, NULL};
    muster_per_worker *value = NULL;
    muster_dataset *dataset = NULL;
    muster_cluster *cluster = NULL;
    muster_status each[2];
    size_t count;
    bool done;

    needs(scene, muster_cluster_open(&cluster, scene->client, NULL, LIMIT_MS, NULL));
    (void)muster_cluster_fd(cluster);
    needs(scene,
          muster_cluster_schedule(cluster, "f", &part, 1, NULL, LIMIT_MS, &closures[0], NULL));
    ignore(muster_cluster_schedule_many(cluster, calls, 1, LIMIT_MS, &closures[1], &count, NULL));
    ignore(muster_closure_wait(closures[0], SHORT_MS, NULL));
    ignore(muster_closure_fetch(closures[0], SHORT_MS, &parts, &count, NULL));
    ignore(muster_closure_fetch_many(closures, 2, SHORT_MS, each, NULL));
    ignore(muster_closure_fetch_any(closures, 2, SHORT_MS, &count, NULL));
    muster_closure_look(closures[0], &progress);
    (void)muster_closure_number(closures[0]);
    (void)muster_closure_failure(closures[0], &failure);
    needs(scene, muster_cluster_per_worker(cluster, "v", &part, 1, NULL, &value, NULL));
    ignore(muster_per_worker_fetch(value, 0, SHORT_MS, &parts, &count, NULL));
    muster_per_worker_drop(value);
    needs(scene, muster_cluster_dataset(cluster, "v", &part, 1, NULL, &dataset, NULL));
    value = NULL;
    needs(scene, muster_dataset_iterate(dataset, &value, NULL));
    muster_per_worker_drop(value);
    muster_dataset_drop(dataset);
    ignore(muster_cluster_state_server(cluster, "s", NULL));
    muster_cluster_look(cluster, &counts);
    (void)muster_cluster_look_worker(cluster, 0, &worker);
    ignore(muster_cluster_drain_worker(cluster, 0, NULL));
    ignore(muster_cluster_done(cluster, &done, NULL));
    ignore(muster_cluster_join(cluster, SHORT_MS, NULL));
    muster_cluster_cancel_group(cluster, 1);
    muster_closure_cancel(closures[0]);
    muster_cluster_cancel_all(cluster);
    ignore(muster_cluster_drain(cluster, SHORT_MS, NULL));
    ignore(muster_cluster_dismiss(cluster, SHORT_MS, NULL));
    (void)muster_cluster_dismissed(cluster);
    muster_failures_free(muster_cluster_failures(cluster));
    muster_closure_release(closures[0]);
    muster_closure_release(closures[1]);
    muster_cluster_close(cluster);
}

static muster_status task(muster_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return MUSTER_OK;
}

static void run_worker(struct scene *scene)
{
    static const char *const argv[] = {"true", NULL};
    muster_worker *worker = NULL;

    needs(scene, muster_worker_open(&worker, scene->worker_s, NULL, NULL));
    needs(scene, muster_worker_register(worker, "f", 1, 0, task, NULL, NULL));
    ignore(muster_worker_register_command(worker, "c", 1, 0, argv, NULL, NULL));
    muster_worker_drain(worker);
    needs(scene, muster_worker_serve(worker, NULL));
    muster_worker_close(worker);
}

static const struct row rows[] = {
    {"client_open client_close client_view client_fd client_dispatch", run_client},
    {"key_insert key_put key_cas key_add key_append key_delete key_delete_prefix", run_writes},
    {"key_insert_start key_put_start key_cas_start key_add_start key_append_start key_delete_start "
     "key_delete_prefix_start",
     run_writes_started},
    {"key_get key_list key_wait", run_reads},
    {"key_get_start key_list_start key_wait_start", run_reads_started},
    {"batch_apply batch_apply_start", run_batch},
    {"barrier_wait barrier_wait_start round_join round_join_start round_broadcast "
     "round_broadcast_start round_members "
     "round_members_start round_list round_list_start",
     run_rounds},
    {"member_list member_list_start member_fault member_fault_start member_leave "
     "member_leave_start",
     run_members},
    {"watch_open watch_next watch_next_start watch_close", run_watch},
    {"call_wait call_wait_signal call_cancel call_free call_on_done", run_calls},
    {"heartbeat_start heartbeat_stop", run_heartbeat},
    {"preempt_open preempt_sources preempt_hold_begin preempt_hold_end preempt_announce "
     "preempt_notice preempt_reached preempt_saved preempt_wait_exit preempt_withdraw "
     "preempt_close",
     run_preempt},
    {"cluster_open cluster_fd cluster_schedule cluster_schedule_many closure_wait closure_fetch "
     "closure_fetch_many closure_fetch_any closure_look closure_number closure_failure "
     "cluster_per_worker per_worker_fetch per_worker_drop cluster_dataset dataset_iterate "
     "dataset_drop cluster_state_server cluster_look cluster_look_worker cluster_drain_worker "
     "cluster_done cluster_join cluster_cancel_group closure_cancel cluster_cancel_all "
     "cluster_drain cluster_dismiss cluster_dismissed cluster_failures failures_free "
     "closure_release cluster_close",
     run_cluster},
    {"worker_open worker_register worker_register_command worker_drain worker_serve worker_close",
     run_worker},
    {"restart_run restart_view restart_check restart_interrupted restart_alive "
     "restart_hard_timeout_ms restart_ping "
     "restart_step "
     "restart_fail restart_again "
     "restart_abort restart_leave restart_lost restart_atomic_begin restart_atomic_end "
     "restart_section_begin "
     "restart_section_end restart_fault_count restart_fault",
     run_restart}, /* last: it leaves the job */
};

/* They only look at memory of the caller's. */
static const char looks[] =
    "assignment_key_all assignment_key_block assignment_key_host assignment_key_label "
    "assignment_key_node "
    "assignment_try batch_new batch_insert batch_put batch_cas batch_add batch_append batch_delete "
    "batch_free value_data value_size value_revision value_age_ms value_free keys_count keys_name "
    "keys_value keys_revision keys_age_ms keys_free members_count members_get members_free "
    "rounds_count rounds_get rounds_free round_status round_number round_value round_int64 "
    "round_double "
    "round_count round_part_count round_part round_missing round_free fault_kind_name status_name "
    "status_text version exit_code cluster_exit_code";

/* What begins so runs on a thread of the library's. */
static const char on_own_thread[] = "task_";

/* ---- the tests ---- */

struct thread {
    const struct row *row;
    struct scene *scene;
    bool returned;
};

static void *run_row(void *ctx)
{
    struct thread *thread = ctx;

    (void)pthread_cancel(pthread_self());
    thread->row->run(thread->scene);
    thread->returned = true;
    pthread_testcancel();
    return NULL;
}

static bool is_listed(const char *names, const char *name)
{
    size_t size = strlen(name);

    for (const char *at = names; (at = strstr(at, name)) != NULL; at += size) {
        if ((at == names || at[-1] == ' ') && (at[size] == ' ' || at[size] == '\0')) {
            return true;
        }
    }
    return false;
}

static bool is_covered(const char *name)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (is_listed(rows[i].names, name)) {
            return true;
        }
    }
    return is_listed(looks, name) || strncmp(name, on_own_thread, strlen(on_own_thread)) == 0;
}

/* The test of cancellation calls every exported function. */
static void every_exported_function_is_called(void **state)
{
    FILE *symbols = fopen(MST_TEST_SYMBOLS, "re");
    char line[NAME_ROOM];
    int count = 0;

    (void)state;
    assert_non_null(symbols);
    while (fgets(line, sizeof(line), symbols)) {
        line[strcspn(line, "\n")] = '\0';
        assert_memory_equal(line, "muster_", 7);
        if (!is_covered(line + 7)) {
            fail_msg("%s is called by no row", line);
        }
        count++;
    }
    (void)fclose(symbols);
    assert_true(count > 100);
}

static void works(muster_client *client)
{
    struct muster_error err = {0};

    library_ok(muster_key_put(client, "after", bytes_of("x"), NULL, LIMIT_MS, NULL, &err), &err);
}

/* A thread that has been cancelled calls any exported function. The function does its work and
 * returns. */
static void no_function_is_a_cancellation_point(void **state)
{
    struct muster_client_options options;
    struct scene scene = {.client = library_alone()};

    (void)state;
    options = beside(scene.client, MUSTER_ROLE_WORKER);
    scene.worker_s = library_open(&options);
    scene.other = library_observer(scene.client);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct thread thread = {.row = &rows[i], .scene = &scene};
        void *result = NULL;
        pthread_t id;

        assert_int_equal(pthread_create(&id, NULL, run_row, &thread), 0);
        assert_int_equal(pthread_join(id, &result), 0);
        if (!thread.returned) {
            fail_msg("cancelled within one of: %s", rows[i].names);
        }
        assert_ptr_equal(result, PTHREAD_CANCELED);
        if (scene.failed != MUSTER_OK) {
            fail_msg("%s in one of: %s", muster_status_name(scene.failed), rows[i].names);
        }
        if (rows[i].run != run_restart) {
            works(scene.client);
        }
    }
    muster_client_close(scene.other);
    muster_client_close(scene.worker_s);
    muster_client_close(scene.client);
}

struct getter {
    muster_client *client;
    const char *key;
    muster_status status;
};

static void *get(void *ctx)
{
    struct getter *getter = ctx;
    muster_value *value = NULL;

    getter->status = muster_key_get(getter->client, getter->key, NULL, -1, &value, NULL);
    muster_value_free(value);
    pthread_testcancel();
    return NULL;
}

/* `pthread_cancel` is called for a thread in a function of the library, whether it polls the
 * connection or waits for the thread that does. The thread ends when the function has returned;
 * the client's other threads notice nothing. */
static void a_thread_cancelled_in_a_call_ends_when_that_has_returned(void **state)
{
    muster_client *client = library_alone();
    struct getter getters[] = {{client, "one", MUSTER_MORE}, {client, "two", MUSTER_MORE}};
    pthread_t ids[2];
    void *result;

    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&ids[i], NULL, get, &getters[i]), 0);
        library_wait_for_waiters(client, (size_t)i + 1);
        assert_int_equal(pthread_cancel(ids[i]), 0);
    }
    works(client);
    library_wait_for_waiters(client, 2);
    for (int i = 0; i < 2; i++) {
        library_ok(
            muster_key_put(client, getters[i].key, bytes_of("x"), NULL, LIMIT_MS, NULL, NULL),
            NULL);
        assert_int_equal(pthread_join(ids[i], &result), 0);
        assert_ptr_equal(result, PTHREAD_CANCELED);
        assert_int_equal(getters[i].status, MUSTER_OK);
    }
    muster_client_close(client);
}

/* A call changes nothing for the thread: its cancellation is deferred for the call, and then as
 * it was. */
static void a_call_changes_nothing_for_the_thread(void **state)
{
    static const int kinds[] = {PTHREAD_CANCEL_ENABLE, PTHREAD_CANCEL_DISABLE};
    muster_client *client = library_alone();

    (void)state;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        int before, after;

        assert_int_equal(pthread_setcancelstate(kinds[i], &before), 0);
        works(client);
        assert_int_equal(pthread_setcancelstate(before, &after), 0);
        assert_int_equal(after, kinds[i]);
    }
    muster_client_close(client);
}

static int setup(void **state)
{
    return setenv("MUSTER_AGENT", "0", 1) == 0 ? library_stage_setup(state) : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_exported_function_is_called),
        cmocka_unit_test(a_thread_cancelled_in_a_call_ends_when_that_has_returned),
        cmocka_unit_test(a_call_changes_nothing_for_the_thread),
        cmocka_unit_test(no_function_is_a_cancellation_point),
    };

    return cmocka_run_group_tests(tests, setup, library_stage_teardown);
}
