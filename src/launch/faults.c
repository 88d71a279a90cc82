/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "launch/faults.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "launch/say.h"
#include "proto/status.h"
#include "proto/words.h"

#define ANSWER_LIMIT_NS UINT64_C(2000000000)
#define WINDOW_NS NS_PER_S
#define LINES_PER_WINDOW MST_FAULTS_ROOM

bool mst_faults_told(const struct mst_fault *fault)
{
    return fault->kind == MST_CAUSE_FAULT || fault->kind == MST_CAUSE_SOFT_TIMEOUT ||
           fault->kind == MST_CAUSE_UNHEALTHY || fault->kind == MST_CAUSE_AGAIN ||
           fault->kind == MST_CAUSE_ABORTED;
}

void mst_faults_what(const struct mst_fault *fault, char *text, size_t room)
{
    struct mst_text line = mst_text_in(text, room);

    mst_cause_sentence(&line, &(struct mst_caused){.cause = fault->kind,
                                                   .code = fault->code,
                                                   .signal = strsignal(fault->code),
                                                   .text = mst_slice_text(fault->text)});
}

/* One line, whatever the rank wrote. */
static void copy(char *to, size_t room, struct mst_slice from)
{
    (void)snprintf(to, room, "%.*s", MST_SLICE_ARGS(from));
    for (; *to != '\0'; to++) {
        *to = (char)((unsigned char)*to < ' ' ? ' ' : *to);
    }
}

static void take(struct mst_fault *fault, const struct mst_item *item)
{
    *fault = (struct mst_fault){.index = item->who.index,
                                .rank = item->who.rank,
                                .kind = item->who.cause,
                                .code = item->who.code,
                                .pid = item->who.pid,
                                .generation = item->number};
    copy(fault->host, sizeof fault->host, item->who.host);
    copy(fault->text, sizeof fault->text, item->value);
}

/* ---- while the run goes on ---- */

/* False: it was known. */
static bool make_known(struct mst_faults *faults, const struct mst_fault *fault)
{
    uint32_t of_generation = 0;

    for (uint32_t i = 0; i < MST_FAULTS_KNOWN && i < faults->known_total; i++) {
        bool same = faults->known[i].generation == fault->generation;

        if (same && faults->known[i].index == fault->index) {
            return false;
        }
        of_generation += same;
    }
    if (of_generation < MST_NAMES_MAX) { /* later ones are not in the history */
        uint32_t at = faults->known_total++ % MST_FAULTS_KNOWN;

        faults->known[at].generation = fault->generation;
        faults->known[at].index = fault->index;
    }
    return true;
}

static void hear(struct mst_faults *faults, const struct mst_item *item)
{
    struct mst_fault fault;

    take(&fault, item);
    /* The node that started the process reports deaths and hangs. */
    if (!mst_faults_told(&fault) || fault.kind == MST_CAUSE_SOFT_TIMEOUT ||
        !make_known(faults, &fault)) {
        return;
    }
    if (faults->heard_count < MST_FAULTS_ROOM) {
        faults->heard[faults->heard_count++] = fault;
    } else {
        faults->missed++;
    }
}

/* ---- the history ---- */

static void on_history(void *ctx, const struct mst_reply *reply);

/* Now, or after the answer that is under way, which may be of before. */
static void read_on(struct mst_faults *faults)
{
    struct mst_request request = {.command = MST_HISTORY, .page.after = faults->last};

    faults->again = faults->read.open;
    if (!faults->again) {
        faults->read = (struct mst_lib_post){.complete = on_history, .ctx = faults};
        (void)mst_lib_post(faults->session->client, &request, UINT64_MAX, &faults->read);
    }
}

static void hear_incident(struct mst_faults *faults, const struct mst_item *item)
{
    faults->last = item->revision;
    if (item->incident == MST_INCIDENT_FAULT && faults->reached) {
        hear(faults, item);
    }
}

static void on_history(void *ctx, const struct mst_reply *reply)
{
    struct mst_faults *faults = ctx;

    if (reply->status != MUSTER_OK) {
        return; /* the next change asks again */
    }
    mst_shared_lock(faults->shared);
    for (uint32_t i = 0; i < reply->item_count; i++) {
        hear_incident(faults, &reply->items[i]);
    }
    mst_shared_unlock(faults->shared);
    mst_shared_wake(faults->shared);
    faults->reached = faults->reached || reply->next == 0;
    if (faults->again || reply->next != 0) {
        read_on(faults);
    }
}

void mst_faults_follow(struct mst_faults *faults, struct mst_run_session *session)
{
    if (session->client != NULL) {
        mst_lib_lock(session->client);
        faults->session = session;
        faults->reached = false;
        read_on(faults);
        mst_lib_unlock(session->client);
    }
}

void mst_faults_heard(struct mst_faults *faults, const struct mst_reply *reply)
{
    bool changed = false;

    for (uint32_t i = 0; i < reply->item_count; i++) {
        const struct mst_item *item = &reply->items[i];

        changed = changed || item->kind == MST_ITEM_VIEW;
        if (item->kind == MST_ITEM_FAULT && item->revision > faults->revision) {
            faults->revision = item->revision;
            hear(faults, item);
        }
    }
    if (changed) {
        read_on(faults);
    }
}

/* ends: another line says what follows, or nothing does. */
static void say(const struct mst_fault *fault, bool ends)
{
    char what[400], rank[32] = "", then[96] = "";

    mst_faults_what(fault, what, sizeof what);
    if (fault->rank != MST_RANK_NONE) {
        (void)snprintf(rank, sizeof rank, "rank %" PRIu32 " (", fault->rank);
    }
    if (fault->kind != MST_CAUSE_ABORTED && fault->generation != 0 && !ends) {
        (void)snprintf(then, sizeof then, "; generation %" PRIu64 " follows in the same processes",
                       fault->generation + 1);
    }
    mst_say("%s#%" PRIu32 "%s %s%s", rank, fault->index, rank[0] != '\0' ? ")" : "", what, then);
}

void mst_faults_say_more(struct mst_faults *faults)
{
    if (faults->unsaid > 0) {
        mst_say("and %" PRIu32 " more fault%s", faults->unsaid, faults->unsaid == 1 ? "" : "s");
    }
    faults->unsaid = 0;
}

static void on_more(uv_timer_t *timer)
{
    mst_faults_say_more(timer->data);
}

void mst_faults_open(struct mst_faults *faults, uv_loop_t *loop, struct mst_shared *shared)
{
    (void)uv_timer_init(loop, &faults->more);
    faults->more.data = faults;
    faults->shared = shared;
}

void mst_faults_look(struct mst_faults *faults, const struct mst_group *group, bool ends)
{
    struct mst_fault heard[MST_FAULTS_ROOM];
    uint64_t now_ns = mst_lib_now_ns();
    uint32_t count, missed;

    mst_shared_lock(faults->shared);
    /* Restarting was given up meanwhile, also by another node. */
    ends = ends || mst_group_begins(group) || group->told > group->life;
    count = faults->heard_count;
    missed = faults->missed;
    memcpy(heard, faults->heard, count * sizeof *heard);
    faults->heard_count = faults->missed = 0;
    mst_shared_unlock(faults->shared);
    if (now_ns - faults->window_ns > WINDOW_NS) {
        mst_faults_say_more(faults);
        faults->window_ns = now_ns;
        faults->said = 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (faults->said < LINES_PER_WINDOW) {
            say(&heard[i], ends);
        }
        missed += faults->said >= LINES_PER_WINDOW;
        faults->said += faults->said < LINES_PER_WINDOW;
    }
    faults->unsaid += missed;
    if (missed > 0 && !uv_is_active((uv_handle_t *)&faults->more)) {
        uint64_t left_ns = faults->window_ns + WINDOW_NS - now_ns;

        (void)uv_timer_start(&faults->more, on_more, left_ns / NS_PER_MS + 1, 0);
    }
}

/* ---- when it ends ---- */

/* A peer may see a connection break and say so before the death that broke it is known. */
static bool is_passed_on(const struct mst_item *item)
{
    return item->who.cause == MST_CAUSE_FAULT && mst_status_is_passed_on(item->who.code);
}

bool mst_faults_better(const struct mst_item *item, const struct mst_item *first)
{
    if (first == NULL || item->number > first->number) {
        return true;
    }
    if (item->number == first->number && is_passed_on(first)) {
        return !is_passed_on(item);
    }
    return item->number == first->number && first->who.cause == MST_CAUSE_SOFT_TIMEOUT &&
           item->who.cause == MST_CAUSE_HARD_TIMEOUT && item->who.index != first->who.index;
}

static void on_answer(void *ctx, const struct mst_reply *reply)
{
    struct mst_faults *faults = ctx;
    const struct mst_item *first = NULL;

    for (uint32_t i = 0; reply->status == MUSTER_OK && i < reply->item_count; i++) {
        const struct mst_item *item = &reply->items[i];

        if (item->kind == MST_ITEM_FAULT && item->who.cause != MST_CAUSE_LEFT &&
            item->who.cause != MST_CAUSE_AGAIN && mst_faults_better(item, first)) {
            first = item;
        }
    }
    if (first != NULL) {
        take(&faults->first, first);
    }
    atomic_store(&faults->answered, true);
    mst_shared_wake(faults->shared);
}

void mst_faults_ask(struct mst_faults *faults, struct mst_run_session *session)
{
    struct mst_request request = {.command = MST_FAULTS};

    if (session->client != NULL) {
        faults->post = (struct mst_lib_post){.complete = on_answer, .ctx = faults};
        mst_lib_lock(session->client);
        faults->asked = mst_lib_post(session->client, &request, mst_lib_now_ns() + ANSWER_LIMIT_NS,
                                     &faults->post) == MUSTER_OK;
        mst_lib_unlock(session->client);
    }
}

bool mst_faults_answered(const struct mst_faults *faults)
{
    return atomic_load(&faults->answered) || !faults->asked;
}
