/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLI_LOOK_TERMINAL_H
#define MST_CLI_LOOK_TERMINAL_H

/* The terminal of `muster top`: the alternate screen, keys as they are typed, and the terminal as
 * it was on every way out. One at a time in a process. */

#include <stdbool.h>
#include <stdint.h>

enum mst_terminal_event {
    MST_TERMINAL_TIME = 0, /* the time is over */
    MST_TERMINAL_KEY,      /* `key` */
    MST_TERMINAL_SIZE,     /* it has another size, or shows something else: draw it anew */
    MST_TERMINAL_END       /* a signal ends this process: `signal` */
};

struct mst_terminal {
    uint32_t columns, rows;
    int key, signal;
    int signals; /* a descriptor; private from here on */
    unsigned char typed[64];
    unsigned typed_count, typed_at;
};

/* Of stdin and stdout. Signals are blocked from here on. False: it is no terminal, with errno. */
bool mst_terminal_open(struct mst_terminal *terminal);
void mst_terminal_show(const char *drawn); /* what mst_top_screen_draw makes */
/* At most so long. A stop of this process (Ctrl-Z) happens in it. */
enum mst_terminal_event mst_terminal_wait(struct mst_terminal *terminal, uint64_t most_ms);
/* The terminal is as it was. */
void mst_terminal_close(struct mst_terminal *terminal);

#endif
