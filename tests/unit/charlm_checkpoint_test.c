/* SPDX-License-Identifier: Apache-2.0 */
/* The example's checkpoints: the bytes that are documented, what counts, and what is refused.
 *
 * behaviour: examples / Training */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "checkpoint.h"

enum { FIELDS = 10, DIGEST_AT = 80, STEP_AT = 88, WEIGHTS_AT = 96, STEP = 7 };

struct fixture {
    char folder[64], path[80];
    struct checkpoint checkpoint;
    struct model model, loaded;
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    (void)snprintf(fixture->folder, sizeof fixture->folder, "/tmp/charlm-test-XXXXXX");
    assert_non_null(mkdtemp(fixture->folder));
    (void)snprintf(fixture->path, sizeof fixture->path, "%s/ck", fixture->folder);
    fixture->checkpoint =
        (struct checkpoint){fixture->path, 3, {.seed = 5, .steps = 60, .text = 77, .shards = 12}};
    model_init(&fixture->model, 5);
    fixture->model.step = STEP;
    fixture->model.mean[4] = 0.5F;
    fixture->model.square[WEIGHTS - 1] = 0.25F;
    *state = fixture;
    return 0;
}

/* Whether the folder has this file; NULL: how many it has. */
static int count_files(const struct fixture *fixture, const char *name)
{
    DIR *folder = opendir(fixture->folder);
    int count = 0;
    assert_non_null(folder);
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        count += name != NULL ? strcmp(entry->d_name, name) == 0 : entry->d_name[0] != '.';
    }
    closedir(folder);
    return count;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    DIR *folder = opendir(fixture->folder);
    assert_non_null(folder);
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        (void)unlinkat(dirfd(folder), entry->d_name, 0);
    }
    (void)unlinkat(dirfd(folder), "work/a", AT_REMOVEDIR);
    (void)unlinkat(dirfd(folder), "work", AT_REMOVEDIR);
    closedir(folder);
    assert_int_equal(rmdir(fixture->folder), 0);
    free(fixture);
    return 0;
}

static void save(struct fixture *fixture, uint64_t writer)
{
    assert_true(checkpoint_write(&fixture->checkpoint, writer, &fixture->model));
    assert_true(checkpoint_commit(&fixture->checkpoint, writer));
}

/* Bytes of the committed file, which are read, or replaced. */
static void access_bytes(const struct fixture *fixture, long at, void *bytes, size_t size,
                         bool replace)
{
    char name[96];
    (void)snprintf(name, sizeof name, "%s.3", fixture->path);
    FILE *file = fopen(name, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    assert_int_equal(replace ? fwrite(bytes, size, 1, file) : fread(bytes, size, 1, file), 1);
    assert_int_equal(fclose(file), 0);
}

static void put_file(const struct fixture *fixture, const char *ending, const char *text)
{
    char name[96];
    (void)snprintf(name, sizeof name, "%s.%s", fixture->path, ending);
    FILE *file = fopen(name, "wb");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void its_bytes_are_those_of_the_documentation(void **state)
{
    struct fixture *fixture = *state;
    const uint64_t expected[FIELDS] = {0x316d6c72616863, 5,       60,    77,    12, SHARD,
                                       SYMBOLS,          CONTEXT, WIDTH, HIDDEN};
    uint64_t field[FIELDS];
    uint64_t digest = 0;
    int64_t step = 0;
    save(fixture, 1);
    access_bytes(fixture, 0, field, sizeof field, false);
    assert_memory_equal(field, expected, sizeof field);
    access_bytes(fixture, DIGEST_AT, &digest, sizeof digest, false);
    assert_int_equal(digest, digest_of(&fixture->model, sizeof fixture->model));
    access_bytes(fixture, STEP_AT, &step, sizeof step, false);
    assert_int_equal(step, STEP);
    const size_t size = 3 * sizeof fixture->model.weight;
    assert_int_equal(sizeof fixture->model, sizeof step + size);
    access_bytes(fixture, WEIGHTS_AT, fixture->loaded.weight, size, false);
    assert_memory_equal(fixture->loaded.weight, fixture->model.weight, size);
    char name[96];
    (void)snprintf(name, sizeof name, "%s.3", fixture->path);
    assert_int_equal(truncate(name, (off_t)(WEIGHTS_AT + size)), 0); /* and no byte more */
    assert_true(checkpoint_load(&fixture->checkpoint, &fixture->loaded));
}

static void what_is_written_counts_when_it_is_committed(void **state)
{
    struct fixture *fixture = *state;
    char why[CHECKPOINT_WHY];
    assert_true(checkpoint_write(&fixture->checkpoint, 1, &fixture->model)); /* and is replaced */
    assert_true(checkpoint_write(&fixture->checkpoint, 2, &fixture->model));
    assert_int_equal(checkpoint_step(&fixture->checkpoint, why), -1);
    assert_false(checkpoint_load(&fixture->checkpoint, &fixture->loaded));
    assert_true(checkpoint_commit(&fixture->checkpoint, 2));
    assert_int_equal(checkpoint_step(&fixture->checkpoint, why), STEP);
    assert_string_equal(why, "");
    assert_true(checkpoint_load(&fixture->checkpoint, &fixture->loaded));
    assert_memory_equal(&fixture->loaded, &fixture->model, sizeof fixture->model);
    assert_int_equal(count_files(fixture, NULL), 1);
}

static void refused(struct fixture *fixture, const char *difference)
{
    char why[CHECKPOINT_WHY], expected[CHECKPOINT_WHY];
    (void)snprintf(expected, sizeof expected,
                   "%s.3 is of another training, whose %s: give another --checkpoint, or remove it",
                   fixture->path, difference);
    assert_int_equal(checkpoint_step(&fixture->checkpoint, why), -1);
    assert_string_equal(why, expected);
    assert_false(checkpoint_load(&fixture->checkpoint, &fixture->loaded));
}

/* A training is given the checkpoint of another one: another seed, number of steps, text or
 * size. It ends before any rank has loaded, also if one rank alone has such a file: none has
 * loaded what another refuses. One line says which file, what differs and what to do; the file
 * stays. */
static void one_of_another_training_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct training *training = &fixture->checkpoint.training;
    const struct training ours = *training;
    save(fixture, 1);
    training->seed = 6;
    refused(fixture, "seed is 5, not 6");
    *training = ours;
    training->steps = 61;
    refused(fixture, "number of steps is 60, not 61");
    *training = ours;
    training->text = 78;
    refused(fixture, "text's digest is 77, not 78");
    *training = ours;
    training->shards = 13;
    refused(fixture, "number of shards is 12, not 13");
    *training = ours;

    const char *const sizes[] = {"size of a shard", "number of symbols", "context", "width",
                                 "hidden layer"};
    const unsigned size[] = {SHARD, SYMBOLS, CONTEXT, WIDTH, HIDDEN};
    for (long i = 4; i >= 0; i--) { /* the first one that differs is named */
        uint64_t other = 1000;
        char difference[64];
        access_bytes(fixture, 40 + 8 * i, &other, sizeof other, true);
        (void)snprintf(difference, sizeof difference, "%s is 1000, not %u", sizes[i], size[i]);
        refused(fixture, difference);
    }
    put_file(fixture, "3", "of another program");
    refused(fixture, "format is 7526763397109540463, not 13912586401704035");
}

/* A checkpoint is damaged, or cut off. It is not loaded: the rank gets the model from one that
 * has it. */
static void a_damaged_one_is_not_loaded(void **state)
{
    struct fixture *fixture = *state;
    char why[CHECKPOINT_WHY];
    char name[96];
    float mean = 0.75F;
    (void)snprintf(name, sizeof name, "%s.3", fixture->path);
    save(fixture, 1);
    access_bytes(fixture, WEIGHTS_AT + (long)(sizeof(float[WEIGHTS + 4])), &mean, sizeof mean,
                 true);
    assert_int_equal(checkpoint_step(&fixture->checkpoint, why), STEP);
    assert_false(checkpoint_load(&fixture->checkpoint, &fixture->loaded));
    for (off_t size = STEP_AT; size >= 0; size -= 4) {
        assert_int_equal(truncate(name, size), 0);
        assert_int_equal(checkpoint_step(&fixture->checkpoint, why), -1);
        assert_string_equal(why, "");
        assert_false(checkpoint_load(&fixture->checkpoint, &fixture->loaded));
    }
}

/* A training was stopped, and fewer ranks have finished it. The digest is the same, and none of
 * its files is left, committed or not, nor those of ranks of a longer run; files of others stay. */
static void files_of_others_stay(void **state)
{
    struct fixture *fixture = *state;
    const char *const others[] = {"4", "new", "3.1.old", "5"};
    const char *const ours[] = {"6", "7.2"}; /* written no further than this when it was killed */
    save(fixture, 1);
    assert_true(checkpoint_write(&fixture->checkpoint, 1, &fixture->model));
    assert_true(checkpoint_write(&fixture->checkpoint, 1000, &fixture->model));
    fixture->checkpoint.index = 0;
    save(fixture, 1);
    fixture->checkpoint.index = 4;
    fixture->checkpoint.training.seed++;
    save(fixture, 1);
    fixture->checkpoint.training.seed--;
    for (size_t i = 1; i < sizeof others / sizeof *others; i++) {
        put_file(fixture, others[i], "of another program");
    }
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        put_file(fixture, ours[i], "charlm1");
    }
    assert_int_equal(count_files(fixture, NULL), 10);

    checkpoint_remove(&fixture->checkpoint);
    assert_int_equal(count_files(fixture, NULL), 4);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "ck.%s", others[i]);
        assert_int_equal(count_files(fixture, name), 1);
    }
}

static void a_path_may_be_relative(void **state)
{
    struct fixture *fixture = *state;
    const char *const paths[] = {"ck", "./ck", "../ck", "a/ck", "a/"};
    char before[4096], name[96];
    char *folder = getcwd(before, sizeof before);
    assert_non_null(folder);
    (void)snprintf(name, sizeof name, "%s/work", fixture->folder);
    assert_int_equal(mkdir(name, 0700), 0);
    assert_int_equal(chdir(name), 0);
    assert_int_equal(mkdir("a", 0700), 0);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        fixture->checkpoint.path = paths[i];
        save(fixture, 1);
        (void)snprintf(name, sizeof name, "%s.3", paths[i]);
        assert_int_equal(access(name, R_OK), 0);
        checkpoint_remove(&fixture->checkpoint);
        assert_int_equal(access(name, R_OK), -1);
    }
    assert_int_equal(chdir(before), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(its_bytes_are_those_of_the_documentation, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_is_written_counts_when_it_is_committed, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(one_of_another_training_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_damaged_one_is_not_loaded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(files_of_others_stay, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_path_may_be_relative, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
