/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_REQUEST_H
#define MST_PROTO_REQUEST_H

/* Requests of a session. Every protocol is a codec in front of these; the core sees nothing else.
 * All slices are borrowed for the call. Durations are milliseconds, never times of day: two
 * machines share no clock. */

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

enum mst_command {
#define X(NAME, name, number, flags, help) MST_##NAME = (number),
#include "proto/commands.def"
#undef X
};

/* A session has at most this many requests without an answer. */
#define MST_WINDOW 64u

/* Ids are one-member structs so that kinds cannot be mixed up. A connection id is never reused. */
struct mst_conn {
    uint64_t id;
};

/* Chosen at random by the process that opens the session, so that opening again after a lost
 * connection finds the same session and never makes a second one. */
struct mst_token {
    uint64_t high, low;
};

#define MST_INDEX_ANY UINT32_MAX /* the service takes the lowest free place */
/* The lowest free place of an agent that belongs to no node of a run: the helper of one rank. */
#define MST_INDEX_HELPER (UINT32_MAX - 1)
#define MST_HELPERS_FROM (UINT32_C(1) << 20) /* more than a run has nodes */
#define MST_RANK_NONE UINT32_MAX
#define MST_NODE_NONE UINT32_MAX /* started without an agent */

enum mst_role {
    MST_ROLE_OBSERVER = 0, /* has a session, is no member */
    MST_ROLE_RANK = 1,     /* the ranks of a job are its one group */
    MST_ROLE_WORKER = 2,
    MST_ROLE_AGENT = 3
};

enum mst_grow {
    MST_GROW_CHECK = 0, /* at the next check of every rank */
    MST_GROW_FAULT = 1, /* with the next fault */
    MST_GROW_OFF = 2
};

struct mst_open {
    struct mst_token token;
    struct mst_slice job;
    enum mst_role role;
    uint32_t index; /* or MST_INDEX_ANY; ignored for an observer */
    uint64_t
        incarnation; /* 0: never admitted. Else the one this session was given: resume or FENCED */
    uint64_t generation; /* the largest this process has seen; a service that lost its state goes
                            above */
    /* The job's own parameters, fixed by the first session that names them (0: not named). A
     * session that names other values later is refused alone. */
    uint32_t size, min_size;
    uint64_t join_wait_ms;            /* 0: not named; if no session names it: wait for all */
    uint32_t max_size, size_multiple; /* limits of a seal: at most, and a multiple of; 0: any */
    enum mst_grow grow;               /* taken from the first opener that names a size */
    struct mst_slice host;            /* for people */
    uint64_t pid;
    uint32_t node; /* the index of the agent that started this process, or MST_NODE_NONE */
    bool replaces; /* an agent: it starts another process for each of its ranks that is lost, until
                      it says otherwise (`last` of LOST) */
};

enum mst_write_kind {
    MST_INSERT = 1, /* EEXISTS if the key is there */
    MST_PUT = 2,
    MST_CAS = 3,    /* ECONFLICT unless the key's revision is `expected`; 0: must not be there */
    MST_ADD = 4,    /* decimal int64 text; absent counts as 0; ERANGE on overflow or no number */
    MST_APPEND = 5, /* absent counts as empty */
    MST_DELETE = 6  /* absent is no error */
};

struct mst_write {
    enum mst_write_kind kind;
    bool owned; /* the key is deleted with the session that wrote it (its loss, leave or end) */
    struct mst_slice key, value;
    uint64_t expected;
    int64_t delta;
};

/* Keys that one DELETE_PREFIX deletes at most: no other request waits for longer than this takes.
 */
#define MST_DELETE_STEP 16384u

enum mst_on_loss { MST_FAIL = 0, MST_PROCEED = 1 };

enum mst_reduce {
    MST_REDUCE_NONE = 0,
    MST_REDUCE_GATHER = 1,
    MST_REDUCE_MIN = 2, /* min, max, sum: over a vector of little-endian int64 */
    MST_REDUCE_MAX = 3,
    MST_REDUCE_SUM = 4,
    MST_REDUCE_EQUAL = 5,
    MST_REDUCE_XOR = 6,        /* over a vector of little-endian 64-bit words */
    MST_REDUCE_SUM_DOUBLE = 7, /* over a vector of little-endian IEEE doubles; in rank order */
    MST_REDUCE_MIN_DOUBLE = 8,
    MST_REDUCE_MAX_DOUBLE = 9,
    MST_REDUCE_BROADCAST = 10 /* all receive the bytes of `root` */
};

struct mst_round_request {
    uint64_t generation; /* must be the job's current one: else FENCED */
    struct mst_slice name;
    uint64_t number;              /* the caller's count of this name in this generation, from 0 */
    const uint32_t *participants; /* indices, ascending; NULL: the members of the generation */
    uint32_t participant_count;
    uint64_t deadline_ms; /* 0: none. The round's own; the first arrival fixes it */
    bool any_deadline;    /* accepts an open round's own deadline */
    enum mst_on_loss on_loss;
    enum mst_reduce reduce;
    uint32_t root;     /* BROADCAST: the rank with data; else 0 */
    bool present_only; /* do not wait for participants that are not in the generation */
    bool seal;         /* ends the generation; on_loss must be PROCEED, participants NULL */
    /* Of a seal, by at most one rank: the indices that get ranks, in this order, if all of them
     * have arrived when the seal closes; the other arrivals wait as spares. NULL: all, by index. */
    const uint32_t *order;
    uint32_t order_count;
    bool final;          /* its success ends the work of the job: waiting joins are answered */
    uint64_t replace_ms; /* of a seal: once all others have arrived it stays open for so long for
                            lost ranks that their agent replaces; the longest of all counts */
    struct mst_slice data;
    /* Names of other rounds of the generation whose last result the caller has: it will not ask for
     * that again. When no participant may, such a name is forgotten for a new one. */
    const struct mst_slice *taken;
    uint32_t taken_count;
};

/* What a watch can follow; a mask. */
enum mst_watch_kind {
    MST_WATCH_KEYS = 1,    /* puts and deletes under `prefix` */
    MST_WATCH_MEMBERS = 2, /* a member's state changed */
    MST_WATCH_FAULTS = 4,  /* a fault of the current generation was recorded */
    MST_WATCH_VIEW = 8     /* the job's generation or its attention changed */
};

/* Why a member is lost; also the kind of a fault. */
enum mst_cause {
#define X(NAME, number, word, verb, words, code, shown) MST_CAUSE_##NAME = (number),
#include "proto/cause.def"
#undef X
};
enum {
#define X(NAME, number, word, verb, words, code, shown) MST_CAUSE_COUNT_##NAME,
#include "proto/cause.def"
#undef X
    MST_CAUSES,
    MST_CAUSE_LAST = MST_CAUSES - 1
};

/* How the work of a step is measured. */
enum mst_work {
    MST_WORK_NONE = 0,
    MST_WORK_SECTIONS = 1, /* the time in declared sections */
    MST_WORK_WAITS = 2,    /* the time outside blocking calls of muster */
    MST_WORK_CPU = 3       /* the time in which the function's thread ran, or waited for a CPU */
};

/* How far a rank is, as its agent sees it: for people, nothing is decided by it. */
struct mst_rank_progress {
    uint32_t index;
    enum mst_work work;
    uint64_t pid, generation; /* generation 0: not known, and so is the rest */
    int64_t step;             /* the last that it reported; not `stepped`: how often it pinged */
    uint32_t rate;            /* of `step`: in 1000 s */
    uint32_t quiet_ms;        /* since its last sign of progress */
    uint32_t work_us, share;  /* of one step: the median, and thousandths of the step's time */
    struct mst_slice section; /* the one it is in; empty: none */
    /* The service's: steps behind the median rank; its work in thousandths of the median, 0: not
     * compared. */
    uint32_t behind, slower;
    uint32_t repeated; /* steps that an earlier attempt had reported before: those done again */
    bool stepped, straggler;
};

#define MST_PROGRESS_MAX 1024u /* ranks in one RENEW */

struct mst_request {
    /* The session numbers its requests from 1. An OPEN carries the number of the next request and
     * does not use it up, so that opening again and again leaves the window as it is. */
    uint64_t id;
    /* Every write below it is answered or abandoned; at most `id`. A waiting read does not hold it
     * back, or one long watch would use the window up: after a resume a write is repeated under its
     * own id, a read under a new one. */
    uint64_t oldest;
    enum mst_command command;
    /* The message of proto/muster.proto that it came as, for those who keep it; empty: it did not
     * come as one, or had more in it than is here. */
    struct mst_slice bytes;
    union {
        struct mst_open open;
        struct {
            bool spare;     /* answer also when it was passed over: as a spare */
            uint64_t heard; /* the completed-run count (final rounds) that the caller knows; if
                               there were more: a member without a rank is told of the next one at
                               once, as a spare */
        } join;
        struct {
            const struct mst_rank_progress *progress; /* of an agent: of its ranks */
            uint32_t count;
        } renew;
        struct {
            uint64_t id;
        } cancel;
        struct {
            uint64_t
                generation; /* 0: the job's keys. Else that generation's key space, or FENCED */
            const struct mst_write *ops;
            uint32_t count;
        } write; /* all or none; the reply carries the last operation's outcome, or the failing
                    one's */
        struct {
            uint64_t generation;
            struct mst_slice prefix;
        } delete_prefix; /* up to DELETE_STEP keys; the reply has their number, and the revision of
                            the last one, or 0: more keys are left, to be deleted by another one */
        struct {
            uint64_t generation;
            struct mst_slice key;
            bool wait;
        } get;
        struct {
            uint64_t generation;
            struct mst_slice prefix;
            struct mst_slice after; /* the last name of the page before; empty: from the start */
        } list;
        struct {
            uint64_t generation;
            const struct mst_slice *keys;
            uint32_t count;
        } wait;
        struct {
            uint32_t kinds;
            uint64_t generation; /* of the keys */
            struct mst_slice prefix;
            uint64_t after; /* revision; 0: the whole current state */
            uint32_t node; /* of the members only this agent and those it started; NODE_NONE: all */
        } watch;
        struct mst_round_request round;
        struct {
            uint64_t generation;
            struct mst_slice name;
            uint64_t number;
            uint64_t after; /* pages: `next` of the page before; 0: from the start */
        } round_members;
        struct {
            uint64_t after;
        } page; /* MEMBERS, ROUNDS, JOBS, HOSTS, FAULTS, HISTORY: `next` of the page before; 0: from
                   the start */
        struct {
            uint64_t generation;
            enum mst_cause kind; /* NONE: FAULT */
            int32_t code;
            struct mst_slice text;
            uint64_t pid;   /* 0: the caller's own. Else an agent's report about that process... */
            uint32_t index; /* ...in this place */
            uint32_t
                peer; /* 1 + the index of a peer: the caller's connection to it broke; 0: none */
        } fault;
        struct {
            uint32_t index;
            uint64_t pid;         /* of the dead process: a later incarnation has another one */
            enum mst_cause cause; /* EXIT, SIGNAL, GONE, HARD_TIMEOUT or UNHEALTHY */
            int32_t code;
            struct mst_slice text; /* its last output */
            bool last;             /* no other process is started in its place */
        } lost;
        struct {
            uint32_t index;       /* of a rank, or... */
            bool worker;          /* ...of a worker */
            uint64_t incarnation; /* 0: any holder of the place */
            uint64_t for_ms;
        } cut;
    };
};

#endif
