/* SPDX-License-Identifier: Apache-2.0 */
/* Two addresses: the service is at one, and at the other a process that does not serve and sends
 * each client on. While there are faults it also names itself, as two that send a client to each
 * other do. Each reply to OPEN names both addresses, in an order that changes. */
#include "addresses.h"

#include "base/panic.h"
#include "properties.h"
#include "sim.h"

#define AT_ONCE_NS UINT64_C(0)
#define WAIT_LEAST_NS                                                                              \
    (4 * SIM_MS) /* the shortest back-off is 5 ms, on a clock that may be fast                     \
                  */

/* ---- the process that does not serve ---- */

static bool answer(struct sim *sim, struct sim_conn *conn)
{
    const char *named = sim->calm || sim_chance(sim, 75) ? "0" : "1";
    struct mst_request request;
    muster_status status = mst_native_service_next(conn->codec, &request);

    if (status == MUSTER_MORE) {
        return true;
    }
    if (status == MUSTER_OK) {
        sim_tell(sim, "connection %" PRIu64 " of pid=%" PRIu64 " is sent on to %s", conn->id.id,
                 conn->proc->pid, named);
        (void)mst_native_service_send_on(conn->codec, "not here", mst_slice_text(named));
    }
    return false;
}

bool sim_addresses_serve(struct sim *sim, struct sim_conn *conn)
{
    struct mst_slice in = sim_net_received(conn, SIM_SERVICE);
    muster_status status;

    if (!conn->codec && mst_native_service_new(&conn->codec, &sim->service.limits,
                                               &sim->service.memory.mem) != MUSTER_OK) {
        return false;
    }
    status = mst_native_stream_feed(&conn->codec->stream, in);
    sim_net_take(sim, conn, SIM_SERVICE, in.size);
    return status == MUSTER_OK && answer(sim, conn);
}

struct mst_reply sim_addresses_name(struct sim *sim, const struct mst_reply *reply)
{
    struct mst_reply named = *reply;

    if (sim->plan.sends_on && reply->command == MST_OPEN && reply->status == MUSTER_OK) {
        named.addresses = mst_slice_text(sim_chance(sim, 50) ? "0,1" : "1,0");
    }
    return named;
}

/* ---- the client ---- */

static uint32_t bit(uint32_t address)
{
    return UINT32_C(1) << address;
}

uint32_t sim_addresses_at(const struct sim_proc *proc, uint32_t endpoint)
{
    return proc->addresses.swapped ? 1 - endpoint : endpoint;
}

static void swap(struct sim_proc *proc)
{
    static const uint32_t was[] = {1, 0};

    proc->addresses.swapped = !proc->addresses.swapped;
    mst_client_endpoints(proc->client, 2, was);
}

/* SENT_ON */
void sim_addresses_connects(struct sim *sim, struct sim_proc *proc, uint32_t address)
{
    struct sim_addresses *seen = &proc->addresses;
    uint64_t waited_ns = sim->now_ns - seen->sent_ns;
    bool again = seen->sent && (seen->tried & bit(seen->to)) != 0;

    if (seen->sent &&
        (address != seen->to || (again ? waited_ns < WAIT_LEAST_NS : waited_ns > AT_ONCE_NS))) {
        sim_fail(sim, SIM_P_SENT_ON,
                 "pid=%" PRIu64 " was sent on to %u%s, and connects to %u after %.6f s", proc->pid,
                 seen->to, again ? ", where it had been," : "", address, (double)waited_ns / 1e9);
    }
    if (!seen->sent && seen->began && sim->plan.two_endpoints && address == seen->at) {
        sim_fail(sim, SIM_P_SENT_ON,
                 "pid=%" PRIu64 " lost its connection to %u, and does not try the other one",
                 proc->pid, address);
    }
    seen->began = true;
    seen->tried = (seen->sent && !again ? seen->tried : 0) | bit(address);
    seen->at = address;
    seen->sent = false;
}

bool sim_addresses_told(struct sim *sim, struct sim_proc *proc, const struct mst_reply *reply)
{
    struct sim_addresses *seen = &proc->addresses;
    const char *first = reply->addresses.data;

    if (reply->addresses.size == 0) {
        return false;
    }
    if (reply->id != 0) {
        if ((*first == '1') != seen->swapped) {
            swap(proc);
        }
        seen->tried = bit(seen->at);
        return false;
    }
    if (sim_chance(sim, 30)) {
        swap(proc);
    }
    seen->to = (uint32_t)(*first - '0');
    seen->sent = true;
    seen->sent_ns = sim->now_ns;
    mst_client_sent_on(proc->client, sim_proc_clock(sim, proc), sim_addresses_at(proc, seen->to));
    return true;
}
