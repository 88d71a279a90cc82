/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_NARRATE_H
#define MST_SERVICE_CORE_NARRATE_H

/* The trace as lines for the observer. The words are stable: tests compare them. */

#include "base/text.h"
#include "service/core/member.h"

/* One line, "event name=value ...", formatted by mst_text_format; nothing without an observer. */
void mst_narrate(const struct mst_job *job, enum mst_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* "#2 incarnation=1" */
#define MST_NARRATE_MEMBER "%s%u incarnation=%" PRIu64
#define MST_NARRATE_MEMBER_ARGS(member)                                                            \
    mst_narrate_sign(member), (member)->index, (member)->incarnation

const char *mst_narrate_sign(const struct mst_member *member);
const char *mst_narrate_status(muster_status status); /* "ok", "etimedout" */

/* "event #2 incarnation=1" */
void mst_narrate_event(const struct mst_member *member, enum mst_level level, const char *event);

#endif
