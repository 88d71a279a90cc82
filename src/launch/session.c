/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "launch/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/panic.h"
#include "launch/job.h"
#include "proto/notice.h"

#define BOTH_KEYS "muster/run" /* how MST_SESSION_KEYS and MST_SESSION_NODE_KEYS begin */

/* With the client's lock held. */
static void follow(struct mst_run_session *session, uint32_t node)
{
    bool all = node == MST_NODE_NONE;

    mst_lib_follow(&session->follow, session->client,
                   MST_WATCH_MEMBERS | MST_WATCH_KEYS |
                       (all ? MST_WATCH_FAULTS | MST_WATCH_VIEW : 0),
                   mst_slice_text(all ? BOTH_KEYS : MST_SESSION_KEYS), node);
}

static enum muster_grow grow_of(const char *text)
{
    if (strcmp(text, "off") == 0) {
        return MUSTER_GROW_OFF;
    }
    return strcmp(text, "fault") == 0 ? MUSTER_GROW_FAULT : MUSTER_GROW_CHECK;
}

void mst_session_access(struct muster_client_options *options, const struct mst_run_job *job)
{
    options->addr = job->nodes.addr;
    options->job = job->name;
    options->secret_file = job->nodes.secret[0] != '\0' ? job->nodes.secret : NULL;
    options->insecure = job->options->insecure;
}

void mst_session_shape(struct muster_client_options *options, const struct mst_run_options *run)
{
    options->size_of_job = run->size;
    options->min_size = run->min_size;
    options->max_size = run->max_size;
    options->size_multiple = run->size_multiple;
    options->join_wait_ms = run->join_wait_ms;
    options->grow = grow_of(run->grow);
}

muster_status mst_session_client(muster_client **out, const struct mst_run_job *job,
                                 int64_t timeout_ms, struct muster_client_options *options,
                                 struct muster_error *err)
{
    mst_session_access(options, job);
    return mst_lib_open(out, options,
                        options->role == MUSTER_ROLE_AGENT && job->options->max_restarts > 0,
                        timeout_ms, err);
}

muster_status mst_session_open(struct mst_run_session *session, struct mst_run_job *job,
                               int64_t index, int64_t timeout_ms, uint32_t *number_out,
                               struct muster_error *err)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    struct muster_view view;
    muster_status status;

    *session = (struct mst_run_session){.shared = &job->shared};
    options.role = MUSTER_ROLE_AGENT;
    options.index = index;
    mst_session_shape(&options, job->options);
    status = mst_session_client(&session->client, job, timeout_ms, &options, err);
    if (status == MUSTER_OK) {
        muster_client_view(session->client, &view);
        *number_out = view.index;
    }
    return status;
}

void mst_session_watch(struct mst_run_session *session, uint32_t node)
{
    mst_lib_lock(session->client);
    follow(session, node);
    mst_lib_unlock(session->client);
}

void mst_session_widen(struct mst_run_session *session)
{
    struct mst_item reset = {.kind = MST_ITEM_RESET};
    const struct mst_reply reply = {
        .items = &reset, .item_count = 1, .revision = MST_CURSOR_LISTING};

    mst_lib_lock(session->client);
    (void)session->follow.take(session->follow.ctx, &reply);
    follow(session, MST_NODE_NONE);
    mst_lib_unlock(session->client);
}

/* Locks the client. False: there is none. */
static bool enter(const struct mst_run_session *session)
{
    if (session->client != NULL) {
        mst_lib_lock(session->client);
    }
    return session->client != NULL;
}

void mst_session_notices(struct mst_run_session *session)
{
    if (enter(session)) {
        mst_lib_follow(&session->notices, session->client, MST_WATCH_KEYS,
                       mst_slice_text(MST_PREEMPT_PREFIX), MST_NODE_NONE);
        mst_lib_unlock(session->client);
    }
}

void mst_session_close(struct mst_run_session *session)
{
    if (enter(session)) {
        mst_lib_follow_end(&session->follow);
        mst_lib_follow_end(&session->notices);
        mst_lib_unlock(session->client);
        muster_client_close(session->client);
        session->client = NULL;
    }
}

/* ---- deaths ---- */

/* With the client's lock held. If it cannot be said, the lease says it. */
static muster_status send_word(struct mst_delivery *delivery)
{
    const struct mst_word *word = MST_CONTAINER(delivery, struct mst_word, delivery);
    const struct mst_process *process = word->process;
    const bool given_up =
        word->cause == MST_CAUSE_HARD_TIMEOUT || word->cause == MST_CAUSE_UNHEALTHY;
    const struct mst_request request = {
        .command = MST_LOST,
        .lost = {.index = process->index,
                 .pid = mst_process_pid(process),
                 .cause = word->cause,
                 .code = word->code,
                 .text = mst_slice_text(given_up ? process->why : ""),
                 .last = word->last}};

    return mst_lib_post(delivery->client, &request, UINT64_MAX, &delivery->post);
}

static void deliver_word(struct mst_run_session *session, struct mst_process *process,
                         struct mst_word said)
{
    struct mst_word *word;

    if (enter(session)) {
        MST_ASSERT(process->lost_count < sizeof process->lost / sizeof process->lost[0]);
        word = &process->lost[process->lost_count++];
        *word = said;
        word->delivery.send = send_word;
        word->process = process;
        mst_deliver(&word->delivery, session->client);
        mst_lib_unlock(session->client);
    }
}

void mst_session_lost(struct mst_run_session *session, struct mst_process *process,
                      enum mst_cause cause, int code)
{
    deliver_word(session, process, (struct mst_word){.cause = cause, .code = code});
}

void mst_session_last(struct mst_run_session *session, struct mst_process *process)
{
    deliver_word(session, process, (struct mst_word){.cause = MST_CAUSE_GONE, .last = true});
}

bool mst_session_heard_all(struct mst_run_session *session, const struct mst_process *process)
{
    bool told = enter(session);

    if (told) {
        for (unsigned i = 0; i < process->lost_count; i++) {
            told = told && !process->lost[i].delivery.owed;
        }
        mst_lib_unlock(session->client);
    }
    return told;
}

/* ---- what this node writes ---- */

static void on_written(struct mst_delivery *delivery, const struct mst_reply *reply)
{
    struct mst_note *note = MST_CONTAINER(delivery, struct mst_note, delivery);

    note->status = reply->status;
    note->told = true;
    mst_shared_wake(note->session->shared);
}

/* Of an ended session there is no answer: what becomes of it decides. */
static void on_counted(struct mst_delivery *delivery, const struct mst_reply *reply)
{
    struct mst_note *note = MST_CONTAINER(delivery, struct mst_note, delivery);
    struct mst_counter *counter = MST_CONTAINER(note, struct mst_counter, note);

    if (reply->status == MUSTER_EFENCED || reply->status == MUSTER_ECANCELLED) {
        return;
    }
    counter->answered = true;
    counter->sum = reply->status == MUSTER_OK ? reply->number : INT64_MAX;
    mst_shared_wake(note->session->shared);
}

/* With the client's lock held. */
static muster_status send_note(struct mst_delivery *delivery)
{
    const struct mst_note *note = MST_CONTAINER(delivery, struct mst_note, delivery);
    struct mst_write ops[2] = {{.kind = note->insert ? MST_INSERT : MST_PUT,
                                .owned = note->owned,
                                .key = mst_slice_text(note->key),
                                .value = mst_slice_text(note->value)}};
    struct mst_request request = {.command = MST_WRITE, .write = {.ops = ops, .count = 1}};

    if (note->counts) {
        ops[0].kind = MST_ADD;
        ops[0].delta = 1;
    } else if (note->counts_too != NULL) { /* first: a watcher of the key then knows the sum */
        ops[1] = ops[0];
        ops[0] = (struct mst_write){
            .kind = MST_ADD, .key = mst_slice_text(note->counts_too), .delta = 1};
        request.write.count = 2;
    } else if (note->with_key != NULL) {
        ops[1] = ops[0];
        ops[0] = (struct mst_write){.kind = MST_PUT,
                                    .key = mst_slice_text(note->with_key),
                                    .value = mst_slice_text(note->with_value)};
        request.write.count = 2;
    }
    return mst_lib_post(delivery->client, &request, UINT64_MAX, &delivery->post);
}

static void deliver(struct mst_run_session *session, struct mst_note *note)
{
    note->session = session;
    note->delivery.send = send_note;
    note->delivery.arrived = note->counts ? on_counted : on_written;
    mst_deliver(&note->delivery, session->client);
}

void mst_session_write(struct mst_run_session *session, struct mst_note *note, const char *value)
{
    if (enter(session)) { /* else mst_session_told says so */
        (void)snprintf(note->value, sizeof note->value, "%s", value);
        note->told = false;
        deliver(session, note);
        mst_lib_unlock(session->client);
    }
}

void mst_session_put_with(struct mst_run_session *session, struct mst_note *note, const char *key,
                          const char *value)
{
    if (enter(session)) {
        note->with_key = key;
        (void)snprintf(note->with_value, sizeof note->with_value, "%s", value);
        mst_lib_unlock(session->client);
    }
}

void mst_session_ask(struct mst_run_session *session, struct mst_counter *counter)
{
    if (enter(session)) {
        counter->note.counts = true;
        if (counter->asked++ == 0) {
            deliver(session, &counter->note);
        }
        mst_lib_unlock(session->client);
    }
}

bool mst_session_answer(struct mst_run_session *session, struct mst_counter *counter,
                        int64_t *sum_out)
{
    bool answered = false;

    if (enter(session)) {
        answered = counter->answered;
        if (answered) {
            *sum_out = counter->sum;
            counter->answered = false;
            if (--counter->asked > 0) {
                deliver(session, &counter->note);
            }
        }
        mst_lib_unlock(session->client);
    }
    return answered;
}

bool mst_session_told(struct mst_run_session *session, struct mst_note *note,
                      muster_status *status_out)
{
    bool told = true;

    *status_out = MUSTER_ECANCELLED;
    if (enter(session)) {
        told = note->told;
        *status_out = note->status;
        mst_lib_unlock(session->client);
    }
    return told;
}

bool mst_session_silent(struct mst_run_session *session)
{
    bool silent = false;

    if (enter(session)) {
        silent = mst_lib_stopped(session->client);
        mst_lib_unlock(session->client);
    }
    return silent;
}
