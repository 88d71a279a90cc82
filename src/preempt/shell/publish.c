/* SPDX-License-Identifier: Apache-2.0 */
#include "preempt/shell/publish.h"

#include "client/shell/handle.h"
#include "muster/preempt.h"
#include "os/system.h"

static bool own(struct mst_machine_host *host, const void *of_machine)
{
    struct mst_lib_publish *publish = MST_CONTAINER(host, struct mst_lib_publish, host);
    const struct mst_publish_effect *effect = of_machine;

    publish->over = true;
    publish->written = effect->written;
    publish->error = (struct muster_error){.status = effect->status};
    if (effect->status) {
        if (!effect->reply && effect->status == mst_lib_status(publish->client)) {
            (void)mst_lib_fail_again(publish->client, &publish->error, publish->what);
        } else {
            (void)mst_lib_fail(&publish->error, effect->status, publish->what, effect->reply);
        }
    }
    return publish->finished != NULL;
}

/* Its caller may end the publish, or begin another one in its memory. */
static bool finished(struct mst_machine_host *host)
{
    const struct mst_lib_publish *publish = (const struct mst_lib_publish *)host;

    publish->finished(publish->ctx);
    return false;
}

static const struct mst_host_shell shell = {
    .kind = &mst_publish_machine, .own = own, .answer = finished};

/* ---- who listens, lock held ---- */

static bool ask(struct mst_lib_publish *publish, uint64_t after);

/* A rank that listens waits for a change of the notices. The job is one of the service's, page by
 * page. */
static void look(struct mst_lib_publish *publish, const struct mst_reply *reply)
{
    const muster_client *client = publish->client;

    for (uint32_t i = 0; reply->status == MUSTER_OK && i < reply->item_count; i++) {
        const struct mst_item *item = &reply->items[i];

        if (item->kind == MST_ITEM_JOB &&
            mst_slice_equal(item->name, mst_slice_text(client->job))) {
            publish->unheard = item->listening == 1;
            publish->client->listened_to = item->listening > 1;
        }
    }
}

static void asked(void *ctx, const struct mst_reply *reply)
{
    struct mst_lib_publish *publish = ctx;

    look(publish, reply);
    if (reply->status != MUSTER_OK || reply->next == 0 || !ask(publish, reply->next)) {
        mst_host_drain(&publish->host);
    }
}

static bool ask(struct mst_lib_publish *publish, uint64_t after)
{
    const struct mst_request request = {.command = MST_JOBS, .page.after = after};

    publish->asking = (struct mst_lib_post){.complete = asked, .ctx = publish};
    return mst_lib_post(publish->client, &request, UINT64_MAX, &publish->asking) == MUSTER_OK;
}

/* Not again once one has: in the moment after a notice those that listen are busy with it. */
static bool is_to_ask(const struct mst_lib_publish *publish)
{
    return publish->asks && !publish->client->listened_to &&
           !mst_lib_hook_ctx(publish->client, MST_USER_PREEMPT);
}

const char *mst_lib_publish_job(const muster_client *client)
{
    return client->job;
}

muster_status mst_lib_publish_begin(struct mst_lib_publish *publish, uint64_t given_ns,
                                    const struct mst_publish_config *config)
{
    struct mst_publish *machine = NULL;
    muster_status status = mst_publish_new(&machine, given_ns, config, &mst_system_mem);

    publish->host =
        (struct mst_machine_host){.shell = &shell, .client = publish->client, .machine = machine};
    publish->over = publish->unheard = false;
    publish->asks = publish->asks && !config->withdraw;
    if (status == MUSTER_OK && (!is_to_ask(publish) || !ask(publish, 0))) {
        mst_host_drain(&publish->host);
    }
    return status;
}

void mst_lib_publish_end(struct mst_lib_publish *publish)
{
    if (publish->host.machine) {
        mst_host_drop(&publish->host);
        mst_lib_post_drop(publish->client, &publish->asking);
        mst_publish_free(publish->host.machine);
        publish->host.machine = NULL;
    }
}

/* ---- by hand ---- */

static bool is_over(void *ctx)
{
    const struct mst_lib_publish *publish = ctx;

    return publish->over || publish->client->ended;
}

static muster_status refusal_of(muster_client *client)
{
    return client->interrupted ? MUSTER_EINTERRUPTED : mst_lib_status(client);
}

/* Lock held. The service is waited for, as by every write. */
static muster_status carry_out(struct mst_lib_publish *publish,
                               const struct mst_publish_config *config, struct muster_error *err)
{
    muster_client *client = publish->client;
    muster_status status = refusal_of(client);

    if (status == MUSTER_OK) {
        status = mst_lib_publish_begin(publish, mst_lib_now_ns(), config);
        if (status) {
            return mst_lib_fail(err, status, publish->what, NULL);
        }
        (void)mst_lib_wait_interruptible(client, is_over, publish, UINT64_MAX);
        status = refusal_of(client);
    }
    if (publish->over) {
        if (publish->error.status && err) {
            *err = publish->error;
        }
        return publish->error.status;
    }
    return status == MUSTER_EINTERRUPTED ? mst_lib_fail(err, status, publish->what, NULL)
                                         : mst_lib_fail_again(client, err, publish->what);
}

static muster_status publish_and_wait(muster_client *client, const char *what,
                                      const struct mst_publish_config *config,
                                      struct muster_error *err)
{
    struct mst_lib_publish publish = {.client = client, .what = what, .asks = true};
    muster_status status;

    mst_lib_lock(client);
    mst_lib_keep(client);
    status = carry_out(&publish, config, err);
    if (status == MUSTER_OK && publish.unheard) {
        mst_lib_log(client, MUSTER_LEVEL_WARN, "%s: " MST_LIB_UNHEARD, what, client->job);
    }
    if (!client->poisoned) {
        mst_lib_publish_end(&publish);
    }
    mst_lib_let_go(client);
    mst_lib_unlock(client);
    return status;
}

muster_status mst_preempt_enter(muster_client *client, struct muster_error *err, const char *what)
{
    muster_status status = mst_lib_enter(client, err, what);

    return status == MUSTER_OK && mst_lib_thread.no_waiting ? mst_lib_forbidden(err, what) : status;
}

static muster_status enter(muster_client *client, char what[MST_LIB_WHAT_ROOM], const char *verb,
                           uint32_t index, struct muster_error *err)
{
    muster_status status;

    if (index == MST_NOTICE_ALL) {
        mst_text_print(what, MST_LIB_WHAT_ROOM, "%s the whole job", verb);
    } else {
        mst_text_print(what, MST_LIB_WHAT_ROOM, "%s #%u", verb, index);
    }
    status = mst_preempt_enter(client, err, what);
    return status == MUSTER_OK && index > MST_NOTICE_ALL
               ? mst_lib_refuse(err, what, "no place in a job")
               : status;
}

muster_status muster_preempt_announce(muster_client *client, uint32_t index, int64_t in_ms,
                                      const char *reason, struct muster_error *err)
{
    struct mst_publish_config config = {.indices = &index, .count = 1};
    char what[MST_LIB_WHAT_ROOM];
    int64_t left_ms = in_ms;
    muster_status status = enter(client, what, "notice for", index, err);

    if (status == MUSTER_OK && in_ms < -1) {
        status = mst_lib_refuse(err, what, "in_ms is negative");
    }
    if (status == MUSTER_OK && in_ms < 0) {
        config.notice.assumed = true;
        status = mst_lib_setting("preempt_grace", &left_ms, NULL, err);
    }
    if (status) {
        return status;
    }
    config.notice.left_ms = (uint64_t)left_ms;
    (void)mst_slice_copy(config.notice.source, sizeof(config.notice.source),
                         mst_slice_text("hand"));
    (void)mst_slice_copy(config.notice.reason, sizeof(config.notice.reason),
                         mst_slice_text(reason));
    return publish_and_wait(client, what, &config, err);
}

muster_status muster_preempt_withdraw(muster_client *client, uint32_t index,
                                      struct muster_error *err)
{
    struct mst_publish_config config = {.withdraw = true, .indices = &index, .count = 1};
    char what[MST_LIB_WHAT_ROOM];
    muster_status status = enter(client, what, "take back the notice for", index, err);

    return status ? status : publish_and_wait(client, what, &config, err);
}
