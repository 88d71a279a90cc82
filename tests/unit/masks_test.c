/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever starts a thread or a process blocks signals for a moment: afterwards its caller's mask
 * is what it was, and a program that is started has none of it.
 *
 * behaviour: run / Descriptors and signals */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "library_stage.h"
#include "process/death.h"
#include "process/keeper.h"
#include "process/output.h"
#include "process/page.h"
#include "process/spawn.h"

/* One that nobody else would choose. */
static sigset_t mine;

static int setup(void **state)
{
    int status = library_stage_setup(state);

    (void)sigemptyset(&mine);
    (void)sigaddset(&mine, SIGUSR2);
    (void)sigaddset(&mine, SIGWINCH);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &mine, NULL), 0);
    return status;
}

static void assert_mine(const char *after)
{
    sigset_t now;

    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &now), 0);
    for (int number = 1; number < SIGRTMAX; number++) {
        if (sigismember(&now, number) != sigismember(&mine, number)) {
            fail_msg("after %s: signal %d is %sblocked", after, number,
                     sigismember(&now, number) == 1 ? "" : "not ");
        }
    }
}

/* The signals that this process ignores, a bit for each, the lowest for signal 1. Not by sigaction:
 * programs that make(1) starts ignore signals 32 and 33, which the C library shows to nobody. */
static uint64_t ignored(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    uint64_t found = 0;

    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, "SigIgn:", 7) == 0) {
            found = strtoull(line + 7, NULL, 16);
        }
    }
    (void)fclose(file);
    return found;
}

static void started(char *program, int expected)
{
    const uint64_t pipe = UINT64_C(1) << (SIGPIPE - 1);
    char *arguments[] = {program, (char[]){"-E"}, (char[]){"^Sig(Blk|Ign)"},
                         (char[]){"/proc/self/status"}, NULL};
    char *environment[] = {NULL};
    char said[256] = "", expects[64], file[] = "/tmp/masks-XXXXXX";
    int out = mkstemp(file);
    struct mst_spawn spawn = {.program = program,
                              .arguments = arguments,
                              .environment = environment,
                              .out = out,
                              .error = -1,
                              .input = MST_SPAWN_NOWHERE};
    pid_t pid = 0;

    assert_true(out >= 0);
    (void)unlink(file);
    assert_int_equal(mst_spawn_tied(&spawn, SIGKILL, false, &pid), expected);
    assert_mine(expected == 0 ? "a start" : "a start that failed");
    if (pid > 0) {
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        assert_true(pread(out, said, sizeof said - 1, 0) > 0);
        assert_non_null(strstr(said, "SigBlk:\t0000000000000000\n"));
        /* What this process ignores, as nohup has it, it ignores too; but for SIGPIPE. */
        (void)snprintf(expects, sizeof expects, "SigIgn:\t%016" PRIx64 "\n", ignored() & ~pipe);
        assert_non_null(strstr(said, expects));
    }
    (void)close(out);
}

/* An agent starts a thread or a process, and blocks signals for that moment. The signal mask of
 * its caller is what it was; a started program blocks none and ignores what `muster run` does. */
static void what_the_agent_starts(void **state)
{
    struct mst_keeper keeper;
    struct mst_output *output;
    struct mst_death *death;
    struct mst_page *page;
    char program[PATH_MAX];
    int fd;

    (void)state;
    assert_int_equal(mst_spawn_find("grep", program), 0);
    (void)signal(SIGHUP, SIG_IGN);
    (void)signal(SIGPIPE, SIG_IGN);
    assert_true(ignored() & 1);
    started(program, 0);
    (void)signal(SIGHUP, SIG_DFL);
    (void)signal(SIGPIPE, SIG_DFL);
    started((char[]){"/no/such/program"}, ENOENT);
    assert_true(mst_keeper_start(&keeper, 1, 0));
    assert_mine("a keeper");
    mst_keeper_stop(&keeper);
    assert_int_equal(mst_output_new(&output, false), MUSTER_OK);
    assert_mine("an output");
    mst_output_free(output);
    for (int way = MST_DEATH_BEST; way <= MST_DEATH_ONE_EACH; way++) {
        assert_int_equal(mst_death_new(&death, NULL, NULL, (enum mst_death_way)way), MUSTER_OK);
        assert_int_equal(mst_page_create(&page, &fd), MUSTER_OK);
        assert_int_equal(mst_death_add(death, 0, page), MUSTER_OK);
        assert_mine("a waiter for deaths");
        mst_death_free(death);
        mst_page_unmap(page);
        (void)close(fd);
    }
}

static muster_status in_the_function(muster_restart *restart, void *arg)
{
    sigset_t now;

    (void)restart;
    /* But for the signal that interrupts: that is not blocked here, and was not before. */
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &now), 0);
    *(bool *)arg = sigismember(&now, SIGUSR2) == 1 && sigismember(&now, SIGTERM) == 0;
    return MUSTER_OK;
}

static muster_status nothing(muster_restart *restart, void *arg)
{
    (void)restart;
    (void)arg;
    return MUSTER_OK;
}

static muster_status no_notice(void *ctx, struct muster_notice_given *out)
{
    (void)ctx;
    (void)out;
    return MUSTER_MORE;
}

/* The library starts a thread or a process. The signal mask of its caller is what it was; a
 * started program blocks none. */
static void what_the_library_starts(void **state)
{
    struct muster_preempt_source source = {.name = "mine", .poll = no_notice};
    struct muster_preempt_options preempts = MUSTER_PREEMPT_OPTIONS_INIT;
    struct muster_restart_options options = MUSTER_RESTART_OPTIONS_INIT;
    struct muster_restart_hook step = {.call = nothing};
    struct muster_error err;
    muster_client *client;
    muster_preempt *preempt;
    muster_heartbeat *heartbeat;
    muster_cluster *cluster;
    bool kept = false;

    (void)state;
    client = library_alone();
    assert_mine("muster_client_open");
    preempts.sources = &source;
    preempts.source_count = 1;
    library_ok(muster_preempt_open(&preempt, client, &preempts, &err), &err);
    assert_mine("muster_preempt_open");
    options.abort = (struct muster_restart_hooks){.list = &step, .count = 1};
    options.health_command = "true";
    library_ok(muster_restart_run(client, &options, in_the_function, &kept, &err), &err);
    assert_true(kept);
    assert_mine("muster_restart_run");
    library_ok(muster_heartbeat_start(&heartbeat, client, NULL, &err), &err);
    assert_mine("muster_heartbeat_start");
    muster_heartbeat_stop(heartbeat);
    library_ok(muster_cluster_open(&cluster, client, NULL, LIMIT_MS, &err), &err);
    assert_mine("muster_cluster_open");
    muster_cluster_close(cluster);
    muster_preempt_close(preempt);
    muster_client_close(client);
    assert_mine("all was closed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_agent_starts),
        cmocka_unit_test(what_the_library_starts),
    };

    return cmocka_run_group_tests(tests, setup, library_stage_teardown);
}
