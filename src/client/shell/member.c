/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/member.h"

#include "client/shell/call.h"

/* ---- who is here ---- */

static muster_status list(muster_client *client, int64_t timeout_ms, muster_members **out,
                          struct mst_lib_how how)
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

muster_status muster_member_list(muster_client *client, int64_t timeout_ms, muster_members **out,
                                 struct muster_error *err)
{
    return list(client, timeout_ms, out, mst_lib_blocking(err));
}

muster_status muster_member_list_start(muster_client *client, int64_t timeout_ms,
                                       muster_members **out, muster_call **call_out,
                                       struct muster_error *err)
{
    return list(client, timeout_ms, out, mst_lib_starting(call_out, err));
}

/* ---- a fault ---- */

static muster_status name_generation(struct mst_call *call)
{
    call->request.fault.generation = mst_lib_view(call->client)->generation;
    return MUSTER_MORE;
}

static muster_status fault(muster_client *client, int code, const char *fault_text,
                           int64_t timeout_ms, struct mst_lib_how how)
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

muster_status muster_member_fault(muster_client *client, int code, const char *fault_text,
                                  int64_t timeout_ms, struct muster_error *err)
{
    return fault(client, code, fault_text, timeout_ms, mst_lib_blocking(err));
}

muster_status muster_member_fault_start(muster_client *client, int code, const char *fault_text,
                                        int64_t timeout_ms, muster_call **call_out,
                                        struct muster_error *err)
{
    return fault(client, code, fault_text, timeout_ms, mst_lib_starting(call_out, err));
}

/* ---- leaving ---- */

static muster_status leave(muster_client *client, int64_t timeout_ms, struct mst_lib_how how)
{
    struct mst_call call = {.client = client,
                            .what = "leave the job",
                            .timeout_ms = timeout_ms,
                            .request = {.command = MST_LEAVE}};

    return mst_lib_make(&call, &how);
}

muster_status muster_member_leave(muster_client *client, int64_t timeout_ms,
                                  struct muster_error *err)
{
    return leave(client, timeout_ms, mst_lib_blocking(err));
}

muster_status muster_member_leave_start(muster_client *client, int64_t timeout_ms,
                                        muster_call **call_out, struct muster_error *err)
{
    return leave(client, timeout_ms, mst_lib_starting(call_out, err));
}
