/* SPDX-License-Identifier: Apache-2.0 */
#include "sources/metadata/metadata.h"

#include "base/text.h"
#include "sources/metadata/date.h"
#include "sources/metadata/part.h"

/* Two dates of one event that are this near are one. */
enum { SAME_MS = 1000 };

static const struct {
    const char *name;
    uint32_t lanes;
    void (*init)(struct mst_metadata *metadata);
    void (*ask)(const struct mst_metadata *metadata, uint32_t lane,
                struct mst_metadata_request *out);
    void (*take)(struct mst_metadata *metadata, uint32_t lane,
                 const struct mst_metadata_answer *answer);
} sources[MST_METADATA_SOURCES] = {
    [MST_METADATA_GOOGLE] = {"google", 3, mst_google_init, mst_google_ask, mst_google_take},
    [MST_METADATA_AMAZON] = {"amazon", 1, mst_amazon_init, mst_amazon_ask, mst_amazon_take},
    [MST_METADATA_AZURE] = {"azure", 2, NULL, mst_azure_ask, mst_azure_take},
};

void mst_metadata_init(struct mst_metadata *metadata, enum mst_metadata_source source,
                       mst_metadata_tell *tell, void *ctx)
{
    memset(metadata, 0, sizeof *metadata);
    metadata->source = source;
    metadata->tell = tell;
    metadata->ctx = ctx;
    if (sources[source].init) {
        sources[source].init(metadata);
    }
}

uint32_t mst_metadata_lanes(const struct mst_metadata *metadata)
{
    return sources[metadata->source].lanes;
}

const char *mst_metadata_name(enum mst_metadata_source source)
{
    return sources[source].name;
}

void mst_metadata_ask(const struct mst_metadata *metadata, uint32_t lane,
                      struct mst_metadata_request *out)
{
    memset(out, 0, sizeof *out);
    out->timeout_ms = MST_METADATA_ANSWER_MS;
    sources[metadata->source].ask(metadata, lane, out);
}

/* Dates of a source are read by its own clock, where it sends it: this machine's may be wrong. */
void mst_metadata_take(struct mst_metadata *metadata, uint32_t lane,
                       const struct mst_metadata_answer *answer)
{
    metadata->now_ms = answer->wall_ms;
    metadata->clock_ms = answer->clock_ms;
    metadata->lane = lane;
    if (answer->failure == MST_METADATA_ANSWERED) {
        (void)mst_date_gmt(mst_metadata_trimmed(answer->date), &metadata->now_ms);
    }
    sources[metadata->source].take(metadata, lane, answer);
}

/* ---- events ---- */

static void say(struct mst_metadata *metadata, enum mst_metadata_event_kind kind, const char *words)
{
    struct mst_metadata_event event = {.kind = kind, .left_ms = -1};

    mst_text_print(event.text, sizeof event.text, "%s", words);
    metadata->tell(metadata->ctx, &event);
}

void mst_metadata_say(struct mst_metadata *metadata, const char *text)
{
    say(metadata, MST_METADATA_SAY, text);
}

void mst_metadata_unknown(struct mst_metadata *metadata, const struct mst_metadata_answer *answer,
                          const char *why)
{
    static const char *const failures[] = {
        [MST_METADATA_NO_CONNECTION] = "no connection",
        [MST_METADATA_TIMED_OUT] = "no answer in time",
        [MST_METADATA_BROKEN] = "the connection broke",
        [MST_METADATA_TOO_LONG] = "more than 64 KiB",
    };
    char array[MST_METADATA_TEXT];
    bool was_bad = metadata->bad != 0;

    metadata->bad |= 1U << metadata->lane;
    if (was_bad) {
        return;
    }
    if (answer->failure != MST_METADATA_ANSWERED) {
        why = failures[answer->failure];
    }
    if (why) {
        mst_text_print(array, sizeof array, "the metadata service: %s", why);
    } else {
        mst_text_print(array, sizeof array, "the metadata service: status %u", answer->status);
    }
    say(metadata, MST_METADATA_UNKNOWN, array);
}

void mst_metadata_known(struct mst_metadata *metadata)
{
    bool was_bad = metadata->bad != 0;

    metadata->bad &= ~(1U << metadata->lane);
    if (was_bad && metadata->bad == 0) {
        say(metadata, MST_METADATA_KNOWN, "the metadata service answers again");
    }
}

void mst_metadata_begin(struct mst_metadata *metadata, uint32_t group)
{
    metadata->group = group;
    for (uint32_t i = 0; i < MST_METADATA_TOLD; i++) {
        metadata->told[i].seen = false;
    }
}

static struct mst_metadata_told *find(struct mst_metadata *metadata, const char *id)
{
    for (uint32_t i = 0; i < MST_METADATA_TOLD; i++) {
        struct mst_metadata_told *told = &metadata->told[i];

        if (told->id[0] && told->group == metadata->group &&
            mst_slice_equal(mst_slice_text(told->id), mst_slice_text(id))) {
            return told;
        }
    }
    return NULL;
}

static struct mst_metadata_told *add(struct mst_metadata *metadata, const char *id)
{
    for (uint32_t i = 0; i < MST_METADATA_TOLD; i++) {
        struct mst_metadata_told *told = &metadata->told[i];

        if (!told->id[0]) {
            memset(told, 0, sizeof *told);
            memcpy(told->id, id, strlen(id) + 1);
            told->group = metadata->group;
            return told;
        }
    }
    return NULL;
}

static bool is_other(const struct mst_metadata_told *told, bool certain, int64_t deadline_ms)
{
    int64_t apart = deadline_ms - told->deadline_ms;

    return told->certain != certain ||
           (deadline_ms != 0 && (apart >= SAME_MS || apart <= -SAME_MS));
}

void mst_metadata_said(struct mst_metadata *metadata, const struct mst_metadata_said *said)
{
    struct mst_metadata_event event = {.kind = MST_METADATA_NOTICE, .left_ms = said->assumed_ms};
    int64_t deadline_ms = said->deadline_ms, now_ms = metadata->now_ms;
    struct mst_metadata_told *told;
    bool is_new;

    if (said->id.size > 0) {
        mst_text_print(event.id, sizeof event.id, "%.*s", MST_SLICE_ARGS(said->id));
    } else {
        mst_text_print(event.id, sizeof event.id, "-");
    }
    mst_text_print(event.text, sizeof event.text, "%.*s", MST_TEXT_ARGS(said->text));
    told = find(metadata, event.id);
    is_new = !told;
    if (!told && !(told = add(metadata, event.id))) {
        return;
    }
    told->seen = true;
    if (deadline_ms == 0) {
        deadline_ms = told->deadline_ms; /* an event that has begun has no time any more */
    }
    event.certain =
        said->certain && (deadline_ms == 0 || deadline_ms - now_ms <= MST_METADATA_NEAR_MS);
    if (!is_new && !is_other(told, event.certain, deadline_ms)) {
        return;
    }
    told->certain = event.certain;
    told->deadline_ms = deadline_ms;
    /* A time that has passed while this machine runs is not its end. */
    event.assumed = deadline_ms == 0 || deadline_ms <= now_ms;
    if (!event.assumed) {
        event.left_ms = deadline_ms - now_ms;
    }
    told->event = event;
    told->end_ms = event.left_ms < 0 ? 0 : metadata->clock_ms + (uint64_t)event.left_ms;
    metadata->tell(metadata->ctx, &event);
}

void mst_metadata_end(struct mst_metadata *metadata)
{
    for (uint32_t i = 0; i < MST_METADATA_TOLD; i++) {
        struct mst_metadata_told *told = &metadata->told[i];
        struct mst_metadata_event event = {
            .kind = MST_METADATA_WITHDRAWN, .certain = told->certain, .left_ms = -1};

        if (told->id[0] && told->group == metadata->group && !told->seen) {
            memcpy(event.id, told->id, sizeof event.id);
            told->id[0] = '\0';
            metadata->tell(metadata->ctx, &event);
        }
    }
}

static bool is_worse(const struct mst_metadata_event *a, const struct mst_metadata_event *b)
{
    if (a->certain != b->certain) {
        return a->certain;
    }
    return a->left_ms >= 0 && (b->left_ms < 0 || a->left_ms < b->left_ms);
}

bool mst_metadata_worst(const struct mst_metadata *metadata, uint64_t clock_ms,
                        struct mst_metadata_event *out)
{
    bool any = false;

    for (uint32_t i = 0; i < MST_METADATA_TOLD; i++) {
        const struct mst_metadata_told *told = &metadata->told[i];
        struct mst_metadata_event event = told->event;

        if (!told->id[0]) {
            continue;
        }
        if (told->end_ms > 0) {
            event.left_ms = told->end_ms > clock_ms ? (int64_t)(told->end_ms - clock_ms) : 0;
        }
        if (!any || is_worse(&event, out)) {
            *out = event;
            any = true;
        }
    }
    return any;
}
