/* SPDX-License-Identifier: Apache-2.0 */
/* The thread of the abort callbacks: they make the function's blocking calls return while it is in
 * them, so they cannot run on its thread. One per run, asleep until an attempt is interrupted.
 *
 * They are called once per attempt, after the end of an atomic section the function may be in. The
 * signal, which can break a library that knows no EINTR, begins when they have returned; but a
 * callback that hangs holds it up for the head start only. */
#define _GNU_SOURCE

#include "os/thread.h"

#include "restart/shell/restart.h"

#define HEAD_START_NS NS_PER_S

static void callbacks(struct muster_restart *restart)
{
    mst_atomic_wait(&restart->atomic);
    mst_run_steps_logged(restart, MST_STEP_ABORT);
    /* What they have not freed a signal may, now rather than at the next repetition. */
    mst_lib_lock(restart->client);
    if (restart->cut) {
        mst_run_cut(restart);
    }
    mst_lib_unlock(restart->client);
}

static void *abort_thread(void *ctx)
{
    struct muster_restart *restart = ctx;
    struct mst_abort *abort = &restart->abort;

    mst_lib_thread.no_waiting =
        "called from an abort callback, which is to return before the function can be cut short";
    (void)pthread_mutex_lock(&abort->lock);
    while (!abort->stop) {
        if (abort->state != MST_ABORT_WANTED) {
            (void)pthread_cond_wait(&abort->changed, &abort->lock);
            continue;
        }
        abort->state = MST_ABORT_RUNS;
        (void)pthread_mutex_unlock(&abort->lock);
        callbacks(restart);
        (void)pthread_mutex_lock(&abort->lock);
        abort->state = MST_ABORT_DONE;
        (void)pthread_cond_broadcast(&abort->changed);
    }
    (void)pthread_mutex_unlock(&abort->lock);
    return NULL;
}

muster_status mst_abort_start(struct muster_restart *restart, struct muster_error *err)
{
    struct mst_abort *abort = &restart->abort;

    abort->stop = false;
    abort->state = MST_ABORT_NONE;
    if (restart->settings.steps[MST_STEP_ABORT].count == 0) {
        return MUSTER_OK;
    }
    if (mst_thread_start(&abort->thread, 0, abort_thread, restart) != 0) {
        return mst_lib_fail(err, MUSTER_ENOMEM, "run: start the thread of the abort callbacks",
                            NULL);
    }
    abort->thread_runs = true;
    return MUSTER_OK;
}

void mst_abort_stop(struct muster_restart *restart)
{
    struct mst_abort *abort = &restart->abort;

    if (!abort->thread_runs) {
        return;
    }
    (void)pthread_mutex_lock(&abort->lock);
    abort->stop = true;
    (void)pthread_cond_broadcast(&abort->changed);
    (void)pthread_mutex_unlock(&abort->lock);
    (void)pthread_join(abort->thread, NULL);
    abort->thread_runs = false;
}

void mst_abort_reset(struct muster_restart *restart)
{
    (void)pthread_mutex_lock(&restart->abort.lock);
    restart->abort.state = MST_ABORT_NONE;
    (void)pthread_mutex_unlock(&restart->abort.lock);
}

void mst_abort_want(struct muster_restart *restart)
{
    struct mst_abort *abort = &restart->abort;

    if (!abort->thread_runs) {
        return;
    }
    (void)pthread_mutex_lock(&abort->lock);
    if (abort->state == MST_ABORT_NONE) {
        abort->state = MST_ABORT_WANTED;
        abort->wanted_ns = mst_lib_now_ns();
        (void)pthread_cond_broadcast(&abort->changed);
    }
    (void)pthread_mutex_unlock(&abort->lock);
}

void mst_abort_wait(struct muster_restart *restart)
{
    struct mst_abort *abort = &restart->abort;

    if (!abort->thread_runs) {
        return;
    }
    (void)pthread_mutex_lock(&abort->lock);
    while (abort->state == MST_ABORT_WANTED || abort->state == MST_ABORT_RUNS) {
        (void)pthread_cond_wait(&abort->changed, &abort->lock);
    }
    (void)pthread_mutex_unlock(&abort->lock);
}

bool mst_abort_let(struct muster_restart *restart, uint64_t now_ns)
{
    struct mst_abort *abort = &restart->abort;
    bool let;

    if (!abort->thread_runs) {
        return true;
    }
    (void)pthread_mutex_lock(&abort->lock);
    let = abort->state == MST_ABORT_DONE || abort->state == MST_ABORT_NONE ||
          now_ns - abort->wanted_ns >= HEAD_START_NS;
    (void)pthread_mutex_unlock(&abort->lock);
    return let;
}
