/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/words.h"

const char *mst_role_word(enum mst_role role)
{
    switch (role) {
    case MST_ROLE_OBSERVER:
        return "observer";
    case MST_ROLE_RANK:
        return "rank";
    case MST_ROLE_WORKER:
        return "worker";
    case MST_ROLE_AGENT:
        return "agent";
    }
    return "?";
}

const char *mst_state_word(enum mst_state state)
{
    switch (state) {
    case MST_JOINING:
        return "joining";
    case MST_PRESENT:
        return "present";
    case MST_SILENT:
        return "silent";
    case MST_STATE_LOST:
        return "lost";
    case MST_LEFT:
        return "left";
    case MST_ABSENT:
        return "absent";
    case MST_SPARE:
        return "spare";
    }
    return "?";
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
    return (size_t)cause < sizeof(causes) / sizeof(causes[0]) ? causes[cause].word : "?";
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
