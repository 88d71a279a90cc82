/* SPDX-License-Identifier: Apache-2.0 */
/* Each X_start comes to what X comes to; and what is done with a call before it is over.
 *
 * behaviour: library / Calls that do not block */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/shell/call.h"
#include "library_stage.h"
#include "net/socket_dir.h"

/* Waits for it, frees it, and returns what it came to. */
static muster_status end_of(muster_status started, muster_call **call, struct muster_error *err)
{
    muster_status status;

    library_ok(started, err);
    status = muster_call_wait(*call, LIMIT_MS, err);
    assert_int_not_equal(status, MUSTER_MORE);
    assert_int_equal(muster_call_wait(*call, 0, NULL), status); /* again and again */
    muster_call_free(*call);
    return status;
}

static void well(muster_status started, muster_call **call, struct muster_error *err)
{
    library_ok(end_of(started, call, err), err);
}

/* A batch without a write is applied. It fails with EINVAL, as docs/protocol.md has it; writes
 * that are started come to the same as blocking ones. [Reading the errors] */
static void writes(void **state)
{
    muster_client *client = library_alone();
    struct muster_error err;
    muster_call *call = NULL;
    muster_batch *batch = NULL;
    uint64_t first = 0;
    uint64_t second = 0;
    uint64_t size = 0;
    uint64_t count = 0;
    int64_t sum = 0;

    (void)state;
    well(muster_key_insert_start(client, "k", bytes_of("one"), NULL, -1, &first, &call, &err),
         &call, &err);
    assert_true(first > 0);
    assert_int_equal(end_of(muster_key_insert_start(client, "k", bytes_of("x"), NULL, LIMIT_MS,
                                                    &second, &call, &err),
                            &call, &err),
                     MUSTER_EEXISTS);
    assert_string_equal(err.text, "insert 'k': the key exists already");
    assert_int_equal(err.status, MUSTER_EEXISTS);
    assert_int_equal(second, 0);
    well(muster_key_cas_start(client, "k", first, bytes_of("two"), NULL, 0, &second, &call, &err),
         &call, &err);
    assert_true(second > first);
    assert_int_equal(end_of(muster_key_cas_start(client, "k", first, bytes_of("two"), NULL,
                                                 LIMIT_MS, NULL, &call, &err),
                            &call, &err),
                     MUSTER_ECONFLICT);
    well(muster_key_append_start(client, "k", bytes_of("+1"), NULL, LIMIT_MS, &size, &call, &err),
         &call, &err);
    assert_int_equal(size, 5);
    well(muster_key_put_start(client, "p", bytes_of("x"), NULL, LIMIT_MS, NULL, &call, &err), &call,
         &err);
    well(muster_key_add_start(client, "n", 42, NULL, LIMIT_MS, &sum, &call, &err), &call, &err);
    assert_int_equal(sum, 42);
    assert_int_equal(end_of(muster_key_add_start(client, "k", 1, NULL, LIMIT_MS, &sum, &call, &err),
                            &call, &err),
                     MUSTER_ERANGE);
    well(muster_key_delete_start(client, "p", NULL, LIMIT_MS, &call, &err), &call, &err);
    well(muster_key_put_start(client, "p/1", bytes_of("x"), NULL, LIMIT_MS, NULL, &call, &err),
         &call, &err);
    well(muster_key_delete_prefix_start(client, "p/", NULL, LIMIT_MS, &count, &call, &err), &call,
         &err);
    assert_int_equal(count, 1);
    assert_int_equal(
        muster_key_delete_prefix_start(client, "", NULL, LIMIT_MS, &count, &call, &err),
        MUSTER_EINVAL);
    assert_string_equal(err.text, "delete all keys under '': the prefix must not be empty: "
                                  "muster's own keys would be deleted too; name a prefix of yours");
    library_ok(muster_batch_new(&batch, NULL), NULL);
    assert_int_equal(muster_batch_apply_start(client, batch, LIMIT_MS, &call, &err), MUSTER_EINVAL);
    assert_string_equal(err.text, "apply a batch: there is no write in it");
    library_ok(muster_batch_add(batch, "n", 1), NULL);
    library_ok(muster_batch_insert(batch, "i", bytes_of("x")), NULL);
    library_ok(muster_batch_apply_start(client, batch, LIMIT_MS, &call, &err), &err);
    muster_batch_free(batch); /* borrowed for the start only */
    well(MUSTER_OK, &call, &err);
    library_ok(muster_key_add(client, "n", 0, NULL, LIMIT_MS, &sum, NULL), NULL);
    assert_int_equal(sum, 43);
    muster_client_close(client);
}

/* More keys are under a prefix than the service deletes in one step. One call deletes all of them,
 * and has their number. [keys / Several keys] */
static void a_prefix_of_many_keys(void **state)
{
    enum { KEYS = 20000, AT_ONCE = 125 };
    muster_client *client = library_alone();
    struct muster_error err;
    muster_keys *found = NULL;
    uint64_t count = 0;

    (void)state;
    for (int i = 0; i < KEYS; i += AT_ONCE) {
        muster_batch *batch = NULL;

        library_ok(muster_batch_new(&batch, NULL), NULL);
        for (int j = i; j < i + AT_ONCE; j++) {
            char name[32];

            (void)snprintf(name, sizeof(name), "many/%05d", j);
            library_ok(muster_batch_put(batch, name, bytes_of("x")), NULL);
        }
        library_ok(muster_batch_apply(client, batch, LIMIT_MS, &err), &err);
        muster_batch_free(batch);
    }
    library_ok(muster_key_delete_prefix(client, "many/", NULL, LIMIT_MS, &count, &err), &err);
    assert_int_equal(count, KEYS);
    library_ok(muster_key_list(client, "many/", NULL, LIMIT_MS, &found, &err), &err);
    assert_int_equal(muster_keys_count(found), 0);
    muster_keys_free(found);
    library_ok(muster_key_delete_prefix(client, "many/", NULL, LIMIT_MS, &count, &err), &err);
    assert_int_equal(count, 0);
    muster_client_close(client);
}

/* A read is started instead of blocked for. It comes to the same: results, status, and the line
 * of an error. What was lent is the caller's again at once. */
static void reads(void **state)
{
    muster_client *client = library_alone();
    const char *names[] = {"many/000", "many/599"};
    struct muster_error err;
    muster_call *call = NULL;
    muster_value *value = NULL;
    muster_keys *found = NULL;
    char *prefix = strdup("many/");

    (void)state;
    for (int i = 0; i < 600; i++) {
        char name[32];

        (void)snprintf(name, sizeof(name), "many/%03d", i);
        library_ok(muster_key_put(client, name, bytes_of(name + 5), NULL, LIMIT_MS, NULL, &err),
                   &err);
    }
    well(muster_key_get_start(client, "many/007", NULL, 0, &value, &call, &err), &call, &err);
    assert_string_equal(muster_value_data(value), "007");
    muster_value_free(value);
    assert_int_equal(
        end_of(muster_key_get_start(client, "no", NULL, 0, &value, &call, &err), &call, &err),
        MUSTER_ENOTFOUND);
    assert_null(value);
    assert_string_equal(err.text, "get 'no': no such key");
    assert_int_equal(
        end_of(muster_key_get_start(client, "no", NULL, 20, &value, &call, &err), &call, &err),
        MUSTER_ETIMEDOUT);
    assert_string_equal(err.text, "get 'no': timed out; no value was written");
    library_ok(muster_key_list_start(client, prefix, NULL, LIMIT_MS, &found, &call, &err), &err);
    memset(prefix, 'x', strlen(prefix)); /* several pages: each asks for the prefix again */
    free(prefix);
    well(MUSTER_OK, &call, &err);
    assert_int_equal(muster_keys_count(found), 600);
    assert_string_equal(muster_keys_name(found, 599), "many/599");
    muster_keys_free(found);
    well(muster_key_wait_start(client, names, 2, NULL, LIMIT_MS, &call, &err), &call, &err);
    muster_client_close(client);
}

/* A round or a call about members is started instead of blocked for. It comes to the same. */
static void rounds_and_members(void **state)
{
    muster_client *client = library_alone();
    struct muster_round_options options = MUSTER_ROUND_OPTIONS_INIT;
    struct muster_error err;
    muster_round_result *result = NULL;
    muster_members *members = NULL;
    muster_rounds *rounds = NULL;
    muster_call *calls[2] = {NULL};
    int64_t seven = 7;
    const uint32_t two[] = {0, 1};

    (void)state;
    well(muster_barrier_wait_start(client, "b", LIMIT_MS, &calls[0], &err), &calls[0], &err);
    options.reduce = MUSTER_REDUCE_SUM;
    /* Numbered at the start: the second one is the next round. */
    for (int i = 0; i < 2; i++) {
        library_ok(muster_round_join_start(client, "r", &options,
                                           (struct muster_slice){&seven, sizeof(seven)}, LIMIT_MS,
                                           i == 1 ? &result : NULL, &calls[i], &err),
                   &err);
    }
    well(MUSTER_OK, &calls[1], &err);
    well(MUSTER_OK, &calls[0], &err);
    assert_int_equal(muster_round_number(result), 1);
    assert_int_equal(muster_round_int64(result, 0), 7);
    muster_round_free(result);
    /* Cancelled: the same round is taken up again. */
    options = (struct muster_round_options)MUSTER_ROUND_OPTIONS_INIT;
    options.participants = two;
    options.participant_count = 2;
    for (int i = 0; i < 2; i++) {
        library_ok(muster_round_join_start(client, "open", &options, (struct muster_slice){0}, -1,
                                           &result, &calls[0], &err),
                   &err);
        well(muster_round_list_start(client, LIMIT_MS, &rounds, &calls[1], &err), &calls[1], &err);
        assert_int_equal(muster_rounds_count(rounds), 1);
        assert_string_equal(muster_rounds_get(rounds, 0)->name, "open");
        assert_int_equal(muster_rounds_get(rounds, 0)->number, 0);
        muster_rounds_free(rounds);
        well(muster_round_members_start(client, "open", 0, LIMIT_MS, &members, &calls[1], &err),
             &calls[1], &err);
        assert_int_equal(muster_members_count(members), 2);
        muster_members_free(members);
        muster_call_cancel(calls[0]);
        assert_int_equal(end_of(MUSTER_OK, &calls[0], &err), MUSTER_ECANCELLED);
        assert_string_equal(err.text, "round 'open': cancelled");
        assert_null(result);
    }
    well(muster_member_list_start(client, LIMIT_MS, &members, &calls[0], &err), &calls[0], &err);
    assert_int_equal(muster_members_count(members), 1);
    muster_members_free(members);
    well(muster_member_fault_start(client, 3, "so", LIMIT_MS, &calls[0], &err), &calls[0], &err);
    well(muster_member_leave_start(client, LIMIT_MS, &calls[0], &err), &calls[0], &err);
    assert_int_equal(muster_barrier_wait_start(client, "b", LIMIT_MS, &calls[0], &err),
                     MUSTER_ECANCELLED);
    assert_string_equal(err.text, "barrier 'b': this member has left the job");
    assert_null(calls[0]);
    muster_client_close(client);
}

/* A watch is started instead of blocked for. It comes to the same. */
static void a_watch(void **state)
{
    muster_client *client = library_alone();
    struct muster_event event = {0};
    struct muster_error err;
    muster_watch *watch = NULL;
    muster_call *call = NULL;
    muster_call *other = NULL;

    (void)state;
    library_ok(muster_watch_open(&watch, client, NULL, &err), &err);
    library_ok(muster_watch_next_start(watch, LIMIT_MS, &event, &call, &err), &err);
    assert_int_equal(muster_watch_next_start(watch, LIMIT_MS, &event, &other, &err), MUSTER_EINVAL);
    assert_string_equal(err.text, "watch: another call waits for its next change");
    library_ok(muster_key_put(client, "a", bytes_of("1"), NULL, LIMIT_MS, NULL, &err), &err);
    well(MUSTER_OK, &call, &err);
    assert_int_equal(event.type, MUSTER_EVENT_KEY);
    assert_string_equal(event.key, "a");
    assert_int_equal(end_of(muster_watch_next_start(watch, 20, &event, &call, &err), &call, &err),
                     MUSTER_ETIMEDOUT);
    library_ok(muster_watch_next_start(watch, -1, &event, &call, &err), &err);
    muster_call_free(call); /* and the watch goes on */
    library_ok(muster_key_put(client, "b", bytes_of("1"), NULL, LIMIT_MS, NULL, &err), &err);
    library_ok(muster_watch_next(watch, LIMIT_MS, &event, &err), &err);
    assert_string_equal(event.key, "b");
    muster_watch_close(watch);
    muster_client_close(client);
}

/* A start makes no sense, or there is no memory for it. It is refused, nothing was sent, and no
 * handle is left. */
static void a_refused_start_leaves_nothing(void **state)
{
    muster_client *client = library_alone();
    const struct muster_slice no_bytes = {.size = 1};
    struct muster_error err;
    muster_value *value = NULL;
    int mark = 0;
    muster_call *call = (muster_call *)&mark;

    (void)state;
    assert_int_equal(muster_key_put_start(NULL, "k", bytes_of("x"), NULL, 0, NULL, &call, &err),
                     MUSTER_EINVAL);
    assert_string_equal(err.text, "put 'k': the client is NULL");
    assert_null(call);
    call = (muster_call *)&mark;
    assert_int_equal(muster_key_put_start(client, "", bytes_of("x"), NULL, 0, NULL, &call, &err),
                     MUSTER_EINVAL);
    assert_null(call);
    assert_int_equal(muster_key_put_start(client, "k", no_bytes, NULL, 0, NULL, &call, &err),
                     MUSTER_EINVAL);
    assert_int_equal(muster_key_get_start(client, "k", NULL, 0, NULL, &call, &err), MUSTER_EINVAL);
    assert_string_equal(err.text, "get 'k': out is NULL");
    assert_int_equal(muster_key_get_start(client, "k", NULL, 0, &value, NULL, &err), MUSTER_EINVAL);
    assert_string_equal(err.text, "get 'k': call_out is NULL");
    assert_int_equal(muster_call_wait(NULL, 0, &err), MUSTER_EINVAL);
    assert_string_equal(err.text, "wait for a call: the call is NULL");
    muster_call_cancel(NULL);
    muster_call_free(NULL);
    muster_call_on_done(NULL, NULL, NULL);
    muster_client_dispatch(NULL);
    assert_int_equal(muster_client_fd(client, NULL, &err), MUSTER_EINVAL);
    muster_client_close(client);
}

/* ---- waiting, cancelling, freeing ---- */

/* Waiting for a call times out. The call goes on. */
static void the_end_of_a_wait_is_not_the_call_s(void **state)
{
    muster_client *client = library_alone();
    struct muster_error err;
    muster_value *value = NULL;
    muster_call *call = NULL;

    (void)state;
    library_ok(muster_key_get_start(client, "k", NULL, -1, &value, &call, &err), &err);
    assert_int_equal(muster_call_wait(call, 0, &err), MUSTER_MORE);
    assert_int_equal(muster_call_wait(call, 20, &err), MUSTER_MORE);
    assert_null(value);
    library_ok(muster_key_put(client, "k", bytes_of("x"), NULL, LIMIT_MS, NULL, &err), &err);
    library_ok(muster_call_wait(call, -1, &err), &err);
    assert_string_equal(muster_value_data(value), "x");
    muster_call_cancel(call); /* it is over */
    library_ok(muster_call_wait(call, 0, &err), &err);
    muster_call_free(call);
    assert_string_equal(muster_value_data(value), "x"); /* the caller's, not the call's */
    muster_value_free(value);
    muster_client_close(client);
}

static void give_time(muster_call *call, int turns)
{
    while (turns-- > 0 && muster_call_wait(call, 0, NULL) == MUSTER_MORE) {
    }
}

/* A call is cancelled: not sent yet, with the service, its answer on the way, over. It ends with
 * ECANCELLED at once, unless it was over. */
static void a_call_is_cancelled_at_every_stage(void **state)
{
    muster_client *client = library_alone();
    struct muster_error err;
    muster_value *value = NULL;
    muster_call *call = NULL;
    muster_call *waits[300];

    (void)state;
    for (int i = 0; i < 300; i++) { /* the last ones wait for their turn to wait */
        library_ok(muster_key_get_start(client, "never", NULL, -1, &value, &waits[i], &err), &err);
    }
    for (int i = 299; i >= 0; i -= 2) {
        muster_call_cancel(waits[i]);
        assert_int_equal(end_of(MUSTER_OK, &waits[i], &err), MUSTER_ECANCELLED);
        assert_string_equal(err.text, "get 'never': cancelled");
        assert_int_equal(err.status, MUSTER_ECANCELLED);
    }
    for (int i = 0; i < 300; i += 2) {
        assert_int_equal(muster_call_wait(waits[i], 0, &err), MUSTER_MORE);
        muster_call_free(waits[i]);
    }
    for (int i = 0; i < 300; i++) {
        muster_status status;

        library_ok(
            muster_key_put_start(client, "w", bytes_of("x"), NULL, LIMIT_MS, NULL, &call, &err),
            &err);
        give_time(call, i);
        muster_call_cancel(call);
        status = end_of(MUSTER_OK, &call, &err);
        assert_true(status == MUSTER_OK || status == MUSTER_ECANCELLED);
    }
    library_ok(muster_key_put(client, "never", bytes_of("x"), NULL, LIMIT_MS, NULL, &err), &err);
    assert_null(value);
    muster_client_close(client);
}

/* A call is freed before its end. Nothing of the caller's is touched any more; a callback that
 * runs on another thread is waited for. */
static void nothing_is_touched_behind_a_free(void **state)
{
    muster_client *client = library_alone();
    struct muster_error err;

    (void)state;
    for (int i = 0; i < 200; i++) {
        muster_value **value = calloc(1, sizeof(void *));
        muster_keys **keys = calloc(1, sizeof(void *));
        muster_call *get = NULL;
        muster_call *list = NULL;
        char name[32];

        (void)snprintf(name, sizeof(name), "k%d", i);
        library_ok(muster_key_get_start(client, name, NULL, -1, value, &get, &err), &err);
        library_ok(muster_key_list_start(client, "", NULL, LIMIT_MS, keys, &list, &err), &err);
        give_time(list, i);
        muster_call_free(get);
        muster_call_free(list);
        assert_null(*value);
        muster_keys_free(*keys); /* if it was quicker */
        free(value);
        free(keys);
        library_ok(muster_key_put(client, name, bytes_of("x"), NULL, LIMIT_MS, NULL, &err), &err);
    }
    muster_client_close(client);
}

/* ---- the end of everything ---- */

/* The job restarts while calls are open. They end with EINTERRUPTED, and a loop that polls wakes
 * up. */
static void an_interrupt_ends_open_calls(void **state)
{
    muster_client *client = library_alone();
    struct muster_error err;
    muster_value *value = NULL;
    muster_call *calls[2] = {NULL};

    (void)state;
    library_ok(muster_key_get_start(client, "k", NULL, -1, &value, &calls[0], &err), &err);
    library_ok(muster_barrier_wait_start(client, "b", -1, &calls[1], &err), &err);
    library_ok(muster_call_wait(calls[1], -1, &err), &err);
    mst_lib_lock(client);
    mst_lib_interrupt(client, true);
    mst_lib_unlock(client);
    assert_int_equal(end_of(MUSTER_OK, &calls[0], &err), MUSTER_EINTERRUPTED);
    assert_string_equal(
        err.text, "get 'k': interrupted, the job restarts: clean up and return from the function");
    library_ok(end_of(MUSTER_OK, &calls[1], &err), &err); /* it was over */
    assert_int_equal(muster_key_get_start(client, "k", NULL, -1, &value, &calls[0], &err),
                     MUSTER_EINTERRUPTED);
    mst_lib_lock(client);
    mst_lib_interrupt(client, false);
    mst_lib_unlock(client);
    well(muster_key_put_start(client, "k", bytes_of("x"), NULL, LIMIT_MS, NULL, &calls[0], &err),
         &calls[0], &err);
    assert_null(value);
    muster_client_close(client);
}

static void must_not_be_called(void *ctx, muster_call *call)
{
    (void)ctx;
    (void)call;
    fail_msg("the callback was called");
}

/* The client is closed while calls are open. They end with ECANCELLED, their callbacks are not
 * run, and the handles can still be read and freed. */
static void close_ends_open_calls(void **state)
{
    muster_client *client = library_alone();
    struct muster_error err;
    muster_value *value = NULL;
    muster_call *open = NULL;
    muster_call *over = NULL;
    int fd = -1;

    (void)state;
    library_ok(muster_client_fd(client, &fd, &err), &err);
    library_ok(muster_key_get_start(client, "k", NULL, -1, &value, &open, &err), &err);
    library_ok(muster_key_put_start(client, "p", bytes_of("x"), NULL, -1, NULL, &over, &err), &err);
    muster_call_on_done(open, must_not_be_called, NULL);
    muster_call_on_done(over, must_not_be_called, NULL);
    library_ok(muster_call_wait(over, -1, &err), &err);
    muster_client_close(client);
    muster_call_on_done(over, must_not_be_called, NULL);
    muster_call_cancel(open);
    assert_int_equal(end_of(MUSTER_OK, &open, &err), MUSTER_ECANCELLED);
    assert_string_equal(err.text, "get 'k': the client is being closed");
    library_ok(end_of(MUSTER_OK, &over, &err), &err);
    assert_null(value);
}

struct visitor {
    muster_call *call;
    muster_status status;
};

static void *wait_and_free(void *arg)
{
    struct visitor *visitor = arg;

    visitor->status = muster_call_wait(visitor->call, -1, NULL);
    muster_call_cancel(visitor->call);
    muster_call_free(visitor->call);
    return NULL;
}

/* One thread closes the client while another waits for a call and frees it. The wait ends with
 * ECANCELLED, and the client outlives the visit. */
static void a_call_is_freed_while_the_client_is_closed(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        muster_client *client = library_alone();
        struct muster_error err;
        muster_value *value = NULL;
        struct visitor visitor = {0};
        pthread_t thread;

        library_ok(muster_key_get_start(client, "k", NULL, -1, &value, &visitor.call, &err), &err);
        assert_int_equal(pthread_create(&thread, NULL, wait_and_free, &visitor), 0);
        muster_client_close(client);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(visitor.status, MUSTER_ECANCELLED);
    }
}

/* The process forks with open calls. The child can only free them; the parent's go on. */
static void a_forked_child_has_no_calls(void **state)
{
    muster_client *client = library_alone();
    struct muster_error err;
    muster_value *value = NULL;
    muster_call *call = NULL;
    int how = 0;
    pid_t child;

    (void)state;
    library_ok(muster_key_get_start(client, "k", NULL, -1, &value, &call, &err), &err);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool good = muster_call_wait(call, -1, &err) == MUSTER_EINVAL &&
                    strcmp(err.text, "get 'k': this client belongs to the parent process; after "
                                     "fork, open one of its own") == 0;

        muster_client_dispatch(client);
        muster_call_cancel(call);
        muster_call_free(call);
        muster_client_close(client);
        _exit(good ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(how, 0);
    library_ok(muster_key_put(client, "k", bytes_of("x"), NULL, LIMIT_MS, NULL, &err), &err);
    well(MUSTER_OK, &call, &err);
    muster_value_free(value);
    muster_client_close(client);
}

/* The service of a job of one is killed. Open calls end, and say so. */
static void a_killed_service_ends_open_calls(void **state)
{
    muster_client *client = library_alone();
    struct muster_error err;
    muster_value *value = NULL;
    muster_call *call = NULL;

    (void)state;
    library_ok(muster_key_get_start(client, "k", NULL, -1, &value, &call, &err), &err);
    assert_int_equal(kill(mst_socket_alive(client->addr + strlen("unix:")), SIGKILL), 0);
    assert_int_equal(end_of(MUSTER_OK, &call, &err), MUSTER_EUNREACHABLE);
    assert_non_null(strstr(err.text, "get 'k': the service at unix:"));
    assert_non_null(strstr(err.text, ", which this process had started, has ended"));
    assert_int_equal(unlink(client->addr + strlen("unix:")), 0);
    muster_client_close(client);
}

/* A call's time is over. What is left of it gives the next part of the call no other time: 0
 * would be the time of a lease. */
static void what_is_left_of_a_time_that_is_over_is_no_other_time(void **state)
{
    (void)state;
    assert_int_equal(mst_lib_left_ms(5, mst_lib_now_ns()), 1);
    assert_int_equal(mst_lib_left_ms(0, mst_lib_now_ns()), 0);
}

/* A wait is over. Its words are no longer shown: the thread's next wait may be for something
 * else. */
static void a_wait_that_is_over_is_shown_no_more(void **state)
{
    muster_client *client = library_alone();
    struct muster_error err;
    muster_value *value = NULL;
    muster_call *call;

    (void)state;
    library_ok(muster_key_get_start(client, "never", NULL, -1, &value, &call, &err), &err);
    assert_int_equal(muster_call_wait(call, 1, &err), MUSTER_MORE);
    assert_null(mst_lib_thread.waits_for);
    muster_call_cancel(call);
    assert_int_equal(muster_call_wait(call, LIMIT_MS, &err), MUSTER_ECANCELLED);
    assert_null(mst_lib_thread.waits_for);
    muster_call_free(call);
    muster_client_close(client);
}

/* ---- timers ---- */

enum { TIMERS = 3 };

struct clockwork {
    muster_client *client;
    struct mst_lib_timer timers[TIMERS];
    unsigned order[8], fired; /* which, one after the other */
    unsigned again;           /* how often the first one is set again */
    sem_t done;
};

static void ring(struct clockwork *clockwork, unsigned which)
{
    clockwork->order[clockwork->fired++] = which;
    if (which == 0 && clockwork->again > 0) {
        clockwork->again--;
        mst_lib_timer_set(clockwork->client, &clockwork->timers[0], mst_lib_now_ns() + 1);
    } else if (which == 0) {
        (void)sem_post(&clockwork->done);
    }
}

static void ring_first(void *ctx)
{
    ring(ctx, 0);
}

static void ring_second(void *ctx)
{
    ring(ctx, 1);
}

/* It may be what the second one is there for. */
static void ring_third(void *ctx)
{
    struct clockwork *clockwork = ctx;

    mst_lib_timer_stop(&clockwork->timers[1]);
    ring(clockwork, 2);
}

static bool is_done(void *ctx)
{
    int count = 0;

    (void)sem_getvalue(&((struct clockwork *)ctx)->done, &count);
    return count > 0;
}

static void clockwork_init(struct clockwork *clockwork, muster_client *client)
{
    static void (*const rings[TIMERS])(void *) = {ring_first, ring_second, ring_third};

    *clockwork = (struct clockwork){.client = client};
    (void)sem_init(&clockwork->done, 0, 0);
    for (unsigned i = 0; i < TIMERS; i++) {
        clockwork->timers[i].fire = rings[i];
        clockwork->timers[i].ctx = clockwork;
    }
}

/* The first is the last: whichever thread drives looks after them. */
static void timers_fire_in_their_order_and_once(void **state)
{
    muster_client *client = library_alone();
    struct clockwork clockwork;
    uint64_t now_ns;

    (void)state;
    clockwork_init(&clockwork, client);
    mst_lib_lock(client);
    now_ns = mst_lib_now_ns();
    mst_lib_timer_stop(&clockwork.timers[0]); /* not set: a no-op */
    mst_lib_timer_set(client, &clockwork.timers[0], now_ns + 30 * NS_PER_MS);
    mst_lib_timer_set(client, &clockwork.timers[1], now_ns + 1000000 * NS_PER_MS);
    mst_lib_timer_set(client, &clockwork.timers[2], now_ns + 10 * NS_PER_MS);
    mst_lib_timer_set(client, &clockwork.timers[1], now_ns + 20 * NS_PER_MS); /* in place of that */
    assert_true(mst_lib_wait(client, is_done, &clockwork, mst_lib_now_ns() + LIMIT_MS * NS_PER_MS));
    assert_true(mst_lib_now_ns() >= now_ns + 30 * NS_PER_MS);
    mst_lib_unlock(client);
    assert_int_equal(clockwork.fired, 2); /* the third has stopped the second */
    assert_int_equal(clockwork.order[0], 2);
    assert_int_equal(clockwork.order[1], 0);
    muster_client_close(client);
}

static void a_timer_needs_no_thread_and_may_be_set_by_itself(void **state)
{
    enum { TIMES = 6 };
    muster_client *client = library_alone();
    struct clockwork clockwork;
    unsigned in_time = 0;

    (void)state;
    clockwork_init(&clockwork, client);
    for (unsigned i = 0; i < TIMES; i++) {
        uint64_t now_ns = mst_lib_now_ns();

        clockwork.fired = 0;
        clockwork.again = 3;
        mst_lib_lock(client);
        mst_lib_timer_set(client, &clockwork.timers[0], now_ns + 5 * NS_PER_MS);
        mst_lib_unlock(client);
        assert_int_equal(sem_wait(&clockwork.done), 0); /* the background thread fires it */
        in_time += mst_lib_now_ns() - now_ns < 500 * NS_PER_MS;
        mst_lib_lock(client);
        assert_int_equal(clockwork.fired, 4);
        mst_lib_unlock(client);
    }
    /* Not when it wakes for something else; once or twice the machine may be slow. */
    assert_true(in_time >= TIMES / 2);
    mst_lib_lock(client);
    mst_lib_timer_set(client, &clockwork.timers[1], mst_lib_now_ns() + 100000 * NS_PER_MS);
    mst_lib_unlock(client);
    muster_client_close(client); /* which unsets it */
    assert_false(mst_list_linked(&clockwork.timers[1].link));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_left_of_a_time_that_is_over_is_no_other_time),
        cmocka_unit_test(a_wait_that_is_over_is_shown_no_more),
        cmocka_unit_test(writes),
        cmocka_unit_test(a_prefix_of_many_keys),
        cmocka_unit_test(reads),
        cmocka_unit_test(rounds_and_members),
        cmocka_unit_test(a_watch),
        cmocka_unit_test(a_refused_start_leaves_nothing),
        cmocka_unit_test(the_end_of_a_wait_is_not_the_call_s),
        cmocka_unit_test(a_call_is_cancelled_at_every_stage),
        cmocka_unit_test(nothing_is_touched_behind_a_free),
        cmocka_unit_test(an_interrupt_ends_open_calls),
        cmocka_unit_test(close_ends_open_calls),
        cmocka_unit_test(a_call_is_freed_while_the_client_is_closed),
        cmocka_unit_test(a_forked_child_has_no_calls),
        cmocka_unit_test(a_killed_service_ends_open_calls),
        cmocka_unit_test(timers_fire_in_their_order_and_once),
        cmocka_unit_test(a_timer_needs_no_thread_and_may_be_set_by_itself),
    };

    return cmocka_run_group_tests(tests, library_stage_setup, library_stage_teardown);
}
