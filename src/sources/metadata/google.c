/* SPDX-License-Identifier: Apache-2.0 */
/* Three keys, each watched by a request that hangs until the key is another than the one with the
 * etag that was read last. After a failure a change may have been missed: etag 0 is like none, and
 * gives the value at once. A machine learns of maintenance a minute ahead only if it asks, so the
 * watch of that key is what arms it. */
#include "base/text.h"
#include "sources/metadata/date.h"
#include "sources/metadata/part.h"

enum { PREEMPTED, MAINTENANCE, UPCOMING };

enum {
    HANG_S = 60, /* then the same value comes again */
    HANG_MS = 75000,
    PAUSE_MS = 1000, /* between two requests: a server may not know how to hang */
    BUSY_MS = 1000,  /* 503: the service itself is maintained */
    ABSENT_MS = 60000,
    FIRST_MS = 1000, /* so that a window is known before what happens in it */
    PREEMPTED_MS = 30000,
    ENDS_MS = 60000,
    WINDOW_MS = 4200000 /* a machine with GPUs gets an hour's notice */
};

static const char *const paths[] = {
    [PREEMPTED] = "preempted?",
    [MAINTENANCE] = "maintenance-event?",
    [UPCOMING] = "upcoming-maintenance?alt=json&",
};

void mst_google_init(struct mst_metadata *metadata)
{
    for (uint32_t lane = 0; lane < MST_METADATA_LANES; lane++) {
        memcpy(metadata->google.keys[lane].etag, "0", 2);
    }
    metadata->google.keys[MAINTENANCE].wait_ms = FIRST_MS;
}

static bool is_first(const struct mst_google *google, uint32_t lane)
{
    return mst_slice_is(mst_slice_text(google->keys[lane].etag), "0");
}

void mst_google_ask(const struct mst_metadata *metadata, uint32_t lane,
                    struct mst_metadata_request *out)
{
    const struct mst_google *google = &metadata->google;

    mst_text_print(
        out->path, sizeof out->path,
        "/computeMetadata/v1/instance/%swait_for_change=true&timeout_sec=%d&last_etag=%s",
        paths[lane], HANG_S, google->keys[lane].etag);
    memcpy(out->headers[0], "Metadata-Flavor: Google", sizeof "Metadata-Flavor: Google");
    out->wait_ms = google->keys[lane].wait_ms;
    if (!is_first(google, lane)) {
        out->timeout_ms = HANG_MS;
    }
}

/* ---- values ---- */

static bool take_preempted(struct mst_metadata *metadata, struct mst_slice body)
{
    bool preempted = mst_slice_is(body, "TRUE");

    if (!preempted && !mst_slice_is(body, "FALSE")) {
        return false;
    }
    mst_metadata_begin(metadata, PREEMPTED);
    if (preempted) {
        mst_metadata_said(metadata,
                          &(struct mst_metadata_said){.id = mst_slice_text("preempted"),
                                                      .certain = true,
                                                      .assumed_ms = PREEMPTED_MS,
                                                      .text = "this machine is preempted"});
    }
    mst_metadata_end(metadata);
    return true;
}

/* With the window's beginning where one is known: only then is it known how long there is. */
static void say_maintenance(struct mst_metadata *metadata)
{
    const struct mst_google *google = &metadata->google;
    int64_t ahead_ms = google->window_ms - metadata->now_ms;
    char array[MST_METADATA_TEXT];

    mst_metadata_begin(metadata, MAINTENANCE);
    if (google->word[0]) {
        bool in_window = google->ends && ahead_ms > 0 && ahead_ms <= WINDOW_MS;

        mst_text_print(array, sizeof array, "maintenance of the host: %s", google->word);
        mst_metadata_said(
            metadata, &(struct mst_metadata_said){.id = mst_slice_text("maintenance"),
                                                  .certain = google->ends,
                                                  .deadline_ms = in_window ? google->window_ms : 0,
                                                  .assumed_ms = ENDS_MS,
                                                  .text = array});
    }
    mst_metadata_end(metadata);
}

static bool take_maintenance(struct mst_metadata *metadata, struct mst_slice body)
{
    struct mst_google *google = &metadata->google;
    char word[sizeof google->word];

    if (!mst_metadata_word(body, "_", word, sizeof word)) {
        return false;
    }
    body = mst_slice_text(word);
    google->ends = mst_slice_starts_with(body, mst_slice_text("TERMINATE")) ||
                   mst_slice_starts_with(body, mst_slice_text("SHUTDOWN"));
    memcpy(google->word, word, sizeof word);
    if (mst_slice_is(body, "NONE")) {
        google->word[0] = '\0';
    }
    say_maintenance(metadata);
    return true;
}

/* The server writes snake_case, the same object elsewhere camelCase. */
static struct mst_slice field(const json_t *object, const char *snake, const char *camel)
{
    struct mst_slice found = mst_metadata_field(object, snake);

    return found.size > 0 ? found : mst_metadata_field(object, camel);
}

static bool announces(const json_t *object)
{
    return field(object, "window_start_time", "windowStartTime").size > 0 ||
           field(object, "maintenance_status", "maintenanceStatus").size > 0;
}

/* The object itself, or the one under a single name. NULL: neither. */
static const json_t *announcement(json_t *root)
{
    const json_t *inner;

    if (announces(root)) {
        return root;
    }
    if (json_object_size(root) != 1) {
        return NULL;
    }
    inner = json_object_iter_value(json_object_iter(root));
    return announces(inner) ? inner : NULL;
}

static void say_upcoming(struct mst_metadata *metadata, const json_t *object)
{
    struct mst_slice start = field(object, "window_start_time", "windowStartTime");
    struct mst_slice type = mst_metadata_field(object, "type");
    char array[MST_METADATA_TEXT];
    int64_t start_ms = 0;
    bool has_start = mst_date_rfc3339(start, &start_ms);

    mst_text_print(array, sizeof array, "maintenance of the host is planned%s%.*s%s%.*s",
                   type.size > 0 ? ": " : "", MST_SLICE_ARGS(type), has_start ? ", from " : "",
                   has_start ? (int)start.size : 0, (const char *)start.data);
    metadata->google.window_ms = start_ms;
    mst_metadata_said(metadata, &(struct mst_metadata_said){.id = mst_slice_text("upcoming"),
                                                            .deadline_ms = start_ms,
                                                            .assumed_ms = -1,
                                                            .text = array});
}

static bool take_upcoming(struct mst_metadata *metadata, struct mst_slice body)
{
    json_t *root = mst_metadata_json(body);
    const json_t *object = announcement(root);
    bool none = mst_slice_is(body, "NONE") || mst_slice_is(body, "\"NONE\"") ||
                mst_slice_is(body, "{}") || json_object_get(root, "error");

    if (object || none) {
        mst_metadata_begin(metadata, UPCOMING);
        metadata->google.window_ms = 0;
        if (object) {
            say_upcoming(metadata, object);
        }
        mst_metadata_end(metadata);
        say_maintenance(metadata);
    }
    json_decref(root);
    return object || none;
}

static bool take_value(struct mst_metadata *metadata, uint32_t lane, struct mst_slice body)
{
    if (lane == PREEMPTED) {
        return take_preempted(metadata, body);
    }
    return lane == MAINTENANCE ? take_maintenance(metadata, body) : take_upcoming(metadata, body);
}

void mst_google_take(struct mst_metadata *metadata, uint32_t lane,
                     const struct mst_metadata_answer *answer)
{
    struct mst_google *google = &metadata->google;
    bool hung = answer->failure == MST_METADATA_TIMED_OUT && !is_first(google, lane);
    bool is_google = mst_slice_is(mst_metadata_trimmed(answer->flavor), "Google");
    char *etag = google->keys[lane].etag;
    int64_t *wait_ms = &google->keys[lane].wait_ms;

    memcpy(etag, "0", 2);
    *wait_ms = hung ? 0 : MST_METADATA_RETRY_MS;
    if (hung) { /* a server that does not know of timeout_sec: nothing has changed */
        return;
    }
    if (answer->failure != MST_METADATA_ANSWERED || !is_google) {
        mst_metadata_unknown(metadata, answer, is_google ? NULL : "it is not Google's");
        return;
    }
    if (answer->status == 404 && lane == UPCOMING) { /* not for this type of machine */
        *wait_ms = ABSENT_MS;
        mst_metadata_begin(metadata, UPCOMING);
        mst_metadata_end(metadata);
        google->window_ms = 0;
        mst_metadata_known(metadata);
        return;
    }
    if (answer->status != 200) {
        *wait_ms = answer->status == 503 ? BUSY_MS : MST_METADATA_RETRY_MS;
        mst_metadata_unknown(metadata, answer, NULL);
        return;
    }
    if (!take_value(metadata, lane, mst_metadata_trimmed(answer->body))) {
        mst_metadata_unknown(metadata, answer, "a value that is none");
        return;
    }
    mst_metadata_known(metadata);
    if (mst_metadata_word(mst_metadata_trimmed(answer->etag), "-_.", etag, MST_METADATA_ID)) {
        *wait_ms = PAUSE_MS;
    } else {
        memcpy(etag, "0", 2);
    }
}
