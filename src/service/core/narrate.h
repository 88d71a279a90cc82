/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_NARRATE_H
#define MST_SERVICE_CORE_NARRATE_H

/* The story as lines for the observer. The words are stable: tests compare them. */

#include "base/text.h"
#include "service/core/member.h"

/* A line being built. Begun, extended, ended; all of it is nothing when nobody listens. */
struct mst_line {
    struct mst_core *core;
    const struct mst_job *job;
    enum mst_level level;
    struct mst_text text;
    char array[512];
};

bool mst_narrate_begin(struct mst_line *line, const struct mst_job *job, enum mst_level level,
                       const char *event);
void mst_narrate_member(struct mst_line *line, const struct mst_member *member); /* " #2" */
void mst_narrate_number(struct mst_line *line, const char *name, uint64_t number);
void mst_narrate_code(struct mst_line *line, const char *name, int64_t number);
void mst_narrate_word(struct mst_line *line, const char *name, const char *word);
void mst_narrate_bytes(struct mst_line *line, const char *name, struct mst_slice bytes);
void mst_narrate_end(struct mst_line *line);

const char *mst_narrate_cause(enum mst_cause cause);
const char *mst_narrate_status(muster_status status); /* "ok", "etimedout" */

/* "event #2 incarnation=1" */
void mst_narrate_event(const struct mst_member *member, enum mst_level level, const char *event);

#endif
