/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "restart/shell/options.h"

#include <stdlib.h>
#include <string.h>

#include "client/shell/environment.h"
#include "client/shell/handle.h"
#include "client/shell/interrupt.h"
#include "restart/assignment.h"

enum { LABEL_MAX = 63 };

#define WHY_ROOM 400

/* The durations, for the rules. -1: never. */
enum { BARRIER, HARD, SOFT, SETTLE, GRACE, COMPLETION, HEALTH, REPLACE, SPANS };

const char *mst_step_name(enum mst_step_kind kind)
{
    static const char *const names[MST_STEP_KINDS] = {
        [MST_STEP_PRECONDITION] = "precondition", [MST_STEP_INITIALIZE] = "initialize",
        [MST_STEP_HEALTH_CHECK] = "health_check", [MST_STEP_ABORT] = "abort",
        [MST_STEP_FINALIZE] = "finalize",         [MST_STEP_COMPLETION] = "completion",
        [MST_STEP_TERMINATE] = "terminate",       [MST_STEP_WAIT_CHECK] = "wait_check",
    };

    return names[kind];
}

/* --- the rules between them --- */

static void shrink(struct mst_option *span, int64_t most)
{
    if (span->by == MST_BY_DEFAULT && span->value > most) {
        span->value = most > 0 ? most : 1;
    }
}

/* Defaults give way to what was set. */
static void spans_fit(struct mst_option *spans)
{
    int64_t barrier = spans[BARRIER].value;

    shrink(&spans[GRACE], barrier / 8);
    shrink(&spans[HARD], barrier / 4 * 3 + barrier % 4 * 3 / 4);
    if (spans[HARD].value + spans[GRACE].value >= barrier && barrier > spans[GRACE].value) {
        shrink(&spans[HARD], (barrier - spans[GRACE].value) * 3 / 4);
    }
    if (spans[HARD].value >= 0) {
        shrink(&spans[SOFT], spans[HARD].value * 2 / 3);
        shrink(&spans[HEALTH], spans[HARD].value / 2);
    }
}

static const char *origin_of(const struct mst_option *span)
{
    static const char *const origins[] = {[MST_BY_DEFAULT] = ", the default",
                                          [MST_BY_ENVIRONMENT] = ", of the environment",
                                          [MST_BY_OPTION] = ""};

    return origins[span->by];
}

#define SPAN "%s (%" PRId64 " ms%s)"
#define SPAN_ARGS(span) (span)->name, (span)->value, origin_of(span)

/* A rule holds where neither side is "never". */
static muster_status spans_check(const struct mst_option *spans, bool has_command,
                                 struct muster_error *err)
{
    static const struct {
        size_t less, plus, more; /* plus: SPANS for none */
    } rules[] = {{SOFT, SPANS, HARD},   {HARD, SPANS, BARRIER},   {HARD, GRACE, BARRIER},
                 {SETTLE, SPANS, SOFT}, {SETTLE, SPANS, BARRIER}, {HEALTH, SPANS, HARD}};

    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        const struct mst_option *less = &spans[rules[i].less];
        const struct mst_option *plus = rules[i].plus < SPANS ? &spans[rules[i].plus] : NULL;
        const struct mst_option *more = &spans[rules[i].more];
        bool holds = less->value < 0 || more->value < 0 ||
                     less->value + (plus ? plus->value : 0) < more->value ||
                     (rules[i].less == HEALTH && !has_command);

        if (!holds && plus) {
            return mst_lib_refuse(err, "run", SPAN " and " SPAN " together must be less than " SPAN,
                                  SPAN_ARGS(less), SPAN_ARGS(plus), SPAN_ARGS(more));
        }
        if (!holds) {
            return mst_lib_refuse(err, "run", SPAN " must be less than " SPAN, SPAN_ARGS(less),
                                  SPAN_ARGS(more));
        }
    }
    return MUSTER_OK;
}

/* 0 would be over at once, which is never meant; the default is asked for by leaving it out. */
static muster_status zero_check(const struct mst_option *span, struct muster_error *err)
{
    return span->value == 0 ? mst_lib_refuse(err, span->name, "0 is no time; -1 for never")
                            : MUSTER_OK;
}

static muster_status times_read(struct mst_run_settings *out,
                                const struct muster_restart_options *options,
                                struct muster_error *err)
{
    struct mst_option spans[SPANS] = {
        [BARRIER] = {.name = "barrier_timeout", .given = options->barrier_timeout_ms},
        [HARD] = {.name = "hard_timeout",
                  .given = options->hard_timeout_ms,
                  .how = MST_OPTION_NEVER},
        [SOFT] = {.name = "soft_timeout",
                  .given = options->soft_timeout_ms,
                  .how = MST_OPTION_NEVER},
        [SETTLE] = {.name = "settle", .given = options->settle_ms},
        [GRACE] = {.name = "grace", .given = options->grace_ms},
        [COMPLETION] = {.name = "completion_timeout", .given = options->completion_timeout_ms},
        [HEALTH] = {.name = "health_timeout", .given = options->health_timeout_ms},
        [REPLACE] = {.name = "replace_wait",
                     .given = options->replace_wait_ms,
                     .how = MST_OPTION_NEVER},
    };
    muster_status status = mst_lib_numbers(spans, SPANS, err);

    if (status == MUSTER_OK) {
        status = zero_check(&spans[SOFT], err);
    }
    if (status == MUSTER_OK) {
        status = zero_check(&spans[HARD], err);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    spans_fit(spans);
    status = spans_check(spans, out->health_command != NULL, err);
    out->config.barrier_timeout_ms = (uint64_t)spans[BARRIER].value;
    out->config.completion_timeout_ms = (uint64_t)spans[COMPLETION].value;
    out->config.settle_ms = (uint64_t)spans[SETTLE].value;
    out->config.soft_timeout_ms = spans[SOFT].value < 0 ? 0 : (uint64_t)spans[SOFT].value;
    out->soft_ms = spans[SOFT].value;
    out->hard_ms = spans[HARD].value;
    out->grace_ms = spans[GRACE].value;
    out->health_timeout_ms = spans[HEALTH].value;
    out->config.replace_ms = spans[REPLACE].value < 0 ? 0 : (uint64_t)spans[REPLACE].value;
    out->replace_if_fixed = spans[REPLACE].by == MST_BY_DEFAULT;
    out->from_start = spans[SOFT].by != MST_BY_DEFAULT || spans[HARD].by != MST_BY_DEFAULT;
    return status;
}

/* --- the rest --- */

static muster_status switches_read(struct mst_run_settings *out,
                                   const struct muster_restart_options *options,
                                   struct muster_error *err)
{
    int64_t number = 0;
    muster_status status = mst_lib_setting("enabled", &number, NULL, err);

    out->disabled = options->disabled || number == 0;
    if (status == MUSTER_OK) {
        status = mst_lib_setting("export", &number, NULL, err);
    }
    out->keep_environment = options->keep_environment || number == 0;
    out->keep_handler = options->keep_handler;
    out->signal = options->interrupt_signal < 0 ? 0 : options->interrupt_signal;
    if (status == MUSTER_OK && options->interrupt_signal == 0) {
        status = mst_lib_setting("interrupt_signal", &number, NULL, err);
        out->signal = number < 0 ? mst_interrupt_standard() : (int)number;
    }
    return status;
}

static muster_status limits_read(struct mst_run_settings *out,
                                 const struct muster_restart_options *options,
                                 struct muster_error *err)
{
    struct mst_option numbers[] = {
        MST_OPTION("iterations_max", options->iterations_max, &out->config.iterations_max, 0),
        MST_OPTION("faults_max", options->faults_max, &out->config.faults_max, 0),
        MST_OPTION("stalled_max", options->stalled_max, &out->config.stalled_max, MST_OPTION_NEVER),
    };
    muster_status status = mst_lib_numbers(numbers, sizeof(numbers) / sizeof(numbers[0]), err);

    if (status == MUSTER_OK && out->config.stalled_max == 0) {
        status = mst_lib_refuse(err, "stalled_max",
                                "0 would allow no attempt; 1 or more, or -1 for no limit");
    }
    return status;
}

static muster_status out_of_memory(struct muster_error *err)
{
    return mst_lib_fail(err, MUSTER_ENOMEM, "run", NULL);
}

static void *copy_of(const void *list, size_t count, size_t size)
{
    void *copy = calloc(count, size);

    return copy ? memcpy(copy, list, count * size) : NULL;
}

/* NULL and "" are the environment's, which may be none as well. */
static muster_status text_read(char **out, const char *name, const char *given,
                               struct muster_error *err)
{
    if (!given || !*given) {
        given = mst_lib_setting_text(name);
    }
    if (!given) {
        return MUSTER_OK;
    }
    *out = strdup(given);
    return *out ? MUSTER_OK : out_of_memory(err);
}

/* --- steps --- */

static muster_status steps_check(const struct muster_restart_hooks *steps, const char *name,
                                 struct muster_error *err)
{
    if (steps->count > 0 && !steps->list) {
        return mst_lib_refuse(err, "run", "%s: the list is NULL, and its count is %zu", name,
                              steps->count);
    }
    for (size_t i = 0; i < steps->count; i++) {
        if (!steps->list[i].call) {
            return mst_lib_refuse(err, "run", "%s: callback %zu of %zu is NULL", name, i + 1,
                                  steps->count);
        }
    }
    return MUSTER_OK;
}

static muster_status steps_read(struct mst_run_settings *out,
                                const struct muster_restart_options *options,
                                struct muster_error *err)
{
    const struct muster_restart_hooks *const given[MST_STEP_KINDS] = {
        [MST_STEP_PRECONDITION] = &options->precondition,
        [MST_STEP_INITIALIZE] = &options->initialize,
        [MST_STEP_HEALTH_CHECK] = &options->health_check,
        [MST_STEP_ABORT] = &options->abort,
        [MST_STEP_FINALIZE] = &options->finalize,
        [MST_STEP_COMPLETION] = &options->completion,
        [MST_STEP_TERMINATE] = &options->terminate,
        [MST_STEP_WAIT_CHECK] = &options->wait_check,
    };
    for (int kind = 0; kind < MST_STEP_KINDS; kind++) {
        muster_status status = steps_check(given[kind], mst_step_name(kind), err);

        if (status != MUSTER_OK) {
            return status;
        }
        if (given[kind]->count == 0) {
            continue;
        }
        out->steps[kind].list =
            copy_of(given[kind]->list, given[kind]->count, sizeof(*given[kind]->list));
        if (!out->steps[kind].list) {
            return out_of_memory(err);
        }
        out->steps[kind].count = given[kind]->count;
    }
    return MUSTER_OK;
}

/* --- the assignment --- */

static muster_status layers_copy(struct mst_run_settings *out, struct muster_error *err)
{
    struct muster_assignment_layer *next;
    size_t count = 0;

    for (size_t i = 0; i < out->assignment_count; i++) {
        count += out->assignment[i].layer_count;
    }
    if (count == 0) {
        return MUSTER_OK;
    }
    next = out->layers = calloc(count, sizeof(*next));
    if (!next) {
        return out_of_memory(err);
    }
    for (size_t i = 0; i < out->assignment_count; i++) {
        struct muster_assignment_step *step = &out->assignment[i];

        if (step->layer_count > 0) {
            memcpy(next, step->layers, step->layer_count * sizeof(*next));
            step->layers = next;
            next += step->layer_count;
        }
    }
    return MUSTER_OK;
}

static muster_status assignment_copy(struct mst_run_settings *out,
                                     const struct muster_assignment *assignment,
                                     struct muster_error *err)
{
    char why[WHY_ROOM];
    struct mst_text text = mst_text_in(why, sizeof(why));

    if (assignment->count > 0 && !assignment->list) {
        return mst_lib_refuse(err, "run", "assignment: the list is NULL, and its count is not 0");
    }
    if (assignment->count == 0) {
        return MUSTER_OK;
    }
    if (mst_assignment_check(assignment->list, assignment->count, &text)) {
        return mst_lib_refuse(err, "run", "assignment: %s", why);
    }
    out->assignment = copy_of(assignment->list, assignment->count, sizeof(*out->assignment));
    if (!out->assignment) {
        return out_of_memory(err);
    }
    out->assignment_count = assignment->count;
    out->config.by_table = true;
    return layers_copy(out, err);
}

/* The label and the node go to the other ranks also without an assignment. */
static muster_status assignment_read(struct mst_run_settings *out,
                                     const struct muster_restart_options *options,
                                     struct muster_error *err)
{
    struct muster_assignment full = MUSTER_ASSIGNMENT_INIT;
    int64_t node = -1;
    muster_status status = mst_lib_options(&full, sizeof(full), options->assignment,
                                           "MUSTER_ASSIGNMENT_INIT", err, "run: assignment");

    if (status == MUSTER_OK) {
        status = assignment_copy(out, &full, err);
    }
    if (status == MUSTER_OK) {
        status = text_read(&out->label, "assignment_label", full.label, err);
    }
    if (status == MUSTER_OK && out->label && strlen(out->label) > LABEL_MAX) {
        status = mst_lib_refuse(err, "run: assignment: label", "longer than 63 bytes");
    }
    if (status == MUSTER_OK) {
        status = mst_lib_setting("node", &node, NULL, err);
    }
    out->config.node = node < 0 ? MST_NODE_NONE : (uint32_t)node;
    out->config.label = mst_slice_text(out->label);
    return status;
}

static muster_status texts_read(struct mst_run_settings *out,
                                const struct muster_restart_options *options,
                                struct muster_error *err)
{
    muster_status status =
        text_read(&out->health_command, "health_command", options->health_command, err);

    return status ? status
                  : text_read(&out->health_folder, "health_folder", options->health_folder, err);
}

typedef muster_status reader(struct mst_run_settings *out,
                             const struct muster_restart_options *options,
                             struct muster_error *err);

muster_status mst_run_settings_read(struct mst_run_settings *out,
                                    const struct muster_restart_options *options,
                                    struct muster_error *err)
{
    reader *const readers[] = {texts_read,  times_read, switches_read,
                               limits_read, steps_read, assignment_read};
    struct muster_restart_options full = MUSTER_RESTART_OPTIONS_INIT;
    muster_status status =
        mst_lib_options(&full, sizeof(full), options, "MUSTER_RESTART_OPTIONS_INIT", err, "run");

    *out = (struct mst_run_settings){0};
    for (size_t i = 0; status == MUSTER_OK && i < sizeof(readers) / sizeof(readers[0]); i++) {
        status = readers[i](out, &full, err);
    }
    if (status != MUSTER_OK) {
        mst_run_settings_free(out);
    }
    return status;
}

void mst_run_settings_free(struct mst_run_settings *settings)
{
    for (int kind = 0; kind < MST_STEP_KINDS; kind++) {
        free(settings->steps[kind].list);
    }
    free(settings->assignment);
    free(settings->layers);
    free(settings->label);
    free(settings->health_command);
    free(settings->health_folder);
    *settings = (struct mst_run_settings){0};
}
