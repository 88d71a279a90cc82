/* SPDX-License-Identifier: Apache-2.0 */
/* The preemption machine: its inputs only note what is so; `advance` then goes from state to state
 * as far as what is known carries.
 *
 *            +--------------- over: saved, failed, withdrawn, late -----------------+
 *            v                                                                      |
 *   CALM --a notice is due--> CLOSING --gated--> STEPPING --agreed--> DUE --saved--> CLAIMING
 *            ^                   ^                 |    |              |               | saving
 *            |                   |      postponed  |    | past it      | again         v
 *            |                   +--- POSTPONED <--+    +--> PASSED    |             SAVING
 *            |                   |   again   again          |  | again  |       differ |  | same
 *            |                   +--------------------------|--+--------+      LISTING<+  v
 *            |                                       saving +----> SAVING         |  RECORDING
 *            +----------------------------------------------------------- <-------+-------+
 *
 * FENCED and ENDED are reached from everywhere; a new generation begins in CALM. Verdicts, and that
 * an agreement is over for others, come as keys through the watch: so a rank that was left out,
 * or away, finds its way from whatever state it is in (`catch_up`). */
#include "preempt/preempt.h"

#include <string.h>

#include "base/panic.h"
#include "preempt/machine.h"

#define TIMEOUT_MS_MAX (UINT64_C(1000) * 60 * 60 * 24)

#define DECIDES (MST_PREEMPT_AT_HAND | MST_PREEMPT_DECIDES)
#define DECIDES_ANEW (DECIDES | MST_PREEMPT_AGREED)
#define AGREED (MST_PREEMPT_AT_HAND | MST_PREEMPT_AGREED)

const unsigned mst_preempt_traits[MST_PREEMPT_STATES] = {
    [MST_PREEMPT_CLOSING] = MST_PREEMPT_AT_HAND | MST_PREEMPT_BEGINS | MST_PREEMPT_CLOSES,
    [MST_PREEMPT_STEPPING] = MST_PREEMPT_AT_HAND | MST_PREEMPT_ROUND | MST_PREEMPT_CLOSES,
    [MST_PREEMPT_POSTPONED] = DECIDES,
    [MST_PREEMPT_DUE] = DECIDES_ANEW | MST_PREEMPT_BEGINS | MST_PREEMPT_LIMITS,
    [MST_PREEMPT_PASSED] = DECIDES_ANEW | MST_PREEMPT_BEGINS | MST_PREEMPT_CLOSES,
    [MST_PREEMPT_CLAIMING] = DECIDES_ANEW | MST_PREEMPT_LIMITS,
    [MST_PREEMPT_SAVING] = AGREED | MST_PREEMPT_ROUND | MST_PREEMPT_LIMITS,
    [MST_PREEMPT_LISTING] = AGREED | MST_PREEMPT_ROUND | MST_PREEMPT_LIMITS,
    [MST_PREEMPT_RECORDING] = AGREED | MST_PREEMPT_LIMITS,
};

/* ---- lines ---- */

struct mst_preempt_line *mst_preempt_line(struct mst_preempt *preempt, enum mst_preempt_log what)
{
    uint32_t room = sizeof(preempt->lines) / sizeof(preempt->lines[0]);
    struct mst_preempt_line *line;

    if (preempt->line_count == room) { /* the oldest is lost, if it is not drained */
        memmove(preempt->lines, preempt->lines + 1, (room - 1) * sizeof(preempt->lines[0]));
        preempt->line_count--;
    }
    line = &preempt->lines[preempt->line_count++];
    *line = (struct mst_preempt_line){.what = what,
                                      .index = preempt->view.index,
                                      .step = preempt->agreed,
                                      .other = preempt->last};
    return line;
}

/* ---- how long ---- */

static int64_t ns_of(uint64_t ms)
{
    return (int64_t)(ms * NS_PER_MS);
}

/* The deadline of what is being acted on. In an agreement that others began for a notice that is
 * none to act on here, the last of all. */
static int64_t deadline_of(const struct mst_preempt *preempt)
{
    return preempt->sums.eligible ? preempt->sums.deadline_ns : preempt->sums.last_ns;
}

uint64_t mst_preempt_left_ms(const struct mst_preempt *preempt, uint64_t now_ns)
{
    int64_t deadline_ns = deadline_of(preempt);

    return deadline_ns > (int64_t)now_ns ? (uint64_t)(deadline_ns - (int64_t)now_ns) / NS_PER_MS
                                         : 0;
}

uint64_t mst_preempt_end_ns(const struct mst_preempt *preempt)
{
    int64_t end_ns = (int64_t)preempt->begun_ns + ns_of(MST_PREEMPT_SAVE_MIN_MS);
    int64_t deadline_ns = deadline_of(preempt);

    if (deadline_ns > end_ns) {
        end_ns = deadline_ns;
    }
    if (preempt->state == MST_PREEMPT_POSTPONED && (int64_t)preempt->until_ns > end_ns) {
        end_ns = (int64_t)preempt->until_ns;
    }
    return (uint64_t)(end_ns + ns_of(MST_PREEMPT_MARGIN_MS));
}

static bool holds(const struct mst_preempt *preempt, uint64_t now_ns)
{
    return preempt->hold_depth > 0 && now_ns < preempt->hold_until_ns;
}

/* Half of what is left at most: however often it is postponed, time to save remains. */
uint64_t mst_preempt_postpone_ms(const struct mst_preempt *preempt, uint64_t now_ns)
{
    uint64_t most_ms = mst_preempt_left_ms(preempt, now_ns) / 2;
    uint64_t ms;

    if (!holds(preempt, now_ns)) {
        return 0;
    }
    ms = (preempt->hold_until_ns - now_ns) / NS_PER_MS + 1;
    return ms < most_ms ? ms : most_ms;
}

/* ---- from state to state ---- */

void mst_preempt_move(struct mst_preempt *preempt, uint64_t now_ns, enum mst_preempt_state to)
{
    preempt->state = to;
    preempt->round_tag = 0;
    preempt->owe_round = false;
    preempt->retry_ns = NEVER;
    preempt->owe_gate = to == MST_PREEMPT_CLOSING;
    if (to != MST_PREEMPT_RECORDING) {
        preempt->record_tag = 0;
        preempt->owe_record = false;
    }
    if (mst_preempt_is(preempt, MST_PREEMPT_ROUND)) {
        preempt->round_tag = ++preempt->tags;
        preempt->owe_round = true;
    }
    if (to == MST_PREEMPT_RECORDING) {
        preempt->record_tag = ++preempt->tags;
        preempt->owe_record = true;
    }
    if (mst_preempt_is(preempt, MST_PREEMPT_BEGINS)) {
        preempt->begun_ns = now_ns;
    }
    preempt->silent_ns = NEVER;
    if (to == MST_PREEMPT_DUE) {
        preempt->silent_ms = MST_PREEMPT_SILENT_MS;
        preempt->silent_ns = now_ns + preempt->silent_ms * NS_PER_MS;
    }
}

/* Agreement k is the next one. */
static void number(struct mst_preempt *preempt, uint64_t k)
{
    preempt->k = k;
    preempt->now = (struct mst_preempt_known){.k = k, .floor = -1};
    if (preempt->ahead.any && preempt->ahead.k <= k) {
        if (preempt->ahead.k == k) {
            preempt->now = preempt->ahead;
        }
        preempt->ahead = (struct mst_preempt_known){.floor = -1};
    }
    preempt->floor = -1;
    preempt->last = -1;
    preempt->held = false;
    if (preempt->agreed >= 0) {
        preempt->owe_noticed = true;
    }
    preempt->agreed = -1;
    preempt->revision = 0;
    preempt->cannot = false;
    preempt->still = false;
    preempt->asked = false;
    preempt->verdict_tag = 0;
    preempt->owe_verdict = false;
    preempt->verdict_settled = false;
}

static void begin(struct mst_preempt *preempt, uint64_t now_ns, int64_t floor)
{
    preempt->floor = floor;
    mst_preempt_move(preempt, now_ns, MST_PREEMPT_CLOSING);
}

static void attempted(struct mst_preempt *preempt, uint64_t now_ns)
{
    if (preempt->revision > preempt->attempted.revision) {
        preempt->attempted.revision = preempt->revision;
    }
    preempt->attempted.by_ns = (int64_t)now_ns;
}

void mst_preempt_over(struct mst_preempt *preempt, uint64_t now_ns)
{
    attempted(preempt, now_ns);
    mst_preempt_move(preempt, now_ns, MST_PREEMPT_CALM);
    number(preempt, preempt->k + 1);
    mst_preempt_sum(preempt);
}

/* Where no program waits for it, the last outcome stays. */
void mst_preempt_answer(struct mst_preempt *preempt, muster_status status)
{
    if (!preempt->answering) {
        return;
    }
    preempt->outcome.status = status;
    preempt->outcome.step = preempt->agreed;
    preempt->outcome.of = preempt->view.size;
    preempt->outcome_generation = preempt->view.generation;
    preempt->outcome_k = preempt->k;
    preempt->has_outcome = true;
    preempt->owe_saved = true;
    preempt->answering = false;
    if (preempt->saved > preempt->let_go) {
        preempt->let_go = preempt->saved;
    }
}

/* With nothing but a status. */
static void answer_plainly(struct mst_preempt *preempt, muster_status status)
{
    if (preempt->answering) {
        preempt->outcome = (struct mst_preempt_outcome){.step = -1};
        mst_preempt_answer(preempt, status);
    }
}

void mst_preempt_fail(struct mst_preempt *preempt, uint64_t now_ns, muster_status status)
{
    struct mst_preempt_line *line = mst_preempt_line(preempt, MST_PREEMPT_LOG_FAILED);

    line->status = status;
    line->detail = preempt->has_detail ? &preempt->detail : NULL;
    preempt->failed_note = (struct mst_preempt_note){
        .name = {.kind = MST_PREEMPT_KEY_FAILED,
                 .generation = preempt->view.generation,
                 .k = preempt->k},
        .fact = {.step = preempt->agreed < 0 ? 0 : preempt->agreed,
                 .covered = preempt->revision,
                 .status = status},
        .owed = true,
    };
    mst_preempt_answer(preempt, status);
    if (preempt->agreed < 0 && preempt->sums.newest > preempt->revision) {
        preempt->revision = preempt->sums.newest; /* or it would begin again at once */
    }
    mst_preempt_over(preempt, now_ns);
}

/* ---- verdicts ---- */

int64_t mst_preempt_chain(const struct mst_preempt *preempt)
{
    return preempt->agreed >= 0 ? preempt->agreed : preempt->floor;
}

static void verdict_write(struct mst_preempt *preempt, enum mst_verdict verdict)
{
    bool is_known = preempt->verdict_settled || preempt->now.verdict != MST_VERDICT_NONE;

    if (verdict == MST_VERDICT_NONE || is_known || preempt->verdict_tag != 0 ||
        preempt->retry_ns != NEVER) {
        return;
    }
    preempt->verdict = verdict;
    preempt->verdict_tag = ++preempt->tags;
    preempt->owe_verdict = true;
}

/* All that was noticed was taken back, and nothing that is older can still come. */
static bool withdrawn(const struct mst_preempt *preempt)
{
    bool live = preempt->sums.live_ns <= (int64_t)preempt->now_ns + ns_of(MST_PREEMPT_MARGIN_MS);

    return !live && !preempt->listing && preempt->follow.request.watch.after >= preempt->revision;
}

static void again(struct mst_preempt *preempt, uint64_t now_ns)
{
    int64_t floor = preempt->now.floor;

    answer_plainly(preempt, MUSTER_ESTALE);
    number(preempt, preempt->k + 1);
    begin(preempt, now_ns, floor);
}

static void go_on(struct mst_preempt *preempt, uint64_t now_ns)
{
    (void)mst_preempt_line(preempt, MST_PREEMPT_LOG_WITHDRAWN);
    if (preempt->agreed >= 0) {
        preempt->dropped = preempt->agreed;
    }
    answer_plainly(preempt, MUSTER_ESTALE);
    mst_preempt_over(preempt, now_ns);
}

/* Others are at a later agreement: this one is over. What is known of the later one decides whether
 * it is joined, or the next after it. */
static bool catch_up(struct mst_preempt *preempt, uint64_t now_ns)
{
    const struct mst_preempt_known *ahead = &preempt->ahead;

    if (!ahead->any || preempt->state == MST_PREEMPT_SAVING ||
        preempt->state == MST_PREEMPT_LISTING || preempt->state == MST_PREEMPT_RECORDING) {
        return false; /* an answer is on its way */
    }
    answer_plainly(preempt, MUSTER_ESTALE);
    attempted(preempt, now_ns);
    mst_preempt_move(preempt, now_ns, MST_PREEMPT_CALM);
    number(preempt, ahead->k);
    mst_preempt_sum(preempt);
    return true;
}

/* The agreement k of the others, from CALM. */
static bool join(struct mst_preempt *preempt, uint64_t now_ns)
{
    const struct mst_preempt_known *known = &preempt->now;
    int64_t floor = known->floor;

    if (!known->any) {
        return false;
    }
    if (known->complete || known->failed || known->verdict == MST_VERDICT_WITHDRAWN) {
        mst_preempt_over(preempt, now_ns);
    } else if (known->verdict == MST_VERDICT_AGAIN) {
        number(preempt, preempt->k + 1);
        begin(preempt, now_ns, floor);
    } else {
        begin(preempt, now_ns, -1);
    }
    return true;
}

static void late(struct mst_preempt *preempt, uint64_t now_ns)
{
    (void)mst_preempt_line(preempt, MST_PREEMPT_LOG_LATE);
    preempt->has_detail = false;
    answer_plainly(preempt, MUSTER_ETIMEDOUT);
    mst_preempt_fail(preempt, now_ns, MUSTER_ETIMEDOUT);
}

/* ---- each state; true: it moved ---- */

static bool calm(struct mst_preempt *preempt, uint64_t now_ns)
{
    if (preempt->view.generation == 0 || preempt->view.rank == MST_RANK_NONE) {
        return false;
    }
    if (catch_up(preempt, now_ns) || join(preempt, now_ns)) {
        return true;
    }
    if (!preempt->sums.eligible || preempt->sums.due_ns > (int64_t)now_ns) {
        return false;
    }
    begin(preempt, now_ns, -1);
    return true;
}

/* What another rank has decided, or that it is at a later agreement. */
static bool heed_verdict(struct mst_preempt *preempt, uint64_t now_ns)
{
    enum mst_verdict verdict = preempt->now.verdict;
    bool postponed = preempt->state == MST_PREEMPT_POSTPONED;

    if (verdict == MST_VERDICT_AGAIN || (postponed && verdict == MST_VERDICT_SAVING)) {
        again(preempt, now_ns);
    } else if (verdict == MST_VERDICT_WITHDRAWN) {
        go_on(preempt, now_ns);
    } else if (postponed && preempt->now.failed) {
        mst_preempt_over(preempt, now_ns);
    } else {
        return catch_up(preempt, now_ns);
    }
    return true;
}

/* A rank that has saved still waits for a save that failed elsewhere; but a new notice need not
 * wait for that. */
static bool given_up(const struct mst_preempt *preempt, uint64_t now_ns)
{
    return preempt->now.failed && preempt->sums.eligible &&
           preempt->sums.newest > preempt->revision && preempt->sums.due_ns <= (int64_t)now_ns;
}

/* What this rank does without a verdict, and with SAVING. */
static bool proceed(struct mst_preempt *preempt, uint64_t now_ns)
{
    bool saving = preempt->now.verdict == MST_VERDICT_SAVING;

    if (preempt->state == MST_PREEMPT_DUE && preempt->answering) {
        mst_preempt_move(preempt, now_ns, MST_PREEMPT_CLAIMING);
    } else if (preempt->state == MST_PREEMPT_DUE && given_up(preempt, now_ns)) {
        mst_preempt_over(preempt, now_ns);
    } else if (preempt->state == MST_PREEMPT_PASSED && saving) {
        (void)mst_preempt_line(preempt, MST_PREEMPT_LOG_PASSED);
        preempt->cannot = true;
        mst_preempt_move(preempt, now_ns, MST_PREEMPT_SAVING);
    } else if (preempt->state == MST_PREEMPT_CLAIMING && saving) {
        mst_preempt_move(preempt, now_ns, MST_PREEMPT_SAVING);
    } else if (now_ns >= mst_preempt_end_ns(preempt)) {
        late(preempt, now_ns);
    } else {
        return false;
    }
    return true;
}

/* The program does not ask for the step that is due: a line, and another after twice as long. */
static void remind(struct mst_preempt *preempt, uint64_t now_ns)
{
    if (now_ns < preempt->silent_ns) {
        return;
    }
    if (!preempt->asked) {
        struct mst_preempt_line *line = mst_preempt_line(preempt, MST_PREEMPT_LOG_WAITING);

        line->since_ms = (now_ns - preempt->begun_ns) / NS_PER_MS;
        line->left_ms = (int64_t)mst_preempt_left_ms(preempt, now_ns);
    }
    preempt->silent_ms *= 2;
    preempt->silent_ns = now_ns + preempt->silent_ms * NS_PER_MS;
}

/* The verdict that this rank asks for. */
static enum mst_verdict wanted(const struct mst_preempt *preempt, uint64_t now_ns)
{
    if (preempt->state == MST_PREEMPT_PASSED) {
        return MST_VERDICT_AGAIN;
    }
    if (preempt->state == MST_PREEMPT_CLAIMING) {
        return MST_VERDICT_SAVING;
    }
    if (withdrawn(preempt)) {
        return MST_VERDICT_WITHDRAWN;
    }
    return preempt->state == MST_PREEMPT_POSTPONED &&
                   (now_ns >= preempt->until_ns || (preempt->held && !holds(preempt, now_ns)))
               ? MST_VERDICT_AGAIN
               : MST_VERDICT_NONE;
}

/* POSTPONED, DUE, PASSED and CLAIMING: until there is a verdict. */
static bool deciding(struct mst_preempt *preempt, uint64_t now_ns)
{
    if (heed_verdict(preempt, now_ns) || proceed(preempt, now_ns)) {
        return true;
    }
    if (preempt->state == MST_PREEMPT_DUE) {
        remind(preempt, now_ns);
    }
    verdict_write(preempt, wanted(preempt, now_ns));
    return false;
}

static muster_status success(const struct mst_preempt *preempt)
{
    return mst_preempt_leaves(preempt, &preempt->fact, (int64_t)preempt->now_ns) ? MUSTER_EPREEMPTED
                                                                                 : MUSTER_OK;
}

/* It is recorded, and all notices that it answers were seen: news come in order. Where it cannot be
 * recorded it was saved by all nonetheless. */
static bool recording(struct mst_preempt *preempt, uint64_t now_ns)
{
    bool given_up = preempt->retry_ns != NEVER && now_ns >= mst_preempt_end_ns(preempt);

    if ((preempt->now.complete && !preempt->listing) || given_up) {
        mst_preempt_answer(preempt, success(preempt));
        mst_preempt_over(preempt, now_ns);
        return true;
    }
    if (preempt->retry_ns != NEVER && now_ns >= preempt->retry_ns) {
        preempt->retry_ns = NEVER;
        preempt->record_tag = ++preempt->tags;
        preempt->owe_record = true;
    }
    return false;
}

/* The service had no room: asked again, until the agreement is over. */
static bool calling(struct mst_preempt *preempt, uint64_t now_ns)
{
    if (preempt->state == MST_PREEMPT_STEPPING && catch_up(preempt, now_ns)) {
        return true;
    }
    if (preempt->round_tag != 0 || preempt->retry_ns == NEVER) {
        return false;
    }
    if (now_ns >= mst_preempt_end_ns(preempt)) {
        late(preempt, now_ns);
        return true;
    }
    if (now_ns >= preempt->retry_ns) {
        preempt->retry_ns = NEVER;
        preempt->round_tag = ++preempt->tags;
        preempt->owe_round = true;
    }
    return false;
}

static bool step(struct mst_preempt *preempt, uint64_t now_ns)
{
    if (preempt->state == MST_PREEMPT_CALM) {
        return calm(preempt, now_ns);
    }
    if (mst_preempt_is(preempt, MST_PREEMPT_DECIDES)) {
        return deciding(preempt, now_ns);
    }
    if (mst_preempt_is(preempt, MST_PREEMPT_ROUND)) {
        return calling(preempt, now_ns);
    }
    return preempt->state == MST_PREEMPT_RECORDING && recording(preempt, now_ns);
}

/* A verdict that was refused is written again only if the state still asks for it. */
void mst_preempt_advance(struct mst_preempt *preempt, uint64_t now_ns)
{
    preempt->now_ns = now_ns;
    if (now_ns >= preempt->retry_ns && mst_preempt_is(preempt, MST_PREEMPT_DECIDES)) {
        preempt->retry_ns = NEVER;
    }
    while (step(preempt, now_ns)) {
    }
}

/* ---- birth ---- */

/* What belongs to a generation: a new one begins with nothing. */
static void forget(struct mst_preempt *preempt)
{
    preempt->ahead = (struct mst_preempt_known){.floor = -1};
    number(preempt, 0);
    preempt->hold_depth = 0;
    preempt->let_go = -1;
    preempt->dropped = -1;
}

muster_status mst_preempt_new(struct mst_preempt **out, uint64_t now_ns,
                              const struct mst_preempt_config *config, const struct mst_mem *mem)
{
    struct mst_preempt *preempt;

    *out = NULL;
    if (config->window_ms > MST_NOTICE_LEFT_MS_MAX || config->agree_timeout_ms == 0 ||
        config->agree_timeout_ms > TIMEOUT_MS_MAX) {
        return MUSTER_EINVAL;
    }
    preempt = mst_mem_zalloc(mem, sizeof(*preempt));
    if (!preempt) {
        return MUSTER_ENOMEM;
    }
    preempt->mem = *mem;
    preempt->config = *config;
    preempt->view.rank = MST_RANK_NONE;
    preempt->now_ns = now_ns;
    preempt->began_ns = (int64_t)now_ns;
    preempt->listing = true;
    mst_follow_begin(&preempt->follow, MST_WATCH_KEYS, mst_slice_text(MST_PREEMPT_PREFIX),
                     MST_NODE_NONE);
    preempt->owe_watch = true;
    preempt->retry_ns = NEVER;
    preempt->silent_ns = NEVER;
    preempt->agreed = -1;
    forget(preempt);
    preempt->limit_told = MST_PREEMPT_NO_LIMIT;
    preempt->sums.last_ns = INT64_MIN;
    preempt->sums.live_ns = INT64_MAX;
    preempt->covered.by_ns = INT64_MIN;
    preempt->stayed.by_ns = INT64_MIN;
    mst_preempt_notices_init(preempt);
    *out = preempt;
    return MUSTER_OK;
}

void mst_preempt_free(struct mst_preempt *preempt)
{
    if (preempt) {
        struct mst_mem mem = preempt->mem;

        mst_preempt_notices_free(preempt);
        mst_mem_release(&mem, preempt);
    }
}

/* ---- inputs ---- */

/* For good, or with the generation. What all have saved stays saved. */
static void over_with(struct mst_preempt *preempt, muster_status status)
{
    if (preempt->state == MST_PREEMPT_RECORDING) {
        mst_preempt_answer(preempt, success(preempt));
    } else {
        answer_plainly(preempt, status);
    }
}

static void take_seat(struct mst_preempt *preempt)
{
    if (preempt->view.rank == MST_RANK_NONE) {
        preempt->seated = 0;
    } else if (preempt->seated == 0) {
        preempt->seated = preempt->view.generation;
    }
}

static void attention(void *machine, uint64_t now_ns, const struct mst_view *view, bool stopped)
{
    struct mst_preempt *preempt = machine;
    bool fresh = view->generation > preempt->view.generation;

    (void)stopped;
    if (preempt->state == MST_PREEMPT_ENDED || view->generation < preempt->view.generation) {
        return;
    }
    if (!fresh) {
        preempt->view.rank = view->rank;
        preempt->view.index = view->index;
        take_seat(preempt);
        return;
    }
    preempt->now_ns = now_ns;
    over_with(preempt, MUSTER_EINTERRUPTED);
    preempt->view = *view;
    preempt->began_ns = (int64_t)now_ns;
    preempt->attempted.revision = 0;
    preempt->stays = preempt->stays || preempt->covered.revision != preempt->stayed.revision ||
                     preempt->covered.by_ns != preempt->stayed.by_ns;
    preempt->covered = preempt->stayed;
    take_seat(preempt);
    mst_preempt_move(preempt, now_ns, MST_PREEMPT_CALM);
    forget(preempt);
    preempt->owe_forget = true;
    mst_preempt_sum(preempt);
    mst_preempt_advance(preempt, now_ns);
}

void mst_preempt_gated(struct mst_preempt *preempt, uint64_t now_ns, int64_t last)
{
    if (preempt->state != MST_PREEMPT_CLOSING || preempt->owe_gate) {
        return;
    }
    /* A program that was let go after a save does that step, as after GO_ON. */
    preempt->last = last > preempt->let_go ? last : preempt->let_go;
    if (preempt->last > INT64_MAX - 2) {
        preempt->last = INT64_MAX - 2;
    }
    mst_preempt_move(preempt, now_ns, MST_PREEMPT_STEPPING);
    mst_preempt_advance(preempt, now_ns);
}

void mst_preempt_waiting(struct mst_preempt *preempt, uint64_t now_ns)
{
    (void)now_ns;
    if (preempt->state == MST_PREEMPT_DUE) {
        preempt->asked = true;
    }
}

/* The answer to a program that asks too soon or too late. Also where another step is due by now:
 * the program saved for an agreement that is over, and a save takes its time. */
static muster_status refusal(const struct mst_preempt *preempt, int64_t step)
{
    if (mst_preempt_is(preempt, MST_PREEMPT_AGREED)) {
        return step < preempt->agreed ? MUSTER_ESTALE : MUSTER_OK;
    }
    if (preempt->state == MST_PREEMPT_CALM) {
        return preempt->dropped >= 0 && step >= preempt->dropped ? MUSTER_ESTALE : MUSTER_EINVAL;
    }
    if (preempt->state == MST_PREEMPT_FENCED) {
        return MUSTER_EINTERRUPTED;
    }
    return preempt->state == MST_PREEMPT_ENDED ? preempt->end : MUSTER_ESTALE;
}

void mst_preempt_saved(struct mst_preempt *preempt, uint64_t now_ns, int64_t step)
{
    muster_status status = refusal(preempt, step);

    if (preempt->answering || preempt->owe_saved) {
        return;
    }
    if ((status == MUSTER_EINVAL || status == MUSTER_ESTALE) && preempt->has_outcome &&
        preempt->saved == step && preempt->outcome_generation == preempt->view.generation) {
        preempt->owe_saved = true;
        return;
    }
    preempt->answering = true;
    preempt->saved = step;
    if (status != MUSTER_OK) {
        answer_plainly(preempt, status);
        preempt->has_outcome = false;
        return;
    }
    mst_preempt_advance(preempt, now_ns);
}

void mst_preempt_hold_begin(struct mst_preempt *preempt, uint64_t now_ns, uint64_t limit_ms)
{
    if (preempt->hold_depth++ == 0) {
        uint64_t ms = limit_ms < MST_NOTICE_LEFT_MS_MAX ? limit_ms : MST_NOTICE_LEFT_MS_MAX;

        preempt->hold_until_ns = now_ns + ms * NS_PER_MS;
    }
}

void mst_preempt_hold_end(struct mst_preempt *preempt, uint64_t now_ns)
{
    if (preempt->hold_depth > 0) { /* a new generation ended them all */
        preempt->hold_depth--;
    }
    mst_preempt_advance(preempt, now_ns);
}

static void ended(void *machine, uint64_t now_ns, muster_status status)
{
    struct mst_preempt *preempt = machine;

    if (preempt->state == MST_PREEMPT_ENDED) {
        return;
    }
    preempt->now_ns = now_ns;
    over_with(preempt, status);
    mst_preempt_move(preempt, now_ns, MST_PREEMPT_ENDED);
    number(preempt, preempt->k);
    preempt->end = status;
    preempt->watch_tag = 0;
    preempt->follow.again_ns = NEVER;
    preempt->owe_watch = false;
    preempt->agreed_note.owed = false;
    preempt->failed_note.owed = false;
}

static void tick(void *machine, uint64_t now_ns)
{
    struct mst_preempt *preempt = machine;

    if (now_ns >= preempt->follow.again_ns) {
        preempt->follow.again_ns = NEVER;
        preempt->owe_watch = true;
    }
    mst_preempt_advance(preempt, now_ns);
}

static uint64_t deadline_ns(const void *machine)
{
    const struct mst_preempt *preempt = machine;
    uint64_t when = mst_sooner(preempt->follow.again_ns, preempt->retry_ns);

    bool seated = preempt->view.generation > 0 && preempt->view.rank != MST_RANK_NONE;

    when = mst_sooner(when, preempt->silent_ns);
    if (preempt->state == MST_PREEMPT_CALM && seated && preempt->sums.eligible) {
        when = mst_sooner(when, preempt->sums.due_ns > 0 ? (uint64_t)preempt->sums.due_ns : 0);
    }
    if (preempt->state == MST_PREEMPT_POSTPONED && preempt->verdict_tag == 0 &&
        !preempt->verdict_settled && preempt->retry_ns == NEVER) {
        when = mst_sooner(when, preempt->until_ns);
    }
    if (mst_preempt_is(preempt, MST_PREEMPT_DECIDES) ||
        (mst_preempt_is(preempt, MST_PREEMPT_AT_HAND) && preempt->retry_ns != NEVER)) {
        when = mst_sooner(when, mst_preempt_end_ns(preempt));
    }
    return when;
}

const struct mst_machine mst_preempt_machine = {.attention = attention,
                                                .ended = ended,
                                                .reply = mst_preempt_reply,
                                                .tick = tick,
                                                .deadline_ns = deadline_ns,
                                                .next = mst_preempt_next};

/* ---- what it knows ---- */

const struct mst_preempt_seen *mst_preempt_noticed(const struct mst_preempt *preempt)
{
    return preempt->sums.best;
}

int64_t mst_preempt_agreed(const struct mst_preempt *preempt)
{
    return preempt->agreed;
}
