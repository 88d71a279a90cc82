/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/cluster_status.h"

#include <string.h>

#include "base/panic.h"
#include "base/text.h"
#include "proto/line.h"

#define US UINT64_C(1000)
#define MS (1000 * US)
#define S (1000 * MS)

const struct mst_bounds mst_cluster_time_bounds = {
    .count = 15,
    .ns = {10 * US, 50 * US, 100 * US, 500 * US, MS, 5 * MS, 10 * MS, 50 * MS, 100 * MS, 500 * MS,
           S, 10 * S, 60 * S, 600 * S, 3600 * S}};

/* ---- names ---- */

bool mst_cluster_name_valid(struct mst_slice name)
{
    const char *bytes = name.data;

    for (size_t i = 0; i < name.size; i++) {
        char c = bytes[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '.' || c == '_' || c == '-')) {
            return false;
        }
    }
    return name.size > 0 && name.size <= MST_CLUSTER_LABEL_MAX;
}

static size_t key_write(char *at, size_t room, const char *prefix, struct mst_slice name,
                        const char *suffix)
{
    MST_ASSERT(room >= MST_CLUSTER_LABEL_ROOM && mst_cluster_name_valid(name));
    return mst_text_print(at, room, "%s%.*s%s", prefix, MST_SLICE_ARGS(name), suffix);
}

size_t mst_cluster_key(char *at, size_t room, struct mst_slice name)
{
    return key_write(at, room, MST_CLUSTER_PREFIX, name, "");
}

size_t mst_cluster_status_key(char *at, size_t room, struct mst_slice name)
{
    return key_write(at, room, MST_CLUSTER_STATUS_PREFIX, name, "");
}

size_t mst_cluster_dismissed_key(char *at, size_t room, struct mst_slice name)
{
    return key_write(at, room, MST_CLUSTER_PREFIX, name, "/dismissed");
}

bool mst_cluster_status_key_read(struct mst_slice key, struct mst_slice *name)
{
    const struct mst_slice prefix = mst_slice_text(MST_CLUSTER_STATUS_PREFIX);

    if (!mst_slice_starts_with(key, prefix)) {
        return false;
    }
    *name = mst_slice_from(key, prefix.size);
    return mst_cluster_name_valid(*name);
}

/* ---- words ---- */

static const char *const wait_words[MST_WAITS] = {
    [MST_WAIT_NONE] = "none",     [MST_WAIT_WORKERS] = "workers", [MST_WAIT_FUNCTION] = "function",
    [MST_WAIT_SLOT] = "slot",     [MST_WAIT_BACKOFF] = "backoff", [MST_WAIT_DELAY] = "delay",
    [MST_WAIT_SERIES] = "series",
};

static const char *const wait_sentences[MST_WAITS] = {
    [MST_WAIT_NONE] = "its turn comes next",
    [MST_WAIT_WORKERS] = "there is no worker",
    [MST_WAIT_FUNCTION] = "no worker has that function in that version",
    [MST_WAIT_SLOT] = "all slots that could run it are busy",
    [MST_WAIT_BACKOFF] = "it failed and will be tried again",
    [MST_WAIT_DELAY] = "its start is delayed, as those of all workers are staggered",
    [MST_WAIT_SERIES] = "a failure before it has not been taken note of by the program",
};

const char *mst_cluster_wait_word(enum mst_cluster_wait wait)
{
    return wait_words[wait];
}

const char *mst_cluster_wait_sentence(enum mst_cluster_wait wait)
{
    return wait_sentences[wait];
}

static bool wait_read(struct mst_slice word, enum mst_cluster_wait *out)
{
    size_t wait = mst_slice_among(word, wait_words, MST_WAITS);

    *out = (enum mst_cluster_wait)wait;
    return wait < MST_WAITS;
}

static const char *const timer_words[MST_TIMERS] = {[MST_TIMER_RESOLVE] = "resolve",
                                                    [MST_TIMER_RUN] = "run",
                                                    [MST_TIMER_FETCH] = "fetch",
                                                    [MST_TIMER_FAILED] = "failed"};

static const struct number {
    const char *name;
    size_t offset;
} numbers[] = {
#define X(name, counts, help) {#name, offsetof(struct mst_cluster_status, name)},
#include "proto/cluster_numbers.def"
#undef X
};

enum { NUMBERS = sizeof numbers / sizeof numbers[0] };

void mst_cluster_status_init(struct mst_cluster_status *status)
{
    *status = (struct mst_cluster_status){.waits = MST_WAIT_NONE};
    for (unsigned timer = 0; timer < MST_TIMERS; timer++) {
        mst_histogram_init(&status->times[timer], &mst_cluster_time_bounds);
    }
}

void mst_cluster_status_function(char room[MST_CLUSTER_FUNCTION_ROOM], struct mst_slice name)
{
    struct mst_text text = mst_text_in(room, MST_CLUSTER_FUNCTION_ROOM);

    mst_line_put(&text, "", name);
}

/* ---- writing ---- */

static void write_times(struct mst_text *line, const char *name,
                        const struct mst_histogram *histogram)
{
    mst_text_format(line, " %s", name);
    for (uint32_t i = 0; i <= histogram->bounds->count; i++) {
        mst_text_format(line, "%s%" PRIu64, i == 0 ? "=" : ",", histogram->in[i]);
    }
    mst_text_format(line, ";%" PRIu64 ".%09" PRIu64, histogram->sum_s, histogram->sum_ns);
}

size_t mst_cluster_status_write(char *at, size_t room, const struct mst_cluster_status *status)
{
    struct mst_text line = mst_text_in(at, room);

    MST_ASSERT(room >= MST_CLUSTER_STATUS_ROOM);
    for (unsigned i = 0; i < NUMBERS; i++) {
        uint64_t number;

        memcpy(&number, (const char *)status + numbers[i].offset, sizeof number);
        mst_text_format(&line, "%s%s=%" PRIu64, i > 0 ? " " : "", numbers[i].name, number);
    }
    mst_text_format(&line, " waits=%s", wait_words[status->waits]);
    mst_line_put(&line, " oldest_function=", mst_slice_text(status->oldest_function));
    mst_line_put(&line, " longest_function=", mst_slice_text(status->longest_function));
    for (unsigned timer = 0; timer < MST_TIMERS; timer++) {
        write_times(&line, timer_words[timer], &status->times[timer]);
    }
    return line.size;
}

/* ---- reading ---- */

/* Numbers that JSON can hold. */
static bool number_read(struct mst_slice text, uint64_t *out)
{
    return mst_slice_number(text, INT64_MAX, out);
}

static bool times_read(struct mst_slice text, struct mst_histogram *out)
{
    struct mst_slice buckets = mst_slice_cut(&text, ';');
    struct mst_slice seconds = mst_slice_cut(&text, '.');
    uint64_t total = 0;

    for (uint32_t i = 0; i <= out->bounds->count; i++) {
        if (!number_read(mst_slice_cut(&buckets, ','), &out->in[i])) {
            return false;
        }
        total += out->in[i];
        if (total > INT64_MAX) {
            return false;
        }
    }
    return buckets.size == 0 && number_read(seconds, &out->sum_s) && text.size == 9 &&
           number_read(text, &out->sum_ns);
}

static bool function_read(char room[MST_CLUSTER_FUNCTION_ROOM], struct mst_slice name)
{
    if (name.size >= MST_CLUSTER_FUNCTION_ROOM) {
        return false;
    }
    mst_cluster_status_function(room, name);
    return true;
}

static bool word_read(const struct mst_line_word *word, struct mst_cluster_status *out)
{
    size_t timer = mst_slice_among(word->name, timer_words, MST_TIMERS);

    for (unsigned i = 0; i < NUMBERS; i++) {
        if (mst_slice_is(word->name, numbers[i].name)) {
            uint64_t number;

            if (!number_read(word->value, &number)) {
                return false;
            }
            memcpy((char *)out + numbers[i].offset, &number, sizeof number);
            return true;
        }
    }
    if (timer < MST_TIMERS) {
        return times_read(word->value, &out->times[timer]);
    }
    if (mst_slice_is(word->name, "waits")) {
        return wait_read(word->value, &out->waits);
    }
    if (mst_slice_is(word->name, "oldest_function")) {
        return function_read(out->oldest_function, word->value);
    }
    return !mst_slice_is(word->name, "longest_function") ||
           function_read(out->longest_function, word->value);
}

bool mst_cluster_status_read(struct mst_slice value, struct mst_cluster_status *out)
{
    struct mst_line_word word;
    bool any = false;

    mst_cluster_status_init(out);
    if (value.size >= MST_CLUSTER_STATUS_ROOM || !mst_line_printable(value)) {
        return false;
    }
    while (value.size > 0) {
        if (!mst_line_take(&value, &word, NULL) || !word_read(&word, out)) {
            return false;
        }
        any = true;
    }
    return any;
}
