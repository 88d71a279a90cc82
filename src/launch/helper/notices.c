/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "launch/helper/notices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch/hang/diagnose.h"
#include "proto/settings.h"

void mst_helper_notices_init(struct mst_helper_notices *notices, const char *host, uint32_t own,
                             pid_t pid, void (*say)(void *ctx, const char *line),
                             void (*ring)(void *ctx), void *ctx)
{
    struct mst_announcer *announcer = &notices->announcer;

    *notices =
        (struct mst_helper_notices){.host = host, .own = own, .pid = pid, .ring = ring, .ctx = ctx};
    (void)pthread_mutex_init(&notices->lock, NULL);
    (void)snprintf(announcer->host, sizeof announcer->host, "%s", host);
    announcer->say = say;
    announcer->publishing.ended = ring;
    announcer->publishing.asks = true;
    announcer->ctx = announcer->publishing.ctx = ctx;
}

void mst_helper_notices_fini(struct mst_helper_notices *notices)
{
    mst_sources_close(notices->announcer.sources);
    notices->announcer.sources = NULL;
}

/* ---- which ranks there are ---- */

static void put(struct mst_helper_notices *notices, uint32_t index, bool here)
{
    uint32_t *all = notices->indices;
    uint32_t at = 0;
    bool there;

    while (at < notices->count && all[at] < index) {
        at++;
    }
    there = at < notices->count && all[at] == index;
    if (here && !there && notices->count < MST_HELPER_RANKS_MAX) {
        memmove(&all[at + 1], &all[at], (notices->count - at) * sizeof *all);
        all[at] = index;
        notices->count++;
    } else if (!here && there) {
        notices->count--;
        memmove(&all[at], &all[at + 1], (notices->count - at) * sizeof *all);
    }
}

void mst_helper_notices_member(struct mst_helper_notices *notices, const struct mst_who *who)
{
    bool ours =
        who->role == MST_ROLE_RANK && mst_slice_equal(who->host, mst_slice_text(notices->host));

    (void)pthread_mutex_lock(&notices->lock);
    if (who->role == MST_ROLE_RANK) {
        put(notices, who->index, ours && mst_state_is_here(who->state));
    }
    (void)pthread_mutex_unlock(&notices->lock);
}

void mst_helper_notices_listed(struct mst_helper_notices *notices)
{
    bool news;

    (void)pthread_mutex_lock(&notices->lock);
    news = !notices->listed;
    notices->listed = true;
    (void)pthread_mutex_unlock(&notices->lock);
    if (news) {
        notices->ring(notices->ctx);
    }
}

void mst_helper_notices_reset(struct mst_helper_notices *notices)
{
    mst_announcer_reset(&notices->announcer);
    (void)pthread_mutex_lock(&notices->lock);
    notices->listed = false;
    notices->count = 0;
    (void)pthread_mutex_unlock(&notices->lock);
}

/* ---- the sources ---- */

static int64_t setting(const char *name)
{
    int64_t value = 0;

    if (mst_lib_setting(name, &value, NULL, NULL) != MUSTER_OK) {
        const struct mst_setting *row = mst_setting_find(name);

        value = row != NULL ? row->standard : 0;
    }
    return value;
}

static void start_asking(struct mst_helper_notices *notices)
{
    const struct mst_sources_options options = {
        .list = mst_announcer_list(getenv("MUSTER_PREEMPT_SOURCES")),
        .period_ms = setting("preempt_period"),
        .margin_ms = setting("preempt_margin"),
        .grace_ms = setting("preempt_grace"),
        .age_ms = mst_diagnose_age_ms(notices->pid),
        .told = notices->ring,
        .say = notices->announcer.say,
        .ctx = notices->ctx};
    char why[512];

    if (mst_sources_open(&notices->announcer.sources, &options, why, sizeof why) != MUSTER_OK) {
        notices->failed = true;
        notices->announcer.say(notices->ctx, why);
    }
}

uint64_t mst_helper_notices_look(struct mst_helper_notices *notices, muster_client *client)
{
    uint32_t indices[MST_HELPER_RANKS_MAX];
    uint32_t count;
    bool asks;

    (void)pthread_mutex_lock(&notices->lock);
    count = notices->count;
    memcpy(indices, notices->indices, count * sizeof *indices);
    asks = notices->listed && count > 0 &&
           (notices->own == MST_INDEX_HELPER || notices->own == indices[0]);
    (void)pthread_mutex_unlock(&notices->lock);
    if (client == NULL || notices->failed) {
        return UINT64_MAX;
    }
    if (!asks && notices->announcer.sources != NULL) {
        mst_announcer_reset(&notices->announcer); /* not taken back: the next one gives the same */
        mst_helper_notices_fini(notices);
    } else if (asks && notices->announcer.sources == NULL) {
        start_asking(notices);
    }
    return asks ? mst_announcer_look(&notices->announcer, client, indices, count) : UINT64_MAX;
}
