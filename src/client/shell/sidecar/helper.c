/* SPDX-License-Identifier: Apache-2.0 */
/* Starting `muster agent`, noticing its end, and starting it again.
 *
 *   WAITS --again_ns--> STARTS --its pid comes over the link--> RUNS
 *     ^                    | it ends before                      | it ends
 *     +--------------------+-------------------------------------+      (or OFF, for good)
 *
 * The spawned process forks the helper and ends. A program that waits for all its children would
 * otherwise wait for one that waits for the program, and one that counts them would miscount. There
 * is a child only while the helper starts; it is waited for by its pid, which also works where
 * SIGCHLD is ignored or another thread has reaped it.
 *
 * The thread that drives the connection polls one descriptor more; there is no thread for it. The
 * helper's variables and arguments are put together once, on the thread that calls
 * muster_restart_run: later the program may be changing its environment. */
#define _GNU_SOURCE
#include "client/shell/sidecar/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/shell/environment.h"
#include "client/shell/handle.h"
#include "client/shell/sidecar/serve.h"
#include "os/descriptors.h"
#include "os/system.h"
#include "process/child.h"
#include "process/page.h"

#define STOP_MS 2000
#define SETTLED_NS (10000 * NS_PER_MS) /* a helper that ran so long did not fail at its start */
#define AT_ONCE_MAX 3u                 /* replacements in a row before the next one waits */
#define BACK_OFF_FIRST_NS (1000 * NS_PER_MS)
#define BACK_OFF_MOST_NS (60000 * NS_PER_MS)

/* The numbers that the helper finds its descriptors under; ours are above, out of their way. */
enum { PAGE_FD = 3, LINK_FD = 4, SELF_FD = 5, SECRET_FD = 6, FIRST_FREE_FD = 10 };
enum { ARGUMENTS_MAX = 12, TEXT_ROOM = 24 }; /* and NULL */

enum state { OFF, WAITS, STARTS, RUNS };

struct mst_lib_helper {
    enum state state;
    char program[MST_LIB_PROGRAM_ROOM];
    char index[TEXT_ROOM], incarnation[TEXT_ROOM];
    char *argv[ARGUMENTS_MAX + 1]; /* borrowed texts */
    struct mst_environment environment;
    int page_fd, secret_fd;
    int self_fd;   /* a pidfd of this process; -1: the kernel has none */
    int link;      /* our end of a pair of sockets; -1: none */
    int helper_fd; /* a pidfd of the helper, once it runs; -1: the end of the link is its end */
    struct mst_child starter;
    uint64_t started_ns, again_ns;
    uint32_t soon; /* ends in a row soon after the start */
    bool ran;      /* one has run */
    bool logged;   /* that there is none */
};

static void close_if(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
        *fd = -1;
    }
}

static int pidfd_of(pid_t pid)
{
    return mst_descriptor_beyond_streams((int)syscall(SYS_pidfd_open, pid, 0));
}

/* ---- its variables and arguments ---- */

static bool is_ours(const char *variable)
{
    return strncmp(variable, "MUSTER_", 7) == 0 &&
           strncmp(variable, "MUSTER_RUNTIME_DIR=", 19) != 0 &&
           strncmp(variable, "MUSTER_PREEMPT_", 15) != 0 && /* its notices for the node */
           strncmp(variable, "MUSTER_STATE_DIR=", 17) != 0;
}

/* Of the library's variables only those that it needs: the others describe the rank. False: no
 * memory. */
static bool make_environment(struct mst_environment *made, const struct muster_client *client)
{
    const struct {
        const char *name, *value; /* NULL: unset */
    } own[] = {{"MUSTER_ADDR", client->addr},
               {"MUSTER_JOB", client->job},
               {"MUSTER_SECRET_FILE", client->secret_file},
               {"MUSTER_SECRET_FD", client->secret_fd >= 0 ? "6" : NULL},
               {"MUSTER_INSECURE", client->insecure ? "1" : NULL}};
    muster_status status = mst_environment_copy(made);

    if (status != MUSTER_OK) {
        return false;
    }
    mst_environment_drop(made, is_ours);
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]) && status == MUSTER_OK; i++) {
        status = mst_environment_set(made, own[i].name, own[i].value);
    }
    if (status != MUSTER_OK) {
        mst_environment_fini(made);
    }
    return status == MUSTER_OK;
}

static void make_arguments(struct mst_lib_helper *helper, struct muster_client *client)
{
    static char agent[] = "agent", page[] = "--page-fd=3", link[] = "--link-fd=4",
                index[] = "--index", since[] = "--since", host[] = "--host", self[] = "--pid-fd=5",
                worker[] = "--worker";
    char *const words[] = {
        helper->program,     agent, page,        link, index, helper->index, since,
        helper->incarnation, host,  client->host};
    size_t count = sizeof(words) / sizeof(words[0]);

    memcpy(helper->argv, words, sizeof(words));
    if (helper->self_fd >= 0) {
        helper->argv[count++] = self;
    }
    if (client->role == MST_ROLE_WORKER) {
        helper->argv[count++] = worker;
    }
}

/* A copy above the numbers that the helper's descriptors get, else they would overwrite each other.
 */
static int high_copy(int fd)
{
    return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FREE_FD);
}

static void move_high(int *fd)
{
    int copy = high_copy(*fd);

    close_if(fd);
    *fd = copy;
}

/* ---- starting ---- */

/* 0 or an errno. In a session of its own: signals to the program's group or session do not reach
 * it. */
static int spawn(struct mst_lib_helper *helper, int link)
{
    const struct mst_spawn spawn = {.program = helper->program,
                                    .arguments = helper->argv,
                                    .environment = helper->environment.entries,
                                    .input = MST_SPAWN_NOWHERE,
                                    .out = MST_SPAWN_NOWHERE,
                                    .error = MST_SPAWN_OURS,
                                    .given = {{helper->page_fd, PAGE_FD},
                                              {link, LINK_FD},
                                              {helper->self_fd, SELF_FD},
                                              {helper->secret_fd, SECRET_FD}},
                                    .session = true};

    return mst_child_start(&helper->starter, &spawn);
}

static int start(struct mst_lib_helper *helper)
{
    int ends[2];
    int failed;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
        return errno;
    }
    ends[0] = mst_descriptor_beyond_streams(ends[0]); /* any byte ends the helper */
    move_high(&ends[1]);
    failed = ends[0] < 0 || ends[1] < 0 ? EMFILE : spawn(helper, ends[1]);
    close_if(&ends[1]);
    if (failed) {
        close_if(&ends[0]);
        return failed;
    }
    helper->link = ends[0];
    helper->state = STARTS;
    helper->started_ns = mst_lib_now_ns();
    return 0;
}

/* ---- its end ---- */

static void forget(struct mst_lib_helper *helper)
{
    if (helper->starter.pidfd >= 0) {
        mst_child_signal(&helper->starter, SIGKILL);
    }
    (void)mst_child_reap(&helper->starter, NULL);
    close_if(&helper->link);
    close_if(&helper->helper_fd);
}

/* Logged once; further attempts are silent. */
static void tell_none(struct muster_client *client, const char *why)
{
    struct mst_lib_helper *helper = client->helper;

    if (helper->logged) {
        return;
    }
    helper->logged = true;
    mst_lib_log(client, MUSTER_LEVEL_WARN,
                "no helper watches this process: '%s agent': %s; its death is noticed later, a "
                "hang not at all (set MUSTER_PROGRAM, or MUSTER_AGENT=0 for none)",
                helper->program, why);
}

static uint64_t delay_ns(struct mst_lib_helper *helper)
{
    uint64_t delay = BACK_OFF_FIRST_NS;

    if (helper->soon < AT_ONCE_MAX) {
        helper->soon++;
        return 0;
    }
    for (uint32_t i = AT_ONCE_MAX; i < helper->soon && delay < BACK_OFF_MOST_NS; i++) {
        delay *= 2;
    }
    helper->soon += delay < BACK_OFF_MOST_NS;
    return delay < BACK_OFF_MOST_NS ? delay : BACK_OFF_MOST_NS;
}

/* A program that never ran as a helper never will: it is another one, or too old. */
static void try_later(struct muster_client *client, uint64_t now_ns)
{
    struct mst_lib_helper *helper = client->helper;

    if (!helper->ran && helper->soon >= AT_ONCE_MAX) {
        helper->state = OFF;
        tell_none(client, "it ends as soon as it is started; its messages are on stderr");
        return;
    }
    helper->state = WAITS;
    helper->again_ns = now_ns + delay_ns(helper);
}

static void lost(struct muster_client *client, uint64_t now_ns)
{
    struct mst_lib_helper *helper = client->helper;

    forget(helper);
    if (now_ns - helper->started_ns > SETTLED_NS) {
        helper->soon = 0;
    }
    if (helper->state == RUNS) {
        mst_lib_log(client, MUSTER_LEVEL_INFO,
                    "the helper that watches this process has ended; another one is started");
    }
    try_later(client, now_ns);
}

static void try_start(struct muster_client *client, uint64_t now_ns)
{
    struct mst_lib_helper *helper = client->helper;
    int failed = start(helper);

    if (failed == ENOENT || failed == EACCES || failed == ENOTDIR || failed == ENOEXEC) {
        helper->state = OFF;
        tell_none(client, strerror(failed));
    } else if (failed) {
        tell_none(client, strerror(failed));
        helper->state = WAITS;
        helper->again_ns = now_ns + BACK_OFF_MOST_NS;
    }
}

/* ---- while it runs ---- */

/* The pid is that of the helper as long as the link is open. */
static void greet(struct mst_lib_helper *helper, int32_t pid)
{
    struct pollfd end = {.fd = helper->link};

    helper->state = RUNS;
    helper->ran = true;
    helper->helper_fd = pidfd_of(pid);
    if (poll(&end, 1, 0) > 0 && (end.revents & (POLLHUP | POLLERR)) != 0) {
        close_if(&helper->helper_fd);
    }
    (void)mst_child_reap(&helper->starter, NULL); /* last: without that child, the helper runs */
}

/* Whether it has ended. */
static bool read_link(struct mst_lib_helper *helper)
{
    int32_t pid;
    ssize_t got = recv(helper->link, &pid, sizeof(pid), MSG_DONTWAIT);

    if (got == (ssize_t)sizeof(pid) && helper->state == STARTS) {
        greet(helper, pid);
        return false;
    }
    return got >= 0 || (errno != EAGAIN && errno != EINTR);
}

/* ---- the hook ---- */

static int event(void *ctx)
{
    const struct mst_lib_helper *helper = ((struct muster_client *)ctx)->helper;

    if (helper->state == RUNS && helper->helper_fd >= 0) {
        return helper->helper_fd;
    }
    return helper->state == STARTS || helper->state == RUNS ? helper->link : -1;
}

static void rung(void *ctx, uint64_t now_ns)
{
    struct muster_client *client = ctx;
    struct mst_lib_helper *helper = client->helper;

    if ((helper->state == RUNS && helper->helper_fd >= 0) || read_link(helper)) {
        lost(client, now_ns);
    }
}

static uint64_t deadline_ns(void *ctx)
{
    const struct mst_lib_helper *helper = ((struct muster_client *)ctx)->helper;

    return helper->state == WAITS ? helper->again_ns : NEVER;
}

static void tick(void *ctx, uint64_t now_ns)
{
    struct muster_client *client = ctx;

    if (client->closing) {
        client->helper->state = OFF;
    } else {
        try_start(client, now_ns);
    }
}

static void disowned(void *ctx)
{
    struct mst_lib_helper *helper = ((struct muster_client *)ctx)->helper;

    helper->link = helper->helper_fd = helper->starter.pidfd = -1;
    helper->page_fd = helper->secret_fd = helper->self_fd = -1;
    helper->state = OFF;
}

/* Until the other end of the link is closed, which only the helper has. */
static bool await_end(struct mst_lib_helper *helper)
{
    uint64_t until_ns = mst_lib_now_ns() + STOP_MS * NS_PER_MS;
    struct pollfd end = {.fd = helper->link, .events = POLLIN};
    char bytes[8];

    for (;;) {
        uint64_t now_ns = mst_lib_now_ns();
        ssize_t got = recv(helper->link, bytes, sizeof(bytes), MSG_DONTWAIT);

        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
            return true;
        }
        if (now_ns >= until_ns) {
            return false;
        }
        if (got < 0) {
            (void)poll(&end, 1, (int)((until_ns - now_ns) / NS_PER_MS) + 1);
        }
    }
}

static void helper_free(struct mst_lib_helper *helper)
{
    close_if(&helper->page_fd);
    close_if(&helper->secret_fd);
    close_if(&helper->self_fd);
    mst_environment_fini(&helper->environment);
    free(helper);
}

/* Ends the helper and waits for its end. */
static void end(void *ctx)
{
    struct mst_lib_helper *helper = ((struct muster_client *)ctx)->helper;

    if (helper->link >= 0) {
        (void)send(helper->link, "c", 1, MSG_NOSIGNAL);
        if (!await_end(helper) && helper->helper_fd >= 0) { /* stopped, or stuck */
            (void)syscall(SYS_pidfd_send_signal, helper->helper_fd, SIGKILL, NULL, 0);
        }
    }
    forget(helper);
    helper_free(helper);
}

/* ---- the beginning and the end ---- */

static bool is_wanted(struct muster_client *client)
{
    int64_t wanted = 0;
    int64_t node = -1;

    return (client->role == MST_ROLE_RANK || client->role == MST_ROLE_WORKER) && !client->helper &&
           !client->page && !client->ended && !client->closing &&
           mst_lib_setting("agent", &wanted, NULL, NULL) == MUSTER_OK && wanted != 0 &&
           mst_lib_setting("node", &node, NULL, NULL) == MUSTER_OK && node < 0;
}

static struct mst_lib_helper *helper_new(struct muster_client *client)
{
    struct mst_lib_helper *helper = calloc(1, sizeof(*helper));
    const struct mst_view *view = mst_lib_view(client);
    int page_fd = -1;

    if (!helper) {
        return NULL;
    }
    helper->link = helper->helper_fd = helper->starter.pidfd = helper->page_fd = -1;
    helper->secret_fd = high_copy(client->secret_fd);
    helper->self_fd = pidfd_of(getpid());
    if (helper->self_fd >= 0) {
        move_high(&helper->self_fd);
    }
    mst_lib_program(helper->program);
    (void)snprintf(helper->index, sizeof(helper->index), "%" PRIu32, view->index);
    (void)snprintf(helper->incarnation, sizeof(helper->incarnation), "%" PRIu64, view->incarnation);
    if (make_environment(&helper->environment, client) &&
        mst_page_create(&client->page, &page_fd) == MUSTER_OK) {
        helper->page_fd = page_fd;
        move_high(&helper->page_fd);
    }
    if (helper->page_fd < 0) {
        mst_page_unmap(client->page);
        client->page = NULL;
        helper_free(helper);
        return NULL;
    }
    make_arguments(helper, client);
    return helper;
}

static bool is_held(void *ctx)
{
    return ((const struct muster_client *)ctx)->page_held;
}

void mst_lib_helper_begin(struct muster_client *client)
{
    const struct mst_lib_hook hook = {.event = event,
                                      .rung = rung,
                                      .deadline_ns = deadline_ns,
                                      .tick = tick,
                                      .disowned = disowned,
                                      .release = end,
                                      .ctx = client};

    if (!is_wanted(client)) {
        return;
    }
    client->helper = helper_new(client);
    if (!client->helper) {
        mst_lib_log(client, MUSTER_LEVEL_WARN,
                    "no helper watches this process: out of memory or descriptors; its death is "
                    "noticed later, a hang not at all");
        return;
    }
    mst_lib_hook(client, MST_USER_HELPER, &hook);
    mst_lib_background_ring(client);
    (void)mst_lib_wait(client, is_held, client, NEVER);
    if (!client->poisoned && !client->closing) {
        try_start(client, mst_lib_now_ns());
    }
    mst_lib_wake_poller(client); /* it polls without the helper's descriptor */
}

void mst_lib_helper_abandon(struct mst_lib_helper *helper)
{
    if (helper) {
        close_if(&helper->link);
        close_if(&helper->helper_fd);
        close_if(&helper->starter.pidfd);
        close_if(&helper->page_fd);
        close_if(&helper->secret_fd);
        close_if(&helper->self_fd);
    }
}
