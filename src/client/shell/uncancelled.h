/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLIENT_SHELL_UNCANCELLED_H
#define MST_CLIENT_SHELL_UNCANCELLED_H

/* No function of the library is a cancellation point. poll, write, close and pthread_cond_wait are:
 * a thread cancelled in one of them would unwind with a lock held, or leave its waiter, which lies
 * on its stack, in a list. The locks defer cancellation while they are held, and while a wait has
 * released them; code that works between two locks, or calls the user there, defers it itself.
 * Pairs nest; after the last end a pending request acts at the next cancellation point. */

void mst_uncancelled_begin(void);
void mst_uncancelled_end(void);

#endif
