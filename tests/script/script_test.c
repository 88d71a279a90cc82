/* SPDX-License-Identifier: Apache-2.0 */
/* Plays stories to the core. A story is a text: each line that begins at the left is a comment (#),
 * blank, or an input; the lines below it that begin with blanks are what the core narrated and
 * answered. The story is played, written down anew, and must come out as it was; it is played
 * twice, because the same inputs must give the same. */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare.h"
#include "stage.h"
#include "verbs.h"

static const char usage[] = "usage: script_test [--rewrite] STORY...\n"
                            "Plays each story and compares what the service says with what is "
                            "written below each line.\n"
                            "  --rewrite   write down what it says now; read the difference!\n";

/* ---- files ---- */

static char *read_all(const char *path)
{
    FILE *file = fopen(path, "re");
    char *text = NULL;
    size_t size = 0;
    size_t got = 1;

    if (!file) {
        perror(path);
        exit(2);
    }
    while (got > 0) {
        char *more = realloc(text, size + 4096 + 1);

        if (!more) {
            abort();
        }
        text = more;
        got = fread(text + size, 1, 4096, file);
        size += got;
    }
    (void)fclose(file);
    text[size] = '\0';
    return text;
}

static void write_all(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");

    if (!file || fputs(text, file) < 0 || fclose(file) != 0) {
        perror(path);
        exit(2);
    }
}

/* ---- a story ---- */

static void play_line(struct stage *stage, const char *path, size_t number, const char *line)
{
    if (line[0] == ' ') {
        return; /* what was said the last time */
    }
    (void)fprintf(stage->out, "%s\n", line);
    if (line[0] != '\0' && line[0] != '#') {
        verbs_perform(stage, path, number, line);
    }
}

/* The story with what is said now. The caller frees it. */
static char *play(const char *path, const char *story, uint64_t *digest_out)
{
    static struct stage stage;
    char *said = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&said, &size);
    size_t number = 1;

    if (!out) {
        abort();
    }
    stage_init(&stage, out);
    while (*story) {
        size_t length = strcspn(story, "\n");
        char *line = strndup(story, length);

        if (!line) {
            abort();
        }
        play_line(&stage, path, number++, line);
        free(line);
        story += length + (story[length] == '\n');
    }
    *digest_out = stage_fini(&stage);
    (void)fclose(out);
    return said;
}

static bool check(const char *path, bool rewrite)
{
    char *story = read_all(path);
    uint64_t digest;
    uint64_t again_digest;
    char *said = play(path, story, &digest);
    char *again = play(path, story, &again_digest);
    bool same = strcmp(story, said) == 0;

    if (strcmp(said, again) != 0 || digest != again_digest) {
        (void)printf("%s: the same inputs did not give the same (digests %016" PRIx64
                     " and %016" PRIx64 ")\n",
                     path, digest, again_digest);
        compare_print(stdout, said, again);
        same = false;
    } else if (!same && rewrite) {
        write_all(path, said);
        (void)printf("%s: written anew\n", path);
        same = true;
    } else if (!same) {
        (void)printf("%s: - is expected, + is what came\n", path);
        compare_print(stdout, story, said);
    }
    free(story);
    free(said);
    free(again);
    return same;
}

int main(int argc, char **argv)
{
    bool rewrite = argc > 1 && strcmp(argv[1], "--rewrite") == 0;
    bool good = true;
    int first = rewrite ? 2 : 1;

    if (argc <= first || strcmp(argv[1], "--help") == 0) {
        (void)fputs(usage, argc > 1 ? stdout : stderr);
        return argc > 1 ? 0 : 2;
    }
    for (int i = first; i < argc; i++) {
        good = check(argv[i], rewrite) && good;
    }
    return good ? 0 : 1;
}
