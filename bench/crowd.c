/* SPDX-License-Identifier: Apache-2.0 */
/* A barrier of many members, driven by some processes that hold a share of the connections each:
 * all their members arrive, then all wait for the release, back to back.
 *
 *   crowd bare|muster ADDRESS MEMBERS PROCESSES ROUNDS
 *
 * bare: 64 bytes each way, to a server that releases when so many have come. muster: members of one
 * job, without the library. Two samples of each round: as the first process sees it from one round
 * to the next, and from the last arrival to the last release seen. */
#define _GNU_SOURCE
#include "measure.h"
#include "wire.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MEMBERS_MAX = 65536, WARM = 3, WARM_SHARE = 10, MESSAGE_BYTES = 64, FIRST_ID = 2 };

struct stamp {
    uint64_t in_ns, out_ns;
};

struct crowd {
    bool bare;
    struct wire_address address;
    long members, processes, rounds;
    long warm;            /* rounds before these */
    struct stamp *stamps; /* of each round, of each process; seen by all */
};

struct share {
    int *fds;
    long first, count;
    uint64_t generation;
};

static void arrive(const struct crowd *crowd, const struct share *share, long member, long round)
{
    static const char name[] = "bench";
    struct wire_message fields = {.size = 0};
    char message[MESSAGE_BYTES] = {0};

    if (crowd->bare) {
        if (!write_full(share->fds[member], message, sizeof message)) {
            die("arrive");
        }
        return;
    }
    wire_number(&fields, 1, share->generation);
    wire_bytes(&fields, 2, name, sizeof name - 1);
    wire_number(&fields, 3, (uint64_t)round);
    wire_send(share->fds[member], FIRST_ID + (uint64_t)round, WIRE_ROUND, &fields);
}

static void await_release(const struct crowd *crowd, int fd)
{
    char message[MESSAGE_BYTES];

    if (!crowd->bare) {
        (void)wire_await(fd, WIRE_ROUND);
    } else if (!read_full(fd, message, sizeof message)) {
        die("await");
    }
}

/* Members of the first generation: the answer comes when all have asked. */
static void join(const struct crowd *crowd, struct share *share)
{
    const struct wire_message nothing = {.size = 0};

    for (long i = 0; i < share->count; i++) {
        const struct wire_session session = {.number = (uint64_t)(share->first + i) + 1,
                                             .role = WIRE_RANK,
                                             .index = (uint32_t)(share->first + i),
                                             .size = (uint32_t)crowd->members};

        wire_greet(share->fds[i], &session);
        wire_send(share->fds[i], 1, WIRE_JOIN, &nothing);
    }
    for (long i = 0; i < share->count; i++) {
        share->generation = wire_await(share->fds[i], WIRE_JOIN).generation;
    }
}

static void take_part(const struct crowd *crowd, long process)
{
    struct share share = {.first = crowd->members * process / crowd->processes};

    share.count = crowd->members * (process + 1) / crowd->processes - share.first;
    share.fds = calloc((size_t)share.count, sizeof *share.fds);
    for (long i = 0; i < share.count; i++) {
        share.fds[i] = wire_connect(&crowd->address);
    }
    if (!crowd->bare) {
        join(crowd, &share);
    }
    for (long round = 0; round < crowd->warm + crowd->rounds; round++) {
        struct stamp *stamp = &crowd->stamps[round * crowd->processes + process];
        uint64_t begin_ns = now_ns();

        for (long i = 0; i < share.count; i++) {
            /* The last arrival of a process counts; of the first one also when it began. */
            stamp->in_ns = i + 1 == share.count && share.count > 1 ? now_ns() : begin_ns;
            arrive(crowd, &share, i, round);
        }
        for (long i = 0; i < share.count; i++) {
            await_release(crowd, share.fds[i]);
        }
        stamp->out_ns = now_ns();
    }
}

static void tell(const struct crowd *crowd)
{
    uint64_t *whole = calloc((size_t)crowd->rounds, sizeof *whole);
    uint64_t *end = calloc((size_t)crowd->rounds, sizeof *end);

    for (long i = 0; i < crowd->rounds; i++) {
        const struct stamp *before = &crowd->stamps[(crowd->warm + i - 1) * crowd->processes];
        const struct stamp *stamps = &crowd->stamps[(crowd->warm + i) * crowd->processes];
        uint64_t in_ns = 0;
        uint64_t out_ns = 0;

        for (long process = 0; process < crowd->processes; process++) {
            in_ns = stamps[process].in_ns > in_ns ? stamps[process].in_ns : in_ns;
            out_ns = stamps[process].out_ns > out_ns ? stamps[process].out_ns : out_ns;
        }
        whole[i] = stamps[0].out_ns - before[0].out_ns;
        end[i] = out_ns - in_ns;
    }
    report("back_to_back", whole, (size_t)crowd->rounds);
    report("last_in_last_out", end, (size_t)crowd->rounds);
}

int main(int argc, char **argv)
{
    struct crowd crowd = {.bare = argc > 1 && strcmp(argv[1], "bare") == 0};
    int status;
    bool good = true;

    if (argc != 6 || (!crowd.bare && strcmp(argv[1], "muster") != 0) ||
        !wire_address_parse(&crowd.address, argv[2]) || !parse_number(argv[3], &crowd.members) ||
        crowd.members > MEMBERS_MAX || !parse_number(argv[4], &crowd.processes) ||
        crowd.processes < 1 || crowd.processes > crowd.members ||
        !parse_number(argv[5], &crowd.rounds) || crowd.rounds < 1) {
        (void)fprintf(stderr, "usage: crowd bare|muster ADDRESS MEMBERS PROCESSES ROUNDS\n");
        return 2;
    }
    crowd.warm = WARM + crowd.rounds / WARM_SHARE;
    all_descriptors();
    crowd.stamps = shared_memory((size_t)(crowd.warm + crowd.rounds) * (size_t)crowd.processes *
                                 sizeof *crowd.stamps);
    for (long process = 0; process < crowd.processes; process++) {
        pid_t child = fork();

        if (child == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            take_part(&crowd, process);
            _exit(0);
        }
        if (child < 0) {
            die("fork");
        }
    }
    while (wait(&status) > 0) {
        good = good && status == 0;
    }
    if (!good) {
        return 1;
    }
    tell(&crowd);
    return 0;
}
