/* SPDX-License-Identifier: Apache-2.0 */
/* The sources of a node: the list of names, and real files and commands.
 *
 * behaviour: sources / Files, commands, ends that are known */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sources/shell/sources.h"

#define WAIT_MS 60000

/* Who is told, and waits for it. */
struct ear {
    struct mst_sources *sources;
    char folder[64];
    pthread_mutex_t lock;
    pthread_cond_t heard;
    unsigned told;
    char said[600];
};

static void on_told(void *ctx)
{
    struct ear *ear = ctx;

    (void)pthread_mutex_lock(&ear->lock);
    ear->told++;
    (void)pthread_cond_broadcast(&ear->heard);
    (void)pthread_mutex_unlock(&ear->lock);
}

static void on_say(void *ctx, const char *line)
{
    struct ear *ear = ctx;

    (void)pthread_mutex_lock(&ear->lock);
    (void)snprintf(ear->said, sizeof ear->said, "%s", line);
    (void)pthread_cond_broadcast(&ear->heard);
    (void)pthread_mutex_unlock(&ear->lock);
}

static void setup(struct ear *ear)
{
    *ear = (struct ear){.folder = "/tmp/muster-sources-XXXXXX"};
    (void)pthread_mutex_init(&ear->lock, NULL);
    (void)pthread_cond_init(&ear->heard, NULL);
    assert_non_null(mkdtemp(ear->folder));
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *place)
{
    (void)about;
    (void)kind;
    (void)place;
    return remove(path);
}

static void teardown(struct ear *ear)
{
    mst_sources_close(ear->sources);
    assert_int_equal(nftw(ear->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static muster_status listen_for(struct ear *ear, const char *list, char *why, size_t room)
{
    const struct mst_sources_options options = {.list = list,
                                                .period_ms = 5,
                                                .margin_ms = 60000,
                                                .grace_ms = 30000,
                                                .told = on_told,
                                                .say = on_say,
                                                .ctx = ear};

    return mst_sources_open(&ear->sources, &options, why, room);
}

/* Each '@' of the list is the folder. */
static void begin(struct ear *ear, const char *list)
{
    char whole[512], why[400] = "";
    size_t used = 0;

    if (ear->folder[0] == '\0') {
        setup(ear);
    }
    for (; *list != '\0'; list++) {
        const char *add = *list == '@' ? ear->folder : (const char[]){*list, '\0'};

        assert_true(used + strlen(add) < sizeof whole);
        memcpy(whole + used, add, strlen(add) + 1);
        used += strlen(add);
    }
    if (listen_for(ear, whole, why, sizeof why) != MUSTER_OK) {
        fail_msg("%s", why);
    }
}

static void await(struct ear *ear, bool (*is)(struct ear *ear))
{
    struct timespec until;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_MS / 1000;
    (void)pthread_mutex_lock(&ear->lock);
    for (;;) {
        bool done;

        (void)pthread_mutex_unlock(&ear->lock); /* who tells holds a lock that is asked for here */
        done = is(ear);
        (void)pthread_mutex_lock(&ear->lock);
        if (done) {
            break;
        }
        if (pthread_cond_timedwait(&ear->heard, &ear->lock, &until) == ETIMEDOUT) {
            (void)pthread_mutex_unlock(&ear->lock);
            fail_msg("nothing was told; said: %s", ear->said);
        }
    }
    (void)pthread_mutex_unlock(&ear->lock);
}

static bool is_known(struct ear *ear)
{
    struct mst_sources_known known;

    return mst_sources_known(ear->sources, &known);
}

static bool is_unknown(struct ear *ear)
{
    return !is_known(ear);
}

static bool has_said(struct ear *ear)
{
    bool said;

    (void)pthread_mutex_lock(&ear->lock);
    said = ear->said[0] != '\0';
    (void)pthread_mutex_unlock(&ear->lock);
    return said;
}

static void put_file(const struct ear *ear, const char *text)
{
    char path[128], beside[160];
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/stop", ear->folder);
    (void)snprintf(beside, sizeof beside, "%s.new", path);
    file = fopen(beside, "w");
    assert_non_null(file);
    (void)fputs(text, file);
    (void)fclose(file);
    assert_int_equal(rename(beside, path), 0);
}

/* ---- the list ---- */

static void refused(const char *list, const char *why)
{
    char text[400] = "";

    assert_int_equal(mst_sources_check(list, text, sizeof text), MUSTER_EINVAL);
    if (strstr(text, why) == NULL) {
        fail_msg("'%s' is not in '%s'", why, text);
    }
    assert_null(strchr(text, '\n'));
}

/* A source's name is unknown, or lacks what it needs. The error lists the names. */
static void names(void **state)
{
    char why[400];

    (void)state;
    assert_int_equal(mst_sources_check("", why, sizeof why), MUSTER_OK);
    assert_int_equal(mst_sources_check("signals,file=/a=b,command=true x=1,deadline=90m,slurm,",
                                       why, sizeof why),
                     MUSTER_OK);
    refused("signal", "there is no source of notices 'signal'; there are: signals, file=PATH, "
                      "command=CMD, deadline=TIME, slurm");
    refused("signals,bogus=1", "'bogus'");
    refused("file", "'file' needs file=PATH");
    refused("command=", "'command' needs command=CMD");
    refused("slurm=now", "'slurm' takes no '=now'");
    refused("signals=TERM", "'signals' takes no '=TERM'");
    refused("deadline=1s,deadline=1s,deadline=1s,deadline=1s,deadline=1s,deadline=1s,deadline=1s,"
            "deadline=1s,deadline=1s,deadline=1s,deadline=1s,deadline=1s,deadline=1s,deadline=1s,"
            "deadline=1s,deadline=1s,deadline=1s",
            "more than 16");
}

/* A source cannot run here. One line says why. */
static void what_cannot_run_here(void **state)
{
    struct ear ear = {.told = 0};
    char why[400];

    (void)state;
    setup(&ear);
    (void)unsetenv("SLURM_JOB_ID");
    assert_int_equal(listen_for(&ear, "signals,slurm", why, sizeof why), MUSTER_EINVAL);
    assert_non_null(strstr(why, "SLURM_JOB_ID is not set"));
    assert_int_equal(listen_for(&ear, "deadline=soon", why, sizeof why), MUSTER_EINVAL);
    assert_non_null(strstr(why, "'soon' is neither a duration (90m) nor a time"));
    assert_null(ear.sources);
    teardown(&ear);
}

/* A list names the signals, or does not. The owner catches them only where they are named. */
static void signals_are_wanted_where_they_are_named(void **state)
{
    struct ear ear = {.told = 0};

    (void)state;
    begin(&ear, "file=@/stop,deadline=1h");
    assert_false(mst_sources_wants_signals(ear.sources));
    teardown(&ear);
    ear = (struct ear){.told = 0};
    begin(&ear, "signals,file=@/stop,deadline=1h");
    assert_true(mst_sources_wants_signals(ear.sources));
    teardown(&ear);
    assert_false(mst_sources_wants_signals(NULL));
}

/* ---- a file ---- */

/* The file of a source comes and goes. So does the notice. */
static void a_file_comes_and_goes(void **state)
{
    struct mst_sources_known known;
    struct ear ear = {.told = 0};
    char path[128];

    (void)state;
    begin(&ear, "file=@/stop");
    assert_false(is_known(&ear));
    put_file(&ear, "60s drain of the rack\n");
    await(&ear, is_known);
    assert_true(mst_sources_known(ear.sources, &known));
    assert_string_equal(known.source, "file");
    assert_string_equal(known.notice.reason, "drain of the rack");
    assert_false(known.assumed);
    assert_in_range(known.notice.left_ms, 1, 60000);
    (void)snprintf(path, sizeof path, "%s/stop", ear.folder);
    assert_int_equal(unlink(path), 0);
    await(&ear, is_unknown);
    teardown(&ear);
}

/* The file of a source is empty. It is there, and that is the notice. */
static void a_file_without_words(void **state)
{
    struct mst_sources_known known;
    struct ear ear = {.told = 0};

    (void)state;
    begin(&ear, "file=@/stop");
    put_file(&ear, "");
    await(&ear, is_known);
    assert_true(mst_sources_known(ear.sources, &known));
    assert_true(known.assumed);
    assert_in_range(known.notice.left_ms, 1, 30000);
    assert_non_null(strstr(known.notice.reason, "/stop is there"));
    teardown(&ear);
}

/* The file of a source is a folder, or a pipe without a writer. It is there, and that is the
 * notice; nothing waits for it. */
static void a_file_that_is_none(void **state)
{
    struct ear ear = {.told = 0};
    char path[128];

    (void)state;
    begin(&ear, "file=@/stop");
    (void)snprintf(path, sizeof path, "%s/stop", ear.folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    await(&ear, is_known);
    assert_int_equal(unlink(path), 0);
    await(&ear, is_unknown);
    assert_int_equal(mkdir(path, 0700), 0);
    await(&ear, is_known);
    teardown(&ear);
}

/* The file of a source was left from yesterday. A duration in it began when it was written. */
static void a_file_of_yesterday(void **state)
{
    struct mst_sources_known known;
    char path[128];
    struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, {.tv_sec = 1000000000}};
    struct ear ear = {.told = 0};

    (void)state;
    setup(&ear);
    put_file(&ear, "60s left behind\n");
    (void)snprintf(path, sizeof path, "%s/stop", ear.folder);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    begin(&ear, "file=@/stop");
    await(&ear, is_known);
    assert_true(mst_sources_known(ear.sources, &known));
    assert_int_equal(known.notice.left_ms, 0);
    teardown(&ear);
}

/* ---- a command ---- */

/* The command of a source says when. That is a notice. */
static void a_command_that_says_when(void **state)
{
    struct mst_sources_known known;
    struct ear ear = {.told = 0};

    (void)state;
    begin(&ear, "command=echo 45s by the site; echo more");
    await(&ear, is_known);
    assert_true(mst_sources_known(ear.sources, &known));
    assert_string_equal(known.source, "command");
    assert_string_equal(known.notice.reason, "by the site");
    assert_in_range(known.notice.left_ms, 1, 45000);
    teardown(&ear);
}

/* The command of a source does not know. That is said once. */
static void a_command_does_not_know(void **state)
{
    static const struct {
        const char *line, *said;
    } rows[] = {
        {"command=exit 3", "the command ended with status 3"},
        {"command=true", "the command ended with status 0 and said nothing"},
        {"command=kill -SEGV $$", "the command was ended by signal 11"},
        {"command=no-such-program-at-all 2>/dev/null", "the command ended with status 127"},
        {"command=yes", "the command said more than 4 KiB"},
        {"command=head -c 4097 /dev/zero", "the command said more than 4 KiB"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct ear ear = {.told = 0};

        begin(&ear, rows[i].line);
        await(&ear, has_said);
        if (strstr(ear.said, rows[i].said) == NULL) {
            fail_msg("'%s' was said of '%s'", ear.said, rows[i].line);
        }
        assert_false(is_known(&ear));
        teardown(&ear);
    }
}

/* What a source knows stays while its command fails; exit 1 takes it back. */
static void only_nothing_takes_back(void **state)
{
    struct ear ear = {.told = 0};
    char path[128];

    (void)state;
    begin(&ear, "command=test -e @/none && exit 1; test -e @/broken && exit 2; echo 60s x");
    await(&ear, is_known);
    (void)snprintf(path, sizeof path, "%s/broken", ear.folder);
    assert_int_equal(mkdir(path, 0700), 0);
    await(&ear, has_said);
    assert_true(is_known(&ear));
    (void)snprintf(path, sizeof path, "%s/none", ear.folder);
    assert_int_equal(mkdir(path, 0700), 0);
    await(&ear, is_unknown);
    teardown(&ear);
}

static bool is_there(struct ear *ear)
{
    char path[128];

    (void)snprintf(path, sizeof path, "%s/pid", ear->folder);
    return access(path, R_OK) == 0;
}

/* The command of a source hangs while the run ends. The end does not wait, and nothing of the
 * command is left. */
static void a_command_that_hangs(void **state)
{
    char path[128], text[32] = "";
    struct pollfd gone = {.events = POLLIN};
    struct ear ear = {.told = 0};
    FILE *file;

    (void)state;
    begin(&ear, "command=sleep 1000 & echo $! >@/new; mv @/new @/pid; echo 60s; wait");
    while (!is_there(&ear)) {
        (void)poll(NULL, 0, 5);
    }
    (void)snprintf(path, sizeof path, "%s/pid", ear.folder);
    file = fopen(path, "r");
    assert_non_null(fgets(text, sizeof text, file));
    (void)fclose(file);
    gone.fd = pidfd_open((pid_t)strtol(text, NULL, 10), 0);
    assert_true(gone.fd >= 0);
    mst_sources_close(ear.sources);
    ear.sources = NULL;
    assert_int_equal(poll(&gone, 1, WAIT_MS), 1);
    (void)close(gone.fd);
    teardown(&ear);
}

/* ---- together ---- */

/* Several sources know something. The worst of all counts. */
static void the_worst_of_all(void **state)
{
    struct mst_sources_known known;
    struct ear ear = {.told = 0};

    (void)state;
    begin(&ear, "signals,deadline=55s,file=@/stop");
    await(&ear, is_known);
    assert_true(mst_sources_known(ear.sources, &known));
    assert_string_equal(known.source, "deadline");
    assert_true(known.notice.whole_job);
    mst_sources_signal(ear.sources, "signal 15", false);
    assert_true(mst_sources_known(ear.sources, &known));
    assert_string_equal(known.source, "signals");
    assert_string_equal(known.notice.reason, "signal 15");
    assert_true(known.assumed);
    assert_in_range(known.notice.left_ms, 1, 30000);
    put_file(&ear, "5s now");
    for (;;) {
        assert_true(mst_sources_known(ear.sources, &known));
        if (strcmp(known.source, "file") == 0) {
            break;
        }
        (void)poll(NULL, 0, 5);
    }
    teardown(&ear);
}

static void a_deadline_far_away(void **state)
{
    struct ear ear = {.told = 0};

    (void)state;
    begin(&ear, "deadline=2h");
    assert_false(is_known(&ear));
    teardown(&ear);
}

/* `muster run` is in a batch script of Slurm. One line says that no early signal comes there. */
static void in_a_batch_script(void **state)
{
    struct ear ear = {.told = 0};

    (void)state;
    assert_int_equal(setenv("SLURM_JOB_ID", "17", 1), 0);
    assert_int_equal(setenv("SLURM_JOB_END_TIME", "1000000000", 1), 0);
    (void)unsetenv("SLURM_STEP_ID");
    begin(&ear, "slurm");
    assert_non_null(strstr(ear.said, "start it with srun"));
    await(&ear, is_known);
    teardown(&ear);
    ear = (struct ear){.told = 0};
    assert_int_equal(setenv("SLURM_STEP_ID", "0", 1), 0);
    (void)unsetenv("SLURM_JOB_END_TIME");
    begin(&ear, "slurm");
    assert_string_equal(ear.said, "");
    assert_false(is_known(&ear));
    teardown(&ear);
    (void)unsetenv("SLURM_JOB_ID");
    (void)unsetenv("SLURM_STEP_ID");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(what_cannot_run_here),
        cmocka_unit_test(signals_are_wanted_where_they_are_named),
        cmocka_unit_test(a_file_comes_and_goes),
        cmocka_unit_test(a_file_without_words),
        cmocka_unit_test(a_file_that_is_none),
        cmocka_unit_test(a_file_of_yesterday),
        cmocka_unit_test(a_command_that_says_when),
        cmocka_unit_test(a_command_does_not_know),
        cmocka_unit_test(only_nothing_takes_back),
        cmocka_unit_test(a_command_that_hangs),
        cmocka_unit_test(the_worst_of_all),
        cmocka_unit_test(a_deadline_far_away),
        cmocka_unit_test(in_a_batch_script),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
