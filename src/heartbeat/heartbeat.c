/* SPDX-License-Identifier: Apache-2.0 */
/* The collective heartbeat of one member.
 *
 *   OUT --a seat in a generation--> AGREEING --a token--> WAITING <----over----> BEATING
 *                                      |                     `----a period----^
 *                                      `--rank 0 was lost before--> BROKEN
 *   any --the next generation--> AGREEING      any --no seat, fenced, the end--> OUT
 *
 * The token. All ranks meet in round number 0, which has no deadline: the heart beats once all have
 * a token. Rank 0 draws it, the others contribute what is smaller than any; the maximum of the
 * tokens and that of their negatives say whether exactly one was drawn. The same round makes the
 * period and the timeout of all the largest that any member names, since the contributions to a
 * round must ask for the same.
 *
 * The beat. Each later number is a period: all show the token (EQUAL). All get the same result, so
 * all count alike and are at the same number, and a success is the moment from which all measure
 * the next period: clocks that drift do not drift apart. A failure is over one timeout after the
 * first arrival, from which all measure then: a member that was late for a beat is in time for the
 * next. But a member that sleeps gets the result late. A reply that came later than any can says
 * nothing of when the round was over (but for an outage): then the period is measured from the own
 * call. And the reply to a call that was late comes at once: then it is measured from when that
 * call was due. A member that slept through several beats gets the number where the others are, and
 * has missed as many.
 *
 * Leaving. A round goes on without the lost members (PROCEED) and names them, with the cause: a
 * period is good if all of them have left. Beyond the eight that are named none can have died
 * unless the generation calls for attention.
 *
 * What does not count. A period in which the service was out of reach says nothing about the others
 * (`outages`), nor does a lack of room in it. While it is away there are no replies, and the count
 * stands still; once the lease is over each period counts again. While a run of a function is in
 * progress nothing counts but a mismatch: a missing member is evicted by its lease, and the run
 * recovers from that, however long it takes.
 */
#include "heartbeat/heartbeat.h"

#include <string.h>

#include "base/digest.h"
#include "base/panic.h"
#include "base/time.h"
#include "proto/heartbeat.h"
#include "proto/retry.h"
#include "proto/vector.h"

#define RETRY_MS 1000u
#define PERIOD_MS_MAX 86400000u

enum mst_heartbeat_state {
    MST_OUT,
    MST_AGREEING,
    MST_WAITING,
    MST_BEATING,
    MST_BROKEN,
    MST_CRASHED,
    MST_STATE_COUNT
};

enum { TOKENS = 65535, TOKEN_SIZE = 2 };

/* What is agreed on: numbers of which the service takes the largest. */
enum { TOKEN, MINUS_TOKEN, PERIOD, TIMEOUT, TERMS };

struct mst_heartbeat {
    struct mst_mem mem;
    struct mst_heartbeat_config config;
    struct mst_heartbeat_sight sight;
    enum mst_heartbeat_state state;
    bool judging;
    bool late_told;

    uint64_t generation;
    uint64_t number; /* of the next round */
    uint32_t token;  /* 0: none */
    uint64_t period_ms, timeout_ms;
    uint64_t beat_ns;      /* when the beat of this number is due */
    uint64_t sent_ns;      /* when its call was made */
    uint64_t due_ns;       /* of the next thing to do */
    uint64_t sent_outages; /* as the beat was sent */
    uint32_t failures;     /* in a row */

    uint64_t tags, tag; /* of the open call; 0: none */
    bool owe_request, owe_agreed, owe_late, owe_failed, owe_crash;
    enum mst_heartbeat_why why;
    muster_status status;
    uint32_t told; /* of FAILED */
    const struct mst_reply *reply;

    struct mst_heartbeat_effect effect;
    struct mst_request request;
    unsigned char data[TERMS * MST_VECTOR_ELEMENT];
};

/* ---- birth ---- */

static bool makes_sense(const struct mst_heartbeat_config *config)
{
    return config->period_ms > 0 && config->period_ms <= PERIOD_MS_MAX && config->timeout_ms > 0 &&
           config->timeout_ms <= PERIOD_MS_MAX && config->failures_max > 0;
}

muster_status mst_heartbeat_new(struct mst_heartbeat **out,
                                const struct mst_heartbeat_config *config,
                                const struct mst_mem *mem)
{
    struct mst_heartbeat *heartbeat;

    *out = NULL;
    if (!makes_sense(config)) {
        return MUSTER_EINVAL;
    }
    heartbeat = mst_mem_zalloc(mem, sizeof(*heartbeat));
    if (!heartbeat) {
        return MUSTER_ENOMEM;
    }
    heartbeat->mem = *mem;
    heartbeat->config = *config;
    heartbeat->period_ms = config->period_ms;
    heartbeat->timeout_ms = config->timeout_ms;
    heartbeat->due_ns = NEVER;
    *out = heartbeat;
    return MUSTER_OK;
}

muster_status mst_heartbeat_configure(struct mst_heartbeat *heartbeat,
                                      const struct mst_heartbeat_config *config)
{
    if (!makes_sense(config)) {
        return MUSTER_EINVAL;
    }
    heartbeat->config = *config;
    return MUSTER_OK;
}

void mst_heartbeat_free(struct mst_heartbeat *heartbeat)
{
    if (heartbeat) {
        struct mst_mem mem = heartbeat->mem;

        mst_mem_release(&mem, heartbeat);
    }
}

/* ---- time ---- */

/* From one beat to the next when the first of them fails. */
static uint64_t cycle_ms(const struct mst_heartbeat *heartbeat)
{
    return mst_later(heartbeat->period_ms, heartbeat->timeout_ms);
}

/* ---- from state to state ---- */

static void move(struct mst_heartbeat *heartbeat, enum mst_heartbeat_state to, uint64_t due_ns)
{
    MST_ASSERT(heartbeat->state != MST_CRASHED);
    heartbeat->state = to;
    heartbeat->due_ns = due_ns;
    heartbeat->tag = 0;
    heartbeat->owe_request = false;
    heartbeat->owe_late = false;
}

static void enter(struct mst_heartbeat *heartbeat, uint64_t now_ns)
{
    heartbeat->number = 0;
    heartbeat->token = 0;
    heartbeat->failures = 0;
    heartbeat->late_told = false;
    move(heartbeat, MST_AGREEING, now_ns);
}

static void step_out(struct mst_heartbeat *heartbeat, uint64_t now_ns)
{
    bool over = heartbeat->sight.ended != MUSTER_OK;

    heartbeat->token = 0;
    move(heartbeat, MST_OUT, over ? mst_after_ms(now_ns, heartbeat->period_ms) : NEVER);
}

static void call(struct mst_heartbeat *heartbeat)
{
    heartbeat->tag = ++heartbeat->tags;
    heartbeat->owe_request = true;
}

/* ---- failures ---- */

static void crash(struct mst_heartbeat *heartbeat, enum mst_heartbeat_why why, muster_status status)
{
    move(heartbeat, MST_CRASHED, NEVER);
    heartbeat->why = why;
    heartbeat->status = status;
    heartbeat->owe_crash = true;
}

/* A run that is at it, or waits for what it needs, says so itself. */
static bool recovering(const struct mst_heartbeat *heartbeat)
{
    const struct mst_heartbeat_sight *sight = &heartbeat->sight;

    return sight->restarting && (sight->view.attention == MST_INTERRUPT || sight->stopped ||
                                 heartbeat->state == MST_OUT);
}

static void report(struct mst_heartbeat *heartbeat, uint32_t failures, enum mst_heartbeat_why why,
                   muster_status status)
{
    heartbeat->owe_failed = true;
    heartbeat->told = failures;
    heartbeat->why = why;
    heartbeat->status = status;
}

/* It failed, and does not count. */
static void excuse(struct mst_heartbeat *heartbeat, enum mst_heartbeat_why why,
                   muster_status status)
{
    if (heartbeat->judging && !recovering(heartbeat)) {
        report(heartbeat, 0, why, status);
    }
}

/* `times` periods failed. The last act of an input: it may be the end. */
static void fail(struct mst_heartbeat *heartbeat, uint64_t times, enum mst_heartbeat_why why,
                 muster_status status)
{
    uint32_t room = UINT32_MAX - heartbeat->failures;

    if (heartbeat->sight.restarting) {
        excuse(heartbeat, why, status);
        return;
    }
    if (!heartbeat->judging) {
        return;
    }
    heartbeat->failures += times < room ? (uint32_t)times : room;
    report(heartbeat, heartbeat->failures, why, status);
    if (heartbeat->failures >= heartbeat->config.failures_max) {
        crash(heartbeat, why, status);
    }
}

/* ---- inputs of the shell ---- */

void mst_heartbeat_look(struct mst_heartbeat *heartbeat, uint64_t now_ns,
                        const struct mst_heartbeat_sight *sight)
{
    bool fresh = sight->view.generation != heartbeat->generation;
    bool seated = sight->view.generation > 0 && sight->view.rank != MST_RANK_NONE;
    bool ending = sight->ended != MUSTER_OK && heartbeat->sight.ended == MUSTER_OK;

    heartbeat->sight = *sight;
    if (heartbeat->state == MST_CRASHED) {
        return;
    }
    heartbeat->generation = sight->view.generation;
    if (ending || (sight->ended == MUSTER_OK && !seated && heartbeat->state != MST_OUT)) {
        step_out(heartbeat, now_ns);
    } else if (sight->ended == MUSTER_OK && seated && fresh) {
        enter(heartbeat, now_ns);
    }
}

void mst_heartbeat_judge(struct mst_heartbeat *heartbeat, bool on)
{
    if (on != heartbeat->judging) {
        heartbeat->judging = on;
        heartbeat->failures = 0;
        heartbeat->owe_failed = false;
    }
}

/* ---- answers ---- */

/* Whether a member is lost that has not left. */
static bool has_losses(const struct mst_heartbeat *heartbeat, const struct mst_reply *reply)
{
    const struct mst_detail *detail = &reply->detail;

    if (!reply->has_detail || detail->lost == 0) {
        return false;
    }
    for (uint32_t i = 0; i < detail->who_count && i < detail->lost; i++) {
        if (detail->who[i].cause != MST_CAUSE_LEFT) {
            return true;
        }
    }
    return detail->lost > detail->who_count && heartbeat->sight.view.attention == MST_INTERRUPT;
}

static void break_up(struct mst_heartbeat *heartbeat, uint64_t now_ns, enum mst_heartbeat_why why,
                     muster_status status, bool left)
{
    move(heartbeat, MST_BROKEN, left ? NEVER : mst_after_ms(now_ns, heartbeat->period_ms));
    heartbeat->owe_agreed = true;
    heartbeat->why = why;
    heartbeat->status = status;
}

static bool terms_take(struct mst_heartbeat *heartbeat, struct mst_slice terms)
{
    int64_t token = mst_vector_at(terms, TOKEN);
    int64_t period = mst_vector_at(terms, PERIOD);
    int64_t timeout = mst_vector_at(terms, TIMEOUT);

    if (token < 1 || token > TOKENS || mst_vector_at(terms, MINUS_TOKEN) != -token || period < 1 ||
        period > PERIOD_MS_MAX || timeout < 1 || timeout > PERIOD_MS_MAX) {
        return false;
    }
    heartbeat->token = (uint32_t)token;
    heartbeat->period_ms = (uint64_t)period;
    heartbeat->timeout_ms = (uint64_t)timeout;
    return true;
}

static void agree(struct mst_heartbeat *heartbeat, uint64_t now_ns, const struct mst_reply *reply)
{
    bool lost = has_losses(heartbeat, reply);

    if (reply->value.size != sizeof(heartbeat->data)) {
        break_up(heartbeat, now_ns, MST_BEAT_REPLY, MUSTER_EPROTO, false);
        return;
    }
    if (mst_vector_at(reply->value, TOKEN) == INT64_MIN) {
        break_up(heartbeat, now_ns, MST_BEAT_NO_TOKEN, MUSTER_ELOST, !lost);
        return;
    }
    if (!terms_take(heartbeat, reply->value)) {
        if (heartbeat->judging) {
            crash(heartbeat, MST_BEAT_UNEQUAL, MUSTER_EMISMATCH);
        } else {
            break_up(heartbeat, now_ns, MST_BEAT_UNEQUAL, MUSTER_EMISMATCH, true);
        }
        return;
    }
    heartbeat->number = 1;
    heartbeat->beat_ns = mst_after_ms(now_ns, heartbeat->period_ms);
    move(heartbeat, MST_WAITING, heartbeat->beat_ns);
    heartbeat->owe_agreed = true;
    heartbeat->why = lost ? MST_BEAT_LOST : MST_BEAT_REPLY;
    heartbeat->status = lost ? MUSTER_ELOST : MUSTER_OK;
}

/* The service had no room for the call, or it was asked to stop it: the same again, later. */
static bool is_refusal(muster_status status)
{
    return mst_retry_helps(status) || status == MUSTER_EUNREACHABLE || status == MUSTER_ECANCELLED;
}

static void reply_agreeing(struct mst_heartbeat *heartbeat, uint64_t now_ns,
                           const struct mst_reply *reply)
{
    if (reply->status == MUSTER_OK) {
        agree(heartbeat, now_ns, reply);
    } else if (reply->status == MUSTER_EFENCED) {
        step_out(heartbeat, now_ns);
    } else if (reply->status == MUSTER_ECANCELLED) {
        move(heartbeat, MST_AGREEING, now_ns);
    } else if (is_refusal(reply->status)) {
        move(heartbeat, MST_AGREEING, mst_after_ms(now_ns, RETRY_MS));
    } else {
        break_up(heartbeat, now_ns, MST_BEAT_REPLY, reply->status, false);
    }
}

/* Whether the service was out of reach since the beat was due. */
static bool disturbed(const struct mst_heartbeat *heartbeat)
{
    return heartbeat->sight.outages != heartbeat->sent_outages;
}

static void next_beat(struct mst_heartbeat *heartbeat, uint64_t number, uint64_t due_ns)
{
    heartbeat->number = number;
    heartbeat->beat_ns = due_ns;
    move(heartbeat, MST_WAITING, due_ns);
}

/* The round this member is at is over, and others it was not in may be. */
static void miss(struct mst_heartbeat *heartbeat, uint64_t now_ns, uint64_t times,
                 muster_status status)
{
    uint64_t timeout_ns = heartbeat->timeout_ms * NS_PER_MS;
    uint64_t first_ns = now_ns > timeout_ns ? now_ns - timeout_ns : 0;
    uint64_t due_ns;

    if (status != MUSTER_ETIMEDOUT || (first_ns > heartbeat->beat_ns && !disturbed(heartbeat))) {
        first_ns = heartbeat->beat_ns;
    }
    due_ns = mst_after_ms(first_ns, cycle_ms(heartbeat));
    for (uint64_t i = 1; i < times && due_ns < now_ns; i++) {
        due_ns = mst_after_ms(due_ns, cycle_ms(heartbeat));
    }
    next_beat(heartbeat, heartbeat->number + times, due_ns);
    if (disturbed(heartbeat)) {
        excuse(heartbeat, MST_BEAT_REPLY, status);
    } else {
        fail(heartbeat, times, MST_BEAT_REPLY, status);
    }
}

static void beat_ok(struct mst_heartbeat *heartbeat, uint64_t now_ns, const struct mst_reply *reply)
{
    const unsigned char *value = reply->value.data;
    bool credible =
        disturbed(heartbeat) || now_ns <= mst_after_ms(heartbeat->sent_ns, heartbeat->timeout_ms);

    next_beat(heartbeat, heartbeat->number + 1,
              mst_after_ms(credible ? now_ns : heartbeat->sent_ns, heartbeat->period_ms));
    if (reply->value.size != TOKEN_SIZE ||
        (value[0] | (uint32_t)value[1] << 8) != heartbeat->token) {
        if (heartbeat->judging) {
            crash(heartbeat, MST_BEAT_MISMATCH, MUSTER_EMISMATCH);
        }
    } else if (has_losses(heartbeat, reply)) {
        fail(heartbeat, 1, MST_BEAT_LOST, MUSTER_ELOST);
    } else {
        heartbeat->failures = 0;
    }
}

static void reply_beating(struct mst_heartbeat *heartbeat, uint64_t now_ns,
                          const struct mst_reply *reply)
{
    uint64_t later_ns = mst_after_ms(now_ns, heartbeat->period_ms);
    /* The number where the others are; 0: unknown. */
    uint64_t theirs =
        reply->has_detail && reply->detail.limit > 0 ? (uint64_t)reply->detail.limit : 0;

    if (reply->status == MUSTER_OK) {
        beat_ok(heartbeat, now_ns, reply);
    } else if (reply->status == MUSTER_EFENCED) {
        step_out(heartbeat, now_ns);
    } else if (reply->status == MUSTER_ECANCELLED) {
        move(heartbeat, MST_WAITING, now_ns);
    } else if (is_refusal(reply->status)) {
        next_beat(heartbeat, heartbeat->number, later_ns);
        excuse(heartbeat, MST_BEAT_REPLY, reply->status);
    } else if (reply->status == MUSTER_EMISMATCH) {
        next_beat(heartbeat, heartbeat->number + 1, later_ns);
        if (heartbeat->judging) {
            crash(heartbeat, MST_BEAT_MISMATCH, MUSTER_EMISMATCH);
        }
    } else if (reply->status == MUSTER_ETIMEDOUT) {
        miss(heartbeat, now_ns, 1, reply->status);
    } else if (theirs > heartbeat->number) {
        miss(heartbeat, now_ns, theirs - heartbeat->number, reply->status);
    } else { /* this one may be ahead: then it is refused alone */
        next_beat(heartbeat, theirs > 0 ? theirs : heartbeat->number, later_ns);
        fail(heartbeat, 1, MST_BEAT_REPLY, reply->status);
    }
}

static void take_reply(void *machine, uint64_t now_ns, uint64_t tag, const struct mst_reply *reply)
{
    struct mst_heartbeat *heartbeat = machine;

    if (tag == 0 || tag != heartbeat->tag) {
        return;
    }
    heartbeat->reply = reply;
    if (heartbeat->state == MST_AGREEING) {
        reply_agreeing(heartbeat, now_ns, reply);
    } else {
        MST_ASSERT(heartbeat->state == MST_BEATING);
        reply_beating(heartbeat, now_ns, reply);
    }
}

/* ---- time passes ---- */

static void tick_agreeing(struct mst_heartbeat *heartbeat, uint64_t now_ns)
{
    if (heartbeat->tag == 0) {
        call(heartbeat);
        heartbeat->due_ns =
            heartbeat->late_told ? NEVER : mst_after_ms(now_ns, heartbeat->config.timeout_ms);
    } else {
        heartbeat->owe_late = heartbeat->judging;
        heartbeat->late_told = true;
        heartbeat->due_ns = NEVER;
    }
}

static void tick(void *machine, uint64_t now_ns)
{
    struct mst_heartbeat *heartbeat = machine;
    uint64_t later_ns = mst_after_ms(now_ns, heartbeat->period_ms);

    if (now_ns < heartbeat->due_ns) {
        return;
    }
    switch (heartbeat->state) {
    case MST_AGREEING:
        tick_agreeing(heartbeat, now_ns);
        break;
    case MST_WAITING:
        move(heartbeat, MST_BEATING, mst_after_ms(now_ns, cycle_ms(heartbeat)));
        heartbeat->sent_ns = now_ns;
        heartbeat->sent_outages = heartbeat->sight.outages - heartbeat->sight.away;
        call(heartbeat);
        break;
    case MST_BEATING: /* without an answer */
        heartbeat->due_ns = later_ns;
        if (heartbeat->sight.stopped) {
            fail(heartbeat, 1, MST_BEAT_ALONE, MUSTER_EUNREACHABLE);
        }
        break;
    case MST_OUT:
        heartbeat->due_ns = heartbeat->sight.ended == MUSTER_ECANCELLED ? NEVER : later_ns;
        if (heartbeat->due_ns != NEVER) {
            fail(heartbeat, 1, MST_BEAT_ALONE, heartbeat->sight.ended);
        }
        break;
    case MST_BROKEN:
        heartbeat->due_ns = later_ns;
        fail(heartbeat, 1, MST_BEAT_NO_TOKEN, MUSTER_ELOST);
        break;
    case MST_CRASHED:
    case MST_STATE_COUNT:
        MST_ASSERT(!"nothing is due");
        break;
    }
}

static uint64_t deadline_ns(const void *machine)
{
    return ((const struct mst_heartbeat *)machine)->due_ns;
}

/* ---- effects ---- */

static void fill_terms(struct mst_heartbeat *heartbeat)
{
    uint64_t drawn = mst_digest_number(heartbeat->config.seed, heartbeat->generation);
    bool draws = heartbeat->sight.view.rank == 0;
    int64_t token = (int64_t)(drawn % TOKENS) + 1;

    mst_vector_put(heartbeat->data, TOKEN, draws ? token : INT64_MIN);
    mst_vector_put(heartbeat->data, MINUS_TOKEN, draws ? -token : INT64_MIN);
    mst_vector_put(heartbeat->data, PERIOD, (int64_t)heartbeat->config.period_ms);
    mst_vector_put(heartbeat->data, TIMEOUT, (int64_t)heartbeat->config.timeout_ms);
}

static void fill_request(struct mst_heartbeat *heartbeat)
{
    struct mst_request *request = &heartbeat->request;

    request->command = MST_ROUND;
    request->round.generation = heartbeat->generation;
    request->round.name = mst_slice_text(MST_HEARTBEAT_ROUND);
    request->round.number = heartbeat->number;
    request->round.on_loss = MST_PROCEED;
    if (heartbeat->state == MST_AGREEING) {
        fill_terms(heartbeat);
        request->round.reduce = MST_REDUCE_MAX;
        request->round.data = mst_slice_of(heartbeat->data, sizeof(heartbeat->data));
    } else {
        heartbeat->data[0] = (unsigned char)heartbeat->token;
        heartbeat->data[1] = (unsigned char)(heartbeat->token >> 8);
        request->round.reduce = MST_REDUCE_EQUAL;
        request->round.deadline_ms = heartbeat->timeout_ms;
        request->round.data = mst_slice_of(heartbeat->data, TOKEN_SIZE);
    }
}

/* What it says of a failure comes before the end that it may be. */
static const void *next(void *machine)
{
    struct mst_heartbeat *heartbeat = machine;
    struct mst_heartbeat_effect *effect = &heartbeat->effect;

    *effect = (struct mst_heartbeat_effect){.why = heartbeat->why,
                                            .status = heartbeat->status,
                                            .generation = heartbeat->generation,
                                            .number = heartbeat->number,
                                            .period_ms = heartbeat->period_ms,
                                            .timeout_ms = heartbeat->timeout_ms,
                                            .failures = heartbeat->failures,
                                            .reply = heartbeat->reply};
    if (heartbeat->owe_agreed) {
        heartbeat->owe_agreed = false;
        effect->type = MST_HEARTBEAT_AGREED;
    } else if (heartbeat->owe_failed) {
        heartbeat->owe_failed = false;
        effect->type = MST_HEARTBEAT_FAILED;
        effect->failures = heartbeat->told;
    } else if (heartbeat->owe_crash) {
        heartbeat->owe_crash = false;
        effect->type = MST_HEARTBEAT_CRASH;
    } else if (heartbeat->owe_late) {
        heartbeat->owe_late = false;
        effect->type = MST_HEARTBEAT_LATE;
    } else if (heartbeat->owe_request) {
        heartbeat->owe_request = false;
        mst_machine_call(&effect->head, heartbeat->tag, &heartbeat->request);
        fill_request(heartbeat);
    } else {
        heartbeat->reply = NULL; /* it lives no longer than this */
        return NULL;
    }
    return effect;
}

const struct mst_machine mst_heartbeat_machine = {
    .reply = take_reply, .tick = tick, .deadline_ns = deadline_ns, .next = next};

uint32_t mst_heartbeat_token(const struct mst_heartbeat *heartbeat)
{
    return heartbeat->token;
}

/* ---- what is always true ---- */

void mst_heartbeat_check(const struct mst_heartbeat *heartbeat)
{
    bool beats = heartbeat->state == MST_WAITING || heartbeat->state == MST_BEATING;

    MST_ASSERT(heartbeat->state < MST_STATE_COUNT);
    MST_ASSERT(heartbeat->token <= TOKENS);
    MST_ASSERT(!beats || (heartbeat->token != 0 && heartbeat->number > 0));
    MST_ASSERT(beats || heartbeat->state == MST_CRASHED || heartbeat->token == 0);
    MST_ASSERT(heartbeat->state != MST_AGREEING || heartbeat->number == 0);
    MST_ASSERT((heartbeat->tag != 0) ==
               (heartbeat->state == MST_BEATING ||
                (heartbeat->state == MST_AGREEING && heartbeat->tag == heartbeat->tags &&
                 heartbeat->tag != 0)));
    MST_ASSERT(!heartbeat->owe_request || heartbeat->tag != 0);
    MST_ASSERT(!heartbeat->owe_crash || heartbeat->state == MST_CRASHED);
    MST_ASSERT(heartbeat->state != MST_WAITING || heartbeat->due_ns != NEVER);
    MST_ASSERT(heartbeat->judging || heartbeat->failures == 0);
}
