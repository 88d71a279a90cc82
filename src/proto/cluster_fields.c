/* SPDX-License-Identifier: Apache-2.0 */
/* proto/cluster.proto. */
#include "proto/cluster.h"
#include "proto/field_rows.h"

#define OF struct mst_part
static const struct mst_field part_rows[] = {
    ROW(1, UINT32, type, type),
    ROW(2, BYTES, data, data),
};
#undef OF
static const struct mst_message part_message = {
    .name = "Part", ROWS(part_rows), .size = sizeof(struct mst_part)};

#define OF struct mst_failure
static const struct mst_field failure_rows[] = {
    BOUNDED(1, UINT32, origin, origin, MST_ORIGIN_FUNCTION, MST_ORIGIN_RETRYABLE,
            "an origin that does not exist:"),
    ROW(2, SINT32, code, code),
    ROW(3, PLUS_ONE, worker, worker),
    ROW(4, UINT32, attempt, attempt),
    ROW(5, UINT64, incarnation, incarnation),
    BOUNDED(6, BYTES, text, text, 0, MST_FAILURE_TEXT_MAX, "a failure whose text is too long:"),
    BOUNDED(7, BYTES, state, state, 0, MST_FAILURE_TEXT_MAX, "a failure whose state is too long:"),
};
#undef OF
static const struct mst_message failure_message = {.name = "Failure",
                                                   ROWS(failure_rows),
                                                   .size = sizeof(struct mst_failure),
                                                   .bounded = BIT(1) | BIT(6) | BIT(7),
                                                   .plus_one = BIT(3)};

#define OF struct mst_function
static const struct mst_field function_rows[] = {
    ROW(1, BYTES, name, name),
    ROW(2, UINT32, version, version),
    ROW(3, UINT32, flags, flags),
};
#undef OF
static const struct mst_message function_message = {
    .name = "Function", ROWS(function_rows), .size = sizeof(struct mst_function)};

#define OF struct mst_attempt
static const struct mst_field attempt_rows[] = {
    ROW(1, UINT64, closure, closure),
    ROW(2, UINT32, attempt, attempt),
};
#undef OF
static const struct mst_message attempt_message = {
    .name = "Attempt", ROWS(attempt_rows), .size = sizeof(struct mst_attempt)};

#define OF struct mst_cluster_message

#define ATTEMPT                                                                                    \
    ROW(1, UINT64, closure, attempt.closure), ROW(2, UINT32, attempt, attempt.attempt),            \
        ROW(3, UINT64, series, series)

#define DATA(number)                                                                               \
    PARTS(number, part, parts, parts.items, parts.count, MST_CLUSTER_PARTS_MAX,                    \
          "more parts than a message may have:")

#define FAILURES(number)                                                                           \
    CHAIN(number, failure, failures, failure, failure.origin, cause, MST_FAILURE_DEPTH_MAX,        \
          "more failures than a message may have:")

static const struct mst_field hello_rows[] = {
    ROW(1, UINT32, version, version),
    ROW(2, BYTES, cluster, cluster),
    ROW(3, UINT32, index, index),
    ROW(4, UINT64, incarnation, incarnation),
    ROW(5, UINT64, pid, pid),
    ROW(6, BYTES, host, host),
    ROW(7, UINT32, slots, slots),
    ROW(8, UINT64, term, term),
    ARRAY(9, UINT64, values, values, value_count, MST_CLUSTER_VALUES_MAX,
          "more values than a message may have:"),
    PARTS(10, function, functions, functions, function_count, MST_CLUSTER_FUNCTIONS_MAX,
          "more functions than a message may have:"),
    PARTS(11, attempt, held, held, held_count, MST_CLUSTER_HELD_MAX,
          "more held than a message may have:"),
    ROW(12, UINT64, results, results),
    ROW(13, UINT64, turn, turn),
};
static const struct mst_message hello_message = {.name = "Hello", ROWS(hello_rows)};

static const struct mst_field result_rows[] = {
    ATTEMPT,
    ROW(4, UINT64, run_ns, run_ns),
    FAILURES(5),
    DATA(6),
};
static const struct mst_message result_message = {.name = "Result", ROWS(result_rows)};

static const struct mst_field built_rows[] = {
    ROW(1, UINT64, value, value),
    FAILURES(2),
    DATA(3),
};
static const struct mst_message built_message = {.name = "Built", ROWS(built_rows)};

static const struct mst_field progress_rows[] = {
    ATTEMPT,
    ROW(4, DOUBLE, fraction, fraction),
    ROW(5, BYTES, text, text),
    ROW(6, BOOL, overdue, overdue),
};
static const struct mst_message progress_message = {.name = "Progress", ROWS(progress_rows)};

static const struct mst_field log_rows[] = {
    ATTEMPT,
    ROW(4, BYTES, text, text),
};
static const struct mst_message log_message = {.name = "Log", ROWS(log_rows)};

static const struct mst_message nothing_message = {.name = "Nothing"};

static const struct mst_field welcome_rows[] = {
    ROW(1, UINT64, term, term),
    ROW(2, UINT32, worker, worker),
    ROW(3, UINT64, results, results),
    ROW(4, UINT64, grace_ms, left_ms),
};
static const struct mst_message welcome_message = {.name = "Welcome", ROWS(welcome_rows)};

static const struct mst_field refused_rows[] = {
    ROW(1, UINT64, term, term),
    BOUNDED(2, SINT32, status, status, INT32_MIN, -1, "refused with a status that is no error:"),
    ROW(3, BYTES, text, text),
};
static const struct mst_message refused_message = {
    .name = "Refused", ROWS(refused_rows), .bounded = BIT(2)};

static const struct mst_field run_rows[] = {
    ATTEMPT,
    ROW(4, UINT32, function, function),
    ROW(5, BYTES, key, key),
    ROW(6, UINT64, run_limit_ms, run_limit_ms),
    ROW(7, UINT64, left_ms, left_ms),
    ARRAY(8, UINT64, needs, needs, need_count, MST_CLUSTER_PARTS_MAX,
          "more needs than a message may have:"),
    DATA(9),
};
static const struct mst_message run_message = {.name = "Run", ROWS(run_rows)};

static const struct mst_field cancel_rows[] = {
    ATTEMPT,
    ROW(4, UINT64, grace_ms, left_ms),
};
static const struct mst_message cancel_message = {.name = "Cancel", ROWS(cancel_rows)};

static const struct mst_field take_back_rows[] = {
    ATTEMPT,
};
static const struct mst_message take_back_message = {.name = "TakeBack", ROWS(take_back_rows)};

static const struct mst_field build_rows[] = {
    ROW(1, UINT64, value, value),
    ROW(2, UINT32, function, function),
    DATA(3),
};
static const struct mst_message build_message = {.name = "Build", ROWS(build_rows)};

static const struct mst_field drop_rows[] = {
    ROW(1, UINT64, value, value),
};
static const struct mst_message drop_message = {.name = "Drop", ROWS(drop_rows)};

static const struct mst_field message_rows[] = {
    CASE(MST_CLUSTER_HELLO, hello, hello),
    CASE(MST_CLUSTER_RESULT, result, result),
    CASE(MST_CLUSTER_BUILT, built, built),
    CASE(MST_CLUSTER_PROGRESS, progress, progress),
    CASE(MST_CLUSTER_LOG, log, log),
    CASE(MST_CLUSTER_DRAINING, nothing, draining),
    CASE(MST_CLUSTER_WELCOME, welcome, welcome),
    CASE(MST_CLUSTER_REFUSED, refused, refused),
    CASE(MST_CLUSTER_RUN, run, run),
    CASE(MST_CLUSTER_CANCEL, cancel, cancel),
    CASE(MST_CLUSTER_TAKE_BACK, take_back, take_back),
    CASE(MST_CLUSTER_BUILD, build, build),
    CASE(MST_CLUSTER_DROP, drop, drop),
    CASE(MST_CLUSTER_DRAIN, nothing, drain),
};
static const struct mst_field message_which = {
    FIELD(0, ENUM, body, type), .complaint = "a message of a type that does not exist:"};

const struct mst_message mst_cluster_fields = {
    .name = "Message",
    ROWS(message_rows),
    .size = sizeof(struct mst_cluster_message),
    .which = &message_which,
    .body = offsetof(struct mst_cluster_message, version),
    .body_size = sizeof(struct mst_cluster_message) - offsetof(struct mst_cluster_message, version),
};
