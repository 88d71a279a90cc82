/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_SERVER_HTTP_PLACES_H
#define MST_SERVICE_SERVER_HTTP_PLACES_H

/* The connections of the HTTP port, and which of them goes when there are too many.
 *
 *   IDLE --its head is whole--> ANSWERING --answer sent--> IDLE
 *                                |     ^
 *             suspended: ASKING <+     +- resumed
 *
 * libmicrohttpd measures silence, and one byte every few seconds is no silence. So each stage has
 * one deadline, whatever comes meanwhile. Where there is no place, or an address has its share, the
 * connection goes that was IDLE longest (it may be in the middle of a head), if that is a second at
 * least: a probe that has just connected is not the one to go. Else the one goes that has been
 * ANSWERING longest, else the one IDLE longest. If its address has fewer places than that of the
 * newcomer, one of the latter goes: who comes again and again takes no probe's place, however long
 * that one waits for a processor. One that goes is shut down: libmicrohttpd sees its
 * end and closes it. It does not see the end of a suspended one, which therefore never goes; the
 * user of this module bounds how many are ASKING, and for how long.
 *
 * Opened, moved and closed on one thread, expired on another. */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/list.h"

enum mst_http_stage {
    MST_HTTP_PLACE_IDLE,
    MST_HTTP_PLACE_ASKING,
    MST_HTTP_PLACE_ANSWERING,
    MST_HTTP_PLACE_STAGES
};

struct mst_http_place {
    struct mst_list link; /* in its stage, oldest first; unlinked: shut down */
    int fd;
    uint64_t since_ns, until_ns; /* in this stage */
    unsigned char peer[18];      /* family and address; zero: a Unix socket */
};

struct mst_http_places {
    pthread_mutex_t lock;
    struct mst_list stages[MST_HTTP_PLACE_STAGES];
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
/* `place` may be NULL, as below. */
void mst_http_place_move(struct mst_http_places *places, struct mst_http_place *place,
                         enum mst_http_stage stage, uint64_t now_ns);
/* Whether both are from one address. */
bool mst_http_place_same_peer(const struct mst_http_place *a, const struct mst_http_place *b);
/* Before the descriptor is closed. */
void mst_http_place_close(struct mst_http_places *places, struct mst_http_place *place);

/* Shuts down overdue connections. Returns the next deadline; UINT64_MAX: none. */
uint64_t mst_http_places_expire(struct mst_http_places *places, uint64_t now_ns);

#endif
