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

/* A duration and where it is from, for the rules. -1: never. */
enum origin { DEFAULT, ENVIRONMENT, OPTION };

struct span {
    const char *name;
    int64_t ms;
    enum origin origin;
};

struct spans {
    struct span barrier, hard, soft, settle, grace, completion, health;
};

const char *mst_step_name(enum mst_step_kind kind)
{
    switch (kind) {
    case MST_STEP_PRECONDITION:
        return "precondition";
    case MST_STEP_INITIALIZE:
        return "initialize";
    case MST_STEP_HEALTH_CHECK:
        return "health_check";
    case MST_STEP_ABORT:
        return "abort";
    case MST_STEP_FINALIZE:
        return "finalize";
    case MST_STEP_COMPLETION:
        return "completion";
    case MST_STEP_TERMINATE:
        return "terminate";
    case MST_STEP_KINDS:
        break;
    }
    return "?";
}

/* --- single values --- */

static muster_status span_read(struct span *out, const char *name, int64_t given,
                               struct muster_error *err)
{
    bool set = false;
    muster_status status;

    *out = (struct span){.name = name, .ms = given, .origin = OPTION};
    if (given != 0) {
        return mst_lib_setting_check(name, given, err);
    }
    status = mst_lib_setting(name, &out->ms, &set, err);
    out->origin = set ? ENVIRONMENT : DEFAULT;
    return status;
}

static muster_status number_read(const char *name, int64_t given, int64_t *out,
                                 struct muster_error *err)
{
    *out = given;
    return given != 0 ? mst_lib_setting_check(name, given, err)
                      : mst_lib_setting(name, out, NULL, err);
}

static int64_t never_if_negative(int64_t ms)
{
    return ms < 0 ? -1 : ms;
}

static muster_status spans_read(struct spans *spans, const struct muster_restart_options *options,
                                struct muster_error *err)
{
    muster_status status =
        span_read(&spans->barrier, "barrier_timeout", options->barrier_timeout_ms, err);

    if (status == MUSTER_OK) {
        status = span_read(&spans->hard, "hard_timeout",
                           never_if_negative(options->hard_timeout_ms), err);
    }
    if (status == MUSTER_OK) {
        status = span_read(&spans->soft, "soft_timeout",
                           never_if_negative(options->soft_timeout_ms), err);
    }
    if (status == MUSTER_OK) {
        status = span_read(&spans->settle, "settle", options->settle_ms, err);
    }
    if (status == MUSTER_OK) {
        status = span_read(&spans->grace, "grace", options->grace_ms, err);
    }
    if (status == MUSTER_OK) {
        status = span_read(&spans->completion, "completion_timeout", options->completion_timeout_ms,
                           err);
    }
    if (status == MUSTER_OK) {
        status = span_read(&spans->health, "health_timeout", options->health_timeout_ms, err);
    }
    return status;
}

/* --- the rules between them --- */

static void shrink(struct span *span, int64_t most)
{
    if (span->origin == DEFAULT && span->ms > most) {
        span->ms = most > 0 ? most : 1;
    }
}

/* Defaults give way to what was set. */
static void spans_fit(struct spans *spans)
{
    int64_t barrier = spans->barrier.ms;

    shrink(&spans->grace, barrier / 8);
    shrink(&spans->hard, barrier / 4 * 3 + barrier % 4 * 3 / 4);
    if (spans->hard.ms + spans->grace.ms >= barrier && barrier > spans->grace.ms) {
        shrink(&spans->hard, (barrier - spans->grace.ms) * 3 / 4);
    }
    if (spans->hard.ms >= 0) {
        shrink(&spans->soft, spans->hard.ms * 2 / 3);
        shrink(&spans->health, spans->hard.ms / 2);
    }
}

static const char *origin_of(const struct span *span)
{
    static const char *const origins[] = {
        [DEFAULT] = ", the default", [ENVIRONMENT] = ", of the environment", [OPTION] = ""};

    return origins[span->origin];
}

#define SPAN "%s (%" PRId64 " ms%s)"
#define SPAN_ARGS(span) (span)->name, (span)->ms, origin_of(span)

static muster_status refuse_order(const struct span *less, const struct span *and_less,
                                  const struct span *more, struct muster_error *err)
{
    return and_less
               ? mst_lib_refuse(err, "run", SPAN " and " SPAN " together must be less than " SPAN,
                                SPAN_ARGS(less), SPAN_ARGS(and_less), SPAN_ARGS(more))
               : mst_lib_refuse(err, "run", SPAN " must be less than " SPAN, SPAN_ARGS(less),
                                SPAN_ARGS(more));
}

static muster_status spans_check(const struct spans *spans, bool has_command,
                                 struct muster_error *err)
{
    bool soft = spans->soft.ms >= 0;
    bool hard = spans->hard.ms >= 0;

    if (soft && hard && spans->soft.ms >= spans->hard.ms) {
        return refuse_order(&spans->soft, NULL, &spans->hard, err);
    }
    if (hard && spans->hard.ms >= spans->barrier.ms) {
        return refuse_order(&spans->hard, NULL, &spans->barrier, err);
    }
    if (hard && spans->hard.ms + spans->grace.ms >= spans->barrier.ms) {
        return refuse_order(&spans->hard, &spans->grace, &spans->barrier, err);
    }
    if (soft && spans->settle.ms >= spans->soft.ms) {
        return refuse_order(&spans->settle, NULL, &spans->soft, err);
    }
    if (spans->settle.ms >= spans->barrier.ms) {
        return refuse_order(&spans->settle, NULL, &spans->barrier, err);
    }
    if (has_command && hard && spans->health.ms >= spans->hard.ms) {
        return refuse_order(&spans->health, NULL, &spans->hard, err);
    }
    return MUSTER_OK;
}

/* 0 would be done at once, which nobody can mean; the default is asked for by leaving it out. */
static muster_status zero_check(const struct span *span, struct muster_error *err)
{
    return span->ms == 0 ? mst_lib_refuse(err, span->name, "0 is no time; -1 for never")
                         : MUSTER_OK;
}

static muster_status times_read(struct mst_run_settings *out,
                                const struct muster_restart_options *options,
                                struct muster_error *err)
{
    struct spans spans;
    muster_status status = spans_read(&spans, options, err);

    if (status == MUSTER_OK) {
        status = zero_check(&spans.soft, err);
    }
    if (status == MUSTER_OK) {
        status = zero_check(&spans.hard, err);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    spans_fit(&spans);
    status = spans_check(&spans, out->health_command != NULL, err);
    out->config.barrier_timeout_ms = (uint64_t)spans.barrier.ms;
    out->config.completion_timeout_ms = (uint64_t)spans.completion.ms;
    out->config.settle_ms = (uint64_t)spans.settle.ms;
    out->config.soft_timeout_ms = spans.soft.ms < 0 ? 0 : (uint64_t)spans.soft.ms;
    out->soft_ms = spans.soft.ms;
    out->hard_ms = spans.hard.ms;
    out->grace_ms = spans.grace.ms;
    out->health_timeout_ms = spans.health.ms;
    out->from_start = spans.soft.origin != DEFAULT || spans.hard.origin != DEFAULT;
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
    int64_t number = 0;
    muster_status status = number_read("iterations_max", options->iterations_max, &number, err);

    out->config.iterations_max = (uint32_t)number;
    if (status == MUSTER_OK) {
        status = number_read("faults_max", options->faults_max, &number, err);
        out->config.faults_max = (uint32_t)number;
    }
    if (status == MUSTER_OK) {
        status = number_read("stalled_max", options->stalled_max < 0 ? -1 : options->stalled_max,
                             &number, err);
        out->config.stalled_max = (int32_t)number;
    }
    if (status == MUSTER_OK && number == 0) {
        status = mst_lib_refuse(err, "stalled_max",
                                "0 would allow no attempt; 1 or more, or -1 for no limit");
    }
    return status;
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
    return *out ? MUSTER_OK : mst_lib_fail(err, MUSTER_ENOMEM, "run", NULL);
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
    };
    struct muster_restart_hook *next;
    size_t count = 0;

    for (int kind = 0; kind < MST_STEP_KINDS; kind++) {
        muster_status status = steps_check(given[kind], mst_step_name(kind), err);

        if (status != MUSTER_OK) {
            return status;
        }
        count += given[kind]->count;
    }
    if (count == 0) {
        return MUSTER_OK;
    }
    next = out->step_list = calloc(count, sizeof(*next));
    if (!next) {
        return mst_lib_fail(err, MUSTER_ENOMEM, "run", NULL);
    }
    for (int kind = 0; kind < MST_STEP_KINDS; kind++) {
        out->steps[kind] = (struct muster_restart_hooks){.list = next, .count = given[kind]->count};
        if (given[kind]->count > 0) {
            memcpy(next, given[kind]->list, given[kind]->count * sizeof(*next));
            next += given[kind]->count;
        }
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
        return mst_lib_fail(err, MUSTER_ENOMEM, "run", NULL);
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
    out->assignment = calloc(assignment->count, sizeof(*out->assignment));
    if (!out->assignment) {
        return mst_lib_fail(err, MUSTER_ENOMEM, "run", NULL);
    }
    memcpy(out->assignment, assignment->list, assignment->count * sizeof(*out->assignment));
    out->assignment_count = assignment->count;
    out->config.by_table = true;
    return layers_copy(out, err);
}

/* The label and the node are told to the others by whoever has no assignment, too. */
static muster_status assignment_read(struct mst_run_settings *out,
                                     const struct muster_assignment *given,
                                     struct muster_error *err)
{
    struct muster_assignment full = MUSTER_ASSIGNMENT_INIT;
    int64_t node = -1;
    muster_status status = mst_lib_options(&full, sizeof(full), given, "MUSTER_ASSIGNMENT_INIT",
                                           err, "run: assignment");

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
    out->config.label = mst_slice_text(out->label ? out->label : "");
    return status;
}

static muster_status read_all(struct mst_run_settings *out,
                              const struct muster_restart_options *options,
                              struct muster_error *err)
{
    muster_status status =
        text_read(&out->health_command, "health_command", options->health_command, err);

    if (status == MUSTER_OK) {
        status = text_read(&out->health_folder, "health_folder", options->health_folder, err);
    }
    if (status == MUSTER_OK) {
        status = times_read(out, options, err);
    }
    if (status == MUSTER_OK) {
        status = switches_read(out, options, err);
    }
    if (status == MUSTER_OK) {
        status = limits_read(out, options, err);
    }
    if (status == MUSTER_OK) {
        status = steps_read(out, options, err);
    }
    if (status == MUSTER_OK) {
        status = assignment_read(out, options->assignment, err);
    }
    return status;
}

muster_status mst_run_settings_read(struct mst_run_settings *out,
                                    const struct muster_restart_options *options,
                                    struct muster_error *err)
{
    struct muster_restart_options full = MUSTER_RESTART_OPTIONS_INIT;
    muster_status status =
        mst_lib_options(&full, sizeof(full), options, "MUSTER_RESTART_OPTIONS_INIT", err, "run");

    *out = (struct mst_run_settings){0};
    if (status == MUSTER_OK) {
        status = read_all(out, &full, err);
    }
    if (status != MUSTER_OK) {
        mst_run_settings_free(out);
    }
    return status;
}

void mst_run_settings_free(struct mst_run_settings *settings)
{
    free(settings->step_list);
    free(settings->assignment);
    free(settings->layers);
    free(settings->label);
    free(settings->health_command);
    free(settings->health_folder);
    *settings = (struct mst_run_settings){0};
}
