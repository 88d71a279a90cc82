/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "sources/shell/sources.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/monotonic.h"
#include "os/thread.h"

#define LIST_MAX 4096u
#define WHY_MAX 400u
#define CHILD_END_S 1 /* for a source to kill what it has started */
#define SAME_MS 2000  /* a platform that repeats itself does not hit the same millisecond */

/* One source, shared by its thread and its owner; the last one frees it. */
struct one {
    const struct mst_source_kind *kind; /* NULL: the signals */
    void *own;
    char *argument;
    struct mst_source_setup setup;
    int64_t grace_ms;

    pthread_mutex_t lock;
    pthread_cond_t closed; /* the source's own part is; with `over` */
    bool over;
    unsigned holders;
    struct mst_sources *owner; /* NULL: it was closed */
    bool known;
    struct mst_source_notice notice;
    bool assumed;
    int64_t end_ms; /* of the notice, on our clock */
    bool unknown_said;
};

struct mst_sources {
    struct mst_sources_options options;
    struct one *all[MST_SOURCES_MAX];
    unsigned count;
};

static const struct mst_source_kind *const kinds[] = {
#define X(NAME, name) &mst_source_##name,
#include "proto/sources.def"
#undef X
};

#define KINDS (sizeof kinds / sizeof kinds[0])
#define SIGNALS "signals"

static int64_t now_ms(void)
{
    return mst_clock_ms(CLOCK_BOOTTIME); /* a machine that was asleep has less time left */
}

/* ---- the list ---- */

static bool needs_argument(const struct mst_source_kind *kind)
{
    return kind != NULL && kind->argument != NULL && kind->argument[0] != '[';
}

static void list_names(char *text, size_t room)
{
    size_t used = (size_t)snprintf(text, room, SIGNALS);

    for (size_t i = 0; i < KINDS && used < room; i++) {
        bool argument = needs_argument(kinds[i]);

        used += (size_t)snprintf(text + used, room - used, ", %s%s%s", kinds[i]->name,
                                 argument ? "=" : "", argument ? kinds[i]->argument : "");
    }
}

/* A word of the list, taken apart. */
struct word {
    const struct mst_source_kind *kind; /* NULL: the signals */
    char *argument;                     /* NULL: none */
};

static muster_status read_word(char *text, struct word *out, char *why, size_t room)
{
    char *argument = strchr(text, '=');
    char names[WHY_MAX];
    bool may;

    if (argument != NULL) {
        *argument++ = '\0';
    }
    *out = (struct word){.argument = argument};
    for (size_t i = 0; i < KINDS && out->kind == NULL; i++) {
        out->kind = strcmp(kinds[i]->name, text) == 0 ? kinds[i] : NULL;
    }
    if (out->kind == NULL && strcmp(text, SIGNALS) != 0) {
        list_names(names, sizeof names);
        (void)snprintf(why, room, "there is no source of notices '%s'; there are: %s", text, names);
        return MUSTER_EINVAL;
    }
    may = out->kind != NULL && out->kind->argument != NULL;
    if (needs_argument(out->kind) && (argument == NULL || *argument == '\0')) {
        (void)snprintf(why, room, "the source of notices '%s' needs %s=%s", text, text,
                       out->kind->argument);
        return MUSTER_EINVAL;
    }
    if (!may && argument != NULL) {
        (void)snprintf(why, room, "the source of notices '%s' takes no '=%s'", text, argument);
        return MUSTER_EINVAL;
    }
    return MUSTER_OK;
}

/* Calls `each` for each word. */
static muster_status read_list(const char *list,
                               muster_status (*each)(void *ctx, const struct word *word, char *why,
                                                     size_t room),
                               void *ctx, char *why, size_t room)
{
    char copy[LIST_MAX], *rest = copy, *text;
    unsigned count = 0;
    muster_status status = MUSTER_OK;

    if (strlen(list) >= sizeof copy) {
        (void)snprintf(why, room, "the list of sources of notices is too long");
        return MUSTER_EINVAL;
    }
    memcpy(copy, list, strlen(list) + 1);
    while (status == MUSTER_OK && (text = strsep(&rest, ",")) != NULL) {
        struct word word;

        if (*text == '\0') {
            continue;
        }
        if (++count > MST_SOURCES_MAX) {
            (void)snprintf(why, room, "more than %u sources of notices", MST_SOURCES_MAX);
            return MUSTER_EINVAL;
        }
        status = read_word(text, &word, why, room);
        if (status == MUSTER_OK && each != NULL) {
            status = each(ctx, &word, why, room);
        }
    }
    return status;
}

muster_status mst_sources_check(const char *list, char *why, size_t room)
{
    return read_list(list, NULL, NULL, why, room);
}

/* ---- one source, on its thread ---- */

static void release(struct one *one)
{
    bool last;

    (void)pthread_mutex_lock(&one->lock);
    last = --one->holders == 0;
    (void)pthread_mutex_unlock(&one->lock);
    if (last) {
        (void)pthread_cond_destroy(&one->closed);
        (void)pthread_mutex_destroy(&one->lock);
        if (one->setup.stop_fd >= 0) {
            (void)close(one->setup.stop_fd);
        }
        free(one->argument);
        free(one);
    }
}

/* The words of a source go through here, so that none comes after the end. */
static void say(void *ctx, const char *line)
{
    struct one *one = ctx;

    (void)pthread_mutex_lock(&one->lock);
    if (one->owner != NULL && one->owner->options.say != NULL) {
        one->owner->options.say(one->owner->options.ctx, line);
    }
    (void)pthread_mutex_unlock(&one->lock);
}

/* A notice that is repeated keeps the end that it had; a duration that is, also a later one. */
static bool is_news(const struct one *one, const struct mst_source_notice *notice, int64_t now)
{
    bool assumed = notice->left_ms < 0;
    int64_t moved = assumed ? 0 : now + notice->left_ms - one->end_ms;

    return !one->known || one->notice.advisory != notice->advisory ||
           one->notice.whole_job != notice->whole_job ||
           strcmp(one->notice.reason, notice->reason) != 0 || one->assumed != assumed ||
           (moved > SAME_MS && !notice->relative) || moved < -SAME_MS;
}

/* With the lock held. False: it was known. */
static bool keep(struct one *one, const struct mst_source_notice *notice)
{
    int64_t now = now_ms();

    if (!is_news(one, notice, now)) {
        return false;
    }
    one->known = true;
    one->notice = *notice;
    one->assumed = notice->left_ms < 0;
    one->end_ms = now + (one->assumed ? one->grace_ms : notice->left_ms);
    return true;
}

static void take(struct one *one, enum mst_source_answer answer,
                 const struct mst_source_notice *notice)
{
    bool news = false, unknown = false;

    (void)pthread_mutex_lock(&one->lock);
    if (answer == MST_SOURCE_NOTICE) {
        news = keep(one, notice);
    } else if (answer == MST_SOURCE_NOTHING) {
        news = one->known;
        one->known = false;
    } else if (answer == MST_SOURCE_UNKNOWN && !one->unknown_said) {
        unknown = one->unknown_said = true;
    }
    one->unknown_said = one->unknown_said && answer == MST_SOURCE_UNKNOWN;
    if (news && one->owner != NULL) {
        one->owner->options.told(one->owner->options.ctx);
    }
    (void)pthread_mutex_unlock(&one->lock);
    if (unknown) {
        char line[WHY_MAX];

        (void)snprintf(line, sizeof line, "the source of notices '%s' does not know: %s",
                       one->kind->name, notice->reason);
        say(one, line);
    }
}

/* False: it is to end. */
static bool pause_for(const struct one *one)
{
    struct pollfd stop = {.fd = one->setup.stop_fd, .events = POLLIN};
    int64_t ms = one->kind->period_ms != 0 ? one->kind->period_ms : one->setup.period_ms;
    int got;

    do {
        got = poll(&stop, 1, (int)ms);
    } while (got < 0 && errno == EINTR);
    return got == 0;
}

static void *run(void *ctx)
{
    struct one *one = ctx;

    do {
        struct mst_source_notice notice = {.left_ms = -1};
        enum mst_source_answer answer = one->kind->look(one->own, &notice);

        take(one, answer, &notice);
    } while (pause_for(one));
    one->kind->close(one->own);
    (void)pthread_mutex_lock(&one->lock);
    one->over = true;
    (void)pthread_cond_signal(&one->closed);
    (void)pthread_mutex_unlock(&one->lock);
    release(one);
    return NULL;
}

/* ---- all of them ---- */

static bool start(struct one *one)
{
    bool ok;

    one->holders++;
    ok = mst_thread_start(NULL, 0, run, one) == 0;
    one->holders -= !ok;
    return ok;
}

static struct one *one_new(struct mst_sources *sources, const struct word *word)
{
    const struct mst_sources_options *options = &sources->options;
    struct one *one = calloc(1, sizeof *one);

    if (one == NULL) {
        return NULL;
    }
    one->kind = word->kind;
    one->owner = sources;
    one->holders = 1;
    one->grace_ms = options->grace_ms;
    (void)pthread_mutex_init(&one->lock, NULL);
    mst_monotonic_cond_init(&one->closed);
    one->argument = word->argument != NULL ? strdup(word->argument) : NULL;
    one->setup = (struct mst_source_setup){.argument = one->argument,
                                           .stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                                           .period_ms = options->period_ms,
                                           .margin_ms = options->margin_ms,
                                           .age_ms = options->age_ms,
                                           .say = say,
                                           .say_ctx = one};
    if ((word->argument != NULL && one->argument == NULL) || one->setup.stop_fd < 0) {
        release(one);
        return NULL;
    }
    return one;
}

static muster_status add(void *ctx, const struct word *word, char *why, size_t room)
{
    struct mst_sources *sources = ctx;
    struct one *one = one_new(sources, word);

    if (one == NULL) {
        (void)snprintf(why, room, "the sources of notices: out of memory");
        return MUSTER_ENOMEM;
    }
    if (word->kind != NULL && !word->kind->open(&one->own, &one->setup, why, room)) {
        release(one);
        return MUSTER_EINVAL;
    }
    if (word->kind != NULL && !start(one)) {
        word->kind->close(one->own);
        release(one);
        (void)snprintf(why, room, "the source of notices '%s': no thread can be started",
                       word->kind->name);
        return MUSTER_ENOMEM;
    }
    sources->all[sources->count++] = one;
    return MUSTER_OK;
}

muster_status mst_sources_open(struct mst_sources **out, const struct mst_sources_options *options,
                               char *why, size_t room)
{
    struct mst_sources *sources = calloc(1, sizeof *sources);
    muster_status status;

    if (sources == NULL) {
        (void)snprintf(why, room, "the sources of notices: out of memory");
        return MUSTER_ENOMEM;
    }
    sources->options = *options;
    status = read_list(options->list, add, sources, why, room);
    if (status != MUSTER_OK) {
        mst_sources_close(sources);
        return status;
    }
    *out = sources;
    return MUSTER_OK;
}

/* The process may be about to exit, and its child would outlive it. */
static void await_child(struct one *one)
{
    struct timespec until = mst_monotonic_in(CHILD_END_S * 1000);

    (void)pthread_mutex_lock(&one->lock);
    while (!one->over && pthread_cond_timedwait(&one->closed, &one->lock, &until) == 0) {
    }
    (void)pthread_mutex_unlock(&one->lock);
}

void mst_sources_close(struct mst_sources *sources)
{
    if (sources == NULL) {
        return;
    }
    for (unsigned i = 0; i < sources->count; i++) {
        struct one *one = sources->all[i];

        (void)pthread_mutex_lock(&one->lock);
        one->owner = NULL;
        (void)pthread_mutex_unlock(&one->lock);
        (void)eventfd_write(one->setup.stop_fd, 1);
        if (one->kind != NULL && one->kind->has_child) {
            await_child(one);
        }
        release(one);
    }
    free(sources);
}

static struct one *signals_of(const struct mst_sources *sources)
{
    for (unsigned i = 0; sources != NULL && i < sources->count; i++) {
        if (sources->all[i]->kind == NULL) {
            return sources->all[i];
        }
    }
    return NULL;
}

bool mst_sources_wants_signals(const struct mst_sources *sources)
{
    return signals_of(sources) != NULL;
}

void mst_sources_signal(struct mst_sources *sources, const char *reason, bool whole_job)
{
    struct one *one = signals_of(sources);
    struct mst_source_notice notice = {.left_ms = -1, .whole_job = whole_job};

    if (one != NULL) {
        (void)snprintf(notice.reason, sizeof notice.reason, "%s", reason);
        (void)pthread_mutex_lock(&one->lock);
        (void)keep(one, &notice);
        (void)pthread_mutex_unlock(&one->lock);
    }
}

/* Certain before advisory, then the first end. */
static bool is_worse(const struct mst_source_notice *a, const struct mst_source_notice *b)
{
    if (a->advisory != b->advisory) {
        return b->advisory;
    }
    return a->left_ms < b->left_ms;
}

/* With the lock held. */
static struct mst_sources_known known_of(const struct one *one, int64_t now)
{
    struct mst_sources_known known = {.notice = one->notice, .assumed = one->assumed};

    known.notice.left_ms = one->end_ms > now ? one->end_ms - now : 0;
    (void)snprintf(known.source, sizeof known.source, "%s",
                   one->kind != NULL ? one->kind->name : SIGNALS);
    return known;
}

bool mst_sources_known(struct mst_sources *sources, struct mst_sources_known *out)
{
    int64_t now = now_ms();
    bool any = false;

    for (unsigned i = 0; sources != NULL && i < sources->count; i++) {
        struct one *one = sources->all[i];
        struct mst_sources_known known;
        bool is;

        (void)pthread_mutex_lock(&one->lock);
        is = one->known;
        known = known_of(one, now);
        (void)pthread_mutex_unlock(&one->lock);
        if (is && (!any || is_worse(&known.notice, &out->notice))) {
            *out = known;
            any = true;
        }
    }
    return any;
}
