/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "launch/plain.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "launch/job.h"
#include "proto/run_keys.h"

#define OLD_ENOUGH_NS NS_PER_S /* a program that uses muster has opened its client by then */
#define MORE_ROOM 16u          /* of "+COUNT" */

static bool is_plain(const struct mst_place *place)
{
    return place->state == MST_PLACE_RUNS && mst_process_client(place->process) == 0 &&
           !mst_fronted_has(place->job, place);
}

/* Of those that are old enough. Returns when the next one is; 0: none will be. */
static uint64_t list(const struct mst_run_job *job, char value[MST_NOTE_MAX])
{
    uint64_t now_ns = mst_lib_now_ns(), next_ns = 0;
    uint32_t more = 0;
    size_t size = 0;

    value[0] = '\0';
    for (uint32_t i = 0; i < job->places.count; i++) {
        const struct mst_place *place = &job->places.list[i];
        uint64_t old_ns = is_plain(place) ? place->process->started_ns + OLD_ENOUGH_NS : 0;
        char one[40];
        size_t length;

        if (old_ns == 0 || old_ns > now_ns) {
            next_ns = old_ns != 0 && (next_ns == 0 || old_ns < next_ns) ? old_ns : next_ns;
            continue;
        }
        length = (size_t)snprintf(one, sizeof one, "%s%" PRIu32 ":%d", size > 0 ? " " : "",
                                  place->index, (int)place->process->pid);
        if (size + length + MORE_ROOM < MST_NOTE_MAX) {
            memcpy(value + size, one, length + 1);
            size += length;
        } else {
            more++;
        }
    }
    if (more > 0) {
        (void)snprintf(value + size, MST_NOTE_MAX - size, " +%" PRIu32, more);
    }
    return next_ns;
}

static void on_young(uv_timer_t *timer)
{
    mst_plain_look(timer->data);
}

void mst_plain_open(struct mst_run_job *job)
{
    (void)uv_timer_init(&job->loop, &job->plain.young);
    job->plain.young.data = job;
}

void mst_plain_begin(struct mst_run_job *job)
{
    struct mst_note *note = &job->plain.note;

    *note = (struct mst_note){.owned = true};
    (void)snprintf(note->key, sizeof note->key, MST_RUN_PLAIN_PREFIX "%" PRIu32, job->nodes.number);
}

void mst_plain_look(struct mst_run_job *job)
{
    char value[MST_NOTE_MAX];
    uint64_t next_ns, now_ns = mst_lib_now_ns();

    if (job->nodes.joining || job->nodes.rejoins || job->end.closing) {
        return;
    }
    next_ns = list(job, value);
    if (strcmp(value, job->plain.note.value) != 0) {
        mst_session_write(&job->session, &job->plain.note, value);
    }
    if (next_ns != 0 && !uv_is_active((uv_handle_t *)&job->plain.young)) {
        uint64_t wait_ms = next_ns > now_ns ? (next_ns - now_ns) / NS_PER_MS + 1 : 1;

        (void)uv_timer_start(&job->plain.young, on_young, wait_ms, 0);
    }
}
