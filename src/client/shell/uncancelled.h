/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLIENT_SHELL_UNCANCELLED_H
#define MST_CLIENT_SHELL_UNCANCELLED_H

/* No function of the library is a cancellation point. poll, write, close and pthread_cond_wait are:
 * a thread cancelled in one of them would unwind with a lock held, or leave its waiter, which lies
 * on its stack, in a list. The locks defer cancellation for as long as they are held, and while a
 * wait has given them back; what works between two locks, or calls the user back there, defers it
 * itself. Pairs nest; the last end lets a pending request through at the next cancellation point.
 */

void mst_uncancelled_begin(void);
void mst_uncancelled_end(void);

#endif
