/* SPDX-License-Identifier: Apache-2.0 */
/* The public functions against a real service.
 *
 * behaviour: library / Opening and closing */
#define _GNU_SOURCE
#include <fcntl.h>
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

#include "library_stage.h"

enum { PATIENCE_MS = 3000 }; /* of who waits for what does not come */
enum { OLD_MS = 40 };        /* after which a key is older than it was */

/* How long it took is said as well: that time, or more where many share a processor. */
static void assert_said_after(const char *text, const char *before, const char *behind)
{
    char *rest;

    assert_int_equal(strncmp(text, before, strlen(before)), 0);
    assert_true(strtod(text + strlen(before), &rest) >= PATIENCE_MS / 1000.0);
    assert_string_equal(rest, behind);
}

/* A program is started alone. It is a job of one: a service is started as its child, the same
 * calls work, and one line on stderr says so. When it ends, however it ends, service and socket
 * are gone. */
static void a_job_of_one(void **state)
{
    muster_client *client = library_alone();
    struct muster_view view;

    (void)state;
    muster_client_view(client, &view);
    assert_int_equal(view.generation, 1);
    assert_int_equal(view.rank, 0);
    assert_int_equal(view.size, 1);
    assert_int_equal(view.index, 0);
    assert_true(view.incarnation > 0);
    assert_false(view.spare);
    library_ok(muster_barrier_wait(client, "b", LIMIT_MS, NULL), NULL);
    muster_client_close(client);
}

/* A program puts, reads, adds to and deletes keys. Each call does what its name says; an absent
 * key is ENOTFOUND. [keys / One key] */
static void keys(void **state)
{
    muster_client *client = library_alone();
    struct muster_error err;
    muster_value *value = NULL;
    uint64_t first = 0;
    uint64_t second = 0;
    const struct muster_slice no_bytes = {.size = 1};
    uint64_t size = 0;
    int64_t sum = 0;

    (void)state;
    library_ok(muster_key_insert(client, "k", bytes_of("one"), NULL, LIMIT_MS, &first, &err), &err);
    assert_int_equal(muster_key_insert(client, "k", bytes_of("x"), NULL, LIMIT_MS, NULL, &err),
                     MUSTER_EEXISTS);
    assert_string_equal(err.text, "insert 'k': the key exists already");
    assert_int_equal(
        muster_key_cas(client, "k", first + 7, bytes_of("x"), NULL, LIMIT_MS, NULL, &err),
        MUSTER_ECONFLICT);
    assert_string_equal(err.text, "compare and set 'k': another client changed the key");
    library_ok(muster_key_cas(client, "k", first, bytes_of("two"), NULL, LIMIT_MS, &second, &err),
               &err);
    assert_true(second > first);
    library_ok(muster_key_append(client, "k", bytes_of("+1"), NULL, LIMIT_MS, &size, &err), &err);
    assert_int_equal(size, 5);
    library_ok(muster_key_get(client, "k", NULL, 0, &value, &err), &err);
    assert_string_equal(muster_value_data(value), "two+1");
    assert_int_equal(muster_value_size(value), 5);
    assert_true(muster_value_revision(value) > second);
    muster_value_free(value);
    library_ok(muster_key_add(client, "n", 40, NULL, LIMIT_MS, &sum, &err), &err);
    library_ok(muster_key_add(client, "n", 2, NULL, LIMIT_MS, &sum, &err), &err);
    assert_int_equal(sum, 42);
    assert_int_equal(muster_key_add(client, "k", 1, NULL, LIMIT_MS, &sum, &err), MUSTER_ERANGE);
    library_ok(muster_key_delete(client, "k", NULL, LIMIT_MS, &err), &err);
    library_ok(muster_key_delete(client, "k", NULL, LIMIT_MS, &err), &err);
    assert_int_equal(muster_key_get(client, "k", NULL, 0, &value, &err), MUSTER_ENOTFOUND);
    assert_null(value);
    assert_string_equal(err.text, "get 'k': no such key");
    assert_int_equal(muster_key_get(client, "k", NULL, 50, &value, &err), MUSTER_ETIMEDOUT);
    assert_string_equal(err.text, "get 'k': timed out; no value was written");
    assert_int_equal(muster_key_put(client, "", bytes_of("x"), NULL, LIMIT_MS, NULL, &err),
                     MUSTER_EINVAL);
    assert_string_equal(err.text, "put '': a key's name must not be empty");
    assert_int_equal(muster_key_put(client, "k", no_bytes, NULL, LIMIT_MS, NULL, &err),
                     MUSTER_EINVAL);
    assert_string_equal(err.text, "put 'k': the data is NULL, and its size is not 0");
    muster_client_close(client);
}

/* Only time makes a key older. */
static void wait_a_while(muster_client *client)
{
    struct muster_error err;
    muster_value *value;

    assert_int_equal(muster_key_get(client, "nobody writes it", NULL, OLD_MS, &value, &err),
                     MUSTER_ETIMEDOUT);
}

/* A key is read, listed or watched. It comes with its age: how long ago it was written, or
 * deleted, by the service's time. Every write begins it anew, also one that writes the same.
 * [keys / How old a key is] */
static void ages_of_keys(void **state)
{
    muster_client *client = library_alone();
    struct muster_error err;
    struct muster_event event;
    muster_watch *watch = NULL;
    muster_value *value = NULL;
    muster_keys *list = NULL;
    uint64_t told_ms;

    (void)state;
    library_ok(muster_key_put(client, "a", bytes_of("1"), NULL, LIMIT_MS, NULL, &err), &err);
    wait_a_while(client);
    library_ok(muster_key_put(client, "b", bytes_of("1"), NULL, LIMIT_MS, NULL, &err), &err);
    library_ok(muster_key_get(client, "a", NULL, 0, &value, &err), &err);
    told_ms = muster_value_age_ms(value);
    assert_true(told_ms >= OLD_MS / 2);
    muster_value_free(value);
    library_ok(muster_key_list(client, "", NULL, LIMIT_MS, &list, &err), &err);
    assert_true(muster_keys_age_ms(list, 0) >= told_ms);
    assert_true(muster_keys_age_ms(list, 0) >= muster_keys_age_ms(list, 1) + OLD_MS / 2);
    assert_int_equal(muster_keys_age_ms(list, 2), 0);
    muster_keys_free(list);
    library_ok(muster_watch_open(&watch, client, NULL, &err), &err);
    library_ok(muster_watch_next(watch, LIMIT_MS, &event, &err), &err);
    assert_string_equal(event.key, "a");
    assert_true(event.age_ms >= told_ms);
    wait_a_while(client); /* the other one has come with it, and grows older in here */
    library_ok(muster_watch_next(watch, LIMIT_MS, &event, &err), &err);
    assert_string_equal(event.key, "b");
    assert_true(event.age_ms >= OLD_MS / 2);
    muster_watch_close(watch);
    muster_client_close(client);
}

/* A prefix has more keys than fit one page. The library puts the pages together.
 * [keys / Several keys] */
static void many_keys(void **state)
{
    muster_client *client = library_alone();
    struct muster_error err;
    muster_keys *found = NULL;

    (void)state;
    for (int i = 0; i < 600; i++) {
        char name[32];

        (void)snprintf(name, sizeof(name), "many/%03d", i);
        library_ok(muster_key_put(client, name, bytes_of(name + 5), NULL, LIMIT_MS, NULL, &err),
                   &err);
    }
    library_ok(muster_key_list(client, "many/", NULL, LIMIT_MS, &found, &err), &err);
    assert_int_equal(muster_keys_count(found), 600);
    assert_string_equal(muster_keys_name(found, 0), "many/000");
    assert_string_equal(muster_keys_name(found, 599), "many/599");
    assert_string_equal(muster_keys_value(found, 300).data, "300");
    assert_true(muster_keys_revision(found, 599) > muster_keys_revision(found, 0));
    assert_null(muster_keys_name(found, 600));
    muster_keys_free(found);
    library_ok(muster_key_list(client, "none/", NULL, LIMIT_MS, &found, &err), &err);
    assert_int_equal(muster_keys_count(found), 0);
    muster_keys_free(found);
    muster_client_close(client);
}

/* A program applies a batch. It is applied whole or not at all. [keys / Several keys] */
static void a_batch_is_applied_whole(void **state)
{
    muster_client *client = library_alone();
    struct muster_error err;
    muster_batch *batch = NULL;
    muster_value *value = NULL;

    (void)state;
    library_ok(muster_batch_new(&batch, NULL), NULL);
    assert_int_equal(muster_batch_apply(client, batch, LIMIT_MS, &err), MUSTER_EINVAL); /* empty */
    library_ok(muster_batch_put(batch, "a", bytes_of("1")), NULL);
    library_ok(muster_batch_add(batch, "b", 5), NULL);
    library_ok(muster_batch_append(batch, "a", bytes_of("2")), NULL);
    library_ok(muster_batch_insert(batch, "c", bytes_of("3")), NULL);
    library_ok(muster_batch_delete(batch, "d"), NULL);
    assert_int_equal(muster_batch_put(batch, "", bytes_of("1")), MUSTER_EINVAL);
    library_ok(muster_batch_apply(client, batch, LIMIT_MS, &err), &err);
    assert_int_equal(muster_batch_apply(client, batch, LIMIT_MS, &err), MUSTER_EEXISTS); /* c */
    assert_string_equal(err.text, "apply a batch of 5 writes: 'c': the key exists already");
    library_ok(muster_key_get(client, "b", NULL, 0, &value, &err), &err);
    assert_string_equal(muster_value_data(value), "5"); /* and not 10 */
    muster_value_free(value);
    muster_batch_free(batch);
    muster_client_close(client);
}

/* A program writes keys of a generation. They are apart from the job's. [keys / Keys that go] */
static void keys_of_a_generation(void **state)
{
    muster_client *client = library_alone();
    struct muster_key_options options = MUSTER_KEY_OPTIONS_INIT;
    struct muster_error err;
    muster_value *value = NULL;

    (void)state;
    options.generation = 1;
    library_ok(muster_key_insert(client, "commit", bytes_of("x"), &options, LIMIT_MS, NULL, &err),
               &err);
    assert_int_equal(muster_key_get(client, "commit", NULL, 0, &value, &err), MUSTER_ENOTFOUND);
    options.generation = 2;
    assert_int_equal(
        muster_key_put(client, "commit", bytes_of("x"), &options, LIMIT_MS, NULL, &err),
        MUSTER_EFENCED);
    assert_string_equal(
        err.text, "put 'commit': generation 2 is not the current one; the job is in generation 1");
    library_ok(muster_barrier_wait(client, "alive", LIMIT_MS, &err), &err); /* the session is */
    muster_client_close(client);
}

/* A program's owned keys go with their owner. [keys / Keys that go] */
static void owned_keys_go_with_their_owner(void **state)
{
    muster_client *client = library_alone();
    muster_client *other = library_observer(client);
    struct muster_key_options options = MUSTER_KEY_OPTIONS_INIT;
    struct muster_error err;
    muster_value *value = NULL;

    (void)state;
    options.owned = true;
    library_ok(muster_key_put(other, "mine", bytes_of("x"), &options, LIMIT_MS, NULL, &err), &err);
    library_ok(muster_key_get(client, "mine", NULL, 0, &value, &err), &err);
    muster_value_free(value);
    muster_client_close(other);
    assert_int_equal(muster_key_get(client, "mine", NULL, 0, &value, &err), MUSTER_ENOTFOUND);
    muster_client_close(client);
}

/* A program reduces, gathers and compares. Each call gives the one result. [rounds / Results] */
static void rounds(void **state)
{
    muster_client *client = library_alone();
    struct muster_round_options options = MUSTER_ROUND_OPTIONS_INIT;
    struct muster_error err;
    struct muster_round_count count;
    muster_round_result *result = NULL;
    const int64_t numbers[2] = {-5, INT64_MAX};
    struct muster_slice mine = {.data = numbers, .size = sizeof(numbers)};
    uint32_t index = 9;

    (void)state;
    options.reduce = MUSTER_REDUCE_MIN;
    library_ok(muster_round_join(client, "r", &options, mine, LIMIT_MS, &result, &err), &err);
    assert_int_equal(muster_round_status(result), MUSTER_OK);
    assert_int_equal(muster_round_number(result), 0);
    assert_int_equal(muster_round_int64(result, 0), -5);
    assert_int_equal(muster_round_int64(result, 1), INT64_MAX);
    assert_int_equal(muster_round_int64(result, 2), 0);
    muster_round_count(result, &count);
    assert_int_equal(count.arrived, 1);
    assert_int_equal(count.expected, 1);
    assert_null(muster_round_missing(result, 0));
    muster_round_free(result);
    options.reduce = MUSTER_REDUCE_GATHER;
    library_ok(muster_round_join(client, "g", &options, bytes_of("hi"), LIMIT_MS, &result, &err),
               &err);
    assert_int_equal(muster_round_part_count(result), 1);
    assert_string_equal(muster_round_part(result, 0, &index).data, "hi");
    assert_int_equal(index, 0);
    assert_null(muster_round_part(result, 1, NULL).data);
    muster_round_free(result);
    options.reduce = MUSTER_REDUCE_EQUAL;
    library_ok(muster_round_join(client, "e", &options, bytes_of("v1"), LIMIT_MS, NULL, &err),
               &err);
    assert_int_equal(muster_round_join(client, "", &options, mine, LIMIT_MS, NULL, &err),
                     MUSTER_EINVAL);
    options.reduce = MUSTER_REDUCE_NONE;
    assert_int_equal(muster_round_join(client, "r", &options, mine, LIMIT_MS, NULL, &err),
                     MUSTER_EINVAL);
    assert_string_equal(err.text,
                        "round 'r': options.reduce does not say what becomes of the data");
    options.reduce = MUSTER_REDUCE_SUM;
    mine.size--;
    assert_int_equal(muster_round_join(client, "r", &options, mine, LIMIT_MS, NULL, &err),
                     MUSTER_EINVAL);
    assert_string_equal(err.text, "round 'r': the data is no vector of int64_t");
    options.reduce = MUSTER_REDUCE_MAX_DOUBLE;
    assert_int_equal(muster_round_join(client, "r", &options, mine, LIMIT_MS, NULL, &err),
                     MUSTER_EINVAL);
    assert_string_equal(err.text, "round 'r': the data is no vector of double");
    options.reduce = MUSTER_REDUCE_XOR;
    assert_int_equal(muster_round_join(client, "r", &options, mine, LIMIT_MS, NULL, &err),
                     MUSTER_EINVAL);
    assert_string_equal(err.text, "round 'r': the data is no vector of uint64_t");
    options.reduce = MUSTER_REDUCE_BROADCAST;
    options.on_loss = MUSTER_ON_LOSS_PROCEED;
    assert_int_equal(muster_round_join(client, "r", &options, mine, LIMIT_MS, NULL, &err),
                     MUSTER_EINVAL);
    assert_string_equal(err.text,
                        "round 'r': options.on_loss must be FAIL: a broadcast has no value "
                        "without its root");
    options.reduce = (enum muster_reduce)77;
    assert_int_equal(muster_round_join(client, "r", &options, mine, LIMIT_MS, NULL, &err),
                     MUSTER_EINVAL);
    assert_string_equal(err.text, "round 'r': options.reduce is none of enum muster_reduce");
    muster_client_close(client);
}

/* A program lists the members. Each comes with its state. [members / Listing members] */
static void who_is_here(void **state)
{
    muster_client *client = library_alone();
    muster_client *observer = library_observer(client);
    struct muster_error err;
    const struct muster_member *member;
    muster_members *members = NULL;
    muster_rounds *open_rounds = NULL;

    (void)state;
    library_ok(muster_member_list(observer, LIMIT_MS, &members, &err), &err);
    assert_int_equal(muster_members_count(members), 1);
    member = muster_members_get(members, 0);
    assert_int_equal(member->pid, getpid());
    assert_int_equal(member->role, MUSTER_ROLE_RANK);
    assert_int_equal(member->state, MUSTER_MEMBER_PRESENT);
    assert_int_equal(member->rank, 0);
    assert_true(member->host[0] != '\0');
    assert_null(muster_members_get(members, 1));
    muster_members_free(members);
    library_ok(muster_round_list(observer, LIMIT_MS, &open_rounds, &err), &err);
    assert_int_equal(muster_rounds_count(open_rounds), 0);
    muster_rounds_free(open_rounds);
    assert_int_equal(muster_barrier_wait(observer, "b", LIMIT_MS, &err), MUSTER_EINVAL);
    assert_string_equal(err.text,
                        "barrier 'b': this client is in no generation, so it has no rounds");
    muster_client_close(observer);
    muster_client_close(client);
}

/* A watch begins. First it shows what is there, then what comes. [watches / Watches] */
static void a_watch_follows_keys(void **state)
{
    muster_client *client = library_alone();
    struct muster_watch_options options = MUSTER_WATCH_OPTIONS_INIT;
    struct muster_error err;
    struct muster_event event;
    muster_watch *watch = NULL;

    (void)state;
    options.prefix = "w/";
    library_ok(muster_key_put(client, "w/old", bytes_of("0"), NULL, LIMIT_MS, NULL, &err), &err);
    library_ok(muster_watch_open(&watch, client, &options, &err), &err);
    library_ok(muster_watch_next(watch, LIMIT_MS, &event, &err), &err);
    assert_int_equal(event.type, MUSTER_EVENT_KEY);
    assert_string_equal(event.key, "w/old");
    assert_string_equal(event.value.data, "0");
    assert_int_equal(muster_watch_next(watch, 20, &event, &err), MUSTER_ETIMEDOUT);
    assert_string_equal(err.text, "watch: timed out");
    for (int i = 0; i < 5; i++) {
        library_ok(muster_key_add(client, "w/n", 1, NULL, LIMIT_MS, NULL, &err), &err);
    }
    library_ok(muster_key_put(client, "other", bytes_of("0"), NULL, LIMIT_MS, NULL, &err), &err);
    library_ok(muster_key_delete(client, "w/old", NULL, LIMIT_MS, &err), &err);
    library_ok(muster_watch_next(watch, LIMIT_MS, &event, &err), &err);
    assert_string_equal(event.key, "w/n"); /* once, and as it is */
    assert_string_equal(event.value.data, "5");
    library_ok(muster_watch_next(watch, LIMIT_MS, &event, &err), &err);
    assert_int_equal(event.type, MUSTER_EVENT_DELETED);
    assert_string_equal(event.key, "w/old");
    muster_watch_close(watch);
    muster_client_close(client);
}

/* Ranks of the job are missing. A join ends with ETIMEDOUT, naming them. */
static void a_join_names_who_is_missing(void **state)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    struct muster_error err;
    muster_client *client = (muster_client *)1;
    muster_client *first = library_alone();

    (void)state;
    options.addr = first->addr;
    options.job = "two";
    options.size_of_job = 2;
    assert_int_equal(muster_client_open(&client, &options, PATIENCE_MS, &err), MUSTER_ETIMEDOUT);
    assert_null(client);
    assert_said_after(err.text, "join job 'two', after ",
                      " s: 1 of 2 ranks are ready; missing #1 (never started)");
    muster_client_close(first);
}

/* An address is given and no service is there. The open fails with EUNREACHABLE, that address
 * and what the system said; it never becomes a job of one. */
static void nobody_at_the_address(void **state)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    struct muster_error err;
    muster_client *client = NULL;

    (void)state;
    options.addr = "unix:/nonexistent/muster.sock";
    assert_int_equal(muster_client_open(&client, &options, PATIENCE_MS, &err), MUSTER_EUNREACHABLE);
    assert_said_after(
        err.text, "open: no service at unix:/nonexistent/muster.sock after ",
        " s (connecting to unix:/nonexistent/muster.sock: No such file or directory); "
        "is `muster serve` running there?");
}

/* The service of a program started alone does not start. The open fails with EUNREACHABLE and
 * how the service ended, at once; when the program ignores SIGCHLD or reaps all children itself,
 * with the fact that it did. */
static void a_service_that_does_not_start(void **state)
{
    const char *set = getenv("MUSTER_PROGRAM");
    char *program = strdup(set ? set : "muster");
    struct muster_error err;
    muster_client *client = NULL;

    (void)state;
    assert_non_null(program);
    assert_int_equal(setenv("MUSTER_PROGRAM", "/bin/false", 1), 0);
    assert_int_equal(muster_client_open(&client, NULL, -1, &err), MUSTER_EUNREACHABLE);
    assert_string_equal(err.text, "open: the service that was started for this process alone ended "
                                  "with status 1; its messages are on stderr");
    (void)signal(SIGCHLD, SIG_IGN);
    assert_int_equal(muster_client_open(&client, NULL, -1, &err), MUSTER_EUNREACHABLE);
    assert_string_equal(err.text, "open: the service that was started for this process alone "
                                  "ended; its messages are on stderr");
    (void)signal(SIGCHLD, SIG_DFL);
    assert_int_equal(setenv("MUSTER_PROGRAM", program, 1), 0);
    free(program);
}

static bool none_is_open(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (write(fd, "words", 5) != -1) {
            return false;
        }
    }
    return true;
}

/* A helper watches, to which there is a connection as well. */
static muster_status look_in_the_function(muster_restart *restart, void *arg)
{
    (void)restart;
    *(bool *)arg = none_is_open();
    return MUSTER_OK;
}

/* In a process without 0, 1 and 2: what is printed goes into nothing of the library's, and streams
 * that are opened later take nothing of it away. Which step failed. */
static int live_without_streams(void)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    muster_client *client = NULL;
    muster_client *other = NULL;
    bool none = false;

    (void)close(STDIN_FILENO);
    (void)close(STDOUT_FILENO);
    (void)close(STDERR_FILENO);
    if (muster_client_open(&client, NULL, LIMIT_MS, NULL) != MUSTER_OK) {
        return 1;
    }
    options.role = MUSTER_ROLE_OBSERVER;
    options.addr = client->addr;
    options.job = client->job;
    if (muster_client_open(&other, &options, LIMIT_MS, NULL) != MUSTER_OK) {
        return 2;
    }
    if (!none_is_open() ||
        muster_restart_run(client, NULL, look_in_the_function, &none, NULL) != MUSTER_OK || !none) {
        return 3;
    }
    if (muster_key_put(client, "k", bytes_of("x"), NULL, LIMIT_MS, NULL, NULL) != MUSTER_OK) {
        return 4;
    }
    muster_client_close(other);
    muster_client_close(client);
    return 0;
}

/* A program has closed its standard streams. None of the library's descriptors gets their
 * numbers: what the program prints goes into no connection, and ends no service of its own. */
static void a_program_that_closed_its_streams(void **state)
{
    int how = 0;
    pid_t child = fork();

    (void)state;
    assert_true(child >= 0);
    if (child == 0) {
        _exit(live_without_streams());
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
}

/* Options are not initialised, or made for a newer library, or the environment holds nonsense.
 * The open fails with EINVAL, and the line says what to do. */
static void bad_options(void **state)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    struct muster_error err;
    muster_client *client = NULL;

    (void)state;
    options.size = 0;
    assert_int_equal(muster_client_open(&client, &options, 100, &err), MUSTER_EINVAL);
    assert_string_equal(err.text,
                        "open: options.size is not set; begin with MUSTER_CLIENT_OPTIONS_INIT");
    options.size = sizeof(options) + 8;
    assert_int_equal(muster_client_open(&client, &options, 100, &err), MUSTER_EINVAL);
    assert_string_equal(err.text,
                        "open: the program was built for a newer libmuster than this one, "
                        "which is version 0.1; install the newer one");
    options.size = sizeof(options);
    options.version = MUSTER_VERSION + 1;
    assert_int_equal(muster_client_open(&client, &options, 100, &err), MUSTER_EINVAL);
    options.version = MUSTER_VERSION;
    options.addr = "10.1.1.1:5";
    assert_int_equal(muster_client_open(&client, &options, 100, &err), MUSTER_EINVAL);
    options.addr = NULL;
    options.role = MUSTER_ROLE_OBSERVER;
    assert_int_equal(muster_client_open(&client, &options, 100, &err), MUSTER_EINVAL);
    assert_string_equal(err.text, "open: no address of a service: set MUSTER_ADDR or options.addr "
                                  "(unix:/path or HOST:PORT)");
    options.role = MUSTER_ROLE_RANK;
    assert_int_equal(setenv("MUSTER_SIZE", "four", 1), 0);
    assert_int_equal(muster_client_open(&client, &options, 100, &err), MUSTER_EINVAL);
    assert_string_equal(err.text, "environment: setting size: 'four' is no number from 0 to "
                                  "1000000");
    assert_int_equal(unsetenv("MUSTER_SIZE"), 0);
    options.join_wait_ms = INT64_MAX; /* in nanoseconds it would be a moment of the past */
    assert_int_equal(muster_client_open(&client, &options, 100, &err), MUSTER_EINVAL);
    assert_string_equal(err.text, "join_wait: 9223372036854775807 is not from 0 to 86400000");
    assert_int_equal(muster_client_open(NULL, NULL, 100, &err), MUSTER_EINVAL);
    assert_int_equal(muster_key_put(NULL, "k", bytes_of("x"), NULL, 1, NULL, &err), MUSTER_EINVAL);
    assert_string_equal(err.text, "put 'k': the client is NULL");
    muster_client_close(NULL);
}

/* The process forks. The child's calls are refused and it can close, which closes its copies of
 * the descriptors, that of a secret too; the parent's client goes on. */
static void a_forked_child_has_no_client(void **state)
{
    muster_client *client = library_alone();
    struct muster_error err;
    int how = 0;
    int secret;
    pid_t child;

    (void)state;
    client->secret_fd = open("/dev/null", O_RDONLY | O_CLOEXEC); /* as with one from a pipe */
    secret = client->secret_fd;
    assert_true(secret >= 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool good =
            muster_key_put(client, "k", bytes_of("x"), NULL, -1, NULL, &err) == MUSTER_EINVAL &&
            strcmp(err.text, "put 'k': this client belongs to the parent process; after fork, open "
                             "one of its own") == 0;

        muster_client_close(client);
        _exit(good && fcntl(secret, F_GETFD) < 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(how, 0);
    library_ok(muster_key_put(client, "k", bytes_of("x"), NULL, LIMIT_MS, NULL, &err), &err);
    muster_client_close(client);
}

/* A member has left. Every later call says so. */
static void leaving_is_final(void **state)
{
    muster_client *client = library_alone();
    struct muster_error err;

    (void)state;
    library_ok(muster_member_leave(client, LIMIT_MS, &err), &err);
    assert_int_equal(muster_key_put(client, "k", bytes_of("x"), NULL, LIMIT_MS, NULL, &err),
                     MUSTER_ECANCELLED);
    assert_string_equal(err.text, "put 'k': this member has left the job");
    muster_client_close(client);
}

/* A value is large, up to the limit. It is written and read; a larger one is refused with the
 * limit. [keys / Limits] */
static void values_may_be_large(void **state)
{
    muster_client *client = library_alone();
    struct muster_slice large = {.size = 1048576};
    struct muster_error err;
    muster_value *value = NULL;
    char *bytes = malloc(20000000);

    (void)state;
    assert_non_null(bytes);
    memset(bytes, 'x', 20000000);
    large.data = bytes;
    library_ok(muster_key_put(client, "l", large, NULL, LIMIT_MS, NULL, &err), &err);
    library_ok(muster_key_get(client, "l", NULL, 0, &value, &err), &err);
    assert_int_equal(muster_value_size(value), 1048576);
    muster_value_free(value);
    large.size++;
    assert_int_equal(muster_key_put(client, "l", large, NULL, LIMIT_MS, NULL, &err), MUSTER_ELIMIT);
    assert_string_equal(
        err.text, "put 'l': over --value-bytes-max of the service (a value): 1048577 bytes asked "
                  "for, at most 1048576; raise it at `muster serve`, or ask for less");
    large.size = 20000000; /* larger than a frame: it is not even sent */
    assert_int_equal(muster_key_put(client, "l", large, NULL, LIMIT_MS, NULL, &err), MUSTER_ELIMIT);
    assert_string_equal(
        err.text, "put 'l': 20000000 bytes, and a message to this service has at most 17825792 "
                  "(--frame-bytes-max of `muster serve`); raise it there, or send less at once");
    library_ok(muster_key_put(client, "l", bytes_of("x"), NULL, LIMIT_MS, NULL, &err), &err);
    free(bytes);
    muster_client_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_of_one),
        cmocka_unit_test(keys),
        cmocka_unit_test(ages_of_keys),
        cmocka_unit_test(many_keys),
        cmocka_unit_test(a_batch_is_applied_whole),
        cmocka_unit_test(keys_of_a_generation),
        cmocka_unit_test(owned_keys_go_with_their_owner),
        cmocka_unit_test(rounds),
        cmocka_unit_test(who_is_here),
        cmocka_unit_test(a_watch_follows_keys),
        cmocka_unit_test(a_join_names_who_is_missing),
        cmocka_unit_test(nobody_at_the_address),
        cmocka_unit_test(a_service_that_does_not_start),
        cmocka_unit_test(a_program_that_closed_its_streams),
        cmocka_unit_test(bad_options),
        cmocka_unit_test(a_forked_child_has_no_client),
        cmocka_unit_test(leaving_is_final),
        cmocka_unit_test(values_may_be_large),
    };

    return cmocka_run_group_tests(tests, library_stage_setup, library_stage_teardown);
}
