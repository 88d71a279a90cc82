/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_FRONTS_XLA_MESSAGE_H
#define MST_FRONTS_XLA_MESSAGE_H

/* The messages of XLA's coordination service. Two protocols have the same methods with other
 * numbers of fields: of each message there is one struct, and a table of fields for each protocol.
 * One struct holds the fields of all requests, and one those of all replies. */

#include "proto/field.h"
#include "proto/protobuf.h"

enum mst_xla_wire {
    MST_XLA_X = 0, /* xla.coordination, jaxlib 0.10 and later: a task is a number */
    MST_XLA_T = 1, /* tensorflow, jaxlib until 0.9: a task is a message */
    MST_XLA_WIRES
};

/* CoordinatedTask. */
struct mst_xla_place {
    struct mst_slice job;
    uint32_t id;
    bool recoverable;
};

struct mst_xla_entry {
    struct mst_slice key, value;
};

struct mst_xla_incarnations {
    uint64_t task, service;
};

struct mst_xla_request {
    struct mst_xla_incarnations incarnations; /* X: of the caller, and of the service it means */
    uint64_t incarnation;
    struct mst_xla_place source; /* the task that asks */
    struct mst_xla_entry kv;
    struct mst_slice key; /* or a folder of keys, or the name of a barrier */
    bool overwrite, directory;
    int64_t number;               /* an increment, or a version */
    uint64_t timeout_ms;          /* of a barrier */
    uint64_t counter;             /* likewise */
    const uint32_t *ids;          /* X */
    struct mst_xla_place *places; /* T */
    uint32_t id_count, place_count;
    uint32_t code; /* of an error */
    struct mst_slice text;
};

/* CoordinationServiceError: the error is the service's, and about this task. */
struct mst_xla_origin {
    bool reported; /* by the task itself */
    struct mst_xla_place source;
};

/* TaskInfo, CoordinatedTaskStateInfo. */
struct mst_xla_state {
    struct mst_xla_place place;
    uint32_t state, code;
    struct mst_slice text;
    bool has_origin;
    struct mst_xla_origin origin;
    uint64_t incarnation;
};

enum {
    MST_XLA_UNINITIALIZED = 1,
    MST_XLA_DISCONNECTED = 2,
    MST_XLA_CONNECTED = 3,
    MST_XLA_ERROR = 4
};

struct mst_xla_reply {
    uint64_t incarnation; /* of the service */
    bool has_kv;
    struct mst_xla_entry kv;
    const struct mst_xla_entry *entries;
    uint32_t entry_count;
    uint64_t counter, version;
    const uint32_t *ids;
    const struct mst_xla_place *places; /* T: as many as ids */
    uint32_t id_count, place_count;
    struct mst_slice incarnations; /* of these tasks, eight bytes each, the last one highest */
    const struct mst_xla_state *states;
    uint32_t state_count;
};

/* GrpcPayloadContainer: what is known of an error beyond its text. The entries are messages by
 * themselves. */
struct mst_xla_payloads {
    const struct mst_xla_entry *entries;
    uint32_t count;
};
struct mst_xla_barrier_error {
    struct mst_slice name;
    uint64_t counter;
};
struct mst_xla_mismatch {
    uint64_t incarnation;
};

enum mst_xla_method {
    MST_XLA_REGISTER = 0,
    MST_XLA_HEARTBEAT,
    MST_XLA_POLL,
    MST_XLA_SHUTDOWN,
    MST_XLA_REPORT,
    MST_XLA_WATCH,
    MST_XLA_INSERT,
    MST_XLA_GET,
    MST_XLA_TRY_GET,
    MST_XLA_INCREMENT,
    MST_XLA_LIST,
    MST_XLA_DELETE,
    MST_XLA_BARRIER,
    MST_XLA_ALIVE,
    MST_XLA_METHODS
};

struct mst_xla_messages {
    struct mst_message request[MST_XLA_WIRES], reply[MST_XLA_WIRES];
};

extern const struct mst_xla_messages mst_xla_messages[MST_XLA_METHODS];
extern const struct mst_message mst_xla_origin_fields[MST_XLA_WIRES], mst_xla_payloads_fields,
    mst_xla_barrier_error_fields, mst_xla_mismatch_fields;

/* The method of a path such as /xla.coordination.CoordinationService/Barrier; METHODS: none of
 * those that this front has. */
enum mst_xla_method mst_xla_method_of(struct mst_slice path, enum mst_xla_wire *wire);
const char *mst_xla_method_name(enum mst_xla_method method);

#endif
