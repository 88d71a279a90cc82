/* SPDX-License-Identifier: Apache-2.0 */
/* behaviour: run / Output in files */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "process/output.h"
#include "process/pty.h"

static const struct mst_output_file no_file = {.fd = -1};

struct scene {
    struct mst_output *output;
    struct mst_output_stream *stream;
    int in; /* what the rank writes to */
    int out[2];
};

static void scene_open(struct scene *scene, bool label)
{
    assert_int_equal(pipe2(scene->out, O_CLOEXEC), 0);
    (void)fcntl(scene->out[0], F_SETPIPE_SZ, 1 << 20);
    assert_int_equal(mst_output_new(&scene->output, label), MUSTER_OK);
    scene->in = mst_output_open(scene->output, 7, scene->out[1], no_file, &scene->stream);
    assert_true(scene->in >= 0);
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

/* Ranks write lines. Each is labelled with the index, also one that comes in parts. [What ranks
 * get] */
static void lines_are_labelled_also_those_that_come_in_parts(void **state)
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

/* `--no-label` leaves the labels out. [What ranks get] */
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

/* A rank writes a very long line. It comes in pieces. [What ranks get] */
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

/* A rank ends. Its last line with words is kept for the last line of the run. [The first cause] */
static void the_last_line_with_words_is_kept(void **state)
{
    char last[MST_OUTPUT_LAST_MAX], all[256];
    struct mst_output_stream *stream;
    struct scene scene;
    int in;

    (void)state;
    scene_open(&scene, true);
    in = mst_output_open(scene.output, 3, scene.out[1], no_file, &stream);
    assert_int_equal(write(in, "a\nred \033[0m\n \n\n", 14), 14);
    close(in);
    mst_output_drain(scene.output);
    mst_output_last(scene.output, stream, last);
    assert_string_equal(last, "red  [0m");
    mst_output_last(scene.output, scene.stream, last);
    assert_string_equal(last, "");
    scene_close(&scene, all, sizeof all);
}

/* A rank writes faster than it is read. Nothing is lost. [What ranks get] */
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

/* Waits until `text` has come out, and nothing else. */
static void comes_out(const struct scene *scene, const char *text)
{
    char all[256];
    size_t size = 0;

    while (size < strlen(text)) {
        ssize_t got = read(scene->out[0], all + size, sizeof all - 1 - size);

        assert_true(got > 0);
        size += (size_t)got;
    }
    all[size] = '\0';
    assert_string_equal(all, text);
}

/* A rank writes a part of a line and runs on. The part comes out by itself, its rest follows, and
 * the line is kept whole for the last line of the run. [Output as it comes] */
static void a_part_of_a_line_comes_out_by_itself(void **state)
{
    char last[MST_OUTPUT_LAST_MAX], all[256];
    struct scene scene;

    (void)state;
    scene_open(&scene, true);
    says(&scene, "no ");
    comes_out(&scene, "[7]: no ");
    says(&scene, "memory\n");
    comes_out(&scene, "memory\n");
    mst_output_last(scene.output, scene.stream, last);
    assert_string_equal(last, "no memory");
    says(&scene, "\r10%");
    comes_out(&scene, "[7]: 10%");
    says(&scene, "\r20%\r");
    scene_close(&scene, all, sizeof all);
    assert_string_equal(all, "\r[7]: 20%\r\n");
}

/* Output and errors go into one pipe, and a line is not at its end when another one comes. It is
 * broken there, under whichever number the pipe is open. [Output as it comes] */
static void streams_into_one_pipe_break_each_others_lines(void **state)
{
    struct mst_output_stream *stream;
    struct scene scene;
    char all[256];
    int in, again;

    (void)state;
    scene_open(&scene, true);
    again = dup(scene.out[1]);
    in = mst_output_open(scene.output, 3, again, no_file, &stream);
    says(&scene, "10%");
    comes_out(&scene, "[7]: 10%");
    assert_int_equal(write(in, "x\n", 2), 2);
    close(in);
    mst_output_drain(scene.output);
    says(&scene, " 20%");
    close(again);
    scene_close(&scene, all, sizeof all);
    assert_string_equal(all, "\n[3]: x\n[7]:  20%\n");
}

/* A bar has more versions than a line has room for. Not one is cut, and its last one is kept for
 * the last line of the run. [Output as it comes] */
static void a_bar_of_many_versions_is_not_cut(void **state)
{
    static char all[1 << 17], expected[1 << 17];
    char last[MST_OUTPUT_LAST_MAX], version[32];
    size_t size = 0;
    struct scene scene;

    (void)state;
    scene_open(&scene, true);
    for (int i = 0; i < 4000; i++) {
        (void)snprintf(version, sizeof version, "\r%d", i);
        says(&scene, version);
        size += (size_t)snprintf(expected + size, sizeof expected - size, "%s[7]: %d",
                                 i > 0 ? "\r" : "", i);
    }
    expected[size] = '\n';
    close(scene.in);
    mst_output_drain(scene.output);
    mst_output_last(scene.output, scene.stream, last);
    assert_string_equal(last, "3999");
    scene.in = -1;
    scene_close(&scene, all, sizeof all);
    assert_string_equal(all, expected);
}

static void *drain_main(void *output)
{
    mst_output_drain(output);
    return NULL;
}

/* A reader is held up while a rank's pipe holds more than one read takes in. Nothing is lost. */
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
    int in;

    (void)state;
    scene_open(&scene, true);
    in = mst_output_open(scene.output, MST_OUTPUT_NO_LABEL, scene.out[1], no_file, &stream);
    assert_int_equal(write(in, "said\n", 5), 5);
    close(in);
    scene_close(&scene, all, sizeof all);
    assert_string_equal(all, "said\n");
}

/* The run says how a rank ended while the reader is held up, and more of the rank's output waits
 * than one read takes in. The line comes after all of it. [What ranks get] */
static void what_is_said_of_a_rank_comes_after_its_last_words(void **state)
{
    enum { LINES = 20000, LINE = 10 };
    static char all[LINES * LINE + 4096 + 64];
    struct mst_output_stream *stream;
    struct pollfd polled = {.events = POLLIN};
    struct scene scene;
    pthread_t drainer;
    size_t size = 0;
    ssize_t got;
    int run;

    (void)state;
    scene_open(&scene, false);
    assert_true(fcntl(scene.out[1], F_SETPIPE_SZ, 4096) >= 4096);
    assert_true(fcntl(scene.in, F_SETPIPE_SZ, 1 << 20) >= LINES * LINE);
    run = mst_output_open(scene.output, MST_OUTPUT_NO_LABEL, scene.out[1], no_file, &stream);
    mst_output_comments(scene.output, stream);
    for (int i = 0; i < 1000; i++) {
        says(&scene, "123456789\n");
    }
    polled.fd = scene.out[0]; /* the first part came out: the rest is held up */
    assert_int_equal(poll(&polled, 1, -1), 1);
    for (int i = 1000; i < LINES; i++) {
        says(&scene, "123456789\n");
    }
    assert_int_equal(write(run, "it died\n", 8), 8);
    close(scene.in);
    close(run);
    assert_int_equal(pthread_create(&drainer, NULL, drain_main, scene.output), 0);
    while (size < LINES * LINE + 8 &&
           (got = read(scene.out[0], all + size, sizeof all - size)) > 0) {
        size += (size_t)got;
    }
    assert_int_equal(size, LINES * LINE + 8);
    assert_memory_equal(&all[size - 8], "it died\n", 8);
    assert_int_equal(pthread_join(drainer, NULL), 0);
    mst_output_free(scene.output);
    close(scene.out[0]);
    close(scene.out[1]);
}

/* The run says something, and then a rank writes, while the reader is held up. Both come out.
 * [What ranks get] */
static void what_is_said_at_once_with_a_rank_holds_up_nobody(void **state)
{
    enum { SIZE = 10000, ALL = SIZE + 3 + 3 };
    static char all[ALL + 64];
    struct mst_output_stream *stream, *other;
    struct pollfd polled = {.events = POLLIN};
    struct scene scene;
    pthread_t drainer;
    size_t size = 0;
    ssize_t got;
    int run, rank;

    (void)state;
    scene_open(&scene, false);
    assert_true(fcntl(scene.out[1], F_SETPIPE_SZ, 4096) >= 4096);
    run = mst_output_open(scene.output, MST_OUTPUT_NO_LABEL, scene.out[1], no_file, &stream);
    mst_output_comments(scene.output, stream);
    rank = mst_output_open(scene.output, 8, scene.out[1], no_file, &other);
    for (int i = 0; i < SIZE / 10; i++) {
        says(&scene, "123456789\n");
    }
    polled.fd = scene.out[0]; /* the first part came out: the rest is held up */
    assert_int_equal(poll(&polled, 1, -1), 1);
    assert_int_equal(write(run, "it\n", 3), 3);
    assert_int_equal(write(rank, "he\n", 3), 3); /* ready after the other, and read before it */
    assert_int_equal(pthread_create(&drainer, NULL, drain_main, scene.output), 0);
    while (size < ALL && (got = read(scene.out[0], all + size, sizeof all - size)) > 0) {
        size += (size_t)got;
    }
    assert_int_equal(size, ALL);
    assert_int_equal(pthread_join(drainer, NULL), 0);
    close(scene.in);
    close(run);
    close(rank);
    mst_output_free(scene.output);
    close(scene.out[0]);
    close(scene.out[1]);
}

/* A reader is held up while a rank's terminal holds more than one read takes in. Nothing is lost at
 * the end of the run. [A terminal for one rank] */
static void what_a_terminal_holds_is_not_lost(void **state)
{
    enum { SIZE = 10000, ALL = 8 + 2 * SIZE + 1 }; /* the last row is ended */
    static char bytes[SIZE], all[4096 + 2 * SIZE];
    struct mst_output_stream *stream;
    struct pollfd polled = {.events = POLLIN};
    struct scene scene;
    pthread_t drainer;
    size_t size = 0;
    ssize_t got;
    int pty, terminal;

    (void)state;
    scene_open(&scene, false);
    mst_output_pass(scene.output, false);
    assert_true(fcntl(scene.out[1], F_SETPIPE_SZ, 4096) >= 4096);
    pty = mst_pty_open(STDOUT_FILENO, &terminal);
    assert_true(pty >= 0);
    assert_int_equal(mst_output_open_pty(scene.output, pty, scene.out[1], &stream), 0);
    (void)memset(bytes, 'x', sizeof bytes);
    says(&scene, "held up\n");
    for (int i = 0; i < 1000; i++) {
        says(&scene, "123456789\n");
    }
    polled.fd = scene.out[0]; /* the first part came out: the rest is held up */
    assert_int_equal(poll(&polled, 1, -1), 1);
    assert_int_equal(write(terminal, bytes, SIZE), SIZE);
    assert_int_equal(pthread_create(&drainer, NULL, drain_main, scene.output), 0);
    while (size < ALL && (got = read(scene.out[0], all + size, sizeof all - size)) > 0) {
        size += (size_t)got;
    }
    assert_int_equal(size, ALL);
    assert_int_equal(pthread_join(drainer, NULL), 0);
    close(scene.in);
    close(terminal);
    mst_output_free(scene.output);
    close(scene.out[0]);
    close(scene.out[1]);
}

/* ---- files ---- */

struct failure {
    int count, error;
};

static void on_failure(void *ctx, int error)
{
    struct failure *failure = ctx;

    failure->count++;
    failure->error = error;
}

/* The rank's stream goes to `file`, of which the scene's end reads what came out besides. */
static void scene_open_with(struct scene *scene, struct mst_output_file file,
                            struct failure *failure)
{
    assert_int_equal(pipe2(scene->out, O_CLOEXEC), 0);
    assert_int_equal(mst_output_new(&scene->output, true), MUSTER_OK);
    mst_output_on_failure(scene->output, on_failure, failure);
    scene->in = mst_output_open(scene->output, 7, scene->out[1], file, &scene->stream);
    assert_true(scene->in >= 0);
}

static size_t read_all(int fd, char *all, size_t room)
{
    ssize_t got = pread(fd, all, room - 1, 0);

    assert_true(got >= 0);
    all[got] = '\0';
    return (size_t)got;
}

/* A file gets the bytes as they are. */
static void a_file_gets_the_bytes_as_they_are(void **state)
{
    static const char bytes[] = "one\n\0two\r\n\xff part";
    int fd = memfd_create("log", MFD_CLOEXEC);
    int kept = dup(fd);
    char last[MST_OUTPUT_LAST_MAX], all[256], shown[256];
    struct failure failure = {0};
    struct scene scene;

    (void)state;
    scene_open_with(&scene, (struct mst_output_file){.fd = fd}, &failure);
    assert_int_equal(write(scene.in, bytes, sizeof bytes - 1), sizeof bytes - 1);
    mst_output_drain(scene.output);
    mst_output_last(scene.output, scene.stream, last);
    scene_close(&scene, shown, sizeof shown);
    assert_int_equal(read_all(kept, all, sizeof all), sizeof bytes - 1);
    assert_memory_equal(all, bytes, sizeof bytes - 1);
    assert_string_equal(shown, ""); /* and the terminal nothing */
    assert_string_equal(last + 2, "part");
    assert_int_equal(failure.count, 0);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    close(kept);
}

/* A line is longer than the terminal's longest. It stays whole in a file. */
static void a_line_longer_than_the_terminals_stays_whole_in_a_file(void **state)
{
    static char line[MST_OUTPUT_LINE_MAX * 2], all[MST_OUTPUT_LINE_MAX * 3];
    int fd = memfd_create("log", MFD_CLOEXEC);
    int kept = dup(fd);
    struct failure failure = {0};
    struct scene scene;
    char shown[8];

    (void)state;
    (void)memset(line, 'x', sizeof line - 1);
    scene_open_with(&scene, (struct mst_output_file){.fd = fd}, &failure);
    says(&scene, line);
    scene_close(&scene, shown, sizeof shown);
    assert_int_equal(read_all(kept, all, sizeof all), sizeof line - 1);
    assert_string_equal(all, line);
    close(kept);
}

/* `--tee` puts the output on the terminal too, as without files: labelled, unless `--no-label`. */
static void with_tee_the_lines_come_out_too(void **state)
{
    int fd = memfd_create("log", MFD_CLOEXEC);
    int kept = dup(fd);
    struct failure failure = {0};
    char all[256], shown[256];
    struct scene scene;

    (void)state;
    scene_open_with(&scene, (struct mst_output_file){.fd = fd, .tee = true}, &failure);
    says(&scene, "one\ntwo");
    scene_close(&scene, shown, sizeof shown);
    (void)read_all(kept, all, sizeof all);
    assert_string_equal(all, "one\ntwo");
    assert_string_equal(shown, "[7]: one\n[7]: two\n");
    close(kept);
}

/* A file that may not grow beyond ten bytes. */
static int small_file(int *kept_out)
{
    int fd = memfd_create("log", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_int_equal(ftruncate(fd, 10), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), 0);
    *kept_out = dup(fd);
    return fd;
}

/* A file does not take an output. It comes out on the terminal. */
static void what_a_file_does_not_take_comes_out(void **state)
{
    struct failure failure = {0};
    char all[256], shown[256];
    struct scene scene;
    int kept, fd = small_file(&kept);

    (void)state;
    scene_open_with(&scene, (struct mst_output_file){.fd = fd}, &failure);
    says(&scene, "12345678\n");
    mst_output_drain(scene.output);
    says(&scene, "a second line\nand a third\n");
    mst_output_drain(scene.output);
    says(&scene, "and all that follows\n");
    scene_close(&scene, shown, sizeof shown);
    (void)read_all(kept, all, sizeof all);
    assert_memory_equal(all, "12345678\n", 9);
    assert_string_equal(shown, "[7]: a second line\n[7]: and a third\n[7]: and all that follows\n");
    assert_int_equal(failure.count, 1);
    assert_int_equal(failure.error, EPERM);
    close(kept);
}

/* A file takes output again, with `--tee`. Nothing comes out twice. */
static void with_tee_nothing_comes_out_twice(void **state)
{
    struct failure failure = {0};
    struct scene scene;
    char shown[256];
    int kept, fd = small_file(&kept);

    (void)state;
    scene_open_with(&scene, (struct mst_output_file){.fd = fd, .tee = true}, &failure);
    says(&scene, "one\n");
    mst_output_drain(scene.output);
    says(&scene, "a second line\n");
    scene_close(&scene, shown, sizeof shown);
    assert_string_equal(shown, "[7]: one\n[7]: a second line\n");
    assert_int_equal(failure.count, 1);
    close(kept);
}

/* The tail of an output is its last lines. [The report] */
static void the_tail_is_the_last_lines(void **state)
{
    char tail[MST_OUTPUT_TAIL_MAX], line[32];
    static char all[1 << 16];
    struct scene scene;
    size_t size;

    (void)state;
    scene_open(&scene, false);
    says(&scene, "one\ntwo");
    mst_output_drain(scene.output);
    size = mst_output_tail(scene.output, scene.stream, tail);
    assert_int_equal(size, 7);
    assert_memory_equal(tail, "one\ntwo", 7);
    for (int i = 0; i < 1000; i++) {
        (void)snprintf(line, sizeof line, "%09d\n", i);
        says(&scene, line);
    }
    mst_output_drain(scene.output);
    size = mst_output_tail(scene.output, scene.stream, tail);
    assert_int_equal(size, MST_OUTPUT_TAIL_MAX / 10 * 10);
    assert_memory_equal(tail, "000000796\n", 10);
    assert_memory_equal(tail + size - 10, "000000999\n", 10);
    scene_close(&scene, all, sizeof all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_labelled_also_those_that_come_in_parts),
        cmocka_unit_test(labels_can_be_left_out),
        cmocka_unit_test(a_line_without_end_comes_in_pieces),
        cmocka_unit_test(the_last_line_with_words_is_kept),
        cmocka_unit_test(who_is_not_read_is_not_lost),
        cmocka_unit_test(who_holds_the_pipe_is_not_waited_for),
        cmocka_unit_test(a_part_of_a_line_comes_out_by_itself),
        cmocka_unit_test(streams_into_one_pipe_break_each_others_lines),
        cmocka_unit_test(a_bar_of_many_versions_is_not_cut),
        cmocka_unit_test(a_reader_that_is_held_up_loses_nothing),
        cmocka_unit_test(what_is_of_no_rank_has_no_label),
        cmocka_unit_test(what_is_said_of_a_rank_comes_after_its_last_words),
        cmocka_unit_test(what_is_said_at_once_with_a_rank_holds_up_nobody),
        cmocka_unit_test(what_a_terminal_holds_is_not_lost),
        cmocka_unit_test(a_file_gets_the_bytes_as_they_are),
        cmocka_unit_test(a_line_longer_than_the_terminals_stays_whole_in_a_file),
        cmocka_unit_test(with_tee_the_lines_come_out_too),
        cmocka_unit_test(what_a_file_does_not_take_comes_out),
        cmocka_unit_test(with_tee_nothing_comes_out_twice),
        cmocka_unit_test(the_tail_is_the_last_lines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
