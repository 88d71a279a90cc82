/* SPDX-License-Identifier: Apache-2.0 */
/* Google, Amazon and Azure: their machines (sources/metadata) decide what to ask and what it means;
 * here is what sends it. A look lasts until something has changed. */
#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "os/clock.h"
#include "sources/metadata/metadata.h"
#include "sources/shell/fetch.h"
#include "sources/source.h"

#define BASE_MAX 512u
#define BASE "http://169.254.169.254" /* all three have it there */
#define BASE_AMAZON_IPV6 "http://[fd00:ec2::254]"
#define WAIT_MAX_MS 60000

struct lane {
    struct mst_fetch fetch;
    struct mst_metadata_request request;
    int64_t due_ms; /* when it is sent; -1: never more */
};

struct own {
    struct mst_metadata machine;
    char base[BASE_MAX];
    CURLM *multi;
    struct mst_source_setup setup;
    bool news;
    char unknown[MST_METADATA_TEXT]; /* empty: not now */
    struct lane lanes[MST_METADATA_LANES];
};

/* ---- the machine's events ---- */

static void say(const struct own *own, const char *words)
{
    char line[MST_METADATA_TEXT + BASE_MAX + 64];

    (void)snprintf(line, sizeof line, "the source of notices '%s' at %s: %s",
                   mst_metadata_name(own->machine.source), own->base, words);
    own->setup.say(own->setup.say_ctx, line);
}

static void tell(void *ctx, const struct mst_metadata_event *event)
{
    struct own *own = ctx;

    switch (event->kind) {
    case MST_METADATA_NOTICE:
    case MST_METADATA_WITHDRAWN:
        own->news = true;
        break;
    case MST_METADATA_UNKNOWN:
        (void)snprintf(own->unknown, sizeof own->unknown, "%s", event->text);
        break;
    case MST_METADATA_KNOWN:
        own->news = true;
        say(own, event->text);
        break;
    case MST_METADATA_SAY:
        say(own, event->text);
        break;
    }
}

/* ---- requests ---- */

static void ask_next(struct own *own, uint32_t number)
{
    struct lane *lane = &own->lanes[number];

    mst_metadata_ask(&own->machine, number, &lane->request);
    lane->due_ms = lane->request.wait_ms == MST_METADATA_NEVER
                       ? -1
                       : mst_clock_ms(CLOCK_BOOTTIME) + lane->request.wait_ms;
}

static void take(struct own *own, uint32_t number, struct mst_metadata_answer *answer)
{
    answer->wall_ms = mst_clock_ms(CLOCK_REALTIME);
    answer->clock_ms = (uint64_t)mst_clock_ms(CLOCK_BOOTTIME);
    mst_metadata_take(&own->machine, number, answer);
    ask_next(own, number);
}

/* Sends what is due; how long until the next is, at most WAIT_MAX_MS. */
static int start_due(struct own *own)
{
    int64_t now_ms = mst_clock_ms(CLOCK_BOOTTIME), wait_ms = WAIT_MAX_MS;

    for (uint32_t i = 0; i < mst_metadata_lanes(&own->machine); i++) {
        struct lane *lane = &own->lanes[i];

        if (lane->due_ms >= 0 && !lane->fetch.flying && lane->due_ms <= now_ms &&
            !mst_fetch_start(&lane->fetch, own->multi, own->base, &lane->request)) {
            lane->due_ms = now_ms + WAIT_MAX_MS; /* no memory */
        }
        if (lane->due_ms >= 0 && !lane->fetch.flying && lane->due_ms - now_ms < wait_ms) {
            wait_ms = lane->due_ms - now_ms;
        }
    }
    return (int)wait_ms;
}

/* Whether there was any: then something else may be due. */
static bool take_finished(struct own *own)
{
    CURLMsg *message;
    bool any = false;
    int left;

    while ((message = mst_curl.curl_multi_info_read(own->multi, &left)) != NULL) {
        CURLcode code = message->data.result;
        struct mst_metadata_answer answer;

        if (message->msg != CURLMSG_DONE) {
            continue;
        }
        for (uint32_t i = 0; i < MST_METADATA_LANES; i++) {
            if (own->lanes[i].fetch.flying && own->lanes[i].fetch.easy == message->easy_handle) {
                mst_fetch_end(&own->lanes[i].fetch, own->multi, code, &answer);
                take(own, i, &answer);
                any = true;
                break;
            }
        }
    }
    return any;
}

/* False: it is to end. */
static bool go_on(struct own *own)
{
    struct curl_waitfd stop = {.fd = own->setup.stop_fd, .events = CURL_WAIT_POLLIN};
    int running, wait_ms = start_due(own);

    (void)mst_curl.curl_multi_perform(own->multi, &running);
    if (take_finished(own)) {
        return true;
    }
    (void)mst_curl.curl_multi_poll(own->multi, &stop, 1, wait_ms, NULL);
    return stop.revents == 0;
}

static enum mst_source_answer look(void *ctx, struct mst_source_notice *out)
{
    struct own *own = ctx;
    struct mst_metadata_event worst;

    own->news = false;
    own->unknown[0] = '\0';
    while (go_on(own) && !own->news && own->unknown[0] == '\0') {
    }
    if (!own->news) {
        (void)snprintf(out->reason, sizeof out->reason, "%s (%.*s)", own->unknown,
                       (int)(sizeof out->reason - MST_METADATA_TEXT - 4), own->base);
        return MST_SOURCE_UNKNOWN;
    }
    if (!mst_metadata_worst(&own->machine, (uint64_t)mst_clock_ms(CLOCK_BOOTTIME), &worst)) {
        return MST_SOURCE_NOTHING;
    }
    out->left_ms = worst.left_ms;
    out->advisory = !worst.certain;
    (void)snprintf(out->reason, sizeof out->reason, "%s", worst.text);
    return MST_SOURCE_NOTICE;
}

/* ---- beginning and end ---- */

static void close_own(void *ctx)
{
    struct own *own = ctx;

    for (uint32_t i = 0; i < MST_METADATA_LANES; i++) {
        mst_fetch_fini(&own->lanes[i].fetch, own->multi);
    }
    (void)mst_curl.curl_multi_cleanup(own->multi);
    free(own);
}

static bool set_base(struct own *own, const char *host, const char *url, char *why, size_t room)
{
    const char *name = mst_metadata_name(own->machine.source);
    int size = host != NULL && *host != '\0'
                   ? snprintf(own->base, sizeof own->base, "http://%s", host)
                   : snprintf(own->base, sizeof own->base, "%s", url);

    if (size < 0 || (size_t)size >= sizeof own->base ||
        (strncmp(own->base, "http://", 7) != 0 && strncmp(own->base, "https://", 8) != 0)) {
        (void)snprintf(why, room,
                       "the source of notices '%s': %.200s is no address http://HOST:PORT", name,
                       url);
        return false;
    }
    while (size > 0 && own->base[size - 1] == '/') {
        own->base[--size] = '\0';
    }
    return true;
}

/* What the user typed, else what the cloud's own programs look at, else where it always is. */
static bool find_base(struct own *own, const char *argument, char *why, size_t room)
{
    const char *host = NULL, *url = NULL, *mode;

    if (argument != NULL && *argument != '\0') {
        url = argument;
    } else if (own->machine.source == MST_METADATA_GOOGLE) {
        host = getenv("GCE_METADATA_HOST");
        host = host != NULL && *host != '\0' ? host : getenv("GCE_METADATA_IP");
    } else if (own->machine.source == MST_METADATA_AMAZON) {
        url = getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT");
        mode = getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE");
        if ((url == NULL || *url == '\0') && mode != NULL && strcasecmp(mode, "ipv6") == 0) {
            url = BASE_AMAZON_IPV6;
        }
    }
    return set_base(own, host, url != NULL && *url != '\0' ? url : BASE, why, room);
}

static bool open_own(void **out, enum mst_metadata_source source,
                     const struct mst_source_setup *setup, char *why, size_t room)
{
    const char *missing = mst_curl_load();
    struct own *own;
    bool ok;

    if (missing != NULL) {
        (void)snprintf(why, room, "the source of notices '%s': %s", mst_metadata_name(source),
                       missing);
        return false;
    }
    own = calloc(1, sizeof *own);
    ok = own != NULL;
    if (own != NULL) {
        mst_metadata_init(&own->machine, source, tell, own);
        own->setup = *setup;
        own->multi = mst_curl.curl_multi_init();
        ok = own->multi != NULL;
    }
    for (uint32_t i = 0; ok && i < mst_metadata_lanes(&own->machine); i++) {
        ok = mst_fetch_init(&own->lanes[i].fetch);
        ask_next(own, i);
    }
    if (!ok) {
        (void)snprintf(why, room, "the source of notices '%s': out of memory",
                       mst_metadata_name(source));
    }
    if (!ok || !find_base(own, setup->argument, why, room)) {
        if (own != NULL) {
            close_own(own);
        }
        return false;
    }
    *out = own;
    return true;
}

static bool open_google(void **out, const struct mst_source_setup *setup, char *why, size_t room)
{
    return open_own(out, MST_METADATA_GOOGLE, setup, why, room);
}

static bool open_amazon(void **out, const struct mst_source_setup *setup, char *why, size_t room)
{
    const char *off = getenv("AWS_EC2_METADATA_DISABLED");

    if (off != NULL && strcasecmp(off, "true") == 0) {
        (void)snprintf(why, room,
                       "the source of notices 'amazon' is switched off by "
                       "AWS_EC2_METADATA_DISABLED: unset it, or do not name the source");
        return false;
    }
    return open_own(out, MST_METADATA_AMAZON, setup, why, room);
}

static bool open_azure(void **out, const struct mst_source_setup *setup, char *why, size_t room)
{
    return open_own(out, MST_METADATA_AZURE, setup, why, room);
}

#define KIND(name_, help_)                                                                         \
    const struct mst_source_kind mst_source_##name_ = {.name = #name_,                             \
                                                       .argument = "[URL]",                        \
                                                       .help = (help_),                            \
                                                       .period_ms = 1,                             \
                                                       .open = open_##name_,                       \
                                                       .look = look,                               \
                                                       .close = close_own}

KIND(google, "Google's metadata server: preemption, maintenance of the host");
KIND(amazon, "Amazon's metadata service: spot interruption, scheduled events, Auto Scaling");
KIND(azure, "Azure's scheduled events: preemption, redeployment, reboot");
