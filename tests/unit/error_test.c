/* SPDX-License-Identifier: Apache-2.0 */
/* The lines that people read when a call failed.
 *
 * behaviour: library / Reading the errors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/shell/internal.h"
#include "proto/limit_kinds.h"

static void says(const char *what, struct mst_reply reply, const char *line)
{
    struct muster_error err = {0};

    assert_int_equal(mst_lib_fail(&err, reply.status, what, &reply), reply.status);
    assert_int_equal(err.status, reply.status);
    assert_string_equal(err.text, line);
    assert_int_equal(mst_lib_fail(NULL, reply.status, what, &reply), reply.status);
}

static struct mst_who who_is(uint32_t rank, uint32_t index, enum mst_state state)
{
    return (struct mst_who){
        .rank = rank, .index = index, .state = state, .host = mst_slice_text("b3")};
}

/* A barrier or a join timed out. The line says how many came, and which are missing: rank,
 * index, state, node. */
static void a_barrier_that_timed_out(void **state)
{
    struct mst_reply reply = {.command = MST_ROUND, .status = MUSTER_ETIMEDOUT, .has_detail = true};

    (void)state;
    reply.detail.arrived = 62;
    reply.detail.expected = 64;
    reply.detail.lost = 1;
    reply.detail.missing = 1;
    reply.detail.who_count = 2;
    reply.detail.who[0] = who_is(12, 12, MST_LEFT);
    reply.detail.who[1] = who_is(7, 9, MST_SILENT);
    reply.detail.who[1].heard_ms = 12400;
    says("barrier 'after-load', after 30.0 s", reply,
         "barrier 'after-load', after 30.0 s: 62 of 64 arrived; missing rank 12 (#12, left, node "
         "b3), rank 7 (#9, silent 12.4 s, node b3)");
    reply.detail.missing = 10;
    reply.detail.who[0] = who_is(1, 1, MST_STATE_LOST);
    reply.detail.who[0].cause = MST_CAUSE_SIGNAL;
    reply.detail.who[0].code = 9;
    says("barrier 'b'", reply,
         "barrier 'b': 62 of 64 arrived; missing rank 1 (#1, killed by signal 9, node b3), rank 7 "
         "(#9, silent 12.4 s, node b3) and 9 more");
}

/* A join timed out. The line says how many are ready and which places are missing.
 * [generations / The first one] */
static void a_join_that_timed_out(void **state)
{
    struct mst_reply reply = {.command = MST_JOIN, .status = MUSTER_ETIMEDOUT, .has_detail = true};

    (void)state;
    reply.detail.arrived = 3;
    reply.detail.expected = 4;
    reply.detail.missing = 1;
    reply.detail.who_count = 1;
    reply.detail.who[0] = (struct mst_who){.rank = MST_RANK_NONE, .index = 2, .state = MST_ABSENT};
    says("join job 'j', after 30.0 s", reply,
         "join job 'j', after 30.0 s: 3 of 4 ranks are ready; missing #2 (never started)");
}

/* A participant was lost. The line has the cause: status, signal, silence, a reported fault,
 * evicted, left. */
static void causes_of_a_loss(void **state)
{
    static const struct {
        enum mst_cause cause;
        const char *line;
    } table[] = {
        {MST_CAUSE_NONE, "a: a participant was lost: rank 1 (#1, lost, node b3)"},
        {MST_CAUSE_EXIT, "a: a participant was lost: rank 1 (#1, ended with status 3, node b3)"},
        {MST_CAUSE_SIGNAL, "a: a participant was lost: rank 1 (#1, killed by signal 3, node b3)"},
        {MST_CAUSE_GONE, "a: a participant was lost: rank 1 (#1, gone, status unknown, node b3)"},
        {MST_CAUSE_LEASE,
         "a: a participant was lost: rank 1 (#1, silent for longer than the lease, node b3)"},
        {MST_CAUSE_FAULT, "a: a participant was lost: rank 1 (#1, failed: code 3, node b3)"},
        {MST_CAUSE_EVICTED,
         "a: a participant was lost: rank 1 (#1, did not come to the restart in time, node b3)"},
        {MST_CAUSE_LEFT, "a: a participant was lost: rank 1 (#1, left, node b3)"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct mst_reply reply = {.command = MST_ROUND, .status = MUSTER_ELOST, .has_detail = true};

        reply.detail.who_count = 1;
        reply.detail.who[0] = who_is(1, 1, MST_STATE_LOST);
        reply.detail.who[0].cause = table[i].cause;
        reply.detail.who[0].code = 3;
        says("a", reply, table[i].line);
    }
}

/* A place is held. The line says by which process, on which node, when last heard, and what to
 * do. */
static void a_place_that_is_held(void **state)
{
    struct mst_reply reply = {.command = MST_JOIN, .status = MUSTER_EEXISTS, .has_detail = true};

    (void)state;
    reply.detail.who_count = 1;
    reply.detail.who[0] = who_is(1, 2, MST_PRESENT);
    reply.detail.who[0].pid = 4711;
    reply.detail.who[0].heard_ms = 230;
    says("join job 'j'", reply,
         "join job 'j': #2 is held by process 4711 on b3, heard 0.2 s ago; stop that process, or "
         "take another index");
    reply.has_detail = false;
    says("join job 'j'", reply, "join job 'j': the place is held by a living process");
}

/* A request is over a limit. The line has the flag or the setting, what was asked for, the
 * limit, and what to do. A service that does not say which limit is quoted with its number. */
static void limits(void **state)
{
    static const struct {
        uint32_t kind;
        const char *line;
    } table[] = {
        {MST_LIMIT_VALUE_BYTES, "a: over --value-bytes-max of the service (a value): 9 bytes asked "
                                "for, at most 8; raise it at `muster serve`, or ask for less"},
        {MST_LIMIT_KEYS,
         "a: over --keys-max of the service (keys of one job): 9 asked for, at most "
         "8; raise it at `muster serve`, or ask for less"},
        {MST_LIMIT_SIZE, "a: over the job's size (ranks): 9 asked for, at most 8; let one of its "
                         "ranks end, or give the job a max_size above it for spares"},
        {MST_LIMIT_MAX_SIZE, "a: over the job's max_size (ranks in an order): 9 asked for, at most "
                             "8; give a shorter order, or a larger max_size"},
        {MST_LIMIT_UNANSWERED, "a: over the service's limit of requests ahead of the oldest "
                               "unanswered one: 9 asked for, at most 8; await answers first"},
        {MST_LIMIT_WAITING, "a: over the service's limit of gets, waits and watches of one client "
                            "that wait: 9 asked for, at most 8; let some end first"},
        {MST_LIMIT_AWAITED_KEYS, "a: over the service's limit of keys that one client's gets and "
                                 "waits wait for: 9 asked for, at most 8; let some come first, or "
                                 "wait for fewer"},
        {MST_LIMIT_WAITING_BYTES,
         "a: over --waiting-bytes-max of the service (memory of the gets, waits and watches of one "
         "connection that wait): 9 bytes asked for, at most 8; raise it at `muster serve`, or ask "
         "for less"},
        {MST_LIMIT_CUT_MS, "a: over the longest cut of a network (ms): 9 asked for, at most 8; ask "
                           "for less"},
        {MST_LIMIT_UNSAID, "a: over a limit of the service: 8"}, /* an older service */
        {4000000000, "a: over a limit of the service: 8"},       /* a newer one */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct mst_reply reply = {
            .command = MST_WRITE, .status = MUSTER_ELIMIT, .has_detail = true};

        reply.detail.limit = 8;
        reply.detail.asked = 9;
        reply.detail.limit_kind = table[i].kind;
        says("a", reply, table[i].line);
    }
}

/* Every limit has words, so that a new row without any is found. */
static void no_limit_is_without_words(void **state)
{
    (void)state;
#define X(name, number, origin, setting)                                                           \
    {                                                                                              \
        struct mst_reply reply = {.status = MUSTER_ELIMIT, .has_detail = true};                    \
        struct muster_error err;                                                                   \
                                                                                                   \
        reply.detail.limit_kind = (number);                                                        \
        (void)mst_lib_fail(&err, MUSTER_ELIMIT, "a", &reply);                                      \
        assert_null(strstr(err.text, "over a limit"));                                             \
        assert_non_null(strstr(err.text, ": 0 "));                                                 \
    }
#include "proto/limit_kinds.def"
#undef X
}

/* An error has a limit, sizes, or the number of a round. They are in the line. */
static void numbers(void **state)
{
    struct mst_reply reply = {.command = MST_WRITE, .status = MUSTER_ELIMIT, .has_detail = true};

    (void)state;
    reply.detail.limit = 1048576;
    says("put 'k'", reply, "put 'k': over a limit of the service: 1048576");
    reply.has_detail = false;
    says("put 'k'", reply,
         "put 'k': larger than a message to this service may be (--frame-bytes-max of `muster "
         "serve`); raise it there, or send less at once");
    reply = (struct mst_reply){.command = MST_ROUND, .status = MUSTER_ETOOFEW, .has_detail = true};
    reply.detail.arrived = 1;
    reply.detail.limit = 2;
    says("run", reply, "run: 1 rank is left, min_size is 2");
    reply.detail.arrived = 2;
    reply.detail.limit = 4;
    says("run", reply, "run: 2 ranks are left, min_size is 4");
    reply.detail.multiple = 3;
    reply.detail.limit = 1;
    says("run", reply,
         "run: the job continues with a multiple of 3 ranks (size_multiple), at least min_size 1, "
         "but only 2 ranks are left");
    reply = (struct mst_reply){.command = MST_OPEN, .status = MUSTER_EINVAL, .has_detail = true};
    reply.detail.limit = 4;
    says("open", reply,
         "open: refused by the service: the job was given other values of size, min_size, "
         "max_size, size_multiple or join_wait, or together they allow no number of ranks, or a "
         "name or index makes no sense (the job has 4)");
    reply = (struct mst_reply){.command = MST_ROUND, .status = MUSTER_ESTALE, .has_detail = true};
    reply.detail.limit = 5;
    says("round 'r'", reply,
         "round 'r': this round is over and its result no longer kept; the service is at number 5");
    reply.status = MUSTER_EINVAL;
    reply.detail.who_count = 1;
    reply.detail.who[0] = who_is(0, 0, MST_PRESENT);
    says("round 'r'", reply,
         "round 'r': refused: other parameters than the first caller's, or a number that is not "
         "the next; the service is at number 5 with rank 0 (#0, present, node b3)");
}

static void a_disk_that_is_full(void **state)
{
    struct mst_reply reply = {.command = MST_WRITE, .status = MUSTER_ENOSPACE};

    (void)state;
    says("put 'k'", reply,
         "put 'k': the service cannot keep it: no space left for what must be kept");
    reply.value = mst_slice_text("journal /var/muster: No space left on device");
    says("put 'k'", reply,
         "put 'k': the service cannot keep it: journal /var/muster: No space left on device");
}

/* A call fails. One line says what was attempted, what happened and what it means. */
static void plain_ones(void **state)
{
    static const struct {
        enum mst_command command;
        muster_status status;
        const char *line;
    } table[] = {
        {MST_GET, MUSTER_ENOTFOUND, "x: no such key"},
        {MST_GET, MUSTER_ETIMEDOUT, "x: timed out; no value was written"},
        {MST_WRITE, MUSTER_ETIMEDOUT, "x: timed out"},
        {MST_WRITE, MUSTER_EEXISTS, "x: the key exists already"},
        {MST_WRITE, MUSTER_ECONFLICT, "x: another client changed the key"},
        {MST_WRITE, MUSTER_ERANGE, "x: number out of range"},
        {MST_ROUND, MUSTER_EFENCED, "x: the generation is over"},
        {MST_ROUND, MUSTER_EMISMATCH, "x: refused: another rank has given the order of this seal"},
        {MST_WRITE, MUSTER_EFENCED, "x: this process was replaced; the job continues without it"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        says("x", (struct mst_reply){.command = table[i].command, .status = table[i].status},
             table[i].line);
    }
}

/* An error is made in the library itself. One line says what was attempted, what happened and
 * what it means. */
static void made_here(void **state)
{
    struct muster_error err;

    (void)state;
    (void)mst_lib_fail(&err, MUSTER_EDEADLK, "put 'k'", NULL);
    assert_string_equal(
        err.text, "put 'k': called from a callback of the same client, it would wait for itself");
    (void)mst_lib_fail(&err, MUSTER_EINTERRUPTED, "put 'k'", NULL);
    assert_string_equal(
        err.text, "put 'k': interrupted, the job restarts: clean up and return from the function");
    (void)mst_lib_fail(&err, MUSTER_ENOMEM, "put 'k'", NULL);
    assert_string_equal(err.text, "put 'k': out of memory");
}

/* A hostile or huge name is part of an error. It stays one line, and a cut is marked. */
static void one_line(void **state)
{
    struct mst_reply reply = {.command = MST_ROUND, .status = MUSTER_ELOST, .has_detail = true};
    struct muster_error err;
    static char host[200];

    (void)state;
    for (size_t i = 0; i < sizeof(host); i++) {
        host[i] = '\n';
    }
    reply.detail.who_count = MST_NAMES_MAX;
    for (size_t i = 0; i < MST_NAMES_MAX; i++) {
        reply.detail.who[i] = who_is(1, 1, MST_PRESENT);
        reply.detail.who[i].host = mst_slice_of(host, sizeof(host));
    }
    (void)mst_lib_fail(&err, MUSTER_ELOST, "round", &reply);
    assert_null(strchr(err.text, '\n'));
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
    assert_string_equal(err.text + sizeof(err.text) - 4, "...");
}

/* A program was built when an error had no `why`: its last bytes were part of the text. Size and
 * place of the text are as before, and a text never reaches those bytes. */
static void the_reason_of_a_run_takes_no_room(void **state)
{
    struct muster_error err = {.why = MUSTER_WHY_SUSPECT};
    char line[sizeof(err)];

    (void)state;
    memset(line, 'x', sizeof(line) - 1);
    line[sizeof(line) - 1] = '\0';
    assert_int_equal(sizeof(err), 496);
    assert_int_equal(offsetof(struct muster_error, text), 8);
    assert_int_equal(offsetof(struct muster_error, why), 492);
    assert_int_equal(mst_fail(&err, MUSTER_EINVAL, 0, "%s", line), MUSTER_EINVAL);
    assert_int_equal(err.why, MUSTER_WHY_STATUS);
    assert_int_equal(strlen(err.text), 483);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_barrier_that_timed_out),
        cmocka_unit_test(a_join_that_timed_out),
        cmocka_unit_test(causes_of_a_loss),
        cmocka_unit_test(a_place_that_is_held),
        cmocka_unit_test(limits),
        cmocka_unit_test(no_limit_is_without_words),
        cmocka_unit_test(numbers),
        cmocka_unit_test(a_disk_that_is_full),
        cmocka_unit_test(plain_ones),
        cmocka_unit_test(made_here),
        cmocka_unit_test(one_line),
        cmocka_unit_test(the_reason_of_a_run_takes_no_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
