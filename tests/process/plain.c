/* SPDX-License-Identifier: Apache-2.0 */
/* A program that knows nothing of muster, as plain.py: it prints its variables, and until the
 * attempt that its first argument names, rank 1 fails while the others would go on for ever. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv)
{
    const char *attempt = getenv("TORCHELASTIC_RESTART_COUNT"), *rank = getenv("RANK");

    /* A rank that is ended meanwhile leaves no part of a line: only its last lines are missing. */
    (void)setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    for (char **one = environ; *one != NULL; one++) {
        (void)printf("attempt %s rank %s: %s\n", attempt, rank, *one);
    }
    if (argc < 2 || attempt == NULL || rank == NULL ||
        strtol(attempt, NULL, 10) >= strtol(argv[1], NULL, 10)) {
        return 0;
    }
    if (strcmp(rank, "1") == 0) {
        (void)fprintf(stderr, "rank 1 of attempt %s fails\n", attempt);
        return 3;
    }
    for (;;) {
        (void)pause();
    }
}
