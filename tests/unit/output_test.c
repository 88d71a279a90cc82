/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/output.h"

struct scene {
    struct mst_output *output;
    struct mst_output_stream *stream;
    int in; /* what the rank writes to */
    int out[2];
};

static void scene_open(struct scene *scene, bool label)
{
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC) | pipe2(scene->out, O_CLOEXEC), 0);
    (void)fcntl(scene->out[0], F_SETPIPE_SZ, 1 << 20);
    assert_int_equal(mst_output_new(&scene->output, label), MUSTER_OK);
    assert_int_equal(mst_output_add(scene->output, 7, ends[0], scene->out[1], &scene->stream),
                     MUSTER_OK);
    scene->in = ends[1];
}

static void says(const struct scene *scene, const char *text)
{
    assert_int_equal(write(scene->in, text, strlen(text)), strlen(text));
}

/* The rank ends; then all that came out. */
static void scene_close(struct scene *scene, char *all, size_t room)
{
    size_t size = 0;
    ssize_t got;

    close(scene->in);
    mst_output_drain(scene->output);
    mst_output_free(scene->output);
    close(scene->out[1]);
    while ((got = read(scene->out[0], all + size, room - 1 - size)) > 0) {
        size += (size_t)got;
    }
    all[size] = '\0';
    close(scene->out[0]);
}

static void lines_are_labelled_and_a_part_waits_for_its_rest(void **state)
{
    struct scene scene;
    char all[256];

    (void)state;
    scene_open(&scene, true);
    says(&scene, "one\n\ntw");
    says(&scene, "o\nthree");
    scene_close(&scene, all, sizeof all);
    assert_string_equal(all, "[7]: one\n[7]: \n[7]: two\n[7]: three\n");
}

static void labels_can_be_left_out(void **state)
{
    struct scene scene;
    char all[256];

    (void)state;
    scene_open(&scene, false);
    says(&scene, "one\ntwo\n");
    scene_close(&scene, all, sizeof all);
    assert_string_equal(all, "one\ntwo\n");
}

static void a_line_without_end_comes_in_pieces(void **state)
{
    static char all[4 * MST_OUTPUT_LINE_MAX];
    static char line[MST_OUTPUT_LINE_MAX + 2];
    struct scene scene;

    (void)state;
    scene_open(&scene, true);
    (void)memset(line, 'x', sizeof line - 1);
    says(&scene, line);
    scene_close(&scene, all, sizeof all);
    assert_int_equal(strlen(all), MST_OUTPUT_LINE_MAX + 1 + 2 * strlen("[7]: \n"));
    assert_string_equal(all + strlen("[7]: \n") + MST_OUTPUT_LINE_MAX, "[7]: x\n");
}

static void the_last_line_with_words_is_kept(void **state)
{
    char last[MST_OUTPUT_LAST_MAX], all[256];
    struct mst_output_stream *stream;
    struct scene scene;
    int ends[2];

    (void)state;
    scene_open(&scene, true);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(mst_output_add(scene.output, 3, ends[0], scene.out[1], &stream), MUSTER_OK);
    assert_int_equal(write(ends[1], "a\nred \033[0m\n \n\n", 14), 14);
    close(ends[1]);
    mst_output_drain(scene.output);
    mst_output_last(scene.output, stream, last);
    assert_string_equal(last, "red  [0m");
    mst_output_last(scene.output, scene.stream, last);
    assert_string_equal(last, "");
    scene_close(&scene, all, sizeof all);
}

static void who_is_not_read_is_not_lost(void **state)
{
    static char all[1 << 17];
    struct scene scene;
    size_t lines = 0;

    (void)state;
    scene_open(&scene, false);
    for (int i = 0; i < 10000; i++) {
        says(&scene, "123456789\n");
    }
    scene_close(&scene, all, sizeof all);
    for (const char *at = all; *at != '\0'; at++) {
        lines += *at == '\n';
    }
    assert_int_equal(lines, 10000);
}

static void who_holds_the_pipe_is_not_waited_for(void **state)
{
    struct scene scene;
    char all[256];
    ssize_t got;

    (void)state;
    scene_open(&scene, true);
    says(&scene, "one\npart");
    mst_output_drain(scene.output); /* the rank's side is open */
    got = read(scene.out[0], all, sizeof all);
    assert_int_equal(got, strlen("[7]: one\n[7]: part\n"));
    assert_memory_equal(all, "[7]: one\n[7]: part\n", (size_t)got);
    scene_close(&scene, all, sizeof all);
    assert_string_equal(all, "");
}

static void *drain_main(void *output)
{
    mst_output_drain(output);
    return NULL;
}

/* What is in the rank's pipe when its reader is held up is more than one read takes in. */
static void a_reader_that_is_held_up_loses_nothing(void **state)
{
    static char bytes[1 << 16];
    struct pollfd polled = {.events = POLLIN};
    struct scene scene;
    pthread_t drainer;
    size_t size = 0;
    ssize_t got;

    (void)state;
    scene_open(&scene, false);
    assert_true(fcntl(scene.out[1], F_SETPIPE_SZ, 4096) >= 4096);
    (void)memset(bytes, 'x', sizeof bytes);
    for (size_t i = 99; i < sizeof bytes; i += 100) {
        bytes[i] = '\n';
    }
    assert_int_equal(write(scene.in, bytes, 20000), 20000);
    polled.fd = scene.out[0]; /* the first part came out: the rest is held up */
    assert_int_equal(poll(&polled, 1, -1), 1);
    assert_int_equal(write(scene.in, bytes, 40000), 40000);
    close(scene.in);
    assert_int_equal(pthread_create(&drainer, NULL, drain_main, scene.output), 0);
    while (size < 60000 && (got = read(scene.out[0], bytes, sizeof bytes)) > 0) {
        size += (size_t)got;
    }
    assert_int_equal(size, 60000);
    assert_int_equal(pthread_join(drainer, NULL), 0);
    mst_output_free(scene.output);
    close(scene.out[0]);
    close(scene.out[1]);
}

static void what_is_of_no_rank_has_no_label(void **state)
{
    struct mst_output_stream *stream;
    struct scene scene;
    char all[256];
    int ends[2];

    (void)state;
    scene_open(&scene, true);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(
        mst_output_add(scene.output, MST_OUTPUT_NO_LABEL, ends[0], scene.out[1], &stream),
        MUSTER_OK);
    assert_int_equal(write(ends[1], "said\n", 5), 5);
    close(ends[1]);
    scene_close(&scene, all, sizeof all);
    assert_string_equal(all, "said\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_labelled_and_a_part_waits_for_its_rest),
        cmocka_unit_test(labels_can_be_left_out),
        cmocka_unit_test(a_line_without_end_comes_in_pieces),
        cmocka_unit_test(the_last_line_with_words_is_kept),
        cmocka_unit_test(who_is_not_read_is_not_lost),
        cmocka_unit_test(who_holds_the_pipe_is_not_waited_for),
        cmocka_unit_test(a_reader_that_is_held_up_loses_nothing),
        cmocka_unit_test(what_is_of_no_rank_has_no_label),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
