/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cli/look/terminal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "view/screen.h"

/* The alternate screen, no cursor, and no line that goes on in the next one. */
#define ENTER "\033[?1049h\033[?25l\033[?7l\033[H\033[2J"
#define LEAVE "\033[?7h\033[?25h\033[?1049l"
#define ESCAPE 0x1b
enum { ESCAPE_MS = 30 }; /* the rest of a key's sequence comes at once */

/* For the handler of signals that end a process at once. */
static struct termios before;
static volatile sig_atomic_t changed;

static void put(const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t done = write(STDOUT_FILENO, bytes, size);

        if (done < 0 && errno != EINTR) {
            return; /* the terminal is gone: reading says so */
        }
        bytes += done > 0 ? done : 0;
        size -= done > 0 ? (size_t)done : 0;
    }
}

static void leave(void)
{
    if (changed) {
        changed = 0;
        put(LEAVE, sizeof LEAVE - 1);
        (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
    }
}

static void enter(void)
{
    struct termios raw = before;

    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
    changed = 1;
    put(ENTER, sizeof ENTER - 1);
}

static void measure(struct mst_terminal *terminal)
{
    struct winsize size = {.ws_col = 0};

    (void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    terminal->columns = size.ws_col > 0 ? size.ws_col : 80;
    terminal->rows = size.ws_row > 0 ? size.ws_row : 24;
}

/* A crash: only what is safe in a handler. */
static void on_crash(int number)
{
    leave();
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

static void catch_crashes(void)
{
    static const int crashes[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};

    for (size_t i = 0; i < sizeof crashes / sizeof crashes[0]; i++) {
        struct sigaction action = {.sa_handler = on_crash};

        (void)sigaction(crashes[i], &action, NULL);
    }
}

bool mst_terminal_open(struct mst_terminal *terminal)
{
    static const int taken[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH};
    sigset_t set;

    *terminal = (struct mst_terminal){.signals = -1};
    if (tcgetattr(STDIN_FILENO, &before) != 0) {
        return false;
    }
    (void)sigemptyset(&set);
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        (void)sigaddset(&set, taken[i]);
    }
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    terminal->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (terminal->signals < 0) {
        return false;
    }
    catch_crashes();
    measure(terminal);
    enter();
    return true;
}

void mst_terminal_show(const char *drawn)
{
    put("\033[H", 3);
    put(drawn, strlen(drawn));
}

void mst_terminal_close(struct mst_terminal *terminal)
{
    leave();
    if (terminal->signals >= 0) {
        (void)close(terminal->signals);
        terminal->signals = -1;
    }
}

/* ---- keys ---- */

static int next_byte(struct mst_terminal *terminal, int most_ms)
{
    struct pollfd item = {.fd = STDIN_FILENO, .events = POLLIN};
    ssize_t got;

    if (terminal->typed_at == terminal->typed_count) {
        terminal->typed_at = terminal->typed_count = 0;
        if (poll(&item, 1, most_ms) != 1) {
            return -1;
        }
        got = read(STDIN_FILENO, terminal->typed, sizeof terminal->typed);
        if (got <= 0) {
            return -1;
        }
        terminal->typed_count = (unsigned)got;
    }
    return terminal->typed[terminal->typed_at++];
}

/* Behind "ESC [" or "ESC O". */
static int sequence(struct mst_terminal *terminal)
{
    static const struct {
        char last;
        int number, key;
    } keys[] = {{'A', 0, MST_KEY_UP},   {'B', 0, MST_KEY_DOWN},    {'H', 0, MST_KEY_HOME},
                {'F', 0, MST_KEY_END},  {'~', 5, MST_KEY_PAGE_UP}, {'~', 6, MST_KEY_PAGE_DOWN},
                {'~', 1, MST_KEY_HOME}, {'~', 4, MST_KEY_END},     {'M', 0, MST_KEY_ENTER}};
    int byte, number = 0;

    while ((byte = next_byte(terminal, ESCAPE_MS)) >= 0 && byte < '@') {
        number = byte >= '0' && byte <= '9' && number < 1000 ? number * 10 + byte - '0' : number;
    }
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (keys[i].last == byte && (keys[i].last != '~' || keys[i].number == number)) {
            return keys[i].key;
        }
    }
    return 0;
}

static int key_of(struct mst_terminal *terminal, int byte)
{
    int next;

    switch (byte) {
    case '\r':
    case '\n':
        return MST_KEY_ENTER;
    case 0x7f:
    case '\b':
        return MST_KEY_ERASE;
    case ESCAPE:
        next = next_byte(terminal, ESCAPE_MS);
        return next == '[' || next == 'O' ? sequence(terminal) : MST_KEY_ESCAPE;
    default:
        return byte;
    }
}

/* ---- signals ---- */

/* Ctrl-Z: the shell has its terminal back until this process continues. */
static void stop(void)
{
    leave();
    (void)raise(SIGSTOP);
    enter();
}

static enum mst_terminal_event take_signal(struct mst_terminal *terminal)
{
    struct signalfd_siginfo info;

    if (read(terminal->signals, &info, sizeof info) != (ssize_t)sizeof info) {
        return MST_TERMINAL_TIME;
    }
    switch (info.ssi_signo) {
    case SIGTSTP:
        stop();
        break;
    case SIGCONT: /* it was stopped in another way: the shell may have changed the terminal */
        enter();
        break;
    case SIGWINCH:
        break;
    default:
        terminal->signal = (int)info.ssi_signo;
        return MST_TERMINAL_END;
    }
    measure(terminal);
    put("\033[2J", 4);
    return MST_TERMINAL_SIZE;
}

enum mst_terminal_event mst_terminal_wait(struct mst_terminal *terminal, uint64_t most_ms)
{
    struct pollfd items[] = {{.fd = terminal->signals, .events = POLLIN},
                             {.fd = STDIN_FILENO, .events = POLLIN}};
    int byte;

    if (terminal->typed_at == terminal->typed_count && poll(items, 2, (int)most_ms) <= 0) {
        return MST_TERMINAL_TIME;
    }
    if (items[0].revents != 0) {
        return take_signal(terminal);
    }
    byte = next_byte(terminal, 0);
    if (byte < 0) { /* the terminal is gone */
        terminal->signal = SIGHUP;
        return MST_TERMINAL_END;
    }
    terminal->key = key_of(terminal, byte);
    return MST_TERMINAL_KEY;
}
