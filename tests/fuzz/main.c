/* SPDX-License-Identifier: Apache-2.0 */
/* A harness without a fuzzer: gives it the files that are named, and those of folders. So what was
 * once found is checked with every compiler and every sanitizer.
 *
 * usage: fuzz_NAME FILE|FOLDER... */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"

static int play(const char *path)
{
    FILE *file = fopen(path, "rb");
    struct stat info;
    unsigned char *bytes;
    size_t size;

    if (!file || fstat(fileno(file), &info) != 0) {
        perror(path);
        return -1;
    }
    size = (size_t)info.st_size;
    bytes = malloc(size > 0 ? size : 1); /* of just this size: reading on is noticed */
    if (!bytes || fread(bytes, 1, size, file) != size) {
        perror(path);
        exit(1);
    }
    (void)fclose(file);
    if (getenv("FUZZ_VERBOSE")) {
        (void)fprintf(stderr, "%s\n", path);
    }
    (void)LLVMFuzzerTestOneInput(bytes, size);
    free(bytes);
    return 1;
}

static int is_file(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* How many inputs; less than 0: something could not be read. */
static int play_all(const char *path)
{
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, is_file, alphasort);
    int played = 0;

    if (count < 0) {
        return play(path);
    }
    for (int i = 0; i < count; i++) {
        char name[4096];

        if (snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name) < (int)sizeof name &&
            played >= 0) {
            played = play(name) < 0 ? -1 : played + 1;
        }
        free(entries[i]);
    }
    free(entries);
    return played;
}

int main(int argc, char **argv)
{
    int played = 0;

    for (int i = 1; i < argc; i++) {
        int some = play_all(argv[i]);

        if (some <= 0) {
            (void)fprintf(stderr, "%s: no inputs\n", argv[i]);
            return 1;
        }
        played += some;
    }
    (void)printf("%d inputs\n", played);
    return played > 0 ? 0 : 1;
}
