/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LIB_INTERNAL_H
#define MST_LIB_INTERNAL_H

/* What the library's parts, the program and the agent may do with a client beyond the public API:
 * raw requests, calls without a blocked thread, and a hook that whoever drives looks after.
 *
 * One lock per client guards its machine, its connection and everything hung into it. Whoever
 * blocks drives: a thread that waits and finds the connection undriven polls it, feeds the machine
 * and completes the others' calls on the way; the background thread drives only while nobody waits.
 * Callbacks below run with the lock held on whichever thread drives: they must be short, must not
 * block, and may call what says "lock held" and nothing else. */

#include <stdbool.h>
#include <stdint.h>

#include "msg/reply.h"
#include "msg/request.h"
#include "muster/client.h"

struct mst_page;

/* A reply arrived, or was made here (ETIMEDOUT, ECANCELLED, EFENCED, ...). Copy what is to stay. */
typedef void mst_lib_reply_fn(void *ctx, const struct mst_reply *reply);

/* ---- blocking, lock not held ---- */

/* One request, blocking as a public function does: interruptible, refused in a forked child,
 * refused from a callback. `timeout_ms` as in client.h. `what` says what is attempted, for the text
 * ("put 'x'"). `on_reply` (may be NULL) sees every reply, also one that failed. The result is the
 * reply's status, with `err` filled when it is negative. */
muster_status mst_lib_call(muster_client *client, const struct mst_request *request,
                           int64_t timeout_ms, mst_lib_reply_fn *on_reply, void *ctx,
                           struct muster_error *err, const char *what);

/* ---- lock held, except where said ---- */

void mst_lib_lock(muster_client *client);   /* lock not held */
void mst_lib_unlock(muster_client *client); /* also sends what was posted and wakes who must know */
uint64_t mst_lib_now_ns(void);              /* any time */

/* A call without a blocked thread. The memory is the caller's and must stay until `complete` was
 * called, which happens exactly once, never from within mst_lib_post. */
struct mst_lib_post {
    mst_lib_reply_fn *complete;
    void *ctx;
    bool open;  /* the library's: not completed yet */
    bool local; /* the library's: in complete, the status was made here and is not the service's */
};

/* Everything in `request` is copied. `deadline_ns` UINT64_MAX: none. ENOMEM, ELIMIT, EFENCED: it
 * was not posted, and complete is not called. */
muster_status mst_lib_post(muster_client *client, const struct mst_request *request,
                           uint64_t deadline_ns, struct mst_lib_post *post);

/* Asks the service to stop the call. `complete` is still called, with the service's word on it
 * (ECANCELLED, or what was decided before), also when the connection is lost meanwhile. */
void mst_lib_post_cancel(muster_client *client, struct mst_lib_post *post);

/* No reply is wanted any more: `complete` is not called, the memory is the caller's again, and the
 * service is told. A post that is not open: a no-op. */
void mst_lib_post_drop(muster_client *client, struct mst_lib_post *post);

/* Blocks, and drives, until `ready` says so (checked after each turn) or `deadline_ns` has passed:
 * false. Not cut short by mst_lib_interrupt or by closing. When the client is poisoned meanwhile it
 * returns true, so look at mst_lib_status too. */
bool mst_lib_wait(muster_client *client, bool (*ready)(void *ctx), void *ctx, uint64_t deadline_ns);

/* OK, or why this handle will never work again: EFENCED and the like (the session ended),
 * ECANCELLED (closing, or left), EINTERNAL (poisoned). */
muster_status mst_lib_status(const muster_client *client);

/* What the service last told; not the iteration. */
const struct mst_view *mst_lib_view(const muster_client *client);
bool mst_lib_stopped(const muster_client *client); /* the self-stop of the lease rule */

/* While on, every blocking public call of the user returns EINTERRUPTED promptly, also those in
 * progress in other threads. Posts and mst_lib_wait go on. */
void mst_lib_interrupt(muster_client *client, bool on);
bool mst_lib_interrupted(const muster_client *client);

/* What the restart glue hangs in. Any function may be NULL. */
struct mst_lib_hook {
    void (*attention)(void *ctx, uint64_t now_ns, const struct mst_view *view, bool stopped);
    void (*ended)(void *ctx, uint64_t now_ns, muster_status status);
    uint64_t (*deadline_ns)(void *ctx); /* UINT64_MAX: never */
    void (*tick)(void *ctx, uint64_t now_ns);
    void (*poisoned)(void *ctx); /* after a broken invariant: no machine may be touched any more */
    void (*release)(void *ctx);  /* the client is freed: last of all, no lock, no thread any more */
    void *ctx;
};

/* Copied; NULL takes it out. Stays from the first muster_restart_run to the end of the client. */
void mst_lib_hook(muster_client *client, const struct mst_lib_hook *hook);
void *mst_lib_hook_ctx(const muster_client *client); /* NULL: no hook yet */

/* The progress page of this process, mapped, or NULL. Lives as long as the client. No lock needed.
 */
struct mst_page *mst_lib_page(muster_client *client);

void mst_lib_log(muster_client *client, enum muster_level level, const char *line);

/* ---- no lock ---- */

/* EINVAL with its text for a handle that is NULL or of the parent process; EDEADLK from a callback
 * of this client; EINTERNAL when poisoned. Every public function begins with it. */
muster_status mst_lib_enter(muster_client *client, struct muster_error *err, const char *what);

/* Fills `err` (may be NULL) with one line built from what was attempted, the status and the reply
 * (may be NULL); returns `status`. */
muster_status mst_lib_fail(struct muster_error *err, muster_status status, const char *what,
                           const struct mst_reply *reply);

/* The value of a CLIENT or RESTART setting: the environment's, else the default. EINVAL with its
 * text for one that makes no sense. Not for TEXT settings. `set_out` (may be NULL): whether the
 * environment has it. */
muster_status mst_lib_setting(const char *name, int64_t *out, bool *set_out,
                              struct muster_error *err);

/* EINVAL with its text for a number that an option gives instead and that the setting's row does
 * not allow. */
muster_status mst_lib_setting_check(const char *name, int64_t value, struct muster_error *err);

/* muster_client_view with the iteration of a run, and the restart glue's reports, use this. */
void mst_lib_iteration(muster_client *client, uint64_t iteration); /* lock held */

#endif
