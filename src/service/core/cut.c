/* SPDX-License-Identifier: Apache-2.0 */
#include "service/core/cut.h"

#include "service/core/handlers.h"
#include "service/core/job.h"
#include "service/core/narrate.h"

const char mst_cut_reason[] = "the network to this member is cut on request";

muster_status mst_cut_request(struct mst_session *session, struct mst_waiter *waiter,
                              const struct mst_request *request)
{
    struct mst_core *core = session->core;
    uint64_t for_ms = request->cut.for_ms;
    enum mst_role role = request->cut.worker ? MST_ROLE_WORKER : MST_ROLE_RANK;
    struct mst_member *member = mst_member_find(session->job, role, request->cut.index);
    struct mst_session *holder = member ? member->session : NULL;
    struct mst_link *link;

    if (for_ms > MST_CUT_MS_MAX) {
        return mst_waiter_exceed(waiter, MST_LIMIT_CUT_MS, MST_CUT_MS_MAX, for_ms);
    }
    if (!holder ||
        (request->cut.incarnation != 0 && request->cut.incarnation != member->incarnation)) {
        return MUSTER_ENOTFOUND;
    }
    if (holder == session) { /* it could not be answered */
        return MUSTER_EINVAL;
    }
    link = holder->link;
    holder->cut_ns = mst_later(holder->cut_ns, core->now_ns + for_ms * NS_PER_MS);
    mst_narrate(member->job, MST_WARN, "member-cut " MST_NARRATE_MEMBER " for-ms=%" PRIu64,
                MST_NARRATE_MEMBER_ARGS(member), for_ms);
    if (link) {
        mst_session_detach(holder);
        mst_link_hang_up(core, link, mst_cut_reason);
    }
    waiter->number = link != NULL;
    return MUSTER_OK;
}

bool mst_cut_covers(struct mst_core *core, const struct mst_link *link, const struct mst_open *open)
{
    const struct mst_session *session = link->session ? NULL : mst_session_find(core, open->token);

    return session && core->now_ns < session->cut_ns;
}
