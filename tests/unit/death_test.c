/* SPDX-License-Identifier: Apache-2.0 */
/* behaviour: run / How a death is known */

/* The waiter for deaths against real processes: this program starts itself as the victims. */

#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "process/death.h"

/* ---- the victims: `death_test victim MODE`, page on descriptor 3, orders on 0, answers on 1 ----
 */

#define PAGE_FD 3
#define DUMPS "death_test.dumps" /* a folder beside wherever the test runs */

static struct mst_page *own_page;

static void say(char what)
{
    if (write(1, &what, 1) != 1) {
        _exit(3);
    }
}

static void wait_for_order(void)
{
    char order;

    if (read(0, &order, 1) != 1) {
        _exit(4);
    }
}

static void *holder_main(void *arg)
{
    (void)arg;
    if (!mst_page_hold(own_page)) {
        _exit(5);
    }
    say('h');
    if (own_page->pings == 1) { /* set by main for the modes that close */
        wait_for_order();
        mst_page_release(own_page);
        say('r');
        return NULL;
    }
    for (;;) {
        (void)pause();
    }
}

static void *short_lived_main(void *arg)
{
    return arg;
}

static void dump_limit(rlim_t bytes)
{
    struct rlimit limit = {bytes, bytes};

    (void)setrlimit(RLIMIT_CORE, &limit);
}

static void crash(void)
{
    (void)signal(SIGSEGV, SIG_DFL);
    (void)raise(SIGSEGV);
}

static void child_exits(void)
{
    pid_t child = fork();

    if (child == 0) {
        _exit(0);
    }
    (void)waitpid(child, NULL, 0);
}

static void thread_ends(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, short_lived_main, NULL) == 0) {
        (void)pthread_join(thread, NULL);
    }
}

static void become_another(void)
{
    (void)execl("/proc/self/exe", "death_test", "victim", "other", (char *)NULL);
    _exit(6);
}

static _Noreturn void compute(void)
{
    for (volatile unsigned long i = 0;; i++) {
    }
}

static int victim(const char *mode)
{
    pthread_t thread = pthread_self();

    if (strcmp(mode, "other") == 0) {
        say('o');
        wait_for_order();
        return 0;
    }
    if (mst_page_map(&own_page, PAGE_FD) != MUSTER_OK) {
        return 2;
    }
    dump_limit(strcmp(mode, "dump") == 0 ? RLIM_INFINITY : 1);
    own_page->pings = strcmp(mode, "close") == 0 || strcmp(mode, "close-exec") == 0;
    if (strcmp(mode, "none") == 0) {
        say('h');
    } else if (pthread_create(&thread, NULL, holder_main, NULL) != 0) {
        return 2;
    }
    if (strcmp(mode, "compute") == 0) {
        compute();
    }
    if (own_page->pings == 1) {
        (void)pthread_join(thread, NULL);
    } else {
        wait_for_order();
    }
    if (strcmp(mode, "crash") == 0 || strcmp(mode, "dump") == 0) {
        if (chdir(DUMPS) != 0) {
            return 2;
        }
        crash();
    } else if (strcmp(mode, "exec") == 0 || strcmp(mode, "close-exec") == 0) {
        become_another();
    } else if (strcmp(mode, "child") == 0) {
        child_exits();
        say('c');
    } else if (strcmp(mode, "thread") == 0) {
        thread_ends();
        say('c');
    } else {
        return 0;
    }
    wait_for_order();
    return 0;
}

/* ---- the side that watches ---- */

struct rank {
    struct mst_page *page;
    int page_fd, orders, answers;
    pid_t pid;
};

struct scene {
    struct mst_death *death;
    int told, tell; /* a pipe of tags */
};

static void told(void *ctx, uint64_t tag)
{
    struct scene *scene = ctx;

    if (write(scene->tell, &tag, sizeof tag) != (ssize_t)sizeof tag) {
        abort();
    }
}

static void scene_open(struct scene *scene, enum mst_death_way way)
{
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    scene->told = ends[0];
    scene->tell = ends[1];
    assert_int_equal(mst_death_new(&scene->death, told, scene, way), MUSTER_OK);
}

static bool ready(int fd, int timeout_ms)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    int count;

    do {
        count = poll(&poll_fd, 1, timeout_ms);
    } while (count < 0 && errno == EINTR);
    return count == 1;
}

static uint64_t next_told(const struct scene *scene)
{
    uint64_t tag = 0;

    assert_true(ready(scene->told, 20000));
    assert_int_equal(read(scene->told, &tag, sizeof tag), sizeof tag);
    return tag;
}

/* What was told is in the pipe once no thread is left to tell. */
static void scene_close(struct scene *scene)
{
    mst_death_free(scene->death);
    assert_false(ready(scene->told, 0));
    close(scene->told);
    close(scene->tell);
}

static void hear(const struct rank *rank, char expected)
{
    char heard = 0;

    assert_true(ready(rank->answers, 20000));
    assert_int_equal(read(rank->answers, &heard, 1), 1);
    assert_int_equal(heard, expected);
}

static void order(const struct rank *rank)
{
    assert_int_equal(write(rank->orders, "o", 1), 1);
}

static void rank_spawn(struct rank *rank, const char *mode)
{
    char *arguments[] = {(char[]){"death_test"}, (char[]){"victim"}, strdup(mode), NULL};
    char *environment[] = {(char[]){"ASAN_OPTIONS=handle_segv=0:detect_leaks=0"}, NULL};
    posix_spawn_file_actions_t actions;
    int in[2], out[2];

    assert_int_equal(mst_page_create(&rank->page, &rank->page_fd), MUSTER_OK);
    assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC), 0);
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    (void)posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    (void)posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    (void)posix_spawn_file_actions_adddup2(&actions, rank->page_fd, PAGE_FD);
    assert_int_equal(
        posix_spawn(&rank->pid, "/proc/self/exe", &actions, NULL, arguments, environment), 0);
    (void)posix_spawn_file_actions_destroy(&actions);
    free(arguments[2]);
    close(in[0]);
    close(out[1]);
    rank->orders = in[1];
    rank->answers = out[0];
}

static void rank_start(struct rank *rank, const char *mode)
{
    rank_spawn(rank, mode);
    hear(rank, 'h');
}

static void reap(const struct rank *rank)
{
    int status;

    assert_int_equal(waitpid(rank->pid, &status, 0), rank->pid);
}

static void rank_end(struct rank *rank)
{
    (void)kill(rank->pid, SIGKILL);
    (void)waitpid(rank->pid, NULL, 0);
    mst_page_unmap(rank->page);
    close(rank->page_fd);
    close(rank->orders);
    close(rank->answers);
}

/* A death told after whatever came before: had that been told too, it would be told first. */
static void only_the_kill_is_told(struct scene *scene, struct rank *rank, uint64_t tag)
{
    assert_false(mst_page_died(rank->page));
    assert_int_equal(kill(rank->pid, SIGKILL), 0);
    assert_int_equal(next_told(scene), tag);
    assert_true(mst_page_died(rank->page));
    rank_end(rank);
    scene_close(scene);
}

static enum mst_death_way way_of(void **state)
{
    return *(const enum mst_death_way *)*state;
}

/* A rank of any size is killed, also while it computes. The others are notified at once. */
static void a_kill_is_told_while_the_victim_computes(void **state)
{
    struct scene scene;
    struct rank rank;

    scene_open(&scene, way_of(state));
    rank_start(&rank, "compute");
    assert_int_equal(mst_death_add(scene.death, 17, rank.page), MUSTER_OK);
    only_the_kill_is_told(&scene, &rank, 17);
}

/* A progress page is watched before its client is open. The death is reported all the same. */
static void a_page_may_be_watched_before_it_is_held(void **state)
{
    struct scene scene;
    struct rank rank;

    scene_open(&scene, way_of(state));
    rank_spawn(&rank, "compute");
    assert_int_equal(mst_death_add(scene.death, 1, rank.page), MUSTER_OK);
    hear(&rank, 'h');
    only_the_kill_is_told(&scene, &rank, 1);
}

/* A rank died before it is watched. The death is reported all the same. */
static void a_death_before_it_is_watched_is_told(void **state)
{
    struct scene scene;
    struct rank rank;

    scene_open(&scene, way_of(state));
    rank_start(&rank, "compute");
    assert_int_equal(kill(rank.pid, SIGKILL), 0);
    reap(&rank);
    assert_int_equal(mst_death_add(scene.death, 2, rank.page), MUSTER_OK);
    assert_int_equal(next_told(&scene), 2);
    rank_end(&rank);
    scene_close(&scene);
}

static void dies_by_order(enum mst_death_way way, const char *mode)
{
    struct scene scene;
    struct rank rank;

    scene_open(&scene, way);
    rank_start(&rank, mode);
    assert_int_equal(mst_death_add(scene.death, 3, rank.page), MUSTER_OK);
    order(&rank);
    assert_int_equal(next_told(&scene), 3);
    rank_end(&rank);
    scene_close(&scene);
}

/* A rank crashes without a core dump. It is reported at once. */
static void a_crash_without_a_dump_is_told(void **state)
{
    dies_by_order(way_of(state), "crash");
}

static int dumps_make(void **state)
{
    (void)state;
    return mkdir(DUMPS, 0700) == 0 || errno == EEXIST ? 0 : -1;
}

/* A dump is named core, core.PID or as the machine likes. */
static int dumps_remove(void **state)
{
    DIR *folder = opendir(DUMPS);
    const struct dirent *entry;

    (void)state;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        (void)unlinkat(dirfd(folder), entry->d_name, 0);
    }
    if (folder != NULL) {
        (void)closedir(folder);
    }
    return rmdir(DUMPS);
}

/* A rank crashes with a core dump. It is reported when the dump is written. */
static void a_crash_with_a_dump_is_told(void **state)
{
    dies_by_order(way_of(state), "dump");
}

/* A rank exits without closing its client. That is a death. */
static void an_exit_without_close_is_told(void **state)
{
    dies_by_order(way_of(state), "exit");
}

/* A rank becomes another program without closing its client. That is a death. */
static void an_exec_without_close_is_told(void **state)
{
    struct scene scene;
    struct rank rank;

    scene_open(&scene, way_of(state));
    rank_start(&rank, "exec");
    assert_int_equal(mst_death_add(scene.death, 4, rank.page), MUSTER_OK);
    order(&rank);
    assert_int_equal(next_told(&scene), 4);
    hear(&rank, 'o'); /* though the process lives */
    rank_end(&rank);
    scene_close(&scene);
}

/* A rank closes its client and then ends. That is no death. */
static void a_close_is_not_told(void **state)
{
    struct scene scene;
    struct rank rank;

    scene_open(&scene, way_of(state));
    rank_start(&rank, "close");
    assert_int_equal(mst_death_add(scene.death, 5, rank.page), MUSTER_OK);
    order(&rank);
    hear(&rank, 'r');
    reap(&rank);
    assert_false(mst_page_died(rank.page));
    mst_death_remove(scene.death, 5);
    rank_end(&rank);
    scene_close(&scene);
}

/* A rank closes its client and then becomes another program. That is no death. */
static void an_exec_after_close_is_not_told(void **state)
{
    struct scene scene;
    struct rank rank;

    scene_open(&scene, way_of(state));
    rank_start(&rank, "close-exec");
    assert_int_equal(mst_death_add(scene.death, 6, rank.page), MUSTER_OK);
    order(&rank);
    hear(&rank, 'r');
    hear(&rank, 'o');
    assert_false(mst_page_died(rank.page));
    mst_death_remove(scene.death, 6);
    rank_end(&rank);
    scene_close(&scene);
}

static void only_the_later_kill_is_told(enum mst_death_way way, const char *mode)
{
    struct scene scene;
    struct rank rank;

    scene_open(&scene, way);
    rank_start(&rank, mode);
    assert_int_equal(mst_death_add(scene.death, 7, rank.page), MUSTER_OK);
    order(&rank);
    hear(&rank, 'c');
    only_the_kill_is_told(&scene, &rank, 7);
}

/* Another thread of the rank, or a child of it, ends. That is no death. */
static void the_end_of_a_forked_child_is_not_told(void **state)
{
    only_the_later_kill_is_told(way_of(state), "child");
}

/* Another thread of the rank, or a child of it, ends. That is no death. */
static void the_end_of_another_thread_is_not_told(void **state)
{
    only_the_later_kill_is_told(way_of(state), "thread");
}

/* A rank is stopped and continued within its lease. That is no death. */
static void a_stopped_one_is_not_told(void **state)
{
    struct scene scene;
    struct rank rank;
    int status;

    scene_open(&scene, way_of(state));
    rank_start(&rank, "compute");
    assert_int_equal(mst_death_add(scene.death, 8, rank.page), MUSTER_OK);
    assert_int_equal(kill(rank.pid, SIGSTOP), 0);
    assert_int_equal(waitpid(rank.pid, &status, WUNTRACED), rank.pid);
    assert_true(WIFSTOPPED(status));
    only_the_kill_is_told(&scene, &rank, 8);
}

/* A rank is no longer watched. Its page is not looked at again. */
static void a_removed_one_is_not_told(void **state)
{
    struct scene scene;
    struct rank one, other;

    scene_open(&scene, way_of(state));
    rank_start(&one, "compute");
    rank_start(&other, "compute");
    assert_int_equal(mst_death_add(scene.death, 1, one.page), MUSTER_OK);
    assert_int_equal(mst_death_add(scene.death, 2, other.page), MUSTER_OK);
    mst_death_remove(scene.death, 1);
    mst_death_remove(scene.death, 99);
    rank_end(&one); /* the page is unmapped: nobody may look at it */
    only_the_kill_is_told(&scene, &other, 2);
}

/* A process has no client. Its end is not reported. */
static void a_process_without_a_client_is_not_told(void **state)
{
    struct scene scene;
    struct rank rank;

    scene_open(&scene, way_of(state));
    rank_start(&rank, "none");
    assert_int_equal(mst_death_add(scene.death, 1, rank.page), MUSTER_OK);
    order(&rank);
    reap(&rank);
    assert_false(mst_page_died(rank.page));
    mst_death_remove(scene.death, 1);
    rank_end(&rank);
    scene_close(&scene);
}

/* 130 pages held by the threads of one victim would be one death; so: processes of one thread. */
#define MANY 130

static pid_t light_victim(struct mst_page *page, int page_fd, int answers)
{
    pid_t pid = fork();

    (void)page_fd;
    if (pid == 0) {
        bool held = mst_page_hold(page);

        if (!held || write(answers, "h", 1) != 1) {
            _exit(1);
        }
        for (;;) {
            (void)pause();
        }
    }
    return pid;
}

/* There are more ranks than one system call can wait for, or the kernel is too old for that
 * call. Each death is reported once. */
static void many_are_watched_and_each_is_told(void **state)
{
    static struct mst_page *pages[MANY];
    static pid_t pids[MANY];
    static unsigned seen[MANY];
    struct scene scene;
    int ends[2], fd;
    char heard;

    (void)memset(seen, 0, sizeof seen);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    for (unsigned i = 0; i < MANY; i++) { /* before there are threads here */
        assert_int_equal(mst_page_create(&pages[i], &fd), MUSTER_OK);
        pids[i] = light_victim(pages[i], fd, ends[1]);
        close(fd);
        assert_int_equal(read(ends[0], &heard, 1), 1);
    }
    scene_open(&scene, way_of(state));
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(mst_death_add(scene.death, i, pages[i]), MUSTER_OK);
    }
    if (way_of(state) == MST_DEATH_ONE_EACH) {
        assert_int_equal(mst_death_threads(scene.death), MANY);
    } else {
        assert_true(mst_death_threads(scene.death) == 2 || mst_death_threads(scene.death) == MANY);
    }
    assert_int_equal(kill(pids[MANY - 1], SIGKILL), 0);
    assert_int_equal(next_told(&scene), MANY - 1);
    seen[MANY - 1]++;
    for (unsigned i = 0; i < MANY - 1; i++) {
        assert_int_equal(kill(pids[i], SIGKILL), 0);
    }
    for (unsigned i = 0; i < MANY - 1; i++) {
        uint64_t tag = next_told(&scene);

        assert_true(tag < MANY);
        seen[tag]++;
    }
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(seen[i], 1);
        assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
    }
    scene_close(&scene);
    for (unsigned i = 0; i < MANY; i++) {
        mst_page_unmap(pages[i]);
    }
    close(ends[0]);
    close(ends[1]);
}

#define BOTH_WAYS(test)                                                                            \
    {#test, test, NULL, NULL, &best},                                                              \
    {                                                                                              \
#test " (one thread each)", test, NULL, NULL, &one_each                                    \
    }

int main(int count, char **arguments)
{
    static enum mst_death_way best = MST_DEATH_BEST, one_each = MST_DEATH_ONE_EACH;
    const struct CMUnitTest tests[] = {
        BOTH_WAYS(many_are_watched_and_each_is_told),
        BOTH_WAYS(a_kill_is_told_while_the_victim_computes),
        BOTH_WAYS(a_page_may_be_watched_before_it_is_held),
        BOTH_WAYS(a_death_before_it_is_watched_is_told),
        BOTH_WAYS(a_crash_without_a_dump_is_told),
        BOTH_WAYS(a_crash_with_a_dump_is_told),
        BOTH_WAYS(an_exit_without_close_is_told),
        BOTH_WAYS(an_exec_without_close_is_told),
        BOTH_WAYS(a_close_is_not_told),
        BOTH_WAYS(an_exec_after_close_is_not_told),
        BOTH_WAYS(the_end_of_a_forked_child_is_not_told),
        BOTH_WAYS(the_end_of_another_thread_is_not_told),
        BOTH_WAYS(a_stopped_one_is_not_told),
        BOTH_WAYS(a_removed_one_is_not_told),
        BOTH_WAYS(a_process_without_a_client_is_not_told),
    };

    if (count == 3 && strcmp(arguments[1], "victim") == 0) {
        return victim(arguments[2]);
    }
    return cmocka_run_group_tests(tests, dumps_make, dumps_remove);
}
