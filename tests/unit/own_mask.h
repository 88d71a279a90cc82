/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OWN_MASK_H
#define OWN_MASK_H

/* A signal mask that nobody else would choose: what blocks signals for a moment has to leave it as
 * it was. SIGUSR2 and SIGWINCH are blocked. */

#include <stdbool.h>

/* Of the calling thread, and of those that it starts. */
void own_mask_set(void);

/* Whether the calling thread has it. */
bool own_mask_stands(void);

/* On the main thread of a test: fails with the first signal that is otherwise. */
void own_mask_assert(const char *after);

#endif
