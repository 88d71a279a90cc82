/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_NET_RENDEZVOUS_H
#define MST_NET_RENDEZVOUS_H

/* Addresses: of node 0, and of this machine as other machines see it. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "muster/status.h"

/* A port of `host` that is free now; its user binds it soon, or never does. NULL: of
 * any address; 0: there is none, or `host` is no address of this machine. */
uint16_t mst_rendezvous_free_port(const char *host);

/* Cuts "HOST:PORT" or "[::1]:PORT". False: it is no such thing. */
bool mst_rendezvous_split(const char *address, char *host, size_t room, uint16_t *port_out);

/* "HOST:PORT" again, with brackets where they are needed. */
void mst_rendezvous_join(const char *host, uint16_t port, char *address, size_t room);

/* The number under which others reach what listens on `host`: that itself, or, if it means every
 * address, the one that this machine's name stands for, or that of its first interface to somewhere
 * else. False: there is none, and it is loopback. */
bool mst_rendezvous_reach(const char *host, char *name, size_t room);

/* The number of the first interface to other machines, IPv4 before IPv6. False: there is none. */
bool mst_rendezvous_interface(char *name, size_t room);

/* Whether `list` (commas; NULL: empty) holds the name. */
bool mst_rendezvous_listed(const char *list, const char *name);

/* Whether it holds the name of this machine, `host`, or one of its addresses. */
bool mst_rendezvous_names(const char *list, const char *host);

#endif
