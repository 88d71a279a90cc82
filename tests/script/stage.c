/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include "stage.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/panic.h"
#include "proto/settings.h"
#include "service/core/snapshot.h"
#include "tell.h"

enum { CONNS_MAX = 1000 };

static const uint64_t ms_ns = 1000000;

/* ---- memory, counted ---- */

static void *take(void *ctx, size_t size)
{
    struct stage *stage = ctx;
    void *p = malloc(size);

    stage->allocated += p != NULL;
    return p;
}

static void give(void *ctx, void *p)
{
    struct stage *stage = ctx;

    stage->allocated -= p != NULL;
    free(p);
}

/* ---- what is written down ---- */

static void begin_line(struct stage *stage)
{
    (void)fprintf(stage->out, "    ");
    if (stage->passing) {
        (void)fprintf(stage->out, "[%" PRIu64 ".%03" PRIu64 "] ", stage->now_ns / (1000 * ms_ns),
                      stage->now_ns / ms_ns % 1000);
    }
}

/* The job that is not named is "train". */
static void narrate(void *ctx, const struct mst_trace *line)
{
    struct stage *stage = ctx;

    begin_line(stage);
    if (!mst_slice_equal(line->job, mst_slice_text("train"))) {
        (void)fprintf(stage->out, "%.*s: ", (int)line->job.size, (const char *)line->job.data);
    }
    (void)fprintf(stage->out, "%s\n", line->text);
}

static struct actor *of_conn(struct stage *stage, struct mst_conn conn)
{
    MST_ASSERT(conn.id / CONNS_MAX < stage->actor_count);
    return &stage->actors[conn.id / CONNS_MAX];
}

/* What a process learns from an answer. */
static void learn(struct actor *actor, const struct mst_reply *reply)
{
    if (reply->status != MUSTER_OK) {
        actor->over = actor->over || reply->command == MST_RENEW;
        return;
    }
    if (reply->has_view && reply->view.rank != MST_RANK_NONE) {
        actor->generation = reply->view.generation;
    }
    if (reply->command == MST_LEAVE) {
        actor->over = true;
    }
    if (reply->command == MST_OPEN) {
        actor->over = false;
        actor->open.incarnation = reply->view.incarnation;
    }
    if (reply->command == MST_WATCH) {
        actor->revision = reply->revision;
    }
}

static void hear(struct stage *stage, const struct mst_effect *effect)
{
    struct actor *actor = of_conn(stage, effect->conn);
    const struct mst_reply *reply = effect->reply;
    char start[NAME_BYTES_MAX + 8];

    if (effect->conn.id == stage->asking.id && reply->id == stage->asking_id) {
        stage->asking_id = 0;
    }
    learn(actor, reply);
    if (stage->passing && reply->command == MST_RENEW && reply->status == MUSTER_OK) {
        return; /* as ever */
    }
    (void)snprintf(start, sizeof(start), "%s < ", actor->name);
    begin_line(stage);
    tell_reply(stage->out, start, reply, actor->asked[reply->id % ASKED_MAX].vector);
}

/* The service's shell closes what it was told to hang up. */
static void hang_up(struct stage *stage, const struct mst_effect *effect)
{
    struct actor *actor = of_conn(stage, effect->conn);

    begin_line(stage);
    (void)fprintf(stage->out, "%s < hang-up: %s\n", actor->name, effect->reason);
    if (actor->conn.id == effect->conn.id) {
        actor->conn.id = 0;
    }
}

static void drain(struct stage *stage)
{
    const struct mst_effect *effect;

    while ((effect = mst_core_next(stage->core))) {
        struct mst_conn conn = effect->conn;
        bool over = effect->type == MST_EFFECT_HANGUP;

        if (over) {
            hang_up(stage, effect);
        } else {
            hear(stage, effect);
        }
        mst_core_done(stage->core, effect);
        if (over) {
            mst_core_close(stage->core, stage->now_ns, conn);
        }
    }
    mst_core_check(stage->core);
}

/* ---- life ---- */

void stage_init(struct stage *stage, FILE *out)
{
    const struct mst_setting *lease = mst_setting_find("lease");

    *stage = (struct stage){.out = out};
    stage->config = (struct mst_core_config){.lease_ns = (uint64_t)lease->standard * ms_ns,
                                             .limits = mst_limits_default,
                                             .history = 32,
                                             .straggler_percent = 20,
                                             .trace = narrate,
                                             .trace_ctx = stage};
}

/* The core is made when it is first needed: until then the story may change its settings. */
static void need_core(struct stage *stage)
{
    struct mst_mem mem = {.ctx = stage, .alloc = take, .release = give};

    if (!stage->core) {
        muster_status status = mst_core_new(&stage->core, &stage->config, &mem);

        MST_ASSERT(status == MUSTER_OK);
    }
}

uint64_t stage_fini(struct stage *stage)
{
    uint64_t digest;

    need_core(stage);
    digest = mst_core_digest(stage->core);
    mst_core_free(stage->core);
    MST_ASSERT(stage->allocated == 0);
    return digest;
}

/* ---- actors ---- */

struct actor *stage_find(struct stage *stage, const char *name)
{
    for (uint32_t i = 0; i < stage->actor_count; i++) {
        if (strcmp(stage->actors[i].name, name) == 0) {
            return &stage->actors[i];
        }
    }
    return NULL;
}

/* NAME, or JOB/NAME. */
static void set_job(struct actor *actor)
{
    const char *slash = strchr(actor->name, '/');

    actor->open.job = mst_slice_text("train");
    if (slash) {
        actor->open.job = mst_slice_of(actor->name, (size_t)(slash - actor->name));
    }
}

/* "#2", and "#2b" for another process at the same place; "worker#0", "agent#0"; others observe. */
static void set_place(struct actor *actor)
{
    const char *slash = strchr(actor->name, '/');
    const char *name = slash ? slash + 1 : actor->name;
    const char *hash = strchr(name, '#');
    char *end = NULL;
    uint64_t place;

    actor->open.role = MST_ROLE_OBSERVER;
    actor->open.index = MST_INDEX_ANY;
    actor->open.pid = 1000;
    actor->open.node = MST_NODE_NONE;
    if (!hash) {
        return;
    }
    actor->open.role = hash == name                      ? MST_ROLE_RANK
                       : strncmp(name, "worker", 6) == 0 ? MST_ROLE_WORKER
                                                         : MST_ROLE_AGENT;
    place = strtoull(hash + 1, &end, 10);
    actor->open.index = (uint32_t)place;
    actor->open.pid = place + 100 * (uint64_t)(*end >= 'b' && *end <= 'z' ? *end - 'a' + 1 : 1);
    (void)snprintf(actor->host, sizeof(actor->host), "node%" PRIu64, place);
    actor->open.host = mst_slice_text(actor->host);
}

struct actor *stage_enter(struct stage *stage, const char *name)
{
    struct actor *actor;

    if (stage->actor_count == ACTORS_MAX || strlen(name) >= NAME_BYTES_MAX) {
        return NULL;
    }
    actor = &stage->actors[stage->actor_count++];
    *actor = (struct actor){.open = {.token = {.high = 7, .low = stage->actor_count}}};
    memcpy(actor->name, name, strlen(name) + 1);
    set_job(actor);
    set_place(actor);
    return actor;
}

/* ---- inputs ---- */

void stage_open(struct stage *stage, struct actor *actor)
{
    struct mst_request request = {.id = actor->id + 1, .oldest = actor->id + 1};
    muster_status status;

    need_core(stage);
    MST_ASSERT(actor->conns + 1 < CONNS_MAX);
    actor->conn.id = (uint64_t)(actor - stage->actors) * CONNS_MAX + ++actor->conns;
    status = mst_core_open(stage->core, stage->now_ns, actor->conn);
    MST_ASSERT(status == MUSTER_OK);
    request.command = MST_OPEN;
    request.open = actor->open;
    request.open.generation = actor->generation;
    stage_request(stage, actor, &request);
}

void stage_close(struct stage *stage, struct actor *actor)
{
    mst_core_close(stage->core, stage->now_ns, actor->conn);
    actor->conn.id = 0;
    drain(stage);
}

void stage_request(struct stage *stage, struct actor *actor, const struct mst_request *request)
{
    muster_status status;

    stage->asking = actor->conn;
    stage->asking_id = request->id;
    status = mst_core_request(stage->core, stage->now_ns, actor->conn, request);
    MST_ASSERT(status == MUSTER_OK);
    drain(stage);
    if (stage->asking_id != 0 && !stage->passing) {
        (void)fprintf(stage->out, "    %s waits\n", actor->name);
    }
}

/* ---- the service itself ---- */

static bool put(void *ctx, struct mst_slice bytes)
{
    return fwrite(bytes.data, 1, bytes.size, ctx) == bytes.size;
}

void stage_restart(struct stage *stage)
{
    struct mst_mem mem = {.ctx = stage, .alloc = take, .release = give};
    char *snapshot = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&snapshot, &size);
    struct mst_snapshot_sink sink = {.ctx = file, .put = put};
    bool saved;
    muster_status status;

    need_core(stage);
    saved = file && mst_core_save(stage->core, &sink) && fclose(file) == 0;
    MST_ASSERT(saved);
    mst_core_free(stage->core);
    status = mst_core_load(&stage->core, stage->now_ns, mst_slice_of(snapshot, size),
                           &stage->config, &mem);
    MST_ASSERT(status == MUSTER_OK);
    free(snapshot);
    status = mst_core_resume(stage->core, stage->now_ns, &stage->config);
    MST_ASSERT(status == MUSTER_OK);
    for (uint32_t i = 0; i < stage->actor_count; i++) {
        stage->actors[i].conn.id = 0;
    }
    drain(stage);
}

void stage_hold(struct stage *stage, const char *why)
{
    need_core(stage);
    if (why) {
        (void)snprintf(stage->held, sizeof(stage->held), "%s", why);
    }
    mst_core_hold(stage->core, why ? stage->held : NULL);
}

/* ---- time ---- */

static void renew_all(struct stage *stage)
{
    for (uint32_t i = 0; i < stage->actor_count; i++) {
        struct actor *actor = &stage->actors[i];
        struct mst_request request = {.command = MST_RENEW};

        if (actor->conn.id == 0 || actor->frozen || actor->over) {
            continue;
        }
        request.id = ++actor->id;
        request.oldest = request.id;
        actor->asked[request.id % ASKED_MAX] = (struct asked){.id = request.id};
        stage_request(stage, actor, &request);
    }
}

static void tick(struct stage *stage)
{
    mst_core_tick(stage->core, stage->now_ns);
    drain(stage);
}

void stage_pass(struct stage *stage, uint64_t ms)
{
    uint64_t target_ns = stage->now_ns + ms * ms_ns;
    uint64_t renewal_ns = stage->config.lease_ns / 5;

    need_core(stage);
    stage->passing = true;
    while (stage->now_ns < target_ns) {
        uint64_t next_ns = (stage->now_ns / renewal_ns + 1) * renewal_ns;
        uint64_t deadline_ns = mst_core_deadline_ns(stage->core);

        next_ns = deadline_ns < next_ns ? deadline_ns : next_ns;
        next_ns = target_ns < next_ns ? target_ns : next_ns;
        stage->now_ns = next_ns > stage->now_ns ? next_ns : stage->now_ns;
        if (stage->now_ns % renewal_ns == 0) {
            renew_all(stage);
        }
        tick(stage);
    }
    stage->passing = false;
}

void stage_stall(struct stage *stage, uint64_t ms)
{
    need_core(stage);
    stage->passing = true;
    stage->now_ns += ms * ms_ns;
    tick(stage);
    stage->passing = false;
}
