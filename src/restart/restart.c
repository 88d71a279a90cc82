/* SPDX-License-Identifier: Apache-2.0 */
/* The restart machine of one rank.
 *
 *   IDLE --start--> RUNNING --returned OK, not told--> COMPLETING --round OK--> FINISHED
 *          (1)       |  ^                                   |lost, cancelled, fenced
 *                    |  |                                   v
 *                    |  +--------view of the next------- SEALING --too few, error--> FINISHED
 *                    +--returned interrupted or failed----^ |fenced
 *                    |                                      v
 *                    |                                   JOINING --view--> RUNNING
 *                    +--returned, left--> LEAVING --> FINISHED
 *
 *   (1) A view is entered through `enter`: HELD while the client has stopped itself, SEALING at
 * once when the generation is over already (attention INTERRUPT), else RUNNING.
 *
 * A failure. The FAULT request goes out when the function says it failed, or at its return; the
 * seal follows behind it without waiting for an answer: the service takes them in order. One way
 * for all: who failed and who was interrupted meet at the same seal, and its reply carries the one
 * view that everybody gets.
 *
 * Being told. GROW tells checks only. INTERRUPT, the client's self-stop and the end of the session
 * also cut blocking calls short, again and again until the function has returned, because a signal
 * that arrives just before the call it was meant for has no effect.
 *
 * Completion against the seal. The completion round needs all ranks of the generation, and its
 * result is one for all. A rank that went to the seal while the others were told "all are done"
 * would wait there for ranks that never come. So nobody leaves COMPLETING on its own judgement:
 * when INTERRUPT is seen there, the request is cancelled and the *service's* reply decides. OK: the
 * round had closed, all are done. Anything else: go to the seal. Can others complete the round
 * later with the contribution that stays behind? No: INTERRUPT means that some rank of this
 * generation failed, was lost, or stands at the seal. A lost one fails the round at once, also if
 * it had arrived. The others contribute nothing to it any more, since a rank whose function failed
 * or was interrupted has only the seal before it, and a run started anew in this generation sees
 * INTERRUPT, which stays until the next seal, and goes to the seal again. The same holds for a
 * growth: the first rank at the seal left its function without completing.
 *
 * Numbers. A round is numbered by its callers, from 0 in each generation. A rank contributes to the
 * completion once per run and to the seal once per run at most, since a seal that closes ends the
 * generation and one that does not ends the run. So the counts outlive a run and start again with
 * the generation.
 *
 * A seal answered FENCED. Either this rank was evicted, then its session is over and JOIN is
 * answered FENCED as well; or the reply with the view was lost with a connection and the repeat
 * names a generation that is over: JOIN then brings the view. */
#include "restart/restart.h"

#include <string.h>

#include "base/digest.h"
#include "base/panic.h"
#include "base/text.h"
#include "msg/status.h"

enum state { IDLE, HELD, RUNNING, COMPLETING, SEALING, JOINING, LEAVING, FINISHED, STATE_COUNT };

#define NEVER UINT64_MAX
#define NS_PER_MS 1000000u
#define BACKOFF_MAX_MS 50u

enum { TEXT_ROOM = 1024, HOST_ROOM = 256 };

#define TO(state) (1u << (state))

/* Which state may follow. RUNNING is left only by the return of the function. */
static const struct {
    const char *name;
    uint32_t next;
} states[STATE_COUNT] = {
    [IDLE] = {"idle", TO(HELD) | TO(RUNNING) | TO(SEALING) | TO(FINISHED)},
    [HELD] = {"held", TO(RUNNING) | TO(SEALING) | TO(FINISHED)},
    [RUNNING] = {"running", TO(COMPLETING) | TO(SEALING) | TO(LEAVING) | TO(FINISHED)},
    [COMPLETING] = {"completing", TO(SEALING) | TO(FINISHED)},
    [SEALING] = {"sealing", TO(HELD) | TO(RUNNING) | TO(SEALING) | TO(JOINING) | TO(FINISHED)},
    [JOINING] = {"joining", TO(HELD) | TO(RUNNING) | TO(SEALING) | TO(FINISHED)},
    [LEAVING] = {"leaving", TO(FINISHED)},
    [FINISHED] = {"finished", TO(HELD) | TO(RUNNING) | TO(SEALING) | TO(FINISHED)},
};

struct mst_restart {
    struct mst_mem mem;
    struct mst_restart_config config;

    struct mst_view view; /* of the generation this rank is in */
    uint64_t seen;        /* the generation that `attention` belongs to: never below view's */
    uint64_t iteration;   /* of the next entry */
    uint64_t completions; /* contributions so far in this generation */
    uint64_t seals;
    uint64_t tags;      /* the last one given out */
    uint64_t round_tag; /* the open completion, seal, join or leave, as the state says; or 0 */
    uint64_t fault_tag; /* the open fault; or 0 */
    uint64_t cut_ns;    /* when blocking calls are cut short again */
    uint64_t backoff_ms;
    uint64_t fault_generation;
    size_t text_size;
    int32_t code;

    enum state state;
    enum mst_attention attention;
    muster_status end;    /* why the session is over */
    muster_status result; /* OK or EPREEMPTED: what FINISH says after the completion */
    muster_status status; /* of the FINISH that is owed */

    bool stopped;
    bool ended;
    bool cancelled; /* the completion */

    /* What became of this call of the function. */
    bool told;    /* TELL was given */
    bool cut;     /* INTERRUPT was given, and comes again */
    bool failed;  /* a fault was reported */
    bool leaving; /* it asked to leave */

    /* Effects not yet given out. */
    bool owe_fault, owe_cancel, owe_round, owe_enter, owe_tell, owe_cut, owe_finish;
    bool out; /* `effect` is given out and not done */
    bool has_reply;

    struct mst_restart_effect effect;
    struct mst_request request;
    struct mst_reply reply; /* borrows from `hosts` */
    char hosts[MST_NAMES_MAX][HOST_ROOM];
    char text[TEXT_ROOM];
};

muster_status mst_restart_new(struct mst_restart **out, const struct mst_restart_config *config,
                              const struct mst_mem *mem)
{
    struct mst_restart *restart;

    *out = NULL;
    if (config->barrier_timeout_ms == 0) {
        return MUSTER_EINVAL;
    }
    restart = mst_mem_zalloc(mem, sizeof(*restart));
    if (!restart) {
        return MUSTER_ENOMEM;
    }
    restart->mem = *mem;
    restart->config = *config;
    restart->cut_ns = NEVER;
    *out = restart;
    return MUSTER_OK;
}

muster_status mst_restart_configure(struct mst_restart *restart,
                                    const struct mst_restart_config *config)
{
    MST_ASSERT(restart->state == IDLE || restart->state == FINISHED);
    if (config->barrier_timeout_ms == 0) {
        return MUSTER_EINVAL;
    }
    restart->config = *config;
    return MUSTER_OK;
}

void mst_restart_free(struct mst_restart *restart)
{
    if (restart) {
        struct mst_mem mem = restart->mem;

        mst_mem_release(&mem, restart);
    }
}

static void move(struct mst_restart *restart, enum state to)
{
    MST_ASSERT((states[restart->state].next & TO(to)) != 0);
    restart->state = to;
}

/* A new call takes the place of the one before; a reply to that one is then unknown. */
static void call(struct mst_restart *restart)
{
    restart->round_tag = ++restart->tags;
    restart->owe_round = true;
    restart->owe_cancel = false;
    restart->cancelled = false;
}

static void call_nothing(struct mst_restart *restart)
{
    restart->round_tag = 0;
    restart->owe_round = false;
    restart->owe_cancel = false;
    restart->cancelled = false;
}

static void seal(struct mst_restart *restart)
{
    move(restart, SEALING);
    call(restart);
}

/* Keeps what the reader of the error needs: the numbers and the names. */
static void reply_keep(struct mst_restart *restart, const struct mst_reply *reply)
{
    restart->reply = *reply;
    restart->reply.value = mst_slice_of(NULL, 0);
    restart->reply.items = NULL;
    restart->reply.item_count = 0;
    if (!reply->has_detail) {
        restart->reply.detail = (struct mst_detail){0};
    }
    MST_ASSERT(restart->reply.detail.who_count <= MST_NAMES_MAX);
    for (uint32_t i = 0; i < MST_NAMES_MAX; i++) {
        struct mst_slice *host = &restart->reply.detail.who[i].host;

        if (i >= restart->reply.detail.who_count) {
            restart->reply.detail.who[i] = (struct mst_who){0};
            continue;
        }
        if (host->size > HOST_ROOM) {
            host->size = HOST_ROOM;
        }
        if (host->size > 0) {
            memcpy(restart->hosts[i], host->data, host->size);
        }
        host->data = restart->hosts[i];
    }
    restart->has_reply = true;
}

static void finish(struct mst_restart *restart, muster_status status, const struct mst_reply *reply)
{
    move(restart, FINISHED);
    call_nothing(restart);
    restart->owe_fault = false;
    restart->fault_tag = 0;
    restart->owe_enter = false;
    restart->status = status;
    restart->owe_finish = true;
    restart->has_reply = false;
    if (reply) {
        reply_keep(restart, reply);
    }
}

/* How urgently this rank is called out of the generation it is in. A newer generation that does not
 * know this rank means it was given up; the seal will be told. */
static enum mst_attention attention(const struct mst_restart *restart)
{
    if (restart->seen > restart->view.generation) {
        return MST_INTERRUPT;
    }
    return restart->seen == restart->view.generation ? restart->attention : MST_CALM;
}

static void tell(struct mst_restart *restart, uint64_t now_ns, bool now)
{
    if (!restart->told) {
        restart->told = true;
        restart->owe_tell = true;
    }
    if (now && !restart->cut) {
        restart->cut = true;
        restart->owe_cut = true;
        restart->backoff_ms = 1;
        restart->cut_ns = now_ns + NS_PER_MS;
    }
}

/* What is true now the running function is told, whenever it became true. */
static void heed_running(struct mst_restart *restart, uint64_t now_ns)
{
    enum mst_attention level = attention(restart);

    if (level == MST_INTERRUPT || restart->stopped || restart->ended) {
        tell(restart, now_ns, true);
    } else if (level == MST_GROW) {
        tell(restart, now_ns, false);
    }
}

static void enter(struct mst_restart *restart, uint64_t now_ns)
{
    if (restart->stopped) {
        if (restart->state != HELD) {
            move(restart, HELD);
        }
        return;
    }
    if (attention(restart) == MST_INTERRUPT) {
        seal(restart);
        return;
    }
    move(restart, RUNNING);
    restart->owe_enter = true;
    restart->iteration++;
    restart->told = false;
    restart->cut = false;
    restart->failed = false;
    restart->leaving = false;
    heed_running(restart, now_ns);
}

static void heed(struct mst_restart *restart, uint64_t now_ns)
{
    switch (restart->state) {
    case HELD:
        if (!restart->stopped) {
            enter(restart, now_ns);
        }
        break;
    case RUNNING:
        heed_running(restart, now_ns);
        break;
    case COMPLETING:
        if (attention(restart) == MST_INTERRUPT && !restart->cancelled) {
            restart->cancelled = true;
            restart->owe_cancel = true;
        }
        break;
    case IDLE:
    case SEALING:
    case JOINING:
    case LEAVING:
    case FINISHED:
    case STATE_COUNT:
        break;
    }
}

static void view_take(struct mst_restart *restart, const struct mst_view *view)
{
    if (view->generation != restart->view.generation) {
        restart->completions = 0;
        restart->seals = 0;
    }
    restart->view = *view;
}

/* Levels of one generation only rise, and an older generation says nothing any more. */
static void attention_take(struct mst_restart *restart, const struct mst_view *view)
{
    if (view->generation > restart->seen) {
        restart->seen = view->generation;
        restart->attention = view->attention;
    } else if (view->generation == restart->seen && view->attention > restart->attention) {
        restart->attention = view->attention;
    }
}

void mst_restart_start(struct mst_restart *restart, uint64_t now_ns, const struct mst_view *view)
{
    MST_ASSERT(restart->state == IDLE || restart->state == FINISHED);
    MST_ASSERT(!restart->out && !restart->owe_finish);
    MST_ASSERT(view->generation > 0);
    restart->iteration = 0;
    view_take(restart, view);
    attention_take(restart, view);
    if (restart->ended) {
        finish(restart, restart->end, NULL);
        return;
    }
    enter(restart, now_ns);
}

void mst_restart_attention(struct mst_restart *restart, uint64_t now_ns,
                           const struct mst_view *view, bool stopped)
{
    attention_take(restart, view);
    restart->stopped = stopped;
    heed(restart, now_ns);
}

static void fault(struct mst_restart *restart, int32_t code, struct mst_slice text)
{
    restart->failed = true;
    restart->fault_generation = restart->view.generation;
    restart->code = code;
    restart->text_size = text.size < TEXT_ROOM ? text.size : TEXT_ROOM;
    if (restart->text_size > 0) {
        memcpy(restart->text, text.data, restart->text_size);
    }
    restart->fault_tag = ++restart->tags;
    restart->owe_fault = true;
}

void mst_restart_failed(struct mst_restart *restart, uint64_t now_ns, int32_t code,
                        struct mst_slice text)
{
    (void)now_ns;
    MST_ASSERT(restart->state == RUNNING);
    if (!restart->failed && !restart->ended) {
        fault(restart, code, text);
    }
}

void mst_restart_left(struct mst_restart *restart, uint64_t now_ns)
{
    (void)now_ns;
    MST_ASSERT(restart->state == RUNNING);
    restart->leaving = true;
}

/* LEFT alone interrupts nobody, and the others may be waiting for this rank in a socket of their
 * own: the fault calls them to the seal, the leave takes this rank out of it. */
static void leave(struct mst_restart *restart)
{
    if (!restart->failed && attention(restart) != MST_INTERRUPT) {
        fault(restart, 0, mst_slice_text("left the job"));
    }
    move(restart, LEAVING);
    call(restart);
}

static void fault_return(struct mst_restart *restart, muster_status status)
{
    char line[128];
    struct mst_text text = mst_text_in(line, sizeof(line));

    if (status == MUSTER_EINTERRUPTED) {
        mst_text_add(&text, "asked for a restart");
    } else {
        mst_text_add(&text, "the function returned ");
        mst_text_add(&text, mst_status_name(status));
        mst_text_add(&text, " (");
        mst_text_i64(&text, status);
        mst_text_add(&text, ")");
    }
    fault(restart, status, mst_slice_of(text.start, text.size));
}

void mst_restart_returned(struct mst_restart *restart, uint64_t now_ns, muster_status status,
                          bool delivered)
{
    bool done = status == MUSTER_OK || status == MUSTER_EPREEMPTED;
    bool broken = attention(restart) == MST_INTERRUPT;
    /* Lost and fenced are what calls of muster say when a peer failed: no fault of this rank. */
    bool passed_on = status == MUSTER_ELOST || status == MUSTER_EFENCED;
    bool interrupted = restart->failed || delivered || broken || passed_on ||
                       (restart->told && status == MUSTER_EINTERRUPTED) || (restart->cut && !done);

    MST_ASSERT(restart->state == RUNNING && !restart->owe_enter);
    restart->told = false;
    restart->cut = false;
    restart->cut_ns = NEVER;
    restart->owe_tell = false;
    restart->owe_cut = false;
    if (restart->ended) {
        finish(restart, restart->leaving ? MUSTER_OK : restart->end, NULL);
    } else if (restart->leaving) {
        leave(restart);
    } else if (interrupted) {
        seal(restart);
    } else if (done) {
        restart->result = status;
        move(restart, COMPLETING);
        call(restart);
        heed(restart, now_ns);
    } else {
        fault_return(restart, status);
        seal(restart);
    }
}

static void view_enter(struct mst_restart *restart, uint64_t now_ns, const struct mst_reply *reply)
{
    if (!reply->has_view || reply->view.generation <= restart->view.generation) {
        finish(restart, MUSTER_EPROTO, NULL);
    } else if (reply->view.rank == MST_RANK_NONE) {
        finish(restart, MUSTER_EFENCED, reply);
    } else {
        call_nothing(restart);
        view_take(restart, &reply->view);
        attention_take(restart, &reply->view);
        enter(restart, now_ns);
    }
}

static void reply_completion(struct mst_restart *restart, const struct mst_reply *reply)
{
    if (reply->status == MUSTER_OK) {
        finish(restart, restart->result, NULL);
    } else if (reply->status == MUSTER_ELOST || reply->status == MUSTER_ECANCELLED ||
               reply->status == MUSTER_EFENCED) {
        seal(restart);
    } else {
        finish(restart, reply->status, reply);
    }
}

static void reply_seal(struct mst_restart *restart, uint64_t now_ns, const struct mst_reply *reply)
{
    if (reply->status == MUSTER_OK) {
        view_enter(restart, now_ns, reply);
    } else if (reply->status == MUSTER_EFENCED) {
        move(restart, JOINING);
        call(restart);
    } else {
        finish(restart, reply->status, reply);
    }
}

static void reply_join(struct mst_restart *restart, uint64_t now_ns, const struct mst_reply *reply)
{
    if (reply->status != MUSTER_OK) {
        finish(restart, reply->status, reply);
    } else if (reply->has_view && reply->view.generation == restart->view.generation) {
        /* The seal was refused and yet its generation goes on: the service lost the two of us. */
        finish(restart, MUSTER_EFENCED, reply);
    } else {
        view_enter(restart, now_ns, reply);
    }
}

/* A service with a smaller limit for texts than ours still learns the reason, cut. */
static void reply_fault(struct mst_restart *restart, const struct mst_reply *reply)
{
    restart->fault_tag = 0;
    if (reply->status == MUSTER_ELIMIT && reply->has_detail && reply->detail.limit >= 0 &&
        (uint64_t)reply->detail.limit < restart->text_size) {
        restart->text_size = (size_t)reply->detail.limit;
        restart->fault_tag = ++restart->tags;
        restart->owe_fault = true;
    }
}

void mst_restart_reply(struct mst_restart *restart, uint64_t now_ns, uint64_t tag,
                       const struct mst_reply *reply)
{
    if (tag == 0) {
        return;
    }
    if (tag == restart->fault_tag) {
        reply_fault(restart, reply);
        return;
    }
    if (tag != restart->round_tag) {
        return;
    }
    switch (restart->state) {
    case COMPLETING:
        reply_completion(restart, reply);
        break;
    case SEALING:
        reply_seal(restart, now_ns, reply);
        break;
    case JOINING:
        reply_join(restart, now_ns, reply);
        break;
    case LEAVING: /* given up or gone by itself: out in any case */
        finish(restart, MUSTER_OK, NULL);
        break;
    case IDLE:
    case HELD:
    case RUNNING:
    case FINISHED:
    case STATE_COUNT:
        MST_ASSERT(!"a call is open in a state without calls");
        break;
    }
}

void mst_restart_ended(struct mst_restart *restart, uint64_t now_ns, muster_status status)
{
    if (restart->ended) {
        return;
    }
    restart->ended = true;
    restart->end = status;
    switch (restart->state) {
    case RUNNING:
        heed(restart, now_ns);
        break;
    case LEAVING:
        finish(restart, MUSTER_OK, NULL);
        break;
    case HELD:
    case COMPLETING:
    case SEALING:
    case JOINING:
        finish(restart, status, NULL);
        break;
    case IDLE:
    case FINISHED:
    case STATE_COUNT:
        break;
    }
}

void mst_restart_tick(struct mst_restart *restart, uint64_t now_ns)
{
    if (!restart->cut || now_ns < restart->cut_ns) {
        return;
    }
    restart->owe_cut = true;
    restart->backoff_ms =
        restart->backoff_ms * 2 < BACKOFF_MAX_MS ? restart->backoff_ms * 2 : BACKOFF_MAX_MS;
    restart->cut_ns = now_ns + restart->backoff_ms * NS_PER_MS;
}

uint64_t mst_restart_deadline_ns(const struct mst_restart *restart)
{
    return restart->cut ? restart->cut_ns : NEVER;
}

static void request_round(struct mst_restart *restart)
{
    struct mst_request *request = &restart->request;

    if (restart->state == JOINING) {
        request->command = MST_JOIN;
    } else if (restart->state == LEAVING) {
        request->command = MST_LEAVE;
    } else {
        request->command = MST_ROUND;
        request->round.generation = restart->view.generation;
        if (restart->state == SEALING) {
            request->round.name = mst_slice_text("muster/seal");
            request->round.number = restart->seals++;
            request->round.deadline_ms = restart->config.barrier_timeout_ms;
            request->round.on_loss = MST_PROCEED;
            request->round.seal = true;
        } else {
            request->round.name = mst_slice_text("muster/complete");
            request->round.number = restart->completions++;
            request->round.on_loss = MST_FAIL;
        }
    }
}

static void effect_request(struct mst_restart *restart, uint64_t tag)
{
    restart->request = (struct mst_request){0};
    restart->effect.type = MST_RESTART_REQUEST;
    restart->effect.tag = tag;
    restart->effect.request = &restart->request;
}

/* In the order in which they must reach the world: the fault before the seal, the entry before what
 * is told to the function. */
static bool effect_fill(struct mst_restart *restart)
{
    struct mst_restart_effect *effect = &restart->effect;

    if (restart->owe_fault) {
        restart->owe_fault = false;
        effect_request(restart, restart->fault_tag);
        restart->request.command = MST_FAULT;
        restart->request.fault.generation = restart->fault_generation;
        restart->request.fault.code = restart->code;
        restart->request.fault.text = mst_slice_of(restart->text, restart->text_size);
    } else if (restart->owe_round) {
        restart->owe_round = false;
        effect_request(restart, restart->round_tag);
        request_round(restart);
    } else if (restart->owe_cancel) {
        restart->owe_cancel = false;
        effect->type = MST_RESTART_CANCEL;
        effect->tag = restart->round_tag;
    } else if (restart->owe_enter) {
        restart->owe_enter = false;
        effect->type = MST_RESTART_ENTER;
        effect->view = restart->view;
        effect->iteration = restart->iteration - 1;
    } else if (restart->owe_tell) {
        restart->owe_tell = false;
        effect->type = MST_RESTART_TELL;
    } else if (restart->owe_cut) {
        restart->owe_cut = false;
        effect->type = MST_RESTART_INTERRUPT;
    } else if (restart->owe_finish) {
        restart->owe_finish = false;
        effect->type = MST_RESTART_FINISH;
        effect->status = restart->status;
        effect->reply = restart->has_reply ? &restart->reply : NULL;
    } else {
        return false;
    }
    return true;
}

const struct mst_restart_effect *mst_restart_next(struct mst_restart *restart)
{
    MST_ASSERT(!restart->out);
    restart->effect = (struct mst_restart_effect){0};
    restart->out = effect_fill(restart);
    return restart->out ? &restart->effect : NULL;
}

void mst_restart_done(struct mst_restart *restart, const struct mst_restart_effect *effect)
{
    MST_ASSERT(restart->out && effect == &restart->effect);
    restart->out = false;
}

void mst_restart_check(const struct mst_restart *restart)
{
    bool running = restart->state == RUNNING;
    bool calling = restart->state == COMPLETING || restart->state == SEALING ||
                   restart->state == JOINING || restart->state == LEAVING;

    MST_ASSERT(restart->state < STATE_COUNT);
    MST_ASSERT((restart->round_tag != 0) == calling);
    MST_ASSERT(!restart->owe_round || calling);
    MST_ASSERT(!restart->cancelled || restart->state == COMPLETING);
    MST_ASSERT(!restart->owe_cancel || restart->cancelled);
    MST_ASSERT(!restart->owe_fault || restart->fault_tag != 0);
    MST_ASSERT(restart->fault_tag <= restart->tags && restart->round_tag <= restart->tags);
    MST_ASSERT(running || !(restart->owe_enter || restart->owe_tell || restart->owe_cut));
    MST_ASSERT(running || !(restart->told || restart->cut));
    MST_ASSERT(!restart->cut || restart->told);
    MST_ASSERT(restart->cut == (restart->cut_ns != NEVER));
    MST_ASSERT(!restart->cut ||
               (restart->backoff_ms >= 1 && restart->backoff_ms <= BACKOFF_MAX_MS));
    MST_ASSERT(!restart->owe_finish || restart->state == FINISHED);
    MST_ASSERT(restart->seen >= restart->view.generation);
    MST_ASSERT(restart->state == IDLE || restart->view.generation > 0);
    /* What is true was acted on. */
    MST_ASSERT(restart->state != HELD || restart->stopped);
    MST_ASSERT(!running || attention(restart) == MST_CALM || restart->told);
    MST_ASSERT(!running || attention(restart) != MST_INTERRUPT || restart->cut);
    MST_ASSERT(!running || !(restart->stopped || restart->ended) || restart->cut);
    MST_ASSERT(restart->state != COMPLETING || attention(restart) != MST_INTERRUPT ||
               restart->cancelled);
    MST_ASSERT(!restart->ended || running || restart->state == IDLE || restart->state == FINISHED);
    MST_ASSERT(restart->text_size <= TEXT_ROOM);
}

uint64_t mst_restart_digest(const struct mst_restart *restart)
{
    const uint64_t numbers[] = {
        (uint64_t)restart->state,
        restart->view.generation,
        restart->view.size,
        restart->view.rank,
        restart->seen,
        (uint64_t)restart->attention,
        restart->stopped,
        restart->ended,
        restart->iteration,
        restart->completions,
        restart->seals,
        restart->tags,
        restart->told,
        restart->cut,
        restart->failed,
        restart->leaving,
        restart->cut_ns,
        restart->backoff_ms,
        (uint64_t)restart->result,
        restart->round_tag,
        restart->fault_tag,
        restart->cancelled,
        restart->owe_fault,
        restart->owe_cancel,
        restart->owe_round,
        restart->owe_enter,
        restart->owe_tell,
        restart->owe_cut,
        restart->owe_finish,
        (uint64_t)restart->status,
        (uint64_t)(uint32_t)restart->code,
    };
    uint64_t digest = MST_DIGEST_INIT;

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        digest = mst_digest_number(digest, numbers[i]);
    }
    return mst_digest_slice(digest, mst_slice_of(restart->text, restart->text_size));
}
