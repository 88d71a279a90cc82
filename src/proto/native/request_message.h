/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_NATIVE_REQUEST_MESSAGE_H
#define MST_PROTO_NATIVE_REQUEST_MESSAGE_H

/* A request of msg/ as a message of the schema, and back. Both borrow: nothing is copied but what
 * must be laid out differently. */

#include "muster.pb-c.h"
#include "muster/status.h"
#include "proto/native/arena.h"
#include "proto/native/enums.h"
#include "proto/request.h"

/* A message and the parts it points at. */
struct mst_native_request_message {
    Muster__Request base;
    union {
        Muster__Open open;
        Muster__Join join;
        Muster__Renew renew;
        Muster__Leave leave;
        Muster__Cancel cancel;
        Muster__Write write;
        Muster__Get get;
        Muster__List list;
        Muster__Wait wait;
        Muster__Watch watch;
        Muster__Round round;
        Muster__RoundMembers round_members;
        Muster__Page page;
        Muster__Fault fault;
        Muster__Lost lost;
        Muster__Cut cut;
    };
};

/* OK; ENOMEM; EINVAL: no such command. */
muster_status mst_native_request_encode(struct mst_native_request_message *out,
                                        const struct mst_request *request,
                                        struct mst_native_arena *arena);

/* OK; ENOMEM; EPROTO: `fault` says why. */
muster_status mst_native_request_decode(struct mst_request *out, const Muster__Request *message,
                                        struct mst_native_arena *arena,
                                        struct mst_native_fault *fault);

#endif
