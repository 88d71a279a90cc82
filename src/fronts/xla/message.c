/* SPDX-License-Identifier: Apache-2.0 */
#include "fronts/xla/message.h"

#include "proto/field_rows.h"

enum { X = MST_XLA_X, T = MST_XLA_T };

/* NOLINTBEGIN(bugprone-macro-parentheses): a member takes none */
/* The first number is that of X, the second that of T; 0: it has no such field. */
#define BOTH(x, t, TYPE, title, member)                                                            \
    [X][x] = {FIELD(x, TYPE, title, member)}, [T][t] = {FIELD(t, TYPE, title, member)}
#define BOTH_PART(x, t, kind, title, member)                                                       \
    [X][x] = {MST_PART(x, kind, title), .offset = offsetof(OF, member), MST_PROBE_NONE},           \
    [T][t] = {MST_PART(t, kind, title), .offset = offsetof(OF, member), MST_PROBE_NONE}
#define BOTH_PARTS(x, t, kind, title, member, length)                                              \
    [X][x] = {MST_PART(x, kind, title), MST_ARRAY(member, length, 0, NULL)}, [T][t] = {            \
                                                                                 MST_PART(t, kind, \
                                                                                          title),  \
                                                                                 MST_ARRAY(member, \
                                                                                           length, \
                                                                                           0,      \
                                                                                           NULL)}
/* A task: a number in X, a message in T. */
#define TASK(x, t, title, member)                                                                  \
    [X][x] = {FIELD(x, UINT32, title, member.id)}, [T][t] = {MST_PART(t, place, title),            \
                                                             .offset = offsetof(OF, member),       \
                                                             MST_PROBE_NONE}
#define TASKS(x, t, title, numbers, length, places, place_length)                                  \
    [X][x] = {.name = #title,                                                                      \
              .type = MST_FIELD_ARRAY,                                                             \
              .item = MST_FIELD_UINT32,                                                            \
              .tag = (x) << 3 | MST_WIRE_BYTES,                                                    \
              MST_ARRAY(numbers, length, 0, NULL)},                                                \
    [T][t] = {MST_PART(t, place, title), MST_ARRAY(places, place_length, 0, NULL)}
#define INCARNATIONS                                                                               \
    [X][1] = {MST_PART(1, incarnations, incarnations), .offset = offsetof(OF, incarnations),       \
              MST_PROBE_NONE}

#define LAST(rows) .last = sizeof(rows) / sizeof((rows)[0]) - 1
#define OF_WIRE(title, rows, wire)                                                                 \
    {                                                                                              \
        .name = title, .fields = (rows)[wire], LAST((rows)[wire]), .size = sizeof(OF)              \
    }
#define OF_WIRES(title, rows)                                                                      \
    {                                                                                              \
        OF_WIRE(title, rows, X), OF_WIRE(title, rows, T)                                           \
    }

/* NOLINTEND(bugprone-macro-parentheses) */

#define OF struct mst_xla_place
static const struct mst_field place_rows[] = {
    ROW(1, STRING, job_name, job),
    ROW(2, UINT32, task_id, id),
    ROW(3, BOOL, recoverable, recoverable),
};
static const struct mst_message place_message = {
    .name = "CoordinatedTask", ROWS(place_rows), .size = sizeof(OF)};
#undef OF

#define OF struct mst_xla_entry
static const struct mst_field entry_rows[] = {
    ROW(1, STRING, key, key),
    ROW(2, BYTES, value, value),
};
static const struct mst_message entry_message = {
    .name = "KeyValueEntry", ROWS(entry_rows), .size = sizeof(OF)};
#undef OF

/* ---- errors ---- */

#define OF struct mst_xla_origin
static const struct mst_field origin_rows[MST_XLA_WIRES][5] = {
    BOTH(3, 3, BOOL, is_reported_error, reported),
    TASK(4, 4, source_task, source),
};
const struct mst_message mst_xla_origin_fields[] =
    OF_WIRES("CoordinationServiceError", origin_rows);
#undef OF

#define OF struct mst_xla_payloads
static const struct mst_field payloads_rows[] = {
    PARTS(1, entry, payloads, entries, count, 0, NULL),
};
const struct mst_message mst_xla_payloads_fields = {
    .name = "GrpcPayloadContainer", ROWS(payloads_rows), .size = sizeof(OF)};
#undef OF

#define OF struct mst_xla_barrier_error
static const struct mst_field barrier_error_rows[] = {
    ROW(1, STRING, barrier_id, name),
    ROW(2, UINT64, counter, counter),
};
const struct mst_message mst_xla_barrier_error_fields = {
    .name = "BarrierError", ROWS(barrier_error_rows), .size = sizeof(OF)};
#undef OF

#define OF struct mst_xla_mismatch
static const struct mst_field mismatch_rows[] = {
    ROW(1, FIXED64, service_incarnation, incarnation),
};
const struct mst_message mst_xla_mismatch_fields = {
    .name = "ServiceMismatchError", ROWS(mismatch_rows), .size = sizeof(OF)};
#undef OF

/* ---- requests ---- */

#define OF struct mst_xla_incarnations
static const struct mst_field incarnations_rows[] = {
    ROW(2, FIXED64, task_incarnation, task),
    ROW(3, FIXED64, service_incarnation, service),
};
static const struct mst_message incarnations_message = {
    .name = "Incarnations", ROWS(incarnations_rows), .size = sizeof(OF)};
#undef OF

#define OF struct mst_xla_request
static const struct mst_field register_rows[MST_XLA_WIRES][6] = {
    BOTH(3, 3, FIXED64, incarnation, incarnation),
    TASK(5, 5, source_task, source),
};
static const struct mst_field heartbeat_rows[MST_XLA_WIRES][5] = {
    INCARNATIONS,
    BOTH(2, 3, FIXED64, incarnation, incarnation),
    TASK(3, 4, source_task, source),
};
static const struct mst_field poll_rows[MST_XLA_WIRES][3] = {
    INCARNATIONS,
    TASK(2, 1, source_task, source),
};
static const struct mst_field report_rows[MST_XLA_WIRES][6] = {
    INCARNATIONS,
    [X][2] = {FIELD(2, UINT32, source_task_id, source.id)},
    [T][5] = {MST_PART(5, place, error_origin), .offset = offsetof(OF, source), MST_PROBE_NONE},
    BOTH(3, 1, UINT32, error_code, code),
    BOTH(4, 2, STRING, error_message, text),
};
static const struct mst_field watch_rows[MST_XLA_WIRES][3] = {
    INCARNATIONS,
    [T][1] = {FIELD(1, STRING, job_name, source.job)},
    BOTH(2, 2, UINT64, version_number, number),
};
static const struct mst_field insert_rows[MST_XLA_WIRES][4] = {
    INCARNATIONS,
    BOTH_PART(2, 1, entry, kv, kv),
    BOTH(3, 2, BOOL, allow_overwrite, overwrite),
};
static const struct mst_field key_rows[MST_XLA_WIRES][3] = {
    INCARNATIONS,
    BOTH(2, 1, STRING, key, key),
};
static const struct mst_field increment_rows[MST_XLA_WIRES][4] = {
    INCARNATIONS,
    BOTH(2, 1, STRING, key, key),
    BOTH(3, 2, UINT64, increment, number),
};
static const struct mst_field delete_rows[MST_XLA_WIRES][4] = {
    INCARNATIONS,
    BOTH(2, 1, STRING, key, key),
    BOTH(3, 2, BOOL, is_directory, directory),
};
static const struct mst_field barrier_rows[MST_XLA_WIRES][7] = {
    INCARNATIONS,
    BOTH(2, 1, STRING, barrier_id, key),
    BOTH(3, 2, UINT64, barrier_timeout_in_ms, timeout_ms),
    TASKS(4, 3, tasks, ids, id_count, places, place_count),
    TASK(5, 4, source_task, source),
    BOTH(6, 5, UINT64, counter, counter),
};
static const struct mst_field alive_rows[MST_XLA_WIRES][4] = {
    INCARNATIONS,
    TASK(2, 1, requesting_task, source),
    TASKS(3, 2, tasks, ids, id_count, places, place_count),
};

#undef OF

/* ---- replies ---- */

#define OF struct mst_xla_state
static const struct mst_field state_rows[MST_XLA_WIRES][7] = {
    TASK(1, 1, task, place),
    BOTH(2, 2, UINT32, state, state),
    BOTH(3, 3, UINT32, error_code, code),
    BOTH(4, 4, STRING, error_message, text),
    [X][5] = {.name = "error_payload",
              .type = MST_FIELD_MESSAGE,
              .tag = 5 << 3 | MST_WIRE_BYTES,
              .message = &mst_xla_origin_fields[X],
              .offset = offsetof(OF, origin),
              .count = MST_PLACE(has_origin, sizeof(bool)),
              MST_PROBE(offsetof(OF, has_origin), sizeof(bool))},
    [T][5] = {.name = "error_payload",
              .type = MST_FIELD_MESSAGE,
              .tag = 5 << 3 | MST_WIRE_BYTES,
              .message = &mst_xla_origin_fields[T],
              .offset = offsetof(OF, origin),
              .count = MST_PLACE(has_origin, sizeof(bool)),
              MST_PROBE(offsetof(OF, has_origin), sizeof(bool))},
    BOTH(6, 6, FIXED64, incarnation, incarnation),
};
static const struct mst_message state_messages[] = OF_WIRES("TaskInfo", state_rows);
#undef OF

#define OF struct mst_xla_reply
static const struct mst_field nothing_rows[MST_XLA_WIRES][1];
static const struct mst_field incarnation_rows[MST_XLA_WIRES][2] = {
    BOTH(1, 1, FIXED64, service_incarnation, incarnation),
};
static const struct mst_field watched_rows[MST_XLA_WIRES][3] = {
    [X][1] = {.name = "task_state",
              .type = MST_FIELD_MESSAGE,
              .tag = 1 << 3 | MST_WIRE_BYTES,
              .message = &state_messages[X],
              MST_ARRAY(states, state_count, 0, NULL)},
    [T][1] = {.name = "task_state",
              .type = MST_FIELD_MESSAGE,
              .tag = 1 << 3 | MST_WIRE_BYTES,
              .message = &state_messages[T],
              MST_ARRAY(states, state_count, 0, NULL)},
    BOTH(2, 2, UINT64, version_number, version),
};
static const struct mst_field kv_rows[MST_XLA_WIRES][2] = {
    BOTH_PART(1, 1, entry, kv, kv),
};
static const struct mst_field listed_rows[MST_XLA_WIRES][3] = {
    BOTH_PARTS(2, 2, entry, kv, entries, entry_count),
};
static const struct mst_field counter_rows[MST_XLA_WIRES][2] = {
    BOTH(1, 1, UINT64, counter, counter),
};
static const struct mst_field living_rows[MST_XLA_WIRES][3] = {
    TASKS(1, 1, alive_tasks, ids, id_count, places, place_count),
    BOTH(2, 2, BYTES, incarnations, incarnations),
};
#undef OF

/* ---- methods ---- */

#define METHOD(METHOD, title, asked, answered)                                                     \
    [MST_XLA_##METHOD] = {.request = {{.name = title "Request",                                    \
                                       .fields = (asked)[X],                                       \
                                       LAST((asked)[X]),                                           \
                                       .size = sizeof(struct mst_xla_request)},                    \
                                      {.name = title "Request",                                    \
                                       .fields = (asked)[T],                                       \
                                       LAST((asked)[T]),                                           \
                                       .size = sizeof(struct mst_xla_request)}},                   \
                          .reply = {{.name = title "Response",                                     \
                                     .fields = (answered)[X],                                      \
                                     LAST((answered)[X]),                                          \
                                     .size = sizeof(struct mst_xla_reply)},                        \
                                    {.name = title "Response",                                     \
                                     .fields = (answered)[T],                                      \
                                     LAST((answered)[T]),                                          \
                                     .size = sizeof(struct mst_xla_reply)}}}
const struct mst_xla_messages mst_xla_messages[] = {
    METHOD(REGISTER, "RegisterTask", register_rows, incarnation_rows),
    METHOD(HEARTBEAT, "Heartbeat", heartbeat_rows, incarnation_rows),
    METHOD(POLL, "PollForError", poll_rows, nothing_rows),
    METHOD(SHUTDOWN, "ShutdownTask", poll_rows, nothing_rows),
    METHOD(REPORT, "ReportErrorToService", report_rows, nothing_rows),
    METHOD(WATCH, "WatchTasks", watch_rows, watched_rows),
    METHOD(INSERT, "InsertKeyValue", insert_rows, nothing_rows),
    METHOD(GET, "GetKeyValue", key_rows, kv_rows),
    METHOD(TRY_GET, "TryGetKeyValue", key_rows, kv_rows),
    METHOD(INCREMENT, "IncrementKeyValue", increment_rows, kv_rows),
    METHOD(LIST, "GetKeyValueDir", key_rows, listed_rows),
    METHOD(DELETE, "DeleteKeyValue", delete_rows, nothing_rows),
    METHOD(BARRIER, "Barrier", barrier_rows, counter_rows),
    METHOD(ALIVE, "GetAliveTasks", alive_rows, living_rows),
};

static const char *const names[MST_XLA_METHODS] = {
    "RegisterTask",   "Heartbeat",      "PollForError", "ShutdownTask",   "ReportErrorToService",
    "WatchTasks",     "InsertKeyValue", "GetKeyValue",  "TryGetKeyValue", "IncrementKeyValue",
    "GetKeyValueDir", "DeleteKeyValue", "Barrier",      "GetAliveTasks"};

const char *mst_xla_method_name(enum mst_xla_method method)
{
    return names[method];
}

enum mst_xla_method mst_xla_method_of(struct mst_slice path, enum mst_xla_wire *wire)
{
    static const char *const services[MST_XLA_WIRES] = {"/xla.coordination.CoordinationService/",
                                                        "/tensorflow.CoordinationService/"};

    for (unsigned i = 0; i < MST_XLA_WIRES; i++) {
        if (mst_slice_starts_with(path, mst_slice_text(services[i]))) {
            struct mst_slice name = mst_slice_from(path, strlen(services[i]));

            *wire = i == X ? MST_XLA_X : MST_XLA_T;
            if (*wire == MST_XLA_T && mst_slice_is(name, "WatchJobState")) {
                return MST_XLA_WATCH;
            }
            return (enum mst_xla_method)mst_slice_among(name, names, MST_XLA_METHODS);
        }
    }
    return MST_XLA_METHODS;
}
