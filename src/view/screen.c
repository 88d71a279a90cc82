/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "view/screen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/words.h"
#include "view/span.h"
#include "view/story.h"
#include "view/table.h"
#include "view/verdict.h"

enum { LINE_ROOM = 1024, BAR_LINES = 4, HEAD_LINES = 1, VERDICT_LINES = 2 };

#define PLAIN "\033[0m"
#define BOLD "\033[1m"
#define REVERSED "\033[7m"
#define RED "\033[31m"
#define GREEN "\033[32m"
#define YELLOW "\033[33m"

/* A screen while it is drawn. */
struct canvas {
    const struct mst_top_screen *screen;
    FILE *out;
    uint32_t used; /* lines */
};

/* ---- lines ---- */

/* As many bytes of it as are `columns` characters. */
static size_t cut(struct mst_slice words, size_t columns)
{
    const unsigned char *bytes = words.data;
    size_t at = 0;

    while (at < words.size && columns > 0) {
        at++;
        while (at < words.size && (bytes[at] & 0xc0) == 0x80) {
            at++;
        }
        columns--;
    }
    return at;
}

/* What is shown was escaped before. */
static void put_line(struct canvas *canvas, const char *colour, const char *words)
{
    const struct mst_top_screen *screen = canvas->screen;
    bool coloured = screen->coloured && *colour != '\0';
    size_t size = cut(mst_slice_text(words), screen->columns);

    if (canvas->used >= screen->rows) {
        return;
    }
    (void)fprintf(canvas->out, "%s%s%.*s%s\033[K", canvas->used > 0 ? "\r\n" : "",
                  coloured ? colour : "", (int)size, words, coloured ? PLAIN : "");
    canvas->used++;
}

/* In lines of the screen's width, between words where there is a blank; at most so many. */
static void put_lines(struct canvas *canvas, const char *colour, const char *words, uint32_t most)
{
    for (uint32_t i = 0; i < most && (*words || i == 0); i++) {
        size_t size = cut(mst_slice_text(words), canvas->screen->columns);
        char line[LINE_ROOM] = "";

        if (words[size] != '\0' && i + 1 < most) {
            size_t blank = size;

            while (blank > size / 2 && words[blank] != ' ') {
                blank--;
            }
            size = words[blank] == ' ' ? blank : size;
        }
        size = size < sizeof line - 1 ? size : sizeof line - 1;
        memcpy(line, words, size);
        line[size] = '\0';
        put_line(canvas, colour, line);
        words += size;
        words += *words == ' ';
    }
}

/* ---- the head ---- */

static const char *colour_of(enum mst_job_verdict_level level)
{
    return level == MST_JOB_GOOD ? BOLD GREEN : level == MST_JOB_NOTE ? BOLD YELLOW : BOLD RED;
}

/* A part of the head, if all of it has room there: half a number is another number. */
static void add_part(struct canvas *canvas, struct mst_text *text, const char *part)
{
    size_t size = strlen(part);

    if (text->size == 0 || text->size + size <= canvas->screen->columns) {
        mst_text_add(text, part);
    }
}

static void add_cost(struct canvas *canvas, struct mst_text *text, const struct mst_status *status,
                     const struct mst_item *job)
{
    struct mst_story story;
    char words[64];
    struct mst_text part = mst_text_in(words, sizeof words);

    mst_text_format(&part, "  %" PRIu32 " restart%s", job->total, job->total == 1 ? "" : "s");
    add_part(canvas, text, words);
    mst_story_of(&status->history, &story);
    part = mst_text_in(words, sizeof words);
    mst_text_add(&part, ", lost ");
    mst_span(&part, story.away_ms);
    add_part(canvas, text, words);
}

static void put_head(struct canvas *canvas, const struct mst_status *status)
{
    const struct mst_item *job = mst_status_job(status);
    uint32_t rate = mst_status_rate(status);
    char line[LINE_ROOM] = "", words[64] = "";
    struct mst_text text = mst_text_in(line, sizeof line), part = mst_text_in(words, sizeof words);

    mst_text_format(&text, "job %.*s", MST_TEXT_ARGS(status->job));
    if (job && job->number > 0) {
        mst_text_format(&part, "  generation %" PRIu64, job->number);
    }
    if (job && job->since_ms > 0) {
        mst_text_add(&part, " for ");
        mst_span(&part, job->since_ms - 1);
    }
    add_part(canvas, &text, words);
    if (job) {
        part = mst_text_in(words, sizeof words);
        mst_text_format(&part, "  %" PRIu32 " of %" PRIu32 " here", job->arrived, job->expected);
        add_part(canvas, &text, words);
    }
    if (rate > 0) {
        part = mst_text_in(words, sizeof words);
        mst_text_format(&part, "  %" PRIu32 ".%02" PRIu32 " steps/s", rate / 1000,
                        rate % 1000 / 10);
        add_part(canvas, &text, words);
    }
    if (job && job->total > 0) {
        add_cost(canvas, &text, status, job);
    }
    put_line(canvas, REVERSED, line);
}

static void put_verdict(struct canvas *canvas, const struct mst_job_verdict *verdict)
{
    const struct mst_top_screen *screen = canvas->screen;
    char line[LINE_ROOM] = "";
    struct mst_text text = mst_text_in(line, sizeof line);

    if (!screen->trouble) {
        put_lines(canvas, colour_of(verdict->level), verdict->sentence, VERDICT_LINES);
        return;
    }
    mst_text_add(&text, "the service was last seen ");
    mst_span(&text, screen->stale_ms);
    mst_text_format(&text, " ago: %.*s", MST_TEXT_ARGS(screen->trouble));
    put_lines(canvas, BOLD RED, line, VERDICT_LINES);
}

/* ---- the bar: a character for each rank, by host ---- */

static char mark_of(const struct mst_item *member, enum mst_unusual unusual)
{
    switch (member->who.state) {
    case MST_STATE_LOST:
        return 'x';
    case MST_SILENT:
        return '!';
    case MST_LEFT:
    case MST_ABSENT:
        return '-';
    case MST_JOINING:
        return '+';
    case MST_SPARE:
        return 's';
    case MST_PRESENT:
        break;
    }
    if (unusual >= MST_UNUSUAL_ABSENT) {
        return '?';
    }
    if (unusual == MST_UNUSUAL_STRAGGLER) {
        return '<';
    }
    return (char)(member->name.size > 0 ? '.' : '#');
}

static void put_bar(struct canvas *canvas, const struct mst_status *status,
                    const struct mst_job_verdict *verdict)
{
    uint32_t last = canvas->used + BAR_LINES;
    struct mst_slice host = mst_slice_of(NULL, 0);
    char line[LINE_ROOM] = "";
    struct mst_text text = mst_text_in(line, sizeof line);
    struct mst_top_table table;

    mst_top_table_make(&table, status, verdict, MST_SORT_HOST, "");
    for (size_t i = 0; i < table.count && canvas->used < last; i++) {
        const struct mst_item *member = table.rows[i].member;
        uint32_t ahead = 1;

        if (!member || member->who.role == MST_ROLE_AGENT) {
            continue;
        }
        if (i == 0 || !mst_slice_equal(member->who.host, host)) {
            while (i + ahead < table.count && table.rows[i + ahead].member &&
                   mst_slice_equal(table.rows[i + ahead].member->who.host, member->who.host)) {
                ahead++;
            }
            if (text.size > 0 &&
                text.size + member->who.host.size + ahead + 2 > canvas->screen->columns) {
                put_line(canvas, "", line);
                text = mst_text_in(line, sizeof line);
            }
            host = member->who.host;
            mst_text_format(&text, "%s%.*s ", text.size > 0 ? " " : "", MST_SLICE_ARGS(host));
        } else if (text.size >= canvas->screen->columns) {
            put_line(canvas, "", line);
            text = mst_text_in(line, sizeof line);
        }
        mst_text_format(&text, "%c", mark_of(member, table.rows[i].unusual));
    }
    if (text.size > 0 && canvas->used < last) {
        put_line(canvas, "", line);
    }
    mst_top_table_free(&table);
}

/* ---- the table ---- */

/* In `width` columns: cut, or with blanks behind it. */
static void put_cell(struct mst_text *text, size_t width, struct mst_slice words)
{
    char cell[256] = "";
    struct mst_text escaped = mst_text_in(cell, sizeof cell);
    size_t size, columns = 0;

    mst_text_slice(&escaped, words);
    size = cut(mst_slice_text(cell), width);
    for (size_t i = 0; i < size; i++) {
        columns += (cell[i] & 0xc0) != 0x80;
    }
    cell[size] = '\0';
    mst_text_add(text, cell);
    for (; columns < width + 1; columns++) {
        mst_text_add(text, " ");
    }
}

/* Never cut. */
static void put_number(struct mst_text *text, size_t width, int64_t number)
{
    char cell[32] = "";
    struct mst_text words = mst_text_in(cell, sizeof cell);

    mst_text_format(&words, "%" PRId64, number);
    put_cell(text, words.size > width ? words.size : width, mst_slice_text(cell));
}

static void put_progress(struct mst_text *text, const struct mst_item *member)
{
    const struct mst_rank_progress *progress = &member->progress;

    if (member->has_progress && progress->stepped) {
        put_number(text, 8, progress->step);
        put_number(text, 6, progress->behind);
    } else {
        put_cell(text, 15, mst_slice_text(""));
    }
}

static void put_row(struct canvas *canvas, const struct mst_top_row *row, bool chosen)
{
    const struct mst_item *member = row->member;
    char line[LINE_ROOM] = "", cell[64] = "";
    struct mst_text text = mst_text_in(line, sizeof line), part = mst_text_in(cell, sizeof cell);

    mst_text_add(&text, chosen ? ">" : " ");
    mst_top_row_name(&part, row);
    put_cell(&text, 16, mst_slice_text(cell));
    put_cell(&text, 10, mst_slice_text(mst_top_row_state(row)));
    part = mst_text_in(cell, sizeof cell);
    if (member && member->since_ms > 0) {
        mst_span(&part, member->since_ms - 1);
    }
    put_cell(&text, 8, mst_slice_text(cell));
    if (member) {
        put_cell(&text, 12, member->who.host);
        put_progress(&text, member);
        put_number(&text, 4, member->who.losses);
        mst_text_slice(&text, member->name.size > 0 ? member->name : member->value);
    }
    put_line(canvas,
             row->unusual >= MST_UNUSUAL_SILENT ? RED
             : row->unusual != MST_ORDINARY     ? YELLOW
                                                : "",
             line);
}

static void put_table(struct canvas *canvas, struct mst_top_screen *screen,
                      const struct mst_top_table *table)
{
    uint32_t room = screen->rows > canvas->used + 2 ? screen->rows - canvas->used - 2 : 1;

    if (screen->chosen >= table->count) {
        screen->chosen = table->count > 0 ? (uint32_t)table->count - 1 : 0;
    }
    if (screen->first > screen->chosen) {
        screen->first = screen->chosen;
    }
    if (screen->chosen >= screen->first + room) {
        screen->first = screen->chosen - room + 1;
    }
    put_line(
        canvas, REVERSED,
        " RANK             STATE      SINCE    NODE         STEP     BEHIND LOST WAITS AT, OR LAST "
        "WORDS                                                                           ");
    for (uint32_t i = 0; i < room && screen->first + i < table->count; i++) {
        put_row(canvas, &table->rows[screen->first + i], screen->first + i == screen->chosen);
    }
    if (table->count == 0) {
        put_line(canvas, "", table->all > 0 ? " nothing passes the filter" : " no member yet");
    }
}

/* ---- one of them ---- */

static bool is_of(const struct mst_item *incident, const struct mst_top_row *row)
{
    enum mst_role role = row->member ? row->member->who.role : MST_ROLE_RANK;

    return incident->who.index == row->index &&
           (incident->incident == MST_INCIDENT_LOST || incident->incident == MST_INCIDENT_FAULT) &&
           incident->who.role == role;
}

static void put_incidents(struct canvas *canvas, const struct mst_status *status,
                          const struct mst_top_row *row)
{
    for (size_t i = status->history.count; i > 0; i--) {
        const struct mst_item *incident = &status->history.items[i - 1];
        char line[LINE_ROOM];
        struct mst_text text = mst_text_in(line, sizeof line);

        if (is_of(incident, row)) {
            mst_span(&text, incident->who.heard_ms);
            mst_text_add(&text, " ago: ");
            mst_story_sentence(&text, incident);
            put_lines(canvas, "", line, 3);
        }
    }
}

static void put_steps(struct canvas *canvas, const struct mst_item *member)
{
    const struct mst_rank_progress *progress = &member->progress;
    char line[LINE_ROOM] = "";
    struct mst_text text = mst_text_in(line, sizeof line);

    if (!member->has_progress || !progress->stepped) {
        return;
    }
    mst_text_format(
        &text, "step %" PRId64 ", %" PRIu32 " behind the median, %" PRIu32 ".%02" PRIu32 " steps/s",
        progress->step, progress->behind, progress->rate / 1000, progress->rate % 1000 / 10);
    if (progress->straggler) {
        mst_text_add(&text, ", straggler: ");
        mst_straggler_phrase(&text, progress);
    }
    put_lines(canvas, "", line, 2);
}

static void put_opened(struct canvas *canvas, const struct mst_status *status,
                       const struct mst_top_row *row)
{
    const struct mst_item *member = row->member;
    char line[LINE_ROOM] = "";
    struct mst_text text = mst_text_in(line, sizeof line);

    mst_top_row_name(&text, row);
    mst_text_format(&text, ": %s", mst_top_row_state(row));
    if (member && member->since_ms > 0) {
        mst_text_add(&text, " for ");
        mst_span(&text, member->since_ms - 1);
    }
    put_line(canvas, BOLD, line);
    if (!member) {
        return;
    }
    text = mst_text_in(line, sizeof line);
    mst_text_format(&text, "node %.*s, pid %" PRIu64 ", incarnation %" PRIu64 ", last heard ",
                    MST_SLICE_ARGS(member->who.host), member->who.pid, member->who.incarnation);
    mst_span(&text, member->who.heard_ms);
    mst_text_format(&text, " ago, lost %" PRIu32 " time%s", member->who.losses,
                    member->who.losses == 1 ? "" : "s");
    put_lines(canvas, "", line, 2);
    put_steps(canvas, member);
    text = mst_text_in(line, sizeof line);
    if (member->name.size > 0) {
        mst_text_format(&text, "waits at '%.*s' %" PRIu64, MST_SLICE_ARGS(member->name),
                        member->number);
        put_line(canvas, "", line);
    }
    text = mst_text_in(line, sizeof line);
    if (member->value.size > 0) {
        mst_text_format(&text, "last words: %.*s", MST_SLICE_ARGS(member->value));
        put_lines(canvas, "", line, 4);
    }
    put_incidents(canvas, status, row);
}

/* ---- the last line, and help ---- */

static void put_help(struct canvas *canvas)
{
    static const char *const lines[] = {
        "up, down, page up, page down, home, end   move",
        "enter   open one member: its node, process, losses and last words",
        "s       sort by: what is wrong, index, host, state, latest change",
        "/       show only what has these letters in its name, state, node or round",
        "escape  close, or forget the filter",
        "q       quit",
        "",
        "The bar has a character for each rank: # runs, . waits in a round, ? is waited for,",
        "< is a straggler, ! is silent, x is lost, - has left, + joins, s is a spare."};

    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        put_lines(canvas, "", lines[i], 2);
    }
}

static void put_foot(struct canvas *canvas, const struct mst_top_table *table)
{
    static const char *const sorts[] = {[MST_SORT_WORST] = "what is wrong",
                                        [MST_SORT_INDEX] = "index",
                                        [MST_SORT_HOST] = "host",
                                        [MST_SORT_STATE] = "state",
                                        [MST_SORT_SINCE] = "latest change"};
    const struct mst_top_screen *screen = canvas->screen;
    char line[LINE_ROOM] = "";
    struct mst_text text = mst_text_in(line, sizeof line);

    while (canvas->used + 1 < screen->rows) {
        put_line(canvas, "", "");
    }
    if (screen->typing) {
        mst_text_format(&text, "filter: %.*s_", MST_TEXT_ARGS(screen->filter));
    } else {
        mst_text_format(&text, "q quit  s sort: %s  enter open  h help  / filter",
                        sorts[screen->sort]);
        if (screen->filter[0] != '\0') {
            mst_text_format(&text, ": %.*s (%" PRIu64 " of %" PRIu64 ")",
                            MST_TEXT_ARGS(screen->filter), (uint64_t)table->count,
                            (uint64_t)table->all);
        }
    }
    put_line(canvas, REVERSED, line);
}

char *mst_top_screen_draw(struct mst_top_screen *screen, const struct mst_status *status)
{
    char *drawn = NULL;
    size_t size = 0;
    struct canvas canvas = {.screen = screen, .out = open_memstream(&drawn, &size)};
    struct mst_job_verdict verdict;
    struct mst_top_table table;

    if (!canvas.out) {
        return NULL;
    }
    mst_job_verdict_of(status, &verdict);
    mst_top_table_make(&table, status, &verdict, screen->sort, screen->filter);
    put_head(&canvas, status);
    put_verdict(&canvas, &verdict);
    if (screen->help) {
        put_help(&canvas);
    } else if (screen->opened && screen->chosen < table.count) {
        put_opened(&canvas, status, &table.rows[screen->chosen]);
    } else {
        put_bar(&canvas, status, &verdict);
        put_table(&canvas, screen, &table);
    }
    put_foot(&canvas, &table);
    mst_top_table_free(&table);
    if (fclose(canvas.out) != 0 || table.failed) {
        free(drawn);
        return NULL;
    }
    return drawn;
}

/* ---- keys ---- */

static void type(struct mst_top_screen *screen, int key)
{
    size_t size = strlen(screen->filter);

    if (key == MST_KEY_ENTER || key == MST_KEY_ESCAPE) {
        screen->typing = false;
        screen->filter[key == MST_KEY_ESCAPE ? 0 : size] = '\0';
    } else if (key == MST_KEY_ERASE && size > 0) {
        screen->filter[size - 1] = '\0';
    } else if (key >= ' ' && key <= '~' && size + 1 < sizeof screen->filter) {
        screen->filter[size] = (char)key;
        screen->filter[size + 1] = '\0';
    }
    screen->chosen = 0;
}

static void move(struct mst_top_screen *screen, int key)
{
    uint32_t page = screen->rows > 10 ? screen->rows - 10 : 1, at = screen->chosen;

    switch (key) {
    case MST_KEY_UP:
        screen->chosen = at > 0 ? at - 1 : 0;
        break;
    case MST_KEY_PAGE_UP:
        screen->chosen = at > page ? at - page : 0;
        break;
    case MST_KEY_DOWN:
        screen->chosen = at + 1;
        break;
    case MST_KEY_PAGE_DOWN:
        screen->chosen = at + page;
        break;
    case MST_KEY_HOME:
        screen->chosen = 0;
        break;
    case MST_KEY_END:
        screen->chosen = UINT32_MAX / 2; /* drawing knows where that is */
        break;
    default:
        break;
    }
}

bool mst_top_screen_press(struct mst_top_screen *screen, int key)
{
    if (screen->typing) {
        type(screen, key);
        return true;
    }
    switch (key) {
    case 'q':
        return false;
    case 's':
        screen->sort = (screen->sort + 1) % MST_SORTS;
        screen->chosen = 0;
        break;
    case 'h':
    case '?':
        screen->help = !screen->help;
        break;
    case '/':
        screen->typing = true;
        break;
    case MST_KEY_ENTER:
        screen->opened = !screen->opened;
        break;
    case MST_KEY_ESCAPE:
        if (screen->help || screen->opened) {
            screen->help = screen->opened = false;
        } else {
            screen->filter[0] = '\0';
        }
        break;
    default:
        move(screen, key);
        break;
    }
    return true;
}
