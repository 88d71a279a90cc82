/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/member.h"

#include "client/shell/call.h"

MST_LIB_TWINS(muster_member_list, client, (int64_t timeout_ms, muster_members **out),
              (timeout_ms, out))
{
    static const char what[] = "list the members";
    struct mst_call call = {.client = client,
                            .what = what,
                            .timeout_ms = timeout_ms,
                            .request = {.command = MST_MEMBERS},
                            .make = mst_lib_members_make,
                            .out = out};

    if (!out) {
        return mst_lib_refuse(how.err, what, "out is NULL");
    }
    *out = NULL;
    return mst_lib_items_make(&call, &how);
}

static muster_status name_generation(struct mst_call *call)
{
    call->request.fault.generation = mst_lib_view(call->client)->generation;
    return MUSTER_MORE;
}

MST_LIB_TWINS(muster_member_fault, client, (int code, const char *fault_text, int64_t timeout_ms),
              (code, fault_text, timeout_ms))
{
    struct mst_call call = {
        .client = client,
        .what = "report a fault",
        .timeout_ms = timeout_ms,
        .request = {.command = MST_FAULT,
                    .fault = {.code = code, .text = mst_slice_text(fault_text)}},
        .begin = name_generation,
    };

    return mst_lib_make(&call, &how);
}

MST_LIB_TWINS(muster_member_leave, client, (int64_t timeout_ms), (timeout_ms))
{
    struct mst_call call = {.client = client,
                            .what = "leave the job",
                            .timeout_ms = timeout_ms,
                            .request = {.command = MST_LEAVE}};

    return mst_lib_make(&call, &how);
}
