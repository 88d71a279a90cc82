/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "process/pty.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

int mst_pty_open(int terminal, int *out)
{
    int pty = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK), other = -1, error;
    struct termios modes;

    if (pty >= 0 && grantpt(pty) == 0 && unlockpt(pty) == 0) {
        other = ioctl(pty, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    }
    if (other < 0) {
        error = errno;
        if (pty >= 0) {
            (void)close(pty);
        }
        errno = error;
        return -1;
    }
    /* While a shell edits its own line there, the modes are for that. */
    if (tcgetattr(terminal, &modes) == 0 && (modes.c_lflag & ICANON) != 0) {
        (void)tcsetattr(other, TCSANOW, &modes);
    }
    mst_pty_resize(pty, terminal);
    *out = other;
    return pty;
}

void mst_pty_resize(int pty, int terminal)
{
    struct winsize size;

    if (ioctl(terminal, TIOCGWINSZ, &size) == 0) {
        (void)ioctl(pty, TIOCSWINSZ, &size);
    }
}
