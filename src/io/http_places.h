/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_IO_HTTP_PLACES_H
#define MST_IO_HTTP_PLACES_H

/* The connections of the HTTP port, and which of them goes when there are too many.
 *
 *   IDLE --its head is whole--> ANSWERING --answer sent--> IDLE
 *
 * libmicrohttpd measures silence, and one byte every few seconds is no silence. So each stage has
 * one deadline, whatever comes meanwhile. Where there is no place, or an address has its share, the
 * connection goes that was IDLE longest (it may be in the middle of a head), else the one that has
 * been ANSWERING longest. One that goes is shut down: libmicrohttpd sees its end and closes it.
 *
 * Opened, moved and closed on one thread, expired on another. */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/list.h"

struct mst_http_place {
    struct mst_list link; /* in idle or answering, oldest first; none: on its way out */
    int fd;
    uint64_t until_ns;
    unsigned char peer[18]; /* family and address; zero: a Unix socket */
};

struct mst_http_places {
    pthread_mutex_t lock;
    struct mst_list idle, answering;
    unsigned count, most, each_most; /* those on their way out are not counted */
    unsigned head_ms;                /* from connecting, or the answer before, to a whole head */
    unsigned answer_ms;              /* from there until the answer was read */
};

/* The limits are set by the caller. */
void mst_http_places_init(struct mst_http_places *places);
void mst_http_places_fini(struct mst_http_places *places); /* after all were closed */

/* NULL: no memory. */
struct mst_http_place *mst_http_place_open(struct mst_http_places *places, int fd,
                                           const struct sockaddr *peer, uint64_t now_ns);
void mst_http_place_move(struct mst_http_places *places, struct mst_http_place *place,
                         bool answering, uint64_t now_ns);
/* Before the descriptor is closed. */
void mst_http_place_close(struct mst_http_places *places, struct mst_http_place *place);

/* Shuts down what is overdue. When the next one is: UINT64_MAX: never. */
uint64_t mst_http_places_expire(struct mst_http_places *places, uint64_t now_ns);

#endif
