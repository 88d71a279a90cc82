/* SPDX-License-Identifier: Apache-2.0 */
/* Which connection of the HTTP port goes when there are too many.
 *
 * behaviour: http / Requests */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <sys/socket.h>

#include "base/time.h"
#include "service/server/http_places.h"

enum { MOST = 8, EACH_MOST = 5, PROBE = 1, CROWD = 2 };

static struct mst_http_place *come(struct mst_http_places *places, uint8_t address, uint64_t ms)
{
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(address)};
    struct mst_http_place *place =
        mst_http_place_open(places, -1, (const struct sockaddr *)&peer, ms * NS_PER_MS);

    assert_non_null(place);
    return place;
}

static void begin(struct mst_http_places *places)
{
    mst_http_places_init(places);
    places->most = MOST;
    places->each_most = EACH_MOST;
    places->head_ms = places->answer_ms = 10000;
}

static void fill(struct mst_http_places *places, struct mst_http_place *crowd[MOST])
{
    for (unsigned i = 0; i < MOST - 1; i++) {
        crowd[i + 1] = come(places, (uint8_t)(CROWD + i % 2), 1);
    }
}

static bool is_there(const struct mst_http_place *place)
{
    return mst_list_linked(&place->link);
}

static void empty(struct mst_http_places *places, struct mst_http_place *const crowd[MOST])
{
    for (unsigned i = 1; i < MOST; i++) {
        mst_http_place_close(places, crowd[i]);
    }
    assert_int_equal(places->count, 0);
    mst_http_places_fini(places);
}

/* All places are taken, and clients of a few addresses keep coming. A probe of another address that
 * has not sent its head for seconds keeps its place: one of those goes that have more. */
static void a_crowd_takes_no_place_of_who_has_few(void **state)
{
    struct mst_http_places places = {0};
    struct mst_http_place *crowd[MOST], *probe, *later;

    (void)state;
    begin(&places);
    probe = come(&places, PROBE, 0);
    fill(&places, crowd);
    later = come(&places, CROWD, 5000);
    assert_true(is_there(probe) && is_there(later));
    assert_false(is_there(crowd[1]));
    mst_http_place_close(&places, later);
    mst_http_place_close(&places, probe);
    empty(&places, crowd);
}

/* All places are taken, and a probe comes from an address that has none. It is let in, and the
 * connection that has waited longest goes. */
static void who_has_none_is_let_in(void **state)
{
    struct mst_http_places places = {0};
    struct mst_http_place *crowd[MOST], *last, *probe;

    (void)state;
    begin(&places);
    fill(&places, crowd);
    last = come(&places, CROWD + 2, 2);
    probe = come(&places, PROBE, 5000);
    assert_true(is_there(probe) && is_there(last));
    assert_false(is_there(crowd[1]));
    mst_http_place_close(&places, probe);
    mst_http_place_close(&places, last);
    empty(&places, crowd);
}

/* An address has its share of the places, and there are others. One of its own goes for the next
 * one. */
static void a_share_is_not_exceeded(void **state)
{
    struct mst_http_places places = {0};
    struct mst_http_place *crowd[MOST], *more[2];

    (void)state;
    begin(&places);
    fill(&places, crowd);
    mst_http_place_close(&places, crowd[2]);
    more[0] = come(&places, CROWD, 2);
    more[1] = come(&places, CROWD, 3);
    assert_false(is_there(crowd[1]));
    for (unsigned i = 3; i < MOST; i++) {
        assert_true(is_there(crowd[i]));
    }
    mst_http_place_close(&places, more[0]);
    mst_http_place_close(&places, more[1]);
    crowd[2] = come(&places, CROWD, 4);
    empty(&places, crowd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_crowd_takes_no_place_of_who_has_few),
        cmocka_unit_test(who_has_none_is_let_in),
        cmocka_unit_test(a_share_is_not_exceeded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
