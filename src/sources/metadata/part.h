/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SOURCES_METADATA_PART_H
#define MST_SOURCES_METADATA_PART_H

/* What the three sources share. */

#include <jansson.h>

#include "sources/metadata/metadata.h"

enum {
    MST_METADATA_RETRY_MS = 5000,
    MST_METADATA_ANSWER_MS = 2000, /* of a question that has its answer at once */
    /* What is further away is reported, and becomes certain when it is this near. */
    MST_METADATA_NEAR_MS = 3600000
};

/* A good answer holds all that there is of its group: begin, said for each, end. An
 * announcement of the answer before that is missing in it is withdrawn. */
struct mst_metadata_said {
    struct mst_slice id;
    bool certain;
    int64_t deadline_ms; /* by the source's clock; 0: not given */
    int64_t assumed_ms;  /* how long it then takes at least; -1: nothing is known */
    const char *text;
};
void mst_metadata_begin(struct mst_metadata *metadata, uint32_t group);
void mst_metadata_said(struct mst_metadata *metadata, const struct mst_metadata_said *said);
void mst_metadata_end(struct mst_metadata *metadata);

/* A line for the log, when that changes: nothing is known any more, and why; or something is. */
void mst_metadata_unknown(struct mst_metadata *metadata, const struct mst_metadata_answer *answer,
                          const char *why);
void mst_metadata_known(struct mst_metadata *metadata);
void mst_metadata_say(struct mst_metadata *metadata, const char *text);

/* ---- reading ---- */

struct mst_slice mst_metadata_trimmed(struct mst_slice text);
/* 1 to room - 1 bytes, all of them letters, digits or one of `others`. */
bool mst_metadata_word(struct mst_slice text, const char *others, char *out, size_t room);
bool mst_metadata_same_name(const char *a, const char *b); /* as host names: no case */
/* NULL: no JSON. The caller owns it. */
json_t *mst_metadata_json(struct mst_slice body);
struct mst_slice mst_metadata_field(const json_t *object, const char *name); /* of text; or empty */

/* ---- the sources ---- */

void mst_google_init(struct mst_metadata *metadata);
void mst_google_ask(const struct mst_metadata *metadata, uint32_t lane,
                    struct mst_metadata_request *out);
void mst_google_take(struct mst_metadata *metadata, uint32_t lane,
                     const struct mst_metadata_answer *answer);
void mst_amazon_init(struct mst_metadata *metadata);
void mst_amazon_ask(const struct mst_metadata *metadata, uint32_t lane,
                    struct mst_metadata_request *out);
void mst_amazon_take(struct mst_metadata *metadata, uint32_t lane,
                     const struct mst_metadata_answer *answer);
void mst_azure_ask(const struct mst_metadata *metadata, uint32_t lane,
                   struct mst_metadata_request *out);
void mst_azure_take(struct mst_metadata *metadata, uint32_t lane,
                    const struct mst_metadata_answer *answer);

#endif
