/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "launch/nodes/reach.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "launch/job.h"
#include "launch/say.h"

#define QUESTION_KEY "reach/"
#define ANSWER_KEY "reached/"
#define LOOK_MS 50
#define CONNECT_MS 3000  /* a SYN is sent twice more in that time */
#define ANSWERS_MS 15000 /* more than a connection and a busy machine need */

/* ---- what the others write, with the client's lock held ---- */

/* The place of that node's question, else a free one; MST_REACH_PROBES: none. */
static unsigned question_place(const struct mst_reach *reach, uint32_t node)
{
    unsigned place = MST_REACH_PROBES;

    for (unsigned i = 0; i < MST_REACH_PROBES; i++) {
        if (reach->questions[i].address[0] == '\0') {
            place = place == MST_REACH_PROBES ? i : place;
        } else if (reach->questions[i].node == node) {
            return i;
        }
    }
    return place;
}

static void hear_question(struct mst_reach *reach, struct mst_slice name, struct mst_slice value)
{
    struct mst_slice attempt = mst_slice_cut(&value, ' ');
    uint32_t node, number = 0;
    unsigned place;

    if (!mst_run_number_read(name, UINT32_MAX, &node) ||
        (value.size > 0 && !mst_run_number_read(attempt, UINT32_MAX, &number))) {
        return;
    }
    place = question_place(reach, node);
    if (place < MST_REACH_PROBES) {
        reach->questions[place].node = node;
        reach->questions[place].attempt = number;
        (void)mst_slice_copy(reach->questions[place].address, MST_ADDRESS_TEXT, value);
    }
}

static void hear_answer(struct mst_run_job *job, struct mst_slice name, struct mst_slice value)
{
    struct mst_slice attempt = mst_slice_cut(&value, ' '), from = mst_slice_cut(&value, ' ');
    uint32_t node, slot, number;

    if (mst_run_number_read(mst_slice_cut(&name, '/'), UINT32_MAX, &node) &&
        node == job->nodes.number && mst_run_number_read(name, MST_REACH_SLOTS - 1, &slot) &&
        mst_run_number_read(attempt, UINT32_MAX, &number) && number == job->reach.attempt) {
        struct mst_reach_answer *answer = &job->reach.theirs[slot];

        answer->state = mst_slice_is(value, "ok") ? MST_REACH_GOOD : MST_REACH_BAD;
        (void)mst_slice_copy(answer->who, sizeof answer->who, from);
        (void)mst_slice_copy(answer->reason, sizeof answer->reason, value);
    }
}

void mst_reach_heard(struct mst_run_job *job, struct mst_slice name, struct mst_slice value)
{
    struct mst_slice question = mst_slice_text(QUESTION_KEY), answer = mst_slice_text(ANSWER_KEY);

    if (mst_slice_starts_with(name, question)) {
        hear_question(&job->reach, mst_slice_from(name, question.size), value);
    } else if (mst_slice_starts_with(name, answer)) {
        hear_answer(job, mst_slice_from(name, answer.size), value);
    }
}

/* ---- connecting ---- */

static struct mst_reach_probe *idle_probe(struct mst_reach *reach)
{
    for (unsigned i = 0; i < MST_REACH_PROBES; i++) {
        if (!reach->probes[i].busy) {
            return &reach->probes[i];
        }
    }
    return NULL;
}

static void conclude(struct mst_run_job *job, struct mst_reach_probe *probe, int error)
{
    char value[MST_REACH_REASON + 32];

    if (probe->fd >= 0) {
        (void)close(probe->fd);
    }
    probe->fd = -1;
    if (probe->is_own) {
        struct mst_reach_answer *answer = &job->reach.own[probe->slot];

        /* A replica that has its slot may not have begun yet; its host has answered. */
        answer->state = error == 0 || error == ECONNREFUSED ? MST_REACH_GOOD : MST_REACH_BAD;
        mst_text_print(answer->reason, sizeof answer->reason, "%s", strerror(error));
        probe->busy = false;
        return;
    }
    probe->note = (struct mst_note){.owned = true};
    (void)snprintf(probe->note.key, sizeof probe->note.key,
                   MST_SESSION_KEYS ANSWER_KEY "%" PRIu32 "/%u", probe->node, probe->slot);
    (void)snprintf(value, sizeof value, "%" PRIu32 " %" PRIu32 " %.60s", probe->attempt,
                   job->nodes.number, error == 0 ? "ok" : strerror(error));
    mst_session_write(&job->session, &probe->note, value);
}

/* The kernel connects, however late this process looks. */
static void look_at_probe(struct mst_run_job *job, struct mst_reach_probe *probe)
{
    struct pollfd item = {.fd = probe->fd, .events = POLLOUT};
    muster_status status;
    int error = 0;
    socklen_t size = sizeof error;

    if (probe->fd < 0) {
        probe->busy = !mst_session_told(&job->session, &probe->note, &status);
    } else if (poll(&item, 1, 0) == 1) {
        (void)getsockopt(probe->fd, SOL_SOCKET, SO_ERROR, &error, &size);
        conclude(job, probe, error);
    } else if (mst_lib_now_ns() >= probe->until_ns) {
        conclude(job, probe, ETIMEDOUT);
    }
}

static void connect_to(struct mst_run_job *job, struct mst_reach_probe *probe, const char *text)
{
    struct mst_address address;
    int error = EINVAL;

    probe->busy = true;
    probe->fd = -1;
    probe->until_ns = mst_lib_now_ns() + CONNECT_MS * NS_PER_MS;
    if (mst_address_parse(&address, mst_slice_text(text)) == NULL &&
        address.kind == MST_ADDRESS_NUMBER) {
        probe->fd = socket(address.name.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        error = probe->fd < 0 ||
                        connect(probe->fd, (const struct sockaddr *)(const void *)&address.name,
                                address.size) != 0
                    ? errno
                    : 0;
    }
    if (error != 0 && error != EINPROGRESS) {
        conclude(job, probe, error);
    }
}

/* ---- for others ---- */

static bool take_question(struct mst_run_job *job, struct mst_reach_probe *probe, char *address)
{
    bool found = false;

    mst_shared_lock(&job->shared);
    for (unsigned i = 0; i < MST_REACH_PROBES && !found; i++) {
        if (job->reach.questions[i].address[0] != '\0') {
            found = true;
            probe->is_own = false;
            probe->slot = job->replicas.slot;
            probe->node = job->reach.questions[i].node;
            probe->attempt = job->reach.questions[i].attempt;
            (void)snprintf(address, MST_ADDRESS_TEXT, "%s", job->reach.questions[i].address);
            job->reach.questions[i].address[0] = '\0';
        }
    }
    mst_shared_unlock(&job->shared);
    return found;
}

static void on_timer(uv_timer_t *timer)
{
    struct mst_run_job *job = timer->data;
    bool busy = job->reach.asks;

    for (unsigned i = 0; i < MST_REACH_PROBES; i++) {
        if (job->reach.probes[i].busy) {
            look_at_probe(job, &job->reach.probes[i]);
        }
        busy = busy || job->reach.probes[i].busy;
    }
    if (!busy) {
        (void)uv_timer_stop(timer);
    }
    mst_replicas_look(job);
}

static void run_timer(struct mst_reach *reach)
{
    if (!uv_is_active((uv_handle_t *)&reach->timer)) {
        (void)uv_timer_start(&reach->timer, on_timer, 0, LOOK_MS);
    }
}

void mst_reach_look(struct mst_run_job *job)
{
    struct mst_reach_probe *probe;
    char address[MST_ADDRESS_TEXT];

    while (job->replicas.owns && (probe = idle_probe(&job->reach)) != NULL &&
           take_question(job, probe, address)) {
        connect_to(job, probe, address);
        run_timer(&job->reach);
    }
}

/* ---- for this node ---- */

static bool listen_there(struct mst_run_job *job)
{
    struct mst_address address;

    if (mst_address_parse(&address, mst_slice_text(job->replicas.address)) != NULL) {
        return false;
    }
    job->reach.listener = socket(address.name.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return job->reach.listener >= 0 &&
           bind(job->reach.listener, (const struct sockaddr *)(const void *)&address.name,
                address.size) == 0 &&
           listen(job->reach.listener, MST_REACH_PROBES) == 0;
}

static void stop_listening(struct mst_reach *reach)
{
    if (reach->listener >= 0) {
        (void)close(reach->listener);
    }
    reach->listener = -1;
}

static void stop_asking(struct mst_run_job *job)
{
    stop_listening(&job->reach);
    job->reach.asks = false;
    mst_session_write(&job->session, &job->reach.note, "");
}

static void begin_asking(struct mst_run_job *job)
{
    struct mst_reach *reach = &job->reach;
    char value[MST_ADDRESS_TEXT + 16];

    mst_shared_lock(&job->shared);
    reach->attempt++;
    memset(reach->theirs, 0, sizeof reach->theirs);
    mst_shared_unlock(&job->shared);
    memset(reach->own, 0, sizeof reach->own);
    reach->asks = true;
    reach->until_ns = mst_lib_now_ns() + ANSWERS_MS * NS_PER_MS;
    if (!listen_there(job)) {
        reach->until_ns = 0; /* it runs already, or will say why not */
        stop_listening(reach);
    }
    (void)snprintf(value, sizeof value, "%" PRIu32 " %s", reach->attempt, job->replicas.address);
    mst_session_write(&job->session, &reach->note, value);
    run_timer(reach);
}

/* A slot that has another address than before is another replica. */
static void reach_slot(struct mst_run_job *job, unsigned slot, const char *address)
{
    struct mst_reach_answer *own = &job->reach.own[slot];
    struct mst_reach_probe *probe;

    if (strcmp(own->who, address) != 0 && (probe = idle_probe(&job->reach)) != NULL) {
        *own = (struct mst_reach_answer){.state = MST_REACH_WAITS};
        (void)snprintf(own->who, sizeof own->who, "%s", address);
        probe->is_own = true;
        probe->slot = slot;
        connect_to(job, probe, address);
    }
}

static void say(struct mst_reach *reach, const char *from, const char *to, const char *reason)
{
    if (reach->said) {
        return;
    }
    reach->said = true;
    mst_say(
        "no replica of the service here: %s cannot reach %s (%s); a firewall is the usual cause: "
        "let the nodes connect to each other's ports above 1023, or give --replicas 1",
        from, to, reason);
}

static enum mst_reach_state look_at_slot(struct mst_run_job *job, unsigned slot,
                                         const struct mst_reach_answer *theirs)
{
    const struct mst_reach_answer *own = &job->reach.own[slot];
    char from[48], to[MST_ADDRESS_TEXT + 32];

    if (own->state == MST_REACH_BAD) {
        (void)snprintf(to, sizeof to, "the replica at %s", own->who);
        say(&job->reach, "this node", to, own->reason);
        return MST_REACH_BAD;
    }
    if (theirs->state == MST_REACH_BAD) {
        (void)snprintf(from, sizeof from, "node %.32s", theirs->who);
        (void)snprintf(to, sizeof to, "this node at %s", job->replicas.address);
        say(&job->reach, from, to, theirs->reason);
        return MST_REACH_BAD;
    }
    return own->state == MST_REACH_GOOD && theirs->state == MST_REACH_GOOD ? MST_REACH_GOOD
                                                                           : MST_REACH_WAITS;
}

enum mst_reach_state mst_reach_check(struct mst_run_job *job)
{
    struct mst_reach *reach = &job->reach;
    enum mst_reach_state all = MST_REACH_GOOD;

    if (!reach->asks) {
        begin_asking(job);
    }
    for (unsigned slot = 0; slot < MST_REACH_SLOTS && all != MST_REACH_BAD; slot++) {
        struct mst_reach_answer theirs;
        char address[MST_ADDRESS_TEXT];
        enum mst_reach_state one;

        mst_shared_lock(&job->shared);
        (void)snprintf(address, sizeof address, "%s", job->replicas.slots[slot]);
        theirs = reach->theirs[slot];
        mst_shared_unlock(&job->shared);
        if (address[0] != '\0') {
            reach_slot(job, slot, address);
            one = look_at_slot(job, slot, &theirs);
            all = one == MST_REACH_GOOD ? all : one;
        }
    }
    if (all == MST_REACH_WAITS && mst_lib_now_ns() >= reach->until_ns) {
        all = MST_REACH_GOOD;
    }
    if (all != MST_REACH_WAITS) {
        reach->said = reach->said && all == MST_REACH_BAD;
        stop_asking(job);
    }
    return all;
}

/* ---- */

void mst_reach_init(struct mst_run_job *job)
{
    (void)uv_timer_init(&job->loop, &job->reach.timer);
    job->reach.timer.data = job;
    job->reach.listener = -1;
}

/* What is under way was for the session before. */
void mst_reach_begin(struct mst_run_job *job)
{
    struct mst_reach *reach = &job->reach;

    for (unsigned i = 0; i < MST_REACH_PROBES; i++) {
        if (reach->probes[i].busy && reach->probes[i].fd >= 0) {
            (void)close(reach->probes[i].fd);
        }
        reach->probes[i].busy = false;
    }
    stop_listening(reach);
    reach->asks = false;
    mst_shared_lock(&job->shared);
    memset(reach->questions, 0, sizeof reach->questions);
    mst_shared_unlock(&job->shared);
    reach->note = (struct mst_note){.owned = true};
    (void)snprintf(reach->note.key, sizeof reach->note.key,
                   MST_SESSION_KEYS QUESTION_KEY "%" PRIu32, job->nodes.number);
}
