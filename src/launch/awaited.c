/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "launch/awaited.h"

#include <inttypes.h>

#include "base/text.h"
#include "launch/job.h"
#include "launch/say.h"

#define STANDARD_MS 60000 /* the RESTART setting replace_wait */
#define LOOK_MS 500
#define SAID_AFTER_MS 2000
#define SAID_AGAIN_MS 10000
#define SHOWN_MAX 4u

int64_t mst_awaited_ms(const struct mst_run_options *options)
{
    bool fixed = options->min_size != 0 && options->min_size == options->size;

    if (options->max_restarts == 0) {
        return 0;
    }
    if (options->replace_wait_ms >= 0) {
        return options->replace_wait_ms;
    }
    return fixed ? STANDARD_MS : 0;
}

static uint64_t since_ms(uint64_t then_ns)
{
    return (mst_lib_now_ns() - then_ns) / NS_PER_MS;
}

/* With the lock held. The service decides how long the wait is, and begins it later. */
static bool is_awaited(struct mst_run_job *job, struct mst_place *place)
{
    bool starts = place->state == MST_PLACE_WAITS ||
                  (place->state == MST_PLACE_RUNS && !place->process->joined);

    if (place->lost_ns != 0 &&
        (!starts || since_ms(place->lost_ns) > (uint64_t)mst_awaited_ms(job->options))) {
        place->lost_ns = 0;
    }
    return place->lost_ns != 0;
}

/* The number of them, and the longest wait. */
static uint32_t list(struct mst_run_job *job, struct mst_text *text, uint64_t *longest_ms_out)
{
    uint32_t count = 0;

    *longest_ms_out = 0;
    for (uint32_t i = 0; i < job->places.count; i++) {
        struct mst_place *place = &job->places.list[i];
        uint64_t ms;
        bool joins;

        if (!is_awaited(job, place)) {
            continue;
        }
        joins = place->state == MST_PLACE_RUNS && mst_process_client(place->process) != 0;
        ms = since_ms(place->lost_ns);
        *longest_ms_out = ms > *longest_ms_out ? ms : *longest_ms_out;
        if (count++ < SHOWN_MAX) {
            mst_text_format(text, "%s#%" PRIu32 " (%s, " MST_SECONDS ")", count > 1 ? ", " : "",
                            place->index, joins ? "joining" : "starting", MST_SECONDS_ARGS(ms));
        }
    }
    return count;
}

static void on_look(uv_timer_t *timer)
{
    struct mst_run_job *job = timer->data;
    struct mst_awaited *awaited = &job->awaited;
    char line[256], more[32] = "";
    struct mst_text text = mst_text_in(line, sizeof line);
    uint64_t longest_ms;
    uint32_t count;

    mst_shared_lock(&job->shared);
    count = list(job, &text, &longest_ms);
    mst_shared_unlock(&job->shared);
    if (count == 0 || job->end.how != MST_GOES_ON) {
        (void)uv_timer_stop(timer);
        awaited->said_ns = 0;
    } else if (longest_ms >= SAID_AFTER_MS &&
               (awaited->said_ns == 0 || since_ms(awaited->said_ns) >= SAID_AGAIN_MS)) {
        if (count > SHOWN_MAX) {
            mst_text_print(more, sizeof more, " and %" PRIu32 " more", count - SHOWN_MAX);
        }
        mst_say("waiting for %s%s", line, more);
        awaited->said_ns = mst_lib_now_ns();
    }
}

void mst_awaited_init(struct mst_run_job *job)
{
    (void)uv_timer_init(&job->loop, &job->awaited.look);
    job->awaited.look.data = job;
}

void mst_awaited_begin(struct mst_place *place)
{
    struct mst_run_job *job = place->job;

    if (place->process->joined) {
        place->lost_ns = place->process->died_ns;
    }
    if (mst_awaited_ms(job->options) > 0 && place->lost_ns != 0 &&
        !uv_is_active((uv_handle_t *)&job->awaited.look)) {
        (void)uv_timer_start(&job->awaited.look, on_look, LOOK_MS, LOOK_MS);
    }
}
