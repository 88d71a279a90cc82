/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BOTH_KEYS "muster/run" /* how MST_SESSION_KEYS and MST_SESSION_NODE_KEYS begin */

static void watch_on(struct mst_run_session *session);

/* What follows in `name` after its beginning. */
static bool cut(struct mst_slice name, const char *beginning, struct mst_slice *rest_out)
{
    struct mst_slice head = mst_slice_text(beginning);

    if (name.size <= head.size || !mst_slice_starts_with(name, head)) {
        return false;
    }
    *rest_out = mst_slice_of((const char *)name.data + head.size, name.size - head.size);
    return true;
}

static void on_item(const struct mst_run_session *session, const struct mst_item *item)
{
    const struct mst_session_events *events = &session->events;
    struct mst_slice rest;

    if (item->kind == MST_ITEM_MEMBER) {
        events->member(events->ctx, &item->who);
    } else if (item->kind == MST_ITEM_FAULT) {
        events->fault(events->ctx, item);
    } else if (item->kind == MST_ITEM_RESET) {
        events->reset(events->ctx);
    } else if (item->kind == MST_ITEM_KEY && cut(item->name, MST_SESSION_KEYS, &rest)) {
        events->key(events->ctx, rest, item->value);
    } else if (item->kind == MST_ITEM_KEY && cut(item->name, MST_SESSION_NODE_KEYS, &rest)) {
        events->node_key(events->ctx, rest, item->value);
    } else if (item->kind == MST_ITEM_DELETED && cut(item->name, MST_SESSION_KEYS, &rest)) {
        events->key_gone(events->ctx, rest);
    }
}

static void on_watch(void *ctx, const struct mst_reply *reply)
{
    struct mst_run_session *session = ctx;

    if (reply->status == MUSTER_EFENCED) {
        session->events.fenced(session->events.ctx);
    }
    if (session->widens && reply->status != MUSTER_EFENCED) { /* it was still of one node */
        session->widens = false;
        watch_on(session);
        return;
    }
    if (reply->status != MUSTER_OK) {
        return;
    }
    for (uint32_t i = 0; i < reply->item_count; i++) {
        on_item(session, &reply->items[i]);
    }
    session->revision = reply->revision;
    if ((reply->revision & MST_CURSOR_LISTING) == 0) {
        session->events.listed(session->events.ctx);
    }
    session->events.turn(session->events.ctx);
    watch_on(session);
}

/* With the client's lock held. */
static void watch_on(struct mst_run_session *session)
{
    struct mst_request request = {.command = MST_WATCH,
                                  .watch = {.kinds = MST_WATCH_MEMBERS | MST_WATCH_KEYS,
                                            .prefix = mst_slice_text(MST_SESSION_KEYS),
                                            .after = session->revision,
                                            .node = session->node}};

    if (session->node == MST_NODE_NONE) {
        request.watch.prefix = mst_slice_text(BOTH_KEYS);
        request.watch.kinds |= MST_WATCH_FAULTS;
    }

    session->watch = (struct mst_lib_post){.complete = on_watch, .ctx = session};
    (void)mst_lib_post(session->client, &request, UINT64_MAX, &session->watch);
}

static enum muster_grow grow_of(const char *text)
{
    if (strcmp(text, "off") == 0) {
        return MUSTER_GROW_OFF;
    }
    return strcmp(text, "fault") == 0 ? MUSTER_GROW_FAULT : MUSTER_GROW_CHECK;
}

muster_status mst_session_client(muster_client **out, const struct mst_session_target *target,
                                 struct muster_client_options *options, struct muster_error *err)
{
    options->addr = target->addr;
    options->job = target->job;
    options->secret_file = target->secret[0] != '\0' ? target->secret : NULL;
    options->insecure = target->insecure;
    return muster_client_open(out, options, target->timeout_ms, err);
}

muster_status mst_session_open(struct mst_run_session *session,
                               const struct mst_session_target *target, int64_t index,
                               const struct mst_run_options *options, uint32_t *number_out,
                               struct muster_error *err)
{
    struct muster_client_options client_options = MUSTER_CLIENT_OPTIONS_INIT;
    struct muster_view view;
    muster_status status;

    *session = (struct mst_run_session){0};
    client_options.role = MUSTER_ROLE_AGENT;
    client_options.index = index;
    client_options.size_of_job = options->size;
    client_options.min_size = options->min_size;
    client_options.max_size = options->max_size;
    client_options.size_multiple = options->size_multiple;
    client_options.join_wait_ms = options->join_wait_ms;
    client_options.grow = grow_of(options->grow);
    status = mst_session_client(&session->client, target, &client_options, err);
    if (status == MUSTER_OK) {
        muster_client_view(session->client, &view);
        *number_out = view.index;
    }
    return status;
}

void mst_session_watch(struct mst_run_session *session, const struct mst_session_events *events,
                       uint32_t node)
{
    mst_lib_lock(session->client);
    session->events = *events;
    session->node = node;
    watch_on(session);
    mst_lib_unlock(session->client);
}

void mst_session_widen(struct mst_run_session *session)
{
    mst_lib_lock(session->client);
    session->events.reset(session->events.ctx);
    session->node = MST_NODE_NONE;
    session->revision = 0;
    session->widens = session->watch.open;
    if (session->widens) {
        mst_lib_post_cancel(session->client, &session->watch);
    } else {
        watch_on(session);
    }
    mst_lib_unlock(session->client);
}

void mst_session_close(struct mst_run_session *session)
{
    if (session->client != NULL) {
        mst_lib_lock(session->client);
        session->widens = false;
        mst_lib_post_cancel(session->client, &session->watch);
        mst_lib_unlock(session->client);
        muster_client_close(session->client);
        session->client = NULL;
    }
}

/* ---- who died ---- */

static void on_lost(void *ctx, const struct mst_reply *reply)
{
    struct mst_word *word = ctx;
    struct mst_run_session *session = word->session;

    if (reply->status == MUSTER_ENOSPACE || reply->status == MUSTER_ELIMIT ||
        reply->status == MUSTER_ENOMEM) {
        word->refused = session->refused = true;
        if (session->events.turn) {
            session->events.turn(session->events.ctx);
        }
    }
}

/* With the client's lock held. If it cannot be said, the lease says it. */
static void post_word(struct mst_process *process, struct mst_word *word)
{
    struct mst_request request = {.command = MST_LOST,
                                  .lost = {.index = process->index,
                                           .pid = mst_process_pid(process),
                                           .cause = word->cause,
                                           .code = word->code}};

    if (word->cause == MST_CAUSE_HARD_TIMEOUT) {
        request.lost.text = mst_slice_text(process->hung);
    }

    word->refused = false;
    word->post = (struct mst_lib_post){.complete = on_lost, .ctx = word};
    (void)mst_lib_post(word->session->client, &request, UINT64_MAX, &word->post);
}

void mst_session_lost(struct mst_run_session *session, struct mst_process *process,
                      enum mst_cause cause, int code)
{
    struct mst_word *word;

    if (session->client == NULL) {
        return;
    }
    mst_lib_lock(session->client);
    word = &process->lost[process->lost_count++];
    word->session = session;
    word->cause = cause;
    word->code = code;
    post_word(process, word);
    mst_lib_unlock(session->client);
}

/* With the client's lock held. */
static void on_stall_refused(void *ctx)
{
    struct mst_run_session *session = ctx;

    session->refused = true;
    if (session->events.turn) {
        session->events.turn(session->events.ctx);
    }
}

void mst_session_stalled(struct mst_run_session *session, const struct mst_process *process,
                         bool named, uint64_t generation, const char *text)
{
    struct mst_stall *stall = &session->stall;

    if (session->client == NULL) {
        return;
    }
    mst_lib_lock(session->client);
    stall->refused = on_stall_refused;
    stall->ctx = session;
    stall->pid = mst_process_pid(process);
    stall->instead = process->index;
    stall->index = named ? process->index : MST_INDEX_ANY;
    mst_stall_set(stall, session->client, generation, text);
    mst_lib_unlock(session->client);
}

bool mst_session_waits(struct mst_run_session *session, const struct mst_monitor *monitor,
                       const struct mst_watched *one, uint64_t now_ns, char *text, size_t room)
{
    bool all;

    if (session->client == NULL) {
        return false;
    }
    mst_lib_lock(session->client);
    all = mst_waits_look(&session->waits, session->client, monitor, one, now_ns, text, room);
    mst_lib_unlock(session->client);
    return all;
}

bool mst_session_unheard(struct mst_run_session *session)
{
    bool unheard;

    if (session->client == NULL) {
        return false;
    }
    mst_lib_lock(session->client);
    unheard = mst_stall_unheard(&session->stall);
    mst_lib_unlock(session->client);
    return unheard;
}

bool mst_session_refused(struct mst_run_session *session)
{
    bool refused;

    if (session->client == NULL) {
        return false;
    }
    mst_lib_lock(session->client);
    refused = session->refused;
    mst_lib_unlock(session->client);
    return refused;
}

bool mst_session_heard_all(struct mst_run_session *session, const struct mst_process *process)
{
    bool told = session->client != NULL;

    if (told) {
        mst_lib_lock(session->client);
        for (unsigned i = 0; i < process->lost_count; i++) {
            told = told && !process->lost[i].post.open && !process->lost[i].refused;
        }
        mst_lib_unlock(session->client);
    }
    return told;
}

void mst_session_say_again(struct mst_run_session *session, struct mst_process *processes)
{
    if (session->client == NULL) {
        return;
    }
    mst_lib_lock(session->client);
    session->refused = false;
    mst_stall_say(&session->stall, session->client);
    for (struct mst_process *process = processes; process != NULL; process = process->older) {
        for (unsigned i = 0; i < process->lost_count; i++) {
            if (process->lost[i].refused) {
                post_word(process, &process->lost[i]);
            }
        }
    }
    mst_lib_unlock(session->client);
}

/* ---- what this node writes ---- */

static void post_note(struct mst_note *note);

static bool no_room(muster_status status)
{
    return status == MUSTER_ENOMEM || status == MUSTER_ENOSPACE || status == MUSTER_ELIMIT;
}

static void on_written(void *ctx, const struct mst_reply *reply)
{
    struct mst_note *note = ctx;

    note->status = reply->status;
    note->owed = no_room(reply->status);
    if (note->again) {
        post_note(note);
    } else if (!note->owed) {
        note->told = true;
        note->session->events.turn(note->session->events.ctx);
    }
}

/* Of an ended session there is no answer: what becomes of it decides. */
static void on_counted(void *ctx, const struct mst_reply *reply)
{
    struct mst_counter *counter = ctx; /* its note, the first in it */

    counter->note.owed = no_room(reply->status);
    if (counter->note.owed || reply->status == MUSTER_EFENCED ||
        reply->status == MUSTER_ECANCELLED) {
        return;
    }
    counter->answered = true;
    counter->sum = reply->status == MUSTER_OK ? reply->number : INT64_MAX;
    counter->note.session->events.turn(counter->note.session->events.ctx);
}

/* With the client's lock held. */
static void post_note(struct mst_note *note)
{
    struct mst_write ops[2] = {{.kind = note->insert ? MST_INSERT : MST_PUT,
                                .owned = note->owned,
                                .key = mst_slice_text(note->key),
                                .value = mst_slice_text(note->value)}};
    struct mst_request request = {.command = MST_WRITE, .write = {.ops = ops, .count = 1}};

    if (note->counts) {
        ops[0].kind = MST_ADD;
        ops[0].delta = 1;
    } else if (note->counts_too != NULL) { /* first: then who is told of the key knows the sum */
        ops[1] = ops[0];
        ops[0] = (struct mst_write){
            .kind = MST_ADD, .key = mst_slice_text(note->counts_too), .delta = 1};
        request.write.count = 2;
    }
    note->again = false;
    note->post =
        (struct mst_lib_post){.complete = note->counts ? on_counted : on_written, .ctx = note};
    note->status = mst_lib_post(note->session->client, &request, UINT64_MAX, &note->post);
    note->owed = no_room(note->status);
    note->told = note->status != MUSTER_OK && !note->owed;
}

static void keep_note(struct mst_run_session *session, struct mst_note *note)
{
    if (note->session == NULL) {
        note->session = session;
        note->next = session->notes;
        session->notes = note;
    }
}

void mst_session_write(struct mst_run_session *session, struct mst_note *note, const char *value)
{
    if (session->client == NULL) {
        return; /* and mst_session_told says so */
    }
    mst_lib_lock(session->client);
    (void)snprintf(note->value, sizeof note->value, "%s", value);
    keep_note(session, note);
    note->told = false;
    note->again = note->post.open; /* what is under way goes first */
    if (!note->again) {
        post_note(note);
    }
    mst_lib_unlock(session->client);
}

void mst_session_ask(struct mst_run_session *session, struct mst_counter *counter)
{
    if (session->client == NULL) {
        return;
    }
    mst_lib_lock(session->client);
    counter->note.counts = true;
    keep_note(session, &counter->note);
    counter->asked++;
    if (counter->asked == 1) {
        post_note(&counter->note);
    }
    mst_lib_unlock(session->client);
}

bool mst_session_answer(struct mst_run_session *session, struct mst_counter *counter,
                        int64_t *sum_out)
{
    bool answered = false;

    if (session->client != NULL) {
        mst_lib_lock(session->client);
        answered = counter->answered;
        if (answered) {
            *sum_out = counter->sum;
            counter->answered = false;
            counter->asked--;
            if (counter->asked > 0) {
                post_note(&counter->note);
            }
        }
        mst_lib_unlock(session->client);
    }
    return answered;
}

void mst_session_retry(struct mst_run_session *session)
{
    if (session->client == NULL) {
        return;
    }
    mst_lib_lock(session->client);
    if (session->events.turn != NULL && !session->watch.open) {
        watch_on(session);
    }
    for (struct mst_note *note = session->notes; note != NULL; note = note->next) {
        if (note->owed) {
            post_note(note);
        }
    }
    mst_lib_unlock(session->client);
}

bool mst_session_told(struct mst_run_session *session, struct mst_note *note,
                      muster_status *status_out)
{
    bool told;

    if (session->client == NULL) {
        *status_out = MUSTER_ECANCELLED;
        return true;
    }
    mst_lib_lock(session->client);
    told = note->told;
    *status_out = note->status;
    mst_lib_unlock(session->client);
    return told;
}

bool mst_session_silent(struct mst_run_session *session)
{
    bool silent;

    if (session->client == NULL) {
        return false;
    }
    mst_lib_lock(session->client);
    silent = mst_lib_stopped(session->client);
    mst_lib_unlock(session->client);
    return silent;
}
