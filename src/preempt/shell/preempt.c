/* SPDX-License-Identifier: Apache-2.0 */
/* muster_preempt around its machine: makes its calls, keeps the gate, and turns what the sources of
 * this process say into notices. preempt.h lists the other files. */
#define _GNU_SOURCE
#include "preempt/shell/preempt.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/shell/sidecar/helper.h"
#include "client/shell/uncancelled.h"
#include "os/system.h"

/* ---- the gate, lock held ---- */

static void gate_apply(struct muster_preempt *preempt)
{
    bool slow = preempt->closed || preempt->ended ||
                (preempt->client && mst_lib_interrupted(preempt->client));

    atomic_store(&preempt->limit, slow ? MST_GATE_SLOW : preempt->opened_limit);
}

static void gate_close(struct muster_preempt *preempt)
{
    preempt->closed = true;
    gate_apply(preempt);
    if (!preempt->exchanges) {
        (void)syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    }
    preempt->closed_last = atomic_load(&preempt->last);
}

static void gate_open(struct muster_preempt *preempt, int64_t limit, bool forget)
{
    preempt->closed = false;
    preempt->opened_limit = limit;
    if (forget) {
        atomic_store(&preempt->last, -1);
    }
    gate_apply(preempt);
    if (limit != MST_GATE_OPEN) {
        mst_lib_log(preempt->client, MUSTER_LEVEL_DEBUG,
                    "preempt: step %" PRId64 " is to be saved here", limit);
    }
}

/* ---- the machine's effects, lock held ---- */

static void named(struct mst_machine_host *host, const struct mst_reply *reply)
{
    struct muster_preempt *preempt = MST_CONTAINER(host, struct muster_preempt, host);
    char what[MST_LIB_WHAT_ROOM];

    mst_preempt_describe(what, preempt->saved_step);
    (void)mst_lib_fail(&preempt->error, MUSTER_ETIMEDOUT, what, reply);
}

/* The others wait for it, whether a thread blocks here or not. */
static void calls(struct mst_machine_host *host)
{
    mst_lib_hurry(host->client);
}

static void take_notices(struct muster_preempt *preempt)
{
    const struct mst_preempt_seen *noticed = mst_preempt_noticed(preempt->host.machine);

    mst_signals_noticed(&preempt->signals, noticed && noticed->notice.level == MST_NOTICE_CERTAIN);
    mst_preempt_exit_look(preempt);
}

static bool own(struct mst_machine_host *host, const void *of_machine)
{
    struct muster_preempt *preempt = MST_CONTAINER(host, struct muster_preempt, host);
    const struct mst_preempt_effect *effect = of_machine;

    switch (effect->type) {
    case MST_PREEMPT_GATE:
        gate_close(preempt);
        return true;
    case MST_PREEMPT_LIMIT:
        gate_open(preempt, effect->limit, effect->forget);
        break;
    case MST_PREEMPT_NOTICED:
        take_notices(preempt);
        break;
    case MST_PREEMPT_SAVED:
        preempt->has_outcome = true;
        mst_preempt_say_outcome(&preempt->error, &effect->outcome, preempt->saved_step);
        break;
    case MST_PREEMPT_LOG:
        mst_preempt_say(preempt, &effect->log);
        break;
    }
    return false;
}

static bool gated(struct mst_machine_host *host)
{
    mst_preempt_gated(host->machine, mst_lib_now_ns(),
                      MST_CONTAINER(host, struct muster_preempt, host)->closed_last);
    return true;
}

static const struct mst_host_shell shell = {
    .kind = &mst_preempt_machine, .own = own, .answer = gated, .calls = calls, .named = named};

/* ---- signals, lock held ---- */

static void fill_given(struct muster_preempt *preempt, struct mst_notice *notice,
                       const char *source, const struct muster_notice_given *given)
{
    notice->level =
        given->level == MUSTER_NOTICE_ADVISORY ? MST_NOTICE_ADVISORY : MST_NOTICE_CERTAIN;
    notice->assumed = given->in_ms < 0;
    notice->left_ms = (uint64_t)(given->in_ms < 0 ? preempt->settings.grace_ms : given->in_ms);
    (void)mst_slice_copy(notice->source, sizeof(notice->source), mst_slice_text(source));
    (void)mst_slice_copy(notice->host, sizeof(notice->host), mst_slice_text(preempt->client->host));
    (void)mst_slice_copy(notice->reason, sizeof(notice->reason), mst_slice_text(given->reason));
}

static void publish_signal(struct muster_preempt *preempt, int number, pid_t from)
{
    uint32_t index = mst_lib_view(preempt->client)->index;
    struct mst_publish_config config = {.indices = &index, .count = 1};
    struct muster_notice_given given = {.in_ms = -1, .level = MUSTER_NOTICE_CERTAIN};
    struct mst_text reason = mst_text_in(given.reason, sizeof(given.reason));
    char name[MST_SIGNAL_NAME_ROOM];

    mst_signals_name(name, number);
    mst_text_add(&reason, name);
    if (from != 0) {
        mst_text_format(&reason, " from process %d", from);
    }
    fill_given(preempt, &config.notice, "signals", &given);
    if (mst_lib_publish_begin(&preempt->publish, mst_lib_now_ns(), &config) != MUSTER_OK) {
        mst_lib_log(preempt->client, MUSTER_LEVEL_ERROR,
                    "no memory to pass on the notice by a signal");
    }
}

static void take_signals(struct muster_preempt *preempt)
{
    pid_t from = 0;
    int number;

    if (preempt->publish.host.machine || preempt->ended) {
        return; /* looked at again when that one is over */
    }
    number = mst_signals_next(&preempt->signals, &from);
    if (number != 0) {
        publish_signal(preempt, number, from);
    }
}

/* The event was made quiet: what else came since is found by looking. */
static void signal_published(void *ctx)
{
    struct muster_preempt *preempt = ctx;

    if (preempt->publish.error.status) {
        mst_lib_log(preempt->client, MUSTER_LEVEL_ERROR, "%s", preempt->publish.error.text);
    }
    mst_lib_publish_end(&preempt->publish);
    take_signals(preempt);
}

/* ---- the hook, lock held ---- */

static void hook_ended(void *ctx, uint64_t now_ns, muster_status status)
{
    struct muster_preempt *preempt = ctx;

    preempt->ended = true;
    mst_host_ended(preempt, now_ns, status);
    gate_apply(preempt);
}

static void hook_interrupted(void *ctx, uint64_t now_ns, bool on)
{
    (void)now_ns;
    (void)on;
    gate_apply(ctx);
}

static int hook_event(void *ctx)
{
    return ((const struct muster_preempt *)ctx)->signals.event;
}

static void hook_rung(void *ctx, uint64_t now_ns)
{
    struct muster_preempt *preempt = ctx;

    (void)now_ns;
    mst_signals_quiet(&preempt->signals);
    take_signals(preempt);
}

/* The process that watches this one counts its checks there. */
static void use_page(struct muster_preempt *preempt)
{
    struct mst_page *page = mst_lib_page(preempt->client);

    if (page) {
        atomic_store(&preempt->checks, &page->checks);
        atomic_store_explicit(&page->preempts, 1, memory_order_relaxed);
    }
}

static void hook_paged(void *ctx)
{
    struct muster_preempt *preempt = ctx;

    mst_signals_page(&preempt->signals, preempt->client->page);
    use_page(preempt);
}

static void hook_disowned(void *ctx)
{
    mst_signals_disown(&((struct muster_preempt *)ctx)->signals);
}

static void hook_poisoned(void *ctx)
{
    struct muster_preempt *preempt = ctx;

    preempt->ended = true;
    atomic_store(&preempt->limit, MST_GATE_SLOW);
}

/* Lock held, or the client is about to be freed. */
static void end(struct muster_preempt *preempt)
{
    struct mst_page *page = mst_lib_page(preempt->client);

    atomic_store(&preempt->checks, &preempt->own_checks);
    if (page) {
        atomic_store_explicit(&page->preempts, 2, memory_order_relaxed);
    }
    mst_signals_close(&preempt->signals);
    mst_preempt_free(preempt->host.machine);
    preempt->host.machine = NULL;
}

/* The client is freed, and the handle was not closed: it stays as something that is over. */
static void hook_release(void *ctx)
{
    struct muster_preempt *preempt = ctx;

    mst_preempt_sources_stop(preempt);
    hook_poisoned(preempt);
    mst_publish_free(preempt->publish.host.machine);
    end(preempt);
    preempt->client = NULL;
}

static void hook_in(struct muster_preempt *preempt)
{
    struct mst_lib_hook hook = mst_host_hook(&preempt->host);

    hook.ended = hook_ended;
    hook.interrupted = hook_interrupted;
    hook.event = hook_event;
    hook.rung = hook_rung;
    hook.paged = hook_paged;
    hook.disowned = hook_disowned;
    hook.poisoned = hook_poisoned;
    hook.release = hook_release;
    mst_lib_hook(preempt->client, MST_USER_PREEMPT, &hook);
}

/* ---- the user's sources, on their thread ---- */

static bool given_over(void *ctx)
{
    const struct mst_lib_publish *publish = ctx;
    const struct muster_preempt *preempt = publish->ctx;

    return publish->over || preempt->closing || preempt->ended;
}

bool mst_preempt_give(struct muster_preempt *preempt, const char *source,
                      const struct muster_notice_given *given)
{
    muster_client *client = preempt->client;
    struct mst_lib_publish publish = {.client = client, .what = "pass on a notice", .ctx = preempt};
    struct mst_publish_config config = {.count = 1};
    uint32_t index;
    bool taken = false;

    mst_lib_lock(client);
    if (!client->poisoned && !preempt->closing && !preempt->ended) {
        index = mst_lib_view(client)->index;
        config.indices = &index;
        fill_given(preempt, &config.notice, source, given);
        if (mst_lib_publish_begin(&publish, mst_lib_now_ns(), &config) == MUSTER_OK) {
            (void)mst_lib_wait(client, given_over, &publish, UINT64_MAX);
            taken = publish.over && publish.error.status == MUSTER_OK;
        }
        if (publish.over && publish.error.status) {
            mst_lib_log(client, MUSTER_LEVEL_ERROR, "%s", publish.error.text);
        }
        if (!client->poisoned) {
            mst_lib_publish_end(&publish);
        }
    }
    mst_lib_unlock(client);
    return taken;
}

/* ---- opening ---- */

static void add_source(struct mst_text *text, struct mst_slice name)
{
    mst_text_format(text, "%s%.*s", text->size > 0 ? "," : "", MST_SLICE_ARGS(name));
}

/* Another process looks for notices for this one. The job that `muster run` sets for JAX is no
 * number. */
static void add_elsewhere(struct muster_preempt *preempt, struct mst_text *text)
{
    const char *slurm_job = getenv("SLURM_JOB_ID"); // NOLINT(concurrency-mt-unsafe)
    const char *list = preempt->settings.elsewhere;
    struct mst_slice name;

    if (!list && slurm_job && *slurm_job >= '0' && *slurm_job <= '9') {
        list = "slurm";
    }
    while (mst_preempt_source_next(&list, &name)) {
        if (!mst_slice_equal(name, mst_slice_text("signals"))) {
            add_source(text, name);
        }
    }
}

static void name_sources(struct muster_preempt *preempt)
{
    struct mst_text text = mst_text_in(preempt->sources_text, sizeof(preempt->sources_text));

    if (preempt->settings.signals != 0) {
        add_source(&text, mst_slice_text("signals"));
    }
    if (mst_lib_page(preempt->client)) {
        add_elsewhere(preempt, &text);
    }
    for (size_t i = 0; i < preempt->settings.options.source_count; i++) {
        add_source(&text, mst_slice_text(preempt->settings.options.sources[i].name));
    }
    if (text.size == 0) {
        mst_lib_log(preempt->client, MUSTER_LEVEL_WARN,
                    "preempt: this process has no source of notices; only `muster preempt` and "
                    "muster_preempt_announce can (see MUSTER_PREEMPT_SIGNALS, "
                    "MUSTER_PREEMPT_SOURCES)");
    }
}

/* Lock held. */
static muster_status refuse_client(muster_client *client, struct muster_error *err)
{
    muster_status status = mst_lib_status(client);

    if (status) {
        return mst_lib_fail_again(client, err, "preempt");
    }
    if (client->role != MST_ROLE_RANK) {
        return mst_lib_refuse(err, "preempt", "this client is not a rank of the job");
    }
    if (mst_lib_hook_ctx(client, MST_USER_PREEMPT)) {
        return mst_fail(err, MUSTER_EEXISTS, 0, "preempt: this client has a handle already");
    }
    return MUSTER_OK;
}

/* Lock held. */
static muster_status begin(struct muster_preempt *preempt, struct muster_error *err)
{
    muster_client *client = preempt->client;
    struct mst_preempt *machine = NULL;
    muster_status status = refuse_client(client, err);

    if (status) {
        return status;
    }
    mst_lib_helper_begin(client); /* which waits: look again */
    status = refuse_client(client, err);
    if (status == MUSTER_OK) {
        status =
            mst_preempt_new(&machine, mst_lib_now_ns(), &preempt->settings.config, &mst_system_mem);
        if (status) {
            return mst_lib_fail(err, status, "preempt", NULL);
        }
        status = mst_signals_open(&preempt->signals, preempt->settings.signals, client->page, err);
    }
    if (status) {
        mst_preempt_free(machine);
        return status;
    }
    preempt->host =
        (struct mst_machine_host){.shell = &shell, .client = client, .machine = machine};
    use_page(preempt);
    hook_in(preempt);
    name_sources(preempt);
    mst_preempt_machine.attention(machine, mst_lib_now_ns(), mst_lib_view(client), false);
    mst_host_drain(&preempt->host);
    return MUSTER_OK;
}

static struct muster_preempt *make(muster_client *client,
                                   const struct mst_preempt_settings *settings)
{
    struct muster_preempt *preempt = calloc(1, sizeof(*preempt));

    if (!preempt) {
        return NULL;
    }
    preempt->client = client;
    preempt->pid = getpid();
    preempt->settings = *settings;
    preempt->settings.options.signals = NULL; /* what is read once need not live on */
    preempt->exchanges =
        syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) != 0;
    preempt->opened_limit = MST_GATE_OPEN;
    preempt->signals.event = -1;
    preempt->publish = (struct mst_lib_publish){.client = client,
                                                .what = "pass on the notice by a signal",
                                                .finished = signal_published,
                                                .ctx = preempt};
    mst_list_init(&preempt->exits);
    atomic_init(&preempt->limit, MST_GATE_OPEN);
    atomic_init(&preempt->last, -1);
    atomic_init(&preempt->checks, &preempt->own_checks);
    return preempt;
}

static muster_status open_preempt(muster_preempt **out, muster_client *client,
                                  const struct muster_preempt_options *options,
                                  struct muster_error *err)
{
    struct mst_preempt_settings settings;
    struct muster_preempt *preempt;
    muster_status status;

    if (!out) {
        return mst_lib_refuse(err, "preempt", "out is NULL");
    }
    *out = NULL;
    status = mst_preempt_settings_read(&settings, options, err);
    if (status == MUSTER_OK) {
        status = mst_preempt_enter(client, err, "preempt");
    }
    if (status) {
        return status;
    }
    preempt = make(client, &settings);
    if (!preempt) {
        return mst_lib_fail(err, MUSTER_ENOMEM, "preempt", NULL);
    }
    mst_lib_lock(client);
    status = begin(preempt, err);
    mst_lib_unlock(client);
    if (status) {
        free(preempt);
        return status;
    }
    status = mst_preempt_sources_start(preempt, err);
    if (status) {
        muster_preempt_close(preempt);
        return status;
    }
    *out = preempt;
    return MUSTER_OK;
}

muster_status muster_preempt_open(muster_preempt **out, muster_client *client,
                                  const struct muster_preempt_options *options,
                                  struct muster_error *err)
{
    muster_status status;

    mst_uncancelled_begin();
    status = open_preempt(out, client, options, err);
    mst_uncancelled_end();
    return status;
}

/* ---- closing ---- */

static void close_preempt(muster_preempt *preempt)
{
    muster_client *client = preempt ? preempt->client : NULL;

    if (!preempt || preempt->pid != getpid()) {
        return; /* in a forked child all of it is the parent's */
    }
    if (client && !client->poisoned) {
        mst_lib_lock(client);
        preempt->closing = true;
        mst_lib_wake_ready(client);
        mst_lib_unlock(client);
    }
    mst_preempt_sources_stop(preempt);
    if (client && client->poisoned) {
        mst_signals_close(&preempt->signals);
        return; /* a thread of ours may be stopped in the middle of it for good */
    }
    if (client) {
        mst_lib_lock(client);
        mst_host_drop(&preempt->host);
        mst_lib_publish_end(&preempt->publish);
        mst_lib_hook(client, MST_USER_PREEMPT, NULL);
        end(preempt);
        mst_lib_unlock(client);
    }
    free(preempt);
}

void muster_preempt_close(muster_preempt *preempt)
{
    mst_uncancelled_begin();
    close_preempt(preempt);
    mst_uncancelled_end();
}
