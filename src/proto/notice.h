/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_NOTICE_H
#define MST_PROTO_NOTICE_H

/* The keys of preemption: their names, and the values as one line of text each, so that an operator
 * can read and write them. Pure readers: a key's value is accepted whole or refused.
 *
 *   muster/preempt/notice/<index>             a notice; `all` for the whole job
 *   muster/preempt/agreed/<generation>.<k>    "step=17 covered=5": for people
 *   muster/preempt/verdict/<generation>.<k>   "saving", "again" or "withdrawn": the first decides
 *   muster/preempt/complete/<generation>.<k>  "step=17 of=4 covered=5 leave=all": saved by all
 *   muster/preempt/failed/<generation>.<k>    "step=17 covered=5 status=-15": the agreement failed
 *
 * covered: the revision up to which notices were seen. The k-th agreement of a generation uses
 * round 0 of its three names. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

#define MST_PREEMPT_PREFIX "muster/preempt/"
#define MST_PREEMPT_PREFIX_NOTICE MST_PREEMPT_PREFIX "notice/"
#define MST_PREEMPT_ROUND_STEP "muster/preempt/step/"   /* + k: the last steps; max */
#define MST_PREEMPT_ROUND_SAVE "muster/preempt/save/"   /* + k: the saved step; max */
#define MST_PREEMPT_ROUND_SAVED "muster/preempt/saved/" /* + k: saved steps; gather */

#define MST_NOTICE_ALL UINT32_C(4294967293) /* the index of a notice for the whole job */
#define MST_NOTICE_LEFT_MS_MAX (UINT64_C(1000) * 60 * 60 * 24 * 3660)

enum {
    MST_NOTICE_SOURCE_ROOM = 24,
    MST_NOTICE_HOST_ROOM = 64,
    MST_NOTICE_REASON_ROOM = 256,
    MST_NOTICE_VALUE_ROOM = 512, /* for any notice that mst_notice_write writes */
    MST_PREEMPT_NAME_ROOM = 96,  /* for any of the names above */
    MST_PREEMPT_FACT_ROOM = 128
};

enum mst_notice_level {
    MST_NOTICE_CERTAIN = 0,
    MST_NOTICE_ADVISORY = 1 /* it may not happen: reported, without an agreement */
};

/* The value of a notice's key, such as
 *   left_ms=30000 assumed=1 level=certain source=signals host=b3 reason=free text to the end
 * left_ms is a duration at the moment of writing; with the key's age it gives the time left. Only
 * left_ms is required (an operator may write `left_ms=60000`); unknown words are ignored. */
struct mst_notice {
    uint32_t index; /* of the key, not of the value; or NOTICE_ALL */
    enum mst_notice_level level;
    bool assumed; /* the source has no deadline */
    uint64_t left_ms;
    char source[MST_NOTICE_SOURCE_ROOM], host[MST_NOTICE_HOST_ROOM], reason[MST_NOTICE_REASON_ROOM];
};

/* The size of the name, which ends with a 0; room >= PREEMPT_NAME_ROOM. */
size_t mst_notice_key(char *at, size_t room, uint32_t index);
bool mst_notice_key_read(struct mst_slice key, uint32_t *index);

/* Non-text bytes become a space or, in a word, a dash; long text is cut. room >= NOTICE_VALUE_ROOM.
 */
size_t mst_notice_write(char *at, size_t room, const struct mst_notice *notice);

/* False, and *out is undefined: no notice. Sets all but the index. */
bool mst_notice_read(struct mst_slice value, struct mst_notice *out);

/* ---- the other keys ---- */

enum mst_preempt_key {
    MST_PREEMPT_KEY_NOTICE = 0,
    MST_PREEMPT_KEY_AGREED = 1,
    MST_PREEMPT_KEY_VERDICT = 2,
    MST_PREEMPT_KEY_COMPLETE = 3,
    MST_PREEMPT_KEY_FAILED = 4,
    MST_PREEMPT_KEYS = 5
};

struct mst_preempt_name {
    enum mst_preempt_key kind;
    uint32_t index;      /* NOTICE */
    uint64_t generation; /* the others */
    uint64_t k;
};

size_t mst_preempt_name_write(char *at, size_t room, const struct mst_preempt_name *name);
bool mst_preempt_name_read(struct mst_slice key, struct mst_preempt_name *out);

enum mst_verdict {
    MST_VERDICT_NONE = 0,
    MST_VERDICT_SAVING = 1,   /* a rank saved the agreed step: it is final */
    MST_VERDICT_AGAIN = 2,    /* the agreement is repeated */
    MST_VERDICT_WITHDRAWN = 3 /* no notice is left: all continue */
};

const char *mst_verdict_word(enum mst_verdict verdict);
enum mst_verdict mst_verdict_read(struct mst_slice value); /* NONE: no verdict */
int64_t mst_verdict_step(struct mst_slice value);          /* of "again 17"; -1: none is named */

/* The result of an agreement: the values of AGREED, COMPLETE and FAILED. */
struct mst_preempt_fact {
    int64_t step;
    uint64_t covered;
    uint32_t of;    /* COMPLETE: the number of ranks that saved */
    bool leave_all; /* COMPLETE: all leave; else the noticed ones */
    int32_t status; /* FAILED: a muster_status */
};

size_t mst_preempt_fact_write(char *at, size_t room, enum mst_preempt_key kind,
                              const struct mst_preempt_fact *fact);
bool mst_preempt_fact_read(struct mst_slice value, struct mst_preempt_fact *out);

#endif
