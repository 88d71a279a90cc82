/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/native/enums.h"

#include "muster.pb-c.h"
#include "proto/reply.h"

/* X(in msg/, in the schema) */
#define ROLES(X)                                                                                   \
    X(MST_ROLE_OBSERVER, MUSTER__ROLE__ROLE_OBSERVER)                                              \
    X(MST_ROLE_RANK, MUSTER__ROLE__ROLE_RANK)                                                      \
    X(MST_ROLE_WORKER, MUSTER__ROLE__ROLE_WORKER)                                                  \
    X(MST_ROLE_AGENT, MUSTER__ROLE__ROLE_AGENT)

#define GROWS(X)                                                                                   \
    X(MST_GROW_CHECK, MUSTER__GROW__GROW_CHECK)                                                    \
    X(MST_GROW_FAULT, MUSTER__GROW__GROW_FAULT)                                                    \
    X(MST_GROW_OFF, MUSTER__GROW__GROW_OFF)

#define WRITE_KINDS(X)                                                                             \
    X(MST_INSERT, MUSTER__OPERATION_KIND__OPERATION_INSERT)                                        \
    X(MST_PUT, MUSTER__OPERATION_KIND__OPERATION_PUT)                                              \
    X(MST_CAS, MUSTER__OPERATION_KIND__OPERATION_CAS)                                              \
    X(MST_ADD, MUSTER__OPERATION_KIND__OPERATION_ADD)                                              \
    X(MST_APPEND, MUSTER__OPERATION_KIND__OPERATION_APPEND)                                        \
    X(MST_DELETE, MUSTER__OPERATION_KIND__OPERATION_DELETE)

#define ON_LOSSES(X)                                                                               \
    X(MST_FAIL, MUSTER__ON_LOSS__ON_LOSS_FAIL)                                                     \
    X(MST_PROCEED, MUSTER__ON_LOSS__ON_LOSS_PROCEED)

#define REDUCES(X)                                                                                 \
    X(MST_REDUCE_NONE, MUSTER__REDUCE__REDUCE_NONE)                                                \
    X(MST_REDUCE_GATHER, MUSTER__REDUCE__REDUCE_GATHER)                                            \
    X(MST_REDUCE_MIN, MUSTER__REDUCE__REDUCE_MIN)                                                  \
    X(MST_REDUCE_MAX, MUSTER__REDUCE__REDUCE_MAX)                                                  \
    X(MST_REDUCE_SUM, MUSTER__REDUCE__REDUCE_SUM)                                                  \
    X(MST_REDUCE_EQUAL, MUSTER__REDUCE__REDUCE_EQUAL)

#define CAUSES(X)                                                                                  \
    X(MST_CAUSE_NONE, MUSTER__CAUSE__CAUSE_NONE)                                                   \
    X(MST_CAUSE_EXIT, MUSTER__CAUSE__CAUSE_EXIT)                                                   \
    X(MST_CAUSE_SIGNAL, MUSTER__CAUSE__CAUSE_SIGNAL)                                               \
    X(MST_CAUSE_GONE, MUSTER__CAUSE__CAUSE_GONE)                                                   \
    X(MST_CAUSE_LEASE, MUSTER__CAUSE__CAUSE_LEASE)                                                 \
    X(MST_CAUSE_FAULT, MUSTER__CAUSE__CAUSE_FAULT)                                                 \
    X(MST_CAUSE_EVICTED, MUSTER__CAUSE__CAUSE_EVICTED)                                             \
    X(MST_CAUSE_LEFT, MUSTER__CAUSE__CAUSE_LEFT)                                                   \
    X(MST_CAUSE_SOFT_TIMEOUT, MUSTER__CAUSE__CAUSE_SOFT_TIMEOUT)                                   \
    X(MST_CAUSE_HARD_TIMEOUT, MUSTER__CAUSE__CAUSE_HARD_TIMEOUT)                                   \
    X(MST_CAUSE_UNHEALTHY, MUSTER__CAUSE__CAUSE_UNHEALTHY)                                         \
    X(MST_CAUSE_AGAIN, MUSTER__CAUSE__CAUSE_AGAIN)                                                 \
    X(MST_CAUSE_ABORTED, MUSTER__CAUSE__CAUSE_ABORTED)

#define STATES(X)                                                                                  \
    X(MST_JOINING, MUSTER__STATE__STATE_JOINING)                                                   \
    X(MST_PRESENT, MUSTER__STATE__STATE_PRESENT)                                                   \
    X(MST_SILENT, MUSTER__STATE__STATE_SILENT)                                                     \
    X(MST_STATE_LOST, MUSTER__STATE__STATE_LOST)                                                   \
    X(MST_LEFT, MUSTER__STATE__STATE_LEFT)                                                         \
    X(MST_ABSENT, MUSTER__STATE__STATE_ABSENT)                                                     \
    X(MST_SPARE, MUSTER__STATE__STATE_SPARE)

#define ATTENTIONS(X)                                                                              \
    X(MST_CALM, MUSTER__ATTENTION__ATTENTION_CALM)                                                 \
    X(MST_GROW, MUSTER__ATTENTION__ATTENTION_GROW)                                                 \
    X(MST_INTERRUPT, MUSTER__ATTENTION__ATTENTION_INTERRUPT)

#define ITEM_KINDS(X)                                                                              \
    X(MST_ITEM_KEY, MUSTER__ITEM_KIND__ITEM_KEY)                                                   \
    X(MST_ITEM_DELETED, MUSTER__ITEM_KIND__ITEM_DELETED)                                           \
    X(MST_ITEM_MEMBER, MUSTER__ITEM_KIND__ITEM_MEMBER)                                             \
    X(MST_ITEM_FAULT, MUSTER__ITEM_KIND__ITEM_FAULT)                                               \
    X(MST_ITEM_VIEW, MUSTER__ITEM_KIND__ITEM_VIEW)                                                 \
    X(MST_ITEM_RESET, MUSTER__ITEM_KIND__ITEM_RESET)                                               \
    X(MST_ITEM_ROUND, MUSTER__ITEM_KIND__ITEM_ROUND)                                               \
    X(MST_ITEM_PART, MUSTER__ITEM_KIND__ITEM_PART)                                                 \
    X(MST_ITEM_JOB, MUSTER__ITEM_KIND__ITEM_JOB)                                                   \
    X(MST_ITEM_HOST, MUSTER__ITEM_KIND__ITEM_HOST)

#define SAME(ours, theirs)                                                                         \
    _Static_assert((int)(ours) == (int)(theirs), "msg/ and the schema number " #ours " alike");
#define CASE(ours, theirs) case ours:

/* The switch makes a value that is new in msg/ and missing here break the build. */
#define KNOWN(function, type, values)                                                              \
    bool function(int value)                                                                       \
    {                                                                                              \
        switch ((type)value) {                                                                     \
            values(CASE) return true;                                                              \
        }                                                                                          \
        return false;                                                                              \
    }

/* clang-format off */
ROLES(SAME) GROWS(SAME) WRITE_KINDS(SAME) ON_LOSSES(SAME) REDUCES(SAME)
CAUSES(SAME) STATES(SAME) ATTENTIONS(SAME) ITEM_KINDS(SAME)

KNOWN(mst_native_role_known, enum mst_role, ROLES)
KNOWN(mst_native_grow_known, enum mst_grow, GROWS)
KNOWN(mst_native_write_kind_known, enum mst_write_kind, WRITE_KINDS)
KNOWN(mst_native_on_loss_known, enum mst_on_loss, ON_LOSSES)
KNOWN(mst_native_reduce_known, enum mst_reduce, REDUCES)
KNOWN(mst_native_cause_known, enum mst_cause, CAUSES)
static KNOWN(state_told, enum mst_state, STATES)
KNOWN(mst_native_attention_known, enum mst_attention, ATTENTIONS)
KNOWN(mst_native_item_kind_known, enum mst_item_kind, ITEM_KINDS)
    /* clang-format on */

    bool mst_native_state_known(int value)
{
    return value == 0 || state_told(value);
}
