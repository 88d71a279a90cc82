/* SPDX-License-Identifier: Apache-2.0 */
/* sim --seeds N --first S [--once] [--verbose] [--here], and the same of replica_sim
 *
 * Runs N seeds from S on, each twice, or once to see more of them in the same time. A child process
 * does the work and the parent reads the story from shared memory, so that a crash, a sanitizer's
 * abort or a loop without end is told with its seed like any other failure. Exit codes:
 * properties.h, enum sim_verdict. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/panic.h"
#include "properties.h"
#include "world.h"

#define STUCK_SECONDS 60 /* of its own CPU time: a busy machine is no loop without end */

struct options {
    uint64_t first, seeds;
    bool once;
    bool verbose;
    bool here; /* in this process, for a debugger */
};

_Noreturn void mst_panic(const char *file, int line, const char *what)
{
    fprintf(stderr, "%s:%d: broken invariant: %s\n", file, line, what);
    abort();
}

static int usage(const char *program)
{
    fprintf(stderr,
            "usage: %s [--seeds N] [--first S] [--once] [--verbose] [--here]\n"
            "exit codes: 0 good, 2 usage, 10 safety, 11 liveness, 12 determinism, 13 crash, "
            "14 stuck\n",
            program);
    return SIM_USAGE;
}

static bool number(const char *text, uint64_t *out)
{
    char *end;

    errno = 0;
    *out = strtoull(text, &end, 10);
    return errno == 0 && end != text && *end == '\0';
}

static bool parse(int argc, char **argv, struct options *options)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--once") == 0) {
            options->once = true;
        } else if (strcmp(argv[i], "--verbose") == 0) {
            options->verbose = true;
        } else if (strcmp(argv[i], "--here") == 0) {
            options->here = true;
        } else if (strcmp(argv[i], "--seeds") == 0 && i + 1 < argc) {
            if (!number(argv[++i], &options->seeds)) {
                return false;
            }
        } else if (strcmp(argv[i], "--first") == 0 && i + 1 < argc) {
            if (!number(argv[++i], &options->first)) {
                return false;
            }
        } else {
            return false;
        }
    }
    return true;
}

static void run_seed(struct sim_story *story, uint64_t seed, const struct options *options)
{
    uint64_t first, second;

    story->seed = seed;
    first = sim_run(seed, story, 0x5a, options->verbose);
    second = options->once ? first : sim_run(seed, story, 0xc3, false);
    if (first != second) {
        fprintf(stderr, "seed %" PRIu64 " breaks %s: %016" PRIx64 " and %016" PRIx64 "\n", seed,
                sim_property_name(SIM_P_SAME_TWICE), first, second);
        exit(SIM_DETERMINISM);
    }
    story->done++;
}

/* The process that runs seeds. Returns only when all went well. */
static void work(struct sim_story *story, const struct options *options)
{
    const struct itimerval stuck = {.it_value.tv_sec = STUCK_SECONDS};

    for (uint64_t i = 0; i < options->seeds; i++) {
        if (!options->here) {
            (void)setitimer(ITIMER_PROF, &stuck, NULL);
        }
        run_seed(story, options->first + i, options);
    }
}

static int verdict(int status)
{
    if (WIFSIGNALED(status)) {
        return WTERMSIG(status) == SIGPROF ? SIM_STUCK : SIM_CRASHED;
    }
    switch (WEXITSTATUS(status)) {
    case SIM_GOOD:
    case SIM_SAFETY:
    case SIM_LIVENESS:
    case SIM_DETERMINISM:
        return WEXITSTATUS(status);
    default: /* a sanitizer */
        return SIM_CRASHED;
    }
}

static int run(struct sim_story *story, const struct options *options, const char *program)
{
    int status = 0;
    int code;
    pid_t child = fork();

    if (child < 0) {
        perror("fork");
        return SIM_CRASHED;
    }
    if (child == 0) {
        work(story, options);
        exit(SIM_GOOD);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    code = verdict(status);
    if (code == SIM_CRASHED || code == SIM_STUCK) {
        sim_story_print(story, 40);
        fprintf(stderr, "seed %" PRIu64 " %s (%s %d)\n", story->seed,
                code == SIM_STUCK ? "does not end" : "crashes",
                WIFSIGNALED(status) ? "signal" : "status",
                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    }
    if (code != SIM_GOOD) {
        fprintf(stderr, "to repeat: %s --first %" PRIu64 " --seeds 1 --verbose\n", program,
                story->seed);
    }
    return code;
}

int main(int argc, char **argv)
{
    struct options options = {.first = 1, .seeds = SIM_SEEDS_DEFAULT};
    const char *seeds = getenv(SIM_SEEDS_VARIABLE);
    struct sim_story *story =
        mmap(NULL, sizeof(*story), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int code;

    if ((seeds && !number(seeds, &options.seeds)) || !parse(argc, argv, &options)) {
        return usage(argv[0]);
    }
    if (story == MAP_FAILED) {
        perror("mmap");
        return SIM_CRASHED;
    }
    if (options.here) {
        work(story, &options);
        code = SIM_GOOD;
    } else {
        code = run(story, &options, argv[0]);
    }
    printf("%" PRIu64 " seeds passed, %s\n", story->done,
           code == SIM_GOOD ? "none failed" : "then one failed");
    munmap(story, sizeof(*story));
    return code;
}
