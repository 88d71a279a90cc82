/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLIENT_SHELL_HOST_H
#define MST_CLIENT_SHELL_HOST_H

/* Runs a machine (proto/machine.h) in a client: makes its calls, passes their replies to it, and
 * drains its effects after each input. `own` carries out the effects of only one machine.
 *
 * A shell has the host as its first member, and mst_host_hook as its hook in the client. The
 * client's lock is held in all functions. */

#include "client/shell/internal.h"
#include "proto/machine.h"

enum { MST_HOST_CALLS_MAX = 16 };

struct mst_host_call {
    struct mst_machine_host *host;
    struct mst_lib_post post;
    uint64_t tag; /* 0: free */
    enum mst_command command;
};

/* The shell's functions for the machine. All but `own` may be NULL. */
struct mst_host_shell {
    const struct mst_machine *kind;
    /* Carries out an effect of the machine's own. True: `answer` follows once it is done. */
    bool (*own)(struct mst_machine_host *host, const void *effect);
    /* The input that the effect asked for. False: the machine was freed, and the host is not
     * touched any more. */
    bool (*answer)(struct mst_machine_host *host);
    void (*look)(struct mst_machine_host *host, uint64_t now_ns); /* before each input */
    void (*calls)(struct mst_machine_host *host);                 /* before each call is made */
    /* What mst_host_ask_names asked for: `reply` has the names. Before the machine is given it. */
    void (*named)(struct mst_machine_host *host, const struct mst_reply *reply);
};

struct mst_machine_host {
    const struct mst_host_shell *shell;
    muster_client *client;
    void *machine;
    bool draining;
    bool silent; /* the machine gets no input any more */
    bool asks;   /* a round is cancelled, to learn who is missing */
    bool named;  /* and these were named since */
    struct mst_host_call calls[MST_HOST_CALLS_MAX];
};

/* The shell's hook in the client, to which it may add. */
struct mst_lib_hook mst_host_hook(struct mst_machine_host *host);

/* After each input that the shell makes itself. */
void mst_host_drain(struct mst_machine_host *host);

/* The shell's own `ended` calls it. */
void mst_host_ended(void *host, uint64_t now_ns, muster_status status);

/* Asks the service to stop the calls of that command; their replies follow. False: none is open. */
bool mst_host_cancel(struct mst_machine_host *host, enum mst_command command);

/* Stops the open round, so that its reply names the missing ranks; the machine makes it again. */
void mst_host_ask_names(struct mst_machine_host *host);

/* Likewise, and waits a second for the reply, or until `over`. False: no rank was named. */
bool mst_host_wait_names(struct mst_machine_host *host, bool (*over)(void *ctx), void *ctx);

/* Discards the replies of all open calls. */
void mst_host_drop(struct mst_machine_host *host);

#endif
