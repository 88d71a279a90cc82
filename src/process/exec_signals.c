/* SPDX-License-Identifier: Apache-2.0 */
/* sigprocmask, sigaction. */
#define _GNU_SOURCE
#include "process/exec_signals.h"

#include <signal.h>
#include <stddef.h>

void mst_exec_signals(void)
{
    sigset_t none;

    for (int number = 1; number < NSIG; number++) {
        struct sigaction action;

        if (sigaction(number, NULL, &action) == 0 &&
            (action.sa_handler != SIG_IGN || number == SIGPIPE)) {
            (void)signal(number, SIG_DFL);
        }
    }
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}
