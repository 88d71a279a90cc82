/* SPDX-License-Identifier: Apache-2.0 */
/* What the binding has in C beside the public headers: it becomes part of the generated source. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

typedef void muster_python_log_fn(void *ctx, enum muster_level level, const char *line);
typedef void muster_python_crash_fn(void *ctx, const char *line);

/* The library tells its lines on whatever thread drives the connection, and that must not wait for
 * the interpreter, which a computation may hold for longer than a lease. So a line goes into a
 * socket, one message each, and a thread of Python reads them. If it falls far behind, lines are
 * lost. */
static void muster_python_log(void *ctx, enum muster_level level, const char *line)
{
    char message[1024];
    int size = snprintf(message, sizeof(message), "%d%s", (int)level, line);

    if (size >= (int)sizeof(message)) {
        size = (int)sizeof(message) - 1;
    }
    if (size > 0) {
        (void)!send((int)(intptr_t)ctx, message, (size_t)size, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
}

static muster_python_log_fn *muster_python_log_address(void)
{
    return muster_python_log;
}

/* The process ends with the return: no thread of Python will tell the line. */
static void muster_python_crash(void *ctx, const char *line)
{
    (void)ctx;
    (void)fprintf(stderr, "%s\n", line);
    (void)fflush(stderr);
}

static muster_python_crash_fn *muster_python_crash_address(void)
{
    return muster_python_crash;
}

/* --- the restarted function --- */

/* Of Python, below. */
static muster_status muster_python_call(muster_restart *restart, void *arg);
static muster_status muster_python_callback(muster_restart *restart, void *arg);

/* The run whose function this thread is in; NULL: it is in none, or in a callback. It is kept here
 * and not in Python, where an exception may come between the return of the function and the line
 * that would note it. */
static _Thread_local muster_restart *muster_python_inside;

enum { MUSTER_PYTHON_TICK_NS = 250000000 }; /* well below each soft_timeout that makes sense */

/* The pending call that shows that the interpreter runs on the main thread. One at a time. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    unsigned users;
    bool stop;
    _Atomic bool pending;
} muster_python_watch = {.lock = PTHREAD_MUTEX_INITIALIZER};

static muster_status muster_python_function(muster_restart *restart, void *arg)
{
    muster_restart *outer = muster_python_inside;
    muster_status status;

    muster_python_inside = restart;
    status = muster_python_call(restart, arg);
    muster_python_inside = outer;
    return status;
}

static muster_status muster_python_hook(muster_restart *restart, void *arg)
{
    muster_restart *outer = muster_python_inside;
    muster_status status;

    muster_python_inside = NULL;
    status = muster_python_callback(restart, arg);
    muster_python_inside = outer;
    return status;
}

static muster_restart_callback *muster_python_function_address(void)
{
    return muster_python_function;
}

static muster_restart_callback *muster_python_hook_address(void)
{
    return muster_python_hook;
}

static muster_status muster_python_nothing(muster_restart *restart, void *arg)
{
    (void)restart;
    (void)arg;
    return MUSTER_OK;
}

static muster_restart_callback *muster_python_nothing_address(void)
{
    return muster_python_nothing;
}

/* The function has returned, and nothing is to be raised any more. */
static void muster_python_left(void)
{
    muster_python_inside = NULL;
}

/* Whether the function of this thread is to be interrupted now: not what has returned meanwhile,
 * and nothing in an atomic section. */
static bool muster_python_told(void)
{
    return muster_restart_interrupted(muster_python_inside);
}

/* On the main thread, with the interpreter's lock. */
static int muster_python_tick(void *arg)
{
    (void)arg;
    muster_python_watch.pending = false;
    muster_restart_alive(muster_python_inside); /* no check, which would tell the function */
    return 0;
}

/* A pending call of another thread makes the main one look for it in few versions of Python (not in
 * 3.10 to 3.12), until that has waited for something. A thread that wants the interpreter's lock
 * makes it look in all. */
static void muster_python_nudge(void)
{
    (void)pthread_mutex_unlock(&muster_python_watch.lock);
    PyGILState_Release(PyGILState_Ensure());
    (void)pthread_mutex_lock(&muster_python_watch.lock);
}

/* The lock of the interpreter is only asked for where the call of the last time has not run. */
static void *muster_python_watching(void *arg)
{
    struct timespec next;

    (void)arg;
    (void)pthread_mutex_lock(&muster_python_watch.lock);
    while (!muster_python_watch.stop) {
        if (muster_python_watch.pending) {
            muster_python_nudge();
        } else {
            muster_python_watch.pending = true;
            if (Py_AddPendingCall(muster_python_tick, NULL) != 0) { /* there are too many */
                muster_python_watch.pending = false;
            }
        }
        if (muster_python_watch.stop) { /* meanwhile */
            break;
        }
        (void)clock_gettime(CLOCK_MONOTONIC, &next);
        next.tv_nsec += MUSTER_PYTHON_TICK_NS;
        if (next.tv_nsec >= 1000000000) {
            next.tv_sec++;
            next.tv_nsec -= 1000000000;
        }
        (void)pthread_cond_timedwait(&muster_python_watch.changed, &muster_python_watch.lock,
                                     &next);
    }
    (void)pthread_mutex_unlock(&muster_python_watch.lock);
    return NULL;
}

/* On the main thread. The thread of the first run serves those inside of it. 0, or an errno. */
static int muster_python_watch_start(void)
{
    pthread_condattr_t attributes;
    sigset_t all, before;
    int failed = 0;

    if (muster_python_watch.users == 0) {
        (void)pthread_condattr_init(&attributes);
        (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        (void)pthread_cond_init(&muster_python_watch.changed, &attributes);
        (void)pthread_condattr_destroy(&attributes);
        muster_python_watch.stop = muster_python_watch.pending = false;
        sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &before);
        failed = pthread_create(&muster_python_watch.thread, NULL, muster_python_watching, NULL);
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    if (failed == 0) {
        muster_python_watch.users++;
    }
    return failed;
}

static void muster_python_watch_stop(void)
{
    if (--muster_python_watch.users > 0) {
        return;
    }
    (void)pthread_mutex_lock(&muster_python_watch.lock);
    muster_python_watch.stop = true;
    (void)pthread_cond_broadcast(&muster_python_watch.changed);
    (void)pthread_mutex_unlock(&muster_python_watch.lock);
    (void)pthread_join(muster_python_watch.thread, NULL);
    (void)pthread_cond_destroy(&muster_python_watch.changed);
}
