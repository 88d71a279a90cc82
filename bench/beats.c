/* SPDX-License-Identifier: Apache-2.0 */
/* The collective heartbeat of many members: once per period all of them send what a member's
 * library sends, at one moment, and all are answered when all have. Says {"name":"ready"} after the
 * first beats; goes on until its standard input ends, and then tells how many calls were answered.
 *
 *   beats muster ADDRESS MEMBERS PERIOD_MS                   ranks of one job
 *   beats bare ADDRESS MEMBERS PERIOD_MS REQUEST ANSWER      so many bytes each way, to a server
 *                                                         that answers all when so many have come
 */
#define _GNU_SOURCE
#include "measure.h"
#include "wire.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum {
    MEMBERS_MAX = 65536,
    WARM = 2,
    BYTES_MAX = 4096,
    FIRST_ID = 1000, /* ids and numbers of one length, for hours: all calls have the same size */
    NUMBERS = 128,
    DEADLINE_MS = 50000,
    TOKEN = 54321,
    ON_LOSS_PROCEED = 1,
    REDUCE_EQUAL = 5
};

struct beats {
    bool bare;
    int *fds;
    long count;
    long request, answer; /* bytes */
    uint64_t generation, number, id, answered;
};

/* Members of the first generation, at a round that the answers to have the same size. */
static void join(struct beats *beats)
{
    const struct wire_message nothing = {.size = 0};

    for (long i = 0; i < beats->count; i++) {
        const struct wire_session session = {.number = (uint64_t)i + 1,
                                             .role = WIRE_RANK,
                                             .index = (uint32_t)i,
                                             .size = (uint32_t)beats->count};

        wire_greet(beats->fds[i], &session);
        wire_send(beats->fds[i], 1, WIRE_JOIN, &nothing);
    }
    for (long i = 0; i < beats->count; i++) {
        beats->generation = wire_await(beats->fds[i], WIRE_JOIN).generation;
    }
}

static struct wire_message beat_of(const struct beats *beats)
{
    static const char name[] = "muster/heartbeat";
    static const unsigned char token[] = {TOKEN & 255, TOKEN >> 8};
    struct wire_message fields = {.size = 0};

    wire_number(&fields, 1, beats->generation);
    wire_bytes(&fields, 2, name, sizeof name - 1);
    wire_number(&fields, 3, beats->number);
    wire_number(&fields, 5, DEADLINE_MS);
    wire_number(&fields, 6, ON_LOSS_PROCEED);
    wire_number(&fields, 7, REDUCE_EQUAL);
    wire_bytes(&fields, 10, token, sizeof token);
    return fields;
}

/* What a call and its answer have in bytes, by the first member's. */
static void take_first(struct beats *beats, int fd)
{
    unsigned char frame[BYTES_MAX];
    size_t size;

    if (!read_full(fd, frame, WIRE_HEAD)) {
        die("answer");
    }
    size = wire_frame_size(frame);
    if (size > sizeof frame || !read_full(fd, frame + WIRE_HEAD, size - WIRE_HEAD)) {
        die("answer");
    }
    if (wire_reply_of(frame, size).status != 0) {
        (void)fprintf(stderr, "beats: a beat failed\n");
        exit(1);
    }
    beats->answer = (long)size;
}

static void beat(struct beats *beats)
{
    unsigned char bytes[BYTES_MAX] = {0};

    if (!beats->bare) {
        struct wire_message fields = beat_of(beats);

        beats->request = (long)wire_request(bytes, beats->id, WIRE_ROUND, &fields);
    }
    for (long i = 0; i < beats->count; i++) {
        if (!write_full(beats->fds[i], bytes, (size_t)beats->request)) {
            die("call");
        }
    }
    for (long i = 0; i < beats->count; i++) {
        if (beats->bare) {
            if (!read_full(beats->fds[i], bytes, (size_t)beats->answer)) {
                die("answer");
            }
        } else if (i == 0) {
            take_first(beats, beats->fds[i]);
        } else {
            (void)wire_await(beats->fds[i], WIRE_ROUND);
        }
    }
    beats->id++;
    beats->number++;
    beats->answered += (uint64_t)beats->count;
}

static void tell(const char *name, const struct beats *beats)
{
    printf("{\"name\":\"%s\",\"answered\":%llu,\"request_bytes\":%ld,\"answer_bytes\":%ld}\n", name,
           (unsigned long long)beats->answered, beats->request, beats->answer);
    (void)fflush(stdout);
}

/* False: the standard input has ended. */
static bool wait_until(uint64_t due_ns)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    uint64_t now = now_ns();
    uint64_t left_ns = due_ns > now ? due_ns - now : 0;
    struct timespec left = {.tv_sec = (time_t)(left_ns / 1000000000u),
                            .tv_nsec = (long)(left_ns % 1000000000u)};

    return ppoll(&input, 1, &left, NULL) == 0;
}

int main(int argc, char **argv)
{
    struct beats beats = {.bare = argc > 1 && strcmp(argv[1], "bare") == 0, .id = FIRST_ID};
    struct wire_address address;
    long period_ms = 0;
    uint64_t due_ns;

    if (argc != (beats.bare ? 7 : 5) || (!beats.bare && strcmp(argv[1], "muster") != 0) ||
        !wire_address_parse(&address, argv[2]) || !parse_number(argv[3], &beats.count) ||
        beats.count < 1 || beats.count > MEMBERS_MAX || !parse_number(argv[4], &period_ms) ||
        (beats.bare &&
         (!parse_number(argv[5], &beats.request) || !parse_number(argv[6], &beats.answer) ||
          beats.request > BYTES_MAX || beats.answer > BYTES_MAX))) {
        (void)fprintf(stderr, "usage: beats muster ADDRESS MEMBERS PERIOD_MS | "
                              "beats bare ADDRESS MEMBERS PERIOD_MS REQUEST ANSWER\n");
        return 2;
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    all_descriptors();
    beats.fds = calloc((size_t)beats.count, sizeof *beats.fds);
    for (long i = 0; i < beats.count; i++) {
        beats.fds[i] = wire_connect(&address);
    }
    if (!beats.bare) {
        join(&beats);
        while (beats.number < NUMBERS) {
            beat(&beats);
        }
    }
    for (long i = 0; i < WARM; i++) {
        beat(&beats);
    }
    tell("ready", &beats);
    due_ns = now_ns();
    do {
        beat(&beats);
        due_ns += (uint64_t)period_ms * 1000000u;
    } while (wait_until(due_ns));
    tell("beats", &beats);
    free(beats.fds);
    return 0;
}
