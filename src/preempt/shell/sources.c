/* SPDX-License-Identifier: Apache-2.0 */
/* The user's own sources of notices, each asked once per period on one thread. What a source gives
 * again and again is one notice, until it takes it back, or the deadline moves forward by more than
 * a second, or it becomes certain. */
#define _GNU_SOURCE
#include "preempt/shell/preempt.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "os/clock.h"
#include "os/monotonic.h"
#include "os/thread.h"

#define THREAD_STACK ((size_t)512 * 1024) /* the user's code runs on it */
#define DEADLINE_JITTER_NS NS_PER_S

enum { NAME_ROOM = 24, SOURCES_MAX = 32, STANDARD_PERIOD_MS = 1000 };

struct source {
    struct muster_preempt_source given;
    char name[NAME_ROOM];
    uint64_t due_ns;
    bool said; /* a notice that was taken, and has not been taken back since: */
    uint64_t deadline_ns;
    enum muster_notice_level level;
    bool failing;
};

struct mst_preempt_sources {
    struct muster_preempt *preempt;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool stop;
    size_t count;
    struct source list[SOURCES_MAX];
};

static bool is_news(const struct source *source, const struct muster_notice_given *given,
                    uint64_t deadline_ns)
{
    return !source->said || given->level < source->level ||
           (deadline_ns < source->deadline_ns &&
            source->deadline_ns - deadline_ns > DEADLINE_JITTER_NS);
}

static void take(struct mst_preempt_sources *sources, struct source *source,
                 struct muster_notice_given *given)
{
    uint64_t deadline_ns = UINT64_MAX; /* an assumed one does not move */

    given->reason[sizeof(given->reason) - 1] = '\0';
    if (given->in_ms >= 0) {
        deadline_ns = mst_after_ms(mst_lib_now_ns(), (uint64_t)given->in_ms);
    }
    if (is_news(source, given, deadline_ns) &&
        mst_preempt_give(sources->preempt, source->name, given)) {
        source->said = true;
        source->deadline_ns = deadline_ns;
        source->level = given->level;
    }
}

static void tell_failing(struct mst_preempt_sources *sources, struct source *source,
                         muster_status status)
{
    muster_client *client = sources->preempt->client;

    source->failing = status != MUSTER_OK;
    mst_lib_lock(client);
    if (status) {
        mst_lib_log(client, MUSTER_LEVEL_WARN,
                    "source of notices '%s' fails: %s; it is asked again each period", source->name,
                    muster_status_text(status));
    } else {
        mst_lib_log(client, MUSTER_LEVEL_WARN, "source of notices '%s' works again", source->name);
    }
    mst_lib_unlock(client);
}

static void ask(struct mst_preempt_sources *sources, struct source *source)
{
    struct muster_notice_given given = {.in_ms = -1};
    muster_status status = source->given.poll(source->given.ctx, &given);

    if ((status < 0) != source->failing) {
        tell_failing(sources, source, status < 0 ? status : MUSTER_OK);
    }
    if (status == MUSTER_OK) {
        take(sources, source, &given);
    } else if (status > 0) {
        source->said = false;
    }
}

static struct source *first_due(struct mst_preempt_sources *sources)
{
    struct source *first = &sources->list[0];

    for (size_t i = 1; i < sources->count; i++) {
        if (sources->list[i].due_ns < first->due_ns) {
            first = &sources->list[i];
        }
    }
    return first;
}

/* With the lock. False: it is to stop. */
static bool wait_until(struct mst_preempt_sources *sources, uint64_t due_ns)
{
    struct timespec limit = mst_clock_timespec(due_ns);

    while (!sources->stop && mst_lib_now_ns() < due_ns) {
        (void)pthread_cond_timedwait(&sources->changed, &sources->lock, &limit);
    }
    return !sources->stop;
}

static void *run(void *ctx)
{
    struct mst_preempt_sources *sources = ctx;
    struct source *source = first_due(sources);

    (void)pthread_mutex_lock(&sources->lock);
    while (wait_until(sources, source->due_ns)) {
        (void)pthread_mutex_unlock(&sources->lock);
        ask(sources, source);
        source->due_ns = mst_after_ms(mst_lib_now_ns(), (uint64_t)source->given.period_ms);
        source = first_due(sources);
        (void)pthread_mutex_lock(&sources->lock);
    }
    (void)pthread_mutex_unlock(&sources->lock);
    return NULL;
}

muster_status mst_preempt_sources_check(const struct muster_preempt_source *list, size_t count,
                                        struct muster_error *err)
{
    if (count > 0 && !list) {
        return mst_lib_refuse(err, "preempt", "options.sources is NULL");
    }
    if (count > SOURCES_MAX) {
        return mst_lib_refuse(err, "preempt", "more than 32 sources");
    }
    for (size_t i = 0; i < count; i++) {
        const struct muster_preempt_source *source = &list[i];

        if (!source->poll || !source->name || source->name[0] == '\0' ||
            strlen(source->name) >= NAME_ROOM || strpbrk(source->name, " ,=\n")) {
            return mst_lib_refuse(err, "preempt",
                                  "a source needs a poll and a name of at most 23 bytes, without "
                                  "blanks, commas and '='");
        }
        if (source->period_ms < 0) {
            return mst_lib_refuse(err, "preempt", "the period of a source is negative");
        }
    }
    return MUSTER_OK;
}

static void free_sources(struct mst_preempt_sources *sources)
{
    (void)pthread_cond_destroy(&sources->changed);
    (void)pthread_mutex_destroy(&sources->lock);
    free(sources);
}

muster_status mst_preempt_sources_start(struct muster_preempt *preempt, struct muster_error *err)
{
    const struct muster_preempt_options *options = &preempt->settings.options;
    struct mst_preempt_sources *sources;

    if (options->source_count == 0) {
        return MUSTER_OK;
    }
    sources = calloc(1, sizeof(*sources));
    if (!sources) {
        return mst_lib_fail(err, MUSTER_ENOMEM, "preempt", NULL);
    }
    sources->preempt = preempt;
    sources->count = options->source_count;
    for (size_t i = 0; i < sources->count; i++) {
        struct source *source = &sources->list[i];

        source->given = options->sources[i];
        (void)mst_slice_copy(source->name, NAME_ROOM, mst_slice_text(source->given.name));
        if (source->given.period_ms == 0) {
            source->given.period_ms = STANDARD_PERIOD_MS;
        }
    }
    (void)pthread_mutex_init(&sources->lock, NULL);
    mst_monotonic_cond_init(&sources->changed);
    if (mst_thread_start(&sources->thread, THREAD_STACK, run, sources) != 0) {
        free_sources(sources);
        return mst_lib_fail(err, MUSTER_ENOMEM, "preempt: no thread for the sources", NULL);
    }
    preempt->sources = sources;
    return MUSTER_OK;
}

void mst_preempt_sources_stop(struct muster_preempt *preempt)
{
    struct mst_preempt_sources *sources = preempt->sources;

    if (!sources) {
        return;
    }
    preempt->sources = NULL;
    (void)pthread_mutex_lock(&sources->lock);
    sources->stop = true;
    (void)pthread_cond_signal(&sources->changed);
    (void)pthread_mutex_unlock(&sources->lock);
    (void)pthread_join(sources->thread, NULL);
    free_sources(sources);
}
