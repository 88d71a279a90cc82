/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/run_keys.h"

#include "base/text.h"

static const char *const states[] = {
    [MST_PEER_RUNS] = "runs", [MST_PEER_WAITS] = "waits", [MST_PEER_DONE] = "done"};

enum { STATES = sizeof states / sizeof states[0] };

/* ---- reading ---- */

bool mst_run_number_read(struct mst_slice text, uint32_t most, uint32_t *out)
{
    uint64_t number;

    if (!mst_slice_number(text, most, &number)) {
        return false;
    }
    *out = (uint32_t)number;
    return true;
}

static bool take_number(struct mst_slice *text, uint32_t most, uint32_t *out)
{
    return mst_run_number_read(mst_slice_cut(text, ' '), most, out);
}

bool mst_run_restarts_read(struct mst_slice value, uint32_t *used_out, uint32_t *most_out)
{
    return take_number(&value, UINT32_MAX, used_out) &&
           mst_run_number_read(value, UINT32_MAX, most_out) && *used_out <= *most_out;
}

/* "DONE RUNS GONE LIFE", the first three 0 or 1. */
static bool read_all(struct mst_slice value, struct mst_all *out)
{
    uint32_t done, runs, gone;

    if (!take_number(&value, 1, &done) || !take_number(&value, 1, &runs) ||
        !take_number(&value, 1, &gone) || !mst_run_number_read(value, UINT32_MAX, &out->life)) {
        return false;
    }
    out->done = done == 1;
    out->runs = runs == 1;
    out->ender_gone = gone == 1;
    return true;
}

/* "NODE SIGNAL". */
static bool read_end(struct mst_slice value, struct mst_run_word *out)
{
    uint32_t code;

    if (!take_number(&value, UINT32_MAX, &out->number) ||
        !mst_run_number_read(value, MST_RUN_SIGNAL_MAX, &code)) {
        return false;
    }
    out->code = (int)code;
    return true;
}

/* "CODE TEXT", and the report's part in the next line. */
static bool read_cause(struct mst_slice value, struct mst_run_word *out)
{
    struct mst_slice line = mst_slice_cut(&value, '\n');
    uint32_t code;

    if (!take_number(&line, MST_RUN_CODE_MAX, &code)) {
        return false;
    }
    out->code = (int)code;
    out->text = line;
    out->report = value;
    return true;
}

/* The number behind "finished/" and the like. */
static bool is_numbered(struct mst_slice name, const char *folder, uint32_t *number_out)
{
    struct mst_slice head = mst_slice_text(folder);

    return mst_slice_starts_with(name, head) &&
           mst_run_number_read(mst_slice_from(name, head.size), UINT32_MAX, number_out);
}

bool mst_run_key_read(struct mst_slice name, struct mst_slice value, struct mst_run_word *out)
{
    *out = (struct mst_run_word){.number = 0};
    if (mst_slice_is(name, "all")) {
        out->key = MST_RUN_KEY_ALL;
        return read_all(value, &out->all);
    }
    if (is_numbered(name, "finished/", &out->number)) {
        out->key = MST_RUN_KEY_FINISHED;
        return true;
    }
    if (is_numbered(name, "life/", &out->number)) {
        out->key = MST_RUN_KEY_LIFE;
        out->text = value;
        return true;
    }
    if (mst_slice_is(name, "restarts")) {
        out->key = MST_RUN_KEY_RESTARTS;
        return mst_run_number_read(value, UINT32_MAX, &out->number);
    }
    if (mst_slice_is(name, "master_port")) {
        out->key = MST_RUN_KEY_MASTER_PORT;
        return mst_run_number_read(value, UINT16_MAX, &out->number) && out->number != 0;
    }
    if (mst_slice_is(name, "end")) {
        out->key = MST_RUN_KEY_END;
        return read_end(value, out);
    }
    out->key = MST_RUN_KEY_CAUSE;
    return mst_slice_is(name, "cause") && read_cause(value, out);
}

bool mst_run_peer_read(struct mst_slice name, struct mst_slice value, struct mst_run_peer *out)
{
    size_t state = mst_slice_among(mst_slice_cut(&value, ' '), states, STATES);

    *out = (struct mst_run_peer){.state = (enum mst_peer_state)state};
    return state < STATES && mst_run_number_read(name, UINT32_MAX, &out->number) &&
           mst_run_number_read(value, UINT32_MAX, &out->life);
}

bool mst_run_waits_take(struct mst_slice *value, uint32_t most, struct mst_run_waits *out)
{
    while (value->size > 0) {
        struct mst_slice line = mst_slice_cut(value, '\n');
        struct mst_slice count = mst_slice_cut(&line, '\t');

        out->ranks = mst_slice_cut(&line, '\t');
        out->what = mst_slice_cut(&line, '\t');
        out->count = 0;
        out->silent = mst_slice_is(count, MST_WAITS_SILENT);
        if (out->silent || mst_run_number_read(count, most, &out->count)) {
            return true;
        }
    }
    return false;
}

bool mst_run_plain_take(struct mst_slice *value, struct mst_run_plain *out)
{
    struct mst_slice word = mst_slice_cut(value, ' ');
    struct mst_slice index = mst_slice_cut(&word, ':');

    *out = (struct mst_run_plain){.index = 0};
    if (mst_slice_starts_with(index, mst_slice_text("+"))) {
        return mst_run_number_read(mst_slice_from(index, 1), UINT32_MAX, &out->more) &&
               out->more != 0;
    }
    return mst_run_number_read(index, UINT32_MAX - 1, &out->index) &&
           mst_run_number_read(word, INT32_MAX, &out->pid);
}

bool mst_run_stopped_take(struct mst_slice *value, struct mst_run_stopped *out)
{
    struct mst_slice word = mst_slice_cut(value, ' ');
    struct mst_slice index = mst_slice_cut(&word, ':'), pid = mst_slice_cut(&word, ':');

    *out = (struct mst_run_stopped){.index = 0};
    return mst_run_number_read(index, UINT32_MAX - 1, &out->index) &&
           mst_run_number_read(pid, INT32_MAX, &out->pid) &&
           mst_slice_number(word, INT64_MAX, &out->for_ms);
}

bool mst_run_front_wait_take(struct mst_slice *value, struct mst_run_front_wait *out)
{
    struct mst_slice line = mst_slice_cut(value, '\n');
    struct mst_slice index = mst_slice_cut(&line, '\t'), pid = mst_slice_cut(&line, '\t');
    struct mst_slice age = mst_slice_cut(&line, '\t');

    *out = (struct mst_run_front_wait){.index = MST_RUN_NO_INDEX, .what = line};
    if (mst_slice_starts_with(index, mst_slice_text("+"))) {
        return mst_run_number_read(mst_slice_from(index, 1), UINT32_MAX, &out->more) &&
               out->more != 0;
    }
    return (index.size == 0 || mst_run_number_read(index, UINT32_MAX - 1, &out->index)) &&
           mst_run_number_read(pid, INT32_MAX, &out->pid) &&
           mst_slice_number(age, INT64_MAX, &out->for_ms) && line.size > 0;
}

/* ---- writing ---- */

void mst_run_all_write(char *room, const struct mst_all *all)
{
    mst_text_print(room, MST_RUN_VALUE_ROOM, "%s%s%s%u", all->done ? "1 " : "0 ",
                   all->runs ? "1 " : "0 ", all->ender_gone ? "1 " : "0 ", all->life);
}

void mst_run_end_write(char *room, uint32_t node, int number)
{
    mst_text_print(room, MST_RUN_VALUE_ROOM, "%u %d", node, number);
}

void mst_run_peer_write(char *room, enum mst_peer_state state, uint32_t life)
{
    mst_text_print(room, MST_RUN_VALUE_ROOM, "%s %u", states[state], life);
}
