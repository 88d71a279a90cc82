/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_MACHINE_H
#define MST_PROTO_MACHINE_H

/* A machine that is a client of the service, as a value: the functions that a driver needs to run
 * it. restart, preempt, its publisher and heartbeat are such machines. client/shell/host.h drives
 * any of them in a client; tests and the simulator drive them without one. Each input carries the
 * time and may be followed by effects. The driver drains them, one at a time, before the next
 * input, while what the input borrowed (a reply) still lives. Inputs of only one machine are
 * functions of its own header. */

#include "proto/reply.h"
#include "proto/request.h"

enum mst_machine_effect_kind {
    MST_MACHINE_OWN = 0, /* specific to this machine: see its `type` */
    MST_MACHINE_CALL,    /* make this call without a deadline; pass its reply, whatever it is, to
                            `reply` with the tag. A call that cannot be made is answered as well */
    MST_MACHINE_CANCEL   /* ask the service to stop the call. Its reply is still owed, and must come
                            from the service: a local ECANCELLED that contradicts the service's
                            decision would split the job */
};

/* Each machine's effect begins with it. */
struct mst_machine_effect {
    enum mst_machine_effect_kind kind;
    uint64_t tag;                      /* CALL, CANCEL: never 0, never reused by this machine */
    const struct mst_request *request; /* CALL: borrowed, as the effect is */
};

/* Makes an effect a CALL. The request is empty: the machine fills it in. */
static inline void mst_machine_call(struct mst_machine_effect *effect, uint64_t tag,
                                    struct mst_request *request)
{
    *request = (struct mst_request){0};
    *effect = (struct mst_machine_effect){.kind = MST_MACHINE_CALL, .tag = tag, .request = request};
}

/* `machine` is the one that its `new` made. NULL: it has no such input. */
struct mst_machine {
    /* The client's view or self-stop changed (level-triggered; repeats are harmless). */
    void (*attention)(void *machine, uint64_t now_ns, const struct mst_view *view, bool stopped);
    /* The session is over for good. */
    void (*ended)(void *machine, uint64_t now_ns, muster_status status);
    /* A call ended. Unknown tags are ignored. */
    void (*reply)(void *machine, uint64_t now_ns, uint64_t tag, const struct mst_reply *reply);
    void (*tick)(void *machine, uint64_t now_ns);
    uint64_t (*deadline_ns)(const void *machine); /* of the next tick; UINT64_MAX: never */
    /* The machine's next effect, which lives until the next input, or the next call of this.
     * NULL: nothing is left to do. */
    const void *(*next)(void *machine);
};

#endif
