/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHARLM_TEXT_H
#define CHARLM_TEXT_H

/* The text: the regular files of a folder (links are not followed) in byte order of their names, as
 * symbols of the model. One file is held out to test on. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TEXT_WINDOW = 64,        /* characters of a piece that counts as repeated */
    TEXT_SHARED_MAX = 20,    /* percent of the held-out file's windows that one other may repeat */
    TEXT_REPEATED_MAX = 1024 /* characters in one run that another may repeat */
};

/* How much of the held-out file another one repeats, runs of white space read as one space. */
struct text_overlap {
    char name[256];
    double percent; /* of the held-out file's windows */
    size_t longest; /* characters of the longest repeated run */
};

struct text {
    uint8_t *training; /* symbols; all other files, one after the other */
    size_t training_size;
    uint8_t *held_out; /* begins with CONTEXT line ends that are no part of the file */
    size_t held_out_size;
    size_t files;
    char held_out_name[256];
    struct text_overlap most;    /* the file that repeats most windows, and ... */
    struct text_overlap longest; /* ... the one with the longest run */
};

/* Reads everything below the limits; `held_out` names the file to test on (if there is none of that
 * name: the last). False: `why` says what is wrong, for instance that a file repeats too much of
 * the held-out one. Then and later text_free releases all. */
bool text_load(struct text *out, const char *folder, const char *held_out, char why[512]);
void text_free(struct text *text);

uint8_t text_symbol(char character);
char text_character(int symbol);

/* What `other` repeats of `held_out`, both as they are in their files. */
void text_compare(struct text_overlap *out, const char *held_out, size_t held_out_size,
                  const char *other, size_t other_size);

#endif
