/* SPDX-License-Identifier: Apache-2.0 */
/* First a token, then the items one after the other, every 5 s. 404 is the healthy answer of most.
 * A token that is refused is renewed once in a cycle. */
#include "base/text.h"
#include "sources/metadata/date.h"
#include "sources/metadata/part.h"

enum { TOKEN, ACTION, REBALANCE, SCHEDULED, LIFECYCLE, STEPS };

enum {
    PERIOD_MS = 5000,
    OFF_MS = 60000, /* the service is switched off */
    TTL_S = 21600,
    MARGIN_S = 60,
    WITHOUT_MS = 300000 /* how long it goes without a token where none is needed */
};

static const char *const paths[] = {
    [TOKEN] = "/latest/api/token",
    [ACTION] = "/latest/meta-data/spot/instance-action",
    [REBALANCE] = "/latest/meta-data/events/recommendations/rebalance",
    [SCHEDULED] = "/latest/meta-data/events/maintenance/scheduled",
    [LIFECYCLE] = "/latest/meta-data/autoscaling/target-lifecycle-state",
};

static const char hint[] =
    "the request for a token gets no answer; in a container the instance's hop limit must be 2 or "
    "more: aws ec2 modify-instance-metadata-options --http-put-response-hop-limit 2";

void mst_amazon_init(struct mst_metadata *metadata)
{
    metadata->amazon.back = ACTION;
    metadata->amazon.all_good = true;
}

void mst_amazon_ask(const struct mst_metadata *metadata, uint32_t lane,
                    struct mst_metadata_request *out)
{
    const struct mst_amazon *amazon = &metadata->amazon;
    char *header = out->headers[0];

    (void)lane;
    mst_text_print(out->path, sizeof out->path, "%s", paths[amazon->step]);
    out->wait_ms = amazon->wait_ms;
    if (amazon->step == TOKEN) {
        out->method = MST_METADATA_PUT;
        mst_text_print(header, sizeof out->headers[0], "X-aws-ec2-metadata-token-ttl-seconds: %d",
                       TTL_S);
    } else if (amazon->token[0]) {
        mst_text_print(header, sizeof out->headers[0], "X-aws-ec2-metadata-token: %s",
                       amazon->token);
    }
}

/* ---- the token ---- */

/* What the answer says, or what was asked for. */
static uint32_t ttl_of(struct mst_slice header)
{
    uint64_t ttl;

    return mst_slice_number(header, TTL_S, &ttl) && ttl > 0 ? (uint32_t)ttl : TTL_S;
}

static void go_on(struct mst_amazon *amazon, uint32_t step, int64_t wait_ms)
{
    amazon->step = step;
    amazon->wait_ms = wait_ms;
}

/* The next cycle begins with a token, whatever there was. */
static void give_up_cycle(struct mst_amazon *amazon, int64_t wait_ms)
{
    amazon->back = ACTION;
    amazon->renewed = false;
    amazon->all_good = true;
    amazon->token[0] = '\0';
    go_on(amazon, TOKEN, wait_ms);
}

/* Whether it may answer without: it hears nothing of tokens, or its answer was lost on the way. */
static bool may_go_without(const struct mst_metadata_answer *answer)
{
    return answer->failure == MST_METADATA_TIMED_OUT ||
           (answer->failure == MST_METADATA_ANSWERED &&
            (answer->status == 404 || answer->status == 405 || answer->status == 501));
}

static void take_token(struct mst_metadata *metadata, const struct mst_metadata_answer *answer)
{
    struct mst_amazon *amazon = &metadata->amazon;
    bool answered = answer->failure == MST_METADATA_ANSWERED;

    amazon->token[0] = '\0';
    if (answered && answer->status == 200 &&
        mst_metadata_word(mst_metadata_trimmed(answer->body), "-_=+/.:", amazon->token,
                          sizeof amazon->token)) {
        uint32_t ttl_s = ttl_of(mst_metadata_trimmed(answer->token_ttl));
        uint32_t margin_s = ttl_s / 4 < MARGIN_S ? ttl_s / 4 : MARGIN_S;

        amazon->renew_ms = answer->clock_ms + (uint64_t)(ttl_s - margin_s) * 1000;
        go_on(amazon, amazon->back, 0);
        return;
    }
    if (answer->failure == MST_METADATA_TIMED_OUT && !amazon->hinted) {
        amazon->hinted = true;
        mst_metadata_say(metadata, hint);
    }
    if (may_go_without(answer)) {
        amazon->renew_ms = answer->clock_ms + WITHOUT_MS;
        amazon->renewed = true;
        go_on(amazon, amazon->back, 0);
        return;
    }
    mst_metadata_unknown(metadata, answer, answered && answer->status == 200 ? "no token" : NULL);
    give_up_cycle(amazon, answered && answer->status == 403 ? OFF_MS : PERIOD_MS);
}

/* ---- the items ---- */

static bool take_action(struct mst_metadata *metadata, const json_t *root)
{
    struct mst_slice action = mst_metadata_field(root, "action");
    char array[MST_METADATA_TEXT];
    int64_t deadline_ms = 0;

    if (action.size == 0) {
        return false;
    }
    /* A machine that hibernates begins to at once; so does one with a time that cannot be read. */
    (void)mst_date_rfc3339(mst_metadata_field(root, "time"), &deadline_ms);
    mst_text_print(array, sizeof array, "spot interruption: %.*s", MST_SLICE_ARGS(action));
    mst_metadata_said(metadata, &(struct mst_metadata_said){.id = mst_slice_text("spot"),
                                                            .certain = true,
                                                            .deadline_ms = deadline_ms,
                                                            .assumed_ms = -1,
                                                            .text = array});
    return true;
}

static bool take_rebalance(struct mst_metadata *metadata, const json_t *root)
{
    if (mst_metadata_field(root, "noticeTime").size == 0) {
        return false;
    }
    mst_metadata_said(metadata,
                      &(struct mst_metadata_said){
                          .id = mst_slice_text("rebalance"),
                          .assumed_ms = -1,
                          .text = "rebalance recommendation: a spot interruption may come"});
    return true;
}

/* Further kinds are maintenance which the machine may well outlive. */
static bool ends_machine(struct mst_slice code)
{
    return mst_slice_is(code, "instance-stop") || mst_slice_is(code, "instance-reboot") ||
           mst_slice_is(code, "system-reboot") || mst_slice_is(code, "instance-retirement");
}

static void say_scheduled(struct mst_metadata *metadata, const json_t *event)
{
    struct mst_slice code = mst_metadata_field(event, "Code");
    struct mst_slice id = mst_metadata_field(event, "EventId");
    struct mst_slice description = mst_metadata_field(event, "Description");
    struct mst_slice state = mst_metadata_field(event, "State");
    char array[MST_METADATA_TEXT];
    int64_t deadline_ms = 0;

    if (mst_slice_is(state, "completed") || mst_slice_is(state, "canceled")) {
        return;
    }
    (void)mst_date_gmt(mst_metadata_field(event, "NotBefore"), &deadline_ms);
    mst_text_print(array, sizeof array, "scheduled event: %.*s%s%.*s", MST_SLICE_ARGS(code),
                   description.size > 0 ? ": " : "", MST_SLICE_ARGS(description));
    mst_metadata_said(metadata, &(struct mst_metadata_said){.id = id.size > 0 ? id : code,
                                                            .certain = ends_machine(code),
                                                            .deadline_ms = deadline_ms,
                                                            .assumed_ms = -1,
                                                            .text = array});
}

static bool take_scheduled(struct mst_metadata *metadata, const json_t *root)
{
    size_t i;
    json_t *event;

    json_array_foreach(root, i, event)
    {
        if (mst_metadata_field(event, "Code").size == 0) {
            return false;
        }
    }
    json_array_foreach(root, i, event)
    {
        say_scheduled(metadata, event);
    }
    return true;
}

static bool take_lifecycle(struct mst_metadata *metadata, struct mst_slice body)
{
    if (mst_slice_is(body, "Terminated")) {
        mst_metadata_said(metadata,
                          &(struct mst_metadata_said){
                              .id = mst_slice_text("autoscaling"),
                              .certain = true,
                              .assumed_ms = -1,
                              .text = "Auto Scaling takes this machine away: Terminated"});
        return true;
    }
    return mst_slice_is(body, "InService");
}

/* Whether it made sense. Only then what is not in it any more is over. */
static bool take_item(struct mst_metadata *metadata, uint32_t step, struct mst_slice body)
{
    json_t *root = step == LIFECYCLE ? NULL : mst_metadata_json(body);
    bool good;

    mst_metadata_begin(metadata, step);
    if (step == ACTION) {
        good = take_action(metadata, root);
    } else if (step == REBALANCE) {
        good = take_rebalance(metadata, root);
    } else if (step == SCHEDULED) {
        good = json_is_array(root) && take_scheduled(metadata, root);
    } else {
        good = take_lifecycle(metadata, body);
    }
    if (good) {
        mst_metadata_end(metadata);
    }
    json_decref(root);
    return good;
}

static void next_step(struct mst_metadata *metadata, const struct mst_metadata_answer *answer)
{
    struct mst_amazon *amazon = &metadata->amazon;

    if (amazon->step + 1 < STEPS) {
        go_on(amazon, amazon->step + 1, 0);
        return;
    }
    if (amazon->all_good) {
        mst_metadata_known(metadata);
    }
    amazon->all_good = true;
    amazon->renewed = false;
    amazon->back = ACTION;
    go_on(amazon, answer->clock_ms + PERIOD_MS >= amazon->renew_ms ? TOKEN : ACTION, PERIOD_MS);
}

static void take_refusal(struct mst_metadata *metadata, const struct mst_metadata_answer *answer)
{
    struct mst_amazon *amazon = &metadata->amazon;

    if (answer->failure == MST_METADATA_ANSWERED && answer->status == 401 && !amazon->renewed) {
        amazon->renewed = true;
        amazon->back = amazon->step;
        go_on(amazon, TOKEN, 0);
        return;
    }
    mst_metadata_unknown(metadata, answer, NULL);
    amazon->all_good = false;
    if (answer->failure != MST_METADATA_ANSWERED) {
        give_up_cycle(amazon, PERIOD_MS);
    } else if (answer->status == 401 || answer->status == 403) {
        give_up_cycle(amazon, answer->status == 403 ? OFF_MS : PERIOD_MS);
    } else {
        next_step(metadata, answer);
    }
}

void mst_amazon_take(struct mst_metadata *metadata, uint32_t lane,
                     const struct mst_metadata_answer *answer)
{
    struct mst_amazon *amazon = &metadata->amazon;
    bool answered = answer->failure == MST_METADATA_ANSWERED;

    (void)lane;
    if (amazon->step == TOKEN) {
        take_token(metadata, answer);
        return;
    }
    if (answered && answer->status == 404) {
        mst_metadata_begin(metadata, amazon->step);
        mst_metadata_end(metadata);
    } else if (answered && answer->status == 200) {
        if (!take_item(metadata, amazon->step, mst_metadata_trimmed(answer->body))) {
            mst_metadata_unknown(metadata, answer, "a value that is none");
            amazon->all_good = false;
        }
    } else {
        take_refusal(metadata, answer);
        return;
    }
    next_step(metadata, answer);
}
