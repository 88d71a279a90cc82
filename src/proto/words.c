/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/words.h"

const char *mst_role_word(enum mst_role role)
{
    switch (role) {
    case MST_ROLE_OBSERVER:
        return "observer";
    case MST_ROLE_RANK:
        return "rank";
    case MST_ROLE_WORKER:
        return "worker";
    case MST_ROLE_AGENT:
        return "agent";
    }
    return "?";
}

const char *mst_state_word(enum mst_state state)
{
    switch (state) {
    case MST_JOINING:
        return "joining";
    case MST_PRESENT:
        return "present";
    case MST_SILENT:
        return "silent";
    case MST_STATE_LOST:
        return "lost";
    case MST_LEFT:
        return "left";
    case MST_ABSENT:
        return "absent";
    case MST_SPARE:
        return "spare";
    }
    return "?";
}

const char *mst_cause_word(enum mst_cause cause)
{
    switch (cause) {
    case MST_CAUSE_NONE:
        return "none";
    case MST_CAUSE_EXIT:
        return "exit";
    case MST_CAUSE_SIGNAL:
        return "signal";
    case MST_CAUSE_GONE:
        return "gone";
    case MST_CAUSE_LEASE:
        return "lease";
    case MST_CAUSE_FAULT:
        return "fault";
    case MST_CAUSE_EVICTED:
        return "evicted";
    case MST_CAUSE_LEFT:
        return "left";
    case MST_CAUSE_SOFT_TIMEOUT:
        return "soft-timeout";
    case MST_CAUSE_HARD_TIMEOUT:
        return "hard-timeout";
    case MST_CAUSE_UNHEALTHY:
        return "unhealthy";
    case MST_CAUSE_AGAIN:
        return "again";
    case MST_CAUSE_ABORTED:
        return "aborted";
    }
    return "?";
}
