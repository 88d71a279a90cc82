/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_WORDS_H
#define MST_PROTO_WORDS_H

/* The words of roles, states and causes: the same in the log, in JSON and as labels of metrics; and
 * the sentences about causes. */

#include "base/text.h"
#include "proto/reply.h"

const char *mst_role_word(enum mst_role role);
const char *mst_state_word(enum mst_state state);
/* How the work of a step is measured: "sections", "waits", "cpu"; "none". */
const char *mst_work_word(enum mst_work work);
const char *mst_cause_word(enum mst_cause cause);
/* The cause with that word; NONE: there is none. NULL is no word. */
enum mst_cause mst_cause_named(const char *word);

struct mst_caused {
    enum mst_cause cause;
    int64_t code;
    const char *signal;    /* the name of signal `code`; NULL: its number is enough */
    struct mst_slice text; /* of a fault. That of a hang says what "made no progress" says, and that
                              of a wish for a restart nothing else; may be empty */
};

/* In a list of processes: "killed by signal 9 (Killed)". */
void mst_cause_phrase(struct mst_text *text, const struct mst_caused *ending);
/* Behind the name of the process: "was killed by signal 9 (Killed)", "failed: code 7: loss is nan".
 */
void mst_cause_sentence(struct mst_text *text, const struct mst_caused *ending);

#endif
