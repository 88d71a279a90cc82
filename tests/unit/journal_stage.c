/* SPDX-License-Identifier: Apache-2.0 */
#include "journal_stage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void on_tell(void *ctx, enum mst_level level, const char *line)
{
    struct stage *stage = ctx;
    size_t size = strlen(stage->told);

    (void)level;
    (void)snprintf(stage->told + size, sizeof stage->told - size, "%s\n", line);
}

static struct mst_journal_config config_of(struct stage *stage, bool sync)
{
    return (struct mst_journal_config){
        .core = {.lease_ns = 10000000000u, .limits = mst_limits_default},
        .version = "0.1.0",
        .sync = sync,
        .chunk_bytes = CHUNK,
        .tell = on_tell,
        .tell_ctx = stage};
}

muster_status stage_begin(struct stage *stage)
{
    muster_status status = mst_journal_open(&stage->journal, &stage->core, &stage->disk.disk,
                                            &stage->config, &stage->mem.mem, &stage->err);

    if (status == MUSTER_OK) {
        stage->now_ns = mst_journal_time_ns(stage->journal);
        stage->conn = mst_journal_last_conn(stage->journal);
    } else {
        stage->journal = NULL;
        stage->core = NULL;
    }
    return status;
}

void stage_init(struct stage *stage, bool sync)
{
    memset(stage, 0, sizeof *stage);
    fake_disk_init(&stage->disk);
    failing_mem_init(&stage->mem, 0);
    stage->config = config_of(stage, sync);
}

/* Another service on a copy of the disk, as it is. */
void stage_init_copy(struct stage *copy, const struct stage *stage)
{
    memset(copy, 0, sizeof *copy);
    fake_disk_copy(&copy->disk, &stage->disk);
    failing_mem_init(&copy->mem, 0);
    copy->config = stage->config;
    copy->config.tell_ctx = copy;
}

void stage_die(struct stage *stage)
{
    mst_core_free(stage->core);
    mst_journal_free(stage->journal);
    stage->core = NULL;
    stage->journal = NULL;
}

void stage_fini(struct stage *stage)
{
    stage_die(stage);
    assert_false(stage->disk.renamed_early || stage->disk.removed_early);
    fake_disk_fini(&stage->disk);
    assert_int_equal(stage->mem.live, 0);
}

void stage_drain(struct stage *stage)
{
    const struct mst_effect *effect;

    while ((effect = mst_core_next(stage->core))) {
        if (effect->type == MST_EFFECT_REPLY) {
            stage->replies++;
            stage->last = effect->reply->status;
            if (effect->reply->revision > 0) {
                stage->revision = effect->reply->revision;
            }
            if (effect->reply->value.size > 0 && effect->reply->value.size < sizeof stage->value) {
                memcpy(stage->value, effect->reply->value.data, effect->reply->value.size);
                stage->value[effect->reply->value.size] = '\0';
            }
        }
        mst_core_done(stage->core, effect);
    }
}

muster_status stage_turn(struct stage *stage)
{
    muster_status status;

    stage->now_ns += STEP_NS;
    mst_journal_tick(stage->journal, stage->now_ns);
    status = mst_journal_commit(stage->journal, &stage->err);
    stage_drain(stage);
    return status;
}

muster_status stage_ask(struct stage *stage, struct mst_request request)
{
    stage->now_ns += STEP_NS;
    request.id = request.command == MST_OPEN ? 1 : ++stage->id;
    request.oldest = request.id;
    assert_int_equal(mst_journal_request(stage->journal, stage->now_ns,
                                         (struct mst_conn){stage->conn}, &request),
                     MUSTER_OK);
    (void)stage_turn(stage);
    return stage->last;
}

void stage_connect(struct stage *stage, uint64_t token)
{
    struct mst_request open = {.command = MST_OPEN,
                               .open = {.token = {token, token},
                                        .job = mst_slice_text("job"),
                                        .host = mst_slice_text("b3")}};

    stage->conn++;
    assert_int_equal(
        mst_journal_conn_open(stage->journal, stage->now_ns, (struct mst_conn){stage->conn}),
        MUSTER_OK);
    assert_int_equal(stage_ask(stage, open), MUSTER_OK);
}

muster_status stage_append(struct stage *stage, const char *key, const char *value)
{
    const struct mst_write op = {
        .kind = MST_APPEND, .key = mst_slice_text(key), .value = mst_slice_text(value)};

    return stage_ask(stage,
                     (struct mst_request){.command = MST_WRITE, .write = {.ops = &op, .count = 1}});
}

const char *stage_get(struct stage *stage, const char *key)
{
    stage->value[0] = '\0';
    (void)stage_ask(stage,
                    (struct mst_request){.command = MST_GET, .get = {.key = mst_slice_text(key)}});
    return stage->value;
}

/* Six appends in six turns. */
void stage_write_some(struct stage *stage)
{
    static const char *const digits[] = {"0", "1", "2", "3", "4", "5"};

    assert_int_equal(stage_begin(stage), MUSTER_OK);
    stage_connect(stage, 7);
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(stage_append(stage, "k", digits[i]), MUSTER_OK);
    }
}

const char *stage_recovered_value(struct stage *stage)
{
    stage_connect(stage, 99);
    stage->id = 0;
    return stage_get(stage, "k");
}
