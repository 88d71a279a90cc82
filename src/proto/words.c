/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/words.h"

static const char *word_of(const char *const *words, size_t count, size_t number)
{
    return number < count && words[number] ? words[number] : "?";
}

#define WORD(words, number) word_of(words, sizeof(words) / sizeof((words)[0]), (size_t)(number))

const char *mst_role_word(enum mst_role role)
{
    static const char *const words[] = {[MST_ROLE_OBSERVER] = "observer",
                                        [MST_ROLE_RANK] = "rank",
                                        [MST_ROLE_WORKER] = "worker",
                                        [MST_ROLE_AGENT] = "agent"};

    return WORD(words, role);
}

const char *mst_state_word(enum mst_state state)
{
    static const char *const words[] = {
        [MST_JOINING] = "joining", [MST_PRESENT] = "present", [MST_SILENT] = "silent",
        [MST_STATE_LOST] = "lost", [MST_LEFT] = "left",       [MST_ABSENT] = "absent",
        [MST_SPARE] = "spare"};

    return WORD(words, state);
}

const char *mst_work_word(enum mst_work work)
{
    static const char *const words[] = {[MST_WORK_NONE] = "none",
                                        [MST_WORK_SECTIONS] = "sections",
                                        [MST_WORK_WAITS] = "waits",
                                        [MST_WORK_CPU] = "cpu"};

    return WORD(words, work);
}

/* ---- causes ---- */

enum shown { HIDDEN, SET, ALWAYS };

static const struct cause {
    const char *word, *verb, *words, *code;
    enum shown shown;
} causes[] = {
#define X(NAME, number, word, verb, words, code, shown) [number] = {word, verb, words, code, shown},
#include "proto/cause.def"
#undef X
};

const char *mst_cause_word(enum mst_cause cause)
{
    return (size_t)cause < MST_CAUSES ? causes[cause].word : "?";
}

enum mst_cause mst_cause_named(const char *word)
{
    struct mst_slice wanted = mst_slice_text(word ? word : "");

    for (size_t i = 0; i < MST_CAUSES; i++) {
        if (mst_slice_equal(mst_slice_text(causes[i].word), wanted)) {
            return (enum mst_cause)i;
        }
    }
    return MST_CAUSE_NONE;
}

static void add_code(struct mst_text *text, const struct mst_caused *ending)
{
    const struct cause *row = &causes[ending->cause];
    bool signal = ending->cause == MST_CAUSE_SIGNAL || ending->cause == MST_CAUSE_HARD_TIMEOUT;

    if (row->shown == HIDDEN || (row->shown == SET && ending->code == 0)) {
        return;
    }
    mst_text_format(text, "%s%" PRId64, row->code, ending->code);
    if (signal && ending->signal) {
        mst_text_format(text, " (%s)", ending->signal);
    }
}

void mst_cause_phrase(struct mst_text *text, const struct mst_caused *ending)
{
    mst_text_add(text, causes[ending->cause].words);
    add_code(text, ending);
}

void mst_cause_sentence(struct mst_text *text, const struct mst_caused *ending)
{
    bool hangs = ending->cause == MST_CAUSE_SOFT_TIMEOUT || ending->cause == MST_CAUSE_HARD_TIMEOUT;
    bool says = ending->text.size > 0 && ending->cause != MST_CAUSE_AGAIN;

    mst_text_add(text, causes[ending->cause].verb);
    if (hangs && says) {
        mst_text_slice(text, ending->text);
        add_code(text, ending);
        return;
    }
    mst_cause_phrase(text, ending);
    if (says) {
        mst_text_format(text, ": %.*s", MST_SLICE_ARGS(ending->text));
    }
}
