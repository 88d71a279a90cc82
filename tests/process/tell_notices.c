/* SPDX-License-Identifier: Apache-2.0 */
/* usage: tell_notices LIST
 * Asks the sources of the list, as an agent does, and prints what they know whenever that changes,
 * until its input ends. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "sources/shell/sources.h"

static void told(void *ctx)
{
    (void)eventfd_write(*(int *)ctx, 1);
}

static void say(void *ctx, const char *line)
{
    (void)ctx;
    (void)printf("say: %s\n", line);
}

static void print(struct mst_sources *sources)
{
    struct mst_sources_known known;

    if (!mst_sources_known(sources, &known)) {
        (void)printf("nothing\n");
        return;
    }
    (void)printf("notice source=%s level=%s assumed=%d left_ms=%" PRId64 " reason=%s\n",
                 known.source, known.notice.advisory ? "advisory" : "certain", known.assumed,
                 known.notice.left_ms, known.notice.reason);
}

int main(int argc, char **argv)
{
    int news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    const struct mst_sources_options options = {.list = argc == 2 ? argv[1] : "",
                                                .period_ms = 1000,
                                                .grace_ms = 77000,
                                                .told = told,
                                                .say = say,
                                                .ctx = &news};
    struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = news, .events = POLLIN}};
    struct mst_sources *sources = NULL;
    char why[512], bytes[64];
    eventfd_t count;

    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    if (mst_sources_open(&sources, &options, why, sizeof why) != MUSTER_OK) {
        (void)printf("refused: %s\n", why);
        return 1;
    }
    (void)printf("asking\n");
    for (;;) {
        (void)poll(fds, 2, -1);
        if (fds[1].revents != 0 && eventfd_read(news, &count) == 0) {
            print(sources);
        }
        if (fds[0].revents != 0 && read(STDIN_FILENO, bytes, sizeof bytes) <= 0) {
            break;
        }
    }
    mst_sources_close(sources);
    (void)printf("ended\n");
    return 0;
}
