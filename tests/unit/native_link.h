/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NATIVE_LINK_H
#define NATIVE_LINK_H

/* Both ends of one native connection, and bytes carried between them by hand. */

#include "proto/native/native.h"

extern const struct mst_mem native_link_mem; /* malloc */

struct native_link {
    struct mst_native_service *service;
    struct mst_native_client *client;
};

void native_link_init(struct native_link *link, const struct mst_limits *limits);
void native_link_fini(struct native_link *link);

/* As init, and the hello and the welcome have been exchanged. */
void native_link_open(struct native_link *link, const struct mst_limits *limits);

/* Carries what one end has to write to the other. */
void native_link_to_service(struct native_link *link);
void native_link_to_client(struct native_link *link);

/* A copy of what an end has to write, taken out of it. The caller frees it. */
unsigned char *native_link_take_client(struct native_link *link, size_t *size_out);
unsigned char *native_link_take_service(struct native_link *link, size_t *size_out);

#endif
