/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "own_mask.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static sigset_t own(void)
{
    sigset_t mask;

    (void)sigemptyset(&mask);
    (void)sigaddset(&mask, SIGUSR2);
    (void)sigaddset(&mask, SIGWINCH);
    return mask;
}

void own_mask_set(void)
{
    sigset_t mask = own();

    (void)pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

/* 0: none is. */
static int first_other(void)
{
    sigset_t mask = own(), now;

    (void)pthread_sigmask(SIG_SETMASK, NULL, &now);
    for (int number = 1; number < SIGRTMAX; number++) {
        if (sigismember(&now, number) != sigismember(&mask, number)) {
            return number;
        }
    }
    return 0;
}

bool own_mask_stands(void)
{
    return first_other() == 0;
}

void own_mask_assert(const char *after)
{
    int number = first_other();

    if (number != 0) {
        fail_msg("after %s: signal %d is %sblocked", after, number,
                 number == SIGUSR2 || number == SIGWINCH ? "not " : "");
    }
}
