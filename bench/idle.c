/* SPDX-License-Identifier: Apache-2.0 */
/* Members that do nothing but stay: one connection each, a renewal each period, evenly spread, and
 * the answer to it. Says {"name":"ready"} when all are there and have renewed once; goes on until
 * its standard input ends, and then tells how many renewals were sent and answered.
 *
 *   idle muster ADDRESS MEMBERS PERIOD_MS     ranks of one job that joined it and watch it, as the
 *                                          library's do
 *   idle bare ADDRESS MEMBERS PERIOD_MS       the same renewals to a server that knows nothing */
#define _GNU_SOURCE
#include "measure.h"
#include "wire.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    MEMBERS_MAX = 65536,
    EVENTS = 256,
    WATCH_VIEW = 8,
    FIRST_ID = 1000 /* ids of one length, for hours: all renewals have the same size */
};

struct member {
    int fd;
    uint64_t id;
};

static struct member *members;
static long member_count;
static uint64_t sent, answered;
static size_t request_bytes, answer_bytes;

static void watch(int fd, uint64_t id, uint64_t after)
{
    struct wire_message fields = {.size = 0};

    wire_number(&fields, 1, WATCH_VIEW);
    wire_number(&fields, 4, after);
    wire_send(fd, id, WIRE_WATCH, &fields);
}

static void join_all(void)
{
    const struct wire_message nothing = {.size = 0};

    for (long i = 0; i < member_count; i++) {
        const struct wire_session session = {.number = (uint64_t)i + 1,
                                             .role = WIRE_RANK,
                                             .index = (uint32_t)i,
                                             .size = (uint32_t)member_count};

        wire_greet(members[i].fd, &session);
        wire_send(members[i].fd, 1, WIRE_JOIN, &nothing);
    }
    for (long i = 0; i < member_count; i++) {
        (void)wire_await(members[i].fd, WIRE_JOIN);
        watch(members[i].fd, 2, 0);
        watch(members[i].fd, 3, wire_await(members[i].fd, WIRE_WATCH).revision);
    }
}

static void renew(struct member *member)
{
    static const struct wire_message nothing = {.size = 0};
    unsigned char frame[WIRE_MESSAGE_MAX];

    request_bytes = wire_request(frame, member->id++, WIRE_RENEW, &nothing);
    if (!write_full(member->fd, frame, request_bytes)) {
        die("renew");
    }
    sent++;
}

static void take_answer(const struct member *member)
{
    unsigned char data[4096];
    ssize_t got = recv(member->fd, data, sizeof data, MSG_DONTWAIT);

    if (got <= 0) {
        (void)fprintf(stderr, "idle: the service hung up on a member\n");
        exit(1);
    }
    answer_bytes = (size_t)got;
    answered++;
}

/* epoll_wait knows milliseconds only, and between two renewals there is less. */
static void sleep_until(int poller, uint64_t due_ns)
{
    struct pollfd any = {.fd = poller, .events = POLLIN};
    uint64_t now = now_ns();
    uint64_t left_ns = due_ns > now ? due_ns - now : 0;
    struct timespec left = {.tv_sec = (time_t)(left_ns / 1000000000u),
                            .tv_nsec = (long)(left_ns % 1000000000u)};

    (void)ppoll(&any, 1, &left, NULL);
}

/* Renewals one after the other at the moment of each. False: the standard input has ended. */
static bool stay(int poller, uint64_t *due_ns, uint64_t step_ns, long *next)
{
    struct epoll_event events[EVENTS];
    int ready;

    sleep_until(poller, *due_ns);
    ready = epoll_wait(poller, events, EVENTS, 0);

    for (int i = 0; i < ready; i++) {
        if (events[i].data.u64 == 0) {
            return false;
        }
        take_answer(&members[events[i].data.u64 - 1]);
    }
    while (now_ns() >= *due_ns) {
        renew(&members[*next]);
        *next = (*next + 1) % member_count;
        *due_ns += step_ns;
    }
    return true;
}

static void tell(const char *name)
{
    printf("{\"name\":\"%s\",\"sent\":%llu,\"answered\":%llu,\"request_bytes\":%zu,"
           "\"answer_bytes\":%zu}\n",
           name, (unsigned long long)sent, (unsigned long long)answered, request_bytes,
           answer_bytes);
    (void)fflush(stdout);
}

static void stay_until_told(long period_ms)
{
    int poller = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event input = {.events = EPOLLIN, .data.u64 = 0};
    uint64_t step_ns = (uint64_t)period_ms * 1000000u / (uint64_t)member_count;
    uint64_t due_ns = now_ns();
    bool ready = false;
    long next = 0;

    for (long i = 0; i < member_count; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)i + 1};

        (void)epoll_ctl(poller, EPOLL_CTL_ADD, members[i].fd, &event);
    }
    if (epoll_ctl(poller, EPOLL_CTL_ADD, STDIN_FILENO, &input) != 0) {
        die("standard input");
    }
    while (stay(poller, &due_ns, step_ns, &next)) {
        if (!ready && answered >= (uint64_t)member_count) {
            ready = true;
            tell("ready");
        }
    }
    tell("idle");
}

int main(int argc, char **argv)
{
    bool bare = argc == 5 && strcmp(argv[1], "bare") == 0;
    struct wire_address address;
    long period_ms = 0;

    if (argc != 5 || (!bare && strcmp(argv[1], "muster") != 0) ||
        !wire_address_parse(&address, argv[2]) || !parse_number(argv[3], &member_count) ||
        member_count < 1 || member_count > MEMBERS_MAX || !parse_number(argv[4], &period_ms) ||
        period_ms < 1) {
        (void)fprintf(stderr, "usage: idle bare|muster ADDRESS MEMBERS PERIOD_MS\n");
        return 2;
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    all_descriptors();
    members = calloc((size_t)member_count, sizeof *members);
    for (long i = 0; i < member_count; i++) {
        members[i] = (struct member){.fd = wire_connect(&address), .id = FIRST_ID};
    }
    if (!bare) {
        join_all();
    }
    stay_until_told(period_ms);
    return 0;
}
