/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "launch/leaders.h"

#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "launch/job.h"
#include "launch/say.h"
#include "proto/run_keys.h"
#include "view/replicas.h"

#define ASK_MS 1000
#define ANSWER_MS 10000

/* ---- what is heard, with the client's lock held ---- */

void mst_leaders_heard(struct mst_run_job *job, struct mst_slice name, struct mst_slice value)
{
    struct mst_leaders *leaders = &job->leaders;
    const unsigned place = leaders->place_count % MST_LEADERS_PLACES_MAX;
    uint32_t node;

    if (mst_run_number_read(name, UINT32_MAX, &node)) {
        leaders->places[place].node = node;
        (void)mst_slice_copy(leaders->places[place].address, MST_ADDRESS_TEXT, value);
        leaders->place_count++;
    }
}

static void on_jobs(void *ctx, const struct mst_reply *reply)
{
    struct mst_run_job *job = ctx;
    struct mst_slice rest = reply->value;
    struct mst_leaders_state heard = {.count = 0};
    struct mst_replica_look look;

    while (reply->status == MUSTER_OK && mst_replica_look_next(&rest, &look)) {
        if (look.there == MST_REPLICA_THERE_LEADS) {
            (void)mst_slice_copy(heard.leader, sizeof heard.leader, look.address);
        }
        if (mst_replica_votes(reply->value, look.address) && heard.count < MST_LEADERS_VOTERS_MAX) {
            (void)mst_slice_copy(heard.voters[heard.count++], MST_ADDRESS_TEXT, look.address);
        }
    }
    mst_shared_lock(&job->shared);
    if (heard.leader[0] != '\0') {
        job->leaders.heard = heard;
        job->leaders.answered = true;
    }
    mst_shared_unlock(&job->shared);
}

/* ---- what is printed ---- */

static bool votes(const struct mst_leaders_state *state, const char *address)
{
    bool found = false;

    for (unsigned i = 0; i < state->count; i++) {
        found = found || strcmp(state->voters[i], address) == 0;
    }
    return found;
}

/* "node 1 (10.0.0.2:7000)"; the newest node that said so. */
static void add_name(struct mst_text *text, struct mst_run_job *job, const char *address)
{
    const struct mst_leaders *leaders = &job->leaders;
    bool found = false;

    mst_shared_lock(&job->shared);
    for (unsigned age = 1; age <= leaders->place_count && age <= MST_LEADERS_PLACES_MAX; age++) {
        const unsigned place = (leaders->place_count - age) % MST_LEADERS_PLACES_MAX;

        if (!found && strcmp(leaders->places[place].address, address) == 0) {
            found = true;
            mst_text_format(text, "node %" PRIu32 " (%.*s)", leaders->places[place].node,
                            MST_TEXT_ARGS(address));
        }
    }
    mst_shared_unlock(&job->shared);
    if (!found) {
        mst_text_slice(text, mst_slice_text(address));
    }
}

/* The voters of `in` that are none of `beside`, behind `words`. How many. */
static unsigned add_others(struct mst_text *text, struct mst_run_job *job, const char *words,
                           const struct mst_leaders_state *in,
                           const struct mst_leaders_state *beside)
{
    unsigned count = 0;

    for (unsigned i = 0; i < in->count; i++) {
        if (!votes(beside, in->voters[i])) {
            mst_text_add(text, count++ == 0 ? words : ", ");
            add_name(text, job, in->voters[i]);
        }
    }
    return count;
}

static void add_leader(struct mst_text *text, struct mst_run_job *job,
                       const struct mst_leaders_state *now)
{
    const struct mst_leaders_state *before = &job->leaders.printed;

    if (strcmp(now->leader, before->leader) != 0) {
        mst_text_add(text, ": ");
        add_name(text, job, now->leader);
        mst_text_add(text, " leads now");
        if (before->leader[0] != '\0') {
            mst_text_add(text, ", before it ");
            add_name(text, job, before->leader);
        }
    }
}

static void add_voters(struct mst_text *text, struct mst_run_job *job,
                       const struct mst_leaders_state *now)
{
    const struct mst_leaders_state *before = &job->leaders.printed;
    const bool first = before->leader[0] == '\0';
    const unsigned came =
        add_others(text, job, first ? "; replicas: " : "; new replica: ", now, before);
    const unsigned went =
        add_others(text, job, came > 0 ? ", in place of " : "; no longer a replica: ", before, now);

    if (came + went > 0) {
        mst_text_format(text, "; %u vote%s", now->count, now->count == 1 ? "s" : "");
    }
}

static void print(struct mst_run_job *job, const struct mst_leaders_state *now)
{
    char line[2048] = "";
    struct mst_text text = mst_text_in(line, sizeof line);

    add_leader(&text, job, now);
    add_voters(&text, job, now);
    if (line[0] != '\0') {
        mst_say("the service of job '%s'%s%s", job->name, line[0] == ';' ? ":" : "",
                line[0] == ';' ? line + 1 : line);
    }
    job->leaders.printed = *now;
}

/* ---- on the loop ---- */

static bool is_lowest(struct mst_run_job *job)
{
    const struct mst_nodes *nodes = &job->nodes;
    bool lowest;

    mst_shared_lock(&job->shared);
    lowest = !nodes->narrow;
    for (uint32_t i = 0; i < nodes->number; i++) {
        lowest = lowest && !nodes->peers[i].here;
    }
    mst_shared_unlock(&job->shared);
    return lowest;
}

static void ask(struct mst_run_job *job)
{
    struct mst_lib_post *post = &job->leaders.post;
    const struct mst_request request = {.command = MST_JOBS};

    mst_lib_lock(job->session.client);
    if (!post->open) {
        *post = (struct mst_lib_post){.complete = on_jobs, .ctx = job};
        (void)mst_lib_post(job->session.client, &request,
                           mst_lib_now_ns() + (uint64_t)ANSWER_MS * NS_PER_MS, post);
    }
    mst_lib_unlock(job->session.client);
}

static void on_timer(uv_timer_t *timer)
{
    struct mst_run_job *job = timer->data;
    struct mst_leaders_state now;
    bool answered, listed;

    if (job->nodes.joining || job->nodes.rejoins || job->end.closing ||
        job->end.how != MST_GOES_ON || job->session.client == NULL) {
        return;
    }
    mst_shared_lock(&job->shared);
    answered = job->leaders.answered;
    now = job->leaders.heard;
    job->leaders.answered = false;
    listed = job->nodes.listed;
    mst_shared_unlock(&job->shared);
    if (!listed) {
        return;
    }
    if (!is_lowest(job)) {
        job->leaders.printed = (struct mst_leaders_state){.count = 0};
        return;
    }
    if (answered) {
        print(job, &now);
    }
    ask(job);
}

void mst_leaders_init(struct mst_run_job *job)
{
    (void)uv_timer_init(&job->loop, &job->leaders.timer);
    job->leaders.timer.data = job;
}

void mst_leaders_begin(struct mst_run_job *job)
{
    struct mst_leaders *leaders = &job->leaders;

    mst_shared_lock(&job->shared);
    leaders->answered = false;
    leaders->place_count = 0;
    mst_shared_unlock(&job->shared);
    leaders->printed = (struct mst_leaders_state){.count = 0};
    if (job->nodes.first) { /* its replica begins alone */
        leaders->printed.count = 1;
        mst_text_print(leaders->printed.leader, MST_ADDRESS_TEXT, "%s", job->replicas.address);
        mst_text_print(leaders->printed.voters[0], MST_ADDRESS_TEXT, "%s", job->replicas.address);
    }
    if (mst_replicas_wanted(job)) {
        (void)uv_timer_start(&leaders->timer, on_timer, ASK_MS, ASK_MS);
    }
}
