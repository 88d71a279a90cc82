/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "view/told.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "view/kept.h"
#include "view/told_page_css.h"

#define LINE_ROOM 2048
#define WIDTH 1000.0 /* of the drawing, in its own unit */
#define BAR_TOP 22
#define BAR_HIGH 24

/* ---- text in HTML ---- */

static void put_text(FILE *out, const char *text)
{
    for (; *text; text++) {
        switch (*text) {
        case '<':
            (void)fputs("&lt;", out);
            break;
        case '>':
            (void)fputs("&gt;", out);
            break;
        case '&':
            (void)fputs("&amp;", out);
            break;
        case '"':
            (void)fputs("&quot;", out);
            break;
        default:
            (void)fputc(*text, out);
        }
    }
}

/* Of a rank: a character that a reader does not see is written out. */
static void put_strange(FILE *out, const char *bytes)
{
    char line[LINE_ROOM];
    struct mst_text text = mst_text_in(line, sizeof line);

    mst_text_format(&text, "%.*s", MST_TEXT_ARGS(bytes));
    put_text(out, line);
}

static void put_sentence(FILE *out, const struct mst_item *incident)
{
    char line[LINE_ROOM];
    struct mst_text text = mst_text_in(line, sizeof line);

    mst_story_sentence(&text, incident);
    put_text(out, line);
}

static void put_moment(FILE *out, uint64_t ms)
{
    char line[64];
    struct mst_text text = mst_text_in(line, sizeof line);

    mst_told_moment(&text, ms);
    (void)fputs(line + strspn(line, " "), out);
}

/* ---- parts ---- */

/* A class of the style, by what it means for the job. */
static const char *tone(const struct mst_item *incident)
{
    switch (incident->incident) {
    case MST_INCIDENT_LOST:
    case MST_INCIDENT_NODE:
    case MST_INCIDENT_FAULT:
    case MST_INCIDENT_GROUP:
        return "bad";
    case MST_INCIDENT_TOO_FEW:
    case MST_INCIDENT_NOTICE:
    case MST_INCIDENT_SERVICE:
    case MST_INCIDENT_STRAGGLER:
        return "note";
    case MST_INCIDENT_SAVED:
        return "good";
    case MST_INCIDENT_SEALED:
        return "info";
    }
    return "info";
}

static void put_line(FILE *out, const char *before, const char *line)
{
    if (*line) {
        (void)fprintf(out, "<p>%s", before);
        put_text(out, line);
        (void)fputs("</p>\n", out);
    }
}

static void put_head(FILE *out, const struct mst_told *told, const struct mst_story *story)
{
    char line[LINE_ROOM];
    struct mst_text text = mst_text_in(line, sizeof line);
    struct mst_kept_times times;

    (void)fputs("<header>\n<h1>job ", out);
    put_strange(out, told->job);
    (void)fputs("</h1>\n", out);
    mst_told_verdict(&text, told, story);
    put_line(out, "", line);
    text = mst_text_in(line, sizeof line);
    mst_told_ending(&text, told);
    put_line(out, "", line);
    text = mst_text_in(line, sizeof line);
    mst_told_advice(&text, told);
    put_line(out, "<b>What to do:</b> ", line);
    if (told->run) {
        const char *host = json_string_value(json_object_get(told->run, "host"));

        mst_kept_times(told->run, &times);
        text = mst_text_in(line, sizeof line);
        mst_text_add(&text, "begun ");
        mst_told_date(&text, times.began_ms);
        mst_text_format(&text, " on %.*s", MST_TEXT_ARGS(host ? host : "an unknown host"));
        put_line(out, "", line);
    }
    (void)fputs("</header>\n", out);
}

static double across(uint64_t ms, const struct mst_story *story)
{
    return story->age_ms > 0 ? WIDTH * (double)ms / (double)story->age_ms : 0.0;
}

static void put_gaps(FILE *out, const struct mst_told *told, const struct mst_story *story)
{
    struct mst_story_walk walk = {0};
    struct mst_story_gap gap;

    while (mst_story_gap(story, &told->history, &walk, &gap)) {
        double from = across(gap.from_ms, story), wide = across(gap.to_ms, story) - from;

        (void)fprintf(
            out, "<rect class=\"%s\" x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\"><title>",
            gap.idle ? "idle" : "fewer", from, BAR_TOP, wide > 1.0 ? wide : 1.0, BAR_HIGH);
        (void)fprintf(out, "%s for %" PRIu64 " ms, from ",
                      gap.idle ? "no generation" : "fewer ranks", gap.to_ms - gap.from_ms);
        put_moment(out, gap.from_ms);
        (void)fputs("</title></rect>\n", out);
    }
}

static void put_drawing(FILE *out, const struct mst_told *told, const struct mst_story *story)
{
    (void)fprintf(
        out,
        "<section>\n<h2>Timeline</h2>\n<svg viewBox=\"0 0 %d 64\" "
        "preserveAspectRatio=\"none\" role=\"img\" aria-label=\"the incidents of the table "
        "over time\">\n<rect class=\"base\" x=\"0\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n",
        (int)WIDTH, BAR_TOP, (int)WIDTH, BAR_HIGH);
    put_gaps(out, told, story);
    for (size_t i = 0; i < told->history.count; i++) {
        const struct mst_item *incident = &told->history.items[i];
        double x = across(mst_story_moment_ms(story, incident), story);

        (void)fprintf(out, "<line class=\"%s\" x1=\"%.2f\" x2=\"%.2f\" y1=\"%d\" y2=\"%d\"><title>",
                      tone(incident), x, x, BAR_TOP - 14, BAR_TOP + BAR_HIGH + 8);
        put_moment(out, mst_story_moment_ms(story, incident));
        (void)fputs(" ", out);
        put_sentence(out, incident);
        (void)fputs("</title></line>\n", out);
    }
    (void)fputs("</svg>\n<p class=\"dim\">0 to ", out);
    put_moment(out, story->age_ms);
    (void)fputs(", hours, minutes and seconds since the first incident. Red: no generation; light "
                "red: fewer ranks than before.</p>\n</section>\n",
                out);
}

static void put_table(FILE *out, const struct mst_told *told, const struct mst_story *story)
{
    (void)fputs("<section>\n<h2>Incidents</h2>\n<table>\n<thead><tr><th>since the first</th>"
                "<th>what</th><th>told</th></tr></thead>\n<tbody>\n",
                out);
    for (size_t i = 0; i < told->history.count; i++) {
        const struct mst_item *incident = &told->history.items[i];

        (void)fputs("<tr><td class=\"when\">", out);
        put_moment(out, mst_story_moment_ms(story, incident));
        (void)fprintf(out, "</td><td class=\"%s\">%s</td><td>", tone(incident),
                      mst_story_word(incident));
        put_sentence(out, incident);
        (void)fputs("</td></tr>\n", out);
    }
    (void)fputs("</tbody>\n</table>\n</section>\n", out);
}

/* What the first cause wrote last. */
static void put_last_words(FILE *out, const struct mst_told *told)
{
    const json_t *cause = json_object_get(json_object_get(told->run, "report"), "first_cause");
    const json_t *lines = json_object_get(cause, "stderr");

    if (json_array_size(lines) == 0) {
        return;
    }
    (void)fputs("<section>\n<h2>Last words of the first cause</h2>\n<pre>", out);
    for (size_t i = 0; i < json_array_size(lines); i++) {
        const char *line = json_string_value(json_array_get(lines, i));

        put_strange(out, line ? line : "");
        (void)fputs("\n", out);
    }
    (void)fputs("</pre>\n</section>\n", out);
}

/* For a program: as muster why --json prints it. No '<' of a text may end the element. */
static bool put_data(FILE *out, const struct mst_told *told)
{
    char *line = mst_told_json(told);

    if (!line) {
        return false;
    }
    (void)fputs("<script type=\"application/json\" id=\"data\">", out);
    for (const char *at = line; *at && *at != '\n'; at++) {
        if (*at == '<') {
            (void)fputs("\\u003c", out);
        } else {
            (void)fputc(*at, out);
        }
    }
    (void)fputs("</script>\n", out);
    free(line);
    return true;
}

/* ---- the page ---- */

static bool put_page(FILE *out, const struct mst_told *told)
{
    struct mst_story story;
    bool good;

    mst_story_of(&told->history, &story);
    (void)fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                "style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n"
                "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                "<title>muster: job ",
                out);
    put_strange(out, told->job);
    (void)fputs("</title>\n<style>\n", out);
    (void)fwrite(mst_told_page_css, 1, sizeof mst_told_page_css, out);
    (void)fputs("</style>\n</head>\n<body>\n", out);
    put_head(out, told, &story);
    (void)fputs("<main>\n", out);
    if (told->history.count > 0) {
        put_drawing(out, told, &story);
        put_table(out, told, &story);
    }
    put_last_words(out, told);
    (void)fputs("</main>\n", out);
    good = put_data(out, told);
    (void)fputs("</body>\n</html>\n", out);
    return good && !ferror(out);
}

char *mst_told_page(const struct mst_told *told)
{
    char *whole = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&whole, &size);
    bool good = out && put_page(out, told);

    if (out) {
        good = fclose(out) == 0 && good;
    }
    if (!good) {
        free(whole);
        return NULL;
    }
    return whole;
}
