/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/member.h"

#include "lib/items.h"

muster_status muster_member_list(muster_client *client, int64_t timeout_ms, muster_members **out,
                                 struct muster_error *err)
{
    static const char what[] = "list the members";
    struct mst_request request = {.command = MST_MEMBERS};
    struct mst_items items = {0};
    muster_status status;

    if (!out) {
        return mst_lib_refuse(err, what, "out is NULL");
    }
    *out = NULL;
    status = mst_lib_items_collect(client, &request, timeout_ms, &items, err, what);
    if (status != MUSTER_OK) {
        return status;
    }
    *out = mst_lib_members_new(&items);
    return *out ? MUSTER_OK : mst_lib_fail(err, MUSTER_ENOMEM, what, NULL);
}

muster_status muster_member_fault(muster_client *client, int code, const char *fault_text,
                                  int64_t timeout_ms, struct muster_error *err)
{
    static const char what[] = "report a fault";
    struct mst_request request = {.command = MST_FAULT};
    muster_status status = mst_lib_enter(client, err, what);

    if (status != MUSTER_OK) {
        return status;
    }
    mst_lib_lock(client);
    request.fault.generation = mst_lib_view(client)->generation;
    mst_lib_unlock(client);
    request.fault.code = code;
    request.fault.text = mst_slice_text(fault_text);
    return mst_lib_call(client, &request, timeout_ms, NULL, NULL, err, what);
}

muster_status muster_member_leave(muster_client *client, int64_t timeout_ms,
                                  struct muster_error *err)
{
    struct mst_request request = {.command = MST_LEAVE};

    return mst_lib_call(client, &request, timeout_ms, NULL, NULL, err, "leave the job");
}
