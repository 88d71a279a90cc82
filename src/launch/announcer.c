/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/announcer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sources/slurm_words.h"

#define AGAIN_NS NS_PER_S
#define SAME_MS 2000

const char *mst_announcer_list(const char *given)
{
    if (given != NULL && *given != '\0') {
        return strcmp(given, "none") == 0 ? "" : given;
    }
    return mst_slurm_place(getenv("SLURM_JOB_ID"), getenv("SLURM_STEP_ID")) == MST_SLURM_NOWHERE
               ? "signals"
               : "signals,slurm";
}

bool mst_announcer_in_step(void)
{
    return mst_slurm_place(getenv("SLURM_JOB_ID"), getenv("SLURM_STEP_ID")) == MST_SLURM_STEP;
}

static int64_t left_of(const struct mst_announcer *announcer, uint64_t now_ns)
{
    return announcer->given.notice.left_ms - (int64_t)((now_ns - announcer->given_ns) / NS_PER_MS);
}

/* What is published says it as it is. Of an end only by about so much. */
static bool is_same(const struct mst_announcer *announcer, const struct mst_sources_known *known,
                    uint64_t now_ns)
{
    const struct mst_sources_known *given = &announcer->given;
    int64_t moved = known->notice.left_ms - left_of(announcer, now_ns);

    if (known->notice.left_ms == 0 && left_of(announcer, now_ns) <= 0) {
        moved = 0;
    }
    return strcmp(given->source, known->source) == 0 &&
           given->notice.advisory == known->notice.advisory &&
           given->notice.whole_job == known->notice.whole_job &&
           strcmp(given->notice.reason, known->notice.reason) == 0 && moved < SAME_MS &&
           moved > -SAME_MS;
}

/* A notice that takes its place by itself: as certain, for the same places, and earlier. */
static bool replaces(const struct mst_announcer *announcer, const struct mst_sources_known *known,
                     uint64_t now_ns)
{
    const struct mst_sources_known *given = &announcer->given;

    return known->notice.whole_job == given->notice.whole_job &&
           known->notice.advisory <= given->notice.advisory &&
           known->notice.left_ms <= left_of(announcer, now_ns);
}

static void begin(struct mst_announcer *announcer, muster_client *client, uint64_t now_ns,
                  const uint32_t *indices, uint32_t count)
{
    static const uint32_t all[] = {MST_NOTICE_ALL};
    const struct mst_sources_known *given = &announcer->given;
    struct mst_publish_config config = {
        .withdraw = announcer->withdraws,
        .notice = {.level = given->notice.advisory ? MST_NOTICE_ADVISORY : MST_NOTICE_CERTAIN,
                   .assumed = given->assumed,
                   .left_ms = (uint64_t)given->notice.left_ms},
        .indices = given->notice.whole_job ? all : indices,
        .count = given->notice.whole_job ? 1 : count};

    (void)snprintf(config.notice.source, sizeof config.notice.source, "%s", given->source);
    (void)snprintf(config.notice.host, sizeof config.notice.host, "%s", announcer->host);
    (void)snprintf(config.notice.reason, sizeof config.notice.reason, "%s", given->notice.reason);
    announcer->again_ns = 0;
    announcer->says = true;
    if (mst_publishing_begin(&announcer->publishing, client, now_ns, &config) != MUSTER_OK) {
        announcer->published = announcer->withdraws;
        announcer->withdraws = announcer->says = false;
        announcer->again_ns = now_ns + AGAIN_NS;
    }
}

static void tell(const struct mst_announcer *announcer)
{
    const struct mst_sources_known *given = &announcer->given;
    const struct mst_lib_publish *publish = &announcer->publishing.publish;
    char line[MST_SOURCE_REASON_ROOM + 640];
    struct mst_text text = mst_text_in(line, sizeof line);

    if (publish->written == 0) {
        return; /* others had told the same */
    }
    if (announcer->withdraws) {
        mst_text_format(&text, "the notice of '%s' is withdrawn: %s", given->source,
                        given->notice.reason);
    } else {
        mst_text_format(&text, "%s of '%s' for %s: %s; %s" MST_SECONDS " are left",
                        given->notice.advisory ? "an advisory notice" : "a notice", given->source,
                        given->notice.whole_job ? "the whole job" : "this node",
                        given->notice.reason, given->assumed ? "it is assumed that " : "",
                        MST_SECONDS_ARGS(given->notice.left_ms));
    }
    if (publish->unheard) {
        mst_text_format(&text, "; " MST_LIB_UNHEARD, mst_lib_publish_job(publish->client));
    }
    announcer->say(announcer->ctx, line);
}

/* What was begun has ended. */
static void take_end(struct mst_announcer *announcer, uint64_t now_ns)
{
    if (!announcer->says) {
        return;
    }
    announcer->says = false;
    if (announcer->publishing.publish.error.status != MUSTER_OK) {
        announcer->published = announcer->withdraws;
        announcer->again_ns = now_ns + AGAIN_NS;
    } else {
        tell(announcer);
    }
    announcer->withdraws = false;
}

void mst_announcer_reset(struct mst_announcer *announcer)
{
    if (!mst_publishing_busy(&announcer->publishing)) {
        take_end(announcer, 0); /* it has just ended, and was not looked at since */
    }
    mst_publishing_drop(&announcer->publishing);
    announcer->published = announcer->withdraws = announcer->says = false;
    announcer->again_ns = 0;
}

uint64_t mst_announcer_look(struct mst_announcer *announcer, muster_client *client,
                            const uint32_t *indices, uint32_t count)
{
    uint64_t now_ns = mst_lib_now_ns();
    struct mst_sources_known known;
    bool is, same;

    if (announcer->sources == NULL || client == NULL || count == 0 ||
        mst_publishing_busy(&announcer->publishing)) {
        return UINT64_MAX;
    }
    take_end(announcer, now_ns);
    if (now_ns < announcer->again_ns) {
        return announcer->again_ns;
    }
    is = mst_sources_known(announcer->sources, &known);
    same = announcer->published && is && is_same(announcer, &known, now_ns);
    if (same && count == announcer->given_count) {
        return UINT64_MAX;
    }
    if (announcer->published && !same && (!is || !replaces(announcer, &known, now_ns))) {
        announcer->published = false;
        announcer->withdraws = true; /* and what is known now is given when that is done */
        begin(announcer, client, now_ns, indices, count);
    } else if (is) {
        announcer->published = true;
        announcer->given = known;
        announcer->given_ns = now_ns;
        announcer->given_count = count;
        begin(announcer, client, now_ns, indices, count);
    }
    return announcer->again_ns != 0 ? announcer->again_ns : UINT64_MAX;
}
