/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_WORDS_H
#define MST_PROTO_WORDS_H

/* The words of roles, states and causes: the same in the log, in JSON and as labels of metrics. */

#include "proto/reply.h"

const char *mst_role_word(enum mst_role role);
const char *mst_state_word(enum mst_state state);
const char *mst_cause_word(enum mst_cause cause);

#endif
