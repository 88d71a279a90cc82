/* SPDX-License-Identifier: Apache-2.0 */
/* What a run is given: options, environment, defaults; and the rules between them.
 *
 * behaviour: restart / Options, callbacks and clients */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "client/shell/interrupt.h"
#include "restart/shell/options.h"

static const char *const variables[] = {
    "MUSTER_BARRIER_TIMEOUT",  "MUSTER_SOFT_TIMEOUT",   "MUSTER_HARD_TIMEOUT",
    "MUSTER_SETTLE",           "MUSTER_GRACE",          "MUSTER_COMPLETION_TIMEOUT",
    "MUSTER_ITERATIONS_MAX",   "MUSTER_STALLED_MAX",    "MUSTER_FAULTS_MAX",
    "MUSTER_HEALTH_COMMAND",   "MUSTER_HEALTH_TIMEOUT", "MUSTER_HEALTH_FOLDER",
    "MUSTER_ENABLED",          "MUSTER_EXPORT",         "MUSTER_INTERRUPT_SIGNAL",
    "MUSTER_ASSIGNMENT_LABEL", "MUSTER_REPLACE_WAIT",   "MUSTER_NODE"};

static int clear(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        (void)unsetenv(variables[i]);
    }
    return 0;
}

static struct mst_run_settings accepted(const struct muster_restart_options *options)
{
    struct mst_run_settings settings;
    struct muster_error err;

    if (mst_run_settings_read(&settings, options, &err) != MUSTER_OK) {
        fail_msg("%s", err.text);
    }
    return settings;
}

static void refused(const struct muster_restart_options *options, const char *text)
{
    struct mst_run_settings settings;
    struct muster_error err = {0};

    assert_int_equal(mst_run_settings_read(&settings, options, &err), MUSTER_EINVAL);
    assert_int_equal(err.status, MUSTER_EINVAL);
    assert_string_equal(err.text, text);
    for (int kind = 0; kind < MST_STEP_KINDS; kind++) {
        assert_null(settings.steps[kind].list); /* nothing is owned */
    }
}

static void test_defaults(void **state)
{
    struct mst_run_settings settings = accepted(NULL);

    (void)state;
    assert_int_equal(settings.config.barrier_timeout_ms, 120000);
    assert_int_equal(settings.config.completion_timeout_ms, 0);
    assert_int_equal(settings.config.settle_ms, 0);
    assert_int_equal(settings.config.soft_timeout_ms, 60000);
    assert_int_equal(settings.config.iterations_max, 0);
    assert_int_equal(settings.config.stalled_max, 16);
    assert_int_equal(settings.config.faults_max, 0);
    assert_false(settings.config.by_table);
    assert_int_equal(settings.soft_ms, 60000);
    assert_int_equal(settings.hard_ms, 90000);
    assert_int_equal(settings.grace_ms, 5000);
    assert_int_equal(settings.signal, mst_interrupt_standard());
    assert_false(settings.from_start);
    assert_false(settings.disabled);
    assert_false(settings.keep_environment);
    assert_false(settings.keep_handler);
    assert_null(settings.health_command);
    assert_null(settings.health_folder);
    mst_run_settings_free(&settings);
}

static void test_environment_then_options(void **state)
{
    struct muster_restart_options options = MUSTER_RESTART_OPTIONS_INIT;
    struct mst_run_settings settings;

    (void)state;
    (void)setenv("MUSTER_SOFT_TIMEOUT", "2s", 1);
    (void)setenv("MUSTER_HARD_TIMEOUT", "3s", 1);
    (void)setenv("MUSTER_GRACE", "7ms", 1);
    (void)setenv("MUSTER_STALLED_MAX", "-1", 1);
    (void)setenv("MUSTER_ENABLED", "0", 1);
    (void)setenv("MUSTER_EXPORT", "no", 1);
    (void)setenv("MUSTER_HEALTH_COMMAND", "true", 1);
    (void)setenv("MUSTER_ASSIGNMENT_LABEL", "rack1", 1);
    (void)setenv("MUSTER_NODE", "4", 1);
    options.soft_timeout_ms = 2500;
    options.faults_max = 3;
    options.keep_handler = true;
    settings = accepted(&options);
    assert_int_equal(settings.soft_ms, 2500);
    assert_int_equal(settings.hard_ms, 3000);
    assert_int_equal(settings.grace_ms, 7);
    assert_int_equal(settings.config.stalled_max, -1);
    assert_int_equal(settings.config.faults_max, 3);
    assert_int_equal(settings.config.node, 4);
    assert_true(settings.from_start);
    assert_true(settings.disabled);
    assert_true(settings.keep_environment);
    assert_true(settings.keep_handler);
    assert_string_equal(settings.health_command, "true");
    assert_int_equal(settings.health_timeout_ms, 1500); /* half of hard_timeout */
    assert_memory_equal(settings.config.label.data, "rack1", 5);
    mst_run_settings_free(&settings);
    (void)setenv("MUSTER_SOFT_TIMEOUT", "soon", 1);
    options.soft_timeout_ms = 0;
    refused(&options, "environment: setting soft_timeout: 'soon' is no duration (500ms, 10s, 2m) "
                      "from -1 to 86400000");
}

/* An option is set below the default of another. The default shrinks with it. */
static void test_defaults_shrink_with_what_is_set(void **state)
{
    struct muster_restart_options options = MUSTER_RESTART_OPTIONS_INIT;
    struct mst_run_settings settings;

    (void)state;
    options.barrier_timeout_ms = 1000;
    settings = accepted(&options);
    assert_int_equal(settings.hard_ms, 750);
    assert_int_equal(settings.soft_ms, 500);
    assert_int_equal(settings.grace_ms, 125);
    assert_false(settings.from_start); /* nobody has set them */
    mst_run_settings_free(&settings);
    options.grace_ms = 600;
    settings = accepted(&options);
    assert_int_equal(settings.hard_ms, 300);
    assert_int_equal(settings.soft_ms, 200);
    mst_run_settings_free(&settings);
    options.grace_ms = 0;
    options.barrier_timeout_ms = 0;
    options.hard_timeout_ms = 300;
    settings = accepted(&options);
    assert_int_equal(settings.soft_ms, 200);
    assert_true(settings.from_start);
    mst_run_settings_free(&settings);
    for (options.barrier_timeout_ms = 10; options.barrier_timeout_ms < 5000;
         options.barrier_timeout_ms += 7) {
        options.hard_timeout_ms = 0;
        settings = accepted(&options);
        mst_run_settings_free(&settings);
    }
}

static void test_never(void **state)
{
    struct muster_restart_options options = MUSTER_RESTART_OPTIONS_INIT;
    struct mst_run_settings settings;

    (void)state;
    options.soft_timeout_ms = -7;
    options.hard_timeout_ms = -1;
    options.interrupt_signal = -1;
    options.stalled_max = -5;
    settings = accepted(&options);
    assert_int_equal(settings.soft_ms, -1);
    assert_int_equal(settings.hard_ms, -1);
    assert_int_equal(settings.signal, 0);
    assert_int_equal(settings.config.stalled_max, -1);
    assert_int_equal(settings.config.soft_timeout_ms, 0);
    mst_run_settings_free(&settings);
}

static void waits(const struct muster_restart_options *options, uint64_t ms, bool if_fixed)
{
    struct mst_run_settings settings = accepted(options);

    assert_int_equal(settings.config.replace_ms, ms);
    assert_true(settings.replace_if_fixed == if_fixed);
    mst_run_settings_free(&settings);
}

/* The wait for a replacement is not set. It is 60 s, for jobs of fixed size only. A value that is
 * set holds for any job; 0 in the environment and a negative option mean no wait. */
static void test_the_wait_for_a_replacement(void **state)
{
    struct muster_restart_options options = MUSTER_RESTART_OPTIONS_INIT;

    (void)state;
    waits(NULL, 60000, true);
    (void)setenv("MUSTER_REPLACE_WAIT", "0", 1);
    waits(&options, 0, false);
    (void)setenv("MUSTER_REPLACE_WAIT", "5s", 1);
    waits(&options, 5000, false);
    options.replace_wait_ms = 300000; /* longer than barrier_timeout: they have nothing in common */
    waits(&options, 300000, false);
    options.replace_wait_ms = -7;
    waits(&options, 0, false);
    options.replace_wait_ms = 86400001;
    refused(&options, "replace_wait: 86400001 is not from -1 to 86400000");
}

/* Options contradict each other. Each rule is refused with a text of its own, and nothing is
 * started. */
static void test_each_rule_has_its_text_4(void **state)
{
    struct muster_restart_options options = MUSTER_RESTART_OPTIONS_INIT;
    const struct muster_restart_options none = MUSTER_RESTART_OPTIONS_INIT;
    struct mst_run_settings settings;

    (void)state;
    options.soft_timeout_ms = 500;
    options.hard_timeout_ms = 500;
    refused(&options, "run: soft_timeout (500 ms) must be less than hard_timeout (500 ms)");
    options = none;
    options.soft_timeout_ms = 90000;
    refused(&options, "run: soft_timeout (90000 ms) must be less than hard_timeout (90000 ms, the "
                      "default)");
    options = none;
    options.hard_timeout_ms = 120000;
    refused(&options, "run: hard_timeout (120000 ms) must be less than barrier_timeout (120000 ms, "
                      "the default)");
    options = none;
    options.hard_timeout_ms = 100;
    options.barrier_timeout_ms = 150;
    options.grace_ms = 50;
    refused(&options, "run: hard_timeout (100 ms) and grace (50 ms) together must be less than "
                      "barrier_timeout (150 ms)");
    options = none;
    options.settle_ms = 60000;
    refused(&options,
            "run: settle (60000 ms) must be less than soft_timeout (60000 ms, the default)");
    options.soft_timeout_ms = -1;
    options.settle_ms = 120000;
    refused(&options,
            "run: settle (120000 ms) must be less than barrier_timeout (120000 ms, the default)");
    options = none;
    options.health_timeout_ms = 90000;
    options.health_command = "true";
    refused(
        &options,
        "run: health_timeout (90000 ms) must be less than hard_timeout (90000 ms, the default)");
    options.health_command = NULL; /* then it does not matter */
    settings = accepted(&options);
    mst_run_settings_free(&settings);
}

/* A single option has a value that makes no sense. It is refused. [restart] */
static void test_single_values_4(void **state)
{
    struct muster_restart_options options = MUSTER_RESTART_OPTIONS_INIT;
    const struct muster_restart_options none = MUSTER_RESTART_OPTIONS_INIT;

    (void)state;
    options.barrier_timeout_ms = -1;
    refused(&options, "barrier_timeout: -1 is not from 10 to 86400000");
    options = none;
    options.settle_ms = -1;
    refused(&options, "settle: -1 is not from 0 to 86400000");
    options = none;
    options.grace_ms = -5;
    refused(&options, "grace: -5 is not from 0 to 3600000");
    options = none;
    options.completion_timeout_ms = -1;
    refused(&options, "completion_timeout: -1 is not from 0 to 86400000");
    options = none;
    options.health_timeout_ms = -1;
    refused(&options, "health_timeout: -1 is not from 1 to 86400000");
    options = none;
    options.iterations_max = UINT32_MAX;
    refused(&options, "iterations_max: 4294967295 is not from 0 to 1000000000");
    options = none;
    (void)setenv("MUSTER_STALLED_MAX", "0", 1);
    refused(&options, "stalled_max: 0 would allow no attempt; 1 or more, or -1 for no limit");
    (void)unsetenv("MUSTER_STALLED_MAX");
    (void)setenv("MUSTER_SOFT_TIMEOUT", "0", 1);
    refused(&options, "soft_timeout: 0 is no time; -1 for never");
    (void)unsetenv("MUSTER_SOFT_TIMEOUT");
    options.size = 7;
    refused(&options, "run: options.size is not that of this library's options; begin with "
                      "MUSTER_RESTART_OPTIONS_INIT");
}

static muster_status step(muster_restart *restart, void *arg)
{
    (void)restart;
    (void)arg;
    return MUSTER_OK;
}

static void test_steps(void **state)
{
    struct muster_restart_hook list[2] = {{.call = step, .arg = &list[0]}, {.call = NULL}};
    struct muster_restart_options options = MUSTER_RESTART_OPTIONS_INIT;
    struct mst_run_settings settings;

    (void)state;
    options.abort.list = list;
    options.abort.count = 2;
    refused(&options, "run: abort: callback 2 of 2 is NULL");
    options.abort.list = NULL;
    refused(&options, "run: abort: the list is NULL, and its count is 2");
    options.abort.list = list;
    options.abort.count = 1;
    options.finalize = options.abort;
    settings = accepted(&options);
    list[0].call = NULL; /* it was copied */
    assert_int_equal(settings.steps[MST_STEP_ABORT].count, 1);
    assert_int_equal(settings.steps[MST_STEP_FINALIZE].count, 1);
    assert_int_equal(settings.steps[MST_STEP_INITIALIZE].count, 0);
    assert_ptr_equal(settings.steps[MST_STEP_FINALIZE].list[0].call, step);
    assert_ptr_equal(settings.steps[MST_STEP_FINALIZE].list[0].arg, &list[0]);
    mst_run_settings_free(&settings);
}

static void test_an_assignment(void **state)
{
    struct muster_assignment_step list[] = {{.kind = MUSTER_ASSIGN_SHIFT},
                                            {.kind = MUSTER_ASSIGN_MAX, .count = 2}};
    struct muster_assignment assignment = MUSTER_ASSIGNMENT_INIT;
    struct muster_restart_options options = MUSTER_RESTART_OPTIONS_INIT;
    struct mst_run_settings settings;
    struct mst_run_settings none;
    struct muster_error err = {0};

    (void)state;
    options.assignment = &assignment;
    assignment.list = list;
    assignment.count = 2;
    assignment.label = "host7";
    settings = accepted(&options);
    assert_true(settings.config.by_table);
    assert_int_equal(settings.assignment_count, 2);
    assert_int_equal(settings.config.label.size, 5);
    mst_run_settings_free(&settings);
    list[1].count = 0;
    assert_int_equal(mst_run_settings_read(&none, &options, &err), MUSTER_EINVAL);
    assert_memory_equal(err.text, "run: assignment: ", 17);
    assignment.list = NULL;
    refused(&options, "run: assignment: the list is NULL, and its count is not 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_defaults, clear),
        cmocka_unit_test_setup(test_environment_then_options, clear),
        cmocka_unit_test_setup(test_defaults_shrink_with_what_is_set, clear),
        cmocka_unit_test_setup(test_never, clear),
        cmocka_unit_test_setup(test_the_wait_for_a_replacement, clear),
        cmocka_unit_test_setup(test_each_rule_has_its_text_4, clear),
        cmocka_unit_test_setup(test_single_values_4, clear),
        cmocka_unit_test_setup(test_steps, clear),
        cmocka_unit_test_setup(test_an_assignment, clear),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
