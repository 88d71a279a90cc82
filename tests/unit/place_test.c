/* SPDX-License-Identifier: Apache-2.0 */
/* What the service says of a place, and whom that concerns: it comes late, when another process may
 * be there.
 *
 * behaviour: run / Deaths and respawn */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/job.h"
#include "launch/say.h"
#include "library_stage.h"
#include "process/spawn.h"

enum { INDEX = 3, FIRST_PID = 1234567 }; /* of the process that was there before */

struct stage {
    struct mst_run_job job;
    struct mst_run_options options;
    struct mst_place places[4];
    struct mst_process process;
};

/* A process in the place, which leads a group of its own. */
static struct stage *stage_new(void)
{
    struct stage *stage = calloc(1, sizeof *stage);
    pid_t pid = fork();

    if (pid == 0) {
        for (;;) {
            (void)pause();
        }
    }
    assert_true(pid > 0);
    assert_int_equal(setpgid(pid, pid), 0);
    assert_non_null(stage);
    stage->process = (struct mst_process){.index = INDEX, .rank = MST_RANK_NONE, .pid = pid};
    stage->job = (struct mst_run_job){.options = &stage->options,
                                      .places = {.list = stage->places, .count = 4},
                                      .reach = {.listener = -1}};
    stage->places[INDEX] = (struct mst_place){.job = &stage->job,
                                              .slot = INDEX,
                                              .index = INDEX,
                                              .state = MST_PLACE_RUNS,
                                              .process = &stage->process};
    (void)pthread_mutex_init(&stage->job.shared.lock, NULL);
    assert_int_equal(uv_loop_init(&stage->job.loop), 0);
    assert_int_equal(uv_async_init(&stage->job.loop, &stage->job.shared.woken, NULL), 0);
    return stage;
}

static void stage_free(struct stage *stage)
{
    uv_close((uv_handle_t *)&stage->job.shared.woken, NULL);
    (void)uv_run(&stage->job.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&stage->job.loop), 0);
    (void)pthread_mutex_destroy(&stage->job.shared.lock);
    free(stage);
}

static void say(struct stage *stage, uint64_t pid, enum mst_cause cause)
{
    const struct mst_who who = {.index = INDEX,
                                .rank = 2,
                                .pid = pid,
                                .role = MST_ROLE_RANK,
                                .state = cause != MST_CAUSE_NONE ? MST_STATE_LOST : MST_PRESENT,
                                .cause = cause};

    mst_place_member(&stage->job, &who);
}

static const enum mst_cause given_up[] = {MST_CAUSE_LEASE, MST_CAUSE_EVICTED};

/* The service reports late the loss of a process that has been replaced. The one in its place
 * goes on: the report is of a process, by the pid that opened the client. */
static void the_loss_of_the_one_before_does_not_end_the_one_in_its_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(given_up) / sizeof(given_up[0]); i++) {
        struct stage *stage = stage_new();

        say(stage, FIRST_PID, given_up[i]);
        assert_int_equal(stage->process.end, MST_PROCESS_RUNS);
        assert_int_equal(stage->process.verdict, MST_CAUSE_NONE);
        assert_false(stage->process.joined);
        assert_int_equal(waitpid(stage->process.pid, NULL, WNOHANG), 0);
        (void)kill(stage->process.pid, SIGKILL);
        (void)waitpid(stage->process.pid, NULL, 0);
        stage_free(stage);
    }
}

/* A rank runs behind a shell. The process of the page counts, which opened the client. */
static void behind_a_shell_the_one_of_the_page_counts(void **state)
{
    struct stage *stage = stage_new();
    int fd;

    (void)state;
    assert_int_equal(mst_page_create(&stage->process.page, &fd), MUSTER_OK);
    atomic_store(&stage->process.page->pid, FIRST_PID + 1);
    say(stage, FIRST_PID, MST_CAUSE_LEASE);
    say(stage, (uint64_t)stage->process.pid, MST_CAUSE_LEASE);
    assert_int_equal(stage->process.end, MST_PROCESS_RUNS);
    say(stage, FIRST_PID + 1, MST_CAUSE_LEASE);
    assert_int_equal(stage->process.end, MST_PROCESS_DEAD);
    (void)waitpid(stage->process.pid, NULL, 0);
    mst_page_unmap(stage->process.page);
    (void)close(fd);
    stage_free(stage);
}

/* A place's process was lost to the job. It is killed. */
static void who_was_given_up_is_killed(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(given_up) / sizeof(given_up[0]); i++) {
        struct stage *stage = stage_new();
        int status;

        say(stage, (uint64_t)stage->process.pid, MST_CAUSE_NONE);
        assert_true(stage->process.joined);
        assert_int_equal(stage->process.rank, 2);
        say(stage, (uint64_t)stage->process.pid, given_up[i]);
        assert_int_equal(stage->process.end, MST_PROCESS_DEAD);
        assert_int_equal(stage->process.verdict, given_up[i]);
        assert_int_equal(waitpid(stage->process.pid, &status, 0), stage->process.pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        stage_free(stage);
    }
}

/* A process is gone, and its number may be another one's. It is not killed. */
static void who_is_gone_is_killed_by_nobody(void **state)
{
    struct stage *stage = stage_new();

    (void)state;
    stage->process.end = MST_PROCESS_GONE;
    say(stage, (uint64_t)stage->process.pid, MST_CAUSE_LEASE);
    assert_int_equal(stage->process.verdict, MST_CAUSE_NONE);
    assert_int_equal(waitpid(stage->process.pid, NULL, WNOHANG), 0);
    (void)kill(stage->process.pid, SIGKILL);
    (void)waitpid(stage->process.pid, NULL, 0);
    stage_free(stage);
}

static int spawn_error;

/* NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming): the linker's name */
int __wrap_mst_spawn_tied(const struct mst_spawn *spawn, int death_signal, bool dump, pid_t *pid);

/* NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming): the linker's name */
int __wrap_mst_spawn_tied(const struct mst_spawn *spawn, int death_signal, bool dump, pid_t *pid)
{
    (void)spawn;
    (void)death_signal;
    (void)dump;
    (void)pid;
    return spawn_error;
}

/* A process cannot be started now, as the system lacks something. It is started later, and its
 * earlier failures are past. */
static void one_that_cannot_be_started_now_is_started_later(void **state)
{
    static const int errors[] = {EMFILE, ENFILE, EAGAIN, ENOMEM};
    char name[] = "rank", *arguments[] = {name, NULL};
    struct mst_run_program program = {.count = 1, .arguments = arguments};
    struct stage *stage = stage_new();
    struct mst_place *place = &stage->places[INDEX];

    (void)state;
    stage->options.programs = &program;
    stage->options.program_count = 1;
    stage->job.nodes.master_given = true;
    stage->process.joined = true;
    assert_int_equal(mst_output_new(&stage->job.output, false), MUSTER_OK);
    place->state = MST_PLACE_WAITS;
    place->early = 7;
    assert_int_equal(uv_timer_init(&stage->job.loop, &place->again), 0);
    place->again.data = place;
    for (uint32_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        spawn_error = errors[i];
        mst_place_go_on(place, true);
        assert_int_equal(place->early, 0);
        (void)uv_run(&stage->job.loop, UV_RUN_NOWAIT);
        assert_int_equal(place->start_error, errors[i]);
        assert_string_equal(mst_said_last(), "#3 could not be started; trying again in 1 s");
        assert_true(uv_is_active((uv_handle_t *)&place->again));
        assert_int_equal(place->state, MST_PLACE_WAITS);
        assert_int_equal(stage->job.end.how, MST_GOES_ON);
    }
    mst_environment_fini(&stage->job.environment);
    mst_output_free(stage->job.output);
    uv_close((uv_handle_t *)&place->again, NULL);
    (void)kill(stage->process.pid, SIGKILL);
    (void)waitpid(stage->process.pid, NULL, 0);
    stage_free(stage);
}

/* All are started again. None is held back for what befell its place before. */
static void when_all_are_started_again_none_is_held_back(void **state)
{
    char name[] = "rank", *arguments[] = {name, NULL};
    struct mst_run_program program = {.count = 1, .arguments = arguments};
    struct stage *stage = stage_new();

    (void)state;
    (void)kill(stage->process.pid, SIGKILL);
    (void)waitpid(stage->process.pid, NULL, 0);
    stage->options.programs = &program;
    stage->options.program_count = 1;
    stage->job.nodes.master_given = true;
    assert_int_equal(uv_timer_init(&stage->job.loop, &stage->job.end.grace), 0);
    assert_int_equal(mst_output_new(&stage->job.output, false), MUSTER_OK);
    stage->job.group.ends = true;
    mst_group_heard(&stage->job.group, 1, mst_slice_text(""));
    for (uint32_t i = 0; i < stage->job.places.count; i++) {
        stage->places[i] = (struct mst_place){
            .job = &stage->job, .slot = i, .index = i, .state = MST_PLACE_WAITS, .early = 3};
    }
    spawn_error = ENOENT; /* it goes no further here */
    mst_group_look(&stage->job);
    assert_int_equal(stage->places[0].start_error, ENOENT);
    assert_int_equal(stage->job.group.life, 1);
    for (uint32_t i = 0; i < stage->job.places.count; i++) {
        assert_int_equal(stage->places[i].early, 0);
    }
    uv_close((uv_handle_t *)&stage->job.end.grace, NULL);
    mst_environment_fini(&stage->job.environment);
    mst_output_free(stage->job.output);
    stage_free(stage);
}

static struct mst_lib_follow heard; /* what the run wants to be told */

/* NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming): the linker's name */
void __wrap_mst_session_watch(struct mst_run_session *session, uint32_t node);

/* NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming): the linker's name */
void __wrap_mst_session_watch(struct mst_run_session *session, uint32_t node)
{
    (void)node;
    heard = session->follow;
}

static void hear_key(const char *name)
{
    struct mst_item item = {
        .kind = MST_ITEM_KEY, .name = mst_slice_text(name), .value = mst_slice_text("1")};
    const struct mst_reply reply = {.items = &item, .item_count = 1};

    assert_int_equal(heard.take(heard.ctx, &reply), MUSTER_OK);
}

/* A group has finished its work on another node. That is known here, in the first attempt as in
 * any other. */
static void a_life_that_has_finished_elsewhere_is_known(void **state)
{
    struct stage *stage = stage_new();
    struct mst_run_job *job = &stage->job;
    struct mst_peer peers[2];
    uint32_t indices[4];

    (void)state;
    (void)kill(stage->process.pid, SIGKILL);
    (void)waitpid(stage->process.pid, NULL, 0);
    stage->options.nodes_max = 1; /* nobody is told */
    job->nodes.peers = peers;
    job->preempted.indices = indices;
    job->nodes.ranks_here =
        calloc(mst_run_indices(job->options) + 1, sizeof *job->nodes.ranks_here);
    assert_non_null(job->nodes.ranks_here);
    job->nodes.first = true;
    mst_nodes_begin(job);
    stage->options.nodes_max = 2;
    assert_false(mst_nodes_finished_elsewhere(job));
    hear_key(MST_SESSION_KEYS "finished/0");
    assert_true(mst_nodes_finished_elsewhere(job));
    job->group.life = 1;
    assert_false(mst_nodes_finished_elsewhere(job));
    hear_key(MST_SESSION_KEYS "finished/0");
    assert_false(mst_nodes_finished_elsewhere(job));
    hear_key(MST_SESSION_KEYS "finished/1");
    assert_true(mst_nodes_finished_elsewhere(job));
    free(job->nodes.ranks_here);
    stage_free(stage);
}

static struct mst_process *add(struct stage *stage, uint32_t index, bool joined)
{
    struct mst_process *process = calloc(1, sizeof *process);
    int in;

    assert_non_null(process);
    *process = (struct mst_process){.older = stage->job.places.processes,
                                    .index = index,
                                    .attempt = stage->places[index].attempts++,
                                    .joined = joined,
                                    .error_fd = -1,
                                    .end = MST_PROCESS_GONE};
    in = mst_output_open(stage->job.output, index, STDOUT_FILENO,
                         (struct mst_output_file){.fd = -1}, &process->out);
    assert_true(in >= 0);
    (void)close(in);
    stage->job.places.processes = process;
    return process;
}

static unsigned count(const struct stage *stage, uint32_t index)
{
    unsigned found = 0;

    for (const struct mst_process *one = stage->job.places.processes; one != NULL;
         one = one->older) {
        found += one->index == index;
    }
    return found;
}

/* A run lasts for weeks, and a place has many processes. The last eight of it are kept, and all
 * that may be the first cause: a death costs no memory for good. */
static void of_those_that_were_got_over_only_the_newest_are_kept(void **state)
{
    enum { MANY = 100, KEPT = 8 };
    struct stage *stage = stage_new();

    (void)state;
    assert_int_equal(mst_output_new(&stage->job.output, false), MUSTER_OK);
    stage->job.session.client = library_alone();
    for (int i = 0; i < MANY; i++) {
        (void)add(stage, 1, true);
        (void)add(stage, 2, false);
        add(stage, 3, true)->lost_count = i == 0;
        stage->job.places.processes->lost[0].delivery.owed = i == 0;

        for (uint32_t index = 1; index <= 3; index++) {
            mst_place_forget(&stage->job, index);
        }
    }
    assert_int_equal(count(stage, 1), KEPT);
    assert_int_equal(count(stage, 2), MANY);
    assert_int_equal(count(stage, 3), KEPT + 1); /* one death is still to be told */
    while (stage->job.places.processes != NULL) {
        struct mst_process *process = stage->job.places.processes;

        stage->job.places.processes = process->older;
        free(process);
    }
    muster_client_close(stage->job.session.client);
    mst_output_free(stage->job.output);
    (void)kill(stage->process.pid, SIGKILL);
    (void)waitpid(stage->process.pid, NULL, 0);
    stage_free(stage);
}

/* A process ends again and again. It waits for twice as long each time, up to a minute;
 * test_times.py measures it. */
static void who_ends_again_and_again_waits_for_twice_as_long_up_to_a_minute(void **state)
{
    static const uint64_t seconds[] = {1, 2, 4, 8, 16, 32, 60, 60};

    (void)state;
    for (uint32_t i = 0; i < sizeof seconds / sizeof seconds[0]; i++) {
        assert_int_equal(mst_back_off_ms(i), seconds[i] * 1000);
    }
    assert_int_equal(mst_back_off_ms(UINT32_MAX), 60000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_loss_of_the_one_before_does_not_end_the_one_in_its_place),
        cmocka_unit_test(behind_a_shell_the_one_of_the_page_counts),
        cmocka_unit_test(who_was_given_up_is_killed),
        cmocka_unit_test(who_is_gone_is_killed_by_nobody),
        cmocka_unit_test(one_that_cannot_be_started_now_is_started_later),
        cmocka_unit_test(when_all_are_started_again_none_is_held_back),
        cmocka_unit_test(a_life_that_has_finished_elsewhere_is_known),
        cmocka_unit_test(of_those_that_were_got_over_only_the_newest_are_kept),
        cmocka_unit_test(who_ends_again_and_again_waits_for_twice_as_long_up_to_a_minute),
    };

    return cmocka_run_group_tests(tests, library_stage_setup, library_stage_teardown);
}
