/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLIENT_SHELL_INTERRUPT_H
#define MST_CLIENT_SHELL_INTERRUPT_H

/* The signal rung of the interruption ladder: interrupts a blocking system call of one thread.
 *
 * A signal to that thread, whose handler does nothing and was installed without SA_RESTART, makes a
 * blocking read, recv, poll, sem_wait, nanosleep and the like return EINTR. It affects no mutex,
 * condition or join wait, no computation, and no library that repeats its call on EINTR. A signal
 * that arrives just before the call has no effect, so the sender repeats it until the function has
 * returned. The handler touches nothing and cannot corrupt memory.
 *
 * A write to a full pipe ends as well, and stdio knows no EINTR: the C library marks the stream as
 * failed and drops all that it has buffered, lines of which the caller was told that they are
 * printed. So a thread in stdout or stderr is spared. The sender holds both streams while it sends:
 * a stream that it cannot take is in use. It must be another thread then, as the kernel tells, or
 * no signal is sent this time. Other streams are not known here.
 *
 * Signal actions belong to the process, so runs in several threads share one, which is counted.
 *
 * The handler may also be the application's own, which then does more than nothing: a language
 * runtime notes the signal and raises an exception. It is installed before and stays. */

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "muster/status.h"

struct mst_interrupt {
    int signal; /* 0: this rung is off, all calls are no-ops */
    bool kept;  /* the handler is the application's */
    pthread_t thread;
    pid_t tid;
    sigset_t mask; /* of the thread, as it was */
};

/* The default of the setting: SIGRTMIN + 7. */
int mst_interrupt_standard(void);

/* Lets `signal` interrupt the calling thread; 0: off. EINVAL, with its text, for a signal that
 * cannot be used, that the application has a handler for, or that is a notice. `keep_handler`: the
 * application's handler stays; EINVAL if there is none, or it has SA_RESTART. */
muster_status mst_interrupt_arm(struct mst_interrupt *interrupt, int signal, bool keep_handler,
                                struct muster_error *err);

/* On the armed thread, after the last send: restores action and mask of this signal. A pending
 * signal is consumed first, or the restored action would end the process. */
void mst_interrupt_disarm(struct mst_interrupt *interrupt);

/* Whether a thread is armed with it. MST_LOCK_SIGNALS held. */
bool mst_interrupt_uses(int signal);

/* From any thread, while it is armed. */
void mst_interrupt_send(const struct mst_interrupt *interrupt);

/* The same, unless the thread may be in a write of stdout or stderr. */
void mst_interrupt_send_sparing(const struct mst_interrupt *interrupt);

#endif
