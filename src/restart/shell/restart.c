/* SPDX-License-Identifier: Apache-2.0 */
/* muster_restart_run around the restart machine: makes its calls, runs the function and the
 * callbacks on the caller's thread, and interrupts it from whichever thread drives the connection.
 * restart.h lists the other files. */
#define _GNU_SOURCE
#include "restart/shell/restart.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/panic.h"
#include "client/shell/sidecar/helper.h"
#include "client/shell/uncancelled.h"
#include "os/system.h"
#include "restart/assignment.h"

#define CHECK_NS (50 * NS_PER_MS)

/* --- the progress page --- */

static void show_told(struct muster_restart *restart)
{
    struct mst_page *page = restart->page;

    atomic_store_explicit(&page->told, atomic_load_explicit(&page->turn, memory_order_relaxed),
                          memory_order_relaxed);
}

/* With the lock. */
static void show_phase(struct muster_restart *restart, enum mst_page_phase phase)
{
    mst_page_turn(restart->page, phase);
    if (restart->cut && (phase == MST_PHASE_BEFORE || phase == MST_PHASE_FUNCTION)) {
        show_told(restart);
    }
}

static void show_run(struct muster_restart *restart)
{
    const struct mst_run_settings *settings = &restart->settings;
    struct mst_page *page = restart->page;

    atomic_store_explicit(&page->thread, (uint64_t)syscall(SYS_gettid), memory_order_relaxed);
    atomic_store_explicit(&page->soft_ms, settings->soft_ms, memory_order_relaxed);
    atomic_store_explicit(&page->hard_ms, settings->hard_ms, memory_order_relaxed);
    atomic_store_explicit(&page->grace_ms, settings->grace_ms, memory_order_relaxed);
    atomic_store_explicit(&page->from_start, settings->from_start, memory_order_relaxed);
    atomic_store_explicit(&page->left, 0, memory_order_relaxed);
}

/* The second tier starts the whole group again when all ranks ended with this, unless they were
 * asked to. */
static void show_failure(struct muster_restart *restart)
{
    struct mst_page *page = restart->page;

    (void)mst_slice_copy(page->failure, sizeof(page->failure), mst_slice_text(restart->error.text));
    if (restart->why == MST_WHY_ABORTED) {
        atomic_fetch_add_explicit(&page->aborts, 1, memory_order_relaxed);
    }
    atomic_fetch_add_explicit(&page->runs_failed, 1, memory_order_release);
}

/* --- the machine's effects, with the lock held on any thread --- */

static void view_set(struct muster_restart *restart, const struct mst_view *view,
                     uint64_t iteration)
{
    restart->view = (struct muster_view){.generation = view->generation,
                                         .incarnation = view->incarnation,
                                         .iteration = iteration,
                                         .rank = view->rank,
                                         .size = view->size,
                                         .index = view->index,
                                         .spare = view->spare,
                                         .size_of_job = view->size_of_job};
}

static void effect_enter(struct muster_restart *restart, const struct mst_restart_effect *effect)
{
    restart->owe_enter = true;
    view_set(restart, &effect->view, effect->iteration);
    restart->cut = false;
    mst_run_records_set(restart, effect->faults);
    mst_run_records_seal(restart);
    mst_abort_reset(restart);
    mst_atomic_reset(&restart->atomic);
    atomic_store_explicit(&restart->delivered, 0, memory_order_relaxed);
}

static void effect_unwind(struct muster_restart *restart, const struct mst_restart_effect *effect)
{
    restart->owe_unwind = true;
    mst_run_records_so_far(restart);
    /* Its own fault this rank knows better: with the text. */
    if (effect->faults->count > 0 &&
        (restart->records.count == 0 ||
         restart->records.first[0].index == effect->faults->first[0].index)) {
        mst_run_records_set(restart, effect->faults);
    }
}

static bool may_cut(const struct muster_restart *restart)
{
    return restart->inside && !mst_atomic_inside(&restart->atomic);
}

/* Lost lines are better than a lost process: a write of stdio that lasts is ended as well, when
 * half of the time to the kill is over. */
static bool spares(const struct muster_restart *restart)
{
    int64_t hard_ms = restart->settings.hard_ms;

    return hard_ms < 0 || mst_lib_now_ns() < mst_after_ms(restart->cut_ns, (uint64_t)hard_ms / 2);
}

void mst_run_cut(struct muster_restart *restart)
{
    if (!may_cut(restart)) {
        return;
    }
    if (spares(restart)) {
        mst_interrupt_send_sparing(&restart->interrupt);
    } else {
        mst_interrupt_send(&restart->interrupt);
    }
}

/* With the lock. */
static struct mst_restart_progress progress_of(const struct muster_restart *restart)
{
    const struct mst_page *page = restart->page;

    return (struct mst_restart_progress){
        .pings = atomic_load_explicit(&page->pings, memory_order_relaxed) - restart->pings_before,
        .checks =
            atomic_load_explicit(&page->checks, memory_order_relaxed) - restart->checks_before,
        .first = atomic_load_explicit(&restart->first_step, memory_order_relaxed),
        .step = atomic_load_explicit(&restart->best_step, memory_order_relaxed),
        .waited = atomic_load_explicit(&page->waits, memory_order_acquire) % 2 != 0,
    };
}

static void effect_interrupt(struct muster_restart *restart)
{
    if (!restart->cut) {
        restart->cut = true;
        restart->cut_ns = mst_lib_now_ns();
        restart->at_cut = progress_of(restart);
        show_told(restart);
        mst_run_records_so_far(restart);
        mst_lib_interrupt(restart->client, true);
        mst_abort_want(restart);
    }
    if (mst_abort_let(restart, mst_lib_now_ns())) {
        mst_run_cut(restart);
    }
}

static void effect_finish(struct muster_restart *restart, const struct mst_restart_effect *effect)
{
    static const char what[] = "run the function again";

    restart->finished = true;
    restart->client->heard = effect->heard;
    restart->status = effect->status;
    restart->why = effect->why;
    if (effect->status >= 0) {
        return;
    }
    if (restart->quit) {
        (void)mst_fail(&restart->error, effect->status, 0, "run: %s; this rank has left the job",
                       restart->trouble.text);
        restart->error.why = MUSTER_WHY_WAIT_CHECK;
    } else if (effect->why != MST_WHY_REPLY) {
        mst_run_say_why(restart, effect);
    } else if (!effect->reply && effect->status == mst_lib_status(restart->client)) {
        (void)mst_lib_fail_again(restart->client, &restart->error, what);
    } else {
        (void)mst_lib_fail(&restart->error, effect->status, what, effect->reply);
    }
}

static bool own(struct mst_machine_host *host, const void *of_machine)
{
    struct muster_restart *restart = MST_CONTAINER(host, struct muster_restart, host);
    const struct mst_restart_effect *effect = of_machine;

    switch (effect->type) {
    case MST_RESTART_ENTER:
        effect_enter(restart, effect);
        break;
    case MST_RESTART_TELL:
        mst_atomic_tell(&restart->atomic);
        break;
    case MST_RESTART_INTERRUPT:
        effect_interrupt(restart);
        break;
    case MST_RESTART_FINISH:
        effect_finish(restart, effect);
        break;
    case MST_RESTART_UNWIND:
        effect_unwind(restart, effect);
        break;
    case MST_RESTART_ASSIGN:
        restart->owe_assign = true;
        restart->places = effect->places;
        restart->place_count = effect->place_count;
        break;
    }
    return false;
}

static const struct mst_host_shell shell = {.kind = &mst_restart_machine, .own = own};

/* --- the hook in the client, with the lock held --- */

/* The function must stop: the lease is not renewed any more. Its run ends when it has returned. */
static void hook_poisoned(void *ctx)
{
    struct muster_restart *restart = ctx;

    mst_atomic_tell(&restart->atomic);
    show_told(restart);
    if (may_cut(restart)) { /* nothing repeats it */
        mst_interrupt_send(&restart->interrupt);
    }
}

static void handle_free(void *ctx)
{
    struct muster_restart *restart = ctx;

    mst_restart_free(restart->host.machine);
    (void)pthread_cond_destroy(&restart->abort.changed);
    (void)pthread_mutex_destroy(&restart->abort.lock);
    (void)pthread_mutex_destroy(&restart->records_lock);
    free(restart);
}

/* --- the begin of a run --- */

/* The client's handle, made if this is the first run. With the lock. */
static struct muster_restart *handle_get(muster_client *client,
                                         const struct mst_restart_config *config)
{
    struct muster_restart *restart = mst_lib_hook_ctx(client, MST_USER_RESTART);
    struct mst_restart_config fresh = *config;
    struct mst_restart *machine;
    struct mst_lib_hook hook;

    if (restart) {
        return mst_restart_configure(restart->host.machine, config) ? NULL : restart;
    }
    restart = calloc(1, sizeof(*restart));
    if (!restart) {
        return NULL;
    }
    fresh.heard = client->heard;
    if (mst_restart_new(&machine, &fresh, &mst_system_mem)) {
        free(restart);
        return NULL;
    }
    restart->host =
        (struct mst_machine_host){.shell = &shell, .client = client, .machine = machine};
    (void)pthread_mutex_init(&restart->abort.lock, NULL);
    (void)pthread_cond_init(&restart->abort.changed, NULL);
    (void)pthread_mutex_init(&restart->records_lock, NULL);
    restart->client = client;
    restart->page = &restart->own;
    hook = mst_host_hook(&restart->host);
    hook.poisoned = hook_poisoned;
    hook.closed_within = mst_run_exit_within;
    hook.release = handle_free;
    mst_lib_hook(client, MST_USER_RESTART, &hook);
    return restart;
}

/* With the lock. */
static muster_status run_refuse(muster_client *client, struct muster_error *err)
{
    const struct muster_restart *restart = mst_lib_hook_ctx(client, MST_USER_RESTART);
    const struct mst_view *view = mst_lib_view(client);
    muster_status status = mst_lib_status(client);

    if (restart && restart->busy) {
        return mst_run_is_mine(restart)
                   ? mst_lib_fail(err, MUSTER_EDEADLK, "run: called from within the function", NULL)
                   : mst_lib_refuse(err, "run", "another thread runs one on this client");
    }
    if (status) {
        return mst_lib_fail_again(client, err, "run");
    }
    if (client->role != MST_ROLE_RANK || view->generation == 0 ||
        (view->rank == MST_RANK_NONE && !view->spare)) {
        return mst_lib_refuse(err, "run", "this client is not a rank of the job");
    }
    return MUSTER_OK;
}

/* With the lock: takes the run for this thread; the settings are the handle's from here on. NULL:
 * refused with `status`. */
static struct muster_restart *run_take(muster_client *client, struct mst_run_settings *settings,
                                       muster_status *status, struct muster_error *err)
{
    struct muster_restart *restart;

    *status = run_refuse(client, err);
    if (*status) {
        return NULL;
    }
    settings->config.host = mst_slice_text(client->host);
    if (settings->replace_if_fixed && !client->fixed_size) {
        settings->config.replace_ms = 0;
    }
    restart = handle_get(client, &settings->config);
    if (!restart) {
        *status = mst_lib_fail(err, MUSTER_ENOMEM, "run", NULL);
        return NULL;
    }
    mst_lib_keep(client);
    restart->settings = *settings;
    *settings = (struct mst_run_settings){0};
    restart->interrupt = (struct mst_interrupt){.thread = pthread_self()};
    restart->busy = true;
    restart->attempt = restart->inside = restart->cut = restart->failed = restart->left = false;
    restart->owe_enter = restart->owe_unwind = restart->owe_assign = restart->finished = false;
    restart->closed = restart->quit = false;
    restart->status = MUSTER_OK;
    restart->why = MST_WHY_REPLY;
    restart->error = (struct muster_error){0};
    restart->trouble = (struct mst_run_trouble){0};
    mst_atomic_reset(&restart->atomic);
    mst_run_records_set(restart, &(struct mst_record_list){0});
    view_set(restart, mst_lib_view(client), 0);
    return restart;
}

/* A forked child sees the page too, and is not the function. */
static void forget_function(void)
{
    mst_lib_thread = (struct mst_lib_thread){0};
}

static void survive_fork(void)
{
    (void)pthread_atfork(NULL, NULL, forget_function);
}

/* The process that watches this one reads its page; where none does yet, a helper is started. */
static void page_take(struct muster_restart *restart)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, survive_fork);
    mst_lib_lock(restart->client);
    mst_lib_helper_begin(restart->client);
    if (mst_lib_page(restart->client)) {
        restart->page = mst_lib_page(restart->client);
    }
    mst_lib_unlock(restart->client);
    mst_lib_thread.page = restart->page;
}

/* Without the lock. On failure nothing is left started. */
static muster_status run_start(struct muster_restart *restart, struct muster_error *err)
{
    muster_client *client = restart->client;
    struct mst_run_trouble trouble = {0};
    muster_status status;

    if (!mst_run_steps(restart, MST_STEP_PRECONDITION, &trouble)) {
        (void)mst_fail(err, trouble.status, 0, "run: %s", trouble.text);
        if (err) {
            err->why = MUSTER_WHY_PRECONDITION;
        }
        return trouble.status;
    }
    mst_run_close_sections(restart);
    status = mst_interrupt_arm(&restart->interrupt, restart->settings.signal,
                               restart->settings.keep_handler, err);
    if (status) {
        return status;
    }
    status = mst_abort_start(restart, err);
    if (status) {
        mst_interrupt_disarm(&restart->interrupt);
        return status;
    }
    mst_run_exit_add(restart);
    page_take(restart);
    mst_lib_lock(client);
    show_run(restart);
    show_phase(restart, MST_PHASE_WAITS);
    if (!client->poisoned) {
        mst_restart_machine.attention(restart->host.machine, mst_lib_now_ns(), mst_lib_view(client),
                                      mst_lib_stopped(client));
        mst_restart_start(restart->host.machine, mst_lib_now_ns(), mst_lib_view(client));
        mst_host_drain(&restart->host);
    }
    mst_lib_unlock(client);
    return MUSTER_OK;
}

/* --- an attempt --- */

/* The machine cannot be asked any more. With the lock. */
static bool run_poisoned(struct muster_restart *restart)
{
    if (!restart->client->poisoned) {
        return false;
    }
    restart->finished = true;
    restart->status = mst_lib_fail(&restart->error, MUSTER_EINTERNAL, "run", NULL);
    return true;
}

void mst_run_report(struct muster_restart *restart, enum mst_cause kind, int code, const char *text)
{
    mst_restart_failed(restart->host.machine, mst_lib_now_ns(), kind, code, mst_slice_text(text));
    mst_host_drain(&restart->host);
}

/* What comes before the function. Not OK: it is not called, and has this status instead. */
static muster_status attempt_prepare(struct muster_restart *restart)
{
    struct mst_run_trouble trouble = {0};
    bool initialized = mst_run_steps(restart, MST_STEP_INITIALIZE, &trouble);
    bool ready = initialized && mst_run_healthy(restart, &trouble);

    mst_lib_lock(restart->client);
    if (restart->client->poisoned || restart->cut) {
        trouble.status = MUSTER_EINTERRUPTED; /* whatever failed, that was why */
    } else if (ready) {
        trouble.status = restart->failed ? MUSTER_EFAILED : MUSTER_OK;
    } else if (!restart->failed && trouble.status != MUSTER_EINTERRUPTED) {
        mst_run_report(restart, initialized ? MST_CAUSE_UNHEALTHY : MST_CAUSE_FAULT, trouble.code,
                       trouble.text);
    }
    mst_lib_unlock(restart->client);
    return trouble.status;
}

/* With the lock. */
static void attempt_open(struct muster_restart *restart)
{
    restart->owe_enter = false;
    restart->attempt = true;
    restart->failed = false;
    mst_lib_iteration(restart->client, restart->view.iteration);
    restart->pings_before = atomic_load_explicit(&restart->page->pings, memory_order_relaxed);
    restart->checks_before = atomic_load_explicit(&restart->page->checks, memory_order_relaxed);
    atomic_store_explicit(&restart->first_step, MST_RUN_NO_STEP, memory_order_relaxed);
    atomic_store_explicit(&restart->best_step, MST_RUN_NO_STEP, memory_order_relaxed);
    atomic_store_explicit(&restart->page->rank, restart->view.rank, memory_order_relaxed);
    atomic_store_explicit(&restart->page->ranks, restart->view.size, memory_order_relaxed);
    mst_page_attempt(restart->page);
    atomic_store_explicit(&restart->page->generation, restart->view.generation,
                          memory_order_relaxed);
    show_phase(restart, MST_PHASE_BEFORE);
}

/* With the lock, which is not held while the function runs. */
static muster_status attempt_call(struct muster_restart *restart, muster_restart_fn *fn, void *arg)
{
    muster_status status;

    if (restart->cut || restart->client->poisoned) { /* since it was prepared */
        return MUSTER_EINTERRUPTED;
    }
    restart->inside = true;
    atomic_fetch_add_explicit(&restart->page->entered, 1, memory_order_relaxed);
    show_phase(restart, MST_PHASE_FUNCTION);
    mst_lib_unlock(restart->client);
    status = fn(restart, arg);
    mst_lib_lock(restart->client);
    restart->inside = false;
    return status;
}

/* With the lock. */
static void attempt_close(struct muster_restart *restart, muster_status status)
{
    uint64_t now_ns = mst_lib_now_ns();
    struct mst_restart_progress progress = progress_of(restart);
    /* A call of muster that was cut short has said EINTERRUPTED as well. */
    bool delivered =
        atomic_load_explicit(&restart->delivered, memory_order_relaxed) != 0 || restart->cut;

    mst_run_close_sections(restart);
    mst_atomic_reset(&restart->atomic);
    restart->attempt = false;
    mst_lib_interrupt(restart->client, false);
    show_phase(restart, MST_PHASE_WAITS);
    if (run_poisoned(restart)) {
        return;
    }
    if (restart->cut) { /* what it has done since is no sign of what the others waited for */
        progress.pings = restart->at_cut.pings;
        progress.checks = restart->at_cut.checks;
        progress.waited = restart->at_cut.waited;
    }
    mst_restart_progress(restart->host.machine, &progress);
    mst_restart_returned(restart->host.machine, now_ns, status, delivered);
    mst_host_drain(&restart->host);
}

/* With the lock, as all that follows. */
static void run_attempt(struct muster_restart *restart, muster_restart_fn *fn, void *arg)
{
    muster_status status;

    attempt_open(restart);
    mst_lib_unlock(restart->client);
    mst_export_set(restart, restart->view.rank, restart->view.size);
    status = restart->quit ? MUSTER_EINTERRUPTED : attempt_prepare(restart);
    mst_lib_lock(restart->client);
    if (status == MUSTER_OK && !mst_run_leaves(restart)) {
        status = attempt_call(restart, fn, arg);
    }
    mst_run_exit_closed(restart);
    attempt_close(restart, status);
}

/* A fault, here or elsewhere. The abort callbacks belong to every one, also when no call had to be
 * cut short; what comes after them may count on their having returned. */
static void run_unwind(struct muster_restart *restart)
{
    struct mst_run_trouble trouble = {0};
    enum mst_restart_why why = MST_WHY_REPLY;

    restart->owe_unwind = false;
    show_phase(restart, MST_PHASE_AFTER);
    mst_lib_unlock(restart->client);
    mst_abort_want(restart);
    mst_abort_wait(restart);
    if (!mst_run_steps(restart, MST_STEP_FINALIZE, &trouble)) {
        why = MST_WHY_FINALIZE;
    } else if (!mst_run_healthy(restart, &trouble)) {
        why = MST_WHY_UNHEALTHY;
        trouble.status = MUSTER_EUNHEALTHY;
    } else {
        trouble.status = MUSTER_OK;
    }
    mst_lib_lock(restart->client);
    mst_run_close_sections(restart);
    mst_atomic_reset(&restart->atomic);
    show_phase(restart, MST_PHASE_WAITS);
    if (!restart->quit) {
        restart->trouble = trouble;
    }
    if (run_poisoned(restart)) {
        return;
    }
    mst_restart_unwound(restart->host.machine, mst_lib_now_ns(), trouble.status, why, trouble.code,
                        mst_slice_text(trouble.text));
    mst_host_drain(&restart->host);
}

static void run_assign(struct muster_restart *restart)
{
    const struct mst_run_settings *settings = &restart->settings;
    char why[256] = "";
    struct mst_text text = mst_text_in(why, sizeof(why));
    muster_status status;

    restart->owe_assign = false;
    mst_lib_unlock(restart->client);
    status = mst_assignment_apply(settings->assignment, settings->assignment_count, restart->places,
                                  restart->place_count, &mst_system_mem, &text);
    mst_lib_lock(restart->client);
    if (run_poisoned(restart)) {
        return;
    }
    mst_restart_assigned(restart->host.machine, mst_lib_now_ns(), status,
                         mst_slice_of(text.start, text.size));
    mst_host_drain(&restart->host);
}

/* --- the run --- */

static bool became_spare(const struct muster_restart *restart)
{
    return mst_lib_view(restart->client)->spare && !restart->exported.spare;
}

static bool run_ready(void *ctx)
{
    const struct muster_restart *restart = ctx;

    return restart->owe_enter || restart->owe_unwind || restart->owe_assign || restart->finished ||
           became_spare(restart);
}

/* A wait check has failed: the session is over for the machine, so that the run ends soon even if
 * the service does not answer. */
static void run_quit(struct muster_restart *restart, const struct mst_run_trouble *trouble)
{
    if (restart->finished || run_poisoned(restart)) {
        return;
    }
    restart->quit = restart->left = true;
    restart->trouble = *trouble;
    restart->owe_assign = false;
    mst_restart_machine.ended(restart->host.machine, mst_lib_now_ns(), trouble->status);
    mst_host_drain(&restart->host);
}

static void run_leave(struct muster_restart *restart)
{
    if (restart->client->ended || restart->client->poisoned) {
        return;
    }
    mst_run_farewell(restart, "left the job: its wait was ended");
    mst_client_give_up(mst_lib_machine(restart->client), mst_lib_now_ns(), MUSTER_OK);
    mst_driver_turn(restart->client->driver, mst_lib_now_ns());
}

/* The library's wait, in pieces if the run has wait checks: a signal does not end one that waits
 * for another thread to read the answer. */
static void run_await(struct muster_restart *restart)
{
    bool checks = restart->settings.steps[MST_STEP_WAIT_CHECK].count > 0 && !restart->quit;
    struct mst_run_trouble trouble = {0};
    bool good = true;

    while (good && !mst_lib_wait(restart->client, run_ready, restart,
                                 checks ? mst_lib_now_ns() + CHECK_NS : UINT64_MAX)) {
        mst_lib_unlock(restart->client);
        good = mst_run_steps(restart, MST_STEP_WAIT_CHECK, &trouble);
        mst_lib_lock(restart->client);
    }
    if (!good) {
        run_quit(restart, &trouble);
    }
}

static void run_wait(struct muster_restart *restart)
{
    run_await(restart);
    if (run_poisoned(restart) || restart->owe_enter || !became_spare(restart)) {
        return;
    }
    view_set(restart, mst_lib_view(restart->client), restart->view.iteration);
    mst_export_set(restart, MUSTER_RANK_NONE, restart->view.size);
}

static void run_turns(struct muster_restart *restart, muster_restart_fn *fn, void *arg)
{
    mst_lib_lock(restart->client);
    while (!restart->finished && !run_poisoned(restart)) {
        mst_run_exit_closed(restart); /* by a callback */
        if (restart->owe_enter) {
            run_attempt(restart, fn, arg);
        } else if (restart->owe_unwind) {
            run_unwind(restart);
        } else if (restart->owe_assign) {
            run_assign(restart);
        } else {
            run_wait(restart);
        }
    }
    show_phase(restart, MST_PHASE_OUTSIDE);
    if (!restart->quit && mst_run_ends_all(restart->status, restart->why)) {
        show_failure(restart);
    }
    if (restart->quit) {
        run_leave(restart);
    }
    if (restart->left && (restart->quit || restart->status == MUSTER_OK)) {
        atomic_store_explicit(&restart->page->left, 1, memory_order_relaxed);
    }
    mst_lib_unlock(restart->client);
}

/* The last callbacks, when nothing can interrupt them any more. */
static void run_finish(struct muster_restart *restart)
{
    mst_abort_stop(restart);
    mst_at_exit_remove(&restart->at_exit);
    mst_interrupt_disarm(&restart->interrupt);
    if (restart->status < 0 && restart->status != MUSTER_EPREEMPTED) {
        mst_run_steps_logged(restart, MST_STEP_TERMINATE);
    } else if (!restart->left) {
        mst_run_steps_logged(restart, MST_STEP_COMPLETION);
    }
    mst_export_undo(restart);
}

/* With the lock: the run is over, nothing it asked for may call back into the next one. */
static void run_end(struct muster_restart *restart)
{
    mst_host_drop(&restart->host);
    mst_run_settings_free(&restart->settings);
    restart->busy = false;
    mst_lib_let_go(restart->client);
}

/* What a disabled run has instead of all that. */
static muster_status run_plainly(muster_client *client, struct mst_run_settings *settings,
                                 muster_restart_fn *fn, void *arg)
{
    struct muster_restart restart = {.page = &restart.own,
                                     .client = client,
                                     .settings = *settings,
                                     .interrupt = {.thread = pthread_self()}};
    muster_status status;

    (void)pthread_mutex_init(&restart.records_lock, NULL);
    restart.view = (struct muster_view){.size = 1, .size_of_job = 1};
    if (client) {
        muster_client_view(client, &restart.view);
    }
    status = fn(&restart, arg);
    mst_run_close_sections(&restart);
    (void)pthread_mutex_destroy(&restart.records_lock);
    return status;
}

static muster_status run(muster_client *client, struct mst_run_settings *settings,
                         muster_restart_fn *fn, void *arg, struct muster_error *err)
{
    struct mst_lib_thread before = mst_lib_thread;
    struct muster_restart *restart;
    muster_status status;

    if (before.no_waiting) {
        return mst_lib_forbidden(err, "run");
    }
    mst_lib_lock(client);
    restart = run_take(client, settings, &status, err);
    mst_lib_unlock(client);
    if (!restart) {
        return status;
    }
    status = run_start(restart, err);
    if (status == MUSTER_OK) {
        run_turns(restart, fn, arg);
        run_finish(restart);
        status = restart->status;
        if (status < 0 && err) {
            *err = restart->error;
        }
    }
    mst_run_close_sections(restart); /* of the first and the last callbacks */
    mst_lib_thread = before;
    mst_lib_lock(client);
    run_end(restart);
    mst_lib_unlock(client);
    return status;
}

muster_status muster_restart_run(muster_client *client,
                                 const struct muster_restart_options *options,
                                 muster_restart_fn *fn, void *arg, struct muster_error *err)
{
    struct mst_run_settings settings = {0};
    muster_status status;

    if (!fn) {
        return mst_lib_refuse(err, "run", "fn is NULL");
    }
    status = mst_run_settings_read(&settings, options, err);
    if (status) {
        return status;
    }
    mst_uncancelled_begin();
    if (settings.disabled) {
        status = run_plainly(client, &settings, fn, arg);
    } else {
        status = mst_lib_enter(client, err, "run");
        if (status == MUSTER_OK) {
            status = run(client, &settings, fn, arg, err);
        }
    }
    mst_uncancelled_end();
    mst_run_settings_free(&settings);
    return status;
}
