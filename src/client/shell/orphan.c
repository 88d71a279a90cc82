/* SPDX-License-Identifier: Apache-2.0 */
/* When `muster run` is killed its ranks end with it: its own children by the parent-death signal,
 * the others by its keeper. Behind a shell, and with the keeper killed as well, neither works: so
 * the rank itself notices the end of the run. */
#define _GNU_SOURCE
#include "client/shell/orphan.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/shell/handle.h"
#include "process/page.h"
#include "process/proc_stat.h"

static bool agent_lives(const struct mst_page *page)
{
    return mst_proc_stat_start((pid_t)atomic_load(&page->agent)) == atomic_load(&page->agent_start);
}

static int event(void *ctx)
{
    return ((const struct muster_client *)ctx)->agent_fd;
}

/* The program may have closed the descriptor and reused its number. */
static void rung(void *ctx, uint64_t now_ns)
{
    struct muster_client *client = ctx;

    (void)now_ns;
    client->agent_fd = -1;
    if (!agent_lives(client->page)) {
        (void)kill(getpid(), SIGKILL);
    }
}

static void disowned(void *ctx)
{
    ((struct muster_client *)ctx)->agent_fd = -1;
}

/* In another pid namespace the number is of no process or of another one; its start time differs.
 */
void mst_lib_orphan_watch(struct muster_client *client)
{
    const struct mst_lib_hook hook = {
        .event = event, .rung = rung, .disowned = disowned, .ctx = client};
    pid_t agent = client->page ? (pid_t)atomic_load(&client->page->agent) : 0;
    int fd;

    if (agent == 0 || agent == getppid()) {
        return;
    }
    fd = (int)syscall(SYS_pidfd_open, agent, 0);
    if (fd > 0 && agent_lives(client->page)) {
        client->agent_fd = fd;
        mst_lib_hook(client, MST_USER_AGENT, &hook);
    } else if (fd >= 0) {
        (void)close(fd);
    }
}
