/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MUSTER_WATCH_H
#define MUSTER_WATCH_H

/* A resumable stream of changes. Level-triggered: a slow reader gets the newest state of each
 * object once, never a growing queue. What client.h says of time and errors holds here. */

#include "muster/call.h"
#include "muster/client.h"
#include "muster/member.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a watch reports. */
enum muster_watch_kind {
    MUSTER_WATCH_KEYS = 1,    /* keys under `prefix` */
    MUSTER_WATCH_MEMBERS = 2, /* members: joined, silent, lost, left */
    MUSTER_WATCH_FAULTS = 4,  /* faults of the current generation */
    MUSTER_WATCH_VIEW = 8     /* a new generation, or an interruption of the function */
};

/* What to watch, and from where on. */
struct muster_watch_options {
    size_t size;         /* sizeof */
    unsigned kinds;      /* of enum muster_watch_kind; 0: KEYS */
    const char *prefix;  /* of keys; NULL: all */
    uint64_t generation; /* of the keys: as in muster_key_options */
    /* Only changes after this revision; 0: first the whole current state. To continue an ended
     * watch, pass the revision of its last event. */
    uint64_t after;
};

#define MUSTER_WATCH_OPTIONS_INIT                                                                  \
    {                                                                                              \
        sizeof(struct muster_watch_options), 0, NULL, 0, 0                                         \
    }

/* What has changed. */
enum muster_event_type {
    MUSTER_EVENT_KEY = 1,     /* key, value, revision: written */
    MUSTER_EVENT_DELETED = 2, /* key, revision */
    MUSTER_EVENT_MEMBER = 3,  /* member */
    MUSTER_EVENT_FAULT = 4,   /* member, with cause, code and text */
    MUSTER_EVENT_VIEW = 5,    /* view */
    MUSTER_EVENT_RESET = 6    /* too far behind: discard all state, it is listed again */
};

/* One change. Borrowed from the watch until its next call. */
struct muster_event {
    enum muster_event_type type;
    uint64_t revision;
    const char *key; /* NULL unless KEY or DELETED */
    struct muster_slice value;
    struct muster_member member;
    struct muster_view view;
    /* KEY, DELETED: how long ago the key was written or deleted, as muster_value_age_ms, plus the
     * time since the service sent the event. */
    uint64_t age_ms;
};

/* An open watch: how far its reader is. */
typedef struct muster_watch muster_watch;

/* Opens a watch; sends nothing yet. Options NULL: all keys. On success the caller owns *out; the
 * client must outlive it. ENOMEM, EINVAL. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status
muster_watch_open(muster_watch **out, muster_client *client,
                  const struct muster_watch_options *options, struct muster_error *err);

/* Waits for the next change. ETIMEDOUT: none in time; the watch continues with the next call.
 * EFENCED: the generation of the keys is over. Thread: one at a time for one watch. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_watch_next(muster_watch *watch, int64_t timeout_ms,
                                                           struct muster_event *out,
                                                           struct muster_error *err);

/* Closes a watch. NULL: a no-op. Since 0.1. */
MUSTER_API void muster_watch_close(muster_watch *watch);

/* The same without blocking: call.h. One call of a watch may be open at a time (EINVAL). It must be
 * over, or freed, before the watch is closed. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_watch_next_start(muster_watch *watch,
                                                                 int64_t timeout_ms,
                                                                 struct muster_event *out,
                                                                 muster_call **call_out,
                                                                 struct muster_error *err);

#ifdef __cplusplus
}
#endif

#endif
