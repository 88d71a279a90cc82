/* SPDX-License-Identifier: Apache-2.0 */
/* The example's arithmetic and what it reads: the gradient is the slope of the loss, the same
 * inputs give the same bits, and a text that gives the test data away is refused.
 *
 * behaviour: examples / Training */
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "model.h"
#include "text.h"

/* ---- the model ---- */

struct fixture {
    struct model model, next;
    struct workspace work;
    float gradient[WEIGHTS];
    uint8_t symbol[SHARD + CONTEXT];
    struct example example[SHARD];
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    model_init(&fixture->model, 3);
    for (int i = 0; i < SHARD + CONTEXT; i++) {
        fixture->symbol[i] = (uint8_t)((i * i * 7 + i) % SYMBOLS);
    }
    for (int i = 0; i < SHARD; i++) {
        fixture->example[i].symbol = fixture->symbol + i;
    }
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    free(*state);
    return 0;
}

static double loss_with(struct fixture *fixture, int weight, float value)
{
    float old = fixture->model.weight[weight];
    fixture->model.weight[weight] = value;
    model_prepare(&fixture->model, &fixture->work);
    double loss = model_loss(&fixture->model, &fixture->work, fixture->example, SHARD, NULL);
    fixture->model.weight[weight] = old;
    return loss;
}

/* A weight of a part that matters for these examples: the embedding of a symbol that occurs. */
static int weight_in_part(const struct fixture *fixture, int part, int k)
{
    static const int begin[] = {EMBED_AT,  HIDDEN_AT,      HIDDEN_BIAS_AT,
                                OUTPUT_AT, OUTPUT_BIAS_AT, WEIGHTS};
    if (part == 0) {
        return fixture->symbol[k] * WIDTH + k % WIDTH;
    }
    return begin[part] + (k * 7919) % (begin[part + 1] - begin[part]);
}

/* The computed gradient is the slope of the loss. */
static void gradient_is_the_slope_of_the_loss(void **state)
{
    struct fixture *fixture = *state;
    const float reach = 0.01F;
    model_prepare(&fixture->model, &fixture->work);
    model_loss(&fixture->model, &fixture->work, fixture->example, SHARD, fixture->gradient);
    for (int part = 0; part < 5; part++) {
        for (int k = 0; k < 20; k++) {
            int weight = weight_in_part(fixture, part, k);
            float at = fixture->model.weight[weight];
            double slope =
                (loss_with(fixture, weight, at + reach) - loss_with(fixture, weight, at - reach)) /
                (2.0 * (double)reach);
            double given = (double)fixture->gradient[weight];
            assert_true(fabs(slope - given) < 0.01 + 0.01 * fabs(slope));
        }
    }
}

/* A shard is computed in halves. The sum of the gradients is that of the whole. */
static void half_a_shard_twice_is_a_shard(void **state)
{
    struct fixture *fixture = *state;
    model_prepare(&fixture->model, &fixture->work);
    double whole = model_loss(&fixture->model, &fixture->work, fixture->example, SHARD, NULL);
    double first = model_loss(&fixture->model, &fixture->work, fixture->example, SHARD / 2, NULL);
    double second =
        model_loss(&fixture->model, &fixture->work, fixture->example + SHARD / 2, SHARD / 2, NULL);
    assert_true(fabs(whole - first - second) < 1e-9 * whole);
}

static uint64_t digest_after(struct fixture *fixture, int steps)
{
    struct model *from = &fixture->model;
    struct model *to = &fixture->next;
    model_init(from, 3);
    for (int i = 0; i < steps; i++) {
        model_prepare(from, &fixture->work);
        model_loss(from, &fixture->work, fixture->example, SHARD, fixture->gradient);
        model_step(from, fixture->gradient, SHARD, steps, to);
        struct model *swap = from;
        from = to;
        to = swap;
    }
    assert_int_equal(from->step, steps);
    return model_digest(from);
}

/* The model is trained by one process, or by two, three or four ranks. The weights are the same
 * to the last bit. */
static void same_steps_give_the_same_bits(void **state)
{
    struct fixture *fixture = *state;
    uint64_t digest = digest_after(fixture, 5);
    assert_true(digest == digest_after(fixture, 5));
    assert_true(digest != digest_after(fixture, 6));
}

/* Training steps make the loss smaller. */
static void steps_make_the_loss_smaller(void **state)
{
    struct fixture *fixture = *state;
    model_prepare(&fixture->model, &fixture->work);
    double before = model_loss(&fixture->model, &fixture->work, fixture->example, SHARD, NULL);
    digest_after(fixture, 20); /* an even number: the last weights are in `model` */
    model_prepare(&fixture->model, &fixture->work);
    double after = model_loss(&fixture->model, &fixture->work, fixture->example, SHARD, NULL);
    assert_true(after < before / 2.0);
}

/* A line of text is made from the model. Each character is drawn by its chance. */
static void a_pick_follows_the_dice(void **state)
{
    (void)state;
    float chance[SYMBOLS] = {0};
    chance[5] = 0.5F;
    chance[9] = 0.5F;
    assert_int_equal(model_pick(chance, 0.0F), 5);
    assert_int_equal(model_pick(chance, 0.49F), 5);
    assert_int_equal(model_pick(chance, 0.51F), 9);
    chance[9] = 0.1F; /* squared: 25 to 1 */
    assert_int_equal(model_pick(chance, 0.9F), 5);
}

/* ---- the text ---- */

struct folder {
    char path[64];
};

static int folder_set_up(void **state)
{
    struct folder *folder = calloc(1, sizeof *folder);
    assert_non_null(folder);
    (void)snprintf(folder->path, sizeof folder->path, "/tmp/charlm-test-XXXXXX");
    assert_non_null(mkdtemp(folder->path));
    *state = folder;
    return 0;
}

static const char *const names[] = {"B", "a", "GPL-3", "GPL", "Z"};

static int folder_tear_down(void **state)
{
    struct folder *folder = *state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[128];
        (void)snprintf(path, sizeof path, "%s/%s", folder->path, names[i]);
        unlink(path);
    }
    rmdir(folder->path);
    free(folder);
    return 0;
}

static void put(const struct folder *folder, const char *name, const char *text)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", folder->path, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* A folder is given as text. Its regular files are read in the order of their names' bytes;
 * links are not followed. [The text it learns from] */
static void regular_files_are_read_in_byte_order(void **state)
{
    struct folder *folder = *state;
    struct text text;
    char why[512];
    char link[128];
    put(folder, "a", "last\tone ");
    put(folder, "B", "the first text\n");
    put(folder, "GPL-3", "held out");
    (void)snprintf(link, sizeof link, "%s/GPL", folder->path);
    assert_int_equal(symlink("GPL-3", link), 0);

    assert_true(text_load(&text, folder->path, "GPL-3", why));
    const char *expected = "the first text\nlast one ";
    assert_int_equal(text.files, 2);
    assert_int_equal(text.training_size, strlen(expected));
    for (size_t i = 0; i < text.training_size; i++) {
        assert_int_equal(text_character(text.training[i]), expected[i]);
    }
    assert_string_equal(text.held_out_name, "GPL-3");
    assert_int_equal(text.held_out_size, CONTEXT + strlen("held out"));
    assert_int_equal(text.held_out[CONTEXT - 1], text_symbol('\n'));
    assert_int_equal(text.held_out[CONTEXT], text_symbol('h'));
    text_free(&text);
}

/* One file of the text is held out as test data: GPL-3, else the last one.
 * [The text it learns from] */
static void without_that_name_the_last_is_held_out(void **state)
{
    struct folder *folder = *state;
    struct text text;
    char why[512];
    put(folder, "B", "the first text of two");
    put(folder, "Z", "the other");
    assert_true(text_load(&text, folder->path, "GPL-3", why));
    assert_string_equal(text.held_out_name, "Z");
    text_free(&text);
}

/* The folder has no text. One line says what is needed. [The text it learns from] */
static void a_folder_without_text_is_refused(void **state)
{
    struct folder *folder = *state;
    struct text text;
    char why[512];
    put(folder, "B", "alone");
    assert_false(text_load(&text, folder->path, "GPL-3", why));
    assert_non_null(strstr(why, "at least two regular files"));
    assert_false(text_load(&text, "/nowhere/at/all", "GPL-3", why));
    assert_string_equal(why, "/nowhere/at/all: No such file or directory");
}

/* `count` words, none of which another seed gives. */
static void words(char *out, size_t size, int seed, int count)
{
    size_t used = 0;
    for (int i = 0; i < count; i++) {
        used += (size_t)snprintf(out + used, size - used, "w%dx%d ", seed, i);
    }
}

/* A file repeats much of the test data. Training is refused and the file is named; common
 * boilerplate is allowed. [The text it learns from] */
static void a_copy_of_the_test_data_is_refused(void **state)
{
    struct folder *folder = *state;
    static char held_out[20000];
    static char copy[20000];
    struct text text;
    char why[512];
    words(held_out, sizeof held_out, 1, 1500);
    put(folder, "GPL-3", held_out);
    words(copy, sizeof copy, 2, 1000);
    put(folder, "B", copy);
    assert_true(text_load(&text, folder->path, "GPL-3", why));
    assert_int_equal(text.longest.longest, 0);
    text_free(&text);

    /* 1,000 characters are boilerplate, 1,100 are too long, however the lines are broken. */
    memcpy(copy + 3000, held_out, 1000);
    put(folder, "B", copy);
    assert_true(text_load(&text, folder->path, "GPL-3", why));
    assert_in_range(text.longest.longest, 1000, 1010);
    assert_string_equal(text.longest.name, "B");
    text_free(&text);
    memcpy(copy + 3000, held_out, 1100);
    copy[3000 + strcspn(copy + 3000, " ")] = '\n';
    put(folder, "B", copy);
    assert_false(text_load(&text, folder->path, "GPL-3", why));
    assert_non_null(strstr(why, "B repeats too much of GPL-3"));

    /* So are many short pieces. */
    words(copy, sizeof copy, 2, 1000);
    for (size_t at = 0; at < 8000; at += 1000) {
        memcpy(copy + at, held_out + at, 700);
    }
    put(folder, "B", copy);
    assert_false(text_load(&text, folder->path, "GPL-3", why));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(gradient_is_the_slope_of_the_loss, set_up, tear_down),
        cmocka_unit_test_setup_teardown(half_a_shard_twice_is_a_shard, set_up, tear_down),
        cmocka_unit_test_setup_teardown(same_steps_give_the_same_bits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(steps_make_the_loss_smaller, set_up, tear_down),
        cmocka_unit_test(a_pick_follows_the_dice),
        cmocka_unit_test_setup_teardown(regular_files_are_read_in_byte_order, folder_set_up,
                                        folder_tear_down),
        cmocka_unit_test_setup_teardown(without_that_name_the_last_is_held_out, folder_set_up,
                                        folder_tear_down),
        cmocka_unit_test_setup_teardown(a_folder_without_text_is_refused, folder_set_up,
                                        folder_tear_down),
        cmocka_unit_test_setup_teardown(a_copy_of_the_test_data_is_refused, folder_set_up,
                                        folder_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
