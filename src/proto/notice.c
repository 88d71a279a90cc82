/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/notice.h"

#include <string.h>

#include "base/panic.h"
#include "base/text.h"
#include "proto/line.h"

/* The folder below the prefix, by kind. */
static const char *const folders[MST_PREEMPT_KEYS] = {
    [MST_PREEMPT_KEY_NOTICE] = "notice/",   [MST_PREEMPT_KEY_AGREED] = "agreed/",
    [MST_PREEMPT_KEY_VERDICT] = "verdict/", [MST_PREEMPT_KEY_COMPLETE] = "complete/",
    [MST_PREEMPT_KEY_FAILED] = "failed/",
};

static const char *const verdicts[] = {
    [MST_VERDICT_NONE] = "",
    [MST_VERDICT_SAVING] = "saving",
    [MST_VERDICT_AGAIN] = "again",
    [MST_VERDICT_WITHDRAWN] = "withdrawn",
};
enum { VERDICTS = sizeof verdicts / sizeof verdicts[0] };

/* ---- reading ---- */

static void text_keep(char *room, size_t size, struct mst_slice text)
{
    size_t length = text.size < size ? text.size : size - 1;

    if (length > 0) {
        memcpy(room, text.data, length);
    }
    room[length] = '\0';
}

static bool level_read(struct mst_slice text, enum mst_notice_level *out)
{
    *out = mst_slice_is(text, "advisory") ? MST_NOTICE_ADVISORY : MST_NOTICE_CERTAIN;
    return *out == MST_NOTICE_ADVISORY || mst_slice_is(text, "certain");
}

static bool notice_word(const struct mst_line_word *word, struct mst_notice *out, bool *has_left)
{
    uint64_t number;

    if (mst_slice_is(word->name, "left_ms")) {
        bool twice = *has_left;

        *has_left = true;
        return !twice && mst_slice_number(word->value, UINT64_MAX, &out->left_ms);
    }
    if (mst_slice_is(word->name, "assumed")) {
        if (!mst_slice_number(word->value, 1, &number)) {
            return false;
        }
        out->assumed = number == 1;
    } else if (mst_slice_is(word->name, "level")) {
        return level_read(word->value, &out->level);
    } else if (mst_slice_is(word->name, "source")) {
        text_keep(out->source, sizeof(out->source), word->value);
    } else if (mst_slice_is(word->name, "host")) {
        text_keep(out->host, sizeof(out->host), word->value);
    } else if (mst_slice_is(word->name, "reason")) {
        text_keep(out->reason, sizeof(out->reason), word->value);
    }
    return true;
}

bool mst_notice_read(struct mst_slice value, struct mst_notice *out)
{
    bool has_left = false;
    struct mst_line_word word;

    *out = (struct mst_notice){.index = MST_NOTICE_ALL};
    if (!mst_line_printable(value)) {
        return false;
    }
    while (value.size > 0) {
        if (!mst_line_take(&value, &word, "reason") || !notice_word(&word, out, &has_left)) {
            return false;
        }
    }
    if (out->left_ms > MST_NOTICE_LEFT_MS_MAX) {
        out->left_ms = MST_NOTICE_LEFT_MS_MAX;
    }
    return has_left;
}

/* ---- writing ---- */

static void sentence_write(struct mst_text *line, const char *name, const char *value)
{
    mst_text_add(line, value[0] != '\0' ? name : "");
    for (size_t i = 0; value[i] != '\0'; i++) {
        unsigned char byte = (unsigned char)value[i];

        mst_text_format(line, "%c", byte < 0x20 || byte == 0x7f ? ' ' : value[i]);
    }
}

size_t mst_notice_write(char *at, size_t room, const struct mst_notice *notice)
{
    struct mst_text line = mst_text_in(at, room);

    MST_ASSERT(room >= MST_NOTICE_VALUE_ROOM);
    mst_text_format(&line, "left_ms=%" PRIu64 "%s%s",
                    notice->left_ms < MST_NOTICE_LEFT_MS_MAX ? notice->left_ms
                                                             : MST_NOTICE_LEFT_MS_MAX,
                    notice->assumed ? " assumed=1" : " assumed=0",
                    notice->level == MST_NOTICE_ADVISORY ? " level=advisory" : " level=certain");
    mst_line_put(&line, " source=", mst_slice_text(notice->source));
    mst_line_put(&line, " host=", mst_slice_text(notice->host));
    sentence_write(&line, " reason=", notice->reason);
    return line.size;
}

/* ---- names ---- */

size_t mst_preempt_name_write(char *at, size_t room, const struct mst_preempt_name *name)
{
    const char *folder;

    MST_ASSERT(room >= MST_PREEMPT_NAME_ROOM && name->kind < MST_PREEMPT_KEYS);
    folder = folders[name->kind];
    if (name->kind != MST_PREEMPT_KEY_NOTICE) {
        return mst_text_print(at, room, MST_PREEMPT_PREFIX "%s%" PRIu64 ".%" PRIu64, folder,
                              name->generation, name->k);
    }
    return name->index == MST_NOTICE_ALL
               ? mst_text_print(at, room, MST_PREEMPT_PREFIX "%sall", folder)
               : mst_text_print(at, room, MST_PREEMPT_PREFIX "%s%u", folder, name->index);
}

static bool index_read(struct mst_slice text, uint32_t *out)
{
    uint64_t number;

    if (mst_slice_is(text, "all")) {
        *out = MST_NOTICE_ALL;
        return true;
    }
    if (!mst_slice_number(text, MST_NOTICE_ALL - 1, &number)) {
        return false;
    }
    *out = (uint32_t)number;
    return true;
}

static bool numbers_read(struct mst_slice text, uint64_t *generation, uint64_t *k)
{
    return mst_slice_number(mst_slice_cut(&text, '.'), UINT64_MAX, generation) &&
           mst_slice_number(text, UINT64_MAX, k);
}

/* Of the ways to write a number one is the name, or two keys would be one notice. */
static bool canonical(struct mst_slice key, const struct mst_preempt_name *name)
{
    char room[MST_PREEMPT_NAME_ROOM];
    size_t size = mst_preempt_name_write(room, sizeof(room), name);

    return mst_slice_equal(key, mst_slice_of(room, size));
}

bool mst_preempt_name_read(struct mst_slice key, struct mst_preempt_name *out)
{
    struct mst_slice prefix = mst_slice_text(MST_PREEMPT_PREFIX);
    struct mst_slice below;

    *out = (struct mst_preempt_name){0};
    if (!mst_slice_starts_with(key, prefix)) {
        return false;
    }
    below = mst_slice_from(key, prefix.size);
    for (unsigned kind = 0; kind < MST_PREEMPT_KEYS; kind++) {
        struct mst_slice folder = mst_slice_text(folders[kind]);

        if (mst_slice_starts_with(below, folder)) {
            struct mst_slice name = mst_slice_from(below, folder.size);

            out->kind = (enum mst_preempt_key)kind;
            return (kind == MST_PREEMPT_KEY_NOTICE
                        ? index_read(name, &out->index)
                        : numbers_read(name, &out->generation, &out->k)) &&
                   canonical(key, out);
        }
    }
    return false;
}

size_t mst_notice_key(char *at, size_t room, uint32_t index)
{
    struct mst_preempt_name name = {.kind = MST_PREEMPT_KEY_NOTICE, .index = index};

    return mst_preempt_name_write(at, room, &name);
}

bool mst_notice_key_read(struct mst_slice key, uint32_t *index)
{
    struct mst_preempt_name name;

    if (!mst_preempt_name_read(key, &name) || name.kind != MST_PREEMPT_KEY_NOTICE) {
        return false;
    }
    *index = name.index;
    return true;
}

/* ---- verdicts and facts ---- */

const char *mst_verdict_word(enum mst_verdict verdict)
{
    return verdicts[verdict];
}

enum mst_verdict mst_verdict_read(struct mst_slice value)
{
    size_t verdict = mst_slice_among(value, verdicts, VERDICTS);

    if (verdict < VERDICTS) {
        return (enum mst_verdict)verdict;
    }
    return mst_verdict_step(value) >= 0 ? MST_VERDICT_AGAIN : MST_VERDICT_NONE;
}

int64_t mst_verdict_step(struct mst_slice value)
{
    struct mst_slice again = mst_slice_text("again ");
    int64_t step;

    if (!mst_slice_starts_with(value, again) ||
        !mst_line_signed(mst_slice_from(value, again.size), &step)) {
        return -1;
    }
    return step;
}

size_t mst_preempt_fact_write(char *at, size_t room, enum mst_preempt_key kind,
                              const struct mst_preempt_fact *fact)
{
    MST_ASSERT(room >= MST_PREEMPT_FACT_ROOM);
    if (kind == MST_PREEMPT_KEY_COMPLETE) {
        return mst_text_print(at, room, "step=%" PRId64 " of=%u covered=%" PRIu64 " leave=%s",
                              fact->step, fact->of, fact->covered,
                              fact->leave_all ? "all" : "noticed");
    }
    if (kind == MST_PREEMPT_KEY_FAILED) {
        return mst_text_print(at, room, "step=%" PRId64 " covered=%" PRIu64 " status=%d",
                              fact->step, fact->covered, fact->status);
    }
    return mst_text_print(at, room, "step=%" PRId64 " covered=%" PRIu64, fact->step, fact->covered);
}

static bool fact_word(const struct mst_line_word *word, struct mst_preempt_fact *out)
{
    uint64_t number;
    int64_t status;

    if (mst_slice_is(word->name, "step")) {
        return mst_line_signed(word->value, &out->step);
    }
    if (mst_slice_is(word->name, "covered")) {
        return mst_slice_number(word->value, UINT64_MAX, &out->covered);
    }
    if (mst_slice_is(word->name, "of")) {
        if (!mst_slice_number(word->value, UINT32_MAX, &number)) {
            return false;
        }
        out->of = (uint32_t)number;
    } else if (mst_slice_is(word->name, "leave")) {
        out->leave_all = mst_slice_is(word->value, "all");
        return out->leave_all || mst_slice_is(word->value, "noticed");
    } else if (mst_slice_is(word->name, "status")) {
        if (!mst_line_signed(word->value, &status) || status > INT32_MAX || status < INT32_MIN) {
            return false;
        }
        out->status = (int32_t)status;
    }
    return true;
}

bool mst_preempt_fact_read(struct mst_slice value, struct mst_preempt_fact *out)
{
    struct mst_line_word word;

    *out = (struct mst_preempt_fact){.step = -1};
    if (!mst_line_printable(value)) {
        return false;
    }
    while (value.size > 0) {
        if (!mst_line_take(&value, &word, "reason") || !fact_word(&word, out)) {
            return false;
        }
    }
    return out->step >= 0;
}
