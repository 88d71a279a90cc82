/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "service/server/http_places.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/panic.h"
#include "base/time.h"

#define FRESH_NS                                                                                   \
    (1000 * NS_PER_MS) /* so long a connection may take for its head, whatever comes               \
                        */

static struct mst_http_place *place_of(struct mst_list *node)
{
    return MST_CONTAINER(node, struct mst_http_place, link);
}

void mst_http_places_init(struct mst_http_places *places)
{
    pthread_mutex_init(&places->lock, NULL);
    for (unsigned stage = 0; stage < MST_HTTP_PLACE_STAGES; stage++) {
        mst_list_init(&places->stages[stage]);
    }
}

void mst_http_places_fini(struct mst_http_places *places)
{
    pthread_mutex_destroy(&places->lock);
}

static void name_peer(struct mst_http_place *place, const struct sockaddr *peer)
{
    if (peer && peer->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)peer;

        place->peer[0] = AF_INET;
        memcpy(place->peer + 2, &in->sin_addr, sizeof in->sin_addr);
    } else if (peer && peer->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const void *)peer;

        place->peer[0] = AF_INET6;
        memcpy(place->peer + 2, &in->sin6_addr, sizeof in->sin6_addr);
    }
}

/* ---- which one goes ---- */

static void let_go(struct mst_http_places *places, struct mst_http_place *place)
{
    mst_list_remove(&place->link);
    places->count--;
    (void)shutdown(place->fd, SHUT_RDWR);
}

bool mst_http_place_same_peer(const struct mst_http_place *a, const struct mst_http_place *b)
{
    return a && b && memcmp(a->peer, b->peer, sizeof a->peer) == 0;
}

static unsigned count_of(const struct mst_http_places *places, const struct mst_http_place *like)
{
    unsigned count = 0;

    for (unsigned stage = 0; stage < MST_HTTP_PLACE_STAGES; stage++) {
        const struct mst_list *list = &places->stages[stage];

        for (struct mst_list *node = list->next; node != list; node = node->next) {
            count += mst_http_place_same_peer(place_of(node), like);
        }
    }
    return count;
}

/* Of this peer; NULL: of all peers. */
static struct mst_http_place *oldest(const struct mst_list *list, const struct mst_http_place *like)
{
    for (struct mst_list *node = list->next; node != list; node = node->next) {
        if (!like || mst_http_place_same_peer(place_of(node), like)) {
            return place_of(node);
        }
    }
    return NULL;
}

/* Of this peer; NULL: of all peers. */
static struct mst_http_place *chosen(const struct mst_http_places *places,
                                     const struct mst_http_place *like, uint64_t now_ns)
{
    struct mst_http_place *idle = oldest(&places->stages[MST_HTTP_PLACE_IDLE], like);
    struct mst_http_place *answering = oldest(&places->stages[MST_HTTP_PLACE_ANSWERING], like);

    return idle && (!answering || now_ns - idle->since_ns >= FRESH_NS) ? idle : answering;
}

static void make_room(struct mst_http_places *places, const struct mst_http_place *newcomer,
                      uint64_t now_ns)
{
    const unsigned own = count_of(places, newcomer);
    struct mst_http_place *goes = NULL;

    if (own >= places->each_most) {
        goes = chosen(places, newcomer, now_ns);
    } else if (places->count >= places->most) {
        goes = chosen(places, NULL, now_ns);
        if (goes && count_of(places, goes) < own) {
            struct mst_http_place *instead = chosen(places, newcomer, now_ns);

            goes = instead ? instead : goes;
        }
    }
    if (goes) {
        let_go(places, goes);
    }
}

/* ---- */

static void enter(struct mst_http_places *places, struct mst_http_place *place,
                  enum mst_http_stage stage, uint64_t now_ns)
{
    const unsigned ms = stage == MST_HTTP_PLACE_IDLE ? places->head_ms : places->answer_ms;

    place->since_ns = now_ns;
    place->until_ns = now_ns + ms * NS_PER_MS;
    mst_list_append(&places->stages[stage], &place->link);
}

struct mst_http_place *mst_http_place_open(struct mst_http_places *places, int fd,
                                           const struct sockaddr *peer, uint64_t now_ns)
{
    struct mst_http_place *place = calloc(1, sizeof *place);

    if (!place) {
        return NULL;
    }
    place->fd = fd;
    name_peer(place, peer);
    pthread_mutex_lock(&places->lock);
    make_room(places, place, now_ns);
    enter(places, place, MST_HTTP_PLACE_IDLE, now_ns);
    places->count++;
    pthread_mutex_unlock(&places->lock);
    return place;
}

void mst_http_place_move(struct mst_http_places *places, struct mst_http_place *place,
                         enum mst_http_stage stage, uint64_t now_ns)
{
    if (!place) {
        return;
    }
    pthread_mutex_lock(&places->lock);
    if (mst_list_linked(&place->link)) {
        mst_list_remove(&place->link);
        enter(places, place, stage, now_ns);
    }
    pthread_mutex_unlock(&places->lock);
}

void mst_http_place_close(struct mst_http_places *places, struct mst_http_place *place)
{
    pthread_mutex_lock(&places->lock);
    if (mst_list_linked(&place->link)) {
        mst_list_remove(&place->link);
        places->count--;
    }
    pthread_mutex_unlock(&places->lock);
    free(place);
}

static uint64_t expire(struct mst_http_places *places, const struct mst_list *list, uint64_t now_ns)
{
    struct mst_http_place *first;

    while ((first = oldest(list, NULL)) && first->until_ns <= now_ns) {
        let_go(places, first);
    }
    return first ? first->until_ns : UINT64_MAX;
}

uint64_t mst_http_places_expire(struct mst_http_places *places, uint64_t now_ns)
{
    uint64_t idle_ns, answering_ns;

    pthread_mutex_lock(&places->lock);
    idle_ns = expire(places, &places->stages[MST_HTTP_PLACE_IDLE], now_ns);
    answering_ns = expire(places, &places->stages[MST_HTTP_PLACE_ANSWERING], now_ns);
    pthread_mutex_unlock(&places->lock);
    return idle_ns < answering_ns ? idle_ns : answering_ns;
}
